"""Grids of devices that are wired as a grid (`api/wiring.py`).

The devices are stand-ins with coordinates. What must hold is geometry: neighbours along an axis of
a mesh are neighbours on the wires, and every device is there once.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from gpuarray.api import wiring
from gpuarray.experimental import mesh_utils


def machine(x, y, z, cores=1, slices=1):
    """Chips in a grid; a process has up to 2 x 2 of one layer."""
    found = []
    for part, k, j, i, core in itertools.product(*map(range, (slices, z, y, x, cores))):
        across, along = max(1, x // 2), max(1, y // 2)
        process = i // 2 + across * (j // 2 + along * (k + z * part))
        found.append(
            SimpleNamespace(
                id=len(found), process_index=process, coords=(i, j, k), core_on_chip=core,
                slice_index=part,
            )
        )  # fmt: skip
    return found


def hops(a, b, shape):
    """Wires between two chips; each direction is a ring."""
    steps = (abs(p - q) for p, q in zip(a.coords, b.coords, strict=True))
    return sum(min(s, n - s) for s, n in zip(steps, shape, strict=True))


def farthest(grid, axis, shape):
    """The most wires between neighbours along an axis of a mesh."""
    lines = np.moveaxis(grid, axis, 0).reshape(grid.shape[axis], -1)
    pairs = itertools.pairwise(lines)
    return max(hops(a, b, shape) for row in pairs for a, b in zip(*row, strict=True))


def once_each(grid, devices):
    return sorted(d.id for d in grid.flat) == [d.id for d in devices]


@pytest.mark.parametrize(
    "shape, lengths, directions",
    [
        ((4, 4, 4), (4, 4, 4), (1, 1, 1)),
        ((4, 4, 4), (1, 16, 4), (0, 2, 1)),
        ((2, 2, 4), (4, 4), (1, 2)),  # the last axis takes two directions where it can
        ((4, 4, 8), (16, 8), (2, 1)),
        ((4, 8, 8), (32, 8), (2, 1)),
    ],
)
def test_axes_follow_whole_directions(shape, lengths, directions):
    devices = machine(*shape)
    factors = wiring.assigned(shape, lengths)
    assert tuple((factors > 1).sum(axis=0)) == directions
    assert set(factors.flat) <= {1, *shape} and (factors.prod(axis=0) == lengths).all()
    grid = mesh_utils.create_device_mesh(lengths, devices[::-1])
    assert grid.shape == lengths and once_each(grid, devices)
    for axis, count in enumerate(directions):
        if count == 1:
            assert farthest(grid, axis, shape) == 1


@pytest.mark.parametrize("shape", [(4, 4, 2), (2, 2, 4), (6, 4, 1)])
def test_axes_that_may_follow_parts_of_directions(shape):
    devices = machine(*shape)
    count = math.prod(shape)
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    for a, b in itertools.product(divisors, divisors):
        if count % (a * b) == 0:
            lengths = (a, b, count // (a * b))
            grid = mesh_utils.create_device_mesh(lengths, devices, allow_split_physical_axes=True)
            assert grid.shape == lengths and once_each(grid, devices)
            # Whole directions come first, so what can be assigned whole is.
            try:
                whole = wiring.assigned(shape, lengths)
            except NotImplementedError:
                continue
            found = wiring.assigned_splitting(shape, lengths)
            assert (found > 1).sum() <= (whole > 1).sum()


def test_boards_and_strips_are_rings():
    # Two devices a chip: each board is a ring of four chips.
    devices = machine(4, 4, 1, cores=2)
    for board in mesh_utils.create_device_mesh((4, 8), devices):
        assert len({d.process_index for d in board}) == 1
        assert all(hops(a, b, (4, 4, 1)) <= 1 for a, b in zip(board, [*board[1:], board[0]]))
        assert [d.core_on_chip for d in board] == [0, 1] * 4
    # Two rows of one device a chip, for a mesh of one axis.
    strip = list(mesh_utils.create_device_mesh((8,), machine(4, 2, 1)))
    assert all(hops(a, b, (4, 2, 1)) == 1 for a, b in zip(strip, [*strip[1:], strip[0]]))


@pytest.mark.parametrize("lengths", [(64, 4), (4, 64), (1, 64, 1, 4), (8, 32)])
def test_the_devices_of_a_process_are_a_block(lengths):
    devices = machine(4, 8, 8)
    grid = mesh_utils.create_device_mesh(lengths, devices, contiguous_submeshes=True)
    assert grid.shape == lengths and once_each(grid, devices)
    for number in range(64):
        places = np.argwhere(np.vectorize(lambda d: d.process_index)(grid) == number)
        assert math.prod(np.ptp(places, axis=0) + 1) == len(places) == 4


def test_grids_of_several_slices():
    devices = machine(4, 4, 4, slices=2)
    grid = mesh_utils.create_hybrid_device_mesh((1, 4, 16), (1, 2, 1), devices)
    assert grid.shape == (1, 8, 16) and once_each(grid, devices)
    assert [{d.slice_index for d in row.flat} for row in grid[0]] == [{0}] * 4 + [{1}] * 4


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: wiring.grid_of(machine(4, 2, 1)[1:]), ValueError, "not a contiguous cuboid"),
        (lambda: wiring.grid_of([*machine(4, 2, 1)[1:], machine(4, 2, 1)[3]]), ValueError,
         "8 devices at 7 places of a grid of 4x2x1x1 are not a contiguous cuboid"),
        (lambda: mesh_utils.create_device_mesh((2, 32), machine(4, 4, 4)), NotImplementedError,
         "an axis of length 32 follows no whole directions.*allow_split_physical_axes=True"),
        (lambda: mesh_utils.create_device_mesh(
            (1, 128, 2), machine(4, 8, 8), contiguous_submeshes=True), ValueError,
         r"contiguous submeshes for mesh_shape \(1, 128, 2\) and physical mesh topology "
         r"\(4, 8, 8\). Available mesh_shapes: \[.*\(64, 4\)"),
    ],
)  # fmt: skip
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
