"""Layouts of arrays over devices, and moves between any two of them (`runtime/pieces.py`).

What a device holds follows from the definition: the devices of a mesh count along the axes that an
entry of the spec names, the first name counting most, and each has the block of that number.
"""

import functools
import gc
import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.sharding import Mesh, NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

DTYPES = [
    np.bool_, np.int8, np.uint16, np.int32, np.float16, ml_dtypes.bfloat16, np.float32,
    np.complex64, ml_dtypes.float8_e4m3fn, ml_dtypes.int4,
]  # fmt: skip


@functools.cache
def meshes() -> list[Mesh]:
    """Meshes of all devices, of some, in other orders, and of one."""
    devices = np.array(ga.devices())
    return [
        Mesh(devices.reshape(4, 2), ("x", "y")),
        Mesh(devices, ("x",)),
        Mesh(devices.reshape(2, 2, 2), ("x", "y", "z")),
        Mesh(devices[[3, 1, 7, 5, 0, 2, 6, 4]].reshape(2, 4), ("x", "y")),
        Mesh(devices.reshape(4, 2).T, ("y", "x")),
        Mesh(devices[:4].reshape(2, 2), ("x", "y")),
        Mesh(devices[5:2:-2], ("y",)),
        Mesh(devices[6:7], ("x",)),
    ]


def specs(mesh: Mesh, ndim: int) -> list[P]:
    """All ways in which the axes of a mesh cut arrays of this rank."""
    found = {P()}
    names = mesh.axis_names
    for count in range(1, len(names) + 1):
        for order in itertools.permutations(names, count):
            # Each name goes to one axis of the array.
            for places in itertools.product(range(ndim), repeat=count):
                parts = [
                    tuple(n for n, at in zip(order, places, strict=True) if at == axis)
                    for axis in range(ndim)
                ]
                found.add(P(*parts))
    return sorted(found, key=repr)


@functools.cache
def layouts(ndim: int) -> list:
    devices = ga.devices()
    found = [NamedSharding(mesh, spec) for mesh in meshes() for spec in specs(mesh, ndim)]
    return [*found, SingleDeviceSharding(devices[0]), SingleDeviceSharding(devices[5])]


def block(sharding, device, value: np.ndarray) -> np.ndarray:
    """The part of a value that a device has, by the definition of a PartitionSpec."""
    if isinstance(sharding, SingleDeviceSharding):
        return value
    mesh = sharding.mesh
    (at,) = np.argwhere(mesh.devices == device)
    where = dict(zip(mesh.axis_names, zip(at, mesh.axis_sizes, strict=True), strict=True))
    for axis, part in enumerate(sharding.spec):
        number, count = 0, 1
        for name in part if isinstance(part, tuple) else (part,) if part is not None else ():
            i, n = where[name]
            number, count = number * n + i, count * n
        value = np.split(value, count, axis)[number]
    return value


def check(x, sharding, value: np.ndarray):
    assert x.sharding == sharding and x.committed
    assert x.shape == value.shape and x.dtype == value.dtype
    np.testing.assert_array_equal(np.asarray(x), value)
    shards = x.addressable_shards
    assert {s.device for s in shards} == x.devices() and len(shards) == sharding.num_devices
    seen: dict[str, int] = {}
    for shard in shards:
        part = block(sharding, shard.device, value)
        np.testing.assert_array_equal(np.asarray(shard.data), part, strict=True)
        np.testing.assert_array_equal(value[shard.index], part)
        assert shard.data.devices() == {shard.device}
        # Replicas count from 0.
        assert shard.replica_id == seen.get(str(shard.index), 0)
        seen[str(shard.index)] = shard.replica_id + 1


@settings(max_examples=120)
@given(st.data())
def test_between_any_two_layouts(data):
    """Values and pieces are right from the host to a layout, and on to others."""
    ndim = data.draw(st.integers(0, 3))
    # Every cut of up to 8 devices divides 8; axes without elements are cut, too.
    shape = tuple(data.draw(st.lists(st.sampled_from([8, 16, 0]), min_size=ndim, max_size=ndim)))
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    value = (np.arange(math.prod(shape)) % 7).astype(dtype).reshape(shape)
    x = None
    for sharding in data.draw(st.lists(st.sampled_from(layouts(ndim)), min_size=2, max_size=4)):
        x = ga.device_put(value if x is None else x, sharding)
        check(x, sharding, value)


