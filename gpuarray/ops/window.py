"""Folds over sliding windows, and the selection of one element in each window.

In: an array, and for each axis the window's length, stride, padding and dilations. Out: one fold
(or one chosen element) a window. Padding counts as the fold's identity. Floor 2.
"""

from __future__ import annotations

import itertools

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Graph, storage_dtype
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, Kind, Primitive
from gpuarray.ops.define import ANY, NUMERIC, accepts, check_same_dtypes
from gpuarray.ops.elementwise import ge_p, le_p
from gpuarray.ops.movement import pad_p
from gpuarray.ops.reduce import extreme, identity_of, wide_of
from gpuarray.ops.scalar_graph import check_fold, on_arrays


def dilated(length: int, dilation: int) -> int:
    """The length of an axis with `dilation - 1` holes between neighbours."""
    return 0 if length == 0 else (length - 1) * dilation + 1


def window_shape(shape, window, strides, padding, base_dilation, window_dilation):
    """How many windows fit along each axis."""
    padded = [dilated(n, d) + lo + hi for n, d, (lo, hi) in zip(shape, base_dilation, padding)]
    spans = [dilated(w, d) for w, d in zip(window, window_dilation)]
    return tuple(
        (n - span) // stride + 1 if n >= span else 0
        for n, span, stride in zip(padded, spans, strides)
    )


def check_window(op, shape, window, strides, padding, base_dilation, window_dilation) -> None:
    """Raise for window parameters that do not fit the operand or one another."""
    if len(window) != len(shape):
        raise TypeError(
            f"{op} got the wrong number of window_dimensions for operand: got operand shape "
            f"{shape} with window_dimensions {window}."
        )
    for what, given in (
        ("window_strides", strides),
        ("base_dilation", base_dilation),
        ("window_dilation", window_dilation),
    ):
        if len(given) != len(window):
            raise TypeError(
                f"{op} got inconsistent {what} and window_dimensions: got {what} {given} and "
                f"window_dimensions {window}."
            )
    if len(padding) != len(window):
        raise ValueError(
            f"{op} got inconsistent padding and window_dimensions: got padding of length "
            f"{len(padding)} and window_dimensions {window}."
        )
    for what, given in (("window_dimensions", window), ("window_strides", strides)):
        if any(n <= 0 for n in given):
            raise TypeError(
                f"{op} {what} must have every element be strictly positive, got {given}."
            )
    for given in (base_dilation, window_dilation):
        if any(n <= 0 for n in given):
            raise TypeError(f"All dilations must be positive, got {given}.")


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


def _padder(shape, dtype, padding, base_dilation):
    """A function that puts padding around an array and holes into it; None if there are none."""
    config = tuple((lo, hi, d - 1) for (lo, hi), d in zip(padding, base_dilation))
    if not any(map(any, config)):
        return None
    scalar = ShapedArray((), dtype)
    return pad_p.numpy_function([ShapedArray(shape, dtype), scalar], {"padding_config": config})


def _fold_axis(
    ufunc, x, axis: int, count: int, length: int, stride: int, dilation: int
) -> np.ndarray:
    """Fold `count` windows along one axis, looping over whatever is fewer: windows or positions."""
    before = (slice(None),) * axis
    if length == 1:
        return x[(*before, slice(0, (count - 1) * stride + 1, stride))]
    if count < length:
        span = dilated(length, dilation)
        folds = [
            ufunc.reduce(
                x[(*before, slice(i * stride, i * stride + span, dilation))], axis, x.dtype
            )
            for i in range(count)
        ]
        return np.stack(folds, axis)
    starts = range(0, dilated(length, dilation), dilation)
    parts = [x[(*before, slice(k, k + (count - 1) * stride + 1, stride))] for k in starts]
    out = ufunc(parts[0], parts[1])
    for part in parts[2:]:
        ufunc(out, part, out=out)
    return out


def _fold_pick(ufunc: np.ufunc):
    def pick(avals, **geometry):
        (operand,) = avals
        window, strides = geometry["window_dimensions"], geometry["window_strides"]
        dilations = geometry["window_dilation"]
        counts = _geometry_shape(operand.shape, geometry)
        dtype = operand.dtype
        if 0 in counts:
            return lambda x: np.empty(counts, dtype)
        # Folds of narrow numbers are carried in wider ones and rounded once.
        wide = wide_of(dtype)
        pad = _padder(operand.shape, wide, geometry["padding"], geometry["base_dilation"])
        identity = identity_of(ufunc, dtype).astype(wide)

        def fold(x):
            out = x.astype(wide, copy=False)
            if pad is not None:
                out = pad(out, identity)
            for axis, along in enumerate(zip(counts, window, strides, dilations)):
                out = _fold_axis(ufunc, out, axis, *along)
            return out.astype(dtype, copy=np.may_share_memory(out, x))

        return fold

    return pick


def _geometry_shape(shape, geometry: dict):
    return window_shape(
        shape,
        geometry["window_dimensions"],
        geometry["window_strides"],
        geometry["padding"],
        geometry["base_dilation"],
        geometry["window_dilation"],
    )


def _windowed(name: str, ufunc: np.ufunc, accepted) -> Primitive:
    return Primitive(
        name,
        Kind.LIBRARY,
        aval=_aval(name, accepted),
        numpy_pick=_fold_pick(ufunc),
        combine=ufunc,
        weight=8.0,
    )


