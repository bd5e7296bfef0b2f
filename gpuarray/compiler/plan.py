"""The Plan: what a compiled Graph runs, step by step.

Floor 3. In: a Graph. Out: the simplified Graph and its steps in order. Still no text and no machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuarray.compiler.simplify import simplify
from gpuarray.core.graph import Eqn, Graph


@dataclass
class Plan:
    """A simplified graph and the steps that compute it."""

    graph: Graph
    steps: list[Eqn] = field(default_factory=list)
    work: float = 0.0


def plan_graph(graph: Graph, fusion: bool = True) -> Plan:
    flat = simplify(graph)
    work = sum(e.primitive.weight * max(v.aval.size for v in e.outvars) for e in flat.eqns)
    return Plan(flat, flat.eqns, work)
