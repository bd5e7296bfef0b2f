"""Reasons for tracing: the logs of the settings `explain_cache_misses` and `log_compiles`.

Floor 6. In: a function, its latest calls, and one that has no program yet. Out: lines of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import sites
from gpuarray.config import state
from gpuarray.core.avals import ShapedArray
from gpuarray.runtime.cache import FunctionCache
from gpuarray.transforms.tracing import TracedFunction
from gpuarray.util import Recent

_log = logging.getLogger("gpuarray")
#: Where functions stood that were traced while misses were explained: file, line and name.
_seen = Recent(1 << 10)
_WEAK = (
    "A Python number is weakly typed (https://docs.jax.dev/en/latest/type_promotion.html#weak-types"
    "): give both calls a number, or both an array."
)


def explain(known: FunctionCache, key: tuple, info: TracedFunction) -> None:
    """Log why a call has to be traced, if the settings ask for it."""
    # Functions of this library are not explained: users cannot change them.
    code = info.code
    if not state.explain_cache_misses or (code is not None and sites.is_hidden(code.co_filename)):
        return
    near = known.nearest(key)
    reason = known.why(key) if near is None else _difference(near, key, info.arg_names)
    if near is None and not known.seen.find(hash(key)):
        reason = f"never seen function: {info} id={id(known)}"
        # A function made anew in a loop is another object on the same line: the usual mistake.
        place = code and (code.co_filename, code.co_firstlineno, info.name)
        if place is not None and _seen.find(place):
            reason += (
                ", but seen another function defined on the same line. Functions made anew in a "
                "loop share no program: make the function once, outside of the loop."
            )
        elif place is not None:
            _seen.put(place, True)
    _log.warning("TRACING CACHE MISS at %s because: %s", sites.user_frame(), reason, stacklevel=2)


def _difference(near: tuple, key: tuple, names: Sequence[str]) -> str:
    """How a call differs from the most alike of the calls before."""
    (before, spec, statics, avals), (settings, new_spec, new_statics, new_avals) = near, key
    # The first difference in this order is named; settings last, since all else is equal then.
    if spec != new_spec:
        return f"different input pytree: now {new_spec} and before {spec}"
    if statics != new_statics:
        return f"different static arguments: now {dict(new_statics)} and before {dict(statics)}"
    lines = []
    for i, (old, new) in enumerate(zip(avals, new_avals, strict=True)):
        if old != new:
            name = names[i] if i < len(names) else f"input {i}"
            a, b = _shown(old, new)
            lines.append(f"at {name}, now {b} and before {a}")
    if lines:
        weak = any(a.weak_type != b.weak_type for a, b in zip(avals, new_avals, strict=True))
        return "; ".join(["different input types", *lines]) + (f". {_WEAK}" if weak else "")
    rows = [f"{name}: now {b} and before {a}" for name, a, b in before.differing(settings)]
    return "; ".join(["different tracing context", *rows])


def _shown(old: ShapedArray, new: ShapedArray) -> tuple[str, str]:
    texts = old.str_short(short_dtypes=True), new.str_short(short_dtypes=True)
    if old.weak_type == new.weak_type:
        return texts
    a, b = (f"{t}{{weak_type={x.weak_type}}}" for t, x in zip(texts, (old, new), strict=True))
    return a, b


def timed(info: TracedFunction, trace: Callable[[], Any]) -> Any:
    """Return `trace()`; log how long it took, as a warning with `log_compiles`."""
    level = logging.WARNING if state.log_compiles else logging.DEBUG
    if not _log.isEnabledFor(level):
        return trace()
    start = time.perf_counter()
    traced = trace()
    seconds = time.perf_counter() - start
    _log.log(level, "Finished tracing %s for %s in %.4f s", info.name, info.purpose, seconds)
    return traced
