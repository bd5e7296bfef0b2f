"""The compile cache: one Executable for each structure, compiled once even if several threads need
it.

Floor 5. In: a hashable key, and a function that makes the Graph. Out: an Executable, and a history
of compilations with their reasons.
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
from gpuarray.core import monitoring, ranges
from gpuarray.core.graph import Graph, is_pure_structure, scopes
from gpuarray.runtime.execute import Constants, DeviceProgram, Executable, separated
from gpuarray.util import Recent

_log = logging.getLogger("gpuarray")


class CompileRecord(NamedTuple):
    """A line of the history: the program that was compiled, how long it took, and the reason."""

    kind: str
    name: str
    seconds: float
    reason: str


class Cache:
    """A memo by key in which a value is made once, by the first thread that needs it.

    Other threads wait for it meanwhile. `weigh(value)` estimates its bytes. Values with a weight
    count against a common bound of all caches: when half of it is new, all caches begin a new
    generation (see `util.Recent`).
    """

    def __init__(self, weigh: Callable[[Any], int] | None = None):
        self._values = Recent()
        self._weigh = weigh
        self._making: dict[Hashable, tuple[threading.Event, int]] = {}  # with the maker's process
        self._lock = util.lock()
        self.get = self._values.get  # current generation only: the hot path, without a lock

    def find(self, key: Hashable) -> Any:
        """Return the value kept for a key, or None."""
        found = self._values.get(key)
        if found is None:
            with self._lock:
                found = self._values.find(key)
            if found is not None:
                # Taken over from the previous generation, so it counts in this one.
                self._count(found)
        return found

    def get_or_make(
        self, key: Hashable, make: Callable[[], Any], keeps: Callable[[Any], bool] | None = None
    ) -> Any:
        """Return the value kept for a key, or `make()`, which is kept if `keeps` says so."""
        while True:
            # Until the value is there, or this thread is the one to make it.
            value = self.find(key)
            if value is not None:
                return value
            with self._lock:
                busy, process = self._making.get(key, (None, 0))
                if process != os.getpid():
                    busy = None  # not being made, or by a thread that a fork left behind
                # Checked again under the lock: it may have been made since `find`.
                if busy is None and self._values.get(key) is None:
                    self._making[key] = threading.Event(), os.getpid()
                    break
            if busy is not None:
                busy.wait()  # made by another thread; if that fails, try here
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
        """Drop all values."""
        with self._lock:
            self._values.clear()

    def values(self) -> list[Any]:
        """Return all values that are kept."""
        return [*self._values.before.values(), *self._values.now.values()]

    def __len__(self) -> int:
        return len(self._values)


class _Bounds:
    """Bounds on all caches together: `compile_cache_entries` and `compile_cache_bytes`."""

    def __init__(self):
        self._lock = util.lock()
        self._caches: weakref.WeakSet[Any] = weakref.WeakSet()
        self._entries = self._bytes = 0  # new in this generation

    def watch(self, cache: Any) -> None:
        """Add a cache, which has `turn()` and `clear()`."""
        with self._lock:
            self._caches.add(cache)

    def add(self, nbytes: int) -> None:
        """Count an entry as new in this generation; at half the bounds, begin another one."""
        with self._lock:
            self._entries += 1
            self._bytes += nbytes
            few = 2 * self._entries < state.compile_cache_entries
            if few and 2 * self._bytes < state.compile_cache_bytes:
                return
            self._entries = self._bytes = 0
            # Outside the lock: `turn` takes the caches' own locks.
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
#: Drop everything that was traced and compiled.
clear = _bounds.clear


def weight(eqns: int) -> int:
    """Estimate the bytes that a program of `eqns` equations takes; the constants were measured."""
    return 8192 + 1024 * eqns


# ---- functions ----
EVICTED = (
    "it was put out of the cache, which keeps what was used last (see the settings "
    "compile_cache_entries and compile_cache_bytes)"
)


class FunctionCache:
    """The traces and executables of one function with one set of options, shared by all its
    wrappers.

    Attributes
    ----------
    fast :
        Entries that depend on their arguments' avals only.
    entries, programs :
        Traced calls, and the Executables they run.
    latest :
        The last few keys, for messages.
    seen :
        Hashes of all keys so far.
    """

    def __init__(self):
        self.fast: dict[tuple, Callable] = {}
        self.entries = Cache()  # each has a program
        self.programs = Cache(lambda program: weight(len(program.graph.eqns)))
        self.latest: collections.deque[tuple] = collections.deque(maxlen=16)
        self.seen = Recent(1 << 16)
        watch(self)

    def why(self, key: tuple) -> str:
        """Return why a call has to be traced: how it differs from the nearest of the last few.

        A key is (settings, structure of the arguments, static ones, avals).
        """
        near = self.nearest(key)
        if near is None:
            return EVICTED if self.latest else "first call"
        settings, spec, statics, avals = key
        # The first difference in this order is named; settings last, since all else is equal then.
        if near[1] != spec:
            return f"the arguments' structure changed: {near[1]} -> {spec}"
        if near[2] != statics:
            return f"a static argument changed: {dict(near[2])} -> {dict(statics)}"
        for i, (old, new) in enumerate(zip(near[3], avals, strict=False)):
            if old is not new:
                return f"input {i} changed: {old!r} -> {new!r}"
        return f"a setting changed: {', '.join(near[0].differences(settings))}"

    def nearest(self, key: tuple) -> tuple | None:
        """Return the most similar of the recent calls; None if there is none, or the call is known.

        Same structure counts first, then same static arguments.
        """
        _, spec, statics, avals = key

        def likeness(other: tuple) -> int:
            same = sum(a == b for a, b in zip(other[3], avals, strict=False))
            # Structure counts more than static values, and these more than any usual number of
            # equal inputs.
            return (other[1] == spec) * 1000 + (other[2] == statics) * 500 + same

        known = list(self.latest)
        return None if self.seen.find(hash(key)) else max(known, key=likeness, default=None)

    def turn(self) -> None:
        """Begin a new generation."""
        self.entries.turn()
        self.programs.turn()
        # The fast path bypasses the cache, so that its entries would look unused: without it the
        # next call finds its entry, which is taken over.
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
    """Return the cache of a function, which lives as long as the function does."""
    # A bound method is a new object each time it is read, and its programs may hold its instance.
    if isinstance(fun, types.MethodType):
        return FunctionCache()
    try:
        by_options = _functions.setdefault(fun, {})
        return by_options.get(options) or by_options.setdefault(options, FunctionCache())
    except TypeError:  # not hashable, or not weakly referenceable: the wrapper keeps it
        return FunctionCache()


# ---- programs ----
def report(line: CompileRecord, program: DeviceProgram) -> None:
    """Log, print or dump a compilation, depending on the settings."""
    # At debug level everything is logged.
    level = logging.WARNING if state.log_compiles else logging.DEBUG
    _log.log(level, "Compiled %s for %s in %.4f s", line.name, line.kind, line.seconds)
    # The levels of GPUARRAY_DEBUG: groups, graphs, source.
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
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            _say_unwritable(state.dump, str(error))


@functools.lru_cache(16)
def _say_unwritable(folder: str, reason: str) -> None:
    """Warn once only: dumping is not part of the program's work."""
    warnings.warn(
        f"programs cannot be written to {folder!r} ({reason}): choose another folder for the "
        "setting `dump`",
        stacklevel=2,
    )


