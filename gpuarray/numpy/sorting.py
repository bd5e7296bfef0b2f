"""Sorting and searching: sort, argsort, lexsort, partition, searchsorted, digitize.

Floor 6. In: arrays. Out: arrays in order, or the positions that put them there. NaN sorts last.
"""

from __future__ import annotations

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.axes import flip
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.joining import unstack
from gpuarray.numpy.operands import array, arrays, promoted
from gpuarray.numpy.selection import choose_by
from gpuarray.numpy.shapes import ravel
from gpuarray.primitives.order.search import searchsorted_p
from gpuarray.primitives.order.sort import sort_p
from gpuarray.util import Symbolic, canonical_axis


def sort(
    a,
    axis: int | None = -1,
    *,
    kind=None,
    order=None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in ascending order along an axis; axis=None sorts the flattened array.

    >>> import gpuarray.numpy as gnp
    >>> gnp.sort(gnp.array([3, 1, 2]), descending=True)
    Array([3, 2, 1], dtype=int32)
    """
    # NumPy's `kind` and `order` choose algorithms and fields, which do not exist here.
    a = array("sort", a)
    _refuse_numpy_options("sort", kind, order)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    out = _sorted(a, axis, stable)
    # nan comes first then.
    return flip(out, axis) if descending else out


def _sorted(a: Array, axis: int, stable: bool = True) -> Array:
    return sort_p.bind(a, dimension=axis, is_stable=stable, num_keys=1)[0]


def _refuse_numpy_options(name: str, kind, order) -> None:
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            "specify sort stability."
        )
    if order is not None:
        raise TypeError(
            f"'order' argument to {name} is not supported: there are no structured dtypes."
        )


def argsort(
    a,
    axis: int | None = -1,
    *,
    kind=None,
    order=None,
    stable: bool = True,
    descending: bool = False,
    dtype=None,
) -> Array:
    """The positions that sort an array along an axis; equal elements keep their order.

    >>> import gpuarray.numpy as gnp
    >>> gnp.argsort(gnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    a = array("argsort", a)
    _refuse_numpy_options("argsort", kind, order)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    index = dtypes.default_int() if dtype is None else dtypes.check_user_dtype(dtype, "argsort")
    # The positions travel with the elements as a second operand.
    positions = lax.broadcasted_iota(index, a.shape, axis)
    if not descending:
        return lax.sort((a, positions), dimension=axis, is_stable=stable, num_keys=1)[1]
    # Backwards before and after: equal elements end up in their order again.
    keys, positions = flip(a, axis), flip(positions, axis)
    return flip(lax.sort((keys, positions), dimension=axis, is_stable=stable, num_keys=1)[1], axis)


def lexsort(keys, axis: int = -1) -> Array:
    """The positions that sort by several keys: by the last, then the one before it, and so on.

    >>> import gpuarray.numpy as gnp
    >>> gnp.lexsort((gnp.array([2, 1, 0]), gnp.array([1, 0, 0])))
    Array([2, 1, 0], dtype=int32)
    """
    found = list(unstack(keys)) if isinstance(keys, Array) else arrays("lexsort", *keys)
    if not found:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({k.shape for k in found}) > 1:
        raise ValueError("all keys need to be the same shape")
    if found[0].ndim == 0:
        return lax.full((), 0, dtypes.default_int())
    axis = canonical_axis(axis, found[0].ndim)
    positions = lax.broadcasted_iota(dtypes.default_int(), found[0].shape, axis)
    # lax.sort takes the most important key first, NumPy the last.
    return lax.sort((*found[::-1], positions), dimension=axis, num_keys=len(found))[-1]


def sort_complex(a) -> Array:
    """Complex numbers sorted by real part, then imaginary part; real ones become complex.

    >>> import gpuarray.numpy as gnp
    >>> gnp.sort_complex(gnp.array([1+1j, 0+2j]))
    Array([0.+2.j, 1.+1.j], dtype=complex64)
    """
    a = array("sort_complex", a)
    out = _sorted(a, canonical_axis(-1, a.ndim))
    return lax.convert_element_type(out, dtypes.to_complex_dtype(a.dtype))


def partition(a, kth: int, axis: int = -1) -> Array:
    """`a` rearranged so that element `kth` has its position in sorted order, with smaller ones
    before it.

    >>> import gpuarray.numpy as gnp
    >>> gnp.partition(gnp.array([5, 1, 4, 2]), 1)[:2]
    Array([1, 2], dtype=int32)
    """
    a = array("partition", a)
    head, tail = _parts(a, _sorted(a, canonical_axis(axis, a.ndim)), kth, axis)
    axis = canonical_axis(axis, a.ndim)
    # Reversed, since only the sets on either side are promised, not an order within them.
    return lax.concatenate([head, flip(tail, axis)], axis)


def argpartition(a, kth: int, axis: int = -1) -> Array:
    """The positions that partition an array, as `partition` does.

    >>> import gpuarray.numpy as gnp
    >>> gnp.argpartition(gnp.array([5, 1, 4, 2]), 1)[:2]
    Array([1, 3], dtype=int32)
    """
    a = array("argpartition", a)
    # int32 with 64-bit types too, as the positions of `lax.top_k` are.
    order = lax.convert_element_type(argsort(a, axis), np.int32)
    head, tail = _parts(a, order, kth, axis)
    axis = canonical_axis(axis, a.ndim)
    return lax.concatenate([head, _sorted(tail, axis)], axis)


def _parts(a: Array, ordered: Array, kth: int, axis: int) -> tuple[Array, Array]:
    """The first kth + 1 of ordered elements, and the rest."""
    if dtypes.kind_of(a.dtype) == "c":
        raise NotImplementedError("partition of complex numbers: they have no order of their own")
    axis = canonical_axis(axis, a.ndim)
    cut = canonical_axis(kth, a.shape[axis]) + 1
    lead = (slice(None),) * axis
    return getitem(ordered, (*lead, slice(0, cut))), getitem(ordered, (*lead, slice(cut, None)))


_METHODS = ("compare_all", "scan", "scan_unrolled", "sort")


def searchsorted(a, v, side: str = "left", sorter=None, *, method: str = "scan") -> Array:
    """Where elements of `v` would have to be inserted into the sorted (n,) array `a` to keep it
    sorted.

    Parameters
    ----------
    side :
        Whether the positions are before ("left") or after ("right") elements that are equal.
    sorter :
        Positions that sort `a`.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.searchsorted(gnp.array([1, 2, 2, 3]), gnp.array([2, 5]))
    Array([1, 4], dtype=int32)
    """
    if method not in _METHODS:
        raise ValueError(f"invalid argument {method=}, expected one of {list(_METHODS)}")
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument {side=}, expected 'left' or 'right'")
    a, v = promoted("searchsorted", a, v)
    if a.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    if sorter is not None:
        a = getitem(a, array("searchsorted", sorter))
    # Unlike other indices, whatever x64 is: as in JAX.
    short = isinstance(a.shape[0], Symbolic) or a.shape[0] <= dtypes.iinfo(np.int32).max
    index = np.dtype(np.int32 if short else np.int64)
    return searchsorted_p.bind(a, v, side=side, dtype=index)


def digitize(x, bins, right: bool = False, *, method: str | None = None) -> Array:
    """The number of each element's bin: i where bins[i-1] <= x < bins[i] (with `right`: < and <=).

    Bins ascend or descend.

    >>> import gpuarray.numpy as gnp
    >>> gnp.digitize(gnp.array([0.5, 2.]), gnp.array([0., 1., 2.]))
    Array([1, 3], dtype=int32)
    """
    x, bins = arrays("digitize", x, bins)
    if bins.ndim != 1:
        raise ValueError(
            f"digitize: bins must be a 1-dimensional array; got bins of shape {bins.shape}"
        )
    if bins.shape[0] == 0:
        return lax.full(x.shape, 0, np.int32)
    how = method or "scan"
    side = "right" if not right else "left"
    # Both directions are counted; whether the bins ascend may be known only when the program runs.
    rising = searchsorted(bins, x, side=side, method=how)
    falling = bins.shape[0] - searchsorted(flip(bins), x, side=side, method=how)
    return choose_by(lax.ge(getitem(bins, -1), getitem(bins, 0)), rising, falling)
