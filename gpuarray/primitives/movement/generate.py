"""Arrays without operands: `iota`, `empty`, and a device's own random numbers.

Floor 2. In: a shape and a dtype. Out: an array in which each element depends on its index alone
(`iota`), is 0 (`empty`), or comes from the generator behind `rng_uniform`.
"""

from __future__ import annotations

import functools

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import once
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, Kind, Primitive, Sentinel
from gpuarray.primitives.define import COMPLEX, FLOATING, INTEGER, check_dtype
from gpuarray.primitives.movement import elements
from gpuarray.primitives.movement.factors import empty_factors, iota_factors
from gpuarray.primitives.movement.shapes import check_nonnegative


def _iota_aval(*, dtype, shape, dimension, sharding=None):
    check_dtype("iota", dtype, INTEGER | FLOATING | COMPLEX)
    check_nonnegative("iota", "shape", shape)
    if not 0 <= dimension < len(shape):
        raise ValueError(
            f"iota dimension must be between 0 and len(shape), got dimension={dimension} for "
            f"shape={shape}"
        )
    return ShapedArray(shape, dtype)


def _iota_pick(avals, *, dtype, shape, dimension, sharding=None):
    # Counted along one axis, and repeated along the others.
    length = shape[dimension]
    column = [1] * len(shape)
    column[dimension] = length
    # Types in which np.arange counts exactly as a conversion of the counter would.
    wide = np.dtype(dtype).kind in "iufc" and np.dtype(dtype).itemsize >= 4

    def iota():
        # Narrow types count in int64 first: each value wraps or rounds, not the running count.
        counted = np.arange(length, dtype=dtype) if wide else np.arange(length).astype(dtype)
        if len(shape) == 1:
            return counted
        # A view: the count repeats along the other axes without memory.
        return np.broadcast_to(counted.reshape(column), shape)

    return iota


def _iota_text(avals, *, dtype, shape, dimension, sharding=None) -> str:
    """Return the text of an element; {0} is its position along the counted axis."""
    # Braces are doubled, since the text is a format template.
    if dtypes.kind_of(dtype) == "c":
        return f"{{T}}{{{{({'float' if dtype.itemsize == 8 else 'double'}){{0}}, 0}}}}"
    return "({T}){0}"


#: Without operands there is nothing to batch: the rule is never called.
_NO_OPERANDS = Sentinel("NO_OPERANDS", "the operation has no operands")
_ONE_INTERVAL = Sentinel(
    "ONE_INTERVAL",
    "the device's own generator takes one pair of bounds. Draw from the unit interval and scale, "
    "or use gpuarray.random.uniform, whose bounds may be arrays",
)

iota_p = Primitive(
    "iota",
    Kind.GENERATOR,
    element=elements.IOTA,
    aval=_iota_aval,
    numpy_pick=_iota_pick,
    cuda=_iota_text,
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_DIFFERENTIABLE,
    batch=_NO_OPERANDS,
    factors=iota_factors,
)


def _empty_aval(*, shape, dtype, out_sharding=None):
    check_nonnegative("empty", "shape", shape)
    return ShapedArray(shape, dtype)


def _zeros(*, shape, dtype, out_sharding=None):
    # Keys are stored as integers.
    return np.zeros(shape, getattr(dtype, "storage", dtype))


def _zero_text(avals, *, dtype, **_) -> str:
    return "{T}{{0, 0}}" if np.dtype(getattr(dtype, "storage", dtype)).kind == "c" else "({T})0"


# Zeros, so that a program which reads them gives the same answer every time.
empty_p = Primitive(
    "empty",
    Kind.GENERATOR,
    element=elements.EMPTY,
    aval=_empty_aval,
    numpy=_zeros,
    cuda=_zero_text,
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_DIFFERENTIABLE,
    batch=_NO_OPERANDS,
    factors=empty_factors,
)


def _rng_uniform_aval(low, high, *, shape):
    if low.dtype != high.dtype:
        raise ValueError(
            "Arguments to rng_uniform must have identical dtypes, got "
            f"{low.dtype.name} and {high.dtype.name}."
        )
    if low.ndim or high.ndim:
        raise ValueError(
            f"Arguments to rng_uniform must be scalars; got shapes {low.shape} and {high.shape}."
        )
    check_dtype("rng_uniform", low.dtype, INTEGER | FLOATING)
    check_nonnegative("rng_uniform", "shape", shape)
    return ShapedArray(shape, low.dtype, low.weak_type and high.weak_type)


@functools.cache
def _generator() -> np.random.Generator:
    """Return the generator behind every call, seeded anew in each process."""
    # Made at the first call: NumPy loads its random module then.
    return np.random.Generator(np.random.Philox(0))


def _rng_uniform_pick(avals, *, shape):
    dtype = avals[0].dtype
    # Integers come from NumPy's own rule, which has no bias.
    if dtypes.kind_of(dtype) in "iu":
        return lambda low, high: (
            # NumPy refuses an empty interval: it is given one value.
            _generator().integers(int(low), max(int(high), int(low) + 1), shape).astype(dtype)
        )
    wide = np.float64 if dtype == np.float64 else np.float32

    def uniform(low, high):
        unit = _generator().random(shape, wide)
        low, high = wide(low), wide(high)
        values = (low + unit * (high - low)).astype(dtype)
        # Rounding may reach `high`, which does not belong to the interval.
        return np.where(values.astype(wide) < high, values, dtype.type(low))

    return uniform


rng_uniform_p = Primitive(
    "rng_uniform",
    Kind.LIBRARY,
    aval=_rng_uniform_aval,
    numpy_pick=_rng_uniform_pick,
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_DIFFERENTIABLE,
    batch=_ONE_INTERVAL,
    factors=once("every call draws the next numbers of one generator"),
)
