"""CUDA graphs: launches that follow one another are recorded once, and replayed by one call.

Floor 4. In: a function that launches kernels at given addresses. Out: one that replays them if the
addresses recur. A graph that cannot be made, or not launched, costs speed, never correctness: the
kernels are launched one by one, and the log `gpuarray` gives the reason, once.

CuPy can record kernels and device copies. It refuses cuBLAS while a stream is being recorded, so
library routines separate graphs (except products in loops: turns.py). It has no bindings for
changing the parameters of a recorded kernel, so other addresses need another graph.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gpuarray.backends.cuda.availability import cupy
from gpuarray.backends.cuda.borrowed import Kept
from gpuarray.backends.cuda.device import Gpu
from gpuarray.backends.cuda.failures import STICKY, is_failure
from gpuarray.config import state
from gpuarray.core.target import TARGET

_log = logging.getLogger("gpuarray")
#: Whether the failure of graphs has been logged: the reason rarely differs the next time.
_said: list[str] = []


def wanted() -> bool:
    """Whether programs that are built now use graphs.

    While each launch is announced or waited for, kernels are launched one by one.
    """
    blocking = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
    return state.cuda_graphs and not state.debug and not blocking


def record(gpu: Gpu, stream: Any, launches: Callable[[], Any]) -> Any:
    """Record the launches of `launches` on a stream as a graph; the stream is used for nothing
    else.

    Nothing runs. Other threads may allocate meanwhile, and this one too, and CUDA may load code:
    CuPy's default is the relaxed mode, which forbids none of it.
    """
    with gpu.recording(), gpu.device, stream:
        stream.begin_capture()
        try:
            launches()
        except BaseException:
            # End the recording and discard its graph; the stream is dropped.
            try:
                stream.end_capture()
            except Exception as error:
                _log.debug("a recording that failed could not be ended: %s", str(error))
            raise
        return stream.end_capture()


def give_up(error: Exception) -> None:
    """Log once that kernels are launched one by one, and why; raise errors of any other kind."""
    status = getattr(error, "status", getattr(error, "result", None))
    # CuPy raises the other two for operations that it cannot record.
    refused = is_failure(error) or type(error) in (RuntimeError, NotImplementedError)
    if status in STICKY or not refused:
        raise error
    level = logging.DEBUG if _said else logging.WARNING
    _said[:] = [str(error)]
    _log.log(
        level,
        "a CUDA graph could not be used (%s: %s); its kernels are launched one by one. "
        "GPUARRAY_CUDA_GRAPHS=0 makes no graphs.",
        type(error).__name__,
        str(error),  # the error itself would hold the frames that it came through
    )


class Replay:
    """Launches replayed as a CUDA graph, recorded when a set of addresses comes a second time.

    The memory at these addresses belongs to the call that replays them, which has just allocated
    it: a graph owns no memory, so none can outlive it.
    """

    def __init__(self, launches: Callable[..., None], gpu: Gpu):
        self._launches, self._gpu = launches, gpu
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()
        # For each set of addresses its graph, and when that was used last.
        self._graphs: dict[tuple[int, ...], list] = {}
        self._kept = Kept(gpu, self._graphs)  # they may be running when this goes
        self._clock = itertools.count()
        self._made = self._used = 0
        self._works = True
        self._lock = threading.Lock()

    def __call__(self, *addresses: int) -> None:
        entry = self._graphs.get(addresses)
        if entry is None:
            entry = self._again(addresses) if self._works else None
        if entry is not None and self._works:
            entry[1] = next(self._clock)
            self._used += 1
            try:
                entry[0].launch(self._gpu.stream)
                return
            except Exception as error:  # nothing of it has run
                give_up(error)
                self._forget()
        self._launches(self._gpu.stream, *addresses)

    def _again(self, addresses: tuple[int, ...]) -> list | None:
        """Return a new graph for addresses that were here before; else note them."""
        with self._lock:
            if addresses in self._graphs:  # another thread made it
                return self._graphs[addresses]
            # Addresses seen once may never come again: a graph is made at the second time.
            if addresses not in self._seen:
                self._seen[addresses] = None
                if len(self._seen) > TARGET.graph_memory:
                    self._seen.popitem(last=False)
                return None
            # Recording costs as much as a few calls: not where graphs are thrown away unused.
            if self._made >= 2 * TARGET.graphs and self._used < 4 * self._made:
                return None
            if len(self._graphs) >= TARGET.graphs:
                oldest = min(self._graphs, key=lambda a: self._graphs[a][1])
                self._gpu.hold(self._graphs.pop(oldest))  # it may be running
            try:
                graph = self._recorded(addresses)
            except Exception as error:
                give_up(error)
                self._works = False
                return None
            self._made += 1
            entry = self._graphs[addresses] = [graph, next(self._clock)]
            return entry

    def _recorded(self, addresses: tuple[int, ...]) -> Any:
        with self._gpu.device:
            # Recording fails if other work enters the stream meanwhile, so it uses a separate one.
            stream = cupy.cuda.Stream(non_blocking=True)
        return record(self._gpu, stream, lambda: self._launches(stream, *addresses))

    def _forget(self) -> None:
        """Make no more graphs, and drop the existing ones."""
        with self._lock:
            self._works = False
            for entry in self._graphs.values():
                self._gpu.hold(entry)
            self._graphs.clear()
            self._seen.clear()
