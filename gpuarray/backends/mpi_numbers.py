"""MPI reductions of dtypes: the dtype used for the sum, and the representation in MPI.

Floor 4. In: a collective that reduces, and the aval of an operand. Out: a ReductionCode, or None if
MPI cannot do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.dtypes import kind_of
from gpuarray.primitives.collective import ops


class ReductionCode(NamedTuple):
    """How numbers of a dtype are reduced: the dtype used, and the view passed to MPI."""

    dtype: np.dtype
    encoded: Callable[[np.ndarray], np.ndarray]
    decoded: Callable[[np.ndarray], np.ndarray]

    def widened(self, x: Any) -> Any:
        """Return a value in the dtype in which it is reduced."""
        return x if x.dtype == self.dtype else np.asarray(x).astype(self.dtype)


def same(x: Any) -> Any:
    """Return a value unchanged."""
    return x


def sum_code(aval: ShapedArray) -> ReductionCode | None:
    """How a dtype is summed; narrow floats are added up in float32 and rounded once."""
    dtype = aval.dtype
    if dtype in _PLAIN:
        return ReductionCode(np.dtype(dtype), same, same)
    if kind_of(dtype) == "f" and dtype.itemsize <= 2:
        return ReductionCode(np.dtype(np.float32), same, same)
    return None


def _extreme_code(aval: ShapedArray, nan: int) -> ReductionCode | None:
    """How the largest or least is found: floats as integers in the same order, nan at its end.

    MPI's own MAX and MIN of floats may lose a nan.
    """
    code = sum_code(aval)
    if aval.dtype == np.bool_:
        return ReductionCode(
            np.dtype(np.bool_), lambda x: x.view(np.uint8), lambda x: x.view(np.bool_)
        )
    if code is None or code.dtype.kind not in "iuf":
        return None
    if code.dtype.kind != "f":
        return code
    whole = np.dtype(f"i{code.dtype.itemsize}")
    info = np.iinfo(whole)
    end = whole.type(info.max if nan > 0 else info.min)

    # Negative floats are in the reverse order of their bits.
    def turned(bits: np.ndarray) -> np.ndarray:
        return bits ^ ((bits >> (8 * whole.itemsize - 1)) & whole.type(info.max))

    def encoded(x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(x), end, turned(np.asarray(x, order="C").view(whole)))

    def decoded(x: np.ndarray) -> np.ndarray:
        return np.where(x == end, code.dtype.type(np.nan), turned(x).view(code.dtype))

    return ReductionCode(code.dtype, encoded, decoded)


_PLAIN = frozenset(
    map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"))
)


def code_of(prim: Any, aval: ShapedArray) -> ReductionCode | None:
    """How psum, pmax and pmin reduce a dtype; None if not by MPI."""
    if prim is ops.psum_p:
        return sum_code(aval)
    return _extreme_code(aval, 1 if prim is ops.pmax_p else -1)
