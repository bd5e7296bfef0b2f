"""How arrays are distributed over devices.

Floor 6. The public face of `gpuarray.core.sharding`, `core.mesh`, `core.mesh_context` and
`functions.explicit`.
"""

from __future__ import annotations

from gpuarray.api.meshes import make_mesh as make_mesh
from gpuarray.core.abstract_mesh import AbstractDevice as AbstractDevice
from gpuarray.core.abstract_mesh import AbstractMesh as AbstractMesh
from gpuarray.core.abstract_mesh import AxisType as AxisType
from gpuarray.core.mesh import Mesh as Mesh
from gpuarray.core.mesh import NamedSharding as NamedSharding
from gpuarray.core.mesh_context import get_abstract_mesh as get_abstract_mesh
from gpuarray.core.mesh_context import get_mesh as get_mesh
from gpuarray.core.mesh_context import set_mesh as set_mesh
from gpuarray.core.mesh_context import use_abstract_mesh as use_abstract_mesh
from gpuarray.core.sharding import Device as _Device
from gpuarray.core.sharding import Sharding as Sharding
from gpuarray.core.sharding import SingleDeviceSharding as SingleDeviceSharding
from gpuarray.core.spec import ManualAxisType as ManualAxisType
from gpuarray.core.spec import PartitionSpec as PartitionSpec
from gpuarray.functions.explicit import auto_axes as auto_axes
from gpuarray.functions.explicit import explicit_axes as explicit_axes
from gpuarray.functions.explicit import reshard as reshard
from gpuarray.names import explain_names as _explain_names


def make_single_device_sharding(
    device: _Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The layout of a whole array on one device.

    >>> import gpuarray as ga
    >>> ga.sharding.make_single_device_sharding(ga.devices()[0]).num_devices
    1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


__getattr__ = _explain_names(__name__)
