"""Fold windows along one axis after another: a window of w x h takes w + h steps, not w h.

Floor 3. In: a Graph. Out: one that computes the same, in which folds over windows that are long
along several axes are several folds (`Rewrite.by_axis`).
"""

from __future__ import annotations

from gpuarray.core.graph import Atom, Eqn, Graph, Var


def fold_windows_by_axis(graph: Graph) -> Graph:
    """The graph with folds along one axis each; the same one if that saves nothing."""
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        rule = eqn.primitive.rewrite.by_axis
        folds = () if rule is None else rule(eqn)
        if not folds:
            eqns.append(eqn)
            continue
        (last,) = eqn.outvars
        value: Atom = eqn.invars[0]
        for number, (params, aval) in enumerate(folds):
            out = last if number == len(folds) - 1 else Var(aval)
            eqns.append(Eqn(eqn.primitive, [value], [out], params, eqn.site))
            value = out
    return graph if len(eqns) == len(graph.eqns) else graph.replace(eqns=eqns)
