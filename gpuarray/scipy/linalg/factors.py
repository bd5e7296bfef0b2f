"""Factorisations of matrices and systems solved with them, under SciPy's names.

Floor 6. In: (…, m, n) arrays, promoted to floats. Out: plain tuples of arrays, as in SciPy. The
work is done by lax.linalg and numpy.linalg; `overwrite_…`, `check_finite` and `lapack_driver` are
accepted and have no effect: arrays are immutable, and values are not checked.
"""

from __future__ import annotations

from typing import Any

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.ranks import check_ranks
from gpuarray.numpy.linalg.decompositions import adjoint, identity, product
from gpuarray.numpy.operands import promoted_inexact
from gpuarray.numpy.shapes import stretch


def _matrices(name: str, *xs: Any) -> list[Array]:
    """Convert to arrays (also from lists) of one inexact dtype, each with at least two axes."""
    # Lists are accepted here, as SciPy's users expect.
    found = promoted_inexact(name, *(gnp.asarray(x) if isinstance(x, list) else x for x in xs))
    if found[0].ndim < 2:
        raise TypeError(
            f"Input 0 to {name} must have rank at least 2, but got shape={found[0].shape}"
        )
    return found


def _square(name: str, a: Array, what: str = "The input to {} must be a square matrix") -> Array:
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{what.format(name)}. Got shape {a.shape}.")
    return a


