"""Factorisations and solvers: what they factor comes back, failures are NaN, misuse is an error."""

import re

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.lax import linalg as la

rng = np.random.default_rng(0)
DTYPES = [np.float32, np.complex64]
STACKS = [(4, 4), (1, 1), (2, 3, 3), (0, 3, 3), (0, 0), (30, 30)]


def matrix(shape, dtype=np.float32):
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def hermitian(shape, dtype):
    x = matrix(shape, dtype)
    return (x + x.mT.conj()) / 2


def positive(shape, dtype):
    x = matrix(shape, dtype)
    return x @ x.mT.conj() + shape[-1] * np.eye(shape[-1], dtype=dtype)


def close(a, b, tol=2e-4):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


def unitary(q):
    q = np.asarray(q)
    close(q.mT.conj() @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", STACKS)
class TestSquare:
    def test_cholesky(self, shape, dtype):
        x = positive(shape, dtype)
        factor = np.asarray(la.cholesky(x))
        assert factor.dtype == dtype and (np.triu(factor, 1) == 0).all()
        close(factor @ factor.mT.conj(), x, 1e-3)

    def test_eigh(self, shape, dtype):
        x = hermitian(shape, dtype)
        for lower in (True, False):
            v, w = map(np.asarray, la.eigh(x, lower=lower))
            assert w.dtype == np.float32 and (np.diff(w) >= 0).all()
            unitary(v)
            close(x @ v, v * w[..., None, :], 1e-3)

    def test_eig(self, shape, dtype):
        x = matrix(shape, dtype)
        w, left, right = map(np.asarray, la.eig(x))
        assert w.dtype == np.complex64
        close(x @ right, right * w[..., None, :], 2e-3)
        close(left.mT.conj() @ x, w[..., :, None] * left.mT.conj(), 2e-3)
        assert len(la.eig(x, compute_left_eigenvectors=False)) == 2

    def test_schur(self, shape, dtype):
        x = matrix(shape, dtype)
        t, q = map(np.asarray, la.schur(x))
        unitary(q)
        close(q @ t @ q.mT.conj(), x, 1e-3)
        assert (np.tril(t, -1 if np.dtype(dtype).kind == "c" else -2) == 0).all()

    def test_hessenberg(self, shape, dtype):
        x = matrix(shape, dtype)
        packed, taus = la.hessenberg(x)
        assert packed.shape == shape and taus.shape == (*shape[:-2], max(shape[-1] - 1, 0))
        if 0 in shape or shape[-1] == 1:
            return
        packed = np.asarray(packed)
        q = np.zeros(shape, dtype)
        q[..., 0, 0] = 1
        q[..., 1:, 1:] = np.asarray(la.householder_product(packed[..., 1:, :-1], taus))
        close(q @ np.triu(packed, -1) @ q.mT.conj(), x, 1e-3)

    def test_tridiagonal(self, shape, dtype):
        if shape[-1] == 0:
            with pytest.raises(ValueError):
                la.tridiagonal(matrix(shape, dtype))
            return
        x = hermitian(shape, dtype)
        for lower in (True, False):
            _, d, e, _ = map(np.asarray, la.tridiagonal(x, lower=lower))
            t = np.zeros(shape, np.float32)
            n = np.arange(shape[-1])
            t[..., n, n] = d
            t[..., n[:-1], n[1:]] = t[..., n[1:], n[:-1]] = e
            close(np.linalg.eigvalsh(t), np.linalg.eigvalsh(x), 2e-3)


RECTANGLES = [(4, 3), (3, 5), (3, 3), (2, 5, 2), (0, 3, 2), (3, 0), (0, 0), (40, 30)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES)
class TestRectangles:
    def test_lu(self, shape, dtype):
        x = matrix(shape, dtype)
        packed, pivots, permutation = map(np.asarray, la.lu(x))
        m, n = shape[-2:]
        k = min(m, n)
        assert pivots.shape == (*shape[:-2], k) and permutation.shape == (*shape[:-2], m)
        lower = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=dtype)
        rows = np.take_along_axis(x, permutation[..., None], -2)
        close(lower @ np.triu(packed[..., :k, :]), rows)
        again = la.lu_pivots_to_permutation(pivots, m)
        assert (np.asarray(again) == permutation).all()

    @pytest.mark.parametrize("full", [True, False])
    def test_qr(self, shape, dtype, full):
        x = matrix(shape, dtype)
        q, r = map(np.asarray, la.qr(x, full_matrices=full))
        k = shape[-2] if full else min(shape[-2:])
        assert q.shape[-1] == r.shape[-2] == k and (np.tril(r, -1) == 0).all()
        unitary(q)
        close(q @ r, x)
        q, r, order = map(np.asarray, la.qr(x, full_matrices=full, pivoting=True))
        close(q @ r, np.take_along_axis(x, order[..., None, :], -1))
        sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
        assert (np.diff(sizes) <= 1e-4).all()

    @pytest.mark.parametrize("algorithm", [None, la.SvdAlgorithm.QR])
    @pytest.mark.parametrize("full", [True, False])
    def test_svd(self, shape, dtype, full, algorithm):
        x = matrix(shape, dtype)
        u, s, vh = map(np.asarray, la.svd(x, full_matrices=full, algorithm=algorithm))
        k = min(shape[-2:])
        assert s.dtype == np.float32 and (np.diff(s) <= 0).all() and (s >= 0).all()
        unitary(u)
        unitary(vh.mT.conj())
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, 1e-3)
        close(la.svd(x, compute_uv=False, algorithm=algorithm), s)

    def test_householder(self, shape, dtype):
        x = matrix(shape, dtype)
        packed, taus = la.geqrf(x)
        if shape[-2] < shape[-1]:
            with pytest.raises(ValueError, match="at least as many rows as columns"):
                la.householder_product(packed, taus)
            return
        q = np.asarray(la.householder_product(packed, taus))
        unitary(q)
        close(q @ np.triu(np.asarray(packed))[..., : shape[-1], :], x)
        c = matrix((*shape[:-2], shape[-2], 3), dtype)
        whole = np.asarray(la.qr(x)[0])
        close(la.ormqr(packed, taus, c), whole @ c)
        close(la.ormqr(packed, taus, c, transpose=True), whole.mT.conj() @ c)
        close(la.ormqr(packed, taus, c.mT, left=False), c.mT @ whole)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose, conjugate", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(dtype, left, lower, transpose, conjugate, unit):
    a = matrix((2, 4, 4), dtype) + 4 * np.eye(4, dtype=dtype)
    b = matrix((2, 4, 3) if left else (2, 3, 4), dtype)
    x = la.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=bool(transpose),
        conjugate_a=bool(conjugate), unit_diagonal=unit,
    )  # fmt: skip
    t = np.tril(a) if lower else np.triu(a)
    if unit:
        t = t - t * np.eye(4) + np.eye(4)
    t = t.mT if transpose else t
    t = t.conj() if conjugate else t
    close(t @ np.asarray(x) if left else np.asarray(x) @ t, b, 1e-3)


