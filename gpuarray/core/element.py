"""Accesses: how one element of a value is had where the value itself is not in memory.

Floor 1. Plain data without text, made by the rules of primitives (element_rules.py); the compiler
writes it. An access is a tree: elements of arrays in memory and constants at its leaves, and above
them guards (`inside ? x[...] : pad`), operations, and folds over a few elements. Places are index
arithmetic (index.py), of which a part may be an index that is itself read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
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


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant. Two are equal if their bits are: nan equals itself, and -0.0 is not 0.0."""

    value: Any
    aval: ShapedArray

    @property
    def key(self) -> tuple:
        """What it is compared by."""
        dtype = storage_dtype(self.aval)
        return np.asarray(self.value).astype(dtype).tobytes(), dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Held:
    """A value that the kernel has in a register; whoever writes the kernel knows its name."""

    value: Any


@dataclass(frozen=True, eq=False)
class Guarded:
    """One access where all tests hold, another one elsewhere; `aval` is that of either."""

    tests: tuple[Test, ...]
    inside: Access
    outside: Access
    aval: ShapedArray


@dataclass(frozen=True, eq=False)
class Applied:
    """An operation on elements: result `number` of a pointwise equation, or else a call that the
    primitive brings along, as its `cuda` rule: in the template {0}, {1}, ... are the operands and,
    after them, the places; {T} and {M} are the types of `aval` as a value and in memory, and
    {uint32} and its like those of dtypes.
    """

    operands: tuple[Access, ...]
    aval: ShapedArray
    places: tuple[Index, ...] = ()
    template: str = ""
    eqn: Eqn | None = None
    number: int = 0


# ---- what is folded ----


@dataclass(frozen=True)
class Reduced:
    """By the rule of a reduction: an equation of it on elements like these.

    of: the pointwise equation that makes an element of the terms; without it the last term is one
    matching: only those of which term 0 is the number of place 0 count
    """

    eqn: Eqn
    of: Eqn | None = None
    matching: bool = False


@dataclass(frozen=True)
class Merged:
    """The terms change the states: by a pointwise equation of a state and a term, by a Graph of all
    states and all terms, or (None) by taking their place.
    """

    by: Eqn | Graph | None


@dataclass(frozen=True)
class Best:
    """The first element that is better than all before it, by a comparison of the best one so far
    with the next. The states are what is kept of it, itself, and whether there is any; what is kept
    is term 1, or the number of place 0 if there is just one term.
    """

    better: Eqn


@dataclass(frozen=True, eq=False)
class SerialFold:
    """Elements along loops, one after another: they change the states where the tests hold.

    how: what each does to the states
    states: what each state is like and starts from; `Reduced` has its own
    number: the state that is the result
    spans: where each loop begins and ends, where that is not all of it
    """

    how: Reduced | Merged | Best
    aval: ShapedArray
    states: tuple[tuple[ShapedArray, Access], ...]
    loops: tuple[Axis, ...]
    tests: tuple[Test, ...]
    terms: tuple[Access, ...]
    places: tuple[Index, ...] = ()
    number: int = 0
    spans: tuple[tuple[Access, Access], ...] = ()


Access = Element | Address | Constant | Held | Guarded | Applied | SerialFold


@dataclass(frozen=True)
class Lookup:
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


def found(looked: Lookup) -> tuple[Index, Below]:
    """A place that may be out of bounds: its index, right where the test holds."""
    outside = Lookup(looked.access, looked.most, True, False)
    inside = Lookup(looked.access, looked.most, True, True)
    test = Below(Index(((outside, 1),)), looked.most + 1)
    return Index(((inside, 1),)), test


def guarded(
    tests: Sequence[Test],
    aval: ShapedArray,
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
    return one if one == two else Guarded(open_tests, one, two, aval)


# ---- walks ----


def children(access: Access) -> list[Access]:
    """What an access is made of, and what its places are read with, in order of use."""
    own: list[Access] = []
    for index in _own_places(access):
        own += [a.access for a in atoms(index) if isinstance(a, Lookup)]
    if isinstance(access, Guarded):
        own += [access.inside, access.outside]
    elif isinstance(access, Applied):
        own += access.operands
    elif isinstance(access, SerialFold):
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
    if isinstance(access, SerialFold):
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
