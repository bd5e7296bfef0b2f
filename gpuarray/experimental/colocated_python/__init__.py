"""Python functions on the host of the devices that hold their arrays.

Floor 6. A process runs on the host of its own devices, so the functions run here, immediately.
Arrays on devices of other processes belong to functions of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.mesh import Mesh
from gpuarray.core.sharding import Device
from gpuarray.experimental.colocated_python import serialization as serialization
from gpuarray.experimental.colocated_python.func import make_callable
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import device as devices

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def colocated_cpu_devices(devices_or_mesh: Sequence[Device] | Mesh) -> Any:
    """The CPU devices of the hosts of some devices, one for each; for a mesh, a mesh of them.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import colocated_python as cp
    >>> cp.colocated_cpu_devices(ga.devices("cpu")) == ga.devices("cpu")
    True
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        beside = np.array(colocated_cpu_devices(list(mesh.devices.flat)), object)
        return Mesh(beside.reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)
    given = list(devices_or_mesh)
    free: dict[int, list[Device]] = {}
    for cpu in devices.devices("cpu"):
        if cpu not in given:  # a CPU device is returned unchanged
            free.setdefault(cpu.process_index, []).append(cpu)
    found = []
    for one in given:
        if one.platform != "cpu":
            of_host = free.get(one.process_index, [])
            if not of_host:
                raise ValueError(
                    f"Process {one.process_index} does not have enough local CPU devices: set "
                    "GPUARRAY_NUM_CPU_DEVICES to as many as it has other devices."
                )
            one = of_host.pop(0)
        found.append(one)
    return found


def colocated_python(fun: Callable[..., Any]) -> Any:
    """A function of arrays and pytrees of them that runs as Python on their host.

    `specialize(...)` fixes known properties of arguments and results in advance; the results are
    checked against them.

    >>> import numpy as np, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import colocated_python as cp
    >>> @cp.colocated_python
    ... def doubled(x):
    ...     return gnp.asarray(2 * np.asarray(x))
    >>> doubled(gnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    return make_callable(fun)


def colocated_python_class(cls: type) -> type:
    """A class whose objects live where the arrays that their methods take are: in this process.

    Methods run as usual, so the class is returned unchanged.
    """
    if not isinstance(cls, type):
        raise TypeError(f"colocated_python_class decorates a class, got {cls!r}")
    return cls


__getattr__ = _explain_names(__name__)
