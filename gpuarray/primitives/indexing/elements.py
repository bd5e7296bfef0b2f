"""Element rules of gathers and scatters, and update rules of scatters.

Floor 2. In: equations. Out: accesses and coordinates, as in core/element_rules.py. With few
updates, each element of a scatter's result tests all of them in order; many are written to their
targets, possibly sorted by target first (in_order.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Applied,
    Below,
    Constant,
    Lookup,
    Merged,
    SerialFold,
    Test,
    clamped,
    found,
    guarded,
)
from gpuarray.core.element_rules import ElementRule, Get, Places, UpdateRule, has_text
from gpuarray.core.fold import Identity
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.index import Index
from gpuarray.core.primitive import Primitive
from gpuarray.primitives.elements import is_scalar_graph, loops, new_axis
from gpuarray.primitives.indexing.in_order import in_order, ordered
from gpuarray.primitives.indexing.shapes import GatherScatterMode, default_fill, fill_element
from gpuarray.primitives.indexing.windows import ScatterWindows

# ---- gather ----


def _gather(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    numbers, sizes, mode = (eqn.params[k] for k in ("dimension_numbers", "slice_sizes", "mode"))
    operand = eqn.invars[0].aval
    # Position within a window, then plus the batch axis or the start that was looked up.
    batch = [c for i, c in enumerate(at) if i not in numbers.offset_dims]
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offsets = iter(at[i] for i in numbers.offset_dims)
    places = [Index() if d in removed else next(offsets) for d in range(operand.ndim)]
    for d, axis in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        places[d] = batch[axis]
    fills = mode in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)
    tests: list[Test] = []
    for k, d in enumerate(numbers.start_index_map):
        most = operand.shape[d] - sizes[d]
        looked = Lookup(get(1, [*batch, Index(constant=k)]), most)
        if fills:  # tested, else clamped
            inside, test = found(looked)
            tests.append(test)
            places[d] = places[d] + inside
        elif most:
            places[d] = places[d] + clamped(looked)

    def fill() -> Access:
        # The value of reads out of bounds.
        value = eqn.params["fill_value"]
        if mode is GatherScatterMode.ONE_HOT:
            value = 0
        elif value is None:
            value = default_fill(operand.dtype)
        return Constant(fill_element(operand, value), operand)

    return guarded(tests, eqn.outvars[0].aval, lambda: get(0, places), fill)


GATHER = ElementRule(
    _gather,
    cost=lambda eqn: 3.0 * eqn.invars[1].aval.shape[-1],
    where=lambda i: i == 1,
)


# ---- scatter ----


def _windows_of(eqn: Eqn) -> int:
    """Return the number of windows of updates that may reach an element.

    Those of other positions along a batching axis do not: each position has its own.
    """
    # The last axis of the indices is the index vector.
    paired = eqn.params["dimension_numbers"].scatter_indices_batching_dims
    shape = eqn.invars[1].aval.shape[:-1]
    return math.prod(n for axis, n in enumerate(shape) if axis not in paired)


def _times(eqn: Eqn) -> int:
    return max(_windows_of(eqn), 1)


def _reads(eqn: Eqn, operand: int) -> int:
    size, own = eqn.outvars[0].aval.size, eqn.invars[operand].aval.size
    # Each element reads all indices, and about one element of the operand and of the updates.
    return size * _times(eqn) if operand == 1 else max(size, own)


def _target(eqn: Eqn, at: Places, get: Get) -> tuple[list[Index], list[Below]]:
    """Return the target of an update in the operand, and tests of whether it is in bounds."""
    # From coordinates in the updates to those in the operand.
    w = ScatterWindows(eqn)
    axes = w.numbers.update_window_dims
    batch = [c for i, c in enumerate(at) if i not in axes]
    inner = iter(at[i] for i in axes)
    starts, tests = w.starts(batch, get, True)
    window = [Index() if d in w.removed else next(inner) for d in range(len(w.shape))]
    return [s + c for s, c in zip(starts, window, strict=True)], tests


def scatter_rules(
    merge: Primitive | None,
    atomic: Callable[..., str] | None,
    sums: str | None,
    apart: Callable[[ShapedArray], Identity | None],
    among: Primitive | None,
) -> tuple[ElementRule, UpdateRule]:
    """Return the rules of a scatter whose updates are merged by the primitive `merge`.

    If None, they are merged by the equation's own Graph, or replace the old element if there is
    none.
    """

    def merged(eqn: Eqn) -> Eqn | Graph | None:
        if merge is None:
            body: Graph | None = eqn.params.get("update_jaxpr")
            # A body that returns the update itself means replacement.
            return None if body is None or body.outvars[0] is body.invars[1] else body
        a, b, out = (Var(eqn.outvars[0].aval.update(shape=())) for _ in range(3))
        return Eqn(merge, [a, b], [out], {})

    def when(eqn: Eqn) -> bool:
        by = merged(eqn)
        return is_scalar_graph(by) if isinstance(by, Graph) else by is None or has_text(by)

    def scatter(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
        """Fold each element with all updates, in order, that have it as target."""
        w, aval = ScatterWindows(eqn), eqn.outvars[0].aval
        # Along batching axes, an element only tests the updates of its own position.
        numbers = w.numbers
        pairs = zip(
            numbers.scatter_indices_batching_dims, numbers.operand_batching_dims, strict=True
        )
        own = {axis: at[d] for axis, d in pairs}
        axes, free = loops([n for axis, n in enumerate(w.batch) if axis not in own])
        rest = iter(free)
        batch = [own[axis] if axis in own else next(rest) for axis in range(len(w.batch))]
        starts, tests = w.starts(batch, get)
        window = [c + s * -1 for c, s in zip(at, starts, strict=True)]
        # The element's place in the window; outside the window another update is tried.
        tests += [Below(c, n) for c, n in zip(window, w.sizes, strict=True)]
        update = w.update(batch, window)
        by = merged(eqn)
        # One window: a choice between two elements.
        if not axes and not isinstance(by, Graph):
            old, new = get(0, at), get(2, update)
            merged_with = new if by is None else Applied((old, new), aval, eqn=by)
            return guarded(tests, aval, lambda: merged_with, lambda: old)
        if w.count == 0 or 0 in w.sizes or any(t.always is False for t in tests):
            # No update can reach this element.
            return get(0, at)
        return SerialFold(
            Merged(by),
            aval,
            ((aval, get(0, at)),),
            axes or (new_axis(1),),  # one round of a loop that `continue` can leave
            tuple(t for t in tests if t.always is None),
            (get(2, update),),
        )

    element = ElementRule(scatter, when, _times, reads=_reads, where=lambda i: i == 1)
    return element, UpdateRule(
        2,
        _target,
        merged,
        count=_windows_of,
        unique=lambda eqn: eqn.params["unique_indices"],
        atomic=atomic,
        sums=sums,
        apart=apart,
        among=among,
        ordered=ordered,
        in_order=in_order,
    )
