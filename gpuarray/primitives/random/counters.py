"""Generators of one hash of a key and a counter: Philox-2x32, Philox-4x32 and Threefry-4x32.

Floor 2. In: key words, uint32[..., words], of one key or of many. Out: keys and bits, bit for bit
those of JAX. Number i of a stream is the hash of counter i, so any piece can be computed
independently. The algorithms are those of Salmon et al., "Parallel random numbers: as easy as 1, 2,
3" (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray.util import prod

#: NumPy arrays. A type checker would take seconds to infer the types of twenty rounds of operators.
Words = tuple[Any, ...]

_u32, _u64 = np.uint32, np.uint64
#: The constants of the paper: Philox's multipliers, and the increments of its key in each round.
_FACTOR_OF_TWO = 0xD256D193
_FACTORS_OF_FOUR = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85
#: Threefry's parity of the key, and by how much it turns the two words of each round.
_PARITY = 0x1BD11BDA
_TURNS = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)


def _multiplied(factor: int, x: np.ndarray) -> Words:
    """The high and the low word of a product."""
    wide = x.astype(_u64) * _u64(factor)
    return (wide >> _u64(32)).astype(_u32), wide.astype(_u32)


def philox2x32(key: Words, counter: Words) -> Words:
    """Ten rounds of Philox on two words, under a key of one."""
    (k,), (x, y) = key, counter
    for number in range(10):
        high, low = _multiplied(_FACTOR_OF_TWO, x)
        x, y = high ^ y ^ (k + _u32(number * _STEPS[0] & 0xFFFFFFFF)), low
    return x, y


def philox4x32(key: Words, counter: Words) -> Words:
    """Ten rounds of Philox on four words, under a key of two."""
    (a, b), (x, y, z, w) = key, counter
    for number in range(10):
        (h0, l0), (h1, l1) = (
            _multiplied(f, v) for f, v in zip(_FACTORS_OF_FOUR, (x, z), strict=True)
        )
        k0, k1 = (k + _u32(number * s & 0xFFFFFFFF) for k, s in zip((a, b), _STEPS, strict=True))
        x, y, z, w = h1 ^ y ^ k0, l1, h0 ^ w ^ k1, l0
    return x, y, z, w


def threefry4x32(key: Words, counter: Words) -> Words:
    """Twenty rounds of Threefry on four words, under a key of four."""
    words = (*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ _u32(_PARITY))
    x = [c + k for c, k in zip(counter, key, strict=True)]
    for number in range(20):
        # Words 0 and 1, 2 and 3 are mixed in even rounds, 0 and 3, 2 and 1 in odd ones.
        other = (1, 3) if number % 2 == 0 else (3, 1)
        for i, j, turn in zip((0, 2), other, _TURNS[number % 8], strict=True):
            x[i] = x[i] + x[j]
            x[j] = (x[j] << _u32(turn) | x[j] >> _u32(32 - turn)) ^ x[i]
        if number % 4 == 3:
            group = number // 4 + 1
            x = [v + words[(group + i) % 5] for i, v in enumerate(x)]
            x[3] = x[3] + _u32(group)
    return tuple(x)


class Counted(NamedTuple):
    """A generator made from a hash.

    Attributes
    ----------
    tag :
        The name that dtypes show.
    hash :
        From key words and counter words to as many words as the counter has.
    words, counters :
        How many words a key and a counter have.
    seeded :
        From the two halves of a seed to the key and the counter whose hash is the new key.
    drawn :
        From the words of a number's hash to its high and low word.
    """

    tag: str
    hash: Callable[[Words, Words], Words]
    words: int
    counters: int
    seeded: Callable[[np.ndarray, np.ndarray], tuple[Words, Words]]
    drawn: Callable[[Words], Words]

    def seed(self, seed: int, bits: int) -> np.ndarray:
        """A key from a seed of this many bits; narrow ones have no high half."""
        high = seed >> 32 & 0xFFFFFFFF if bits > 32 else 0
        halves = (np.full(1, half, _u32) for half in (high, seed & 0xFFFFFFFF))
        key, counter = self.seeded(*halves)
        return np.concatenate(self.hash(key, counter)[: self.words])

    def _keys(self, keys: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """The keys that counters make of keys: the last words of a counter."""
        zeros = (np.zeros(1, _u32),) * (self.counters - 2)
        key = tuple(keys[..., i] for i in range(self.words))
        new = self.hash(key, (*zeros, high, low))[: self.words]
        shape = np.broadcast_shapes(keys.shape[:-1], low.shape)
        return np.stack([np.broadcast_to(x, shape) for x in new], -1)

    def split(self, keys: np.ndarray, shape: tuple[int, ...], partitionable: bool) -> np.ndarray:
        """Keys of every key, in an array of this shape."""
        new = self._keys(keys[..., None, :], *_counters(prod(shape)))
        return new.reshape((*keys.shape[:-1], *shape, self.words))

    def fold_in(self, keys: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Keys mixed with numbers."""
        # With an axis more, so that NumPy sees arrays: its scalars warn where they overflow.
        low = np.asarray(data, _u32)[..., None]
        return self._keys(keys[..., None, :], np.zeros_like(low), low)[..., 0, :]

    def bits(
        self, keys: np.ndarray, width: int, shape: tuple[int, ...], partitionable: bool
    ) -> np.ndarray:
        """Numbers of 8, 16, 32 or 64 bits for every key."""
        # Every number has its own counter, so it does not depend on how arrays are split:
        # `partitionable` has no effect.
        zeros = (np.zeros(1, _u32),) * (self.counters - 2)
        key = tuple(keys[..., None, i] for i in range(self.words))
        out = self.hash(key, (*_counters(prod(shape)), *zeros))
        if width == 64:
            high, low = self.drawn(out)
            found = high.astype(_u64) << _u64(32) | low
        else:
            found = np.bitwise_xor.reduce(np.broadcast_arrays(*out)).astype(f"uint{width}")
        return found.reshape((*keys.shape[:-1], *shape))


def _counters(size: int) -> Words:
    """The high and low words of 0, 1, ..."""
    numbers = np.arange(size, dtype=_u64)
    return (numbers >> _u64(32)).astype(_u32), numbers.astype(_u32)


_ZERO = np.zeros(1, _u32)


def _philox_seed(words: int) -> Callable[[np.ndarray, np.ndarray], tuple[Words, Words]]:
    # The seed is the counter, the key zero; the counter has two words for each of the key's.
    rest = (_ZERO,) * (2 * words - 2)
    return lambda high, low: ((_ZERO,) * words, (high, low, *rest))


def _threefry_seed(high: np.ndarray, low: np.ndarray) -> tuple[Words, Words]:
    return (high, low, _ZERO, _ZERO), (_ZERO,) * 4


def _first_two(out: Words) -> Words:
    return out[:2]


def _folded(out: Words) -> Words:
    return out[0] ^ out[2], out[1] ^ out[3]


#: By name: the hash, and the parameters in which the generators differ.
COUNTED_HASHES = {
    "philox2x32": Counted("phx2", philox2x32, 1, 2, _philox_seed(1), _first_two),
    "philox4x32": Counted("phx4", philox4x32, 2, 4, _philox_seed(2), _first_two),
    "threefry4x32": Counted("fry4", threefry4x32, 4, 4, _threefry_seed, _folded),
}
