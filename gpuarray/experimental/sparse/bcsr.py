"""BCSR: arrays whose stored elements are listed row by row.

Floor 6. In: elements, their columns, and the start of each row; or a dense array. Out: BCSR arrays,
dense ones. Operations convert a BCSR array to BCOO by expanding the row pointers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.base import Batched, JAXSparse, SparseInfo, arrays
from gpuarray.experimental.sparse.coordinates import (
    BCOO,
    bcoo_eliminate_zeros,
    bcoo_fromdense,
    bcoo_sum_duplicates,
)
from gpuarray.experimental.sparse.layouts import bcoo_broadcast_in_dim, bcoo_concatenate
from gpuarray.experimental.sparse.products import Numbers, bcoo_dot_general
from gpuarray.functions.vmappable import register_vmappable
from gpuarray.tree_util import register_pytree_node_class


class Properties(NamedTuple):
    """How many batch and dense axes there are, and the number of stored elements."""

    n_batch: int
    n_dense: int
    nse: int


def _check_indices(indices: Any, indptr: Any, shape: Sequence[int]) -> Properties:
    shape = tuple(shape)
    n_batch = indices.ndim - 1
    n_dense = len(shape) - n_batch - 2
    if n_dense < 0:
        raise ValueError(f"BCSR array must have 2 sparse dimensions; got {shape=}, {n_batch=}.")
    for name, x in (("indices", indices), ("indptr", indptr)):
        lengths = zip(x.shape[:n_batch], shape[:n_batch], strict=False)
        # A batch axis of length 1 is repeated.
        if x.ndim != n_batch + 1 or any(n not in (1, whole) for n, whole in lengths):
            raise ValueError(f"{name} batch dimensions not compatible for {x.shape=}, {shape=}")
    if indptr.shape[n_batch:] != (shape[n_batch] + 1,):
        raise ValueError("indptr shape must match the matrix shape plus 1.")
    return Properties(n_batch, n_dense, indices.shape[-1])


def rows_of(indices: Array, indptr: Array) -> Array:
    """The row of each stored element; after the last one, the number of rows."""
    # Element k is in the row that the last row pointer not beyond k begins.
    place = lax.broadcasted_iota(indptr.dtype, indices.shape, indices.ndim - 1)
    find = lambda pointers, places: gnp.searchsorted(pointers, places, side="right") - 1
    batch = tuple(np.broadcast_shapes(indices.shape[:-1], indptr.shape[:-1]))
    pointers, places = patterns.spread(indptr, batch), patterns.spread(place, batch)
    return patterns.over_batch(find, len(batch))(pointers, places).astype(indices.dtype)


def coordinates(indices: Array, indptr: Array) -> Array:
    """The indices of the BCOO array with the same elements."""
    rows = rows_of(indices, indptr)
    return gnp.stack([rows, patterns.spread(indices, rows.shape)], axis=-1)


def pointers_of(rows: Array, count: int, dtype: Any) -> Array:
    """Where each of `count` rows begins in a sorted list of the rows of elements."""
    # Rows are sorted, so a row begins where the first element of it or of a later row is.
    find = lambda r: gnp.searchsorted(r, np.arange(count + 1, dtype=r.dtype), side="left")
    return patterns.over_batch(find, rows.ndim - 1)(rows).astype(dtype)


@register_pytree_node_class
class BCSR(Batched):
    """An array whose stored elements are listed row by row (batched compressed sparse rows).

    Parameters
    ----------
    args : (data, indices, indptr)
        `data` of shape (*batch, nse, *dense), the columns `indices` of shape (*batch, nse), and
        `indptr` of shape (*batch, rows + 1): elements indptr[i] to indptr[i + 1] are in row i.
    shape : sequence of int
        The shape of the whole: batch axes, rows, columns, dense axes.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCSR.fromdense(gnp.array([[0., 2., 0.], [1., 0., 4.]]))
    >>> x, x.indptr
    (BCSR(float32[2, 3], nse=3), Array([0, 1, 3], dtype=int32))
    >>> x @ gnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    indptr: Array

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices, self.indptr = arrays(args, ("data", "indices", "indptr"), "BCSR")
        super().__init__(args, shape, indices_sorted, unique_indices)
        n_batch, n_dense, nse = _check_indices(self.indices, self.indptr, self.shape)
        # A batch axis of length 1 is shared by all batch elements.
        fits = zip(self.data.shape[:n_batch], self.shape[:n_batch], strict=False)
        if any(n not in (1, whole) for n, whole in fits):
            raise ValueError(
                f"data batch dimensions not compatible for {self.data.shape=}, {self.shape=}"
            )
        if self.data.shape[n_batch:] != (nse, *self.shape[n_batch + 2 :]):
            raise ValueError(f"Invalid {self.data.shape=} for {nse=}, {n_batch=}, {n_dense=}")

    @property
    def nse(self) -> int:
        """The number of stored elements of each element of the batch."""
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes: rows and columns."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - self.indices.ndim

    def with_data(self, data: Array) -> BCSR:
        """Other elements at the same indices."""
        return BCSR((data, self.indices, self.indptr), **self.info._asdict())

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCSR:
        shape = tuple(shape)
        if min(n_dense, n_batch, nse) < 0:
            raise ValueError(f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        if len(shape) - n_dense - n_batch != 2:
            raise ValueError("BCSR sparse.empty: must have 2 sparse dimensions.")
        batch, (rows, columns), dense = patterns.split(shape, n_batch, 2)
        # No row has an element: all pointers are 0, and columns are past the end.
        data = gnp.zeros((*batch, nse, *dense), dtype)
        indices = gnp.full((*batch, nse), columns, index_dtype)
        return cls((data, indices, gnp.zeros((*batch, rows + 1), index_dtype)), shape=shape)

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """See `bcsr_fromdense`."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """A BCSR array from a matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR from_scipy_sparse with nonzero n_dense/n_batch.")
        if mat.ndim != 2:
            raise ValueError(f"BCSR from_scipy_sparse requires 2D array; {mat.ndim}D is given.")
        mat = mat.tocsr()
        kind = index_dtype or np.int32
        parts = gnp.asarray(mat.data), mat.indices.astype(kind), mat.indptr.astype(kind)
        return cls(parts, shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array, its elements row by row."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BSCR.from_bcoo requires n_sparse=2; got {arr.n_sparse=}")
        # Row pointers need elements in the order of their rows; a promise of the array saves the
        # sort.
        if not arr.indices_sorted:
            arr = arr.sort_indices()
        rows, columns = arr.indices[..., 0], arr.indices[..., 1]
        indptr = pointers_of(rows, arr.shape[arr.n_batch], arr.indices.dtype)
        return cls((arr.data, columns, indptr), shape=arr.shape)

    def to_bcoo(self) -> BCOO:
        """The same array, with an index for each element."""
        return BCOO((self.data, coordinates(self.indices, self.indptr)), shape=self.shape)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """As `BCOO.sum_duplicates`."""
        # Through BCOO, whose indices are written out.
        if remove_zeros:
            return BCSR.from_bcoo(bcoo_eliminate_zeros(self.to_bcoo(), nse=nse))
        return bcsr_sum_duplicates(self, nse=nse)

    def todense(self) -> Array:
        """See `bcsr_todense`."""
        return bcsr_todense(self)

    def transpose(self, axes: Any = None) -> Any:
        """Refused: columns are not listed one by one; convert it with `to_bcoo` first."""
        raise NotImplementedError("Transpose is not implemented: use x.to_bcoo().transpose()")

    def tree_flatten(self) -> tuple[tuple, Any]:
        """(data, indices, indptr), and the static properties."""
        return (self.data, self.indices, self.indptr), self.info

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> BCSR:
        """The array from its parts, which may be anything."""
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        new.shape, new.indices_sorted, new.unique_indices = SparseInfo(*aux_data)
        return new


def _element(part: Any, _: Any, x: BCSR, axis: int | None) -> BCSR:
    if axis is None:
        return x
    # Rows and columns have no axis of the stored arrays to be mapped over: only batch axes do.
    if axis >= x.n_batch:
        raise ValueError(
            f"Cannot map in_axis={axis} for BCSR array with n_batch={x.n_batch}. "
            "in_axes for batched BCSR operations must correspond to a batched dimension."
        )
    parts = tuple(part(p, axis) for p in (x.data, x.indices, x.indptr))
    return BCSR(parts, shape=x.shape[:axis] + x.shape[axis + 1 :])


def _whole(part: Any, size: int, x: BCSR, axis: int | None) -> BCSR:
    if axis is None:
        return x
    if axis > x.n_batch:
        raise ValueError(
            f"BCSR: cannot add out_axis={axis} for BCSR array with n_batch={x.n_batch}. "
            "BCSR batch axes must be a contiguous block of leading dimensions."
        )
    parts = tuple(part(size, p, axis) for p in (x.data, x.indices, x.indptr))
    return BCSR(parts, shape=(*x.shape[:axis], size, *x.shape[axis:]))


register_vmappable(BCSR, int, int, _element, _whole, None)


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCSR:
    """A BCSR array of the elements of a dense array that are not zero.

    Parameters
    ----------
    nse :
        How many elements are stored for each element of the batch; it has to be given under jit.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.bcsr_fromdense(gnp.eye(3))
    BCSR(float32[3, 3], nse=3)
    """
    mat = gnp.asarray(mat)
    n_batch = util.index(n_batch, "a number of axes")
    n_dense = util.index(n_dense, "a number of axes")
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
    return BCSR.from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )


