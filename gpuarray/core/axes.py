"""Named axes: the names and lengths that collectives may use, in this thread.

Floor 1. In: `vmap(axis_name=)`, `shard_map` and `pmap`, which give names while they trace a
function. Out: the length of an axis for the collectives inside, and a key for caches of traces.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuarray.errors import UnboundAxisError


class NamedAxis(NamedTuple):
    """An axis around: its length, and whether the types of values say if they vary along it.

    They do along the axes of a `shard_map` that checks replication; along the axes of `vmap` any
    value may differ.
    """

    size: int
    typed: bool = False


class _Named(threading.local):
    """Per thread: for each name the innermost axis that has it, the outermost name first."""

    def __init__(self):
        # Another dict after each change.
        self.axes: dict[Any, NamedAxis] = {}
        # Mesh axes along which the axes of vmaps around are cut.
        self.spread: tuple = ()


_named = _Named()


class named_axes:
    """Context manager that lets collectives know axes by their names.

    >>> with named_axes({"i": NamedAxis(4)}):
    ...     axis_size("i")
    4
    """

    __slots__ = ("_axes", "_before", "_spread")

    def __init__(self, axes: dict[Any, NamedAxis], spread: tuple = ()):
        self._axes, self._spread = axes, spread

    def __enter__(self) -> None:
        before = self._before = _named.axes, _named.spread
        # An inner axis of the same name hides the outer one until it ends.
        outer = {name: axis for name, axis in before[0].items() if name not in self._axes}
        # In one line, after everything that can fail or be interrupted.
        _named.axes, _named.spread = outer | self._axes, before[1] + self._spread

    def __exit__(self, *_: object) -> None:
        _named.axes, _named.spread = self._before


def _innermost(name: Any, what: str = "collectives") -> NamedAxis:
    found = _named.axes.get(name)
    if found is None:
        known = sorted(map(str, _named.axes))
        raise UnboundAxisError(
            f"Found an unbound axis name: {name}. To fix this, please call {what} under "
            f"`jax.shard_map`, pmap or vmap with that axis_name; known here: "
            f"{', '.join(known) or 'none'}"
        )
    return found


def axis_size(name: Any, what: str = "collectives") -> int:
    """Return the length of a named axis; raise UnboundAxisError if `what` cannot use it here."""
    return _innermost(name, what).size


def typed_names(names: Sequence[Any]) -> frozenset:
    """Return those of the names along which types record whether a value varies."""
    return frozenset(name for name in names if _innermost(name).typed)


def typed_around(names: Iterable[Any]) -> frozenset:
    """Return those of the names that are bound here and along which types record what varies."""
    return typed_names([n for n in names if n in _named.axes])


def axes_around() -> frozenset:
    """Return the names of all axes here."""
    return frozenset(_named.axes)


def spread_names() -> frozenset:
    """Return the mesh axes along which the axes of vmaps around are cut.

    Their spmd_axis_name determines it, or the types of arguments sharded along Explicit axes.
    """
    return frozenset(_named.spread)


def axis_env() -> tuple:
    """Return all bound named axes, for use in a cache key: a trace may depend on them."""
    # An outer axis of the same name is hidden, so a trace cannot depend on it.
    found = tuple((name, *axis) for name, axis in _named.axes.items())
    return (*found, _named.spread) if _named.spread else found


def axis_names() -> list:
    """Return the names of all axes around, the outermost first."""
    return list(_named.axes)
