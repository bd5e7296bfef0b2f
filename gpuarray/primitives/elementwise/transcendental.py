"""Pointwise primitives: exponentials, logarithms, roots, powers, trigonometry.

Floor 2. In: the factory `elementwise` and NumPy. Out: one primitive per function. Floats below 32
bits are computed in float32 and rounded once; complex functions keep the usual branch cuts.
"""

from __future__ import annotations

import enum
import math

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.primitive import Primitive
from gpuarray.core.rewrite import NO_REWRITE, Rewrite
from gpuarray.core.target import PROCESSOR
from gpuarray.primitives.cuda_rules import by_class
from gpuarray.primitives.define import COMPLEX, FLOATING, NUMERIC, do, elementwise
from gpuarray.primitives.linear import broadcast_like, cast_like, constant, full_like
from gpuarray.primitives.numpy_rules import by_dtype, join
from gpuarray.util import Struct


class AccuracyMode(enum.Enum):
    """Which implementation of a function to take where there are several.

    For float32, HIGHEST computes in float64 and rounds once; other types have one implementation.
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(Struct):
    """The error a caller accepts: absolute, relative, and in units in the last place.

    Functions of float32 are computed in float64 where fewer units in the last place, or as much in
    `rtol`, are accepted than float32 gives: 5 on a CPU, 4 in kernels. So they are where only `atol`
    is given. Kernels for a GPU take its instruction for exponentials, which is coarser, where an
    `rtol` of 2**-16 or more is accepted.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self):
        if self.atol < 0 or self.rtol < 0 or self.ulps < 0:
            raise ValueError(f"Tolerances must be non-negative, got {self}.")
        if not (self.atol or self.rtol or self.ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set.")


# How exact a result is asked to be is written into the graph. There are two ways for float32: in
# float32, within the errors of the processor's own functions, and in float64, rounded once.
_ACCURACY = {"accuracy": None}
#: Accuracy of float32 functions in units in the last place, if none is requested: NumPy's
#: vectorised loops, and CUDA's functions (tanf is the least exact).
_NUMPY_ULPS, _CUDA_ULPS = 5, 4
#: The relative error of exponentials by a GPU's own instruction: the product before it is rounded.
_COARSE = 2.0**-16


def _asks_for_double(dtype, accuracy: AccuracyMode | Tolerance | None, usual: int) -> bool:
    if dtype != np.float32 or accuracy in (None, AccuracyMode.DEFAULT):
        # Wider and narrower floats, and complex numbers, are computed in one way only.
        return False
    if isinstance(accuracy, Tolerance):
        # The tolerance in units in the last place, whichever of the two is wider.
        return max(accuracy.ulps, accuracy.rtol / float(np.finfo(dtype).eps)) < usual
    return True


def _with_accuracy(name: str, usual_pick, usual_text, rough: bool, coarse: bool):
    """The rules of a function for NumPy and CUDA, by the requested accuracy.

    `rough` says that NumPy's vectorised loop errs by more than 2 units: a few numbers are then
    computed in float64 anyway. Finite differences, which magnify the error, are made of few.
    `coarse`: CUDA has a text for those who accept errors of 2**-16.
    """

    def pick(avals, accuracy=None):
        rule = usual_pick(avals)
        few = avals[0].dtype == np.float32 and avals[0].size <= PROCESSOR.exact_functions
        if not (rough and few) and not _asks_for_double(avals[0].dtype, accuracy, _NUMPY_ULPS):
            return rule
        return lambda x: np.asarray(rule(x.astype(np.float64))).astype(np.float32)

    def text(avals, accuracy=None) -> str:
        if _asks_for_double(avals[0].dtype, accuracy, _CUDA_ULPS):
            return f"(float)ga_{name}((double){{0}})"
        accepted = accuracy.rtol if isinstance(accuracy, Tolerance) else 0.0
        if coarse and avals[0].dtype == np.float32 and accepted >= _COARSE:
            return f"ga_coarse_{name}({{0}})"
        return usual_text(avals)

    return pick, text


def _function(
    name: str,
    real,
    complex=None,
    *,
    derivative,
    weight: float,
    accuracy: bool = False,
    rough: bool = False,
    coarse: bool = False,
    rewrite: Rewrite = NO_REWRITE,
) -> Primitive:
    """Define a function of one operand; derivative(t, y, x) is the tangent of y = f(x) along t."""
    accepted = FLOATING if complex is None else FLOATING | COMPLEX
    pick = by_dtype(floating=real, complex=complex)
    text = by_class(f"ga_{name}({{0}})", complex=f"ga_c{name}({{0}})")
    if accuracy:
        pick, text = _with_accuracy(name, pick, text, rough, coarse)
    return elementwise(
        name,
        dtypes=accepted,
        numpy_pick=pick,
        cuda=text,
        defaults=_ACCURACY if accuracy else None,
        jvp=(derivative,),
        weight=weight,
        rewrite=rewrite,
    )


# ---- exponentials and logarithms ----


def _exp2_complex(x):
    # 2^x is e^(x log 2), in the dtype of x: a product by parts, since inf times the 0 of a complex
    # number would be nan.
    log2 = x.real.dtype.type(math.log(2.0))
    return np.exp(join(x.real * log2, x.imag * log2, x.dtype))


def _expm1_complex(x):
    """exp(x) - 1, with C99's special values (Annex G).

    They matter where the imaginary part is 0, or is not finite while the real part is infinite.
    """
    a, b = x.real, x.imag
    out = np.expm1(x.astype(np.complex128))  # a length that overflows, times a small cosine
    # "straight": no rotation. "lost": an infinite length with no angle.
    straight, lost = b == 0, np.isinf(a) & ~np.isfinite(b)
    real = np.where(lost, np.where(a > 0, a, -1), out.real)
    imag = np.where(lost, np.where(a > 0, np.nan, 0), out.imag)
    return join(np.where(straight, np.expm1(a) + 0, real), np.where(straight, b, imag), x.dtype)


def _log1p_complex(x):
    """log(1 + x); for small x = a + ib by |1 + x|² - 1 = a (2 + a) + b² in doubles.

    Near -1, where that is -1 plus little, 1 + a is exact.
    """
    a, b = x.real.astype(np.float64), x.imag.astype(np.float64)
    small = (a > -0.5) & (np.maximum(a, np.abs(b)) < 2)
    far = np.asarray(np.log(join(1 + a, b, dtypes.complex128)))
    size = np.where(small, 0.5 * np.log1p(a * (2 + a) + b * b), np.real(far))
    return join(size, np.imag(far), x.dtype)


def _logistic(x):
    # Overflow of exp(-x) gives 1 / inf = 0, as it should.
    return x.dtype.type(1) / (1 + np.exp(-x))


exp_p = _function(
    "exp",
    np.exp,
    np.exp,
    weight=8,
    accuracy=True,
    rough=True,
    coarse=True,
    derivative=lambda t, y, x, **_: do.mul(t, y),
    rewrite=Rewrite(algebra="exponential"),
)
exp2_p = _function(
    "exp2",
    np.exp2,
    _exp2_complex,
    weight=8,
    accuracy=True,
    rough=True,
    coarse=True,
    derivative=lambda t, y, x, **_: do.mul(do.log(constant(x, 2), accuracy=None), do.mul(t, y)),
)
expm1_p = _function(
    "expm1",
    np.expm1,
    _expm1_complex,
    weight=12,
    accuracy=True,
    rough=True,
    derivative=lambda t, y, x, **_: do.mul(t, do.add(y, constant(x, 1))),
)
log_p = _function(
    "log",
    np.log,
    np.log,
    weight=10,
    accuracy=True,
    rough=True,
    derivative=lambda t, y, x, **_: do.div(t, x),
)
log1p_p = _function(
    "log1p",
    np.log1p,
    _log1p_complex,
    weight=12,
    accuracy=True,
    derivative=lambda t, y, x, **_: do.div(t, do.add(x, constant(x, 1))),
)
logistic_p = _function(
    "logistic",
    _logistic,
    _logistic,
    weight=12,
    accuracy=True,
    rough=True,
    derivative=lambda t, y, x, **_: do.mul(t, do.mul(y, do.sub(constant(x, 1), y))),
)

# ---- roots and powers ----


def _reciprocal_root(x):
    # A root and a division, both of which are rounded correctly.
    return x.dtype.type(1) / np.sqrt(x)


sqrt_p = _function(
    "sqrt",
    np.sqrt,
    np.sqrt,
    weight=4,
    accuracy=True,
    derivative=lambda t, y, x, **_: do.mul(t, do.div(constant(x, 0.5), y)),
)
rsqrt_p = _function(
    "rsqrt",
    _reciprocal_root,
    _reciprocal_root,
    weight=4,
    accuracy=True,
    derivative=lambda t, y, x, **_: do.mul(t, do.mul(constant(x, -0.5), do.div(y, x))),
)
cbrt_p = _function(
    "cbrt",
    np.cbrt,
    weight=16,
    accuracy=True,
    derivative=lambda t, y, x, **_: do.mul(t, do.mul(constant(x, 1 / 3), do.integer_pow(y, y=-2))),
)


def _check_pow(x: ShapedArray, y: ShapedArray) -> None:
    if x.dtype != y.dtype and dtypes.kind_of(y.dtype) not in "iu":
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), and the "
            "second argument must have an inexact or integer dtype, and two inexact dtypes must "
            f"match, but got {x.dtype.name} and {y.dtype.name} respectively. gpuarray.numpy.power "
            "promotes its inputs."
        )


