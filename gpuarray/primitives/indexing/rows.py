"""Many rows read from an array, or added to its rows.

Floor 2. In: an array and the numbers of its rows. Out: these rows, read by all threads; or the
array with updates added in place, where several may go to the same row, as `np.add.at` adds them:
in their order. `np.add.at` takes up to 40 ns for each element of a row; a product with a sparse
matrix that has a one in each column takes one.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import util
from gpuarray.core import threads

_sparse = util.lazy_module("scipy.sparse")

#: From this many elements on the product is faster than `np.add.at`.
MANY = 4096
#: A part for one thread has at least this many elements.
SHARED = 1 << 15
#: Types that the product adds as NumPy does, and the real type that complex numbers consist of.
_ADDED = {np.dtype(name): np.dtype(name) for name in ("f4", "f8", "i4", "i8", "u4", "u8")}
_ADDED |= {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}
_SIGN: dict[np.ufunc, int] = {np.add: 1, np.subtract: -1}


def take_rows(x: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Return the rows of these numbers, clamped into bounds, as an array of their shape of rows.

    >>> take_rows(np.arange(6).reshape(3, 2), np.array([[2], [9]])).tolist()
    [[[4, 5]], [[4, 5]]]
    """
    width = math.prod(x.shape[1:])
    if where.size * width < 2 * SHARED:
        return x.take(where, 0, None, "clip")
    # NumPy would make this copy for each part.
    x = np.ascontiguousarray(x)
    out = np.empty((*where.shape, *x.shape[1:]), x.dtype)
    flat, rows = where.reshape(-1), out.reshape(where.size, *x.shape[1:])
    threads.each(
        lambda part: x.take(flat[part], 0, rows[part], "clip"), where.size, -(-SHARED // width)
    )
    return out


def add_rows(ufunc: np.ufunc, target: np.ndarray, index: np.ndarray, values: np.ndarray) -> bool:
    """Add rows, or subtract them; whether it was done: other cases are left to `ufunc.at`.

    >>> target = np.zeros((3, 4096), np.float32)
    >>> add_rows(np.add, target, np.array([2, 0, 2]), np.ones((3, 4096), np.float32))
    True
    >>> target[:, 0]
    array([1., 0., 2.], dtype=float32)
    """
    width = math.prod(target.shape[1:])
    real = _ADDED.get(target.dtype)
    if ufunc not in _SIGN or real is None or width < 2 or index.size * width < MANY:
        return False
    if values.dtype != target.dtype:
        return False
    # Rows without updates are neither read nor written.
    places = index.reshape(-1)
    touched = np.zeros(len(target), bool)
    touched[places] = True
    rows = np.flatnonzero(touched)
    flat = np.ascontiguousarray(values).reshape(places.size, width).view(real)
    there = target[rows].reshape(rows.size, width).view(real)
    number = np.empty(len(target), np.int32)
    number[rows] = np.arange(rows.size)
    places = number[places]
    sign = np.array(_SIGN[ufunc]).astype(real)
    if there.view(f"u{real.itemsize}").any():
        # The old element comes first; a sum that starts with 0 would lose the sign of a -0.0.
        if real.kind == "f" and (np.signbit(there) & (there == 0)).any():
            return False
        flat = np.concatenate([there * sign, flat])
        places = np.concatenate([np.arange(rows.size, dtype=np.int32), places])
    ones, columns = np.full(places.size, sign), np.arange(places.size + 1, dtype=np.int32)
    matrix = _sparse.csc_array((ones, places, columns), shape=(rows.size, places.size))
    target[rows] = (matrix @ flat).view(target.dtype).reshape(rows.size, *target.shape[1:])
    return True
