"""One grid of devices for all meshes of a program.

Floor 1. In: meshes over the same devices, whatever their axes. Out: a `Grid`, whose axes are a
common refinement of those of all meshes, and layouts of arrays in terms of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec
from gpuarray.core.sharding import Device, Sharding, devices_of
from gpuarray.core.spec import names_of

#: For each axis of a value, the axes of the grid that cut it, major first.
Spec = tuple[tuple[Any, ...], ...]


class Grid:
    """Devices in order, and axes so fine that every mesh's axes consist of them.

    With a single mesh these are the mesh's own axes. Meshes of 4x2 and of 8 over the same devices
    share the axes of the first, since 8 is 4 times 2.
    """

    def __init__(self, meshes: Sequence[Mesh]):
        main = meshes[0]
        self.main = main
        self.devices: tuple[Device, ...] = tuple(main.devices.flat)
        self._names: dict[tuple, dict[Any, tuple]] = {}
        for mesh in meshes:
            if tuple(mesh.devices.flat) != self.devices:
                raise ValueError(
                    "Received incompatible devices for jitted computation: one mesh has the "
                    f"devices {[d.id for d in self.devices]} and another one "
                    f"{[d.id for d in mesh.devices.flat]}, in this order. Use one list of devices "
                    "for all meshes of a computation."
                )
        # The usual case keeps the user's names, which messages and shardings then show.
        plain = {n: s for n, s in main.shape.items() if s > 1}
        if all({n: s for n, s in m.shape.items() if s > 1} == plain for m in meshes):
            self.sizes: dict[Any, int] = dict(plain)
        else:
            self.sizes = _refined([m.axis_sizes for m in meshes])
        for mesh in meshes:
            self._names[mesh.axis_names, mesh.axis_sizes] = self._made_of(mesh)

    def _made_of(self, mesh: Mesh) -> dict[Any, tuple]:
        """Return for each axis of a mesh the grid's axes that it consists of."""
        mine = list(self.sizes.items())
        made: dict[Any, tuple] = {}
        for name, size in mesh.shape.items():
            taken: list = []
            # In row-major order: an axis of the mesh is a run of the grid's axes.
            while math.prod(n for _, n in taken) < size:
                taken.append(mine.pop(0))
            made[name] = tuple(n for n, _ in taken)
        return made

    def names(self, mesh: Any, names: Iterable[Any]) -> tuple:
        """Return the grid's axes that axes of a mesh consist of, major first."""
        made = self._names.get((mesh.axis_names, mesh.axis_sizes)) or self._made_of(mesh)
        return tuple(mine for name in names for mine in made[name])

    def size(self, names: Iterable[Any]) -> int:
        """Return how many devices there are along some of the grid's axes."""
        return math.prod(self.sizes[n] for n in names)

    def spec(self, mesh: Any, spec: PartitionSpec, ndim: int) -> Spec:
        """Return a PartitionSpec in terms of the grid's axes."""
        parts = [names_of(part) for part in spec.partitions]
        parts += [()] * (ndim - len(parts))
        return tuple(self.names(mesh, part) for part in parts[:ndim])

    def of_sharding(self, sharding: Sharding, ndim: int) -> Spec | None:
        """Return the Spec of a sharding on this grid; None if its pieces are not on the grid."""
        if isinstance(sharding, NamedSharding):
            known = (sharding.mesh.axis_names, sharding.mesh.axis_sizes) in self._names
            if known and devices_of(sharding) == self.devices:
                return self.spec(sharding.mesh, sharding.spec, ndim)
            if sharding.is_fully_replicated and devices_of(sharding) == self.devices:
                return ((),) * ndim
        return None

    def sharding(self, spec: Spec) -> NamedSharding:
        """Return the sharding for a Spec, over the main mesh if it can express it."""
        mesh, made = self.main, self._names[self.main.axis_names, self.main.axis_sizes]
        parts = []
        for names in spec:
            part, rest = [], tuple(names)
            while rest:
                # Axes of the mesh that all cut this axis of the array, in order.
                fits = (n for n, mine in made.items() if mine and rest[: len(mine)] == mine)
                name = next(fits, None)
                if name is None:
                    # Only a finer mesh has axes that say this.
                    return self._by_finest(spec)
                part.append(name)
                rest = rest[len(made[name]) :]
            parts.append(tuple(part) if len(part) > 1 else part[0] if part else None)
        while parts and parts[-1] is None:
            parts.pop()
        return NamedSharding(mesh, PartitionSpec(*parts))

    def shardings(self, specs: Sequence[Spec]) -> tuple[Mesh, list[NamedSharding]]:
        """Return shardings of several arrays over one mesh, and that mesh."""
        found = [self.sharding(spec) for spec in specs]
        if all(s.mesh is self.main for s in found):
            return self.main, found
        return self._finest(), [self._by_finest(spec) for spec in specs]

    def _finest(self) -> Mesh:
        """Return a mesh with the grid's own axes."""
        return Mesh(self.main.devices.reshape(tuple(self.sizes.values())), tuple(self.sizes))

    def _by_finest(self, spec: Spec) -> NamedSharding:
        """Return the sharding of arrays that are cut so, over that mesh."""
        parts = [p if len(p) > 1 else p[0] if p else None for p in spec]
        while parts and parts[-1] is None:
            parts.pop()
        return NamedSharding(self._finest(), PartitionSpec(*parts))


def _refined(shapes: Sequence[tuple[int, ...]]) -> dict[Any, int]:
    """Return the common refinement of all these shapes: axes of which their axes consist, in
    row-major order.

    >>> _refined([(4, 2), (8,), (2, 4)])
    {'d0': 2, 'd1': 2, 'd2': 2}
    """
    # A cut of the row-major order at every place where some mesh has one; the lengths between
    # cuts are the axes.
    ends = {1}
    for shape in shapes:
        # The number of devices after each axis.
        for i in range(len(shape) + 1):
            ends.add(math.prod(shape[i:]))
    steps = sorted(ends, reverse=True)
    if any(a % b for a, b in zip(steps, steps[1:], strict=False)):
        raise ValueError(
            f"meshes of shapes {', '.join(map(str, shapes))} over the same devices have no finer "
            "mesh in common: use one of them for the whole computation"
        )
    return {f"d{i}": a // b for i, (a, b) in enumerate(zip(steps, steps[1:], strict=False))}
