"""Means and variances along axes, weighted means, running sums and products.

Floor 6. In: an array-like and axes. Out: an Array without those axes (of the same shape for running
sums and products). Integers have float means; half precision is summed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dims, dtypes, lengths, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import cuts_of, resolving
from gpuarray.core.value import Array
from gpuarray.errors import ShardingTypeError
from gpuarray.numpy.arithmetic import multiply, subtract, true_divide
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.functions import sqrt
from gpuarray.numpy.operands import no_out
from gpuarray.numpy.promotion import (
    arrays,
    broadcast_to,
    check_arraylike,
    promote_args_inexact,
    select,
)
from gpuarray.numpy.reductions import (
    boolean_mask,
    compute_dtype,
    plain_axis,
    split_axes,
    sum,
    widened,
)
from gpuarray.util import canonical_axes, canonical_axis

kind_of = dtypes.kind_of

# ---- means and variances ----


def _count(shape: tuple[int, ...], axis: Any) -> int:
    # `axis` may name axes of a vmap or shard_map around: elements along them count, too.
    names, axes = split_axes(axis, len(shape))
    return math.prod((*(shape[i] for i in axes), *map(lax.axis_size, names)))


def _number(count: Any, dtype: Any) -> Any:
    """A count as a scalar of this dtype; one of symbols is worked out when the program runs."""
    return as_type(asarray(count), dtype) if isinstance(count, dims.Dim) else dtype.type(count)


def _spread_mask(name: str, where: Any, shape: tuple[int, ...]) -> Any:
    mask = asarray(boolean_mask(name, where))
    return broadcast_to(mask, lengths.broadcast(mask.shape, shape))


def _counted(name: str, shape: tuple[int, ...], axis: Any, dtype: Any, where, keepdims) -> Any:
    """How many elements are averaged: all along `axis`, or those that `where` marks."""
    if where is None:
        return _number(_count(shape, axis), dtype)
    return sum(_spread_mask(name, where, shape), axis, dtype, keepdims=keepdims)


def mean(a, axis=None, dtype=None, out=None, keepdims: bool = False, *, where=None) -> Array:
    """The arithmetic mean of elements along `axis`.

    Shape contract: those axes go, or become 1 with `keepdims`. Integers have float means; half
    precision is summed in float32. An integer `dtype` is that of the elements, of the sum and of
    the mean, which is truncated. The mean of an empty array is nan.

    >>> import gpuarray.numpy as gnp
    >>> gnp.mean(gnp.array([[1, 2], [3, 5]]), axis=0)
    Array([2. , 3.5], dtype=float32)
    """
    no_out("mean", out)
    check_arraylike("mean", a)
    wanted = None if dtype is None else mean_dtype("mean", dtype)
    return _mean(a, where, axis=plain_axis(axis), dtype=wanted, keepdims=keepdims)


def mean_dtype(name: str, dtype: Any) -> Any:
    """The dtype asked of a mean, which divides."""
    wanted = dtypes.check_user_dtype(dtype, name)
    if kind_of(wanted) == "b":
        raise TypeError(
            f"{name} with dtype=bool: there is no division of booleans. Leave dtype out, and "
            "convert the result with .astype(bool)."
        )
    return wanted


@composite(static=("axis", "dtype", "keepdims"), inline=True)
def _mean(a, where, *, axis, dtype, keepdims):
    (a,) = arrays("mean", a)
    if dtype is None:
        result = dtypes.to_inexact_dtype(a.dtype)
        through = compute_dtype(result)
    else:
        # An explicit dtype comes first: the elements become integers, whose sums wrap.
        result = through = dtype
    total = sum(as_type(a, through), axis, through, keepdims=keepdims, where=where)
    most = _count(a.shape, axis)
    # dtype=int8 of a long axis: sums wrap, as in JAX, but the count must not.
    if kind_of(through) in "iu" and isinstance(most, int) and most > dtypes.iinfo(through).max:
        through = dtypes.default_int()  # of the division: the count does not fit
        total = as_type(total, through)
    count = _counted("mean", a.shape, axis, through, where, keepdims)
    return as_type(lax.div(total, count), result)


def average(a, axis=None, weights=None, returned: bool = False, keepdims: bool = False) -> Any:
    """The mean along `axis`, weighted when there are weights; with `returned`, also their sum.

    Shape contract: those axes go, or become 1 with `keepdims`. weights has the shape of a, or is
    one-dimensional along the one axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.average(gnp.array([1.0, 2.0, 6.0]), weights=gnp.array([1.0, 1.0, 2.0]))
    Array(3.75, dtype=float32)
    """
    if weights is None:
        (a,) = promote_args_inexact("average", a)
        a = asarray(a)
        out = mean(a, axis, keepdims=keepdims)
        count = _count(a.shape, axis)
        return (out, lax.full_like(out, count)) if returned else out
    a, w = (asarray(x) for x in _same_inexact("average", a, weights))
    # Weights along the averaged axes only: put in place and repeated.
    if w.shape != a.shape:
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        axes = canonical_axes(plain_axis(axis), a.ndim)
        if w.shape != tuple(a.shape[i] for i in axes):
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis: "
                f"got weights {w.shape} for axis {axis} of shape {a.shape}."
            )
        # The weights' axes are in the order in which `axis` names them; in `a` they ascend.
        order = np.argsort(axes)
        w = lax.transpose(w, tuple(int(i) for i in order))
        w = lax.broadcast_in_dim(w, a.shape, tuple(sorted(axes)))
    total = sum(w, axis, keepdims=keepdims)
    out = true_divide(sum(multiply(a, w), axis, keepdims=keepdims), total)
    return (out, total) if returned else out


def _same_inexact(name: str, a: Any, b: Any) -> list[Any]:
    """Promoted to one inexact dtype; shapes are the caller's business."""
    check_arraylike(name, a, b)
    a, b = asarray(a), asarray(b)
    dtype = dtypes.to_inexact_dtype(promotion.result_type(a, b))
    return [as_type(x, dtype) for x in (a, b)]


