"""`closure_convert`: a function that closes over values, as one that takes them as arguments.

Floor 6. In: a function and arguments like those it will be called with. Out: the function of these
and of the values it closed over, and those values.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import is_inexact
from gpuarray.core.tracebacks import boundary
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction, stage_aux


@boundary
def closure_convert(fun: Callable, *example_args) -> tuple[Callable, list]:
    """Convert `fun` to take the traced values it closes over as arguments; return it and the
    values.

    Parameters
    ----------
    example_args :
        Arguments of the shapes and dtypes that it will be called with.

    Examples
    --------

    >>> import gpuarray as ga
    >>> def g(w):
    ...     h, values = ga.closure_convert(lambda x: x * w, 1.0)
    ...     return h(2.0, *values)
    >>> ga.grad(g)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    # Trace with the examples' types: constants of the graph are the values closed over.
    leaves, in_spec = tree.flatten(example_args)
    flat = lambda *values: tree.flatten(fun(*tree.unflatten(in_spec, values)))
    avals = [aval_of(x) for x in leaves]
    graph, out_spec = stage_aux(flat, avals, TracedFunction(fun, "closure_convert"))
    pairs = list(zip(graph.constvars, graph.consts, strict=True))
    moved = [
        isinstance(c, traces.Tracer) and is_inexact(v.aval) for v, c in pairs
    ]  # only these can have derivatives
    lead = [v for (v, _), m in zip(pairs, moved, strict=True) if m]
    kept = [p for p, m in zip(pairs, moved, strict=True) if not m]
    # Traced constants that can have derivatives become inputs, the others stay constants.
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
                "structure as the example arguments passed when closure_convert was called: "
                f"expected {in_spec}, but got {spec}"
            )
        return tree.unflatten(out_spec, evaluate(converted, *given, *values))

    return converted_fun, hoisted
