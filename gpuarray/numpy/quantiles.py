"""Medians, quantiles and percentiles along axes.

Floor 6. In: an array-like, and fractions between 0 and 1. Out: an Array without those axes; when
there are several fractions, with an axis for them in front.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.layout import out_given
from gpuarray.core.value import Array
from gpuarray.numpy.arithmetic import true_divide
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.floats import isnan
from gpuarray.numpy.index_tricks import take_along_axis
from gpuarray.numpy.operands import promoted_inexact
from gpuarray.numpy.promotion import arrays, broadcast_to, check_arraylike, select
from gpuarray.numpy.reductions import plain_axis, sum
from gpuarray.numpy.statistics import cumsum
from gpuarray.runtime.transfer import placed
from gpuarray.util import canonical_axes, prod

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")
kind_of = dtypes.kind_of


def quantile(
    a,
    q,
    axis=None,
    out=None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights=None,
) -> Array:
    """The value below which a fraction q of the elements along `axis` falls; nan if one is nan.

    Shape contract: q of shape () or (n,); the result has the axes of q, then those of a without
    `axis` (or with them as 1). method: "linear" between neighbours, "lower", "higher", "midpoint",
    "nearest", or "inverted_cdf", which alone takes `weights`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.quantile(gnp.array([1.0, 2.0, 3.0, 4.0]), gnp.array([0.5, 1.0]))
    Array([2.5, 4. ], dtype=float32)
    """
    return _checked("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False)


def nanquantile(
    a,
    q,
    axis=None,
    out=None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights=None,
) -> Array:
    """As `quantile`, of the elements that are not nan; nan where all are.

    Shape contract: as `quantile`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanquantile(gnp.array([1.0, gnp.nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    return _checked(
        "nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def percentile(
    a,
    q,
    axis=None,
    out=None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights=None,
    out_sharding=None,
) -> Array:
    """As `quantile`, with q in percent; out_sharding: the sharding of the result.

    Shape contract: as `quantile`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.percentile(gnp.array([1.0, 2.0, 3.0]), 50)
    Array(2., dtype=float32)
    """
    check_arraylike("percentile", a, q)
    q = true_divide(q, 100)
    with out_given(out_sharding):
        found = _checked(
            "percentile", a, q, axis, out, overwrite_input, method, keepdims, weights, False
        )
    return placed("percentile", found, out_sharding)


def nanpercentile(
    a,
    q,
    axis=None,
    out=None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights=None,
) -> Array:
    """As `nanquantile`, q in percent.

    Shape contract: as `quantile`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanpercentile(gnp.array([1.0, gnp.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    check_arraylike("nanpercentile", a, q)
    q = true_divide(q, 100)
    return _checked(
        "nanpercentile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def median(a, axis=None, out=None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """The middle element along `axis`, or the mean of the middle two; nan if one is nan.

    Shape contract: those axes go, or become 1 with `keepdims`; integers have float medians.

    >>> import gpuarray.numpy as gnp
    >>> gnp.median(gnp.array([5, 1, 3, 4]))
    Array(3.5, dtype=float32)
    """
    return _checked("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, False)


def nanmedian(
    a, axis=None, out=None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """As `median`, of the elements that are not nan; nan where all are.

    Shape contract: as `median`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanmedian(gnp.array([5.0, gnp.nan, 3.0]))
    Array(4., dtype=float32)
    """
    return _checked(
        "nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, True
    )


def _checked(
    name: str, a, q, axis, out, overwrite_input, method: str, keepdims: bool, weights, skip: bool
) -> Array:
    if overwrite_input or out is not None:
        raise ValueError(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None: arrays are "
            "immutable, use the result"
        )
    if method not in METHODS:
        listed = ", ".join(map(repr, METHODS[:-1]))
        raise ValueError(f"method can only be {listed} or {METHODS[-1]!r}, got {method!r}")
    # As in NumPy: the other methods have no weighted form.
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."
        )
    check_arraylike(name, a, q)
    if isinstance(a, Array) and dtypes.is_beyond(a.dtype):  # no setting narrows the levels
        a, q = promoted_inexact(name, a, q) if isinstance(q, (int, float)) else (a, q)
    statics = {"name": name, "axis": plain_axis(axis), "method": method}
    return _quantiles(a, q, weights, keepdims=keepdims, skip=skip, **statics)


@composite(static=("name", "axis", "method", "keepdims", "skip"), name="quantile")
def _quantiles(a, q, weights, *, name, axis, method, keepdims, skip):
    a, q = arrays(name, a, q)
    if kind_of(a.dtype) == "c" or kind_of(q.dtype) == "c":
        raise ValueError("quantile does not support complex input, as it has no order.")
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    result = dtypes.to_inexact_dtype(a.dtype)
    # Positions are counted in float32 at least: half precision counts to 2048.
    through = np.dtype(np.float32) if result.itemsize < 4 else result
    axes = canonical_axes(plain_axis(axis), a.ndim)
    # All reduced axes as one at the end.
    values = _last(as_type(a, through), axes)
    if values.shape[-1] == 0:
        raise ValueError(f"{name} of no elements: the array has shape {a.shape} along axis {axis}")
    loads = None if weights is None else _last(_loads(name, weights, a, axes, through), axes)
    out = _quantile(values, as_type(q, through), method, loads, skip)
    if keepdims:
        # The axes of q come first in the result.
        out = lax.expand_dims(out, tuple(q.ndim + i for i in axes))
    return as_type(out, result)


def _last(a: Array, axes: tuple[int, ...]) -> Array:
    """The given axes as one, at the end."""
    kept = [i for i in range(a.ndim) if i not in axes]
    if [*kept, *axes] != list(range(a.ndim)):
        a = lax.transpose(a, (*kept, *axes))
    return lax.reshape(a, (*a.shape[: len(kept)], prod(a.shape[len(kept) :])))


def _loads(name: str, weights: Any, a: Array, axes: tuple[int, ...], dtype: Any) -> Array:
    """The weights in the shape of the array."""
    (weights,) = arrays(name, weights)
    weights = as_type(weights, dtype)
    if weights.shape == a.shape:
        return weights
    if len(axes) != 1 or weights.shape != (a.shape[axes[0]],):
        raise ValueError(
            "weights must have the shape of the array, or be one-dimensional along `axis`: got "
            f"weights of shape {weights.shape} for an array of shape {a.shape}"
        )
    return lax.broadcast_in_dim(weights, a.shape, axes)


def _quantile(x: Array, q: Array, method: str, loads: Array | None, skip: bool) -> Array:
    """Quantiles along the last axis: shape q.shape + x.shape[:-1]."""
    dtype, n = x.dtype, x.shape[-1]
    nan = dtype.type(np.nan)
    undefined = isnan(x)
    if skip:
        # nan sorts last, so the elements that count are in front.
        count = sum(as_type(lax.bitwise_not(undefined), dtype), -1)
        # If no element counts, the result is nan whatever the elements: its derivative is zero.
        nothing = lax.expand_dims(lax.eq(count, dtype.type(0)), (count.ndim,))
        x = select(nothing, nan, x)
    else:
        count = lax.full(x.shape[:-1], n, dtype)
    # Sorted values, and a position between two of them.
    if loads is None:
        (x,) = lax.sort((x,), dimension=x.ndim - 1)
        position = _position(q, count, method)
    else:
        # Skipped elements have weight zero.
        counted = select(undefined, dtype.type(0), loads) if skip else loads
        x, ordered = lax.sort((x, counted), dimension=x.ndim - 1, num_keys=1)
        position = _weighted_position(q, ordered)
    made = _between(x, position, method)
    if skip:
        return made
    # One nan makes the quantile nan: it sorts last.
    last = lax.squeeze(lax.slice_in_dim(x, n - 1, n, axis=x.ndim - 1), (x.ndim - 1,))
    return select(broadcast_to(isnan(last), made.shape), nan, made)


def _between(x: Array, position: Array, method: str) -> Array:
    """Combine the sorted elements on either side of a position by a method."""
    dtype = x.dtype
    low, high = lax.floor(position), lax.ceil(position)
    below, above = _pick(x, low), _pick(x, high)
    if method == "lower":
        return below
    if method in ("higher", "inverted_cdf"):
        return above
    part = lax.sub(position, low)
    if method == "nearest":
        return select(lax.gt(part, dtype.type(0.5)), above, below)
    if method == "midpoint":
        half = dtype.type(0.5)
        # Halved before they are added: the sum of two large numbers may overflow.
        return lax.add(lax.mul(below, half), lax.mul(above, half))
    rest = lax.sub(dtype.type(1), part)
    between = lax.add(lax.mul(below, rest), lax.mul(above, part))
    return select(lax.eq(low, high), below, between)  # not inf * 0


def _position(q: Array, count: Array, method: str) -> Array:
    """The positions of the quantiles among the sorted elements: shape q.shape + count.shape."""
    one, zero = count.dtype.type(1), count.dtype.type(0)
    shape = q.shape + count.shape
    q = lax.broadcast_in_dim(q, shape, tuple(range(q.ndim)))
    count = broadcast_to(count, shape)
    # Without elements, position 0, which holds nan.
    last = lax.max(lax.sub(count, one), zero)
    if method == "inverted_cdf":
        # The first element such that at least the fraction q of all are not after it.
        position = lax.sub(lax.ceil(lax.mul(q, count)), one)
    else:
        position = lax.mul(q, last)
    # A q outside 0 to 1 is moved to the nearest end; nan stays nan.
    limited = lax.min(lax.max(position, zero), last)
    return select(lax.ne(position, position), position, limited)


def _weighted_position(q: Array, loads: Array) -> Array:
    """The first element whose cumulative weight reaches the fraction q of the total."""
    running = cumsum(loads, axis=loads.ndim - 1)
    total = lax.slice_in_dim(running, loads.shape[-1] - 1, loads.shape[-1], axis=loads.ndim - 1)
    shape = q.shape + loads.shape
    goal = lax.mul(
        lax.broadcast_in_dim(q, (*shape[:-1], 1), tuple(range(q.ndim))),
        broadcast_to(total, (*shape[:-1], 1)),
    )
    before = lax.lt(broadcast_to(running, shape), broadcast_to(goal, shape))
    # Its position is the number of elements that do not reach it.
    position = sum(as_type(before, q.dtype), -1)
    return lax.min(position, q.dtype.type(loads.shape[-1] - 1))


def _pick(x: Array, position: Array) -> Array:
    """Elements of the last axis at float positions of shape (...) + x.shape[:-1]; nan at nan."""
    missing = lax.ne(position, position)
    # nan has no position: any element is read there, and replaced below.
    index = as_type(select(missing, position.dtype.type(0), position), dtypes.int32)
    several = index.ndim == x.ndim
    index = moveaxis(index, 0, -1) if several else lax.expand_dims(index, (index.ndim,))
    picked = take_along_axis(x, index, -1, mode="clip")
    picked = moveaxis(picked, -1, 0) if several else lax.squeeze(picked, (x.ndim - 1,))
    return select(missing, x.dtype.type(np.nan), picked)
