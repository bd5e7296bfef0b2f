"""Bits in bytes: packbits and unpackbits.

Floor 6. In: booleans or bytes. Out: bytes of eight of them, or one byte for each bit.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.dims import Dim
from gpuarray.core.value import Array
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.operands import array
from gpuarray.numpy.shapes import ravel, reshape
from gpuarray.util import canonical_axis


def _bit_order(bitorder: str) -> np.ndarray:
    """The shift of each of eight bits."""
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts if bitorder == "little" else shifts[::-1].copy()


def packbits(a, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack eight elements along an axis into the bits of one byte, the last one padded with zeros.

    >>> import gpuarray.numpy as gnp
    >>> gnp.packbits(gnp.array([1, 0, 1, 1]))
    Array([176], dtype=uint8)
    """
    a = array("packbits", a)
    if not (a.dtype == np.bool_ or dtypes.issubdtype(a.dtype, np.integer)):
        raise TypeError("Expected an input array of integer or boolean data type")
    # The first element is the highest bit in NumPy's default order.
    shifts = _bit_order(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    # Any number but zero is a set bit.
    bits = lax.convert_element_type(lax.ne(a, a.dtype.type(0)), np.uint8)
    bits = moveaxis(bits, axis, -1)
    # Zeros fill up the last byte.
    count = (bits.shape[-1] + 7) // 8
    missing = 8 * count - bits.shape[-1]
    if type(missing) is Dim or missing:
        bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, missing, 0)])
    bits = reshape(bits, (*bits.shape[:-1], count, 8))
    # Each bit in its place of the byte; the bits of a byte do not overlap.
    placed = lax.shift_left(bits, _spread(shifts, bits.shape))
    return moveaxis(lax.reduce_or(placed, (placed.ndim - 1,)), -1, axis)


def _spread(shifts: np.ndarray, shape: tuple[int, ...]) -> Array:
    return lax.broadcast_in_dim(shifts, shape, (len(shape) - 1,))


def unpackbits(
    a, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes along an axis, one element each; `count` of them (from the end when
    negative: all but so many).

    >>> import gpuarray.numpy as gnp
    >>> gnp.unpackbits(gnp.array([5], dtype="uint8"))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    a = array("unpackbits", a)
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    shifts = _bit_order(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    a = moveaxis(a, axis, -1)
    # Every byte in eight copies, each shifted so that another bit is the lowest.
    shape = (*a.shape, 8)
    spread = lax.broadcast_in_dim(a, shape, tuple(range(a.ndim)))
    bits = lax.bitwise_and(lax.shift_right_logical(spread, _spread(shifts, shape)), np.uint8(1))
    bits = reshape(bits, (*a.shape[:-1], a.shape[-1] * 8))
    # As in NumPy, a count may also be larger, or negative to cut bits off the end.
    if count is not None:
        n = bits.shape[-1]
        if util.index(count) > n:
            bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, count - n, 0)])
        else:
            bits = bits[..., :count]
    return moveaxis(bits, -1, axis)
