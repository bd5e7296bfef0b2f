"""The polar decomposition by dynamically weighted Halley iterations (QDWH).

Floor 6. In: a tall matrix. Out: its orthonormal and its positive semidefinite factor. Method:
Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix polar
decomposition" (2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, operands
from gpuarray.lax.branches import cond
from gpuarray.lax.contract import dot
from gpuarray.lax.convert import conj, convert_element_type
from gpuarray.lax.creation import broadcasted_iota, full, full_like
from gpuarray.lax.elementwise import eq, lt, select
from gpuarray.lax.loops import while_loop
from gpuarray.lax.reductions import reduce_max, reduce_sum
from gpuarray.lax.shapes import as_array, concatenate, transpose
from gpuarray.lax.transcendental import sqrt
from gpuarray.primitives.contract.precision import Precision
from gpuarray.primitives.linalg.ops import cholesky_p, qr_p
from gpuarray.primitives.linalg.solve import triangular_solve_p

#: Above this weight the Cholesky factorisation of a step loses digits, and QR takes its place.
_STEEP = 100.0


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """x = u h with orthonormal columns u and positive semidefinite h: u, h, the number of steps,
    and whether they converged.

    [m, n] with m >= n -> [m, n], [n, n], two scalars. `max_iterations` is 10 and `eps` that of the
    dtype by default; `dynamic_shape` (rows, columns) limits x to its top left part. `is_hermitian`
    is accepted for compatibility with JAX and has no effect.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> u, h, steps, converged = lax.linalg.qdwh(gnp.array([[0., -2.], [3., 0.]]))
    >>> gnp.round(h, 3) + 0.0
    Array([[3., 0.],
           [0., 2.]], dtype=float32)
    """
    matrix: Any = as_array(operands("qdwh", x)[0])
    return _qdwh(matrix, max_iterations, eps, dynamic_shape)


def _qdwh(x: Array, max_iterations: Any, eps: Any, dynamic_shape: Any) -> tuple:
    if x.ndim != 2:
        raise ValueError(f"qdwh takes one matrix, got an array of shape {x.shape}")
    m, n = x.shape
    # The columns of u cannot be orthonormal otherwise.
    if m < n:
        raise ValueError(
            f"The input matrix of shape M x N must have M >= N, got {x.shape}: transpose it"
        )
    if dtypes.kind_of(x.dtype) not in "fc":
        raise ValueError(f"data type {x.dtype} not inexact: convert the matrix to floats first")
    # The bounds and tolerances are real also where the matrix is complex.
    part = dtypes.to_real_dtype(x.dtype)
    smallest = full((), dtypes.finfo(part).eps if eps is None else eps, part)
    if dynamic_shape is not None:
        # Rows and columns outside become zeros, which the iterations preserve.
        sizes = util.pair(dynamic_shape, "a pair of sizes")
        inside = [lt(broadcasted_iota(np.int32, x.shape, i), n) for i, n in enumerate(sizes)]
        x = select(inside[0] & inside[1], x, full_like(x, 0))
    # The 2-norm is at most sqrt(norm_1 * norm_inf): singular values start in (0, 1].
    size = abs(x)
    column, row = (reduce_max(reduce_sum(size, (i,)), (0,)) for i in (0, 1))
    scale = sqrt(column * row)
    # A matrix of zeros.
    scale = select(scale == 0, part.type(1), scale)
    # `low` bounds the smallest singular value from below; both it and the steps must settle. Halley
    # converges cubically, so a step of cbrt(eps) is the last one that counts.
    close = part.type(5) * smallest
    limit = 10 if max_iterations is None else max_iterations

    def going(state):
        _, low, moved, count = state
        return (count < limit) & ((abs(low - 1) > close) | (moved > close ** (1 / 3)))

    # The change of a step is measured in the Frobenius norm.
    def step(state):
        u, low, _, count = state
        new, low = _halley(u, low)
        moved = sqrt(reduce_sum(abs(new - u) ** 2, (0, 1)))
        return new, low, moved, count + 1

    # The bound starts at eps: no better lower bound of the smallest singular value is known.
    start = (x / convert_element_type(scale, x.dtype), smallest, full((), np.inf, part), 0)
    u, low, moved, count = while_loop(going, step, start)
    u = 1.5 * u - 0.5 * _product(u, _product(_adjoint(u), u))  # one Newton-Schulz step polishes
    # x = u h, so h = u^H x; averaged with its adjoint, since rounding left it not quite Hermitian.
    h = _product(_adjoint(u), x)
    converged = (abs(low - 1) <= close) & (moved <= close ** (1 / 3))
    return u, (h + _adjoint(h)) / 2, count, converged


def _halley(u: Array, low: Array) -> tuple[Array, Array]:
    """A step with the weights that are best when no singular value is under `low`."""
    # The paper's weights a, b and c, as functions of the bound.
    square = low * low
    root = (4 * (1 / square - 1) / square) ** (1 / 3)
    inner = sqrt(1 + root)
    a = inner + sqrt(2 - root + 2 * (2 - square) / (square * inner))
    b = (a - 1) ** 2 / 4
    c = a + b - 1
    weights = [convert_element_type(w, u.dtype) for w in (a, b, c)]
    # The inverse of I + c u^H u has condition number up to 1 + c.
    new = cond(c > _STEEP, _step_by_qr, _step_by_cholesky, u, *weights)
    # The weighted map takes the bound along with the singular values.
    return new, low * (a + b * square) / (1 + c * square)


def _step_by_qr(u: Array, a: Array, b: Array, c: Array) -> Array:
    m, n = u.shape
    # [sqrt(c) u; I] = [q1; q2] r: then q1 q2^H is the update without forming u^H u.
    stacked = concatenate([sqrt(c) * u, _identity(u.dtype, n)], 0)
    q, _ = qr_p.bind(stacked, pivoting=False, full_matrices=False, use_magma=None)
    return b / c * u + (a - b / c) / sqrt(c) * _product(q[:m], _adjoint(q[m:]))


def _step_by_cholesky(u: Array, a: Array, b: Array, c: Array) -> Array:
    n = u.shape[1]
    # I + c u^H u = L L^H, so u (L L^H)^-1 is two triangular solves on u^H.
    factor = cholesky_p.bind(_identity(u.dtype, n) + c * _product(_adjoint(u), u))

    def solved(right: Array, conjugated: bool) -> Array:
        return triangular_solve_p.bind(
            factor,
            right,
            left_side=True,
            lower=True,
            transpose_a=conjugated,
            conjugate_a=conjugated,
            unit_diagonal=False,
        )

    return b / c * u + (a - b / c) * _adjoint(solved(solved(_adjoint(u), False), True))


def _product(x: Array, y: Array) -> Array:
    """The matrix product in full precision."""
    return dot(x, y, precision=Precision.HIGHEST)


def _identity(dtype: Any, n: int) -> Array:
    rows, columns = (broadcasted_iota(np.int32, (n, n), i) for i in (0, 1))
    return convert_element_type(eq(rows, columns), dtype)


def _adjoint(x: Array) -> Array:
    swapped = transpose(x, (1, 0))
    return conj(swapped) if dtypes.kind_of(x.dtype) == "c" else swapped
