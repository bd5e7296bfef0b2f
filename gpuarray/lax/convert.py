"""Functions that change the element type: conversion, complex numbers and their parts.

Floor 6. In: arrays, NumPy values and Python scalars. Out: bound primitives, or the operand itself
if no conversion is needed.
"""

from __future__ import annotations

import builtins
import warnings
from typing import Any

import numpy as np

from gpuarray.core import dtypes, trace
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, binary, unary
from gpuarray.lax.args import operand as as_operand
from gpuarray.primitives.elementwise.convert import (
    complex_p,
    conj_p,
    convert_element_type_p,
    imag_p,
    real_p,
)
from gpuarray.primitives.elementwise.extended import from_edtype_p, to_edtype_p
from gpuarray.runtime.host import from_host


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The elements as another type: floats saturate into an integer's range, integers wrap.

    The result has the shape of `operand` and the requested dtype, and is not weakly typed.

    >>> from gpuarray import lax
    >>> lax.convert_element_type(2.75, int)
    Array(2, dtype=int32)
    >>> lax.convert_element_type(300, "uint8")
    Array(44, dtype=uint8)
    """
    if new_dtype is None:
        raise ValueError("dtype must be specified: convert_element_type(x, new_dtype)")
    new_dtype = dtypes.requested_dtype(new_dtype, "convert_element_type")
    return convert(operand, new_dtype, stacklevel=3)


def convert(
    operand: ArrayLike, new_dtype: Any, weak_type: bool = False, stacklevel: int = 2
) -> Array:
    """`convert_element_type` to a dtype that is known to be canonical, weakly typed if need be.

    >>> from gpuarray import lax
    >>> lax.convert.convert(1, np.dtype("float32"), weak_type=True)
    Array(1., dtype=float32, weak_type=True)
    """
    operand = as_operand("convert_element_type", operand)
    aval = aval_of(operand)
    concrete = not isinstance(operand, Array)
    # Nothing to do: no equation is recorded.
    if not concrete and aval.dtype == new_dtype and aval.weak_type == weak_type:
        return operand  # pyright: ignore[reportReturnType]
    if isinstance(new_dtype, dtypes.ExtendedDType) or isinstance(aval.dtype, dtypes.ExtendedDType):
        return _extended(operand, aval.dtype, new_dtype)
    # As NumPy warns; JAX too.
    old_kind, new_kind = dtypes.kind_of(aval.dtype), dtypes.kind_of(new_dtype)
    # NumPy discards the imaginary part with the same warning.
    if old_kind == "c" and new_kind != "c" and type(operand) is not builtins.complex:
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=stacklevel,
        )
    params = {"new_dtype": new_dtype, "weak_type": weak_type, "sharding": None}
    if concrete:  # a constant of the program: it is converted here, not by the traced function
        with trace.base_trace(), np.errstate(all="ignore"):
            value = host_constant(operand, new_dtype)
            if dtypes.is_beyond(new_dtype):
                return from_host(value, ShapedArray(value.shape, new_dtype, weak_type))
            return convert_element_type_p.bind(value, **params)
    return convert_element_type_p.bind(operand, **params)


def _extended(x: Any, old: Any, new: Any) -> Any:
    # Conversions from and to numbers: the axes of one element come last.
    if old == new:
        return x
    if not isinstance(old, dtypes.ExtendedDType):
        _check_allowed(old, new, new, "convert_to")
        return to_edtype_p.bind(x, edtype=new)
    if isinstance(new, dtypes.ExtendedDType):
        raise ValueError(
            f"convert_element_type cannot directly convert between extended dtypes, from "
            f"{old.name} to {new.name}: convert to the numbers that the first is made of, then to "
            "the second."
        )
    _check_allowed(old, new, old, "convert_from")
    return from_edtype_p.bind(x, dtype=new)


def _check_allowed(old: Any, new: Any, edtype: Any, by: str) -> None:
    """Check by the rules of an extended dtype whether the conversion is allowed."""
    older = edtype.rule(by)
    if not (edtype.rule("allow_conversion") if older is None else older(old, new)):
        keys = isinstance(edtype, dtypes.KeyDtype)
        hint = "Use gpuarray.random.key_data and wrap_key_data to open and close random keys."
        raise ValueError(
            f"Cannot convert_element_type from {old.name} to {new.name}."
            + (f" {hint}" if keys else " The rules of the extended dtype do not allow it.")
        )


def host_constant(value, new_dtype) -> np.ndarray:
    """A host value in another type, as arrays convert: narrowed once, from its full width.

    >>> from gpuarray import lax
    >>> lax.convert.host_constant(300.7, np.dtype("int8"))[()]
    np.int8(127)
    """
    # float(1e300) as float16 is inf either way, but a detour over float32 would round twice.
    full = np.asarray(value)
    kind = dtypes.kind_of(new_dtype)
    # A Python int of more than 64 bits.
    if full.dtype == object and kind in ("f", "c"):
        full = np.asarray(float(value))
    elif full.dtype == object:
        raise OverflowError(f"Python int {value} too large to convert to {new_dtype.name}")
    if full.dtype.kind == "c" and kind == "b":
        return full != 0  # zero only where both parts are
    if type(value) is builtins.complex and kind in "iuf":
        raise TypeError(f"{value} is complex, {new_dtype.name} is not: take its .real")
    params = {"new_dtype": new_dtype, "weak_type": False}
    return convert_element_type_p.numpy_function([ShapedArray((), full.dtype)], params)(full)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + iy, from the real and the imaginary part.

    Both are of float32 or of float64; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.complex(1.0, 2.0)
    Array(1.+2.j, dtype=complex64, weak_type=True)
    """
    return binary(complex_p, x, y)


def real(x: ArrayLike) -> Array:
    """The real part of x.

    `x` is complex; the result has its shape and its parts' dtype.

    >>> from gpuarray import lax
    >>> lax.real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    return unary(real_p, x)


def imag(x: ArrayLike) -> Array:
    """The imaginary part of x.

    `x` is complex; the result has its shape and its parts' dtype.

    >>> from gpuarray import lax
    >>> lax.imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    return unary(imag_p, x)


def conj(x: ArrayLike) -> Array:
    """The complex conjugate of x; a real x becomes complex.

    The result has the shape of `x` and a complex dtype.

    >>> from gpuarray import lax
    >>> lax.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    x = as_operand("conj", x)
    return conj_p.bind(x, input_dtype=aval_of(x).dtype)
