"""Logarithms of odds and of ratios: entropies, logistic functions, power transforms.

Floor 6. In: array-likes. Out: Arrays. Each function is pointwise; 0 log 0 is 0, and the derivatives
there are the limits.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax, nn
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.nn.normalize import logsumexp as logsumexp
from gpuarray.scipy.special.operands import inexact, like, real, strong_with_axes

Axis = int | tuple[int, ...] | None


def expit(x: ArrayLike) -> Array:
    """The logistic function 1 / (1 + exp(-x)), of real or complex x. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> expit(gnp.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    return lax.logistic(*inexact("expit", x))


@custom_jvp
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> logit(gnp.array([0.0, 0.5, 1.0]))
    Array([-inf,   0.,  inf], dtype=float32)
    """
    (x,) = strong_with_axes(inexact("logit", x))
    return lax.log(x / (like(1, x) - x))


# The derivative 1 / (x (1 - x)), which needs no logarithm.
logit.defjvps(lambda t, y, x: t / (gnp.asarray(x) * (1 - gnp.asarray(x))))


def _times_log(x: Array, y: Array, log) -> Array:
    # 0 log y is 0 for every y but nan.
    nothing = (x == 0) & ~gnp.isnan(y)
    safe = gnp.where(nothing, like(1, y), y)
    return gnp.where(nothing, like(0, x), x * log(safe))


@custom_jvp
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), and 0 where x is 0. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> xlogy(gnp.array([0.0, 2.0]), gnp.array([0.0, 1.0]))
    Array([0., 0.], dtype=float32)
    """
    x, y = inexact("xlogy", x, y)
    return _times_log(x, y, lax.log)


xlogy.defjvps(lambda t, out, x, y: t * gnp.log(y), lambda t, out, x, y: t * x / y)


@custom_jvp
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), and 0 where x is 0. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> xlog1py(gnp.array([0.0, 2.0]), gnp.array([-1.0, 0.0]))
    Array([0., 0.], dtype=float32)
    """
    x, y = inexact("xlog1py", x, y)
    return _times_log(x, y, lax.log1p)


xlog1py.defjvps(lambda t, out, x, y: t * gnp.log1p(y), lambda t, out, x, y: t * x / (1 + y))


@custom_jvp
def _entr(x: Array) -> Array:
    return gnp.where(x < 0, like(-np.inf, x), -xlogy(x, x))


# Below 0 the value is constant: no logarithm is taken there, whose nan would win over the 0.
_entr.defjvps(
    lambda t, y, x: t * gnp.where(x < 0, like(0, x), -1 - lax.log(gnp.where(x < 0, like(1, x), x)))
)


def entr(x: ArrayLike) -> Array:
    """-x log(x), 0 at 0, and -inf below. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> entr(gnp.array([0.0, 0.5, -1.0])).round(4)
    Array([-0.    ,  0.3466,    -inf], dtype=float32)
    """
    return _entr(*real("entr", x))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q); 0 where p is 0 and q is not negative; inf where one of them is.

    The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> rel_entr(gnp.array([0.0, 1.0]), gnp.array([0.5, 0.5])).round(4)
    Array([0.    , 0.6931], dtype=float32)
    """
    p, q = strong_with_axes(real("rel_entr", p, q))
    # The shape that an operation gives, with its error where the two do not fit.
    shape = ((p > 0) & (q > 0)).shape
    return _rel_entr(gnp.broadcast_to(p, shape), gnp.broadcast_to(q, shape))


def _log_ratio(p: Array, q: Array) -> tuple[Array, Array]:
    """Where both are positive, and log(p / q) there, also where the quotient is no normal number;
    elsewhere 0.
    """
    both = (p > 0) & (q > 0)
    p, q = gnp.where(both, p, like(1, p)), gnp.where(both, q, like(1, q))
    ratio = p / q
    info = dtypes.finfo(ratio.dtype)
    normal = (ratio >= float(info.tiny)) & (ratio <= float(info.max))
    # Where the quotient overflows or loses digits, the difference of logarithms.
    apart = lax.log(p) - lax.log(q)
    return both, gnp.where(normal, lax.log(gnp.where(normal, ratio, like(1, p))), apart)


@custom_jvp
def _rel_entr(p: Array, q: Array) -> Array:
    both, log = _log_ratio(p, q)
    nothing = (p == 0) & (q >= 0)
    out = gnp.where(both, p * log, gnp.where(nothing, like(0, p), like(np.inf, p)))
    return gnp.where(gnp.isnan(p) | gnp.isnan(q), like(np.nan, p), out)


