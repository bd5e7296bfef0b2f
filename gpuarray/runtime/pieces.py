"""Pieces of arrays over several devices: cutting, assembling and resharding.

Floor 5. In: a Place (devices and a sharding), and buffers, one for each device in the Place's
order. Out: buffers for another Place, or the whole as one NumPy array. Replicas on devices that
share memory are the same buffer.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuarray.backends.cuda import boxes
from gpuarray.backends.cuda.device import Buffer
from gpuarray.core.sharding import Place, Sharding
from gpuarray.runtime import device as devices

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
    """Return the intersection of two regions; None if it is empty."""
    found = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))
    return found if all(p < q for p, q in found) else None


def cut(value: np.ndarray, place: Place) -> list:
    """Return the buffers of a host value sharded over a Place."""
    shape = value.shape
    whole = tuple((0, n) for n in shape)
    made: dict[Region, Any] = {whole: value}
    out = []
    for region in regions(place, shape):
        if region not in made:
            # A copy: a piece does not keep the whole alive.
            made[region] = value[_slices(region, whole)].copy()
        out.append(made[region])
    return out


def whole(place: Place, shape: tuple[int, ...], buffers: list) -> np.ndarray:
    """Return the assembled value of pieces as one host array; replicated ones are not copied."""
    return _assembled(tuple((0, n) for n in shape), regions(place, shape), buffers)


def moved(shape: tuple[int, ...], buffers: list, old: Place, new: Place) -> list:
    """Return the buffers of the same value for another Place.

    If the array spans processes, the needed pieces must be in this one.
    """
    # Between GPUs nothing goes through the host.
    have = regions(old, shape)
    if old.device.platform == new.device.platform == "gpu":
        pairs = zip(new.devices, regions(new, shape), strict=True)
        return [_on_gpu(devices.gpu_of(d), region, have, buffers) for d, region in pairs]
    # Devices that hold the same region have one buffer: CPU devices share memory.
    made: dict[Region, Any] = {}
    out = []
    for region in regions(new, shape):
        if region not in made:
            made[region] = _assembled(region, have, buffers)
        out.append(made[region])
    return out


def _assembled(wanted: Region, have: tuple[Region, ...], buffers: list) -> Any:
    """Return one region of a value whose pieces are given."""
    # A piece that equals the region, or contains it; replicas are examined once.
    known = dict(zip(reversed(have), reversed(buffers), strict=True))
    # Only pieces that overlap the region; all of them if it is empty, for the dtype.
    known = {r: b for r, b in known.items() if _common(r, wanted) is not None} or known
    holders = [r for r in known if r == wanted or _common(r, wanted) == wanted]
    holder = wanted if wanted in holders else next(iter(holders), None)
    if holder is not None:
        known = {holder: known[holder]}
    for piece in known.values():
        if type(piece) is Buffer:
            piece.start_copy()  # start all before waiting for the first
    known = {region: np.asarray(piece) for region, piece in known.items()}
    if wanted in known:
        return known[wanted]
    if holder is not None:
        return known[holder][_slices(wanted, holder)].copy()
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


# ---- on GPUs: copies between them, and none to the host ----
def _on_gpu(gpu: Any, wanted: Region, have: tuple[Region, ...], buffers: list[Buffer]) -> Buffer:
    """Return one region on a GPU, of a value whose pieces are on GPUs."""
    # Of replicas the one that is there already, if any.
    known: dict[Region, Buffer] = {}
    for region, piece in zip(have, buffers, strict=True):
        if region not in known or piece.gpu is gpu:
            known[region] = piece
    # The region if a piece equals it; else cut from a piece that contains it, preferably on this
    # GPU; else assembled from all that overlap it.
    exact = known.get(wanted)
    if exact is not None:
        return exact if exact.gpu is gpu else gpu.attempt(gpu.copy, exact)
    shape = tuple(b - a for a, b in wanted)
    whole = [r for r in known if _common(r, wanted) == wanted]
    if whole:
        near = next((r for r in whole if known[r].gpu is gpu), whole[0])
        return _fetched(gpu, known[near], wanted, near)
    out = gpu.attempt(gpu.empty, shape, buffers[0].dtype)
    for region, piece in known.items():
        shared = _common(region, wanted)
        if shared is None:
            continue
        part = piece if shared == region else _cut(piece, shared, region)
        part = part if part.gpu is gpu else gpu.attempt(gpu.copy, part)
        at = [a - c for (a, _), (c, _) in zip(shared, wanted, strict=True)]
        gpu.attempt(boxes.write, out, at, part, (0,) * len(at), part.shape)
    return out


def _fetched(gpu: Any, piece: Buffer, wanted: Region, inside: Region) -> Buffer:
    """Return a region of a piece that holds all of it, on a GPU."""
    part = _cut(piece, wanted, inside)
    return part if part.gpu is gpu else gpu.attempt(gpu.copy, part)


def _cut(piece: Buffer, wanted: Region, inside: Region) -> Buffer:
    """Return a region of a piece, on the piece's GPU."""
    starts = [a - c for (a, _), (c, _) in zip(wanted, inside, strict=True)]
    shape = tuple(b - a for a, b in wanted)
    return piece.gpu.attempt(boxes.part, piece, starts, shape)
