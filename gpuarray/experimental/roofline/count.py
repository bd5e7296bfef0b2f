"""The figures of a whole program: its operations in order, and the memory they use.

Floor 6. In: a function. Out: a function of the same arguments that gives the types of its results
and a RooflineResult. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.api.shard_map import shard_map
from gpuarray.api.vjp import vjp
from gpuarray.control.shard_map import shard_map_p
from gpuarray.core import dtypes
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Eqn, Graph, last_uses, subgraphs
from gpuarray.core.mesh import Mesh, NamedSharding
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.tracebacks import boundary
from gpuarray.experimental.roofline.results import (
    RooflineResult,
    RooflineRuleContext,
    RooflineShape,
)
from gpuarray.experimental.roofline.rules import BY_KIND, RULES, Rule
from gpuarray.functions.inspect import make_jaxpr
from gpuarray.functions.stages import ShapeDtypeStruct
from gpuarray.interpreters.partial_eval import dce_jaxpr
from gpuarray.pytree import tree
from gpuarray.util import Struct, wraps, wrong_type


class _Counter(Struct):
    """The options of `roofline`, for the rules of all equations."""

    mesh: Any
    pin_lhs: bool
    pin_rhs: bool

    def of_graph(self, graph: Graph) -> RooflineResult:
        """The figures of a Graph, with the most that is in memory while it runs."""
        found = RooflineResult()
        bytes_of = lambda avals: RooflineShape.total_bytes(list(avals))
        now = bytes_of(v.aval for v in (*graph.constvars, *graph.invars))
        peak, last = now, last_uses(graph)
        for number, eqn in enumerate(graph.eqns):
            found += self.of_eqn(eqn)
            now += bytes_of(v.aval for v in eqn.outvars)
            now -= bytes_of(v.aval for v in last.get(number, ()))
            peak = max(peak, now)
        return found + RooflineResult(peak_hbm_bytes=peak)

    def of_eqn(self, eqn: Eqn) -> RooflineResult:
        """The figures of an equation, with the Graphs in it."""
        rule = RULES.get(eqn.primitive)
        if rule is None and eqn.primitive.kind is Kind.CALL:
            return self.of_call(eqn)
        rule = rule or BY_KIND.get(eqn.primitive.kind)
        if rule is None:
            return RooflineResult()
        avals = [a.aval for a in eqn.invars]
        ctx = RooflineRuleContext(
            eqn.source_info.name_stack,
            eqn.primitive,
            avals,
            [v.aval for v in eqn.outvars],
            eqn.ctx,
            self.mesh,
            self.pin_lhs,
            self.pin_rhs,
        )
        return rule(ctx, *map(RooflineShape.from_aval, avals), **eqn.params)

    def of_call(self, eqn: Eqn) -> RooflineResult:
        """A loop costs its body in each iteration, if the number is known; a branch its most
        expensive case.
        """
        # A call without a `flow` rule runs its Graph once.
        flow = None if eqn.primitive.flow is None else eqn.primitive.flow(eqn)
        if isinstance(flow, Loop):
            turn = self.of_graph(flow.body)
            total = turn if flow.length is None else turn * flow.length
            # Iterations run one after another: the memory of one is enough.
            return total.replace(peak_hbm_bytes=turn.peak_hbm_bytes)
        if isinstance(flow, Choice):
            return max(map(self.of_graph, flow.branches), key=lambda r: r.unfused_hbm_bytes)
        # A call's derivative rules are Graphs, too: the first one is the computation.
        return sum(map(self.of_graph, list(subgraphs(eqn))[:1]), RooflineResult())


@boundary
def roofline(
    f: Callable[..., Any],
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult]]:
    """A function of `f`'s arguments: (the types of its results, its RooflineResult).

    Parameters
    ----------
    mesh, in_specs, out_specs :
        Count the work of one device in `shard_map(f, mesh=..., in_specs=..., out_specs=...)`, and
        the traffic of its links.
    pin_lhs_in_vmem, pin_rhs_in_vmem :
        Count no bytes for operands of matrix products on this side, nor for results on the left.
    vjp :
        Count the derivative with it, from cotangents that are the results.
    print_jaxpr :
        Print the counted equations.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.roofline import roofline
    >>> x = ga.ShapeDtypeStruct((4, 8), "float32")
    >>> out, found = roofline(lambda x: ga.numpy.sin(x) @ x.T)(x)
    >>> out, found.flops, found.unfused_flops
    (ShapeDtypeStruct(shape=(4, 4), dtype=float32), 256, 288)
    """

    if mesh is not None and not isinstance(mesh, (Mesh, AbstractMesh)):
        raise wrong_type(mesh, "a Mesh")
    if (in_specs is None) != (out_specs is None) or (in_specs is not None and mesh is None):
        raise ValueError(
            f"roofline counts what one device does of a function with specs: give mesh, in_specs "
            f"and out_specs together, got {mesh=}, {in_specs=}, {out_specs=}."
        )

    @wraps(f)
    def counted(*args: Any) -> tuple[Any, RooflineResult]:
        fun = f
        if in_specs is not None and out_specs is not None:
            fun = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        if vjp:
            fun = _with_cotangents(fun)
        graph, shapes = make_jaxpr(fun, return_shape=True)(*args)
        if mesh is not None and out_specs is not None:
            leaves, spec = tree.tree_flatten(shapes)
            specs = tree.prefix_broadcast(out_specs, shapes)
            laid = [
                ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, s))
                for x, s in zip(leaves, specs, strict=True)
            ]
            shapes = tree.tree_unflatten(spec, laid)
        # Unread equations would not run, so they do not count.
        graph, _ = dce_jaxpr(graph, [True] * len(graph.outvars))
        # The figures of one device, if there are several.
        mapped = [e for e in graph.eqns if e.primitive is shard_map_p]
        graph = mapped[-1].params["jaxpr"] if mapped else graph
        if print_jaxpr:
            print(graph)
        return shapes, _Counter(mesh, pin_lhs_in_vmem, pin_rhs_in_vmem).of_graph(graph)

    return counted


def _with_cotangents(f: Callable[..., Any]) -> Callable[..., Any]:
    def derivative(*args: Any) -> Any:
        out, pull = vjp(f, *args)
        return pull(out)

    return derivative


def roofline_and_grad(
    f: Callable[..., Any],
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult, RooflineResult]]:
    """The same with a third result: the figures with the derivative, in bfloat16.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.roofline import roofline_and_grad
    >>> x = ga.ShapeDtypeStruct((4, 4), "float32")
    >>> _, forward, both = roofline_and_grad(lambda x: x @ x, None, None, None)(x)
    >>> forward.flops, both.flops
    (128, 384)
    """
    options: dict[str, Any] = {
        "pin_lhs_in_vmem": pin_lhs_in_vmem,
        "pin_rhs_in_vmem": pin_rhs_in_vmem,
        "print_jaxpr": print_jaxpr,
    }
    given = mesh, in_specs, out_specs

    @wraps(f)
    def counted(*args: Any) -> tuple[Any, RooflineResult, RooflineResult]:
        shapes, forward = roofline(f, *given, **options)(*args)
        narrow = tree.tree_map(_narrow, args)
        return shapes, forward, roofline(f, *given, vjp=True, **options)(*narrow)[1]

    return counted


def _narrow(x: Any) -> ShapeDtypeStruct:
    dtype = "bfloat16" if dtypes.issubdtype(x.dtype, np.floating) else x.dtype
    return ShapeDtypeStruct(x.shape, dtype, sharding=getattr(x, "sharding", None))


def register_roofline(prim: Primitive) -> Callable[[Rule], Rule]:
    """A decorator for the rule of a primitive: rule(context, *shapes, **params) -> RooflineResult.

    >>> from gpuarray.experimental import roofline
    >>> from gpuarray.extend.core import Primitive
    >>> twice_p = Primitive("twice")
    >>> _ = twice_p.def_abstract_eval(lambda x: x)
    >>> @roofline.register_roofline(twice_p)
    ... def rule(context, x, **params):
    ...     return roofline.RooflineResult(unfused_flops=2 * x.size)
    >>> roofline.roofline(twice_p.bind)(1.0)[1].unfused_flops
    2
    """

    def register(rule: Rule) -> Rule:
        RULES[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: Primitive) -> None:
    """Declare that an operation costs nothing.

    >>> from gpuarray import lax
    >>> from gpuarray.experimental import roofline
    >>> roofline.register_standard_roofline(lax.copy_p)
    >>> roofline.roofline(lax.copy_p.bind)(1.0)[1].unfused_flops
    0
    """
    RULES[prim] = lambda *_, **__: RooflineResult()
