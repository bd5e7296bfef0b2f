"""Transposed results, and other views of computed values that a program returns.

Floor 3. In: a Graph for kernels. Out: one in which such a result is a copy, an equation of its own.
It fuses with what computes the value, as any other pointwise equation would; so the value is not in
memory before it is transposed.
"""

from __future__ import annotations

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise
from gpuarray.core.graph import Atom, Eqn, Graph, Var, is_view
from gpuarray.core.index import contiguous_offset
from gpuarray.primitives.movement import build


def copy_written_views(graph: Graph) -> Graph:
    """The graph with copies of returned views of computed values; the same one without any."""
    index = GraphIndex(graph)
    written = {v for v in graph.outvars if isinstance(v, Var) and _is_written(v, index)}
    if not written:
        return graph
    eqns: list[Eqn] = []
    shown: dict[Var, Atom] = {}
    for eqn in graph.eqns:
        (v, *_) = eqn.outvars or [None]
        if v in written:
            assert v is not None
            view = shown[v] = Var(v.aval)
            eqns += [eqn.replace(outvars=[view]), build.copy(view, eqn.site, v)]
        else:
            eqns.append(eqn)
    return graph.replace(eqns=eqns)


def _is_written(v: Var, index: GraphIndex) -> bool:
    """Whether a value is a view of one that a pointwise kernel computes, and not a piece of its
    memory.
    """
    base, views = index.base(v)
    pieces = all(contiguous_offset(view) is not None for view in views)
    return not pieces and index.maker(base) is not None and _is_pointwise(base, index)


def _is_pointwise(base: Var, index: GraphIndex) -> bool:
    """Whether a value is computed by pointwise equations alone. Behind a fold of as many elements
    it may be written by the same kernel, row by row, and another order would spread its writes.
    """
    waiting, seen = [base], set()
    while waiting:
        eqn = index.maker(waiting.pop())
        if eqn is None or eqn in seen:
            continue
        seen.add(eqn)
        sizes = [a.aval.size for a in eqn.invars]
        if is_view(eqn) or is_elementwise(eqn):
            waiting += eqn.invars
        elif max(sizes, default=0) >= base.aval.size or eqn.outvars[0] is base:
            return False
    return True