def dump(folder: pathlib.Path, line: CompileRecord, program: DeviceProgram) -> None:
    """Write a program's graph, plan and source to a folder."""
    # A function's name may hold anything.
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


_executables = Cache(lambda executable: weight(len(executable.graph.eqns)))
watch(_executables)
_dumped = itertools.count(1)
#: The longest part of a function's name in a file name, which most systems limit to 255 characters.
_LONGEST = 100
history: collections.deque[CompileRecord] = collections.deque(maxlen=1000)


def compiled(
    key: Hashable,
    make_graph: Callable[[], Graph],
    kind: str,
    reason: str = "first time",
    donated: frozenset[int] = frozenset(),
    name: str = "",
    over_devices: bool = False,
) -> Executable:
    """Return the Executable for a key, made from `make_graph()` if it is new."""

    def make() -> Executable:
        # Tracing and planning here; each device's program is built at its first launch.
        start = time.perf_counter()
        graph = make_graph()

        # Called once for each device, when its program has been built.
        def announce(program: DeviceProgram, built: float, why: str | None = None) -> None:
            line = CompileRecord(kind, name or graph.debug_name, planned + built, why or reason)
            history.append(line)
            monitoring.lasted(monitoring.BUILT, built, fun_name=line.name)
            if why is not None and kind == "jit" and state.explain_cache_misses:
                _log.warning("%s is partitioned anew because: %s", line.name, why)
            report(line, program)

        with ranges.during(f"compile {name or graph.debug_name}", "compile"):
            executable = Executable(graph, donated, announce, over_devices)
        planned = time.perf_counter() - start
        monitoring.lasted(monitoring.PLANNED, planned, fun_name=name or graph.debug_name)
        return executable

    # A program with functions in it (callbacks) may hold anything: it lives with its caller only.
    keeps = lambda made: is_pure_structure(made.graph)
    return _executables.get((kind, key)) or _executables.get_or_make((kind, key), make, keeps)


def compiled_graph(
    graph: Graph, name: str, reason: str = "first time", donated: frozenset[int] = frozenset()
) -> tuple[Executable, Constants]:
    """The Executable for the structure of a Graph, and the constants of this one, to launch it
    with.
    """
    plain, constants = separated(graph)
    # Constants are no part of the key: programs that differ only in these share one
    # Executable.
    key = (plain.key, scopes(plain), donated, state.fusion, state.native, state.cuda_graphs)
    return compiled(key, lambda: plain, "jit", reason, donated, name), constants


def size() -> int:
    """Return how many compiled programs are kept."""
    return len(_executables)
