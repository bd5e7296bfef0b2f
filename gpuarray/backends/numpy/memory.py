"""Memory for large arrays on the CPU: freed blocks are kept for the next array of their size.

Floor 4. In: shape and dtype. Out: an uninitialised array. Touching fresh pages costs more than most
kernels take, so a block whose last view has died goes back to the pool and not to the system.
Nothing is allocated in advance.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.util import references

#: For smaller arrays NumPy's own allocator is as fast.
POOLED_FROM = 1 << 20
#: Bytes of a line of the cache.
LINE = 64
#: The most bytes that the pool keeps.
KEEP = 1 << 30

_free: dict[int, list[np.ndarray]] = {}
_kept = 0
_lock = util.lock()  # reentrant: a block may be freed while this thread is in here


def machine_bytes() -> int:
    """Return the memory of this machine; a very large number where the system does not say."""
    # Windows has no sysconf.
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 1 << 47
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(size: int) -> None:
    """Raise MemoryError for more bytes than the machine has, which a system may promise anyway."""
    there = machine_bytes()
    if size > there:
        raise MemoryError(f"an array of {size:,} bytes; this machine has {there:,}")


def refusal(size: int) -> Callable[..., Any]:
    """Return the function that replaces a step whose results do not fit in memory."""
    return lambda *_: check(size)


class _Block:
    """Owns a block as long as arrays view it: NumPy keeps it as their base."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...]):
        self.memory = memory
        # Aligned to a cache line, so that no vector crosses two of them.
        place = -(-memory.ctypes.data // LINE) * LINE
        # NumPy's array interface: an array made from it keeps this object alive as its base.
        self.__array_interface__ = {
            "data": (place, False),
            "shape": shape,
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self):
        _give_back(self.memory)


# Called when the last view has died; beyond the limit the memory is freed.
def _give_back(memory: np.ndarray) -> None:
    global _kept
    size = memory.nbytes
    with _lock:
        if _kept + size <= KEEP:
            _free.setdefault(size, []).append(memory)
            _kept += size


def empty(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return an uninitialised array, from the pool if it is large."""
    global _kept
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < POOLED_FROM:
        return np.empty(shape, dtype)
    # Sizes are rounded to 64 KiB, so that blocks fit arrays of similar sizes.
    rounded = -(-(size + LINE) // 65536) * 65536
    with _lock:
        blocks = _free.get(rounded)
        memory = blocks.pop() if blocks else None
        if memory is not None:
            _kept -= rounded
        if blocks == []:
            del _free[rounded]
    if memory is None:
        check(size)
        memory = np.empty(rounded, np.uint8)
    # The view chain is array -> bytes -> _Block: is_exclusive below counts on it.
    return np.asarray(_Block(memory, (size,))).view(dtype).reshape(shape)


def is_exclusive(buffer, holders: int) -> bool:
    """Whether only `holders` known references lead to this memory, so that it may be reused."""
    # A subclass, a scalar or read-only memory belongs to others.
    if type(buffer) is not np.ndarray or not buffer.flags.writeable:
        return False
    # Counted besides the holders: this function's argument.
    if references((buffer,)) > holders + 1:
        return False
    base = buffer.base
    if base is None:
        return True
    # A pooled array is a view of the array over its block; any other view would hold that base too.
    pooled = type(base) is np.ndarray and type(base.base) is _Block
    return pooled and references((base,)) <= 2  # the array's, and the variable


def free() -> int:
    """Return all kept blocks to the system; return how many bytes it was."""
    global _kept
    with _lock:
        size, _kept = _kept, 0
        _free.clear()
    return size


def kept_bytes() -> int:
    """Return the bytes in the pool that no array uses."""
    return _kept
