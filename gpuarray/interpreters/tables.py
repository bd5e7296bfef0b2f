"""A slot of every Primitive, seen as one dict.

Floor 6. In: the slot's name, and how a rule is adapted on its way in and out. Out: a mapping from
primitives to rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from gpuarray.core.primitive import UNWRITTEN, Kind, Primitive, registry

Adapt = Callable[[Any], Any]


class RuleTable(MutableMapping):
    """Rules by primitive: assigning one gives it to the primitive."""

    def __init__(
        self, slot: str, inward: Adapt, outward: Adapt, implied: frozenset[Kind] = frozenset()
    ):
        self._slot, self._inward, self._outward = slot, inward, outward
        self._implied = implied  # kinds whose rule follows from the kind
        # As they were given, so that reading one back returns the same function.
        self._given: dict[Primitive, Any] = {}

    def _has(self, prim: Primitive) -> bool:
        return getattr(prim, self._slot) is not UNWRITTEN or prim.kind in self._implied

    def __setitem__(self, prim: Primitive, rule: Any) -> None:
        self._given[prim] = rule
        # The transformations use this slot.
        setattr(prim, self._slot, self._inward(rule))

    def __getitem__(self, prim: Primitive) -> Any:
        if prim in self._given:
            return self._given[prim]
        if not self._has(prim):
            raise KeyError(prim)
        return self._outward((prim, getattr(prim, self._slot)))

    def __delitem__(self, prim: Primitive) -> None:
        self[prim]  # raises if there is none
        self._given.pop(prim, None)
        setattr(prim, self._slot, UNWRITTEN)

    def __iter__(self) -> Iterator[Primitive]:
        # Users' primitives are not in the registry, but were set here.
        return iter(dict.fromkeys([*filter(self._has, registry.values()), *self._given]))

    def __len__(self) -> int:
        return sum(1 for _ in self)
