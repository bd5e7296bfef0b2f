"""The Cauchy distribution around loc.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import math

from gpuarray import lax
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.8379, -1.1447], dtype=float32)
    """
    x, loc, scale = floats("cauchy.logpdf", x, loc, scale)
    return -lax.log(math.pi * scale) - lax.log1p(lax.square((x - loc) / scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.1592, 0.3183], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.25, 0.5 ], dtype=float32)
    """
    x, loc, scale = floats("cauchy.cdf", x, loc, scale)
    return lax.atan((x - loc) / scale) / math.pi + 0.5


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """log(cdf), without a detour over the probability. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.3863, -0.6931], dtype=float32)
    """
    return lax.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.75, 0.5 ], dtype=float32)
    """
    x, loc, scale = floats("cauchy.sf", x, loc, scale)
    return lax.atan((loc - x) / scale) / math.pi + 0.5


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """log(sf), without a detour over the probability. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([-1.0, 0.0])).round(4)
    Array([-0.2877, -0.6931], dtype=float32)
    """
    return lax.log(sf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.5])).round(4)
    Array([-1.,  0.], dtype=float32)
    """
    q, loc, scale = floats("cauchy.ppf", q, loc, scale)
    return loc + scale * lax.tan(math.pi * q - math.pi / 2)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> isf(gnp.array([0.25, 0.5])).round(4)
    Array([1., 0.], dtype=float32)
    """
    q, loc, scale = floats("cauchy.isf", q, loc, scale)
    return loc + scale * lax.tan(math.pi / 2 - math.pi * q)
