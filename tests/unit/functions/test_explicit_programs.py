"""Explicit axes where programs are transformed, hold loops, or run with axes of other types.

In: arrays over a mesh of 4 x 2. Out: the types that JAX 0.10.2 gives, and the values of one device.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.errors import ShardingTypeError
from gpuarray.sharding import (
    AxisType,
    NamedSharding,
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
    reshard,
    use_abstract_mesh,
)
from gpuarray.sharding import PartitionSpec as P
from tests.support.laid import cut, types

pytestmark = pytest.mark.devices


@pytest.fixture(autouse=True)
def mesh():
    made = ga.make_mesh((4, 2), ("x", "y"))
    with ga.set_mesh(made):
        yield made


# ---- the argument out_sharding ----

IDS = np.array([0, 1, 1, 3, 0, 2, 3, 3])

#: Functions of a value cut along its first axis; their results do not follow from that.
LAID_BY_ARGUMENT = {
    "percentile": lambda a, s: gnp.percentile(a, 50, axis=0, out_sharding=s),
    "ravel": lambda a, s: gnp.ravel(a.T, out_sharding=s),
    "segment_sum": lambda a, s: ga.ops.segment_sum(a, reshard(IDS, P("x")), 4, out_sharding=s),
    "segment_max": lambda a, s: ga.ops.segment_max(a, reshard(IDS, P("x")), 4, out_sharding=s),
    "bincount": lambda a, s: gnp.bincount(reshard(IDS, P("x")), length=4, out_sharding=s),
    "einsum": lambda a, s: gnp.einsum("ij,kj->ik", a, a, out_sharding=s),
}


@pytest.mark.parametrize("name", LAID_BY_ARGUMENT)
@pytest.mark.parametrize("spec", [P(), P("y")])
def test_results_laid_by_an_argument(name, spec):
    fun = LAID_BY_ARGUMENT[name]
    a = cut("x")
    if name == "bincount" and any(spec):
        with pytest.raises(ShardingTypeError, match="fully replicated or fully unreduced"):
            fun(a, spec)
        return
    with ga.set_mesh(None):
        want = np.asarray(_without_mesh(name, np.asarray(a)))
    for how in (lambda f: f, lambda f: ga.jit(f, static_argnums=1)):
        found = how(fun)(a, spec)
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)
        # Every axis is named, as in the type.
        padded = P(*spec.partitions, *[None] * (found.ndim - len(spec.partitions)))
        assert found.sharding.spec == ga.typeof(found).sharding.spec == padded


def _without_mesh(name, a):
    sums, counts = np.zeros((4, 16), np.float32), np.bincount(IDS, minlength=4)
    np.add.at(sums, IDS, a)
    return {
        "percentile": lambda: np.percentile(a, 50, axis=0),
        "ravel": lambda: a.T.ravel(),
        "segment_sum": lambda: sums,
        "segment_max": lambda: np.stack([a[i == IDS].max(0) for i in range(4)]),
        "bincount": lambda: counts,
        "einsum": lambda: a @ a.T,
    }[name]()


def test_arrays_made_with_a_layout_name_every_axis():
    for made in (
        gnp.ones((8, 4), out_sharding=P("x")),
        gnp.array(np.ones((8, 4)), out_sharding=P("x")),
        ga.random.normal(ga.random.key(0), (8, 4), out_sharding=P("x")),
        reshard(np.ones((8, 4)), P("x")),
        gnp.triu(gnp.ones((8, 4), out_sharding=P("x"))),
    ):
        assert made.sharding.spec == P("x", None)


def test_a_value_broadcast_like_another_lies_as_it():
    for how in (lambda f: f, ga.jit):
        assert types(how(lax.broadcast_like)(gnp.arange(16), cut("x"))) == ["i32[8@x,16]"]
        with pytest.raises(ShardingTypeError, match="reshard"):
            how(lax.broadcast_like)(cut("x", shape=(16,)), cut("x"))


def test_split_along_an_axis_that_is_cut():
    a = cut("x", "y")
    for how in (lambda f: f, ga.jit):
        parts = how(lambda v: lax.split(v, (8, 8), axis=1))(a)
        assert types(parts) == ["f32[8@x,8@y]"] * 2
        np.testing.assert_array_equal(np.concatenate(parts, 1), np.asarray(a))
        with pytest.raises(ShardingTypeError, match=r"split on sharded dims"):
            how(lambda v: lax.split(v, (1, 15), axis=1))(a)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((None, "x"), (None, "y"), "requires contracting dimensions to have consistent sharding"),
        (("x", None), ("y", None), "lhs batch dimensions and rhs batch dimensions"),
    ],
)
def test_products_of_operands_that_are_cut_differently(first, second, words):
    dims = (([1], [1]), ([0], [0])) if first[0] else (([1], [1]), ([], []))
    with pytest.raises(ShardingTypeError, match=words):
        lax.dot_general(cut(*first, shape=(8, 8)), cut(*second, shape=(8, 8)), dims)


# ---- vmap, loops, solvers ----


@pytest.mark.parametrize("wrap", [ga.jit, ga.checkpoint])
def test_vmap_of_a_call_keeps_the_batch_cut(wrap):
    """What is laid out inside of a call leaves the batch axis where it is."""
    a, b = cut("x", None, "y", shape=(4, 2, 2)), cut(None, "x", "y", shape=(2, 4, 2))
    inner = wrap(lambda x, y: gnp.einsum("xy,yz->xz", x, y, out_sharding=P(None, "y")))
    fun = ga.vmap(inner, in_axes=(0, 1), out_axes=2)
    want = np.einsum("bxy,ybz->xzb", np.asarray(a), np.asarray(b))
    for how in (lambda f: f, ga.jit):
        found = how(fun)(a, b)
        assert types(found) == ["f32[2,2@y,4@x]"]
        np.testing.assert_allclose(np.asarray(found), want)


def test_vmap_of_a_custom_rule_keeps_the_batch_cut():
    @ga.custom_jvp
    def twice(v):
        return 2 * reshard(v, P("y"))

    twice.defjvp(lambda xs, ts: (twice(xs[0]), 2 * ts[0]))
    assert types(ga.jit(ga.vmap(twice))(cut("x"))) == ["f32[8@x,16@y]"]


def test_types_inside_of_a_scan():
    seen = []

    def step(carry, x):
        seen.append((types(carry), types(x)))
        out = gnp.einsum("xy,yz->xz", carry, x, out_sharding=P(None, "y"))
        return gnp.einsum("xy,zy->xz", out, x, out_sharding=P(None, "x")), out

    first, xs = cut(None, "x", shape=(2, 8)), cut(None, "x", "y", shape=(3, 8, 2)) / 50
    for how in (lambda f: f, ga.jit):
        last, outs = how(lambda c, xs: lax.scan(step, c, xs))(first, xs)
        assert types((last, outs)) == ["f32[2,8@x]", "f32[3,2,2@y]"]
        want = np.asarray(first)
        for x in np.asarray(xs):
            want = want @ x @ x.T
        np.testing.assert_allclose(np.asarray(last), want, rtol=1e-5)
    assert set(map(str, seen)) == {str((["f32[2,8@x]"], ["f32[8@x,2@y]"]))}
    # What is unclear in the body is an error there, as it is outside.
    with pytest.raises(ShardingTypeError, match="not supported"):
        lax.scan(lambda c, x: (c, x.reshape(16)), 0.0, cut(None, None, "y", shape=(3, 8, 2)))


def test_map_in_batches_longer_than_the_array():
    a = cut(None, "x", None, shape=(5, 4, 4))
    found = lax.map(lambda v: v.sum(-1), a, batch_size=10)
    assert types(found) == ["f32[5,4@x]"]
    np.testing.assert_array_equal(np.asarray(found), np.asarray(a).sum(-1))


@pytest.mark.parametrize(
    "spec", [("x", "y"), (None, "x", "y"), (None, None, "x"), ("x", None, "y")]
)
def test_the_trace_of_a_plane_that_is_cut(spec):
    a = cut(*spec, shape=(8, 8, 16))
    for axes in ((0, 1), (1, 2), (2, 0)):
        for how in (lambda f: f, ga.jit):
            out = how(lambda a, axes=axes: gnp.trace(a, -1, *axes))(a)
            np.testing.assert_array_equal(np.asarray(out), np.trace(np.asarray(a), -1, *axes))


def test_tangents_lie_as_their_primals():
    x, t = cut("x", "y"), cut("y", "x")
    for how in (lambda f: f, ga.jit):
        _, out = how(lambda x, t: ga.jvp(gnp.sin, (x,), (t,)))(x, t)
        assert types(out) == ["f32[8@x,16@y]"]
        np.testing.assert_allclose(out, np.cos(np.asarray(x)) * np.asarray(t), rtol=1e-5)


@pytest.mark.parametrize("solver", ["cg", "gmres"])
def test_linear_solvers_over_a_mesh(solver):
    """The functions of a solver are held by name: they are found on the pieces, too."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((8, 8)).astype(np.float32)
    matrix = matrix @ matrix.T + 8 * np.eye(8, dtype=np.float32)
    b = rng.standard_normal(8).astype(np.float32)
    solve = getattr(ga.scipy.sparse.linalg, solver)
    a = ga.device_put(matrix, P())
    found, _ = ga.jit(lambda b: solve(lambda v: a @ v, b, tol=1e-6))(b)
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(matrix, b), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("how", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_linear_solves_whose_system_is_cut(how):
    """What a solver exchanges between devices is run like the rest of the program."""
    rng = np.random.default_rng(0)
    matrix = (rng.standard_normal((8, 8)) / 8 + 3 * np.eye(8)).astype(np.float32)
    b = rng.standard_normal(8).astype(np.float32)

    def solve(a, b):
        def product(v):
            return a @ reshard(v, P())

        def steps(product, b):  # fixed points of x + (b - A x) / 3
            x = b / 3
            for _ in range(12):
                x = x + (b - product(x)) / 3
            return x

        return lax.custom_linear_solve(product, b, steps, symmetric=True)

    symmetric = (matrix + matrix.T) / 2
    a, b_cut = ga.device_put(symmetric, P("x")), ga.device_put(b, P("x"))
    found = how(solve)(a, b_cut)
    assert types(found) == ["f32[8@x]"]
    want = np.linalg.solve(symmetric, b)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-3, atol=1e-4)
    slope = how(ga.grad(lambda b: (solve(a, b) * np.arange(8.0)).sum()))(b_cut)
    want = np.linalg.solve(symmetric, np.arange(8.0))
    np.testing.assert_allclose(np.asarray(slope), want, rtol=1e-3, atol=1e-4)


