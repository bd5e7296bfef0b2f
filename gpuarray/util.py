"""Small helpers used on every floor.

Floor 0: imports nothing of gpuarray. In: plain Python values. Out: structs, lazy modules, dicts
with bounds, checked axes.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import math
import operator
import os
import sys
import threading
import weakref
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import FrozenInstanceError
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.exceptions import AxisError


@dataclass_transform(frozen_default=True)
class Struct:
    """A frozen dataclass that costs less import time: a real one takes half a millisecond to make,
    because its methods are compiled from text. Here only `__init__` is compiled, when the first
    instance is made.

    Annotated names are the fields, and values in the class are their defaults; each instance gets
    its own copy of a list or a dict. `__post_init__` runs behind `__init__`, if there is one.
    `class Name(Struct, frozen=False)` may be changed; with `eq=False` it is compared by identity.
    Subclasses are as their base is.

    >>> class Point(Struct):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, y=0), Point(1).replace(y=2)
    (Point(x=1, y=0), True, Point(x=1, y=2))
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()  # the names of the fields
    _defaults: ClassVar[dict[str, Any]] = {}
    _values: ClassVar[operator.attrgetter]  # of all fields, to compare and hash

    def __init_subclass__(cls, *, frozen: bool = True, eq: bool = True):
        own = [n for n, of in cls.__annotations__.items() if "ClassVar" not in str(of)]
        cls.__match_args__ = (*cls.__match_args__, *own)
        cls._defaults = cls._defaults | {n: vars(cls)[n] for n in own if n in vars(cls)}
        cls.__init__ = Struct.__init__
        if own:
            cls._values = operator.attrgetter(*cls.__match_args__)
        # object's own methods in place of Struct's: fields can be set, or instances are compared by
        # identity.
        free = () if frozen else ("__setattr__", "__delattr__")
        for method in (*free, *(() if eq else ("__eq__", "__hash__"))):
            setattr(cls, method, getattr(object, method))

    def __init__(self, *args: Any, **kwargs: Any):
        type(self).__init__ = _written_init(type(self))
        self.__init__(*args, **kwargs)

    def replace(self, **changes: Any) -> Self:
        """Another one, with these fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._values(self) == self._values(other)

    def __hash__(self) -> int:
        return hash(self._values(self))

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _written_init(cls: type[Struct]) -> Any:
    """The `__init__` of a Struct: as fast as one written by hand."""
    names, defaults = cls.__match_args__, cls._defaults
    head = ", ".join(f"{n}=_defaults[{n!r}]" if n in defaults else n for n in names)
    lines = [f"def __init__(self, {head}):"]
    frozen = cls.__setattr__ is not object.__setattr__
    for n in names:
        copied = isinstance(defaults.get(n), list | dict)
        value = f"{n}.copy() if {n} is _defaults[{n!r}] else {n}" if copied else n
        lines.append(f" _put(self, {n!r}, {value})" if frozen else f" self.{n} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    written: dict[str, Any] = {}
    exec("\n".join(lines), {"_defaults": defaults, "_put": object.__setattr__}, written)  # noqa: S102
    written["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return written["__init__"]


class _LazyModule(ModuleType):
    """A stand-in for a module that is imported when an attribute of it is first read."""

    def __init__(self, name: str, hint: str = ""):
        super().__init__(name)
        # The module once it is loaded, and the hint; a list, so that later reads only look it up.
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


# All locks made here, as long as they exist: one hook at fork serves them all.
_locks: weakref.WeakSet = weakref.WeakSet()


def references(only: tuple[Any]) -> int:
    """Return how many references there are to the element of a tuple, besides that of the tuple.

    A variable that is handed on may be borrowed, which no count shows (Python 3.14); an element is
    not.

    >>> kept = [object()]
    >>> references((kept[0],))
    1
    """
    # That of the tuple, and that of the argument.
    return sys.getrefcount(only[0]) - 2


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


_T = TypeVar("_T")


class cached_property(functools.cached_property[_T]):
    """`functools.cached_property`, whose lock (in Python 3.11) is free in a forked child."""

    def __init__(self, func: Callable[[Any], _T]):
        super().__init__(func)
        if hasattr(self, "lock"):
            self.lock = lock()


#: What functions take for their names; objects that are called may hold anything under them.
_NAMES = {"__name__": str, "__qualname__": str, "__annotations__": dict, "__type_params__": tuple}


def name_of(fun: Any, default: str | None = None) -> str:
    """The name of a function; of an object that is called, its type's, or the default.

    >>> name_of(len), name_of(functools.partial(len))
    ('len', 'partial')
    """
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) and name else default or type(fun).__name__


def update_wrapper(wrapper: _T, wrapped: Any) -> _T:
    """As functools.update_wrapper, for a callable that may have other things than names.

    >>> class Named:
    ...     __name__ = None
    >>> update_wrapper(lambda: 0, Named()).__name__
    '<lambda>'
    """
    taken = [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if isinstance(getattr(wrapped, name, None), _NAMES.get(name, object))
    ]
    return functools.update_wrapper(wrapper, wrapped, assigned=taken)  # pyright: ignore


def wraps(wrapped: Any) -> Callable[[_T], _T]:
    """As functools.wraps, with `update_wrapper`."""
    return lambda wrapper: update_wrapper(wrapper, wrapped)


def captures(function: Any) -> bool:
    """Whether a function may hold values: a closure, defaults, a bound object.

    >>> captures(len), captures(lambda x: x), captures([].append)
    (False, False, True)
    """
    if isinstance(function, FunctionType):
        return bool(function.__closure__ or function.__defaults__ or function.__kwdefaults__)
    if isinstance(function, BuiltinFunctionType):
        # Functions of C modules are bound to the module, methods such as `[].append` to an object.
        return not isinstance(function.__self__, ModuleType | None)
    # Any other callable is an object, which may hold values unless it declares that it does not.
    return not isinstance(function, (type, np.ufunc)) and getattr(function, "captures", True)


class Recent:
    """A dict of recently used entries, in two generations.

    A new generation begins when the present one holds half of the limit; entries that were not used
    during a whole generation are dropped. So `get`, which looks only at the present generation, is
    a plain dict's, and no lookup keeps records; `find` also takes an entry over from the previous
    generation.

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
        # Moved, so that it survives the next turn.
        if found is None and (found := self.before.pop(key, None)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Hashable, value: Any) -> Any:
        """Store a value, and return it."""
        # Two generations, each of half the limit.
        if 2 * len(self.now) >= self._limit:
            self.turn()
        self.now[key] = value
        return value

    def turn(self) -> None:
        """Begin a new generation."""
        # A copy, since `now` has to stay the dict that `get` is bound to.
        self.before = dict(self.now)
        self.now.clear()

    def clear(self) -> None:
        """Drop all entries."""
        self.before = {}
        self.now.clear()

    def keys(self) -> list[Hashable]:
        """Return the keys, most recent generation last."""
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
            # Under the lock, or two threads might make two objects for one key.
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
    """A view of a NumPy value that cannot be made writeable: it goes through a read-only
    memoryview, from which NumPy cannot obtain write access.
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
    return math.prod(map(index, xs))


def unzip2(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple, tuple]:
    """Split an iterable of pairs into two tuples (two empty ones for no pairs).

    >>> unzip2([(1, "a"), (2, "b")])
    ((1, 2), ('a', 'b'))
    """
    # zip(*pairs) would give no tuples at all for no pairs.
    firsts, seconds = [], []
    for a, b in pairs:
        firsts.append(a)
        seconds.append(b)
    return tuple(firsts), tuple(seconds)


def tuple_like(given: tuple, items: Iterable[Any]) -> tuple:
    """Return a tuple of these, with the names of a named one.

    >>> tuple_like((1, 2), "ab")
    ('a', 'b')
    """
    make = getattr(given, "_make", tuple)
    return make(items)


def safe_zip(*sequences: Sequence) -> list[tuple]:
    """Zip sequences of equal length into a list; raise ValueError with the lengths otherwise.

    >>> safe_zip([1, 2], "ab")
    [(1, 'a'), (2, 'b')]
    """
    # Iterators have no length: they are read first.
    lists = [s if hasattr(s, "__len__") else list(s) for s in sequences]
    if lists and any(len(s) != len(lists[0]) for s in lists):
        raise ValueError(f"length mismatch: {[len(s) for s in lists]}")
    return list(zip(*lists, strict=True))


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def wrong_type(given: Any, wanted: str) -> TypeError:
    """The error about an argument of a public function that no function takes.

    The name is found in the frame that called the library: `given`, or a sequence containing it, is
    an argument of the outermost gpuarray function. So no caller has to pass the name down.

    >>> wrong_type("a", "an int")
    TypeError("expected an int, got 'a' of type str")
    """
    name, frame = None, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        if frame.f_globals is not globals():  # not the helpers here
            name = _parameter(frame, given) or name
        frame = frame.f_back
    what = f"`{name}` must be {wanted}" if name else f"expected {wanted}"
    return TypeError(f"{what}, got {given!r} of type {type(given).__name__}")


def _parameter(frame: FrameType, given: Any) -> str | None:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = {k: frame.f_locals.get(k) for k in code.co_varnames[:count]}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        # Python lists positional and keyword-only parameters, then the names of *args and **kwargs.
        keywords = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
        arguments.update(frame.f_locals.get(keywords) or {})
    for k, v in arguments.items():
        if v is given or (isinstance(v, (tuple, list)) and any(e is given for e in v)):
            return k
    return None


class Symbolic:
    """A whole number that is known later: a length of a program that is exported for any."""

    __slots__ = ()


def index(given: Any, wanted: str = "an int") -> int:
    """Return an integer argument, as `operator.index` does; TypeError for others. A symbolic length
    is returned unchanged.

    >>> index(np.int8(3))
    3
    """
    try:
        return operator.index(given)
    except Exception as error:
        if isinstance(given, Symbolic):
            return given  # pyright: ignore[reportReturnType]  # computes as an int does
        if type(error) is not TypeError:  # a traced value raises its own error
            raise
    raise wrong_type(given, wanted)


def indices(given: Any, wanted: str = "a sequence of ints") -> tuple[int, ...]:
    """Return an argument that is a sequence of whole numbers as a tuple; TypeError for others.

    >>> indices([2, np.int8(3)])
    (2, 3)
    """
    try:
        return tuple(map(operator.index, given))
    except Exception as error:
        symbolic = isinstance(given, Sequence) and any(isinstance(n, Symbolic) for n in given)
        if type(error) is not TypeError and not symbolic:
            raise
    # Some are symbolic, or one of them is wrong.
    found = tuple(index(n) for n in elements(given, wanted))
    if symbolic:
        return found
    raise wrong_type(given, wanted)


def elements(given: Any, wanted: str = "a sequence") -> tuple[Any, ...]:
    """Return an argument that is a sequence as a tuple; TypeError for others.

    >>> elements(range(2))
    (0, 1)
    """
    if type(given) is tuple:  # the usual case
        return given
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong_type(given, wanted)
    return tuple(given)


def pair(given: Any, wanted: str = "a pair") -> tuple[Any, Any]:
    """Return an argument that is a sequence of two; TypeError for others.

    >>> pair([1, 2])
    (1, 2)
    """
    both = elements(given, wanted)
    if len(both) != 2:
        raise wrong_type(given, wanted)
    return both


def known(given: Any, names: Container[Any]) -> bool:
    """Whether an argument is one of the valid names; False for unhashable ones such as a list.

    >>> known("b", {"a": 1, "b": 2}), known(["b"], {"a": 1, "b": 2})
    (True, False)
    """
    try:
        return given in names
    except TypeError:
        return False


def function(given: Any, wanted: str = "a function") -> Callable[..., Any]:
    """Return an argument that can be called; TypeError for others.

    >>> function(abs)(-3)
    3
    """
    if not callable(given):
        raise wrong_type(given, wanted)
    return given


def number(given: Any, wanted: str = "a number") -> float:
    """Return an argument that is a number as a float; TypeError for others.

    >>> number(np.float32(0.5))
    0.5
    """
    if not isinstance(given, str):
        try:
            return float(given)
        except TypeError as error:
            if type(error) is not TypeError:
                raise
    raise wrong_type(given, wanted)


def canonical_axis(axis: Any, ndim: int) -> int:
    """Return an axis in 0 <= axis < ndim; negative axes count from the end.

    Any other raises AxisError, which is a ValueError and an IndexError, as NumPy's is.

    >>> canonical_axis(-1, 3)
    2
    """
    # Takes NumPy's integers, and refuses floats.
    try:
        i = operator.index(axis)
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise wrong_type(axis, "an int") from None
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
    # Zero-dimensional arrays count as numbers, others as sequences.
    if not isinstance(axes, (tuple, list, range)) and not getattr(axes, "ndim", 0):
        return (canonical_axis(axes, ndim),)
    out = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(out)) != len(out):
        raise ValueError(f"repeated axis: duplicate value in 'axis': {tuple(axes)}")
    return out


# ---- generated functions ----
def function_of_text(text: str, filename: str, space: dict[str, Any]) -> FunctionType:
    """Return the one function that a text defines, with `space` as its globals, which do not hold
    it.

    The text is generated here and contains only generated names. Programs for other shapes often
    have the same text, which is compiled once; each function has its own copy of the code, because
    the interpreter specialises code to the globals that it sees.
    """
    return FunctionType(_code_of(text, filename).replace(), space)


@functools.lru_cache(maxsize=2048)
def _code_of(text: str, filename: str) -> CodeType:
    (code,) = (c for c in compile(text, filename, "exec").co_consts if type(c) is CodeType)
    return code


# ---- capsules of Python's C interface ----
@functools.cache
def c_function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of Python's C interface with these types, as a private object.

    Setting the types of a function of `ctypes.pythonapi` would set them for the whole process.
    """
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


def address_in(capsule: Any) -> int:
    """Return the address that a PyCapsule holds, whatever its name."""
    of_object, of_name = ctypes.py_object, ctypes.c_char_p
    name = c_function("PyCapsule_GetName", of_name, of_object)(capsule)
    pointer = c_function("PyCapsule_GetPointer", ctypes.c_void_p, of_object, of_name)
    return pointer(capsule, name)
