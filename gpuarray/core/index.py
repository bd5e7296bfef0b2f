"""Index maps: where in a buffer an access reads, as integer arithmetic over the axes of a group.

Floor 1. In: the chain of views between a buffer and its reader. Out: an `Index`, a sum of terms
`coefficient * atom + constant`, in which an atom is an axis or a quotient or remainder that did not
simplify. Shapes are constants,
so most do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuarray.core.graph import Eqn


@dataclass(frozen=True)
class Axis:
    """One axis of a group: runs from 0 to length - 1."""

    number: int
    length: int

    @property
    def largest(self) -> int:
        return self.length - 1

    @property
    def name(self) -> int:
        """What its name in a kernel is kept under."""
        return self.number

    @property
    def axes(self) -> frozenset[int]:
        """The axes it depends on."""
        return frozenset((self.number,))


@dataclass(frozen=True)
class Quotient:
    """inner // divisor, for a non-negative inner."""

    inner: Index
    divisor: int

    @property
    def largest(self) -> int:
        return self.inner.largest // self.divisor

    @property
    def axes(self) -> frozenset[int]:
        """The axes it depends on."""
        return frozenset(axes_of(self.inner))


@dataclass(frozen=True)
class Remainder:
    """inner % divisor, for a non-negative inner."""

    inner: Index
    divisor: int

    @property
    def largest(self) -> int:
        return min(self.inner.largest, self.divisor - 1)

    @property
    def axes(self) -> frozenset[int]:
        """The axes it depends on."""
        return frozenset(axes_of(self.inner))


class Atom(Protocol):
    """What a term of an index counts: a number that is never negative. Beside those above, a place
    that is read from memory (element.py).
    """

    @property
    def largest(self) -> int: ...
    @property
    def axes(self) -> frozenset[int]: ...


@dataclass(frozen=True)
class Index:
    """A sum of terms: `sum(coefficient * atom) + constant`."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @staticmethod
    def axis(number: int, length: int) -> Index:
        """The position along one axis."""
        return Index(((Axis(number, length), 1),)) if length > 1 else Index()

    def __add__(self, other: Index) -> Index:
        total = dict(self.terms)
        for atom, k in other.terms:
            total[atom] = total.get(atom, 0) + k
        index = Index(tuple((a, k) for a, k in total.items() if k), self.constant + other.constant)
        return index._rejoined()

    def _rejoined(self) -> Index:
        """n * (x // n) + x % n is x again: a reshape there and back leaves nothing behind."""
        total = dict(self.terms)
        for atom, k in self.terms:
            if isinstance(atom, Remainder):
                whole = Quotient(atom.inner, atom.divisor)
                if total.get(whole) == k * atom.divisor:
                    del total[whole], total[atom]
                    rest = Index(tuple(total.items()), self.constant)
                    return rest + atom.inner * k
        return self

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return Index()
        return Index(tuple((a, k * factor) for a, k in self.terms), self.constant * factor)

    def shifted(self, by: int) -> Index:
        return Index(self.terms, self.constant + by)

    @property
    def largest(self) -> int:
        """The largest value it takes."""
        return self.constant + sum(a.largest * k for a, k in self.terms if k > 0)

    @property
    def smallest(self) -> int:
        """The smallest value it takes."""
        return self.constant + sum(a.largest * k for a, k in self.terms if k < 0)

    def divided(self, n: int) -> tuple[Index, Index]:
        """Quotient and remainder by n, simplified where the terms allow it."""
        if n <= 1:  # 0: there are no elements, so any place will do
            return self, Index()
        multiples = Index(tuple((a, k // n) for a, k in self.terms if k % n == 0))
        rest = Index(tuple((a, k) for a, k in self.terms if k % n))
        whole, left = divmod(self.constant, n)
        rest = rest.shifted(left)
        multiples = multiples.shifted(whole)
        if rest.smallest >= 0 and rest.largest < n:
            return multiples, rest
        if rest.smallest < 0:  # cannot be cut in two without knowing signs: keep it whole
            return Index(((Quotient(self, n), 1),)), Index(((Remainder(self, n), 1),))
        return (
            multiples + Index(((Quotient(rest, n), 1),)),
            Index(((Remainder(rest, n), 1),)),
        )

    def coefficient(self, axis: int) -> int | None:
        """How far one step along an axis moves; None where that is not the same everywhere."""
        found = 0
        for atom, k in self.terms:
            if isinstance(atom, Axis):
                found += k if atom.number == axis else 0
            elif axis in atom.axes:
                return None
        return found


def axes_of(index: Index) -> set[int]:
    """The axes an index depends on."""
    found: set[int] = set()
    for atom, _ in index.terms:
        found |= atom.axes
    return found


def linear(coordinates: Sequence[Index], shape: Sequence[int]) -> Index:
    """The position in row-major memory."""
    total, stride = Index(), 1
    for coordinate, n in zip(reversed(coordinates), reversed(shape), strict=True):
        total = total + coordinate * stride
        stride *= n
    return total


def split(index: Index, shape: Sequence[int]) -> list[Index]:
    """The coordinates of a row-major position."""
    out: list[Index] = []
    for n in reversed(shape):
        index, coordinate = index.divided(n)
        out.append(coordinate if n > 1 else Index())
    return out[::-1]


@dataclass(frozen=True)
class ViewRule:
    """What a view is (`Primitive.view`), as an index map of its operand.

    through(eqn, coordinates): coordinates of the result as coordinates of the operand
    order(eqn): where each axis of the result comes from in the operand, None for new ones; None
    altogether if the view does more than bring axes into an order
    """

    through: Callable[[Eqn, list[Index]], list[Index]]
    order: Callable[[Eqn], list[int | None] | None] = lambda eqn: None


def through(view: Eqn, coordinates: list[Index]) -> list[Index]:
    """Coordinates of a view's result, as coordinates of its operand."""
    return view_rule(view).through(view, coordinates)


def view_rule(view: Eqn) -> ViewRule:
    """What a view is."""
    rule = view.primitive.view
    if rule is None:
        raise TypeError(f"{view.primitive.name} is not an index map: it has no rule `view`")
    return rule


def access(views: Sequence[Eqn], coordinates: list[Index], source_shape: Sequence[int]) -> Index:
    """The position in a contiguous buffer that a reader at `coordinates` sees through views."""
    return linear(behind(views, coordinates), source_shape)


def behind(views: Sequence[Eqn], coordinates: list[Index]) -> list[Index]:
    """Coordinates of what is seen through views, as coordinates of the value they look at."""
    for view in reversed(views):
        coordinates = through(view, coordinates)
    return coordinates


def contiguous_offset(view: Eqn) -> int | None:
    """Where the result of a view begins in its operand's memory, in elements, if it is one piece of
    that memory; None where only a copy makes it one.
    """
    before, after = view.invars[0].aval.shape, view.outvars[0].aval.shape
    if 0 in after:
        return 0
    coordinates = [Index.axis(i, n) for i, n in enumerate(after)]
    index = linear(through(view, coordinates), before)
    whole = linear(coordinates, after)
    return index.constant if set(index.terms) == set(whole.terms) else None
