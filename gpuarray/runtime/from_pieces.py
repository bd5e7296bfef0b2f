"""Arrays over several devices, made of pieces.

Floor 5. In: a shape, a sharding, and the pieces: arrays on single devices, or a function that makes
the part of each device. Out: ArrayImpls. Each piece is checked before anything is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.mesh import PartitionSpec
from gpuarray.core.mesh_context import sharding_in_context
from gpuarray.core.sharding import Device, Place, Sharding, laid_out, place_of
from gpuarray.core.trace import Tracer
from gpuarray.errors import UnexpectedTracerError
from gpuarray.pytree import tree
from gpuarray.runtime import device as devices
from gpuarray.runtime import pieces
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.host import from_host, sent
from gpuarray.runtime.moves import to_place
from gpuarray.util import elements, indices, wrong_type

_UNKNOWN = (
    "If the Array has no addressable shards, `dtype` must be provided via the `dtype` argument to "
    "`jax.{}`."
)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding | PartitionSpec | Device,
    data_callback: Callable[[tuple], Any],
    dtype: Any = None,
) -> ArrayImpl:
    """Make an array over several devices, calling a function for the part of each.

    Parameters
    ----------
    shape :
        Shape of the whole.
    sharding :
        Its sharding.
    data_callback :
        Function of the index (a tuple of slices of the whole) that returns that part. Devices that
        hold the same part share one call.
    dtype :
        Dtype of the parts: needed only where no device is of this process.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga
    >>> from gpuarray.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> mesh = Mesh(np.array(ga.devices()[:1]), ("x",))
    >>> whole = np.arange(6.0).reshape(2, 3)
    >>> ga.make_array_from_callback((2, 3), NamedSharding(mesh, P("x")), lambda i: whole[i])
    Array([[0., 1., 2.],
           [3., 4., 5.]], dtype=float32)
    """
    # 1. The requested shape of the whole, and the shape of each part.
    shape, place = _lengths(shape), _place("make_array_from_callback", sharding)
    laid: Sharding = place.sharding
    if not callable(data_callback):
        raise wrong_type(data_callback, "a function of an index, a tuple of slices")
    index = laid.devices_indices_map(shape)
    expected = tuple(laid.shard_shape(shape))
    # 2. The parts: one call for each distinct one, each checked immediately.
    made: dict[Any, Any] = {}
    buffers = []
    # By region, not by index: devices with the same part have equal slices, which were not
    # hashable before Python 3.12.
    for device, region in zip(place.devices, pieces.regions(place, shape), strict=True):
        if region not in made:
            part = data_callback(index[device])
            if isinstance(part, Tracer):
                raise UnexpectedTracerError(
                    "jax.make_array_from_callback cannot be called within a traced context: its "
                    "data_callback returned a traced value, and must return the data itself"
                )
            # Copied if it is the user's memory, which may be written to later.
            value = from_host(part)
            if value.shape != expected:
                raise ValueError(
                    f"Expected shard shape {expected} doesn't match the single device array shape "
                    f"{value.shape} that the data_callback of make_array_from_callback returned "
                    f"for index {index[device]}, the part of {device} of {shape} under {laid}"
                )
            made[region] = value
        buffers.append(made[region])
    # A process may hold no piece: then only the caller knows the dtype.
    if not made and dtype is None:
        raise ValueError(_UNKNOWN.format("make_array_from_callback"))
    kinds = {x.dtype for x in made.values()} or {dtypes.canonicalize_dtype(dtype)}
    if len(kinds) > 1:
        raise ValueError(
            "make_array_from_callback: the data_callback returned arrays of several dtypes, "
            f"{sorted(map(str, kinds))}: convert them to one"
        )
    # 3. The whole, of one dtype, with each part on its device.
    _check_kind("make_array_from_callback", kinds, dtype)
    parts = zip(buffers, place.devices, strict=True)
    aval = ShapedArray(shape, kinds.pop())
    return ArrayImpl(
        place.typed(aval), place, [to_place(x, place_of(d))._buffer() for x, d in parts]
    )


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding | PartitionSpec | Device,
    arrays: Sequence[Any],
    *,
    dtype: Any = None,
) -> ArrayImpl:
    """Make an array over several devices of its pieces, one array on each device.

    Nothing is copied. The pieces may come in any order: each is identified by its device.

    Parameters
    ----------
    shape :
        Shape of the whole.
    sharding :
        Its sharding.
    arrays :
        A piece for each device of this process in the sharding.
    dtype :
        Dtype of the whole: needed only where there are no pieces.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> device = ga.devices()[0]
    >>> sharding = NamedSharding(Mesh(np.array([device]), ("x",)), P("x"))
    >>> piece = ga.device_put(gnp.arange(3.0), device)
    >>> ga.make_array_from_single_device_arrays((3,), sharding, [piece])
    Array([0., 1., 2.], dtype=float32)
    """
    what = "make_array_from_single_device_arrays"
    # An array is a sequence of its rows, which are not the pieces that are meant.
    if isinstance(arrays, (ArrayImpl, np.ndarray)) or not isinstance(arrays, Sequence):
        raise TypeError(
            f"jax.{what} `arrays` argument must be a list of arrays, one a device, got "
            f"{type(arrays)}"
        )
    shape, place = _lengths(shape), _place(what, sharding)
    laid: Sharding = place.sharding
    expected = tuple(laid.shard_shape(shape))
    # Check each piece separately before the whole.
    for number, x in enumerate(arrays):
        if isinstance(x, Tracer):
            raise ValueError(
                f"jax.{what} requires a list of concrete arrays, and arrays[{number}] is a traced "
                "value: call it outside of jit and other transformations."
            )
        if not isinstance(x, ArrayImpl):
            raise TypeError(f"{what}: arrays[{number}] is no array on a device but {type(x)}")
        if not x._place.is_single:
            raise ValueError(
                "When making an array from single-device arrays the input arrays must have one "
                f"shard each. An argument array had {len(x._place.devices)} shard(s): give the "
                f"pieces of arrays[{number}], x.addressable_shards[i].data"
            )
    # Without pieces two things may be missing: the dtype, and pieces for devices that need one. One
    # message names both.
    unknown = "" if arrays or dtype is not None else _UNKNOWN.format(what)
    by_device = {x._place.device: x for x in arrays}
    if wrong := _other_devices(what, by_device, len(arrays), place):
        raise ValueError(f"{unknown} {wrong}" if unknown else wrong)
    if unknown:
        raise ValueError(unknown)
    for number, x in enumerate(arrays):
        if x.shape != expected:
            raise ValueError(
                f"{what}: arrays[{number}], on {x._place.device}, has shape {x.shape}; expected "
                f"{expected}, the part of {shape} under {laid}"
            )
    # A weak type may differ between pieces: the whole has a strong one, and only the dtype counts.
    avals = {x.aval.strip_weak_type().dtype for x in by_device.values()}
    if len(avals) > 1:
        raise ValueError(
            f"{what}: the arrays have several dtypes, {sorted(map(str, avals))}: convert them to "
            "one"
        )
    kinds = avals or {dtypes.canonicalize_dtype(dtype)}
    _check_kind(what, kinds, dtype)
    aval = ShapedArray(shape, kinds.pop())
    return ArrayImpl(place.typed(aval), place, [by_device[d]._buffer() for d in place.devices])


def _other_devices(
    what: str, given: dict[Device, ArrayImpl], count: int, place: Place
) -> str | None:
    """Describe the mismatch of pieces and devices: each device of the place needs one."""
    lacking = [d for d in place.devices if d not in given]
    if count != len(place.devices):
        return (
            f"Expected {len(place.devices)} per-device arrays (this is how many devices are "
            f"addressable by the sharding), but got {count}: {what} needs a piece for each device "
            f"of {place.sharding}, and none is on {lacking}"
        )
    if len(given) < count:
        return (
            "When making an array from single-device arrays, the input arrays must be from "
            f"distinct devices: several are on the same one, and none is on {lacking}"
        )
    if not lacking:
        return None
    others = [d for d in given if d not in place.devices]
    return (
        "Addressable devices and per-device arrays devices do not match. Sharding contains devices "
        f"{ {d.id for d in lacking} } that are not present in per-device arrays. Per-device arrays "
        f"contain devices { {d.id for d in others} } that are not present in the sharding."
    )


def make_array_from_process_local_data(
    sharding: Sharding | PartitionSpec | Device,
    local_data: Any,
    global_shape: Any = None,
) -> Any:
    """Make an array over the devices of all processes of the data that each process has.

    Parameters
    ----------
    sharding :
        The sharding of the whole: a Sharding, a PartitionSpec under a mesh, or a Device.
    local_data :
        The concatenated parts of this process's devices. With one process it is the whole. A pytree
        of data becomes one of arrays, all with the same sharding.
    global_shape :
        Shape of the whole. Along an axis where it is the data's own length, each process gives all
        of the axis; None (also for one axis) means the total length of the processes' parts. For a
        pytree of data, one shape for all or a pytree of them that is a prefix of it.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga
    >>> from gpuarray.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> sharding = NamedSharding(Mesh(np.array(ga.devices()[:1]), ("x",)), P("x"))
    >>> ga.make_array_from_process_local_data(sharding, np.ones(4, "float32")).shape
    (4,)
    """
    place = _place("make_array_from_process_local_data", sharding)
    leaves, spec = tree.flatten_raw(local_data)
    shapes = tree.prefix_broadcast(global_shape, local_data, _is_shape, "global_shape")
    return tree.unflatten_raw(
        spec, [_of_process(place, x, shape) for x, shape in zip(leaves, shapes, strict=True)]
    )


def _is_shape(x: Any) -> bool:
    """Whether `x` is a shape and no container of shapes."""
    if x is None:
        return True
    return isinstance(x, (tuple, list)) and all(n is None or hasattr(n, "__index__") for n in x)


def _of_process(place: Place, local_data: Any, global_shape: Any) -> ArrayImpl:
    what = "make_array_from_process_local_data"
    shape = aval_of(local_data).shape
    wanted = None if global_shape is None else _wanted(global_shape, shape)
    # Only there is the data a part of the whole.
    if place.spans:
        return _of_local(what, place, local_data, shape, global_shape)
    # One process: its data is the whole.
    if wanted not in (None, shape):
        raise ValueError(
            f"{what}: this process holds all {len(shape)} axes of the "
            f"whole, so its data must have global_shape {wanted}, not {shape}"
        )
    if isinstance(local_data, ArrayImpl):
        return to_place(local_data, place)
    return from_host(local_data, place=place)


def _wanted(global_shape: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a global shape whose unknown lengths are those of the data."""
    given = elements(global_shape, "a shape, a sequence of ints")
    if len(given) != len(shape):
        return _lengths(given)
    return _lengths([n if m is None else m for m, n in zip(given, shape, strict=True)])


