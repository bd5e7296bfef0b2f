"""The memories that an array may be asked to be in.

Floor 1. In: nothing. Out: `Space`, by JAX's names. An array is in the memory of its device.
"""

from __future__ import annotations

import enum


class Space(enum.Enum):
    """A kind of memory, as `device_put` takes it: only a device's own holds arrays.

    >>> import gpuarray as ga
    >>> ga.device_put(1.0, ga.memory.Space.Device)
    Array(1., dtype=float32, weak_type=True)
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"
