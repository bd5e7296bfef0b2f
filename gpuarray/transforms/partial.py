"""Partial evaluation by dependence: known values are computed now, the rest is staged for later.

Floor 3. In: a computation with some inputs known. Out: known results, and a Graph of the rest whose
constants are the known values that it needs (residuals). `linearize` is jvp with tangents unknown;
checkpointing and loops split their graphs in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuarray.core import trace as traces
from gpuarray.core.graph import Atom, Eqn, Graph, Var, evaluate, has_effect
from gpuarray.core.primitive import Primitive
from gpuarray.transforms.tracing import GraphTrace, GraphTracer, TracedFunction


class PartialTrace(traces.Trace):
    """Stages operations on unknown values, and evaluates all others in the trace around it."""

    def __init__(self, known: traces.Trace, unknown: GraphTrace):
        self.parent = known
        self.unknown = unknown

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        assert self.parent is not None
        # Only tracers of the graph that is being staged are unknown; all else has a value.
        flags = [type(a) is GraphTracer and a._trace is self.unknown for a in args]
        if not any(flags):
            with traces.current(self.parent):
                return prim.bind(*args, **params)
        # A jitted function on known and unknown values would be unknown as a whole: split it.
        if prim.name == "jit" and not all(flags):
            return self._split_call(prim, args, params, flags)
        rule = _partial_rules.get(prim)
        if rule is not None and not all(flags):
            return rule(self, args, flags, params)
        return self.unknown.process(prim, args, params)

    def _split_call(self, prim: Primitive, args: tuple, params: dict, flags: list[bool]) -> list:
        """Replace a call by two: the known part runs now and returns the residuals of the other."""
        split = split_graph(params["jaxpr"], flags)
        known_args = [a for a, unknown in zip(args, flags, strict=True) if not unknown]
        unknown_args = [a for a, unknown in zip(args, flags, strict=True) if unknown]
        # The parts have other arguments, so donations do not carry over.
        shared = {k: v for k, v in params.items() if k != "donated_invars"}
        known_out: list = []
        assert self.parent is not None
        # A part without results would be a useless launch.
        if split.known.outvars:
            with traces.current(self.parent):
                known_out = prim.bind(
                    *known_args, **(shared | {"jaxpr": split.known}), donated_invars=None
                )
        # The residuals come after the known results.
        residuals = known_out[len(known_out) - split.residuals :] if split.residuals else []
        rest = self.unknown.process(
            prim,
            (*residuals, *unknown_args),
            shared | {"jaxpr": split.unknown, "donated_invars": None},
        )
        # Put results back in their order.
        known_iter, rest_iter = iter(known_out), iter(rest)
        return [next(rest_iter) if unknown else next(known_iter) for unknown in split.out_unknown]


#: Rules for other primitives that hold graphs: prim -> rule(trace, args, unknown flags, params).
_partial_rules: dict[Primitive, Any] = {}


def set_partial_rule(prim: Primitive, rule: Any) -> None:
    """Define how a primitive that holds a Graph is split into a known and an unknown part."""
    _partial_rules[prim] = rule


class Split(NamedTuple):
    """A Graph in two parts.

    `known` returns its outputs and then the residuals; `unknown` takes the residuals first.
    """

    known: Graph
    unknown: Graph
    out_unknown: list[bool]
    residuals: int


def split_graph(
    graph: Graph, in_unknown: Sequence[bool], force: Sequence[bool] | None = None
) -> Split:
    """Split a Graph by dependence on its unknown inputs.

    `force` marks outputs that count as unknown even if they are known, as loops require of their
    carries. The split is made once for each pattern of inputs, and cached with the Graph.
    """
    key = ("split", tuple(in_unknown), None if force is None else tuple(force))
    if key not in graph.derived:
        graph.derived[key] = _split(graph, in_unknown, force or [False] * len(graph.outvars))
    return graph.derived[key]


def _split(graph: Graph, in_unknown: Sequence[bool], force: Sequence[bool]) -> Split:
    # Evaluate the Graph on a PartialTrace, staging both sides.
    info = TracedFunction(split_graph, "partial evaluation")
    known, unknown = GraphTrace(info), GraphTrace(info)
    outer = traces.state.trace
    try:
        inputs = [
            (unknown if u else known).new_input(v.aval)
            for v, u in zip(graph.invars, in_unknown, strict=True)
        ]
        with traces.current(PartialTrace(known, unknown)):
            out = evaluate(graph, *inputs)
        # Results that are known, but forced, are constants of the unknown part.
        out_unknown = [f or _made_by(x, unknown) for x, f in zip(out, force, strict=True)]
        later = unknown.finish([x for x, u in zip(out, out_unknown, strict=True) if u])
        # Keep the equations that results need; constants of the others are no residuals.
        eqns = _live(later.eqns, later.outvars)
        read = {a for e in eqns for a in e.invars if isinstance(a, Var)}
        read.update(a for a in later.outvars if isinstance(a, Var))
        pairs = [p for p in zip(later.constvars, later.consts, strict=True) if p[0] in read]
        # Values of the known part become residuals, others stay constants.
        needed = [(v, c) for v, c in pairs if _made_by(c, known)]
        constants = [(v, c) for v, c in pairs if not _made_by(c, known)]
        now = known.finish(
            [x for x, u in zip(out, out_unknown, strict=True) if not u] + [c for _, c in needed]
        )
    finally:
        traces.state.trace = outer
        known.alive = unknown.alive = False
    now.debug_name = graph.debug_name
    rest = Graph(
        [*(v for v, _ in needed), *later.invars],
        later.outvars,
        eqns,
        [v for v, _ in constants],
        [c for _, c in constants],
        graph.debug_name,
    )
    return Split(now, rest, out_unknown, len(needed))


def _made_by(x: Any, trace: GraphTrace) -> bool:
    return type(x) is GraphTracer and x._trace is trace


def _live(eqns: Sequence[Eqn], outvars: Sequence[Atom]) -> list[Eqn]:
    """Return the equations on which results depend; others would need useless residuals."""
    read = {a for a in outvars if isinstance(a, Var)}
    kept: list[Eqn] = []
    # From the results backwards, so that one pass is enough.
    for eqn in reversed(eqns):
        if has_effect(eqn) or any(v in read for v in eqn.outvars):
            kept.append(eqn)
            read.update(a for a in eqn.invars if isinstance(a, Var))
    kept.reverse()
    return kept
