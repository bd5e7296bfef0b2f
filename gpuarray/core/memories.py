"""The memories that an array may be in: `Space` in types, kinds by name in shardings.

Floor 1. In: the name of a memory kind. Out: `Space`, under JAX's names, and the kinds that a device
can access. On a CPU all kinds are the same memory, and only record what a program would do on a
GPU.
"""

from __future__ import annotations

import enum


class Space(enum.Enum):
    """A kind of memory: the device's own, or the host's that devices read directly.

    >>> import gpuarray as ga
    >>> ga.typeof(ga.device_put(1.0, ga.memory.Space.Host))
    ShapedArray(float32<host>[], weak_type=True)
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__


#: The kinds of memory that arrays on a device of each platform may be in, the usual one first.
KINDS = {
    "cpu": ("device", "pinned_host", "unpinned_host"),
    "gpu": ("device", "pinned_host"),
    "simulator": ("device", "pinned_host"),
}

#: The kind used for each space when a sharding is built.
KIND_OF = {Space.Device: "device", Space.Host: "pinned_host"}


def space_of(kind: str | None) -> Space:
    """Return the memory space of a memory kind: pageable memory counts as Device."""
    return Space.Host if kind == "pinned_host" else Space.Device


def checked_kind(kind: str | None, platform: str | None) -> str | None:
    """Return a kind of memory; a ValueError if devices of the platform do not reach it.

    Where there are no devices yet, as on an AbstractMesh, any kind that some device has will do.
    """
    kinds = KINDS["cpu"] if platform is None else KINDS.get(platform, ("device",))
    if kind is None or kind in kinds:
        return kind
    if platform is None:
        raise ValueError(f"Got invalid memory kind: {kind}. Give one of {', '.join(kinds)}.")
    raise ValueError(
        f"Could not find memory addressable by device {platform}. Device {platform} can address "
        f"the following memory kinds: {', '.join(kinds)}. Got memory kind: {kind}"
    )
