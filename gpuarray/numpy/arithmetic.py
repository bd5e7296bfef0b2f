"""Arithmetic on arrays of any dtype: the implementation of the operators `+ - * / // % **`.

Floor 6. In: array-likes, which promote and broadcast. Out: one primitive where the dtypes agree.
These are the plain functions; `ufunc` wraps some of them into objects that also reduce.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, lengths
from gpuarray.core.avals import aval_of
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.promotion import (
    always,
    binary,
    broadcast_to,
    check_arraylike,
    checking_users,
    constant,
    documented,
    for_bool,
    promote_dtypes,
    promote_shapes,
    select,
    unary,
    value,
    zero_of,
)
from gpuarray.primitives.elementwise.arithmetic import (
    add_p,
    div_p,
    eq_p,
    lt_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    sub_p,
)
from gpuarray.primitives.elementwise.bits import and_p, or_p, shift_right_logical_p

kind_of = dtypes.kind_of
inexact, numeric = dtypes.to_inexact_dtype, dtypes.to_numeric_dtype


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


divide = true_divide


def _floor_divide_int(x, y):
    # Integer division truncates: where there is a rest and the signs differ, the floor is one less.
    quotient = div_p.bind(x, y)
    signs_differ = ne_p.bind(lax.sign(x), lax.sign(y))
    inexact_ = ne_p.bind(lax.rem(x, y), zero_of(x))
    wrong = and_p.bind(signs_differ, inexact_)
    return select(wrong, sub_p.bind(quotient, constant(1, x)), quotient)


def _float_divmod(x, y):
    zero, one = zero_of(x), constant(1, x)
    # As CPython divides floats: first the remainder, which is exact, then the quotient from it.
    rest = lax.rem(x, y)
    # x - rest is a multiple of y, so the quotient is nearly whole; for y = 0 the division itself
    # gives inf or nan.
    whole = select(eq_p.bind(y, zero), x, sub_p.bind(x, rest))
    quotient = div_p.bind(whole, y)
    # rem has the sign of x; the result must have that of y.
    wrong = and_p.bind(ne_p.bind(rest, zero), ne_p.bind(lax.sign(y), lax.sign(rest)))
    rest = select(wrong, add_p.bind(rest, y), rest)
    quotient = select(wrong, sub_p.bind(quotient, one), quotient)
    # The division of two floats may miss a whole number by its last bit.
    return lax.round(quotient), rest


def _remainder(x, y):
    zero = zero_of(x)
    if kind_of(aval_of(x).dtype) in "iu":
        # x % 0 is 0 for integers, without a trap.
        y = select(eq_p.bind(y, zero), constant(1, x), y)
    rest = lax.rem(x, y)
    some = ne_p.bind(rest, zero)
    # rem has the sign of x; where that is not the sign of y, one y more.
    other_sign = ne_p.bind(lt_p.bind(rest, zero), lt_p.bind(y, zero))
    return select(and_p.bind(other_sign, some), add_p.bind(rest, y), rest)


def _no_complex(name: str, dtype) -> None:
    if kind_of(dtype) == "c":
        raise TypeError(f"{name} does not support complex-valued inputs: they have no order")


def _pick_floor_divide(dtype):
    _no_complex("floor_divide", dtype)
    # Without signs, truncating is flooring.
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
    composite(binary("floor_divide", _pick_floor_divide, numeric)),
    """The greatest integer not above x1 / x2.

    Shape contract: shapes broadcast; dtypes promote, integers stay integers. x // 0 is no error.

    >>> import gpuarray.numpy as gnp
    >>> gnp.floor_divide(gnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """,
)
remainder = documented(
    composite(binary("remainder", _pick_remainder, numeric)),
    """x1 - floor(x1 / x2) * x2: the remainder of floored division, which has the sign of x2.

    Shape contract: shapes broadcast; dtypes promote. For integers x % 0 is 0.

    >>> import gpuarray.numpy as gnp
    >>> gnp.remainder(gnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """,
)
divmod = documented(
    composite(binary("divmod", _pick_divmod, numeric)),
    """The pair (floor_divide, remainder).

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.divmod(7, 2)
    (Array(3, dtype=int32, weak_type=True), Array(1, dtype=int32, weak_type=True))
    """,
)


mod = remainder


def _pick_fmod(dtype):
    # nan for y = 0 in floats, 0 in integers.
    if kind_of(dtype) not in "iu":
        return lax.rem
    return lambda x, y: lax.rem(x, select(eq_p.bind(y, zero_of(y)), constant(1, y), y))


fmod = documented(
    composite(binary("fmod", _pick_fmod, numeric)),
    """The remainder of division truncated towards zero, which has the sign of x1.

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
    # Booleans and unsigned integers are never negative.
    return asarray if kind_of(dtype) in "bu" else lax.abs


absolute = documented(
    unary("absolute", _pick_abs),
    """The absolute value; of complex numbers, the modulus.

    Shape contract: the shape of x; complex dtypes become their real ones.

    >>> import gpuarray.numpy as gnp
    >>> gnp.absolute(gnp.array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    """,
)
abs = absolute
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


@checking_users("power", unless=lambda x1, x2: known_integer(x2) is not None)
def power(x1, x2, /) -> Array:
    """x1 to the power x2.

    Shape contract: shapes broadcast; dtypes promote. A known integer exponent is expanded into
    products, in the dtype of x1; integers to integer powers stay integers (negative powers of them
    are an error if the exponent is known, else 0 except for 1 and -1).

    >>> import gpuarray.numpy as gnp
    >>> gnp.power(gnp.arange(4), 2)
    Array([0, 1, 4, 9], dtype=int32)
    """
    # A known integer exponent is a chain of products: exact, differentiable at 0, for negative x
    # too.
    if type(x2) is int:
        return integer_power(x2)(x1)
    exponent = known_integer(x2)
    if exponent is not None:
        return integer_power(exponent)(x1)
    check_arraylike("power", x1, x2)
    # An integer exponent keeps its dtype with a float base: it is not converted to float, as in
    # JAX.
    base = aval_of(value(x1)).dtype
    if kind_of(base) in "fc" and kind_of(aval_of(value(x2)).dtype) in "iu":
        # The base takes the dtype common to both; the exponent keeps its own.
        x, _ = promote_dtypes(x1, x2)
        return lax.pow(*promote_shapes("power", x, value(x2)))
    return _power(x1, x2)


pow = power


@functools.lru_cache(256)
def integer_power(exponent: int) -> Callable[[Any], Array]:
    """The function x -> x ** exponent, multiplied out."""
    run = always(lambda x: lax.integer_pow(x, exponent))
    return unary("power", run, numeric, ("power", exponent))


def known_integer(x: Any) -> int | None:
    """The value of an integer scalar that is known: Python's, NumPy's, or of a concrete array."""
    if isinstance(x, (bool, int)):
        return int(x)
    if isinstance(x, (np.ndarray, np.generic)) or (
        isinstance(x, Array) and not isinstance(x, Tracer)
    ):
        # Reading a concrete array waits for it, but saves a power by logarithms.
        whole = not x.shape and kind_of(x.dtype) in "iu"
        return int(x) if whole else None  # pyright: ignore[reportArgumentType]
    return None


@composite(inline=True)
def _integers_to_integers(x, y):
    """Repeated squaring, for 6 bits of the exponent: 2 ** 64 has wrapped around to 0 already."""
    # One shape before the loop: it would broadcast in each round otherwise.
    shape = lengths.broadcast(np.shape(x), np.shape(y))
    # Strongly typed: only a power with a known exponent keeps the weak type of its base.
    x, y = (as_type(asarray(broadcast_to(v, shape)), aval_of(v).dtype) for v in (x, y))
    zero, one = zero_of(x), constant(1, x)
    # 0 to any power but 0 is 0, to a negative one too, as in JAX.
    out = select(and_p.bind(eq_p.bind(x, zero), ne_p.bind(y, zero)), zero, one)
    for _ in range(6):
        # The exponent from its lowest bit up; x is squared in every round.
        odd = ne_p.bind(and_p.bind(y, one), zero)
        out = select(odd, mul_p.bind(out, x), out)
        x, y = mul_p.bind(x, x), shift_right_logical_p.bind(y, one)
    return out


_power = binary(
    "power",
    lambda dtype: (
        composite(_integers_to_integers, inline=True) if kind_of(dtype) in "iu" else lax.pow
    ),
    numeric,
)
float_power = documented(
    binary("float_power", always(lax.pow), inexact),
    """x1 to the power x2, computed in floating point whatever the dtypes.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.float_power(gnp.array([2, 4]), -1)
    Array([0.5 , 0.25], dtype=float32)
    """,
)

# ---- extremes ----

maximum = documented(
    binary("maximum", always(max_p.bind)),
    """The larger of two values, element by element; nan where either is nan.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.maximum(gnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """,
)
minimum = documented(
    binary("minimum", always(min_p.bind)),
    """The smaller of two values, element by element; nan where either is nan.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.minimum(gnp.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """,
)
