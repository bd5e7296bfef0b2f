"""Element rules of primitives: how one element of a result is computed where it is read.

Floor 1. In: an equation, and coordinates in one of its results. Out: an access (element.py). A rule
may read elements of the operands at any coordinates, so rules compose into one tree. A primitive
names its rules in its definition (`element=`, `update=`); views and pointwise operations have the
rule of their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Access, Applied, Constant, Test
from gpuarray.core.fold import Identity
from gpuarray.core.graph import Eqn, Graph, Literal
from gpuarray.core.index import Index, through
from gpuarray.core.primitive import Kind
from gpuarray.util import Struct

#: Coordinates of an element: one index for each axis.
Places = Sequence[Index]
#: Operand number and coordinates -> that element of the operand.
Get = Callable[[int, Places], Access]


def _always(eqn: Eqn) -> bool:
    return True


def _once(eqn: Eqn) -> int:
    return 1


def _never(operand: int) -> bool:
    return False


def _as_they_come(eqn: Eqn) -> bool:
    return False


class ElementRule(Struct):
    """How one element of an operation's results is computed where it is read, and its cost.

    Attributes
    ----------
    make : (eqn, number, at, get) -> Access
        The element of result `number` at the coordinates `at`; `get(i, at)` is an element of
        operand i.
    when : (eqn) -> bool
        Whether CUDA text exists for these dtypes and params.
    times : (eqn) -> int
        Elements of the operands that go into one element of a result.
    cost : (eqn) -> float
        Multiply-adds per element, without its operands. Default: the primitive's weight for each
        of `times`.
    reads : (eqn, operand) -> int or None
        Elements of an operand that are read for whole results; None if the operand must be in
        memory. Default: `times` for each element of a result.
    where : (operand) -> bool
        Whether an operand holds indices.
    """

    make: Callable[[Eqn, int, Places, Get], Access]
    when: Callable[[Eqn], bool] = _always
    times: Callable[[Eqn], int] = _once
    cost: Callable[[Eqn], float] | None = None
    reads: Callable[[Eqn, int], int | None] | None = None
    where: Callable[[int], bool] = _never

    def cost_of(self, eqn: Eqn) -> float:
        """Return the cost of an element in multiply-adds, without its operands."""
        return eqn.primitive.weight * self.times(eqn) if self.cost is None else self.cost(eqn)

    def reads_of(self, eqn: Eqn, operand: int) -> int | None:
        """Return how many elements of an operand are read in all; None: it must be materialised."""
        if self.reads is not None:
            return self.reads(eqn, operand)
        return eqn.outvars[0].aval.size * self.times(eqn)


class UpdateRule(Struct):
    """How an operation changes a part of its first operand, which may be done in place.

    Attributes
    ----------
    operand : int
        Number of the operand that holds the updates.
    target : (eqn, at, get) -> (coordinates, tests)
        Where the update at coordinates `at` is written, and tests of whether that is in bounds.
    merge : (eqn) -> Eqn, Graph or None
        How the old element (first operand) and an update (second) are combined; None: the update
        replaces it.
    count : (eqn) -> int
        Number of windows of updates. A single one overlaps no other.
    unique : (eqn) -> bool
        Whether the caller promises that no two windows overlap.
    atomic : (avals) -> str, or None
        CUDA text that merges {1} into memory at {0} in any order; raises TypeError for dtypes
        without one. None: no dtype has one.
    sums : str, or None
        CUDA text that adds {1} to memory at {0} in any order, if `atomic` only adds numbers, and
        the result may start at 0: then parts of the updates may be merged separately.
    apart : (aval) -> Identity or None
        The initial value of parts of the updates if they are merged separately, and then with each
        other in order; None if that would change results by more than the rounding of a sum.
    among : Primitive or None
        The reduction with which updates may be folded before they are merged with the old element.
    ordered : (eqn) -> bool
        Whether the caller promises that updates come in the order of their targets.
    in_order : (eqn, known) -> list of Eqn, or None
        Equations that sort the updates by their target and fold them there, so that results are the
        same in every run.
    """

    operand: int
    target: Callable[[Eqn, Places, Get], tuple[list[Index], Sequence[Test]]]
    merge: Callable[[Eqn], Eqn | Graph | None]
    count: Callable[[Eqn], int]
    unique: Callable[[Eqn], bool]
    atomic: Callable[..., str] | None = None
    sums: str | None = None
    apart: Callable[[ShapedArray], Identity | None] = lambda aval: None
    among: Any = None
    ordered: Callable[[Eqn], bool] = _as_they_come
    in_order: Callable[[Eqn, dict], list[Eqn]] | None = None


# ---- kinds ----


def own_elements(eqn: Eqn, operand: int) -> int:
    """Rule `reads`: each element of an operand is read once at most."""
    return eqn.invars[operand].aval.size


def _view(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    return get(0, through(eqn, list(at)))


def stretched(shape: Sequence[int], at: Places) -> list[Index]:
    """Return coordinates in an operand of that shape, whose axes of length 1 are broadcast."""
    if not shape:
        return []
    return [Index() if n == 1 else c for n, c in zip(shape, at, strict=True)]


def pointwise(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Rule `make` of operations on the elements at the same coordinates."""
    operands = [get(i, stretched(a.aval.shape, at)) for i, a in enumerate(eqn.invars)]
    return Applied(tuple(operands), eqn.outvars[number].aval, eqn=eqn, number=number)


def has_text(eqn: Eqn) -> bool:
    """Rule `when`: whether the primitive has CUDA text."""
    return eqn.primitive.has_text([a.aval for a in eqn.invars], eqn.params)


def free(eqn: Eqn) -> float:
    """Rule `cost`: nothing to compute."""
    return 0.0


def choosing(eqn: Eqn) -> float:
    """Rule `cost`: one operand is chosen, by bisection if there are many."""
    # Up to four operands count as one comparison.
    return 1.0 + max(len(eqn.invars) - 4, 0).bit_length()


#: Rules by kind, for primitives without one of their own.
BY_KIND: dict[Kind, ElementRule] = {
    Kind.VIEW: ElementRule(_view, cost=free),
    Kind.POINTWISE: ElementRule(pointwise, when=has_text),
}


def rule_of(eqn: Eqn) -> ElementRule | None:
    """Return the element rule of an equation; None if it has none."""
    rule: Any = eqn.primitive.element
    if rule is None:
        return BY_KIND.get(eqn.primitive.kind)
    return rule or None  # a Sentinel is false


class Taken(NamedTuple):
    """An element of an operand, for passes that ask where the elements of a result come from."""

    operand: int
    at: tuple[Index, ...]


def taking(numbers: Mapping[int, Literal]) -> Get:
    """Return the `get` of such passes: an operand that is a number gives that, others `Taken`."""

    def get(operand: int, at: Sequence[Index]) -> Any:
        number = numbers.get(operand)
        return Taken(operand, tuple(at)) if number is None else Constant(number.val, number.aval)

    return get
