"""`custom_linear_solve`, `custom_root`, and loops around functions with rules of their own."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.unit.control.test_control_flow import MATRIX, X, assert_close, differences

A = np.array([[2.0, 1, 0], [0, 3, 1], [1, 0, 4]])
B = np.array([1.0, 2, 3])


@pytest.fixture(autouse=True)
def double_precision():
    with ga.enable_x64(True):
        yield


# ---- linear systems ----


def iterate(matvec, b):
    """Richardson's iteration: nothing a derivative should go through."""
    return lax.while_loop(
        lambda x: gnp.abs(b - matvec(x)).max() > 1e-13, lambda x: x + 0.2 * (b - matvec(x)), b * 0
    )


def solution(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, iterate, iterate)


def test_derivatives_of_a_linear_system():
    a, b = gnp.asarray(A), gnp.asarray(B)
    assert_close(solution(a, b), np.linalg.solve(A, B), 1e-11)

    def total(a, b):
        return gnp.sin(solution(a, b)).sum()

    (of_a,) = differences(lambda a: total(a, b), A)
    (of_b,) = differences(lambda b: total(a, b), B)
    assert_close(ga.grad(total, (0, 1))(a, b), [of_a, of_b], 1e-6)
    assert_close(ga.jit(ga.grad(total, (0, 1)))(a, b), [of_a, of_b], 1e-6)
    assert_close(ga.jacfwd(total, (0, 1))(a, b), [of_a, of_b], 1e-6)
    (second,) = differences(ga.grad(lambda b: total(a * b[0], b)), B)
    assert_close(ga.hessian(lambda b: total(a * b[0], b))(b), second, 1e-5)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_linear_systems_under_vmap(axes):
    a = np.stack([A, A + A.T]) if axes[0] == 0 else A
    b = np.stack([B, B + 1]) if axes[1] == 0 else B

    gradient = ga.grad(lambda a, b: solution(a, b).prod(), (0, 1))
    found = ga.vmap(gradient, axes)(gnp.asarray(a), gnp.asarray(b))
    for i in range(2):
        one = [x[i] if d == 0 else x for x, d in zip((a, b), axes, strict=True)]
        expected = gradient(*map(gnp.asarray, one))
        assert_close([f[i] for f in found], expected, 1e-9)


def test_symmetric_systems_and_what_solvers_return_besides():
    s = gnp.asarray(A + A.T)

    def counted(matvec, b):
        return iterate(matvec, b), {"steps": 3}

    def f(b):
        return lax.custom_linear_solve(lambda x: s @ x, b, counted, symmetric=True, has_aux=True)

    x, aux = f(gnp.asarray(B))
    assert_close(x, np.linalg.solve(A + A.T, B), 1e-11)
    assert int(aux["steps"]) == 3
    gradient = ga.grad(lambda b: f(b)[0].sum())(gnp.asarray(B))
    assert_close(gradient, np.linalg.solve(A + A.T, np.ones(3)), 1e-11)


# ---- roots ----


def newton(f, x):
    return lax.while_loop(
        lambda x: gnp.abs(f(x)).max() > 1e-13, lambda x: x - f(x) / ga.grad(f)(x), x
    )


def cube_root(y):
    return lax.custom_root(lambda x: x**3 - y, 1.0, newton, lambda g, y: y / g(1.0))


def test_derivatives_of_a_root():
    f, y = cube_root, 2.0
    first, second = y ** (-2 / 3) / 3, -2 * y ** (-5 / 3) / 9
    assert_close(f(y), y ** (1 / 3))
    assert_close([ga.grad(f)(y), ga.jit(ga.grad(f))(y), ga.grad(ga.jit(f))(y)], [first] * 3)
    assert_close(ga.jvp(f, (y,), (2.0,))[1], 2 * first)
    assert_close([ga.grad(ga.grad(f))(y), ga.jit(ga.grad(ga.grad(f)))(y)], [second] * 2)


def test_roots_under_vmap():
    y = np.array([1.0, 2.0, 5.0])
    assert_close(ga.vmap(cube_root)(gnp.asarray(y)), np.cbrt(y))
    assert_close(ga.vmap(ga.grad(cube_root))(gnp.asarray(y)), y ** (-2 / 3) / 3)
    total = ga.grad(lambda y: ga.vmap(cube_root)(y).sum())
    assert_close(total(gnp.asarray(y)), y ** (-2 / 3) / 3)


