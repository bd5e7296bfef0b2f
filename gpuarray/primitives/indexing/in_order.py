"""Scatters of many updates that may overlap, with the same result in every run.

Floor 2. In: an equation of a scatter. Out: equations that compute it in three steps:

1. the linear index of each update's target;
2. a stable sort of these, which keeps the updates of a target in their order;
3. for each element of the result, a fold over its own updates, found by binary search.

Targets that are in order already, as the program promises, are not sorted. Where few elements have
many updates each, an element's updates are folded in pieces of equal length, and then the pieces.
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
from gpuarray.core.graph import Atom, Eqn, Graph, Var
from gpuarray.core.index import Index, linear, split
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.elements import new_axis
from gpuarray.primitives.indexing.windows import ScatterWindows
from gpuarray.primitives.movement.generate import iota_p
from gpuarray.primitives.order.sort import sort_p


def in_order(eqn: Eqn, known: dict[tuple, list[Var]]) -> list[Eqn]:
    """Return the equations of a scatter: targets, their order, and a fold at each target.

    Parameters
    ----------
    known :
        Sorted targets of earlier scatters, by what determines them: sums and counts of segments
        share one sort.
    """
    w = ScatterWindows(eqn)
    # The largest number means "no target": see _place.
    n = math.prod(w.rows)
    looked_up = math.prod(w.shape[d] for d in w.looked_up)
    number = np.dtype(np.int32 if max(n, looked_up) < 2**31 - 1 else np.int64)
    places, numbers, ordered, order = (Var(ShapedArray((n,), number)) for _ in range(4))
    of = {"of": eqn, "kind": eqn.primitive.name}
    operand, indices, updates = eqn.invars[:3]
    same = _decided_by(eqn, w)
    if same in known:
        return _folds(eqn, w, known[same], updates)
    target = Eqn(_places_p, [indices], [places], of, eqn.site)
    if _is_sorted(eqn, w):
        known[same] = [places]
        return [target, *_folds(eqn, w, [places], updates)]
    iota = {"dtype": number, "shape": (n,), "dimension": 0, "sharding": None}
    sort = {"dimension": 0, "is_stable": True, "num_keys": 1}
    known[same] = [ordered, order]
    return [
        target,
        # Numbers 0, 1, ... are sorted along with the targets, and identify the updates.
        Eqn(iota_p, [], [numbers], iota, eqn.site),
        Eqn(sort_p, [places, numbers], [ordered, order], sort, eqn.site),
        *_folds(eqn, w, [ordered, order], updates),
    ]


def _decided_by(eqn: Eqn, w: ScatterWindows) -> tuple:
    """The values on which the sorted targets of a scatter depend."""
    numbers, axes = eqn.params["dimension_numbers"], w.looked_up
    # The places of axes among those that are looked up, not among all: rows and their counts go to
    # the same targets.
    place = {d: k for k, d in enumerate(axes)}
    dims = tuple(place[d] for d in numbers.scatter_dims_to_operand_dims)
    batching = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    lengths = tuple((w.shape[d], w.sizes[d], d in w.removed) for d in axes)
    return eqn.invars[1], dims, batching, lengths, w.clips, _is_sorted(eqn, w)


def _folds(eqn: Eqn, w: ScatterWindows, sorted_by: list[Var], updates: Atom) -> list[Eqn]:
    """The fold at each target, in pieces where one thread for each would be few."""
    of = {"of": eqn, "kind": eqn.primitive.name}
    operand, aval = eqn.invars[0], eqn.outvars[0].aval
    reduction, pieces = eqn.primitive.update.among, _pieces(eqn, w)
    if reduction is None or pieces == 1:
        return [Eqn(_sorted_p, [operand, *sorted_by, updates], eqn.outvars, of, eqn.site)]
    parts, folded = Var(_with_pieces(aval, pieces)), Var(aval)
    axes = {"axes": (aval.ndim,), "out_sharding": None}
    merge = eqn.primitive.update.merge(eqn)
    return [
        Eqn(_pieces_p, [*sorted_by, updates], [parts], of | {"pieces": pieces}, eqn.site),
        Eqn(reduction, [parts], [folded], axes, eqn.site),
        Eqn(merge.primitive, [operand, folded], eqn.outvars, {}, eqn.site),
    ]


def _with_pieces(aval: ShapedArray, pieces: int) -> ShapedArray:
    return aval.update(shape=(*aval.shape, pieces))


def _pieces(eqn: Eqn, w: ScatterWindows) -> int:
    """Into how many pieces the updates of an element are cut: a power of 2."""
    targets, size = math.prod(w.shape[d] for d in w.looked_up), eqn.outvars[0].aval.size
    each = math.prod(w.rows) // max(targets, 1) // TARGET.piece_updates
    threads = TARGET.multiprocessors * TARGET.threads_held // max(size, 1)
    most = min(each, threads, TARGET.most_pieces)
    return 1 << max(most, 1).bit_length() - 1


def ordered(eqn: Eqn) -> bool:
    """Whether the caller promises that targets are in order, which is of use."""
    return _is_sorted(eqn, ScatterWindows(eqn))


def _is_sorted(eqn: Eqn, w: ScatterWindows) -> bool:
    """Whether the targets are in order: those of sorted indices, if one index gives the target."""
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
    merge = of.primitive.update.merge(of)
    return _folded(eqn, merge, get(0, at), at, lambda i, at: get(i + 1, at))


def _piece(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    """A piece of the updates of an element, folded."""
    of: Eqn = eqn.params["of"]
    reduction, aval = of.primitive.update.among, eqn.outvars[0].aval
    neutral = reduction.fold.neutral.held(aval.dtype)
    start = Constant(neutral, ShapedArray((), neutral.dtype))
    a, b, out = (Var(aval.update(shape=())) for _ in range(3))
    merge = Eqn(reduction.pairwise, [a, b], [out], {})
    return _folded(eqn, merge, start, at[:-1], get, at[-1])


def _folded(
    eqn: Eqn,
    merge: Eqn | Graph | None,
    start: Access,
    at: Places,
    get: Get,
    piece: Index | None = None,
) -> Access:
    """The fold of the updates of an element, or of a piece of them; `get(0, at)` is of the sorted
    targets.
    """
    of: Eqn = eqn.params["of"]
    w, aval = ScatterWindows(of), eqn.outvars[0].aval
    shape, axes = w.rows, w.looked_up
    n = math.prod(shape)
    plain = [Below(at[d], w.sizes[d]) for d in range(len(w.shape)) if d not in axes]
    if any(t.always is False for t in plain):
        # The element is outside all windows: it is unchanged.
        return start
    # The updates of this target are consecutive among the sorted ones: search for both ends.
    has_order = not _is_sorted(of, w)
    targets = eqn.invars[-2 - has_order].aval
    address = Address.of(get(0, [Index()]))
    place = linear([at[d] for d in axes], [w.shape[d] for d in axes])
    # Positions are counted in the type that the search returns.
    count = ShapedArray((), np.dtype(np.uint32 if n < 2**31 else np.uint64))

    def edge(right: str) -> Access:
        text = f"ga_search<{right}, false>({{0}}, {{1}}, ({{{targets.dtype.name}}}){{2}})"
        return Applied((address, Constant(n, count)), count, (place,), text)

    ends = edge("false"), edge("true")
    if piece is not None:
        # Behind the end begin those for which there are no updates left.
        pieces = eqn.params["pieces"]
        each = f"({{1}} - {{0}} + {pieces - 1}u) / {pieces}u"
        text = f"ga_min({{0}} + {each} * {{2}}, {{1}})"
        one, two = (Applied(ends, count, (k,), text) for k in (piece, piece.shifted(1)))
        ends = one, two
    # Loop between them; `order` gives the number of each update, if they had to be sorted.
    axis = new_axis(n)
    turn = Index(((axis, 1),))
    rows = split(Index(((Lookup(get(1, [turn]), n - 1), 1),)) if has_order else turn, shape)
    window = list(at)
    for d, offset in zip(w.inner, rows[len(w.batch) :], strict=True):
        window[d] = offset
    update = w.update(rows[: len(w.batch)], window)
    return SerialFold(
        Merged(merge),
        aval,
        ((aval, start),),
        (axis,),
        tuple(t for t in plain if t.always is None),
        (get(1 + has_order, update),),
        spans=(ends,),
    )


_places_p = Primitive(
    "scatter_places",
    Kind.INDEXING,
    aval=lambda indices, **_: indices,
    element=ElementRule(_place),
    weight=4.0,
    register=False,
)
_pieces_p = Primitive(
    "scatter_pieces",
    Kind.INDEXING,
    aval=lambda *_, of, pieces, **__: _with_pieces(of.outvars[0].aval, pieces),
    # Each update is in one piece.
    element=ElementRule(_piece, reads=lambda e, k: None if k == 0 else e.invars[-1].aval.size),
    weight=40.0,
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
