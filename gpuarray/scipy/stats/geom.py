"""The number of trials of probability p up to the first success.

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
    >>> logpmf(gnp.array([0, 1, 2]), 0.3).round(4)
    Array([   -inf, -1.204 , -1.5606], dtype=float32)
    """
    k, p, loc = counts("geom.logpmf", k, p, loc)
    y = k - loc
    # y - 1 failures, then a success.
    return gnp.where(y <= 0, -np.inf, special.xlog1py(y - 1, -p) + lax.log(p))


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([0, 1, 2]), 0.3).round(4)
    Array([0.  , 0.3 , 0.21], dtype=float32)
    """
    return lax.exp(logpmf(k, p, loc))
