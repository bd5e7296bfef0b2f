"""Scalar types such as `float32`, whose calls make arrays, and functions about dtypes.

Floor 6. In: values, dtypes and whatever names one. Out: scalar Arrays, dtypes, answers.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gpuarray.core import dtypes, promotion
from gpuarray.core.value import Array
from gpuarray.numpy.construct import asarray


class _ScalarType(type):
    """Metaclass of `float32` and the other scalar types: calls make arrays, elsewhere they are
    dtypes.
    """

    dtype: np.dtype

    def __call__(cls, x: Any) -> Array:
        return asarray(x, dtype=dtypes.check_user_dtype(cls.dtype, "array"))

    def __hash__(cls) -> int:
        # gnp.float32 is a key equal to np.float32.
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> builtins.bool:
        if isinstance(other, _ScalarType):
            return cls.dtype == other.dtype
        # Equal to NumPy's type and dtype of the same name, so that code may compare with either.
        return other is cls.dtype.type or (isinstance(other, np.dtype) and cls.dtype == other)

    def __instancecheck__(cls, instance: Any) -> builtins.bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'gpuarray.numpy.{cls.__name__}'>"

    def __reduce__(cls):
        return _named, (cls.__name__,)


def _scalar_type(dtype: np.dtype) -> Any:
    name = "bool" if dtype == np.bool_ else dtype.name
    doc = (
        f"The dtype {name}, and what makes arrays of it: {name}(x) is asarray(x, dtype={name}).\n\n"
        "    Shape contract: the shape of x; a scalar makes an Array of shape ().\n"
    )
    members = {"dtype": dtype, "__doc__": doc, "__module__": "gpuarray.numpy"}
    return _ScalarType(name, (object,), members)


# One type for each dtype, so that types can be compared by identity.
_TYPES = {
    name: _scalar_type(dtypes.as_dtype(name)) for name in dtypes.lattice.NODES if "*" not in name
}


def _named(name: str) -> Any:
    return _TYPES[name]


bool_ = _TYPES["bool"]
bool = bool_
int1, int2, int4 = _TYPES["int1"], _TYPES["int2"], _TYPES["int4"]
int8, int16, int32, int64 = (_TYPES[f"int{n}"] for n in (8, 16, 32, 64))
uint1, uint2, uint4 = _TYPES["uint1"], _TYPES["uint2"], _TYPES["uint4"]
uint8, uint16, uint32, uint64 = (_TYPES[f"uint{n}"] for n in (8, 16, 32, 64))
float4_e2m1fn = _TYPES["float4_e2m1fn"]
float6_e2m3fn = _TYPES["float6_e2m3fn"]
float6_e3m2fn = _TYPES["float6_e3m2fn"]
float8_e3m4 = _TYPES["float8_e3m4"]
float8_e4m3 = _TYPES["float8_e4m3"]
float8_e4m3b11fnuz = _TYPES["float8_e4m3b11fnuz"]
float8_e4m3fn = _TYPES["float8_e4m3fn"]
float8_e4m3fnuz = _TYPES["float8_e4m3fnuz"]
float8_e5m2 = _TYPES["float8_e5m2"]
float8_e5m2fnuz = _TYPES["float8_e5m2fnuz"]
float8_e8m0fnu = _TYPES["float8_e8m0fnu"]
float16, float32, float64 = (_TYPES[f"float{n}"] for n in (16, 32, 64))
bfloat16 = _TYPES["bfloat16"]
complex64, complex128 = _TYPES["complex64"], _TYPES["complex128"]
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128

# NumPy's abstract types, for issubdtype.
generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning

pi, e, euler_gamma = np.pi, np.e, np.euler_gamma
inf, nan, newaxis = np.inf, np.nan, None

# ---- questions about dtypes ----

promote_types = promotion.promote_types
issubdtype = dtypes.issubdtype
isdtype = dtypes.isdtype


def result_type(*args: Any) -> Any:
    """The dtype that values, or dtypes in their place, promote to together.

    >>> import gpuarray.numpy as gnp
    >>> gnp.result_type(gnp.int8(1), gnp.float16)
    dtype('float16')
    """
    return promotion.result_type(*args)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> builtins.bool:
    """Whether a dtype converts to another by NumPy's rule ("no", "equiv", "safe", "same_kind"...).

    >>> import gpuarray.numpy as gnp
    >>> gnp.can_cast(gnp.int8, gnp.float32), gnp.can_cast(gnp.float32, gnp.int8)
    (True, False)
    """
    source = from_.dtype if isinstance(from_, Array) else dtypes.as_dtype(from_)
    return np.can_cast(source, dtypes.as_dtype(to), casting)  # pyright: ignore[reportArgumentType]


def _dtype_or_same(x: Any) -> Any:
    """The dtype named by `x` or of an array, or `x` itself, for the caller to report."""
    try:
        return dtypes.as_dtype(x.dtype if isinstance(x, Array) else x)
    except TypeError:
        return x


class finfo(dtypes.finfo):
    """Limits of a floating dtype: bits, eps, max, min, tiny, resolution and so on.

    >>> import gpuarray.numpy as gnp
    >>> float(gnp.finfo(gnp.bfloat16).eps)
    0.0078125
    """

    def __new__(cls, dtype: Any):
        try:
            found = dtypes.finfo(_dtype_or_same(dtype))
        except ValueError:  # in other words by each release of NumPy
            raise ValueError(
                f"data type {dtype!r} not inexact: finfo takes floating and complex dtypes, iinfo "
                "integers."
            ) from None
        return _SINGLE if found is _SINGLE_LIMITS else found


class _Single(np.float32):
    """A limit of float32: NumPy's scalar, as in JAX, that is also an instance of float, as the
    array API requires. A Python float would promote differently.
    """

    __slots__ = ()
    __class__ = property(lambda self: float)  # pyright: ignore[reportAssignmentType]


_SINGLE_LIMITS = dtypes.finfo(np.float32)


class _SingleLimits(np.finfo):
    """The limits of float32, as such scalars."""

    def __new__(cls):
        return object.__new__(cls)

    def __getattribute__(self, name: str) -> Any:
        found = getattr(_SINGLE_LIMITS, name)
        return _Single(found) if type(found) is np.float32 else found


_SINGLE = _SingleLimits()


class iinfo(dtypes.iinfo):
    """Limits of an integer dtype: bits, max, min.

    >>> import gpuarray.numpy as gnp
    >>> gnp.iinfo(gnp.int8).max
    127
    """

    def __new__(cls, int_type: Any):
        return dtypes.iinfo(_dtype_or_same(int_type))


def iscomplexobj(x: Any) -> builtins.bool:
    """Whether x is of a complex dtype, whatever its values.

    >>> import gpuarray.numpy as gnp
    >>> gnp.iscomplexobj(gnp.zeros(2, complex))
    True
    """
    if isinstance(x, (list, tuple)):  # of tracers, too, which NumPy cannot read
        return any(map(iscomplexobj, x))
    kind = getattr(x, "dtype", None)
    if kind is None:
        kind = (asarray(x) if hasattr(x, "__jax_array__") else np.asarray(x)).dtype
    return dtypes.kind_of(kind) == "c"


def isrealobj(x: Any) -> builtins.bool:
    """Whether x is of a dtype that is not complex.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isrealobj(gnp.zeros(2))
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> builtins.bool:
    """Whether x is a Python or NumPy scalar, or an array without axes.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isscalar(gnp.array(1)), gnp.isscalar(gnp.arange(2))
    (True, False)
    """
    if isinstance(element, (Array, np.ndarray)) or hasattr(element, "__jax_array__"):
        return asarray(element).ndim == 0
    return np.isscalar(element)
