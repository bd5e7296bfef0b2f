"""Creating arrays: of one value, ranges, uninitialised.

Floor 6. In: static shapes and dtypes, scalars, and arrays to imitate. Out: arrays, through the
primitives of `primitives.movement`; constants are made outside of all traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of, machine_int
from gpuarray.core.axes import typed_around
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape, dtype_of
from gpuarray.lax.args import operand as bindable
from gpuarray.lax.convert import host_constant
from gpuarray.lax.shapes import as_array
from gpuarray.primitives.collective.ops import pcast_p
from gpuarray.primitives.elementwise.convert import convert_element_type_p
from gpuarray.primitives.movement.generate import empty_p, iota_p, rng_uniform_p
from gpuarray.primitives.movement.ops import broadcast_in_dim_p
from gpuarray.primitives.random.ops import random_wrap_p
from gpuarray.runtime.transfer import placed, placed_like, sharding_like
from gpuarray.util import index


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, *, sharding=None) -> Array:
    """An array of `shape` with every element `fill_value`.

    Shapes: fill_value is a scalar, result `shape`; without `dtype` it is the fill value's.

    >>> from gpuarray import lax
    >>> lax.full((2,), 1, "int8")
    Array([1, 1], dtype=int8)
    """
    shape = canonicalize_shape(shape)
    if _any_shape(fill_value):
        raise TypeError(
            "full must be called with scalar fill_value, got fill_value.shape "
            f"{_any_shape(fill_value)}. Use broadcast_in_dim to repeat an array."
        )
    value = bindable("full", fill_value, 1)
    if dtype is not None:
        value = _as_scalar(value, dtypes.requested_dtype(dtype, "full"), False)
    # An array with a layout is never weakly typed.
    elif sharding is not None:
        value = _as_scalar(value, dtype_of(value), False)
    if shape:
        out = broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=None)
    else:
        out = as_array(value)
    return placed_like(out, sharding)


def _any_shape(x: Any) -> tuple[int, ...]:
    """The shape of anything NumPy can measure, without converting Arrays."""
    return x.shape if hasattr(x, "shape") else np.shape(x)


def _as_scalar(value: Any, dtype: Any, weak: bool) -> Any:
    """A scalar in a given dtype: converted here if it is concrete, by a primitive otherwise."""
    if type(value) is int and abs(value) >= 1 << 63 and dtypes.kind_of(dtype) in ("b", "c"):
        value = {"b": bool, "c": complex}[dtypes.kind_of(dtype)](value)  # no integer holds it
    own = aval_of(value)
    if own.dtype == dtype and own.weak_type == weak:
        return value
    # A number fills the words of a key.
    if isinstance(dtype, dtypes.KeyDtype) and not isinstance(own.dtype, dtypes.ExtendedDType):
        words = full(dtype.impl.key_shape, value, np.uint32)
        return random_wrap_p.bind(words, impl=dtype.impl)
    # Random keys do not convert to numbers, or to keys of another generator.
    if isinstance(dtype, dtypes.ExtendedDType) or isinstance(own.dtype, dtypes.ExtendedDType):
        rule = dtype.rule("full") if isinstance(dtype, dtypes.ExtendedDType) else None
        if own.dtype != dtype and rule is not None:
            return rule((), value, dtype)
        if own.dtype != dtype:
            raise TypeError(
                f"full cannot make {dtype.name} from a fill_value of dtype {own.dtype.name}: "
                "random keys are filled with a random key, others with a value of their dtype."
            )
        return value
    # A Python scalar is already weakly typed, if its dtype is the default one.
    if weak and not isinstance(value, Array):
        value = dtypes.scalar_type_of(np.zeros((), dtype))(value)
        if aval_of(value).dtype == dtype:
            return value
    # 64-bit values while x64 is off need an explicit aval.
    if not isinstance(value, Array) and dtypes.is_beyond(dtype):
        return traces.array_of(_constant(value, dtype), ShapedArray((), dtype, weak))
    # A traced value, and a weak type that no scalar carries, need an equation.
    if isinstance(value, Array) or weak:
        return convert_element_type_p.bind(value, new_dtype=dtype, weak_type=weak, sharding=None)
    return _constant(value, dtype)


def _constant(value: Any, dtype: Any) -> Any:
    """A concrete scalar in another dtype: integers wrap, floats saturate to integers."""
    kind = dtypes.kind_of(dtype)
    with np.errstate(all="ignore"):
        # Python's own conversion rounds once, from double precision.
        if kind == "f" and isinstance(value, (bool, int, float, complex)):
            return dtype.type(float(value))  # pyright: ignore[reportArgumentType]
        # Modulo 2^bits, as a cast in C: NumPy would raise an OverflowError.
        if kind in "iu" and isinstance(value, int):
            bits = dtypes.itemsize_bits(dtype)
            return np.array(machine_int(value) % (1 << bits), np.uint64).astype(dtype)[()]
        # All else as the primitive converts on NumPy, so that constants and arrays agree.
        return host_constant(value, dtype)[()]


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None, sharding=None
) -> Array:
    """An array like `x` in shape and dtype, where not given otherwise, filled with one value.

    Shapes: x [...], fill_value a scalar, result [...] or `shape`.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.full_like(gnp.array([1., 2.]), 3)
    Array([3., 3.], dtype=float32)
    """
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        dtypes.dtype(x)  # a list has none: TypeError
    own = dtypes.dtype(x) if not hasattr(x, "aval") else x.aval.dtype
    shape = _any_shape(x) if shape is None else canonicalize_shape(shape)
    if _any_shape(fill_value):
        return full(shape, fill_value)  # raises
    weak = dtype is None and dtypes.is_weakly_typed(x)
    target = own if dtype is None else dtypes.requested_dtype(dtype, "full_like")
    value = _as_scalar(bindable("full_like", fill_value, 1), target, weak)
    if sharding is None:
        sharding = sharding_like(x, shape)
    return varying_like(full(shape, value, sharding=sharding), x)


def varying_like(made: Any, x: Any) -> Any:
    """Return a value cast to vary between devices as `x` does."""
    return varying_along(made, getattr(getattr(x, "aval", None), "vma", frozenset()))


def varying_along(x: Any, names: frozenset) -> Any:
    """Return a value cast to vary along these axes, where types record that."""
    if not names:
        return x
    lacking = tuple(sorted(typed_around(names) - aval_of(x).vma, key=str))
    return pcast_p.bind(x, axis_name=lacking) if lacking else x


def iota(dtype: Any, size: int) -> Array:
    """The numbers 0, 1, ..., size - 1.

    Shapes: result [size].

    >>> from gpuarray import lax
    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(
    dtype: Any, shape: Sequence[int], dimension: int, *, out_sharding=None
) -> Array:
    """An array whose elements are their own index along `dimension`.

    Shapes: result `shape`.

    >>> from gpuarray import lax
    >>> lax.broadcasted_iota("int32", (2, 2), 1)
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    out = iota_p.bind(
        dtype=dtypes.requested_dtype(dtype, "iota"),
        shape=canonicalize_shape(shape),
        dimension=index(dimension),
        sharding=None,
    )
    return placed("broadcasted_iota", out, out_sharding)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding=None) -> Array:
    """An array of unspecified values (in fact zeros, so that programs are deterministic).

    Shapes: result `shape`.

    >>> from gpuarray import lax
    >>> lax.empty((2, 3), "float32").shape
    (2, 3)
    """
    out = empty_p.bind(
        shape=canonicalize_shape(shape),
        dtype=dtypes.requested_dtype(dtype, "empty"),
        out_sharding=None,
    )
    return placed("empty", out, out_sharding)


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Array:
    """Numbers drawn uniformly from [a, b) by the device's own generator; prefer `gpuarray.random`.

    Shapes: a and b are scalars of one dtype, result `shape`.

    >>> from gpuarray import lax
    >>> lax.rng_uniform(0., 1., (4,)).shape
    (4,)
    """
    a, b = bindable("rng_uniform", a), bindable("rng_uniform", b, 1)
    return rng_uniform_p.bind(a, b, shape=canonicalize_shape(shape))
