"""Derivatives of factorisations: differentiate the defining equation, solve for the factors.

Floor 2. In: the operands of a jvp rule of ops.py. Out: values made of products and solves. In the
formulas T is the tangent of the matrix, d marks those of the factors, ^H is the adjoint and * the
product entry by entry. See M. Giles, "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.dims import smaller
from gpuarray.core.linear import Zero, tangent_aval
from gpuarray.primitives.define import do
from gpuarray.primitives.linalg.matrices import (
    adjoint,
    beside,
    column,
    conjugate,
    diagonal,
    grown,
    identity_like,
    in_dtype_of,
    is_complex,
    lower,
    on_diagonal,
    part,
    permuted_rows,
    product,
    real,
    row,
    solver,
    transposed,
    triangular,
    upper,
    with_ones,
)
from gpuarray.primitives.linear import broadcast_like, full_like


def nothing(x: Any) -> Zero:
    """Return the zero tangent of a result that is not differentiable."""
    return Zero(tangent_aval(aval_of(x)))


# ---- Cholesky, LU, QR ----


def cholesky_jvp(primals, tangents):
    """A = L L^H: dL = L phi(L^-1 T L^-H).

    phi keeps the lower triangle and half of the diagonal.
    """
    factor, (t,) = lower(do.cholesky(*primals)), tangents
    # L^-1 T L^-H: solve from the right, then from the left.
    middle = triangular(factor, t, left=False, transpose=True, conjugate=True)
    below = lower(triangular(factor, middle))
    # 1 below the diagonal, 2 on it.
    one = aval_of(below).dtype.type(1)
    return factor, product(factor, do.div(below, do.add(one, identity_like(below))))


def lu_jvp(primals, tangents):
    """P A = L U: with M = L^-1 P T U^-1, dL = L below(M) and dU = above(M) U.

    Factors that are not square are completed with columns or rows of an identity.
    """
    packed, pivots, permutation = do.lu(*primals)
    m, n = aval_of(packed).shape[-2:]
    k = smaller(m, n)
    # L as m x m with ones on the diagonal, U as n x n.
    left = with_ones(lower(grown(part(packed, columns=(0, k)), m, m), -1))
    right = with_ones(upper(grown(part(packed, rows=(0, k)), n, n)), k)
    middle = triangular(left, permuted_rows(tangents[0], permutation), unit=True)
    middle = triangular(right, middle, left=False, lower=False)
    t = do.add(product(left, lower(middle, -1)), product(upper(middle), right))
    return [packed, pivots, permutation], [t, nothing(pivots), nothing(permutation)]


def qr_jvp(primals, tangents, *, pivoting: bool, full_matrices: bool, use_magma=None):
    """A = Q R: with C = Q^H T R^-1, dR = (C - W) R and dQ = T R^-1 - Q (C - W).

    W is the skew part that keeps R triangular. Columns behind a square R follow from
    dR = Q^H (T - dQ R).
    """
    params = {"full_matrices": full_matrices, "use_magma": use_magma}
    q, r, *order = do.qr(*primals, pivoting=pivoting, **params)
    (t,) = tangents
    # A P = Q R: the tangent's columns are permuted like the matrix's.
    if order:
        t = transposed(permuted_rows(transposed(t), order[0]))
    m, n = aval_of(t).shape[-2:]
    k = smaller(m, n)
    # The square part first.
    q1, r1 = part(q, columns=(0, k)), part(r, (0, k), (0, k))
    solved = triangular(r1, part(t, columns=(0, k)), left=False, lower=False)
    c = product(adjoint(q1), solved)
    # W = below - below^H, and the imaginary part on the diagonal, so that R's stays real.
    below = lower(c, -1)
    skew = do.sub(below, adjoint(below))
    if is_complex(c):
        on = on_diagonal(c)
        skew = do.add(skew, do.sub(on, in_dtype_of(real(on), on)))
    rest = do.sub(c, skew)
    dq, dr = do.sub(solved, product(q1, rest)), upper(product(rest, r1))
    # Wide matrices: the columns behind the square part.
    if n > k:
        r2, t2 = part(r, columns=(k, n)), part(t, columns=(k, n))
        dr = beside(-1, dr, product(adjoint(q1), do.sub(t2, product(dq, r2))))
    # Full matrices: the columns of Q after those of the square part.
    if full_matrices and m > k:
        dq, dr = beside(-1, dq, _rest_of_basis(q1, dq)), grown(dr, m, n)
    return [q, r, *order], [dq, dr, *map(nothing, order)]


def _rest_of_basis(q: Any, dq: Any) -> Any:
    """Return the derivative of the columns that complete a basis, as reflections choose them.

    A product of k reflections is I - V T V^H. So the columns after the first k, which are q, are
    those of the identity plus (q - E) K^H. Here E is the identity's first k columns, and K is the
    lower block of q divided by (the square block above it minus I).
    """
    m, k = aval_of(q).shape[-2:]
    less = do.sub(q, identity_like(q))
    solve = solver(adjoint(part(less, rows=(0, k))))
    kh = solve(adjoint(part(q, rows=(k, m))))
    above, below = part(dq, rows=(0, k)), part(dq, rows=(k, m))
    dkh = solve(do.sub(adjoint(below), product(adjoint(above), kh)))
    return do.add(product(dq, kh), product(less, dkh))


# ---- eigenvalues ----


def _inverse_gaps(values: Any) -> Any:
    """Return 1 / (values[j] - values[i]) at (i, j), and 0 on the diagonal."""
    # A diagonal of 1 avoids 1 / 0 there, and is taken off again.
    gaps = do.sub(row(values), column(values))
    one = identity_like(gaps)
    return do.sub(do.div(full_like(gaps, 1), do.add(gaps, one)), one)


def eigh_jvp(primals, tangents, *, subset_by_index, **params):
    """A V = V diag(w): with C = V^H T V, dw = diag(C) and dV = V (C * 1 / (w_j - w_i))."""
    n = aval_of(primals[0]).shape[-1]
    if subset_by_index is not None and tuple(subset_by_index) != (0, n):
        raise NotImplementedError(
            "Derivatives not defined for partial eigen decomposition: they involve all "
            "eigenvectors. Compute them all and slice the results."
        )
    v, w = do.eigh(*primals, subset_by_index=subset_by_index, **params)
    # First-order perturbation theory: C in the eigenbasis.
    c = product(adjoint(v), product(tangents[0], v))
    dv = product(v, do.mul(in_dtype_of(_inverse_gaps(w), c), c))
    return [v, w], [dv, real(diagonal(c))]


def eig_jvp(
    primals,
    tangents,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool = False,
    implementation=None,
):
    """A V = V diag(w): with C = V^-1 T V, dw = diag(C) and dV = V (C * 1 / (w_j - w_i)).

    dV is corrected so that length and phase stay as LAPACK normalises them. Left eigenvectors are
    right ones of A^H.
    """
    wanted = compute_left_eigenvectors, compute_right_eigenvectors
    if any(wanted) and not enable_eigvec_derivs:
        raise NotImplementedError(
            "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the "
            "input that cannot be checked: all eigenvalues differ. Pass enable_eigvec_derivs=True "
            "to gpuarray.lax.linalg.eig to opt in."
        )
    # The right vectors are needed for any derivative.
    out = do.eig(
        *primals,
        compute_left_eigenvectors=compute_left_eigenvectors,
        compute_right_eigenvectors=True,
        enable_eigvec_derivs=enable_eigvec_derivs,
        implementation=implementation,
    )
    w, *left, v = out
    t = in_dtype_of(tangents[0], v)
    # V^-1 T V by a solve, which is more exact than an inverse.
    c = solver(v)(product(t, v))
    results, derivatives = [w], [diagonal(c)]
    # Left eigenvectors, with conjugate eigenvalues.
    if left:
        (u,) = left
        mirrored = solver(u)(product(adjoint(t), u))
        results.append(u)
        derivatives.append(_normalised(u, mirrored, conjugate(w)))
    if compute_right_eigenvectors:
        results.append(v)
        derivatives.append(_normalised(v, c, w))
    return results, derivatives


def _normalised(v: Any, c: Any, w: Any) -> Any:
    """Return the derivative of eigenvectors of length 1 whose largest entry stays real."""
    dv = product(v, do.mul(_inverse_gaps(w), c))
    if not aval_of(v).size:
        return dv  # no entry is the largest
    axes = (aval_of(v).ndim - 2,)
    # The entry of largest modulus in each column, as a mask.
    sizes = do.real(do.mul(conjugate(v), v))
    winner = row(do.argmax(sizes, axes=axes, index_dtype=np.dtype(np.int32)))
    numbers = do.iota(
        dtype=np.dtype(np.int32), shape=aval_of(v).shape, dimension=axes[0], sharding=None
    )
    largest = do.eq(numbers, broadcast_like(winner, aval_of(v)))

    def at_largest(x):
        chosen = do.select_n(largest, full_like(x, 0), x)
        return do.reduce_sum(chosen, axes=axes, out_sharding=None)

    # Remove the change of phase at that entry, and the change of length.
    phase = do.div(at_largest(do.imag(dv)), at_largest(do.real(v)))
    inner = do.mul(conjugate(v), dv)
    along = do.real(do.reduce_sum(inner, axes=axes, out_sharding=None))
    return do.sub(dv, do.mul(v, row(do.complex(along, phase))))


# ---- singular values ----


def svd_jvp(primals, tangents, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    """A = U S V^H: with C = U^H T V, dS = diag(C), U^H dU = F * (C S + S C^H) and
    V^H dV = F * (S C + C^H S), where F = 1 / (s_j^2 - s_i^2).

    Directions that U and V do not span come from T itself. Phases, which the equation leaves open,
    are given to U.
    """
    m, n = aval_of(primals[0]).shape[-2:]
    if subset_by_index is not None and tuple(subset_by_index) != (0, min(m, n)):
        raise NotImplementedError(
            "subset_by_index not implemented for derivatives: they involve all singular vectors. "
            "Compute them all and slice the results."
        )
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError(
            "Singular value decomposition JVP not implemented for full matrices: the vectors "
            "beyond the smaller length are any basis of the rest. Use full_matrices=False."
        )
    params = {"full_matrices": False, "subset_by_index": subset_by_index, "algorithm": algorithm}
    s, u, vh = do.svd(*primals, compute_uv=True, **params)
    (t,) = tangents
    v = adjoint(vh)
    tv = product(t, v)
    c = product(adjoint(u), tv)
    ds = real(diagonal(c))
    if not compute_uv:
        return [s], [ds]

    # F, with 0 on the diagonal; (s_j + s_i)(s_j - s_i) is more exact than s_j² - s_i².
    lengths = in_dtype_of(s, c)
    gaps = do.mul(do.add(row(s), column(s)), do.sub(row(s), column(s)))
    one = identity_like(gaps)
    f = in_dtype_of(do.sub(do.div(full_like(gaps, 1), do.add(gaps, one)), one), c)
    columns_scaled, rows_scaled = do.mul(c, row(lengths)), do.mul(column(lengths), c)
    # 1 / s, with 0 for singular values that are 0.
    is_zero = do.convert_element_type(
        do.eq(s, full_like(s, 0)), new_dtype=aval_of(s).dtype, weak_type=False, sharding=None
    )
    inverse = do.sub(do.div(full_like(s, 1), do.add(s, is_zero)), is_zero)
    inverse = row(in_dtype_of(inverse, c))

    # U^H dU and V^H dV, both skew.
    rotation_u = do.mul(f, do.add(columns_scaled, adjoint(columns_scaled)))
    if is_complex(c):
        on = on_diagonal(c)
        rotation_u = do.add(rotation_u, do.mul(do.sub(on, in_dtype_of(real(on), on)), inverse))
    rotation_v = do.mul(f, do.add(rows_scaled, adjoint(rows_scaled)))
    du, dv = product(u, rotation_u), product(v, rotation_v)
    # Tall or wide matrices: the part of T outside the span.
    if m > n:
        du = do.add(du, do.mul(do.sub(tv, product(u, c)), inverse))
    if n > m:
        th_u = product(adjoint(t), u)
        dv = do.add(dv, do.mul(do.sub(th_u, product(v, adjoint(c))), inverse))
    return [s, u, vh], [ds, du, adjoint(dv)]
