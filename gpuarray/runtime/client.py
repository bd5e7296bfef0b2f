"""The runtime side of devices: their memory, and the client that all devices of a platform share.

Floor 5. In: devices. Out: the results of `Device.client`, `Device.memory_stats` and
`Device.live_buffers`.
"""

from __future__ import annotations

import functools

from gpuarray.core.sharding import Device
from gpuarray.runtime import device as devices
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.memory import live_arrays


class Client:
    """The devices of one platform, as one object.

    >>> import gpuarray as ga
    >>> client = ga.devices("cpu")[0].client
    >>> client.platform, client.device_count() == len(client.devices())
    ('cpu', True)
    """

    #: The name of the runtime.
    runtime_type = "gpuarray"

    def __init__(self, platform: str):
        self._platform = platform

    @property
    def platform(self) -> str:
        """The platform, as its programs are named: "cuda" for GPUs."""
        return self.devices()[0].lowering_platform

    @property
    def platform_version(self) -> str:
        """The devices' kind: the name of the GPU, or "cpu"."""
        return self.devices()[0].device_kind

    def devices(self) -> list[Device]:
        """The platform's devices, of all processes."""
        return devices.devices(self._platform)

    def local_devices(self) -> list[Device]:
        """The platform's devices that this process can use."""
        return [d for d in self.devices() if d.is_addressable]

    def device_count(self) -> int:
        """The number of devices, of all processes."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """The number of devices that this process can use."""
        return len(self.local_devices())

    def device_from_local_hardware_id(self, number: int) -> Device:
        """The device of this process that has a number on this machine."""
        found = [d for d in self.local_devices() if d.local_hardware_id == number]
        if not found:
            known = [d.local_hardware_id for d in self.local_devices()]
            raise ValueError(
                f"no {self.platform} device has number {number} here: there are {known}"
            )
        return found[0]

    def process_index(self) -> int:
        """The number of this process."""
        return Device.here

    host_id = task_id = process_index

    def live_arrays(self) -> list[ArrayImpl]:
        """All arrays that hold memory on these devices, largest first."""
        return live_arrays(self._platform)

    live_buffers = live_arrays

    def __repr__(self) -> str:
        return f"<Client {self.platform} with {self.device_count()} devices>"


class _Answers:
    """The runtime's implementation of Device methods."""

    # The same client each time, since programs compare by identity.
    client = staticmethod(functools.cache(Client))

    @staticmethod
    def memory_stats(device: Device) -> dict[str, int] | None:
        if not device.is_addressable:
            raise ValueError(
                f"memory_stats of {device}, which belongs to process {device.process_index}: each "
                "process knows its own devices"
            )
        gpu = devices.gpu_of(device)
        return None if gpu is None else gpu.memory_stats()

    @staticmethod
    def live_buffers(device: Device) -> list[ArrayImpl]:
        return [a for a in live_arrays(device.platform) if device in a._place.devices]


# Devices are plain data of the floor below, which cannot import this one.
Device.runtime = _Answers
