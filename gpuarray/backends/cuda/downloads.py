"""Copies from a GPU to the host, concurrent with computations.

Floor 4. In: a Buffer (device.py). Out: its elements as a NumPy array, once they are there.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gpuarray.backends.cuda.availability import cupy

#: Larger copies do not go through pinned memory, which is scarce.
PINNED = 1 << 25


class Download:
    """A copy of a Buffer to the host in progress, on a separate stream.

    It waits for the work that fills the buffer, not for later work, which does not wait for it: the
    memory is kept until it has been read.
    """

    def __init__(self, buffer: Any):
        self._lock = threading.Lock()
        self._host = np.empty(buffer.shape, buffer.dtype)
        self._gpu = buffer.gpu
        self._pinned: Any = None
        self._event: Any = None
        if self._host.nbytes:
            try:
                with buffer.gpu.device:
                    self._start(buffer)
            except Exception as error:
                raise buffer.gpu.failed(error) from None

    def _start(self, buffer: Any) -> None:
        gpu, host, runtime = buffer.gpu, self._host, cupy.cuda.runtime
        stream = gpu.downloads
        if not gpu.is_done(buffer.ticket):
            stream.wait_event(gpu.mark(buffer.ticket))
        target, pinned = host.ctypes.data, None
        # Pinned memory lets the copy run asynchronously; large ones go to the result directly.
        if host.nbytes <= PINNED:
            pinned = gpu.pinned(host.nbytes)
            target = pinned.ptr
        kind = runtime.memcpyDefault  # the buffer may be in pinned memory
        runtime.memcpyAsync(target, buffer.pointer, host.nbytes, kind, stream.ptr)
        self._pinned, self._event = pinned, cupy.cuda.Event(disable_timing=True)
        self._event.record(stream)
        # Both are written and read until then, whatever becomes of this object and the buffer.
        gpu.reading(self._event, (buffer.memory, pinned))

    def value(self) -> np.ndarray:
        """Wait for the elements and return them, read-only."""
        with self._lock:
            if self._event is not None:
                try:
                    self._event.synchronize()
                except Exception as error:
                    raise self._gpu.failed(error) from None
                # Pinned memory is scarce: the elements move on, and it serves the next copy.
                if self._pinned is not None:
                    flat = self._host.reshape(-1).view(np.uint8)
                    flat[...] = np.frombuffer(self._pinned, np.uint8, flat.nbytes)
                self._event = self._pinned = None
                self._gpu.look()
            self._host.flags.writeable = False
        return self._host
