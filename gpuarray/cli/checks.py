"""The self-check: small computations whose answers are known, in well under a second.

Floor 8. In: nothing. Out: one result for each check, with what to do when it fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.native import library, program
from gpuarray.compiler.explain.tables import plural


class Result(NamedTuple):
    """How one check went."""

    name: str
    ok: bool
    text: str


class Check(NamedTuple):
    """A name, a function that raises an error if the result is wrong and otherwise returns details,
    and advice for that case.
    """

    name: str
    what: str
    function: Callable[[], str]
    remedy: str


def run_all() -> Iterator[Result]:
    """Run every check; a failure of one does not hide the others."""
    for check in CHECKS:
        try:
            found = check.function()
            text = f"ok      {check.what}{': ' if found else ''}{found}"
            yield Result(check.name, True, text)
        except Exception as error:
            # The first line of the error is the most informative.
            why = str(error).splitlines()[0] if str(error) else ""
            lines = (check.what, f"{type(error).__name__}: {why}", check.remedy)
            text = "FAILED  " + f"\n{'':28}".join(lines)
            yield Result(check.name, False, text)


def _expect(got, want, tolerance: float = 1e-6) -> None:
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise ValueError(f"expected shape {want.shape}, got {got.shape}")
    # Relative error for large values, absolute error below one.
    worst = np.max(np.abs(got - want) / np.maximum(1.0, np.abs(want)), initial=0.0)
    # Not `>`: nan fails too.
    if not worst <= tolerance:
        raise ValueError(f"off by {worst:.2g}, allowed is {tolerance:.2g}")


def _native() -> str:
    # Compiled, loaded and called, whatever the setting: is it as NumPy has it?
    x = np.linspace(-3, 3, 4001, dtype=np.float32)

    def f(x):
        return gnp.sum(gnp.tanh(x) * x + 1), gnp.concatenate([x, x])[::-2]

    plan = ga.jit(f).lower(x).plan
    start = time.perf_counter()
    try:
        run = program.build_now(plan)
    except library.FAULTS as error:
        return f"not used: {str(error).splitlines()[0]}"
    seconds = time.perf_counter() - start
    total, turned = run(x)
    wide = x.astype(np.float64)
    _expect(total, np.sum(np.tanh(wide) * wide + 1))
    _expect(turned, np.concatenate([x, x])[::-2])
    return f"compiled or found in {seconds:.2f} s, loaded, and right"


def _arithmetic() -> str:
    # Both signs: the branches of `where` are taken, and the square root must not see a negative.
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    y = gnp.asarray(x)
    _expect(gnp.sin(y) * 2 + y**2, np.sin(x) * 2 + x**2)
    _expect(gnp.where(y > 0, gnp.sqrt(gnp.abs(y)), -y), np.where(x > 0, np.sqrt(np.abs(x)), -x))
    return ""


# Large enough to be cut in tiles and shared by all threads.
_ROWS, _COLUMNS = 700, 900


def _softmax(x):
    shifted = gnp.exp(x - gnp.max(x, axis=1, keepdims=True))
    return shifted / gnp.sum(shifted, axis=1, keepdims=True)


def _fusion() -> str:
    x = np.random.default_rng(0).normal(size=(_ROWS, _COLUMNS)).astype(np.float32)
    y = gnp.asarray(x)
    explained = ga.explain(_softmax)(y)
    # The same program three ways: compiled as one, recorded eagerly, and operation by operation.
    fused, eager = np.asarray(ga.jit(_softmax)(y)), np.asarray(_softmax(y))
    with ga.fusion(False):
        unfused = np.asarray(ga.jit(_softmax)(y))
    # The reference is computed in double precision.
    e = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
    _expect(fused, e / e.sum(1, keepdims=True))
    _expect(fused, unfused)
    _expect(eager, unfused)
    few, many = explained.launches, explained.launches_unfused
    return f"{plural(few, 'kernel')} instead of {many}"


def _jit() -> str:
    # Python code runs only while a function is traced, so appending counts the traces.
    traced = []

    def f(x, y):
        traced.append(1)
        return gnp.sum(x * y)

    jitted = ga.jit(f)
    x = gnp.arange(5.0)
    _expect([jitted(x, x), jitted(x + 1, x)], [30.0, 40.0])
    if len(traced) != 1:
        raise RuntimeError(f"two like calls were traced {len(traced)} times, expected once")
    return "traced once"


def _matmul() -> str:
    a = np.arange(600, dtype=np.float32).reshape(20, 30) / 100
    b = np.arange(1200, dtype=np.float32).reshape(30, 40) / 100
    # A sum of 30 products in single precision loses more digits than one operation.
    for precision, off in (("highest", 1e-5), ("default", 1e-2)):
        _expect(gnp.matmul(a, b, precision=precision), a.astype(np.float64) @ b, off)
    return ""


# The expected bits below are those of Threefry-2x32 (Salmon et al., 2011), as JAX splits a key.
def _random() -> str:
    key = ga.random.PRNGKey(18)
    # The stream whose bits are known.
    with ga.threefry_partitionable(False):
        new, sub = ga.random.split(key)
    if np.asarray(new).tolist() != [4197003906, 1654466292]:
        raise ValueError(f"the split of PRNGKey(18) begins with {np.asarray(new).tolist()}")
    if np.asarray(sub).tolist() != [1685972163, 1654824463]:
        raise ValueError(f"the split of PRNGKey(18) ends with {np.asarray(sub).tolist()}")
    return ""


def _waiting() -> str:
    x = gnp.ones((1 << 20,))
    # Large enough that the work is still running when the call returns.
    y = ga.jit(lambda v: gnp.sqrt(v) + gnp.cos(v))(x).block_until_ready()
    if not y.is_ready():
        raise RuntimeError("an array that was waited for is not ready")
    _expect(y[:4], np.full(4, 1 + np.cos(1.0), np.float32))
    return ""


# The remedy of checks that no setting can influence.
_REPORT = "Please report this, with the output of `python -m gpuarray doctor`."

CHECKS = (
    Check(
        "arithmetic",
        "sin, powers, roots and choices of 1,000 numbers, compared with NumPy's",
        _arithmetic,
        _REPORT,
    ),
    Check(
        "fusion",
        f"softmax of {_ROWS} x {_COLUMNS} with jit, without, and unfused, compared with float64",
        _fusion,
        f"GPUARRAY_FUSION=0 runs without fusion. {_REPORT}",
    ),
    Check(
        "jit",
        "two calls of a compiled sum of products",
        _jit,
        f"GPUARRAY_DISABLE_JIT=1 runs without it. {_REPORT}",
    ),
    Check(
        "matmul",
        "a product of 20 x 30 by 30 x 40, compared with float64",
        _matmul,
        f"NumPy's BLAS may be broken; another build of NumPy brings another. {_REPORT}",
    ),
    Check("random", "the split of PRNGKey(18), compared bit for bit with JAX's", _random, _REPORT),
    Check(
        "native code",
        "a C++ program, compared with float64",
        _native,
        f"GPUARRAY_NATIVE=off runs without it. {_REPORT}",
    ),
    Check(
        "asynchrony",
        "a million square roots and cosines in the background, waited for",
        _waiting,
        f"GPUARRAY_NUM_THREADS=1 runs on one thread. {_REPORT}",
    ),
)
