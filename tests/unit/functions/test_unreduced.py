"""Values that are sums of what devices hold, by their types: `unreduced`, and `reduced`."""

import itertools
import pickle

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.errors import ShardingTypeError
from gpuarray.sharding import AxisType, NamedSharding, auto_axes, reshard
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = np.sin(np.arange(32, dtype=np.float32)).reshape(8, 4)


@pytest.fixture(autouse=True)
def mesh():
    made = ga.make_mesh((2, 2, 2), ("x", "y", "z"), (AxisType.Explicit,) * 3)
    with ga.set_mesh(made):
        yield made


def close(found, want):
    np.testing.assert_allclose(np.asarray(found), want, rtol=2e-5, atol=1e-4)


def whole(x):
    return reshard(x, P())


def product(spec=None):
    """A @ B, summed over `x` only in its type."""
    a, b = reshard(A, P(None, "x")), reshard(B, P("x"))
    spec = P(unreduced={"x"}) if spec is None else spec
    return ga.jit(lambda a, b: gnp.dot(a, b, out_sharding=spec))(a, b)


def psums(fun, *args):
    return str(ga.jit(fun).lower(*args).compile().as_text()).count("psum(")


# ---- what it is ----


def test_each_device_holds_a_term():
    z = product()
    for shard in z.addressable_shards:
        half = slice(0, 4) if shard.device.id < 4 else slice(4, 8)
        close(shard.data, A[:, half] @ B[half])
    assert z.sharding.shard_shape(z.shape) == (4, 4)
    assert not z.sharding.is_fully_replicated
    close(whole(z), A @ B)
    close(reshard(z, P("x", "y")), A @ B)


def test_types_are_printed_as_jax_prints_them():
    assert str(ga.typeof(product())) == "float32[4,4]{U:x}"
    assert str(ga.typeof(reshard(A, P("x", reduced={"y", "z"})))) == "float32[4@x,8]{R:(y,z)}"
    spec = P("y", None, unreduced={"x"})
    assert ga.typeof(product(spec)).sharding.spec == product(spec).sharding.spec == spec
    assert repr(product()).startswith("Array(shape=(4, 4), dtype=float32, sharding=NamedSharding(")


