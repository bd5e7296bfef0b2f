"""Pointwise primitives against values worked out by hand, or by NumPy and SciPy in doubles."""

import math

import ml_dtypes
import numpy as np
import pytest
from scipy import special as sp

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import Kind, registry
from gpuarray.lax import args
from gpuarray.primitives.numpy_rules import choose, order_key

NAN, INF = math.nan, math.inf
BF16 = ml_dtypes.bfloat16


def rule(name: str, *xs, **params):
    """What the NumPy rule of a primitive gives; shape and dtype as its aval rule says."""
    prim, avals = registry[name], [ShapedArray(x.shape, x.dtype) for x in xs]
    [want] = prim.out_avals(avals, params)
    with np.errstate(all="ignore"):
        out = np.asarray(prim.numpy_function(avals, params)(*xs))
    assert (out.shape, out.dtype) == (want.shape, want.dtype)
    assert not any(np.shares_memory(out, x) for x in xs), "a pointwise result is fresh memory"
    return out


def ulps(x, y) -> float:
    """The largest distance of two float arrays in representable numbers."""
    both_nan = np.isnan(x) & np.isnan(y)
    distance = np.abs(order_key(x).astype(object) - order_key(y).astype(object))
    return max(np.where(both_nan | (x == y), 0, distance).ravel())


def same(x, y) -> bool:
    """Equal, the signs of zeros included, nan equal to nan."""
    x, y = np.asarray(x), np.asarray(y)
    signs = np.isnan(x) | (np.signbit(x) == np.signbit(y))
    return np.array_equal(x, y, equal_nan=True) and bool(signs.all())


# ---- values that the machine and NumPy see differently ----

TABLE = [
    # primitive, operands, params, result, dtype
    (
        "div",
        ([-7, 7, -7, 5, -(2**31), 0], [2, -2, -2, 0, -1, 0]),
        [-3, -3, 3, -1, -(2**31), -1],
        "i4",
    ),
    ("div", ([7, 5, 255], [2, 0, 0]), [3, 255, 255], "u1"),
    ("div", ([1.0, -1.0, 0.0], [0.0, 0.0, 0.0]), [INF, -INF, NAN], "f4"),
    ("rem", ([-7, 7, 5, -(2**31)], [2, -2, 0, -1]), [-1, 1, 5, 0], "i4"),
    ("rem", ([-7.5, 7.5, 1.0, -0.0], [2.0, -2.0, 0.0, 1.0]), [-1.5, 1.5, NAN, -0.0], "f4"),
    ("add", ([127], [1]), [-128], "i1"),
    ("neg", ([-128, 5],), [-128, -5], "i1"),
    ("abs", ([-128, -5],), [-128, 5], "i1"),
    ("sign", ([-3.0, -0.0, 0.0, NAN, INF],), [-1.0, -0.0, 0.0, NAN, 1.0], "f4"),
    ("max", ([1.0, NAN, 2.0], [NAN, 1.0, 3.0]), [NAN, NAN, 3.0], "f4"),
    ("min", ([1.0, NAN, 2.0], [NAN, 1.0, 3.0]), [NAN, NAN, 2.0], "f4"),
    ("max", ([1 + 2j, 2 + 1j], [1 + 3j, 1 + 5j]), [1 + 3j, 2 + 1j], "c8"),
    ("clamp", ([0.0] * 4, [-1.0, 0.5, 2.0, NAN], [1.0] * 4), [0.0, 0.5, 1.0, NAN], "f4"),
    ("shift_left", ([1, 1, 1, -1], [3, 8, -1, 7]), [8, 0, 0, -128], "i1"),
    ("shift_right_logical", ([-1, -1, -100, 64], [1, 8, -1, 3]), [127, 0, 0, 8], "i1"),
    ("shift_right_arithmetic", ([-100, -100, 100, 64], [2, 8, -1, 3]), [-25, -1, 0, 8], "i1"),
    ("shift_right_arithmetic", ([200, 200, 100], [1, 9, 1]), [228, 255, 50], "u1"),
    ("population_count", ([-1, 0, 7, -128],), [8, 0, 3, 1], "i1"),
    ("clz", ([0, 1, -1, 64],), [8, 7, 0, 1], "i1"),
    ("clz", ([0, 1, 2**40, 2**63 - 1, -1],), [64, 63, 23, 1, 0], "i8"),
    ("not", ([0, 5],), [-1, -6], "i4"),
    ("eq_to", ([0.0, NAN, 1.0], [-0.0, NAN, 1.0]), [False, True, True], "f4"),
    ("lt_to", ([-0.0, 1.0, INF, -INF], [0.0, NAN, NAN, -1.0]), [True] * 4, "f4"),
    ("le_to", ([0.0, 0.0], [-0.0, 0.0]), [False, True], "f4"),
    ("is_finite", ([1.0, INF, NAN],), [True, False, False], "f4"),
    ("floor", ([-1.5, -0.0],), [-2.0, -0.0], "f4"),
    ("complex", ([1.0, INF], [2.0, NAN]), [1 + 2j, complex(INF, NAN)], "f4"),
]


