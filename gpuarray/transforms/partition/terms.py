"""Terms: values that are sums over devices according to their types, on pieces.

Floor 3. In: an equation with operands or results that are unreduced along axes of a mesh. Out: its
results as their types say. The device's part of an unreduced value is a term of that value's part.
An operation that is linear in such operands is applied to terms (primitives/sums.py), and a loop, a
branch or a call takes them as its Graphs do; for everything else they are summed first, so that no
term is ever read as the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.flow import ByDevice, Choice, Loop
from gpuarray.core.graph import Eqn, called
from gpuarray.core.grid import Spec
from gpuarray.core.layout import unreduced_of
from gpuarray.core.primitive import Kind
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import zeros
from gpuarray.primitives.sums import linear_operands
from gpuarray.transforms.partition.moves import moved, position, settled, start_of
from gpuarray.transforms.partition.pieces import Note, Piece
from gpuarray.util import prod


def concerned(eqn: Eqn) -> bool:
    """Whether an operand or a result of an equation is unreduced."""
    return any([bool(unreduced_of(a.aval.layout)) for a in (*eqn.invars, *eqn.outvars)])  # noqa: C419


def names_of(aval: ShapedArray, splitter: Any) -> frozenset:
    """Return the axes of the grid along which devices hold terms of a value."""
    names = unreduced_of(aval.layout)
    if not names:
        return names
    if aval.layout is not None and aval.layout.mesh is not None:
        return frozenset(splitter.grid.names(aval.layout.mesh, names))
    return frozenset(mine for name in names for mine in splitter.inside[name])


def as_terms(
    piece: Piece,
    have: frozenset,
    want: frozenset,
    spec: Spec | None,
    aval: ShapedArray,
    why: str,
    splitter: Any,
) -> Piece:
    """Return terms along the axes `have` as terms along the axes `want`.

    Axes only in `have` are summed. Along an axis only in `want`, one device has the value and the
    others have zeros; if the axis sharded the value, each has its piece, padded with zeros.

    Parameters
    ----------
    spec :
        The wanted sharding of the value; None keeps it, except for the axes in `want`.
    """
    if piece.frame:
        splitter.realise(piece, aval)
    # Terms are added; a pending product or maximum is not a sum of terms.
    if piece.owed is not None and piece.owed.how != "sum":
        splitter.settle(piece, piece.spec, aval)
    value, cut = piece.value, piece.spec
    sent: list[str] = []
    # A sum that is owed is terms too, only not yet said by a type.
    held = have if piece.owed is None else have.union(piece.owed.names)
    if spec is None:
        spec = tuple(tuple(n for n in names if n not in want) for names in cut)
    order = tuple(splitter.sizes)
    # In the grid's order, so that the same program gives the same text and the same digits.
    gone = tuple(n for n in order if n in held and n not in want)
    if gone:
        how = "or" if aval.dtype == np.bool_ else "sum"
        value, cut, sent = settled(value, how, gone, cut, spec, splitter.sizes)
    more = want - held
    if more:
        value, cut, gathered = _spread(value, cut, more, splitter)
        sent = sent + gathered
    value, moves = moved(value, cut, spec, splitter.sizes)
    site = piece.site if piece.owed is None else piece.owed.site
    splitter.notes += [Note(what, aval, site, why) for what in (*sent, *moves)]
    return Piece(value, spec)


def _spread(value: Any, cut: Spec, more: frozenset, splitter: Any) -> tuple[Any, Spec, list[str]]:
    """Return a value as terms along some axes: its pieces between zeros, or one device's value."""
    sizes, left, ends, middle = splitter.sizes, set(more), [], []
    for names in cut:
        run = 0
        # Cuts that go, from the minor end: their pieces are neighbours and stay where they are.
        while run < len(names) and names[len(names) - run - 1] in more:
            run += 1
        ends.append(names[len(names) - run :])
        middle.append(tuple(n for n in names if n not in more))
    # A major cut is removed by a gather; for the minor ones the piece is padded with zeros.
    for axis, (names, end) in enumerate(zip(cut, ends, strict=True)):
        if set(names[: len(names) - len(end)]) & more:
            ends[axis] = ()
    between = tuple((*kept, *end) for kept, end in zip(middle, ends, strict=True))
    value, sent = moved(value, cut, between, sizes)
    for axis, end in enumerate(ends):
        if end:
            aval = aval_of(value)
            length = aval.shape[axis]
            shape = list(aval.shape)
            shape[axis] *= prod(sizes[n] for n in end)
            starts: list[Any] = [np.int32(0)] * len(shape)
            starts[axis] = start_of(end, length, sizes)
            # The piece at its own place, zeros elsewhere: the sum over these devices is the value.
            nothing = zeros(aval.update(shape=tuple(shape)))
            value = do.dynamic_update_slice(nothing, value, *starts)
            left.difference_update(end)
    if left:
        # Along unused axes all devices have the value: all but the first contribute zeros.
        here = position(tuple(n for n in sizes if n in left), sizes)
        value = do.select_n(do.eq(here, np.int32(0)), zeros(aval_of(value)), value)
    return value, tuple(middle), sent


