"""Transform rules of ragged products, whose transposes are ragged products of another mode.

Floor 2. In: the operands of a rule. Out: values made of ragged products. With rows in groups (each
row times the matrix of its group), the cotangent of the rows is such a product again; that of the
matrices sums over the rows of each group. With sums in groups it is the reverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.linear import is_undefined
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.contract.ops import free_axes
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import as_factor, cast_like


# The product is linear in each operand.
def ragged_left(t, out, lhs, rhs, group_sizes, **params):
    return do.ragged_dot_general(t, rhs, group_sizes, **params)


def ragged_right(t, out, lhs, rhs, group_sizes, **params):
    return do.ragged_dot_general(lhs, t, group_sizes, **params)


def _ordered(x: Any, axes) -> Any:
    """Transpose to the given order of axes."""
    axes = tuple(int(d) for d in axes)
    return x if axes == tuple(range(len(axes))) else do.transpose(x, permutation=axes)


def _restored(x: Any, axes) -> Any:
    """Undo `_ordered`: axis k of `x` becomes axis axes[k]."""
    return _ordered(x, np.argsort(axes))


def _span(start: int, count: int) -> tuple[int, ...]:
    return tuple(range(start, start + count))


def ragged_transpose(
    ct,
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers: Any,
    preferred_element_type=None,
    **params,
):
    """Transpose operands to (batch, summed, free) and take the product of the matching mode.

    In that order the axes are where products want them; the ragged one keeps its place among those
    before it.
    """
    numbers = ragged_dot_dimension_numbers
    make = type(numbers)
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    (ragged,), group = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    left = lhs.aval if is_undefined(lhs) else aval_of(lhs)
    right = rhs.aval if is_undefined(rhs) else aval_of(rhs)
    wanted, other = (left, rhs) if is_undefined(lhs) else (right, lhs)
    ct = as_factor(ct, wanted, other)
    # Of a cotangent in the operands' dtype, so is the product.
    if aval_of(ct).dtype == aval_of(other).dtype:
        preferred_element_type = None
    # lf, rf: free axes; nb, nc, nl, nr: how many batch, contracting and free axes there are.
    lf, rf = free_axes(left.ndim, lb, lc), free_axes(right.ndim, (*rb, *group), rc)
    nb, nc, nl, nr = len(lb), len(lc), len(lf), len(rf)
    batch = _span(0, nb)

    def dot(x, y, summed, ragged, group=()):
        # Batch axes first in both; behind the group axis in y, if it has one.
        dims = make((summed, (batch, batch_of_y(group))), (ragged,), group)
        product = do.ragged_dot_general(
            x,
            y,
            group_sizes,
            ragged_dot_dimension_numbers=dims,
            preferred_element_type=preferred_element_type,
            **params,
        )
        return cast_like(product, wanted)

    def batch_of_y(group):
        return _span(len(group), nb)  # groups come first

    # Of the three modes (rows, sums or batches in groups) each has the gradient of an operand as a
    # product of one of the modes; comments say which axes it and ct have, in order.
    lhs_axes, rhs_axes = (*lb, *lc, *lf), (*group, *rb, *rc, *rf)
    if group:  # rows in groups: ct is (batch, lhs free, rhs free)
        row = nb + lf.index(ragged)
        if is_undefined(lhs):
            y = _ordered(rhs, rhs_axes)
            summed = (_span(nb + nl, nr), _span(1 + nb + nc, nr))
            grad = dot(ct, y, summed, row, (0,))  # (batch, lhs free, summed)
            return _restored(grad, (*lb, *lf, *lc)), None, None
        x = _ordered(lhs, (*lb, *lf, *lc))
        grad = dot(x, ct, (_span(nb, nl), _span(nb, nl)), row)  # (group, batch, summed, rhs free)
        return None, _restored(grad, rhs_axes), None
    if ragged in lc:  # sums in groups: ct is (group, batch, lhs free, rhs free)
        row = nb + lc.index(ragged)
        if is_undefined(lhs):
            y = _ordered(rhs, (*rb, *rc, *rf))
            summed = (_span(nb + nc, nr), _span(1 + nb + nl, nr))
            grad = dot(y, ct, summed, row, (0,))  # (batch, summed, lhs free)
            return _restored(grad, lhs_axes), None, None
        x = _ordered(lhs, lhs_axes)
        summed = (_span(nb + nc, nl), _span(1 + nb, nl))
        grad = dot(x, ct, summed, row, (0,))  # (batch, summed, rhs free)
        return None, _restored(grad, (*rb, *rc, *rf)), None
    row = lb.index(ragged)  # batches in groups: ct is (batch, lhs free, rhs free)
    if is_undefined(lhs):
        y = _ordered(rhs, (*rb, *rc, *rf))
        grad = dot(ct, y, (_span(nb + nl, nr), _span(nb + nc, nr)), row)
        return _restored(grad, (*lb, *lf, *lc)), None, None
    x = _ordered(lhs, lhs_axes)
    grad = dot(x, ct, (_span(nb + nc, nl), _span(nb, nl)), row)
    return None, _restored(grad, (*rb, *rc, *rf)), None


def ragged_batch(axis, args, dims, *, ragged_dot_dimension_numbers: Any, **params):
    """Make the batch axis the first batch axis of the product."""
    numbers = ragged_dot_dimension_numbers
    (lhs, rhs, sizes), (d, e, s) = args, dims
    lhs, rhs = with_axis(lhs, d, 0, axis.size), with_axis(rhs, e, 0, axis.size)
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers

    def shifted(axes):
        return tuple(a + 1 for a in axes)

    dot = ((shifted(lc), shifted(rc)), ((0, *shifted(lb)), (0, *shifted(rb))))
    numbers = type(numbers)(
        dot, shifted(numbers.lhs_ragged_dimensions), shifted(numbers.rhs_group_dimensions)
    )
    if s is not None or aval_of(sizes).ndim > 1:
        # Each batch element has its own sizes, which are then given for all axes in front, too.
        sizes = with_axis(sizes, s, 0, axis.size)
        shape = aval_of(sizes).shape
        lead = tuple(aval_of(lhs).shape[a] for a in prefix_axes(numbers, aval_of(lhs).ndim))
        if len(shape) == 2 and len(lead) > 1:
            full = (*lead, shape[-1])
            sizes = do.broadcast_in_dim(
                sizes, shape=full, broadcast_dimensions=(0, len(lead)), sharding=None
            )
    out = do.ragged_dot_general(lhs, rhs, sizes, ragged_dot_dimension_numbers=numbers, **params)
    (ragged,) = numbers.lhs_ragged_dimensions
    # Sums in groups put the group axis in front of the batch axis.
    return out, int(ragged in numbers.dot_dimension_numbers[0][0])


def prefix_axes(numbers: Any, ndim: int) -> tuple[int, ...]:
    """Return the lhs axes that may have separate group sizes: those before the ragged one."""
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in lb:
        return tuple(lb[: lb.index(ragged)])
    if ragged in lc:
        return (*lb, *lc[: lc.index(ragged)])
    return (*lb, *(d for d in free_axes(ndim, lb, lc) if d < ragged))
