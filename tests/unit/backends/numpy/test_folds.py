"""Folds of NumPy arrays: every way gives what `ufunc.reduce` gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.backends.numpy import sums, tiles
from gpuarray.primitives.reduce import host as folds
from gpuarray.primitives.reduce.host import fold, sum_of_products

SHAPES = [
    (0,),
    (5, 0),
    (511,),
    (512,),
    (4097,),
    (70_001,),
    (3, 1000),
    (1000, 3),
    (1000, 1),
    (300, 12),
    (2000, 31),
    (400, 33),
    (7, 255, 5),
    (100, 100, 10),
    (900, 3, 3),
    (2, 3000, 4),
    (2, 40, 300),
    (3, 1025),
    (2, 3, 4, 500),
]
UFUNCS = [np.add, np.multiply, np.maximum, np.minimum, np.bitwise_or, np.bitwise_xor]
DTYPES = ["float32", "float64", "int32", "int8", "uint16", "bool"]


def axes_of(shape):
    yield tuple(range(len(shape)))
    yield from ((a,) for a in range(len(shape)))
    if len(shape) > 2:
        yield from [(0, 1), (1, 2), (0, 2)]


def values(shape, dtype: str):
    rng = np.random.default_rng(math.prod(shape))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return (1 + rng.random(shape) / 100).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape).astype(dtype)


CASES = [
    pytest.param(u, d, id=f"{u.__name__}-{d}")
    for u in UFUNCS
    for d in DTYPES
    if not (u in (np.bitwise_or, np.bitwise_xor) and d.startswith("float"))
]


@pytest.mark.parametrize(("ufunc", "dtype"), CASES)
def test_every_way_gives_what_numpy_gives(ufunc, dtype):
    if dtype == "bool":
        ufunc = {np.add: np.logical_or, np.multiply: np.logical_and}.get(ufunc, ufunc)
    for shape in SHAPES:
        if math.prod(shape) == 0 and ufunc in (np.maximum, np.minimum):
            continue  # of nothing they are not defined; their rule gives the identity before
        for axes in axes_of(shape):
            for x in (values(shape, dtype), np.asfortranarray(values(shape, dtype))):
                with np.errstate(all="ignore"):
                    got = fold(ufunc, axes, x.dtype)(x)
                    wanted = ufunc.reduce(x, axis=axes, dtype=x.dtype)
                    if dtype == "float32":  # NumPy's own sum has an error too
                        wanted = ufunc.reduce(x, axis=axes, dtype="float64").astype(dtype)
                assert got.shape == wanted.shape and got.dtype == wanted.dtype
                exact = dtype[0] != "f" or ufunc in (np.maximum, np.minimum)
                error = {np.add: 3e-6, np.multiply: 1e-4}.get(ufunc, 0) if not exact else 0
                rtol = error if dtype == "float32" else error * 1e-7
                np.testing.assert_allclose(got, wanted, rtol=rtol, err_msg=f"{shape} {axes}")


def test_every_way_is_taken():
    taken = set()
    for ufunc in UFUNCS:
        for shape in SHAPES:
            for axis in range(len(shape)):
                sizes = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
                way = folds._way_of_middle(ufunc, sizes, np.dtype("float32"))
                taken.add(getattr(way, "func", way))
    assert taken == {None, folds._columns, folds._lanes, folds._row_sums}


def test_nan_and_infinity_reach_their_own_row_alone():
    for shape in ((1000, 3), (40, 300), (1, 9000), (8, 1000)):
        for ufunc in (np.add, np.maximum, np.multiply):
            x = np.ones(shape, np.float32)
            x[0, 1], x[-1, -1] = np.nan, np.inf
            got = fold(ufunc, (1,), x.dtype)(x)
            assert np.isnan(got[0]) and (np.isinf(got[-1]) or shape[0] == 1)
            assert np.isfinite(got[1:-1]).all()


@pytest.mark.parametrize("length", [3, 12, 13, 100, 257, 3000])
def test_equal_rows_have_equal_sums(length):
    row = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    x = np.random.default_rng(0).standard_normal((601, length)).astype(np.float32)
    x[::7] = row
    total = fold(np.add, (1,), x.dtype)
    got = total(x)[::7]
    assert (got == got[0]).all()
    if length > 256:  # shorter ones may be summed in another order where they are few
        assert total(row[None])[0] == fold(np.add, (0,), x.dtype)(row) == got[0]


@pytest.mark.parametrize("shape", [(1 << 22,), (4, 1 << 20), (1 << 20, 4), (100_000, 40)])
def test_long_sums_are_as_good_as_pairwise_ones(shape):
    x = np.random.default_rng(1).random(shape).astype(np.float32)
    for axis in range(len(shape)):
        got = fold(np.add, (axis,), x.dtype)(x)
        exact = x.sum(axis, dtype=np.float64)
        assert np.abs(got / exact - 1).max() < 1e-6


def test_sum_of_products_is_the_sum_of_the_products():
    rng = np.random.default_rng(2)
    for shape in [(4,), (5000,), (40, 300), (3000, 3), (2, 30, 50), (0, 4), (3, 2048)]:
        for axes in [*axes_of(shape), ()]:
            x, y = rng.random((2, *shape))
            wanted = (x * y).sum(axis=axes)
            got = sum_of_products(axes, x.dtype)
            np.testing.assert_allclose(got(x, y), wanted, rtol=1e-13)
            np.testing.assert_allclose(got(x, np.asfortranarray(y)), wanted, rtol=1e-13)
            np.testing.assert_allclose(got(x, y[..., :1]), (x * y[..., :1]).sum(axis=axes))


@pytest.fixture
def products(monkeypatch):
    """How many products the last compilation took into sums."""
    counts = []
    real = sums.sum_of_products

    def counted(axes, dtype):
        counts.append(axes)
        return real(axes, dtype)

    monkeypatch.setattr(sums, "sum_of_products", counted)
    return counts


@pytest.mark.parametrize("n", [3000, 600_000])
@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x, y: gnp.sum(x * y), 1),
        (lambda x, y: gnp.sum((x - y) ** 2), 1),
        (lambda x, y: gnp.sum(gnp.square(x)) + gnp.sum(x * gnp.sin(y)), 2),
        (lambda x, y: (x * y, gnp.sum(x * y)), 0),
        (lambda x, y: [gnp.sum(p) + gnp.max(p) for p in [x * y]][0], 0),
        (lambda x, y: gnp.sum(2 * x), 0),
        (lambda x, y: gnp.sum(x * gnp.max(y)), 0),
        (lambda x, y: gnp.sum(x.astype("float16") * y.astype("float16"), dtype="float32"), 0),
    ],
)
def test_products_that_only_a_sum_reads_are_taken_into_it(function, count, n, products):
    x, y = np.random.default_rng(3).standard_normal((2, n)).astype(np.float32)
    got = ga.jit(function)(x, y)
    ga.block_until_ready(got)
    assert len(products) == count
    with ga.disable_jit():
        wanted = function(gnp.asarray(x), gnp.asarray(y))
    ga.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-3), got, wanted)


def test_what_is_also_an_output_is_computed_once(monkeypatch):
    groups = []
    made = tiles.TiledGroup.__init__

    def remembered(self, *args):
        made(self, *args)
        groups.append(self)

    monkeypatch.setattr(tiles.TiledGroup, "__init__", remembered)
    x = np.random.default_rng(4).standard_normal(600_000).astype(np.float32)
    e, total = ga.jit(lambda x: [(e, gnp.sum(e)) for e in [gnp.exp(x)]][0])(x)
    np.testing.assert_allclose(e, np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(total, np.exp(x).sum(dtype=np.float64), rtol=1e-6)
    (group,) = groups
    assert [s.source.count("exp") for s in group.passes] == [1]
