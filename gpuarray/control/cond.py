"""`cond` as a primitive: an index, and a Graph for each of its values.

Floor 4. In: an index and operands. Out: the results of the branch with that number; only that
branch runs. All branches take the same operands and give results of the same types. If the index
differs along a mapped axis, all branches run and the results are selected.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.control import typed
from gpuarray.control.graph_edits import (
    check_operands,
    chosen,
    cut,
    forwarded,
    graph_work,
    interpreted,
    jvp_filled,
    merged,
    others,
    reordered,
    staged,
    transpose_filled,
)
from gpuarray.control.keeping import KeptInside, Separate, set_keep_rule
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.effects import refuse_io
from gpuarray.core.flow import Choice
from gpuarray.core.graph import Atom, Eqn, Graph, Var, evaluate
from gpuarray.core.layout import also_varying, joined, reconciled
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Kind
from gpuarray.core.value import Array
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import zeros
from gpuarray.transforms.batch import BatchAxis
from gpuarray.transforms.dead import set_narrow_rule, shortened
from gpuarray.transforms.graphs import batch_graph, jvp_graph
from gpuarray.transforms.partial import PartialTrace, Split, set_partial_rule, split_graph

Graphs = tuple[Graph, ...]


def _cond_aval(index, *operands, branches: Graphs, **_):
    for branch in branches:
        check_operands("cond", operands, branch.in_avals)
    columns = zip(*(g.out_avals for g in branches), strict=True)
    # As in JAX, a result is weakly typed if it is in the first branch, that of a false predicate.
    # It varies between devices if it does in any branch, or if the index does.
    return [
        a[0].update(
            layout=also_varying(
                functools.reduce(reconciled, [x.layout for x in a]), joined([index.layout])
            ),
        )
        for a in columns
    ]


def _assemble(avals, compile: Callable, *, branches: Graphs, **_):
    functions = [compile(g) for g in branches]
    last = len(functions) - 1

    # The index is clamped into range, as in JAX.
    def run(index, *operands):
        return functions[min(max(int(index), 0), last)](*operands)

    return run


def _any(columns: Any) -> tuple[bool, ...]:
    """Return, column by column, whether any of several rows is true."""
    return tuple(any(column) for column in zip(*columns, strict=True))


def _cond_jvp(primals: list, tangents: list, *, branches: Graphs, **params):
    index, *operands = primals
    # The index is an integer and has no tangent.
    nonzero = tuple(not is_zero(t) for t in tangents[1:])
    # A result has a tangent if it has one in any branch; the other branches give zeros.
    wanted = _any(jvp_graph(g, nonzero).outputs for g in branches)
    made = tuple(jvp_filled(g, nonzero, wanted) for g in branches)
    given = chosen(tangents[1:], nonzero)
    out, found = cut(cond_p.bind(index, *operands, *given, branches=made, **params), len(wanted))
    none = [Zero(tangent_aval(aval_of(x))) for x in others(out, wanted)]
    return out, merged(wanted, found, none)


# ---- partial evaluation ----


def _partial(trace: PartialTrace, args: tuple, flags: list[bool], params: dict) -> list:
    """Split into two conds: the first runs now and also returns the residuals of its branch."""
    # With an unknown index nothing can run now.
    if flags[0]:
        return list(trace.unknown.process(cond_p, args, params))
    branches: Graphs = params["branches"]
    index, *operands = args
    unknown = tuple(flags[1:])
    # A result that is unknown in one branch is unknown in all.
    out_unknown = _any(split_graph(g, unknown).out_unknown for g in branches)
    splits = [split_graph(g, unknown, out_unknown) for g in branches]
    # Residuals share slots, since both conds must have the same types in all branches.
    slots = _slots(splits)
    now = tuple(_known_branch(s, slots) for s in splits)
    later = tuple(_unknown_branch(s, slots) for s in splits)
    known_out: list = []
    assert trace.parent is not None
    with traces.current(trace.parent):
        if now[0].outvars:
            known_out = cond_p.bind(index, *others(operands, unknown), branches=now)
    known_out, residuals = cut(known_out, len(out_unknown) - sum(out_unknown))
    rest = trace.unknown.process(
        cond_p, (index, *residuals, *chosen(operands, unknown)), params | {"branches": later}
    )
    return merged(out_unknown, rest, known_out)


def _slots(splits: list[Split]) -> list[ShapedArray]:
    """Return the avals of residual slots: of each aval as many as the most any branch needs."""
    most: Counter[ShapedArray] = Counter()
    for split in splits:
        most |= Counter(_residual_avals(split))
    return list(most.elements())


def _residual_avals(split: Split) -> list[ShapedArray]:
    return [v.aval.strip_weak_type() for v in split.unknown.invars[: split.residuals]]


def _placed(avals: list[ShapedArray], slots: list[ShapedArray]) -> list[int]:
    """Return the slot that each of a branch's residuals takes."""
    free: dict[ShapedArray, list[int]] = {}
    # Reversed, so that `pop` gives the first free slot.
    for i, aval in reversed(list(enumerate(slots))):
        free.setdefault(aval, []).append(i)
    return [free[aval].pop() for aval in avals]


