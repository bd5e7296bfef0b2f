"""Memory for large arrays on the CPU: freed blocks are kept for the next array of their size.

Floor 4. In: shape and dtype. Out: an uninitialised array. Fresh pages cost more to touch than most
kernels take, so a block whose last view has died goes back to the pool instead of to the system.
Nothing is taken in
advance.
"""

from __future__ import annotations

import math
import os
import sys

import numpy as np

from gpuarray import util

#: Smaller arrays are better served by NumPy's own allocator.
POOLED_FROM = 1 << 20
#: Bytes the pool keeps at most.
KEEP = 1 << 30

_free: dict[int, list[np.ndarray]] = {}
_kept = 0
_lock = util.lock()  # a block may die, and come back, while this thread is in here


def machine_bytes() -> int:
    """The memory of this machine, as far as the system says it."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 1 << 47
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class _Block:
    """Owns a block while any array looks at it: NumPy keeps it as the base of those arrays."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...]):
        self.memory = memory
        self.__array_interface__ = {
            "data": (memory.ctypes.data, False),
            "shape": shape,
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self):
        _give_back(self.memory)


def _give_back(memory: np.ndarray) -> None:
    global _kept
    size = memory.nbytes
    with _lock:
        if _kept + size <= KEEP:
            _free.setdefault(size, []).append(memory)
            _kept += size


def empty(shape: tuple[int, ...], dtype) -> np.ndarray:
    """An uninitialised array, from the pool when it is large."""
    global _kept
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < POOLED_FROM:
        return np.empty(shape, dtype)
    rounded = -(-size // 65536) * 65536
    with _lock:
        blocks = _free.get(rounded)
        memory = blocks.pop() if blocks else None
        if memory is not None:
            _kept -= rounded
        if blocks == []:
            del _free[rounded]
    if memory is None:
        memory = np.empty(rounded, np.uint8)
    return np.asarray(_Block(memory, (size,))).view(dtype).reshape(shape)


def is_exclusive(buffer, holders: int) -> bool:
    """Whether nobody but `holders` known references can see this memory, so that it may be
    overwritten.
    """
    if type(buffer) is not np.ndarray or not buffer.flags.writeable:
        return False
    # Two more references are this function's argument and the one getrefcount is given.
    if sys.getrefcount(buffer) > holders + 2:
        return False
    base = buffer.base
    if base is None:
        return True
    # A pooled array: its base belongs to the block, and every other view of it would hold that base
    # too.
    pooled = type(base) is np.ndarray and type(base.base) is _Block
    return pooled and sys.getrefcount(base) <= 3


def free() -> int:
    """Return all kept blocks to the system; says how many bytes that were."""
    global _kept
    with _lock:
        size, _kept = _kept, 0
        _free.clear()
    return size


def kept_bytes() -> int:
    """Bytes in the pool that no array uses."""
    return _kept
