"""The acceptance tests of the founding texts: control flow that stays inside a program. One test an
item: each form by itself, jitted, differentiated and vectorised.

They read as the texts do, with the name of the library changed.
"""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import grad, jit, lax, vmap


def close(got, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


def squared_or_cubed(x):
    return lax.cond(x < 0.0, lambda x: x**2.0, lambda x: x**3.0, x)


def test_cond_as_printed():
    square, cube = (lambda x: x**2.0), (lambda x: x**3.0)
    assert repr(lax.cond(False, square, cube, jnp.array([2.0]))) == "Array([8.], dtype=float32)"
    assert repr(lax.cond(True, square, cube, jnp.array([-2.0]))) == "Array([4.], dtype=float32)"


def test_cond_inside_jit():
    f = jit(squared_or_cubed)
    assert (float(f(2.0)), float(f(-2.0))) == (8.0, 4.0)


def test_cond_transformed():
    x = jnp.array([-2.0, 2.0])
    close(vmap(squared_or_cubed)(x), [4, 8])
    close(vmap(grad(squared_or_cubed))(x), [-4, 12])
    close(jit(vmap(grad(grad(squared_or_cubed))))(x), [2, 12])


def test_cond_takes_one_branch():
    ran = []

    def branch(name):
        def f(x):
            ran.append(name)
            return x

        return f

    with jax.disable_jit():
        lax.cond(True, branch("true"), branch("false"), 1.0)
    assert ran == ["true"]


def test_switch():
    branches = [lambda x: x, lambda x: 2 * x, lambda x: x**2]
    assert [float(lax.switch(i, branches, 5.0)) for i in range(3)] == [5, 10, 25]
    # An index out of range takes the nearest branch.
    assert [float(lax.switch(i, branches, 5.0)) for i in (-4, 9)] == [5, 25]
    index, x = jnp.arange(3), jnp.full(3, 5.0)
    close(vmap(lambda i, x: lax.switch(i, branches, x))(index, x), [5, 10, 25])
    close(vmap(grad(lambda x, i: lax.switch(i, branches, x)))(x, index), [1, 2, 10])


def test_while_loop():
    def halvings(n):
        return lax.while_loop(lambda c: c[0] > 1, lambda c: (c[0] // 2, c[1] + 1), (n, 0))[1]

    assert [int(halvings(n)) for n in (1, 8, 1000)] == [0, 3, 9]
    assert int(jit(halvings)(1000)) == 9
    np.testing.assert_array_equal(vmap(halvings)(jnp.array([1, 8, 1000])), [0, 3, 9])


def power(x, n):
    """x to the n-th, by a loop whose end is data."""
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]


def test_while_loop_forward():
    assert jax.jvp(lambda x: power(x, 4), (2.0,), (1.0,)) == (16.0, 32.0)
    assert float(jax.jacfwd(jax.jacfwd(lambda x: power(x, 4)))(2.0)) == 48.0


def test_while_loop_reverse():
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        grad(power)(2.0, 4)


def test_bounded_while_loop_reverse():
    """With the most steps it may take, a while loop has gradients."""

    def bounded(x, n):
        start = (0, 1.0)
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), start, max_steps=10
        )[1]

    assert float(bounded(2.0, 4)) == 16.0
    assert float(grad(bounded)(2.0, 4)) == 32.0
    assert float(jit(grad(grad(bounded)))(2.0, 4)) == 48.0
    close(vmap(grad(bounded), (None, 0))(2.0, jnp.arange(5)), [0, 1, 4, 12, 32])


def test_fori_loop():
    assert int(lax.fori_loop(0, 10, lambda i, total: total + i, 0)) == 45
    assert int(jit(lambda n: lax.fori_loop(0, n, lambda i, total: total + i, 0))(10)) == 45
    product = lambda x: lax.fori_loop(0, 5, lambda i, y: y * x, 1.0)
    assert float(grad(product)(2.0)) == 80.0
    close(vmap(grad(product))(jnp.array([1.0, 2.0])), [5, 80])


def test_scan():
    carry, ys = lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.arange(5.0))
    assert float(carry) == 10.0
    close(ys, [0, 0, 2, 9, 24])
    last, seen = lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(3.0), reverse=True)
    assert float(last) == 3.0
    close(seen, [3, 2, 0])


