"""Abstract values: the shape, dtype, weak type and layout of a value during tracing.

Floor 1. In: shapes and dtypes. Out: interned `ShapedArray` objects. Equal avals are the same
object, so a cache key made of avals hashes by identity, on which the hot path of every `jit` call
depends.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import config, errors
from gpuarray.core import dtypes
from gpuarray.core.dims import Dim
from gpuarray.core.layout import Layout, cuts_of, in_space, sums_of
from gpuarray.core.memories import Space
from gpuarray.core.mesh import EMPTY_ABSTRACT, NamedSharding, PartitionSpec, contexts
from gpuarray.core.spec import ManualAxisType
from gpuarray.util import Interned, wrong_type

#: The most bytes an array may have: a process's address space. It holds for arrays that are never
#: stored too, because loops over their elements would not end.
LARGEST = 1 << 47

#: Every live aval, and this many recent ones whether alive or not.
_interned = Interned(1 << 14)
_recent = _interned.recent


class ShapedArray:
    """Shape, dtype, weak_type and layout of one value; equal ones are the same object.

    >>> ShapedArray((2, 3), np.float32) is ShapedArray((2, 3), np.dtype("float32"))
    True
    """

    __slots__ = ("shape", "dtype", "weak_type", "layout", "ndim", "size", "__weakref__")

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    #: Its layout over devices (core/layout.py); None: nothing is known or needed.
    layout: Layout | None
    ndim: int
    size: int

    def __new__(
        cls,
        shape,
        dtype,
        weak_type: bool = False,
        layout=None,
        *,
        sharding=None,
        memory_space: Space | None = None,
    ) -> ShapedArray:
        # A NamedSharding gives the sharding of the value along the Explicit axes of its mesh.
        if sharding is not None:
            layout = sharding._typed(tuple(shape))
        if memory_space is not None:
            layout = in_space(layout, _checked_space(memory_space))
        # As the caller gave it: a hit avoids making the canonical key.
        key = (shape, dtype, weak_type, layout)
        try:
            return _recent[key]
        except KeyError:
            pass
        # Not hashable: a list as shape, say.
        except TypeError:
            key = None
        shape = tuple(d if isinstance(d, Dim) else operator.index(d) for d in shape)
        if not isinstance(dtype, dtypes.ExtendedDType):
            dtype = np.dtype(dtype)
        canonical = (shape, dtype, bool(weak_type), layout)
        return _interned.put(canonical, lambda: cls._made(*canonical), key)

    @classmethod
    # Attributes go round __setattr__, which refuses.
    def _made(cls, shape: tuple[Any, ...], dtype: Any, weak_type: bool, layout: Any):
        self = object.__new__(cls)
        set_ = object.__setattr__
        set_(self, "shape", shape)
        set_(self, "dtype", dtype)
        set_(self, "weak_type", weak_type)
        set_(self, "layout", layout)
        set_(self, "ndim", len(shape))
        size = math.prod(shape)
        # Whether symbols make it too large is seen when they are numbers.
        known = isinstance(size, int) and Dim not in map(type, shape)
        if known and (size * dtype.itemsize > LARGEST or (shape and max(shape) >= 1 << 63)):
            raise too_large(shape, dtype)
        set_(self, "size", size)
        return self

    def __setattr__(self, name, value):
        raise AttributeError(f"ShapedArray is immutable: cannot set {name!r}; use .update(...)")

    def __reduce__(self):
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.layout)

    def update(self, **changes) -> ShapedArray:
        """Return the same aval with some fields changed; a new shape is not sharded."""
        space = changes.pop("memory_space", self.memory_space)
        if "sharding" in changes:
            sharding = changes.pop("sharding")
            shape = tuple(changes.get("shape", self.shape))
            changes["layout"] = None if sharding is None else sharding._typed(shape)
        # The new axes cannot be matched to the old ones here, so none of them is sharded.
        if "shape" in changes and "layout" not in changes and self.layout is not None:
            changes["layout"] = self.layout.of_rank(len(changes["shape"]))
        if space is not self.memory_space:
            changes["layout"] = in_space(changes.get("layout", self.layout), _checked_space(space))
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "layout": self.layout,
        }
        return ShapedArray(**(fields | changes))

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """Return the aval of tangents: the same for floats and complex numbers, else float0."""
        tangent = dtypes.tangent_dtype(self.dtype)
        return self if tangent == self.dtype else ShapedArray(self.shape, tangent)

    # An older name of JAX's.
    at_least_vspace = to_tangent_aval

    @property
    def aval(self) -> ShapedArray:
        """The aval itself: an aval can be passed wherever only an array's type is used."""
        return self

    @property
    def memory_space(self) -> Space:
        """The kind of memory that the value is in: its device's own, or the host's."""
        return Space.Device if self.layout is None else self.layout.space or Space.Device

    @property
    def vma(self) -> frozenset:
        """Mesh axes of the `shard_map` around along which the value varies between devices."""
        return frozenset() if self.layout is None else self.layout.varying

    @property
    def sharding(self) -> NamedSharding:
        """The sharding along Explicit axes: those of its own mesh, or of the one in context."""
        cuts = cuts_of(self.layout)
        if self.layout is None or cuts is None:
            mesh = contexts.abstract or EMPTY_ABSTRACT
            return NamedSharding(mesh, PartitionSpec(*[None] * self.ndim))
        unreduced, reduced = sums_of(self.layout)
        spec = PartitionSpec(*cuts, unreduced=unreduced, reduced=reduced)
        return NamedSharding(self.layout.mesh, spec)

    @property
    def mat(self) -> ManualAxisType:
        """Along which manual axes it varies, and sums concern it."""
        if self.layout is None or self.layout.mesh is not None:
            return ManualAxisType(varying=self.vma)
        unreduced, reduced = sums_of(self.layout)
        return ManualAxisType(varying=self.vma, unreduced=unreduced, reduced=reduced)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def str_short(self, short_dtypes: bool = False) -> str:
        """Return `float32[2,3]`, or `f32[2,3]` when short; `f32[8@x]` is cut along `x`."""
        name = dtypes.short_name(self.dtype) if short_dtypes else self.dtype.name
        name += "<host>" if self.memory_space is Space.Host else ""
        named = zip("VUR", (self.vma, *sums_of(self.layout)), strict=True)
        words = [f"{word}:{self._shown(names)}" for word, names in named if names]
        vary = f"{{{', '.join(words)}}}" if words else ""
        lengths = list(map(str, self.shape))
        for axis, names in enumerate(cuts_of(self.layout) or ()):
            if names:
                along = ",".join(map(str, names))
                lengths[axis] += f"@({along})" if len(names) > 1 else f"@{along}"
        return f"{name}[{','.join(lengths)}]{vary}"

    def _shown(self, names: frozenset) -> str:
        """Return names of mesh axes in the order of the mesh."""
        mesh = (self.layout and self.layout.mesh) or contexts.abstract
        order = () if mesh is None else mesh.axis_names
        place = lambda n: (order.index(n) if n in order else len(order), str(n))
        listed = ",".join(map(str, sorted(names, key=place)))
        return f"({listed})" if len(names) > 1 else listed

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


