"""Derivatives and batching of index maps: they move tangents like values, and cotangents back.

Floor 2. In: the operands of a rule. Out: values made of other primitives, which are bound by name,
since an index map and its transpose (slice and pad, broadcast and sum) need each other. Which rule
belongs to which primitive is said in `gpuarray.primitives.movement.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_undefined
from gpuarray.primitives.axes import add_axis, move_axis, with_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.indexing.shapes import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from gpuarray.primitives.linear import instantiate, zeros


def inverse(permutation) -> tuple[int, ...]:
    """Return the inverse permutation."""
    # Sorting positions by value inverts a permutation.
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def around(dim: int, axes) -> tuple[int, ...]:
    """Return axes of one element as axes of the batched operand, whose batch axis is `dim`."""
    return tuple(a + (a >= dim) for a in axes)


def inserted(entries, dim: int, extra) -> tuple:
    """Insert `extra`, the entry of the batch axis, into entries that are one per axis."""
    return (*entries[:dim], extra, *entries[dim:])


# ---- views ----


def broadcast_transpose(ct, operand, *, shape, broadcast_dimensions, sharding=None):
    own = operand.aval.shape
    # Axes of length 1 are (or may be) broadcast: they are summed like new ones.
    kept = [d for d, n in zip(broadcast_dimensions, own, strict=True) if n != 1]
    axes = tuple(d for d in range(len(shape)) if d not in kept)
    if axes:
        ct = do.reduce_sum(ct, axes=axes, out_sharding=None)
    order = inverse(inverse(kept))  # the ranks of `kept`: broadcasts may permute
    if order != tuple(range(len(kept))):
        ct = do.transpose(ct, permutation=order)
    # Put the summed axes of length 1 back.
    if len(kept) < len(own):
        dims = tuple(i for i, n in enumerate(own) if n != 1)
        ct = do.broadcast_in_dim(ct, shape=own, broadcast_dimensions=dims, sharding=None)
    return (ct,)


def broadcast_batch(axis, args, dims, *, shape, broadcast_dimensions, sharding=None):
    # The new axis is in front, of both the operand and the result.
    (x,), (d,) = args, dims
    dims = (0, *(i + 1 for i in broadcast_dimensions))
    x = move_axis(x, d, 0)
    shape = (axis.size, *shape)
    return do.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims, sharding=sharding), 0


def reshape_transpose(ct, operand, *, new_sizes, dimensions=None, sharding=None):
    shape = operand.aval.shape
    if dimensions is None:
        # Undo the reshape first, then the transpose that came before it.
        return (do.reshape(ct, new_sizes=shape, dimensions=None, sharding=None),)
    permuted = tuple(shape[d] for d in dimensions)
    ct = do.reshape(ct, new_sizes=permuted, dimensions=None, sharding=None)
    return (do.transpose(ct, permutation=inverse(dimensions)),)


def reshape_batch(axis, args, dims, *, new_sizes, dimensions=None, sharding=None):
    (x,), (d,) = args, dims
    x = move_axis(x, d, 0)
    if dimensions is not None:
        dimensions = (0, *(i + 1 for i in dimensions))
    sizes = (axis.size, *new_sizes)
    return do.reshape(x, new_sizes=sizes, dimensions=dimensions, sharding=sharding), 0


def squeeze_transpose(ct, operand, *, dimensions):
    shape = operand.aval.shape
    # The axes that are not squeezed keep their order.
    dims = tuple(i for i in range(len(shape)) if i not in dimensions)
    return (do.broadcast_in_dim(ct, shape=shape, broadcast_dimensions=dims, sharding=None),)


def squeeze_batch(axis, args, dims, *, dimensions):
    (x,), (d,) = args, dims
    dimensions = around(d, dimensions)
    # The batch axis moves forward by the squeezed axes before it.
    return do.squeeze(x, dimensions=dimensions), d - sum(i < d for i in dimensions)


def transpose_transpose(ct, operand, *, permutation):
    return (do.transpose(ct, permutation=inverse(permutation)),)


def transpose_batch(axis, args, dims, *, permutation):
    (x,), (d,) = args, dims
    # The batch axis comes first, then the others in their new order.
    return do.transpose(x, permutation=(d, *around(d, permutation))), 0


def slice_transpose(ct, operand, *, start_indices, limit_indices, strides=None):
    config = []
    # Zeros everywhere else: the transpose of taking elements is padding around them.
    for axis, (n, low) in enumerate(zip(operand.aval.shape, start_indices, strict=True)):
        step = 1 if strides is None else strides[axis]
        count = aval_of(ct).shape[axis]
        # One past the last element that was read; an empty slice read none.
        end = low + (count - 1) * step + 1 if count else low
        # The strides become holes between the cotangents.
        config.append((low, n - end, step - 1))
    return (do.pad(ct, operand.aval.dtype.type(0), padding_config=tuple(config)),)


def slice_batch(axis, args, dims, *, start_indices, limit_indices, strides=None):
    (x,), (d,) = args, dims
    out = do.slice(
        x,
        start_indices=inserted(start_indices, d, 0),
        limit_indices=inserted(limit_indices, d, axis.size),
        strides=None if strides is None else inserted(strides, d, 1),
    )
    return out, d


def rev_transpose(ct, operand, *, dimensions):
    # Reversing twice changes nothing, so it is its own transpose.
    return (do.rev(ct, dimensions=dimensions),)


def rev_batch(axis, args, dims, *, dimensions):
    (x,), (d,) = args, dims
    return do.rev(x, dimensions=around(d, dimensions)), d


# ---- padding ----


def pad_transpose(ct, operand, value, *, padding_config):
    back = value_ct = None
    if is_undefined(operand) or is_undefined(value):
        # Cut the border off, then take every (interior + 1)-th element.
        cut = tuple((-low, -high, 0) for low, high, _ in padding_config)
        inner = do.pad(ct, aval_of(ct).dtype.type(0), padding_config=cut)
        back = do.slice(
            inner,
            start_indices=(0,) * len(cut),
            limit_indices=aval_of(inner).shape,
            strides=tuple(interior + 1 for _, _, interior in padding_config),
        )
    if is_undefined(value):
        # Elements that do not come from the operand belong to the padding.
        value_ct = do.sub(_total(ct), _total(back))
    return back if is_undefined(operand) else None, value_ct


def _total(x):
    return do.reduce_sum(x, axes=tuple(range(aval_of(x).ndim)), out_sharding=None)


def pad_batch(axis, args, dims, *, padding_config):
    (x, value), (d, value_d) = args, dims
    if d is None:
        d, x = 0, add_axis(x, 0, axis.size)
    config = inserted(padding_config, d, (0, 0, 0))
    # One value for each batch element: `pad` takes a single one.
    if value_d is None:
        return do.pad(x, value, padding_config=config), d
    return pad_each(x, value, d, config), d


def pad_each(x, values, d: int, config):
    """Pad with a different value for each index along axis `d`."""
    # Pad a mask like the elements: it shows where the padding is.
    marks = _full(aval_of(x).shape, np.bool_(True))
    ours = do.pad(marks, np.bool_(False), padding_config=config)
    shape = aval_of(ours).shape
    around = do.broadcast_in_dim(values, shape=shape, broadcast_dimensions=(d,), sharding=None)
    if not aval_of(values).size:
        return around  # no elements
    dtype = aval_of(x).dtype
    # Keys have no zero: any key will do where the mask overwrites it.
    if isinstance(dtype, dtypes.ExtendedDType):
        first = do.slice(values, start_indices=(0,), limit_indices=(1,), strides=None)
        anything = do.squeeze(first, dimensions=(0,))
    else:
        anything = dtype.type(0)
    return do.select_n(ours, around, do.pad(x, anything, padding_config=config))


def _full(shape, element):
    return do.broadcast_in_dim(element, shape=shape, broadcast_dimensions=(), sharding=None)


# ---- joining and cutting ----


def concatenate_transpose(ct, *operands, dimension):
    # Each operand's piece of the cotangent.
    sizes = tuple(aval_of(x).shape[dimension] for x in operands)
    parts = do.split(ct, sizes=sizes, axis=dimension)
    return [p if is_undefined(x) else None for p, x in zip(parts, operands, strict=True)]


def concatenate_batch(axis, args, dims, *, dimension):
    args = [with_axis(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
    return do.concatenate(*args, dimension=dimension + 1), 0


def stack_transpose(ct, *operands, axis):
    parts = do.unstack(ct, axis=axis)
    return [p if is_undefined(x) else None for p, x in zip(parts, operands, strict=True)]


def stack_batch(mapped, args, dims, *, axis):
    args = [with_axis(x, d, 0, mapped.size) for x, d in zip(args, dims, strict=True)]
    return do.stack(*args, axis=axis + 1), 0


def unstack_transpose(cts, operand, *, axis):
    # Unused results have symbolic zeros; `stack` needs arrays.
    return (do.stack(*map(instantiate, cts), axis=axis),)


def unstack_batch(mapped, args, dims, *, axis):
    (x,), (d,) = args, dims
    # The axis among those of the batched operand; the results lack it.
    (axis,) = around(d, (axis,))
    out = do.unstack(x, axis=axis)
    return out, [d - (axis < d)] * len(out)


def split_transpose(cts, operand, *, sizes, axis):
    return (do.concatenate(*map(instantiate, cts), dimension=axis),)


def split_batch(mapped, args, dims, *, sizes, axis):
    (x,), (d,) = args, dims
    (axis,) = around(d, (axis,))
    return do.split(x, sizes=sizes, axis=axis), [d] * len(sizes)


def tile_transpose(ct, operand, *, reps):
    shape = operand.aval.shape
    # Undo the merge of (repetition, element) axes, and sum over repetitions.
    # [r * n] becomes [r, n] along each axis.
    apart = tuple(k for n, r in zip(shape, reps, strict=True) for k in (r, n))
    ct = do.reshape(ct, new_sizes=apart, dimensions=None, sharding=None)
    return (do.reduce_sum(ct, axes=tuple(range(0, 2 * len(reps), 2)), out_sharding=None),)


def tile_batch(axis, args, dims, *, reps):
    (x,), (d,) = args, dims
    return do.tile(x, reps=inserted(reps, d, 1)), d


# ---- windows at places computed at run time ----


def dynamic_slice_jvp(primals, tangents, *, slice_sizes):
    # Starts are integers, which have no tangents.
    _, *starts = primals
    out = do.dynamic_slice(*primals, slice_sizes=slice_sizes)
    return out, do.dynamic_slice(tangents[0], *starts, slice_sizes=slice_sizes)


def dynamic_slice_transpose(ct, operand, *starts, slice_sizes):
    # Elements outside of the window have no influence: their cotangents are zero.
    back = do.dynamic_update_slice(zeros(operand.aval), ct, *starts)
    return back, *[None] * len(starts)


def dynamic_slice_batch(axis, args, dims, *, slice_sizes):
    (x, *starts), (d, *start_dims) = args, dims
    if all(s is None for s in start_dims):
        # One start for all: the batch axis is taken whole, from 0 on.
        starts = inserted(starts, d, _zero_index(starts))
        return do.dynamic_slice(x, *starts, slice_sizes=inserted(slice_sizes, d, axis.size)), d
    # Starts that differ between batch elements: a gather of one window per row.
    rank = len(starts)
    if d is not None:
        x = move_axis(x, d, 0)
    mapped = d is not None
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, rank + 1)),
        collapsed_slice_dims=(),
        start_index_map=tuple(range(mapped, rank + mapped)),
        operand_batching_dims=(0,) * mapped,
        start_indices_batching_dims=(0,) * mapped,
    )
    out = do.gather(
        x,
        _index_vectors(axis, starts, start_dims),
        dimension_numbers=numbers,
        # A batch of no elements has no window to read.
        slice_sizes=((1,) if axis.size else (0,)) * mapped + tuple(slice_sizes),
        indices_are_sorted=mapped,
        unique_indices=mapped,  # windows of one operand may overlap
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )
    return out, 0


def _zero_index(starts) -> Any:
    """A start for the extra axis, of the dtype that the others have."""
    return aval_of(starts[0]).dtype.type(0) if starts else np.int32(0)


def _index_vectors(axis, starts, dims):
    """Stack start indices into index vectors: shape (batch size, number of starts)."""
    columns = [
        do.broadcast_in_dim(
            s,
            shape=(axis.size, 1),
            broadcast_dimensions=() if d is None else (0,),
            sharding=None,
        )
        for s, d in zip(starts, dims, strict=True)
    ]
    return columns[0] if len(columns) == 1 else do.concatenate(*columns, dimension=1)


def dynamic_update_slice_jvp(primals, tangents):
    operand, update, *starts = primals
    out = do.dynamic_update_slice(operand, update, *starts)
    # Both tangents as values: even a zero one overwrites the other's elements.
    t, u = map(instantiate, tangents[:2])
    return out, do.dynamic_update_slice(t, u, *starts)


def dynamic_update_slice_transpose(ct, operand, update, *starts):
    operand_ct = update_ct = None
    if is_undefined(operand):
        # Elements that were overwritten have no influence on the result.
        nothing = zeros(aval_of(update))
        operand_ct = do.dynamic_update_slice(ct, nothing, *starts)
    if is_undefined(update):
        update_ct = do.dynamic_slice(ct, *starts, slice_sizes=update.aval.shape)
    return operand_ct, update_ct, *[None] * len(starts)


def dynamic_update_slice_batch(axis, args, dims):
    (x, update, *starts), (d, update_d, *start_dims) = args, dims
    # Operand and update are both batched, since the result is.
    update = with_axis(update, update_d, 0, axis.size)
    x = with_axis(x, d, 0, axis.size)
    if all(s is None for s in start_dims):
        return do.dynamic_update_slice(x, update, _zero_index(starts), *starts), 0
    # Starts differ: a scatter of one window per row.
    rank = len(starts)
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, rank + 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple(range(1, rank + 1)),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    out = do.scatter(
        x,
        _index_vectors(axis, starts, start_dims),
        update,
        dimension_numbers=numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        update_jaxpr=None,
        update_consts=(),
    )
    return out, 0
