"""Loops of short iterations: which are unrolled, and which equations are hoisted.

Floor 4. In: a `Loop`. Out: whether its iterations are so short that calling a function for each
costs as much as its arithmetic; its body in two Graphs, one to run once and one for each iteration.
"""

from __future__ import annotations

from gpuarray.core.flow import Loop
from gpuarray.core.graph import Graph, Var, has_effect, talks

#: The bytes that an iteration may produce if the loop is to be unrolled into the caller's text.
SHORT = 1 << 16
#: Loops in loops that are written out: Python allows 20 blocks in each other.
DEEPEST = 8
#: From this size on an array is better written in place than copied.
COPIED = 1 << 12


def is_short(loop: Loop) -> bool:
    """Whether an iteration of a loop does so little that the loop is written inline."""
    # A condition that differs along mapped axes decides for each element: see control/while_loop.
    if loop.condition is not None and loop.condition.out_avals[0].ndim:
        return False
    graphs = (loop.body,) if loop.condition is None else (loop.body, loop.condition)
    eqns = [e for g in graphs for e in g.eqns]
    if sum(v.aval.nbytes for e in eqns for v in e.outvars) > SHORT:
        return False
    return not any(e.primitive.inplace and e.outvars[0].aval.nbytes > COPIED for e in eqns)


def without_invariants(graph: Graph, consts: int) -> tuple[Graph, Graph]:
    """Split a loop's Graph, whose first inputs are the same in every iteration.

    Returns
    -------
    before : Graph
        The equations that depend only on these inputs: to run once.
    turn : Graph
        The rest; its first inputs are the results of `before`.
    """
    key = ("without invariants", consts)
    if key not in graph.derived:
        same = {*graph.invars[:consts], *graph.constvars}
        before, turn = [], []
        for eqn in graph.eqns:
            varies = any(isinstance(a, Var) and a not in same for a in eqn.invars)
            # An effect happens in every iteration; a collective, in every iteration on all devices.
            if varies or talks(eqn) or has_effect(eqn):
                turn.append(eqn)
            else:
                before.append(eqn)
                same.update(eqn.outvars)
        read = {a for e in turn for a in e.invars if isinstance(a, Var)}
        read.update(a for a in graph.outvars if isinstance(a, Var))
        made = [v for e in before for v in e.outvars if v in read]
        held = graph.constvars, graph.consts, graph.debug_name
        graph.derived[key] = (
            Graph(graph.invars[:consts], made, before, *held),
            Graph([*made, *graph.invars], graph.outvars, turn, *held),
        )
    return graph.derived[key]
