"""shard_map beside other maps: axes that are taken already, and what tangents may vary along."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

X = np.arange(16.0, dtype=np.float32).reshape(4, 4)


def mesh_of(kind=AxisType.Auto) -> Any:
    return Mesh(np.array(ga.devices()[:4]).reshape(2, 2), ("x", "y"), (kind,) * 2)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


# ---- inside of another shard_map ----


@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P()])
def test_an_axis_cannot_be_manual_twice(spec):
    mesh = mesh_of()
    again = lambda v: ga.shard_map(lambda v: v, mesh=mesh, in_specs=spec, out_specs=spec)(v)
    outer = ga.shard_map(
        again, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    with pytest.raises(ValueError, match="context mesh .* should match .* 'x' is manual already"):
        ga.jit(outer)(X)


def test_the_other_axes_of_the_same_mesh_may_be():
    mesh = mesh_of()
    inner = lambda v: ga.shard_map(
        lambda v: lax.psum(v, "y"), mesh=mesh, in_specs=P(None, "y"), out_specs=P(),
        axis_names={"y"},
    )(v)  # fmt: skip
    outer = ga.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    close(ga.jit(outer)(X), X[:, :2] + X[:, 2:])


# ---- under a vmap whose axis is cut ----


def mapped(body, in_specs, out_specs, kind=AxisType.Explicit, **options):
    """Map over rows, which lie along x; the elements of a row along y."""
    mesh = mesh_of(kind)
    with ga.set_mesh(mesh):
        x = ga.device_put(X, NamedSharding(mesh, P("x", "y")))
        f = ga.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        return ga.jit(ga.vmap(f, **options))(x)


MIXES = {
    "psum": (lambda v: lax.psum(v, "x"), P("y"), P("y")),
    "axis_index": (lambda v: v + lax.axis_index("x"), P("y"), P(("y", "x"))),
    "in a loop": (
        lambda v: lax.fori_loop(0, 2, lambda i, v: lax.psum(v, "x"), v), P("y"), P("y"),
    ),
    "in_specs": (lambda v: v, P("x"), P("x")),
    "out_specs": (lambda v: v, P("y"), P(("y", "x"))),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXES)
def test_elements_of_a_vmap_are_not_mixed(name):
    with pytest.raises(ValueError, match="jax.shard_map requires axis_names=.* to be a subset of"):
        mapped(*MIXES[name])
    # Where nothing cuts the mapped axis, each row has all devices.
    body, *specs = MIXES[name]
    got = mapped(body, *specs, kind=AxisType.Auto)
    f = ga.shard_map(body, mesh=mesh_of(), in_specs=specs[0], out_specs=specs[1])
    close(got, np.stack([f(row) for row in X]))


def test_nor_those_that_spmd_axis_name_cuts():
    with pytest.raises(ValueError, match="cut along 'x', so a device has only its own elements"):
        mapped(lambda v: lax.psum(v, "x"), P("y"), P("y"), AxisType.Auto, spmd_axis_name="x")


@pytest.mark.parametrize("check_vma", [True, False])
def test_each_element_of_a_cut_vmap_has_its_own_cotangent(check_vma):
    mesh = mesh_of(AxisType.Explicit)
    f = ga.shard_map(
        lambda v: 3 * v, mesh=mesh, in_specs=P("y"), out_specs=P("y"), check_vma=check_vma
    )
    with ga.set_mesh(mesh):
        v, ct = ga.device_put(np.ones(4, np.float32), P()), ga.device_put(X, P("x", "y"))
        got = ga.jit(ga.vmap(lambda v, ct: ga.vjp(f, v)[1](ct)[0], (None, 0)))(v, ct)
        close(got, 3 * X)
        assert got.sharding.spec == P("x", None)  # as `v` lies, but for the mapped axis


# ---- types of tangents and cotangents ----

CUBE = lambda p: p**3
MORE = {
    "linearize": (
        lambda p, v: ga.linearize(CUBE, p)[1](v), ValueError, "to the primal value passed",
    ),
    "vjp": (lambda p, v: ga.vjp(CUBE, p)[1](v)[0], ValueError, "to the output of the function"),
    "vjp of a sum": (
        lambda p, v: ga.vjp(lambda v: lax.psum(v * p, "x"), v)[1](v)[0], ValueError, "cotangent",
    ),
    "linear_transpose": (
        lambda p, v: ga.linear_transpose(lambda p: 2 * p, p)(v)[0], TypeError, "to the output",
    ),
}  # fmt: skip


def over_x(f):
    p, v = np.full(1, 3, np.float32), np.array([1, 10], np.float32)
    mesh = mesh_of()
    return ga.shard_map(f, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))(p, v)


@pytest.mark.parametrize("name", MORE)
def test_what_all_devices_have_alike_has_one_derivative(name):
    f, error, words = MORE[name]
    with pytest.raises(error, match=rf"pcast\(\.\.\., \('x',\), to='varying'\)` {words}|{words}"):
        over_x(f)


def test_with_a_cast_the_derivatives_are_those_of_each_device():
    cast = lambda p: lax.pcast(p, "x", to="varying")
    want = 27 * np.array([1, 10], np.float32)
    for primal in (cast, lambda p: p):  # a derivative along v is that of each device
        close(over_x(lambda p, v, primal=primal: ga.jvp(CUBE, (primal(p),), (v,))[1]), want)
    close(over_x(lambda p, v: ga.linearize(CUBE, cast(p))[1](v)), want)
    close(over_x(lambda p, v: ga.vjp(CUBE, cast(p))[1](v)[0]), want)


def test_rules_of_users_get_cotangents_of_the_type_of_their_results():
    h = lambda x: gnp.sin(x) * x
    f = ga.custom_vjp(h)
    f.defvjp(lambda x: (h(x), x), lambda x, ct: ga.vjp(h, x)[1](ct))
    of = lambda f: over_x(lambda p, v: ga.grad(lambda p: lax.psum((f(p) * v).sum(), "x"))(p))
    close(of(f), of(h))