# ---- axes of other types ----


def test_explicit_axes_take_numpy_arrays_and_layouts_in_the_call():
    auto = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    seen = []
    with ga.set_mesh(auto):
        fun = explicit_axes(lambda v, n=1, **rest: (seen.append(types(v)), v * n)[1])
        found = fun(np.arange(8, dtype=np.float32), 3, in_sharding=P("x"))
        assert seen == [["f32[8@x]"]]
        np.testing.assert_array_equal(np.asarray(found), 3 * np.arange(8))
        assert found.sharding.is_equivalent_to(NamedSharding(auto, P("x")), 1)
        fun(np.ones(8, np.float32), k=np.ones(3), in_sharding=P("x"))
        assert seen[-1] == ["f32[8@x]"]


def test_specs_inside_of_explicit_axes_mean_their_mesh():
    auto = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    seen = []

    def fun(v):
        out = gnp.einsum("ab,cb->ac", v, v, out_sharding=P("x", None))
        seen.append(types(out))
        return out

    with ga.set_mesh(auto):
        a = ga.device_put(np.ones((8, 16), np.float32), P("x", "y"))
        found = ga.jit(explicit_axes(fun, in_sharding=P("x", "y")))(a)
    assert seen == [["f32[8@x,8]"]] and types(found) == ["f32[8,8]"]
    np.testing.assert_array_equal(np.asarray(found), np.full((8, 8), 16.0))


