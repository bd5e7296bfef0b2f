"""The devices that an exported program runs on, and the shardings of its arguments and results.

Floor 6. In: a traced function, or the contents of a file. Out: shardings over an AbstractMesh,
since the devices of a mesh are not exported: those of the arguments take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuarray.core.abstract_mesh import AbstractMesh, Axes
from gpuarray.core.graph import Graph
from gpuarray.core.memories import space_of
from gpuarray.core.mesh import Mesh, NamedSharding, contexts
from gpuarray.core.trace import Tracer
from gpuarray.functions.stages import Traced
from gpuarray.primitives.memory import in_memory
from gpuarray.primitives.reshard import laid, meshes_in
from gpuarray.runtime.array import ArrayImpl

Shardings = tuple[NamedSharding | None, ...]


class Laid(NamedTuple):
    """The number of devices of a program, and the shardings of its flat arguments and results.

    None where nothing is specified.
    """

    devices: int
    ins: Shardings
    outs: Shardings

    def check_called_with(self, leaves: Sequence[Any], name: str) -> None:
        """Refuse a call on another number of devices, if that is already known."""
        if any(isinstance(x, Tracer) for x in leaves):
            return
        known = [x._place for x in leaves if type(x) is ArrayImpl and x._place.committed]
        counts = {len(place.all_devices) for place in known}
        around = contexts.concrete
        here = max(counts or {1 if around is None else around.size})
        # A program for one device is one for pieces of arrays, too.
        if self.devices not in (1, here):
            raise ValueError(
                f"Function {name} was exported for {self.devices} devices and is called in a "
                f"context with {here} devices, which is not allowed. Lay an argument over a mesh "
                "of as many devices with device_put, or set that mesh."
            )

    def checked(self, graph: Graph) -> Laid:
        """Return it; a ValueError if it does not belong to this program."""
        for values, avals in ((self.ins, graph.in_avals), (self.outs, graph.out_avals)):
            if len(values) != len(avals):
                raise ValueError(f"{len(values)} shardings for {len(avals)} values")
            for sharding, aval in zip(values, avals, strict=True):
                if sharding is None:
                    continue
                if not isinstance(sharding, NamedSharding):
                    raise ValueError(f"not a sharding: {sharding!r}")
                sharding.shard_shape(aval.shape)  # raises where it does not divide the shape
        if type(self.devices) is not int or self.devices < 1:
            raise ValueError(f"not a number of devices: {self.devices!r}")
        return self


def laid_of(stage: Traced) -> Laid:
    """Return the shardings of the arguments and results of a traced function."""
    count = len(stage.jaxpr.outvars)
    ins: list[Any] = list(stage._promised or (None,) * len(stage._places))
    for i, place in enumerate(stage._places):
        if place is not None and place.committed:
            ins[i] = place.sharding
    outs: list[Any] = [None] * count
    if (where := stage._where) is not None:
        ins = [given or own for given, own in zip(where.ins, ins, strict=True)]
        outs = list(where.outs)
    named = [s.mesh for s in (*ins, *outs) if isinstance(s, NamedSharding)]
    around = () if where is None or where.mesh is None else (where.mesh,)
    meshes = [*named, *meshes_in(stage.jaxpr), *around]
    devices = max((mesh.size for mesh in meshes), default=1)
    return Laid(devices, tuple(map(_abstract, ins)), tuple(map(_abstract, outs)))


def _abstract(sharding: Any) -> NamedSharding | None:
    if not isinstance(sharding, NamedSharding) or sharding.mesh.size < 2:
        return None
    kind = None if sharding.memory_kind == "device" else sharding.memory_kind
    return NamedSharding(sharding.mesh.abstract_mesh, sharding.spec, memory_kind=kind)


def constrained(values: Sequence[Any], shardings: Shardings) -> list:
    """Return values of a program, constrained to their shardings in it."""
    found = [laid(x, s) for x, s in zip(values, shardings, strict=True)]
    return [
        x if s is None or s.memory_kind is None else in_memory(x, space_of(s.memory_kind))
        for x, s in zip(found, shardings, strict=True)
    ]


def over(mesh: Mesh | AbstractMesh, shardings: Shardings) -> Shardings:
    """Return shardings over a mesh of the user's."""
    if not isinstance(mesh, Axes):
        raise TypeError(f"expected a Mesh or an AbstractMesh, got {mesh!r}")
    return tuple(None if s is None else s.update(mesh=mesh) for s in shardings)
