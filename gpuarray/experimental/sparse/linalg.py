"""Linear algebra with sparse matrices: `spsolve`, and eigenvalues of a large matrix by products.

Floor 6. In: matrices in CSR form, or functions that multiply by one. Out: solutions, eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.api.callbacks import pure_callback
from gpuarray.core.value import Array
from gpuarray.experimental.sparse.base import is_sparse
from gpuarray.experimental.sparse.matrices import CSR, csr_matvec
from gpuarray.functions.jit import jit
from gpuarray.functions.stages import ShapeDtypeStruct
from gpuarray.lax.elsewhere import Elsewhere
from gpuarray.names import explain_names as _explain_names

__all__ = ["lobpcg_standard", "spsolve"]

_sparse: Any = util.lazy_module("scipy.sparse")
_linalg: Any = util.lazy_module("scipy.sparse.linalg")
#: SciPy's column orderings that are closest to those of cuSOLVER, by its numbers.
_ORDERS = ("NATURAL", "MMD_AT_PLUS_A", "COLAMD", "MMD_ATA")


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Array:
    """The solution x of A x = b for a sparse matrix A in CSR form.

    It is computed on the host by `scipy.sparse.linalg`. reorder: how columns are ordered to keep
    the factors sparse: 0 not at all, 1 by minimum degree of A + A^T, 2 by COLAMD, 3 by minimum
    degree of A^T A. tol: if a pivot is smaller than the largest times this and the machine epsilon,
    the result is nan. Differentiable in data and b.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> a = sparse.CSR.fromdense(gnp.array([[2., 0.], [1., 4.]]))
    >>> sparse.linalg.spsolve(a.data, a.indices, a.indptr, gnp.array([2., 9.]))
    Array([1., 2.], dtype=float32)
    """
    reorder = util.index(reorder, "0, 1, 2 or 3")
    if not 0 <= reorder < len(_ORDERS):
        raise ValueError(f"reorder must be 0, 1, 2 or 3, got {reorder}")
    data, indices, indptr, b = map(gnp.asarray, (data, indices, indptr, b))
    n = b.size
    if b.ndim != 1 or data.shape != indices.shape or indptr.shape != (n + 1,):
        raise ValueError(
            "spsolve takes a square matrix in CSR form and a vector, got "
            f"{data.shape=}, {indices.shape=}, {indptr.shape=}, {b.shape=}"
        )
    kind = gnp.result_type(data, b)
    if not gnp.issubdtype(kind, np.inexact):
        raise TypeError(f"spsolve takes floats or complex numbers, got {kind}")
    data, b = data.astype(kind), b.astype(kind)
    least = util.number(tol, "a tolerance") * float(gnp.finfo(kind).eps)
    solver = lambda transposed: _OnHost(_ORDERS[reorder], transposed, least)

    def solve(transposed: bool) -> Callable:
        def run(_: Any, b: Array) -> Array:
            result = ShapeDtypeStruct(b.shape, b.dtype)
            host = solver(transposed)
            return pure_callback(
                host, result, lax.stop_gradient(data), indices, indptr, b,
                vmap_method="sequential",
            )  # fmt: skip

        return run

    # The derivative in `data` comes from this product; the solver itself has `data` without one.
    matvec = lambda x: csr_matvec(CSR((data, indices, indptr), shape=(n, n)), x)
    return lax.custom_linear_solve(matvec, b, solve(False), solve(True))


spsolve_p = Elsewhere("spsolve", spsolve)


class _OnHost(NamedTuple):
    """The solver of NumPy arrays: a value, so that programs with the same one are the same."""

    order: str
    transposed: bool
    least: float

    def __call__(self, data: Any, indices: Any, indptr: Any, b: Any) -> np.ndarray:
        data, indices, indptr, b = map(np.asarray, (data, indices, indptr, b))
        n = b.size
        # SciPy has no factorization of half floats.
        wide = np.result_type(b.dtype, np.float32)
        matrix = _sparse.csr_matrix((data.astype(wide), indices, indptr), shape=(n, n))
        matrix = (matrix.T if self.transposed else matrix).tocsc()
        try:
            factors = _linalg.splu(matrix, permc_spec=self.order)
        except RuntimeError:  # exactly singular
            return np.full(b.shape, np.nan, b.dtype)
        pivots = abs(factors.U.diagonal())
        if pivots.size and pivots.min() <= self.least * pivots.max():
            return np.full(b.shape, np.nan, b.dtype)
        return factors.solve(b.astype(wide)).astype(b.dtype)


# ---- eigenvalues ----


class _State(NamedTuple):
    """Best vectors, directions of the last change, eigenvalues, and how many are good enough."""

    step: Array
    vectors: Array
    changes: Array
    values: Array
    good: Array


def lobpcg_standard(
    A: Any, X: Any, m: int = 100, tol: float | None = None
) -> tuple[Array, Array, Array]:
    """The largest eigenvalues of a symmetric matrix and their eigenvectors, by products with it.

    Each step finds the best vectors in the space of those before, their residuals and their last
    changes: the locally optimal block conjugate gradient method of Knyazev.

    Returns the eigenvalues (k,), the eigenvectors (n, k), and the number of steps.

    Parameters
    ----------
    A :
        An (n, n) array, dense or sparse, or a function that multiplies one by (n, j) arrays.
    X :
        (n, k) vectors to start from, linearly independent, with 5 k < n.
    m :
        The most steps.
    tol :
        An eigenpair is good enough where |A v - w v| < 10 n tol (|A v| + w); None: the precision of
        X's dtype.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> a = gnp.diag(gnp.arange(20.))
    >>> values, _, _ = sparse.linalg.lobpcg_standard(a, gnp.eye(20, 2) + 1 / gnp.ones((20, 2)))
    >>> values.round(3)
    Array([19., 18.], dtype=float32)
    """
    X = gnp.asarray(X)
    if callable(A):
        return _lobpcg(A, X, m, tol)
    if is_sparse(A):
        return _of_matrix(A, X, tol, m)
    return _of_matrix(gnp.asarray(A), X, tol, m)


def _product(a: Array, b: Array) -> Array:
    return gnp.matmul(a, b, precision=lax.Precision.HIGHEST)


@jit(static_argnames=("m",))
def _of_matrix(A: Any, X: Array, tol: Any, m: int) -> tuple:
    return _lobpcg((lambda x: A @ x) if is_sparse(A) else (lambda x: _product(A, x)), X, m, tol)


def _check(A: Callable, X: Array) -> None:
    if X.ndim != 2:
        raise ValueError(f"X must have the shape (n, k), got {X.shape}")
    n, k = X.shape
    if k == 0:
        raise ValueError(f"must have search dim > 0, got {k}")
    if 5 * k >= n:
        raise ValueError(f"expected search dim * 5 < matrix dim (got {5 * k}, {n})")
    found = A(gnp.zeros((n, 1), X.dtype))
    if found.dtype != X.dtype:
        raise ValueError(f"A, X must have same dtypes (were {found.dtype}, {X.dtype})")
    if found.shape != (n, 1):
        raise ValueError(f"A must be ({n}, {n}) matrix A, got output {found.shape}")


def _lobpcg(A: Callable, X: Array, m: int, tol: Any) -> tuple:
    _check(A, X)
    n, k = X.shape
    tol = gnp.asarray(gnp.finfo(X.dtype).eps if tol is None else tol, X.dtype)

    def judged(vectors: Array, image: Array, values: Array) -> Array:
        """The number of pairs that are as accurate as the arithmetic allows."""
        error = gnp.linalg.norm(image - values * vectors, axis=0)
        size = gnp.linalg.norm(image, axis=0) + values
        return gnp.sum(error < tol * 10 * n * size, dtype=np.int32)

    def going(s: _State) -> Array:
        return (s.step < m) & (s.good < k)

    def improve(s: _State) -> _State:
        image = A(s.vectors)
        # An orthonormal basis of the search space, the best vectors first; columns that add nothing
        # are zero.
        residuals = image - s.values * s.vectors
        changes = _outside(s.vectors, s.changes)
        known = gnp.concatenate([s.vectors, changes], axis=1)
        basis = gnp.concatenate([known, _outside(known, residuals)], axis=1)
        small = _product(basis.T, A(basis))
        # Zero columns must not be taken for eigenvectors: give them values below all others.
        empty = gnp.linalg.norm(basis, axis=0) < 0.5
        # No eigenvalue is larger than the norm, so this is below them all.
        least = -1 - 2 * gnp.linalg.norm(small)
        small = gnp.where(empty[:, None] | empty[None, :], 0, (small + small.T) / 2)
        small += gnp.diag(gnp.where(empty, least, 0).astype(small.dtype))
        values, mixes = gnp.linalg.eigh(small)
        best = mixes[:, ::-1][:, :k]
        vectors = _unit(_product(basis, best))
        # The change: the part of the best vectors that was not in the previous ones.
        moved = _product(basis, best.at[:k].set(0))
        values = values[::-1][:k]
        good = judged(vectors, A(vectors), values)
        return _State(s.step + 1, vectors, moved, values, good)

    vectors = _orthonormal(X)
    values = gnp.sum(vectors * A(vectors), axis=0)
    zero = gnp.zeros((), np.int32)
    # At least one step, which puts the values in order.
    state = _State(zero, vectors, gnp.zeros_like(vectors), values, zero)
    state = lax.while_loop(going, improve, state)
    return state.values, state.vectors, state.step


def _unit(x: Array) -> Array:
    norms = gnp.linalg.norm(x, axis=0)
    return x / gnp.where(norms == 0, 1, norms)


def _orthonormal(x: Array) -> Array:
    """An orthonormal basis of the columns; where they are dependent, columns of zeros."""
    for _ in range(2):  # twice, against rounding errors of the first pass
        x = _unit(x)
        values, mixes = gnp.linalg.eigh(_product(x.T, x))
        least = gnp.finfo(x.dtype).eps * gnp.maximum(values[-1], 0)
        usable = values > least
        scale = gnp.where(usable, gnp.where(usable, values, 1) ** -0.5, 0)
        x = _product(x, mixes * scale)
    return x


def _outside(basis: Array, x: Array) -> Array:
    """An orthonormal basis of the part of x that is orthogonal to `basis`; zeros for missing
    vectors.
    """
    for _ in range(2):
        x = _orthonormal(x - _product(basis, _product(basis.T, x)))
    for _ in range(2):
        x = x - _product(basis, _product(basis.T, x))
    # A vector that shrank was in the basis after all.
    return x * (gnp.linalg.norm(x, axis=0) >= 0.99)


__getattr__ = _explain_names(__name__)
