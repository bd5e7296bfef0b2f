"""Reductions along axes: sums, products, extremes and where they are, truth, counts.

Floor 6. In: an array-like, axes, and the other arguments of NumPy's reductions. Out: an Array
without those axes (of length 1 with `keepdims`). Half-precision sums run in float32; no result is
weak.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config, lax
from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.fold import extreme
from gpuarray.core.value import Array
from gpuarray.numpy.comparison import not_equal, truth
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.operands import no_out
from gpuarray.numpy.promotion import (
    arrays,
    check_arraylike,
    select,
    value,
    zero_of,
)
from gpuarray.util import canonical_axes, canonical_axis

_state = config.state
kind_of = dtypes.kind_of


class Reduction(NamedTuple):
    """The properties in which reductions differ."""

    name: str  # no two have the same: finished calls are kept by it
    run: Callable[..., Array]  # lax's reduction of (array, axes)
    identity: Callable[[Any], Any]  # given a dtype: the value of a masked-out element
    join: Callable[[Any, Any], Array]  # the initial value with the result
    # Whether results outgrow their elements: integers widen, halves go through float32.
    accumulates: bool = False
    needs_elements: bool = False  # there is no result for no elements
    across: Callable[..., Array] | None = None  # of (array, names): over named axes of a vmap


# The identities of max and min: no element is beyond them.
def lowest(dtype: Any) -> Any:
    return extreme(dtype, False)


def highest(dtype: Any) -> Any:
    return extreme(dtype, True)


SUM = Reduction(
    "sum", lax.reduce_sum, lambda d: d.type(0), lax.add, accumulates=True, across=lax.psum
)
PROD = Reduction("prod", lax.reduce_prod, lambda d: d.type(1), lax.mul, accumulates=True)
MAX = Reduction("max", lax.reduce_max, lowest, lax.max, needs_elements=True, across=lax.pmax)
MIN = Reduction("min", lax.reduce_min, highest, lax.min, needs_elements=True, across=lax.pmin)
ANY = Reduction("any", lax.reduce_or, lambda d: np.False_, lax.bitwise_or)
ALL = Reduction("all", lax.reduce_and, lambda d: np.True_, lax.bitwise_and)

# ---- the general reduction ----


def fold_axes(
    fold: Reduction,
    a: Any,
    axis: Any,
    dtype: Any,
    out: None,
    keepdims: bool,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    if out is None and dtype is None and initial is None and where is None:
        # The usual call: the steps depend only on the aval and the axes.
        try:
            key = (fold.name, a._aval, axis, keepdims, promote_integers)
            run = _state.trace_key.promotions.get(key)
        except (AttributeError, TypeError):  # no Array, or an axis that is no key
            pass
        else:
            if run is None:
                run = _finished(fold, a.aval, axis, keepdims, promote_integers)
                _state.trace_key.promotions[key] = run
            return run(a)
    no_out(fold.name, out)
    check_arraylike(fold.name, a)
    x = asarray(a)
    wanted = None if dtype is None else dtypes.requested_dtype(dtype, fold.name)
    through, result = _types(fold, x.dtype, wanted, promote_integers)
    # sum(dtype=bool) means any, prod means all.
    if fold.accumulates and kind_of(result) == "b":
        fold = (ANY if fold is SUM else ALL)._replace(name=fold.name)
    x = _as_elements(fold, x, through)
    # Elements that are left out count as the identity.
    if where is not None:
        where = boolean_mask(fold.name, where)
        if fold.needs_elements and initial is None:
            raise ValueError(
                f"reduction operation {fold.name} does not have an identity, so to use a where "
                "mask one has to specify 'initial'"
            )
        x = select(where, x, fold.identity(through))
    # Names are axes of an enclosing vmap, numbers those of the array.
    names, axes = split_axes(axis, x.ndim)
    if initial is None:
        _check_elements(fold, x.shape, axes)
    y = as_type(_over(fold, x, names, axes), result)
    if initial is not None:
        check_arraylike(fold.name, initial)
        start = asarray(initial)
        if start.shape:
            raise ValueError(f"initial value must be a scalar. Got array of shape {start.shape}")
        # As converting an array drops imaginary parts.
        if kind_of(start.dtype) == "c" and kind_of(result) != "c":
            start = lax.real(start)
        y = fold.join(as_type(start, result), y)
    return lax.expand_dims(y, axes) if keepdims else y


def _finished(fold: Reduction, aval: Any, axis: Any, keepdims: bool, promote_integers: bool) -> Any:
    through, result = _types(fold, aval.dtype, None, promote_integers)
    names, axes = split_axes(axis, aval.ndim)
    _check_elements(fold, aval.shape, axes)
    # No conversion before or after: only the reduction.
    if aval.dtype == through == result and not aval.weak_type and not keepdims and not names:
        return lambda x: fold.run(x, axes)

    def run(x):
        y = as_type(_over(fold, _as_elements(fold, x, through), names, axes), result)
        return lax.expand_dims(y, axes) if keepdims else y

    return run


def _types(fold: Reduction, dtype: Any, wanted: Any, promote_integers: bool) -> tuple[Any, Any]:
    """The dtype a reduction runs in, and that of its result."""
    if fold.name in ("any", "all"):
        return dtypes.bool_, dtypes.bool_
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(f"Cannot interpret '{dtype}' as a data type: {fold.name} reduces numbers")
    # dtype= is the dtype of the computation, as in NumPy.
    if wanted is not None:
        return wanted, wanted
    if not fold.accumulates:
        return dtype, dtype
    # Small integers are summed as the default integer, half floats as float32.
    result = widened(dtype) if promote_integers else dtypes.to_numeric_dtype(dtype)
    return compute_dtype(result), result


def widened(dtype: Any) -> Any:
    """The dtype that sums of a dtype have: booleans and narrow integers become default integers."""
    kind = kind_of(dtype)
    default = {"b": dtypes.default_int, "i": dtypes.default_int, "u": dtypes.default_uint}.get(kind)
    if default is None:
        return dtype
    wide = default()
    return wide if kind == "b" or dtypes.itemsize_bits(dtype) < 8 * wide.itemsize else dtype


def compute_dtype(dtype: Any) -> Any:
    """The dtype in which sums of a dtype are computed."""
    return dtypes.float32 if kind_of(dtype) == "f" and dtype.itemsize < 4 else dtype


def _as_elements(fold: Reduction, x: Array, through: Any) -> Array:
    # A complex number is true if either part is not zero.
    if through == np.bool_ and fold.name in ("any", "all") and kind_of(x.dtype) == "c":
        return truth(x)
    return as_type(x, through)


def _over(fold: Reduction, x: Array, names: tuple[str, ...], axes: tuple[int, ...]) -> Array:
    """A reduction over numbered axes, then over named ones."""
    if axes or not names:
        x = fold.run(x, axes)
    if names and fold.across is not None:
        return fold.across(x, names)
    # Without a collective for it: gather all elements, and fold them.
    for name in names:
        x = fold.run(lax.all_gather(x, name), (0,))
    return x


def plain_axis(axis: Any) -> Any:
    """Axes as a number, a name or a tuple: an array of one number becomes it, a list a tuple."""
    # Axes are keys of caches: plain ints and tuples.
    if isinstance(axis, (Array, np.ndarray)) and axis.ndim == 0:
        return int(axis)  # pyright: ignore[reportArgumentType]
    return tuple(axis) if isinstance(axis, (list, range, Array, np.ndarray)) else axis


def split_axes(axis: Any, ndim: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Axes as names of axes of a vmap, and numbers of those of an array.

    >>> split_axes(("batch", -1), 2)
    (('batch',), (1,))
    """
    axis = plain_axis(axis)
    listed = axis if isinstance(axis, tuple) else (axis,)
    names = tuple(a for a in listed if isinstance(a, str))
    if names:
        axis = tuple(a for a in listed if not isinstance(a, str))
    return names, canonical_axes(axis, ndim)


