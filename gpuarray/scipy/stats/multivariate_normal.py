"""The normal distribution of vectors.

Floor 6. In: array-likes. Out: Arrays: one number for each vector.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.promotion import check_arraylike, promote_dtypes_inexact


@check_ranks("x", "mean")
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density at x.

    mean has shape [..., n] and cov [..., n, n], or is a number, the variance of every component; x
    has shape [..., n], and the axes in front broadcast. A scalar mean gives a distribution of
    numbers: then x, mean and cov, the variance, broadcast.

    >>> import gpuarray.numpy as gnp
    >>> logpdf(gnp.array([1.0, 2.0]), gnp.zeros(2), gnp.eye(2)).round(4)
    Array(-4.3379, dtype=float32)
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "allow_singular argument of multivariate_normal.logpdf: the covariance has to be "
            "positive definite. Add a small multiple of the identity to it."
        )
    check_arraylike("multivariate_normal.logpdf", x, mean, cov)
    x, mean, cov = (gnp.asarray(v) for v in promote_dtypes_inexact(x, mean, cov))
    # One dimension, or one variance for all, needs no factorisation.
    if mean.ndim == 0:
        return -0.5 * (lax.square(x - mean) / cov + lax.log(2 * math.pi * cov))
    n = mean.shape[-1]
    front = 0.5 * n * math.log(2 * math.pi)
    if cov.ndim == 0:
        return -0.5 * gnp.sum(lax.square(x - mean), -1) / cov - 0.5 * n * lax.log(cov) - front
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            "multivariate_normal.logpdf got incompatible shapes: a mean of shape "
            f"{mean.shape} goes with a number or a covariance of shape {(n, n)}, got {cov.shape}."
        )
    root = lax.linalg.cholesky(cov)
    away = x - mean
    # Each point has its own factor: give both the common batch axes.
    shape = np.broadcast_shapes(away.shape[:-1], root.shape[:-2])
    away = gnp.broadcast_to(away, (*shape, n))[..., None]
    root = gnp.broadcast_to(root, (*shape, n, n))
    # With cov = L L^T the exponent is |L^-1 (x - mean)|^2 and the volume det L.
    scaled = lax.linalg.triangular_solve(root, away, left_side=True, lower=True)
    volume = gnp.sum(lax.log(gnp.diagonal(root, axis1=-2, axis2=-1)), -1)
    return -0.5 * gnp.sum(lax.square(scaled), (-2, -1)) - volume - front


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density at x. Shapes as for logpdf.

    >>> import gpuarray.numpy as gnp
    >>> pdf(gnp.zeros(2), gnp.zeros(2), gnp.eye(2)).round(4)
    Array(0.1592, dtype=float32)
    """
    return lax.exp(logpdf(x, mean, cov))
