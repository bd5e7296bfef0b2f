"""What a type knows of how a value lies over devices.

Floor 1. In: names of mesh axes. Out: interned `Layout`s, held by avals; None stands for a value of
which nothing is known or needed, so that code for one device never meets one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuarray.util import Interned

_interned = Interned(1024)


class Layout:
    """How a value inside a `shard_map` lies over devices; equal ones are the same object.

    Attributes
    ----------
    varying :
        Names of the mesh axes along which devices may hold different values. Along the others of
        the `shard_map` around, all devices hold the same.

    Examples
    --------

    >>> varying({"x"}) is varying(["x"])
    True
    """

    __slots__ = ("__weakref__", "varying")

    def __init__(self, varying: frozenset):
        self.varying = varying

    def __reduce__(self):
        return varying, (self.varying,)

    def __repr__(self) -> str:
        return f"Layout(varying={{{', '.join(sorted(map(repr, self.varying)))}}})"


def varying(names: Iterable[Any]) -> Layout | None:
    """Return the Layout of a value that varies along these mesh axes; None if along none."""
    key = frozenset(names)
    if not key:
        return None
    found = _interned.recent.get(key)
    return found or _interned.put(key, lambda: Layout(key))


def names_of(layout: Layout | None) -> frozenset:
    """Return the mesh axes along which a value with this Layout varies."""
    return frozenset() if layout is None else layout.varying


def joined(layouts: Iterable[Layout | None]) -> Layout | None:
    """Return the Layout of what is computed from values with these."""
    found: Layout | None = None
    for layout in layouts:
        if layout is None or layout is found:
            continue
        found = layout if found is None else varying(found.varying | layout.varying)
    return found
