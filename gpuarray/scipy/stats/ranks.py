"""Statistics of samples: the most frequent value, ranks, the standard error of the mean.

Floor 6. In: array-likes. Out: Arrays. Counts are found in the sorted sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.numpy.operands import array

_POLICIES = "{'propagate', 'omit', 'raise'}"


class ModeResult(NamedTuple):
    """The most frequent values, and their counts."""

    mode: Array
    count: Array


def _check_policy(name: str, policy: str) -> None:
    if policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"Illegal nan_policy value {policy!r}; expected one of {_POLICIES}")
    if policy == "omit":
        raise NotImplementedError(
            f"Logic for `nan_policy` of omit is not implemented in {name}: its result would have "
            "a shape that depends on the data. Take out the nans first."
        )
    if policy == "raise":
        raise NotImplementedError(
            f"In order to best JIT compile `{name}`, we cannot know whether `x` contains nans. "
            f"Please check if nans exist in `x` outside of the `{name}` function."
        )


def _last(a: Array, axis: int | None) -> tuple[Array, int]:
    """The array with the axis last, and that axis; flattened if it is None."""
    if axis is None:
        return a.reshape(-1), 0
    a = gnp.atleast_1d(a)
    axis = util.canonical_axis(axis, a.ndim)
    return gnp.moveaxis(a, axis, -1), axis


def _runs(ordered: Array) -> tuple[Array, Array]:
    """For each element of a sorted row, where the run of its equals starts, and where it ends."""
    n = ordered.shape[-1]
    place = gnp.broadcast_to(gnp.arange(n), ordered.shape)
    # Equal neighbours in the sorted sample; nan equal nan here.
    same = ordered[..., 1:] == ordered[..., :-1]
    if dtypes.issubdtype(ordered.dtype, np.inexact):
        missing = gnp.isnan(ordered)
        same = same | (missing[..., 1:] & missing[..., :-1])
    # The first element begins a run, and the last one ends one.
    edge = gnp.ones((*ordered.shape[:-1], 1), bool)
    first = gnp.concatenate([edge, ~same], -1)
    last = gnp.concatenate([~same, edge], -1)
    axis = ordered.ndim - 1
    # Where the run around each place begins and ends.
    start = lax.cummax(gnp.where(first, place, 0), axis)
    end = lax.cummin(gnp.where(last, place, n), axis, reverse=True)
    return start, end


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along an axis, the smallest of several, and its count.

    Shape contract: the axis is dropped, or kept with length 1; None is for the whole array.

    >>> import gpuarray.numpy as gnp
    >>> mode(gnp.array([1, 3, 3, 2]))
    ModeResult(mode=Array(3, dtype=int32), count=Array(2, dtype=int32))
    """
    a = array("mode", a)
    _check_policy("mode", nan_policy)
    ndim = a.ndim
    rows, axis_ = _last(a, axis)
    if rows.shape[-1] == 0:
        floats = dtypes.to_inexact_dtype(a.dtype)
        # As in SciPy, the mode of an empty sample is nan, with count 0.
        found = gnp.full(rows.shape[:-1], np.nan, floats)
        counts = gnp.zeros(rows.shape[:-1], floats)
    else:
        ordered = gnp.sort(rows, -1)
        start, end = _runs(ordered)
        length = end - start + 1
        # The longest run; of several the smallest value, which comes first.
        at = gnp.argmax(length, -1, keepdims=True)
        found = gnp.take_along_axis(ordered, at, -1)[..., 0]
        counts = gnp.take_along_axis(length, at, -1)[..., 0]
    if keepdims:
        kept = tuple(range(ndim)) if axis is None else (axis_,)
        found, counts = lax.expand_dims(found, kept), lax.expand_dims(counts, kept)
    return ModeResult(found, counts)


def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """The rank of each value, counted from 1, as a float; nan all along an axis that has a nan.

    Shape contract: the shape of a; without an axis, a is flattened.

    Parameters
    ----------
    method :
        The rank of equal values: the average of their ranks, the least ("min") or the greatest
        ("max"), one rank for each distinct value ("dense"), or ranks in order of occurrence
        ("ordinal").

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> rankdata(gnp.array([3, 1, 2, 2]))
    Array([4. , 1. , 2.5, 2.5], dtype=float32)
    """
    a = array("rankdata", a)
    _check_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(
            f"unknown method {method!r}: one of 'average', 'min', 'max', 'dense', 'ordinal'"
        )
    rows, axis_ = _last(a, axis)
    # Stable: "ordinal" ranks equal values in order of occurrence.
    order = gnp.argsort(rows, axis=-1, stable=True)
    ordered = gnp.take_along_axis(rows, order, -1)
    start, end = _runs(ordered)
    place = gnp.broadcast_to(gnp.arange(rows.shape[-1]), rows.shape)
    if method == "average":
        # The mean of the places start + 1 to end + 1.
        ranks = 1 + (start + end) / 2
    elif method == "dense":
        # As many distinct values as runs begin up to here.
        ranks = gnp.cumsum(start == place, -1)
    else:
        ranks = 1 + {"min": start, "max": end, "ordinal": place}[method]
    ranks = ranks.astype(dtypes.default_float())
    # Back in the order of the sample.
    out = gnp.take_along_axis(ranks, gnp.argsort(order, axis=-1), -1)
    if dtypes.issubdtype(a.dtype, np.inexact):
        # A nan has no rank, and cannot be compared with any value.
        out = gnp.where(gnp.any(gnp.isnan(rows), -1, keepdims=True), np.nan, out)
    return out if axis is None else gnp.moveaxis(out, -1, axis_)


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean along an axis: std(a, ddof) / sqrt(n).

    Shape contract: the axis is dropped, or kept with length 1; None is for the whole array.

    Parameters
    ----------
    nan_policy :
        "propagate", or "omit" to leave out nans, which then do not count in n.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> sem(gnp.array([1.0, 2.0, 4.0])).round(4)
    Array(0.8819, dtype=float32)
    """
    a = array("sem", a)
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"{nan_policy} is not supported: 'propagate' or 'omit' is.")
    if axis is not None and not -a.ndim <= util.index(axis) < a.ndim:
        raise IndexError(f"axis {axis} is out of range for an array of shape {a.shape}")
    if nan_policy == "omit":
        count = gnp.sum(~gnp.isnan(a), axis, keepdims=keepdims)
        spread = gnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims)
    else:
        count = a.size if axis is None else a.shape[axis]
        spread = gnp.std(a, axis, ddof=ddof, keepdims=keepdims)
    return spread / gnp.sqrt(gnp.asarray(count, dtypes.to_inexact_dtype(a.dtype)))
