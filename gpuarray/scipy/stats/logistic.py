"""The logistic distribution around loc.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

from gpuarray import lax
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.25, 0.5])).round(4)
    Array([-1.4019, -1.4482], dtype=float32)
    """
    x, loc, scale = floats("logistic.logpdf", x, loc, scale)
    # The density is symmetric; with -|y| in the exponent it cannot overflow.
    size = lax.abs((x - loc) / scale)
    return -size - 2 * lax.log1p(lax.exp(-size)) - lax.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.25, 0.5])).round(4)
    Array([0.2461, 0.235 ], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([0.25, 0.5])).round(4)
    Array([0.5622, 0.6225], dtype=float32)
    """
    x, loc, scale = floats("logistic.cdf", x, loc, scale)
    return special.expit((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([0.25, 0.5])).round(4)
    Array([0.4378, 0.3775], dtype=float32)
    """
    x, loc, scale = floats("logistic.sf", x, loc, scale)
    return special.expit((loc - x) / scale)


def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.5])).round(4)
    Array([-1.0986,  0.    ], dtype=float32)
    """
    x, loc, scale = floats("logistic.ppf", x, loc, scale)
    return loc + scale * special.logit(x)


def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> isf(gnp.array([0.25, 0.5])).round(4)
    Array([1.0986, 0.    ], dtype=float32)
    """
    x, loc, scale = floats("logistic.isf", x, loc, scale)
    return loc - scale * special.logit(x)
