"""Factorisations by Householder reflectors, for those that no CuPy library has.

Floor 4. In: stacks of matrices. Out: the same values as LAPACK's, in terms of matrix products,
triangular solves and a scan over columns. A reflector is H = I - tau v v^H. v is 0 above one entry,
which is 1; the entries below it are stored in the place of the zeros that it makes, below the
diagonal.
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
    repeated,
    where,
)
from gpuarray.backends.cuda.loops import scan
from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import NoKernel
from gpuarray.primitives.define import do
from gpuarray.primitives.linalg import matrices as mat
from gpuarray.primitives.linear import full_like, zeros

# ---- products of reflectors ----
# H_1 H_2 ... H_k = I - V T V^H with T = (I + D S)^-1 D, where D is the diagonal matrix of the taus
# and S is V^H V above the diagonal (the compact WY form). T is not formed: it is solved with.


class _Product:
    """H_1 H_2 ... H_k as a matrix to multiply with, on either side."""

    def __init__(self, a: Any, taus: Any):
        count = aval_of(taus).shape[-1]
        # V below the diagonal of `a`, with ones on it, as `geqrf` packs it.
        self.v = mat.with_ones(mat.lower(mat.part(a, columns=(0, count))))
        self.taus = taus
        # D S of the comment above, plus entries that `unit` and `lower=False` leave unread.
        self.triangle = do.mul(along_rows(taus, count), mat.product(mat.adjoint(self.v), self.v))

    def solved(self, x: Any, left: bool, adjoint: bool) -> Any:
        return mat.triangular(
            self.triangle,
            x,
            left=left,
            lower=False,
            transpose=adjoint,
            conjugate=adjoint,
            unit=True,
        )

    def times(self, c: Any, left: bool, adjoint: bool) -> Any:
        """Return Q c or c Q, or the same with the adjoint of Q."""
        taus = mat.conjugate(self.taus) if adjoint else self.taus
        # Q c = c - V T V^H c, and T = (I + D S)^-1 D; its adjoint has the factors in reverse order.
        if left:
            x = mat.product(mat.adjoint(self.v), c)
            taus = along_rows(taus, aval_of(x).shape[-1])
            x = do.mul(taus, self.solved(x, left, adjoint)) if adjoint else self.solved(
                do.mul(taus, x), left, adjoint
            )  # fmt: skip
            return do.sub(c, mat.product(self.v, x))
        x = mat.product(c, self.v)
        taus = along_columns(taus, aval_of(x).shape[-2])
        x = self.solved(do.mul(x, taus), left, adjoint) if adjoint else do.mul(
            self.solved(x, left, adjoint), taus
        )  # fmt: skip
        return do.sub(c, mat.product(x, mat.adjoint(self.v)))


def _identity(shape: tuple[int, ...], like: Any) -> Any:
    """Return a stack of identities."""
    return mat.with_ones(zeros(aval_of(like).update(shape=shape)))


def householder_product_parts(a, taus):
    """`householder_product`: the first columns of H_1 H_2 ... H_k."""
    eye = _identity(aval_of(a).shape, a)
    return _Product(a, taus).times(eye, True, False) if aval_of(taus).size else eye


def ormqr_parts(a, taus, c, *, left: bool, transpose: bool):
    """`ormqr`: Q c, Q^H c, c Q or c Q^H."""
    # LAPACK allows more taus than reflectors that fit.
    count = min(aval_of(taus).shape[-1], *aval_of(a).shape[-2:])
    if 0 in (count, aval_of(c).size):
        return c
    shape = aval_of(taus).shape
    starts, stops = (0,) * len(shape), (*shape[:-1], count)
    taus = do.slice(taus, start_indices=starts, limit_indices=stops, strides=None)
    return _Product(a, taus).times(c, left, transpose)


# ---- factorisations, one reflector at a time ----
def _reflector(x: Any, start: Any) -> tuple[Any, Any, Any]:
    """Return v, tau and beta of the H for which H^H x is beta at `start` and 0 after it."""
    positions, length = numbered(x, -1), aval_of(x).shape[-1]
    alpha = picked(do.eq(positions, start), x, -1)
    behind = only(do.gt(positions, start), x)
    # As in LAPACK's larfg: beta has the opposite sign of alpha, so that alpha - beta does not
    # cancel.
    rest, front = lengths(behind, -1), mat.real(alpha)
    zero = full_like(front, 0)
    # No reflection: tau is 0, and H the identity.
    done = do.eq(rest, zero)
    if mat.is_complex(alpha):
        done = do.and_(done, do.eq(do.imag(alpha), zero))
    size = hypot(do.abs(alpha), rest)
    # Of the other sign than alpha, so that their difference does not cancel.
    beta = where(do.ge(front, zero), do.neg(size), size)
    beta = mat.in_dtype_of(where(done, front, beta), x)
    one = full_like(beta, 1)
    tau = only(do.not_(done), do.div(do.sub(beta, alpha), where(done, one, beta)))
    by = where(done, one, do.sub(alpha, beta))
    v = do.div(behind, repeated(by, -1, length))
    return where(do.eq(positions, start), full_like(v, 1), v), tau, beta


def _left(v: Any, tau: Any, a: Any) -> Any:
    """Return H^H a."""
    rows, columns = aval_of(a).shape[-2:]
    w = mat.product(mat.adjoint(mat.column(v)), a)
    # a - conj(tau) v (v^H a): rank one, so the product is never materialised.
    w = do.squeeze(w, dimensions=(aval_of(w).ndim - 2,))
    v = do.mul(v, repeated(mat.conjugate(tau), -1, rows))
    return do.sub(a, do.mul(along_rows(v, columns), along_columns(w, rows)))


def _right(v: Any, tau: Any, a: Any) -> Any:
    """Return a H."""
    rows, columns = aval_of(a).shape[-2:]
    u = mat.product(a, mat.column(v))
    u = do.squeeze(u, dimensions=(aval_of(u).ndim - 1,))
    v = do.mul(mat.conjugate(v), repeated(tau, -1, columns))
    return do.sub(a, do.mul(along_rows(u, columns), along_columns(v, rows)))


def _with_column(a: Any, number: Any, x: Any, start: Any, v: Any, beta: Any, changed: Any) -> Any:
    """Return the matrix with the columns after `number` from `changed`.

    Column `number` is x down to beta, with v below it.
    """
    rows, columns = aval_of(a).shape[-2:]
    positions = numbered(x, -1)
    kept = where(do.eq(positions, start), repeated(beta, -1, rows), x)
    kept = where(do.gt(positions, start), v, kept)
    at = numbered(a, -1)
    a = where(do.gt(at, number), changed, a)
    return where(do.eq(at, number), along_rows(kept, columns), a)


def _column(a: Any, number: Any) -> Any:
    return picked(do.eq(numbered(a, -1), number), a, -1)


def hessenberg_parts(a):
    """`hessenberg`: make entries below the first subdiagonal zero, column by column."""
    n, stack = aval_of(a).shape[-1], aval_of(a).shape[:-2]
    if n < 2:
        return [a, zeros(aval_of(a).update(shape=(*stack, 0)))]

    def step(a, j):
        start = do.add(j, np.int32(1))
        x = _column(a, j)
        v, tau, beta = _reflector(x, start)
        # A becomes H^H A H: a similarity, which keeps eigenvalues.
        changed = _left(v, tau, _right(v, tau, a))
        return [_with_column(a, j, x, start, v, beta, changed)], [tau]

    (packed,), (taus,) = scan(step, [a], [counted(n - 1)], length=n - 1)
    return [packed, _last(taus)]


def _last(x: Any) -> Any:
    """Move the scanned axis, which comes first, to the end."""
    rank = aval_of(x).ndim
    return do.transpose(x, permutation=(*range(1, rank), 0))


def tridiagonal_parts(a, *, lower: bool):
    """`tridiagonal`: the Hessenberg form of a Hermitian matrix, of which one triangle is read."""
    if not lower:  # reverse rows and columns: the upper triangle becomes the lower one
        packed, *rest = tridiagonal_parts(_reversed(a, 2), lower=True)
        return [_reversed(packed, 2), *(_reversed(x, 1) for x in rest)]
    # Complete the matrix from its lower triangle.
    rows, columns = numbered(a, -2), numbered(a, -1)
    whole = where(do.gt(rows, columns), a, mat.adjoint(a))
    whole = where(do.eq(rows, columns), mat.in_dtype_of(mat.real(a), a), whole)
    # A Hermitian matrix stays Hermitian: its Hessenberg form is tridiagonal.
    packed, taus = hessenberg_parts(whole)
    n = aval_of(a).shape[-1]
    d = mat.real(mat.diagonal(packed))
    below = mat.part(packed, (1, n), (0, n - 1))
    packed = where(do.ge(rows, columns), packed, a)
    return [packed, d, mat.real(mat.diagonal(below)), taus]


def _reversed(x: Any, axes: int) -> Any:
    """Reverse the last axes."""
    rank = aval_of(x).ndim
    return do.rev(x, dimensions=tuple(range(rank - axes, rank)))


def qr_parts(a, *, pivoting: bool, full_matrices: bool, use_magma=None):
    """`qr` with pivots: at each step, the longest of the remaining columns comes first."""
    if not pivoting:
        raise NoKernel("a library does that")
    *stack, m, n = aval_of(a).shape
    count = min(m, n)
    # Column numbers 0, 1, ..., swapped as the columns are.
    order = zeros(aval_of(a).update(shape=(*stack, n), dtype=int32))
    order = do.add(order, numbered(order, -1))

    def step(a, order, j):
        rows, columns, positions = numbered(a, -2), numbered(a, -1), numbered(order, -1)
        # The columns that are left, below the rows that are finished.
        left = only(do.and_(do.ge(rows, j), do.ge(columns, j)), a)
        norms = lengths(left, -2)
        # Finished columns have length -1, so that argmax passes them by.
        norms = where(do.ge(positions, j), norms, full_like(norms, -1))
        pivot = do.argmax(norms, axes=(len(stack),), index_dtype=int32)
        # Swap the longest column with column j, in the matrix and in the order.
        at = repeated(pivot, -1, n)
        x = picked(do.eq(columns, along_columns(at, m)), a, -1)
        first = where(do.eq(columns, along_columns(at, m)), along_rows(_column(a, j), n), a)
        a = where(do.eq(columns, j), along_rows(x, n), first)
        mine, other = (
            picked(do.eq(positions, j), order, -1),
            picked(do.eq(positions, at), order, -1),
        )
        order = where(do.eq(positions, at), repeated(mine, -1, n), order)
        order = where(do.eq(positions, j), repeated(other, -1, n), order)
        # Then reflect.
        v, tau, beta = _reflector(x, j)
        return [_with_column(a, j, x, j, v, beta, _left(v, tau, a)), order], [tau]

    taus = zeros(aval_of(a).update(shape=(*stack, 0)))
    packed = a
    if count:
        (packed, order), (taus,) = scan(step, [a, order], [counted(count)], length=count)
        taus = _last(taus)
    wide = m if full_matrices else count
    # Padded with zeros to as many columns as Q shall have.
    vectors = mat.grown(mat.part(packed, columns=(0, count)), m, wide)
    return [householder_product_parts(vectors, taus), mat.upper(mat.part(packed, (0, wide))), order]
