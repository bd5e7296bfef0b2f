"""Factorisations of matrices: Cholesky, LU, QR, eigenvalues, singular values, Schur, Hessenberg.

Floor 2. In: arrays whose last two axes are matrices. Out: primitives that call LAPACK (through
SciPy) on every matrix of the stack, in the precision they are given. A factorisation that does not
exist (a matrix that is not positive definite, an iteration that does not converge, an input with
nan) is nan throughout, never an exception.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import leading
from gpuarray.core.primitive import NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.primitives.define import COMPLEX, FLOATING, check_dtype
from gpuarray.primitives.linalg import host as stacks
from gpuarray.primitives.linalg import transforms as rules
from gpuarray.primitives.linalg.matrices import no_derivative, stack_in_front
from gpuarray.util import lazy_module, pair

_lapack = lazy_module("scipy.linalg.lapack")

# First letter of a LAPACK routine's name, by dtype.
_LETTER = {
    dtypes.float32: "s",
    dtypes.float64: "d",
    dtypes.complex64: "c",
    dtypes.complex128: "z",
}
# The real and the complex dtypes of each precision.
_REAL = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
_COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
_int32 = np.dtype(np.int32)

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


# ---- shared by all factorisations ----


def routine(name: str, dtype, complex_name: str | None = None) -> Callable[..., Any]:
    """Return LAPACK's routine for a dtype; `complex_name` is its name for complex matrices."""
    # bfloat16 and float16 have none.
    letter = _LETTER.get(dtype)
    if letter is None:
        raise NotImplementedError(
            f"Unsupported dtype {dtype.name}: LAPACK has routines for float32, float64, complex64 "
            "and complex128. Convert the matrix first, for example with .astype('float32')."
        )
    return getattr(_lapack, letter + (complex_name or name if letter in "cz" else name))


def real_dtype(dtype):
    """Return the dtype of the real part of a number."""
    return _REAL.get(dtype, dtype)


def check_matrix(op: str, x: ShapedArray, position: int = 0, rank: int = 2) -> None:
    """Raise TypeError unless `x` is a stack of floating-point matrices."""
    check_dtype(op, x.dtype, FLOATING | COMPLEX, position)
    if x.ndim < rank:
        raise TypeError(
            f"Input {position} to {op} must have rank at least {rank}, but got shape={x.shape}"
        )


def check_square(op: str, x: ShapedArray) -> None:
    """Raise unless `x` is a stack of square floating-point matrices."""
    check_matrix(op, x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"The input to {op} must be a square matrix. Got shape {x.shape}.")


def stacked(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], ranks: Sequence[int], avals
) -> list[np.ndarray]:
    """Apply `function` to every matrix of a stack; None from it gives nan in all its results."""
    first = arrays[0]
    if first.ndim == ranks[0]:  # one matrix
        outs = function(*arrays)
        if outs is None:
            outs = [np.full(a.shape, np.nan if a.dtype.kind in "fc" else 0) for a in avals]
        return [np.asarray(x, a.dtype, order="C") for x, a in zip(outs, avals)]
    results = [np.zeros(a.shape, a.dtype) for a in avals]
    # Every array has the same leading axes; `ranks` says how many of the last ones are one operand.
    for index in np.ndindex(first.shape[: first.ndim - ranks[0]]):
        outs = function(*(x[index] for x in arrays))
        # None: nan in all floats; integers (pivots) have no nan and stay 0.
        for i, result in enumerate(results):
            if outs is not None:
                result[index] = outs[i]
            elif result.dtype.kind in "fc":
                result[index] = np.nan
    return results


def _matrices(out: Sequence[tuple[tuple[int, ...], Any]], x: ShapedArray) -> list[ShapedArray]:
    """Return avals with the leading axes of `x` and the given trailing shapes and dtypes."""
    return [ShapedArray((*x.shape[:-2], *shape), dtype) for shape, dtype in out]


