"""Reshaping and slicing BCOO arrays, like the functions of `lax` for dense ones.

Floor 6. In: BCOO arrays. Out: BCOO arrays. Batch axes and dense axes are axes of the stored arrays,
so they are changed as in dense arrays; a sparse axis is a column of the indices.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.avals import ShapedArray
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.base import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    operations,
)
from gpuarray.experimental.sparse.coordinates import (
    BCOO,
    checked_permutation,
    set_nse,
)
from gpuarray.functions.inspect import eval_shape
from gpuarray.functions.stages import struct_of


def shape_after(function: Any, *operands: Any, **params: Any) -> Any:
    """Return the result's type of a function of dense arrays, which also checks its parameters."""
    # Use the shape rule of the dense operation, so that users see its error.
    structs = [struct_of(ShapedArray(x.shape, x.dtype)) for x in operands]
    return eval_shape(lambda *xs: function(*xs, **params), *structs)


# ---- layout ----


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The same array with other numbers of batch and dense axes.

    More batch or dense axes than before, longer than 1, are a layout with many zeros, which is an
    error: on_inefficient="warn" warns instead, None does neither.

    >>> from gpuarray.experimental import sparse
    >>> x = sparse.bcoo_update_layout(sparse.eye(2), n_batch=1, on_inefficient=None)
    >>> x, x.data.shape
    (BCOO(float32[2, 2], nse=2, n_batch=1), (2, 2))
    """
    n_batch = mat.n_batch if n_batch is None else util.index(n_batch, "a number of axes")
    n_dense = mat.n_dense if n_dense is None else util.index(n_dense, "a number of axes")
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"{on_inefficient=}; expected one of ['error', 'warn', None].")
    if min(n_batch, n_dense) < 0:
        raise ValueError(f"{n_batch=} and {n_dense=} must be non-negative")
    if n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"sum of {n_batch=} and {n_dense=} cannot be larger than mat.ndim={mat.ndim}."
        )
    shape = mat.shape
    for name, old, new, lengths in (
        ("n_dense", mat.n_dense, n_dense, shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]),
        ("n_batch", mat.n_batch, n_batch, shape[mat.n_batch : n_batch]),
    ):
        if new > old and any(n > 1 for n in lengths):
            _inefficient(
                f"For matrix of shape {shape}, increasing {name} from {old} to {new} results in "
                "inefficient storage.",
                on_inefficient,
            )
    # First move axes to the sparse ones, then away from them.
    data, indices = mat.data, mat.indices
    if n_dense < mat.n_dense:
        data, indices = _fewer_dense(data, indices, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        data, indices = _fewer_batch(data, indices, shape, n_batch)
    if n_dense > mat.n_dense:
        data, indices = _more_dense(data, indices, shape, n_dense - mat.n_dense)
    if n_batch > mat.n_batch:
        data, indices = _more_batch(data, indices, shape, n_batch)
    return mat if data is mat.data else BCOO((data, indices), shape=shape)


def _inefficient(message: str, on_inefficient: str | None) -> None:
    if on_inefficient == "error":
        raise SparseEfficiencyError(
            f"{message} To disable this error, set the on_inefficient argument of "
            "bcoo_update_layout to 'warn' or None."
        )
    if on_inefficient == "warn":
        warnings.warn(
            f"{message} To disable this warning, set the on_inefficient argument of "
            "bcoo_update_layout to None.",
            SparseEfficiencyWarning,
            stacklevel=3,
        )


def _fewer_dense(data: Array, indices: Array, count: int) -> tuple[Array, Array]:
    """Make the first `count` dense axes sparse: each element of a block gets its own indices."""
    n = indices.ndim - 2
    block = data.shape[n + 1 : n + 1 + count]
    # Known beforehand: where each element of a block is in it, the same for all blocks.
    inner = np.indices(block, dtype=indices.dtype).reshape(count, -1).T
    size = math.prod(block)
    *batch, nse, n_sparse = indices.shape
    shape = (*batch, nse, size)
    outer = gnp.broadcast_to(indices[..., None, :], (*shape, n_sparse))
    both = gnp.concatenate([outer, gnp.broadcast_to(inner, (*shape, count))], axis=-1)
    data = data.reshape(*data.shape[:n], nse * size, *data.shape[n + 1 + count :])
    return data, both.reshape(*batch, nse * size, n_sparse + count)


def _fewer_batch(data: Array, indices: Array, shape: tuple, n_batch: int) -> tuple[Array, Array]:
    """Make batch axes after the first n_batch sparse: one list of elements for all of them."""
    old = indices.ndim - 2
    merged = shape[n_batch:old]
    kept = tuple(np.broadcast_shapes(data.shape[:n_batch], indices.shape[:n_batch]))
    data = patterns.spread(data, (*kept, *merged))
    indices = patterns.spread(indices, (*kept, *merged))
    nse, n_sparse = indices.shape[-2:]
    # The position of each element along the merged axes. np.indices also counts the elements
    # themselves, which the last axis holds already: [:-1].
    place = np.indices((*merged, nse), dtype=indices.dtype)[:-1]
    place = gnp.broadcast_to(np.moveaxis(place, 0, -1), (*kept, *merged, nse, len(merged)))
    indices = gnp.concatenate([place, indices], axis=-1)
    count = math.prod(merged) * nse
    return (
        data.reshape(*kept, count, *data.shape[old + 1 :]),
        indices.reshape(*kept, count, len(merged) + n_sparse),
    )


def _more_dense(data: Array, indices: Array, shape: tuple, count: int) -> tuple[Array, Array]:
    """The last `count` sparse axes made dense: a block of zeros around each element."""
    n = indices.ndim - 2
    n_sparse = indices.shape[-1] - count
    block = shape[n + n_sparse : n + n_sparse + count]
    batch = patterns.joint_batch(data, indices)
    inner = patterns.spread(indices, batch)[..., n_sparse:]
    room = gnp.zeros((*batch, *data.shape[n : n + 1], *block, *data.shape[n + 1 :]), data.dtype)
    # The element itself stays at the index it has within its block.
    lead = np.indices((*batch, data.shape[n]), dtype=np.int32)
    at = (*lead, *(inner[..., i] for i in range(count)))
    return room.at[at].set(patterns.spread(data, batch)), indices[..., :n_sparse]


def _more_batch(data: Array, indices: Array, shape: tuple, n_batch: int) -> tuple[Array, Array]:
    """The first sparse axes made batch axes: all elements in each, zero where they are not."""
    n = indices.ndim - 2
    count = n_batch - n
    new = shape[n:n_batch]
    nse, n_sparse = indices.shape[-2:]
    batch = patterns.joint_batch(data, indices)
    where = patterns.spread(indices, batch)
    room = gnp.zeros((*batch, *new, nse, *data.shape[n + 1 :]), data.dtype)
    # Each element keeps its place in the list and is stored in the batch that its index names; the
    # others hold a zero at that place.
    *lead, place = np.indices((*batch, nse), dtype=np.int32)
    at = (*lead, *(where[..., i] for i in range(count)), place)
    data = room.at[at].set(patterns.spread(data, batch))
    rest = indices[(*(slice(None),) * n, *(None,) * count)][..., count:]
    rest = gnp.broadcast_to(rest, (*indices.shape[:n], *new, nse, n_sparse - count))
    return data, rest


# ---- shape ----


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array with more or longer axes: `lax.broadcast_in_dim`.

    New axes before the sparse ones are batch axes; those among them are sparse and of length 1.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_broadcast_in_dim(sparse.eye(2), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    _refuse_sharding(sharding)
    shape, to = util.indices(shape, "a shape"), util.indices(broadcast_dimensions, "axes")
    if mat.ndim != len(to):
        raise ValueError(f"{mat.shape=} and {broadcast_dimensions=} must have the same length")
    found = mat.properties
    batch, sparse, dense = patterns.split(to, found.n_batch, found.n_sparse)
    if max(batch, default=0) > min(sparse, default=len(shape)):
        raise ValueError("Cannot mix batch and sparse dimensions during broadcast_in_dim")
    if max(sparse, default=0) > min(dense, default=len(shape)):
        raise ValueError("Cannot mix sparse and dense dimensions during broadcast_in_dim")
    # All new axes in front of a sparse or dense one are batch axes.
    n_batch = min(to[found.n_batch :], default=len(shape))
    n_dense = found.n_dense and len(shape) - min(dense)
    n_sparse = len(shape) - n_batch - n_dense
    new_batch, new_sparse, new_dense = patterns.split(shape, n_batch, n_sparse)
    old_sparse = mat.shape[found.n_batch : found.n_batch + found.n_sparse]
    if math.prod(old_sparse) != math.prod(new_sparse):
        raise NotImplementedError("Adding sparse dimensions with lengths != 1")
    data, indices = mat.data, mat.indices
    if (n_batch, n_dense) != (found.n_batch, found.n_dense) or new_batch != mat.shape[:n_batch]:
        data = lax.broadcast_in_dim(
            data,
            (*new_batch, found.nse, *new_dense),
            (*batch, n_batch, *(b + 1 - n_sparse for b in dense)),
        )
        indices = lax.broadcast_in_dim(
            indices, (*new_batch, found.nse, found.n_sparse), (*batch, n_batch, n_batch + 1)
        )
    if n_sparse != found.n_sparse:
        # The new columns are 0, which is all the index that their axes have.
        columns = [d - n_batch for d in sparse]
        wider = gnp.zeros((*indices.shape[:-1], n_sparse), indices.dtype)
        indices = wider.at[..., np.array(columns, np.int32)].set(indices) if columns else wider
    return BCOO((data, indices), shape=shape)


def _refuse_sharding(sharding: Any) -> None:
    if sharding is not None:
        raise ValueError(
            f"sharding={sharding}: the parts of a sparse array have layouts of their own; put "
            "x.data and x.indices where they shall lie"
        )


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays of the same layout one after the other along a batch axis or a sparse axis.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(3, 2)], dimension=0)
    BCOO(float32[5, 2], nse=4)
    """
    dimension = util.index(dimension, "an axis")
    operands = list(operands)
    if not all(isinstance(x, BCOO) for x in operands):
        raise ValueError(
            f"bcoo_concatenate: expected operands to be a sequence of BCOO arrays. Got {operands}"
        )
    out = shape_after(lambda *xs: lax.concatenate(xs, dimension), *operands)
    if len({x.n_dense for x in operands}) > 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching nse dimensions.")
    operands = _same_batches(operands)
    n_batch, n_sparse = operands[0].n_batch, operands[0].n_sparse
    if dimension >= n_batch + n_sparse:
        raise NotImplementedError("Concatenation along dense dimensions.")
    for name in ("data", "indices"):
        shapes = [list(getattr(x, name).shape[:n_batch]) for x in operands]
        if dimension < n_batch:
            for shape in shapes:
                del shape[dimension]
        if any(shape != shapes[0] for shape in shapes):
            raise NotImplementedError("concatenation of arrays with broadcasted batch indices")
    if dimension < n_batch:
        # Along a batch axis each element of the batch has room for the most.
        most = max(x.nse for x in operands)
        operands = [set_nse(x, most) for x in operands]
        indices = [x.indices for x in operands]
        at = dimension
    else:
        # The indices of later arrays are shifted by the lengths of earlier ones. An element past
        # the end of its own array must be past the end of the result.
        starts = np.cumsum([0, *(x.shape[dimension] for x in operands[:-1])])
        column = np.equal(np.arange(n_sparse), dimension - n_batch)
        indices = []
        for x, start in zip(operands, starts, strict=True):
            kind = x.indices.dtype
            there = patterns.inside(x.indices, patterns.limits(x.shape, x.properties, kind))
            limit = np.array(out.shape[n_batch : n_batch + n_sparse], kind)
            moved = x.indices + (column * start).astype(kind)
            indices.append(gnp.where(there[..., None], moved, limit))
        at = n_batch
    data = lax.concatenate([x.data for x in operands], at)
    return BCOO((data, lax.concatenate(indices, at)), shape=out.shape)


