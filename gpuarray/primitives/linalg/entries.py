"""Factorisations and triangular systems of very many small matrices, entry by entry.

Floor 2. In: equations on stacks of matrices. Out: their results as rules `entries` of
core/rewrite.py: an entry of all matrices is one array, so that every step is pointwise and fuses
with its neighbours, with a thread for each matrix. As in LAPACK, rows are swapped so that the
largest entry of a column is divided by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.graph import Eqn
from gpuarray.core.rewrite import Apart, Take
from gpuarray.primitives.adding import Adder

_INT32 = np.dtype(np.int32)

#: The entries of all matrices of a stack, by row and column.
Rows = list[list[Any]]


def _is_small(eqn: Eqn) -> bool:
    """Whether the rules apply to a dtype: LAPACK has no shorter ones; complex ones are rare."""
    aval = eqn.invars[0].aval
    return aval.dtype.kind == "f" and aval.dtype.itemsize >= 4


def _matrix(aval: Any) -> tuple[int, int]:
    return aval.ndim - 2, aval.ndim - 1


def _apart(rows: Rows, axes: tuple[int, int]) -> Apart:
    made = np.empty((len(rows), len(rows[0])), object)
    for i, row in enumerate(rows):
        made[i] = row
    return Apart(axes, made)


def _vector(entries: list[Any], axis: int) -> Apart:
    made = np.empty(len(entries), object)
    made[:] = entries
    return Apart((axis,), made)


def lu(eqn: Eqn, take: Take, do: Adder) -> list[Apart] | None:
    """L and U of square matrices, packed as in LAPACK, the swaps of rows and the order of rows."""
    aval = eqn.invars[0].aval
    if not _is_small(eqn) or aval.shape[-1] != aval.shape[-2]:
        return None
    rows: Rows = [list(row) for row in take(0, _matrix(aval))]
    n, swaps = len(rows), []
    order = [do.number(i, rows[0][0], _INT32) for i in range(n)]
    for k in range(n):
        # The row with the largest entry of the column, the first of equal ones.
        place = do.number(k, rows[k][k], _INT32)
        most = do.abs(rows[k][k])
        for i in range(k + 1, n):
            size = do.abs(rows[i][k])
            larger = do.gt(size, most)
            most = do.where(larger, size, most)
            place = do.where(larger, do.number(i, place), place)
        swaps.append(place)
        for i in range(k + 1, n):
            # Swap rows k and i where row i has the pivot; elsewhere leave both unchanged.
            here = do.eq(place, do.number(i, place))
            above, below = [*rows[k], order[k]], [*rows[i], order[i]]
            *rows[k], order[k] = (do.where(here, *pair) for pair in zip(below, above))
            *rows[i], order[i] = (do.where(here, *pair) for pair in zip(above, below))
        # Do not divide if the whole column is zero.
        pivot = rows[k][k]
        zero = do.eq(pivot, do.number(0, pivot))
        for i in range(k + 1, n):
            factor = do.where(zero, rows[i][k], do.div(rows[i][k], pivot))
            rows[i][k] = factor
            for j in range(k + 1, n):
                rows[i][j] = do.sub(rows[i][j], do.mul(factor, rows[k][j]))
    axis = aval.ndim - 2
    return [_apart(rows, _matrix(aval)), _vector(swaps, axis), _vector(order, axis)]


def cholesky(eqn: Eqn, take: Take, do: Adder) -> list[Apart] | None:
    """The lower factors of symmetric matrices; nan where one is not positive definite."""
    if not _is_small(eqn):
        return None
    axes = _matrix(eqn.invars[0].aval)
    entries = take(0, axes)
    n = len(entries)
    nothing = do.number(np.nan, entries[0, 0])
    low: Rows = [[do.number(0, nothing)] * n for _ in range(n)]
    definite: Any = None
    for j in range(n):
        left = entries[j, j]
        for k in range(j):
            left = do.sub(left, do.mul(low[j][k], low[j][k]))
        positive = do.gt(left, do.number(0, left))
        definite = positive if definite is None else do.and_(definite, positive)
        low[j][j] = do.sqrt(left, accuracy=None)
        for i in range(j + 1, n):
            rest = entries[i, j]
            for k in range(j):
                rest = do.sub(rest, do.mul(low[i][k], low[j][k]))
            low[i][j] = do.div(rest, low[j][j])
    # All of a factor, since LAPACK only reports that there is none.
    return [_apart([[do.where(definite, x, nothing) for x in row] for row in low], axes)]


def triangular_solve(eqn: Eqn, take: Take, do: Adder) -> list[Apart] | None:
    """The solutions of triangular systems, row after row."""
    if not _is_small(eqn):
        return None
    (a, b), p = (x.aval for x in eqn.invars), eqn.params
    # x op(a) = b is op(a)^T x^T = b^T.
    turned = bool(p["transpose_a"]) == p["left_side"]
    factors = take(0, _matrix(a))
    factors = factors.T if turned else factors
    n = len(factors)
    # A few right-hand sides are split into components; of many, the numbers of a row are one array.
    of_unknowns, of_sides = _matrix(b) if p["left_side"] else _matrix(b)[::-1]
    few = b.shape[of_sides] <= n
    axes = _matrix(b) if few else (of_unknowns,)
    right = take(1, axes)
    right = right.T if few and not p["left_side"] else right
    found = np.empty_like(right)
    stack = tuple(range(a.ndim - 2))

    def along(entry: Any, x: Any) -> Any:
        """An entry of each matrix, for all the numbers of a row."""
        if few:
            return entry
        shape = x.aval.shape
        return do.broadcast_in_dim(entry, shape=shape, broadcast_dimensions=stack, sharding=None)

    # Start from the row that has only one entry.
    downwards = p["lower"] != turned
    for i in range(n) if downwards else reversed(range(n)):
        for side in np.ndindex(right.shape[1:]):
            x = right[(i, *side)]
            for j in range(i) if downwards else range(i + 1, n):
                x = do.sub(x, do.mul(along(factors[i, j], x), found[(j, *side)]))
            if not p["unit_diagonal"]:
                x = do.div(x, along(factors[i, i], x))
            found[(i, *side)] = x
    return [Apart(axes, found.T if few and not p["left_side"] else found)]
