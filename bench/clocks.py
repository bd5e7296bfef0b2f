"""Time and memory of calls that return before their work is done.

In: a call, what waits for its result, and for some libraries the stream that its work goes to.
Out: seconds a call of three kinds, the same way for all libraries:

- `wall`: many calls, then one wait. What a program in a loop sees.
- `issue`: until the calls have returned, with room for them in the queue: the host's own time.
- `device`: between two events, behind work that keeps the GPU busy until all calls are queued:
  the GPU's own time. Libraries that do not show their stream have none.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

from gpuarray.backends.cuda import device as cuda

#: Bytes that are written to keep a GPU busy, more than any cache holds; no faster than so many a
#: second.
PLUG, PLUG_SPEED = 1 << 30, 4.5e12
#: Inputs take turns until they are so many bytes together: several times a GPU's cache.
ROTATED, SETS = 1 << 28, 64
#: Calls that fit into the queue of a GPU with room to spare.
QUEUED = 50


class CupyClock:
    """Events on a stream of CuPy's, and what its memory pool holds."""

    def __init__(self, stream: Any, pool: Any, plug: int = PLUG):
        self._cuda, self._stream, self._pool = cuda.cupy.cuda, stream, pool
        self._bytes = plug
        self._plug: Any = None

    def plug(self, seconds: float) -> None:
        """Keep the GPU busy for about so long."""
        if self._plug is None:
            self._plug = self._cuda.alloc(self._bytes)
        for _ in range(max(1, round(seconds * PLUG_SPEED / self._bytes))):
            self._cuda.runtime.memsetAsync(self._plug.ptr, 0, self._bytes, self._stream.ptr)

    def mark(self) -> Any:
        """A point in the stream's work."""
        event = self._cuda.Event()
        event.record(self._stream)
        return event

    def between(self, start: Any, end: Any) -> float:
        """Seconds between two points; waits for the second."""
        end.synchronize()
        return self._cuda.get_elapsed_time(start, end) * 1e-3

    def memory(self, call: Callable[[], Any]) -> int:
        """The most bytes that the call takes in addition to what is there."""
        self._stream.synchronize()
        self._plug = None
        self._pool.free_all_blocks()
        before = self._pool.total_bytes()
        call()
        return self._pool.total_bytes() - before


class TorchClock:
    """Events on PyTorch's stream, and what its allocator says."""

    def __init__(self, torch: Any):
        self._torch = torch
        self._plug: Any = None

    def plug(self, seconds: float) -> None:
        if self._plug is None:
            self._plug = self._torch.empty(PLUG, dtype=self._torch.uint8, device="cuda")
        for _ in range(max(1, round(seconds * PLUG_SPEED / PLUG))):
            self._plug.zero_()

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def memory(self, call: Callable[[], Any]) -> int:
        """The most bytes that the call takes in addition to what is there."""
        self._torch.cuda.synchronize()
        self._plug = None
        self._torch.cuda.reset_peak_memory_stats()
        before = self._torch.cuda.memory_allocated()
        call()
        return self._torch.cuda.max_memory_allocated() - before


def clock_of(kind: str) -> CupyClock | TorchClock | None:
    """What measures on the device for a peer."""
    if kind == "ours":
        gpu = cuda.gpus()[0]
        return CupyClock(gpu.stream, gpu._pool, min(PLUG, gpu.total_bytes // 32))
    if kind == "cupy":
        cupy = cuda.cupy
        return CupyClock(cupy.cuda.get_current_stream(), cupy.get_default_memory_pool())
    if kind == "torch":
        import torch

        return TorchClock(torch)
    return None


def in_turn(run: Callable, sets: list[list[Any]], send: Callable) -> Callable[[], Any]:
    """A call of `run` with the next of several sets of arguments."""
    following = itertools.cycle(sets)
    return lambda: send(run(*next(following)))


def how_many_sets(nbytes: int) -> int:
    """So many sets of inputs of so many bytes take turns."""
    return max(1, min(SETS, -(-ROTATED // max(nbytes, 1))))


def timed(
    call: Callable[[], Any],
    wait: Callable[[Any], Any],
    clock: CupyClock | TorchClock | None,
    seconds: float,
    rounds: tuple[int, int] = (5, 60),
) -> dict[str, list[float]]:
    """Seconds a call, a figure a round, of each kind."""
    wait(call())
    once = min(_wall(call, wait, 1)[1] for _ in range(3))
    # Waiting takes some 10 us: among 10 ms of calls it does not show.
    count = max(1, min(2000, round(0.01 / once)))
    samples: dict[str, list[float]] = {"wall": [], "issue": []}
    gc.collect()
    gc.disable()
    try:
        end = time.perf_counter() + seconds * (0.6 if clock else 1.0)
        while _goes_on(samples["wall"], rounds, end):
            samples["wall"].append(_wall(call, wait, count)[1])
        queued = min(count, QUEUED)
        issued = [_wall(call, wait, queued)[0] for _ in range(7)]
        samples["issue"] = issued
        if clock:
            samples["device"] = []
            end = time.perf_counter() + seconds * 0.4
            while _goes_on(samples["device"], rounds, end):
                clock.plug(1.5 * queued * statistics.median(issued) + 1e-4)
                start = clock.mark()
                for _ in range(queued):
                    last = call()
                samples["device"].append(clock.between(start, clock.mark()) / queued)
                wait(last)
    finally:
        gc.enable()
    return samples


def _goes_on(samples: list[float], rounds: tuple[int, int], end: float) -> bool:
    return len(samples) < rounds[0] or (len(samples) < rounds[1] and time.perf_counter() < end)


def _wall(call: Callable[[], Any], wait: Callable[[Any], Any], count: int) -> tuple[float, float]:
    """Seconds a call: until all have returned, and until the last result is there."""
    start = time.perf_counter()
    for _ in range(count):
        last = call()
    issued = time.perf_counter()
    wait(last)
    return (issued - start) / count, (time.perf_counter() - start) / count
