"""Sets of elements: unique, and unions, intersections and differences of arrays.

Floor 6. In: arrays, taken as collections of elements. Out: sorted elements. How many there are is
known only from the values, so a transformation needs `size`; missing places are then filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.lax.lengths import typed
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.indexer import known_value
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.operands import array, arrays, need_concrete, promoted
from gpuarray.numpy.selection import choose_by, nonzero
from gpuarray.numpy.shapes import ravel, reshape
from gpuarray.numpy.sorting import argsort, searchsorted, sort
from gpuarray.util import canonical_axis


class _UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


class Sorted(NamedTuple):
    """Elements (or rows) in order."""

    values: Array
    order: Array  # where each one comes from
    first: Array  # whether it differs from the one before it


def _sorted(x: Array, equal_nan: bool = True) -> Sorted:
    """The elements of a (n,) array in order; equal ones keep their order."""
    x = _one_nan(x)
    order = argsort(x)
    values = getitem(x, order)
    return Sorted(values, order, _differs(values, equal_nan))


def _one_nan(x: Array) -> Array:
    """The elements with one nan for all complex numbers that have a nan in a part of them."""
    if dtypes.kind_of(x.dtype) != "c":
        return x
    # Complex nan have many representations that sort differently; replace them all by one.
    return choose_by(lax.ne(x, x), lax.full((), np.nan, x.dtype), x)


def _differs(values: Array, equal_nan: bool) -> Array:
    """Which of sorted (n, …) elements differ from the one before: (n,) booleans."""
    n = values.shape[0]
    if n == 0:
        return lax.full((0,), False)
    ahead, behind = getitem(values, slice(1, None)), getitem(values, slice(0, n - 1))
    new = lax.ne(ahead, behind)
    # nan is unequal to itself, but counts as one element.
    if equal_nan and dtypes.kind_of(values.dtype) in "fc":
        both_nan = lax.bitwise_and(lax.ne(ahead, ahead), lax.ne(behind, behind))
        new = lax.bitwise_and(new, lax.bitwise_not(both_nan))
    # Rows differ where any of their elements does.
    if new.ndim > 1:
        new = lax.reduce_or(new, tuple(range(1, new.ndim)))
    return lax.concatenate([lax.full((1,), True), new], 0)


def _last(first: Array) -> Array:
    """Which of sorted elements differ from the one behind, from those that differ from the one
    before.
    """
    n = first.shape[0]
    return lax.concatenate([getitem(first, slice(1, None)), lax.full((min(n, 1),), True)], 0)


def _places(keep: Array, size: int | None, name: str) -> Array:
    """The positions where `keep` is true, `size` of them; missing ones are len(keep)."""
    if size is None and known_value(keep) is None:
        need_concrete(
            keep, f"jnp.{name}: while tracing, the number of elements must be given as `size`"
        )
    # Positions past the last element mark missing ones.
    return nonzero(keep, size=size, fill_value=keep.shape[0])[0]


def _pick(x: Array, places: Array, fill) -> Array:
    """Rows of `x` at places, `fill` where a place is missing."""
    if x.shape[0] == 0:
        return (
            lax.full((places.shape[0], *x.shape[1:]), 0, x.dtype)
            if fill is None
            else _filled(places.shape[0], fill, x)
        )
    missing = lax.ge(places, typed(x.shape[0], places.dtype))
    # Any element will do for a missing place: it is replaced.
    found = getitem(x, lax.min(places, typed(x.shape[0] - 1, places.dtype)))
    if fill is None:
        return found
    mask = lax.broadcast_in_dim(missing, found.shape, (0,))
    return choose_by(mask, as_type(asarray(fill), x.dtype, x.weak_type), found)


def _filled(n: int, fill, x: Array) -> Array:
    value = as_type(asarray(fill), x.dtype, x.weak_type)
    return lax.broadcast_in_dim(value, (n, *x.shape[1:]), tuple(range(1, 1 + value.ndim)))


# ---- unique ---------------------------------------------------------------------------------


def unique(
    ar,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value=None,
    sorted: bool = True,
) -> Any:
    """The distinct elements in order; with `axis`, the distinct slices along it.

    Parameters
    ----------
    return_index, return_inverse, return_counts :
        Whether to return also where each value first occurs, which of them each element is, and the
        number of occurrences of each.
    size :
        How many to return, needed while tracing (`fill_value`, by default the first, fills up).

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.unique(gnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    ar = array("unique", ar)
    # Elements of the set are numbers, or with an axis the slices along it.
    if axis is None:
        rows, n = ravel(ar), ar.size
    else:
        axis = canonical_axis(axis, ar.ndim)
        rows = moveaxis(ar, axis, 0)
        n = rows.shape[0]
    if n == 0 and size and fill_value is None:
        raise ValueError(
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value must be "
            "specified"
        )
    # Sorted, equal elements are neighbours.
    found = _sorted(rows, equal_nan) if rows.ndim == 1 else _sorted_rows(rows, equal_nan)
    places = _places(found.first, size, "unique")
    # JAX fills with the smallest element.
    default = fill_value if fill_value is not None else getitem(found.values, 0) if n else None
    values = _pick(found.values, places, default)
    out = [values if axis is None else moveaxis(values, 0, axis)]
    kind = dtypes.default_int()
    if return_index:
        out.append(_pick(found.order, places, getitem(found.order, 0) if n else 0))
    if return_inverse:
        # Number of the group of each sorted element, carried back to where it came from.
        group = lax.sub(lax.cumsum(lax.convert_element_type(found.first, kind)), kind.type(1))
        inverse = lax.full((n,), 0, kind).at[found.order].set(group)
        out.append(reshape(inverse, ar.shape) if axis is None else inverse)
    if return_counts:
        # One position more than requested: the end of a group that is cut off from the next one.
        after = places if size is None else _places(found.first, size + 1, "unique")
        out.append(_counts(after, n, places.shape[0]))
    return tuple(out) if len(out) > 1 else out[0]


def _sorted_rows(rows: Array, equal_nan: bool) -> Sorted:
    """Slices in lexicographic order: one sort whose keys are the columns."""
    n = rows.shape[0]
    rows = _one_nan(rows)
    flat = reshape(rows, (n, -1)) if rows.size else reshape(rows, (n, 0))
    positions = lax.iota(dtypes.default_int(), n)
    columns = [getitem(flat, (slice(None), k)) for k in range(flat.shape[1])]
    # Rows in lexicographic order: as many keys as columns.
    order = lax.sort((*columns, positions), num_keys=len(columns))[-1] if columns else positions
    values = getitem(rows, order)
    return Sorted(values, order, _differs(values, equal_nan))


def _counts(places: Array, n: int, size: int) -> Array:
    """How many elements each group has: the distance to where the next one begins."""
    ends = lax.concatenate([getitem(places, slice(1, None)), lax.full((1,), n, places.dtype)], 0)
    return lax.sub(getitem(ends, slice(0, size)), getitem(places, slice(0, size)))


def unique_all(x, /, *, size: int | None = None, fill_value=None) -> _UniqueAllResult:
    """The distinct elements with their first positions, the inverse and the counts.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unique_all(gnp.array([3, 1, 3])).indices
    Array([1, 0], dtype=int32)
    """
    x = array("unique_all", x)
    return _UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(x, /, *, size: int | None = None, fill_value=None) -> _UniqueCountsResult:
    """The distinct elements and the number of occurrences of each.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unique_counts(gnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    x = array("unique_counts", x)
    return _UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(x, /, *, size: int | None = None, fill_value=None) -> _UniqueInverseResult:
    """The distinct elements and which of them each element is.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unique_inverse(gnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    x = array("unique_inverse", x)
    return _UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(x, /, *, size: int | None = None, fill_value=None) -> Array:
    """The distinct elements.

    >>> import gpuarray.numpy as gnp
    >>> gnp.unique_values(gnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    x = array("unique_values", x)
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ---- sets -----------------------------------------------------------------------------------


def isin(
    element,
    test_elements,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """For every element, whether it is one of `test_elements`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.isin(gnp.array([1, 2, 3]), gnp.array([3, 1]))
    Array([ True, False,  True], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"Invalid method {method!r}; expected 'auto', 'compare_all', 'binary_search' or 'sort'"
        )
    element, tests = promoted("isin", element, test_elements)
    tests = ravel(tests)
    n = tests.shape[0]
    if n == 0 or element.size == 0:
        return lax.full(element.shape, invert)
    # A binary search in the sorted tests for each element.
    ordered = sort(tests)
    at = searchsorted(ordered, element)
    # Beyond the largest element: compared with that, and found unequal.
    at = lax.min(at, at.dtype.type(n - 1))
    found = lax.convert_element_type(lax.eq(getitem(ordered, at), element), bool)
    return lax.bitwise_not(found) if invert else found


def _flat_pair(name: str, ar1, ar2) -> tuple[Array, Array]:
    a, b = promoted(name, ar1, ar2)
    return ravel(a), ravel(b)


def _filled_up(name: str, values: Array, places: Array, chosen: Array, fill_value) -> Array:
    """Elements at positions; missing ones are filled with the first of them, or a value that
    promotes them.
    """
    if fill_value is None:
        return _pick(values, places, getitem(chosen, 0) if chosen.shape[0] else None)
    values, fill = promoted(name, values, fill_value)
    return _pick(values, places, fill)


def union1d(ar1, ar2, *, size: int | None = None, fill_value=None) -> Array:
    """The distinct elements of either array, in order.

    >>> import gpuarray.numpy as gnp
    >>> gnp.union1d(gnp.array([3, 1]), gnp.array([2, 1]))
    Array([1, 2, 3], dtype=int32)
    """
    both = lax.concatenate(list(_flat_pair("union1d", ar1, ar2)), 0)
    return unique(both, size=size, fill_value=fill_value)


def intersect1d(
    ar1,
    ar2,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value=None,
) -> Any:
    """The distinct elements of both arrays, in order; with `return_indices`, also where they first
    occur in each.

    >>> import gpuarray.numpy as gnp
    >>> gnp.intersect1d(gnp.array([3, 1, 2]), gnp.array([2, 3]))
    Array([2, 3], dtype=int32)
    """
    a, b = _flat_pair("intersect1d", ar1, ar2)
    left = _sorted(a)
    # One of each element of a that b has too.
    keep = lax.bitwise_and(left.first, isin(left.values, b))
    places = _places(keep, size, "intersect1d")
    chosen = _pick(left.values, places, None) if left.values.shape[0] else left.values
    values = _filled_up("intersect1d", left.values, places, chosen, fill_value)
    if not return_indices:
        return values
    right = _sorted(b)
    keep = lax.bitwise_and(right.first, isin(right.values, a))
    others = _places(keep, size, "intersect1d")
    return (
        values,
        _pick(left.order, places, a.shape[0]),
        _pick(right.order, others, b.shape[0]),
    )


def setdiff1d(
    ar1, ar2, assume_unique: bool = False, *, size: int | None = None, fill_value=None
) -> Array:
    """The distinct elements of the first array that are not in the second, in order.

    >>> import gpuarray.numpy as gnp
    >>> gnp.setdiff1d(gnp.array([3, 1, 2]), gnp.array([1]))
    Array([2, 3], dtype=int32)
    """
    a, b = arrays("setdiff1d", ar1, ar2)
    a, b = ravel(a), ravel(b)
    keep = isin(a, b, invert=True)
    if not assume_unique:
        found = _sorted(a)
        a, keep = found.values, lax.bitwise_and(found.first, isin(found.values, b, invert=True))
    return _pick(a, _places(keep, size, "setdiff1d"), 0 if fill_value is None else fill_value)


def setxor1d(
    ar1, ar2, assume_unique: bool = False, *, size: int | None = None, fill_value=None
) -> Array:
    """The distinct elements of one array but not the other, in order.

    >>> import gpuarray.numpy as gnp
    >>> gnp.setxor1d(gnp.array([3, 1, 2]), gnp.array([1, 5]))
    Array([2, 3, 5], dtype=int32)
    """
    a, b = _flat_pair("setxor1d", ar1, ar2)
    # An element of both occurs twice in a row.
    if assume_unique:
        # Both ends of a run: an element that has no equal neighbour.
        found = _sorted(lax.concatenate([a, b], 0), equal_nan=False)
        values, keep = found.values, lax.bitwise_and(found.first, _last(found.first))
    else:
        left, right = _sorted(a), _sorted(b)
        alone = [
            lax.bitwise_and(one.first, isin(one.values, other, invert=True))
            for one, other in ((left, b), (right, a))
        ]
        values = lax.concatenate([left.values, right.values], 0)
        order = argsort(values)
        values, keep = getitem(values, order), getitem(lax.concatenate(alone, 0), order)
    places = _places(keep, size, "setxor1d")
    chosen = _pick(values, places, None) if values.shape[0] else values
    return _filled_up("setxor1d", values, places, chosen, fill_value)
