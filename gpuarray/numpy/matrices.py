"""Matrices of special form: identities, triangles, diagonals, powers; and window functions.

Floor 6. In: sizes known while tracing, or arrays. Out: Arrays; masks are compared iotas that fuse.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.avals import machine_int
from gpuarray.core.dims import Dim
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape
from gpuarray.lax.lengths import typed
from gpuarray.numpy.arithmetic import power
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.products import diagonal
from gpuarray.numpy.promotion import arrays, broadcast_to, check_arraylike, select, zero_of
from gpuarray.numpy.smooth import i0
from gpuarray.runtime.transfer import device_put


def _coordinates(shape: tuple[int, int]) -> tuple[Array, Array]:
    rows, columns = (lax.broadcasted_iota(dtypes.int32, shape, i) for i in (0, 1))
    return rows, columns


def _offset(k: Any) -> Any:
    """The number of a diagonal: a Python int, or a traced integer."""
    if not isinstance(k, Array):
        k = machine_int(util.index(k))
        if isinstance(k, Dim):
            return typed(k, np.dtype(np.int32))
        return np.int32(min(max(k, -(2**30)), 2**30))  # no matrix has a diagonal beyond
    if dtypes.kind_of(k.dtype) not in "iu" or k.ndim:
        raise TypeError(f"k must be an integer scalar, got {k.aval.str_short()}")
    return as_type(k, dtypes.int32)


def eye(N: int, M: int | None = None, k=0, dtype=None, *, device=None) -> Array:
    """A matrix with ones on its k-th diagonal and zeros elsewhere.

    Shape contract: (N, M), square without M; float by default.

    >>> import gpuarray.numpy as gnp
    >>> gnp.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    wanted = dtypes.default_float() if dtype is None else dtypes.requested_dtype(dtype, "eye")
    (n,) = canonicalize_shape(N, "It is the argument 'N' of jnp.eye().")
    (m,) = (n,) if M is None else canonicalize_shape([M], "It is the argument 'M' of jnp.eye().")
    if n < 0 or m < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    rows, columns = _coordinates((n, m))
    if not isinstance(k, Array):
        k = min(max(util.index(k), -n), m)  # beyond either corner there is no diagonal
    # Ones where row + k = column.
    out = as_type(lax.eq(lax.add(rows, _offset(k)), columns), wanted)
    return out if device is None else device_put(out, device)


def identity(n: int, dtype=None) -> Array:
    """The identity matrix.

    Shape contract: (n, n).

    >>> import gpuarray.numpy as gnp
    >>> gnp.identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


# Row + k >= column.
def _lower(shape: tuple[int, int], k: int) -> Array:
    rows = lax.add(lax.broadcasted_iota(dtypes.int32, shape, 0), _offset(k))
    return lax.ge(rows, lax.broadcasted_iota(dtypes.int32, shape, 1))


def tri(N: int, M: int | None = None, k: int = 0, dtype=None) -> Array:
    """A matrix with ones on and below its k-th diagonal and zeros above.

    Shape contract: (N, M), square without M.

    >>> import gpuarray.numpy as gnp
    >>> gnp.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    wanted = dtypes.default_float() if dtype is None else dtypes.requested_dtype(dtype, "tri")
    return as_type(_lower((N, N if M is None else M), k), wanted)


