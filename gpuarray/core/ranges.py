"""Ranges of time, for profiles.

Floor 1. In: names, from code that takes time. Out: while a session is on, an event for each range,
and an NVTX range if a GPU is in use, which NVIDIA's tools show. Code that is called often checks
`session` first, since there is nothing to record without one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

#: The most events kept in a session; later ones are only counted.
LIMIT = 1 << 20
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """A range that has ended; times are in nanoseconds since the session's start."""

    name: str
    kind: str
    thread: str  # or the device whose row it is in
    row: int  # of the timeline, one for each thread and device
    start: int
    duration: int
    args: Mapping[str, Any]


class Session:
    """The ranges recorded between a start and a stop.

    Parameters
    ----------
    kinds :
        Kinds of ranges to record; None for all.
    """

    def __init__(self, kinds: frozenset[str] | None = None):
        self.kinds = kinds
        self.events: list[Event] = []
        self.left_out = 0
        self.start = time.perf_counter_ns()
        #: Timelines of GPUs, whose times are known at the end (backends/cuda/timeline.py).
        self.clocks: dict[Any, Any] = {}
        self._rows: dict[tuple[int, str], int] = {}

    def note(self, of: Range, start: int, stop: int) -> None:
        """Add a range that has ended."""
        if self.kinds is not None and of.kind not in self.kinds:
            return
        if len(self.events) >= LIMIT:
            self.left_out += 1
            return
        # Identifiers are reused by later threads, names need not be unique.
        thread = threading.current_thread()
        key = (threading.get_ident(), thread.name) if of.row is None else (-1, of.row)
        row = self._rows.setdefault(key, len(self._rows) + 1)
        self.events.append(
            Event(of.name, of.kind, key[1], row, start - self.start, stop - start, of.args)
        )

    def finish(self) -> None:
        """Add the GPUs' events, waiting for them."""
        for clock in list(self.clocks.values()):
            clock.settle(self)


class Marks(Protocol):
    """The part of `cupy.cuda.nvtx` that is used."""

    def RangePush(self, message: str, /) -> Any: ...
    def RangePop(self) -> Any: ...


#: The session that is on, and NVTX if a GPU is in use.
session: Session | None = None
marks: Marks | None = None


class _Here(threading.local):
    """The device whose program this thread runs, if it runs those of several in turn."""

    row: str | None = None


_here = _Here()


class Range:
    """Context manager: one event, and one NVTX range if a GPU is in use. Not reusable.

    Parameters
    ----------
    kind :
        "annotation", "jit", "compile", "run" (of a program), "scope", "step" (of a program),
        "operation", "copy", or "kernel" (a step, as long as the GPU took for it).
    about :
        The object that takes the time, for readers within the package: a step, a plan.

    Attributes
    ----------
    row : str or None
        The device in whose row it is shown; None for that of its thread.
    """

    __slots__ = ("_marks", "_session", "_start", "about", "args", "kind", "name", "row")

    def __init__(self, name: str, kind: str, args: Mapping[str, Any] = _NOTHING, about: Any = None):
        self.name, self.kind, self.args, self.about = name, kind, args, about

    def __enter__(self) -> Range:
        self.row = _here.row
        # Programs that a thread runs in turn do not nest, as NVTX ranges of a thread have to.
        self._session, self._marks = session, marks if self.row is None else None
        if self._marks is not None:
            self._marks.RangePush(self.name)
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        stop = time.perf_counter_ns()
        if self._marks is not None:
            self._marks.RangePop()
        # Ranges that began before the session or end after it are not part of it.
        if self._session is not None and self._session is session:
            self._session.note(self, self._start, stop)


def during(
    name: str, kind: str, args: Mapping[str, Any] = _NOTHING
) -> contextlib.AbstractContextManager[Any]:
    """Return a range if a session is on, else a null context; for code that rarely runs."""
    return contextlib.nullcontext() if session is None else Range(name, kind, args)


@contextlib.contextmanager
def in_row(row: str) -> Iterator[None]:
    """Show this thread's work in the block in the row of a device; for NVTX, as a nested range."""
    before, _here.row = _here.row, row
    pushed = marks
    if pushed is not None:
        pushed.RangePush(row)
    try:
        yield
    finally:
        _here.row = before
        if pushed is not None:
            pushed.RangePop()


def noted(
    name: str, kind: str, function: Callable[..., Any], about: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return `function` with a range around each call, with `about` as metadata."""

    def call(*args: Any) -> Any:
        with Range(name, kind, about):
            return function(*args)

    return call


def begin(made: Session) -> None:
    """Switch a session on."""
    global session
    session = made


def end() -> None:
    """Switch the session off."""
    global session
    session = None


def use_marks(module: Marks | None) -> None:
    """Start emitting NVTX ranges, or stop if None."""
    global marks
    marks = module


# A child would record into its copy of the session, which is never read.
os.register_at_fork(after_in_child=end)
