"""Make only the parts of values that are read: a slice of padded values is padded less.

Floor 3. In: a Graph. Out: an equivalent one without views that cut a part out of a value with no
other readers, if its operation can compute that part alone (`Rewrite.cropped`).
"""

from __future__ import annotations

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.core.graph import Eqn, Graph, Var, is_view
from gpuarray.core.index import Index, through


def crop(graph: Graph) -> Graph:
    """The graph without unread parts; the same one if there are none."""
    index = GraphIndex(graph)
    made: dict[Eqn, Eqn] = {}  # the view -> its replacement
    for eqn in graph.eqns:
        whole = eqn.invars[0] if is_view(eqn) else None
        # Another reader needs more than the part.
        if not isinstance(whole, Var) or index.uses[whole] > 1:
            continue
        maker, first = index.maker(whole), _first(eqn)
        if maker is not None and maker.primitive.rewrite.cropped is not None and first is not None:
            part = maker.primitive.rewrite.cropped(maker, first, eqn.outvars[0].aval.shape)
            if part is not None:
                made[eqn] = part.replace(outvars=eqn.outvars)
                index.add([made[eqn]])
    if not made:
        return graph
    # The whole that only the slice read is not made any more.
    gone = {e.invars[0] for e in made}
    eqns = [made.get(e, e) for e in graph.eqns if gone.isdisjoint(e.outvars)]
    return graph.replace(eqns=eqns)


def _first(view: Eqn) -> tuple[int, ...] | None:
    """The first elements of the part that a view cuts out of its operand; None if it does more."""
    shape, of = view.outvars[0].aval.shape, view.invars[0].aval.shape
    if len(shape) != len(of) or 0 in shape:
        return None
    at = [Index.axis(i, n) for i, n in enumerate(shape)]
    places = through(view, at)
    # A crop only changes the start: another step, order or a broadcast is more than that.
    if any(place.terms != here.terms for place, here in zip(places, at, strict=True)):
        return None
    return tuple(place.constant for place in places)
