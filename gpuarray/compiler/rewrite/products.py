"""Rewrite matrix products: absorb transposes around them, and expand small ones.

Floor 3. In: a simplified Graph. Out: one in which the transpose of a product is the product of its
operands in the other order, so that gradients of weights are written transposed and read
contiguously; and products read transposed operands directly, as libraries can. And, for GPUs, one
in which many small products are multiplications and sums, and products with vectors.
"""

from __future__ import annotations

import math
import operator

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise, simplify
from gpuarray.core.dtypes import in_kernels, kind_of
from gpuarray.core.graph import Atom, Eqn, Graph, Var, is_view, storage_dtype
from gpuarray.core.index import view_rule
from gpuarray.core.rewrite import Product
from gpuarray.core.target import TARGET


def exchange_products(graph: Graph) -> Graph:
    """The graph without transposes of products that have no other reader, and without those that
    only products read; or itself.
    """
    # Most graphs have no product: they cost one walk and no index.
    if not any(e.primitive.rewrite.product for e in graph.eqns):
        return graph
    index = GraphIndex(graph)
    gone: set[int] = set()
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if eqn.primitive.rewrite.product is not None:
            eqn, unread = _with_operands_turned(eqn, index)
            gone |= {id(view) for view in unread}
        product = index.maker(eqn.invars[0]) if is_view(eqn) else None
        # The view computes the product itself; the product, which has no other reader, is removed.
        exchanged = None if product is None else _exchanged(product, eqn, index)
        if product is not None and exchanged is not None:
            gone.add(id(product))
            # A later product must not look through the view to the removed product.
            for old in (product, eqn):
                index.remove(old)
            index.add([exchanged])
            eqn = exchanged
        eqns.append(eqn)
    kept = [e for e in eqns if id(e) not in gone]
    if len(kept) == len(graph.eqns) and all(map(operator.is_, kept, graph.eqns)):
        return graph
    return Graph(graph.invars, graph.outvars, kept, graph.constvars, graph.consts, graph.debug_name)


def _with_operands_turned(product: Eqn, index: GraphIndex) -> tuple[Eqn, list[Eqn]]:
    """The product that reads transposed operands directly, and transposes that become unread."""
    rules = product.primitive.rewrite.product
    assert rules is not None
    unread: list[Eqn] = []
    for side in (0, 1):
        view = index.maker(product.invars[side])
        order = view_rule(view).order(view) if view is not None and is_view(view) else None
        if view is None or order is None:
            continue
        # All axes of its operand, each once: a transpose, and not a reshape or broadcast.
        base, axes = view.invars[0], tuple(d for d in order if d is not None)
        if not isinstance(base, Var) or sorted(axes) != list(range(base.aval.ndim)):
            continue
        turned = rules.turned(product, side, axes, base) if len(axes) == len(order) else None
        if turned is None:
            continue
        index.remove(product)
        index.add([turned])
        product = turned
        if not index.uses.get(view.outvars[0]):
            unread.append(view)
            index.remove(view)
    return product, unread


def _exchanged(product: Eqn, view: Eqn, index: GraphIndex) -> Eqn | None:
    """The product that gives a view of another product directly; None if there is none."""
    rules = product.primitive.rewrite.product
    # A second reader needs the original product: then both would be computed.
    if rules is None or index.uses[product.outvars[0]] != 1:
        return None
    # Only a permutation of dimensions can be exchanged: `order` is None for other views.
    order = view_rule(view).order(view)
    return None if order is None else rules.exchanged(product, tuple(order), view.outvars[0])


# ---- products that are too small for a library ----


def expand_small_products(graph: Graph) -> Graph:
    """The graph with products of many small matrices, of vectors with each other, and of columns
    with rows, as multiplications and sums, which fuse with neighbouring steps; or itself.
    """
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        rules = eqn.primitive.rewrite.product
        if rules is not None and _is_small(eqn, rules):
            eqns += rules.expanded(eqn)
        else:
            eqns.append(eqn)
    # Its replacement fuses with neighbours, which a library call cannot.
    if len(eqns) == len(graph.eqns):
        return graph
    made = Graph(graph.invars, graph.outvars, eqns, graph.constvars, graph.consts, graph.debug_name)
    return simplify(made)


