"""Small products of matrices as loops.

Floor 3. In: an equation that sums products. Out: the call of `ga_matmul` (kernels/native), whose
lengths and strides are constants, and how much work it is.
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
    """The function that computes a product of at most so many multiply-adds."""
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    out = eqn.outvars[0].aval
    dtypes = {storage_dtype(a.aval) for a in (*eqn.invars, eqn.outvars[0])}
    if len(dtypes) > 1 or storage_dtype(out).kind not in "fiu" or storage_dtype(out).itemsize < 4:
        raise NoKernel("a product of other numbers than float32, float64 and integers")
    batch, rows, columns, steps = map(math.prod, rules.extents(eqn))
    work = batch * rows * columns * steps
    if not work:
        raise NoKernel("an empty product")
    if work > limit:
        raise NoKernel("a product that a library computes faster")
    left, right = (
        [_stride(a.aval.shape, axes) for axes in roles]
        for a, roles in zip(eqn.invars, rules.roles(eqn), strict=True)
    )
    (lb, lm, lk), (rb, rn, rk) = left, right
    block = min(rows, PROCESSOR.product_rows)
    numbers = (ct.memory_type(out), block, rows, columns, steps, lb, lm, lk, rb, rn, rk)
    grain = max(1, PROCESSOR.product_task // max(1, block * columns * steps))
    name = f"ga_matmul<{', '.join(map(str, numbers))}>"
    return ProductCall(name, batch * -(-rows // max(1, block)), grain, float(work))


def _stride(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """The distance of neighbours along several axes as one."""
    # An axis of one element is nowhere, and does not tell how its neighbours lie.
    long = [d for d in axes if shape[d] > 1]
    for d, e in zip(long, long[1:]):
        if math.prod(shape[d + 1 :]) != shape[e] * math.prod(shape[e + 1 :]):
            raise NoKernel("a product along axes that are not one in memory")
    return math.prod(shape[long[-1] + 1 :]) if long else 0
