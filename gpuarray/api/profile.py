"""`profile`: how long each step of a function takes, compared with the time its bytes need.

Floor 6. In: a Python function and its arguments. Out: a Profile, which is printed as a table.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gpuarray import tree
from gpuarray.backends.copies import copy_bandwidth
from gpuarray.backends.profiled import Steps, Together
from gpuarray.compiler.explain import tables
from gpuarray.compiler.explain.facts import explain_plan
from gpuarray.compiler.explain.records import StepRecord
from gpuarray.compiler.pipeline import Plan
from gpuarray.core import ranges
from gpuarray.core.graph import Eqn
from gpuarray.core.primitive import Kind
from gpuarray.core.value import Array
from gpuarray.functions.jit import jit
from gpuarray.functions.jitted import Jitted
from gpuarray.runtime import device as devices
from gpuarray.runtime.transfer import block_until_ready
from gpuarray.util import Struct, wraps

#: A function is called so often, at least and at most, and for about so long.
LEAST, MOST, SECONDS = 3, 50, 0.5


class StepTime(Struct):
    """A step of a program, and the time it takes in one call.

    Attributes
    ----------
    depth :
        How many loops and branches it is in, whose times hold its own.
    calls :
        The number of runs in one call of the function, on all devices.
    seconds :
        The time of all of them together, the median of the calls.
    nbytes :
        Bytes that they read and write, as `explain` has them; None where that is not known.
    share :
        The time in which a plain copy moves this many bytes, as a fraction of the step's time.
    """

    name: str
    kind: str
    depth: int
    calls: int
    seconds: float
    nbytes: int | None
    share: float | None
    lines: str


class Profile(Struct):
    """The steps of a function in the order in which they run, and how long each takes.

    Attributes
    ----------
    seconds :
        A whole call, the median of `calls`.
    between :
        The part of a call outside steps: the host's work, or waiting.
    bandwidth :
        Bytes a second, read and written, of a large copy on this device.
    """

    name: str
    device: str
    seconds: float
    between: float
    calls: int
    bandwidth: float
    steps: tuple[StepTime, ...]

    def __str__(self) -> str:
        total = sum(s.seconds for s in self.steps if not s.depth) + self.between
        rows = [("step", "runs", "time", "of all", "moves", "of a copy's speed", "lines")]
        for s in self.steps:
            rows.append(
                (
                    "  " * s.depth + s.name,
                    str(s.calls),
                    _duration(s.seconds),
                    f"{s.seconds / total:.0%}",
                    "" if s.nbytes is None else tables.size(s.nbytes),
                    "" if s.share is None else f"{s.share:.{1 if s.share < 0.1 else 0}%}",
                    s.lines,
                )
            )
        part = f"{self.between / total:.0%}" if total else ""
        rows.append(("between steps", "", _duration(self.between), part, "", "", ""))
        head = (
            f"{self.name} on {self.device}: {_duration(self.seconds)} a call (median of "
            f"{self.calls}); a large copy moves {self.bandwidth / 1e9:.1f} GB/s"
        )
        return "\n".join([head, "", *tables.columns(rows, right=range(1, 6))])


class _Timed(NamedTuple):
    """One step that ran: in which row of the timeline, when, and which."""

    row: str
    start: int
    stop: int
    step: Any
    of: ranges.Range


class _Session(ranges.Session):
    """Keeps the steps that ran, and the programs they are of."""

    def __init__(self):
        super().__init__(frozenset(("run", "step", "kernel")))
        self.plans: dict[int, Plan] = {}
        self.host: list[_Timed] = []
        self.gpu: list[_Timed] = []

    def note(self, of: ranges.Range, start: int, stop: int) -> None:
        if of.kind == "run":
            if isinstance(of.about, Steps):
                self.plans[id(of.about.plan)] = of.about.plan
        elif of.kind in ("step", "kernel"):
            kept = self.gpu if of.kind == "kernel" else self.host
            kept.append(_Timed(of.row or "", start, stop, of.about, of))

    @property
    def ran(self) -> list[_Timed]:
        """The steps; on a GPU in its own times, since the host only launches them."""
        return self.gpu or self.host


def profile(
    fun: Callable,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> Callable[..., Profile]:
    """Return a function that calls `fun` a few times and reports where the time goes.

    It takes the arguments of `fun`. The result is a Profile, to read or to print: for each kernel,
    library routine and loop its time, the bytes it moves, how fast that is compared with a plain
    copy of as many bytes on this device, and the lines that recorded it. A step at 100 % is limited
    by memory bandwidth; one far below it computes much, or is small, or is worth a look. Results
    that stay in a cache may be faster.

    `fun` is called as under `jit`; donated arguments are copied for every call.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> def mse(a, b):
    ...     return gnp.mean((a - b) ** 2)
    >>> p = ga.profile(mse)(gnp.ones((800, 400)), gnp.zeros((800, 400)))
    >>> [(s.kind, s.nbytes) for s in p.steps]
    [('kernel', 2560004)]
    """
    if not callable(fun):
        raise TypeError(f"profile takes a function, got {fun!r}")
    jitted = (
        fun
        if isinstance(fun, Jitted)
        else jit(fun, static_argnums=static_argnums, static_argnames=static_argnames)
    )

    @wraps(fun)
    def profile_it(*args: Any, **kwargs: Any) -> Profile:
        if ranges.session is not None:
            raise RuntimeError(
                "a trace is being taken, and there is one at a time: call profile after "
                "gpuarray.profiler.stop_trace()"
            )
        # Donated arguments would be deleted by the first of many calls.
        given = jitted.lower(*args, **kwargs).donate_argnums

        def call() -> float:
            # Copies are made outside of the time that is taken.
            own = tree.map(_copied, (args, kwargs)) if given else (args, kwargs)
            block_until_ready(own)
            start = time.perf_counter()
            block_until_ready(jitted(*own[0], **own[1]))
            return time.perf_counter() - start

        # Compiled by the first call; the first one with a session writes ranges into the program.
        call()
        _watched(call)
        plain, watched = [], []
        begun = time.perf_counter()
        # Alternate, so that both see the machine in the same state; the reported time is the one
        # without a session.
        while len(plain) < LEAST or (len(plain) < MOST and time.perf_counter() - begun < SECONDS):
            plain.append(call())
            watched.append(_watched(call))
        leaves = [x for x in tree.leaves((args, kwargs)) if isinstance(x, Array)]
        place = leaves[0]._place if leaves else devices.default_place()  # pyright: ignore
        found = _of_runs(watched, place.device)
        return found.replace(name=jitted.__name__, seconds=statistics.median(plain))

    return profile_it


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, Array) else x


def _watched(call: Callable[[], float]) -> tuple[float, _Session]:
    session = _Session()
    ranges.begin(session)
    try:
        seconds = call()
    finally:
        ranges.end()
    session.finish()
    return seconds, session


def _of_runs(runs: list[tuple[float, _Session]], device: Any) -> Profile:
    """The medians of several runs."""
    # Steps are the same in each run: descriptions come from the last one, times from all of them.
    sums = [_by_path(session.ran) for _, session in runs]
    records = _records(runs[-1][1].plans)
    steps = []
    for path, (one, _, calls) in sums[-1].items():
        times = [found[path].seconds for found in sums if path in found]
        seconds = statistics.median(times) / 1e9
        name, lines, nbytes = _about(one, records)
        share = None
        # How much of the bandwidth of a plain copy the step reaches.
        if nbytes and seconds:
            share = calls * nbytes / copy_bandwidth(device, nbytes) / seconds
            nbytes *= calls
        kind = one.of.args["kind"]
        steps.append(StepTime(name, kind, len(path) - 1, calls, seconds, nbytes, share, lines))
    # Only the outermost steps: those in a loop are part of the loop's own time.
    inside = [sum(s.seconds for p, s in found.items() if len(p) == 1) / 1e9 for found in sums]
    between = [max(0.0, run[0] - took) for run, took in zip(runs, inside, strict=True)]
    return Profile(
        "",
        str(device),
        0.0,
        statistics.median(between),
        len(runs),
        copy_bandwidth(device, 1 << 28),
        tuple(steps),
    )


def _about(one: _Timed, records: dict[int, StepRecord]) -> tuple[str, str, int | None]:
    """The name of a step, the lines that recorded it, and the bytes that it moves."""
    if isinstance(one.step, Together):
        found = [records[id(s)] for s in one.step.steps if id(s) in records]
        if found:
            all_of_it = tuple(o for r in found for o in r.operations)
            lines = tables.line_ranges(found[0].replace(operations=all_of_it))
            return one.of.name, lines, sum(r.bytes_read + r.bytes_written for r in found)
    record = records.get(id(one.step))
    if record is not None:
        name = record.operations[0].name if record.kind == "library" else record.name
        return name, tables.line_ranges(record), record.bytes_read + record.bytes_written
    # The NumPy backend runs small groups as the operations they consist of.
    at = one.of.args.get("recorded at", "")
    return one.of.name, os.path.basename(at), one.of.args.get("bytes")


class _Sum(NamedTuple):
    one: _Timed
    seconds: float  # in nanoseconds
    calls: int


def _by_path(ran: list[_Timed]) -> dict[tuple[int, ...], _Sum]:
    """The times of the steps, by the steps they run in, in the order of their first runs."""
    found: dict[tuple[int, ...], dict[str, list[_Timed]]] = {}
    open_: dict[str, list[_Timed]] = {}
    # Sort by start, longest first: enclosing ranges come before those inside them.
    for one in sorted(ran, key=lambda t: (t.start, -t.stop)):
        # The steps of this row that are not over yet are around it.
        around = open_.setdefault(one.row, [])
        while around and around[-1].stop < one.stop:
            around.pop()
        path = (*(id(t.step) for t in around), id(one.step))
        around.append(one)
        found.setdefault(path, {}).setdefault(one.row, []).append(one)
    sums = {}
    for path, rows in found.items():
        totals = [sum(t.stop - t.start for t in row) for row in rows.values()]
        first = next(iter(rows.values()))[0]
        # Devices that run in turn wait for one another in an exchange: the last one does not.
        waits = first.of.args["kind"] == "exchange"
        seconds = min(totals) if waits else sum(totals)
        sums[path] = _Sum(first, seconds, sum(map(len, rows.values())))
    return sums


def _records(plans: dict[int, Plan]) -> dict[int, StepRecord]:
    """The records of `explain` for the steps of plans, by the step's id."""
    found: dict[int, StepRecord] = {}
    for plan in plans.values():
        # `explain` has no rows for views: leave them out here too, so that rows and steps
        # correspond.
        shown = [
            s for s in plan.steps if not (isinstance(s, Eqn) and s.primitive.kind is Kind.VIEW)
        ]
        found |= {
            id(step): record for step, record in zip(shown, explain_plan(plan).steps, strict=True)
        }
    return found


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
