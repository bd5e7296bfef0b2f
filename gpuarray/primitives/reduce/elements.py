"""Elements of general folds and of folds over windows, made where they are read.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py: one thread makes one element of
the result, in the order of the reference, so the result is the same in every run. `window_elements`
has those windows that fold with a reduction.
"""

from __future__ import annotations

import math

from gpuarray.core.element import Access, Below, Merged, Multiple, SerialFold, Test, guarded
from gpuarray.core.element_rules import ElementRule, Get, Places
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Axis, Index
from gpuarray.primitives.elements import folds_scalars, loops


def window(
    eqn: Eqn, operand: int, at: Places
) -> tuple[tuple[Axis, ...], list[Index], list[Index], list[Test]]:
    """Loops over a window, the steps along them, the place they are at in the operand, and tests of
    its being there.
    """
    p, shape = eqn.params, eqn.invars[operand].aval.shape
    ones = (1,) * len(shape)
    holes = p.get("base_dilation", ones), p.get("window_dilation", ones)
    axes, steps = loops(p["window_dimensions"])
    places: list[Index] = []
    tests: list[Test] = []
    geometry = zip(at, steps, shape, p["window_strides"], p["padding"], *holes, strict=True)
    for c, w, n, stride, (low, _), base, gap in geometry:
        place = (c * stride + w * gap).shifted(-low)
        tests.append(Below(place, (n - 1) * base + 1 if n else 0))
        if base > 1:
            tests.append(Multiple(place, base))
        places.append(place.divided(base)[0])
    return axes, steps, places, tests


def window_size(eqn: Eqn) -> int:
    """A rule `times`: the elements of a window."""
    return math.prod(eqn.params["window_dimensions"])


def _by_graph(eqn: Eqn, number: int, axes, terms: list[Access], starts: list[Access]) -> Access:
    """Elements folded by the equation's Graph, from the initial values on."""
    states = tuple((v.aval, start) for v, start in zip(eqn.outvars, starts, strict=True))
    how, aval = Merged(eqn.params["jaxpr"]), eqn.outvars[number].aval
    return SerialFold(how, aval, states, axes, (), tuple(terms), number=number)


def _reduce_window(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    n = len(eqn.outvars)
    axes, _, places, tests = window(eqn, 0, at)
    starts = [get(n + i, []) for i in range(n)]

    def term(i: int) -> Access:
        return guarded(tests, eqn.outvars[i].aval, lambda: get(i, places), lambda: starts[i])

    return _by_graph(eqn, number, axes, [term(i) for i in range(n)], starts)


def _reduce(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    n, shape = len(eqn.outvars), eqn.invars[0].aval.shape
    gone = eqn.params["dimensions"]
    axes, steps = loops([shape[d] for d in gone])
    kept, along = iter(at), dict(zip(gone, steps, strict=True))
    places = [along[d] if d in along else next(kept) for d in range(len(shape))]
    starts = [get(n + i, []) for i in range(n)]
    return _by_graph(eqn, number, axes, [get(i, places) for i in range(n)], starts)


def _row(eqn: Eqn) -> int:
    return max(eqn.invars[0].aval.size // max(eqn.outvars[0].aval.size, 1), 1)


REDUCE_WINDOW = ElementRule(_reduce_window, when=folds_scalars, times=window_size)
REDUCE = ElementRule(_reduce, when=folds_scalars, times=_row)
