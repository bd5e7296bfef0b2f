"""The number of failures before the n-th success in trials of probability p.

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


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpmf(gnp.array([0, 2]), 5, 0.3).round(4)
    Array([-6.0199, -4.0252], dtype=float32)
    """
    k, n, p, loc = counts("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    inside = special.xlogy(n, p) + special.xlog1py(y, -p)
    # The coefficient C(y + n - 1, y) is 1 / ((n + y) B(n, y + 1)).
    inside = inside - lax.log(n + y) - special.betaln(n, y + 1)
    return gnp.where(y < 0, -np.inf, inside)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([0, 2]), 5, 0.3).round(4)
    Array([0.0024, 0.0179], dtype=float32)
    """
    return lax.exp(logpmf(k, n, p, loc))
