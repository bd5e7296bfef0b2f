"""Exponential, trigonometric and Fresnel integrals, the dilogarithm, hypergeometric functions.

Floor 6. In: array-likes of real numbers. Out: Arrays, pointwise; each is a primitive, computed in
double precision and rounded once.
"""

from __future__ import annotations

from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.lax.ranks import check_ranks
from gpuarray.primitives.elementwise.hypergeometric import hyp1f1_p, hyp2f1_p
from gpuarray.primitives.elementwise.integrals import (
    cosine_integral_p,
    expi_p,
    expn_p,
    fresnel_cos_p,
    fresnel_sin_p,
    sine_integral_p,
    spence_p,
)
from gpuarray.scipy.special.operands import any_real, inexact, like, real, single_or_double, strong


def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei(x), the principal value of ∫ eᵗ/t dt up to x.

    Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> expi(gnp.array([-1.0, 1.0])).round(4)
    Array([-0.2194,  1.8951], dtype=float32)
    """
    return expi_p.bind(*strong(real("expi", x)))


def exp1(x: ArrayLike) -> Array:
    """The exponential integral E₁(x), ∫ e⁻ᵗ/t dt from x on; nan below 0. Any shape; same shape out.

    >>> exp1(1.0).round(4)
    Array(0.2194, dtype=float32)
    """
    (x,) = strong(real("exp1", x))
    # E₁ is the member of order 1 of the family Eₙ.
    return expn_p.bind(like(1, x), x)


@check_ranks("n", "x")
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral Eₙ(x), ∫ e⁻ˣᵗ/tⁿ dt from 1 on, for n and x >= 0, else nan.

    The shapes broadcast. There is no derivative with respect to n.

    >>> expn(2, 1.0).round(4)
    Array(0.1485, dtype=float32)
    """
    return expn_p.bind(*any_real("expn", n, x))


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """∫₀ˣ sin(t)/t dt and γ + log|x| + ∫₀ˣ (cos(t) - 1)/t dt: the sine and cosine integrals.

    Any shape; same shape out, twice.

    >>> si, ci = sici(1.0)
    >>> si.round(4), ci.round(4)
    (Array(0.9461, dtype=float32), Array(0.3374, dtype=float32))
    """
    (x,) = strong(inexact("sici", x))
    if dtypes.kind_of(x.dtype) == "c":
        raise ValueError(f"Argument `x` to sici must be real-valued. Got dtype {x.dtype}.")
    return sine_integral_p.bind(x), cosine_integral_p.bind(x)


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals of sin(π t²/2) and cos(π t²/2) from 0 to x, in this order.

    Any shape; same shape out, twice.

    >>> s, c = fresnel(1.0)
    >>> s.round(4), c.round(4)
    (Array(0.4383, dtype=float32), Array(0.7799, dtype=float32))
    """
    (x,) = strong(inexact("fresnel", x))
    if dtypes.kind_of(x.dtype) == "c":
        raise NotImplementedError(
            "Support for complex-valued inputs is not implemented yet: fresnel takes real numbers. "
            "wofz, which takes complex ones, is the same function up to factors."
        )
    return fresnel_sin_p.bind(x), fresnel_cos_p.bind(x)


def spence(x: ArrayLike) -> Array:
    """Spence's function, ∫₁ˣ log(t)/(1 - t) dt, which is the dilogarithm of 1 - x; nan below 0.

    Takes float32 and float64. Any shape; same shape out.

    >>> import gpuarray.numpy as gnp
    >>> spence(gnp.array([0.0, 1.0])).round(4)
    Array([1.6449, 0.    ], dtype=float32)
    """
    return spence_p.bind(single_or_double(x, "spence"))


@check_ranks("a", "b", "x")
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function: the sum of (a)ₖ / (b)ₖ xᵏ / k!.

    The shapes broadcast. It has derivatives in all operands.

    >>> hyp1f1(1.0, 2.0, 1.0).round(4)
    Array(1.7183, dtype=float32)
    """
    return hyp1f1_p.bind(*any_real("hyp1f1", a, b, x))


@check_ranks("a", "b", "c", "x")
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function: the sum of (a)ₖ (b)ₖ / (c)ₖ xᵏ / k!, continued to x < 1.

    The shapes broadcast. It has derivatives in all operands.

    >>> hyp2f1(1.0, 1.0, 2.0, 0.5).round(4)
    Array(1.3863, dtype=float32)
    """
    return hyp2f1_p.bind(*any_real("hyp2f1", a, b, c, x))
