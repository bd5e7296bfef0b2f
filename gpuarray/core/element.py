"""Accesses: how to compute one element of a value that is not in memory.

Floor 1. Plain data without text, built by the element rules of primitives (element_rules.py) and
written as CUDA C++ by the compiler. An access is a tree: elements of arrays in memory and constants
are its leaves; above them are guards (`inside ? x[...] : pad`), operations, and folds over a few
elements. Indices are index arithmetic (index.py), and may contain indices read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.index import Axis, Index, Quotient, Remainder, axes_of
from gpuarray.util import Struct

# ---- tests of indices ----


class Below(Struct):
    """0 <= index < bound: one unsigned comparison, where negative indices are large."""

    index: Index
    bound: int

    @property
    def always(self) -> bool | None:
        """The test's value if it follows from shapes alone, else None."""
        if self.index.smallest >= 0 and self.index.largest < self.bound:
            return True
        if self.index.smallest >= self.bound or self.index.largest < 0:
            return False
        return None


class Multiple(Struct):
    """index % of == 0."""

    index: Index
    of: int

    @property
    def always(self) -> bool | None:
        """The test's value if it follows from shapes alone, else None."""
        # Known if the remainder has no term left that varies.
        rest = self.index.divided(self.of)[1]
        return None if rest.terms else rest.constant == 0


Test = Below | Multiple


# ---- accesses ----


class Element(Struct):
    """An element of an array in memory."""

    source: Var
    index: Index


class Address(Struct):
    """Address of an element of an array in memory, for functions that search from there."""

    source: Var
    index: Index

    @classmethod
    def of(cls, access: Access) -> Address:
        """The address of an element; TypeError if that is computed where it is read."""
        if not isinstance(access, Element):
            raise TypeError(f"an address is that of an element in memory, got {access!r}")
        return cls(access.source, access.index)


class Constant(Struct):
    """A constant. Two are equal if their bits are: nan equals itself, and -0.0 is not 0.0."""

    value: Any
    aval: ShapedArray

    @property
    def key(self) -> tuple:
        """Bits and dtype: the key it is compared by."""
        dtype = storage_dtype(self.aval)
        return np.asarray(self.value).astype(dtype).tobytes(), dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class InRegister(Struct):
    """A value that a kernel holds in a register, under a name known to the kernel's writer."""

    value: Any


# Trees are compared by identity: comparing shared subtrees element by element would take
# exponential time.
class Guarded(Struct, eq=False):
    """`inside` if all tests hold, else `outside`; both have the aval `aval`."""

    tests: tuple[Test, ...]
    inside: Access
    outside: Access
    aval: ShapedArray


class Applied(Struct, eq=False):
    """An operation on elements: result `number` of a pointwise equation, or a template.

    In a template {0}, {1}, ... are the operands, then the `places`, which are indices. {T} and {M}
    are the types of `aval` as a value and in memory; {uint32} etc. are the types of those dtypes.
    `each` is a function of native code that does the same for a row of the last operand: it takes
    the operands before that, the row, where results go, and how many there are.
    `halved` is the template of a kernel in which a thread computes the elements at i and at i plus
    half of all `count` places, if both come of the same work; in it, `u` is the half, 0 or 1.
    """

    operands: tuple[Access, ...]
    aval: ShapedArray
    places: tuple[Index, ...] = ()
    template: str = ""
    each: str = ""
    halved: str = ""
    count: int = 0
    eqn: Eqn | None = None
    number: int = 0


# ---- folds ----


class Reduced(Struct):
    """Fold terms as a reduction does.

    Attributes
    ----------
    eqn :
        An equation of that reduction on elements of this aval.
    of :
        Pointwise equation that computes an element from the terms; None: the last term is one.
    matching :
        Count only elements for which term 0 equals the index `places[0]`.
    """

    eqn: Eqn
    of: Eqn | None = None
    matching: bool = False


class Merged(Struct):
    """Combine states and terms.

    `by` is a pointwise equation of a state and a term, or a Graph of all states and all terms; if
    it is None, the terms replace the states.
    """

    by: Eqn | Graph | None


