"""Putting arrays together and taking them apart: concatenate, stack, split, repeat, insert, delete.

Floor 6. In: arrays, and how many pieces or copies. Out: arrays; a sequence of arrays is promoted to
one dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import Dim
from gpuarray.core.layout import out_given
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape
from gpuarray.lax.lengths import typed
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.indexer import known_value, wrapped
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.operands import array, arrays, need_concrete, no_out, promoted
from gpuarray.numpy.shapes import (
    add_axes,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    ravel,
    reshape,
    stretch,
)
from gpuarray.primitives.movement.ops import stack_p, unstack_p
from gpuarray.runtime.memory import accounted
from gpuarray.runtime.transfer import placed
from gpuarray.util import canonical_axis

# ---- joining --------------------------------------------------------------------------------


def concatenate(arrays, axis: int | None = 0, dtype=None) -> Array:
    """Arrays joined along an axis they have; axis=None joins them flattened.

    (…, n1, …), (…, n2, …), … -> (…, n1 + n2 + …, …)

    >>> import gpuarray.numpy as gnp
    >>> gnp.concatenate([gnp.arange(2), gnp.array([7.])])
    Array([0., 1., 7.], dtype=float32)
    """
    # The rows of one array end to end: a reshape.
    if isinstance(arrays, Array) and axis == 0 and arrays.ndim > 1 and dtype is None:
        return reshape(arrays, (arrays.shape[0] * arrays.shape[1], *arrays.shape[2:]))
    parts = _parts("concatenate", arrays, dtype)
    # Flattened first, as in NumPy.
    if axis is None:
        return lax.concatenate([ravel(p) for p in parts], 0)
    if parts[0].ndim == 0:
        raise ValueError(
            "Zero-dimensional arrays cannot be concatenated. Use stack, which makes a new axis."
        )
    axis = canonical_axis(axis, parts[0].ndim)
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis)


def _parts(name: str, sequence, dtype) -> list[Array]:
    """The arrays of a sequence, in one dtype."""
    parts = list(unstack(sequence) if isinstance(sequence, Array) else sequence)
    if not parts:
        raise ValueError(f"Need at least one array to {name}.")
    if dtype is None:
        return promoted(name, *parts)
    target = dtypes.requested_dtype(dtype, name)
    return [lax.convert_element_type(p, target) for p in arrays(name, *parts)]


def concat(arrays, /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis they have.

    >>> import gpuarray.numpy as gnp
    >>> gnp.concat([gnp.arange(2), gnp.arange(1)])
    Array([0, 1, 0], dtype=int32)
    """
    return concatenate(arrays, axis=axis)


def stack(arrays, axis: int = 0, out=None, dtype=None) -> Array:
    """Arrays of one shape joined along a new axis.

    k arrays of shape (…) -> (…, k, …), with k at position `axis`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.stack([gnp.arange(2), gnp.arange(2)], axis=1)
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    no_out("stack", out)
    # An array is the stack of its rows already.
    if isinstance(arrays, Array) and arrays.ndim and arrays.shape[0]:
        wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "stack")
        found = arrays if wanted is None else lax.convert_element_type(arrays, wanted)
        return moveaxis(found, 0, axis)
    parts = _parts("stack", arrays, dtype)
    if len({p.ndim for p in parts}) > 1:
        listed = ", ".join(str(p.shape) for p in parts)
        raise ValueError(f"Cannot stack arrays with different numbers of dimensions: got {listed}.")
    return stack_p.bind(*parts, axis=canonical_axis(axis, parts[0].ndim + 1))


def unstack(x, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The pieces of `x` along an axis, which they do not have any more.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unstack(gnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = array("unstack", x)
    axis = canonical_axis(axis, x.ndim)
    # No pieces: the primitive has at least one result.
    if x.shape[axis] == 0:
        return ()
    return tuple(unstack_p.bind(x, axis=axis))


def hstack(tup, dtype=None) -> Array:
    """Arrays joined side by side: along axis 1, or axis 0 where they have only one.

    >>> import gpuarray.numpy as gnp
    >>> gnp.hstack([gnp.arange(2), gnp.arange(3)])
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    parts = _at_least("hstack", atleast_1d, tup)
    return concatenate(parts, axis=0 if parts and parts[0].ndim == 1 else 1, dtype=dtype)


