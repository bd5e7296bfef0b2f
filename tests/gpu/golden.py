"""Golden programs on the GPU: `python -m tests.gpu.golden [--repeat N] [--no-pool] NAME...`.

In: names of tests/golden, none: all. Out: a line of JSON for each: how far it is from NumPy, or how
many of N runs gave other bits; the exit status is 1 if one was not as it should be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.cuda.device import gpus
from gpuarray.compiler.lower.kernel import Rows
from gpuarray.core import dtypes
from tests.golden import Program, programs

#: Units in the last place that sums in another order may differ by, relative to the largest value.
ULPS = 256
#: Counts of the Mandelbrot set that may differ, of 1024 x 1024: near its edge one rounding decides.
#: NumPy with fused multiply-adds in its products of complex numbers, as some builds have them, and
#: without differ in 2014, and arguments of another last bit in 3246.
COUNTS = 6500
#: What arguments are multiplied by. Steps `tanh(h @ w + x)` with weights as large as 1 double the
#: smallest difference every few steps; with smaller ones it fades.
SCALES = {"recurrent": 0.25}


def arguments(name: str) -> Any:
    """Random ones, in trees as the program wants them; indices stay in range."""
    rng = np.random.default_rng(0)

    def drawn(a: Any) -> np.ndarray | Any:
        if isinstance(a, ga.Array):  # a key
            return a
        kind = dtypes.kind_of(a.dtype)
        if kind in "iu":
            return rng.integers(1, 500, a.shape).astype(a.dtype)
        if kind == "c":
            parts = rng.uniform(-1, 1, (2, *a.shape))
            return (parts[0] + 1j * parts[1]).astype(a.dtype)
        x = rng.uniform(-1, 1, a.shape) * SCALES.get(name, 1.0)
        return x.astype(np.float32).astype(a.dtype)

    return ga.tree.map(drawn, all_programs()[name][1])


def many(*arrays):
    """The same for several small arrays: one kernel for all of them."""
    return [gnp.sin(x) * 2.0 + x for x in arrays]


def all_programs() -> dict[str, Program]:
    """The golden ones, and what has a kind of kernel that none of them has."""
    small = (ga.ShapeDtypeStruct((300,), "float32"),) * 8
    return programs() | {"many": (many, small)}


def prepared(name: str, device: ga.Device) -> Callable[[], list[np.ndarray]]:
    """A program with its arguments on a device: a call computes and brings the results back."""
    with ga.default_device(device):
        there = lambda a: ga.device_put(a, device) if isinstance(a, ga.Array) else gnp.asarray(a)
        made = ga.tree.map(there, arguments(name))
    run = ga.jit(all_programs()[name][0])

    def results() -> list[np.ndarray]:
        with ga.default_device(device):
            return [np.asarray(x) for x in ga.tree.leaves(run(*made))]

    return results


def distance(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """Units in the last place between results, relative to the largest; of integers, how many
    differ.
    """
    worst = 0.0
    for f, w in zip(found, wanted, strict=True):
        if (f.shape, f.dtype) != (w.shape, w.dtype):
            return float("inf")
        if dtypes.kind_of(w.dtype) not in "fc":
            worst = max(worst, float(np.sum(f != w)))
            continue
        unit = float(dtypes.finfo(dtypes.to_real_dtype(w.dtype)).eps)
        wide = np.complex128 if dtypes.kind_of(w.dtype) == "c" else np.float64
        f, w = f.astype(wide), w.astype(wide)
        if not np.array_equal(np.isnan(f), np.isnan(w)):
            return float("inf")
        scale = np.abs(w[np.isfinite(w)]).max(initial=1.0)
        same = (f == w) | np.isnan(w)
        with np.errstate(invalid="ignore"):
            worst = max(
                worst, float(np.where(same, 0.0, np.abs(f - w)).max(initial=0.0) / scale / unit)
            )
    return worst


def compare(name: str) -> dict[str, Any]:
    """A program on the GPU and on NumPy."""
    gpu, cpu = ga.devices("cuda")[0], ga.devices("cpu")[0]
    off = distance(prepared(name, gpu)(), prepared(name, cpu)())
    allowed = COUNTS if name == "mandelbrot" else ULPS
    return {"name": name, "ok": off <= allowed, "ulps": off}


def repeat(name: str, times: int) -> dict[str, Any]:
    """A program again and again: every run must give the same bits."""
    run = prepared(name, ga.devices("cuda")[0])
    first = [x.tobytes() for x in run()]
    other = sum([x.tobytes() for x in run()] != first for _ in range(times - 1))
    return {"name": name, "ok": other == 0, "differing": other}


def without_pool() -> None:
    """Take memory from CUDA for each array: what reads beside its end is then seen by tools, which
    know nothing of the pieces of a pool.
    """
    import cupy

    memory = cupy.cuda.memory
    for gpu in gpus():
        gpu.malloc = lambda nbytes: memory.MemoryPointer(memory.Memory(nbytes), 0)


def kinds() -> dict[str, str]:
    """For each kind of kernel a program that has it."""
    found: dict[str, str] = {}
    for name, (function, shapes) in all_programs().items():
        for group in ga.jit(function).lower(*shapes).plan.on_device.groups:
            shared = isinstance(group, Rows) and group.shared
            found.setdefault(f"{group.form}{'_shared' if shared else ''}", name)
    return found


def main() -> int:
    """Run those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--no-pool", action="store_true", help="every array is memory of its own")
    args = parser.parse_args()
    if args.no_pool:
        without_pool()
    # What is compared closely is not to be rounded to TF32.
    ga.config.update("jax_default_matmul_precision", "highest")
    good = True
    for name in args.names or all_programs():
        try:
            found = repeat(name, args.repeat) if args.repeat else compare(name)
        except Exception as error:
            found = {"name": name, "ok": False, "why": f"{type(error).__name__}: {error}"[:2000]}
        good &= found["ok"]
        print(json.dumps(found), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
