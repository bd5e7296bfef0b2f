"""Batches of generators with a state: the first draws for all, as in JAX; hashes one by one."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random

STATEFUL = ["rbg", "unsafe_rbg"]


def words(keys):
    return np.asarray(random.key_data(keys))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("impl", STATEFUL)
def test_the_first_key_draws_the_bits_of_a_batch(impl, jit):
    keys = random.split(random.key(73, impl=impl), 3)
    batched = ga.vmap(lambda key: random.randint(key, (2,), 0, 1000))
    found = (ga.jit(batched) if jit else batched)(keys)
    np.testing.assert_array_equal(found, random.randint(keys[0], (3, 2), 0, 1000))


@pytest.mark.parametrize("impl", STATEFUL)
def test_the_first_key_of_nested_batches_draws(impl):
    keys = random.split(random.key(73, impl=impl), (2, 3))
    found = ga.vmap(ga.vmap(lambda key: random.bits(key, (4,)), out_axes=1))(keys)
    np.testing.assert_array_equal(
        np.moveaxis(np.asarray(found), 2, 1), random.bits(keys[0, 0], (2, 3, 4))
    )


@pytest.mark.parametrize(("impl", "alone"), [("rbg", True), ("unsafe_rbg", False)])
def test_splitting_a_batch(impl, alone):
    keys = random.split(random.key(73, impl=impl), 3)
    if alone:  # rbg keys are split by a hash, each on its own
        want = np.stack([words(random.split(key)) for key in keys])
    else:
        want = words(random.split(keys[0], (3, 2)))
    np.testing.assert_array_equal(words(ga.vmap(random.split)(keys)), want)


def test_unsafe_keys_mixed_with_a_batch_of_data():
    # The numbers that JAX 0.10.2 gives.
    key = random.key(0, impl="unsafe_rbg")
    found = words(ga.vmap(lambda n: random.fold_in(key, n))(gnp.arange(3)))
    assert found[0].tolist() == words(random.fold_in(key, 0)).tolist()
    # Row 10 i + 9 of what the first seed draws belongs to element i.
    seeded = random.key(0, impl="unsafe_rbg")
    drawn = np.asarray(random.bits(seeded, (30, 4)))
    np.testing.assert_array_equal(found, words(key) ^ drawn[9::10])


def test_one_datum_for_a_batch_of_unsafe_keys():
    keys = random.split(random.key(0, impl="unsafe_rbg"), 3)
    want = np.stack([words(random.fold_in(key, 7)) for key in keys])
    found = words(ga.vmap(lambda key: random.fold_in(key, 7))(keys))
    np.testing.assert_array_equal(found, want)


def test_a_batch_of_states():
    states = gnp.arange(24, dtype="uint32").reshape(2, 3, 4)
    after, bits = ga.vmap(ga.vmap(lambda s: lax.rng_bit_generator(s, (5,))))(states)
    moved, drawn = lax.rng_bit_generator(states[0, 0], (2, 3, 5))
    np.testing.assert_array_equal(bits, drawn)
    np.testing.assert_array_equal(after, states.at[0, 0].set(moved))


@pytest.mark.parametrize("impl", STATEFUL)
def test_empty_batches(impl):
    keys = random.split(random.key(0, impl=impl), 3)[:0]
    assert ga.vmap(lambda key: random.bits(key, (2,)))(keys).shape == (0, 2)
    states = gnp.zeros((0, 4), "uint32")
    after, bits = ga.vmap(lambda s: lax.rng_bit_generator(s, (2,)))(states)
    assert (after.shape, bits.shape) == ((0, 4), (0, 2))


def test_a_loop_draws_with_each_key():
    keys = random.split(random.key(0, impl="rbg"), 3)
    found = lax.map(lambda key: random.bits(key, (2,)), keys)
    np.testing.assert_array_equal(found, np.stack([random.bits(key, (2,)) for key in keys]))
