"""shard_map: values and gradients are those of the function of whole arrays; the mesh meant."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental.shard_map import shard_map as old_shard_map
from gpuarray.runtime import cache
from gpuarray.sharding import AxisType, Mesh, NamedSharding, use_abstract_mesh
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

AUTO = AxisType.Auto
X = np.arange(32.0, dtype=np.float32).reshape(8, 4) / 7
W = np.cos(np.arange(12.0, dtype=np.float32)).reshape(4, 3)


def mesh_of(shape=(4, 2), names=("x", "y"), types=None):
    return Mesh(np.array(ga.devices()[:8]).reshape(shape), names, types)


MESH: Any = mesh_of() if len(ga.devices()) >= 8 else None


def close(a, b, tol=1e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


# ---- values, layouts and gradients ----


def test_values_do_not_leave_the_devices_of_the_mesh():
    def run(f):
        return ga.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))

    there = run(lambda x: x + ga.device_put(1, ga.devices()[0]))
    close(ga.jit(there)(X), X + 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="devices of its mesh, and got device"):
            there(X)
    close(run(lambda x: x + ga.device_put(1))(X), X + 1)


def test_what_is_closed_over_has_no_say_in_where_a_program_runs():
    cut = ga.device_put(X, NamedSharding(MESH, P("x")))
    run = lambda f: ga.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    for value in (np.float32(3), 3, X[:1]):
        there = ga.device_put(value, ga.devices()[1])
        for _ in range(2):  # the second call is launched by what the first one left
            close(ga.jit(lambda x, c=there: x * c)(cut), X * value)
            close(ga.jit(run(lambda x, c=there: x * c))(X), X * value)
        twice = ga.jit(lambda x: x * there)  # noqa: B023
        assert twice(cut).sharding == twice(cut).sharding == cut.sharding


def matmul(x, w):
    """x cut by rows and columns, w by rows: the contracted axis is summed over devices."""
    return lax.psum(x @ w, "y")


SPECS = {"in_specs": (P("x", "y"), P("y")), "out_specs": P("x")}


@pytest.mark.parametrize("check_vma", [True, False])
def test_matmul_over_a_mesh(check_vma):
    f = ga.shard_map(matmul, mesh=MESH, check_vma=check_vma, **SPECS)
    for call in (f, ga.jit(f)):
        close(call(X, W), X @ W)
        assert call(X, W).sharding == NamedSharding(MESH, P("x"))
    whole = lambda x, w: gnp.sin(x @ w).sum()
    cut = lambda x, w: gnp.sin(f(x, w)).sum()
    for arg in (0, 1):
        close(ga.grad(cut, arg)(X, W), ga.grad(whole, arg)(X, W))
        close(ga.jit(ga.grad(cut, arg))(X, W), ga.grad(whole, arg)(X, W))
    tangents = (np.cos(X), np.sin(W))
    close(ga.jvp(cut, (X, W), tangents)[1], ga.jvp(whole, (X, W), tangents)[1], 1e-4)
    step = 1e-2
    moved = [cut(X + s * tangents[0], W + s * tangents[1]) for s in (step, -step)]
    close(ga.jvp(cut, (X, W), tangents)[1], (moved[0] - moved[1]) / (2 * step), 5e-2)


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_value_all_devices_share_gets_the_sum_of_their_cotangents(check_vma):
    f = ga.shard_map(
        lambda x, w: gnp.tanh(x @ w), mesh=MESH, in_specs=(P("x"), P()), out_specs=P("x"),
        check_vma=check_vma,
    )  # fmt: skip
    loss = lambda g: lambda w: (g(X, w) ** 2).sum()
    close(ga.grad(loss(f))(W), ga.grad(loss(lambda x, w: gnp.tanh(x @ w)))(W))
    # Also where it is closed over.
    closed = lambda w: ga.shard_map(
        lambda x: gnp.tanh(x @ w), mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma
    )
    close(ga.grad(lambda w: (closed(w)(X) ** 2).sum())(W), ga.grad(loss(f))(W))


def test_faults_would_be_noticed():
    """What the tests above compare differs when a sum is left out or taken over another axis."""
    for wrong in (lambda x, w: x @ w, lambda x, w: lax.psum(x @ w, "x")):
        f = ga.shard_map(wrong, mesh=MESH, check_vma=False, **SPECS)
        assert not np.allclose(np.asarray(f(X, W)), X @ W)
        grad = ga.grad(lambda x, f=f: gnp.sin(f(x, W)).sum())(X)
        assert not np.allclose(np.asarray(grad), np.asarray(ga.grad(
            lambda x: gnp.sin(x @ W).sum())(X)))  # fmt: skip


def test_loops_carry_values_that_come_to_vary():
    def body(x):
        def step(total, row):
            return total + row.sum(), total

        total, seen = lax.scan(step, gnp.zeros(()), x)
        assert total.aval.vma == {"x"}
        assert seen.aval.vma == {"x"}
        ended = lax.while_loop(lambda c: c < 5, lambda c: c + x.mean() ** 2 + 1, gnp.zeros(()))
        assert ended.aval.vma == {"x"}
        picked = lax.cond(x.sum() > 3, lambda: 1.0, lambda: 2.0)
        assert picked.aval.vma == {"x"}
        return (total * picked + ended)[None], seen

    f = ga.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=(P("x"), P("x")))
    total, seen = f(X)
    parts = X.reshape(4, 2, 4)
    ends = []
    for part in parts:
        c = 0.0
        while c < 5:
            c += float(part.mean()) ** 2 + 1
        ends.append(c)
    sums = parts.sum((1, 2))
    close(total, sums * np.where(sums > 3, 1.0, 2.0) + ends, 1e-4)
    close(seen, np.stack([[0, p[0].sum()] for p in parts]).ravel(), 1e-4)


def test_a_branch_on_differing_values_has_derivatives():
    f = ga.shard_map(
        lambda x, w: lax.cond(x.sum() > 5, lambda: x @ w, lambda: 2 * x @ w),
        mesh=MESH, in_specs=(P("x"), P()), out_specs=P("x"),
    )  # fmt: skip
    factor = np.where(X.reshape(4, 8).sum(1) > 5, 1.0, 2.0).repeat(2)[:, None].astype(np.float32)
    whole = lambda w: (gnp.sin((X * factor) @ w)).sum()
    close(ga.grad(lambda w: gnp.sin(f(X, w)).sum())(W), ga.grad(whole)(W))


def test_custom_rules_may_name_axes():
    @ga.custom_vjp
    def total(x):
        return lax.psum(x.sum(), "x")

    def backward(shape, ct):
        # Every device has the cotangent of the sum.
        return (gnp.full(shape, 3.0) * ct * lax.axis_size("x"),)

    total.defvjp(lambda x: (total(x), x.shape), backward)
    f = ga.shard_map(total, mesh=MESH, in_specs=P("x"), out_specs=P())
    close(ga.grad(f)(X), np.full_like(X, 12.0))


def test_a_recomputation_may_hold_collectives():
    f = ga.checkpoint(lambda x: lax.all_gather(gnp.sin(lax.psum(gnp.sin(x), "x")), "y", tiled=True))
    g = ga.shard_map(f, mesh=MESH, in_specs=P("x", "y"), out_specs=P(None, "y"))
    h = lambda x: gnp.sin(gnp.sin(x).reshape(4, 2, 4).sum(0))
    want = lambda x: gnp.concatenate([h(x)[:, :2], h(x)[:, 2:]], 0)
    both = lambda x: gnp.concatenate([want(x), want(x)], 1)
    close(g(X), both(X))
    close(
        ga.jit(ga.grad(lambda x: (g(x) ** 2).sum()))(X), ga.grad(lambda x: (both(x) ** 2).sum())(X)
    )


def test_partial_manual_axes():
    f = ga.shard_map(
        lambda x, w: lax.psum(x @ w, "y"),
        mesh=MESH, in_specs=(P(None, "y"), P("y")), out_specs=P(), axis_names={"y"},
    )  # fmt: skip
    close(ga.jit(f)(X, W), X @ W)
    x = ga.device_put(X, NamedSharding(MESH, P("x", "y")))
    close(ga.jit(f)(x, W), X @ W)
    close(ga.grad(lambda w: (f(x, w) ** 2).sum())(W), 2 * X.T @ (X @ W), 1e-4)


#: Functions of pieces along "x", of a value that lies in any way along "y".
BESIDE = {
    "sum": lambda v, w: lax.psum(gnp.tanh(v), "x"),
    "maximum": lambda v, w: lax.pmax(v, "x") - lax.pmin(v * 2, "x"),
    "ring": lambda v, w: lax.ppermute(v, "x", [(i, (i + 1) % 4) for i in range(4)]),
    "product": lambda v, w: lax.psum(v @ w, "x"),
    "gather": lambda v, w: lax.all_gather(v, "x", tiled=True).sum(0, keepdims=True) + v,
    "sorted": lambda v, w: gnp.sort(v, axis=1) * lax.axis_index("x"),
    "softmax": lambda v, w: ga.nn.softmax(v, axis=-1) + gnp.cumsum(v, axis=1),
    "loop": lambda v, w: lax.fori_loop(0, 3, lambda _, c: lax.pmean(c, "x") + v, v),
    "branch": lambda v, w: lax.cond(lax.psum(1, "x") > 2, lambda c: c * 2, lambda c: c, v),
    "scattered": lambda v, w: lax.psum_scatter(v @ w, "x", scatter_dimension=1, tiled=True),
    "laid": lambda v, w: lax.with_sharding_constraint(v * v, NamedSharding(MESH, P(None, "y"))),
}


@pytest.mark.parametrize("laid", [P(), P("x", "y"), P("y"), P(("y", "x")), P(None, ("x", "y"))])
@pytest.mark.parametrize("name", BESIDE)
def test_values_lie_as_they_do_along_axes_that_are_not_manual(name, laid):
    x = np.sin(np.arange(64, dtype=np.float32)).reshape(8, 8)
    w = np.cos(np.arange(64, dtype=np.float32)).reshape(8, 8)
    mapped = ga.shard_map(
        BESIDE[name], mesh=MESH, in_specs=(P("x"), P()), out_specs=P("x"), axis_names={"x"},
        check_vma=False,
    )  # fmt: skip
    plain = ga.vmap(BESIDE[name], in_axes=(0, None), axis_name="x")
    # A constraint says nothing of values; the oracle has no mesh.
    want = gnp.reshape(x * x, (4, 2, 8)) if name == "laid" else plain(x.reshape(4, 2, 8), w)
    over = ga.device_put(x, NamedSharding(MESH, laid))
    w_over = ga.device_put(w, NamedSharding(MESH, P("y")))
    out = ga.jit(mapped)(over, w_over)
    close(out, np.concatenate(np.asarray(want)))


def test_what_is_cut_along_other_axes_is_not_gathered():
    def body(v):
        return lax.psum(v * 2, "x") + lax.pmax(v, "x")

    mapped = ga.jit(ga.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P(), axis_names={"x"}))
    x = ga.device_put(X, NamedSharding(MESH, P("x", "y")))
    assert mapped(x).sharding.spec == P(None, "y")
    sent = [s.ops[0] for s in ga.explain(mapped)(x).steps if "axes" in s.facts]
    assert set(sent) == {"psum", "pmax"}


def test_vmap_spreads_its_axis():
    f = ga.shard_map(
        lambda x, w: x @ w + lax.psum(x.sum(), "x"),
        mesh=MESH, in_specs=(P("x"), P()), out_specs=P("x"),
    )  # fmt: skip
    xs = np.stack([X, X + 1, 2 * X, -X])
    spread = lambda xs, w: ga.vmap(f, (0, None), spmd_axis_name="y")(xs, w)
    plain = lambda xs, w: ga.vmap(f, (0, None))(xs, w)
    close(spread(xs, W), plain(xs, W))
    assert ga.jit(spread)(xs, W).sharding.spec == P("y", "x")
    for arg in (0, 1):
        got, want = (
            ga.grad(lambda *a, g=g: gnp.sin(g(*a)).sum(), arg)(xs, W) for g in (spread, plain)
        )
        close(got, want, 1e-3)
    # Each gradient is of its own element, also where types do not say what is shared.
    g = ga.shard_map(lambda x: gnp.sin(x.sum()), mesh=MESH, in_specs=P("x"), out_specs=P(),
                     check_vma=False)  # fmt: skip
    close(ga.vmap(ga.grad(g), spmd_axis_name="y")(xs), ga.vmap(ga.grad(g))(xs))
    with pytest.raises(ValueError, match="spmd_axis_name cannot appear"):
        ga.vmap(f, (0, None), spmd_axis_name="x")(xs, W)
    with pytest.raises(ValueError, match="evenly divide"):
        ga.vmap(f, (0, None), spmd_axis_name="y")(xs[:3], W)


# ---- which mesh ----


def double_sum(x):
    return lax.psum(2 * x.sum(), ("x", "y"))


def test_mesh_in_context():
    f = ga.shard_map(double_sum, in_specs=P("x", "y"), out_specs=P())
    with pytest.raises(ValueError, match="context mesh cannot be empty"):
        f(X)
    with ga.set_mesh(MESH):
        close(f(X), 2 * X.sum(), 1e-4)
        close(ga.jit(f)(X), 2 * X.sum(), 1e-4)
        with pytest.raises(ValueError, match="should match the mesh passed"):
            ga.shard_map(lambda x: x, mesh=mesh_of((8,), ("z",)), in_specs=P(), out_specs=P())(X)
    with pytest.warns(DeprecationWarning), MESH:
        close(f(X), 2 * X.sum(), 1e-4)


def test_what_was_traced_under_a_mesh_is_not_used_under_another():
    count = ga.jit(
        lambda x: ga.shard_map(lambda v: v * lax.axis_size("x"), in_specs=P("x"), out_specs=P("x"))(
            x
        )
    )
    for sizes in ((4, 2), (2, 4), (4, 2)):
        with ga.set_mesh(mesh_of(sizes)):
            close(count(X), X * sizes[0])
            assert count(X).sharding.mesh.axis_sizes == sizes


def test_abstract_mesh_takes_devices_from_arguments():
    f = ga.shard_map(double_sum, mesh=MESH.abstract_mesh, in_specs=P("x", "y"), out_specs=P())
    x = ga.device_put(X, NamedSharding(MESH, P("x")))
    close(f(x), 2 * X.sum(), 1e-4)
    close(ga.jit(f)(x), 2 * X.sum(), 1e-4)
    with ga.set_mesh(MESH):
        close(f(X), 2 * X.sum(), 1e-4)
    with pytest.raises(ValueError, match="Please pass `jax.Array`s with a `NamedSharding`"):
        f(X)
    with pytest.raises(ValueError, match="does not know its devices"):
        ga.jit(f)(X)
    # One device is where the arguments are.
    one = Mesh(np.array(ga.devices()[:1]).reshape(1, 1), ("x", "y")).abstract_mesh
    alone = ga.jit(ga.shard_map(double_sum, mesh=one, in_specs=P("x", "y"), out_specs=P()))
    close(alone(X), 2 * X.sum(), 1e-4)
    assert alone(ga.device_put(X, ga.devices()[3])).devices() == {ga.devices()[3]}
    other = ga.device_put(X, NamedSharding(mesh_of((8,), ("z",)), P("z")))
    with pytest.raises(ValueError, match="does not match the mesh shape"):
        f(other)
    with use_abstract_mesh(MESH.abstract_mesh):
        shape = ga.eval_shape(ga.shard_map(double_sum, in_specs=P("x", "y"), out_specs=P()), X)
    assert shape.shape == ()
    # All arguments are looked at, not just the first.
    other = ga.device_put(X, NamedSharding(mesh_of(names=("a", "b")), P("a")))
    both = ga.shard_map(
        lambda x, y: x, mesh=MESH.abstract_mesh, in_specs=P("x", "y"), out_specs=P("x", "y")
    )
    with pytest.raises(ValueError, match="Mesh shape of the input .*'a'"):
        both(ga.device_put(X, NamedSharding(MESH, P("x"))), other)


def test_the_mesh_inside_has_manual_axes():
    seen = []

    def inner(x):
        seen.append(ga.sharding.get_abstract_mesh().manual_axes)
        return x * lax.axis_index("y")

    def outer(x):
        seen.append(ga.sharding.get_abstract_mesh().manual_axes)
        return ga.smap(inner, in_axes=1, out_axes=1, axis_name="y")(x)

    with ga.set_mesh(MESH):
        out = ga.jit(ga.smap(outer, in_axes=0, out_axes=0, axis_name="x"))(X)
    assert seen == [("x",), ("x", "y")]
    close(out, X * [0, 0, 1, 1])
    assert ga.sharding.get_abstract_mesh().empty


def test_smap_and_the_old_words():
    with ga.set_mesh(mesh_of((4, 2), types=(AUTO, AUTO))):
        close(ga.smap(lambda x: lax.psum(x, "x"), in_axes=0, out_axes=None, axis_name="x")(X),
              X.reshape(4, 2, 4).sum(0))  # fmt: skip
        with pytest.raises(TypeError, match="in_axes was not specified"):
            ga.smap(lambda x: x, out_axes=0, axis_name="x")(X)
    with pytest.raises(TypeError, match="smap axis_name"):
        ga.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("x",))
    with pytest.raises(TypeError, match="smap in_axes"):
        ga.smap(lambda x: x, in_axes="x", out_axes=0, axis_name="x")
    close(old_shard_map(lambda x: x[:1], MESH, P("x"), P(None), check_rep=False)(X), X[:1])
    close(old_shard_map(lambda x: 2 * x, MESH, P("x"), P("x"), auto=frozenset({"y"}))(X), 2 * X)
    with pytest.raises(ValueError, match="auto"):
        old_shard_map(lambda x: x, MESH, P(), P(), auto=frozenset({"z"}))


# ---- arguments that are no arrays, types, bad input ----


def test_arguments_without_a_spec_are_handed_over():
    thing = object()

    def f(x, how, y):
        assert how["it"] is thing
        return x + y

    g = ga.shard_map(f, mesh=MESH, in_specs=(P("x"), None, P()), out_specs=P("x"))
    close(g(X, {"it": thing}, 1.0), X + 1)
    assert ga.shard_map(lambda _: None, mesh=MESH, in_specs=P("x"), out_specs=None)(X) is None


def test_types():
    def f(x, w):
        assert ga.typeof(x).vma == {"x"}
        assert ga.typeof(x).mat.varying == {"x"}
        assert ga.typeof(w).vma == frozenset()
        assert ga.typeof(lax.psum(x, "x")).vma == frozenset()
        assert ga.typeof(lax.all_gather(x, "x")).vma == {"x"}
        assert ga.typeof(lax.all_gather(x, "x", to="invarying")).vma == frozenset()
        assert ga.typeof(lax.axis_index("y")).vma == {"y"}
        assert ga.typeof(lax.pcast(w, ("x", "y"), to="varying")).vma == {"x", "y"}
        assert ga.typeof(x @ w).vma == {"x"}
        return x

    ga.shard_map(f, mesh=MESH, in_specs=(P("x"), P()), out_specs=P("x"))(X, W)


def test_of_replicas_that_differ_the_first_is_read():
    f = ga.shard_map(
        lambda: lax.axis_index(("x", "y")), mesh=MESH, in_specs=(), out_specs=P(), check_vma=False
    )
    assert int(f()) == 0
    assert [int(s.data) for s in f().addressable_shards] == list(range(8))


def test_python_may_look_at_values_outside_of_jit():
    runs = []

    def f(x):
        runs.append(1)
        y = 2 * x
        if lax.psum(x.sum(), ("x", "y")) > 0:
            return y
        return y + int(lax.pmax(lax.axis_index("x"), "x"))

    g = ga.shard_map(f, mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y"))
    close(g(X), 2 * X)
    close(g(-X), 3 - 2 * X)
    close(g(X), 2 * X)
    assert len(runs) == 3  # each call may go another way
    with pytest.raises(ga.errors.TracerBoolConversionError):
        ga.jit(g)(X)
    close(ga.shard_map(f, mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y"),
                       check_vma=False)(-X), 3 - 2 * X)  # fmt: skip


def test_print_shows_the_piece_of_each_device(capsys):
    def f(x):
        print(x + 1)
        return x

    ga.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(np.arange(4))
    shown = capsys.readouterr().out
    assert "On cpu:2 at mesh coordinates (x, y) = (1, 0):\n[2]" in shown
    assert shown.count("at mesh coordinates") == 8


@pytest.mark.parametrize("check_vma", [True, False])
def test_python_cannot_branch_on_values_that_differ(check_vma):
    f = lambda x: x if x.sum() > 9 else -x
    with pytest.raises(ga.errors.TracerBoolConversionError):
        ga.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)(X)


ALONG = P("x")


def run(f, *args, mesh=MESH, in_specs=ALONG, out_specs=ALONG, **words):
    return ga.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **words)(*args)


same = lambda x: x
BAD = {
    "does not divide": (lambda: run(same, X[:6]), ValueError, "divisible.*Pad it to 8"),
    "spec too long": (
        lambda: run(same, X, in_specs=P("x", None, None)),
        ValueError,
        "shard_map applied to the function .*length 3.*rank 2",
    ),
    "scalar": (lambda: run(same, 3.0), ValueError, r"consider using an in_specs entry of `P\(\)`"),
    "result too short": (lambda: run(lambda x: x.sum(), X), ValueError, "which has length 1"),
    "may vary": (
        lambda: run(same, X, out_specs=P()),
        ValueError,
        r"require replication.*statically inferred.*not \{x\}.*check_vma=False",
    ),
    "branches may vary": (
        lambda: run(lambda x: lax.cond(x[0, 0] > 1, lambda: 1.0, lambda: 2.0), X, out_specs=P()),
        ValueError,
        "require replication",
    ),
    "the index may vary": (
        lambda: run(lambda x: lax.axis_index("x"), X, out_specs=P()),
        ValueError,
        "require replication",
    ),
    "unknown axis": (lambda: run(same, X, in_specs=P("z")), ValueError, "names the axis 'z'"),
    "axis twice": (lambda: run(same, X, in_specs=P("x", "x")), ValueError, "twice|Duplicate|once"),
    "axis that is not manual": (
        lambda: run(same, X, in_specs=P("y"), axis_names={"x"}),
        ValueError,
        "in_specs refers to 'y'",
    ),
    "no spec": (lambda: run(same, X, in_specs="x"), TypeError, "must be a pytree of"),
    "spec of the wrong length": (
        lambda: run(same, [X, X], in_specs=([P("x")],)),
        ValueError,
        r"shard_map in_specs\[0\]",
    ),
    "None for a result": (lambda: run(same, X, out_specs=None), ValueError, "out_specs is None"),
    "unknown manual axes": (
        lambda: run(same, X, axis_names={"z"}),
        ValueError,
        "requires axis_names.*subset",
    ),
    "manual axes in a list": (lambda: run(same, X, axis_names=["x"]), TypeError, "frozenset"),
    "not a mesh": (lambda: run(same, X, mesh="x"), TypeError, "requires a `jax.sharding.Mesh`"),
    "an empty mesh": (lambda: run(same, X, mesh=Mesh(None, ())), ValueError, "non-empty mesh"),
    "sums that are owed": (
        lambda: run(same, X, in_specs=P(unreduced={"x"})),
        ValueError,
        "all of type `Explicit`",
    ),
    "words": (
        lambda: ga.shard_map(same, mesh=MESH, in_specs=P(), out_specs=P())(x=X),
        TypeError,
        "by position only",
    ),  # fmt: skip
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=f"(?s){message}"):
        call()


# ---- types and words as JAX's ----


def test_what_is_like_a_value_varies_as_it_does():
    seen = []

    def f(v):
        struct = ga.eval_shape(lambda v: v * 2, v)
        for like in (v, struct):
            seen.extend((lax.full_like(like, 1), gnp.zeros_like(like), gnp.full_like(like, 3)))
        seen.append(gnp.ones_like(lax.psum(v, "x")))
        assert all(ga.typeof(x).vma == {"x"} for x in seen[:6]) and not seen[6].aval.vma
        return v + sum(seen[:6]) + seen[6]

    run = ga.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(ga.jit(run)(X), X + 9)
    # Where types are off nothing is said; and outside nothing varies.
    off = lambda v: v + gnp.zeros_like(v)
    run = ga.shard_map(off, mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    np.testing.assert_array_equal(run(X), X)
    slopes = ga.grad(lambda v: (run(v) ** 2).sum())(X)
    np.testing.assert_allclose(slopes, 2 * X, rtol=1e-6)


#: Derivatives with respect to a value that varies along "x", of values and functions that do not.
DERIVATIVES = {
    "grad": lambda x: ga.grad(lambda v: (2 * v).sum())(x),
    "grad of another argument": lambda x: ga.grad(lambda v, w: v.sum(), argnums=1)(x, x),
    "value_and_grad": lambda x: ga.value_and_grad(lambda v: v.sum())(x)[1],
    "vjp": lambda x: ga.vjp(lambda v: 3 * v, x)[1](gnp.ones((2, 4)))[0],
    "vjp of a constant": lambda x: ga.vjp(lambda v: gnp.ones(2), x)[1](gnp.ones(2))[0],
    "jacrev": lambda x: ga.jacrev(lambda v: 2 * v[0])(x),
    "jacfwd": lambda x: ga.jacfwd(lambda v: 2 * v[0])(x),
    "hessian": lambda x: ga.hessian(lambda v: (v * v).sum())(x),
    "linear_transpose": lambda x: ga.linear_transpose(lambda v: 2 * v, x)(gnp.ones((2, 4)))[0],
    "jvp of a constant": lambda x: ga.jvp(lambda v: 0 * v + gnp.ones(4), (x,), (x,))[1],
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_vary_as_what_they_belong_to(name):
    def f(x):
        out = DERIVATIVES[name](x)
        assert ga.typeof(out).vma == {"x"}
        return out.sum(keepdims=True)

    ga.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P(("x",)))(X)


@pytest.mark.parametrize("spec", [P("x"), P("x", None), P(("x", "y")), P(None, "y")])
def test_results_lie_in_the_words_of_out_specs(spec):
    mesh = Mesh(np.array(ga.devices()[:4]).reshape(2, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    x = ga.device_put(X, NamedSharding(mesh, spec))
    f = ga.shard_map(lambda v: v * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    assert f(x).sharding == NamedSharding(mesh, spec)
    # In a program types say it, for every axis.
    full = P(*spec.partitions, *[None] * (2 - len(spec)))
    assert ga.jit(f)(x).sharding == NamedSharding(mesh, full)
    np.testing.assert_array_equal(f(x), 2 * X)


def test_nothing_varies_outside():
    with ga.set_mesh(mesh_of(types=(AxisType.Explicit,) * 2)):
        with pytest.raises(ValueError, match="pvary should be called under jax.shard_map: 'x'"):
            lax.pcast(X, "x", to="varying")
        with pytest.raises(NameError, match="unbound axis name: z"):
            lax.pcast(X, "z", to="varying")
        f = ga.shard_map(
            lambda v: lax.pcast(v, "y", to="varying"),
            in_specs=P(),
            out_specs=P(),
            axis_names={"x"},
        )
        with pytest.raises(NameError, match="unbound axis name: y"):
            f(X)


def test_eager_calls_of_one_function_share_a_program():
    f = ga.shard_map(matmul, mesh=MESH, **SPECS)
    f(X, W)
    before = len(cache.history)
    close(f(X + 1, W), (X + 1) @ W)
    close(ga.shard_map(matmul, mesh=MESH, **SPECS)(X, W), X @ W)
    made = [line for line in list(cache.history)[before:] if line.kind != "eager"]
    assert not made
