"""The stack of interpreters: which Trace answers `bind` in this thread.

Floor 1. A Trace is an interpreter of primitives (evaluate, stage, jvp, batch); a Tracer is its
boxed value. The base trace, which evaluates, lives above this floor and is installed by `set_base`.

The life of a value that is recorded:

* A user gives an Array, a Python scalar, or a NumPy value. `bind` hands it to the innermost trace
  as it came; `same_widths` sees to it that 64-bit NumPy values beside arrays keep their width.
* What a trace keeps beyond one operation must not change afterwards, so it goes through
  `immutable`: a NumPy array becomes an Array of a copy. A number that the library computes has the
  dtype it was computed in, whatever the settings are: `full_width`, or `array_of` with an aval.
* All three ask `Trace.array_of`. A trace passes the question to its parent, up to the base trace,
  which copies memory (runtime/host.py). A trace that writes a Graph has one constant for all arrays
  of equal content, and writes scalars as literals, those too that were made under it (`adopt`).
* When the function ends, so does the trace: `alive` is False, the Graph holds the constants, and a
  tracer that is still referred to has leaked.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import numpy as np

from gpuarray import config, errors
from gpuarray.core import dtypes
from gpuarray.core.avals import WIDE_SCALARS, ShapedArray
from gpuarray.core.value import Array


class Trace:
    """An interpreter of primitives, by `process` alone; `parent` is the trace around it.

    The name of `process_primitive` in libraries' own Traces.
    """

    parent: Trace | None = None
    #: The transformation's name in scopes; '' for none.
    transform = ""
    #: False once the function it interpreted has ended: its tracers have leaked.
    alive = True

    @property
    def main(self) -> Trace:
        """Identity of the trace, by the name that JAX's tracers have for it."""
        return self

    def process(self, prim, args: tuple, params: dict) -> Any:
        return self.process_primitive(prim, args, params)

    def process_primitive(self, primitive, tracers, params: dict) -> Any:
        raise TypeError(f"{type(self).__name__} cannot evaluate {primitive.name}")

    def adopt(self, constant: Any) -> None:
        """Note a scalar constant made under this trace: a Graph writes it as a literal."""
        # Only a trace that writes a Graph has a use for it; the others pass it outwards.
        if self.parent is not None:
            self.parent.adopt(constant)

    def has_adopted(self, constant: Any) -> bool:
        """Whether a constant was made under the innermost trace that writes a Graph."""
        return self.parent is not None and self.parent.has_adopted(constant)

    def array_of(self, x: Any, aval: ShapedArray | None = None) -> Any:
        """Return a Python or NumPy value as an Array that cannot be modified by others; the base
        trace knows how.

        `aval` overrides the one that the settings would give it.
        """
        # A trace of a library's may name no parent.
        outer = _State.base if self.parent is None else self.parent
        if outer is self:
            raise TypeError(f"{type(self).__name__} makes no arrays")
        return outer.array_of(x, aval)


class _State(threading.local):
    """Per thread: the innermost trace, at first the base trace."""

    # Shared by all threads: a class attribute of a thread-local is not thread-local.
    base: Trace = Trace()

    def __init__(self):
        self.trace = _State.base


state = _State()


def set_base(base: Trace) -> None:
    """Install the evaluating trace; the runtime does so once, when it is imported."""
    _State.base = base
    # This thread has its state already; threads that start later get the base from the class.
    state.trace = base


def is_base() -> bool:
    """Whether operations are evaluated now, with no transformation around them."""
    return state.trace is _State.base


def immutable(x: Any) -> Any:
    """Return `x`, or for a NumPy array, whose owner may write to it, an Array of a copy."""
    return state.trace.array_of(x) if isinstance(x, np.ndarray) else x


def array_of(x: Any, aval: ShapedArray) -> Any:
    """Return a Python or NumPy value as an Array of this aval, whatever the settings are."""
    return state.trace.array_of(x, aval)


def full_width(x: Any) -> Any:
    """Return `x`, or an internal 64-bit NumPy scalar as an Array if settings would narrow it."""
    if type(x) in WIDE_SCALARS and not config.state.enable_x64:
        return array_of(x, ShapedArray((), x.dtype))
    return x


def same_widths(args: tuple) -> tuple:
    """Return the operands of an operation, with NumPy values as wide as an array among them.

    A NumPy value of the same 64-bit dtype as an array beside it, such as a constant made in that
    array's dtype, becomes an Array, since settings without x64 would narrow it.
    """
    if config.state.enable_x64:
        return args
    # The usual case: nothing that could be narrowed.
    if WIDE_SCALARS.isdisjoint(map(type, args)) and np.ndarray not in map(type, args):
        return args
    beside = {x._aval.dtype for x in args if isinstance(x, Array)}
    return tuple(
        [
            array_of(x, ShapedArray(x.shape, x.dtype))
            if isinstance(x, (np.generic, np.ndarray)) and x.dtype in beside
            else x
            for x in args
        ]
    )