@composite(static=("k",))
def tril(m, k: int = 0) -> Array:
    """The elements on and below the k-th diagonal, zeros above it.

    Shape contract: the shape of m; the last two axes are the matrix.

    >>> import gpuarray.numpy as gnp
    >>> gnp.tril(gnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    (m,) = arrays("tril", m)
    mask = _triangle("tril", m, k)
    return lax.select_n(mask, lax.full_like(m, 0), m)


@composite(static=("k",))
def triu(m, k: int = 0) -> Array:
    """The elements on and above the k-th diagonal, zeros below it.

    Shape contract: the shape of m; the last two axes are the matrix.

    >>> import gpuarray.numpy as gnp
    >>> gnp.triu(gnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    (m,) = arrays("triu", m)
    # All but the lower triangle one diagonal further down.
    mask = _triangle("triu", m, k - 1 if isinstance(k, Array) else util.index(k) - 1)
    return lax.select_n(mask, m, lax.full_like(m, 0))


def _triangle(name: str, m: Array, k: int) -> Array:
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D, got shape {m.shape}")
    return broadcast_to(_lower((m.shape[-2], m.shape[-1]), k), m.shape)


def diag(v, k: int = 0) -> Array:
    """A matrix with v on its k-th diagonal; of a matrix, its k-th diagonal.

    Shape contract: (n,) becomes (n + |k|, n + |k|), a matrix becomes one-dimensional.

    >>> import gpuarray.numpy as gnp
    >>> gnp.diag(gnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    (v,) = arrays("diag", v)
    if v.ndim == 2:
        return diagonal(v, offset=k)
    if v.ndim != 1:
        raise ValueError(f"diag input must be 1d or 2d, got shape {v.shape}")
    return _diag(v, k=util.index(k))


@composite(static=("k",))
def _diag(v, k):
    zero = zero_of(v)
    # Row i of the matrix has element i, wherever the diagonal is.
    v = lax.pad(v, zero, ((max(0, -k), max(0, k), 0),))
    n = v.shape[0]
    rows, columns = _coordinates((n, n))
    on = lax.eq(lax.add(rows, np.int32(k)), columns)
    lines = lax.broadcast_in_dim(v, (n, n), (0,))
    return select(on, lines, zero)


def diagflat(v, k: int = 0) -> Array:
    """A matrix with the flattened v on its k-th diagonal.

    Shape contract: (n + |k|, n + |k|) for n elements.

    >>> import gpuarray.numpy as gnp
    >>> gnp.diagflat(gnp.array([[1, 2]]), 1).shape
    (3, 3)
    """
    (v,) = arrays("diagflat", v)
    return diag(as_type(lax.reshape(v, (v.size,)), v.dtype), k)


@composite(static=("N", "increasing"))
def vander(x, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of x as the columns of a matrix (Vandermonde), falling unless `increasing`.

    Shape contract: (n,) becomes (n, N), square without N.

    >>> import gpuarray.numpy as gnp
    >>> gnp.vander(gnp.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    (x,) = arrays("vander", x)
    if x.ndim != 1:
        raise ValueError(f"x must be a one-dimensional array, got shape {x.shape}")
    columns = x.shape[0] if N is None else util.index(N)
    if columns < 0:
        raise ValueError(f"N must be nonnegative, got N={columns}")
    through = dtypes.to_numeric_dtype(x.dtype)
    # Powers rise or fall along a row.
    exponents = lax.iota(through, columns)
    if not increasing:
        exponents = lax.sub(through.type(max(columns - 1, 0)), exponents)
    return power(lax.expand_dims(x, (1,)), exponents)


# ---- windows ----


def _window_positions(M: int) -> Array:
    return lax.iota(dtypes.default_float(), M)


def _cosine(n: Array, turns: float, M: int) -> Array:
    """cos(2 pi turns n / (M - 1))."""
    kind = n.dtype.type
    return lax.cos(lax.div(lax.mul(kind(2 * math.pi * turns), n), kind(M - 1)))


def _ones(M: int) -> Array:
    return lax.full((max(M, 0),), 1, dtypes.default_float())


def bartlett(M: int) -> Array:
    """The triangular window of M points, zero at both ends.

    >>> import gpuarray.numpy as gnp
    >>> gnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    if M <= 1:
        # A window of one point is 1, an empty one has none.
        return _ones(M)
    n = _window_positions(M)
    kind = n.dtype.type
    # 1 - |2n + 1 - M| / (M - 1), a triangle.
    centred = lax.abs(lax.sub(lax.add(lax.mul(kind(2), n), kind(1)), kind(M)))
    return lax.sub(kind(1), lax.div(centred, kind(M - 1)))


def hanning(M: int) -> Array:
    """The Hann window of M points, 0.5 - 0.5 cos.

    >>> import gpuarray.numpy as gnp
    >>> gnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    if M <= 1:
        return _ones(M)
    n = _window_positions(M)
    kind = n.dtype.type
    return lax.mul(kind(0.5), lax.sub(kind(1), _cosine(n, 1, M)))


def hamming(M: int) -> Array:
    """The Hamming window of M points, 0.54 - 0.46 cos.

    >>> import gpuarray.numpy as gnp
    >>> gnp.hamming(3).round(2)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    if M <= 1:
        return _ones(M)
    n = _window_positions(M)
    kind = n.dtype.type
    return lax.sub(kind(0.54), lax.mul(kind(0.46), _cosine(n, 1, M)))


def blackman(M: int) -> Array:
    """The Blackman window of M points, 0.42 - 0.5 cos + 0.08 cos of the double angle.

    >>> import gpuarray.numpy as gnp
    >>> gnp.blackman(3).round(2)
    Array([-0.,  1., -0.], dtype=float32)
    """
    if M <= 1:
        return _ones(M)
    n = _window_positions(M)
    kind = n.dtype.type
    first = lax.sub(kind(0.42), lax.mul(kind(0.5), _cosine(n, 1, M)))
    return lax.add(first, lax.mul(kind(0.08), _cosine(n, 2, M)))


def kaiser(M: int, beta) -> Array:
    """The Kaiser window of M points: i0(beta sqrt(1 - x**2)) / i0(beta) for x from -1 to 1.

    >>> import gpuarray.numpy as gnp
    >>> gnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    check_arraylike("kaiser", beta)
    if M <= 1:
        return _ones(M)
    n = _window_positions(M)
    kind = n.dtype.type
    beta = as_type(asarray(beta), n.dtype)
    # Positions from 0 to M - 1 become x from -1 to 1.
    middle = kind((M - 1) / 2)
    x = lax.div(lax.sub(n, middle), middle)
    # I0(beta sqrt(1 - x**2)) / I0(beta), x from -1 to 1.
    inside = lax.sqrt(lax.sub(kind(1), lax.integer_pow(x, 2)))
    return lax.div(i0(lax.mul(beta, inside)), i0(beta))
