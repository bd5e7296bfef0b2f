"""The stand-in for CuPy does what CuPy does, and shows what a GPU would punish.

In: small programs written against CuPy's names, right ones and ones with planted mistakes. Out:
results in every order of execution; a fault for each mistake. Names and signatures are compared
with the real CuPy where it can be imported.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.fake_cupy import NAMES, kernels, world
from tests.fake_cupy.install import _MODULES, LIBRARY, check
from tests.support import ROOT, simulated

if "cuda" in os.environ.get("GPUARRAY_PLATFORMS", ""):
    pytest.skip("CuPy itself, with a GPU, is in use here", allow_module_level=True)
simulated.need_compiler()

ADD = """
extern "C" __global__ void __launch_bounds__(64) add(
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
    const unsigned i = blockIdx.x * 64u + threadIdx.x;
    if (i >= 100u) return;
    out0[i] = in0[i] + in1[i];
}
extern "C" __global__ void __launch_bounds__(64) scale(const float* in0, float* out0, float by) {
    const unsigned i = blockIdx.x * 64u + threadIdx.x;
    if (i >= 100u) return;
    out0[i] = in0[i] * by;
}
extern "C" __global__ void __launch_bounds__(64) many(
    const unsigned long long* __restrict__ table,
    const unsigned* __restrict__ tiles) {
    const float* a = (const float*)table[2u * blockIdx.x];
    float* b = (float*)table[2u * blockIdx.x + 1u];
    if (threadIdx.x < tiles[0]) b[threadIdx.x] = a[threadIdx.x] + 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) beyond(float* out0) {
    out0[blockIdx.x * 64u + threadIdx.x] = 1.0f;
}
"""
NBYTES = 400


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in, on a machine of its own."""
    for name, module in _MODULES.items():
        monkeypatch.setitem(sys.modules, name, module)
    world.reset()
    yield importlib.import_module("cupy")
    world.reset()


class Program:
    """The few steps that programs are made of."""

    def __init__(self, cupy):
        self.cupy, self.api = cupy, cupy.cuda.runtime
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pool = cupy.cuda.MemoryPool()
        program = cupy.cuda.nvrtc.createProgram(ADD, "kernels.cu", (), ())
        cupy.cuda.nvrtc.compileProgram(program, ("--gpu-architecture=sm_90",))
        self.module = cupy.cuda.function.Module()
        self.module.load(cupy.cuda.nvrtc.getCUBIN(program))
        self.kept = []

    def take(self):
        return self.pool.malloc(NBYTES)

    def put(self, value: float, stream=None):
        """Memory full of one number."""
        memory, pinned = self.take(), self.cupy.cuda.alloc_pinned_memory(NBYTES)
        np.frombuffer(pinned, np.float32, 100)[...] = value
        self.kept.append(pinned)
        stream = stream or self.stream
        self.api.memcpyAsync(
            memory.ptr, pinned.ptr, NBYTES, self.api.memcpyHostToDevice, stream.ptr
        )
        return memory

    def run(self, name: str, *args, stream=None) -> None:
        self.module.get_function(name)((2,), (64,), args, 0, stream or self.stream)

    def read(self, memory, stream=None) -> np.ndarray:
        pinned = self.cupy.cuda.alloc_pinned_memory(NBYTES)
        stream = stream or self.stream
        self.api.memcpyAsync(
            pinned.ptr, memory.ptr, NBYTES, self.api.memcpyDeviceToHost, stream.ptr
        )
        stream.synchronize()
        return np.frombuffer(pinned, np.float32, 100).copy()


SEEDS = range(30)


# ---- programs that are right ----


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_on_one_stream(cupy, seed):
    world.reset(seed)
    p = Program(cupy)
    a, b, c = p.put(1.0), p.put(2.0), p.take()
    p.run("add", a.ptr, b.ptr, c.ptr)
    del a, b  # their memory is handed out again behind what reads it
    with p.stream:
        d = p.take()
        p.run("scale", c, d, np.float32(10))
    assert (p.read(d) == 30).all()
    del c, d
    p.kept.clear()
    check()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_streams_and_an_event(cupy, seed):
    world.reset(seed)
    p, other = Program(cupy), cupy.cuda.Stream(non_blocking=True)
    a, c = p.put(1.0), p.take()
    p.run("scale", a.ptr, c.ptr, np.float32(3))
    other.wait_event(p.stream.record(cupy.cuda.Event(disable_timing=True)))
    assert (p.read(c, other) == 3).all()
    assert not world.faults


