"""Counter-based random generators on NumPy words: Threefry-2x32 and Philox-4x32.

Floor 2. In: key words and counters (uint32). Out: random words, the same on every machine. Long
streams are made in place, in blocks that stay in cache; a few words are made with Python integers,
which is faster than 100 NumPy calls. Both algorithms are those of Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpuarray.util import function_of_text, prod

_BLOCK = 1 << 14  # words per block: three arrays of 64 KB
_FEW = 8  # pairs up to which Python integers are faster
_MASK = 0xFFFFFFFF
_PARITY = 0x1BD11BDA
# Constants of the paper: the key schedule's parity and the rotations, in two groups of four.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

_u32, _u64 = np.uint32, np.uint64
# As NumPy scalars: (left shift, right shift) of every round, and the number added after every four.
_SHIFTS = [[(_u32(r), _u32(32 - r)) for r in rounds] for rounds in _ROTATIONS]
_NUMBERS = [_u32(i) for i in range(6)]


def _pair_function() -> Callable[[int, int, int, int], tuple[int, int]]:
    """Threefry-2x32 with 20 rounds on Python integers, as one run of lines.

    A round masks its second word alone: the first grows by a bit at most, and only its lowest 32
    bits count.
    """
    lines = [
        "def pair(k0, k1, x0, x1):",
        f"    k2 = k0 ^ k1 ^ {_PARITY}",
        f"    x0, x1 = x0 + k0, x1 + k1 & {_MASK}",
    ]
    # Five groups of four rounds, each followed by the injection of the next key words.
    for i in range(5):
        for r in _ROTATIONS[i & 1]:
            lines.append("    x0 += x1")
            # Rotate x1 left by r bits, then mix.
            lines.append(f"    x1 = ((x1 << {r} | x1 >> {32 - r}) ^ x0) & {_MASK}")
        lines.append(f"    x0 += k{(i + 1) % 3}")
        lines.append(f"    x1 = x1 + k{(i + 2) % 3} + {i + 1} & {_MASK}")
    # Unrolled, without name lookups.
    lines.append(f"    return x0 & {_MASK}, x1")
    return function_of_text("\n".join(lines), "<threefry>", {})


_pair = _pair_function()


def _block(keys, x0: np.ndarray, x1: np.ndarray, spare: np.ndarray) -> None:
    """Threefry-2x32 with 20 rounds in place; `keys` are three words or three arrays of them."""
    add, xor, left, right = np.add, np.bitwise_xor, np.left_shift, np.right_shift
    add(x0, keys[0], x0)
    add(x1, keys[1], x1)
    for i in range(5):
        # Rotation as two shifts, with one spare array for all of them.
        for up, down in _SHIFTS[i & 1]:
            add(x0, x1, x0)
            right(x1, down, spare)
            left(x1, up, x1)
            xor(x1, spare, x1)
            xor(x1, x0, x1)
        add(x0, keys[(i + 1) % 3], x0)
        add(x1, keys[(i + 2) % 3], x1)
        add(x1, _NUMBERS[i + 1], x1)


# The third word makes any two of the three injections differ.
def _schedule(k0, k1):
    return k0, k1, k0 ^ k1 ^ _u32(_PARITY)


def threefry2x32(k0, k1, x0, x1) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt counters (x0, x1) with keys (k0, k1): uint32 arrays that broadcast, two results.

    >>> a, b = threefry2x32(*np.zeros(4, np.uint32))
    >>> hex(a), hex(b)
    ('0x6b200159', '0x99ba4efe')
    """
    shape = np.broadcast_shapes(np.shape(k0), np.shape(k1), np.shape(x0), np.shape(x1))
    size = prod(shape)
    out0, out1 = np.empty(shape, _u32), np.empty(shape, _u32)
    if size == 0:
        return out0, out1
    # Counters are encrypted in place: outputs begin as the counters.
    out0[...], out1[...] = x0, x1
    flat0, flat1 = out0.reshape(-1), out1.reshape(-1)
    one_key = np.size(k0) == np.size(k1) == 1
    # A few words: Python integers.
    if size <= _FEW:
        words = [np.broadcast_to(k, shape).reshape(-1).tolist() for k in (k0, k1)]
        for i, (a, b) in enumerate(zip(*words, strict=True)):
            flat0[i], flat1[i] = _pair(a, b, int(flat0[i]), int(flat1[i]))
        return out0, out1
    if one_key:
        keys = _schedule(*(_u32(np.asarray(k).item()) for k in (k0, k1)))
    else:
        # Keys that differ: one for each counter, in blocks like them.
        every = (np.ascontiguousarray(np.broadcast_to(k, shape)).reshape(-1) for k in (k0, k1))
        keys = _schedule(*every)
    spare = np.empty(min(_BLOCK, size), _u32)
    for start in range(0, size, _BLOCK):
        # Block by block, in place.
        part = slice(start, start + _BLOCK)
        a, b = flat0[part], flat1[part]
        _block(keys if one_key else [k[part] for k in keys], a, b, spare[: a.size])
    return out0, out1


