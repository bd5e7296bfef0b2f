"""Index maps: primitives that move elements without computing.

Floor 2. In: arrays. Out: the same elements in other places.

- Views (broadcast, reshape, transpose, slice, reverse) are index maps without guards and cost no
  kernel. On NumPy they share their operand's memory.
- Movements (pad, concatenate, dynamic slices, tile) have guards: where an element comes from is
  tested. On NumPy they copy.

The NumPy rules touch no value, so random keys, stored as one element each, move like numbers.
"""

from __future__ import annotations

import math
import operator
from itertools import accumulate

import numpy as np

from gpuarray.core.graph import storage_dtype
from gpuarray.core.primitive import LINEAR, Kind, Primitive
from gpuarray.primitives.movement import elements, factors, rewrites, views
from gpuarray.primitives.movement import shapes as checks
from gpuarray.primitives.movement import transforms as rules

#: Broadcasts to at most this many elements copy, which is faster than making a NumPy view.
_COPY_UP_TO = 1024


# ---- views ----


def _broadcast_pick(avals, *, shape, broadcast_dimensions, sharding=None):
    (operand,) = avals
    size = math.prod(shape)
    dims = tuple(broadcast_dimensions)
    # NumPy broadcasts by position: put the operand's axes in the order of the result's.
    order = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    # The operand's shape with axes of length 1 where the result has new ones.
    inner = [1] * len(shape)
    for n, d in zip(operand.shape, dims):
        inner[d] = n
    inner = tuple(inner)
    permuted = order != tuple(range(len(dims)))

    def aligned(x):
        return (x.transpose(order) if permuted else x).reshape(inner)

    # As many elements as before: a reshape, not a broadcast.
    if size == operand.size:
        return aligned if permuted else operator.methodcaller("reshape", shape)
    if size > _COPY_UP_TO:
        return lambda x: np.broadcast_to(aligned(x), shape)
    dtype = storage_dtype(operand)

    # Small results: filling an array takes less time than building a broadcast view.
    def small(x):
        out = np.empty(shape, dtype)
        out[...] = aligned(x)
        return out

    def fill(x):
        out = np.empty(shape, dtype)
        out[...] = x
        return out

    return small if operand.ndim else fill


def _show_broadcast(params: dict) -> dict:
    # The shape is printed in the result's type already.
    shown = {} if not params["broadcast_dimensions"] else params
    return {k: v for k, v in shown.items() if k == "broadcast_dimensions"}


broadcast_in_dim_p = Primitive(
    "broadcast_in_dim",
    Kind.VIEW,
    view=views.BROADCAST,
    aval=checks.broadcast_aval,
    numpy_pick=_broadcast_pick,
    show=_show_broadcast,
    jvp=LINEAR,
    transpose=rules.broadcast_transpose,
    batch=rules.broadcast_batch,
    factors=factors.broadcast_factors,
    rewrite=rewrites.BROADCAST,
)


def _reshape_pick(avals, *, new_sizes, dimensions=None, sharding=None):
    if dimensions is None:
        # reshape and transpose of NumPy share memory, as views must, where they can.
        return operator.methodcaller("reshape", new_sizes)
    return lambda x: x.transpose(dimensions).reshape(new_sizes)


reshape_p = Primitive(
    "reshape",
    Kind.VIEW,
    view=views.RESHAPE,
    aval=checks.reshape_aval,
    numpy_pick=_reshape_pick,
    jvp=LINEAR,
    transpose=rules.reshape_transpose,
    batch=rules.reshape_batch,
    factors=factors.reshape_factors,
    rewrite=rewrites.SINKS,
)


def _squeeze_pick(avals, *, dimensions):
    (operand,) = avals
    shape = checks.squeeze_aval(operand, dimensions=dimensions).shape
    if operand.ndim and not shape:
        # A scalar, with which NumPy computes sooner than with an array.
        return operator.itemgetter((0,) * operand.ndim)
    return operator.methodcaller("reshape", shape)


squeeze_p = Primitive(
    "squeeze",
    Kind.VIEW,
    view=views.SQUEEZE,
    aval=checks.squeeze_aval,
    numpy_pick=_squeeze_pick,
    jvp=LINEAR,
    transpose=rules.squeeze_transpose,
    batch=rules.squeeze_batch,
    factors=factors.squeeze_factors,
)


