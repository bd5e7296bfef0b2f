"""Permuting axes, and reversing, rotating or rolling elements along them.

Floor 6. In: arrays. Out: the same elements in another arrangement: views, which cost no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.dims import Dim
from gpuarray.core.value import Array
from gpuarray.lax.lengths import typed
from gpuarray.lax.slicing import reaching
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import numbers
from gpuarray.numpy.operands import array, as_tuple
from gpuarray.numpy.shapes import ravel, reshape
from gpuarray.primitives.movement.ops import (
    rev_p,
    transpose_p,
)
from gpuarray.util import canonical_axes, canonical_axis

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
    """`axis` moved backwards until it precedes the axis `start`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.rollaxis(gnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = array("rollaxis", a)
    if not -a.ndim <= util.index(start) <= a.ndim:
        raise ValueError(f"start={start} must satisfy {-a.ndim}<=start<={a.ndim}")
    axis = canonical_axis(axis, a.ndim)
    start += a.ndim if start < 0 else 0
    # The axis goes before `start`, which moves down once the axis is removed.
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

    Parameters
    ----------
    axis :
        None rolls the flattened array; several axes may share one shift, or have one each.

    Examples
    --------

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
    if any(type(s) is Dim for s in as_tuple(shift)):  # half a symbolic length, say
        amounts = [typed(s, np.dtype(np.int32)) for s in as_tuple(shift)]
        shift = lax.concatenate([reshape(s, (1,)) for s in amounts], 0)
    shifts = numbers(shift)
    if not shifts.size:  # shift by nothing, along no axis: an empty list has no integer dtype
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
    amounts = np.broadcast_to(shifts, (len(axes),)).tolist()
    return _roll_known(a, shifts=tuple(amounts), axes=tuple(axes))


@composite(static=("shifts", "axes"), inline=True, eager=False, name="roll")
def _roll_known(a: Array, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    # Two slices, joined the other way round.
    for amount, ax in zip(shifts, axes, strict=True):
        n = a.shape[ax]
        move = amount % n if n else 0
        if move:
            tail = lax.slice_in_dim(a, n - move, n, axis=ax)
            a = lax.concatenate([tail, lax.slice_in_dim(a, 0, n - move, axis=ax)], ax)
    return a


def _roll_dynamic(a: Array, amount, axis: int) -> Array:
    n = a.shape[axis]
    if n == 0:
        return a
    amount = reaching(amount, 2 * n)
    length = typed(n, amount.dtype)
    left = lax.rem(amount, length)
    # rem has the sign of the shift.
    left = lax.select(lax.lt(left, amount.dtype.type(0)), lax.add(left, length), left)
    # Within two copies end to end, a window that starts `left` elements earlier.
    return lax.dynamic_slice_in_dim(lax.concatenate([a, a], axis), lax.sub(length, left), n, axis)
