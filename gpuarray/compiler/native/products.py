"""Products of matrices: small ones as loops, others by BLAS.

Floor 3. In: an equation that sums products. Out: the call of `ga_matmul` or of `ga_gemm`
(kernels/native), whose lengths and strides are constants, and how much work it is. And, before: a
Graph. Out: one in which operands lie as these take them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.target import PROCESSOR

_COMPLEX = ("ga_c64", "ga_c128")


class ProductCall(NamedTuple):
    """A function that computes a product, the type of its numbers, its tasks and how many a thread
    takes at a time, and its multiply-adds.
    """

    function: str
    number: str
    tasks: int
    grain: int
    work: float


def product_call(eqn: Eqn, limit: int) -> ProductCall:
    """The function that computes a product of at most `limit` multiply-adds."""
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    number = _number(eqn)
    # Any contraction is a batch of products: rows x steps by steps x columns.
    whole = tuple(map(math.prod, rules.extents(eqn)))
    work = math.prod(whole)
    if not work:
        raise NoKernel("an empty product")
    batches, left, right = strides_of(eqn)
    rows, columns, steps = left[0], right[0], whole[3]
    by_library = (
        number in ("float", "double", *_COMPLEX)
        and rows * columns * steps >= _loops_end(number, rows, columns, steps, left, right)
        and _is_plain(left, steps)
        and _is_plain(right, steps)
    )
    # NumPy would call the library for each of many small ones.
    if rows * columns * steps > limit and not by_library:
        raise NoKernel("a product that a library computes faster")
    count = math.prod(b.length for b in batches)
    along = [f"ga_along<{', '.join(map(str, b))}>" for b in batches]
    sizes = (rows, columns, steps, *left[1:], *right[1:])
    # Each piece of a product is a task, which the library computes on the one thread of it.
    if by_library:
        piece = cut_in_pieces(count, rows, columns, steps)
        tasks = count * -(-rows // piece[0]) * -(-columns // piece[1])
        name, block = "ga_gemm", math.prod(piece)
        # Lengths and strides are template arguments: the compiler knows them.
        numbers = (number, *piece, *sizes, whole[2], *along)
    else:
        block = min(rows, PROCESSOR.product_rows)
        tasks, name = count * -(-rows // max(1, block)), "ga_matmul"
        numbers = (number, block, *sizes, whole[2], *along)
        block *= columns
    # A thread takes enough tasks to be worth waking.
    grain = max(1, PROCESSOR.product_task // max(1, block * steps))
    call = f"{name}<{', '.join(map(str, numbers))}>"
    return ProductCall(call, number, tasks, grain, float(work))


def _number(eqn: Eqn) -> str:
    """The type in which a product is computed: halves as floats, and narrow integers as floats that
    hold all of their sums, since a library has no products of them.
    """
    out = eqn.outvars[0].aval
    avals = [a.aval for a in eqn.invars]
    kinds = {ct.value_type(a) for a in (*avals, out)}
    types = [storage_dtype(a) for a in (*avals, out)]
    if all(t.kind in "iu" for t in types) and all(t.itemsize < 4 for t in types[:2]):
        assert eqn.primitive.rewrite.product is not None
        steps = math.prod(eqn.primitive.rewrite.product.extents(eqn).steps)
        most = steps << sum(8 * t.itemsize - (t.kind == "i") for t in types[:2])
        if most <= 1 << 53:
            return "float" if most <= 1 << 24 else "double"
    floats = types[2].kind in "fc" or ct.is_half(out)
    if len(kinds) > 1 or not (floats or (types[2].kind in "iu" and types[2].itemsize >= 4)):
        raise NoKernel("a product of other numbers than floats, complex ones and integers")
    return kinds.pop()


class Along(NamedTuple):
    """An axis of consecutive products: its length, and its strides in the left operand, the right
    one and the result.
    """

    length: int
    left: int
    right: int
    out: int


class Matrix(NamedTuple):
    """An operand of one product: its rows (or columns, on the right), their stride, and that of
    their elements.
    """

    length: int
    own: int
    step: int


def strides_of(eqn: Eqn) -> tuple[list[Along], Matrix, Matrix]:
    """The axes along which there are several products, and the operands of one. Free axes that are
    not contiguous as one are such axes too, except for the last run of them.
    """
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    _, rows, columns, _ = map(math.prod, rules.extents(eqn))
    shapes = [a.aval.shape for a in eqn.invars]
    roles = rules.roles(eqn)
    steps = [_runs(shapes[k : k + 1], [roles[k].steps]) for k in (0, 1)]
    if max(map(len, steps)) > 1:
        raise NoKernel("a product along axes that are not one in memory")
    own = [_runs(shapes[k : k + 1], [roles[k].own]) for k in (0, 1)]
    batch = _runs(shapes, [roles[0].batch, roles[1].batch])
    step = [one[0][1] if one else 0 for one in steps]
    last = [one.pop() if one else (1, 0) for one in own]
    # A result is in one piece: the batch, rows, columns. From the inside outwards.
    inside = (last[1][0], last[0][0] * columns, rows * columns)
    axes = ([(n, 0, y) for n, y in own[1]], [(n, x, 0) for n, x in own[0]], batch)
    found: list[Along] = []
    for several, apart in zip(axes, inside, strict=True):
        for n, x, y in reversed(several):
            found.insert(0, Along(n, x, y, apart))
            apart *= n
    left, right = (Matrix(last[k][0], last[k][1], step[k]) for k in (0, 1))
    return found, left, right


def lay_out_products(graph: Graph) -> Graph:
    """The graph in which operands of products that do not lie as matrices are copied first, where
    that is less work than it saves; or itself.
    """
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        made, rules = [eqn], eqn.primitive.rewrite.product
        for side in (0, 1):
            if rules is not None and _is_scattered(made[-1], side):
                made[-1:] = rules.laid(made[-1], side)
        eqns += made
    if len(eqns) == len(graph.eqns):
        return graph
    return Graph(graph.invars, graph.outvars, eqns, graph.constvars, graph.consts, graph.debug_name)


def _is_scattered(eqn: Eqn, side: int) -> bool:
    """Whether what is summed of an operand is not along one line of memory, or its rows lie in
    groups of so few that a library has as many products to compute.
    """
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    shape, role = eqn.invars[side].aval.shape, rules.roles(eqn)[side]
    if not isinstance(eqn.invars[side], Var) or not math.prod(shape):
        return False
    if len(_runs([shape], [role.steps])) > 1:
        return True
    own = _runs([shape], [role.own])
    # Each element of the copy is read once for each row of the other operand.
    _, rows, columns, steps = map(math.prod, rules.extents(eqn))
    few = len(own) > 1 and own[-1][0] < PROCESSOR.product_rows
    return few and min((rows, columns)[1 - side], steps) >= PROCESSOR.product_rows


def _runs(shapes, axes) -> list[tuple[int, ...]]:
    """Merge corresponding axes of several arrays into as few as possible: the length of each, and
    its stride in each array.
    """
    found: list[tuple[int, ...]] = []
    for places in zip(*axes, strict=True):
        length = shapes[0][places[0]]
        strides = [math.prod(s[d + 1 :]) for s, d in zip(shapes, places, strict=True)]
        # An axis of one element has no stride, and cannot separate its neighbours.
        if length == 1:
            continue
        if found and all(a == length * b for a, b in zip(found[-1][1:], strides, strict=True)):
            found[-1] = (found[-1][0] * length, *strides)
        else:
            found.append((length, *strides))
    return found


def _loops_end(
    number: str, rows: int, columns: int, steps: int, left: Matrix, right: Matrix
) -> int:
    """The multiply-adds from which on a library computes a product faster than loops."""
    along = left.step == 1 and right.step == 1  # sums of neighbours
    uneven = (rows > 1 and columns % 8 != 0) or number in _COMPLEX
    return PROCESSOR.awkward_product if along or uneven else PROCESSOR.even_product


def _is_plain(matrix: Matrix, steps: int) -> bool:
    """Whether BLAS takes a matrix: neighbours along one of its axes, and 32-bit numbers."""
    length, along, inner = matrix
    # An outer product sums nothing: use loops.
    if steps < 2:
        return False
    # A vector, which may have any distance between its elements.
    if length == 1:
        return 0 < inner < 1 << 31
    return 1 in (along, inner) and min(along, inner) > 0 and max(along, inner, length) < 1 << 31


def cut_in_pieces(
    batch: int, rows: int, columns: int, steps: int, copied: bool = False
) -> tuple[int, int]:
    """Rows and columns of the pieces of each of `batch` products, about as long as wide; of
    operands that are copied before for all pieces they may be many.
    """
    work = batch * rows * columns * steps
    few, some = min(work // PROCESSOR.product_piece, 4), min(work // PROCESSOR.large_piece, 8)
    larger = PROCESSOR.large_piece if copied else PROCESSOR.larger_piece
    pieces = max(1, few, some, min(work // larger, PROCESSOR.many_tasks))
    # Products of a batch are pieces already.
    pieces = -(-pieces // batch)
    across = min(pieces, max(1, round(math.sqrt(pieces * columns / rows))))
    down = -(-pieces // across)
    return _cut(rows, down), _cut(columns, across)


def _cut(length: int, pieces: int) -> int:
    """The length of each of `pieces` pieces, in whole vectors."""
    step = PROCESSOR.product_rows
    return min(length, math.ceil(length / pieces / step) * step)
