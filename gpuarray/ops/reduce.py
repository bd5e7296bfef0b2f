"""Reductions: sum, product, extremes and bitwise folds over axes, and where the extremes are.

In: an array and the axes to fold. Out: the array without these axes. Half-precision sums and
products accumulate in float32 and are rounded once. The fold of nothing is the operation's
identity. Floor 2.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.linear import Zero
from gpuarray.core.primitive import LINEAR, NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.ops.define import (
    BOOL,
    FLOATING,
    INTEGER,
    NUMERIC,
    check_axes,
    check_dtype,
    do,
    reduction,
)
from gpuarray.ops.numerics import is_narrow
from gpuarray.ops.scalar_graph import check_fold, on_arrays


def wide_of(dtype):
    """The dtype to fold elements of `dtype` in: a wider one for short floats and 4-bit integers.

    >>> wide_of(dtypes.bfloat16), wide_of(dtypes.uint4), wide_of(dtypes.int8)
    (dtype('float32'), dtype('uint8'), dtype('int8'))
    """
    if not is_narrow(dtype):
        return dtype
    return np.dtype({"f": "float32", "i": "int8", "u": "uint8"}[dtypes.kind_of(dtype)])


@functools.cache
def extreme(dtype, largest: bool):
    """The largest or smallest value of a dtype, infinite if it has infinities, as a scalar."""
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


def _accumulate(ufunc: np.ufunc):
    """NumPy rule of sums and products: in the operand's type, or in a wider one if it is narrow."""

    def pick(avals, *, axes, out_sharding=None):
        dtype = avals[0].dtype
        wide = wide_of(dtype)
        if wide is dtype:
            return functools.partial(ufunc.reduce, axis=axes, dtype=dtype)
        return lambda x: ufunc.reduce(x, axes, wide).astype(dtype)

    return pick


def _extremes(ufunc: np.ufunc):
    """NumPy rule of max and min; NumPy must be told their identity where nothing is folded."""

    def pick(avals, *, axes, out_sharding=None):
        (operand,) = avals
        dtype = operand.dtype
        wide = wide_of(dtype)
        empty = math.prod(operand.shape[a] for a in axes) == 0
        if empty:
            initial = identity_of(ufunc, dtype).astype(wide)
            fold = functools.partial(ufunc.reduce, axis=axes, initial=initial)
        else:
            fold = functools.partial(ufunc.reduce, axis=axes)
        return fold if wide is dtype else lambda x: fold(x.astype(wide)).astype(dtype)

    return pick


def _bitwise(on_bits: np.ufunc, on_bools: np.ufunc):
    def pick(avals, *, axes):
        dtype = avals[0].dtype
        if dtype == np.bool_:
            return functools.partial(on_bools.reduce, axis=axes)
        return functools.partial(on_bits.reduce, axis=axes, dtype=dtype)

    return pick


# ---- derivatives ----


def _kept(ndim: int, axes) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d not in axes)


def _sum_transpose(ct, operand, *, axes, out_sharding=None):
    shape = operand.aval.shape
    dims = _kept(len(shape), axes)
    return (do.broadcast_in_dim(ct, shape=shape, broadcast_dimensions=dims, sharding=None),)


def _prod_jvp(primals, tangents, *, axes):
    """Halves multiplied with one another until one slice is left: right with zeros among the factors, to any order."""
    (x,), (t,) = primals, tangents
    shape = aval_of(x).shape
    kept = _kept(len(shape), axes)
    length, rest = math.prod(shape[a] for a in axes), tuple(shape[d] for d in kept)
    order = (*axes, *kept)
    if length == 0:
        out = do.reduce_prod(x, axes=axes)
        return out, Zero(aval_of(out))
    if order != tuple(range(len(order))):
        x, t = do.transpose(x, permutation=order), do.transpose(t, permutation=order)
    if len(axes) != 1:
        x, t = (
            do.reshape(v, new_sizes=(length, *rest), dimensions=None, sharding=None)
            for v in (x, t)
        )
    while length > 1:
        half = length // 2
        (a, b), (ta, tb) = _halves(x, half), _halves(t, half)
        out, tangent = do.mul(a, b), do.add_any(do.mul(a, tb), do.mul(ta, b))
        if length % 2:
            out, tangent = (
                do.concatenate(v, _rows(whole, 2 * half, length), dimension=0)
                for v, whole in ((out, x), (tangent, t))
            )
        x, t, length = out, tangent, half + length % 2
    return do.squeeze(x, dimensions=(0,)), do.squeeze(t, dimensions=(0,))


