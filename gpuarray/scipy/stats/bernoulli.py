"""Bernoulli's distribution: 1 with probability p, else 0, moved by loc.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import counts


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpmf(gnp.array([0, 1]), 0.3).round(4)
    Array([-0.3567, -1.204 ], dtype=float32)
    """
    k, p, loc = counts("bernoulli.logpmf", k, p, loc)
    y = k - loc
    # xlogy and xlog1py give 0 for 0 log 0: p may be 0 or 1.
    inside = special.xlogy(y, p) + special.xlog1py(1 - y, -p)
    return gnp.where((y < 0) | (y > 1), -np.inf, inside)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([0, 1]), 0.3).round(4)
    Array([0.7, 0.3], dtype=float32)
    """
    return lax.exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of values up to k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([0, 1]), 0.3).round(4)
    Array([0.7, 1. ], dtype=float32)
    """
    k, p = counts("bernoulli.cdf", k, p)
    out = gnp.where(k < 0, 0.0, gnp.where(k < 1, 1 - p, 1.0))
    return gnp.where(gnp.isnan(k) | gnp.isnan(p) | (p < 0) | (p > 1), np.nan, out)


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.2, 0.9]), 0.3).round(4)
    Array([0., 1.], dtype=float32)
    """
    q, p = counts("bernoulli.ppf", q, p)
    # Both operands have a valid range; nan fails every comparison.
    valid = (q >= 0) & (q <= 1) & (p >= 0) & (p <= 1)
    return gnp.where(valid, gnp.where(q <= 1 - p, lax.full_like(q, 0), 1.0), np.nan)
