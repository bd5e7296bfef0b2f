"""Meshes of devices, and shardings over them, as plain data.

Floor 1. In: devices in an n-dimensional grid whose axes have names. Out: `Mesh`, and with a
PartitionSpec its `NamedSharding`, which knows each device's piece. Equal meshes are the same
object: they compare and hash by identity.
"""

from __future__ import annotations

import contextlib
import math
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuarray import config
from gpuarray.core.abstract_mesh import (
    AbstractMesh,
    Axes,
    AxisType,
    abstract_device,
    checked_names,
    checked_types,
)
from gpuarray.core.layout import Cuts, Layout, Sums, layout
from gpuarray.core.memories import checked_kind
from gpuarray.core.sharding import Device, DevicePiece, Sharding, is_ours
from gpuarray.core.spec import UNCONSTRAINED, Frozen, names_of
from gpuarray.core.spec import P as P
from gpuarray.core.spec import PartitionSpec as PartitionSpec
from gpuarray.util import Interned, Symbolic, elements

_meshes = Interned(256)
_shardings = Interned(1024)

#: Attributes that meshes require of their devices.
_OF_DEVICES = ("id", "platform", "device_kind", "process_index")


class Mesh(Axes, contextlib.ContextDecorator):
    """Devices in a grid whose axes have names.

    >>> import numpy as np, gpuarray as ga
    >>> ga.sharding.Mesh(np.array(ga.devices()[:1]), ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    __slots__ = ("_flat", "abstract_mesh", "devices")

    devices: np.ndarray
    #: The same axes, without the devices.
    abstract_mesh: AbstractMesh
    #: It can be called, as a decorator, and holds no values: programs over it may be kept.
    captures = False

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        # A private copy: the caller's array stays writable.
        grid = np.array(devices, dtype=object)
        names = checked_names(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                f"Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {grid.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        types = checked_types("Mesh", names, axis_types)
        # The empty mesh is written Mesh(None, ()).
        flat = () if grid.ndim == 0 and grid.item() is None else tuple(grid.flat)
        for device in flat:
            # Others only have to look like devices: a plan for a machine that is not this one.
            if not isinstance(device, Device) and not all(hasattr(device, n) for n in _OF_DEVICES):
                raise TypeError(f"Mesh takes devices, such as those of devices(), got {device!r}")
        key = (flat, grid.shape, names, types)

        def make() -> Mesh:
            grid.flags.writeable = False
            kind = abstract_device(flat[0]) if flat and names else None
            return cls._with(
                axis_names=names,
                axis_sizes=grid.shape,
                axis_types=types,
                size=len(flat),
                abstract_mesh=AbstractMesh(grid.shape, names, types, abstract_device=kind),
                devices=grid,
                _flat=flat,
            )

        return _meshes.put(key, make)

    @property
    def is_scalar(self) -> bool:
        """Whether this is one device without any axis."""
        return self.size == 1 and not self.axis_names

    @property
    def device_ids(self) -> np.ndarray:
        """The devices' numbers, in the same grid."""
        return self._grid([device.id for device in self._flat])

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return [device for device in self._flat if is_ours(device)]

    @property
    def is_multi_process(self) -> bool:
        """Whether some of the devices are of other processes."""
        return not all(map(is_ours, self._flat))

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that is this process's; it has to be a block of it."""
        if not self.is_multi_process:
            return self
        mine = self._grid([is_ours(device) for device in self._flat])
        # The smallest block that holds all of this process's devices.
        block = tuple(
            slice(int(at.min()), int(at.max()) + 1) if at.size else slice(0)
            for at in np.nonzero(mine)
        )
        if not mine[block].all():
            raise ValueError(
                "the devices of one process must form a contiguous block of the mesh, but those "
                f"of this one are at {np.argwhere(mine).tolist()} of {self}"
            )
        return Mesh(self.devices[block], self.axis_names)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """The same mesh with the given fields replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        if config.state.disallow_mesh_context_manager:
            raise RuntimeError(
                "a mesh as context manager is not allowed while jax_disallow_mesh_context_manager "
                "is on: write `with set_mesh(mesh):` instead"
            )
        warnings.warn(
            "`with mesh:` context manager has been deprecated. Please use `with set_mesh(mesh):` "
            "instead.",
            category=DeprecationWarning,
            stacklevel=2,
        )
        before = contexts.entered
        try:
            contexts.change(entered=(*before, self))
        except BaseException:  # Python does not call `__exit__`
            contexts.restore(entered=before)
            raise
        return self

    def __exit__(self, *_: object) -> bool:
        contexts.restore(entered=contexts.entered[:-1])
        return False

    def _grid(self, values: list) -> np.ndarray:
        if self.empty:
            raise ValueError(f"{self!r} has no devices")
        return np.array(values).reshape(self.axis_sizes)

    def __str__(self) -> str:
        if self.empty:
            return "Mesh()"
        sizes = ", ".join([*(f"'{name}': {n}" for name, n in self.shape_tuple), ""])
        return f"Mesh({sizes}axis_types={self.axis_types})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )

    def __reduce__(self):
        return Mesh, (self.devices, self.axis_names, self.axis_types)


class Contexts(threading.local):
    """The context of this thread: meshes (`core.mesh_context` sets them), and more."""

    # A thread starts with these: class attributes of a thread-local are shared. : Set by `set_mesh`
    # and `use_abstract_mesh`; None means the empty mesh.
    abstract: AbstractMesh | None = None
    #: Set by `set_mesh`.
    concrete: Mesh | None = None
    #: Entered by `with mesh:`, the innermost last.
    entered: tuple[Mesh, ...] = ()
    #: Values by the contexts that hold them (`core.user_context`), the latest last.
    users: tuple = ()
    #: All of them, as a key for traces; None if nothing is set.
    key: tuple | None = None

    def change(self, **values: Any) -> None:
        """Set some of the four: all or nothing, even where the recursion is too deep."""
        found = {name: values.get(name, getattr(self, name)) for name in _CONTEXTS}
        found["entered"] = found["entered"][-1:]
        key = None if found == _NO_CONTEXT else tuple(found.values())
        # Whatever is traced from here on may depend on them.
        config.set_context(key)
        self.__dict__.update(values, key=key)

    @contextlib.contextmanager
    def changed(self, **values: Any) -> Iterator[None]:
        """Set some of the four for a block."""
        before = {name: getattr(self, name) for name in values}
        try:
            try:
                self.change(**values)
                yield
            finally:
                self.change(**before)
        except BaseException:  # an interrupt (Ctrl-C) in the line above, perhaps
            self.change(**before)
            raise

    def restore(self, **values: Any) -> None:
        """Set some of the four, also where an interrupt (Ctrl-C) comes."""
        try:
            self.change(**values)
        except BaseException:
            self.change(**values)
            raise


_CONTEXTS = ("abstract", "concrete", "entered", "users")
_NO_CONTEXT = dict(zip(_CONTEXTS, (None, None, (), ()), strict=True))
contexts = Contexts()

#: The mesh in context when nothing was set.
EMPTY = Mesh(None, ())
EMPTY_ABSTRACT = EMPTY.abstract_mesh


def with_types_of(mesh: Mesh, other: Axes) -> Mesh:
    """Return a mesh with the axis types of another mesh with the same axes, if none is manual."""
    if other.manual_axes or other.axis_types == mesh.axis_types:
        return mesh
    return Mesh(mesh.devices, mesh.axis_names, other.axis_types)


class NamedSharding(Frozen, Sharding):
    """A layout that splits an array along the axes of a mesh as a PartitionSpec says.

    >>> import numpy as np, gpuarray as ga
    >>> from gpuarray.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> mesh = Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> NamedSharding(mesh, P("x")).shard_shape((8, 4))
    (8, 4)
    """

    __slots__ = ("_cut", "_found", "_split", "memory_kind", "mesh", "spec")

    mesh: Mesh | AbstractMesh
    spec: PartitionSpec
    # Into how many pieces each axis of the spec is split.
    _cut: tuple[int, ...]
    # The pieces of shapes, computed on demand.
    _found: dict[tuple[int, ...], tuple[DevicePiece, ...]]
    # The cached result of `_parts`.
    _split: tuple | None

    def __new__(
        cls, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> NamedSharding:
        if not isinstance(mesh, Axes):
            raise TypeError(
                f"Unexpected type for `mesh`: expected a Mesh or an AbstractMesh, got {mesh!r}"
            )
        if memory_kind is None:
            # A mesh without devices has no memory either.
            memory_kind = "device" if mesh._flat else None
        platform = mesh._flat[0].platform if mesh._flat else None
        key = (mesh, spec, checked_kind(memory_kind, platform))
        found = _shardings.recent.get(key)
        if found is None:
            found = _shardings.put(key, lambda: cls._made(*key))
        return found

    @classmethod
    def _made(cls, mesh: Any, spec: PartitionSpec, kind: str | None) -> NamedSharding:
        _check(mesh, spec)
        sizes = mesh.shape
        cut = [math.prod(sizes[name] for name in names_of(part)) for part in spec.partitions]
        return cls._with(
            mesh=mesh, spec=spec, memory_kind=kind, _cut=tuple(cut), _found={}, _split=None
        )

    @property
    def _devices(self) -> tuple[Device, ...]:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError(
                f"an AbstractMesh has no devices: this is not implemented for {self}. Give the "
                "sharding a Mesh."
            )
        return self.mesh._flat

    def _where(self) -> tuple[Device, ...] | None:
        return self.mesh._flat

    @property
    def _is_spread(self) -> bool:
        return self.mesh.is_spread

    def _typed(self, shape: tuple[int, ...]) -> Layout | None:
        mesh = self.mesh
        if not mesh.explicit_axes:
            return None
        self.shard_shape(shape)  # raises where it does not divide the shape
        cuts = cuts_along(mesh.abstract_mesh, self.spec, len(shape))
        return layout((), mesh.abstract_mesh, cuts, sums_along(mesh, self.spec))

    def _of_rank(self, ndim: int) -> NamedSharding:
        # If types record the sharding, they name every axis of the value, and so does the spec.
        parts = self.spec.partitions
        if len(parts) == ndim or not self.mesh.explicit_axes:
            return self
        if len(parts) > ndim:  # axes that are not there are not cut
            return self if any(parts[ndim:]) else self.update(spec=self.spec.update(parts[:ndim]))
        return self.update(spec=self.spec.update((*parts, *[None] * (ndim - len(parts)))))

    def _without_cuts_beyond(self, ndim: int) -> NamedSharding:
        return self if len(self._cut) <= ndim else self.update(spec=self.spec.update(()))

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        if self.mesh.size == 1:
            return True
        return not self.spec.unreduced and all(n == 1 for n in self._cut)

    @property
    def replicated_axes(self) -> frozenset:
        """The mesh axes along which devices hold the same piece."""
        split = {name for part in self.spec.partitions for name in names_of(part)}
        return frozenset(self.mesh.axis_names) - split - self.spec.unreduced - self.spec.reduced

    def update(self, **kwargs: Any) -> NamedSharding:
        """The same sharding with `mesh`, `spec` (also as a tuple) or `memory_kind` replaced."""
        if unknown := set(kwargs) - {"mesh", "spec", "memory_kind"}:
            raise TypeError(
                f"NamedSharding.update takes mesh, spec and memory_kind, got {sorted(unknown)}"
            )
        spec = kwargs.get("spec", self.spec)
        if not isinstance(spec, PartitionSpec):
            spec = PartitionSpec(*spec)
        kind = kwargs.get("memory_kind", self.memory_kind)
        return NamedSharding(kwargs.get("mesh", self.mesh), spec, memory_kind=kind)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return self.update(memory_kind=kind)

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        if len(aval_shape) < len(self._cut):
            scalar = " For scalars the PartitionSpec should be P()" if not aval_shape else ""
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self._cut)}, but "
                f"was applied to a value of rank {len(aval_shape)}.{scalar}"
            )

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        global_shape = elements(global_shape, "a sequence of ints")
        # Axes that are not there may be named, as by `full`, where they are not cut.
        rank = len(global_shape)
        if any(cut > 1 for cut in self._cut[rank:]):
            self.check_compatible_aval(global_shape)  # raises
        piece = list(global_shape)
        for axis, cut in enumerate(self._cut[:rank]):
            n = piece[axis]
            # The message names the cuts of all axes, and the two ways out.
            if n % cut:
                cuts = [*self._cut[:rank], *[1] * (rank - len(self._cut))]
                raise ValueError(
                    f"Sharding {self} implies that array axis {axis} is partitioned {cut} times, "
                    f"but the dimension size is {n} (full shape: {tuple(global_shape)}, "
                    f"per-dimension tiling factors: {cuts} should evenly divide the shape): {cut} "
                    f"does not evenly divide the dimension size. Pad the axis to "
                    f"{n + cut - n % cut}, or name fewer mesh axes for it."
                )
            piece[axis] = (n if isinstance(n, Symbolic) else int(n)) // cut
        return tuple(piece)

    def _pieces(self, shape: tuple[int, ...]) -> tuple[DevicePiece, ...]:
        found = self._found.get(shape)
        if found is None:
            # Few shapes are cut by one sharding: a bound, for programs that never stop.
            if len(self._found) >= 64:
                self._found.clear()
            found = self._found[shape] = self._cut_up(shape)
        return found

    @property
    def _is_terms(self) -> bool:
        return any(self.mesh.shape[name] > 1 for name in self.spec.unreduced)

    def _cut_up(self, shape: tuple[int, ...]) -> tuple[DevicePiece, ...]:
        if self._is_terms:
            raise NotImplementedError(
                f"the devices of {self} hold terms of a sum over "
                f"{sorted(map(str, self.spec.unreduced))}, not pieces of an array. Sum them up "
                "first: sharding.reshard(x, spec) with a spec without `unreduced`."
            )
        piece = self.shard_shape(shape)
        devices = self._devices
        # For each sharded axis, the number of each device's piece. All pieces of an axis without
        # elements are the same, and an axis that is not sharded is written slice(None).
        cuts = [axis for axis, cut in enumerate(self._cut) if cut > 1]
        numbers = [
            self._numbers(names_of(self.spec.partitions[axis]) if piece[axis] else ())
            for axis in cuts
        ]
        # For each block of the array, its slices and how many devices have it so far.
        blocks: dict[tuple, tuple] = {}
        copies: dict[tuple, int] = {}
        found = []
        for device, *block in zip(devices, *numbers, strict=True):
            at = tuple(block)
            index = blocks.get(at)
            if index is None:
                slices = [slice(None)] * len(shape)
                for axis, i in zip(cuts, at, strict=True):
                    slices[axis] = slice(i * piece[axis], (i + 1) * piece[axis])
                index = blocks[at] = tuple(slices)
            # Replicas of a block are counted in the order of the devices.
            copy = copies[at] = copies.get(at, -1) + 1
            found.append(DevicePiece(device, index, copy))
        return tuple(found)

    def _numbers(self, names: tuple) -> tuple[int, ...]:
        """Return for each device, in the mesh's order, how it counts along these axes."""
        sizes = self.mesh.axis_sizes
        grid = np.zeros(sizes, int)
        # The first name counts most.
        for name in names:
            axis = self.mesh.axis_names.index(name)
            along = np.arange(sizes[axis]).reshape(-1, *[1] * (len(sizes) - axis - 1))
            grid = grid * sizes[axis] + along
        return tuple(grid.ravel().tolist())

    def _parts(self, ndim: int) -> tuple:
        # An axis that is not there cannot be cut.
        if any(cut > 1 for cut in self._cut[ndim:]):
            self.check_compatible_aval((0,) * ndim)  # raises
        found = self._split
        if found is None:
            parts = enumerate(self.spec.partitions)
            cuts: list = [(i, names_of(part)) for i, part in parts if self._cut[i] > 1]
            # Values along manual axes, and terms of sums, are no replicas.
            for kind, axes in (("owed", self.spec.unreduced), ("manual", self.mesh.manual_axes)):
                names = tuple(n for n, size in self.mesh.shape_tuple if n in axes and size > 1)
                cuts += [(kind, names)] if names else []
            found = tuple([(where, self._numbers(names)) for where, names in cuts])
            object.__setattr__(self, "_split", found)
        return found

    def __repr__(self) -> str:
        kind = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"

    def __reduce__(self):
        return _restored_sharding, (self.mesh, self.spec, self.memory_kind)


