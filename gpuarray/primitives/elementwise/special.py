"""Pointwise primitives: error functions, gamma, beta and zeta functions, Bessel functions.

Floor 2. In: the factory `elementwise`, NumPy, and SciPy at the first call. Out: one primitive per
function. All but the error functions are computed in double precision and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import Primitive
from gpuarray.primitives.define import FLOATING, do, elementwise
from gpuarray.primitives.linear import broadcast_like, constant, full_like
from gpuarray.primitives.numpy_rules import by_dtype

sp = util.lazy_module("scipy.special")


def special_function(
    name: str, function, arity: int = 1, *, weight: float, jvp: tuple
) -> Primitive:
    """Define a primitive of floats whose CUDA helper is called ga_name and takes doubles."""
    return elementwise(
        name,
        arity=arity,
        dtypes=FLOATING,
        numpy_pick=by_dtype(floating=function),
        cuda=f"ga_{name}({', '.join(f'{{{i}}}' for i in range(arity))})",
        weight=weight,
        jvp=jvp,
    )


def in_double(function, short=None):
    """Return a NumPy rule that computes in float64 and rounds once; `short` serves narrow types."""

    def rule(*xs):
        # float64 on the way in, the operand's dtype on the way out.
        narrow = np.asarray(xs[0]).dtype.itemsize < 8
        chosen = short if short is not None and narrow else function
        out = chosen(*[np.asarray(x, np.float64) for x in xs])
        return np.asarray(out).astype(xs[0].dtype)

    return rule


def no_derivative(name: str, operand: str):
    """Return the rule of an operand whose derivative has no closed form."""

    def rule(*_, **__):
        raise ValueError(
            f"{name} gradient with respect to {operand} is not supported. Guard {operand} with "
            "gpuarray.lax.stop_gradient, or differentiate numerically."
        )

    return rule


def polynomial(x, coefficients):
    """Horner's rule over primitives, the highest power first."""
    out = full_like(x, coefficients[0])
    for c in coefficients[1:]:
        out = do.add(do.mul(out, x), constant(x, c))
    return out


def _log(x):
    return do.log(x, accuracy=None)


def _exp(x):
    return do.exp(x, accuracy=None)


# ---- error functions ----

