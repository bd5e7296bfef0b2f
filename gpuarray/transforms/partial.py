"""Partial evaluation by dependence: what is known runs now, what is not is staged for later.

Floor 3. In: a computation with some inputs known. Out: known results, and a Graph of the rest whose constants are the known values it
needs. `linearize` is jvp with tangents unknown; checkpointing and loops split their graphs the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuarray.core import trace as traces
from gpuarray.core.graph import Atom, Eqn, Graph, Var
from gpuarray.core.primitive import Primitive
from gpuarray.transforms.stage import GraphTrace, GraphTracer


class PartialTrace(traces.Trace):
    """Stages operations that touch an unknown value, evaluates all others in the trace around it."""

    def __init__(self, known: traces.Trace, unknown: GraphTrace):
        self.parent = known
        self.unknown = unknown

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        assert self.parent is not None
        flags = [type(a) is GraphTracer and a._trace is self.unknown for a in args]
        if not any(flags):
            with traces.current(self.parent):
                return prim.bind(*args, **params)
        if prim.name == "jit" and not all(flags):
            return self._split_call(prim, args, params, flags)
        rule = _partial_rules.get(prim)
        if rule is not None and not all(flags):
            return rule(self, args, flags, params)
        return self.unknown.process(prim, args, params)

    def _split_call(self, prim: Primitive, args: tuple, params: dict, flags: list[bool]) -> list:
        """Two calls instead of one: the known part runs now and leaves what the other part needs."""
        split = split_graph(params["jaxpr"], flags)
        known_args = [a for a, unknown in zip(args, flags, strict=True) if not unknown]
        unknown_args = [a for a, unknown in zip(args, flags, strict=True) if unknown]
        shared = {k: v for k, v in params.items() if k != "donated_invars"}
        known_out: list = []
        assert self.parent is not None
        if split.known.outvars:
            with traces.current(self.parent):
                known_out = prim.bind(
                    *known_args, **(shared | {"jaxpr": split.known}), donated_invars=None
                )
        residuals = known_out[len(known_out) - split.residuals :] if split.residuals else []
        rest = self.unknown.process(
            prim,
            (*residuals, *unknown_args),
            shared | {"jaxpr": split.unknown, "donated_invars": None},
        )
        known_iter, rest_iter = iter(known_out), iter(rest)
        return [next(rest_iter) if unknown else next(known_iter) for unknown in split.out_unknown]


#: How other primitives that hold graphs are split: prim -> rule(trace, args, unknown flags, params).
_partial_rules: dict[Primitive, Any] = {}


def set_partial_rule(prim: Primitive, rule: Any) -> None:
    """Say how a primitive that holds a Graph is split into a known and an unknown part."""
    _partial_rules[prim] = rule


class Split(NamedTuple):
    """A Graph in two: `known` returns its outputs and then the residuals, `unknown` takes residuals first."""

    known: Graph
    unknown: Graph
    out_unknown: list[bool]
    residuals: int


def split_graph(graph: Graph, in_unknown: Sequence[bool]) -> Split:
    """Cut a Graph by dependence on the unknown inputs."""
    graph = flat(graph)
    unknown = {v for v, u in zip(graph.invars, in_unknown, strict=True) if u}
    known_eqns: list[Eqn] = []
    unknown_eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if any(isinstance(a, Var) and a in unknown for a in eqn.invars):
            unknown.update(eqn.outvars)
            unknown_eqns.append(eqn)
        else:
            known_eqns.append(eqn)
    out_unknown = [isinstance(a, Var) and a in unknown for a in graph.outvars]
    constvars = set(graph.constvars)
    residuals: dict[Var, None] = {}
    made_later: set[Atom] = set()
    for eqn in unknown_eqns:
        for a in eqn.invars:
            if isinstance(a, Var) and a not in unknown and a not in constvars:
                residuals[a] = None
        made_later.update(eqn.outvars)
    known_invars = [v for v, u in zip(graph.invars, in_unknown, strict=True) if not u]
    unknown_invars = [v for v, u in zip(graph.invars, in_unknown, strict=True) if u]
    known_out = [a for a, u in zip(graph.outvars, out_unknown, strict=True) if not u]
    unknown_out = [a for a, u in zip(graph.outvars, out_unknown, strict=True) if u]
    known = Graph(
        known_invars,
        [*known_out, *residuals],
        known_eqns,
        graph.constvars,
        graph.consts,
        graph.debug_name,
    )
    rest = Graph(
        [*residuals, *unknown_invars],
        unknown_out,
        unknown_eqns,
        graph.constvars,
        graph.consts,
        graph.debug_name,
    )
    return Split(known, rest, out_unknown, len(residuals))


def flat(graph: Graph) -> Graph:
    """The graph with calls inside it opened up, so that a cut can go through them."""
    if not any(e.primitive.name == "jit" for e in graph.eqns):
        return graph
    constvars, consts = list(graph.constvars), list(graph.consts)
    eqns: list[Eqn] = []
    env: dict[Var, Atom] = {}

    def read(a: Atom) -> Atom:
        return env.get(a, a) if isinstance(a, Var) else a

    for eqn in graph.eqns:
        ins = [read(a) for a in eqn.invars]
        if eqn.primitive.name != "jit":
            eqns.append(eqn.replace(invars=ins))
            continue
        inner = flat(eqn.params["jaxpr"])
        local: dict[Var, Atom] = dict(zip(inner.invars, ins, strict=True))
        for v, c in zip(inner.constvars, inner.consts, strict=True):
            local[v] = Var(v.aval)
            constvars.append(local[v])  # type: ignore[arg-type]
            consts.append(c)
        for sub in inner.eqns:
            outs = [Var(v.aval) for v in sub.outvars]
            eqns.append(
                Eqn(
                    sub.primitive,
                    [local.get(a, a) if isinstance(a, Var) else a for a in sub.invars],
                    outs,
                    sub.params,
                    sub.site,
                )
            )
            local.update(zip(sub.outvars, outs, strict=True))
        for v, a in zip(eqn.outvars, inner.outvars, strict=True):
            env[v] = local.get(a, a) if isinstance(a, Var) else a
    return Graph(
        graph.invars, [read(a) for a in graph.outvars], eqns, constvars, consts, graph.debug_name
    )
