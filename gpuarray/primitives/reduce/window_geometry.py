"""The geometry of windows: their number, padding and dilation, and the elements of each.

Floor 2. In: a shape, and for each axis the window's length, stride, padding and dilations. Out:
shapes, slices, and parameters of the primitives that pad and cut. For windows that are folded
(`window.py`), and for windows of which one element is selected (`window_selection.py`).
"""

from __future__ import annotations

import itertools

from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import larger
from gpuarray.core.factors import Factors
from gpuarray.primitives.movement.ops import pad_p


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


def geometry_shape(shape, geometry: dict):
    """Return how many windows fit along each axis, for the parameters of a primitive."""
    return window_shape(
        shape,
        geometry["window_dimensions"],
        geometry["window_strides"],
        geometry["padding"],
        geometry["base_dilation"],
        geometry["window_dilation"],
    )


#: The parameters of an axis along which windows have length 1.
ALONE = {
    "window_dimensions": 1,
    "window_strides": 1,
    "padding": (0, 0),
    "base_dilation": 1,
    "window_dilation": 1,
}


def widened(geometry: dict, dim: int) -> dict:
    """Return the parameters for operands with one more axis, at `dim`."""
    return {k: (*v[:dim], ALONE[k], *v[dim:]) for k, v in geometry.items()}


def pad_config(*, padding, base_dilation, **_):
    """Return padding around an array and between its elements, as the pad primitive has it."""
    # The third number is interior padding: holes between neighbours.
    return tuple((low, high, d - 1) for (low, high), d in zip(padding, base_dilation))


def padder(shape, dtype, **geometry):
    """Return a function that adds padding and dilation to an array; None if there are none."""
    config = pad_config(**geometry)
    if not any(map(any, config)):
        return None
    scalar = ShapedArray((), dtype)
    return pad_p.numpy_function([ShapedArray(shape, dtype), scalar], {"padding_config": config})


def window_slices(counts, *, window_dimensions, window_strides, window_dilation, **_):
    """For every position in a window, in row-major order, where all windows have that element."""
    return [
        tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, n, s, d in zip(position, counts, window_strides, window_dilation)
        )
        for position in itertools.product(*map(range, window_dimensions))
    ]


def slice_params(index) -> dict:
    """Return an index of slices as parameters of the slice primitive."""
    return {
        "start_indices": tuple(s.start for s in index),
        "limit_indices": tuple(s.stop for s in index),
        "strides": tuple(s.step for s in index),
    }


def window_factors(avals, out_avals, params) -> Factors:
    """Axes along which each window is an element, or begins behind the end of the one before.

    Initial values are scalars. Other windows reach into the pieces of neighbours.
    """
    # One of a derivative's operands has the shape of the windows, not of the array they slide over.
    ranked = sorted(
        (a for a in (*avals, *out_avals) if a.ndim == avals[0].ndim), key=lambda a: a.size
    )
    windows, whole = ranked[0], ranked[-1]

    def name(d: int) -> int | None:
        get = lambda key: params[key][d] if key in params else ALONE[key]
        stride, n = get("window_strides"), whole.shape[d]
        if all(get(k) == v for k, v in ALONE.items()):
            return d
        extent = dilated(get("window_dimensions"), get("window_dilation"))
        apart = extent <= stride and n == stride * windows.shape[d]
        return d if apart and get("base_dilation") == 1 and get("padding") == (0, 0) else None

    # As many positions as there are windows: the rest of an axis is inside of them.
    names = [name(d) for d in range(whole.ndim)]
    sizes = {d: windows.shape[d] for d in range(whole.ndim)}
    ins, outs = ([names if a.ndim else [] for a in some] for some in (avals, out_avals))
    return Factors.named(avals, out_avals, ins, outs, sizes=sizes)