# Coefficients, highest power first. x (1 + p(x²)) is atanh(erf x), and p / q is e^(x²) erfc(x);
# both were fitted for the least relative error of the result in float32.
_ERF = (
    (-8.45523e-10, 3.171489e-08, -2.8239313e-07, -3.0217916e-06, 7.936635e-05)
    + (-0.00060701685, -0.0002007125, 0.10277128)
    + (0.12837917,)
)
_ERFC = (
    (0.04240707, 0.2963832, 0.94596326, 1.601247, 1.2929688),
    (0.07516367, 0.5253597, 1.7137011, 3.106056, 3.0602067, 1.2929688),
)
# Polynomials in w = -log(1 - x²) by M. Giles, "Approximating the erfinv function" (2012): in
# w - 2.5 below w = 5, in √w - 3 from there on.
_SINGLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087) + (
    (-0.00125372503, -0.00417768164, 0.246640727, 1.50140941)
)
_SINGLE_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844) + (
    (0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)
)
# log(1 + x) is x - x²/2 + x³ p / q near 0, by S. Moshier's Cephes library.
_LOG1P = (
    (4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969)
    + (29.911919328553073277375, 60.949667980987787057556, 57.112963590585538103336)
    + (20.039553499201281259648,),
    (1.0, 15.062909083469192043167, 83.047565967967209469434, 221.76239823732856465394)
    + (309.09872225312059774938, 216.42788614495947685003, 60.118660497603843919306),
)
# log(1 + x) is x - x²/2 + x³ p there too, p being split into pieces of three powers.
_LOG = (
    (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1),
    (-1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1),
    (2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_LOG_2_HIGH, _LOG_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# For doubles, by Giles too. Each row: the end of its range of w, whether it is in √w, the shift,
# and the coefficients.
_DOUBLE = (
    (
        6.25,
        False,
        3.125,
        (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18)
        + (1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17)
        + (6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14)
        + (2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11)
        + (1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08)
        + (4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05)
        + (0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533)
        + (0.24015818242558961693, 1.6536545626831027356),
    ),
    (
        16.0,
        True,
        3.25,
        (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07)
        + (1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06)
        + (2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05)
        + (6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796)
        + (0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066)
        + (-0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334)
        + (3.0838856104922207635,),
    ),
    (
        np.inf,
        True,
        5.0,
        (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09)
        + (-3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08)
        + (2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07)
        + (-9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05)
        + (7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026)
        + (1.0103004648645343977, 4.8499064014085844221),
    ),
)


#: Elements whose temporaries, as doubles, stay in cache.
_BLOCK = 1 << 14


# Horner's scheme in place, in the dtype of `x`.
def _polynomial(x, coefficients):
    out = x * x.dtype.type(coefficients[0])
    out += x.dtype.type(coefficients[1])
    for c in coefficients[2:]:
        out *= x
        out += x.dtype.type(c)
    return out


def _fma(a, b, c):
    """a b + c in float32, rounded once: doubles hold the product."""
    wide = a.astype(np.float64)
    wide *= b
    wide += c
    return wide.astype(np.float32)


def _contracted(x, coefficients):
    """Evaluate a polynomial in float32 with one rounding per step, as fused multiply-adds do."""
    x = x.astype(np.float64)
    out = np.float32(coefficients[0])
    for c in coefficients[1:]:
        out = _fma(x, out, np.float32(c))
    return out


def _erf_single(x):
    x = np.clip(x, np.float32(-4.4), np.float32(4.4))  # the result is 1 long before
    # tanh(x (1 + p(x²))): |erf| can never exceed 1.
    out = _polynomial(x * x, _ERF)
    out *= x
    out += x
    return np.tanh(out, out=out)


def _erfc_block(x, out):
    """Compute in doubles: e^(-x²) multiplies the relative error of x² by x²."""
    size = x.astype(np.float64)
    np.abs(size, out=size)
    np.minimum(size, 11.0, out=size)  # the result is 0 before
    wide = _polynomial(size, _ERFC[0])
    wide /= _polynomial(size, _ERFC[1])
    size *= size
    np.negative(size, out=size)
    wide *= np.exp(size, out=size)
    np.copysign(wide, x, out=out, casting="same_kind")
    out += np.signbit(x) * np.float32(2)  # erfc(-x) = 2 - erfc(x)


def _erfc_single(x):
    # Block by block, since the doubles take twice the memory of the operand.
    out = np.empty_like(x)
    for start in range(0, x.size, _BLOCK):
        _erfc_block(x[start : start + _BLOCK], out[start : start + _BLOCK])
    return out


def _minus_log1p(x):
    """-log(1 - x²) for x² in (0.36, 0.5), with the roundings that XLA's float32 code makes.

    With Z = X² it is

    - X + (X Z p / q - Z/2) for X = -x² up to √2 - 1;
    - ((X - Z/2) + (X Z p - low)) - high beyond, for X = 2v - 1 and v = 1 - x², where high + low
      is log 2.
    """
    x = -(x * x)
    out = np.empty_like(x)
    # Each branch on its own elements: `np.where` would compute both for all.
    split = x > np.float32(1 - math.sqrt(2))
    near, far = np.flatnonzero(split), np.flatnonzero(~split)
    y = x[near]
    square = y * y
    ratio = _contracted(y, _LOG1P[0]) / _contracted(y, _LOG1P[1])
    out[near] = y + (y * square * ratio - square / 2)
    y = 2 * (1 + x[far]) - 1
    square = y * y
    cube = y * square
    high, middle, low = (_contracted(y, c) for c in _LOG)
    rest = _fma(_fma(_fma(high, cube, middle), cube, low), cube, -_LOG_2_LOW)
    out[far] = ((y - square / 2) + rest) - _LOG_2_HIGH
    return np.negative(out, out=out)


def _erf_inv_single(x):
    """Inverse of erf such that √2 erf_inv(u), a normal variate, is within 2 ulp of JAX's.

    XLA's roundings are followed step by step only where they matter: at u of about 0.62 to 0.68,
    where the result and its factors lie at unlucky places between powers of two, and in the tails.
    """
    # w = -log(1 - x²), in place. Its error, not the relative one, goes into the polynomial, so that
    # log does, whose loops are a fifth of log1p's.
    w = x * x
    np.subtract(np.float32(1), w, out=w)
    np.log(w, out=w)
    np.negative(w, out=w)
    out = _polynomial(w - np.float32(2.5), _SINGLE)
    exactly = np.flatnonzero((w > 0.475) & (w < 0.635))
    if exactly.size:
        out[exactly] = _contracted(_minus_log1p(x[exactly]) - np.float32(2.5), _SINGLE)
    tail = np.flatnonzero(w >= 5)
    if tail.size:
        w = w[tail]
        p = _contracted(np.sqrt(w) - np.float32(3), _SINGLE_TAIL)
        out[tail] = np.where(w == np.inf, np.float32(np.inf), p)  # inf where x is 1 or -1
    out *= x
    return out


def _erf_inv_double(x):
    # Giles's variable; (1 - x)(1 + x) is as exact as -x² here.
    w = -np.log1p(-x * x)
    # The middle for all elements, then the tails over it.
    (end, _, shift, coefficients), *rest = _DOUBLE
    out = _polynomial(w - shift, coefficients)
    start = end
    for end, _, shift, coefficients in rest:  # the tails are rare: they are done apart
        tail = (w >= start) & (w < end)
        if tail.any():
            out[tail] = _polynomial(np.sqrt(w[tail]) - shift, coefficients)
        start = end
    out[w == np.inf] = np.inf  # x is 1 or -1
    out *= x
    return out


def _by_width(single, double):
    """Return the rule of a function that is computed differently for float32 and doubles."""

    def rule(x):
        function = single if x.dtype == np.float32 else double
        # The functions see one axis, so that they can index and cut freely.
        return function(x.reshape(-1)).reshape(x.shape)

    return rule


def _erf_derivative(scale: float):
    """t scale e^(-x²)"""
    return lambda t, y, x: do.mul(constant(x, scale), do.mul(t, _exp(do.neg(do.square(x)))))


# (√π / 2) e^(y²)
def _erf_inv_derivative(t, y, x):
    return do.mul(constant(x, math.sqrt(math.pi) / 2), do.mul(t, _exp(do.square(y))))


erf_p = special_function(
    "erf",
    _by_width(_erf_single, lambda x: sp.erf(x)),
    weight=16,
    jvp=(_erf_derivative(2 / math.sqrt(math.pi)),),
)
erfc_p = special_function(
    "erfc",
    _by_width(_erfc_single, lambda x: sp.erfc(x)),
    weight=20,
    jvp=(_erf_derivative(-2 / math.sqrt(math.pi)),),
)
erf_inv_p = special_function(
    "erf_inv", _by_width(_erf_inv_single, _erf_inv_double), weight=24, jvp=(_erf_inv_derivative,)
)

# ---- gamma functions ----


def _lgamma(x):
    # SciPy has -inf at -inf.
    return np.where(np.isinf(x), np.inf, sp.gammaln(x))


def _digamma(x):
    # Poles at 0, -1, -2, ... are nan, as in JAX; SciPy has an infinity at 0.
    out = sp.digamma(x)
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, out)


def _zeta(x, q):
    # At a pole the two sides agree on infinity for even powers only.
    pole = (q <= 0) & (q == np.floor(q))
    out = np.where(pole, np.where((x % 2 == 0) | (x == 1), np.inf, np.nan), sp.zeta(x, q))
    # SciPy makes nan of a sum whose first term is already 0.
    return np.where(np.isnan(out) & (x > 1) & (q > 1), 0.0, out)


#: B_2j / (2j)!, from the highest power on.
_SERIES = (
    1 / 74724249600,
    -691 / 1307674368000,
    1 / 47900160,
    -1 / 1209600,
    1 / 30240,
    -1 / 720,
    1 / 12,
)


def _short_zeta(s: int, q: Any) -> Any:
    """The zeta function to 9 digits, for a small s > 1: six terms, and the rest by Euler and
    Maclaurin. A fifth of SciPy's time.
    """
    far = ~((q > 0) & (q < 1e38))
    # Others are made 1 here, and replaced below.
    a = np.where(far, 1.0, q)
    total = np.zeros(a.shape)
    for _ in range(6):
        total += 1 / _whole_power(a, s)
        a += 1.0
    v, series = 1 / (a * a), np.full(a.shape, _SERIES[0])
    # Each term has two more factors s + i than the one before it.
    for i, coefficient in zip(range(11, 0, -2), _SERIES[1:], strict=True):
        series *= v * ((s + i) * (s + i + 1))
        series += coefficient
    total += (a / (s - 1) + 0.5 + s / a * series) / _whole_power(a, s)
    if far.any():
        total[far] = _zeta(s, q[far])
    return total


def _whole_power(x, n: int):
    out = x * x
    for _ in range(n - 2):
        out *= x
    return out


def _short_polygamma(m, x):
    """As `_polygamma`, for results of a few digits."""
    if m.ndim == 0 and x.ndim and m in (1, 2, 3):
        n = int(m)
        return (-1) ** (n + 1) * math.factorial(n) * _short_zeta(n + 1, x)
    return _polygamma(m, x)


def _polygamma(m, x):
    """The m-th derivative of digamma: (-1)^(m+1) m! ζ(m+1, x)."""
    # Derivatives of odd order are positive.
    sign = np.where(m % 2 == 0, -1.0, 1.0)
    out = np.where(m == 0, _digamma(x), sign * sp.gamma(m + 1) * _zeta(m + 1, x))
    # The order must be a whole number.
    return np.where((m >= 0) & (m == np.floor(m)), out, np.nan)


def _igamma(a, x):
    # P(0, x) is 1; there is no value at (0, 0), nor for negative orders.
    return np.where(a > 0, sp.gammainc(a, x), np.where((a == 0) & (x > 0), 1.0, np.nan))


def _density(a, x):
    """x^a e^-x / Γ(a + 1), which is P(a, x) - P(a + 1, x)."""
    # xlogy is 0 at a = 0, where a log(x) would be nan at x = 0.
    return np.exp(sp.xlogy(a, x) - x - sp.gammaln(a + 1))


def _slope(log, a):
    """d log(a) / da by central differences of eighth order, on the scale √a of gamma functions."""
    # All four steps to either side stay positive.
    step = np.minimum(0.08 * np.sqrt(a), a / 5)
    total = np.zeros_like(a)
    for k, weight in ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280)):
        total += weight * (log(a + k * step) - log(a - k * step))
    return total / step


