"""Asynchronous dispatch on the CPU: one worker a device runs submitted work in order.

Floor 5. In: a callable and the arrays it will fill. Out: a Flight, on which those arrays wait. A
GPU brings its own streams; this is their counterpart for the CPU.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from gpuarray.core.sharding import Device


class Flight:
    """Work that was dispatched: arrays it will fill hold it as their `_work`."""

    __slots__ = ("_done", "arrays", "error", "run")

    def __init__(self, run: Callable[[], list], arrays: list):
        self.run: Callable[[], list] | None = run
        self.arrays: list | None = arrays
        self.error: BaseException | None = None
        self._done = threading.Event()

    def resolve(self) -> None:
        """Wait until the work is done; raise what it raised."""
        self._done.wait()
        if self.error is not None:
            raise self.error

    def poll(self) -> bool:
        """Whether the work is done."""
        return self._done.is_set()

    def execute(self) -> None:
        """Run on the worker: fill the arrays, or keep the error for whoever asks."""
        run, arrays = self.run, self.arrays
        assert run is not None and arrays is not None
        try:
            for array, buffer in zip(arrays, run(), strict=True):
                array._bufs = [buffer]
                array._work = None  # last: readers look at _work first
        except BaseException as error:
            self.error = error
        finally:
            self.run = self.arrays = None  # inputs and outputs live no longer than needed
            self._done.set()


class Stream:
    """A queue of Flights and the thread that works it off."""

    def __init__(self, device: Device):
        self._queue: queue.SimpleQueue[Flight] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"gpuarray-{device}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            flight = self._queue.get()
            flight.execute()
            del flight

    def submit(self, run: Callable[[], list], arrays: list) -> Flight:
        """Queue `run`, whose results become the buffers of `arrays`."""
        flight = Flight(run, arrays)
        for array in arrays:
            array._work = flight
        if threading.current_thread() is self._thread:
            flight.execute()  # asked for by a callback: the queue waits for what runs now
        else:
            self._queue.put(flight)
        return flight


_streams: dict[Device, Stream] = {}
_lock = threading.Lock()


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
