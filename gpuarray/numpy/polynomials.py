"""Polynomials as arrays of coefficients, highest power first: arithmetic, calculus, values, roots,
fits.

Floor 6. In: (n,) coefficients. Out: coefficients, values or roots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy import linalg
from gpuarray.numpy.axes import roll
from gpuarray.numpy.comparison import equal
from gpuarray.numpy.correlation import convolve
from gpuarray.numpy.functions import sqrt
from gpuarray.numpy.indexer import known_value
from gpuarray.numpy.joining import stack
from gpuarray.numpy.matrices import vander
from gpuarray.numpy.operands import array, arrays, need_concrete, promoted, promoted_inexact
from gpuarray.numpy.products import dot, outer
from gpuarray.numpy.selection import where
from gpuarray.numpy.shapes import atleast_1d, broadcast_shapes, ravel, stretch
from gpuarray.numpy.sorting import argsort


def _trimmed(p: Array, what: str) -> Array:
    """`p` without leading zeros."""
    # How many zeros lead decides the shape.
    value = known_value(p)
    if value is None:
        need_concrete(
            p,
            f"{what}: how many zeros lead must be known; pass trim_leading_zeros=False",
        )
    places = np.nonzero(value)[0]
    return p[int(places[0]) if places.size else p.shape[0] :]


def _check_coefficients(name: str, *polynomials: Array) -> None:
    for p in polynomials:
        if not p.ndim:
            raise ValueError(
                f"{name} takes the coefficients of a polynomial, an array of one axis: got a "
                "scalar. Write [c] for a constant."
            )


def polyadd(a1, a2) -> Array:
    """The sum of two polynomials.

    >>> import gpuarray.numpy as gnp
    >>> gnp.polyadd(gnp.array([1, 2]), gnp.array([1, 0, 0]))
    Array([1, 1, 2], dtype=int32)
    """
    a, b = promoted("polyadd", a1, a2)
    _check_coefficients("polyadd", a, b)
    # Coefficients of equal powers are aligned at the end.
    longer, shorter = (a, b) if a.shape[0] >= b.shape[0] else (b, a)
    rest = longer.shape[0] - shorter.shape[0]
    return longer.at[rest:].add(shorter) if rest else a + b


def polysub(a1, a2) -> Array:
    """The difference of two polynomials.

    >>> import gpuarray.numpy as gnp
    >>> gnp.polysub(gnp.array([1, 2]), gnp.array([1, 0, 0]))
    Array([-1,  1,  2], dtype=int32)
    """
    a, b = promoted("polysub", a1, a2)
    _check_coefficients("polysub", a, b)
    return polyadd(a, -b)


def polymul(a1, a2, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials; trim_leading_zeros: as NumPy does (not while tracing).

    >>> import gpuarray.numpy as gnp
    >>> gnp.polymul(gnp.array([1., 1.]), gnp.array([1., -1.]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    a, b = promoted_inexact("polymul", a1, a2)
    _check_coefficients("polymul", a, b)
    if trim_leading_zeros and (a.shape[0] > 1 or b.shape[0] > 1):
        a, b = _trimmed(a, "polymul"), _trimmed(b, "polymul")
    # No coefficients mean the polynomial 0.
    a, b = (lax.full((1,), 0, x.dtype) if x.shape[0] == 0 else x for x in (a, b))
    return convolve(a, b, mode="full", precision=lax.Precision.HIGHEST)


def polydiv(u, v, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    >>> import gpuarray.numpy as gnp
    >>> gnp.polydiv(gnp.array([1., 5., 6.]), gnp.array([1., 2.]))[0]
    Array([1., 3.], dtype=float32)
    """
    u, v = promoted_inexact("polydiv", u, v)
    _check_coefficients("polydiv", u, v)
    if not v.shape[0]:
        raise ValueError("polydiv: there is nothing to divide by, v has shape (0,)")
    m, n = u.shape[0] - 1, v.shape[0] - 1
    quotient: list[Array] = []
    # Long division: one coefficient of the quotient in each round.
    for k in range(m - n + 1):
        d = u[k] / v[0]
        quotient.append(d)
        u = u.at[k : k + n + 1].add(-d * v)
    q = stack(quotient) if quotient else lax.full((1,), 0, u.dtype)
    return q, _trimmed(u, "polydiv") if trim_leading_zeros else u


