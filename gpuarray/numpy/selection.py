"""Choosing elements by conditions: where, select, choose, nonzero, compress, extract, place,
piecewise.

Floor 6. In: conditions and alternatives. Out: arrays of one dtype. Functions whose result depends
on how many elements a condition selects are unrestricted outside transformations, and take a `size`
inside them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gpuarray import errors, lax, util
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.layout import cuts_of
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.functions.vmap import vmap
from gpuarray.lax.lengths import typed
from gpuarray.lax.ranks import check_ranks
from gpuarray.lax.slicing import reaching
from gpuarray.numpy.arithmetic import mod
from gpuarray.numpy.axes import moveaxis
from gpuarray.numpy.composite import composite
from gpuarray.numpy.construct import as_type, asarray
from gpuarray.numpy.indexer import known_value
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.operands import array, arrays, need_concrete, no_out, promoted
from gpuarray.numpy.promotion import binary, check_arraylike, promote_dtypes, value
from gpuarray.numpy.shapes import broadcast_shapes, ravel, reshape, stretch
from gpuarray.primitives.elementwise.arithmetic import ne_p
from gpuarray.primitives.elementwise.choice import select_n_p
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.memory import accounted
from gpuarray.runtime.transfer import placed_like, sharding_like


def where(condition, x=None, y=None, /, *, size: int | None = None, fill_value=None) -> Any:
    """Elements of `x` where the condition holds, of `y` elsewhere; with the condition alone,
    `nonzero(condition)`.

    All three broadcast together.

    >>> import gpuarray.numpy as gnp
    >>> gnp.where(gnp.arange(4) > 1, 10, 0)
    Array([ 0,  0, 10, 10], dtype=int32, weak_type=True)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function: the "
            "result has the shape of the operands."
        )
    # Arrays need no check.
    if not isinstance(condition, Array):
        check_arraylike("where", condition, x, y)
        condition = value(condition)
    return choose_by(condition, *_pair(x, y))


#: Two operands in the dtype they promote to.
_pair: Any = binary("where", lambda dtype: lambda x, y: (x, y), any_ranks=True)


def choose_by(condition, x, y):
    """`where` for operands of one dtype."""
    mask = as_mask(condition)
    shapes = [aval_of(v).shape for v in (mask, x, y)]
    # Broadcast to one shape, as select_n wants it.
    if not shapes[0] == shapes[1] == shapes[2]:
        target = broadcast_shapes(*shapes)
        x, y = stretch(x, target), stretch(y, target)
        if shapes[0]:  # a scalar condition chooses between whole arrays
            mask = stretch(mask, target)
    # select_n takes the case of False first.
    return select_n_p.bind(mask, y, x)


def as_mask(condition):
    """A condition as booleans; other values are compared with zero."""
    aval = aval_of(condition)
    if aval.dtype == np.bool_:
        return condition
    return ne_p.bind(condition, aval.dtype.type(0))