def factorisation(name: str, aval, build, *, single: bool = False, jvp, many=None) -> Primitive:
    """Define a primitive on a stack of matrices.

    Parameters
    ----------
    aval :
        Function of (aval, **params) that returns the avals of the results (one if `single`).
    build :
        Function of (dtype, shape, **params) that returns the function of one matrix.
    many :
        Function of (**params) that returns the function of a stack of small matrices, or None.
    """

    def pick(avals, **params):
        (x,) = avals
        outs = [aval(x, **params)] if single else aval(x, **params)
        # LAPACK takes no matrices without elements.
        if x.size == 0:
            return lambda a: _of_empty(a, outs, single)
        # Once for each shape and dtype: the routine, its workspace, and which way is quicker.
        function = build(x.dtype, x.shape[-2:], **params)
        at_once = many(**params) if many is not None and stacks.is_many_small(x.shape) else None

        def run(a):
            if at_once is None:
                results = stacked(function, [a], [2], outs)
            else:
                results = stacks.on_stacks(at_once)(a)
            return results[0] if single else results

        return run

    return Primitive(
        name,
        Kind.LIBRARY,
        aval=aval,
        numpy_pick=pick,
        multiple_results=not single,
        weight=100.0,
        jvp=jvp,
        transpose=NOT_LINEAR,
        batch=stack_in_front(name),
        factors=leading(2),
    )


def _of_empty(a: np.ndarray, outs, single: bool):
    """Return results for matrices without elements: factors are identities, all else is empty."""
    results = []
    for o in outs:
        square = len(o.shape) >= 2 and o.shape[-1] == o.shape[-2] and o.dtype.kind in "fc"
        # Square factors of nothing are identities, so that products with them are right.
        full = np.zeros(o.shape, o.dtype)
        if square:
            full[...] = np.eye(o.shape[-1], dtype=o.dtype)
        # Integer results are permutations: the identity.
        elif o.dtype == _int32 and len(o.shape) >= 1:
            full[...] = np.arange(o.shape[-1], dtype=o.dtype)
        results.append(full)
    return results[0] if single else results


def _finite(function):
    """Skip matrices with nan or inf, on which LAPACK's iterations may not end."""
    return lambda a: function(a) if np.isfinite(a).all() else None


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
)


def _lu_aval(x: ShapedArray):
    check_matrix("lu", x)
    m, n = x.shape[-2:]
    return _matrices([((m, n), x.dtype), ((min(m, n),), _int32), ((m,), _int32)], x)


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
    # Swap by swap, in all permutations of the stack at once.
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


lu_p = factorisation("lu", _lu_aval, _lu, jvp=rules.lu_jvp, many=lambda: stacks.lu)


def _pivots_aval(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if pivots.dtype != _int32:
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
    return ShapedArray((*pivots.shape[:-1], permutation_size), _int32)


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
    return _matrices([(x.shape[-2:], x.dtype), ((min(x.shape[-2:]),), x.dtype)], x)


def best_workspace(function, *args) -> int:
    """Ask LAPACK for its best workspace, on which it decides whether to work in blocks."""
    return int(function(*args, lwork=-1)[-2][0].real)


def _workspace(name: str, dtype, *sizes, complex_name: str = "", **options: Any) -> int:
    """Ask for the best workspace of a routine whose query is a function of its own in SciPy."""
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
    k = m if full_matrices else min(m, n)
    out = [((m, k), x.dtype), ((k, n), x.dtype)]
    return _matrices(out + ([((n,), _int32)] if pivoting else []), x)


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
        # Householder vectors lie below the diagonal; a full Q needs as many columns as rows.
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


qr_p = factorisation("qr", _qr_aval, _qr, jvp=rules.qr_jvp, many=_many_qr)


# ---- eigenvalues ----


def _eigh_aval(x: ShapedArray, *, lower, sort_eigenvalues, subset_by_index, algorithm=None):
    check_square("eigh", x)
    n = x.shape[-1]
    start, stop = (0, n) if subset_by_index is None else pair(subset_by_index, "a pair of ints")
    if not 0 <= start <= stop <= n:
        raise ValueError(f"subset_by_index must lie in (0, {n}), got {subset_by_index}.")
    k = stop - start
    return _matrices([((n, k), x.dtype), ((k,), real_dtype(x.dtype))], x)


def _eigh(dtype, shape, *, lower, sort_eigenvalues, subset_by_index, algorithm=None):
    if algorithm not in (None, EighImplementation.QR):
        raise NotImplementedError(
            f"{algorithm.name} implementation is not available on CPU, only EighImplementation.QR "
            "is"
        )
    # The divide-and-conquer routine; hermitian matrices have a name of their own.
    syevd = routine("syevd", dtype, "heevd")
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)

    def one(a):
        w, v, info = syevd(a, compute_v=1, lower=int(lower))
        return (v[:, part], w[part]) if info == 0 else None

    return _finite(one)


