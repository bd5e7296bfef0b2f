"""The normal distribution of mean loc and standard deviation scale.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import math

from gpuarray import lax
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.4189, -0.9189], dtype=float32)
    """
    x, loc, scale = floats("norm.logpdf", x, loc, scale)
    y = (x - loc) / scale
    return -0.5 * y * y - lax.log(math.sqrt(2 * math.pi) * scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.242 , 0.3989], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.1587, 0.5   ], dtype=float32)
    """
    x, loc, scale = floats("norm.cdf", x, loc, scale)
    return special.ndtr((x - loc) / scale)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf, accurate also where cdf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.841 , -0.6931], dtype=float32)
    """
    x, loc, scale = floats("norm.logcdf", x, loc, scale)
    return special.log_ndtr((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.8413, 0.5   ], dtype=float32)
    """
    x, loc, scale = floats("norm.sf", x, loc, scale)
    # By symmetry, since 1 - cdf would lose the digits of a small tail.
    return special.ndtr((loc - x) / scale)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf, accurate also where sf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([-1.0, 0.0])).round(4)
    Array([-0.1728, -0.6931], dtype=float32)
    """
    x, loc, scale = floats("norm.logsf", x, loc, scale)
    return special.log_ndtr((loc - x) / scale)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.5])).round(4)
    Array([-0.6745,  0.    ], dtype=float32)
    """
    q, loc, scale = floats("norm.ppf", q, loc, scale)
    return loc + scale * special.ndtri(q)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> isf(gnp.array([0.25, 0.5])).round(4)
    Array([0.6745, 0.    ], dtype=float32)
    """
    q, loc, scale = floats("norm.isf", q, loc, scale)
    return loc - scale * special.ndtri(q)
