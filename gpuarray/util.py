"""Small helpers used on every floor.

Floor 0: imports nothing of gpuarray. In: plain Python values. Out: lazy modules, dicts with bounds,
checked axes.
"""

from __future__ import annotations

import functools
import importlib
import math
import operator
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.exceptions import AxisError


class _LazyModule(ModuleType):
    """A stand-in for a module that is imported when an attribute of it is first read."""

    def __init__(self, name: str, hint: str = ""):
        super().__init__(name)
        self.__dict__["_lazy"] = [None, hint]

    def __getattr__(self, attr: str) -> Any:
        module, hint = self._lazy
        if module is None:
            # Dunder probes (doctest, inspect, copy) must not load a heavy library.
            if attr.startswith("__") and attr.endswith("__"):
                raise AttributeError(attr)
            try:
                module = importlib.import_module(self.__name__)
            except ImportError as e:
                note = (
                    f" {hint}" if hint else " Install it in this environment to use this feature."
                )
                raise ImportError(
                    f"the module {self.__name__!r} is needed here and could not be loaded "
                    f"({e}).{note}",
                    name=self.__name__,
                ) from e
            self._lazy[0] = module
        return getattr(module, attr)

    def __dir__(self) -> list[str]:
        return dir(self._lazy[0]) if self._lazy[0] is not None else []

    def __repr__(self) -> str:
        loaded = "loaded" if self._lazy[0] is not None else "not loaded yet"
        return f"<lazy module {self.__name__!r} ({loaded})>"


def lazy_module(name: str, hint: str = "") -> Any:
    """Return a proxy for module `name`, imported on first attribute read.

    `hint` ends the ImportError's message when the module is missing: say how to get it.

    >>> colours = lazy_module("colorsys")
    >>> colours.rgb_to_hsv(1.0, 0.0, 0.0)
    (0.0, 1.0, 1.0)
    """
    return _LazyModule(name, hint)


_locks: weakref.WeakSet = weakref.WeakSet()


