"""Guard against arrays in reference cycles, whose memory stays taken until a collection.

Floor 5. In: the setting `array_garbage_collection_guard`. Out: for each such array a line in the
log ("log"), or the end of the process ("fatal"). While the setting is "allow", nothing is watched.
"""

from __future__ import annotations

import gc
import logging
import os
from typing import Any

from gpuarray.config import config, state
from gpuarray.runtime.array import ArrayImpl

_log = logging.getLogger("gpuarray")


def _watch(phase: str, _: Any) -> None:
    """Give arrays a finalizer only while a collection runs, since it slows all of them down."""
    if phase == "stop":
        if "__del__" in ArrayImpl.__dict__:
            del ArrayImpl.__del__  # pyright: ignore[reportAttributeAccessIssue]
    # A collection may begin while a new thread is still reading the settings.
    elif getattr(state, "array_garbage_collection_guard", None) not in (None, "allow"):
        ArrayImpl.__del__ = _freed  # pyright: ignore[reportAttributeAccessIssue]


def _freed(array: ArrayImpl) -> None:
    _log.error(
        "`jax.Array` was deleted by the Python garbage collector instead of reference counting: "
        "%s is part of a reference cycle, and its memory was taken until now. Break the cycle "
        "(often an object that holds a closure over itself), or hold the array outside it.",
        array.aval.str_short(),
    )
    if state.array_garbage_collection_guard == "fatal":
        os.abort()


def _follow(value: Any) -> None:
    """Watch collections once the setting is used.

    Not before, because an interrupt (Ctrl-C) is lost in a function that the collector calls.
    """
    if value not in (None, "allow") and _watch not in gc.callbacks:
        gc.callbacks.append(_watch)


config.on_update("array_garbage_collection_guard", _follow)
_follow(state.array_garbage_collection_guard)
