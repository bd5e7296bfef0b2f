"""Leaked tracers: values of a transformed function that something keeps after it has ended.

Floor 3. In: a trace that has ended. Out: an error that lists tracers that are still referenced, and
the objects that reference them. For the setting `check_tracer_leaks`.
"""

from __future__ import annotations

import gc
import types
from typing import Any

from gpuarray import config, sites
from gpuarray.core import trace as traces

#: Maximum length of a chain of references that is shown, and number of tracers listed.
LONGEST = LISTED = 5


def check_leaks(trace: traces.Trace, what: str) -> None:
    """Raise RuntimeError if tracers of a trace are still alive and the setting is on.

    Parameters
    ----------
    what :
        Name of the trace, for the message.
    """
    if not config.state.check_tracer_leaks:
        return
    # Tracers kept alive only by reference cycles are not leaks.
    gc.collect()
    leaked = [x for x in gc.get_referrers(trace) if isinstance(x, traces.Tracer)]
    if leaked:
        listed = ", ".join(repr(x) for x in leaked[:LISTED])
        first = leaked[0]
        # Tracers of a Graph know the line that made them; for others the best is where we are now.
        made = getattr(first, "site", None) or sites.user_frame()
        told = f"This {_name(first)} was created on line:\n  {made}\n{_chain(first, leaked)}"
        raise RuntimeError(
            f"Leaked trace {what}: these tracers are still referenced: {listed}. Something outside "
            f"the function keeps them: a list, a global, an attribute, a closure.\n{told}"
        )


def _name(x: Any) -> str:
    return f"{type(x).__name__} with object id {id(x)}"


def _short(x: Any) -> str:
    return f"<{type(x).__name__} {id(x)}>"


def _chain(x: Any, ours: list) -> str:
    """The chain of objects that refer to a value, one line each."""
    lines, seen = [], {id(ours)}
    for _ in range(LONGEST):
        seen.add(id(x))
        # Without the frames that are running, and without this function's own references.
        found = [
            r
            for r in gc.get_referrers(x)
            if not isinstance(r, types.FrameType) and id(r) not in seen and r is not lines
        ]
        if not found or isinstance(x, types.ModuleType):
            break
        lines.append(f"{_short(x)} is referred to by {_how(found[0], x)}")
        # Our own list would be among the referrers of the next one.
        x, found = found[0], None
    return "\n".join(lines)


def _how(holder: Any, x: Any) -> str:
    """A holder of a value, and the place in it."""
    if isinstance(holder, types.FunctionType):
        return f"{_short(holder)} ({holder.__name__})"
    if isinstance(holder, (list, tuple)):
        return f"{_short(holder)}[{next(i for i, y in enumerate(holder) if y is x)}]"
    if isinstance(holder, dict):
        key = next((k for k, y in holder.items() if y is x), None)
        return f"{_short(holder)}[{key!r}]"
    return _short(holder)
