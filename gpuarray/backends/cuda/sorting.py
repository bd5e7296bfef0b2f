"""Sorts and searches by CuPy's library, which orders integers, and floats without nan, as we do.

Floor 4. In: avals and params of an equation, or its values. Out: a routine on CuPy arrays, or the
results in terms of other primitives.

Radix sorts order floats by their bits: a nan with a sign would come first. `sort` is therefore of
cleaned keys, in which every nan is the same one without a sign, and parts of complex numbers are
keys of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.backends.cuda import products
from gpuarray.backends.cuda.availability import cupy
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import storage_dtype
from gpuarray.core.primitive import Kind, NoKernel, Primitive
from gpuarray.primitives.define import do
from gpuarray.primitives.numpy_rules import is_foreign

#: `sort` by keys that CuPy orders as we do: integers, and floats whose nans have no sign.
library_sort_p = Primitive(
    "library_sort",
    Kind.LIBRARY,
    aval=lambda *operands, dimension, num_keys: list(operands),
    multiple_results=True,
    register=False,
)


# ---- sort ----
def sort(avals, *, dimension: int, is_stable: bool, num_keys: int):
    """The routine of `sort`, by integers."""
    if any(storage_dtype(key).kind not in "biu" for key in avals[:num_keys]):
        raise NoKernel("CuPy orders integers as we do")
    return library_sort(avals, dimension=dimension, num_keys=num_keys)


def library_sort(avals, *, dimension: int, num_keys: int):
    """The routine of `library_sort`: CuPy's stable sorts, by one key after the other."""
    if len(avals) == 1:
        return lambda x: [cupy.sort(x, axis=dimension)]

    def run(*xs):
        order = None  # from the last key to the first: sorting is stable, so the first one decides
        for key in xs[:num_keys][::-1]:
            # Rearrange the key by the order so far, sort it, and compose both orders.
            if order is not None:
                key = cupy.take_along_axis(key, order, dimension)
            found = cupy.argsort(key, axis=dimension, kind="stable")
            order = found if order is None else cupy.take_along_axis(order, found, dimension)
        return [cupy.take_along_axis(x, order, dimension) for x in xs]

    return run


def sort_parts(*xs, dimension: int, is_stable: bool, num_keys: int):
    """`sort` in terms of `library_sort`, by cleaned keys."""
    keys = [_cleaned(x) for x in xs[:num_keys]]
    columns = [part for parts in keys for part in parts]
    # A key that is a single column of its own dtype is its own result, sorted: its nans lose their
    # signs. Other operands are carried along.
    own = {
        i: sum(map(len, keys[:i]))
        for i, parts in enumerate(keys)
        if aval_of(parts[0]).dtype == aval_of(xs[i]).dtype
    }
    carried = [x for i, x in enumerate(xs) if i not in own]
    out = library_sort_p.bind(*columns, *carried, dimension=dimension, num_keys=len(columns))
    rest = iter(out[len(columns) :])
    return [out[own[i]] if i in own else next(rest) for i in range(len(xs))]


def _cleaned(x: Any) -> list[Any]:
    """A key as columns that CuPy orders as we do, the main one first."""
    dtype, kind = aval_of(x).dtype, dtypes.kind_of(aval_of(x).dtype)
    if kind == "c":
        return [_without_signs(do.real(x)), _without_signs(do.imag(x))]
    if kind == "f":
        # CuPy lacks the types of ml_dtypes; float32 represents all of their values.
        wide = np.dtype(np.float32) if is_foreign(dtype) else dtype
        return [_without_signs(products.cast(x, wide))]
    return [products.cast(x, np.dtype(np.int8)) if is_foreign(dtype) else x]


def _without_signs(x: Any) -> Any:
    """Floats with one nan for all."""
    nan = products.full(np.nan, aval_of(x).dtype, aval_of(x).shape)
    return do.select_n(do.ne(x, x), x, nan)


# ---- the largest ----
def top_k_parts(x, *, k: int, axis: int):
    """`top_k`: a sort by descending keys, with positions."""
    return _selected(_downwards(x), x, k, axis)


def approx_top_k_parts(x, *, k: int, reduction_dimension: int, is_max_k: bool, length: int):
    """`approx_top_k`: exact, which satisfies every recall target."""
    axis = reduction_dimension % aval_of(x).ndim
    return _selected(_downwards(x) if is_max_k else _upwards(x), x, length, axis)


def _selected(key, x, k: int, axis: int):
    """Return the elements with the `k` smallest keys along an axis, and their positions."""
    aval = aval_of(x)
    # Positions are carried along: they are the second result.
    positions = do.iota(dtype=np.dtype(np.int32), shape=aval.shape, dimension=axis, sharding=None)
    out = do.sort(key, x, positions, dimension=axis, is_stable=True, num_keys=1)
    starts, stops = [0] * aval.ndim, list(aval.shape)
    stops[axis] = k
    return [
        do.slice(v, start_indices=tuple(starts), limit_indices=tuple(stops), strides=None)
        for v in out[1:]
    ]


def _downwards(x):
    """Return integers in the reverse total order of the elements."""
    return getattr(do, "not")(_upwards(x))


def _upwards(x):
    """Return integers in the total order of the elements."""
    dtype = aval_of(x).dtype
    if dtypes.kind_of(dtype) != "f":
        return x
    # Of formats of 8 bits and less the highest bit may be no sign; they are exact in float32.
    if dtype.itemsize == 1:
        x, dtype = products.cast(x, np.dtype(np.float32)), np.dtype(np.float32)
    bits = do.bitcast_convert_type(x, new_dtype=np.dtype(f"i{dtype.itemsize}"))
    shape, integer = aval_of(bits).shape, aval_of(bits).dtype
    largest = products.full(np.iinfo(integer).max, integer, shape)
    # The bits of negative floats order backwards: flip all of them but the sign.
    return do.select_n(do.lt(bits, products.full(0, integer, shape)), bits, do.xor(bits, largest))


# ---- searches ----
def searchsorted(avals: list[ShapedArray], *, side: str, dtype):
    """The routine of `searchsorted`."""
    for aval in avals:
        if storage_dtype(aval).kind not in "biuf":
            raise NoKernel(f"CuPy does not search among {aval.str_short()}")
    # CuPy searches one sorted array at a time.
    rows = int(np.prod(avals[0].shape[:-1]))

    def search(ordered, query):
        if ordered.ndim == 1:
            return cupy.searchsorted(ordered, query, side=side)
        pairs = zip(ordered.reshape(rows, -1), query.reshape(rows, -1), strict=True)
        return cupy.stack([cupy.searchsorted(o, q, side=side) for o, q in pairs])

    return search
