"""Shapes: giving the elements of arrays other places.

Floor 6. In: arrays and static shapes. Out: arrays, through the primitives of `primitives.movement`.
Nothing here computes with elements, so every dtype is accepted, random keys too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import cuts_of, out_given, reconciled
from gpuarray.core.value import Array
from gpuarray.errors import ShardingTypeError
from gpuarray.lax.args import canonicalize_shape, dtype_of, shape_of
from gpuarray.lax.args import operand as bindable
from gpuarray.primitives.movement.ops import (
    broadcast_in_dim_p,
    concatenate_p,
    pad_p,
    reshape_p,
    rev_p,
    split_p,
    squeeze_p,
    stack_p,
    tile_p,
    transpose_p,
    unstack_p,
)
from gpuarray.primitives.sums import check_same
from gpuarray.runtime.transfer import placed, placed_like, sharding_like
from gpuarray.util import index, indices


def as_array(x) -> Array:
    """A bindable value as an Array: Arrays pass, scalars and NumPy values become constants."""
    if isinstance(x, Array):
        return x
    shape = shape_of(x)
    # In the base trace: a constant does not belong to the function being traced.
    with traces.base_trace():
        return broadcast_in_dim_p.bind(
            x, shape=shape, broadcast_dimensions=tuple(range(len(shape))), sharding=None
        )


# ---- broadcasting ----


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding=None
) -> Array:
    """Repeat `operand` along new or length-1 axes: its axis i becomes `broadcast_dimensions[i]`.

    Shapes: operand [n0, n1, ...], result `shape`; n_i is 1 or `shape[broadcast_dimensions[i]]`.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.broadcast_in_dim(gnp.array([1., 2.]), (2, 3), (0,))
    Array([[1., 1., 1.],
           [2., 2., 2.]], dtype=float32)
    """
    # Placed afterwards: the primitive does not know shardings.
    if out_sharding is not None:
        with out_given(out_sharding):
            out = broadcast_in_dim(operand, shape, broadcast_dimensions)
        return placed("broadcast_in_dim", out, out_sharding)
    x = bindable("broadcast_in_dim", operand)
    shape = canonicalize_shape(shape)
    dims = tuple(map(index, broadcast_dimensions))
    # No change: no equation is recorded.
    if shape == shape_of(x) and dims == tuple(range(len(shape))):
        return as_array(x)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims, sharding=None)


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding=None) -> Array:
    """Repeat `operand` along new leading axes of lengths `sizes`.

    Shapes: operand [...], result [*sizes, ...].

    >>> from gpuarray import lax
    >>> lax.broadcast(7, (3,))
    Array([7, 7, 7], dtype=int32, weak_type=True)
    """
    if out_sharding is not None:
        with out_given(out_sharding):
            out = broadcast(operand, sizes)
        return placed("broadcast", out, out_sharding)
    x = bindable("broadcast", operand)
    sizes = canonicalize_shape(sizes)
    if not sizes:
        return as_array(x)
    shape = shape_of(x)
    # The axes of the operand stay together at the end.
    dims = tuple(range(len(sizes), len(sizes) + len(shape)))
    return broadcast_in_dim_p.bind(x, shape=sizes + shape, broadcast_dimensions=dims, sharding=None)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to together, aligned at their last axes.

    >>> from gpuarray import lax
    >>> lax.broadcast_shapes((2, 1), (3,), ())
    (2, 3)
    """
    if not shapes:
        raise ValueError("broadcast_shapes needs at least one shape")
    # Any sequence of integers is a shape here.
    given = [canonicalize_shape(s if isinstance(s, np.ndarray) else tuple(s)) for s in shapes]
    for s in given:
        if any(n < 0 for n in s):
            raise TypeError(
                f"Only non-negative indices are allowed when broadcasting static shapes, but got "
                f"shape {s}."
            )
    rank = max(map(len, given))
    # Aligned at the last axes, as NumPy does.
    if rank > min(map(len, given)) and len(given) > 1:
        aligned = [(1,) * (rank - len(s)) + s for s in given]
    else:
        aligned = given
    result = []
    for lengths in zip(*aligned):
        # 0 does not stretch either: 1 and 0 give 0.
        longer = {n for n in lengths if n != 1}
        if len(longer) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={given}")
        result.append(longer.pop() if longer else 1)
    return tuple(result)


def broadcast_to_rank(x: Any, rank: int) -> Array:
    """Add leading axes of length 1 until `x` has `rank` axes.

    Shapes: x [...], result [1, ..., 1, ...]; more axes than `rank` are not changed.

    >>> from gpuarray import lax
    >>> lax.broadcast_to_rank(2.0, 2)
    Array([[2.]], dtype=float32, weak_type=True)
    """
    x = bindable("broadcast_to_rank", x)
    missing = rank - len(shape_of(x))
    return expand_dims(x, range(missing)) if missing > 0 else as_array(x)


