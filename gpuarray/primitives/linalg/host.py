"""Factorisations of stacks of many small matrices.

Floor 2. In: a stack of matrices, (count, rows, columns). Out: their factors, as LAPACK gives them
for each. A call of LAPACK takes microseconds before it computes anything; here every step of the
algorithm is a few NumPy calls along the whole stack, which is the innermost axis in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuarray.core import threads

#: A stack is of many small matrices from this many matrices, of at most this many rows or columns.
MANY, SMALL = 32, 16
#: Elements worked on at a time, so that intermediate results stay in cache.
AT_ONCE = 1 << 16
#: Elements that a thread takes at a time where LAPACK iterates: some hundred microseconds.
ITERATED = 1 << 12


def is_many_small(shape: tuple[int, ...]) -> bool:
    """Whether a stack of shape (..., rows, columns) is one of many small matrices.

    >>> is_many_small((100, 3, 3)), is_many_small((100, 30, 30)), is_many_small((3, 3))
    (True, False, False)
    """
    return math.prod(shape[:-2]) >= MANY and 0 < max(shape[-2:]) <= SMALL


def permutation(exchanged: list[int], size: int) -> np.ndarray:
    """Return the permutation that row exchanges (i with exchanged[i], in order) amount to.

    >>> permutation([2, 2], 3)
    array([2, 0, 1], dtype=int32)
    """
    order = list(range(size))
    for i, j in enumerate(exchanged):
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int32)


def cholesky(a: np.ndarray) -> tuple[np.ndarray]:
    """Return the lower Cholesky factors of positive definite matrices.

    A matrix without a factor gives nan throughout, as does one with a nan.

    >>> cholesky(np.array([[[4.0, 2.0], [2.0, 5.0]]]))[0]
    array([[[2., 0.],
            [1., 2.]]])
    """
    out = np.empty(a.shape, a.dtype)
    for some, x in _parts(a):
        # Right-looking algorithm: scale column k, then update the columns behind it.
        bad = np.zeros(x.shape[2], bool)
        # x is (rows, columns, stack): each step works on all matrices.
        for k in range(len(x)):
            pivot = x[k, k].real.copy()
            # A nan pivot is not <= 0; it makes the rest nan without being marked.
            bad |= pivot <= 0
            x[k, k] = np.sqrt(pivot)
            # Entries above the diagonal are cleared, as LAPACK's `clean` does.
            x[k, k + 1 :] = 0
            x[k + 1 :, k] /= x[k, k].real
            below = x[k + 1 :, k]
            for i in range(len(below)):  # only entries below the diagonal are read
                x[k + 1 + i :, k + 1 + i] -= below[i:] * below[i].conj()
        x[:, :, bad] = np.nan
        out[some] = x.transpose(2, 0, 1)
    return (out,)


def lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """LU factors in one matrix, the row exchanged at each step, and where each row came from.

    >>> factors, exchanged, order = lu(np.array([[[1.0, 2.0], [4.0, 4.0]]]))
    >>> factors[0], exchanged[0], order[0]
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1], dtype=int32), array([1, 0], dtype=int32))
    """
    count, rows, columns = a.shape
    steps = min(rows, columns)
    out = np.empty(a.shape, a.dtype)
    pivots = np.empty((count, steps), np.int32)
    order = np.empty((count, rows), np.int32)
    for some, x in _parts(a):
        # Elements of row r, in all matrices, are at r * width + `each` of the flattened stack.
        each, flat = np.arange(x.shape[2]), x.reshape(-1)
        width = columns * len(each)
        came = np.repeat(np.arange(rows, dtype=np.int32)[:, None], len(each), 1)
        for k in range(steps):
            # Partial pivoting: the largest element of the column, the first of equal ones.
            best = k + _largest(_size(x[k:, k]))
            pivots[some, k] = best
            if k + 1 == rows:
                break
            # Exchange row k with the pivot row, in each matrix another one.
            for column in range(columns):
                there = best * width + (column * len(each) + each)
                row = flat.take(there)
                flat[there] = x[k, column]
                x[k, column] = row
            there = best * len(each) + each
            row = came.take(there)
            came.reshape(-1)[there] = came[k]
            came[k] = row
            pivot = x[k, k]
            x[k + 1 :, k] /= np.where(pivot == 0, 1, pivot)  # below a zero all are zero
            # The outer product that eliminates column k, in all matrices.
            x[k + 1 :, k + 1 :] -= x[k + 1 :, k, None] * x[k, None, k + 1 :]
        out[some] = x.transpose(2, 0, 1)
        order[some] = came.T
    return out, pivots, order


def _largest(size: np.ndarray) -> np.ndarray:
    """Return `np.argmax(size, axis=0)` for a few long rows, row by row."""
    if np.isnan(size).any():
        return np.argmax(size, axis=0)
    top, where = size[0].copy(), np.zeros(size.shape[1], np.intp)
    for number, row in enumerate(size[1:], 1):
        np.copyto(where, number, where=row > top)
        np.maximum(top, row, out=top)
    return where


def _size(x: Any) -> Any:
    """Return the size of a pivot as LAPACK measures it: |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR: upper factors with Householder reflectors below the diagonal, and their weights (tau).

    >>> packed, weights = geqrf(np.array([[[3.0], [4.0]]]))
    >>> packed[0, 0], weights.round(2)
    (array([-5.]), array([[1.6]]))
    """
    count, rows, columns = a.shape
    steps = min(rows, columns)
    out, weights = np.empty(a.shape, a.dtype), np.empty((count, steps), a.dtype)
    for some, x in _parts(a):
        # Each step leaves an upper row and a reflector.
        for k in range(steps):
            weights[some, k] = _reflect(x, k)
        out[some] = x.transpose(2, 0, 1)
    return out, weights


def _reflect(x: Any, k: int) -> Any:
    """Clear column k below the diagonal and store the reflector there; return its weight."""
    alpha, below = x[k, k].copy(), x[k + 1 :, k]
    # Scaled by the largest element, so that squares neither overflow nor vanish (as dnrm2).
    largest = np.abs(x[k:, k]).max(axis=0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1)
    length = scale * np.sqrt(((np.abs(x[k:, k]) / scale) ** 2).sum(axis=0))
    # The sign that adds to alpha, so that alpha - beta does not cancel.
    beta = -np.copysign(length, alpha.real)
    still = (np.abs(below) == 0).all(axis=0) & (alpha.imag == 0)  # no reflection needed
    beta = np.where(still, 1, beta)
    weight = np.where(still, 0, (beta - alpha) / beta)
    below /= np.where(still, 1, alpha - beta)
    x[k, k] = np.where(still, alpha, beta)
    # Apply I - conj(weight) v v^H to the columns behind, with v = (1, below).
    rest = x[k:, k + 1 :]
    shadow = rest[0] + (below.conj()[:, None] * rest[1:]).sum(axis=0)
    shadow *= weight.conj()
    rest[0] -= shadow
    rest[1:] -= below[:, None] * shadow[None]
    return weight


def q_of(packed: np.ndarray, weights: np.ndarray, columns: int) -> np.ndarray:
    """Return the first columns of the orthogonal factors represented by reflectors.

    >>> q_of(*geqrf(np.array([[[3.0], [4.0]]])), 1).round(2)
    array([[[-0.6],
            [-0.8]]])
    """
    count, rows, _ = packed.shape
    out = np.empty((count, rows, columns), packed.dtype)
    for some, x in _parts(packed):
        q = np.zeros((rows, columns, x.shape[2]), packed.dtype)
        # Start from the first columns of the identity.
        q[range(min(rows, columns)), range(min(rows, columns))] = 1
        # From the last reflector to the first, so that each works on the smallest block (as
        # dorgqr).
        for k in range(weights.shape[1] - 1, -1, -1):
            below = x[k + 1 :, k]
            shadow = q[k] + (below.conj()[:, None] * q[k + 1 :]).sum(axis=0)
            shadow *= weights[some, k]
            q[k] -= shadow
            q[k + 1 :] -= below[:, None] * shadow[None]
        out[some] = q.transpose(2, 0, 1)
    return out


def solve_triangular(a: np.ndarray, b: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    """Solve a x = b for triangular a.

    >>> a, b = np.array([[[2.0, 0.0], [1.0, 4.0]]]), np.array([[[2.0], [9.0]]])
    >>> solve_triangular(a, b, lower=True, unit=False)[0]
    array([[1.],
           [2.]])
    """
    out = np.empty(b.shape, b.dtype)
    n = a.shape[1]
    for some, m in _parts(a):
        x = b[some].transpose(1, 2, 0).copy()
        # Substitution by columns: subtract each solved unknown from the rows that are left.
        for i in range(n) if lower else range(n - 1, -1, -1):
            # A unit diagonal is not stored: no division.
            if not unit:
                x[i] /= m[i, i]
            left = slice(i + 1, n) if lower else slice(0, i)
            x[left] -= m[left, i, None] * x[i]
        out[some] = x.transpose(2, 0, 1)
    return out


def iterated(function: Callable[..., tuple], a: np.ndarray) -> list[np.ndarray]:
    """Apply an iterative `function` of NumPy's to the parts of a stack, in several threads.

    >>> iterated(lambda x: (np.linalg.eigvalsh(x),), np.array([[[2.0]], [[np.inf]]]))[0]
    array([[ 2.],
           [nan]])
    """
    step = max(1, ITERATED // max(1, a.shape[1] * a.shape[2]))
    if len(a) <= step:
        return of_finite(function, a)
    found: list[Any] = [None] * -(-len(a) // step)

    def part(some: slice) -> None:
        found[some.start // step] = of_finite(function, a[some])

    threads.each(part, len(a), step)
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def of_finite(function: Callable[..., tuple], a: np.ndarray) -> list[np.ndarray]:
    """Apply an iterative `function` to a stack; matrices on which it fails give nan.

    >>> of_finite(lambda x: (np.linalg.eigvalsh(x),), np.array([[[2.0]], [[np.inf]]]))[0]
    array([[ 2.],
           [nan]])
    """
    bad: Any = ~np.isfinite(a).all(axis=(1, 2))
    try:
        # A matrix with inf or nan would end LAPACK's run for the whole stack.
        outs = function(np.where(bad[:, None, None], a.dtype.type(0), a) if bad.any() else a)
    except np.linalg.LinAlgError:  # one matrix is enough: find it by running them one by one
        if len(a) == 1:
            # The one matrix that fails: nan in its place gives results of the right shapes.
            return of_finite(function, np.full_like(a, np.nan))
        alone = [of_finite(function, a[k : k + 1]) for k in range(len(a))]
        return [np.concatenate(parts) for parts in zip(*alone, strict=True)]
    outs = [np.asarray(x) for x in outs]
    for x in outs if bad.any() else ():
        x[bad] = np.nan
    return outs


def _parts(a: np.ndarray) -> Iterator[tuple[slice, Any]]:
    """Yield pieces of a stack, each as a copy with the stack innermost."""
    # At least MANY matrices, so that each NumPy call has enough to do.
    step = max(MANY, AT_ONCE // (a.shape[1] * a.shape[2]))
    for start in range(0, len(a), step):
        some = slice(start, start + step)
        yield some, a[some].transpose(1, 2, 0).copy()


def on_stacks(function: Callable[..., Any]) -> Callable[..., list[np.ndarray]]:
    """Extend a function of stacks with one leading axis to any number of them."""

    def run(*arrays: np.ndarray) -> list[np.ndarray]:
        # Concatenate all stacks, and separate their results.
        lead = arrays[0].shape[:-2]
        outs = function(*(x.reshape(-1, *x.shape[-2:]) for x in arrays))
        return [x.reshape(*lead, *x.shape[1:]) for x in outs]

    return run
