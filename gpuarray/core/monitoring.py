"""Events that programs may listen to: traces, compilations, cache hits.

Floor 1. In: names of events, with numbers. Out: calls of the listeners, if there are any.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

#: A Python function was traced; its program was planned; a program was built for a device. Events
#: that mean the same as JAX's have its names, so programs that count its compilations count ours.
TRACED = "/jax/core/compile/jaxpr_trace_duration"
PLANNED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
BUILT = "/jax/core/compile/backend_compile_duration"
#: Machine code was asked of the folder of compiled code; it was there (read in so long); it had to
#: be made.
ASKED = "/jax/compilation_cache/compile_requests_use_cache"
FOUND = "/jax/compilation_cache/cache_hits"
READ = "/jax/compilation_cache/cache_retrieval_time_sec"
MADE = "/jax/compilation_cache/cache_misses"


class Listeners:
    """Functions called for events of one kind, in order of registration."""

    def __init__(self, kind: str):
        self.kind = kind
        #: Replaced, never mutated: an event goes to the listeners present when it happened.
        self.found: tuple[Callable[..., Any], ...] = ()

    def add(self, callback: Callable[..., Any]) -> None:
        """Add a listener; one that is added twice is called twice."""
        if not callable(callback):
            raise TypeError(f"a listener to {self.kind} must be callable, got {callback!r}")
        self.found = (*self.found, callback)

    def remove(self, callback: Callable[..., Any]) -> None:
        """Remove a listener; ValueError if it is not registered."""
        if callback not in self.found:
            raise ValueError(f"{callback!r} does not listen to {self.kind}: it was not registered")
        found = list(self.found)
        found.remove(callback)
        self.found = tuple(found)

    def __call__(self, event: str, *values: Any, **about: Any) -> None:
        for callback in self.found:
            callback(event, *values, **about)


events = Listeners("events")
durations = Listeners("durations of events")
spans = Listeners("time spans of events")
scalars = Listeners("scalars")


def clear() -> None:
    """Remove all listeners."""
    for listeners in (events, durations, spans, scalars):
        listeners.found = ()


def lasted(event: str, seconds: float, **about: Any) -> None:
    """Report something that has just ended, as a duration and as a time span."""
    if durations.found:
        durations(event, seconds, **about)
    if spans.found:
        now = time.time()
        spans(event, now - seconds, now, **about)


@contextlib.contextmanager
def timed(event: str, **about: Any) -> Iterator[None]:
    """Report how long the block takes, if it ends without an error."""
    start = time.perf_counter()
    yield
    lasted(event, time.perf_counter() - start, **about)
