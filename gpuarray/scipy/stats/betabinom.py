"""The number of successes in n trials whose probability has a beta distribution.

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


def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpmf(gnp.array([0, 5]), 5, 1.5, 2.0).round(4)
    Array([-1.769 , -2.5649], dtype=float32)
    """
    k, n, a, b, loc = counts("betabinom.logpmf", k, n, a, b, loc)
    y = lax.floor(k) - loc
    # The beta integral over the probability, then the binomial coefficient, 1 / ((n + 1) B(...)).
    inside = special.betaln(y + a, n - y + b) - special.betaln(a, b)
    inside = inside - lax.log1p(n) - special.betaln(n - y + 1, y + 1)
    out = gnp.where((y < 0) | (y > n), -np.inf, inside)
    return gnp.where((n < 0) | (a < 0) | (b < 0), np.nan, out)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([0, 5]), 5, 1.5, 2.0).round(4)
    Array([0.1705, 0.0769], dtype=float32)
    """
    return lax.exp(logpmf(k, n, a, b, loc))
