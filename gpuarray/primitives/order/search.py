"""Searching in sorted arrays: the positions at which elements would keep the order.

Floor 2. In: a sorted axis, behind any axes that it shares with the query, and elements to look up.
Out: positions. Each element is found by binary search: by NumPy on the CPU, in kernels where it is
read. nan sorts last and -0.0 equals 0.0, as in `sort`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gpuarray.core import dtypes, threads
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.factors import Factors
from gpuarray.core.primitive import NOT_DIFFERENTIABLE
from gpuarray.primitives.axes import move_axis, with_axis
from gpuarray.primitives.define import ANY, check_dtype, check_same_dtypes, do, library
from gpuarray.primitives.numpy_rules import is_foreign
from gpuarray.primitives.order.elements import SEARCHSORTED

Side = Literal["left", "right"]
#: From this many elements on they are searched for together, in blocks of this size.
MANY, BLOCK = 1 << 14, 1 << 13


def _searchsorted_aval(
    ordered: ShapedArray, query: ShapedArray, *, side: str, dtype
) -> ShapedArray:
    check_dtype("searchsorted", ordered.dtype, ANY, 0)
    check_same_dtypes("searchsorted", [ordered, query])
    lead = ordered.shape[:-1]
    if not ordered.ndim or query.shape[: len(lead)] != lead:
        raise ValueError(
            "searchsorted: the sorted array must have one axis, behind any that it shares with the "
            f"query; got shapes {ordered.shape} and {query.shape}"
        )
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    return ShapedArray(query.shape, dtype)


def _searchsorted(ordered: np.ndarray, query: np.ndarray, *, side: Side, dtype):
    # A type of ml_dtypes: float32 (or int32) holds all of its values, in their order.
    if is_foreign(ordered.dtype):
        wide = np.float32 if dtypes.kind_of(ordered.dtype) == "f" else np.int32
        ordered, query = ordered.astype(wide), np.asarray(query).astype(wide)
    # NumPy puts complex numbers with nan in a part behind all others; `sort` goes part by part.
    if ordered.dtype.kind == "c" and (np.isnan(ordered).any() or np.isnan(query).any()):
        ordered, query = _ranks(ordered, np.asarray(query))
    if ordered.ndim == 1:
        if query.size >= MANY and ordered.size and ordered.dtype.kind in "iuf":
            return _search_many(ordered, query, side, dtype)
        return np.asarray(np.searchsorted(ordered, query, side)).astype(dtype)
    # NumPy searches one sorted array at a time.
    out = np.empty(query.shape, dtype)
    for row in np.ndindex(ordered.shape[:-1]):
        out[row] = np.searchsorted(ordered[row], query[row], side)
    return out


def _ranks(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return integers that order as complex numbers do in `sort`: equal where these are."""
    every: Any = np.concatenate([x.reshape(-1) for x in arrays])
    order = np.lexsort([every.imag, every.real])
    first, second = every[order][:-1], every[order][1:]
    same = [(a == b) | ((a != a) & (b != b)) for a, b in
            ((first.real, second.real), (first.imag, second.imag))]  # fmt: skip
    ranks = np.zeros(every.size, np.int64)
    ranks[order[1:]] = np.cumsum(~(same[0] & same[1]))
    ends = np.cumsum([x.size for x in arrays])
    parts = np.split(ranks, ends[:-1])
    return [part.reshape(x.shape) for part, x in zip(parts, arrays, strict=True)]


def _search_many(ordered: np.ndarray, query: np.ndarray, side: Side, dtype) -> np.ndarray:
    """Search for many elements together, in blocks that stay in cache, on all threads.

    Each step halves the ranges of a whole block by one comparison. NumPy's own search branches for
    each element, and a processor mispredicts every other of these branches.
    """
    n = ordered.size
    # One less than a power of two, so that all ranges are halved alike. No number sorts after nan,
    # or after the largest integer; elements equal to that are counted too far, and clamped to n.
    last = np.nan if ordered.dtype.kind == "f" else np.iinfo(ordered.dtype).max
    steps = n.bit_length()
    padded = np.full((1 << steps) - 1, last, ordered.dtype)
    padded[:n] = ordered
    of_nan = np.searchsorted(ordered, np.array(last, ordered.dtype), side)
    before = np.less if side == "left" else np.less_equal
    flat, out = np.ascontiguousarray(query).reshape(-1), np.empty(query.shape, dtype)
    places = out.reshape(-1)

    def search(part: slice) -> None:
        wanted = flat[part]
        at, step = np.zeros(wanted.size, np.intp), np.empty(wanted.size, np.intp)
        middle, further = np.empty(wanted.size, ordered.dtype), np.empty(wanted.size, bool)
        for k in range(steps - 1, -1, -1):
            # The middle of the range that starts here: 2**k - 1 further on.
            padded[(1 << k) - 1 :].take(at, 0, middle, "clip")
            before(middle, wanted, out=further)
            at += np.multiply(further, 1 << k, out=step, dtype=np.intp)
        if ordered.dtype.kind == "f":
            # nan comes last, and all nans are equal.
            at[wanted != wanted] = of_nan
        places[part] = np.minimum(at, n, out=at)

    threads.each(search, flat.size, BLOCK)
    return out


def _searchsorted_batch(axis, args, dims, *, side, dtype):
    (ordered, query), (d, query_d) = args, dims
    if d is None:
        # One array for all queries, whatever their shape; axes that both share stay in front.
        lead = aval_of(ordered).ndim - 1
        query = move_axis(query, query_d, lead)
        return do.searchsorted(ordered, query, side=side, dtype=dtype), lead
    # Separate arrays: the batch axis is one more that array and query share.
    ordered, query = move_axis(ordered, d, 0), with_axis(query, query_d, 0, axis.size)
    return do.searchsorted(ordered, query, side=side, dtype=dtype), 0


def _factors(avals, out_avals, params) -> Factors:
    """Shared axes, those of the query, and the sorted one: each piece of it counts its own
    elements.
    """
    ordered, query = avals
    shared = ordered.ndim - 1
    axes = list(range(query.ndim))
    ins = [[*axes[:shared], "sorted"], axes]
    return Factors.named(avals, out_avals, ins, [axes], owed={"sorted": "sum"})


searchsorted_p = library(
    "searchsorted",
    element=SEARCHSORTED,
    aval=_searchsorted_aval,
    numpy=_searchsorted,
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_DIFFERENTIABLE,
    batch=_searchsorted_batch,
    factors=_factors,
)
