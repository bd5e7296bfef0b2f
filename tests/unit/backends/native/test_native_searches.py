"""Searches as native code, side by side: the places that NumPy finds.

In: sorted rows of any length and type, with equal elements, infinities and nan; what is asked of
them computed, or found by another search. Out: NumPy's places, and texts in which searches stand
before the loop that reads them.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from tests.support import natively

natively.need_compiler()

DTYPES = ["int8", "uint64", "float32", "float64", "float16", "bfloat16", "complex64", "bool"]
LENGTHS = [1, 2, 3, 7, 64, 1000]
COUNTS = [1, 7, 8, 9, 515, 1030]
_rng = np.random.default_rng(0)


def values(dtype: str, n: int) -> np.ndarray:
    """Few different values; nan among real floats."""
    if dtype == "complex64":
        return (_rng.integers(-3, 4, n) + 1j * _rng.integers(-3, 4, n)).astype(dtype)
    if dtype in ("bool", "int8", "uint64"):
        return _rng.integers(0, 2 if dtype == "bool" else 90, n).astype(dtype)
    chosen = np.array([*np.linspace(-9, 9, 40), 0.0, -0.0, np.inf, -np.inf, np.nan])
    return _rng.choice(chosen, n).astype(getattr(ml_dtypes, dtype, dtype))


def wide(x: np.ndarray) -> np.ndarray:
    """A type that NumPy sorts nan last in."""
    return x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x


def written(function, *arrays):
    with ga.enable_x64(True):
        shapes = (ga.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays)
        return natively.written(ga.jit(function).lower(*shapes).jaxpr)


def both_sides(m, s, x):
    return m.searchsorted(s, x), m.searchsorted(s, x, side="right")


#: Functions of a namespace and arrays.
OTHERS = {
    "of what is computed": lambda m, s, x: m.searchsorted(s, x * 2 + 1) * 2,
    "of a place that is found": lambda m, s, x: m.searchsorted(
        s, s[m.minimum(m.searchsorted(s, x), len(s) - 1)] + 1
    ),
    "of a grid": lambda m, s, x: m.searchsorted(s, x[:40, None] + x[None, :30]),
    "past the cache": lambda m, s, x: m.searchsorted(s, m.repeat(x, 700)) * 0.5,
    "under conditions": lambda m, s, x: m.pad(m.searchsorted(s, x) + 1, 3),
}


@pytest.fixture(scope="module")
def programs():
    found = {}
    for dtype in DTYPES:
        cases = zip(LENGTHS, COUNTS)
        arrays = [(np.sort(wide(values(dtype, n))), values(dtype, k)) for n, k in cases]
        arrays = [(s.astype(x.dtype), x) for s, x in arrays]
        flat = [x for pair in arrays for x in pair]

        def all_of_them(*flat):
            return [both_sides(gnp, s, x) for s, x in zip(flat[::2], flat[1::2])]

        found[dtype] = written(all_of_them, *flat), flat
    x = _rng.standard_normal(1030).astype(np.float32)
    s = np.sort(_rng.standard_normal(300).astype(np.float32))
    for name, function in OTHERS.items():
        found[name] = written(lambda s, x, f=function: f(gnp, s, x), s, x), (s, x)
    natively.compile_all([p for p, _ in found.values()])
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_places(dtype, programs):
    program, flat = programs[dtype]
    found = program(*flat)
    want = [y for s, x in zip(flat[::2], flat[1::2]) for y in both_sides(np, wide(s), wide(x))]
    for g, w in zip(found, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_asked(name, programs):
    program, arrays = programs[name]
    (found,) = program(*arrays)
    np.testing.assert_array_equal(found, OTHERS[name](np, *arrays))


def test_searches_are_made_before_the_loop_that_reads_them(programs):
    texts = {n: "\n".join(k.text for k in programs[n][0].kernels) for n in OTHERS}
    found = [text.count("ga_search_each") for text in texts.values()]
    assert found == [1, 2, 1, 1, 0]
