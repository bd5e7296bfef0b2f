"""Arrays over devices, made of pieces (`runtime/from_pieces.py`).

Indices, dtypes and kinds of errors are those of JAX 0.10.2 with eight devices, but for one thing:
devices that hold the same part share one call of the callback.
"""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.errors import UnexpectedTracerError
from gpuarray.sharding import Mesh, NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

VALUE = np.arange(32, dtype=np.float32).reshape(8, 4)
ALL = slice(None)


def laid(*spec) -> NamedSharding:
    return NamedSharding(Mesh(np.array(ga.devices()).reshape(4, 2), ("x", "y")), P(*spec))


def of_callback(sharding, **options):
    """The array, and the indices that the callback was given."""
    calls = []

    def part(index):
        calls.append(index)
        return VALUE[index]

    x = ga.make_array_from_callback(VALUE.shape, sharding, part, **options)
    np.testing.assert_array_equal(x, VALUE)
    assert x.sharding == sharding and x.committed and not x.weak_type
    return x, calls


def test_callback_is_given_the_index_of_each_part():
    _, calls = of_callback(laid("x", "y"))
    assert calls == [
        (slice(2 * i, 2 * i + 2), slice(2 * j, 2 * j + 2)) for i in range(4) for j in range(2)
    ]
    # Once for devices that hold the same.
    assert of_callback(laid(None, "y"))[1] == [(ALL, slice(0, 2)), (ALL, slice(2, 4))]
    assert of_callback(laid())[1] == [(ALL, ALL)]
    assert of_callback(SingleDeviceSharding(ga.devices()[2]))[1] == [(ALL, ALL)]


def test_callback_dtypes():
    assert of_callback(laid("x"), dtype=np.float32)[0].dtype == np.float32
    # What x64 leaves out is not asked for.
    assert of_callback(laid("x"), dtype=np.float64)[0].dtype == np.float32
    make = ga.make_array_from_callback
    assert make((8, 4), laid("x"), lambda i: VALUE[i].astype(np.float64)).dtype == np.float32
    with ga.enable_x64(True):
        assert make((8, 4), laid("x"), lambda i: VALUE[i].astype(np.float64)).dtype == np.float64
    with pytest.raises(
        ValueError,
        match="match the dtype of the addressable shards. Got int32, and shards of dtype float",
    ):
        make((8, 4), laid("x"), lambda i: VALUE[i], dtype=np.int32)
    mixed = lambda i: VALUE[i].astype(np.int32 if i[0].start else np.float32)
    with pytest.raises(ValueError, match=r"several dtypes, \['float32', 'int32'\]: convert them"):
        make((8, 4), laid("x"), mixed)


def test_callback_results():
    make = ga.make_array_from_callback
    # Scalars, axes without elements, arrays on any device or on many, and keys.
    assert float(make((), laid(), lambda index: np.float32(index == ()))) == 1
    assert make((0, 4), laid("x", "y"), lambda index: VALUE[index]).shape == (0, 4)
    for device in (ga.devices()[5], laid("x"), laid("y", "x")):
        there = ga.device_put(VALUE, device)
        made = make((8, 4), laid("x", "y"), lambda i, there=there: there[i])
        np.testing.assert_array_equal(made, VALUE)
        assert [s.data.device for s in made.addressable_shards] == ga.devices()
    keys = ga.random.split(ga.random.key(0), 8)
    made = make((8,), laid("x"), lambda index: keys[index])
    np.testing.assert_array_equal(ga.random.key_data(made), ga.random.key_data(keys))
    # The caller's memory stays the caller's.
    mine = VALUE.copy()
    made = make((8, 4), laid(), lambda index: mine)
    mine[:] = 0
    np.testing.assert_array_equal(made, VALUE)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda make: make(8, laid(), VALUE.__getitem__), TypeError, "`shape` must be a shape"),
        (
            lambda make: make((8.0, 4), laid(), VALUE.__getitem__),
            TypeError,
            "`shape` must be an int, got 8.0",
        ),
        (
            lambda make: make((-8, 4), laid(), VALUE.__getitem__),
            ValueError,
            r"0 or more, .* \(-8, 4\)",
        ),
        (
            lambda make: make((8, 4), "x", VALUE.__getitem__),
            TypeError,
            r"takes a Sharding, such as NamedSharding\(mesh",
        ),
        (lambda make: make((8, 4), laid(), 3), TypeError, "`data_callback` must be a function"),
        (
            lambda make: make((8, 4), laid("x"), lambda i: VALUE),
            ValueError,
            r"shape \(2, 4\) .* shape \(8, 4\) .* for index \(slice\(0, 2, None\), .* cpu:0",
        ),
        (
            lambda make: make((8, 4), laid("x"), lambda i: 1.0),
            ValueError,
            r"array shape \(\) that .* for index",
        ),
        (lambda make: make((8, 4), laid("x"), lambda i: None), TypeError, "not a valid JAX type"),
        (
            lambda make: make((8, 4), laid("x"), lambda i: [1.0]),
            TypeError,
            "not a valid JAX type",
        ),
        (lambda make: make((8, 4), laid("x"), lambda i: 1 // 0), ZeroDivisionError, "by zero"),
        (
            lambda make: ga.jit(lambda x: make((8, 4), laid("x"), lambda i: x[i]))(VALUE),
            UnexpectedTracerError,
            "a traced value",
        ),
    ],
)
def test_misuse_of_callbacks(call, error, words):
    with pytest.raises(error, match=words):
        call(ga.make_array_from_callback)


