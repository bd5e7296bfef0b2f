"""Arrays from values: `array` and `asarray`, on which the rest of the namespace is built.

Floor 6. In: scalars, nested lists, NumPy arrays, buffers, arrays and tracers. Out: an Array that
owns its memory. Values that are not numbers are refused; 64-bit types narrow unless x64 is on.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gpuarray import config, lax, util
from gpuarray.core import dtypes, promotion
from gpuarray.core import trace as traces
from gpuarray.core.avals import FLOAT0, MASKED, ShapedArray, no_dtype_of_arrays
from gpuarray.core.sharding import Device, Sharding
from gpuarray.core.value import Array
from gpuarray.primitives.elementwise.arithmetic import copy_p, stage_p
from gpuarray.primitives.elementwise.convert import convert_element_type_p
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import place_for
from gpuarray.runtime.transfer import device_put, from_host, laid_in_context, placed

_PYTHON = frozenset({bool, int, float, complex})


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Convert to an Array; an Array of this dtype is returned unchanged.

    Shape contract: scalars give (), nested lists their nesting. Python scalars stay weakly typed
    unless `dtype` is given.

    >>> import gpuarray.numpy as gnp
    >>> gnp.asarray([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    # The usual case: nothing to do.
    if isinstance(a, Array) and dtype is None and device is None and not copy:
        a = stage_p.bind(a) if a.bare else a
        return placed("asarray", a, out_sharding)
    return array(
        a, dtype, copy=bool(copy), order=order or "K", device=device, out_sharding=out_sharding
    )


def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """A new Array from a scalar, nested lists or tuples, a buffer, a NumPy array or an Array.

    Shape contract: as `asarray`; `ndmin` puts axes of length 1 in front until there are as many.
    `copy`, `order` and `ndmin` by position are deprecated.

    >>> import gpuarray.numpy as gnp
    >>> gnp.array([[1, 2.5], [3, 4]])
    Array([[1. , 2.5],
           [3. , 4. ]], dtype=float32)
    """
    if args:
        copy, order, ndmin = _by_position(args, copy, order, ndmin)
    if order is not None and order != "K":
        raise NotImplementedError(
            f"Only implemented for order='K', got order={order!r}: an Array's memory layout is "
            "not part of its value"
        )
    wanted = None if dtype is None else dtypes.requested_dtype(dtype, "array")
    out = _to_array(object, wanted)
    # A new Array shares no memory with its source: donating one must not delete the other.
    if copy and out is object:
        out = copy_p.bind(out)
    # 64-bit types have become 32-bit ones here, with a warning, unless x64 is on.
    if wanted is not None:
        out = as_type(out, wanted)
    # NumPy's limit: interchange and printing go through NumPy.
    if util.index(ndmin) > 64:
        raise ValueError(f"ndmin must be at most 64, the most axes that NumPy has, got {ndmin}")
    if out.ndim < ndmin:
        out = lax.expand_dims(out, range(ndmin - out.ndim))
    if out_sharding is None and device is None and type(out) is ArrayImpl:
        return out if isinstance(object, Array) else laid_in_context(out)
    _check_there("array", out, device)
    return placed("array", out, out_sharding, device)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """The elements converted to another dtype; None means the default float.

    Shape contract: the shape of x. Floats become integers towards zero; out of range they become
    the nearest integer there is, nan becomes 0.

    >>> import gpuarray.numpy as gnp
    >>> gnp.astype(gnp.array([1.7, -1.7]), int)
    Array([ 1, -1], dtype=int32)
    """
    if isinstance(x, (list, tuple)) and not config.state.permissive:
        raise TypeError(
            f"astype requires ndarray or scalar arguments, got {type(x)} at position 0. Convert it "
            "with gpuarray.numpy.asarray(x, dtype)."
        )
    given = asarray(x)
    wanted = dtypes.default_float() if dtype is None else dtypes.requested_dtype(dtype, "astype")
    out = as_type(given, wanted)
    if copy and out is x:
        out = copy_p.bind(out)
    _check_there("astype", out, device)
    return out if device is None else device_put(out, device)


def _check_there(what: str, x: Array, device: Any) -> None:
    """Refuse an array that was put on other devices than `device` names: `device_put` moves it."""
    names_devices = isinstance(device, (Device, Sharding, str))  # else it is read later
    if not names_devices or type(x) is not ArrayImpl or not x._place.committed:
        return
    place = place_for(device)
    if x._place.devices != place.devices:
        raise ValueError(
            f"Received incompatible devices for jitted computation. Got argument of {what} with "
            f"shape {x.aval.str_short()} and device ids {[d.id for d in x._place.all_devices]}, "
            f"and device= with device ids {[d.id for d in place.all_devices]}. Move the array with "
            "gpuarray.device_put(x, device)."
        )


def _by_position(args: tuple, *named: Any) -> tuple:
    """copy, order and ndmin of a call that gives some of them by position, as old programs do."""
    if len(args) > 3:
        raise TypeError(
            f"array() takes at most 5 positional arguments but {len(args) + 2} were given"
        )
    for name, given, default in zip(("copy", "order", "ndmin"), named[: len(args)], (True, "K", 0)):
        if given != default:
            raise TypeError(f"array() got multiple values for argument {name!r}")
    warnings.warn(
        "Passing the copy, order, and ndmin arguments to jnp.array positionally is deprecated. "
        "Use keyword arguments instead.",
        DeprecationWarning,
        stacklevel=3,
    )
    return (*args, *named[len(args) :])


def as_type(x: Array, dtype: Any, weak_type: bool = False) -> Array:
    """An Array with its elements converted, unless they are of that type already."""
    aval = x.aval
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    if isinstance(dtype, dtypes.ExtendedDType) or isinstance(aval.dtype, dtypes.ExtendedDType):
        # Their own rules determine the valid conversions.
        return lax.convert_element_type(x, dtype)
    if dtypes.kind_of(aval.dtype) == "c" and dtypes.kind_of(dtype) != "c":
        # Testing for zero needs both parts, so nothing is discarded and there is no warning.
        if dtype == np.bool_:
            return lax.ne(x, aval.dtype.type(0))
        warnings.warn(
            "Casting complex values to real discards the imaginary part: take .real if you mean it",
            np.exceptions.ComplexWarning,
            stacklevel=3,
        )
    return converted(x, dtype, weak_type)


def converted(x: Array, dtype: Any, weak_type: bool) -> Array:
    """`x` of another type. A number made while tracing is converted immediately, so that the
    program shows its converted form; a user's array is a constant of the program.
    """
    params = {"new_dtype": dtype, "weak_type": weak_type, "sharding": None}
    # Arrays, tracers and eager code: one operation.
    if traces.is_base() or not traces.state.trace.has_adopted(x):
        return convert_element_type_p.bind(x, **params)
    with traces.base_trace():
        number = convert_element_type_p.bind(x, **params)
    # The trace around has to know the constant, which was made outside of it.
    traces.state.trace.adopt(number)
    return number


def _to_array(x: Any, wanted: Any) -> Array:
    """Any value as an Array, converted to `wanted` on the host where that is cheaper."""
    if isinstance(x, Array):
        return stage_p.bind(x) if x.bare else x
    # JAX's protocol for objects that convert to an array.
    if not isinstance(x, type) and hasattr(x, "__jax_array__"):
        return _to_array(x.__jax_array__(), wanted)
    # np.float64 is a Python float, but strongly typed: it is treated as a NumPy value.
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        # Without a dtype a Python scalar is weakly typed.
        x = plain_scalar(x)
        return from_host(x) if wanted is None else _owned(_of_python(x, wanted))
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, wanted)
    if x is None:
        raise ValueError(_MISSING)
    value = _numeric(x)
    # Converted on the host where that costs no second copy.
    if isinstance(value, Array):
        return value
    if wanted is None:
        return traces.immutable(value) if value.ndim else from_host(value)
    # No conversion, but the memory may be the caller's: `own` copies it.
    if value.dtype == wanted:
        return from_host(value, ShapedArray(value.shape, wanted))
    with np.errstate(all="ignore"):
        return _owned(value.astype(wanted))


def _owned(value: np.ndarray) -> Array:
    """An Array of memory that was made for it, in the dtype that it has."""
    return from_host(value, ShapedArray(value.shape, value.dtype), copy=False)


def plain_scalar(x: Any) -> Any:
    """A Python scalar as itself: enums and other subclasses as the number they are."""
    if type(x) in _PYTHON:
        return x
    # In this order, since a bool is an int to Python.
    kinds: tuple[Any, ...] = (bool, int, float, complex)
    return next(kind(x) for kind in kinds if isinstance(x, kind))


_MISSING = "None is not a valid value for jnp.array: a number is missing"


def _from_sequence(xs: list | tuple, wanted: Any) -> Array:
    # Three kinds of lists: of Python numbers, of NumPy values, with Arrays among them.
    leaves = list(_leaves(xs))
    kinds = {type(x) for x in leaves}
    # Python numbers alone: the default types, as from one number.
    if kinds <= _PYTHON:
        # The dtype that all leaves promote to.
        if wanted is None:
            # Of no elements there is no type: the default float is taken, as NumPy does.
            wanted = promotion.result_type(*(kind() for kind in kinds)) if kinds else None
        return _owned(_of_python(xs, wanted or dtypes.default_float()))
    if any(x is None for x in leaves):
        raise ValueError(_MISSING)
    if wanted is None:
        leaves = [x if type(x) in _PYTHON or isinstance(x, Array) else _numeric(x) for x in leaves]
        types = {x.dtype for x in leaves if isinstance(x, Array)}
        # Random keys have no promotion rules, not even for equal dtypes: keys of one dtype are
        # stacked as they are.
        same_keys = len(types) == 1 and not isinstance(next(iter(types)), np.dtype)
        wanted = types.pop() if same_keys else promotion.result_type(*leaves)
    # Arrays are stacked on their device; all else is read by NumPy in one go.
    if any(isinstance(x, Array) for x in leaves) or any(hasattr(k, "__jax_array__") for k in kinds):
        return _stacked(xs, wanted)
    return _owned(_of_python(xs, wanted))


def numbers(xs: Any) -> np.ndarray | Array:
    """Numbers, maybe in lists, as one array: NumPy's where all are known, else one of ours."""
    if isinstance(xs, Array):
        return xs
    if isinstance(xs, (list, tuple)) and any(isinstance(x, traces.Tracer) for x in _leaves(xs)):
        return asarray(xs)
    return np.asarray(xs)


