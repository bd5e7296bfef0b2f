"""Contributions to a derivative that are updates of zeros: updates of the other contribution.

Floor 3. In: a Graph. Out: one in which x + f(0, ...) is f(x, ...), where f adds to its operand
(`Rewrite.adds_to`): an array less to fill, and one less to add.
"""

from __future__ import annotations

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, is_view, storage_dtype
from gpuarray.core.rewrite import algebra_of


def add_where_it_is(graph: Graph) -> Graph:
    """The graph with fewer arrays of zeros; the same one if there are none to save."""
    index = GraphIndex(graph)
    changed: dict[Eqn, Eqn] = {}
    left = set(graph.eqns)
    for eqn in graph.eqns:
        if algebra_of(eqn) != "contributions" or storage_dtype(eqn.outvars[0].aval).itemsize < 4:
            continue
        for one, other in (eqn.invars, eqn.invars[::-1]):
            update, number = _added_to_zeros(index, other)
            # Scalars represent arrays here, but not in updates.
            whole = one is not other and one.aval.shape == other.aval.shape
            if update is None or update not in left or not whole:
                continue
            invars = list(update.invars)
            invars[number] = one
            made = changed[eqn] = update.replace(invars=invars, outvars=eqn.outvars)
            left.remove(update)
            index.add([made])
            break
    if not changed:
        return graph
    return graph.replace(eqns=[changed.get(e, e) for e in graph.eqns if e in left])


def _added_to_zeros(index: GraphIndex, a: Atom) -> tuple[Eqn | None, int]:
    """The equation that makes a value of zeros by adding to them, for one reader, and which of its
    operands these are.
    """
    eqn = index.maker(a)
    number = None if eqn is None else eqn.primitive.rewrite.adds_to
    if eqn is None or number is None or not isinstance(a, Var):
        return None, 0
    zeros = index.maker(eqn.invars[number])
    if index.uses[a] > 1 or zeros is None or not is_view(zeros):
        return None, 0
    literal = zeros.invars[0]
    found = isinstance(literal, Literal) and literal.val == 0
    return (eqn if found else None), number