@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_stream_waits_for_blocking_ones(cupy, seed):
    world.reset(seed)
    p, blocking = Program(cupy), cupy.cuda.Stream()
    a, c = p.put(1.0, blocking), p.take()
    p.run("scale", a.ptr, c.ptr, np.float32(3), stream=cupy.cuda.Stream.null)
    assert (p.read(c, blocking) == 3).all()
    assert not world.faults


def test_asking_often_enough_sees_the_end(cupy):
    for seed in SEEDS:
        world.reset(seed)
        p = Program(cupy)
        a = p.put(1.0)
        event = p.stream.record()
        while not event.done:
            pass
        assert p.read(a)[0] == 1


def test_a_graph_runs_what_was_recorded_as_often_as_wanted(cupy):
    p = Program(cupy)
    a, b = p.put(2.0), p.put(0.0)
    p.stream.begin_capture()
    p.run("scale", a.ptr, b.ptr, np.float32(2))
    p.run("scale", b.ptr, a.ptr, np.float32(1))
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="StreamCaptureUnsupported"):
        p.stream.synchronize()
    graph = p.stream.end_capture()
    assert p.read(a)[0] == 2
    for _ in range(3):
        graph.launch(p.stream)
    assert p.read(a)[0] == 16
    ptr = a.ptr
    del a
    a = p.put(1.0)  # others may have the memory in between, but somebody must
    assert a.ptr == ptr
    graph.launch(p.stream)
    assert p.read(a)[0] == 2 and not world.faults
    del a
    graph.launch(p.stream)
    assert any("use after free" in fault for fault in world.faults)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_of_addresses_leads_to_memory(cupy, seed):
    world.reset(seed)
    world.remembered = {} if seed % 2 else None
    p = Program(cupy)
    for value in (1.0, 2.0):
        sources, results = [p.put(value), p.put(5.0)], [p.take(), p.take()]
        addresses = [m.ptr for pair in zip(sources, results, strict=True) for m in pair]
        pinned = [cupy.cuda.alloc_pinned_memory(64) for _ in range(2)]
        np.frombuffer(pinned[0], np.uint64, 4)[...] = addresses
        np.frombuffer(pinned[1], np.uint32, 1)[...] = 50
        table, tiles = p.pool.malloc(32), p.pool.malloc(4)
        for memory, source, size in ((table, pinned[0], 32), (tiles, pinned[1], 4)):
            kind = p.api.memcpyHostToDevice
            p.api.memcpyAsync(memory.ptr, source.ptr, size, kind, p.stream.ptr)
        p.run("many", table.ptr, tiles.ptr)
        sources.clear()  # freed with the kernel still to come
        assert [p.read(r)[:50].tolist() for r in results] == [[value + 1] * 50, [6.0] * 50]
        assert not world.faults
    bad = p.put(0.0)
    with pytest.raises(cupy.cuda.driver.CUDADriverError):
        p.run("many", bad.ptr, tiles.ptr)
    assert "which is nowhere" in world.faults[0]


def test_library_functions_wait_for_their_stream(cupy):
    for seed in SEEDS:
        world.reset(seed)
        p = Program(cupy)
        a, c = p.put(1.0), p.take()
        p.run("scale", a.ptr, c.ptr, np.float32(3))
        with p.stream:
            x = cupy.ndarray((10, 10), np.float32, c)
            total = (x.reshape(100)[:50].T + 1).sum()
            assert total.shape == () and float(total) == 200
            assert cupy.ascontiguousarray(x.T).get().tolist() == [[3.0] * 10] * 10
            assert x.T.data.ptr == x.data.ptr  # a view
        assert not world.faults


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (2, 2)])
@pytest.mark.parametrize(("number", "dtype"), [(0, "float32"), (5, "complex128")])
def test_cublas_reads_columns_first(cupy, turned, number, dtype):
    rng, real = np.random.default_rng(0), np.dtype(dtype).kind == "f"
    op = {0: lambda x: x, 1: lambda x: x.swapaxes(1, 2), 2: lambda x: x.conj().swapaxes(1, 2)}
    # C = op(A) op(B) with columns first is C^T = op(B)^T op(A)^T with rows first.
    a = rng.integers(-4, 5, (3, 2, 5)) + (0 if real else 1j * rng.integers(-4, 5, (3, 2, 5)))
    b = rng.integers(-4, 5, (3, 5, 4)) + (0 if real else 1j * rng.integers(-4, 5, (3, 5, 4)))
    a, b = a.astype(dtype), b.astype(dtype)
    stored = [op[t](x).swapaxes(1, 2) for x, t in zip((a, b), turned, strict=True)]
    with cupy.cuda.Stream(non_blocking=True):
        left, right = (cupy.asarray(np.ascontiguousarray(x)) for x in stored)
        out = cupy.asarray(np.zeros((3, 4, 2), dtype))
        one, zero = np.ones(1, dtype), np.zeros(1, dtype)
        lead = [x.shape[2] for x in (left, right)]
        cupy.cuda.cublas.gemmStridedBatchedEx(
            cupy.cuda.device.get_cublas_handle(), *turned, 2, 4, 5, one.ctypes.data,
            left.data.ptr, number, lead[0], 10, right.data.ptr, number, lead[1], 20,
            zero.ctypes.data, out.data.ptr, number, 2, 8, 3, 68 if real else 70, -1,
        )  # fmt: skip
        assert np.array_equal(out.get().swapaxes(1, 2), a @ b)
    assert not world.faults


