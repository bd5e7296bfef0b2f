"""Ragged products: one axis of lhs is split into groups, each multiplied by its own matrix.

Floor 2. In: lhs, rhs and the sizes of the groups. Out: `ragged_dot_general`, a loop of ordinary
products over groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Factors
from gpuarray.primitives.contract.factors import combined, product_names
from gpuarray.primitives.contract.ops import dot_aval, dot_general_p, free_axes
from gpuarray.primitives.contract.ragged_transforms import (
    prefix_axes,
    ragged_batch,
    ragged_left,
    ragged_right,
    ragged_transpose,
)
from gpuarray.primitives.define import library


class RaggedDotDimensionNumbers:
    """Axes of a ragged product: those of dot_general, the ragged one, and rhs's group axis.

    >>> RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)).lhs_ragged_dimensions
    (0,)
    """

    __slots__ = ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")

    def __init__(self, dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions):
        def ints(dims):
            return tuple(int(d) for d in dims)

        (lc, rc), (lb, rb) = dot_dimension_numbers
        self.dot_dimension_numbers = ((ints(lc), ints(rc)), (ints(lb), ints(rb)))
        self.lhs_ragged_dimensions = ints(lhs_ragged_dimensions)
        self.rhs_group_dimensions = ints(rhs_group_dimensions)

    # Compared and hashed by value: an equation's params are part of cache keys.
    def _key(self):
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other) -> bool:
        return isinstance(other, RaggedDotDimensionNumbers) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        fields = ", ".join(f"{n}={getattr(self, n)}" for n in self.__slots__)
        return f"RaggedDotDimensionNumbers({fields})"


def mode_of(numbers: RaggedDotDimensionNumbers) -> str:
    """Return the role of the ragged axis: a free row axis, the summed axis, or a batch axis."""
    # The axis's role decides what each group computes: its rows, its sum, or its batches.
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    return "batch" if ragged in lb else "contracting" if ragged in lc else "rows"


def _without(dims: Sequence[int], gone: int) -> tuple[int, ...]:
    """Renumber axes after the axis `gone` has been removed."""
    return tuple(d - (d > gone) for d in dims)


def _check(lhs, rhs, group_sizes, numbers) -> None:
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError(
            "ragged_dot_general requires exactly one lhs ragged dimension, got "
            f"{numbers.lhs_ragged_dimensions}."
        )
    if not 0 <= numbers.lhs_ragged_dimensions[0] < lhs.ndim:
        raise TypeError(
            "ragged_dot_general requires lhs ragged dimension numbers to be nonnegative and less "
            f"than the number of axes of the lhs: got {numbers.lhs_ragged_dimensions} for "
            f"{lhs.str_short()}."
        )
    if group_sizes.ndim == 0:
        raise TypeError("expected rank of group_sizes to be >=1: one size for each group.")
    if dtypes.kind_of(group_sizes.dtype) not in "iu":
        raise TypeError(
            "ragged_dot_general requires that group_sizes.dtype is subtype of np.integer, got "
            f"{group_sizes.dtype.name}. Convert it with .astype('int32')."
        )
    mode, groups = mode_of(numbers), numbers.rhs_group_dimensions
    if mode == "rows" and len(groups) != 1:
        raise TypeError(
            "ragged_dot_general requires exactly one rhs group dimension when lhs ragged "
            f"dimension is noncontracting, got rhs_group_dimensions {groups}."
        )
    if mode != "rows" and groups:
        raise TypeError(
            "ragged_dot_general requires zero group dimensions in the rhs when lhs ragged "
            f"dimension is contracting or batch, got rhs_group_dimensions {groups}."
        )
    if mode == "rows":
        # The group axis of rhs must not be used otherwise.
        (_, rc), (_, rb) = numbers.dot_dimension_numbers
        if groups[0] in (*rc, *rb):
            raise TypeError(
                "ragged_dot_general requires rhs group dimensions to be disjoint from contracting "
                f"and batch dimensions, got rhs_group_dimensions {groups}, rhs_contracting {rc} "
                f"and rhs_batch {rb}."
            )
    if mode == "rows" and not 0 <= groups[0] < rhs.ndim:
        raise TypeError(
            f"ragged_dot_general: rhs of shape {rhs.shape} has no group dimension {groups[0]}."
        )
    count = group_sizes.shape[-1]
    if mode == "rows" and rhs.shape[groups[0]] != count:
        raise TypeError(
            f"expected rhs group dimension size to be {count}, got {rhs.shape[groups[0]]}."
        )
    # Sizes may be given for each entry of the axes in front of the ragged one.
    prefix = tuple(lhs.shape[d] for d in prefix_axes(numbers, lhs.ndim))
    if group_sizes.ndim != 1 and group_sizes.shape != (*prefix, count):
        expected = (*prefix, count)
        raise TypeError(f"expected group_sizes to have shape {expected}, got {group_sizes.shape}.")


def rows_numbers(numbers: RaggedDotDimensionNumbers):
    """Return the dimension numbers of one group's product: rhs without its group axis."""
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    (group,) = numbers.rhs_group_dimensions
    return ((lc, _without(rc, group)), (lb, _without(rb, group)))