def _lower_slope(a, x):
    """dP/da for x < a.

    log P is smooth for a >= 5; smaller a are raised by P(a, x) = P(a + 1, x) + density(a, x).
    """
    out = np.zeros_like(a)
    for _ in range(5):
        small = a < 5
        out += np.where(small, _density(a, x) * (np.log(x) - sp.digamma(a + 1)), 0.0)
        a = np.where(small, a + 1, a)
    rest = _slope(lambda s: np.log(sp.gammainc(s, x)), a) * sp.gammainc(a, x)
    # Where P underflows, so does its derivative.
    return out + np.where(np.isfinite(rest), rest, 0.0)


def _upper_slope(a, x):
    """-dQ/da for x >= a, where Q = 1 - P.

    Q has zeros at a = 0, -1, -2, so log(Q / (a (a + 1) (a + 2))) is differentiated.
    """
    log = lambda s: np.log(sp.gammaincc(s, x) / (s * (s + 1) * (s + 2)))
    slope = _slope(log, a) + 1 / a + 1 / (a + 1) + 1 / (a + 2)
    rest = -slope * sp.gammaincc(a, x)
    return np.where(np.isfinite(rest), rest, 0.0)


def _igamma_slope(a, x):
    """dP/da, computed from the smaller one of P and Q; nan outside a > 0, x >= 0."""
    a, x = np.broadcast_arrays(a, x)
    out = np.where((a > 0) & (x >= 0), 0.0, np.nan)
    inside = (a > 0) & (x > 0)
    # Each half sees only elements of its own.
    for where, rule in ((inside & (x < a), _lower_slope), (inside & (x >= a), _upper_slope)):
        if where.any():
            out[where] = rule(a[where], x[where])
    return out