def test_a_failed_factorisation_is_rubbish_unless_asked_for(cupy):
    cupyx = importlib.import_module("cupyx")
    with cupy.cuda.Stream(non_blocking=True):
        bad = cupy.asarray(-np.eye(3))
        assert np.isfinite(cupy.linalg.cholesky(bad).get()).all()
        with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
            cupy.linalg.cholesky(bad)


def test_two_devices(cupy):
    first = Program(cupy)
    with cupy.cuda.Device(1):
        second = Program(cupy)
        a = second.put(5.0)
        event = second.stream.record()
        b = first.take()
    assert (a.device_id, b.device_id) == (1, 1)
    c, api = first.take(), cupy.cuda.runtime
    assert c.device_id == 0
    first.stream.wait_event(event)
    api.memcpyAsync(c.ptr, a.ptr, NBYTES, api.memcpyDeviceToDevice, first.stream.ptr)
    assert (first.read(c) == 5).all()
    assert not world.faults


def test_threads_return_to_the_devices_and_streams_of_their_own(cupy):
    """The same objects are entered by two threads, which leave them in the order they came in."""
    api, null, device = cupy.cuda.runtime, cupy.cuda.Stream.null, cupy.cuda.Device(1)
    inside, may_leave, found = threading.Event(), threading.Event(), []

    def other() -> None:
        api.setDevice(1)
        with null, device:
            inside.set()
            may_leave.wait(60)
        found.append((api.getDevice(), world.thread.streams[1]))

    thread = threading.Thread(target=other)
    with null, device:
        thread.start()
        assert inside.wait(60)
    found.append((api.getDevice(), world.thread.streams[0]))
    may_leave.set()
    thread.join()
    assert found == [(0, []), (1, [])]


def test_memory_is_poisoned(cupy):
    p = Program(cupy)
    assert np.isnan(p.read(p.take())).all()
    a = p.put(1.0)
    ptr = a.ptr
    p.stream.synchronize()
    del a
    b = p.take()
    assert b.ptr == ptr and np.isnan(p.read(b)).all()


def test_pool(cupy):
    pool = cupy.cuda.MemoryPool()
    a = pool.malloc(1)
    assert (pool.used_bytes(), pool.total_bytes(), a.mem.size) == (512, 512, 512)
    del a
    assert (pool.used_bytes(), pool.total_bytes(), pool.free_bytes()) == (0, 512, 512)
    with cupy.cuda.Stream(non_blocking=True):
        b = pool.malloc(100)  # the free block belongs to another stream
        assert pool.total_bytes() == 1024
    pool.free_all_blocks()
    assert pool.total_bytes() == 512
    assert pool.malloc(0).ptr == 0
    pool.set_limit(1024)
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError, match="allocating 1,024 bytes .* 1,024"):
        pool.malloc(1000)
    del b


def test_pinned_memory_is_larger_than_asked_for(cupy):
    pinned = cupy.cuda.alloc_pinned_memory(1025)
    assert pinned.size() == len(np.frombuffer(pinned, np.uint8)) == 2048
    assert pinned.ptr == np.frombuffer(pinned, np.uint8).ctypes.data


# ---- programs with a mistake ----


