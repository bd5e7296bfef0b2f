"""Stacks of very many small matrices: kernels do them, and no library is called for each.

In: systems and factors of stacks. Out: values of the emitted kernels, run by the stand-in for CuPy,
against NumPy in float64; and launches.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()

MANY = 70
RANDOM = np.random.default_rng(0)


def matrices(n: int, *more: int) -> np.ndarray:
    return RANDOM.standard_normal((MANY, n, *(more or (n,)))).astype(np.float32)


def on_gpu(function, *arguments):
    given = [ga.device_put(x, ga.devices("gpu")[0]) for x in arguments]
    return [np.asarray(x) for x in ga.tree.leaves(ga.jit(function)(*given))]


@pytest.mark.parametrize("n", [1, 4])
def test_factors_are_those_of_the_matrix(n, fake_gpu):
    a = matrices(n)
    a[0], a[1] = 0, np.eye(n)[::-1]  # a column of zeros; every pivot below its place
    packed, pivots, order = on_gpu(lax.linalg.lu, a)
    low, high = np.tril(packed, -1) + np.eye(n), np.triu(packed)
    swapped = np.take_along_axis(a, order[..., None], 1)
    np.testing.assert_allclose(low @ high, swapped, rtol=1e-4, atol=1e-5)
    assert pivots.dtype == np.int32 and abs(np.tril(packed, -1)).max() <= 1

    symmetric = a[2:] @ a[2:].swapaxes(1, 2) + np.eye(n, dtype=np.float32)
    symmetric[5] = -symmetric[5]
    (factor,) = on_gpu(gnp.linalg.cholesky, symmetric)
    assert np.isnan(factor[5]).any()
    expected = np.linalg.cholesky(np.delete(symmetric, 5, 0).astype(np.float64))
    np.testing.assert_allclose(np.delete(factor, 5, 0), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_triangular_systems(left, lower, turned, fake_gpu):
    a = matrices(3) + 3 * np.eye(3, dtype=np.float32)
    b = matrices(3, 2) if left else matrices(2, 3)

    def solved(a, b, unit):
        return lax.linalg.triangular_solve(
            a, b, left_side=left, lower=lower, transpose_a=turned, unit_diagonal=unit
        )

    for unit in (False, True):
        (x,) = on_gpu(lambda a, b, unit=unit: solved(a, b, unit), a, b)
        part = (np.tril if lower else np.triu)(a, 0).astype(np.float64)
        if unit:
            part[:, range(3), range(3)] = 1
        part = part.swapaxes(1, 2) if turned else part
        product = part @ x if left else x @ part
        np.testing.assert_allclose(product, b, rtol=1e-3, atol=1e-3)


def test_many_systems_are_a_few_launches(plans_only):
    many, n = 1 << 18, 4
    a, b = shape("float32", many, n, n), shape("float32", many, n, 1)
    solved = ga.explain(gnp.linalg.solve, platform="cuda")(a, b)
    assert solved.launches <= 8
    assert solved.bytes_moved < 6 * 4 * many * (n * n + 2 * n)
    factored = ga.explain(gnp.linalg.cholesky, platform="cuda")(a)
    assert factored.launches <= 4
    # Larger ones, and few of them, are for the library.
    assert ga.explain(gnp.linalg.cholesky, platform="cuda")(shape("float32", 3, 4, 4)).launches > 3
