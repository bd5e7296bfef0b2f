"""`Array`: the interface of every array value, concrete or traced.

Floor 1. In: nothing. Out: the class whose operators and methods call the public numpy namespace.
That namespace is floors above, so it installs its functions here when it is imported:
`surface.add`, `surface.sum` and so on.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core.tracebacks import clean

#: Functions of the numpy namespace by name; `gpuarray.numpy` fills it when it is imported.
surface: Any = types.SimpleNamespace()

_OPERANDS = (int, float, complex, np.generic, np.ndarray)


def is_operand(x) -> bool:
    """Whether an operator of Array accepts `x` on its other side (not lists and tuples)."""
    return isinstance(x, (Array, *_OPERANDS)) or hasattr(x, "__jax_array__")


# An operator, `surface.name(self, other)`. One except clause each: a wrapper would cost a call.
def _binary(name: str):
    def method(self, other):
        try:
            # The isinstance test first: is_operand is a call.
            if isinstance(other, Array) or is_operand(other):
                return getattr(surface, name)(self, other)
            return _refuse(name, self, other)
        except Exception as error:
            clean(error)
            raise

    return _named(method, name)


def _reflected(name: str):
    def method(self, other):
        try:
            if isinstance(other, Array) or is_operand(other):
                return getattr(surface, name)(other, self)
            return _refuse(name, self, other, reflected=True)
        except Exception as error:
            clean(error)
            raise

    return _named(method, f"r{name}")


#: By the name of an operator: its symbol, and the method that Python tries on the other operand
#: afterwards.
_OPERATORS = {
    "add": ("+", "__radd__"),
    "subtract": ("-", "__rsub__"),
    "multiply": ("*", "__rmul__"),
    "matmul": ("@", "__rmatmul__"),
    "true_divide": ("/", "__rtruediv__"),
    "floor_divide": ("//", "__rfloordiv__"),
    "mod": ("%", "__rmod__"),
    "divmod": ("divmod()", "__rdivmod__"),
    "power": ("** or pow()", "__rpow__"),
    "bitwise_and": ("&", "__rand__"),
    "bitwise_or": ("|", "__ror__"),
    "bitwise_xor": ("^", "__rxor__"),
    "left_shift": ("<<", "__rlshift__"),
    "right_shift": (">>", "__rrshift__"),
    "equal": ("==", "__eq__"),
    "not_equal": ("!=", "__ne__"),
    "less": ("<", "__gt__"),
    "greater": (">", "__lt__"),
    "less_equal": ("<=", "__ge__"),
    "greater_equal": (">=", "__le__"),
}
_CONTAINERS = (list, tuple, set, dict)


def _refuse(name: str, x: Any, other: Any, reflected: bool = False) -> Any:
    # Python turns NotImplemented into its own TypeError, which cannot say how to fix the common
    # mistake of mixing in a list, and compares by identity. A list class that defines the operator
    # itself is tried.
    symbol, its = _OPERATORS[name]
    own = itertools.takewhile(lambda c: c not in _CONTAINERS, type(other).__mro__)
    if not isinstance(other, _CONTAINERS) or not reflected and any(its in vars(c) for c in own):
        return NotImplemented
    kind = type(other).__name__
    names = [type(x).__name__, kind]
    left, right = reversed(names) if reflected else names
    text = f"unsupported operand type(s) for {symbol}: {left!r} and {right!r}."
    if isinstance(other, (list, tuple)):
        text += f" A {kind} would be converted at every call: do so once, with asarray(...)."
    raise TypeError(text)


def _unary(name: str):
    def method(self):
        try:
            return getattr(surface, name)(self)
        except Exception as error:
            clean(error)
            raise

    return _named(method, name)


def _method(name: str):
    def method(self, *args, **kwargs):
        try:
            return getattr(surface, name)(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise

    return _named(method, name)


# Of arrays on devices: ArrayImpl overrides these, tracers do not.
def _placed(name: str):
    def method(self, *args, **kwargs):
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name}: {self.aval.str_short()} is a traced "
            "value, which is on no device yet. Ask outside of the transformed function; "
            "gpuarray.typeof(x) tells what is known of x inside."
        )

    return _named(method, name, f"`{name}` of an array on a device; a traced value has none.")


def _named(method, name: str, text: str = ""):
    method.__name__ = name
    method.__doc__ = text or f"See :func:`gpuarray.numpy.{name}`."
    return method


#: For the ufunc behind an operator of NumPy, `a * x` or `a *= x`: the method of `x` that Python
#: would call if `a` could not do it.
_REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__",
    np.bitwise_xor: "__rxor__",
    np.left_shift: "__rlshift__",
    np.right_shift: "__rrshift__",
    np.divmod: "__rdivmod__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
}


class _Lookups(threading.local):
    """Per thread: the instruction that last made NumPy look up `__array_ufunc__`, and how many
    times.
    """

    frame: int = 0
    instruction: int = -1
    times: int = 0


class _ArrayUfunc:
    """`__array_ufunc__` as a descriptor that tells `a * x` from `np.multiply(a, x)`.

    Here `a` is a NumPy array. The operators are ours: `a += x` must bind the name `a` to a new
    Array and leave the memory, which others may see, as it is, where the ufunc with `out=a` writes
    to it; and settings about promotion apply to them, not to NumPy's functions. Both arrive with
    the same arguments. They differ in that an operator of NumPy looks `__array_ufunc__` up twice,
    to see whether it is None and to call it, and a ufunc once. So the lookups by one instruction of
    the caller are counted.
    """

    def __init__(self):
        self.lookups = _Lookups()

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is not None:
            # The caller's frame and instruction identify the expression that is evaluated.
            return functools.partial(self.call, instance)
        lookups, caller = self.lookups, sys._getframe(1)
        if id(caller) == lookups.frame and caller.f_lasti == lookups.instruction:
            lookups.times += 1
        else:
            lookups.frame, lookups.instruction, lookups.times = id(caller), caller.f_lasti, 1
        return self.call

    def call(self, x: Array, ufunc: np.ufunc, method: str, *inputs, **options) -> Any:
        """Handle a ufunc that has an Array among its operands."""
        if self._by_operator(sys._getframe(1)) and ufunc in _REFLECTED:
            # The reflected operator makes a new Array, of `a += x` too.
            return getattr(x, _REFLECTED[ufunc])(inputs[0])
        return surface.array_ufunc(ufunc, method, *inputs, **options)

    def _by_operator(self, caller: types.FrameType) -> bool:
        lookups = self.lookups
        # Reset, so that the next run of the same instruction counts from 0.
        times, lookups.times = lookups.times, 0
        here = id(caller) == lookups.frame and caller.f_lasti == lookups.instruction
        return here and times > 1


class Array:
    """An immutable array; concrete arrays and tracers are instances."""

    __slots__ = ()
    # NumPy's operators defer to ours, so that `np_array + array` calls __radd__.
    __array_priority__ = 100

    #: Whether it is Python's number still, which no operation has made an array: in a derivative.
    bare: bool = False

    aval: Any
    # The aval under a name that only Arrays have: reading it also proves that x is one.
    _aval: Any

    # ---- from the aval ----
    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self.aval.shape

    @property
    def dtype(self):
        """The element type, a NumPy dtype (or `key<...>` for random keys)."""
        return self.aval.dtype

    @property
    def __numpy_dtype__(self) -> np.dtype:
        # NumPy looks it up if an array is given for a dtype; if it is missing, it looks up `dtype`.
        warnings.warn(
            "Implicit conversion of an array to a dtype is deprecated; rather than dtype=arr use "
            "dtype=arr.dtype. In the future this will result in an error.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to the other operand's, as a Python scalar's does."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return self.aval.nbytes

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object: this array has no axes (shape ())")
        return self.aval.shape[0]

    def __setitem__(self, index, value):
        raise TypeError(
            f"'{type(self)}' object does not support item assignment. JAX arrays are immutable, "
            f"and so are "
            "gpuarray's. Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method. "
            "Where a function of another library's assigns (to a zeros_like(x) of its own, as some "
            "of SciPy's do), give it numpy.asarray(x)."
        )

    def __getitem__(self, index):
        try:
            return surface.getitem(self, index)
        except Exception as error:
            clean(error)
            raise

    @property
    def at(self):
        """Functional updates: `x.at[idx].set(y)`, and add, multiply, divide, power, min, max,
        apply, get.
        """
        return surface.at(self)

    def __iter__(self):
        if not self.aval.shape:
            raise TypeError("iteration over a 0-d array")
        # One unstack instead of an index for each element.
        return iter(surface.unstack(self))

    def __reversed__(self):
        # For a scalar `iter` raises the right error.
        return iter(surface.flip(self, 0)) if self.aval.shape else iter(self)

    def __contains__(self, item) -> bool:
        if not self.aval.shape:
            raise ValueError(
                "Array.__contains__: search array must be one-dimensional, got shape (). Compare "
                "with == instead."
            )
        # NumPy would broadcast here and answer a different question.
        if getattr(item, "shape", ()):
            raise ValueError(
                f"Array.__contains__: query value must be a scalar, got query.shape={item.shape}. "
                "For each of several use gpuarray.numpy.isin."
            )
        if not is_operand(item):
            raise TypeError(
                f"Array.__contains__: unsupported operand type {type(item)}: expected a number."
            )
        return bool(surface.any(surface.equal(self, item)))

    # ---- operators ----
    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("true_divide"), _reflected("true_divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("mod"), _reflected("mod")
    __divmod__, __rdivmod__ = _binary("divmod"), _reflected("divmod")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
    __eq__ = _binary("equal")
    __ne__ = _binary("not_equal")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("invert")

    # None, and no method that raises: `isinstance(x, collections.abc.Hashable)` looks for it.
    __hash__ = None  # type: ignore[assignment]

    def __round__(self, ndigits=None):
        return (
            surface.astype(surface.round(self), int)
            if ndigits is None
            else surface.round(self, ndigits)
        )

    # ---- methods of the numpy namespace ----
    all, any = _method("all"), _method("any")
    argmax, argmin = _method("argmax"), _method("argmin")
    argpartition, argsort, sort = _method("argpartition"), _method("argsort"), _method("sort")
    byteswap, choose, clip = _method("byteswap"), _method("choose"), _method("clip")
    conj = conjugate = _method("conj")
    cumprod, cumsum = _method("cumprod"), _method("cumsum")
    diagonal, dot = _method("diagonal"), _method("dot")
    max, min, mean, prod = _method("max"), _method("min"), _method("mean"), _method("prod")
    nonzero, ptp, repeat, round = (
        _method("nonzero"),
        _method("ptp"),
        _method("repeat"),
        _method("round"),
    )
    searchsorted, squeeze, std = _method("searchsorted"), _method("squeeze"), _method("std")
    sum, swapaxes, take, trace = (
        _method("sum"),
        _method("swapaxes"),
        _method("take"),
        _method("trace"),
    )
    var, copy = _method("var"), _unary("copy")
    ravel = flatten = _method("ravel")

    def astype(self, dtype, copy=False, device=None):
        """The elements converted to another dtype; None means the default float."""
        return surface.astype(self, dtype, copy=copy, device=device)

    def to_device(self, device, *, stream=None):
        """The array on another device."""
        if stream is not None:
            raise NotImplementedError(
                f"to_device copies in the order of the program, without stream={stream!r}"
            )
        return surface.device_put(self, device)

    # ---- methods of arrays on devices, which traced ones do not have: see ArrayImpl ----
    item, addressable_data = _placed("item"), _placed("addressable_data")
    copy_to_host_async = _placed("copy_to_host_async")
    addressable_shards = property(_placed("addressable_shards"))
    global_shards = property(_placed("global_shards"))
    sharding, device = property(_placed("sharding")), property(_placed("device"))
    committed = property(_placed("committed"))
    format = property(_placed("format"))
    traceback = property(_placed("traceback"))
    is_fully_addressable = property(_placed("is_fully_addressable"))
    is_fully_replicated = property(_placed("is_fully_replicated"))

    def compress(self, condition, axis=None, **kwargs):
        """The slices along an axis for which a condition holds."""
        return surface.compress(condition, self, axis, **kwargs)

    def reshape(self, *shape, order: str = "C", out_sharding=None):
        """The same elements in another shape: `x.reshape(2, 3)` or `x.reshape((2, 3))`; one length
        may be -1.
        """
        # Also a single int: `x.reshape(-1)`.
        target = shape[0] if len(shape) == 1 else shape
        return surface.reshape(self, target, order=order, out_sharding=out_sharding)

    def transpose(self, *axes):
        """Axes permuted (reversed by default): `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
        # Not `axes == (None,)`: an array of axes is compared element by element.
        if not axes or len(axes) == 1 and axes[0] is None:
            return surface.transpose(self)
        given = axes[0] if len(axes) == 1 and np.ndim(axes[0]) else axes
        return surface.transpose(self, tuple(given))

    def view(self, dtype=None, type=None):
        """The same bytes read as another dtype."""
        if type is not None:
            raise TypeError("`type` argument of array.view() is not supported; give a dtype.")
        return surface.view(self, dtype)

    @property
    def T(self):
        """All axes reversed."""
        return surface.transpose(self)

    @property
    def mT(self):
        """The last two axes swapped."""
        return surface.matrix_transpose(self)

    @property
    def real(self):
        """The real part."""
        return surface.real(self)

    @property
    def imag(self):
        """The imaginary part."""
        return surface.imag(self)

    @property
    def flat(self):
        raise AttributeError(
            "an immutable array has no .flat iterator: use x.ravel(), or x.at[...].set(...) to "
            "update"
        )

    # ---- protocols ----
    def __array_namespace__(self, *, api_version=None):
        return surface.array_namespace(api_version)

    # ---- NumPy's functions on Arrays ----
    __array_ufunc__ = _ArrayUfunc()

    def __array_function__(self, function, types, args, kwargs):
        return surface.array_function(function, types, args, kwargs)
