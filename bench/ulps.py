"""`python -m bench.ulps`: how exact the elementwise functions are on this CPU.

In: numbers of a function's domain, for float32 every 1009th, and every 61st between 1/64 and 64;
NumPy in wider numbers is the judge, in double precision for floats up to 32 bits, in long doubles
for others. Out: two Markdown tables of the largest errors in units in the last place, ours and,
where it is installed, JAX's: float32 with the time an element takes, then the other dtypes.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp

try:
    jax: Any = importlib.import_module("jax")
except ImportError:
    jax = None


class Row(NamedTuple):
    """A function of lax or numpy, its judge, and the domain on which it is tried.

    of_complex: the judge of complex numbers; None where they have no such function.
    """

    name: str
    judge: Callable[..., Any]
    low: float = -np.inf
    high: float = np.inf
    of_complex: Callable[..., Any] | None = None


def _logistic(x):
    return 1 / (1 + np.exp(-x))


def _erf(x):
    from scipy import special

    return special.erf(x.astype(np.float64))


def _rsqrt(x):
    return 1 / np.sqrt(x)


def _expm1(z):
    """exp(a) cos b - 1 is expm1(a) cos b - 2 sin²(b/2)."""
    a, b, half = z.real, z.imag, np.sin(z.imag / 2)
    return np.expm1(a) * np.cos(b) - 2 * half * half + 1j * (np.exp(a) * np.sin(b))


def _log1p(z):
    a, b = z.real, z.imag
    small = (a > -0.5) & (np.maximum(a, np.abs(b)) < 2)
    size = np.where(small, np.log1p(a * (2 + a) + b * b) / 2, np.log(np.hypot(1 + a, b)))
    return size + 1j * np.arctan2(b, 1 + a)


def _to_base(base: int) -> Callable[..., Any]:
    return lambda x: np.log(x) / np.log(x.real.dtype.type(base))


def _exp2(z):
    return np.exp(z * np.log(z.real.dtype.type(2)))


def _pow(x):
    return np.power(x, x.dtype.type(EXPONENT))


#: A number of every dtype.
EXPONENT = 2.25


def _row(name: str, judge: Callable[..., Any], low=-np.inf, high=np.inf) -> Row:
    return Row(name, judge, low, high, judge)


ROWS = [
    _row("exp", np.exp), Row("exp2", np.exp2, of_complex=_exp2),
    Row("expm1", np.expm1, of_complex=_expm1), _row("log", np.log, 0),
    Row("log1p", np.log1p, -1, of_complex=_log1p), _row("sin", np.sin, -1e5, 1e5),
    _row("cos", np.cos, -1e5, 1e5), _row("tan", np.tan, -1e5, 1e5), _row("asin", np.arcsin, -1, 1),
    _row("acos", np.arccos, -1, 1), _row("atan", np.arctan), _row("sinh", np.sinh),
    _row("cosh", np.cosh), _row("tanh", np.tanh), _row("asinh", np.arcsinh),
    _row("acosh", np.arccosh, 1), _row("atanh", np.arctanh, -1, 1), _row("logistic", _logistic),
    _row("sqrt", np.sqrt, 0), _row("rsqrt", _rsqrt, 1e-38), Row("cbrt", np.cbrt), Row("erf", _erf),
    _row("log2", _to_base(2), 0), _row("log10", _to_base(10), 0), Row("pow", _pow, 0),
    _row("square", np.square), _row("abs", np.abs), _row("sign", lambda x: x / np.abs(x)),
]  # fmt: skip
DTYPES = ("bfloat16", "float16", "float64", "complex64", "complex128")


def numbers(row: Row, dtype: np.dtype, step: int = 1) -> np.ndarray:
    """Normal numbers of the domain, or every `step`-th of them: reals of both signs, complex ones
    around the hard places.
    """
    if dtype.kind == "c":
        return _complex_numbers().astype(dtype)[::step]
    x = _real_numbers(dtype)[::step]
    wide = x.astype(np.float64)
    return x[(wide > row.low) & (wide < row.high)]


@functools.lru_cache(maxsize=1)
def _real_numbers(dtype: np.dtype) -> np.ndarray:
    """Normal numbers of all sizes and both signs, most of them where functions are not simple."""
    if dtype.itemsize == 2:
        x = np.arange(np.array(np.inf, dtype).view(np.uint16), dtype=np.uint16).view(dtype)
    else:
        dense = [np.float32(v).view(np.uint32) for v in (1 / 64, 64)]
        bits = np.concatenate(
            [np.arange(0x00800000, 0x7F800000, 1009), np.arange(dense[0], dense[1], 61)]
        )
        x = bits.astype(np.uint32).view(np.float32).astype(dtype)
        if dtype == np.float64:  # the lower half of the bits as well
            x *= 1 + np.random.default_rng(0).uniform(-1e-7, 1e-7, x.size)
    x = np.concatenate([x, -x])
    return x[np.abs(x.astype(np.float64)) >= float(ml_dtypes.finfo(dtype).tiny)]


def _complex_numbers(n: int = 100_000) -> np.ndarray:
    """Of all sizes and angles, then near the unit circle, 0, ±1, ±i and the axes."""
    rng = np.random.default_rng(0)
    sizes = lambda low, high, n: np.exp2(rng.uniform(low, high, n))
    around = lambda size: size * np.exp(1j * rng.uniform(-np.pi, np.pi, size.size))
    places = [around(sizes(-8, 4, n)), around(1 + rng.uniform(-1e-3, 1e-3, n))]
    places += [c + around(sizes(-20, -1, n // 4)) for c in (0, 1, -1, 1j, -1j)]
    along, beside = sizes(-8, 4, n // 4), sizes(-20, -1, n // 4)
    return np.concatenate([*places, along + 1j * beside, beside - 1j * along])


def wider(x: np.ndarray) -> np.ndarray:
    """The same numbers in the precision of the judge."""
    if x.dtype.kind == "c":
        return x.astype(np.complex128 if x.dtype == np.complex64 else np.clongdouble)
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def worst(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error in units in the last place, among results that are normal numbers.

    A complex number's error is its distance, and its unit that of its size.
    """
    info = ml_dtypes.finfo(found.dtype)
    size = np.abs(wanted)
    normal = (size >= float(info.tiny)) & (size <= float(info.max))
    size = size[normal]
    _, exponent = np.frexp(size)
    error = np.abs(wider(found)[normal] - wanted[normal])
    unit = size if found.dtype.kind == "c" else np.ldexp(size.dtype.type(1), exponent - 1)
    return float((error / (unit * float(info.eps))).max())


