"""Second derivatives of determinants: polynomials, whatever the rank of the matrix.

The reference is their definition: determinants without two rows and two columns, of doubles.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp


def hessian(a: np.ndarray) -> np.ndarray:
    """Of all pairs of elements, from minors."""
    n = len(a)
    found = np.zeros((n,) * 4, a.dtype)
    for i, j, k, m in np.ndindex(*found.shape):
        if i != k and j != m:
            minor = np.delete(np.delete(a, (i, k), 0), (j, m), 1)
            # A sign for each place, and one for the order of the rows and of the columns.
            sign = (-1) ** (i + j + k + m) * np.sign(k - i) * np.sign(m - j)
            found[i, j, k, m] = sign * np.linalg.det(minor)
    return found


def of_rank(n: int, rank: int, rng, dtype=np.float64) -> np.ndarray:
    left, right = (rng.integers(-2, 3, shape).astype(dtype) for shape in ((n, rank), (rank, n)))
    return left @ right if rank < n else left


def matrices(n: int, rng) -> list[np.ndarray]:
    """Of every rank, with pivots that are 0, that are rounded to little, and equal numbers."""
    exact = [of_rank(n, rank, rng) for rank in range(n + 1)]
    rounded = [x @ rng.standard_normal((n, n)) for x in exact]
    regular = [np.eye(n), np.eye(n) + 1, np.diag(np.arange(n) // 2.0), np.eye(n, k=1)]
    return [*exact, *rounded, *regular]


@pytest.mark.parametrize("n", [4, 5, 6])
def test_hessians_at_every_rank(n, rng):
    stack = np.stack(matrices(n, rng))
    expected = np.stack([hessian(a) for a in stack])
    with ga.enable_x64(True):
        for name, function in {
            "reverse": ga.jacfwd(ga.jacrev(gnp.linalg.det)),
            "forward": ga.jacfwd(ga.jacfwd(gnp.linalg.det)),
            "twice back": ga.jacrev(ga.jacrev(gnp.linalg.det)),
        }.items():
            found = np.stack(list(map(ga.jit(function), stack)))
            np.testing.assert_allclose(found, expected, 1e-7, 1e-7, err_msg=name)
        # Singular ones among others.
        found = ga.vmap(ga.hessian(gnp.linalg.det))(stack)
        np.testing.assert_allclose(found, expected, 1e-7, 1e-7)


def test_hessians_of_complex_matrices(rng):
    n = 5
    for rank in range(n + 1):
        a = of_rank(n, rank, rng, np.complex128) + 1j * of_rank(n, min(rank, 1), rng)
        with ga.enable_x64(True):
            found = ga.hessian(gnp.linalg.det, holomorphic=True)(a)
        np.testing.assert_allclose(found, hessian(a), 1e-7, 1e-7)


def test_in_single_precision(rng):
    function = ga.jit(ga.hessian(gnp.linalg.det))
    for a in matrices(6, rng):
        expected, found = hessian(a), function(a.astype(np.float32))
        size = max(abs(expected).max(), 1)
        np.testing.assert_allclose(found, expected, 2e-3, 2e-3 * size)


def test_third_derivatives_of_regular_matrices():
    """Of the identity, whose singular values are equal: 1 and -1 where the places permute."""
    n = 5
    third = np.asarray(ga.jacfwd(ga.hessian(gnp.linalg.det))(np.eye(n, dtype=np.float32)))
    assert set(np.round(third, 4).ravel().tolist()) == {-1, 0, 1}
    assert third[0, 0, 1, 1, 2, 2] == 1 and third[0, 1, 1, 0, 2, 2] == -1
