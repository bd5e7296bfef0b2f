"""Pointwise primitives that change the element type: conversion, complex numbers and their parts.

Floor 2. In: avals, NumPy. Out: primitives that convert as the machine does: floats saturate into
the integer's range and nan becomes 0, integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Atom, Eqn, Var
from gpuarray.core.linear import Zero, is_inexact, is_undefined, tangent_aval
from gpuarray.core.primitive import LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.cuda_rules import by_class
from gpuarray.primitives.define import COMPLEX, do, elementwise, hide_defaults
from gpuarray.primitives.linear import share_of
from gpuarray.primitives.numpy_rules import WITHOUT_NAN, fresh, is_foreign, join, without_nan

# ---- element types ----


def _convert_aval(x: ShapedArray, *, new_dtype, weak_type: bool, sharding=None) -> ShapedArray:
    # Extended dtypes are opaque: `to_edtype` and `from_edtype` (extended.py) make and open them.
    if x.dtype != new_dtype and any(
        isinstance(d, dtypes.ExtendedDType) for d in (x.dtype, new_dtype)
    ):
        raise ValueError(f"Cannot convert_element_type from {x.dtype.name} to {new_dtype.name}.")
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_pick(avals, *, new_dtype, weak_type, sharding=None):
    old = avals[0].dtype
    # No conversion, but the result must not share the operand's memory.
    if old == new_dtype:
        return fresh
    source, target = dtypes.kind_of(old), dtypes.kind_of(new_dtype)
    # As in JAX, the imaginary part is dropped without a warning.
    if source == "c" and target != "c":
        rule = _real_rule(dtypes.to_real_dtype(old), new_dtype)
        return lambda x: rule(x.real)
    return _real_rule(old, new_dtype)


def _real_rule(old, new):
    source, target = dtypes.kind_of(old), dtypes.kind_of(new)
    if target == "b":
        # Not astype(bool), which the narrow floats lack; nan is true.
        return lambda x: x != x.dtype.type(0)
    if source == "f" and target in "iu":
        return lambda x: float_to_int(x, new)
    if source == "f" and new in WITHOUT_NAN:
        return lambda x: without_nan(x.astype(np.float32) if is_foreign(old) else x, new)
    if target == "c" and source == "f" and old.itemsize < 4:
        # not every narrow float converts to complex
        return lambda x: x.astype(np.float32).astype(new)
    if old.itemsize == new.itemsize == 1 and is_foreign(old) and is_foreign(new):
        # Not all types of ml_dtypes convert to one another; the intermediate type holds their
        # values.
        between = np.dtype(np.float32 if target == "f" else np.int32)
        return lambda x: x.astype(between).astype(new)
    return lambda x: x.astype(new)


def float_to_int(x, dtype):
    """Convert floats to integers of `dtype` towards zero; nan gives 0, out of range saturates.

    >>> with np.errstate(invalid="ignore"):
    ...     float_to_int(np.array([2.7, -2.7, 300.0, np.nan], np.float32), np.dtype("int8"))
    array([  2,  -2, 127,   0], dtype=int8)
    """
    x = np.asarray(x)
    # NumPy's narrow floats have no conversion to every integer type.
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    bits = dtypes.itemsize_bits(dtype)
    signed = dtypes.kind_of(dtype) == "i"
    # Two halves of the range, each within int64.
    if bits == 64 and not signed:
        half = 2.0**63
        low = _to_signed(np.where(x < half, x, 0), np.int64)
        high = _to_signed(np.where(x < half, 0, x - half), np.int64)
        top = (high.astype(np.uint64) + np.uint64(2**63)).astype(np.uint64)
        return np.where(
            x >= half, np.where(x >= 2 * half, np.uint64(2**64 - 1), top), _positive(low)
        )
    # Wide enough that clipping afterwards sees the true value: uint32 needs int64.
    wide = _to_signed(x, np.int32 if bits < 32 or (bits == 32 and signed) else np.int64)
    # The target's own range: it is saturated already.
    if bits == 8 * wide.dtype.itemsize:
        return wide
    lowest, highest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return wide.clip(lowest, highest).astype(dtype)


def _positive(x):
    # Negative numbers saturate at 0.
    return np.maximum(x, 0).astype(np.uint64)


def _to_signed(x, dtype):
    """Convert floats to int32 or int64, saturating."""
    out = np.asarray(x.astype(dtype))
    lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
    # Processors mark values that did not fit (nan included) with the lowest integer, or saturate as
    # required: only marked elements need a second look.
    marked = out == lowest
    if marked.any():
        bad = x[marked]
        out[marked] = np.where(np.isnan(bad), 0, np.where(bad > 0, highest, lowest)).astype(dtype)
    return out


# No tangent passes to integers.
def _convert_jvp(primals, tangents, **params):
    out = do.convert_element_type(*primals, **params)
    if not is_inexact(aval_of(out)):
        return out, Zero(tangent_aval(aval_of(out)))
    return out, do.convert_element_type(*tangents, **params)


def _convert_transpose(ct, x, *, new_dtype, weak_type, sharding=None):
    old = x.aval
    back = do.convert_element_type(
        ct, new_dtype=old.dtype, weak_type=old.weak_type, sharding=sharding
    )
    return (back,)


def _convert_text(avals, *, new_dtype, weak_type, sharding=None) -> str:
    old = avals[0].dtype
    if old == new_dtype:
        return "{0}"
    source, target = dtypes.kind_of(old), dtypes.kind_of(new_dtype)
    # The imaginary part is dropped, unless the result is complex.
    if source == "c":
        if target == "c":
            return "ga_slim({0})" if new_dtype.itemsize == 8 else "ga_wide({0})"
        real = dtypes.to_real_dtype(old)
        inner = _convert_text([ShapedArray((), real)], new_dtype=new_dtype, weak_type=weak_type)
        return inner.format("{0}.re", T="{T}")
    if target == "b":
        return "{0} != 0"
    if target == "c":
        part = "float" if new_dtype.itemsize == 8 else "double"
        return f"{{T}}{{{{({part}){{0}}, 0}}}}"
    if source == "f" and target in "iu":
        text, bits = "ga_saturate<{T}>({0})", dtypes.itemsize_bits(new_dtype)
        if bits < 8:  # a register holds them as int
            ends = dtypes.iinfo(new_dtype)
            return f"ga_max(ga_min({text}, {ends.max}), {ends.min})"
        return text
    # Round to odd on the way through float, so that the two roundings equal one.
    if old == dtypes.float64 and new_dtype == dtypes.float16:
        return "ga_odd({0})"
    return "({T}){0}"


def _unconverted(eqn: Eqn) -> Atom | None:
    a = eqn.invars[0]
    return a if a.aval.dtype == eqn.outvars[0].aval.dtype else None


#: Digits of floats in base 2: integers of so many bits are exact.
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _is_exact(old, new) -> bool:
    """Whether each value of a dtype is one of another, by dtypes that hold numbers alone."""
    one, two = dtypes.kind_of(old), dtypes.kind_of(new)
    if one == "b":
        return two in "iuf"
    if one in "iu" and two == "f" and new.name in _DIGITS:
        return dtypes.itemsize_bits(old) <= _DIGITS[new.name]
    if one == two == "f":
        return (
            old.name in ("float16", "bfloat16")
            and new.name in ("float32", "float64")
            or (old.name == "float32" and new.name == "float64")
        )
    if one not in "iu" or two not in "iu" or one + two == "iu":
        return False
    # Of the bits of a signed integer one is the sign's.
    return dtypes.itemsize_bits(old) + (one != two) <= dtypes.itemsize_bits(new)


def _converted_before(eqn: Eqn, maker: Callable[[Atom], Eqn | None]) -> Atom | Eqn | None:
    """Return the conversion of what was converted to a dtype that has all of its values."""
    before = maker(eqn.invars[0])
    if before is None or before.primitive is not convert_element_type_p:
        return None
    (a,), new = before.invars, eqn.outvars[0].aval.dtype
    kinds = (a.aval.dtype, before.outvars[0].aval.dtype, new)
    if any(isinstance(d, dtypes.ExtendedDType) for d in kinds) or not _is_exact(*kinds[:2]):
        return None
    return a if a.aval.dtype == new else eqn.replace(invars=[a])


convert_element_type_p = Primitive(
    "convert_element_type",
    Kind.POINTWISE,
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    aval=_convert_aval,
    numpy_pick=_convert_pick,
    cuda=_convert_text,
    show=hide_defaults({"sharding": None}),
    rewrite=Rewrite(same_as=_unconverted, seen_through=_converted_before, algebra="conversion"),
)


def conversion(a: Atom, dtype: np.dtype, site: Any, out: Var | None = None) -> Eqn:
    """The equation that converts `a` to another type."""
    params = {"new_dtype": dtype, "weak_type": False, "sharding": None}
    return Eqn(convert_element_type_p, [a], [out or Var(a.aval.update(dtype=dtype))], params, site)


# ---- complex numbers ----

# The dtypes of the parts of complex numbers.
_PARTS = ("float32", "float64")


def _check_parts(*avals: ShapedArray) -> None:
    for position, a in enumerate(avals):
        if a.dtype.name not in _PARTS:
            raise TypeError(
                f"complex does not accept dtype {a.dtype.name} at position {position}. Accepted "
                f"dtypes at position {position} are subtypes of float32, float64: convert it first."
            )
    if avals[0].dtype != avals[1].dtype:
        raise TypeError(
            "lax.complex requires arguments to have the same dtypes, got "
            f"{avals[0].dtype.name}, {avals[1].dtype.name}."
        )


def _check_conj(x: ShapedArray, **_: Any) -> None:
    # conj of a real number makes a complex one, so its dtype must have one.
    if x.dtype.name not in _PARTS and dtypes.kind_of(x.dtype) != "c":
        raise TypeError(
            f"conj does not accept dtype {x.dtype.name}. Accepted dtypes are subtypes of float32, "
            "float64, complexfloating: convert it first."
        )


def _to_complex(dtype, *_, **__):
    return dtypes.to_complex_dtype(dtype)


def _to_real(dtype):
    return dtypes.to_real_dtype(dtype)


def _real_as_complex(x):
    return x.astype(dtypes.to_complex_dtype(x.dtype))


def _complex_transpose(ct, x, y):
    # Linear over the reals: <ct, x + iy> without conjugation, hence the sign of y's part.
    return (
        share_of(do.real(ct), x) if is_undefined(x) else None,
        share_of(do.imag(do.neg(ct)), y) if is_undefined(y) else None,
    )


def _conj_transpose(ct, x, *, input_dtype):
    # The transpose of real -> complex keeps the real part.
    is_complex = dtypes.kind_of(x.aval.dtype) == "c"
    return (do.conj(ct, input_dtype=input_dtype) if is_complex else do.real(ct),)


complex_p = elementwise(
    "complex",
    jvp=LINEAR,
    transpose=_complex_transpose,
    arity=2,
    same=False,
    check=_check_parts,
    result=_to_complex,
    numpy=lambda x, y: join(x, y, dtypes.to_complex_dtype(x.dtype)),
    cuda="{T}{{{0}, {1}}}",
)


def _strong_zero(x):
    """Return a strongly typed 0: the parts of a complex number are never weakly typed."""
    return aval_of(x).dtype.type(0)


real_p = elementwise(
    "real",
    jvp=LINEAR,
    transpose=lambda ct, x: (do.complex(ct, _strong_zero(ct)),),
    dtypes=COMPLEX,
    result=_to_real,
    numpy=lambda x: x.real.copy(),
    cuda="{0}.re",
)
imag_p = elementwise(
    "imag",
    jvp=LINEAR,
    transpose=lambda ct, x: (do.complex(_strong_zero(ct), do.neg(ct)),),
    dtypes=COMPLEX,
    result=_to_real,
    numpy=lambda x: x.imag.copy(),
    cuda="{0}.im",
)
# `input_dtype` is the operand's type before conjugation: its tangents have that type.
conj_p = elementwise(
    "conj",
    jvp=LINEAR,
    transpose=_conj_transpose,
    check=_check_conj,
    result=_to_complex,
    numpy_pick=lambda avals, *, input_dtype: (
        np.conj if dtypes.kind_of(avals[0].dtype) == "c" else _real_as_complex
    ),
    cuda=by_class("{T}{{{0}, 0}}", complex="ga_cconj({0})"),
)
