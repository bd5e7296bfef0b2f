"""Pointwise primitives: the gamma function, and integrals of exponentials without a closed form.

Floor 2. In: the factory of `special.py`, NumPy, and SciPy at the first call. Out: one primitive per
function. All are computed in double precision and rounded once; their derivatives are elementary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.primitives.cuda_rules import by_class
from gpuarray.primitives.define import COMPLEX, do, elementwise
from gpuarray.primitives.elementwise.arithmetic import RoundingMethod
from gpuarray.primitives.elementwise.special import (
    in_double,
    no_derivative,
    polynomial,
    special_function,
)
from gpuarray.primitives.linear import constant, full_like
from gpuarray.primitives.numpy_rules import by_dtype

sp = util.lazy_module("scipy.special")

_ROOT_PI = math.sqrt(math.pi)


def _exp(x):
    return do.exp(x, accuracy=None)


def _log(x):
    return do.log(x, accuracy=None)


def _scaled(number: Any, x):
    return do.mul(constant(x, number), x)


gamma_p = special_function(
    "gamma",
    in_double(lambda x: sp.gamma(x)),
    weight=40,
    jvp=(lambda t, y, x: do.mul(t, do.mul(y, do.digamma(x))),),
)

# ---- exponential integrals ----


# SciPy's expn takes whole orders only; others come from the series or the fraction below.
def _expn(n, x):
    # Whole orders are the common case, and SciPy's function is made for them.
    whole = (n == np.floor(n)) & np.isfinite(n)
    with np.errstate(all="ignore"):
        out = sp.expn(np.where(whole, n, 0).astype(np.int64), x)
        fractional = ~whole & (n >= 0) & (x >= 0)
        if np.any(fractional):
            out = np.where(fractional, _fractional_order(n, x), out)
    return np.where((n >= 0) & (n < np.inf) & (x >= 0), out, np.nan)


def _fractional_order(n, x):
    """E_n(x) of fractional order: a power series up to x = 1, a continued fraction above."""
    # Each branch gets arguments in its own range, so that neither overflows in the other's.
    low, high = np.minimum(x, 1.0), np.maximum(x, 1.0)
    # E_n(x) = Γ(1 - n) x^(n - 1) - Σ (-x)^k / (k! (1 - n + k)), DLMF 8.19.10.
    series, term = np.zeros_like(low + n), 1.0
    for k in range(24):
        series = series + term / (1 - n + k)
        term = term * -low / (k + 1)
    near = sp.gamma(1 - n) * low ** (n - 1) - series
    # E_n(0) is 1 / (n - 1), and infinite for n <= 1.
    near = np.where(low == 0, np.where(n > 1, 1 / (n - 1), np.inf), near)
    # The even part of DLMF 8.19.17, evaluated from its end: 160 levels suffice at x = 1.
    tail = np.zeros_like(high + n)
    for k in range(160, 0, -1):
        tail = k * (n - 1 + k) / (high + n + 2 * k - tail)
    return np.where(x <= 1, near, np.exp(-high) / (high + n - tail))


# d/dx E_n(x) = -E_{n-1}(x).
def _expn_derivative(t, y, n, x):
    n = do.add(n, full_like(y, 0))  # of the result's shape
    below = do.sub(n, constant(n, 1))
    known = do.expn(do.max(below, constant(n, 0)), x)
    # By the recurrence where the function itself is not defined: expn(-1, x) from expn(0, x).
    made = do.div(do.sub(do.exp(do.neg(x)), do.mul(below, y)), x)
    return do.neg(do.mul(t, do.select_n(do.gt(n, constant(n, 0)), made, known)))


expi_p = special_function(
    "expi",
    in_double(lambda x: sp.expi(x)),
    weight=80,
    jvp=(lambda t, y, x: do.mul(t, do.div(_exp(x), x)),),
)
expn_p = special_function(
    "expn",
    in_double(_expn),
    2,
    weight=120,
    jvp=(no_derivative("expn", "n"), _expn_derivative),
)

# ---- integrals of sine and cosine ----


def _fresnel(part: int):
    def rule(x):
        # From here on doubles cannot represent the phase, and the oscillation is below 4e-9.
        far = np.abs(x) > 1e8
        return np.where(far, np.copysign(0.5, x), sp.fresnel(np.where(far, 0.0, x))[part])

    return in_double(rule)


#: sin(x) / x is the sum of these times x^2k, and log(1 + u) / u that of the others times
#: 2 z^2k / (2 + u), where z is u / (2 + u). The highest power first.
_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(7, -1, -1)]
_LOG_OVER = [1 / (2 * k + 1) for k in range(11, -1, -1)]


def _sinc_derivative(t, y, x):
    """t sin(x) / x, by its power series near 0."""
    # The quotient would lose digits there in derivatives of higher order, and at 0 all of them.
    near = do.lt(do.abs(x), constant(x, 0.5))
    series = polynomial(do.square(do.select_n(near, full_like(x, 0), x)), _SINC)
    safe = do.select_n(near, x, full_like(x, 1))
    return do.mul(t, do.select_n(near, do.div(do.sin(safe, accuracy=None), safe), series))


# The argument of the sine and cosine in Fresnel's integrals.
def _phase(x):
    """π x² / 2 less whole turns: for the whole number n next to x, x² is n² + (x - n) (x + n)."""
    whole = do.round(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    # n² is 0 or 1 modulo 4: without whole turns π/2 is left where n is odd.
    odd = do.abs(do.rem(whole, constant(x, 2)))
    rest = do.sub(x, whole)
    between = do.add(do.mul(rest, whole), do.mul(rest, x))
    return _scaled(math.pi / 2, do.add(odd, between))


sine_integral_p = special_function(
    "sine_integral",
    # SciPy loses the sign of -0.0.
    in_double(lambda x: np.copysign(sp.sici(x)[0], x)),
    weight=80,
    jvp=(_sinc_derivative,),
)
cosine_integral_p = special_function(
    "cosine_integral",
    in_double(lambda x: sp.sici(x)[1]),
    weight=80,
    jvp=(lambda t, y, x: do.mul(t, do.div(do.cos(x, accuracy=None), x)),),
)
fresnel_sin_p = special_function(
    "fresnel_sin",
    _fresnel(0),
    weight=80,
    jvp=(lambda t, y, x: do.mul(t, do.sin(_phase(x), accuracy=None)),),
)
fresnel_cos_p = special_function(
    "fresnel_cos",
    _fresnel(1),
    weight=80,
    jvp=(lambda t, y, x: do.mul(t, do.cos(_phase(x), accuracy=None)),),
)

# ---- the dilogarithm ----


def _spence_derivative(t, y, x):
    """t log(x) / (1 - x), by a power series near 1."""
    away = do.sub(x, constant(x, 1))
    near = do.lt(do.abs(away), constant(x, 0.3))
    u = do.select_n(near, full_like(x, 0), away)
    above = do.add(u, constant(x, 2))
    series = do.div(_scaled(2, polynomial(do.square(do.div(u, above)), _LOG_OVER)), above)
    safe = do.select_n(near, x, full_like(x, 2))
    quotient = do.div(_log(safe), do.sub(safe, constant(x, 1)))
    return do.neg(do.mul(t, do.select_n(near, quotient, series)))


spence_p = special_function(
    "spence",
    # SciPy has nan at infinity.
    in_double(lambda x: np.where(x == np.inf, -np.inf, sp.spence(x))),
    weight=60,
    jvp=(_spence_derivative,),
)

# ---- the normal distribution ----

# 2x dawsn(x) is the sum of (2k - 1)!! / (2x²)ᵏ over k = 0, 1, 2, ... for large x; that of
# √π x erfcx(x) has alternating signs. Their derivatives are this without the 1.
# These are the coefficients in 10² / x², which no dtype is too narrow for.
_FAR = [math.prod(range(1, 2 * k, 2)) / 200**k for k in range(14, 0, -1)]


def _without_first(x, sign: float):
    """Whether x is large, and the sum of signᵏ (2k - 1)!! / (2x²)ᵏ over k = 1, 2, ... there."""
    # From 10 on the closed form loses digits by cancellation.
    far = do.gt(do.abs(x) if sign > 0 else x, constant(x, 10))
    w = do.div(constant(x, 10), do.select_n(far, full_like(x, 10), x))
    w = _scaled(sign, do.square(w))
    return far, do.mul(w, polynomial(w, _FAR))


def _dawsn_derivative(t, y, x):
    """t (1 - 2 x y)"""
    far, rest = _without_first(x, 1)
    near = do.sub(constant(x, 1), do.mul(_scaled(2, x), y))
    return do.mul(t, do.select_n(far, near, do.neg(rest)))


def _erfcx_derivative(t, y, x):
    """t (2 x y - 2/√π)"""
    far, rest = _without_first(x, -1)
    near = do.sub(do.mul(_scaled(2, x), y), constant(x, 2 / _ROOT_PI))
    return do.mul(t, do.select_n(far, near, _scaled(2 / _ROOT_PI, rest)))


dawsn_p = special_function(
    "dawsn", in_double(lambda x: sp.dawsn(x)), weight=60, jvp=(_dawsn_derivative,)
)
erfcx_p = special_function(
    "erfcx", in_double(lambda x: sp.erfcx(x)), weight=60, jvp=(_erfcx_derivative,)
)


def _wofz_derivative(t, y, z):
    """t (2i/√π - 2 z w(z)), DLMF 7.10.2."""
    start: Any = 2j / _ROOT_PI
    return do.mul(t, do.sub(constant(z, start), do.mul(_scaled(2, z), y)))


wofz_p = elementwise(
    "wofz",
    dtypes=COMPLEX,
    numpy_pick=by_dtype(complex=lambda z: np.asarray(sp.wofz(z)).astype(z.dtype)),
    cuda=by_class(complex="ga_wofz({0})"),
    weight=120,
    jvp=(_wofz_derivative,),
)


def _owens_t_by_h(t, y, h, a):
    """-t e^(-h²/2) erf(a h / √2) / √(8π)"""
    density = _scaled(-1 / math.sqrt(8 * math.pi), _exp(_scaled(-0.5, do.square(h))))
    return do.mul(t, do.mul(density, do.erf(_scaled(math.sqrt(0.5), do.mul(a, h)))))


def _owens_t_by_a(t, y, h, a):
    """t e^(-h² (1 + a²) / 2) / (2π (1 + a²))"""
    square_sum = do.add(constant(a, 1), do.square(a))
    density = _scaled(1 / (2 * math.pi), _exp(_scaled(-0.5, do.mul(do.square(h), square_sum))))
    return do.mul(t, do.div(density, square_sum))


owens_t_p = special_function(
    "owens_t",
    in_double(lambda h, a: sp.owens_t(h, a)),
    2,
    weight=400,
    jvp=(_owens_t_by_h, _owens_t_by_a),
)
