"""Arrays on several devices that loops and branches close over, made constants of the whole Graph.

Floor 4. In: a Graph. Out: one that computes the same, and in which no inner Graph holds an array on
several devices. Rules for derivatives are Python functions, and the values they close over are
known only when they are called, inside loops, branches and recomputations. No single device, and
with several processes no single process, has the value of such an array: it has to be an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control.checkpoint import remat_p
from gpuarray.control.cond import cond_p
from gpuarray.control.graph_edits import is_spread, opened_together
from gpuarray.control.scan import scan_p
from gpuarray.control.while_loop import while_p
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn, Graph, Var, subgraphs
from gpuarray.core.primitive import Primitive


def lift_spread_constants(graph: Graph) -> Graph:
    """Return the Graph with arrays on several devices that its loops and branches close over as its
    own constants.
    """
    if not _holds_spread(graph, inside=True):
        return graph
    found: dict[int, tuple[Var, Any]] = {
        id(c): (v, c) for v, c in zip(graph.constvars, graph.consts, strict=True)
    }

    def taken_out(graphs: Sequence[Graph]) -> tuple[list[Graph], list[Var]]:
        """Return inner Graphs whose constants are leading inputs, and our variables for these."""
        made, consts = opened_together(
            [lift_spread_constants(inline_calls(g, to_split=True)) for g in graphs]
        )
        return made, [found.setdefault(id(c), (Var(aval_of(c)), c))[0] for c in consts]

    eqns = []
    for eqn in graph.eqns:
        rule = _RULES.get(eqn.primitive)
        # By identity, once: several loops may close over the same array.
        if rule is not None and any(map(_holds_spread, subgraphs(eqn))):
            eqn = rule(eqn, taken_out)
        eqns.append(eqn)
    constvars, consts = [v for v, _ in found.values()], [c for _, c in found.values()]
    return Graph(graph.invars, graph.outvars, eqns, constvars, consts, graph.debug_name)


def _holds_spread(graph: Graph, inside: bool = False) -> bool:
    """Whether a Graph, or one inside it, has an array on several devices as a constant."""
    if not inside and any(map(is_spread, graph.consts)):
        return True
    return any(_holds_spread(inner) for eqn in graph.eqns for inner in subgraphs(eqn))


def _changed(eqn: Eqn, invars: Sequence[Any], **params: Any) -> Eqn:
    return Eqn(eqn.primitive, list(invars), eqn.outvars, eqn.params | params, eqn.site)


def _call(eqn: Eqn, taken_out: Any) -> Eqn:
    (made,), consts = taken_out([eqn.params["jaxpr"]])
    return _changed(eqn, [*consts, *eqn.invars], jaxpr=made)


def _scan(eqn: Eqn, taken_out: Any) -> Eqn:
    (made,), consts = taken_out([eqn.params["jaxpr"]])
    count = eqn.params["num_consts"] + len(consts)
    return _changed(eqn, [*consts, *eqn.invars], jaxpr=made, num_consts=count)


def _while(eqn: Eqn, taken_out: Any) -> Eqn:
    (condition,), of_condition = taken_out([eqn.params["cond_jaxpr"]])
    (body,), of_body = taken_out([eqn.params["body_jaxpr"]])
    first = eqn.params["cond_nconsts"]
    return _changed(
        eqn,
        [*of_condition, *eqn.invars[:first], *of_body, *eqn.invars[first:]],
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=first + len(of_condition),
        body_nconsts=eqn.params["body_nconsts"] + len(of_body),
    )


def _cond(eqn: Eqn, taken_out: Any) -> Eqn:
    made, consts = taken_out(eqn.params["branches"])
    which, *operands = eqn.invars
    return _changed(eqn, [which, *consts, *operands], branches=tuple(made))


_RULES: dict[Primitive, Callable[[Eqn, Any], Eqn]] = {
    remat_p: _call,
    scan_p: _scan,
    while_p: _while,
    cond_p: _cond,
}