# ---- Cholesky ----


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper triangular U with a = U^H U, or with `lower` L with a = L L^H: (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.cholesky(gnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    (a,) = promoted_inexact("cholesky", gnp.asarray(a))
    if a.ndim < 2:
        raise ValueError(f"cholesky: a must be at least two-dimensional; got shape {a.shape}")
    _square("cholesky", a)
    # One triangle is read; the upper one as the lower one of the adjoint.
    factor = lax.linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The Cholesky factor and `lower`, as `cho_solve` takes them.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.cho_factor(gnp.array([[4.]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower=lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: Any,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x with a x = b, given the Cholesky factor of a: (…, n, n), (n,) or (…, n, k).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[4., 2.], [2., 5.]])
    >>> scipy.linalg.cho_solve(scipy.linalg.cho_factor(a), gnp.array([4., 2.]))
    Array([1., 0.], dtype=float32)
    """
    factor, lower = c_and_lower
    c, b = _matrices("cho_solve", factor, b)
    b, vector = _right_side("cho_solve", c, b)
    # L L^H x = b, or U^H U x = b.
    steps = ("no", "adjoint") if lower else ("adjoint", "no")
    for step in steps:
        b = _triangular(c, b, lower, step)
    return b[..., 0] if vector else b


# ---- systems of equations ----


def _right_side(name: str, a: Array, b: Array) -> tuple[Array, bool]:
    """b with a column axis and the batch axes that a has, and whether it was vectors.

    It is a vector, or a vector for each matrix of a stack; where the lengths say otherwise, one
    matrix for all of the stack.
    """
    _square(name, a, "{} solves with a square matrix: inconsistent size for core dimension 'n'")
    if b.ndim == 0:
        raise ValueError(f"{name}: input with shape () does not have enough dimensions")
    vector = b.ndim == 1 or (a.ndim == b.ndim + 1 and b.shape[-1] == a.shape[-1])
    if vector:
        b = b[..., None]
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"{name}: inconsistent size for core dimension 'n': the matrix has shape {a.shape}, "
            f"the right side {b.shape[:-1] if vector else b.shape}"
        )
    batch = gnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return stretch(b, (*batch, *b.shape[-2:])), vector


def _triangular(
    a: Array, b: Array, lower: bool, how: str = "no", unit_diagonal: bool = False
) -> Array:
    return lax.linalg.triangular_solve(
        stretch(a, (*b.shape[:-2], *a.shape[-2:])),
        b,
        left_side=True,
        lower=lower,
        transpose_a=how != "no",
        conjugate_a=how == "adjoint",
        unit_diagonal=unit_diagonal,
    )


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """x with a x = b for a triangular a: (…, n, n), (n,) or (…, n, k).

    Parameters
    ----------
    trans :
        0 or "N", 1 or "T" (a^T x = b), 2 or "C" (a^H x = b).
    unit_diagonal :
        Whether to take the diagonal of `a` as ones.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[2., 0.], [1., 1.]])
    >>> scipy.linalg.solve_triangular(a, gnp.array([4., 5.]), lower=True)
    Array([2., 3.], dtype=float32)
    """
    ways = {0: "no", "N": "no", 1: "transpose", "T": "transpose", 2: "adjoint", "C": "adjoint"}
    if not util.known(trans, ways):
        raise ValueError(f"Invalid 'trans' value {trans}: expected one of {list(ways)}")
    a, b = _matrices("solve_triangular", a, b)
    b, vector = _right_side("solve_triangular", a, b)
    x = _triangular(a, b, lower, ways[trans], unit_diagonal)
    return x[..., 0] if vector else x


@check_ranks(a=2, b=2)
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """x with a x = b: (…, n, n), (n,) or (…, n, k).

    Parameters
    ----------
    assume_a :
        "gen", "sym", "her", or "pos", which uses a Cholesky factorisation.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.solve(gnp.array([[4., 0.], [0., 4.]]), gnp.array([4., 8.]), assume_a="pos")
    Array([1., 2.], dtype=float32)
    """
    kinds = ["gen", "sym", "her", "pos"]
    if assume_a not in kinds:
        raise ValueError(f"Expected assume_a to be one of {kinds}; got {assume_a!r}")
    a, b = _matrices("solve", a, b)
    if assume_a != "pos":
        return gnp.linalg.solve(a, b)
    b, vector = _right_side("solve", a, b)
    # No tangents through the factorisation.
    factor = cho_factor(lax.stop_gradient(a), lower=lower)
    # Derivatives come from a x = b, not through the factorisation, which sees one triangle only.
    x = lax.custom_linear_solve(
        lambda x: product(a, x),
        b,
        solve=lambda _, r: cho_solve(factor, r),
        # The transpose of a Hermitian matrix is its conjugate.
        transpose_solve=lambda _, r: gnp.conj(cho_solve(factor, gnp.conj(r))),
    )
    return x[..., 0] if vector else x


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant of a square matrix: (…, n, n) -> (…).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.det(gnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return gnp.linalg.det(a)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse of a square matrix: (…, n, n) -> (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.inv(gnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return gnp.linalg.inv(a)


# ---- LU ----


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """L and U packed in one matrix, and the row swaps, as `lu_solve` takes them.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.lu_factor(gnp.array([[1., 2.], [4., 4.]]))[1]
    Array([1, 1], dtype=int32)
    """
    (a,) = _matrices("lu_factor", a)
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x with a x = b (trans 0), a^T x = b (1) or a^H x = b (2), given `lu_factor(a)`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> factors = scipy.linalg.lu_factor(gnp.array([[1., 2.], [4., 4.]]))
    >>> scipy.linalg.lu_solve(factors, gnp.array([3., 8.]))
    Array([1., 1.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    if not isinstance(lu_and_piv, (tuple, list)) or len(lu_and_piv) != 2:
        raise TypeError(
            f"lu_solve takes the pair (lu, pivots) that lu_factor gives, got {type(lu_and_piv)}"
        )
    packed, b = _matrices("lu_solve", lu_and_piv[0], b)
    pivots = gnp.asarray(lu_and_piv[1])
    b, vector = _right_side("lu_solve", packed, b)
    # P a = L U.
    order = lax.linalg.lu_pivots_to_permutation(pivots, packed.shape[-1])
    order = stretch(order, (*b.shape[:-2], packed.shape[-1]))
    # a x = b: permute, L, U. Transposed: U, L, then permute back.
    if trans == 0:
        x = gnp.take_along_axis(b, order[..., None], axis=-2)
        x = _triangular(packed, x, lower=True, unit_diagonal=True)
        x = _triangular(packed, x, lower=False)
    else:
        how = "transpose" if trans == 1 else "adjoint"
        x = _triangular(packed, b, lower=False, how=how)
        x = _triangular(packed, x, lower=True, how=how, unit_diagonal=True)
        x = gnp.take_along_axis(x, gnp.argsort(order, axis=-1)[..., None], axis=-2)
    return x[..., 0] if vector else x


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """P, L and U with a = P L U, or P L and U: (…, m, n) -> (…, m, m), (…, m, k), (…, k, n).

    k = min(m, n); L has ones on its diagonal.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> p, l, u = scipy.linalg.lu(gnp.array([[1., 2.], [4., 4.]]))
    >>> p @ l @ u
    Array([[1., 2.],
           [4., 4.]], dtype=float32)
    """
    (a,) = _matrices("lu", a)
    packed, _, order = lax.linalg.lu(a)
    m, n = a.shape[-2:]
    # L is [m, k] with ones on its diagonal, U is [k, n].
    k = min(m, n)
    # The identity is made square, then cut to the shape of L.
    low = gnp.tril(packed[..., :, :k], -1) + identity(max(m, k), a.dtype)[:m, :k]
    high = gnp.triu(packed[..., :k, :])
    real = dtypes.to_floating_dtype(a.dtype)
    rows = lax.broadcasted_iota(order.dtype, (m, 1), 0)
    # a = P L U here, so P is the inverse of the row order.
    permutation = lax.convert_element_type(gnp.equal(rows, order[..., None, :]), real)
    if permute_l:
        return product(lax.convert_element_type(permutation, a.dtype), low), high
    return permutation, low, high


# ---- QR ----


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Q and R with a = Q R; (R,) alone with mode "r"; a third result p, a[:, p] = Q R, if pivoting.

    Parameters
    ----------
    mode :
        "full" (Q is square), "economic" (k = min(m, n) columns of Q, rows of R) or "r".

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[3., 1.], [4., 2.]])
    >>> q, r = scipy.linalg.qr(a)
    >>> gnp.allclose(q @ r, a)
    Array(True, dtype=bool)
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    (a,) = _matrices("qr", a)
    out = lax.linalg.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    # Mode "r" leaves Q out; the permutation stays.
    return tuple(out[1:] if mode == "r" else out)


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """c Q ("right") or Q c ("left") and R, for a = Q R of the economic form; p too if pivoting.

    A vector c counts as a row from the left and as a column from the right. conjugate: with conj(Q)
    instead of Q.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> a = gnp.array([[3., 1.], [4., 2.]])
    >>> qtc, r = scipy.linalg.qr_multiply(a, gnp.array([1., 0.]))
    >>> gnp.allclose(gnp.linalg.solve(r, qtc), gnp.linalg.solve(a, gnp.array([1., 0.])), atol=1e-4)
    Array(True, dtype=bool)
    """
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    a, c = _matrices("qr_multiply", a, c)
    m, k = a.shape[-2], min(a.shape[-2:])
    if not c.ndim:
        raise ValueError("qr_multiply: c must be a vector or matrices, got a scalar")
    vector = c.ndim == 1
    right = mode == "right"
    if vector:
        c = c[None, :] if right else c[:, None]
    # The axis of c that is multiplied by Q.
    given, needed = (c.shape[-1], m) if right else (c.shape[-2], k)
    if given != needed:
        text, of_q, of_c = ("c @ Q", "rows", "columns") if right else ("Q @ c", "columns", "rows")
        raise ValueError(
            f"Array shapes are not compatible for {text} operation: a has shape {a.shape} so Q "
            f"has {needed} {of_q}, but c has {given} {of_c} (expected {needed})."
        )
    q, r, *order = qr(a, mode="economic", pivoting=pivoting)
    if conjugate:
        q = gnp.conj(q)
    out = product(c, q) if right else product(q, c)
    if vector:
        out = out[..., 0, :] if right else out[..., 0]
    return (out, r, *order)


# ---- eigenvalues, singular values ----


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, s, V^H) with a = U s V^H, or s alone: as `numpy.linalg.svd`, a plain tuple.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.svd(gnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    (a,) = _matrices("svd", a)
    return lax.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues (ascending) and vectors of a symmetric or Hermitian matrix: (…, n), (…, n, n).

    With a positive definite `b` those of a v = w b v (`type` 1), a b v = w v (2) or b a v = w v
    (3).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.eigh(gnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if eigvals is not None:
        raise NotImplementedError(
            "Only the eigvals=None case of eigh is implemented: slice the ascending eigenvalues."
        )
    if type not in (1, 2, 3) or (b is None and type != 1):
        raise NotImplementedError(
            f"Only the type=1 case of eigh is implemented without b; got {type=}, {b=}."
        )
    if b is None:
        (a,) = _matrices("eigh", a)
        if a.shape[-1] != a.shape[-2]:
            raise TypeError(f"eigh: got incompatible shapes for a square matrix: {a.shape}")
        v, w = lax.linalg.eigh(a, lower=lower)
        return w if eigvals_only else (w, v)
    a, b = _matrices("eigh", a, b)
    _square("eigh", a)
    # With b = L L^H the generalised problem becomes an ordinary one.
    factor = cholesky(b if lower else adjoint(b), lower=True)
    if type == 1:  # L^-1 a L^-H y = w y, v = L^-H y
        half = _triangular(factor, a, lower=True)
        like = adjoint(_triangular(factor, adjoint(half), lower=True))
    else:  # L^H a L y = w y
        like = product(product(adjoint(factor), a), factor)
    y, w = lax.linalg.eigh(like)
    if eigvals_only:
        return w
    # Undo the substitution of each type: v = L y, or v = L^-H y.
    if type == 3:
        return w, product(factor, y)
    return w, _triangular(factor, y, lower=True, how="adjoint")


def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The matrix zero below its first subdiagonal that is similar to a, and Q with a = Q H Q^H.

    (…, n, n) -> (…, n, n), and with `calc_q` a second one.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> h, q = scipy.linalg.hessenberg(gnp.arange(9.).reshape(3, 3), calc_q=True)
    >>> gnp.allclose(q @ h @ q.T, gnp.arange(9.).reshape(3, 3), atol=1e-4)
    Array(True, dtype=bool)
    """
    a = gnp.asarray(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(
            "Argument to Hessenberg reduction must have shape [..., n, n], got shape "
            + f"{a.shape}"
        )
    packed, factors = lax.linalg.hessenberg(a)
    h = gnp.triu(packed, -1)
    if not calc_q:
        return h
    n = a.shape[-1]
    # No reflections: Q is the identity.
    if n < 2:
        return h, stretch(identity(n, a.dtype), a.shape)
    # The reflectors leave the first row and column alone.
    corner = lax.linalg.householder_product(packed[..., 1:, :-1], factors)
    q = lax.pad(corner, a.dtype.type(0), [(0, 0, 0)] * (a.ndim - 2) + [(1, 0, 0)] * 2)
    # The one in the corner that the reflectors left out.
    first = identity(n, a.dtype) * (lax.broadcasted_iota("int32", (n, 1), 0) == 0)
    return h, q + first
