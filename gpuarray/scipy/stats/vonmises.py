"""Von Mises's distribution of angles, concentrated about 0 by kappa.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy.stats.operands import floats


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.0, 3.0]), 2.0).round(4)
    Array([-0.6619, -4.6419], dtype=float32)
    """
    x, kappa = floats("vonmises.logpdf", x, kappa)
    # The scaled Bessel function keeps exp(kappa) from overflowing.
    inside = kappa * (lax.cos(x) - 1) - lax.log(2 * math.pi * lax.bessel_i0e(kappa))
    return gnp.where(kappa > 0, inside, np.nan)


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.0, 3.0]), 2.0).round(4)
    Array([0.5159, 0.0096], dtype=float32)
    """
    return lax.exp(logpdf(x, kappa))
