"""Pointwise primitives: exponentials, logarithms, roots, powers, trigonometry.

Floor 2. In: the factory `elementwise` and NumPy. Out: one primitive a function. Floats below 32
bits are computed in float32 and rounded once; complex functions keep the usual branch cuts.
"""

from __future__ import annotations

import dataclasses
import enum
import math

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.primitive import Primitive
from gpuarray.ops.define import COMPLEX, FLOATING, NUMERIC, elementwise
from gpuarray.ops.numerics import by_dtype, join


class AccuracyMode(enum.Enum):
    """Which implementation of a function to take where a device has several."""

    HIGHEST = 1
    DEFAULT = 2


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The error a caller accepts: absolute, relative, and in units in the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self):
        if self.atol < 0 or self.rtol < 0 or self.ulps < 0:
            raise ValueError(f"Tolerances must be non-negative, got {self}.")
        if not (self.atol or self.rtol or self.ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set.")


# How exact a result is asked to be is written into the graph. The NumPy rules below are as exact as
# they can be and have nothing to choose.
_ACCURACY = {"accuracy": None}


def _function(name: str, real, complex=None, *, weight: float, accuracy: bool = False) -> Primitive:
    accepted = FLOATING if complex is None else FLOATING | COMPLEX
    return elementwise(
        name,
        dtypes=accepted,
        numpy_pick=by_dtype(floating=real, complex=complex),
        defaults=_ACCURACY if accuracy else None,
        weight=weight,
    )


# ---- exponentials and logarithms ----


def _exp2_complex(x):
    return np.exp(x * x.dtype.type(math.log(2.0)))


def _log1p_complex(x):
    """log(1 + x), for small x = a + ib through |1 + x|² - 1 = a (2 + a) + b² in doubles."""
    a, b = x.real.astype(np.float64), x.imag.astype(np.float64)
    small = np.maximum(np.abs(a), np.abs(b)) < 2
    size = np.where(small, 0.5 * np.log1p(a * (2 + a) + b * b), np.log(np.hypot(1 + a, b)))
    return join(size, np.arctan2(b, 1 + a), x.dtype)


def _logistic(x):
    return x.dtype.type(1) / (1 + np.exp(-x))


exp_p = _function("exp", np.exp, np.exp, weight=8, accuracy=True)
exp2_p = _function("exp2", np.exp2, _exp2_complex, weight=8, accuracy=True)
expm1_p = _function("expm1", np.expm1, np.expm1, weight=12, accuracy=True)
log_p = _function("log", np.log, np.log, weight=10, accuracy=True)
log1p_p = _function("log1p", np.log1p, _log1p_complex, weight=12, accuracy=True)
logistic_p = _function("logistic", _logistic, _logistic, weight=12, accuracy=True)

# ---- roots and powers ----


def _reciprocal_root(x):
    return x.dtype.type(1) / np.sqrt(x)


sqrt_p = _function("sqrt", np.sqrt, np.sqrt, weight=4, accuracy=True)
rsqrt_p = _function("rsqrt", _reciprocal_root, _reciprocal_root, weight=4, accuracy=True)
cbrt_p = _function("cbrt", np.cbrt, weight=16, accuracy=True)


def _check_pow(x: ShapedArray, y: ShapedArray) -> None:
    if x.dtype != y.dtype and dtypes.kind_of(y.dtype) not in "iu":
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), and the "
            "second argument must have an inexact or integer dtype, and two inexact dtypes must "
            f"match, but got {x.dtype.name} and {y.dtype.name} respectively. gpuarray.numpy.power "
            "promotes its inputs."
        )


_power = by_dtype(floating=np.power, complex=np.power)
_integer_power = by_dtype(
    floating=lambda x, y: np.power(x, y.astype(x.dtype)),
    complex=lambda x, y: np.power(x, y.astype(x.dtype)),
)

pow_p = elementwise(
    "pow",
    arity=2,
    dtypes=[FLOATING | COMPLEX, NUMERIC],
    same=False,
    check=_check_pow,
    result=lambda x, y: x,
    numpy_pick=lambda avals: (
        _power(avals) if avals[0].dtype == avals[1].dtype else _integer_power(avals)
    ),
    weight=24,
)

# ---- trigonometric and hyperbolic functions ----

sin_p = _function("sin", np.sin, np.sin, weight=10, accuracy=True)
cos_p = _function("cos", np.cos, np.cos, weight=10, accuracy=True)
tan_p = _function("tan", np.tan, np.tan, weight=16, accuracy=True)
asin_p = _function("asin", np.arcsin, np.arcsin, weight=12)
acos_p = _function("acos", np.arccos, np.arccos, weight=12)
atan_p = _function("atan", np.arctan, np.arctan, weight=12)
sinh_p = _function("sinh", np.sinh, np.sinh, weight=16)
cosh_p = _function("cosh", np.cosh, np.cosh, weight=14)
tanh_p = _function("tanh", np.tanh, np.tanh, weight=12, accuracy=True)
asinh_p = _function("asinh", np.arcsinh, np.arcsinh, weight=16)
acosh_p = _function("acosh", np.arccosh, np.arccosh, weight=16)
atanh_p = _function("atanh", np.arctanh, np.arctanh, weight=14)


def _atan2_complex(y, x):
    """-i log((x + iy) / sqrt(x² + y²)), the analytic continuation of the angle."""
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


atan2_p = elementwise(
    "atan2",
    arity=2,
    dtypes=FLOATING | COMPLEX,
    numpy_pick=by_dtype(floating=np.arctan2, complex=_atan2_complex),
    weight=16,
)
