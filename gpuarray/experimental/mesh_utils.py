"""Grids of devices for meshes.

Floor 6. In: lengths of axes. Out: NumPy arrays of devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.api import wiring as _wiring
from gpuarray.api.meshes import given as _given
from gpuarray.api.meshes import grid as _grid
from gpuarray.api.meshes import lengths as _lengths
from gpuarray.names import explain_names as _explain_names


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """A grid of all devices, or of those given, for a Mesh.

    GPUs are taken in the order of their numbers, other devices in the given order. Devices that are
    wired as a grid, and so have `coords`, are arranged so that axes of the mesh follow its
    directions: each takes whole directions, or also parts of them with `allow_split_physical_axes`;
    with `contiguous_submeshes` the devices of a process form a block. On other devices every
    arrangement satisfies these options.

    >>> from gpuarray.experimental import mesh_utils
    >>> mesh_utils.create_device_mesh((1,)).shape
    (1,)
    """
    found = _any_given(devices)
    shape = _lengths("create_device_mesh", "mesh_shape", mesh_shape)
    if math.prod(shape) != len(found):
        raise ValueError(
            f"Number of devices {len(found)} must equal the product of mesh_shape {shape}"
        )
    if _wiring.is_wired(found):
        return _wiring.arranged(
            shape, found, split=allow_split_physical_axes, together=contiguous_submeshes
        )
    return _grid(shape, found)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """A grid of devices of several processes: each axis is the product of one of a process's own
    grid (`mesh_shape`) and one of a grid of processes (`dcn_mesh_shape`), whose network is slower.

    `process_is_granule=True` means that the slow network connects processes; without it the devices
    need a `slice_index`, which devices here do not have. `allow_split_physical_axes` is as in
    `create_device_mesh`.

    >>> from gpuarray.experimental import mesh_utils
    >>> mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1), process_is_granule=True).shape
    (1, 1)
    """
    found = _any_given(devices)
    inner = _lengths("create_hybrid_device_mesh", "mesh_shape", mesh_shape)
    outer = _lengths("create_hybrid_device_mesh", "dcn_mesh_shape", dcn_mesh_shape)
    key = "process_index" if process_is_granule else "slice_index"
    # Devices of one process are close to each other: inner axes stay within one.
    granules: dict[int, list] = {}
    for device in found:
        if not hasattr(device, key):
            raise ValueError(
                f"Device {device} does not have attribute {key}. See `process_is_granule` option."
            )
        granules.setdefault(getattr(device, key), []).append(device)
    order = sorted(granules) if should_sort_granules_by_key else list(granules)
    if math.prod(outer) != len(order):
        raise ValueError(
            f"Number of slices {len(order)} must equal the product of dcn_mesh_shape {outer}"
        )
    # Grids of unequal rank get leading axes of length 1.
    ndim = max(len(inner), len(outer))
    inner = (1,) * (ndim - len(inner)) + inner
    outer = (1,) * (ndim - len(outer)) + outer
    split = allow_split_physical_axes
    grids = [create_device_mesh(inner, granules[i], allow_split_physical_axes=split) for i in order]
    stacked = np.empty((len(grids), *inner), dtype=object)
    for i, grid in enumerate(grids):
        stacked[i] = grid
    # (outer 0, ..., inner 0, ...) becomes (outer 0, inner 0, outer 1, inner 1, ...).
    pairs = [axis for i in range(ndim) for axis in (i, ndim + i)]
    mixed = stacked.reshape(outer + inner).transpose(pairs)
    return mixed.reshape([m * n for m, n in zip(outer, inner, strict=True)])


def _any_given(devices: Any) -> list:
    """Return the devices that a function was given; they may be another machine's."""
    listed = isinstance(devices, (list, tuple, np.ndarray))
    if listed and all(hasattr(d, "process_index") for d in devices):
        return list(devices)
    return _given(devices)


__getattr__ = _explain_names(__name__)
