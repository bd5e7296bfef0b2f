"""Elements of inlined values, computed from elements in memory.

Floor 3. In: values, and the equations that compute those which are inlined. Out: for an element an
access (core/element.py): a tree of loads and arithmetic. How an equation computes an element is a
rule of its primitive (core/element_rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuarray.core.element import Access, Constant, Element
from gpuarray.core.element_rules import Places, rule_of
from gpuarray.core.graph import Eqn, Literal, Var, is_view
from gpuarray.core.index import linear, through


class Inliner:
    """Elements of values at places; the same place in the same value is the same access."""

    def __init__(self, producers: Mapping[Var, Eqn]):
        self.producers = producers
        # One access for each value and place: equal accesses share a register in the kernel.
        self.known: dict[tuple, Access] = {}

    def element(self, v: Var, places: Places) -> Access:
        """The element of a value: values without a producer are in memory."""
        key = v, *places
        access = self.known.get(key)
        if access is None:
            access = self.known[key] = self._element(v, places)
        return access

    def _element(self, v: Var, places: Places) -> Access:
        # Views only change the position: go through all of them first, in a loop.
        eqn = self.producers.get(v)
        while eqn is not None and is_view(eqn):
            (a,) = eqn.invars
            # A view of a literal, or an empty one, has no element in memory.
            if 0 in v.aval.shape or isinstance(a, Literal):
                break
            places, v = through(eqn, list(places)), a
            eqn = self.producers.get(v)
        if 0 in v.aval.shape:  # there is no element: any value will do
            return Constant(0, v.aval)
        if eqn is None:
            return Element(v, linear(places, v.aval.shape))

        def get(i: int, at: Places) -> Access:
            a = eqn.invars[i]
            return Constant(a.val, a.aval) if isinstance(a, Literal) else self.element(a, at)

        # Anything else by the equation's rule, which calls `get` for elements of the operands.
        rule = rule_of(eqn)
        assert rule is not None
        return rule.make(eqn, eqn.outvars.index(v), places, get)


def inlined_element(v: Var, places: Places, producers: Mapping[Var, Eqn]) -> Access:
    """The element of a value at a place, for one access alone."""
    return Inliner(producers).element(v, places)
