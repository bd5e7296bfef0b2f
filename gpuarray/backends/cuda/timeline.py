"""How long the steps of programs take on a GPU, for profiles.

Floor 4. In: ranges of the host, which launches steps and does not wait for them. Out: the same
ranges as the GPU ran them, in its own row of the profile, between two events on its stream.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from gpuarray.backends.cuda.availability import cupy
from gpuarray.core.ranges import Range, Session

#: How many ranges a GPU times: events are taken from the driver.
TIMED = 1 << 16


def of(gpu: Any, session: Session) -> Timeline:
    """Return the clock of a GPU in a session."""
    found = session.clocks.get(gpu)
    if found is None:
        found = session.clocks[gpu] = Timeline(gpu)
    return found


class Timeline:
    """The clock of one GPU in one profile.

    Parameters
    ----------
    gpu :
        A `Gpu`: its `device`, `stream` and `index` are used.
    """

    def __init__(self, gpu: Any):
        self._gpu = gpu
        self._spans: list[tuple[Range, Any, Any]] = []
        # One moment on both clocks.
        self._zero = self.event()
        self._zero.synchronize()
        self._start = time.perf_counter_ns()

    def event(self) -> Any:
        """Return an event on the stream, after everything launched so far."""
        with self._gpu.device:
            made = cupy.cuda.Event()
        made.record(self._gpu.stream)
        return made

    def timed(self, what: Range) -> contextlib.AbstractContextManager[Any]:
        """Return a range that is timed on the GPU, too."""
        return what if len(self._spans) >= TIMED else _Timed(what, self)

    def add(self, what: Range, start: Any) -> None:
        """Note that a range ends here."""
        self._spans.append((what, start, self.event()))

    def settle(self, session: Session) -> None:
        """Add the ranges to the session; wait until the GPU has run them."""
        spans, self._spans = self._spans, []
        # A failed GPU has no times; the program that failed reports the error itself.
        with contextlib.suppress(Exception):
            for what, start, stop in spans:
                stop.synchronize()
                begin, end = (cupy.cuda.get_elapsed_time(self._zero, e) for e in (start, stop))
                shown = Range(what.name, "kernel", what.args, what.about)
                shown.row = f"cuda:{self._gpu.index} stream"
                # In milliseconds.
                session.note(shown, self._start + int(begin * 1e6), self._start + int(end * 1e6))


class _Timed:
    """A range of the host between two events of a GPU."""

    def __init__(self, what: Range, timeline: Timeline):
        self._what, self._timeline = what, timeline

    def __enter__(self) -> Range:
        self._start = self._timeline.event()
        return self._what.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._what.__exit__(*exc)
        # After a failed launch there is no event, and an error will be raised.
        with contextlib.suppress(Exception):
            self._timeline.add(self._what, self._start)


def copy_seconds(gpu: Any, nbytes: int, tries: int) -> float:
    """Return how long a GPU takes to copy this many bytes within its memory."""
    with gpu.device:
        source, target = gpu.allocate(nbytes), gpu.allocate(nbytes)
    clock, best = Timeline(gpu), float("inf")
    for _ in range(tries):
        start = clock.event()
        gpu.write(target.ptr, source.ptr, nbytes)
        stop = clock.event()
        stop.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    return max(best, 1e-9)  # the clock of events has a resolution