def no_event(p):
    other = p.cupy.cuda.Stream(non_blocking=True)
    a, c = p.put(1.0), p.take()
    p.run("scale", a.ptr, c.ptr, np.float32(3))
    p.read(c, other)


def event_too_early(p):
    other = p.cupy.cuda.Stream(non_blocking=True)
    a, c = p.put(1.0), p.take()
    event = p.stream.record()
    p.run("scale", a.ptr, c.ptr, np.float32(3))
    other.wait_event(event)
    p.read(c, other)


def freed_under_another_stream(p):
    other = p.cupy.cuda.Stream(non_blocking=True)
    a, c = p.put(1.0), p.take()
    p.stream.synchronize()
    p.run("scale", a.ptr, c.ptr, np.float32(3), stream=other)
    del a
    p.put(7.0)  # takes the memory that the other stream may not have read yet


def used_after_free(p):
    a, c = p.put(1.0), p.take()
    ptr = a.ptr
    del a
    p.run("scale", ptr, c.ptr, np.float32(3))


def pinned_memory_let_go(p):
    memory, pinned = p.take(), p.cupy.cuda.alloc_pinned_memory(NBYTES)
    world.eager = 0.0
    p.api.memcpyAsync(memory.ptr, pinned.ptr, NBYTES, p.api.memcpyHostToDevice, p.stream.ptr)


def out_of_bounds(p):
    a = p.take()
    p.run("beyond", a.ptr)
    world.finish()


def copy_out_of_bounds(p):
    a = p.take()
    p.api.memsetAsync(a.ptr, 0, 404, p.stream.ptr)


def the_same_memory_twice(p):
    a, b = p.put(1.0), p.put(2.0)
    p.run("add", a.ptr, b.ptr, a.ptr)


def wrong_number_of_arguments(p):
    a = p.take()
    p.run("scale", a.ptr, a.ptr)


def no_pointer(p):
    a = p.take()
    p.run("scale", a.ptr, 4096, np.float32(1))


def memory_of_another_device(p):
    with p.cupy.cuda.Device(1):
        b = p.take()
    p.run("scale", p.put(1.0).ptr, b.ptr, np.float32(1))


def ranks(p):
    """Two ranks of NCCL, and memory for each, filled before the streams given."""
    made = []
    for device, one in enumerate(p.cupy.cuda.nccl.NcclCommunicator.initAll([0, 1])):
        with p.cupy.cuda.Device(device):
            q = Program(p.cupy)
            made.append((one, q.put(1.0), q.take(), q.stream))
            p.kept.append(q)
    return made


