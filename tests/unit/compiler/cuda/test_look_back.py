"""Scans in one kernel, whose blocks look back at what those before them tell.

In: one or a few long rows, of lengths that fill no tile, from either end, with what is done before
and behind. Out: NumPy's values, the same bits in every order of threads and blocks and at every
launch, from the simulator with its checks; words that are left as they were found.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.cuda.emit import emit
from tests import golden
from tests.support import simulated
from tests.support.targets import plan_for

simulated.need_compiler()


@pytest.fixture
def short(monkeypatch):
    """Tiles of 512 elements, so that a short row has many."""
    plan_for(monkeypatch, scan_row=1 << 10, scan_threads=64, scan_tile_items=8)


def simulate(function, *inputs) -> np.ndarray:
    made = simulated.built(ga.jit(function).lower(*inputs).jaxpr)
    (first,) = simulated.run(made, inputs)
    for seed in (1, 2, 3):  # the same workspace again, and other orders
        assert simulated.run(made, inputs, seed)[0].tobytes() == first.tobytes()
    return first


def test_it_is_one_kernel_that_reads_once():
    (group,) = ga.jit(gnp.cumsum).lower(golden.shape("float32", 1 << 26)).plan.on_device.groups
    kernel = emit(group)
    assert "look back" in kernel.text and kernel.text.count("ga_load<4>(in0 + ") == 1
    assert kernel.traffic.read[kernel.inputs[0]] == 4 << 26
    assert kernel.traffic.total < 1.01 * (8 << 26)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("length", [2048, 2049, 4001, 20_000, 150_004])
@pytest.mark.parametrize("rows", [1, 3])
def test_sums(length, rows):
    x = np.random.default_rng(length).integers(-50, 50, (rows, length)).astype("int32")
    found = simulate(lambda x: gnp.cumsum(x, 1), x)
    assert np.array_equal(found, x.cumsum(1, dtype="int32"))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint16"])
def test_dtypes(dtype, reverse):
    x = np.random.default_rng(0).integers(0, 3, 9004).astype(np.dtype(dtype))
    found = simulate(lambda x: lax.cummax(x - x[0] + 1, reverse=reverse), x)
    y = (x - x[0] + 1)[:: -1 if reverse else 1]
    want = np.maximum.accumulate(y.astype("f8"))[:: -1 if reverse else 1]
    assert np.array_equal(found.astype("f8"), want)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reverse", [False, True])
def test_floats_with_what_is_around_them(reverse):
    x = np.random.default_rng(0).normal(size=(2, 30_000)).astype("f4")
    found = simulate(lambda x: gnp.exp(-lax.cumsum(x * x, 1, reverse=reverse) / 9000) + x, x)
    way = slice(None, None, -1 if reverse else 1)
    sums = (x.astype("f8") ** 2)[:, way].cumsum(1)[:, way]
    np.testing.assert_allclose(found, np.exp(-sums / 9000) + x, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("short")
def test_what_is_no_number():
    x = np.zeros(5000, "f4")
    x[:] = -0.0
    assert np.signbit(simulate(gnp.cumsum, x)).all()
    x[700], x[4000] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(simulate(gnp.cumsum, x), np.cumsum(x))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64"])
def test_partial_results_of_several_words(dtype):
    x = np.random.default_rng(0).integers(-3, 4, (2, 5000)).astype(dtype)
    x = x * (1 - 2j) if dtype == "complex64" else x
    with ga.enable_x64(True):
        found = simulate(lambda x: lax.cumsum(x, 1), x.astype(dtype))
    assert np.array_equal(found, x.cumsum(1))


# ---- down columns ----
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("shape", [(300, 2), (1500, 5), (400, 33), (2, 600, 3), (5000, 1, 2)])
@pytest.mark.parametrize("reverse", [False, True])
def test_columns(shape, reverse):
    x = np.random.default_rng(0).integers(-50, 50, shape).astype("int32")
    axis = len(shape) - 2 if shape[-2] > 1 else 0
    found = simulate(lambda x: lax.cumsum(x, axis, reverse=reverse) - x, x)
    want = np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)
    assert np.array_equal(found, want - x)


def test_columns_are_read_once():
    (group,) = (
        ga.jit(lambda x: gnp.cumsum(x, 0))
        .lower(golden.shape("float32", 1 << 16, 256))
        .plan.on_device.groups
    )
    kernel = emit(group)
    assert "look back" in kernel.text and kernel.schedule.grid == 8 * 256
    assert kernel.traffic.total < 1.03 * (8 << 24)


# ---- merges of several numbers ----
def affine(one, two):
    """x -> a x + b after another such map, in exact numbers modulo 2**32."""
    return one[0] * two[0], two[0] * one[1] + two[1]


def recurrence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y[i] = a[i] y[i - 1] + b[i] along the last axis, by its definition."""
    out, y = np.empty_like(b), np.zeros_like(b[..., 0])
    for i in range(b.shape[-1]):
        y = a[..., i] * y + b[..., i]
        out[..., i] = y
    return out


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(7,), (40, 30), (3, 2048), (3001,), (36_000,)])
def test_merges_are_in_order_along_rows(shape, reverse):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 1 << 31, shape).astype("u4") for _ in range(2))

    def last(a, b):
        return lax.associative_scan(affine, (a, b), axis=-1, reverse=reverse)[1]

    way = slice(None, None, -1 if reverse else 1)
    want = recurrence(a[..., way], b[..., way])[..., way]
    assert np.array_equal(simulate(last, a, b), want)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("shape", [(40, 300), (300, 3), (2, 700, 5), (9000, 2)])
