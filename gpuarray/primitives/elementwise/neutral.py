"""Neutral operands, such as 1 in a product: rules that remove an operation.

Floor 2. In: equations of two operands. Out: the other operand, where the result equals it bit for
bit: nan, -0.0 and infinities included. Complex numbers stay: (a + bi) * 1 mixes their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.graph import Atom, Eqn, Literal

Test = Callable[[Any, str], bool]  # of a number and the kind of its dtype


def identity(right: Test, left: Test | None = None) -> Callable[[Eqn], Atom | None]:
    """Return the `same_as` rule of an operation that has an identity: a number, for which a test
    holds, on its right or on its left that gives the other operand.

    >>> import numpy as np
    >>> rule = identity(is_one)
    >>> is_one(np.float32(1), "f"), is_zero(np.float32(-0.0), "f")
    (True, False)
    """

    def same_as(eqn: Eqn) -> Atom | None:
        x, y = eqn.invars
        if isinstance(y, Literal) and _is_whole(x, eqn) and _holds(right, y):
            return x
        if left is not None and isinstance(x, Literal) and _is_whole(y, eqn) and _holds(left, x):
            return y
        return None

    return same_as


def undoes_itself(eqn: Eqn, maker: Callable[[Atom], Eqn | None]) -> Atom | None:
    """Rule `seen_through` of an operation that twice is none: what it is applied to twice."""
    before = maker(eqn.invars[0])
    return None if before is None or before.primitive is not eqn.primitive else before.invars[0]


def _is_whole(a: Atom, eqn: Eqn) -> bool:
    out = eqn.outvars[0].aval
    return a.aval.shape == out.shape and a.aval.dtype == out.dtype


def _holds(test: Test, number: Literal) -> bool:
    kind = dtypes.kind_of(number.aval.dtype)
    return kind in "iuf" and test(np.asarray(number.val).astype(number.aval.dtype)[()], kind)


def is_one(x: Any, kind: str) -> bool:
    """Whether x * number and x / number are x."""
    return bool(x == 1)


def is_zero(x: Any, kind: str) -> bool:
    """Whether x - number is x: of the two zeros of floats, -0.0 - 0.0 keeps its sign."""
    return bool(x == 0) and not (kind == "f" and np.signbit(x))


def is_negative_zero(x: Any, kind: str) -> bool:
    """Whether x + number is x: of the two zeros of floats, -0.0 + -0.0 keeps its sign."""
    return bool(x == 0) and (kind != "f" or bool(np.signbit(x)))


def is_lowest(x: Any, kind: str) -> bool:
    """Whether every number is at least this one."""
    return bool(x == -np.inf) if kind == "f" else _is_end(x, "min")


def is_highest(x: Any, kind: str) -> bool:
    """Whether every number is at most this one."""
    return bool(x == np.inf) if kind == "f" else _is_end(x, "max")


def _is_end(x: Any, which: str) -> bool:
    # Integers of fewer than 8 bits have no limits in NumPy.
    return x.dtype.kind in "iu" and bool(x == getattr(np.iinfo(x.dtype), which))
