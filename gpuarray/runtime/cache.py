"""The compile cache: one Executable a structure, compiled once however many threads ask.

Floor 5. In: a hashable key and how to make the Graph. Out: an Executable, and a history of what was
compiled and why.
"""

from __future__ import annotations

import collections
import functools
import itertools
import logging
import os
import pathlib
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from gpuarray import util
from gpuarray.config import state
from gpuarray.core import ranges
from gpuarray.core.graph import Graph, is_pure_structure, scopes
from gpuarray.runtime.execute import Constants, Executable, Program, separated
from gpuarray.util import Recent

_log = logging.getLogger("gpuarray")


class Compiled(NamedTuple):
    """One line of the history: what was compiled, how long it took, and why it had to be."""

    kind: str
    name: str
    seconds: float
    reason: str


class Cache:
    """What was made for a key: once, by the first thread that asks, while the others wait.

    weigh(value): its bytes, roughly. What has a weight counts against the bounds, which hold for
    all caches together: when half of what may be kept is new, all begin a new generation.
    """

    def __init__(self, weigh: Callable[[Any], int] | None = None):
        self._values = Recent()
        self._weigh = weigh
        self._making: dict[Hashable, tuple[threading.Event, int]] = {}  # each with its process
        self._lock = util.lock()
        self.get = self._values.get  # what was used in this generation

    def find(self, key: Hashable) -> Any:
        """What is kept for a key, or None."""
        found = self._values.get(key)
        if found is None:
            with self._lock:
                found = self._values.find(key)
            if found is not None:
                self._count(found)
        return found

    def get_or_make(
        self, key: Hashable, make: Callable[[], Any], keeps: Callable[[Any], bool] | None = None
    ) -> Any:
        """What is kept for a key, or `make()`, which is then kept if `keeps` says so."""
        while True:
            value = self.find(key)
            if value is not None:
                return value
            with self._lock:
                busy, process = self._making.get(key, (None, 0))
                if process != os.getpid():
                    busy = None  # nobody makes it, or a thread that a fork left behind
                if busy is None and self._values.get(key) is None:
                    self._making[key] = threading.Event(), os.getpid()
                    break
            if busy is not None:
                busy.wait()  # another thread makes it; if that fails, this one tries
        try:
            value = make()
            if keeps is None or keeps(value):
                self.put(key, value)
            return value
        finally:
            with self._lock:
                self._making.pop(key)[0].set()

    def put(self, key: Hashable, value: Any) -> None:
        """Store a value that was made elsewhere."""
        with self._lock:
            self._values.put(key, value)
        self._count(value)

    def _count(self, value: Any) -> None:
        if self._weigh is not None:
            _bounds.add(self._weigh(value))

    def turn(self) -> None:
        """Begin a new generation."""
        with self._lock:
            self._values.turn()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()

    def values(self) -> list[Any]:
        """What is kept."""
        return [*self._values.before.values(), *self._values.now.values()]

    def __len__(self) -> int:
        return len(self._values)


class _Bounds:
    """How much all caches may keep together: `compile_cache_entries` and `compile_cache_bytes`."""

    def __init__(self):
        self._lock = util.lock()
        self._caches: weakref.WeakSet[Any] = weakref.WeakSet()
        self._entries = self._bytes = 0  # that are new in this generation

    def watch(self, cache: Any) -> None:
        """Have a cache take part; it has `turn()` and `clear()`."""
        with self._lock:
            self._caches.add(cache)

    def add(self, nbytes: int) -> None:
        """Count an entry that joins this generation."""
        with self._lock:
            self._entries += 1
            self._bytes += nbytes
            few = 2 * self._entries < state.compile_cache_entries
            if few and 2 * self._bytes < state.compile_cache_bytes:
                return
            self._entries = self._bytes = 0
            caches = list(self._caches)
        for one in caches:
            one.turn()

    def clear(self) -> None:
        """Empty all caches."""
        with self._lock:
            self._entries = self._bytes = 0
            caches = list(self._caches)
        for one in caches:
            one.clear()


_bounds = _Bounds()
watch = _bounds.watch
#: Forget all that was traced and compiled.
clear = _bounds.clear


def weight(eqns: int) -> int:
    """Bytes that a program of so many equations takes, as measured: its Graph, or what runs it."""
    return 8192 + 1024 * eqns


