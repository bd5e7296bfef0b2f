"""Eager operations over several devices wait for one another, and run as one program."""

import gc
import weakref

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.mesh import AxisType
from gpuarray.errors import DeletedBufferError
from gpuarray.runtime import recording, spread
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

VALUE = np.random.default_rng(0).normal(size=(256, 512)).astype(np.float32)


def mesh_of(shape=(4, 2), names=("x", "y"), types=None):
    return Mesh(np.array(ga.devices()[:8]).reshape(shape), names, types)


def laid(*spec, value=VALUE, mesh=None):
    return ga.device_put(value, NamedSharding(mesh or mesh_of(), P(*spec)))


@pytest.fixture
def teams(monkeypatch):
    """The programs of recorded operations, as they run."""
    found = []
    made = spread._filled

    def noted(executable, team, *rest):
        found.append(team)
        return made(executable, team, *rest)

    monkeypatch.setattr(spread, "_filled", noted)
    return found


def is_recorded(x) -> bool:
    return type(x._work) is recording.Node


def test_a_chain_is_one_kernel(teams):
    x = laid("x", "y")
    y = gnp.sin(x) * 2 + x
    z = gnp.where(y > 0, y, -y)
    assert is_recorded(y) and is_recorded(z) and not teams
    del y
    np.testing.assert_allclose(z, np.abs(np.sin(VALUE) * 2 + VALUE), rtol=1e-6)
    (team,) = teams
    assert len(team.plan.steps) == 1 and len(team.plan.graph.outvars) == 1
    # As on one device.
    one = ga.explain(lambda x: gnp.where(gnp.sin(x) * 2 + x > 0, gnp.sin(x) * 2 + x, 0))(VALUE)
    assert len(one.kernels) == 1


def test_only_what_is_still_referred_to_is_a_result(teams):
    x = laid("x")
    kept = [x + i for i in range(3)]
    total = kept[0] * kept[1] - kept[2]
    last = weakref.ref(kept.pop())
    gc.collect()
    assert last() is None
    np.testing.assert_allclose(total, VALUE * (VALUE + 1) - (VALUE + 2), rtol=1e-5, atol=1e-5)
    assert len(teams) == 1 and len(teams[0].plan.graph.outvars) == 3
    np.testing.assert_array_equal(kept[1], VALUE + 1)
    assert len(teams) == 1  # it is there


def test_where_a_result_lies_is_known_before_it_is_computed(teams):
    x = laid("x", "y")
    total, column, turned = x.sum(0), x[:, :1] * 2, (x @ x.T)
    assert total.sharding == NamedSharding(mesh_of(), P("y"))
    assert column.sharding.spec == P("x") and turned.sharding.spec == P("x")
    assert not teams
    # Whatever reads it in the same program.
    both = (x - total).T
    assert both.sharding.spec == P("y", "x") and not teams
    np.testing.assert_allclose(both, (VALUE - VALUE.sum(0)).T, rtol=1e-4, atol=1e-4)
    assert [a.sharding.spec for a in (total, column, turned)] == [P("y"), P("x"), P("x")]
    for a in (total, column, turned, both):
        for shard in a.addressable_shards:
            np.testing.assert_array_equal(shard.data, np.asarray(a)[shard.index])


def test_sums_are_taken_where_they_were_asked_for(teams):
    x = laid("x")
    y = x.sum(0) * 3
    np.testing.assert_allclose(y, VALUE.sum(0) * 3, rtol=1e-4, atol=1e-4)
    (team,) = teams
    (psum,) = [e for e in team.plan.graph.eqns if e.primitive.name == "psum"]
    assert psum.invars[0].aval.shape == (512,)


def test_small_arrays_are_computed_at_once(teams):
    y = laid("x", value=VALUE[:8]) + 1
    assert y._work is None and len(teams) == 1
    # But for what needs something recorded.
    z = laid("x")[:8] * 2
    assert is_recorded(z + y)


def test_without_fusion_and_while_debugging_nothing_waits(teams):
    x = laid("x")
    with ga.fusion(False):
        assert (x + 1)._work is None
    with ga.debug_nans(True):
        assert (x + 1)._work is None
        with pytest.raises(FloatingPointError, match="nan"):
            gnp.log(x)


def test_arguments_that_are_deleted_meanwhile():
    x = laid("x")
    y = x * 2
    x.delete()
    np.testing.assert_array_equal(y, VALUE * 2)
    with pytest.raises(DeletedBufferError):
        _ = x + 1


