"""The machine behind the stand-in for CuPy: devices, queues of work, and what went wrong.

In: work put on streams, with the memory that it reads and writes. Out: the work done, later, in an
order drawn from a seed that keeps only what CUDA promises: one stream in order, events, waits of
the host. Beside running it in one order, every piece of work is compared with all that touched the
same memory before: two that no event orders are a fault in every order (vector clocks decide that).

Faults are kept in `world.faults` and end the test; errors that a GPU would report are raised.
"""

from __future__ import annotations

import collections
import os
import random
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import gpuarray
from tests.fake_cupy.errors import (
    CUDADriverError,
    CUDARuntimeError,
    NcclError,
    OutOfMemoryError,
)


class Use(NamedTuple):
    """Bytes of a block that some work touches; `life` counts how often the block was handed out."""

    block: Any
    life: int
    start: int
    stop: int
    writes: bool


class Work:
    """One thing that a stream does."""

    __slots__ = ("after", "clock", "done", "label", "number", "run", "source", "stream", "uses")

    def __init__(self, stream, label: str, run: Callable[[], None] | None, uses: tuple[Use, ...]):
        self.stream, self.label, self.run, self.uses = stream, label, run, uses
        self.after: list[Work] = []
        self.clock: dict[int, int] = {}
        self.number = 0
        self.done = False
        self.source: Any = None  # of a copy from the host: the bytes

    def __repr__(self) -> str:
        return f"{self.label} (number {self.number} of stream {self.stream.ptr:#x})"


class Queue:
    """What a stream is to the machine."""

    def __init__(self, ptr: int, device: int, non_blocking: bool):
        self.ptr, self.device, self.non_blocking = ptr, device, non_blocking
        self.waiting: collections.deque[Work] = collections.deque()
        self.last: Work | None = None
        self.count = 0
        self.captured: list | None = None  # what is recorded instead of run


class _Thread(threading.local):
    def __init__(self):
        self.device = 0
        self.left: list[int] = []  # devices to return to at the end of `with` blocks
        self.entered: list[int] = []  # devices of the streams entered in `with` blocks
        self.streams: dict[int, list] = {}  # of each device, the current stream last
        self.ranges: list[str] = []  # of NVTX, that are open


