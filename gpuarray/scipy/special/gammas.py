"""The gamma function and its relatives: logarithm, derivatives, beta and zeta, counts.

Floor 6. In: array-likes. Out: Arrays. Each function is pointwise, except bernoulli, which is a
table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.lax.args import ArrayLike
from gpuarray.primitives.elementwise.integrals import gamma_p
from gpuarray.scipy.special.loggamma import complex_loggamma
from gpuarray.scipy.special.operands import inexact, like, real, strong

# ---- the gamma function ----


def gamma(x: ArrayLike) -> Array:
    """The gamma function of real or complex x; nan at -1, -2, ... Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> gamma(gnp.array([1.0, 5.0, 0.5])).round(4)
    Array([ 1.    , 24.    ,  1.7725], dtype=float32)
    """
    (x,) = strong(inexact("gamma", x))
    return lax.exp(complex_loggamma(x)) if _is_complex(x) else gamma_p.bind(x)


def gammaln(x: ArrayLike) -> Array:
    """log |Γ(x)| of real x. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> gammaln(gnp.array([1.0, 100.0])).round(3)
    Array([  0.   , 359.134], dtype=float32)
    """
    return lax.lgamma(*inexact("gammaln", x))


def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function, analytic except for x <= 0; nan for real x < 0.

    Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> loggamma(gnp.array([1 + 1j])).round(4)
    Array([-0.6509-0.3016j], dtype=complex64)
    """
    (x,) = inexact("loggamma", x)
    if _is_complex(x):
        return complex_loggamma(x)
    return _real_loggamma(x)


@custom_jvp
def _real_loggamma(x: Array) -> Array:
    return gnp.where(x >= 0, lax.lgamma(x), like(np.nan, x))


_real_loggamma.defjvps(lambda t, y, x: t * gnp.where(x >= 0, lax.digamma(x), like(np.nan, x)))