def test_reshard_leaves_auto_axes_to_the_compiler():
    """Where axes are Auto a type says nothing, and what it leaves out is not gathered."""
    auto = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    inside = {"x": AxisType.Explicit, "y": AxisType.Explicit}

    @ga.jit
    def fun(v):
        with use_abstract_mesh(get_abstract_mesh().update_axis_types(inside)):
            v = gnp.sin(reshard(v, P(None, "y")))
            assert types(v) == ["f32[8,16@y]"]
        return reshard(v, P(None, None))

    with ga.set_mesh(auto):
        a = ga.device_put(np.ones((8, 16), np.float32), P("x", "y"))
        found = fun(a)
        assert types(found) == ["f32[8,16]"]
        assert found.sharding.is_equivalent_to(NamedSharding(auto, P(None, "y")), 2)
    # Along an axis that is Explicit still, it says all.
    mixed = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    with ga.set_mesh(mixed):
        a = ga.device_put(np.ones((8, 16), np.float32), P("x", None))
        found = ga.jit(lambda v: reshard(v, P(None, None)))(a)
        assert types(found) == ["f32[8,16]"]
        np.testing.assert_array_equal(np.asarray(found), np.ones((8, 16)))


def test_auto_axes_without_a_mesh_and_with_numpy_arrays():
    with ga.set_mesh(None):
        assert auto_axes(lambda v: v * 2, out_sharding=P())(gnp.ones(3)).sum() == 6
    found = auto_axes(lambda v: v * 2)(np.ones(8, np.float32), out_sharding=P("x"))
    assert types(found) == ["f32[8@x]"]


