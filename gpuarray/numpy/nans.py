"""Reductions that leave nan out: as if those elements were not there.

Floor 6. In: an array-like and axes. Out: an Array without those axes. Where all elements are nan,
sums are 0, products 1, and everything else is nan (positions are -1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.numpy.comparison import logical_and, logical_not
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.floats import isnan
from gpuarray.numpy.functions import sqrt
from gpuarray.numpy.operands import no_out
from gpuarray.numpy.promotion import arrays, select
from gpuarray.numpy.reductions import (
    all,
    argmax,
    argmin,
    boolean_mask,
    highest,
    lowest,
    max,
    min,
    plain_axis,
    prod,
    sum,
)
from gpuarray.numpy.statistics import cumprod, cumsum, ddof_of, mean_dtype
from gpuarray.numpy.statistics import mean as mean_of
from gpuarray.numpy.statistics import var as var_of

kind_of = dtypes.kind_of
# Arguments that are part of the cache key.
_STATIC = ("axis", "dtype", "keepdims")


def _has_nans(a: Array) -> bool:
    return kind_of(a.dtype) in "fc"


def _nan_replaced(name: str, a: Any, by: Callable[[Any], Any]) -> Array:
    (a,) = arrays(name, a)
    # Integers have no nan: nothing is replaced.
    return select(isnan(a), by(a.dtype), as_type(a, a.dtype)) if _has_nans(a) else a


def nansum(
    a, axis=None, dtype=None, out=None, keepdims: bool = False, initial=None, where=None
) -> Array:
    """The sum along `axis` without the nan elements.

    Shape contract: as `sum`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nansum(gnp.array([1.0, gnp.nan, 3.0]))
    Array(4., dtype=float32)
    """
    no_out("nansum", out)
    statics = {"axis": plain_axis(axis), "dtype": dtype, "keepdims": keepdims}
    return _nansum(a, initial, where, **statics)


@composite(static=_STATIC, name="nansum")
def _nansum(a, initial, where, *, axis, dtype, keepdims):
    # 0 changes no sum.
    a = _nan_replaced("nansum", a, lambda d: d.type(0))
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "nansum")
    return sum(a, axis, wanted, None, keepdims, initial, where)


def nanprod(
    a, axis=None, dtype=None, out=None, keepdims: bool = False, initial=None, where=None
) -> Array:
    """The product along `axis` without the nan elements.

    Shape contract: as `prod`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanprod(gnp.array([2.0, gnp.nan, 3.0]))
    Array(6., dtype=float32)
    """
    no_out("nanprod", out)
    statics = {"axis": plain_axis(axis), "dtype": dtype, "keepdims": keepdims}
    return _nanprod(a, initial, where, **statics)


@composite(static=_STATIC, name="nanprod")
def _nanprod(a, initial, where, *, axis, dtype, keepdims):
    # 1 changes no product.
    a = _nan_replaced("nanprod", a, lambda d: d.type(1))
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "nanprod")
    return prod(a, axis, wanted, None, keepdims, initial, where)


def nanmax(a, axis=None, out=None, keepdims: bool = False, initial=None, where=None) -> Array:
    """The largest element along `axis` that is not nan; nan where all are.

    Shape contract: as `max`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanmax(gnp.array([1.0, gnp.nan, 3.0]))
    Array(3., dtype=float32)
    """
    no_out("nanmax", out)
    return _nanmax(a, initial, where, axis=plain_axis(axis), keepdims=keepdims)


@composite(static=("axis", "keepdims"), name="nanmax")
def _nanmax(a, initial, where, *, axis, keepdims):
    return _nan_extreme("nanmax", max, lowest, a, axis, keepdims, initial, where)


def nanmin(a, axis=None, out=None, keepdims: bool = False, initial=None, where=None) -> Array:
    """The smallest element along `axis` that is not nan; nan where all are.

    Shape contract: as `min`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanmin(gnp.array([1.0, gnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("nanmin", out)
    return _nanmin(a, initial, where, axis=plain_axis(axis), keepdims=keepdims)


@composite(static=("axis", "keepdims"), name="nanmin")
def _nanmin(a, initial, where, *, axis, keepdims):
    return _nan_extreme("nanmin", min, highest, a, axis, keepdims, initial, where)


def _nan_extreme(name: str, find, worst, a, axis, keepdims, initial, where) -> Array:
    (a,) = arrays(name, a)
    # nan becomes the worst value there is, which never wins.
    found = find(_nan_replaced(name, a, worst), axis, None, keepdims, initial, where)
    # With an initial value the extreme of no elements is that value.
    if initial is not None or not _has_nans(a):
        return found
    # Where all are nan the replacement must not show.
    nothing = all(isnan(a), axis, keepdims=keepdims)
    return select(nothing, found.dtype.type(float("nan")), found)


def nanargmax(a, axis: int | None = None, out=None, keepdims: bool | None = None) -> Array:
    """The position of the largest element that is not nan; -1 where all are.

    Shape contract: as `argmax`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanargmax(gnp.array([1.0, gnp.nan, 3.0]))
    Array(2, dtype=int32)
    """
    no_out("nanargmax", out)
    return _nanargmax(a, axis=axis, keepdims=bool(keepdims))


@composite(static=("axis", "keepdims"), name="nanargmax")
def _nanargmax(a, *, axis, keepdims):
    return _nan_position("nanargmax", argmax, lowest, a, axis, keepdims)


def nanargmin(a, axis: int | None = None, out=None, keepdims: bool | None = None) -> Array:
    """The position of the smallest element that is not nan; -1 where all are.

    Shape contract: as `argmin`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanargmin(gnp.array([gnp.nan, 2.0, 1.0]))
    Array(2, dtype=int32)
    """
    no_out("nanargmin", out)
    return _nanargmin(a, axis=axis, keepdims=bool(keepdims))


@composite(static=("axis", "keepdims"), name="nanargmin")
def _nanargmin(a, *, axis, keepdims):
    return _nan_position("nanargmin", argmin, highest, a, axis, keepdims)


def _nan_position(name: str, find, worst, a, axis, keepdims) -> Array:
    (a,) = arrays(name, a)
    found = find(_nan_replaced(name, a, worst), axis, None, keepdims)
    if not _has_nans(a):
        return found
    nothing = all(isnan(a), axis, keepdims=keepdims)
    return select(nothing, found.dtype.type(-1), found)


def _numbers(name: str, a: Array, where: Any) -> Any:
    """Which elements count: those that are not nan, and not masked out."""
    numbers = logical_not(isnan(a))
    return numbers if where is None else logical_and(numbers, boolean_mask(name, where))


def nanmean(a, axis=None, dtype=None, out=None, keepdims: bool = False, where=None) -> Array:
    """The mean along `axis` of the elements that are not nan; nan where all are.

    Shape contract: as `mean`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanmean(gnp.array([1.0, gnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    no_out("nanmean", out)
    if dtype is not None:
        mean_dtype("nanmean", dtype)
    return _nanmean(a, where, axis=plain_axis(axis), dtype=dtype, keepdims=keepdims)


@composite(static=_STATIC, name="nanmean")
def _nanmean(a, where, *, axis, dtype, keepdims):
    (a,) = arrays("nanmean", a)
    # A mean that skips elements does not count them either.
    return mean_of(a, axis, dtype, keepdims=keepdims, where=_numbers("nanmean", a, where))


def nanvar(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof: int = 0,
    keepdims: bool = False,
    where=None,
    mean=None,
    *,
    correction=None,
) -> Array:
    """The variance along `axis` of the elements that are not nan.

    Shape contract: as `var`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanvar(gnp.array([1.0, gnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("nanvar", out)
    statics = {"axis": plain_axis(axis), "dtype": dtype, "keepdims": keepdims}
    return _nanvar(a, where, mean, ddof_of(ddof, correction), **statics)


@composite(static=_STATIC, name="nanvar")
def _nanvar(a, where, mean, ddof, *, axis, dtype, keepdims):
    (a,) = arrays("nanvar", a)
    # nan is replaced before the mean, and not counted.
    numbers = _numbers("nanvar", a, where)
    a = _nan_replaced("nanvar", a, lambda d: d.type(0))
    return var_of(a, axis, dtype, None, ddof, keepdims, where=numbers, mean=mean)


def nanstd(
    a,
    axis=None,
    dtype=None,
    out=None,
    ddof: int = 0,
    keepdims: bool = False,
    where=None,
    mean=None,
    *,
    correction=None,
) -> Array:
    """The standard deviation along `axis` of the elements that are not nan.

    Shape contract: as `std`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nanstd(gnp.array([1.0, gnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("nanstd", out)
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean, correction=correction))


def nancumsum(a, axis: int | None = None, dtype=None, out=None) -> Array:
    """The running sum along `axis`, nan counted as 0.

    Shape contract: as `cumsum`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nancumsum(gnp.array([1.0, gnp.nan, 3.0]))
    Array([1., 1., 4.], dtype=float32)
    """
    no_out("nancumsum", out)
    return _nancumsum(a, axis=axis, dtype=dtype)


@composite(static=("axis", "dtype"), name="nancumsum")
def _nancumsum(a, *, axis, dtype):
    return cumsum(_nan_replaced("nancumsum", a, lambda d: d.type(0)), axis, dtype)


def nancumprod(a, axis: int | None = None, dtype=None, out=None) -> Array:
    """The running product along `axis`, nan counted as 1.

    Shape contract: as `cumprod`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.nancumprod(gnp.array([2.0, gnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    no_out("nancumprod", out)
    return _nancumprod(a, axis=axis, dtype=dtype)


@composite(static=("axis", "dtype"), name="nancumprod")
def _nancumprod(a, *, axis, dtype):
    return cumprod(_nan_replaced("nancumprod", a, lambda d: d.type(1)), axis, dtype)
