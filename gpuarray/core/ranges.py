"""Ranges of time, for profiles.

Floor 1. In: names, from code that takes time. Out: while a session is on, an event for each range,
and an NVTX range if a GPU is in use, which NVIDIA's tools show. Code that is called often checks
`session` first: without one there is nothing to record.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

#: The most events kept in a session; later ones are only counted.
LIMIT = 1 << 20
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """A range that has ended; times are in nanoseconds since the session's start."""

    name: str
    kind: str
    thread: str
    row: int  # of the timeline, one for each thread
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
        self._rows: dict[tuple[int, str], int] = {}

    def note(self, of: Range, start: int, stop: int) -> None:
        """Add a range that has ended."""
        if self.kinds is not None and of.kind not in self.kinds:
            return
        if len(self.events) >= LIMIT:
            self.left_out += 1
            return
        thread = threading.current_thread()
        # Identifiers are reused by later threads, names need not be unique.
        key = threading.get_ident(), thread.name
        row = self._rows.setdefault(key, len(self._rows) + 1)
        self.events.append(
            Event(of.name, of.kind, thread.name, row, start - self.start, stop - start, of.args)
        )


class Marks(Protocol):
    """The part of `cupy.cuda.nvtx` that is used."""

    def RangePush(self, message: str, /) -> Any: ...
    def RangePop(self) -> Any: ...


#: The session that is on, and NVTX if a GPU is in use.
session: Session | None = None
marks: Marks | None = None


class Range:
    """Context manager: one event, and one NVTX range if a GPU is in use. Not reusable.

    Parameters
    ----------
    kind :
        "annotation", "jit", "compile", "run" (of a program), "scope", "step" (of a program), or
        "operation".
    """

    __slots__ = ("_marks", "_session", "_start", "args", "kind", "name")

    def __init__(self, name: str, kind: str, args: Mapping[str, Any] = _NOTHING):
        self.name, self.kind, self.args = name, kind, args

    def __enter__(self) -> Range:
        self._session, self._marks = session, marks
        if self._marks is not None:
            self._marks.RangePush(self.name)
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        stop = time.perf_counter_ns()
        if self._marks is not None:
            self._marks.RangePop()
        # What began before the session or ends after it is not part of it.
        if self._session is not None and self._session is session:
            self._session.note(self, self._start, stop)


def during(name: str, kind: str) -> contextlib.AbstractContextManager[Any]:
    """Return a range if a session is on, else a null context; for code that rarely runs."""
    return contextlib.nullcontext() if session is None else Range(name, kind)


def noted(name: str, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with a range around each call."""

    def call(*args: Any) -> Any:
        with Range(name, kind):
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
    """Set NVTX ranges from now on, or with None no longer."""
    global marks
    marks = module


# A child would record into its copy of the session, which nobody reads.
os.register_at_fork(after_in_child=end)
