"""The tutorial "pseudorandom numbers": keys, splitting, the same number twice, shapes and seeds."""

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import random


def close(got, expected, rtol=2e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=atol)


def test_keys():
    key = random.key(42)
    assert str(key) == "Array((), dtype=key<fry>) overlaying:\n[ 0 42]"
    assert key.shape == () and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert random.key_data(key).tolist() == [0, 42]
    assert random.PRNGKey(42).tolist() == [0, 42]


def test_no_state_is_kept():
    key = random.key(42)
    close(random.normal(key), -0.028304616)
    close(random.normal(key), -0.028304616)
    close(random.normal(random.key(43)), 0.07520543)


def test_a_key_a_draw():
    key, drawn = random.key(42), []
    for _ in range(3):
        key, subkey = random.split(key)
        drawn.append(random.normal(subkey))
    close(drawn, [0.60576403, -0.21089035, -0.39489815])


def test_splitting_into_many():
    key, *subkeys = random.split(random.key(0), num=7)
    assert len(subkeys) == 6 and key.shape == ()
    data = np.asarray(random.key_data(random.split(random.key(0), 7)))
    assert len({tuple(row) for row in data.tolist()}) == 7
    assert random.split(random.key(0), (2, 3)).shape == (2, 3)


def test_one_by_one_is_not_all_at_once():
    key = random.key(42)
    subkeys = random.split(key, 3)
    one_by_one = np.stack([random.normal(k) for k in subkeys])
    close(one_by_one, [0.07592554, 0.60576403, 0.4323065])
    close(random.normal(key, shape=(3,)), [-0.02830462, 0.46713185, 0.29570296])
    close(jax.vmap(random.normal)(subkeys), one_by_one)
    close(jax.jit(jax.vmap(random.normal))(subkeys), one_by_one)


def test_prefixes_agree():
    key = random.key(7)
    close(random.uniform(key, (8,))[:3], random.uniform(key, (3,)))


def test_fold_in():
    key = random.key(3)
    a, b = random.fold_in(key, 1), random.fold_in(key, 2)
    assert random.key_data(a).tolist() != random.key_data(b).tolist()
    in_loop = jax.vmap(lambda i: random.uniform(random.fold_in(key, i)))(jnp.array([1, 2]))
    close(in_loop, [random.uniform(a), random.uniform(b)])


def test_keys_are_arrays():
    keys = random.split(random.key(0), 4)
    assert keys[1].shape == () and keys.reshape(2, 2)[1].shape == (2,)
    with pytest.raises(TypeError):
        keys + 1
    with pytest.raises((TypeError, ValueError)):
        random.normal(keys)


def test_not_a_key():
    with pytest.raises(TypeError, match="invalid PRNG key data"):
        random.normal(3)


def test_jit_and_eager_draw_alike():
    key = random.key(11)
    for draw in (random.normal, random.uniform, random.gumbel):
        close(jax.jit(draw, static_argnums=1)(key, (4,)), draw(key, (4,)), rtol=1e-4)
    assert (
        random.permutation(key, 6).tolist()
        == jax.jit(lambda k: random.permutation(k, 6))(key).tolist()
    )


def test_draws_through_scan():
    def step(key, _):
        key, subkey = random.split(key)
        return key, random.normal(subkey)

    _, drawn = jax.lax.scan(step, random.key(42), length=3)
    close(drawn, [0.60576403, -0.21089035, -0.39489815])


def test_reparameterised_gradients():
    noise = random.normal(random.key(0), (5,))
    g = jax.grad(lambda s: jnp.sum(s * random.normal(random.key(0), (5,))))(2.0)
    close(g, noise.sum())


def test_distributions_of_a_tutorial():
    keys = random.split(random.key(5), 4)
    x = random.normal(keys[0], (4000,))
    assert abs(float(x.mean())) < 0.06 and abs(float(x.std()) - 1) < 0.05
    assert set(random.bernoulli(keys[1], 0.3, (100,)).tolist()) == {False, True}
    assert 0 <= int(random.randint(keys[2], (50,), 0, 7).min()) <= 6
    assert sorted(random.permutation(keys[3], 9).tolist()) == list(range(9))


def test_key_implementations():
    assert (
        str(random.key(0).dtype) == "key<fry>"
        and str(random.key_impl(random.key(0))) == "threefry2x32"
    )
    assert random.wrap_key_data(jnp.array([0, 9], "uint32")) == random.key(9)
    with pytest.raises(ValueError):
        random.key(0, impl="nonsense")
