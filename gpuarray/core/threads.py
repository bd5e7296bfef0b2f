"""The threads that share work on the CPU: how many they are, and one pool of them.

Floor 1. In: a function, and the parts of its work. Out: all parts done, the caller among those who
did them. Parts should be long calls that release Python's lock, as NumPy's are on many elements.

The setting `num_threads` applies to this pool and, if threadpoolctl is installed, to BLAS
libraries, which have their own threads.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray.config import config, state
from gpuarray.util import lazy_module

_threadpoolctl = lazy_module("threadpoolctl")
_workers: concurrent.futures.ThreadPoolExecutor | None = None


def thread_count() -> int:
    """Return how many threads share a large piece of work."""
    if state.num_threads:
        return state.num_threads
    # The cores this process may use, which can be fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pool() -> concurrent.futures.ThreadPoolExecutor:
    global _workers
    # The calling thread works too, so one worker less.
    wanted = max(1, thread_count() - 1, (os.cpu_count() or 2) - 1)
    if _workers is None or _workers._max_workers < wanted:
        _workers = concurrent.futures.ThreadPoolExecutor(
            wanted,
            thread_name_prefix="gpuarray-tile",
            initializer=lambda: np.seterr(all="ignore") and None,
        )
    return _workers


def _forget_workers() -> None:
    """Drop the workers in a forked child, where none lives; the next large group starts new."""
    global _workers
    _workers = None


os.register_at_fork(after_in_child=_forget_workers)


class _SharedIterator:
    """Iterates over a sequence for several threads; `next` of a count is atomic."""

    def __init__(self, items: Sequence):
        self._items = items
        self._count = itertools.count()

    def __iter__(self):
        return self

    def __next__(self):
        i = next(self._count)
        if i >= len(self._items):
            raise StopIteration
        return self._items[i]


def _taken(order: list) -> None:
    """Do the ordered parts of a work, and empty the order."""
    work, parts = order.pop()
    work(parts)


def share(work: Callable[[Iterable], Any], parts: Sequence, most: int | None = None) -> None:
    """Call `work` in several threads on an iterator that all of them draw parts from.

    >>> done = []
    >>> share(done.extend, range(100), most=4)
    >>> sorted(done) == list(range(100))
    True
    """
    count = min(thread_count(), len(parts), len(parts) if most is None else most)
    if count < 2:
        work(parts)
        return
    # Each thread takes the next part when it is free.
    shared = _SharedIterator(parts)
    # A worker holds its order a moment longer than its result is awaited, and one that is cancelled
    # until it is looked at: an emptied order holds no array, whose memory may be reused by then.
    orders: list[list] = [[(work, shared)] for _ in range(count - 1)]
    futures = [_pool().submit(_taken, order) for order in orders]
    try:
        work(shared)
    finally:
        for future, order in zip(futures, orders):
            # One that has not begun has nothing left to do, and may wait for this very thread.
            if future.cancel():
                order.clear()
            else:
                future.result()  # wait, and raise a thread's error


def each(function: Callable[[slice], Any], size: int, step: int) -> None:
    """Call `function` on slices of `step` that together are `size` long, in several threads.

    >>> each(print, 10, 4)  # doctest: +SKIP
    slice(0, 4, None)
    slice(4, 8, None)
    slice(8, 10, None)
    """

    def work(parts: Iterable[slice]) -> None:
        for part in parts:
            function(part)

    share(work, [slice(i, min(i + step, size)) for i in range(0, size, step)])


# ---- threads of BLAS ----

_limits: Any = None


def blas_is_limited() -> bool:
    """Whether `num_threads` holds for the threads of BLAS too: threadpoolctl is installed."""
    return importlib.util.find_spec("threadpoolctl") is not None


def limit_blas(count: int) -> None:
    """Limit BLAS to `count` threads, if that is possible; 0 is its own default."""
    global _limits
    if not blas_is_limited():
        return
    if _limits is not None:
        _limits.restore_original_limits()
        _limits = None
    if count:
        _limits = _threadpoolctl.threadpool_limits(count, user_api="blas")


config.on_update("num_threads", limit_blas)
if state.num_threads:  # given by the environment
    limit_blas(state.num_threads)


def blas_threads() -> Iterator[tuple[str, int]]:
    """The libraries of matrix products that are loaded, and how many threads each has."""
    if blas_is_limited():
        for found in _threadpoolctl.threadpool_info():
            if found["user_api"] == "blas":
                yield found["internal_api"], found["num_threads"]
