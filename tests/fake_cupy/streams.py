"""Devices, streams, events and graphs of the stand-in.

In: what a program asks of `cupy.cuda`. Out: work on the machine's queues (world.py).
"""

from __future__ import annotations

import itertools
import time
import weakref

from tests.fake_cupy.errors import CUDARuntimeError
from tests.fake_cupy.world import Queue, Work, world

_handles = itertools.count(0x5000, 16)


class Device:
    """A device by its number; `with Device(1):` makes it this thread's current one."""

    def __init__(self, device=None):
        self.id = world.thread.device if device is None else int(device)

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        # Each thread has a stack of its own: all of them enter the same Device objects.
        world.thread.left.append(world.thread.device)
        return self.use()

    def __exit__(self, *args) -> None:
        world.thread.device = world.thread.left.pop()

    def use(self) -> Device:
        if not 0 <= self.id < world.devices:
            raise CUDARuntimeError(101)
        world.thread.device = self.id
        return self

    def synchronize(self) -> None:
        world.finish(self.id)

    @property
    def compute_capability(self) -> str:
        return "90"

    @property
    def mem_info(self) -> tuple[int, int]:
        return world.memory - world.taken[self.id], world.memory


class Event:
    """A point in a stream's work."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        self.ptr = next(_handles)
        _events[self.ptr] = self
        self._device = world.thread.device
        self._work: Work | None = None
        self._timed, self._time = not disable_timing, 0.0
        self._captured_by: Queue | None = None

    def _usable(self) -> None:
        if self._captured_by is not None:
            raise CUDARuntimeError(900)

    @property
    def done(self) -> bool:
        self._usable()
        return eventQuery(self.ptr) == 0

    def record(self, stream=None) -> None:
        queue = _queue(stream)
        if queue.device != self._device:
            raise CUDARuntimeError(400)
        self._captured_by = queue if queue.captured is not None else None
        if not world.idle:
            self._work = world.put(queue, "event", self._note if self._timed else None)

    def _note(self) -> None:
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        self._usable()
        world.wait(self._work, self._device)


#: By their handles.
_events: weakref.WeakValueDictionary[int, Event] = weakref.WeakValueDictionary()


def eventQuery(event: int) -> int:
    """CUDA's number, which CuPy hands on without looking at it."""
    found = _events[event]
    if found._captured_by is not None:
        return 900
    return world.query(found._work, found._device)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two events; both must have been reached."""
    for event in (start_event, end_event):
        event._usable()
        if not event._timed or event._work is None:
            raise CUDARuntimeError(400)
        if not event._work.done:
            raise CUDARuntimeError(600)
    world.report(end_event._device)
    return (end_event._time - start_event._time) * 1e3


class Stream:
    """A queue of work on the device that was current when it was made."""

    null: Stream

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.device_id = -1 if null else world.thread.device
        self.ptr = 0 if null else next(_handles)
        if not null:
            with world.lock:
                world.queue(self.ptr, self.device_id, bool(non_blocking))

    def __eq__(self, other) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<Stream {self.ptr} (device {self.device_id})>"

    @property
    def _queue(self) -> Queue:
        return world.find(self.ptr)

    def _check(self) -> int:
        current = world.thread.device
        if self.device_id not in (-1, current):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with "
                f"the current device ({current})"
            )
        return current

    def __enter__(self) -> Stream:
        device = self._check()
        world.thread.streams.setdefault(device, []).append(self)
        world.thread.entered.append(device)
        return self

    def __exit__(self, *args) -> None:
        world.thread.streams[world.thread.entered.pop()].pop()

    def use(self) -> Stream:
        device = self._check()
        stack = world.thread.streams.setdefault(device, [])
        stack[-1:] = [self]
        return self

    @property
    def done(self) -> bool:
        queue = self._may_wait()
        return world.query(queue.last, queue.device) == 0

    def synchronize(self) -> None:
        queue = self._may_wait()
        world.wait(queue.last, queue.device)

    def _may_wait(self) -> Queue:
        queue = self._queue
        if queue.captured is not None:
            raise CUDARuntimeError(900)
        return queue

    def record(self, event=None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        queue = self._queue
        if queue.captured is not None or event._captured_by is not None:
            if event._captured_by is not queue:
                raise CUDARuntimeError(905)
            return
        if event._work is not None and not world.idle:
            world.put(queue, "wait", None, (), [event._work])

    def launch_host_func(self, callback, arg) -> None:
        world.put(self._queue, "host function", lambda: callback(arg))

    # ---- graphs ----
    def begin_capture(self, mode=None) -> None:
        if self.ptr == 0:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self._queue.captured is not None:
            raise CUDARuntimeError(1)
        world.count("capture")
        self._queue.captured = []

    def is_capturing(self) -> bool:
        return self._queue.captured is not None

    def end_capture(self) -> Graph:
        queue = self._queue
        if queue.captured is None:
            raise CUDARuntimeError(1)
        recorded, queue.captured = queue.captured, None
        world.count("instantiate")
        graph = Graph.__new__(Graph)
        graph._recorded = recorded
        return graph


class Graph:
    """Work that was recorded, to be put on a stream as often as wanted."""

    _recorded: list

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            "currently this class cannot be initiated by the user and must be created via stream "
            "capture"
        )

    def launch(self, stream=None) -> None:
        world.count("graph")
        queue = _queue(stream)
        if world.idle:
            return
        with world.lock:
            for label, run, uses in self._recorded:
                # Addresses are what was recorded: who has the memory by now may differ.
                again = [u.block.use(u.start, u.stop, u.writes) for u in uses]
                world.put(queue, label, run, again)


Stream.null = Stream(null=True)


def get_current_stream(device_id: int = -1) -> Stream:
    """The stream that is current on a device in this thread."""
    device = world.thread.device if device_id == -1 else device_id
    stack = world.thread.streams.get(device)
    return stack[-1] if stack else Stream.null


def _queue(stream) -> Queue:
    return (get_current_stream() if stream is None else stream)._queue
