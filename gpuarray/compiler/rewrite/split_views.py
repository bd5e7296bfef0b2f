"""Views of several results as views of one each.

Floor 3. In: a Graph for a device. Out: one in which a split is a slice for each part. Kernels read
through slices, and through what stands before and after them, as if they were not there; the parts
of a split would be copied for a reader that addresses memory, such as attention.
"""

from __future__ import annotations

from gpuarray.core.graph import Eqn, Graph
from gpuarray.core.primitive import Kind
from gpuarray.primitives.movement import build


def split_views(graph: Graph) -> Graph:
    """The graph without views of several results; the same one where there are none."""
    if not any(map(_is_split, graph.eqns)):
        return graph
    eqns = [e for eqn in graph.eqns for e in (_slices(eqn) if _is_split(eqn) else [eqn])]
    return graph.replace(eqns=eqns)


def _is_split(eqn: Eqn) -> bool:
    return eqn.primitive.kind is Kind.VIEW and eqn.primitive.rewrite.piece is not None


def _slices(eqn: Eqn) -> list[Eqn]:
    """A slice for each result, without the axis that is cut where the results lack it."""
    rule, (a,) = eqn.primitive.rewrite.piece, eqn.invars
    assert rule is not None
    made: list[Eqn] = []
    for number, v in enumerate(eqn.outvars):
        keeps = v.aval.ndim == a.aval.ndim
        made.append(build.piece(a, *rule(eqn, number), eqn.site, v if keeps else None))
        if not keeps:
            made.append(build.reshape(made[-1].outvars[0], v.aval.shape, eqn.site, v))
    return made
