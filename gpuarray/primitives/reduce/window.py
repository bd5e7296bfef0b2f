"""Folds over sliding windows.

Floor 2. In: an array, and the geometry of windows (`window_geometry.py`). Out: one fold per window.
Padding counts as the fold's identity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.fold import Fold
from gpuarray.core.graph import Graph, storage_dtype
from gpuarray.core.primitive import BY_PARTS, LINEAR, NOT_LINEAR, Kind, Primitive, registry
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.define import ANY, NUMERIC, accepts, do
from gpuarray.primitives.movement.transforms import pad_each
from gpuarray.primitives.reduce.elements import REDUCE_WINDOW, side_by_side
from gpuarray.primitives.reduce.host import wide_of
from gpuarray.primitives.reduce.ops import LARGEST, SMALLEST, SUM
from gpuarray.primitives.reduce.window_elements import FOLDED
from gpuarray.primitives.reduce.window_geometry import (
    ALONE,
    check_window,
    dilated,
    geometry_shape,
    pad_config,
    padder,
    slice_params,
    widened,
    window_factors,
    window_shape,
    window_slices,
)
from gpuarray.primitives.scalar_graph import bind_on_arrays, check_fold, on_arrays


def _aval(name: str, accepted):
    def aval(
        operand, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
    ):
        if not accepts(accepted, operand.dtype):
            raise TypeError(f"operand to {name} must have a number dtype, got {operand.dtype.name}")
        geometry = window_dimensions, window_strides, padding, base_dilation, window_dilation
        check_window("reduce_window", operand.shape, *geometry)
        return operand.update(shape=window_shape(operand.shape, *geometry))

    return aval


def _fold_axis(
    ufunc, x, axis: int, count: int, length: int, stride: int, dilation: int
) -> np.ndarray:
    """Fold `count` windows along one axis; loop over windows or positions, whichever is fewer."""
    # A slice of the axis under consideration, all of those before it.
    before = (slice(None),) * axis
    # Windows of one element: every stride-th element.
    if length == 1:
        return x[(*before, slice(0, (count - 1) * stride + 1, stride))]
    # Fewer windows than positions: one call of NumPy for each window.
    if count < length:
        span = dilated(length, dilation)
        folds = [
            ufunc.reduce(
                x[(*before, slice(i * stride, i * stride + span, dilation))], axis, x.dtype
            )
            for i in range(count)
        ]
        return np.stack(folds, axis)
    # One strided slice of the whole for each position in the window.
    starts = range(0, dilated(length, dilation), dilation)
    parts = [x[(*before, slice(k, k + (count - 1) * stride + 1, stride))] for k in starts]
    out = ufunc(parts[0], parts[1])
    for part in parts[2:]:
        # `out` is fresh since the first call above.
        ufunc(out, part, out=out)
    return out


def _fold_pick(rule: Fold):
    def pick(avals, **geometry):
        (operand,) = avals
        window, strides = geometry["window_dimensions"], geometry["window_strides"]
        dilations = geometry["window_dilation"]
        counts = geometry_shape(operand.shape, geometry)
        dtype = operand.dtype
        if 0 in counts:
            return lambda x: np.empty(counts, dtype)
        # Folds of narrow numbers are accumulated in wider ones and rounded once.
        wide = wide_of(dtype)
        # Padding is in the wide type, as the fold is.
        pad = padder(operand.shape, wide, **geometry)
        nothing = rule.of_nothing if wide is dtype else rule.identity.held
        identity = nothing(dtype).astype(wide)

        def fold(x):
            out = x.astype(wide, copy=False)
            if pad is not None:
                out = pad(out, identity)
            # Axis by axis: a window of w x h takes w + h steps, not w * h.
            for axis, along in enumerate(zip(counts, window, strides, dilations)):
                out = _fold_axis(rule.ufunc, out, axis, *along)
            return out.astype(dtype, copy=np.may_share_memory(out, x))

        return fold

    return pick


def _fold_batch(name: str):
    def batch(axis, args, dims, **geometry):
        # The batch axis is one more along which windows have length 1.
        (x,), (d,) = args, dims
        return registry[name].bind(x, **widened(geometry, d)), d

    return batch


def _sum_transpose(ct, operand, **geometry):
    """Give every element the sum of the windows that hold it: again a sum over windows."""
    shape, counts = operand.aval.shape, aval_of(ct).shape
    window, dilations = geometry["window_dimensions"], geometry["window_dilation"]
    strides, base = geometry["window_strides"], geometry["base_dilation"]
    config = []
    for axis, (n, count) in enumerate(zip(shape, counts)):
        # Each cotangent lands at its window's start, with the strides as holes; windows then slide
        # over them. Low and high padding align the two (negative padding cuts).
        before = dilated(window[axis], dilations[axis]) - 1
        low = before - geometry["padding"][axis][0]
        length = dilated(n, base[axis]) + before
        config.append((low, length - low - dilated(count, strides[axis]), strides[axis] - 1))
    padded = do.pad(ct, operand.aval.dtype.type(0), padding_config=tuple(config))
    back = do.reduce_window_sum(
        padded,
        window_dimensions=window,
        window_strides=base,
        padding=((0, 0),) * len(shape),
        base_dilation=(1,) * len(shape),
        window_dilation=dilations,
    )
    return (back,)


def _extreme_jvp(select: str):
    """The tangent of the element that is the window's extreme: the first of equals."""

    def jvp(t, out, operand, **geometry):
        return do.select_and_gather_add(t, operand, select_prim=registry[select], **geometry)

    return (jvp,)


