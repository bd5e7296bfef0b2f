"""Matrix products come out the way they are read.

Floor 3. In: a simplified Graph. Out: one in which the transpose of a product is the product of its
operands in the other order. Gradients of weights are made transposed; whoever reads them then reads
memory as it lies.
"""

from __future__ import annotations

from gpuarray.core.graph import Eqn, Graph, Var


def turned(graph: Graph) -> Graph:
    """The graph without transposes of products that nobody else reads, or itself."""
    uses: dict[Var, int] = {}
    for a in (*(a for e in graph.eqns for a in e.invars), *graph.outvars):
        if isinstance(a, Var):
            uses[a] = uses.get(a, 0) + 1
    product_of = {e.outvars[0]: e for e in graph.eqns if e.primitive.name == "dot_general"}
    gone: set[int] = set()
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        a = eqn.invars[0] if eqn.primitive.name == "transpose" else None
        product = product_of.get(a) if isinstance(a, Var) and uses[a] == 1 else None
        if product is not None and _exchanges(product, eqn.params["permutation"]):
            gone.add(id(product))
            eqn = _other_way(product, eqn)
        eqns.append(eqn)
    if not gone:
        return graph
    kept = [e for e in eqns if id(e) not in gone]
    return Graph(graph.invars, graph.outvars, kept, graph.constvars, graph.consts, graph.debug_name)


def _exchanges(product: Eqn, permutation: tuple[int, ...]) -> bool:
    """Whether a permutation exchanges the axes that come from the two operands."""
    (left, right), (batch, _) = product.params["dimension_numbers"]
    rows = product.invars[0].aval.ndim - len(left) - len(batch)
    columns = product.invars[1].aval.ndim - len(right) - len(batch)
    first, end = len(batch), len(batch) + rows + columns
    order = (*range(first), *range(first + rows, end), *range(first, first + rows))
    return rows > 0 and columns > 0 and tuple(permutation) == order


def _other_way(product: Eqn, transpose: Eqn) -> Eqn:
    (left, right), (batch, other) = product.params["dimension_numbers"]
    precision = product.params["precision"]
    if isinstance(precision, tuple) and len(precision) == 2:
        precision = precision[::-1]
    params = {
        **product.params,
        "dimension_numbers": ((right, left), (other, batch)),
        "precision": precision,
    }
    return product.replace(invars=product.invars[::-1], outvars=transpose.outvars, params=params)