def _float_power(x, y):
    """x^y as C has it, at every shape of y."""
    out = np.power(x, y)
    # For 1/2, where many elements share it, NumPy takes the root: of -0.0 and -inf that is another.
    half = y == 0.5
    if np.any(half):
        out = np.where(half & ((x == 0) | np.isneginf(x)), np.abs(x), out)
    return out


_power = by_dtype(floating=_float_power, complex=np.power)
# NumPy's power with an integer exponent would promote to float64.
_integer_power = by_dtype(
    floating=lambda x, y: np.power(x, y.astype(x.dtype)),
    complex=lambda x, y: np.power(x, y.astype(x.dtype)),
)


def _less_one(y):
    """y - 1, strongly typed, as a derived power is in JAX."""
    return do.sub(y, broadcast_like(aval_of(y).dtype.type(1), aval_of(y)))


def _pow_derivative_x(t, out, x, y):
    """t y x^(y - 1); for an integer power 0 the result is 0, even at x = 0."""
    if dtypes.kind_of(aval_of(y).dtype) not in "iu":
        # A float exponent 0 at x = 0 gives 0 * inf = nan, as in JAX.
        return do.mul(t, do.mul(y, do.pow(x, _less_one(y))))
    y = cast_like(y, aval_of(x))
    constantly = do.eq(y, constant(y, 0))
    nothing = full_like(out, 0)
    # The discarded branch has factor 1, not 0: 0 * inf would be nan, and reach derivatives of this.
    factor = do.select_n(constantly, y, full_like(y, 1))
    slope = do.mul(factor, do.pow(x, _less_one(y)))
    return do.mul(t, do.select_n(broadcast_like(constantly, aval_of(out)), slope, nothing))