def _known_branch(split: Split, slots: list[ShapedArray]) -> Graph:
    """Return the known half of a branch, with residuals in their slots and zeros in the others."""
    graph, places = split.known, _placed(_residual_avals(split), slots)
    count = len(graph.outvars) - split.residuals
    # All slots are used: only the order changes, no zeros are needed.
    if len(places) == len(slots):
        out: list[Atom | None] = [None] * len(slots)
        for place, a in zip(places, graph.outvars[count:], strict=True):
            out[place] = a
        return reordered(graph, graph.invars, [*graph.outvars[:count], *out])

    def fun(*values):
        known, residuals = cut(evaluate(graph, *values), count)
        found = dict(zip(places, residuals, strict=True))
        return [*known, *(found[i] if i in found else zeros(a) for i, a in enumerate(slots))]

    return staged(fun, graph.in_avals, "cond", graph.debug_name)


def _unknown_branch(split: Split, slots: list[ShapedArray]) -> Graph:
    """Return the unknown half of a branch, which takes all slots and reads its own."""
    graph, places = split.unknown, _placed(_residual_avals(split), slots)
    own = dict(zip(places, graph.invars, strict=False))
    # Slots of other branches become inputs that this one does not read.
    lead = [own.get(i) or Var(a) for i, a in enumerate(slots)]
    return reordered(graph, [*lead, *graph.invars[split.residuals :]], graph.outvars)


def _transpose(cts: list, index, *operands, branches: Graphs, **params) -> list:
    linear = tuple(is_undefined(x) for x in operands)
    nonzero = tuple(not is_zero(ct) for ct in cts)
    # A cotangent for every linear operand, so that all branches return the same types.
    made = tuple(transpose_filled(g, linear, nonzero) for g in branches)
    known, given = others(operands, linear), chosen(cts, nonzero)
    found = cond_p.bind(index, *known, *given, branches=made, **params)
    return [None, *merged(linear, found, [None] * len(known))]


def _batch(axis: BatchAxis, args: list, dims: list, *, branches: Graphs, **params):
    # An unbatched index keeps one branch running; a batched one selects among all.
    (index, *operands), (index_dim, *op_dims) = args, dims
    operands = [
        x if d is None else move_axis(x, d, 0) for x, d in zip(operands, op_dims, strict=True)
    ]
    in_dims = tuple(None if d is None else 0 for d in op_dims)
    # One index: results have the axis if they have it in any branch.
    if index_dim is None:
        found = _any(
            [d is not None for d in batch_graph(g, axis, in_dims).outputs] for g in branches
        )
        out_dims = tuple(0 if b else None for b in found)
        made = tuple(batch_graph(g, axis, in_dims, out_dims).graph for g in branches)
        return cond_p.bind(index, *operands, branches=made, **params), list(out_dims)
    # Each element may take another branch: run all of them.
    for branch in branches:
        refuse_io(branch.effects, "vmap-of-cond with batched predicate")
    out_dims = (0,) * len(branches[0].outvars)
    results = []
    for i, branch in enumerate(branches):
        # A branch that was not taken gets no cotangent, not even a nan.
        taken = do.eq(index, np.int32(i))
        inputs = [
            x if d is None else _select(taken, do.stop_gradient(x), x)
            for x, d in zip(operands, in_dims, strict=True)
        ]
        results.append(evaluate(batch_graph(branch, axis, in_dims, out_dims).graph, *inputs))
    out = [_select(index, *column) for column in zip(*results, strict=True)]
    # An operand that every branch returns unchanged needs no select, and stays unbatched if it is.
    dims = list(out_dims)
    for k, sources in enumerate(zip(*map(forwarded, branches), strict=True)):
        source = sources[0]
        if source is not None and sources.count(source) == len(sources):
            out[k], dims[k] = _array(operands[source]), in_dims[source]
    return out, dims


