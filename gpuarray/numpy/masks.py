"""Updates that combine old and new values elementwise, and updates under a boolean mask.

Floor 6. In: an array, an index with one mask among full slices, values. Out: the updated array, by
a select: no positions are needed, so the mask may be traced.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.promotion import convert
from gpuarray.numpy.shapes import stretch

# The same updates as elementwise operations.
POINTWISE = {
    "set": lambda x, y: y,
    "add": lax.add,
    "subtract": lax.sub,
    "multiply": lax.mul,
    "min": lax.min,
    "max": lax.max,
}


def as_values_of(values, x: Array):
    """`values` with the dtype and weak type of `x`."""
    aval = aval_of(values)
    # A scalar of NumPy's may be wider than its aval: 64 bits, while these are off.
    if getattr(values, "dtype", x.dtype) == x.dtype == aval.dtype:
        if aval.weak_type == x.weak_type:
            return values
    if isinstance(values, (complex, np.complexfloating)) and dtypes.kind_of(x.dtype) != "c":
        values = values.real  # as converting an array drops imaginary parts
    return convert(values, x.dtype, x.weak_type)


def in_common_dtype(x, values):
    """Both operands in the dtype they promote to."""
    a, b = aval_of(x), aval_of(values)
    if a is b:
        return x, values
    dtype, weak = promotion.promote2(a.dtype, a.weak_type, b.dtype, b.weak_type)
    return convert(x, dtype, weak), convert(values, dtype, weak)


def mask_of(x: Array, index) -> Array | None:
    """The boolean array of an index that is one mask among full slices; None for other indices."""
    entries = index if isinstance(index, tuple) else (index,)
    # Exactly one mask, and only full slices around it.
    masks = [e for e in entries if isinstance(e, Array) and e.dtype == np.bool_ and e.ndim]
    if len(masks) != 1:
        return None
    before = _mask_axis(x.ndim, entries)
    if before is None:
        return None
    mask = masks[0]
    if mask.shape != x.shape[before : before + mask.ndim]:
        return None  # the general way reports it
    return lax.broadcast_in_dim(mask, x.shape, tuple(range(before, before + mask.ndim)))


def _mask_axis(ndim: int, entries) -> int | None:
    """The first axis a mask among full slices applies to; None when other entries are around."""
    # The number of axes that the entries consume; an Ellipsis counts as none.
    taken = sum(e.ndim if isinstance(e, Array) else e is not Ellipsis for e in entries)
    if taken > ndim:
        return None  # the general way reports it
    axis = 0
    found = None
    for e in entries:
        if isinstance(e, Array):
            found = axis
            axis += e.ndim
        elif e is Ellipsis:
            axis += ndim - taken
        elif isinstance(e, slice) and e == slice(None):
            axis += 1
        else:
            return None
    return found


def aligned_with(values, given, shape: tuple[int, ...], index):
    """`values` with the axis that counts the selected elements spread over the mask's axes; None if
    it has such an axis.
    """
    entries = index if isinstance(index, tuple) else (index,)
    mask = next(e for e in entries if isinstance(e, Array))
    before = _mask_axis(len(shape), entries)
    assert before is not None
    after = len(shape) - before - mask.ndim
    # Values without an axis for the selected elements are the same for all of them.
    if len(given.shape) <= after:
        return values
    # An axis of length 1 there broadcasts; a longer one would need to know which element is which.
    count = len(given.shape) - after - 1  # the axis of selected elements
    if given.shape[count] != 1 or len(given.shape) > before + 1 + after:
        return None
    return lax.reshape(values, (*given.shape[:count], *[1] * mask.ndim, *given.shape[count + 1 :]))


def masked(x: Array, mask, kind: str, values) -> Array:
    if kind == "set":
        new = stretch(as_values_of(values, x), x.shape)
    else:
        left, right = in_common_dtype(x, values)
        new = as_type(POINTWISE[kind](left, stretch(right, x.shape)), x.dtype, x.weak_type)
    return as_type(lax.select(mask, new, x), x.dtype, x.weak_type)
