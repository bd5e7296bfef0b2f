"""The multinomial distribution: counts of several outcomes in n trials.

Floor 6. In: array-likes. Out: Arrays without the last axis of x and p, that of the outcomes.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.operands import arrays
from gpuarray.scipy import special


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts x, integers; -inf if they do not sum to n.

    x and p broadcast, and their last axis is summed over; n broadcasts with the result.

    >>> import gpuarray.numpy as gnp
    >>> logpmf(gnp.array([1, 2, 0]), 3, gnp.array([0.2, 0.3, 0.5])).round(4)
    Array(-2.9188, dtype=float32)
    """
    x, n, p = arrays("multinomial.logpmf", x, n, p)
    if not (dtypes.issubdtype(x.dtype, np.integer) and dtypes.issubdtype(n.dtype, np.integer)):
        raise ValueError(
            f"x and n must be of integer type; got x.dtype={x.dtype}, n.dtype={n.dtype}"
        )
    p = as_type(p, dtypes.to_inexact_dtype(p.dtype))
    counts, trials = x.astype(p.dtype), n.astype(p.dtype)
    # The multinomial coefficient by log factorials; 0 log 0 counts as 0.
    out = lax.lgamma(trials + 1) + gnp.sum(special.xlogy(counts, p) - lax.lgamma(counts + 1), -1)
    # Counts have to add up to the trials.
    return gnp.where(gnp.sum(x, -1) == n, out, -np.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of the counts x; 0 if they do not sum to n. Shapes as for logpmf.

    >>> import gpuarray.numpy as gnp
    >>> pmf(gnp.array([1, 2, 0]), 3, gnp.array([0.2, 0.3, 0.5])).round(4)
    Array(0.054, dtype=float32)
    """
    return lax.exp(logpmf(x, n, p))