def vstack(tup, dtype=None) -> Array:
    """Arrays joined one under the other: along axis 0, rows being made of (n,) arrays.

    >>> import gpuarray.numpy as gnp
    >>> gnp.vstack([gnp.arange(2), gnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return concatenate(_at_least("vstack", atleast_2d, tup), axis=0, dtype=dtype)


def dstack(tup, dtype=None) -> Array:
    """Arrays joined along their third axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.dstack([gnp.arange(2), gnp.arange(2)]).shape
    (1, 2, 2)
    """
    return concatenate(_at_least("dstack", atleast_3d, tup), axis=2, dtype=dtype)


def column_stack(tup) -> Array:
    """Join (n,) arrays, as columns, and (n, k) arrays along the second axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.column_stack([gnp.arange(2), gnp.arange(2)])
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    parts = [
        add_axes(atleast_1d(p), (1,)) if p.ndim < 2 else p
        for p in arrays("column_stack", *_sequence(tup))
    ]
    return concatenate(parts, axis=1)


def _sequence(tup) -> Sequence:
    return unstack(tup) if isinstance(tup, Array) else tup


def _at_least(name: str, rank, tup) -> list[Array]:
    return [rank(p) for p in arrays(name, *_sequence(tup))]


def block(arrays) -> Array:
    """An array assembled from nested lists: the innermost ones are joined along the last axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.block([[gnp.ones((1, 2)), gnp.zeros((1, 1))], [gnp.zeros((1, 3))]])
    Array([[1., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    joined, _ = _block(arrays)
    return joined


def _block(item) -> tuple[Array, int]:
    if isinstance(item, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {item}. Use lists.")
    if not isinstance(item, list):
        return array("block", item), 0
    if not item:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    # From the inside out: a list is joined one axis further to the left than the lists in it.
    parts, depths = zip(*map(_block, item), strict=True)
    if len(set(depths)) > 1:
        raise ValueError("Mismatched list depths in jax.numpy.block")
    depth = depths[0] + 1
    rank = max(depth, *[p.ndim for p in parts])
    # NumPy's rule for `block`: missing axes are in front.
    parts = [add_axes(p, range(rank - p.ndim)) if p.ndim < rank else p for p in parts]
    return concatenate(parts, axis=-depth), depth


def append(arr, values, axis: int | None = None) -> Array:
    """`values` joined to the end of `arr`; both flattened when `axis` is None.

    >>> import gpuarray.numpy as gnp
    >>> gnp.append(gnp.arange(2), 7)
    Array([0, 1, 7], dtype=int32)
    """
    arr, values = arrays("append", arr, values)
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


# ---- splitting ------------------------------------------------------------------------------


def split(ary, indices_or_sections, axis: int = 0) -> list[Array]:
    """`ary` in equal parts, or cut at positions along an axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.split(gnp.arange(4), [1])
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis)


