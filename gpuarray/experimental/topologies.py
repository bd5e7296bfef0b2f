"""The devices of this program as one object, and meshes of them.

Floor 6. In: a platform. Out: a TopologyDescription, whose devices a mesh is made of.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuarray.core.mesh import Mesh
from gpuarray.experimental.mesh_utils import create_device_mesh
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime.device import Device, devices
from gpuarray.util import Struct

__all__ = ["Device", "TopologyDescription", "get_attached_topology", "make_mesh"]

__getattr__ = _explain_names(__name__)


class TopologyDescription(Struct):
    """Devices that programs may be compiled for.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import topologies
    >>> topologies.TopologyDescription(ga.devices()).devices == ga.devices()
    True
    """

    devices: list[Device]


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of a platform, by default of the default one.

    >>> from gpuarray.experimental import topologies
    >>> topologies.get_attached_topology("cpu").devices[0].platform
    'cpu'
    """
    return TopologyDescription(devices(platform))


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh of the devices of a topology.

    Parameters
    ----------
    contiguous_submeshes :
        As for `mesh_utils.create_device_mesh`.

    Examples
    --------

    >>> from gpuarray.experimental import topologies
    >>> topology = topologies.get_attached_topology("cpu")
    >>> topologies.make_mesh(topology, (len(topology.devices),), ("x",)).axis_names
    ('x',)
    """
    if not isinstance(topo, TopologyDescription):
        raise TypeError(f"make_mesh takes a TopologyDescription, got {topo!r}.")
    found = create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=contiguous_submeshes)
    return Mesh(found, axis_names)
