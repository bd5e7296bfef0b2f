"""Element rules of data movement other than views, and of generators such as iota.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py.
"""

from __future__ import annotations

from itertools import accumulate

from gpuarray.core.element import Access, Applied, Below, Multiple, Test, guarded
from gpuarray.core.element_rules import (
    ElementRule,
    Get,
    Places,
    UpdateRule,
    choosing,
    free,
    has_text,
    own_elements,
)
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index, linear
from gpuarray.primitives.elements import chosen_along, start

# ---- index maps with tests ----


def _pad(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    tests: list[Test] = []
    inner: list[Index] = []
    shape = eqn.invars[0].aval.shape
    for c, n, (low, _, holes) in zip(at, shape, eqn.params["padding_config"], strict=True):
        # Inside, and not on one of the holes between elements.
        c = c.shifted(-low)
        tests.append(Below(c, (n - 1) * (holes + 1) + 1 if n else 0))
        if holes:
            tests.append(Multiple(c, holes + 1))
        inner.append(c.divided(holes + 1)[0])
    return guarded(tests, eqn.outvars[0].aval, lambda: get(0, inner), lambda: get(1, []))


def _concatenate(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis = eqn.params["dimension"]
    # Empty operands have no elements to choose.
    full = [i for i, a in enumerate(eqn.invars) if a.aval.shape[axis]]
    ends = list(accumulate(eqn.invars[i].aval.shape[axis] for i in full))

    def pick(piece: int, position: Index) -> Access:
        return get(full[piece], [*at[:axis], position, *at[axis + 1 :]])

    return chosen_along(at[axis], ends, eqn.outvars[0].aval, pick)


def _stack(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis = eqn.params["axis"]
    rest = [*at[:axis], *at[axis + 1 :]]
    ends = range(1, len(eqn.invars) + 1)
    return chosen_along(at[axis], ends, eqn.outvars[0].aval, lambda piece, _: get(piece, rest))


def _unstack(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis = eqn.params["axis"]
    return get(0, [*at[:axis], Index(constant=number), *at[axis:]])


def _split(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    axis, before = eqn.params["axis"], sum(eqn.params["sizes"][:number])
    return get(0, [*at[:axis], at[axis].shifted(before), *at[axis + 1 :]])


def _tile(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    # A tile repeats: the position within it is the remainder.
    shape = eqn.invars[0].aval.shape
    return get(0, [c.divided(n)[1] for c, n in zip(at, shape, strict=True)])


def _first_is_own(first: int):
    """Rule `reads`: operand `first` is read once; the others, for every element."""

    def reads(eqn: Eqn, operand: int) -> int:
        return own_elements(eqn, operand) if operand == first else eqn.outvars[0].aval.size

    return reads


PAD = ElementRule(_pad, cost=choosing, reads=_first_is_own(0))
CONCATENATE = ElementRule(_concatenate, cost=choosing, reads=own_elements)
STACK = ElementRule(_stack, cost=choosing, reads=own_elements)
UNSTACK = ElementRule(_unstack, cost=free, reads=own_elements)
SPLIT = ElementRule(_split, cost=free, reads=own_elements)
TILE = ElementRule(_tile, cost=choosing)


# ---- windows whose start is read from memory ----


def _dynamic_slice(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    # The start of the window, looked up in memory, is added to the position in it.
    shape, sizes = eqn.invars[0].aval.shape, eqn.params["slice_sizes"]
    inner = [
        c + start(eqn, i, n - size, get)
        for i, (c, n, size) in enumerate(zip(at, shape, sizes, strict=True), 1)
    ]
    return get(0, inner)


def _dynamic_update_slice(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    shape, sizes = (eqn.invars[i].aval.shape for i in (0, 1))
    tests, inner = [], []
    for i, (c, n, size) in enumerate(zip(at, shape, sizes, strict=True), 2):
        c = c + start(eqn, i, n - size, get) * -1  # the position within the window
        tests.append(Below(c, size))
        inner.append(c)
    return guarded(tests, eqn.outvars[0].aval, lambda: get(1, inner), lambda: get(0, at))


def _window(eqn: Eqn, at: Places, get: Get) -> tuple[list[Index], list[Test]]:
    """Return the target of an element of the update: windows are clamped, so always in bounds."""
    shape, sizes = (eqn.invars[i].aval.shape for i in (0, 1))
    pairs = zip(at, shape, sizes, strict=True)
    return [c + start(eqn, i, n - k, get) for i, (c, n, k) in enumerate(pairs, 2)], []


DYNAMIC_SLICE = ElementRule(_dynamic_slice, cost=choosing, where=lambda i: i >= 1)
DYNAMIC_UPDATE_SLICE = ElementRule(
    _dynamic_update_slice, cost=choosing, reads=_first_is_own(1), where=lambda i: i >= 2
)
UPDATE_SLICE = UpdateRule(
    1, _window, merge=lambda eqn: None, count=lambda eqn: 1, unique=lambda eqn: True
)


# ---- generators ----


def _counted(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    # An iota depends on its position along one axis.
    return Applied((), eqn.outvars[0].aval, (at[eqn.params["dimension"]],), eqn=eqn)


def _blank(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    aval = eqn.outvars[0].aval
    # Its value is the same everywhere; the position only gives the rule something to read.
    return Applied((), aval, (linear(at, aval.shape),), eqn=eqn)


IOTA = ElementRule(_counted, when=has_text)
EMPTY = ElementRule(_blank, when=has_text)
