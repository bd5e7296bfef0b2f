"""Arithmetic with the stored elements of arrays in BCOO form: plain arrays in, plain arrays out.

Floor 6. In: `data` of shape (*batch, nse, *dense) and `indices` of shape (*batch, nse, n_sparse),
where a batch axis of length 1 is shared. Out: dense arrays, or other such pairs. Indices past the
end mark unused slots. Everything is made of gathers, scatters and sorts, which can be
differentiated, mapped and compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.experimental.sparse.base import Shape
from gpuarray.functions.vmap import vmap


class Properties(NamedTuple):
    """How many axes of each sort there are, and the number of stored elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def properties_of_indices(indices: Any, shape: Sequence[int]) -> Properties:
    """The properties of an array of this shape with these indices; ValueError if they disagree."""
    shape = tuple(shape)
    if indices.ndim < 2:
        raise ValueError(
            f"indices have the axes (*batch, nse, n_sparse), got shape {indices.shape}"
        )
    nse, n_sparse = indices.shape[-2:]
    n_batch = indices.ndim - 2
    n_dense = len(shape) - n_batch - n_sparse
    if n_dense < 0:
        raise ValueError(
            f"indices of shape {indices.shape} are for {n_batch + n_sparse} axes, more than the "
            f"shape {shape} has"
        )
    if not _fits(indices.shape[:n_batch], shape[:n_batch]):
        raise ValueError(f"indices batch dimensions not compatible for {indices.shape=}, {shape=}")
    return Properties(n_batch, n_sparse, n_dense, nse)


def properties(data: Any, indices: Any, shape: Sequence[int]) -> Properties:
    """The properties of an array of this shape; ValueError if data, indices and shape disagree."""
    shape = tuple(shape)
    found = properties_of_indices(indices, shape)
    n_batch, n_sparse, n_dense, nse = found
    if data.ndim <= n_batch or not _fits(data.shape[:n_batch], shape[:n_batch]):
        raise ValueError(f"data batch dimensions not compatible for {data.shape=}, {shape=}")
    if tuple(data.shape[n_batch:]) != (nse, *shape[n_batch + n_sparse :]):
        raise ValueError(f"Invalid {data.shape=} for {nse=}, {n_batch=}, {n_dense=}")
    return found


