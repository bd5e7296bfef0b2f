"""Shape rules of index maps, which check every parameter.

Floor 2. In: avals and parameters. Out: the aval of the result, or an error that names the
parameter, its value and the valid ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import larger
from gpuarray.primitives.define import check_same_dtypes


def with_shape(aval: ShapedArray, shape) -> ShapedArray:
    """Return `aval` with another shape."""
    # Moving elements keeps dtype and weak type.
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type)


def is_permutation(axes: Sequence[int], ndim: int) -> bool:
    return sorted(axes) == list(range(ndim))


def check_nonnegative(op: str, what: str, values) -> None:
    if any(v < 0 for v in values):
        raise TypeError(f"{op} {what} must have every element be nonnegative, got {tuple(values)}.")


def broadcast_aval(operand, *, shape, broadcast_dimensions, sharding=None):
    # Unlike numpy.broadcast_to, each operand axis names its axis of the result.
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
    # Only length 1 stretches.
    if any(n not in (1, shape[d]) for n, d in zip(operand.shape, given)):
        raise TypeError(
            f"{op} operand dimension sizes must either be 1, or be equal to their corresponding "
            f"dimensions in the target broadcast shape; got operand of shape {operand.shape}, "
            f"target broadcast shape {shape}, broadcast_dimensions {given}."
        )
    return with_shape(operand, shape)


def reshape_aval(operand, *, new_sizes, dimensions=None, sharding=None):
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


def squeeze_aval(operand, *, dimensions):
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


def transpose_aval(operand, *, permutation):
    if not is_permutation(permutation, operand.ndim):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{permutation} for operand shape {operand.shape}."
        )
    return with_shape(operand, [operand.shape[d] for d in permutation])


def slice_aval(operand, *, start_indices, limit_indices, strides=None):
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
    # Rounded up: a last partial step still yields an element.
    lengths = [-((a - b) // s) for a, b, s in zip(start_indices, limit_indices, strides)]
    return with_shape(operand, lengths)


def rev_aval(operand, *, dimensions):
    check_nonnegative("rev", "dimensions", dimensions)
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if any(d >= operand.ndim for d in dimensions):
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {dimensions} for "
            f"operand ndim {operand.ndim}."
        )
    return operand


def pad_aval(operand, padding_value, *, padding_config):
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
    # Negative padding cuts off, at most all there is.
    shape = padded_shape(operand.shape, padding_config)
    if any(n < 0 for n in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, for "
            f"padding_config {padding_config} and operand shape {operand.shape}"
        )
    # Weak only if all values in the result are.
    return ShapedArray(shape, operand.dtype, operand.weak_type and padding_value.weak_type)


def padded_shape(shape, config) -> tuple[int, ...]:
    """Return the shape after (low, high, interior) padding; low and high may be negative."""
    # Interior padding goes between elements, so there is one less than there are elements.
    return tuple(
        lo + n + hi + (larger(n - 1, 0) * i if i else 0) for n, (lo, hi, i) in zip(shape, config)
    )


def listed(avals) -> str:
    return ", ".join(str(a.shape) for a in avals)


def concatenate_aval(*operands, dimension):
    if not operands:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    first = operands[0]
    if len({a.ndim for a in operands}) != 1:
        raise TypeError(
            "Cannot concatenate arrays with different numbers of dimensions: got "
            f"{listed(operands)}."
        )
    if not 0 <= dimension < first.ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes "
            f"{listed(operands)}."
        )
    # All axes but the concatenated one must agree.
    rest = first.shape[:dimension], first.shape[dimension + 1 :]
    if any((a.shape[:dimension], a.shape[dimension + 1 :]) != rest for a in operands):
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {dimension} for shapes "
            f"{listed(operands)}."
        )
    check_same_dtypes("concatenate", operands)
    total = sum(a.shape[dimension] for a in operands)
    weak = all(a.weak_type for a in operands)
    return ShapedArray((*rest[0], total, *rest[1]), first.dtype, weak)


def stack_aval(*operands, axis):
    if not operands:
        raise ValueError("stack requires a non-empty sequence of arrays")
    first = operands[0]
    if len({a.ndim for a in operands}) != 1:
        raise ValueError(
            f"Cannot stack arrays with different numbers of dimensions: got {listed(operands)}."
        )
    if any(a.shape != first.shape for a in operands):
        raise ValueError(f"stack requires arrays of one shape, got {listed(operands)}.")
    if not 0 <= axis <= first.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {first.ndim + 1}")
    check_same_dtypes("stack", operands)
    shape = (*first.shape[:axis], len(operands), *first.shape[axis:])
    return ShapedArray(shape, first.dtype, all(a.weak_type for a in operands))


def unstack_aval(operand, *, axis):
    if not 0 <= axis < operand.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {operand.ndim}")
    # Every piece lacks the axis.
    part = with_shape(operand, operand.shape[:axis] + operand.shape[axis + 1 :])
    return [part] * operand.shape[axis]


def split_aval(operand, *, sizes, axis):
    if not 0 <= axis < operand.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {operand.ndim}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    shape = operand.shape
    # The sizes must add up to the axis.
    if sum(sizes) != shape[axis]:
        raise ValueError(
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape "
            f"{list(shape)}"
        )
    return [with_shape(operand, (*shape[:axis], n, *shape[axis + 1 :])) for n in sizes]


def tile_aval(operand, *, reps):
    if len(reps) != operand.ndim:
        raise TypeError(
            f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and "
            f"x.ndim={operand.ndim}."
        )
    check_nonnegative("tile", "reps", reps)
    return with_shape(operand, [n * r for n, r in zip(operand.shape, reps)])


def check_start_indices(op: str, starts: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless start indices are scalars of one integer dtype."""
    if any(s.ndim for s in starts):
        raise TypeError(
            f"start_indices arguments to {op} must be scalars, got indices with shapes "
            f"{listed(starts)}"
        )
    if len({s.dtype for s in starts}) > 1 or any(
        not dtypes.issubdtype(s.dtype, np.integer) for s in starts
    ):
        raise TypeError(
            f"index arguments to {op} must be integers of the same type, got: "
            f"{', '.join(s.dtype.name for s in starts)}. Convert them with .astype('int32')."
        )


def dynamic_slice_aval(operand, *starts, slice_sizes):
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


def dynamic_update_slice_aval(operand, update, *starts):
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
