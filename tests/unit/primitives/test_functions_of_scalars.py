"""Functions of the user that fold or change numbers: loops, branches and arrays inside them.

In: such functions, on NumPy, native code, the simulator and the stand-in for a GPU; mapped and
differentiated. Out: what Python does with the same numbers, one after another.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from tests.support import simulated

X = np.random.default_rng(0).uniform(0.5, 1.5, (6, 5)).astype(np.float32)


def branches(a, b):
    """The larger one."""
    return lax.cond(a > b, lambda p, q: p + 0 * q, lambda p, q: q, a, b)


def turns(a, b):
    """The sum, by halves."""
    return lax.fori_loop(0, 2, lambda i, c: c + b * 0.5, a)


def until(a, b):
    """The product."""
    return lax.while_loop(lambda c: c[1] < 1, lambda c: (c[0] * b, c[1] + 1), (a, 0))[0]


def vectors(a, b):
    """The sum, of a vector, by a function that is compiled."""
    return gnp.sum(ga.jit(lambda x: x[::-1])(gnp.stack([a, b])))


def calls(a, b):
    """The product, by a function that is compiled."""
    return ga.jit(lambda p, q: p * q)(a, b)


@ga.custom_jvp
def with_tangents(a, b):
    """The sum, with a rule for tangents."""
    return a + b


with_tangents.defjvp(lambda primals, tangents: (with_tangents(*primals), sum(tangents)))


@ga.custom_vjp
def with_cotangents(a, b):
    """The sum, with a rule for cotangents."""
    return a + b


with_cotangents.defvjp(lambda a, b: (a + b, None), lambda _, ct: (ct, ct))


@ga.custom_batching.custom_vmap
def with_batches(a, b):
    """The sum, with a rule for batches."""
    return a + b


with_batches.def_vmap(lambda size, batched, a, b: (a + b, True))

FUNCTIONS = {
    branches: (max, -math.inf),
    turns: (lambda a, b: a + b, 0.0),
    until: (lambda a, b: a * b, 1.0),
    vectors: (lambda a, b: a + b, 0.0),
    calls: (lambda a, b: a * b, 1.0),
    with_tangents: (lambda a, b: a + b, 0.0),
    with_cotangents: (lambda a, b: a + b, 0.0),
    with_batches: (lambda a, b: a + b, 0.0),
}


def reduced(function):
    return lambda x: lax.reduce(x * 2, np.float32(FUNCTIONS[function][1]), function, (1,))


def expected(function, x):
    return [functools.reduce(FUNCTIONS[function][0], map(float, 2 * row)) for row in x]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_reductions(function):
    fold, want = reduced(function), expected(function, X)
    np.testing.assert_allclose(fold(X), want, 1e-5)
    np.testing.assert_allclose(ga.jit(fold)(X), want, 1e-5)
    np.testing.assert_allclose(ga.vmap(fold)(X[None])[0], want, 1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_reductions_on_a_gpu(function, fake_gpu):
    simulated.need_compiler()
    x = ga.device_put(X, ga.devices("gpu")[0])
    np.testing.assert_allclose(ga.jit(reduced(function))(x), expected(function, X), 1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_windows_and_updates(function):
    pair, start = FUNCTIONS[function]
    windows = lax.reduce_window(X, np.float32(start), function, (1, 2), (1, 1), "VALID")
    np.testing.assert_allclose(windows, np.vectorize(pair)(X[:, :-1], X[:, 1:]), 1e-5)
    changed = gnp.asarray(X).at[gnp.array([0, 3, 0])].apply(lambda v: function(v, v))
    want = X.copy()
    for row in (0, 3, 0):
        want[row] = np.vectorize(pair)(want[row], want[row])
    np.testing.assert_allclose(changed, want, 1e-5)


#: What meets numbers in an operation of three operands, and the same by NumPy.
WITH_NUMBERS = [
    (lambda v: gnp.where(v > 1, v, 0.5), lambda v: np.where(v > 1, v, 0.5)),
    (lambda v: gnp.where(v > 1, 2.0, 0.5), lambda v: np.where(v > 1, 2, 0.5)),
    (lambda v: gnp.clip(v, 0.75, 1.25), lambda v: np.clip(v, 0.75, 1.25)),
    (lambda v: lax.clamp(np.float32(1), v, np.float32(2)), lambda v: np.clip(v, 1, 2)),
    (lambda v: lax.select(v > 1, v, np.float32(1) * 3), lambda v: np.where(v > 1, v, 3)),
]


@pytest.mark.parametrize("function, same", WITH_NUMBERS)
def test_updates_with_numbers(function, same):
    def changed(x):
        return gnp.asarray(x).at[np.array([0, 3])].apply(function)

    want = X.copy()
    want[[0, 3]] = same(X[[0, 3]])
    np.testing.assert_allclose(changed(X), want, 1e-6)
    np.testing.assert_allclose(ga.jit(changed)(X), want, 1e-6)
    np.testing.assert_allclose(ga.vmap(changed)(X[None])[0], want, 1e-6)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not until])
def test_derivatives(function):
    """Of a sum 1, of a product the others, of the largest 1 at its place."""
    found = ga.grad(lambda x: reduced(function)(x).sum())(X)
    doubled = 2 * X.astype(np.float64)
    if function is branches:
        want = 2.0 * (X == X.max(1, keepdims=True))
    elif function is calls:
        want = 2 * np.prod(doubled, 1, keepdims=True) / doubled
    else:
        want = np.full_like(X, 2)
    np.testing.assert_allclose(found, want, 1e-4)


@pytest.mark.parametrize("function", [turns, calls, until])
def test_scans(function):
    """A function of arrays of any shape is not taken for one of numbers where it loops."""
    found = lax.associative_scan(function, X, axis=1)
    want = np.cumsum(X, 1) if function is turns else np.cumprod(X, 1)
    np.testing.assert_allclose(found, want, 1e-5)


def compounded(a, b):
    """(1 + a)(1 + b) - 1"""
    return a + b + a * b


def larger(p, q):
    """The larger of two numbers, and what lies beside it."""
    return gnp.maximum(p[0], q[0]), gnp.where(p[0] >= q[0], p[1], q[1])


AXES = [(0,), (1,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("axes", AXES)
def test_derivatives_along_axes(axes):
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (3, 4, 5)).astype(np.float32)

    def folded(x, start):
        return lax.reduce(x, start, compounded, axes).sum()

    found, of_start = ga.grad(folded, (0, 1))(x, np.float32(0.3))
    product = np.prod(1 + x.astype(np.float64), axes, keepdims=True)
    np.testing.assert_allclose(found, 1.3 * product / (1 + x), 1e-4)
    np.testing.assert_allclose(of_start, product.sum(), 1e-4)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_derivatives_of_few_elements(n):
    """Of several arrays; of none there is nothing but the initial values."""
    x, y = np.random.default_rng(n).uniform(-1, 1, (2, 6, n)).astype(np.float32)

    def chosen(x, y, start):
        return lax.reduce((x, y), (np.float32(-9), start), larger, (1,))[1].sum()

    of_x, of_y, of_start = ga.grad(chosen, (0, 1, 2))(x, y, np.float32(0))
    want = np.zeros((6, n))
    if n:
        np.put_along_axis(want, x.argmax(1)[:, None], 1, 1)
    np.testing.assert_array_equal(of_y, want)
    np.testing.assert_array_equal(of_x, 0)
    np.testing.assert_allclose(of_start, 0 if n else 6)


def test_a_derivative_is_two_launches():
    x = ga.ShapeDtypeStruct((4096, 256), "float32")
    gradient = ga.grad(lambda x: lax.reduce(x, np.float32(0), compounded, (1,)).sum())
    e = ga.explain(gradient, platform="cuda")(x)
    assert e.launches <= 2 and e.bytes_moved <= 5.1 * 4 * 4096 * 256