transpose_p = Primitive(
    "transpose",
    Kind.VIEW,
    view=views.TRANSPOSE,
    aval=checks.transpose_aval,
    numpy_pick=lambda avals, *, permutation: operator.methodcaller("transpose", permutation),
    jvp=LINEAR,
    transpose=rules.transpose_transpose,
    batch=rules.transpose_batch,
    factors=factors.transpose_factors,
)


def _slice_pick(avals, *, start_indices, limit_indices, strides=None):
    # NumPy's slices clamp; the shape rule has refused positions out of bounds.
    steps = strides or (1,) * len(start_indices)
    return operator.itemgetter(tuple(map(slice, start_indices, limit_indices, steps)))


slice_p = Primitive(
    "slice",
    Kind.VIEW,
    view=views.SLICE,
    aval=checks.slice_aval,
    numpy_pick=_slice_pick,
    jvp=LINEAR,
    transpose=rules.slice_transpose,
    batch=rules.slice_batch,
    factors=factors.slice_factors,
    rewrite=rewrites.SINKS,
)


def _rev_pick(avals, *, dimensions):
    # A negative step needs an end of None: no number means the position before element 0.
    backwards, whole = slice(None, None, -1), slice(None)
    return operator.itemgetter(
        tuple(backwards if d in dimensions else whole for d in range(avals[0].ndim))
    )


rev_p = Primitive(
    "rev",
    Kind.VIEW,
    view=views.REV,
    aval=checks.rev_aval,
    numpy_pick=_rev_pick,
    jvp=LINEAR,
    transpose=rules.rev_transpose,
    batch=rules.rev_batch,
    factors=factors.rev_factors,
    rewrite=rewrites.SINKS,
)


# ---- movements ----


