"""Activation functions: pointwise, so each fuses with preceding and following operations.

Floor 6. In: one array-like (lists are refused). Out: an Array of its shape; integers become floats
where the mathematics needs it. They are plain functions over gpuarray.numpy, and their dtypes
follow its promotion: a Python scalar stays weak.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.promotion import check_arraylike, promote_args_inexact

# SELU's constants: with them mean 0 and variance 1 map to themselves (Klambauer et al., 2017).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def identity(x: ArrayLike) -> Array:
    """Return x, as an Array. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> identity(gnp.array([1, 2]))
    Array([1, 2], dtype=int32)
    """
    check_arraylike("identity", x)
    return gnp.asarray(x)


# ---- rectifiers ----


@custom_jvp
def relu(x: ArrayLike) -> Array:
    """max(x, 0). Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> relu(gnp.array([-2.0, 0.0, 3.0]))
    Array([0., 0., 3.], dtype=float32)
    """
    return gnp.maximum(x, 0)


# 0 at 0, where a maximum would share the tangent between both sides.
relu.defjvps(lambda t, out, x: _where(gnp.asarray(x) > 0, t))


@custom_jvp
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6). Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> relu6(gnp.array([-2.0, 3.0, 8.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    return gnp.minimum(gnp.maximum(x, 0), 6.0)


# Likewise 0 at both corners.
relu6.defjvps(lambda t, out, x: _where((gnp.asarray(x) > 0) & (gnp.asarray(x) < 6), t))


def _where(inside: Array, t: Array) -> Array:
    """The tangent inside a rectifier's range, 0 outside and at the corners."""
    return lax.select(inside, t, lax.full_like(t, 0))


@check_ranks("x", "negative_slope")
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x where x >= 0, else negative_slope * x. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> leaky_relu(gnp.array([-2.0, 3.0]), 0.5)
    Array([-1.,  3.], dtype=float32)
    """
    check_arraylike("leaky_relu", x)
    x = gnp.asarray(x)
    return gnp.where(x >= 0, x, negative_slope * x)


@check_ranks("x", "alpha")
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where x > 0, else alpha * (exp(x) - 1). The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> elu(gnp.array([-1.0, 2.0])).round(4)
    Array([-0.6321,  2.    ], dtype=float32)
    """
    check_arraylike("elu", x)
    x = gnp.asarray(x)
    positive = x > 0
    # exp never sees a large positive x: it would overflow, and its derivative with it.
    bounded = gnp.where(positive, 0.0, x)
    return gnp.where(positive, x, alpha * gnp.expm1(bounded))


