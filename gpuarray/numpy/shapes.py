"""Shapes of arrays: reshaping, moving and adding axes, broadcasting, turning.

Floor 6. In: arrays. Out: the same elements in another arrangement; nearly all of it is views, which
cost no kernel.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import out_given
from gpuarray.core.trace import kept
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape
from gpuarray.lax.slicing import reaching
from gpuarray.numpy.operands import array, arrays, as_tuple
from gpuarray.primitives.elementwise.arithmetic import copy_p
from gpuarray.primitives.movement.ops import (
    broadcast_in_dim_p,
    reshape_p,
    rev_p,
    squeeze_p,
    transpose_p,
)
from gpuarray.primitives.sums import check_same
from gpuarray.runtime.transfer import placed
from gpuarray.util import canonical_axes, canonical_axis


def shape(a) -> tuple[int, ...]:
    """The length of every axis of an array, as a tuple.

    >>> import gpuarray.numpy as gnp
    >>> gnp.shape(gnp.zeros((2, 3)))
    (2, 3)
    """
    return _shape("shape", a)


def _shape(name: str, a: Any) -> tuple[int, ...]:
    if hasattr(a, "shape"):
        return a.shape
    if hasattr(a, "__jax_array__"):
        return _shape(name, a.__jax_array__())
    if isinstance(a, (list, tuple)):
        warnings.warn(
            f"{name} requires ndarray or scalar arguments, got {type(a)} at position 0. In a "
            "future JAX release this will be an error: give an array.",
            DeprecationWarning,
            stacklevel=3,
        )
    return np.shape(a)


def ndim(a) -> int:
    """The number of axes of an array.

    >>> import gpuarray.numpy as gnp
    >>> gnp.ndim(gnp.zeros((2, 3)))
    2
    """
    return len(_shape("ndim", a))


def size(a, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, in all or along some axes.

    >>> import gpuarray.numpy as gnp
    >>> gnp.size(gnp.zeros((2, 3))), gnp.size(gnp.zeros((2, 3)), axis=1)
    (6, 3)
    """
    lengths = _shape("size", a)
    return math.prod(lengths[i] for i in canonical_axes(axis, len(lengths)))


def iterable(y) -> bool:
    """Whether `y` can be iterated over.

    >>> import gpuarray.numpy as gnp
    >>> gnp.iterable([1]), gnp.iterable(1)
    (True, False)
    """
    return np.iterable(y)


# ---- reshaping ------------------------------------------------------------------------------