def test_merges_are_in_order_down_columns(shape):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 1 << 31, shape).astype("u4") for _ in range(2))
    axis = len(shape) - 2

    def both(a, b):
        product, y = lax.associative_scan(affine, (a + 1, b), axis=axis)
        return y ^ product

    rows = [np.moveaxis(x, axis, -1) for x in (a + 1, b)]
    want = recurrence(*rows) ^ np.multiply.accumulate(rows[0], -1, "u4")
    assert np.array_equal(simulate(both, a, b), np.moveaxis(want, -1, axis))


@pytest.mark.usefixtures("short")
def test_parts_of_several_types():
    """The best number so far, where it was, and whether there was any above 0."""
    x = np.random.default_rng(0).normal(size=5000).astype("f4")

    def better(one, two):
        first = one[0] >= two[0]
        return gnp.where(first, one[0], two[0]), gnp.where(first, one[1], two[1]), one[2] | two[2]

    def where(x):
        out = lax.associative_scan(better, (x, gnp.arange(5000, dtype="int16"), x > 3))
        return out[1] * gnp.where(out[2], -1, 1)

    best = np.maximum.accumulate(x)
    at = np.maximum.accumulate(np.where(x == best, np.arange(5000), 0))
    want = np.where(np.maximum.accumulate(x > 3), -at, at)
    assert np.array_equal(simulate(where, x), want)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("shape", [(3000,), (700, 3)])
def test_parts_of_all_sizes(shape):
    dtypes = ("int8", "float64", "bool", "float32", "complex64", "int16")
    rng = np.random.default_rng(0)
    xs = [rng.integers(0, 2, shape).astype(d) for d in dtypes]

    def later(one, two):
        return tuple(gnp.where(two[2], y, x) for x, y in zip(one, two, strict=True))

    with ga.enable_x64(True):
        made = simulated.built(ga.jit(lambda *xs: lax.associative_scan(later, xs)).lower(*xs).jaxpr)
        found = simulated.run(made, xs)
    # The last place at which the third is set, or the first of all.
    places = np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
    last = np.maximum.accumulate(np.where(xs[2], places, 0))
    for x, y in zip(xs, found, strict=True):
        assert np.array_equal(y, np.take_along_axis(x, last, 0))
