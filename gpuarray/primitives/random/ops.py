"""Random keys and bits as primitives: seeding, splitting, folding in, and bits.

Floor 2. In: seeds, key words, keys. Out: primitives, and the generators (`implementations`). A key
is stored as one NumPy element (uint64 for two words, complex128 for four), so whatever moves
elements moves keys.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import config
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import elementwise, leading
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, NoKernel, Primitive
from gpuarray.primitives.define import broadcast_shape
from gpuarray.primitives.movement.views import SAME
from gpuarray.primitives.random import elements, parts
from gpuarray.primitives.random.counters import COUNTED_HASHES
from gpuarray.primitives.random.factors import bits_factors
from gpuarray.primitives.random.host import COUNTED, threefry2x32, threefry_stream
from gpuarray.primitives.random.transforms import (
    bits_batch,
    discrete,
    fold_in_batch,
    generator_batch,
    in_place,
    split_batch,
    wrap_batch,
)
from gpuarray.util import prod

_uint32 = np.dtype(np.uint32)
_bits_dtypes = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_MANY = 1 << 12  # from this many words on, streams of many keys are made one key at a time


# ---- generators of keys ----


class KeyImpl:
    """A random generator: how keys are seeded, split, mixed with data and turned into bits.

    Its functions work on key words, uint32[..., words]: one key, or many together. `tag` is the
    name that dtypes show.
    """

    __slots__ = ("bits", "fold_in", "key_shape", "name", "seed", "split", "tag")

    def __init__(
        self, name: str, tag: str, key_shape: tuple[int, ...], *, seed, split, fold_in, bits
    ):
        self.name, self.tag, self.key_shape = name, tag, key_shape
        self.seed, self.split, self.fold_in, self.bits = seed, split, fold_in, bits

    def __str__(self) -> str:
        return self.tag

    def __repr__(self) -> str:
        return f"KeyImpl(name={self.name!r}, tag={self.tag!r}, key_shape={self.key_shape})"

    # Pickled by name: the functions belong to this module.
    def __reduce__(self):
        return _impl_named, (self.name,)


def _impl_named(name: str) -> KeyImpl:
    return implementations[name]


def _threefry_seed(seed: int, bits: int) -> np.ndarray:
    """Return the two halves of a 64-bit seed; narrower seeds have no high half."""
    # Python integers, so that a seed of any width can be shifted.
    high = seed >> 32 & 0xFFFFFFFF if bits > 32 else 0
    return np.array([high, seed & 0xFFFFFFFF], _uint32)


def _halves(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split 64-bit numbers into high and low words."""
    return (numbers >> np.uint64(32)).astype(_uint32), numbers.astype(_uint32)


def _threefry_words(keys: np.ndarray, size: int, partitionable: bool) -> np.ndarray:
    """Return the streams of one key or of many: uint32[..., 2] -> uint32[..., size]."""
    if keys.ndim == 1:
        return threefry_stream(keys, size, partitionable=partitionable)
    # Long streams stay in cache only one at a time.
    if size > _MANY:
        flat = keys.reshape(-1, 2)
        streams = [threefry_stream(k, size, partitionable=partitionable) for k in flat]
        return np.array(streams, _uint32).reshape(*keys.shape[:-1], size)
    k0, k1 = keys[..., :1], keys[..., 1:]
    if partitionable:
        a, b = threefry2x32(k0, k1, *_halves(np.arange(size, dtype=np.uint64)))
        return a ^ b
    # The original stream: number i is paired with number half + i.
    half = (size + 1) // 2
    second = np.arange(half, 2 * half, dtype=_uint32)
    second[size - half :] = 0  # an odd stream has no last partner
    words = threefry2x32(k0, k1, np.arange(half, dtype=_uint32), second)
    return np.concatenate(words, -1)[..., :size]


def _threefry_split(keys: np.ndarray, shape: tuple[int, ...], partitionable: bool) -> np.ndarray:
    n, lead = prod(shape), keys.shape[:-1]
    # Two words of the stream for each new key.
    if not partitionable:
        return _threefry_words(keys, 2 * n, False).reshape(*lead, *shape, 2)
    counts = _halves(np.arange(n, dtype=np.uint64))
    words = threefry2x32(keys[..., :1], keys[..., 1:], *counts)
    return np.stack(words, -1).reshape(*lead, *shape, 2)


