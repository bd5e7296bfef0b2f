"""The normal distribution cut off at a and b, standard deviations away from loc.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats import norm
from gpuarray.scipy.stats.operands import strong_floats


def _log_mass(a: Array, b: Array) -> Array:
    """log(ndtr(b) - ndtr(a)) for a < b: from the tail that both are in, so that nothing cancels."""
    # By symmetry an interval above 0 is mirrored to the lower tail.
    right = a > 0
    low, high = gnp.where(right, -b, a), gnp.where(right, -a, b)
    # Both formulas are computed; the unused one gets a valid interval, so that it has finite
    # derivatives.
    below = high <= 0
    far, near = gnp.where(below, low, -2), gnp.where(below, high, -1)
    top = special.log_ndtr(near)
    # log(exp(top) - exp(bottom)) without leaving the logarithms.
    tail = top + lax.log1p(-lax.exp(special.log_ndtr(far) - top))
    # Around 0 the mass is large: one minus both tails loses nothing.
    left, right = gnp.where(below, -1, low), gnp.where(below, 1, high)
    middle = lax.log1p(-special.ndtr(left) - special.ndtr(-right))
    return gnp.where(below, tail, middle)


def _log_share(y: Array, a: Array, b: Array, below: bool) -> Array:
    """How much of the mass between a and b is on one side of y; near all of it, from the rest."""
    # Somewhere between a and b where y is not: intervals without mass have no derivatives.
    ends = gnp.where(a > -np.inf, a, b - 2), gnp.where(b < np.inf, b, a + 2)
    within = gnp.where((a == -np.inf) & (b == np.inf), 0, 0.5 * (ends[0] + ends[1]))
    inside = gnp.where((y <= a) | (y >= b), within, y)
    whole = _log_mass(a, b)
    under, over = _log_mass(a, inside) - whole, _log_mass(inside, b) - whole
    share, rest = (under, over) if below else (over, under)
    # Close to 1 the other side's share is the exact one.
    most = share > -0.1
    out = gnp.where(most, lax.log1p(-lax.exp(gnp.where(most, rest, -1))), share)
    low, high = (-np.inf, 0.0) if below else (0.0, -np.inf)
    return gnp.where(y <= a, low, gnp.where(y >= b, high, out))


# An interval that is empty has no distribution.
def _valid(a: Array, b: Array, out: Array) -> Array:
    return gnp.where(a >= b, np.nan, out)


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.0, 1.0]), -1.0, 2.0).round(4)
    Array([-0.7188, -1.2188], dtype=float32)
    """
    x, a, b, loc, scale = strong_floats("truncnorm.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    inside = norm.logpdf(x, loc, scale) - _log_mass(a, b)
    return _valid(a, b, gnp.where((y < a) | (y > b), -np.inf, inside))


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.0, 1.0]), -1.0, 2.0).round(4)
    Array([0.4874, 0.2956], dtype=float32)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of cdf, accurate also where cdf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logcdf(gnp.array([0.0, 1.0]), -1.0, 2.0).round(4)
    Array([-0.8747, -0.1815], dtype=float32)
    """
    x, a, b, loc, scale = strong_floats("truncnorm.logcdf", x, a, b, loc, scale)
    return _valid(a, b, _log_share((x - loc) / scale, a, b, below=True))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of values up to x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> cdf(gnp.array([0.0, 1.0]), -1.0, 2.0).round(4)
    Array([0.417, 0.834], dtype=float32)
    """
    return lax.exp(logcdf(x, a, b, loc, scale))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of sf, accurate also where sf underflows. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logsf(gnp.array([0.0, 1.0]), -1.0, 2.0).round(4)
    Array([-0.5395, -1.7956], dtype=float32)
    """
    x, a, b, loc, scale = strong_floats("truncnorm.logsf", x, a, b, loc, scale)
    return _valid(a, b, _log_share((x - loc) / scale, a, b, below=False))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of values above x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> sf(gnp.array([0.0, 1.0]), -1.0, 2.0).round(4)
    Array([0.583, 0.166], dtype=float32)
    """
    return lax.exp(logsf(x, a, b, loc, scale))
