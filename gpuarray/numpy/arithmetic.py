"""Arithmetic, comparison, logic and bits on arrays of any dtype: what the operators `+ - * / < & ~` call.

Floor 6. In: array-likes, which promote and broadcast. Out: one primitive where the dtypes agree. These
are the plain functions; `ufunc` wraps some of them into objects that also reduce and accumulate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.promotion import (
    binary,
    check_arraylike,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    select,
    unary,
    value,
)
from gpuarray.ops.bits import and_p, not_p, or_p, shift_left_p, xor_p
from gpuarray.ops.bits import shift_right_arithmetic_p, shift_right_logical_p
from gpuarray.ops.convert import convert_element_type_p
from gpuarray.ops.elementwise import add_p, div_p, max_p, min_p, mul_p, neg_p, sub_p
from gpuarray.ops.elementwise import eq_p, ge_p, gt_p, le_p, lt_p, ne_p

kind_of = dtypes.kind_of
inexact, numeric = dtypes.to_inexact_dtype, dtypes.to_numeric_dtype


def documented(function: Callable[..., Any], doc: str) -> Any:
    """The function with its docstring; the public namespace is where it is found."""
    function.__doc__ = doc
    return function


def always(run: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """The pick of a function that runs the same way for every dtype."""
    return lambda dtype: run


def for_bool(logic: Callable[..., Any], run: Callable[..., Any]) -> Callable[[Any], Any]:
    """The pick of a function for which booleans are logic and not numbers."""
    return lambda dtype: logic if kind_of(dtype) == "b" else run


def zero_of(x: Any) -> np.generic:
    """Zero in the dtype of a bindable value."""
    return np.zeros((), lax.dtype(x))[()]


# ---- arithmetic ----

add = documented(
    binary("add", for_bool(or_p.bind, add_p.bind)),
    """x + y, element by element; for booleans, `x or y`.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.add(gnp.arange(3), 10)
    Array([10, 11, 12], dtype=int32)
    """,
)
subtract = documented(
    binary("subtract", always(sub_p.bind)),
    """x - y, element by element.

    Shape contract: shapes broadcast; dtypes promote; booleans are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.subtract(gnp.arange(3), 1)
    Array([-1,  0,  1], dtype=int32)
    """,
)
multiply = documented(
    binary("multiply", for_bool(and_p.bind, mul_p.bind)),
    """x * y, element by element; for booleans, `x and y`.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.multiply(gnp.arange(3), 2)
    Array([0, 2, 4], dtype=int32)
    """,
)
true_divide = documented(
    binary("true_divide", always(div_p.bind), inexact),
    """x / y, element by element; integers divide to floats.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.true_divide(gnp.arange(3), 2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """,
)


def divide(x1, x2, /) -> Array:
    """x1 / x2: another name of `true_divide`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.divide(gnp.arange(3), 2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return true_divide(x1, x2)


def _floor_divide_int(x, y):
    quotient = div_p.bind(x, y)
    signs_differ = ne_p.bind(lax.sign(x), lax.sign(y))
    inexact_ = ne_p.bind(lax.rem(x, y), zero_of(x))
    lower = sub_p.bind(quotient, zero_of(x) + 1)
    return select(and_p.bind(signs_differ, inexact_), lower, quotient)


def _float_divmod(x, y):
    zero = zero_of(x)
    rest = lax.rem(x, y)
    whole = select(eq_p.bind(y, zero), x, sub_p.bind(x, rest))
    quotient = div_p.bind(whole, y)
    # rem has the sign of x; the remainder wanted has that of y.
    wrong = and_p.bind(ne_p.bind(rest, zero), ne_p.bind(lax.sign(y), lax.sign(rest)))
    rest = select(wrong, add_p.bind(rest, y), rest)
    quotient = select(wrong, sub_p.bind(quotient, zero + type(zero)(1)), quotient)
    return lax.round(quotient), rest


def _remainder(x, y):
    zero = zero_of(x)
    if kind_of(zero.dtype) in "iu":
        y = select(eq_p.bind(y, zero), zero + type(zero)(1), y)
    rest = lax.rem(x, y)
    wrong = and_p.bind(
        ne_p.bind(lt_p.bind(rest, zero), lt_p.bind(y, zero)), ne_p.bind(rest, zero)
    )
    return select(wrong, add_p.bind(rest, y), rest)


def _no_complex(name: str, dtype) -> None:
    if kind_of(dtype) == "c":
        raise TypeError(f"{name} does not support complex-valued inputs: they have no order")


def _pick_floor_divide(dtype):
    _no_complex("floor_divide", dtype)
    if kind_of(dtype) == "u":
        return div_p.bind
    return _floor_divide_int if kind_of(dtype) == "i" else lambda x, y: _float_divmod(x, y)[0]


def _pick_divmod(dtype):
    _no_complex("divmod", dtype)
    if kind_of(dtype) in "iu":
        divide_ = _pick_floor_divide(dtype)
        return lambda x, y: (divide_(x, y), _remainder(x, y))
    return _float_divmod


def _pick_remainder(dtype):
    _no_complex("remainder", dtype)
    return _remainder


floor_divide = documented(
    binary("floor_divide", _pick_floor_divide, numeric),
    """The greatest integer not above x1 / x2.

    Shape contract: shapes broadcast; dtypes promote, integers stay integers. x // 0 is no error.

    >>> import gpuarray.numpy as gnp
    >>> gnp.floor_divide(gnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """,
)
remainder = documented(
    binary("remainder", _pick_remainder, numeric),
    """x1 - floor(x1 / x2) * x2: what is left of the floored division, with the sign of x2.

    Shape contract: shapes broadcast; dtypes promote. For integers x % 0 is 0.

    >>> import gpuarray.numpy as gnp
    >>> gnp.remainder(gnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """,
)
divmod = documented(
    binary("divmod", _pick_divmod, numeric),
    """The pair (floor_divide, remainder).

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.divmod(7, 2)
    (Array(3, dtype=int32, weak_type=True), Array(1, dtype=int32, weak_type=True))
    """,
)


def mod(x1, x2, /) -> Array:
    """Another name of `remainder`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.mod(gnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    return remainder(x1, x2)


def _fmod(x, y):
    if kind_of(lax.dtype(x)) in "iu":
        y = select(eq_p.bind(y, zero_of(y)), zero_of(y) + 1, y)
    return lax.rem(x, y)


fmod = documented(
    binary("fmod", always(_fmod), numeric),
    """What is left of the division truncated towards zero, with the sign of x1.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fmod(gnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """,
)
negative = documented(
    unary("negative", always(neg_p.bind)),
    """-x, element by element.

    Shape contract: the shape and dtype of x; booleans are refused (use ~x).

    >>> import gpuarray.numpy as gnp
    >>> gnp.negative(gnp.arange(3))
    Array([ 0, -1, -2], dtype=int32)
    """,
)
positive = documented(
    unary("positive", always(asarray)),
    """+x: the array itself.

    >>> import gpuarray.numpy as gnp
    >>> gnp.positive(gnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """,
)


def _pick_abs(dtype):
    return asarray if kind_of(dtype) in "bu" else lax.abs


def abs(x, /) -> Array:
    """The absolute value; of complex numbers, the modulus.

    Shape contract: the shape of x; complex dtypes become their real ones.

    >>> import gpuarray.numpy as gnp
    >>> gnp.abs(gnp.array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    """
    return absolute(x)


absolute = documented(unary("absolute", _pick_abs), abs.__doc__ or "")
square = documented(
    unary("square", always(lax.square), numeric),
    """x * x.

    Shape contract: the shape and dtype of x (booleans count as integers).

    >>> import gpuarray.numpy as gnp
    >>> gnp.square(gnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """,
)
sign = documented(
    unary("sign", always(lax.sign)),
    """-1, 0 or 1 as x is negative, zero or positive; x / |x| for complex numbers.

    >>> import gpuarray.numpy as gnp
    >>> gnp.sign(gnp.array([-2.5, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """,
)
reciprocal = documented(
    unary("reciprocal", always(lambda x: lax.integer_pow(x, -1)), inexact),
    """1 / x.

    Shape contract: the shape of x; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.reciprocal(gnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """,
)

# ---- powers ----


def power(x1, x2, /) -> Array:
    """x1 to the power x2.

    Shape contract: shapes broadcast; dtypes promote. A known integer exponent is multiplied out;
    integers with integer exponents stay integers, and negative exponents are then an error.

    >>> import gpuarray.numpy as gnp
    >>> gnp.power(gnp.arange(4), 2)
    Array([0, 1, 4, 9], dtype=int32)
    """
    check_arraylike("power", x1, x2)
    exponent = known_integer(x2)
    if exponent is not None:
        (base,) = promote_args_numeric("power", x1)
        if not isinstance(base, Array) or kind_of(base.dtype) == "b":
            base = asarray(base)
        # The exponent takes part in promotion: float16 ** np.int32(2) is float16, 2 ** 2 weak.
        base, _ = _same_dtype(base, x2)
        return lax.integer_pow(base, exponent)
    return _power(x1, x2)


def known_integer(x: Any) -> int | None:
    """The value of an integer scalar that is known (Python's, NumPy's, or a concrete array's)."""
    if type(x) is int or type(x) is bool:
        return int(x)
    if isinstance(x, (np.ndarray, np.generic)) and not x.shape and kind_of(x.dtype) in "biu":
        return int(x)
    if isinstance(x, Array) and not x.shape and not isinstance(x, Tracer):
        return int(x) if kind_of(x.dtype) in "biu" else None
    return None


pow = documented(lambda x1, x2, /: power(x1, x2), "Another name of `power`.")
