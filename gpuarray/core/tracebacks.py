"""Tracebacks that show the user's program, without the library's own frames.

Floor 1. In: errors on their way to the user. Out: the same errors; the setting
`traceback_filtering` decides how their tracebacks are filtered. Functions that call the user's are
boundaries, which filter errors that pass them; others are filtered when they are printed.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

from gpuarray import config, sites

_state = config.state

Function = TypeVar("Function", bound=Callable[..., Any])


#: Shown below an error whose traceback was shortened.
_NOTE = (
    "For simplicity, gpuarray has left its own frames out of this traceback. Set "
    "GPUARRAY_TRACEBACK_FILTERING=off to include them."
)


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback was shortened, with the full traceback."""


def boundary(function: Function) -> Function:
    """Make errors that leave a function show no frames of the library."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise

    return call  # pyright: ignore[reportReturnType]


def clean(error: BaseException) -> None:
    """Treat the traceback of an error as the setting says.

    To be called in an `except` block that raises it again with a plain `raise`, which adds no
    frame.
    """
    how = _state.traceback_filtering
    # IPython hides marked frames itself; elsewhere they are taken out.
    if how == "auto":
        how = "tracebackhide" if "IPython" in sys.modules and _in_ipython() else "quiet"
    if how == "off":
        return
    if how == "tracebackhide":
        for trace in _entries(error.__traceback__):
            if _hidden(trace.tb_frame):
                trace.tb_frame.f_locals["__tracebackhide__"] = True
        return
    if how == "remove_frames":
        if _called_by_us(sys._getframe(1)):
            return  # an outer boundary will hand it to the user, and needs all frames
        # JAX's way: the full traceback becomes the cause.
        whole = UnfilteredStackTrace(
            "The stack trace below leaves out the frames of gpuarray. This is the error as it was "
            "raised."
        ).with_traceback(error.__traceback__)
        whole.__cause__, whole.__context__ = error.__cause__, error.__context__
        whole.__suppress_context__ = error.__suppress_context__
        _shorten(error)
        error.__cause__ = whole
        return
    # An error passes several boundaries.
    if _shorten(error) and _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)


def _shorten(error: BaseException) -> bool:
    """Remove the library's frames from an error and from those it came from; whether it had any."""
    # Causes may form a circle.
    seen: set[int] = set()
    before = error.__traceback__
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen or isinstance(one, UnfilteredStackTrace):
            continue
        seen.add(id(one))
        context = one.__context__
        if context is not None and context.__traceback__ is not None:
            # An exception that the library caught and replaced was not handled by the user's
            # program.
            if _hidden(context.__traceback__.tb_frame):
                one.__suppress_context__ = True
        todo += [one.__cause__, None if one.__suppress_context__ else context]
        if any(_hidden(entry.tb_frame) for entry in _entries(one.__traceback__)):
            one.__traceback__ = _kept(one.__traceback__)
    return error.__traceback__ is not before


# From the outermost frame to the one that raised.
def _entries(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _kept(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the library's frames, nor those of Python or NumPy below them."""
    kept, below = [], False
    for entry in _entries(trace):
        # A callback of the user's ends the run of hidden frames.
        name = entry.tb_frame.f_code.co_filename
        below = sites.is_hidden(name) or (below and sites.is_inside(name))
        if not below:
            kept.append(entry)
    made: TracebackType | None = None
    # Linked from the innermost frame outwards.
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _hidden(frame: FrameType) -> bool:
    return sites.is_hidden(frame.f_code.co_filename)


def _called_by_us(frame: FrameType) -> bool:
    """Whether the boundary that an error is leaving was called by the library itself."""
    above = frame.f_back
    while above is not None and not _hidden(above):
        above = above.f_back
    return above is not None


def _in_ipython() -> bool:
    get = getattr(sys.modules["IPython"], "get_ipython", None)
    return get is not None and get() is not None


# ---- uncaught errors ----


def install() -> None:
    """Clean the errors that end a program or a thread before they are printed."""
    if getattr(sys.excepthook, "__module__", None) == __name__:
        return
    print_error, print_thread_error = sys.excepthook, threading.excepthook

    def hook(kind, error, trace):
        print_error(kind, error, _printable(error, trace))

    def thread_hook(args):
        if args.exc_value is not None:
            trace = _printable(args.exc_value, args.exc_traceback)
            args = threading.ExceptHookArgs((args.exc_type, args.exc_value, trace, args.thread))
        print_thread_error(args)

    sys.excepthook, threading.excepthook = hook, thread_hook


def _printable(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    if not isinstance(error, Exception) or _state.traceback_filtering in ("off", "tracebackhide"):
        return trace
    if any(_hidden(entry.tb_frame) for entry in _entries(trace)):
        clean(error)
    return error.__traceback__