def test_roots_with_more_results():
    def f(y):
        def solve(f, x):
            return newton(f, x), {"steps": 2}

        return lax.custom_root(
            lambda x: x**3 - y, 1.0, solve, lambda g, y: y / g(1.0), has_aux=True
        )

    assert int(f(2.0)[1]["steps"]) == 2
    assert_close(ga.grad(lambda y: f(y)[0])(2.0), 2 ** (-2 / 3) / 3)


MISUSE = [
    (lambda b: lax.custom_linear_solve(lambda x: x[:2], b, iterate), ValueError,
     "matvec() output shapes must match b, got [(2,)] and [(3,)]"),
    (lambda b: lax.custom_linear_solve(lambda x: (x,), b, iterate), TypeError,
     "matvec() output pytree structure must match b"),
    (lambda b: lax.custom_linear_solve(lambda x: x, b, lambda m, b: b[:2]), ValueError,
     "solve() output shapes must match b"),
    (lambda b: ga.grad(lambda b: lax.custom_linear_solve(lambda x: x, b, lambda m, b: b).sum())(b),
     TypeError, "transpose_solve required for backwards mode"),
    (lambda b: lax.custom_root(lambda x: (x,), 1.0, newton, lambda g, y: y), TypeError,
     "f() output pytree structure must match initial_guess"),
    (lambda b: lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), lambda g, y: y), TypeError,
     "solve() output pytree structure must match initial_guess"),
    (lambda b: lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: (y,)), TypeError,
     "tangent_solve() output pytree structure must match x"),
]  # fmt: skip


@pytest.mark.parametrize(("misuse", "error", "words"), MISUSE, ids=[w[:40] for *_, w in MISUSE])
def test_misuse_is_explained(misuse, error, words):
    with pytest.raises(error) as caught:
        misuse(gnp.asarray(B))
    assert words in str(caught.value)


# ---- rules of their own inside loops ----


@ga.custom_jvp
def tripled(x):
    return gnp.sin(x)


tripled.defjvp(lambda primals, tangents: (tripled(primals[0]), 3 * tangents[0]))


@ga.custom_vjp
def fivefold(x):
    return gnp.sin(x)


fivefold.defvjp(lambda x: (fivefold(x), None), lambda _, ct: (5 * ct,))


@pytest.mark.parametrize(("fun", "slope"), [(tripled, 3.0), (fivefold, 5.0)])
def test_custom_rules_in_loops_and_branches(fun, slope):
    def looped(x):
        return lax.scan(lambda c, y: (c + fun(y), None), 0.0, x)[0]

    def branched(x):
        return lax.cond(x[0] > 0, lambda x: fun(x).sum(), lambda x: x.sum(), x)

    x = gnp.asarray(X)
    for f in (looped, branched):
        assert_close(ga.grad(f)(x), np.full(3, slope))
        assert_close(ga.jit(ga.grad(f))(x), np.full(3, slope))
    rows = gnp.asarray(MATRIX)
    assert_close(ga.vmap(ga.grad(looped))(rows), np.full((2, 3), slope))
    assert_close(ga.vmap(ga.grad(branched))(rows), np.array([[slope] * 3, [1.0] * 3]))


def test_checkpoints_in_loops_and_loops_in_checkpoints():
    def step(c, y):
        return c * gnp.sin(y) + gnp.cos(c), c

    def loop(step):
        return lambda x: lax.scan(step, x[0], x)[0]

    x = gnp.asarray(X)
    plain, inner, outer = loop(step), loop(ga.checkpoint(step)), ga.checkpoint(loop(step))
    expected, second = ga.grad(plain)(x), ga.hessian(plain)(x)
    for f in (inner, outer):
        assert_close(ga.grad(f)(x), expected)
        assert_close(ga.jit(ga.grad(f))(x), expected)
        assert_close(ga.hessian(f)(x), second)
        assert_close(ga.vmap(ga.grad(f))(x[None])[0], expected)
