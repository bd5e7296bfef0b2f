"""Linearisation: a function at a point, and its derivative there as a linear Graph.

Floor 3. In: a flat function and primals. Out: results, and a linear Graph from tangents to
tangents, whose constants are the values that it needs from the forward computation. It is jvp with
unknown tangents, by partial evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.linear import is_inexact, is_zero, tangent_aval
from gpuarray.transforms.jvp import JVPTrace
from gpuarray.transforms.leaks import check_leaks
from gpuarray.transforms.partial import PartialTrace
from gpuarray.transforms.tracing import GraphTrace, TracedFunction


class Linearized(NamedTuple):
    """Results, and the Graph from tangents of differentiable inputs to tangents of outputs.

    The Graph's outputs are those of `outputs` that depend on the inputs.
    """

    outputs: list
    graph: Graph
    in_linear: list[bool]  # which inputs have a tangent (floats and complex numbers)
    out_linear: list[bool]  # which outputs depend on them


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], name: str = "linearize"
) -> Linearized:
    """Run `fun` at `primals`, and stage its derivative."""
    outer = traces.state.trace
    # jvp over partial evaluation: primals run in the outer trace, tangents are staged in `unknown`.
    unknown = GraphTrace(TracedFunction(fun, name))
    trace = JVPTrace(PartialTrace(outer, unknown))
    in_linear = [is_inexact(aval_of(p)) for p in primals]
    try:
        # Primals are computed immediately; their tangents are unknown, so operations on them are
        # recorded: that is the derivative.
        boxed = [
            trace.box(traces.immutable(p), unknown.new_input(tangent_aval(aval_of(p))))
            if linear
            else p
            for p, linear in zip(primals, in_linear, strict=True)
        ]
        with traces.current(trace):
            outputs = fun(*boxed)
        pairs = [trace.split(traces.immutable(x)) for x in outputs]
        out_linear = [not is_zero(t) for _, t in pairs]
        graph = unknown.finish([t for _, t in pairs if not is_zero(t)])
    finally:
        traces.state.trace = outer
        unknown.alive = trace.alive = False
    # Results that do not depend on the inputs are not outputs of the Graph; `out_linear` marks the
    # others.
    primals_out = [p for p, _ in pairs]
    del boxed, outputs, pairs
    check_leaks(trace, f"JVPTrace of {name}")
    return Linearized(primals_out, graph, in_linear, out_linear)
