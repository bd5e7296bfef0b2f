"""The number of events where mu are expected.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise except for the entropy.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.construct import as_type
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import counts, floats

#: Up to this mean the entropy is a sum of this many terms, from there on an asymptotic series.
_MANY = 150
_COUNTS = np.arange(1.0, 340.0)
#: log k! minus (k log k - k): with it, the summed terms are small near the mean.
_REST = np.array([math.lgamma(k + 1) - (k * math.log(k) - k) for k in _COUNTS])


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpmf(gnp.array([0, 2]), 2.5).round(4)
    Array([-2.5   , -1.3606], dtype=float32)
    """
    k, mu, loc = floats("poisson.logpmf", k, mu, loc)
    y = k - loc
    inside = special.xlogy(y, mu) - lax.lgamma(y + 1) - mu
    # Only whole, non-negative counts occur.
    inside = gnp.where((y >= 0) & (gnp.round(y) == y), inside, -np.inf)
    return gnp.where((mu >= 0) & (y == y), inside, np.nan)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([0, 2]), 2.5).round(4)
    Array([0.0821, 0.2565], dtype=float32)
    """
    return lax.exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of values up to k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([0, 2]), 2.5).round(4)
    Array([0.0821, 0.5438], dtype=float32)
    """
    k, mu, loc = counts("poisson.cdf", k, mu, loc)
    y = lax.floor(k - loc)
    # The sum of probabilities up to y is an incomplete gamma function.
    return gnp.where(y < 0, 0.0, special.gammaincc(gnp.maximum(y, 0) + 1, mu))


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy, in nats. The shapes broadcast.

    >>> entropy(2.5).round(4)
    Array(1.8307, dtype=float32)
    """
    mu, loc = floats("poisson.entropy", mu, loc)
    mu = gnp.broadcast_to(as_type(mu, mu.dtype), np.broadcast_shapes(mu.shape, loc.shape))
    # A sum up to _MANY; larger means are clipped here and use the series.
    few = gnp.clip(mu, 0, _MANY)
    k, rest = (gnp.asarray(c, mu.dtype) for c in (_COUNTS, _REST))
    # No logarithm of 0: the terms of so small a mean are 0 anyway.
    mean = gnp.maximum(few, np.finfo(np.float32).tiny)[..., None]
    log_p = k * lax.log(mean / k) - mean + k - rest
    # The term of k = 0 is -p log p = mu exp(-mu).
    out = few * lax.exp(-few) - gnp.sum(lax.exp(log_p) * log_p, -1)
    w = 1 / gnp.maximum(mu, _MANY)
    # The entropy of a normal distribution of variance mu, less a series in 1 / mu.
    series = w * (1 / 12 + w * (1 / 24 + w * (19 / 360 + w * (9 / 80))))
    far = 0.5 * lax.log(2 * math.pi * math.e * gnp.maximum(mu, _MANY)) - series
    out = gnp.where(mu > _MANY, far, out)
    return as_type(gnp.where(mu >= 0, out, np.nan), mu.dtype)