def polyval(p, x, *, unroll: int = 16) -> Array:
    """The value of a polynomial at `x`, by Horner's rule.

    >>> import gpuarray.numpy as gnp
    >>> gnp.polyval(gnp.array([1., 2., 3.]), 2.)
    Array(11., dtype=float32)
    """
    p, x = promoted("polyval", p, x)
    _check_coefficients("polyval", p)
    target = broadcast_shapes(p.shape[1:], x.shape)
    y = lax.full(target, 0, x.dtype)
    x = stretch(x, target)
    # Horner's rule.
    if isinstance(p.shape[0], util.Symbolic):
        return lax.scan(lambda y, coefficient: (y * x + coefficient, None), y, p)[0]
    for k in range(p.shape[0]):
        y = y * x + p[k]
    return y


def polyder(p, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.

    >>> import gpuarray.numpy as gnp
    >>> gnp.polyder(gnp.array([1., 2., 3.]))
    Array([2., 2.], dtype=float32)
    """
    (p,) = promoted_inexact("polyder", p)
    _check_coefficients("polyder", p)
    if util.index(m) < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    n = p.shape[0]
    if m >= n:
        return p[:0]
    # k (k - 1) ... (k - m + 1) for every power k that stays.
    powers = np.arange(n - 1, m - 1, -1, dtype=np.float64)
    factor = np.prod([powers - i for i in range(m)], axis=0)
    return p[:-m] * factor.astype(p.dtype)


def polyint(p, m: int = 1, k=None) -> Array:
    """The m-fold integral of a polynomial, with integration constants `k` (one, or m of them; 0 by
    default).

    >>> import gpuarray.numpy as gnp
    >>> gnp.polyint(gnp.array([2., 2.]))
    Array([1., 2., 0.], dtype=float32)
    """
    p, constants = promoted_inexact("polyint", p, 0 if k is None else k)
    _check_coefficients("polyint", p)
    constants = atleast_1d(constants)
    if util.index(m) < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    if constants.ndim != 1 or constants.shape[0] not in (1, m):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    # One constant for all integrations, or one for each.
    constants = stretch(constants, (m,))
    n = p.shape[0] + m
    powers = np.arange(n - 1, -1, -1, dtype=np.float64)
    # Coefficient i was divided by its power at every integration since it came in.
    given = p.shape[0]
    divisor = np.ones(n)
    with np.errstate(over="ignore"):  # 1 over a number too large for a float is 0
        # The constants: each was integrated as often as others came in after it.
        divisor[given:][::-1] = np.cumprod(np.maximum(powers[given:][::-1], 1))
        for step in range(m):
            divisor[:given] *= powers[:given] - step
            if np.isinf(divisor[:given]).all():
                break
        divisor = divisor.astype(p.dtype)
    return lax.concatenate([p, constants], 0) / divisor


def poly(seq_of_zeros) -> Array:
    """The coefficients of the polynomial with these roots, or of a matrix's characteristic
    polynomial.

    >>> import gpuarray.numpy as gnp
    >>> gnp.poly(gnp.array([1., 2.]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros,) = promoted_inexact("poly", seq_of_zeros)
    zeros = atleast_1d(zeros)
    shape = zeros.shape
    # The characteristic polynomial of a matrix.
    if len(shape) == 2 and shape[0] == shape[1] and shape[0] != 0:
        zeros = linalg.eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError(f"input must be 1d or non-empty square 2d array, got shape {shape}.")
    if zeros.shape[0] == 0:
        return lax.full((), 1, zeros.dtype)
    out = lax.full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        # Times (x - zero).
        shifted = lax.pad(out, out.dtype.type(0), [(1, 0, 0)])
        out = lax.pad(out, out.dtype.type(0), [(0, 1, 0)]) - zeros[i] * shifted
    return out


def roots(p, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial, as eigenvalues of its companion matrix.

    Parameters
    ----------
    strip_zeros :
        Leading zeros are taken away first, which needs the values; False works while tracing and
        puts nan in the places of the roots that are not there.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.sort(gnp.roots(gnp.array([1., -3., 2.])).real).round(3)
    Array([1., 2.], dtype=float32)
    """
    (p,) = promoted_inexact("roots", p)
    p = lax.reshape(p, (1,)) if p.ndim == 0 else p
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    kind = dtypes.to_complex_dtype(p.dtype)
    # A constant has no roots.
    if p.shape[0] < 2:
        return lax.full((0,), 0, kind)
    if strip_zeros:
        value = known_value(p)
        if value is None:
            need_concrete(
                p,
                "roots: the number of leading zeros must be known; pass strip_zeros=False",
            )
        places = np.nonzero(value)[0]
        if places.size == 0:
            return lax.full((0,), 0, kind)
        p = p[int(places[0]) :]
    else:
        return _roots_traced(p)
    return _companion_roots(p) if p.shape[0] > 1 else lax.full((0,), 0, kind)


def _roots_traced(p: Array) -> Array:
    """Roots for a fixed length: NaN for those that leading zeros take away."""
    n = p.shape[0] - 1
    zero = equal(p, 0)
    leading = where(zero.all(), n + 1, zero.argmin())
    # Leading zeros moved to the end become roots at zero, the smallest there are.
    found = _companion_roots(where(zero.all(), 1, roll(p, -leading)))
    # Stable, with the zeros last, so that the actual roots are in front.
    found = found[argsort(equal(found, 0))]
    return where(lax.iota(leading.dtype, n) < n - leading, found, complex(np.nan, np.nan))


def _companion_roots(p: Array) -> Array:
    n = p.shape[0] - 1
    # The roots are the eigenvalues of the companion matrix.
    # First row: the coefficients over the leading one, negated. Ones below the diagonal.
    below = np.eye(n, k=-1)[1:]
    companion = lax.concatenate(
        [(-p[1:] / p[0])[None], lax.convert_element_type(array("roots", below), p.dtype)], 0
    )
    return linalg.eigvals(companion)


def polyfit(
    x, y, deg: int, rcond: float | None = None, full: bool = False, w=None, cov: Any = False
) -> Any:
    """The polynomial of degree `deg` that fits the points (x, y) best in the least squares sense.

    y may be (n, k), one fit for each column. w: weights of the points. full: also residuals, rank,
    singular values and rcond. cov: also the covariance of the coefficients (not scaled by the
    residuals when "unscaled").

    >>> import gpuarray.numpy as gnp
    >>> gnp.polyfit(gnp.array([0., 1., 2.]), gnp.array([1., 3., 5.]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    arrays("polyfit", x, y)
    if not isinstance(deg, (int, np.integer)):
        raise TypeError(f"deg must be an int, got {deg!r}")
    if deg < 0:
        raise ValueError("expected deg >= 0")
    x, y = promoted_inexact("polyfit", x, y)
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.size == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    order = deg + 1
    if rcond is None:
        # NumPy's default.
        rcond = x.shape[0] * float(dtypes.finfo(x.dtype).eps)
    # Least squares on powers of x, each row times its weight.
    left, right = vander(x, order), y
    if w is not None:
        (w,) = promoted_inexact("polyfit", w)
        if w.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.shape[0] != y.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * w[:, None]
        right = right * (w[:, None] if right.ndim == 2 else w)
    # Columns of like size make the system better conditioned.
    scale = sqrt((left * left).sum(0))
    c, residuals, rank, s = linalg.lstsq(left / scale, right, rcond)
    # The scaling undone: the coefficients of the columns as they were.
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, s, array("polyfit", rcond)
    if not cov:
        return c
    # (A^T A)^-1, scaled by the variance of the residuals unless that is known.
    scaled = left / scale
    squares = dot(scaled.T, scaled, precision=lax.Precision.HIGHEST)
    covariance = linalg.inv(squares) / outer(scale, scale)
    if not (isinstance(cov, str) and cov == "unscaled"):
        if x.shape[0] <= order:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance matrix"
            )
        factor = residuals / (x.shape[0] - order)
        if y.ndim == 1:
            return c, covariance * ravel(factor)[0]
        return c, covariance[:, :, None] * factor
    return c, (covariance if y.ndim == 1 else covariance[:, :, None])
