"""Collectives between devices: what `vmap(axis_name=)` says they mean, transformed or not."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import AxisType, Mesh
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 4, 4)).astype(np.float32)
GROUPS = [[0, 2], [3, 1]]

#: By name: a function of one element, and whether it has a derivative.
COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), True),
    "psum of an own axis too": (lambda x: lax.psum(x, (1, "i")), True),
    "psum of a tree": (lambda x: sum(lax.psum({"a": x, "b": [x[0], 2.0]}, "i")["b"]), True),
    "pmean": (lambda x: lax.pmean(x, "i"), True),
    "pmax": (lambda x: lax.pmax(x, "i"), False),
    "pmin": (lambda x: lax.pmin(x, "i"), False),
    "all_gather": (lambda x: lax.all_gather(x, "i", axis=1), True),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", axis=1, tiled=True), True),
    "all_gather to invarying": (lambda x: lax.all_gather(x, "i", to="invarying"), True),
    "all_gather to invarying tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True, to="invarying"),
        True,
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), True),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        True,
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), True),
    "all_to_all tiled": (lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), True),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]), True),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 3, 0, 1]), True),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "i", 1), True),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), True),
    "axis_index": (lambda x: x * (1.0 + lax.axis_index("i")), True),
}


def on_devices(f, check_vma=True):
    """`f` of one element as a function of all, an element on each device along the first axis."""
    mesh = Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("i", "j"))
    one = lambda x: ga.tree.map(lambda y: gnp.asarray(y)[None], f(x[0]))
    return ga.shard_map(one, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check_vma)


def by_vmap(f):
    return ga.vmap(f, axis_name="i")


def same(a, b):
    for u, v in zip(ga.tree.leaves(a), ga.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(u), np.asarray(v))


def close(a, b):
    for u, v in zip(ga.tree.leaves(a), ga.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(u), np.asarray(v), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_values_are_those_of_vmap(name, check_vma):
    f, _ = COLLECTIVES[name]
    same(on_devices(f, check_vma)(X), by_vmap(f)(X))
    same(ga.jit(on_devices(f, check_vma))(X), by_vmap(f)(X))
    same(ga.pmap(f, "i")(X), by_vmap(f)(X))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n in COLLECTIVES if n not in ("pmean", "psum of a tree")])
def test_dtypes(name, dtype):
    if dtype == "bool" and "scatter" in name:
        return  # refused, see BAD
    f, _ = COLLECTIVES[name]
    x = gnp.asarray(X * 3).astype(dtype)
    got, want = on_devices(f)(x), by_vmap(f)(x)
    assert got.dtype == want.dtype
    same(got.astype("float32"), want.astype("float32"))


def scanned(f):
    def step(total, y):
        out = f(y)
        return total + (out.astype(y.dtype)).sum(), out

    return lambda x: lax.scan(step, gnp.zeros((), x.dtype), gnp.stack([x, 2 * x, -x]))


def counted(f):
    def loop(x):
        start = (gnp.zeros((), np.int32), gnp.zeros_like(x).sum())
        turn = lambda c: (c[0] + 1, c[1] + f(x * c[1]).sum())
        return lax.while_loop(lambda c: c[0] < 3, turn, start)[1]

    return loop


def chosen(f):
    choose = lambda x: lax.cond(lax.psum(x.sum(), "i") > 0, f, lambda y: f(2 * y), x)
    return lambda x: choose(x) - choose(-x)


INSIDE = {"scan": scanned, "while": counted, "cond": chosen, "remat": ga.checkpoint, "jit": ga.jit}


def test_reductions_of_weak_values_are_strong():
    reduced = lambda x: (lax.psum(x, "i"), lax.pmax(x, "i"), lax.pmin(x, "i"))
    weak = gnp.broadcast_to(1.0, (4,))
    assert weak.weak_type
    assert not any(out.weak_type for out in ga.pmap(reduced, "i")(weak))


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_inside_control_flow(name, inside):
    f = INSIDE[inside](COLLECTIVES[name][0])
    close(on_devices(f)(X), by_vmap(f)(X))
    close(on_devices(f, False)(X), by_vmap(f)(X))


@pytest.mark.parametrize("name", COLLECTIVES)
def test_under_vmap(name):
    f, _ = COLLECTIVES[name]
    x = np.stack([X, X + 1, 2 * X], 1)
    for check_vma in (True, False):
        close(ga.vmap(on_devices(f, check_vma), 1, 1)(x), ga.vmap(by_vmap(f), 1, 1)(x))
        g = ga.vmap(f, 0, 0)
        close(on_devices(g, check_vma)(x), by_vmap(g)(x))


DIFFERENTIABLE = [name for name, (_, smooth) in COLLECTIVES.items() if smooth]


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("inside", ["plain", *INSIDE])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name, inside, check_vma):
    f = COLLECTIVES[name][0]
    f = INSIDE.get(inside, lambda f: f)(lambda x, f=f: f(gnp.sin(x)))
    t = np.cos(3 * X)
    dev, ref = on_devices(f, check_vma), by_vmap(f)
    close(ga.jvp(dev, (X,), (t,)), ga.jvp(ref, (X,), (t,)))
    if inside == "while":
        return  # has no reverse mode
    out, pull = ga.vjp(dev, X)
    ref_out, ref_pull = ga.vjp(ref, X)
    close(out, ref_out)
    ct = ga.tree.map(lambda y: gnp.cos(y), ref_out)
    close(pull(ct), ref_pull(ct))
    close(ga.jit(ga.grad(lambda x: loss(dev(x))))(X), ga.grad(lambda x: loss(ref(x)))(X))


def loss(out):
    return sum((y**2).sum() for y in ga.tree.leaves(out))


def test_second_derivatives():
    f = lambda x: lax.psum(gnp.sin(x) * lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3)]), "i")
    curve = lambda g: ga.grad(lambda x: (ga.grad(lambda y: loss(g(y)))(x) ** 2).sum())
    close(curve(on_devices(f))(X), curve(by_vmap(f))(X))
    close(curve(on_devices(f, False))(X), curve(by_vmap(f))(X))


def grouped(x, groups, reduce):
    out = np.empty_like(x)
    for group in groups:
        out[group] = reduce(x[group], 0)
    return out


@pytest.mark.parametrize("over", ["shard_map", "pmap"])
def test_groups(over):
    run = (lambda f: ga.pmap(f, "i")) if over == "pmap" else on_devices
    for op, reduce in ((lax.psum, np.sum), (lax.pmax, np.max), (lax.pmin, np.min)):
        for groups in (GROUPS, [[1], [0, 3, 2]]):
            got = run(lambda x, op=op, g=groups: op(x, "i", axis_index_groups=g))(X)
            close(got, grouped(X, groups, reduce))
    got = run(lambda x: lax.pmean(x, "i", axis_index_groups=GROUPS))(X)
    close(got, grouped(X, GROUPS, np.mean))
    gathered = run(lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS))(X)
    want = np.empty((4, 2, 4, 4), np.float32)
    for group in GROUPS:
        want[group] = X[group]
    same(gathered, want)
    scattered = run(lambda x: lax.psum_scatter(x[:2], "i", axis_index_groups=GROUPS))(X)
    want = np.empty((4, 4), np.float32)
    for group in GROUPS:
        want[group] = X[group][:, :2].sum(0)
    close(scattered, want)
    swapped = run(lambda x: lax.all_to_all(x[:2], "i", 0, 0, axis_index_groups=GROUPS))(X)
    want = np.empty((4, 2, 4), np.float32)
    for group in GROUPS:
        want[group] = X[group][:, :2].transpose(1, 0, 2)
    same(swapped, want)


def test_groups_have_derivatives():
    w = np.cos(np.arange(64, dtype=np.float32)).reshape(4, 4, 4)
    f = lambda x: lax.psum(gnp.sin(x), "i", axis_index_groups=GROUPS)
    for check_vma in (True, False):
        got = ga.grad(lambda x, c=check_vma: (on_devices(f, c)(x) * w).sum())(X)
        close(got, grouped(w, GROUPS, np.sum) * np.cos(X))


def test_several_names_count_as_one_axis():
    mesh = Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("i", "j"))
    x = np.arange(16.0, dtype=np.float32)
    along = P(("i", "j"))
    both = lambda f, out=along: ga.shard_map(f, mesh=mesh, in_specs=P(("i", "j")), out_specs=out)(x)
    same(both(lambda v: lax.axis_index(("i", "j"))[None]), np.arange(8))
    same(both(lambda v: lax.axis_index(("j", "i"))[None]), np.array([0, 4, 1, 5, 2, 6, 3, 7]))
    same(both(lambda v: lax.psum(v, ("i", "j")), P()), x.reshape(8, 2).sum(0))
    gather = lambda v: lax.all_gather(v, ("i", "j"), tiled=True, to="invarying")
    same(both(gather, P()), x)
    turned = lambda v: lax.ppermute(v, ("i", "j"), [(k, (k + 1) % 8) for k in range(8)])
    same(both(turned), np.roll(x, 2))
    assert ga.shard_map(
        lambda: lax.axis_size(("i", "j")), mesh=mesh, in_specs=(), out_specs=P()
    )() == 8  # fmt: skip


def test_what_is_sent_along_several_axes_counts_as_the_mesh_does():
    # In JAX 0.10.2 axis_index and all_gather follow the order of the names; ppermute does not.
    mesh = Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("i", "j"))
    x = np.arange(8.0, dtype=np.float32)
    both = lambda f: ga.shard_map(f, mesh=mesh, in_specs=P(("i", "j")), out_specs=P(("i", "j")))
    ring = [(k, (k + 1) % 8) for k in range(8)]
    for names in (("i", "j"), ("j", "i")):
        send = both(lambda v, names=names: lax.ppermute(v, names, ring))
        same(send(x), np.roll(x, 1))
        same(ga.jit(ga.grad(lambda v, send=send: (send(v) * x).sum()))(x), np.roll(x, -1))
        same(both(lambda v, names=names: lax.pshuffle(v, names, [7, *range(7)]))(x), np.roll(x, 1))


@pytest.mark.parametrize("jitted", [False, True])
def test_branches_may_differ_along_axes_that_they_exchange_nothing_along(jitted):
    mesh = Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("i", "j"))

    def body(v):
        stage = lambda v: ga.lax.psum(gnp.sin(v), "j")
        v = lax.cond(lax.axis_index("i") > 1, stage, lambda v: 3 * v, v)
        return lax.ppermute(v, "i", [(k, (k + 1) % 4) for k in range(4)])

    along = P(("i", "j"))
    f = ga.shard_map(body, mesh=mesh, in_specs=along, out_specs=along, check_vma=False)
    x = RNG.standard_normal((4, 2)).astype(np.float32)
    staged = np.broadcast_to(np.sin(x).sum(1, keepdims=True), x.shape)
    want = np.roll(np.concatenate([3 * x[:2], staged[2:]]), 1, axis=0)
    found = (ga.jit(f) if jitted else f)(x.reshape(8))
    np.testing.assert_allclose(np.asarray(found).reshape(4, 2), want, rtol=1e-5)


BAD = {
    "no such axis": (lambda x: lax.psum(x, "z"), NameError, "unbound axis name: z"),
    "an axis twice": (lambda x: lax.psum(x, ("i", "i")), ValueError, "repeated axis.*of psum"),
    "gathered along an axis twice": (
        lambda x: lax.all_gather(x, ("i", "j", "i")),
        ValueError,
        "repeated axis.*of all_gather",
    ),
    "no partition": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [1, 2]]),
        ValueError,
        "must cover all indices",
    ),
    "uneven gather": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [1, 2, 3]]),
        ValueError,
        "same size",
    ),
    "two senders": (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), ValueError, "unique"),
    "beyond the axis": (lambda x: lax.ppermute(x, "i", [(0, 4)]), ValueError, "0 to 3"),
    "unknown to": (lambda x: lax.all_gather(x, "i", to="there"), ValueError, "Allowed `to`"),
    "cast twice": (lambda x: lax.pcast(x, "i", to="varying"), ValueError, "from=varying"),
    "names in a set": (lambda x: lax.pcast(x, {"j"}, to="varying"), TypeError, "tuple or a str"),
    "split that does not fit": (lambda x: lax.all_to_all(x[:3], "i", 0, 0), ValueError, "equal"),
    "sum of booleans in parts": (lambda x: lax.psum_scatter(x > 0, "i"), TypeError, "bool"),
    "derivative of pmax": (
        lambda x: ga.grad(lambda y: lax.pmax(y, "i").sum())(x),
        NotImplementedError,
        "pmax",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    f, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        on_devices(f)(X)


# ---- random bodies ----


def body(rng):
    """A random function of (2, 2) blocks that uses collectives along both axes."""
    steps = []
    for _ in range(rng.integers(2, 6)):
        name = (
            ("i", "j", ("i", "j"))[rng.integers(3)] if rng.random() < 0.3 else "ij"[rng.integers(2)]
        )
        kind = rng.choice(
            ["psum", "gather", "permute", "scatter", "index", "mix", "all_to_all", "max"]
        )
        steps.append((str(kind), name))
    turn = int(rng.integers(1, 3))

    def run(x):
        for kind, name in steps:
            one = name if isinstance(name, str) else "i"
            size = lax.axis_size(one)
            if kind == "psum":
                x = x + 0.5 * lax.psum(x, name)
            elif kind == "max":
                x = x - lax.stop_gradient(lax.pmax(lax.stop_gradient(x), name))
            elif kind == "gather":
                x = x * lax.all_gather(x, one, axis=0, tiled=True)[:2]
            elif kind == "permute":
                x = x + lax.ppermute(x, one, [(k, (k + turn) % size) for k in range(size)])
            elif kind == "scatter":
                x = x + lax.psum_scatter(gnp.tile(x, (size, 1)), one, tiled=True)
            elif kind == "all_to_all":
                x = x + lax.all_to_all(gnp.tile(x, (size, 1)), one, 0, 0, tiled=True)[:2]
            elif kind == "index":
                x = x * (1 + lax.axis_index(one))
            else:
                x = gnp.sin(x) + x.T
        return x

    return run


@pytest.mark.parametrize("seed", range(24))
def test_random_bodies_mean_the_same_as_nested_vmaps(seed):
    rng = np.random.default_rng(seed)
    f = body(rng)
    mesh = Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("i", "j"), (AxisType.Auto,) * 2)
    x = rng.standard_normal((4, 2, 2, 2)).astype(np.float32)
    nested = ga.vmap(ga.vmap(f, axis_name="j"), axis_name="i")
    for check_vma in (True, False):
        dev = ga.shard_map(
            lambda v: f(v[0, 0])[None, None],
            mesh=mesh,
            in_specs=P("i", "j"),
            out_specs=P("i", "j"),
            check_vma=check_vma,
        )
        close(dev(x), nested(x))
        got, want = (ga.grad(lambda v, g=g: gnp.sin(g(v)).sum())(x) for g in (dev, nested))
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-3, atol=2e-3)
