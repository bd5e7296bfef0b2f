"""Programs on GPUs that are not there: right in every order of execution, and after every failure.

In: small programs through the public interface, the stand-in for CuPy (tests/fake_cupy), seeds.
Out: the values that NumPy gives; no race, no use of memory after it was freed, nothing left behind.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
import random
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors
from gpuarray.backends.cuda import device
from gpuarray.config import config
from gpuarray.errors import DeviceError, OutOfMemory
from gpuarray.runtime import execute
from gpuarray.runtime.lazy import flush_all
from tests.fake_cupy import installed, kernels, streams
from tests.support import simulated
from tests.support.targets import plan_for

if "cuda" in os.environ.get("GPUARRAY_PLATFORMS", ""):
    pytest.skip("CuPy itself, with a GPU, is in use here", allow_module_level=True)
simulated.need_compiler()

N = 16
GROUPS = 10

# ---- what schedules are made of ----
# A function of gpuarray's and NumPy's alike: small integers in float32, so that results are exact.


def affine(x, y):
    return 2 * x - y


def total(x):
    return x.sum() + x


def rolled(x):
    return x[::-1] + 1


def bounded(x):
    return (x + 5) % 64


def two_results(x, y):
    return x + y, (x * 3) % 32


def reduced(x, y):
    return (x.max() - y) % 128


def in_parts(x):
    """Several kernels."""
    square = x.reshape(4, 4)
    a, b = square.sum(0), square.max(1)
    mixed = (square - a) * (b[:, None] % 3) % 64
    return (mixed - mixed.max(0)).reshape(16) % 64


def kept(x):
    """Hands on what it was given: two arrays then share memory."""
    return x, (x * 2) % 64


# Twice the one of several kernels: they become CUDA graphs.
ONE, TWO = (total, rolled, bounded, in_parts, in_parts), (affine, two_results, reduced)
jitted = {f: ga.jit(f) for f in (*ONE, *TWO, kept)}
donating = {f: ga.jit(f, donate_argnums=0) for f in (*ONE, *TWO)}


class Schedule:
    """Arrays on devices, what they should hold, and what may be done next."""

    def __init__(self, seed: int, devices: list):
        self.random = random.Random(seed)
        self.devices = devices
        self.arrays: list[tuple[ga.Array, np.ndarray]] = []
        for _ in range(2):
            self.put()

    def pick(self) -> int:
        return self.random.randrange(len(self.arrays))

    def put(self) -> None:
        value = np.arange(N, dtype=np.float32) + self.random.randrange(4)
        there = self.random.choice(self.devices)
        self.arrays.append((ga.device_put(value, there), value))

    def add(self, made, values) -> None:
        pairs = zip(made, values, strict=True) if isinstance(made, tuple) else [(made, values)]
        for array, value in pairs:
            self.arrays.append((array, np.asarray(value, np.float32)))

    def operands(self, f) -> list[tuple]:
        first = self.arrays[self.pick()]
        if f in ONE:
            return [first]
        beside = [p for p in self.arrays if p[0].device == first[0].device and p is not first]
        return [first, self.random.choice(beside) if beside else first]

    def call(self) -> None:
        f = self.random.choice((*ONE, *TWO))
        operands = self.operands(f)
        self.add(jitted[f](*(a for a, _ in operands)), f(*(v for _, v in operands)))

    def share(self) -> None:
        array, value = self.arrays[self.pick()]
        self.add(jitted[kept](array), kept(value))

    def donate(self) -> None:
        f = self.random.choice((*ONE, *TWO))
        operands = self.operands(f)
        if len(operands) > 1 and operands[0] is operands[1]:
            return
        self.arrays = [p for p in self.arrays if p is not operands[0]]
        made = donating[f](*(a for a, _ in operands))
        assert operands[0][0].is_deleted()
        self.add(made, f(*(v for _, v in operands)))

    def eager(self) -> None:
        (a, v), (b, w) = self.operands(affine)
        self.add(a * 2 + b, v * 2 + w)

    def move(self) -> None:
        array, value = self.arrays[self.pick()]
        (there,) = (d for d in self.devices if d != array.device)
        self.add(ga.device_put(array, there), value)

    def forget(self) -> None:
        if len(self.arrays) > 2:
            del self.arrays[self.pick()]

    def delete(self) -> None:
        if len(self.arrays) > 2:
            array, _ = self.arrays.pop(self.pick())
            array.delete()

    def start_copy(self) -> None:
        self.arrays[self.pick()][0].copy_to_host_async()

    def poll(self) -> None:
        self.arrays[self.pick()][0].is_ready()

    def read(self) -> None:
        array, value = self.arrays[self.pick()]
        found = np.asarray(array)
        assert np.array_equal(found, value), f"got {found}\nexpected {value}"

    def run(self, steps: int) -> None:
        acts = (self.call, self.donate, self.eager, self.move, self.forget, self.delete)
        acts += (self.share, self.donate, self.start_copy, self.poll, self.read, self.put)
        for _ in range(steps):
            self.random.choice(acts)()
        while self.arrays:
            self.read()
            del self.arrays[self.pick()]


#: What kernels made of their inputs, from one group of schedules to the next.
remembered: dict = {}


@pytest.fixture
def machine():
    """Two GPUs that remember what a kernel made of its inputs."""
    with installed(devices=2) as world:
        world.remembered = remembered
        yield world


def run_schedules(world, seeds) -> None:
    devices = ga.devices("cuda")
    for seed in seeds:
        world.reseed(seed)
        try:
            Schedule(seed, devices).run(6)
            assert not world.faults, "\n".join(world.faults)
        except Exception as error:
            error.add_note(f"in schedule {seed}")
            raise


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_schedules(machine, group, fuzz_count, monkeypatch):
    # Planted mistakes (below) are noticed within 300.
    count = min(4 * fuzz_count, 10_000) // GROUPS
    graphs = group % 2 == 1
    if graphs:
        plan_for(monkeypatch, graph_kernels=2, graph_run=2)
    else:
        config.update("cuda_graphs", False)
    run_schedules(machine, range(group * count, (group + 1) * count))
    config.update("cuda_graphs", True)
    # In a few schedules no launches may come again at the same addresses.
    assert graphs == (machine.counts["graph"] > 0) or (graphs and count < 100)


def test_threads_that_ask_first_find_the_same_gpus(machine, monkeypatch):
    """One set of GPUs: a second would have streams that nothing orders with those of the first."""
    runtime = device.cupy.cuda.runtime
    both, properties, found = threading.Barrier(2), runtime.getDeviceProperties, []

    def slow(index: int) -> dict:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # for the other thread, should it make GPUs as well
        return properties(index)

    monkeypatch.setattr(runtime, "getDeviceProperties", slow)
    threads = [threading.Thread(target=lambda: found.append(device.gpus()[0])) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 2 and found[0] is found[1]


def test_threads_have_schedules_of_their_own(machine, request):
    # Threads take turns after every few instructions, as they do on a busy machine.
    request.addfinalizer(functools.partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    errors = []

    def run(seeds) -> None:
        try:
            run_schedules(machine, seeds)
            flush_all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[range(n, n + 25)]) for n in range(0, 100, 25)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


# ---- the schedules would notice ----


def nobody_waits(monkeypatch):
    monkeypatch.setattr(streams.Stream, "wait_event", lambda self, event: None)


def pinned_memory_is_let_go(monkeypatch):
    monkeypatch.setattr(device.Gpu, "hold", lambda self, thing: None)


def donated_though_others_look(monkeypatch):
    monkeypatch.setattr(execute, "of_gpu", lambda buffer, holders: True)


def written_where_the_text_says_restrict(monkeypatch):
    honest = kernels._parameter

    def parameter(text: str):
        return honest(text)._replace(alone=True)

    monkeypatch.setattr(kernels, "_parameter", parameter)
    kernels.signatures.cache_clear()


def events_come_too_early(monkeypatch):
    """Whoever waits for a GPU's work waits for what was marked long before."""

    def mark(self, ticket=math.inf):
        if not self._marks:
            honest(self, ticket)
        return self._marks[0][1]

    honest = device.Gpu.mark
    monkeypatch.setattr(device.Gpu, "mark", mark)