def _checked_space(space: Space) -> Space:
    # A choice between several there is not.
    if space not in (Space.Device, Space.Host):
        raise ValueError(
            f"memory_space={space!r} is not known: give memory.Space.Device, memory.Space.Host or "
            "None."
        )
    return space


def too_large(shape: tuple[int, ...], dtype: Any) -> Exception:
    """Return the error for a shape that no array can have."""
    if max(shape) >= 1 << 63:
        return OverflowError(f"shape {shape}: an axis has at most 2**63 - 1 elements")
    return errors.OutOfMemory(
        f"an array of shape {shape} and dtype {dtype} would take "
        f"{math.prod(shape) * dtype.itemsize:,} bytes, more than a process can address (2**47). "
        "Work on parts of it."
    )


_PYTHON_KINDS = {bool: "bool_", int: "int_", float: "float_", complex: "complex_"}


def python_scalar_aval(kind: type) -> ShapedArray:
    """Return the aval of a Python scalar type under the current x64 setting."""
    dtype = dtypes.python_scalar_dtypes_now()[kind]
    # bool has no weak type: it does not give way to other dtypes.
    return ShapedArray((), dtype, kind is not bool)


def typed_scalar(x, dtype) -> np.generic:
    """Convert a Python scalar to a NumPy scalar; raise OverflowError where it does not fit."""
    try:
        return dtype.type(x)
    except OverflowError:
        raise OverflowError(f"Python int {x} too large to convert to {dtype.name}") from None


def machine_int(x: int) -> int:
    """Return `x`; raise OverflowError for a Python int that fits in neither int64 nor uint64.

    >>> machine_int(2**64)
    Traceback (most recent call last):
    OverflowError: Python int 18446744073709551616 does not fit into 64 bits: give a float
    """
    if type(x) is Dim:
        return x
    try:
        if -(1 << 63) <= x < 1 << 64:
            return x
    except TypeError:
        raise wrong_type(x, "an int") from None
    shown = str(x) if abs(x) < 10**30 else f"of {x.bit_length()} bits"
    raise OverflowError(f"Python int {shown} does not fit into 64 bits: give a float")


