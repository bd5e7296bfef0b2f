"""Values, dtypes and weak types where a function's definition has an edge.

Figures are NumPy's or JAX 0.10.2's, or follow from the mathematics said beside them.
"""

import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import checkify
from gpuarray.scipy import special

HALVES = ("float16", "bfloat16")


# ---- dtypes ----


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "int32", "int8", "bool"])
@pytest.mark.parametrize("fraction", [*HALVES, "float32"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
def test_quantiles_have_the_dtype_of_the_elements(name, fraction, dtype):
    scale = 100 if "percentile" in name else 1
    q = gnp.array([0.25 * scale, 0.5 * scale], fraction)
    for given, shape in ((q, (2,)), (q[1], ())):
        out = getattr(gnp, name)(gnp.array([0, 1, 1], dtype), given)
        assert out.dtype == (dtype if dtype in HALVES else "float32")
        assert out.shape == shape and not out.weak_type
        assert np.asarray(out, np.float32).ravel()[-1] == 1


def test_quantiles_of_wide_fractions_stay_narrow():
    with ga.enable_x64(True):
        for dtype in ("float16", "bfloat16", "float32"):
            assert gnp.quantile(gnp.ones(3, dtype), gnp.array([0.5], "float64")).dtype == dtype


# The elements are converted first, so that 300.25 + 65535 + 3 wraps: 302 // 3.
@pytest.mark.parametrize(
    "values, dtype, expected",
    [
        ([1.5, 3.5, 1.0], "uint16", 1),
        ([-2.75, 4.9, 2.0], "uint16", 2),
        ([300.25, 70000.1, 3.0], "uint16", 100),
        ([1.5, 3.5, 1.0], "int32", 1),
        ([-3.5, 0.0], "int32", -1),
        ([100.0, 100.0], "int8", -28),
    ],
)
def test_mean_in_an_integer_dtype(values, dtype, expected):
    out = gnp.mean(gnp.array(values), dtype=dtype)
    assert out.dtype == dtype and int(out) == expected
    where = gnp.arange(len(values) + 1) < len(values)
    masked = gnp.mean(gnp.array([*values, 5.0]), dtype=dtype, where=where)
    assert int(masked) == expected


def test_mean_of_more_elements_than_its_dtype_counts():
    assert int(gnp.mean(gnp.ones(256, "int8"), dtype="int8")) == 0  # 256 wraps to 0
    assert int(gnp.mean(gnp.ones(200, "uint8"), dtype="uint8")) == 1


@pytest.mark.parametrize(
    "given, dims, expected",
    [
        (("int8", "int8"), (10, 12), "int8"),
        (("uint8", "int8"), (100, 100), "int16"),
        (("uint32", "uint32"), (100, 100), "uint32"),
    ],
)
def test_ravel_multi_index_has_the_dtype_of_the_indices(given, dims, expected):
    index = [gnp.array([1, 2], d) for d in given]
    out = gnp.ravel_multi_index(index, dims)
    assert out.dtype == expected
    np.testing.assert_array_equal(out, np.ravel_multi_index(([1, 2], [1, 2]), dims))


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_ravel_multi_index_broadcasts(mode):
    index = [np.arange(3), np.ones((2, 3), int), 2]
    expected = np.ravel_multi_index(index, (4, 5, 6), mode)
    np.testing.assert_array_equal(gnp.ravel_multi_index(index, (4, 5, 6), mode), expected)


def test_ravel_multi_index_refuses_a_dtype_too_narrow():
    small = gnp.array([1, 2], "int8")
    for mode in ("raise", "clip", "wrap"):
        with pytest.raises(ValueError, match="int8 does not hold"):
            gnp.ravel_multi_index((small, small), (100, 100), mode=mode)
    with pytest.raises(ValueError, match="int32 does not hold"):
        gnp.ravel_multi_index((gnp.arange(2),) * 3, (10000,) * 3)
    with pytest.raises(ValueError, match="int16 does not hold"):
        gnp.ravel_multi_index((small, small), (300, 300), dtype="int16")
    assert int(gnp.ravel_multi_index((), ())) == 0
    with pytest.raises(ValueError, match="one index array for every dimension"):
        gnp.ravel_multi_index(gnp.arange(3), [])


PADDING = ["constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect"]


@pytest.mark.parametrize("number", [1, 1.0, 1j])
@pytest.mark.parametrize("mode", [*PADDING, "symmetric", "wrap", "empty"])
def test_pad_keeps_a_weak_type(mode, number):
    if mode == "median" and number == 1j:
        return
    weak = gnp.broadcast_to(gnp.asarray(number), (3,))
    assert weak.weak_type and gnp.pad(weak, 1, mode=mode).weak_type
    assert not gnp.pad(gnp.array([number] * 3), 1, mode=mode).weak_type


# ---- positions ----


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_positions_that_the_index_dtype_does_not_hold(name):
    long = ga.ShapeDtypeStruct((2**31 + 1,), "float32")
    square = ga.ShapeDtypeStruct((2**16, 2**16), "float32")
    for given in (long, square):
        with pytest.raises(ValueError, match="does not hold the last position"):
            ga.eval_shape(getattr(gnp, name), given)
    assert ga.eval_shape(lambda x: getattr(gnp, name)(x, axis=0), square).shape == (2**16,)
    with ga.enable_x64(True):
        assert ga.eval_shape(getattr(gnp, name), long).dtype == "int64"


def test_positions_of_a_narrow_index_dtype():
    x = gnp.arange(300)
    with pytest.raises(ValueError, match="int8 does not hold"):
        lax.argmax(x, 0, "int8")
    assert int(lax.argmax(x, 0, "int16")) == 299


@pytest.mark.parametrize(
    "read, index",
    [
        (lambda x: x[5], 5),
        (lambda x: x[-5], -2),
        (lambda x: x[None, 7, ...], 7),
        (lambda x: x[2**40], 2**31 - 1),
        (lambda x: gnp.ones((4, 3))[1:3, 5] + x[0], 5),
        (lambda x: gnp.ones((4, 3))[::-2, 5] + x[0], 5),
    ],
)
def test_checkify_reports_a_known_index(read, index):
    error, out = checkify.checkify(read, errors=checkify.index_checks)(gnp.arange(3.0))
    assert f"index {index} is out of bounds" in error.get()
    np.testing.assert_array_equal(out, read(gnp.arange(3.0)))
    np.testing.assert_array_equal(ga.jit(read)(gnp.arange(3.0)), out)
    error, _ = checkify.checkify(lambda x: x[2] + x[-3], errors=checkify.index_checks)(gnp.ones(3))
    assert error.get() is None


def test_gradient_of_a_known_index_out_of_bounds():
    for transform in (lambda f: f, ga.jit):
        out = transform(ga.grad(lambda x: x[5] * 2))(gnp.ones(3))
        np.testing.assert_array_equal(out, [0, 0, 2])


# ---- values ----


def test_spacing():
    # Half precision: NumPy's distance to the next larger number.
    half = np.array([-1e-4, -3e-5, -6e-8, -0.0, 0.0, 6e-8, 1, -1, -2, -65504, np.nan], np.float16)
    single = np.array([-1.7e-38, -6e-39, -1e-45, 0.0, 1e-45, 1e-39, 1, -1, np.inf], np.float32)
    with np.errstate(all="ignore"):
        expected = np.spacing(half), np.spacing(single)
    np.testing.assert_array_equal(gnp.spacing(half), expected[0])
    np.testing.assert_array_equal(gnp.spacing(single), expected[1])


@pytest.mark.parametrize("ends", [(1.0, -8.0), (-1, 8), (0.0, 1.0), (1.0, 0.0), (np.nan, 1.0)])
def test_geomspace_without_a_ratio(ends):
    for options in ({}, {"endpoint": False}):
        assert np.isnan(gnp.geomspace(*ends, 4, **options)).all()
    assert gnp.geomspace(*ends, 1).shape == (1,)


def test_geomspace_of_columns():
    out = np.asarray(gnp.geomspace(gnp.array([1.0, -1.0]), gnp.array([-8.0, -8.0]), 4))
    assert np.isnan(out[:, 0]).all()
    np.testing.assert_allclose(out[:, 1], [-1, -2, -4, -8], rtol=1e-6)


# ---- derivatives ----


@pytest.mark.parametrize("name", ["nanmedian", "nanquantile", "nanpercentile"])
def test_quantile_of_nothing_has_no_derivative(name):
    f = getattr(gnp, name)
    at = () if name == "nanmedian" else (0.5,)
    x = gnp.array([[math.nan, math.nan, math.nan], [1.0, math.nan, 4.0]])
    slopes = ga.grad(lambda x: f(x, *at, axis=1)[0] + f(x, *at, axis=1)[1])(x)
    assert np.asarray(slopes)[0].tolist() == [0, 0, 0]


def test_entr_is_constant_below_zero():
    x = gnp.array([-1.0, -math.inf, 0.5])
    slope = -1 - math.log(0.5)
    for transform in (ga.jacfwd, ga.jacrev):
        np.testing.assert_allclose(transform(special.entr)(x), np.diag([0, 0, slope]), rtol=1e-6)
    curve = ga.hessian(lambda x: special.entr(x).sum())(gnp.array([-1.0, -2.0, 0.5]))
    np.testing.assert_allclose(curve, np.diag([0, 0, -2.0]), rtol=1e-6)


# ---- objects that say how they become arrays ----


class Holder:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


class HolderWithAval(Holder):
    @property
    def aval(self):
        return self.value.aval


ONE = """abs all amax amin any arccos arcsinh argmax argsort atleast_1d average ceil cbrt conj copy
cos cumprod cumsum deg2rad diff exp exp2 expm1 fabs flip floor imag invert isfinite isinf isnan
iscomplex iscomplexobj isreal isrealobj log1p logical_not max mean median min nan_to_num nanmax
nansum ndim negative nonzero ones_like positive prod ptp rad2deg ravel real reciprocal rint shape
sign signbit sin size sort sqrt square squeeze std sum tan tanh trunc unique var
zeros_like""".split()
TWO = """add arctan2 bitwise_and copysign divide equal floor_divide gcd greater heaviside hypot
isclose kron left_shift less logaddexp logical_and matmul maximum minimum mod multiply nextafter
not_equal outer power remainder searchsorted subtract true_divide vdot where""".split()


@pytest.mark.parametrize("holder", [Holder, HolderWithAval])
@pytest.mark.parametrize("name", ONE + TWO)
def test_objects_with_jax_array(name, holder):
    f = getattr(gnp, name)
    for value in (gnp.array([1, 0, 2]), gnp.array([3]), gnp.array([True, False])):
        args = (value,) * (1 + (name in TWO))
        if name == "where":
            args = (value, value, value)
        try:
            expected = f(*args)
        except (TypeError, ValueError):
            continue  # booleans have no such function
        with np.errstate(all="ignore"):
            found = f(*map(holder, args))
        ga.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", *HALVES])
def test_power_of_one_half_is_not_the_root_at_the_edges(dtype):
    """As C has it: +0 at -0.0 and inf at -inf, whether or not elements share the exponent."""
    with ga.enable_x64(dtype == "float64"):
        x = gnp.array([-np.inf, -0.0, 0.0, np.inf, 4.0, -4.0], dtype)
        half = gnp.asarray(0.5, dtype)
        ways = [0.5, half, gnp.full(6, half), gnp.full((2, 1), half)]
        for y in ways:
            for out in (x**y, ga.jit(gnp.power)(x, y)):
                found = np.asarray(out, np.float64).reshape(-1, 6)[0]
                np.testing.assert_array_equal(found, [np.inf, 0, 0, np.inf, 2, np.nan])
                assert not np.signbit(found[:5]).any()
        alone = [float(v**half) for v in x[:3]]
        assert alone == [np.inf, 0, 0] and math.copysign(1, alone[1]) == 1
