"""Asynchronous dispatch on the CPU: one worker a device runs submitted work in order.

Floor 5. In: a callable and the arrays it will fill. Out: a Flight, on which those arrays wait. A
GPU brings its own streams; this is their counterpart for the CPU.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - takes a lock at a fork: see the end of this file
import os
import queue
import threading
from collections.abc import Callable

from gpuarray import util
from gpuarray.core.sharding import Device
from gpuarray.runtime.array import ArrayImpl


class Flight:
    """Work that was dispatched: arrays it will fill hold it as their `_work`."""

    __slots__ = ("_claim", "_done", "_lock", "_runner", "_waiting", "_worker", "error", "run")

    def __init__(self, run: Callable[[], list], arrays: list[ArrayImpl], worker: threading.Thread):
        self.run: Callable[[], list] | None = run
        self.error: BaseException | None = None
        self._worker = worker
        self._runner = 0  # the thread that runs it
        self._waiting = list(enumerate(arrays))  # which result each array waits for
        self._claim = threading.Lock()  # held from the moment somebody runs it
        self._lock = threading.Lock()  # of `_waiting` and of being done
        self._done = threading.Event()

    def resolve(self) -> None:
        """Wait until the work is done; raise what it raised."""
        if not self.join():
            raise RuntimeError(
                "a Python function asks for a result of the very program that is calling it: the "
                "value depends on itself. Return what the function computes instead."
            )
        if self.error is not None:
            raise self.error

    def join(self) -> bool:
        """Wait until the work is done; False where that is what this thread is doing."""
        if self._done.is_set():
            return True
        if self._runner == threading.get_ident():
            return False
        # The worker cannot wait for what stands behind its own work in the queue; and in a forked
        # child there is no worker.
        if self._worker is threading.current_thread() or not self._worker.is_alive():
            self.execute()
            if not self._done.is_set() and not self._worker.is_alive():
                raise RuntimeError(
                    "the value was being computed by another thread when this process was forked: "
                    "wait for it with block_until_ready() before the fork"
                )
        self._done.wait()
        return True

    def in_flight(self) -> bool:
        """Whether a worker has the work in hand, or had."""
        return True

    def poll(self) -> bool:
        """Whether the work is done."""
        return self._done.is_set()

    def execute(self) -> None:
        """Run, unless somebody does: fill the arrays, or keep the error for whoever asks."""
        if not self._claim.acquire(blocking=False):
            return
        self._runner = threading.get_ident()
        run = self.run
        assert run is not None
        try:
            buffers = run()
            with self._lock:
                for i, array in self._waiting:
                    _fill(array, buffers[i])
        except BaseException as error:
            self.error = error
        finally:
            with self._lock:
                # Inputs and outputs live no longer than needed.
                self.run, self._waiting = None, []
                self._done.set()

    def twin(self, array: ArrayImpl) -> ArrayImpl:
        """Another array that waits for the same value as `array`."""
        made = ArrayImpl(array.aval, array._place, None, self)
        self.follow(array, made)
        return made

    def follow(self, array: ArrayImpl, twin: ArrayImpl) -> None:
        """Fill `twin` as `array` is filled."""
        with self._lock:
            for i, known in self._waiting:
                if known is array:
                    self._waiting.append((i, twin))
                    return
            if array._work is None and array._bufs is not None:
                _fill(twin, array._bufs[0])


def _fill(array: ArrayImpl, buffer) -> None:
    if array._work is not None:  # else it was deleted meanwhile
        array._bufs = [buffer]
        array._work = None  # last: readers look at _work first


class Stream:
    """A queue of Flights and the thread that works it off."""

    def __init__(self, device: Device):
        self._queue: queue.SimpleQueue[Flight] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"gpuarray-{device}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while True:
            flight = self._queue.get()
            flight.execute()
            del flight

    def submit(self, run: Callable[[], list], arrays: list[ArrayImpl]) -> Flight:
        """Queue `run`, whose results become the buffers of `arrays`."""
        flight = Flight(run, arrays, self.thread)
        for array in arrays:
            if array._work is None:  # recorded ones go on waiting on their nodes
                array._work = flight
        if threading.current_thread() is self.thread:
            flight.execute()  # asked for by a callback: the queue waits for what runs now
        else:
            self._queue.put(flight)
        return flight


_streams: dict[Device, Stream] = {}
_lock = util.lock()


def wait_for_all() -> None:
    """Wait until all streams have worked off what was submitted so far."""
    for stream in list(_streams.values()):
        stream.submit(list, []).resolve()


def stream_of(device: Device) -> Stream:
    """The stream of a device, started on first use."""
    stream = _streams.get(device)
    if stream is None:
        with _lock:
            stream = _streams.get(device)
            if stream is None:
                stream = _streams[device] = Stream(device)
    return stream


def _forget_streams() -> None:
    """In a forked child no worker lives: the first work starts one."""
    _streams.clear()


# Work in flight is finished before a fork, so that a child finds every value it was given. What is
# registered last runs first: the tiles' thread pool is still open then.
os.register_at_fork(before=wait_for_all, after_in_child=_forget_streams)
