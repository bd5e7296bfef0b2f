"""The exponential distribution from loc on.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax, nn
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 1.0])).round(4)
    Array([-inf,  -1.], dtype=float32)
    """
    x, loc, scale = floats("expon.logpdf", x, loc, scale)
    return gnp.where(x < loc, -np.inf, -(x - loc) / scale - lax.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 1.0])).round(4)
    Array([0.    , 0.3679], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 1.0])).round(4)
    Array([0.    , 0.6321], dtype=float32)
    """
    x, loc, scale = floats("expon.cdf", x, loc, scale)
    outside = x < loc
    # 1 - exp(-y), exact for small y; outside the argument is 0, so that nothing overflows.
    inside = -lax.expm1(gnp.where(outside, 0.0, (loc - x) / scale))
    return gnp.where(outside, 0.0, inside)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf, accurate also where cdf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([-1.0, 1.0])).round(4)
    Array([   -inf, -0.4587], dtype=float32)
    """
    x, loc, scale = floats("expon.logcdf", x, loc, scale)
    outside = x < loc
    y = gnp.where(outside, 1.0, (x - loc) / scale)
    return gnp.where(outside, -np.inf, nn.log1mexp(y))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([-1.0, 1.0])).round(4)
    Array([1.    , 0.3679], dtype=float32)
    """
    return lax.exp(logsf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf, accurate also where sf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([-1.0, 1.0])).round(4)
    Array([ 0., -1.], dtype=float32)
    """
    x, loc, scale = floats("expon.logsf", x, loc, scale)
    return gnp.where(x < loc, 0.0, (loc - x) / scale)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.0, 0.5])).round(4)
    Array([0.    , 0.6931], dtype=float32)
    """
    q, loc, scale = floats("expon.ppf", q, loc, scale)
    return gnp.where((q < 0) | (q > 1), np.nan, loc - scale * lax.log1p(-q))
