"""What an array over several devices says of itself (`runtime/array.py`).

Figures are those of JAX 0.10.2 with eight CPU devices, for the same calls.
"""

import copy
import ctypes
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.sharding import Mesh, NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

VALUE = np.arange(32, dtype=np.float32).reshape(8, 4)
ALL = slice(None)


def mesh() -> Mesh:
    return Mesh(np.array(ga.devices()).reshape(4, 2), ("x", "y"))


def over(*spec, value: Any = VALUE):
    return ga.device_put(value, NamedSharding(mesh(), P(*spec)))


def test_a_device_knows_its_memory():
    # JAX says None for devices that are part of the host; GPUs are tried on the stand-in.
    assert [d.memory_stats() for d in ga.devices()] == [None] * len(ga.devices())


def test_where_it_is():
    x = over("x", "y")
    assert x.sharding is NamedSharding(mesh(), P("x", "y")) and x.device is x.sharding
    assert x.devices() == set(ga.devices()) and x.committed and x.is_fully_addressable
    assert not x.is_fully_replicated and over().is_fully_replicated
    # A mesh of one device is a place of its own name, and its piece on the device.
    one = ga.device_put(VALUE, NamedSharding(Mesh(np.array(ga.devices()[2:3]), ("x",)), P("x")))
    assert one.device is ga.devices()[2] and isinstance(one.sharding, NamedSharding)
    (shard,) = one.addressable_shards
    assert shard.data.sharding == SingleDeviceSharding(ga.devices()[2])
    assert shard.index == (ALL, ALL) and shard.data._buffer() is one._buffer()


@pytest.mark.parametrize(
    "spec, index_of_3, replica_of_3, bytes_of_all",
    [
        (P("x", "y"), (slice(2, 4), slice(2, 4)), 0, 128),
        (P("x"), (slice(2, 4), ALL), 1, 256),
        (P(None, "y"), (ALL, slice(2, 4)), 1, 512),
        (P(), (ALL, ALL), 3, 1024),
        (P(("x", "y")), (slice(3, 4), ALL), 0, 128),
        (P(("y", "x")), (slice(5, 6), ALL), 0, 128),
    ],
)
def test_pieces(spec, index_of_3, replica_of_3, bytes_of_all):
    x = ga.device_put(VALUE, NamedSharding(mesh(), spec))
    shards = x.addressable_shards
    assert [s.device for s in shards] == ga.devices()
    assert [s.device for s in x.global_shards] == ga.devices()
    shard = shards[3]
    assert (shard.index, shard.replica_id) == (index_of_3, replica_of_3)
    np.testing.assert_array_equal(shard.data, VALUE[index_of_3])
    assert shard.data.sharding == SingleDeviceSharding(ga.devices()[3]) and shard.data.committed
    np.testing.assert_array_equal(x.addressable_data(3), shard.data)
    np.testing.assert_array_equal(x.addressable_data(-5), shard.data)
    assert x.on_device_size_in_bytes() == bytes_of_all and x.nbytes == 128


def test_order_of_pieces_is_that_of_the_mesh():
    devices = np.array(ga.devices())[[3, 1, 7, 5, 0, 2, 6, 4]].reshape(2, 4)
    x = ga.device_put(VALUE, NamedSharding(Mesh(devices, ("x", "y")), P("y")))
    found = [(s.device.id, s.index[0].start, s.replica_id) for s in x.addressable_shards]
    assert found == [
        (3, 0, 0), (1, 2, 0), (7, 4, 0), (5, 6, 0), (0, 0, 1), (2, 2, 1), (6, 4, 1), (4, 6, 1)
    ]  # fmt: skip


def test_shards():
    first = over("x", "y").addressable_shards[0]
    assert repr(first) == (
        "Shard(device=CpuDevice(id=0), index=(slice(0, 2, None), slice(0, 2, None)), "
        "replica_id=0, data=[[0. 1.]\n [4. 5.]])"
    )
    scalar = over(value=np.float32(3)).addressable_shards[0]
    assert repr(scalar) == "Shard(device=CpuDevice(id=0), index=(), replica_id=0, data=3.0)"
    # No tuple: they compare by identity.
    assert first == first and first != scalar and len({first, scalar}) == 2
    assert not isinstance(first, tuple) and isinstance(first, ga.Shard)


def test_pieces_out_of_range():
    x = over("x")
    with pytest.raises(IndexError, match=r"addressable_data\(8\) of an array that has 8 pieces"):
        x.addressable_data(8)
    with pytest.raises(TypeError, match="`index` must be an int, got 'a'"):
        x.addressable_data("a")


def test_pieces_are_arrays_of_their_own():
    """Deleting one replica leaves the others, and the whole."""
    x = over("x")
    shards = x.addressable_shards
    shards[1].data.delete()
    assert shards[1].data.is_deleted() and not shards[0].data.is_deleted() and not x.is_deleted()
    np.testing.assert_array_equal(x, VALUE)
    x.delete()
    np.testing.assert_array_equal(shards[0].data, VALUE[:2])