def bcsr_todense(mat: BCSR) -> Array:
    """The array with all its elements.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.bcsr_todense(sparse.BCSR.fromdense(gnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return patterns.to_dense(mat.data, coordinates(mat.indices, mat.indptr), mat.shape)


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Array:
    """The elements of a dense array at the places that columns and row pointers name.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCSR.fromdense(gnp.eye(2))
    >>> sparse.bcsr_extract(x.indices, x.indptr, gnp.array([[1., 2.], [3., 4.]]))
    Array([1., 4.], dtype=float32)
    """
    indices, indptr, mat = map(gnp.asarray, (indices, indptr, mat))
    _check_indices(indices, indptr, mat.shape)
    return patterns.extract(coordinates(indices, indptr), mat)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Each element once, in order: `bcoo_sum_duplicates`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCSR(([1., 2.], [0, 0], [0, 2]), shape=(1, 2))
    >>> sparse.bcsr_sum_duplicates(x).data
    Array([3.], dtype=float32)
    """
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse=nse))


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Numbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """A product over some axes of a BCSR array and a dense one: see `bcoo_dot_general`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCSR.fromdense(gnp.eye(2))
    >>> sparse.bcsr_dot_general(x, gnp.ones(2), dimension_numbers=(([1], [0]), ([], [])))
    Array([1., 1.], dtype=float32)
    """
    if isinstance(rhs, JAXSparse) or (isinstance(lhs, JAXSparse) and not isinstance(lhs, BCSR)):
        raise NotImplementedError(
            "bcsr_dot_general currently implemented for BCSR lhs and ndarray rhs."
        )
    return bcoo_dot_general(
        lhs.to_bcoo() if isinstance(lhs, BCSR) else lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array with more or longer batch axes: `bcoo_broadcast_in_dim`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCSR.fromdense(gnp.eye(2))
    >>> sparse.bcsr_broadcast_in_dim(x, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    return BCSR.from_bcoo(
        bcoo_broadcast_in_dim(
            mat.to_bcoo(),
            shape=shape,
            broadcast_dimensions=broadcast_dimensions,
            sharding=sharding,
        )
    )


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays of the same layout one after the other: `bcoo_concatenate`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCSR.fromdense(gnp.eye(2))
    >>> sparse.bcsr_concatenate([x, x], dimension=1)
    BCSR(float32[2, 4], nse=4)
    """
    return BCSR.from_bcoo(bcoo_concatenate([x.to_bcoo() for x in operands], dimension=dimension))
