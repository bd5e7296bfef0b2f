"""What NumPy does for one element after another, done for many at once: results are the same."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.primitives.elementwise import arithmetic, choice
from gpuarray.primitives.indexing.rows import MANY, add_rows, take_rows
from gpuarray.primitives.narrow_floats import BLOCK, in_float32
from gpuarray.primitives.numpy_rules import choose
from gpuarray.primitives.order import search
from gpuarray.primitives.random import host as generators

RNG = np.random.default_rng(0)
REAL = ["float32", "float64", "int32", "int64", "uint32", "uint64"]


def drawn(shape, dtype):
    """Numbers of a type; some floats are infinite, nan or -0.0."""
    x = RNG.standard_normal(shape) * 100
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    with np.errstate(invalid="ignore"):
        out = x.astype(np.int64).astype(dtype) if np.dtype(dtype).kind in "iu" else x.astype(dtype)
    if out.dtype.kind == "f" and out.size > 2:
        out.reshape(-1)[:3] = [np.inf, np.nan, -0.0]
    return out


# ---- rows ----


@pytest.mark.parametrize("ufunc", [np.add, np.subtract], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [*REAL, "complex64", "complex128"])
@pytest.mark.parametrize("empty", [True, False], ids=["to zeros", "to numbers"])
def test_rows_are_added_in_their_order(dtype, ufunc, empty):
    values, index = drawn((2000, 3, 2), dtype), RNG.integers(0, 60, 2000)
    start = np.zeros((70, 3, 2), dtype) if empty else np.abs(drawn((70, 3, 2), dtype)).astype(dtype)
    want, got = start.copy(), start.copy()
    with np.errstate(all="ignore"):
        ufunc.at(want, index, values)
        assert add_rows(ufunc, got, index, values)
    np.testing.assert_array_equal(got, want)
    zeros = want.real == 0
    np.testing.assert_array_equal(np.signbit(got.real[zeros]), np.signbit(want.real[zeros]))


def test_rows_that_are_left_to_numpy():
    few, half = np.zeros((4, 2), np.float32), np.zeros((4, MANY), np.float16)
    index = np.array([0, 1])
    assert not add_rows(np.add, few, index, few[:2])
    assert not add_rows(np.add, half, index, half[:2])
    assert not add_rows(np.maximum, few, index, few[:2])
    # A sum from zero would lose the sign.
    negative = np.full((4, MANY), -0.0, np.float32)
    assert not add_rows(np.add, negative, index, negative[:2])
    assert np.signbit(negative).all()


@pytest.mark.parametrize("shape", [(5,), (40_000,), (300, 100)])
@pytest.mark.parametrize("width", [(), (3,), (2, 4)])
def test_rows_are_taken_clamped(shape, width):
    x = drawn((50, *width), "float32")
    where = RNG.integers(-5, 60, shape, dtype=np.int32)
    np.testing.assert_array_equal(take_rows(x, where), x[np.clip(where, 0, 49)])
    np.testing.assert_array_equal(take_rows(x[::-1], where), x[::-1][np.clip(where, 0, 49)])


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("dtype", ["int32", "int16", "uint32"])
def test_points_of_several_axes(mode, dtype):
    x = drawn((7, 130, 5), "float32")
    info = np.iinfo(dtype)
    at = [
        RNG.integers(max(info.min, -4), min(info.max, n + 3), 500).astype(dtype) for n in (7, 130)
    ]
    got = np.asarray(gnp.asarray(x).at[tuple(at)].get(mode=mode, fill_value=9.0))
    # Negative indices count from the end once, by NumPy's rules.
    places = [a.astype(np.int64) + (a < 0) * n for a, n in zip(at, (7, 130))]
    inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, (7, 130))])
    clipped = [np.clip(p, 0, n - 1) for p, n in zip(places, (7, 130))]
    want = x[tuple(clipped)]
    if mode == "fill":
        want = np.where(inside[:, None], want, 9)
    np.testing.assert_array_equal(got, want)


# ---- order ----


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
def test_many_are_searched_as_one_by_one(dtype, side):
    for n in (1, 2, 3, 7, 8, 9, 200):
        info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
        x, query = (RNG.integers(0, 120, k).astype(dtype) for k in (n, 3 * search.BLOCK + 1))
        query[:4] = [info.max, info.min, 0, 1]
        x[:1] = info.max
        if np.dtype(dtype).kind == "f":
            x[-2:], query[4:8] = np.nan, [np.nan, np.inf, -np.inf, -0.0]
        x = np.sort(x)
        got = search._search_many(x, query, side, np.dtype(np.int32))
        np.testing.assert_array_equal(got, np.searchsorted(x, query, side))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bfloat16"])
@pytest.mark.parametrize("shape, axis", [((5000,), 0), ((40, 600), 1), ((600, 40), 0)])
def test_the_largest_in_total_order(dtype, shape, axis):
    """nan first, 0.0 before -0.0, the first of equals first: as a stable sort has it."""
    x = drawn(shape, "float32").round(-1)  # with many equals
    x.reshape(-1)[5:9] = [np.nan, 0.0, -0.0, -np.inf]
    with np.errstate(invalid="ignore"):
        x = x.astype(getattr(ml_dtypes, dtype, dtype))
    values, where = (np.asarray(v) for v in lax.top_k(x, 9, axis=axis))
    wide = x.astype(np.float64)
    # nan above all; signs tell the zeros apart.
    lead = np.where(np.isnan(wide), np.inf, wide)
    keys = np.where(np.isnan(wide), 1, 0), lead, np.where(wide == 0, ~np.signbit(wide), 0)
    moved = [np.moveaxis(k, axis, -1) for k in keys]
    order = np.lexsort([-moved[2], -moved[1], -moved[0]], axis=-1)[..., :9]
    order = np.moveaxis(order, -1, axis)
    np.testing.assert_array_equal(where, order)
    taken = np.take_along_axis(x, order, axis)
    np.testing.assert_array_equal(values.view(np.uint8), np.ascontiguousarray(taken).view(np.uint8))


# ---- choices, remainders, quotients ----


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64", "complex128"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_choice_is_where(dtype, share):
    mask, yes, no = RNG.random(40_000) < share, drawn(40_000, dtype), drawn(40_000, dtype)
    for a, b in ((yes, no), (yes[7], no), (yes, no[7]), (yes, no.dtype.type(0))):
        got = choose(mask, a, b)
        np.testing.assert_array_equal(got, np.where(mask, a, b))
        assert got.dtype == yes.dtype and not np.shares_memory(got, no)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_one_condition_for_all(shape):
    a, b = drawn(shape, "float32"), drawn(shape, "float32")
    for which in (True, False):
        got = ga.jit(lambda w: gnp.where(w, a, b))(np.bool_(which))
        np.testing.assert_array_equal(np.asarray(got), a if which else b)


def test_one_condition_for_cases_of_unequal_shapes():
    """As they come where a value is broadcast in the group that reads it."""
    row, one = np.arange(3.0), np.array([7.0])
    for which in (np.True_, np.False_, np.array([True]), np.array([[False]])):
        got = choice._choose_whole(which, one, row)
        np.testing.assert_array_equal(got, np.where(which, row, one))
        got = choice._choose_whole(which, row + 1, row)
        np.testing.assert_array_equal(got, np.where(which, row, row + 1))
        assert not np.shares_memory(got, row)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint32", "int64"])
def test_quotients_and_remainders_are_the_machines(dtype):
    """C's: towards zero, with the dividend's sign; x / 0 is all ones and x % 0 is x."""
    info = np.iinfo(dtype)
    numbers = [info.min, info.min + 1, 0, 1, 2, 7, 11, 100, info.max]
    numbers += [-1, -2, -7, -100] if info.min else []
    xs = np.array(numbers, dtype)
    with np.errstate(all="ignore"):
        for y in numbers:
            # Python's integers have no size; the result wraps, as min / -1 does.
            quotients = [
                -1 if y == 0 else abs(x) // abs(y) * (-1) ** ((x < 0) != (y < 0)) for x in numbers
            ]
            want = np.array([q % (1 << info.bits) for q in quotients], np.uint64).astype(dtype)
            rests = [x if y == 0 else x - q * y for x, q in zip(numbers, quotients)]
            divisor = np.asarray(y).astype(dtype)
            for x, q, r in zip(xs, want, rests, strict=True):
                with ga.enable_x64(True):
                    assert lax.div(x, divisor[()]) == q and lax.rem(x, divisor[()]) == r, (x, y)
            np.testing.assert_array_equal(arithmetic._remainder(xs, divisor), rests)
            np.testing.assert_array_equal(
                arithmetic._remainder(np.abs(xs[2:]), divisor),
                [r if x >= 0 else -r for x, r in zip(numbers[2:], rests[2:])],
            )


# ---- narrow floats ----


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "maximum", "less", "exp", "sqrt"])
def test_bfloat16_by_way_of_float32(name):
    ufunc = getattr(np, name)
    x = drawn(3 * BLOCK + 5, "float32").astype(ml_dtypes.bfloat16)
    operands = [x, x[::-1].copy()][: ufunc.nin]
    with np.errstate(all="ignore"):
        got, want = in_float32(ufunc)(*operands), ufunc(*operands)
    assert got.dtype == want.dtype
    if name == "exp":  # NumPy's and the C library's float32 differ by a bit where they round
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-7)
        assert np.mean((got == want) | (got != got)) > 0.999
    else:
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
    if ufunc.nin == 2:
        with np.errstate(all="ignore"):
            got, want = in_float32(ufunc)(x, x[4]), ufunc(x, x[4])
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


# ---- random numbers and what they are made from ----


def test_words_of_threefry():
    """The known answers of the paper's own test vectors."""
    known = {
        (0, 0, 0, 0): (0x6B200159, 0x99BA4EFE),
        (0xFFFFFFFF,) * 4: (0x1CB996FC, 0xBB002BE7),
        (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3): (0xC4923A9C, 0x483DF7A0),
    }
    for words, want in known.items():
        assert generators._pair(*words) == want
    words = RNG.integers(0, 2**32, (4, 200), dtype=np.uint32)
    many = generators.threefry2x32(*words)
    for i in range(200):
        assert generators._pair(*(int(w[i]) for w in words)) == (many[0][i], many[1][i])


def test_inverse_of_erf():
    x = np.concatenate([RNG.uniform(-1, 1, 200_000), RNG.uniform(0.9999, 1, 10_000), [0.0, -0.0]])
    x = x.astype(np.float32)
    got = np.asarray(lax.erf_inv(x))
    with np.errstate(divide="ignore"):
        want = scipy.special.erfinv(x.astype(np.float64))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    # Near 1 the result's last digits are those of 1 - x.
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-5)
    near = np.abs(x) < 0.5
    np.testing.assert_allclose(got[near], want[near], rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
