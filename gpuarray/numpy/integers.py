"""Functions of integers: greatest common divisors and least common multiples.

Floor 6. In: integer array-likes. Out: integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.numpy.arithmetic import absolute
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.promotion import (
    broadcast_to,
    check_arraylike,
    constant,
    promote_args,
    promote_dtypes,
    select,
    zero_of,
)


@composite
def gcd(x1, x2) -> Array:
    """The greatest common divisor, never negative; gcd(0, 0) is 0.

    Shape contract: shapes broadcast; integer dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.gcd(gnp.array([12, 7]), 18)
    Array([6, 1], dtype=int32)
    """
    check_arraylike("gcd", x1, x2)
    return _gcd(*_integers("gcd", *promote_dtypes(x1, x2)))


@composite
def lcm(x1, x2) -> Array:
    """The least common multiple, never negative; 0 where one is 0.

    Shape contract: shapes broadcast; integer dtypes promote.

    >>> import gpuarray.numpy as gnp
    >>> gnp.lcm(gnp.array([4, 7]), 6)
    Array([12, 42], dtype=int32)
    """
    a, b = _integers("lcm", *promote_args("lcm", x1, x2))
    divisor = _gcd(a, b)
    zero = zero_of(divisor)
    none = lax.eq(divisor, zero)
    # Divided before multiplied: a * b may not fit where the result does.
    quotient = lax.div(b, select(none, constant(1, a), divisor))
    return select(none, zero, lax.mul(a, quotient))


def _integers(name: str, a: Any, b: Any) -> list[Array]:
    """The absolute values of integers of one dtype, in one shape."""
    if dtypes.kind_of(aval_of(a).dtype) not in "iu":
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    both = [absolute(asarray(broadcast_to(x, shape))) for x in (a, b)]
    return [as_type(x, x.dtype) for x in both] if shape else both


def _gcd(a: Array, b: Array) -> Array:
    """Euclid's algorithm, as many steps as the slowest pair takes: 1.44 a bit (Fibonacci's)."""
    zero = zero_of(a)
    # Every round costs the same for all pairs: those that are done keep their value.
    for _ in range(int(1.45 * dtypes.itemsize_bits(a.dtype)) + 2):
        done = lax.eq(b, zero)
        rest = lax.rem(a, select(done, constant(1, a), b))
        a, b = select(done, a, b), select(done, b, rest)
    return a
