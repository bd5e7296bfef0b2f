"""Functions of a whole axis: softmax, logsumexp, logmeanexp, standardize.

Floor 6. In: array-likes, an axis (or several, or None for all), and `where`, a mask of the elements
to include. Out: Arrays. Every exponential is taken of differences to the maximum, so none
overflows; each function is one fused kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.config import state
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.promotion import (
    check_arraylike,
    promote_args_inexact,
    promote_dtypes_inexact,
)
from gpuarray.numpy.reductions import split_axes

Axis = int | tuple[int, ...] | None


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis: positive numbers that sum to 1.

    Shape contract: the shape of x. Elements where the mask is False take no part and become 0.

    >>> import gpuarray.numpy as gnp
    >>> softmax(gnp.array([1000.0, 1000.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    check_arraylike("softmax", x)
    # A setting of JAX's: the rule below, or the derivative of the formula.
    if state.softmax_custom_jvp:
        return _softmax_with_rule(x, where, axis)
    return _softmax(x, where, axis)


def _softmax(x, where, axis):
    difference = _below_maximum("softmax", x, axis, where)
    exponentials = gnp.exp(difference)
    total = gnp.sum(exponentials, axis, where=where, keepdims=True)
    result = exponentials / total
    # Excluded from the sum, and 0 in the result.
    return result if where is None else gnp.where(where, result, 0)


# The derivative uses only the result: no other intermediate value has to be kept.
_softmax_with_rule = custom_jvp(_softmax, nondiff_argnums=(2,))


@_softmax_with_rule.defjvp
def _softmax_jvp(axis, primals, tangents):
    (x, where), (t, _) = primals, tangents
    y = _softmax_with_rule(x, where, axis)
    # J t = y * (t - <y, t>).
    return y, y * (t - gnp.sum(y * t, axis, where=where, keepdims=True))


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)), without underflow.

    Shape contract: the shape of x. Elements where the mask is False take no part and become -inf.

    >>> import gpuarray.numpy as gnp
    >>> log_softmax(gnp.array([0.0, -1000.0]))
    Array([    0., -1000.], dtype=float32)
    """
    difference = _below_maximum("log_softmax", x, axis, where)
    total = gnp.sum(gnp.exp(difference), axis, where=where, keepdims=True)
    result = difference - gnp.log(total)
    return result if where is None else gnp.where(where, result, -np.inf)


def _below_maximum(name: str, x: ArrayLike, axis: Axis, where: ArrayLike | None) -> Array:
    """x - max(x) along the axis, -inf where the mask is False: at most 0, so exp is at most 1."""
    check_arraylike(name, x)
    x = gnp.asarray(x)
    is_bool = x.dtype == np.bool_
    if not is_bool:
        x = _as_float(x)
    # The maximum needs no derivative: it cancels.
    lowest = gnp.asarray(False if is_bool else -np.inf, x.dtype)
    largest = gnp.max(x, axis, where=where, initial=lowest, keepdims=True)
    taking_part = x if where is None else gnp.where(where, x, -np.inf)
    return taking_part - lax.stop_gradient(largest)


def _as_float(x: Array) -> Array:
    """Integers as floats, before a difference or a square of them could wrap around."""
    (found,) = promote_args_inexact("softmax", x)
    return gnp.asarray(found)


@check_ranks("a", "b")
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """log(sum(b * exp(a))) along an axis, without overflow.

    Shape contract: a and b broadcast; `axis` is dropped, or kept with length 1. With `return_sign`,
    the log of the absolute value and the sign; without, a negative sum gives nan.

    >>> import gpuarray.numpy as gnp
    >>> logsumexp(gnp.array([1000.0, 1000.0])).round(2)
    Array(1000.69, dtype=float32)
    """
    if b is None:
        check_arraylike("logsumexp", a)
        [terms] = promote_dtypes_inexact(a)
        weights = None
    else:
        check_arraylike("logsumexp", a, b)
        terms, weights = promote_dtypes_inexact(a, b)
    terms = gnp.asarray(terms)
    if where is not None:
        # Excluded again below; 0 keeps nan and inf of masked terms out of the derivative.
        terms = gnp.where(where, terms, 0)
    # log(sum(b exp(a))); without weights they are all 1.
    if weights is not None:
        # A term without weight must not decide the maximum.
        terms = gnp.where(gnp.not_equal(weights, 0), terms, -np.inf)
    names, axes = split_axes(axis, terms.ndim)
    over = (*names, *axes)
    # Complex terms are compared by their size: exp(a) has the modulus exp(real(a)).
    largest = gnp.max(gnp.real(terms), over, keepdims=keepdims, where=where, initial=-np.inf)
    # With an infinite maximum the differences would be nan.
    finite = lax.select(gnp.isfinite(largest), largest, lax.full_like(largest, 0))
    shift = lax.stop_gradient(finite)
    exponentials = gnp.exp(terms - (shift if keepdims else lax.expand_dims(shift, axes)))
    if weights is not None:
        exponentials = exponentials * weights
    total = gnp.sum(exponentials, over, keepdims=keepdims, where=where)
    sign = gnp.sign(total)
    # The sign (or the phase) is a separate result.
    if return_sign or not gnp.iscomplexobj(total):
        total = gnp.abs(total)
    logarithm = gnp.log(total) + shift
    if return_sign:
        return logarithm, sign
    if weights is not None and not gnp.iscomplexobj(sign):
        # The logarithm of a negative number is not real.
        logarithm = gnp.where(sign < 0, np.nan, logarithm)
    return logarithm


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """log(mean(exp(x))) along an axis, without overflow.

    Shape contract: `axis` is dropped, or kept with length 1; elements where the mask is False do
    not count.

    >>> import gpuarray.numpy as gnp
    >>> logmeanexp(gnp.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    total: Any = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    x = gnp.asarray(x)
    if where is None:
        # All elements count, or as many as the mask selects.
        count = float(util.prod(x.shape[i] for i in util.canonical_axes(axis, x.ndim)))
    else:
        counted = gnp.broadcast_to(where, x.shape)
        count = gnp.sum(counted, axis, keepdims=keepdims, dtype=gnp.real(total).dtype)
    return total - gnp.log(count)


@check_ranks("x", "mean", "variance")
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with mean and variance along an axis unless given.

    Shape contract: the shape of x; a given mean or variance broadcasts against it.

    Parameters
    ----------
    algorithm :
        "fast" computes the variance as mean(x**2) - mean(x)**2, in one pass; "stable" as mean((x -
        mean)**2), which keeps digits when the mean is far from 0.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> standardize(gnp.array([0.0, 2.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    check_arraylike("standardize", *(v for v in (x, mean, variance) if v is not None))
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"Unknown algorithm {algorithm!r}. Expected 'fast' or 'stable'.")
    x = _as_float(gnp.asarray(x))
    for i in () if axis is None else np.ravel(axis):
        if not -x.ndim <= util.index(i) < x.ndim:
            raise IndexError(
                f"standardize: axis {i} is out of bounds for array of dimension {x.ndim}."
            )
    if mean is None:
        mean = gnp.mean(x, axis, keepdims=True, where=where)
    if variance is None and algorithm == "stable":
        variance = gnp.mean(gnp.square(x - mean), axis, keepdims=True, where=where)
    elif variance is None:
        squares = gnp.mean(gnp.square(x), axis, keepdims=True, where=where)
        # Rounding may leave a difference just below 0.
        variance = gnp.clip(squares - gnp.square(mean), 0)
    return gnp.subtract(x, mean) * lax.rsqrt(gnp.add(variance, epsilon))