class current:
    """Context manager that makes `trace` the innermost one.

    An interrupt (Ctrl-C) can come before `__exit__` has run. Functions that open a trace therefore
    restore the outer one in their own `finally`.
    """

    __slots__ = ("_outer", "_trace")

    def __init__(self, trace: Trace):
        self._trace = trace

    def __enter__(self) -> Trace:
        self._outer = state.trace
        state.trace = self._trace
        return self._trace

    def __exit__(self, *_: object) -> None:
        state.trace = self._outer


def base_trace():
    """Context manager outside all traces: operations on concrete values are evaluated."""
    return current(_State.base)


# Methods that need data are there, so that the error can say why they fail.
def _needs_data(name: str, kind: str = "method"):
    call = "()" if kind == "method" else ""

    def method(self, *args, **kwargs):
        raise errors.ConcretizationTypeError(
            self, f"The {name}{call} {kind} was called on {errors.shape_of(self)}."
        )

    method.__name__ = name
    method.__doc__ = "Not known of a traced value: raises ConcretizationTypeError."
    return method


class Tracer(Array):
    """A boxed value of a Trace: it has every method of Array, and an aval instead of data."""

    __slots__ = ("__weakref__", "_trace", "aval")

    _trace: Trace
    aval: ShapedArray

    #: How it varies along the axes of a shard_map, by its type.
    mat = property(lambda self: self.aval.mat)

    # A value without its own data, and of one trace: a copy of it is itself.
    def __copy__(self):
        return self

    def __deepcopy__(self, memo: dict):
        return self

    def __reduce__(self):
        raise errors.ConcretizationTypeError(
            self,
            "The error occurred in the __reduce__ method, which may indicate an attempt to "
            "serialize/pickle a traced value.",
        )

    # For subclasses of libraries; those here set the two themselves.
    def __init__(self, trace: Trace, aval: ShapedArray):
        self._trace, self.aval = trace, aval

    # The transformation that made it, and where: shown in error messages.
    def origin(self) -> str:
        return ""

    def __bool__(self):
        # No value would make these clear.
        if self.aval.size == 0:
            raise ValueError("The truth value of an empty array is ambiguous. Ask x.size > 0.")
        if self.aval.size > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use x.any() "
                "or x.all()."
            )
        raise errors.TracerBoolConversionError(self)

    def __int__(self):
        _number(self, "int")

    def __float__(self):
        _number(self, "float")

    def __complex__(self):
        _number(self, "complex")

    def __index__(self):
        # Wrong for a known value too, so it is no TracerError.
        if self.aval.shape or dtypes.kind_of(self.aval.dtype) not in "iub":
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index, got "
                f"{errors.shape_of(self)}."
            )
        raise errors.TracerIntegerConversionError(self)

    def __array__(self, dtype=None, copy=None):
        raise errors.TracerArrayConversionError(self)

    def __dlpack__(self, **_):
        raise errors.TracerArrayConversionError(self)

    def item(self, *args):
        raise errors.ConcretizationTypeError(self, _method_help("item"))

    def tolist(self):
        raise errors.ConcretizationTypeError(self, _method_help("tolist"))

    # Queries about data on a device.
    addressable_data, devices = _needs_data("addressable_data"), _needs_data("devices")
    delete, is_deleted = _needs_data("delete"), _needs_data("is_deleted")
    on_device_size_in_bytes = _needs_data("on_device_size_in_bytes")
    tobytes, unsafe_buffer_pointer = _needs_data("tobytes"), _needs_data("unsafe_buffer_pointer")
    addressable_shards = property(_needs_data("addressable_shards", "property"))
    global_shards = property(_needs_data("global_shards", "property"))
    committed = property(_needs_data("committed", "property"))
    traceback = property(_needs_data("traceback", "property"))
    is_fully_addressable = property(_needs_data("is_fully_addressable", "property"))
    is_fully_replicated = property(_needs_data("is_fully_replicated", "property"))

    def __repr__(self):
        return f"{type(self).__name__}<{self.aval.str_short(short_dtypes=True)}>"

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(
                f"unsupported format string passed to {type(self).__name__}.__format__: {spec!r} "
                "needs the number, which is not known while tracing. Use debug.print."
            )
        return repr(self)


# The slot itself under its second name: reading either is one C-level access.
Tracer._aval = Tracer.aval


def _number(self, function: str) -> NoReturn:
    """The error of `int(x)` and the like for a traced value."""
    if self.aval.size != 1 or self.aval.shape:
        raise TypeError(
            "Only scalar arrays can be converted to Python scalars, got "
            f"{errors.shape_of(self)}: index it first, or use x.item()."
        )
    raise errors.ConcretizationTypeError(
        self,
        f"The problem arose with the `{function}` function: it needs the value, and only the shape "
        f"and dtype are known while tracing. To convert an array, try using `x.astype({function})` "
        "instead, or mark the argument static (static_argnums/static_argnames).",
    )


def _method_help(name: str) -> str:
    return (
        f"The {name}() method was called on traced array elements, whose values are not known "
        "while tracing. Keep the computation in arrays, or mark the argument static "
        "(static_argnums/static_argnames)."
    )
