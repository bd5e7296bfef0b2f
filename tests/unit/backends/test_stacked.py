"""Loops of several devices on stacks of their values: the bits are those of each device alone."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import stacked
from gpuarray.runtime import fleet
from gpuarray.sharding import Mesh
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices


def loop(step, count=3):
    return lambda v: lax.fori_loop(0, count, lambda i, v: step(v), v)


def turned(v):
    return lax.ppermute(v, "x", [(i, (i + 1) % 4) for i in range(4)])


def scanned(v):
    def step(total, row):
        total = total + lax.psum(row * total, "x") / 40
        return total, lax.pmax(total, "x") - row

    total, rows = lax.scan(step, v[0], v, reverse=True)
    return rows + total


def nested(v):
    inner = loop(lambda v: v - lax.pmean(v, "x") / 3 + v.sum() / 7, 2)
    return loop(lambda v: ga.jit(inner)(v) + lax.axis_index("x"))(v)


LOOPS: dict[str, Any] = {
    "psum": loop(lambda v: v / lax.psum(v, "x") + 1),
    "sums of rows": loop(lambda v: v / (1 + abs(lax.psum(v.sum(1, keepdims=True), "x")))),
    "sums of columns": loop(lambda v: v / (1 + abs(lax.psum(v.sum(0), "x")))),
    "two sums": loop(lambda v: v / lax.psum(v, "x") + lax.psum(v.sum(1, keepdims=True), "x")),
    "gathered": loop(lambda v: v + lax.all_gather(v, "x").max(0)),
    "ppermute": loop(lambda v: gnp.sin(turned(v)) + v),
    "all_to_all": loop(lambda v: lax.all_to_all(v, "x", 0, 1, tiled=True).reshape(v.shape) * 1.5),
    "psum_scatter": loop(lambda v: gnp.tile(lax.psum_scatter(v, "x", tiled=True) / 3, (4, 1))),
    "the same choice everywhere": loop(
        lambda v: (
            gnp.where(gnp.arange(v.size).reshape(v.shape) % 4 > 1, 0.5, 1.25) * lax.psum(v, "x")
        )
    ),
    "scan": scanned,
    "nested": nested,
}
SHAPES = {"all_to_all": (16, 4), "psum_scatter": (16, 4)}


def both_ways(f, x, monkeypatch, mesh, spec):
    found = []
    for small in (stacked.SMALL, -1):
        monkeypatch.setattr(stacked, "SMALL", small)
        ga.clear_caches()  # programs are equal, and kept for equal ones
        made = []
        keep = lambda *args, made=made: made.append(stacked.stacked(*args)) or made[-1]
        monkeypatch.setattr(fleet, "stacked", keep)
        mapped = ga.shard_map(
            lambda v: f(v), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        found.append(np.asarray(ga.jit(mapped)(x)))
        assert [m is not None for m in made] == [small > 0]
    return found


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "bfloat16"])
def test_stacks_have_the_bits_of_each_device(name, dtype, monkeypatch):
    if dtype == "complex64" and name in ("gathered", "scan"):
        pytest.skip("complex numbers have no order")
    mesh: Any = Mesh(np.array(ga.devices()[:4]), ("x",))
    rows, columns = SHAPES.get(name, (20, 3))
    x = np.random.default_rng(0).uniform(-1, 1, (rows, columns)) * (1 + 0.5j)
    x = gnp.asarray(x if dtype == "complex64" else x.real, dtype)
    a, b = both_ways(LOOPS[name], x, monkeypatch, mesh, P("x"))
    assert a.tobytes() == b.tobytes()


def test_results_that_are_the_same_are_there_once():
    mesh: Any = Mesh(np.array(ga.devices()[:4]), ("x",))
    x = np.random.default_rng(1).uniform(1, 2, (8, 4)).astype(np.float32)
    f = ga.shard_map(
        lambda v: lax.fori_loop(0, 3, lambda i, s: s + lax.psum(v, "x").sum(), 0.0),
        mesh=mesh, in_specs=P("x"), out_specs=P(),
    )  # fmt: skip
    out = ga.jit(f)(x)
    np.testing.assert_allclose(out, 3 * x.sum(), rtol=1e-5)
    assert len({s.data.unsafe_buffer_pointer() for s in out.addressable_shards}) == 1


WAYS = {
    "while": lambda v: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + lax.pmax(c, "x"), v),
    "cond": loop(lambda v: lax.cond(v.sum() > 3, lambda v: v, lambda v: v + 1, lax.psum(v, "x"))),
    "callback": loop(
        lambda v: ga.pure_callback(
            lambda v: v, ga.ShapeDtypeStruct(v.shape, v.dtype), lax.psum(v, "x")
        )
    ),
    "groups": loop(lambda v: v + lax.all_gather(v, "x", axis_index_groups=[[0, 3], [2, 1]]).max(0)),
    "matmul": loop(lambda v: lax.psum(v @ gnp.ones((3, 3)), "x") / 9),
    "no exchange in the loop": lambda v: lax.psum(loop(lambda v: v + 1)(v), "x"),
    "large": lambda v: loop(lambda v: lax.psum(v, "x"))(gnp.tile(v, (1, 1024))),
}


@pytest.mark.parametrize("name", WAYS)
def test_devices_that_may_take_their_own_ways_run_one_by_one(name, monkeypatch):
    ga.clear_caches()
    made = []
    keep = lambda *args: made.append(stacked.stacked(*args)) or made[-1]
    monkeypatch.setattr(fleet, "stacked", keep)
    mesh: Any = Mesh(np.array(ga.devices()[:4]), ("x",))
    f = ga.shard_map(
        lambda v: WAYS[name](v), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    ga.jit(f)(np.ones((4, 3), np.float32))
    assert made == [None]


def test_rules_of_the_users_for_batches_are_not_asked():
    asked = []
    double = ga.custom_batching.custom_vmap(lambda v: v * 2)

    @double.def_vmap
    def rule(size, batched, v):
        asked.append(size)
        return v * 2, batched[0]

    mesh: Any = Mesh(np.array(ga.devices()[:4]), ("x",))
    step = loop(lambda v: double(v) / lax.psum(v, "x"))
    f = ga.shard_map(step, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    ga.jit(f)(np.ones((4, 3), np.float32))
    assert not asked
