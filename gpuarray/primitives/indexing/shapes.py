"""Dimension numbers and modes of gather and scatter, and their shape rules.

Floor 2. In: avals and dimension numbers. Out: the shape of a gather's result, or a TypeError that
names the field, its value and the valid ones.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import storage_dtype


class GatherDimensionNumbers(NamedTuple):
    """Meaning of the axes of a gather's operand, indices and result.

    Attributes
    ----------
    offset_dims :
        Axes of the result that are axes of the windows.
    collapsed_slice_dims :
        Operand axes on which the windows have length 1, left out of the result.
    start_index_map :
        Operand axis of each component of an index vector.
    operand_batching_dims, start_indices_batching_dims :
        Pairs of axes that run in step.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Meaning of the axes of a scatter's operand, indices and updates.

    Attributes
    ----------
    update_window_dims :
        Axes of the updates that are axes of the windows.
    inserted_window_dims :
        Operand axes on which the windows have length 1, missing in the updates.
    scatter_dims_to_operand_dims :
        Operand axis of each component of an index vector.
    operand_batching_dims, scatter_indices_batching_dims :
        Pairs of axes that run in step.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """How indices out of bounds are treated."""

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(given: str | GatherScatterMode | None) -> GatherScatterMode:
        """Return the mode of a name (clip, fill, drop, promise_in_bounds); None fills or drops."""
        if isinstance(given, GatherScatterMode):
            return given
        if given is None:
            return GatherScatterMode.FILL_OR_DROP
        try:
            return _MODES[given]
        except (KeyError, TypeError):
            raise ValueError(
                f'Unknown gather mode "{given}": expected one of {", ".join(map(repr, _MODES))}.'
            ) from None


# Reading fills and writing drops: two names of one mode.
_MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


# ---- shape rules ----


def _check_axes(op: str, what: str, axes: Sequence[int], end: int, ordered: bool = True) -> None:
    if ordered and list(axes) != sorted(axes):
        # Sorted, so that the order of the remaining axes is clear.
        raise TypeError(f"{what} in {op} op must be sorted; got {tuple(axes)}")
    if len(set(axes)) != len(axes):
        raise TypeError(f"{what} in {op} op must not repeat; got: {tuple(axes)}.")
    for axis in axes:
        if not 0 <= axis < end:
            raise TypeError(
                f"Invalid {what} set in {op} op; valid range is [0, {end}); got: {axis}."
            )


def _check_map(op: str, what: str, axes: Sequence[int], length: int, ndim: int) -> None:
    if len(axes) != length:
        raise TypeError(
            f"{op.capitalize()} op has {len(axes)} elements in {what} and the bound of dimension "
            f"index_vector_dim of indices is {length}. These two numbers must be equal."
        )
    # Component `position` of an index vector is a position along this axis.
    for position, axis in enumerate(axes):
        if not 0 <= axis < ndim:
            raise TypeError(
                f"Invalid {what} mapping in {op} op; domain is [0, {ndim}), got: "
                f"{position}->{axis}."
            )
    if len(set(axes)) != len(axes):
        raise TypeError(f"{what} in {op} op must not repeat; got: {tuple(axes)}.")


def _check_disjoint(op: str, what: str, axes, batching) -> None:
    if set(axes) & set(batching):
        raise TypeError(
            f"{what} and operand_batching_dims in {op} op must be disjoint; got: {tuple(axes)} and "
            f"{tuple(batching)}."
        )


def _check_batching(op: str, operand, indices, of_operand, of_indices, name: str) -> None:
    if len(of_operand) != len(of_indices):
        raise TypeError(
            f"{op.capitalize()} op requires equal numbers of operand_batching_dims and {name}, got "
            f"{tuple(of_operand)} and {tuple(of_indices)}."
        )
    _check_axes(op, name, of_indices, indices.ndim, ordered=False)
    # The last axis of the indices is the index vector.
    if indices.ndim - 1 in of_indices:
        raise TypeError(
            f"{op.capitalize()} op cannot have the index vector dimension as a batching dimension; "
            f"got {tuple(of_indices)}."
        )
    theirs = tuple(operand.shape[d] for d in of_operand)
    ours = tuple(indices.shape[d] for d in of_indices)
    if theirs != ours:
        raise TypeError(
            f"{op.capitalize()} op requires operand batching dimensions and indices batching "
            f"dimensions to have the same shape, got {theirs} and {ours}."
        )


def _check_integers(op: str, indices: ShapedArray) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"{op} indices must have an integer type, got {indices.dtype.name}")


def _check_indices(op: str, indices: ShapedArray) -> None:
    if indices.ndim == 0:
        raise TypeError(
            f"{op.capitalize()} index leaf dimension must be within [0, rank(indices) + 1). "
            "rank(indices) is 0: the last axis of the indices is the index vector, add one."
        )


