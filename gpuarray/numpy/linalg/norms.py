"""Norms of vectors and matrices, and condition numbers.

Floor 6. In: arrays, promoted to floats. Out: real arrays without the axes the norm is over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.comparison import not_equal
from gpuarray.numpy.floats import isnan
from gpuarray.numpy.functions import sqrt
from gpuarray.numpy.linalg.decompositions import inexact_matrix, squares, svd
from gpuarray.numpy.linalg.systems import inv
from gpuarray.numpy.operands import array
from gpuarray.numpy.selection import where
from gpuarray.numpy.shapes import add_axes
from gpuarray.util import canonical_axes


def norm(x, ord=None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The norm of vectors (one axis) or matrices (two axes); without `ord`, the root of the sum of
    squares of all.

    Parameters
    ----------
    ord :
        For vectors any number, for matrices "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.norm(gnp.array([3., 4.]))
    Array(5., dtype=float32)
    """
    x = inexact_matrix("norm", x)
    # All elements as one vector, whatever the rank.
    if axis is None and ord is None:
        return sqrt(squares(x).sum(keepdims=keepdims))
    axes = canonical_axes(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"Improper number of axes for norm: {axis=}. Pass one axis to compute a vector-norm, or "
        "two axes to compute a matrix-norm."
        if axis is not None
        else f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a "
        "vector-norm, or two axes to compute a matrix-norm."
    )


def _vector_norm(x: Array, ord, axes: tuple[int, ...], keepdims: bool) -> Array:
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    if ord is None or (isinstance(ord, (int, float)) and ord == 2):
        return sqrt(squares(x).sum(**options))
    if isinstance(ord, (int, float)):
        if ord == np.inf:  # of no elements it is 0, as the sums are
            return abs(x).max(**options, initial=0)
        if ord == -np.inf:
            return abs(x).min(**options)
        # How many are not zero.
        if ord == 0:
            return lax.convert_element_type(
                not_equal(x, 0).sum(**options), dtypes.to_floating_dtype(x.dtype)
            )
        if ord == 1:
            return abs(x).sum(**options)
        ord = float(ord)
    size = abs(x)
    # Any other order, traced ones too: sum(|x|**p)**(1/p).
    power = lax.convert_element_type(array("jnp.linalg.norm", ord), size.dtype)
    return (size**power).sum(**options) ** (1 / power)


def _matrix_norm(x: Array, ord, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord in (None, "f", "fro"):
        return sqrt(squares(x).sum(axis=axes, keepdims=keepdims))
    row, column = axes
    if ord in (1, -1, np.inf, -np.inf):
        # Sums along one axis, the largest (or smallest) of them along the other.
        first, second = (row, column) if ord in (1, -1) else (column, row)
        # Without the first axis, the second one has moved up.
        if not keepdims and first < second:
            second -= 1
        sums = abs(x).sum(axis=first, keepdims=keepdims)
        if ord > 0:  # of an empty matrix it is 0
            return sums.max(axis=second, keepdims=keepdims, initial=0)
        return sums.min(axis=second, keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        # Spectral norms are the extreme singular values, the nuclear norm is their sum.
        s = svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
        value = s.sum(-1) if ord == "nuc" else s.max(-1, initial=0) if ord == 2 else s.min(-1)
        return add_axes(value, sorted(axes)) if keepdims else value
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def matrix_norm(x, /, *, keepdims: bool = False, ord="fro") -> Array:
    """The norm of matrices: (…, m, n) -> (…).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.matrix_norm(gnp.array([[3., 0.], [0., 4.]]))
    Array(5., dtype=float32)
    """
    return norm(array("jnp.linalg.matrix_norm", x), ord, (-2, -1), keepdims)


def vector_norm(
    x, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord=2
) -> Array:
    """The norm of vectors along some axes, all of them when `axis` is None.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.vector_norm(gnp.array([[3., 4.]]), ord=1)
    Array(7., dtype=float32)
    """
    x = inexact_matrix("vector_norm", x)
    return _vector_norm(x, ord, canonical_axes(axis, x.ndim), keepdims)


def cond(x, p=None) -> Array:
    """The condition number: the norm of a matrix times that of its inverse; 2-norm when `p` is
    None.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.cond(gnp.array([[1., 0.], [0., 2.]]), p=1)
    Array(2., dtype=float32)
    """
    a = inexact_matrix("cond", x)
    if a.ndim < 2:
        raise ValueError(f"jnp.linalg.cond: input array must be at least 2D; got {a.shape=}")
    if a.shape[-1] == 0 or a.shape[-2] == 0:
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got {a.shape=}")
    # By singular values where that is enough; they exist for any shape.
    if p in (None, 2, -2):
        s = svd(a, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"jnp.linalg.cond: for {p=}, array must be square; got arr.shape={a.shape}"
        )
    value = norm(a, p, (-2, -1)) * norm(inv(a), p, (-2, -1))
    # A singular matrix has condition number inf; the result is nan only if the matrix has nan.
    undefined = isnan(value) & ~isnan(a).any((-2, -1))
    return where(undefined, np.inf, value)
