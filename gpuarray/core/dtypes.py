"""Data types: which exist, their names, and their properties.

In: dtypes, anything that names one, and values. Out: NumPy dtypes (or a `KeyDtype`) that obey the
x64 setting. Floor 1: config, core.lattice, core.extended. How they combine is in promotion.py.

Unless the setting is on, 64-bit types become 32-bit ones where an array gets its dtype from
outside: from Python, from NumPy, or by name. An existing array keeps its dtype whatever the setting
is later, and so do results computed from it.

NumPy's own `kind` is 'V' for most of the ml_dtypes; `kind_of` here tells integers from floats for
all of them. Memos live on `config.state.trace_key`, so a changed setting never sees a stale one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from gpuarray import config
from gpuarray.core import lattice
from gpuarray.core.extended import ExtendedDType as ExtendedDType
from gpuarray.core.extended import KeyDtype as KeyDtype
from gpuarray.core.extended import PrimalTangentDtype as PrimalTangentDtype
from gpuarray.core.extended import extended as extended
from gpuarray.core.extended import prng_key as prng_key
from gpuarray.sites import called_from_inside, level_of_user
from gpuarray.util import Symbolic

_state = config.state


# -- the types --------------------------------------------------------------------------------


bool_ = np.dtype(np.bool_)
int1, int2, int4 = (np.dtype(t) for t in (ml_dtypes.int1, ml_dtypes.int2, ml_dtypes.int4))
uint1, uint2, uint4 = (np.dtype(t) for t in (ml_dtypes.uint1, ml_dtypes.uint2, ml_dtypes.uint4))
int8, int16, int32, int64 = (np.dtype(t) for t in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in ("uint8", "uint16", "uint32", "uint64"))
float4_e2m1fn = np.dtype(ml_dtypes.float4_e2m1fn)
float6_e2m3fn = np.dtype(ml_dtypes.float6_e2m3fn)
float6_e3m2fn = np.dtype(ml_dtypes.float6_e3m2fn)
float8_e3m4 = np.dtype(ml_dtypes.float8_e3m4)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)
float16, float32, float64 = (np.dtype(t) for t in ("float16", "float32", "float64"))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

# The dtype of derivatives with respect to integers. It has a single value and takes no memory.
float0 = np.dtype([("float0", np.void, 0)])

#: NumPy's dtypes by the names that the promotion lattice has for them, and the other way round.
BY_NAME: dict[str, np.dtype] = {
    name: np.dtype(getattr(ml_dtypes, name, name)) for name in lattice.NODES if "*" not in name
}
NAMES = {dtype: name for name, dtype in BY_NAME.items()}
_KIND: dict[Any, str] = {
    bool_: "b",
    **{BY_NAME[n]: n[0] for n in lattice.INTS + lattice.SMALL_INTS},  # 'i' or 'u'
    **{BY_NAME[n]: "f" for n in lattice.FLOATS + lattice.SMALL_FLOATS},
    **{BY_NAME[n]: "c" for n in lattice.COMPLEX},
    float0: "0",
}
OF_ARRAYS = frozenset(_KIND)  # the NumPy dtypes that arrays have
# Full width; settings narrow these (see canonicalize_dtype).
_PYTHON: dict[type, np.dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}
#: The types that replace 64-bit dtypes without x64.
NARROW = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}

#: Types of kernel elements; keys are stored as integers.
_IN_KERNELS = frozenset(BY_NAME.values())

#: The dtypes of Python scalars when 64-bit types are on.
python_scalar_dtypes: Mapping[type, np.dtype] = _PYTHON


def is_beyond(dtype: Any) -> bool:
    """Whether this is a 64-bit dtype and x64 is off, so that only older arrays have it.

    >>> is_beyond(float64), is_beyond(float32)
    (True, False)
    """
    return dtype in NARROW and not _state.enable_x64


def kind_of(dtype: Any) -> str:
    """Return 'b', 'i', 'u', 'f' or 'c' for a dtype; 'k' for keys, '0' for float0, else NumPy's.

    >>> kind_of(bfloat16), kind_of(int4), kind_of(np.dtype("float32"))
    ('f', 'i', 'f')
    """
    return _KIND.get(dtype) or dtype.kind


def tangent_dtype(dtype: Any) -> Any:
    """Return the dtype of tangents: the same for floats and complex numbers, else float0.

    Extended dtypes define it themselves.

    >>> tangent_dtype(float32), tangent_dtype(int32) == float0
    (dtype('float32'), True)
    """
    if isinstance(dtype, ExtendedDType):
        rule = dtype.rule("tangent_dtype")
        return float0 if rule is None else rule(dtype)
    return dtype if kind_of(dtype) in "fc" else float0


def in_kernels(dtype: Any) -> bool:
    """Return whether kernels can hold elements of a dtype.

    >>> in_kernels(bfloat16), in_kernels(float0)
    (True, False)
    """
    return getattr(dtype, "storage", dtype) in _IN_KERNELS


# -- canonical forms --------------------------------------------------------------------------


def as_dtype(dtype: Any) -> Any:
    """Return the NumPy dtype (or the extended one) that `dtype` names, at full width."""
    if isinstance(dtype, (np.dtype, ExtendedDType)):
        return dtype
    if isinstance(dtype, str) and dtype in BY_NAME:  # NumPy does not know the names of ml_dtypes
        return BY_NAME[dtype]
    # scalar constructors such as gpuarray.numpy.float32 have no shape
    if not hasattr(dtype, "shape"):
        own = getattr(dtype, "dtype", None)
        if isinstance(own, (np.dtype, ExtendedDType)):
            return own
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise TypeError(
            f"{error}: expected a dtype such as 'float32', 'bfloat16', 'int8' or 'bool', a Python "
            "type, or another array's .dtype"
        ) from None


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return the dtype that arrays of `dtype` really get: 32-bit for 64-bit unless x64 is on.

    >>> canonicalize_dtype(float), canonicalize_dtype("int64")
    (dtype('float32'), dtype('int32'))
    """
    # A memo for each set of settings: no setting is read on a hit.
    memo = _state.trace_key.canonical
    try:
        return memo[dtype]
    except (KeyError, TypeError):
        pass
    if isinstance(dtype, ExtendedDType):
        if not allow_extended_dtype:
            raise ValueError(f"canonicalize_dtype called on extended dtype {dtype}")
        return dtype
    full = as_dtype(dtype)
    if isinstance(full, ExtendedDType):
        return full
    # Python's types also obey `default_dtype_bits`, dtypes named by width do not.
    narrow = not _state.enable_x64
    if isinstance(dtype, type) and dtype in _PYTHON and _state.default_dtype_bits == "32":
        narrow = True
    result = NARROW.get(full, full) if narrow else full
    memo[dtype] = result
    return result


