"""Reading parts of arrays: `x[...]`.

Floor 6. In: an array and an index. Out: slices for an index of ints and slices, gathers for one
with arrays. Positions out of bounds are clamped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuarray import config, lax
from gpuarray.core import dtypes
from gpuarray.core.trace import is_base
from gpuarray.core.value import Array
from gpuarray.lax import GatherDimensionNumbers, GatherScatterMode
from gpuarray.numpy import basic_indices, indexer
from gpuarray.numpy.shapes import add_axes
from gpuarray.primitives.movement.ops import (
    dynamic_slice_p,
    rev_p,
    slice_p,
    squeeze_p,
)
from gpuarray.primitives.slices import Slice

_INT32 = np.iinfo(np.int32)
_state = config.state


def getitem(x: Array, index) -> Array:
    """`x[index]`, with all of NumPy's indexing; out-of-bounds positions are moved to the edge.

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.arange(6).reshape(2, 3)
    >>> x[1, ::-1]
    Array([5, 4, 3], dtype=int32)
    >>> x[:, gnp.array([0, 2])]
    Array([[0, 2],
           [3, 5]], dtype=int32)
    """
    shape = x.aval.shape
    # The common case needs no gather, and is recognised without converting anything.
    found = basic_indices.window(shape, index)
    if found is None:
        return _dynamic(x, index)
    # Ints and slices: cut, reverse, drop the axes of ints, add those of None.
    starts, limits, strides, backwards, dropped, new, outside = found
    if outside and _state.check_static_indices:
        axis = min(outside)
        at, n = outside[axis], shape[axis]
        raise basic_indices.out_of_bounds(at - n if at < 0 else at, axis, n)
    if outside and not is_base() and max(shape) <= _INT32.max:
        # A traced program keeps the index as it was given: checkify reports it.
        kept = tuple([1 if i in outside else n for i, n in enumerate(shape)])
        # The out-of-bounds position itself, if int32 holds it.
        given = [
            np.int32(min(max(outside.get(i, 0), _INT32.min), _INT32.max)) for i in range(len(shape))
        ]
        x = dynamic_slice_p.bind(x, *given, slice_sizes=kept)
        # That axis has been cut to length 1 already.
        for axis in outside:
            starts[axis], limits[axis] = 0, 1
        shape = kept
    sizes = tuple([b - a for a, b in zip(starts, limits)])
    if strides is not None or sizes != shape:
        if strides is None and is_base():
            # The start is an operand here: moving it does not make another program.
            x = dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)
        else:
            # In a program the start is a constant, and a static slice can be fused.
            x = slice_p.bind(
                x,
                start_indices=tuple(starts),
                limit_indices=tuple(limits),
                strides=None if strides is None else tuple(strides),
            )
    if backwards:
        x = rev_p.bind(x, dimensions=tuple(backwards))
    if dropped:
        x = squeeze_p.bind(x, dimensions=tuple(dropped))
    return add_axes(x, new) if new else x


def _dynamic(x: Array, index) -> Array:
    """Indices with arrays in them: scalars and slices are a dynamic slice, the rest a gather."""
    if _state.check_static_indices:
        indexer.check_static(x.shape, index)
    entries = index if isinstance(index, tuple) else (index,)
    # x[i], x[i, 2:5]: a dynamic slice is cheaper than a gather, also to differentiate.
    if is_window(entries):
        return _dynamic_slice(x, entries)
    return take_target(x, indexer.target(x.shape, index), GatherScatterMode.PROMISE_IN_BOUNDS)


def _is_scalar_index(e) -> bool:
    return isinstance(e, Array) and e.ndim == 0 and dtypes.issubdtype(e.dtype, np.integer)


def _is_plain(e) -> bool:
    """Whether an entry can be part of one dynamic slice with scalar starts: ints, None, slices of
    step 1.
    """
    if isinstance(e, slice):
        return e.step is None or (type(e.step) is int and abs(e.step) == 1)
    return e is None or e is Ellipsis or type(e) is int or isinstance(e, np.integer)


def is_window(entries: tuple) -> bool:
    """Whether an index is one window whose start is traced, or a Slice."""
    moving = [_is_moving(e) for e in entries]
    return any(moving) and all(m or _is_plain(e) for m, e in zip(moving, entries, strict=True))


def _is_moving(e) -> bool:
    return _is_scalar_index(e) or (type(e) is Slice and e.stride == 1)


class _Moving(NamedTuple):
    """A window whose start may be traced; the other fields are as in Window."""

    starts: list[Any]
    sizes: tuple[int, ...]
    found: basic_indices.Window


def moving(x: Array, index: tuple) -> _Moving:
    # Replace every traced start by 0: only the position of those axes is lost.
    plain = tuple([_standing(e) for e in index])
    found = basic_indices.window(x.shape, plain)
    assert found is not None
    starts: list[Any] = list(found.starts)
    sizes = [b - a for a, b in zip(found.starts, found.limits, strict=True)]
    # Entries that take an axis, in order: an Ellipsis takes all that are left.
    taken = [e for e in index if e is not None]
    left = len(x.shape) - sum(e is not Ellipsis for e in taken)
    axis = 0
    for e in taken:
        if e is Ellipsis:
            axis += left
            continue
        if isinstance(e, Slice):
            if e.size > x.shape[axis]:
                raise TypeError(
                    f"slice sizes must be less than or equal to operand shape: got {e} for axis "
                    f"{axis} of an array of shape {x.shape}. Take a shorter slice."
                )
            starts[axis], sizes[axis] = e.start, e.size
            # A known start that is negative counts from the end.
            if isinstance(e.start, int) and e.start < 0:
                starts[axis] += x.shape[axis]
        elif isinstance(e, Array):
            starts[axis] = e
        axis += 1
    # The starts of a dynamic slice have one dtype.
    kinds = {s.dtype for s in starts if isinstance(s, Array)} or {dtypes.default_int()}
    common = kinds.pop() if len(kinds) == 1 else np.result_type(*kinds)
    if common.itemsize < 4:
        common = np.dtype(np.int32)  # narrow integers need not reach the end of the axis
    # A Python int is bound as the default integer, which x64 makes another one than the others'.
    if common != dtypes.default_int():
        starts = [s if isinstance(s, Array) else common.type(s) for s in starts]
    if is_base():
        # Only positions that may be negative need wrapping; the rest are plain scalars.
        for axis, s in enumerate(starts):
            if isinstance(s, Array):
                at_axis = indexer.wrapped(s, x.shape[axis], axis)
                same = at_axis.dtype == common
                starts[axis] = at_axis if same else lax.convert_element_type(at_axis, common)
    elif len(starts) > 1 or starts[0].dtype != common:
        starts = [
            lax.convert_element_type(s, common) if isinstance(s, Array) else s for s in starts
        ]
    return _Moving(starts, tuple(sizes), found)


def _standing(e):
    """An entry of a window as it would be if its start were 0."""
    if isinstance(e, Slice):
        return slice(None)
    return 0 if isinstance(e, Array) else e


def _dynamic_slice(x: Array, index: tuple) -> Array:
    # A dynamic slice needs an element to move to.
    if any(n == 0 for n in x.shape):
        return take_target(x, indexer.target(x.shape, index), GatherScatterMode.PROMISE_IN_BOUNDS)
    starts, sizes, found = moving(x, index)
    if is_base():
        out = dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)
    else:
        out = lax.dynamic_slice(x, starts, sizes)
    if found.reversed:
        out = lax.rev(out, tuple(found.reversed))
    if found.dropped:
        out = lax.squeeze(out, tuple(found.dropped))
    return add_axes(out, found.new) if found.new else out


def take_target(
    x: Array,
    t: indexer.IndexTarget,
    mode,
    fill_value=None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Array:
    """The elements an IndexTarget points at, as a gather."""
    # A scalar boolean indexes an axis of length 1 that it makes itself.
    if t.expand:
        x = lax.expand_dims(x, t.expand)
    # No element is selected: the array to gather from may be empty.
    if 0 in t.shape:
        out = _empty_keys(x, t.shape) if is_key(x) else lax.full_like(x, 0, shape=t.shape)
    else:
        out = lax.gather(
            x,
            indexer.start_indices(t),
            GatherDimensionNumbers(
                offset_dims=t.offset, collapsed_slice_dims=t.collapsed, start_index_map=t.axes
            ),
            t.sizes,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted or t.static,
            unique_indices=unique_indices or t.static,
        )
    if t.reversed:
        out = lax.rev(out, t.reversed)
    return add_axes(out, t.new) if t.new else out


def is_key(x) -> bool:
    return isinstance(x.dtype, dtypes.ExtendedDType)


def _empty_keys(keys: Array, shape: tuple[int, ...]) -> Array:
    # Keys cannot be made from zeros: a slice of length 0 has the right dtype.
    none = lax.slice(lax.reshape(keys, (keys.size,)), (0,), (0,))
    return lax.reshape(none, shape)
