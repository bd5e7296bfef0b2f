"""Grids of devices that are wired as a grid: which directions of it the axes of a mesh follow.

Floor 6. In: devices that have coordinates, lengths of the axes of a mesh. Out: NumPy arrays of
devices.

The chips of some machines are connected to their neighbours in two or three directions, each of
them a ring. Such devices report their position (`coords`, and `core_on_chip` if a chip is two
devices). A mesh axis that follows whole directions sends to neighbours only, and the more
directions it follows, the more links it has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Lengths = tuple[int, ...]


def is_wired(devices: Sequence[Any]) -> bool:
    """Whether all of some devices say where they are in a grid."""
    return bool(devices) and all(hasattr(d, "coords") for d in devices)


def grid_of(devices: Sequence[Any]) -> np.ndarray:
    """Return devices in the order in which they are wired; a ValueError if they are no full box.

    The cores of a chip are consecutive in the last direction.
    """
    # A chip with one device has core 0.
    places = np.array([(*d.coords, getattr(d, "core_on_chip", 0)) for d in devices])
    first = places.min(axis=0)
    sizes = places.max(axis=0) - first + 1
    inside = {tuple(p) for p in places - first}
    # No duplicate and no missing position.
    if len(inside) < len(devices) or len(devices) != math.prod(sizes):
        raise ValueError(
            f"{len(devices)} devices at {len(inside)} places of a grid of "
            f"{'x'.join(map(str, sizes))} are not a contiguous cuboid: give all devices of a box, "
            "each once"
        )
    found = np.empty(tuple(sizes), dtype=object)
    for place, device in zip(places - first, devices, strict=True):
        found[tuple(place)] = device
    return found.reshape(*sizes[:-2], sizes[-2] * sizes[-1])


def arranged(
    lengths: Lengths, devices: Sequence[Any], *, split: bool = False, together: bool = False
) -> np.ndarray:
    """Return wired devices as the grid of a mesh.

    Parameters
    ----------
    lengths :
        Those of the axes of the mesh.
    split :
        Whether an axis may follow a part of a direction.
    together :
        Whether the devices of a process have to be a block of the grid.
    """
    if together:
        return blocks(grid_of(devices), lengths)
    found = rings(devices, lengths)
    if found is not None:
        return found.reshape(lengths)
    grid = grid_of(devices)
    return laid(grid, lengths, (assigned_splitting if split else assigned)(grid.shape, lengths))


def rings(devices: Sequence[Any], lengths: Lengths) -> np.ndarray | None:
    """Return devices in the order of rings; None if they do not form rings.

    If a chip is two devices, each board is a ring: boards correspond to processes. A strip of two
    rows is one, if the mesh has only one axis.
    """
    boards: dict[int, list] = {}
    for device in devices:
        boards.setdefault(device.process_index, []).append(device)
    if any(getattr(d, "core_on_chip", 0) for d in devices):
        parts = [boards[i] for i in sorted(boards)]
    # Along a mesh of one axis all devices may be one ring.
    elif sum(n > 1 for n in lengths) == 1:
        parts = [list(devices)]
    else:
        return None
    found: list = []
    for part in parts:
        ring = _ring(part)
        if ring is None:
            return None
        found += ring
    flat = np.empty(len(found), dtype=object)
    flat[:] = found
    return flat


def _ring(devices: list) -> list | None:
    """Return the devices of a strip of two rows in ring order; None for other boxes."""
    rows: dict[tuple, list] = {}
    for device in devices:
        x, *rest = device.coords
        # Rows go along the first direction; the others number them, the last one major.
        rows.setdefault(tuple(reversed(rest)), []).append(((x, device.core_on_chip), device))
    if len(rows) > 2 or len({len(row) for row in rows.values()}) > 1:
        return None
    found: list = []
    for number, key in enumerate(sorted(rows)):
        chips = itertools.groupby(sorted(rows[key], key=lambda p: p[0]), lambda p: p[0][0])
        row = [[device for _, device in chip] for _, chip in chips]
        # There along the first row, back along the other; a chip's cores stay in their order.
        found += [d for chip in (row[::-1] if number else row) for d in chip]
    return found


# ---- which directions an axis follows ----


def assigned(shape: Lengths, lengths: Lengths) -> np.ndarray:
    """Return for each direction and axis how much of the one the other follows: all of it, or 1.

    The last axes, along which most is sent, choose first; each takes as many directions as it can.

    >>> assigned((4, 4, 8), (1, 16, 8))
    array([[1, 4, 1],
           [1, 4, 1],
           [1, 1, 8]])
    """
    found = np.ones((len(shape), len(lengths)), dtype=np.int64)
    free = dict(enumerate(shape))
    for axis in reversed(range(len(lengths))):
        if lengths[axis] == 1:
            continue
        some = (
            chosen
            # As many directions as possible first: each has its own links.
            for count in range(len(free), 0, -1)
            for chosen in itertools.combinations(free, count)
            if math.prod(shape[i] for i in chosen) == lengths[axis]
        )
        chosen = next(some, None)
        if chosen is None:
            raise NotImplementedError(
                f"an axis of length {lengths[axis]} follows no whole directions of a grid of "
                f"{tuple(shape)}, of which {tuple(free.values())} are left: give "
                "allow_split_physical_axes=True, or another mesh_shape"
            )
        for i in chosen:
            found[i, axis] = free.pop(i)
    return found


def assigned_splitting(shape: Lengths, lengths: Lengths) -> np.ndarray:
    """Return the result of `assigned` for axes that may follow part of a direction.

    >>> assigned_splitting((4, 4, 4), (8, 8, 1))
    array([[1, 4, 1],
           [2, 2, 1],
           [4, 1, 1]])
    """
    found = np.ones((len(shape), len(lengths)), dtype=np.int64)
    for axis in reversed(range(len(lengths))):
        if lengths[axis] > 1:
            choices = list(parts(shape, found, lengths[axis]))
            # There is always one: the remaining devices match the remaining axes.
            if not choices:
                raise NotImplementedError(
                    f"an axis of length {lengths[axis]} follows no parts of the directions of a "
                    f"grid of {tuple(shape)}: give another mesh_shape"
                )
            found[:, axis] = max(choices, key=lambda c: wholeness(c, shape))
    return found


def parts(shape: Sequence[int], taken: np.ndarray, length: int) -> Iterator[np.ndarray]:
    """Yield the ways in which an axis of a length can follow the remaining directions."""
    left = np.asarray(shape) // np.prod(taken, axis=1, dtype=np.int64)
    divisors = [[f for f in range(n, 0, -1) if n % f == 0] for n in left.tolist()]
    for choice in itertools.product(*divisors):
        if math.prod(choice) == length:
            yield np.array(choice, dtype=np.int64)


def wholeness(choice: np.ndarray, shape: Sequence[int]) -> tuple[int, int]:
    """Return how good a choice is: how much of the axis follows whole directions, which are rings,
    and how many of them.
    """
    whole = [n for n, full in zip(choice.tolist(), shape, strict=True) if n == full > 1]
    return (math.prod(whole) if whole else 0), len(whole)


def laid(grid: np.ndarray, lengths: Sequence[int], factors: np.ndarray) -> np.ndarray:
    """Return a grid of devices whose axes follow its directions as `factors` says."""
    pieces = grid.reshape(factors.reshape(-1))
    # Factors are numbered by direction; the mesh wants them by axis.
    order = np.arange(factors.size).reshape(factors.shape).T.reshape(-1)
    return pieces.transpose(order).reshape(tuple(lengths))


# ---- blocks of processes ----


def blocks(grid: np.ndarray, lengths: Lengths) -> np.ndarray:
    """Return a grid in which the devices of each process form a block; ValueError if impossible."""
    wanted = tuple(n for n in lengths if n > 1) or (1,)
    for found in _foldings(grid, len(wanted)):
        if found.shape == wanted and _in_blocks(found):
            return found.reshape(lengths)
    # For the message: which shapes would do.
    two = [f.shape for f in _foldings(grid, 2) if _in_blocks(f)]
    if not two:
        raise ValueError(
            "create_device_mesh cannot create contiguous submeshes for physical mesh topology "
            f"{grid.shape}"
        )
    raise ValueError(
        f"create_device_mesh cannot create contiguous submeshes for mesh_shape {tuple(lengths)} "
        f"and physical mesh topology {grid.shape}. Available mesh_shapes: "
        f"{list(dict.fromkeys(two))}"
    )


def _foldings(grid: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield a grid as arrays of `count` axes, each of which follows whole directions."""
    # All orders of directions, and all ways to put neighbours among them together.
    for order in itertools.permutations(range(grid.ndim)):
        turned = grid.transpose(order)
        for ends in itertools.combinations(range(1, grid.ndim), count - 1):
            bounds = (0, *ends, grid.ndim)
            yield turned.reshape(
                [math.prod(turned.shape[a:b]) for a, b in itertools.pairwise(bounds)]
            )


def _in_blocks(grid: np.ndarray) -> bool:
    """Whether the devices of each process are a block."""
    numbers = np.vectorize(lambda d: d.process_index)(grid)
    for number in np.unique(numbers):
        places = np.argwhere(numbers == number)
        if math.prod(np.ptp(places, axis=0) + 1) != len(places):
            return False
    return True
