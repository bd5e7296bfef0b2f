"""Accesses: how one element of a value is had where the value itself is not in memory.

Floor 1. Plain data, made by the compiler, which writes it as text too. An access is a tree:
elements of arrays in memory at its leaves, and above them guards (`inside ? x[...] : pad`),
operations, and folds over a few elements. Places are index arithmetic (index.py), of which a part
may be an index that is itself read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuarray.core.graph import Eqn, Var
from gpuarray.core.index import Axis, Index, Quotient, Remainder, axes_of

# ---- tests of places ----


@dataclass(frozen=True)
class Below:
    """0 <= index < bound. As unsigned numbers what is negative is too large as well."""

    index: Index
    bound: int

    @property
    def always(self) -> bool | None:
        """Its value where shapes alone decide it."""
        if self.index.smallest >= 0 and self.index.largest < self.bound:
            return True
        if self.index.smallest >= self.bound or self.index.largest < 0:
            return False
        return None


@dataclass(frozen=True)
class Multiple:
    """index % of == 0."""

    index: Index
    of: int

    @property
    def always(self) -> bool | None:
        """Its value where shapes alone decide it."""
        rest = self.index.divided(self.of)[1]
        return None if rest.terms else rest.constant == 0


Test = Below | Multiple


# ---- what a value is made of ----


@dataclass(frozen=True)
class Element:
    """An element of an array in memory."""

    source: Var
    index: Index


@dataclass(frozen=True)
class Address:
    """Where an element of an array in memory is, for functions that search from there on."""

    source: Var
    index: Index


@dataclass(frozen=True)
class Fixed:
    """A constant."""

    text: str


@dataclass(frozen=True, eq=False)
class Guarded:
    """One access where all tests hold, another one elsewhere."""

    tests: tuple[Test, ...]
    inside: Access
    outside: Access
    type: str  # of the value, in C++


@dataclass(frozen=True, eq=False)
class Applied:
    """An operation on elements: result `number` of an equation, or else a template in which {0},
    {1}, ... are the operands and, after them, the places.
    """

    operands: tuple[Access, ...]
    places: tuple[Index, ...] = ()
    template: str = ""
    eqn: Eqn | None = None
    number: int = 0
    type: str = "auto"


@dataclass(frozen=True, eq=False)
class Folded:
    """Elements along loops, one after another: `steps` changes the states where the tests hold.

    states: type and first value of each; steps: lines in which {s0}, {s1}, ... are the states,
    {t0}, {t1}, ... the terms and {p0}, ... the places; result: an expression of the states
    spans: where each loop begins and ends, where that is not all of it
    """

    states: tuple[tuple[str, Access], ...]
    loops: tuple[Axis, ...]
    tests: tuple[Test, ...]
    terms: tuple[Access, ...]
    steps: tuple[str, ...]
    places: tuple[Index, ...] = ()
    result: str = "{s0}"
    spans: tuple[tuple[Access, Access], ...] = ()


Access = Element | Address | Fixed | Guarded | Applied | Folded


@dataclass(frozen=True)
class Looked:
    """A place that is read from memory: an atom of index arithmetic.

    What is out of bounds is moved inside; with `find`, it becomes a number beyond all others, and
    whoever uses it tests for that. `inside` says that this has been done.
    """

    access: Access
    most: int
    find: bool = False
    inside: bool = True

    @property
    def largest(self) -> int:
        """The largest value it takes."""
        return self.most if self.inside else self.most + 1

    @property
    def name(self) -> tuple:
        """What its name in a kernel is kept under."""
        return self.access, self.most, self.find

    @property
    def axes(self) -> frozenset[int]:
        """The axes it depends on."""
        return frozenset(i for index in places_of(self.access) for i in axes_of(index))


def found(looked: Looked) -> tuple[Index, Below]:
    """A place that may be out of bounds: its index, right where the test holds."""
    outside = Looked(looked.access, looked.most, True, False)
    inside = Looked(looked.access, looked.most, True, True)
    test = Below(Index(((outside, 1),)), looked.most + 1)
    return Index(((inside, 1),)), test


def guarded(
    tests: Sequence[Test],
    type: str,
    inside: Callable[[], Access],
    outside: Callable[[], Access],
) -> Access:
    """One access or another, without the tests that shapes alone decide."""
    if any(t.always is False for t in tests):
        return outside()
    open_tests = tuple(dict.fromkeys(t for t in tests if t.always is None))
    if not open_tests:
        return inside()
    one, two = inside(), outside()
    return one if one == two else Guarded(open_tests, one, two, type)


# ---- walks ----


def children(access: Access) -> list[Access]:
    """What an access is made of, and what its places are read with, in order of use."""
    own: list[Access] = []
    for index in _own_places(access):
        own += [a.access for a in atoms(index) if isinstance(a, Looked)]
    if isinstance(access, Guarded):
        own += [access.inside, access.outside]
    elif isinstance(access, Applied):
        own += access.operands
    elif isinstance(access, Folded):
        bounds = [a for span in access.spans for a in span]
        own += [*(a for _, a in access.states), *bounds, *access.terms]
    return own


def parts(access: Access) -> Iterator[Access]:
    """All accesses of a tree, each once, those that places are read with among them."""
    waiting, seen = [access], set()
    while waiting:
        top = waiting.pop()
        if top in seen:
            continue
        seen.add(top)
        yield top
        waiting += reversed(children(top))


def _own_places(access: Access) -> list[Index]:
    if isinstance(access, Element | Address):
        return [access.index]
    if isinstance(access, Guarded):
        return [t.index for t in access.tests]
    if isinstance(access, Applied):
        return list(access.places)
    if isinstance(access, Folded):
        return [*(t.index for t in access.tests), *access.places]
    return []


def places_of(access: Access) -> Iterator[Index]:
    """All places in a tree."""
    for part in parts(access):
        yield from _own_places(part)


def atoms(index: Index) -> list[Any]:
    """The atoms of an index, those inside quotients and remainders too."""
    found_atoms = []
    waiting: list[Any] = [a for a, _ in reversed(index.terms)]
    while waiting:
        atom = waiting.pop()
        found_atoms.append(atom)
        if isinstance(atom, Quotient | Remainder):
            waiting += [a for a, _ in reversed(atom.inner.terms)]
    return found_atoms


def sources(access: Access) -> list[Var]:
    """The arrays in memory that a tree reads, in order of first use."""
    reads = (p.source for p in parts(access) if isinstance(p, Element | Address))
    return list(dict.fromkeys(reads))