def _rows(x, start: int, stop: int):
    shape = aval_of(x).shape
    return do.slice(
        x,
        start_indices=(start, *(0,) * (len(shape) - 1)),
        limit_indices=(stop, *shape[1:]),
        strides=None,
    )


def _halves(x, half: int):
    return _rows(x, 0, half), _rows(x, half, 2 * half)


def _extreme_jvp(t, out, operand, *, axes, out_sharding=None):
    """The mean of the tangents of all elements that are the extreme one."""
    shape = aval_of(operand).shape
    kept = _kept(len(shape), axes)
    single = tuple(1 if d in axes else n for d, n in enumerate(shape))
    out = do.reshape(out, new_sizes=single, dimensions=None, sharding=None)
    hits = do.convert_element_type(
        do.eq(operand, out), new_dtype=aval_of(t).dtype, weak_type=False, sharding=None
    )
    count = do.reduce_sum(hits, axes=axes, out_sharding=None)
    return do.div(do.reduce_sum(do.mul(t, hits), axes=axes, out_sharding=None), count)


# ---- sums, products, extremes ----

reduce_sum_p = reduction(
    "reduce_sum",
    numpy_pick=_accumulate(np.add),
    combine=np.add,
    dtypes=NUMERIC,
    jvp=LINEAR,
    transpose=_sum_transpose,
)
reduce_prod_p = reduction(
    "reduce_prod",
    numpy_pick=_accumulate(np.multiply),
    combine=np.multiply,
    dtypes=NUMERIC,
    jvp=_prod_jvp,
    transpose=NOT_LINEAR,
)
reduce_max_p = reduction(
    "reduce_max",
    numpy_pick=_extremes(np.maximum),
    combine=np.maximum,
    dtypes=NUMERIC | BOOL,
    jvp=(_extreme_jvp,),
    transpose=NOT_LINEAR,
)
reduce_min_p = reduction(
    "reduce_min",
    numpy_pick=_extremes(np.minimum),
    combine=np.minimum,
    dtypes=NUMERIC | BOOL,
    jvp=(_extreme_jvp,),
    transpose=NOT_LINEAR,
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


# ---- any fold ----

#: Folds up to so many steps go from first to last; longer ones pair neighbours, round by round.
_STEPS = 1024


def _reduce_aval(*avals, computation, jaxpr: Graph, dimensions):
    operands, initial = avals[: len(avals) // 2], avals[len(avals) // 2 :]
    first = operands[0]
    if any(a.shape != first.shape for a in operands):
        shapes = [a.shape for a in operands]
        raise ValueError(f"reduce operands must have equal shapes, got {shapes}.")
    check_axes("reduce", dimensions, first.ndim)
    check_fold("reduce", operands, initial, jaxpr)
    shape = [n for d, n in enumerate(first.shape) if d not in dimensions]
    return [ShapedArray(tuple(shape), a.dtype) for a in operands]


def _reduce_pick(avals, *, computation, jaxpr, dimensions):
    operands = avals[: len(avals) // 2]
    combine = on_arrays(jaxpr)
    kept = [d for d in range(operands[0].ndim) if d not in dimensions]
    order = (*dimensions, *kept)
    shape = tuple(operands[0].shape[d] for d in kept)
    steps = math.prod(operands[0].shape[d] for d in dimensions)

    def fold(*values):
        xs = [x.transpose(order).reshape(steps, *shape) for x in values[: len(operands)]]
        out = [np.full(shape, start) for start in values[len(operands) :]]
        while len(xs[0]) > _STEPS:
            odd = [x[len(x) - len(x) % 2 :] for x in xs]
            paired = combine(*(x[:-1:2] for x in xs), *(x[1::2] for x in xs))
            xs = [np.concatenate(both) for both in zip(paired, odd)]
        for elements in zip(*xs):
            out = combine(*out, *elements)
        return out

    return fold


reduce_p = Primitive(
    "reduce",
    Kind.LIBRARY,
    aval=_reduce_aval,
    numpy_pick=_reduce_pick,
    weight=4.0,
    multiple_results=True,
)