def _random_gamma_grad(a, x):
    """dx/da of a gamma variate x(a) at a fixed uniform: -(dP/da) / (dP/dx)."""
    density = _density(a, x)
    out = -_igamma_slope(a, x) * x / (a * density)
    # Far out the density vanishes before the quotient Q / density does, which is r / x.
    r = x / (x - a + 1)
    far = (density == 0) & (x > a) & np.isfinite(x)
    out = np.where(far, (np.log(x) - sp.digamma(a) + r / x) * r, out)
    # Where P itself vanishes in double precision, P = x^a / Γ(a + 1) is exact.
    tiny = (x > 0) & (sp.gammainc(a, x) == 0)
    out = np.where(tiny, -x / a * (np.log(x) - sp.digamma(a + 1)), out)
    return np.where((x == 0) & (a > 0), 0.0, out)


def _igamma_derivative(t, y, a, x):
    """t x^(a - 1) e^-x / Γ(a)"""
    # In logarithms: powers and Γ overflow long before their quotient does.
    power = do.add(do.neg(x), do.mul(do.sub(a, full_like(a, 1)), _log(x)))
    return do.mul(t, _exp(do.sub(power, do.lgamma(a))))


def _score(a, x):
    """d log(density) / da of the gamma distribution: log x - ψ(a)."""
    return do.sub(_log(x), do.digamma(a))


