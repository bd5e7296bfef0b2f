"""Times of the programs of tests/least_bytes: `python -m tests.gpu.least --share K/N [--jax]`.

In: every N-th program from the K-th on, with random arguments. Out: a line of JSON each in the file
RESULTS: seconds a call, the best of all rounds, beside the least bytes that it must move; a later
run leaves out what has a line. Shares compile side by side, and time one program at a time: whoever
times holds a lock. `--jax` times JAX on the same texts.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import importlib
import json
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpuarray as ga
from bench import clocks
from tests import golden
from tests.gpu.shard import results_in
from tests.least_bytes import folds, pointwise, programs, workload
from tests.least_bytes.workload import Workload

CHAPTERS = {**pointwise.CHAPTERS, **folds.CHAPTERS, **programs.CHAPTERS}
#: The files that programs are made of.
FILES = (golden, workload, pointwise, folds, programs)
#: Numbers are drawn so often; longer arrays repeat them.
DRAWN = 1 << 22
#: Seconds that a program is timed, and between how many rounds.
TIMED, ROUNDS = 0.12, (3, 40)
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


def library(jax: bool) -> types.ModuleType:
    """The library that is timed. If it is JAX, our modules are JAX's in the programs' files."""
    if not jax:
        return ga
    for module in FILES:
        for name, value in list(vars(module).items()):
            package, _, rest = getattr(value, "__name__", "").partition(".")
            if isinstance(value, types.ModuleType) and package == "gpuarray":
                theirs = importlib.import_module(f"jax.{rest}" if rest else "jax")
                setattr(module, name, theirs)
    return importlib.import_module("jax")


def workloads() -> dict[tuple[str, str], Workload]:
    """All programs, by chapter and name."""
    return {(c, n): w for c, build in CHAPTERS.items() for n, w in build().items()}


def values(name: str, argument: Any, rows: int) -> np.ndarray:
    """Random numbers for an argument; the first argument has so many rows."""
    rng, shape, dtype = np.random.default_rng(0), argument.shape, np.dtype(argument.dtype)
    count = min(int(np.prod(shape)), DRAWN)
    if dtype.kind == "b":
        drawn = rng.random(count) < 0.5
    elif dtype.kind in "iu":
        drawn = rng.integers(0, BELOW.get(name, rows), count)
    elif dtype.kind == "c":
        drawn = rng.uniform(-1, 1, count) + 1j * rng.uniform(-1, 1, count)
    else:
        drawn = rng.uniform(0.1 if name in POSITIVE else -1, 1, count)
    if name == "sums of sorted segments" and dtype.kind == "i":
        drawn = np.sort(drawn)
    if name == "rows written" and dtype.kind == "i":
        drawn = rng.permutation(rows)[:count]  # each of them once
    return np.resize(drawn.astype(dtype), shape)


def arguments(name: str, one: Workload, module: Any, count: int) -> list[list[Any]]:
    """Arguments on the device, `count` times."""
    array = module.numpy.asarray
    shapes = [a.shape for a in module.tree.leaves(one.arguments) if hasattr(a, "shape")]
    made: dict[Any, np.ndarray] = {}

    def there(a: Any) -> Any:
        if not isinstance(a, module.ShapeDtypeStruct):
            return a
        key = (a.shape, np.dtype(a.dtype))
        if key not in made:
            made[key] = values(name, a, shapes[0][0])
        return array(made[key])

    return [list(module.tree.map(there, one.arguments)) for _ in range(count)]


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def measured(name: str, one: Workload, module: Any, lock: Path) -> dict[str, Any]:
    """Seconds of a program, alone on the GPU."""
    given = [a for a in module.tree.leaves(one.arguments) if hasattr(a, "dtype")]
    nbytes = sum(int(np.prod(a.shape)) * np.dtype(a.dtype).itemsize for a in given)
    # Several sets of arguments, so that none is found in the cache.
    sets = arguments(name, one, module, min(16, clocks.how_many_sets(nbytes)))
    wait, run = module.block_until_ready, module.jit(one.function)
    start = time.perf_counter()
    wait(run(*sets[0]))
    found: dict[str, Any] = {"first": time.perf_counter() - start}
    call = clocks.in_turn(run, sets, lambda x: x)
    with alone(lock):
        clock = clocks.clock_of("ours") if module is ga else None
        samples = clocks.timed(call, wait, clock, TIMED, ROUNDS)
    return found | {kind: min(times) for kind, times in samples.items()}


def main() -> int:
    """Time a share."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("build/gpu/least.jsonl"))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    k, n = map(int, args.share.split("/"))
    args.results.parent.mkdir(parents=True, exist_ok=True)
    done = {(x["chapter"], x["name"]) for x in results_in(args.results)}
    module = library(args.jax)
    good = True
    for (chapter, name), one in list(workloads().items())[k::n]:
        if args.only not in name or (chapter, name) in done:
            continue
        line = {"chapter": chapter, "name": name, "least": one.least, "jax": args.jax}
        try:
            line |= measured(name, one, module, args.results.with_name("least.lock"))
        except Exception as error:
            line["failed"], good = f"{type(error).__name__}: {error}"[:600], False
            print(f"{name}: {line['failed']}", flush=True)
        gc.collect()
        if module is ga:
            ga.free()
        with args.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
