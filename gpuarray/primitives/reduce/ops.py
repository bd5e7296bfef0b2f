"""Reductions: sum, product, extremes and bitwise folds over axes, argmax and argmin.

Floor 2. In: an array and the axes to fold. Out: the array without these axes. Half-precision sums
and products accumulate in float32 and are rounded once. Folding no elements gives the operation's
identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.factors import Factors
from gpuarray.core.fold import ELEMENT, POSITION, Fold, Identity
from gpuarray.core.graph import Atom, Eqn, Graph, Literal
from gpuarray.core.primitive import (
    BY_PARTS,
    LINEAR,
    NOT_DIFFERENTIABLE,
    NOT_LINEAR,
    Kind,
    Primitive,
    registry,
)
from gpuarray.core.rewrite import Rewrite
from gpuarray.core.trace import full_width
from gpuarray.primitives.axes import along, with_axis
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
from gpuarray.primitives.elementwise.arithmetic import add_p, largest_p, mul_p, smallest_p
from gpuarray.primitives.elementwise.bits import and_p, or_p, xor_p
from gpuarray.primitives.reduce.elements import REDUCE
from gpuarray.primitives.scalar_graph import bind_on_arrays, check_fold, on_arrays, scalar_of

# ---- derivatives ----


def _kept(ndim: int, axes) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d not in axes)


def _sum_transpose(ct, operand, *, axes, out_sharding=None):
    # The sum's cotangent goes to every element that was added.
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
    # Folded axes in front are rows, so a fold runs from row to row.
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

    The derivative product / x of a single fold would be 0 / 0 there.
    """
    x = _in_rows(x, axes)
    one = full_width(aval_of(x).dtype.type(1))
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

SUM = Fold(Identity.ZERO, add_p, neutral=Identity.NEGATIVE_ZERO, ufunc=np.add)
PRODUCT = Fold(Identity.ONE, mul_p, ufunc=np.multiply)
LARGEST = Fold(Identity.LOWEST, largest_p, ufunc=np.maximum, selects=True)
SMALLEST = Fold(Identity.HIGHEST, smallest_p, ufunc=np.minimum, selects=True)

reduce_sum_p = reduction(
    "reduce_sum",
    fold=SUM,
    dtypes=NUMERIC,
    jvp=LINEAR,
    transpose=_sum_transpose,
)
reduce_prod_p = reduction(
    "reduce_prod",
    fold=PRODUCT,
    dtypes=NUMERIC,
    jvp=BY_PARTS,
    decompose=_prod_parts,
    transpose=NOT_LINEAR,
)


def _of_nothing(eqn: Eqn, maker: Callable[[Atom], Eqn | None]) -> Eqn | None:
    """Rule `seen_through`: the extreme of no elements is a constant.

    Of complex numbers it is -inf + 0j, and kernels begin with -inf - infj, the lowest of all.
    """
    (x,), (out,), fold = eqn.invars, eqn.outvars, eqn.primitive.fold
    assert fold is not None
    shape, dtype = x.aval.shape, x.aval.dtype
    if dtypes.kind_of(dtype) != "c" or 0 not in [shape[axis] for axis in eqn.params["axes"]]:
        return None
    number = Literal(fold.of_nothing(dtype), out.aval.update(shape=()))
    params = {"shape": out.aval.shape, "broadcast_dimensions": (), "sharding": None}
    return Eqn(registry["broadcast_in_dim"], [number], [out], params, eqn.site)


def _extreme(name: str, fold: Fold) -> Primitive:
    return reduction(
        name,
        fold=fold,
        rewrite=Rewrite(seen_through=_of_nothing),
        dtypes=NUMERIC | BOOL,
        jvp=(_extreme_jvp,),
        transpose=NOT_LINEAR,
    )


reduce_max_p = _extreme("reduce_max", LARGEST)
reduce_min_p = _extreme("reduce_min", SMALLEST)


def _logical(name: str, fold: Fold) -> Primitive:
    return reduction(
        name,
        fold=fold,
        dtypes=BOOL | INTEGER,
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
    )