def test_triangular_solve_of_vectors_and_halves():
    a = np.array([[2.0, 0], [1, 1]], np.float32)
    assert np.asarray(
        la.triangular_solve(a, np.array([4.0, 5], np.float32), left_side=True, lower=True)
    ).tolist() == [2, 3]
    half = a.astype(ga.core.dtypes.bfloat16)
    out = la.triangular_solve(half, half, left_side=True, lower=True)
    assert out.dtype == half.dtype and np.asarray(out).astype(float).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (2, 5), (1,), (0,), (2,)])
@pytest.mark.parametrize("perturb", [False, True])
def test_tridiagonal_solve(dtype, shape, perturb):
    dl, d, du = (matrix(shape, dtype) for _ in range(3))
    b = matrix((*shape, 2), dtype)
    x = np.asarray(la.tridiagonal_solve(dl, d, du, b, perturb_singular=perturb))
    product = d[..., None] * x
    product[..., 1:, :] += dl[..., 1:, None] * x[..., :-1, :]
    product[..., :-1, :] += du[..., :-1, None] * x[..., 1:, :]
    close(product, b, 1e-3)


def test_perturbed_elimination_swaps_rows():
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    b = np.array([[1.0], [2], [3]], np.float32)
    assert np.isnan(la.tridiagonal_solve(zero, zero, zero, b)).all()
    out = np.asarray(la.tridiagonal_solve(zero, zero, zero, b, perturb_singular=True))
    assert (out == b / np.finfo(np.float32).tiny).all() or np.isinf(out).any()
    # Singular as it stands (rows 0 and 2 are equal): the answer is large, and finite.
    x = np.asarray(la.tridiagonal_solve(one, zero, one, b, perturb_singular=True))
    assert np.isfinite(x).all() and np.abs(x).max() > 1e30


