"""Factorisations and triangular systems of very many small matrices, entry by entry.

Floor 4. In: stacks of matrices. Out: the same values as from a library, which would be called for
each matrix: here an entry of all matrices is one array, so that every step is pointwise and a few
kernels do it all, with a thread for each matrix. As in LAPACK, rows are swapped so that the largest
entry of a column is divided by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.backends.cuda.entries import int32, where
from gpuarray.backends.cuda.products import cast, shaped
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.primitive import NoKernel
from gpuarray.core.target import TARGET
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import full_like

#: The most rows of a matrix that is taken apart: its entries are in registers of one thread.
_SIDE = 4

#: The entries of all matrices of a stack, by row and column.
Entries = list[list[Any]]


def are_small(aval: ShapedArray) -> bool:
    """Whether a stack has so many matrices, and so small ones, that no library is called."""
    *stack, rows, columns = aval.shape
    small = 0 < max(rows, columns) <= _SIDE and aval.dtype.kind == "f"
    return small and math.prod(stack) >= TARGET.products_many


def check_not_small(aval: ShapedArray) -> None:
    """Raise NoKernel for matrices that kernels take apart."""
    if are_small(aval):
        raise NoKernel(f"kernels do so many matrices of {aval.shape[-2:]}")


def lu(a: Any) -> list[Any]:
    """Return L and U of square matrices, packed as in LAPACK, and the swaps of rows."""
    rows, swaps = _entries(a), []
    n = len(rows)
    for k in range(n):
        # The row with the largest entry of the column, the first of equal ones.
        place = cast(full_like(rows[k][k], k), int32)
        most = do.abs(rows[k][k])
        for i in range(k + 1, n):
            size = do.abs(rows[i][k])
            larger = do.gt(size, most)
            most = where(larger, size, most)
            place = where(larger, full_like(place, i), place)
        swaps.append(place)
        for i in range(k + 1, n):
            # Swap rows k and i where row i has the pivot; elsewhere leave both as they are.
            here = do.eq(place, full_like(place, i))
            pairs = list(zip(rows[k], rows[i], strict=True))
            rows[k] = [where(here, below, above) for above, below in pairs]
            rows[i] = [where(here, above, below) for above, below in pairs]
        # Nothing is divided where the whole column is zero.
        pivot = rows[k][k]
        zero = do.eq(pivot, full_like(pivot, 0))
        for i in range(k + 1, n):
            factor = where(zero, rows[i][k], do.div(rows[i][k], pivot))
            rows[i][k] = factor
            for j in range(k + 1, n):
                rows[i][j] = do.sub(rows[i][j], do.mul(factor, rows[k][j]))
    return [_matrix(rows), _side_by_side(swaps)]


def cholesky(a: Any) -> Any:
    """Return the lower factors of symmetric matrices; nan where one is not positive definite."""
    entries, n = _entries(a), aval_of(a).shape[-1]
    low: Entries = [[full_like(entries[0][0], 0)] * n for _ in range(n)]
    definite: Any = None
    for j in range(n):
        left = entries[j][j]
        for k in range(j):
            left = do.sub(left, do.mul(low[j][k], low[j][k]))
        positive = do.gt(left, full_like(left, 0))
        definite = positive if definite is None else getattr(do, "and")(definite, positive)
        low[j][j] = do.sqrt(left, accuracy=None)
        for i in range(j + 1, n):
            rest = entries[i][j]
            for k in range(j):
                rest = do.sub(rest, do.mul(low[i][k], low[j][k]))
            low[i][j] = do.div(rest, low[j][j])
    # All of a factor, as LAPACK says only that there is none.
    nothing = full_like(entries[0][0], np.nan)
    return _matrix([[where(definite, x, nothing) for x in row] for row in low])


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """Return the solutions of triangular systems, row after row."""
    # x op(a) = b is op(a)^T x^T = b^T.
    turned = bool(transpose_a) == left_side
    factors = _entries(a)
    if turned:
        factors = [list(column) for column in zip(*factors, strict=True)]
    n = len(factors)
    # The axis of the unknowns; along the other one lie right-hand sides.
    axis = aval_of(b).ndim - (2 if left_side else 1)
    right = [_part(b, axis, i) for i in range(n)]
    found: dict[int, Any] = {}
    # From the row that has one entry only.
    downwards = lower != turned
    for i in range(n) if downwards else reversed(range(n)):
        x = right[i]
        for j in range(i) if downwards else range(i + 1, n):
            x = do.sub(x, do.mul(_along(factors[i][j], x), found[j]))
        found[i] = x if unit_diagonal else do.div(x, _along(factors[i][i], x))
    parts = [_with_axis(found[i], axis) for i in range(n)]
    return do.concatenate(*parts, dimension=axis)


# ---- entries ----
def _entries(a: Any) -> Entries:
    rows, columns = aval_of(a).shape[-2:]
    last = aval_of(a).ndim - 1
    taken = [_part(a, last - 1, i) for i in range(rows)]
    return [[_part(row, last - 1, j) for j in range(columns)] for row in taken]


def _part(x: Any, axis: int, i: int) -> Any:
    """The elements at a position of an axis, without that axis."""
    shape = aval_of(x).shape
    starts, stops = [0] * len(shape), list(shape)
    starts[axis], stops[axis] = i, i + 1
    cut = do.slice(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=None)
    return shaped(cut, (*shape[:axis], *shape[axis + 1 :]))


def _with_axis(x: Any, axis: int) -> Any:
    shape = aval_of(x).shape
    return shaped(x, (*shape[:axis], 1, *shape[axis:]))


def _along(entry: Any, x: Any) -> Any:
    """An entry of each matrix, for all the numbers of a row."""
    shape = aval_of(x).shape
    axes = tuple(range(aval_of(entry).ndim))
    return do.broadcast_in_dim(entry, shape=shape, broadcast_dimensions=axes, sharding=None)


def _side_by_side(entries: Sequence[Any]) -> Any:
    axis = aval_of(entries[0]).ndim
    return do.concatenate(*(_with_axis(x, axis) for x in entries), dimension=axis)


def _matrix(entries: Entries) -> Any:
    rows = [_side_by_side(row) for row in entries]
    axis = aval_of(rows[0]).ndim - 1
    return do.concatenate(*(_with_axis(row, axis) for row in rows), dimension=axis)
