"""Special functions: error functions, gamma and beta functions, zeta functions, Bessel functions.

Floor 6. In: arrays, NumPy values and Python scalars of floating types. Out: one bound primitive a
function.
"""

from __future__ import annotations

from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, binary, operands, unary
from gpuarray.primitives.elementwise.error_functions import erf_inv_p, erf_p, erfc_p
from gpuarray.primitives.elementwise.special import (
    bessel_i0e_p,
    bessel_i1e_p,
    digamma_p,
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    lgamma_p,
    polygamma_p,
    random_gamma_grad_p,
    regularized_incomplete_beta_p,
    zeta_p,
)


def erf(x: ArrayLike) -> Array:
    """The error function, 2/√π ∫₀ˣ exp(-t²) dt.

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.erf(1.0)
    Array(0.8427008, dtype=float32, weak_type=True)
    """
    return unary(erf_p, x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate where erf(x) is close to 1.

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return unary(erfc_p, x)


def erf_inv(x: ArrayLike) -> Array:
    """The inverse of the error function: the number whose error function is x.

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.erf_inv(0.5)
    Array(0.47693628, dtype=float32, weak_type=True)
    """
    return unary(erf_inv_p, x)


def lgamma(x: ArrayLike) -> Array:
    """log |Γ(x)|.

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.lgamma(5.0)
    Array(3.1780539, dtype=float32, weak_type=True)
    """
    return unary(lgamma_p, x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of log Γ(x); nan at 0, -1, -2, ...

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return unary(digamma_p, x)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x.

    Both are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.polygamma(1.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return binary(polygamma_p, m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """The Hurwitz zeta function, Σ (k + q)⁻ˣ over k = 0, 1, 2, ...

    Both are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return binary(zeta_p, x, q)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function P(a, x), 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt.

    Both are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.igamma(1.0, 1.0)
    Array(0.63212055, dtype=float32, weak_type=True)
    """
    return binary(igamma_p, a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function, 1 - P(a, x).

    Both are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.igammac(1.0, 1.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    """
    return binary(igammac_p, a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of igamma(a, x) with respect to a.

    Both are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.igamma_grad_a(1.0, 1.0)
    Array(-0.4317297, dtype=float32, weak_type=True)
    """
    return binary(igamma_grad_a_p, a, x)


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of a gamma variate x with respect to a: dx/da at constant igamma(a, x).

    Both are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.random_gamma_grad(1.0, 1.0)
    Array(1.173563, dtype=float32, weak_type=True)
    """
    return binary(random_gamma_grad_p, a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function Iₓ(a, b).

    All are of one floating type; shapes agree up to scalars and axes of length 1.

    >>> from gpuarray import lax
    >>> lax.betainc(1.0, 2.0, 0.5)
    Array(0.75, dtype=float32, weak_type=True)
    """
    name = regularized_incomplete_beta_p.name
    return regularized_incomplete_beta_p.bind(*operands(name, a, b, x))


def bessel_i0e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0, times exp(-|x|).

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.bessel_i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return unary(bessel_i0e_p, x)


def bessel_i1e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1, times exp(-|x|).

    `x` is of a floating type; the result has its shape and dtype.

    >>> from gpuarray import lax
    >>> lax.bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(bessel_i1e_p, x)
