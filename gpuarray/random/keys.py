"""Keys: made from seeds, split, folded with numbers, converted to raw words and back.

Floor 6. In: seeds and keys (typed, or plain uint32 words as older programs use them). Out: keys of
the same sort.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gpuarray import config, util
from gpuarray.core import dtypes
from gpuarray.core.avals import typed_scalar
from gpuarray.core.value import Array
from gpuarray.lax.args import operand, shape_of
from gpuarray.lax.convert import convert_element_type
from gpuarray.lax.elementwise import add
from gpuarray.primitives.random.ops import (
    implementations,
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    random_unwrap_p,
    stream_params,
)
from gpuarray.random.arguments import generator, is_key, one_key, typed, wrapped


def _seeded(name: str, seed: Any, impl: Any) -> Any:
    if is_key(seed):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    # Refused below, with the shape it has as an array.
    if isinstance(seed, (list, tuple)):
        seed = np.asarray(seed)
    if seed is None:
        raise ValueError(f"{name} needs a seed: None is not a valid value")
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, (bool, np.bool_)):
        # A large seed keeps its low bits where there are no 64-bit types.
        number = np.int64(seed) if not isinstance(seed, np.integer) else seed
        if number.dtype.itemsize == 8 and not config.state.enable_x64:
            number = number.astype(np.int32 if number.dtype.kind == "i" else np.uint32)
        seed = number
    seed = operand(name, seed)
    if shape_of(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape {shape_of(seed)} != "
            "(). Use vmap for batching"
        )
    # A setting that moves every seed.
    if offset := config.state.random_seed_offset:
        number = typed_scalar(offset, dtypes.default_int())  # one that is too large is an error
        seed = add(seed, number.astype(dtypes.dtype(seed)))
    return random_seed_p.bind(seed, impl=generator(impl))


def key(seed: int | Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """A typed random key from an integer seed.

    All randomness comes from keys: the same key gives the same numbers, so split a key before each
    use. `impl` names the generator: 'threefry2x32' (the default), 'threefry4x32', 'philox2x32',
    'philox4x32', 'rbg' or 'unsafe_rbg'; `dtype` gives it as a key dtype.

    >>> from gpuarray import random
    >>> random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    if dtype is not None:
        if impl is not None:
            raise ValueError(
                "Cannot specify both `impl` and `dtype` arguments to random.key: give one of them"
            )
        impl = dtype
    return _seeded("key", seed, impl)


def PRNGKey(seed: int | Any, *, impl: Any = None) -> Array:
    """A random key as plain uint32 words, from an integer seed; `key` makes typed, safer ones.

    >>> from gpuarray import random
    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    made = _seeded("PRNGKey", seed, impl)
    # With the setting, old code gets typed keys as well.
    return made if config.state.enable_custom_prng else random_unwrap_p.bind(made)


def key_data(keys: Any) -> Array:
    """The words of keys: key[...] -> uint32[..., words].

    >>> from gpuarray import random
    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return random_unwrap_p.bind(typed(keys)[0])


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """Words as typed keys, the reverse of `key_data`: uint32[..., words] -> key[...].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import random
    >>> random.wrap_key_data(gnp.array([0, 7], "uint32"))
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    if impl is not None and dtype is not None:
        raise ValueError("Cannot specify both `impl` and `dtype` arguments to wrap_key_data")
    return wrapped(key_bits_array, generator(impl if dtype is None else dtype))


def key_impl(keys: Any) -> str | Any:
    """The generator that keys belong to, in the form that `impl=` arguments take.

    >>> from gpuarray import random
    >>> random.key_impl(random.key(7))
    'threefry2x32'
    """
    impl = typed(keys)[0].dtype.impl
    # By name where that is enough, as `impl=` arguments take it.
    return impl.name if implementations.get(impl.name) is impl else impl


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDtype:
    """The dtype of keys of a generator.

    >>> from gpuarray import random
    >>> random.key_dtype("rbg")
    key<rbg>
    """
    return dtypes.KeyDtype(generator(impl_spec))


def _like(found: Any, plain: bool) -> Any:
    # Words in, words out, for old programs.
    return random_unwrap_p.bind(found) if plain else found


def split(key: Any, num: int | tuple[int, ...] = 2) -> Array:
    """New keys from one: key -> key[num], or key[*num] for a tuple. Use every key once only.

    >>> from gpuarray import random
    >>> key, subkey = random.split(random.key(7))
    >>> random.split(subkey, 3).shape
    (3,)
    """
    found, plain = one_key("split", key)
    many = isinstance(num, Iterable) and getattr(num, "shape", None) != ()
    given: Iterable[Any] = num if many else (num,)  # pyright: ignore[reportAssignmentType]
    shape = tuple(util.index(n) for n in given)
    return _like(random_split_p.bind(found, shape=shape, **stream_params()), plain)


def fold_in(key: Any, data: int | Any) -> Array:
    """A new key from a key and a 32-bit number, such as a step or a device index.

    >>> from gpuarray import random
    >>> steps = [random.fold_in(random.key(7), step) for step in (1, 2)]
    >>> bool(steps[0] == steps[1])
    False
    """
    # A key may be folded with many numbers, as often as one likes.
    found, plain = one_key("fold_in", key, consume=False)
    if data is None:
        raise ValueError("fold_in needs a number to mix in: None is not a valid value")
    if shape_of(data) or isinstance(data, (list, tuple)):
        shape = np.shape(data) if isinstance(data, (list, tuple)) else shape_of(data)
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {shape} != (). Use vmap "
            "for batching."
        )
    if is_key(data):
        raise ValueError("fold_in cannot convert a key to uint32: pass an integer as data.")
    number = data if isinstance(data, Array) else np.uint32(data)
    if isinstance(number, Array):
        number = convert_element_type(number, np.uint32)
    return _like(random_fold_in_p.bind(found, number), plain)


def clone(key: Any) -> Array:
    """The same key as a new value, to use it again on purpose (see `debug_key_reuse`).

    >>> from gpuarray import random
    >>> random.clone(random.key(7))
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    return random_clone_p.bind(operand("clone", key))
