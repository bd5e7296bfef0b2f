"""Loops and branches on pieces: equations whose Graphs run on each device's part.

Floor 3. In: such an equation, and pieces of its operands. Out: its results. A loop has one sharding
for each carry, the same at every step; a branch has one for each result, whichever branch runs.
Shardings are found by staging the Graphs, which `splitter` does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Eqn, Graph, has_exchanges
from gpuarray.core.grid import Spec
from gpuarray.transforms.partition.pieces import Piece, uncut


class LocalGraph(NamedTuple):
    """A Graph in an equation as that of one device: its inputs, and the sharding of its results."""

    graph: Graph
    ins: list[Piece]
    outs: list[Spec]


def looped(eqn: Eqn, loop: Loop, pieces: list[Piece], splitter: Any) -> list[Piece]:
    """Run a loop on pieces: a carry has the same sharding at every step as at the first."""
    if loop.condition is not None and loop.condition.out_avals[0].ndim:
        return _mapped(eqn, loop, pieces, splitter)
    pieces = list(pieces)
    # 1. Operands: no partial results, and no parts of longer axes, since a loop has one layout for
    # each. The scanned axis is whole; the others stay sharded.
    for i in loop.xs:
        aval = eqn.invars[i].aval
        piece = splitter.as_is(pieces[i], aval)
        want = ((), *piece.spec[1:])
        pieces[i] = splitter.to(piece, want, aval, f"{eqn.primitive.name} goes along this axis")
    for i in (*loop.consts, *loop.carry, *loop.condition_consts):
        pieces[i] = splitter.as_is(pieces[i], eqn.invars[i].aval)
    consts = [pieces[i].spec for i in loop.consts]
    xs = [pieces[i].spec[1:] for i in loop.xs]
    carry = [pieces[i].spec for i in loop.carry]
    # 2. Layouts of constants and carries, by trying: a step is staged, and its notes are dropped if
    # it is staged again.
    notes = list(splitter.notes)
    tried = _step(splitter, loop, consts, carry, xs)
    # Operands that every step would reshard in the same way are resharded before the loop.
    moved_once = [
        next(iter(p.asked)) if len(p.asked) == 1 else p.spec for p in tried.ins[: len(consts)]
    ]
    if moved_once != consts or tried.outs[: len(carry)] != carry:
        # A step may shard a replicated carry: then it is sharded from the start, if it stays so.
        other = tried.outs[: len(carry)]
        consts = moved_once
        splitter.notes = list(notes)
        tried = _step(splitter, loop, consts, other, xs)
        if tried.outs[: len(carry)] == other:
            carry = other
        else:
            splitter.notes = list(notes)
            tried = _step(splitter, loop, consts, carry, xs, fixed=True)
    # 3. The loop on pieces: operands moved to those layouts, and its Graphs replaced.
    ys = tried.outs[len(carry) :]
    graphs = {id(loop.body): tried.graph}
    for numbers, specs in ((loop.consts, consts), (loop.carry, carry)):
        for i, spec in zip(numbers, specs, strict=True):
            pieces[i] = splitter.to(pieces[i], spec, eqn.invars[i].aval, "a loop uses it so")
    if loop.condition is not None:
        tested = [pieces[i].spec for i in loop.condition_consts]
        (test,) = loop.condition.outvars
        graphs[id(loop.condition)] = splitter.staged(
            loop.condition, [*tested, *carry], [uncut(test.aval)]
        ).graph
    # Kinds of loops keep their Graphs under different names: they are found by identity.
    params = {k: graphs.get(id(v), v) for k, v in eqn.params.items()}
    out = splitter.bound(eqn, [p.value for p in pieces], params)
    specs = [*carry, *(((), *spec) for spec in ys)]
    return [Piece(x, s) for x, s in zip(out, specs, strict=True)]


def _mapped(eqn: Eqn, loop: Loop, pieces: list[Piece], splitter: Any) -> list[Piece]:
    """Run a loop whose condition has the leading axes of its carries (under vmap).

    Elements on different devices stop separately if a step needs no exchange; else every device
    continues with all elements.
    """
    assert loop.condition is not None
    (test,) = loop.condition.out_avals
    pieces = [splitter.as_is(p, a.aval) for p, a in zip(pieces, eqn.invars, strict=True)]
    # Of several cuts of the leading axes, the finest: the fewest elements a device.
    rows = max((pieces[i].spec[: test.ndim] for i in loop.carry), key=lambda s: sum(map(len, s)))
    notes = list(splitter.notes)
    for lead in (rows, uncut(test)):
        splitter.notes = list(notes)
        # A mesh axis shards one axis: those of the leading axes cannot shard later ones.
        taken = {n for names in lead for n in names}
        carry = [
            (*lead, *(() if taken.intersection(names) else names for names in rest))
            for rest in (pieces[i].spec[test.ndim :] for i in loop.carry)
        ]
        consts = [pieces[i].spec for i in loop.consts]
        tested = [pieces[i].spec for i in loop.condition_consts]
        body = _step(splitter, loop, consts, carry, [], fixed=True).graph
        condition = splitter.staged(loop.condition, [*tested, *carry], [lead]).graph
        # A device that has stopped could not take part in an exchange: the others would wait.
        if not (has_exchanges(body) or has_exchanges(condition)):
            break
    for i, spec in zip(loop.carry, carry, strict=True):
        pieces[i] = splitter.to(pieces[i], spec, eqn.invars[i].aval, "a loop uses it so")
    graphs = {id(loop.body): body, id(loop.condition): condition}
    params = {k: graphs.get(id(v), v) for k, v in eqn.params.items()}
    out = splitter.bound(eqn, [p.value for p in pieces], params)
    return [Piece(x, s) for x, s in zip(out, carry, strict=True)]


def _step(
    splitter: Any,
    loop: Loop,
    consts: list[Spec],
    carry: list[Spec],
    xs: list[Spec],
    fixed: bool = False,
) -> LocalGraph:
    """Return the body of a loop; with `fixed`, carries keep their sharding."""
    free = [None] * (len(loop.body.outvars) - len(carry))
    kept = [*carry, *free]
    return splitter.staged(loop.body, [*consts, *carry, *xs], kept if fixed else None, kept)


def chosen(
    eqn: Eqn,
    choice: Choice,
    pieces: list[Piece],
    wanted: list[Spec | None],
    splitter: Any,
) -> list[Piece]:
    """Run a branch on pieces: the results of all branches are cut as the first one's."""
    pieces = list(pieces)
    # Devices must agree on the branch: its collectives need all of them.
    number = eqn.invars[0].aval
    pieces[0] = splitter.to(pieces[0], uncut(number), number, "which branch runs")
    for i, a in enumerate(eqn.invars[1:], 1):
        pieces[i] = splitter.as_is(pieces[i], a.aval)
    ins = [p.spec for p in pieces[1:]]
    # The first branch determines the sharding of results, which must not depend on the branch.
    first = splitter.staged(choice.branches[0], ins, wanted=wanted)
    others = [splitter.staged(branch, ins, first.outs).graph for branch in choice.branches[1:]]
    graphs = dict(zip(map(id, choice.branches), (first.graph, *others), strict=True))
    params = {
        k: tuple(graphs.get(id(x), x) for x in v) if isinstance(v, tuple) else v
        for k, v in eqn.params.items()
    }
    out = splitter.bound(eqn, [p.value for p in pieces], params)
    return [Piece(x, s) for x, s in zip(out, first.outs, strict=True)]