@accounted("array_split")
def array_split(ary, indices_or_sections, axis: int = 0) -> list[Array]:
    """`ary` in nearly equal parts (the first ones longer by one), or cut at positions.

    >>> import gpuarray.numpy as gnp
    >>> [len(p) for p in gnp.array_split(gnp.arange(7), 3)]
    [3, 2, 2]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def _known_cut(name: str, where: Any) -> Any:
    """A position, a number of parts or an array of positions; traced by `jvp` alone, its value."""
    if not isinstance(where, Tracer):
        return where
    known = known_value(where)
    if known is None:
        need_concrete(where, f"the `indices_or_sections` argument of {name}()")
    return known


def _split(name: str, ary, where: Any, axis: int) -> list[Array]:
    a = array(name, ary)
    axis = canonical_axis(axis, a.ndim)
    n = a.shape[axis]
    positions = bool(where.ndim) if hasattr(where, "ndim") else hasattr(where, "__iter__")
    if positions:
        # The lengths of the pieces are shapes, so the cuts have to be known.
        known = [_known_cut(name, w) for w in ([where] if isinstance(where, Array) else where)]
        cuts = [0, *(util.index(i) for i in (known[0] if isinstance(where, Array) else known)), n]
        sizes = [b - a for a, b in zip(cuts, cuts[1:], strict=False)]
    else:
        if isinstance(where, Dim):
            raise ValueError(
                f"jax.numpy.{name} with a symbolic number of sections is not supported: got "
                f"{where}. How many arrays there are has to be known; give the positions of cuts."
            )
        parts = int(_known_cut(name, where))
        if parts == 0:
            raise ZeroDivisionError(f"{name}: cannot make 0 parts")
        each, rest = divmod(n, parts)
        if rest and name != "array_split":
            raise ValueError(
                f"array split does not result in an equal division: rest is {rest} for {n} "
                f"elements in {parts} parts. Use array_split for unequal parts."
            )
        # NumPy's rule: the first `rest` pieces are longer by one.
        sizes = [each + 1] * rest + [each] * (parts - rest)
    if any(s < 0 for s in sizes):
        raise ValueError(
            f"Sizes passed to split must be nonnegative, got {sizes}: the positions have to ascend "
            f"from 0 to {n}"
        )
    return list(lax.split(a, sizes, axis=axis))


def vsplit(ary, indices_or_sections) -> list[Array]:
    """`ary` split along axis 0.

    >>> import gpuarray.numpy as gnp
    >>> [p.shape for p in gnp.vsplit(gnp.zeros((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def hsplit(ary, indices_or_sections) -> list[Array]:
    """`ary` split along axis 1, or axis 0 where it has only one.

    >>> import gpuarray.numpy as gnp
    >>> [p.shape for p in gnp.hsplit(gnp.zeros((4, 2)), 2)]
    [(4, 1), (4, 1)]
    """
    a = array("hsplit", ary)
    return _split("hsplit", a, indices_or_sections, 0 if a.ndim == 1 else 1)


def dsplit(ary, indices_or_sections) -> list[Array]:
    """`ary` split along axis 2.

    >>> import gpuarray.numpy as gnp
    >>> [p.shape for p in gnp.dsplit(gnp.zeros((1, 1, 4)), 2)]
    [(1, 1, 2), (1, 1, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


# ---- repeating ------------------------------------------------------------------------------


def tile(A, reps) -> Array:
    """`A` repeated as a whole, `reps[i]` times along axis i.

    >>> import gpuarray.numpy as gnp
    >>> gnp.tile(gnp.arange(2), (2, 2))
    Array([[0, 1, 0, 1],
           [0, 1, 0, 1]], dtype=int32)
    """
    a = array("tile", A)
    counts = canonicalize_shape(reps)
    if any(n < 0 for n in counts):
        raise ValueError(f"tile: repetitions must be nonnegative, got {counts}")
    rank = max(a.ndim, len(counts))
    # Missing axes and missing counts are ones, on the left.
    if rank > a.ndim:
        a = add_axes(a, range(rank - a.ndim))
    counts = (1,) * (rank - len(counts)) + counts
    return lax.tile(a, counts) if rank else a


@accounted("repeat")
def repeat(
    a,
    repeats,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding=None,
) -> Array:
    """Every element repeated in place: `repeats` times, or a number of times of its own.

    Parameters
    ----------
    axis :
        None repeats the flattened array.
    total_repeat_length :
        The length of the result, needed where `repeats` is traced; what is missing is filled with
        the last element.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.repeat(gnp.array([4, 5]), gnp.array([1, 3]))
    Array([4, 5, 5, 5], dtype=int32)
    """
    if out_sharding is not None:
        with out_given(out_sharding):
            out = repeat(a, repeats, axis, total_repeat_length=total_repeat_length)
        return placed("repeat", out, out_sharding)
    a = array("repeat", a)
    if not isinstance(repeats, (int, Dim)):
        repeats = array("repeat", repeats)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    n = a.shape[axis]
    if isinstance(repeats, Dim):
        if total_repeat_length is not None:
            raise ValueError(
                "jnp.repeat with a non-constant `repeats` is supported only without "
                f"total_repeat_length: got {repeats} and {total_repeat_length}"
            )
        return _repeat_all(a, repeats, axis)
    counts = repeats if isinstance(repeats, int) else known_value(repeats)
    if counts is None:
        if total_repeat_length is None:
            need_concrete(
                repeats,
                "jnp.repeat: the total number of repeats must be static. Give `repeats` as a "
                "static value, or pass a static value to `total_repeat_length`",
            )
        return _repeat_traced(a, repeats, axis, total_repeat_length)
    if not dtypes.issubdtype(np.asarray(counts).dtype, np.integer):
        raise TypeError(f"repeat needs integer repeats, got {repeats!r}")
    if np.any(np.asarray(counts) < 0):
        raise TypeError(f"repeat: every number of repeats must be nonnegative, got {repeats}")
    if np.size(counts) == 1 and total_repeat_length is None:
        return _repeat_all(a, int(np.asarray(counts).reshape(())), axis)
    if np.ndim(counts) > 1 or np.size(counts) not in (1, n):
        raise ValueError(
            f"operands could not be broadcast together: repeats of shape {np.shape(counts)} do not "
            f"fit axis {axis} of length {n}"
        )
    # Summed as Python integers, which do not overflow.
    total = np.sum(np.asarray(counts, object))
    made = total if total_repeat_length is None else util.index(total_repeat_length)
    ShapedArray((*a.shape[:axis], max(made, 0), *a.shape[axis + 1 :]), a.dtype)  # is it possible?
    # Different numbers: which element each place of the result comes from, known now.
    source = np.repeat(np.arange(n, dtype=np.int32), np.asarray(counts).reshape(-1))
    if total_repeat_length is not None:
        source = source[:total_repeat_length]
        missing = total_repeat_length - len(source)
        source = np.concatenate([source, np.full(missing, n - 1, np.int32)])
    return getitem(a, (slice(None),) * axis + (source,))


def _repeat_all(a: Array, times: Any, axis: int) -> Array:
    # One number for all: a new axis behind the repeated one, merged with it.
    spread = lax.broadcast_in_dim(
        a,
        (*a.shape[: axis + 1], times, *a.shape[axis + 1 :]),
        tuple(i for i in range(a.ndim + 1) if i != axis + 1),
    )
    return reshape(spread, (*a.shape[:axis], a.shape[axis] * times, *a.shape[axis + 1 :]))


def _repeat_traced(a: Array, repeats: Any, axis: int, total: int) -> Array:
    """Which element stands at each place: count the elements that begin at or before it."""
    n = a.shape[axis]
    if repeats.ndim > 1 or repeats.size not in (1, n):
        raise ValueError(f"repeats of shape {repeats.shape} do not fit axis {axis} of length {n}")
    counts = stretch(repeats, (n,))
    # Element i begins where the counts of all before it add up to.
    begins = lax.sub(lax.cumsum(counts), counts)
    # An element that is not repeated begins where the next one does: both marks add up, and the
    # running sum steps over it. Starts behind the end are dropped.
    marks = lax.full((total,), 0, np.int32).at[begins].add(1)
    return getitem(a, (slice(None),) * axis + (lax.sub(lax.cumsum(marks), np.int32(1)),))


def resize(a, new_shape) -> Array:
    """The elements of `a`, repeated or cut off to fill another shape.

    >>> import gpuarray.numpy as gnp
    >>> gnp.resize(gnp.arange(3), (2, 2))
    Array([[0, 1],
           [2, 0]], dtype=int32)
    """
    flat = ravel(array("resize", a))
    target = canonicalize_shape(new_shape)
    if any(n < 0 for n in target):
        raise ValueError(f"all elements of `new_shape` must be non-negative, got {target}")
    total = math.prod(target)
    if flat.size == 0 or total == 0:
        return lax.full(target, 0, flat.dtype)
    times = -(-total // flat.size)
    if times > 1:
        flat = tile(flat, times)
    return reshape(getitem(flat, slice(0, total)), target)


# ---- inserting and deleting -----------------------------------------------------------------


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
    # Stable: what stays comes first, in its order.
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
        known = np.clip(np.where(known < 0, known + n, known), 0, n)
        positions = np.broadcast_to(known, (count,))
        # New values are numbered behind the old ones; NumPy puts the numbers in order.
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
        # One position: the first axis of the values lies along `axis`, as NumPy has it.
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
        # All zeros: trimmed at the back, nothing is left.
        back = n if "b" not in trim.lower() else last if places[ax].size else 0
        index[ax] = slice(front, back)
    return getitem(filt, tuple(index))
