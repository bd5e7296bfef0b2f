"""Reductions: sum, product, extremes and bitwise folds over axes, argmax and argmin.

Floor 2. In: an array and the axes to fold. Out: the array without these axes. Half-precision sums
and products accumulate in float32 and are rounded once. Folding no elements gives the operation's
identity.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.primitive import (
    BY_PARTS,
    LINEAR,
    NOT_DIFFERENTIABLE,
    NOT_LINEAR,
    Combine,
    Kind,
    Primitive,
)
from gpuarray.core.trace import kept
from gpuarray.primitives import cuda_rules
from gpuarray.primitives.axes import with_axis
from gpuarray.primitives.define import (
    BOOL,
    FLOATING,
    INTEGER,
    NUMERIC,
    check_axes,
    check_dtype,
    do,
    reduction,
)
from gpuarray.primitives.numpy_rules import is_narrow
from gpuarray.primitives.reduce.elements import REDUCE
from gpuarray.primitives.reduce.host import fold
from gpuarray.primitives.scalar_graph import bind_on_arrays, check_fold, on_arrays


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
        if wide is not dtype:
            in_wide = fold(ufunc, axes, wide)
            return lambda x: in_wide(x.astype(wide)).astype(dtype)
        return fold(ufunc, axes, dtype)

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
            folded = functools.partial(ufunc.reduce, axis=axes, initial=initial)
        else:
            folded = fold(ufunc, axes, wide)
        return folded if wide is dtype else lambda x: folded(x.astype(wide)).astype(dtype)

    return pick


def _bitwise(on_bits: np.ufunc, on_bools: np.ufunc):
    def pick(avals, *, axes):
        dtype = avals[0].dtype
        return fold(on_bools if dtype == np.bool_ else on_bits, axes, dtype)

    return pick


# ---- derivatives ----


def _kept(ndim: int, axes) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d not in axes)


def _sum_transpose(ct, operand, *, axes, out_sharding=None):
    shape = operand.aval.shape
    dims = _kept(len(shape), axes)
    return (do.broadcast_in_dim(ct, shape=shape, broadcast_dimensions=dims, sharding=None),)


def _in_rows(x, axes):
    """Merge the folded axes into one, in front of the others."""
    shape = aval_of(x).shape
    kept = _kept(len(shape), axes)
    # None: the axes are in this order already, and reshape moves nothing.
    order: tuple[int, ...] | None = (*axes, *kept)
    if order == tuple(range(len(shape))):
        order = None
        if len(axes) == 1:
            return x
    rows = (math.prod(shape[a] for a in axes), *(shape[d] for d in kept))
    return do.reshape(x, new_sizes=rows, dimensions=order, sharding=None)


def _rows(x, start: int, stop: int, step: int = 1):
    shape = aval_of(x).shape
    return do.slice(
        x,
        start_indices=(start, *(0,) * (len(shape) - 1)),
        limit_indices=(stop, *shape[1:]),
        strides=(step, *(1,) * (len(shape) - 1)),
    )


def _prod_parts(x, *, axes, out_sharding=None):
    """Multiply halves until one row is left: its derivative is right with zeros among the factors.

    The derivative product / x of one fold would be 0 / 0 there.
    """
    x = _in_rows(x, axes)
    one = kept(aval_of(x).dtype.type(1))
    length, *rest = aval_of(x).shape
    if length == 0:
        return do.broadcast_in_dim(one, shape=tuple(rest), broadcast_dimensions=(), sharding=None)
    while length > 1:
        half = (length + 1) // 2
        low, high = _rows(x, 0, half), _rows(x, half, length)
        # An odd row out is multiplied by 1.
        if length % 2:
            high = do.pad(high, one, padding_config=((0, 1, 0), *((0, 0, 0),) * len(rest)))
        x, length = do.mul(low, high), half
    return do.squeeze(x, dimensions=(0,))


def _extreme_jvp(t, out, operand, *, axes, out_sharding=None):
    """The mean of the tangents of all elements that equal the extreme, as in JAX."""
    shape = aval_of(operand).shape
    # The result with folded axes of length 1, to compare it with the operand.
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
    cuda=Combine("{ZERO}", cuda_rules.ADD),
    numpy_pick=_accumulate(np.add),
    combine=np.add,
    dtypes=NUMERIC,
    jvp=LINEAR,
    transpose=_sum_transpose,
)
reduce_prod_p = reduction(
    "reduce_prod",
    cuda=Combine("{ONE}", cuda_rules.MUL),
    numpy_pick=_accumulate(np.multiply),
    combine=np.multiply,
    dtypes=NUMERIC,
    jvp=BY_PARTS,
    decompose=_prod_parts,
    transpose=NOT_LINEAR,
)
reduce_max_p = reduction(
    "reduce_max",
    cuda=Combine("{LOW}", cuda_rules.MAX),
    numpy_pick=_extremes(np.maximum),
    combine=np.maximum,
    dtypes=NUMERIC | BOOL,
    jvp=(_extreme_jvp,),
    transpose=NOT_LINEAR,
)
reduce_min_p = reduction(
    "reduce_min",
    cuda=Combine("{HIGH}", cuda_rules.MIN),
    numpy_pick=_extremes(np.minimum),
    combine=np.minimum,
    dtypes=NUMERIC | BOOL,
    jvp=(_extreme_jvp,),
    transpose=NOT_LINEAR,
)


def _logical(name: str, on_bits: np.ufunc, on_bools: np.ufunc, cuda: Combine) -> Primitive:
    return reduction(
        name,
        numpy_pick=_bitwise(on_bits, on_bools),
        combine=on_bits,
        cuda=cuda,
        dtypes=BOOL | INTEGER,
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
    )


reduce_and_p = _logical(
    "reduce_and", np.bitwise_and, np.logical_and, Combine("{ONES}", "{0} & {1}")
)
reduce_or_p = _logical("reduce_or", np.bitwise_or, np.logical_or, Combine("{ZERO}", "{0} | {1}"))
reduce_xor_p = _logical(
    "reduce_xor", np.bitwise_xor, np.logical_xor, Combine("{ZERO}", "{0} ^ {1}")
)


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
        if operand.shape[axis] - 1 > dtypes.iinfo(index_dtype).max:
            # The last position must fit the index dtype.
            raise ValueError(
                f"{name} along an axis of {operand.shape[axis]} elements: {index_dtype} "
                "does not hold the last position. Give a wider one (int64 needs "
                "gpuarray.enable_x64), or split the axis."
            )
        shape = operand.shape[:axis] + operand.shape[axis + 1 :]
        return ShapedArray(shape, index_dtype)

    return aval


def _arg_pick(method: str):
    # NumPy's rule is also JAX's: the first of equal elements, and nan before everything.
    def pick(avals, *, axes, index_dtype):
        (axis,) = axes
        find = getattr(np.ndarray, method)
        return lambda x: find(x, axis).astype(index_dtype)

    return pick


def _arg_extreme(name: str, worst: str) -> Primitive:
    # A partial result is a value and its position; before any element, one that loses to all.
    cuda = Combine(
        f"ga_arg<{{T}}>{{{{{worst}, ~0ull}}}}",
        f"ga_{name}({{0}}, {{1}})",
        state="ga_arg<{T}>",
        lift="ga_arg<{T}>{{{0}, {1}}}",
        finish="{0}.at",
    )
    return Primitive(
        name,
        Kind.REDUCTION,
        aval=_arg_aval(name),
        numpy_pick=_arg_pick(name),
        cuda=cuda,
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
    )


argmax_p = _arg_extreme("argmax", "{LOW}")
argmin_p = _arg_extreme("argmin", "{HIGH}")


# ---- any fold ----

#: Folds up to this many steps run from first to last; longer ones pair neighbours, round by round.
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
        # The folded axes as one in front; then whole slices are combined.
        xs = [x.transpose(order).reshape(steps, *shape) for x in values[: len(operands)]]
        out = [np.full(shape, start) for start in values[len(operands) :]]
        # Each round halves the number of steps; an odd element stays at the end.
        while len(xs[0]) > _STEPS:
            odd = [x[len(x) - len(x) % 2 :] for x in xs]
            paired = combine(*(x[:-1:2] for x in xs), *(x[1::2] for x in xs))
            xs = [np.concatenate(both) for both in zip(paired, odd)]
        for elements in zip(*xs):
            out = combine(*out, *elements)
        return out

    return fold


def _reduce_parts(*values, computation, jaxpr, dimensions):
    """Combine neighbours, round by round, until one row is left."""
    count = len(values) // 2
    xs, initial = [_in_rows(x, dimensions) for x in values[:count]], values[count:]
    length, *rest = aval_of(xs[0]).shape
    while length > 1:
        even = length - length % 2
        lows, highs = [_rows(x, 0, even, 2) for x in xs], [_rows(x, 1, even, 2) for x in xs]
        paired = bind_on_arrays(jaxpr, *lows, *highs)
        # The last of an odd number waits for the next round.
        if length % 2:
            odd = [_rows(x, even, length) for x in xs]
            paired = [do.concatenate(*both, dimension=0) for both in zip(paired, odd)]
        xs, length = paired, even // 2 + length % 2
    start = [_broadcast_start(x, tuple(rest)) for x in initial]
    if length == 0:
        return start
    return bind_on_arrays(jaxpr, *start, *(do.squeeze(x, dimensions=(0,)) for x in xs))


def _broadcast_start(start, shape):
    """Broadcast an initial value to the shape of the result; a vector has one for each row."""
    dims = tuple(range(aval_of(start).ndim))
    return do.broadcast_in_dim(start, shape=shape, broadcast_dimensions=dims, sharding=None)


def _reduce_batch(axis, args, dims, *, computation, jaxpr, dimensions):
    count = len(args) // 2
    xs = [with_axis(x, d, 0, axis.size) for x, d in zip(args[:count], dims[:count])]
    params = {
        "computation": computation,
        "jaxpr": jaxpr,
        "dimensions": tuple(d + 1 for d in dimensions),
    }
    if all(d is None for d in dims[count:]):
        out = reduce_p.bind(*xs, *args[count:], **params)
    # Batched initial values are vectors, which the primitive does not take.
    else:
        starts = [with_axis(x, d, 0, axis.size) for x, d in zip(args[count:], dims[count:])]
        out = _reduce_parts(*xs, *starts, **params)
    return out, [0] * count


reduce_p = Primitive(
    "reduce",
    Kind.LIBRARY,
    element=REDUCE,
    jvp=BY_PARTS,
    transpose=NOT_LINEAR,
    batch=_reduce_batch,
    decompose=_reduce_parts,
    aval=_reduce_aval,
    numpy_pick=_reduce_pick,
    weight=4.0,
    multiple_results=True,
)
