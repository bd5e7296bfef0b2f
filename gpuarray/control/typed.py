"""Calls, loops and branches whose Graphs have the types of their operands.

Floor 4. In: a primitive that holds Graphs, and operands that vary along mesh axes of an enclosing
`shard_map`. Out: the same with Graphs traced for such operands. A carry has the varying axes that
it has after the last step, and so from the first step on; a result of branches varies if any
branch's result does; and everything that depends on a condition varies as the condition does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.control.graph_edits import cut, staged
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, evaluate, graphs_in
from gpuarray.core.layout import (
    Layout,
    also_varying,
    cuts_of,
    names_of,
    reconciled,
    resolving,
    shown,
)
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.errors import ShardingTypeError
from gpuarray.primitives.collective.ops import pcast_p
from gpuarray.primitives.reshard import as_typed

Layouts = list[Layout | None]


class TypedCall(Primitive):
    """A primitive that holds Graphs; `retype(avals, params)` makes them fit its operands."""

    def __init__(self, name: str, kind: Kind, *, retype: Callable[..., dict], **rules: Any):
        super().__init__(name, kind, **rules)
        self.retype = retype

    def bind(self, *args, **params):
        """Apply it to values; the innermost Trace decides how."""
        avals = [aval_of(x) for x in args]
        # Outside shard_map types contain no layouts.
        if any(a.layout is not None for a in avals) or any(map(_speaks, graphs_in(params))):
            params = self.retype(avals, params)
        return super().bind(*args, **params)


def _speaks(graph: Graph) -> bool:
    return any(a.layout is not None for a in graph.out_avals)


def retyped(graph: Graph, ins: Sequence[Layout | None], outs: Layouts | None = None) -> Graph:
    """Return a Graph for inputs that vary so; its results are cast to `outs`, which vary more."""
    key = ("retyped", tuple(ins), None if outs is None else tuple(outs))
    if key not in graph.derived:

        def fun(*values):
            found = evaluate(graph, *values)
            return found if outs is None else list(map(_cast, found, outs))

        avals = [a.update(layout=s) for a, s in zip(graph.in_avals, ins, strict=True)]
        as_before = [a.layout for a in graph.in_avals] == list(ins)
        # No change: no need to trace it again.
        if as_before and outs in (None, [a.layout for a in graph.out_avals]):
            graph.derived[key] = graph
        else:
            graph.derived[key] = staged(fun, avals, "types", graph.debug_name)
    return graph.derived[key]


def _cast(x: Any, layout: Layout | None) -> Any:
    x = as_typed(x, aval_of(x).update(layout=layout))
    # A replicated result may be typed as varying, but not the other way round.
    names = names_of(layout) - aval_of(x).vma
    return pcast_p.bind(x, axis_name=tuple(sorted(names, key=str))) if names else x


def _found(graph: Graph, ins: Sequence[Layout | None]) -> Layouts:
    """Return how the results of a Graph vary."""
    return [a.layout for a in retyped(graph, ins).out_avals]


def _wider(a: Sequence[Layout | None], b: Sequence[Layout | None]) -> Layouts:
    return list(map(reconciled, a, b))


def _ins(graphs: Sequence[Graph], given: Sequence[Layout | None]) -> Layouts:
    # Operands keep their sharding, and vary at least as the Graphs require.
    found = list(given)
    for graph in graphs:
        found = [also_varying(s, a.layout) for s, a in zip(found, graph.in_avals, strict=True)]
    return found


def element(aval: ShapedArray) -> Layout | None:
    """Return the Layout of one step's slice of a scanned array; ShardingTypeError if that axis is
    sharded.
    """
    cuts = cuts_of(aval.layout)
    if cuts and cuts[0] and not resolving.depth:
        raise ShardingTypeError(
            f"0th dimension of all xs should be replicated. Got {shown(cuts)}: a scan goes along "
            "it. Lay another axis over the mesh, with sharding.reshard."
        )
    return None if aval.layout is None else aval.layout.without_axis(0)


def once(avals: list[ShapedArray], params: dict) -> dict:
    """Retype a Graph that is applied once."""
    graph = params["jaxpr"]
    return params | {"jaxpr": retyped(graph, _ins([graph], [a.layout for a in avals]))}


def scan(avals: list[ShapedArray], params: dict) -> dict:
    """Retype the body of a scan."""
    body, count = params["jaxpr"], params["num_carry"]
    first_x = params["num_consts"] + count
    given: Layouts = [a.layout for a in avals[:first_x]]
    given += [element(a) for a in avals[first_x:]]
    # Carries vary more from step to step, never less, so this ends.
    consts, carry, xs = cut(_ins([body], given), params["num_consts"], count)
    while True:
        found, ys = cut(_found(body, [*consts, *carry, *xs]), count)
        wider = _wider(carry, found)
        if wider == carry:
            break
        carry = wider
    return params | {"jaxpr": retyped(body, [*consts, *carry, *xs], [*carry, *ys])}


def while_loop(avals: list[ShapedArray], params: dict) -> dict:
    """Retype the body and the condition of a while loop."""
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    given: Layouts = [a.layout for a in avals]
    test_consts, consts, carry = cut(given, params["cond_nconsts"], params["body_nconsts"])
    consts, carry = cut(_ins([body], [*consts, *carry]), len(consts))
    # As in `scan`: carries only ever vary more.
    while True:
        # Devices that take another number of steps end with other values.
        (steps,) = _found(test, [*test_consts, *carry])
        inside = [also_varying(s, steps) for s in consts]
        found = [also_varying(s, steps) for s in _found(body, [*inside, *carry])]
        wider = _wider(carry, found)
        if wider == carry:
            break
        carry = wider
    return params | {
        "cond_jaxpr": retyped(test, [*test_consts, *carry]),
        "body_jaxpr": retyped(body, [*inside, *carry], carry),
    }


def cond(avals: list[ShapedArray], params: dict) -> dict:
    """Retype branches."""
    branches = params["branches"]
    ins = _ins(branches, [a.layout for a in avals[1:]])
    # Devices that take another branch have other results of it.
    ins = [also_varying(s, avals[0].layout) for s in ins]
    outs = _found(branches[0], ins)
    for branch in branches[1:]:
        outs = _wider(outs, _found(branch, ins))
    outs = [also_varying(s, avals[0].layout) for s in outs]
    return params | {"branches": tuple(retyped(b, ins, outs) for b in branches)}
