"""Exported programs over meshes: shardings and meshes travel, devices do not."""

import json

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import export, lax
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

VALUES = np.arange(16, dtype="float32").reshape(8, 2)


def mesh():
    return ga.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def rows():
    return NamedSharding(mesh(), P("x"))


def blocks():
    return NamedSharding(mesh(), P("x", "y"))


def argument():
    return ga.ShapeDtypeStruct((8, 2), "float32", sharding=rows())


def laid(sharding=None):
    return ga.device_put(VALUES, sharding or rows())


def there_and_back(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


def product(x):
    return gnp.sin(x) @ x.T


def test_shardings_of_the_options_travel():
    made = export.export(ga.jit(product, in_shardings=rows(), out_shardings=blocks()))(VALUES)
    for exported in (made, there_and_back(made)):
        assert exported.nr_devices == 8
        assert exported.in_shardings_jax(mesh()) == (rows(),)
        assert exported.out_shardings_jax(mesh()) == (blocks(),)
        result = exported.call(laid())
        assert result.sharding == blocks()
        np.testing.assert_allclose(result, product(VALUES), rtol=1e-5, atol=1e-5)
        again = ga.jit(exported.call, in_shardings=rows(), out_shardings=rows())(laid())
        assert again.sharding == rows()


def test_symbolic_axes_are_cut():
    (n,) = export.symbolic_shape("n")
    f = ga.jit(product, in_shardings=rows(), out_shardings=blocks())
    made = export.export(f)(ga.ShapeDtypeStruct((4 * n, 2), "float32"))
    for exported in (made, there_and_back(made)):
        assert str(exported.in_avals[0].shape) == "(4*n, 2)"
        for length in (8, 16):
            x = np.arange(2 * length, dtype="float32").reshape(length, 2) / length
            result = exported.call(ga.device_put(x, rows()))
            assert result.sharding == blocks()
            np.testing.assert_allclose(result, product(x), rtol=1e-5, atol=1e-5)
    # Four pieces of n elements need an n that is a multiple of 4.
    with pytest.raises(ValueError, match=r"partitioned 4 times, but the dimension size is n "):
        export.export(f)(ga.ShapeDtypeStruct((n, 2), "float32"))


def test_devices_are_those_of_the_arguments():
    exported = there_and_back(
        export.export(ga.jit(product, in_shardings=rows(), out_shardings=blocks()))(VALUES)
    )
    other = Mesh(np.array(ga.devices())[::-1].reshape(4, 2), ("a", "b"))
    result = exported.call(laid(NamedSharding(other, P("a"))))
    assert result.sharding == NamedSharding(other, P("a", "b"))
    np.testing.assert_allclose(result, product(VALUES), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 4])
def test_another_number_of_devices_is_refused(count):
    exported = export.export(ga.jit(product, in_shardings=rows()))(VALUES)
    given = VALUES
    if count > 1:
        given = laid(NamedSharding(Mesh(np.array(ga.devices())[:count], ("a",)), P("a")))
    with pytest.raises(ValueError, match=f"8 devices and is called in a context with {count} dev"):
        exported.call(given)


def test_a_program_for_one_device_takes_arrays_over_several():
    exported = there_and_back(export.export(ga.jit(product))(VALUES))
    assert exported.nr_devices == 1
    np.testing.assert_allclose(exported.call(laid()), product(VALUES), rtol=1e-5, atol=1e-5)


def test_shard_map_and_constraints_travel():
    summed = ga.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh(), in_specs=P("x"), out_specs=P())
    exported = there_and_back(export.export(ga.jit(summed))(argument()))
    assert exported.nr_devices == 8
    np.testing.assert_array_equal(exported.call(laid()), VALUES.reshape(4, 2, 2).sum(0))
    total = ga.jit(lambda x: lax.with_sharding_constraint(x * 2, rows()).sum())
    exported = there_and_back(export.export(total)(argument()), vjp_order=1)
    assert exported.call(laid()) == 2 * VALUES.sum()
    slope = ga.grad(exported.call)(laid())
    assert slope.sharding == rows() and slope.tolist() == np.full((8, 2), 2.0).tolist()


def test_pmap_travels():
    mapped = ga.pmap(lambda x: x + lax.axis_index("i") + lax.psum(x, "i"), axis_name="i")
    exported = there_and_back(export.export(ga.jit(mapped))(np.arange(8.0, dtype="float32")))
    given = ga.device_put(np.arange(8.0), NamedSharding(Mesh(np.array(ga.devices()), "i"), P("i")))
    np.testing.assert_array_equal(exported.call(given), 2 * np.arange(8) + 28)


def test_types_of_explicit_axes_travel():
    explicit = ga.make_mesh((4, 2), ("x", "y"))
    with ga.set_mesh(explicit):
        x = ga.device_put(VALUES, P("x"))
        exported = there_and_back(export.export(ga.jit(lambda x: gnp.sin(x) * 2))(x))
        assert str(exported.out_avals) == "(ShapedArray(float32[8@x,2]),)"
        result = exported.call(x)
    assert result.sharding == NamedSharding(explicit, P("x", None))
    np.testing.assert_allclose(result, 2 * np.sin(VALUES), rtol=1e-6)


def test_memories_travel():
    pinned = rows().with_memory_kind("pinned_host")
    made = export.export(ga.jit(lambda x: x + 1, out_shardings=pinned))(argument())
    assert there_and_back(made).call(laid()).sharding == pinned


@pytest.mark.parametrize(
    "path, value",
    [
        ((0, 0, "laid", "tuple", 0), 0),
        ((0, 0, "laid", "tuple", 0), "8"),
        ((0, 0, "laid", "tuple", 1, "tuple", 0), 5),
        ((0, 0, "laid", "tuple", 1, "tuple"), []),
        ((0, 0, "laid", "tuple", 1, "tuple", 0, "sharding", 0, "mesh", 0, "tuple", 0), 3),
        ((0, 0, "laid", "tuple", 1, "tuple", 0, "sharding", 1, "spec", 0, "tuple", 0), "z"),
        ((0, 0, "laid", "tuple", 1, "tuple", 0, "sharding", 2), "hbm"),
        ((0, 0, "laid", "tuple", 1, "tuple", 0), {"sharding": [1, 2, 3]}),
    ],
)
def test_malformed_layouts_are_refused(path, value, monkeypatch):
    dumps = json.dumps

    def changed(data, **options):
        inner = data
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return dumps(data, **options)

    monkeypatch.setattr(json, "dumps", changed)
    data = export.export(ga.jit(product, in_shardings=rows()))(VALUES).serialize()
    with pytest.raises(ValueError, match="malformed"):
        export.deserialize(data)