def select(condlist: Sequence, choicelist: Sequence, default=0) -> Array:
    """For every place, the choice whose condition is the first to hold there, or `default`.

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.arange(5)
    >>> gnp.select([x < 1, x < 3], [10, x], -1)
    Array([10,  1,  2, -1, -1], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", default, *choicelist)
    # From the last condition to the first, so that the first one that holds decides.
    out, *choices = promote_dtypes(default, *choicelist)
    conditions = arrays("select", *condlist)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = choose_by(condition, choice, out)
    return out


def choose(a, choices: Sequence, out=None, mode: str = "raise") -> Array:
    """For every place, the element of the choice that `a` numbers there.

    Parameters
    ----------
    mode :
        How a number out of range is treated: "raise", "wrap" or "clip".

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.choose(gnp.array([1, 0]), [gnp.array([1, 2]), gnp.array([10, 20])])
    Array([10,  2], dtype=int32)
    """
    no_out("choose", out)
    a, *options = arrays(
        "choose", a, *(choices if not isinstance(choices, Array) else list(choices))
    )
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise ValueError("`a` array must be integer typed")
    count = len(options)
    # Refusing needs the values.
    if mode == "raise":
        known = known_value(a)
        if known is None:
            raise errors.ConcretizationTypeError(
                a,
                "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use "
                "mode='wrap' or mode='clip' instead.",
            )
        if ((known < 0) | (known >= count)).any():
            raise ValueError(
                f"invalid entry in choice array: there are {count} choices, numbered from 0"
            )
    elif mode == "wrap":
        a = mod(reaching(a, count), count)
    elif mode == "clip":
        a = reaching(a, count)
        a = lax.clamp(a.dtype.type(0), a, a.dtype.type(count - 1))
    else:
        raise ValueError(f"{mode=} not understood. Must be 'raise', 'wrap', or 'clip'")
    options = promoted("choose", *options)
    target = broadcast_shapes(a.shape, *[c.shape for c in options])
    number = lax.convert_element_type(stretch(a, target), np.int32)
    cases = [stretch(c, target) for c in options]
    # select_n takes a boolean for two cases, a number for more.
    if count == 1:
        out = cases[0]
    elif count == 2:
        out = select_n_p.bind(lax.ne(number, np.int32(0)), *cases)
    else:
        out = select_n_p.bind(number, *cases)
    return as_type(out, out.dtype)


# ---- where the elements are -----------------------------------------------------------------


def nonzero(a, *, size: int | None = None, fill_value=None) -> tuple[Array, ...]:
    """The positions of elements that are not zero, one array an axis, in row-major order.

    Parameters
    ----------
    size :
        How many to return, needed while tracing; `fill_value` (one, or one for each axis) replaces
        missing ones.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.nonzero(gnp.array([3, 0, 4]))
    (Array([0, 2], dtype=int32),)
    """
    a = array("nonzero", a)
    if a.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() "
            "instead."
        )
    fills: Any = 0 if fill_value is None else fill_value
    fills = fills if isinstance(fills, tuple) else (fills,) * a.ndim
    if len(fills) != a.ndim:
        raise ValueError(
            f"fill_value has {len(fills)} entries for {a.ndim} axes: give one value, or one for "
            "each axis"
        )
    if size is not None or fill_value is not None:
        fills = tuple([_position(f) for f in fills])
    # Known values: NumPy finds them. Traced ones need a size, and a scan; so do those sharded along
    # Explicit axes, which may not be gathered implicitly, and those over several processes, none of
    # which has the whole value.
    unknown = size is not None and (
        cuts_of(aval_of(a).layout) is not None
        or any(isinstance(f, Tracer) for f in fills)
        or (isinstance(a, ArrayImpl) and not (a.is_fully_addressable or a.is_fully_replicated))
    )
    known = None if unknown else known_value(a)
    if known is not None:
        found = [k.astype(dtypes.default_int()) for k in np.nonzero(known)]
        if size is not None:
            found = [_resized(k, size, f) for k, f in zip(found, fills, strict=True)]
        return tuple(placed_like(asarray(k), sharding_like(a, k.shape)) for k in found)
    if size is None:
        need_concrete(
            a,
            "nonzero: the size argument of jnp.nonzero must be statically specified to use "
            "jnp.nonzero within JAX transformations",
        )
    return _nonzero_traced(a, size, fills)


def _position(fill: Any) -> Any:
    """The fill value of positions, in the promoted dtype: nan makes them floats."""
    if np.shape(fill) if not isinstance(fill, Array) else fill.shape:
        raise ValueError(f"nonzero: fill_value must be a scalar, or a tuple of them, got {fill!r}")
    check_arraylike("nonzero", fill)
    return as_type(asarray(fill), promotion.result_type(dtypes.default_int(), fill))


@accounted("the positions that `size` asks for")
def _resized(k: np.ndarray, size: int, fill: Array) -> np.ndarray:
    size = util.index(size)
    out = np.full(size, np.asarray(fill))
    out[: len(k)] = k[:size]
    # Truncated or filled up to the requested size.
    return out


def _nonzero_traced(a: Array, size: int, fills: tuple) -> tuple[Array, ...]:
    kind = dtypes.default_int()
    if a.size == 0 or size == 0:
        return tuple(lax.broadcast(f, (size,)) for f in fills)
    mask = ravel(as_mask(a))
    # How many elements have been found up to each position.
    rank = lax.cumsum(lax.convert_element_type(mask, kind))
    # Place k of the result holds the position after which k elements were found: count ranks <= k.
    # How many positions have rank k; their running sum is the position of the k-th element.
    marks = lax.full((size,), 0, kind).at[rank].add(1)
    flat = lax.cumsum(marks)
    count = getitem(rank, -1)
    # Places beyond the number of elements take the fill value.
    missing = lax.ge(lax.iota(kind, size), lax.broadcast(count, (size,)))
    out = []
    # From the flat position to one for each axis.
    stride = a.size
    for n, fill in zip(a.shape, fills, strict=True):
        stride //= n
        position = lax.rem(lax.div(flat, typed(stride, kind)), typed(n, kind))
        out.append(choose_by(missing, fill, as_type(position, fill.dtype)))
    return tuple(out)


def flatnonzero(a, *, size: int | None = None, fill_value=None) -> Array:
    """The positions in the flattened array of elements that are not zero.

    >>> import gpuarray.numpy as gnp
    >>> gnp.flatnonzero(gnp.array([[0, 1], [0, 1]]))
    Array([1, 3], dtype=int32)
    """
    return nonzero(ravel(array("flatnonzero", a)), size=size, fill_value=fill_value)[0]


def argwhere(a, *, size: int | None = None, fill_value=None) -> Array:
    """The positions of elements that are not zero, as rows: (…) -> (count, ndim).

    >>> import gpuarray.numpy as gnp
    >>> gnp.argwhere(gnp.array([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = array("argwhere", a)
    if a.ndim == 0:
        rows = len(flatnonzero(a, size=size))
        return lax.full((rows, 0), 0, dtypes.default_int())
    columns = nonzero(a, size=size, fill_value=fill_value)
    return lax.concatenate([reshape(c, (c.shape[0], 1)) for c in columns], 1)


# ---- picking and placing --------------------------------------------------------------------


def compress(
    condition, a, axis: int | None = None, *, size: int | None = None, fill_value=0, out=None
) -> Array:
    """The slices of `a` along an axis for which the (n,) condition holds; of the flattened array
    without an axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.compress(gnp.array([False, True]), gnp.array([[1, 2], [3, 4]]), axis=0)
    Array([[3, 4]], dtype=int32)
    """
    no_out("compress", out)
    condition, a, fill = arrays("compress", condition, a, fill_value)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if axis is None:
        a, axis = ravel(a), 0
    a = moveaxis(a, axis, 0)
    n = a.shape[0]
    if condition.shape[0] > n:
        # A condition may be longer than the axis, if no more is chosen there.
        rest = known_value(condition)
        if rest is not None and rest[n:].any():
            raise ValueError("condition contains entries that are out of bounds")
    condition = getitem(condition, slice(0, n))
    if size is None:
        # Outside of traces the number of elements is known, and no size is needed.
        chosen = getitem(a, flatnonzero(condition))
        return moveaxis(chosen, 0, axis)
    if not 0 <= util.index(size) <= n:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; got "
            f"size={size} for a.shape[axis]={n}"
        )
    rows = flatnonzero(condition, size=size, fill_value=n)
    # Row n does not exist: those places are filled below.
    chosen = a.at[rows].get(mode="fill", fill_value=0)
    missing = lax.broadcast_in_dim(lax.ge(rows, rows.dtype.type(n)), chosen.shape, (0,))
    return moveaxis(choose_by(missing, lax.convert_element_type(fill, a.dtype), chosen), 0, axis)


def extract(condition, arr, *, size: int | None = None, fill_value=0) -> Array:
    """The elements of `arr` where the condition holds, as one axis.

    >>> import gpuarray.numpy as gnp
    >>> gnp.extract(gnp.array([True, False, True]), gnp.arange(3))
    Array([0, 2], dtype=int32)
    """
    condition, arr, fill = arrays("extract", condition, arr, fill_value)
    arr = ravel(arr)
    # As in `compress`: a position past the end marks a place without an element.
    where_ = flatnonzero(condition, size=size, fill_value=arr.size)
    found = arr.at[where_].get(mode="fill", fill_value=0)
    missing = lax.ge(where_, where_.dtype.type(arr.size))
    return choose_by(missing, as_type(fill, arr.dtype, arr.weak_type), found)


def place(arr, mask, vals, *, inplace: bool = True) -> Array:
    """`arr` with the elements where the mask holds replaced by `vals`, which repeat as needed.

    Arrays are immutable, so `inplace=False` has to be passed.

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.arange(4)
    >>> gnp.place(x, x > 1, gnp.array([7, 8]), inplace=False)
    Array([0, 1, 7, 8], dtype=int32)
    """
    data, mask, vals = arrays("place", arr, mask, vals)
    refuse_inplace("place", inplace)
    if data.size != mask.size:
        raise ValueError("place: arr and mask must be the same size")
    vals = ravel(vals)
    if vals.size == 0:
        raise ValueError("Cannot place values from an empty array")
    if data.size == 0:
        return data
    flag = reshape(as_mask(mask), data.shape)
    # The k-th place that is filled takes value k modulo their number.
    rank = lax.sub(lax.cumsum(lax.convert_element_type(ravel(flag), np.int32)), np.int32(1))
    number = lax.rem(lax.max(rank, np.int32(0)), np.int32(vals.size))
    chosen = getitem(lax.convert_element_type(vals, data.dtype), number)
    return choose_by(flag, reshape(chosen, data.shape), data)


def refuse_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable. "
            "Pass inplace=False to instead return an updated array."
        )


def _with_more(f: Callable, args: tuple, kw: dict[str, Any], element: Array) -> Any:
    return f(element, *args, **kw)


@composite(static=("calls",), inline=True, name="piecewise")
def _pieces(x: Array, *operands: Array, calls: tuple[Callable | None, ...]) -> Array:
    """The body of `piecewise`: conditions, and then the numbers used where a call is None."""
    conditions, numbers = operands[: len(calls) - 1], iter(operands[len(calls) - 1 :])

    def one(f, element):
        part = array("piecewise", f(element))
        if part.shape:
            raise TypeError(
                "a function of piecewise gets one element and returns one, of no axes; "
                f"{f!r} returned shape {part.shape}"
            )
        return part

    def piece(f):
        if f is None:
            part = next(numbers)
        else:
            each = functools.partial(one, f)
            for _ in x.shape:
                each = vmap(each)
            part = each(x)
        # All pieces have the dtype of x, as in NumPy.
        return stretch(lax.convert_element_type(part, x.dtype), x.shape)

    out = piece(calls[0])
    # A later condition that holds wins, as in NumPy.
    for condition, f in zip(conditions, calls[1:], strict=True):
        out = choose_by(stretch(condition, x.shape), piece(f), out)
    return out


@check_ranks("x", "*condlist")
def piecewise(x, condlist, funclist: list[Any], *args, **kw) -> Array:
    """A function given piece by piece: where condlist[i] holds, funclist[i] of `x`; the last
    condition that holds wins.

    An extra function is for places where none holds (0 otherwise). Functions may be numbers. A
    function gets one element, of no axes, as under `vmap`, so it may branch and loop by its value
    (`lax.cond`); in NumPy it gets all elements of its piece at once.

    >>> import gpuarray.numpy as gnp
    >>> x = gnp.array([-2., 3.])
    >>> gnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, 10])
    Array([ 2., 10.], dtype=float32)
    """
    x = array("piecewise", x)
    conditions = list(condlist)
    functions: list[Callable | Any] = list(funclist)
    count = len(conditions)
    # One function more is for where no condition holds.
    if len(functions) == count + 1:
        default = functions.pop()
    elif len(functions) == count:
        default = 0
    else:
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are expected; got "
            f"{len(functions)}"
        )

    calls = tuple([f if callable(f) else None for f in (default, *functions)])
    given = [*conditions, *(f for f in (default, *functions) if not callable(f))]
    operands = [array("piecewise", v) for v in given]
    if args or kw or not all(isinstance(f, Hashable) for f in calls):
        calls = tuple([f and functools.partial(_with_more, f, args, kw) for f in calls])
        return _pieces.__wrapped__(x, *operands, calls=calls)
    # The same functions on small arrays are one compiled call, traced once.
    return _pieces(x, *operands, calls=calls)
