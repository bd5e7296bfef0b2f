"""Slices: parts of arrays at places known now (static) or only when the program runs (dynamic).

Floor 6. In: arrays, and where to read or write. Out: arrays. Dynamic starts are scalars: negative
ones count from the end, and a window that would stick out is moved inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.dims import Dim
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape, dtype_of, shape_of
from gpuarray.lax.args import operand as bindable
from gpuarray.lax.lengths import typed
from gpuarray.lax.shapes import broadcast_in_dim, concatenate, squeeze
from gpuarray.primitives.elementwise.arithmetic import add_p, lt_p, rem_p
from gpuarray.primitives.elementwise.choice import select_n_p
from gpuarray.primitives.elementwise.convert import convert_element_type_p
from gpuarray.primitives.indexing.ops import GatherDimensionNumbers, GatherScatterMode, gather_p
from gpuarray.primitives.movement.ops import dynamic_slice_p, dynamic_update_slice_p, slice_p
from gpuarray.util import index as to_int

# ---- static ----


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The elements from `start_indices` up to (not with) `limit_indices`, every `strides`-th one.

    Shapes: operand [n], result [ceil((limit - start) / stride)], axis by axis.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.slice(gnp.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    return slice_p.bind(
        bindable("slice", operand),
        start_indices=canonicalize_shape(start_indices),
        limit_indices=canonicalize_shape(limit_indices),
        strides=None if strides is None else canonicalize_shape(strides),
    )


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """A slice along one axis; negative indices count from the end, None means the end itself.

    Shapes: operand [n, m], result [ceil((limit - start) / stride), m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.slice_in_dim(gnp.arange(6), -3, None)
    Array([3, 4, 5], dtype=int32)
    """
    x = bindable("slice_in_dim", operand)
    shape = shape_of(x)
    axis = util.canonical_axis(axis, len(shape))
    length = shape[axis]
    start = 0 if start_index is None else to_int(start_index)
    limit = length if limit_index is None else to_int(limit_index)
    # The whole of every axis but one.
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + length if start < 0 else start
    limits[axis] = limit + length if limit < 0 else limit
    strides[axis] = to_int(stride)
    return slice(x, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The elements at one static index of an axis, which stays with length 1 if `keepdims`.

    Shapes: operand [n, m], result [1, m] or [m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.index_in_dim(gnp.arange(6), -1, keepdims=False)
    Array(5, dtype=int32)
    """
    x = bindable("index_in_dim", operand)
    shape = shape_of(x)
    axis = util.canonical_axis(axis, len(shape))
    # A static index out of range raises, as NumPy's does; a traced one is clamped.
    at = to_int(index)
    if not (-shape[axis] <= at and at < shape[axis]):
        raise IndexError(f"index {at} is out of bounds for axis {axis} with size {shape[axis]}")
    at = at + shape[axis] if at < 0 else at
    part = slice_in_dim(x, at, at + 1, 1, axis)
    return part if keepdims else squeeze(part, (axis,))


# ---- dynamic ----


def _starts(op: str, shape: tuple[int, ...], given: Any, negative: bool | Sequence[bool]) -> list:
    """Start indices as scalars to bind, all of them counted from the front."""
    # A vector of starts as scalars.
    if isinstance(given, (Array, np.ndarray)) and given.ndim:
        if given.ndim != 1:
            raise ValueError(
                "Length of slice indices must match number of operand dimensions: the array of "
                f"start indices must have one axis, got shape {given.shape}."
            )
        if isinstance(given, Array):
            # Each start is a separate scalar in the program: there is one for each axis.
            given = [index_in_dim(given, i, keepdims=False) for i in range(given.shape[0])]
    given = [bindable(op, x, i) for i, x in enumerate(given)]
    if len(given) != len(shape):
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions ({len(given)} vs "
            f"{shape})"
        )
    if any(shape_of(x) for x in given):
        raise TypeError(
            f"start_indices arguments to {op} must be scalars, got indices "
            f"{tuple(aval_of(x) for x in given)}"
        )
    # One answer for all axes, or one for each.
    each = [negative] * len(shape) if isinstance(negative, bool) else negative
    allowed = util.elements(each, "a bool or one bool an axis")
    if len(allowed) != len(shape):
        raise ValueError(
            f"allow_negative_indices must be a bool or one bool an axis, got {len(allowed)} for "
            f"{len(shape)} axes."
        )
    # All have one dtype, even if wide; different ones are an error raised by the primitive.
    if len({dtype_of(x) for x in given}) == 1:
        symbolic = [n for n in shape if type(n) is Dim]  # any length: no narrow type holds it
        given = [reaching(x, symbolic[0] if symbolic else max(shape)) for x in given]
    return [_from_front(x, n, ok) for x, n, ok in zip(given, shape, allowed)]


def reaching(i: Any, n: Any) -> Any:
    """Positions along an axis of length `n`, as int32 where their own dtype does not hold `n`."""
    dtype = dtype_of(i)
    if dtype.itemsize >= 4 or dtypes.kind_of(dtype) not in "iu":
        return i
    if isinstance(n, int) and n <= dtypes.iinfo(dtype).max:
        return i
    wide = np.dtype(np.int32)
    if isinstance(i, Array):
        return convert_element_type_p.bind(i, new_dtype=wide, weak_type=False, sharding=None)
    return np.asarray(i).astype(wide)[()]


def _from_front(start: Any, length: int, negative: bool) -> Any:
    dtype = dtype_of(start)
    if dtypes.kind_of(dtype) != "i":
        return start  # unsigned, or an error that the primitive reports
    # Known now: settled here, without an operation.
    if not isinstance(start, Array):
        value = int(start)
        if value < 0 and not negative:
            raise ValueError(
                f"Index {value} is out of bounds for dimension {length} if "
                "allow_negative_indices=False"
            )
        if value >= 0:
            return dtype.type(value)
        return typed(value + length, dtype)
    if not negative:
        return start
    # Traced: start + length where start < 0.
    below = lt_p.bind(start, dtype.type(0))
    # A weak start is fine in `select_n`, where it does not affect the type; `add` needs one type.
    strong = start
    if start.weak_type:
        strong = convert_element_type_p.bind(start, new_dtype=dtype, weak_type=False, sharding=None)
    return select_n_p.bind(below, start, add_p.bind(strong, typed(length, dtype)))


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A window of static shape `slice_sizes` that begins where scalars say, moved inside if needed.

    Shapes: operand [n, m], start_indices two scalars (or an array [2]), result `slice_sizes`.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.dynamic_slice(gnp.arange(6), (gnp.array(5),), (2,))
    Array([4, 5], dtype=int32)
    """
    x = bindable("dynamic_slice", operand)
    starts = _starts("dynamic_slice", shape_of(x), start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(x, *starts, slice_sizes=canonicalize_shape(slice_sizes))


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """`operand` with a window replaced by `update`; the window is moved inside if needed.

    Shapes: operand [n, m], update [a, b] with a <= n and b <= m, result [n, m]. One dtype.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.dynamic_update_slice(gnp.zeros(4), gnp.array([1., 2.]), (1,))
    Array([0., 1., 2., 0.], dtype=float32)
    """
    op = "dynamic_update_slice"
    x, update = bindable(op, operand), bindable(op, update, 1)
    starts = _starts(op, shape_of(x), start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(x, update, *starts)


def _one_start(x: Any, start: Any, axis: int, negative: bool) -> list:
    """Start indices that are zero, in the dtype of `start`, but along one axis."""
    shape = shape_of(x)
    start = bindable("dynamic_slice", start, 1)
    start = reaching(start, shape[axis])
    # All starts have one dtype, as the primitive requires.
    zero = dtype_of(start).type(0)
    starts = [zero] * len(shape)
    starts[axis] = _from_front(start, shape[axis], negative)
    return starts


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A dynamic slice along one axis.

    Shapes: operand [n, m], start_index a scalar, result [slice_size, m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.dynamic_slice_in_dim(gnp.arange(6), 2, 3)
    Array([2, 3, 4], dtype=int32)
    """
    x = bindable("dynamic_slice", operand)
    shape = shape_of(x)
    axis = util.canonical_axis(axis, len(shape))
    starts = _one_start(x, start_index, axis, allow_negative_indices)
    # The window has the full length along every other axis.
    sizes = (*shape[:axis], to_int(slice_size), *shape[axis + 1 :])
    return dynamic_slice_p.bind(x, *starts, slice_sizes=sizes)


def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The elements at one dynamic index of an axis, which stays with length 1 if `keepdims`.

    Shapes: operand [n, m], index a scalar, result [1, m] or [m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.dynamic_index_in_dim(gnp.arange(6), gnp.array(-1), keepdims=False)
    Array(5, dtype=int32)
    """
    # The window has length 1 along the axis.
    part = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return part if keepdims else squeeze(part, (axis,))


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`operand` with a window along one axis replaced by `update`.

    Shapes: operand [n, m], update [k, m], start_index a scalar, result [n, m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.dynamic_update_slice_in_dim(gnp.zeros(4), gnp.ones(2), 2, 0)
    Array([0., 0., 1., 1.], dtype=float32)
    """
    op = "dynamic_update_slice"
    x, update = bindable(op, operand), bindable(op, update, 1)
    axis = util.canonical_axis(axis, len(shape_of(x)))
    starts = _one_start(x, start_index, axis, allow_negative_indices)
    return dynamic_update_slice_p.bind(x, update, *starts)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`operand` with the elements at one dynamic index of an axis replaced by `update`.

    Shapes: operand [n, m], update [m] or [1, m], index a scalar, result [n, m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.dynamic_update_index_in_dim(gnp.zeros(3), 5., 1, 0)
    Array([0., 5., 0.], dtype=float32)
    """
    op = "dynamic_update_slice"
    x, update = bindable(op, operand), bindable(op, update, 1)
    ndim = len(shape_of(x))
    axis = util.canonical_axis(axis, ndim)
    shape = shape_of(update)
    # An update without the axis gets it, of length 1.
    if len(shape) == ndim - 1:
        dims = [d for d in range(ndim) if d != axis]
        update = broadcast_in_dim(update, (*shape[:axis], 1, *shape[axis:]), dims)
    elif len(shape) != ndim or shape[axis] != 1:
        raise TypeError(
            "dynamic_update_index_in_dim update must be one slice of the operand along axis "
            f"{axis}, got update shape {shape} for operand shape {shape_of(x)}."
        )
    return dynamic_update_slice_in_dim(
        x, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """The elements of `src` at index vectors, one index array for each axis; indices wrap around.

    Shapes: src [n, m, k], two idxs [i] for axes (0, 1), result [i, k].

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.index_take(gnp.arange(6).reshape(2, 3), (gnp.array([0, 1]), gnp.array([2, -1])), (0, 1))
    Array([2, 5], dtype=int32)
    """
    x = bindable("index_take", src)
    shape = shape_of(x)
    axes = tuple(util.canonical_axis(a, len(shape)) for a in axes)
    # Index vectors as gather takes them: [i, number of axes].
    columns = []
    for position, (at, axis) in enumerate(zip(idxs, axes)):
        at = reaching(bindable("index_take", at, position + 1), max(shape))
        if len(shape_of(at)) != 1:
            raise TypeError(f"index_take takes index arrays of one axis, got {shape_of(at)}")
        # rem has the sign of the dividend: a negative remainder needs the length added.
        length = dtype_of(at).type(shape[axis])
        rest = rem_p.bind(at, length)
        if dtypes.kind_of(length.dtype) == "i":
            below = lt_p.bind(rest, length.dtype.type(0))
            rest = select_n_p.bind(below, rest, add_p.bind(rest, length))
        # [i] to [i, 1]: a column of the index vectors.
        columns.append(broadcast_in_dim(rest, (*shape_of(at), 1), (0,)))
    # A window is one element along the indexed axes and all of the others.
    kept = [d for d in range(len(shape)) if d not in axes]
    numbers = GatherDimensionNumbers(tuple(range(1, len(kept) + 1)), tuple(sorted(axes)), axes)
    return gather_p.bind(
        x,
        concatenate(columns, 1),
        dimension_numbers=numbers,
        slice_sizes=tuple(1 if d in axes else n for d, n in enumerate(shape)),
        indices_are_sorted=False,
        unique_indices=False,
        # Wrapped indices are in bounds.
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )
