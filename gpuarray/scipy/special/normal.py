"""The normal distribution and its relatives: error functions, quantiles, Dawson's and Owen's.

Floor 6. In: array-likes. Out: Arrays. Each function is pointwise, so it fuses with preceding and
following operations.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.construct import as_type
from gpuarray.primitives.elementwise.integrals import dawsn_p, erfcx_p, owens_t_p, wofz_p
from gpuarray.scipy.special.operands import inexact, polynomial, real, single_or_double, strong

_ROOT_2PI = math.sqrt(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


def erf(x: ArrayLike) -> Array:
    """The error function, 2/√π ∫₀ˣ exp(-t²) dt, of real x. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> erf(gnp.array([0.0, 1.0]))
    Array([0.       , 0.8427008], dtype=float32)
    """
    return lax.erf(*inexact("erf", x))


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate where erf(x) is close to 1. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> erfc(gnp.array([0.0, 5.0]))
    Array([1.0000000e+00, 1.5374598e-12], dtype=float32)
    """
    return lax.erfc(*inexact("erfc", x))


def erfinv(x: ArrayLike) -> Array:
    """The inverse of the error function; nan outside [-1, 1]. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> erfinv(gnp.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.47693628,        inf], dtype=float32)
    """
    return lax.erf_inv(*inexact("erfinv", x))


def erfcx(x: ArrayLike) -> Array:
    """exp(x²) erfc(x), which neither overflows nor vanishes for large x; of real or complex x.

    Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> erfcx(gnp.array([0.0, 100.0])).round(6)
    Array([1.      , 0.005642], dtype=float32)
    """
    (x,) = strong(inexact("erfcx", x))
    if dtypes.kind_of(x.dtype) == "c":
        # erfcx(x) = w(ix).
        return wofz_p.bind(lax.complex(-lax.imag(x), lax.real(x)))
    return erfcx_p.bind(x)


