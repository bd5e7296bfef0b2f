"""Helpers for the element rules of several families (core/element_rules.py).

Floor 2. In: equations, indices, operands to choose from. Out: accesses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Applied,
    Below,
    Lookup,
    Reduced,
    SerialFold,
    guarded,
)
from gpuarray.core.element_rules import ElementRule, Get, Places, has_text, own_elements
from gpuarray.core.graph import Eqn, Graph, Literal
from gpuarray.core.graph import called as called_graph
from gpuarray.core.index import Axis, Index
from gpuarray.core.primitive import Kind

#: Numbers of loop axes: negative, so that they differ from the axes of a kernel.
_numbers = count(-1, -1)


def called(
    eqn: Eqn,
    template: str,
    operands: Sequence[Access],
    places: Places = (),
    number: int = 0,
    **more: Any,
) -> Access:
    """Return result `number` as a call written by a template; `more` are fields of `Applied`."""
    return Applied(tuple(operands), eqn.outvars[number].aval, tuple(places), template, **more)


# ---- pieces and windows ----


def chosen_along(
    position: Index, ends: Sequence[int], aval: ShapedArray, pick: Callable[[int, Index], Access]
) -> Access:
    """Return an element of concatenated pieces that end at `ends`.

    The piece is found by bisection; `pick(piece, position)` gives its element.
    """

    def between(first: int, last: int) -> Access:
        if last - first == 1:
            return pick(first, position.shifted(-(ends[first - 1] if first else 0)))
        middle = (first + last) // 2
        # Only the middle is tested: the position is known to be at least 0.
        tests = [Below(position, ends[middle - 1])]
        return guarded(tests, aval, lambda: between(first, middle), lambda: between(middle, last))

    return between(0, len(ends))


def start(eqn: Eqn, operand: int, most: int, get: Get, at: Places = ()) -> Index:
    """Return where a window starts: an element of an operand, clamped to 0 ... `most`."""
    # The window fills the whole axis: it can only start at 0.
    if most == 0:
        return Index()
    a = eqn.invars[operand]
    if isinstance(a, Literal):
        # A constant start is clamped here, all others in the kernel.
        return Index(constant=min(max(int(a.val), 0), most))
    return Index(((Lookup(get(operand, at), most), 1),))


# ---- loops ----


def new_axis(length: int) -> Axis:
    """Return a new axis for a loop."""
    return Axis(next(_numbers), length)


def loops(lengths: Sequence[int]) -> tuple[tuple[Axis, ...], list[Index]]:
    """Return axes of nested loops, the first outermost, and the indices along them.

    A length of 1 takes no loop: its index is 0.
    """
    made = [None if n == 1 else new_axis(n) for n in lengths]
    places = [Index() if axis is None else Index(((axis, 1),)) for axis in made]
    return tuple(axis for axis in made if axis is not None), places


# ---- folds ----


def folded_length(eqn: Eqn) -> int:
    """Rule `times`: how many elements a reduction folds into one of its result."""
    shape = eqn.invars[0].aval.shape
    return math.prod(shape[axis] for axis in eqn.params["axes"])


def _folded(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Rule `make` of reductions: one thread folds along the axes that go."""
    shape, gone = eqn.invars[0].aval.shape, eqn.params["axes"]
    axes, steps = loops([shape[axis] for axis in gone])
    along, kept = dict(zip(gone, steps, strict=True)), iter(at)
    places = [along[d] if d in along else next(kept) for d in range(len(shape))]
    terms = (get(0, places),)
    return SerialFold(Reduced(eqn), eqn.outvars[0].aval, (), axes or (new_axis(1),), (), terms)


#: The element rule of reductions whose Fold works on elements.
FOLDED = ElementRule(
    _folded,
    when=lambda eqn: eqn.primitive.has_fold and folded_length(eqn) > 0,
    times=folded_length,
    reads=own_elements,
)


# ---- functions of scalars ----


def is_scalar_graph(graph: Graph) -> bool:
    """Whether a Graph can be written inline, for scalars in registers."""
    # Only pointwise equations with text, and calls of such Graphs.
    for eqn in graph.eqns:
        inner = called_graph(eqn)
        if inner is not None:
            if not is_scalar_graph(inner):
                return False
        elif eqn.primitive.kind is not Kind.POINTWISE or not has_text(eqn):
            return False
    values = [a for e in graph.eqns for a in (*e.invars, *e.outvars)]
    return not graph.consts and all(dtypes.in_kernels(a.aval.dtype) for a in values)


def folds_scalars(eqn: Eqn) -> bool:
    """Rule `when`: whether the equation's Graph can be written inline."""
    return is_scalar_graph(eqn.params["jaxpr"])
