"""Selecting one element in each window: the derivatives of windowed maxima and minima.

Floor 2. In: an array whose elements compete, another of their tangents or cotangents, and the
geometry of windows. Out: one element per window, or the sum of those that each element has won.
"""

from __future__ import annotations

import numpy as np

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.fold import extreme
from gpuarray.core.linear import Undefined, Zero
from gpuarray.core.primitive import Kind, Primitive, registry
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.define import check_same_dtypes, do
from gpuarray.primitives.elementwise.arithmetic import ge_p, le_p
from gpuarray.primitives.linear import add_any, full_like, zeros
from gpuarray.primitives.movement.transforms import pad_transpose, slice_transpose
from gpuarray.primitives.reduce.host import wide_of
from gpuarray.primitives.reduce.window_elements import GATHER_ADD, SCATTER_ADD
from gpuarray.primitives.reduce.window_geometry import (
    check_window,
    geometry_shape,
    pad_config,
    padder,
    slice_params,
    widened,
    window_factors,
    window_shape,
    window_slices,
)

# Ties go to the first: `greater_equal` keeps the best so far.
_BETTER = {ge_p: np.greater_equal, le_p: np.less_equal}


def _worst(select_prim, dtype):
    """The value of padding: it is chosen only if a window has no better element."""
    return extreme(dtype, select_prim is le_p)


def _gather_add_aval(
    tangents, operand, *, select_prim, window_dimensions, window_strides, padding, **dilations
):
    if tangents.shape != operand.shape:
        raise TypeError(
            "select_and_gather_add tangents and operand shapes must match, got "
            f"{tangents.shape} and {operand.shape}."
        )
    check_same_dtypes("select_and_gather_add", [tangents, operand])
    geometry = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "padding": padding,
        **dilations,
    }
    check_window("select_and_gather_add", operand.shape, *geometry.values())
    return ShapedArray(geometry_shape(operand.shape, geometry), operand.dtype)


def _gather_add_pick(avals, *, select_prim, **geometry):
    dtype = avals[1].dtype
    counts = geometry_shape(avals[1].shape, geometry)
    if 0 in counts:
        return lambda tangents, x: np.empty(counts, dtype)
    pad = padder(avals[1].shape, dtype, **geometry)
    slices = window_slices(counts, **geometry)
    better, worst, zero = _BETTER[select_prim], _worst(select_prim, dtype), dtype.type(0)

    def gather_add(tangents, x):
        if pad is not None:
            tangents, x = pad(tangents, zero), pad(x, worst)
        # Position by position: the best value so far in each window, and its tangent. `better`
        # holds for equal values too, so the first of them stays.
        best, chosen = x[slices[0]], tangents[slices[0]].copy()
        for index in slices[1:]:
            keep = better(best, x[index])
            best = np.where(keep, best, x[index])
            chosen = np.where(keep, chosen, tangents[index])
        return chosen

    return gather_add


def _gather_add_transpose(ct, tangents, operand, *, select_prim, **geometry):
    # select_and_scatter_add takes no window dilation, so that case is written out.
    if any(d != 1 for d in geometry["window_dilation"]):
        return _to_winners(ct, tangents, operand, select_prim, geometry), None
    base = geometry["base_dilation"]
    # A dilated operand is dilated first, and the holes are cut out of the result again.
    dilated_base = any(d != 1 for d in base)
    if dilated_base:
        worst = _worst(select_prim, aval_of(operand).dtype)
        config = tuple((0, 0, d - 1) for d in base)
        operand = do.pad(operand, worst, padding_config=config)
    back = do.select_and_scatter_add(
        ct,
        operand,
        select_prim=select_prim,
        window_dimensions=geometry["window_dimensions"],
        window_strides=geometry["window_strides"],
        padding=geometry["padding"],
    )
    if dilated_base:
        shape = aval_of(back).shape
        back = do.slice(
            back, start_indices=(0,) * len(shape), limit_indices=shape, strides=tuple(base)
        )
    return back, None


def _to_winners(ct, tangents, operand, select_prim, geometry: dict):
    """Where windows have holes: find each window's winner, and collect position by position."""
    counts = aval_of(ct).shape
    if 0 in counts:
        return zeros(tangents.aval)
    dtype = aval_of(operand).dtype
    config, slices = pad_config(**geometry), window_slices(counts, **geometry)
    # First pass: which position in each window holds the winner.
    x = do.pad(operand, _worst(select_prim, dtype), padding_config=config)
    best = do.slice(x, **slice_params(slices[0]))
    winner = zeros(ShapedArray(counts, np.int32))
    for k, index in enumerate(slices[1:], 1):
        here = do.slice(x, **slice_params(index))
        keep = select_prim.bind(best, here)
        best = do.select_n(keep, here, best)
        winner = do.select_n(keep, full_like(winner, k), winner)
    # Second pass: each position collects the cotangents of the windows that it has won.
    none, total = zeros(aval_of(ct)), Zero(aval_of(x))
    for k, index in enumerate(slices):
        own = do.select_n(do.eq(winner, full_like(winner, k)), none, ct)
        (back,) = slice_transpose(own, Undefined(aval_of(x)), **slice_params(index))
        total = add_any(total, back)
    back, _ = pad_transpose(total, tangents, dtype.type(0), padding_config=config)
    return back


