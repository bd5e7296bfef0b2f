"""Operands of a group's members: what is read from memory, and what the group makes itself.

Floor 3. Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuarray.core.graph import Eqn, Literal, Var, params_key

#: For each dimension the axis of the group that it runs along; None where it has length 1.
Dims = tuple[int | None, ...]


@dataclass(eq=False)
class Load:
    """An input of a group: a buffer seen through views, or an index-only value made on the spot."""

    source: Var
    views: tuple[Eqn, ...]
    dims: Dims
    shape: tuple[int, ...]

    def __post_init__(self):
        self.key = (self.source, tuple((e.primitive, params_key(e.params)) for e in self.views))


@dataclass(eq=False)
class Inner:
    """An operand made inside the group: `order` says which of its dimensions stands where (None: a
    new one).
    """

    var: Var
    order: tuple[int | None, ...]


Operand = Literal | Load | Inner
