"""Smooth functions built from others: logaddexp, hypot, sinc, i0, and heaviside.

Floor 6. In: array-likes. Out: Arrays, element by element. Their derivatives stay finite where a
step of the plain formula does not.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, lengths
from gpuarray.core.avals import aval_of
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.numpy.arithmetic import remainder
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.floats import infinity
from gpuarray.numpy.promotion import (
    always,
    binary,
    broadcast_to,
    constant,
    documented,
    promote_args_inexact,
    select,
    zero_of,
)
from gpuarray.primitives.elementwise.bits import or_p

kind_of = dtypes.kind_of
inexact = dtypes.to_inexact_dtype

# ---- sums of exponentials, and other functions in two variables ----


def _logaddexp(x, y, exponential, scale):
    """max(x, y) + log(1 + exp(-|x - y|)): without overflow, and correct for infinities of one
    sign.
    """
    difference = lax.sub(x, y)
    grown = lax.log1p(exponential(lax.neg(lax.abs(difference))))
    if scale is not None:
        grown = lax.mul(constant(scale, difference), grown)
    # inf - inf and nan: their sum is right then.
    undefined = lax.ne(difference, difference)
    return select(undefined, lax.add(x, y), lax.add(lax.max(x, y), grown))


def _with_rule(name: str, exponential, scale):
    """`_logaddexp` with the derivative exp(x - out), which is finite where x and y are."""

    def function(x, y):
        return _logaddexp(x, y, exponential, scale)

    def rule(primals, tangents):
        out = made(*primals)
        # exp(inf - inf) would be nan: with 0 in place of inf the share is 1.
        base = _zero_for_inf(out)
        # Each operand has a share exp(x - out) of the sum; the shares add up to 1.
        shares = [
            lax.mul(t, exponential(lax.sub(_zero_for_inf(x), base)))
            for x, t in zip(primals, tangents, strict=True)
        ]
        return out, lax.add(*shares)

    function.__name__, rule.__name__ = name, f"_{name}_jvp"
    made = custom_jvp(function)
    made.defjvp(rule)
    return made


def _zero_for_inf(x):
    return select(lax.eq(x, constant(np.inf, x)), zero_of(x), x)


_logaddexp_real = _with_rule("logaddexp", lax.exp, None)
# log2 is log divided by log(2).
_logaddexp2_real = _with_rule("logaddexp2", lax.exp2, 1 / np.log(2))


def _logaddexp_complex(x, y, exponential, log_of, period):
    # The larger one by real part, then by imaginary part.
    largest = lax.max(x, y)
    smallest = lax.sub(lax.add(x, y), largest)
    out = lax.add(largest, log_of(lax.log1p(exponential(lax.sub(smallest, largest)))))
    part = lax.imag(out)
    whole, half = (constant(v, part) for v in (period, period / 2))
    # The imaginary part is an angle: brought into (-period/2, period/2].
    turned = lax.sub(remainder(lax.add(part, half), whole), half)
    return lax.complex(lax.real(out), turned)


def _pick_logaddexp(dtype):
    if kind_of(dtype) == "c":
        return lambda x, y: _logaddexp_complex(x, y, lax.exp, lambda z: z, 2 * np.pi)
    return _logaddexp_real


def _pick_logaddexp2(dtype):
    if kind_of(dtype) == "c":
        per_log_2 = 1 / np.log(2)
        return lambda x, y: _logaddexp_complex(
            x, y, lax.exp2, lambda z: lax.mul(z, constant(per_log_2, z)), 2 * np.pi * per_log_2
        )
    return _logaddexp2_real


logaddexp = documented(
    composite(binary("logaddexp", _pick_logaddexp, inexact), inline=True),
    """log(exp(x1) + exp(x2)), without overflow.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logaddexp(gnp.array([-1000.0, 1000.0]), gnp.array([-2000.0, 500.0]))
    Array([-1000.,  1000.], dtype=float32)
    """,
)
logaddexp2 = documented(
    composite(binary("logaddexp2", _pick_logaddexp2, inexact, weak="scalars"), inline=True),
    """log2(2**x1 + 2**x2), without overflow.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.logaddexp2(gnp.array([1.0, 1000.0]), gnp.array([1.0, 1000.0]))
    Array([   2., 1001.], dtype=float32)
    """,
)


def _heaviside(x, y):
    # Of an array, the result is strongly typed whatever x2 is.
    if aval_of(x).shape:
        x = as_type(asarray(x), aval_of(x).dtype)
    shape = lengths.broadcast(aval_of(x).shape, aval_of(y).shape)
    x, y = (broadcast_to(v, shape) if aval_of(v).shape else v for v in (x, y))
    zero, one = zero_of(x), constant(1, x)
    # nan stays nan.
    at_zero = select(lax.ne(x, x), x, y)
    return select(lax.lt(x, zero), zero, select(lax.gt(x, zero), one, at_zero))


heaviside = documented(
    composite(binary("heaviside", always(_heaviside), inexact, any_ranks=True)),
    """The step function: 0 for negative x1, 1 for positive, x2 at zero.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.heaviside(gnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """,
)


def _pick_hypot(dtype):
    if kind_of(dtype) == "c":
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. Please convert to real "
            "values first, such as by using abs(x)"
        )
    return _hypot


def _scaled_length(x, y):
    """The larger size (1 instead of 0), and the length in units of it: no square overflows."""
    # One or the other, as extremes of equal sizes would share their derivative.
    first = lax.ge(lax.abs(x), lax.abs(y))
    large, small = select(first, x, y), select(first, y, x)
    one, size = constant(1, x), lax.abs(large)
    unit = select(lax.eq(size, zero_of(size)), one, size)
    return unit, lax.sqrt(lax.add(one, lax.square(lax.div(small, unit))))


def _ends(x, y):
    """Whether one is infinite, and whether both are 0."""
    infinite = or_p.bind(*(lax.eq(lax.abs(v), infinity(v)) for v in (x, y)))
    return infinite, lax.eq(lax.max(lax.abs(x), lax.abs(y)), zero_of(x))


@custom_jvp
def _hypot(x, y):
    unit, length = _scaled_length(x, y)
    infinite, nothing = _ends(x, y)
    # With infinite operands the scaled length would be inf / inf, with zeros 0 / 0.
    finite = select(nothing, zero_of(x), lax.mul(unit, length))
    return select(infinite, infinity(x), finite)


@_hypot.defjvp
def _hypot_jvp(primals, tangents):
    unit, length = _scaled_length(*primals)
    infinite, nothing = _ends(*primals)
    # At the origin the length has no derivative; JAX takes one half for both.
    half = constant(0.5, unit)
    slopes = [select(infinite, zero_of(v), lax.div(lax.div(v, unit), length)) for v in primals]
    shares = [lax.mul(t, select(nothing, half, s)) for t, s in zip(tangents, slopes, strict=True)]
    return _hypot(*primals), lax.add(*shares)


hypot = documented(
    composite(binary("hypot", _pick_hypot, inexact, weak="scalars")),
    """The length of the vector (x1, x2): sqrt(x1**2 + x2**2), without overflow.

    Shape contract: shapes broadcast; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.hypot(gnp.array([3.0, 5.0]), gnp.array([4.0, 12.0]))
    Array([ 5., 13.], dtype=float32)
    """,
)


@composite
def sinc(x) -> Array:
    """sin(pi x) / (pi x), and 1 at zero.

    Shape contract: the shape of x; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.sinc(gnp.array([0.0, 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    (x,) = promote_args_inexact("sinc", x)
    if np.ndim(x):  # only a scalar stays weakly typed
        x = as_type(x, x.dtype)
    one = constant(1, x)
    angle = lax.mul(constant(np.pi, x), x)
    # Near zero the power series: in derivatives of the quotient large terms cancel there.
    near = lax.lt(lax.abs(angle), constant(0.05, lax.abs(angle)))
    square = lax.square(select(near, angle, zero_of(x)))
    series = one
    # 1 - a**2/6 (1 - a**2/20 (1 - a**2/42 (1 - a**2/72))), by Horner's rule.
    for k in (72, 42, 20, 6):
        series = lax.sub(one, lax.mul(lax.div(square, constant(k, x)), series))
    # Replaced near zero, so that neither the quotient nor its derivative is nan there.
    away = select(near, one, angle)
    return select(near, series, lax.div(lax.sin(away), away))


@composite
def i0(x) -> Array:
    """The modified Bessel function of the first kind and order 0.

    Shape contract: the shape of x; integers become floats.

    >>> import gpuarray.numpy as gnp
    >>> gnp.i0(gnp.array([0.0]))
    Array([1.], dtype=float32)
    """
    (x,) = promote_args_inexact("i0", x)
    if kind_of(aval_of(x).dtype) == "c":
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {aval_of(x).dtype}")
    return bessel_i0(x)


def unscaled(scaled, x, end):
    """e^|x| times a Bessel function that was divided by it; `end` where x is infinite.

    In two steps: the exponential alone overflows first.
    """
    size = lax.abs(x)
    # The square root of the factor, so that the product overflows only where the result does.
    step = lax.exp(lax.mul(constant(0.5, x), size))
    out = lax.mul(step, lax.mul(step, scaled(x)))
    return select(lax.eq(size, infinity(x)), end, out)


@custom_jvp
def bessel_i0(x):
    return unscaled(lax.bessel_i0e, x, lax.abs(x))


@bessel_i0.defjvp
def _bessel_i0_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    # The derivative of I0 is I1.
    return bessel_i0(x), lax.mul(t, bessel_i1(x))


@custom_jvp
def bessel_i1(x):
    return unscaled(lax.bessel_i1e, x, x)


#: I1(x) / x is the sum of these times (x / 2)^2k.
_I1_OVER_X = [0.5 / (math.factorial(k) * math.factorial(k + 1)) for k in range(9)]


@bessel_i1.defjvp
def _bessel_i1_jvp(primals, tangents):
    """I0(x) - I1(x) / x."""
    (x,), (t,) = primals, tangents
    y, one = bessel_i1(x), constant(1, x)
    # Near zero the power series, whose derivatives of all orders are right there too.
    near = lax.lt(lax.abs(x), one)
    square = lax.square(lax.mul(constant(0.5, x), select(near, x, zero_of(x))))
    series = zero_of(square)
    for c in reversed(_I1_OVER_X):
        series = lax.add(lax.mul(series, square), constant(c, x))
    ratio = select(near, series, lax.div(y, select(near, one, x)))
    return y, lax.mul(t, lax.sub(bessel_i0(x), ratio))
