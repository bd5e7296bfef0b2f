"""Elements of values that are not in memory, made of elements that are.

Floor 3. In: values, and the equations behind those that are made where they are read. Out: for an
element an access (core/element.py). How one is made is a rule of each primitive
(core/element_rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuarray.core.element import Access, Constant, Element
from gpuarray.core.element_rules import Places, rule_of
from gpuarray.core.graph import Eqn, Literal, Var, is_view
from gpuarray.core.index import linear, through


class Reach:
    """Elements of values at places; the same place in the same value is the same access."""

    def __init__(self, recipes: Mapping[Var, Eqn]):
        self.recipes = recipes
        self.known: dict[tuple, Access] = {}

    def element(self, v: Var, places: Places) -> Access:
        """The element of a value: values without a recipe are in memory."""
        key = v, *places
        access = self.known.get(key)
        if access is None:
            access = self.known[key] = self._element(v, places)
        return access

    def _element(self, v: Var, places: Places) -> Access:
        eqn = self.recipes.get(v)
        while eqn is not None and is_view(eqn):
            (a,) = eqn.invars
            if 0 in v.aval.shape or isinstance(a, Literal):
                break
            places, v = through(eqn, list(places)), a
            eqn = self.recipes.get(v)
        if 0 in v.aval.shape:  # nobody asks
            return Constant(0, v.aval)
        if eqn is None:
            return Element(v, linear(places, v.aval.shape))

        def get(i: int, at: Places) -> Access:
            a = eqn.invars[i]
            return Constant(a.val, a.aval) if isinstance(a, Literal) else self.element(a, at)

        rule = rule_of(eqn)
        assert rule is not None
        return rule.make(eqn, eqn.outvars.index(v), places, get)


def reach(v: Var, places: Places, recipes: Mapping[Var, Eqn]) -> Access:
    """The element of a value at a place, for one access alone."""
    return Reach(recipes).element(v, places)
