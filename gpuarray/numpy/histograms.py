"""Counting elements into bins: bincount, histogram and its many-dimensional forms.

Floor 6. In: samples, bins, weights. Out: counts (or sums of weights) and the edges between bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.layout import out_given
from gpuarray.core.spec import PartitionSpec
from gpuarray.core.value import Array
from gpuarray.errors import ShardingTypeError
from gpuarray.functions.explicit import as_program, makes_terms
from gpuarray.numpy.construct import asarray, numbers
from gpuarray.numpy.creation import linspace
from gpuarray.numpy.functions import clip
from gpuarray.numpy.indexer import known_value
from gpuarray.numpy.joining import stack
from gpuarray.numpy.operands import array, arrays, need_concrete, promoted_inexact
from gpuarray.numpy.selection import choose_by
from gpuarray.numpy.shapes import broadcast_to, ravel, reshape
from gpuarray.numpy.sorting import searchsorted
from gpuarray.runtime.transfer import placed


def bincount(
    x, weights=None, minlength: int = 0, *, length: int | None = None, out_sharding=None
) -> Array:
    """Count each non-negative integer in the (n,) array `x`, or sum the weights of its occurrences.

    Parameters
    ----------
    length :
        Length of the result, needed while tracing; larger integers are skipped. Negative ones count
        as 0.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.bincount(gnp.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    x = array("bincount", x)
    if not (x.dtype == np.bool_ or dtypes.issubdtype(x.dtype, np.integer)):
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    # Booleans are counted as 0 and 1.
    if x.dtype == np.bool_:
        x = lax.convert_element_type(x, dtypes.default_int())
    if length is None:
        # Without a length the largest value decides the shape.
        value = known_value(x)
        if value is None:
            need_concrete(
                x,
                "the `x` argument of jnp.bincount(); while tracing, give the `length` of the "
                "result",
            )
        length = max(util.index(minlength), int(value.max()) + 1 if value.size else 0)
    if makes_terms(out_sharding):
        return as_program(bincount, x, weights, length=length, out_sharding=out_sharding)
    kind = dtypes.default_int() if weights is None else None
    amounts = asarray(1) if weights is None else array("bincount", weights)
    if weights is not None and amounts.shape != x.shape:
        raise ValueError("shape of weights must match shape of x.")
    # Counts are integers, sums of weights have the weights' dtype.
    counts = lax.full((length,), 0, kind or amounts.dtype)
    amounts = lax.convert_element_type(amounts, counts.dtype)
    # As JAX does: negative values count as 0, too large ones are dropped.
    spec = getattr(out_sharding, "spec", out_sharding)
    if isinstance(spec, PartitionSpec) and (any(spec.partitions) or spec.reduced):
        raise ShardingTypeError(
            "out_sharding passed to `bincount` can only be fully replicated or fully unreduced "
            f"along mesh axes, got {out_sharding}: any count may get ones from any device"
        )
    with out_given(out_sharding):
        found = counts.at[clip(x, 0)].add(amounts, mode="drop")
    return placed("bincount", found, out_sharding)


def histogram_bin_edges(a, bins: Any = 10, range=None, weights=None) -> Array:
    """The edges between `bins` equal bins over the range of the data (or over `range`).

    >>> import gpuarray.numpy as gnp
    >>> gnp.histogram_bin_edges(gnp.array([0., 4.]), 4)
    Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise TypeError(
            f"expected `bins` to be a number or edges, got {bins!r} of type {type(bins)}. Give a "
            "number of bins or their edges."
        )
    a = array("histogram_bin_edges", a)
    # One number of bins, or the edges themselves.
    edges: Any = numbers(bins)
    if edges.ndim == 1 and not edges.shape[0]:
        raise ValueError("`bins` holds no edges: give a number of bins or their edges")
    if edges.ndim == 0 and util.index(bins, "a number of bins or their edges") < 1:
        raise ValueError(f"`bins` must be positive, got {bins}")
    kind = dtypes.to_inexact_dtype(a.dtype)
    if edges.ndim == 1:
        return lax.convert_element_type(asarray(edges), kind)
    # The range of the samples, unless one is given.
    if range is None:
        if a.size == 0:
            raise ValueError("zero-size array to reduction operation min which has no identity")
        low, high = a.min(), a.max()
    else:
        low, high = (asarray(r) for r in util.pair(range, "a pair (low, high)"))
    low, high = lax.convert_element_type(low, kind), lax.convert_element_type(high, kind)
    flat = lax.eq(low, high)
    # All samples in one place: a range of length 1 around it.
    return linspace(
        choose_by(flat, low - 0.5, low),
        choose_by(flat, high + 0.5, high),
        int(edges) + 1,
        dtype=kind,
    )


def histogram(
    a, bins: Any = 10, range=None, weights=None, density: bool | None = None
) -> tuple[Array, Array]:
    """The number of samples in each bin, and the edges of the bins; the last bin includes its right
    edge.

    Parameters
    ----------
    density :
        Whether to return a density, whose integral over all bins is 1.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.histogram(gnp.array([1., 2., 2., 3.]), bins=2)
    (Array([1., 3.], dtype=float32), Array([1., 2., 3.], dtype=float32))
    """
    if weights is None:
        a = array("histogram", a)
        samples = promoted_inexact("histogram", a)[0]
        # Integers, whose sums have no order to keep.
        amounts = lax.full_like(samples, 1, dtypes.default_int())
    else:
        a, amounts = arrays("histogram", a, weights)
        if a.shape != amounts.shape:
            raise ValueError("weights should have the same shape as a.")
        samples, amounts = promoted_inexact("histogram", a, amounts)
    edges = histogram_bin_edges(samples, bins, range, weights)
    # Each sample's place among the edges; place 0, before the first edge, is dropped.
    at = _bins_of(ravel(samples), lax.convert_element_type(edges, samples.dtype))
    # Outside: below the first edge is place 0, above the last one is past the end and dropped.
    counts = lax.full((edges.shape[0],), 0, amounts.dtype).at[at].add(ravel(amounts))[1:]
    if weights is None:
        counts = lax.convert_element_type(counts, samples.dtype)
    if density:
        # A density counts per unit length.
        widths = lax.convert_element_type(edges[1:] - edges[:-1], counts.dtype)
        counts = counts / widths / counts.sum()
    return counts, edges


def _bins_of(samples: Array, edges: Array) -> Array:
    """For each sample the number of edges at or below it; a sample on the last edge is in the last
    bin.
    """
    last = edges.shape[0] - 1
    at = searchsorted(edges, samples, side="right")
    # The last bin holds its right edge too, as in NumPy.
    on_last_edge = lax.eq(samples, broadcast_to(edges[last], samples.shape))
    return choose_by(on_last_edge, at.dtype.type(last), at)


def histogram2d(
    x, y, bins: Any = 10, range=None, weights=None, density: bool | None = None
) -> tuple[Array, Array, Array]:
    """The number of the (n,) points (x, y) in each cell, and the edges along both axes.

    Parameters
    ----------
    bins :
        A number or edges for both axes, or one of them for each.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.array([0., 1., 1.])
    >>> gnp.histogram2d(x, x, bins=2)[0]
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x, y = arrays("histogram2d", x, y)
    if x.shape != y.shape or x.ndim != 1:
        raise TypeError(
            f"histogram2d needs two one-dimensional arrays of one length, got shapes {x.shape} and "
            f"{y.shape}"
        )
    # One number or two are numbers of bins; anything else is one list of edges for both axes.
    sizes = np.shape(bins) if not isinstance(bins, (list, tuple)) else (len(bins),)
    if sizes not in ((), (1,), (2,)):
        bins = [asarray(bins)] * 2
    counts, edges = histogramdd(stack([x, y], axis=1), bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample, bins: Any = 10, range=None, weights=None, density: bool | None = None
) -> tuple[Array, list[Array]]:
    """The number of the (n, d) points in each cell of a d-dimensional grid, and the edges along
    each axis.

    >>> import gpuarray.numpy as gnp
    >>> counts, edges = gnp.histogramdd(gnp.array([[0., 0.], [1., 1.]]), bins=2)
    >>> counts
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    sample = array("histogramdd", sample)
    if sample.ndim != 2:
        raise ValueError(
            "histogramdd needs samples of shape (n, d): not enough values to unpack, got shape "
            f"{sample.shape}"
        )
    n, d = sample.shape
    if weights is not None:
        weights = array("histogramdd", weights)
        if weights.shape != (n,):
            raise ValueError("should have one weight for each sample.")
    per_axis = _per_axis(bins, d)
    if range is not None and len(range) != d:
        raise ValueError(f"For sample.shape={sample.shape}, range must have {d} (min, max) pairs")
    # As in `histogram`, samples and weights have one dtype: that of the sums and the edges.
    if weights is None:
        (points,) = promoted_inexact("histogramdd", sample)
    else:
        points, weights = promoted_inexact("histogramdd", sample, weights)
    edges, places = [], []
    # The cell of a point is known by its bin along each axis.
    for i, b in enumerate(per_axis):
        column = points[:, i]
        edge = histogram_bin_edges(column, b, None if range is None else range[i])
        edges.append(edge)
        places.append(_bins_of(column, edge))
    # Cells are numbered with one more on each side of every axis, for points outside.
    lengths = [e.shape[0] + 1 for e in edges]
    flat: Any = np.int32(0)
    for place, length in zip(places, lengths, strict=True):
        # Row-major: the last axis runs fastest.
        flat = flat * length + place
    # One count over numbered cells, then the margins are cut off.
    counts = bincount(flat, weights, length=math.prod(lengths))
    counts = reshape(counts, lengths)[(slice(1, -1),) * d]
    if density:
        counts = lax.convert_element_type(counts, points.dtype)
        counts = counts / counts.sum()
        for i, edge in enumerate(edges):
            widths = edge[1:] - edge[:-1]
            counts = counts / reshape(widths, [-1 if k == i else 1 for k in np.arange(d)])
    return counts, edges


def _per_axis(bins, d: int) -> Sequence[Any]:
    if isinstance(bins, (list, tuple)):
        if len(bins) != d:
            raise ValueError("should be a bin for each dimension.")
        return bins
    # A NumPy array as long as there are axes holds a number for each of them.
    if np.ndim(bins) == 1 and np.shape(bins)[0] == d and d != 1 and not isinstance(bins, Array):
        return list(bins)
    return [bins] * d