def reduced(p, made, counts=(100, 100), group=True):
    nccl = p.cupy.cuda.nccl
    if group:
        nccl.groupStart()
    for (one, a, b, stream), count in zip(made, counts, strict=True):
        one.allReduce(a.ptr, b.ptr, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
    if group:
        nccl.groupEnd()
    p.kept.append(made)


def exchange_outside_of_a_group(p):
    reduced(p, ranks(p), group=False)


def exchange_of_different_counts(p):
    reduced(p, ranks(p), (100, 50))


def exchange_that_one_rank_leaves_out(p):
    nccl = p.cupy.cuda.nccl
    ((one, a, b, stream), _) = ranks(p)
    nccl.groupStart()
    one.allGather(a.ptr, b.ptr, 10, nccl.NCCL_INT32, stream.ptr)
    nccl.groupEnd()


def send_that_nobody_receives(p):
    nccl = p.cupy.cuda.nccl
    ((one, a, _, stream), _) = ranks(p)
    nccl.groupStart()
    one.send(a.ptr, 10, nccl.NCCL_INT32, 1, stream.ptr)
    nccl.groupEnd()


def exchange_after_abort(p):
    made = ranks(p)
    made[1][0].abort()
    reduced(p, made)


def exchange_on_a_stream_without_an_event(p):
    made = []
    for device, (one, a, b, _) in enumerate(ranks(p)):
        with p.cupy.cuda.Device(device):
            made.append((one, a, b, p.cupy.cuda.Stream(non_blocking=True)))
    reduced(p, made)


def two_ranks_on_one_gpu(p):
    p.cupy.cuda.nccl.NcclCommunicator.initAll([1, 1])


def two_communicators_at_once(p):
    first, second = ranks(p), ranks(p)
    reduced(p, first)
    reduced(p, second)


MISTAKES = {
    no_event: "race: nothing orders copy of 400 bytes .* after kernel scale",
    event_too_early: "race: nothing orders copy of 400 bytes .* after kernel scale",
    freed_under_another_stream: "race: nothing orders copy of 400 bytes .* after kernel scale",
    used_after_free: "use after free: kernel scale .* taken at .*test_fake_cupy.py",
    pinned_memory_let_go: "freed while a copy is to come: 512 bytes of pinned memory",
    out_of_bounds: "kernel beyond: out of bounds: 4 bytes .* of out0, which has 400",
    copy_out_of_bounds: "out of bounds: bytes 0 to 404 of 400 bytes of memory of device 0",
    the_same_memory_twice: "out0 and in0 of add are the same memory",
    wrong_number_of_arguments: "scale takes 3 arguments",
    no_pointer: "out0 of scale points nowhere",
    exchange_outside_of_a_group: "allReduce of rank 0 of 2 outside of a group hangs",
    exchange_of_different_counts: "NCCL hangs: rank 1 of 2 calls",
    exchange_that_one_rank_leaves_out: r"NCCL hangs: rank 1 of 2 calls \[\]",
    send_that_nobody_receives: "NCCL hangs: rank 0 sends .* to rank 1, which expects",
    exchange_after_abort: "allReduce on a communicator that was aborted",
    exchange_on_a_stream_without_an_event: "race: nothing orders NCCL's allReduce of rank",
    two_ranks_on_one_gpu: "two ranks on one GPU",
    two_communicators_at_once: "two communicators at once on device",
    memory_of_another_device: "out0 of scale is 400 bytes of memory of device 1",
}


@pytest.mark.parametrize("mistake", list(MISTAKES), ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_a_mistake_is_found_in_every_order(cupy, mistake, seed):
    world.reset(seed)
    errors = (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError)
    errors += (cupy.cuda.nccl.NcclError,)
    p = Program(cupy)
    try:
        mistake(p)
        world.finish()
    except errors:
        pass
    assert re.search(MISTAKES[mistake], "\n".join(world.faults)), world.faults


def test_what_is_still_taken_is_named(cupy):
    p = Program(cupy)
    kept = p.take()
    with pytest.raises(AssertionError, match=r"400 bytes of .*device 0 taken at .*test_fake_cupy"):
        check()
    del kept


def test_what_cuda_refuses_is_refused(cupy):
    runtime, driver = cupy.cuda.runtime, cupy.cuda.driver
    p = Program(cupy)
    a, scale = p.put(1.0), p.module.get_function("scale")
    args = (a.ptr, a.ptr, np.float32(1))
    with pytest.raises(driver.CUDADriverError, match="INVALID_VALUE"):
        scale((1,), (128,), args, 0, p.stream)  # __launch_bounds__(64)
    with pytest.raises(TypeError):
        scale(1, 64, args, 0, p.stream)
    with pytest.raises(driver.CUDADriverError, match="NOT_FOUND"):
        p.module.get_function("missing")
    with pytest.raises(driver.CUDADriverError, match="INVALID_IMAGE"):
        cupy.cuda.Module().load(b"\x7fELF something else")
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
        runtime.memcpyAsync(1 << 40, a.ptr, 4, runtime.memcpyDeviceToDevice, p.stream.ptr)
    event = cupy.cuda.Event()
    with cupy.cuda.Device(1):
        with pytest.raises(RuntimeError, match="does not match with the current device"):
            with p.stream:
                pass
        with pytest.raises(driver.CUDADriverError, match="INVALID_HANDLE"):
            scale((1,), (64,), args, 0, p.stream)
        with pytest.raises(runtime.CUDARuntimeError, match="InvalidResourceHandle"):
            event.record(cupy.cuda.Stream())
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidDevice"):
        cupy.cuda.Device(2).use()
    program = cupy.cuda.nvrtc.createProgram("#error", "k.cu", (), ())
    with pytest.raises(cupy.cuda.nvrtc.NVRTCError, match="NVRTC_ERROR_COMPILATION"):
        cupy.cuda.nvrtc.compileProgram(program, ("--gpu-architecture=sm_90",))
    assert "#error" in cupy.cuda.nvrtc.getProgramLog(program)


# ---- failures on demand ----


def test_failures_on_demand(cupy):
    p = Program(cupy)
    world.fail("allocation", 1)
    a = p.take()
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        p.take()
    b = p.take()
    world.fail("copy", 0)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        p.put(1.0)
    world.fail("launch", 0)
    world.fail("execution", 0)
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="LAUNCH_OUT_OF_RESOURCES"):
        p.run("scale", a.ptr, b.ptr, np.float32(1))
    p.run("scale", a.ptr, b.ptr, np.float32(1))
    for _ in range(2):  # nothing helps any more
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="LaunchFailure"):
            p.stream.synchronize()
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="LAUNCH_FAILED"):
        p.run("scale", a.ptr, b.ptr, np.float32(1))
    world.repair()
    p.stream.synchronize()
    assert not world.faults


