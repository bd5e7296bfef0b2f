"""Transform rules of systems of equations and of updates.

Floor 2. In: the operands of a rule. Out: values made of solves and products. The tangent of the
solution of op(A) x = b is op(A)^-1 (db - op(dA) x).
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linalg.matrices import (
    column,
    conjugate,
    lower,
    product,
    scaled,
    stack_in_front,
    transposed,
    upper,
)
from gpuarray.primitives.linear import add_any

# ---- triangular systems ----


def triangular_solve_jvp(
    primals, tangents, *, left_side, lower: bool, transpose_a, conjugate_a, unit_diagonal
):
    params = {"left_side": left_side, "lower": lower, "transpose_a": transpose_a}
    params |= {"conjugate_a": conjugate_a, "unit_diagonal": unit_diagonal}
    (a, b), (t, t_b) = primals, tangents
    x = do.triangular_solve(a, b, **params)
    if not is_zero(t_b):
        # The tangent of b.
        t_b = do.triangular_solve(a, t_b, **params)
    if is_zero(t):
        return x, t_b
    # -op(dA), of which only the triangle that the solver reads counts.
    t = do.neg(_triangle(t, lower, unit_diagonal))
    t = transposed(t) if transpose_a else t
    t = conjugate(t) if conjugate_a else t

    def times_x(y):
        return product(y, x) if left_side else product(x, y)

    # The product is the same in either order: solve for the side with fewer columns.
    columns = aval_of(b).shape[-1 if left_side else -2]
    if columns >= aval_of(a).shape[-1]:
        from_a = times_x(do.triangular_solve(a, t, **params))
    else:
        from_a = do.triangular_solve(a, times_x(t), **params)
    return x, add_any(from_a, t_b)


def _triangle(x: Any, below: bool, strict: bool) -> Any:
    """Return the triangle of a matrix that the solver reads."""
    # With a unit diagonal the solver does not read the diagonal.
    return lower(x, -int(strict)) if below else upper(x, int(strict))


def triangular_solve_transpose(ct, a, b, *, transpose_a, **params):
    # The rule of linear solves is in b alone.
    if is_undefined(a) or not is_undefined(b):
        raise TypeError("triangular_solve is not linear in its matrix")
    return None, do.triangular_solve(a, ct, transpose_a=not transpose_a, **params)


_triangular_stack = stack_in_front("triangular_solve")


def triangular_solve_batch(axis, args, dims, *, left_side, **params):
    (a, b), (d, d_b) = args, dims
    if d is not None:
        # Each batch element has its own matrix: one more leading axis.
        return _triangular_stack(axis, args, dims, left_side=left_side, **params)
    # One matrix for all: the batch axis joins the right-hand sides.
    rank = aval_of(b).ndim
    place = rank - 2 if left_side else rank - 3
    b = move_axis(b, d_b, place)
    shape = aval_of(b).shape
    merged = (*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :])
    b = do.reshape(b, new_sizes=merged, dimensions=None, sharding=None)
    x = do.triangular_solve(a, b, left_side=left_side, **params)
    return do.reshape(x, new_sizes=shape, dimensions=None, sharding=None), place


# ---- tridiagonal systems ----


def _shifted(diagonal: Any, step: int) -> Any:
    """Shift a diagonal: entry i is entry i + step, zero from outside."""
    aval = aval_of(diagonal)
    # A matrix of no rows has no entries to shift.
    if aval.shape[-1] == 0:
        return diagonal
    config = (*((0, 0, 0) for _ in aval.shape[:-1]), (-step, step, 0))
    return do.pad(diagonal, aval.dtype.type(0), padding_config=config)


def _shifted_rows(x: Any, step: int) -> Any:
    """Shift rows: row i is row i + step, zeros from outside."""
    return transposed(_shifted(transposed(x), step))


def tridiagonal_solve_jvp(primals, tangents, **params):
    dl, d, du, b = primals
    x = do.tridiagonal_solve(dl, d, du, b, **params)
    t_b = tangents[3]
    # Row i of the matrix is dl[i], d[i], du[i]; dl[0] and du[-1] are outside.
    for t, step in zip(tangents[:3], (-1, 0, 1), strict=True):
        if not is_zero(t):
            t_b = add_any(t_b, do.neg(do.mul(column(t), _shifted_rows(x, step) if step else x)))
    # No tangent at all: the solution has none either.
    if is_zero(t_b):
        return x, Zero(tangent_aval(aval_of(x)))
    return x, do.tridiagonal_solve(dl, d, du, t_b, **params)


def tridiagonal_solve_transpose(ct, dl, d, du, b, **params):
    if not is_undefined(b) or any(map(is_undefined, (dl, d, du))):
        raise TypeError("tridiagonal_solve is not linear in its matrix")
    # The transpose swaps the diagonals and shifts each by a row.
    return (
        None,
        None,
        None,
        do.tridiagonal_solve(_shifted(du, -1), d, _shifted(dl, 1), ct, **params),
    )


# ---- updates ----


def symmetric_product_jvp(primals, tangents, *, alpha, beta):
    """alpha (T A^T + A T^T) + beta T_C, the tangent of alpha A A^T + beta C."""
    (a, c), (t, t_c) = primals, tangents
    out = do.symmetric_product(a, c, alpha=alpha, beta=beta)
    total = Zero(tangent_aval(aval_of(out))) if is_zero(t_c) else scaled(t_c, beta)
    if not is_zero(t):
        # T A^T and its transpose: one product serves both.
        half = product(t, transposed(a))
        total = add_any(scaled(do.add(half, transposed(half)), alpha), total)
    return out, total
