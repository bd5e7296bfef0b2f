"""Reductions: sum, product, extremes and bitwise folds over axes, and where the extremes are.

In: an array and the axes to fold. Out: the array without these axes. Half-precision sums and products accumulate in
float32 and are rounded once. The fold of nothing is the operation's identity. Floor 2.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, Kind, Primitive
from gpuarray.ops.define import BOOL, FLOATING, INTEGER, NUMERIC, check_dtype, reduction

_F32 = np.dtype(np.float32)


def is_narrow(dtype) -> bool:
    """Whether a float type is too short to add up in: float16, bfloat16 and the 8-bit ones."""
    return dtypes.kind_of(dtype) == "f" and dtype.itemsize < 4


@functools.cache
def extreme(dtype, largest: bool):
    """The largest or smallest value of a dtype as a NumPy scalar; infinite where the dtype has infinities."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return np.bool_(largest)
    if kind in "iu":
        info = dtypes.iinfo(dtype)
        return np.array(int(info.max if largest else info.min)).astype(dtype)[()]
    if dtypes.supports_inf(dtype):
        return np.array(np.inf if largest else -np.inf).astype(dtype)[()]
    info = dtypes.finfo(dtype)
    return np.array(float(info.max if largest else info.min)).astype(dtype)[()]


def identity_of(ufunc: np.ufunc, dtype):
    """What `ufunc` leaves everything unchanged with: the fold of nothing."""
    if ufunc in (np.maximum, np.minimum):
        return extreme(dtype, ufunc is np.minimum)
    return np.array(ufunc.identity).astype(dtype)[()]


def _folded_size(operand, axes) -> int:
    return math.prod(operand.shape[a] for a in axes)


def _accumulate(ufunc: np.ufunc):
    """NumPy rule of sums and products: the result's own type, float32 in between for short floats."""

    def pick(avals, *, axes, out_sharding=None):
        dtype = avals[0].dtype
        if not is_narrow(dtype):
            return functools.partial(ufunc.reduce, axis=axes, dtype=dtype)
        return lambda x: ufunc.reduce(x, axes, _F32).astype(dtype)

    return pick


def _extremes(ufunc: np.ufunc):
    """NumPy rule of max and min, which have no identity in NumPy: it is given where nothing is folded."""

    def pick(avals, *, axes, out_sharding=None):
        (operand,) = avals
        if _folded_size(operand, axes):
            return functools.partial(ufunc.reduce, axis=axes)
        return functools.partial(ufunc.reduce, axis=axes, initial=identity_of(ufunc, operand.dtype))

    return pick


def _bitwise(on_bits: np.ufunc, on_bools: np.ufunc):
    def pick(avals, *, axes):
        dtype = avals[0].dtype
        if dtype == np.bool_:
            return functools.partial(on_bools.reduce, axis=axes)
        return functools.partial(on_bits.reduce, axis=axes, dtype=dtype)

    return pick


reduce_sum_p = reduction(
    "reduce_sum", numpy_pick=_accumulate(np.add), combine=np.add, dtypes=NUMERIC
)
reduce_prod_p = reduction(
    "reduce_prod", numpy_pick=_accumulate(np.multiply), combine=np.multiply, dtypes=NUMERIC
)
reduce_max_p = reduction(
    "reduce_max", numpy_pick=_extremes(np.maximum), combine=np.maximum, dtypes=NUMERIC | BOOL
)
reduce_min_p = reduction(
    "reduce_min", numpy_pick=_extremes(np.minimum), combine=np.minimum, dtypes=NUMERIC | BOOL
)


def _logical(name: str, on_bits: np.ufunc, on_bools: np.ufunc) -> Primitive:
    return reduction(
        name,
        numpy_pick=_bitwise(on_bits, on_bools),
        combine=on_bits,
        dtypes=BOOL | INTEGER,
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
    )


reduce_and_p = _logical("reduce_and", np.bitwise_and, np.logical_and)
reduce_or_p = _logical("reduce_or", np.bitwise_or, np.logical_or)
reduce_xor_p = _logical("reduce_xor", np.bitwise_xor, np.logical_xor)


# ---- where the extremes are ----


def _arg_aval(name: str):
    def aval(operand: ShapedArray, *, axes, index_dtype) -> ShapedArray:
        check_dtype(name, operand.dtype, INTEGER | FLOATING | BOOL)
        (axis,) = axes
        if not 0 <= axis < operand.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {operand.shape}")
        if operand.shape[axis] < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={operand.shape} axis={axis}"
            )
        if dtypes.kind_of(index_dtype) not in "iu":
            raise TypeError(f"index_dtype must be an integer type, but got {index_dtype}")
        shape = operand.shape[:axis] + operand.shape[axis + 1 :]
        return ShapedArray(shape, index_dtype)

    return aval


def _arg_pick(method: str):
    # NumPy's rule is ours: the first of equals, and a NaN before everything.
    def pick(avals, *, axes, index_dtype):
        (axis,) = axes
        find = getattr(np.ndarray, method)
        return lambda x: find(x, axis).astype(index_dtype)

    return pick


def _arg_extreme(name: str) -> Primitive:
    return Primitive(
        name,
        Kind.REDUCTION,
        aval=_arg_aval(name),
        numpy_pick=_arg_pick(name),
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
    )


argmax_p = _arg_extreme("argmax")
argmin_p = _arg_extreme("argmin")
