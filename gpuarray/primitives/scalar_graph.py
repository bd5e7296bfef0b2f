"""A Graph of scalars applied to whole arrays: how NumPy rules run a user's combining function.

Floor 2. In: a Graph whose inputs and outputs are scalars, such as the body of a reduction or a
scatter. Out: a function of arrays of one shape. A graph of pointwise equations works on all
elements together; with any other equation the function goes element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, Graph, Literal, Var, called, storage_dtype
from gpuarray.core.primitive import Kind
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.batching import BatchAxis, batch_of
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import broadcast_like


def on_arrays(graph: Graph) -> Callable[..., list[np.ndarray]]:
    """Return the function `arrays -> arrays` that applies a scalar graph at every index."""
    if _pointwise(graph, _run_by):
        # Rules are selected by dtype and rank only: any shape of rank 1 represents all arrays.
        program = _program(graph, (2,))

        def whole(*arrays):
            # An output that depends on no input (a constant) is still a scalar.
            shape, out = np.shape(arrays[0]), program(*arrays)
            return [y if np.shape(y) == shape else np.broadcast_to(y, shape) for y in out]

        return whole
    scalar = _program(graph, ())
    # Element by element: one pass over the equations for each index.
    dtypes = [storage_dtype(a) for a in graph.out_avals]

    def each(*arrays):
        shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
        arrays = [np.broadcast_to(a, shape) for a in arrays]
        out = [np.empty(shape, d) for d in dtypes]
        for index in np.ndindex(shape):
            for result, value in zip(out, scalar(*(a[index] for a in arrays))):
                result[index] = value
        return out

    return each


def _run_by(eqn: Eqn) -> Graph | None:
    """The Graph that a call runs, also that of a function with custom rules, which are not needed
    here.
    """
    inline = eqn.primitive.inline
    return inline(eqn) if eqn.primitive.kind is Kind.CALL and inline is not None else called(eqn)


def _pointwise(graph: Graph, inside: Callable[[Eqn], Graph | None] = called) -> bool:
    # One equation that is not pointwise makes the whole graph run element by element.
    for eqn in graph.eqns:
        inner = inside(eqn)
        if not (_pointwise(inner, inside) if inner else eqn.primitive.kind is Kind.POINTWISE):
            return False
    return True


def _program(graph: Graph, shape: tuple[int, ...]) -> Callable[..., list]:
    """Return the graph as a chain of NumPy functions, for values of shape `shape`; for shape () the
    values are not broadcast.
    """

    def stretched(aval: ShapedArray) -> ShapedArray:
        return aval.update(shape=shape) if shape else aval

    # The inputs become arrays; constants are unchanged and broadcast.
    env_avals = {v: stretched(v.aval) for v in graph.invars}
    env_avals.update((v, v.aval) for v in graph.constvars)
    # (function, inputs, output variables, whether it returns several) of each equation.
    steps = []
    for eqn in graph.eqns:
        inner = _run_by(eqn)
        avals = [a.aval if isinstance(a, Literal) else env_avals[a] for a in eqn.invars]
        # A jitted function in the body: its own chain, called as one step.
        if inner is not None:
            function = _program(inner, shape)
        else:
            function = eqn.primitive.numpy_function(avals, eqn.params)
        # Of literals and constants alone, a number.
        long = inner is not None or any(a.shape for a in avals)
        env_avals.update((v, stretched(v.aval) if long else v.aval) for v in eqn.outvars)
        several = eqn.primitive.multiple_results
        steps.append((function, [_atom(a) for a in eqn.invars], eqn.outvars, several))
    results = [_atom(a) for a in graph.outvars]

    def run(*arrays):
        env = dict(zip(graph.invars, arrays))
        env.update((v, np.asarray(c)) for v, c in zip(graph.constvars, graph.consts))
        for function, ins, outs, several in steps:
            value = function(*(env[a] if var else a for var, a in ins))
            env.update(zip(outs, value if several else [value]))
        return [env[a] if var else a for var, a in results]

    return run


def bind_on_arrays(graph: Graph, *arrays) -> list[Any]:
    """Bind the graph's equations on arrays of one shape, in the current trace.

    This is how derivative and batch rules run a combining function.
    """
    if not _pointwise(graph):
        return _bind_mapped(graph, *arrays)
    env: dict[Any, Any] = dict(zip(graph.constvars, graph.consts))
    env.update(zip(graph.invars, arrays))

    def read(a):
        return a.val if isinstance(a, Literal) else env[a]

    for eqn in graph.eqns:
        values = [read(a) for a in eqn.invars]
        # Operations of one or two operands broadcast scalars themselves; a choice between more does
        # not.
        if len(values) > 2:
            values = [broadcast_like(x, aval_of(arrays[0])) for x in values]
        inner = called(eqn)
        if inner is not None:
            out = bind_on_arrays(inner, *values)
        else:
            out = eqn.primitive.bind(*values, **eqn.params)
            out = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, out))
    # An output that depends on no input (a constant) is still a scalar.
    return [broadcast_like(read(a), aval_of(arrays[0])) for a in graph.outvars]


def _bind_mapped(graph: Graph, *arrays) -> list[Any]:
    """The same for any graph: its equations are mapped over the elements, as one axis."""
    shape = aval_of(arrays[0]).shape
    axis = BatchAxis(math.prod(shape))

    def seen(x, shape):
        return do.reshape(x, new_sizes=shape, dimensions=None, sharding=None)

    # Values with the position of that axis; None if they are the same for all elements.
    env: dict[Any, tuple[Any, int | None]] = {
        v: (c, None) for v, c in zip(graph.constvars, graph.consts, strict=True)
    }
    for v, x in zip(graph.invars, arrays, strict=True):
        env[v] = seen(broadcast_like(x, aval_of(arrays[0])), (axis.size,)), 0

    def read(a) -> tuple[Any, int | None]:
        return (a.operand, None) if isinstance(a, Literal) else env[a]

    for eqn in graph.eqns:
        pairs = [read(a) for a in eqn.invars]
        values, dims = [v for v, _ in pairs], [d for _, d in pairs]
        out: Any
        found: Any
        if all(d is None for d in dims):
            out = eqn.primitive.bind(*values, **eqn.params)
            found = [None] * len(eqn.outvars) if eqn.primitive.multiple_results else None
        else:
            out, found = batch_of(eqn.primitive, axis, values, dims, eqn.params)
        if not eqn.primitive.multiple_results:
            out, found = [out], [found]
        env.update(zip(eqn.outvars, zip(out, found), strict=True))
    results = (with_axis(*read(a), 0, axis.size) for a in graph.outvars)
    return [seen(x, shape) for x in results]


def scalar_of(graph: Graph) -> Graph | None:
    """Return the Graph of scalars that a graph on arrays of one shape applies at every index.

    None if there is none: an operation that is not pointwise, a position that matters, a captured
    value that is not a number.
    """
    shapes = {v.aval.shape for v in graph.invars}
    if len(shapes) != 1 or any(np.ndim(c) or not isinstance(c, np.generic) for c in graph.consts):
        return None
    env: dict[Any, Any] = {
        v: Literal(c, v.aval) for v, c in zip(graph.constvars, graph.consts, strict=True)
    }
    invars = [Var(v.aval.update(shape=())) for v in graph.invars]
    env.update(zip(graph.invars, invars, strict=True))
    eqns: list[Eqn] = []
    if not _scalar_eqns(graph, shapes.pop(), env, eqns):
        return None
    results = [env[a] if isinstance(a, Var) else a for a in graph.outvars]
    if any(a.aval.shape for a in results):
        return None
    return Graph(invars, results, eqns, debug_name=graph.debug_name)


def _scalar_eqns(graph: Graph, shape: tuple[int, ...], env: dict, eqns: list[Eqn]) -> bool:
    """Add the equations of a graph for scalars; `env` maps its variables to scalars."""
    for eqn in graph.eqns:
        operands = [env[a] if isinstance(a, Var) else a for a in eqn.invars]
        prim, given = eqn.primitive, [a.aval.shape for a in eqn.invars]
        inner = called(eqn)
        if inner is not None:
            # The equations of a jitted function, between those of its caller.
            inside = dict(zip(inner.invars, operands, strict=True))
            if inner.consts or not _scalar_eqns(inner, shape, inside, eqns):
                return False
            results = [inside[a] if isinstance(a, Var) else a for a in inner.outvars]
            env.update(zip(eqn.outvars, results, strict=True))
        elif prim.kind is Kind.POINTWISE and not prim.effect and set(given) <= {shape, ()}:
            outvars = [Var(v.aval.update(shape=())) for v in eqn.outvars]
            env.update(zip(eqn.outvars, outvars, strict=True))
            eqns.append(Eqn(prim, operands, outvars, eqn.params, eqn.site))
        elif prim.kind is Kind.VIEW and given == [()] and eqn.outvars[0].aval.shape == shape:
            # A number stretched to all places is that number at each of them.
            env[eqn.outvars[0]] = operands[0]
        else:
            return False
    return True


def check_fold(
    op: str, operands: Sequence[ShapedArray], initial: Sequence[ShapedArray], jaxpr: Graph
) -> None:
    """Check that initial values are scalars and that the function keeps the operands' dtypes."""
    if any(a.ndim for a in initial):
        shapes = [a.shape for a in initial]
        raise TypeError(
            f"{op} expected init_values to be scalars but init_values have shapes {shapes}."
        )
    if [a.dtype for a in operands] != [a.dtype for a in initial]:
        raise TypeError(
            f"{op} operand dtypes should match corresponding initial value dtypes, got "
            f"operands={list(operands)} and initial_values={list(initial)}"
        )
    # One scalar for each operand: the results become the partial results of the next step.
    given = [(a.shape, a.dtype) for a in jaxpr.out_avals]
    if given != [((), a.dtype) for a in operands]:
        raise ValueError(
            f"the function given to {op} must return one scalar for each operand, of the operand's "
            f"dtype: expected {[f'{a.dtype.name}[]' for a in operands]}, got "
            f"{[a.str_short() for a in jaxpr.out_avals]}."
        )


def _atom(a) -> tuple[bool, Any]:
    """Return (True, variable), or (False, value) of a literal."""
    if isinstance(a, Literal):
        return False, np.asarray(a.val).astype(storage_dtype(a.aval))[()]
    return True, a
