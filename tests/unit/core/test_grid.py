"""One grid of devices for meshes of several shapes, and layouts in terms of it."""

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.core.grid import Grid
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.devices import mesh_of

pytestmark = pytest.mark.devices


def test_one_mesh_gives_its_own_axes():
    mesh = mesh_of((4, 2))
    grid = Grid([mesh])
    assert grid.sizes == {"x": 4, "y": 2}
    assert grid.names(mesh, ("y", "x")) == ("y", "x")
    assert grid.spec(mesh, P(None, ("x", "y")), 3) == ((), ("x", "y"), ())
    assert (grid.size(("x", "y")), grid.size(())) == (8, 1)


def test_axes_of_length_one_cut_nothing():
    mesh = mesh_of((8, 1))
    grid = Grid([mesh])
    assert grid.sizes == {"x": 8}
    assert grid.spec(mesh, P("y", "x"), 2) == ((), ("x",))
    assert grid.sharding(((), ("x",))).spec == P(None, "x")


def test_meshes_of_other_shapes_share_finer_axes():
    a, b, c = mesh_of((4, 2)), mesh_of((8,), "n"), mesh_of((2, 4), "uv")
    grid = Grid([a, b, c])
    assert list(grid.sizes.values()) == [2, 2, 2]
    one, two, three = grid.sizes
    assert grid.names(a, ("x", "y")) == (one, two, three)
    assert grid.names(a, ("y",)) == (three,)
    assert grid.names(b, ("n",)) == (one, two, three)
    assert grid.names(c, ("v",)) == (two, three)


def test_a_layout_comes_back_as_a_sharding():
    mesh = mesh_of((4, 2))
    grid = Grid([mesh])
    for spec in (P(), P("x"), P(None, "y"), P(("x", "y")), P("y", "x")):
        sharding = NamedSharding(mesh, spec)
        laid = grid.of_sharding(sharding, 2)
        assert laid is not None
        assert grid.sharding(laid) == sharding
    assert grid.sharding(((), ())).spec == P()


def test_what_the_main_mesh_cannot_say_is_said_by_a_finer_one():
    a, c = mesh_of((4, 2)), mesh_of((2, 4), "uv")
    grid = Grid([a, c])
    # Half of the first axis of 4, and an order that no axis of the mesh has.
    for sharding in (NamedSharding(c, P("u")), NamedSharding(c, P("v", "u"))):
        laid = grid.of_sharding(sharding, 2)
        assert laid is not None
        shown = grid.sharding(laid)
        assert shown.mesh.axis_names == tuple(grid.sizes)
        assert shown.devices_indices_map((8, 8)) == sharding.devices_indices_map((8, 8))


def test_shardings_that_are_on_other_devices():
    grid = Grid([mesh_of((4, 2))])
    devices = np.array(ga.devices())
    assert grid.of_sharding(NamedSharding(mesh_of((4,), "a"), P("a")), 1) is None
    other = Mesh(devices[::-1], ("a",))
    assert grid.of_sharding(NamedSharding(other, P("a")), 1) is None
    # Whatever its axes, a mesh over the same devices says that all have everything.
    whole = NamedSharding(Mesh(devices, ("a",)), P())
    assert grid.of_sharding(whole, 2) == ((), ())


def test_meshes_that_have_nothing_in_common():
    devices = np.array(ga.devices())
    a, b = Mesh(devices[:6].reshape(2, 3), ("a", "b")), Mesh(devices[:6].reshape(3, 2), ("c", "d"))
    with pytest.raises(ValueError, match=r"\(2, 3\), \(3, 2\) over the same devices have no finer"):
        Grid([a, b])
    with pytest.raises(ValueError, match="incompatible devices"):
        Grid([a, Mesh(devices[:6][::-1], ("c",))])
