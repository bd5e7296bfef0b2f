"""Arrays in pinned memory of the host, which GPUs read and write over the bus.

Floor 4. In: a buffer of a GPU, or a value of the host. Out: a Buffer of the same elements in pinned
memory. Its address is valid on the GPU, so kernels and libraries take it as they take any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.borrowed import Borrowed
from gpuarray.backends.cuda.device import Buffer, Gpu


class _Pinned(Borrowed):
    """Pinned memory, released only after the work launched on it has run."""

    __slots__ = ()


def is_pinned(buffer: Buffer) -> bool:
    """Whether the elements are in pinned memory of the host."""
    return type(buffer.memory) is _Pinned


def pinned(gpu: Gpu, value: Buffer | np.ndarray | np.generic) -> Buffer:
    """Copy a value of a GPU, in the order of its stream, or of the host to pinned memory."""
    room = gpu.pinned(max(value.nbytes, 1))
    memory = cupy.cuda.UnownedMemory(room.ptr, value.nbytes, room, gpu.ordinal)
    pointer: Any = cupy.cuda.MemoryPointer(memory, 0)
    made = Buffer(room.ptr, value.shape, value.dtype, _Pinned(gpu, pointer), gpu, 0)
    if not isinstance(value, Buffer):
        # The new memory is not in use yet, so the host can write to it immediately.
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        np.frombuffer(room, np.uint8, value.nbytes)[...] = data
        return made
    with gpu.device:
        gpu.write(room.ptr, value.pointer, value.nbytes)
        made.ticket = gpu.launched()
    return made
