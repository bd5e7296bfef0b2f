"""The Cauchy distribution wrapped around the circle, on [0, 2π].

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


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.0, 3.0]), 0.5).round(4)
    Array([-0.7393, -2.932 ], dtype=float32)
    """
    x, c = floats("wrapcauchy.logpdf", x, c)
    spread = lax.log(1 + c * c - 2 * c * lax.cos(x))
    inside = lax.log((1 - c * c) / (2 * math.pi)) - spread
    # c is the concentration: 0 would be the uniform distribution, 1 a single angle.
    out = gnp.where((x < 0) | (x > 2 * math.pi), -np.inf, inside)
    return gnp.where((c > 0) & (c < 1), out, np.nan)


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.0, 3.0]), 0.5).round(4)
    Array([0.4775, 0.0533], dtype=float32)
    """
    return lax.exp(logpdf(x, c))