def test_every_pair_of_layouts_of_one_mesh():
    value = np.arange(64, dtype=np.int32).reshape(8, 8)
    found = [NamedSharding(meshes()[0], spec) for spec in specs(meshes()[0], 2)]
    assert len(found) == 11
    for a, b in itertools.product(found, repeat=2):
        check(ga.device_put(ga.device_put(value, a), b), b, value)


def test_keys_lie_over_devices():
    keys = ga.random.split(ga.random.key(3), 8)
    sharding = NamedSharding(meshes()[0], P("x"))
    spread = ga.device_put(keys, sharding)
    assert spread.dtype == keys.dtype and spread.sharding is sharding
    words = np.asarray(ga.random.key_data(keys))
    np.testing.assert_array_equal(ga.random.key_data(spread), words)
    for shard in spread.addressable_shards:
        np.testing.assert_array_equal(ga.random.key_data(shard.data), words[shard.index])
    back = ga.device_put(spread, ga.devices()[0])
    np.testing.assert_array_equal(ga.random.key_data(back), words)


def test_64_bit_arrays():
    value = np.arange(16.0).reshape(8, 2) * (1 + 2**-40)
    first, second = (NamedSharding(meshes()[0], s) for s in (P("x", "y"), P(("y", "x"))))
    assert ga.device_put(value, first).dtype == np.float32
    with ga.enable_x64(True):
        x = ga.device_put(ga.device_put(value, first), second)
        check(x, second, value)


def test_moves_copy_what_is_not_there():
    """On devices that share memory a piece that exists already is the same buffer."""
    mesh = meshes()[0]
    value = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    x = ga.device_put(value, NamedSharding(mesh, P("x")))
    # Replicas are one buffer.
    buffers = x._buffers()
    assert len({id(b) for b in buffers}) == 4 and buffers[0] is buffers[1]
    # Other devices with the same regions.
    turned = Mesh(mesh.devices[::-1], ("x", "y"))
    y = ga.device_put(x, NamedSharding(turned, P("x")))
    assert {id(b) for b in y._buffers()} == {id(b) for b in buffers}
    # The whole is put together once for all devices, and is then what one device holds.
    whole = ga.device_put(x, NamedSharding(mesh, P()))
    assert len({id(b) for b in whole._buffers()}) == 1
    one = ga.device_put(whole, ga.devices()[3])
    assert one._buffer() is whole._buffers()[0]
    assert ga.device_put(one, NamedSharding(mesh, P()))._buffers()[0] is one._buffer()
    # A piece that was cut out keeps no larger one alive.
    part = ga.device_put(whole, NamedSharding(mesh, P("x")))._buffers()[0]
    assert np.asarray(part).base is None
    # Nothing to do.
    assert ga.device_put(x, x.sharding) is x and ga.device_put(x) is x


def test_pieces_are_not_written_through():
    value = np.arange(8.0, dtype=np.float32)
    x = ga.device_put(value, NamedSharding(meshes()[1], P()))
    value[:] = 0
    np.testing.assert_array_equal(x, np.arange(8.0))
    assert not np.asarray(x).flags.writeable


def test_trees_of_shardings():
    mesh = meshes()[0]
    rows, columns, whole = (NamedSharding(mesh, s) for s in (P("x"), P(None, "y"), P()))
    value = np.ones((8, 4), np.float32)
    placed = ga.device_put({"a": value, "b": (value, value)}, {"a": rows, "b": (columns, whole)})
    assert ga.tree.leaves(ga.tree.map(lambda x: x.sharding, placed)) == [rows, columns, whole]
    # A prefix, and None for what may be anywhere.
    placed = ga.device_put({"a": value, "b": (value, value)}, {"a": rows, "b": None})
    assert [x.committed for x in ga.tree.leaves(placed)] == [True, False, False]
    with pytest.raises(ValueError, match="device_put device"):
        ga.device_put({"a": value}, {"b": rows})
    with pytest.raises(ValueError, match="different lengths of tuple"):
        ga.device_put((value, value), (rows,))