def test_idle_machine_does_nothing(cupy):
    world.reset(idle=True)
    p = Program(cupy)
    a, b = p.put(1.0), p.take()
    p.run("scale", a.ptr, b.ptr, np.float32(1))
    p.stream.record().synchronize()
    assert np.isnan(p.read(b)).any() or world.counts["execution"] == 0
    assert not any(q.waiting for q in world.queues.values())


def test_kernels_are_found_by_the_name_they_have_after_the_preprocessor():
    found = kernels.signatures(
        """
        #define SIZE 3
        #define scale c0_scale
        extern "C" __global__ void scale(const unsigned char* x, unsigned short *y) {}
        #undef scale
        # define other
        extern "C" __global__ void
        __launch_bounds__(64, 2) scale(
            const unsigned long long* __restrict__ table, signed char* __restrict__ z, bool* b,
            short* s, const long long* l, double* d, unsigned* u, unsigned char* work)
        { }
        """
    )
    assert list(found) == ["c0_scale", "scale"]
    assert [p.itemsize for p in found["c0_scale"].parameters] == [1, 2]
    assert [p.writes for p in found["c0_scale"].parameters] == [False, True]
    assert [p.itemsize for p in found["scale"].parameters] == [8, 1, 1, 2, 8, 8, 4, 4]
    assert [p.alone for p in found["scale"].parameters] == [True, True, *[False] * 6]
    assert [s.most_threads for s in found.values()] == [1024, 64]


def test_results_of_kernels_are_remembered_by_their_inputs(cupy):
    world.remembered = {}
    p = Program(cupy)
    for value in (1.0, 2.0, 1.0):
        a, c = p.put(value), p.put(0.0)
        p.run("scale", a.ptr, c.ptr, np.float32(4))
        assert (p.read(c) == 4 * value).all()
        p.run("scale", a.ptr, c.ptr, np.float32(5))
        assert (p.read(c) == 5 * value).all()
    assert world.counts["execution"] == 6 and len(world.remembered) == 4


# ---- as CuPy has them ----
#: Pythons that may have CuPy: ci/test makes the first one, to look at, not to run kernels with.
PYTHONS = [ROOT / ".venv-cupy" / "bin" / "python", Path(sys.executable)]

PROBE = """
import glob, importlib, importlib.util, inspect, json, os, re, sys

def in_files(name):
    # What needs NVIDIA's libraries to be imported is read, not imported.
    path, _, last = name.rpartition(".")
    top = os.path.dirname(importlib.util.find_spec(name.partition(".")[0]).origin)
    parts = path.split(".")[1:]
    files = glob.glob(os.path.join(top, *parts, "*.py"))
    libs = os.path.join(top, "..", "cupy_backends", "cuda", "libs")
    for part in parts[-2:]:  # a module, or one with a class in it
        files += glob.glob(os.path.join(libs, part + ".*so"))
    files += glob.glob(os.path.join(top, *parts) + ".*so")
    for file in files:
        with open(file, "rb") as opened:
            text = opened.read()
        # A line of its own first; others may be examples.
        for begin in (rb"(?<![.\\w])", rb"\\b"):
            pattern = begin + last.encode() + rb"(?:\\.__init__)?(\\([^()]*\\))"
            found = re.search(pattern, text)
            if found:
                break
        if found:
            return last + found[1].decode()
        if last.startswith("NCCL_") and last.encode() + b"\\0" in text:
            return ""  # a number
    return "" if name in parents else None

found, names = {}, json.load(sys.stdin)
parents = {n.rpartition(".")[0] for n in names}
for name in names:
    try:
        thing = importlib.import_module(name.partition(".")[0])
        if name.startswith("cupy.cuda.nccl."):
            importlib.import_module("cupy.cuda.nccl")  # CuPy itself imports it on demand
        for part in name.split(".")[1:]:
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        found[name] = in_files(name)
        continue
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        text = (getattr(thing, "__doc__", "") or "").partition(chr(10))[0]
    found[name] = text
print(json.dumps(found))
"""