# Present settings, unlike `python_scalar_dtypes` above.
def python_scalar_dtypes_now() -> Mapping[type, np.dtype]:
    """Return the dtypes of Python's bool, int, float and complex under the present settings."""
    return {kind: canonicalize_dtype(kind) for kind in _PYTHON}


def default_int() -> np.dtype:
    """Return the dtype of a Python int: int32, or int64 with x64 on."""
    return canonicalize_dtype(int)


def default_uint() -> np.dtype:
    """Return the unsigned type as wide as `default_int`."""
    return uint64 if default_int() is int64 else uint32


def default_float() -> np.dtype:
    """Return the dtype of a Python float: float32, or float64 with x64 on."""
    return canonicalize_dtype(float)


def default_complex() -> np.dtype:
    """Return the dtype of a Python complex: complex64, or complex128 with x64 on."""
    return canonicalize_dtype(complex)


def requested_dtype(dtype: Any, fun_name: str) -> Any:
    """Like `check_user_dtype`, for functions that this library calls as well.

    The library's own calls keep the dtype they pass, which comes from an array.
    """
    return check_user_dtype(dtype, fun_name, ours=True)


def check_user_dtype(dtype: Any, fun_name: str = "", ours: bool = False) -> Any:
    """Return the canonical dtype for a `dtype=` argument, with errors that name the function.

    A 64-bit type that was requested explicitly and is not available is truncated with a warning,
    refused, or allowed, depending on the setting `explicit_x64_dtypes`. With `ours`, calls from
    within this library get it untruncated.

    >>> check_user_dtype(float, "zeros"), check_user_dtype("bfloat16", "zeros")
    (dtype('float32'), dtype(bfloat16))
    """
    if dtype is None:
        raise ValueError(f"dtype must be specified{_where(fun_name)}; got None")
    if isinstance(dtype, ExtendedDType):
        return dtype
    if hasattr(dtype, "aval"):
        raise ValueError(
            f"Passing an array as a dtype argument{_where(fun_name)} is not supported; instead of "
            "dtype=arr use dtype=arr.dtype."
        )
    full = as_dtype(dtype)
    if full not in _KIND and not isinstance(full, ExtendedDType):
        raise TypeError(
            f"gpuarray only supports number and bool dtypes, got dtype {dtype}{_where(fun_name)}"
        )
    result = canonicalize_dtype(full, allow_extended_dtype=True)
    if isinstance(dtype, type) and dtype in _PYTHON:  # these mean the default width
        return canonicalize_dtype(dtype)
    if result is not full and result != full:
        # The user requested nothing: a function of this library did, for a width that it needs.
        if ours and called_from_inside():
            return full
        rule = _state.explicit_x64_dtypes
        if rule == "allow":
            return full
        requested = f" requested in {fun_name}" if fun_name else ""
        missing = f"Explicitly requested dtype {full.name}{requested} is not available"
        remedy = (
            "To get 64-bit types, call config.update('jax_enable_x64', True) at the start, or set "
            "GPUARRAY_ENABLE_X64=1 (JAX_ENABLE_X64=1 works too)."
        )
        if rule == "error":
            raise ValueError(
                f"{missing}. {remedy} The setting explicit_x64_dtypes='allow' gives those that are "
                "asked for by name, 'warn' truncates them."
            )
        warnings.warn(
            f"{missing}, and will be truncated to dtype {result.name}. {remedy}",
            stacklevel=level_of_user(),
        )
    return result


