"""`linear_call`: a linear function whose transpose the user gives.

Floor 6. In: the two functions, and their arguments. Out: the result of the first, as one operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray import errors
from gpuarray.control.linear_call import linear_call_p
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.tracebacks import boundary
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction, stage, stage_aux


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

    def flat(*values):
        given = values[: len(residuals)], values[len(residuals) :]
        return tree.flatten(
            fun(tree.unflatten(residual_spec, given[0]), tree.unflatten(operand_spec, given[1]))
        )

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

    # Both directions are traced now, so that a transpose of a transpose is the first graph again.
    lead = [aval_of(x) for x in residuals]
    avals = lead + [aval_of(x) for x in operands]
    callee, out_spec = stage_aux(flat, avals, TracedFunction(fun, "linear_call"))
    transposed = stage(
        flat_transpose, lead + callee.out_avals, TracedFunction(fun_transpose, "linear_call")
    )
    for graph in (callee, transposed):
        # The primitive holds Graphs with concrete constants only.
        if any(isinstance(c, traces.Tracer) for c in graph.consts):
            raise errors.UnexpectedTracerError(
                "a function given to linear_call closes over a traced value: pass it in "
                "residual_args"
            )
    out = linear_call_p.bind(
        *residuals, *operands, callee=callee, transpose=transposed, num_res=len(residuals)
    )
    return tree.unflatten(out_spec, out)
