"""Meshes of devices, and how the axes of an array are laid over them, as plain data.

Floor 1. In: devices in an n-dimensional grid whose axes have names. Out: `Mesh`, `PartitionSpec`
and their `NamedSharding`, which knows the piece of each device.
"""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuarray.core.sharding import Device, Sharding
from gpuarray.util import elements


class AxisType(enum.Enum):
    """What decides how values are laid along a mesh axis: the compiler, the types, or the user."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class PartitionSpec:
    """The mesh axis (or axes) along which each axis of an array is split; None where it is not.

    >>> from gpuarray.sharding import PartitionSpec as P
    >>> P("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("_parts",)

    def __init__(self, *partitions: Any):
        parts = []
        # Normalised, so that equal specs compare equal: a tuple of one name is the name.
        for part in partitions:
            if isinstance(part, list):
                part = tuple(part)
            if isinstance(part, tuple) and len(part) <= 1:
                part = part[0] if part else None
            parts.append(part)
        self._parts = tuple(parts)

    @property
    def partitions(self) -> tuple:
        """The entries, one for each axis."""
        return self._parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, i):
        return self._parts[i]

    def __add__(self, other):
        if not isinstance(other, (PartitionSpec, tuple)):
            return NotImplemented
        return PartitionSpec(*self._parts, *other)

    def __eq__(self, other) -> bool:
        return isinstance(other, PartitionSpec) and other._parts == self._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return f"P{self._parts}"

    def __reduce__(self):
        return PartitionSpec, self._parts


P = PartitionSpec


class Mesh:
    """Devices in a grid whose axes have names.

    >>> import numpy as np, gpuarray as ga
    >>> ga.sharding.Mesh(np.array(ga.devices()[:1]), ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    __slots__ = ("axis_names", "axis_types", "devices")

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None):
        # An object array of its own: the caller's stays writable.
        grid = np.array(devices, dtype=object)
        # A single name is the name of the only axis.
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                f"Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        if len(set(names)) != len(names):
            raise ValueError(f"the axes of a mesh need names of their own, got {names}")
        types = (AxisType.Auto,) * len(names) if axis_types is None else elements(axis_types)
        if len(types) != len(names):
            raise ValueError(
                f"Number of axis names should match the number of axis_types. Got "
                f"axis_names={names} and axis_types={types}"
            )
        # A mesh is hashed by its devices.
        grid.flags.writeable = False
        self.devices, self.axis_names, self.axis_types = grid, names, types

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.devices.shape

    @property
    def shape(self) -> OrderedDict:
        """The length of each axis, by name."""
        return OrderedDict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The names and lengths of the axes, as pairs."""
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.devices.size

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return self.devices.ndim == 0

    @property
    def device_ids(self) -> np.ndarray:
        """The devices' numbers, in the same grid."""
        return np.array([d.id for d in self.devices.flat]).reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return list(self.devices.flat)

    def _key(self) -> tuple:
        return (self.axis_names, self.devices.shape, tuple(self.devices.flat), self.axis_types)

    def __eq__(self, other) -> bool:
        return isinstance(other, Mesh) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


class NamedSharding(Sharding):
    """A layout that splits an array along the axes of a mesh as a PartitionSpec says.

    >>> import numpy as np, gpuarray as ga
    >>> from gpuarray.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> mesh = Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> NamedSharding(mesh, P("x")).shard_shape((8, 4))
    (8, 4)
    """

    __slots__ = ("mesh", "spec")

    def __init__(self, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None):
        if memory_kind not in (None, "device"):
            raise ValueError(f"memory_kind {memory_kind!r} is not known: expected 'device' or None")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"Unexpected type for `spec`: expected a PartitionSpec, got {spec!r}")
        # Each mesh axis may split one array axis only.
        used: list[Any] = []
        for part in spec:
            names = part if isinstance(part, tuple) else () if part is None else (part,)
            for name in names:
                if name not in mesh.axis_names:
                    raise ValueError(
                        f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}."
                    )
                if name in used:
                    raise ValueError(
                        "A single NamedSharding spec specification can map every mesh axis to at "
                        f"most one positional dimension, but {spec} has duplicate entries for "
                        f"`{name}`"
                    )
                used.append(name)
        self.mesh, self.spec = mesh, spec

    @property
    def device_set(self) -> set[Device]:
        return set(self.mesh.devices.flat)

    @property
    def num_devices(self) -> int:
        """The number of devices that hold a piece."""
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        return all(n == 1 for n in self._cuts(len(self.spec)))

    def _names(self, ndim: int) -> list[tuple]:
        """Return the mesh axes that split each axis of an array."""
        if len(self.spec) > ndim:
            raise ValueError(
                f"{self!r} is only valid for values of rank at least {len(self.spec)}, but was "
                f"applied to a value of rank {ndim}"
            )
        # Axes that the spec does not mention are not split.
        parts = [*self.spec, *[None] * (ndim - len(self.spec))]
        return [p if isinstance(p, tuple) else () if p is None else (p,) for p in parts]

    # Into how many pieces each axis is split.
    def _cuts(self, ndim: int) -> list[int]:
        sizes = self.mesh.shape
        return [math.prod(sizes[name] for name in names) for names in self._names(ndim)]

    def _real_cuts(self, ndim: int) -> list[list[tuple[Any, int]]]:
        """Return for each axis the mesh axes of more than one device that split it."""
        sizes = self.mesh.shape
        return [[(n, sizes[n]) for n in names if sizes[n] > 1] for names in self._names(ndim)]

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        cuts = self._cuts(len(global_shape))
        for axis, (n, cut) in enumerate(zip(global_shape, cuts, strict=True)):
            if n % cut:
                raise ValueError(
                    f"Sharding {self!r} implies that array axis {axis} is partitioned {cut} times, "
                    f"but the dimension size is {n} (full shape: {tuple(global_shape)}, "
                    f"per-dimension tiling factors: {cuts} should evenly divide the shape)"
                )
        return tuple(n // cut for n, cut in zip(global_shape, cuts, strict=True))

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, tuple]:
        piece = self.shard_shape(global_shape)
        sizes = self.mesh.shape
        found: dict[Device, tuple] = {}
        for where in np.ndindex(*self.mesh.axis_sizes):
            at = dict(zip(self.mesh.axis_names, where, strict=True))
            index = []
            for names, n, whole in zip(
                self._names(len(global_shape)),
                piece,
                global_shape,
                strict=True,
            ):
                # Several mesh axes along one array axis count in row-major order.
                number = 0
                for name in names:
                    number = number * sizes[name] + at[name]
                # JAX writes an unsplit axis as slice(None).
                index.append(slice(None) if n == whole else slice(number * n, (number + 1) * n))
            device: Any = self.mesh.devices[where]
            found[device] = tuple(index)
        return found

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both shardings put the same piece of an array on every device."""
        if isinstance(other, NamedSharding):
            same = list(self.mesh.devices.flat) == list(other.mesh.devices.flat)
            return same and self._real_cuts(ndim) == other._real_cuts(ndim)
        return self.device_set == other.device_set and self.num_devices == 1

    def __eq__(self, other) -> bool:
        return isinstance(other, NamedSharding) and (other.mesh, other.spec) == (
            self.mesh, self.spec,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {n}" for name, n in self.mesh.shape.items())
        types = self.mesh.axis_types
        return (
            f"NamedSharding(mesh=Mesh({sizes}, axis_types={types}), spec={self.spec}, "
            f"memory_kind={self.memory_kind})"
        )