def gammasgn(x: ArrayLike) -> Array:
    """The sign of Γ(x): 1 or -1; nan at -1, -2, ... Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> gammasgn(gnp.array([2.0, -0.5, -1.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    (x,) = strong(real("gammasgn", x))
    whole = lax.floor(x)
    # The parity of the integer part, in floating point: integers would overflow.
    half = lax.mul(whole, like(0.5, x))
    odd = half != lax.floor(half)
    # Gamma changes its sign at every pole, -0.0 included.
    negative = ((x < 0) & odd) | ((x == 0) & gnp.signbit(x))
    out = gnp.where(negative, like(-1, x), like(1, x))
    return gnp.where(gnp.isnan(x) | ((x < 0) & (x == whole)), like(np.nan, x), out)


def _is_complex(x: Array) -> bool:
    return dtypes.kind_of(x.dtype) == "c"


def digamma(x: ArrayLike) -> Array:
    """The derivative of log Γ(x), of real x; nan at 0, -1, -2, ... Any shape; same shape out.

    >>> digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return lax.digamma(*inexact("digamma", x))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma at real x, n being integers. The shapes broadcast.

    >>> polygamma(1, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    dtype = dtypes.dtype(n)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"Argument `n` to polygamma must be of integer type. Got dtype {dtype}.")
    return lax.polygamma(*inexact("polygamma", n, x))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function, 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt.

    The shapes broadcast.

    >>> gammainc(1.0, 1.0)
    Array(0.63212055, dtype=float32, weak_type=True)
    """
    return lax.igamma(*inexact("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """1 - gammainc(a, x), accurate where that is small. The shapes broadcast.

    >>> gammaincc(1.0, 1.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    """
    return lax.igammac(*inexact("gammaincc", a, x))


# ---- beta functions ----


def _correction(z: Array) -> Array:
    """log Γ(z) less Stirling's formula: exact to double precision from 10 on."""
    # Coefficients B_2j / (2j (2j - 1)) of Stirling's series, by Horner's rule in 1 / z^2.
    w = 1 / (z * z)
    total = like(1 / 156, z)
    for c in (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = total * w + c
    return total / z


@custom_jvp
def _betaln(a: Array, b: Array) -> Array:
    """Where operands are large, by Stirling's formula: large terms cancel before rounding."""
    a, b = gnp.minimum(a, b), gnp.maximum(a, b)
    total = lax.add(a, b)
    # For large arguments the logarithms of gammas cancel: Stirling's formula with its corrections.
    near = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(total))
    large = b >= 10
    # Values outside a branch are replaced, so that no branch divides by zero.
    high = gnp.where(large, b, like(10, b))
    one_large = (
        lax.lgamma(a)
        - (high - 0.5) * lax.log1p(a / high)
        - a * lax.log(high + a)
        + a
        + (_correction(high) - _correction(high + a))
    )
    low = gnp.where(a >= 10, a, like(10, a))
    both_large = (
        (_correction(low) + _correction(high) - _correction(low + high))
        - (low - 0.5) * lax.log1p(high / low)
        - high * lax.log1p(low / high)
        - 0.5 * lax.log(high)
        + 0.5 * math.log(2 * math.pi)
    )
    return gnp.where(large, gnp.where(a >= 10, both_large, one_large), near)


def _betaln_slope(t: Array, a: Array, b: Array) -> Array:
    return t * (lax.digamma(a) - lax.digamma(lax.add(a, b)))


_betaln.defjvps(
    lambda t, out, a, b: _betaln_slope(t, a, b), lambda t, out, a, b: _betaln_slope(t, b, a)
)


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log |B(a, b)|, the logarithm of the beta function. The shapes broadcast.

    >>> betaln(1.0, 2.0).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    return _betaln(*inexact("betaln", a, b))


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function, Γ(a) Γ(b) / Γ(a + b). The shapes broadcast.

    >>> beta(1.0, 2.0).round(4)
    Array(0.5, dtype=float32)
    """
    a, b = strong(real("beta", a, b))
    # The logarithm loses the sign; it follows from those of the three gammas.
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * lax.exp(_betaln(a, b))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function, 1/B(a, b) ∫₀ˣ tᵃ⁻¹ (1 - t)ᵇ⁻¹ dt.

    The shapes broadcast; x is in [0, 1], or the result nan.

    >>> betainc(1.0, 2.0, 0.5)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return lax.betainc(*real("betainc", a, b, x))


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The logarithm of the gamma function of d-dimensional matrices, d being static.

    That is d (d - 1) / 4 log π plus the sum of log Γ(a - j / 2) over j < d. Any shape of a; same
    shape out.

    >>> multigammaln(3.0, 2).round(4)
    Array(1.5502, dtype=float32)
    """
    (a,) = strong(inexact("multigammaln", a))
    size: Any = d
    size = int(size)
    # The sum of log gamma(a - j / 2), j = 0 ... d - 1.
    steps = lax.iota(a.dtype, max(size, 0)) / 2
    whole = lax.lgamma(lax.expand_dims(a, (a.ndim,)) - steps).sum(-1)
    return whole + like(size * (size - 1) / 4 * math.log(math.pi), a)


# ---- counting ----


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Γ(n + 1), and 0 for negative n. Any shape; same shape out, as floats.

    >>> import gpuarray.numpy as gnp
    >>> factorial(gnp.array([0, 3, 5]))
    Array([  1.,   6., 120.], dtype=float32)
    """
    if exact:
        raise NotImplementedError(
            "factorial with exact=True: results are floats here. math.factorial is exact."
        )
    (n,) = inexact("factorial", n)
    return gnp.where(n < 0, like(0, n), gamma_p.bind(lax.add(n, like(1, n))))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """How many ways there are to choose k of N things, perhaps the same one again.

    The shapes broadcast; the result is a float, 0 where there is no such choice.

    >>> comb(5, 2).round(4), comb(5, 2, repetition=True).round(4)
    (Array(10., dtype=float32, weak_type=True), Array(15., dtype=float32, weak_type=True))
    """
    N, k = inexact("comb", N, k)
    if repetition:
        none = (N == 0) & (k == 0)
        # Choosing with repetition is choosing k of N + k - 1.
        return gnp.where(none, like(1, N), comb(N + k - 1, k))
    possible = (N >= k) & (k >= 0) & (N >= 0)
    top, some = gnp.where(possible, N, like(1, N)), gnp.where(possible, k, like(0, k))
    # 1 / ((N + 1) B(N - k + 1, k + 1)), by logarithms: 1 / B can be inf where this is not.
    rest = _betaln(lax.add(lax.sub(top, some), like(1, top)), lax.add(some, like(1, some)))
    ways = lax.exp(-(rest + lax.log1p(top)))
    return gnp.where(possible, ways, like(0, N))


@custom_jvp
def _poch(z: Array, m: Array) -> Array:
    above, below = gamma_p.bind(z + m), gamma_p.bind(z)
    sign = gammasgn(z + m) * gammasgn(z)
    far = sign * lax.exp(lax.lgamma(z + m) - lax.lgamma(z))
    # The quotient of gammas where both are finite, their logarithms beyond.
    near = gnp.isfinite(above) & gnp.isfinite(below)
    return gnp.where(m == 0, like(1, z), gnp.where(near, above / below, far))


_poch.defjvps(
    lambda t, out, z, m: t * out * (lax.digamma(z + m) - lax.digamma(z)),
    lambda t, out, z, m: t * out * lax.digamma(z + m),
)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer's symbol, Γ(z + m) / Γ(z). The shapes broadcast.

    >>> poch(1.0, 4.0)
    Array(24., dtype=float32)
    """
    return _poch(*strong(real("poch", z, m)))


# ---- zeta ----


@custom_jvp
def _zeta(x: Array, q: Array) -> Array:
    return lax.zeta(x, q)


def _zeta_slope(x: Array, q: Array) -> Array:
    """dζ/dx by the Euler-Maclaurin formula, term by term: 10 terms, then the remainder."""
    x, q = gnp.broadcast_arrays(x, q)
    total = like(0, x)
    # Euler and Maclaurin: ten terms, the integral of the rest, and corrections.
    for k in range(10):
        log = lax.log(q + k)
        total = total - log * lax.exp(-x * log)
    w = q + 10
    log = lax.log(w)
    power, rest = lax.exp(-x * log), 1 / (x - 1)
    total = total - w * power * rest * (log + rest) - 0.5 * log * power
    # B₂ⱼ / (2j)! (x)₂ⱼ₋₁ w^(-x - 2j + 1), and the derivatives of its factors
    rising, slopes, scale = x, 1 / x, power / w
    for j, c in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160), 1):
        total = total + c * rising * scale * (slopes - log)
        for i in (2 * j - 1, 2 * j):
            rising, slopes = rising * (x + i), slopes + 1 / (x + i)
        scale = scale / (w * w)
    return total


