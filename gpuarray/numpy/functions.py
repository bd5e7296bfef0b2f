"""Elementwise mathematics: roots, exponentials, trigonometry, rounding, parts of complex numbers.

Floor 6. In: array-likes; integers and booleans become floats where the function needs them. Out:
arrays of the same shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.trace import full_width
from gpuarray.core.value import Array
from gpuarray.numpy.arithmetic import (
    add,
    floor_divide,
    maximum,
    minimum,
    remainder,
    subtract,
)
from gpuarray.numpy.comparison import equal, greater, logical_and, logical_or
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.operands import no_out
from gpuarray.numpy.promotion import (
    Weak,
    always,
    arrays,
    binary,
    check_arraylike,
    checking_users,
    constant,
    documented,
    select,
    unary,
    value,
    zero_of,
)

kind_of = dtypes.kind_of
inexact = dtypes.to_inexact_dtype


def _float_function(
    name: str, run: Callable[..., Any], what: str, example: str, weak: Weak = "kept"
) -> Any:
    """A function of real or complex numbers: integers and booleans become floats first."""
    # The example is the call and its result, for the docstring.
    call, _, result = example.partition(" -> ")
    return documented(
        unary(name, always(run), inexact, weak=weak),
        f"""{what}

    Shape contract: the shape of x; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.{call}
    {result}
    """,
    )


# ---- exponentials and roots ----

exp = _float_function(
    "exp",
    lax.exp,
    "e to the power x.",
    "exp(gnp.array([0.0, -gnp.inf])) -> Array([1., 0.], dtype=float32)",
)
exp2 = _float_function(
    "exp2",
    lax.exp2,
    "2 to the power x.",
    "exp2(gnp.arange(3)) -> Array([1., 2., 4.], dtype=float32)",
)
expm1 = _float_function(
    "expm1",
    lax.expm1,
    "exp(x) - 1, exact for small x.",
    "expm1(gnp.array([0.0, 1e-10])) -> Array([0.e+00, 1.e-10], dtype=float32)",
)
log = _float_function(
    "log",
    lax.log,
    "The natural logarithm.",
    "log(gnp.array([1.0, 10.0])) -> Array([0.       , 2.3025851], dtype=float32)",
)
log1p = _float_function(
    "log1p",
    lax.log1p,
    "log(1 + x), exact for small x.",
    "log1p(gnp.array([0.0, 1e-10])) -> Array([0.e+00, 1.e-10], dtype=float32)",
)
sqrt = _float_function(
    "sqrt",
    lax.sqrt,
    "The square root; nan for negative real numbers.",
    "sqrt(gnp.array([4, 9])) -> Array([2., 3.], dtype=float32)",
)
cbrt = _float_function(
    "cbrt",
    lax.cbrt,
    "The real cube root.",
    "cbrt(gnp.array([-1.0, 0.0])) -> Array([-1.,  0.], dtype=float32)",
)


def _scaled_log(scale: Callable[[Any], Any], apply: Callable[..., Any]) -> Callable[[Any], Any]:
    """The natural logarithm times a scale, which is rounded to the dtype of its parts.

    Rounding the scale and the product adds to the logarithm's error, which NumPy's own of float32
    leaves no room for.
    """
    exact = lax.Tolerance(ulps=4)

    def function(x):
        y = lax.log(x, accuracy=exact)
        if kind_of(aval_of(y).dtype) != "c":
            return apply(y, scale(aval_of(y).dtype))
        parts = lax.real(y), lax.imag(y)
        by = scale(aval_of(parts[0]).dtype)
        return lax.complex(*(apply(part, by) for part in parts))

    return function


log2 = _float_function(
    "log2",
    # Divided by log(2), not multiplied by its reciprocal: powers of two give whole numbers.
    _scaled_log(lambda dtype: lax.log(full_width(dtype.type(2))), lax.div),
    "The logarithm to base 2.",
    "log2(gnp.array([1, 8])) -> Array([0., 3.], dtype=float32)",
)
log10 = _float_function(
    "log10",
    _scaled_log(lambda dtype: dtype.type(1 / math.log(10)), lax.mul),
    "The logarithm to base 10.",
    "log10(gnp.array([1, 1000])) -> Array([0., 3.], dtype=float32)",
)

# ---- trigonometry ----

sin = _float_function(
    "sin",
    lax.sin,
    "The sine of an angle in radians.",
    "sin(gnp.array([0.0, gnp.pi / 2])) -> Array([0., 1.], dtype=float32)",
)
cos = _float_function(
    "cos",
    lax.cos,
    "The cosine of an angle in radians.",
    "cos(gnp.array([0.0, gnp.pi])) -> Array([ 1., -1.], dtype=float32)",
)
tan = _float_function(
    "tan",
    lax.tan,
    "The tangent of an angle in radians.",
    "tan(gnp.array([0.0])) -> Array([0.], dtype=float32)",
)
arcsin = asin = _float_function(
    "arcsin",
    lax.asin,
    "The angle in [-pi/2, pi/2] whose sine is x.",
    "arcsin(gnp.array([0.0, 1.0])) -> Array([0.       , 1.5707964], dtype=float32)",
)
arccos = acos = _float_function(
    "arccos",
    lax.acos,
    "The angle in [0, pi] whose cosine is x.",
    "arccos(gnp.array([1.0, 0.0])) -> Array([0.       , 1.5707964], dtype=float32)",
)
arctan = atan = _float_function(
    "arctan",
    lax.atan,
    "The angle in [-pi/2, pi/2] whose tangent is x.",
    "arctan(gnp.array([0.0, gnp.inf])) -> Array([0.       , 1.5707964], dtype=float32)",
)
sinh = _float_function(
    "sinh",
    lax.sinh,
    "The hyperbolic sine.",
    "sinh(gnp.array([0.0])) -> Array([0.], dtype=float32)",
)
cosh = _float_function(
    "cosh",
    lax.cosh,
    "The hyperbolic cosine.",
    "cosh(gnp.array([0.0])) -> Array([1.], dtype=float32)",
)
tanh = _float_function(
    "tanh",
    lax.tanh,
    "The hyperbolic tangent.",
    "tanh(gnp.array([0.0, gnp.inf])) -> Array([0., 1.], dtype=float32)",
)
arcsinh = asinh = _float_function(
    "arcsinh",
    lax.asinh,
    "The inverse hyperbolic sine.",
    "arcsinh(gnp.array([0.0])) -> Array([0.], dtype=float32)",
)
arctanh = atanh = _float_function(
    "arctanh",
    lax.atanh,
    "The inverse hyperbolic tangent.",
    "arctanh(gnp.array([0.0, 1.0])) -> Array([ 0., inf], dtype=float32)",
)


def _acosh(x):
    y = lax.acosh(x)
    if kind_of(aval_of(y).dtype) != "c":
        return y
    # NumPy's branch: the result has a real part that is not negative.
    return select(lax.lt(lax.real(y), zero_of(lax.real(y))), lax.neg(y), y)


arccosh = acosh = composite(
    _float_function(
        "arccosh",
        _acosh,
        "The inverse hyperbolic cosine.",
        "arccosh(gnp.array([1.0])) -> Array([0.], dtype=float32)",
    )
)
arctan2 = atan2 = documented(
    binary("arctan2", always(lax.atan2), inexact),
    """The angle of the point (x2, x1) in (-pi, pi]: arctan(x1 / x2) in the right quadrant.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.arctan2(gnp.array([1.0, 1.0]), gnp.array([0.0, -1.0]))
    Array([1.5707964, 2.3561945], dtype=float32)
    """,
)
deg2rad = radians = _float_function(
    "deg2rad",
    lambda x: lax.mul(x, constant(math.pi / 180, x)),
    "Degrees as radians.",
    "deg2rad(gnp.array([180.0])) -> Array([3.1415927], dtype=float32)",
    weak="scalars",
)
rad2deg = degrees = _float_function(
    "rad2deg",
    lambda x: lax.mul(x, constant(180 / math.pi, x)),
    "Radians as degrees.",
    "rad2deg(gnp.array([gnp.pi])) -> Array([180.], dtype=float32)",
    weak="scalars",
)

# ---- rounding ----


def _keep_integers(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    # Integers are whole already and keep their dtype.
    return lambda dtype: asarray if kind_of(dtype) in "biu" else run


def _trunc(x):
    zero = zero_of(x)
    return select(lax.lt(x, zero), lax.ceil(x), lax.floor(x))


ceil = documented(
    unary("ceil", _keep_integers(lax.ceil)),
    """The smallest integer not below x, as a float.

    >>> import gpuarray.numpy as gnp
    >>> gnp.ceil(gnp.array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """,
)
floor = documented(
    unary("floor", _keep_integers(lax.floor)),
    """The greatest integer not above x, as a float.

    >>> import gpuarray.numpy as gnp
    >>> gnp.floor(gnp.array([1.2, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """,
)
_truncated = composite(unary("trunc", _keep_integers(_trunc)))


def trunc(x) -> Array:
    """x without its fractional part: rounded towards zero.

    >>> import gpuarray.numpy as gnp
    >>> gnp.trunc(gnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    return _truncated(x)


def _to_even(x):
    if kind_of(aval_of(x).dtype) == "c":
        return lax.complex(_to_even(lax.real(x)), _to_even(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _pick_rint(dtype):
    whole = kind_of(dtype) in "biu"
    # NumPy's rint has no integer loop: integers become floats.
    return (lambda x: as_type(asarray(x), dtypes.default_float())) if whole else _to_even


rint = documented(
    unary("rint", _pick_rint),
    """The nearest integer, halves to the even one.

    Shape contract: the shape of x; integers become default floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.rint(gnp.array([0.5, 1.5, 2.6]))
    Array([0., 2., 3.], dtype=float32)
    """,
)


def round(a, decimals: int = 0, out: None = None) -> Array:
    """Round to the given number of decimals, halves to the even digit.

    Shape contract: the shape and dtype of a. Integers are rounded for negative `decimals` only.

    >>> import gpuarray.numpy as gnp
    >>> gnp.round(gnp.array([1.25, 2.345]), 1)
    Array([1.2, 2.3], dtype=float32)
    """
    no_out("round", out)
    return _round(a, decimals=util.index(decimals))


def _rounded(a, decimals: int) -> Array:
    (a,) = arrays("round", a)
    kind = kind_of(a.dtype)
    if kind in "biu":
        # Beyond 40 digits every integer rounds to 0; the power is kept small.
        return a if decimals >= 0 else _round_integers(a, 10 ** min(-decimals, 40))
    if kind == "c":
        return lax.complex(*(_rounded(part, decimals) for part in (lax.real(a), lax.imag(a))))
    if not decimals:
        return _to_even(a)
    if abs(decimals) > 400:
        raise OverflowError(f"round to {decimals} decimals: no float has so many")
    # Half precision has no room for the scaled number.
    wide = as_type(a, dtypes.float32, a.weak_type) if a.dtype.itemsize < 4 else a
    factor = constant(10**decimals, wide)
    rounded = lax.div(_to_even(lax.mul(wide, factor)), factor)
    return as_type(rounded, a.dtype, a.weak_type and not a.ndim)


_round = composite(_rounded, static=("decimals",), eager=False, name="round")
around = round


def _round_integers(a: Array, unit: int) -> Array:
    """Integers to multiples of a power of ten, halves to the even multiple."""
    largest = 1 if kind_of(a.dtype) == "b" else np.iinfo(a.dtype).max
    if unit // 2 > largest:
        return lax.full_like(a, 0)
    if unit > largest:  # halves are within reach, the unit is not: only they could round up
        raise OverflowError(f"cannot round {a.dtype} to multiples of {unit}: they do not fit")
    rest = remainder(a, unit)
    # `remainder` has the sign of the unit, so `down` is the multiple below, of negative numbers
    # too.
    down = subtract(a, rest)
    # Half way between two multiples, the one that is an even number of units wins.
    odd = equal(remainder(floor_divide(a, unit), 2), 1)
    # The distances down and up: both fit the dtype, which twice the rest may not.
    above = subtract(unit, rest)
    up = logical_or(greater(rest, above), logical_and(equal(rest, above), odd))
    return select(up, add(down, unit), down)


def _any_complex(*xs: Any, **named: Any) -> bool:
    given = [v for v in (*xs, *named.values()) if v is not None]
    return any(kind_of(aval_of(value(v)).dtype) == "c" for v in given)


# Complex numbers raise a different error.
@checking_users("clip", unless=_any_complex)
def clip(arr=None, /, min=None, max=None) -> Array:
    """Values limited to [min, max]; either limit may be left out.

    Shape contract: shapes broadcast, dtypes promote. Where min > max the result is max.

    >>> import gpuarray.numpy as gnp
    >>> gnp.clip(gnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    check_arraylike("clip", *[v for v in (arr, min, max) if v is not None])
    if _any_complex(arr, min, max):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. "
            "Complex values have no ordering and cannot be clipped. Clip the real and imaginary "
            "parts (gpuarray.numpy.real, imag)."
        )
    return _clip(arr, min, max)


@composite(name="clip")
def _clip(arr, min, max):
    if min is not None:
        # The upper limit comes last, so it wins where min > max.
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return asarray(arr)


# ---- complex numbers ----

conjugate = conj = documented(
    unary("conjugate", lambda dtype: lax.conj if kind_of(dtype) == "c" else asarray),
    """The complex conjugate; real numbers stay as they are.

    >>> import gpuarray.numpy as gnp
    >>> gnp.conjugate(gnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """,
)
real = documented(
    unary("real", lambda dtype: lax.real if kind_of(dtype) == "c" else asarray),
    """The real part.

    Shape contract: the shape of the argument; complex dtypes become their real ones.

    >>> import gpuarray.numpy as gnp
    >>> gnp.real(gnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """,
)


def _zeros(x):
    return lax.full_like(x, 0)


imag = documented(
    unary(
        "imag", lambda dtype: lax.imag if kind_of(dtype) == "c" else lambda x: lax.full_like(x, 0)
    ),
    """The imaginary part: zeros for real numbers.

    Shape contract: the shape of the argument; complex dtypes become their real ones.

    >>> import gpuarray.numpy as gnp
    >>> gnp.imag(gnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """,
)


@composite(static=("deg",))
def angle(z, deg: bool = False) -> Array:
    """The angle of a complex number in the plane, in (-pi, pi] or in degrees.

    Shape contract: the shape of z, real.

    >>> import gpuarray.numpy as gnp
    >>> gnp.angle(gnp.array([1j, -1.0]), deg=True)
    Array([ 90., 180.], dtype=float32)
    """
    (z,) = arrays("angle", z)
    if kind_of(z.dtype) in "biu":
        z = as_type(z, dtypes.default_float())
    out = arctan2(imag(z), real(z))
    # The imaginary part of a real number does not come from the caller: its angle is strongly
    # typed.
    out = as_type(out, out.dtype, out.weak_type and kind_of(z.dtype) == "c")
    return rad2deg(out) if deg else out