def test_updates():
    a, c = matrix((2, 4, 3)), matrix((2, 4, 4))
    out = la.symmetric_product(a, c, alpha=2.0, beta=3.0)
    close(out, 2 * a @ a.mT + 3 * c, 1e-5)
    out = np.asarray(la.symmetric_product(a, c, beta=3.0, symmetrize_output=True))
    assert (out == out.mT).all()
    r, w = np.triu(matrix((2, 5, 5))), matrix((2, 5))
    new = np.asarray(la.cholesky_update(r, w))
    close(new.mT @ new, r.mT @ r + w[..., :, None] * w[..., None, :], 1e-4)
    assert np.allclose(np.tril(new, -1), 0, atol=1e-6)


def test_pivots():
    assert np.asarray(la.lu_pivots_to_permutation(np.array([2, 2, 3], np.int32), 4)).tolist() == [
        2, 0, 3, 1,
    ]  # fmt: skip


def test_failures_are_nan():
    bad = np.stack([np.eye(3), -np.eye(3), np.full((3, 3), np.nan)]).astype(np.float32)
    factor = np.asarray(la.cholesky(bad))
    assert (factor[0] == np.eye(3)).all() and np.isnan(np.diagonal(factor[1:], 0, 1, 2)).all()
    nan = bad[2]
    for out in (la.eigh(nan), la.svd(nan), la.eig(nan), la.schur(nan)):
        assert all(np.isnan(np.asarray(o)).all() for o in out)


def test_subsets():
    x = hermitian((5, 5), np.float32)
    v, w = la.eigh(x, subset_by_index=(1, 3))
    whole = la.eigh(x)
    assert v.shape == (5, 2) and (np.asarray(w) == np.asarray(whole[1])[1:3]).all()
    u, s, vh = la.svd(x, full_matrices=False, subset_by_index=(0, 2))
    assert (u.shape, s.shape, vh.shape) == ((5, 2), (2,), (2, 5))


def test_jit_gives_the_same():
    x = positive((4, 4), np.float32)
    for f in (la.cholesky, la.lu, la.qr, la.eigh, la.svd):
        for a, b in zip(
            ga.tree_util.tree_leaves(f(x)), ga.tree_util.tree_leaves(ga.jit(f)(x)), strict=True
        ):
            assert (np.asarray(a) == np.asarray(b)).all()


M, R, V = (np.ones(s, np.float32) for s in ((3, 3), (4, 3), (3,)))
WRONG = [
    (lambda: la.eig(M.astype(np.int32)), TypeError, "eig does not accept dtype int32"),
    (lambda: la.lu(M.astype(np.float16)), NotImplementedError, "Unsupported dtype float16"),
    (lambda: la.eig(R), ValueError, r"must be a square matrix. Got shape \(4, 3\)"),
    (lambda: la.svd(V), TypeError, r"rank at least 2, but got shape=\(3,\)"),
    (lambda: la.hessenberg(R), ValueError, r"must have shape \[..., n, n\]"),
    (lambda: la.lu([[1.0]]), TypeError, "Error interpreting argument to lu"),
    (lambda: la.svd(M, algorithm=la.SvdAlgorithm.JACOBI), NotImplementedError, "Jacobi"),
    (lambda: la.eig(M, use_magma=True), ValueError, "Only the lapack implementation"),
    (lambda: la.schur(M, sort_eig_vals=True), NotImplementedError, "sort feature"),
    (lambda: la.triangular_solve(R, M), ValueError, "square matrix"),
    (lambda: la.triangular_solve(M, R, left_side=True), ValueError, "Incompatible shapes"),
    (lambda: la.triangular_solve(M, M.astype(np.complex64)), TypeError, "same dtypes"),
    (lambda: la.tridiagonal_solve(V, V, V, V), TypeError, "rank at least 2"),
    (lambda: la.tridiagonal_solve(V[1:], V, V, R), TypeError, "same shape"),
    (lambda: la.tridiagonal_solve(V, V, V, R), TypeError, "leading ndim-1 dimensions"),
    (lambda: la.householder_product(R, np.ones(4, np.float32)), ValueError, "more rows"),
    (lambda: la.ormqr(R, V, M), ValueError, "same number of rows"),
    (
        lambda: la.lu_pivots_to_permutation(np.zeros(3, np.int32), 2),
        ValueError,
        "has to exceed",
    ),
    (lambda: la.symmetric_product(R, M), ValueError, "symmetric_update expects"),
    (lambda: la.cholesky_update(M, V[:2]), ValueError, "Rank-1 update"),
    (lambda: la.cholesky_update(M * 1j, V * 1j), TypeError, "does not accept dtype complex"),
]


@pytest.mark.parametrize("call, kind, text", WRONG)
def test_misuse(call, kind, text):
    with pytest.raises(kind, match=re.compile(text, re.DOTALL)):
        call()


def test_in_lax():
    assert lax.linalg is la
