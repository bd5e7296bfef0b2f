"""The layout of a value over devices, as its type knows it.

Floor 1. In: names of mesh axes. Out: interned `Layout`s, held by avals; None means that nothing is
known or needed, so code for one device never sees a Layout.

Three things are known. Inside a `shard_map`: along which mesh axes devices may hold different
values. Along mesh axes of type Explicit: how the value is sharded, which follows from the layouts
of an operation's operands, or is an error if it does not (primitives/laying.py). And along which
axes, Explicit or of the enclosing `shard_map`, the devices hold terms of a sum instead of the value
(`unreduced`), or a value whose cotangent is such terms (`reduced`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpuarray.core.memories import Space
from gpuarray.errors import ShardingTypeError
from gpuarray.util import Interned

_interned = Interned(1024)

#: For each axis of a value, the mesh axes that cut it, major first.
Cuts = tuple[tuple, ...]

#: The mesh axes along which a value is unreduced, and those along which it is reduced.
Sums = tuple[frozenset, frozenset]
NONE: frozenset = frozenset()
NO_SUMS: Sums = (NONE, NONE)


class Layout:
    """How a value is laid out over devices; equal layouts are the same object.

    Attributes
    ----------
    varying :
        Names of the mesh axes along which devices may hold different values. Along the others of
        the `shard_map` around, all devices hold the same.
    mesh :
        The axes of the mesh over which the value is cut, an AbstractMesh; None if it is whole.
    cuts :
        The Explicit axes of the mesh that cut each axis of the value; None if it is whole, and
        no sum over an axis of the mesh concerns it.
    unreduced :
        The mesh axes along which devices hold terms of a sum, which is the value. They are those
        of the mesh, or of the `shard_map` around where there is no mesh.
    reduced :
        The mesh axes along which devices hold the same value, and its cotangent is `unreduced`.
    space :
        The memory that the value is in, if it is not a device's own.

    Examples
    --------

    >>> varying({"x"}) is varying(["x"])
    True
    """

    __slots__ = ("__weakref__", "cuts", "mesh", "reduced", "space", "unreduced", "varying")

    def __init__(
        self,
        varying: frozenset,
        mesh: Any = None,
        cuts: Cuts | None = None,
        unreduced: frozenset = NONE,
        reduced: frozenset = NONE,
        space: Space | None = None,
    ):
        self.varying = varying
        self.mesh = mesh
        self.cuts = cuts
        self.unreduced = unreduced
        self.reduced = reduced
        self.space = space

    def __reduce__(self):
        # `layout` returns None for one without information, so this one has its own constructor.
        if self is whole_over(self.mesh, len(self.cuts or ())):
            return whole_over, (self.mesh, len(self.cuts or ()))
        sums = self.unreduced, self.reduced
        return layout, (self.varying, self.mesh, self.cuts, sums, self.space)

    def __repr__(self) -> str:
        cut = "" if self.cuts is None else f", cuts={self.cuts}"
        for word in ("unreduced", "reduced"):
            cut += f", {word}={_listed(names)}" if (names := getattr(self, word)) else ""
        cut += "" if self.space is None else f", space={self.space}"
        return f"Layout(varying={_listed(self.varying)}{cut})"

    @property
    def says_more(self) -> bool:
        """Whether it contains more than the axes along which the value varies."""
        return self.cuts is not None or bool(self.unreduced or self.reduced)

    def but(self, **changes: Any) -> Layout | None:
        """Return the same Layout with the given fields replaced."""
        fields: dict[str, Any] = {"names": self.varying, "mesh": self.mesh, "cuts": self.cuts}
        fields["sums"], fields["space"] = (self.unreduced, self.reduced), self.space
        return layout(**(fields | changes))

    def without_axis(self, axis: int) -> Layout | None:
        """Return the Layout of an element along an axis of the value."""
        if self.cuts is None:
            return self
        return self.but(cuts=self.cuts[:axis] + self.cuts[axis + 1 :])

    def with_axis(self) -> Layout | None:
        """Return the Layout of such values stacked along a new leading axis."""
        return self if self.cuts is None else self.but(cuts=((), *self.cuts))

    def of_rank(self, ndim: int) -> Layout | None:
        """Return the Layout of a value with `ndim` axes, none of them sharded."""
        return self.but(cuts=((),) * ndim if self.cuts is not None else None)


def _listed(names: frozenset) -> str:
    return f"{{{', '.join(sorted(map(repr, names)))}}}"


def layout(
    names: Iterable[Any],
    mesh: Any = None,
    cuts: Cuts | None = None,
    sums: Sums = NO_SUMS,
    space: Space | None = None,
) -> Layout | None:
    """Return the Layout with these fields; None if it contains no information."""
    # All layouts without information are one object, None, so code for one device tests only for
    # that.
    names = frozenset(names)
    if (cuts is None or not any(cuts)) and not any(sums):
        if not names and space is None:
            return None
        # It only varies: over which mesh it is not cut makes no difference.
        mesh = cuts = None
    key = (names, mesh, cuts, sums, space)
    found = _interned.recent.get(key)
    return found or _interned.put(key, lambda: Layout(names, mesh, cuts, *sums, space))


def whole_over(mesh: Any, ndim: int) -> Layout:
    """Return a Layout over `mesh` of a value that is not sharded along any Explicit axis.

    It is for types that are shown: programs do not distinguish such values from others.
    """
    key = (NONE, mesh, ((),) * ndim, NO_SUMS, None)
    found = _interned.recent.get(key)
    return found or _interned.put(key, lambda: Layout(*key[:3]))


def varying(names: Iterable[Any]) -> Layout | None:
    """Return the Layout of a value that varies along these mesh axes; None if along none."""
    return layout(names)


def names_of(layout: Layout | None) -> frozenset:
    """Return the mesh axes along which a value with this Layout varies."""
    return frozenset() if layout is None else layout.varying


def cuts_of(layout: Layout | None) -> Cuts | None:
    """Return how a value with this Layout is cut along Explicit axes; None if it is whole."""
    return None if layout is None else layout.cuts


def sums_of(layout: Layout | None) -> Sums:
    """Return the mesh axes along which a value is unreduced, and those where it is reduced."""
    return NO_SUMS if layout is None else (layout.unreduced, layout.reduced)


def in_space(given: Layout | None, space: Space | None) -> Layout | None:
    """Return the same Layout in another memory; None: the device's."""
    space = None if space is Space.Device else space
    if given is None:
        return None if space is None else layout((), space=space)
    return given if given.space is space else given.but(space=space)


