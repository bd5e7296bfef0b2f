"""Joining and splitting arrays: concatenate, stack, split, repeat.

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
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.indexer import known_value
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
    """Arrays stacked vertically: joined along axis 0, with (n,) arrays as rows.

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
    """Repeat every element `repeats` times, one number or one for each element.

    Parameters
    ----------
    axis :
        None repeats the flattened array.
    total_repeat_length :
        The length of the result, needed if `repeats` is traced; missing elements are filled with
        the last one.

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
    # One number for all: a new axis after the repeated one, merged with it.
    spread = lax.broadcast_in_dim(
        a,
        (*a.shape[: axis + 1], times, *a.shape[axis + 1 :]),
        tuple(i for i in range(a.ndim + 1) if i != axis + 1),
    )
    return reshape(spread, (*a.shape[:axis], a.shape[axis] * times, *a.shape[axis + 1 :]))


def _repeat_traced(a: Array, repeats: Any, axis: int, total: int) -> Array:
    """The index of the element at each position: count the elements that begin at or before it."""
    n = a.shape[axis]
    if repeats.ndim > 1 or repeats.size not in (1, n):
        raise ValueError(f"repeats of shape {repeats.shape} do not fit axis {axis} of length {n}")
    counts = stretch(repeats, (n,))
    if counts.dtype.itemsize < 4:  # their sum is larger than each of them
        counts = lax.convert_element_type(counts, np.int32)
    # Element i begins where the counts of all before it add up to.
    begins = lax.sub(lax.cumsum(counts), counts)
    # An element that is not repeated begins where the next one does: both marks add up, and the
    # running sum steps over it. Starts past the end are dropped.
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
