"""The copy bandwidth of a device: a lower bound on the time of memory-bound steps.

Floor 4. In: a device and a number of bytes. Out: bytes a second, read and written, measured once.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from gpuarray.backends.cuda import device as cuda
from gpuarray.backends.cuda import timeline
from gpuarray.core import threads
from gpuarray.core.sharding import Device

#: The smallest and the largest number of bytes that are measured: below, the call takes the time.
LEAST, MOST = 1 << 16, 1 << 28
#: From this size on, threads share a copy on a CPU.
SHARED = 1 << 22
#: Tries; the best one counts, since other programs only make it slower.
TRIES = 4


def copy_bandwidth(device: Device, nbytes: int) -> float:
    """Return the bytes a second of a copy that reads and writes about `nbytes` in all.

    Small copies stay in a cache, so they are measured separately: for each power of two.
    """
    near = min(max(LEAST, 1 << max(0, nbytes - 1).bit_length()), MOST)
    return _measured(device.platform, device.id if device.platform == "gpu" else 0, near)


@functools.lru_cache(256)
def _measured(platform: str, number: int, nbytes: int) -> float:
    # Half of the bytes are read, the other half written.
    half = nbytes // 2
    if platform == "gpu":
        return nbytes / timeline.copy_seconds(cuda.gpus()[number], half, TRIES)
    source, target = np.ones(half, np.uint8), np.zeros(half, np.uint8)
    count = threads.thread_count() if nbytes >= SHARED else 1

    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        threads.each(lambda s: np.copyto(target[s], source[s]), half, -(-half // count))
        best = min(best, time.perf_counter() - start)
    return nbytes / best
