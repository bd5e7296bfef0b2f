"""The Laplace distribution: exponential on both sides of loc.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.6931, -0.6931], dtype=float32)
    """
    x, loc, scale = floats("laplace.logpdf", x, loc, scale)
    return -lax.abs(x - loc) / scale - lax.log(2 * scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.1839, 0.5   ], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.1839, 0.5   ], dtype=float32)
    """
    x, loc, scale = floats("laplace.cdf", x, loc, scale)
    y = (x - loc) / scale
    left = y <= 0
    # The exponent is never positive, so that the branch not taken cannot overflow.
    tail = 0.5 * lax.exp(gnp.where(left, y, -y))
    return gnp.where(left, tail, 1 - tail)
