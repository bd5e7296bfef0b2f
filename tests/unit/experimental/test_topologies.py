"""Devices as a topology, and meshes of them."""

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.experimental import topologies


def test_a_mesh_of_the_attached_devices():
    topology = topologies.get_attached_topology("cpu")
    assert topology.devices == ga.devices("cpu")
    count = len(topology.devices)
    mesh = topologies.make_mesh(topology, (count, 1), ("x", "y"))
    assert mesh.shape == {"x": count, "y": 1}
    assert np.array_equal(mesh.devices.ravel(), ga.devices("cpu"))
    with pytest.raises(TypeError, match="TopologyDescription"):
        topologies.make_mesh(ga.devices(), (1,), ("x",))
    with pytest.raises(AttributeError, match="is not in gpuarray"):
        topologies.get_topology_desc
