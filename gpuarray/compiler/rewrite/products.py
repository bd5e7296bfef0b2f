"""Matrix products come out the way they are read, and small ones are no matrix products.

Floor 3. In: a simplified Graph. Out: one in which the transpose of a product is the product of its
operands in the other order: gradients of weights are made transposed; whoever reads them then reads
memory as it lies. And, for GPUs, one in which many small products are multiplications and sums.
"""

from __future__ import annotations

import math

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import registry


def turned(graph: Graph) -> Graph:
    """The graph without transposes of products that nobody else reads, or itself."""
    index = GraphIndex(graph)
    gone: set[int] = set()
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        product = index.maker(eqn.invars[0]) if eqn.primitive.name == "transpose" else None
        if product is not None and _exchanges(product, eqn.params["permutation"], index):
            gone.add(id(product))
            eqn = _other_way(product, eqn)
        eqns.append(eqn)
    if not gone:
        return graph
    kept = [e for e in eqns if id(e) not in gone]
    return Graph(graph.invars, graph.outvars, kept, graph.constvars, graph.consts, graph.debug_name)


def _exchanges(product: Eqn, permutation: tuple[int, ...], index: GraphIndex) -> bool:
    """Whether a permutation, which nothing else reads the product than, exchanges the axes that
    come from the two operands.
    """
    if product.primitive.name != "dot_general" or index.uses[product.outvars[0]] != 1:
        return False
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


# ---- products that are too small for a library ----

#: Rows, columns and steps of a product that counts as small, and how many of them count as many.
SMALL, SHORT, MANY = 8, 4, 64


def spread(graph: Graph) -> Graph:
    """The graph with products of many small matrices, of vectors with each other, and of columns
    with rows, as multiplications and sums, which fuse with what is around them; or itself.
    """
    eqns = [new for e in graph.eqns for new in (_spread(e) if _is_small(e) else [e])]
    if len(eqns) == len(graph.eqns):
        return graph
    made = Graph(graph.invars, graph.outvars, eqns, graph.constvars, graph.consts, graph.debug_name)
    return simplify(made)


def _sizes(eqn: Eqn) -> tuple[list[int], list[int], list[int], list[int]]:
    """The lengths of a product's axes: those in both, of the left one, of the right one, summed."""
    (gone, also_gone), (batch, also_batch) = eqn.params["dimension_numbers"]
    left, right = (a.aval.shape for a in eqn.invars)
    rows = [n for d, n in enumerate(left) if d not in (*gone, *batch)]
    columns = [n for d, n in enumerate(right) if d not in (*also_gone, *also_batch)]
    return [left[d] for d in batch], rows, columns, [left[d] for d in gone]


def _is_small(eqn: Eqn) -> bool:
    """Whether a library would take longer to begin than a kernel to end. Short floats stay: their
    products are summed before they are rounded.
    """
    if eqn.primitive.name != "dot_general" or not all(isinstance(a, Var) for a in eqn.invars):
        return False
    aval = eqn.outvars[0].aval
    if any(a.aval.dtype != aval.dtype for a in eqn.invars) or storage_dtype(aval).itemsize < 4:
        return False
    batch, rows, columns, steps = (math.prod(lengths) for lengths in _sizes(eqn))
    if not batch * rows * columns * steps:
        return False
    if rows == columns == 1 or steps == 1:
        return True
    return batch >= MANY and max(rows, columns) <= SMALL and steps <= SHORT


def _spread(eqn: Eqn) -> list[Eqn]:
    batch, rows, columns, steps = _sizes(eqn)
    shape = (*batch, *rows, *columns, *steps)
    end = len(shape) - len(steps)
    (gone, also_gone), (shared, also_shared) = eqn.params["dimension_numbers"]
    made: list[Eqn] = []

    def add(name: str, ins: list, params: dict, out: Var | None = None, size=shape) -> Var:
        out = Var(eqn.outvars[0].aval.update(shape=tuple(size))) if out is None else out
        made.append(Eqn(registry[name], ins, [out], params, eqn.site))
        return out

    def along(a: Var, summed: tuple[int, ...], both: tuple[int, ...], own: int) -> Var:
        """An operand along the axes of the whole; its own ones begin at `own`."""
        rest = iter(range(own, end))
        places = [
            both.index(d) if d in both else end + summed.index(d) if d in summed else next(rest)
            for d in range(a.aval.ndim)
        ]
        order = tuple(sorted(range(len(places)), key=places.__getitem__))
        if order != tuple(range(len(order))):
            turned_shape = [a.aval.shape[d] for d in order]
            a = add("transpose", [a], {"permutation": order}, size=turned_shape)
        params = {"shape": shape, "broadcast_dimensions": tuple(sorted(places)), "sharding": None}
        return add("broadcast_in_dim", [a], params)

    left, right = eqn.invars
    assert isinstance(left, Var) and isinstance(right, Var)
    x = along(left, tuple(gone), tuple(shared), len(batch))
    y = along(right, tuple(also_gone), tuple(also_shared), len(batch) + len(rows))
    (out,) = eqn.outvars
    if not steps:
        add("mul", [x, y], {}, out)
        return made
    axes = tuple(range(end, len(shape)))
    add("reduce_sum", [add("mul", [x, y], {})], {"axes": axes, "out_sharding": None}, out)
    return made
