"""Element rules of windows that fold as a reduction, or choose one element.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py.
"""

from __future__ import annotations

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Below,
    Best,
    Constant,
    Reduced,
    SerialFold,
    Test,
    guarded,
)
from gpuarray.core.element_rules import ElementRule, Get, Places
from gpuarray.core.fold import extreme
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.index import Index, linear
from gpuarray.primitives.elements import loops
from gpuarray.primitives.elementwise.arithmetic import le_p
from gpuarray.primitives.reduce.elements import window, window_size
from gpuarray.primitives.reduce.ops import reduce_sum_p

_BOOL = ShapedArray((), dtypes.bool_)
_POSITION = ShapedArray((), dtypes.uint32)


def _folded(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Windows folded by the Fold of their primitive; padding is left out."""
    aval, fold = eqn.outvars[0].aval, eqn.primitive.fold
    assert fold is not None
    axes, _, places, tests = window(eqn, 0, at)
    # Every element is padding: the empty fold.
    if any(t.always is False for t in tests):
        return Constant(fold.of_nothing(aval.dtype), aval)
    open_tests = tuple(t for t in tests if t.always is None)
    return SerialFold(Reduced(eqn), aval, (), axes, open_tests, (get(0, places),))


FOLDED = ElementRule(_folded, times=window_size)


# ---- one element of each window ----


def _worst(eqn: Eqn) -> Constant:
    """Return the value of padding, which is chosen only if a window has no better element."""
    aval = eqn.invars[1].aval
    return Constant(extreme(aval.dtype, eqn.params["select_prim"] is le_p), aval)


def _best(eqn: Eqn) -> Best:
    """Return the comparison of the best element so far with the next."""
    aval = eqn.invars[1].aval.update(shape=())
    return Best(Eqn(eqn.params["select_prim"], [Var(aval), Var(aval)], [Var(_BOOL)], {}))


def _gather_add(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    aval, worst = eqn.outvars[0].aval, _worst(eqn)
    zero = Constant(0, aval)
    # Operand 1 is compared; operand 0 has the tangents.
    axes, _, places, tests = window(eqn, 1, at)
    x = guarded(tests, aval, lambda: get(1, places), lambda: worst)
    tangent = guarded(tests, aval, lambda: get(0, places), lambda: zero)
    # The tangent of the best element, that element, and whether there is one.
    states = (aval, zero), (aval, worst), (_BOOL, Constant(False, _BOOL))
    return SerialFold(_best(eqn), aval, states, axes, (), (x, tangent))


def _scatter_add(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Sum the cotangents of the windows that choose this element."""
    p, shape = eqn.params, eqn.invars[1].aval.shape
    windows, strides, padding = (p[k] for k in ("window_dimensions", "window_strides", "padding"))
    counts, aval = eqn.invars[0].aval.shape, eqn.outvars[0].aval
    # An element is in at most ceil(window / stride) windows along each axis.
    axes, back = loops([-(-w // s) for w, s in zip(windows, strides, strict=True)])
    which: list[Index] = []  # coordinates of the window
    own: list[Index] = []  # and of the element in it
    tests: list[Test] = []
    for c, k, n, m, w, s, (low, high) in zip(
        at, back, shape, counts, windows, strides, padding, strict=True
    ):
        # Windows start every s elements: the last that may hold this one is number place // s.
        place = c.shifted(low)
        number_of = (place.divided(s)[0] + k).shifted(1 - -(-w // s))
        inside = place + number_of * -s
        tests += [Below(place, max(n + low + high, 0)), Below(number_of, m), Below(inside, w)]
        which.append(number_of)
        own.append(inside)
    if any(t.always is False for t in tests):
        return Constant(0, aval)
    # For each of these windows, search for its winner; it counts if that is this element.
    inner, steps, places, there = window(eqn, 1, which)
    worst = _worst(eqn)
    x = guarded(there, aval, lambda: get(1, places), lambda: worst)
    # The position of the best element so far, that element, and whether there is one.
    states = (
        (_POSITION, Constant(0, _POSITION)),
        (aval, worst),
        (_BOOL, Constant(False, _BOOL)),
    )
    position = linear(steps, windows)
    winner = SerialFold(_best(eqn), _POSITION, states, inner, (), (x,), (position,))
    # Sum the cotangents of windows whose winner is at this element's own position.
    sum_of = Reduced(Eqn(reduce_sum_p, eqn.invars[:1], eqn.outvars, {}), matching=True)
    open_tests = tuple(t for t in tests if t.always is None)
    terms = winner, get(0, which)
    return SerialFold(sum_of, aval, (), axes, open_tests, terms, (linear(own, windows),))


GATHER_ADD = ElementRule(_gather_add, times=window_size)
SCATTER_ADD = ElementRule(_scatter_add, times=lambda eqn: window_size(eqn) ** 2)
