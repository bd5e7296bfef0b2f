"""Functions on the bits of elements: logic, shifts, counting, and reading them as another type.

Floor 6. In: arrays, NumPy values and Python scalars. Out: one bound primitive a function.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, binary, unary
from gpuarray.lax.args import operand as as_operand
from gpuarray.primitives.elementwise.bits import (
    and_p,
    bitcast_convert_type_p,
    clz_p,
    mulhi_p,
    not_p,
    or_p,
    population_count_p,
    reduce_precision_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    xor_p,
)
from gpuarray.util import index


def bitwise_not(x: ArrayLike) -> Array:
    """x with every bit flipped; the logical not of bools.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.bitwise_not(5)
    Array(-6, dtype=int32, weak_type=True)
    """
    return unary(not_p, x)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in both x and y.

    Both are integers or bools of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return binary(and_p, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in x, in y, or in both.

    Both are integers or bools of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """
    return binary(or_p, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in exactly one of x and y.

    Both are integers or bools of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """
    return binary(xor_p, x, y)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted y bits to the left; 0 where y is at least the number of bits.

    Both are integers of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.shift_left(3, 2)
    Array(12, dtype=int32, weak_type=True)
    """
    return binary(shift_left_p, x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted y bits to the right, zeros moving in.

    Both are integers of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.shift_right_logical(-1, 28)
    Array(15, dtype=int32, weak_type=True)
    """
    return binary(shift_right_logical_p, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted y bits to the right, copies of the highest bit moving in.

    Both are integers of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.shift_right_arithmetic(-8, 2)
    Array(-2, dtype=int32, weak_type=True)
    """
    return binary(shift_right_arithmetic_p, x, y)


def population_count(x: ArrayLike) -> Array:
    """The number of bits of x that are 1.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.population_count(7)
    Array(3, dtype=int32, weak_type=True)
    """
    return unary(population_count_p, x)


def clz(x: ArrayLike) -> Array:
    """The number of leading zero bits of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.clz(1)
    Array(31, dtype=int32, weak_type=True)
    """
    return unary(clz_p, x)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the product of x and y, computed at twice their width.

    Both are integers of one dtype; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.mulhi(1 << 30, 8)
    Array(2, dtype=int32, weak_type=True)
    """
    return binary(mulhi_p, x, y)


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The bits of each element read as another type.

    Same width: the shape stays. A narrower type adds a last axis (lowest bits first); a wider one
    takes the last axis away, which must hold one new element.

    >>> from gpuarray import lax
    >>> lax.bitcast_convert_type(1.0, "int32")
    Array(1065353216, dtype=int32)
    """
    new_dtype = dtypes.requested_dtype(new_dtype, "bitcast_convert_type")
    value = as_operand("bitcast_convert_type", operand)
    return bitcast_convert_type_p.bind(value, new_dtype=new_dtype)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round floats to a format with the given numbers of exponent and mantissa bits.

    The result has the shape and dtype of `operand`.

    >>> from gpuarray import lax
    >>> lax.reduce_precision(3.14159, 5, 2)
    Array(3., dtype=float32, weak_type=True)
    """
    return reduce_precision_p.bind(
        as_operand("reduce_precision", operand),
        exponent_bits=index(exponent_bits),
        mantissa_bits=index(mantissa_bits),
    )
