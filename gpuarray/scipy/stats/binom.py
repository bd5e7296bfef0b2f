"""The number of successes in n trials of probability p.

Floor 6. In: array-likes whose shapes broadcast. Out: Arrays, pointwise.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.scipy import special
from gpuarray.scipy.stats.operands import floats


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpmf(gnp.array([0, 2]), 5, 0.3).round(4)
    Array([-1.7834, -1.1754], dtype=float32)
    """
    k, n, p, loc = floats("binom.logpmf", k, n, p, loc)
    y = k - loc
    # xlogy and xlog1py give 0 for 0 log 0: p may be 0 or 1.
    inside = special.xlogy(y, p) + special.xlog1py(n - y, -p)
    # The binomial coefficient is 1 / ((n + 1) B(n - y + 1, y + 1)).
    inside = inside - lax.log1p(n) - special.betaln(n - y + 1, y + 1)
    return gnp.where((y < 0) | (y > n), -np.inf, inside)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([0, 2]), 5, 0.3).round(4)
    Array([0.1681, 0.3087], dtype=float32)
    """
    return lax.exp(logpmf(k, n, p, loc))
