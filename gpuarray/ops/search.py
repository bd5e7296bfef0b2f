"""Searching in sorted arrays: where an element would have to stand.

In: a sorted axis and elements to look up. Out: positions. One step of a library (binary search per
element) on every backend; NaN sorts last and -0.0 equals 0.0, as in `sort`. Floor 2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import NOT_DIFFERENTIABLE
from gpuarray.ops.define import ANY, check_dtype, check_same_dtypes, library


def _searchsorted_aval(
    ordered: ShapedArray, query: ShapedArray, *, side: str, dtype
) -> ShapedArray:
    check_dtype("searchsorted", ordered.dtype, ANY, 0)
    check_same_dtypes("searchsorted", [ordered, query])
    if ordered.ndim != 1:
        raise ValueError(
            f"searchsorted: the sorted array must have one axis, got shape {ordered.shape}"
        )
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    return ShapedArray(query.shape, dtype)


def _searchsorted(ordered: np.ndarray, query: np.ndarray, *, side: Literal["left", "right"], dtype):
    if (
        ordered.dtype.kind == "V"
    ):  # a type of ml_dtypes: float32 holds all of its values, in their order
        wide = np.float32 if dtypes.kind_of(ordered.dtype) == "f" else np.int32
        ordered, query = ordered.astype(wide), np.asarray(query).astype(wide)
    return np.asarray(np.searchsorted(ordered, query, side)).astype(dtype)


searchsorted_p = library(
    "searchsorted", aval=_searchsorted_aval, numpy=_searchsorted, jvp=NOT_DIFFERENTIABLE
)