def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function, exp(-z²) erfc(-iz), of complex z. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> wofz(gnp.array([0.0, 1.0j])).round(4)
    Array([1.    +0.j, 0.4276+0.j], dtype=complex64)
    """
    (z,) = inexact("wofz", z)
    return wofz_p.bind(as_type(z, dtypes.to_complex_dtype(z.dtype)))


def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, exp(-x²) ∫₀ˣ exp(t²) dt, of real x. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> dawsn(gnp.array([0.0, 1.0])).round(5)
    Array([0.     , 0.53808], dtype=float32)
    """
    return dawsn_p.bind(*strong(real("dawsn", x)))


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: the chance that X > h and 0 < Y < aX for independent standard normal X and Y.

    The shapes broadcast; float16 and bfloat16 become float32.

    >>> owens_t(0.0, 1.0)
    Array(0.125, dtype=float32)
    """
    h, a = strong(real("owens_t", h, a))
    if h.dtype.itemsize < 4:
        h, a = as_type(h, dtypes.float32), as_type(a, dtypes.float32)
    return owens_t_p.bind(h, a)


def ndtr(x: ArrayLike) -> Array:
    """The distribution function of the standard normal distribution, of float32 or float64.

    Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> ndtr(gnp.array([-1.0, 0.0, 1.0])).round(4)
    Array([0.1587, 0.5   , 0.8413], dtype=float32)
    """
    # ndtr(x) = erfc(-x / sqrt(2)) / 2, which keeps its digits in the lower tail.
    return 0.5 * lax.erfc(single_or_double(x, "ndtr") * -_ROOT_HALF)


# Algorithm AS 241 by M. J. Wichura (1988): near the median, in the tails, far out in the tails.
# Numerators and denominators, the highest power first.
_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457)
    + (13731.693765509461125, 1971.5909503065514427, 133.14166789178437745)
    + (3.3871328727963666080,),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867)
    + (5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
_TAIL = (
    (7.7454501427834140764e-4, 2.27238449892691845833e-2, 2.4178072517745061177e-1)
    + (1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055)
    + (4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 1.51986665636164571966e-2)
    + (1.4810397642748007459e-1, 6.8976733498510000455e-1, 1.6763848301838038494)
    + (2.05319162663775882187, 1.0),
)
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.2426609473880784386e-3)
    + (2.6532189526576123093e-2, 2.9656057182850489123e-1, 1.7848265399172913358)
    + (5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5)
    + (7.868691311456132591e-4, 1.48753612908506148525e-2, 1.3692988092273580531e-1)
    + (5.9983220655588793769e-1, 1.0),
)


@custom_jvp
def _ndtri(p: Array) -> Array:
    def ratio(coefficients, r):
        return polynomial(coefficients[0], r) / polynomial(coefficients[1], r)

    away = p - 0.5
    middle = away * ratio(_MIDDLE, 0.180625 - away * away)
    inside = (p > 0) & (p < 1)
    # By symmetry the nearer tail.
    tail = gnp.where(inside, gnp.minimum(p, 1 - p), 0.5)
    r = lax.sqrt(-lax.log(tail))
    outer = gnp.where(r <= 5, ratio(_TAIL, r - 1.6), ratio(_FAR, r - 5))
    out = gnp.where(abs(away) <= 0.425, middle, lax.sign(away) * outer)
    edge = gnp.where(p == 0, -np.inf, gnp.where(p == 1, np.inf, np.nan))
    return gnp.where(inside, out, edge)


# The derivative of an inverse: one over the density at the quantile.
_ndtri.defjvps(lambda t, y, p: t * _ROOT_2PI * lax.exp(0.5 * y * y))


def ndtri(p: ArrayLike) -> Array:
    """The quantile of the standard normal distribution, which is the inverse of ndtr.

    Takes float32 and float64. Any shape; nan outside [0, 1].

    >>> import gpuarray.numpy as gnp
    >>> ndtri(gnp.array([0.0, 0.5, 0.975])).round(4)
    Array([-inf, 0.  , 1.96], dtype=float32)
    """
    if isinstance(p, (list, tuple)):
        raise TypeError(f"Cannot determine dtype of {p}: pass an array or a scalar to ndtri.")
    return _ndtri(single_or_double(p, "ndtri"))


def _log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    if not isinstance(series_order, int):
        raise TypeError(f"series_order must be a Python integer. Got {type(series_order)}.")
    if not 0 <= series_order <= 30:
        bound = "non-negative" if series_order < 0 else "<= 30"
        raise ValueError(f"series_order must be {bound}. Got {series_order}.")
    x = single_or_double(x, "log_ndtr")
    # Clipped to the range where each branch is used: neither may produce nan outside.
    low = gnp.minimum(x, 0.0)
    # Far below 0 ndtr underflows: the scaled erfc separates the factor exp(-x**2 / 2).
    left = lax.log(0.5 * erfcx_p.bind(low * -_ROOT_HALF)) - 0.5 * low * low
    right = lax.log1p(-0.5 * lax.erfc(gnp.maximum(x, -1.0) * _ROOT_HALF))
    return gnp.where(x < -1, left, right)


def _log_ndtr_slope(series_order, primals, tangents):
    (x,), (t,) = primals, tangents
    x = single_or_double(x, "log_ndtr")
    # Chosen and not clipped: at 0 the derivative of an extreme would be a half.
    low, high = gnp.where(x < 0, x, 0), gnp.where(x < 0, 0, x)
    # The density over the distribution function; on the left both are scaled by exp(x^2 / 2).
    left = (2 / _ROOT_2PI) / erfcx_p.bind(low * -_ROOT_HALF)
    right = lax.exp(-0.5 * x * x) / (_ROOT_2PI * ndtr(high))
    return log_ndtr(x, series_order), t * gnp.where(x < 0, left, right)


log_ndtr = custom_jvp(_log_ndtr, nondiff_argnums=(1,))
log_ndtr.__doc__ = """log(ndtr(x)), without underflow, of float32 or float64 x.

    Any shape; same shape out. `series_order`, from 0 to 30, says how many terms of an
    asymptotic series to take where one is used; here none is, and the result is always exact to
    the last digits.

    >>> import gpuarray.numpy as gnp
    >>> log_ndtr(gnp.array([-10.0, 0.0])).round(3)
    Array([-53.231,  -0.693], dtype=float32)
    """
log_ndtr.defjvp(_log_ndtr_slope)
