"""Sorts and searches of a GPU against Python's own sort, by an order that is written out.

In: numbers of every kind with nans of both signs, infinities and zeros of both signs, rows that our
kernels sort and rows that CuPy sorts. Out: the same elements in the same places.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.fake_cupy import installed
from tests.support import simulated

simulated.need_compiler()

NAN, INF = math.nan, math.inf
SPECIAL = [NAN, -NAN, 0.0, -0.0, INF, -INF, 1.0, -1.0, 2.0, -0.25]
FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"]
#: Rows that a kernel sorts, and rows that go to CuPy.
SHAPES = [(50,), (1300,), (2, 1300)]


@pytest.fixture(scope="module", autouse=True)
def gpu():
    with installed() as world, ga.enable_x64(True):
        yield world


def drawn(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng, kind = np.random.default_rng(0), np.dtype(getattr(gnp, dtype).dtype)
    if kind.kind == "c":
        x = np.empty(shape, kind)
        x.real, x.imag = rng.choice(SPECIAL, shape), rng.choice(SPECIAL, shape)
        return x
    return rng.choice(SPECIAL, shape).astype(kind)


def rank(x) -> tuple:
    """Every nan last, zeros equal; complex numbers part by part."""
    parts = (x.real, x.imag) if np.iscomplexobj(x) else (float(x),)
    return tuple((math.isnan(p), 0.0 if math.isnan(p) else float(p)) for p in parts)


def order(*keys: np.ndarray) -> np.ndarray:
    """The places of the elements of each row, in order."""
    rows = [k.reshape(-1, k.shape[-1]) for k in keys]
    made = [
        sorted(range(rows[0].shape[1]), key=lambda i: tuple(rank(k[row][i]) for k in rows))
        for row in range(len(rows[0]))
    ]
    return np.array(made).reshape(keys[0].shape)


def same(found, wanted: np.ndarray) -> None:
    """The same numbers, zeros with their signs, nans where nans are."""
    found = np.asarray(found)
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    assert found.dtype == wanted.dtype
    for part in (np.real, np.imag):
        f, w = part(found.astype(wide)), part(wanted.astype(wide))
        np.testing.assert_array_equal(f, w)
        np.testing.assert_array_equal(np.signbit(f[w == w]), np.signbit(w[w == w]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
def test_sorts_are_by_value_with_every_nan_last(dtype, shape):
    x = drawn(dtype, shape)
    places = order(x)
    same(gnp.sort(x), np.take_along_axis(x, places, -1))
    np.testing.assert_array_equal(gnp.argsort(x), places)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64"])
def test_several_keys_and_operands(dtype):
    first, second = drawn(dtype, (1300,)), drawn(dtype, (1300,))[::-1].copy()
    third = np.arange(1300, dtype=np.int32) % 3
    places = order(third, first, second)
    found = lax.sort((third, first, second, np.arange(1300)), num_keys=3)
    for f, w in zip(found, (third, first, second), strict=False):
        same(f, w[places])
    np.testing.assert_array_equal(found[3], places)


@pytest.mark.parametrize("length", [50, 1300])
@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e8m0fnu", "float4_e2m1fn", "int8"])
def test_the_largest_and_the_least_are_by_total_order(dtype, length):
    kind = np.dtype(getattr(gnp, dtype).dtype)
    some = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.5]
    if dtype == "float8_e8m0fnu":  # powers of two, the lower half of which has the highest bit 0
        some = [0.25, 0.5, 1.0, 2.0, 4.0]
    x = np.random.default_rng(1).choice(some, length).astype(np.float32).astype(kind)
    wide = x.astype(np.float64)
    down = sorted(range(length), key=lambda i: (-wide[i], not np.signbit(-wide[i])))
    for k in (3, length):
        values, at = lax.top_k(x, k)
        np.testing.assert_array_equal(at, down[:k])
        same(values, x[down[:k]])
    if kind.kind in "fV" and dtype != "int8":
        up = sorted(range(length), key=lambda i: (wide[i], not np.signbit(wide[i])))
        np.testing.assert_array_equal(lax.approx_min_k(x, 4)[1], up[:4])
        np.testing.assert_array_equal(lax.approx_max_k(x, 4)[1], down[:4])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_searches_go_by_the_order_of_sorts(dtype, side):
    x, query = drawn(dtype, (1300,)), drawn(dtype, (90,))
    ranks = sorted(map(rank, x))
    before = (lambda a, b: a < b) if side == "left" else (lambda a, b: a <= b)
    wanted = [sum(before(r, rank(q)) for r in ranks) for q in query]
    np.testing.assert_array_equal(gnp.searchsorted(gnp.sort(x), query, side), wanted)


@pytest.mark.parametrize("function", ["median", "nanmedian", "unique", "max"])
def test_functions_that_sort_are_those_of_numpy(function):
    x = drawn("float32", (1300,))
    for each in (x, x[np.isfinite(x)]):
        wanted = getattr(np, function)(each)
        np.testing.assert_array_equal(getattr(gnp, function)(each), wanted)
