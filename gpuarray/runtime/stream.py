"""Asynchronous dispatch on the CPU: one worker thread for each device, in order.

Floor 5. In: a function and the arrays that it will fill. Out: a Flight, on which those arrays wait.
It is the CPU's counterpart to a GPU's streams.
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
    """Dispatched work; the arrays that it will fill have it as their `_work`.

    `run()` returns for each array its buffers, one for each device.
    """

    __slots__ = ("_claim", "_done", "_lock", "_runner", "_waiting", "_worker", "error", "run")

    def __init__(self, run: Callable[[], list], arrays: list[ArrayImpl], worker: threading.Thread):
        self.run: Callable[[], list] | None = run
        self.error: BaseException | None = None
        self._worker = worker
        self._runner = 0  # the thread that runs it
        self._waiting = list(enumerate(arrays))  # which result each array waits for
        self._claim = threading.Lock()  # taken by the thread that runs it, for good
        self._lock = threading.Lock()  # guards `_waiting` and `_done`
        self._done = threading.Event()

    def resolve(self) -> None:
        """Wait until the work is done; raise its error, if any."""
        if not self.join():
            raise RuntimeError(
                "a Python function asks for a result of the very program that is calling it: the "
                "value depends on itself. Return what the function computes instead."
            )
        if self.error is not None:
            raise self.error

    def join(self) -> bool:
        """Wait until the work is done; return False if this thread is doing it."""
        if self._done.is_set():
            return True
        if self._runner == threading.get_ident():
            return False
        # The worker itself cannot wait for work further back in its queue, and in a forked child
        # there is no worker: run it here.
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
        """Whether a worker has, or had, the work."""
        return True

    def poll(self) -> bool:
        """Whether the work is done."""
        return self._done.is_set()

    def execute(self) -> None:
        """Run the work unless another thread does: fill the arrays, or keep the error."""
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
        # Interrupts too: store it for those who wait for the arrays, and keep the worker alive.
        except BaseException as error:
            self.error = error
        finally:
            with self._lock:
                # Inputs and outputs are released as soon as possible.
                self.run, self._waiting = None, []
                self._done.set()

    def twin(self, array: ArrayImpl) -> ArrayImpl:
        """Return another array that waits for the same value as `array`."""
        made = ArrayImpl(array.aval, array._place, None, self)
        self.follow(array, made)
        return made

    def follow(self, array: ArrayImpl, twin: ArrayImpl) -> None:
        """Fill `twin` like `array`."""
        with self._lock:
            for i, known in self._waiting:
                if known is array:
                    self._waiting.append((i, twin))
                    return
            # Filled already, or deleted.
            if array._work is None and array._bufs is not None:
                _fill(twin, array._bufs)


def _fill(array: ArrayImpl, buffers: list) -> None:
    if array._work is not None:  # otherwise it was deleted meanwhile
        array._bufs = buffers
        array._work = None  # last: readers look at _work first


class Stream:
    """A queue of Flights, and the thread that runs them."""

    def __init__(self, device: Device):
        self._queue: queue.SimpleQueue[Flight] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"gpuarray-{device}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while True:
            flight = self._queue.get()
            flight.execute()
            # No reference to a finished flight while waiting for the next.
            del flight

    def submit(self, run: Callable[[], list], arrays: list[ArrayImpl]) -> Flight:
        """Queue `run`, whose results become the buffers of `arrays`."""
        flight = Flight(run, arrays, self.thread)
        for array in arrays:
            if array._work is None:  # recorded arrays keep waiting on their nodes
                array._work = flight
        if threading.current_thread() is self.thread:
            flight.execute()  # submitted by a callback: queued, it would wait for its own caller
        else:
            self._queue.put(flight)
        return flight


_streams: dict[Device, Stream] = {}
_lock = util.lock()


def wait_for_all() -> None:
    """Wait until all streams have finished the work submitted so far."""
    for stream in list(_streams.values()):
        # An empty job: when it has run, so has everything before it.
        stream.submit(list, []).resolve()


def stream_of(device: Device) -> Stream:
    """Return the stream of a device, started on first use."""
    stream = _streams.get(device)
    if stream is None:
        with _lock:
            stream = _streams.get(device)
            if stream is None:
                stream = _streams[device] = Stream(device)
    return stream


def _forget_streams() -> None:
    """Drop the streams in a forked child, which has no workers; the next work starts one."""
    _streams.clear()


# Finish work in flight before a fork, so that a child finds the values of all its arrays. Handlers
# registered last run first: the thread pool of the tiles is still usable then.
os.register_at_fork(before=wait_for_all, after_in_child=_forget_streams)
