"""Linear algebra on stacks of matrices: factorisations, eigenvalues, systems of equations.

Floor 6. In: arrays whose last two axes are matrices. Out: the primitives of primitives/linalg, with
the conventions that users expect (symmetrised inputs, cleared triangles, factors in the usual
order).
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike, dtype_of, operands, shape_of
from gpuarray.lax.convert import conj, convert_element_type
from gpuarray.lax.creation import full_like
from gpuarray.lax.elementwise import add, div, ge, select_n
from gpuarray.lax.polar import qdwh as qdwh
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.elementwise.arithmetic import add_p
from gpuarray.primitives.linalg.ops import EighImplementation as EighImplementation
from gpuarray.primitives.linalg.ops import EigImplementation as EigImplementation
from gpuarray.primitives.linalg.ops import SvdAlgorithm as SvdAlgorithm
from gpuarray.primitives.linalg.ops import cholesky_p as cholesky_p
from gpuarray.primitives.linalg.ops import eig_p as eig_p
from gpuarray.primitives.linalg.ops import eigh_p as eigh_p
from gpuarray.primitives.linalg.ops import geqrf_p as geqrf_p
from gpuarray.primitives.linalg.ops import hessenberg_p as hessenberg_p
from gpuarray.primitives.linalg.ops import lu_p as lu_p
from gpuarray.primitives.linalg.ops import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from gpuarray.primitives.linalg.ops import qr_p as qr_p
from gpuarray.primitives.linalg.ops import schur_p as schur_p
from gpuarray.primitives.linalg.ops import svd_p as svd_p
from gpuarray.primitives.linalg.ops import tridiagonal_p as tridiagonal_p
from gpuarray.primitives.linalg.solve import cholesky_update_p as cholesky_update_p
from gpuarray.primitives.linalg.solve import householder_product_p as householder_product_p
from gpuarray.primitives.linalg.solve import ormqr_p as ormqr_p
from gpuarray.primitives.linalg.solve import symmetric_product_p as symmetric_product_p
from gpuarray.primitives.linalg.solve import triangular_solve_p as triangular_solve_p
from gpuarray.primitives.linalg.solve import tridiagonal_solve_p as tridiagonal_solve_p
from gpuarray.primitives.movement.generate import iota_p
from gpuarray.primitives.movement.ops import broadcast_in_dim_p, squeeze_p, transpose_p


def _transposed(x: Any, conjugate: bool = False) -> Any:
    """The last two axes swapped."""
    rank = len(shape_of(x))
    if rank < 2:
        raise TypeError(f"expected a matrix or a stack of matrices, got shape {shape_of(x)}")
    # Under transposition a complex matrix is usually meant to be conjugated as well.
    swapped = transpose_p.bind(x, permutation=(*range(rank - 2), rank - 1, rank - 2))
    return conj(swapped) if conjugate and dtypes.kind_of(dtype_of(x)) == "c" else swapped


def _symmetrized(x: Any) -> Any:
    """(x + x^H) / 2."""
    total = add(x, _transposed(x, conjugate=True))
    # Integer matrices are factorised as floats.
    if dtypes.kind_of(dtype_of(total)) in "biu":
        total = convert_element_type(total, dtypes.default_float())
    return div(total, dtype_of(total).type(2))


def _lower_triangle(x: Any, diagonal: int = 0) -> Any:
    """The elements on and below a diagonal, zeros elsewhere."""
    shape = shape_of(x)
    # Compared as int32: positions in an axis never need more.
    index: dict[str, Any] = {"dtype": np.dtype(np.int32), "shape": shape[-2:], "sharding": None}
    # Row + diagonal >= column, as numpy.tril counts.
    rows = add_p.bind(iota_p.bind(dimension=0, **index), np.int32(diagonal))
    inside = ge(rows, iota_p.bind(dimension=1, **index))

    def spread(value, dims):
        return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=dims, sharding=None)

    # One mask for all matrices of a stack.
    if len(shape) > 2:
        inside = spread(inside, (len(shape) - 2, len(shape) - 1))
    return select_n(inside, full_like(x, 0), x)


# ---- factorisations ----


def cholesky(x: Array, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with x = L L^H: [..., n, n] -> [..., n, n].

    A matrix that is not positive definite gives NaN. With `symmetrize_input` x is replaced by (x +
    x^H) / 2.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.cholesky(gnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    (x,) = operands("cholesky", x)
    # Rounding makes many symmetric matrices slightly unsymmetric; only one triangle is read.
    if symmetrize_input:
        x = _symmetrized(x)
    # LAPACK leaves the other triangle as it was.
    return _lower_triangle(cholesky_p.bind(x))


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """(LU, pivots, permutation) with x[permutation] = L U: [..., m, n], [..., k], [..., m].

    L is unit lower triangular, U upper triangular; k = min(m, n). Row i was swapped with row
    pivots[i].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.lu(gnp.array([[1., 2.], [4., 4.]]))[0]
    Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32)
    """
    (x,) = operands("lu", x)
    packed, pivots, permutation = lu_p.bind(x)
    return packed, pivots, permutation


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation that the row swaps of `lu` amount to: int32[..., k] -> int32[..., size].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.lu_pivots_to_permutation(gnp.array([2, 2]), 3)
    Array([2, 0, 1], dtype=int32)
    """
    (pivots,) = operands("lu_pivots_to_permutation", pivots)
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=permutation_size)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """(Q, R) with x = Q R, or (Q, R, p) with x[:, p] = Q R when pivoting.

    Q is [..., m, m] and R [..., m, n], or with `full_matrices=False` [..., m, k] and [..., k, n]
    with k = min(m, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> q, r = lax.linalg.qr(gnp.array([[3., 1.], [4., 2.]]))
    >>> gnp.allclose(q @ r, gnp.array([[3., 1.], [4., 2.]])), abs(float(r[0, 0])) > 4.99
    (Array(True, dtype=bool), True)
    """
    (x,) = operands("qr", x)
    params = {"pivoting": pivoting, "full_matrices": full_matrices, "use_magma": use_magma}
    return tuple(qr_p.bind(x, **params))  # pyright: ignore[reportReturnType]


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """The packed QR factorisation: R on and above the diagonal, Householder vectors below, scales.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> packed, taus = lax.linalg.geqrf(gnp.ones((3, 2)))
    >>> packed.shape, taus.shape
    ((3, 2), (2,))
    """
    (a,) = operands("geqrf", a)
    packed, taus = geqrf_p.bind(a)
    return packed, taus


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The orthogonal matrix of packed Householder vectors: [..., m, n], [..., k] -> [..., m, n].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> q = lax.linalg.householder_product(*lax.linalg.geqrf(gnp.array([[1.], [0.]])))
    >>> gnp.abs(q[:, 0])
    Array([1., 0.], dtype=float32)
    """
    a, taus = operands("householder_product", a, taus)
    return householder_product_p.bind(a, taus)


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Q c, Q^H c (transpose), c Q or c Q^H (not left), for the Q of packed Householder vectors.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> packed, taus = lax.linalg.geqrf(gnp.eye(3))
    >>> lax.linalg.ormqr(packed, taus, gnp.ones((3, 2))).shape
    (3, 2)
    """
    a, taus, c = operands("ormqr", a, taus, c)
    return ormqr_p.bind(a, taus, c, left=left, transpose=transpose)


