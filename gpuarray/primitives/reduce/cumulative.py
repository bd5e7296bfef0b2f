"""Running folds along one axis: sum, product, extremes, log of the sum of exponentials.

In: an array, an axis, and whether to run from its end (`reverse`). Out: an array of that shape.
Half-precision runs accumulate in float32 and round each result once; sums of single precision
in double. Floor 2.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.fold import Fold, Identity
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import BY_PARTS, LINEAR, NOT_LINEAR, Kind, Primitive, registry
from gpuarray.primitives.cuda_rules import by_class
from gpuarray.primitives.define import COMPLEX, FLOATING, NUMERIC, check_dtype, do
from gpuarray.primitives.elementwise.arithmetic import largest_p, smallest_p
from gpuarray.primitives.linear import zeros
from gpuarray.primitives.reduce.host import wide_of
from gpuarray.primitives.reduce.ops import LARGEST, PRODUCT, SMALLEST, SUM
from gpuarray.primitives.reduce.prefixes import prefixes


def _aval(name: str, accepted):
    # The parameters' order in a printed graph is JAX's.
    def aval(operand, *, axis, reverse):
        check_dtype(name, operand.dtype, accepted)
        if axis < 0:
            raise ValueError(
                f"XLA operations do not allow negative axes, got axis={axis} for {name}. "
                f"Count it from the front: {axis + operand.ndim}."
            )
        if axis >= operand.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {operand.shape}")
        return operand

    return aval


def _running(fold: Fold):
    """Return the NumPy rule of a cumulative operation; narrow numbers run in a wider type."""

    def pick(avals, *, axis, reverse):
        dtype = avals[0].dtype
        wide = wide_of(dtype)
        accumulate = fold.ufunc.accumulate

        def forward(x):
            out = accumulate(x, axis, wide)
            return out if wide is dtype else out.astype(dtype)

        return _directed(forward, axis, reverse)

    return pick


#: Elements that are accumulated at a time: as doubles they stay in cache.
_BLOCK = 1 << 14
#: Rows of at least this many elements are added one by one.
_WIDE = 512
#: Shorter axes run in single precision: their errors have no room to add up.
_LONG = 1024
_DOUBLE = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}


def _in_double(fold: Fold):
    """As `_running`, but single precision is accumulated in double and each result rounded once:
    the errors of millions of steps would add up.
    """
    plain, ufunc = _running(fold), fold.ufunc

    def pick(avals, *, axis, reverse):
        double = _DOUBLE.get(avals[0].dtype)
        if double is None:
            return plain(avals, axis=axis, reverse=reverse)
        return _directed(lambda x: _by_blocks(ufunc, x, axis, double), axis, reverse)

    return pick


def _by_blocks(ufunc: np.ufunc, x, axis: int, double):
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if n < _LONG:
        return ufunc.accumulate(x, axis)
    # A lane for each index before the axis; its columns are accumulated side by side.
    lanes = x.reshape(math.prod(x.shape[:axis]), n, inner)
    out: Any = np.empty(lanes.shape, x.dtype)
    columns = min(inner, _BLOCK)
    rows = _BLOCK // columns if columns < _WIDE else 1
    for lane, made in zip(lanes, out, strict=True):
        for column in range(0, inner, columns):
            part = slice(column, column + columns)
            # The first element starts the fold; each block continues from the last result of the
            # previous one.
            total = lane[0, part].astype(double)
            made[0, part] = total
            for row in range(1, n, rows):
                at = slice(row, row + rows), part
                if rows == 1:
                    # Wide rows: the total itself is the next row, kept in double precision.
                    made[at] = ufunc(total, lane[at], out=total[None])
                    continue
                block = lane[at].astype(double)
                ufunc(total, block[0], out=block[0])
                made[at] = ufunc.accumulate(block, 0, None, block)
                # The last row of the block is the fold so far.
                total = block[-1]
    return out.reshape(x.shape)


def _directed(forward, axis: int, reverse: bool):
    # In reverse: flip, run forward, flip back (views, no copies).
    if not reverse:
        return forward
    flip = (slice(None),) * axis + (slice(None, None, -1),)
    return lambda x: forward(x[flip])[flip]


# ---- the same from other primitives, which can be differentiated ----


def _parts(combine):
    def merge(one: list, two: list) -> list:
        return [combine(*one, *two)]

    def parts(x, *, axis, reverse):
        # A run from the end is a run of the reversed array, reversed back.
        (out,) = prefixes(merge, [do.rev(x, dimensions=(axis,)) if reverse else x], axis)
        return do.rev(out, dimensions=(axis,)) if reverse else out

    return parts


def _either(of_complex: Primitive, name: str):
    """How extremes merge: for real numbers by the primitive of that name, which users know."""

    def merge(a, b):
        is_complex = dtypes.kind_of(aval_of(a).dtype) == "c"
        return (of_complex if is_complex else registry[name]).bind(a, b)

    return merge


@functools.lru_cache(64)
def _product_of(dtype) -> Graph:
    a, b, out = (Var(ShapedArray((), dtype)) for _ in range(3))
    return Graph([a, b], [out], [Eqn(registry["mul"], [a, b], [out], {})])


def _prod_parts(x, *, axis, reverse):
    # As an associative scan, since the derivative of that is one scan more.
    jaxpr = _product_of(aval_of(x).dtype)
    (out,) = do.associative_scan(x, jaxpr=jaxpr, axis=axis, reverse=reverse)
    return out


def logaddexp(a, b):
    """log(exp a + exp b), from the larger one; smooth, where a maximum would have a kink."""
    kind = dtypes.kind_of(aval_of(a).dtype)
    less = do.lt(do.real(a), do.real(b)) if kind == "c" else do.lt(a, b)
    high, low = do.select_n(less, a, b), do.select_n(less, b, a)
    # At most 0, so that exp cannot overflow.
    apart = do.sub(low, high)
    if kind == "c":
        # Complex numbers: scale by the larger real part alone.
        top = do.real(high)
        top = do.complex(top, zeros(aval_of(top)))
        # The logarithm keeps the imaginary part in (-pi, pi].
        return do.add(top, do.log(do.add(do.exp(do.sub(a, top)), do.exp(do.sub(b, top)))))
    usual = do.add(high, do.log1p(do.exp(apart)))
    return do.select_n(do.ne(apart, apart), usual, do.add(a, b))  # equal infinities, and NaN


# ---- the primitives ----


def _batch(name: str):
    # The batch axis shifts the axes at and behind it.
    def batch(mapped, args, dims, *, axis, reverse):
        (x,), (d,) = args, dims
        return registry[name].bind(x, axis=axis + (axis >= d), reverse=reverse), d

    return batch


def _cumulative(
    name: str, fold: Fold, parts, accepted=NUMERIC, pick=None, weight: float = 2.0
) -> Primitive:
    return Primitive(
        name,
        Kind.SCAN,
        aval=_aval(name, accepted),
        numpy_pick=pick or _running(fold),
        fold=fold,
        weight=weight,
        jvp=BY_PARTS,
        transpose=NOT_LINEAR,
        batch=_batch(name),
        decompose=parts,
    )


def _cumsum_transpose(ct, operand, *, axis, reverse):
    # Element i contributes to all later sums, so its cotangent is the sum from the other end.
    return (do.cumsum(ct, axis=axis, reverse=not reverse),)


LOG_SUM_EXP = Fold(
    Identity.LOG_OF_ZERO,
    by_class("ga_logaddexp({0}, {1})", complex="ga_clogaddexp({0}, {1})"),
    ufunc=np.logaddexp,
)


def _logsumexp_pick(avals, *, axis, reverse):
    dtype = avals[0].dtype
    if dtypes.kind_of(dtype) != "c":
        return _in_double(LOG_SUM_EXP)(avals, axis=axis, reverse=reverse)

    def forward(z):
        lanes = np.moveaxis(z, axis, -1)
        # NumPy has no logaddexp of complex numbers: go along the axis step by step.
        out = np.empty(lanes.shape, dtype)
        nothing = dtype.type(-np.inf)
        for i in range(lanes.shape[-1]):
            here = lanes[..., i]
            out[..., i] = _complex_logaddexp(out[..., i - 1] if i else nothing, here)
        return np.moveaxis(out, -1, axis)

    return _directed(forward, axis, reverse)


def _complex_logaddexp(a, b):
    """log(exp a + exp b), with its imaginary part in (-π, π]."""
    top = np.maximum(a.real, b.real)
    # -inf on both sides: shifting by it would give nan.
    top = np.where(np.isfinite(top), top, 0)
    return top + np.log(np.exp(a - top) + np.exp(b - top))


cumsum_p = Primitive(
    "cumsum",
    Kind.SCAN,
    aval=_aval("cumsum", NUMERIC),
    numpy_pick=_in_double(SUM),
    fold=SUM,
    weight=2.0,
    jvp=LINEAR,
    transpose=_cumsum_transpose,
    batch=_batch("cumsum"),
)
cumprod_p = _cumulative("cumprod", PRODUCT, _prod_parts)
# For equal elements the derivative depends on the order of merging: it is that of the tree.
cummax_p = _cumulative("cummax", LARGEST, _parts(_either(largest_p, "max")))
cummin_p = _cumulative("cummin", SMALLEST, _parts(_either(smallest_p, "min")))
cumlogsumexp_p = _cumulative(
    "cumlogsumexp", LOG_SUM_EXP, _parts(logaddexp), FLOATING | COMPLEX, _logsumexp_pick, weight=20.0
)
