"""Random generators as values, and keys made by them; the function behind the default one.

Floor 6. In: a generator, or its functions. Out: keys, words, generators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpuarray.numpy as gnp
from gpuarray import util
from gpuarray.core.trace import base_trace
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.functions.vmap import vmap
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.random.ops import KeyImpl, implementation
from gpuarray.primitives.random.ops import threefry2x32_p as threefry2x32_p
from gpuarray.random import keys

__all__ = [
    "define_prng_impl",
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]

#: The generators that keys can have, as `key(seed, impl=...)` takes them.
threefry_prng_impl = implementation("threefry2x32")
rbg_prng_impl = implementation("rbg")
unsafe_rbg_prng_impl = implementation("unsafe_rbg")


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[[Any], Any],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> KeyImpl:
    """A generator of keys defined by functions of words, for `random.key(seed, impl=...)`.

    The functions take one key: seed(int) -> words, split(words, shape) -> words[*shape, ...],
    random_bits(words, width, shape) -> uint[*shape], fold_in(words, number) -> words, where words
    are uint32[*key_shape]. They run on the host; kernels get their results.

    Parameters
    ----------
    key_shape :
        One axis of words or several.
    name, tag :
        The name shown by `key_impl` and dtypes.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> def draw(words, width, shape):
    ...     count = gnp.arange(gnp.prod(gnp.array(shape))).reshape(shape)
    ...     mixed = (words[0] + count.astype("uint32")) * gnp.uint32(2654435761)
    ...     return mixed.astype(f"uint{width}")
    >>> weyl = ga.extend.random.define_prng_impl(
    ...     key_shape=(1,),
    ...     seed=lambda s: gnp.uint32(s)[None],
    ...     split=lambda words, shape: draw(words, 32, shape)[..., None],
    ...     random_bits=draw,
    ...     fold_in=lambda words, number: words ^ gnp.uint32(number),
    ...     name="weyl",
    ...     tag="weyl",
    ... )
    >>> ga.random.bits(ga.random.key(3, impl=weyl), (2,))
    Array([3668339987, 2027808452], dtype=uint32)
    """
    shape = util.indices(key_shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"key_shape must be axes of words, such as (2,), got {key_shape}.")
    for what, text in (("name", name), ("tag", tag)):
        if not isinstance(text, str):
            raise TypeError(f"define_prng_impl: {what} must be a str, got {text!r}.")
    rules = {"seed": seed, "split": split, "random_bits": random_bits, "fold_in": fold_in}
    # Checked here, where the mistake is, and not at the first key that is made.
    for what, rule in rules.items():
        if not callable(rule):
            raise TypeError(f"define_prng_impl: {what} must be a function, got {rule!r}.")

    def each(what: str, words: np.ndarray, *args: Any) -> np.ndarray:
        """A rule of one key, applied to many: they are few, and rules may do anything."""
        flat = words.reshape(-1, *shape)
        with base_trace():
            found = [np.asarray(rules[what](gnp.asarray(w), *args)) for w in flat]
            # No keys: one call determines the result's shape.
            one = found[0] if found else np.asarray(rules[what](gnp.zeros(shape, "uint32"), *args))
        stacked = np.stack(found) if found else np.empty((0, *one.shape), one.dtype)
        return stacked.reshape((*words.shape[: -len(shape)], *one.shape))

    def seeded(number: int, bits: int) -> np.ndarray:
        with base_trace():
            # Modulo 2**bits and through uint64: negative and large seeds wrap as they do in int32
            # or int64, without an overflow error.
            wide = np.int64 if bits > 32 else np.int32
            return np.asarray(seed(wide(np.uint64(number % 2**bits).astype(wide))))

    def folded(words: np.ndarray, data: Any) -> np.ndarray:
        numbers = np.broadcast_to(data, words.shape[: -len(shape)]).reshape(-1)
        flat = words.reshape(-1, *shape)
        pairs = zip(flat, numbers, strict=True)
        new = [each("fold_in", w[None], n)[0] for w, n in pairs]
        return np.stack(new).reshape(words.shape) if new else words

    return KeyImpl(
        name,
        tag,
        shape,
        seed=seeded,
        split=lambda words, to, _: each("split", words, to),
        fold_in=folded,
        bits=lambda words, width, to, _: each("random_bits", words, width, to),
    )


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


# The rotations of each round in bits: the constants of Threefry-2x32 (Salmon and others, 2011).
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
    # A third word of the key, from the parity constant of that paper, so that a key of zeros is not
    # weak.
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    a, b = first + k0, second + k1
    # Four rounds, then a key is added with the number of the block: twenty rounds in all.
    for i in range(5):
        for by in _TURNS[i % 2]:
            a = a + b
            b = _turned(b, by) ^ a
        a, b = a + schedule[(i + 1) % 3], b + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return gnp.concatenate([a, b])[: flat.size].reshape(count.shape)


__getattr__ = _explain_names(__name__)