def test_donated_arguments():
    x = laid("x")
    y = x * 2
    z = ga.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, VALUE * 2)
    np.testing.assert_array_equal(z, VALUE + 1)
    # A recorded array, given away.
    w = y - 1
    again = ga.jit(lambda v: v * 3, donate_argnums=0)(w)
    assert w.is_deleted()
    np.testing.assert_array_equal(again, (VALUE * 2 - 1) * 3)


def test_recorded_arrays_go_everywhere(teams):
    x = laid("x", "y")
    y = gnp.cos(x) + 1
    assert is_recorded(y)
    wanted = np.cos(VALUE) + 1
    np.testing.assert_allclose(ga.jit(lambda v: v.T)(y), wanted.T, rtol=1e-6)
    y = gnp.cos(x) + 1
    moved = ga.device_put(y, NamedSharding(mesh_of(), P("y", "x")))
    np.testing.assert_allclose(moved, wanted, rtol=1e-6)
    y = gnp.cos(x) + 1
    f = ga.shard_map(lambda v: v * 2, mesh=mesh_of(), in_specs=P("x", "y"), out_specs=P("x", "y"))
    np.testing.assert_allclose(f(y), wanted * 2, rtol=1e-6)
    y = gnp.cos(x) + 1
    assert [s.data.shape for s in y.addressable_shards] == [(64, 256)] * 8
    y = gnp.cos(x) + 1
    slope = ga.grad(lambda v: (v * v).sum())(y)
    assert slope.sharding.spec == P("x", "y")
    np.testing.assert_allclose(slope, 2 * wanted, rtol=1e-6)
    y = gnp.cos(x) + 1
    assert gnp.cos(x).block_until_ready()._work is None


def test_arrays_on_one_device_take_part(teams):
    one = gnp.asarray(VALUE) + 1  # recorded, and on one device
    assert is_recorded(one)
    y = laid("x") * one - gnp.float32(3)
    np.testing.assert_allclose(y, VALUE * (VALUE + 1) - 3, rtol=1e-6)
    with pytest.raises(ValueError, match="incompatible devices"):
        _ = laid("x") + ga.device_put(VALUE, ga.devices()[1])


def test_two_meshes_over_the_same_devices(teams):
    x, y = laid("x", "y"), laid("z", mesh=mesh_of((8,), ("z",)))
    total = gnp.sin(x) + gnp.sin(y) * 2
    np.testing.assert_allclose(total, np.sin(VALUE) * 3, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("types", [(AxisType.Explicit,) * 2, (AxisType.Explicit, AxisType.Auto)])
def test_explicit_axes(types, teams):
    mesh = mesh_of(types=types)
    x = laid("x", "y", mesh=mesh)
    y = (gnp.sin(x) * 2).T
    assert ga.typeof(y).sharding.spec == P(None if types[1] is AxisType.Auto else "y", "x")
    assert is_recorded(y)
    with pytest.raises(ga.errors.ShardingTypeError):
        _ = y @ x.T.T
    np.testing.assert_allclose(y, (np.sin(VALUE) * 2).T, rtol=1e-6)
    assert y.sharding == NamedSharding(mesh, P("y", "x"))


def test_the_mesh_in_context_may_change_before_they_run():
    x = laid("x")
    with ga.set_mesh(mesh_of()):
        y = x + 1
    with ga.set_mesh(mesh_of((2, 4), ("a", "b"))):
        z = y * 2
        w = np.asarray(z)
    np.testing.assert_array_equal(w, (VALUE + 1) * 2)
    assert y.sharding == z.sharding == NamedSharding(mesh_of(), P("x"))


def test_a_failure_touches_what_needs_it_and_nothing_else():
    def refuse(v):
        raise ValueError("no")

    x = laid("x")
    good = x + 1
    bad = ga.pure_callback(refuse, ga.ShapeDtypeStruct(VALUE.shape, VALUE.dtype), x) * 2
    also = good * 2
    with pytest.raises(Exception, match="no"):
        np.asarray(bad)
    np.testing.assert_array_equal(good, VALUE + 1)
    np.testing.assert_array_equal(also, (VALUE + 1) * 2)
    with pytest.raises(Exception, match="no"):
        np.asarray(bad)


def test_many_operations_are_dispatched_in_parts(teams):
    x = laid("x")
    y = x
    for _ in range(2 * recording.FLUSH_AT + 10):
        y = y + 1
    np.testing.assert_allclose(y, VALUE + 2 * recording.FLUSH_AT + 10, rtol=1e-3)
    assert 1 < len(teams) <= 4


def test_a_loop_of_the_same_operations_compiles_once(teams):
    x = laid("x", "y")
    for _ in range(5):
        x = gnp.tanh(x * 1.5) + 0.1
        np.asarray(x)
    assert len(teams) == 5 and len({id(team) for team in teams}) == 1