def _aval(
    lhs: ShapedArray,
    rhs: ShapedArray,
    group_sizes: ShapedArray,
    *,
    ragged_dot_dimension_numbers,
    preferred_element_type=None,
    out_sharding=None,
    **_,
) -> ShapedArray:
    numbers = ragged_dot_dimension_numbers
    _check(lhs, rhs, group_sizes, numbers)
    dims = numbers.dot_dimension_numbers
    mode = mode_of(numbers)
    # Each group has a matrix: without its group axis rhs is one of them.
    if mode == "rows":
        dims = rows_numbers(numbers)
        (group,) = numbers.rhs_group_dimensions
        rhs = rhs.update(shape=tuple(n for i, n in enumerate(rhs.shape) if i != group))
    aval = dot_aval(lhs, rhs, dimension_numbers=dims, preferred_element_type=preferred_element_type)
    # Groups of a sum are separate results, stacked in front.
    shape = (group_sizes.shape[-1], *aval.shape) if mode == "contracting" else aval.shape
    return aval.update(shape=shape)


def _numpy(
    lhs,
    rhs,
    group_sizes,
    *,
    ragged_dot_dimension_numbers,
    precision=None,
    preferred_element_type=None,
    **_,
):
    numbers = ragged_dot_dimension_numbers
    avals = [ShapedArray(x.shape, x.dtype) for x in (lhs, rhs, group_sizes)]
    aval = _aval(
        *avals,
        ragged_dot_dimension_numbers=numbers,
        preferred_element_type=preferred_element_type,
    )
    # Rows after the last group are zero.
    out = np.zeros(aval.shape, aval.dtype)
    params = {"precision": precision, "preferred_element_type": preferred_element_type}
    if group_sizes.ndim == 1:
        _fill(out, lhs, rhs, group_sizes, numbers, params)
        return out
    # One row of group sizes for every entry of the leading axes: each is a separate ragged product.
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    # Groups of a sum are in front of all other axes of the result.
    shift = 1 if mode_of(numbers) == "contracting" else 0
    out_axes = (*lb, *free_axes(lhs.ndim, lb, lc))
    axes = prefix_axes(numbers, lhs.ndim)
    for index in np.ndindex(group_sizes.shape[:-1]):
        # The entry as slices of length 1, so that axis numbers do not change.
        one = {d: slice(i, i + 1) for d, i in zip(axes, index, strict=True)}
        left = lhs[tuple(one.get(d, slice(None)) for d in range(lhs.ndim))]
        there = dict(zip((*rb, *rc), (*lb, *lc), strict=True))  # rhs axis -> lhs axis
        right = rhs[tuple(one.get(there.get(d, -1), slice(None)) for d in range(rhs.ndim))]
        where = [slice(None)] * out.ndim
        for d, part in one.items():
            if d in out_axes:
                where[out_axes.index(d) + shift] = part
        part = out[tuple(where)]
        # A summed axis is visited in pieces, which add up.
        target = np.zeros_like(part)
        _fill(target, left, right, group_sizes[index], numbers, params)
        part += target
    return out


def _fill(out, lhs, rhs, group_sizes, numbers, params) -> None:
    """Write the products of all groups into `out`, which is zero where no group is."""
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    mode = mode_of(numbers)
    dims = rows_numbers(numbers) if mode == "rows" else numbers.dot_dimension_numbers
    params = {"dimension_numbers": dims, **params}

    def cut(axis: int, start: int, end: int):
        # Everything along the axes before it.
        return (slice(None),) * axis + (slice(start, end),)

    # Sizes may add up to more than the axis has; the excess is ignored.
    ends = np.minimum(np.cumsum(group_sizes.astype(np.int64)), lhs.shape[ragged])
    start = 0
    # One ordinary product for each group.
    for index, end in enumerate(ends.tolist()):
        left = lhs[cut(ragged, start, end)]
        if mode == "rows":
            # The matrix of this group, without the group axis.
            right = rhs.take(index, numbers.rhs_group_dimensions[0])
            axis = len(lb) + free_axes(lhs.ndim, lb, lc).index(ragged)
            target = cut(axis, start, end)
        # Each group sums its part of the axis, into a separate result.
        elif mode == "contracting":
            right = rhs[cut(rc[lc.index(ragged)], start, end)]
            target = (index,)
        else:
            right = rhs[cut(rb[lb.index(ragged)], start, end)]
            target = cut(lb.index(ragged), start, end)
        avals = [ShapedArray(x.shape, x.dtype) for x in (left, right)]
        out[target] = dot_general_p.numpy_function(avals, params)(left, right)
        start = end


# ---- factors ----


def _factors(avals, out_avals, params) -> Factors:
    """As those of dot_general; the axis in groups and the groups themselves are whole."""
    (lhs, rhs, counts), (out,) = avals, out_avals
    numbers = params["ragged_dot_dimension_numbers"]
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    (left, right), kept, summed = product_names(lhs, rhs, ((lc, rc), (lb, rb)))
    gone = {left[ragged], *(right[d] for d in numbers.rhs_group_dimensions)}
    kept = [n for n in kept if n not in {right[d] for d in numbers.rhs_group_dimensions}]
    if ragged in lc:
        kept.insert(0, None)  # one result for each group
    # Groups may have sizes for each position along the axes before the ragged one.
    prefix = [left[d] for d in prefix_axes(numbers, lhs.ndim)] if counts.ndim > 1 else []
    how = combined(avals[:2], out)
    if how is None:
        gone |= set(summed)

    def cut(names) -> list[Any]:
        return [None if n in gone else n for n in names]

    ins = [cut(left), cut(right), [*cut(prefix), None]]
    owed = {n: how for n in summed if n not in gone} if how else None
    return Factors.named(avals, out_avals, ins, [cut(kept)], owed=owed)


#: Rows of lhs come in groups, each multiplied by its own matrix of rhs.
ragged_dot_general_p = library(
    "ragged_dot_general",
    aval=_aval,
    numpy=_numpy,
    jvp=(ragged_left, ragged_right, None),
    transpose=ragged_transpose,
    batch=ragged_batch,
    factors=_factors,
    weight=2.0,
)
