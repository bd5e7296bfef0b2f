"""Pointwise primitives: gamma, beta and zeta functions, Bessel functions.

Floor 2. In: the factory `elementwise`, NumPy, and SciPy at the first call. Out: one primitive per
function. They are computed in double precision and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import Primitive
from gpuarray.primitives.define import FLOATING, do, elementwise
from gpuarray.primitives.linear import broadcast_like, constant, full_like
from gpuarray.primitives.numpy_rules import by_dtype

sp = util.lazy_module("scipy.special")


def special_function(
    name: str, function, arity: int = 1, *, weight: float, jvp: tuple
) -> Primitive:
    """Define a primitive of floats whose CUDA helper is called ga_name and takes doubles."""
    return elementwise(
        name,
        arity=arity,
        dtypes=FLOATING,
        numpy_pick=by_dtype(floating=function),
        cuda=f"ga_{name}({', '.join(f'{{{i}}}' for i in range(arity))})",
        weight=weight,
        jvp=jvp,
    )


def in_double(function, short=None):
    """Return a NumPy rule that computes in float64 and rounds once; `short` serves narrow types."""

    def rule(*xs):
        # float64 on the way in, the operand's dtype on the way out.
        narrow = np.asarray(xs[0]).dtype.itemsize < 8
        chosen = short if short is not None and narrow else function
        out = chosen(*[np.asarray(x, np.float64) for x in xs])
        return np.asarray(out).astype(xs[0].dtype)

    return rule


def no_derivative(name: str, operand: str):
    """Return the rule of an operand whose derivative has no closed form."""

    def rule(*_, **__):
        raise ValueError(
            f"{name} gradient with respect to {operand} is not supported. Guard {operand} with "
            "gpuarray.lax.stop_gradient, or differentiate numerically."
        )

    return rule


def polynomial(x, coefficients):
    """Horner's rule over primitives, the highest power first."""
    out = full_like(x, coefficients[0])
    for c in coefficients[1:]:
        out = do.add(do.mul(out, x), constant(x, c))
    return out


def log(x):
    """The logarithm, of the default accuracy."""
    return do.log(x, accuracy=None)


def exp(x):
    """The exponential, of the default accuracy."""
    return do.exp(x, accuracy=None)


# ---- gamma functions ----


def _lgamma(x):
    # SciPy has -inf at -inf.
    return np.where(np.isinf(x), np.inf, sp.gammaln(x))


def _digamma(x):
    # Poles at 0, -1, -2, ... are nan, as in JAX; SciPy has an infinity at 0.
    out = sp.digamma(x)
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, out)


def _zeta(x, q):
    """Hurwitz's zeta function, the sum of (q + k)^-x over k >= 0.

    SciPy adds all terms up to 0. Far below it, for whole x, the sum is the one from q - ⌊q⌋ on, and
    those terms that begin at q, in the other order.
    """
    deep = (q < -100) & (x > 1) & (x == np.floor(x))
    out = _zeta_sum(x, np.where(deep, q - np.floor(q), q))
    if deep.any():
        place = np.where(deep, q, 0.0)
        sign = np.where(x % 2 == 0, 1.0, -1.0)
        all_terms = out + sign * _zeta_sum(x, 1 + np.floor(place) - place)
        out = np.where(deep, all_terms - sign * _zeta_sum(x, 1 - place), out)
    # At a pole the two sides agree on infinity for even powers only.
    pole = (q <= 0) & (q == np.floor(q))
    return np.where(pole, np.where((x % 2 == 0) | (x == 1), np.inf, np.nan), out)


def _zeta_sum(x, q):
    out = sp.zeta(x, q)
    # SciPy makes nan of a sum whose first term is already 0.
    return np.where(np.isnan(out) & (x > 1) & (q > 1), 0.0, out)


#: B_2j / (2j)!, from the highest power on.
_SERIES = (
    1 / 74724249600,
    -691 / 1307674368000,
    1 / 47900160,
    -1 / 1209600,
    1 / 30240,
    -1 / 720,
    1 / 12,
)