def broadcast_like(arr: Any, like_arr: Any) -> Array:
    """Repeat `arr` to the shape of `like_arr`, aligned at the last axes.

    Shapes: arr [...], result `like_arr.shape`.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.broadcast_like(gnp.arange(2), gnp.ones((2, 2)))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    arr = bindable("broadcast_like", arr)
    like = bindable("broadcast_like", like_arr, 1)
    shape = shape_of(like)
    own = shape_of(arr)
    if len(own) > len(shape):
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={own} shape={shape}"
        )
    if any(n not in (1, m) for n, m in zip(reversed(own), reversed(shape))):
        raise ValueError(
            f"Incompatible shapes for broadcasting: {own} and requested shape {shape}. Each length "
            "must be 1 or that of the requested shape, aligned at the last axes."
        )
    out = broadcast_in_dim(arr, shape, range(len(shape) - len(own), len(shape)))
    layout = aval_of(like).layout
    if cuts_of(layout) is None:
        return out
    try:
        reconciled(aval_of(out).layout, layout)
    except ShardingTypeError as error:
        raise ShardingTypeError(f"Incompatible shardings for broadcasting: {error}") from None
    return placed_like(out, sharding_like(like, shape))


# ---- the same elements in another shape ----


def reshape(
    operand: Any,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding=None,
) -> Array:
    """The same elements in row-major order in another shape, with axes optionally permuted first.

    Shapes: operand [...], result `new_sizes` with as many elements; no length is inferred.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reshape(gnp.arange(4), (2, 2), dimensions=(0,))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    if out_sharding is not None:
        check_same(aval_of(operand), "reshape", out_sharding)
        with out_given(out_sharding):
            return placed("reshape", reshape(operand, new_sizes, dimensions), out_sharding)
    x = bindable("reshape", operand)
    sizes = canonicalize_shape(new_sizes)
    order = None if dimensions is None else indices(dimensions)
    # The same shape: no equation is recorded. -1 is resolved by the primitive.
    same = isinstance(x, Array) and not x.bare and sizes == x.shape
    if same and order in (None, tuple(range(len(sizes)))):
        return x
    return reshape_p.bind(x, new_sizes=sizes, dimensions=order, sharding=None)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the axes from `start_dimension` up to (not with) `stop_dimension` into one.

    Shapes: operand [a, b, c, d], result [a, b*c, d] for start 1 and stop 3.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.collapse(gnp.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    x = bindable("collapse", operand)
    shape = shape_of(x)
    # Python's rules for negative and missing ends.
    stop = None if stop_dimension is None else index(stop_dimension)
    low, high, _ = slice(index(start_dimension), stop).indices(len(shape))
    if high < low:
        raise ValueError(
            "Invalid dimension range passed to collapse: "
            f"{shape}[{start_dimension}:{stop_dimension}]"
        )
    return reshape(x, (*shape[:low], math.prod(shape[low:high]), *shape[high:]))


def squeeze(array: Any, dimensions: Sequence[int]) -> Array:
    """Drop the axes `dimensions`, which have length 1.

    Shapes: array [1, n], result [n] for dimensions (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.squeeze(gnp.array([[1., 2.]]), (0,))
    Array([1., 2.], dtype=float32)
    """
    x = bindable("squeeze", array)
    shape = shape_of(x)
    # In rising order, so that equal squeezes are equal equations.
    dims = tuple(sorted(util.canonical_axis(d, len(shape)) for d in dimensions))
    if not dims:
        return as_array(x)
    return squeeze_p.bind(x, dimensions=dims)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Array:
    """Add axes of length 1 that are axes `dimensions` of the result.

    Shapes: array [n], result [1, n] for dimensions (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.expand_dims(gnp.array([1, 2]), (0, 2)).shape
    (1, 2, 1)
    """
    x = bindable("expand_dims", array)
    shape = shape_of(x)
    given = tuple(dimensions)
    rank = len(shape) + len(given)
    # Positions in the result, so negative ones count from its end.
    new = {util.canonical_axis(d, rank) for d in given}
    if len(new) != len(given):
        raise ValueError(f"repeated axis in lax.expand_dims: {given}")
    if not new:
        return as_array(x)
    # Axes of the result that exist already, in order.
    kept = tuple(d for d in range(rank) if d not in new)
    lengths = iter(shape)
    result = tuple(1 if d in new else next(lengths) for d in range(rank))
    return broadcast_in_dim_p.bind(x, shape=result, broadcast_dimensions=kept, sharding=None)


def transpose(operand: Any, permutation: Sequence[int] | np.ndarray) -> Array:
    """Permute axes: axis i of the result is axis `permutation[i]` of `operand`.

    Shapes: operand [n0, n1, ...], result [n_p0, n_p1, ...].

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.transpose(gnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = bindable("transpose", operand)
    order = tuple(map(index, permutation))
    if isinstance(x, Array) and order == tuple(range(x.ndim)):
        return x
    return transpose_p.bind(x, permutation=order)


def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along the axes `dimensions`.

    Shapes: operand and result are of one shape.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.rev(gnp.array([1, 2, 3]), (0,))
    Array([3, 2, 1], dtype=int32)
    """
    return rev_p.bind(bindable("rev", operand), dimensions=tuple(map(index, dimensions)))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Put `padding_value` around and between elements: (low, high, interior) for every axis.

    Shapes: operand [n], result [low + n + (n - 1) * interior + high]; negative low or high cut off.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.pad(gnp.array([1., 2.]), 0., [(1, 0, 2)])
    Array([0., 1., 0., 0., 2.], dtype=float32)
    """
    x, value = bindable("pad", operand), bindable("pad", padding_value, 1)
    config = tuple((index(low), index(high), index(inner)) for low, high, inner in padding_config)
    return pad_p.bind(x, value, padding_config=config)


def tile(operand: Any, reps: Sequence[int]) -> Array:
    """Repeat the whole of `operand` `reps[i]` times along each axis i.

    Shapes: operand [n0, n1], result [n0 * reps[0], n1 * reps[1]].

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.tile(gnp.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int32)
    """
    return tile_p.bind(bindable("tile", operand), reps=tuple(map(index, reps)))


# ---- joining and splitting ----


def _sequence(op: str, values: Any) -> list:
    # Concatenating one array joins its slices along the first axis, as in NumPy.
    if isinstance(values, (Array, np.ndarray)) and values.ndim:
        return list(unstack(values))
    return [bindable(op, x, i) for i, x in enumerate(values)]


def concatenate(operands: Any, dimension: int) -> Array:
    """Join arrays end to end along an existing axis.

    Shapes: operands [..., n_i, ...], equal elsewhere; result [..., sum of n_i, ...]. One dtype.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.concatenate([gnp.array([1, 2]), gnp.array([3])], 0)
    Array([1, 2, 3], dtype=int32)
    """
    xs = _sequence("concatenate", operands)
    # Nothing to join: no equation is recorded.
    if len(xs) == 1 and isinstance(xs[0], Array):
        return xs[0]
    return concatenate_p.bind(*xs, dimension=index(dimension))


def stack(operands: Any, axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis.

    Shapes: k operands [n, m], result [k, n, m] for axis 0.

    >>> from gpuarray import lax
    >>> lax.stack([1., 2.])
    Array([1., 2.], dtype=float32, weak_type=True)
    """
    xs = _sequence("stack", operands)
    # Without operands the primitive raises the error.
    rank = len(shape_of(xs[0])) + 1 if xs else 1
    return stack_p.bind(*xs, axis=util.canonical_axis(axis, rank))


def unstack(x: Any, axis: int = 0) -> tuple[Array, ...]:
    """The slices of `x` along an axis, as a tuple.

    Shapes: x [k, n], k results [n] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.unstack(gnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = bindable("unstack", x)
    return tuple(unstack_p.bind(x, axis=util.canonical_axis(axis, len(shape_of(x)))))


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cut `operand` into pieces of the given lengths along an axis.

    Shapes: operand [n, m], results [sizes[i], m] for axis 0; the sizes add up to n.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.split(gnp.array([1, 2, 3]), (1, 2))
    [Array([1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    x = bindable("split", operand)
    sizes = tuple(map(index, sizes))
    axis = util.canonical_axis(axis, len(shape_of(x)))
    return list(split_p.bind(x, sizes=sizes, axis=axis))


# ---- shapes ----


def dtype(x: Any) -> Any:
    """The dtype that `x` has as an array.

    >>> from gpuarray import lax
    >>> lax.dtype(1.5)
    dtype('float32')
    """
    if isinstance(x, (type, np.dtype, dtypes.ExtendedDType)):  # a dtype itself
        return dtypes.canonicalize_dtype(dtypes.as_dtype(x))
    if x is None:
        raise ValueError("Invalid argument to dtype: None has no dtype; pass an array or a number.")
    return dtype_of(bindable("dtype", x))