def test_deleted():
    x = over("x", "y")
    x.delete()
    x.delete()
    assert x.is_deleted() and x.shape == (8, 4) and x.sharding is NamedSharding(mesh(), P("x", "y"))
    assert x.devices() == set(ga.devices()) and repr(x) == "ArrayImpl<deleted float32[8,4]>"
    uses = [
        lambda: x.addressable_shards, lambda: x.global_shards, lambda: x.addressable_data(0),
        lambda: np.asarray(x), lambda: x.is_ready(), lambda: x.block_until_ready(),
        lambda: x.on_device_size_in_bytes(), lambda: x.copy_to_host_async(),
        lambda: copy.deepcopy(x), lambda: pickle.dumps(x),
        lambda: ga.device_put(x, ga.devices()[0]), lambda: x + 1, lambda: float(x[0, 0]),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ga.errors.DeletedBufferError, match="has been deleted with shape=float"):
            use()


def test_waiting():
    x = over("x", "y") * 2
    assert x.block_until_ready() is x and x.is_ready() and not x.is_deleted()
    assert x.copy_to_host_async() is None
    assert ga.block_until_ready([x])[0] is x


def test_values():
    x = over("x", "y")
    host = np.asarray(x)
    np.testing.assert_array_equal(host, VALUE)
    assert not host.flags.writeable and np.array(x).flags.writeable
    assert np.asarray(x, np.float64).dtype == np.float64
    assert repr(x) == repr(gnp.asarray(VALUE)) and str(x) == str(VALUE)
    assert x.tolist() == VALUE.tolist() and x.tobytes() == VALUE.tobytes() and len(x) == 8
    assert x.item(5) == 5 and f"{x[1, 1]:.1f}" == "5.0"
    for row, expected in zip(x, VALUE, strict=True):
        np.testing.assert_array_equal(row, expected)
    scalar = over(value=np.float32(3))
    assert (float(scalar), int(scalar), bool(scalar), complex(scalar)) == (3.0, 3, True, 3 + 0j)
    assert f"{scalar:.2f}" == "3.00" and [10, 11, 12, 13][over(value=np.int32(3))] == 13
    with pytest.raises(TypeError, match="Only scalar arrays can be converted"):
        float(x)
    with pytest.raises(ValueError, match="more than one element is ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match="unhashable type: 'ArrayImpl'"):
        hash(x)


def test_copies():
    x = over("x")
    assert copy.copy(x).sharding is x.sharding and x.copy().sharding is x.sharding
    deep = copy.deepcopy(x)
    assert deep.sharding is x.sharding and deep._buffers()[0] is not x._buffers()[0]
    # Replicas stay one buffer.
    assert deep._buffers()[0] is deep._buffers()[1]
    np.testing.assert_array_equal(deep, VALUE)
    # A pickle knows no devices.
    back = pickle.loads(pickle.dumps(x))
    assert back.sharding == SingleDeviceSharding(ga.devices()[0]) and not back.committed
    np.testing.assert_array_equal(back, VALUE)


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda x: x.__dlpack__(), BufferError),
        (lambda x: x.__dlpack_device__(), BufferError),
        (np.from_dlpack, BufferError),
        (lambda x: x.unsafe_buffer_pointer(), ValueError),
        (lambda x: x.__cuda_array_interface__, AttributeError),
        (lambda x: x.__buffer__(0), BufferError),
    ],
)
def test_protocols_for_one_block_of_memory(use, error):
    for x in (over("x", "y"), over()):
        with pytest.raises(error, match=r"is for arrays on one device, .* over 8: give one of its"):
            use(x)
        assert not hasattr(x, "__cuda_array_interface__")
    piece = over("x").addressable_shards[3].data
    np.testing.assert_array_equal(np.from_dlpack(piece), VALUE[2:4])
    at = ctypes.cast(piece.unsafe_buffer_pointer(), ctypes.POINTER(ctypes.c_float))
    assert at[0] == 8


def test_live_arrays():
    before = len(ga.live_arrays())
    x = over("x", "y")
    assert [y for y in ga.live_arrays() if y is x] == [x]
    assert len(ga.live_arrays()) == before + 1
    pieces = [s.data for s in x.addressable_shards]
    assert len(ga.live_arrays()) == before + 9
    gone = weakref.ref(x)
    del x, pieces
    assert gone() is None and len(ga.live_arrays()) == before


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P("x", "y")])
def test_a_result_on_a_mesh_of_one_device_has_a_sharding_that_fits_it(spec, kind):
    axis_types = (getattr(ga.sharding.AxisType, kind),) * 2
    alone = ga.make_mesh((1, 1), ("x", "y"), axis_types, devices=ga.devices()[5:6])
    x = ga.device_put(VALUE, NamedSharding(alone, spec))
    results = [x.sum(), x.sum(0), x[0], x.reshape(-1), x.T, x[None], ga.jit(lambda v: v.sum(1))(x)]
    for y in [*results, *ga.value_and_grad(lambda v: gnp.sin(v).sum())(x)]:
        assert y.sharding.shard_shape(y.shape) == y.shape and y.sharding.mesh == alone
        assert y.committed and y.devices() == {ga.devices()[5]}
        (shard,) = y.addressable_shards
        assert shard.index == (ALL,) * y.ndim
        np.testing.assert_array_equal(shard.data, y)
        assert y.on_device_size_in_bytes() == y.nbytes
        assert ga.device_put(y, y.sharding).sharding == y.sharding
