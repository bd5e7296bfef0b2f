"""`python -m bench.ulps`: how exact the elementwise functions of float32 are on this CPU.

In: every 1009th float32 number of a function's domain, and every 61st between 1/64 and 64; NumPy
in double precision is the judge. Out: a Markdown table of the largest errors in units in the last
place, ours and, where it is installed, JAX's, with the time an element takes in us.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp

try:
    jax: Any = importlib.import_module("jax")
except ImportError:
    jax = None


class Row(NamedTuple):
    """A function of lax or nn, its judge, and the domain on which it is tried."""

    name: str
    judge: Callable[..., Any]
    low: float = -np.inf
    high: float = np.inf


def _logistic(x):
    return 1 / (1 + np.exp(-x))


def _erf(x):
    from scipy import special

    return special.erf(x)


ROWS = [
    Row("exp", np.exp), Row("exp2", np.exp2), Row("expm1", np.expm1), Row("log", np.log, 0),
    Row("log1p", np.log1p, -1), Row("sin", np.sin, -1e5, 1e5), Row("cos", np.cos, -1e5, 1e5),
    Row("tan", np.tan, -1e5, 1e5), Row("asin", np.arcsin, -1, 1), Row("acos", np.arccos, -1, 1),
    Row("atan", np.arctan), Row("sinh", np.sinh), Row("cosh", np.cosh), Row("tanh", np.tanh),
    Row("asinh", np.arcsinh), Row("acosh", np.arccosh, 1), Row("atanh", np.arctanh, -1, 1),
    Row("logistic", _logistic), Row("sqrt", np.sqrt, 0), Row("rsqrt", lambda x: x**-0.5, 1e-38),
    Row("cbrt", np.cbrt), Row("erf", _erf), Row("log2", np.log2, 0), Row("log10", np.log10, 0),
    Row("pow", lambda x: np.power(x, 2.3), 0),
]  # fmt: skip


def numbers(row: Row) -> np.ndarray:
    """Normal float32 numbers of both signs in the domain."""
    dense = [np.float32(v).view(np.uint32) for v in (1 / 64, 64)]
    bits = np.concatenate(
        [np.arange(0x00800000, 0x7F800000, 1009), np.arange(dense[0], dense[1], 61)]
    )
    x = bits.astype(np.uint32).view(np.float32)
    x = np.concatenate([x, -x])
    return x[(x > row.low) & (x < row.high)]


def worst(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error in units in the last place, among results that are normal numbers."""
    size = np.abs(wanted)
    normal = (size >= np.finfo("f").tiny) & (size <= np.finfo("f").max)
    unit = np.spacing(size[normal].astype("f")).astype("d")
    return float((np.abs(found[normal].astype("d") - wanted[normal]) / unit).max())


def _ours(row: Row) -> Callable[..., Any]:
    return _of(row, ga.lax, gnp)


def _theirs(row: Row) -> Callable[..., Any]:
    return jax.jit(_of(row, jax.lax, jax.numpy))


def _of(row: Row, lax: Any, numpy: Any) -> Callable[..., Any]:
    if row.name == "pow":
        return lambda x: lax.pow(x, numpy.full_like(x, np.float32(2.3)))
    return getattr(numpy if row.name in ("log2", "log10") else lax, row.name)


def _nanoseconds(function: Callable[..., Any], x: Any) -> float:
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        function(x).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return best / x.size * 1e9


def main() -> None:
    """Print the table."""
    print(
        "| function | largest error, ULP | ns an element | JAX: ULP | ns |\n|---|---|---|---|---|"
    )
    for row in ROWS:
        x = numbers(row)
        wide = x.astype("d")
        with np.errstate(all="ignore"):
            wanted = (
                np.power(wide, float(np.float32(2.3))) if row.name == "pow" else row.judge(wide)
            )
        cells = []
        sides = [(_ours(row), gnp.asarray)]
        if jax is not None:
            sides.append((_theirs(row), jax.numpy.asarray))
        for function, array in sides:
            given = array(x)
            error = worst(np.asarray(function(given)), wanted)
            cells += [f"{error:.2f}", f"{_nanoseconds(function, given):.1f}"]
        print(f"| {row.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
