"""Determinants, and their derivatives: cofactors, whose own derivatives follow.

Floor 6. In: (…, n, n) arrays, promoted to floats. Out: arrays. A determinant is a polynomial of the
elements, so it has derivatives everywhere. Through the factors they would divide by the pivots. By
an inverse they are right where there is one, and by singular values, up to the second, elsewhere.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.numpy.arithmetic import sign
from gpuarray.numpy.comparison import equal, not_equal
from gpuarray.numpy.functions import conj, log
from gpuarray.numpy.linalg.decompositions import (
    SlogdetResult,
    adjoint,
    check_square,
    identity,
    inexact_matrix,
    is_complex,
    product,
    svd,
)
from gpuarray.numpy.linalg.systems import inv
from gpuarray.numpy.products import diagonal
from gpuarray.numpy.selection import where


def det(a) -> Array:
    """The determinant of a square matrix: (…, n, n) -> (…).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.det(gnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    a = inexact_matrix("det", a)
    check_square("det()", a)
    n = a.shape[-1]
    # Small ones by formula: no factorisation, and differentiable at singular matrices.
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        rows = [[a[..., i, j] for j in range(3)] for i in range(3)]
        (p, q, r), (s, t, u), (v, w, x) = rows
        return p * t * x + q * u * v + r * s * w - r * t * v - p * u * w - q * s * x
    if n == 4:
        # Two rows and two columns, times the other rows and columns.
        upper, lower = ([_minor(a, i, p, q) for p, q in _PAIRS] for i in (0, 2))
        signs = (1, -1, 1, 1, -1, 1)
        return functools.reduce(
            lax.add, [s * x * y for s, x, y in zip(signs, upper, reversed(lower), strict=True)]
        )
    return _by_factors(a)


_PAIRS = list(itertools.combinations(range(4), 2))


def _minor(a: Array, i: int, p: int, q: int) -> Array:
    """The determinant of rows i and i + 1, columns p and q."""
    return a[..., i, p] * a[..., i + 1, q] - a[..., i, q] * a[..., i + 1, p]


def slogdet(a, *, method: str | None = None) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value: (…, n, n) -> (…), (…).

    Parameters
    ----------
    method :
        The factorisation, "lu" or "qr".

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.slogdet(gnp.array([[-1., 0.], [0., 1.]])).sign
    Array(-1., dtype=float32)
    """
    a = inexact_matrix("slogdet", a)
    check_square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    if method == "qr":
        packed, factors = lax.linalg.geqrf(a)
        # Every reflector with a factor turns the sign once (by a unit number, when complex).
        flips = where(factors != 0, _reflection(packed, factors), 1).prod(-1)
        flips = lax.convert_element_type(flips, a.dtype)
    else:
        packed, pivots, _ = lax.linalg.lu(a)
        flips = _parity(pivots, a.dtype)
    # Of the triangular factor, whose diagonal elements multiply to the determinant.
    d = diagonal(packed, axis1=-2, axis2=-1)
    size = abs(d)
    singular = equal(d, 0).any(-1)
    direction = d / lax.convert_element_type(size, d.dtype) if is_complex(a) else sign(d)
    # Zero has no direction: its sign is 0 and its logarithm -inf.
    total = where(singular, 0, flips * direction.prod(-1))
    return SlogdetResult(total, where(singular, -np.inf, log(size).sum(-1)))


def _reflection(packed: Array, factors: Array) -> Array:
    """The determinant of each Householder reflector 1 - tau v v^H: -conj(tau) / tau (-1 for real
    tau).
    """
    if not is_complex(packed):
        return lax.full_like(factors, -1)
    safe = where(factors == 0, 1, factors)
    return -conj(safe) / safe


# ---- by factors, and their derivatives ----


def _parity(pivots: Array, dtype) -> Array:
    """1 or -1: whether the row swaps of an LU factorisation are even in number."""
    stay = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    # Every row that was swapped turns the sign.
    swaps = not_equal(pivots, stay).sum(-1)
    return lax.convert_element_type(1 - 2 * (swaps % 2), dtype)


@custom_jvp
def _by_factors(a: Array) -> Array:
    """The determinant: (…, n, n) -> (…)."""
    packed, pivots, _ = lax.linalg.lu(a)
    # det(P) det(L) det(U): the sign of the swaps, one, and the diagonal of U.
    return _parity(pivots, packed.dtype) * diagonal(packed, axis1=-2, axis2=-1).prod(-1)


@_by_factors.defjvp
def _by_factors_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    value = _by_factors(a)
    return value, (_cofactors(a, value) * da).sum((-2, -1))


@custom_jvp
def _cofactors(a: Array, value: Array) -> Array:
    """The cofactors, given the determinant: (…, n, n), (…) -> (…, n, n)."""
    return _by_either(equal(value, 0), _regular, _singular, a, value)


@_cofactors.defjvp
def _cofactors_jvp(primals, tangents):
    (a, value), (da, _) = primals, tangents
    # The inverse is squared: it has no digits left where half of them are lost.
    none = equal(value, 0)
    inverse = inv(where(none[..., None, None], identity(a.shape[-1], a.dtype), a))
    size = lax.stop_gradient(abs(a).max((-2, -1)) * abs(inverse).max((-2, -1)))
    lost = none | (size > float(dtypes.finfo(a.dtype).eps) ** -0.5)
    slope = _by_either(lost, _slope_of_regular, _slope_of_singular, a, value, da)
    return _cofactors(a, value), slope


def _by_either(
    singular: Array, by_inverse: Callable, by_values: Callable, a: Array, value: Array, *more: Array
) -> Array:
    """A function of matrices, by one way for those that are singular, by another one for others.

    Each way sees matrices that it has derivatives for, only.
    """
    n, chosen = a.shape[-1], singular[..., None, None]
    one = identity(n, a.dtype)
    apart = one * lax.convert_element_type(lax.iota(np.int32, n) + 1, a.dtype)

    def both(a: Array, value: Array, *more: Array) -> Array:
        regular = by_inverse(where(chosen, one, a), where(singular, 1, value), *more)
        return where(chosen, by_values(where(chosen, a, apart), *more), regular)

    return lax.cond(singular.any(), both, by_inverse, a, value, *more)


# ---- by the inverse ----


def _regular(a: Array, value: Array) -> Array:
    return value[..., None, None] * inv(a).mT


def _slope_of_regular(a: Array, value: Array, da: Array) -> Array:
    inverse = inv(a).mT
    slope = value[..., None, None] * inverse
    along = (slope * da).sum((-2, -1))[..., None, None]
    return along * inverse - product(slope, product(da.mT, inverse))


# ---- by singular values: a = u diag(s) vh ----


def _singular(a: Array) -> Array:
    u, s, vh = svd(a)
    below, above = _around(s)
    return _turned(u, vh, conj(u) * _as(below * above, a)[..., None, :])


def _slope_of_singular(a: Array, da: Array) -> Array:
    """Between singular vectors, an element of da changes the cofactors in its row and column."""
    u, s, vh = svd(a)
    d = product(adjoint(u), product(da, adjoint(vh)))
    pairs = _as(_but_two(s), a)
    on_diagonal = product(pairs, diagonal(d, axis1=-2, axis2=-1)[..., None])
    return _turned(u, vh, conj(u) * on_diagonal.mT - product(conj(u), pairs * d.mT))


def _turned(u: Array, vh: Array, cofactors: Array) -> Array:
    """Cofactors of a from conj(u) times those of diag(s): the cofactors of a unitary matrix are its
    conjugate times its determinant.
    """
    turn = _by_factors(u) * _by_factors(vh)
    return turn[..., None, None] * product(cofactors, conj(vh))


def _as(x: Array, a: Array) -> Array:
    return lax.convert_element_type(x, a.dtype)


def _around(s: Array) -> tuple[Array, Array]:
    """At i, the product of all numbers before i, and of all behind it."""
    last = s.ndim - 1
    one = lax.full((*s.shape[:-1], 1), 1, s.dtype)
    below = lax.cumprod(lax.concatenate([one, s[..., :-1]], last), last)
    above = lax.cumprod(lax.concatenate([s[..., 1:], one], last), last, reverse=True)
    return below, above


def _but_two(s: Array) -> Array:
    """At (i, j), the product of all numbers but those at i and j; 0 on the diagonal."""
    n = s.shape[-1]
    i, j = (lax.broadcasted_iota(np.int32, (n, n), d) for d in (0, 1))
    below, above = _around(s)
    # For i < j: of those before i, between the two, and behind j.
    before = lax.concatenate([s[..., :1], s[..., :-1]], s.ndim - 1)[..., None, :]
    between = lax.cumprod(where(j > i + 1, before, 1), s.ndim)
    upper = where(i < j, below[..., :, None] * between * above[..., None, :], 0)
    return upper + upper.mT
