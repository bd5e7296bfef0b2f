"""Symbolic lengths as values: for expressions such as `x * x.shape[0]` with an unknown length.

Floor 6. In: a Dim. Out: a scalar, computed from sums over axes of the symbols' lengths, so that it
is right for every value of the symbols and needs no special operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.dims import Dim, symbol
from gpuarray.core.monomials import Operation
from gpuarray.lax.args import canonicalize_shape
from gpuarray.lax.convert import convert
from gpuarray.lax.creation import full
from gpuarray.lax.elementwise import add, div, max, min, mul, rem, select, sub
from gpuarray.lax.reductions import reduce_sum
from gpuarray.lax.shapes import concatenate, expand_dims


def as_scalar(length: Any) -> Any:
    """A length as a scalar, as weakly typed as a Python int is."""
    return convert(_value(length), dtypes.default_int(), True)


def typed(length: Any, dtype: Any) -> Any:
    """A length in a dtype: a scalar of NumPy where it is known."""
    return convert(_value(length), dtype, False) if isinstance(length, Dim) else dtype.type(length)


def shape_as_value(shape: Sequence[int]) -> Any:
    """A shape as an array of integers: NumPy's, unless a length in it is not known.

    Shapes: result [len(shape)].

    >>> from gpuarray import lax
    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    lengths = canonicalize_shape(tuple(shape))
    if Dim not in map(type, lengths):
        return np.array(lengths, dtypes.default_int())
    return concatenate([expand_dims(_value(n), (0,)) for n in lengths], 0)


def _value(length: Any) -> Any:
    kind = dtypes.default_int()
    if isinstance(length, int):
        return full((), length, kind)
    total: Any = full((), 0, kind)
    # A length that depends on symbols is a polynomial: factors times powers of them, added up.
    for term, factor in length.terms.items():
        value = full((), factor, kind)
        for atom, power in term:
            for _ in range(power):
                value = mul(value, _atom(atom, length))
        total = add(total, value)
    return total


def _atom(atom: Any, of: Dim) -> Any:
    if not isinstance(atom, Operation):
        along: Any = (symbol(of.scope, atom),)
        return reduce_sum(full(along, 1, dtypes.default_int()), (0,))
    left, right = _value(atom.left), _value(atom.right)
    if atom.name in ("max", "min"):
        return max(left, right) if atom.name == "max" else min(left, right)
    # Rounded down, as Python divides: the remainder has the sign of the divisor.
    rest = rem(left, right)
    zero = full((), 0, dtypes.default_int())
    other = mul(rest, right) < zero
    if atom.name == "mod":
        return select(other, add(rest, right), rest)
    return sub(div(left, right), convert(other, dtypes.default_int(), False))