def _short_zeta(s: int, q: Any) -> Any:
    """The zeta function to 9 digits, for a small s > 1: six terms, and the rest by Euler and
    Maclaurin. A fifth of SciPy's time.
    """
    far = ~((q > 0) & (q < 1e38))
    # Others are made 1 here, and replaced below.
    a = np.where(far, 1.0, q)
    total = np.zeros(a.shape)
    for _ in range(6):
        total += 1 / _whole_power(a, s)
        a += 1.0
    v, series = 1 / (a * a), np.full(a.shape, _SERIES[0])
    # Each term has two more factors s + i than the one before it.
    for i, coefficient in zip(range(11, 0, -2), _SERIES[1:], strict=True):
        series *= v * ((s + i) * (s + i + 1))
        series += coefficient
    total += (a / (s - 1) + 0.5 + s / a * series) / _whole_power(a, s)
    if far.any():
        total[far] = _zeta(s, q[far])
    return total


def _whole_power(x, n: int):
    out = x * x
    for _ in range(n - 2):
        out *= x
    return out


def _short_polygamma(m, x):
    """As `_polygamma`, for results of a few digits."""
    if m.ndim == 0 and x.ndim and m in (1, 2, 3):
        n = int(m)
        return (-1) ** (n + 1) * math.factorial(n) * _short_zeta(n + 1, x)
    return _polygamma(m, x)


def _polygamma(m, x):
    """The m-th derivative of digamma: (-1)^(m+1) m! ζ(m+1, x)."""
    # Derivatives of odd order are positive.
    sign = np.where(m % 2 == 0, -1.0, 1.0)
    out = np.where(m == 0, _digamma(x), sign * sp.gamma(m + 1) * _zeta(m + 1, x))
    # The order must be a whole number.
    return np.where((m >= 0) & (m == np.floor(m)), out, np.nan)


def _igamma(a, x):
    # P(0, x) is 1; it is undefined at (0, 0), and for negative orders.
    return np.where(a > 0, sp.gammainc(a, x), np.where((a == 0) & (x > 0), 1.0, np.nan))


def _density(a, x):
    """x^a e^-x / Γ(a + 1), which is P(a, x) - P(a + 1, x)."""
    # xlogy is 0 at a = 0, where a log(x) would be nan at x = 0.
    return np.exp(sp.xlogy(a, x) - x - sp.gammaln(a + 1))


def _slope(log, a):
    """d log(a) / da by central differences of eighth order, on the scale √a of gamma functions."""
    # All four steps to either side stay positive.
    step = np.minimum(0.08 * np.sqrt(a), a / 5)
    total = np.zeros_like(a)
    for k, weight in ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280)):
        total += weight * (log(a + k * step) - log(a - k * step))
    return total / step


def _lower_slope(a, x):
    """dP/da for x < a.

    log P is smooth for a >= 5; smaller a are raised by P(a, x) = P(a + 1, x) + density(a, x).
    """
    out = np.zeros_like(a)
    for _ in range(5):
        small = a < 5
        out += np.where(small, _density(a, x) * (np.log(x) - sp.digamma(a + 1)), 0.0)
        a = np.where(small, a + 1, a)
    rest = _slope(lambda s: np.log(sp.gammainc(s, x)), a) * sp.gammainc(a, x)
    # Where P underflows, so does its derivative.
    return out + np.where(np.isfinite(rest), rest, 0.0)


def _upper_slope(a, x):
    """-dQ/da for x >= a, where Q = 1 - P.

    Q has zeros at a = 0, -1, -2, so log(Q / (a (a + 1) (a + 2))) is differentiated.
    """
    log = lambda s: np.log(sp.gammaincc(s, x) / (s * (s + 1) * (s + 2)))
    slope = _slope(log, a) + 1 / a + 1 / (a + 1) + 1 / (a + 2)
    rest = -slope * sp.gammaincc(a, x)
    return np.where(np.isfinite(rest), rest, 0.0)