def _fits(lengths: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(n in (1, want) for n, want in zip(lengths, wanted, strict=True))


def split(sequence: Sequence, n_batch: int, n_sparse: int) -> tuple[tuple, tuple, tuple]:
    """The items of batch axes, sparse axes and dense axes."""
    s = tuple(sequence)
    return s[:n_batch], s[n_batch : n_batch + n_sparse], s[n_batch + n_sparse :]


def spread(x: Array, batch: Sequence[int]) -> Array:
    """`x` with the axes of its batch repeated to these lengths."""
    shape = (*batch, *x.shape[len(batch) :])
    return x if x.shape == shape else lax.broadcast_in_dim(x, shape, tuple(range(x.ndim)))


def joint_batch(data: Array, indices: Array) -> Shape:
    """The lengths of the batch axes of data and indices together."""
    n = indices.ndim - 2
    return tuple(np.broadcast_shapes(data.shape[:n], indices.shape[:n]))


def over_batch(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """`f` mapped over the first n axes of its arguments."""
    for _ in range(n):
        f = vmap(f)
    return f


def limits(shape: Sequence[int], found: Properties, dtype: Any) -> np.ndarray:
    """The lengths of the sparse axes: the first index that is beyond each."""
    return np.array(shape[found.n_batch : found.n_batch + found.n_sparse], dtype)


def inside(indices: Array, limit: Any) -> Array:
    """Whether each stored element has a place in the array."""
    return gnp.all(indices < limit, axis=-1)


def beside(mask: Array, data: Array) -> Array:
    """A mask of stored elements with axes for the dense axes of `data`."""
    return lax.expand_dims(mask, tuple(range(mask.ndim, data.ndim)))


def masked(data: Array, mask: Array) -> Array:
    """The stored elements that a mask keeps, and zeros for the others."""
    return gnp.where(beside(mask, data), data, gnp.zeros((), data.dtype))


def _places(batch: Sequence[int]) -> list[np.ndarray]:
    """For each batch axis its index, to broadcast with indices of shape (*batch, nse)."""
    n = len(batch)
    return [
        np.arange(size, dtype=np.int32).reshape([-1 if i == k else 1 for i in range(n + 1)])
        for k, size in enumerate(batch)
    ]


def _columns(indices: Array) -> list[Array]:
    return [indices[..., i] for i in range(indices.shape[-1])]


def to_dense(data: Array, indices: Array, shape: Shape) -> Array:
    """The array with all its elements; those stored twice are added."""
    n_batch, n_sparse, _, _ = properties(data, indices, shape)
    if not n_sparse:
        total = data.sum(n_batch, dtype=data.dtype)
        return gnp.broadcast_to(total, shape)
    at = (*_places(shape[:n_batch]), *_columns(indices))
    return gnp.zeros(shape, data.dtype).at[at].add(data)


def extract(indices: Array, dense: Array, *, assume_unique: bool = True) -> Array:
    """The elements of a dense array at these indices, 0 for indices beyond it.

    An index that is there several times gets its element at each of them, or if they are not
    assumed to be unique, at the first one only.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.sparse import patterns
    >>> where = gnp.array([[1], [1], [9]])
    >>> patterns.extract(where, gnp.array([5., 7.]))
    Array([7., 7., 0.], dtype=float32)
    >>> patterns.extract(where, gnp.array([5., 7.]), assume_unique=False)
    Array([7., 0., 0.], dtype=float32)
    """
    found = properties_of_indices(indices, dense.shape)
    n_batch, n_sparse, _, nse = found
    batch = dense.shape[:n_batch]
    if not n_sparse:
        shape = (*batch, nse, *dense.shape[n_batch:])
        axes = [i for i in range(len(shape)) if i != n_batch]
        values = lax.broadcast_in_dim(dense, shape, axes)
    else:
        at = (*_places(batch), *_columns(indices))
        values = dense.at[at].get(mode="fill", fill_value=0)
    if assume_unique:
        return values
    if not n_sparse:
        # Without sparse axes all stored elements are at one position: keep the first one.
        first = gnp.equal(gnp.arange(nse), 0)
        return gnp.where(beside(first, values[(0,) * n_batch]), values, 0)
    # Of elements with one index only the first in order is kept: the sum counts it once.
    _, order, starts = groups(clipped(indices, limits(dense.shape, found, indices.dtype)))
    at = (*_places(order.shape[:-1]), order)
    first = gnp.zeros(order.shape, bool).at[at].set(starts)
    return gnp.where(beside(first, values), values, 0)


def clipped(indices: Array, limit: np.ndarray) -> Array:
    """Set all indices past the end to the one just after the last element."""
    return gnp.where(inside(indices, limit)[..., None], indices, limit)


def sorted_rows(indices: Array) -> tuple[Array, Array]:
    """The indices in the order of the elements, and where each stood before."""
    *batch, nse, n_sparse = indices.shape
    place = lax.broadcasted_iota(indices.dtype, (*batch, nse), len(batch))
    # The position as one more operand: it gives the origin of each sorted row.
    *columns, order = lax.sort((*_columns(indices), place), dimension=-1, num_keys=n_sparse)
    return gnp.stack(columns, axis=-1), order


def groups(indices: Array) -> tuple[Array, Array, Array]:
    """Sorted indices, where each stood before, and whether it differs from the one before it."""
    rows, order = sorted_rows(indices)
    changes = gnp.any(rows[..., 1:, :] != rows[..., :-1, :], axis=-1)
    begins = gnp.ones((*rows.shape[:-2], min(1, rows.shape[-2])), bool)
    return rows, order, gnp.concatenate([begins, changes], axis=-1)


def sort_indices(data: Array, indices: Array, shape: Shape) -> tuple[Array, Array]:
    """Stored elements in the order of their indices."""
    found = properties(data, indices, shape)
    if not found.n_sparse:
        return data, indices
    rows, order = sorted_rows(indices)
    batch = joint_batch(data, indices)
    return spread(data, batch)[(*_places(batch), spread(order, batch))], rows


def sum_duplicates(
    data: Array, indices: Array, shape: Shape, nse: int | None
) -> tuple[Array, Array]:
    """Each index once, in order, with the sum of its elements; `nse` of them."""
    found = properties(data, indices, shape)
    n_batch, n_sparse, _, _ = found
    limit = limits(shape, found, indices.dtype)
    batch = joint_batch(data, indices)
    if not n_sparse:
        # Without sparse axes all stored elements are at one position.
        nse = 1 if nse is None else nse
        total = data.sum(n_batch, keepdims=True, dtype=data.dtype)
        room = gnp.zeros((*data.shape[:n_batch], nse, *data.shape[n_batch + 1 :]), data.dtype)
        at = (*(slice(None),) * n_batch, slice(0, min(1, nse)))
        summed = room.at[at].set(total[at]) if nse else room
        return spread(summed, batch), gnp.zeros((*indices.shape[:n_batch], nse, 0), indices.dtype)
    rows, order, starts = groups(clipped(indices, limit))
    # Equal indices are neighbours now: each run of them is a group, counted from 0.
    group = gnp.cumsum(starts, axis=-1, dtype=np.int32) - 1
    if nse is None:
        # Those beyond the shape come last, and are no element.
        nse = concrete_count(gnp.sum(starts & inside(rows, limit), axis=-1), "sum_duplicates")
    places = _places(indices.shape[:n_batch])
    room = gnp.broadcast_to(limit, (*indices.shape[:n_batch], nse, n_sparse))
    unique = room.at[(*places, group)].set(rows, mode="drop")
    # From sorted order back to the order of the data: which sum each element is part of.
    target = gnp.zeros(order.shape, np.int32).at[(*places, order)].set(group)
    sums = gnp.zeros((*batch, nse, *data.shape[n_batch + 1 :]), data.dtype)
    return sums.at[(*_places(batch), target)].add(data, mode="drop"), unique


def concrete_count(counts: Array, what: str) -> int:
    """The largest of some counts as an int: the number of stored elements that is needed."""
    if isinstance(counts, Tracer):
        raise ValueError(
            f"{what}: nse must be specified when using the function within jit, vmap, and other "
            "transformations: the number of stored elements depends on values"
        )
    return int(counts.max(initial=0))


def count_stored(dense: Array, n_batch: int, n_dense: int) -> Array:
    """The number of elements that are not zero, for each element of the batch."""
    mask = nonzero_mask(dense, n_dense)
    return mask.sum(tuple(range(n_batch, mask.ndim)))


def nonzero_mask(dense: Array, n_dense: int) -> Array:
    """Which elements, or blocks along the dense axes, hold anything but zeros."""
    mask = gnp.not_equal(dense, 0)
    return mask.any(tuple(range(dense.ndim - n_dense, dense.ndim))) if n_dense else mask


def from_dense(
    dense: Array, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> tuple[Array, Array]:
    """The first nse elements of a dense array that are not zero, and their indices."""
    n_sparse = dense.ndim - n_batch - n_dense
    mask = nonzero_mask(dense, n_dense)
    batch, sparse, _ = split(dense.shape, n_batch, n_sparse)
    if not n_sparse:
        indices = gnp.zeros((*batch, nse, 0), index_dtype)
    else:
        # Room that is left over gets the lengths themselves: an index beyond the shape.
        find = lambda m: gnp.stack(gnp.nonzero(m, size=nse, fill_value=sparse), axis=-1)
        indices = over_batch(find, n_batch)(mask).astype(index_dtype)
    data = extract(indices, dense)
    if not n_sparse and nse > 1:
        # All of them are at one position: it is stored once.
        first = gnp.equal(gnp.arange(nse), 0)
        data = gnp.where(beside(first, data[(0,) * n_batch]), data, gnp.zeros((), data.dtype))
    return data, indices
