"""COO, CSR and CSC: matrices of two axes, as `scipy.sparse` has them.

Floor 6. In: elements with their rows and columns, or a dense matrix. Out: sparse matrices, and
their products with dense ones. They have few operations; BCOO and BCSR have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.base import JAXSparse, arrays, operations
from gpuarray.experimental.sparse.bcsr import pointers_of, rows_of
from gpuarray.experimental.sparse.coordinates import diagonal, known_count
from gpuarray.tree_util import register_pytree_node_class


def _two(shape: Sequence[int], kind: str) -> tuple[int, int]:
    shape = util.indices(shape, "a shape")
    if len(shape) != 2:
        raise ValueError(f"{kind} must have ndim=2; got {shape=}")
    return shape  # pyright: ignore[reportReturnType]


def _without_axes(axes: Any) -> None:
    if axes is not None:
        raise NotImplementedError("axes argument to transpose()")


def _stored(mat: Any, nse: int | None, index_dtype: Any, what: str) -> tuple[Array, Array]:
    """Elements and indices of a dense matrix, in the order of the rows."""
    mat = gnp.asarray(mat)
    _two(mat.shape, "a matrix")
    if nse is None:
        counts = patterns.count_stored(mat, 0, 0)
        nse = known_count(counts, what) if isinstance(counts, Tracer) else counts.item()
    nse = known_count(nse, what)
    return patterns.from_dense(mat, nse=nse, n_batch=0, n_dense=0, index_dtype=index_dtype)


def _product(data: Array, row: Array, col: Array, v: Any, rows: int) -> Array:
    """The sum over elements of data times v[col], in their rows."""
    v = gnp.asarray(v)
    kind = gnp.result_type(data, v)
    # Indices beyond the matrix are room that is not used: they read 0, and their terms are
    # dropped.
    taken = v.astype(kind).at[col].get(mode="fill", fill_value=0)
    terms = data.astype(kind).reshape(-1, *(1,) * (v.ndim - 1)) * taken
    return gnp.zeros((rows, *v.shape[1:]), kind).at[row].add(terms, mode="drop")


def _checked(v: Any, n_axes: int, length: int, what: str) -> Array:
    v = gnp.asarray(v)
    if v.ndim != n_axes or v.shape[0] != length:
        raise ValueError(
            f"{what}: the operand must have {n_axes} axes, the first of length {length}, got shape "
            f"{v.shape}"
        )
    return v


class COOInfo(NamedTuple):
    """The properties of a COO matrix that do not depend on its values."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