reduce_window_sum_p = _windowed("reduce_window_sum", np.add, NUMERIC)
reduce_window_max_p = _windowed("reduce_window_max", np.maximum, ANY)
reduce_window_min_p = _windowed("reduce_window_min", np.minimum, ANY)


# ---- any fold ----


def _general_aval(*avals, jaxpr: Graph, consts=(), **geometry):
    operands, initial = avals[: len(avals) // 2], avals[len(avals) // 2 :]
    first = operands[0]
    if any(a.shape != first.shape for a in operands):
        shapes = [a.shape for a in operands]
        raise TypeError(f"reduce_window operands must have equal shapes, got {shapes}.")
    check_fold("reduce_window", operands, initial, jaxpr)
    order = "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"
    check_window("reduce_window", first.shape, *(geometry[k] for k in order))
    shape = _geometry_shape(first.shape, geometry)
    return [ShapedArray(shape, a.dtype) for a in operands]


def _general_pick(avals, *, jaxpr, consts=(), **geometry):
    operands = avals[: len(avals) // 2]
    combine = on_arrays(jaxpr)
    shape = operands[0].shape
    counts = _geometry_shape(shape, geometry)
    if 0 in counts:
        return lambda *_: [np.empty(counts, storage_dtype(a)) for a in operands]
    pads = [
        _padder(shape, storage_dtype(a), geometry["padding"], geometry["base_dilation"])
        for a in operands
    ]
    places = _window_places(counts, **geometry)

    def fold(*values):
        xs, starts = values[: len(operands)], values[len(operands) :]
        xs = [x if pad is None else pad(x, start) for x, pad, start in zip(xs, pads, starts)]
        out = [np.full(counts, start, x.dtype) for x, start in zip(xs, starts)]
        for place in places:
            out = combine(*out, *(x[place] for x in xs))
        return out

    return fold


def _window_places(counts, *, window_dimensions, window_strides, window_dilation, **_):
    """For every position in a window, in row-major order, where all windows have that element."""
    return [
        tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, n, s, d in zip(position, counts, window_strides, window_dilation)
        )
        for position in itertools.product(*map(range, window_dimensions))
    ]


reduce_window_p = Primitive(
    "reduce_window",
    Kind.LIBRARY,
    aval=_general_aval,
    numpy_pick=_general_pick,
    weight=16.0,
    multiple_results=True,
)


# ---- one element of each window ----

_BETTER = {ge_p: np.greater_equal, le_p: np.less_equal}


def _worst(select_prim, dtype):
    """What padding counts as: it is chosen only where a window holds nothing better."""
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
    return ShapedArray(_geometry_shape(operand.shape, geometry), operand.dtype)


def _gather_add_pick(avals, *, select_prim, **geometry):
    dtype = avals[1].dtype
    counts = _geometry_shape(avals[1].shape, geometry)
    if 0 in counts:
        return lambda tangents, x: np.empty(counts, dtype)
    pad = _padder(avals[1].shape, dtype, geometry["padding"], geometry["base_dilation"])
    places = _window_places(counts, **geometry)
    better, worst, zero = _BETTER[select_prim], _worst(select_prim, dtype), dtype.type(0)

    def gather_add(tangents, x):
        if pad is not None:
            tangents, x = pad(tangents, zero), pad(x, worst)
        best, chosen = x[places[0]], tangents[places[0]].copy()
        for place in places[1:]:
            keep = better(best, x[place])
            best = np.where(keep, best, x[place])
            chosen = np.where(keep, chosen, tangents[place])
        return chosen

    return gather_add


#: The derivative of a windowed max or min: of each window, the tangent of the element that won.
select_and_gather_add_p = Primitive(
    "select_and_gather_add",
    Kind.LIBRARY,
    aval=_gather_add_aval,
    numpy_pick=_gather_add_pick,
    weight=16.0,
)


def _scatter_add_aval(source, operand, *, select_prim, window_dimensions, window_strides, padding):
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
    pad = _padder(operand.shape, dtype, padding, ones)
    places = _window_places(
        source.shape,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        window_dilation=ones,
    )
    better, worst = _BETTER[select_prim], _worst(select_prim, dtype)
    wide = wide_of(dtype)
    padded = tuple(n + lo + hi for n, (lo, hi) in zip(operand.shape, padding))
    inner = tuple(slice(max(lo, 0), max(lo, 0) + n) for n, (lo, _) in zip(operand.shape, padding))
    # Negative padding cuts elements off: they get nothing.
    kept = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(operand.shape, padding))

    if source.size == 0:
        return lambda values, x: np.zeros(operand.shape, dtype)

    def scatter_add(values, x):
        if pad is not None:
            x = pad(x, worst)
        number = np.arange(x.size).reshape(padded)
        best, where = x[places[0]], number[places[0]]
        for place in places[1:]:
            keep = better(best, x[place])
            best = np.where(keep, best, x[place])
            where = np.where(keep, where, number[place])
        total = np.zeros(x.size, wide)
        np.add.at(total, where.ravel(), values.ravel().astype(wide, copy=False))
        total = total.reshape(padded)
        out = np.zeros(operand.shape, dtype)
        out[kept] = total[inner][tuple(slice(0, s.stop - s.start) for s in kept)]
        return out

    return scatter_add


#: The transpose of the derivative: each source element goes to the element that won its window.
select_and_scatter_add_p = Primitive(
    "select_and_scatter_add",
    Kind.LIBRARY,
    aval=_scatter_add_aval,
    numpy_pick=_scatter_add_pick,
    jvp=NOT_DIFFERENTIABLE,
    weight=16.0,
)