def _where(fun_name: str) -> str:
    return f" in {fun_name}" if fun_name else ""


# -- the type of a value ----------------------------------------------------------------------


def dtype(x: Any) -> Any:
    """Return the canonical dtype of a value, or of a dtype given in its place.

    >>> dtype(1.5), dtype(np.int64(3)), dtype("float16")
    (dtype('float32'), dtype('int32'), dtype('float16'))
    """
    # The common cases first: this runs for each operand.
    if type(x) in _PYTHON:
        return canonicalize_dtype(type(x))
    if x is None:
        raise ValueError("Invalid argument to dtype: None.")
    if isinstance(x, type) and x in _PYTHON:
        return canonicalize_dtype(x)
    if isinstance(x, (np.dtype, str)) or (isinstance(x, type) and issubclass(x, np.generic)):
        given = as_dtype(x)
        if given not in _KIND:
            raise TypeError(_not_valid(x, given))
        return check_user_dtype(x, "dtype")
    if isinstance(x, ExtendedDType):
        return x
    own = getattr(x, "dtype", None)
    # Keys have no canonical form.
    if isinstance(own, ExtendedDType):
        return own
    if isinstance(own, np.dtype):
        if own not in _KIND:
            raise TypeError(_not_valid(x, own))
        # An Array keeps its dtype; a NumPy array will be converted, to 32 bits without x64.
        return own if hasattr(x, "aval") else canonicalize_dtype(own)
    if isinstance(x, Symbolic):  # typed as the int that it will be
        return default_int()
    for kind in _PYTHON:  # an int enum, a float subclass
        if isinstance(x, kind):
            return canonicalize_dtype(kind)
    raise TypeError(f"Cannot determine dtype of {_brief(x)}")


