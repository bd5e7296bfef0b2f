"""Comparison, logic and bits on arrays of any dtype: the implementation of the operators `< == & |
~ <<`.

Floor 6. In: array-likes, which promote and broadcast. Out: bools for comparison and logic, integers
for bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, lengths
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.numpy.arithmetic import absolute
from gpuarray.numpy.composite import composite
from gpuarray.numpy.promotion import (
    always,
    binary,
    convert,
    documented,
    for_bool,
    promote_args,
    promote_args_numeric,
    select,
    unary,
    zero_of,
)
from gpuarray.primitives.elementwise.arithmetic import eq_p, ge_p, gt_p, le_p, lt_p, ne_p
from gpuarray.primitives.elementwise.bits import (
    and_p,
    not_p,
    or_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    xor_p,
)
from gpuarray.primitives.elementwise.choice import select_n_p

kind_of = dtypes.kind_of
numeric = dtypes.to_numeric_dtype

# ---- comparison ----


def _or_nothing(run: Callable[..., Any], answer: bool) -> Callable[[Any], Callable[..., Any]]:
    """The pick of a comparison with one answer for tangents of integers, which are all equal."""

    def nothing(x: Any, y: Any) -> Array:
        return lax.full(lengths.broadcast(x.shape, y.shape), answer)

    return lambda dtype: nothing if dtype == dtypes.float0 else run


equal = documented(
    binary("equal", _or_nothing(eq_p.bind, True)),
    """Whether x == y, element by element.

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.equal(gnp.arange(3), 1)
    Array([False,  True, False], dtype=bool)
    """,
)
not_equal = documented(
    binary("not_equal", _or_nothing(ne_p.bind, False)),
    """Whether x != y, element by element (nan differs from itself).

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.not_equal(gnp.arange(3), 1)
    Array([ True, False,  True], dtype=bool)
    """,
)


def _ordered(name: str, prim, doc: str) -> Callable[[Any, Any], Array]:
    """A comparison by size; complex numbers compare by real part, then by imaginary part."""

    def by_parts(x, y):
        # NumPy's order of complex numbers: the imaginary part decides between equal real ones.
        same = eq_p.bind(lax.real(x), lax.real(y))
        by_imag = prim.bind(lax.imag(x), lax.imag(y))
        # They have one dtype: promoting weak booleans would make them strong.
        return select_n_p.bind(same, prim.bind(lax.real(x), lax.real(y)), by_imag)

    return documented(
        binary(name, lambda dtype: by_parts if kind_of(dtype) == "c" else prim.bind),
        f"""Whether {doc}, element by element; complex numbers compare as (real, imag).

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.{name}(gnp.arange(3), 1).tolist()
    {[_holds(prim.name, a) for a in range(3)]}
    """,
    )


def _holds(op: str, a: int) -> bool:
    return {"lt": a < 1, "le": a <= 1, "gt": a > 1, "ge": a >= 1}[op]


less = _ordered("less", lt_p, "x < y")
less_equal = _ordered("less_equal", le_p, "x <= y")
greater = _ordered("greater", gt_p, "x > y")
greater_equal = _ordered("greater_equal", ge_p, "x >= y")


@composite
def fmax(x1, x2) -> Array:
    """The larger of two values; where one is nan, the other.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fmax(gnp.array([1.0, gnp.nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """
    x, y = promote_args("fmax", x1, x2)
    # A comparison with nan is false, so a nan in x already yields y; one in y has to be tested.
    return select(or_p.bind(greater(x, y), ne_p.bind(y, y)), x, y)


@composite
def fmin(x1, x2) -> Array:
    """The smaller of two values; where one is nan, the other.

    Shape contract: shapes broadcast; dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fmin(gnp.array([1.0, gnp.nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    x, y = promote_args("fmin", x1, x2)
    # As in fmax.
    return select(or_p.bind(less(x, y), ne_p.bind(y, y)), x, y)


# ---- logic ----


def truth(x: Any) -> Any:
    """A bindable value as booleans: nonzero is true. The result for an array is never weak."""
    aval = aval_of(x)
    if aval.dtype == np.bool_:
        return x
    # nan is true, since it is not zero.
    return ne_p.bind(x, aval.dtype.type(0) if aval.shape else zero_of(x))


def _logical(name: str, prim, doc: str) -> Callable[[Any, Any], Array]:
    # Booleans are combined directly; numbers are compared with zero first.
    run = for_bool(prim.bind, lambda x, y: prim.bind(truth(x), truth(y)))
    return documented(binary(name, run), doc)


logical_and = _logical(
    "logical_and",
    and_p,
    """Whether both are true (not zero), element by element.

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logical_and(gnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_or = _logical(
    "logical_or",
    or_p,
    """Whether at least one is true (not zero), element by element.

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logical_or(gnp.array([0, 1, 2]), False)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_xor = _logical(
    "logical_xor",
    xor_p,
    """Whether exactly one is true (not zero), element by element.

    Shape contract: shapes broadcast; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logical_xor(gnp.array([0, 1, 2]), True)
    Array([ True, False, False], dtype=bool)
    """,
)
logical_not = documented(
    unary("logical_not", always(lambda x: not_p.bind(truth(x)))),
    """Whether x is false (zero), element by element.

    Shape contract: the shape of x; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logical_not(gnp.array([0, 1, 2]))
    Array([ True, False, False], dtype=bool)
    """,
)

# ---- bits ----

bitwise_and = documented(
    binary("bitwise_and", always(and_p.bind)),
    """The bits set in both integers; of booleans, `x and y`.

    Shape contract: shapes broadcast; dtypes promote; floats are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.bitwise_and(gnp.array([12, 10]), 6)
    Array([4, 2], dtype=int32)
    """,
)
bitwise_or = documented(
    binary("bitwise_or", always(or_p.bind)),
    """The bits set in either integer; of booleans, `x or y`.

    Shape contract: shapes broadcast; dtypes promote; floats are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.bitwise_or(gnp.array([12, 10]), 6)
    Array([14, 14], dtype=int32)
    """,
)
bitwise_xor = documented(
    binary("bitwise_xor", always(xor_p.bind)),
    """The bits set in exactly one of the integers.

    Shape contract: shapes broadcast; dtypes promote; floats are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.bitwise_xor(gnp.array([12, 10]), 6)
    Array([10, 12], dtype=int32)
    """,
)
invert = documented(
    unary("invert", always(not_p.bind)),
    """All bits flipped; of booleans, `not x`.

    Shape contract: the shape and dtype of x; floats are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.invert(gnp.array([0, 7]))
    Array([-1, -8], dtype=int32)
    """,
)
bitwise_not = bitwise_invert = invert
left_shift = documented(
    binary("left_shift", always(shift_left_p.bind), numeric),
    """The bits moved up by x2 places: x1 * 2**x2 as far as they fit.

    Shape contract: shapes broadcast; dtypes promote; floats are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.left_shift(gnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """,
)
bitwise_left_shift = left_shift
right_shift = documented(
    binary(
        "right_shift",
        # The sign moves in for signed integers, so that it is a floored division.
        lambda d: (shift_right_logical_p if kind_of(d) == "u" else shift_right_arithmetic_p).bind,
        numeric,
    ),
    """The bits moved down by x2 places: the floor of x1 / 2**x2.

    Shape contract: shapes broadcast; dtypes promote; floats are refused.

    >>> import gpuarray.numpy as gnp
    >>> gnp.right_shift(gnp.array([4, -3]), 1)
    Array([ 2, -2], dtype=int32)
    """,
)
bitwise_right_shift = right_shift


@composite
def bitwise_count(x, /) -> Array:
    """The number of bits set in |x|.

    Shape contract: the shape of x; the result is uint8.

    >>> import gpuarray.numpy as gnp
    >>> gnp.bitwise_count(gnp.array([-3, 7]))
    Array([2, 3], dtype=uint8)
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    # NumPy counts the bits of the magnitude, so that -x has as many as x.
    return convert(lax.population_count(absolute(x)), dtypes.uint8, False)