def _check_elements(fold: Reduction, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    if fold.needs_elements and builtins.any(shape[i] == 0 for i in axes):
        raise ValueError(
            f"zero-size array to reduction operation {fold.name} which has no identity: the array "
            f"has shape {shape}. Give `initial`."
        )


def boolean_mask(name: str, where: Any) -> Any:
    check_arraylike(name, where)
    where = value(where)
    dtype = aval_of(where).dtype
    if kind_of(dtype) != "b":
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got where.dtype={dtype!r}. "
            "Compare it first, as in where=mask != 0."
        )
    return where


# ---- sums, products, extremes, truth ----


def sum(
    a,
    axis=None,
    dtype=None,
    out=None,
    keepdims: bool = False,
    initial=None,
    where=None,
    promote_integers: bool = True,
) -> Array:
    """The sum of elements along `axis` (one, several, or all of them).

    Shape contract: those axes go, or become 1 with `keepdims`. Booleans and narrow integers sum to
    default integers unless `promote_integers` is False; `where` leaves elements out.

    >>> import gpuarray.numpy as gnp
    >>> gnp.sum(gnp.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    """
    return fold_axes(SUM, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def prod(
    a,
    axis=None,
    dtype=None,
    out=None,
    keepdims: bool = False,
    initial=None,
    where=None,
    promote_integers: bool = True,
) -> Array:
    """The product of elements along `axis`.

    Shape contract: as `sum`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.prod(gnp.array([[1, 2], [3, 4]]), axis=1)
    Array([ 2, 12], dtype=int32)
    """
    return fold_axes(PROD, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def max(a, axis=None, out=None, keepdims: bool = False, initial=None, where=None) -> Array:
    """The largest element along `axis`; nan where there is one.

    Shape contract: those axes go, or become 1 with `keepdims`. `where` needs an `initial` value.

    >>> import gpuarray.numpy as gnp
    >>> gnp.max(gnp.array([[1, 5], [3, 4]]), axis=1)
    Array([5, 4], dtype=int32)
    """
    return fold_axes(MAX, a, axis, None, out, keepdims, initial, where)


def min(a, axis=None, out=None, keepdims: bool = False, initial=None, where=None) -> Array:
    """The smallest element along `axis`; nan where there is one.

    Shape contract: those axes go, or become 1 with `keepdims`. `where` needs an `initial` value.

    >>> import gpuarray.numpy as gnp
    >>> gnp.min(gnp.array([[1, 5], [3, 4]]), axis=1)
    Array([1, 3], dtype=int32)
    """
    return fold_axes(MIN, a, axis, None, out, keepdims, initial, where)


amax, amin = max, min


def any(a, axis=None, out=None, keepdims: bool = False, *, where=None) -> Array:
    """Whether some element along `axis` is true (not zero).

    Shape contract: those axes go, or become 1 with `keepdims`; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.any(gnp.array([[0, 1], [0, 0]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return fold_axes(ANY, a, axis, None, out, keepdims, None, where)


def all(a, axis=None, out=None, keepdims: bool = False, *, where=None) -> Array:
    """Whether all elements along `axis` are true (not zero).

    Shape contract: those axes go, or become 1 with `keepdims`; the result is bool.

    >>> import gpuarray.numpy as gnp
    >>> gnp.all(gnp.array([[1, 1], [1, 0]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return fold_axes(ALL, a, axis, None, out, keepdims, None, where)


def ptp(a, axis=None, out=None, keepdims: bool = False) -> Array:
    """The largest element minus the smallest ("peak to peak") along `axis`.

    Shape contract: those axes go, or become 1 with `keepdims`.

    >>> import gpuarray.numpy as gnp
    >>> gnp.ptp(gnp.array([3, 1, 7]))
    Array(6, dtype=int32)
    """
    no_out("ptp", out)
    check_arraylike("ptp", a)
    return _ptp(a, axis=plain_axis(axis), keepdims=keepdims)


@composite(static=("axis", "keepdims"))
def _ptp(a, axis, keepdims):
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


@composite(static=("axis", "keepdims"))
def count_nonzero(a, axis=None, keepdims: bool = False) -> Array:
    """How many elements along `axis` are not zero.

    Shape contract: those axes go, or become 1 with `keepdims`; the result is an integer.

    >>> import gpuarray.numpy as gnp
    >>> gnp.count_nonzero(gnp.array([0, 3, 0, 4]))
    Array(2, dtype=int32)
    """
    (a,) = arrays("count_nonzero", a)
    return sum(not_equal(a, zero_of(a)), axis, dtypes.default_int(), keepdims=keepdims)


# ---- where the extremes are ----


def argmax(a, axis: int | None = None, out=None, keepdims: bool | None = None) -> Array:
    """The position of the first largest element along `axis` (in the flattened array for None).

    Shape contract: the axis goes, or becomes 1 with `keepdims`; the result is an integer.

    >>> import gpuarray.numpy as gnp
    >>> gnp.argmax(gnp.array([[1, 5, 5], [9, 0, 2]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    return _arg_extreme("argmax", lax.argmax, a, axis, out, keepdims)


def argmin(a, axis: int | None = None, out=None, keepdims: bool | None = None) -> Array:
    """The position of the first smallest element along `axis` (in the flattened array for None).

    Shape contract: the axis goes, or becomes 1 with `keepdims`; the result is an integer.

    >>> import gpuarray.numpy as gnp
    >>> gnp.argmin(gnp.array([[1, 5, 5], [9, 0, 2]]), axis=1)
    Array([0, 1], dtype=int32)
    """
    return _arg_extreme("argmin", lax.argmin, a, axis, out, keepdims)


def _arg_extreme(name: str, find: Callable[..., Array], a, axis, out, keepdims) -> Array:
    no_out(name, out)
    (a,) = arrays(name, a)
    shape = a.shape
    if axis is None:
        a, at = lax.reshape(a, (a.size,)), 0
    else:
        at = canonical_axis(axis, a.ndim)
    # No element has a position.
    if a.shape[at] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence: the shape is {shape}")
    found = find(a, at, dtypes.default_int())
    if not keepdims:
        return found
    return lax.expand_dims(found, range(len(shape)) if axis is None else (at,))
