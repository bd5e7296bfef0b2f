"""Sorting, sets, histograms, differences, interpolation, statistics, bits: against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors

RNG = np.random.default_rng(0)
A = RNG.integers(0, 6, (4, 5)).astype(np.int32)
F = RNG.normal(size=(4, 5)).astype(np.float32)
V = np.array([3, 1, 2, 1, 0, 3, 3], np.int32)
W = np.array([5, 1, 3, 9], np.int32)
HARD = np.array([3.0, np.nan, -0.0, 0.0, -np.inf, 1.0, np.nan, np.inf], np.float32)
Y = np.array([0.0, 1.0, 4.0, 9.0, 16.0], np.float32)
T = np.array([0.0, 1.0, 3.0, 4.0, 8.0], np.float32)


def close(got, want, rtol=2e-6):
    """Equal shapes and (nearly) equal values; sequences element by element."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            close(g, w, rtol)
        return
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=rtol, atol=1e-6)


#: Calls that mean the same with xp = numpy and xp = gpuarray.numpy.
CALLS = {
    "sort": lambda xp: xp.sort(A),
    "sort axis": lambda xp: xp.sort(F, axis=0),
    "sort flat": lambda xp: xp.sort(A, axis=None),
    "sort hard": lambda xp: xp.sort(HARD),
    "sort bool": lambda xp: xp.sort(A > 2),
    "argsort": lambda xp: xp.argsort(A, stable=True),
    "argsort axis": lambda xp: xp.argsort(F, axis=0),
    "argsort flat": lambda xp: xp.argsort(A, axis=None, stable=True),
    "argsort hard": lambda xp: xp.argsort(HARD, stable=True),
    "lexsort": lambda xp: xp.lexsort((A[0], A[1])),
    "lexsort rows": lambda xp: xp.lexsort(A),
    "sort_complex": lambda xp: xp.sort_complex(np.array([2 + 1j, 1 + 3j, 1 - 1j], np.complex64)),
    "searchsorted": lambda xp: xp.searchsorted(T, np.array([[0.5, 3.0], [9.0, -1.0]], np.float32)),
    "searchsorted right": lambda xp: xp.searchsorted(T, T, side="right"),
    "searchsorted nan": lambda xp: xp.searchsorted(np.sort(HARD), HARD),
    "searchsorted sorter": lambda xp: xp.searchsorted(W, np.array([4, 9]), sorter=np.argsort(W)),
    "digitize": lambda xp: xp.digitize(np.array([0.5, 1, 9, -1], np.float32), T),
    "digitize right": lambda xp: xp.digitize(T, T, right=True),
    "digitize down": lambda xp: xp.digitize(T, T[::-1].copy()),
    "digitize down right": lambda xp: xp.digitize(T, T[::-1].copy(), right=True),
    "unique": lambda xp: xp.unique(V),
    "unique all": lambda xp: xp.unique(A, True, True, True),
    "unique rows": lambda xp: xp.unique(A[[0, 1, 0, 2]], True, True, True, axis=0),
    "unique columns": lambda xp: xp.unique(A % 2, axis=1),
    "unique nan": lambda xp: xp.unique(HARD),
    "unique nan apart": lambda xp: xp.unique(HARD, equal_nan=False),
    "unique empty": lambda xp: xp.unique(V[:0]),
    "unique_all": lambda xp: tuple(xp.unique_all(V)),
    "unique_counts": lambda xp: tuple(xp.unique_counts(V)),
    "unique_inverse": lambda xp: tuple(xp.unique_inverse(A)),
    "unique_values": lambda xp: xp.sort(xp.unique_values(V)),
    "isin": lambda xp: xp.isin(A, W),
    "isin invert": lambda xp: xp.isin(A, W, invert=True),
    "isin nan": lambda xp: xp.isin(HARD, HARD),
    "isin empty": lambda xp: xp.isin(A, V[:0]),
    "intersect1d": lambda xp: xp.intersect1d(V, W),
    "intersect1d indices": lambda xp: xp.intersect1d(V, W, return_indices=True),
    "union1d": lambda xp: xp.union1d(V, W),
    "setdiff1d": lambda xp: xp.setdiff1d(V, W),
    "setdiff1d unique": lambda xp: xp.setdiff1d(V, W, assume_unique=True),
    "setxor1d": lambda xp: xp.setxor1d(V, W),
    "bincount": lambda xp: xp.bincount(V),
    "bincount weights": lambda xp: xp.bincount(V, weights=np.arange(7, dtype=np.float32)),
    "bincount minlength": lambda xp: xp.bincount(V, minlength=9),
    "bincount empty": lambda xp: xp.bincount(V[:0], minlength=2),
    "histogram": lambda xp: xp.histogram(F, bins=4),
    "histogram range": lambda xp: xp.histogram(F, bins=5, range=(-1, 1)),
    "histogram edges": lambda xp: xp.histogram(Y, bins=T),
    "histogram weights": lambda xp: xp.histogram(Y, bins=3, weights=T),
    "histogram density": lambda xp: xp.histogram(F, bins=4, density=True),
    "histogram one value": lambda xp: xp.histogram(np.ones(3, np.float32), bins=4),
    "histogram_bin_edges": lambda xp: xp.histogram_bin_edges(A, 3),
    "histogram2d": lambda xp: xp.histogram2d(F[0], F[1], bins=(3, 4)),
    "histogramdd": lambda xp: xp.histogramdd(F[:, :3], bins=2)[0],
    "histogramdd density": lambda xp: xp.histogramdd(F[:, :2], bins=[3, T - 3], density=True)[0],
    "diff": lambda xp: [xp.diff(Y), xp.diff(Y, n=3), xp.diff(F, axis=0), xp.diff(A > 2)],
    "diff ends": lambda xp: xp.diff(A, prepend=0, append=A[:, :1]),
    "diff too often": lambda xp: xp.diff(Y, n=9),
    "ediff1d": lambda xp: [xp.ediff1d(A), xp.ediff1d(Y, to_begin=Y[:1], to_end=Y[:2])],
    "gradient": lambda xp: xp.gradient(Y),
    "gradient distance": lambda xp: xp.gradient(Y, np.float32(2)),
    "gradient positions": lambda xp: xp.gradient(Y, T),
    "gradient axes": lambda xp: xp.gradient(F),
    "gradient axis": lambda xp: xp.gradient(F, np.float32(0.5), axis=1),
    "gradient spacings": lambda xp: xp.gradient(F, np.float32(2), T, axis=(0, 1)),
    "trapezoid": lambda xp: [xp.trapezoid(Y), xp.trapezoid(F, dx=0.5), xp.trapezoid(F, axis=0)],
    "trapezoid positions": lambda xp: [xp.trapezoid(Y, T), xp.trapezoid(F, T)],
    "unwrap": lambda xp: xp.unwrap(np.array([0, 3, 6.5, 13, 2, -4], np.float32)),
    "unwrap discont": lambda xp: xp.unwrap(np.array([0, 3, 6.5, 13], np.float32), discont=5.0),
    "unwrap ints": lambda xp: xp.unwrap(np.array([0, 3, 7, 13, 8]), period=6),
    "unwrap axis": lambda xp: xp.unwrap(4 * F, axis=0),
    "interp": lambda xp: xp.interp(np.array([0.5, 3, 9, -1], np.float32), T, Y),
    "interp ends": lambda xp: xp.interp(np.array([0.5, 9, -1], np.float32), T, Y, -7, 7),
    "interp period": lambda xp: xp.interp(np.array([0.5, 9.5, -1], np.float32), T, Y, period=10),
    "interp scalar": lambda xp: xp.interp(np.float32(3.5), T, Y),
    "cov": lambda xp: xp.cov(F),
    "cov columns": lambda xp: xp.cov(F, rowvar=False),
    "cov two": lambda xp: xp.cov(F[0], F[1]),
    "cov one": lambda xp: xp.cov(F[0]),
    "cov bias": lambda xp: xp.cov(F, bias=True),
    "cov ddof": lambda xp: xp.cov(F, ddof=2),
    "cov fweights": lambda xp: xp.cov(F, fweights=np.array([1, 2, 0, 1, 3])),
    "cov aweights": lambda xp: xp.cov(F, aweights=T + 1),
    "cov both": lambda xp: xp.cov(F, fweights=np.array([1, 2, 0, 1, 3]), aweights=T + 1),
    "corrcoef": lambda xp: xp.corrcoef(F),
    "convolve": lambda xp: [xp.convolve(Y, T[:3], m) for m in ("full", "same", "valid")],
    "convolve shorter first": lambda xp: [
        xp.convolve(T[:2], Y, m) for m in ("full", "same", "valid")
    ],
    "correlate": lambda xp: [xp.correlate(Y, T[:3], m) for m in ("full", "same", "valid")],
    "correlate shorter": lambda xp: [xp.correlate(T[:2], Y, m) for m in ("full", "same", "valid")],
    "correlate even": lambda xp: [xp.correlate(Y[:4], T[:2], m) for m in ("full", "same", "valid")],
    "correlate complex": lambda xp: xp.correlate(1j * Y, Y[:2] + 2j, "full"),
    "packbits": lambda xp: [xp.packbits(A > 2), xp.packbits(A > 2, axis=0)],
    "packbits little": lambda xp: xp.packbits(A > 2, axis=1, bitorder="little"),
    "unpackbits": lambda xp: xp.unpackbits(A.astype(np.uint8), axis=1),
    "unpackbits count": lambda xp: [
        xp.unpackbits(np.uint8([3, 255]), count=c) for c in (3, -3, 20)
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name):
    call = CALLS[name]
    close(call(gnp), call(np))


@pytest.mark.parametrize("k", [0, 2, -2, 6])
def test_partition(k):
    x = gnp.partition(V, k)
    want = np.sort(V)
    k %= len(V)
    close(x[k], want[k])
    close(np.sort(x), want)
    close(np.sort(x[:k]), want[:k])
    order = gnp.argpartition(V, k)
    close(np.sort(V[np.asarray(order)][: k + 1]), want[: k + 1])
    close(np.sort(order), np.arange(len(V)))
    with ga.enable_x64(True):
        assert gnp.argpartition(V, k).dtype == np.int32  # as positions of top_k are


def test_descending():
    close(gnp.sort(A, descending=True), -np.sort(-A))
    order = gnp.argsort(V, descending=True)
    close(order, np.argsort(-V, kind="stable"))  # equal elements keep their order
    assert np.isnan(gnp.sort(HARD, descending=True)[:2]).all()
    assert gnp.argsort(V, dtype="int16").dtype == np.int16


#: With `size`, sets of traced arrays: call, result.
SIZED = {
    "unique": (lambda x: gnp.unique(x, size=6), [0, 1, 2, 3, 0, 0]),
    "unique cut": (lambda x: gnp.unique(x, size=2), [0, 1]),
    "unique fill": (lambda x: gnp.unique(x, size=5, fill_value=9), [0, 1, 2, 3, 9]),
    "unique index": (lambda x: gnp.unique(x, True, size=5)[1], [4, 1, 2, 0, 4]),
    "unique inverse": (lambda x: gnp.unique(x, False, True, size=5)[1], [3, 1, 2, 1, 0, 3, 3]),
    "unique counts": (lambda x: gnp.unique(x, False, False, True, size=5)[1], [1, 2, 1, 3, 0]),
    "unique_counts": (lambda x: gnp.unique_counts(x, size=5).counts, [1, 2, 1, 3, 0]),
    "intersect1d": (lambda x: gnp.intersect1d(x, W, size=3), [1, 3, 1]),
    "intersect1d fill": (lambda x: gnp.intersect1d(x, W, size=3, fill_value=7), [1, 3, 7]),
    "union1d": (lambda x: gnp.union1d(x, W, size=7), [0, 1, 2, 3, 5, 9, 0]),
    "setdiff1d": (lambda x: gnp.setdiff1d(x, W, size=4), [0, 2, 0, 0]),
    "setxor1d": (lambda x: gnp.setxor1d(x, W, size=5, fill_value=-1), [0, 2, 5, 9, -1]),
    "bincount": (lambda x: gnp.bincount(x, length=3), [1, 2, 1]),
}


@pytest.mark.parametrize("name", SIZED)
def test_sized(name):
    call, want = SIZED[name]
    close(call(gnp.asarray(V)), want)
    close(ga.jit(call)(V), want)


def test_bincount_at_its_edges():
    close(gnp.bincount(np.array([0, -1, 1])), [2, 1])
    close(gnp.bincount(V, length=2), [1, 2])
    close(gnp.bincount(np.array([True, False, True])), [1, 2])


def test_interp_extrapolates():
    x = np.array([-2.0, 10.0], np.float32)
    close(gnp.interp(x, T, Y, left="extrapolate", right="extrapolate"), [-2.0, 19.5])
    close(gnp.interp(1.0, np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 5.0, 7.0, 9.0])), 7.0)
    close(gnp.interp(0.5, T, 1j * Y), 0.5j)