class Best(Struct):
    """Choose the first best element; `better` compares the best so far with the next.

    The states are: the key of the best element, the element itself, and whether there is one. The
    key is term 1, or the index `places[0]` if there is only one term.
    """

    better: Eqn


class SerialFold(Struct, eq=False):
    """A fold over the elements along loops, in order, of those for which the tests hold.

    Attributes
    ----------
    how :
        How each element changes the states.
    states :
        Aval and initial value of each state; empty for `Reduced`, which has its own.
    number :
        The state that is the result.
    spans :
        Begin and end of each loop, if it does not run over its whole axis.
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


Access = Element | Address | Constant | InRegister | Guarded | Applied | SerialFold


class Lookup(Struct):
    """An index that is read from memory: an atom of index arithmetic.

    An index out of bounds is clamped to 0 ... `most`. With `find`, it becomes `most` + 1 instead,
    which the consumer must test for; `inside` records that this test has been made.
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
        """Key under which a kernel keeps the name of its variable."""
        return self.access, self.most, self.find

    @property
    def axes(self) -> frozenset[int]:
        """The axes it depends on."""
        return frozenset(i for index in places_of(self.access) for i in axes_of(index))


def found(looked: Lookup) -> tuple[Index, Below]:
    """Return the index of a lookup that may be out of bounds, valid if the test holds."""
    if isinstance(looked.access, Constant):
        number = int(looked.access.value)
        inside = 0 <= number <= looked.most
        return Index(constant=number if inside else looked.most + 1), Below(Index(), int(inside))
    # Read once in a kernel (`name` is the same), but with different ranges.
    outside = Lookup(looked.access, looked.most, True, False)
    inside = Lookup(looked.access, looked.most, True, True)
    test = Below(Index(((outside, 1),)), looked.most + 1)
    return Index(((inside, 1),)), test


def clamped(looked: Lookup) -> Index:
    """Return the index of a lookup, moved inside if it is out of bounds."""
    if isinstance(looked.access, Constant):
        return Index(constant=min(max(int(looked.access.value), 0), looked.most))
    return Index(((looked, 1),))


def guarded(
    tests: Sequence[Test],
    aval: ShapedArray,
    inside: Callable[[], Access],
    outside: Callable[[], Access],
) -> Access:
    """Return `Guarded`, without the tests that shapes alone decide."""
    if any(t.always is False for t in tests):
        return outside()
    open_tests = tuple(dict.fromkeys(t for t in tests if t.always is None))
    if not open_tests:
        return inside()
    # A constant padded with itself, for example, needs no test.
    one, two = inside(), outside()
    return one if one == two else Guarded(open_tests, one, two, aval)


# ---- walks ----


def children(access: Access) -> list[Access]:
    """Return the accesses an access consists of, those in its indices too, in order of use."""
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
    """All accesses of a tree, each once, those in its indices too."""
    # A subtree may be shared, so the tree is a graph.
    waiting, seen = [access], set()
    while waiting:
        top = waiting.pop()
        if top in seen:
            continue
        seen.add(top)
        yield top
        waiting += reversed(children(top))  # a stack: the first child comes off first


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
    """All indices in a tree."""
    for part in parts(access):
        yield from _own_places(part)


def atoms(index: Index) -> list[Any]:
    """Return the atoms of an index, those inside quotients and remainders too."""
    # Depth first, in the order of the terms.
    found_atoms = []
    waiting: list[Any] = [a for a, _ in reversed(index.terms)]
    while waiting:
        atom = waiting.pop()
        found_atoms.append(atom)
        if isinstance(atom, Quotient | Remainder):
            waiting += [a for a, _ in reversed(atom.inner.terms)]
    return found_atoms


def sources(access: Access) -> list[Var]:
    """Return the arrays in memory that a tree reads, in order of first use."""
    reads = (p.source for p in parts(access) if isinstance(p, Element | Address))
    return list(dict.fromkeys(reads))
