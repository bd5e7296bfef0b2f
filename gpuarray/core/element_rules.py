"""Rules of primitives on elements: how one is made where it is read, and what that takes.

Floor 1. In: an equation, and a place in one of its results. Out: an access (element.py). A rule may
ask for elements of the operands at any place, so rules compose, and what is made of several of them
is one tree. A primitive has its rules beside its definition (`element=`, `update=`); what needs no
word of its own follows from its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuarray.core.element import Access, Applied, Test
from gpuarray.core.graph import Eqn, Graph
from gpuarray.core.index import Index, through
from gpuarray.core.primitive import Kind

Places = Sequence[Index]
#: Operand number and place -> its element.
Get = Callable[[int, Places], Access]


def _always(eqn: Eqn) -> bool:
    return True


def _once(eqn: Eqn) -> int:
    return 1


def _never(operand: int) -> bool:
    return False


@dataclass(frozen=True)
class ElementRule:
    """How an element of an operation's results is made where it is read, and what that takes.

    make(eqn, number, at, get) -> Access: the element of result `number` at a place; `get(i, place)`
    is the element of operand i
    when(eqn): whether there is text for that, with these dtypes and params
    times(eqn): how many elements of the operands go into one of a result
    cost(eqn): multiply-adds for an element, without its operands; without this rule, the weight of
    the primitive for each of these times
    reads(eqn, operand): how many elements of an operand are read for whole results, or None where
    it must be in memory; without this rule, these times as many as a result has
    where(operand): whether an operand says where elements are
    """

    make: Callable[[Eqn, int, Places, Get], Access]
    when: Callable[[Eqn], bool] = _always
    times: Callable[[Eqn], int] = _once
    cost: Callable[[Eqn], float] | None = None
    reads: Callable[[Eqn, int], int | None] | None = None
    where: Callable[[int], bool] = _never

    def cost_of(self, eqn: Eqn) -> float:
        """Cost of an element in multiply-adds, without its operands."""
        return eqn.primitive.weight * self.times(eqn) if self.cost is None else self.cost(eqn)

    def reads_of(self, eqn: Eqn, operand: int) -> int | None:
        """How many elements of an operand are read in all; None where it must be in memory."""
        if self.reads is not None:
            return self.reads(eqn, operand)
        return eqn.outvars[0].aval.size * self.times(eqn)


@dataclass(frozen=True)
class UpdateRule:
    """How an operation changes a part of its first operand, which may be done where it lies.

    operand: which operand holds the updates
    target(eqn, at, get) -> (place, tests): where the update at a place goes, and tests of its
    being there
    merge(eqn): how an update (second) changes what is there (first): a pointwise equation or a
    Graph; None: it takes its place
    count(eqn): how many windows of updates there are; a single one meets no other
    unique(eqn): whether it is promised that no two of them meet
    atomic(avals): the CUDA text that merges {1} into memory at {0}, whatever the order; TypeError
    where there is none for these dtypes; None: for no dtypes at all
    in_order(eqn): the equations that bring the updates into the order of their places, and fold
    them there
    """

    operand: int
    target: Callable[[Eqn, Places, Get], tuple[list[Index], Sequence[Test]]]
    merge: Callable[[Eqn], Eqn | Graph | None]
    count: Callable[[Eqn], int]
    unique: Callable[[Eqn], bool]
    atomic: Callable[..., str] | None = None
    in_order: Callable[[Eqn], list[Eqn]] | None = None


# ---- kinds ----


def own_elements(eqn: Eqn, operand: int) -> int:
    """A rule `reads`: each element of an operand goes to one place at most."""
    return eqn.invars[operand].aval.size


def _view(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    return get(0, through(eqn, list(at)))


def stretched(shape: Sequence[int], at: Places) -> list[Index]:
    """The place in an operand of that shape which broadcasts along the axes it lacks."""
    if not shape:
        return []
    return [Index() if n == 1 else c for n, c in zip(shape, at, strict=True)]


def pointwise(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """An operation on the elements at the same place."""
    operands = [get(i, stretched(a.aval.shape, at)) for i, a in enumerate(eqn.invars)]
    return Applied(tuple(operands), eqn.outvars[number].aval, eqn=eqn, number=number)


def has_text(eqn: Eqn) -> bool:
    """A rule `when`: where the primitive has CUDA text."""
    return eqn.primitive.has_text([a.aval for a in eqn.invars], eqn.params)


def free(eqn: Eqn) -> float:
    """A rule `cost`: there is nothing to compute."""
    return 0.0


def choosing(eqn: Eqn) -> float:
    """A rule `cost`: one operand is chosen, by halving where there are many."""
    return 1.0 + max(len(eqn.invars) - 4, 0).bit_length()


#: The rules of kinds, for primitives without one of their own.
BY_KIND: dict[Kind, ElementRule] = {
    Kind.VIEW: ElementRule(_view, cost=free),
    Kind.POINTWISE: ElementRule(pointwise, when=has_text),
}


def rule_of(eqn: Eqn) -> ElementRule | None:
    """How an element of an equation's result is made elsewhere; None if it cannot be."""
    rule: Any = eqn.primitive.element
    if rule is None:
        return BY_KIND.get(eqn.primitive.kind)
    return rule or None  # a Sentinel is false
