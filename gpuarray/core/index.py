"""Index maps: where in a buffer an access reads, as integer arithmetic over the axes of a group.

Floor 1. In: the chain of views between a buffer and its reader. Out: an `Index`, which is a sum of
terms `coefficient * atom` and a constant. An atom is an axis, or a quotient or remainder that did
not simplify; since shapes are constants, most do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gpuarray.core.graph import Eqn
from gpuarray.util import Struct


# A tuple: planning looks axes up in tables all the time.
class Axis(NamedTuple):
    """One axis of a group, with positions 0 to length - 1."""

    number: int
    length: int

    @property
    def largest(self) -> int:
        return self.length - 1

    @property
    def name(self) -> int:
        """Key of its name in a kernel."""
        return self.number

    @property
    def axes(self) -> frozenset[int]:
        """The axes that it depends on."""
        return frozenset((self.number,))


class Quotient(Struct):
    """inner // divisor, for a non-negative inner."""

    inner: Index
    divisor: int

    @property
    def largest(self) -> int:
        return self.inner.largest // self.divisor

    @property
    def axes(self) -> frozenset[int]:
        """The axes that it depends on."""
        return frozenset(axes_of(self.inner))


class Remainder(Struct):
    """inner % divisor, for a non-negative inner."""

    inner: Index
    divisor: int

    @property
    def largest(self) -> int:
        return min(self.inner.largest, self.divisor - 1)

    @property
    def axes(self) -> frozenset[int]:
        """The axes that it depends on."""
        return frozenset(axes_of(self.inner))


class Atom(Protocol):
    """Protocol of an index's terms: numbers that are never negative.

    Besides the atoms above there are positions read from memory (core/element.py).
    """

    @property
    def largest(self) -> int: ...
    @property
    def axes(self) -> frozenset[int]: ...


