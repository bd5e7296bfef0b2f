"""Reading and updating parts of arrays: `x[...]`, `x.at[...].set(...)` and the other updates.

Floor 6. In: an array and an index. Out: slices where the index is made of ints and slices, gathers
and scatters where it holds arrays. Reads clamp what is out of bounds, updates skip it, unless
`mode` says otherwise.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import cuts_of, out_given
from gpuarray.core.trace import is_base
from gpuarray.core.value import Array
from gpuarray.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from gpuarray.numpy import basic_indices, indexer
from gpuarray.numpy.arithmetic import power, true_divide
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.masks import (
    POINTWISE,
    aligned_with,
    as_values_of,
    in_common_dtype,
    mask_of,
    masked,
)
from gpuarray.numpy.promotion import fitting, value
from gpuarray.numpy.shapes import add_axes, stretch
from gpuarray.primitives.memory import in_memory
from gpuarray.primitives.movement.ops import (
    broadcast_in_dim_p,
    dynamic_slice_p,
    dynamic_update_slice_p,
    rev_p,
    slice_p,
    squeeze_p,
)
from gpuarray.primitives.reshard import as_typed
from gpuarray.primitives.slices import Slice
from gpuarray.runtime.transfer import placed

_INT32 = np.iinfo(np.int32)


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
    # The common case needs no gather, and is told apart without converting anything.
    found = basic_indices.window(shape, index)
    if found is None:
        return _dynamic(x, index)
    # Ints and slices: cut, turn round, drop the axes of ints, add those of None.
    starts, limits, strides, backwards, dropped, new, outside = found
    if outside and not is_base() and max(shape) <= _INT32.max:
        # A traced program keeps the index as it was given: checkify reports it.
        kept = tuple([1 if i in outside else n for i, n in enumerate(shape)])
        # The out-of-bounds position itself, as far as int32 holds it.
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
    entries = index if isinstance(index, tuple) else (index,)
    # x[i], x[i, 2:5]: a dynamic slice is cheaper than a gather, also to differentiate.
    if _is_window(entries):
        return _dynamic_slice(x, entries)
    return take_target(x, indexer.target(x.shape, index), GatherScatterMode.PROMISE_IN_BOUNDS)


def _is_scalar_index(e) -> bool:
    return isinstance(e, Array) and e.ndim == 0 and dtypes.issubdtype(e.dtype, np.integer)


def _is_plain(e) -> bool:
    """Whether an entry goes with scalars into one dynamic slice: ints, None, slices of step 1."""
    if isinstance(e, slice):
        return e.step is None or (type(e.step) is int and abs(e.step) == 1)
    return e is None or e is Ellipsis or type(e) is int or isinstance(e, np.integer)


def _is_window(entries: tuple) -> bool:
    """Whether an index is one window whose start is traced, or a Slice."""
    moving = [_is_moving(e) for e in entries]
    return any(moving) and all(m or _is_plain(e) for m, e in zip(moving, entries, strict=True))


def _is_moving(e) -> bool:
    return _is_scalar_index(e) or (type(e) is Slice and e.stride == 1)


class _Moving(NamedTuple):
    """A window whose start may be traced: what is left is as in the Window."""

    starts: list[Any]
    sizes: tuple[int, ...]
    found: basic_indices.Window


def _moving(x: Array, index: tuple) -> _Moving:
    # The index with 0 for every traced start says all but where those axes begin.
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
    starts, sizes, found = _moving(x, index)
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
    # No element is taken: there may be none to gather from.
    if 0 in t.shape:
        out = _empty_keys(x, t.shape) if _is_key(x) else lax.full_like(x, 0, shape=t.shape)
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


def _is_key(x) -> bool:
    return isinstance(x.dtype, dtypes.KeyDtype)


def _empty_keys(keys: Array, shape: tuple[int, ...]) -> Array:
    # Keys cannot be made from zeros: a slice of length 0 has the right dtype.
    none = lax.slice(lax.reshape(keys, (keys.size,)), (0,), (0,))
    return lax.reshape(none, shape)


# ---- updates --------------------------------------------------------------------------------


def at(x: Array) -> IndexUpdateHelper:
    """`x.at`: `x.at[index].set(values)` is a new array that differs from `x` at `index`."""
    return IndexUpdateHelper(x)


class IndexUpdateHelper:
    """What `x.at` is: indexing it gives the update methods.

    >>> import gpuarray.numpy as gnp
    >>> gnp.zeros(4).at[1:3].set(7.)
    Array([0., 7., 7., 0.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class IndexUpdateRef:
    """What `x.at[index]` is. Every method returns a new array and leaves `x` alone.

    mode: what happens out of bounds: None, "drop" or "fill" skip the update (reads give
    `fill_value`), "clip" moves it to the edge, "promise_in_bounds" says it does not occur.
    indices_are_sorted, unique_indices: promises that may make it faster. wrap_negative_indices:
    whether -1 is the last position.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        fill_value=None,
        out_sharding=None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """`x[index]`, with a choice of what happens out of bounds.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3.).at[gnp.array([1, 5])].get(mode="fill", fill_value=-1.)
        Array([ 1., -1.], dtype=float32)
        """
        x = self.array
        if out_sharding is not None:
            with out_given(out_sharding):
                found = self.get(
                    indices_are_sorted=indices_are_sorted,
                    unique_indices=unique_indices,
                    mode=mode,
                    fill_value=fill_value,
                    wrap_negative_indices=wrap_negative_indices,
                )
            return placed("at[].get", found, out_sharding)
        # Without options it is x[index].
        if mode is None and wrap_negative_indices:
            return getitem(x, self.index)
        how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else _mode(mode)
        t = indexer.target(x.shape, self.index, wrap_negative_indices)
        return take_target(x, t, how, fill_value, indices_are_sorted, unique_indices)

    def set(self, values, **options) -> Array:
        """`x` with `x[index] = values`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(4).at[0].set(9)
        Array([9, 1, 2, 3], dtype=int32)
        """
        return _update(self.array, self.index, "set", values, **options)

    def add(self, values, **options) -> Array:
        """`x` with `x[index] += values`; repeated indices add repeatedly.

        >>> import gpuarray.numpy as gnp
        >>> gnp.zeros(3).at[gnp.array([0, 0, 2])].add(1.)
        Array([2., 0., 1.], dtype=float32)
        """
        return _update(self.array, self.index, "add", values, **options)

    def subtract(self, values, **options) -> Array:
        """`x` with `x[index] -= values`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3).at[1].subtract(5)
        Array([ 0, -4,  2], dtype=int32)
        """
        return _update(self.array, self.index, "subtract", values, **options)

    def multiply(self, values, **options) -> Array:
        """`x` with `x[index] *= values`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3).at[1:].multiply(5)
        Array([ 0,  5, 10], dtype=int32)
        """
        return _update(self.array, self.index, "multiply", values, **options)

    mul = multiply

    def divide(self, values, **options) -> Array:
        """`x` with `x[index] /= values`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3.).at[2].divide(4)
        Array([0. , 1. , 0.5], dtype=float32)
        """
        x = self.array
        # Divided by the product of all values for the element: division itself has no scatter.
        return true_divide(x, _update(_ones_like(x), self.index, "multiply", values, **options))

    def power(self, values, **options) -> Array:
        """`x` with `x[index] **= values`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3.).at[2].power(3)
        Array([0., 1., 8.], dtype=float32)
        """
        x = self.array
        # Likewise: (x**a)**b is x**(a * b).
        return power(x, _update(_ones_like(x), self.index, "multiply", values, **options))

    def min(self, values, **options) -> Array:
        """`x` with `x[index] = minimum(x[index], values)`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3.).at[:].min(1.)
        Array([0., 1., 1.], dtype=float32)
        """
        return _update(self.array, self.index, "min", values, **options)

    def max(self, values, **options) -> Array:
        """`x` with `x[index] = maximum(x[index], values)`.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3.).at[:].max(1.)
        Array([1., 1., 2.], dtype=float32)
        """
        return _update(self.array, self.index, "max", values, **options)

    def apply(
        self,
        func,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode=None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """`x` with `x[index] = func(x[index])`, once for every time an element is indexed.

        >>> import gpuarray.numpy as gnp
        >>> gnp.arange(3.).at[1:].apply(lambda v: v + 10.)
        Array([ 0., 11., 12.], dtype=float32)
        """
        x = self.array
        # x.at[mask] with a mask of x's shape is a select: it may be traced.
        mask = mask_of(x, self.index)
        if mask is not None:
            return lax.select(mask, as_values_of(func(x), x), x)
        t = indexer.target(x.shape, self.index, wrap_negative_indices)
        # The whole array.
        if not t.starts and 0 not in t.shape:
            return as_values_of(func(x), x)
        return _scatter(
            x,
            t,
            lambda x, indices, _, dims, **how: lax.scatter_apply(
                x, indices, func, dims, update_shape=t.shape, **how
            ),
            None,
            mode,
            indices_are_sorted,
            unique_indices,
        )


def _mode(mode) -> GatherScatterMode:
    return mode if isinstance(mode, GatherScatterMode) else GatherScatterMode.from_any(mode)


def _ones_like(x: Array) -> Array:
    return lax.full_like(x, 1)


# Updates at places that arrays name.
_SCATTER = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "subtract": lax.scatter_sub,
    "multiply": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


def _update(
    x: Array,
    index,
    kind: str,
    values,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode=None,
    out_sharding=None,
    wrap_negative_indices: bool = True,
) -> Array:
    if out_sharding is not None:
        with out_given(out_sharding):
            out = _update(
                x,
                index,
                kind,
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
        return placed(f"at[].{kind}", out, out_sharding)
    values, aval = value(fitting(values, x.dtype)), x.aval
    given = aval_of(values)
    # Values follow the array, whose memory the result is in.
    if given.layout is not aval.layout:
        values = in_memory(values, aval.memory_space)
    # The result keeps the dtype of x: say so where values may not fit.
    if given.dtype != aval.dtype:
        warn_unsafe(aval, given)
    plain = not aval.weak_type and cuts_of(aval.layout) is None
    if mode is None and wrap_negative_indices and plain and is_base():
        found = basic_indices.window(aval.shape, index)
        # A contiguous window at a known place: no scatter.
        if found is not None and found.strides is None:
            return _update_window(x, found, kind, values, given)
    # A window at a traced place that is moved inside: no scatter either.
    if mode == "clip" and kind == "set" and wrap_negative_indices and 0 not in aval.shape:
        entries = index if isinstance(index, tuple) else (index,)
        if _is_window(entries) and not any(e is None for e in entries):
            return _update_moving(x, entries, values)
    # Under a mask each element stays or changes in its place: no positions, so it may be traced.
    mask = mask_of(x, index)
    if mask is not None:
        aligned = aligned_with(values, given, aval.shape, index)
        if aligned is not None:
            return masked(x, in_memory(mask, aval.memory_space), kind, aligned)
    t = indexer.target(aval.shape, index, wrap_negative_indices)
    # Numbers that count from the end are out of order once they are wrapped.
    in_order = indices_are_sorted and not wrap_negative_indices
    return _scatter(x, t, _SCATTER[kind], values, mode, in_order, unique_indices, kind)


def warn_unsafe(x, values) -> None:
    """Warn where updating `x` changes the kind of the values (floats into an integer array)."""
    if isinstance(x.dtype, dtypes.KeyDtype):
        return
    # JAX warns where promotion would have made another dtype than the array's.
    common, _ = promotion.promote2(x.dtype, x.weak_type, values.dtype, values.weak_type)
    if common != x.dtype and not x.weak_type:
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={values.dtype} to dtype={x.dtype}. The result keeps dtype {x.dtype}; convert "
            "one of them with .astype(...).",
            FutureWarning,
            stacklevel=4,
        )


def _update_window(x: Array, found: basic_indices.Window, kind: str, values, given) -> Array:
    """Static positions: read the window, write it with dynamic_update_slice, whose start is an
    operand.
    """
    starts, limits, _, backwards, dropped, new, outside = found
    sizes = tuple([b - a for a, b in zip(starts, limits)])
    # Values broadcast to the window without the dropped axes and with the new ones, then take its
    # shape.
    if given.shape:
        shape = sizes
        if dropped or new:
            kept = [n for i, n in enumerate(sizes) if i not in dropped]
            for i in new:
                kept.insert(i, 1)
            shape = tuple(kept)
        values = stretch(values, shape)
        if shape != sizes:
            values = lax.reshape(values, sizes)
        if backwards:
            values = rev_p.bind(values, dimensions=tuple(backwards))
    if outside or 0 in sizes:
        return x  # updates out of bounds are skipped
    if kind == "set":
        values = as_values_of(values, x)
        if not given.shape:
            values = broadcast_in_dim_p.bind(
                values, shape=sizes, broadcast_dimensions=(), sharding=None
            )
    else:
        # Read, combine in the common dtype, write back in x's.
        part = dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)
        values = as_values_of(POINTWISE[kind](*in_common_dtype(part, values)), x)
    return dynamic_update_slice_p.bind(x, values, *starts)


def _update_moving(x: Array, index: tuple, values) -> Array:
    """Set a window whose start may be traced; one that reaches over the end is moved inside."""
    starts, sizes, found = _moving(x, index)
    kept = [n for i, n in enumerate(sizes) if i not in found.dropped]
    values = stretch(as_values_of(values, x), tuple(kept))
    if found.reversed:
        gone = found.dropped
        axes = [axis - sum(d < axis for d in gone) for axis in found.reversed]
        values = lax.rev(values, tuple(axes))
    return lax.dynamic_update_slice(x, lax.reshape(values, sizes), starts)


def _scatter(x, t, scatter, values, mode, indices_are_sorted, unique_indices, kind="set") -> Array:
    """Apply a scatter in the common dtype of both; the result has the dtype of `x`."""
    origin = x
    indices = indexer.start_indices(t) if t.starts else None
    if t.expand:
        x = lax.expand_dims(x, t.expand)
    if values is not None:
        # The shape that x[index] has: values broadcast to it.
        final = list(t.shape)
        for i in t.new:
            final.insert(i, 1)
        # Setting converts the values; adding promotes both, and the result is converted back.
        if kind == "set" or _is_key(x):
            values = as_values_of(values, x)
        else:
            x, values = in_common_dtype(x, values)
        values = stretch(values, tuple(final))
        if t.new:
            values = lax.squeeze(values, t.new)
        if t.reversed:
            values = lax.rev(values, t.reversed)
    # Nothing is updated; the shapes have been checked above.
    if 0 in t.shape:
        return origin
    if indices is None and values is not None:
        # All of the array: no positions are needed. It lies as it did, whatever the values.
        out = as_typed(asarray(POINTWISE[kind](x, values)), x.aval)
        return as_type(out, origin.dtype, origin.weak_type)
    dims = ScatterDimensionNumbers(
        update_window_dims=t.offset,
        inserted_window_dims=t.collapsed,
        scatter_dims_to_operand_dims=t.axes,
    )
    out = scatter(
        x,
        indices,
        values,
        dims,
        indices_are_sorted=indices_are_sorted or t.static,
        unique_indices=unique_indices or t.static,
        mode=None if mode is None else _mode(mode),
    )
    if t.expand:
        out = lax.squeeze(out, t.expand)
    return as_type(out, origin.dtype, origin.weak_type)
