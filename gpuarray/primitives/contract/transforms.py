"""Transform rules of sums of products: the derivative of a product is two products.

Floor 2. Rules of `dot_general`, which is passed in rather than imported, since it is defined with
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_undefined
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.linear import as_factor, cast_like
from gpuarray.primitives.movement.ops import transpose_p


def _free(ndim: int, *used) -> list[int]:
    """Return the axes that are neither summed nor batch axes."""
    taken = {d for group in used for d in group}
    return [d for d in range(ndim) if d not in taken]


def _laid_out(x: Any, axes: list[int]) -> Any:
    """Transpose `x`, whose axis k is axis `axes[k]` of the result."""
    permutation = tuple(int(i) for i in np.argsort(axes))
    if permutation == tuple(range(len(axes))):
        return x
    return transpose_p.bind(x, permutation=permutation)


def dot_rules(dot: Callable[..., Any]) -> dict[str, Any]:
    """Return the jvp, transpose and batch rules of dot_general, bound through `dot`."""

    # A product is linear in each operand.
    def jvp_left(t, out, x, y, **params):
        return dot(t, y, **params)

    def jvp_right(t, out, x, y, **params):
        return dot(x, t, **params)

    def pulled(ct, x: Any, y: Any, *, dimension_numbers, first: bool, **params):
        """Return the cotangent of `x` (left if `first`): the sum over the free axes of `y`."""
        (lc, rc), (lb, rb) = dimension_numbers
        ndim = x.aval.ndim
        free_y = _free(aval_of(y).ndim, rc, rb)
        free_x = _free(ndim, lc, lb)
        count = len(lb)
        # The result's axes are (batch, free of left, free of right).
        start = count + len(free_x) if first else count
        ct_free_y = range(start, start + len(free_y))
        numbers = ((tuple(ct_free_y), tuple(free_y)), (tuple(range(count)), tuple(rb)))
        # Sum over y's free axes: those that the result has and x does not have.
        grad = dot(ct, y, dimension_numbers=numbers, **params)
        # The product leaves y's contracting axes sorted; x has them in the order they were paired.
        summed = [lc[i] for i in np.argsort(rc)]
        return _laid_out(grad, [*lb, *free_x, *summed])

    def transpose(ct, x, y, *, dimension_numbers, preferred_element_type=None, **params):
        first = is_undefined(x)
        wanted, other = (x, y) if first else (y, x)
        ct = as_factor(ct, wanted.aval, other)
        # Of a cotangent in the operands' dtype, so is the product.
        if aval_of(ct).dtype == aval_of(other).dtype != preferred_element_type:
            preferred_element_type = None
        if not first:  # the right operand is the left one of the mirrored product
            (lc, rc), (lb, rb) = dimension_numbers
            dimension_numbers = ((rc, lc), (rb, lb))
        params |= {"preferred_element_type": preferred_element_type}
        grad = pulled(ct, wanted, other, dimension_numbers=dimension_numbers, first=first, **params)
        grad = cast_like(grad, wanted.aval)
        return (grad, None) if first else (None, grad)

    def batch(axis, args, dims, *, dimension_numbers, **params):
        (x, y), (dx, dy) = args, dims
        (lc, rc), (lb, rb) = dimension_numbers
        if dx is not None and dy is not None:
            # Batched on both sides: one more batch axis, in front.
            x, y = move_axis(x, dx, 0), move_axis(y, dy, 0)
            numbers = (
                (_shifted(lc), _shifted(rc)),
                ((0, *_shifted(lb)), (0, *_shifted(rb))),
            )
            return dot(x, y, dimension_numbers=numbers, **params), 0
        if dx is not None:
            # Batched on one side: one more free axis, which keeps its place among that side's free
            # axes.
            numbers = ((_around(lc, dx), rc), (_around(lb, dx), rb))
            free = _free(aval_of(x).ndim, numbers[0][0], numbers[1][0])
            return dot(x, y, dimension_numbers=numbers, **params), len(lb) + free.index(dx)
        assert dy is not None  # a batch rule is asked only where some operand has the axis
        # Batched on the right: free axes of the right come after those of the left.
        numbers = ((lc, _around(rc, dy)), (lb, _around(rb, dy)))
        free = _free(aval_of(y).ndim, numbers[0][1], numbers[1][1])
        before = len(lb) + len(_free(aval_of(x).ndim, lc, lb))
        return dot(x, y, dimension_numbers=numbers, **params), before + free.index(dy)

    return {"jvp": (jvp_left, jvp_right), "transpose": transpose, "batch": batch}


def _shifted(axes) -> tuple[int, ...]:
    return tuple(d + 1 for d in axes)


def _around(axes, new: int) -> tuple[int, ...]:
    """Renumber axes for a new one at `new`."""
    return tuple(d + (d >= new) for d in axes)