# ---- shard_map under vmap ----


@pytest.mark.parametrize("names", [None, {"y"}])
def test_vmap_of_a_shard_map_keeps_the_batch_cut(names):
    """Each device has its elements of the batch: they are not gathered for the shard_map."""
    a = cut("x", "y")
    options = {} if names is None else {"axis_names": names}
    each = ga.shard_map(lambda v: gnp.sin(v), in_specs=P("y"), out_specs=P("y"), **options)
    summed = ga.shard_map(lambda v: lax.psum(v, "y"), in_specs=P("y"), out_specs=P(), **options)
    for how in (lambda f: f, ga.jit):
        found = how(ga.vmap(each))(a)
        assert types(found) == ["f32[8@x,16@y]"]
        np.testing.assert_allclose(np.asarray(found), np.sin(np.asarray(a)), rtol=1e-5, atol=1e-6)
        found = how(ga.vmap(summed))(a)
        assert types(found) == ["f32[8@x,8]"]
        want = np.asarray(a).reshape(8, 2, 8).sum(1)
        np.testing.assert_array_equal(np.asarray(found), want)
        slope = how(ga.vmap(ga.grad(lambda v: each(reshard(v, P("y"))).sum())))(cut("x"))
        assert types(slope) == ["f32[8@x,16]"]
        np.testing.assert_allclose(np.asarray(slope), np.cos(np.asarray(a)), rtol=1e-5, atol=1e-5)