PLANTED = {
    nobody_waits: "race: nothing orders",
    pinned_memory_is_let_go: "freed while a copy is to come",
    donated_though_others_look: "race: nothing orders",
    written_where_the_text_says_restrict: "are the same memory, one is written",
    events_come_too_early: "race: nothing orders",
}


@pytest.mark.parametrize("mistake", list(PLANTED), ids=lambda f: f.__name__)
def test_a_planted_mistake_is_noticed(monkeypatch, mistake):
    """By a fault of the machine, by a wrong value, or by both."""
    with pytest.raises(AssertionError, match=f"got .*|{PLANTED[mistake]}") as caught:
        with installed(devices=2) as world:
            world.remembered = remembered
            mistake(monkeypatch)
            try:
                run_schedules(world, range(300))
            finally:
                monkeypatch.undo()
                kernels.signatures.cache_clear()
    assert "in schedule" in str(caught.value.__notes__)


# ---- failures ----


def several_kernels(x, np=gnp):
    a = np.sum(x, axis=0)
    b = np.max(x - a, axis=1)
    c = np.sum(x * b[:, None], axis=0)
    return c + 1, b


def through_libraries(x, np=gnp):
    a = np.matmul(x, x.T)
    b = np.sort(a * 2, axis=1)
    return b + 1, a


VALUE = np.arange(24, dtype=np.float32).reshape(4, 6) % 7
PROGRAMS = (several_kernels, through_libraries)
FIRST = several_kernels.__code__.co_firstlineno
LINES = "|".join(str(FIRST + i) for i in range(12))


def taken(world) -> int:
    """How many pieces of memory are taken once all work is over and was looked at."""
    gc.collect()
    world.finish()
    for gpu in device.gpus():
        gpu.wait()
    return sum(b.live for b in (*world.blocks, *world.pinned))


