"""Meshes made from the devices there are (`api/meshes.py`).

The figures are those of JAX 0.10.2 for the same calls.
"""

import pickle

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core.sharding import Device
from gpuarray.experimental import mesh_utils
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

CPUS = [Device("cpu", i) for i in range(8)]
GPUS = [Device("gpu", i) for i in range(8)]
AUTO = AxisType.Auto


def test_make_mesh():
    mesh = ga.make_mesh((4, 2), ("x", "y"), devices=CPUS)
    assert mesh is Mesh(np.array(CPUS).reshape(4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    assert mesh is ga.make_mesh([4, np.int64(2)], ["x", "y"], devices=np.array(CPUS))
    assert ga.make_mesh((4.0,), "x", devices=CPUS).axis_sizes == (4,)
    assert ga.make_mesh((8,), "x", AUTO, devices=CPUS).axis_types == (AUTO,)
    assert ga.make_mesh((4, 2), ("x", "y"), (AUTO, AUTO), devices=CPUS).are_all_axes_auto
    # The first devices, in the order given.
    assert list(ga.make_mesh((4,), "x", devices=CPUS[::-1]).devices) == CPUS[:3:-1]
    scalar = ga.make_mesh((), (), devices=CPUS)
    assert scalar.is_scalar and scalar.devices.item() is CPUS[0]
    assert ga.make_mesh((1,), ("x",)).devices.tolist() == ga.devices()[:1]


@pytest.mark.devices
def test_make_mesh_of_all_devices():
    mesh = ga.make_mesh((4, 2), ("x", "y"))
    np.testing.assert_array_equal(mesh.device_ids, np.arange(8).reshape(4, 2))
    assert mesh.abstract_mesh.abstract_device.platform == "cpu"
    np.testing.assert_array_equal(ga.make_mesh((2, 2), ("x", "y")).device_ids, [[0, 1], [2, 3]])
    assert mesh_utils.create_device_mesh((4, 2)).tolist() == mesh.devices.tolist()
    hybrid = mesh_utils.create_hybrid_device_mesh((4, 2), (1, 1), process_is_granule=True)
    assert hybrid.tolist() == mesh.devices.tolist()


def test_grids_of_devices():
    grid = mesh_utils.create_device_mesh((4, 2), CPUS)
    assert grid.shape == (4, 2) and grid.dtype == object and grid.ravel().tolist() == CPUS
    assert mesh_utils.create_device_mesh((8,), CPUS[::-1]).tolist() == CPUS[::-1]
    # GPUs are taken by number.
    assert mesh_utils.create_device_mesh((8,), GPUS[::-1]).tolist() == GPUS
    assert mesh_utils.create_device_mesh((), CPUS[:1]).item() is CPUS[0]
    for option in ("contiguous_submeshes", "allow_split_physical_axes"):
        assert (mesh_utils.create_device_mesh((4, 2), CPUS, **{option: True}) == grid).all()


def test_hybrid_grids():
    # Two processes of four devices, named in turn: each has a block of the grid.
    devices = [Device("cpu", i, process_index=i % 2) for i in range(8)]
    make = mesh_utils.create_hybrid_device_mesh
    ids = lambda grid: np.vectorize(lambda d: d.id)(grid).tolist()
    rows = make((2, 2), (2, 1), devices, process_is_granule=True)
    assert ids(rows) == [[0, 2], [4, 6], [1, 3], [5, 7]]
    columns = make((2, 2), (1, 2), devices, process_is_granule=True)
    assert ids(columns) == [[0, 2, 1, 3], [4, 6, 5, 7]]
    turned = make(
        (4,), (2,), devices[::-1], process_is_granule=True, should_sort_granules_by_key=False
    )
    assert ids(turned) == [7, 5, 3, 1, 6, 4, 2, 0]
    assert make((4,), (1, 1), CPUS[:4], process_is_granule=True).shape == (1, 4)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: ga.make_mesh((16,), "x", devices=CPUS), ValueError,
         r"Number of devices 8 .* \(16,\).*GPUARRAY_NUM_CPU_DEVICES=16"),
        (lambda: ga.make_mesh((4096,), ("a",)), ValueError, "GPUARRAY_NUM_CPU_DEVICES=4096"),
        (lambda: ga.make_mesh((4, 2), ("x",), devices=CPUS), ValueError,
         r"devices.ndim == 2 and len\(axis_names\) == 1"),
        (lambda: ga.make_mesh((4, 2), ("x", "y"), AUTO, devices=CPUS), ValueError,
         r"axis_names=\('x', 'y'\) and axis_types=\(Auto,\)"),
        (lambda: ga.make_mesh((4, 2), ("x", "x"), devices=CPUS), ValueError, "names of their own"),
        (lambda: ga.make_mesh((2,), "x", devices=["cpu"] * 2), TypeError, "devices.* got 'cpu'"),
        *[
            (lambda shape=shape: ga.make_mesh(shape, ("x",), devices=CPUS), ValueError,
             "`axis_shapes` passed to `make_mesh` should be a sequence of ints. Got")
            for shape in (8, ("a",), (4.5,), (0,), (-1,), None, (None,))
        ],
        (lambda: mesh_utils.create_device_mesh((4,), CPUS), ValueError,
         r"Number of devices 8 must equal the product of mesh_shape \(4,\)"),
        (lambda: mesh_utils.create_device_mesh(("a",), CPUS), ValueError,
         "`mesh_shape` passed to `create_device_mesh` should be a sequence of ints"),
        (lambda: mesh_utils.create_hybrid_device_mesh((4, 2), (1, 1), CPUS), ValueError,
         "Device cpu:0 does not have attribute slice_index. See `process_is_granule` option"),
        (lambda: mesh_utils.create_hybrid_device_mesh((4,), (2,), CPUS, process_is_granule=True),
         ValueError, r"Number of slices 1 must equal the product of dcn_mesh_shape \(2,\)"),
        (lambda: mesh_utils.create_hybrid_device_mesh((4,), (1,), CPUS, process_is_granule=True),
         ValueError, r"Number of devices 8 must equal the product of mesh_shape \(4,\)"),
    ],
)  # fmt: skip
def test_misuse(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.devices
@pytest.mark.parametrize("types", [("Auto", "Auto"), ("Explicit", "Auto"), ("Explicit",) * 2])
def test_types_say_over_which_mesh_an_array_lies(types):
    kinds = tuple(AxisType[t] for t in types)
    mesh = Mesh(np.array(ga.devices()[:4]).reshape(2, 2), ("x", "y"), kinds)
    for spec in (P("x", "y"), P(None, "y"), P()):
        x = ga.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, spec))
        aval = ga.typeof(x)
        assert aval.sharding.mesh == mesh.abstract_mesh
        # Only Explicit axes are said to cut it.
        wanted = [n if n in mesh.abstract_mesh.explicit_axes else None for n in (*spec, None, None)]
        assert aval.sharding.spec == P(*wanted[:2])
        assert aval is ga.typeof(x + 1) and pickle.loads(pickle.dumps(aval)) is aval
        assert str(aval) == str(x.aval)
        # As an argument it is a type like any other.
        turned = ga.eval_shape(lambda v: v.T * 2, aval)
        assert (turned.shape, turned.dtype) == ((4, 4), np.float32)
        with ga.set_mesh(mesh):
            like = ga.numpy.zeros((4, 4), out_sharding=aval.sharding)
            assert like.sharding.mesh == mesh and like.sharding.spec == aval.sharding.spec
            alone = ga.device_put(np.ones(3), ga.devices()[0])
            assert ga.typeof(alone).sharding.mesh.empty
            assert ga.typeof(ga.numpy.ones(3)).sharding.mesh == mesh.abstract_mesh
    assert ga.typeof(ga.numpy.ones(3)).sharding.mesh.empty


@pytest.mark.devices
def test_a_constraint_does_not_change_the_order_of_devices():
    one, other = (Mesh(np.array(ga.devices()[:2])[::step], ("x",)) for step in (1, -1))
    x = ga.device_put(np.arange(8.0), NamedSharding(one, P()))
    with pytest.raises(ValueError, match=r"incompatible.*\[0, 1\].*\[1, 0\], in this order"):
        ga.lax.with_sharding_constraint(x, NamedSharding(other, P("x")))
    cut = ga.lax.with_sharding_constraint(x, NamedSharding(one, P("x")))
    assert cut.sharding.spec == P("x")