def test_collectives_leave_other_axes_as_they_are():
    """Along axes that are not those of the shard_map, results are cut as their operands."""
    seen = []

    def inside(v):
        seen.append(ga.typeof(v).sharding.mesh.axis_types)
        return (
            lax.psum(v, "y"),
            lax.pcast(lax.psum(v, "y"), "y", to="varying"),
            lax.all_gather(v, "y", axis=1, tiled=True),
            lax.psum_scatter(v, "y", scatter_dimension=1, tiled=True),
            lax.ppermute(v, "y", [(0, 1), (1, 0)]),
        )

    specs = (P(), *[P(None, "y")] * 4)
    fun = ga.shard_map(inside, in_specs=P(None, "y"), out_specs=specs, axis_names={"y"})
    a = cut("x", "y")
    for how in (lambda f: f, ga.jit):
        total, again, whole, pieces, swapped = how(fun)(a)
        assert types((total, again, whole, pieces, swapped)) == [
            "f32[8@x,8]",
            "f32[8@x,16@y]",
            "f32[8@x,32@y]",
            "f32[8@x,8@y]",
            "f32[8@x,16@y]",
        ]
        halves = np.asarray(a).reshape(8, 2, 8)
        np.testing.assert_array_equal(np.asarray(total), halves.sum(1))
        np.testing.assert_array_equal(np.asarray(pieces), halves.sum(1))
        np.testing.assert_array_equal(np.asarray(whole), np.tile(np.asarray(a), 2))
        np.testing.assert_array_equal(np.asarray(swapped).reshape(8, 2, 8), halves[:, ::-1])
    assert seen[0] == (AxisType.Explicit, AxisType.Manual)


def test_collectives_that_stack_leave_other_axes_as_they_are():
    seen = []

    def inside(v):
        stacked, mine = lax.all_gather(v, "y"), lax.psum_scatter(gnp.stack([v, 2 * v]), "y")
        short = lax.psum_scatter(v[:4], "y", scatter_dimension=0, tiled=True)
        seen.extend(types((stacked, mine, short)))
        return stacked.sum(0), mine, short

    specs = (P(None, "y"),) * 3
    fun = ga.shard_map(inside, in_specs=P(None, "y"), out_specs=specs, axis_names={"y"})
    a = cut("x", "y")
    halves = np.asarray(a).reshape(8, 2, 8)
    both = halves.sum(1)
    for how in (lambda f: f, ga.jit):
        total, mine, short = how(fun)(a)
        np.testing.assert_array_equal(np.asarray(total), np.tile(both, 2))
        np.testing.assert_array_equal(np.asarray(mine), np.concatenate([both, 2 * both], 1))
        pieces = np.concatenate([both[:2], both[2:4]], 1)
        np.testing.assert_array_equal(np.asarray(short), pieces)
    # Two rows are too few to be cut in four.
    assert seen[:3] == ["f32[2,8@x,8]{V:y}", "f32[8@x,8]{V:y}", "f32[2,8]{V:y}"]


# ---- axes of both types ----