def applied(
    eqn: Eqn, pieces: Sequence[Piece], wanted: Sequence[Spec | None], splitter: Any
) -> list[Piece]:
    """Return the results of an equation with unreduced operands or results."""
    prim = eqn.primitive
    flow = None if prim.flow is None else prim.flow(eqn)
    if isinstance(flow, ByDevice) or prim.kind is Kind.COLLECTIVE:
        # Its specs determine what it takes and gives; for collectives their types do.
        return splitter.plain(eqn, pieces, wanted)
    # A callback for the sharding (`Inspection`) receives it, and nothing runs.
    told = getattr(eqn.params.get("callback"), "laid", None)
    if told is not None:
        sharding = splitter.grid.sharding(pieces[0].spec)
        names = unreduced_of(eqn.invars[0].aval.layout)
        told(sharding.update(spec=sharding.spec.update(unreduced=names)))
        return []
    outs = [names_of(v.aval, splitter) for v in eqn.outvars]
    graph = _avals_inside(eqn, flow)
    if graph is not None:
        taken, given = ([names_of(a, splitter) for a in avals] for avals in graph)
    else:
        taken = _taken(eqn, outs)
        # A nonlinear operation gives values, whatever its type says.
        given = outs if _is_linear(eqn) else [frozenset()] * len(outs)
    kept = frozenset().union(*taken)
    ready = []
    for a, piece, names in zip(eqn.invars, pieces, taken, strict=True):
        have = names_of(a.aval, splitter)
        # An axis cannot both shard an operand and carry terms.
        if have != names or kept.intersection(n for part in piece.spec for n in part):
            spec = tuple(tuple(n for n in part if n not in kept) for part in piece.spec)
            why = f"{prim.name} takes it so"
            piece = as_terms(piece, have, names, spec, a.aval, why, splitter)
        ready.append(piece)
    found = splitter.plain(eqn, ready, wanted)
    return [
        piece if have == names else as_terms(piece, have, names, None, v.aval, "", splitter)
        for v, piece, have, names in zip(eqn.outvars, found, given, outs, strict=True)
    ]


def _is_linear(eqn: Eqn) -> bool:
    return bool(linear_operands(eqn.primitive, [a.aval for a in eqn.invars]))


def _taken(eqn: Eqn, outs: Sequence[frozenset]) -> list[frozenset]:
    """Return along which axes an operation takes each operand as terms."""
    if eqn.primitive.name == "optimization_barrier":
        return list(outs)
    linear = linear_operands(eqn.primitive, [a.aval for a in eqn.invars])
    kept = frozenset.intersection(*outs) if outs else frozenset()
    return [kept if i in linear else frozenset() for i in range(len(eqn.invars))]


def _avals_inside(
    eqn: Eqn, flow: Any
) -> tuple[Iterable[ShapedArray], Iterable[ShapedArray]] | None:
    """Return the avals as which the Graphs of an equation take operands and give results."""
    if isinstance(flow, Loop):
        taken: dict[int, ShapedArray] = {}
        inside = iter(flow.body.in_avals)
        for i in (*flow.consts, *flow.carry, *flow.xs):
            taken[i] = next(inside)
        if flow.condition is not None:
            taken.update(zip(flow.condition_consts, flow.condition.in_avals, strict=False))
        return [taken[i] for i in range(len(eqn.invars))], flow.body.out_avals
    if isinstance(flow, Choice):
        branch = flow.branches[0]
        # The index of the branch is read as a value.
        return [eqn.invars[0].aval.update(layout=None), *branch.in_avals], branch.out_avals
    prim = eqn.primitive
    inline = prim.inline if prim.factors is None else None
    graph = called(eqn) if inline is None else inline(eqn)
    return None if graph is None else (graph.in_avals, graph.out_avals)
