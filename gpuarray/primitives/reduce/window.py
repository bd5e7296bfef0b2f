"""Folds over sliding windows, and the selection of one element in each window.

Floor 2. In: an array, and for each axis the window's length, stride, padding and dilations. Out:
one fold, or one chosen element, per window. Padding counts as the fold's identity.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dims import larger
from gpuarray.core.factors import Factors
from gpuarray.core.fold import Fold, extreme
from gpuarray.core.graph import Graph, storage_dtype
from gpuarray.core.linear import Undefined, Zero
from gpuarray.core.primitive import BY_PARTS, LINEAR, NOT_LINEAR, Kind, Primitive, registry
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.define import ANY, NUMERIC, accepts, check_same_dtypes, do
from gpuarray.primitives.elementwise.arithmetic import ge_p, le_p
from gpuarray.primitives.linear import add_any, full_like, zeros
from gpuarray.primitives.movement.ops import pad_p
from gpuarray.primitives.movement.transforms import pad_each, pad_transpose, slice_transpose
from gpuarray.primitives.reduce.elements import REDUCE_WINDOW, side_by_side
from gpuarray.primitives.reduce.host import wide_of
from gpuarray.primitives.reduce.ops import LARGEST, SMALLEST, SUM
from gpuarray.primitives.reduce.window_elements import FOLDED, GATHER_ADD, SCATTER_ADD
from gpuarray.primitives.scalar_graph import bind_on_arrays, check_fold, on_arrays


def dilated(length: int, dilation: int) -> int:
    """Return the length of an axis with `dilation - 1` holes between neighbours."""
    return 0 if length == 0 else (length - 1) * dilation + 1


def window_shape(shape, window, strides, padding, base_dilation, window_dilation):
    """Return how many windows fit along each axis."""
    padded = [dilated(n, d) + lo + hi for n, d, (lo, hi) in zip(shape, base_dilation, padding)]
    # A dilated window covers its elements and the holes between them.
    spans = [dilated(w, d) for w, d in zip(window, window_dilation)]
    return tuple(
        larger((n - span) // stride + 1, 0) for n, span, stride in zip(padded, spans, strides)
    )


def check_window(op, shape, window, strides, padding, base_dilation, window_dilation) -> None:
    """Raise TypeError or ValueError for parameters that do not fit the operand or each other."""
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
    """Return a function that adds padding and holes to an array; None if there are none."""
    # The third number is interior padding: holes between neighbours.
    config = tuple((lo, hi, d - 1) for (lo, hi), d in zip(padding, base_dilation))
    if not any(map(any, config)):
        return None
    scalar = ShapedArray((), dtype)
    return pad_p.numpy_function([ShapedArray(shape, dtype), scalar], {"padding_config": config})


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
        counts = _geometry_shape(operand.shape, geometry)
        dtype = operand.dtype
        if 0 in counts:
            return lambda x: np.empty(counts, dtype)
        # Folds of narrow numbers are carried in wider ones and rounded once.
        wide = wide_of(dtype)
        # Padding is in the wide type, as the fold is.
        pad = _padder(operand.shape, wide, geometry["padding"], geometry["base_dilation"])
        identity = rule.of_nothing(dtype).astype(wide)

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


def _geometry_shape(shape, geometry: dict):
    return window_shape(
        shape,
        geometry["window_dimensions"],
        geometry["window_strides"],
        geometry["padding"],
        geometry["base_dilation"],
        geometry["window_dilation"],
    )


#: The parameters of an axis along which windows have length 1.
_ALONE = {
    "window_dimensions": 1,
    "window_strides": 1,
    "padding": (0, 0),
    "base_dilation": 1,
    "window_dilation": 1,
}


def _widened(geometry: dict, dim: int) -> dict:
    """Return the parameters for operands with one more axis, at `dim`."""
    return {k: (*v[:dim], _ALONE[k], *v[dim:]) for k, v in geometry.items()}


def _window_factors(avals, out_avals, params) -> Factors:
    """Axes along which each window is an element, or begins behind the end of the one before.

    Initial values are scalars. Other windows reach into the pieces of neighbours.
    """
    # Of a derivative's operands one has the shape of the windows, not of what they are over.
    ranked = sorted(
        (a for a in (*avals, *out_avals) if a.ndim == avals[0].ndim), key=lambda a: a.size
    )
    windows, whole = ranked[0], ranked[-1]

    def name(d: int) -> int | None:
        get = lambda key: params[key][d] if key in params else _ALONE[key]
        stride, n = get("window_strides"), whole.shape[d]
        if all(get(k) == v for k, v in _ALONE.items()):
            return d
        extent = dilated(get("window_dimensions"), get("window_dilation"))
        apart = extent <= stride and n == stride * windows.shape[d]
        return d if apart and get("base_dilation") == 1 and get("padding") == (0, 0) else None

    # As many positions as there are windows: the rest of an axis is inside of them.
    names = [name(d) for d in range(whole.ndim)]
    sizes = {d: windows.shape[d] for d in range(whole.ndim)}
    ins, outs = ([names if a.ndim else [] for a in some] for some in (avals, out_avals))
    return Factors.named(avals, out_avals, ins, outs, sizes=sizes)


def _fold_batch(name: str):
    def batch(axis, args, dims, **geometry):
        # The batch axis is one more along which windows have length 1.
        (x,), (d,) = args, dims
        return registry[name].bind(x, **_widened(geometry, d)), d

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
    """Return the same as folds along one axis each, where that takes half of the steps; none if a
    sum would be rounded more often.
    """
    aval, out = eqn.invars[0].aval, eqn.outvars[0].aval
    dtype, params = storage_dtype(aval), eqn.params
    if eqn.primitive.plain_fold is np.add and wide_of(dtype) != dtype:
        return []
    found, steps = [], 0
    for axis in range(aval.ndim):
        alone = all(params[key][axis] == value for key, value in _ALONE.items())
        if alone:
            continue
        keys = {key: [value] * aval.ndim for key, value in _ALONE.items()}
        for key, values in keys.items():
            values[axis] = params[key][axis]
        one = {**params, **{key: tuple(values) for key, values in keys.items()}}
        aval = aval.update(shape=_geometry_shape(aval.shape, one))
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
        factors=_window_factors,
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
    slices = _window_slices(counts, **geometry)

    # For every position in the window, its slice of the padded array.
    def fold(*values):
        xs, starts = values[: len(operands)], values[len(operands) :]
        # Padding counts as the initial value of each operand.
        xs = [x if pad is None else pad(x, start) for x, pad, start in zip(xs, pads, starts)]
        # Position by position, all windows at once, in row-major order of the window.
        out = [np.full(counts, start, x.dtype) for x, start in zip(xs, starts)]
        for index in slices:
            out = combine(*out, *(x[index] for x in xs))
        return out

    return fold


def _window_slices(counts, *, window_dimensions, window_strides, window_dilation, **_):
    """For every position in a window, in row-major order, where all windows have that element."""
    return [
        tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, n, s, d in zip(position, counts, window_strides, window_dilation)
        )
        for position in itertools.product(*map(range, window_dimensions))
    ]


def _general_parts(*values, jaxpr, consts=(), **geometry):
    """Each position in the windows is a slice of the whole; they are folded one after another.

    Initial values are scalars, or vectors with one for each index along the first axis.
    """
    count = len(values) // 2
    xs, starts = values[:count], values[count:]
    counts = _geometry_shape(aval_of(xs[0]).shape, geometry)
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
    config = _pad_config(geometry)
    if any(map(any, config)):
        xs = [
            pad_each(x, s, 0, config) if aval_of(s).ndim else do.pad(x, s, padding_config=config)
            for x, s in zip(xs, starts)
        ]
    for index in _window_slices(counts, **geometry):
        out = bind_on_arrays(jaxpr, *out, *(do.slice(x, **_slice_params(index)) for x in xs))
    return out


# Padding around the array, and holes between its elements.
def _pad_config(geometry: dict):
    holes = geometry["base_dilation"]
    return tuple((low, high, d - 1) for (low, high), d in zip(geometry["padding"], holes))


def _slice_params(index) -> dict:
    return {
        "start_indices": tuple(s.start for s in index),
        "limit_indices": tuple(s.stop for s in index),
        "strides": tuple(s.step for s in index),
    }


def _general_batch(axis, args, dims, *, jaxpr, consts=(), **geometry):
    count = len(args) // 2
    xs = [with_axis(x, d, 0, axis.size) for x, d in zip(args[:count], dims[:count])]
    params = {"jaxpr": jaxpr, "consts": consts, **_widened(geometry, 0)}
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
    factors=_window_factors,
    decompose=_general_parts,
    aval=_general_aval,
    numpy_pick=_general_pick,
    weight=16.0,
    multiple_results=True,
)


# ---- one element of each window ----

# Ties go to the first: `greater_equal` keeps the best so far.
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
    slices = _window_slices(counts, **geometry)
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
    # A dilated operand is padded with holes first, and they are cut out of the result again.
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
    config, slices = _pad_config(geometry), _window_slices(counts, **geometry)
    # First pass: which position in each window holds the winner.
    x = do.pad(operand, _worst(select_prim, dtype), padding_config=config)
    best = do.slice(x, **_slice_params(slices[0]))
    winner = zeros(ShapedArray(counts, np.int32))
    for k, index in enumerate(slices[1:], 1):
        here = do.slice(x, **_slice_params(index))
        keep = select_prim.bind(best, here)
        best = do.select_n(keep, here, best)
        winner = do.select_n(keep, full_like(winner, k), winner)
    # Second pass: each position collects the cotangents of the windows that it has won.
    none, total = zeros(aval_of(ct)), Zero(aval_of(x))
    for k, index in enumerate(slices):
        own = do.select_n(do.eq(winner, full_like(winner, k)), none, ct)
        (back,) = slice_transpose(own, Undefined(aval_of(x)), **_slice_params(index))
        total = add_any(total, back)
    back, _ = pad_transpose(total, tangents, dtype.type(0), padding_config=config)
    return back


def _select_batch(name: str):
    def batch(axis, args, dims, *, select_prim, **geometry):
        args = [with_axis(x, d, 0, axis.size) for x, d in zip(args, dims)]
        geometry = _widened(geometry, 0)
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
    factors=_window_factors,
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
    pad = _padder(operand.shape, dtype, padding, ones)
    slices = _window_slices(
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
    # Negative padding cuts elements off: they get nothing.
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


#: The transpose of the derivative: each source element goes to the element that won its window.
select_and_scatter_add_p = Primitive(
    "select_and_scatter_add",
    Kind.LIBRARY,
    element=SCATTER_ADD,
    aval=_scatter_add_aval,
    numpy_pick=_scatter_add_pick,
    jvp=(lambda t, out, source, operand, **p: do.select_and_scatter_add(t, operand, **p), None),
    transpose=_scatter_add_transpose,
    batch=_select_batch("select_and_scatter_add"),
    factors=_window_factors,
    weight=16.0,
)
