"""Values of linear maps: symbolic zeros, and the avals of derivatives.

Floor 1. In: avals. Out: `Zero`, a tangent or cotangent that is zero everywhere and takes no memory.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray


class Zero:
    """A tangent or cotangent that is zero everywhere."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short(short_dtypes=True)})"


class Undefined:
    """An operand whose cotangent a transpose rule must return: only its aval is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Undefined({self.aval.str_short(short_dtypes=True)})"


def check_defined(x: Any, operation: str) -> None:
    """Raise TypeError where a transpose rule needs the value of an operand it is linear in."""
    if type(x) is Undefined:
        raise TypeError(
            f"cannot transpose a function that is not linear: {operation} was given a value of "
            f"type {x.aval.str_short()} that depends on the arguments, where transposing needs it "
            "known. A product of two such values, or a quotient by one, is not linear."
        )


def is_undefined(x: Any) -> bool:
    """Whether a transpose rule must return the cotangent of this operand."""
    return type(x) is Undefined


def is_zero(x: Any) -> bool:
    """Whether a tangent or cotangent is a symbolic zero."""
    return type(x) is Zero


def is_inexact(aval: ShapedArray) -> bool:
    """Whether values of this aval have derivatives."""
    return dtypes.tangent_dtype(aval.dtype) != dtypes.float0


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """Return the aval of tangents: the same for floats and complex numbers, else float0."""
    dtype = dtypes.tangent_dtype(aval.dtype)
    return aval if dtype == aval.dtype else ShapedArray(aval.shape, dtype)