#: What would read terms as the value.
READERS = {
    "asarray": np.asarray,
    "float": lambda z: float(z.sum()),
    "item": lambda z: z[0, 0].item(),
    "tolist": lambda z: z.tolist(),
    "device_get": ga.device_get,
    "pickle": pickle.dumps,
    "index": lambda z: z.addressable_shards[0].index,
    "places": lambda z: z.sharding.devices_indices_map(z.shape),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_terms_are_not_read_as_the_value(read):
    with pytest.raises(NotImplementedError, match=r"terms? of a sum"):
        read(product())


def test_what_only_shows_a_value_shows_the_sum(capsys):
    ga.jit(lambda z: ga.debug.print("{}", z.sum()))(product())
    ga.effects_barrier()
    assert float(capsys.readouterr().out) == pytest.approx((A @ B).sum(), rel=1e-5)


SPECS = [
    P(),
    P("x"),
    P(None, ("y", "x")),
    P("x", "y", unreduced={"z"}),
    P(unreduced={"x"}),
    P("y", unreduced={"x", "z"}),
    P(("z", "x"), unreduced={"y"}),
    P(unreduced={"x", "y", "z"}),
    P("x", reduced={"y"}),
]


@pytest.mark.parametrize("jitted", [True, False])
def test_any_layout_to_any_layout(mesh, jitted):
    for i, (old, new) in enumerate(itertools.permutations(SPECS, 2)):
        if jitted and i % 3:
            continue  # a third of them: each is a program
        x = reshard(A, old)
        y = ga.jit(lambda x, new=new: reshard(x, new))(x) if jitted else ga.device_put(x, new)
        assert y.sharding.is_equivalent_to(NamedSharding(mesh, new), 2), (old, new)
        close(whole(y), A)


def test_a_value_becomes_terms_where_it_is():
    one = whole(np.arange(4))
    for made in (
        reshard(one, P(unreduced={"x"})),
        ga.device_put(one, P(unreduced={"x"})),
        ga.jit(lambda v: v, out_shardings=P(unreduced={"x"}))(one),
    ):
        terms = [s.data.tolist() for s in made.addressable_shards]
        assert terms == [[0, 1, 2, 3]] * 4 + [[0, 0, 0, 0]] * 4
    cut = reshard(reshard(np.arange(4), P("x")), P(unreduced={"x"}))
    terms = [s.data.tolist() for s in cut.addressable_shards]
    assert terms == [[0, 1, 0, 0]] * 4 + [[0, 0, 2, 3]] * 4
    there = ga.device_put(product(), ga.devices()[3])
    close(there, A @ B)


# ---- operations ----

LINEAR = {
    "add": (lambda z: z + z, lambda v: 2 * v),
    "sub": (lambda z: z - (z + z), lambda v: -v),
    "neg": (lambda z: -z, lambda v: -v),
    "transpose": (lambda z: z.T, lambda v: v.T),
    "sum": (lambda z: z.sum(0), lambda v: v.sum(0)),
    "reshape": (lambda z: z.reshape(2, 8), lambda v: v.reshape(2, 8)),
    "slice": (lambda z: z[1:3], lambda v: v[1:3]),
    "row": (lambda z: z[2], lambda v: v[2]),
    "concatenate": (lambda z: gnp.concatenate([z, z]), lambda v: np.concatenate([v, v])),
    "stack": (lambda z: gnp.stack([z, z]), lambda v: np.stack([v, v])),
    "broadcast": (
        lambda z: gnp.broadcast_to(z, (3, 4, 4)),
        lambda v: np.broadcast_to(v, (3, 4, 4)),
    ),
    # One device has what is around terms, or there would be two of it.
    "pad": (lambda z: gnp.pad(z, 1, constant_values=5), lambda v: np.pad(v, 1, constant_values=5)),
    "factor": (lambda z: z * reshard(np.float32(3), P(reduced={"x"})), lambda v: 3 * v),
    "quotient": (lambda z: z / reshard(np.float32(4), P(reduced={"x"})), lambda v: v / 4),
    "select": (
        lambda z: gnp.where(A[:, :4] > 9, z, z + z),
        lambda v: np.where(A[:, :4] > 9, v, 2 * v),
    ),
    "scan": (lambda z: lax.scan(lambda c, v: (c + c, v), z, z)[0], lambda v: 16 * v),
    "ys": (lambda z: lax.scan(lambda c, v: (c, v + v), z, z)[1], lambda v: 2 * v),
    "while": (lambda z: lax.fori_loop(0, 3, lambda i, c: c + z, z), lambda v: 4 * v),
    "cond": (lambda z: lax.cond(z.shape[0] > 3, lambda: z + z, lambda: z), lambda v: 2 * v),
    "vmap": (ga.vmap(lambda r: r + r.sum()), lambda v: v + v.sum(1, keepdims=True)),
    "remat": (ga.checkpoint(lambda z: z + z), lambda v: 2 * v),
    "wider": (lambda z: z.astype(np.complex64), lambda v: v.astype(np.complex64)),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_linear_operations_stay_terms(name):
    fun, want = LINEAR[name]
    z = product()
    for found in (ga.jit(fun)(z), fun(z)):
        assert ga.typeof(found).sharding.spec.unreduced == {"x"}
        close(whole(found), want(A @ B))


NOT_LINEAR = {
    "sin": (gnp.sin, NotImplementedError, "unreduced rule for sin"),
    "compared": (lambda z: z > 0, NotImplementedError, "unreduced rule for gt"),
    "max": (lambda z: z.max(), NotImplementedError, "unreduced rule for reduce_max"),
    "rounded": (lambda z: z.astype(np.int32), NotImplementedError, "convert_element_type"),
    "squared": (lambda z: z * z, ShardingTypeError, "cannot be unreduced since mul is bilinear"),
    "scaled": (lambda z: z * 2, ShardingTypeError, "RHS should be reduced along the same axes LHS"),
    "divided": (lambda z: 1 / z, NotImplementedError, "unreduced rule for div"),
    "halved": (
        lambda z: reshard(np.arange(4), P(unreduced={"x"})) // 2,
        NotImplementedError,
        "unreduced rule for",
    ),
    "dot": (lambda z: z @ B[:4], ShardingTypeError, "lhs or rhs passed to dot_general cannot be"),
    "added": (lambda z: z + A[:, :4], ShardingTypeError, "lhs is unreduced while rhs is not"),
    "others": (
        lambda z: z + reshard(A[:, :4], P(unreduced={"y"})),
        ShardingTypeError,
        "must be unreduced along the same mesh axes",
    ),
    "reduced by others": (
        lambda z: reshard(A, P(reduced={"x"})) * reshard(A, P(reduced={"y"})),
        ShardingTypeError,
        "All inputs should be reduced across the same mesh axes",
    ),
    "reduced and cut": (
        lambda z: reshard(A, P(reduced={"x"})) * reshard(A, P("x")),
        ShardingTypeError,
        "Inputs cannot be sharded/varying on the same axes that another input is reduced on",
    ),
    "reduced and whole": (
        lambda z: reshard(A, P(reduced={"x"})) * reshard(A, P()),
        ShardingTypeError,
        "Inputs cannot be replicated on the same axes that another input is reduced on",
    ),
    "a loop": (
        lambda z: lax.fori_loop(0, 2, lambda i, c: whole(c), z),
        TypeError,
        r"type float32\[4,4\]{U:x} but the corresponding output carry component has type float32",
    ),
    "a product cut otherwise": (
        lambda z: gnp.dot(reshard(A, P(None, "x")), B, out_sharding=P(unreduced={"x"})),
        ShardingTypeError,
        "lhs and rhs contracting dims should be sharded identically",
    ),
    "a product over others": (
        lambda z: gnp.einsum(
            "ij,jk->ik", *(reshard(A, P(None, "x")), reshard(B, P("x"))),
            out_sharding=P(unreduced={"y"}),
        ),
        ShardingTypeError,
        "unreduced axes should be equal to the contracting specs",
    ),
    "a sum over others": (
        lambda z: lax.reduce_sum(reshard(A, P("x")), (0,), out_sharding=P(unreduced={"y"})),
        ShardingTypeError,
        "unreduced axes should be in operand's specs that were summed over",
    ),
    "a reshape": (
        lambda z: gnp.reshape(z, (16,), out_sharding=P()),
        ValueError,
        "must be unreduced over the same mesh axes as operand",
    ),
    "a reshape to terms": (
        lambda z: gnp.reshape(A, (32,), out_sharding=P(unreduced={"x"})),
        ValueError,
        "cannot contain unreduced",
    ),
    "segments": (
        lambda z: ga.ops.segment_max(A, np.arange(4), 4, out_sharding=P(unreduced={"x"})),
        NotImplementedError,
        "segment_max cannot be unreduced",
    ),
    "a constraint": (
        lambda z: lax.with_sharding_constraint(z, P()), AssertionError, "did not match",
    ),
    "keys": (
        lambda z: reshard(ga.random.key(0), P(unreduced={"x"})), TypeError, "random keys cannot be",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_others_are_errors(name):
    fun, error, message = NOT_LINEAR[name]
    z = product()
    for run in (fun, ga.jit(fun)):
        with pytest.raises(error, match=message):
            run(z)


def test_out_sharding_of_sums():
    x = reshard(A, P("x", "y"))
    found = lax.reduce_sum(x, (0, 1), out_sharding=P(unreduced={"x", "y"}))
    close(whole(found), A.sum())
    z = ga.jit(lambda x: lax.reduce_sum(x, (0,), out_sharding=P("y", unreduced={"x"})))(x)
    assert [s.data.shape for s in z.addressable_shards] == [(4,)] * 8
    # What was unreduced already may be summed up by the way.
    y = ga.jit(lambda z: lax.reduce_sum(z, (0,), out_sharding=P(unreduced={"y"})))(z)
    assert y.sharding.spec == P(unreduced={"y"})
    close(whole(y), A.sum())
    ids = reshard(np.array([0, 1, 1, 0]), P("x"))
    counts = ga.jit(lambda i: gnp.bincount(i, length=2, out_sharding=P(unreduced={"x"})))(ids)
    assert [s.data.tolist() for s in counts.addressable_shards] == [[1, 1]] * 8


# ---- derivatives ----


def test_cotangents_of_what_is_reduced_are_unreduced_and_the_reverse():
    w, x = reshard(B, P(reduced={"x"})), reshard(A, P("x"))
    loss = lambda w, x: gnp.sum(gnp.sin(w) * 2.0 @ gnp.ones((4, 3)) * 0.5) + gnp.sum(x @ w)
    with pytest.raises(ShardingTypeError):
        ga.jit(lambda w: w + reshard(B, P("x")))(w)
    loss = lambda w, x: gnp.sum(x @ (gnp.sin(w) * 2.0))
    want = 2 * np.cos(B) * A.sum(0)[:, None]
    for run in (ga.jit(ga.grad(loss)), ga.grad(loss)):
        found = run(w, x)
        assert ga.typeof(found).sharding.spec == P(None, None, unreduced={"x"})
        close(whole(found), want)
    back = ga.jit(ga.grad(lambda z: whole(z + z).sum()))(product())
    assert str(ga.typeof(back)) == "float32[4,4]{R:x}"
    close(back, np.full((4, 4), 2.0))
    value, slope = ga.jvp(lambda z: z + z, (product(),), (product(),))
    assert ga.typeof(slope) == ga.typeof(value)


def test_gradients_are_summed_once_after_all_steps():
    weights, batches = np.ones((4, 4), np.float32), np.arange(64, dtype=np.float32).reshape(2, 8, 4)
    model = lambda w, x: gnp.sum(x @ w @ w)

    def step(w, xs):
        def one(total, x):
            return total + ga.grad(model)(w, x), None

        start = reshard(gnp.zeros((4, 4)), P(unreduced={"x"}))
        total, _ = lax.scan(one, start, xs)
        return whole(w) - 0.01 * whole(total)

    w, xs = reshard(weights, P(reduced={"x"})), reshard(batches, P(None, "x"))
    rows = batches.reshape(-1, 4)
    ones = np.ones((16, 4), np.float32)
    slope = rows.T @ ones @ weights.T + (rows @ weights).T @ ones
    close(ga.jit(step)(w, xs), weights - 0.01 * slope)
    assert psums(step, w, xs) == 1


def test_unused_values_have_zeros_of_their_cotangents():
    w = reshard(A, P(reduced={"x"}))
    _, pull = ga.vjp(lambda a, b: b, w, w)
    for ct in pull(reshard(A, P(unreduced={"x"}))):
        assert ga.typeof(ct).sharding.spec == P(None, None, unreduced={"x"})


# ---- shard_map ----


def mapped(fun, ins, outs, *args, **options):
    return ga.jit(ga.shard_map(fun, in_specs=ins, out_specs=outs, **options))(*args)


def test_collectives_of_terms():
    x, v = reshard(A, P("x", "y")), reshard(np.arange(8.0, dtype=np.float32), P("x"))
    u, r = P(unreduced={"x"}), P(reduced={"x"})
    terms = mapped(lambda v: lax.pcast(v, "x", to="unreduced"), P("x"), u, v)
    assert terms.shape == (4,)
    close(whole(terms), [4, 6, 8, 10])
    # What is said by the specs alone is cast.
    close(whole(mapped(lambda v: v, P("x"), u, v)), [4, 6, 8, 10])
    close(mapped(lambda t: lax.psum(t, "x"), u, P(), terms), [4, 6, 8, 10])
    close(mapped(lambda t: lax.psum_scatter(t, "x", tiled=True), u, P("x"), terms), [4, 6, 8, 10])
    gathered = mapped(lambda v: lax.all_gather(v, "x", tiled=True, to="reduced"), P("x"), r, v)
    assert gathered.sharding.spec == P(None, reduced={"x"})
    close(gathered, np.arange(8))
    both = mapped(lambda r: lax.pcast(r, "x", to="varying"), r, P("x"), gathered)
    close(both, [*range(8), *range(8)])
    close(mapped(lambda t: t, u, P("x"), terms, check_vma=False), np.arange(8))

    def inside(a):
        assert a.mat.varying == {"x", "y"}
        a = lax.pcast(a, "y", to="unreduced")
        assert (a.mat.varying, a.mat.unreduced) == ({"x"}, {"y"})
        return a + a

    found = mapped(inside, P("x", "y"), P("x", unreduced={"y"}), x)
    close(reshard(found, P("x")), 2 * (A[:, :4] + A[:, 4:]))


def test_derivatives_through_collectives_of_terms():
    u = P(unreduced={"x"})
    a, b = reshard(A, P(None, "x")), reshard(B, P("x"))
    ways = {
        "psum": (lambda t: lax.psum(t, "x"), u, P()),
        "psum_scatter": (lambda t: lax.psum_scatter(t, "x", tiled=True), u, P("x")),
    }
    want = np.ones((4, 4)) @ B.T
    for name, (fun, ins, outs) in ways.items():

        def loss(a, b, fun=fun, ins=ins, outs=outs):
            z = gnp.dot(a, b, out_sharding=u)
            return gnp.sum(ga.shard_map(fun, in_specs=ins, out_specs=outs)(z))

        found = ga.jit(ga.grad(loss))(a, b)
        assert found.sharding.spec == P(None, "x"), name
        close(found, want)
    ways = {
        "preduced": (lambda v: lax.pcast(v, "x", to="reduced"), P(), P(reduced={"x"})),
        "all_gather": (
            lambda v: lax.all_gather(v, "x", axis=1, tiled=True, to="reduced"),
            P(None, "x"),
            P(reduced={"x"}),
        ),
    }
    c = reshard(B, P(None, "x"))
    for name, (fun, ins, outs) in ways.items():

        def loss(a, c, fun=fun, ins=ins, outs=outs):
            return gnp.sum(ga.shard_map(fun, in_specs=ins, out_specs=outs)(a) @ c)

        found = ga.jit(ga.grad(loss))(reshard(A, ins), c)
        assert not found.sharding.spec.unreduced, name
        close(found, want)


MISUSE = {
    "sums of nothing": (
        lambda v: lax.pcast(v, "y", to="unreduced"), P("x"), P("x"), "pcast from=invarying",
    ),
    "two states": (
        lambda v: lax.pcast(v, ("x", "y"), to="varying"), P("x"), P("x"),
        "jax.lax.pcast can only accept axis_name which",
    ),
    "terms that do not vary": (
        lambda v: v, P("x"), P("x", unreduced={"y"}),
        "vary_unreduced_cast is a Varying->Unreduced collective",
    ),
    "a result that is reduced": (
        lambda v: lax.pcast(v, "y", to="reduced"), P("x"), P("x"),
        "out_specs passed to shard_map should be equal to the reduced present",
    ),
    "an operand that is not": (
        lambda v: v, P(unreduced={"x"}), P(), "in_specs containing unreduced .* should be equal to",
    ),
    "another collective": (
        lambda v: lax.ppermute(lax.pcast(v, "x", to="unreduced"), "x", [(0, 1)]), P("x"), P("x"),
        "ppermute .*unreduced|cannot accept args which are unreduced",
    ),
}  # fmt: skip


def test_closing_over_terms():
    z = product()
    close(whole(ga.jit(lambda: z + z)()), 2 * (A @ B))
    close(whole(ga.jit(lambda: lax.scan(lambda c, _: (c + z, None), z, length=2)[0])()), 3 * A @ B)
    for inside in (lambda v: lax.psum(z, "x"), lambda v: z + z):
        with pytest.raises(ValueError, match="closes over a value of type .*U:x.* terms of a sum"):
            ga.shard_map(inside, in_specs=P(), out_specs=P(), check_vma=False)(np.ones(2))


def test_operands_that_are_cut_where_others_are_unreduced():
    z, which = product(), reshard(A[:, :4] > 9, P("x"))
    with pytest.raises(ShardingTypeError, match="one is cut as"):
        ga.jit(gnp.where)(which, z, z)
    decided = auto_axes(lambda w, z: gnp.where(w, z, -z), out_sharding=P("y"))
    close(decided(which, z), np.where(A[:, :4] > 9, A @ B, -(A @ B)))


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_inside_of_shard_map(name):
    fun, ins, outs, message = MISUSE[name]
    with pytest.raises(ValueError, match=message):
        mapped(fun, ins, outs, reshard(np.arange(8.0, dtype=np.float32), P("x")))


@pytest.mark.parametrize(
    "fun",
    [gnp.add, gnp.multiply, lambda a, b: gnp.sin(a) + b * 3, lambda a, b: a - gnp.exp(b)],
)
@pytest.mark.parametrize("add_up", [True, False])
def test_cotangents_that_all_devices_share_are_terms_of_each(fun, add_up):
    """Where a sum over devices follows, cotangents are the same on all of them."""
    a = ga.device_put(np.arange(16.0, dtype=np.float32).reshape(8, 2) / 16, P("x"))
    whole = np.array([0.25, -0.5], np.float32)
    b = ga.device_put(whole, P(reduced={"x"}))
    body = lambda a, b: lax.psum(fun(a, b), "x") if add_up else fun(a, b)
    of_pieces = ga.shard_map(body, out_specs=P() if add_up else P("x"))
    slope = ga.grad(lambda a, b: of_pieces(a, b).sum(), (0, 1))
    plain = ga.grad(lambda a, b: fun(a, b).sum(), (0, 1))
    with ga.set_mesh(None):
        want = plain(gnp.asarray(np.asarray(a)), gnp.asarray(whole))
    for how in (slope, ga.jit(slope)):
        found = how(a, b)
        assert found[1].sharding.spec.unreduced == {"x"}
        np.testing.assert_allclose(found[0], want[0], rtol=1e-6)
        np.testing.assert_allclose(reshard(found[1], P()), want[1], rtol=1e-5)
