"""Inserting and removing elements: delete, insert, trim_zeros.

Floor 6. In: arrays, and positions along an axis. Out: arrays. Known positions become one gather;
traced ones are sorted, so that only their number has to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.dims import Dim
from gpuarray.core.value import Array
from gpuarray.lax.lengths import typed
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.indexer import known_value, wrapped
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.joining import concatenate
from gpuarray.numpy.operands import array, need_concrete
from gpuarray.numpy.shapes import add_axes, ravel, stretch
from gpuarray.primitives.indexing.ops import machine_integers
from gpuarray.util import canonical_axis


def delete(arr, obj, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """`arr` without the elements at `obj` (an int, a slice, positions or a mask) along an axis.

    Parameters
    ----------
    assume_unique_indices :
        The length of the result follows from the number of positions, so they may be traced.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.delete(gnp.arange(5), gnp.array([0, -1]))
    Array([1, 2, 3], dtype=int32)
    """
    arr = array("delete", arr)
    if not isinstance(obj, slice):
        obj = _checked_position("delete", obj)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim)
    n = arr.shape[axis]
    lead = (slice(None),) * axis
    if isinstance(obj, slice):
        # NumPy deletes among the positions, which are known; one gather keeps the rest.
        keep = np.delete(np.arange(n, dtype=np.int32), obj)
        return getitem(arr, (*lead, keep))
    value = known_value(obj)
    if value is None:
        if assume_unique_indices and obj.dtype != np.bool_:
            return _delete_traced(arr, obj, axis)
        need_concrete(
            obj,
            "the `obj` argument of jnp.delete(). Its values decide the length of the result; with "
            "distinct positions, pass assume_unique_indices=True",
        )
    if value.dtype == np.bool_ and value.shape != (n,):
        raise ValueError(
            "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with length "
            f"matching specified axis. Got shape {value.shape} for an axis of length {n}."
        )
    if value.ndim == 0:
        # One position: the parts before and after it are slices, cheaper than a gather.
        at = canonical_axis_of(int(value), n)
        return concatenate(
            [getitem(arr, (*lead, slice(0, at))), getitem(arr, (*lead, slice(at + 1, None)))], axis
        )
    if value.dtype != np.bool_:
        value = machine_integers(value)
    keep = np.delete(np.arange(n, dtype=np.int32), value)
    return getitem(arr, (*lead, keep))


def canonical_axis_of(position: int, n: int) -> int:
    """A position along an axis of length n, counted from the start."""
    if not -n <= position < n:
        raise ValueError(f"axis {position} is out of bounds for array of dimension {n}")
    return position + n if position < 0 else position


def _checked_position(name: str, obj) -> Any:
    if hasattr(obj, "__jax_array__"):
        obj = obj.__jax_array__()
    if isinstance(obj, (list, tuple)):
        # Lists are refused, as everywhere in the namespace.
        array(name, obj)
    dtype = getattr(obj, "dtype", None) or np.asarray(obj).dtype
    if dtype != np.bool_ and not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"np.{name}(arr, obj): got obj.dtype={dtype}; must be integer or bool.")
    return obj


def _delete_traced(arr: Array, obj: Array, axis: int) -> Array:
    n = arr.shape[axis]
    gone = lax.full((n,), 0, np.int32).at[ravel(obj)].set(1)
    # Stable: remaining elements come first, in their order.
    order = lax.sort_key_val(gone, lax.iota(np.int32, n))[1]
    keep = getitem(order, slice(0, n - obj.size))
    return getitem(arr, (slice(None),) * axis + (keep,))


def insert(arr, obj, values, axis: int | None = None) -> Array:
    """`arr` with `values` put in before the positions `obj` along an axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.insert(gnp.arange(3), gnp.array([1, 3]), gnp.array([8, 9]))
    Array([0, 8, 1, 2, 9], dtype=int32)
    """
    arr = array("insert", arr)
    values = array("insert", values)
    if not isinstance(obj, slice):
        array("insert", obj)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim)
    n = arr.shape[axis]
    where: Any = np.arange(*obj.indices(n)) if isinstance(obj, slice) else array("insert", obj)
    if not dtypes.issubdtype(where.dtype, np.integer):
        raise ValueError(f"jnp.insert(): index array must be integer typed; got {obj}")
    if where.ndim > 1:
        raise ValueError(
            f"jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar; got {obj}"
        )
    values = _values_to_insert(values, arr, where, axis)
    count = values.shape[axis]
    known = known_value(where)
    if known is not None and type(n) is not Dim:
        # As NumPy: negative positions count from the end, others are moved to the ends.
        known = machine_integers(known)  # which hold the length
        known = np.clip(np.where(known < 0, known + n, known), 0, n)
        positions = np.broadcast_to(known, (count,))
        # New values are numbered after the old ones; NumPy orders the numbers.
        order = np.insert(np.arange(n), positions, np.arange(n, n + count)).astype(np.int32)
        both = lax.concatenate([arr, values], axis)
        return getitem(both, (slice(None),) * axis + (order,))
    where = lax.clamp(
        np.int32(0),
        lax.convert_element_type(wrapped(where, n), np.int32),
        typed(n, np.dtype(np.int32)),
    )
    return _insert_traced(arr, stretch(where, (count,)), values, axis)


def _values_to_insert(values: Array, arr: Array, where, axis: int) -> Array:
    """`values` in the dtype of `arr`, with as many entries along `axis` as will be inserted."""
    values = lax.convert_element_type(values, arr.dtype)
    if values.ndim < arr.ndim:
        values = add_axes(values, range(arr.ndim - values.ndim))
    if where.ndim == 0:
        # One position: the first axis of the values is moved to `axis`, as in NumPy.
        values = moveaxis(values, 0, axis)
        count = values.shape[axis]
    else:
        count = where.shape[0] if where.shape[0] != 1 else values.shape[axis]
    target = list(arr.shape)
    target[axis] = count
    return stretch(values, tuple(target))


def _insert_traced(arr: Array, where: Array, values: Array, axis: int) -> Array:
    """Every element's place in the result: how many come before it, then one sort."""
    n, count = arr.shape[axis], where.shape[0]
    # Old element i sorts as 2i+1, a new one at position p as 2p: new ones first, each kind in its
    # order.
    old = lax.add(lax.mul(lax.iota(np.int32, n), np.int32(2)), np.int32(1))
    keys = lax.concatenate([old, lax.mul(where, np.int32(2))], 0)
    order = lax.sort_key_val(keys, lax.iota(np.int32, n + count))[1]
    return getitem(lax.concatenate([arr, values], axis), (slice(None),) * axis + (order,))


def trim_zeros(filt, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """`filt` without zeros at the front ("f") and the back ("b") of its axes.

    >>> import gpuarray.numpy as gnp
    >>> gnp.trim_zeros(gnp.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    filt = array("trim_zeros", filt)
    value = known_value(filt)
    if value is None:
        need_concrete(filt, "the `filt` argument of trim_zeros()")
    if not isinstance(trim, str):
        raise TypeError(f"trim_zeros: trim is 'f', 'b' or 'fb', got {trim!r}")
    axes = range(filt.ndim) if axis is None else np.atleast_1d(axis)
    index: list[Any] = [slice(None)] * filt.ndim
    # Which elements are left is a shape, so it is decided on the host.
    places = np.nonzero(np.atleast_1d(value))
    for i in axes:
        ax = canonical_axis(i, filt.ndim)
        n = filt.shape[ax]
        first, last = (
            (int(places[ax].min()), int(places[ax].max()) + 1) if places[ax].size else (n, n)
        )
        front = first if "f" in trim.lower() else 0
        # All zeros: if trimmed at the back, nothing remains.
        back = n if "b" not in trim.lower() else last if places[ax].size else 0
        index[ax] = slice(front, back)
    return getitem(filt, tuple(index))
