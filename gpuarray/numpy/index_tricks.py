"""Index arrays and elements at them: take and put along axes, diagonals, triangles, `ix_`.

Floor 6. In: arrays and positions, or shapes alone. Out: elements picked or replaced, or tuples of
index arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import errors, lax, util
from gpuarray.core import dtypes, promotion
from gpuarray.core.dims import Dim, larger, smaller
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.lax import GatherDimensionNumbers, GatherScatterMode
from gpuarray.lax.ranks import check_ranks
from gpuarray.lax.slicing import reaching
from gpuarray.numpy import indexer
from gpuarray.numpy.arithmetic import divmod, mod
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.functions import clip
from gpuarray.numpy.joining import stack, tile
from gpuarray.numpy.operands import array, arrays, no_out
from gpuarray.numpy.promotion import check_arraylike, convert, value
from gpuarray.numpy.selection import nonzero, refuse_inplace, where
from gpuarray.numpy.shapes import (
    add_axes,
    broadcast_arrays,
    broadcast_shapes,
    ravel,
    reshape,
    stretch,
)
from gpuarray.numpy.shapes import shape as lengths
from gpuarray.runtime.memory import check_host_size
from gpuarray.util import canonical_axis

# ---- elements by position -------------------------------------------------------------------


def take(
    a,
    indices,
    axis: int | None = None,
    out=None,
    mode: str | GatherScatterMode | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value=None,
) -> Array:
    """The slices of `a` at positions along an axis (of the flattened array when `axis` is None).

    (…, n, …) and indices (k, …) -> (…, k, …, …). mode: None or "fill" gives `fill_value` (NaN, or
    the smallest or largest integer) out of bounds, "clip" the nearest slice, "wrap" counts round.

    >>> import gpuarray.numpy as gnp
    >>> gnp.take(gnp.array([10., 20.]), gnp.array([1, -1, 2]))
    Array([20., 20., nan], dtype=float32)
    """
    no_out("take", out)
    a, positions = arrays("take", a, indices)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    if not dtypes.issubdtype(positions.dtype, np.integer):
        raise ValueError(f"indices must have an integer type, got {positions.dtype}")
    n = a.shape[axis]
    # An empty axis has no elements to take.
    if n == 0 and positions.size != 0:
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if n == 0:
        return lax.full((*a.shape[:axis], *positions.shape, *a.shape[axis + 1 :]), 0, a.dtype)
    how: Any = mode
    at: Any = positions
    # JAX's default: nan (or the dtype's fill value) out of bounds; negative positions count from
    # the end.
    if mode in (None, "fill"):
        how = GatherScatterMode.FILL_OR_DROP
        at = indexer.wrapped(positions, n, axis)
    elif mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.take is not supported. Use 'fill', 'clip' or 'wrap'."
        )
    elif mode == "wrap":
        at = mod(reaching(positions, n), n)
        how = GatherScatterMode.PROMISE_IN_BOUNDS
    elif mode == "clip":
        how = GatherScatterMode.CLIP
    elif not isinstance(mode, GatherScatterMode):
        raise ValueError(f"Invalid mode '{mode}' for np.take. Use 'fill', 'clip' or 'wrap'.")
    # A window is one slice of the array: whole along every axis but one.
    sizes = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    # Narrow positions could not reach the end of a long axis.
    if at.dtype.itemsize < 4:
        at = lax.convert_element_type(at, np.int32)
    rank = a.ndim - 1 + at.ndim
    # The result has the axes of the positions in the place of the axis.
    offset = [i for i in range(rank) if not axis <= i < axis + at.ndim]
    return lax.gather(
        a,
        add_axes(at, (at.ndim,)),
        GatherDimensionNumbers(
            tuple(offset), collapsed_slice_dims=(axis,), start_index_map=(axis,)
        ),
        sizes,
        mode=how,
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
    )


def take_along_axis(
    arr,
    indices,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value=None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """For every lane along an axis, the elements at that lane's own positions.

    arr (…, n, …) and indices (…, k, …), the other axes broadcasting, -> (…, k, …)

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.array([[3, 1, 2]])
    >>> gnp.take_along_axis(x, gnp.argsort(x, axis=1), axis=1)
    Array([[1, 2, 3]], dtype=int32)
    """
    arr, indices = arrays("take_along_axis", arr, indices)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"take_along_axis indices must be of integer type, got {indices.dtype}")
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(
                f"take_along_axis indices must be 1D if axis=None, got shape {indices.shape}"
            )
        arr, axis = ravel(arr), 0
    rank = arr.ndim
    if rank != indices.ndim:
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {indices.ndim} vs. {rank}"
        )
    axis = canonical_axis(axis, rank)
    n, k = arr.shape[axis], indices.shape[axis]
    # All axes but the one broadcast.
    others = broadcast_shapes(
        *[tuple(1 if i == axis else m for i, m in enumerate(x.shape)) for x in (arr, indices)]
    )
    # Lanes are batch dimensions of the gather: each has its own positions.
    lanes = tuple(i for i in range(rank) if i != axis)
    arr = stretch(arr, tuple(n if i == axis else m for i, m in enumerate(others)))
    indices = stretch(indices, tuple(k if i == axis else m for i, m in enumerate(others)))
    how: Any = GatherScatterMode.FILL_OR_DROP if mode is None else mode
    if isinstance(how, str):
        how = GatherScatterMode.from_any(how)
    # Negative positions count from the end, unless the caller promises that there are none.
    if wrap_negative_indices is None:
        wrap_negative_indices = how is not GatherScatterMode.PROMISE_IN_BOUNDS
    if wrap_negative_indices:
        indices = indexer.wrapped(indices, n, axis)
    if 0 in indices.shape:
        return lax.full(indices.shape, 0, arr.dtype)
    return lax.gather(
        arr,
        reshape(indices, (*indices.shape, 1)),
        GatherDimensionNumbers(
            (),
            collapsed_slice_dims=(axis,),
            start_index_map=(axis,),
            operand_batching_dims=lanes,
            start_indices_batching_dims=lanes,
        ),
        (1,) * rank,
        mode=how,
        fill_value=fill_value,
    )


def put(a, ind, v, mode: str | None = None, *, inplace: bool = True) -> Array:
    """`a` with the elements at flat positions `ind` replaced by `v`, which repeats as needed.

    Parameters
    ----------
    mode :
        "clip", to the first and the last element (negative positions to the first), or "wrap"; by
        default negative positions count from the end, and others are clipped. Arrays are immutable,
        so `inplace=False` has to be passed.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.put(gnp.zeros(3), gnp.array([0, 2]), 5., inplace=False)
    Array([5., 0., 5.], dtype=float32)
    """
    refuse_inplace("put", inplace)
    a, positions, values = arrays("put", a, ind, v)
    positions, values = ravel(positions), ravel(values)
    if not a.size or not positions.size or not values.size:
        return a
    # NumPy repeats the values as often as needed.
    if values.size < positions.size:
        values = tile(values, -(-positions.size // values.size))
    values = values[: positions.size]
    positions = reaching(positions, a.size)
    # Out of bounds: clamped. Negative ones count from the end first, unless "clip" is asked for.
    if mode in (None, "clip"):
        positions = positions if mode else indexer.wrapped(positions, a.size)
        first, last = map(positions.dtype.type, (0, a.size - 1))
        positions = lax.clamp(first, positions, last)
    elif mode == "wrap":
        positions = mod(positions, a.size)
    elif mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.put is not supported. Use 'clip' or 'wrap'."
        )
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    flat = ravel(a).at[positions].set(lax.convert_element_type(values, a.dtype))
    return reshape(flat, a.shape)


def put_along_axis(
    arr, indices, values, axis: int | None, inplace: bool = True, *, mode=None
) -> Array:
    """`arr` with the elements at every lane's own positions along an axis replaced by `values`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.put_along_axis(gnp.zeros((2, 2)), gnp.array([[0], [1]]), 5., 1, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    refuse_inplace("put_along_axis", inplace)
    arr, indices, values = arrays("put_along_axis", arr, indices, values)
    origin = arr.shape
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"put_along_axis indices must be of integer type, got {indices.dtype}")
    if indices.ndim != arr.ndim:
        raise ValueError(
            f"put_along_axis arguments 'arr' and 'indices' must have same ndim. Got {arr.ndim} and "
            f"{indices.ndim}."
        )
    # Along the axis the positions given, along all others the own place.
    index: list[Any] = []
    for i, n in enumerate(arr.shape):
        lane = [1] * arr.ndim
        lane[i] = n
        index.append(indices if i == axis else reshape(lax.iota(np.int32, n), lane))
    return reshape(arr.at[tuple(index)].set(values, mode=mode), origin)