def _igamma_slope(a, x):
    """dP/da, computed from the smaller one of P and Q; nan outside a > 0, x >= 0."""
    a, x = np.broadcast_arrays(a, x)
    out = np.where((a > 0) & (x >= 0), 0.0, np.nan)
    inside = (a > 0) & (x > 0)
    # Each branch only gets its own elements.
    for where, rule in ((inside & (x < a), _lower_slope), (inside & (x >= a), _upper_slope)):
        if where.any():
            out[where] = rule(a[where], x[where])
    return out


def _random_gamma_grad(a, x):
    """dx/da of a gamma variate x(a) at a fixed uniform: -(dP/da) / (dP/dx)."""
    density = _density(a, x)
    out = -_igamma_slope(a, x) * x / (a * density)
    # Far out the density vanishes before the quotient Q / density does, which is r / x.
    r = x / (x - a + 1)
    far = (density == 0) & (x > a) & np.isfinite(x)
    out = np.where(far, (np.log(x) - sp.digamma(a) + r / x) * r, out)
    # Where P itself vanishes in double precision, P = x^a / Γ(a + 1) is exact.
    tiny = (x > 0) & (sp.gammainc(a, x) == 0)
    out = np.where(tiny, -x / a * (np.log(x) - sp.digamma(a + 1)), out)
    return np.where((x == 0) & (a > 0), 0.0, out)


def _igamma_derivative(t, y, a, x):
    """t x^(a - 1) e^-x / Γ(a)"""
    # In logarithms: powers and Γ overflow long before their quotient does.
    power = do.add(do.neg(x), do.mul(do.sub(a, full_like(a, 1)), log(x)))
    return do.mul(t, exp(do.sub(power, do.lgamma(a))))


def _score(a, x):
    """d log(density) / da of the gamma distribution: log x - ψ(a)."""
    return do.sub(log(x), do.digamma(a))


def _igamma_grad_derivative(t, y, a, x):
    return do.mul(_igamma_derivative(t, y, a, x), _score(a, x))


def _variate_slope_derivative(t, y, a, x):
    """d/dx of -(dP/da) / p, where p is the density and d log p / dx = (a - 1) / x - 1."""
    one = constant(a, 1)
    slope = do.sub(do.div(do.sub(a, one), x), one)
    return do.mul(t, do.neg(do.add(_score(a, x), do.mul(y, slope))))


def _betainc_derivative(t, y, a, b, x):
    """t x^(a - 1) (1 - x)^(b - 1) / B(a, b)"""
    log_beta = do.sub(do.add(do.lgamma(a), do.lgamma(b)), do.lgamma(do.add(a, b)))
    right = do.mul(do.sub(b, constant(b, 1)), do.log1p(do.neg(x), accuracy=None))
    left = do.mul(do.sub(a, constant(a, 1)), log(x))
    return do.mul(exp(do.sub(do.add(right, left), log_beta)), t)


