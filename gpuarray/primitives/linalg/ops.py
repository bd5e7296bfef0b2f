"""Factorisations of matrices: Cholesky, LU, QR, eigenvalues, singular values, Schur, Hessenberg.

Floor 2. In: arrays whose last two axes are matrices. Out: primitives that call LAPACK (through
SciPy) on every matrix of the stack, in the precision they are given. A factorisation that does not
exist (a matrix that is not positive definite, an iteration that does not converge, an input with
nan) is nan throughout, never an exception.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.dims import larger, smaller
from gpuarray.core.factors import leading
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.primitives.linalg import entries, loops
from gpuarray.primitives.linalg import host as stacks
from gpuarray.primitives.linalg import transforms as rules
from gpuarray.primitives.linalg.factorisation import (
    COMPLEX_OF,
    INT32,
    best_workspace,
    check_matrix,
    check_square,
    factorisation,
    matrices_of,
    of_finite,
    real_dtype,
    routine,
)
from gpuarray.primitives.linalg.matrices import no_derivative, stack_in_front
from gpuarray.util import pair

_USE_QR = "gpuarray.lax.linalg.qr has a derivative."
_USE_EIG = "gpuarray.lax.linalg.eig has a derivative."
_USE_EIGH = "gpuarray.lax.linalg.eigh has a derivative."


class SvdAlgorithm(enum.Enum):
    """Algorithm for singular values; a CPU has QR and DIVIDE_AND_CONQUER (its default)."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class EighImplementation(enum.Enum):
    """Algorithm for eigenvalues of symmetric matrices; a CPU has QR."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Library for eigenvalues of general matrices; a CPU has LAPACK."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


# ---- Cholesky and LU ----


def _cholesky_aval(x: ShapedArray) -> ShapedArray:
    check_square("cholesky", x)
    return x.strip_weak_type()


def _cholesky(dtype, shape):
    potrf = routine("potrf", dtype)

    def one(a):
        # `clean` zeroes the other triangle.
        factor, info = potrf(a, lower=1, clean=1)
        return (factor,) if info == 0 else None

    return one


cholesky_p = factorisation(
    "cholesky",
    _cholesky_aval,
    _cholesky,
    single=True,
    jvp=rules.cholesky_jvp,
    many=lambda: stacks.cholesky,
    small=loops.cholesky,
    entries=entries.cholesky,
)


def _lu_aval(x: ShapedArray):
    check_matrix("lu", x)
    m, n = x.shape[-2:]
    return matrices_of([((m, n), x.dtype), ((smaller(m, n),), INT32), ((m,), INT32)], x)


def permutation_of(pivots: np.ndarray, size: int) -> np.ndarray:
    """Return the permutation that row swaps (i with pivots[i], in order) amount to."""
    if pivots.ndim == 1:
        return stacks.permutation(pivots.tolist(), size)
    # Start from the identity, and apply the swaps.
    permutation = np.empty((*pivots.shape[:-1], size), np.int32)
    permutation[...] = np.arange(size, dtype=np.int32)
    count = math.prod(pivots.shape[:-1])
    rows = pivots.reshape(count, pivots.shape[-1])
    flat = permutation.reshape(count, size)
    every = np.arange(flat.shape[0])
    # Swap by swap, in all permutations of the stack together.
    for i in range(pivots.shape[-1]):
        j = rows[:, i]
        here, there = flat[:, i].copy(), flat[every, j]
        flat[:, i] = there
        flat[every, j] = here
    return permutation


def _lu(dtype, shape):
    getrf = routine("getrf", dtype)

    def one(a):
        lu, pivots, info = getrf(a)
        # info > 0 is a zero pivot: the factors exist all the same.
        if info < 0:
            return None
        return lu, pivots, permutation_of(pivots, shape[0])

    return one


lu_p = factorisation(
    "lu",
    _lu_aval,
    _lu,
    jvp=rules.lu_jvp,
    many=lambda: stacks.lu,
    small=loops.lu,
    entries=entries.lu,
)


def _pivots_aval(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if pivots.dtype != INT32:
        raise TypeError(
            f"lu_pivots_to_permutation does not accept dtype {pivots.dtype.name} at position 0. "
            "Accepted dtypes at position 0 are subtypes of int32."
        )
    if pivots.ndim < 1:
        raise TypeError(
            "Input 0 to lu_pivots_to_permutation must have rank at least 1, but got "
            f"shape={pivots.shape}"
        )
    if permutation_size < pivots.shape[-1]:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of "
            f"the pivots. Got pivots size {pivots.shape[-1]}"
        )
    return ShapedArray((*pivots.shape[:-1], permutation_size), INT32)


lu_pivots_to_permutation_p = Primitive(
    "lu_pivots_to_permutation",
    Kind.LIBRARY,
    aval=_pivots_aval,
    numpy=lambda pivots, *, permutation_size: permutation_of(pivots, permutation_size),
    jvp=NOT_DIFFERENTIABLE,
    transpose=NOT_LINEAR,
    batch=stack_in_front("lu_pivots_to_permutation"),
    factors=leading(1),
)


# ---- QR ----


def _geqrf_aval(x: ShapedArray):
    check_matrix("geqrf", x)
    return matrices_of([(x.shape[-2:], x.dtype), ((smaller(*x.shape[-2:]),), x.dtype)], x)


def _workspace(name: str, dtype, *sizes, complex_name: str = "", **options: Any) -> int:
    """Query the best workspace of a routine whose query is a separate function in SciPy."""
    # Named after the routine: gehrd_lwork.
    complex_name = f"{complex_name or name}_lwork"
    return int(np.real(routine(f"{name}_lwork", dtype, complex_name)(*sizes, **options)[0]))


def _geqrf(dtype, shape):
    geqrf = routine("geqrf", dtype)
    # Asked once, for a matrix of zeros: it depends on the shape alone.
    lwork = best_workspace(geqrf, np.zeros(shape, dtype))

    def one(a):
        qr, taus, _, info = geqrf(a, lwork=lwork)
        return (qr, taus) if info == 0 else None

    return one


geqrf_p = factorisation(
    "geqrf",
    _geqrf_aval,
    _geqrf,
    jvp=no_derivative("geqrf", _USE_QR),
    many=lambda: stacks.geqrf,
)


def _qr_aval(x: ShapedArray, *, pivoting: bool, full_matrices: bool, use_magma=None):
    check_matrix("qr", x)
    m, n = x.shape[-2:]
    k = m if full_matrices else smaller(m, n)
    out = [((m, k), x.dtype), ((k, n), x.dtype)]
    return matrices_of(out + ([((n,), INT32)] if pivoting else []), x)


def _qr(dtype, shape, *, pivoting: bool, full_matrices: bool, use_magma=None):
    m, n = shape
    k = min(m, n)
    columns = m if full_matrices else k
    # geqp3 exchanges columns, the longest that is left first.
    geqrf = routine("geqp3" if pivoting else "geqrf", dtype)
    orgqr = routine("orgqr", dtype, "ungqr")
    lwork = best_workspace(geqrf, np.zeros(shape, dtype))
    workspace = best_workspace(orgqr, np.zeros((m, columns), dtype), np.zeros(k, dtype))

    def one(a):
        order = ()
        if pivoting:
            packed, columns_from_1, taus, _, info = geqrf(a, lwork=lwork)
            # LAPACK counts columns from 1.
            order = (columns_from_1 - 1,)
        else:
            packed, taus, _, info = geqrf(a, lwork=lwork)
        if info != 0:
            return None
        # Householder vectors are below the diagonal; a full Q needs as many columns as rows.
        vectors = np.zeros((m, columns), dtype, order="F")
        vectors[:, : min(n, columns)] = packed[:, : min(n, columns)]
        q, _, info = orgqr(vectors, taus, lwork=workspace)
        return (q, np.triu(packed[:columns]), *order) if info == 0 else None

    return one


def _many_qr(*, pivoting: bool, full_matrices: bool, use_magma=None):
    # Small matrices: the stack's own reflections. Column pivoting is left to LAPACK.
    def qr(a):
        packed, weights = stacks.geqrf(a)
        rows, columns = a.shape[1:]
        k = rows if full_matrices else min(rows, columns)
        return stacks.q_of(packed, weights, k), np.triu(packed[:, :k])

    # None leaves the stack to LAPACK, matrix by matrix.
    return None if pivoting else qr


qr_p = factorisation("qr", _qr_aval, _qr, jvp=rules.qr_jvp, many=_many_qr, small=loops.qr)


# ---- eigenvalues ----


def _eigh_aval(x: ShapedArray, *, lower, sort_eigenvalues, subset_by_index, algorithm=None):
    check_square("eigh", x, "symmetric eigendecomposition")
    n = x.shape[-1]
    start, stop = (0, n) if subset_by_index is None else pair(subset_by_index, "a pair of ints")
    if not 0 <= start <= stop <= n:
        raise ValueError(f"subset_by_index must lie in (0, {n}), got {subset_by_index}.")
    k = stop - start
    return matrices_of([((n, k), x.dtype), ((k,), real_dtype(x.dtype))], x)


def _eigh(dtype, shape, *, lower, sort_eigenvalues, subset_by_index, algorithm=None):
    if algorithm not in (None, EighImplementation.QR):
        raise NotImplementedError(
            f"{algorithm.name} implementation is not available on CPU, only EighImplementation.QR "
            "is"
        )
    # The divide-and-conquer routine; it has another name for hermitian matrices.
    syevd = routine("syevd", dtype, "heevd")
    # LAPACK computes all of them; the subset is cut out.
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)

    def one(a):
        w, v, info = syevd(a, compute_v=1, lower=int(lower))
        return (v[:, part], w[part]) if info == 0 else None

    return of_finite(one)


def _many_eigh(*, lower, sort_eigenvalues, subset_by_index, algorithm=None):
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)

    def eigh(a):
        # eigh iterates too: a matrix with nan would fail for the whole stack.
        w, v = stacks.iterated(lambda x: np.linalg.eigh(x, "L" if lower else "U"), a)
        return v[..., part], w[..., part]

    return eigh


eigh_p = factorisation(
    "eigh", _eigh_aval, _eigh, jvp=rules.eigh_jvp, many=_many_eigh, small=loops.eigh
)


def _eig_aval(
    x: ShapedArray,
    *,
    compute_left_eigenvectors,
    compute_right_eigenvectors,
    enable_eigvec_derivs=False,
    implementation=None,
):
    check_square("eig", x)
    # Eigenvalues of a real matrix may be complex, so results always are.
    n, dtype = x.shape[-1], COMPLEX_OF.get(x.dtype, x.dtype)
    vectors = int(compute_left_eigenvectors) + int(compute_right_eigenvectors)
    return matrices_of([((n,), dtype)] + [((n, n), dtype)] * vectors, x)


def _complex_vectors(v: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Unpack real eigenvectors of LAPACK: a conjugate pair is stored as real and imaginary part."""
    out = v.astype(COMPLEX_OF[v.dtype])
    # Only the first of a pair has a positive imaginary part.
    for j in np.flatnonzero(imaginary > 0):
        out[:, j] = v[:, j] + 1j * v[:, j + 1]
        out[:, j + 1] = out[:, j].conj()
    return out