def _igamma_grad_derivative(t, y, a, x):
    return do.mul(_igamma_derivative(t, y, a, x), _score(a, x))


def _variate_slope_derivative(t, y, a, x):
    """d/dx of -(dP/da) / p, where p is the density and d log p / dx = (a - 1) / x - 1."""
    one = constant(a, 1)
    slope = do.sub(do.div(do.sub(a, one), x), one)
    return do.mul(t, do.neg(do.add(_score(a, x), do.mul(y, slope))))


def _betainc_derivative(t, y, a, b, x):
    """t x^(a - 1) (1 - x)^(b - 1) / B(a, b)"""
    log_beta = do.sub(do.add(do.lgamma(a), do.lgamma(b)), do.lgamma(do.add(a, b)))
    right = do.mul(do.sub(b, constant(b, 1)), do.log1p(do.neg(x), accuracy=None))
    left = do.mul(do.sub(a, constant(a, 1)), _log(x))
    return do.mul(_exp(do.sub(do.add(right, left), log_beta)), t)


lgamma_p = special_function(
    "lgamma", in_double(_lgamma), weight=40, jvp=(lambda t, y, x: do.mul(t, do.digamma(x)),)
)
digamma_p = special_function(
    "digamma",
    in_double(_digamma),
    weight=40,
    jvp=(lambda t, y, x: do.mul(t, do.polygamma(constant(x, 1), x)),),
)
polygamma_p = special_function(
    "polygamma",
    in_double(_polygamma, _short_polygamma),
    2,
    weight=120,
    jvp=(
        no_derivative("polygamma", "m"),
        lambda t, y, m, x: do.mul(t, do.polygamma(do.add(m, constant(m, 1)), x)),
    ),
)
zeta_p = special_function(
    "zeta",
    in_double(_zeta),
    2,
    weight=120,
    jvp=(
        no_derivative("zeta", "x"),
        lambda t, y, x, q: do.mul(t, do.mul(do.neg(x), do.zeta(do.add(x, constant(x, 1)), q))),
    ),
)
igamma_p = special_function(
    "igamma",
    in_double(_igamma),
    2,
    weight=200,
    jvp=(lambda t, y, a, x: do.mul(t, do.igamma_grad_a(a, x)), _igamma_derivative),
)
igammac_p = special_function(
    "igammac",
    in_double(lambda a, x: sp.gammaincc(a, x)),
    2,
    weight=200,
    jvp=(
        lambda t, y, a, x: do.neg(do.mul(t, do.igamma_grad_a(a, x))),
        lambda t, y, a, x: do.neg(_igamma_derivative(t, y, a, x)),
    ),
)
igamma_grad_a_p = special_function(
    "igamma_grad_a",
    in_double(_igamma_slope),
    2,
    weight=400,
    jvp=(no_derivative("igamma_grad_a", "a"), _igamma_grad_derivative),
)
random_gamma_grad_p = special_function(
    "random_gamma_grad",
    in_double(_random_gamma_grad),
    2,
    weight=400,
    jvp=(no_derivative("random_gamma_grad", "a"), _variate_slope_derivative),
)
regularized_incomplete_beta_p = special_function(
    "regularized_incomplete_beta",
    in_double(lambda a, b, x: sp.betainc(a, b, x)),
    3,
    weight=200,
    jvp=(
        no_derivative("regularized_incomplete_beta", "a"),
        no_derivative("regularized_incomplete_beta", "b"),
        _betainc_derivative,
    ),
)