reduce_and_p = _logical("reduce_and", Fold(Identity.ALL_BITS, and_p, ufunc=np.bitwise_and))
reduce_or_p = _logical("reduce_or", Fold(Identity.ZERO, or_p, ufunc=np.bitwise_or))
reduce_xor_p = _logical("reduce_xor", Fold(Identity.ZERO, xor_p, ufunc=np.bitwise_xor))


# ---- where the extremes are ----


def _arg_aval(name: str):
    def aval(operand: ShapedArray, *, axes, index_dtype) -> ShapedArray:
        check_dtype(name, operand.dtype, INTEGER | FLOATING | BOOL)
        # One axis only: a position along several would need several numbers.
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
        length = operand.shape[axis]
        if isinstance(length, int) and length - 1 > dtypes.iinfo(index_dtype).max:
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


def _arg_extreme(name: str, worst: Identity) -> Primitive:
    # A partial result is a value and its position; before any element, one that loses to all.
    return Primitive(
        name,
        Kind.REDUCTION,
        aval=_arg_aval(name),
        numpy_pick=_arg_pick(name),
        fold=Fold(
            (worst, Identity.ALL_BITS),
            f"ga_{name}({{0}}, {{1}})",
            state=(ELEMENT, POSITION),
            lift="ga_arg<{T}>{{{0}, {1}}}",
            finish="{0}.at",
        ),
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_DIFFERENTIABLE,
    )


argmax_p = _arg_extreme("argmax", Identity.LOWEST)
argmin_p = _arg_extreme("argmin", Identity.HIGHEST)


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
    """Combine neighbours, round by round, until one row is left. A function of numbers folds by a
    running fold, whose derivative is one too.
    """
    count = len(values) // 2
    shape, graph = aval_of(values[0]).shape, scalar_of(jaxpr)
    lengths = [shape[d] for d in dimensions]
    # With fewer than two elements there is nothing to fold; a symbolic length counts as many.
    few = all(isinstance(n, int) for n in lengths) and math.prod(lengths) < 2
    if graph is not None and not few:
        return _last_of_scan(values[:count], values[count:], graph, dimensions)
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


def _last_of_scan(xs, initial, graph: Graph, dimensions):
    # Several axes become one, in front; one stays where it is.
    axis = dimensions[0] if len(dimensions) == 1 else 0
    if len(dimensions) > 1:
        xs = [_in_rows(x, dimensions) for x in xs]
    n = aval_of(xs[0]).shape[axis]
    prefixes = do.associative_scan(*xs, jaxpr=graph, axis=axis, reverse=False)
    ends = [do.squeeze(along(x, axis, n - 1, n), dimensions=(axis,)) for x in prefixes]
    start = [_broadcast_start(x, aval_of(ends[0]).shape) for x in initial]
    return bind_on_arrays(graph, *start, *ends)


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


def _reduce_factors(avals, out_avals, params) -> Factors:
    """Kept axes; the folded ones are whole, because each piece would begin with the initial
    value.
    """
    count, folded = len(out_avals), params["dimensions"]
    names = [None if d in folded else d for d in range(avals[0].ndim)]
    ins = [names] * count + [[]] * count
    return Factors.named(avals, out_avals, ins, [[n for n in names if n is not None]] * count)


def _reduces(eqn) -> tuple[tuple[int, ...], tuple[int, ...], Graph]:
    """Rewrite `reduces`: the operands are not reshaped."""
    return eqn.invars[0].aval.shape, eqn.params["dimensions"], eqn.params["jaxpr"]


reduce_p = Primitive(
    "reduce",
    Kind.LIBRARY,
    element=REDUCE,
    jvp=BY_PARTS,
    transpose=NOT_LINEAR,
    batch=_reduce_batch,
    factors=_reduce_factors,
    decompose=_reduce_parts,
    rewrite=Rewrite(reduces=_reduces),
    aval=_reduce_aval,
    numpy_pick=_reduce_pick,
    weight=4.0,
    multiple_results=True,
)