def _eig(
    dtype,
    shape,
    *,
    compute_left_eigenvectors,
    compute_right_eigenvectors,
    enable_eigvec_derivs=False,
    implementation=None,
):
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError("Only the lapack implementation is supported on CPU.")
    geev = routine("geev", dtype)
    left, right = bool(compute_left_eigenvectors), bool(compute_right_eigenvectors)
    params: dict[str, Any] = {"compute_vl": int(left), "compute_vr": int(right)}
    lwork = _workspace("geev", dtype, shape[0], **params)

    def one(a):
        *values, vl, vr, info = geev(a, lwork=lwork, **params)
        if info != 0:
            return None
        # Real matrices give separate real and imaginary parts; complex ones one array.
        wanted = [v for v, want in ((vl, left), (vr, right)) if want]
        if len(values) == 1:
            return (values[0], *wanted)
        real, imaginary = values
        return (real + 1j * imaginary, *(_complex_vectors(v, imaginary) for v in wanted))

    return of_finite(one)


def _many_eig(*, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    # NumPy has no left vectors.
    if compute_left_eigenvectors:
        return None

    def eig(a):
        # Where no value is complex, NumPy's results are real.
        results = stacks.iterated(np.linalg.eig, a)
        return tuple(x.astype(np.result_type(x, np.complex64), copy=False) for x in results)

    def values(a):
        (w,) = stacks.iterated(lambda x: (np.linalg.eigvals(x),), a)
        return (w.astype(np.result_type(w, np.complex64), copy=False),)

    return eig if compute_right_eigenvectors else values


eig_p = factorisation("eig", _eig_aval, _eig, jvp=rules.eig_jvp, many=_many_eig, small=loops.eig)


# ---- singular values ----


def _svd_aval(x: ShapedArray, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    check_matrix("svd", x)
    m, n = x.shape[-2:]
    k = smaller(m, n)
    if subset_by_index is not None:
        start, stop = pair(subset_by_index, "a pair of ints")
        if not 0 <= start <= stop <= k:
            raise ValueError(f"subset_by_index must lie in (0, {k}), got {subset_by_index}.")
        if full_matrices and (start, stop) != (0, k):
            raise ValueError("full_matrices and subset_by_index cannot both be set")
        k = stop - start
    out: list[tuple[tuple[int, ...], Any]] = [((k,), real_dtype(x.dtype))]
    if compute_uv:
        rows, columns = (m, n) if full_matrices else (k, k)
        out += [((m, rows), x.dtype), ((columns, n), x.dtype)]
    return matrices_of(out, x)


def _svd(dtype, shape, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "The SVD Jacobi and Polar algorithms are not implemented on CPU. Use SvdAlgorithm.QR "
            "or SvdAlgorithm.DIVIDE_AND_CONQUER."
        )
    name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    function = routine(name, dtype)
    params: dict[str, Any] = {
        "compute_uv": int(compute_uv),
        "full_matrices": int(full_matrices),
    }
    lwork = _workspace(name, dtype, *shape, **params)
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    # Full matrices are not cut: they complete a basis.
    cut = part if not full_matrices else slice(None)

    def one(a):
        u, s, vt, info = function(a, lwork=lwork, **params)
        if info != 0:
            return None
        return (s[part], u[:, cut], vt[cut]) if compute_uv else (s[part],)

    return of_finite(one)


def _many_svd(*, full_matrices, compute_uv, subset_by_index, algorithm=None):
    # As in `_svd`: full matrices are not cut.
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    cut = part if not full_matrices else slice(None)

    def values(a):
        (s,) = stacks.iterated(lambda x: (np.linalg.svd(x, compute_uv=False),), a)
        return (s[:, part],)

    def svd(a):
        u, s, vt = stacks.iterated(lambda x: np.linalg.svd(x, full_matrices), a)
        return s[:, part], u[..., cut], vt[:, cut]

    if algorithm is SvdAlgorithm.QR:  # NumPy divides and conquers
        return None
    return svd if compute_uv else values


def _svd_loops(eqn: Any, read: tuple[bool, ...]) -> Any:
    # The other algorithms have a routine of their own, or none.
    ours = (None, SvdAlgorithm.DEFAULT, SvdAlgorithm.DIVIDE_AND_CONQUER)
    return loops.svd(eqn, read) if eqn.params["algorithm"] in ours else None


svd_p = factorisation("svd", _svd_aval, _svd, jvp=rules.svd_jvp, many=_many_svd, small=_svd_loops)


# ---- similarity transforms ----


def _schur_aval(x: ShapedArray, *, compute_schur_vectors, sort_eig_vals, select_callable):
    check_square("schur", x)
    return matrices_of([(x.shape[-2:], x.dtype)] * (2 if compute_schur_vectors else 1), x)


def _schur(dtype, shape, *, compute_schur_vectors, sort_eig_vals, select_callable):
    if sort_eig_vals:
        raise NotImplementedError("The sort feature of LAPACK's gees routine is not implemented.")
    gees = routine("gees", dtype)

    # LAPACK requires a sorting function even if it does not sort.
    def nothing(*_):
        return None

    lwork = best_workspace(gees, nothing, np.zeros(shape, dtype))

    def one(a):
        t, *_, vectors, _, info = gees(nothing, a, lwork=lwork)
        return (t, vectors) if info == 0 else None

    return of_finite(one)


schur_p = factorisation("schur", _schur_aval, _schur, jvp=no_derivative("schur", _USE_EIG))


def _hessenberg_aval(x: ShapedArray):
    check_matrix("hessenberg", x)
    n = x.shape[-1]
    if x.shape[-2] != n:
        raise ValueError(
            f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {x.shape}"
        )
    return matrices_of([((n, n), x.dtype), ((larger(n - 1, 0),), x.dtype)], x)


def _hessenberg(dtype, shape):
    gehrd = routine("gehrd", dtype)
    lwork = _workspace("gehrd", dtype, shape[0])

    def one(a):
        packed, taus, info = gehrd(a, lwork=lwork)
        return (packed, taus) if info == 0 else None

    return one


hessenberg_p = factorisation(
    "hessenberg", _hessenberg_aval, _hessenberg, jvp=no_derivative("hessenberg", _USE_EIG)
)


def _tridiagonal_aval(x: ShapedArray, *, lower: bool):
    check_square("tridiagonal", x)
    n, real = x.shape[-1], real_dtype(x.dtype)
    if n == 0:
        raise ValueError(f"The input to tridiagonal must be a square matrix. Got shape {x.shape}.")
    return matrices_of([((n, n), x.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), x.dtype)], x)


def _tridiagonal(dtype, shape, *, lower: bool):
    sytrd = routine("sytrd", dtype, "hetrd")
    lwork = _workspace("sytrd", dtype, shape[0], complex_name="hetrd", lower=int(lower))

    def one(a):
        packed, d, e, taus, info = sytrd(a, lower=int(lower), lwork=lwork)
        # LAPACK leaves the other triangle as it was in its copy: take the input's.
        other = np.triu(a, 1) if lower else np.tril(a, -1)
        packed = (np.tril(packed) if lower else np.triu(packed)) + other
        return (packed, d, e, taus) if info == 0 else None

    return one


tridiagonal_p = factorisation(
    "tridiagonal", _tridiagonal_aval, _tridiagonal, jvp=no_derivative("tridiagonal", _USE_EIGH)
)
