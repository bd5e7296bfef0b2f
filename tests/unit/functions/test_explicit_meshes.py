"""Values of another mesh than the one in context, and layouts that vmap and convolutions refuse."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.errors import ShardingTypeError
from gpuarray.sharding import AxisType, Mesh, NamedSharding, use_abstract_mesh
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

EXPLICIT, AUTO = AxisType.Explicit, AxisType.Auto
X = np.arange(64.0, dtype=np.float32).reshape(8, 8)


@pytest.fixture
def mesh():
    found: Any = Mesh(np.array(ga.devices()[:4]).reshape(2, 2), ("x", "y"), (EXPLICIT,) * 2)
    with ga.set_mesh(found):
        yield found


def test_what_is_handed_on_stays_over_its_own_mesh(mesh):
    other = Mesh(mesh.devices, mesh.axis_names, (AUTO, AUTO))
    a = ga.device_put(X, NamedSharding(mesh, P("x")))
    b = ga.device_put(X, NamedSharding(other, P("y")))
    out = ga.jit(lambda a, b: (a, b, a + 1))(a, b)
    assert [o.sharding.mesh.axis_types for o in out] == [
        (EXPLICIT,) * 2,
        (AUTO,) * 2,
        (EXPLICIT,) * 2,
    ]
    assert out[1].sharding == b.sharding
    assert ga.jit(lambda a: ga.device_put(a, b.sharding))(a).sharding == b.sharding
    for got, want in zip(out, (X, X, X + 1), strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_is_laid_under_other_types_of_axes_lies_over_that_mesh(mesh):
    types = mesh.abstract_mesh.update_axis_types({"x": AUTO, "y": AUTO})

    def under(lay):
        def f(v):
            with use_abstract_mesh(types):
                return lay(v)

        return ga.jit(f)(ga.device_put(X, P("x")))

    auto = Mesh(mesh.devices, ("x", "y"), (AUTO, AUTO))
    out = under(lambda v: lax.with_sharding_constraint(v, P("y")))
    assert out.sharding == NamedSharding(auto, P("y"))
    out = under(lambda v: ga.reshard(v, P(None, None)))
    assert out.sharding.is_fully_replicated and out.sharding.mesh == auto
    np.testing.assert_array_equal(out, X)


@pytest.mark.parametrize("spec", [P("x"), P("y", "x")])
def test_types_of_axes_that_are_the_compilers_in_context_are_refused(mesh, spec):
    types = mesh.abstract_mesh.update_axis_types({"x": AUTO})

    @ga.jit
    def f(v):
        with use_abstract_mesh(types):
            return v * 2

    a = ga.device_put(X, spec)
    with pytest.raises(
        ValueError, match="For primitive mul, context mesh .* aval mesh .* of type Auto"
    ):
        f(a)
    np.testing.assert_array_equal(f(ga.device_put(X, P(None, "y"))), 2 * X)


def test_structs_over_a_mesh_of_another_size_are_refused(mesh):
    one = ga.sharding.AbstractMesh((1,), ("x",), (EXPLICIT,))
    struct = ga.ShapeDtypeStruct((8, 8), np.float32, sharding=NamedSharding(one, P("x")))
    with pytest.raises(ValueError, match="For primitive mul, context mesh .* 'x' is 2 long in"):
        ga.jit(lambda v: v * 2).trace(struct)
    fits = ga.ShapeDtypeStruct((8, 8), np.float32, sharding=NamedSharding(mesh, P("x")))
    assert ga.jit(lambda v: v * 2).trace(fits).out_info.sharding.spec == P("x", None)


def test_what_vmap_does_not_map_lies_along_other_axes(mesh):
    a, b = ga.device_put(X, P(None, "y")), ga.device_put(X, P(("x", "y")))
    for how in (lambda f: f, ga.jit):
        with pytest.raises(ValueError, match=r"Unmapped values .* f32\[8,8@y\] .* along 'y' too"):
            how(ga.vmap(lambda a, b: a @ b, (None, 0)))(a, b)
        got = how(ga.vmap(lambda a, b: a @ b, (None, 0)))(ga.reshard(a, P()), b)
        np.testing.assert_allclose(got, X @ X.T, rtol=1e-5)


def test_features_of_a_convolution_are_gathered_by_the_user(mesh):
    images, kernel = np.ones((4, 6, 8), np.float32), gnp.ones((3, 8, 2))
    conv = lambda v, **options: lax.conv_general_dilated(
        v, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), **options
    )
    want = np.asarray(conv(gnp.asarray(images)))
    cut = ga.device_put(images, P("x", None, "y"))
    for how in (lambda f: f, ga.jit):
        with pytest.raises(ShardingTypeError, match="features that it sums over"):
            how(conv)(cut)
        got = how(lambda v: conv(v, out_sharding=P("x")))(cut)
        np.testing.assert_allclose(got, want)
        assert got.sharding.spec == P("x", None, None)
        np.testing.assert_allclose(how(conv)(ga.reshard(cut, P("x"))), want)


# What JAX 0.10.2 says of a mesh of 1 x 1 devices.
@pytest.mark.parametrize(
    "fun, wanted",
    [
        (lambda x: x * 2, "f32[8@x,4@y]"),
        (lambda x: x[0], "f32[4@y]"),
        (lambda x: x[1, 1], "f32[]"),
        (lambda x: x[:, 1], "f32[8@x]"),
        (lambda x: x.sum(0), "f32[4@y]"),
        (lambda x: x.T, "f32[4@y,8@x]"),
        (lambda x: x.reshape(-1), "f32[32@(x,y)]"),
        (lambda x: x.reshape(4, 2, 4), "f32[4@x,2,4@y]"),
        (lambda x: gnp.stack([x, x]), "f32[2,8@x,4@y]"),
        (lambda x: x @ x.T, "Contracting dimensions are sharded"),
        (lambda x: gnp.sort(x, 0), "unsharded over the sorting dimension"),
        (lambda x: gnp.cumsum(x, 0), "unsharded over the axis being reduced"),
        (lambda x: ga.reshard(x, P(None, "x")), "f32[8,4@x]"),
        (lambda x: gnp.zeros((4, 2), out_sharding=P("x")), "f32[4@x,2]"),
        (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], ga.reshard(x, P(None, "y")))[1],
         "f32[8,4@y]"),
        (ga.grad(lambda x: (x**2).sum()), "f32[8@x,4@y]"),
        (ga.vmap(lambda r: r * 2), "f32[8@x,4@y]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("jitted", [False, True])
def test_types_speak_of_a_mesh_of_one_device(fun, wanted, jitted):
    one = Mesh(np.array(ga.devices()[3:4]).reshape(1, 1), ("x", "y"), (EXPLICIT,) * 2)
    with ga.set_mesh(one):
        x = ga.device_put(X[:, :4], P("x", "y"))
        run = ga.jit(fun) if jitted else fun
        if "f32" not in wanted:
            with pytest.raises(ShardingTypeError, match=wanted):
                run(x)
            return
        found = run(x)
        assert found.aval.str_short(True) == wanted and found.devices() == {ga.devices()[3]}
        assert found.sharding.mesh == one and found.addressable_shards[0].data.shape == found.shape
        with ga.remove_size_one_mesh_axis_from_type(True):
            y = ga.device_put(X[:, :4], P("x", "y"))
            assert y.aval.layout is None


def test_gradients_lie_over_a_mesh_that_is_in_no_context():
    for devices in (ga.devices()[3:4], ga.devices()[4:6]):
        a = Mesh(np.array(devices), "x", (EXPLICIT,))
        x = ga.device_put(X, NamedSharding(a, P("x")))
        value, found = ga.value_and_grad(lambda v: gnp.sin(v).sum())(x)
        assert found.sharding == NamedSharding(a, P("x", None)) and value.sharding.mesh == a
        np.testing.assert_allclose(found, np.cos(X), rtol=1e-5, atol=1e-6)


def test_structs_tell_the_mesh_of_what_is_whole(mesh):
    a = ga.device_put(X, P("x"))
    # What JAX 0.10.2 answers.
    told = {
        P(): ga.eval_shape(gnp.sum, a),
        P(None): ga.eval_shape(lambda x: x * 2, np.ones(3)),
        P("x", None): ga.jit(lambda x: x * 2).trace(a).out_info,
        P(None, None): ga.jit(lambda x: x.T @ x).eval_shape(gnp.ones((2, 2))),
    }
    for spec, struct in told.items():
        assert struct.sharding == NamedSharding(mesh.abstract_mesh, spec)
        assert gnp.zeros_like(struct).sharding == NamedSharding(mesh, spec)
        assert ga.jit(gnp.sin).lower(struct).compile()(gnp.zeros_like(struct)).sharding.spec == spec
    # Where a compiler decides, there is nothing to tell.
    autos = Mesh(mesh.devices, mesh.axis_names, (EXPLICIT, AUTO))
    with ga.set_mesh(autos):
        assert ga.eval_shape(gnp.sum, gnp.ones(4)).sharding is None


def test_an_abstract_mesh_keeps_the_kind_of_memory(mesh):
    pinned = NamedSharding(mesh.abstract_mesh, P("x"), memory_kind="pinned_host")
    for found in (
        gnp.zeros(8, out_sharding=pinned),
        ga.reshard(gnp.zeros(8), pinned),
        ga.jit(gnp.sin, out_shardings=pinned)(gnp.zeros(8)),
    ):
        assert found.sharding == NamedSharding(mesh, P("x"), memory_kind="pinned_host")


@pytest.mark.parametrize("kind", [EXPLICIT, AUTO])
@pytest.mark.parametrize("count", [1, 8])
def test_every_call_in_the_context_of_a_mesh_lies_over_it(count, kind):
    over: Any = Mesh(np.array(ga.devices()[-count:]), "x", (kind,))
    f = ga.jit(lambda v: v * 2)
    # Where types say how a value lies, they name every axis of it.
    cut, whole = (P("x", None), P(None, None)) if kind is EXPLICIT else (P("x"), P())
    with ga.set_mesh(over):
        placed, made = ga.device_put(X, P("x")), gnp.ones(X.shape)
        for _ in range(3):
            assert f(placed).sharding == NamedSharding(over, cut)
            assert f(X).sharding == f(made).sharding == NamedSharding(over, whole)
            np.testing.assert_array_equal(f(placed), 2 * X)
    # Outside of it, what nobody placed is on one device.
    for _ in range(3):
        assert f(gnp.asarray(X)).sharding.num_devices == 1


@pytest.mark.parametrize("kind", [EXPLICIT, AUTO])
@pytest.mark.parametrize("count", [1, 8])
def test_what_nobody_placed_lies_over_the_mesh_in_context_whatever_transforms_it(count, kind):
    def double(v):
        return v * 2

    over: Any = Mesh(np.array(ga.devices()[-count:]), "x", (kind,))
    x, one = X[0], ga.devices()[0]
    before = gnp.asarray(x)  # on one device
    with ga.set_mesh(over):
        for v in (x, before):
            for f in (double, ga.jit(double)):
                found = (
                    *ga.jvp(f, (v,), (v,)),
                    ga.vjp(f, v)[1](v)[0],
                    ga.linearize(f, v)[1](v),
                    ga.vmap(f)(v),
                    lax.fori_loop(0, 1, lambda _, v, f=f: f(v), v),
                    lax.scan(lambda c, v, f=f: (c, f(v)), 0.0, v)[1],
                    before * 2,
                )
                assert {y.sharding.mesh for y in found} == {over}
                for y in found:
                    np.testing.assert_array_equal(y, 2 * x)
        # Where somebody asks for a device, it is that one.
        with ga.default_device(one):
            there = before * 2
        for y in (there, ga.device_put(before, one) * 2):
            assert y.devices() == {one} and not isinstance(y.sharding, NamedSharding)
    assert not isinstance((before * 2).sharding, NamedSharding)