@check_ranks("x", "alpha")
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1): elu with a continuous derivative.

    The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> celu(gnp.array([-1.0, 2.0]), 2.0).round(4)
    Array([-0.7869,  2.    ], dtype=float32)
    """
    return gnp.maximum(x, 0.0) + alpha * gnp.expm1(gnp.minimum(x, 0.0) / alpha)


def selu(x: ArrayLike) -> Array:
    """1.0507 * elu(x, 1.67326), which keeps mean 0 and variance 1. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> selu(gnp.array([-1.0, 1.0])).round(4)
    Array([-1.1113,  1.0507], dtype=float32)
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@check_ranks("x", "b")
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2, a smooth rectifier without exponentials. The shapes broadcast.

    >>> import gpuarray.numpy as gnp
    >>> squareplus(gnp.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    check_arraylike("squareplus", x, b)
    x = gnp.asarray(x)
    return (x + gnp.sqrt(gnp.square(x) + b)) / 2


def sparse_plus(x: ArrayLike) -> Array:
    """0 for x <= -1, (x + 1)**2 / 4 between, x for x >= 1. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> sparse_plus(gnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    check_arraylike("sparse_plus", x)
    x = gnp.asarray(x)
    return gnp.where(x <= -1.0, 0.0, gnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


# ---- sigmoids ----


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)), of floating or complex x. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> sigmoid(gnp.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    return lax.logistic(x)


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> tanh(gnp.array([0.0, 100.0]))
    Array([0., 1.], dtype=float32)
    """
    return gnp.tanh(x)


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> softplus(gnp.array([0.0, 100.0])).round(4)
    Array([  0.6931, 100.    ], dtype=float32)
    """
    # log(exp(x) + exp(0)): the larger exponential is factored out.
    return gnp.logaddexp(x, 0)


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)) = -softplus(-x), without underflow. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> log_sigmoid(gnp.array([0.0, -100.0])).round(4)
    Array([  -0.6931, -100.    ], dtype=float32)
    """
    check_arraylike("log_sigmoid", x)
    # log(1 / (1 + exp(-x))), which stays finite where the sigmoid underflows.
    (x,) = promote_args_inexact("log_sigmoid", gnp.asarray(x))
    return -softplus(gnp.negative(x))


def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of sparse_plus: (x + 1) / 2, kept in [0, 1]. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> sparse_sigmoid(gnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("sparse_sigmoid", x)
    return 0.5 * gnp.clip(gnp.asarray(x) + 1.0, 0.0, 2.0)


def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> hard_sigmoid(gnp.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("hard_sigmoid", x)
    return relu6(gnp.asarray(x) + 3.0) / 6.0


def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|). Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> soft_sign(gnp.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    check_arraylike("soft_sign", x)
    x = gnp.asarray(x)
    if x.dtype != np.bool_:  # the smallest integer has no absolute value of its type
        (x,) = promote_args_inexact("soft_sign", x)
    return gnp.divide(x, gnp.abs(x) + 1)


def hard_tanh(x: ArrayLike) -> Array:
    """x kept in [-1, 1]. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> hard_tanh(gnp.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    check_arraylike("hard_tanh", x)
    x = gnp.asarray(x)
    return gnp.where(x > 1, 1, gnp.where(x < -1, -1, x))


# ---- gated ----


def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x), also called swish. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> silu(gnp.array([0.0, 1.0])).round(4)
    Array([0.    , 0.7311], dtype=float32)
    """
    check_arraylike("silu", x)
    x = gnp.asarray(x)
    return x * sigmoid(x)


swish = silu


def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x), also called hard_swish. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> hard_silu(gnp.array([-4.0, 3.0]))
    Array([-0.,  3.], dtype=float32)
    """
    check_arraylike("hard_silu", x)
    x = gnp.asarray(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)). Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> mish(gnp.array([0.0, 20.0]))
    Array([ 0., 20.], dtype=float32)
    """
    check_arraylike("mish", x)
    x = gnp.asarray(x)
    return x * tanh(softplus(x))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x * P(Z <= x) for a standard normal Z; by tanh where `approximate`, else by erfc.

    Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> gelu(gnp.array([0.0, 1.0])).round(4)
    Array([0.    , 0.8412], dtype=float32)
    """
    promoted: Any
    [promoted] = promote_args_inexact("gelu", x)
    dtype = gnp.asarray(promoted).dtype
    if approximate:
        # Hendrycks and Gimpel's approximation: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))).
        # Rounded to the dtype first, so that the constant promotes nothing.
        slope = np.asarray(np.sqrt(2 / np.pi)).astype(dtype)[()]
        cubic = promoted + 0.044715 * promoted**3
        return promoted * (0.5 * (1.0 + gnp.tanh(slope * cubic)))
    # x Phi(x) by erfc, which keeps its digits for negative x.
    slope = np.asarray(np.sqrt(0.5)).astype(dtype)[()]
    return gnp.array(0.5 * promoted * lax.erfc(-promoted * slope), dtype=dtype)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis times the sigmoid of the second half.

    Shape contract: the length of `axis` is even and halves: (..., 2n, ...) -> (..., n, ...).

    >>> import gpuarray.numpy as gnp
    >>> glu(gnp.array([2.0, 4.0, 0.0, 0.0]))
    Array([1., 2.], dtype=float32)
    """
    check_arraylike("glu", x)
    x = gnp.asarray(x)
    axis = util.index(axis)
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(
            f"glu: axis {axis} is out of bounds for array of dimension {x.ndim}: the axis that is "
            "cut in two must exist."
        )
    if x.shape[axis] % 2:
        raise AssertionError(
            f"axis size must be divisible by 2: glu cuts axis {axis} of shape {x.shape} into two "
            "halves. Give it an even length, or name another axis."
        )
    value, gate = gnp.split(x, 2, axis)
    return value * sigmoid(gate)


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, accurate at both ends. Any shape; the result has the same shape.

    >>> import gpuarray.numpy as gnp
    >>> log1mexp(gnp.array([1e-8, 1.0])).round(3)
    Array([-18.421,  -0.459], dtype=float32)
    """
    check_arraylike("log1mexp", x)
    return _log1mexp(*promote_args_inexact("log1mexp", x))


@custom_jvp
def _log1mexp(x: Array) -> Array:
    # Below log(2) exp(-x) is near 1 and expm1 keeps the digits; above, log1p does.
    return gnp.where(x < gnp.log(2.0), gnp.log(-gnp.expm1(-x)), gnp.log1p(-gnp.exp(-x)))


# Differentiating both branches would give nan near 0, where one of them is infinite.
_log1mexp.defjvps(lambda t, y, x: t / gnp.expm1(x))