def _scalar_aval(kind: type) -> ShapedArray:
    if kind in _PYTHON_KINDS:
        return python_scalar_aval(kind)
    return ShapedArray((), dtypes.canonicalize_dtype(np.dtype(kind)))


MASKED = (
    "numpy masked arrays are not supported as direct inputs: their masks would be lost. Use "
    "arr.filled() to convert the value to a standard numpy array."
)

#: The message for a float0 given as an operand.
FLOAT0 = (
    "float0s do not support any operations by design: they are the derivatives of integers, and "
    "have no values. Use np.zeros(x.shape, dtype) for zeros."
)

#: Types whose values all have the same aval: Python's scalars and NumPy's.
_SCALAR_KINDS = frozenset(_PYTHON_KINDS) | {
    dtypes.as_dtype(name).type for name in dtypes.lattice.NODES if not name.endswith("*")
}
#: NumPy's scalars that the setting x64 decides about.
WIDE_SCALARS = frozenset((np.int64, np.uint64, np.float64, np.complex128))
_scalar_avals: dict[tuple[type, bool], ShapedArray] = {}


def _numpy_aval(x: Any) -> ShapedArray:
    dtype = dtypes.canonicalize_dtype(x.dtype)
    if dtype not in dtypes.OF_ARRAYS:
        raise no_dtype_of_arrays(x, x.dtype)
    return ShapedArray(x.shape, dtype)


def no_dtype_of_arrays(x: Any, dtype: np.dtype) -> TypeError:
    """Return the error for a value whose NumPy dtype no array has, such as strings or dates."""
    shown = repr(x) if len(repr(x)) <= 200 else repr(x)[:200] + "..."
    hint = ""
    if dtype.kind in "biufc":
        other = dtype.newbyteorder("=")
        longest = dtypes.float32 if dtype.kind == "f" else dtypes.complex64
        wanted = other if other in dtypes.OF_ARRAYS else longest
        hint = f" Convert it first, with .astype({str(wanted)!r})."
    return TypeError(
        f"Value {shown} with dtype {dtype} is not a valid JAX array type. Only arrays of "
        f"numeric types are supported: numbers, booleans, and nested lists of them.{hint}"
    )


#: Functions that give the aval of a value, by its type: libraries add their own types here, and add
#: to `values_by_type` functions that give the NumPy value of one.
avals_by_type: dict[type, Callable[[Any], ShapedArray]] = {np.ndarray: _numpy_aval}
values_by_type: dict[type, Callable[[Any], Any]] = {np.ndarray: np.asarray}


def aval_of(x) -> ShapedArray:
    """Return the aval of anything a primitive accepts: array, tracer, NumPy value or Python scalar.

    >>> aval_of(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    kind = type(x)
    if kind in _SCALAR_KINDS:
        key = (kind, config.state.enable_x64)
        aval = _scalar_avals.get(key)
        if aval is None:
            aval = _scalar_avals[key] = _scalar_aval(kind)
        return aval
    # Arrays and tracers. `hasattr` first would cost a second look-up.
    try:
        return x.aval
    except AttributeError:
        pass
    if isinstance(x, (np.ndarray, np.generic)):
        if isinstance(x, np.ma.MaskedArray):
            raise ValueError(MASKED)
        return _numpy_aval(x)
    if (handler := avals_by_type.get(kind)) is not None:
        return handler(x)
    # Subclasses of Python's scalars, such as an IntEnum.
    if isinstance(x, (bool, int, float, complex)):
        return python_scalar_aval(next(k for k in _PYTHON_KINDS if isinstance(x, k)))
    raise TypeError(
        f"Value {x!r} of type {type(x)} is not a valid JAX type: expected an array, a NumPy "
        "value or a Python scalar. Convert it first, for example with gpuarray.numpy.asarray(x)."
    )


def stated_aval(x) -> ShapedArray:
    """Return the aval of a value, or of anything else that has a shape and a dtype.

    Functions that only look at types accept such objects in place of arrays.

    >>> from types import SimpleNamespace
    >>> stated_aval(SimpleNamespace(shape=(2, 3), dtype=np.dtype("float32")))
    ShapedArray(float32[2,3])
    """
    if isinstance(x, np.ndarray):
        return aval_of(x)
    try:
        return aval_of(x)
    except TypeError:
        try:
            shape, dtype = tuple(map(operator.index, x.shape)), dtypes.as_dtype(x.dtype)
        except (AttributeError, TypeError):
            shape = dtype = None
        if shape is None:  # raised outside the handler: the error concerns only the value
            raise
    dtype = dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    return ShapedArray(shape, dtype, getattr(x, "weak_type", False) is True)
