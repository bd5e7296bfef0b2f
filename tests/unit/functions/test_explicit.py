"""Meshes with Explicit axes: types, `reshard`, `auto_axes`, `explicit_axes`, and options that type.

In: arrays over a mesh of 4 x 2. Out: the types that JAX 0.10.2 gives the same programs, or its kind
of error; values are those of one device. Where JAX refuses and one answer needs no choice, there is
an answer here: these rows say so.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.config import Context
from gpuarray.errors import ShardingTypeError
from gpuarray.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    SingleDeviceSharding,
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
    reshard,
)
from gpuarray.sharding import PartitionSpec as P
from tests.support.laid import cut, types

pytestmark = pytest.mark.devices


@pytest.fixture(autouse=True)
def mesh():
    made = ga.make_mesh((4, 2), ("x", "y"))
    with ga.set_mesh(made):
        yield made


def spec(x) -> P:
    return x.sharding.spec


#: Programs, their operands, and the types of the results.
TYPED = [
    (gnp.sin, [cut, "x"], "f32[8@x,16]"),
    (lambda a, b: a + b, [cut, "x"], [cut, None], "f32[8@x,16]"),
    (lambda a, b: a + b, [cut, "x"], [cut, None, "y"], "f32[8@x,16@y]"),
    (lambda a: a + 1, [cut, "x", "y"], "f32[8@x,16@y]"),
    (lambda a: a * 2, [cut, ("x", "y")], "f32[8@(x,y),16]"),
    (lambda a, b: a @ b.T, [cut, "x"], [cut, None], "f32[8@x,8]"),
    (lambda a, b: a @ b.T, [cut, None, "y"], [cut, None], "f32[8,8]"),
    (lambda a: a.sum(0), [cut, "x", "y"], "f32[16@y]"),
    (lambda a: a.sum(), [cut, "x", "y"], "f32[]"),
    (lambda a: a.argmax(0), [cut, "x", "y"], "i32[16@y]"),
    (lambda a: gnp.cumsum(a, 1), [cut, "x"], "f32[8@x,16]"),
    (lambda a: gnp.sort(a, 1), [cut, "x"], "f32[8@x,16]"),
    (lambda a: a.T, [cut, "x", "y"], "f32[16@y,8@x]"),
    (lambda a: a.reshape(4, 2, 16), [cut, "x"], "f32[4@x,2,16]"),
    (lambda a: a.reshape(128), [cut, "x"], "f32[128@x]"),
    (lambda a: a.reshape(128), [cut, "x", "y"], "f32[128@(x,y)]"),
    (lambda a: gnp.split(a, 2, 1)[1], [cut, "x", "y"], "f32[8@x,8@y]"),
    (lambda a: gnp.split(a, 2)[0], [cut, "x", "y"], "f32[4@x,16@y]"),
    (
        lambda a: lax.reduce(a, np.float32(0), lambda u, v: u + 1 * v, (1,)),
        [cut, "x", "y"],
        "f32[8@x]",
    ),
    (lambda a: a.at[:].set(3.0), [cut, "x", "y"], "f32[8@x,16@y]"),
    (lambda a: a.at[...].mul(2.0), [cut, None, "y"], "f32[8,16@y]"),
    (lambda a: a.at[0, 0].min(-5.0), [cut, "x", "y"], "f32[8@x,16@y]"),
    (lambda a: ga.vmap(lambda v: gnp.ones(3))(a), [cut, "x"], "f32[8@x,3]"),
    (lambda a: ga.vmap(lambda v: gnp.ones(3), 1, 1)(a), [cut, "x", "y"], "f32[3,16@y]"),
    (lambda a: ga.vmap(lambda v: lax.psum(v, "i"), axis_name="i")(a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: a[:, None], [cut, "x", "y"], "f32[8@x,1,16@y]"),
    (lambda a: gnp.broadcast_to(a, (3, 8, 16)), [cut, "x", "y"], "f32[3,8@x,16@y]"),
    (lambda a: gnp.concatenate([a, a]), [cut, "x"], "f32[16@x,16]"),
    (lambda a: a[:, :8], [cut, "x"], "f32[8@x,8]"),
    (lambda a: a[:, 0], [cut, "x"], "f32[8@x]"),
    (lambda a: a[:, np.array([0, 2])], [cut, "x"], "f32[8@x,2]"),
    (lambda a: gnp.pad(a, ((4, 4), (0, 0))), [cut, "x"], "f32[16@x,16]"),
    (lambda a: a[::-1], [cut, "x"], "f32[8@x,16]"),
    (lambda a: gnp.stack([a, a]), [cut, "x"], "f32[2,8@x,16]"),
    (gnp.zeros_like, [cut, "x"], "f32[8@x,16]"),
    (ga.nn.softmax, [cut, "x"], "f32[8@x,16]"),
    (lambda a: lax.top_k(a, 2)[1], [cut, "x"], "i32[8@x,2]"),
    (lambda a: gnp.triu(a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: lax.fori_loop(0, 3, lambda i, c: c * 2, a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: lax.cond(True, gnp.sin, gnp.cos, a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: ga.jit(gnp.sin)(a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: ga.checkpoint(gnp.sin)(a), [cut, "x"], "f32[8@x,16]"),
    (ga.vmap(gnp.sin, out_axes=1), [cut, "x"], "f32[16,8@x]"),
    (lambda a, b: ga.vmap(lambda v: b @ v)(a), [cut, "x"], [cut, None], "f32[8@x,8]"),
    (ga.grad(lambda a: gnp.sum(gnp.sin(a) ** 2)), [cut, "x"], "f32[8@x,16]"),
    (ga.grad(lambda a, b: gnp.sum(gnp.sin(a @ b.T) ** 2), 1), [cut, "x"], [cut, None], "f32[8,16]"),
    (lambda a: ga.jacfwd(lambda v: v[:2] * 2)(a[0]), [cut, None, "y"], "f32[2@y,16]"),
    (lambda a: ga.jacrev(lambda v: v[:2] * 2)(a[0]), [cut, None, "y"], "f32[2,16@y]"),
    # What does not change, and what nothing depends on.
    (ga.grad(lambda a: lax.stop_gradient(a).sum()), [cut, "x", "y"], "f32[8@x,16@y]"),
    (lambda a: ga.grad(lambda a, b: b.sum())(a, a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: ga.jvp(gnp.ones_like, (a,), (a,))[1], [cut, "x"], "f32[8@x,16]"),
    (lambda a: ga.linearize(lax.stop_gradient, a)[1](a), [cut, "x"], "f32[8@x,16]"),
    (lambda a: ga.hessian(gnp.sum)(a[0]), [cut, None, "y"], "f32[16@y,16]"),
    (lambda a: ga.jvp(gnp.sin, (a,), (a,))[1], [cut, "x"], "f32[8@x,16]"),
    # With the layout of the result given.
    (lambda a: gnp.matmul(a, a.T, out_sharding=P("x", "y")), [cut, None], "f32[8@x,8@y]"),
    (
        lambda a: gnp.einsum("ij,kj->ik", a, a, out_sharding=P("x", None)),
        [cut, None, "y"],
        "f32[8@x,8]",
    ),
    (lambda a: gnp.reshape(a, 128, out_sharding=P("x")), [cut, None, "y"], "f32[128@x]"),
    (
        lambda a: a.at[np.array([0, 2, 3, 1])].get(out_sharding=P("x", None)),
        [cut, "x"],
        "f32[4@x,16]",
    ),
    (lambda a: gnp.arange(8, out_sharding=P("x")) + a[:, 0], [cut, "x"], "f32[8@x]"),
    # JAX refuses these; each has one answer.
    (lambda a, b: gnp.where(a > 0, a, b), [cut, "x"], [cut, None, "y"], "f32[8@x,16@y]"),
    (lambda a: gnp.repeat(a, 2, 0), [cut, "x"], "f32[16@x,16]"),
    (lambda a: a.at[np.array([0, 2])].add(1.0), [cut, "x"], "f32[8@x,16]"),
    (
        lambda a: lax.scan(lambda c, v: (c + v, None), gnp.zeros(16), a)[0],
        [cut, None, "y"],
        "f32[16@y]",
    ),
]


@pytest.mark.parametrize("row", range(len(TYPED)))
def test_types_follow_from_operands(row):
    fun, *given, want = TYPED[row]
    operands = [make(*named) for make, *named in given]
    alone = [gnp.asarray(np.asarray(x)) for x in operands]
    reference = np.asarray(fun(*alone))
    seen = []

    def inside(*xs):
        out = fun(*xs)
        seen.append(types(out))
        return out

    with Context("enable_checks")(True):  # the recorded program keeps the laws, too
        jitted = ga.jit(inside)(*operands)
    eager = fun(*operands)
    assert types(eager) == types(jitted) == seen[0] == [want]
    for out in (eager, jitted):
        np.testing.assert_allclose(np.asarray(out), reference, rtol=1e-5, atol=1e-5)


#: Programs whose results do not follow, and what the error says.
UNCLEAR = [
    (lambda a, b: a + b, ["x"], ["y"], "incompatible shardings.*'x', None.*'y', None.*reshard"),
    (lambda a, b: a @ b.T, ["x"], ["x"], "illegally sharded"),
    (lambda a, b: a @ b.T, [None, "y"], [None, "y"], "Contracting dimensions are sharded"),
    (lambda a, b: gnp.cumsum(a), [None, "y"], [], "fully replicated.*reshard"),
    (lambda a, b: gnp.cumsum(a, 0), ["x"], [], "should be unsharded over.*reshard"),
    (lambda a, b: gnp.sort(a, 0), ["x"], [], "unsharded over"),
    (lambda a, b: a.reshape(2, 4, 16), ["x"], [], "This reshape is not supported.*out_sharding"),
    (lambda a, b: a.reshape(128), [None, "y"], [], "This reshape is not supported"),
    (lambda a, b: a[:3], ["x"], [], r"out dim \(3\) is not divisible by mesh axes \(4\)"),
    (lambda a, b: lax.scan(lambda c, v: (c, v), 0.0, a), ["x"], [], "0th dimension of all xs"),
    (
        lambda a, b: lax.fori_loop(0, 2, lambda i, c: c + b, a),
        ["x"],
        ["y"],
        "incompatible shardings",
    ),
]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("row", range(len(UNCLEAR)))
def test_what_does_not_follow_is_an_error(row, jitted):
    fun, first, second, words = UNCLEAR[row]
    fun(cut(None), cut(None))  # it is right where nothing is cut
    with pytest.raises(ShardingTypeError, match=f"(?s){words}"):
        (ga.jit(fun) if jitted else fun)(cut(*first), cut(*second))


def test_the_same_error_at_every_call_and_the_cache_does_not_forget_it():
    a, b = cut("x"), cut("y")
    # A program derived from a user's may do what the user may not.
    ga.grad(lambda v: gnp.sum(v @ cut(None, "y", shape=(16, 4))))(a)
    for _ in range(3):
        with pytest.raises(ShardingTypeError):
            a + b


def test_derivatives_lie_as_what_they_belong_to():
    w, x = cut(None, "y", shape=(16, 4)), cut("x")

    def loss(w, x):
        return gnp.mean(gnp.tanh(x @ w / 100) ** 2)

    for how in (lambda f: f, ga.jit):
        slopes = how(ga.grad(loss, (0, 1)))(w, x)
        assert types(slopes) == ["f32[16,4@y]", "f32[8@x,16]"]
        with ga.set_mesh(None):
            want = ga.grad(loss, (0, 1))(gnp.asarray(np.asarray(w)), gnp.asarray(np.asarray(x)))
        for found, right in zip(slopes, want, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(right), rtol=1e-4, atol=1e-7)
    # Second derivatives, and through a loop.
    v = cut("x", shape=(8,))
    assert types(ga.jacfwd(gnp.sin)(v)) == ["f32[8@x,8]"]
    assert types(ga.jacrev(gnp.sin)(v)) == ["f32[8,8@x]"]
    over = lambda v: lax.scan(lambda c, _: (gnp.sin(c) * v, None), v, length=3)[0].sum()
    assert types(ga.grad(over)(v)) == types(ga.jit(ga.grad(over))(v)) == ["f32[8@x]"]


def test_typeof_and_printed_graphs():
    a = cut("x")
    assert str(ga.typeof(a)) == "float32[8@x,16]"
    assert spec(ga.typeof(a)) == P("x", None)
    assert ga.typeof(a).sharding.mesh is get_abstract_mesh()
    assert spec(ga.typeof(gnp.ones(3))) == P(None)
    text = str(ga.make_jaxpr(lambda v: reshard(gnp.sin(v), P(None, "y")))(a))
    assert "b:f32[8@x,16] = sin a" in text and "c:f32[8,16@y] = reshard b" in text
    shape = ga.eval_shape(gnp.sin, a)
    assert spec(shape) == P("x", None)
    laid = ga.ShapeDtypeStruct((8, 4), gnp.float32, sharding=P("x"))
    assert "f32[8@x,4] = sin" in str(ga.make_jaxpr(gnp.sin)(laid))


# ---- reshard ----


@pytest.mark.parametrize("to", [P("y"), P(None, "x"), P("x", "y"), P(("y", "x")), P()])
def test_reshard(to, mesh):
    a = cut("x")
    for found in (reshard(a, to), ga.jit(lambda v: reshard(v, to))(a), ga.reshard(a, to)):
        padded = P(*to.partitions, *[None] * (2 - len(to.partitions)))
        assert spec(ga.typeof(found)) == padded
        np.testing.assert_array_equal(np.asarray(found), np.asarray(a))
        assert found.sharding.is_equivalent_to(NamedSharding(mesh, to), 2)
    # Its derivative is laid as the operand.
    slope = ga.grad(lambda v: (reshard(v, to) ** 2).sum())(a)
    assert types(slope) == ["f32[8@x,16]"]
    np.testing.assert_array_equal(np.asarray(slope), 2 * np.asarray(a))


def test_reshard_takes_pytrees_and_prefixes():
    tree = {"a": cut("x"), "b": [cut(None), np.ones((8, 2), np.float32)]}
    assert types(reshard(tree, P("y"))) == ["f32[8@y,16]", "f32[8@y,16]", "f32[8@y,2]"]
    found = reshard(tree, {"a": P("y"), "b": P(None, "y")})
    assert types(found) == ["f32[8@y,16]", "f32[8,16@y]", "f32[8,2@y]"]


def test_reshard_under_vmap_leaves_the_batch_where_it_is():
    fun = ga.vmap(lambda v: reshard(v, P("y")))
    assert types(fun(cut("x"))) == types(ga.jit(fun)(cut("x"))) == ["f32[8@x,16@y]"]


@pytest.mark.parametrize(
    ("to", "error", "words"),
    [
        (None, ValueError, "non-None"),
        ("x", TypeError, "NamedSharding"),
        (P("z"), ValueError, "z"),
        (P(P.UNCONSTRAINED), ValueError, "UNCONSTRAINED"),
        (P(None, None, "x"), ValueError, "rank"),
    ],
)
def test_reshard_refuses(to, error, words):
    with pytest.raises(error, match=words):
        reshard(cut("x"), to)


def test_reshard_refuses_what_does_not_divide_devices_and_auto_axes():
    with pytest.raises(ValueError, match="axis 0 is partitioned 4 times.*size is 6.*[Pp]ad"):
        reshard(gnp.ones(6), P("x"))
    with pytest.raises(TypeError, match="SingleDeviceSharding"):
        reshard(cut("x"), SingleDeviceSharding(ga.devices()[0]))
    with pytest.raises(ValueError, match="of type Auto or Manual"):
        auto_axes(lambda a: reshard(a, P("y")), out_sharding=P("x"))(cut("x"))
    with ga.set_mesh(None), pytest.raises(ValueError, match="no mesh in context"):
        reshard(np.ones(8), P("x"))


def test_a_constraint_is_an_assertion():
    a = cut("x")
    assert lax.with_sharding_constraint(a, P("x")) is a
    assert types(ga.jit(lambda v: lax.with_sharding_constraint(v, P("x")))(a)) == ["f32[8@x,16]"]
    for how in (lambda f: f, ga.jit):
        with pytest.raises(AssertionError, match="acts as an assert.*reshard"):
            how(lambda v: lax.with_sharding_constraint(v, P("y")))(a)


# ---- regions ----


def test_auto_axes():
    a = cut("x")
    seen = []

    def fun(v):
        seen.append((types(v), get_abstract_mesh().axis_types))
        return v @ v.T

    for how in (lambda f: f, ga.jit):
        out = how(auto_axes(fun, out_sharding=P("y")))(a)
        assert types(out) == ["f32[8@y,8]"]
        np.testing.assert_allclose(np.asarray(out), np.asarray(a) @ np.asarray(a).T)
    assert seen[0] == (["f32[8,16]"], (AxisType.Auto, AxisType.Auto))
    # One axis only, and the layout in the call.
    one = auto_axes(lambda v: (seen.append(types(v)), v)[1], axes="x")
    assert types(one(cut("x", "y"), out_sharding=P("x", "y"))) == ["f32[8@x,16@y]"]
    assert seen[-1] == ["f32[8,16@y]"]
    # Keyword arguments, other values, and several results.
    several = auto_axes(lambda v, n, *, k: (v * n, {"k": v + k}), out_sharding=(P("x"), P()))
    assert types(several(a, 3, k=a)) == ["f32[8@x,16]", "f32[8,16]"]


def test_auto_axes_has_derivatives():
    fun = auto_axes(lambda v: (v @ v.T).sum(), out_sharding=P())
    a = cut("x")
    found = ga.grad(fun)(a)
    assert types(found) == ["f32[8@x,16]"]
    want = 2 * np.ones((8, 8)) @ np.asarray(a)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)


def test_auto_axes_refuses():
    with pytest.raises(TypeError, match="out_sharding"):
        auto_axes(lambda v: v)(cut("x"))
    with pytest.raises(ValueError, match="'z'.*axes"):
        auto_axes(lambda v: v, axes="z", out_sharding=P())(cut("x"))


def test_without_a_mesh_there_is_nothing_to_decide(mesh):
    with ga.set_mesh(None):
        assert auto_axes(lambda v: v + 1, out_sharding=P("x"))(gnp.zeros(4)).tolist() == [1.0] * 4
        with pytest.raises(ValueError, match="Context mesh cannot be empty"):
            explicit_axes(lambda v: v, in_sharding=P("x"))(gnp.ones(4))
        # A sharding brings its mesh along, and there is one mesh.
        laid = NamedSharding(mesh, P("x"))
        assert types(auto_axes(lambda v: v + 1, out_sharding=laid)(gnp.zeros(4))) == ["f32[4@x]"]
        other = NamedSharding(ga.make_mesh((8,), ("x",)), P("x"))
        with pytest.raises(ValueError, match="same mesh"):
            auto_axes(lambda v: (v, v), out_sharding=(laid, other))(gnp.ones(8))


def test_explicit_axes(mesh):
    auto = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    seen = []
    with ga.set_mesh(auto):
        fun = explicit_axes(lambda v: (seen.append(types(v)), gnp.sin(v))[1], in_sharding=P("x"))
        a = ga.device_put(np.arange(8, dtype=np.float32), NamedSharding(auto, P()))
        for how in (lambda f: f, ga.jit):
            out = how(fun)(a)
            assert types(out) == ["f32[8]"] and seen[-1] == ["f32[8@x]"]
            assert out.sharding.is_equivalent_to(NamedSharding(auto, P("x")), 1)
            np.testing.assert_allclose(np.asarray(out), np.sin(np.arange(8)), rtol=1e-6)
        with pytest.raises(ShardingTypeError):
            explicit_axes(lambda v: v.reshape(2, 4), in_sharding=P("x"))(a)
        with pytest.raises(TypeError, match="in_sharding"):
            explicit_axes(gnp.sin)(a)


def test_mixed_meshes():
    """Types speak of Explicit axes alone; along Auto ones the compiler decides."""
    mesh = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    with ga.set_mesh(mesh):
        a = ga.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P("x", "y")))
        assert types(a) == ["f32[8@x,16]"]
        # Along y it may be split and merged as it comes.
        out = ga.jit(lambda v: v.reshape(8, 2, 8).sum(2))(a)
        assert types(out) == ["f32[8@x,2]"]
        with pytest.raises(ShardingTypeError):
            ga.jit(lambda v: v.reshape(2, 4, 16))(a)
        with pytest.raises(ValueError, match="of type Auto or Manual"):
            reshard(a, P(None, "y"))


# ---- jit, shard_map ----


def test_options_of_jit_are_types(mesh):
    seen = []

    def fun(v):
        seen.append(types(v))
        return v * 2

    out = ga.jit(fun, in_shardings=P("x"))(np.ones((8, 16), np.float32))
    assert seen[-1] == ["f32[8@x,16]"] == types(out)
    assert types(ga.jit(fun, out_shardings=P("y"))(cut("x"))) == ["f32[8@y,16]"]
    # Inside another jit they lay values anew.
    inner = ga.jit(fun, in_shardings=P("y"), out_shardings=P(None, "x"))
    assert types(ga.jit(lambda v: inner(v) + 1)(cut("x"))) == ["f32[8,16@x]"]
    assert seen[-1] == ["f32[8@y,16]"]


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_new_arrays_lie_over_the_mesh_in_context(kind):
    # The layouts are those of JAX 0.10.2, eager and jitted alike.
    mesh = ga.make_mesh((4, 2), ("x", "y"), (kind,) * 2)
    made = [
        lambda: gnp.zeros(8),
        lambda: gnp.arange(8) + 1,
        lambda: gnp.asarray(np.ones(8)),
        lambda: gnp.array([1.0, 2.0]),
        lambda: ga.random.normal(ga.random.key(0), (8,)),
        lambda: gnp.eye(3).at[0].add(1),
    ]
    with ga.set_mesh(None):
        plain = [f() for f in made]
        assert all(x.devices() == {ga.devices()[0]} for x in plain)
    with ga.set_mesh(mesh):
        found = [f() for f in made]
        assert all(x.committed and x.sharding.is_fully_replicated for x in found)
        assert all(x.sharding.mesh == mesh for x in found)
        assert not ga.device_put(np.ones(3)).committed
        with ga.default_device(ga.devices()[3]):
            assert gnp.zeros(3).devices() == {ga.devices()[3]}
        # Pieces of a shard_map are each device's own.
        pieces = ga.shard_map(lambda: gnp.ones(2), in_specs=(), out_specs=P("x"))
        np.testing.assert_array_equal(pieces(), np.ones(8))
        with ga.sharding.use_abstract_mesh(ga.sharding.AbstractMesh((8,), ("z",))):
            assert gnp.zeros(8).sharding.mesh.axis_names == ("z",)
    for x, value in zip(found, plain, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(value))


def test_results_are_laid_over_the_explicit_mesh_in_context(mesh):
    auto = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    over = NamedSharding(auto, P("x"))
    with pytest.raises(ValueError, match="Context mesh .* should match the mesh of sharding"):
        gnp.zeros(8, out_sharding=over)
    with ga.set_mesh(auto):
        for given in (over, P("x")):
            with pytest.raises(ValueError, match="cannot contain axis names that are of type Auto"):
                gnp.einsum("ij,jk->ik", np.ones((4, 2)), np.ones((2, 4)), out_sharding=given)
        assert gnp.zeros(8, device=over).sharding == over
    with ga.set_mesh(None), pytest.raises(ValueError, match="not under a mesh context"):
        gnp.zeros(8, out_sharding=P("x"))


def test_nothing_varies_along_an_axis_of_one_device():
    with ga.set_mesh(ga.make_mesh((1,), ("one",))):
        assert ga.lax.pcast(gnp.arange(3), "one", to="varying").shape == (3,)


def test_shard_map_takes_specs_from_types(mesh):
    seen = []

    def fun(v):
        seen.append(types(v))
        return v * 2

    for how in (lambda f: f, ga.jit):
        out = how(ga.shard_map(fun, out_specs=P("x")))(cut("x"))
        assert seen[-1] == ["f32[2,16]{V:x}"] and types(out) == ["f32[8@x,16]"]
        part = ga.shard_map(fun, out_specs=P("x"), axis_names={"x"})
        out = how(part)(cut("x", "y"))
        assert seen[-1] == ["f32[2,16@y]{V:x}"] and types(out) == ["f32[8@x,16@y]"]
        np.testing.assert_array_equal(np.asarray(out), 2 * np.asarray(cut(None)))
        with pytest.raises(ValueError, match=r"in_specs passed to shard_map: P\('y',?\) does not"):
            how(ga.shard_map(fun, in_specs=P("y"), out_specs=P("y")))(cut("x"))


def test_collectives_keep_the_cuts_along_other_axes():
    inside = []

    def fun(v):
        inside[:] = types((v, lax.psum(v, "x"), lax.pmax(v, "x"), lax.ppermute(v, "x", [(0, 1)])))
        return lax.psum(v, "x")

    along_x = ga.shard_map(fun, axis_names={"x"}, in_specs=P("x"), out_specs=P())
    a = cut("x", "y")
    assert types((along_x(a), ga.jit(along_x)(a))) == ["f32[2,16@y]"] * 2
    piece = "f32[2,16@y]"
    assert inside == [f"{piece}{{V:x}}", piece, piece, f"{piece}{{V:x}}"]
    np.testing.assert_array_equal(along_x(a), np.asarray(a).reshape(4, 2, 16).sum(0))


def test_iteration_takes_an_axis_that_is_cut_apart():
    a = cut("x", None)
    np.testing.assert_array_equal([np.asarray(row) for row in a], np.asarray(a))
    assert types(list(cut("x", "y"))) == ["f32[16@y]"] * 8
    assert max(a[:, 0]) == 112
    with pytest.raises(ShardingTypeError, match="whole"):
        ga.jit(list)(a)


def test_a_mesh_without_context_and_operands_over_other_meshes(mesh):
    a = cut("x")
    with ga.set_mesh(None):
        assert types(gnp.sin(a)) == types(ga.jit(gnp.sin)(a)) == ["f32[8@x,16]"]
        other = ga.make_mesh((8,), ("z",))
        b = ga.device_put(np.ones((8, 16), np.float32), NamedSharding(other, P("z")))
        with pytest.raises(ShardingTypeError, match="different meshes"):
            a + b


def test_types_of_avals():
    aval = ga.core.ShapedArray(
        (8, 2), np.float32, sharding=NamedSharding(get_abstract_mesh(), P("x"))
    )
    assert aval is ga.typeof(cut("x", shape=(8, 2)))
    assert aval.update(shape=(4,)).str_short() == "float32[4]"
    assert aval.update(sharding=None) is ga.typeof(np.ones((8, 2), np.float32))
    mesh = AbstractMesh((4,), ("x",), (AxisType.Explicit,))
    laid = aval.update(shape=(8, 4), sharding=NamedSharding(mesh, P(None, "x")))
    assert laid.str_short() == "float32[8,4@x]"
    with pytest.raises(ValueError, match="partitioned 4 times.*size is 2"):
        aval.update(sharding=NamedSharding(mesh, P(None, "x")))


def test_training_with_types():
    """A step of gradient descent, batch and hidden values cut: as on one device, laid as given."""
    rng = np.random.default_rng(0)
    given = {
        "w": rng.standard_normal((16, 8)).astype(np.float32),
        "v": rng.standard_normal((8, 4)).astype(np.float32),
    }
    batch = rng.standard_normal((8, 16)).astype(np.float32)

    def loss(p, x, **out):
        hidden = gnp.tanh(x @ p["w"])
        return gnp.mean(gnp.matmul(hidden, p["v"], **out) ** 2)

    def step(p, x, **out):
        slopes = ga.grad(loss)(p, x, **out)
        return ga.tree.map(lambda a, b: a - 0.1 * b, p, slopes)

    laid = ga.tree.map(ga.device_put, given, {"w": P(None, "y"), "v": P("y", None)})
    found = ga.jit(lambda p, x: step(p, x, out_sharding=P("x")))(laid, ga.device_put(batch, P("x")))
    assert types(found) == ["f32[8@y,4]", "f32[16,8@y]"]
    with ga.set_mesh(None):
        want = step(ga.tree.map(gnp.asarray, given), gnp.asarray(batch))
    for a, b in zip(ga.tree.leaves(found), ga.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


def test_vmap_refuses_inputs_whose_mapped_axes_are_cut_differently():
    a, b = cut("x"), cut(None, "y", shape=(16, 8))
    product = lambda v, w: v @ w
    for how in (lambda f: f, ga.jit):
        with pytest.raises(ValueError, match="Mapped away dimension of inputs passed to vmap"):
            how(ga.vmap(product, in_axes=(0, 1)))(a, b)
        with pytest.raises(ValueError, match="Only one of spmd_axis_name or arrays sharded on"):
            how(ga.vmap(lambda v: v * 2, spmd_axis_name="y"))(a)
        out = how(ga.vmap(lambda v, w: v * w, spmd_axis_name="x"))(a, a)
        np.testing.assert_array_equal(out, np.asarray(a) ** 2)


def test_a_struct_like_a_traced_value_says_where_it_will_lie(mesh):
    @ga.jit
    def f(a):
        struct = ga.ShapeDtypeStruct.like(a)
        assert struct.sharding.spec == P("x", None)
        return gnp.ones(struct.shape, struct.dtype, out_sharding=struct.sharding)

    assert f(ga.reshard(gnp.ones((8, 2)), P("x"))).sharding.spec == P("x", None)


#: Windows, strides and padding, and the axis of the result, 8 long before, that is cut in four.
WINDOWS = [((3, 1), (1, 1), "SAME", 8), ((1, 3), (2, 1), "VALID", 4), ((2, 2), (2, 2), "VALID", 4)]


@pytest.mark.parametrize("fold", ["add", "max", "min", "mul"])
@pytest.mark.parametrize("window, strides, padding, long", WINDOWS)
def test_windows_keep_axes_cut(fold, window, strides, padding, long):
    start = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}[fold]
    folded = lambda x: lax.reduce_window(x, start, getattr(lax, fold), window, strides, padding)
    value = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    x = ga.device_put(value, P("x", None))
    out = folded(x)
    assert out.shape[0] == long and spec(out) == P("x", None)
    np.testing.assert_allclose(out, folded(gnp.array(value)), rtol=1e-6)
    if fold != "mul":
        f = lambda x: (folded(x), *ga.jvp(folded, (x,), (gnp.cos(x),)))
        assert [spec(y) for y in ga.jit(f)(x)] == [P("x", None)] * 3
        loss = lambda x: gnp.sin(folded(x)).sum()
        grad = ga.jit(ga.grad(loss))(x)
        assert spec(grad) == P("x", None)
        np.testing.assert_allclose(grad, ga.grad(loss)(gnp.array(value)), rtol=1e-5, atol=1e-6)


def test_windows_whose_results_do_not_divide_are_refused():
    x = ga.device_put(np.ones((8, 6), np.float32), P("x", None))
    with pytest.raises(ShardingTypeError, match=r"reduce_window on .* out dim \(7\)"):
        lax.reduce_window(x, 0.0, lax.add, (2, 1), (1, 1), "VALID")


def test_a_layout_leaves_a_weak_type():
    weak = gnp.full((8, 4), 3.0, out_sharding=P("x"))
    assert weak.weak_type and spec(weak) == P("x", None)
    assert (weak * gnp.ones((8, 4), "bfloat16")).dtype == "bfloat16"
    assert gnp.zeros_like(weak, out_sharding=P(None, "y")).weak_type
    assert not gnp.full((8, 4), 3.0, "float32", out_sharding=P("x")).weak_type