def _brief(x: Any) -> str:
    text = str(x)
    return text if len(text) <= 200 else text[:200] + "..."


def _not_valid(x: Any, given: Any) -> str:
    return (
        f"Value '{_brief(x)}' with dtype {given} is not a valid JAX type. Only arrays of "
        "numeric types are supported; convert it first, for example with .astype(float)."
    )


def is_weakly_typed(x: Any) -> bool:
    """Whether a value's dtype is only a default, like a Python number's, that gives way to arrays.

    >>> is_weakly_typed(1.0), is_weakly_typed(True), is_weakly_typed(np.float32(1))
    (True, False, False)
    """
    kind = type(x)
    if kind in _PYTHON:
        return kind is not bool
    return bool(getattr(getattr(x, "aval", x), "weak_type", False))


def scalar_type_of(x: Any) -> type:
    """Return the Python type (bool, int, float or complex) of a value's elements.

    >>> scalar_type_of(np.zeros(3, np.float16)), scalar_type_of(2)
    (<class 'float'>, <class 'int'>)
    """
    types = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    own = dtype(x)
    try:
        return types[kind_of(own)]
    except KeyError:
        raise TypeError(f"Invalid scalar value {_brief(x)}: dtype {own} is not numeric") from None


# -- questions about types --------------------------------------------------------------------


# Abstract NumPy class by kind.
_ABSTRACT = {"i": np.signedinteger, "u": np.unsignedinteger, "f": np.floating}
# ml_dtypes' scalar types have np.generic as their only base; here is where they belong.
_PARENT: dict[Any, Any] = {
    d.type: _ABSTRACT[k]
    for d, k in _KIND.items()
    if d.type.__module__.partition(".")[0] == "ml_dtypes"
}


def issubdtype(a: Any, b: Any) -> bool:
    """Whether type `a` is the type `b` or a subtype of it, for ml_dtypes and keys too.

    >>> issubdtype(bfloat16, np.floating), issubdtype("int8", np.floating)
    (True, False)
    """
    sub, sup = _scalar_class(a), _scalar_class(b)
    return issubclass(sub, sup) or issubclass(_PARENT.get(sub, sub), sup)


def _scalar_class(t: Any) -> Any:
    if isinstance(t, type) and issubclass(t, np.generic):
        return t
    return as_dtype(t).type


