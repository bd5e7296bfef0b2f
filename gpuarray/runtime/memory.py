"""Memory of arrays: statistics, and out-of-memory errors.

Floor 5. In: the arrays that are alive. Out: counts, lists, and an error that names the largest
arrays.
"""

from __future__ import annotations

import contextlib
import gc
import math

from gpuarray import errors
from gpuarray.backends.numpy import memory as pool
from gpuarray.core.sharding import Device
from gpuarray.runtime import device as devices
from gpuarray.runtime.array import ArrayImpl


def live_arrays(platform: str | None = None) -> list[ArrayImpl]:
    """Return all arrays that hold memory (of one platform), largest first.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> x = gnp.ones(3)
    >>> any(a is x for a in ga.live_arrays())
    True
    """
    wanted = devices.platform_named(platform)
    # Found through the garbage collector: a list of our own would slow every array down.
    found = [
        a
        for a in gc.get_objects()
        if type(a) is ArrayImpl
        and hasattr(a, "_work")  # the last that is set: another thread may be making this one
        and not a.is_deleted()
        and (wanted is None or a._place.device.platform == wanted)
    ]
    return sorted(found, key=lambda a: -a.nbytes)


def memory_stats(device: Device | str | None = None) -> dict[str, int]:
    """Return bytes in live arrays, and bytes that the pool keeps for later ones.

    For all devices, or for one. A GPU adds its total (`bytes_limit`), the peak in use, and the
    number of free blocks in its pool: many small ones mean fragmentation.

    >>> import gpuarray as ga
    >>> sorted(ga.memory_stats())
    ['arrays', 'bytes_in_use', 'bytes_kept']
    """
    chosen = None if device is None else devices.place_for(device).device
    arrays = [a for a in live_arrays() if chosen is None or chosen in a._place.devices]
    gpus = [
        gpu for d in devices.gpus_in_use() if chosen in (None, d) and (gpu := devices.gpu_of(d))
    ]
    # Without a device this is about all; with a GPU, its own pool answers, and more.
    stats = {
        "arrays": len(arrays),
        "bytes_in_use": sum(_bytes(a, chosen) for a in arrays),
        "bytes_kept": sum(gpu.memory_stats()["bytes_kept"] for gpu in gpus),
    }
    if chosen is None or not gpus:
        stats["bytes_kept"] += pool.kept_bytes()
    return stats if chosen is None or not gpus else stats | gpus[0].memory_stats()


def _bytes(array: ArrayImpl, device: Device | None) -> int:
    """Return the bytes that an array takes, on one device or on all of this process."""
    place = array._place
    # Pieces are equally large on all devices.
    piece = math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
    if device is not None or place.is_single:
        return piece
    # Devices that share memory share the buffers of replicas.
    count = len(place.devices) if array._bufs is None else len({id(b) for b in array._bufs})
    return piece * count


def free() -> int:
    """Return the memory that the pools keep to the system; return how many bytes it was."""
    gpus = map(devices.gpu_of, devices.gpus_in_use())
    return pool.free() + sum(gpu.free() for gpu in gpus if gpu is not None)


def check_host_size(name: str, *shape: int) -> None:
    """Raise OutOfMemory for an array that the host would compute and cannot hold."""
    taken, there = 8 * math.prod(shape), pool.machine_bytes()
    if taken > there:
        raise errors.OutOfMemory(
            f"{name}: the host would work out an array of shape {shape}, {taken:,} bytes in double "
            f"precision, and has {there:,}."
        )


@contextlib.contextmanager
def accounted(needed: str):
    """Context manager for large work on the host: MemoryError is raised as OutOfMemory."""
    try:
        yield
    except MemoryError as error:
        if isinstance(error, errors.OutOfMemory):
            raise
        raise out_of_memory(error, needed) from None


def out_of_memory(error: MemoryError, needed: str) -> errors.OutOfMemory:
    """Return an error that the user can act on: the size requested, and the largest arrays."""
    # Not those that are yet to be computed, as that for which there was no room.
    held = [a for a in live_arrays() if a._bufs is not None]
    lines = [f"    {a.nbytes / 2**20:10.1f} MiB  {a.aval.str_short()}" for a in held[:5]]
    return errors.OutOfMemory(
        f"Out of memory in {needed}: {error}.\nThe largest live arrays:\n"
        + "\n".join(lines or ["    (none)"])
        + "\nDelete some (x.delete()), donate inputs (jit(..., donate_argnums=...)), or use a "
        "smaller dtype."
    )
