"""Moving, adding and broadcasting axes, as batch rules do with the batch axis.

Floor 2. In: values. Out: the same elements with axes in other positions, or those of a part of an
axis.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.primitives.define import do


def move_axis(x: Any, source: int, destination: int) -> Any:
    """Move the axis at `source` to `destination`; the others keep their order."""
    # The batch axis is usually at 0 already: no equation is recorded for it.
    if source == destination:
        return x
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(destination, source)
    return do.transpose(x, permutation=tuple(order))


def add_axis(x: Any, position: int, size: int = 1) -> Any:
    """Insert an axis at `position` along which the value repeats `size` times."""
    shape = aval_of(x).shape
    # The positions that the old axes have in the result.
    dims = tuple(i for i in range(len(shape) + 1) if i != position)
    full = (*shape[:position], size, *shape[position:])
    return do.broadcast_in_dim(x, shape=full, broadcast_dimensions=dims, sharding=None)


def set_rank(x: Any, rank: int, keep_first: bool = False) -> Any:
    """Insert axes of length 1 in front until `x` has `rank` axes.

    With `keep_first` they go behind the first axis, which is then the batch axis.
    """
    shape = aval_of(x).shape
    missing = rank - len(shape)
    if missing <= 0:
        return x
    lead = 1 if keep_first else 0
    full = shape[:lead] + (1,) * missing + shape[lead:]
    dims = tuple(range(lead)) + tuple(range(lead + missing, rank))
    return do.broadcast_in_dim(x, shape=full, broadcast_dimensions=dims, sharding=None)


def with_axis(x: Any, dim: int | None, position: int, size: int) -> Any:
    """Put the batch axis at `position`; an unbatched value (`dim` None) is repeated along it."""
    return add_axis(x, position, size) if dim is None else move_axis(x, dim, position)


def along(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Any:
    """Return a part of an axis; the value itself where that is all of it."""
    shape = aval_of(x).shape
    if (start, stop, step) == (0, shape[axis], 1):
        return x
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    strides = None if step == 1 else tuple(steps)
    return do.slice(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=strides)
