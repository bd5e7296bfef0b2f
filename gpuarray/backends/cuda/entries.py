"""Entries of stacks of vectors and matrices: which there are, one of them, all but some, lengths.

Floor 4. In: values. Out: values, in terms of primitives; axes are counted from behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import full_like

int32 = np.dtype(np.int32)


def numbered(x: Any, axis: int) -> Any:
    """The number of each element along an axis, counted from behind."""
    aval = aval_of(x)
    return do.iota(dtype=int32, shape=aval.shape, dimension=aval.ndim + axis, sharding=None)


def counted(length: int) -> Any:
    """0, 1, ... as a vector."""
    return do.iota(dtype=int32, shape=(length,), dimension=0, sharding=None)


def where(mask: Any, x: Any, otherwise: Any) -> Any:
    """`x` where the mask holds."""
    return do.select_n(mask, otherwise, x)


def only(mask: Any, x: Any) -> Any:
    """`x` where the mask holds, zero elsewhere."""
    return where(mask, x, full_like(x, 0))


def folded(fold: str, x: Any, axis: int) -> Any:
    """A reduction along one axis."""
    return getattr(do, fold)(x, axes=(aval_of(x).ndim + axis,), out_sharding=None)


def picked(mask: Any, x: Any, axis: int) -> Any:
    """The one element along an axis at which the mask holds."""
    return folded("reduce_sum", only(mask, x), axis)


def lengths(x: Any, axis: int) -> Any:
    """Lengths of vectors, without squares that overflow."""
    size, length = do.abs(x), aval_of(x).shape[axis]
    largest = folded("reduce_max", size, axis)
    nothing = do.eq(largest, full_like(largest, 0))
    unit = where(nothing, full_like(largest, 1), largest)
    scaled = do.div(size, spread(unit, axis, length))
    return do.mul(largest, do.sqrt(folded("reduce_sum", do.mul(scaled, scaled), axis)))


def hypot(x: Any, y: Any) -> Any:
    """The length of (x, y), without squares that overflow; for numbers that are not negative."""
    large, small = do.max(x, y), do.min(x, y)
    nothing = do.eq(large, full_like(large, 0))
    ratio = do.div(small, where(nothing, full_like(large, 1), large))
    return do.mul(large, do.sqrt(do.add(do.mul(ratio, ratio), full_like(ratio, 1))))


def spread(x: Any, axis: int, length: int) -> Any:
    """A value repeated along one more axis, counted from behind."""
    shape = aval_of(x).shape
    axis += len(shape) + 1
    full = (*shape[:axis], length, *shape[axis:])
    kept = tuple(d for d in range(len(full)) if d != axis)
    return do.broadcast_in_dim(x, shape=full, broadcast_dimensions=kept, sharding=None)


def along_rows(v: Any, columns: int) -> Any:
    """Element i for all of row i."""
    return spread(v, -1, columns)


def along_columns(v: Any, rows: int) -> Any:
    """Element j for all of column j."""
    return spread(v, -2, rows)