#: A constraint along the Auto axis, and how a value lies then whose type is cut along the other.
CONSTRAINTS = {
    "the axis that is cut": (P("y"), P(("x", "y"), None)),
    "the other axis": (P(None, "y"), P("x", "y")),
    "unconstrained": (P(P.UNCONSTRAINED, "y"), P("x", "y")),
    "none": (P(), P("x", None)),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("how", [lambda f: f, ga.jit, lambda f: ga.jit(lambda v: f(v + v) / 2)])
def test_constraints_along_auto_axes_keep_what_types_say(name, how):
    given, lies = CONSTRAINTS[name]
    mixed = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    with ga.set_mesh(mixed):
        a = ga.device_put(np.arange(128.0, dtype=np.float32).reshape(8, 16), P("x"))
        out = how(lambda v: lax.with_sharding_constraint(v, given))(a)
        assert ga.typeof(out) is ga.typeof(a)
        assert out.sharding.is_equivalent_to(NamedSharding(mixed, lies), 2)
        np.testing.assert_array_equal(out, np.asarray(a))
        with pytest.raises(ValueError, match="can only refer to Auto axes of the mesh"):
            how(lambda v: lax.with_sharding_constraint(v, P("x")))(a)


def test_types_leave_auto_axes_to_the_compiler():
    mixed = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    with ga.set_mesh(mixed):
        a = ga.device_put(np.ones((8, 16), np.float32), P("x", "y"))
        f = ga.jit(lambda v: gnp.tanh(v) * 2 + v.T.T)
        assert f(a).sharding.spec == P("x", "y")
        assert "all_gather" not in str(ga.explain(f)(a))
        assert types(f(a)) == ["f32[8@x,16]"]
        # A layout that is asked for is that along Explicit axes.
        for laid in (P(None, None), P("x", None), P(None, "x")):
            out = ga.jit(lambda v, s=laid: ga.reshard(v * 2, s))(a)
            assert "y" in str(out.sharding.spec) and ga.typeof(out).sharding.spec == laid
            np.testing.assert_array_equal(out, np.full((8, 16), 2, np.float32))


def test_axes_of_one_device_are_in_types():
    with ga.set_mesh(ga.make_mesh((4, 1), ("x", "y"))):
        a = ga.device_put(np.ones((8, 16), np.float32), P("x", "y"))
        assert types(a) == types(gnp.sin(a)) == types(ga.jit(gnp.sin)(a)) == ["f32[8@x,16@y]"]
        assert types(a.T) == ["f32[16@y,8@x]"]
        with pytest.raises(ShardingTypeError, match="ambiguous"):
            a @ a.T
        with ga.remove_size_one_mesh_axis_from_type(True):
            b = ga.device_put(np.ones((8, 16), np.float32), P("x", "y"))
            assert types(b) == types(ga.jit(gnp.sin)(b)) == ["f32[8@x,16]"]
            f = ga.shard_map(lambda v: lax.psum(v, "y"), in_specs=P("x", "y"), out_specs=P("x"))
            np.testing.assert_array_equal(f(b), b)


def test_parts_of_a_program_over_a_mesh_of_other_axes(mesh):
    """Results say so in the words of their own mesh, and cotangents lie as what they belong to."""
    other = mesh.abstract_mesh.update(axis_sizes=(2, 4), axis_names=("a", "b"))

    def fun(v):
        with use_abstract_mesh(other):
            out = reshard(gnp.sin(v), P(("a", "b"), None)) * 2
        return out, reshard(out, P("y", None))

    v = cut("x", "y") / 100
    there, back = ga.jit(fun)(v)
    assert there.sharding.spec == P(("a", "b"), None) and there.sharding.mesh.axis_sizes == (2, 4)
    assert back.sharding == NamedSharding(mesh, P("y", None))
    for i, out in enumerate((there, back)):
        np.testing.assert_allclose(out, 2 * np.sin(np.asarray(v)), rtol=1e-6)
        slope = ga.jit(ga.grad(lambda v, i=i: fun(v)[i].sum()))(v)
        assert slope.sharding == v.sharding
        np.testing.assert_allclose(slope, 2 * np.cos(np.asarray(v)), rtol=1e-6)


def test_results_lie_along_explicit_axes_as_their_types_say():
    """Also where a sum over an Auto axis is still to be made, and where there is nothing."""
    for kinds in ((AxisType.Explicit, AxisType.Auto), (AxisType.Auto, AxisType.Explicit)):
        mixed = ga.make_mesh((4, 2), ("x", "y"), kinds)
        with ga.set_mesh(mixed):
            table = ga.device_put(np.zeros((3, 8), np.float32), P(None, "x"))
            rows = ga.device_put(np.array([[2], [0]], np.int32), P("y"))
            more = ga.device_put(np.ones((2, 8), np.float32), P(None, "y"))
            add = lambda t, i, m: t.at[i[:, 0]].add(m)
            empty = ga.device_put(np.zeros((2, 0), np.float32), P("y"))
            for fun, given in ((add, (table, rows, more)), (lambda v: v.cumsum(0), (empty,))):
                try:
                    (typed,) = ga.make_jaxpr(fun)(*given).jaxpr.out_avals
                except ShardingTypeError:
                    continue
                for out in (fun(*given), ga.jit(fun)(*given)):
                    assert out.aval is typed
                    named = {n for part in out.sharding.spec if part for n in part}
                    said = {n for part in ga.typeof(out).sharding.spec if part for n in part}
                    assert named & {*mixed.explicit_axes} == said
