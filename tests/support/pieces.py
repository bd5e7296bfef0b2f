"""Equations evaluated on pieces: operands cut along factors, results put together again.

In: a primitive, avals, parameters, operands as NumPy arrays, its `Factors`, and into how many parts
which factors are cut. Out: the results that the pieces make, to be compared with those of the
whole.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import Axes, Factors
from gpuarray.core.primitive import Primitive, registry
from gpuarray.core.value import Array


def _picked(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The value whose bits are those of both."""
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b)]
    return (bits[0] | bits[1]).view(a.dtype).reshape(a.shape)


COMBINE = {
    "pick": _picked,
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def evaluate(prim: Primitive, avals, params: dict, xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the NumPy rule."""
    with np.errstate(all="ignore"):
        out = prim.numpy_function(avals, params)(*xs)
    return [np.asarray(x) for x in (out if prim.multiple_results else [out])]


def by_factor(axes: Axes, shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The shape in which every factor has an axis of its own; behind them what is left."""
    split: list[int] = []
    for axis, n in zip(axes, shape, strict=True):
        lengths = [sizes[f] for f in axis]
        size = math.prod(lengths)
        split += [*lengths, n // size if size else n]
    return split


def places(axes: Axes, sizes: Sequence[int], cuts: Mapping[int, int], at: Mapping[int, int]):
    """Where a piece is in an array of shape `by_factor`."""
    where: list[slice] = []
    for axis in axes:
        for f in axis:
            n = sizes[f] // cuts.get(f, 1)
            where.append(slice(at.get(f, 0) * n, (at.get(f, 0) + 1) * n))
        where.append(slice(None))
    return tuple(where)


def in_pieces(
    prim: Primitive,
    avals: Sequence[ShapedArray],
    params: dict,
    xs: Sequence[np.ndarray],
    factors: Factors,
    cuts: Mapping[int, int],
) -> list[np.ndarray]:
    """The results, made of those of the pieces."""
    out_avals = prim.out_avals(avals, params)
    in_shapes, out_shapes = factors.shapes(cuts)
    local = factors.local(params, cuts)
    local_avals = [a.update(shape=s) for a, s in zip(avals, in_shapes, strict=True)]
    found = prim.out_avals(local_avals, local)
    assert [a.shape for a in found] == out_shapes, "shapes of a piece"
    assert [a.dtype for a in found] == [a.dtype for a in out_avals], "dtypes of a piece"
    owed = [f for f in cuts if f in factors.owed]
    kept = [f for f in cuts if f not in factors.owed]
    whole: list[np.ndarray] | None = None
    for place in itertools.product(*(range(cuts[f]) for f in kept)):
        parts = []
        for other in itertools.product(*(range(cuts[f]) for f in owed)):
            at = dict(zip([*kept, *owed], [*place, *other], strict=True))
            mine = [
                x.reshape(by_factor(axes, x.shape, factors.sizes))[
                    places(axes, factors.sizes, cuts, at)
                ].reshape(shape)
                for x, axes, shape in zip(xs, factors.ins, in_shapes, strict=True)
            ]
            if factors.piece is None:
                parts.append(evaluate(prim, local_avals, local, mine))
                continue
            starts = {f: np.int32(i * (factors.sizes[f] // cuts[f])) for f, i in at.items()}
            given = [as_array(x, a.dtype) for x, a in zip(mine, avals, strict=True)]
            made = factors.piece(given, local, starts)
            parts.append([stored(x) for x in made])
        results = parts[0]
        if owed:
            (how,) = {factors.owed[f] for f in owed}
            with np.errstate(all="ignore"):
                results = [functools.reduce(COMBINE[how], some) for some in zip(*parts)]
        if whole is None:
            whole = [np.zeros(a.shape, x.dtype) for a, x in zip(out_avals, results, strict=True)]
        for out, part, axes in zip(whole, results, factors.outs, strict=True):
            split = out.reshape(by_factor(axes, out.shape, factors.sizes))
            where = places(axes, factors.sizes, cuts, at)
            split[where] = part.reshape(split[where].shape)
    assert whole is not None
    return whole


def as_array(x: np.ndarray, dtype) -> Array:
    """A value of the library; random keys from what stores them."""
    if not isinstance(dtype, dtypes.KeyDtype):
        return registry["copy"].bind(x)
    impl = dtype.impl
    words = np.ascontiguousarray(x).reshape(-1).view(np.uint32)
    return registry["random_wrap"].bind(words.reshape(*x.shape, *impl.key_shape), impl=impl)


def stored(x) -> np.ndarray:
    """What holds the elements of a value, as its NumPy rule gives it."""
    if not isinstance(x.dtype, dtypes.KeyDtype):
        return np.asarray(x)
    words = np.ascontiguousarray(np.asarray(registry["random_unwrap"].bind(x)))
    return words.reshape(-1).view(x.dtype.storage).reshape(x.shape)
