"""Meshes made from the devices there are.

Floor 6. In: lengths and names of axes. Out: a `Mesh`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core.abstract_mesh import AxisType
from gpuarray.core.mesh import Mesh
from gpuarray.core.sharding import Device
from gpuarray.runtime.device import devices as _devices
from gpuarray.util import elements, wrong_type


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of these lengths from the first devices there are; its axes are Explicit by default.

    >>> import gpuarray as ga
    >>> dict(ga.make_mesh((1,), ("x",)).shape)
    {'x': 1}
    """
    found = given(devices)
    shape = lengths("make_mesh", "axis_shapes", axis_shapes)
    count = math.prod(shape)
    if count > len(found):
        raise ValueError(
            f"Number of devices {len(found)} must be >= the product of mesh_shape {shape}. On a "
            f"CPU, set GPUARRAY_NUM_CPU_DEVICES={count} before the start to have as many."
        )
    # Not Auto as for `Mesh`: JAX has the same difference.
    types = (AxisType.Explicit,) * len(shape) if axis_types is None else axis_types
    return Mesh(grid(shape, found[:count]), axis_names, types)


def given(devices: Any) -> list[Device]:
    """Return the devices passed to a function, checked; all available ones by default."""
    if devices is None:
        return list(_devices())
    wanted = "a sequence of devices, such as devices()"
    found = list(elements(devices, wanted))
    for device in found:
        if not isinstance(device, Device):
            raise wrong_type(device, wanted)
    return found


def grid(shape: tuple[int, ...], devices: Sequence[Device]) -> np.ndarray:
    """Return devices as an array; GPUs in the order of their numbers, others in the given order."""
    found = np.empty(len(devices), dtype=object)
    by_number = devices and devices[-1].platform == "gpu"
    found[:] = sorted(devices, key=lambda d: d.id) if by_number else devices
    return found.reshape(shape)


def lengths(function: str, argument: str, values: Any) -> tuple[int, ...]:
    """Return the lengths of a mesh's axes, checked."""
    try:
        found = tuple([int(n) for n in values])
        good = found == tuple(values) and all(n > 0 for n in found)
    except (TypeError, ValueError):
        found, good = (), False
    if not good:
        raise ValueError(
            f"`{argument}` passed to `{function}` should be a sequence of ints. Got {values!r}: "
            "give the length of each axis, 1 or more."
        )
    return found
