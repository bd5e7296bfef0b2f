"""Index maps: primitives that move elements and compute nothing.

In: arrays. Out: the same elements elsewhere. Views (broadcast, reshape, transpose, slice, reverse)
have no guards and cost no kernel; movements (pad, concatenate, dynamic slices, tile) have guards.
Floor 2. The NumPy rules touch no value, so random keys, stored as one element each, move like
numbers. Views share the memory of their operand, movements never do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import storage_dtype
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.ops.define import check_same_dtypes

#: Broadcasts to at most this many elements copy: that is cheaper than making a NumPy view.
_COPY_UP_TO = 1024


def with_shape(aval: ShapedArray, shape) -> ShapedArray:
    """The aval of the same kind of elements in another shape."""
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type)


def is_permutation(axes: Sequence[int], ndim: int) -> bool:
    return sorted(axes) == list(range(ndim))


def check_nonnegative(op: str, what: str, values) -> None:
    if any(v < 0 for v in values):
        raise TypeError(f"{op} {what} must have every element be nonnegative, got {tuple(values)}.")


# ---- views ----


def _broadcast_aval(operand, *, shape, broadcast_dimensions, sharding=None):
    op = "broadcast_in_dim"
    given = tuple(broadcast_dimensions)
    check_nonnegative(op, "shape", shape)
    check_nonnegative(op, "broadcast_dimensions", given)
    if len(given) != operand.ndim:
        raise TypeError(
            f"{op} broadcast_dimensions must have length equal to operand ndim; got "
            f"broadcast_dimensions {given} for operand ndim {operand.ndim}. Name the result axis "
            "of every operand axis."
        )
    if operand.ndim > len(shape):
        raise TypeError(
            f"{op} target broadcast shape must have equal or higher rank to the operand shape; got "
            f"operand ndim {operand.ndim} and target broadcast ndim {len(shape)}."
        )
    if any(d >= len(shape) for d in given):
        raise TypeError(
            f"{op} broadcast_dimensions must be a subset of output dimensions, got {given} for "
            f"operand ndim {operand.ndim} and shape {shape}."
        )
    if len(set(given)) != len(given):
        raise TypeError(f"{op} broadcast_dimensions must be distinct, got {given}.")
    if any(n not in (1, shape[d]) for n, d in zip(operand.shape, given)):
        raise TypeError(
            f"{op} operand dimension sizes must either be 1, or be equal to their corresponding "
            f"dimensions in the target broadcast shape; got operand of shape {operand.shape}, "
            f"target broadcast shape {shape}, broadcast_dimensions {given}."
        )
    return with_shape(operand, shape)


def _broadcast_pick(avals, *, shape, broadcast_dimensions, sharding=None):
    (operand,) = avals
    size = math.prod(shape)
    dims = tuple(broadcast_dimensions)
    order = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    inner = [1] * len(shape)
    for n, d in zip(operand.shape, dims):
        inner[d] = n
    inner = tuple(inner)
    turned = order != tuple(range(len(dims)))

    def aligned(x):
        return (x.transpose(order) if turned else x).reshape(inner)

    if size == operand.size:
        return aligned if turned else operator.methodcaller("reshape", shape)
    if size > _COPY_UP_TO:
        return lambda x: np.broadcast_to(aligned(x), shape)
    dtype = storage_dtype(operand)

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
    shown = {} if not params["broadcast_dimensions"] else params
    return {k: v for k, v in shown.items() if k == "broadcast_dimensions"}


broadcast_in_dim_p = Primitive(
    "broadcast_in_dim",
    Kind.VIEW,
    aval=_broadcast_aval,
    numpy_pick=_broadcast_pick,
    show=_show_broadcast,
)


def _reshape_aval(operand, *, new_sizes, dimensions=None, sharding=None):
    if any(n < 0 for n in new_sizes):
        raise TypeError(
            f"reshape new_sizes must all be positive, got {new_sizes}. lax.reshape does not infer "
            "a length from -1: gpuarray.numpy.reshape does."
        )
    if dimensions is not None and not is_permutation(dimensions, operand.ndim):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, got dimensions "
            f"{dimensions} for shape {operand.shape}."
        )
    if math.prod(new_sizes) != operand.size:
        raise ValueError(
            f"reshape total size must be unchanged: number of output elements "
            f"({math.prod(new_sizes)}) of new_sizes {new_sizes} doesn't match expected number of "
            f"elements ({operand.size}) of shape {operand.shape}."
        )
    return with_shape(operand, new_sizes)


def _reshape_pick(avals, *, new_sizes, dimensions=None, sharding=None):
    if dimensions is None:
        return operator.methodcaller("reshape", new_sizes)
    return lambda x: x.transpose(dimensions).reshape(new_sizes)


reshape_p = Primitive("reshape", Kind.VIEW, aval=_reshape_aval, numpy_pick=_reshape_pick)


def _squeeze_aval(operand, *, dimensions):
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"dimensions are not unique: {dimensions}")
    for d in dimensions:
        if not 0 <= d < operand.ndim:
            raise ValueError(f"axis {d} is out of bounds for array of dimension {operand.ndim}")
    if any(operand.shape[d] != 1 for d in dimensions):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={operand.shape} and dimensions={dimensions}"
        )
    return with_shape(operand, [n for d, n in enumerate(operand.shape) if d not in dimensions])


squeeze_p = Primitive(
    "squeeze",
    Kind.VIEW,
    aval=_squeeze_aval,
    numpy_pick=lambda avals, *, dimensions: operator.methodcaller(
        "reshape", _squeeze_aval(*avals, dimensions=dimensions).shape
    ),
)


def _transpose_aval(operand, *, permutation):
    if not is_permutation(permutation, operand.ndim):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{permutation} for operand shape {operand.shape}."
        )
    return with_shape(operand, [operand.shape[d] for d in permutation])


transpose_p = Primitive(
    "transpose",
    Kind.VIEW,
    aval=_transpose_aval,
    numpy_pick=lambda avals, *, permutation: operator.methodcaller("transpose", permutation),
)


def _slice_aval(operand, *, start_indices, limit_indices, strides=None):
    shape = operand.shape
    for what, given in (
        ("start_indices", start_indices),
        ("limit_indices", limit_indices),
        ("strides", strides),
    ):
        if given is not None and len(given) != len(shape):
            raise TypeError(
                f"slice {what} must have length equal to the number of dimensions of the operand, "
                f"got {what} {given} for operand shape {shape}."
            )
    check_nonnegative("slice", "start_indices", start_indices)
    if any(limit > n for limit, n in zip(limit_indices, shape)):
        raise TypeError(
            "slice limit_indices must be less than or equal to operand shape, got limit_indices "
            f"{limit_indices} for operand shape {shape}."
        )
    if any(start > limit for start, limit in zip(start_indices, limit_indices)):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, got start_indices "
            f"{start_indices} and limit_indices {limit_indices}."
        )
    if strides is None:
        return with_shape(operand, [b - a for a, b in zip(start_indices, limit_indices)])
    if any(s <= 0 for s in strides):
        raise TypeError(f"slice strides must be positive, got {strides}.")
    lengths = [-((a - b) // s) for a, b, s in zip(start_indices, limit_indices, strides)]
    return with_shape(operand, lengths)


def _slice_pick(avals, *, start_indices, limit_indices, strides=None):
    steps = strides or (1,) * len(start_indices)
    return operator.itemgetter(tuple(map(slice, start_indices, limit_indices, steps)))


slice_p = Primitive("slice", Kind.VIEW, aval=_slice_aval, numpy_pick=_slice_pick)


def _rev_aval(operand, *, dimensions):
    check_nonnegative("rev", "dimensions", dimensions)
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if any(d >= operand.ndim for d in dimensions):
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {dimensions} for "
            f"operand ndim {operand.ndim}."
        )
    return operand


def _rev_pick(avals, *, dimensions):
    backwards, whole = slice(None, None, -1), slice(None)
    return operator.itemgetter(
        tuple(backwards if d in dimensions else whole for d in range(avals[0].ndim))
    )


rev_p = Primitive("rev", Kind.VIEW, aval=_rev_aval, numpy_pick=_rev_pick)


# ---- movements ----


def _pad_aval(operand, padding_value, *, padding_config):
    if operand.dtype != padding_value.dtype:
        raise TypeError(
            "pad operand and padding_value must be same dtype: got "
            f"{operand.dtype.name} and {padding_value.dtype.name}."
        )
    if padding_value.ndim:
        raise ValueError(
            f"padding_value must be a scalar; got np.shape(padding_value)={padding_value.shape}"
        )
    if len(padding_config) != operand.ndim:
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, got padding_config "
            f"{padding_config} for operand shape {operand.shape}"
        )
    if any(inner < 0 for _, _, inner in padding_config):
        raise ValueError(
            "interior padding in padding_config must be nonnegative, got padding_config "
            f"{padding_config}"
        )
    shape = padded_shape(operand.shape, padding_config)
    if any(n < 0 for n in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, for "
            f"padding_config {padding_config} and operand shape {operand.shape}"
        )
    return ShapedArray(shape, operand.dtype, operand.weak_type and padding_value.weak_type)


def padded_shape(shape, config) -> tuple[int, ...]:
    """The shape after (low, high, interior) padding; low and high may be negative."""
    return tuple(lo + n + max(n - 1, 0) * i + hi for n, (lo, hi, i) in zip(shape, config))


def _pad_pick(avals, *, padding_config):
    operand = avals[0]
    shape = padded_shape(operand.shape, padding_config)
    source, target = [], []
    for n, m, (low, _, interior) in zip(operand.shape, shape, padding_config):
        step = interior + 1
        first = max(0, -(low // step))  # the first element that does not fall off the low end
        last = min(n, -((low - m) // step))  # one past the last that stays below m
        count = max(0, last - first)
        begin = low + first * step if count else 0
        source.append(slice(first, first + count))
        target.append(slice(begin, begin + max(0, (count - 1) * step + 1) if count else 0, step))
    source, target, dtype = tuple(source), tuple(target), storage_dtype(operand)

    def pad(x, value):
        out = np.empty(shape, dtype)
        out[...] = value
        out[target] = x[source]
        return out

    return pad


pad_p = Primitive("pad", Kind.MOVEMENT, aval=_pad_aval, numpy_pick=_pad_pick)


def _listed(avals) -> str:
    return ", ".join(str(a.shape) for a in avals)


def _concatenate_aval(*operands, dimension):
    if not operands:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    first = operands[0]
    if len({a.ndim for a in operands}) != 1:
        raise TypeError(
            "Cannot concatenate arrays with different numbers of dimensions: got "
            f"{_listed(operands)}."
        )
    if not 0 <= dimension < first.ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes "
            f"{_listed(operands)}."
        )
    rest = first.shape[:dimension], first.shape[dimension + 1 :]
    if any((a.shape[:dimension], a.shape[dimension + 1 :]) != rest for a in operands):
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {dimension} for shapes "
            f"{_listed(operands)}."
        )
    check_same_dtypes("concatenate", operands)
    total = sum(a.shape[dimension] for a in operands)
    weak = all(a.weak_type for a in operands)
    return ShapedArray((*rest[0], total, *rest[1]), first.dtype, weak)


def _concatenate_pick(avals, *, dimension):
    concatenate = np.concatenate
    return lambda *xs: concatenate(xs, dimension)


concatenate_p = Primitive(
    "concatenate", Kind.MOVEMENT, aval=_concatenate_aval, numpy_pick=_concatenate_pick
)


def _stack_aval(*operands, axis):
    if not operands:
        raise ValueError("stack requires a non-empty sequence of arrays")
    first = operands[0]
    if len({a.ndim for a in operands}) != 1:
        raise ValueError(
            f"Cannot stack arrays with different numbers of dimensions: got {_listed(operands)}."
        )
    if any(a.shape != first.shape for a in operands):
        raise ValueError(f"stack requires arrays of one shape, got {_listed(operands)}.")
    if not 0 <= axis <= first.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {first.ndim + 1}")
    check_same_dtypes("stack", operands)
    shape = (*first.shape[:axis], len(operands), *first.shape[axis:])
    return ShapedArray(shape, first.dtype, all(a.weak_type for a in operands))


def _stack_pick(avals, *, axis):
    shape = _stack_aval(*avals, axis=axis).shape
    dtype = storage_dtype(avals[0])
    places = [(slice(None),) * axis + (i,) for i in range(len(avals))]

    def stack(*xs):
        out = np.empty(shape, dtype)
        for place, x in zip(places, xs):
            out[place] = x
        return out

    return stack


stack_p = Primitive("stack", Kind.MOVEMENT, aval=_stack_aval, numpy_pick=_stack_pick)


def _unstack_aval(operand, *, axis):
    if not 0 <= axis < operand.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {operand.ndim}")
    part = with_shape(operand, operand.shape[:axis] + operand.shape[axis + 1 :])
    return [part] * operand.shape[axis]


def _unstack_pick(avals, *, axis):
    places = [(slice(None),) * axis + (i,) for i in range(avals[0].shape[axis])]
    return lambda x: [x[place] for place in places]


unstack_p = Primitive(
    "unstack", Kind.VIEW, aval=_unstack_aval, numpy_pick=_unstack_pick, multiple_results=True
)


def _split_aval(operand, *, sizes, axis):
    if not 0 <= axis < operand.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {operand.ndim}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    shape = operand.shape
    if sum(sizes) != shape[axis]:
        raise ValueError(
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape "
            f"{list(shape)}"
        )
    return [with_shape(operand, (*shape[:axis], n, *shape[axis + 1 :])) for n in sizes]


def _split_pick(avals, *, sizes, axis):
    ends = list(accumulate(sizes))
    before = (slice(None),) * axis
    places = [(*before, slice(end - n, end)) for n, end in zip(sizes, ends)]
    return lambda x: [x[place] for place in places]


split_p = Primitive(
    "split", Kind.VIEW, aval=_split_aval, numpy_pick=_split_pick, multiple_results=True
)


def _tile_aval(operand, *, reps):
    if len(reps) != operand.ndim:
        raise TypeError(
            f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and "
            f"x.ndim={operand.ndim}."
        )
    check_nonnegative("tile", "reps", reps)
    return with_shape(operand, [n * r for n, r in zip(operand.shape, reps)])


def _tile_pick(avals, *, reps):
    (operand,) = avals
    shape = _tile_aval(operand, reps=reps).shape
    single = tuple(k for n in operand.shape for k in (1, n))
    repeated = tuple(k for n, r in zip(operand.shape, reps) for k in (r, n))
    return lambda x: np.array(np.broadcast_to(x.reshape(single), repeated)).reshape(shape)


tile_p = Primitive("tile", Kind.MOVEMENT, aval=_tile_aval, numpy_pick=_tile_pick)


def check_start_indices(op: str, starts: Sequence[ShapedArray]) -> None:
    """Start indices are scalars of one integer dtype."""
    if any(s.ndim for s in starts):
        raise TypeError(
            f"start_indices arguments to {op} must be scalars, got indices with shapes "
            f"{_listed(starts)}"
        )
    if len({s.dtype for s in starts}) > 1 or any(
        not dtypes.issubdtype(s.dtype, np.integer) for s in starts
    ):
        raise TypeError(
            f"index arguments to {op} must be integers of the same type, got: "
            f"{', '.join(s.dtype.name for s in starts)}. Convert them with .astype('int32')."
        )


def _dynamic_slice_aval(operand, *starts, slice_sizes):
    shape = operand.shape
    if len(starts) != len(shape):
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {shape})"
        )
    if len(slice_sizes) != len(shape):
        raise TypeError(
            "dynamic_slice slice_sizes must have the same length as start_indices, got "
            f"slice_sizes {slice_sizes} for operand shape {shape}."
        )
    if any(k > n for k, n in zip(slice_sizes, shape)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{slice_sizes} for operand shape {shape}."
        )
    if any(k < 0 for k in slice_sizes):
        raise TypeError(
            "slice slice_sizes must be greater than or equal to zero, got slice_sizes of "
            f"{slice_sizes}."
        )
    check_start_indices("dynamic_slice", starts)
    return with_shape(operand, slice_sizes)


def _windows(shape, sizes):
    """A function from start scalars to the index of a window, moved inside if it sticks out."""
    limits = [(n - k, k) for n, k in zip(shape, sizes)]

    def window(starts):
        index = []
        for start, (most, size) in zip(starts, limits):
            begin = min(max(int(start), 0), most)
            index.append(slice(begin, begin + size))
        return tuple(index)

    return window


def _dynamic_slice_pick(avals, *, slice_sizes):
    window = _windows(avals[0].shape, slice_sizes)
    return lambda x, *starts: x[window(starts)].copy()


dynamic_slice_p = Primitive(
    "dynamic_slice", Kind.MOVEMENT, aval=_dynamic_slice_aval, numpy_pick=_dynamic_slice_pick
)


def _dynamic_update_slice_aval(operand, update, *starts):
    op = "dynamic_update_slice"
    if operand.ndim != update.ndim:
        raise TypeError(
            f"{op} update must have the same rank as operand, got update shape {update.shape} for "
            f"operand shape {operand.shape}."
        )
    if len(starts) != operand.ndim:
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {operand.shape})"
        )
    if any(k > n for k, n in zip(update.shape, operand.shape)):
        raise TypeError(
            f"{op} update shape must be smaller than operand shape, got update shape "
            f"{update.shape} for operand shape {operand.shape}."
        )
    check_same_dtypes(op, [operand, update])
    check_start_indices(op, starts)
    return ShapedArray(operand.shape, operand.dtype, operand.weak_type and update.weak_type)


def _dynamic_update_slice_pick(avals, inplace: bool = False):
    window = _windows(avals[0].shape, avals[1].shape)

    def update_slice(x, update, *starts):
        out = x if inplace else np.array(x)
        out[window(starts)] = update
        return out

    return update_slice


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    Kind.MOVEMENT,
    aval=_dynamic_update_slice_aval,
    numpy_pick=_dynamic_update_slice_pick,
    inplace=lambda avals: _dynamic_update_slice_pick(avals, inplace=True),
)
