"""Meshes, partition specs and named shardings as data (`core/mesh.py`)."""

import pickle

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.sharding import Device
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

DEVICES = np.array([Device("cpu", i) for i in range(8)], dtype=object)
MESH = Mesh(DEVICES.reshape(4, 2), ("x", "y"))


def test_specs_are_values():
    assert P("x", None, ["y"]) == P("x", None, ("y",)) == P("x", None, "y")
    assert P("x") != P("x", None)
    assert repr(P("x", None, ("x", "y"))) == "P('x', None, ('x', 'y'))"
    assert (repr(P("x")), repr(P())) == ("P('x',)", "P()")
    assert P("x") + P("y") == P("x", "y")
    assert pickle.loads(pickle.dumps(P("x", ("y", "z")))) == P("x", ("y", "z"))
    assert ga.P is P


def test_mesh_knows_its_axes():
    assert MESH.shape == {"x": 4, "y": 2}
    assert (MESH.size, MESH.axis_sizes, MESH.axis_names) == (8, (4, 2), ("x", "y"))
    assert MESH == Mesh(DEVICES.reshape(4, 2), ("x", "y"))
    assert MESH != Mesh(DEVICES.reshape(4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    np.testing.assert_array_equal(MESH.device_ids, np.arange(8).reshape(4, 2))
    with pytest.raises(ValueError, match="ndim"):
        Mesh(DEVICES, ("x", "y"))
    with pytest.raises(ValueError, match="names of their own"):
        Mesh(DEVICES.reshape(4, 2), ("x", "x"))


def test_pieces_cover_the_array_once():
    whole = np.arange(8 * 6).reshape(8, 6)
    for spec, copies in [(P("x", "y"), 1), (P(("x", "y")), 1), (P("y"), 4), (P(), 8)]:
        sharding = NamedSharding(MESH, spec)
        seen = np.zeros_like(whole)
        for device, index in sharding.devices_indices_map(whole.shape).items():
            assert device in sharding.device_set
            assert seen[index].shape == sharding.shard_shape(whole.shape)
            seen[index] += 1
        assert (seen == copies).all()


def test_order_of_nested_axes_is_row_major():
    index = NamedSharding(MESH, P(("y", "x"))).devices_indices_map((8,))
    assert index[DEVICES[1]] == (slice(4, 5),)  # x = 0, y = 1


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: NamedSharding(MESH, P("z")), "Resource axis: z"),
        (lambda: NamedSharding(MESH, P("x", "x")), "duplicate entries"),
        (lambda: NamedSharding(MESH, P("x")).shard_shape((7,)), "partitioned 4 times"),
        (lambda: NamedSharding(MESH, P("x")).shard_shape(()), "rank at least 1"),
        (lambda: ga.make_mesh((2,), ("a", "b")), "name for each axis"),
        (lambda: ga.make_mesh((4096,), ("a",)), "jax_num_cpu_devices"),
    ],
)
def test_misuse(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_array_remembers_how_it_was_put():
    mesh = ga.make_mesh((1,), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    x = ga.device_put(gnp.arange(4.0), sharding)
    assert x.sharding == sharding and x.committed
    assert NamedSharding(mesh, P()).is_equivalent_to(x.sharding, 1)
    assert not NamedSharding(MESH, P()).is_equivalent_to(NamedSharding(MESH, P("x")), 1)
    np.testing.assert_array_equal(ga.jit(lambda a: a + 1)(x), [1, 2, 3, 4])