def var(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where=None,
    mean=None,
    correction=None,
) -> Array:
    """The variance of elements along `axis`: the mean of |a - mean|**2 over count - ddof.

    Shape contract: those axes go, or become 1 with `keepdims`; real for complex numbers. `mean`, if
    known, has those axes as 1. The variance is nan if count <= ddof.

    >>> import gpuarray.numpy as gnp
    >>> gnp.var(gnp.array([1.0, 3.0, 5.0]), ddof=1)
    Array(4., dtype=float32)
    """
    no_out("var", out)
    check_arraylike("var", a)
    ddof = ddof_of(ddof, correction)
    axis = plain_axis(axis)
    return _var(a, ddof, where, mean, axis=axis, dtype=dtype, keepdims=keepdims)


def ddof_of(ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if not isinstance(ddof, int) or ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


@composite(static=("axis", "dtype", "keepdims"))
def _var(a, ddof, where, centre, *, axis, dtype, keepdims):
    a = asarray(a)
    # Half floats are centred in float32.
    own = dtypes.to_inexact_dtype(a.dtype)
    wanted = None if dtype is None else mean_dtype("var", dtype)
    if wanted is not None:
        wanted = dtypes.to_inexact_dtype(wanted)
        if kind_of(own) == "c" and kind_of(wanted) != "c":
            raise ValueError(
                "jax.numpy.var does not yet support real dtype parameters when computing the "
                "variance of an array of complex values: the result is real anyway, so leave dtype "
                "out, or give a complex one."
            )
    through = compute_dtype(own if wanted is None else promotion.wider(own, wanted))
    x = as_type(a, through)
    # Two passes: mean((x - mean)**2) loses no digits to a large mean.
    if centre is None:
        centre = _mean(x, where, axis=axis, dtype=through, keepdims=True)
    centred = subtract(x, as_type(asarray(centre), through))
    # |x - mean|**2 of complex numbers: the variance is real.
    if kind_of(through) == "c":
        squares = lax.real(lax.mul(centred, lax.conj(centred)))
    else:
        squares = lax.square(centred)
    part = squares.dtype
    total = sum(squares, axis, part, keepdims=keepdims, where=where)
    count = _counted("var", a.shape, axis, part, where, keepdims)
    freedom = subtract(count, as_type(asarray(ddof), part))
    out = true_divide(total, freedom)
    # Too few elements for the degrees of freedom: nan, as in JAX.
    out = select(lax.gt(freedom, part.type(0)), out, part.type(np.nan))
    return as_type(out, dtypes.to_real_dtype(own) if wanted is None else wanted)


def std(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where=None,
    mean=None,
    correction=None,
) -> Array:
    """The standard deviation of elements along `axis`: the square root of `var`.

    Shape contract: as `var`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.std(gnp.array([1.0, 3.0, 5.0]), ddof=1)
    Array(2., dtype=float32)
    """
    no_out("std", out)
    check_arraylike("std", a)
    ddof = ddof_of(ddof, correction)
    axis = plain_axis(axis)
    return _std(a, ddof, where, mean, axis=axis, dtype=dtype, keepdims=keepdims)


@composite(static=("axis", "dtype", "keepdims"))
def _std(a, ddof, where, centre, *, axis, dtype, keepdims):
    if dtype is not None and kind_of(dtypes.check_user_dtype(dtype, "std")) not in "fc":
        raise ValueError(
            f"dtype argument to jnp.std must be inexact; got {dtypes.as_dtype(dtype)}: a root is "
            "seldom whole. Leave dtype out, and convert the result with .astype."
        )
    return sqrt(_var(a, ddof, where, centre, axis=axis, dtype=dtype, keepdims=keepdims))


# ---- running sums and products ----


def cumsum(a, axis: int | None = None, dtype=None, out=None) -> Array:
    """The running sum along `axis` (of the flattened array for None).

    Shape contract: the shape of a, or (size,) for None. Booleans sum to integers.

    >>> import gpuarray.numpy as gnp
    >>> gnp.cumsum(gnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    no_out("cumsum", out)
    check_arraylike("cumsum", a)
    return _cumsum(a, axis=axis, dtype=dtype)


def cumprod(a, axis: int | None = None, dtype=None, out=None) -> Array:
    """The running product along `axis` (of the flattened array for None).

    Shape contract: the shape of a, or (size,) for None. Booleans multiply to integers.

    >>> import gpuarray.numpy as gnp
    >>> gnp.cumprod(gnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    no_out("cumprod", out)
    check_arraylike("cumprod", a)
    return _cumprod(a, axis=axis, dtype=dtype)


@composite(static=("axis", "dtype"), eager=False, name="cumsum")
def _cumsum(a, axis, dtype):
    return _cumulate("cumsum", lax.cumsum, a, axis, dtype)


@composite(static=("axis", "dtype"), eager=False, name="cumprod")
def _cumprod(a, axis, dtype):
    return _cumulate("cumprod", lax.cumprod, a, axis, dtype)


def _cumulate(name: str, run: Callable[..., Array], a, axis, dtype, widen=False) -> Array:
    (a,) = arrays(name, a)
    # Flattened, as NumPy's.
    if axis is None:
        cuts = cuts_of(aval_of(a).layout)
        if a.ndim > 1 and cuts and any(cuts) and not resolving.depth:
            raise ShardingTypeError(
                f"{name} without an axis: The input should be fully replicated. Got type "
                f"{aval_of(a).str_short()}. Give an axis, or lay it anew with sharding.reshard."
            )
        a = lax.reshape(a, (a.size,))
    if dtype is not None:
        wanted = dtypes.check_user_dtype(dtype, name)
    elif kind_of(a.dtype) == "b":
        wanted = dtypes.default_int()
    else:
        wanted = widened(a.dtype) if widen else a.dtype
    x, axis = as_type(a, wanted), canonical_axis(0 if axis is None else axis, a.ndim)
    if kind_of(wanted) == "b":  # requested: whether any element, or all elements so far, are True
        return as_type(run(as_type(x, dtypes.default_int()), axis), wanted)
    return run(x, axis)


def cumulative_sum(
    x, /, *, axis: int | None = None, dtype=None, include_initial: bool = False
) -> Array:
    """The running sum along `axis`, from 0 on with `include_initial`.

    Shape contract: the shape of x, that axis one longer with `include_initial`. Narrow integers
    become default integers. `axis` may be left out for one-dimensional x.

    >>> import gpuarray.numpy as gnp
    >>> gnp.cumulative_sum(gnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumulative("cumulative_sum", lax.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x, /, *, axis: int | None = None, dtype=None, include_initial: bool = False
) -> Array:
    """The running product along `axis`, from 1 on with `include_initial`.

    Shape contract: as `cumulative_sum`. Narrow integers become default integers, as NumPy and the
    array API have it; JAX leaves them narrow.

    >>> import gpuarray.numpy as gnp
    >>> gnp.cumulative_prod(gnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _cumulative("cumulative_prod", lax.cumprod, x, axis, dtype, include_initial, 1)


def _cumulative(name: str, run, x, axis, dtype, include_initial: bool, first: int) -> Array:
    (x,) = arrays(name, x)
    if x.ndim == 0:
        raise ValueError(
            "The input must be non-scalar to take a cumulative sum, however a scalar value or "
            "scalar array was given."
        )
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"The input array has rank {x.ndim}, however axis was not set to an explicit value. "
            "The axis argument is only optional for one-dimensional arrays."
        )
    at = canonical_axis(0 if axis is None else axis, x.ndim)
    out = _cumulate(name, run, x, at, dtype, widen=True)
    # The array API's function may start with the identity.
    if not include_initial:
        return out
    shape = (*out.shape[:at], 1, *out.shape[at + 1 :])
    return lax.concatenate([lax.full(shape, first, out.dtype), out], at)