# Where one of them is not positive, the value is constant.
def _rel_entr_by_p(t: Array, p: Array, q: Array) -> Array:
    both, log = _log_ratio(p, q)
    return t * gnp.where(both, log + 1, like(0, p))


def _rel_entr_by_q(t: Array, p: Array, q: Array) -> Array:
    both = (p > 0) & (q > 0)
    return gnp.where(both, -(t * p) / gnp.where(both, q, like(1, q)), like(0, p))


_rel_entr.defjvps(
    lambda t, out, p, q: _rel_entr_by_p(t, p, q), lambda t, out, p, q: _rel_entr_by_q(t, p, q)
)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """rel_entr(p, q) - p + q, which is never negative. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> kl_div(gnp.array([0.5, 1.0]), gnp.array([0.5, 0.5])).round(4)
    Array([0.    , 0.1931], dtype=float32)
    """
    p, q = strong_with_axes(real("kl_div", p, q))
    return rel_entr(p, q) - p + q


# ---- power transforms ----


def _power(log: Array, lmbda: Array) -> Array:
    """(exp(lmbda log) - 1) / lmbda; the limit at lmbda = 0 is the logarithm itself."""
    # A subnormal exponent has no digits to multiply and divide by.
    at_zero = abs(lmbda) < float(dtypes.finfo(log.dtype).tiny)
    safe = gnp.where(at_zero, like(1, lmbda), lmbda)
    return gnp.where(at_zero, log, lax.expm1(gnp.multiply(safe, log)) / safe)


def _times(factor: Array, log: Array) -> Array:
    """factor * log, and 0 where the factor is 0 and the logarithm infinite."""
    # Where it is finite, the derivative by the factor is kept.
    nothing = (factor == 0) & gnp.isinf(log)
    return factor * gnp.where(nothing, like(0, log), log)


def _power_by_log(log: Array, lmbda: Array) -> Array:
    """The derivative by x, or by 1 + x: exp((lmbda - 1) log)"""
    return lax.exp(_times(lmbda - 1, log))


def _power_by_exponent(t: Array, out: Array, log: Array, lmbda: Array) -> Array:
    # By Taylor's series near 0, where the two terms of the quotient cancel.
    u = _times(lmbda, log)
    small = abs(u) < 0.02
    safe = gnp.where(small, like(1, lmbda), lmbda)
    series = log * log * (1 / 2 + u * (1 / 3 + u * (1 / 8 + u * (1 / 30 + u / 144))))
    return t * gnp.where(small, series, (log * lax.exp(u) - out) / safe)


@custom_jvp
def _boxcox(x: Array, lmbda: Array) -> Array:
    return _power(lax.log(x), lmbda)


@custom_jvp
def _boxcox1p(x: Array, lmbda: Array) -> Array:
    return _power(lax.log1p(x), lmbda)


_boxcox.defjvps(
    lambda t, out, x, lmbda: t * _power_by_log(lax.log(x), lmbda),
    lambda t, out, x, lmbda: _power_by_exponent(t, out, lax.log(x), lmbda),
)
_boxcox1p.defjvps(
    lambda t, out, x, lmbda: t * _power_by_log(lax.log1p(x), lmbda),
    lambda t, out, x, lmbda: _power_by_exponent(t, out, lax.log1p(x), lmbda),
)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x**lmbda - 1) / lmbda, and log(x) where lmbda is 0. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> boxcox(gnp.array([1.0, 3.0]), 2.0).round(5)
    Array([0., 4.], dtype=float32)
    """
    return _boxcox(*inexact("boxcox", x, lmbda))


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """((1 + x)**lmbda - 1) / lmbda, and log(1 + x) where lmbda is 0. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> boxcox1p(gnp.array([0.0, 2.0]), 2.0).round(5)
    Array([0., 4.], dtype=float32)
    """
    return _boxcox1p(*inexact("boxcox1p", x, lmbda))


# ---- whole axes ----


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, or over all of x. The result has the shape of x.

    >>> import gpuarray.numpy as gnp
    >>> softmax(gnp.array([1000.0, 1000.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return nn.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """log(softmax(x)), without underflow. The result has the shape of x.

    >>> import gpuarray.numpy as gnp
    >>> log_softmax(gnp.array([0.0, -1000.0]))
    Array([    0., -1000.], dtype=float32)
    """
    return nn.log_softmax(x, axis=axis)