@pytest.mark.parametrize(
    "name,operands,want,dtype", TABLE, ids=lambda v: v if type(v) is str else ""
)
def test_values(name, operands, want, dtype):
    got = rule(name, *[np.array(x, dtype) for x in operands])
    assert np.array_equal(got, np.array(want, got.dtype), equal_nan=True), got
    if got.dtype.kind == "f":
        assert same(got, np.array(want, got.dtype))


HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, INF, -0.0]


@pytest.mark.parametrize(
    "method,want",
    [
        ("AWAY_FROM_ZERO", [1.0, 2.0, 3.0, -1.0, -2.0, 0.0, 8388609.0, INF, -0.0]),
        ("TO_NEAREST_EVEN", [0.0, 2.0, 2.0, -0.0, -2.0, 0.0, 8388609.0, INF, -0.0]),
    ],
)
def test_round(method, want):
    got = rule("round", np.array(HALVES, "f4"), rounding_method=lax.RoundingMethod[method])
    assert np.array_equal(got, np.array(want, "f4"))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", BF16, "c8", "i4", "u1"])
@pytest.mark.parametrize("y", [0, 1, 2, 3, 5, 8])
def test_integer_pow(dtype, y):
    x = np.array([1, 2, 3, 0], dtype)
    got = rule("integer_pow", x, y=y)
    assert np.array_equal(
        got, np.array([1, 2**y, 3**y % (256 if dtype == "u1" else 10**6), 0**y]).astype(dtype)
    )


def test_integer_pow_negative():
    assert same(rule("integer_pow", np.array([2.0, 0.0, -0.0], "f4"), y=-1), [0.5, INF, -INF])


@pytest.mark.parametrize(
    "bits,signed", [(8, 1), (16, 1), (32, 1), (64, 1), (8, 0), (32, 0), (64, 0)]
)
def test_mulhi(bits, signed):
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    info = np.iinfo(dtype)
    ends = [
        int(info.min),
        int(info.max),
        int(info.max) // 3,
        7,
        0,
        *([-1, -12345 % info.max] if signed else []),
    ]
    pairs = [(a, b) for a in ends for b in ends]
    got = rule("mulhi", *[np.array(v, dtype) for v in zip(*pairs)])
    assert got.tolist() == [a * b >> bits for a, b in pairs]


# ---- conversion ----

FLOATS = [2.7, -2.7, 1e10, -1e10, INF, -INF, NAN, 300.0, -1.0, 1e30]
SATURATED = {
    "i1": [2, -2, 127, -128, 127, -128, 0, 127, -1, 127],
    "u1": [2, 0, 255, 0, 255, 0, 0, 255, 0, 255],
    "i4": [2, -2, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, 300, -1, 2**31 - 1],
    "u4": [2, 0, 2**32 - 1, 0, 2**32 - 1, 0, 0, 300, 0, 2**32 - 1],
    "i8": [2, -2, 10**10, -(10**10), 2**63 - 1, -(2**63), 0, 300, -1, 2**63 - 1],
    "u8": [2, 0, 10**10, 0, 2**64 - 1, 0, 0, 300, 0, 2**64 - 1],
    "int4": [2, -2, 7, -8, 7, -8, 0, 7, -1, 7],
}