def judged(row: Row, x: np.ndarray) -> np.ndarray:
    """What the function is at x, in wider numbers."""
    judge = row.of_complex if x.dtype.kind == "c" else row.judge
    assert judge is not None
    with np.errstate(all="ignore"):
        return judge(wider(x))


def ours(row: Row) -> Callable[..., Any]:
    """The function here."""
    return _of(row, ga.lax, gnp)


def _theirs(row: Row) -> Callable[..., Any]:
    return jax.jit(_of(row, jax.lax, jax.numpy))


def _of(row: Row, lax: Any, numpy: Any) -> Callable[..., Any]:
    if row.name == "pow":
        return lambda x: lax.pow(x, numpy.full_like(x, EXPONENT))
    return getattr(numpy if row.name in ("log2", "log10") else lax, row.name)


def _nanoseconds(function: Callable[..., Any], x: Any) -> float:
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        function(x).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return best / x.size * 1e9


def _errors(row: Row, dtype: np.dtype, timed: bool) -> list[str]:
    x = numbers(row, dtype)
    wanted = judged(row, x)
    sides = [(ours(row), gnp.asarray)]
    if jax is not None:
        sides.append((_theirs(row), jax.numpy.asarray))
    cells = []
    for function, array in sides:
        given = array(x)
        with np.errstate(all="ignore"):
            cells.append(f"{worst(np.asarray(function(given)), wanted):.2f}")
        if timed:
            cells.append(f"{_nanoseconds(function, given):.1f}")
    return cells


def main() -> None:
    """Print the tables."""
    print(
        "| function | largest error, ULP | ns an element | JAX: ULP | ns |\n|---|---|---|---|---|"
    )
    for row in ROWS:
        cells = _errors(row, np.dtype("float32"), timed=True)
        print(f"| {row.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n| function | {' | '.join(DTYPES)} |\n|---{'|---' * len(DTYPES)}|")
    ga.config.update("jax_enable_x64", True)
    if jax is not None:
        jax.config.update("jax_enable_x64", True)
    for row in ROWS:
        cells = []
        for dtype in map(np.dtype, DTYPES):
            missing = dtype.kind == "c" and row.of_complex is None
            cells.append("" if missing else " / ".join(_errors(row, dtype, timed=False)))
        print(f"| {row.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
