"""The gamma distribution of shape a from loc on.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import clamped, floats


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([1.0, 2.0]), 2.5).round(4)
    Array([-1.2847, -1.245 ], dtype=float32)
    """
    x, a, loc, scale = floats("gamma.logpdf", x, a, loc, scale)
    y = (x - loc) / scale
    inside = special.xlogy(a - 1, y) - y - lax.lgamma(a) - lax.log(scale)
    return gnp.where(x < loc, -np.inf, inside)


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([1.0, 2.0]), 2.5).round(4)
    Array([0.2767, 0.288 ], dtype=float32)
    """
    return lax.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([1.0, 2.0]), 2.5).round(4)
    Array([0.1509, 0.4506], dtype=float32)
    """
    x, a, loc, scale = floats("gamma.cdf", x, a, loc, scale)
    # gammainc is defined at a = 0, the distribution is not.
    a = gnp.where(a > 0, a, np.nan)
    return special.gammainc(a, clamped(0.0, (x - loc) / scale, np.inf))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([1.0, 2.0]), 2.5).round(4)
    Array([-1.8914, -0.7972], dtype=float32)
    """
    return lax.log(cdf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([1.0, 2.0]), 2.5).round(4)
    Array([0.8491, 0.5494], dtype=float32)
    """
    x, a, loc, scale = floats("gamma.sf", x, a, loc, scale)
    # The upper tail directly: 1 - cdf would lose its digits.
    return special.gammaincc(a, clamped(0.0, (x - loc) / scale, np.inf))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([1.0, 2.0]), 2.5).round(4)
    Array([-0.1635, -0.5989], dtype=float32)
    """
    return lax.log(sf(x, a, loc, scale))
