"""Random generators of the user's own: what `random` does with keys of them."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.extend import random


def _weyl():
    def draw(words, width, shape):
        count = gnp.arange(int(np.prod(shape)), dtype="uint32").reshape(shape)
        return ((words[0] + count) * np.uint32(2654435761) ^ words[1]).astype(f"uint{width}")

    return random.define_prng_impl(
        key_shape=(2,),
        seed=lambda s: gnp.stack([gnp.asarray(s).astype("uint32"), gnp.uint32(17)]),
        split=lambda words, to: gnp.stack([draw(words, 32, to), draw(words + 1, 32, to)], -1),
        random_bits=draw,
        fold_in=lambda words, number: words ^ number,
        name="weyl",
        tag="weyl",
    )


def test_a_generator_of_the_users_own():
    impl = _weyl()
    key = ga.random.key(3, impl=impl)
    assert ga.random.key_data(key).tolist() == [3, 17] and str(key.dtype) == "key<weyl>"
    expected = ((np.uint64(3) + np.arange(4)) * 2654435761 % 2**32).astype(np.uint32) ^ 17
    for f in (ga.random.bits, ga.jit(ga.random.bits, static_argnums=1)):
        np.testing.assert_array_equal(f(key, (4,)), expected)
    keys = ga.random.split(key, 3)
    assert keys.shape == (3,) and keys.dtype == key.dtype
    many = ga.vmap(lambda k: ga.random.bits(k, (4,)))(keys)
    for i in range(3):
        np.testing.assert_array_equal(many[i], ga.random.bits(keys[i], (4,)))
    assert ga.random.key_data(ga.random.fold_in(key, 5)).tolist() == [6, 20]
    folded = ga.vmap(lambda i: ga.random.key_data(ga.random.fold_in(key, i)))(gnp.arange(2))
    assert folded.tolist() == [[3, 17], [2, 16]]
    assert 0 <= ga.random.uniform(key, ()) < 1
    assert ga.random.key_impl(key) is impl
    assert ga.random.key_data(ga.random.split(key, (0,))).shape == (0, 2)


def test_a_generator_is_checked_where_it_is_defined():
    with pytest.raises(ValueError, match="one axis of words"):
        random.define_prng_impl(key_shape=(), seed=abs, split=abs, random_bits=abs, fold_in=abs)
    with pytest.raises(TypeError, match="split must be a function"):
        random.define_prng_impl(key_shape=(2,), seed=abs, split=2, random_bits=abs, fold_in=abs)