def _by_axis(eqn) -> list[tuple[dict, ShapedArray]]:
    """Return the equivalent folds along one axis each, if that takes at most half of the steps;
    none if a sum would be rounded more often.
    """
    aval, out = eqn.invars[0].aval, eqn.outvars[0].aval
    dtype, params = storage_dtype(aval), eqn.params
    if eqn.primitive.plain_fold is np.add and wide_of(dtype) != dtype:
        return []
    found, steps = [], 0
    for axis in range(aval.ndim):
        alone = all(params[key][axis] == value for key, value in ALONE.items())
        if alone:
            continue
        keys = {key: [value] * aval.ndim for key, value in ALONE.items()}
        for key, values in keys.items():
            values[axis] = params[key][axis]
        one = {**params, **{key: tuple(values) for key, values in keys.items()}}
        aval = aval.update(shape=geometry_shape(aval.shape, one))
        steps += aval.size * params["window_dimensions"][axis]
        found.append((one, aval))
    direct = out.size * math.prod(params["window_dimensions"])
    return found if len(found) > 1 and 2 * steps <= direct else []


def _windowed(name: str, fold: Fold, accepted, jvp, transpose: Any = NOT_LINEAR) -> Primitive:
    return Primitive(
        name,
        Kind.LIBRARY,
        aval=_aval(name, accepted),
        numpy_pick=_fold_pick(fold),
        fold=fold,
        element=FOLDED,
        weight=8.0,
        jvp=jvp,
        transpose=transpose,
        batch=_fold_batch(name),
        factors=window_factors,
        rewrite=Rewrite(by_axis=_by_axis),
    )


reduce_window_sum_p = _windowed("reduce_window_sum", SUM, NUMERIC, LINEAR, _sum_transpose)
reduce_window_max_p = _windowed("reduce_window_max", LARGEST, ANY, _extreme_jvp("ge"))
reduce_window_min_p = _windowed("reduce_window_min", SMALLEST, ANY, _extreme_jvp("le"))


# ---- any fold ----


def _general_aval(*avals, jaxpr: Graph, consts=(), **geometry):
    # The operands come first, then an initial value for each.
    operands, initial = avals[: len(avals) // 2], avals[len(avals) // 2 :]
    first = operands[0]
    if any(a.shape != first.shape for a in operands):
        shapes = [a.shape for a in operands]
        raise TypeError(f"reduce_window operands must have equal shapes, got {shapes}.")
    check_fold("reduce_window", operands, initial, jaxpr)
    order = "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"
    check_window("reduce_window", first.shape, *(geometry[k] for k in order))
    shape = geometry_shape(first.shape, geometry)
    return [ShapedArray(shape, a.dtype) for a in operands]


def _general_pick(avals, *, jaxpr, consts=(), **geometry):
    operands = avals[: len(avals) // 2]
    combine = on_arrays(jaxpr)
    shape = operands[0].shape
    counts = geometry_shape(shape, geometry)
    if 0 in counts:
        return lambda *_: [np.empty(counts, storage_dtype(a)) for a in operands]
    pads = [padder(shape, storage_dtype(a), **geometry) for a in operands]
    slices = window_slices(counts, **geometry)

    # For every position in the window, its slice of the padded array.
    def fold(*values):
        xs, starts = values[: len(operands)], values[len(operands) :]
        # Padding counts as the initial value of each operand.
        xs = [x if pad is None else pad(x, start) for x, pad, start in zip(xs, pads, starts)]
        # Position by position, all windows together, in row-major order of the window.
        out = [np.full(counts, start, x.dtype) for x, start in zip(xs, starts)]
        for index in slices:
            out = combine(*out, *(x[index] for x in xs))
        return out

    return fold


def _general_parts(*values, jaxpr, consts=(), **geometry):
    """Each position in the windows is a slice of the whole; they are folded one after another.

    Initial values are scalars, or vectors with one for each index along the first axis.
    """
    count = len(values) // 2
    xs, starts = values[:count], values[count:]
    counts = geometry_shape(aval_of(xs[0]).shape, geometry)
    out = [
        do.broadcast_in_dim(
            s,
            shape=counts,
            broadcast_dimensions=tuple(range(aval_of(s).ndim)),
            sharding=None,
        )
        for s in starts
    ]
    if 0 in counts:
        return out
    config = pad_config(**geometry)
    if any(map(any, config)):
        xs = [
            pad_each(x, s, 0, config) if aval_of(s).ndim else do.pad(x, s, padding_config=config)
            for x, s in zip(xs, starts)
        ]
    # In row-major order of the window, which a fold that is not commutative depends on.
    for index in window_slices(counts, **geometry):
        out = bind_on_arrays(jaxpr, *out, *(do.slice(x, **slice_params(index)) for x in xs))
    return out


def _general_batch(axis, args, dims, *, jaxpr, consts=(), **geometry):
    count = len(args) // 2
    xs = [with_axis(x, d, 0, axis.size) for x, d in zip(args[:count], dims[:count])]
    params = {"jaxpr": jaxpr, "consts": consts, **widened(geometry, 0)}
    # Batched initial values are vectors, which the primitive does not take.
    if all(d is None for d in dims[count:]):
        out = reduce_window_p.bind(*xs, *args[count:], **params)
    else:
        starts = [with_axis(x, d, 0, axis.size) for x, d in zip(args[count:], dims[count:])]
        out = _general_parts(*xs, *starts, **params)
    return out, [0] * count


reduce_window_p = Primitive(
    "reduce_window",
    Kind.LIBRARY,
    rewrite=Rewrite(reduces=side_by_side),
    element=REDUCE_WINDOW,
    jvp=BY_PARTS,
    transpose=NOT_LINEAR,
    batch=_general_batch,
    factors=window_factors,
    decompose=_general_parts,
    aval=_general_aval,
    numpy_pick=_general_pick,
    weight=16.0,
    multiple_results=True,
)
