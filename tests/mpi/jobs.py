"""Programs that test_processes.py runs under mpiexec: `python -m tests.mpi.jobs NAME`.

Each is run by every process. What it finds is asserted here; what must be seen from outside (exit
codes, messages) it prints.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import multihost_utils
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.exchanging import exchanging


def mesh_of(*shape, names="xyz"):
    shape = shape or (len(ga.devices()),)
    return Mesh(np.array(ga.devices()).reshape(shape), tuple(names[: len(shape)]))


def pieces_are(x, whole, close=False):
    """Assert that the pieces here are those of a NumPy array."""
    assert x.shape == whole.shape and x.dtype == whole.dtype, (x.shape, x.dtype, whole.dtype)
    for shard in x.addressable_shards:
        assert shard.device in ga.local_devices()
        got, wanted = np.asarray(shard.data), whole[shard.index]
        if close:
            np.testing.assert_allclose(
                got.astype(np.float64), wanted.astype(np.float64), rtol=close
            )
        else:
            np.testing.assert_array_equal(got, wanted)


# ---- arrays ----


def arrays():
    count, rank = len(ga.devices()), ga.process_index()
    local = ga.local_devices()
    assert ga.process_count() == 2 and ga.process_indices() == [0, 1]
    assert [d.id for d in ga.devices()] == list(range(count))
    assert {d.process_index for d in local} == {rank} and len(local) == count // 2
    assert ga.local_devices(process_index=1 - rank) == [
        d for d in ga.devices() if not d.is_addressable
    ]
    mesh = mesh_of()
    cut, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    value = np.arange(8.0 * count, dtype=np.float32).reshape(count, 8)
    x = ga.device_put(value, cut)
    assert not x.is_fully_addressable and not x.is_fully_replicated
    assert len(x.addressable_shards) == len(local) and len(x.global_shards) == count
    assert sum(s.data is None for s in x.global_shards) == count - len(local)
    pieces_are(x, value)
    # A value that is in part elsewhere cannot be read, and says what can.
    for read in (np.asarray, str, lambda x: x.tolist()):
        try:
            read(x)
        except RuntimeError as error:
            assert "process_allgather" in str(error) and "addressable_shards" in str(error)
        else:
            raise AssertionError("the value of an array in two processes was read")
    assert repr(x) == f"Array(shape={value.shape}, dtype=float32)"
    # Replicated ones are read like any other.
    np.testing.assert_array_equal(np.asarray(ga.device_put(value, whole)), value)
    # From layout to layout, and the ways to make arrays of pieces.
    columns = NamedSharding(mesh, P(None, "x"))
    np.testing.assert_array_equal(np.asarray(ga.device_put(x, whole)), value)
    square = np.arange(float(count**2), dtype=np.float32).reshape(count, count)
    pieces_are(ga.device_put(ga.device_put(square, cut), columns), square)
    pieces_are(ga.make_array_from_callback(square.shape, columns, lambda i: square[i]), square)
    given = [ga.device_put(value[d.id : d.id + 1], d) for d in local]
    pieces_are(ga.make_array_from_single_device_arrays(value.shape, cut, given), value)
    half = value[rank * count // 2 : (rank + 1) * count // 2]
    make = ga.make_array_from_process_local_data
    pieces_are(make(cut, half), value)
    pieces_are(make(cut, half, value.shape), value)
    pieces_are(make(cut, half, (None, 8)), value)
    pieces_are(
        make(columns, square[:, : count // 2] * 0 + rank),
        np.repeat([[0, 1]], count, 0).repeat(count // 2, 1).astype(np.float32),
    )
    pieces_are(make(cut, value, value.shape), value)
    np.testing.assert_array_equal(np.asarray(make(whole, value)), value)
    for bad, words in (
        (lambda: make(cut, half, (3 * count, 8)), "expected"),
        (lambda: ga.device_put(value, ga.local_devices(process_index=1 - rank)[0]), "non-address"),
        (lambda: ga.device_put(np.float32(rank), whole), "not the same in all processes"),
        (lambda: ga.make_array_from_single_device_arrays(value.shape, cut, []), "needs a piece"),
    ):
        try:
            bad()
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


# ---- collectives: on devices of several processes as under vmap in one ----

DTYPES = "float32,float64,float16,bfloat16,int32,int8,uint8,complex64,bool"


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    kind = ga.dtypes.canonicalize_dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return rng.integers(0, 100, shape).astype(kind)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if kind.kind == "c" else x).astype(kind)


def collectives(dtypes=DTYPES):
    ga.config.update("jax_enable_x64", True)
    n = len(ga.devices())
    mesh = mesh_of()
    turn = [(i, (i + 3) % n) for i in range(n) if i != 1]
    bodies = {
        "psum": lambda x: lax.psum(x, "x"),
        "pmax": lambda x: lax.pmax(x, "x"),
        "pmin": lambda x: lax.pmin(x, "x"),
        "gather": lambda x: lax.all_gather(x, "x"),
        "gather tiled": lambda x: lax.all_gather(x, "x", axis=1, tiled=True),
        "scatter": lambda x: lax.psum_scatter(x, "x"),
        "scatter tiled": lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
        "gathers together": lambda x: [lax.all_gather(v, "x") for v in (x, x[:, :1], x[0, 0])],
        "scatter together": lambda x: [
            lax.psum_scatter(x, "x"),
            lax.psum_scatter(x.T, "x", scatter_dimension=1),
            lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
        ],
        "to all": lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True),
        "to all back": lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True),
        "permute": lambda x: lax.ppermute(x, "x", turn),
        "index": lambda x: x + lax.axis_index("x").astype(x.dtype),
    }
    for dtype in dtypes.split(","):
        whole = numbers((n, n, 2 * n), dtype)
        if dtype.startswith("float") or dtype == "bfloat16":
            whole[1, 0, 0], whole[n - 1, 0, 1] = np.nan, -np.inf
        x = ga.device_put(whole, NamedSharding(mesh, P("x")))
        for name, body in bodies.items():
            sums = name == "psum" or "scatter" in name
            if dtype == "bool" and (sums or name == "index"):
                continue
            if dtype == "complex64" and name in ("pmax", "pmin"):
                continue
            one = lambda x, body=body: ga.tree.leaves(body(x))
            mapped = ga.shard_map(
                lambda x, one=one: [v[None] for v in one(x[0])],
                mesh=mesh,
                in_specs=P("x"),
                out_specs=P("x"),
                check_vma=False,
            )
            wanted = list(map(np.asarray, ga.vmap(one, axis_name="x")(whole)))
            # Sums are added up in another order.
            close = {"float32": 2e-6, "float64": 1e-14, "complex64": 1e-5}.get(dtype, 2e-2)
            close = close if sums and dtype not in ("int32", "int8", "uint8") else 0
            found = ga.jit(mapped)(x)
            pairs = zip(found, wanted, strict=True)
            for shard, whole_one in [(s, w) for v, w in pairs for s in v.addressable_shards]:
                got, here = np.asarray(shard.data), whole_one[shard.index]
                assert got.dtype == here.dtype and got.shape == here.shape, (name, dtype)
                wide = lambda a: a.astype(np.complex128)
                np.testing.assert_allclose(
                    wide(got), wide(here), close, 10 * close, err_msg=f"{name} of {dtype}"
                )
    # Groups, axes of two-dimensional meshes, several operands, integers exactly.
    whole = np.arange(n * 6).reshape(n, 6)
    groups = [[0, n - 1], *[[i, n - 1 - i] for i in range(1, n // 2)]]
    x = ga.device_put(whole, NamedSharding(mesh, P("x")))
    rows = P("x")
    on = lambda f, out=rows: ga.jit(
        ga.shard_map(f, mesh=mesh, in_specs=rows, out_specs=out, check_vma=False)
    )
    wanted = np.concatenate([whole[i] + whole[n - 1 - i] for i in range(n)]).reshape(n, 6)
    pieces_are(on(lambda x: lax.psum(x, "x", axis_index_groups=groups))(x), wanted)
    paired = on(lambda x: lax.all_gather(x, "x", axis_index_groups=groups))(x)
    order = {d: group for group in groups for d in group}
    for shard in paired.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data)[:, 0], whole[order[shard.device.id]])
    a, b = on(lambda x: (lax.psum(x, "x"), lax.pmax(x[0, 0], "x")), (P(), P()))(x)
    np.testing.assert_array_equal(np.asarray(a), whole.sum(0, keepdims=True))
    assert int(b) == whole[:, 0].max()
    grid = mesh_of(2, n // 2)
    x = ga.device_put(whole.reshape(2, n // 2, 6), NamedSharding(grid, P("x", "y")))
    for names, axes in (("x", 0), ("y", 1), (("x", "y"), (0, 1))):
        mapped = ga.shard_map(
            lambda x, names=names: lax.psum(x, names),
            mesh=grid,
            in_specs=P("x", "y"),
            out_specs=P("x", "y"),
            check_vma=False,
        )
        full = whole.reshape(2, n // 2, 6)
        pieces_are(ga.jit(mapped)(x), np.broadcast_to(full.sum(axes, keepdims=True), full.shape))


def loops():
    """Collectives in loops and branches, and messages in pieces."""
    from gpuarray.backends import mpi

    mpi.CHUNK = 48  # bytes or elements
    n, mesh = len(ga.devices()), mesh_of()
    whole = np.random.default_rng(0).integers(0, 50, (n, 40)).astype(np.int32)
    x = ga.device_put(whole, NamedSharding(mesh, P("x")))

    def body(x):
        x, ys = lax.scan(lambda c, _: (c + lax.psum(c, "x") % 7, lax.pmax(c, "x")), x, None, 3)
        x = lax.while_loop(
            lambda c: lax.psum(c.sum(), "x") < 10**6,
            lambda c: c + lax.ppermute(c, "x", [(i, (i + 1) % n) for i in range(n)]),
            x,
        )
        x = lax.cond(lax.psum(x.sum(), "x") > 0, lambda v: lax.psum(v, "x"), lambda v: v, x)
        return x + lax.all_gather(x, "x").sum(0) + ys.sum(0)

    wanted = np.asarray(ga.vmap(body, axis_name="x")(whole))
    mapped = ga.shard_map(
        lambda x: body(x[0])[None], mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    pieces_are(ga.jit(mapped)(x), wanted)
    pieces_are(mapped(x), wanted)  # without jit


def overlap():
    """Many exchanges in progress at a time, in random programs, and in buckets."""
    from gpuarray.backends import mpi

    most = [0]
    started = mpi.Processes._started

    def noted(self, exchange, operands):
        going = started(self, exchange, operands)
        most[0] = max(most[0], len(self.world.going))
        return going

    mpi.Processes._started = noted
    n, mesh = len(ga.devices()), mesh_of()
    cut = NamedSharding(mesh, P("x"))
    for seed in range(6):
        fun, given = exchanging(seed, n, name="x")
        whole = [np.stack(rows) for rows in zip(*given, strict=True)]
        wanted = ga.vmap(fun, axis_name="x")(*whole)
        mapped = ga.shard_map(
            lambda x, y, fun=fun: [v[None] for v in fun(x[0], y[0])],
            mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False,
        )  # fmt: skip
        out = ga.jit(mapped)(*(ga.device_put(v, cut) for v in whole))
        for got, want in zip(out, wanted, strict=True):
            pieces_are(got, np.asarray(want), close=1e-4)
    if ga.process_index() == 0:
        print(f"{most[0]} at a time")


# ---- programs ----


def weights():
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32) / 4
    return {"a": draw(8, 16), "b": draw(16), "c": draw(16, 4)}, draw(32, 8), draw(32, 4)


def loss(w, x, y):
    return gnp.mean((gnp.tanh(x @ w["a"] + w["b"]) @ w["c"] - y) ** 2)


@ga.jit
def step(w, x, y):
    value, slopes = ga.value_and_grad(loss)(w, x, y)
    return value, ga.tree.map(lambda w, g: w - 0.1 * g, w, slopes)


def train(w, x, y, steps, report=False):
    for i in range(steps):
        value, w = step(w, x, y)
        if report and ga.process_index() == 0:
            print(f"step {i}: loss {value:.6f}", flush=True)  # on one process only
    return value, w


def alone(steps):
    """The same training on one device."""
    return train(*weights(), steps)


def training():
    """Data parallel, tensor parallel, and with everything cut: as on one device."""
    mesh = mesh_of(2, len(ga.devices()) // 2)
    wanted, expected = alone(4)
    layouts = {
        "data": ({"a": P(), "b": P(), "c": P()}, P(("x", "y"))),
        "tensor": ({"a": P(None, "x"), "b": P("x"), "c": P("x")}, P("y")),
        "both": ({"a": P("x", "y"), "b": P("y"), "c": P("y", "x")}, P("x")),
    }
    for cuts, rows in layouts.values():
        w, x, y = weights()
        w = {k: ga.device_put(v, NamedSharding(mesh, cuts[k])) for k, v in w.items()}
        x, y = (ga.device_put(v, NamedSharding(mesh, rows)) for v in (x, y))
        value, w = train(w, x, y, 4, report=True)
        np.testing.assert_allclose(float(value), float(wanted), rtol=1e-5)
        for k, v in w.items():
            found = multihost_utils.process_allgather(v, tiled=True)
            np.testing.assert_allclose(found, np.asarray(expected[k]), rtol=1e-4, atol=1e-6)
    print(f"trained {float(wanted):.6f}", flush=True)


def checkpoint(folder, first):
    """Half of a training, or the other half on another number of processes."""
    rows = NamedSharding(mesh_of(), P("x"))
    w, x, y = weights()
    if not first:
        saved = [np.load(f) for f in sorted(Path(folder).glob("*.npz"))]
        for k, v in w.items():
            whole = np.full_like(v, np.nan)
            for found in saved:
                for name in found.files:
                    key, *bounds = name.split("_")
                    if key == k:
                        a = [slice(int(s), int(e)) for s, e in zip(bounds[::2], bounds[1::2])]
                        whole[tuple(a)] = found[name]
            w[k] = whole
    w = {
        k: ga.make_array_from_callback(v.shape, rows, lambda i, v=v: v[i])
        if len(v) % 4 == 0
        else ga.device_put(v, NamedSharding(rows.mesh, P()))
        for k, v in w.items()
    }
    x, y = ga.device_put((x, y), rows)
    value, w = train(w, x, y, 2)
    if first:
        parts = {}
        for k, v in w.items():
            for shard in v.addressable_shards:
                ends = [e for s, n in zip(shard.index, v.shape) for e in s.indices(n)[:2]]
                parts["_".join([k, *map(str, ends)])] = np.asarray(shard.data)
        np.savez(Path(folder) / f"{ga.process_index()}.npz", **parts)
    else:
        np.testing.assert_allclose(float(value), float(alone(4)[0]), rtol=1e-5)


def save(folder):
    checkpoint(folder, True)


def restore(folder):
    checkpoint(folder, False)


def mixed():
    """Eager operations and jitted ones in turn; what one process alone asks hangs nobody."""
    n, mesh = len(ga.devices()), mesh_of()
    value = np.arange(float(n * 3), dtype=np.float32).reshape(n, 3)
    x = ga.device_put(value, NamedSharding(mesh, P("x")))
    total = ga.jit(lambda x: x.sum())
    y = x * 2 + 1  # no communication
    assert (type(y._work).__name__ == "Node") == (ga.config.lazy_threshold == 0)
    assert y.sum()._work is None  # communication: dispatched where it is called
    mean = y.mean()
    pending = gnp.ones(100_000) * 3  # of this process only, and pending
    if ga.process_index() == 0:
        print("mean", float(mean), float(pending.sum()), flush=True)
        y + 1  # what needs no other process may be done by one
    z = total(y) + mean * gnp.float32(2)
    w = gnp.sort(gnp.ravel(x - mean))[::-1]
    s = gnp.einsum("ij,ik->jk", x, y)
    plain = value * 2 + 1
    assert float(z) == plain.sum() + 2 * plain.mean()
    np.testing.assert_array_equal(
        multihost_utils.process_allgather(w, tiled=True),
        np.sort((value - plain.mean()).ravel())[::-1],
    )
    np.testing.assert_allclose(
        multihost_utils.process_allgather(s, tiled=True), value.T @ plain, rtol=1e-6
    )
    # No process has the value of what is closed over, so a recomputation is given it.
    slope = ga.jit(ga.grad(ga.checkpoint(lambda v: (gnp.sin(v) * y).sum())))(x)
    pieces_are(slope, np.cos(value) * plain, close=1e-4)
    # So are the rules of what is inside, which tell that they need it when they are called.
    scaled = ga.custom_vjp(lambda v: gnp.sin(v) * y)
    scaled.defvjp(lambda v: (scaled(v), v), lambda v, ct: (gnp.cos(v) * y * ct,))
    slope = ga.jit(ga.grad(lambda v: ga.checkpoint(scaled)(v).sum()))(x)
    pieces_are(slope, np.cos(value) * plain, close=1e-4)
    # A device may write over what it has sent to another one of its process.
    shift = [(i, (i + 1) % n) for i in range(n)]

    def over_what_was_sent(v):
        v = gnp.sort(v, axis=1)
        received = lax.cumsum(lax.ppermute(v, "x", shift), axis=1)
        return received, lax.dynamic_update_slice(v, received[:1, :1] * 0 + 7, (0, 0))

    received, _ = ga.jit(
        ga.shard_map(over_what_was_sent, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    )(x)
    pieces_are(received, np.cumsum(np.roll(value, 1, 0), axis=1))
    # Numbers beside an array are one row for each device of this process, also in later calls.
    for _ in range(3):
        pieces_are(gnp.clip(x, 2, 5), np.clip(value, 2, 5))
    found = gnp.nonzero(x > 4, size=value.size, fill_value=-1)[0]
    assert np.asarray(found)[: (value > 4).sum()].tolist() == np.nonzero(value > 4)[0].tolist()
    key = ga.random.key(3)
    drawn = ga.jit(
        lambda k: ga.random.normal(k, (n, 4)), out_shardings=NamedSharding(mesh, P("x"))
    )(key)
    pieces_are(drawn, np.asarray(ga.random.normal(key, (n, 4))), 1e-6)
    # A mesh of one process's devices is its own business.
    if ga.process_index() == 1:
        mine = Mesh(np.array(ga.local_devices()), ("x",))
        assert float(total(ga.device_put(value, NamedSharding(mine, P())))) == value.sum()
    print("mixed done", flush=True)


def helpers():
    """experimental.multihost_utils."""
    rank, count = ga.process_index(), ga.process_count()
    m, mesh = multihost_utils, mesh_of()
    m.sync_global_devices("start")
    tree = {"a": np.full((2,), rank, np.int32), "b": float(rank)}
    stacked = m.process_allgather(tree)
    np.testing.assert_array_equal(stacked["a"], np.repeat(np.arange(count), 2).reshape(count, 2))
    assert stacked["b"].shape == (count,) and stacked["b"][-1] == count - 1
    assert m.process_allgather(tree["a"], tiled=True).shape == (2 * count,)
    sent = m.broadcast_one_to_all(tree)
    assert sent["a"].tolist() == [0, 0] and sent["b"] == 0
    assert m.broadcast_one_to_all(rank, is_source=rank == count - 1) == count - 1
    m.assert_equal({"x": np.ones(3)}, "equal")
    try:
        m.assert_equal(np.int32(rank), "ranks differ")
    except AssertionError as error:
        assert "ranks differ" in str(error)
    else:
        raise AssertionError("assert_equal found ranks equal")
    local = np.full((len(ga.local_devices()), 3), rank, np.float32)
    whole = m.host_local_array_to_global_array(local, mesh, P("x"))
    assert whole.shape == (len(ga.devices()), 3)
    assert float(ga.jit(gnp.sum)(whole)) == 3 * sum(d.process_index for d in ga.devices())
    back = m.global_array_to_host_local_array(whole, mesh, P("x"))
    np.testing.assert_array_equal(np.asarray(back), local)
    with m.live_devices(ga.devices()) as live:
        assert live == ga.devices()
    try:
        m.reached_preemption_sync_point(1)
    except RuntimeError as error:
        assert "preemption" in str(error)
    ga.distributed.shutdown()
    assert not ga.distributed.is_initialized()


def mapped():
    """pmap: each process has the elements of its own devices."""
    here, every = len(ga.local_devices()), len(ga.devices())
    first = sum(d.process_index < ga.process_index() for d in ga.devices())
    whole = np.arange(every * 3, dtype=np.float32).reshape(every, 3)
    mine = whole[first : first + here]
    total = lambda v: (v / lax.psum(v, "i"), lax.psum(v.sum(), "i"))
    shares, found = ga.pmap(total, "i", out_axes=(0, None))(mine)
    assert shares.shape == (here, 3) and shares.is_fully_addressable
    np.testing.assert_allclose(shares, mine / whole.sum(0), rtol=1e-6)
    assert float(found) == whole.sum() and found.is_fully_addressable
    # Results go into the next call; numbers of devices are those of all.
    again = ga.pmap(lambda v, w: v * w + lax.axis_index("i"), "i", in_axes=(0, None))(shares, 2.0)
    numbers = np.arange(first, first + here)[:, None]
    np.testing.assert_allclose(again, 2 * mine / whole.sum(0) + numbers, rtol=1e-6)
    columns = ga.pmap(lambda v: lax.pmean(v, "i"), "i", in_axes=1, out_axes=1)(mine.T)
    np.testing.assert_allclose(columns, np.tile(whole.mean(0)[:, None], (1, here)), rtol=1e-6)
    try:
        ga.pmap(lambda v: v)(np.zeros((here + 1, 2)))
    except ValueError as error:
        assert f"only {here} XLA devices are available" in str(error), error
    else:
        raise AssertionError("more elements than devices")
    try:
        ga.jit(ga.pmap(lambda v: v))(mine)
    except ValueError as error:
        assert "pmap over several processes" in str(error), error
    else:
        raise AssertionError("pmap of traced values over processes")


# ---- ends ----


def raises():
    x = ga.device_put(np.ones(len(ga.devices()), np.float32), NamedSharding(mesh_of(), P("x")))
    if ga.process_index() == 1:
        raise ArithmeticError("process 1 gives up")
    for _ in range(3):
        print(float(x.sum()))


def killed():
    x = ga.device_put(np.ones(len(ga.devices()), np.float32), NamedSharding(mesh_of(), P("x")))
    for i in range(3):
        if i == 2 and ga.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        float(x.sum())


def stuck():
    ga.config.update("collective_timeout", 1)
    x = ga.device_put(np.ones(len(ga.devices()), np.float32), NamedSharding(mesh_of(), P("x")))
    float(x.sum())
    if ga.process_index() == 1:
        time.sleep(50)
    float(x.sum())  # the line that is named


def callbacks():
    """Python functions run once for all devices, in the process of the first one."""
    x = ga.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh_of(), P("x")))

    def f(x):
        ga.debug.print("the sum is {}", x.sum())
        double = lambda v: np.asarray(v) * 2
        return (x + ga.pure_callback(double, ga.ShapeDtypeStruct((8,), "float32"), x)).sum()

    assert float(ga.jit(f)(x)) == 84
    ga.effects_barrier()


def different():
    x = ga.device_put(np.ones(len(ga.devices()), np.float32), NamedSharding(mesh_of(), P("x")))
    reduce = gnp.max if ga.process_index() == 1 else gnp.sum
    try:
        ga.jit(lambda x: reduce(x))(x)
    except RuntimeError as error:
        text = str(error)
        assert "psum" in text and "pmax" in text and "jobs.py" in text, text
        print("found different programs", flush=True)
    # All processes know, and go on.
    assert float(ga.jit(lambda x: x.sum())(x)) == len(ga.devices())


def leaves():
    sys.exit(5)


def main(name, *args):
    if name == "helpers":
        for given in ({"num_processes": 7}, {"process_id": 9}):
            try:
                ga.distributed.initialize(**given)
            except ValueError as error:
                assert "MPI says" in str(error)
            else:
                raise AssertionError(given)
    ga.distributed.initialize()
    globals()[name](*args)


if __name__ == "__main__":
    main(*sys.argv[1:])