class Index(Struct):
    """A sum of terms: `sum(coefficient * atom) + constant`."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    # Cached: planning requests the same axes repeatedly.
    @staticmethod
    @functools.lru_cache(4096)
    def axis(number: int, length: int) -> Index:
        """Return the position along one axis; an axis of length 1 is always at 0."""
        return Index(((Axis(number, length), 1),)) if length > 1 else Index()

    def __add__(self, other: Index) -> Index:
        # Terms of the same atom are added; those that cancel go.
        total = dict(self.terms)
        for atom, k in other.terms:
            total[atom] = total.get(atom, 0) + k
        terms = tuple([(a, k) for a, k in total.items() if k])
        return Index(terms, self.constant + other.constant).rejoined()

    def rejoined(self) -> Index:
        """Simplify n * (x // n) + x % n to x, so that a reshape there and back leaves no trace."""
        for atom, k in self.terms:
            if isinstance(atom, Remainder):
                total, whole = dict(self.terms), Quotient(atom.inner, atom.divisor)
                if total.get(whole) == k * atom.divisor:
                    del total[whole], total[atom]
                    rest = Index(tuple(total.items()), self.constant)
                    # The sum may have formed another such pair.
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
        """The largest possible value."""
        return self.constant + sum(a.largest * k for a, k in self.terms if k > 0)

    @property
    def smallest(self) -> int:
        """The smallest possible value."""
        return self.constant + sum(a.largest * k for a, k in self.terms if k < 0)

    def divided(self, n: int) -> tuple[Index, Index]:
        """Return quotient and remainder by n, simplified where the terms allow it."""
        if n <= 1:  # with n == 0 there are no elements, and any position will do
            return self, Index()
        # Multiples of n leave the division; the rest decides whether it can be dropped.
        multiples = Index(tuple((a, k // n) for a, k in self.terms if k % n == 0))
        rest = Index(tuple((a, k) for a, k in self.terms if k % n))
        whole, left = divmod(self.constant, n)
        rest = rest.shifted(left)
        multiples = multiples.shifted(whole)
        if rest.smallest >= 0 and rest.largest < n:
            return multiples, rest
        if rest.smallest < 0:  # C's division truncates: it cannot be split at unknown signs
            return Index(((Quotient(self, n), 1),)), Index(((Remainder(self, n), 1),))
        return (
            multiples + Index(((Quotient(rest, n), 1),)),
            Index(((Remainder(rest, n), 1),)),
        )

    def coefficient(self, axis: int) -> int | None:
        """Return the stride along an axis; None if it is not constant."""
        found = 0
        for atom, k in self.terms:
            if isinstance(atom, Axis):
                found += k if atom.number == axis else 0
            # The axis is inside a quotient or remainder.
            elif axis in atom.axes:
                return None
        return found


def axes_of(index: Index) -> set[int]:
    """Return the axes that an index depends on."""
    found: set[int] = set()
    for atom, _ in index.terms:
        found |= atom.axes
    return found


def linear(coordinates: Sequence[Index], shape: Sequence[int]) -> Index:
    """Return the row-major position of coordinates."""
    # The sum of all coordinates times their strides, as `Index.__add__` makes it of two.
    total: dict[Atom, int] = {}
    constant, stride = 0, 1
    for coordinate, n in zip(reversed(coordinates), reversed(shape), strict=True):
        for atom, k in coordinate.terms:
            total[atom] = total.get(atom, 0) + k * stride
        constant += coordinate.constant * stride
        stride *= n
    return Index(tuple([(a, k) for a, k in total.items() if k]), constant).rejoined()


def split(index: Index, shape: Sequence[int]) -> list[Index]:
    """Return the coordinates of a row-major position."""
    out: list[Index] = []
    for n in reversed(shape):
        index, coordinate = index.divided(n)
        # Along an axis of length 1 there is only position 0.
        out.append(coordinate if n > 1 else Index())
    return out[::-1]


class ViewRule(Struct):
    """A view as an index map of its operand (`Primitive.view`).

    Attributes
    ----------
    through : (eqn, coordinates) -> coordinates
        Coordinates in the operand for coordinates in the result.
    order : (eqn) -> list or None
        The operand axis that each axis of the result is, None for new ones. None in all if axes are
        split, merged or cut.
    keeps_order : (eqn) -> bool
        Whether the result has all elements of the operand, in the same row-major order.
    """

    through: Callable[[Eqn, list[Index]], list[Index]]
    order: Callable[[Eqn], list[int | None] | None] = lambda eqn: None
    keeps_order: Callable[[Eqn], bool] = lambda eqn: False


def through(view: Eqn, coordinates: list[Index]) -> list[Index]:
    """Return coordinates in a view's operand for coordinates in its result."""
    return view_rule(view).through(view, coordinates)


def view_rule(view: Eqn) -> ViewRule:
    """Return the index map of a view."""
    rule = view.primitive.view
    if rule is None:
        raise TypeError(f"{view.primitive.name} is not an index map: it has no rule `view`")
    return rule


def access(views: Sequence[Eqn], coordinates: list[Index], source_shape: Sequence[int]) -> Index:
    """Return the position in a contiguous buffer that a reader at `coordinates` of views reads."""
    return linear(behind(views, coordinates), source_shape)


def behind(views: Sequence[Eqn], coordinates: list[Index]) -> list[Index]:
    """Translate coordinates through a chain of views to those of the underlying array."""
    # From the reader back to the source.
    for view in reversed(views):
        coordinates = through(view, coordinates)
    return coordinates


def contiguous_offset(view: Eqn) -> int | None:
    """Return where a view's result begins in its operand's memory, in elements.

    None if it is not one contiguous piece of that memory, so that a copy is required.
    """
    before, after = view.invars[0].aval.shape, view.outvars[0].aval.shape
    if 0 in after:
        return 0
    coordinates = [Index.axis(i, n) for i, n in enumerate(after)]
    index = linear(through(view, coordinates), before)
    # One piece if both positions differ by a constant only.
    whole = linear(coordinates, after)
    return index.constant if set(index.terms) == set(whole.terms) else None