# ---- functions ----
class FunctionCache:
    """What is known of one function under one set of options, shared by all its wrappers.

    fast: entries that need no more than their arguments' avals; seen: hashes of all keys so far
    latest: the last few keys, for messages
    """

    def __init__(self):
        self.fast: dict[tuple, Callable] = {}
        self.entries = Cache()  # each has a program
        self.programs = Cache(lambda program: weight(len(program.graph.eqns)))
        self.latest: collections.deque[tuple] = collections.deque(maxlen=16)
        self.seen = Recent(1 << 16)
        watch(self)

    def turn(self) -> None:
        """Begin a new generation."""
        self.entries.turn()
        self.programs.turn()
        self.fast.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.entries.clear()
        self.programs.clear()
        self.fast.clear()
        self.latest.clear()
        self.seen.clear()


_functions: weakref.WeakKeyDictionary[Any, dict[Hashable, FunctionCache]] = (
    weakref.WeakKeyDictionary()
)


def of_function(fun: Callable, options: Hashable) -> FunctionCache:
    """The cache of a function; that of a function which nobody holds is gone."""
    # A bound method is made anew each time it is read, and programs may hold its object.
    if isinstance(fun, types.MethodType):
        return FunctionCache()
    try:
        by_options = _functions.setdefault(fun, {})
        return by_options.get(options) or by_options.setdefault(options, FunctionCache())
    except TypeError:  # not hashable, or not weakly referenceable: the wrapper keeps it
        return FunctionCache()


# ---- programs ----
def report(line: Compiled, program: Program) -> None:
    """Say what was compiled, as far as the settings ask for it."""
    if state.log_compiles or state.explain_cache_misses:
        why = f": {line.reason}" if state.explain_cache_misses else ""
        _log.warning("Compiled %s for %s in %.4f s%s", line.name, line.kind, line.seconds, why)
    plan, run = program.plan, program.run
    if state.debug >= 2:
        print(f"# {line.kind} {line.name}\n{plan}")
    if state.debug >= 3:
        print(plan.graph)
    if state.debug >= 4:
        print(run.source)
    if state.dump:
        try:
            dump(pathlib.Path(state.dump), line, program)
        except (OSError, ValueError) as error:  # a path may hold what no path may
            _say_unwritable(state.dump, str(error))


@functools.lru_cache(16)
def _say_unwritable(folder: str, reason: str) -> None:
    """Said once, for what is dumped is not what was asked of the program."""
    warnings.warn(
        f"programs cannot be written to {folder!r} ({reason}): choose another folder for the "
        "setting `dump`",
        stacklevel=2,
    )


def dump(folder: pathlib.Path, line: Compiled, program: Program) -> None:
    """Write a program's graph, plan and source to a folder."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in line.name)
    stem = f"{next(_dumped):04d}_{line.kind}_{name[:_LONGEST]}"
    folder.mkdir(parents=True, exist_ok=True)
    plan, run = program.plan, program.run
    text: Any = {"encoding": "utf-8", "errors": "backslashreplace"}
    (folder / f"{stem}.graph.txt").write_text(f"{plan.graph}\n", **text)
    (folder / f"{stem}.plan.txt").write_text(f"{plan}\n", **text)
    (folder / f"{stem}.py").write_text(f"{run.source}\n", **text)
    if program.gpu is not None and run.cuda:
        (folder / f"{stem}.cu").write_text(run.cuda, **text)
        (folder / f"{stem}.cubin").write_bytes(run.cubin)


_executables = Cache(lambda executable: weight(len(executable.plan.graph.eqns)))
watch(_executables)
_dumped = itertools.count(1)
#: Characters of a function's name in that of a file, which may have 255 on most systems.
_LONGEST = 100
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

        with ranges.during(f"compile {name or graph.debug_name}", "compile"):
            executable = Executable(graph, donated, announce)
        planned = time.perf_counter() - start
        return executable

    # Functions in a program (callbacks) may hold anything: such ones live with who asks for them.
    keeps = lambda made: is_pure_structure(made.graph)
    return _executables.get((kind, key)) or _executables.get_or_make((kind, key), make, keeps)


def compiled_graph(
    graph: Graph, name: str, reason: str = "first time", donated: frozenset[int] = frozenset()
) -> tuple[Executable, Constants]:
    """The Executable for the structure of a Graph, and the constants of this one, to launch it
    with.
    """
    plain, constants = separated(graph)
    key = (plain.key, scopes(plain), donated, state.fusion)
    return compiled(key, lambda: plain, "jit", reason, donated, name), constants


def size() -> int:
    """How many compiled programs are kept."""
    return len(_executables)
