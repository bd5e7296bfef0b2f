"""Products of matrices: small ones as loops, others by BLAS.

Floor 3. In: an equation that sums products. Out: the call of `ga_matmul` or of `ga_gemm`
(kernels/native), whose lengths and strides are constants, and how much work it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.compiler.text import types as ct
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.target import PROCESSOR


class ProductCall(NamedTuple):
    """A function that computes a product, its tasks and how many a thread takes at a time, and its
    multiply-adds.
    """

    function: str
    tasks: int
    grain: int
    work: float


def product_call(eqn: Eqn, limit: int) -> ProductCall:
    """The function that computes a product of at most `limit` multiply-adds."""
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    out = eqn.outvars[0].aval
    dtypes = {storage_dtype(a.aval) for a in (*eqn.invars, eqn.outvars[0])}
    if len(dtypes) > 1 or storage_dtype(out).kind not in "fiu" or storage_dtype(out).itemsize < 4:
        raise NoKernel("a product of other numbers than float32, float64 and integers")
    # Any contraction is a batch of products: rows x steps by steps x columns.
    batch, rows, columns, steps = map(math.prod, rules.extents(eqn))
    work = batch * rows * columns * steps
    if not work:
        raise NoKernel("an empty product")
    left, right = (
        tuple(_stride(a.aval.shape, axes) for axes in roles)
        for a, roles in zip(eqn.invars, rules.roles(eqn), strict=True)
    )
    by_library = (
        storage_dtype(out).kind == "f"
        and rows * columns * steps >= _loops_end(rows, columns, steps, left, right)
        and _is_plain(left, rows, steps)
        and _is_plain(right, columns, steps)
    )
    if work > limit and not by_library:
        raise NoKernel("a product that a library computes faster")
    (lb, lm, lk), (rb, rn, rk) = left, right
    strides = (lb, lm, lk, rb, rn, rk)
    # Each piece of a product is a task, which the library computes on the one thread of it.
    if by_library:
        piece = _piece(batch, rows, columns, steps)
        tasks = batch * -(-rows // piece[0]) * -(-columns // piece[1])
        name, block = "ga_gemm", math.prod(piece)
        # Lengths and strides are template arguments: the compiler knows them.
        numbers = (ct.memory_type(out), *piece, rows, columns, steps, *strides)
    else:
        block = min(rows, PROCESSOR.product_rows)
        tasks, name = batch * -(-rows // max(1, block)), "ga_matmul"
        numbers = (ct.memory_type(out), block, rows, columns, steps, *strides)
        block *= columns
    # A thread takes so many tasks that waking it is worth it.
    grain = max(1, PROCESSOR.product_task // max(1, block * steps))
    return ProductCall(f"{name}<{', '.join(map(str, numbers))}>", tasks, grain, float(work))


def _loops_end(rows: int, columns: int, steps: int, left: tuple, right: tuple) -> int:
    """The multiply-adds from which on a library computes a product faster than loops."""
    along = left[2] == 1 and right[2] == 1  # sums of neighbours
    uneven = rows > 1 and columns % 8 != 0
    return PROCESSOR.awkward_product if along or uneven else PROCESSOR.even_product


def _is_plain(strides: tuple[int, ...], length: int, steps: int) -> bool:
    """Whether BLAS takes a matrix: neighbours along one of its axes, and 32-bit numbers."""
    _, along, inner = strides
    # An outer product sums nothing: loops do it.
    if steps < 2:
        return False
    # A vector, which may have any distance between its elements.
    if length == 1:
        return 0 < inner < 1 << 31
    return 1 in (along, inner) and min(along, inner) > 0 and max(along, inner, length) < 1 << 31


def _piece(batch: int, rows: int, columns: int, steps: int) -> tuple[int, int]:
    """Rows and columns of the pieces of each of `batch` products, about as long as wide."""
    work = batch * rows * columns * steps
    few, some = min(work // PROCESSOR.product_piece, 4), min(work // PROCESSOR.large_piece, 8)
    pieces = max(1, few, some, min(work // PROCESSOR.larger_piece, PROCESSOR.many_tasks))
    # Products of a batch are pieces already.
    pieces = -(-pieces // batch)
    across = min(pieces, max(1, round(math.sqrt(pieces * columns / rows))))
    down = -(-pieces // across)
    return _cut(rows, down), _cut(columns, across)


def _cut(length: int, pieces: int) -> int:
    """The length of each of `pieces` pieces, in whole vectors."""
    step = PROCESSOR.product_rows
    return min(length, math.ceil(length / pieces / step) * step)


def _stride(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """The distance of neighbours along several axes as one."""
    # An axis of one element is nowhere, and does not tell how its neighbours lie.
    long = [d for d in axes if shape[d] > 1]
    for d, e in zip(long, long[1:]):
        if math.prod(shape[d + 1 :]) != shape[e] * math.prod(shape[e + 1 :]):
            raise NoKernel("a product along axes that are not one in memory")
    return math.prod(shape[long[-1] + 1 :]) if long else 0