def test_donation_and_aliasing():
    mesh = meshes()[0]
    rows, columns = (NamedSharding(mesh, s) for s in (P("x"), P(None, "y")))
    x = ga.device_put(np.ones((8, 4), np.float32), rows)
    y = ga.device_put(x, columns, donate=True)
    assert x.is_deleted() and not y.is_deleted()
    # Nothing moves: nothing is donated.
    assert ga.device_put(y, columns, donate=True) is y and not y.is_deleted()
    copied = ga.device_put(y, columns, may_alias=False)
    assert copied.sharding is columns and copied._buffers()[0] is not y._buffers()[0]
    with pytest.raises(ValueError, match="may_alias and donate"):
        ga.device_put(y, rows, may_alias=True, donate=True)
    with pytest.raises(ga.errors.DeletedBufferError, match=r"deleted with shape=float32\[8,4\]"):
        ga.device_put(x, columns)


def test_moves_of_what_is_not_computed_yet():
    mesh = meshes()[0]
    rows, columns = (NamedSharding(mesh, s) for s in (P("x"), P(None, "y")))
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    pending = gnp.sin(ga.device_put(value, ga.devices()[0])) * 2
    spread = ga.device_put(pending, rows)
    moved = ga.device_put(spread + 1, columns)
    np.testing.assert_allclose(moved, np.sin(value) * 2 + 1, rtol=1e-6)
    # Big enough to be in flight.
    big = gnp.ones((1024, 1024)) * 3
    check(ga.device_put(big, rows), rows, np.full((1024, 1024), 3, np.float32))


@pytest.mark.parametrize(
    "shape, spec, words",
    [
        ((6, 4), P("x"), "axis 0 is partitioned 4 times, .* size is 6 .* Pad the axis to 8"),
        ((8, 3), P(None, "y"), "axis 1 is partitioned 2 times, .* evenly divide .* to 4"),
        ((8,), P("x", "y"), "rank at least 2, but was applied to a value of rank 1"),
        ((), P("x"), r"rank 0. For scalars the PartitionSpec should be P\(\)"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(shape, spec, words):
    sharding = NamedSharding(meshes()[0], spec)
    value = np.ones(shape, np.float32)
    x = ga.device_put(value, ga.devices()[0])
    calls = [
        lambda: ga.device_put(value, sharding),
        lambda: ga.device_put(x, sharding),
        lambda: ga.make_array_from_callback(shape, sharding, lambda index: value[index]),
        lambda: ga.make_array_from_single_device_arrays(shape, sharding, [x]),
        lambda: ga.make_array_from_process_local_data(sharding, value),
        lambda: sharding.devices_indices_map(shape),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=words):
            call()


def test_a_mesh_that_names_a_device_twice_holds_no_arrays():
    device = ga.devices()[0]
    mesh = Mesh(np.array([device, device]), ("x",))
    with pytest.raises(ValueError, match="names a device more than once"):
        ga.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))


def test_nothing_is_left_behind():
    """Buffers after many moves are those before, without help of the garbage collector."""
    mesh = meshes()[0]
    some = [NamedSharding(mesh, s) for s in (P("x"), P(None, "y"), P("y", "x"), P())]
    value = np.arange(32, dtype=np.float32).reshape(8, 4)

    def moves(count):
        x = ga.device_put(value, some[0])
        for number in range(count):
            x = ga.device_put(x, some[number % 4])
            x.addressable_shards[0].data.block_until_ready()
            if number % 10 == 0:
                x = ga.device_put(value, some[0])

    moves(10)
    gc.collect()
    gc.disable()
    try:
        before = len(ga.live_arrays())
        moves(1000)
        assert len(ga.live_arrays()) == before
        assert gc.collect() == 0  # no cycles
    finally:
        gc.enable()