def space_of_results(name: str, avals: Sequence[Any]) -> Space | None:
    """Return the memory of results, given that of the operands, which must agree.

    Single numbers have no say: they are passed to where the others are.
    """
    known = [a for a in avals if a.size != 1] or avals[:1]
    first = known[0]
    other = next((a for a in known if space_in(a) is not space_in(first)), None)
    if other is None:
        return space_in(first)
    # Compilers and derivatives combine their own values with those of the user.
    if resolving.depth:
        return space_in(first) or space_in(other)
    raise ValueError(
        f"memory_space of all inputs passed to `{name}` must be the same. Got one operand with "
        f"type: {first.str_short()} and another operand with type: {other.str_short()}. Move one "
        "of them with device_put(x, memory.Space.Device)."
    )


def space_in(aval: Any) -> Space | None:
    """Return the memory space of a value's type; None for the device's."""
    return aval.layout and aval.layout.space


def unreduced_of(layout: Layout | None) -> frozenset:
    """Return the mesh axes along which devices hold terms of a value instead of the value."""
    return NONE if layout is None else layout.unreduced


def with_sums(given: Layout | None, unreduced: frozenset, reduced: frozenset) -> Layout | None:
    """Return the same Layout with these unreduced and reduced axes."""
    if given is None:
        return layout((), sums=(unreduced, reduced))
    return given.but(sums=(unreduced, reduced))


def of_cotangents(given: Layout | None) -> Layout | None:
    """Return the Layout of a value's cotangents: unreduced where it is reduced, and so on."""
    if given is None or not (given.unreduced or given.reduced):
        return given
    return given.but(sums=(given.reduced, given.unreduced))


def with_names(given: Layout | None, names: Iterable[Any]) -> Layout | None:
    """Return the Layout of a value that is cut as before, and varies along these mesh axes."""
    return varying(names) if given is None else given.but(names=names)


def also_varying(given: Layout | None, more: Layout | None) -> Layout | None:
    """Return a Layout that also varies along the axes of another one."""
    if more is None or names_of(more) <= names_of(given):
        return given
    return with_names(given, names_of(given) | more.varying)


def joined(layouts: Iterable[Layout | None]) -> Layout | None:
    """Return the union of the axes along which operands with these Layouts vary."""
    names: frozenset = frozenset()
    for given in layouts:
        # Compare by identity first: operands of one operation usually share their Layout.
        if given is not None and given.varying is not names:
            names = names | given.varying if names else given.varying
    return varying(names)


def check_alike(name: str, layouts: Iterable[Layout | None]) -> None:
    """Refuse to mix operands that vary between devices with others that do not, without a cast."""
    varying = [names_of(given) for given in layouts]
    if len({*varying}) > 1 and not resolving.depth:
        raise ValueError(
            f"Primitive {name} requires varying manual axes to match, but got "
            f"{list(map(_listed, varying))}, and the setting 'auto_pcast' is off. Cast operands "
            "with lax.pcast(x, axes, to='varying'), or pass check_vma=False to shard_map."
        )