_zeta.defjvps(
    lambda t, out, x, q: t * _zeta_slope(x, q), lambda t, out, x, q: t * -x * lax.zeta(x + 1, q)
)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function, the sum of (k + q)⁻ˣ over k = 0, 1, 2, ... The shapes broadcast.

    >>> zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    if q is None:
        raise NotImplementedError(
            "Riemann zeta function not implemented; pass q != None to compute the Hurwitz Zeta "
            "function: zeta(x, 1.0) is Riemann's for x > 1."
        )
    return _zeta(*inexact("zeta", x, q))


#: Bernoulli numbers from here on are beyond all doubles; a multiple of 4, whose sign is -1.
_INFINITE_FROM = 260


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B₀, B₁ = -1/2, ..., Bₙ: n is static, the result has shape [n + 1].

    >>> bernoulli(4).round(4)
    Array([ 1.    , -0.5   ,  0.1667,  0.    , -0.0333], dtype=float32)
    """
    n = util.index(n)
    if n < 0:
        raise ValueError(f"n must be a non-negative integer. Got {n}.")
    dtype = dtypes.default_float()
    table = np.zeros(_INFINITE_FROM)
    table[[0, 1, 2, 4, 6]] = 1, -1 / 2, 1 / 6, -1 / 30, 1 / 42
    # -(-1)ᵏ 2 (2k)! / (2π)²ᵏ ζ(2k)
    m = np.arange(8.0, _INFINITE_FROM, 2)
    sizes = np.cumprod(m * (m - 1) / (2 * math.pi) ** 2)
    sizes *= 2 * math.factorial(6) / (2 * math.pi) ** 6
    zeta = sum(i**-m for i in range(1, 80))
    table[8::2] = sizes * zeta * np.where(m % 4 == 2, 1, -1)
    # In float32 the larger ones are infinite.
    with np.errstate(over="ignore"):
        first = gnp.asarray(table[: n + 1].astype(dtype))
    if n < _INFINITE_FROM:
        return first
    k = lax.iota(np.int32, n + 1 - _INFINITE_FROM)
    far = gnp.where(k % 4 == 0, -np.inf, np.inf).astype(dtype)
    return gnp.concatenate([first, gnp.where(k % 2 == 0, far, lax.full_like(far, 0))])
