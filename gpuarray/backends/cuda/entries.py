"""Building blocks on stacks of vectors and matrices: positions, selections, lengths.

Floor 4. In: values. Out: values, in terms of primitives. Axes are negative, counted from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import full_like

int32 = np.dtype(np.int32)


def numbered(x: Any, axis: int) -> Any:
    """Return the position of each element along an axis."""
    aval = aval_of(x)
    return do.iota(dtype=int32, shape=aval.shape, dimension=aval.ndim + axis, sharding=None)


def counted(length: int) -> Any:
    """Return the vector 0, 1, ..., length - 1."""
    return do.iota(dtype=int32, shape=(length,), dimension=0, sharding=None)


def where(mask: Any, x: Any, otherwise: Any) -> Any:
    """Return `x` where `mask` is true, else `otherwise`."""
    # `select_n` takes the case for false first.
    return do.select_n(mask, otherwise, x)


def only(mask: Any, x: Any) -> Any:
    """Return `x` where `mask` is true, else 0."""
    return where(mask, x, full_like(x, 0))


def folded(fold: str, x: Any, axis: int) -> Any:
    """Reduce along one axis."""
    return getattr(do, fold)(x, axes=(aval_of(x).ndim + axis,), out_sharding=None)


def picked(mask: Any, x: Any, axis: int) -> Any:
    """Return the element along an axis at which `mask` is true; it must be true at one only."""
    # A masked sum: the position may differ in each matrix of the stack.
    return folded("reduce_sum", only(mask, x), axis)


def lengths(x: Any, axis: int) -> Any:
    """Return Euclidean lengths along an axis; scaled, so that squares do not overflow."""
    size, length = do.abs(x), aval_of(x).shape[axis]
    largest = folded("reduce_max", size, axis)
    # A vector of zeros is divided by 1, so that its length is 0 and not nan.
    nothing = do.eq(largest, full_like(largest, 0))
    unit = where(nothing, full_like(largest, 1), largest)
    scaled = do.div(size, repeated(unit, axis, length))
    return do.mul(largest, do.sqrt(folded("reduce_sum", do.mul(scaled, scaled), axis)))


def hypot(x: Any, y: Any) -> Any:
    """Return √(x² + y²) for non-negative numbers, without squares that overflow."""
    large, small = do.max(x, y), do.min(x, y)
    # small / large is at most 1, so its square cannot overflow.
    nothing = do.eq(large, full_like(large, 0))
    ratio = do.div(small, where(nothing, full_like(large, 1), large))
    return do.mul(large, do.sqrt(do.add(do.mul(ratio, ratio), full_like(ratio, 1))))


def repeated(x: Any, axis: int, length: int) -> Any:
    """Repeat a value along one more axis."""
    shape = aval_of(x).shape
    axis += len(shape) + 1
    full = (*shape[:axis], length, *shape[axis:])
    # All axes except the new one are those of the operand.
    kept = tuple(d for d in range(len(full)) if d != axis)
    return do.broadcast_in_dim(x, shape=full, broadcast_dimensions=kept, sharding=None)


def along_rows(v: Any, columns: int) -> Any:
    """Repeat element i along row i."""
    return repeated(v, -1, columns)


def along_columns(v: Any, rows: int) -> Any:
    """Repeat element j along column j."""
    return repeated(v, -2, rows)
