"""Matrix factorisations: cholesky, qr, svd, eigenvalues.

Floor 6. In: (…, m, n) arrays, promoted to floats. Out: arrays, or named tuples of them; the work is
done by lax.linalg.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.arithmetic import sign
from gpuarray.numpy.axes import matrix_transpose
from gpuarray.numpy.index_tricks import take_along_axis
from gpuarray.numpy.operands import array, promoted_inexact
from gpuarray.numpy.products import matmul
from gpuarray.numpy.sorting import argsort


class EigResult(NamedTuple):
    """Eigenvalues w and eigenvectors (columns) of a matrix: a v = v w."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors (columns) of a symmetric or Hermitian matrix."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """An orthonormal Q and an upper triangular R with a = Q R."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The sign and the logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Singular values S and vectors U, Vh with a = U diag(S) Vh."""

    U: Array
    S: Array
    Vh: Array


def inexact_matrix(name: str, a) -> Array:
    return promoted_inexact(f"jnp.linalg.{name}", a)[0]


def check_square(name: str, a: Array, error: type[Exception] = ValueError) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise error(f"Argument to {name} must have shape [..., n, n], got {a.shape}.")


def adjoint(a: Array) -> Array:
    """The conjugate transpose of the last two axes."""
    turned = matrix_transpose(a)
    return lax.conj(turned) if is_complex(a) else turned


def product(a: Array, b: Array) -> Array:
    """The matrix product in full precision, which algorithms need that divide by its errors."""
    return matmul(a, b, precision=lax.Precision.HIGHEST)


def is_complex(a: Array) -> bool:
    return dtypes.kind_of(a.dtype) == "c"


def squares(x: Array) -> Array:
    """|x|^2, real."""
    return lax.real(x * lax.conj(x)) if is_complex(x) else x * x


def identity(n: int, dtype) -> Array:
    rows, columns = (lax.broadcasted_iota(np.int32, (n, n), i) for i in (0, 1))
    return lax.convert_element_type(lax.eq(rows, columns), dtype)


def cholesky(a, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with a = L L^H (or the upper one, a = U^H U): (…, n, n) -> (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.cholesky(gnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = inexact_matrix("cholesky", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(f"cholesky: the argument must have shape [..., n, n], got {a.shape}")
    # The upper factor is the adjoint of the lower one of the adjoint.
    lower = lax.linalg.cholesky(adjoint(a) if upper else a, symmetrize_input=symmetrize_input)
    return adjoint(lower) if upper else lower


def qr(a, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R, a = Q R: (…, m, n) -> (…, m, k), (…, k,
    n).

    Parameters
    ----------
    mode :
        "reduced" (or "full", its old name), "complete" (k = m), "r" (R alone) or "raw"
        (Householder reflectors and their factors).

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.qr(gnp.array([[2., 0.], [0., 3.]]), mode="r").shape
    (2, 2)
    """
    a = inexact_matrix("qr", a)
    # LAPACK's packed form, transposed as in NumPy.
    if mode == "raw":
        reflectors, factors = lax.linalg.geqrf(a)
        return QRResult(matrix_transpose(reflectors), factors)
    if mode not in ("reduced", "r", "complete", "full"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r, *_ = lax.linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def svd(
    a,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """U, the singular values S in descending order, and Vh: (…, m, n) -> (…, m, m), (…, k), (…, n,
    n); or S alone.

    Parameters
    ----------
    full_matrices :
        False gives k = min(m, n) columns of U and rows of Vh.
    hermitian :
        Whether `a` is Hermitian, which is faster.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.svd(gnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    a = inexact_matrix("svd", a)
    if not hermitian:
        out = lax.linalg.svd(
            a,
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
        )
        return SVDResult(*out) if compute_uv else out
    # A Hermitian matrix needs eigenvalues only, which are faster.
    vectors, values = lax.linalg.eigh(a)
    # Singular values are the absolute eigenvalues; a sign goes into Vh.
    order = argsort(abs(values), axis=-1, descending=True)
    values = take_along_axis(values, order, -1)
    if not compute_uv:
        return abs(values)
    u = take_along_axis(vectors, order[..., None, :], -1)
    signs = lax.convert_element_type(sign(values), u.dtype)
    return SVDResult(u, abs(values), adjoint(u * signs[..., None, :]))


def svdvals(x, /) -> Array:
    """The singular values in descending order: (…, m, n) -> (…, min(m, n)).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.svdvals(gnp.array([[3., 0.], [0., 4.]]))
    Array([4., 3.], dtype=float32)
    """
    return svd(array("jnp.linalg.svdvals", x), compute_uv=False)


def eigh(a, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues (ascending) and eigenvectors of a symmetric or Hermitian matrix: (…, n, n) -> (…,
    n), (…, n, n).

    Parameters
    ----------
    UPLO :
        The triangle that is read, "L" or "U".

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.eigh(gnp.array([[2., 0.], [0., 1.]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    a = inexact_matrix("eigh", a)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    check_square("eigh", a, TypeError)
    vectors, values = lax.linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


def eigvalsh(a, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues (ascending) of a symmetric or Hermitian matrix: (…, n, n) -> (…, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.eigvalsh(gnp.array([[2., 0.], [0., 1.]]))
    Array([1., 2.], dtype=float32)
    """
    a = array("jnp.linalg.eigvalsh", a)
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def _check_eig(name: str, a: Array) -> None:
    if a.ndim < 2:
        raise TypeError(f"Input 0 to {name} must have rank at least 2, but got shape={a.shape}")
    check_square(name, a)


def eig(a) -> EigResult:
    """Eigenvalues and eigenvectors of a square matrix, both complex: (…, n, n) -> (…, n), (…, n,
    n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.eig(gnp.array([[1., 0.], [0., 2.]])).eigenvalues
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = inexact_matrix("eig", a)
    _check_eig("eig", a)
    values, vectors = lax.linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(values, vectors)


def eigvals(a) -> Array:
    """Eigenvalues of a square matrix, complex: (…, n, n) -> (…, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.linalg.eigvals(gnp.array([[1., 0.], [0., 2.]]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = inexact_matrix("eigvals", a)
    _check_eig("eigvals", a)
    return lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
