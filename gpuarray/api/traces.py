"""Profiles as files: the events of Chrome's format, in the folders that tools look for.

Floor 6. In: a session of ranges that is over. Out: JSON, compressed, which Perfetto and
chrome://tracing open.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterator
from typing import Any

from gpuarray.core import ranges


def as_json(session: ranges.Session) -> bytes:
    """The events of a session as compressed JSON, readable by Chrome and Perfetto."""
    made = {"displayTimeUnit": "ns", "traceEvents": [*_trace_events(session)]}
    return gzip.compress(json.dumps(made).encode())


def write(text: bytes, folder: str, also_perfetto: bool, host: str = "") -> pathlib.Path:
    """Write a trace to `folder`/plugins/profile/<time>/<host>.trace.json.gz; return the path."""
    # The layout of folders and names that TensorBoard looks for.
    made = _new_folder(
        pathlib.Path(folder, "plugins", "profile"), time.strftime("%Y_%m_%d_%H_%M_%S")
    )
    path = made / f"{host or platform.node() or 'localhost'}.trace.json.gz"
    path.write_bytes(text)
    if also_perfetto:
        (made / "perfetto_trace.json.gz").write_bytes(text)
    return path


def _new_folder(parent: pathlib.Path, name: str) -> pathlib.Path:
    """Create a new folder for each trace, even within one second."""
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}_{number}")
        try:
            # Making the folder is the test whether it is free: another process may trace, too.
            folder.mkdir(parents=True)
        except FileExistsError:
            if not parent.is_dir():
                raise
            number += 1
        else:
            return folder


def _trace_events(session: ranges.Session) -> Iterator[dict[str, Any]]:
    """The events as Chrome's format has them: times in microseconds."""
    process = os.getpid()
    # Events of phase M name the process and its rows; those of phase X are ranges.
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": "gpuarray"}}
    events = list(session.events)  # other threads may still be adding
    for row, thread in sorted({(e.row, e.thread) for e in events}):
        named = {"ph": "M", "pid": process, "tid": row, "name": "thread_name"}
        yield named | {"args": {"name": thread}}
    # Enclosing ranges first: that is how ranges with equal start are nested.
    for e in sorted(events, key=lambda e: (e.start, -e.duration)):
        # Recorded in nanoseconds.
        times = {"ts": e.start / 1000, "dur": e.duration / 1000}
        event = {"ph": "X", "pid": process, "tid": e.row, "name": e.name, "cat": e.kind, **times}
        if e.args:
            event["args"] = dict(e.args)
        yield event