lgamma_p = special_function(
    "lgamma", in_double(_lgamma), weight=40, jvp=(lambda t, y, x: do.mul(t, do.digamma(x)),)
)
digamma_p = special_function(
    "digamma",
    in_double(_digamma),
    weight=40,
    jvp=(lambda t, y, x: do.mul(t, do.polygamma(constant(x, 1), x)),),
)
polygamma_p = special_function(
    "polygamma",
    in_double(_polygamma, _short_polygamma),
    2,
    weight=120,
    jvp=(
        no_derivative("polygamma", "m"),
        lambda t, y, m, x: do.mul(t, do.polygamma(do.add(m, constant(m, 1)), x)),
    ),
)
zeta_p = special_function(
    "zeta",
    in_double(_zeta),
    2,
    weight=120,
    jvp=(
        no_derivative("zeta", "x"),
        lambda t, y, x, q: do.mul(t, do.mul(do.neg(x), do.zeta(do.add(x, constant(x, 1)), q))),
    ),
)
igamma_p = special_function(
    "igamma",
    in_double(_igamma),
    2,
    weight=200,
    jvp=(lambda t, y, a, x: do.mul(t, do.igamma_grad_a(a, x)), _igamma_derivative),
)
igammac_p = special_function(
    "igammac",
    in_double(lambda a, x: sp.gammaincc(a, x)),
    2,
    weight=200,
    jvp=(
        lambda t, y, a, x: do.neg(do.mul(t, do.igamma_grad_a(a, x))),
        lambda t, y, a, x: do.neg(_igamma_derivative(t, y, a, x)),
    ),
)
igamma_grad_a_p = special_function(
    "igamma_grad_a",
    in_double(_igamma_slope),
    2,
    weight=400,
    jvp=(no_derivative("igamma_grad_a", "a"), _igamma_grad_derivative),
)
random_gamma_grad_p = special_function(
    "random_gamma_grad",
    in_double(_random_gamma_grad),
    2,
    weight=400,
    jvp=(no_derivative("random_gamma_grad", "a"), _variate_slope_derivative),
)
regularized_incomplete_beta_p = special_function(
    "regularized_incomplete_beta",
    in_double(lambda a, b, x: sp.betainc(a, b, x)),
    3,
    weight=200,
    jvp=(
        no_derivative("regularized_incomplete_beta", "a"),
        no_derivative("regularized_incomplete_beta", "b"),
        _betainc_derivative,
    ),
)

# ---- Bessel functions ----


def _asymptotic(order: int, terms: int = 20) -> list[float]:
    """The coefficients of √(2πx) e^-x I(x) in 30/x."""
    out = [1.0]
    for k in range(1, terms):
        # Each term from the one before, DLMF 10.40.1; x is counted in units of 30.
        out.append(out[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k) / 30)
    return out


_GAP = [a - b for a, b in zip(_asymptotic(0), _asymptotic(1), strict=True)][:0:-1]


def _bessel_gap(x, even, odd):
    """i0e(x) - |i1e(x)|; from 30 on by the asymptotic series, where most of the digits cancel."""
    size = do.abs(x)
    far = do.gt(size, constant(x, 30))
    inverse = do.div(constant(x, 30), do.select_n(far, full_like(x, 30), size))
    series = polynomial(inverse, _GAP)
    root = do.sqrt(do.mul(inverse, constant(x, 1 / (60 * math.pi))), accuracy=None)
    return do.select_n(far, do.sub(even, do.abs(odd)), do.mul(do.mul(series, inverse), root))


def _bessel_i0e_derivative(t, y, x):
    """-t sign(x) (i0e(x) - |i1e(x)|)"""
    slope = do.mul(do.sign(x), _bessel_gap(x, y, do.bessel_i1e(x)))
    return do.neg(do.mul(t, slope))


def _bessel_i1e_derivative(t, y, x):
    """t (i0e(x) - |i1e(x)| - i1e(x) / x); the limit at 0 is a half."""
    tiny = constant(x, float(dtypes.finfo(aval_of(x).dtype).eps))
    far = do.gt(do.abs(x), tiny)
    # 1 / x overflows below eps; the quotient is taken at eps there, and the result replaced.
    safe = do.select_n(far, broadcast_like(tiny, aval_of(x)), x)
    inner = do.sub(_bessel_gap(safe, do.bessel_i0e(safe), y), do.div(y, safe))
    return do.mul(t, do.select_n(far, full_like(x, 0.5), inner))


bessel_i0e_p = special_function(
    "bessel_i0e",
    in_double(lambda x: sp.i0e(x)),
    weight=40,
    jvp=(_bessel_i0e_derivative,),
)
bessel_i1e_p = special_function(
    "bessel_i1e",
    in_double(lambda x: np.copysign(sp.i1e(x), x)),
    weight=40,
    jvp=(_bessel_i1e_derivative,),
)
