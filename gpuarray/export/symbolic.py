"""Programs for lengths that are known only when they are called.

Floor 6. In: a Graph whose avals and parameters have Dims in them, the values of the symbols. Out:
the same Graph for these values. Its equations are bound again, so every rule sees the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import Dim, value_of
from gpuarray.core.graph import Graph, Literal, Var
from gpuarray.core.trace import current, state
from gpuarray.transforms.tracing import TracedFunction, stage


def evaluated(graph: Graph, values: Mapping[str, int], args: Sequence[Any]) -> list[Any]:
    """Bind the equations of a Graph, with numbers for its symbols, in the current trace."""
    env: dict[Var, Any] = dict(zip(graph.constvars, graph.consts, strict=True))
    env.update(zip(graph.invars, args, strict=True))
    read = lambda a: a.operand if isinstance(a, Literal) else env[a]
    for eqn in graph.eqns:
        params = {k: _known(v, values) for k, v in eqn.params.items()}
        out = eqn.primitive.bind(*map(read, eqn.invars), **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return [read(a) for a in graph.outvars]


def _known(x: Any, values: Mapping[str, int]) -> Any:
    """A parameter with numbers for symbols, however deep they are."""
    if isinstance(x, Dim):
        return value_of(x, values)
    if isinstance(x, ShapedArray):
        return x.update(shape=_known(x.shape, values)) if _has_symbols(x.shape) else x
    if isinstance(x, Graph):
        info = TracedFunction(evaluated, "export")
        avals = [_known(a, values) for a in x.in_avals]
        # Outside of the trace around: the Graph is a value.
        with current(state.trace):
            return stage(lambda *args: evaluated(x, values, args), avals, info)
    if isinstance(x, tuple):
        parts = [_known(y, values) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if isinstance(x, list):
        return [_known(y, values) for y in x]
    if isinstance(x, dict):
        return {k: _known(v, values) for k, v in x.items()}
    return x


def _has_symbols(shape: tuple) -> bool:
    return any(isinstance(n, Dim) for n in shape)