# ---- Bessel functions ----


def _asymptotic(order: int, terms: int = 20) -> list[float]:
    """The coefficients of √(2πx) e^-x I(x) in 30/x."""
    out = [1.0]
    for k in range(1, terms):
        # Each term from the one before, DLMF 10.40.1; x is counted in units of 30.
        out.append(out[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k) / 30)
    return out


_GAP = [a - b for a, b in zip(_asymptotic(0), _asymptotic(1), strict=True)][:0:-1]


def _bessel_gap(x, even, odd):
    """i0e(x) - |i1e(x)|; from 30 on by the asymptotic series, where most of the digits cancel."""
    size = do.abs(x)
    far = do.gt(size, constant(x, 30))
    inverse = do.div(constant(x, 30), do.select_n(far, full_like(x, 30), size))
    series = polynomial(inverse, _GAP)
    root = do.sqrt(do.mul(inverse, constant(x, 1 / (60 * math.pi))), accuracy=None)
    return do.select_n(far, do.sub(even, do.abs(odd)), do.mul(do.mul(series, inverse), root))


def _bessel_i0e_derivative(t, y, x):
    """-t sign(x) (i0e(x) - |i1e(x)|)"""
    slope = do.mul(do.sign(x), _bessel_gap(x, y, do.bessel_i1e(x)))
    return do.neg(do.mul(t, slope))


def _bessel_i1e_derivative(t, y, x):
    """t (i0e(x) - |i1e(x)| - i1e(x) / x); the limit at 0 is a half."""
    tiny = constant(x, float(dtypes.finfo(aval_of(x).dtype).eps))
    far = do.gt(do.abs(x), tiny)
    # 1 / x overflows below eps; the quotient is taken at eps there, and the result replaced.
    safe = do.select_n(far, broadcast_like(tiny, aval_of(x)), x)
    inner = do.sub(_bessel_gap(safe, do.bessel_i0e(safe), y), do.div(y, safe))
    return do.mul(t, do.select_n(far, full_like(x, 0.5), inner))


bessel_i0e_p = special_function(
    "bessel_i0e",
    in_double(lambda x: sp.i0e(x)),
    weight=40,
    jvp=(_bessel_i0e_derivative,),
)
bessel_i1e_p = special_function(
    "bessel_i1e",
    in_double(lambda x: np.copysign(sp.i1e(x), x)),
    weight=40,
    jvp=(_bessel_i1e_derivative,),
)
