"""Calls, loops and branches whose Graphs have the types of their operands.

Floor 4. In: a primitive that holds Graphs, and operands that vary along mesh axes of a `shard_map`
around. Out: the same with Graphs traced for such operands. What a loop carries varies as it does
after the last step, and so from the first step on; what a branch returns, as that of any branch
does; and everything that depends on a condition, as the condition does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.control.graph_edits import cut, staged
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, evaluate, graphs_in
from gpuarray.core.layout import Layout, joined, names_of
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.collective.ops import pcast_p

Layouts = list[Layout | None]


class TypedCall(Primitive):
    """A primitive that holds Graphs; `retype(avals, params)` makes them fit its operands."""

    def __init__(self, name: str, kind: Kind, *, retype: Callable[..., dict], **rules: Any):
        super().__init__(name, kind, **rules)
        self.retype = retype

    def bind(self, *args, **params):
        """Apply it to values; the innermost Trace decides what that means."""
        avals = [aval_of(x) for x in args]
        # Outside of a shard_map no type says anything.
        if any(a.sharding is not None for a in avals) or any(map(_speaks, graphs_in(params))):
            params = self.retype(avals, params)
        return super().bind(*args, **params)


def _speaks(graph: Graph) -> bool:
    return any(a.sharding is not None for a in graph.out_avals)


def retyped(graph: Graph, ins: Sequence[Layout | None], outs: Layouts | None = None) -> Graph:
    """Return a Graph for inputs that vary so; its results are cast to `outs`, which vary more."""
    key = ("retyped", tuple(ins), None if outs is None else tuple(outs))
    if key not in graph.derived:

        def fun(*values):
            found = evaluate(graph, *values)
            return found if outs is None else list(map(_cast, found, outs))

        avals = [a.update(sharding=s) for a, s in zip(graph.in_avals, ins, strict=True)]
        as_before = [a.sharding for a in graph.in_avals] == list(ins)
        if as_before and outs in (None, [a.sharding for a in graph.out_avals]):
            graph.derived[key] = graph
        else:
            graph.derived[key] = staged(fun, avals, "types", graph.debug_name)
    return graph.derived[key]


def _cast(x: Any, layout: Layout | None) -> Any:
    names = names_of(layout) - aval_of(x).vma
    return pcast_p.bind(x, axis_name=tuple(sorted(names, key=str))) if names else x


def _found(graph: Graph, ins: Sequence[Layout | None]) -> Layouts:
    """Return how the results of a Graph vary."""
    return [a.sharding for a in retyped(graph, ins).out_avals]


def _wider(a: Sequence[Layout | None], b: Sequence[Layout | None]) -> Layouts:
    return [joined(pair) for pair in zip(a, b, strict=True)]


def _ins(graphs: Sequence[Graph], avals: Sequence[ShapedArray]) -> Layouts:
    found: Layouts = [a.sharding for a in avals]
    for graph in graphs:
        found = _wider(found, [a.sharding for a in graph.in_avals])
    return found


def once(avals: list[ShapedArray], params: dict) -> dict:
    """Retype a Graph that is applied once."""
    graph = params["jaxpr"]
    return params | {"jaxpr": retyped(graph, _ins([graph], avals))}


def scan(avals: list[ShapedArray], params: dict) -> dict:
    """Retype the body of a scan."""
    body, count = params["jaxpr"], params["num_carry"]
    consts, carry, xs = cut(_ins([body], avals), params["num_consts"], count)
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
    given: Layouts = [a.sharding for a in avals]
    test_consts, consts, carry = cut(given, params["cond_nconsts"], params["body_nconsts"])
    consts, carry = cut(_wider([*consts, *carry], _ins([body], body.in_avals)), len(consts))
    while True:
        # Devices that take another number of steps end with other values.
        (steps,) = _found(test, [*test_consts, *carry])
        inside = [joined((s, steps)) for s in consts]
        wider = _wider(carry, [joined((s, steps)) for s in _found(body, [*inside, *carry])])
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
    ins = _ins(branches, avals[1:])
    # Devices that take another branch have other results of it.
    ins = [joined((s, avals[0].sharding)) for s in ins]
    outs: Layouts = [avals[0].sharding] * len(branches[0].outvars)
    for branch in branches:
        outs = _wider(outs, _found(branch, ins))
    return params | {"branches": tuple(retyped(b, ins, outs) for b in branches)}