_KINDS: dict[str, str] = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: a dtype, a kind name of the array API, or a tuple of these.

    >>> isdtype("float16", "real floating"), isdtype("int8", ("bool", "unsigned integer"))
    (True, False)
    """
    own = as_dtype(dtype)
    if isinstance(own, ExtendedDType):
        raise TypeError(f"Cannot interpret '{own}' as a data type")
    # Check every kind, so that a misspelt one is an error in any position.
    found = [_matches(own, k) for k in (kind if isinstance(kind, tuple) else (kind,))]
    return True in found


def _matches(own: Any, kind: Any) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return _KIND.get(own, "") in tuple(_KINDS[kind])
    try:
        if isinstance(kind, (str, type, np.dtype)) or hasattr(kind, "dtype"):
            return own == as_dtype(kind)
    except TypeError as e:
        if isinstance(kind, str):
            raise ValueError(
                f"Unrecognized kind={kind!r} expected one of {list(_KINDS)}, or the name of a dtype"
            ) from e
    raise TypeError(f"Expected kind to be a dtype, string, or tuple; got kind={kind!r}")


finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo


def supports_inf(dtype: Any) -> bool:
    """Whether the type has infinities (most 8-bit floats and all integers have none).

    >>> supports_inf(float16), supports_inf(float8_e4m3fn)
    (True, False)
    """
    if kind_of(dtype) not in "fc":
        return False
    # Test the type itself: types without infinities convert it to nan or their largest value.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isinf(np.array(np.inf).astype(dtype).astype(complex)))


# Types that NumPy stores in a byte each.
_BITS = {int1: 1, uint1: 1, int2: 2, uint2: 2, int4: 4, uint4: 4}
_BITS |= {float4_e2m1fn: 4, float6_e2m3fn: 6, float6_e3m2fn: 6}


def itemsize_bits(dtype: Any) -> int:
    """Return how many bits of information an element has (4 for int4, which NumPy keeps in 8).

    >>> itemsize_bits(int4), itemsize_bits("float64")
    (4, 64)
    """
    own = as_dtype(dtype)
    return _BITS.get(own) or own.itemsize * 8


_SHORT: dict[Any, str] = {bool_: "bool", float0: "float0"}


def short_name(dtype: Any) -> str:
    """Return the name that printed graphs use: f32, bf16, i32, u8, c64, bool, f8_e4m3fn, key<fry>.

    >>> short_name(np.dtype("float32")), short_name(bfloat16), short_name(uint8)
    ('f32', 'bf16', 'u8')
    """
    short = _SHORT.get(dtype)
    if short is None:
        short = dtype.name
        if dtype in _KIND:
            for long, letter in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
                short = short.replace(long, letter)
        _SHORT[dtype] = short
    return short


# -- neighbours of a type ---------------------------------------------------------------------


def to_inexact_dtype(dtype: Any) -> Any:
    """Return a float or complex type for results of real-valued functions: ints become floats.

    >>> to_inexact_dtype(int8), to_inexact_dtype(int64), to_inexact_dtype(bfloat16)
    (dtype('float32'), dtype('float64'), dtype(bfloat16))
    """
    if kind_of(dtype) in "biu":
        # As in JAX: 64-bit integers become float64, narrower ones float32.
        return float64 if dtype in (int64, uint64) else float32
    return dtype


def to_numeric_dtype(dtype: Any) -> Any:
    """Return the type that bools count in; other types stay.

    >>> to_numeric_dtype(bool_), to_numeric_dtype(uint8)
    (dtype('int32'), dtype('uint8'))
    """
    return int32 if dtype == bool_ else dtype


def to_floating_dtype(dtype: Any) -> Any:
    """Return the real floating type for a type: of a complex one its parts' type.

    >>> to_floating_dtype(complex64), to_floating_dtype(int32)
    (dtype('float32'), dtype('float32'))
    """
    if kind_of(dtype) == "c":
        return float64 if dtype == complex128 else float32
    found = to_inexact_dtype(dtype)
    # Booleans and integers have become floats; keys have not.
    if kind_of(found) != "f":
        raise ValueError(f"data type {dtype} not inexact")
    return found


def to_complex_dtype(dtype: Any) -> Any:
    """Return the complex type for a type: complex128 for 64-bit ones, complex64 for the rest.

    >>> to_complex_dtype(float64), to_complex_dtype(bfloat16)
    (dtype('complex128'), dtype('complex64'))
    """
    return complex128 if to_inexact_dtype(dtype) in (float64, complex128) else complex64


to_real_dtype = to_floating_dtype


def primal_tangent_dtype(primal_dtype: Any, tangent_dtype: Any, name: str | None = None) -> Any:
    """Return a dtype of numbers whose tangents have another dtype.

    `lax.convert_element_type` converts arrays to it, and such arrays can be used as numbers of
    `primal_dtype`. So integers, such as 8-bit weights, can have derivatives where rules for them
    are given.

    >>> primal_tangent_dtype("int8", "float32")
    PrimalTangentDType{i8/f32}
    """
    primal, tangent = dtype(primal_dtype), dtype(tangent_dtype)
    default = f"PrimalTangentDType{{{short_name(primal)}/{short_name(tangent)}}}"
    return PrimalTangentDtype(primal, tangent, name or default)
