"""Moves: a value cut in one way becomes the same value cut in another.

Floor 3. In: a device's piece, traced, and how it is cut before and after. Out: the other piece, by
collectives that are bound in the current trace. What a move costs is what it sends: an axis that is
cut further costs nothing, one that changes places is exchanged, and only what nothing else can
give is gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.grid import Spec
from gpuarray.primitives.collective import ops
from gpuarray.primitives.define import do
from gpuarray.util import prod


def position(names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return this device's number along some axes taken together, the first one major."""
    total: Any = None
    for name in names:
        index = ops.axis_index_p.bind(axis_name=name)
        total = index if total is None else do.add(do.mul(total, np.int32(sizes[name])), index)
    return np.int32(0) if total is None else total


def start_of(names: tuple, length: int, sizes: Mapping[Any, int]) -> Any:
    """Return where this device's piece of `length` elements begins."""
    return do.mul(position(names, sizes), np.int32(length))


def gathered(x: Any, axis: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return pieces along an axis put together."""
    return ops.all_gather_p.bind(
        x,
        all_gather_dimension=axis,
        axis_index_groups=None,
        axis_name=names,
        axis_size=prod(sizes[n] for n in names),
        tiled=True,
    )


def sliced(x: Any, axis: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return this device's piece of a value that all devices along some axes have."""
    shape = list(aval_of(x).shape)
    shape[axis] //= prod(sizes[n] for n in names)
    starts: list[Any] = [np.int32(0)] * len(shape)
    starts[axis] = start_of(names, shape[axis], sizes)
    return do.dynamic_slice(x, *starts, slice_sizes=tuple(shape))


def exchanged(x: Any, old: int, new: int, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return a value that was cut along axis `old` cut along `new` instead."""
    return ops.all_to_all_p.bind(
        x,
        split_axis=new,
        concat_axis=old,
        axis_index_groups=None,
        axis_name=names[0] if len(names) == 1 else names,
        axis_size=prod(sizes[n] for n in names),
        tiled=True,
    )


def summed(x: Any, how: str, names: tuple, sizes: Mapping[Any, int]) -> Any:
    """Return what the partial results of all devices along some axes combine to."""
    aval = aval_of(x)
    named = {"sum": ops.psum_p, "max": ops.pmax_p, "min": ops.pmin_p}.get(how)
    if named is not None and aval.dtype != np.bool_:
        return named.bind(x, axes=names, axis_index_groups=None)[0]
    # Others are few and small: all partial results, reduced on each device.
    parts = ops.all_gather_p.bind(
        x,
        all_gather_dimension=0,
        axis_index_groups=None,
        axis_name=names,
        axis_size=prod(sizes[n] for n in names),
        tiled=False,
    )
    fold = {"prod": "reduce_prod", "and": "reduce_and", "or": "reduce_or"}
    if aval.dtype == np.bool_:
        fold |= {"max": "reduce_or", "min": "reduce_and"}
    more = {"out_sharding": None} if how == "prod" else {}
    return getattr(do, fold[how])(parts, axes=(0,), **more)


def moved(x: Any, old: Spec, new: Spec, sizes: Mapping[Any, int]) -> tuple[Any, list[str]]:
    """Return a device's piece of the same value cut as `new` says, and what had to be sent."""
    if old == new:
        return x, []
    have = [list(names) for names in old]
    sent: list[str] = []
    # What an axis keeps is what both begin with; the rest of the old cuts leave, minor first.
    kept = [_common(a, b) for a, b in zip(old, new, strict=True)]
    # An axis of the grid that leaves one axis of the value and enters another changes places.
    for i, names in enumerate(old):
        leaving = names[kept[i] :]
        for j, wanted in enumerate(new):
            if i == j or not leaving or tuple(have[i][kept[i] :]) != leaving:
                continue
            if (
                tuple(wanted[kept[j] : kept[j] + len(leaving)])
                == leaving
                == tuple(wanted[len(have[j]) : len(have[j]) + len(leaving)])
                and len(have[j]) == kept[j]
            ):
                x = exchanged(x, i, j, leaving, sizes)
                have[i], have[j] = have[i][: kept[i]], [*have[j], *leaving]
                sent.append("all_to_all")
    for i, names in enumerate(have):
        keep = _common(tuple(names), new[i])
        if names[keep:]:
            x = gathered(x, i, tuple(names[keep:]), sizes)
            have[i] = names[:keep]
            sent.append("all_gather")
    for i, names in enumerate(have):
        entering = new[i][len(names) :]
        if entering:
            x = sliced(x, i, tuple(entering), sizes)
    return x, sent


def _common(a: tuple, b: tuple) -> int:
    """Return how many names both begin with."""
    count = 0
    for p, q in zip(a, b, strict=False):
        if p != q:
            break
        count += 1
    return count
