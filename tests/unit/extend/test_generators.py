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


@pytest.mark.parametrize("native", ["off", "wait"])
def test_a_generator_of_the_users_own(native):
    """Kernels know the library's own generators only, and must not take it for one of them."""
    ga.config.update("native", native)
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
    rules = dict.fromkeys(("seed", "split", "random_bits", "fold_in"), abs)
    for shape in ((), (2, 0)):
        with pytest.raises(ValueError, match="axes of words"):
            random.define_prng_impl(key_shape=shape, **rules)
    with pytest.raises(TypeError, match="split must be a function"):
        random.define_prng_impl(key_shape=(2,), seed=abs, split=2, random_bits=abs, fold_in=abs)


@pytest.mark.parametrize("shape", ((3,), (2, 3), (4, 2, 7)))
def test_keys_of_any_number_of_axes(shape):
    size = int(np.prod(shape))
    offsets = gnp.arange(size, dtype="uint32").reshape(shape)

    def draw(words, width, to):
        count = gnp.arange(int(np.prod(to)), dtype="uint32").reshape(to)
        return (words.sum(dtype="uint32") + count).astype(f"uint{width}")

    impl = random.define_prng_impl(
        key_shape=shape,
        seed=lambda s: gnp.asarray(s).astype("uint32") + offsets,
        split=lambda words, to: draw(words, 32, to)[(..., *[None] * len(shape))] * offsets,
        random_bits=draw,
        fold_in=lambda words, number: words ^ number,
    )
    numbers = np.arange(size, dtype=np.uint32).reshape(shape)
    key = ga.random.key(3, impl=impl)
    assert key.shape == () and key.dtype == ga.random.key_dtype(impl)
    np.testing.assert_array_equal(ga.random.key_data(key), numbers + 3)
    for f in (ga.random.bits, ga.jit(ga.random.bits, static_argnums=1)):
        np.testing.assert_array_equal(f(key, (4,)), (numbers + 3).sum() + np.arange(4))
    keys = ga.random.split(key, 2)
    assert keys.shape == (2,) and ga.random.key_data(keys).shape == (2, *shape)
    np.testing.assert_array_equal(
        ga.random.key_data(keys[1]), ((numbers + 3).sum() + 1).astype(np.uint32) * numbers
    )
    folded = ga.vmap(ga.random.fold_in)(keys, gnp.arange(2))
    np.testing.assert_array_equal(
        ga.random.key_data(folded),
        np.asarray(ga.random.key_data(keys))
        ^ numbers.dtype.type([[0], [1]]).reshape(2, *[1] * len(shape)),
    )
    words = gnp.stack([offsets, offsets + 1])
    for wrap in (ga.random.wrap_key_data, ga.jit(ga.random.wrap_key_data, static_argnames="impl")):
        assert wrap(words, impl=impl).shape == (2,)
        np.testing.assert_array_equal(ga.random.key_data(wrap(words, impl=impl)), words)