def _of_local(
    what: str, place: Place, data: Any, shape: tuple[int, ...], global_shape: Any
) -> ArrayImpl:
    """Return an array that spans processes, of this process's part of it."""
    known = [None] * len(shape) if global_shape is None else list(global_shape)
    if len(known) != len(shape):
        raise ValueError(
            f"{what}: local_data has {len(shape)} axes, and global_shape is {tuple(known)}"
        )
    # How processes share each axis, found on a shape that every layout cuts evenly.
    count = len(place.all_devices)
    even = place.sharding.devices_indices_map((count,) * len(shape))
    whole, starts = [], []
    for axis, (n, wanted) in enumerate(zip(shape, known, strict=True)):
        spans: dict[int, set] = {}
        for device, index in even.items():
            spans.setdefault(device.process_index, set()).add(index[axis].indices(count)[:2])
        parts = {tuple(sorted(s)) for s in spans.values()}
        covered = [sum(b - a for a, b in part) for part in parts]
        if len(set(covered)) > 1 or sum(covered) != count:
            raise ValueError(
                f"{what}: under {place.sharding} the parts of axis {axis} that processes have "
                "overlap without being the same: use make_array_from_callback"
            )
        # Either each process gives its share of the axis, or each gives all of it.
        total = n * len(parts) if wanted is None else wanted
        if total not in (n, n * len(parts)):
            raise ValueError(
                f"{what}: local_data has shape {shape}, and {len(parts)} such parts do not make "
                f"axis {axis} of global_shape {tuple(known)}: expected {total // len(parts)} or "
                f"{total} elements along it"
            )
        whole.append(total)
        # Where each of our intervals starts in the data.
        mine = sorted(spans[Device.here])
        firsts = [0, *itertools.accumulate(b - a for a, b in mine)]
        # Intervals were found on an axis of `count` elements: in the whole they are this much
        # longer.
        scale = total / count
        ours = {round(a * scale): round(first * scale) for (a, _), first in zip(mine, firsts)}
        starts.append({round(a * scale): round(a * scale) for a, _ in mine} if total == n else ours)
    # The buffers: each device's part, cut out of this process's data.
    value = np.asarray(from_host(data)._value)
    buffers = []
    made: dict[Any, Any] = {}
    for region, device in zip(pieces.regions(place, tuple(whole)), place.devices, strict=True):
        if region not in made:
            at = [start[a] for start, (a, _) in zip(starts, region, strict=True)]
            cut = [slice(s, s + b - a) for s, (a, b) in zip(at, region, strict=True)]
            # A copy: a view would keep all of the data alive on every device.
            made[region] = value[tuple(cut)].copy()
        buffers.append(sent(made[region], device))
    return ArrayImpl(place.typed(ShapedArray(tuple(whole), value.dtype)), place, buffers)


def _lengths(shape: Any) -> tuple[int, ...]:
    found = indices(shape, "a shape, a sequence of ints")
    if any(n < 0 for n in found):
        raise ValueError(f"the lengths of axes are 0 or more, got the shape {found}")
    return found


def _check_kind(what: str, kinds: set, dtype: Any) -> None:
    """Raise if the pieces are not of the dtype that the caller said."""
    if dtype is not None and kinds != {dtypes.canonicalize_dtype(dtype)}:
        raise ValueError(
            f"If `dtype` is provided to `jax.{what}`, it must match the dtype of the addressable "
            f"shards. Got {dtypes.canonicalize_dtype(dtype)}, and shards of dtype "
            f"{', '.join(map(str, kinds))}: convert them, or leave `dtype` out"
        )


def _place(what: str, sharding: Any) -> Place:
    if isinstance(sharding, PartitionSpec):
        sharding = sharding_in_context(sharding, what, "sharding")
    if isinstance(sharding, Device):
        return devices.place_for(sharding)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"{what} takes a Sharding, such as NamedSharding(mesh, PartitionSpec('x')), a "
            f"PartitionSpec under a mesh or a Device, got {sharding!r} of type {type(sharding)}"
        )
    return laid_out(sharding)