@pytest.mark.parametrize("source", ["f4", "f8"])
@pytest.mark.parametrize("target", SATURATED)
def test_floats_saturate(source, target):
    dtype = np.dtype(getattr(ml_dtypes, target, target))
    got = rule("convert_element_type", np.array(FLOATS, source), new_dtype=dtype, weak_type=False)
    assert [int(v) for v in got] == SATURATED[target]


def test_conversions():
    convert = lambda x, new: rule(
        "convert_element_type", x, new_dtype=np.dtype(new), weak_type=False
    ).tolist()
    assert convert(np.array([300, -1]), "u1") == [44, 255]  # integers wrap
    assert convert(np.array([0.0, -0.0, NAN, 1e-40]), "?") == [False, False, True, True]
    assert convert(np.array([2 + 3j, 1e10j], "c8"), "i4") == [2, 0]
    assert convert(np.array([65519.0, 65520.0], "f4"), "f2") == [65504.0, INF]
    assert convert(np.array([1.5, -2.0], BF16), "c8") == [1.5, -2.0]


def test_constants_are_converted_from_their_full_width():
    assert lax.convert_element_type(4_000_000_000, "uint32") == np.uint32(4_000_000_000)
    assert float(lax.convert_element_type(2**40, "float32")) == 2.0**40
    assert lax.convert_element_type(np.array([1e10, NAN]), "int32").tolist() == [2**31 - 1, 0]
    with pytest.raises(OverflowError, match="too large"):
        lax.convert_element_type(2**70, "int32")


_TINY = [
    *"float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz".split(),
    *"float8_e3m4 float8_e4m3 float8_e8m0fnu float4_e2m1fn int4 uint4 int2 uint2".split(),
]


@pytest.mark.parametrize("old", _TINY)
def test_conversions_between_types_of_a_byte_and_less(old):
    """Through float32, which holds the values of all; ml_dtypes has no function for some pairs."""
    x = np.float32([0.25, 0.5, 1, 2, 4, -1, -2]).astype(old)
    for new in _TINY:
        found = np.asarray(gnp.asarray(x).astype(new))
        if new.startswith("float"):
            want = x.astype(np.float32).astype(new)
        else:
            bits = int(new[-1])
            low, high = (
                (-(1 << bits - 1), (1 << bits - 1) - 1) if new[0] == "i" else (0, 2**bits - 1)
            )
            want = np.trunc(x.astype(np.float32))
            # Floats saturate, and integers wrap around.
            clipped = np.where(np.isnan(want), 0, np.clip(want, low, high))
            want = clipped if old.startswith("float") else (want - low) % 2**bits + low
        assert_same = np.testing.assert_array_equal
        assert_same(found.astype(np.float32), want.astype(np.float32), f"{old} to {new}")
        (scalar,) = gnp.asarray(x[:1]).astype(new)
        assert_same(np.float32(scalar), found[:1].astype(np.float32)[0])


def test_convert_returns_its_operand_where_nothing_changes():
    x = gnp.ones(3)
    assert lax.convert_element_type(x, "float32") is x
    assert not lax.convert_element_type(1.0, float).weak_type
    with pytest.warns(np.exceptions.ComplexWarning):
        lax.convert_element_type(gnp.ones(2) * 1j, "float32")


def test_bitcast():
    cast = lambda x, new: rule("bitcast_convert_type", x, new_dtype=np.dtype(new))
    one = np.array([1.0, -2.0], "f4")
    assert cast(one, "i4").tolist() == [0x3F800000, -0x40000000]
    assert cast(one, "u1").tolist() == [[0, 0, 128, 63], [0, 0, 0, 192]]
    assert same(cast(cast(one, "u1"), "f4"), one)
    nibbles = cast(np.array([0x1234], "i2"), ml_dtypes.uint4)
    assert nibbles.astype(int).tolist() == [[4, 3, 2, 1]]
    assert cast(nibbles, "i2").tolist() == [0x1234]
    assert cast(np.array([-8, -1], ml_dtypes.int4), "i1").tolist() == -8 % 16 + (-1) * 16