def lock() -> threading.RLock:  # pyright: ignore[reportInvalidTypeForm]
    """Return a reentrant lock that is free in a forked child, whichever thread held it."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _open_locks() -> None:
    for each in list(_locks):
        if not each._is_owned():  # held by the forking thread, it is released by it in the child
            each._at_fork_reinit()


os.register_at_fork(after_in_child=_open_locks)


def captures(function: Any) -> bool:
    """Whether a function may hold values of its own: a closure, defaults, a bound object.

    >>> captures(len), captures(lambda x: x), captures([].append)
    (False, False, True)
    """
    if isinstance(function, FunctionType):
        return bool(function.__closure__ or function.__defaults__ or function.__kwdefaults__)
    if isinstance(function, BuiltinFunctionType):
        return not isinstance(function.__self__, ModuleType | None)
    return not isinstance(function, (type, np.ufunc)) and getattr(function, "captures", True)


class Recent:
    """A dict of recently used entries, in two generations.

    A new generation begins when the present one holds half of the limit; entries that were not
    asked for during a whole generation are dropped. So `get`, which looks at the present generation
    only, is a plain dict's, and no look-up keeps records; `find` also takes an entry over from the
    previous generation.

    >>> squares = Recent(4)
    >>> for i in range(10):
    ...     _ = squares.put(i, i * i)
    ...     _ = squares.find(0)
    >>> list(squares.keys())
    [8, 9, 0]
    """

    __slots__ = ("__weakref__", "_limit", "before", "get", "now")

    def __init__(self, limit: float = math.inf):
        self._limit = limit
        self.now: dict[Hashable, Any] = {}
        self.before: dict[Hashable, Any] = {}
        # Bound to the one dict that `turn` and `clear` empty but never replace.
        self.get = self.now.get

    def find(self, key: Hashable) -> Any:
        """Return the value of a key, or None."""
        found = self.now.get(key)
        if found is None and (found := self.before.pop(key, None)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Hashable, value: Any) -> Any:
        """Store a value, and return it."""
        if 2 * len(self.now) >= self._limit:
            self.turn()
        self.now[key] = value
        return value

    def turn(self) -> None:
        """Begin a new generation."""
        self.before = dict(self.now)
        self.now.clear()

    def clear(self) -> None:
        """Drop all entries."""
        self.before = {}
        self.now.clear()

    def keys(self) -> list[Hashable]:
        """Return the keys, those of the present generation last."""
        return [*self.before, *self.now]

    def __len__(self) -> int:
        return len(self.now) + len(self.before)


class Interned:
    """One object for each key, as long as it is referenced, and for a while longer.

    `recent` is a plain dict of the objects made lately; `put(key, make)` finds a living object or
    makes it.
    """

    __slots__ = ("_alive", "_limit", "_lock", "recent")

    def __init__(self, limit: int):
        self._limit = limit
        self.recent: dict[Hashable, Any] = {}
        self._alive: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self._lock = lock()  # reentrant: a garbage collection in here may call back

    def put(self, key: Hashable, make: Callable[[], Any], also: Hashable = None) -> Any:
        """Return the object of a key; `recent` also gets it under the key `also`."""
        with self._lock:
            found = self._alive.get(key)
            if found is None:
                found = self._alive[key] = make()
            # `recent` only keeps objects alive for a while: dropping all of them is fine.
            if len(self.recent) >= self._limit:
                self.recent.clear()
            self.recent[key] = found
            if also is not None:
                self.recent[also] = found
            return found

    def __len__(self) -> int:
        return len(self._alive)


def read_only(x: Any) -> np.ndarray:
    """A NumPy value as a view that cannot be made writeable: it sees the memory through a
    read-only memoryview, which asks the array that owns it for no more.
    """
    value = np.asarray(x)
    # Dtypes of other packages have no memoryview, but their bytes have.
    plain = value if value.dtype.isbuiltin == 1 else value.view(f"V{value.itemsize}")
    seen = np.asarray(memoryview(plain).toreadonly())  # pyright: ignore[reportArgumentType]
    return seen if plain is value else seen.view(value.dtype)


def prod(xs: Iterable[int]) -> int:
    """Return the product of integers as a Python int, which cannot overflow.

    >>> prod((2**40, 2**40, 3)) == 3 * 2**80
    True
    """
    return int(math.prod(int(x) for x in xs))


def unzip2(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple, tuple]:
    """Split an iterable of pairs into two tuples (two empty ones for no pairs).

    >>> unzip2([(1, "a"), (2, "b")])
    ((1, 2), ('a', 'b'))
    """
    firsts, seconds = [], []
    for a, b in pairs:
        firsts.append(a)
        seconds.append(b)
    return tuple(firsts), tuple(seconds)


def safe_zip(*sequences: Sequence) -> list[tuple]:
    """Zip sequences of equal length into a list; raise ValueError with the lengths otherwise.

    >>> safe_zip([1, 2], "ab")
    [(1, 'a'), (2, 'b')]
    """
    lists = [s if hasattr(s, "__len__") else list(s) for s in sequences]
    if lists and any(len(s) != len(lists[0]) for s in lists):
        raise ValueError(f"length mismatch: {[len(s) for s in lists]}")
    return list(zip(*lists, strict=True))


def canonical_axis(axis: Any, ndim: int) -> int:
    """Return an axis as 0 <= axis < ndim; negative ones count from the end.

    Any other raises AxisError, which is a ValueError and an IndexError, as NumPy's is.

    >>> canonical_axis(-1, 3)
    2
    """
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise AxisError(f"axis {i} is out of bounds for array of dimension {ndim}")
    return i + ndim if i < 0 else i


def canonical_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return None (all), one axis or a sequence of axes as a tuple of distinct axes in 0..ndim-1.

    >>> canonical_axes((0, -1), 3), canonical_axes(None, 2), canonical_axes(-1, 2)
    ((0, 2), (0, 1), (1,))
    """
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, (tuple, list, range)):
        return (canonical_axis(axes, ndim),)
    out = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(out)) != len(out):
        raise ValueError(f"duplicate value in 'axis': {tuple(axes)}")
    return out


# ---- generated functions ----
def function_of_text(text: str, filename: str, space: dict[str, Any]) -> FunctionType:
    """Return the one function that a text defines, with `space` as its globals, which do not hold
    it.

    The text is one made here, of generated names only. Programs for other shapes often have the
    same one, which is compiled once; each function has a copy of the code for itself, because the
    interpreter adapts code to the globals that it meets.
    """
    return FunctionType(_code_of(text, filename).replace(), space)


@functools.lru_cache(maxsize=2048)
def _code_of(text: str, filename: str) -> CodeType:
    (code,) = (c for c in compile(text, filename, "exec").co_consts if type(c) is CodeType)
    return code
