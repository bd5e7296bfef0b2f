"""Factorisations of small matrices as functions of native code (kernels/native/46_matrices.cuh).

Floor 2. In: equations. Out: the function that computes each, its numbers, how many matrices there
are and the work on one. Other dtypes than the floats of BLAS are for LAPACK and for NumPy.
"""

from __future__ import annotations

import math
from typing import Any

from gpuarray.core.rewrite import Loops


def _of_floats(eqn: Any) -> bool:
    aval = eqn.invars[0].aval
    return aval.dtype.name in ("float32", "float64") and aval.size > 0


def cholesky(eqn: Any) -> Loops | None:
    """The loops of a Cholesky factorisation."""
    *stack, n, _ = eqn.invars[0].aval.shape
    return Loops("ga_cholesky", (n,), math.prod(stack), n**3 / 3) if _of_floats(eqn) else None


def lu(eqn: Any) -> Loops | None:
    """The loops of a factorisation with row swaps."""
    *stack, m, n = eqn.invars[0].aval.shape
    work = m * n * min(m, n)
    return Loops("ga_lu", (m, n), math.prod(stack), work) if _of_floats(eqn) else None


def triangular_solve(eqn: Any) -> Loops | None:
    """The loops of a substitution; x op(a) = b is op(a).T x.T = b.T."""
    b, params = eqn.invars[1].aval, eqn.params
    if not _of_floats(eqn) or not b.size:
        return None
    *stack, rows, columns = b.shape
    left = params["left_side"]
    n, systems = (rows, columns) if left else (columns, rows)
    turned = bool(params["transpose_a"]) == left
    of_a = (1, n) if turned else (n, 1)
    of_b = (columns, 1) if left else (1, columns)
    lower = params["lower"] != turned
    numbers = (n, systems, *of_a, *of_b, int(lower), int(params["unit_diagonal"]))
    return Loops("ga_triangular", numbers, math.prod(stack), n * n * systems)