class World:
    """All devices, as one test sees them."""

    def __init__(self):
        self.lock = threading.RLock()
        self.machine = 0
        self.reset()

    def reset(
        self, seed: int = 0, devices: int = 2, memory: int = 1 << 30, idle: bool = False
    ) -> None:
        """A machine that was just switched on.

        seed: where moments and order of execution are drawn from; memory: bytes of each device
        idle: nothing runs; calls cost what they must, for measuring the caller's own time
        """
        self.machine += 1
        self.reseed(seed)
        self.devices, self.memory, self.idle = devices, memory, idle
        self.faults: list[str] = []
        self.ranges: list[tuple[int, str]] = []  # of NVTX: how deep, and the name
        self.open_ranges = 0
        self.queues: dict[int, Queue] = {}
        self.null = [self.queue(0, d, False) for d in range(devices)]
        self.blocks: list = []  # of device memory, by address
        self.pinned: list = []
        self.taken = [0] * devices  # bytes
        self.ends = [(0x7A00 + d) << 44 for d in range(devices)]  # where the next block lies
        self.host: dict[int, int] = {}  # the work that the host knows to be over
        self.broken: list[Exception | None] = [None] * devices
        self.exchanged: dict[int, tuple] = {}  # of each device: its last communicator, and work
        self.counts: collections.Counter[str] = collections.Counter()
        self.failing: dict[str, list[tuple[int, float, Exception]]] = {}
        self.thread = _Thread()
        self.running = False
        self.old_solver = False  # whether cuSOLVER is one without eigenvalues of general matrices
        self.remembered: dict | None = None  # results of kernels by their inputs; None: always run

    def reseed(self, seed: int) -> None:
        """Another order, on the machine as it is."""
        self.random = random.Random(seed)
        self.eager = self.random.random()  # some runs are prompt, others lag far behind

    # ---- what is asked for ----
    def fail(
        self, what: str, number: int, error: Exception | None = None, times: float = 1
    ) -> None:
        """Let the `number`-th thing of a kind, from now on and counted from 0, fail; and those that
        follow, so many in all.

        what: "allocation", "pinned" (memory), "launch", "graph" (its launch), "capture" (its
        beginning), "instantiate" (its end), "copy", "library", "exchange" (the end of a group of
        NCCL's calls), or "execution": a kernel that was launched and fails
        when it runs, which all calls say from then on
        """
        errors = {
            "allocation": OutOfMemoryError(512, 0),
            "pinned": CUDARuntimeError(2),
            "launch": CUDADriverError(701),
            "graph": CUDARuntimeError(999),
            "capture": CUDARuntimeError(900),
            "instantiate": CUDARuntimeError(901),
            "copy": CUDARuntimeError(999),
            "library": CUDARuntimeError(999),
            "exchange": NcclError(1),
            "execution": CUDARuntimeError(719),
        }
        first = self.counts[what] + number
        self.failing.setdefault(what, []).append((first, first + times, error or errors[what]))

    def count(self, what: str) -> None:
        """Count one thing, and fail if it was asked to."""
        number = self.counts[what]
        self.counts[what] = number + 1
        for first, end, error in self.failing.get(what, ()):
            if first <= number < end:
                raise error

    def fault(self, text: str) -> None:
        """A mistake of the program that a GPU would not report."""
        self.faults.append(text)

    # ---- queues ----
    def queue(self, ptr: int, device: int, non_blocking: bool) -> Queue:
        self.queues[(ptr or -1 - device)] = made = Queue(ptr, device, non_blocking)
        return made

    def find(self, ptr: int) -> Queue:
        """A stream by its handle; 0 is the default stream of the current device."""
        found = self.queues.get(ptr or -1 - self.thread.device)
        if found is None:
            raise CUDARuntimeError(400)
        return found

    def current(self, device: int) -> int:
        """The handle of this thread's stream on a device."""
        stack = self.thread.streams.get(device)
        return stack[-1].ptr if stack else 0

    def put(
        self,
        queue: Queue,
        label: str,
        run: Callable[[], None] | None,
        uses: Iterable[Use] = (),
        after: Iterable[Work] = (),
    ) -> Work | None:
        """Work at the end of a queue; None where it was recorded."""
        with self.lock:
            if queue.captured is not None:
                queue.captured.append((label, run, tuple(uses)))
                return None
            work = Work(queue, label, run, tuple(uses))
            work.after = [w for w in (*after, *self._implied(queue)) if not w.done]
            clock = dict(self.host)
            for other in (queue.last, *after, *self._implied(queue)):
                if other is not None:
                    merge(clock, other.clock)
            queue.count += 1
            work.number = queue.count
            clock[id(queue)] = queue.count
            work.clock = clock
            for use in work.uses:
                use.block.used(use, work)
            queue.last = work
            queue.waiting.append(work)
            self.some()
            return work

    def _implied(self, queue: Queue) -> list[Work]:
        """The default stream waits for all blocking ones of its device, and they for it."""
        if queue.non_blocking:
            return []
        if queue.ptr:
            others = [self.null[queue.device]]
        else:
            others = [q for q in self.queues.values() if q.device == queue.device and q.ptr]
        return [q.last for q in others if q.last is not None and not q.non_blocking]

    # ---- running ----
    def some(self) -> None:
        """Run as much as chance has it, which may be nothing."""
        while self.random.random() < self.eager:
            if not self.one():
                return

    def one(self) -> bool:
        """Run one thing that may run now; whether there was one."""
        # Garbage may be collected meanwhile, and a finaliser of it ask how work is going: nothing
        # runs inside of other work.
        if self.running:
            return False
        self.running = True
        try:
            return self._one()
        finally:
            self.running = False

    def _one(self) -> bool:
        ready = [
            q for q in self.queues.values() if q.waiting and all(w.done for w in q.waiting[0].after)
        ]
        if not ready:
            return False
        queue = self.random.choice(ready)
        work = queue.waiting.popleft()
        try:
            if work.run is not None:
                work.run()
        except Exception as error:
            self.broken[queue.device] = self.broken[queue.device] or error
        work.done, work.run, work.after, work.source = True, None, [], None
        for use in work.uses:
            use.block.over(use)
        return True

    def wait(self, work: Work | None, device: int) -> None:
        """Wait as the host does: for one piece of work and what it waits for, at least."""
        with self.lock:
            while work is not None and not work.done:
                if not self.one():
                    raise AssertionError(f"{work} waits for what never comes")
            if work is not None:
                merge(self.host, work.clock)
            self.report(device)

    def query(self, work: Work | None, device: int) -> int:
        """CUDA's number for how work is going, without waiting: 0, 600 for not ready, or what went
        wrong on the device, which stays; who asks often enough sees the work done.
        """
        with self.lock:
            if work is not None and not work.done and self.random.random() < 0.5:
                self.one()
            if self.broken[device] is not None:
                status = getattr(self.broken[device], "status", None)
                if status is None:
                    self.report(device)
                return status  # pyright: ignore[reportReturnType]
            if work is not None and not work.done:
                return 600
            if work is not None:
                merge(self.host, work.clock)
            return 0

    def finish(self, device: int | None = None) -> None:
        """Wait for all work (of a device)."""
        with self.lock:
            for queue in list(self.queues.values()):
                if device is None or queue.device == device:
                    self.wait(queue.last, queue.device)

    def report(self, device: int) -> None:
        """Raise what went wrong on a device: it stays broken for all that comes."""
        error = self.broken[device]
        if error is not None:
            raise error

    def repair(self) -> None:
        """Make broken devices whole, as only another process could, and stop failing on demand."""
        self.failing.clear()
        with self.lock:
            while self.one():
                pass
            self.broken = [None] * self.devices


def merge(clock: dict[int, int], other: dict[int, int]) -> None:
    """Let a clock know all that another knows."""
    for key, count in other.items():
        if clock.get(key, 0) < count:
            clock[key] = count


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.abspath(gpuarray.__file__)) + os.sep


def site() -> str:
    """The line that called this package, and the line of the program that led there."""
    frame = sys._getframe(1)
    places = []
    for inside in (_HERE, (_HERE, _PACKAGE)):
        while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
            frame = frame.f_back
        places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
    return " for ".join(dict.fromkeys(places))


world = World()
