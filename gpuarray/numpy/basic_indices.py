"""Indices of ints, slices and new axes: a rectangular piece of an array, no gather needed.

Floor 6. In: a shape and an index. Out: a `Window`, or None if the index contains other entries,
which indexer.py interprets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuarray import config
from gpuarray.core import dims, lengths
from gpuarray.core.avals import machine_int
from gpuarray.core.trace import Tracer

_state = config.state


class Window(NamedTuple):
    """A rectangular piece of an array: its start and end, and the changes to its axes."""

    starts: list[int]
    limits: list[int]
    strides: list[int] | None  # None: all ones
    reversed: list[int]  # axes of the operand that run backwards
    dropped: list[int]  # axes of the operand that an integer picked from
    new: list[int]  # axes of the result that None made
    outside: dict[int, int]  # axis: the out-of-bounds integer that has been moved to the edge


def window(shape: tuple[int, ...], index) -> Window | None:
    """The Window of an index of ints, slices, None and Ellipsis; None for any other index."""
    # Types are compared by identity here: this runs at every `x[i]`.
    if type(index) is not tuple:
        index = (index,)
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    backwards: list[int] = []
    dropped: list[int] = []
    new: list[int] = []
    outside: dict[int, int] = {}
    strided = False
    out = 0  # axes of the result so far
    ndim = len(shape)
    ellipsis = False
    # One pass over the entries; `len(starts)` is the axis of the operand that comes next.
    for entry in index:
        kind = type(entry)
        if kind is slice:
            if len(starts) >= ndim:
                raise too_many(shape, index)
            try:
                n = shape[len(starts)]
                start, stop, step = lengths.slice_ends(entry, n)
            except TypeError:
                if not is_traced(entry):
                    raise
                raise dynamic_slice_error(entry, index) from None
            symbolic = dims.Dim in map(type, (n, start, stop, step))
            if type(step) is dims.Dim:
                return None  # elements that far apart are gathered
            # Every step becomes a positive one, and a reversal.
            if step != 1:
                count = lengths.count_between(start, stop, step)
                if step < 0:
                    # Read forwards and reversed afterwards: the same elements in the opposite
                    # order.
                    backwards.append(len(starts))
                    start, stop, step = start + (count - 1) * step, start + 1, -step
                if count == 0:
                    start, stop, step = 0, 0, 1
                strided = strided or step != 1
            # An empty slice, whose length must not come out negative.
            elif not symbolic and stop < start:
                stop = start
            # A slice that may end before it begins is gathered, too.
            if symbolic and not lengths.ascending(0, start, stop, n):
                return None
            starts.append(start)
            limits.append(stop)
            strides.append(step)
            out += 1
        elif kind is int or kind is dims.Dim or isinstance(entry, np.integer):
            axis = len(starts)
            if axis >= ndim:
                raise too_many(shape, index)
            n = shape[axis]
            if kind is not dims.Dim:
                entry = int(entry)  # of a narrow type, which may not hold the length
            at = entry + n if entry < 0 else entry
            # Out of bounds: clamped, and recorded for checkify and updates.
            if dims.Dim in (type(n), type(at)):
                if not lengths.ascending(0, at, n - 1):
                    return None
            elif not 0 <= at < n:
                outside[axis] = machine_int(int(at))
                at = _edge(int(entry), int(at), axis, n)
            start: Any = at if type(at) is dims.Dim else int(at)
            starts.append(start)
            limits.append(start + 1)
            strides.append(1)
            dropped.append(axis)
        elif entry is None:
            new.append(out)
            out += 1
        elif entry is Ellipsis:
            if ellipsis:
                raise two_ellipses()
            ellipsis = True
            # An Ellipsis represents all axes without another entry.
            rest = ndim - sum(1 for e in index if e is not None and e is not Ellipsis)
            if rest > 0:
                first = len(starts)
                starts += [0] * rest
                limits += shape[first : first + rest]
                strides += [1] * rest
                out += rest
        else:
            return None
    # Axes that the index does not mention are taken whole.
    first = len(starts)
    if first < ndim:
        starts += [0] * (ndim - first)
        limits += shape[first:]
        strides += [1] * (ndim - first)
    return Window(starts, limits, strides if strided else None, backwards, dropped, new, outside)


def _edge(given: int, at: int, axis: int, n: int) -> int:
    """The position nearest to an out-of-bounds one; an error if there is none, or if config.oob
    requires it.
    """
    # An axis of no elements has no edge to move to.
    if n == 0:
        raise IndexError(f"index is out of bounds for axis {axis} with size 0")
    if _state.oob == "raise":
        raise out_of_bounds(given, axis, n)
    return 0 if at < 0 else n - 1


def out_of_bounds(given: int, axis: int, n: int) -> IndexError:
    """The error of config.oob='raise', and of static indices with check_static_indices."""
    # In NumPy's words, or in JAX's.
    said, why = "is out", "'oob' is 'raise'"
    if _state.oob != "raise":
        said, why = "out", "'check_static_indices' is on"
    return IndexError(
        f"index {given} {said} of bounds for axis {axis} with size {n} (reported because config "
        f"{why}; else it would have been moved to the edge)"
    )


def too_many(shape, index) -> IndexError:
    given = sum(1 for e in index if e is not None and e is not Ellipsis)
    return IndexError(
        f"Too many indices: array is {len(shape)}-dimensional, but {given} were indexed. Its shape "
        f"is {shape}."
    )


def two_ellipses() -> IndexError:
    return IndexError(
        "an index can only have a single ellipsis ('...'): it stands for as many ':' as are missing"
    )


def is_traced(entry: slice) -> bool:
    return any(isinstance(x, Tracer) for x in (entry.start, entry.stop, entry.step))


def dynamic_slice_error(entry: slice, index) -> IndexError:
    position = next(i for i, e in enumerate(index) if e is entry)
    return IndexError(
        f"Slice entries must be static integers. Got slice({entry.start}, {entry.stop}, "
        f"{entry.step}) at position {position}. The length of the result has to be known while "
        "tracing: use lax.dynamic_slice for a start that varies, or mark the argument static."
    )
