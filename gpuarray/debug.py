"""Looking at what the library does: why something was compiled, what is pending, how arrays are
laid out.

Floor 6. In: the runtime's own records. Out: text and plain data.
"""

from __future__ import annotations

from gpuarray import util
from gpuarray.api.callbacks import debug_callback as callback
from gpuarray.api.callbacks import debug_print as print
from gpuarray.api.debugger import breakpoint as breakpoint
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime import cache

__all__ = ["breakpoint", "cache_report", "callback", "clear_report", "print"]


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
    rows = list(cache.history)[-util.index(limit) :]
    return "\n".join(
        f"{row.kind:5}  {row.name:20}  {row.seconds * 1e3:8.1f} ms  {row.reason}" for row in rows
    )


def clear_report() -> None:
    """Forget the history that `cache_report` prints."""
    cache.history.clear()


__getattr__ = _explain_names(__name__)
