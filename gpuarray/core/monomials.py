"""Terms of symbolic lengths: products of symbols, and of operations that no polynomial is.

Floor 1. In: names, and lengths of `core/dims.py`. Out: terms in a fixed order, their products and
quotients, and the range of their values. Nothing here makes a length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpuarray.core import intervals
from gpuarray.core.inequalities import ONE
from gpuarray.core.intervals import Range

#: A product of atoms, each with its power, in a fixed order; an atom is a name or an operation.
Term = tuple[tuple[Any, int], ...]


class Operation:
    """A quotient, remainder, maximum or minimum of two lengths."""

    __slots__ = ("key", "left", "name", "right")

    def __init__(self, name: str, left: Any, right: Any):
        if name in ("max", "min"):  # either order is the same: numbers last, others by their text
            left, right = sorted((left, right), key=lambda x: (isinstance(x, int), str(x)))
        self.name, self.left, self.right = name, left, right
        # By text: equal lengths print alike, since terms have one order, and a text hashes fast.
        self.key = (name, str(left), str(right))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"


def order(t: Term) -> tuple:
    """Sort key: terms of higher degree first, the constant last."""
    factors = [(isinstance(a, Operation), str(a), p) for a, p in t]
    return sum(p for _, p in t), len(t), factors[::-1]


def product(a: Term, b: Term) -> Term:
    """The product of two terms."""
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda p: (isinstance(p[0], Operation), str(p[0]))))


def quotient(t: Term, d: Term) -> Term | None:
    """The term that times `d` is `t`, if there is one."""
    powers = dict(t)
    for atom, p in d:
        if powers.get(atom, 0) < p:
            return None
        powers[atom] -= p
    return tuple((a, p) for a, p in powers.items() if p)


def operation_in(t: Term) -> Operation | None:
    """The operation that a term consists of, or None if it has other factors."""
    return t[0][0] if len(t) == 1 and t[0][1] == 1 and isinstance(t[0][0], Operation) else None


def row(d: Any) -> dict[Term, int]:
    """The factor of each term in a length: a row of a system of inequalities."""
    return {ONE: d} if isinstance(d, int) else dict(d.terms)


# ---- ranges: arithmetic with the least and the largest value of each part ----


def range_of(d: Any, symbols: Mapping[str, Range]) -> Range:
    """The range of a length, its terms taken as independent of each other."""
    low = high = 0.0
    for t, n in row(d).items():
        least, most = term_range(t, symbols)
        low += n * (least if n > 0 else most)
        high += n * (most if n > 0 else least)
    return low, high


def term_range(t: Term, symbols: Mapping[str, Range]) -> Range:
    """The range of a product."""
    found: Range = (1.0, 1.0)
    for atom, power in t:
        for _ in range(power):
            found = intervals.product(found, _atom_range(atom, symbols))
    return found


def _atom_range(atom: Any, symbols: Mapping[str, Range]) -> Range:
    if not isinstance(atom, Operation):
        return symbols.get(atom, (1.0, math.inf))
    left, right = range_of(atom.left, symbols), range_of(atom.right, symbols)
    return intervals.OPERATIONS[atom.name](left, right)
