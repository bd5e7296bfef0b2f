"""`pad`: arrays made longer at both ends, in all of NumPy's modes.

Floor 6. In: an array, the widths and a mode. Out: the longer array, built axis by axis out of
slices and concatenation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray.core import dtypes
from gpuarray.core.dims import Dim, larger
from gpuarray.core.value import Array
from gpuarray.lax.convert import host_constant
from gpuarray.numpy.axes import flip, moveaxis
from gpuarray.numpy.construct import as_type, numbers
from gpuarray.numpy.indexer import known_value
from gpuarray.numpy.indexing import getitem
from gpuarray.numpy.joining import stack, unstack
from gpuarray.numpy.operands import array, need_concrete
from gpuarray.numpy.quantiles import median
from gpuarray.numpy.shapes import broadcast_to, reshape
from gpuarray.runtime.memory import accounted

# Each mode with the only options that it takes, and their defaults.
_OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0},
    "linear_ramp": {"end_values": 0},
    "maximum": {"stat_length": None},
    "mean": {"stat_length": None},
    "median": {"stat_length": None},
    "minimum": {"stat_length": None},
    "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"},
    "edge": {},
    "wrap": {},
    "empty": {},
}


@accounted("pad")
def pad(array, pad_width, mode: str | Callable[..., Any] = "constant", **kwargs) -> Array:
    """`array` with `pad_width` elements more before and after, along every axis.

    Parameters
    ----------
    pad_width :
        A number for all sides, (before, after) for all axes, or one such pair for each axis.
    mode :
        "constant" (constant_values), "edge", "linear_ramp" (end_values), "maximum", "mean",
        "median" and "minimum" (stat_length), "reflect" and "symmetric" (reflect_type "even" or
        "odd"), "wrap", "empty", or a function f(vector, widths, axis, kwargs) of every padded
        vector.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.pad(gnp.arange(1, 4), (1, 2), mode="reflect")
    Array([2, 1, 2, 3, 2, 1], dtype=int32)
    """
    x = _array("pad", array)
    out = _padded(x, _widths(pad_width, x.ndim), mode, kwargs)
    # The padding may be strongly typed; the result has the weak type of x.
    return as_type(out, out.dtype, x.weak_type)


def _padded(x: Array, widths, mode: str | Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if not util.known(mode, _OPTIONS):
        raise NotImplementedError(
            f"Unimplemented padding mode '{mode}' for np.pad. Choose one of "
            f"{', '.join(sorted(_OPTIONS))}."
        )
    unknown = set(kwargs) - set(_OPTIONS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    options = _OPTIONS[mode] | kwargs
    # Each mode by its kind: a constant, positions in the array, or a computed value.
    if mode in ("constant", "empty"):
        return _pad_constant(x, widths, options.get("constant_values", 0))
    if mode in ("edge", "wrap", "reflect", "symmetric"):
        for axis, (before, after) in enumerate(widths):
            if x.shape[axis] == 0 and (before or after):
                raise ValueError(f"Cannot apply '{mode}' padding to empty axis")
    if mode == "linear_ramp":
        return _pad_ramp(x, widths, options["end_values"])
    if mode in _STATISTICS:
        return _pad_statistic(x, widths, mode, options["stat_length"])
    if mode in ("reflect", "symmetric") and options["reflect_type"] == "odd":
        return _pad_odd(x, widths, skip=int(mode == "reflect"))
    if options.get("reflect_type", "even") != "even":
        raise ValueError(f"reflect_type must be 'even' or 'odd', got {options['reflect_type']!r}")
    return _pad_by_position(x, widths, mode)


_array = array  # `pad` has an argument of that name


def _widths(pad_width, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, Array):
        # Widths are shapes.
        value = known_value(pad_width)
        if value is None:
            need_concrete(pad_width, "the `pad_width` argument of jnp.pad()")
        pad_width = value
    try:
        given = np.asarray(pad_width)
    except ValueError:
        # Ragged: `_pairs` raises the error.
        given = np.asarray(pad_width, object)
    if Dim in map(type, given.flat):
        wide = [(util.index(a), util.index(b)) for a, b in _pairs(given, ndim, "pad_width")]
        if any(n < 0 for pair in wide for n in pair):
            raise ValueError(f"index can't contain negative values, got pad_width={pad_width}")
        return wide
    if given.size and given.dtype == object and all(isinstance(n, int) for n in given.flat):
        raise OverflowError(f"pad_width={pad_width} does not fit into 64 bits")
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(f"`pad_width` must be of integral type, got {pad_width!r}.")
    if (given < 0).any():
        raise ValueError(f"index can't contain negative values, got pad_width={pad_width}")
    return [(int(a), int(b)) for a, b in _pairs(given, ndim, "pad_width")]


def _pairs(given, ndim: int, what: str) -> list[tuple[Any, Any]]:
    """NumPy's short forms of (before, after) for every axis, written out."""
    # NumPy's forms: one for all, one pair for all, or a pair for each axis.
    if given.shape in ((), (1,)):
        one = given.reshape(())[()] if isinstance(given, np.ndarray) else reshape(given, ())
        return [(one, one)] * ndim
    if given.shape == (2,):
        return [(given[0], given[1])] * ndim
    if given.shape == (1, 2):
        return [(given[0, 0], given[0, 1])] * ndim
    if given.shape == (ndim, 2):
        return [(given[i, 0], given[i, 1]) for i in range(ndim)]
    raise ValueError(
        f"jnp.pad: {what} with nd={ndim} has unsupported shape {given.shape}. Valid shapes are "
        f"({ndim}, 2), (1, 2), (2,), (1,), or ()."
    )


