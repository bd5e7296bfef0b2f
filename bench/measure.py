"""Run workloads: on CPUs all peers take turns; results are compared with float64.

In: workloads and Peers. Out: Records, plain data that `bench/results.py` shows and saves.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import gpuarray as ga
from bench import host, peers, versions
from bench.peers import FUSED, Peer
from bench.workloads import PIECE, Size, Workload
from gpuarray.cli.timing import Candidate, Samples, ratio, take_turns
from gpuarray.core.threads import thread_count


@dataclass
class Record:
    """What was measured of one workload.

    samples: seconds a call by peer, a figure a round; errors: worst relative error by peer
    bytes, bytes_unfused: what our plan moves, and would move without fusion
    failed: peers that could not, and why. details: of each peer on a GPU, see `worker.py`
    floor: seconds that no library can go below on this machine, where that is known
    """

    name: str
    title: str
    kind: str  # "throughput", "host", "overhead" or "gpu"
    samples: dict[str, Samples] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    tolerance: float = 0.0
    bytes: int = 0
    bytes_unfused: int = 0
    launches: int = 0
    flops: float = 0.0
    floor: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)

    def speedup(self, peer: str) -> float | None:
        """How many times faster ours (fused) is than this peer; None if either is absent."""
        if peer == FUSED or FUSED not in self.samples or peer not in self.samples:
            return None
        if self.kind == "gpu":  # one after another, not in turns
            return self.samples[peer].median / self.samples[FUSED].median
        return ratio(self.samples[peer], self.samples[FUSED])

    @property
    def wrong(self) -> list[str]:
        """Who is further from float64 than the workload allows."""
        return [name for name, error in self.errors.items() if not error <= self.tolerance]

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        data = asdict(self)
        del data["name"]
        data["seconds"] = {n: s["seconds"] for n, s in data.pop("samples").items()}
        data["median"] = {n: s.median for n, s in self.samples.items()}
        data["best"] = {n: s.best for n, s in self.samples.items()}
        data["ratio"] = {n: self.speedup(n) for n in self.samples if n != FUSED}
        return data

    @classmethod
    def from_plain(cls, name: str, data: dict[str, Any]) -> Record:
        """What `plain` gave."""
        data = {k: v for k, v in data.items() if k not in ("median", "best", "ratio")}
        samples = {n: Samples(s) for n, s in data.pop("seconds").items()}
        return cls(name, samples=samples, **data)


@dataclass(frozen=True)
class Effort:
    """How long to measure: seconds a peer, and rounds at least and at most."""

    seconds: float = 2.0
    rounds: tuple[int, int] = (7, 30)


# ---- one workload on one peer ----


def bound(workload: Workload, peer: Peer, size: Size) -> Callable[..., Any]:
    """The workload as this peer writes and compiles it: a function of arrays."""
    text = versions.text_for(workload.at(size), peer.name, peer.family)

    def function(*args):
        return text(peer.names, *args)

    return peer.jit(function) if workload.compiled else function


def reference(workload: Workload, arrays: list[np.ndarray], size: Size) -> Any:
    """The result in float64, by NumPy."""
    wide = [a if a.dtype.kind in "iu" else a.astype(np.float64) for a in arrays]
    return versions.text_for(workload.at(size), "exact", "")(peers.exact(), *wide)


def error_of(workload: Workload, got: Any, arrays: list[np.ndarray], size: Size) -> float:
    """How far results (as NumPy arrays) are from what they should be."""
    if workload.judge is not None:
        return workload.judge(got, arrays)
    return worst_error(got, reference(workload, arrays, size))


def worst_error(got: Any, want: Any) -> float:
    """The largest error of any element, relative to the element or to 1, whichever is larger."""
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    worst = 0.0
    for g, w in pairs:
        g, w = np.asarray(g, np.float64), np.asarray(w)
        if g.shape != w.shape:
            raise ValueError(f"a result of shape {g.shape}, where {w.shape} was expected")
        difference = np.abs(g - w) / np.maximum(1.0, np.abs(w))
        worst = float(np.max(difference, initial=worst))  # a NaN stays
    return worst


def pieces(length: int, of_rows: bool) -> list[slice]:
    """The first, the middle and the last rows, or elements, of so many."""
    n = min(8 if of_rows else PIECE, length)
    return [slice(a, a + n) for a in (0, (length - n) // 2, length - n)]


def cut(x: Any, axis: int, where: slice) -> Any:
    """A part of an array of any library."""
    return x[(*(slice(None),) * axis, where)]


def sampled_error(
    workload: Workload, result: Any, arrays: list[np.ndarray], size: Size, peer: Peer
) -> float:
    """The error of a large result: of some rows, or of all of it."""
    if workload.sample == "all":
        return error_of(workload, to_host(result, peer), arrays, size)
    assert not isinstance(workload.sample, str)
    inputs, outputs = workload.sample
    results = result if isinstance(result, (tuple, list)) else (result,)
    lengths = [r.shape[a] for r, a in zip(results, outputs) if a is not None]
    # Few, where each is a row, or needs all of another input.
    whole = [a for a, x in zip(arrays, inputs) if x is None and a.size > 2]
    of_rows = bool(whole) or max(a.ndim for a in arrays) > 1
    worst = 0.0
    for where in pieces(lengths[0], of_rows):
        some = [a if x is None else cut(a, x, where) for a, x in zip(arrays, inputs)]
        got = [to_host(cut(r, a, where), peer) for r, a in zip(results, outputs) if a is not None]
        if workload.judge is not None:
            error = workload.judge(got[0], some)
        else:
            want = reference(workload, some, size)
            want = want if isinstance(want, tuple) else (want,)
            kept = tuple(w for w, a in zip(want, outputs) if a is not None)
            error = worst_error(tuple(got), kept)
        worst = float(np.maximum(worst, error))  # a NaN stays
    return worst


def to_host(result: Any, peer: Peer) -> Any:
    """A result as NumPy arrays of float64."""
    if isinstance(result, (tuple, list)):
        flat = []
        for r in result:  # a value with a tuple of gradients is one row of results
            flat += to_host(r, peer) if isinstance(r, (tuple, list)) else [peer.host(r)]
        return tuple(flat)
    return peer.host(result)


# ---- in turns ----


def throughput(workload: Workload, here: dict[str, Peer], quick: bool, effort: Effort) -> Record:
    """Time one workload on all peers, and compare their results with float64."""
    size = workload.size(gpu=False, quick=quick)
    arrays = workload.arrays(size)
    record = Record(
        workload.name, workload.labelled(size), "throughput", tolerance=workload.tolerance
    )
    candidates: dict[str, Candidate] = {}
    for name, peer in here.items():
        try:
            call = finished(workload, peer, arrays, size)
            with peer.around():
                got = to_host(call(), peer)
            record.errors[name] = error_of(workload, got, arrays, size)
        except Exception as error:  # one that cannot does not cost the others
            record.failed[name] = f"{type(error).__name__}: {error}"
        else:
            candidates[name] = Candidate(call, peer.around)
    if candidates:
        record.samples = take_turns(candidates, effort.seconds, effort.rounds)
    if FUSED in candidates:
        look_at_plan(record, workload, here[FUSED], arrays, size)
    return record


def finished(
    workload: Workload, peer: Peer, arrays: list[np.ndarray], size: Size
) -> Callable[[], Any]:
    """The workload as a call without arguments that returns a finished result."""
    run = bound(workload, peer, size)
    mine = [peer.array(a) for a in arrays]
    return lambda: peer.wait(run(*mine))


def look_at_plan(
    record: Record, workload: Workload, peer: Peer, arrays: list[np.ndarray], size: Size
) -> None:
    """What our compiler makes of the workload."""
    function = workload.at(size)
    platform = "cuda" if record.kind == "gpu" else None
    explained = ga.explain(lambda *args: function(peer.names, *args), platform=platform)(*arrays)
    record.bytes, record.bytes_unfused = explained.bytes_moved, explained.bytes_unfused
    record.launches, record.flops = explained.launches, explained.flops


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


def first_call(name: str, effort: Effort) -> Record:
    """What it takes to come from a function to machine code for a GPU."""
    with host.first_call(name) as call:
        samples = take_turns({FUSED: Candidate(call)}, effort.seconds, effort.rounds)
    return Record(name, host.FIRST_CALLS[name], "overhead", samples)


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
