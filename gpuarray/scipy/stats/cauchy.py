"""The Cauchy distribution around loc.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.8379, -1.1447], dtype=float32)
    """
    x, loc, scale = floats("cauchy.logpdf", x, loc, scale)
    y = (x - loc) / scale
    # For large |y| the square may overflow, and the 1 added to it does not matter.
    far = abs(y) > 4 / math.sqrt(float(dtypes.finfo(y.dtype).eps))
    near = lax.log1p(lax.square(gnp.where(far, 1.0, y)))
    size = gnp.where(far, 2 * lax.log(abs(gnp.where(far, y, 1.0))), near)
    return -lax.log(math.pi * scale) - size


def _lower(y: Array) -> Array:
    """The probability of values up to y: the angle keeps its digits in both tails."""
    return lax.atan2(lax.full_like(y, 1), -y) / math.pi


def _log_lower(y: Array) -> Array:
    left = y < 0
    # Each side through the tail that is small there; other values are replaced by 1.
    below, above = (gnp.where(side, y, 1.0) for side in (left, ~left))
    # Above 0 the upper tail is small, and log1p of it exact.
    return gnp.where(left, lax.log(_lower(below)), lax.log1p(-_lower(-above)))


@custom_jvp
def _quantile(q: Array) -> Array:
    """tan(π (q - 1/2)), through the distance to the nearer end where that is small."""
    end = gnp.minimum(q, 1 - q)
    middle = end > 0.25
    near = lax.tan(math.pi * gnp.where(middle, q - 0.5, 0.0))
    # tan(π (q - 1/2)) = -1 / tan(π q), by the distance from the nearer end.
    away = gnp.where(q > 0.5, 1.0, -1.0) / lax.tan(math.pi * gnp.where(middle, 0.25, end))
    # At the ends themselves the quantile is infinite.
    edge = gnp.where(q < 0.5, -np.inf, np.inf)
    out = gnp.where(middle, near, gnp.where(end == 0, edge, away))
    return gnp.where((q >= 0) & (q <= 1), out, np.nan)


_quantile.defjvps(lambda t, y, q: t * (math.pi * (1 + y * y)))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.1592, 0.3183], dtype=float32)
    """
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.25, 0.5 ], dtype=float32)
    """
    x, loc, scale = floats("cauchy.cdf", x, loc, scale)
    return _lower((x - loc) / scale)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf, accurate also where cdf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([-1.0, 0.0])).round(4)
    Array([-1.3863, -0.6931], dtype=float32)
    """
    x, loc, scale = floats("cauchy.logcdf", x, loc, scale)
    return _log_lower((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([-1.0, 0.0])).round(4)
    Array([0.75, 0.5 ], dtype=float32)
    """
    x, loc, scale = floats("cauchy.sf", x, loc, scale)
    return _lower((loc - x) / scale)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf, accurate also where sf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([-1.0, 0.0])).round(4)
    Array([-0.2877, -0.6931], dtype=float32)
    """
    x, loc, scale = floats("cauchy.logsf", x, loc, scale)
    return _log_lower((loc - x) / scale)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the value below which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> ppf(gnp.array([0.25, 0.5])).round(4)
    Array([-1.,  0.], dtype=float32)
    """
    q, loc, scale = floats("cauchy.ppf", q, loc, scale)
    return loc + scale * _quantile(q)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is q. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> isf(gnp.array([0.25, 0.5])).round(4)
    Array([1., 0.], dtype=float32)
    """
    q, loc, scale = floats("cauchy.isf", q, loc, scale)
    return loc - scale * _quantile(q)