def _restored_sharding(mesh: Any, spec: PartitionSpec, kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=kind)


def _check(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    """Raise where a spec does not fit a mesh."""
    if spec is None:
        raise TypeError(
            "Unexpected None passed as spec for NamedSharding: give PartitionSpec() for an array "
            "that every device has whole"
        )
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"Unexpected type for `spec`: expected a PartitionSpec, got {spec!r}")
    names = [name for part in spec.partitions for name in names_of(part)]
    repeated = sorted({f"`{name}`" for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            "A single NamedSharding spec specification can map every mesh axis to at most one "
            f"positional dimension, but {spec} has duplicate entries for {', '.join(repeated)}"
        )
    for name in names:
        if name not in mesh.axis_names:
            raise ValueError(
                f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}."
            )
    if UNCONSTRAINED in spec.partitions and AxisType.Auto not in mesh.axis_types:
        raise ValueError(
            f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got mesh "
            f"axis_types: {mesh.axis_types}"
        )
    for what, axes in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        for name in axes:
            if name not in mesh.axis_names:
                raise ValueError(
                    f"{what} axes {name} is not found in mesh.axis_names={mesh.axis_names}. Got "
                    f"pspec={spec}"
                )
        if not axes <= {*mesh.explicit_axes}:
            raise ValueError(
                f"{what} axes can only refer to mesh axes that is of type `Explicit`. Got "
                f"{what.lower()} axes: {axes} and mesh: {mesh}"
            )


def sums_along(mesh: Any, spec: PartitionSpec) -> Sums:
    """Return the axes of a mesh along which a value is unreduced, and those where it is reduced."""
    named = in_types(mesh)
    return spec.unreduced & named, spec.reduced & named


def in_types(mesh: Any) -> frozenset:
    """Return the axes of a mesh that appear in types: all, or those of several devices.

    >>> in_types(AbstractMesh((4,), "x"))
    frozenset({'x'})
    """
    if not config.state.remove_size_one_mesh_axis_from_type:
        return frozenset(mesh.axis_names)
    return frozenset(n for n, size in mesh.shape_tuple if size > 1)


def cuts_along(mesh: AbstractMesh, spec: PartitionSpec, ndim: int) -> Cuts:
    """Return the Explicit axes of a mesh that shard each axis of a value according to a spec.

    >>> mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    >>> cuts_along(mesh, P(("x", "y")), 2)
    (('x',), ())
    """
    explicit = in_types(mesh).intersection(mesh.explicit_axes)
    parts = [tuple(n for n in names_of(part) if n in explicit) for part in spec.partitions]
    return (*parts, *[()] * (ndim - len(parts)))
