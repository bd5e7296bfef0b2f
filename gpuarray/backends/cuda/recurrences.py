"""Operations that go from row to row or group to group, as scans.

Permutations, tridiagonal systems, updates of Cholesky factors, ragged products. Floor 4. In: stacks
of vectors and matrices. Out: the same values as from the NumPy rules. Where a step works element by
element, the scan is one kernel with a thread for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda.entries import (
    counted,
    hypot,
    int32,
    numbered,
    only,
    picked,
    repeated,
    where,
)
from gpuarray.backends.cuda.loops import scan
from gpuarray.backends.cuda.products import cast
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import registry
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.contract.ops import free_axes
from gpuarray.primitives.contract.ragged import mode_of, rows_numbers
from gpuarray.primitives.contract.ragged_transforms import prefix_axes
from gpuarray.primitives.define import do
from gpuarray.primitives.linalg import matrices as mat
from gpuarray.primitives.linear import full_like, zeros


def pivots_parts(pivots, *, permutation_size: int):
    """`lu_pivots_to_permutation`: each position follows the swaps back, from the last one."""
    *stack, swaps = aval_of(pivots).shape
    at = zeros(aval_of(pivots).update(shape=(*stack, permutation_size)))
    at = do.add(at, numbered(at, -1))
    if 0 in (swaps, aval_of(at).size):
        return at

    # At step i rows `here` and `there` were swapped.
    def back(at, pivot, i):
        there = repeated(pivot, -1, permutation_size)
        here = do.add(full_like(at, 0), i)
        return [where(do.eq(at, here), there, where(do.eq(at, there), here, at))], []

    rows = move_axis(pivots, len(stack), 0)
    (at,), _ = scan(back, [at], [rows, counted(swaps)], length=swaps, reverse=True)
    return at


# ---- tridiagonal systems ----
def tridiagonal_solve_parts(dl, d, du, b, *, perturb_singular: bool = False):
    """`tridiagonal_solve`: elimination with row swaps, with a thread for each system and column."""
    aval = aval_of(b)
    if aval.size == 0:
        return b
    *stack, n, columns = aval.shape
    axis = len(stack)
    # Rows come first, then everything that runs in parallel: systems and their columns.
    dl, d, du = (move_axis(repeated(x, -1, columns), axis, 0) for x in (dl, d, du))
    b = move_axis(b, axis, 0)
    # The last entry of du is outside the matrix.
    last = do.eq(numbered(du, -aval.ndim), np.int32(n - 1))
    du = where(last, full_like(du, 0), du)

    def pivot(x):
        """Return the number to divide by, and whether the pivot was 0."""
        none = do.eq(x, full_like(x, 0))
        tiny = float(dtypes.finfo(aval.dtype).tiny) if perturb_singular else 1
        return where(none, full_like(x, tiny), x), none

    def down(first, second, y, bad, dl, d, du, b):
        # Exchange the current row (first, second, zero | y) with the next one if that has the
        # larger pivot.
        swap, zero = do.gt(_size(dl), _size(first)), full_like(first, 0)
        # top is finished; low is eliminated and becomes the current row.
        top = [where(swap, *pair) for pair in ((dl, first), (d, second), (du, zero), (b, y))]
        low = [where(swap, *pair) for pair in ((first, dl), (second, d), (zero, du), (y, b))]
        top[0], none = pivot(top[0])
        factor = do.div(low[0], top[0])
        after = [do.sub(x, do.mul(factor, t)) for x, t in zip(low[1:], top[1:], strict=True)]
        return [*after, do.or_(bad, none)], top

    def up(x, behind, a, a1, a2, y):
        # Back substitution with two diagonals above the main one.
        rest = do.sub(do.sub(y, do.mul(a1, x)), do.mul(a2, behind))
        return [do.div(rest, a), x], [do.div(rest, a)]

    # The row that elimination has reached, and whether a pivot has been 0 (ne(0, 0) is false).
    zero = full_like(_row(d, 0), 0)
    state = [_row(d, 0), _row(du, 0), _row(b, 0), do.ne(zero, zero)]
    tops: list[Any] = []
    # Downwards, then upwards over the finished rows.
    if n > 1:
        state, tops = scan(down, state, [_rows(x, 1) for x in (dl, d, du, b)], length=n - 1)
    first, _, y, bad = state
    first, none = pivot(first)
    x = do.div(y, first)
    out = do.reshape(x, new_sizes=(1, *aval_of(x).shape), dimensions=None, sharding=None)
    if n > 1:
        _, (before,) = scan(up, [x, zero], tops, length=n - 1, reverse=True)
        out = do.concatenate(before, out, dimension=0)
    # A singular system gives nan throughout.
    if not perturb_singular:
        bad = repeated(do.or_(bad, none), -aval.ndim, n)
        out = where(bad, full_like(out, np.nan), out)
    return move_axis(out, 0, axis)


def _rows(x: Any, start: int) -> Any:
    """Return the rows from `start` on; rows are the first axis."""
    shape = aval_of(x).shape
    starts = (start, *(0 for _ in shape[1:]))
    return do.slice(x, start_indices=starts, limit_indices=shape, strides=None)


def _row(x: Any, number: int) -> Any:
    shape = aval_of(x).shape
    starts, stops = (number, *(0 for _ in shape[1:])), (number + 1, *shape[1:])
    cut = do.slice(x, start_indices=starts, limit_indices=stops, strides=None)
    return do.squeeze(cut, dimensions=(0,))


def _size(x: Any) -> Any:
    """Return the size of a pivot as LAPACK measures it: |re| + |im|."""
    if mat.is_complex(x):
        return do.add(do.abs(do.real(x)), do.abs(do.imag(x)))
    return do.abs(x)


# ---- updates ----
def cholesky_update_parts(r, w):
    """`cholesky_update`: a Givens rotation for each row moves an element of w into it."""
    *stack, n = aval_of(w).shape
    if aval_of(r).size == 0:
        return r

    def rotate(w, row, k):
        here = do.eq(numbered(w, -1), k)
        # x on the diagonal, y of the vector: rotate y to 0.
        x, y = picked(here, row, -1), picked(here, w, -1)
        length = hypot(do.abs(x), do.abs(y))
        none = do.eq(length, full_like(length, 0))
        by = where(none, full_like(length, 1), length)
        c = where(none, full_like(x, 1), do.div(x, by))
        c, s = repeated(c, -1, n), repeated(only(do.not_(none), do.div(y, by)), -1, n)
        after = do.sub(do.mul(c, w), do.mul(s, row))
        return [after], [do.add(do.mul(c, row), do.mul(s, w))]

    rows = move_axis(r, len(stack), 0)
    _, (rows,) = scan(rotate, [w], [rows, counted(n)], length=n)
    return move_axis(rows, 0, len(stack))


# ---- ragged products ----
def ragged_parts(
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers: Any,
    precision=None,
    preferred_element_type=None,
    **rest,
):
    """`ragged_dot_general`: a product for each group, of which the group's own rows are kept."""
    numbers, mode = ragged_dot_dimension_numbers, mode_of(ragged_dot_dimension_numbers)
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    left, right = aval_of(lhs), aval_of(rhs)
    (out,) = registry["ragged_dot_general"].out_avals(
        [left, right, aval_of(group_sizes)],
        {
            "ragged_dot_dimension_numbers": numbers,
            "preferred_element_type": preferred_element_type,
        },
    )
    # No groups, or no elements: an empty sum is 0.
    groups = aval_of(group_sizes).shape[-1]
    if 0 in (groups, out.size):
        return zeros(out)

    def dot(x, y):
        dims = rows_numbers(numbers) if mode == "rows" else numbers.dot_dimension_numbers
        return do.dot_general(
            x, y, dimension_numbers=dims, precision=precision, out_sharding=None,
            preferred_element_type=preferred_element_type,
        )  # fmt: skip

    # Where groups begin and end, and axes along which that differs.
    ends, lead = _ends(group_sizes, left.shape[ragged]), prefix_axes(numbers, left.ndim)
    own = lead if aval_of(group_sizes).ndim > 1 else ()
    # Each group begins where the one before it ends.
    starts = do.pad(ends, np.int32(0), padding_config=((1, -1, 0), *((0, 0, 0),) * len(own)))

    def inside(start, end, aval, axis_of) -> Any:
        """Return whether each element belongs to a group; `axis_of` maps axes of lhs to its own."""
        at = numbered(zeros(aval), axis_of[ragged] - aval.ndim)
        low, high = (_broadcast(x, [axis_of[d] for d in own], aval.shape) for x in (start, end))
        return do.and_(do.ge(at, low), do.lt(at, high))

    # The axes of a product: batch axes, those of lhs, those of rhs.
    kept = {d: i for i, d in enumerate((*lb, *free_axes(left.ndim, lb, lc)))}
    if mode == "batch":
        last = _row(ends, groups - 1)
        return only(inside(full_like(last, 0), last, out, kept), dot(lhs, rhs))
    # Rows in groups: full products, masked, added up by a scan.
    if mode == "rows":

        def add(lhs, sofar, start, end, matrix):
            return [where(inside(start, end, out, kept), dot(lhs, matrix), sofar)], []

        matrices = move_axis(rhs, numbers.rhs_group_dimensions[0], 0)
        xs = [starts, ends, matrices]
        return scan(add, [zeros(out)], xs, length=groups, consts=[lhs])[0][0]
    # Sums in groups: mask both operands, one product for each group.
    mine = {d: d for d in range(left.ndim)}
    theirs = dict(zip((*lb, *lc), (*rb, *rc), strict=True))

    def one(lhs, rhs, start, end):
        x = only(inside(start, end, left, mine), lhs)
        return [], [dot(x, only(inside(start, end, right, theirs), rhs))]

    return scan(one, [], [starts, ends], length=groups, consts=[lhs, rhs])[1][0]


def _ends(sizes: Any, length: int) -> Any:
    """Return the end of each group, groups first; none ends beyond the last row."""
    if aval_of(sizes).dtype.itemsize >= 4:  # keep their sums within 32 bits
        sizes = do.min(sizes, full_like(sizes, length))
    axis = aval_of(sizes).ndim - 1
    ends = do.cumsum(cast(sizes, int32), axis=axis, reverse=False)
    return move_axis(do.min(ends, full_like(ends, length)), axis, 0)


def _broadcast(x: Any, axes: Sequence[int], shape: tuple[int, ...]) -> Any:
    """Broadcast a value whose axes are the given ones of `shape`, in any order."""
    # broadcast_in_dim wants its axes in ascending order.
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))):
        x = do.transpose(x, permutation=tuple(order))
    return do.broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=tuple(sorted(axes)), sharding=None
    )
