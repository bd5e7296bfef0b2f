"""Systems of equations, inverses, powers and ranks of matrices.

Floor 6. In: (…, m, n) arrays, promoted to floats. Out: arrays; leading axes are batch axes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.functions.custom_rules import SymbolicZero
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.comparison import not_equal
from gpuarray.numpy.einsum import einsum
from gpuarray.numpy.index_tricks import take_along_axis
from gpuarray.numpy.linalg.decompositions import (
    adjoint,
    check_square,
    identity,
    inexact_matrix,
    product,
    squares,
    svd,
)
from gpuarray.numpy.operands import array, arrays, promoted_inexact
from gpuarray.numpy.products import matmul
from gpuarray.numpy.selection import where
from gpuarray.numpy.shapes import broadcast_shapes, ravel, reshape, stretch

# ---- systems of equations -------------------------------------------------------------------


@check_ranks(a=2, b=2)
def solve(a, b) -> Array:
    """x with a x = b: (…, n, n), (…, n, k) -> (…, n, k), or (n,) -> (…, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.solve(gnp.array([[2., 0.], [0., 4.]]), gnp.array([2., 4.]))
    Array([1., 1.], dtype=float32)
    """
    a, b = promoted_inexact("jnp.linalg.solve", a, b)
    if a.ndim < 2:
        raise ValueError(f"left hand array must be at least two dimensional; got a.shape={a.shape}")
    if b.ndim == 0:
        raise ValueError(f"solve: input with shape {b.shape} does not have enough dimensions")
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"solve: a must have shape [..., n, n], got {a.shape}")
    rows = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if rows != a.shape[-1]:
        vectors = b.ndim == a.ndim - 1 and b.ndim > 1 and b.shape[-1] == a.shape[-1]
        hint = " For a batch of vectors, use solve(a, b[..., None])[..., 0]." if vectors else ""
        raise ValueError(
            f"Invalid shapes for solve: {a.shape}, {b.shape}: a has {a.shape[-1]} rows, and b has "
            f"{rows}.{hint}"
        )
    # NumPy 2's rule: only a vector is one right side, all else are matrices.
    if b.ndim == 1:
        return solve(a, b[:, None])[..., 0]
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    b = stretch(b, (*batch, *b.shape[-2:]))
    return _solved(a, b)


@custom_jvp
def _solved(a, b):
    return _from_factors(lax.linalg.lu(a), b)


def _solved_jvp(primals, tangents):
    # a dx = db - da x, with the factors of a: through the factors' derivatives there would be two
    # more products, and two systems with as many right sides as a has columns.
    (a, b), (da, db) = primals, tangents
    factors = lax.linalg.lu(a)
    x = _from_factors(factors, b)
    right = [] if isinstance(db, SymbolicZero) else [db]
    right += [] if isinstance(da, SymbolicZero) else [-product(da, x)]
    return x, _from_factors(factors, functools.reduce(lax.add, right))


_solved.defjvp(_solved_jvp, symbolic_zeros=True)


def _from_factors(factors, b):
    """The solution by the factors of a matrix: P a = L U."""
    packed, _, order = factors
    batch = b.shape[:-2]
    packed = stretch(packed, (*batch, *packed.shape[-2:]))
    order = stretch(order, (*batch, order.shape[-1]))
    x = take_along_axis(b, order[..., None], axis=-2, mode="promise_in_bounds")
    x = lax.linalg.triangular_solve(packed, x, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(packed, x, left_side=True, lower=False)


def inv(a) -> Array:
    """The inverse of a square matrix: (…, n, n) -> (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.inv(gnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = inexact_matrix("inv", a)
    check_square("inv", a)
    # Solved for the columns of the identity.
    return solve(a, stretch(identity(a.shape[-1], a.dtype), a.shape))


def pinv(a, rtol=None, hermitian: bool = False, *, rcond=None) -> Array:
    """The Moore-Penrose inverse: (…, m, n) -> (…, n, m). Singular values below rtol times the
    largest count as zero.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.pinv(gnp.array([[2.], [0.]])).round(4)
    Array([[0.5, 0. ]], dtype=float32)
    """
    a = inexact_matrix("pinv", a)
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    rtol = rcond if rtol is None else rtol
    m, n = a.shape[-2:]
    if rtol is None:
        # JAX's default.
        rtol = 10.0 * max(m, n) * float(dtypes.finfo(a.dtype).eps)
    return _pinv(a, array("jnp.linalg.pinv", rtol), hermitian)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _pinv(a, rtol, hermitian):
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    # One limit for each matrix of a stack, against its largest singular value.
    cutoff = rtol[..., None] * s[..., :1]
    # Small singular values count as 0: 1 / inf.
    s = where(s > cutoff, s, np.inf)
    return product(adjoint(vh), lax.convert_element_type(1 / s, a.dtype)[..., None] * adjoint(u))


@_pinv.defjvp
def _pinv_jvp(hermitian, primals, tangents):
    # Differentiating the singular vectors would fail where singular values are equal, as those of
    # the identity are; P itself has a derivative wherever the rank does not change: dP = -P dA P +
    # P Pᴴ dAᴴ (1 - A P) + (1 - P A) dAᴴ Pᴴ P (Golub and Pereyra, 1973).
    a, rtol = primals
    da, p = tangents[0], _pinv(a, rtol, hermitian)
    if hermitian:  # P is a function of the mean with the adjoint
        a, da = (a + adjoint(a)) / 2, (da + adjoint(da)) / 2
    ph, dah = adjoint(p), adjoint(da)
    m, n = a.shape[-2:]

    # Every product is one of (n, m), (m, n) and (n, m): its inner square is the smaller one.
    def chain(x, y, z):
        return product(product(x, y), z) if m >= n else product(x, product(y, z))

    first, second = chain(p, ph, dah), chain(dah, ph, p)
    dp = first - chain(first, a, p) + second - chain(p, a, second)
    return p, dp - chain(p, da, p)


def lstsq(
    a, b, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """x that minimises |a x - b|, the sums of squared residuals, the rank of `a`, and its singular
    values.

    (m, n), (m,) or (m, k) -> (n,) or (n, k), (k,), (), (min(m, n),). rcond: as rtol in `pinv`.

    Parameters
    ----------
    numpy_resid :
        Whether there are no residuals where NumPy gives none.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.lstsq(gnp.array([[1., 0.], [0., 2.]]), gnp.array([1., 4.]))[0].round(4)
    Array([1., 2.], dtype=float32)
    """
    a, b = promoted_inexact("jnp.linalg.lstsq", a, b)
    vector = b.ndim == 1
    if a.shape[:1] != b.shape[:1]:
        raise ValueError("Leading dimensions of input arrays must match")
    if a.ndim != 2:
        raise TypeError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    if b.ndim not in (1, 2):
        raise TypeError(f"{b.ndim}-dimensional array given. Array must be one or two-dimensional")
    b = b[:, None] if vector else b
    m, n = a.shape
    real = dtypes.to_floating_dtype(a.dtype)
    eps = float(dtypes.finfo(a.dtype).eps)
    # No equations or no unknowns.
    if a.size == 0:
        s = lax.full((0,), 0, real)
        x = lax.full((n, b.shape[1]), 0, a.dtype)
        rank = lax.full((), 0, np.int32)
    else:
        # NumPy's default, and its meaning of a negative rcond: machine precision.
        rcond = eps * max(m, n) if rcond is None else where(rcond < 0, eps, rcond)
        u, s, vh = svd(a, full_matrices=False)
        # Singular values below rcond times the largest are noise.
        mask = (s > 0) & (s >= lax.convert_element_type(array("lstsq", rcond), real) * s[0])
        rank: Any = mask.sum()
        # The inner `where` keeps the derivative free of a division by zero.
        inverse = where(mask, 1 / where(mask, s, 1), 0)[:, None]
        x = product(
            adjoint(vh), lax.convert_element_type(inverse, a.dtype) * product(adjoint(u), b)
        )
    # NumPy gives no residuals where they are 0 or not unique.
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = lax.full((0,), 0, real)
    else:
        residuals = squares(b - product(a, x)).sum(0)
    return (ravel(x) if vector else x), residuals, rank, s


def tensorinv(a, ind: int = 2) -> Array:
    """The inverse with respect to `tensordot(a, b, ind)`: the first `ind` axes against the rest.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.tensorinv(gnp.eye(4).reshape(2, 2, 4), ind=2).shape
    (4, 2, 2)
    """
    a = array("jnp.linalg.tensorinv", a)
    ind = util.index(ind)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got {ind=}")
    rows, columns = a.shape[:ind], a.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals "
            f"that of the rest, got shape {a.shape} with {ind=}"
        )
    # As a matrix: the first axes are its rows, the others its columns.
    flat = reshape(a, (math.prod(rows), -1))
    return reshape(inv(flat), (*columns, *rows))


def tensorsolve(a, b, axes: tuple[int, ...] | None = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.tensorsolve(gnp.eye(4).reshape(2, 2, 2, 2), gnp.ones((2, 2)))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    a, b = arrays("jnp.linalg.tensorsolve", a, b)
    if axes is not None:
        axes = util.indices(axes)
        a = moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    target = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(target) != b.size:
        raise ValueError(
            "After moving axes to the end, leading shape of a must match shape of b. got "
            f"a.shape={a.shape}, b.shape={b.shape}"
        )
    return reshape(solve(reshape(a, (b.size, -1)), ravel(b)), target)


# ---- powers, ranks ------------------------------------------------------------


def matrix_power(a, n: int) -> Array:
    """`a` multiplied by itself n times; the inverse for negative n: (…, m, m) -> (…, m, m).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.matrix_power(gnp.array([[1, 1], [0, 1]]), 3)
    Array([[1, 3],
           [0, 1]], dtype=int32)
    """
    a = array("jnp.linalg.matrix_power", a)
    if a.ndim < 2:
        raise TypeError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if a.shape[-2] != a.shape[-1]:
        raise TypeError("Last 2 dimensions of the array must be square")
    try:
        n = util.index(n)
    except TypeError as error:
        raise TypeError(f"exponent must be an integer, got {n}") from error
    # The identity, also of a singular matrix.
    if n == 0:
        return stretch(identity(a.shape[-1], a.dtype), a.shape)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:  # square and multiply
        if n & 1:
            result = a if result is None else matmul(result, a)
        n >>= 1
        if n:
            a = matmul(a, a)
    assert result is not None
    return result


def matrix_rank(M, rtol=None, *, hermitian: bool = False, tol=None) -> Array:
    """How many singular values exceed a limit: (…, m, n) -> (…).

    rtol (or tol): the limit; by default the largest singular value times max(m, n) and the dtype's
    precision.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.matrix_rank(gnp.array([[1., 1.], [1., 1.]]))
    Array(1, dtype=int32)
    """
    a = inexact_matrix("matrix_rank", M)
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    if a.ndim < 2:
        # NumPy's rule for scalars and vectors: rank 1 unless all is zero.
        return lax.convert_element_type(not_equal(a, 0).any(), dtypes.default_int())
    s = svd(a, compute_uv=False, hermitian=hermitian)
    given = rtol if tol is None else tol
    if given is None:
        limit = s.max(-1, keepdims=True) * (max(a.shape[-2:]) * float(dtypes.finfo(s.dtype).eps))
    else:
        limit = array("jnp.linalg.matrix_rank", given)[..., None]
    return (s > limit).sum(-1)


def multi_dot(arrays: Sequence, *, precision=None) -> Array:
    """The matrix product of several arrays, in the order that costs least; the first and last may
    be vectors.

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.multi_dot([gnp.ones((2, 3)), gnp.ones((3, 4)), gnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    chain = [array("jnp.linalg.multi_dot", a) for a in arrays]
    if len(chain) < 2:
        raise ValueError("multi_dot requires at least two arrays")
    letters = [
        chr(ord("a") + i) if i < 26 else chr(ord("A") + i - 26) for i in range(len(chain) + 1)
    ]
    if len(letters) > 52:
        raise ValueError(f"multi_dot takes at most 51 arrays, got {len(chain)}")
    # Neighbours share a letter, over which einsum sums.
    terms = []
    for i, a in enumerate(chain):
        ends = i in (0, len(chain) - 1)
        if a.ndim != 2 and not (ends and a.ndim == 1):
            raise ValueError(
                "multi_dot: input arrays must all be two-dimensional, except for the first and "
                f"last array which may be 1 or 2 dimensional; array {i} has shape {a.shape}"
            )
        if a.ndim == 2:
            terms.append(letters[i] + letters[i + 1])
        else:
            # A vector at either end has the inner index only.
            terms.append(letters[1] if i == 0 else letters[i])
    left = terms[0][0] if len(terms[0]) == 2 else ""
    right = terms[-1][1] if len(terms[-1]) == 2 else ""
    spec = ",".join(terms) + "->" + left + right
    return einsum(spec, *chain, optimize="auto", precision=precision)
