"""The compile cache: one Executable a structure, compiled once however many threads ask.

Floor 5. In: a hashable key and how to make the Graph. Out: an Executable, and a history of what was
compiled and why.
"""

from __future__ import annotations

import collections
import itertools
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from gpuarray.config import state
from gpuarray.core.graph import Graph
from gpuarray.runtime.execute import Executable, Program

_log = logging.getLogger("gpuarray")


class Compiled(NamedTuple):
    """One line of the history: what was compiled, how long it took, and why it had to be."""

    kind: str
    name: str
    seconds: float
    reason: str


class OnceCache:
    """A dict whose missing values are made once, by the first thread that asks, while the others
    wait.
    """

    def __init__(self):
        self._values: dict[Hashable, Any] = {}
        self._making: dict[Hashable, threading.Event] = {}
        self._lock = threading.Lock()
        self.get = self._values.get

    def get_or_make(self, key: Hashable, make: Callable[[], Any]) -> Any:
        while True:
            value = self._values.get(key)
            if value is not None:
                return value
            with self._lock:
                if key in self._values:
                    return self._values[key]
                busy = self._making.get(key)
                if busy is None:
                    self._making[key] = threading.Event()
                    break
            busy.wait()  # another thread makes it; if that fails, this one tries
        try:
            value = make()
            self._values[key] = value
            return value
        finally:
            with self._lock:
                self._making.pop(key).set()

    def put(self, key: Hashable, value: Any) -> None:
        """Store a value that was made elsewhere."""
        self._values[key] = value

    def keys(self):
        return self._values.keys()

    def clear(self) -> None:
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)


def report(line: Compiled, program: Program) -> None:
    """Say what was compiled, as far as the settings ask for it."""
    if state.log_compiles or state.explain_cache_misses:
        why = f": {line.reason}" if state.explain_cache_misses else ""
        _log.warning("Compiled %s for %s in %.4f s%s", line.name, line.kind, line.seconds, why)
    plan, run = program.executable.plan, program.run
    if state.debug >= 2:
        print(f"# {line.kind} {line.name}\n{plan}")
    if state.debug >= 3:
        print(plan.graph)
    if state.debug >= 4:
        print(run.source)
    if state.dump:
        stem = "".join(
            c if c.isalnum() else "_" for c in f"{next(_dumped):04d}_{line.kind}_{line.name}"
        )
        folder = pathlib.Path(state.dump)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.graph.txt").write_text(f"{plan.graph}\n")
        (folder / f"{stem}.plan.txt").write_text(f"{plan}\n")
        (folder / f"{stem}.py").write_text(f"{run.source}\n")
        if program.gpu is not None and run.cuda:
            (folder / f"{stem}.cu").write_text(run.cuda)
            (folder / f"{stem}.cubin").write_bytes(run.cubin)


_executables = OnceCache()
_dumped = itertools.count(1)
history: collections.deque[Compiled] = collections.deque(maxlen=1000)


def compiled(
    key: Hashable,
    make_graph: Callable[[], Graph],
    kind: str,
    reason: str = "first time",
    donated: frozenset[int] = frozenset(),
    name: str = "",
) -> Executable:
    """The Executable for a key, made from `make_graph()` when it is new."""

    def make() -> Executable:
        start = time.perf_counter()
        graph = make_graph()

        def announce(program: Program, built: float) -> None:
            line = Compiled(kind, name or graph.debug_name, planned + built, reason)
            history.append(line)
            report(line, program)

        executable = Executable(graph, donated, announce)
        planned = time.perf_counter() - start
        return executable

    return _executables.get((kind, key)) or _executables.get_or_make((kind, key), make)


def clear() -> None:
    """Forget every compiled program."""
    _executables.clear()


def size() -> int:
    """How many compiled programs are kept."""
    return len(_executables)
