"""The uniform distribution on [loc, loc + scale].

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats, strong_floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.5])).round(4)
    Array([-inf,  -0.], dtype=float32)
    """
    x, loc, scale = floats("uniform.logpdf", x, loc, scale)
    # x == x fails for nan alone, which is to stay.
    inside = gnp.where(x == x, -lax.log(scale), np.nan)
    return gnp.where((x > loc + scale) | (x < loc), -np.inf, inside)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.5])).round(4)
    Array([0., 1.], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 0.5])).round(4)
    Array([0. , 0.5], dtype=float32)
    """
    x, loc, scale = strong_floats("uniform.cdf", x, loc, scale)
    inside = (x >= loc) & (x <= loc + scale)
    out = gnp.where(inside, (x - loc) / scale, gnp.where(x > loc, 1.0, 0.0))
    return gnp.where((scale > 0) & (x == x), out, np.nan)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.5])).round(4)
    Array([0.25, 0.5 ], dtype=float32)
    """
    q, loc, scale = floats("uniform.ppf", q, loc, scale)
    valid = (q >= 0) & (q <= 1)
    return gnp.where(valid, loc + q * scale, np.nan)