def _pow_derivative_y(t, out, x, y):
    safe = do.select_n(do.eq(x, constant(x, 0)), x, full_like(x, 1))  # log(0) would make nan
    return do.mul(t, do.mul(do.log(safe, accuracy=None), out))


def _pow_text(avals) -> str:
    base, exponent = avals
    if dtypes.kind_of(base.dtype) != "c":
        # The exponent is converted to the base's type; NumPy's rule above does the same.
        return "ga_pow({0}, {1})" if base.dtype == exponent.dtype else "ga_pow({0}, ({T}){1})"
    if base.dtype == exponent.dtype:
        return "ga_cpow({0}, {1})"
    part = "float" if base.dtype == dtypes.complex64 else "double"
    return f"ga_cpow({{0}}, {{T}}{{{{({part}){{1}}, 0}}}})"


pow_p = elementwise(
    "pow",
    jvp=(_pow_derivative_x, _pow_derivative_y),
    arity=2,
    dtypes=[FLOATING | COMPLEX, NUMERIC],
    same=False,
    check=_check_pow,
    result=lambda x, y: x,
    numpy_pick=lambda avals: (
        _power(avals) if avals[0].dtype == avals[1].dtype else _integer_power(avals)
    ),
    cuda=_pow_text,
    weight=24,
)

