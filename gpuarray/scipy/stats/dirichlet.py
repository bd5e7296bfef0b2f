"""The Dirichlet distribution of positive numbers that sum to 1.

Floor 6. In: array-likes. Out: Arrays: one number for each point.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.promotion import check_arraylike, promote_dtypes_inexact
from gpuarray.scipy import special


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density; -inf for x off the simplex.

    alpha has shape [n]. x has n entries along its first axis, or one fewer, and the last is then 1
    minus the sum of the others; its other axes are those of the result.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([0.2, 0.3, 0.5]), gnp.array([1.0, 2.0, 3.0])).round(4)
    Array(1.5041, dtype=float32)
    """
    check_arraylike("dirichlet.logpdf", x, alpha)
    x, alpha = (as_type(v, v.dtype) for v in map(gnp.asarray, promote_dtypes_inexact(x, alpha)))
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    n = alpha.shape[0]
    if x.ndim == 0 or x.shape[0] not in (n, n - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    # The last entry may be omitted: it is 1 minus the sum of the others.
    if x.shape[0] != n:
        x = gnp.concatenate([x, 1 - gnp.sum(x, 0, keepdims=True)])
    # alpha is along the first axis; all others are points.
    powers = lax.expand_dims(alpha, tuple(range(1, x.ndim)))
    front = lax.lgamma(gnp.sum(alpha)) - gnp.sum(lax.lgamma(alpha))
    out = front + gnp.sum(special.xlogy(powers - 1, x), 0)
    # Rounding must not put a point off the simplex.
    on_simplex = gnp.all(x >= 0, 0) & (lax.abs(gnp.sum(x, 0) - 1) < 1e-6)
    return gnp.where(on_simplex, out, -np.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density; 0 for x off the simplex. Shapes as for logpdf.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.array([0.2, 0.3, 0.5]), gnp.array([1.0, 2.0, 3.0])).round(4)
    Array(4.5, dtype=float32)
    """
    return lax.exp(logpdf(x, alpha))
