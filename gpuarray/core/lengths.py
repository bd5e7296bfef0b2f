"""Shapes with symbolic lengths: how they broadcast, and how slices change them.

Floor 1. In: lengths, ints or Dims. Out: lengths. Python and NumPy handle those without symbols.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core.dims import Dim, larger, smaller
from gpuarray.errors import InconclusiveDimensionOperation


def broadcast(*shapes: tuple) -> tuple:
    """The shape to which these shapes broadcast; ValueError if they do not."""
    if all(type(n) is not Dim for s in shapes for n in s):
        return np.broadcast_shapes(*shapes)
    rank = max(map(len, shapes))
    out = []
    for lengths in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        # A symbol is assumed to differ from 1, as `==` says: broadcasting is decided now.
        others = {n for n in lengths if n != 1}
        if len(others) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast: {lengths} differ")
        out.append(others.pop() if others else 1)
    return tuple(out)


def ascending(*lengths: Any) -> bool:
    """Whether each length is known to be no less than the one before it."""
    try:
        return all(a <= b for a, b in itertools.pairwise(lengths))
    except InconclusiveDimensionOperation:
        return False


def slice_ends(entry: slice, n: Any) -> tuple[Any, Any, Any]:
    """`entry.indices(n)` for a length that may be symbolic."""
    if Dim not in map(type, (n, entry.start, entry.stop, entry.step)):
        return entry.indices(n)
    step = 1 if entry.step is None else util.index(entry.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")

    def end(given: Any, default: Any) -> Any:
        if given is None:
            return default
        given = util.index(given)
        at = given + n if given < 0 else given
        # Cut off at the ends of the axis.
        return smaller(larger(at, 0 if step > 0 else -1), n if step > 0 else n - 1)

    if step > 0:
        return end(entry.start, 0), end(entry.stop, n), step
    return end(entry.start, n - 1), end(entry.stop, -1), step


def count_between(start: Any, stop: Any, step: Any) -> Any:
    """The number of steps of size `step` from `start` up to `stop`."""
    if Dim not in map(type, (start, stop, step)):
        return len(range(start, stop, step))
    # Rounded up, away from `start`: a last step that is cut short counts.
    try:
        sign = 1 if step > 0 else -1
    except InconclusiveDimensionOperation:
        raise InconclusiveDimensionOperation(
            f"the step {step} from {start} to {stop} must be resolved statically if it is > 0 or "
            "< 0: say in constraints= which of them it is"
        ) from None
    return larger((stop - start + step - sign) // step, 0)
