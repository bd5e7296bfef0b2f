"""Folds of NumPy arrays: `ufunc.reduce`, and faster ways to the same where NumPy is slow.

Floor 2. In: a Fold, or a ufunc and the axes to fold. Out: a NumPy rule, or a function on arrays.
NumPy restarts its inner loop for each row, so rows of three elements take ten times as long as
necessary; and along a row its sums and products wait for each addition. Here short rows are
transposed to columns, narrow ones side by side in lanes, and floats along a row are summed by a
product with ones, which uses the whole vector unit.

Equal rows have equal results, wherever they are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import Fold
from gpuarray.primitives.numpy_rules import is_narrow

#: Arrays of fewer elements are folded by NumPy's own call: it has less to set up.
FEW = 256
#: The longest rows that are transposed: for extremes, and for sums, which NumPy does better.
SHORT_EXTREME, SHORT = 32, 12
#: A transposing copy pays only with at least this many times more rows than elements in a row.
WORTH_A_TRANSPOSE = 8
#: With fewer kept elements for each folded one, NumPy does not fill a vector register.
NARROW = 256
#: The most elements that are folded in lanes.
LANES = 1024
#: With fewer elements NumPy's sum is faster than setting up a product with ones.
WORTH_A_PRODUCT = 2048
#: The longest sum made by one product: its error grows with the length, and BLAS would start
#: threads for a much longer one.
PRODUCT = 256
#: NumPy folds bools by logic, which ends early, as it does other dtypes by bits.
ON_BOOLS = {
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.bitwise_xor: np.logical_xor,
}


def wide_of(dtype):
    """The dtype to fold elements of `dtype` in: a wider one for short floats and 4-bit integers.

    >>> wide_of(dtypes.bfloat16), wide_of(dtypes.uint4), wide_of(dtypes.int8)
    (dtype('float32'), dtype('uint8'), dtype('int8'))
    """
    if not is_narrow(dtype):
        return dtype
    return np.dtype({"f": "float32", "i": "int8", "u": "uint8"}[dtypes.kind_of(dtype)])


def fold_pick(rule: Fold) -> Callable[..., Callable[[Any], Any]]:
    """Return the NumPy rule of a reduction with a complete Fold.

    It folds in the operand's dtype, or in a wider one if that is narrow.
    """

    def pick(avals, *, axes, **_):
        (operand,) = avals
        dtype = operand.dtype
        wide = wide_of(dtype)
        ufunc = ON_BOOLS.get(rule.ufunc, rule.ufunc) if dtype == np.bool_ else rule.ufunc
        empty = math.prod(operand.shape[a] for a in axes) == 0
        if empty and ufunc.identity is None:  # as for maximum: NumPy needs an initial value
            initial = rule.of_nothing(dtype).astype(wide)
            folded = functools.partial(ufunc.reduce, axis=axes, initial=initial)
        else:
            folded = fold(ufunc, axes, wide, operand.size)
        # Lift, fold, finish: parts of a Fold that are the identity are left out.
        steps = [_function(rule.lift, wide), folded, _function(rule.finish, wide)]
        made = _in_turn([step for step in steps if step is not None])
        return made if wide is dtype else lambda x: made(x.astype(wide)).astype(dtype)

    return pick


def _function(part: Any, dtype) -> Callable[[Any], Any] | None:
    """Return the function of a Fold's `lift` or `finish`; None if it is the identity."""
    return None if isinstance(part, str) else part.numpy_function([ShapedArray((), dtype)], {})


def _in_turn(steps: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return the composition of functions, the first one first."""

    def run(x):
        for step in steps:
            x = step(x)
        return x

    return steps[0] if len(steps) == 1 else run


def fold(
    ufunc: np.ufunc, axes: tuple[int, ...], dtype, most: float = math.inf
) -> Callable[[Any], Any]:
    """Return a function that folds the `axes` of arrays of `dtype`, with `most` elements or fewer.

    >>> fold(np.maximum, (1,), np.dtype("int32"))(np.arange(6, dtype="int32").reshape(2, 3))
    array([2, 5], dtype=int32)
    """
    reduce, along = ufunc.reduce, axes[0] if len(axes) == 1 else axes

    def plain(x):
        return reduce(x, along, dtype)

    # Only neighbouring axes can be seen as one axis without a copy.
    if most < FEW or not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return plain
    # The method for each shape seen: choosing it takes longer than a small fold.
    ways: dict[tuple[int, ...], Callable[[Any], Any]] = {}

    def folded(x):
        if x.size < FEW or not x.flags.c_contiguous:
            return plain(x)
        way = ways.get(x.shape)
        if way is None:
            way = ways[x.shape] = _way(ufunc, x.shape, axes, dtype) or plain
        return way(x)

    return folded


def sum_of_products(axes: tuple[int, ...], dtype) -> Callable[[Any, Any], Any]:
    """Return a function of two float arrays: the sum of their products over `axes`, in one pass.

    >>> x = np.arange(6.0).reshape(2, 3)
    >>> sum_of_products((1,), x.dtype)(x, x)
    array([ 5., 50.])
    """
    of_product = fold(np.add, axes, dtype)

    def summed(x, y):
        # The product is summed without being stored if its folded axes are the last ones in memory.
        shape, end = x.shape, x.ndim - len(axes)
        straight = shape == y.shape and x.flags.c_contiguous and y.flags.c_contiguous
        length = math.prod(shape[end:])
        straight = straight and axes == tuple(range(end, x.ndim)) and x.size > 0
        # Otherwise the products are formed, and folded like any array.
        if not straight or not _is_dot(x.size // length, length):
            return of_product(np.multiply(x, y))
        sums = _dot(x.reshape(-1, length), y.reshape(-1, length))
        return sums.reshape(shape[:end])[()]

    return summed


def _way(ufunc: np.ufunc, shape: tuple[int, ...], axes: tuple[int, ...], dtype):
    """Return the fastest function for contiguous arrays of this shape; None means NumPy's own."""
    # The array as (rows, folded, kept), whatever axes each of them has.
    parts = shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :]
    rows, length, beside = (math.prod(part) for part in parts)
    sizes = rows, length, beside
    way = _way_of_middle(ufunc, sizes, dtype)
    if way is None:
        return None
    if len(axes) == len(shape):
        return lambda x: way(x.reshape(sizes))[0, 0]
    kept = parts[0] + parts[2]
    return lambda x: way(x.reshape(sizes)).reshape(kept)


