"""Random primitives in terms of others, for backends without rules for them.

Floor 2. In: keys, or seeds. Out: the same keys and bits as from the NumPy rules of ops.py, computed
from Threefry pairs, which are pointwise. Other generators have no such form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import NoKernel
from gpuarray.primitives.define import do

_uint32 = np.dtype(np.uint32)


def _only_threefry(impl: Any) -> None:
    # Other generators have no form in pointwise operations.
    if impl.name != "threefry2x32":
        raise NoKernel(f"random keys of {impl.name} have no parts")


def _cast(x, dtype):
    return do.convert_element_type(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


def _shaped(x, shape: tuple[int, ...]):
    if aval_of(x).shape == shape:
        return x
    return do.reshape(x, new_sizes=shape, dimensions=None, sharding=None)


def _broadcast(x, shape: tuple[int, ...]):
    """Broadcast `x` to a shape that begins with its own."""
    own = aval_of(x).shape
    if own == shape:
        return x
    axes = tuple(range(len(own)))
    return do.broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes, sharding=None)


def _full(value: int, shape: tuple[int, ...]):
    # A NumPy scalar: its dtype does not depend on the settings.
    return _broadcast(np.uint32(value), shape)


def _joined(parts: list, axis: int):
    return do.concatenate(*parts, dimension=axis)


def _columns(*words):
    """Stack arrays along a new last axis."""
    # Each array gets a last axis of length 1, along which they are joined.
    return _joined([_shaped(w, (*aval_of(w).shape, 1)) for w in words], aval_of(words[0]).ndim)


def _cut(x, start: int, stop: int):
    """Slice the last axis from `start` to `stop`."""
    shape = aval_of(x).shape
    starts = (*(0 for _ in shape[1:]), start)
    return do.slice(x, start_indices=starts, limit_indices=(*shape[:-1], stop), strides=None)


def _halves_of(keys) -> tuple[Any, Any]:
    """Return the two words of every key."""
    # `random_unwrap` gives words, however keys are stored.
    words, shape = do.random_unwrap(keys), aval_of(keys).shape
    return _shaped(_cut(words, 0, 1), shape), _shaped(_cut(words, 1, 2), shape)


def _pairs(keys, high, low) -> tuple[Any, Any]:
    """Encrypt counters, whose axes follow those of the keys, with every key."""
    lead = aval_of(keys).ndim
    shape = (*aval_of(keys).shape, *aval_of(low).shape)
    k0, k1 = (_broadcast(k, shape) for k in _halves_of(keys))
    axes = tuple(range(lead, len(shape)))
    high, low = (
        do.broadcast_in_dim(c, shape=shape, broadcast_dimensions=axes, sharding=None)
        for c in (high, low)
    )
    return tuple(do.threefry2x32(k0, k1, high, low))  # pyright: ignore[reportReturnType]


def _counters(count: int) -> Any:
    return do.iota(dtype=_uint32, shape=(count,), dimension=0, sharding=None)


def _own_pairs(keys, count: int):
    """Encrypt the counters 0, 1, ... with every key."""
    # The high word of the counters is 0: fewer than 2**32 are wanted.
    return _pairs(keys, _full(0, (count,)), _counters(count))


def _stream(keys, size: int):
    """Return the original stream: word i and the word half a stream behind it are one pair."""
    half = (size + 1) // 2
    first = _counters(half)
    second = do.add(first, _full(half, (half,)))
    if size % 2:  # an odd stream has no last partner
        last = do.eq(second, _full(size, (half,)))
        second = do.select_n(last, second, _full(0, (half,)))
    words = _joined(list(_pairs(keys, first, second)), aval_of(keys).ndim)
    return _cut(words, 0, size)


# Two words as one of 64 bits; they share no bit, so the sum is their union.
def _wide(high, low):
    high, low = _cast(high, np.uint64), _cast(low, np.uint64)
    by = _broadcast(np.uint64(32), aval_of(high).shape)
    return do.add(do.shift_left(high, by), low)


def seed_parts(seeds, *, impl):
    """`random_seed`: the halves of a 64-bit seed; narrower seeds have no high half."""
    _only_threefry(impl)
    aval = aval_of(seeds)
    high = _full(0, aval.shape)
    if aval.dtype.itemsize > 4:
        seeds = _cast(seeds, np.uint64)
        by = _broadcast(np.uint64(32), aval.shape)
        high = _cast(do.shift_right_logical(seeds, by), _uint32)
    return do.random_wrap(_columns(high, _cast(seeds, _uint32)), impl=impl)


def split_parts(keys, *, shape: tuple[int, ...], partitionable: bool = False):
    """`random_split`: pairs of words of a key's stream."""
    aval = aval_of(keys)
    _only_threefry(aval.dtype.impl)
    count = math.prod(shape)
    # The partitionable stream's pairs are the keys; the original stream is read two words at a
    # time.
    words = _columns(*_own_pairs(keys, count)) if partitionable else _stream(keys, 2 * count)
    return do.random_wrap(_shaped(words, (*aval.shape, *shape, 2)), impl=aval.dtype.impl)


