"""Small products of matrices as loops.

Floor 3. In: an equation that sums products. Out: the call of `ga_product` (kernels/native), whose
lengths and strides are constants, and how much work it is.
"""

from __future__ import annotations

import math

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.target import PROCESSOR


def product_call(eqn: Eqn) -> tuple[str, float]:
    """The function that computes a product, and its multiply-adds."""
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    out = eqn.outvars[0].aval
    dtypes = {storage_dtype(a.aval) for a in (*eqn.invars, eqn.outvars[0])}
    if len(dtypes) > 1 or storage_dtype(out).kind not in "fiu" or storage_dtype(out).itemsize < 4:
        raise NoKernel("a product of other numbers than float32, float64 and integers")
    batch, rows, columns, steps = map(math.prod, rules.extents(eqn))
    work = batch * rows * columns * steps
    if work > PROCESSOR.product:
        raise NoKernel("a product that a library computes faster")
    left, right = (
        [_stride(a.aval.shape, axes) for axes in roles]
        for a, roles in zip(eqn.invars, rules.roles(eqn), strict=True)
    )
    (lb, lm, lk), (rb, rn, rk) = left, right
    numbers = (batch, rows, columns, steps, lb, lm, lk, rb, rn, rk)
    return f"ga_product<{', '.join(map(str, numbers))}>", float(work)


def _stride(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """The distance of neighbours along several axes as one."""
    strides = [math.prod(shape[d + 1 :]) for d in axes]
    for (d, e), (s, t) in zip(zip(axes, axes[1:]), zip(strides, strides[1:])):
        if shape[d] > 1 and s != shape[e] * t:
            raise NoKernel("a product along axes that are not one in memory")
    return strides[-1] if strides else 0