# The data is the counter: one pair is the new key.
def _threefry_fold_in(keys: np.ndarray, data: np.ndarray) -> np.ndarray:
    return np.stack(threefry2x32(keys[..., 0], keys[..., 1], np.uint32(0), data), -1)


def _threefry_bits(keys, width: int, shape, partitionable: bool) -> np.ndarray:
    size, dtype, full = prod(shape), _bits_dtypes[width], (*keys.shape[:-1], *shape)
    if partitionable:
        # A 64-bit number is the whole pair; narrower ones are its two words xored.
        if width == 64:
            counts = _halves(np.arange(size, dtype=np.uint64))
            high, low = threefry2x32(keys[..., :1], keys[..., 1:], *counts)
            return (high.astype(np.uint64) << np.uint64(32) | low).reshape(full)
        return _threefry_words(keys, size, True).astype(dtype, copy=False).reshape(full)
    words = _threefry_words(keys, -(-size * width // 32), False)
    if width == 64:
        high, low = words[..., :size].astype(np.uint64), words[..., size:]
        return (high << np.uint64(32) | low).reshape(full)
    # Narrow numbers are cut from each word, lowest bits first, which on little-endian machines is
    # the order of the bytes.
    return np.ascontiguousarray(words).view(dtype)[..., :size].reshape(full)


def _each(function):
    """Extend a function of one key to many, one after another."""

    def many(keys, *args):
        if keys.ndim == 1:
            return function(keys, *args)
        results = [function(k, *args) for k in keys.reshape(-1, keys.shape[-1])]
        # No keys: one call determines the result's shape.
        if not results:
            one = function(np.zeros(4, _uint32), *args)
            return np.empty((*keys.shape[:-1], *one.shape), one.dtype)
        return np.stack(results).reshape(*keys.shape[:-1], *results[0].shape)

    return many


def _rbg_seed(seed: int, bits: int) -> np.ndarray:
    # The seed twice: as the key's first two words and as its counter.
    half = _threefry_seed(seed, bits)
    return np.concatenate([half, half])


def _rbg_split(keys, shape, partitionable: bool) -> np.ndarray:
    # An rbg key is two Threefry keys, which are split separately.
    halves = [_threefry_split(keys[..., i : i + 2], shape, partitionable) for i in (0, 2)]
    return np.concatenate(halves, -1)


def _rbg_fold_in(keys, data) -> np.ndarray:
    return np.concatenate([_threefry_fold_in(keys[..., i : i + 2], data) for i in (0, 2)], -1)


# The last two words of a key are the low and high half of Philox's counter.
def _counter(words: np.ndarray) -> int:
    return int(words[2]) | int(words[3]) << 32


@_each
def _rbg_bits(key, width: int, shape, partitionable: bool) -> np.ndarray:
    return COUNTED["RNG_DEFAULT"](key, _counter(key), shape, _bits_dtypes[width])[0]


@_each
def _unsafe_split(key, shape, partitionable: bool) -> np.ndarray:
    """Draw ten times as many keys as are wanted and keep every tenth, as JAX does."""
    n = prod(shape)
    return _rbg_bits(key, 32, (10 * n, 4), partitionable)[::10].reshape(*shape, 4)


def _unsafe_fold_in(keys, data) -> np.ndarray:
    out = np.empty_like(keys)
    for index in np.ndindex(keys.shape[:-1]):
        seeded = _rbg_seed(int(np.broadcast_to(data, keys.shape[:-1])[index]), 32)
        out[index] = keys[index] ^ _rbg_bits(seeded, 32, (10, 4), False)[-1]
    return out


#: Generators by name.
implementations: dict[str, KeyImpl] = {
    impl.name: impl
    for impl in (
        KeyImpl("threefry2x32", "fry", (2,), seed=_threefry_seed, split=_threefry_split,
                fold_in=_threefry_fold_in, bits=_threefry_bits),
        KeyImpl("rbg", "rbg", (4,), seed=_rbg_seed, split=_rbg_split,
                fold_in=_rbg_fold_in, bits=_rbg_bits),
        KeyImpl("unsafe_rbg", "urbg", (4,), seed=_rbg_seed, split=_unsafe_split,
                fold_in=_unsafe_fold_in, bits=_rbg_bits),
        *(
            KeyImpl(name, of.tag, (of.words,), seed=of.seed, split=of.split,
                    fold_in=of.fold_in, bits=of.bits)
            for name, of in COUNTED_HASHES.items()
        ),
    )
}  # fmt: skip


def implementation(name: str) -> KeyImpl:
    """Return the generator of this name."""
    try:
        return implementations[name]
    except KeyError:
        known = ", ".join(f'"{n}"' for n in implementations)
        raise ValueError(
            f'unrecognized PRNG implementation "{name}". Did you mean one of: {known}?'
        ) from None


# ---- how keys are stored ----


def key_words(keys: np.ndarray, dtype) -> np.ndarray:
    """Return the words of stored keys: [...] of one element per key -> uint32[..., words]."""
    # Stored contiguously, keys are viewed as words without a copy.
    shape = dtype.impl.key_shape
    return np.ascontiguousarray(keys).reshape(-1).view(_uint32).reshape(*np.shape(keys), *shape)


def keys_of(words: np.ndarray, dtype) -> np.ndarray:
    """Return stored keys from their words: uint32[..., words] -> [...] of one element per key."""
    shape = words.shape[: words.ndim - len(dtype.impl.key_shape)]
    # The words of a key are contiguous, so viewing them as one element is free.
    flat = np.ascontiguousarray(words, _uint32).reshape(-1)
    return flat.view(dtype.storage).reshape(shape)


def check_keys(op: str, keys: ShapedArray) -> None:
    """Raise TypeError unless the operand is an array of typed keys."""
    if not isinstance(keys.dtype, dtypes.KeyDtype):
        raise TypeError(
            f"{op} needs random keys, got {keys.str_short()}. Make one with "
            "gpuarray.random.key(seed), or wrap key data with gpuarray.random.wrap_key_data."
        )


def _check_shape(op: str, shape) -> None:
    if any(n < 0 for n in shape):
        raise ValueError(f"{op} needs a shape without negative lengths, got {tuple(shape)}.")


# ---- primitives ----


def _seed_aval(seeds: ShapedArray, *, impl: KeyImpl) -> ShapedArray:
    if dtypes.kind_of(seeds.dtype) not in "biu":
        raise TypeError(f"PRNG key seed must be an integer; got {seeds.str_short()}")
    return ShapedArray(seeds.shape, dtypes.KeyDtype(impl))


def _seed_numpy(avals, *, impl: KeyImpl) -> Callable[..., Any]:
    bits, dtype = 8 * avals[0].dtype.itemsize, dtypes.KeyDtype(impl)

    def seed(seeds):
        # Seeds one by one: they are few.
        flat = [impl.seed(int(s), bits) for s in np.asarray(seeds).reshape(-1)]
        words = np.array(flat, _uint32).reshape(*np.shape(seeds), *impl.key_shape)
        return keys_of(words, dtype)

    return seed


random_seed_p = Primitive(
    "random_seed",
    Kind.LIBRARY,
    element=elements.SEED,
    aval=_seed_aval,
    numpy_pick=_seed_numpy,
    decompose=parts.seed_parts,
    **discrete(in_place("random_seed")),
    factors=elementwise,
)


def _wrap_aval(words: ShapedArray, *, impl: KeyImpl) -> ShapedArray:
    # The last axes are the words of a key.
    rank = len(impl.key_shape)
    if words.shape[words.ndim - rank :] != impl.key_shape or words.ndim < rank:
        raise TypeError(
            f"invalid PRNG key data: expected key_data.shape to end with {impl.key_shape}; got "
            f"shape={words.shape} for impl={impl.name}"
        )
    if words.dtype != _uint32:
        raise TypeError(
            f"invalid PRNG key data: expected key_data.dtype = uint32; got dtype={words.dtype.name}"
        )
    return ShapedArray(words.shape[: words.ndim - rank], dtypes.KeyDtype(impl))


random_wrap_p = Primitive(
    "random_wrap",
    Kind.LIBRARY,
    same_bytes=True,
    element=elements.WRAP,
    aval=_wrap_aval,
    numpy=lambda words, *, impl: keys_of(words, dtypes.KeyDtype(impl)),
    **discrete(wrap_batch),
    factors=leading(1),
)


def _unwrap_aval(keys: ShapedArray) -> ShapedArray:
    check_keys("random_unwrap", keys)
    return ShapedArray((*keys.shape, *keys.dtype.impl.key_shape), _uint32)


def _unwrap_numpy(avals):
    dtype = avals[0].dtype
    return lambda keys: key_words(keys, dtype)


random_unwrap_p = Primitive(
    "random_unwrap",
    Kind.LIBRARY,
    same_bytes=True,
    element=elements.UNWRAP,
    aval=_unwrap_aval,
    numpy_pick=_unwrap_numpy,
    **discrete(in_place("random_unwrap")),
    factors=leading(0),
)


def _split_aval(keys: ShapedArray, *, shape, partitionable: bool = False) -> ShapedArray:
    check_keys("random_split", keys)
    _check_shape("random_split", shape)
    return ShapedArray((*keys.shape, *shape), keys.dtype)


def _split_numpy(avals, *, shape, partitionable: bool = False):
    dtype = avals[0].dtype

    def split(keys):
        return keys_of(dtype.impl.split(key_words(keys, dtype), shape, partitionable), dtype)

    return split


def hide_stream(params: dict) -> dict:
    """`show` rule: which of the two streams was meant is not part of the printed program."""
    return {k: v for k, v in params.items() if k != "partitionable"}


def stream_params() -> dict[str, bool]:
    """Return the current Threefry stream, for params: compile caches must distinguish them."""
    return {"partitionable": config.state.threefry_partitionable}


random_split_p = Primitive(
    "random_split",
    Kind.LIBRARY,
    element=elements.SPLIT,
    aval=_split_aval,
    numpy_pick=_split_numpy,
    decompose=parts.split_parts,
    **discrete(split_batch),
    factors=leading(0),
    show=hide_stream,
    weight=elements.HASH,
)


def _fold_in_aval(keys: ShapedArray, data: ShapedArray) -> ShapedArray:
    check_keys("random_fold_in", keys)
    if data.dtype != _uint32:
        raise TypeError(f"random_fold_in needs data of dtype uint32, got {data.dtype.name}.")
    return ShapedArray(broadcast_shape("random_fold_in", [keys.shape, data.shape]), keys.dtype)


def _fold_in_numpy(avals):
    dtype, shape = avals[0].dtype, _fold_in_aval(*avals).shape

    def fold_in(keys, data):
        # Broadcast first: keys and data may have different shapes.
        words = key_words(np.broadcast_to(keys, shape), dtype)
        return keys_of(dtype.impl.fold_in(words, data), dtype)

    return fold_in


random_fold_in_p = Primitive(
    "random_fold_in",
    Kind.LIBRARY,
    element=elements.FOLD_IN,
    aval=_fold_in_aval,
    numpy_pick=_fold_in_numpy,
    decompose=parts.fold_in_parts,
    **discrete(fold_in_batch),
    factors=elementwise,
    weight=elements.HASH,
)


def _bits_aval(keys: ShapedArray, *, bit_width, shape, partitionable: bool = False) -> ShapedArray:
    check_keys("random_bits", keys)
    if bit_width not in _bits_dtypes:
        raise TypeError(f"requires 8-, 16-, 32- or 64-bit field width, got {bit_width}.")
    _check_shape("random_bits", shape)
    return ShapedArray((*keys.shape, *shape), _bits_dtypes[bit_width])


def _bits_numpy(avals, *, bit_width, shape, partitionable: bool = False):
    dtype = avals[0].dtype

    def bits(keys):
        return dtype.impl.bits(key_words(keys, dtype), bit_width, shape, partitionable)

    return bits


def _bits_text(avals, *, bit_width, shape, partitionable: bool = False) -> str:
    """Element {1} of the stream of key {0}, as an element-by-element rule."""
    # Only for one key: several would need an index for the key as well.
    (keys,) = avals
    if keys.dtype.impl.name != "threefry2x32" or keys.ndim:
        raise NoKernel(f"no CUDA text for random bits from {keys.str_short()}")
    if partitionable:
        return "ga_random_bits<{T}>({0}, {1})"
    return f"ga_random_old_bits<{{T}}, {prod(shape)}>({{0}}, {{1}})"


#: Random bits: every key of the operand gives an array of `shape`.
random_bits_p = Primitive(
    "random_bits",
    Kind.GENERATOR,
    element=elements.BITS,
    aval=_bits_aval,
    numpy_pick=_bits_numpy,
    decompose=parts.bits_parts,
    cuda=_bits_text,
    **discrete(bits_batch),
    factors=bits_factors,
    show=hide_stream,
    weight=elements.HASH,
)


def _clone_aval(keys: ShapedArray) -> ShapedArray:
    return keys


random_clone_p = Primitive(
    "random_clone",
    Kind.VIEW,
    view=SAME,
    aval=_clone_aval,
    numpy=lambda keys: keys,
    **discrete(in_place("random_clone")),
    factors=elementwise,
)


def _threefry_aval(*words: ShapedArray) -> list[ShapedArray]:
    if any(w.dtype != _uint32 for w in words):
        got = ", ".join(w.str_short() for w in words)
        raise TypeError(f"Arguments to threefry2x32 must have uint32 type, got {got}")
    shape = broadcast_shape("threefry2x32", [w.shape for w in words])
    return [ShapedArray(shape, _uint32)] * 2


#: (key 0, key 1, counter 0, counter 1) -> two words, element by element.
threefry2x32_p = Primitive(
    "threefry2x32",
    Kind.POINTWISE,
    aval=_threefry_aval,
    numpy=threefry2x32,
    cuda=("ga_threefry({0}, {1}, {2}, {3}).x", "ga_threefry({0}, {1}, {2}, {3}).y"),
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_LINEAR,
    multiple_results=True,
    weight=elements.HASH,
)


# ---- stateful generators ----


class RandomAlgorithm(enum.IntEnum):
    """Generators of `rng_bit_generator`; the default is Philox.

    >>> RandomAlgorithm.RNG_PHILOX
    <RandomAlgorithm.RNG_PHILOX: 2>
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def _generator_aval(state: ShapedArray, *, shape, dtype, algorithm, out_sharding=None):
    if dtype not in map(np.dtype, _bits_dtypes.values()):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtype.name}")
    # The last axis is one generator's state: two key words and two counter words.
    one = (state.shape[-1:], state.dtype)
    lead = state.shape[:-1]  # one generator each; the shape of the bits begins alike
    if (
        one not in (((4,), _uint32), ((2,), np.dtype(np.uint64)))
        or tuple(shape[: len(lead)]) != lead
    ):
        raise TypeError(
            "rng_bit_generator needs a state of type uint32[4] or uint64[2], got "
            f"{state.str_short()}."
        )
    _check_shape("rng_bit_generator", shape)
    return [ShapedArray(state.shape, state.dtype), ShapedArray(shape, dtype)]


def _generator_numpy(state, *, shape, dtype, algorithm, out_sharding=None):
    lead = state.shape[:-1]
    # A state is never changed in place: it is a value.
    after, bits = np.ascontiguousarray(state).copy(), np.empty(shape, dtype)
    for index in np.ndindex(lead):
        words = after[index].view(_uint32)
        key, start = words.copy(), _counter(words)
        bits[index], counter = COUNTED[algorithm.name](key, start, shape[len(lead) :], dtype)
        words[2:] = counter & 0xFFFFFFFF, counter >> 32
    return after, bits


#: state -> (next state, bits)
rng_bit_generator_p = Primitive(
    "rng_bit_generator",
    Kind.LIBRARY,
    element=elements.GENERATOR,
    aval=_generator_aval,
    numpy=_generator_numpy,
    **discrete(generator_batch),
    factors=leading(1, resize=lambda params, ins, outs: params | {"shape": outs[1]}),
    multiple_results=True,
    weight=elements.HASH,
)
