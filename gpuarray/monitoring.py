"""Listeners to events: traces, compilations, and hits of the cache of compiled code.

Floor 6. In: functions to call. Out: calls of them. Events have JAX's names where they mean the
same, so that a program that counts JAX's compilations counts those of gpuarray:

| event | when |
|---|---|
| `/jax/core/compile/jaxpr_trace_duration` | a Python function was traced |
| `/jax/core/compile/jaxpr_to_mlir_module_duration` | its program was planned |
| `/jax/core/compile/backend_compile_duration` | it was built for a device |
| `/jax/compilation_cache/compile_requests_use_cache` | machine code was requested |
| `/jax/compilation_cache/cache_hits` | it was in the folder of compiled code |
| `/jax/compilation_cache/cache_retrieval_time_sec` | the time to read it |
| `/jax/compilation_cache/cache_misses` | it had to be compiled |

Those that end in `duration` or `sec` go to listeners to durations and to time spans, others to
listeners to events. The first three have the keyword `fun_name`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core import monitoring as _monitoring
from gpuarray.names import explain_names as _explain_names

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span",
    "record_scalar", "register_event_duration_secs_listener", "register_event_listener",
    "register_event_time_span_listener", "register_scalar_listener",
    "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip
__getattr__ = _explain_names(__name__)


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell all listeners to events that something happened.

    >>> import gpuarray as ga
    >>> ga.monitoring.register_event_listener(print)
    >>> ga.monitoring.record_event("/mine/step")
    /mine/step
    >>> ga.monitoring.unregister_event_listener(print)
    """
    _monitoring.events(_name(event), **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell all listeners to durations how long something took, in seconds.

    >>> import gpuarray as ga
    >>> ga.monitoring.record_event_duration_secs("/mine/step", 0.5)
    """
    _monitoring.durations(_name(event), duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell all listeners to time spans when something began and ended, in seconds.

    >>> import gpuarray as ga, time
    >>> ga.monitoring.record_event_time_span("/mine/step", time.time(), time.time())
    """
    _monitoring.spans(_name(event), start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Tell all listeners to scalars a number.

    >>> import gpuarray as ga
    >>> ga.monitoring.record_scalar("/mine/loss", 0.25)
    """
    _monitoring.scalars(_name(event), value, **kwargs)


def _name(event: Any) -> str:
    if not isinstance(event, str):
        raise TypeError(f"the name of an event must be a string, got {event!r}")
    return event


def register_event_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, **kwargs)` for each event.

    >>> import gpuarray as ga
    >>> seen = []
    >>> listen = lambda event, **about: seen.append(event)
    >>> ga.monitoring.register_event_listener(listen)
    >>> ga.monitoring.record_event("/mine/step")
    >>> ga.monitoring.unregister_event_listener(listen)
    >>> seen
    ['/mine/step']
    """
    _monitoring.events.add(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, seconds, **kwargs)` for each duration.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> seen = []
    >>> listen = lambda event, seconds, **about: seen.append(event.rpartition("/")[2])
    >>> ga.monitoring.register_event_duration_secs_listener(listen)
    >>> x = ga.jit(lambda x: x + 17)(1.0)
    >>> ga.monitoring.unregister_event_duration_listener(listen)
    >>> seen[0], seen[-1]
    ('jaxpr_trace_duration', 'backend_compile_duration')
    """
    _monitoring.durations.add(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, start, end, **kwargs)` for each time span."""
    _monitoring.spans.add(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, value, **kwargs)` for each scalar."""
    _monitoring.scalars.add(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Call a listener to events no longer."""
    _monitoring.events.remove(callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Call a listener to durations no longer."""
    _monitoring.durations.remove(callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call a listener to time spans no longer."""
    _monitoring.spans.remove(callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Call a listener to scalars no longer."""
    _monitoring.scalars.remove(callback)


def clear_event_listeners() -> None:
    """Remove all listeners of all kinds."""
    _monitoring.clear()
