"""Reductions by functions of the user become reductions that threads share, as sums are.

Floor 3. In: a Graph for a device. Out: one in which an equation that reduces by a Graph of scalars
(`Rewrite.reduces`) is of the kind of reductions, and initial values are merged with its result. It
becomes a kernel like a sum: along rows, down columns, with prologue and epilogue.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Atom, Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement.build import reshape
from gpuarray.primitives.scalar_graph import on_arrays, scalar_of


def share_reductions(graph: Graph) -> Graph:
    """The graph with such reductions; the same one if there are none."""
    made = [_shared(eqn) for eqn in graph.eqns]
    if not any(made):
        return graph
    # In reverse, so that only those merged values are kept that are read.
    eqns: list[Eqn] = []
    read: set[Atom] = set(graph.outvars)
    for eqn, new in zip(reversed(graph.eqns), reversed(made), strict=True):
        for e in reversed(new or [eqn]):
            if new is None or not read.isdisjoint(e.outvars):
                eqns.append(e)
                read.update(e.invars)
    return graph.replace(eqns=eqns[::-1])


def _shared(eqn: Eqn) -> list[Eqn] | None:
    """The equations that replace one; None if it stays."""
    rule = eqn.primitive.rewrite.reduces
    found = None if rule is None else rule(eqn)
    if found is None:
        return None
    shape, axes, given = found
    # A thread reduces a few elements alone, where they are read.
    if not math.prod(shape) or math.prod(shape[d] for d in axes) <= TARGET.written_out:
        return None
    graph = scalar_of(given)
    if graph is None or not _has_text(graph):
        return None
    # Every thread holds a partial result in registers.
    if sum(max(4, storage_dtype(a).itemsize) for a in graph.out_avals) > 4 * TARGET.scan_state:
        return None
    count = len(eqn.outvars)
    results = [Var(v.aval) for v in eqn.outvars]
    merged = _merged(graph, eqn.invars[count:], results, eqn)
    if merged is None:
        return None
    operands: list[Atom] = [*eqn.invars[:count]]
    views: list[Eqn] = []
    if shape != eqn.invars[0].aval.shape:
        views = [reshape(a, shape, eqn.site) for a in operands]
        operands = [view.outvars[0] for view in views]
    params = {"axes": axes, "jaxpr": graph}
    reduced = Eqn(_shared_by(eqn.primitive), operands, results, params, eqn.site)
    return [*views, reduced, *merged]


def _has_text(graph: Graph) -> bool:
    avals = [*graph.in_avals, *(v.aval for e in graph.eqns for v in e.outvars)]
    return all(dtypes.in_kernels(a.dtype) for a in avals) and all(
        e.primitive.has_text([a.aval for a in e.invars], e.params) for e in graph.eqns
    )


def _merged(graph: Graph, one: Sequence[Atom], two: Sequence[Atom], eqn: Eqn) -> list[Eqn] | None:
    """Apply a Graph of scalars to numbers and arrays, as equations for the results of an equation;
    None if one of these is not computed by an equation of the Graph.
    """
    shape = eqn.outvars[0].aval.shape
    env: dict[Atom, Atom] = dict(zip(graph.invars, [*one, *two], strict=True))
    # The Graph's results become the variables of the equation.
    results = dict(zip(graph.outvars, eqn.outvars, strict=True))
    eqns: list[Eqn] = []
    for e in graph.eqns:
        operands = [env.get(a, a) for a in e.invars]
        own = shape if any(a.aval.shape == shape for a in operands) else ()
        outvars = [results.get(v) or Var(v.aval.update(shape=own)) for v in e.outvars]
        # A result that depends on numbers alone would have to be repeated to its shape.
        if any(v.aval.shape != own for v in outvars):
            return None
        env.update(zip(e.outvars, outvars, strict=True))
        eqns.append(Eqn(e.primitive, operands, outvars, e.params, eqn.site))
    made = {v for e in graph.eqns for v in e.outvars}
    return eqns if len(results) == len(eqn.outvars) and results.keys() <= made else None


def _aval(*avals: ShapedArray, axes: tuple[int, ...], jaxpr: Graph) -> list[ShapedArray]:
    kept = tuple(n for d, n in enumerate(avals[0].shape) if d not in axes)
    return [ShapedArray(kept, a.dtype) for a in avals]


def _numpy_pick(avals, *, axes: tuple[int, ...], jaxpr: Graph):
    merge = on_arrays(jaxpr)

    def reduced(*values):
        xs = [np.moveaxis(x, axes, range(len(axes))) for x in values]
        xs = [x.reshape(-1, *x.shape[len(axes) :]) for x in xs]
        # Neighbours in pairs, round by round; an odd element waits for the next one.
        while len(xs[0]) > 1:
            n = len(xs[0]) // 2 * 2
            pairs = merge(*(x[:n:2] for x in xs), *(x[1:n:2] for x in xs))
            xs = [np.concatenate([pair, x[n:]]) for pair, x in zip(pairs, xs, strict=True)]
        return [x[0] for x in xs]

    return reduced


# One primitive for each, so that equal programs give equal equations. Not registered: no program
# contains it, only the plan of a device.
@functools.lru_cache(64)
def _shared_by(reduction: Primitive) -> Primitive:
    """A reduction by a function of scalars, without initial values."""
    return Primitive(
        reduction.name,
        Kind.REDUCTION,
        multiple_results=True,
        register=False,
        aval=_aval,
        numpy_pick=_numpy_pick,
        weight=reduction.weight,
    )