def _many_eigh(*, lower, sort_eigenvalues, subset_by_index, algorithm=None):
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)

    def eigh(a):
        # eigh iterates too: a matrix with nan would fail for the whole stack.
        w, v = stacks.of_finite(lambda x: np.linalg.eigh(x, "L" if lower else "U"), a)
        return v[..., part], w[..., part]

    return eigh


eigh_p = factorisation("eigh", _eigh_aval, _eigh, jvp=rules.eigh_jvp, many=_many_eigh)


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
    n, dtype = x.shape[-1], _COMPLEX.get(x.dtype, x.dtype)
    vectors = int(compute_left_eigenvectors) + int(compute_right_eigenvectors)
    return _matrices([((n,), dtype)] + [((n, n), dtype)] * vectors, x)


def _complex_vectors(v: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Unpack real eigenvectors of LAPACK: a conjugate pair is stored as real and imaginary part."""
    out = v.astype(_COMPLEX[v.dtype])
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
        # Real matrices give real and imaginary parts apart; complex ones one array.
        wanted = [v for v, want in ((vl, left), (vr, right)) if want]
        if len(values) == 1:
            return (values[0], *wanted)
        real, imaginary = values
        return (real + 1j * imaginary, *(_complex_vectors(v, imaginary) for v in wanted))

    return _finite(one)


eig_p = factorisation("eig", _eig_aval, _eig, jvp=rules.eig_jvp)


# ---- singular values ----


def _svd_aval(x: ShapedArray, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    check_matrix("svd", x)
    m, n = x.shape[-2:]
    k = min(m, n)
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
    return _matrices(out, x)


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

    return _finite(one)


def _many_svd(*, full_matrices, compute_uv, subset_by_index, algorithm=None):
    # As in `_svd`: full matrices are not cut.
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    cut = part if not full_matrices else slice(None)

    def values(a):
        (s,) = stacks.of_finite(lambda x: (np.linalg.svd(x, compute_uv=False),), a)
        return (s[:, part],)

    def svd(a):
        u, s, vt = stacks.of_finite(lambda x: np.linalg.svd(x, full_matrices), a)
        return s[:, part], u[..., cut], vt[:, cut]

    if algorithm is SvdAlgorithm.QR:  # NumPy divides and conquers
        return None
    return svd if compute_uv else values


svd_p = factorisation("svd", _svd_aval, _svd, jvp=rules.svd_jvp, many=_many_svd)


# ---- similarity transforms ----


def _schur_aval(x: ShapedArray, *, compute_schur_vectors, sort_eig_vals, select_callable):
    check_square("schur", x)
    return _matrices([(x.shape[-2:], x.dtype)] * (2 if compute_schur_vectors else 1), x)


def _schur(dtype, shape, *, compute_schur_vectors, sort_eig_vals, select_callable):
    if sort_eig_vals:
        raise NotImplementedError("The sort feature of LAPACK's gees routine is not implemented.")
    gees = routine("gees", dtype)

    # LAPACK asks for a sorting function even where nothing is sorted.
    def nothing(*_):
        return None

    lwork = best_workspace(gees, nothing, np.zeros(shape, dtype))

    def one(a):
        t, *_, vectors, _, info = gees(nothing, a, lwork=lwork)
        return (t, vectors) if info == 0 else None

    return _finite(one)


schur_p = factorisation("schur", _schur_aval, _schur, jvp=no_derivative("schur", _USE_EIG))


def _hessenberg_aval(x: ShapedArray):
    check_matrix("hessenberg", x)
    n = x.shape[-1]
    if x.shape[-2] != n:
        raise ValueError(
            f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {x.shape}"
        )
    return _matrices([((n, n), x.dtype), ((max(n - 1, 0),), x.dtype)], x)


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
    return _matrices([((n, n), x.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), x.dtype)], x)


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
