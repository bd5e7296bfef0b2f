"""How arrays are laid over devices.

Floor 6. The public face of `gpuarray.core.sharding` and `gpuarray.core.mesh`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpuarray.core.mesh import AxisType as AxisType
from gpuarray.core.mesh import Mesh as Mesh
from gpuarray.core.mesh import NamedSharding as NamedSharding
from gpuarray.core.mesh import PartitionSpec as PartitionSpec
from gpuarray.core.sharding import Device
from gpuarray.core.sharding import Sharding as Sharding
from gpuarray.core.sharding import SingleDeviceSharding as SingleDeviceSharding
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime.device import devices as _devices
from gpuarray.util import elements as _elements


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of these lengths from the first devices there are.

    >>> import gpuarray as ga
    >>> ga.make_mesh((1,), ("x",)).shape
    OrderedDict([('x', 1)])
    """
    found = list(_elements(_devices() if devices is None else devices, "a sequence of devices"))
    shape, names = tuple(axis_shapes), tuple(axis_names)
    if len(shape) != len(names):
        raise ValueError(
            f"make_mesh needs a name for each axis, got lengths {shape} and names {names}"
        )
    count = math.prod(shape)
    if count > len(found):
        raise ValueError(
            f"Number of devices {len(found)} must be >= the product of mesh_shape {shape}. On a "
            "CPU, set jax_num_cpu_devices before anything runs to have more of them."
        )
    types = (AxisType.Explicit,) * len(names) if axis_types is None else axis_types
    return Mesh(np.array(found[:count], dtype=object).reshape(shape), names, types)


__getattr__ = _explain_names(__name__)
