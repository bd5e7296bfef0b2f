"""Very many small matrices, entry by entry: one kernel does what a program does with them.

In: programs on stacks of matrices: regular, singular, with pivots anywhere, with nan. Kernels run
on the simulator; results are those of NumPy in float64, or of LAPACK where a matrix has none.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import simulator
from gpuarray.backends.cuda import library
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.rewrite.small_matrices import take_apart_small_matrices
from gpuarray.config import strict
from tests.golden import shape
from tests.support import simulated

simulated.need_compiler()
RANDOM = np.random.default_rng(0)
MANY = 80


def matrices(n: int, *more: int) -> np.ndarray:
    return RANDOM.standard_normal((MANY, n, *(more or (n,)))).astype(np.float32)


def regular(n: int) -> np.ndarray:
    """Well-conditioned matrices whose rows are in every order: each pivot is somewhere else."""
    rows = np.argsort(RANDOM.random((MANY, n)), axis=1)
    return np.take_along_axis(0.3 * matrices(n) + 2 * np.eye(n), rows[..., None], 1).astype("f4")


def positive(n: int) -> np.ndarray:
    a = matrices(n)
    return a @ a.swapaxes(1, 2) + np.eye(n, dtype=np.float32)


def on_simulator(function, *arguments) -> list[np.ndarray]:
    plan = ga.jit(function).lower(*arguments).plan
    with strict(True):
        run = simulator.build(plan, [np.asarray(c) for c in plan.graph.consts])
    # Nothing is left for a library.
    assert not plan.on_device.library_calls
    return [np.asarray(x) for x in host.local.run(run, *arguments)]


def compare(function, reference, *arguments, limit=1e-4) -> None:
    expected = reference(*(x.astype(np.float64) for x in arguments))
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    found = on_simulator(function, *arguments)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, limit, limit)


def taken(packed, order):
    """P^T L U."""
    n = packed.shape[-1]
    product = (np.tril(packed, -1) + np.eye(n)) @ np.triu(packed)
    return np.take_along_axis(product, np.argsort(order, -1)[..., None], -2)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_factors(n):
    a = matrices(n)
    a[0], a[1] = 0, np.eye(n)[::-1]  # columns of zeros; every pivot below its place
    a[2, :, 0] = a[3, 0] = 0
    packed, pivots, order = on_simulator(lax.linalg.lu, a)
    np.testing.assert_allclose(taken(packed, order), a, 1e-4, 1e-5)
    assert pivots.dtype == order.dtype == np.int32 and abs(np.tril(packed, -1)).max() <= 1
    # LAPACK's choices, also among equal entries and zeros.
    expected = [np.asarray(x) for x in lax.linalg.lu(a)]
    np.testing.assert_array_equal(pivots, expected[1])
    np.testing.assert_array_equal(order, expected[2])


@pytest.mark.parametrize("columns", [1, 3, 9])
def test_solutions(columns):
    compare(gnp.linalg.solve, np.linalg.solve, regular(4), matrices(4, columns))


PROGRAMS = {
    "inverse": (gnp.linalg.inv, np.linalg.inv, (regular(3),)),
    "determinant": (gnp.linalg.det, np.linalg.det, (matrices(4),)),
    "logarithm": (gnp.linalg.slogdet, np.linalg.slogdet, (matrices(4),)),
    "factor": (gnp.linalg.cholesky, np.linalg.cholesky, (positive(4),)),
    "stacks of stacks": (
        gnp.linalg.inv,
        np.linalg.inv,
        (regular(2).reshape(8, 10, 2, 2),),
    ),
    "more on both sides": (
        lambda a, b: gnp.sum(gnp.sin(gnp.linalg.solve(a * a[:1], b + 1))[..., 0] * 2, -1),
        lambda a, b: np.sum(np.sin(np.linalg.solve(a * a[:1], b + 1))[..., 0] * 2, -1),
        (positive(3), matrices(3, 2)),
    ),
    "rows of results": (
        lambda a: (gnp.linalg.inv(a)[:, ::-1, 1:].swapaxes(1, 2), gnp.linalg.inv(a).sum(0)),
        lambda a: (np.linalg.inv(a)[:, ::-1, 1:].swapaxes(1, 2), np.linalg.inv(a).sum(0)),
        (regular(3),),
    ),
    "padded and joined": (
        lambda a: gnp.pad(
            gnp.concatenate([gnp.linalg.inv(a), a[:, :1]], 1), ((0, 0), (1, 0), (0, 2))
        ),
        lambda a: np.pad(np.concatenate([np.linalg.inv(a), a[:, :1]], 1), ((0, 0), (1, 0), (0, 2))),
        (regular(3),),
    ),
    "one for many sides": (
        lambda a, b: gnp.linalg.solve(a[0], b),
        lambda a, b: np.linalg.solve(a[0], b),
        (regular(3), matrices(3, 2)),
    ),
    "rows of a constant": (
        ga.vmap(gnp.linalg.inv, 2, 1),
        lambda a: np.moveaxis(np.linalg.inv(np.moveaxis(a, 2, 0)), 0, 1),
        (np.moveaxis(regular(3), 0, 2).copy(),),
    ),
    "a constant for stacks of stacks": (
        ga.vmap(ga.vmap(gnp.linalg.inv)),
        np.linalg.inv,
        (regular(3).reshape(8, 10, 3, 3),),
    ),
    # An operand that is searched where it lies.
    "searched for": (
        lambda a: gnp.searchsorted(np.float32([-1, 0, 1]), gnp.linalg.inv(a)),
        lambda a: np.searchsorted([-1, 0, 1], np.linalg.inv(a)),
        (regular(3),),
    ),
}


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "one for many sides"])
def test_programs(name):
    compare(*PROGRAMS[name][:2], *PROGRAMS[name][2])


def test_no_right_hand_sides():
    a, b = regular(3), matrices(3, 0)
    (found,) = simulated.run(simulated.built(ga.jit(gnp.linalg.solve).lower(a, b).jaxpr), [a, b])
    assert found.shape == b.shape and found.dtype == b.dtype


def test_derivatives():
    """Of solutions, determinants and factors: by their formulas."""

    def transposed(x):
        return np.swapaxes(x, -1, -2)

    def of_solution(a, b):
        back = np.linalg.solve(transposed(a), np.ones_like(b))
        return -back @ transposed(np.linalg.solve(a, b)), back

    gradient = ga.grad(lambda a, b: gnp.linalg.solve(a, b).sum(), (0, 1))
    compare(gradient, of_solution, regular(4), matrices(4, 2))

    def of_determinant(a):
        return np.linalg.det(a)[:, None, None] * transposed(np.linalg.inv(a))

    for n in (3, 4):
        compare(ga.grad(lambda a: gnp.linalg.det(a).sum()), of_determinant, regular(n), limit=1e-3)
        compare(
            ga.grad(lambda a: gnp.linalg.slogdet(a)[1].sum()),
            lambda a: transposed(np.linalg.inv(a)),
            regular(n),
        )

    def by_differences(a):
        out, h = np.empty_like(a), 1e-6
        for i, j in np.ndindex(a.shape[1:]):
            step = np.zeros(a.shape[1:])
            step[i, j] += h / 2
            step[j, i] += h / 2
            above, below = np.linalg.cholesky(a + step), np.linalg.cholesky(a - step)
            out[:, i, j] = (above - below).sum((1, 2)) / (2 * h)
        return out

    compare(
        ga.grad(lambda a: gnp.linalg.cholesky(a).sum()), by_differences, positive(3), limit=1e-3
    )


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("sides", [2, 5])
def test_triangular_systems(left, lower, turned, sides):
    a = matrices(3) + 3 * np.eye(3, dtype=np.float32)
    b = matrices(3, sides) if left else matrices(sides, 3)

    def solved(a, b):
        options = {"left_side": left, "lower": lower, "transpose_a": turned}
        solve = lax.linalg.triangular_solve
        return [solve(a, b, **options, unit_diagonal=unit) for unit in (False, True)]

    def expected(a, b):
        found = []
        for unit in (False, True):
            part = (np.tril if lower else np.triu)(a)
            if unit:
                part[:, range(3), range(3)] = 1
            part = part.swapaxes(1, 2) if turned else part
            x = np.linalg.solve(
                part if left else part.swapaxes(1, 2), b if left else b.swapaxes(1, 2)
            )
            found.append(x if left else x.swapaxes(1, 2))
        return found

    compare(solved, expected, a, b, limit=1e-3)


def test_matrices_without_a_solution():
    """What LAPACK gives: infinities for singular matrices, nan where there is no factor."""
    a, b = regular(3), matrices(3, 1)
    a[0, :, 1] = 0  # singular
    a[1] = 0
    a[2, 1, 1] = np.nan
    found = on_simulator(gnp.linalg.solve, a, b)[0]
    expected = np.asarray(gnp.linalg.solve(a, b))
    np.testing.assert_array_equal(np.isfinite(found[3:]), True)
    np.testing.assert_array_equal(np.isfinite(found[:2]), np.isfinite(expected[:2]))
    assert np.isnan(found[2]).any() and np.isnan(expected[2]).any()
    np.testing.assert_array_equal(on_simulator(gnp.linalg.det, a)[0][:2], 0)

    p = positive(3)
    p[5] = -p[5]
    p[6, 2, 2] = -1
    factors = on_simulator(gnp.linalg.cholesky, p)[0]
    assert (
        np.isnan(factors[5:7]).any((1, 2)).all()
        and np.isfinite(np.delete(factors, (5, 6), 0)).all()
    )


@pytest.mark.parametrize(
    ("function", "times", "launches"),
    [
        (gnp.linalg.solve, 1, 1),
        (lambda a, b: 2 * gnp.linalg.solve(a, b) + b, 1, 1),
        (lambda a, b: gnp.linalg.inv(a), 1.5, 1),
        (lambda a, b: (gnp.linalg.det(a), b), 1, 2),
        (ga.grad(lambda a, b: gnp.linalg.solve(a, b).sum(), (0, 1)), 1.75, 1),
        (lambda a, b: gnp.linalg.cholesky(a), 1.5, 1),
        (lambda a, b: gnp.linalg.slogdet(a), 0.75, 1),
        (lambda a, b: (gnp.linalg.inv(a) > 9).any((1, 2)), 0.75, 1),
        (ga.grad(lambda a, b: gnp.linalg.det(a).sum()), 1.5, 1),
        (ga.grad(lambda a, b: gnp.linalg.slogdet(a)[1].sum()), 1.5, 1),
    ],
)
def test_a_program_is_one_kernel(function, times, launches):
    many = 1 << 18
    a, b = shape("float32", many, 4, 4), shape("float32", many, 4, 1)
    e = ga.explain(function, platform="cuda")(a, b)
    assert e.launches <= launches
    assert e.bytes_moved <= 1.05 * times * 4 * many * 24


@pytest.mark.parametrize(
    "a",
    [
        shape("float32", 8, 4, 4),  # few
        shape("float32", 1 << 10, 5, 5),  # large
        shape("complex64", 1 << 10, 2, 2),
        shape("float32", 1 << 10, 4, 3),  # not square
        shape("float32", 4, 4),
    ],
)
def test_others_are_for_a_library(a):
    graph = ga.jit(lax.linalg.lu).lower(a).plan.graph
    made = take_apart_small_matrices(graph)
    assert [e.primitive.name for e in made.eqns] == [e.primitive.name for e in graph.eqns]


@pytest.mark.parametrize("fused", [True, False])
def test_on_a_gpu_no_library_is_called(fused, fake_gpu, monkeypatch):
    """With many right-hand sides and in 16 bits too; parts of arrays begin anywhere."""
    for name in ("packed_lu", "triangular_solve", "cholesky"):
        monkeypatch.setitem(library.ROUTINES, name, None)
    a, b = regular(2), matrices(2, 9)
    device = ga.devices("gpu")[0]
    with ga.fusion(fused):
        x, y = (ga.device_put(v, device)[3:] for v in (a, b))
        np.testing.assert_allclose(gnp.linalg.solve(x, y), np.linalg.solve(a, b)[3:], 1e-3, 1e-4)
        low = gnp.linalg.cholesky(gnp.swapaxes(x, 1, 2) @ x).astype("float16")
        half = lax.linalg.triangular_solve(low, y.astype("float16"), left_side=True, lower=True)
        product = np.tril(low.astype("float32")) @ half.astype("float32")
        np.testing.assert_allclose(product, b[3:], 1e-2, 1e-2)
