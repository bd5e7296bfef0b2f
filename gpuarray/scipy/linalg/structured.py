"""Matrices known by their structure: Toeplitz, circulant, companion, Hilbert, Pascal, ...

Floor 6. In: the few numbers that make them, with batch axes in front, or a size. Out: matrices.
Those made of given numbers are one gather through a table of indices; those made of a size alone
are worked out exactly, in integers, and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.operands import array, arrays, promoted, promoted_inexact
from gpuarray.numpy.shapes import stretch
from gpuarray.runtime.memory import check_host_size

_NOTHING = 0  # in a table: no number is picked


def _picked(values: Array, table: Any) -> Array:
    """The matrix values[..., table - 1], zero where the table holds 0."""
    # Table entries count from 1; 0 means a zero of the matrix.
    found = gnp.take(values, np.maximum(table - 1, 0), axis=-1)
    if isinstance(table, np.ndarray) and table.all():
        return found
    return gnp.where(table != _NOTHING, found, found.dtype.type(0))


def _grid(rows: Any, columns: Any) -> tuple[Any, Any]:
    """Row and column numbers of a matrix."""
    # Tables are made on the host, except for sizes known only at run time.
    if isinstance(rows, util.Symbolic) or isinstance(columns, util.Symbolic):
        return gnp.arange(rows)[:, None], gnp.arange(columns)[None, :]
    # Sizes that would not fit are refused first.
    check_host_size("a matrix", rows, columns)
    return np.arange(rows)[:, None], np.arange(columns)[None, :]


def _joined(*parts: Array) -> Array:
    """Vectors one behind the other, batch axes stretched to fit."""
    batch = gnp.broadcast_shapes(*(p.shape[:-1] for p in parts))
    return gnp.concatenate([stretch(p, (*batch, p.shape[-1])) for p in parts], axis=-1)


def _vector(name: str, what: str, x: Array) -> Array:
    if x.ndim == 0:
        raise ValueError(f"{name}: {what} must be at least 1-dimensional, got a scalar.")
    return x


def block_diag(*arrs: Any) -> Array:
    """The matrix with the given ones along its diagonal, zeros elsewhere.

    Scalars count as (1, 1), vectors as one row; m_i rows and n_i columns add up.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.block_diag(gnp.ones((1, 2)), 3.)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    if not arrs:
        # SciPy's result for no blocks.
        return gnp.zeros((1, 0))
    blocks = [gnp.atleast_2d(x) for x in promoted("block_diag", *arrs)]
    for i, block in enumerate(blocks):
        if block.ndim > 2:
            raise ValueError(
                "Arguments to block_diag must have at most 2 dimensions, got shape "
                f"{block.shape} at argument {i}."
            )
    width = sum(b.shape[1] for b in blocks)
    rows, done = [], 0
    for b in blocks:
        right = width - done - b.shape[1]
        # Zeros on both sides of each block, as wide as the preceding and following blocks.
        rows.append(lax.pad(b, b.dtype.type(0), [(0, 0, 0), (done, right, 0)]))
        done += b.shape[1]
    return gnp.concatenate(rows, axis=0)


def toeplitz(c: Any, r: Any = None) -> Array:
    """The matrix with constant diagonals: first column c, first row r: (…, m), (…, n) -> (…, m, n).

    r is conj(c) when not given; r[0] is not used.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.toeplitz(gnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 1, 2],
           [3, 2, 1]], dtype=int32)
    """
    if r is None:
        (c,) = arrays("toeplitz", c)
        r = gnp.conj(c)
    c, r = promoted("toeplitz", c, r)
    c, r = gnp.atleast_1d(c), gnp.atleast_1d(r)
    c = gnp.asarray(c, c.dtype)  # no longer of the weak type that a Python number has
    r = gnp.asarray(r, r.dtype)
    rows, columns = _grid(c.shape[-1], r.shape[-1])
    # In front c from its start, then r: below the diagonal i - j counts in c, above it j - i in r.
    # The gather's table is worked out once, on the host.
    table = np.where(rows >= columns, rows - columns, c.shape[-1] + columns - rows)
    return _picked(_joined(c, r), table + 1)