def _leaves(xs: Any):
    for x in xs:
        if isinstance(x, (list, tuple)):
            yield from _leaves(x)
        else:
            yield x


def _stacked(xs: Any, wanted: Any) -> Array:
    """Nested lists that hold Arrays: each level is a concatenation."""
    parts = [
        # One by one: an element may be an Array, a number, or an object with a conversion protocol.
        _stacked(x, wanted)
        if isinstance(x, (list, tuple))
        else as_type(_to_array(x, wanted), wanted)
        for x in xs
    ]
    if not parts:
        return _owned(np.zeros(0, wanted))
    return lax.concatenate([lax.expand_dims(p, (0,)) for p in parts], 0)


def _numeric(x: Any) -> np.ndarray | np.generic | Array:
    """A NumPy value (or an Array) of a numeric dtype; TypeError for other dtypes."""
    if not isinstance(x, type) and hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(MASKED)
    # Buffers, objects with __array__, pandas and the like.
    value = x if isinstance(x, np.generic) else np.asarray(x)
    if value.dtype == dtypes.float0:
        raise TypeError(FLOAT0)
    if value.dtype not in dtypes.OF_ARRAYS:
        raise no_dtype_of_arrays(x, value.dtype)
    return value


def _of_python(x: Any, wanted: Any) -> np.ndarray:
    """Scalars, in lists or alone, as the nearest values of a dtype; integers must fit."""
    with np.errstate(all="ignore"):
        # NumPy does not know the bounds of int4 and its kin.
        if dtypes.kind_of(wanted) in "iu" and wanted.type.__module__ != "numpy":
            wide = np.array(x, np.int64)
            out = wide.astype(wanted)
            if (out.astype(np.int64) != wide).any():
                raise OverflowError(f"Python integer out of bounds for {wanted.name}: got {x}")
            return out
        return np.array(x, wanted)


def aval_like(x: Any) -> ShapedArray:
    """Shape, dtype and weak type of anything that has a shape and a dtype, or is a scalar."""
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, Array):
        weak = bool(getattr(x, "weak_type", False))
        return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype, True), weak)
    return asarray(x).aval