def test_result_types():
    assert gnp.trapezoid(V).dtype == np.float32
    assert gnp.convolve(V, V).dtype == np.float32
    assert gnp.histogram(V)[0].dtype == np.float32
    assert gnp.histogram2d(V, V)[0].dtype == np.int32
    assert gnp.gradient(V).dtype == np.float32
    assert gnp.cov(A).dtype == np.float32
    assert gnp.searchsorted(T, 1).dtype == np.int32
    assert gnp.packbits(A > 1).dtype == np.uint8
    assert gnp.searchsorted(gnp.arange(4, dtype="bfloat16"), 2.5) == 3


ERRORS = {
    "sort kind": (lambda: gnp.sort(V, kind="quicksort"), TypeError, "'kind' argument to sort"),
    "sort scalar": (lambda: gnp.sort(gnp.array(1)), ValueError, "axis -1 is out of bounds"),
    "sort list": (lambda: gnp.sort([1, 2]), TypeError, "sort requires ndarray or scalar"),
    "lexsort": (lambda: gnp.lexsort(()), TypeError, "need sequence of keys"),
    "partition": (lambda: gnp.partition(V, 9), ValueError, "out of bounds"),
    "searchsorted": (lambda: gnp.searchsorted(A, 1), ValueError, "a should be 1-dimensional"),
    "side": (lambda: gnp.searchsorted(V, 1, side="x"), ValueError, "expected 'left' or 'right'"),
    "method": (lambda: gnp.searchsorted(V, 1, method="x"), ValueError, "expected one of"),
    "unique traced": (lambda: ga.jit(gnp.unique)(V), errors.ConcretizationTypeError, "size"),
    "unique empty": (lambda: gnp.unique(V[:0], size=2), ValueError, "fill_value must be specified"),
    "bincount": (lambda: gnp.bincount(F), TypeError, "must have an integer type"),
    "bincount traced": (lambda: ga.jit(gnp.bincount)(V), errors.ConcretizationTypeError, "length"),
    "histogram": (lambda: gnp.histogram(Y, weights=V), ValueError, "same shape as a"),
    "histogram text": (lambda: gnp.histogram(Y, bins="auto"), TypeError, "auto"),
    "diff": (lambda: gnp.diff(Y, n=-1), ValueError, "order must be non-negative"),
    "gradient": (lambda: gnp.gradient(Y[:1]), ValueError, "at least 2 elements"),
    "gradient spacing": (
        lambda: gnp.gradient(F, 1.0, 2.0, 3.0),
        TypeError,
        "Invalid number of spac",
    ),
    "interp": (lambda: gnp.interp(1.0, F, F), ValueError, "one-dimensional arrays of equal size"),
    "interp text": (lambda: gnp.interp(1.0, T, Y, left="x"), ValueError, "extrapolate"),
    "cov": (lambda: gnp.cov(F[None]), ValueError, "more than 2 dimensions"),
    "convolve": (lambda: gnp.convolve(F, Y), ValueError, "1-dimensional"),
    "convolve mode": (lambda: gnp.convolve(Y, Y, "x"), ValueError, "mode must be one of"),
    "convolve empty": (lambda: gnp.convolve(Y, Y[:0]), ValueError, "cannot be empty"),
    "packbits": (lambda: gnp.packbits(F), TypeError, "integer or boolean"),
    "unpackbits": (lambda: gnp.unpackbits(V), TypeError, "unsigned byte"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, error, words = ERRORS[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("kind", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_narrow_floats_with_nan(kind):
    """Types that NumPy has no order for, although it takes one of them for a float of its own."""
    wide = np.array([np.nan, 1, -2, np.nan, 0.5, -16, 3, -0.0, 0], np.float32)
    x = gnp.asarray(wide).astype(kind)
    order = np.argsort(wide, kind="stable")
    np.testing.assert_array_equal(np.asarray(gnp.argsort(x)), order)
    np.testing.assert_array_equal(np.asarray(gnp.sort(x)).astype(np.float32), wide[order])
    found = gnp.searchsorted(gnp.sort(x), x[1:3])
    np.testing.assert_array_equal(np.asarray(found), np.searchsorted(wide[order], wide[1:3]))


@pytest.mark.parametrize("wide", [False, True])
def test_places_are_int32_whatever_x64_is(wide):
    with ga.enable_x64(wide):
        a = gnp.arange(4.0)
        for method in ("scan", "sort", "compare_all"):
            assert gnp.searchsorted(a, a[1:], method=method).dtype == "int32"
        assert gnp.digitize(a, a).dtype == "int32"
    long = ga.ShapeDtypeStruct((2**31,), "int8")
    with ga.enable_x64(True):
        assert ga.eval_shape(gnp.searchsorted, long, long).dtype == "int64"


def test_top_k_of_more_than_int32_counts():
    with pytest.raises(ValueError, match="top_k returns int32 indices, which will overflow"):
        ga.eval_shape(lambda x: ga.lax.top_k(x, 2), ga.ShapeDtypeStruct((2**31,), "int8"))


NARROW = [
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu",
]  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_float_is_ordered_by_value(name):
    """Not by its highest bit, which is a sign in most formats of 8 bits only."""
    dtype = np.dtype(getattr(gnp, name).dtype)
    every = np.arange(2 ** gnp.finfo(dtype).bits, dtype=np.uint8).view(dtype)
    x = every[np.isfinite(every.astype(np.float32))][::-1].copy()
    wide = x.astype(np.float32)
    values, places = ga.lax.top_k(x, len(x))
    order = np.argsort(-wide, kind="stable")
    np.testing.assert_array_equal(np.asarray(values).astype(np.float32), wide[order])
    # Both zeros are there, and -0.0 is below 0.0.
    np.testing.assert_array_equal(wide[np.asarray(places)], wide[order])
    for k in (1, 3):
        np.testing.assert_array_equal(np.asarray(ga.lax.top_k(x, k)[0]), np.asarray(values)[:k])
    least = ga.lax.approx_min_k(x, 2)[0]
    np.testing.assert_array_equal(np.asarray(least).astype(np.float32), np.sort(wide)[:2])


@pytest.mark.parametrize("name", NARROW)
def test_quantiles_of_narrow_floats(name):
    """Counted in float32, and rounded once."""
    x = np.array([2.0, 1.0, 4.0, 0.5, 1.0], getattr(gnp, name).dtype)
    wide = x.astype(np.float32)
    for function in (
        lambda xp, a: xp.median(a),
        lambda xp, a: xp.nanmedian(a),
        lambda xp, a: xp.percentile(a, 30.0),
        lambda xp, a: xp.quantile(a, np.float32([0.1, 0.9])),
        lambda xp, a: xp.quantile(a, 0.3, method="nearest"),
    ):
        found, wanted = function(gnp, x), np.float32(function(np, wide))
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(found), wanted.astype(x.dtype))
    made = gnp.linspace(0.5, 4, 3, dtype=x.dtype)
    np.testing.assert_array_equal(np.asarray(made), np.linspace(0.5, 4, 3).astype(x.dtype))
