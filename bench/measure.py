"""Run workloads: all peers take turns, results are compared with float64.

In: workloads and Peers. Out: Records, plain data that `bench/results.py` shows and saves.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gpuarray as ga
from bench import host, peers
from bench.peers import FUSED, Peer
from bench.workloads import Workload
from gpuarray.cli.timing import Candidate, Samples, ratio, take_turns
from gpuarray.drivers.tiles import thread_count


@dataclass
class Record:
    """What was measured of one workload.

    samples: seconds a call by peer, a figure a round; errors: worst relative error by peer
    bytes, bytes_unfused: what our plan moves, and would move without fusion
    """

    name: str
    title: str
    kind: str  # "throughput", "host" or "overhead"
    samples: dict[str, Samples]
    errors: dict[str, float] = field(default_factory=dict)
    tolerance: float = 0.0
    bytes: int = 0
    bytes_unfused: int = 0
    launches: int = 0

    def speedup(self, peer: str) -> float | None:
        """How many times faster ours (fused) is than this peer; None if either is absent."""
        if peer == FUSED or FUSED not in self.samples or peer not in self.samples:
            return None
        return ratio(self.samples[peer], self.samples[FUSED])

    @property
    def wrong(self) -> list[str]:
        """Who is further from float64 than the workload allows."""
        return [name for name, error in self.errors.items() if not error <= self.tolerance]


@dataclass(frozen=True)
class Effort:
    """How long to measure: seconds a peer, and rounds at least and at most."""

    seconds: float = 2.0
    rounds: tuple[int, int] = (7, 30)


def throughput(workload: Workload, here: dict[str, Peer], quick: bool, effort: Effort) -> Record:
    """Time one workload on all peers, and compare their results with float64."""
    arrays = workload.arrays(quick)
    want = reference(workload, arrays)
    candidates: dict[str, Candidate] = {}
    errors: dict[str, float] = {}
    for name, peer in here.items():
        call = bound(workload, peer, arrays)
        candidates[name] = Candidate(call, peer.around)
        with peer.around():
            errors[name] = worst_error(call(), want)
    record = Record(
        workload.name,
        workload.title,
        "throughput",
        take_turns(candidates, effort.seconds, effort.rounds),
        errors,
        workload.tolerance,
    )
    _look_at_plan(record, workload, here, arrays)
    return record


def reference(workload: Workload, arrays: list[np.ndarray]) -> Any:
    """The result in float64, by NumPy."""
    names = peers.gather((peers.NUMPY,))[0][peers.NUMPY].names
    return workload.function(names, *[a.astype(np.float64) for a in arrays])


def bound(workload: Workload, peer: Peer, arrays: list[np.ndarray]) -> Callable[[], Any]:
    """The workload as a call without arguments that returns a finished result."""

    def function(*args):
        return workload.function(peer.names, *args)

    run = peer.jit(function) if workload.compiled else function
    mine = [peer.array(a) for a in arrays]
    return lambda: peer.wait(run(*mine))


def _look_at_plan(
    record: Record, workload: Workload, here: dict[str, Peer], arrays: list[np.ndarray]
) -> None:
    """What our compiler makes of the workload."""
    peer = here.get(FUSED)
    if peer is None:
        return
    explained = ga.explain(lambda *args: workload.function(peer.names, *args))(*arrays)
    record.bytes, record.bytes_unfused = explained.bytes_moved, explained.bytes_unfused
    record.launches = explained.launches


def worst_error(got: Any, want: Any) -> float:
    """The largest error of any element, relative to the element or to 1, whichever is larger."""
    pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
    worst = 0.0
    for g, w in pairs:
        difference = np.abs(np.asarray(g, np.float64) - w) / np.maximum(1.0, np.abs(w))
        worst = max(worst, float(np.max(difference)))
    return worst


def host_cost(cost: host.HostCost, here: dict[str, Peer], effort: Effort) -> Record:
    """Time one host cost on all peers that have it."""
    candidates = {}
    for name, peer in here.items():
        with peer.around():
            call = cost.call(peer)
        if call is not None:
            candidates[name] = Candidate(call, peer.around)
    samples = take_turns(candidates, effort.seconds, effort.rounds)
    return Record(cost.name, cost.title, "host", samples)


def import_time(here: dict[str, Peer], effort: Effort) -> Record:
    """Seconds to import each peer, in turns, each time in a fresh process."""
    names = [n for n in here if n in host.IMPORTS]
    samples = {name: Samples() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            host.import_seconds(name, folder)  # once unmeasured: writes byte code, reads files
        for i in range(effort.rounds[0]):
            for name in names if i % 2 == 0 else reversed(names):
                samples[name].seconds.append(host.import_seconds(name, folder))
    return Record("import_time", "import, with NumPy loaded", "host", samples)


def overhead(name: str, effort: Effort) -> Record:
    """What our dispatch costs when nothing is launched."""
    with host.null_driver():
        call, operations = host.overhead(name)
        samples = take_turns({FUSED: Candidate(call)}, effort.seconds, effort.rounds)
    each = Samples([s / operations for s in samples[FUSED].seconds])
    return Record(name, host.OVERHEADS[name], "overhead", {FUSED: each})


def copy_bandwidth() -> float:
    """Bytes a second that all threads together read and write when NumPy copies: the floor."""
    threads = thread_count()
    source = np.ones(1 << 24, np.float32)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    figures = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(7):
            start = time.perf_counter()
            list(pool.map(lambda part: np.copyto(*part), parts))
            figures.append(2 * source.nbytes / (time.perf_counter() - start))
    return statistics.median(figures)
