"""Pointwise primitives: erf, erfc and the inverse of erf.

Floor 2. In: the factory of special functions, NumPy, and SciPy at the first call. Out: one
primitive per function. In float32 they are computed in float32, within the roundings of JAX's; in
double by SciPy, or by Giles's polynomials.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import util
from gpuarray.primitives.define import do
from gpuarray.primitives.elementwise.special import exp, special_function
from gpuarray.primitives.linear import constant

sp = util.lazy_module("scipy.special")

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

    XLA's roundings are followed step by step only where they matter: for u of about 0.62 to 0.68,
    where the result and its factors are close to powers of two, and in the tails.
    """
    # w = -log(1 - x²), in place. The polynomial depends on its absolute, not on its relative error,
    # so log is sufficient, whose loops take a fifth of the time of log1p's.
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
    # Giles's variable.
    w = -np.log1p(-x * x)
    # The middle for all elements, then the tails over it.
    (end, _, shift, coefficients), *rest = _DOUBLE
    out = _polynomial(w - shift, coefficients)
    start = end
    for end, _, shift, coefficients in rest:  # the tails are rare: compute them separately
        tail = (w >= start) & (w < end)
        if tail.any():
            # 1 - x² again, from factors: there the rounding of x² takes most of its digits.
            size = np.abs(x[tail])
            root = np.sqrt(-np.log((1 - size) * (1 + size)))
            out[tail] = _polynomial(root - shift, coefficients)
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
    return lambda t, y, x: do.mul(constant(x, scale), do.mul(t, exp(do.neg(do.square(x)))))


# (√π / 2) e^(y²)
def _erf_inv_derivative(t, y, x):
    return do.mul(constant(x, math.sqrt(math.pi) / 2), do.mul(t, exp(do.square(y))))


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