def _way_of_middle(ufunc: np.ufunc, sizes: tuple[int, int, int], dtype):
    """Return a function that folds the middle one of three axes; None means NumPy's own."""
    rows, length, kept = sizes
    short = SHORT_EXTREME if ufunc in (np.maximum, np.minimum) else SHORT
    if 1 < length <= short and kept < SHORT and rows >= WORTH_A_TRANSPOSE * length:
        return functools.partial(_columns, ufunc)
    floats = dtype.kind == "f"
    if ufunc is np.add and floats and kept == 1 and length > SHORT:
        return _row_sums if _is_dot(rows, length) else None
    # Along one row, NumPy does all but products of floats with the whole vector unit.
    chained = ufunc is np.multiply and floats and length >= 2 * LANES
    if chained if kept == 1 else kept < NARROW and rows * length >= FEW:
        # About the square root: as many folds side by side as there are rows of lanes.
        lanes = min(LANES, 2 * math.isqrt(length * kept)) // kept
        if 2 <= lanes <= length // 2:
            return functools.partial(_lanes, ufunc, lanes)
    return None


def _columns(ufunc: np.ufunc, x):
    """Fold short rows as columns: transposed, they are adjacent long rows."""
    # The folded axis comes first, so that NumPy adds whole rows of results.
    return ufunc.reduce(np.ascontiguousarray(x.transpose(1, 2, 0)), axis=0, dtype=x.dtype).T


def _lanes(ufunc: np.ufunc, lanes: int, x):
    """Fold every `lanes`-th element together, then the lanes."""
    rows, length, kept = x.shape
    whole = length // lanes * lanes
    side_by_side = x[:, :whole].reshape(rows, -1, lanes * kept)
    left = ufunc.reduce(side_by_side, axis=1, dtype=x.dtype).reshape(rows, lanes, kept)
    # Elements after the last whole group of lanes are folded with the lanes' results.
    if whole < length:
        left = np.concatenate([left, x[:, whole:]], axis=1)
    # The rest may again be worth folding in lanes.
    again = _way_of_middle(ufunc, left.shape, x.dtype)
    return ufunc.reduce(left, axis=1, dtype=x.dtype) if again is None else again(left)


def _is_dot(rows: int, length: int) -> bool:
    """Whether rows are summed by products.

    Long rows always are, so that a row alone and the same row among others have the same sum.
    """
    return length >= PRODUCT or (length > SHORT and rows * length >= WORTH_A_PRODUCT)


def _row_sums(x):
    """Sum floats along rows by products with ones; the last axis has length 1."""
    rows, length, _ = x.shape
    return _dot(x.reshape(rows, length), None)[:, None]


def _dot(x, y):
    """Return for each row the sum of x * y, or of x where `y` is None."""
    rows, length = x.shape
    # Pieces of equal length, at most PRODUCT; fewer than `parts` elements are left over.
    parts = -(-length // PRODUCT)
    each = length // parts
    whole = parts * each
    factor = _ones(each, x.dtype) if y is None else y[:, :whole].reshape(rows, parts, each)
    sums = np.vecdot(x[:, :whole].reshape(rows, parts, each), factor)
    if parts == 1:
        return sums[:, 0]
    if whole < length:
        rest = x[:, whole:] if y is None else x[:, whole:] * y[:, whole:]
        sums = np.concatenate([sums, rest], axis=1)
    # The sums of the pieces are summed the same way.
    return _dot(sums, None)


# Kept, since the factor depends on the length only.
@functools.lru_cache(256)
def _ones(length: int, dtype):
    return np.ones(length, dtype)
