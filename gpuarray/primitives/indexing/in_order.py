"""Scatters of many updates that may overlap, with the same result in every run.

Floor 2. In: an equation of a scatter. Out: equations that compute it in three steps:

1. the linear index of each update's target;
2. a stable sort of these, which keeps the updates of a target in their order;
3. for each element of the result, a fold over its own updates, found by binary search.

Targets that are in order already, as the program promises, are not sorted.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Below,
    Constant,
    Lookup,
    Merged,
    SerialFold,
    guarded,
)
from gpuarray.core.element_rules import ElementRule, Get, Places
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.index import Index, linear, split
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.elements import new_axis
from gpuarray.primitives.indexing.windows import ScatterWindows
from gpuarray.primitives.movement.generate import iota_p
from gpuarray.primitives.order.sort import sort_p


def in_order(eqn: Eqn) -> list[Eqn]:
    """Return the equations of a scatter: targets, their order, and a fold at each target."""
    w = ScatterWindows(eqn)
    # The largest number is that of "no target": see _place.
    n = math.prod(w.rows)
    looked_up = math.prod(w.shape[d] for d in w.looked_up)
    number = np.dtype(np.int32 if max(n, looked_up) < 2**31 - 1 else np.int64)
    places, numbers, ordered, order = (Var(ShapedArray((n,), number)) for _ in range(4))
    of = {"of": eqn, "kind": eqn.primitive.name}
    operand, indices, updates = eqn.invars[:3]
    target = Eqn(_places_p, [indices], [places], of, eqn.site)
    if _is_sorted(eqn, w):
        return [target, Eqn(_sorted_p, [operand, places, updates], eqn.outvars, of, eqn.site)]
    iota = {"dtype": number, "shape": (n,), "dimension": 0, "sharding": None}
    sort = {"dimension": 0, "is_stable": True, "num_keys": 1}
    return [
        target,
        # Numbers 0, 1, ... travel with the targets through the sort, and say which update each is.
        Eqn(iota_p, [], [numbers], iota, eqn.site),
        Eqn(sort_p, [places, numbers], [ordered, order], sort, eqn.site),
        Eqn(_sorted_p, [operand, ordered, order, updates], eqn.outvars, of, eqn.site),
    ]


def _is_sorted(eqn: Eqn, w: ScatterWindows) -> bool:
    """Whether the targets are in order: those of sorted numbers, where each has one alone."""
    alone = len(w.batch) == 1 and len(w.looked_up) == 1 and not w.inner
    return alone and eqn.params["indices_are_sorted"]


def _place(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """Linear index of an update's target; one past the last if it is out of bounds. In sorted
    targets those below all others stay there.
    """
    w, aval = ScatterWindows(eqn.params["of"]), eqn.outvars[0].aval
    rows = split(at[0], w.rows)
    # A row is an index vector, and an offset along each axis on which windows are longer than 1.
    batch, offsets = rows[: len(w.batch)], rows[len(w.batch) :]
    starts, tests = w.starts(batch, lambda i, at: get(0, at), True)
    for d, offset in zip(w.inner, offsets, strict=True):
        starts[d] = starts[d] + offset
    # Targets count along axes that indices decide; others run along with the windows.
    lengths = [w.shape[d] for d in w.looked_up]
    place = linear([starts[d] for d in w.looked_up], lengths)
    there = Applied((), aval, (place,), "({T}){0}")
    beyond = Constant(math.prod(lengths), aval)
    if not _is_sorted(eqn.params["of"], w):
        return guarded(tests, aval, lambda: there, lambda: beyond)
    below = f"({{0}} < 0 ? ({{T}})-1 : ({{T}}){math.prod(lengths)})"
    at_end = Applied((get(0, [*batch, Index()]),), aval, (), below)
    return guarded(tests, aval, lambda: there, lambda: at_end)


def _fold(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """An element folded with the updates that have it as target."""
    of: Eqn = eqn.params["of"]
    w, aval = ScatterWindows(of), eqn.outvars[0].aval
    shape, axes = w.rows, w.looked_up
    n = math.prod(shape)
    plain = [Below(at[d], w.sizes[d]) for d in range(len(w.shape)) if d not in axes]
    if any(t.always is False for t in plain):
        # The element lies outside of all windows: it stays as it is.
        return get(0, at)
    # The updates of this target are consecutive among the sorted ones: search for both ends.
    address = Address.of(get(1, [Index()]))
    place = linear([at[d] for d in axes], [w.shape[d] for d in axes])
    # Positions are counted in the type that the search returns.
    count = ShapedArray((), np.dtype(np.uint32 if n < 2**31 else np.uint64))

    def edge(right: str) -> Access:
        kind = eqn.invars[1].aval.dtype.name
        text = f"ga_search<{right}, false>({{0}}, {{1}}, ({{{kind}}}){{2}})"
        return Applied((address, Constant(n, count)), count, (place,), text)

    # Loop between them; `order` says which update each is, if they had to be sorted.
    axis = new_axis(n)
    turn = Index(((axis, 1),))
    last = len(eqn.invars) - 1
    rows = split(turn if last == 2 else Index(((Lookup(get(2, [turn]), n - 1), 1),)), shape)
    window = list(at)
    for d, offset in zip(w.inner, rows[len(w.batch) :], strict=True):
        window[d] = offset
    update = w.update(rows[: len(w.batch)], window)
    return SerialFold(
        Merged(of.primitive.update.merge(of)),
        aval,
        ((aval, get(0, at)),),
        (axis,),
        tuple(t for t in plain if t.always is None),
        (get(last, update),),
        spans=((edge("false"), edge("true")),),
    )


_places_p = Primitive(
    "scatter_places",
    Kind.INDEXING,
    aval=lambda indices, **_: indices,
    element=ElementRule(_place),
    weight=4.0,
    register=False,
)
_sorted_p = Primitive(
    "scatter_sorted",
    Kind.INDEXING,
    aval=lambda x, *_, **__: x,
    # Targets are searched for in memory.
    element=ElementRule(_fold, reads=lambda e, k: None if k == 1 else e.outvars[0].aval.size),
    weight=40.0,
    register=False,
)