def fold_in_parts(keys, data):
    """`random_fold_in`: the pair that a key makes of the number."""
    aval, impl = aval_of(keys), aval_of(keys).dtype.impl
    _only_threefry(impl)
    shape = np.broadcast_shapes(aval.shape, aval_of(data).shape)
    k0, k1, data = (_aligned(x, shape) for x in (*_halves_of(keys), data))
    # The counter is (0, data): its pair is the new key.
    pair = do.threefry2x32(k0, k1, _full(0, shape), data)
    return do.random_wrap(_columns(*pair), impl=impl)


def _aligned(x, shape: tuple[int, ...]):
    """Broadcast as NumPy does: axes align at the end."""
    rank = aval_of(x).ndim
    if aval_of(x).shape == shape:
        return x
    axes = tuple(range(len(shape) - rank, len(shape)))
    return do.broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes, sharding=None)


def bits_at(keys, counters, bit_width: int):
    """Return the numbers of a partitionable stream that belong to uint32 counters, for each key."""
    a, b = _pairs(keys, _full(0, aval_of(counters).shape), counters)
    # A pair for each number, its words xored unless all 64 bits are wanted.
    return _wide(a, b) if bit_width == 64 else _cast(do.xor(a, b), np.dtype(f"uint{bit_width}"))


def original_bits_at(keys, places, bit_width: int, size: int):
    """Return the numbers of an original stream of `size` numbers at uint32 places, for each key."""
    count, shape = -(-size * bit_width // 32), aval_of(places).shape
    if bit_width >= 32:
        first = _words_at(keys, places, count)
        if bit_width == 32:
            return first
        return _wide(first, _words_at(keys, do.add(places, _full(size, shape)), count))
    # Words hold several numbers, lowest bits first.
    each = _full(32 // bit_width, shape)
    words = _words_at(keys, do.div(places, each), count)
    by = do.mul(do.rem(places, each), _full(bit_width, shape))
    by = _over_keys(by, keys)
    return _cast(do.shift_right_logical(words, by), np.dtype(f"uint{bit_width}"))


def _words_at(keys, places, size: int):
    """Return words of an original stream of `size` words: `_stream`, at some places."""
    shape = aval_of(places).shape
    half = _full((size + 1) // 2, shape)
    behind = do.ge(places, half)
    first = do.select_n(behind, places, do.sub(places, half))
    second = do.add(first, half)
    if size % 2:  # an odd stream has no last partner
        last = do.eq(second, _full(size, shape))
        second = do.select_n(last, second, _full(0, shape))
    return do.select_n(_over_keys(behind, keys), *_pairs(keys, first, second))


def _over_keys(x, keys):
    """Broadcast a value of places over the keys, whose axes come first."""
    lead, shape = aval_of(keys).shape, aval_of(x).shape
    axes = tuple(range(len(lead), len(lead) + len(shape)))
    return do.broadcast_in_dim(x, shape=(*lead, *shape), broadcast_dimensions=axes, sharding=None)


def bits_parts(keys, *, bit_width: int, shape: tuple[int, ...], partitionable: bool = False):
    """`random_bits`, of many keys."""
    aval = aval_of(keys)
    _only_threefry(aval.dtype.impl)
    size, result = math.prod(shape), (*aval.shape, *shape)
    dtype = np.dtype(f"uint{bit_width}")
    if partitionable:
        return _shaped(bits_at(keys, _counters(size), bit_width), result)
    # Words of 32 bits that all numbers take together, rounded up.
    count = -(-size * bit_width // 32)
    words = _stream(keys, count)
    if bit_width == 64:
        return _shaped(_wide(_cut(words, 0, size), _cut(words, size, 2 * size)), result)
    # Words split into narrow numbers, lowest bits first.
    if bit_width < 32:
        parts = do.bitcast_convert_type(words, new_dtype=dtype)
        words = _cut(_shaped(parts, (*aval.shape, count * 32 // bit_width)), 0, size)
    return _shaped(words, result)


def uniform_parts(key, low, high, *, shape: tuple[int, ...]):
    """`rng_uniform`, from a key that is not used otherwise."""
    dtype = aval_of(low).dtype
    whole = np.issubdtype(dtype, np.integer)
    wide = np.dtype(np.uint64) if whole or dtype.itemsize == 8 else _uint32
    bits = do.random_bits(key, bit_width=8 * wide.itemsize, shape=shape, partitionable=True)
    if whole:
        # The interval has at least one number, as in the NumPy rule.
        top = do.max(high, do.add(low, dtype.type(1)))
        # Unsigned, so that the span is right where high - low would overflow.
        span = do.sub(_cast(top, wide), _cast(low, wide))
        return do.add(_cast(do.rem(bits, _broadcast(span, shape)), dtype), _broadcast(low, shape))
    kind = np.dtype(np.float64 if wide.itemsize == 8 else np.float32)
    # As many random bits as the mantissa holds, so that every number is equally likely.
    kept = np.finfo(kind).nmant + 1
    drop = _broadcast(wide.type(8 * wide.itemsize - kept), shape)
    unit = do.mul(_cast(do.shift_right_logical(bits, drop), kind), kind.type(0.5**kept))
    first, last = (_broadcast(_cast(x, kind), shape) for x in (low, high))
    values = _cast(do.add(first, do.mul(unit, do.sub(last, first))), dtype)
    # Rounding may reach `high`, which does not belong to the interval.
    return do.select_n(do.lt(_cast(values, kind), last), _broadcast(low, shape), values)
