"""Operand checks shared by the distributions.

Floor 6. In: the caller's arguments. Out: Arrays of one floating dtype whose shapes broadcast.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import lax, nn
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.scipy.special.operands import inexact, strong, strong_with_axes

#: Array-likes as Arrays of one inexact dtype; Python scalars stay weakly typed.
floats = inexact


def strong_floats(name: str, *xs: Any) -> list[Array]:
    """As `floats`, strongly typed."""
    return strong(floats(name, *xs))


def counts(name: str, *xs: Any) -> list[Array]:
    """As `floats`, strongly typed if one of them has axes."""
    return strong_with_axes(floats(name, *xs))


def positive(name: str, *xs: Any) -> list[Array]:
    """As `floats`; the last operand, a scale, is nan where it is not positive."""
    *rest, scale = floats(name, *xs)
    return [*rest, gnp.where(scale > 0, scale, np.nan)]


def clamped(low: float, x: Array, high: float) -> Array:
    """`x` clamped to [low, high]. Outside, its derivative is 0, even if that of a following
    operation is infinite at the limit (a product with 0 would be nan).
    """
    return lax.clamp(lax.full_like(x, low, shape=()), x, lax.full_like(x, high, shape=()))


def log_of_gumbel_tail(y: Array) -> Array:
    """log(1 - exp(-exp(y))), which is y itself as soon as exp(y) is small."""
    # 1 - exp(-e) is e up to rounding once e is below eps.
    small = y < math.log(float(dtypes.finfo(y.dtype).eps))
    return gnp.where(small, y, nn.log1mexp(lax.exp(gnp.where(small, 0.0, y))))
