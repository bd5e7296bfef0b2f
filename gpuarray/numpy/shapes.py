"""Shapes of arrays: reshaping, adding axes, broadcasting, other views of the same memory.

Floor 6. In: arrays. Out: the same elements in another arrangement; nearly all of it is views, which
cost no kernel.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.dims import Dim
from gpuarray.core.layout import out_given
from gpuarray.core.trace import full_width
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape
from gpuarray.numpy.operands import array, arrays, as_tuple
from gpuarray.primitives.elementwise.arithmetic import copy_p
from gpuarray.primitives.movement.ops import (
    broadcast_in_dim_p,
    reshape_p,
    squeeze_p,
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

    Parameters
    ----------
    shape :
        New shape, of the same size; one length may be -1 and follows from the others.
    copy :
        True returns a new Array even for the same shape.

    Examples
    --------

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
        if Dim in map(type, a.shape):
            raise ValueError(
                "jnp.squeeze with axis=None is not supported with shape polymorphism: which axes "
                f"of {a.shape} have length 1 is not known. Name them."
            )
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
    x, extra = full_width(x), len(shape) - len(given)
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
        # The parts of each element form a new last axis, which is merged with the old one.
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