def run_and_read(f, x) -> list[np.ndarray]:
    return [np.asarray(y) for y in f(x)]


HERE = rf"recorded at {Path(__file__).name}:({LINES})"
# what fails, how often: the error, and what it says
FAILURES = {
    "launch": (1, DeviceError, rf"(?s)LAUNCH_OUT_OF_RESOURCES.*{HERE}"),
    "allocation": (math.inf, OutOfMemory, rf"Out of memory in \w+ {HERE}"),
    "execution": (1, DeviceError, rf"(?s)(LaunchFailure|LAUNCH_FAILED).*{HERE}"),
    "library": (1, DeviceError, rf"(?s)cudaErrorUnknown.*{HERE}"),
    "graph": (1, DeviceError, rf"(?s)cudaErrorUnknown.*{HERE}"),
    "copy": (math.inf, DeviceError, "cudaErrorUnknown"),
    "pinned": (math.inf, (DeviceError, OutOfMemory), "out of memory"),
}
CASES = [
    (what, program)
    for what in FAILURES
    for program in PROGRAMS
    if (what, program) not in [("library", several_kernels), ("graph", through_libraries)]
]


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("donated", [False, True], ids=["kept", "donated"])
@pytest.mark.parametrize(("what", "program"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_each_failure_is_told_and_leaves_nothing(fake_gpu, monkeypatch, what, program, donated):
    if what == "graph":
        plan_for(monkeypatch, graph_kernels=2, graph_run=2)
    times, kind, message = FAILURES[what]
    world, f = fake_gpu, ga.jit(program, donate_argnums=(0,) if donated else ())

    def run(x) -> None:
        for found, right in zip(run_and_read(f, x), program(VALUE, np), strict=True):
            assert np.array_equal(found, right)

    for _ in range(8):  # graphs are recorded when addresses come again
        x = ga.device_put(VALUE)
        run(x)
        del x
    before, counts = taken(world), world.counts.copy()
    x = ga.device_put(VALUE)
    put = world.counts - counts
    run(x)
    del x
    number = (world.counts - counts - put)[what]
    assert number, f"the program has no {what} that could fail"
    for n in range(number):
        x = ga.device_put(VALUE)
        world.fail(what, n, times=times)
        with pytest.raises(kind, match=message) as caught:
            run(x)
        world.repair()
        del caught, x
        assert taken(world) == before, f"after the failure of number {n}"
        run(ga.device_put(VALUE))
    assert world.counts["compile"] == counts["compile"]


@pytest.mark.parametrize("what", ["allocation", "copy", "pinned"])
def test_a_failed_upload_is_told_and_leaves_nothing(fake_gpu, what):
    times, kind, _ = FAILURES[what]
    ga.device_put(VALUE).block_until_ready()
    before = taken(fake_gpu)
    fake_gpu.fail(what, 0, times=times)
    with pytest.raises(kind) as caught:
        ga.device_put(VALUE)
    fake_gpu.repair()
    del caught
    assert taken(fake_gpu) == before
    assert np.array_equal(ga.device_put(VALUE), VALUE)


def test_second_call_compiles_nothing_and_takes_no_more_memory(fake_gpu):
    f, x = ga.jit(several_kernels), ga.device_put(VALUE)
    run_and_read(f, x)
    before, counts = taken(fake_gpu), fake_gpu.counts.copy()
    for _ in range(5):
        run_and_read(f, x)
    assert taken(fake_gpu) == before
    assert fake_gpu.counts["compile"] == counts["compile"]


def test_copies_to_the_host_are_guarded(fake_gpu):
    with ga.default_device("gpu"):
        x = gnp.ones(N) + 1
        with ga.transfer_guard_device_to_host("disallow"):
            with pytest.raises(errors.JaxRuntimeError, match="device-to-host"):
                np.asarray(x)
            assert ga.device_get(x)[0] == 2
        with ga.transfer_guard_device_to_host("disallow_explicit"):
            with pytest.raises(errors.JaxRuntimeError, match="device-to-host"):
                ga.device_get(x)
        assert float(x[0]) == 2


class Reached:
    """An event; asking for it collects garbage, whose finalisers look as well."""

    def __init__(self, gpu, reached):
        self.gpu, self.reached = gpu, reached

    @property
    def done(self):
        if self.reached and self.gpu is not None:
            gpu, self.gpu = self.gpu, None
            gpu.look()
        return self.reached


def test_looking_within_a_look_takes_nothing_that_was_not_asked_for(fake_gpu):
    gpu = ga.device_put(1.0)._buffer().gpu
    gpu._marks.clear()
    gpu._marks.extend(
        [(gpu._reached + 1, Reached(gpu, True)), (gpu._reached + 2, Reached(gpu, False))]
    )
    expected = gpu._reached + 1
    gpu.look()
    assert gpu._reached == expected
    assert len(gpu._marks) == 1
    gpu._marks.clear()
