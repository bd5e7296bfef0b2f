"""Eigenvalues of symmetric tridiagonal matrices.

Floor 6. In: the diagonal and the first superdiagonal. Out: eigenvalues by bisection, in O(n)
memory, and eigenvectors.
"""

from __future__ import annotations

from typing import Any

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.functions.custom_jvp import custom_jvp
from gpuarray.numpy.linalg.decompositions import is_complex


def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Any:
    """Eigenvalues (ascending), and vectors as columns, of a symmetric tridiagonal matrix.

    d is the diagonal (n,), e the superdiagonal (n - 1,); for a complex e the subdiagonal is its
    conjugate. select: "a" for all k = n, or "i" for those numbered select_range = (first, last).
    tol: the allowed error of an eigenvalue. Vectors are computed from the full matrix without a
    random start: `key` has no effect.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> d, e = gnp.array([2., 2.]), gnp.array([1.])
    >>> scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True).round(4)
    Array([1., 3.], dtype=float32)
    """
    d, e = gnp.asarray(d), gnp.asarray(e)
    if d.dtype != e.dtype:
        raise TypeError(
            f"diagonal and off-diagonal values must have same dtype, got {d.dtype} and {e.dtype}: "
            "convert one of them"
        )
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise TypeError(
            "eigh_tridiagonal got incompatible shapes: expected (n,) and (n - 1,), got "
            f"{d.shape}, {e.shape}"
        )
    if d.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(
            "Only float32 and float64 inputs are supported as inputs to eigh_tridiagonal, got "
            f"{d.dtype} and {e.dtype}"
        )
    first, last = _range(select, select_range, d.shape[0])
    # The diagonal of a Hermitian matrix is real.
    diagonal = lax.real(d) if is_complex(d) else d
    if eigvals_only:
        return _eigenvalues(first, last, tol, diagonal, e)
    w, v = gnp.linalg.eigh(_matrix(diagonal, e))
    return w[first:last], v[:, first:last]


def _range(select: str, select_range: Any, n: int) -> tuple[int, int]:
    if select == "a":
        if select_range is not None:
            raise ValueError(f"select_range {select_range} is for select='i', got select='a'.")
        return 0, n
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal(..., select='v') is not implemented: how many eigenvalues lie in a "
            "range is not known before; take all and compare"
        )
    if select != "i":
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    if select_range is None:
        raise ValueError("for select='i', select_range must be specified.")
    first, last = (util.index(i) for i in select_range)
    if first > last:
        raise ValueError("Got empty index range in select_range.")
    if first < 0 or last >= n:
        raise ValueError(f"select_range {select_range} is out of bounds for {n} eigenvalues.")
    return first, last + 1


def _matrix(d: Array, e: Array) -> Array:
    d = lax.convert_element_type(d, e.dtype)
    return gnp.diag(d) + gnp.diag(e, 1) + gnp.diag(gnp.conj(e), -1)


def _eigenvalues(first: int, last: int, tol: float | None, d: Array, e: Array) -> Array:
    @custom_jvp
    def found(d, e):
        return _bisected(first, last, tol, d, abs(e))

    @found.defjvp
    def rule(primals, tangents):
        # dw = v^H dT v
        d, e = primals
        dd, de = tangents
        _, v = gnp.linalg.eigh(_matrix(d, e))
        v = v[:, first:last]
        # Diagonal entries weigh |v_i|^2, off-diagonal ones twice the real part of their product.
        of_d = (abs(v) ** 2 * dd[:, None]).sum(0)
        cross = gnp.conj(v[:-1]) * v[1:] * de[:, None]
        return found(d, e), of_d + 2 * gnp.real(cross).sum(0)

    return found(d, e)


def _bisected(first: int, last: int, tol: float | None, d: Array, e: Array) -> Array:
    """Eigenvalues number `first` to `last`, all bisected together."""
    dtype = d.dtype
    if d.shape[0] == 0:
        return d
    info = dtypes.finfo(dtype)
    zero = gnp.zeros(1, dtype)
    left, right = gnp.concatenate([zero, e]), gnp.concatenate([e, zero])
    # Gershgorin: every eigenvalue is in one of these discs.
    low, high = (d - left - right).min(), (d + left + right).max()
    size = gnp.maximum(abs(low), abs(high))
    # Pivots smaller than this are replaced; the scale is that of the squared off-diagonal.
    tiny = dtype.type(info.tiny) * gnp.maximum(1, (e * e).max() if e.shape[0] else 1)
    # Which eigenvalues are wanted, counted from the smallest.
    numbers = gnp.arange(first, last)
    squares = left * left

    def smaller(x: Array) -> Array:
        """The number of eigenvalues below each x: the negative pivots of T - x."""

        def pivot(state, row):
            q, count = state
            diagonal, square = row
            # Sturm: T - x has as many negative pivots as there are eigenvalues below x.
            q = diagonal - x - square / q
            # Never a division by zero; the sign is LAPACK's choice.
            q = gnp.where(abs(q) < tiny, -tiny, q)
            return (q, count + (q < 0)), None

        start = gnp.ones_like(x), gnp.zeros(x.shape, "int32")
        (_, count), _ = lax.scan(pivot, start, (d, squares))
        return count

    def halve(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = state
        middle = low + (high - low) / 2
        # Eigenvalue number k is above the midpoint if at most k are below it.
        below = smaller(middle) <= numbers
        return gnp.where(below, middle, low), gnp.where(below, high, middle)

    # The bounds themselves are rounded: a little room on either side.
    margin = size * (2 * float(info.eps) * d.shape[0]) + tiny
    lows = gnp.full(numbers.shape, low - margin, dtype)
    highs = gnp.full(numbers.shape, high + margin, dtype)
    # Enough to halve the interval down to the last digit.
    steps = info.nmant + 6
    if tol is not None:
        wide = gnp.maximum(high - low, dtype.type(info.tiny))
        steps = gnp.clip(gnp.ceil(gnp.log2(wide / tol)) + 1, 1, steps).astype(dtypes.default_int())
    low, high = lax.fori_loop(0, steps, halve, (lows, highs))
    return low + (high - low) / 2