@pytest.mark.parametrize(
    "exponent,mantissa,as_dtype", [(5, 10, "f2"), (8, 7, BF16), (5, 2, ml_dtypes.float8_e5m2)]
)
def test_reduce_precision_is_a_trip_through_the_narrow_format(exponent, mantissa, as_dtype):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=500), [INF, -INF, NAN, 0.0, -0.0, 65519.0, 3e38]]).astype(
        "f4"
    )
    x = x[(np.abs(x) > 2e-3) | (x == 0) | np.isnan(x)]  # subnormals of the narrow format become 0
    with np.errstate(over="ignore"):
        want = x.astype(as_dtype).astype("f4")
    got = rule("reduce_precision", x, exponent_bits=exponent, mantissa_bits=mantissa)
    assert same(got, want)


# ---- accuracy ----


def _grid(low, high, n=2000):
    return np.random.default_rng(1).uniform(low, high, n)


ACCURACY = [
    ("exp", np.exp, (-20, 20)),
    ("exp2", np.exp2, (-20, 20)),
    ("expm1", np.expm1, (-1, 1)),
    ("log", np.log, (1e-3, 100)),
    ("log1p", np.log1p, (-0.5, 1)),
    ("logistic", sp.expit, (-20, 20)),
    ("sqrt", np.sqrt, (0, 100)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), (1e-3, 100)),
    ("cbrt", np.cbrt, (-9, 9)),
    ("sin", np.sin, (-50, 50)),
    ("cos", np.cos, (-50, 50)),
    ("tan", np.tan, (-1.5, 1.5)),
    ("tanh", np.tanh, (-5, 5)),
    ("asin", np.arcsin, (-1, 1)),
    ("acos", np.arccos, (-1, 1)),
    ("atan", np.arctan, (-9, 9)),
    ("sinh", np.sinh, (-9, 9)),
    ("cosh", np.cosh, (-9, 9)),
    ("asinh", np.arcsinh, (-9, 9)),
    ("acosh", np.arccosh, (1, 9)),
    ("atanh", np.arctanh, (-0.99, 0.99)),
    ("erf", sp.erf, (-4, 4)),
    ("erfc", sp.erfc, (-4, 9)),
    ("erf_inv", sp.erfinv, (-0.99, 0.99)),
    ("lgamma", sp.gammaln, (0.1, 30)),
    ("digamma", sp.digamma, (0.1, 30)),
    ("bessel_i0e", sp.i0e, (-30, 30)),
    ("bessel_i1e", sp.i1e, (-30, 30)),
]
WITH_ACCURACY = set("exp exp2 expm1 log log1p logistic sqrt rsqrt cbrt sin cos tan tanh".split())


@pytest.mark.parametrize(
    "dtype,limit", [("f4", 4), ("f2", 1), (BF16, 1)], ids=["f32", "f16", "bf16"]
)
@pytest.mark.parametrize(
    "name,reference,domain", ACCURACY, ids=lambda v: v if type(v) is str else ""
)
def test_accuracy(name, reference, domain, dtype, limit):
    x = _grid(*domain).astype(dtype)
    params = {"accuracy": None} if name in WITH_ACCURACY else {}
    with np.errstate(over="ignore"):
        want = reference(x.astype(np.float64)).astype(dtype)
    got = rule(name, x, **params)
    # Near a zero of the function only the absolute error is small.
    clear = np.abs(want.astype(float)) > 1e-2
    assert ulps(got[clear], want[clear]) <= limit
    assert np.all(np.abs(got.astype(float)[~clear]) < 2e-2)