def parts(sharding) -> list:
    index = sharding.devices_indices_map(VALUE.shape)
    return [ga.device_put(VALUE[index[device]], device) for device in index]


def test_pieces_become_an_array_without_a_copy():
    sharding = laid("x", "y")
    given = parts(sharding)
    # Each piece is known by its device.
    for order in (given, given[::-1], tuple(given)):
        x = ga.make_array_from_single_device_arrays((8, 4), sharding, order)
        np.testing.assert_array_equal(x, VALUE)
        assert x.sharding is sharding and x.committed
        assert [a is b._buffer() for a, b in zip(x._buffers(), given, strict=True)] == [True] * 8
    # And apart again.
    again = [s.data for s in x.addressable_shards]
    np.testing.assert_array_equal(
        ga.make_array_from_single_device_arrays((8, 4), sharding, again), VALUE
    )
    scalars = [ga.device_put(gnp.asarray(1.0), device) for device in ga.devices()]
    assert scalars[0].weak_type
    assert not ga.make_array_from_single_device_arrays((), laid(), scalars).weak_type


def deleted() -> list:
    given = parts(laid("x", "y"))
    given[3].delete()
    return given


@pytest.mark.parametrize(
    "given, error, words",
    [
        (
            lambda s: parts(s)[:7],
            ValueError,
            r"Expected 8 per-device arrays .* got 7: .* none is on \[CpuDevice\(id=7\)\]",
        ),
        (lambda s: [], ValueError, "got 0: .* none is on"),
        (
            lambda s: parts(s)[:7] + parts(s)[:1],
            ValueError,
            "must be from distinct devices: .* none is on",
        ),
        (
            lambda s: parts(laid("x")),
            ValueError,
            r"arrays\[0\], on cpu:0, has shape \(2, 4\); expected \(2, 2\)",
        ),
        (
            lambda s: [x.astype(int) if i == 7 else x for i, x in enumerate(parts(s))],
            ValueError,
            r"several dtypes, \['float32', 'int32'\]",
        ),
        (
            lambda s: [np.asarray(x) for x in parts(s)],
            TypeError,
            r"arrays\[0\] is no array on a device but .*ndarray",
        ),
        (
            lambda s: [ga.device_put(VALUE, s)] * 8,
            ValueError,
            r"An argument array had 8 shard\(s\): give the pieces of arrays\[0\]",
        ),
        (
            lambda s: [
                ga.jit(lambda x: ga.make_array_from_single_device_arrays((8, 4), s, [x]))(VALUE)
            ],
            ValueError,
            r"arrays\[0\] is a traced value",
        ),
        (lambda s: VALUE, TypeError, "must be a list of arrays"),
        (lambda s: iter(parts(s)), TypeError, "must be a list of arrays"),
        (lambda s: deleted(), ga.errors.DeletedBufferError, r"deleted with shape=float32\[2,2\]"),
    ],
)
def test_misuse_of_pieces(given, error, words):
    sharding = laid("x", "y")
    with pytest.raises(error, match=words):
        ga.make_array_from_single_device_arrays((8, 4), sharding, given(sharding))