def reconciled(a: Layout | None, b: Layout | None) -> Layout | None:
    """Return the common Layout of a value that may have either, such as a loop carry.

    An axis sharded in either is sharded; ShardingTypeError if they differ.
    """
    if a is b:
        return a
    # One of them is empty: use the other one, except for sums, on which both must agree.
    if a is None or b is None:
        known = a or b
        assert known is not None
        if known.space is not None:
            raise _other_memory()
        return known.but(sums=_reconciled_sums(a, b)) if any(sums_of(known)) else known
    if a.space is not b.space:
        raise _other_memory()
    cuts: list[tuple] = []
    for x, y in zip(a.cuts or b.cuts or (), b.cuts or a.cuts or (), strict=True):
        # If only one of them shards an axis, use that.
        if x and y and x != y:
            raise ShardingTypeError(
                f"a value is cut as {shown(a.cuts)} in one place and as {shown(b.cuts)} in "
                "another, such as a loop's start and its step, or two branches: lay one of them "
                "as the other with sharding.reshard."
            )
        cuts.append(x or y)
    # The cuts are joined; a mesh axis may then name two axes of the value, which no layout
    # can say.
    sums = _reconciled_sums(a, b)
    found = tuple(cuts)
    if a.cuts is not None and b.cuts is not None and _twice(found):
        raise ShardingTypeError(
            f"a value is cut as {shown(a.cuts)} in one place and as {shown(b.cuts)} in another, "
            "which name the same axis of the mesh for two of its axes: use sharding.reshard."
        )
    return layout(a.varying | b.varying, a.mesh or b.mesh, found or None, sums, a.space)


def _other_memory() -> TypeError:
    return TypeError(
        "a value is in the memory of the host in one place and in a device's in another, such as a "
        "loop's start and its step, or two branches: move one of them with device_put(x, "
        "memory.Space.Device)."
    )


def _reconciled_sums(a: Layout | None, b: Layout | None) -> Sums:
    """Return the sums that concern a value that comes with one or the other Layout.

    In derived programs one of them is unreduced where the other one is.
    """
    if sums_of(a) == sums_of(b):
        return sums_of(a)
    # The user wrote both, and one of them is wrong.
    if not resolving.depth:
        given = [f"unreduced={_listed(u)}, reduced={_listed(r)}" for u, r in map(sums_of, (a, b))]
        raise ShardingTypeError(
            f"a value is {given[0]} in one place and {given[1]} in another, such as a loop's "
            "start and its step, or two branches: lay one of them as the other with "
            "sharding.reshard."
        )
    # Terms where either one is terms; the same on all devices only where both are.
    (u, r), (v, s) = sums_of(a), sums_of(b)
    return u | v, r & s


def _twice(cuts: Cuts) -> bool:
    names = [n for part in cuts for n in part]
    return len(names) != len(set(names))


def shown(cuts: Cuts | None) -> str:
    """Return cuts as a user writes them: P('x', None)."""
    parts = [p[0] if len(p) == 1 else p or None for p in cuts or ()]
    return f"P({', '.join(map(repr, parts))})"


# ---- layouts of results ----


class _Resolving(threading.local):
    depth = 0


#: How deep this thread is in programs that are derived from a user's.
resolving = _Resolving()


def out_given(sharding: Any) -> Any:
    """Return a context for operations whose layout comes from an argument, if one is given."""
    return _AS_THE_RULE if sharding is None else unclear_is_whole()


_AS_THE_RULE = contextlib.nullcontext()


@contextlib.contextmanager
def unclear_is_whole() -> Iterator[None]:
    """Context manager in which ambiguous layouts are not errors: such results are whole.

    For programs that are derived from others, whose operations the user did not write, and for
    operations whose layout comes from an argument.
    """
    # A generator, which is closed even if an interrupt (Ctrl-C) comes before `__exit__` has run; a
    # `__del__` would be, too, but an interrupt raised inside it is lost.
    depth = resolving.depth
    try:
        resolving.depth = depth + 1
        yield
    finally:
        resolving.depth = depth


_Rule = Callable[[Any, Sequence[Any], Sequence[Any], dict], list[Layout | None]]
_rule: _Rule | None = None


def set_rule(rule: _Rule) -> None:
    """Set the function that derives layouts of results from sharded operands.

    The rule takes a primitive, the avals of operands and results, and the parameters. It uses the
    factors of all primitives, which are known on a higher floor (primitives/laying.py).
    """
    global _rule
    _rule = rule


def of_results(prim: Any, avals: Sequence[Any], outs: Sequence[Any], params: dict) -> list:
    """Return the layouts of an operation's results, given that some operand is sharded."""
    assert _rule is not None
    return _rule(prim, avals, outs, params)