def test_erf_inv_tails():
    x = 1 - 10.0 ** -_grid(0.5, 7)
    single = rule("erf_inv", x.astype("f4"))
    # 1 - x² is rounded before its logarithm is taken, which the reference has to do as well.
    square = x.astype("f4") * x.astype("f4")
    rounded = np.sqrt(square.astype(np.float64))
    inside = rounded < 1
    assert np.allclose(single[inside], sp.erfinv(rounded[inside]), rtol=3e-7)
    assert np.allclose(rule("erf_inv", x), sp.erfinv(x), rtol=1e-9)
    assert same(
        rule("erf_inv", np.array([1, -1, 2, NAN, 0, -0.0], "f4")), [INF, -INF, NAN, NAN, 0, -0.0]
    )
    assert rule("erf_inv", np.array([], "f4")).shape == (0,)


def test_complex_functions_near_their_hard_places():
    tiny = np.array([1e-9 + 1e-9j, 1e-12j], "c16")
    assert np.allclose(rule("log1p", tiny, accuracy=None), tiny - tiny**2 / 2, rtol=1e-12, atol=0)
    assert np.allclose(rule("expm1", tiny, accuracy=None), tiny + tiny**2 / 2, rtol=1e-12, atol=0)
    z = np.array([3 + 4j, 0j, complex(INF, 1)], "c8")
    assert np.array_equal(rule("sign", z)[:2], np.array([0.6 + 0.8j, 0], "c8"))
    x, y = np.array([0.6 + 0.2j]), np.array([1.5 - 0.3j])
    assert np.allclose(np.tan(rule("atan2", x, y)), x / y)


# ---- special functions ----


def test_digamma_and_its_derivatives():
    assert np.isnan(rule("digamma", np.array([0.0, -1.0, -2.0], "f4"))).all()
    assert rule("lgamma", np.array([-INF, INF, 0.0], "f4")).tolist() == [INF] * 3
    x = _grid(0.2, 9, 200)
    for m in range(5):
        assert np.allclose(rule("polygamma", np.full_like(x, m), x), sp.polygamma(m, x), rtol=1e-12)
    assert np.isnan(rule("polygamma", np.array([0.5, -1.0]), np.array([1.0, 1.0]))).all()
    # The left of a pole: by the recurrence ψ'(x) = ψ'(x + 1) + 1 / x².
    x = np.array([-1.25, -7.3])
    trigamma = lambda v: rule("polygamma", np.ones_like(v), v)
    assert np.allclose(trigamma(x), trigamma(x + 1) + 1 / x**2)


def test_zeta():
    assert np.allclose(
        rule("zeta", np.array([2.0, 4.0]), np.ones(2)), [np.pi**2 / 6, np.pi**4 / 90]
    )
    got = rule("zeta", np.array([1.0, 0.5, 2.0, 3.0, NAN]), np.array([2.0, 2.0, -1.0, -1.0, 1.0]))
    assert same(got, [INF, NAN, INF, NAN, NAN])
    # All terms are 0, the first one is infinite, the first one alone is not 0; the pole.
    orders = np.array([1e30, INF, 800.0, 1e30, INF, 1.0])
    places = np.array([1.5, 2.0, 3.0, 0.5, 1.0, NAN])
    assert same(rule("zeta", orders, places), [0, 0, 0, INF, 1, INF])


def test_incomplete_gamma_and_beta():
    a, x = _grid(0.1, 20, 300), _grid(0, 30, 300)[::-1].copy()
    assert np.allclose(rule("igamma", a, x) + rule("igammac", a, x), 1)
    assert np.allclose(rule("igamma", np.ones_like(x), x), -np.expm1(-x))
    assert rule("igamma", np.array([0.0]), np.array([1.0])) == 1  # its limit
    assert np.isnan(rule("igamma", np.array([0.0, -1.0, 1.0]), np.array([0.0, 1.0, -1.0]))).all()
    u = _grid(0, 1, 300)
    got = rule("regularized_incomplete_beta", np.full_like(u, 2), np.full_like(u, 1), u)
    assert np.allclose(got, u**2)


