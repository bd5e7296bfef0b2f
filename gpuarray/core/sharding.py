"""Where the pieces of an array are, as plain data without machinery.

Floor 1. In: devices. Out: shardings, which say how an array is split over devices, and interned
`Place`s: all that a cache key needs to know of an array besides its aval.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple, NoReturn

from gpuarray.core.layout import Layout, in_space
from gpuarray.core.memories import KIND_OF, KINDS, checked_kind, space_of
from gpuarray.util import Interned, indices


class Device:
    """A device that computes: a GPU, the CPU, or a simulated part of it.

    `id` counts the devices of all processes, `local_hardware_id` those of one.
    """

    __slots__ = ("device_kind", "id", "local_hardware_id", "platform", "process_index")

    #: The number of this process.
    here: ClassVar[int] = 0
    #: The runtime's implementation (runtime/client.py).
    runtime: ClassVar[Any] = None

    def __init__(
        self,
        platform: str,
        id: int,
        device_kind: str = "",
        process_index: int = 0,
        local_hardware_id: int | None = None,
    ):
        self.platform = platform
        self.id = id
        self.local_hardware_id = id if local_hardware_id is None else local_hardware_id
        self.device_kind = device_kind or platform
        self.process_index = process_index

    @property
    def lowering_platform(self) -> str:
        """The platform whose programs it runs: "cuda" for GPUs."""
        return "cuda" if self.platform == "gpu" else self.platform

    @property
    def is_addressable(self) -> bool:
        """Whether this process can use it."""
        return self.process_index == Device.here

    host_id = task_id = property(lambda self: self.process_index)

    @property
    def client(self) -> Any:
        """All devices of the platform, as one object."""
        return Device.runtime.client(self.platform)

    def memory_stats(self) -> dict[str, int] | None:
        """Memory statistics of a GPU: bytes in use, their peak, and the limit; None for the CPU.

        >>> import gpuarray as ga
        >>> ga.devices("cpu")[0].memory_stats() is None
        True
        """
        return Device.runtime.memory_stats(self)

    def default_memory(self) -> Memory:
        """The memory of arrays on this device unless another is requested."""
        return Memory(self)

    def addressable_memories(self) -> list[Memory]:
        """The memories that this device can use, its own first.

        >>> import gpuarray as ga
        >>> [memory.kind for memory in ga.devices("cpu")[0].addressable_memories()]
        ['device', 'pinned_host', 'unpinned_host']
        """
        return [Memory(self, kind) for kind in KINDS[self.platform]]

    def memory(self, kind: str) -> Memory:
        """The memory of a kind, such as "pinned_host"; a ValueError if the device has none."""
        return Memory(self, checked_kind(kind, self.platform) or "device")

    def live_buffers(self) -> list:
        """The arrays that have a piece on this device: `gpuarray.live_arrays()` has them all."""
        warnings.warn(
            "Per device live_buffers() is deprecated. Please use live_arrays() instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return Device.runtime.live_buffers(self)

    def __repr__(self) -> str:
        return f"{self.lowering_platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.lowering_platform}:{self.id}"

    # There is one object for each device; shardings and places compare it by identity.
    def __deepcopy__(self, memo: dict) -> Device:
        return self

    def __copy__(self) -> Device:
        return self

    def __reduce__(self):
        raise TypeError(
            f"cannot pickle 'Device' object {self!r}: a device belongs to its process. Keep what "
            "finds it again (`platform`, `id`), or an AbstractMesh instead of a Mesh."
        )


def is_ours(device: Any) -> bool:
    """Whether this process can use a device; not if it only looks like one."""
    return isinstance(device, Device) and device.is_addressable


class Memory(NamedTuple):
    """A memory that a device reads and writes.

    >>> import gpuarray as ga
    >>> ga.devices("cpu")[0].default_memory().kind
    'device'
    """

    device: Device
    kind: str = "device"

    platform = property(lambda self: self.device.platform)
    process_index = property(lambda self: self.device.process_index)

    def addressable_by_devices(self) -> list[Device]:
        """The devices that can use it."""
        return [self.device]


class DevicePiece(NamedTuple):
    """One device's piece of an array; replicas of the same part are numbered from 0."""

    device: Device
    index: tuple[slice, ...]
    replica_id: int


