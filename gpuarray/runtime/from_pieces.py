"""Arrays over several devices, made of pieces.

Floor 5. In: a shape, a sharding, and the pieces: arrays on single devices, or a function that makes
the part of each device. Out: ArrayImpls. Each piece is checked before anything is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.sharding import Device, Place, Sharding, laid_out, place_of
from gpuarray.core.trace import Tracer
from gpuarray.pytree import tree
from gpuarray.runtime import pieces
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.host import own
from gpuarray.runtime.transfer import to_place
from gpuarray.util import indices, wrong_type


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[tuple], Any],
    dtype: Any = None,
) -> ArrayImpl:
    """Make an array over several devices, calling a function for the part of each.

    Parameters
    ----------
    shape :
        Shape of the whole.
    sharding :
        How it lies over devices.
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
    shape, place = _lengths(shape), _place("make_array_from_callback", sharding)
    if not callable(data_callback):
        raise wrong_type(data_callback, "a function of an index, a tuple of slices")
    index = sharding.devices_indices_map(shape)
    expected = tuple(sharding.shard_shape(shape))
    made: dict[Any, Any] = {}
    buffers = []
    for device, region in zip(place.devices, pieces.regions(place, shape), strict=True):
        if region not in made:
            part = data_callback(index[device])
            if isinstance(part, Tracer):
                raise TypeError(
                    "the data_callback of make_array_from_callback returned a traced value: it "
                    "must return the data itself"
                )
            value = own(part)
            if value.shape != expected:
                raise ValueError(
                    "make_array_from_callback: the data_callback returned an array of shape "
                    f"{value.shape} for index {index[device]}, which is {device}'s; expected "
                    f"{expected}, its part of {shape} under {sharding}"
                )
            made[region] = value
        buffers.append(made[region])
    kinds = {x.dtype for x in made.values()}
    if len(kinds) > 1:
        raise ValueError(
            "make_array_from_callback: the data_callback returned arrays of several dtypes, "
            f"{sorted(map(str, kinds))}: convert them to one"
        )
    _check_kind("make_array_from_callback", kinds, dtype)
    parts = zip(buffers, place.devices, strict=True)
    aval = ShapedArray(shape, kinds.pop())
    return ArrayImpl(aval, place, [to_place(x, place_of(d))._buffer() for x, d in parts])


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None
) -> ArrayImpl:
    """Make an array over several devices of its pieces, one array on each device.

    Nothing is copied. The pieces may come in any order: each is known by its device.

    Parameters
    ----------
    shape :
        Shape of the whole.
    sharding :
        How it lies over devices.
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
    if isinstance(arrays, (ArrayImpl, np.ndarray)) or not isinstance(arrays, Sequence):
        raise TypeError(f"{what} takes a list of arrays, got {type(arrays)}")
    shape, place = _lengths(shape), _place(what, sharding)
    expected = tuple(sharding.shard_shape(shape))
    by_device: dict[Device, ArrayImpl] = {}
    for number, x in enumerate(arrays):
        if not isinstance(x, ArrayImpl):
            raise TypeError(f"{what}: arrays[{number}] is no array on a device but {type(x)}")
        if not x._place.is_single:
            raise ValueError(
                f"{what}: arrays[{number}] lies over {len(x._place.devices)} devices itself: give "
                "its pieces, x.addressable_shards[i].data"
            )
        device = x._place.device
        if device in by_device:
            raise ValueError(f"{what}: two of the arrays are on {device}: give one for each device")
        if device not in place.devices:
            raise ValueError(
                f"{what}: arrays[{number}] is on {device}, which is not among the devices of "
                f"{sharding}: {list(place.devices)}"
            )
        if x.shape != expected:
            raise ValueError(
                f"{what}: arrays[{number}], on {device}, has shape {x.shape}; expected {expected}, "
                f"the part of {shape} under {sharding}"
            )
        by_device[device] = x
    lacking = [d for d in place.devices if d not in by_device]
    if lacking:
        raise ValueError(
            f"{what} needs a piece for each of the {len(place.devices)} devices of {sharding}, got "
            f"{len(by_device)}: none is on {lacking}"
        )
    avals = {x.aval.strip_weak_type().dtype for x in by_device.values()}
    if len(avals) > 1:
        raise ValueError(
            f"{what}: the arrays have several dtypes, {sorted(map(str, avals))}: convert them to "
            "one"
        )
    _check_kind(what, avals, dtype)
    aval = ShapedArray(shape, by_device[place.devices[0]].dtype)
    return ArrayImpl(aval, place, [by_device[d]._buffer() for d in place.devices])


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Sequence[int] | None = None
) -> Any:
    """Make an array over the devices of all processes of the data that each process has.

    With one process, its data is the whole. A pytree of data becomes one of arrays, all laid out
    alike.

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
    return tree.unflatten_raw(spec, [_of_process(place, x, global_shape) for x in leaves])


def _of_process(place: Place, local_data: Any, global_shape: Any) -> ArrayImpl:
    shape = aval_of(local_data).shape
    if global_shape is not None and _lengths(global_shape) != shape:
        raise ValueError(
            f"make_array_from_process_local_data: this process holds all {len(shape)} axes of the "
            f"whole, so its data must have global_shape {tuple(global_shape)}, not {shape}"
        )
    if isinstance(local_data, ArrayImpl):
        return to_place(local_data, place)
    return own(local_data, place=place)


def _lengths(shape: Any) -> tuple[int, ...]:
    found = indices(shape, "a shape, a sequence of ints")
    if any(n < 0 for n in found):
        raise ValueError(f"the lengths of axes are 0 or more, got the shape {found}")
    return found


def _check_kind(what: str, kinds: set, dtype: Any) -> None:
    """Raise if the pieces are not of the dtype that the caller said."""
    if dtype is not None and kinds != {dtypes.canonicalize_dtype(dtype)}:
        raise ValueError(
            f"{what} got dtype={dtypes.canonicalize_dtype(dtype)}, and pieces of dtype "
            f"{', '.join(map(str, kinds))}: convert them, or leave `dtype` out"
        )


def _place(what: str, sharding: Any) -> Place:
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"{what} takes a Sharding, such as NamedSharding(mesh, PartitionSpec('x')), got "
            f"{sharding!r} of type {type(sharding)}"
        )
    return laid_out(sharding)
