"""Triangular and tridiagonal systems, and products with packed orthogonal factors.

Floor 2. In: stacks of triangular, tridiagonal or packed matrices. Out: primitives on BLAS and
LAPACK through SciPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Factors, leading
from gpuarray.core.primitive import NOT_LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.define import FLOATING, check_dtype, check_same_dtypes
from gpuarray.primitives.linalg import entries, loops
from gpuarray.primitives.linalg import host as stacks
from gpuarray.primitives.linalg import solve_transforms as rules
from gpuarray.primitives.linalg.factorisation import best_workspace, check_matrix, routine, stacked
from gpuarray.primitives.linalg.matrices import no_derivative, stack_in_front
from gpuarray.util import lazy_module, number

_blas = lazy_module("scipy.linalg.blas")


def _library(name: str, aval, pick, **rules) -> Primitive:
    return Primitive(name, Kind.LIBRARY, aval=aval, numpy_pick=pick, weight=20.0, **rules)


def _columns(which: int, left=lambda params: True):
    """Return the factors rule of operations on the columns of one operand, each separately.

    `which` is that operand, which has the result's axes. They are rows unless `left` holds.
    """

    def rule(avals, out_avals, params) -> Factors:
        x = avals[which]
        lead: list[Any] = list(range(x.ndim - 2))
        own = [*lead, None, "column"] if left(params) else [*lead, "column", None]
        ins = [[d if d < len(lead) else None for d in range(a.ndim)] for a in avals]
        ins[which] = own
        return Factors.named(avals, out_avals, ins, [own])

    return rule


# ---- triangular systems ----


def _triangular_aval(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, lower: bool, transpose_a: int, **_
) -> ShapedArray:
    if lower not in (0, 1) or transpose_a not in (0, 1, 2):
        raise ValueError(
            "triangular_solve takes lower=True or False and transpose_a=0, 1 or 2, "
            f"got {lower} and {transpose_a}."
        )
    for position, x in enumerate((a, b)):
        check_matrix("triangular_solve", x, position)
    check_same_dtypes("triangular_solve", (a, b))
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"The first input to triangular_solve must be a square matrix. Got shape {a.shape}."
        )
    # The side of the matrix determines the axis of b that it must match.
    common = b.shape[-2] if left_side else b.shape[-1]
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != common:
        raise ValueError(
            f"Incompatible shapes for arguments to triangular_solve: {a.shape} and {b.shape}."
        )
    return b.strip_weak_type()


def _triangular(avals, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    a, b = avals
    out = _triangular_aval(a, b, left_side=left_side, lower=lower, transpose_a=transpose_a)
    # BLAS has no half precision: solve in float32 and round once.
    half = out.dtype.itemsize < 4
    working = dtypes.float32 if half else out.dtype
    # BLAS conjugates only together with a transpose; alone it is done beforehand.
    trans = 2 if transpose_a and conjugate_a else int(transpose_a)
    conjugate = conjugate_a and not transpose_a
    options = {"side": int(not left_side), "lower": int(lower), "trans_a": trans}
    options["diag"] = int(unit_diagonal)
    if out.size == 0:
        return lambda a, b: np.zeros(out.shape, out.dtype)
    # Small systems: substitution along the whole stack, without a call for each matrix.
    if stacks.is_many_small(a.shape):
        flip = transpose_a == left_side  # x a = b is a.T x.T = b.T
        options = left_side, lower != flip, flip, conjugate_a, unit_diagonal
        return _many_triangular(out, working, *options)
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[working.name]

    # trsm is a BLAS routine, so SciPy has it in another module.
    trsm = getattr(_blas, letter + "trsm")

    def one(a, b):
        return (trsm(1.0, a, b, **options),)

    def solve(a, b):
        if half:
            a, b = a.astype(working), b.astype(working)
        if conjugate:
            a = a.conj()
        (x,) = stacked(one, [a, b], [2, 2], [out.update(dtype=working)])
        return x.astype(out.dtype, copy=False)

    return solve


def _many_triangular(out, working, left_side, lower, flip, conjugate, unit):
    """Solve many small systems together; `lower` describes the matrix after the transpose."""

    def solve(a, b):
        a, b = a.astype(working, copy=False), b.astype(working, copy=False)
        a = a.conj() if conjugate else a
        a = a.swapaxes(1, 2) if flip else a
        b = b if left_side else b.swapaxes(1, 2)
        x = stacks.solve_triangular(a, b, lower, unit)
        return ((x if left_side else x.swapaxes(1, 2)).astype(out.dtype, copy=False),)

    return lambda a, b: stacks.on_stacks(solve)(a, b)[0]


#: x with op(a) x = b (left side) or x op(a) = b.
triangular_solve_p = _library(
    "triangular_solve",
    _triangular_aval,
    _triangular,
    jvp=rules.triangular_solve_jvp,
    transpose=rules.triangular_solve_transpose,
    batch=rules.triangular_solve_batch,
    factors=_columns(1, lambda params: params["left_side"]),
    rewrite=Rewrite(loops=loops.triangular_solve, entries=entries.triangular_solve),
)


# ---- tridiagonal systems ----


def _tridiagonal_solve_aval(dl, d, du, b, *, perturb_singular: bool = False) -> ShapedArray:
    for position, x in enumerate((dl, d, du, b)):
        check_matrix("tridiagonal_solve", x, position, rank=2 if x is b else 1)
    check_same_dtypes("tridiagonal_solve", (dl, d, du, b))
    if not dl.shape == d.shape == du.shape:
        raise TypeError(
            "tridiagonal_solve requires that all diagonal arguments have the same shape, got "
            f"{dl.shape}, {d.shape} and {du.shape}."
        )
    if b.shape[:-1] != d.shape:
        raise TypeError(
            "tridiagonal_solve requires that the leading ndim-1 dimensions of b equal the "
            f"dimensions of the diagonal arguments, got b of shape {b.shape} and diagonals of "
            f"shape {d.shape}."
        )
    return b.strip_weak_type()


def _tridiagonal_solve(avals, *, perturb_singular: bool = False):
    out = _tridiagonal_solve_aval(*avals, perturb_singular=perturb_singular)
    if out.size == 0:
        return lambda *_: np.zeros(out.shape, out.dtype)
    gtsv = routine("gtsv", out.dtype)

    def one(dl, d, du, b):
        if d.shape[0] == 1:  # LAPACK's wrapper wants off-diagonals to exist
            x, info = b / d, 0 if d[0] != 0 else 1
        else:
            # LAPACK's off-diagonals have n - 1 entries; ours have one more, which is outside the
            # matrix.
            *_, x, info = gtsv(dl[1:], d, du[:-1], b)
        if info == 0:
            return (x,)
        # A singular system gives nan, unless zero pivots are to be perturbed.
        return (_perturbed_solve(dl, d, du, b),) if perturb_singular else None

    return lambda *arrays: stacked(one, arrays, [1, 1, 1, 2], [out])[0]


def _perturbed_solve(dl, d, du, b) -> np.ndarray:
    """Gaussian elimination with row swaps; zero pivots become the smallest normal number."""
    n, tiny, zero = d.shape[0], np.finfo(d.dtype).tiny, d.dtype.type(0)
    # Upper factor with two diagonals above the main one, because of the swaps.
    x, rows = b.copy(), []
    row = (d[0], du[0], zero)  # entries of row i at columns i, i + 1, i + 2
    for i in range(n - 1):
        below = (dl[i + 1], d[i + 1], du[i + 1] if i + 2 < n else zero)
        if abs(below[0]) > abs(row[0]):
            row, below = below, row
            x[[i, i + 1]] = x[[i + 1, i]]
        row = (row[0] or tiny, *row[1:])
        factor = below[0] / row[0]
        # Eliminate row i + 1; its remainder becomes the next row.
        x[i + 1] -= factor * x[i]
        rows.append(row)
        row = (below[1] - factor * row[1], below[2] - factor * row[2], zero)
    rows.append((row[0] or tiny, zero, zero))
    # Back substitution.
    for i in reversed(range(n)):
        for k in range(1, min(3, n - i)):
            x[i] -= rows[i][k] * x[i + k]
        x[i] /= rows[i][0]
    return x


tridiagonal_solve_p = _library(
    "tridiagonal_solve",
    _tridiagonal_solve_aval,
    _tridiagonal_solve,
    jvp=rules.tridiagonal_solve_jvp,
    transpose=rules.tridiagonal_solve_transpose,
    batch=stack_in_front("tridiagonal_solve"),
    factors=_columns(3),
)


# ---- products with orthogonal factors ----

_USE_QR = "gpuarray.lax.linalg.qr gives the factor itself, with a derivative."


def _check_reflectors(op: str, a: ShapedArray, taus: ShapedArray) -> None:
    check_matrix(op, a)
    check_matrix(op, taus, 1, rank=1)
    check_same_dtypes(op, (a, taus))
    if a.ndim - 2 != taus.ndim - 1:
        raise TypeError(
            f"All inputs to {op} must have the same number of batch dimensions, but got "
            f"{[a.ndim - 2, taus.ndim - 1]} batch dimensions for the inputs."
        )
    if a.shape[:-2] != taus.shape[:-1]:
        raise TypeError(
            f"All inputs to {op} must have the same batch dimensions, got shapes {a.shape} and "
            f"{taus.shape}."
        )


def _householder_aval(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    op = "householder_product"
    _check_reflectors(op, a, taus)
    m, n = a.shape[-2:]
    if m < n:
        raise ValueError(
            f"The first argument to {op} must have at least as many rows as columns, got shape "
            f"{a.shape}"
        )
    if taus.shape[-1] > n:
        raise ValueError(
            f"The second argument to {op} must not have more rows than the minimum of the first "
            f"argument's rows and columns, got {taus.shape[-1]} rows for shape {a.shape}."
        )
    return a.strip_weak_type()


def _householder(avals):
    a, taus = avals
    out = _householder_aval(a, taus)
    if out.size == 0:
        return lambda *_: np.zeros(out.shape, out.dtype)
    # Complex orthogonal matrices are called unitary: `un` instead of `or`.
    orgqr = routine("orgqr", out.dtype, "ungqr")
    empty = np.zeros(a.shape[-2:], out.dtype), np.zeros(taus.shape[-1], out.dtype)
    lwork = best_workspace(orgqr, *empty)

    def one(a, taus):
        q, _, info = orgqr(a, taus, lwork=lwork)
        return (q,) if info == 0 else None

    return lambda a, taus: stacked(one, [a, taus], [2, 1], [out])[0]


#: The first columns of H_1 H_2 ... H_k, where H_i = I - tau_i v_i v_i^H and v_i is stored below the
#: diagonal of a.
householder_product_p = _library(
    "householder_product",
    _householder_aval,
    _householder,
    jvp=no_derivative("householder_product", _USE_QR),
    transpose=NOT_LINEAR,
    batch=stack_in_front("householder_product"),
    factors=leading(2, 1),
)


def _ormqr_aval(a, taus, c, *, left: bool, transpose: bool) -> ShapedArray:
    _check_reflectors("ormqr", a, taus)
    check_matrix("ormqr", c, 2)
    check_same_dtypes("ormqr", (a, taus, c))
    common = c.shape[-2] if left else c.shape[-1]
    if common != a.shape[-2]:
        what = "rows" if left else "columns"
        raise ValueError(
            f"ormqr with left={left} expects c to have the same number of {what} as the "
            f"Householder matrix a. Got a shape {a.shape} and c shape {c.shape}."
        )
    if c.shape[:-2] != a.shape[:-2]:
        raise TypeError(
            f"All inputs to ormqr must have the same batch dimensions, got shapes {a.shape} and "
            f"{c.shape}."
        )
    return c.strip_weak_type()


def _ormqr(avals, *, left: bool, transpose: bool):
    a, taus, c = avals
    out = _ormqr_aval(a, taus, c, left=left, transpose=transpose)
    k = min(taus.shape[-1], *a.shape[-2:])
    if out.size == 0 or k == 0:
        # No reflector: Q is the identity.
        return lambda a, taus, c: c.copy()
    ormqr = routine("ormqr", out.dtype, "unmqr")
    # LAPACK's transpose of a complex Q is the adjoint.
    flip = ("C" if out.dtype.kind == "c" else "T") if transpose else "N"
    side = "L" if left else "R"
    # A workspace query on operands of the right shapes.
    empty = [np.zeros(s, out.dtype) for s in ((a.shape[-2], k), (k,), c.shape[-2:])]
    lwork = best_workspace(ormqr, side, flip, *empty)

    def one(a, taus, c):
        product, _, info = ormqr(side, flip, a[:, :k], taus[:k], c, lwork=lwork)
        return (product,) if info == 0 else None

    return lambda *arrays: stacked(one, arrays, [2, 1, 2], [out])[0]


#: Q c, Q^H c, c Q or c Q^H for the Q that Householder vectors represent.
ormqr_p = _library(
    "ormqr",
    _ormqr_aval,
    _ormqr,
    jvp=no_derivative("ormqr", _USE_QR),
    transpose=NOT_LINEAR,
    batch=stack_in_front("ormqr"),
    factors=_columns(2, lambda params: params["left"]),
)


# ---- updates ----


def _symmetric_product_aval(a: ShapedArray, c: ShapedArray, *, alpha, beta) -> ShapedArray:
    for position, x in enumerate((a, c)):
        check_dtype("symmetric_product", x.dtype, FLOATING, position)
    check_same_dtypes("symmetric_product", (a, c))
    square = (a.shape[-2],) * 2 if a.ndim >= 2 else ()
    if a.ndim < 2 or c.shape != (*a.shape[:-2], *square):
        raise ValueError(
            "symmetric_update expects a rectangular matrix of shape (m, n) and a square matrix of "
            f"shape (m, m). Got shapes {a.shape} and {c.shape}."
        )
    return c.strip_weak_type()


def _symmetric_product(a, c, *, alpha, beta):
    # Half precision is computed in float32 and rounded once.
    wide = np.promote_types(a.dtype, np.float32) if a.dtype.itemsize < 4 else a.dtype
    left = a.astype(wide, copy=False)
    alpha, beta = wide.type(number(alpha)), wide.type(number(beta))
    product = alpha * np.matmul(left, left.swapaxes(-1, -2))
    return (product + beta * c.astype(wide, copy=False)).astype(a.dtype, copy=False)


#: alpha a a^T + beta c.
symmetric_product_p = Primitive(
    "symmetric_product",
    Kind.LIBRARY,
    aval=_symmetric_product_aval,
    numpy=_symmetric_product,
    jvp=rules.symmetric_product_jvp,
    transpose=NOT_LINEAR,
    batch=stack_in_front("symmetric_product"),
    factors=leading(2, 2),
    weight=2.0,
)


def _cholesky_update_aval(r: ShapedArray, w: ShapedArray) -> ShapedArray:
    for position, x in enumerate((r, w)):
        check_dtype("cholesky_update", x.dtype, FLOATING, position)
    check_same_dtypes("cholesky_update", (r, w))
    square = r.ndim >= 2 and r.shape[-1] == r.shape[-2]
    if not square or w.shape != r.shape[:-1]:
        raise ValueError(
            "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the "
            f"same size as input. Got shapes {r.shape} and {w.shape} instead"
        )
    return r.strip_weak_type()


def _cholesky_update(r, w):
    # One Givens rotation for each row, as in LINPACK's dchud.
    r, w = r.copy(), w.copy()
    for k in range(r.shape[-1]):
        # The rotation that empties w[k] into the diagonal.
        x, y = r[..., k, k], w[..., k]
        length = np.hypot(x, y)
        c = np.where(length == 0, 1, x / length).astype(r.dtype)[..., None]
        s = np.where(length == 0, 0, y / length).astype(r.dtype)[..., None]
        row = r[..., k, :].copy()
        r[..., k, :], w = c * row + s * w, c * w - s * row
    return r


#: The upper Cholesky factor of r^T r + w w^T.
cholesky_update_p = Primitive(
    "cholesky_update",
    Kind.LIBRARY,
    aval=_cholesky_update_aval,
    numpy=_cholesky_update,
    jvp=no_derivative(
        "cholesky_update",
        "gpuarray.lax.linalg.cholesky of the updated matrix has one.",
    ),
    transpose=NOT_LINEAR,
    batch=stack_in_front("cholesky_update"),
    factors=leading(2, 1),
    weight=20.0,
)
