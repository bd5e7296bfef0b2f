"""Gumbel's distribution of the largest of many values.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import log_of_gumbel_tail, positive


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.0, 1.0])).round(4)
    Array([-1.    , -1.3679], dtype=float32)
    """
    x, loc, scale = positive("gumbel_r.logpdf", x, loc, scale)
    y = (loc - x) / scale
    return y - lax.exp(y) - lax.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.0, 1.0])).round(4)
    Array([0.3679, 0.2546], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf, accurate also where cdf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([0.0, 1.0])).round(4)
    Array([-1.    , -0.3679], dtype=float32)
    """
    x, loc, scale = positive("gumbel_r.logcdf", x, loc, scale)
    return -lax.exp((loc - x) / scale)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([0.0, 1.0])).round(4)
    Array([0.3679, 0.6922], dtype=float32)
    """
    return lax.exp(logcdf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf, accurate also where sf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([0.0, 1.0])).round(4)
    Array([-0.4587, -1.1783], dtype=float32)
    """
    x, loc, scale = positive("gumbel_r.logsf", x, loc, scale)
    return log_of_gumbel_tail((loc - x) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([0.0, 1.0])).round(4)
    Array([0.6321, 0.3078], dtype=float32)
    """
    x, loc, scale = positive("gumbel_r.sf", x, loc, scale)
    # expm1 keeps the digits where the probability is small.
    return -lax.expm1(-lax.exp((loc - x) / scale))


def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is p. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.5])).round(4)
    Array([-0.3266,  0.3665], dtype=float32)
    """
    p, loc, scale = positive("gumbel_r.ppf", p, loc, scale)
    out = loc - scale * lax.log(-lax.log(p))
    return gnp.where((p > 0) & (p < 1), out, np.nan)
