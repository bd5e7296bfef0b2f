"""BCOO, a sparse array of coordinates and values, and operations that preserve it.

Floor 6. In: stored elements with their indices, or a dense array. Out: BCOO arrays, dense ones.
Shapes are changed in layouts.py, products are in products.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.errors import ConcretizationTypeError
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.base import Batched, SparseInfo, arrays, ask
from gpuarray.functions.vmappable import register_vmappable
from gpuarray.tree_util import register_pytree_node_class


@register_pytree_node_class
class BCOO(Batched):
    """An array with a list of stored elements and their indices (batched coordinates).

    The first `n_batch` axes select a list, the last `n_dense` are stored as blocks, and those
    between are sparse. Elements with the same index are added; an index past the end marks an
    unused slot.

    Parameters
    ----------
    args : (data, indices)
        `data` of shape (*batch, nse, *dense), `indices` of shape (*batch, nse, n_sparse). An axis
        of the batch may have length 1: it is the same for all.
    shape : sequence of int
        The shape of the whole.
    indices_sorted, unique_indices : bool
        Promises about the indices, which are relied on.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCOO.fromdense(gnp.array([[0., 2., 0.], [1., 0., 4.]]))
    >>> x, x.data
    (BCOO(float32[2, 3], nse=3), Array([2., 1., 4.], dtype=float32))
    >>> x @ gnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    #: A mark that arrays with the same indices share, so that their elements match one by one.
    pattern: object

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices = arrays(args, ("data", "indices"), "BCOO")
        super().__init__(args, shape, indices_sorted, unique_indices)
        self.pattern = object()
        patterns.properties(self.data, self.indices, self.shape)

    @property
    def nse(self) -> int:
        """The number of stored elements of each element of the batch."""
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def properties(self) -> patterns.Properties:
        """The numbers of axes, and of stored elements."""
        return patterns.Properties(self.n_batch, self.n_sparse, self.n_dense, self.nse)

    def with_data(self, data: Array) -> BCOO:
        """Other elements at the same indices, which later operations know to be the same."""
        new = BCOO((data, self.indices), **self.info._asdict())
        new.pattern = self.pattern
        return new

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """See `bcoo_fromdense`."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """A BCOO array from a matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.fromscipy with nonzero n_dense/n_batch")
        # Keep duplicates: BCOO adds elements with equal indices, as COO does.
        mat = mat.tocoo()
        indices = np.stack([mat.row, mat.col], axis=-1).astype(index_dtype or np.int32)
        return cls((gnp.asarray(mat.data), indices), shape=mat.shape)

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
    ) -> BCOO:
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if min(n_sparse, n_dense, n_batch, nse) < 0:
            raise ValueError(f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        batch, sparse, dense = patterns.split(shape, n_batch, n_sparse)
        indices = gnp.broadcast_to(np.array(sparse, index_dtype), (*batch, nse, n_sparse))
        data = gnp.zeros((*batch, nse, *dense), dtype)
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        if min(n_batch, n_dense, 2 - n_batch - n_dense) < 0:
            raise ValueError(f"Invalid inputs: shape={(N, M)}, {n_dense=}, {n_batch=}")
        # Static: the pattern is a constant of the program.
        row, col = diagonal(N, M, k)
        if not row.size:
            kinds = {"n_batch": n_batch, "n_dense": n_dense}
            return cls._empty((N, M), dtype=dtype, index_dtype=index_dtype, **kinds)
        if n_dense or n_batch > 1:
            # All zeros are stored.
            dense = gnp.eye(N, M, k, dtype=dtype)
            return cls.fromdense(dense, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
        if not n_batch:
            indices = np.stack([row, col], axis=-1).astype(index_dtype)
            data = gnp.ones(row.size, dtype)
        else:
            # One element for each row; rows outside the diagonal have theirs past the end.
            columns = np.full(N, M, index_dtype)
            columns[row] = col
            indices = columns[:, None, None]
            data = gnp.asarray(columns < M, gnp.ones((), dtype).dtype)[:, None]
        return cls((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    update_layout = ask("update_layout", "update_layout")

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """Each index once, in order, with the sum of its elements.

        Parameters
        ----------
        nse :
            How many stored elements the result has, which has to be given inside jit and other
            transformations.
        remove_zeros :
            Drop elements that are zero; derivatives need them kept.
        """
        remove = bcoo_eliminate_zeros if remove_zeros else bcoo_sum_duplicates
        return remove(self, nse=nse)

    def sort_indices(self) -> BCOO:
        """See `bcoo_sort_indices`."""
        return bcoo_sort_indices(self)

    def todense(self) -> Array:
        """See `bcoo_todense`."""
        return bcoo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """See `bcoo_transpose`; without axes, all of them in reverse order."""
        return bcoo_transpose(self, permutation=range(self.ndim)[::-1] if axes is None else axes)

    def tree_flatten(self) -> tuple[tuple, Any]:
        """(data, indices), and the static properties."""
        return (self.data, self.indices), self.info

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> BCOO:
        """The array from its parts, which may be anything."""
        # Without checks: pytrees are rebuilt of tracers, of types, and of anything else.
        new = object.__new__(cls)
        new.data, new.indices = children
        new.shape, new.indices_sorted, new.unique_indices = SparseInfo(*aux_data)
        new.pattern = object()
        return new


# vmap maps a BCOO along an axis of its batch, not its two arrays separately.
def _element(part: Any, _: Any, x: BCOO, axis: int | None) -> BCOO:
    if axis is None:
        return x
    if axis >= x.n_batch:
        raise ValueError(
            f"Cannot map in_axis={axis} for BCOO array with n_batch={x.n_batch}. "
            "in_axes for batched BCOO operations must correspond to a batch dimension."
        )
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return BCOO(
        (part(x.data, axis), part(x.indices, axis)), **x.info._replace(shape=shape)._asdict()
    )


def _whole(part: Any, size: int, x: BCOO, axis: int | None) -> BCOO:
    if axis is None:
        return x
    if axis > x.n_batch:
        raise ValueError(
            f"BCOO: cannot add out_axis={axis} for BCOO array with n_batch={x.n_batch}. "
            "BCOO batch axes must be a contiguous block of leading dimensions."
        )
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    both = part(size, x.data, axis), part(size, x.indices, axis)
    return BCOO(both, **x.info._replace(shape=shape)._asdict())


register_vmappable(BCOO, int, int, _element, _whole, None)


def diagonal(N: int, M: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the k-th diagonal of an N by M matrix."""
    row = np.arange(max(0, -k), max(0, -k, min(N, M - k)))
    return row, row + k


def check_bcoo(x: Any, function: str) -> BCOO:
    """The argument, if it is a BCOO array; TypeError if not."""
    if not isinstance(x, BCOO):
        raise TypeError(f"{function}: input should be BCOO array, got type(mat)={type(x)}")
    return x


def known_count(nse: Any, what: str) -> int:
    """A number of stored elements as an int; an error that explains why it must be known."""
    if isinstance(nse, Tracer):
        raise ConcretizationTypeError(
            nse,
            f"The error arose for the nse argument of {what}. The number of stored elements is a "
            "part of the result's type: under jit and other transformations, pass it as an int.",
        )
    return util.index(nse, "a number of stored elements")


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCOO:
    """A BCOO array of the elements of a dense array that are not zero.

    Parameters
    ----------
    nse :
        How many elements are stored for each element of the batch; it has to be given under jit.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_fromdense(gnp.eye(3), n_batch=1)
    BCOO(float32[3, 3], nse=1, n_batch=1)
    """
    mat = gnp.asarray(mat)
    n_batch = util.index(n_batch, "a number of axes")
    n_dense = util.index(n_dense, "a number of axes")
    if min(n_batch, n_dense, mat.ndim - n_batch - n_dense) < 0:
        raise ValueError(f"{n_batch=} and {n_dense=} are no parts of the axes of {mat.shape}")
    if nse is None:
        counts = patterns.count_stored(mat, n_batch, n_dense)
        # Counted, if there are values to count: the number is a part of the result's type.
        known = known_count if isinstance(counts, Tracer) else patterns.concrete_count
        nse = known(counts, "bcoo_fromdense")
    nse = known_count(nse, "bcoo_fromdense")
    both = patterns.from_dense(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return BCOO(both, shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_todense(mat: BCOO) -> Array:
    """The array with all its elements.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_todense(sparse.BCOO(([5., 1.], [[0], [0]]), shape=(2,)))
    Array([6., 0.], dtype=float32)
    """
    return patterns.to_dense(mat.data, mat.indices, mat.shape)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the indices of a sparse one.

    Parameters
    ----------
    assume_unique :
        Take an element for every index, even if an index is there twice; otherwise only for the
        first of equal ones. None: as the sparse array promises.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_extract(sparse.eye(2), gnp.array([[1., 2.], [3., 4.]])).data
    Array([1., 4.], dtype=float32)
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(
            f"First argument to bcoo_extract should be a BCOO array. Got {type(sparr)=}"
        )
    dense = gnp.asarray(arr)
    if dense.shape != sparr.shape:
        raise ValueError(f"shape mismatch: {sparr.shape=} {dense.shape=}")
    if assume_unique is None:
        assume_unique = sparr.unique_indices
    return sparr.with_data(patterns.extract(sparr.indices, dense, assume_unique=assume_unique))


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with its stored elements in the order of their indices.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_sort_indices(sparse.BCOO(([1., 2.], [[1], [0]]), shape=(2,))).data
    Array([2., 1.], dtype=float32)
    """
    both = patterns.sort_indices(mat.data, mat.indices, mat.shape)
    return BCOO(both, shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Each index once, in order, with the sum of its elements.

    Parameters
    ----------
    nse :
        How many stored elements the result has, which has to be given inside jit and other
        transformations. Room that is left over has indices beyond the shape; elements for which
        there is no room are dropped.

    Examples
    --------

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_sum_duplicates(sparse.BCOO(([1., 2.], [[1], [1]]), shape=(2,))).data
    Array([3.], dtype=float32)
    """
    if nse is not None:
        nse = known_count(nse, "bcoo_sum_duplicates")
    both = patterns.sum_duplicates(mat.data, mat.indices, mat.shape, nse)
    return BCOO(both, shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """As bcoo_sum_duplicates, without the elements that are zero.

    >>> from gpuarray.experimental.sparse.coordinates import BCOO, bcoo_eliminate_zeros
    >>> bcoo_eliminate_zeros(BCOO(([0., 2.], [[0], [1]]), shape=(2,)))
    BCOO(float32[2], nse=1)
    """
    found = mat.properties
    # Remove an element if all of its block is zero.
    zero = gnp.equal(mat.data, 0).all(tuple(range(found.n_batch + 1, mat.data.ndim)))
    # Indices shared by the whole batch are removed only if all of it is zero.
    shared = tuple(i for i, n in enumerate(mat.indices.shape[: found.n_batch]) if n == 1)
    zero = zero.all(shared, keepdims=True) if shared else zero
    limit = patterns.limits(mat.shape, found, mat.indices.dtype)
    indices = gnp.where(zero[..., None], limit, mat.indices)
    return bcoo_sum_duplicates(BCOO((mat.data, indices), shape=mat.shape), nse=nse)


def set_nse(mat: BCOO, nse: int) -> BCOO:
    """The array with room for this many stored elements; further ones are dropped."""
    n = mat.n_batch
    if nse <= mat.nse:
        at = (*(slice(None),) * n, slice(nse))
        data, indices = mat.data[at], mat.indices[at]
    else:
        more = [(0, nse - mat.nse if i == n else 0) for i in range(mat.data.ndim)]
        data = gnp.pad(mat.data, more)
        limit = patterns.limits(mat.shape, mat.properties, mat.indices.dtype)
        # Room that is not used has indices beyond the shape.
        room = gnp.broadcast_to(limit, (*mat.indices.shape[:n], nse - mat.nse, mat.n_sparse))
        indices = lax.concatenate([mat.indices, room], dimension=n)
    return BCOO((data, indices), **mat.info._asdict())


def checked_permutation(mat: BCOO, permutation: Any) -> tuple[tuple, tuple, tuple]:
    """Split a permutation into those of batch, sparse and dense axes, each counted from 0."""
    if not isinstance(permutation, (tuple, list, range, np.ndarray)):
        raise TypeError(
            f"transpose permutation must be a tuple/list/ndarray, got {type(permutation)}."
        )
    axes = util.indices(permutation, "a permutation of axes")
    if sorted(axes) != list(range(mat.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, "
            f"got permutation {axes} for shape {mat.shape}."
        )
    n_batch, n_sparse, n_dense, _ = mat.properties
    batch, sparse, dense = patterns.split(axes, n_batch, n_sparse)
    for what, found, first in (("batch", batch, 0), ("dense", dense, n_batch + n_sparse)):
        if sorted(found) != list(range(first, first + len(found))):
            raise NotImplementedError(
                f"transpose permutation cannot permute {what} axes with non-{what} axes; "
                f"got permutation {axes}, with {n_batch=}, {n_dense=}."
            )
    return (
        batch,
        tuple(a - n_batch for a in sparse),
        tuple(a - n_batch - n_sparse for a in dense),
    )


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Permute the axes of the array: batch, sparse and dense ones separately.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_transpose(sparse.eye(2, 3), permutation=(1, 0))
    BCOO(float32[3, 2], nse=2)
    """
    batch, sparse, dense = checked_permutation(mat, permutation)
    n = mat.n_batch
    shape = tuple(mat.shape[i] for i in util.indices(permutation))
    in_order = sparse == tuple(range(mat.n_sparse))
    # The order of elements, and the indices themselves, are unchanged if only blocks are
    # transposed.
    indices = mat.indices if in_order else mat.indices[..., np.array(sparse, np.int32)]
    moved = batch != tuple(range(n))
    if moved:
        indices = lax.transpose(indices, (*batch, n, n + 1))
    data = lax.transpose(mat.data, (*batch, n, *(a + n + 1 for a in dense)))
    new = BCOO(
        (data, indices),
        shape=shape,
        indices_sorted=mat.indices_sorted and in_order,
        unique_indices=mat.unique_indices,
    )
    # Only the blocks were transposed: the pattern is the same.
    if in_order and not moved:
        new.pattern = mat.pattern
    return new