class Sharding:
    """Layout of an array over devices.

    A sharding lists its devices in order (`_devices`) and the part of each (`_parts`, `_pieces`); a
    subclass that defines no parts puts the whole array on every device.
    """

    __slots__ = ("__weakref__",)

    memory_kind: str | None = "device"

    @property
    def _devices(self) -> tuple[Device, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not say which devices it uses")

    # The devices, or None for a sharding over a mesh without devices.
    def _where(self) -> tuple[Device, ...] | None:
        return self._devices

    # The sharding itself if it cuts no axis beyond this rank; else one without cuts.
    def _without_cuts_beyond(self, ndim: int) -> Sharding:
        return self

    # Hashable, and equal for two shardings that cut arrays of this rank alike; () for no cut at
    # all.
    def _parts(self, ndim: int) -> tuple:
        return ()

    def _pieces(self, shape: tuple[int, ...]) -> tuple[DevicePiece, ...]:
        whole = (slice(None),) * len(shape)
        return tuple([DevicePiece(device, whole, i) for i, device in enumerate(self._devices)])

    # Whether devices hold terms of a sum instead of parts of an array.
    @property
    def _is_terms(self) -> bool:
        return False

    # Whether arrays span several devices, or one device in a way that types record.
    @property
    def _is_spread(self) -> bool:
        return self.num_devices > 1

    # How types describe an array of this shape: its sharding along Explicit mesh axes.
    def _typed(self, shape: tuple[int, ...]) -> Layout | None:
        return None

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a piece."""
        return set(self._devices)

    @property
    def num_devices(self) -> int:
        """The number of devices that hold a piece."""
        return len(self._devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach every piece."""
        return all(map(is_ours, self._devices))

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process can reach any piece."""
        return any(map(is_ours, self._devices))

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process among `device_set`."""
        return {device for device in self._devices if is_ours(device)}

    # In the order of the pieces, by the names under which libraries read them.
    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return tuple(self._devices)

    @property
    def _addressable_device_assignment(self) -> tuple[Device, ...]:
        return tuple(filter(is_ours, self._devices))

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same layout in another kind of memory."""
        raise NotImplementedError(f"{type(self).__name__} does not change its kind of memory")

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raise a ValueError if arrays of this shape have too few axes for the layout."""

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one device's piece."""
        return indices(global_shape)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, tuple]:
        """For each device, the slices of the whole array that it holds."""
        return {device: index for device, index, _ in self._pieces(indices(global_shape))}

    def addressable_devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Device, tuple]:
        """For each device of this process, the slices of the whole array that it holds."""
        found = self._pieces(indices(global_shape))
        return {device: index for device, index, _ in found if is_ours(device)}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both put the same piece of an array with `ndim` axes on every device."""
        if not isinstance(other, Sharding):
            raise TypeError(f"is_equivalent_to compares with a Sharding, got {other!r}")
        return (
            self._where() == other._where()
            and self.memory_kind == other.memory_kind
            and self._parts(ndim) == other._parts(ndim)
        )


def pieces(sharding: Sharding, shape: tuple[int, ...]) -> tuple[DevicePiece, ...]:
    """The device, the slices and the replica's number of every piece of an array.

    The order is that of the sharding's devices, and so of an array's shards and buffers. Replicas
    count from 0 in that order.

    >>> import gpuarray as ga
    >>> from gpuarray.core.sharding import pieces
    >>> pieces(ga.sharding.SingleDeviceSharding(ga.devices()[0]), (4,))[0].index
    (slice(None, None, None),)
    """
    return sharding._pieces(shape)


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    __slots__ = ("_device", "memory_kind")

    def __init__(self, device: Device, *, memory_kind: str | None = None):
        if not isinstance(device, Device):
            raise TypeError(
                f"SingleDeviceSharding takes a Device, such as devices()[0], got {device!r}"
            )
        self._device = device
        self.memory_kind = checked_kind(memory_kind, device.platform) or "device"

    @property
    def _devices(self) -> tuple[Device, ...]:
        return (self._device,)

    @property
    def device_set(self) -> set[Device]:
        return {self._device}

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self._device, memory_kind=kind)

    def __eq__(self, other) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and other._device is self._device
            and other.memory_kind == self.memory_kind
        )

    def __hash__(self) -> int:
        return hash(("single", self._device, self.memory_kind))

    def __reduce__(self):
        return _restored_single, (self._device, self.memory_kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


def _restored_single(device: Device, kind: str) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=kind)


def one_device(sharding: Any, what: str) -> Device:
    """Return the device on which a sharding puts a whole array.

    Layouts over several devices are refused here, and only here: a computation runs on one device
    so far.
    """
    if isinstance(sharding, Device):
        return sharding
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"{what} only supports instances of Sharding, got {sharding!r} of type "
            f"{type(sharding)}. Give SingleDeviceSharding(device), or NamedSharding(mesh, spec) "
            "instead of a PartitionSpec."
        )
    found = sharding.device_set
    if len(found) != 1:
        raise NotImplementedError(
            f"{what} asks for a layout over {len(found)} devices, {sharding!r}, and names a single "
            "device. Give SingleDeviceSharding(device), or a NamedSharding whose mesh has one "
            "device."
        )
    return next(iter(found))


class Place:
    """A sharding, and whether the user chose it (committed) or it was the default.

    Equal places are the same object (see `place_of`): they compare and hash by identity.

    Attributes
    ----------
    devices :
        The devices of this process that hold a piece, in the order of an array's buffers.
    all_devices :
        Those of other processes, too, in the order of the pieces.
    device :
        The first of `devices`.
    is_single :
        Whether there is just one in all.
    is_spread :
        Whether programs decide layouts: there are several devices, or types record shardings over
        the single one.
    spans :
        Whether other processes hold pieces.
    is_host :
        Whether it is the usual memory of one CPU device: small work on it runs immediately.
    kind :
        The kind of memory that holds the pieces.
    """

    __slots__ = (
        "__weakref__", "all_devices", "committed", "device", "devices", "is_host", "is_single",
        "is_spread", "kind", "sharding", "spans",
    )  # fmt: skip

    def __init__(self, sharding: Any, committed: bool, devices: tuple[Device, ...]):
        if len({*devices}) < len(devices):
            raise ValueError(
                f"arrays cannot lie over {sharding!r}, which names a device more than once: "
                f"{list(devices)}"
            )
        if not all(isinstance(d, Device) for d in devices):
            raise ValueError(
                f"arrays cannot lie over {sharding!r}: {devices[0]!r} is none of the devices of "
                "gpuarray.devices(). A mesh of such objects tells how arrays would be cut."
            )
        self.sharding = sharding
        self.committed = committed
        self.all_devices = devices
        self.devices = tuple([d for d in devices if d.is_addressable])
        # Other processes hold pieces, too.
        self.spans = len(self.devices) < len(devices)
        # A process that holds no piece still needs a device to name.
        self.device = (self.devices or devices)[0]
        self.is_single = len(devices) == 1
        self.is_spread: bool = sharding._is_spread
        self.kind: str = sharding.memory_kind or "device"
        # Whether NumPy can use the buffer directly: the path of small work on the CPU tests only
        # this.
        is_usual = self.kind == "device"
        self.is_host = not self.is_spread and is_usual and devices[0].platform == "cpu"

    def typed(self, aval: Any) -> Any:
        """Return the type of an array here, given its type without the layout."""
        layout = self.sharding._typed(aval.shape) if self.is_spread else None
        layout = in_space(layout, space_of(self.kind))
        return aval if aval.layout is layout else aval.update(layout=layout)

    def holding(self, aval: Any) -> Place:
        """Return the place like this one in the memory space of the given type."""
        kind = KIND_OF[aval.memory_space]
        if kind == self.kind:
            return self
        return laid_out(self.sharding.with_memory_kind(kind), self.committed)

    def __repr__(self) -> str:
        return f"Place({self.sharding!r}, committed={self.committed})"


# Weak except for the latest: places of unused meshes are dropped.
_places = Interned(1024)


def place_of(device: Device, committed: bool = False, sharding: Sharding | None = None) -> Place:
    """Return the one Place for a device and a commitment, to be compared with `is`.

    `sharding` is the user's argument, if it was not just a device.
    """
    # `sharding` is None for a plain device, though a SingleDeviceSharding is shown.
    key = (device, committed, sharding)
    # A hit costs one look-up: this runs at every call of a compiled function.
    place = _places.recent.get(key)
    if place is None:
        shown = sharding or SingleDeviceSharding(device)
        devices = (device,) if sharding is None else devices_of(sharding)
        place = _places.put(key, lambda: Place(shown, committed, devices))
    return place


def devices_of(sharding: Sharding) -> tuple[Device, ...]:
    """Return the devices that a sharding names, in the order of the pieces."""
    return sharding._devices


def laid_out(sharding: Sharding, committed: bool = True) -> Place:
    """Return the Place of arrays with the given sharding."""
    devices = devices_of(sharding)
    # A layout given in other words than a device is kept, so that `x.sharding` shows it.
    is_device = isinstance(sharding, SingleDeviceSharding) and sharding.memory_kind == "device"
    named = None if is_device else sharding
    return place_of(devices[0], committed, named)


class Shard:
    """One device's piece of an array.

    Attributes
    ----------
    device :
        The device that holds it.
    index :
        The slices of the whole array that it is.
    replica_id :
        How many devices before this one hold the same piece.
    data :
        The piece, an array on that device.
    """

    # No tuple: two shards are not compared element by element.
    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Device, index: tuple[slice, ...], replica_id: int, data: Any):
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


class Term(Shard):
    """One device's term of an array that is the sum of such terms: not a part of the array."""

    __slots__ = ()

    def __init__(self, device: Device, data: Any):
        self.device = device
        self.data = data

    def _none(self) -> NoReturn:
        raise NotImplementedError(
            f"what {self.device!r} holds is a term of a sum, not a part of the array: it has no "
            "place in it. Sum up first, with sharding.reshard."
        )

    @property
    def index(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A term has no index: NotImplementedError."""
        self._none()

    @property
    def replica_id(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A term has no replica number: NotImplementedError."""
        self._none()

    def __repr__(self) -> str:
        return f"Term(device={self.device!r}, data={self.data})"
