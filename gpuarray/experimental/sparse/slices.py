"""Parts of BCOO arrays: slices, and windows at indices that may be traced.

Floor 6. In: BCOO arrays. Out: BCOO arrays, with no more stored elements than there are places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import patterns
from gpuarray.experimental.sparse.coordinates import BCOO, bcoo_transpose, check_bcoo
from gpuarray.experimental.sparse.layouts import (
    bcoo_reshape,
    bcoo_squeeze,
    bcoo_update_layout,
    shape_after,
)
from gpuarray.functions.vmap import vmap


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A part of the array: `lax.slice`.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_slice(sparse.eye(4), start_indices=(1, 0), limit_indices=(3, 4)).data
    Array([0., 1., 1., 0.], dtype=float32)
    """
    mat = check_bcoo(mat, "bcoo_slice")
    starts = util.indices(start_indices, "start indices")
    ends = util.indices(limit_indices, "limit indices")
    steps = (1,) * mat.ndim if strides is None else util.indices(strides, "strides")
    if not len(starts) == len(ends) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice: indices must have size mat.ndim={mat.ndim}")
    if any(s <= 0 for s in steps):
        raise ValueError(f"strides must be a sequence of positive integers; got {strides}")
    if not all(0 <= a <= b <= n for a, b, n in zip(starts, ends, mat.shape, strict=True)):
        raise ValueError(
            f"bcoo_slice: invalid indices. Got {start_indices=}, {limit_indices=} and "
            f"shape={mat.shape}"
        )
    n_batch, n_sparse, _, _ = mat.properties
    cuts = [slice(*s) for s in zip(starts, ends, steps, strict=True)]
    batch, _, dense = patterns.split(cuts, n_batch, n_sparse)
    # An axis of the batch of length 1 serves all, also those that are taken.
    own = lambda x: [
        slice(None) if n != whole else cut
        for cut, n, whole in zip(batch, x.shape, mat.shape, strict=False)
    ]
    data = mat.data[(*own(mat.data), slice(None), *dense)]
    indices = mat.indices[tuple(own(mat.indices))]
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, ends, steps, strict=True))
    if not n_sparse:
        return BCOO((data, indices), shape=shape)
    start, end, step = (
        np.array(x[n_batch : n_batch + n_sparse], indices.dtype) for x in (starts, ends, steps)
    )
    # Elements cannot be dropped while shapes are fixed: those outside are marked as room.
    taken = (indices >= start) & (indices < end) & ((indices - start) % step == 0)
    return _kept(data, indices, gnp.all(taken, -1), (indices - start) // step, shape, n_sparse)


def _kept(
    data: Array, indices: Array, taken: Array, moved: Array, shape: tuple, n_sparse: int
) -> BCOO:
    """The array with only some of the stored elements, at new indices."""
    n_batch = indices.ndim - 2
    sizes = shape[n_batch : n_batch + n_sparse]
    limit = np.array(sizes, indices.dtype)
    indices = gnp.where(taken[..., None], moved, limit)
    data = patterns.masked(data, taken)
    # There may be fewer places than stored elements.
    if indices.shape[-2] > math.prod(sizes):
        data, indices = patterns.sum_duplicates(data, indices, shape, math.prod(sizes))
    return BCOO((data, indices), shape=shape)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of the array whose place may be traced: `lax.dynamic_slice`.

    >>> from gpuarray.experimental import sparse
    >>> sparse.bcoo_dynamic_slice(sparse.eye(4), (1, 1), (2, 2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    mat = check_bcoo(mat, "bcoo_dynamic_slice")
    sizes = util.indices(slice_sizes, "slice sizes")
    starts = [gnp.asarray(i) for i in start_indices]
    shape_after(lambda x: lax.dynamic_slice(x, starts, sizes), mat)
    n_batch, n_sparse, _, _ = mat.properties
    batch, sparse, dense = patterns.split(starts, n_batch, n_sparse)
    batch_sizes, sparse_sizes, dense_sizes = patterns.split(sizes, n_batch, n_sparse)

    def part(x: Array, behind: Sequence, behind_sizes: Sequence[int]) -> Array:
        # An axis of the batch of length 1 serves all.
        shared = [n != whole for n, whole in zip(x.shape[:n_batch], mat.shape, strict=False)]
        at = [np.int32(0) if s else b for s, b in zip(shared, batch, strict=True)]
        lengths = [1 if s else b for s, b in zip(shared, batch_sizes, strict=True)]
        at = [lax.convert_element_type(i, np.int32) for i in (*at, *behind)]
        return lax.dynamic_slice(x, at, (*lengths, *behind_sizes))

    data = part(mat.data, (0, *dense), (mat.nse, *dense_sizes))
    indices = part(mat.indices, (0, 0), (mat.nse, n_sparse))
    if not n_sparse:
        return BCOO((data, indices), shape=sizes)
    limit = patterns.limits(mat.shape, mat.properties, indices.dtype)
    size = np.array(sparse_sizes, indices.dtype)
    # As in dense arrays, a part that would stick out is moved inside.
    start = gnp.stack([lax.convert_element_type(i, indices.dtype) for i in sparse])
    start = gnp.clip(gnp.where(start < 0, start + limit, start), 0, limit - size)
    taken = gnp.all((indices >= start) & (indices < start + size), -1)
    return _kept(data, indices, taken, indices - start, sizes, n_sparse)


def bcoo_gather(
    operand: BCOO,
    start_indices: Array,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """Windows of the array: `lax.gather`, for indices that are inside it.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> from gpuarray.experimental import sparse
    >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> sparse.bcoo_gather(sparse.eye(3), gnp.array([[2], [0]]), rows, (1, 3)).todense()
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    if mode is None:
        mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    if lax.GatherScatterMode.from_any(mode) != lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        raise NotImplementedError(f"bcoo_gather: {mode=} not yet supported.")
    sizes = util.indices(slice_sizes, "slice sizes")
    start_indices = gnp.asarray(start_indices)
    out = shape_after(
        lax.gather, operand, start_indices, dimension_numbers=dimension_numbers,
        slice_sizes=sizes, unique_indices=unique_indices, mode=mode,
        indices_are_sorted=indices_are_sorted, fill_value=fill_value,
    )  # fmt: skip
    if getattr(dimension_numbers, "operand_batching_dims", ()):
        raise NotImplementedError("bcoo_gather with batching dimensions")
    mapped = dimension_numbers.start_index_map
    flat = start_indices.reshape(-1, len(mapped))

    # One window by a dynamic slice, and all of them by `vmap`: the batch axis in front is
    # theirs.
    def window(index: Array) -> BCOO:
        starts = [np.int32(0)] * operand.ndim
        for i, axis in enumerate(mapped):
            starts[axis] = index[i]
        found = bcoo_dynamic_slice(operand, starts, sizes)
        return bcoo_squeeze(found, dimensions=dimension_numbers.collapsed_slice_dims)

    windows: BCOO = vmap(window)(flat)
    windows = bcoo_reshape(windows, new_sizes=(*start_indices.shape[:-1], *windows.shape[1:]))
    # The positions of the windows' axes among those of the indices.
    offset = tuple(dimension_numbers.offset_dims)
    others = tuple(d for d in range(len(out.shape)) if d not in offset)
    permutation = np.argsort((*others, *offset), kind="stable")
    if set(permutation[: windows.n_batch]) != set(range(windows.n_batch)):
        windows = bcoo_update_layout(windows, n_batch=0)
    return bcoo_transpose(windows, permutation=[int(i) for i in permutation])