def check_gather(operand, indices, numbers, slice_sizes) -> tuple[int, ...]:
    """Return the shape of a gather's result; raise TypeError if the arguments do not fit."""
    op, ndim = "gather", operand.ndim
    _check_indices(op, indices)
    offset = numbers.offset_dims
    # The result has the windows' axes and all of the indices' but the vector.
    rank = len(offset) + indices.ndim - 1
    if list(offset) != sorted(offset):
        raise TypeError(f"offset_dims in gather op must be sorted; got {tuple(offset)}")
    if len(set(offset)) != len(offset):
        raise TypeError(f"offset_dims in gather op must not repeat; got: {tuple(offset)}.")
    for i, d in enumerate(offset):
        if not 0 <= d < rank:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {d}, but should have "
                f"been in [0, {rank})"
            )
    # Each operand axis has one role: indexed, collapsed or batching.
    mapped, collapsed = numbers.start_index_map, numbers.collapsed_slice_dims
    batching = numbers.operand_batching_dims
    _check_map(op, "start_index_map", mapped, indices.shape[-1], ndim)
    _check_axes(op, "collapsed_slice_dims", collapsed, ndim)
    _check_axes(op, "operand_batching_dims", batching, ndim)
    _check_disjoint(op, "collapsed_slice_dims", collapsed, batching)
    _check_disjoint(op, "start_index_map", mapped, batching)
    name = "start_indices_batching_dims"
    _check_batching(op, operand, indices, batching, numbers.start_indices_batching_dims, name)
    if len(slice_sizes) != ndim:
        raise TypeError(
            "Gather op must have one slice size for every input dimension; got: "
            f"len(slice_sizes)={len(slice_sizes)}, input_shape.rank={ndim}"
        )
    # Axes that windows lack in the result.
    removed = {*collapsed, *batching}
    if len(slice_sizes) != len(offset) + len(removed):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension "
            f"or explicitly collapsed/batching; got len(slice_sizes)={len(slice_sizes)}, "
            f"output_slice_sizes={tuple(offset)}, collapsed_slice_dims={tuple(collapsed)}, "
            f"operand_batching_dims={tuple(batching)}."
        )
    for i, (size, length) in enumerate(zip(slice_sizes, operand.shape)):
        if not 0 <= size <= length:
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within "
                f"[0, {length} + 1), got {size}."
            )
    # A batching axis may be empty, a collapsed one may not.
    for d in sorted(removed):
        if slice_sizes[d] > 1 or (d in collapsed and slice_sizes[d] != 1):
            kind = "collapse slice" if d in collapsed else "have operand batching"
            raise TypeError(
                f"Gather op can only {kind} dims with bound 1, but bound is {slice_sizes[d]} for "
                f"index {d}."
            )
    _check_integers(op, indices)
    # Interleave the windows' and the indices' lengths, in the order that offset_dims gives.
    windows = iter(n for d, n in enumerate(slice_sizes) if d not in removed)
    batch = iter(indices.shape[:-1])
    return tuple(next(windows) if d in offset else next(batch) for d in range(rank))


def check_scatter(operand, indices, updates, numbers) -> None:
    """Raise TypeError unless updates, indices and dimension numbers of a scatter fit."""
    op, ndim = "scatter", operand.ndim
    _check_indices(op, indices)
    windows, inserted = numbers.update_window_dims, numbers.inserted_window_dims
    mapped, batching = numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims
    rank = indices.ndim - 1 + len(windows)
    if updates.ndim != rank:
        raise TypeError(
            f"Updates tensor must be of rank {rank}; got {updates.ndim}. It has the "
            f"{indices.ndim - 1} axes of the indices before the index vector and the "
            f"{len(windows)} axes of update_window_dims."
        )
    _check_axes(op, "update_window_dims", windows, updates.ndim)
    _check_axes(op, "inserted_window_dims", inserted, ndim)
    _check_axes(op, "operand_batching_dims", batching, ndim)
    _check_disjoint(op, "inserted_window_dims", inserted, batching)
    _check_disjoint(op, "scatter_dims_to_operand_dims", mapped, batching)
    name = "scatter_indices_batching_dims"
    _check_batching(op, operand, indices, batching, numbers.scatter_indices_batching_dims, name)
    # Every operand axis belongs to the window, is inserted, or is a batching axis.
    size = len(windows) + len(inserted) + len(batching)
    if size != ndim:
        raise TypeError(
            f"Scatter op has window of size {size}; doesn't match operand of rank {ndim}."
        )
    _check_map(op, "scatter_dims_to_operand_dims", mapped, indices.shape[-1], ndim)
    removed = {*inserted, *batching}
    # Window axes in the order of the operand's.
    kept = [d for d in range(ndim) if d not in removed]
    for axis, d in zip(windows, kept):
        if updates.shape[axis] > operand.shape[d]:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed the bounds of the "
                f"corresponding dimensions of operand. For dimension {axis}, updates bound is "
                f"{updates.shape[axis]}, operand bound is {operand.shape[d]}."
            )
    # The updates' other axes follow the indices.
    scattered = [a for a in range(updates.ndim) if a not in windows]
    for axis, length in zip(scattered, indices.shape[:-1]):
        if updates.shape[axis] != length:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of the "
                "corresponding dimensions of scatter indices. For scatter dimension "
                f"{axis}, updates bound is {updates.shape[axis]}, indices bound is {length}."
            )
    _check_integers(op, indices)


# ---- fill values of reads out of bounds ----


def default_fill(dtype) -> Any:
    """Return the value of out-of-bounds reads: NaN, the lowest signed, the highest unsigned one."""
    if isinstance(dtype, dtypes.ExtendedDType):  # that of its numbers
        return default_fill(dtype.element[1])
    kind = dtypes.kind_of(dtype)
    if kind in "fc":
        return np.nan
    if kind == "b":
        return True
    info = dtypes.iinfo(dtype)
    return int(info.min if kind == "i" else info.max)


def fill_element(aval: ShapedArray, fill_value) -> Any:
    """Return an element of the storage dtype; a key is filled word by word."""
    dtype = storage_dtype(aval)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        # Each word of the key has the fill value.
        shape, number = aval.dtype.element
        return np.full(shape, fill_value, number).reshape(-1).view(dtype)[0]
    return np.asarray(fill_value).astype(dtype)[()]