# ---- between flat and many-dimensional positions --------------------------------------------


def unravel_index(indices, shape) -> tuple[Array, ...]:
    """Flat positions as one index array for each axis; out of range ones are clamped to the end.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unravel_index(gnp.array([1, 5]), (2, 3))
    (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    flat = array("unravel_index", indices)
    alone = not hasattr(shape, "__iter__") or getattr(shape, "ndim", 1) == 0
    # A traced shape is as good: lengths only divide.
    given = (shape,) if alone else tuple(shape)
    lengths = [n if isinstance(n, Tracer) else util.index(n) for n in given]
    total = math.prod(lengths)
    # Results have the dtype of the indices, promoted with lengths that are arrays, if that holds
    # them.
    dtype = flat.dtype
    narrow = dtypes.issubdtype(dtype, np.integer) and all(
        isinstance(n, (Tracer, util.Symbolic)) or n - 1 <= dtypes.iinfo(dtype).max for n in lengths
    )
    flat = reaching(flat, total)
    one = flat.dtype.type
    # Negative positions count from the end; beyond either end the nearest one is taken, as in JAX.
    flat = where(lax.lt(flat, one(0)), flat + total, flat)
    flat = clip(flat, 0, total - 1)
    out = []
    # The last axis runs fastest.
    for n, stated in zip(reversed(lengths), reversed(given), strict=True):
        flat, position = divmod(flat, n)
        dtype = promotion.result_type(dtype, stated)
        out.append(as_type(position, dtype) if narrow and position.dtype != dtype else position)
    return tuple(reversed(out))


@check_ranks("*multi_index")
def ravel_multi_index(
    multi_index: Sequence, dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype=None
) -> Array:
    """One index array an axis as flat positions.

    Parameters
    ----------
    mode :
        How positions out of range are treated: "raise" (not while tracing), "wrap", "clip" or
        "ignore".
    order :
        "C" or "F".
    dtype :
        Dtype of the result; default: that of the indices. One that does not hold the last position
        is refused.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.ravel_multi_index((gnp.array([0, 1]), gnp.array([1, 2])), (2, 3))
    Array([1, 5], dtype=int32)
    """
    lengths = list(util.indices(dims))
    found = arrays("ravel_multi_index", *multi_index)
    if len(found) != len(lengths):
        raise ValueError(
            f"ravel_multi_index takes one index array for every dimension: got {len(found)} for "
            f"dims={dims}"
        )
    given = found
    for i in found:
        if not dtypes.issubdtype(i.dtype, np.integer):
            raise ValueError(f"dtype={i.dtype!r} is not an integer type.")
    # Refusing needs the values.
    if mode == "raise":
        for i, n in zip(found, lengths, strict=True):
            known = indexer.known_value(i)
            if known is None:
                raise errors.ConcretizationTypeError(
                    i,
                    "The error occurred because ravel_multi_index was jit-compiled with "
                    "mode='raise'. Use mode='wrap' or mode='clip' instead.",
                )
            if ((known < 0) | (known >= n)).any():
                raise ValueError(f"invalid entry in coordinates array: outside 0..{n - 1}")
    elif mode == "clip":
        found = [clip(reaching(i, n), 0, n - 1) for i, n in zip(found, lengths, strict=True)]
    elif mode == "wrap":
        found = [mod(reaching(i, n), n) for i, n in zip(found, lengths, strict=True)]
    elif mode != "ignore":
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    # The stride of each axis in the flattened array.
    if order == "C":
        strides = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    elif order == "F":
        strides = [math.prod(lengths[:i]) for i in range(len(lengths))]
    else:
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    if dtype is not None:
        kind = dtypes.check_user_dtype(dtype, "ravel_multi_index")
    else:
        kind = promotion.result_type(*given) if given else dtypes.default_int()
    # The largest position has to fit.
    if math.prod(lengths) - 1 > dtypes.iinfo(kind).max:
        raise ValueError(
            f"ravel_multi_index: {kind} does not hold the positions of dims={tuple(lengths)}. Give "
            "a wider one by the argument `dtype`."
        )
    terms = [
        lax.convert_element_type(i, kind) * kind.type(step)
        for i, step in zip(found, strides, strict=True)
    ]
    return functools.reduce(lax.add, broadcast_arrays(*terms)) if terms else lax.full((), 0, kind)


# ---- index arrays from shapes ---------------------------------------------------------------


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` axes of length n.

    >>> import gpuarray.numpy as gnp
    >>> gnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = util.index(n), util.index(ndim)
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (lax.iota(dtypes.default_int(), n),) * ndim


def diag_indices_from(arr) -> tuple[Array, ...]:
    """The positions of the main diagonal of `arr`, whose axes have one length.

    >>> import gpuarray.numpy as gnp
    >>> gnp.diag_indices_from(gnp.zeros((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    arr = array("diag_indices_from", arr)
    if arr.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], arr.ndim)


def _triangle(name: str, n, k, m) -> tuple[Array, Array]:
    n, k = util.index(n), util.index(k)
    m = n if m is None else util.index(m)
    if Dim in map(type, (n, k, m)):
        return _symbolic_triangle(name == "triu_indices", n, k, m)
    check_host_size(name, max(n, 0), max(m, 0))
    # Positions depend on shapes alone: NumPy computes them once.
    rows, columns = getattr(np, name)(n, k, m)
    kind = dtypes.default_int()
    return asarray(rows.astype(kind)), asarray(columns.astype(kind))


def _symbolic_triangle(upper: bool, n: Any, k: Any, m: Any) -> tuple[Array, Array]:
    """The positions of a triangle whose size is not known yet: those where a mask is true."""
    if upper:  # all but those below the diagonal
        k = k - 1
    # Rows up to `first` have none of the m columns on or below the diagonal, those from `full` on
    # all of them; in between there is one more in each row.
    first = smaller(larger(-k, 0), n)
    full = smaller(larger(m - k - 1, first), n)
    count = (full - first) * (first + full + 2 * k + 1) // 2 + m * (n - full)
    size = larger(n * m - count if upper else count, 0)
    rows, columns = (lax.broadcasted_iota(np.int32, (n, m), axis) for axis in (0, 1))
    mask = columns > rows + k if upper else columns <= rows + k
    rows, columns = nonzero(mask, size=size)
    return rows, columns


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions in an (n, m) array on and below the k-th diagonal.

    >>> import gpuarray.numpy as gnp
    >>> gnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _triangle("tril_indices", n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions in an (n, m) array on and above the k-th diagonal.

    >>> import gpuarray.numpy as gnp
    >>> gnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _triangle("triu_indices", n, k, m)


def tril_indices_from(arr, k: int = 0) -> tuple[Array, Array]:
    """The positions in a matrix on and below the k-th diagonal.

    >>> import gpuarray.numpy as gnp
    >>> gnp.tril_indices_from(gnp.zeros((2, 2)), k=-1)
    (Array([1], dtype=int32), Array([0], dtype=int32))
    """
    return tril_indices(*_matrix_shape("tril_indices_from", arr, k))


def triu_indices_from(arr, k: int = 0) -> tuple[Array, Array]:
    """The positions in a matrix on and above the k-th diagonal.

    >>> import gpuarray.numpy as gnp
    >>> gnp.triu_indices_from(gnp.zeros((2, 2)), k=1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    return triu_indices(*_matrix_shape("triu_indices_from", arr, k))


def _matrix_shape(name: str, arr, k: int) -> tuple[int, int, int]:
    check_arraylike(name, arr)
    shape = lengths(arr)
    if len(shape) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return shape[0], k, shape[1]


def mask_indices(n: int, mask_func, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """The positions in an (n, n) array that `mask_func(ones, k)` leaves nonzero.

    >>> import gpuarray.numpy as gnp
    >>> gnp.mask_indices(2, gnp.triu, 1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    rows, columns = nonzero(mask_func(lax.full((n, n), 1.0), k), size=size)
    return rows, columns


def indices(dimensions: Sequence[int], dtype=None, sparse: bool = False) -> Any:
    """Every place's own position: shape (ndim, *dimensions), or with sparse=True a tuple that
    broadcasts to it.

    >>> import gpuarray.numpy as gnp
    >>> gnp.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    kind = dtypes.default_int() if dtype is None else dtypes.requested_dtype(dtype, "indices")
    lengths = util.indices(dimensions)
    rank = len(lengths)
    out = []
    for axis, n in enumerate(lengths):
        line = lax.iota(kind, n)
        if sparse:
            out.append(reshape(line, [n if i == axis else 1 for i in range(rank)]))
        else:
            out.append(lax.broadcast_in_dim(line, lengths, (axis,)))
    if sparse:
        return tuple(out)
    return stack(out) if out else lax.full((0,), 0, kind)


def ix_(*args) -> tuple[Array, ...]:
    """Arrays (a,), (b,), … shaped (a, 1, …), (1, b, …), …: together they index the product of their
    positions.

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.arange(9).reshape(3, 3)
    >>> x[gnp.ix_(gnp.array([0, 2]), gnp.array([1, 2]))]
    Array([[1, 2],
           [7, 8]], dtype=int32)
    """
    found = arrays("ix_", *args)
    out = []
    for i, a in enumerate(found):
        if a.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {a.shape}"
            )
        if a.dtype == np.bool_:
            raise NotImplementedError(
                "Boolean arguments to jax.numpy.ix_ are not implemented. Use nonzero(mask)[0]."
            )
        # An empty list is one of floats to NumPy.
        if a.shape[0] == 0:
            a = lax.convert_element_type(a, dtypes.default_int())
        # Its own axis stays where it is; all others get length 1.
        new = [j for j in range(len(found)) if j != i]
        out.append(add_axes(a, new) if new else a)
    return tuple(out)


def fill_diagonal(a, val, wrap: bool = False, *, inplace: bool = True) -> Array:
    """`a` with its main diagonal replaced by `val`, which repeats as needed.

    Arrays are immutable, so `inplace=False` has to be passed.

    >>> import gpuarray.numpy as gnp
    >>> gnp.fill_diagonal(gnp.zeros((2, 2)), 7., inplace=False)
    Array([[7., 0.],
           [0., 7.]], dtype=float32)
    """
    if inplace:
        raise NotImplementedError("JAX arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a = array("fill_diagonal", a)
    check_arraylike("fill_diagonal", val)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    # A matrix need not be square.
    n = min(a.shape)
    values = convert(value(val), a.dtype, False)
    # Several values go round the diagonal, as often as needed.
    if np.ndim(val):
        flat = ravel(values)
        values = tile(flat, -(-n // flat.size))[:n] if flat.size else flat
    return a.at[diag_indices(n, a.ndim)].set(values)
