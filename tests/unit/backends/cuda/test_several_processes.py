"""GPUs of several processes: NCCL between ranks that each process makes for its own GPUs.

In: bodies with every collective, as plans for four GPUs. Out: what one process computes, from two
threads that stand for processes of two GPUs each. MPI's part, a name for each communicator, is a
queue here.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax
from gpuarray.backends.cuda import device as cuda
from gpuarray.backends.cuda import nccl
from gpuarray.core.sharding import Device
from gpuarray.errors import DeviceError
from gpuarray.runtime import device as devices
from gpuarray.runtime import fleet, processes
from gpuarray.runtime.device import stored
from gpuarray.sharding import PartitionSpec as P
from tests.support import simulated
from tests.support.exchanges import BODIES, PIECE, machine, sharded

simulated.need_compiler()

COUNT = 4
OWNERS = (0, 0, 1, 1)
_here = threading.local()


@pytest.fixture(scope="module")
def mesh():
    with machine("nccl", COUNT, seed=3) as (world, found):
        yield found
        assert not world.faults, world.faults[0]


class Job:
    """Two threads, each of which runs a plan on two GPUs."""

    def __init__(self, team):
        self.plan, self.sizes = team.plan, team.grid.sizes
        devices = [Device("gpu", i, "", p, i) for i, p in enumerate(OWNERS)]
        self.grid = SimpleNamespace(devices=devices, sizes=self.sizes)
        self.names = [queue.Queue() for _ in range(2)]
        self.results: dict[int, list] = {}
        self.errors: list[BaseException] = []

    def told(self, processes, data):
        if _here.process == processes[0]:
            for p in processes[1:]:
                self.names[p].put(data)
            return data
        return self.names[_here.process].get(timeout=20)

    def run(self, process, pieces):
        _here.process = process
        try:
            made = fleet.GpuFleet(self.plan, [], self.grid, self.sizes, frozenset())
            inputs = [[stored(p, d) for p, d in zip(row, made.devices)] for row in pieces]
            for _ in range(2):  # communicators are made once
                out = made(inputs)
            self.results[process] = [[np.asarray(b) for b in row] for row in out]
        except BaseException as error:
            self.errors.append(error)

    def __call__(self, pieces):
        own = lambda p: [[x for x, o in zip(row, OWNERS, strict=True) if o == p] for row in pieces]
        threads = [threading.Thread(target=self.run, args=(p, own(p))) for p in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        return [a + b for a, b in zip(self.results[0], self.results[1], strict=True)]


@pytest.fixture
def apart(monkeypatch):
    """Devices are those of the process that a thread stands for."""
    mine = property(lambda d: d.platform != "gpu" or d.process_index == _here.process)
    made: list[Job] = []

    def job(team):
        made.append(Job(team))
        monkeypatch.setattr(Device, "is_addressable", mine)
        monkeypatch.setattr(nccl, "_lock", contextlib.nullcontext())
        monkeypatch.setattr(processes, "compare", lambda graph, grid: None)
        party = lambda grid: nccl.Party(OWNERS, _here.process, made[-1].told)
        monkeypatch.setattr(processes, "party", party)
        return made[-1]

    return job


def planned(body, mesh, x):
    f = ga.jit(ga.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    over = sharded(x, mesh, "x")
    return np.asarray(f(over)), f.lower(over)._team


#: Of each way in which NCCL does them; all of them take minutes on a busy machine.
QUICK = ("psum", "psum_int16", "pmax_nan", "psum_scatter_tiled", "all_to_all", "ppermute_holes")
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in BODIES]


@pytest.mark.parametrize("name", NAMES)
def test_every_collective_is_that_of_one_process(mesh, apart, name):
    body = BODIES[name]
    x = np.random.default_rng(5).uniform(-1, 1, COUNT * PIECE).astype(np.float32)
    wanted, team = planned(lambda v: body(v, COUNT), mesh, x)
    (found,) = apart(team)([np.split(x, COUNT)])
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-6, atol=1e-6)


def test_groups_within_and_across_processes(mesh, apart):
    within, across = [[0, 1], [2, 3]], [[0, 2], [1, 3]]

    def body(v):
        a = lax.psum(v, "x", axis_index_groups=within)
        return a * lax.pmax(v, "x", axis_index_groups=across) + lax.axis_index("x")

    x = np.arange(8, dtype=np.float32)
    wanted, team = planned(body, mesh, x)
    (found,) = apart(team)([np.split(x, COUNT)])
    np.testing.assert_array_equal(np.concatenate(found), wanted)


def test_a_name_is_made_by_the_first_process_and_known_to_all(mesh):
    told: list[bytes] = []
    party = nccl.Party((0, 1), 0, lambda processes, data: told.append(data) or data)
    gpus = cuda.gpus()[:1]
    (made,) = nccl.Nccl(gpus, {"x": 2}, party)._joined([0, 1]).values()
    assert (made.rank_id(), made.size()) == (0, 2)
    assert len(told[0]) == 128 and made._clique == hash(told[0])


def test_gpus_are_numbered_over_all_processes(monkeypatch):
    with machine("nccl", 2):
        monkeypatch.setattr(devices, "_counts", (1, 1))
        monkeypatch.setattr(Device, "here", 1)
        listed = [(p, i, f"GPU of {p}") for p in range(2) for i in range(2)]
        monkeypatch.setattr(devices, "_all_gpus", tuple(listed))
        devices._gpus.clear()
        try:
            found = ga.devices("gpu")
            assert [d.id for d in found] == [0, 1, 2, 3]
            assert [(d.process_index, d.local_hardware_id, d.device_kind) for d in found] == listed
            assert ga.local_devices(backend="gpu") == found[2:]
            assert [devices.gpu_of(d).index for d in found[2:]] == [0, 1]
            with ga.default_device(found[3]):
                x = ga.numpy.arange(4.0) + 1
                assert x.devices() == {found[3]} and float(x.sum()) == 10
            with pytest.raises(ValueError, match="non-addressable device"):
                ga.device_put(1.0, found[0])
            del x
        finally:
            devices._gpus.clear()


def test_several_processes_need_nccl(monkeypatch):
    with machine("copies", 2):
        party = nccl.Party((0, 1), 0, lambda processes, data: data)
        with pytest.raises(DeviceError, match="by NCCL, and it is not there. Install it"):
            nccl.engine(cuda.gpus()[:1], {"x": 2}, party)