def threefry_stream(key: np.ndarray, size: int, *, partitionable: bool) -> np.ndarray:
    """Return the first words of a key's stream: uint32[2] -> uint32[size].

    The original stream numbers all words and encrypts the first half of them with the second half,
    so a word depends on the size. The partitionable one encrypts every word's 64-bit number
    separately, so any piece can be computed independently.
    """
    if not partitionable and size > _MASK:
        return _long_stream(key, size)
    out = np.empty(size, _u32)
    if size == 0:
        return out
    k0, k1 = key.tolist()
    # Each pair gives two words of the original stream, one of the partitionable.
    pairs = size if partitionable else (size + 1) // 2
    if pairs <= _FEW:
        for i in range(pairs):
            if partitionable:
                a, b = _pair(k0, k1, 0, i)
                out[i] = a ^ b
            else:
                # An odd stream has no last partner: 0 is encrypted instead.
                a, b = _pair(k0, k1, i, pairs + i if pairs + i < size else 0)
                out[i] = a
                if pairs + i < size:
                    out[pairs + i] = b
        return out
    keys = _schedule(_u32(k0), _u32(k1))
    # Counters of one block; each block adds its start.
    count = np.arange(min(_BLOCK, pairs), dtype=_u32)
    work0, work1, spare = (np.empty_like(count) for _ in range(3))
    for start in range(0, pairs, _BLOCK):
        n = min(_BLOCK, pairs - start)
        x0, x1 = work0[:n], work1[:n]
        low = _u32(start & _MASK)
        if partitionable:
            x0[...] = start >> 32
            # The low word wraps; the high word cannot change within a block, whose size divides
            # 2**32.
            np.add(count[:n], low, out=x1)
            _block(keys, x0, x1, spare[:n])
            np.bitwise_xor(x0, x1, out=out[start : start + n])
        else:
            np.add(count[:n], low, out=x0)
            np.add(count[:n], _u32(pairs + start), out=x1)
            # The last partner of an odd stream, again 0.
            if pairs + start + n > size:
                x1[-1] = 0
            _block(keys, x0, x1, spare[:n])
            out[start : start + n] = x0
            tail = out[pairs + start : pairs + start + n]
            tail[...] = x1[: tail.size]
    return out


def _long_stream(key: np.ndarray, size: int) -> np.ndarray:
    """Return more words than a 32-bit counter has: each part is a full stream of a split key."""
    # Full streams, and one for the rest.
    parts, rest = divmod(size, _MASK)
    keys = threefry_stream(key, 2 * (parts + 1), partitionable=False).reshape(-1, 2)
    sizes = [_MASK] * parts + [rest]
    streams = [threefry_stream(k, n, partitionable=False) for k, n in zip(keys, sizes, strict=True)]
    return np.concatenate(streams)


