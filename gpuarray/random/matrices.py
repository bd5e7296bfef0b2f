"""Random vectors and matrices: correlated normal vectors, orthogonal matrices.

Floor 6. In: a key, a mean and a covariance, or a size. Out: arrays of samples.
"""

from __future__ import annotations

import functools
from typing import Any

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes, promotion
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.lax.args import canonicalize_shape, shape_of
from gpuarray.numpy.promotion import promote_dtypes_inexact
from gpuarray.random.arguments import float_dtype, one_key, placed, sample_shape
from gpuarray.random.basic import _normal


@functools.partial(jit, static_argnames=("shape", "dtype", "method"))
def _multivariate_normal(key, mean, cov, *, shape, dtype, method):
    mean, cov = promote_dtypes_inexact(mean, cov)
    batch = (shape_of(mean)[:-1], shape_of(cov)[:-2])
    shape = sample_shape("multivariate_normal", shape, *batch)
    # Any factor with F F^T = cov will do; the other two take singular matrices too.
    if method == "cholesky":
        factor = gnp.linalg.cholesky(cov)
    else:
        if method == "svd":
            vectors, spread, _ = gnp.linalg.svd(cov)
        else:
            spread, vectors = gnp.linalg.eigh(cov)
        # Eigenvectors times the roots of their eigenvalues.
        factor = vectors * gnp.sqrt(gnp.expand_dims(spread, -2))
    x = _normal(key, shape=(*shape, shape_of(mean)[-1]), dtype=dtype)
    return mean + gnp.einsum("...ij,...j->...i", factor, x, precision=lax.Precision.HIGHEST)


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Normal vectors of a mean and covariance: [..., n] and [..., n, n] -> [*shape, n].

    `method` factors the covariance: 'cholesky' is quickest, 'svd' and 'eigh' take matrices that are
    only semidefinite.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> random.multivariate_normal(random.key(0), gnp.zeros(2), gnp.eye(2), (5,)).shape
    (5, 2)
    """
    key, _ = one_key("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"method must be one of 'svd', 'eigh', 'cholesky', got {method!r}")
    # Without a dtype argument, that of the parameters, if it is a float.
    own = promotion.result_type(mean, cov)
    if dtype is not None or dtypes.kind_of(own) != "f":
        dtype = float_dtype("multivariate_normal", dtype)
    else:
        dtype = own
    left, right = shape_of(mean), shape_of(cov)
    if len(left) < 1:
        raise ValueError(
            f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {len(left)}"
        )
    if len(right) < 2:
        raise ValueError(
            f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {len(right)}"
        )
    n = left[-1]
    if right[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape "
            f"== {right}."
        )
    shape = None if shape is None else canonicalize_shape(shape)
    out = _multivariate_normal(key, mean, cov, shape=shape, dtype=dtype, method=method)
    return placed("multivariate_normal", out, out_sharding)


@functools.partial(jit, static_argnames=("n", "m", "shape", "dtype"))
def _orthogonal(key, *, n, m, shape, dtype):
    # The tall form; a wide matrix is the transpose of one.
    x = _normal(key, shape=(*shape, max(n, m), min(n, m)), dtype=dtype)
    q, r = gnp.linalg.qr(x)
    # QR leaves it to the routine which sign a column has. With the signs of R's diagonal taken out,
    # Q is uniformly distributed.
    d = gnp.diagonal(r, 0, -2, -1)
    q = q * gnp.expand_dims(gnp.sign(d), -2)
    return q.mT if n < m else q


def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Matrices drawn uniformly from those with orthonormal rows or columns: [*shape, n, m].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> bool(gnp.allclose(q @ q.T, gnp.eye(3), atol=1e-5))
    True
    """
    shape = canonicalize_shape(shape)
    key, _ = one_key("orthogonal", key)
    dtype = float_dtype("normal", dtype, complex_too=True)
    n = util.index(n)
    width = n if m is None else util.index(m)
    if n < 0 or width < 0:
        raise ValueError(f"negative dimensions are not allowed, got {n} and {m}")
    out = _orthogonal(key, n=n, m=width, shape=shape, dtype=dtype)
    return placed("orthogonal", out, out_sharding)
