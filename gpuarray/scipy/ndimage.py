"""Values between the samples of an array.

Floor 6. In: an array and places in it. Out: values there, by nearest or linear interpolation.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.ranks import check_ranks as _check_ranks
from gpuarray.names import explain_names as _explain_names


def _rounded(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    if dtypes.kind_of(x.dtype) in "biu":
        return x
    if dtypes.kind_of(x.dtype) == "c":
        return lax.complex(_rounded(lax.real(x)), _rounded(lax.imag(x)))
    # Integers are rounded as C does, halves away from zero.
    return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


def _mirror(i: Array, n: int) -> Array:
    """0 1 2 1 0 1 2 ... for n = 3."""
    # Forth and back, without repeating the ends.
    period = max(2 * (n - 1), 1)
    i = gnp.mod(i, period)
    return gnp.where(i < n, i, period - i)


def _reflect(i: Array, n: int) -> Array:
    """0 1 2 2 1 0 0 1 2 ... for n = 3."""
    i = gnp.mod(i, 2 * n)
    return gnp.where(i < n, i, 2 * n - 1 - i)


# Where positions outside the array are taken from; "constant" is handled when values are read.
_FOLDS: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda i, n: i,
    "nearest": lambda i, n: gnp.clip(i, 0, n - 1),
    "wrap": gnp.mod,
    "mirror": _mirror,
    "reflect": _reflect,
}


@_check_ranks("*coordinates")
def map_coordinates(
    input: Any,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: Any = 0.0,
) -> Array:
    """The values of an array at fractional places: one array of coordinates for every axis.

    Shapes: input of d axes, d coordinates of one shape -> that shape. order: 0 (nearest) or 1
    (linear). mode: the values outside: "constant" (`cval`), "nearest", "wrap", "mirror" (about the
    middle of the last sample) or "reflect" (about its edge).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.ndimage.map_coordinates(gnp.array([0., 10., 20.]), [gnp.array([0.5, 1.75])], order=1)
    Array([ 5. , 17.5], dtype=float32)
    """
    x = gnp.asarray(input)
    places = [gnp.asarray(c) for c in coordinates]
    if len(places) != x.ndim:
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(places)} != {x.ndim}"
        )
    if not util.known(mode, _FOLDS):
        raise NotImplementedError(
            f"map_coordinates does not yet support mode {mode}. Currently supported modes are "
            f"{set(_FOLDS)}."
        )
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates currently requires order<=1, got {order}")
    shapes = {p.shape for p in places}
    # Checked first, so that the error names this function.
    if len(shapes) > 1:
        try:
            gnp.broadcast_shapes(*shapes)
        except ValueError as error:
            raise TypeError(
                f"map_coordinates got incompatible shapes for broadcasting: {sorted(shapes)}."
            ) from error
    fill = gnp.asarray(cval, x.dtype)
    fold = _FOLDS[mode]
    axes = []
    for place, n in zip(places, x.shape, strict=True):
        # One or two neighbours an axis, with their weights.
        corners = _nearest(place) if order == 0 else _linear(place)
        axes.append([(fold(i, n), (i >= 0) & (i < n), weight) for i, weight in corners])
    outputs = []
    # The value at a place is a weighted sum over the corners of its cell.
    for corner in itertools.product(*axes):
        at, inside, weights = zip(*corner, strict=True) if corner else ((), (), ())
        value = x[tuple(at)]
        # Each corner outside the array counts as the fill value.
        if mode == "constant":
            value = gnp.where(functools.reduce(np.logical_and, inside, np.bool_(True)), value, fill)
        outputs.append(functools.reduce(lambda a, b: a * b, weights, 1) * value)
    total = functools.reduce(lambda a, b: a + b, outputs)
    total = gnp.asarray(total)
    if dtypes.kind_of(x.dtype) in "biu":
        total = _rounded(total)
    return lax.convert_element_type(total, x.dtype)


Corners = list[tuple[Array, Any]]


def _index(x: Array) -> Array:
    return lax.convert_element_type(x, np.int32)


def _nearest(place: Array) -> Corners:
    return [(_index(_rounded(place)), 1)]


def _linear(place: Array) -> Corners:
    low = gnp.floor(place)
    share = place - low
    at = _index(low)
    # Each neighbour weighs the more, the nearer it is.
    return [(at, 1 - share), (at + 1, share)]


__getattr__ = _explain_names(__name__)