def test_gradients_of_the_incomplete_gamma_function():
    # dP/da = ∫₀ˣ t^(a-1) e^-t (log t - ψ(a)) dt / Γ(a), with t = x v^(8/a) that is smooth at 0.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for a, x in [(0.3, 0.2), (1.0, 1.0), (2.5, 7.0), (6.0, 3.0), (40.0, 45.0)]:
        v = (nodes + 1) / 2
        t = x * v ** (8 / a)
        density = 8 * v**7 * np.exp(a * np.log(x) - t - sp.gammaln(a + 1))
        want = (weights / 2 * density * (np.log(t) - sp.digamma(a))).sum()
        got = rule("igamma_grad_a", np.array(a), np.array(x))
        assert got == pytest.approx(want, rel=1e-9)
        density = np.exp((a - 1) * np.log(x) - x - sp.gammaln(a))
        pathwise = rule("random_gamma_grad", np.array(a), np.array(x))
        assert pathwise == pytest.approx(-got / density, rel=1e-9)
    a = np.array([1.0, -1.0, 1.0, 2.0, 0.5])
    x = np.array([0.0, 1.0, -1.0, 900.0, 1e-320])
    got = rule("igamma_grad_a", a, x)
    assert same(got[:4], [0.0, NAN, NAN, 0.0])
    assert same(rule("random_gamma_grad", a[:3], x[:3]), [0.0, NAN, NAN])


# ---- the functions: operands, errors, weak types ----

ERRORS = [
    (lambda: lax.add([1], 2), TypeError, "Error interpreting argument to add as a JAX value"),
    (lambda: lax.add(2, (1,)), TypeError, "passed to add at position 1.*asarray"),
    (lambda: lax.sin("a"), TypeError, "<class 'str'>"),
    (lambda: lax.sin(np.array([None])), TypeError, "dtype object"),
    (lambda: lax.sin(np.ma.masked_array([1.0])), ValueError, "masked arrays are not supported"),
    (lambda: lax.add(1, 1.0), TypeError, "same dtypes, got int32, float32"),
    (lambda: lax.sin(1), TypeError, "sin does not accept dtype int32"),
    (lambda: lax.add(gnp.ones(3), gnp.ones((2, 3))), TypeError, "same number of dimensions"),
    (lambda: lax.add(gnp.ones((2, 3)), gnp.ones((2, 4))), TypeError, "incompatible shapes"),
    (lambda: lax.integer_pow(3, -1), TypeError, "Integers cannot be raised to negative powers"),
    (lambda: lax.integer_pow(3.0, 0.5), TypeError, "cannot be interpreted as an integer"),
    (lambda: lax.pow(gnp.ones(3), 1j), TypeError, "two inexact dtypes must match"),
    (lambda: lax.select_n(True), ValueError, "at least one case"),
    (lambda: lax.select_n(True, 1, 2, 3), TypeError, "cannot have > 2 cases"),
    (lambda: lax.select_n(1.0, 1, 2), TypeError, "must be boolean or integer type"),
    (lambda: lax.select(True, gnp.ones(3), 1.0), TypeError, "cases must have the same shapes"),
    (lambda: lax.select(True, 1, 1.0), TypeError, "lax.select requires arguments"),
    (lambda: lax.select(gnp.ones(2) > 0, gnp.ones(3), gnp.ones(3)), TypeError, "`which` shape"),
    (lambda: lax.clamp(0, 1.0, 1.0), TypeError, "lax.clamp requires arguments"),
    (lambda: lax.clamp(gnp.ones(2), gnp.ones(3), 1.0), TypeError, "clamp requires min.shape"),
    (lambda: lax.round(1.0, 7), ValueError, "7 is not a valid RoundingMethod"),
    (lambda: lax.complex(1, 2), TypeError, "complex does not accept dtype int32 at position 0"),
    (lambda: lax.conj(1), TypeError, "conj does not accept dtype int32"),
    (lambda: lax.real(1.0), TypeError, "real does not accept dtype float32"),
    (lambda: lax.reduce_precision(1.0, 0, 1), ValueError, "exponent_bits must be positive"),
    (lambda: lax.reduce_precision(1.0, 1, -1), ValueError, "mantissa_bits must be non-negative"),
    (lambda: lax.bitcast_convert_type(np.int16(1), "int32"), ValueError, "Attempting to convert"),
    (lambda: lax.bitcast_convert_type(1.0, bool), TypeError, "does not support bool or complex"),
    (lambda: lax.convert_element_type(1.0, None), ValueError, "dtype must be specified"),
    (lambda: lax.exp(1.0, accuracy="high"), NotImplementedError, "Accuracy 'high' not supported"),
    (lambda: lax.Tolerance(), ValueError, "At least one of"),
    (lambda: lax.Tolerance(-1.0), ValueError, "must be non-negative"),
    (lambda: lax.stop_gradient("a"), TypeError, "<class 'str'>"),
]


