"""Factorisations of matrices as functions of native code (kernels/native/46_matrices.cuh).

Floor 2. In: equations. Out: the function that computes each, its numbers, how many matrices there
are and the work on one. Small matrices have loops (kernels/native/47_spectra.cuh: eigenvalues and
singular values); others have calls of LAPACK. Other dtypes than the floats of BLAS are for NumPy.
"""

from __future__ import annotations

import math
from typing import Any

from gpuarray.core.rewrite import Loops
from gpuarray.core.target import PROCESSOR
from gpuarray.primitives.linalg.host import is_many_small


def _of_floats(eqn: Any) -> bool:
    aval = eqn.invars[0].aval
    return aval.dtype.name in ("float32", "float64") and aval.size > 0


def _by_size(eqn: Any, loops: Loops, numbers: tuple[int, ...], rows: int) -> Loops | None:
    """The loops, or a call of LAPACK with `numbers` if that is faster on one thread; None if
    several threads are better.
    """
    if not _of_floats(eqn):
        return None
    if loops.work <= PROCESSOR.matrix_work:
        return loops
    if rows > PROCESSOR.library_rows:
        return None
    return loops._replace(function=f"{loops.function}_by_library", numbers=numbers, many=True)


def cholesky(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The loops of a Cholesky factorisation."""
    *stack, n, _ = eqn.invars[0].aval.shape
    return _by_size(eqn, Loops("ga_cholesky", (n,), math.prod(stack), n**3 / 3), (n,), n)


def eigh(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The loop that finds the eigenvalues of each matrix, and the vectors if these are read."""
    aval, p = eqn.invars[0].aval, eqn.params
    *stack, n, _ = aval.shape
    count, some, vectors = math.prod(stack), p["subset_by_index"], read[0]
    first, last = (0, n) if some is None else some
    if (
        not _of_floats(eqn)
        or first == last
        or p["algorithm"] is not None
        or n > PROCESSOR.stacked_rows
    ):
        return None
    numbers = (n, int(p["lower"]), first, last - first, int(vectors))
    # Of few rows, a library takes longer to begin than to compute.
    if n <= PROCESSOR.rotated_rows:
        return Loops("ga_eigh_of_few", (_is_wide(aval), *numbers), count, 10 * n**3, True)
    return Loops("ga_eigh", numbers, count, 10 * n**3, True)


def eig(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The calls of LAPACK that find the eigenvalues of each matrix, and its vectors of one side."""
    aval, p = eqn.invars[0].aval, eqn.params
    *stack, n, _ = aval.shape
    left, right = p["compute_left_eigenvectors"], p["compute_right_eigenvectors"]
    if not _of_floats(eqn) or n > PROCESSOR.stacked_rows or (left and right):
        return None
    if p.get("implementation") is not None:
        return None
    if left or right:
        numbers = (_is_wide(aval), n, int(left))
        return Loops("ga_eig_by_library", numbers, math.prod(stack), 25 * n**3, True)
    numbers = (_is_wide(aval), n)
    return Loops("ga_eigenvalues_by_library", numbers, math.prod(stack), 10 * n**3, True)


def _is_wide(aval: Any) -> int:
    """Whether floats are computed as doubles. The signs of vectors are those that there are without
    a compiler: NumPy computes stacks of many small matrices so.
    """
    return int(is_many_small(aval.shape))


def lu(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The loops of a factorisation with row swaps."""
    *stack, m, n = eqn.invars[0].aval.shape
    loops = Loops("ga_lu", (m, n), math.prod(stack), m * n * min(m, n))
    return _by_size(eqn, loops, (m, n), max(m, n))


def qr(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The calls of LAPACK that find the factors of each matrix; Q only if it is read."""
    *stack, m, n = eqn.invars[0].aval.shape
    if not _of_floats(eqn) or max(m, n) > PROCESSOR.library_rows or eqn.params["pivoting"]:
        return None
    columns = eqn.outvars[0].aval.shape[-1]
    work = 2 * m * n * (max(n, columns) if read[0] else n)
    numbers = (m, n, columns, int(read[0]))
    return Loops("ga_qr_by_library", numbers, math.prod(stack), work, True)


def svd(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The loop that finds the singular values of each matrix, and their vectors if it has them."""
    aval, p = eqn.invars[0].aval, eqn.params
    *stack, m, n = aval.shape
    k = min(m, n)
    first, last = (0, k) if p["subset_by_index"] is None else p["subset_by_index"]
    if not _of_floats(eqn) or first == last or max(m, n) > PROCESSOR.stacked_rows:
        return None
    numbers: tuple[int, ...] = (first, last - first)
    name = "ga_singular_values"
    if p["compute_uv"]:
        name, numbers = "ga_svd", (*numbers, int(p["full_matrices"]), int(any(read[1:])))
    # Of few rows, a library takes longer to begin than to compute.
    if m == n <= PROCESSOR.rotated_rows:
        numbers = (_is_wide(aval), n, *numbers)
    else:
        name, numbers = f"{name}_by_library", (_is_wide(aval), m, n, *numbers)
    return Loops(name, numbers, math.prod(stack), 20 * m * n * k, True)


def triangular_solve(eqn: Any, read: tuple[bool, ...]) -> Loops | None:
    """The loops of a substitution; x op(a) = b is op(a).T x.T = b.T."""
    b, params = eqn.invars[1].aval, eqn.params
    if not _of_floats(eqn) or not b.size:
        return None
    *stack, rows, columns = b.shape
    left = params["left_side"]
    n, systems = (rows, columns) if left else (columns, rows)
    # Read with its two strides exchanged, a matrix is its transpose, and its lower triangle an
    # upper one.
    turned = bool(params["transpose_a"]) == left
    of_a = (1, n) if turned else (n, 1)
    of_b = (columns, 1) if left else (1, columns)
    lower = params["lower"] != turned
    unit = int(params["unit_diagonal"])
    numbers = (n, systems, *of_a, *of_b, int(lower), unit)
    loops = Loops("ga_triangular", numbers, math.prod(stack), n * n * systems)
    if n <= PROCESSOR.substituted and left:
        # Few rows: each loop runs over the systems.
        return loops._replace(many=True)
    ways = (int(left), int(params["lower"]), int(params["transpose_a"]), unit)
    return _by_size(eqn, loops, (n, rows, columns, *ways), max(rows, columns))