def reshape(a, shape, order: str = "C", *, copy: bool | None = None, out_sharding=None) -> Array:
    """The elements of `a` in row-major order (column-major with order="F"), in another shape.

    shape: (…) -> shape, of the same size; one length may be -1 and is worked out. copy: True gives
    a new Array even for the same shape.

    >>> import gpuarray.numpy as gnp
    >>> gnp.reshape(gnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if out_sharding is not None:
        check_same(aval_of(a), "reshape", out_sharding)
        with out_given(out_sharding):
            return placed("reshape", reshape(a, shape, order, copy=copy), out_sharding)
    a = array("reshape", a)
    # The hot path: the aval is there, a property is not asked.
    given = a.aval.shape
    sizes = _target_shape(given, shape)
    if order == "C":
        if sizes == given:
            return copy_p.bind(a) if copy else a
        return reshape_p.bind(a, new_sizes=sizes, dimensions=None, sharding=None)
    if order == "F":
        # Column-major is row-major of the reversed axes.
        turned = lax.reshape(a, sizes[::-1], tuple(range(a.ndim))[::-1])
        return lax.transpose(turned, tuple(range(len(sizes)))[::-1])
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented. Use 'C' or 'F'.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}. Use 'C' or 'F'.")


def _target_shape(given: tuple[int, ...], shape) -> tuple[int, ...]:
    total = math.prod(given)
    sizes = canonicalize_shape(shape)
    # One length may follow from the others.
    if -1 in sizes:
        rest = [n for n in sizes if n != -1]
        if len(rest) < len(sizes) - 1:
            raise TypeError(
                f"can only specify one unknown axis size with a `-1` value, got {sizes}"
            )
        known = math.prod(rest)
        if known == 0:
            raise ZeroDivisionError(
                f"cannot reshape array of shape {given} into shape {sizes}: with a length of 0 the "
                "length written as -1 could be anything. Write it out."
            )
        if total % known:
            raise TypeError(
                f"cannot reshape array of shape {given} (size {total}) into shape {sizes} because "
                f"the product of specified axis sizes ({known}) does not evenly divide {total}"
            )
        return tuple([total // known if n == -1 else n for n in sizes])
    if math.prod(sizes) != total or any(n < 0 for n in sizes):
        raise TypeError(
            f"cannot reshape array of shape {given} (size {total}) into shape {sizes} (size "
            f"{math.prod(sizes)})"
        )
    return sizes


def ravel(a, order: str = "C", *, out_sharding=None) -> Array:
    """The elements of `a` along one axis: (…) -> (size,).

    >>> import gpuarray.numpy as gnp
    >>> gnp.ravel(gnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    a = array("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'. Use 'C' or 'F'.")
    return reshape(a, (a.size,), order, out_sharding=out_sharding)


def squeeze(a, axis: int | Sequence[int] | None = None) -> Array:
    """`a` without axes of length 1, all of them or those in `axis`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.squeeze(gnp.zeros((1, 3, 1))).shape
    (3,)
    """
    a = array("squeeze", a)
    if axis is None:
        drop = tuple([i for i, n in enumerate(a.shape) if n == 1])
    else:
        drop = tuple([canonical_axis(i, a.ndim) for i in as_tuple(axis)])
        if len(set(drop)) != len(drop):
            raise ValueError(f"dimensions are not unique: {drop}")
    return squeeze_p.bind(a, dimensions=tuple(sorted(drop))) if drop else a


def expand_dims(a, axis: int | Sequence[int]) -> Array:
    """`a` with new axes of length 1 at the positions `axis` of the result.

    >>> import gpuarray.numpy as gnp
    >>> gnp.expand_dims(gnp.zeros(3), (0, -1)).shape
    (1, 3, 1)
    """
    a = array("expand_dims", a)
    given = as_tuple(axis)
    new = [canonical_axis(i, a.ndim + len(given)) for i in given]
    if len(set(new)) != len(new):
        raise ValueError(f"repeated axis in expand_dims: {given}")
    return add_axes(a, new) if new else a


def add_axes(x: Array, new: Sequence[int]) -> Array:
    """`x` with axes of length 1 at the (non-negative) positions `new` of the result."""
    lengths = x.aval.shape
    total = len(lengths) + len(new)
    kept = tuple([i for i in range(total) if i not in new])
    out = [1] * total
    for i, n in zip(kept, lengths, strict=True):
        out[i] = n
    return broadcast_in_dim_p.bind(x, shape=tuple(out), broadcast_dimensions=kept, sharding=None)


def _at_least(name: str, rank, arys: tuple):
    found = [rank(a) for a in arrays(name, *arys)]
    return found[0] if len(found) == 1 else found


def atleast_1d(*arys) -> Any:
    """Arrays with at least one axis: () -> (1,). One array gives an array, several a list.

    >>> import gpuarray.numpy as gnp
    >>> gnp.atleast_1d(5)
    Array([5], dtype=int32, weak_type=True)
    """
    return _at_least("atleast_1d", lambda a: a if a.ndim else add_axes(a, (0,)), arys)


def atleast_2d(*arys) -> Any:
    """Arrays with at least two axes: (n,) -> (1, n). One array gives an array, several a list.

    >>> import gpuarray.numpy as gnp
    >>> gnp.atleast_2d(gnp.zeros(3)).shape
    (1, 3)
    """
    return _at_least(
        "atleast_2d", lambda a: a if a.ndim >= 2 else add_axes(a, range(2 - a.ndim)), arys
    )


def atleast_3d(*arys) -> Any:
    """Arrays with at least three axes: (n,) -> (1, n, 1), (m, n) -> (m, n, 1).

    >>> import gpuarray.numpy as gnp
    >>> gnp.atleast_3d(gnp.zeros(3)).shape
    (1, 3, 1)
    """
    # NumPy's places: a row becomes a plane with it in the middle.
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _at_least("atleast_3d", lambda a: a if a.ndim >= 3 else add_axes(a, new[a.ndim]), arys)


# ---- the order of axes ----------------------------------------------------------------------


def transpose(a, axes: Sequence[int] | None = None) -> Array:
    """`a` with its axes permuted; reversed when `axes` is None.

    >>> import gpuarray.numpy as gnp
    >>> gnp.transpose(gnp.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = array("transpose", a)
    rank = a.aval.ndim
    if axes is None:
        order = tuple(range(rank - 1, -1, -1))
    else:
        order = tuple([canonical_axis(i, rank) for i in util.elements(axes, "a sequence of axes")])
    # Nothing to permute: no operation.
    if order == tuple(range(rank)):
        return a
    return transpose_p.bind(a, permutation=order)


def permute_dims(a, /, axes: Sequence[int]) -> Array:
    """`a` with its axes permuted; negative ones count from the end, as the array API has it.

    >>> import gpuarray.numpy as gnp
    >>> gnp.permute_dims(gnp.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    a = array("permute_dims", a)
    return lax.transpose(a, tuple(i + a.ndim if -a.ndim <= i < 0 else i for i in axes))


def matrix_transpose(x, /) -> Array:
    """The last two axes swapped: (…, m, n) -> (…, n, m).

    >>> import gpuarray.numpy as gnp
    >>> gnp.matrix_transpose(gnp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = array("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={x.ndim}"
        )
    lead = tuple(range(x.ndim - 2))
    return transpose_p.bind(x, permutation=(*lead, x.ndim - 1, x.ndim - 2))


def swapaxes(a, axis1: int, axis2: int) -> Array:
    """Two axes of `a` exchanged.

    >>> import gpuarray.numpy as gnp
    >>> gnp.swapaxes(gnp.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = array("swapaxes", a)
    order = list(range(a.ndim))
    i, j = canonical_axis(axis1, a.ndim), canonical_axis(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(a, order)


def moveaxis(a, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes `source` of `a` moved to the positions `destination`; the others keep their order.

    >>> import gpuarray.numpy as gnp
    >>> gnp.moveaxis(gnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = array("moveaxis", a)
    sources = [canonical_axis(i, a.ndim) for i in as_tuple(source)]
    targets = [canonical_axis(i, a.ndim) for i in as_tuple(destination)]
    if len(sources) != len(targets):
        raise ValueError(
            f"Inconsistent number of elements: {len(sources)} vs {len(targets)}. moveaxis needs "
            "one destination for each source axis."
        )
    order = [i for i in range(a.ndim) if i not in sources]
    # In the order of their targets, so that an insertion moves no earlier one.
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return transpose(a, order)


def rollaxis(a, axis: int, start: int = 0) -> Array:
    """`axis` moved back until it lies before the axis `start`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.rollaxis(gnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = array("rollaxis", a)
    if not -a.ndim <= util.index(start) <= a.ndim:
        raise ValueError(f"start={start} must satisfy {-a.ndim}<=start<={a.ndim}")
    axis = canonical_axis(axis, a.ndim)
    start += a.ndim if start < 0 else 0
    # The axis goes before `start`, which moves down once it is taken out.
    return moveaxis(a, axis, start - 1 if start > axis else start)


# ---- reversing and turning ------------------------------------------------------------------


def flip(m, axis: int | Sequence[int] | None = None) -> Array:
    """The elements in reversed order along some axes, all of them when `axis` is None.

    >>> import gpuarray.numpy as gnp
    >>> gnp.flip(gnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    m = array("flip", m)
    return rev_p.bind(m, dimensions=canonical_axes(axis, m.ndim))


def fliplr(m) -> Array:
    """The columns in reversed order: `flip` along axis 1.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fliplr(gnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(array("fliplr", m), 1)


def flipud(m) -> Array:
    """The rows in reversed order: `flip` along axis 0.

    >>> import gpuarray.numpy as gnp
    >>> gnp.flipud(gnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(array("flipud", m), 0)


def rot90(m, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate `m` by k quarter turns in the plane of two axes, from the first towards the second.

    >>> import gpuarray.numpy as gnp
    >>> gnp.rot90(gnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    m = array("rot90", m)
    if m.ndim < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {m.shape}, which has ndim {m.ndim}"
        )
    first, second = (canonical_axis(i, m.ndim) for i in util.pair(axes, "a pair of axes"))
    if first == second:
        raise ValueError("Axes must be different")
    # A quarter turn is a flip and a transpose.
    turns = util.index(k) % 4
    if turns == 0:
        return m
    if turns == 2:
        return flip(m, (first, second))
    if turns == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


def roll(a, shift, axis: int | Sequence[int] | None = None) -> Array:
    """The elements moved along by `shift`, those pushed out coming in on the other side.

    axis: None rolls the flattened array; several axes may share one shift, or have one each.

    >>> import gpuarray.numpy as gnp
    >>> gnp.roll(gnp.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    a = array("roll", a)
    # Rolled as if flat.
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = [canonical_axis(i, a.ndim) for i in as_tuple(axis)]
    if isinstance(shift, int) and len(axes) == 1:
        shift = shift % max(a.shape[axes[0]], 1)  # however large it is
    own = getattr(shift, "__jax_array__", None)  # of an array of the user's
    shift = shift if own is None else own()
    shifts = shift if isinstance(shift, (Array, np.ndarray)) else np.asarray(shift)
    if not shifts.size:  # by nothing, along no axis: no list of integers says that it is one
        shifts = np.asarray(shifts, np.int32)
    if not dtypes.issubdtype(shifts.dtype, np.integer):
        raise TypeError(f"roll needs an integer shift, got {shift!r} of dtype {shifts.dtype}")
    # Several shifts along one axis add up.
    if shifts.ndim == 1 and len(axes) == 1:
        axes = axes * shifts.shape[0]
    if shifts.ndim > 1 or (shifts.ndim == 1 and shifts.shape[0] not in (1, len(axes))):
        raise ValueError(
            "shape mismatch: objects cannot be broadcast to a single shape: the shifts have shape "
            f"{shifts.shape}, the axes are {tuple(axes)}. Give one shift for each axis."
        )
    # A traced shift is a dynamic slice of the array twice over.
    if isinstance(shifts, Array):
        amounts = lax.broadcast_in_dim(shifts, (len(axes),), (0,) if shifts.ndim else ())
        for i, ax in enumerate(axes):
            a = _roll_dynamic(a, lax.index_in_dim(amounts, i, keepdims=False), ax)
        return a
    # A known shift is two slices, joined the other way round.
    for amount, ax in zip(np.broadcast_to(shifts, (len(axes),)), axes, strict=True):
        n = a.shape[ax]
        move = int(amount) % n if n else 0
        if move:
            tail = lax.slice_in_dim(a, n - move, n, axis=ax)
            a = lax.concatenate([tail, lax.slice_in_dim(a, 0, n - move, axis=ax)], ax)
    return a


def _roll_dynamic(a: Array, amount, axis: int) -> Array:
    n = a.shape[axis]
    if n == 0:
        return a
    amount = reaching(amount, 2 * n)
    length = amount.dtype.type(n)
    left = lax.rem(amount, length)
    # rem has the sign of the shift.
    left = lax.select(lax.lt(left, amount.dtype.type(0)), lax.add(left, length), left)
    # Within two copies end to end, a window that starts `left` elements earlier.
    return lax.dynamic_slice_in_dim(lax.concatenate([a, a], axis), lax.sub(length, left), n, axis)


# ---- broadcasting ---------------------------------------------------------------------------


def broadcast_shapes(*shapes) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together.

    >>> import gpuarray.numpy as gnp
    >>> gnp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [(s,) if isinstance(s, (int, np.integer)) else tuple(s) for s in shapes]
    rank = max([len(s) for s in given], default=0)
    out = []
    for lengths in zip(*((1,) * (rank - len(s)) + s for s in given), strict=True):
        # 1 stretches to any length, 0 included.
        others = {n for n in lengths if n != 1}
        if len(others) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={given}")
        out.append(others.pop() if others else 1)
    return tuple(out)


def broadcast_to(array, shape, *, out_sharding=None) -> Array:
    """`array` repeated along axes of length 1 and new leading axes until it has `shape`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.broadcast_to(gnp.arange(3), (2, 3))
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    with out_given(out_sharding):
        out = stretch(_array("broadcast_to", array), canonicalize_shape(shape))
    return out if out_sharding is None else placed("broadcast_to", out, out_sharding)


_array = array  # `broadcast_to` has an argument of that name


def stretch(x, shape: tuple[int, ...]):
    """A bindable value broadcast to `shape`; itself when it has that shape already."""
    given = aval_of(x).shape
    if given == shape:
        return x
    x, extra = kept(x), len(shape) - len(given)
    if extra < 0:
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={given} shape={shape}"
        )
    if any(n not in (1, m) for n, m in zip(given, shape[extra:], strict=True)):
        aval = aval_of(x)
        raise ValueError(
            f"Incompatible types for broadcasting: input type={aval.str_short()} and requested "
            f"type={aval.dtype.name}[{','.join(map(str, shape))}]"
        )
    return broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=tuple(range(extra, len(shape))), sharding=None
    )


def broadcast_arrays(*args) -> list[Array]:
    """All arrays, broadcast to the shape they have together.

    >>> import gpuarray.numpy as gnp
    >>> [x.shape for x in gnp.broadcast_arrays(gnp.zeros((2, 1)), gnp.zeros(3))]
    [(2, 3), (2, 3)]
    """
    found = arrays("broadcast_arrays", *args)
    target = broadcast_shapes(*[a.shape for a in found])
    return [stretch(a, target) for a in found]


# ---- the same memory ------------------------------------------------------------------------


def copy(a, order: str | None = None) -> Array:
    """A copy of `a`. Arrays are immutable, so this is seldom needed.

    >>> import gpuarray.numpy as gnp
    >>> gnp.copy(gnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    a = array("copy", a)
    if order not in (None, "K"):
        raise NotImplementedError(f"Only implemented for order='K', got order={order!r}")
    return copy_p.bind(a)


def view(a, dtype=None) -> Array:
    """The bytes of `a` read as another dtype; a different width changes the last axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.array([1., 2.]).view("int32")
    Array([1065353216, 1073741824], dtype=int32)
    """
    a = array("view", a)
    if dtype is None:
        return a
    target = dtypes.requested_dtype(dtype, "view")
    if target == a.dtype:
        return a
    if target == np.bool_:
        # Bytes as truth values: zero is False.
        return lax.ne(view(a, np.uint8), np.uint8(0))
    if a.dtype == np.bool_:
        return view(lax.convert_element_type(a, np.uint8), target)
    # In bits: int4 has no whole bytes.
    old, new = dtypes.itemsize_bits(a.dtype), dtypes.itemsize_bits(target)
    if not a.ndim and old != new:
        raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
    if dtypes.kind_of(a.dtype) == "c" or dtypes.kind_of(target) == "c":
        return _view_complex(a, target)
    if old == new:
        return lax.bitcast_convert_type(a, target)
    if new < old:
        # The parts of each element lie along a new last axis, which is merged with the old one.
        return _merge_last(lax.bitcast_convert_type(a, target))
    if a.shape[-1] % (new // old):
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            f"bytes of the last axis of the array. Got {a.shape[-1]} elements of {old} bits and "
            f"asked for {new} bits."
        )
    # Neighbouring elements are taken together as the parts of a wider one.
    parts = lax.reshape(a, (*a.shape[:-1], a.shape[-1] // (new // old), new // old))
    return lax.bitcast_convert_type(parts, target)


def byteswap(a) -> Array:
    """The bytes of each element in the opposite order, in the same dtype; a method of arrays.

    >>> import gpuarray.numpy as gnp
    >>> gnp.arange(3).byteswap()
    Array([       0, 16777216, 33554432], dtype=int32)
    """
    a = array("byteswap", a)
    if dtypes.kind_of(a.dtype) == "c":
        return lax.complex(byteswap(lax.real(a)), byteswap(lax.imag(a)))
    if a.dtype.itemsize == 1:
        return copy(a)
    # The bytes of each element along a new axis, reversed.
    pieces = lax.bitcast_convert_type(a, np.uint8)
    return lax.bitcast_convert_type(lax.rev(pieces, (a.ndim,)), a.dtype)


def _merge_last(x: Array) -> Array:
    return lax.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))


def _view_complex(a: Array, target) -> Array:
    """Complex elements are pairs of floats; other dtypes come by way of those."""
    if dtypes.kind_of(a.dtype) == "c":
        pairs = lax.concatenate(
            [add_axes(p, (a.ndim,)) for p in (lax.real(a), lax.imag(a))], a.ndim
        )
        return view(pairs if not a.ndim else _merge_last(pairs), target)
    # Pairs of floats of half the width.
    floats = view(a, dtypes.to_floating_dtype(target))
    if floats.shape[-1] % 2:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            f"bytes of the last axis of the array. Got {a.shape[-1]} elements of {a.dtype} and "
            f"asked for {target}."
        )
    pairs = lax.reshape(floats, (*floats.shape[:-1], floats.shape[-1] // 2, 2))
    last = pairs.ndim - 1
    return lax.complex(
        lax.index_in_dim(pairs, 0, last, keepdims=False),
        lax.index_in_dim(pairs, 1, last, keepdims=False),
    )