@pytest.mark.parametrize("call,kind,text", ERRORS, ids=[text[:30] for _, _, text in ERRORS])
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_weak_types():
    assert lax.add(1.0, 2.0).weak_type and not lax.add(1.0, np.float32(2)).weak_type
    assert lax.select_n(np.True_, 1.0, 2.0).weak_type
    assert not lax.clamp(0.0, gnp.float32(1), 2.0).weak_type
    assert not lax.bitcast_convert_type(1.0, "int32").weak_type
    assert lax.eq(1, 2).weak_type


def test_objects_that_convert_themselves():
    class Wrapped:
        def __jax_array__(self):
            return gnp.arange(3)

    assert lax.add(Wrapped(), 1).tolist() == [1, 2, 3]


def test_select_n_takes_the_nearest_case():
    which = np.array([-1, 0, 1, 2, 9])
    cases = [np.full(5, k) for k in range(3)]
    assert lax.select_n(which, *cases).tolist() == [0, 0, 1, 2, 2]
    assert lax.select_n(np.uint8(200), *cases).tolist() == [2] * 5


def test_identities_keep_the_structure():
    tree = {"a": gnp.ones(2), "b": [1, None]}
    for function in (lax.stop_gradient, lax.optimization_barrier):
        out = function(tree)
        assert out["a"].tolist() == [1.0, 1.0] and out["b"][0] == 1 and out["b"][1] is None
    assert registry["optimization_barrier"].kind is Kind.LIBRARY  # nothing fuses across it


GRAPHS = [
    (lambda x: lax.exp(x), "exp a"),
    (
        lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST),
        "exp[accuracy=AccuracyMode.HIGHEST] a",
    ),
    (lambda x: lax.round(x), "round[rounding_method=0] a"),
    (lambda x: lax.reciprocal(x), "integer_pow[y=-1] a"),
    (lambda x: lax.mul(x, 2.0), "mul a 2.0:f32[]"),
    (lambda x: lax.mul(x, x, out_dtype="float16"), "mul[out_dtype=float16] a a"),
    (
        lambda x: lax.convert_element_type(x, int),
        "convert_element_type[new_dtype=int32 weak_type=False] a",
    ),
    (lambda x: lax.conj(x), "conj[input_dtype=float32] a"),
    (lambda x: lax.betainc(1.0, x, x), "regularized_incomplete_beta 1.0:f32[] a a"),
    (lambda x: lax.select(lax.lt(x, 0.0), x, x), "select_n b a a"),
    (lambda x: lax.stop_gradient(x), "stop_gradient a"),
]


@pytest.mark.parametrize("function,text", GRAPHS, ids=[t.split()[0] for _, t in GRAPHS])
def test_graph_text(function, text):
    printed = " ".join(str(ga.make_jaxpr(function)(np.ones(3, "f4"))).split())
    assert f"= {text} " in printed


def test_stage_and_convert_leave_no_trace_of_nothing():
    assert (
        ga.make_jaxpr(lambda x: lax.stage(lax.convert_element_type(x, "float32")))(
            np.ones(3, "f4")
        ).eqns
        == []
    )