def _value_pairs(values, x: Array, what: str) -> list[tuple[Any, Any]]:
    """Padding values in the dtype of `x`, (before, after) for every axis."""
    values = numbers(values)
    if not isinstance(values, Array):  # scalars of the host are written into the program
        with np.errstate(all="ignore"):
            return _pairs(host_constant(values, x.dtype), x.ndim, what)
    pairs = _pairs(values, x.ndim, what)
    return [tuple(lax.convert_element_type(v, x.dtype) for v in pair) for pair in pairs]  # pyright: ignore


def _pad_constant(x: Array, widths, values) -> Array:
    pairs = _value_pairs(values, x, "constant_values")
    # One value: one operation for all axes.
    if numbers(values).ndim == 0:
        return (
            lax.pad(x, pairs[0][0] if pairs else 0, [(a, b, 0) for a, b in widths]) if pairs else x
        )
    none = (0, 0, 0)
    # Different values: one side at a time, each axis including the padding of earlier axes.
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, pairs, strict=True)):
        for count, value, config in ((before, low, (before, 0, 0)), (after, high, (0, after, 0))):
            if count:
                sides = [config if i == axis else none for i in range(x.ndim)]
                x = lax.pad(x, value, sides)
    return x


def _pad_by_position(x: Array, widths, mode: str) -> Array:
    """Modes that only repeat elements: each position of the result is an index into the array."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        n = x.shape[axis]
        if Dim in map(type, (n, before, after)):
            x = getitem(x, (*(slice(None),) * axis, _positions(n, before, after, mode)))
            continue
        # The index of the element at each position of the result.
        at = np.arange(-before, n + after)
        if mode == "edge":
            at = np.clip(at, 0, n - 1)
        elif mode == "wrap" or n == 1:
            at = at % n
        else:
            # There and back again: "reflect" does not repeat the ends, "symmetric" does.
            period = 2 * (n - 1) if mode == "reflect" else 2 * n
            at = at % period
            # The second half of a period runs backwards.
            at = np.where(at < n, at, (period if mode == "reflect" else period - 1) - at)
        x = _runs(x, at, axis)
    return x


def _positions(n: Any, before: Any, after: Any, mode: str) -> Array:
    """The places of `_pad_by_position`, for lengths that are symbolic."""
    at = lax.iota(np.int32, before + n + after) - before
    if mode == "edge":
        return lax.clamp(np.int32(0), at, lax.convert_element_type(n - 1, np.int32))
    if mode == "wrap":
        return at % n
    # An axis of one element has no period: all positions hold that element.
    period = larger(2 * (n - 1), 1) if mode == "reflect" else 2 * n
    at = at % period
    return lax.select(at < n, at, (period if mode == "reflect" else period - 1) - at)


def _runs(x: Array, at: np.ndarray, axis: int) -> Array:
    """The elements at known positions along an axis, joined from the runs the positions form: no
    gather.
    """
    steps = np.diff(at)
    pieces = []
    begin = 0
    # Runs of neighbours become slices: forwards, backwards, or one element repeated.
    while begin < len(at):
        end = begin + 1
        step = steps[begin] if begin < len(steps) else 1
        if step in (-1, 0, 1):
            while end < len(at) and steps[end - 1] == step:
                end += 1
        first, last = int(at[begin]), int(at[end - 1])
        low, high = min(first, last), max(first, last) + 1
        piece = getitem(x, (slice(None),) * axis + (slice(low, high),))
        if end - begin > 1 and step == 0:
            shape = list(x.shape)
            shape[axis] = end - begin
            piece = broadcast_to(piece, tuple(shape))
        elif end - begin > 1 and step == -1:
            piece = flip(piece, axis)
        pieces.append(piece)
        begin = end
    return pieces[0] if len(pieces) == 1 else lax.concatenate(pieces, axis)


def _pad_odd(x: Array, widths, skip: int) -> Array:
    """Reflection through the edge value: 2 * edge - mirrored, as many times as the width needs."""
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        # One element has no mirror image but itself.
        if n == 1 and (before or after):
            edge = [(before, after) if i == axis else (0, 0) for i in range(x.ndim)]
            x = _pad_by_position(x, edge, "edge")
            continue
        for turned, width in ((False, before), (True, after)):
            # The same code pads the other end of the reversed array.
            if turned:
                x = flip(x, axis)
            # A pad wider than the array is mirrored again and again.
            while width:
                count = min(width, x.shape[axis] - skip)
                lead = (slice(None),) * axis
                mirrored = flip(getitem(x, (*lead, slice(skip, skip + count))), axis)
                edge = getitem(x, (*lead, slice(0, 1)))
                # Odd: mirrored at the edge's value too.
                x = lax.concatenate([edge * 2 - mirrored, x], axis)
                width -= count
            if turned:
                x = flip(x, axis)
    return x


def _pad_ramp(x: Array, widths, end_values) -> Array:
    pairs = _value_pairs(end_values, x, "end_values")
    # The ramp is computed in floats and rounded down for integers, as in NumPy.
    kind = dtypes.to_inexact_dtype(x.dtype)
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, pairs, strict=True)):
        lead = (slice(None),) * axis
        parts = [x]
        for count, end, edge in ((before, low, slice(0, 1)), (after, high, slice(-1, None))):
            if isinstance(count, int) and not count:
                continue
            side = getitem(x, (*lead, edge))
            start = lax.convert_element_type(broadcast_to(end, side.shape), kind)
            step = (lax.convert_element_type(side, kind) - start) / count
            shape = [1] * x.ndim
            shape[axis] = count
            # From the end value (included) towards the edge (excluded).
            ramp = lax.iota(kind, count).reshape(shape)
            values = start + step * ramp
            if dtypes.kind_of(x.dtype) in "iu":
                values = lax.floor(values)
            values = lax.convert_element_type(values, x.dtype)
            # On the right the end value is the last element.
            if edge.start == 0:
                parts.insert(0, values)
            else:
                parts.append(flip(values, axis))
        x = lax.concatenate(parts, axis) if len(parts) > 1 else x
    return x


_STATISTICS: dict[str, Callable[[Array, int], Array]] = {
    "maximum": lambda x, axis: x.max(axis, keepdims=True),
    "mean": lambda x, axis: x.mean(axis, keepdims=True),
    "median": lambda x, axis: median(x, axis, keepdims=True),
    "minimum": lambda x, axis: x.min(axis, keepdims=True),
}


def _pad_statistic(x: Array, widths, mode: str, stat_length) -> Array:
    lengths: list[tuple[Any, Any]] = [(None, None)] * x.ndim
    if stat_length is not None:
        lengths = [
            (util.index(a), util.index(b))
            for a, b in _pairs(np.asarray(stat_length), x.ndim, "stat_length")
        ]
        if any(n <= 0 for pair in lengths for n in pair):
            raise ValueError("stat_length of 0 yields no value for padding")
    for axis, ((before, after), (head, tail)) in enumerate(zip(widths, lengths, strict=True)):
        n = x.shape[axis]
        lead = (slice(None),) * axis
        sides = []
        for count, part in (
            (before, slice(0, head)),
            (after, slice(larger(n - (tail or n), 0), None)),
        ):
            # Of the whole axis, or of `stat_length` elements at its end.
            value = _STATISTICS[mode](getitem(x, (*lead, part)), axis)
            if dtypes.kind_of(x.dtype) in "iu":
                # NumPy rounds statistics of integers.
                value = value.round()
            shape = list(x.shape)
            shape[axis] = count
            sides.append(broadcast_to(lax.convert_element_type(value, x.dtype), tuple(shape)))
        x = lax.concatenate([sides[0], x, sides[1]], axis)
    return x


def _pad_by_function(x: Array, widths, function, options) -> Array:
    out = _pad_constant(x, widths, 0)
    for axis in range(out.ndim):
        lanes = moveaxis(out, axis, -1)
        flat = reshape(lanes, (-1, lanes.shape[-1]))
        # NumPy's protocol: the function gets each padded lane and returns it filled.
        rows = [function(row, widths[axis], axis, options) for row in unstack(flat)]
        out = moveaxis(reshape(stack(rows), lanes.shape), -1, axis)
    return out