def test_misuse_of_other_arguments_of_pieces():
    make: Any = ga.make_array_from_single_device_arrays
    sharding = laid("x", "y")
    given = parts(sharding)
    with pytest.raises(TypeError, match="`shape` must be a shape"):
        make(8, sharding, given)
    with pytest.raises(ValueError, match="requires a non-empty mesh in context"):
        make((8, 4), P("x"), given)
    assert make((8, 4), sharding, given, dtype=gnp.float32).dtype == np.float32
    with pytest.raises(ValueError, match="Got int32, and shards of dtype float32"):
        make((8, 4), sharding, given, dtype=gnp.int32)
    half = Mesh(np.array(ga.devices()[:4]), ("x",))
    elsewhere = [ga.device_put(VALUE[:2], device) for device in ga.devices()[4:]]
    with pytest.raises(ValueError, match=r"arrays contain devices \{4, 5, 6, 7\} that are not"):
        make((8, 4), NamedSharding(half, P("x")), elsewhere)


def test_shapes_of_containers_of_data():
    sharding = laid("x", "y")
    data = {"a": VALUE, "b": [VALUE, VALUE[:4]]}
    for shape in (None, {"a": (8, 4), "b": [(8, None), (4, 4)]}, {"a": None, "b": None}):
        found = ga.make_array_from_process_local_data(sharding, data, shape)
        assert ga.tree.leaves(ga.tree.map(lambda x: x.sharding == sharding, found)) == [True] * 3
        np.testing.assert_array_equal(found["b"][1], VALUE[:4])
    for shape in ({"a": (8, 4)}, {"a": (8, 4), "b": (8, 4), "c": (8, 4)}, (8, 4)):
        with pytest.raises(ValueError, match="global_shape"):
            ga.make_array_from_process_local_data(sharding, data, shape)


def test_specs_and_devices_say_where_as_well():
    sharding = laid("x", "y")
    with ga.set_mesh(sharding.mesh):
        for x in (
            ga.make_array_from_callback((8, 4), P("x", "y"), VALUE.__getitem__),
            ga.make_array_from_single_device_arrays((8, 4), P("x", "y"), parts(sharding)),
            ga.make_array_from_process_local_data(P("x", "y"), VALUE),
        ):
            assert x.sharding == sharding
            np.testing.assert_array_equal(x, VALUE)
    device = ga.devices()[3]
    x = ga.make_array_from_process_local_data(device, VALUE)
    assert x.devices() == {device} and x.committed
    np.testing.assert_array_equal(x, VALUE)


def test_data_of_this_process():
    make = ga.make_array_from_process_local_data
    for shape in (None, (8, 4), [8, 4]):
        x = make(laid("x", "y"), VALUE, shape)
        np.testing.assert_array_equal(x, VALUE)
        assert x.sharding is laid("x", "y") and x.committed
    assert make(laid(), 3.0).weak_type
    assert make(laid("x"), gnp.asarray(VALUE)).sharding is laid("x")
    both = make(laid("x"), {"a": VALUE, "b": VALUE[:4]})
    assert both["b"].shape == (4, 4) and both["a"].sharding is laid("x")


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda make: make(laid("x"), VALUE, (16, 4)),
            ValueError,
            r"global_shape \(16, 4\), not \(8, 4\)",
        ),
        (
            lambda make: make(laid("x"), VALUE, (8,)),
            ValueError,
            r"global_shape \(8,\), not \(8, 4\)",
        ),
        (lambda make: make(laid("x"), VALUE, 8), TypeError, "`global_shape` must be a shape"),
        (lambda make: make(("x",), VALUE), TypeError, "takes a Sharding"),
        (lambda make: make(laid("x"), VALUE[:6]), ValueError, "Pad the axis to 8"),
        (lambda make: make(laid("x"), "text"), TypeError, "not a valid JAX type"),
    ],
)
def test_misuse_of_local_data(call, error, words):
    with pytest.raises(error, match=words):
        call(ga.make_array_from_process_local_data)
