"""The named axes of a mesh, without devices: all of a mesh that programs and types depend on.

Floor 1. In: names, lengths and types of axes. Out: `AbstractMesh`, and `Axes`, which it shares with
`Mesh`. Equal meshes are the same object, so that they compare and hash by identity.
"""

from __future__ import annotations

import enum
import math
import operator
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NoReturn

from gpuarray.core.sharding import Device
from gpuarray.core.spec import Frozen
from gpuarray.util import Interned, elements


class AxisType(enum.Enum):
    """What decides shardings along a mesh axis: the compiler, the types, or the user."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


# Equal meshes are one object, so types that hold them compare and hash by identity.
_meshes = Interned(1024)
_kinds = Interned(64)


class Axes(Frozen):
    """The named axes of a mesh."""

    __slots__ = ("__weakref__", "axis_names", "axis_sizes", "axis_types", "size")

    axis_names: tuple
    #: The length of each axis.
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    #: The number of devices; 0 for an empty mesh.
    size: int
    # The devices in order; None for a mesh without devices.
    _flat: Any

    @property
    def shape(self) -> OrderedDict:
        """The length of each axis, by name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The names and lengths of the axes, as pairs."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def empty(self) -> bool:
        """Whether there is no device."""
        return self.size == 0

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes, and the compiler decides along all of them."""
        return self._all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes, and the types decide along all of them."""
        return self._all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes, and the user decides along all of them."""
        return self._all(AxisType.Manual)

    @property
    def auto_axes(self) -> tuple:
        """The axes along which the compiler decides."""
        return self._of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple:
        """The axes along which the types decide."""
        return self._of(AxisType.Explicit)

    @property
    def is_spread(self) -> bool:
        """Whether it has several devices, or types describe shardings over its only one."""
        return self.size > 1 or bool(self.explicit_axes)

    @property
    def manual_axes(self) -> tuple:
        """The axes along which the user decides."""
        return self._of(AxisType.Manual)

    def _all(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(t is kind for t in self.axis_types)

    def _of(self, kind: AxisType) -> tuple:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)


def checked_names(names: Any) -> tuple:
    """Return the names of axes, checked to be distinct; a single name means one axis."""
    names = (names,) if isinstance(names, str) else elements(names, "a tuple of names")
    if None in names:
        raise ValueError(f"Mesh axis names cannot be None. Got: {names}")
    if len(set(names)) != len(names):
        raise ValueError(f"the axes of a mesh need names of their own, got {names}")
    return names


def checked_types(what: str, names: tuple, types: Any) -> tuple[AxisType, ...]:
    """Return the types of axes, one for each name; Auto where none are given."""
    if types is None:
        return (AxisType.Auto,) * len(names)
    types = (
        (types,) if isinstance(types, (AxisType, str)) else elements(types, "a tuple of AxisTypes")
    )
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(
            f"axis_types passed to {what} must be of type `AxisType`. Got {types} of type "
            f"{tuple(type(t) for t in types)}"
        )
    if len(types) != len(names):
        raise ValueError(
            f"Number of axis names should match the number of axis_types. Got "
            f"axis_names={names} and axis_types={types}"
        )
    return types


class AbstractDevice(Frozen):
    """The properties of a device that programs depend on: its kind.

    >>> from gpuarray.sharding import AbstractDevice
    >>> AbstractDevice("NVIDIA H200", None, "gpu")
    AbstractDevice(device_kind=NVIDIA H200, num_cores=None, platform=gpu)
    """

    __slots__ = ("__weakref__", "device_kind", "num_cores", "platform")

    device_kind: str
    num_cores: int | None
    platform: str

    def __new__(cls, device_kind: str, num_cores: int | None, platform: str) -> AbstractDevice:
        fields = {"device_kind": device_kind, "num_cores": num_cores, "platform": platform}
        return _kinds.put(tuple(fields.values()), lambda: cls._with(**fields))

    def _fields(self) -> str:
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"
        )

    def __repr__(self) -> str:
        return f"AbstractDevice({self._fields()})"

    def __reduce__(self):
        return AbstractDevice, (self.device_kind, self.num_cores, self.platform)


def abstract_device(device: Device) -> AbstractDevice:
    """Return the kind of a device."""
    return AbstractDevice(device.device_kind, None, device.platform)


def _not_abstract(name: str) -> Any:
    def refuse(self: AbstractMesh, *_: object) -> NoReturn:
        raise ValueError(f"AbstractMesh does not implement {name}: it has no devices")

    return refuse


class AbstractMesh(Axes):
    """The names, lengths and types of a mesh's axes, without devices.

    >>> from gpuarray.sharding import AbstractMesh
    >>> AbstractMesh((4, 2), ("x", "y"))
    AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
    """

    __slots__ = ("abstract_device",)

    #: The kind of the devices, if that is known.
    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Any,
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        sizes = tuple([operator.index(n) for n in axis_sizes])
        names = checked_names(axis_names)
        types = checked_types("AbstractMesh", names, axis_types)
        if len(sizes) != len(names):
            raise ValueError(
                f"AbstractMesh needs a length for each name, got axis_sizes={sizes} and "
                f"axis_names={names}"
            )
        if any(n < 0 for n in sizes):
            raise ValueError(f"the lengths of axes are not negative, got axis_sizes={sizes}")
        if not (abstract_device is None or isinstance(abstract_device, AbstractDevice)):
            raise TypeError(f"abstract_device is an AbstractDevice or None, got {abstract_device}")
        key = (sizes, names, types, abstract_device)
        make = lambda: cls._with(
            axis_names=names,
            axis_sizes=sizes,
            axis_types=types,
            # Without axes it is the empty mesh, not one of a single device.
            size=math.prod(sizes) if sizes else 0,
            abstract_device=abstract_device,
        )
        return _meshes.put(key, make)

    # Attributes that only a mesh with devices has raise a specific error, not AttributeError.
    _flat = None
    devices = property(_not_abstract("devices"))
    device_ids = property(_not_abstract("device_ids"))
    is_multi_process = property(_not_abstract("is_multi_process"))
    local_devices = property(_not_abstract("local_devices"))
    local_mesh = property(_not_abstract("local_mesh"))
    __enter__ = _not_abstract("__enter__")
    __exit__ = _not_abstract("__exit__")

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself, as it is abstract already."""
        return self

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **kwargs: Any
    ) -> AbstractMesh:
        """The same mesh with the given fields replaced; `abstract_device` may also be replaced by
        None.
        """
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            **{"abstract_device": self.abstract_device, **kwargs},
        )

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> AbstractMesh:
        """The same mesh with other types for the axes that are named."""
        old = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(n, t) for n, t in old))

    def __repr__(self) -> str:
        sizes = ", ".join(f"'{name}': {n}" for name, n in self.shape_tuple) or "()"
        kind = "" if self.abstract_device is None else f", {self.abstract_device._fields()}"
        return f"AbstractMesh({sizes}, axis_types={self.axis_types}{kind})"

    def __reduce__(self):
        return _restored_mesh, (
            self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device,
        )  # fmt: skip


# Through `__new__`, so that a mesh that was pickled is the same object again.
def _restored_mesh(sizes: tuple, names: tuple, types: tuple, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)