def _same_batches(operands: list[BCOO]) -> list[BCOO]:
    """The arrays with equally many batch axes: x[None] has one, which others may not have."""
    numbers = {x.n_batch for x in operands}
    # Either way of agreeing will do where the array that gives way has length 1 there.
    if numbers == {0, 1}:
        for n in (1, 0):
            if all(x.shape[0] == 1 for x in operands if x.n_batch != n):
                return [bcoo_update_layout(x, n_batch=n) for x in operands]
    if len(numbers) > 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching batch dimensions.")
    return operands


def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """The elements in another shape: `lax.reshape`, for batch, sparse and dense axes each.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_reshape(sparse.eye(4), new_sizes=(2, 8)).indices[:, 1].tolist()
    [0, 5, 2, 7]
    """
    _refuse_sharding(sharding)
    sizes = util.indices(new_sizes, "a shape")
    n, shape = mat.n_batch, mat.shape
    batch, sparse, _ = patterns.split(shape, n, mat.n_sparse)
    if math.prod(sizes) != mat.size:
        raise TypeError(
            f"reshape total size must be unchanged, got new_sizes {sizes} for shape {shape}."
        )
    perms = checked_permutation(mat, range(mat.ndim) if dimensions is None else dimensions)
    # The new axes are assigned by the sizes of the old ones.
    room = np.cumprod(sizes)
    before = math.prod(batch)
    upto = before * math.prod(sparse)
    if before != 1 and before not in room:
        raise ValueError(
            "bcoo_reshape: new shape cannot mix batch and sparse dimensions; "
            f"got {shape=} new_shape={sizes} with n_batch={n}"
        )
    if math.prod(sparse) != 1 and upto not in room:
        raise ValueError(
            "bcoo_reshape: new shape cannot mix sparse and dense dimensions; "
            f"got {shape=} new_shape={sizes} with n_dense={mat.n_dense}"
        )
    first = int(room.searchsorted(before, side="right"))
    last = int(room.searchsorted(upto, side="right"))
    new_batch, new_sparse, new_dense = sizes[:first], sizes[first:last], sizes[last:]
    data, indices = patterns.spread(mat.data, batch), patterns.spread(mat.indices, batch)
    dense_axes = tuple(p + n + 1 for p in perms[2])
    data = lax.reshape(
        data, (*new_batch, mat.nse, *new_dense), dimensions=(*perms[0], n, *dense_axes)
    )
    indices = lax.reshape(
        indices, (*new_batch, mat.nse, mat.n_sparse), dimensions=(*perms[0], n, n + 1)
    )
    if not new_sparse:
        if sparse:
            # An element past the end must not be added.
            there = patterns.inside(indices, np.array(sparse, indices.dtype))
            data = patterns.masked(data, there)
        indices = gnp.zeros((*new_batch, mat.nse, 0), indices.dtype)
    elif sparse:
        # The place of an element in the order of all, and from it its indices in the new shape.
        turned = [sparse[i] for i in perms[1]]
        columns = tuple(indices[..., i] for i in perms[1])
        flat = gnp.ravel_multi_index(columns, tuple(turned), mode="clip")
        there = patterns.inside(indices, np.array(sparse, indices.dtype))
        found = gnp.stack(gnp.unravel_index(flat, new_sparse), axis=-1).astype(indices.dtype)
        indices = gnp.where(there[..., None], found, np.array(new_sparse, indices.dtype))
    else:
        indices = gnp.zeros((*new_batch, mat.nse, len(new_sparse)), indices.dtype)
    return BCOO((data, indices), shape=sizes)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with its elements in reverse order along some axes.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_rev(sparse.eye(2), dimensions=[1]).todense()
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    shape_after(lax.rev, operand, dimensions=tuple(dimensions))
    n, n_sparse = operand.n_batch, operand.n_sparse
    batch = [d for d in dimensions if d < n]
    sparse = [d - n for d in dimensions if n <= d < n + n_sparse]
    dense = [d + 1 - n_sparse for d in dimensions if d >= n + n_sparse]
    data = lax.rev(operand.data, (*batch, *dense))
    indices = lax.rev(operand.indices, tuple(batch))
    if sparse:
        limit = patterns.limits(operand.shape, operand.properties, indices.dtype)
        # An index that is beyond the shape must stay so: reversed, it would be inside.
        turned = np.isin(np.arange(n_sparse), sparse)
        there = patterns.inside(indices, limit)[..., None]
        indices = gnp.where(turned, limit - 1 - indices, indices)
        indices = gnp.where(there, indices, limit)
    return BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some of its axes of length 1.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_squeeze(sparse.eye(1, 3), dimensions=[0])
    BCOO(float32[3], nse=1)
    """
    axes = util.canonical_axes(tuple(dimensions), arr.ndim)
    if any(arr.shape[d] != 1 for d in axes):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, "
            f"got shape={arr.shape} and {dimensions=}"
        )
    n, n_sparse = arr.n_batch, arr.n_sparse
    batch = tuple(d for d in axes if d < n)
    kept = np.array([i for i in range(n_sparse) if i + n not in axes], np.int32)
    dense = tuple(d - n_sparse + 1 for d in axes if d >= n + n_sparse)
    data, indices = arr.data, arr.indices
    if not kept.size and n_sparse:
        # Without a column that marks it, an element past the end would be added.
        there = patterns.inside(indices, patterns.limits(arr.shape, arr.properties, indices.dtype))
        data = patterns.masked(data, there)
    else:
        indices = _mark_beyond(arr, kept)
    return BCOO(
        (lax.squeeze(data, (*batch, *dense)), lax.squeeze(indices[..., kept], batch)),
        shape=tuple(s for i, s in enumerate(arr.shape) if i not in axes),
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def _mark_beyond(mat: BCOO, kept: np.ndarray) -> Array:
    """Change the indices so that the kept columns alone mark elements past the end."""
    if kept.size == mat.n_sparse:
        return mat.indices
    limit = patterns.limits(mat.shape, mat.properties, mat.indices.dtype)
    return patterns.clipped(mat.indices, limit)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum over some axes, as a sparse array.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_reduce_sum(sparse.eye(2, 3), axes=[0]).todense()
    Array([1., 1., 0.], dtype=float32)
    """
    axes = sorted(set(util.canonical_axes(tuple(axes), mat.ndim)))
    n_batch, n_sparse, _, nse = mat.properties
    shape = mat.shape
    summed = tuple(a - n_sparse + 1 for a in axes if a >= n_batch + n_sparse)
    data, indices = mat.data, mat.indices
    data = data.sum(summed, dtype=data.dtype) if summed else data
    kept = np.array([i for i in range(n_sparse) if i + n_batch not in axes], np.int32)
    if n_sparse:
        # With fewer columns, an element past the end would not be recognised.
        limit = patterns.limits(shape, mat.properties, indices.dtype)
        there = patterns.inside(indices, limit)
        data = patterns.masked(data, there)
        indices = indices[..., kept]
    # A sum over the batch is one longer list of elements.
    gone = [a for a in axes if a < n_batch]
    if gone:
        rest = [a for a in range(n_batch) if a not in gone]
        batch = patterns.joint_batch(data, indices)
        full = [shape[a] if a in gone else batch[a] for a in range(n_batch)]
        data, indices = patterns.spread(data, full), patterns.spread(indices, full)
        count = nse * math.prod(shape[a] for a in gone)
        behind = data.shape[n_batch + 1 :]
        lead = tuple(full[a] for a in rest)
        # Removed batch axes are moved next to the elements, and merged with that axis.
        order = (*rest, *gone)
        data = lax.reshape(
            data, (*lead, count, *behind), dimensions=(*order, *range(n_batch, data.ndim))
        )
        indices = lax.reshape(
            indices, (*lead, count, kept.size), dimensions=(*order, n_batch, n_batch + 1)
        )
    return BCOO((data, indices), shape=tuple(s for i, s in enumerate(shape) if i not in axes))


operations.setdefault(BCOO, {})["update_layout"] = bcoo_update_layout
