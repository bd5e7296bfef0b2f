"""Random generators as values, and keys made by them; the function behind the default one.

Floor 6. In: a generator, or what one consists of. Out: keys, words, generators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gpuarray.numpy as gnp
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.functions.vmap import vmap
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.random.ops import KeyImpl, implementation
from gpuarray.random import keys

__all__ = [
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]

#: The generators that keys can have, as `key(seed, impl=...)` takes them.
threefry_prng_impl = implementation("threefry2x32")
rbg_prng_impl = implementation("rbg")
unsafe_rbg_prng_impl = implementation("unsafe_rbg")


def seed_with_impl(impl: KeyImpl, seed: int | Any) -> Array:
    """A key of a generator, made from a seed.

    >>> import gpuarray as ga
    >>> from gpuarray.extend import random
    >>> key = random.seed_with_impl(random.threefry_prng_impl, 3)
    >>> bool(ga.random.key_data(key).tolist() == ga.random.key_data(ga.random.key(3)).tolist())
    True
    """
    return keys.key(seed, impl=impl)


def random_seed(seeds: int | Any, impl: KeyImpl) -> Array:
    """A key of a generator for each seed of an array.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.extend import random
    >>> random.random_seed(gnp.arange(3), impl=random.threefry_prng_impl).shape
    (3,)
    """
    if not getattr(seeds, "shape", ()):
        return keys.key(seeds, impl=impl)
    return vmap(lambda one: random_seed(one, impl))(seeds)


_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _turned(x: Any, by: int) -> Any:
    return x << np.uint32(by) | x >> np.uint32(32 - by)


@jit
def threefry_2x32(keypair: Any, count: Any) -> Array:
    """The Threefry hash of counts, uint32, under a key of two words: twenty rounds.

    The first half of the counts is paired with the second.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.extend import random
    >>> random.threefry_2x32(gnp.zeros(2, "uint32"), gnp.zeros(2, "uint32"))
    Array([1797259609, 2579123966], dtype=uint32)
    """
    k0, k1 = keypair
    flat = gnp.ravel(count)
    if any(x.dtype != np.uint32 for x in (k0, k1, flat)):
        raise TypeError(
            f"threefry_2x32 requires uint32 arguments, got {[k0.dtype, k1.dtype, flat.dtype]}"
        )
    # An odd number of counts has a zero for the last partner.
    first, second = gnp.split(gnp.pad(flat, (0, flat.size % 2)), 2)
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    a, b = first + k0, second + k1
    for i in range(5):
        for by in _TURNS[i % 2]:
            a = a + b
            b = _turned(b, by) ^ a
        a, b = a + schedule[(i + 1) % 3], b + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return gnp.concatenate([a, b])[: flat.size].reshape(count.shape)


__getattr__ = _explain_names(__name__)
