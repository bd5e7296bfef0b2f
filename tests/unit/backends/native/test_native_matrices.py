"""Factors of small matrices and triangular systems as native code.

In: stacks of matrices of several sizes. Out: what NumPy and LAPACK make of them.
"""

import itertools

import numpy as np
import pytest
from scipy.linalg import lapack

import gpuarray as ga
from gpuarray import lax
from tests.support import natively

natively.need_compiler()

SHAPES = [(1, ()), (2, (3,)), (5, ()), (7, (20,)), (16, (2, 2))]


def run(cases):
    """Compile (function, operands) together, run them, and count those with native loops."""
    with ga.enable_x64(True):
        programs = [natively.written(ga.jit(f).lower(*xs).jaxpr) for f, xs in cases]
    natively.compile_all(programs)
    found = [p(*xs) for p, (_, xs) in zip(programs, cases, strict=True)]
    native = [any("_steps(" in k.text for k in p.kernels) for p in programs]
    return found, sum(native) / len(native)


def near(dtype):
    return {"rtol": 2e-4, "atol": 2e-4} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-10}


def drawn(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cholesky(dtype, rng):
    matrices = []
    for n, stack in SHAPES:
        a = drawn(rng, (*stack, n, n), dtype)
        matrices.append((a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(dtype))
    f = lambda x: lax.linalg.cholesky(x * 1, symmetrize_input=False) + 0
    found, native = run([(f, (x,)) for x in matrices])
    assert native == 1
    for x, (factor,) in zip(matrices, found, strict=True):
        np.testing.assert_allclose(factor, np.linalg.cholesky(x), **near(dtype))


def test_no_cholesky_factor_is_nan_for_that_matrix_alone():
    x = np.array([[[4, 2], [2, 5]], [[1, 2], [2, 1]], [[0, 0], [0, 1]]], np.float32)
    f = lambda x: lax.linalg.cholesky(x * 1, symmetrize_input=False) + 0
    ((factor,),), native = run([(f, (x,))])
    assert native == 1
    np.testing.assert_allclose(factor[0], [[2, 0], [1, 2]])
    assert np.isnan(factor[1:][:, [0, 1, 1], [0, 0, 1]]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lu(dtype, rng):
    matrices = [
        drawn(rng, (*stack, m, n), dtype) for n, stack in SHAPES for m in {n, n + 2, max(1, n - 1)}
    ]
    # A column of zeros, and equal candidates.
    matrices.append(np.array([[0, 1, 2], [0, 2, 1], [0, 2, 2]], dtype))
    found, native = run([(lambda x: [*lax.linalg.lu(x * 1), x + 1], (x,)) for x in matrices])
    assert native == 1
    for x, (lu, pivots, rows, _) in zip(matrices, found, strict=True):
        m, n = x.shape[-2:]
        k = min(m, n)
        lower = np.tril(lu[..., :k], -1) + np.eye(m, k)
        swapped = np.take_along_axis(x, rows[..., None].astype(int), -2)
        np.testing.assert_allclose(lower @ np.triu(lu[..., :k, :]), swapped, **near(dtype))
        for index in np.ndindex(x.shape[:-2]):
            getrf = lapack.sgetrf if dtype == "float32" else lapack.dgetrf
            np.testing.assert_array_equal(pivots[index], getrf(x[index])[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triangular_systems(dtype, rng):
    cases, wanted = [], []
    ways = itertools.product(SHAPES, *[(True, False)] * 4, (1, 3))
    for (n, stack), left, lower, turned, unit, k in ways:
        a = drawn(rng, (*stack, n, n), dtype) + 4 * np.eye(n, dtype=dtype)
        b = drawn(rng, (*stack, n, k) if left else (*stack, k, n), dtype)
        options = {"left_side": left, "lower": lower, "transpose_a": turned}
        options["unit_diagonal"] = unit
        f = lambda x, y, options=options: lax.linalg.triangular_solve(x * 1, y, **options) + 0
        cases.append((f, (a, b)))
        m = np.tril(a) if lower else np.triu(a)
        if unit:
            m = m * (1 - np.eye(n)) + np.eye(n)
        m = np.swapaxes(m, -1, -2) if turned else m
        if left:
            wanted.append(np.linalg.solve(m, b))
        else:
            turn = lambda x: np.swapaxes(x, -1, -2)
            wanted.append(turn(np.linalg.solve(turn(m), turn(b))))
    found, native = run(cases)
    assert native == 1
    for (x,), want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, want, **near(dtype))


def test_large_matrices_are_for_lapack(rng):
    x = drawn(rng, (40, 40), "float32")
    _, native = run([(lambda x: [*lax.linalg.lu(x * 1), x + 1], (x,))])
    assert native == 0
