"""Meshes and named shardings as data (`core/mesh.py`).

The figures are those of JAX 0.10.2, on 8 CPU devices, for the same calls.
"""

import copy
import itertools
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.sharding import Device, pieces
from gpuarray.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
)
from gpuarray.sharding import PartitionSpec as P

AUTO, EXPLICIT, MANUAL = AxisType.Auto, AxisType.Explicit, AxisType.Manual
DEVICES = np.array([Device("cpu", i) for i in range(8)], dtype=object)
MESH = Mesh(DEVICES.reshape(4, 2), ("x", "y"))
TYPED = Mesh(DEVICES.reshape(4, 2), ("x", "y"), (EXPLICIT, EXPLICIT))
CUBE = Mesh(DEVICES.reshape(2, 2, 2), ("a", "b", "c"))
BACK = Mesh(DEVICES[::-1].reshape(4, 2), ("x", "y"))
AXES = AbstractMesh((4, 2), ("x", "y"))
#: Four devices of this process and four of another.
TWO = np.array([Device("cpu", i, process_index=i // 4) for i in range(8)], dtype=object)
U = P.UNCONSTRAINED
ALL = slice(None)


# ---- meshes


def test_a_mesh_knows_its_axes():
    assert MESH.shape == OrderedDict([("x", 4), ("y", 2)])
    assert MESH.shape_tuple == (("x", 4), ("y", 2))
    assert (MESH.axis_sizes, MESH.axis_names, MESH.axis_types) == ((4, 2), ("x", "y"), (AUTO, AUTO))
    assert (MESH.size, MESH.empty, MESH.is_scalar, MESH.is_multi_process) == (8, 0, 0, 0)
    assert MESH.are_all_axes_auto and TYPED.are_all_axes_explicit
    assert not MESH.are_all_axes_manual
    mixed = MESH.update(axis_types=(EXPLICIT, AUTO))
    assert (mixed.explicit_axes, mixed.auto_axes, mixed.manual_axes) == (("x",), ("y",), ())
    np.testing.assert_array_equal(MESH.device_ids, np.arange(8).reshape(4, 2))
    assert MESH.local_devices == list(DEVICES) and MESH.local_mesh is MESH
    assert MESH.devices.dtype == object and not MESH.devices.flags.writeable


def test_a_mesh_without_its_devices():
    cpu = AbstractDevice("cpu", None, "cpu")
    assert MESH.abstract_mesh is AXES.update(abstract_device=cpu)
    assert TYPED.abstract_mesh.axis_types == (EXPLICIT, EXPLICIT)
    gpu = Mesh([Device("gpu", 0, "NVIDIA H200")], "x").abstract_mesh.abstract_device
    assert gpu == AbstractDevice("NVIDIA H200", None, "gpu")


def test_meshes_of_one_device_and_of_none():
    one = Mesh(DEVICES[0], ())
    assert one.is_scalar and one.size == 1 and not one.empty and one.shape == {}
    assert repr(one) == "Mesh(axis_sizes=(), axis_names=(), axis_types=())"
    none = Mesh(np.empty((), object), ())
    assert none is Mesh(None, ()) and none.empty and none.size == 0 and not none.is_scalar
    assert none.local_devices == [] and none.local_mesh is none and none.abstract_mesh.empty
    with pytest.raises(ValueError, match="has no devices"):
        none.device_ids


def test_how_meshes_are_written():
    assert repr(MESH) == ("Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))")
    assert str(MESH) == "Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"


def test_equal_meshes_are_one_object():
    assert MESH is Mesh(DEVICES.reshape(4, 2).tolist(), ["x", "y"], (AUTO, AUTO))
    assert MESH is copy.copy(MESH) is copy.deepcopy(MESH)
    assert MESH != TYPED != CUBE and len({MESH, TYPED, MESH}) == 2
    assert MESH.update(axis_types=(EXPLICIT,) * 2) is TYPED
    assert MESH.update(devices=DEVICES.reshape(2, 4)).shape == {"x": 2, "y": 4}
    assert MESH.update(axis_names=("a", "b")).axis_names == ("a", "b")
    assert Mesh(DEVICES, "x") is Mesh(list(DEVICES), ("x",), AUTO)
    # The caller's array stays writable, and does not reach into the mesh.
    mine = DEVICES.copy()
    mesh = Mesh(mine, "x")
    mine[0] = mine[1]
    assert mesh.devices[0] is DEVICES[0]


def test_devices_belong_to_their_process():
    for value in (DEVICES[0], MESH, NamedSharding(MESH, P("x")), SingleDeviceSharding(DEVICES[0])):
        with pytest.raises(TypeError, match="cannot pickle 'Device' object"):
            pickle.dumps(value)
    assert copy.deepcopy(DEVICES[0]) is DEVICES[0]


def test_meshes_over_processes():
    rows = Mesh(TWO.reshape(4, 2), ("x", "y"))
    assert rows.is_multi_process and rows.local_devices == list(TWO[:4])
    assert rows.local_mesh is Mesh(TWO[:4].reshape(2, 2), ("x", "y"))
    columns = Mesh(TWO.reshape(2, 4).T, ("x", "y"))
    assert columns.local_mesh.shape == {"x": 4, "y": 1}
    mixed = Mesh(TWO[[0, 4, 5, 1, 2, 6, 7, 3]].reshape(4, 2), ("x", "y"))
    with pytest.raises(ValueError, match="contiguous block"):
        mixed.local_mesh
    sharding = NamedSharding(rows, P("x"))
    assert not sharding.is_fully_addressable and sharding.has_addressable_devices
    assert sharding.addressable_devices == set(TWO[:4])
    assert len(sharding.devices_indices_map((8,))) == 8
    assert list(sharding.addressable_devices_indices_map((8,))) == list(TWO[:4])
    assert not NamedSharding(Mesh(TWO[4:], "x"), P()).has_addressable_devices


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: Mesh(DEVICES, ("x", "y")), ValueError, r"devices.ndim == 1 and .* == 2"),
        (lambda: Mesh(DEVICES[0], "x"), ValueError, r"devices.ndim == 0 and .* == 1"),
        (lambda: Mesh(DEVICES.reshape(4, 2), ("x", "x")), ValueError, "names of their own"),
        (lambda: Mesh(DEVICES.reshape(4, 2), ("x", None)), ValueError, "names cannot be None"),
        (lambda: Mesh(DEVICES, 3), TypeError, "`axis_names` must be a tuple of names, got 3"),
        (lambda: Mesh(DEVICES, "x", "Auto"), TypeError, r"must be of type .* Got \('Auto',\)"),
        (lambda: Mesh(DEVICES, "x", (AUTO,) * 2), ValueError, "should match the number"),
        (lambda: Mesh(np.arange(2), "x"), TypeError, "Mesh takes devices, .* got 0"),
        (lambda: MESH.update(other=1), TypeError, "other"),
        (lambda: setattr(MESH, "size", 3), AttributeError, "assign to field 'size'"),
    ],
)
def test_misuse_of_meshes(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---- named shardings


def test_a_sharding_knows_its_devices():
    sharding = NamedSharding(MESH, P("x"))
    assert sharding.device_set == sharding.addressable_devices == set(DEVICES)
    assert (sharding.num_devices, sharding.memory_kind) == (8, "device")
    assert sharding.is_fully_addressable and sharding.has_addressable_devices
    assert not sharding.is_fully_replicated and isinstance(sharding, Sharding)
    assert sharding.replicated_axes == {"y"}
    assert NamedSharding(MESH, P(U)).replicated_axes == {"x", "y"}
    assert NamedSharding(TYPED, P(unreduced={"x"})).replicated_axes == {"y"}
    assert NamedSharding(MESH, P()).is_fully_replicated
    assert not NamedSharding(TYPED, P(unreduced={"x"})).is_fully_replicated
    assert NamedSharding(Mesh(DEVICES[:1], "x"), P("x")).is_fully_replicated
    assert NamedSharding(Mesh(DEVICES.reshape(8, 1), ("x", "y")), P("y")).is_fully_replicated


def test_how_shardings_are_written():
    assert repr(NamedSharding(MESH, P("x"))) == (
        "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x',), "
        "memory_kind=device)"
    )
    assert repr(NamedSharding(AXES, P("x"))) == (
        "NamedSharding(mesh=AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x',))"
    )
    assert repr(NamedSharding(Mesh(None, ()), P())) == "NamedSharding(mesh=Mesh(), spec=P())"


def test_equal_shardings_are_one_object():
    sharding = NamedSharding(MESH, P("x"))
    assert sharding is NamedSharding(mesh=MESH, spec=P(("x",)), memory_kind="device")
    assert sharding is sharding.with_memory_kind("device") is copy.deepcopy(sharding)
    assert sharding != NamedSharding(MESH, P("x", None)) != NamedSharding(TYPED, P("x"))
    assert sharding.update(spec=("y",)) is NamedSharding(MESH, P("y"))
    assert sharding.update(mesh=TYPED, spec=P("y")) is NamedSharding(TYPED, P("y"))
    assert sharding.update(mesh=AXES) is NamedSharding(AXES, P("x"), memory_kind="device")
    abstract = NamedSharding(AXES, P("x"))
    assert abstract.memory_kind is None and pickle.loads(pickle.dumps(abstract)) is abstract


def test_a_sharding_without_devices():
    sharding = NamedSharding(AXES, P("x"))
    assert (sharding.num_devices, sharding.is_fully_replicated) == (8, False)
    assert sharding.shard_shape((8, 2)) == (2, 2)
    for use in (
        lambda: sharding.device_set,
        lambda: sharding.addressable_devices,
        lambda: sharding.is_fully_addressable,
        lambda: sharding.has_addressable_devices,
        lambda: sharding.devices_indices_map((8, 2)),
        lambda: sharding.addressable_devices_indices_map((8, 2)),
    ):
        with pytest.raises(ValueError, match="an AbstractMesh has no devices"):
            use()


@pytest.mark.parametrize(
    "mesh, spec, shape, starts, counts",
    [
        (MESH, P("x"), (8,), [0, 0, 2, 2, 4, 4, 6, 6], [0, 1] * 4),
        (MESH, P("y"), (8,), [0, 4] * 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        (MESH, P(("x", "y")), (8,), [*range(8)], [0] * 8),
        (MESH, P(("y", "x")), (8,), [0, 4, 1, 5, 2, 6, 3, 7], [0] * 8),
        (MESH, P(U, "y"), (8, 2), [(None, 0), (None, 1)] * 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        (MESH, P(), (8,), [None] * 8, [*range(8)]),
        (MESH, P("x"), (0,), [0] * 8, [*range(8)]),
        (BACK, P("x"), (8,), [0, 0, 2, 2, 4, 4, 6, 6], [0, 1] * 4),
        (
            MESH, P("x", "y"), (4, 2),
            [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)], [0] * 8,
        ),
        (CUBE, P(("c", "a")), (4,), [0, 2, 0, 2, 1, 3, 1, 3], [0, 0, 1, 1, 0, 0, 1, 1]),
        (TYPED, P("x", reduced={"y"}), (8,), [0, 0, 2, 2, 4, 4, 6, 6], [0, 1] * 4),
    ],
)  # fmt: skip
def test_pieces(mesh, spec, shape, starts, counts):
    sharding = NamedSharding(mesh, spec)
    size = sharding.shard_shape(shape)
    want = []
    for at in starts:
        at = at if isinstance(at, tuple) else (at,)
        want.append(
            tuple(ALL if i is None else slice(i, i + n) for i, n in zip(at, size, strict=True))
        )
    found = pieces(sharding, shape)
    # The order is the mesh's, as it is of an array's shards.
    assert [p.device for p in found] == list(mesh.devices.flat)
    assert [p.index for p in found] == want
    assert [p.replica_id for p in found] == counts
    assert list(sharding.devices_indices_map(shape).items()) == [p[:2] for p in found]
    assert sharding.addressable_devices_indices_map(shape) == dict([p[:2] for p in found])


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


def test_the_maps_are_the_callers():
    sharding = NamedSharding(MESH, P("x"))
    sharding.devices_indices_map((16,)).clear()
    assert len(sharding.devices_indices_map((16,))) == 8
    for n in range(200):
        sharding.devices_indices_map((4 * n,))
    assert len(sharding._found) <= 64


def test_shapes_of_pieces():
    assert NamedSharding(MESH, P("x")).shard_shape((8, 2)) == (2, 2)
    assert NamedSharding(MESH, P("x")).shard_shape((0, 5)) == (0, 5)
    assert NamedSharding(MESH, P(None, ("x", "y"))).shard_shape((3, 16)) == (3, 2)
    assert NamedSharding(MESH, P()).shard_shape((3, 5)) == (3, 5)
    assert NamedSharding(MESH, P(U)).shard_shape((7,)) == (7,)
    assert NamedSharding(TYPED, P("x", unreduced={"y"})).shard_shape((8,)) == (2,)
    NamedSharding(MESH, P("x")).check_compatible_aval((7, 3))


def test_axes_that_are_not_there_may_be_named_where_they_are_not_cut():
    longer = NamedSharding(MESH, P("x", None))
    assert longer.shard_shape((8,)) == (2,) and NamedSharding(MESH, P(None)).shard_shape(()) == ()
    assert longer.devices_indices_map((8,))[DEVICES[2]] == (slice(2, 4),)
    assert longer.is_equivalent_to(NamedSharding(MESH, P("x")), 1)
    for ask in (
        lambda: longer.check_compatible_aval((8,)),
        lambda: NamedSharding(MESH, P("x", "y")).shard_shape((8,)),
        lambda: NamedSharding(MESH, P("x", "y")).is_equivalent_to(longer, 1),
    ):
        with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
            ask()


HERE = SingleDeviceSharding(DEVICES[0])


@pytest.mark.parametrize(
    "one, other, ndim, same",
    [
        (NamedSharding(MESH, P("x")), NamedSharding(TYPED, P("x", None)), 2, True),
        (NamedSharding(MESH, P("x")), NamedSharding(CUBE, P(("a", "b"))), 2, True),
        (NamedSharding(MESH, P("x")), NamedSharding(CUBE, P(("b", "a"))), 2, False),
        (NamedSharding(MESH, P("x")), NamedSharding(MESH, P("y")), 2, False),
        (NamedSharding(MESH, P("x")), NamedSharding(BACK, P("x")), 2, False),
        (NamedSharding(MESH, P()), NamedSharding(CUBE, P(None)), 2, True),
        (NamedSharding(MESH, P()), NamedSharding(BACK, P()), 2, False),
        (NamedSharding(MESH, P(U)), NamedSharding(MESH, P()), 1, True),
        (NamedSharding(TYPED, P("x", unreduced={"y"})), NamedSharding(MESH, P("x")), 1, False),
        (NamedSharding(TYPED, P("x", reduced={"y"})), NamedSharding(MESH, P("x")), 1, True),
        (NamedSharding(Mesh(DEVICES[:1], "x"), P("x")), HERE, 2, True),
        (NamedSharding(MESH, P("x")), HERE, 2, False),
        (NamedSharding(MESH, P()), HERE, 2, False),
        (NamedSharding(AXES, P("x")), NamedSharding(AXES, P("x", None)), 2, True),
        (NamedSharding(AXES, P("x")), NamedSharding(AXES, P("y")), 2, False),
        (NamedSharding(AXES, P("x")), NamedSharding(MESH, P("x")), 2, False),
        (NamedSharding(AXES, P()), HERE, 2, False),
        (HERE, SingleDeviceSharding(DEVICES[0]), 2, True),
        (HERE, SingleDeviceSharding(DEVICES[1]), 2, False),
    ],
)
def test_equivalence(one, other, ndim, same):
    assert one.is_equivalent_to(other, ndim) is same is other.is_equivalent_to(one, ndim)


def test_equivalence_is_that_of_the_pieces():
    specs = [P(*s) for s in itertools.permutations(["a", "b", "c", None], 2)]
    specs += [P((a, b)) for a, b in itertools.permutations("abc", 2)]
    shardings = [NamedSharding(CUBE, spec) for spec in specs]
    for one, other in itertools.product(shardings, repeat=2):
        same = pieces(one, (8, 8)) == pieces(other, (8, 8))
        assert one.is_equivalent_to(other, 2) is same


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: NamedSharding(MESH, P("z")), ValueError,
         r"Resource axis: z of P\('z',\) is not found in mesh: \('x', 'y'\)"),
        (lambda: NamedSharding(MESH, P("x", ("y", "x"), "y")), ValueError,
         "at most one positional dimension, .* duplicate entries for `x`, `y`"),
        (lambda: NamedSharding(TYPED, P(U)), ValueError,
         "cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`"),
        (lambda: NamedSharding(MESH, P(unreduced={"x"})), ValueError,
         "Unreduced axes can only refer to mesh axes that is of type `Explicit`"),
        (lambda: NamedSharding(MESH, P(reduced={"x"})), ValueError,
         "Reduced axes can only refer to mesh axes that is of type `Explicit`"),
        (lambda: NamedSharding(TYPED, P(unreduced={"z"})), ValueError, "Unreduced axes z is not"),
        (lambda: NamedSharding(TYPED, P(reduced={"z"})), ValueError, "Reduced axes z is not found"),
        (lambda: NamedSharding(MESH, ("x",)), TypeError, r"a PartitionSpec, got \('x',\)"),
        (lambda: NamedSharding(5, P()), TypeError, "expected a Mesh or an AbstractMesh, got 5"),
        (lambda: NamedSharding(MESH, P(), memory_kind="hbm"), ValueError,
         "Device cpu can address the following memory kinds: device, pinned_host, unpinned_host"),
        (lambda: NamedSharding(MESH, P()).update(other=1), TypeError, r"got \['other'\]"),
        (lambda: NamedSharding(MESH, P("x")).shard_shape((7, 2)), ValueError,
         r"array axis 0 is partitioned 4 times, but the dimension size is 7 \(full shape: \(7, 2\),"
         r" per-dimension tiling factors: \[4, 1\] should evenly divide .* Pad the axis to 8"),
        (lambda: NamedSharding(MESH, P("x")).devices_indices_map((7,)), ValueError, "evenly"),
        (lambda: NamedSharding(MESH, P("x")).shard_shape(()), ValueError,
         r"rank at least 1, but was applied to a value of rank 0. For scalars .* should be P\(\)"),
        (lambda: NamedSharding(MESH, P("x", "y")).check_compatible_aval((8,)), ValueError,
         "rank at least 2, but was applied to a value of rank 1."),
        (lambda: NamedSharding(MESH, P("x", "y")).is_equivalent_to(NamedSharding(MESH, P()), 1),
         ValueError, "rank at least 2"),
        (lambda: NamedSharding(MESH, P()).is_equivalent_to(None, 1), TypeError, "got None"),
        (lambda: HERE.is_equivalent_to(P(), 1), TypeError, r"compares with a Sharding, got P\(\)"),
        (lambda: NamedSharding(TYPED, P(unreduced={"y"})).devices_indices_map((8,)),
         NotImplementedError, r"terms of a sum over \['y'\]"),
        (lambda: setattr(NamedSharding(MESH, P()), "spec", P("x")), AttributeError, "'spec'"),
    ],
)  # fmt: skip
def test_misuse_of_shardings(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_an_array_remembers_how_it_was_put():
    mesh = ga.make_mesh((1,), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    x = ga.device_put(gnp.arange(4.0), sharding)
    assert x.sharding == sharding and x.committed
    assert NamedSharding(mesh, P()).is_equivalent_to(x.sharding, 1)
    np.testing.assert_array_equal(ga.jit(lambda a: a + 1)(x), [1, 2, 3, 4])


class _Planned:
    """A device of a machine that is not here."""

    platform, device_kind, process_index = "gpu", "NVIDIA H100", 0

    def __init__(self, id):
        self.id = id


def test_a_mesh_may_be_of_devices_that_are_only_planned():
    planned = [_Planned(i) for i in range(4)]
    grid = Mesh(np.array(planned).reshape(2, 2), ("a", "b"))
    assert grid.device_ids.tolist() == [[0, 1], [2, 3]] and grid.local_devices == []
    assert grid.abstract_mesh.abstract_device.device_kind == "NVIDIA H100"
    cut = NamedSharding(grid, P("a"))
    assert cut.shard_shape((4, 3)) == (2, 3) and cut.device_set == set(planned)
    assert cut.devices_indices_map((4,))[planned[2]] == (slice(2, 4),)
    assert not cut.is_fully_addressable and cut.addressable_devices == set()
    with pytest.raises(ValueError, match=r"none of the devices of gpuarray.devices\(\)"):
        ga.device_put(np.ones(4), cut)
