"""Trace cache of loops and branches: the same function, called alike, is not traced again.

Floor 3. In: a function, and how it is called. Out: the earlier result for such a call, as long as
the function lives. A function counts as unchanged if every value that it reads from outside is the
same object and immutable: arrays, numbers, strings, modules, and functions of which the same holds.
A function that closes over a list, a dict or a user's object is traced at every call, so no closure
is ever out of date.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config
from gpuarray.core import trace as traces
from gpuarray.core.axes import axis_env
from gpuarray.core.value import Array
from gpuarray.util import Recent


class _Made(NamedTuple):
    """The result of tracing a function, and the values that it read from outside."""

    outside: list
    value: Any


# Entries die with the function.
_made: weakref.WeakKeyDictionary[Callable, Recent] = weakref.WeakKeyDictionary()

#: Maximum number of calls cached for one function.
LIMIT = 64

# Types whose values cannot change.
_CONSTANTS = (
    *(Array, np.generic, bool, int, float, complex, str, bytes, type, type(None), type(Ellipsis)),
    *(np.dtype, types.ModuleType, types.BuiltinFunctionType, np.ufunc),
)


def remembered(
    function: Callable,
    key: Hashable,
    make: Callable[[], Any],
    constants: Callable[[Any], Sequence[Any]],
) -> Any:
    """Return `make()`, or what it returned when `function` was last called with this key.

    Parameters
    ----------
    key :
        Everything on which `make` depends besides the function.
    constants :
        Function of the result that returns the values which are part of it; if a traced value is
        among them, nothing is kept.
    """
    outside: list = []
    if not isinstance(function, types.FunctionType) or not _collect(function, outside, set()):
        return make()
    # Settings and named axes may change what is traced.
    key = (key, config.state.trace_key, axis_env())
    known = _made.get(function)
    if known is not None:
        entry = known.find(key)
        if entry is not None and _same(entry.outside, outside):
            return entry.value
    value = make()
    traced = any(isinstance(c, traces.Tracer) for c in constants(value))
    if not traced and not any(x is function for x in outside):  # it would keep itself alive
        if known is None:
            known = _made.setdefault(function, Recent(LIMIT))
        known.put(key, _Made(outside, value))
    return value


def forget() -> None:
    """Clear the cache, for all functions."""
    _made.clear()


# By identity: equal arrays may differ later.
def _same(before: list, now: list) -> bool:
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))


def _collect(function: Any, outside: list, seen: set[int]) -> bool:
    """Append the values that a function reads from outside; return False if some of them are
    mutable.
    """
    if id(function) in seen:
        # A recursive function, or one met through another.
        return True
    seen.add(id(function))
    code = function.__code__
    read = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            read.append(cell.cell_contents)
        except ValueError:  # a name without a value yet
            return False
    globals_ = function.__globals__
    stack = [code]
    while stack:  # functions defined inside read the same globals
        one = stack.pop()
        # co_names also holds attribute names: a global with such a name is included unnecessarily.
        read += [globals_[name] for name in one.co_names if name in globals_]
        stack += [c for c in one.co_consts if isinstance(c, types.CodeType)]
    outside += read
    return all(_constant(x, outside, seen) for x in read)


def _constant(x: Any, outside: list, seen: set[int]) -> bool:
    if isinstance(x, _CONSTANTS):
        return True
    if isinstance(x, tuple):
        return all(_constant(item, outside, seen) for item in x)
    # Of decorated functions the one inside counts.
    inner = x
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if isinstance(inner, types.FunctionType):
        # Functions and objects of this library do not change.
        return _is_own(inner.__module__) or _collect(inner, outside, seen)
    return _is_own(type(x).__module__)


def _is_own(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]
