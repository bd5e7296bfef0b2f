"""Factorisations by Householder reflectors on a GPU, where no library of CuPy's has them.

Floor 4. In: stacks of matrices. Out: the same values as LAPACK's, in terms of matrix products,
triangular solutions and a scan over columns. A reflector is H = I - tau v v^H with v zero above its
first entry, which is 1; the rest of v is kept where it made a matrix zero, below the diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.backends.cuda.entries import (
    along_columns,
    along_rows,
    counted,
    hypot,
    int32,
    lengths,
    numbered,
    only,
    picked,
    spread,
    where,
)
from gpuarray.backends.cuda.loops import scan
from gpuarray.core.avals import aval_of
from gpuarray.primitives.define import do
from gpuarray.primitives.linalg import matrices as mat
from gpuarray.primitives.linear import full_like, zeros

# ---- products of reflectors ----
# H_1 H_2 ... H_k = I - V T V^H, with T = (I + D S)^-1 D where D holds the taus and S = V^H V above
# the diagonal: T is never made, it is a triangle to solve with.


class _Product:
    """H_1 H_2 ... H_k as a matrix to multiply with, on either side."""

    def __init__(self, a: Any, taus: Any):
        count = aval_of(taus).shape[-1]
        self.v = mat.with_ones(mat.lower(mat.part(a, columns=(0, count))))
        self.taus = taus
        self.triangle = do.mul(along_rows(taus, count), mat.product(mat.adjoint(self.v), self.v))

    def solved(self, x: Any, left: bool, turned: bool) -> Any:
        return mat.triangular(
            self.triangle, x, left=left, lower=False, transpose=turned, conjugate=turned, unit=True
        )

    def times(self, c: Any, left: bool, turned: bool) -> Any:
        """Q c or c Q, or with the adjoint of Q."""
        taus = mat.conjugate(self.taus) if turned else self.taus
        if left:
            x = mat.product(mat.adjoint(self.v), c)
            taus = along_rows(taus, aval_of(x).shape[-1])
            x = do.mul(taus, self.solved(x, left, turned)) if turned else self.solved(
                do.mul(taus, x), left, turned
            )  # fmt: skip
            return do.sub(c, mat.product(self.v, x))
        x = mat.product(c, self.v)
        taus = along_columns(taus, aval_of(x).shape[-2])
        x = self.solved(do.mul(x, taus), left, turned) if turned else do.mul(
            self.solved(x, left, turned), taus
        )  # fmt: skip
        return do.sub(c, mat.product(x, mat.adjoint(self.v)))


def _identity(shape: tuple[int, ...], like: Any) -> Any:
    """Ones on the diagonals of a stack."""
    return mat.with_ones(zeros(aval_of(like).update(shape=shape)))


def householder_product_parts(a, taus):
    """`householder_product`: the first columns of H_1 H_2 ... H_k."""
    eye = _identity(aval_of(a).shape, a)
    return _Product(a, taus).times(eye, True, False) if aval_of(taus).size else eye


def ormqr_parts(a, taus, c, *, left: bool, transpose: bool):
    """`ormqr`: Q c, Q^H c, c Q or c Q^H."""
    count = min(aval_of(taus).shape[-1], *aval_of(a).shape[-2:])
    if 0 in (count, aval_of(c).size):
        return c
    shape = aval_of(taus).shape
    starts, stops = (0,) * len(shape), (*shape[:-1], count)
    taus = do.slice(taus, start_indices=starts, limit_indices=stops, strides=None)
    return _Product(a, taus).times(c, left, transpose)


# ---- one reflector after another ----
def _reflector(x: Any, start: Any) -> tuple[Any, Any, Any]:
    """v, tau and beta for which H^H maps each vector to beta at place `start`, zeros behind it."""
    places, length = numbered(x, -1), aval_of(x).shape[-1]
    alpha = picked(do.eq(places, start), x, -1)
    behind = only(do.gt(places, start), x)
    rest, front = lengths(behind, -1), mat.real(alpha)
    zero = full_like(front, 0)
    done = do.eq(rest, zero)
    if mat.is_complex(alpha):
        done = do.and_(done, do.eq(do.imag(alpha), zero))
    size = hypot(do.abs(alpha), rest)
    beta = where(do.ge(front, zero), do.neg(size), size)
    beta = mat.in_dtype_of(where(done, front, beta), x)
    one = full_like(beta, 1)
    tau = only(do.not_(done), do.div(do.sub(beta, alpha), where(done, one, beta)))
    by = where(done, one, do.sub(alpha, beta))
    v = do.div(behind, spread(by, -1, length))
    return where(do.eq(places, start), full_like(v, 1), v), tau, beta


def _left(v: Any, tau: Any, a: Any) -> Any:
    """H^H a."""
    rows, columns = aval_of(a).shape[-2:]
    w = mat.product(mat.adjoint(mat.column(v)), a)
    w = do.squeeze(w, dimensions=(aval_of(w).ndim - 2,))
    v = do.mul(v, spread(mat.conjugate(tau), -1, rows))
    return do.sub(a, do.mul(along_rows(v, columns), along_columns(w, rows)))


def _right(v: Any, tau: Any, a: Any) -> Any:
    """a H."""
    rows, columns = aval_of(a).shape[-2:]
    u = mat.product(a, mat.column(v))
    u = do.squeeze(u, dimensions=(aval_of(u).ndim - 1,))
    v = do.mul(mat.conjugate(v), spread(tau, -1, columns))
    return do.sub(a, do.mul(along_rows(u, columns), along_columns(v, rows)))


def _with_column(a: Any, number: Any, x: Any, start: Any, v: Any, beta: Any, changed: Any) -> Any:
    """The matrix behind a column as changed; the column as x down to beta, and v below it."""
    rows, columns = aval_of(a).shape[-2:]
    places = numbered(x, -1)
    kept = where(do.eq(places, start), spread(beta, -1, rows), x)
    kept = where(do.gt(places, start), v, kept)
    at = numbered(a, -1)
    a = where(do.gt(at, number), changed, a)
    return where(do.eq(at, number), along_rows(kept, columns), a)


def _column(a: Any, number: Any) -> Any:
    return picked(do.eq(numbered(a, -1), number), a, -1)


def hessenberg_parts(a):
    """`hessenberg`: what is below the first subdiagonal becomes zero, column by column."""
    n, stack = aval_of(a).shape[-1], aval_of(a).shape[:-2]
    if n < 2:
        return [a, zeros(aval_of(a).update(shape=(*stack, 0)))]

    def step(a, j):
        start = do.add(j, np.int32(1))
        x = _column(a, j)
        v, tau, beta = _reflector(x, start)
        changed = _left(v, tau, _right(v, tau, a))
        return [_with_column(a, j, x, start, v, beta, changed)], [tau]

    (packed,), (taus,) = scan(step, [a], [counted(n - 1)], length=n - 1)
    return [packed, _last(taus)]


def _last(x: Any) -> Any:
    """The axis of a scan, which comes first, as the last."""
    rank = aval_of(x).ndim
    return do.transpose(x, permutation=(*range(1, rank), 0))


def tridiagonal_parts(a, *, lower: bool):
    """`tridiagonal`: the Hessenberg form of a Hermitian matrix, of which one triangle is read."""
    if not lower:  # from the other end, rows and columns turned round
        packed, *rest = tridiagonal_parts(_turned(a, 2), lower=True)
        return [_turned(packed, 2), *(_turned(x, 1) for x in rest)]
    rows, columns = numbered(a, -2), numbered(a, -1)
    whole = where(do.gt(rows, columns), a, mat.adjoint(a))
    whole = where(do.eq(rows, columns), mat.in_dtype_of(mat.real(a), a), whole)
    packed, taus = hessenberg_parts(whole)
    n = aval_of(a).shape[-1]
    d = mat.real(mat.diagonal(packed))
    below = mat.part(packed, (1, n), (0, n - 1))
    packed = where(do.ge(rows, columns), packed, a)
    return [packed, d, mat.real(mat.diagonal(below)), taus]


def _turned(x: Any, axes: int) -> Any:
    """The last axes from their ends."""
    rank = aval_of(x).ndim
    return do.rev(x, dimensions=tuple(range(rank - axes, rank)))


def qr_parts(a, *, pivoting: bool, full_matrices: bool, use_magma=None):
    """`qr` with pivots: at each step the longest of the columns that are left comes first."""
    if not pivoting:
        raise TypeError("a library does that")
    *stack, m, n = aval_of(a).shape
    count = min(m, n)
    order = zeros(aval_of(a).update(shape=(*stack, n), dtype=int32))
    order = do.add(order, numbered(order, -1))

    def step(a, order, j):
        rows, columns, places = numbered(a, -2), numbered(a, -1), numbered(order, -1)
        left = only(do.and_(do.ge(rows, j), do.ge(columns, j)), a)
        norms = lengths(left, -2)
        norms = where(do.ge(places, j), norms, full_like(norms, -1))
        pivot = do.argmax(norms, axes=(len(stack),), index_dtype=int32)
        at = spread(pivot, -1, n)
        x = picked(do.eq(columns, along_columns(at, m)), a, -1)
        first = where(do.eq(columns, along_columns(at, m)), along_rows(_column(a, j), n), a)
        a = where(do.eq(columns, j), along_rows(x, n), first)
        mine, other = picked(do.eq(places, j), order, -1), picked(do.eq(places, at), order, -1)
        order = where(do.eq(places, at), spread(mine, -1, n), order)
        order = where(do.eq(places, j), spread(other, -1, n), order)
        v, tau, beta = _reflector(x, j)
        return [_with_column(a, j, x, j, v, beta, _left(v, tau, a)), order], [tau]

    taus = zeros(aval_of(a).update(shape=(*stack, 0)))
    packed = a
    if count:
        (packed, order), (taus,) = scan(step, [a, order], [counted(count)], length=count)
        taus = _last(taus)
    wide = m if full_matrices else count
    vectors = mat.grown(mat.part(packed, columns=(0, count)), m, wide)
    return [householder_product_parts(vectors, taus), mat.upper(mat.part(packed, (0, wide))), order]