def _select_batch(name: str):
    def batch(axis, args, dims, *, select_prim, **geometry):
        args = [with_axis(x, d, 0, axis.size) for x, d in zip(args, dims)]
        geometry = widened(geometry, 0)
        return registry[name].bind(*args, select_prim=select_prim, **geometry), 0

    return batch


#: The derivative of a windowed max or min: of each window, the tangent of the element that won.
select_and_gather_add_p = Primitive(
    "select_and_gather_add",
    Kind.LIBRARY,
    element=GATHER_ADD,
    aval=_gather_add_aval,
    numpy_pick=_gather_add_pick,
    jvp=(lambda t, out, tangents, operand, **p: do.select_and_gather_add(t, operand, **p), None),
    transpose=_gather_add_transpose,
    batch=_select_batch("select_and_gather_add"),
    factors=window_factors,
    weight=16.0,
)


def _scatter_add_aval(source, operand, *, select_prim, window_dimensions, window_strides, padding):
    # The primitive has no dilations.
    ones = (1,) * operand.ndim
    geometry = window_dimensions, window_strides, padding, ones, ones
    check_window("select_and_scatter_add", operand.shape, *geometry)
    check_same_dtypes("select_and_scatter_add", [source, operand])
    windows = window_shape(operand.shape, *geometry)
    if source.shape != windows:
        raise TypeError(
            f"select_and_scatter_add expects a source of shape {windows}, one element a window, "
            f"got {source.shape}."
        )
    return ShapedArray(operand.shape, operand.dtype)


def _scatter_add_pick(avals, *, select_prim, window_dimensions, window_strides, padding):
    source, operand = avals
    dtype = operand.dtype
    ones = (1,) * operand.ndim
    pad = padder(operand.shape, dtype, padding=padding, base_dilation=ones)
    slices = window_slices(
        source.shape,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        window_dilation=ones,
    )
    better, worst = _BETTER[select_prim], _worst(select_prim, dtype)
    wide = wide_of(dtype)
    # Sums of half precision are carried in float32. Winners are found in the padded array, and
    # their sums then cut to the operand.
    padded = tuple(n + lo + hi for n, (lo, hi) in zip(operand.shape, padding))
    inner = tuple(slice(max(lo, 0), max(lo, 0) + n) for n, (lo, _) in zip(operand.shape, padding))
    # Negative padding cuts elements off: they get zero.
    kept = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(operand.shape, padding))

    if source.size == 0:
        return lambda values, x: np.zeros(operand.shape, dtype)

    def scatter_add(values, x):
        if pad is not None:
            x = pad(x, worst)
        # Each element's number in the padded array travels with its value.
        number = np.arange(x.size).reshape(padded)
        best, where = x[slices[0]], number[slices[0]]
        for index in slices[1:]:
            keep = better(best, x[index])
            best = np.where(keep, best, x[index])
            where = np.where(keep, where, number[index])
        total = np.zeros(x.size, wide)
        # Several windows may have the same winner: `add.at` adds all of them.
        np.add.at(total, where.ravel(), values.ravel().astype(wide, copy=False))
        total = total.reshape(padded)
        out = np.zeros(operand.shape, dtype)
        out[kept] = total[inner][tuple(slice(0, s.stop - s.start) for s in kept)]
        return out

    return scatter_add


def _scatter_add_transpose(ct, source, operand, **params):
    ones = (1,) * aval_of(operand).ndim
    back = do.select_and_gather_add(ct, operand, base_dilation=ones, window_dilation=ones, **params)
    return back, None


#: The transpose of the derivative: each source element goes to the selected element of its window.
select_and_scatter_add_p = Primitive(
    "select_and_scatter_add",
    Kind.LIBRARY,
    element=SCATTER_ADD,
    aval=_scatter_add_aval,
    numpy_pick=_scatter_add_pick,
    jvp=(lambda t, out, source, operand, **p: do.select_and_scatter_add(t, operand, **p), None),
    transpose=_scatter_add_transpose,
    batch=_select_batch("select_and_scatter_add"),
    factors=window_factors,
    weight=16.0,
)