def names_in_the_driver() -> set[str]:
    """The names of CuPy that the driver's source spells, by its own short names for them too."""
    found: set[str] = set()
    for path in (ROOT / "gpuarray/backends/cuda").glob("*.py"):
        tree = ast.parse(path.read_text())
        known = {"cupy": "cupy", "cupyx": "cupyx"}

        def dotted(node: ast.expr, known: dict[str, str] = known) -> str:
            if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
                return f"{before}.{node.attr}"
            return known.get(node.id, "") if isinstance(node, ast.Name) else ""

        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                target = node.targets[-1]
                pair = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                targets = target.elts if pair else [target]
                values = node.value.elts if pair else [node.value]
                for name, value in zip(targets, values, strict=False):
                    lazy = isinstance(value, ast.Call) and ast.unparse(value.func) == "lazy_module"
                    if lazy and isinstance(value.args[0], ast.Constant):
                        long = value.args[0].value if "cupy" in value.args[0].value else ""
                    else:
                        long = dotted(value)
                    if isinstance(name, ast.Name) and long:
                        known[name.id] = long
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and (name := dotted(node)):
                found.add(name)
    return found


def in_the_fake(name: str):
    top, *rest = name.split(".")
    thing = _MODULES[top]
    for part in rest:
        thing = getattr(thing, part)
    return thing


def all_names() -> dict[str, object]:
    """All public names of the stand-in, those of its classes too."""
    found: dict[str, object] = {}
    for module, things in NAMES.items():
        for name, thing in things.items():
            found[f"{module}.{name}"] = thing
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                public = [n for c in thing.__mro__[:-1] for n in vars(c) if n[0] != "_"]
                found |= {f"{module}.{name}.{n}": getattr(thing, n) for n in public}
    for module, names in LIBRARY.items():
        found |= {f"{module}.{name}": None for name in names.split()}
    return found


def parameters(signature: str) -> list[str] | None:
    """The names of parameters in a signature, without types and defaults."""
    inside = re.search(r"\((.*)\)", signature)
    if inside is None:
        return None
    depth, parts = 0, [""]
    for c in inside[1]:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    names = [re.sub(r"[:=].*", "", p).split()[-1:] for p in parts]
    return [n[0] for n in names if n and n[0] not in ("self", "/", "*", "cls")]


def test_every_name_that_the_driver_uses_is_there():
    missing = []
    for name in names_in_the_driver():
        try:
            in_the_fake(name)
        except AttributeError:
            missing.append(name)
    assert not missing, f"the driver uses what the stand-in lacks: {sorted(missing)}"


@pytest.fixture(scope="module")
def wheel():
    """What CuPy's wheel says of every name, asked in a process that has it."""
    names = sorted(all_names().keys() | names_in_the_driver())
    for python in PYTHONS:
        if not python.exists():
            continue
        command = [str(python), "-W", "ignore", "-c", PROBE]
        done = subprocess.run(
            command, input=json.dumps(names), capture_output=True, text=True, timeout=120
        )
        if done.returncode == 0:
            found = json.loads(done.stdout)
            if found["cupy.ndarray"] is not None:
                return found
    pytest.skip("CuPy's wheel is not here: `./ci/setup .venv-cupy cupy` brings it")


def test_every_name_is_one_of_cupys(wheel):
    unknown = [name for name, signature in wheel.items() if signature is None]
    assert not unknown, f"CuPy has no {unknown}"


def test_signatures_are_cupys(wheel):
    compared, different = 0, []
    for name, thing in all_names().items():
        real = parameters(wheel[name])
        if not callable(thing) or real is None or {"args", "*args"} & {*real}:
            continue
        if inspect.isclass(thing) and issubclass(thing, Exception):
            continue
        try:
            fake = parameters(str(inspect.signature(thing)))
        except ValueError:
            continue
        if not wheel[name].startswith("(") and not re.search(rf"\b{thing.__name__}\(", wheel[name]):
            continue  # the first line of its documentation is prose
        compared += 1
        fake, real = ([p for p in names if p[0] != "*"] for names in (fake, real))
        if fake != real[: len(fake)]:  # the stand-in may take fewer
            different.append(f"{name}: {fake}, CuPy: {real}")
    assert not different, "\n".join(different)
    assert compared > 60
