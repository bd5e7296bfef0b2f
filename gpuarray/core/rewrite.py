"""How a compiler may write an equation in another way: rules that stand beside the primitive.

Floor 1. In: equations of a primitive. Out: operands, axes, or equations with the same results. With
these rules the passes over a Graph name no operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Extents(NamedTuple):
    """The lengths of a product's axes: those in both operands, in the left one alone, in the right
    one alone, and those that are summed.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """Rules of an operation that multiplies the elements of two operands and sums.

    extents(eqn) -> Extents
    exchanged(eqn, order, out) -> Eqn or None: one that makes `out`, the result with its axes in
        another order, by exchanging the operands; None where `order` is not what that gives
    expanded(eqn) -> [Eqn]: the same as multiplications and sums
    """

    extents: Callable[[Any], Extents]
    exchanged: Callable[[Any, tuple[int | None, ...], Any], Any]
    expanded: Callable[[Any], list[Any]]


@dataclass(frozen=True)
class Rewrite:
    """The rules of one primitive; those that it lacks are None.

    same_as(eqn) -> Atom or None: the operand that the result is, where nothing is computed
    component(eqn, axis, part) -> Eqn or Atom: the components of a result along an axis that
        `part(operand, axis)`, those of an operand, give
    piece(eqn, number) -> (axis, first, length): which slice of its operand a result of a view is
    joins(eqn) -> int: of operands that are put side by side, along which axis of the result
    sinks: whether view(f(x, y)) may be written as f(view(x), view(y)) for a pointwise f
    product: rules of a product
    """

    same_as: Callable[[Any], Any] | None = None
    component: Callable[[Any, int, Callable[[Any, int], Any]], Any] | None = None
    piece: Callable[[Any, int], tuple[int, int, int]] | None = None
    joins: Callable[[Any], int] | None = None
    sinks: bool = False
    product: Product | None = None

    @property
    def repeats(self) -> bool:
        """Whether a view is a broadcast: it shows elements, or a single number, again and again."""
        return self.component is not None


NO_REWRITE = Rewrite()
