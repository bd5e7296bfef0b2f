"""The acceptance tests of the founding texts: what updates by index may be told, that a program
makes them in place, and the bits of both random streams. One test an item.

They read as the texts do, with the name of the library changed.
"""

import gc
import tracemalloc

import numpy as np
import pytest

import gpuarray as jax
import gpuarray.numpy as jnp
from gpuarray import jit, lax, random

# ---- updates ----


def test_modes_of_an_update():
    x = jnp.arange(4.0)
    for mode in ("drop", "fill", None):
        np.testing.assert_array_equal(x.at[9].set(5.0, mode=mode), [0, 1, 2, 3])
    np.testing.assert_array_equal(x.at[9].set(5.0, mode="clip"), [0, 1, 2, 5])
    np.testing.assert_array_equal(x.at[2].add(5.0, mode="promise_in_bounds"), [0, 1, 7, 3])


def test_modes_of_a_read():
    x = jnp.arange(4.0)
    assert float(x.at[9].get(mode="clip")) == 3.0
    assert float(x.at[9].get(mode="fill", fill_value=-1.0)) == -1.0
    assert np.isnan(x.at[9].get(mode="fill"))
    assert float(x.at[2].get(mode="promise_in_bounds")) == 2.0


def test_promises_about_indices():
    x, i = jnp.zeros(4), jnp.array([0, 2])
    told = x.at[i].add(1.0, indices_are_sorted=True, unique_indices=True)
    np.testing.assert_array_equal(told, x.at[i].add(1.0))


def test_negative_indices():
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(x.at[-1].set(9.0), [0, 1, 2, 9])
    i = jnp.array([-1])
    kept = x.at[i].set(9.0, wrap_negative_indices=False)
    np.testing.assert_array_equal(kept, [0, 1, 2, 3])


def test_repeated_indices_add_up():
    x = jnp.zeros(3).at[jnp.array([1, 1, 2])].add(jnp.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(x, [0, 3, 4])


# ---- updates in place ----

COUNT = 1 << 22


def buffers_taken(f, x) -> float:
    """How many arrays of the size of x a call of the compiled f had to allocate at its peak."""
    if jax.default_backend() != "cpu":
        pytest.skip("this looks at the host's memory, where only the CPU's arrays are")
    gc.collect()
    jax.free()
    tracemalloc.start()
    try:
        f(x).block_until_ready()
        return tracemalloc.get_traced_memory()[1] / x.nbytes
    finally:
        tracemalloc.stop()


def large():
    return (jnp.arange(COUNT) * 1.0).block_until_ready()


@pytest.mark.parametrize("steps", [1, 4])
def test_updates_of_a_donated_array_take_no_memory(steps):
    def update(x):
        for i in range(steps):
            x = x.at[i].set(-1.0)
        return x

    f = jit(update, donate_argnums=0)
    result = f(large())
    np.testing.assert_array_equal(result[: steps + 1], [-1.0] * steps + [steps])
    del result
    assert buffers_taken(f, large()) < 0.1


def test_a_chain_of_updates_takes_one_array():
    @jit
    def chain(x):
        y = 2.0 * x
        y = y.at[3].set(1.0)
        y = y.at[5:7].add(2.0)
        return y.at[0].min(-1.0)

    x = large()
    chain(x).block_until_ready()
    assert buffers_taken(chain, x) < 1.1


def test_updates_in_a_loop_take_one_array():
    @jit
    def fill(x):
        return lax.fori_loop(0, 50, lambda i, x: x.at[i].set(-1.0), x)

    x = large()
    assert float(jnp.sum(fill(x)[:60] == -1.0)) == 50
    assert buffers_taken(fill, x) < 1.1


# ---- random bits, in the default stream and in the one with jax_threefry_partitionable ----

STREAMS = {
    False: {
        "split": [[4197003906, 1654466292], [1685972163, 1654824463]],
        "bits": [2497588116, 2266319863, 3059724442, 2256313371, 3826449569],
        "normal": [1.998913049697876, 0.6720365881919861, -0.27268946170806885],
        "randint": [37, 30, 83, 35],
        "permutation": [2, 1, 3, 0, 5, 4],
    },
    True: {
        "split": [[4027907007, 1756876250], [3953557796, 1421509433]],
        "bits": [2560833125, 3206283805, 2656360001, 312653711, 1992128900],
        "normal": [0.24362774193286896, 0.6635822653770447, 0.3014964759349823],
        "randint": [27, 42, 90, 39],
        "permutation": [4, 2, 3, 1, 5, 0],
    },
}


@pytest.mark.parametrize("partitionable", [False, True])
def test_bits_of_a_stream(partitionable):
    expected = STREAMS[partitionable]
    with jax.threefry_partitionable(partitionable):
        key = random.PRNGKey(18)
        assert random.split(key).tolist() == expected["split"]
        assert random.bits(key, (5,)).tolist() == expected["bits"]
        np.testing.assert_allclose(random.normal(key, (3,)), expected["normal"], rtol=3e-7)
        assert random.randint(key, (4,), 0, 100).tolist() == expected["randint"]
        assert random.permutation(key, 6).tolist() == expected["permutation"]
        assert random.fold_in(key, 7).tolist() == [1745706436, 2120347443]
