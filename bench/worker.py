"""A process that measures one library on a GPU, so that whatever happens there stays there.

In: a JSON object a line on standard input: {"do": what, ...}. Out: one a line on standard output,
{"result": ...} or {"failed": why}. `python -m bench.worker PEER,PEER [--cpu]`.

| do | what comes back |
|---|---|
| `hello` | versions of the peers that are here, and why others are not; the GPU |
| `measure` | times, first call, memory, errors of a peer on a workload |
| `first` | seconds of a first call alone, in a process that has compiled nothing yet |
| `host` | times of one of the host costs |
| `roofs` | bytes a second of a copy, operations a second of a matrix product and of one add |
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp
from bench import clocks, host, measure, peers, versions
from bench.peers import FUSED, Peer
from bench.workloads import BY_NAME, Draw, Size, Workload
from gpuarray.backends.cuda import device as cuda
from gpuarray.errors import FallbackWarning

#: Bytes of arguments that are kept on the host.
KEPT = 3 << 30


class Worker:
    """The peers of one process, and what it can be asked for."""

    def __init__(self, wanted: tuple[str, ...], gpu: bool = True):
        self.gpu = gpu
        self.here, self.missing = peers.gather(wanted, gpu)
        self._warm: set[str] = set()
        self._arrays: tuple[Any, list[np.ndarray]] = ((), [])

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a request comes to; its failure is an answer too."""
        arguments = {k: v for k, v in request.items() if k != "do"}
        try:
            answer = {"result": getattr(self, f"do_{request['do']}")(**arguments)}
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            answer = {"failed": text[:1500]}
        with contextlib.suppress(Exception):  # a GPU that broke says so when it is next asked
            gc.collect()
            for peer in self.here.values():
                peer.free()
        return answer

    def do_hello(self) -> dict[str, Any]:
        versions = {name: peer.version for name, peer in self.here.items()}
        return {"peers": versions, "missing": self.missing}

    def peer(self, name: str) -> Peer:
        """A peer that has run something: what a process does once is done."""
        peer = self.here[name]
        if name not in self._warm:
            with peer.around():
                peer.wait(peer.array(np.ones(8, np.float32)) + 1.0)
            self._warm.add(name)
        return peer

    def arrays(self, w: Workload, size: Size) -> list[np.ndarray]:
        """The arguments, kept for the next peer where they are not too large to be kept."""
        if self._arrays[0] != (w.name, size):
            self._arrays = ((), [])
            made = w.arrays(size, w.dtype)
            if sum(a.nbytes for a in made) > KEPT:
                return made
            self._arrays = ((w.name, size), made)
        return self._arrays[1]

    def do_first(self, workload: str, peer: str, quick: bool = False) -> dict[str, float]:
        """Seconds of a first call."""
        w, p = BY_NAME[workload], self.peer(peer)
        size = w.size(self.gpu, quick)
        run = measure.bound(w, p, size)
        mine = [p.array(a) for a in self.arrays(w, size)]
        with p.around():
            p.wait(mine)
            start = time.perf_counter()
            p.wait(p.send(run(*mine)))
            return {"first": time.perf_counter() - start}

    def do_measure(
        self, workload: str, peer: str, seconds: float, quick: bool = False
    ) -> dict[str, Any]:
        """Everything about one peer on one workload, and whether the host had to help."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = self._measured(workload, peer, seconds, quick)
        helped = {str(w.message) for w in said if issubclass(w.category, FallbackWarning)}
        out["note"] = "; ".join(filter(None, [out["note"], *sorted(helped)]))
        return out

    def _measured(self, workload: str, peer: str, seconds: float, quick: bool) -> dict[str, Any]:
        w, p = BY_NAME[workload], self.peer(peer)
        size = w.size(self.gpu, quick)
        out: dict[str, Any] = {"note": versions.note_for(w.function, p.family)}
        with p.around():
            arrays = self.arrays(w, size)
            sets = self._sets(p, arrays)
            run = measure.bound(w, p, size)
            send = (lambda x: x) if w.compiled else p.send
            start = time.perf_counter()
            result = p.wait(send(run(*sets[0])))
            out["first"] = time.perf_counter() - start
            small = w.arrays(w.small, w.dtype)
            got = measure.to_host(measure.finished(w, p, small, w.small)(), p)
            out["errors"] = {"small": measure.error_of(w, got, small, w.small)}
            if w.sample:
                out["errors"]["large"] = measure.sampled_error(w, result, arrays, size, p)
            results = result if isinstance(result, (tuple, list)) else [result]
            out["bytes"] = sum(a.nbytes for a in arrays) + sum(map(_nbytes, _flat(results)))
            del result, results
            call = clocks.in_turn(run, sets, send)
            try:
                clock = clocks.clock_of(p.clock)
                out |= clocks.timed(call, p.wait, clock, seconds)
            except AttributeError as error:  # a CuPy without what events need
                out["without"] = f"no device time: {error}"
                out |= clocks.timed(call, p.wait, None, seconds)
            out["memory"] = self._memory(p, call, run, sets[0])
        if peer == FUSED:
            out["plan"] = self._plan(workload, arrays, size)
        return out

    def _sets(self, p: Peer, arrays: list[np.ndarray]) -> list[list[Any]]:
        """Arguments on the device, as often as rotating them takes."""
        count = clocks.how_many_sets(sum(a.nbytes for a in arrays))
        sets = [[p.array(a) for a in arrays] for _ in range(count)]
        p.wait(sets)
        return sets

    def _memory(self, p: Peer, call: Callable, run: Callable, arguments: list) -> int | None:
        """The most bytes that a call takes."""
        clock = clocks.clock_of(p.clock) if p.clock else None
        if clock is not None:
            return clock.memory(lambda: p.wait(call()))
        if p.name == peers.JAX and hasattr(run, "lower"):
            analysis = run.lower(*arguments).compile().memory_analysis()
            if analysis is not None:
                return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)
        return None

    def _plan(self, workload: str, arrays: list[np.ndarray], size: tuple) -> dict[str, Any]:
        """What our compiler makes of it."""
        record = measure.Record(workload, "", "gpu")
        measure.look_at_plan(record, BY_NAME[workload], self.here[FUSED], arrays, size)
        return {n: getattr(record, n) for n in ("bytes", "bytes_unfused", "launches", "flops")}

    def do_host(self, cost: str, peer: str, seconds: float) -> dict[str, Any] | None:
        """Times of a host cost; None where the peer has nothing of the sort."""
        p = self.peer(peer)
        with p.around():
            call = next(c for c in host.HOST if c.name == cost).call(p)
            if call is None:
                return None
            return clocks.timed(lambda: p.send(call()), p.wait, None, seconds)

    def do_roofs(self, elements: int = 1 << 28, side: int = 8192) -> dict[str, Any]:
        """What the machine can do at most, measured with what is here."""
        gpu = cuda.gpus()[0]
        clock = clocks.clock_of("ours")
        assert clock is not None
        found: dict[str, Any] = {"gpu": gpu.name, "arch": gpu.arch, "memory": gpu.total_bytes}
        source = np.resize(Draw("float32").uniform(1 << 16), elements)
        found["copy_bytes_per_second"] = sorted(_copies(gpu, source))[3]
        try:
            a, b = (gnp.asarray(Draw("bfloat16").uniform(side, side)) for _ in range(2))
            product = ga.jit(gnp.matmul)
            times = clocks.timed(lambda: product(a, b), ga.block_until_ready, None, 0.2)
            found["products_per_second"] = 2.0 * side**3 / sorted(times["wall"])[0]
        except Exception as error:
            found["products_failed"] = f"{type(error).__name__}: {error}"
        try:
            attributes = gpu.device.attributes
            lanes, hertz = 128 * attributes["MultiProcessorCount"], attributes["ClockRate"] * 1e3
            found["instructions_per_second"] = lanes * hertz
        except Exception as error:
            found["instructions_failed"] = f"{type(error).__name__}: {error}"
        return found


def _copies(gpu: cuda.Gpu, source: np.ndarray) -> Iterator[float]:
    """Bytes a second that are read and written, a few times."""
    buffer, target = gpu.upload(source), gpu.empty(source.shape, source.dtype)
    gpu.stream.synchronize()
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(10):
            gpu.write(target.pointer, buffer.pointer, buffer.nbytes)
        gpu.stream.synchronize()
        yield 20 * buffer.nbytes / (time.perf_counter() - start)


def _flat(results: Any) -> list[Any]:
    out: list[Any] = []
    for r in results:
        out += _flat(r) if isinstance(r, (tuple, list)) else [r]
    return out


def _nbytes(x: Any) -> int:
    return int(x.nbytes)


def serve(wanted: tuple[str, ...], gpu: bool) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print is no answer
    worker = Worker(wanted, gpu)
    for line in sys.stdin:
        json.dump(worker.answer(json.loads(line)), answers)
        answers.write("\n")
        answers.flush()


if __name__ == "__main__":
    serve(tuple(sys.argv[1].split(",")), "--cpu" not in sys.argv)