# ---- eigenvalues and singular values ----


def eigh(
    x: Array,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """(V, w) with x V = V w for a symmetric or Hermitian x, w ascending: [..., n, n], [..., n].

    Only the triangle that `lower` names is read, after x has been replaced by (x + x^H) / 2
    (`symmetrize_input`). `subset_by_index` (start, stop) keeps some eigenvalues only.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> v, w = lax.linalg.eigh(gnp.array([[2., 0.], [0., 1.]]))
    >>> w
    Array([1., 2.], dtype=float32)
    """
    (x,) = operands("eigh", x)
    if not isinstance(implementation, (EighImplementation, NoneType)):
        raise ValueError(f"implementation must be an EighImplementation, got {implementation!r}")
    # The derivative must be symmetric too: averaging both triangles makes it so.
    if symmetrize_input:
        x = _symmetrized(x)
    # Vectors first, as JAX returns them; NumPy has the eigenvalues first.
    v, w = eigh_p.bind(
        x,
        lower=bool(lower),
        sort_eigenvalues=sort_eigenvalues,
        subset_by_index=subset_by_index,
        algorithm=implementation,
    )
    return v, w


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """[w, left vectors, right vectors] of a general matrix, complex; vectors can be left out.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.eig(gnp.array([[0., 1.], [-1., 0.]]), compute_left_eigenvectors=False)[0].imag
    Array([ 1., -1.], dtype=float32)
    """
    (x,) = operands("eig", x)
    # The older name of an option that only GPUs have.
    if use_magma is not None:
        if implementation is not None:
            raise ValueError("eig takes implementation or use_magma, not both: use implementation.")
        implementation = EigImplementation.MAGMA if use_magma else None
    return list(
        eig_p.bind(
            x,
            compute_left_eigenvectors=bool(compute_left_eigenvectors),
            compute_right_eigenvectors=bool(compute_right_eigenvectors),
            enable_eigvec_derivs=enable_eigvec_derivs,
            implementation=implementation,
        )
    )


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """(U, s, V^H) with x = U s V^H, s descending, or s alone: [..., m, m], [..., k], [..., n, n].

    With `full_matrices=False` U is [..., m, k] and V^H [..., k, n], k = min(m, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.svd(gnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    (x,) = operands("svd", x)
    out = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    if not compute_uv:
        return out[0]
    # The primitive gives s first; NumPy's order is U, s, V^H.
    s, u, vh = out
    return u, s, vh


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> tuple[Array, Array]:
    """(T, Q) with x = Q T Q^H, T triangular except for 2 x 2 blocks of complex pairs in a real x.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> t, q = lax.linalg.schur(gnp.array([[1., 2.], [0., 3.]]))
    >>> gnp.diag(t)
    Array([1., 3.], dtype=float32)
    """
    (x,) = operands("schur", x)
    return tuple(
        schur_p.bind(
            x,
            compute_schur_vectors=compute_schur_vectors,
            sort_eig_vals=sort_eig_vals,
            select_callable=select_callable,
        )
    )  # pyright: ignore[reportReturnType]


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """The packed Hessenberg form (Householder vectors below the first subdiagonal) and scales.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> packed, taus = lax.linalg.hessenberg(gnp.eye(3))
    >>> packed.shape, taus.shape
    ((3, 3), (2,))
    """
    (a,) = operands("hessenberg", a)
    packed, taus = hessenberg_p.bind(a)
    return packed, taus


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """A symmetric or Hermitian matrix made tridiagonal: (packed, diagonal, off-diagonal, scales).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> _, d, e, _ = lax.linalg.tridiagonal(gnp.array([[1., 2.], [2., 3.]]))
    >>> d, gnp.abs(e)
    (Array([1., 3.], dtype=float32), Array([2.], dtype=float32))
    """
    (a,) = operands("tridiagonal", a)
    packed, d, e, taus = tridiagonal_p.bind(a, lower=bool(lower))
    return packed, d, e, taus


# ---- systems of equations ----


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """x with op(a) x = b (`left_side`) or x op(a) = b, for a triangular a.

    a is [..., n, n] and b [..., n, k] ([..., k, n] from the right), or a stack of vectors [..., n].
    The other triangle is not read, nor is the diagonal with `unit_diagonal`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> a, b = gnp.array([[2., 0.], [1., 1.]]), gnp.array([4., 5.])
    >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    Array([2., 3.], dtype=float32)
    """
    a, b = operands("triangular_solve", a, b)
    # A real matrix is its own conjugate: record equal programs for equal operations.
    conjugate_a = conjugate_a and dtypes.kind_of(dtype_of(a)) == "c"
    rank, shape = len(shape_of(a)), shape_of(b)
    # A stack of vectors: each becomes a matrix of one column, or of one row from the right.
    vectors = len(shape) == rank - 1
    axis = len(shape) if left_side else len(shape) - 1
    if vectors:
        wide = (*shape[:axis], 1, *shape[axis:])
        dims = tuple(d for d in range(len(wide)) if d != axis)
        b = broadcast_in_dim_p.bind(b, shape=wide, broadcast_dimensions=dims, sharding=None)
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=left_side,
        lower=bool(lower),
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze_p.bind(out, dimensions=(axis,)) if vectors else out


def tridiagonal_solve(
    dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool = False
) -> Array:
    """x with T x = b for a T given by its three diagonals: three [..., n], b [..., n, k].

    dl[0] and du[-1] are not used. A singular T gives NaN, or with `perturb_singular` very large
    numbers.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> one = gnp.ones(2)
    >>> lax.linalg.tridiagonal_solve(0 * one, 2 * one, 0 * one, gnp.array([[2.], [4.]]))[:, 0]
    Array([1., 2.], dtype=float32)
    """
    dl, d, du, b = operands("tridiagonal_solve", dl, d, du, b)
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=perturb_singular)


# ---- updates ----


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha a a^T + beta c: [..., m, n], [..., m, m] -> [..., m, m].

    Only the lower triangle is guaranteed to be right on every device; `symmetrize_output` copies
    it over the upper one.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.symmetric_product(gnp.array([[1.], [2.]]), gnp.zeros((2, 2)))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    a, c = operands("symmetric_product", a_matrix, c_matrix)
    for position, x in enumerate((a, c)):
        if len(shape_of(x)) < 2:
            raise TypeError(
                f"Input {position} to symmetric_product must have rank at least 2, but got "
                f"shape={shape_of(x)}: a vector v is the column v[:, None]"
            )
    out = symmetric_product_p.bind(a, c, alpha=alpha, beta=beta)
    if not symmetrize_output:
        return out
    # Without the diagonal, which would be added twice.
    upper = _transposed(_lower_triangle(out, -1))
    return add(_lower_triangle(out), upper)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular factor of R^T R + w w^T: [..., n, n], [..., n] -> [..., n, n].

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> lax.linalg.cholesky_update(gnp.array([[3.]]), gnp.array([4.]))
    Array([[5.]], dtype=float32)
    """
    r, w = operands("cholesky_update", r_matrix, w_vector)
    return cholesky_update_p.bind(r, w)


__getattr__ = _explain_names(__name__)