# ---- shapes ----


@pytest.mark.parametrize(
    "given,want",
    [((2, 3), (2, 3)), ([2, np.int64(3)], (2, 3)), (np.array([2, 3]), (2, 3)), (4, (4,)), ((), ())],
)
def test_canonicalize_shape(given, want):
    got = args.canonicalize_shape(given)
    assert got == want and all(type(n) is int for n in got)


def test_arrays_as_shapes():
    assert args.canonicalize_shape((gnp.array(2), 3)) == (2, 3)
    assert args.canonicalize_shape(gnp.array([2, 3])) == (2, 3)


@pytest.mark.parametrize("given", [(2.0, 3), "a", ((2, 3),), (2, None), 1.5])
def test_no_shapes(given):
    with pytest.raises(
        TypeError, match="Shapes must be 1D sequences of concrete values of integer"
    ):
        args.canonicalize_shape(given)


def test_traced_shapes_say_how_to_fix_it():
    with pytest.raises(TypeError, match="static_argnums"):
        ga.jit(lambda n: args.canonicalize_shape((n, 2)))(3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "bfloat16", "i1", "u8", "?", "c8", "c16"])
def test_large_selections_keep_every_bit(dtype):
    rng = np.random.default_rng(0)
    dtype, shape = np.dtype(dtype), (150, 160)
    drawn = rng.bytes(2 * math.prod(shape) * dtype.itemsize)
    numbers = np.frombuffer(drawn, np.uint8)
    yes, no = (numbers % 2 == 0 if dtype.kind == "b" else numbers.view(dtype)).reshape(2, *shape)
    mask = rng.random(shape) > 0.5
    one, zero = dtype.type(1), dtype.type(0)
    for operands in (
        (mask, yes, no),
        (mask[::-1], np.asfortranarray(yes), no[:, ::-1]),
        (mask, yes, zero),
        (mask, zero, no),
        (mask, one, no),
        (mask, yes, np.asarray(one)),
        (mask[:, :1], yes, no),
        (mask, np.stack([yes, no]), no),
        (mask[None], one, np.stack([yes, no])),
    ):
        found, want = choose(*operands), np.where(*operands)
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        assert found.tobytes() == want.tobytes()
        assert not np.shares_memory(found, yes) and not np.shares_memory(found, no)


@pytest.mark.parametrize("name", WITH_ACCURACY)
def test_an_accuracy_that_is_asked_for(name):
    """In float64, rounded once: half a unit in the last place, on NumPy and in CUDA text."""
    x = np.linspace(0.1, 4, 20_001, dtype="f")
    with ga.enable_x64():
        wide = np.asarray(getattr(lax, name)(x.astype("d")), "f")
    function = getattr(lax, name)
    plain = np.asarray(function(x))
    one, many = lax.Tolerance(ulps=1), lax.Tolerance(ulps=8)
    for accuracy in (lax.AccuracyMode.HIGHEST, one, lax.Tolerance(rtol=1e-7), lax.Tolerance(1e-9)):
        np.testing.assert_array_equal(function(x, accuracy=accuracy), wide)
        text = ga.jit(lambda x: function(x, accuracy=accuracy)).lower(x).cuda_source()  # noqa: B023
        assert "(double)" in text
    for accuracy in (None, lax.AccuracyMode.DEFAULT, many):
        np.testing.assert_array_equal(function(x, accuracy=accuracy), plain)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_narrow_polygamma_is_scipys(order):
    """By a shorter sum than SciPy's where x is positive; by SciPy where it is not."""
    x = np.exp(np.linspace(-40, 40, 20_001)).astype(np.float32)
    x = np.concatenate([x, [np.inf, np.nan, -0.5, -2.25, -30.75]]).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = sp.polygamma(order, x.astype(np.float64))
        rounded = wanted.astype(np.float32)
    found = np.asarray(lax.polygamma(np.float32(order), x))
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    unit = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    assert (np.abs(found[finite] - wanted[finite]) <= 0.51 * unit).all()
