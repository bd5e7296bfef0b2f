"""The beta distribution on [loc, loc + scale].

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


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.25, 0.5]), 2.0, 1.5).round(4)
    Array([-0.2084,  0.282 ], dtype=float32)
    """
    x, a, b, loc, scale = floats("beta.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    # xlogy and xlog1py give 0 for 0 log 0, at the ends of the interval where a or b is 1.
    inside = special.xlogy(a - 1, y) + special.xlog1py(b - 1, -y)
    inside = inside - special.betaln(a, b) - lax.log(scale)
    inside = gnp.where((x > loc + scale) | (x < loc), -np.inf, inside)
    return gnp.where((a > 0) & (b > 0) & (scale > 0), inside, np.nan)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.25, 0.5]), 2.0, 1.5).round(4)
    Array([0.8119, 1.3258], dtype=float32)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([0.25, 0.5]), 2.0, 1.5).round(4)
    Array([0.1069, 0.3813], dtype=float32)
    """
    x, a, b, loc, scale = floats("beta.cdf", x, a, b, loc, scale)
    return special.betainc(a, b, clamped(0.0, (x - loc) / scale, 1.0))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of cdf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([0.25, 0.5]), 2.0, 1.5).round(4)
    Array([-2.2358, -0.9642], dtype=float32)
    """
    return lax.log(cdf(x, a, b, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([0.25, 0.5]), 2.0, 1.5).round(4)
    Array([0.8931, 0.6187], dtype=float32)
    """
    x, a, b, loc, scale = floats("beta.sf", x, a, b, loc, scale)
    # The upper tail directly: 1 - cdf would lose its digits.
    return special.betainc(b, a, 1 - clamped(0.0, (x - loc) / scale, 1.0))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of sf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([0.25, 0.5]), 2.0, 1.5).round(4)
    Array([-0.1131, -0.4801], dtype=float32)
    """
    return lax.log(sf(x, a, b, loc, scale))
