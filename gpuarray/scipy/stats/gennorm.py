"""The generalized normal distribution: its density falls as exp(-|x|**beta).

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.0]), 1.5).round(4)
    Array([-1.5908, -0.5908], dtype=float32)
    """
    x, beta = floats("gennorm.logpdf", x, beta)
    return lax.log(0.5 * beta) - lax.lgamma(1 / beta) - gnp.power(lax.abs(x), beta)


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.0]), 1.5).round(4)
    Array([0.2038, 0.5539], dtype=float32)
    """
    return lax.exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 0.0]), 1.5).round(4)
    Array([0.1124, 0.5   ], dtype=float32)
    """
    x, beta = floats("gennorm.cdf", x, beta)
    # |x|**beta has a gamma distribution of shape 1 / beta; by symmetry half of it is on each side.
    tail = 0.5 * special.gammaincc(1 / beta, gnp.power(lax.abs(x), beta))
    return gnp.where(x < 0, tail, 1 - tail)
