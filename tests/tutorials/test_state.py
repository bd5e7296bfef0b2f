"""The tutorial "stateful computations": counters, the way from classes to pure functions, and a
linear regression.
"""

from typing import NamedTuple

import numpy as np

import gpuarray as jax
import gpuarray.numpy as jnp


class Counter:
    """State inside the object: what jit cannot see."""

    def __init__(self):
        self.n = 0

    def count(self):
        self.n += 1
        return self.n


class Pure:
    """State passed in and out."""

    def count(self, n):
        return n + 1, n + 1

    def start(self):
        return 0


def test_hidden_state_is_frozen_by_jit():
    counter = Counter()
    assert [counter.count() for _ in range(3)] == [1, 2, 3]
    counter.n = 0
    fast = jax.jit(counter.count)
    assert [int(fast()) for _ in range(3)] == [1, 1, 1]


def test_state_passed_along():
    counter = Pure()
    for count in (counter.count, jax.jit(counter.count)):
        state, seen = counter.start(), []
        for _ in range(3):
            value, state = count(state)
            seen.append(int(value))
        assert seen == [1, 2, 3]


def test_state_through_scan_and_vmap():
    count = Pure().count
    state, values = jax.lax.scan(lambda s, _: count(s)[::-1], 0, None, length=4)
    assert (int(state), values.tolist()) == (4, [1, 2, 3, 4])
    values, states = jax.vmap(count)(jnp.arange(3))
    assert values.tolist() == states.tolist() == [1, 2, 3]


class Params(NamedTuple):
    weight: jax.Array
    bias: jax.Array


def init(key):
    weight_key, bias_key = jax.random.split(key)
    return Params(jax.random.normal(weight_key, ()), jax.random.normal(bias_key, ()))


def loss(params, x, y):
    return jnp.mean((params.weight * x + params.bias - y) ** 2)


@jax.jit
def update(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def test_regression():
    key_x, key_noise, key = jax.random.split(jax.random.key(42), 3)
    x = jax.random.normal(key_x, (128, 1))
    y = 2 * x - 1 + 0.1 * jax.random.normal(key_noise, (128, 1))
    params = init(key)
    for _ in range(100):
        params = update(params, x, y)
    assert type(params) is Params
    np.testing.assert_allclose(params, (2.0, -1.0), atol=0.05)


def test_an_optimizer_with_state():
    def momentum(params, velocity, x, y):
        grads = jax.grad(loss)(params, x, y)
        velocity = jax.tree.map(lambda v, g: 0.8 * v - 0.02 * g, velocity, grads)
        return jax.tree.map(jnp.add, params, velocity), velocity

    x = jnp.linspace(-1, 1, 16)
    params = Params(jnp.zeros(()), jnp.zeros(()))
    state = params, jax.tree.map(jnp.zeros_like, params)
    state = jax.jit(
        lambda s: jax.lax.fori_loop(0, 300, lambda _, s: momentum(*s, x, 3 * x + 2), s)
    )(state)
    np.testing.assert_allclose(state[0], (3.0, 2.0), atol=1e-2)


def test_state_in_methods_through_a_pytree():
    @jax.tree_util.register_pytree_node_class
    class Running:
        def __init__(self, total, count):
            self.total, self.count = total, count

        def add(self, x):
            return Running(self.total + x, self.count + 1)

        def tree_flatten(self):
            return (self.total, self.count), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    add = jax.jit(Running.add)
    mean = Running(0.0, 0)
    for x in (1.0, 2.0, 6.0):
        mean = add(mean, x)
    assert (float(mean.total), int(mean.count)) == (9.0, 3)
