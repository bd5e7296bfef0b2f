"""The chi-square distribution with df degrees of freedom.

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


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([-1.1931, -1.6931], dtype=float32)
    """
    x, df, loc, scale = floats("chi2.logpdf", x, df, loc, scale)
    y = (x - loc) / scale
    half = 0.5 * df
    inside = special.xlogy(half - 1, 0.5 * y) - 0.5 * y - lax.lgamma(half) - lax.log(2 * scale)
    return gnp.where(x < loc, -np.inf, inside)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([0.3033, 0.1839], dtype=float32)
    """
    return lax.exp(logpdf(x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([0.3935, 0.6321], dtype=float32)
    """
    x, df, loc, scale = floats("chi2.cdf", x, df, loc, scale)
    # The gamma distribution of shape df / 2; nan unless df is positive.
    half = gnp.where(df > 0, 0.5 * df, np.nan)
    return special.gammainc(half, 0.5 * clamped(0.0, (x - loc) / scale, np.inf))


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([-0.9328, -0.4587], dtype=float32)
    """
    return lax.log(cdf(x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([0.6065, 0.3679], dtype=float32)
    """
    x, df, loc, scale = floats("chi2.sf", x, df, loc, scale)
    # The upper tail directly: 1 - cdf would lose its digits.
    return special.gammaincc(0.5 * df, 0.5 * clamped(0.0, (x - loc) / scale, np.inf))


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([-0.5, -1. ], dtype=float32)
    """
    return lax.log(sf(x, df, loc, scale))
