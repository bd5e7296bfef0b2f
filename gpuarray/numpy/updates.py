"""Updating parts of arrays: `x.at[...].set(...)` and its siblings.

Floor 6. In: an array, an index and values. Out: a new array: an update of a slice for an index of
ints and slices, a scatter for one with arrays. Positions out of bounds are skipped, unless `mode`
says otherwise.
"""

from __future__ import annotations

import warnings

from gpuarray import lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import cuts_of, out_given
from gpuarray.core.trace import is_base
from gpuarray.core.value import Array
from gpuarray.lax import GatherScatterMode, ScatterDimensionNumbers
from gpuarray.numpy import basic_indices, indexer
from gpuarray.numpy.arithmetic import power, true_divide
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.indexing import getitem, is_key, is_window, moving, take_target
from gpuarray.numpy.masks import (
    POINTWISE,
    aligned_with,
    as_values_of,
    in_common_dtype,
    mask_of,
    masked,
)
from gpuarray.numpy.promotion import fitting, value
from gpuarray.numpy.shapes import stretch
from gpuarray.primitives.memory import in_memory
from gpuarray.primitives.movement.ops import (
    broadcast_in_dim_p,
    dynamic_slice_p,
    dynamic_update_slice_p,
    rev_p,
)
from gpuarray.primitives.reshard import as_typed
from gpuarray.runtime.transfer import placed


def at(x: Array) -> IndexUpdateHelper:
    """`x.at`: `x.at[index].set(values)` is a new array that differs from `x` at `index`."""
    return IndexUpdateHelper(x)


class IndexUpdateHelper:
    """The type of `x.at`: indexing it gives the update methods.

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
    """The type of `x.at[index]`. Every method returns a new array and leaves `x` unchanged.

    mode: how positions out of bounds are treated: None, "drop" or "fill" skip the update (reads
    give `fill_value`), "clip" clamps them, "promise_in_bounds" asserts that there are none.
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
        """`x[index]`, with a `mode` for positions out of bounds.

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
    # The result keeps the dtype of x: warn if values may not fit.
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
        if is_window(entries) and not any(e is None for e in entries):
            return _update_moving(x, entries, values)
    # Under a mask each element stays or changes in its place: no positions, so it may be traced.
    mask = mask_of(x, index)
    if mask is not None:
        aligned = aligned_with(values, given, aval.shape, index)
        if aligned is not None:
            return masked(x, in_memory(mask, aval.memory_space), kind, aligned)
    t = indexer.target(aval.shape, index, wrap_negative_indices)
    # Negative positions are out of order once they are wrapped.
    in_order = indices_are_sorted and not wrap_negative_indices
    return _scatter(x, t, _SCATTER[kind], values, mode, in_order, unique_indices, kind)


def warn_unsafe(x, values) -> None:
    """Warn where updating `x` changes the kind of the values (floats into an integer array)."""
    if isinstance(x.dtype, dtypes.ExtendedDType):
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
    starts, sizes, found = moving(x, index)
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
        if kind == "set" or is_key(x):
            values = as_values_of(values, x)
        else:
            x, values = in_common_dtype(x, values)
        values = stretch(values, tuple(final))
        if t.new:
            values = lax.squeeze(values, t.new)
        if t.reversed:
            values = lax.rev(values, t.reversed)
    # No element is updated; the shapes have been checked above.
    if 0 in t.shape:
        return origin
    if indices is None and values is not None:
        # The whole array: no positions are needed. Its sharding is kept, whatever the values'.
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
