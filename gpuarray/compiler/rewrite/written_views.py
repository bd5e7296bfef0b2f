"""Transposed results, and other views of computed values that a program returns.

Floor 3. In: a Graph for kernels. Out: one in which such a result is a copy, an equation of its own.
It fuses with what computes the value, as any other pointwise equation would; so the value is not in
memory before it is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise
from gpuarray.core.graph import Eqn, Graph, Var, is_view
from gpuarray.core.index import Index, contiguous_offset, linear, through
from gpuarray.core.primitive import Kind
from gpuarray.core.target import PROCESSOR
from gpuarray.primitives.movement import build


def copy_views_in_lanes(graph: Graph) -> Graph:
    """As `copy_written_views`, for a CPU: a fold cut into short pieces would not be vectorised."""
    return copy_written_views(graph, PROCESSOR.written_piece)


def copy_written_views(graph: Graph, shortest: int = 1) -> Graph:
    """The graph with copies of returned views of computed values; the same one without any. Rows
    that are folded are written in pieces of at least so many elements.
    """
    index, folded = GraphIndex(graph), _folded(graph)
    written = {
        v for v in graph.outvars if isinstance(v, Var) and _is_written(v, index, folded, shortest)
    }
    if not written:
        return graph
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if written.isdisjoint(eqn.outvars):
            eqns.append(eqn)
            continue
        (v,) = eqn.outvars
        view = Var(v.aval)
        eqns += [eqn.replace(outvars=[view]), build.copy(view, eqn.site, v)]
    return graph.replace(eqns=eqns)


def _folded(graph: Graph) -> set[Var]:
    """The values that rows are folded of, as they are or through pointwise equations. The kernel of
    the fold writes them along the rows; another that computed them again would read these across.
    """
    found: set[Var] = set()
    for eqn in reversed(graph.eqns):
        of_rows = eqn.primitive.kind is Kind.REDUCTION and eqn.outvars[0].aval.size > 1
        on_the_way = is_view(eqn) or is_elementwise(eqn)
        if of_rows or (on_the_way and not found.isdisjoint(eqn.outvars)):
            found.update(a for a in eqn.invars if isinstance(a, Var))
    return found


def _is_written(v: Var, index: GraphIndex, folded: set[Var], shortest: int) -> bool:
    """Whether a value is a view of a computed one, not a piece of its memory, that the kernel which
    computes it may write.
    """
    base, views = index.base(v)
    maker = index.maker(base)
    pieces = all(contiguous_offset(view) is not None for view in views)
    if maker is None or not is_elementwise(maker) or pieces:
        return False
    alone = base not in folded and _is_pointwise(base, index)
    return alone or _keeps_neighbours(views, shortest)


def _is_pointwise(base: Var, index: GraphIndex) -> bool:
    """Whether a value is computed by pointwise equations alone, and of folds of whole arrays. What
    else is folded may be so by the same kernel, row by row.
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
        elif eqn.outvars[0].aval.size > 1 and max(sizes, default=0) >= base.aval.size:
            return False
    return True


def _keeps_neighbours(views: Sequence[Eqn], shortest: int) -> bool:
    """Whether neighbours in the result of views are neighbours in their operand: then a kernel that
    goes along its rows writes along them, in pieces of at least `shortest` elements.
    """
    shape = views[-1].outvars[0].aval.shape
    if not shape or shape[-1] < shortest:
        return False
    at = [Index.axis(d, n) for d, n in enumerate(shape)]
    for view in reversed(views):
        at = list(through(view, at))
    return linear(at, views[0].invars[0].aval.shape).coefficient(len(shape) - 1) == 1
