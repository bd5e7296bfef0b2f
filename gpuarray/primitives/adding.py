"""Equations that rules add to a Graph, by the names of their primitives.

Floor 2. In: a function that appends an equation. Out: an `Adder`, with which a rule is written as
others are with `define.do`, and a few small sums of it: numbers, choices, tests of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.graph import Atom, Eqn, Literal, Var
from gpuarray.core.primitive import Primitive, registry


class Adder:
    """Attribute access to all primitives with one result: `do.mul(x, y)` adds such an equation, and
    returns its result.

    Parameters
    ----------
    append : (Eqn)
        A function called with each new equation.
    site :
        The place of the user's program that new equations belong to.
    """

    def __init__(self, append: Callable[[Eqn], object], site: Any = None):
        self.append, self.site = append, site

    def __getattr__(self, name: str) -> Callable[..., Atom]:
        primitive = registry.get(name.removesuffix("_"))
        if primitive is None:
            raise AttributeError(f"no primitive is named {name!r}")
        return lambda *operands, **params: self.add(primitive, operands, params)

    def add(self, primitive: Primitive, operands: Sequence[Any], params: dict) -> Atom:
        """Add an equation; NumPy scalars become literals."""
        atoms = [x if isinstance(x, Var | Literal) else Literal(x) for x in operands]
        (aval,) = primitive.out_avals([x.aval for x in atoms], params)
        out = Var(aval)
        self.append(Eqn(primitive, atoms, [out], params, self.site))
        return out

    def number(self, value: Any, like: Atom, dtype: Any = None) -> Atom:
        """A number in the shape of a value, and in its dtype by default."""
        scalar = np.asarray(value).astype(like.aval.dtype if dtype is None else dtype)[()]
        shape = like.aval.shape
        return self.broadcast_in_dim(scalar, shape=shape, broadcast_dimensions=(), sharding=None)

    def where(self, mask: Atom, x: Atom, otherwise: Atom) -> Atom:
        """`x` where the mask is true; `select_n` takes the case for false first."""
        return self.select_n(mask, otherwise, x)

    def among(self, entries: Sequence[Atom], at: Atom) -> Atom:
        """The entry at a position, which is clamped into bounds."""
        found = entries[-1]
        for k in reversed(range(len(entries) - 1)):
            found = self.where(self.le(at, self.number(k, at)), entries[k], found)
        return found

    def between(self, at: Atom, low: int | None, high: int | None) -> Atom:
        """Whether a position is between two inclusive bounds, one of which may be None."""
        if low == high and low is not None:
            return self.eq(at, self.number(low, at))
        tests = [] if low is None else [self.ge(at, self.number(low, at))]
        tests += [] if high is None else [self.le(at, self.number(high, at))]
        return tests[0] if len(tests) == 1 else self.and_(*tests)