def _array(x: Any) -> Any:
    """A result is an Array, though the operand that it is may be a Python number."""
    if isinstance(x, Array):
        return x
    a = aval_of(x)
    return do.convert_element_type(x, new_dtype=a.dtype, weak_type=a.weak_type, sharding=None)


def _select(which, *cases):
    """`select_n` with a selector for the leading axis of the cases."""
    shape = aval_of(cases[0]).shape
    if len(shape) > 1:
        which = do.broadcast_in_dim(which, shape=shape, broadcast_dimensions=(0,), sharding=None)
    return do.select_n(which, *cases)


# ---- dead results, and values that a checkpoint keeps ----


def _narrow(eqn: Eqn, used: list[bool]) -> Eqn:
    shorts = [shortened(g, used) for g in eqn.params["branches"]]
    # All branches take the same operands: those that any of them reads.
    read = _any(flags for _, flags in shorts)
    made = tuple(reordered(g, chosen(g.invars, read), g.outvars) for g, _ in shorts)
    return eqn.replace(
        invars=[eqn.invars[0], *chosen(eqn.invars[1:], read)],
        outvars=chosen(eqn.outvars, used),
        params=eqn.params | {"branches": made},
    )


def _keep(eqn: Eqn, separate: Separate) -> KeptInside | None:
    """Each branch has its own slot for a value; branches that do not compute it return zeros."""
    made = [separate(g) for g in eqn.params["branches"]]
    places = [[v.aval.strip_weak_type() for v in m.values] for m in made]
    values = [Var(a) for avals in places for a in avals]
    if not values:
        return None
    now, again = [], []
    for i, m in enumerate(made):
        # Both conds have the same results or operands in all branches, so each has the places of
        # all.
        before, after = (sum(part, []) for part in (places[:i], places[i + 1 :]))
        now.append(_among(m.now, before, len(m.values), after))
        lead = [*map(Var, before), *m.values, *map(Var, after)]
        again.append(reordered(m.again, [*lead, *m.again.invars[len(m.values) :]], m.again.outvars))
    return KeptInside(
        eqn.replace(outvars=[*eqn.outvars, *values], params=eqn.params | {"branches": tuple(now)}),
        eqn.replace(
            invars=[eqn.invars[0], *values, *eqn.invars[1:]],
            params=eqn.params | {"branches": tuple(again)},
        ),
        values,
    )


def _among(graph: Graph, before: list, count: int, after: list) -> Graph:
    """Return a Graph that gives zeros before and after its last `count` results."""

    def fun(*values):
        out, kept = cut(evaluate(graph, *values), len(graph.outvars) - count)
        return [*out, *map(zeros, before), *kept, *map(zeros, after)]

    return staged(fun, graph.in_avals, "cond", graph.debug_name)


# At most one branch runs.
def _work(avals, *, branches: Graphs, **_) -> float:
    return max(graph_work(g) for g in branches)


cond_p = typed.TypedCall(
    "cond",
    Kind.CALL,
    retype=typed.cond,
    multiple_results=True,
    aval=_cond_aval,
    numpy_pick=lambda avals, **params: _assemble(avals, interpreted, **params),
    assemble=_assemble,
    flow=lambda eqn: Choice(eqn.params["branches"]),
    jvp=_cond_jvp,
    transpose=_transpose,
    batch=_batch,
    work=_work,
)
set_partial_rule(cond_p, _partial)
set_narrow_rule(cond_p, _narrow)
set_keep_rule(cond_p, _keep)
