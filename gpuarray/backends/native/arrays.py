"""Arrays as native code sees them: it is given the objects, and reads where their memory is.

Floor 4. In: ndarrays. Out: whether NumPy lays them out as kernels/native/tasks.h assumes. Asking
Python for the address of an array takes longer than a small kernel; reading it from the object
costs nothing.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np

#: Bytes of the head of every object: the last word of it is the address of the object's type.
HEAD = object.__basicsize__


class _Array(ctypes.Structure):
    """The struct ga_array of kernels/native/tasks.h."""

    _fields_ = (
        ("head", ctypes.c_char * (HEAD - ctypes.sizeof(ctypes.c_void_p))),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("axes", ctypes.c_int),
        ("lengths", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


@functools.cache
def are_readable() -> bool:
    """Whether the memory of ndarray objects has the layout assumed by native code."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or np.ndarray.__basicsize__ < ctypes.sizeof(_Array):
        return False
    # Cases that distinguish the fields: a base, strides, a transposed array with other flags.
    x = np.arange(12.0).reshape(3, 4)
    return all(_agrees(a) for a in (x, x.T, x[1:], np.asarray(7)))


def _agrees(x: np.ndarray) -> bool:
    seen = _Array.from_address(id(x))
    same_memory = (seen.data, seen.axes) == (x.ctypes.data, x.ndim)
    plain = bool(x.flags.c_contiguous and x.flags.aligned)
    return same_memory and seen.type == id(np.ndarray) and (seen.flags & 0x101 == 0x101) == plain


def plain(buffers: Sequence) -> list[np.ndarray]:
    """Return buffers as arrays in one piece and aligned; those that are not are copied."""
    return [np.require(x, requirements=("C", "A")).view(np.ndarray) for x in buffers]


def is_plain(x: object) -> bool:
    """Whether a buffer is an array in one piece, aligned, that may be written to."""
    return type(x) is np.ndarray and x.flags.carray
