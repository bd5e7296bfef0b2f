"""Timing that survives a busy machine: all candidates take turns, round after round.

Floor 8. In: callables that return when their work is done. Out: seconds for each call, one figure
for each round. A slow moment of the machine then affects all candidates of a round alike, and
ratios within a round are preserved. `Neighbours` measures how much of the machine other processes
used.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Other processes with more than this share of the machine are worth a warning.
BUSY = 0.15
# Shorter measurements say little: the system counts in hundredths of a second.
_LEAST = 0.2


@dataclass
class Candidate:
    """Something to time: a call, and the context in which it runs (entered outside the clock)."""

    call: Callable[[], Any]
    around: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext


@dataclass
class Samples:
    """Seconds a call, one for each round."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The fastest round."""
        return min(self.seconds)


def duration(seconds: float) -> str:
    """Seconds in a unit that reads well.

    >>> duration(0.0123), duration(1.5e-6)
    ('12.3 ms', '1.5 us')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    # Microseconds are the finest unit: timing a Python call has no better resolution.
    return f"{seconds / 1e-6:.3g} us"


def ratio(other: Samples, ours: Samples) -> float:
    """How many times faster `ours` is: the median of the ratios within each round.

    >>> ratio(Samples([2.0, 40.0, 2.0]), Samples([1.0, 20.0, 4.0]))
    2.0
    """
    # Round by round: a slow moment of the machine slows both and cancels in the ratio.
    pairs = zip(other.seconds, ours.seconds, strict=True)
    return statistics.median(a / b for a, b in pairs)


def take_turns(
    candidates: Mapping[str, Candidate],
    seconds: float = 1.0,
    rounds: tuple[int, int] = (5, 40),
    sample: float = 0.02,
    begins: Callable[[int, int], None] = lambda i, rounds: None,
) -> dict[str, Samples]:
    """Time all candidates in turns.

    Parameters
    ----------
    seconds :
        About how long each candidate is timed.
    rounds :
        The least and the greatest number of rounds.
    sample :
        Short calls are repeated until one sample takes about so long.
    begins :
        Function that is called with the number of the round that begins, counted from one, and how
        many there are.
    """
    repeats: dict[str, int] = {}
    slowest = 1e-9
    for name, candidate in candidates.items():
        with candidate.around():
            # How many calls make one sample long enough for the clock.
            candidate.call()  # compiles, fills caches
            # The better of two: one interruption must not decide on the repeats.
            once = min(_clock(candidate.call, 1) for _ in range(2))
            repeats[name] = max(1, round(sample / max(once, 1e-9)))
        slowest = max(slowest, once * repeats[name])
    # As many rounds as fit into the time, within bounds.
    count = min(max(rounds[0], int(seconds / slowest)), rounds[1])
    samples = {name: Samples() for name in candidates}
    with _no_collection():
        for i in range(count):
            begins(i + 1, count)
            names = list(candidates)
            # Alternate the order, so that no candidate always follows a greedy one.
            for name in names if i % 2 == 0 else reversed(names):
                candidate = candidates[name]
                with candidate.around():
                    took = _clock(candidate.call, repeats[name])
                samples[name].seconds.append(took)
    return samples


def _clock(call: Callable[[], Any], repeat: int) -> float:
    """Seconds a call, over `repeat` calls."""
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: it would slow down an arbitrary candidate."""
    was_on = gc.isenabled()
    gc.collect()
    # A collection in the middle of a call would be counted as its time.
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# ---- the machine ----


def _used() -> float | None:
    """Seconds of processor time that the machine has used; None if the system does not report
    it.
    """
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    fields = [int(x) for x in stat.read_text().split("\n", 1)[0].split()[1:]]
    # user, nice, system, idle, iowait, irq, softirq, steal: all but the two that wait.
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Seconds of processor time of this process, and of those it started and waited for."""
    return sum(os.times()[:4])


class Neighbours:
    """How much of the machine other processes take, from its making on."""

    def __init__(self):
        self.start, self.used, self.own = time.perf_counter(), _used(), _own()

    def share(self) -> float | None:
        """The share of all cores' time used by other processes; None if the system does not report
        it.
        """
        used, wall = _used(), time.perf_counter() - self.start
        if used is None or self.used is None or wall < _LEAST:
            return None
        others = (used - self.used) - (_own() - self.own)
        return max(0.0, others / (wall * (os.cpu_count() or 1)))


def busy(share: float | None) -> str:
    """A line if other processes used so much of the machine that times mean little; empty if not.

    >>> busy(0.4)[:46]
    'BUSY: other processes took 40 % of the machine'
    """
    if share is None or share < BUSY:
        return ""
    return (
        f"BUSY: other processes took {100 * share:.0f} % of the machine meanwhile; ratios hold "
        "roughly, times do not"
    )
