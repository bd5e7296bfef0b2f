"""Functions that bring their derivative along: `custom_gradient`, `closure_convert`, `linear_call`.

Floor 6. In: functions that close over values. Out: the same with these values as arguments, or with
a derivative given beside the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import errors
from gpuarray.api.custom_vjp import custom_vjp
from gpuarray.control.custom import (
    linear_call_p,
)
from gpuarray.control.surgery import opened
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import is_inexact, tangent_aval
from gpuarray.core.tracebacks import boundary
from gpuarray.pytree import tree
from gpuarray.transforms.stage import TracedFunction, stage


class _Staged:
    """A Graph among residuals: a pytree whose leaves are the Graph's constants."""

    def __init__(self, consts: Sequence[Any], static: tuple):
        self.consts, self.static = list(consts), static


tree.register_pytree_node(
    _Staged, lambda x: (x.consts, x.static), lambda static, consts: _Staged(consts, static)
)


def custom_gradient(fun: Callable) -> Callable:
    """A function with its own rule for cotangents, which it returns beside its result.

    `fun(*args)` returns `(output, vjp)`, and `vjp(cotangent)` the cotangents of the arguments.

    >>> import gpuarray as ga
    >>> @ga.custom_gradient
    ... def f(x):
    ...     return x**2, lambda g: (g * x,)
    >>> f(3.0), ga.grad(f)(3.0)
    (9.0, Array(3., dtype=float32, weak_type=True))
    """

    @functools.wraps(fun)
    def primal(*args, **kwargs):
        return fun(*args, **kwargs)[0]

    wrapped = custom_vjp(primal)

    def fwd(*args, **kwargs):
        out, rule = fun(*args, **kwargs)
        leaves, out_spec = tree.flatten(out)
        in_spec: Any = None

        def flat(*cotangents):
            nonlocal in_spec
            found = rule(tree.unflatten(out_spec, cotangents))
            given, in_spec = tree.flatten(found)
            return given

        avals = [tangent_aval(aval_of(x)) for x in leaves]
        graph = stage(flat, avals, TracedFunction(rule, "custom_gradient"))
        return out, _Staged(graph.consts, (opened(graph), in_spec))

    def bwd(residuals, cotangent):
        graph, in_spec = residuals.static
        out = evaluate(graph, *residuals.consts, *tree.flatten(cotangent)[0])
        found = tree.unflatten(in_spec, out)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    wrapped.defvjp(fwd, bwd)
    return wrapped


@boundary
def closure_convert(fun: Callable, *example_args) -> tuple[Callable, list]:
    """`fun` as a function of its arguments and the traced values it closes over, and those.

    example_args: arguments of the shapes and dtypes that it will be called with

    >>> import gpuarray as ga
    >>> def g(w):
    ...     h, values = ga.closure_convert(lambda x: x * w, 1.0)
    ...     return h(2.0, *values)
    >>> ga.grad(g)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    leaves, in_spec = tree.flatten(example_args)
    out_spec: Any = None

    def flat(*values):
        nonlocal out_spec
        out, out_spec = tree.flatten(fun(*tree.unflatten(in_spec, values)))
        return out

    avals = [aval_of(x) for x in leaves]
    graph = stage(flat, avals, TracedFunction(fun, "closure_convert"))
    pairs = list(zip(graph.constvars, graph.consts, strict=True))
    moved = [
        isinstance(c, traces.Tracer) and is_inexact(v.aval) for v, c in pairs
    ]  # only these can have derivatives
    lead = [v for (v, _), m in zip(pairs, moved, strict=True) if m]
    kept = [p for p, m in zip(pairs, moved, strict=True) if not m]
    converted = Graph(
        [*graph.invars, *lead],
        graph.outvars,
        graph.eqns,
        [v for v, _ in kept],
        [c for _, c in kept],
        graph.debug_name,
    )
    hoisted = [c for (_, c), m in zip(pairs, moved, strict=True) if m]

    def converted_fun(*args_and_values):
        count = len(args_and_values) - len(hoisted)
        args, values = args_and_values[:count], args_and_values[count:]
        given, spec = tree.flatten(args)
        if spec != in_spec:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree "
                f"structure as the example arguments passed when closure_convert was called: "
                f"expected {in_spec}, but got {spec}"
            )
        return tree.unflatten(out_spec, evaluate(converted, *given, *values))

    return converted_fun, hoisted


@boundary
def linear_call(
    fun: Callable, fun_transpose: Callable, residual_args: Any, linear_args: Any
) -> Any:
    """`fun(residual_args, linear_args)`, linear in the second, with its transpose given.

    `fun_transpose(residual_args, cotangent)` returns the cotangent of `linear_args`.

    >>> import gpuarray as ga
    >>> half = lambda r, x: x / r
    >>> f = lambda x: linear_call(half, half, 2.0, x)
    >>> ga.linear_transpose(f, 1.0)(3.0)
    (Array(1.5, dtype=float32, weak_type=True),)
    """
    residuals, residual_spec = tree.flatten(residual_args)
    operands, operand_spec = tree.flatten(linear_args)
    out_spec: Any = None

    def flat(*values):
        nonlocal out_spec
        given = values[: len(residuals)], values[len(residuals) :]
        out, out_spec = tree.flatten(
            fun(tree.unflatten(residual_spec, given[0]), tree.unflatten(operand_spec, given[1]))
        )
        return out

    def flat_transpose(*values):
        given = values[: len(residuals)], values[len(residuals) :]
        out, spec = tree.flatten(
            fun_transpose(
                tree.unflatten(residual_spec, given[0]), tree.unflatten(out_spec, given[1])
            )
        )
        if spec != operand_spec:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs, got output "
                f"structure {spec} and input structure {operand_spec}."
            )
        return out

    lead = [aval_of(x) for x in residuals]
    callee = stage(flat, lead + [aval_of(x) for x in operands], TracedFunction(fun, "linear_call"))
    turned = stage(
        flat_transpose, lead + callee.out_avals, TracedFunction(fun_transpose, "linear_call")
    )
    for graph in (callee, turned):
        if any(isinstance(c, traces.Tracer) for c in graph.consts):
            raise errors.UnexpectedTracerError(
                "a function given to linear_call closes over a traced value: pass it in "
                "residual_args"
            )
    out = linear_call_p.bind(
        *residuals, *operands, callee=callee, transpose=turned, num_res=len(residuals)
    )
    return tree.unflatten(out_spec, out)