def _pad_pick(avals, *, padding_config):
    operand = avals[0]
    shape = checks.padded_shape(operand.shape, padding_config)
    source, target = [], []
    # Along each axis: which elements stay, and where they land with `interior` holes between them.
    for n, m, (low, _, interior) in zip(operand.shape, shape, padding_config):
        step = interior + 1
        first = max(0, -(low // step))  # the first element that does not fall off the low end
        last = min(n, -((low - m) // step))  # one past the last that stays below m
        count = max(0, last - first)
        begin = low + first * step if count else 0
        source.append(slice(first, first + count))
        target.append(slice(begin, begin + max(0, (count - 1) * step + 1) if count else 0, step))
    source, target, dtype = tuple(source), tuple(target), storage_dtype(operand)

    # Fill, then write the elements: cheaper than writing the border in pieces.
    def pad(x, value):
        out = np.empty(shape, dtype)
        out[...] = value
        out[target] = x[source]
        return out

    return pad


pad_p = Primitive(
    "pad",
    Kind.MOVEMENT,
    element=elements.PAD,
    aval=checks.pad_aval,
    numpy_pick=_pad_pick,
    jvp=LINEAR,
    transpose=rules.pad_transpose,
    batch=rules.pad_batch,
    factors=factors.pad_factors,
    rewrite=rewrites.PAD,
)


def _concatenate_pick(avals, *, dimension):
    # np.concatenate is looked up once, not at each call.
    concatenate = np.concatenate
    return lambda *xs: concatenate(xs, dimension)


concatenate_p = Primitive(
    "concatenate",
    Kind.MOVEMENT,
    element=elements.CONCATENATE,
    aval=checks.concatenate_aval,
    numpy_pick=_concatenate_pick,
    jvp=LINEAR,
    transpose=rules.concatenate_transpose,
    batch=rules.concatenate_batch,
    factors=factors.axis_factors("dimension"),
    rewrite=rewrites.CONCATENATE,
)


def _stack_pick(avals, *, axis):
    shape = checks.stack_aval(*avals, axis=axis).shape
    # Into one array: np.stack would first give each operand a new axis.
    dtype = storage_dtype(avals[0])
    # The index of each operand's slot in the result.
    slots = [(slice(None),) * axis + (i,) for i in range(len(avals))]

    def stack(*xs):
        out = np.empty(shape, dtype)
        for slot, x in zip(slots, xs):
            out[slot] = x
        return out

    return stack


stack_p = Primitive(
    "stack",
    Kind.MOVEMENT,
    element=elements.STACK,
    aval=checks.stack_aval,
    numpy_pick=_stack_pick,
    jvp=LINEAR,
    transpose=rules.stack_transpose,
    batch=rules.stack_batch,
    factors=factors.stack_factors,
    rewrite=rewrites.STACK,
)


def _unstack_pick(avals, *, axis):
    # Views of the operand, one for each position along the axis.
    slots = [(slice(None),) * axis + (i,) for i in range(avals[0].shape[axis])]
    return lambda x: [x[slot] for slot in slots]


unstack_p = Primitive(
    "unstack",
    Kind.VIEW,
    element=elements.UNSTACK,
    aval=checks.unstack_aval,
    numpy_pick=_unstack_pick,
    multiple_results=True,
    jvp=LINEAR,
    transpose=rules.unstack_transpose,
    batch=rules.unstack_batch,
    factors=factors.unstack_factors,
    rewrite=rewrites.UNSTACK,
)


def _split_pick(avals, *, sizes, axis):
    # Each part ends where the next begins.
    ends = list(accumulate(sizes))
    before = (slice(None),) * axis
    slots = [(*before, slice(end - n, end)) for n, end in zip(sizes, ends)]
    return lambda x: [x[slot] for slot in slots]


split_p = Primitive(
    "split",
    Kind.VIEW,
    element=elements.SPLIT,
    aval=checks.split_aval,
    numpy_pick=_split_pick,
    multiple_results=True,
    jvp=LINEAR,
    transpose=rules.split_transpose,
    batch=rules.split_batch,
    factors=factors.axis_factors("axis"),
    rewrite=rewrites.SPLIT,
)


def _tile_pick(avals, *, reps):
    # (n, m) repeats as (r, n, s, m): broadcast along the new axes, then merge them.
    (operand,) = avals
    shape = checks.tile_aval(operand, reps=reps).shape
    single = tuple(k for n in operand.shape for k in (1, n))
    repeated = tuple(k for n, r in zip(operand.shape, reps) for k in (r, n))
    return lambda x: np.array(np.broadcast_to(x.reshape(single), repeated)).reshape(shape)


tile_p = Primitive(
    "tile",
    Kind.MOVEMENT,
    element=elements.TILE,
    aval=checks.tile_aval,
    numpy_pick=_tile_pick,
    jvp=LINEAR,
    transpose=rules.tile_transpose,
    batch=rules.tile_batch,
    factors=factors.tile_factors,
)


def _windows(shape, sizes):
    """Return a function from start scalars to the index of a window, clamped into the array."""
    limits = [(n - k, k) for n, k in zip(shape, sizes)]

    def window(starts):
        index = []
        for start, (most, size) in zip(starts, limits):
            # Clamped into the array as JAX does it: a window never leaves it.
            begin = min(max(int(start), 0), most)
            index.append(slice(begin, begin + size))
        return tuple(index)

    return window


def _dynamic_slice_pick(avals, *, slice_sizes):
    window = _windows(avals[0].shape, slice_sizes)
    # A copy, since a window of the operand would keep all of its memory alive.
    return lambda x, *starts: x[window(starts)].copy()


dynamic_slice_p = Primitive(
    "dynamic_slice",
    Kind.MOVEMENT,
    element=elements.DYNAMIC_SLICE,
    aval=checks.dynamic_slice_aval,
    numpy_pick=_dynamic_slice_pick,
    jvp=rules.dynamic_slice_jvp,
    transpose=rules.dynamic_slice_transpose,
    batch=rules.dynamic_slice_batch,
    factors=factors.dynamic_slice_factors,
)


def _dynamic_update_slice_pick(avals, inplace: bool = False):
    window = _windows(avals[0].shape, avals[1].shape)

    def update_slice(x, update, *starts):
        # In place only if the compiler found that the operand is dead.
        out = x if inplace else np.array(x)
        out[window(starts)] = update
        return out

    return update_slice


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    Kind.MOVEMENT,
    element=elements.DYNAMIC_UPDATE_SLICE,
    update=elements.UPDATE_SLICE,
    aval=checks.dynamic_update_slice_aval,
    numpy_pick=_dynamic_update_slice_pick,
    inplace=lambda avals: _dynamic_update_slice_pick(avals, inplace=True),
    jvp=rules.dynamic_update_slice_jvp,
    transpose=rules.dynamic_update_slice_transpose,
    batch=rules.dynamic_update_slice_batch,
    factors=factors.dynamic_update_slice_factors,
)
