"""What memory arrays take, and what to say when there is none left.

Floor 5. In: the arrays alive right now. Out: counts, lists, and an error that names the largest of
them.
"""

from __future__ import annotations

import gc

from gpuarray import errors
from gpuarray.drivers import memory as pool
from gpuarray.runtime.array import ArrayImpl


def live_arrays(platform: str | None = None) -> list[ArrayImpl]:
    """All arrays that hold memory (of one platform), largest first.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> x = gnp.ones(3)
    >>> any(a is x for a in ga.live_arrays())
    True
    """
    # Found by the garbage collector rather than kept in a list: a list would cost every array its
    # upkeep.
    found = [
        a
        for a in gc.get_objects()
        if type(a) is ArrayImpl
        and not a.is_deleted()
        and (platform is None or a.device.platform == platform)
    ]
    return sorted(found, key=lambda a: -a.nbytes)


def memory_stats() -> dict[str, int]:
    """Bytes in live arrays, and bytes the pool keeps for the next ones.

    >>> import gpuarray as ga
    >>> sorted(ga.memory_stats())
    ['arrays', 'bytes_in_use', 'bytes_kept']
    """
    arrays = live_arrays()
    return {
        "arrays": len(arrays),
        "bytes_in_use": sum(a.nbytes for a in arrays),
        "bytes_kept": pool.kept_bytes(),
    }


def free() -> int:
    """Return the memory the pool keeps to the system; says how many bytes that were."""
    return pool.free()


def out_of_memory(error: MemoryError, needed: str) -> errors.OutOfMemory:
    """The error a user can act on: what was asked for, and who holds the rest."""
    lines = [f"    {a.nbytes / 2**20:10.1f} MiB  {a.aval.str_short()}" for a in live_arrays()[:5]]
    return errors.OutOfMemory(
        f"Out of memory in {needed}: {error}.\nThe largest live arrays:\n"
        + "\n".join(lines or ["    (none)"])
        + "\nDelete some (x.delete()), donate inputs (jit(..., donate_argnums=...)), or use a "
        "smaller dtype."
    )