@register_pytree_node_class
class COO(JAXSparse):
    """A matrix of stored elements with their rows and columns.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.COO.fromdense(gnp.array([[0., 2.], [1., 0.]]))
    >>> x, x.row.tolist(), x.col.tolist()
    (COO(float32[2, 2], nse=2), [0, 1], [1, 0])
    """

    row: Array
    col: Array

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ):
        self.data, self.row, self.col = arrays(args, ("data", "row", "col"), "COO")
        super().__init__(args, shape=_two(shape, "COO"))
        self._rows_sorted, self._cols_sorted = bool(rows_sorted), bool(cols_sorted)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """See `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        none = gnp.zeros(0, index_dtype)
        parts = gnp.zeros(0, dtype), none, none
        return cls(parts, shape=_two(shape, "COO"), rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        row, col = (x.astype(index_dtype) for x in diagonal(N, M, k))
        parts = gnp.ones(row.size, dtype), row, col
        return cls(parts, shape=(N, M), rows_sorted=True, cols_sorted=True)

    def _sort_indices(self) -> COO:
        if self._rows_sorted:
            return self
        row, col, data = lax.sort((self.row, self.col, self.data), num_keys=2)
        return COO((data, row, col), shape=self.shape, rows_sorted=True)

    def todense(self) -> Array:
        """See `coo_todense`."""
        return coo_todense(self)

    def transpose(self, axes: Any = None) -> COO:
        """Rows and columns exchanged."""
        _without_axes(axes)
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def tree_flatten(self) -> tuple[tuple, Any]:
        """(data, row, col), and the static properties."""
        return (self.data, self.row, self.col), COOInfo(
            self.shape, self._rows_sorted, self._cols_sorted
        )

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> COO:
        """The matrix from its parts, which may be anything."""
        new = object.__new__(cls)
        new.data, new.row, new.col = children
        new.shape, new._rows_sorted, new._cols_sorted = COOInfo(*aux_data)
        return new


class _Compressed(JAXSparse):
    """Shared parts of CSR and CSC: elements listed along one axis, and the start of each list."""

    indices: Array
    indptr: Array
    listed: int  # the axis that is listed

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]):
        name = type(self).__name__
        self.data, self.indices, self.indptr = arrays(args, ("data", "indices", "indptr"), name)
        super().__init__(args, shape=_two(shape, name))
        if self.indptr.shape != (self.shape[self.listed] + 1,):
            raise ValueError(
                f"{name}: indptr of shape {self.indptr.shape} is not for shape {self.shape}"
            )

    def tree_flatten(self) -> tuple[tuple, Any]:
        """(data, indices, indptr), and the shape."""
        return (self.data, self.indices, self.indptr), self.shape

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        """The matrix from its parts, which may be anything."""
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        new.shape = aux_data
        return new

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        shape = _two(shape, cls.__name__)
        indptr = gnp.zeros(shape[cls.listed] + 1, index_dtype)
        return cls((gnp.zeros(0, dtype), gnp.zeros(0, index_dtype), indptr), shape=shape)


@register_pytree_node_class
class CSR(_Compressed):
    """A matrix whose stored elements are listed row by row.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.CSR.fromdense(gnp.array([[0., 2.], [1., 0.]]))
    >>> x @ gnp.array([1., 10.]), x.T
    (Array([20.,  1.], dtype=float32), CSC(float32[2, 2], nse=2))
    """

    listed = 0

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """See `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        row, col = (x.astype(index_dtype) for x in diagonal(N, M, k))
        # Rows ascend, so the number of elements before row i is a binary search.
        indptr = np.searchsorted(row, np.arange(N + 1)).astype(index_dtype)
        return cls((gnp.ones(row.size, dtype), col, indptr), shape=(N, M))

    def todense(self) -> Array:
        """See `csr_todense`."""
        return csr_todense(self)

    def transpose(self, axes: Any = None) -> CSC:
        """Rows and columns exchanged: a CSC matrix of the same parts."""
        _without_axes(axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@register_pytree_node_class
class CSC(_Compressed):
    """A matrix whose stored elements are listed column by column.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.CSC.fromdense(gnp.array([[0., 2.], [1., 0.]]))
    >>> x.data.tolist(), x @ gnp.array([1., 10.])
    ([1.0, 2.0], Array([20.,  1.], dtype=float32))
    """

    listed = 1

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """A CSC matrix of the elements of a dense one that are not zero."""
        return csr_fromdense(gnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        # The transpose of the k-th diagonal is the -k-th.
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).T

    def todense(self) -> Array:
        """The matrix with all its elements."""
        return csr_todense(self.T).T

    def transpose(self, axes: Any = None) -> CSR:
        """Rows and columns exchanged: a CSR matrix of the same parts."""
        _without_axes(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def coo_todense(mat: COO) -> Array:
    """The matrix with all its elements.

    >>> from gpuarray.experimental import sparse
    >>> sparse.coo_todense(sparse.eye(2, sparse_format="coo"))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return gnp.zeros(mat.shape, mat.dtype).at[mat.row, mat.col].add(mat.data, mode="drop")


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """A COO matrix of the elements of a dense one that are not zero.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.coo_fromdense(gnp.eye(2))
    COO(float32[2, 2], nse=2)
    """
    data, indices = _stored(mat, nse, index_dtype, "coo_fromdense")
    parts = data, indices[:, 0], indices[:, 1]
    return COO(parts, shape=gnp.shape(mat), rows_sorted=True)


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Array:
    """A COO matrix, or its transpose, times a vector.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.coo_matvec(sparse.eye(2, 3, sparse_format="coo"), gnp.ones(2), transpose=True)
    Array([1., 1., 0.], dtype=float32)
    """
    mat = mat.T if transpose else mat
    v = _checked(v, 1, mat.shape[1], "coo_matvec")
    return _product(mat.data, mat.row, mat.col, v, mat.shape[0])


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Array:
    """A COO matrix, or its transpose, times a dense one.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.coo_matmat(sparse.eye(2, sparse_format="coo"), gnp.ones((2, 1)))
    Array([[1.],
           [1.]], dtype=float32)
    """
    mat = mat.T if transpose else mat
    B = _checked(B, 2, mat.shape[1], "coo_matmat")
    return _product(mat.data, mat.row, mat.col, B, mat.shape[0])


def csr_todense(mat: CSR) -> Array:
    """The matrix with all its elements.

    >>> from gpuarray.experimental import sparse
    >>> sparse.csr_todense(sparse.eye(2, sparse_format="csr"))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    row = rows_of(mat.indices, mat.indptr)
    return gnp.zeros(mat.shape, mat.dtype).at[row, mat.indices].add(mat.data, mode="drop")


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """A CSR matrix of the elements of a dense one that are not zero.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.csr_fromdense(gnp.eye(2)).indptr
    Array([0, 1, 2], dtype=int32)
    """
    data, indices = _stored(mat, nse, index_dtype, "csr_fromdense")
    shape = gnp.shape(mat)
    indptr = pointers_of(indices[:, 0], shape[0], index_dtype)
    return CSR((data, indices[:, 1], indptr), shape=shape)


def _compressed_product(mat: CSR, v: Array, transpose: bool) -> Array:
    row, col = rows_of(mat.indices, mat.indptr), mat.indices
    rows = mat.shape[0]
    if transpose:
        row, col, rows = col, row, mat.shape[1]
    return _product(mat.data, row, col, v, rows)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Array:
    """A CSR matrix, or its transpose, times a vector.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.csr_matvec(sparse.eye(2, 3, sparse_format="csr"), gnp.ones(2), transpose=True)
    Array([1., 1., 0.], dtype=float32)
    """
    v = _checked(v, 1, mat.shape[0 if transpose else 1], "csr_matvec")
    return _compressed_product(mat, v, transpose)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Array:
    """A CSR matrix, or its transpose, times a dense one.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.csr_matmat(sparse.eye(2, sparse_format="csr"), gnp.ones((2, 1)))
    Array([[1.],
           [1.]], dtype=float32)
    """
    B = _checked(B, 2, mat.shape[0 if transpose else 1], "csr_matmat")
    return _compressed_product(mat, B, transpose)


def _matmul(mat: Any, other: Any) -> Array:
    if isinstance(other, JAXSparse):
        raise NotImplementedError("matmul between two sparse objects.")
    other = gnp.asarray(other)
    if other.ndim not in (1, 2):
        raise NotImplementedError(f"matmul with object of shape {other.shape}")
    if isinstance(mat, COO):
        return coo_matvec(mat, other) if other.ndim == 1 else coo_matmat(mat, other)
    # A CSC matrix is the transpose of a CSR one with the same parts.
    turned = isinstance(mat, CSC)
    v = _checked(other, other.ndim, mat.shape[1], "matmul")
    return _compressed_product(mat.T if turned else mat, v, turned)


for _kind in (COO, CSR, CSC):
    operations.setdefault(_kind, {})["matmul"] = _matmul