def test_scan_over_trees():
    def step(state, x):
        a, b = state["a"] + x["up"], state["b"] * x["by"]
        return {"a": a, "b": b}, (a, b)

    xs = {"up": jnp.arange(4.0), "by": jnp.full((4, 2), 2.0)}
    last, (a, b) = jit(lambda: lax.scan(step, {"a": 0.0, "b": jnp.ones(2)}, xs))()
    close(last["a"], 6)
    close(last["b"], [16, 16])
    close(a, [0, 1, 3, 6])
    assert b.shape == (4, 2)


def test_scan_equals_the_python_loop():
    def step(c, x):
        c = jnp.sin(c) * x
        return c, c

    def scanned(c, xs):
        return jnp.sum(lax.scan(step, c, xs)[1])

    def looped(c, xs):
        total = 0.0
        for x in xs:
            c, y = step(c, x)
            total = total + y
        return total

    c, xs = 0.3, jnp.linspace(0.5, 1.5, 6)
    for how in (
        lambda f: f,
        lambda f: grad(f, argnums=(0, 1)),
        lambda f: jax.hessian(f, argnums=(0, 1)),
        lambda f: lambda *a: jax.jvp(f, a, (1.0, jnp.ones(6))),
    ):
        one, other = how(scanned)(c, xs), how(looped)(c, xs)
        jax.tree.map(lambda a, b: close(a, b, rtol=1e-4), one, other)
    many = jnp.array([0.3, -1.0, 2.0])
    close(vmap(grad(scanned), (0, None))(many, xs), [grad(looped)(c, xs) for c in many], rtol=1e-4)


def test_long_scan():
    """Ten thousand steps differentiate without recursion."""

    def fixed_point(a):
        return lax.scan(lambda x, _: (0.5 * jnp.cos(x) + a, None), 0.0, length=10_000)[0]

    x = float(fixed_point(0.2))
    close(jit(grad(fixed_point))(0.2), 1 / (1 + 0.5 * np.sin(x)), rtol=1e-4)


def test_select():
    which = jnp.array([True, False, True])
    close(lax.select(which, jnp.ones(3), jnp.zeros(3)), [1, 0, 1])
    x = jnp.arange(-2.0, 3.0)
    close(jnp.where(x < 0, -x, 10 * x), [2, 1, 0, 10, 20])
    close(jnp.select([x < -1, x < 1], [x * 0, x * 100], 7.0), [0, -100, 0, 7, 7])
    close(jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: 10 * x]), [2, 1, 0, 10, 20])


def test_select_transformed():
    x = jnp.arange(-2.0, 3.0)
    f = lambda x: jnp.where(x < 0, x**2, x**3)
    g = lambda x: jnp.piecewise(x, [x < 0], [lambda x: x**2, lambda x: x**3])
    h = lambda x: jnp.select([x < 0], [x**2], x**3)
    for form in (f, g, h):
        close(jit(vmap(grad(form)))(x), [-4, -2, 0, 3, 12])


def test_map():
    x = jnp.arange(5.0)
    close(lax.map(lambda x: x**2, x), [0, 1, 4, 9, 16])
    close(lax.map(lambda x: x**2, x, batch_size=2), [0, 1, 4, 9, 16])
    close(grad(lambda x: jnp.sum(lax.map(lambda x: x**2, x)))(x), 2 * np.arange(5.0))


def test_associative_scan():
    x = jnp.array([1.0, 2.0, 3.0, 4.0, 5.0])
    close(lax.associative_scan(jnp.multiply, x), [1, 2, 6, 24, 120])
    close(lax.associative_scan(jnp.add, x, reverse=True), [15, 14, 12, 9, 5])
    total = lambda x: jnp.sum(lax.associative_scan(jnp.multiply, x))
    close(grad(total)(x), [153, 76, 50, 36, 24])


def test_states_must_keep_their_type():
    with pytest.raises(TypeError, match="carry"):
        lax.scan(lambda c, x: ((c, c), x), 0.0, jnp.arange(3.0))
    with pytest.raises(TypeError, match="carry"):
        lax.while_loop(lambda c: True, lambda c: jnp.ones(3), 0.0)
    with pytest.raises(TypeError, match="branches must have equal output types"):
        lax.cond(True, lambda x: x, lambda x: jnp.ones(2), 0.0)


def test_printed_in_a_jaxpr():
    text = str(jax.make_jaxpr(squared_or_cubed)(1.0))
    assert "cond[" in text and "branches=" in text
    text = str(jax.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, x: x * 2, x))(1.0))
    assert "scan[" in text and "length=3" in text
