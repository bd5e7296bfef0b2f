"""Element rules of `reduce` and `reduce_window`, which fold by a Graph, and when windows are rows.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py. One thread folds one element of
the result, in the order of the reference, so results are the same in every run. Windows that fold
as a reduction are in window_elements.py.
"""

from __future__ import annotations

import math

from gpuarray.core.element import Access, Below, Merged, Multiple, SerialFold, Test, guarded
from gpuarray.core.element_rules import ElementRule, Get, Places
from gpuarray.core.graph import Eqn, Graph
from gpuarray.core.index import Axis, Index
from gpuarray.primitives.elements import folds_scalars, loops


def window(
    eqn: Eqn, operand: int, at: Places
) -> tuple[tuple[Axis, ...], list[Index], list[Index], list[Test]]:
    """Return loops over a window, as four lists.

    These are the axes of the loops, the indices along them, the coordinates in the operand, and
    tests of whether those are elements and not padding.
    """
    p, shape = eqn.params, eqn.invars[operand].aval.shape
    ones = (1,) * len(shape)
    # Dilations space out the operand (base) or the window; only every base-th position is one
    # of the operand's elements.
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
    """Rule `times`: the number of elements in a window."""
    return math.prod(eqn.params["window_dimensions"])


def _by_graph(eqn: Eqn, number: int, axes, terms: list[Access], starts: list[Access]) -> Access:
    """Fold elements by the equation's Graph, from the initial values on."""
    states = tuple((v.aval, start) for v, start in zip(eqn.outvars, starts, strict=True))
    how, aval = Merged(eqn.params["jaxpr"]), eqn.outvars[number].aval
    return SerialFold(how, aval, states, axes, (), tuple(terms), number=number)


def _reduce_window(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    # Operands first, then an initial value for each.
    n = len(eqn.outvars)
    axes, _, places, tests = window(eqn, 0, at)
    starts = [get(n + i, []) for i in range(n)]

    # Padding counts as the initial value, as in JAX.
    def term(i: int) -> Access:
        return guarded(tests, eqn.outvars[i].aval, lambda: get(i, places), lambda: starts[i])

    return _by_graph(eqn, number, axes, [term(i) for i in range(n)], starts)


def _reduce(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    n, shape = len(eqn.outvars), eqn.invars[0].aval.shape
    gone = eqn.params["dimensions"]
    axes, steps = loops([shape[d] for d in gone])
    kept, along = iter(at), dict(zip(gone, steps, strict=True))
    # Coordinates of the operand: loops along folded axes, the result's coordinates along others.
    places = [along[d] if d in along else next(kept) for d in range(len(shape))]
    starts = [get(n + i, []) for i in range(n)]
    return _by_graph(eqn, number, axes, [get(i, places) for i in range(n)], starts)


def _row(eqn: Eqn) -> int:
    # Elements of the operand that go into one of the result.
    return max(eqn.invars[0].aval.size // max(eqn.outvars[0].aval.size, 1), 1)


def side_by_side(eqn: Eqn) -> tuple[tuple[int, ...], tuple[int, ...], Graph] | None:
    """Rewrite rule `reduces` of adjacent windows: split each axis in two, and reduce the second;
    None for others.
    """
    p, shape, axes = eqn.params, [], []
    along = zip(
        eqn.invars[0].aval.shape,
        *(p[k] for k in ("window_dimensions", "window_strides", "padding")),
        *(p[k] for k in ("base_dilation", "window_dilation")),
        strict=True,
    )
    for n, window, stride, padding, *dilations in along:
        # Elements between windows, or in several of them, would be folded differently.
        apart = n == window or (stride == window and n % window == 0)
        if not apart or padding != (0, 0) or dilations != [1, 1]:
            return None
        shape.append(n // window)
        if window > 1:
            axes.append(len(shape))
            shape.append(window)
    return tuple(shape), tuple(axes), p["jaxpr"]


REDUCE_WINDOW = ElementRule(_reduce_window, when=folds_scalars, times=window_size)
REDUCE = ElementRule(_reduce, when=folds_scalars, times=_row)
