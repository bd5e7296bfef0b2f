"""Times of the programs of tests/least_bytes: `python -m tests.gpu.least --share K/N [--jax]`.

In: every N-th program from the K-th on. Out: a line of JSON each: seconds a call, the best of all
rounds, beside the least bytes that it must move. Arguments are random. Programs compile side by
side and are timed one at a time: whoever times holds a lock. `--jax` times JAX on the same texts.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CHAPTERS = "pointwise", "folds", "programs"
#: Numbers are drawn so often; longer arrays repeat them.
DRAWN = 1 << 22
#: Seconds that a program is timed.
TIMED = 0.12
#: What integers stay below, where it is not the length of the rows that they choose from.
BELOW = {
    "mask of lengths": 8192, "one hot": 1000, "two of 4 bits in a byte": 256,
    "integers of 8 bits": 100, "8 bits to bfloat16, scale a row": 100, "product of 8 bits": 100,
    "branch by branch": 3, "cross-entropy of labels": 50257, "its gradient": 50257,
    "cross-entropy, 4096 classes": 4096, "share that is right": 4096, "rows of a table": 50257,
    "table, positions and scale": 50257, "one of each row": 512, "bincount of 100": 100,
    "means of 1000 groups": 1000, "bins of 8 columns": 100, "columns by number": 1024,
    "step of a cache, donated": 4096,
}  # fmt: skip
#: Programs that take roots or logarithms of what is positive: a GPU calls a function for those of
#: negative numbers, and for quotients of nan.
POSITIVE = {
    "Black-Scholes", "Adam", "Adam, 218 arrays", "LAMB, 218 arrays", "batch norm",
    "rows and columns of squares",
}  # fmt: skip


class _Stub(types.ModuleType):
    """A module of ours that JAX has none of; whatever is asked of it is an empty class."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _InsteadOfOurs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives JAX's modules for ours: the texts of the programs say `gpuarray`."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] == "gpuarray" or name == "tests.least_bytes":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        if spec.name == "tests.least_bytes":
            package = types.ModuleType(spec.name)
            package.__path__ = [str(Path(__file__).parents[1] / "least_bytes")]
            return package
        try:
            return importlib.import_module("jax" + spec.name.removeprefix("gpuarray"))
        except ImportError:
            return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing: it is there."""


def workloads(jax: bool) -> dict[tuple[str, str], Any]:
    """All programs; those of JAX are made of JAX's arrays and functions."""
    if jax:
        sys.meta_path.insert(0, _InsteadOfOurs())
    made = {}
    for name in CHAPTERS:
        chapters = importlib.import_module(f"tests.least_bytes.{name}").CHAPTERS
        for chapter, build in chapters.items():
            made |= {(chapter, n): w for n, w in build().items()}
    return made


def values(name: str, argument: Any, all_shapes: list[tuple[int, ...]]) -> np.ndarray:
    """Random ones."""
    rng, shape, dtype = np.random.default_rng(0), argument.shape, np.dtype(argument.dtype)
    count = min(int(np.prod(shape)), DRAWN)
    if dtype.kind == "b":
        drawn = rng.random(count) < 0.5
    elif dtype.kind in "iu":
        drawn = rng.integers(0, BELOW.get(name, all_shapes[0][0]), count)
    elif dtype.kind == "c":
        drawn = rng.uniform(-1, 1, count) + 1j * rng.uniform(-1, 1, count)
    else:
        drawn = rng.uniform(0.1 if name in POSITIVE else -1, 1, count)
    if name == "sums of sorted segments" and dtype.kind == "i":
        drawn = np.sort(drawn)
    if name == "rows written" and dtype.kind == "i":
        drawn = rng.permutation(all_shapes[0][0])[:count]  # each of them once
    return np.resize(drawn.astype(dtype), shape)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def of_ours() -> tuple[Any, Any, Any, Any]:
    """jit, wait, an array there, a map over trees."""
    import gpuarray as ga
    import gpuarray.numpy as gnp

    return ga, gnp.asarray, ga.ShapeDtypeStruct, ga.tree


def of_jax() -> tuple[Any, Any, Any, Any]:
    """The same of JAX's."""
    import jax
    import jax.numpy as jnp

    return jax, jnp.asarray, jax.ShapeDtypeStruct, jax.tree


def sets_of(name: str, workload: Any, library: Any, count: int) -> list[list[Any]]:
    """Arguments on the device, `count` times."""
    _, array, structure, tree = library
    shapes = [a.shape for a in tree.leaves(workload.arguments) if hasattr(a, "shape")]
    made: dict[Any, np.ndarray] = {}

    def there(a: Any) -> Any:
        if not isinstance(a, structure):
            return a
        key = (a.shape, np.dtype(a.dtype))
        if key not in made:
            made[key] = values(name, a, shapes)
        return array(made[key])

    return [list(tree.map(there, workload.arguments)) for _ in range(count)]


def measured(name: str, workload: Any, library: Any, lock: Path, jax: bool) -> dict[str, Any]:
    """Seconds of a program, alone on the GPU."""
    from bench import clocks

    module, _, structure, tree = library
    nbytes = sum(
        int(np.prod(a.shape)) * np.dtype(a.dtype).itemsize
        for a in tree.leaves(workload.arguments)
        if isinstance(a, structure)
    )
    count = min(16, clocks.how_many_sets(nbytes))
    sets = sets_of(name, workload, library, count)
    wait = functools.partial(_wait, module, tree)
    run = module.jit(workload.function)
    start = time.perf_counter()
    wait(run(*sets[0]))
    found: dict[str, Any] = {"first": time.perf_counter() - start}
    call = clocks.in_turn(run, sets, lambda x: x)
    with alone(lock):
        clock = None if jax else clocks.clock_of("ours")
        samples = clocks.timed(call, wait, clock, TIMED, (3, 40))
    return found | {kind: min(times) for kind, times in samples.items()}


def _wait(module: Any, tree: Any, result: Any) -> Any:
    return module.block_until_ready(result)


def main() -> int:
    """Time a share."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--lock", type=Path, default=Path("build/gpu/least.lock"))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    k, n = map(int, args.share.split("/"))
    args.lock.parent.mkdir(parents=True, exist_ok=True)
    library = of_jax() if args.jax else of_ours()
    each = list(workloads(args.jax).items())[k::n]
    for (chapter, name), workload in each:
        if args.only not in name:
            continue
        started = time.perf_counter()
        line = {"chapter": chapter, "name": name, "least": workload.least, "jax": args.jax}
        try:
            line |= measured(name, workload, library, args.lock, args.jax)
        except Exception as error:
            line["failed"] = f"{type(error).__name__}: {error}"[:600]
        gc.collect()
        if not args.jax:
            library[0].free()
        line["took"] = time.perf_counter() - started
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
