"""The Pareto distribution: from loc + scale on, falling as a power b.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats, positive


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([ 0.6931, -1.3863], dtype=float32)
    """
    x, b, loc, scale = floats("pareto.logpdf", x, b, loc, scale)
    inside = lax.log(b / scale) - (b + 1) * lax.log((x - loc) / scale)
    return gnp.where(x < loc + scale, -np.inf, inside)


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([2.  , 0.25], dtype=float32)
    """
    return lax.exp(logpdf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([0.  , 0.75], dtype=float32)
    """
    # expm1 keeps the digits where the probability is small.
    return -lax.expm1(logsf(x, b, loc, scale))


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([   -inf, -0.2877], dtype=float32)
    """
    return lax.log(cdf(x, b, loc, scale))


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([1.  , 0.25], dtype=float32)
    """
    return lax.exp(logsf(x, b, loc, scale))


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf, accurate also where sf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([1.0, 2.0]), 2.0).round(4)
    Array([-0.    , -1.3863], dtype=float32)
    """
    x, b, loc, scale = positive("pareto.logsf", x, b, loc, scale)
    # Below loc + scale the probability of a larger value is 1.
    return -b * lax.log(gnp.maximum((x - loc) / scale, 1))


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.75]), 2.0).round(4)
    Array([1.1547, 2.    ], dtype=float32)
    """
    q, b, loc, scale = floats("pareto.ppf", q, b, loc, scale)
    # scale (1 - q)**(-1 / b), with the digits of a small q.
    out = loc + scale * lax.exp(-lax.log1p(-q) / b)
    return gnp.where((q < 0) | (q > 1), np.nan, out)
