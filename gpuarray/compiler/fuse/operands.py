"""Operands of a group's members: read from memory, or computed in the group.

Floor 3. Plain data, made by fuse.py and merge.py: a producer's `Load` in its consumer becomes an
`Inner` when the two are merged.
"""

from __future__ import annotations

from gpuarray.core.graph import Eqn, Literal, Var, params_key
from gpuarray.util import Struct

#: For each dimension the axis of the group that it runs along; None if it has length 1.
Dims = tuple[int | None, ...]


class Load(Struct, frozen=False, eq=False):
    """An input of a group: a buffer seen through views, or a value computed from its index alone.

    Attributes
    ----------
    source :
        The value in memory.
    views :
        The views that are applied to it, in this order.
    shape :
        The shape after these views.
    dims :
        The axis of the group for each dimension of that shape.
    """

    source: Var
    views: tuple[Eqn, ...]
    dims: Dims
    shape: tuple[int, ...]

    def __post_init__(self):
        # Two loads with equal keys read the same elements: they share an axis match and a register.
        # Views are compared by their operation and params, not by equation: two equal transposes
        # are one.
        self.key = (self.source, tuple((e.primitive, params_key(e.params)) for e in self.views))

    def along(self, dims: Dims) -> Load:
        """The same input along other axes."""
        if dims == self.dims:
            return self
        made = Load.__new__(Load)
        made.source, made.views, made.dims, made.shape = self.source, self.views, dims, self.shape
        made.key = self.key
        return made


class Inner(Struct, frozen=False, eq=False):
    """An operand computed inside the group. `order` gives for each dimension of the operand the
    corresponding one of `var` (None: a new one), so a transpose between two members is not a step.
    """

    var: Var
    order: tuple[int | None, ...]


Operand = Literal | Load | Inner
