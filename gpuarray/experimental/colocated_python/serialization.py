"""Lists of devices, as messages between hosts name them.

Floor 6.
"""

from __future__ import annotations

from gpuarray.core.sharding import Device
from gpuarray.names import explain_names as _explain_names


class DeviceList(tuple[Device, ...]):
    """Devices in order.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.colocated_python.serialization import DeviceList
    >>> len(DeviceList(ga.devices("cpu"))) == ga.device_count("cpu")
    True
    """

    __slots__ = ()


__getattr__ = _explain_names(__name__)