def hankel(c: Any, r: Any = None) -> Array:
    """The matrix with constant anti-diagonals: first column c, last row r: (…, m), (…, n) ->
    (…, m, n).

    r is all zeros when not given; r[0] is not used.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.hankel(gnp.array([1, 2]), gnp.array([2, 7, 8]))
    Array([[1, 2, 7],
           [2, 7, 8]], dtype=int32)
    """
    if r is None:
        (c,) = arrays("hankel", c)
        r = gnp.zeros_like(c)
    c, r = promoted("hankel", c, r)
    _vector("hankel", "c", c)
    r = gnp.atleast_1d(r)
    m = c.shape[-1]
    rows, columns = _grid(m, r.shape[-1])
    # r[0] is not used: the corner belongs to c.
    at = rows + columns
    return _picked(_joined(c, r), np.where(at < m, at, at + 1) + 1)


def circulant(c: Any) -> Array:
    """The matrix whose columns are c, each rotated by one more: (…, n) -> (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.circulant(gnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = gnp.atleast_1d(array("circulant", c))
    n = c.shape[-1]
    rows, columns = _grid(n, n)
    # Entry (i, j) is c[i - j], counted cyclically.
    return _picked(c, (rows - columns) % max(n, 1) + 1)


def companion(a: Any) -> Array:
    """The matrix whose eigenvalues are the roots of a polynomial: (…, n) coefficients -> (…, n - 1,
    n - 1).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.companion(gnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (a,) = promoted_inexact("companion", a)
    a = gnp.atleast_1d(a)
    if a.shape[-1] < 2:
        raise ValueError(
            "The length of `a` along the last axis must be at least 2; got shape " + f"{a.shape}."
        )
    n = a.shape[-1] - 1
    rows, columns = _grid(n, n)
    values = _joined(gnp.ones_like(a[..., :1]), -a[..., 1:] / a[..., :1])
    # The coefficients in the first row, ones below the diagonal.
    return _picked(values, np.where(rows == 0, columns + 2, np.where(rows == columns + 1, 1, 0)))


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Array:
    """The matrix that convolves vectors of length n with a: (…, m) -> (…, k, n).

    Parameters
    ----------
    mode :
        "full" (k = m + n - 1), "same" (k = max(m, n)) or "valid" (k = max(m, n) - min(m, n) + 1).

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.convolution_matrix(gnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    n = util.index(n)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    a = _vector("convolution_matrix", "a", array("convolution_matrix", a))
    m = a.shape[-1]
    if m == 0:
        raise ValueError(f"len(a) must be at least 1; got shape {a.shape}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    short = min(m, n)
    # Rows that "full" has and the mode leaves out, at the start and at the end.
    before = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    count = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - short + 1}[mode]
    rows, columns = _grid(count, n)
    at = rows + before - columns
    return _picked(a, np.where((at >= 0) & (at < m), at + 1, 0))


def fiedler(a: Any) -> Array:
    """The matrix of distances |a_i - a_j|: (…, n) -> (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.fiedler(gnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = gnp.atleast_1d(array("fiedler", a))
    return abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Array:
    """A five-diagonal matrix whose eigenvalues are the roots of a polynomial: (…, n) -> (…, n - 1,
    n - 1).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.fiedler_companion(gnp.array([1., 2., 3., 4.]))
    Array([[-2., -3.,  1.],
           [ 1.,  0.,  0.],
           [ 0., -4.,  0.]], dtype=float32)
    """
    (a,) = promoted_inexact("fiedler_companion", a)
    a = gnp.atleast_1d(a)
    if a.shape[-1] == 0:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, but got an "
            f"array of shape {a.shape}."
        )
    n = a.shape[-1] - 1
    values = _joined(gnp.ones_like(a[..., :1]), -a[..., 1:] / a[..., :1])  # 1, -a_1, -a_2, ...
    table = np.zeros((n, n), int)
    for i in range(n):
        if i % 2:  # a lone 1, two to the left (the first row's is next to the corner)
            table[i, max(i - 2, 0)] = 1
            continue
        table[i, max(i - 1, 0)] = i + 2
        if i + 1 < n:
            table[i, i + 1] = i + 3
        if i + 2 < n:
            table[i, i + 2] = 1
    return _picked(values, table)


def leslie(f: Any, s: Any) -> Array:
    """The matrix of population growth: f in the first row, s below the diagonal: (…, n), (…, n - 1)
    -> (…, n, n).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray import scipy
    >>> scipy.linalg.leslie(gnp.array([0., 2.]), gnp.array([.5]))
    Array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    f, s = promoted("leslie", f, s)
    f, s = gnp.atleast_1d(f), gnp.atleast_1d(s)
    n = f.shape[-1]
    if n < 2:
        raise ValueError(
            f"The length of f along the last axis must be at least 2; got shape {f.shape}."
        )
    if s.shape[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less "
            f"than the length of f; got f shape {f.shape} and s shape {s.shape}."
        )
    rows, columns = _grid(n, n)
    below = np.where(rows == columns + 1, n + columns + 1, 0)
    return _picked(_joined(f, s), np.where(rows == 0, columns + 1, below))


# ---- from a size alone ----


def _constant(rows: Any, n: int, dtype: Any = None) -> Array:
    """Python numbers as an n x n (or as long) matrix, each rounded once."""
    dtype = dtypes.default_float() if dtype is None else dtype
    limit = float(dtypes.finfo(dtype).max)
    # Exact integers become floats here, and inf if they are too large.
    values = [
        [float(v) if abs(v) <= limit else math.copysign(math.inf, v) for v in r] for r in rows
    ]
    return gnp.asarray(np.array(values, np.float64).reshape(len(values), n).astype(dtype))


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The matrix of the discrete Fourier transform: dft(n) @ x is fft(x).

    Parameters
    ----------
    scale :
        None, "sqrtn" (divided by sqrt(n)) or "n" (divided by n).

    Examples
    --------

    >>> from gpuarray import scipy
    >>> scipy.linalg.dft(2)
    Array([[ 1.+0.j,  1.+0.j],
           [ 1.+0.j, -1.+0.j]], dtype=complex64)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    dtype = dtypes.default_complex() if dtype is None else dtypes.check_user_dtype(dtype, "dft")
    if dtypes.kind_of(dtype) != "c":
        raise ValueError(f"dtype must be a complex floating-point type; got {dtype}.")
    size = max(math.ceil(n), 0)
    rows, columns = _grid(size, size)
    # Powers counted modulo 4n in quarters of a turn: the multiples of i come out exactly.
    turns = rows * columns % max(size, 1) * 4
    quarter, rest = np.divmod(turns, max(size, 1))
    angle = rest * (np.pi / 2 / max(size, 1))
    unit = (np.cos(angle) - 1j * np.sin(angle)) * np.array([1, -1j, -1, 1j])[quarter]
    divisor = {None: 1.0, "sqrtn": math.sqrt(size), "n": size}[scale]
    return gnp.asarray((unit / divisor if size else unit).astype(dtype))


def hadamard(n: int, dtype: Any = int) -> Array:
    """The n x n matrix of +1 and -1 with orthogonal rows (Sylvester's), n a power of 2.

    >>> from gpuarray import scipy
    >>> scipy.linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    size = int(n)
    if size != n or size < 1 or size & (size - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    rows, columns = _grid(size, size)
    # (-1) to the number of bits that both indices have.
    signs = 1 - 2 * (np.bitwise_count(rows & columns).astype(int) % 2)
    return gnp.asarray(signs.astype(dtypes.check_user_dtype(dtype, "hadamard")))


def helmert(n: int, full: bool = False) -> Array:
    """Orthonormal contrasts: row k compares entry k with the mean of those before: (n - 1, n).

    Parameters
    ----------
    full :
        Whether to return the (n, n) matrix, with a first row of equal entries.

    Examples
    --------

    >>> from gpuarray import scipy
    >>> scipy.linalg.helmert(2)
    Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    size = math.ceil(n)
    if size < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    rows, columns = _grid(size, size)
    # Row i: i ones and -i, divided by its length; the first row is constant.
    out = np.where(columns < rows, 1.0, np.where(columns == rows, -rows, 0.0))
    out[0] = 1.0
    out /= np.sqrt(np.where(rows == 0, size, rows * (rows + 1.0)))
    return gnp.asarray((out if full else out[1:]).astype(dtypes.default_float()))


def hilbert(n: int) -> Array:
    """The matrix 1 / (i + j + 1), hard to invert: (n, n).

    >>> from gpuarray import scipy
    >>> scipy.linalg.hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    try:
        size = util.index(n)
    except TypeError:
        size = -1
    if size < 0:
        raise TypeError(
            "Shapes must be 1D sequences of concrete values of integer type, every element be "
            f"nonnegative: hilbert got n={n!r}"
        )
    rows, columns = _grid(size, size)
    return gnp.asarray((1.0 / (rows + columns + 1)).astype(dtypes.default_float()))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, whose entries are integers (rounded to the default float).

    >>> from gpuarray import scipy
    >>> scipy.linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    size = max(int(n), 0)
    check_host_size("invhilbert", size, size)
    # In Python's integers: the entries alternate and would cancel in floats.
    # The formula of Choi, "Tricks or treats with the Hilbert matrix" (1983).
    comb = math.comb

    def entry(i: int, j: int) -> int:
        square = comb(i + j, i) ** 2
        return (
            (-1) ** (i + j)
            * (i + j + 1)
            * comb(size + i, size - j - 1)
            * comb(size + j, size - i - 1)
            * square
        )

    return _constant([[entry(i, j) for j in range(size)] for i in range(size)], size)


_KINDS = ("symmetric", "lower", "upper")


def _pascal(n: int, kind: str | None, wording: str) -> tuple[int, str]:
    kind = "symmetric" if kind is None else kind
    if kind not in _KINDS:
        raise ValueError(f"Expected kind to be {wording} of: {list(_KINDS)}; got {kind}")
    size = max(int(n), 0)
    check_host_size("a Pascal matrix", size, size)
    return size, kind


def pascal(n: int, kind: str | None = None) -> Array:
    """Binomial coefficients: C(i + j, i), or C(i, j) ("lower"), or that transposed ("upper").

    >>> from gpuarray import scipy
    >>> scipy.linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    size, kind = _pascal(n, kind, "one")
    entry = {
        "symmetric": lambda i, j: math.comb(i + j, i),
        "lower": math.comb,
        "upper": lambda i, j: math.comb(j, i),
    }[kind]
    return _constant([[entry(i, j) for j in range(size)] for i in range(size)], size)


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, whose entries are integers.

    >>> from gpuarray import scipy
    >>> scipy.linalg.invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    size, kind = _pascal(n, kind, "one")
    comb = math.comb

    def symmetric(i: int, j: int) -> int:
        # pascal = L L^T, so the inverse is (L^-1)^T L^-1.
        return (-1) ** (i + j) * sum(comb(k, i) * comb(k, j) for k in range(max(i, j), size))

    entry = {
        "symmetric": symmetric,
        "lower": lambda i, j: (-1) ** (i + j) * comb(i, j),
        "upper": lambda i, j: (-1) ** (i + j) * comb(j, i),
    }[kind]
    return _constant([[entry(i, j) for j in range(size)] for i in range(size)], size)
