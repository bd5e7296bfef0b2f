"""Sorting by one or several keys, and the k largest (or smallest) elements.

Floor 2. In: arrays, and the axis to sort along. Out: the arrays rearranged.

- `sort` is by value (-0.0 equals 0.0, every nan comes last), complex numbers by real part and then
  imaginary part.
- `top_k` is by total order (-0.0 below 0.0, nan above all).
- Equal elements keep their order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray.core import dtypes, threads
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dims import smaller
from gpuarray.core.factors import all_but
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.primitive import NOT_LINEAR, Kind, Order, Primitive, registry
from gpuarray.primitives.axes import add_axis, with_axis
from gpuarray.primitives.define import ANY, check_dtype, do
from gpuarray.primitives.indexing.shapes import GatherDimensionNumbers, GatherScatterMode
from gpuarray.primitives.numpy_rules import is_foreign, order_key

_STABLE = "stable"
#: From this many elements on it pays to look for zeros of both signs, which rule out the faster
#: unstable sort.
_LONG = 256
#: Elements whose keys stay in cache.
AT_ONCE = 1 << 16


# ---- sort ----


def _sort_aval(*operands, dimension, is_stable, num_keys):
    if not operands:
        raise TypeError("Sort requires at least one operand")
    if any(a.shape != operands[0].shape for a in operands):
        shapes = " ".join(str(a.shape) for a in operands)
        raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(operands)}")
    if not 0 <= dimension < operands[0].ndim:
        raise ValueError(
            f"axis {dimension} is out of bounds for array of dimension {operands[0].ndim}"
        )
    for i, key in enumerate(operands[:num_keys]):
        check_dtype("sort", key.dtype, ANY, i)
    return list(operands)


def _sortable(key: Any) -> list[np.ndarray]:
    """Return a key as columns that NumPy orders as we do: wide floats, parts of complex numbers."""
    kind = dtypes.kind_of(key.dtype)
    if kind == "c":
        return [key.real, key.imag]
    if is_foreign(key.dtype):  # a type of ml_dtypes
        return [key.astype(np.float32 if kind == "f" else np.int8)]
    return [key]


def _order(keys, axis: int) -> np.ndarray:
    # Columns in the order of their weight, the main one first.
    columns = [column for key in keys for column in _sortable(key)]
    if len(columns) == 1:
        return np.argsort(columns[0], axis, _STABLE)
    return np.lexsort(columns[::-1], axis)  # NumPy wants the main key last


def _sort_one(x: np.ndarray, axis: int) -> np.ndarray:
    # Complex numbers: by two columns.
    columns = _sortable(x)
    # A complex array is rearranged, since NumPy has no sort of two columns by value.
    if len(columns) > 1:
        return np.take_along_axis(x, _order([x], axis), axis)
    (wide,) = columns
    # -0.0 and 0.0 are equal but not the same: only a stable sort keeps their order.
    if wide.dtype.kind == "f" and (wide.size < _LONG or np.signbit(wide[wide == 0]).any()):
        out = np.sort(wide, axis, _STABLE)
    else:
        out = np.sort(wide, axis)  # equal elements are the same bits: any order will do
    return out if wide is x else out.astype(x.dtype)


def _sort_pick(avals, *, dimension, is_stable, num_keys):
    if len(avals) == 1:
        return lambda x: [_sort_one(x, dimension)]

    def sort(*xs):
        # Several operands: the order of the keys, applied to all.
        order = _order(xs[:num_keys], dimension)
        return [np.take_along_axis(x, order, dimension) for x in xs]

    return sort


def _taken(x, where, axis: int):
    """Take along an axis of `x` the elements at `where`, index vectors of length 1."""
    # Each position picks one element: all axes but `axis` go along as batch axes of the gather.
    others = tuple(d for d in range(aval_of(x).ndim) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return do.gather(
        x,
        where,
        dimension_numbers=numbers,
        slice_sizes=tuple(smaller(1, n) for n in aval_of(x).shape),
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def _sort_jvp(primals, tangents, *, dimension, is_stable, num_keys):
    """Sort positions along with the operands, and take the tangents from there.

    vjp: ct ↦ ct scattered back.
    """
    # The positions are sorted as one more operand, so they end up where the elements came from.
    shape = aval_of(primals[0]).shape
    positions = do.iota(dtype=np.dtype(np.uint32), shape=shape, dimension=dimension, sharding=None)
    *out, where = do.sort(
        *primals, positions, dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    if 0 in shape:
        return out, [Zero(tangent_aval(aval_of(x))) for x in primals]
    where = add_axis(where, len(shape))
    return out, [
        Zero(tangent_aval(aval_of(x))) if is_zero(t) else _taken(t, where, dimension)
        for x, t in zip(primals, tangents)
    ]


def _sort_batch(axis, args, dims, *, dimension, is_stable, num_keys):
    at = next(d for d in dims if d is not None)
    args = [with_axis(x, d, at, axis.size) for x, d in zip(args, dims)]
    # The axis to sort is one further back if the batch axis is before it.
    dimension += dimension >= at
    out = do.sort(*args, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    return out, [at] * len(args)


sort_p = Primitive(
    "sort",
    Kind.SORT,
    order=Order(axis="dimension", keys="num_keys"),
    jvp=_sort_jvp,
    transpose=NOT_LINEAR,
    batch=_sort_batch,
    aval=_sort_aval,
    numpy_pick=_sort_pick,
    weight=40.0,
    multiple_results=True,
)


# ---- the k largest ----


def _top_k_aval(operand, *, k, axis):
    if dtypes.kind_of(operand.dtype) == "c":
        raise ValueError("top_k is not compatible with complex inputs.")
    check_dtype("top_k", operand.dtype, ANY)
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    if not 0 <= axis < operand.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {operand.ndim}")
    if k > operand.shape[axis]:
        raise ValueError(
            f"k argument to top_k must be no larger than size along axis; got k={k} with "
            f"shape={list(operand.shape)} and axis={axis}"
        )
    return _chosen(operand, axis, k)


def _chosen(operand, axis: int, length: int) -> list[ShapedArray]:
    shape = (*operand.shape[:axis], length, *operand.shape[axis + 1 :])
    return [operand.update(shape=shape), ShapedArray(shape, np.int32, operand.weak_type)]


def _ascending(x: np.ndarray) -> np.ndarray:
    """Return integers (or bools) that order as the elements of `x` do in total order."""
    if dtypes.kind_of(x.dtype) != "f":
        # Values sort directly; sub-byte integers are widened for NumPy.
        return x if x.dtype.kind != "V" else x.astype(np.int8)
    return order_key(x)


def _first_k(key: np.ndarray, k: int) -> np.ndarray:
    """Return where the k smallest are along the last axis, ascending, the first of equals first."""
    n = key.shape[-1]
    # For short or nearly full selections a whole sort is faster.
    if n <= 256 or k * 4 >= n:
        return np.argsort(key, axis=-1, kind=_STABLE)[..., :k]
    if k == 0:
        return np.empty((*key.shape[:-1], 0), np.intp)
    # Select before sorting: all up to the k-th smallest.
    last = np.partition(key, k - 1, axis=-1)[..., k - 1 : k]
    taken = key <= last
    if np.count_nonzero(taken) != k * (key.size // n):
        # More than k: the first of those equal to the k-th smallest fill the places that are left.
        below, equal = key < last, key == last
        room = k - below.sum(-1, keepdims=True)
        taken = below | (equal & (np.cumsum(equal, axis=-1) <= room))
    # Positions come in ascending order, so equal elements keep theirs.
    where = np.flatnonzero(taken.reshape(-1)).reshape(*key.shape[:-1], k) % n
    return np.take_along_axis(
        where, np.argsort(np.take_along_axis(key, where, -1), axis=-1, kind=_STABLE), -1
    )


def _select(x: np.ndarray, axis: int, k: int, largest: bool) -> list[np.ndarray]:
    # Work along the last axis; ~key reverses the order of integers without overflow.
    last = axis == x.ndim - 1
    lanes = x if last else np.moveaxis(x, axis, -1)
    lines = lanes.reshape(-1, lanes.shape[-1]) if lanes.size else lanes
    where = np.empty((*lanes.shape[:-1], k), np.intp)
    found = where.reshape(len(lines), k) if where.size else where

    def choose(part: slice) -> None:
        # Some rows, whose keys stay in cache.
        key = _ascending(np.ascontiguousarray(lines[part]))
        found[part] = _first_k(~key if largest else key, k)

    if where.size:
        threads.each(choose, len(lines), max(1, AT_ONCE // lines.shape[1]))
    values = lanes[where] if x.ndim == 1 else np.take_along_axis(lanes, where, -1)
    where = where.astype(np.int32)
    if not last:
        values, where = np.moveaxis(values, -1, axis), np.moveaxis(where, -1, axis)
    return [values, where]


def _selected_jvp(name: str, axis_of):
    """Return the jvp of a selection: tangents of the selected elements; positions have none."""

    def jvp(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        values, where = registry[name].bind(x, **params)
        none = Zero(tangent_aval(aval_of(where)))
        # An empty selection: no element to take.
        if not aval_of(where).size:
            return [values, where], [Zero(tangent_aval(aval_of(values))), none]
        positions = (*aval_of(where).shape, 1)
        at = do.reshape(where, new_sizes=positions, dimensions=None, sharding=None)
        return [values, where], [_taken(t, at, axis_of(aval_of(x), params)), none]

    return jvp


def _top_k_batch(mapped, args, dims, *, k, axis):
    (x,), (d,) = args, dims
    return do.top_k(x, k=k, axis=axis + (axis >= d)), [d, d]


top_k_p = Primitive(
    "top_k",
    Kind.SORT,
    order=Order(axis="axis", takes="k"),
    jvp=_selected_jvp("top_k", lambda aval, params: params["axis"]),
    transpose=NOT_LINEAR,
    batch=_top_k_batch,
    aval=_top_k_aval,
    numpy=lambda x, *, k, axis: _select(x, axis, k, True),
    weight=20.0,
    multiple_results=True,
)


def approx_length(rank: int, n: int, k: int, recall: float, input_size: int, final: bool) -> int:
    """Return how many candidates an approximate top-k keeps; k if a final exact step follows.

    The elements are dealt into m bins and the best of each bin is kept: one of the k best survives
    with a chance of about exp(-(k-1)/m), so `recall` sets m. Bins come in tiles (1024 wide for
    vectors, 128 otherwise).
    """
    if final:
        return k
    tile = 1024 if rank == 1 else 128
    if n <= tile:
        return n
    if k == 1:
        return tile
    total = input_size if input_size >= 0 else n
    # exp(-(k - 1) / m) >= recall, solved for m.
    bins = max(int((1.0 - k) / math.log(recall)), tile) if recall < 1.0 else n
    # Each halving leaves half as many candidates, as long as there are bins enough.
    halvings = max(0, int(math.log2(max(total / min(bins, n), 1.0))))
    if halvings == 0:
        return n
    tiles = -(-n // tile)
    halvings = min(halvings, int(math.log2(tiles)))
    return -(-tiles // (1 << halvings)) * tile


def _approx_axis(operand, reduction_dimension: int) -> int:
    # Negative axes count from the end, as in JAX's interface.
    axis = reduction_dimension + operand.ndim * (reduction_dimension < 0)
    if not 0 <= axis < operand.ndim:
        raise ValueError(
            f"axis {reduction_dimension} is out of bounds for array of dimension {operand.ndim}"
        )
    return axis


def _approx_aval(
    operand,
    *,
    k,
    reduction_dimension,
    recall_target,
    is_max_k,
    reduction_input_size_override,
    aggregate_to_topk,
):
    if k <= 0:
        raise ValueError(f"k must be positive, got {k}")
    if operand.ndim == 0:
        raise TypeError("approx_top_k operand must have >= 1 dimension, got ()")
    axis = _approx_axis(operand, reduction_dimension)
    n = operand.shape[axis]
    if n < k:
        raise ValueError(f"k must be smaller than the size of reduction_dim {n}, got {k}")
    if dtypes.kind_of(operand.dtype) != "f":
        raise ValueError(f"operand must be a floating type, got {operand.dtype.name}")
    if not 0.0 < recall_target <= 1.0:
        raise ValueError(f"recall_target out of range: it must be in (0, 1], got {recall_target}")
    length = approx_length(
        operand.ndim, n, k, recall_target, reduction_input_size_override, aggregate_to_topk
    )
    return _chosen(operand, axis, length)


def _approx_pick(avals, *, is_max_k, reduction_dimension, **params):
    # The exact selection is within every recall target.
    (operand,) = avals
    out, _ = _approx_aval(
        operand, is_max_k=is_max_k, reduction_dimension=reduction_dimension, **params
    )
    axis = _approx_axis(operand, reduction_dimension)
    return lambda x: _select(x, axis, out.shape[axis], is_max_k)


def _approx_batch(mapped, args, dims, *, reduction_dimension, **params):
    (x,), (d,) = args, dims
    axis = reduction_dimension + (aval_of(x).ndim - 1) * (reduction_dimension < 0)
    return do.approx_top_k(x, reduction_dimension=axis + (axis >= d), **params), [d, d]


approx_top_k_p = Primitive(
    "approx_top_k",
    Kind.LIBRARY,
    jvp=_selected_jvp(
        "approx_top_k", lambda aval, params: _approx_axis(aval, params["reduction_dimension"])
    ),
    transpose=NOT_LINEAR,
    batch=_approx_batch,
    factors=lambda avals, out_avals, params: all_but(
        (_approx_axis(avals[0], params["reduction_dimension"]),), avals, out_avals
    ),
    aval=_approx_aval,
    numpy_pick=_approx_pick,
    weight=20.0,
    multiple_results=True,
)