def expand_vector_products(graph: Graph) -> Graph:
    """The graph with products of matrices with vectors as multiplications and sums; or itself. Each
    element of the matrix is read once, by a kernel as fast as by a library, so it may as well be
    computed where it is used: for example weights stored in few bits.
    """
    if not any(e.primitive.rewrite.product for e in graph.eqns):
        return graph
    index = GraphIndex(graph)
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        rules = eqn.primitive.rewrite.product
        side = None if rules is None else _side_of_few(eqn, rules)
        for part in [eqn] if rules is None or side is None else rules.split(eqn, side):
            rules = part.primitive.rewrite.product
            expands = rules is not None and _is_of_vector(part, rules, index)
            eqns += rules.expanded(part) if rules is not None and expands else [part]
    return graph if len(eqns) == len(graph.eqns) else simplify(graph.replace(eqns=eqns))


def _side_of_few(eqn: Eqn, rules: Product) -> int | None:
    """The operand of a product in stacks of a few vectors with matrices that a library would have
    to copy first: heads of a cache, say. A kernel reads these once for all of the vectors.
    """
    if not _are_floats(eqn):
        return None
    batch, rows, columns, steps = rules.extents(eqn)
    few = 0 if math.prod(rows) <= math.prod(columns) else 1
    lengths = [n for n in (rows, columns)[few] if n > 1]
    many = min(math.prod(steps), math.prod((rows, columns)[1 - few])) > TARGET.few_vectors
    several = len(lengths) == 1 and lengths[0] <= TARGET.few_vectors
    if not (many and several) or math.prod(batch) == 1:
        return None
    matrix = eqn.invars[1 - few]
    as_it_is = tuple(range(matrix.aval.ndim))
    copied = isinstance(matrix, Var) and rules.turned(eqn, 1 - few, as_it_is, matrix) is None
    return few if copied else None


def _is_of_vector(eqn: Eqn, rules: Product, index: GraphIndex) -> bool:
    """Whether a product reads each element of matrices once, and a library would not do better: as
    it does with short floats down columns, which a kernel reads one at a time.
    """
    if not _are_floats(eqn):
        return False
    batch, rows, columns, steps = map(math.prod, rules.extents(eqn))
    if min(rows, columns) != 1 or not batch * max(rows, columns) * steps:
        return False
    matrix = 0 if columns == 1 else 1
    aval = eqn.invars[matrix].aval
    along = rules.roles(eqn)[matrix].steps[-1:] == (aval.ndim - 1,)
    wide = storage_dtype(aval).itemsize >= 4
    return batch > 1 or along or wide or _is_computed(eqn.invars[matrix], index)


def _are_floats(eqn: Eqn) -> bool:
    """Whether kernels compute with the dtypes of a product."""
    dtypes = [a.aval.dtype for a in (*eqn.invars, eqn.outvars[0])]
    return all(in_kernels(d) and kind_of(d) == "f" for d in dtypes)


def _is_computed(a: Atom, index: GraphIndex) -> bool:
    """Whether a value is computed element by element for its only reader."""
    maker = index.maker(a)
    while maker is not None and is_view(maker) and index.uses[maker.outvars[0]] == 1:
        maker = index.maker(maker.invars[0])
    return maker is not None and is_elementwise(maker) and index.uses[maker.outvars[0]] == 1


def _is_small(eqn: Eqn, rules: Product) -> bool:
    """Whether starting a library takes longer than computing the product in a kernel. Products of
    short floats stay with the library, which sums them before it rounds.
    """
    aval = eqn.outvars[0].aval
    # Mixed and short dtypes keep the accumulation that a library gives them.
    if not all(isinstance(a, Var) for a in eqn.invars):
        return False
    if any(a.aval.dtype != aval.dtype for a in eqn.invars) or storage_dtype(aval).itemsize < 4:
        return False
    batch, rows, columns, steps = map(math.prod, rules.extents(eqn))
    # An empty product is zeros, which the library's rule makes.
    if not batch * rows * columns * steps:
        return False
    # An inner product of vectors is a reduction, an outer product is pointwise: no reuse to gain.
    if rows == columns == 1 or steps == 1:
        return True
    # Otherwise few products for each element, and enough that a kernel has work for all threads.
    return (
        batch * max(rows, columns) >= TARGET.products_many
        and min(rows, columns) <= TARGET.product_side
        and steps <= TARGET.product_steps
    )