# ---- trigonometric and hyperbolic functions ----


def _rsqrt(x):
    # Derivatives are computed with the usual accuracy.
    return do.rsqrt(x, accuracy=None)


def _acosh_derivative(t, y, x):
    # sqrt(x - 1) sqrt(x + 1), in complex numbers.
    one = constant(x, 1)
    if dtypes.kind_of(aval_of(x).dtype) == "c":  # the root of the product has another branch cut
        return do.mul(t, do.mul(_rsqrt(do.sub(x, one)), _rsqrt(do.add(x, one))))
    return do.mul(t, _rsqrt(do.sub(do.square(x), one)))


def _atanh_derivative(t, y, x):
    one = constant(x, 1)
    # (1 - x)(1 + x) is exact near ±1, where 1 - x² is not.
    return do.mul(do.integer_pow(do.add(one, x), y=-1), do.div(t, do.sub(one, x)))


sin_p = _function(
    "sin",
    np.sin,
    np.sin,
    weight=10,
    accuracy=True,
    derivative=lambda t, y, x, **given: do.mul(t, do.cos(x, **given)),
)
cos_p = _function(
    "cos",
    np.cos,
    np.cos,
    weight=10,
    accuracy=True,
    derivative=lambda t, y, x, **given: do.neg(do.mul(t, do.sin(x, **given))),
)
tan_p = _function(
    "tan",
    np.tan,
    np.tan,
    weight=16,
    accuracy=True,
    rough=True,
    derivative=lambda t, y, x, **_: do.mul(t, do.add(constant(x, 1), do.square(y))),
)
asin_p = _function(
    "asin",
    np.arcsin,
    np.arcsin,
    weight=12,
    derivative=lambda t, y, x: do.mul(t, _rsqrt(do.sub(constant(x, 1), do.square(x)))),
)
acos_p = _function(
    "acos",
    np.arccos,
    np.arccos,
    weight=12,
    derivative=lambda t, y, x: do.mul(t, do.neg(_rsqrt(do.sub(constant(x, 1), do.square(x))))),
)
atan_p = _function(
    "atan",
    np.arctan,
    np.arctan,
    weight=12,
    derivative=lambda t, y, x: do.div(t, do.add(constant(x, 1), do.square(x))),
)
sinh_p = _function(
    "sinh", np.sinh, np.sinh, weight=16, derivative=lambda t, y, x: do.mul(t, do.cosh(x))
)
cosh_p = _function(
    "cosh", np.cosh, np.cosh, weight=14, derivative=lambda t, y, x: do.mul(t, do.sinh(x))
)
tanh_p = _function(
    "tanh",
    np.tanh,
    np.tanh,
    weight=12,
    accuracy=True,
    # t (1 + y)(1 - y): 1 - y² would cancel where y is near 1.
    derivative=lambda t, y, x, **_: do.mul(do.add(t, do.mul(t, y)), do.sub(constant(x, 1), y)),
)
asinh_p = _function(
    "asinh",
    np.arcsinh,
    np.arcsinh,
    weight=16,
    derivative=lambda t, y, x: do.mul(t, _rsqrt(do.add(do.square(x), constant(x, 1)))),
)
acosh_p = _function("acosh", np.arccosh, np.arccosh, weight=16, derivative=_acosh_derivative)
atanh_p = _function("atanh", np.arctanh, np.arctanh, weight=14, derivative=_atanh_derivative)


def _atan2_complex(y, x):
    """-i log((x + iy) / √(x² + y²)), the analytic continuation of the angle."""
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def _atan2_slope(a, y, x):
    # The quotient both partial derivatives share.
    return do.div(a, do.add(do.square(y), do.square(x)))


atan2_p = elementwise(
    "atan2",
    jvp=(
        lambda t, out, y, x: do.mul(t, _atan2_slope(x, y, x)),
        lambda t, out, y, x: do.mul(t, _atan2_slope(do.neg(y), y, x)),
    ),
    arity=2,
    dtypes=FLOATING | COMPLEX,
    numpy_pick=by_dtype(floating=np.arctan2, complex=_atan2_complex),
    cuda=by_class("ga_atan2({0}, {1})", complex="ga_catan2({0}, {1})"),
    weight=16,
)
