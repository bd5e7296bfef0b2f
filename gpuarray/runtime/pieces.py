"""Pieces of arrays that lie over several devices: cut, put together, and laid out anew.

Floor 5. In: a Place (devices and a sharding), and buffers, one for each device in the Place's
order. Out: buffers for another Place, or the whole as one NumPy array. Replicas on devices that
share memory are the same buffer.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuarray.core.sharding import Place, Sharding

#: For each axis, the first element and the one behind the last.
Region = tuple[tuple[int, int], ...]


def regions(place: Place, shape: tuple[int, ...]) -> tuple[Region, ...]:
    """Return the part of an array of this shape that each device of a Place here holds."""
    return _regions(place.sharding, place.devices, shape)


@functools.lru_cache(4096)
def _regions(sharding: Sharding, devices: tuple, shape: tuple[int, ...]) -> tuple[Region, ...]:
    index = sharding.devices_indices_map(shape)
    return tuple(
        tuple(s.indices(n)[:2] for s, n in zip(index[d], shape, strict=True)) for d in devices
    )


def _slices(region: Region, inside: Region) -> tuple[slice, ...]:
    """Return the slices of a piece that covers `inside` which give `region`."""
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(region, inside, strict=True))


def _common(a: Region, b: Region) -> Region | None:
    """Return what two regions share; None if it is nothing."""
    found = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))
    return found if all(p < q for p, q in found) else None


def cut(value: np.ndarray, place: Place) -> list:
    """Return the buffers of a host value that is laid over a Place."""
    shape = value.shape
    whole = tuple((0, n) for n in shape)
    made: dict[Region, Any] = {whole: value}
    out = []
    for region in regions(place, shape):
        if region not in made:
            # In memory of its own: a piece does not keep the whole alive.
            made[region] = value[_slices(region, whole)].copy()
        out.append(made[region])
    return out


def whole(place: Place, shape: tuple[int, ...], buffers: list) -> np.ndarray:
    """Return the value of pieces as one host array; replicated ones are not copied."""
    return _assembled(tuple((0, n) for n in shape), regions(place, shape), buffers)


def moved(shape: tuple[int, ...], buffers: list, old: Place, new: Place) -> list:
    """Return the buffers of the same value for another Place.

    Of an array that spans processes, what is needed must be here.
    """
    have = regions(old, shape)
    made: dict[Region, Any] = {}
    out = []
    for region in regions(new, shape):
        if region not in made:
            made[region] = _assembled(region, have, buffers)
        out.append(made[region])
    return out


def _assembled(wanted: Region, have: tuple[Region, ...], buffers: list) -> Any:
    """Return one region of a value whose pieces are given."""
    # A piece that is just this one, or holds all of it. Of replicas the first counts: those that a
    # shard_map without check_vma says to be the same may not be.
    known: dict[Region, Any] = {}
    for region, buffer in zip(have, buffers, strict=True):
        if region not in known:
            known[region] = np.asarray(buffer)
    if wanted in known:
        return known[wanted]
    for region, piece in known.items():
        if _common(region, wanted) == wanted:
            return piece[_slices(wanted, region)].copy()
    # Else from all pieces that overlap it; each element is in one of `known`, replicas are not.
    first = next(iter(known.values()))
    out = np.empty([b - a for a, b in wanted], first.dtype)
    filled = 0
    for region, piece in known.items():
        shared = _common(region, wanted)
        if shared is not None:
            part = out[_slices(shared, wanted)]
            part[...] = piece[_slices(shared, region)]
            filled += part.size
    if filled < out.size:
        raise RuntimeError(f"of the region {wanted} of an array, parts are in other processes")
    return out
