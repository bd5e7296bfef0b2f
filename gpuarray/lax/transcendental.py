"""Pointwise functions: exponentials, logarithms, roots, powers, trigonometry.

Floor 6. In: arrays, NumPy values and Python scalars of floating or complex types. Out: one bound
primitive a function. Integers are refused: `gpuarray.numpy` has the functions that convert them.
"""

from __future__ import annotations

from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, binary, operand, unary
from gpuarray.primitives.elementwise.transcendental import AccuracyMode as AccuracyMode
from gpuarray.primitives.elementwise.transcendental import Tolerance as Tolerance
from gpuarray.primitives.elementwise.transcendental import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cbrt_p,
    cos_p,
    cosh_p,
    exp2_p,
    exp_p,
    expm1_p,
    log1p_p,
    log_p,
    logistic_p,
    pow_p,
    rsqrt_p,
    sin_p,
    sinh_p,
    sqrt_p,
    tan_p,
    tanh_p,
)

Accuracy = Tolerance | AccuracyMode | None


def _function(prim, x: ArrayLike, accuracy: Accuracy) -> Array:
    if accuracy is not None and not isinstance(accuracy, (Tolerance, AccuracyMode)):
        raise NotImplementedError(
            f"Accuracy {accuracy!r} not supported by {prim.name}: give a lax.AccuracyMode, a "
            "lax.Tolerance or None."
        )
    return prim.bind(operand(prim.name, x), accuracy=accuracy)


# ---- exponentials and logarithms ----


def exp(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """e to the power x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return _function(exp_p, x, accuracy)


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """2 to the power x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return _function(exp2_p, x, accuracy)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """e to the power x, minus 1, accurate for small x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.expm1(1e-10)
    Array(1.e-10, dtype=float32, weak_type=True)
    """
    return _function(expm1_p, x, accuracy)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The natural logarithm of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.log(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _function(log_p, x, accuracy)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """log(1 + x), accurate for small x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.log1p(1e-10)
    Array(1.e-10, dtype=float32, weak_type=True)
    """
    return _function(log1p_p, x, accuracy)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / (1 + exp(-x)).

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.logistic(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _function(logistic_p, x, accuracy)


# ---- roots and powers ----


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The square root of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.sqrt(9.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return _function(sqrt_p, x, accuracy)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / sqrt(x).

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _function(rsqrt_p, x, accuracy)


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The real cube root of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.cbrt(-8.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    return _function(cbrt_p, x, accuracy)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y.

    `y` has the dtype of `x`, or an integer type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.pow(4.0, 0.5)
    Array(2., dtype=float32, weak_type=True)
    >>> lax.pow(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return binary(pow_p, x, y)


# ---- trigonometric and hyperbolic functions ----


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The sine of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _function(sin_p, x, accuracy)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The cosine of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return _function(cos_p, x, accuracy)


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The tangent of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _function(tan_p, x, accuracy)


def asin(x: ArrayLike) -> Array:
    """The angle between -π/2 and π/2 whose sine is x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.asin(1.0)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    return unary(asin_p, x)


def acos(x: ArrayLike) -> Array:
    """The angle between 0 and π whose cosine is x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.acos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(acos_p, x)


def atan(x: ArrayLike) -> Array:
    """The angle between -π/2 and π/2 whose tangent is x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.atan(1.0)
    Array(0.7853982, dtype=float32, weak_type=True)
    """
    return unary(atan_p, x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point (y, x), between -π and π: `atan2(x, y)` is the one with tangent x / y.

    Shapes agree up to scalars and axes of length 1; dtypes are equal, and lax never promotes.

    >>> from gpuarray import lax
    >>> lax.atan2(1.0, 0.0)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    return binary(atan2_p, x, y)


def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(sinh_p, x)


def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return unary(cosh_p, x)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The hyperbolic tangent of x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _function(tanh_p, x, accuracy)


def asinh(x: ArrayLike) -> Array:
    """The number whose hyperbolic sine is x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.asinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(asinh_p, x)


def acosh(x: ArrayLike) -> Array:
    """The non-negative number whose hyperbolic cosine is x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.acosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(acosh_p, x)


def atanh(x: ArrayLike) -> Array:
    """The number whose hyperbolic tangent is x.

    The result has the shape and dtype of `x`.

    >>> from gpuarray import lax
    >>> lax.atanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(atanh_p, x)
