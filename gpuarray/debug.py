"""Looking at what the library does: why something was compiled, what is pending, how arrays are
laid out.

Floor 6. In: the runtime's own records. Out: text and plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import util
from gpuarray.api.callbacks import debug_callback as callback
from gpuarray.api.callbacks import debug_log as log
from gpuarray.api.callbacks import debug_print as print
from gpuarray.api.debugger import breakpoint as breakpoint
from gpuarray.control.alike import Inspection
from gpuarray.control.callbacks import debug_callback_p
from gpuarray.core.effects import DebugEffect as DebugEffect
from gpuarray.core.effects import OrderedDebugEffect as OrderedDebugEffect
from gpuarray.core.sharding import Sharding
from gpuarray.core.trace import Tracer
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import cache
from gpuarray.runtime.device import default_place
from gpuarray.util import lazy_module

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "cache_report",
    "callback",
    "clear_report",
    "inspect_array_sharding",
    "log",
    "print",
    "sharding_svg",
    "visualize_array_sharding",
    "visualize_sharding",
]

_pictures = lazy_module("gpuarray.api.visualize")


def cache_report(limit: int = 20) -> str:
    """One line for each program compiled, newest last: its kind and name, how long it took, and why
    it was needed.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.jit
    ... def double(x):
    ...     return 2 * x
    >>> _ = double(gnp.ones(3)), double(gnp.ones(4))
    >>> print(ga.debug.cache_report(1).split("ms  ")[1])
    input 0 changed: ShapedArray(float32[3]) -> ShapedArray(float32[4])
    """
    # The history is bounded, so very old programs are not in it.
    rows = list(cache.history)[-util.index(limit) :]
    return "\n".join(
        f"{row.kind:5}  {row.name:20}  {row.seconds * 1e3:8.1f} ms  {row.reason}" for row in rows
    )


def clear_report() -> None:
    """Forget the history that `cache_report` prints."""
    cache.history.clear()


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Callable[[float], Sequence[float]] | None = None,
) -> None:
    """Print a table in which each block of an array of this shape names the devices that hold it.

    On a terminal the cells have colours, by default, and elsewhere lines between them. Arrays have
    one axis or two.

    >>> import gpuarray as ga
    >>> mesh = ga.make_mesh((1,), ("x",))
    >>> ga.debug.visualize_sharding((8,), ga.NamedSharding(mesh, ga.P("x")))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    _pictures.show(shape, sharding, use_color, scale, min_width, max_width, color_map)


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function with the sharding of an array; inside `jit`, when the program is made.

    A program for one device calls it when it first runs.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> seen = []
    >>> ga.debug.inspect_array_sharding(gnp.ones(2), callback=seen.append)
    >>> seen[0].num_devices
    1
    """
    if not callable(callback):
        raise TypeError(f"inspect_array_sharding: callback must be callable, got {callback!r}")
    if not isinstance(value, Tracer):
        callback(value.sharding)
        return
    # No value is wanted, so it is asked when a program is partitioned, where layouts are
    # decided.
    told = Inspection(callback, default_place().sharding)
    debug_callback_p.bind(value, callback=told, effect="DebugEffect", partitioned=False)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print how an array is laid out over devices, with the options of `visualize_sharding`.

    Inside `jit` it is printed when the program is made.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.debug.visualize_array_sharding(gnp.arange(8))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    shape = arr.shape
    inspect_array_sharding(arr, callback=lambda s: visualize_sharding(shape, s, **kwargs))


def sharding_svg(shape: Sequence[int], sharding: Sharding, width: int = 480) -> str:
    """The table of `visualize_sharding` as an SVG image of the given width in pixels.

    >>> import gpuarray as ga
    >>> ga.debug.sharding_svg((8, 8), ga.NamedSharding(ga.make_mesh((1,), ("x",)), ga.P()))[:4]
    '<svg'
    """
    return _pictures.svg(shape, sharding, width)


__getattr__ = _explain_names(__name__)
