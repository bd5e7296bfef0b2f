"""Functions on the representation of floats (finiteness, sign, neighbours, exponent), and others
that depend on it.

Floor 6. In: array-likes. Out: bools, or floats of the same shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.numpy.arithmetic import add, multiply
from gpuarray.numpy.comparison import equal, less_equal, logical_and, logical_or, not_equal
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.functions import imag
from gpuarray.numpy.operands import no_out
from gpuarray.numpy.promotion import (
    always,
    arrays,
    binary,
    check_arraylike,
    constant,
    convert,
    documented,
    promote_args,
    promote_args_inexact,
    promote_shapes,
    select,
    unary,
    value,
    zero_of,
)
from gpuarray.primitives.elementwise.bits import and_p, or_p

kind_of = dtypes.kind_of
inexact = dtypes.to_inexact_dtype

# ---- classification ----


def isnan(x, /) -> Array:
    """Whether x is not a number; of complex numbers, whether a part is not.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isnan(gnp.array([1.0, gnp.nan, gnp.inf]))
    Array([False,  True, False], dtype=bool)
    """
    check_arraylike("isnan", x)
    return _differs(x)


# nan is the one value that differs from itself.
_differs = unary("isnan", always(lambda x: lax.ne(x, x)))


def _pick_isfinite(dtype):
    if kind_of(dtype) == "c":
        # A complex number is finite where both of its parts are.
        return lambda x: and_p.bind(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    # Integers always are: no element needs to be looked at.
    return lax.is_finite if kind_of(dtype) == "f" else lambda x: lax.full_like(x, True, np.bool_)


isfinite = documented(
    unary("isfinite", _pick_isfinite),
    """Whether x is neither infinite nor nan.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isfinite(gnp.array([1.0, gnp.nan, gnp.inf]))
    Array([ True, False, False], dtype=bool)
    """,
)


def _never(x):
    return lax.full_like(x, False, np.bool_)


def _isinf(x):
    return lax.eq(lax.abs(x), infinity(x))


def infinity(x: Any) -> Any:
    return constant(np.inf, x)


def _pick_isinf(dtype):
    if kind_of(dtype) == "c":
        return lambda x: or_p.bind(_isinf(lax.real(x)), _isinf(lax.imag(x)))
    return _isinf if kind_of(dtype) == "f" else _never


isinf = documented(
    composite(unary("isinf", _pick_isinf, weak="never")),
    """Whether x is positive or negative infinity; of complex numbers, whether a part is.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isinf(gnp.array([1.0, gnp.nan, -gnp.inf]))
    Array([False, False,  True], dtype=bool)
    """,
)


def _one_infinity(name: str, sign: float) -> Any:
    def pick(dtype):
        if kind_of(dtype) == "c":
            raise ValueError("isposinf/isneginf are not well defined for complex types")
        if kind_of(dtype) != "f":
            return _never
        return lambda x: lax.eq(x, dtype.type(sign * np.inf))

    return unary(name, pick, weak="never")


_isposinf, _isneginf = _one_infinity("isposinf", 1.0), _one_infinity("isneginf", -1.0)


def isposinf(x, /, out=None) -> Array:
    """Whether x is positive infinity.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isposinf(gnp.array([gnp.inf, -gnp.inf]))
    Array([ True, False], dtype=bool)
    """
    no_out("isposinf", out)
    return _isposinf(x)


def isneginf(x, /, out=None) -> Array:
    """Whether x is negative infinity.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isneginf(gnp.array([gnp.inf, -gnp.inf]))
    Array([False,  True], dtype=bool)
    """
    no_out("isneginf", out)
    return _isneginf(x)


@composite
def iscomplex(x) -> Array:
    """Whether the imaginary part is not zero, element by element.

    >>> import gpuarray.numpy as gnp
    >>> gnp.iscomplex(gnp.array([1 + 0j, 2j]))
    Array([False,  True], dtype=bool)
    """
    check_arraylike("iscomplex", x)
    return not_equal(imag(x), zero_of(imag(x)))


@composite
def isreal(x) -> Array:
    """Whether the imaginary part is zero, element by element.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isreal(gnp.array([1 + 0j, 2j]))
    Array([ True, False], dtype=bool)
    """
    check_arraylike("isreal", x)
    return equal(imag(x), zero_of(imag(x)))


# ---- sign, neighbours, exponent ----

_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


def _pick_signbit(dtype):
    kind = kind_of(dtype)
    if kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {dtype}")
    if kind == "b":
        return _never
    if kind != "f":
        # Integers have no negative zero: a comparison will do.
        return lambda x: lax.lt(x, zero_of(x))
    # Formats of 8 bits go through float16, which has all their values.
    if dtype.itemsize not in _BITS:
        return lambda x: _signbit(as_type(asarray(x), dtypes.float16))
    return _signbit


def _signbit(x):
    bits = np.dtype(_BITS[aval_of(x).dtype.itemsize])
    # The sign bit fills the integer: -1 or 0.
    sign = lax.shift_right_arithmetic(
        lax.bitcast_convert_type(x, bits), bits.type(8 * bits.itemsize - 1)
    )
    return lax.convert_element_type(sign, np.bool_)


signbit = documented(
    composite(unary("signbit", _pick_signbit, weak="never")),
    """Whether the sign bit is set: true also of -0.0 and of a negative nan.

    >>> import gpuarray.numpy as gnp
    >>> gnp.signbit(gnp.array([1.0, -0.0]))
    Array([False,  True], dtype=bool)
    """,
)


def _pick_copysign(dtype):
    if kind_of(dtype) == "c":
        raise TypeError("copysign does not support complex-valued inputs")
    # By the sign bit, so that -0.0 counts as negative.
    return lambda x, y: select(signbit(y), lax.neg(lax.abs(x)), lax.abs(x))


copysign = documented(
    composite(binary("copysign", _pick_copysign, inexact)),
    """|x1| with the sign of x2.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.copysign(gnp.array([1.0, -2.0]), -0.0)
    Array([-1., -2.], dtype=float32)
    """,
)
nextafter = documented(
    binary("nextafter", always(lax.nextafter), inexact),
    """The floating number next to x in the direction of y.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nextafter(gnp.float32(1), 2) - 1
    Array(1.1920929e-07, dtype=float32)
    """,
)


@composite(inline=True)
def spacing(x, /) -> Array:
    """The distance from x to the next number away from zero, with the sign of x.

    For float16 it is, as NumPy has it, the distance to the next larger number: never negative.

    >>> import gpuarray.numpy as gnp
    >>> gnp.spacing(gnp.array([1.0]))
    Array([1.1920929e-07], dtype=float32)
    """
    (x,) = promote_args_inexact("spacing", x)
    if kind_of(aval_of(x).dtype) == "c":
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    x = as_type(asarray(x), aval_of(x).dtype)
    # Away from zero, with the sign of x; NumPy's float16 goes towards +inf instead.
    towards = lax.full_like(x, np.inf)
    if aval_of(x).dtype != np.float16:
        towards = copysign(towards, x)
    return lax.sub(lax.nextafter(x, towards), x)


def fabs(x, /) -> Array:
    """The absolute value as a float.

    Shape contract: the shape of x; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fabs(gnp.array([-1, 2]))
    Array([1., 2.], dtype=float32)
    """
    (x,) = promote_args_inexact("fabs", x)
    if kind_of(aval_of(x).dtype) == "c":
        raise TypeError("ufunc 'fabs' does not support complex dtypes; use abs")
    return lax.abs(x)


def modf(x, /, out=None) -> tuple[Array, Array]:
    """The fractional and the integral part, both with the sign of x.

    Shape contract: two arrays of the shape of x; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.modf(gnp.array([1.5, -2.25]))
    (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    no_out("modf", out)
    return _modf(x)


@composite(name="modf")
def _modf(x):
    (x,) = promote_args_inexact("modf", x)
    # Both parts have the sign of x.
    whole = select(lax.ge(x, zero_of(x)), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole


@composite
def frexp(x, /) -> tuple[Array, Array]:
    """Mantissa and exponent: x = mantissa * 2**exponent, with 0.5 <= |mantissa| < 1.

    Shape contract: two arrays of the shape of x, a float one and an int32 one; 0, inf and nan are
    their own mantissas, with exponent 0.

    >>> import gpuarray.numpy as gnp
    >>> gnp.frexp(gnp.array([6.0, 0.5]))
    (Array([0.75, 0.5 ], dtype=float32), Array([3, 0], dtype=int32))
    """
    (x,) = promote_args_inexact("frexp", x)
    x = asarray(x)
    dtype = x.dtype
    if kind_of(dtype) == "c":
        raise TypeError("frexp does not support complex-valued inputs")
    if dtype.itemsize not in _BITS:
        # Short formats have too few exponent bits for the following steps.
        x = as_type(x, dtypes.float32)
    info = dtypes.finfo(x.dtype)
    bits = np.dtype(_BITS[x.dtype.itemsize])
    tiny = lax.lt(lax.abs(x), x.dtype.type(info.smallest_normal))
    # Denormal numbers have zero exponent bits until they are scaled up.
    scaled = select(tiny, lax.mul(x, x.dtype.type(2.0**info.nmant)), x)
    # The exponent field of the number, and the number without it.
    pattern = lax.bitcast_convert_type(scaled, bits)
    mask, bias = bits.type((1 << info.nexp) - 1), (1 << (info.nexp - 1)) - 1
    field = lax.bitwise_and(lax.shift_right_logical(pattern, bits.type(info.nmant)), mask)
    # Subtracted from the field: the bias, and where the number was scaled up, the scaling.
    low, normal = (lax.full((), bias - 1 + n, bits) for n in (info.nmant, 0))
    exponent = lax.sub(field, select(tiny, low, normal))
    # A field of all ones is inf or nan.
    itself = or_p.bind(lax.eq(x, zero_of(x)), lax.eq(field, mask))
    exponent = lax.convert_element_type(select(itself, bits.type(0), exponent), np.int32)
    # Exact products, so that the derivative is 2**-exponent; two, because that may be out of range.
    half = lax.shift_right_arithmetic(exponent, np.int32(1))
    down = lax.mul(x, _power_of_two(lax.neg(half), x.dtype))
    mantissa = lax.mul(down, _power_of_two(lax.sub(half, exponent), x.dtype))
    return as_type(select(itself, x, mantissa), dtype), exponent


def _power_of_two(n, dtype: np.dtype) -> Array:
    """2**n, exactly, for int32 n of a normal number."""
    info, bits = dtypes.finfo(dtype), np.dtype(_BITS[dtype.itemsize])
    # Only the exponent field is set: the mantissa's leading one is implied.
    field = lax.convert_element_type(lax.add(n, np.int32(info.maxexp - 1)), bits)
    return lax.bitcast_convert_type(lax.shift_left(field, bits.type(info.nmant)), dtype)


@composite
def ldexp(x1, x2, /) -> Array:
    """x1 * 2**x2 for integers x2, without overflow on the way.

    Shape contract: shapes broadcast; integer x1 become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.ldexp(gnp.array([1.0, 1.5]), 3)
    Array([ 8., 12.], dtype=float32)
    """
    x, n = arrays("ldexp", x1, x2)
    if kind_of(x.dtype) == "c" or kind_of(n.dtype) not in "biu":
        raise ValueError(f"ldexp not supported for input types {(x.dtype, n.dtype)}")
    (x,) = promote_args_inexact("ldexp", x)
    dtype = x.dtype
    # Half floats are scaled as float32 and rounded once.
    narrow = dtype == np.float16 or dtype.itemsize not in _BITS
    x = as_type(x, dtypes.float32 if narrow else dtype)
    info = dtypes.finfo(x.dtype)
    # Beyond three times the largest exponent every product is 0 or infinite.
    reach = info.maxexp * 3
    # Clamped in the exponent's own type, if that can hold the bounds.
    if dtypes.itemsize_bits(n.dtype) < 32:
        n = lax.convert_element_type(n, np.int32)
    low = 0 if kind_of(n.dtype) == "u" else -reach
    n = lax.convert_element_type(lax.clamp(constant(low, n), n, constant(reach, n)), np.int32)
    x, n = promote_shapes("ldexp", x, n)
    # Three factors that the type can hold. After a step down the rest is too small for two
    # roundings to matter: only the last one rounds.
    lowest, highest = np.int32(info.minexp), np.int32(info.maxexp - 1)
    down = lowest + np.int32(info.nmant + 1)
    for _ in range(2):
        step = select(lax.lt(n, lowest), down, np.int32(0))
        step = select(lax.gt(n, highest), highest, step)
        x = lax.mul(*promote_shapes("ldexp", x, _power_of_two(step, x.dtype)))
        n = lax.sub(n, step)
    last = _power_of_two(lax.clamp(lowest, n, highest), x.dtype)
    return as_type(lax.mul(*promote_shapes("ldexp", x, last)), dtype)


# ---- closeness ----


@composite(static=("copy",))
def nan_to_num(x, copy: bool = True, nan=0.0, posinf=None, neginf=None) -> Array:
    """Replace nan and infinities by numbers, 0 and the largest finite ones by default.

    Shape contract: the shape and dtype of x.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nan_to_num(gnp.array([1.0, gnp.nan, gnp.inf]), posinf=9)
    Array([1., 0., 9.], dtype=float32)
    """
    (x,) = arrays("nan_to_num", x)
    kind = kind_of(x.dtype)
    if kind == "c":
        parts = (nan_to_num(p, copy, nan, posinf, neginf) for p in (lax.real(x), lax.imag(x)))
        return lax.complex(*parts)
    if kind != "f":
        return x
    info = dtypes.finfo(x.dtype)
    # The largest finite numbers of the type, as in NumPy.
    posinf = info.max if posinf is None else posinf
    neginf = info.min if neginf is None else neginf
    x = as_type(x, x.dtype)
    for wrong, number in (
        (lax.ne(x, x), nan),
        (lax.eq(x, infinity(x)), posinf),
        (lax.eq(x, lax.neg(infinity(x))), neginf),
    ):
        x = select(wrong, asarray(number, x.dtype), x)
    return x


@composite(static=("equal_nan",))
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan: bool = False) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, element by element; equal infinities are close.

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isclose(gnp.array([1.0, 1.1]), 1.000001)
    Array([ True, False], dtype=bool)
    """
    x, y = promote_args("isclose", a, b)
    if isinstance(aval_of(x).dtype, dtypes.ExtendedDType):  # keys are equal or not
        return equal(x, y)
    # Integers are compared as floats, since tolerances are.
    if kind_of(aval_of(x).dtype) not in "fc":
        x, y = promote_args_inexact("isclose", x, y)
    part = dtypes.to_real_dtype(aval_of(x).dtype)
    near = lax.abs(lax.sub(x, y))
    rtol, atol = (convert(value(t), part, False) for t in (rtol, atol))
    allowed = add(atol, multiply(rtol, lax.abs(y)))
    # Equal infinities are close, but their difference is nan.
    out = logical_or(logical_and(isfinite(y), less_equal(near, allowed)), equal(x, y))
    if equal_nan:
        out = logical_or(out, logical_and(isnan(x), isnan(y)))
    return out
