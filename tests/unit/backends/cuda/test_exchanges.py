"""How GPUs that are not there exchange values: in every order, and with planted mistakes.

In: seeds of the stand-in's schedule, calls that are left out or differ, failures. Out: the same
values in every order and no fault; a fault for each mistake; errors that say where.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import writer
from gpuarray.backends.cuda import device, nccl
from gpuarray.config import config
from gpuarray.sharding import Mesh
from gpuarray.sharding import PartitionSpec as P
from tests.fake_cupy import installed
from tests.support import simulated
from tests.support.exchanges import check, machine, sharded
from tests.support.targets import plan_for

simulated.need_compiler()

SEEDS = range(20)


@pytest.fixture
def four():
    """Four GPUs with NCCL."""
    with machine("nccl", 4) as (world, found):
        yield world, found


# ---- schedules ----
def program(mesh):
    """Exchanges of every kind behind each other, with values that die in between."""
    n = mesh.size

    def body(v, w):
        w = lax.psum(gnp.sin(v) * w, "x") + w
        t = lax.all_to_all(w[None] * gnp.arange(1.0, n + 1)[:, None], "x", 0, 0)
        u = lax.psum_scatter(t, "x") * lax.axis_index("x")
        u = lax.ppermute(u, "x", [(i, (i + 1) % n) for i in range(n)])
        return lax.all_gather(u, "x").sum(0) + v, lax.pmax(u, "x") - w

    return body


@pytest.mark.parametrize("engine", ["nccl", "copies", "logical"])
def test_every_order_gives_the_same(engine):
    x, w = (np.random.default_rng(i).uniform(-1, 1, 16).astype(np.float32) for i in (1, 2))
    with machine(engine, 4) as (world, mesh):
        world.remembered = {}
        body = program(mesh)
        with ga.default_device(ga.devices("cpu")[0]):
            rows = [v.reshape(4, 4) for v in (x, w)]
            wanted = [np.asarray(o).ravel() for o in ga.vmap(body, axis_name="x")(*rows)]
        f = ga.jit(ga.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
        g = ga.jit(f, donate_argnums=0)
        for seed in SEEDS:
            world.reseed(seed)
            for made in in_turn(f, g, sharded(x, mesh, "x"), w):
                for o, e in zip(made, wanted, strict=True):
                    np.testing.assert_allclose(o, e, rtol=1e-4, atol=1e-4)
            assert not world.faults, (seed, world.faults[0])


def in_turn(f, g, a, b) -> list:
    """Results of calls behind each other, some of which give their operand away."""
    made = [f(a, b), g(a + 0, b), f(a, b), g(a + 0, b)]
    return [[np.asarray(o) for o in row] for row in made]


def run_once(mesh):
    f = ga.jit(ga.shard_map(program(mesh), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    x = np.arange(16, dtype=np.float32)
    return [np.asarray(o) for o in f(x, x)]


@pytest.mark.parametrize("lacking", ["before", "behind"])
def test_an_event_that_is_left_out_is_found(lacking, monkeypatch):
    with machine("nccl", 4) as (world, mesh):
        stream = type(device.gpus()[0].stream)
        wait = stream.wait_event
        exchanges = {gpu.exchanges.ptr for gpu in device.gpus()}
        of_main = {gpu.stream.ptr for gpu in device.gpus()}

        def maybe(self, event):
            if lacking == "before" and self.ptr in exchanges:
                return
            recorded = None if event._work is None else event._work.stream.ptr
            if lacking == "behind" and self.ptr in of_main and recorded in exchanges:
                return
            wait(self, event)

        monkeypatch.setattr(stream, "wait_event", maybe)
        run_once(mesh)
        assert any("race: nothing orders" in f and "NCCL's" in f for f in world.faults)
        world.faults.clear()


def test_ranks_that_do_different_things_are_found(monkeypatch):
    with machine("nccl", 4) as (world, mesh):
        reduce = nccl._reduce

        def wrong(op, sends, received, gpu):
            return reduce("NCCL_MAX" if gpu.index == 2 else op, sends, received, gpu)

        monkeypatch.setattr(nccl, "_reduce", wrong)
        with pytest.raises(ga.errors.DeviceError, match="exchange between GPUs failed"):
            run_once(mesh)
        assert "NCCL hangs: rank 2 of 4 calls" in world.faults[0]
        world.faults.clear()
        monkeypatch.undo()
        ga.clear_caches()
        run_once(mesh)  # with communicators made anew


def test_a_failed_exchange_is_an_error_that_names_its_line(four):
    world, mesh = four
    world.fail("exchange", 0)
    f = ga.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    with pytest.raises(ga.errors.DeviceError, match="exchange between GPUs failed") as caught:
        ga.jit(f)(np.ones(8, np.float32))
    assert any("psum recorded at" in note for note in caught.value.__notes__)
    assert float(ga.jit(f)(np.ones(8, np.float32))[0]) == 4.0


def test_out_of_memory_names_the_gpu():
    with machine("nccl", 4, memory=1 << 22) as (_, mesh):
        filled = ga.device_put(np.zeros(3 << 18, np.float32), mesh.devices[2])
        x = sharded(np.zeros(1 << 18, np.float32), mesh, "x")
        f = ga.shard_map(
            lambda v: lax.all_gather(v, "x") * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x")
        )
        with pytest.raises(ga.errors.OutOfMemory, match="cuda:2"):
            ga.jit(f)(x)
        del filled, x


# ---- what there is ----
def test_two_axes():
    with machine("nccl", 8) as (_, flat):
        mesh = Mesh(flat.devices.reshape(4, 2), ("x", "y"))
        x = np.arange(32, dtype=np.float32).reshape(8, 4)
        for axes in ("x", "y", ("x", "y"), ("y", "x")):
            f = ga.shard_map(
                lambda v, axes=axes: lax.psum(v, axes) + v,
                mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"),
            )  # fmt: skip
            pieces = x.reshape(4, 2, 2, 2)
            along = {"x": (0,), "y": (2,)}.get(axes, (0, 2))
            wanted = (pieces + pieces.sum(along, keepdims=True)).reshape(8, 4)
            assert np.array_equal(np.asarray(ga.jit(f)(x)), wanted)


def test_donated_pieces_that_others_hold_stay():
    with machine("nccl", 4) as (_, mesh):
        x = sharded(np.arange(64, dtype=np.float32), mesh, "x")
        piece = x.addressable_shards[2].data
        y = ga.jit(lambda v: v * 2, donate_argnums=0)(x)
        assert np.array_equal(np.asarray(piece), np.arange(32, 48))
        assert np.array_equal(np.asarray(y), np.arange(64) * 2)
        del x, y, piece


def test_logical_gpus_share_one():
    with machine("logical", 4) as (world, mesh):
        assert world.devices == 1 and len(ga.devices("gpu")) == 4
        assert [gpu.ordinal for gpu in device.gpus()] == [0] * 4
        x = ga.device_put(np.ones(3, np.float32), mesh.devices[3])
        assert x.device.id == 3 and x.__dlpack_device__() == (2, 0)
        with pytest.raises(RuntimeError, match="num_gpu_devices must be set before"):
            config.update("num_gpu_devices", 2)
        del x


def test_fewer_gpus_than_there_are():
    config.update("num_gpu_devices", 2)
    with installed(devices=4):
        assert [gpu.ordinal for gpu in device.gpus()] == [0, 1]


def test_without_nccl_it_is_said_once(caplog):
    nccl.say_missing.cache_clear()
    with machine("copies", 4) as (_, mesh), caplog.at_level(logging.WARNING, "gpuarray"):
        check("psum", mesh)
        check("ppermute", mesh)
    assert [r.message.count("NCCL is not there") for r in caplog.records] == [1]


def test_sums_of_halves_are_nccls_own():
    """Rounded at every step; by copies they are added up in float32, and rounded once."""
    x = np.array([256.0, 1.0, 1.0, 1.0], np.float32)
    found = {}
    for engine in ("nccl", "copies"):
        with machine(engine, 4) as (_, mesh):
            f = ga.shard_map(
                lambda v: lax.psum(v.astype("bfloat16"), "x").astype("float32"),
                mesh=mesh, in_specs=P("x"), out_specs=P(),
            )  # fmt: skip
            found[engine] = float(ga.jit(f)(x)[0])
    assert found == {"nccl": 256.0, "copies": 260.0}


def test_graphs_are_between_exchanges(monkeypatch):
    plan_for(monkeypatch, graph_kernels=2, graph_run=2)
    with machine("nccl", 4) as (world, mesh):

        def body(v):
            for _ in range(2):
                v = gnp.sort(gnp.cumsum(gnp.sin(v)))[::-1]
                v = gnp.cumsum(gnp.cumsum(gnp.cumsum(v) * 2) - 1)
                v = lax.psum(v, "x")
            return v

        f = ga.jit(ga.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P()))
        x = np.arange(64, dtype=np.float32)
        first, *others = [np.asarray(f(x)) for _ in range(12)]
        assert all(np.array_equal(o, first) for o in others)
        assert world.counts["graph"] > 0


# ---- overlap ----
def beside(v, w):
    """A sum, and kernels that write to memory of the plan while it is in progress."""
    total = lax.psum(gnp.cumsum(gnp.sin(v)), "x")
    for _ in range(3):
        w = gnp.cumsum(w - w.max())
    return total * w.sum()


def overlapping(mesh) -> list:
    f = ga.jit(ga.shard_map(beside, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    return [np.asarray(f(x, x)), np.asarray(f(x, x))]


def test_kernels_run_beside_an_exchange_and_leave_its_operands_alone():
    with machine("nccl", 4) as (world, mesh):
        world.remembered = {}
        rows = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(4, 1024)
        with ga.default_device(ga.devices("cpu")[0]):
            wanted = np.asarray(ga.vmap(beside, axis_name="x")(rows, rows)).ravel()
        for seed in SEEDS:
            world.reseed(seed)
            for made in overlapping(mesh):
                np.testing.assert_allclose(made, wanted, rtol=2e-3)
            assert not world.faults, (seed, world.faults[0])


def test_memory_that_is_used_again_too_early_is_found(monkeypatch):
    """So there are kernels beside the exchange, which would write where it reads."""
    with machine("nccl", 4) as (world, mesh):
        monkeypatch.setattr(writer, "last_reads", lambda halves, steps: {})
        overlapping(mesh)
        assert any("race" in fault for fault in world.faults)
        world.faults.clear()


def test_what_comes_behind_a_failed_program_waits_for_its_exchanges(monkeypatch):
    with machine("nccl", 4) as (world, mesh):
        settled = []
        settle = nccl.Nccl.settle
        monkeypatch.setattr(nccl.Nccl, "settle", lambda self: (settled.append(1), settle(self)))
        world.fail("exchange", 1)

        def two(v):
            return lax.psum(v, "x") + 1, lax.pmax((v * 2).astype("int32"), "x")

        f = ga.jit(ga.shard_map(two, mesh=mesh, in_specs=P("x"), out_specs=P()))
        x = np.arange(16, dtype=np.float32)
        with pytest.raises(ga.errors.DeviceError, match="exchange between GPUs failed"):
            f(x)
        assert settled == [1]
        np.testing.assert_array_equal(f(x)[0], x.reshape(4, 4).sum(0) + 1)
        assert not world.faults
