"""The compile cache: one Executable a structure, compiled once however many threads ask.

Floor 5. In: a hashable key and how to make the Graph. Out: an Executable, and a history of what was compiled and why.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from gpuarray.core.graph import Graph
from gpuarray.runtime.execute import Executable


class Compiled(NamedTuple):
    """One line of the history: what was compiled, how long it took, and why it had to be."""

    kind: str
    name: str
    seconds: float
    reason: str


class OnceCache:
    """A dict whose missing values are made once, by the first thread that asks, while the others wait."""

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


_executables = OnceCache()
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
        executable = Executable(graph, donated)
        seconds = time.perf_counter() - start
        history.append(Compiled(kind, name or graph.debug_name, seconds, reason))
        return executable

    return _executables.get((kind, key)) or _executables.get_or_make((kind, key), make)


def clear() -> None:
    """Forget every compiled program."""
    _executables.clear()


def size() -> int:
    """How many compiled programs are kept."""
    return len(_executables)