def pair_layout(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return (axis, padded shape): the axis along which the two words of a pair are adjacent.

    It is the first axis of even length; failing that the longest, padded by one.
    """
    for axis, n in enumerate(shape):
        if n % 2 == 0:
            return axis, shape
    axis = max(range(len(shape)), key=lambda i: (shape[i], -i))
    return axis, (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])


def threefry_counted(key, counter: int, shape, dtype) -> tuple[np.ndarray, int]:
    """Threefry as a stream with a 64-bit counter: return (bits of `dtype`, next counter)."""
    # A 64-bit number uses a whole pair; narrower ones half of one each.
    wide = np.dtype(dtype).itemsize == 8
    axis, padded = (0, shape) if wide or not shape else pair_layout(shape)
    pairs = prod(shape) if wide or not shape else prod(padded) // 2
    # Counters of 64 bits, so that a stream never repeats.
    count = np.arange(pairs, dtype=_u64) + _u64(counter)
    low, high = threefry2x32(
        _u32(key[0]), _u32(key[1]), count.astype(_u32), (count >> _u64(32)).astype(_u32)
    )
    after = (counter + pairs) % 2**64
    if wide:
        return (high.astype(_u64) << _u64(32) | low).reshape(shape), after
    if not shape:
        return low.reshape(()).astype(dtype), after
    # Interleave the two words along the chosen axis, then drop the padding.
    halves = (*padded[:axis], padded[axis] // 2, *padded[axis + 1 :])
    words = np.stack([low.reshape(halves), high.reshape(halves)], axis + 1).reshape(padded)
    return words[tuple(map(slice, shape))].astype(dtype), after


def _philox_rounds(c: list[np.ndarray], k0: int, k1: int) -> list[np.ndarray]:
    """Ten rounds of Philox-4x32 on four uint64 arrays that hold 32-bit words."""
    mask = _u64(_MASK)
    for i in range(10):
        # uint64 holds the full product, whose high and low words are both used.
        first, second = c[0] * _u64(0xD2511F53), c[2] * _u64(0xCD9E8D57)
        # The key is raised by Weyl constants at each round.
        a = _u64((k0 + i * 0x9E3779B9) & _MASK)
        b = _u64((k1 + i * 0xBB67AE85) & _MASK)
        c = [
            second >> _u64(32) ^ c[1] ^ a,
            second & mask,
            first >> _u64(32) ^ c[3] ^ b,
            first & mask,
        ]
    return c


def philox_words(key, counter: int, count: int) -> np.ndarray:
    """Return uint32[count] words of Philox-4x32-10; four words take one step of the counter.

    The key words are the upper half of the 128-bit number that is encrypted; the 64-bit counter
    carries into them.
    """
    groups = math.ceil(count / 4)
    out = np.empty((groups, 4), _u32)
    k0, k1 = int(key[0]), int(key[1])
    for start in range(0, groups, _BLOCK):
        stop = min(start + _BLOCK, groups)
        number = np.arange(start, stop, dtype=_u64) + _u64(counter)
        # The sum wrapped exactly where it is smaller than the counter.
        upper = _u64(k0 | k1 << 32) + (number < _u64(counter))
        words = [half for n in (number, upper) for half in (n & _u64(_MASK), n >> _u64(32))]
        for i, word in enumerate(_philox_rounds(words, k0, k1)):
            out[start:stop, i] = word
    return out.reshape(-1)[:count]


def philox_counted(key, counter: int, shape, dtype) -> tuple[np.ndarray, int]:
    """Philox as a stream with a 64-bit counter: return (bits of `dtype`, next counter)."""
    size = prod(shape)
    wide = np.dtype(dtype).itemsize == 8
    words = philox_words(key, counter, 2 * size if wide else size)
    after = (counter + math.ceil(words.size / 4)) % 2**64
    if wide:
        # Two words make a number, the low one first.
        pairs = words.reshape(-1, 2).astype(_u64)
        words = pairs[:, 1] << _u64(32) | pairs[:, 0]
    return words.reshape(shape).astype(dtype, copy=False), after


#: By algorithm: (key, counter, shape, dtype) -> (bits, next counter).
COUNTED: dict[str, Callable[..., tuple[np.ndarray, int]]] = {
    "RNG_DEFAULT": philox_counted,
    "RNG_PHILOX": philox_counted,
    "RNG_THREE_FRY": threefry_counted,
}
