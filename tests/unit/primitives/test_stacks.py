"""Factorisations of many small matrices at once are those that LAPACK makes one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.primitives.linalg import host as stacks

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(40, 1, 1), (50, 2, 2), (33, 3, 3), (8, 5, 4, 4), (32, 16, 16), (40, 3, 5), (40, 6, 2)]


@pytest.fixture(autouse=True)
def wide():
    with ga.enable_x64(True):
        yield


def drawn(shape, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(len(shape) + shape[-1])
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def both(monkeypatch, function, *arrays):
    """The results at once, and one by one."""
    used = []
    real = stacks.on_stacks

    def noted(inner):
        used.append(inner)
        return real(inner)

    monkeypatch.setattr(stacks, "on_stacks", noted)
    at_once = [np.asarray(x) for x in ga.tree.leaves(function(*arrays))]
    assert used
    used.clear()
    few = range(0, len(arrays[0]), 3)  # stacks too short to be taken at once
    pieces = [ga.tree.leaves(function(*(x[k : k + 3] for x in arrays))) for k in few]
    assert not used
    monkeypatch.undo()
    joined = zip(*([np.asarray(x) for x in piece] for piece in pieces), strict=True)
    return at_once, [np.concatenate(parts) for parts in joined]


def agree(pair, tolerance: float = 1.0) -> None:
    for a, b in zip(*pair, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        eps = np.finfo(a.dtype).eps if a.dtype.kind in "fc" else 0
        np.testing.assert_allclose(a, b, rtol=2e3 * eps * tolerance, atol=2e3 * eps * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu_and_qr(shape, dtype, monkeypatch):
    a = drawn(shape, dtype)
    agree(both(monkeypatch, lax.linalg.lu, a), 10)
    for full in (True, False):
        agree(both(monkeypatch, lambda a, f=full: lax.linalg.qr(a, full_matrices=f), a), 10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_cholesky(n, dtype, monkeypatch):
    a = drawn((45, n, n), dtype)
    a = a @ a.conj().swapaxes(1, 2) + n * np.eye(n, dtype=dtype)
    a[3, 0, 0] = -1
    a[7, n - 1, 0] = np.nan
    a[9] = 0
    lower = lambda a: lax.linalg.cholesky(a, symmetrize_input=False)
    found, one_by_one = both(monkeypatch, lower, a)
    agree((found, one_by_one))
    assert {3, 7, 9} == set(np.flatnonzero(np.isnan(found[0]).any((1, 2))))


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_triangular_systems(dtype, monkeypatch):
    for n, m in [(1, 1), (3, 2), (16, 3)]:
        a = drawn((40, n, n), dtype) + 3 * n * np.eye(n, dtype=dtype)
        for left, lower, turned, conjugated, unit in itertools.product([True, False], repeat=5):
            b = drawn((40, n, m) if left else (40, m, n), dtype)

            def solve(a, b, o=(left, lower, turned, conjugated, unit)):
                return lax.linalg.triangular_solve(
                    a,
                    b,
                    left_side=o[0],
                    lower=o[1],
                    transpose_a=o[2],
                    conjugate_a=o[3],
                    unit_diagonal=o[4],
                )

            a_used = a / 40 if unit else a
            agree(both(monkeypatch, solve, a_used, b), 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_and_singular_values(dtype, monkeypatch):
    a = drawn((40, 4, 4), dtype)
    symmetric = a + a.conj().swapaxes(1, 2)
    symmetric[5, 0, 0], a[6, 1, 2] = np.nan, np.inf
    for lower, part in [(True, None), (False, (1, 3))]:

        def eigh(x, lower=lower, part=part):
            v, w = lax.linalg.eigh(
                x, lower=lower, symmetrize_input=False, subset_by_index=part, sort_eigenvalues=True
            )
            return abs(v), w

        agree(both(monkeypatch, eigh, symmetric), 10)
    tall = drawn((40, 5, 3), dtype)
    for x in (a, tall):
        agree(both(monkeypatch, lambda x: lax.linalg.svd(x, compute_uv=False), x), 10)
        agree(both(monkeypatch, lambda x: [abs(y) for y in lax.linalg.svd(x)], x), 10)
        u, s, vt = (np.asarray(y) for y in lax.linalg.svd(x, full_matrices=False))
        again = (u * s[:, None]) @ vt
        whole = np.isfinite(x).all((1, 2))
        scale = 100 * np.finfo(x.dtype).eps
        np.testing.assert_allclose(again[whole], x[whole], atol=scale)


@pytest.mark.parametrize("shape", [(200, 16, 16), (3000, 2, 2)])
def test_threads_share_what_iterates(shape, monkeypatch):
    x = drawn(shape, "float64")
    x = x + np.swapaxes(x, -1, -2)
    x[7, 0, 0] = np.nan
    others = np.delete(np.arange(len(x)), 7)
    monkeypatch.setattr("gpuarray.core.threads.thread_count", lambda: 3)
    v, w = (np.asarray(a) for a in lax.linalg.eigh(x))
    s = np.asarray(lax.linalg.svd(x, compute_uv=False))
    assert np.isnan(v[7]).all()
    assert np.isnan(w[7]).all()
    assert np.isnan(s[7]).all()
    np.testing.assert_array_equal(w[others], np.linalg.eigh(x[others])[0])
    np.testing.assert_array_equal(v[others], np.linalg.eigh(x[others])[1])
    np.testing.assert_array_equal(s[others], np.linalg.svd(x[others], compute_uv=False))


def test_an_iteration_that_does_not_end_is_one_matrix_own():
    def stubborn(x):
        if (x[:, 0, 0] == 7).any():
            raise np.linalg.LinAlgError
        return x.sum((1, 2)), x[:, 0]

    a = drawn((5, 2, 2), "float64")
    a[3, 0, 0] = 7
    total, rows = stacks.of_finite(stubborn, a)
    assert np.isnan(total[3]) and np.isnan(rows[3]).all() and np.isfinite(np.delete(total, 3)).all()


def test_singular_and_broken_matrices_keep_to_themselves(monkeypatch):
    a = drawn((60, 3, 3), "float64")
    a[1], a[2, :, 1], a[3, 1, 1], a[4, 0, 2] = 0, 0, np.nan, np.inf
    a[5] = np.arange(9.0).reshape(3, 3)
    found, one_by_one = both(monkeypatch, lax.linalg.lu, a)
    whole = [k for k in range(60) if k not in (3, 4)]
    agree(([x[whole] for x in found], [x[whole] for x in one_by_one]), 10)
    inverses = np.asarray(gnp.linalg.inv(a))
    for k in (0, *range(6, 60)):
        np.testing.assert_allclose(inverses[k] @ a[k], np.eye(3), atol=1e-9)
    packed = both(monkeypatch, lax.linalg.geqrf, np.where(np.isfinite(a), a, 1.0))
    agree(packed, 10)


def test_large_and_tiny_columns_do_not_overflow(monkeypatch):
    a = drawn((40, 3, 3), "float32")
    for scale in (1e30, 1e-30):
        agree(both(monkeypatch, lambda a: lax.linalg.qr(a)[0], (a * scale).astype(np.float32)), 10)


def test_under_vmap_and_grad_it_is_the_same():
    a, b = drawn((100, 3, 3), "float64"), drawn((100, 3), "float64")
    found = ga.vmap(gnp.linalg.solve)(a, b)
    np.testing.assert_allclose(np.einsum("nij,nj->ni", a, found), b, atol=1e-8)
    slope = ga.grad(lambda a, b: ga.vmap(gnp.linalg.solve)(a, b).sum(), 1)(a, b)
    np.testing.assert_allclose(slope, np.linalg.inv(a).sum(1), rtol=1e-6, atol=1e-8)
    gradient = ga.grad(lambda a: gnp.linalg.det(a).sum())(a)
    wanted = np.linalg.det(a)[:, None, None] * np.linalg.inv(a).swapaxes(1, 2)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)


def test_long_stacks_are_taken_in_parts(monkeypatch):
    monkeypatch.setattr(stacks, "AT_ONCE", 300)
    a = drawn((1000, 3, 3), "float64")
    ga.clear_caches()
    lu, _, order = (np.asarray(x) for x in lax.linalg.lu(a))
    lower = np.tril(lu, -1) + np.eye(3)
    moved = np.take_along_axis(a, order[:, :, None], 1)
    np.testing.assert_allclose(lower @ np.triu(lu), moved, atol=1e-10)
