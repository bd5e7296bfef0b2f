"""Values in and out of the runtime: host memory to arrays, arrays to other devices, arrays back to
the host.

Floor 5. In: NumPy values, Python scalars, arrays. Out: ArrayImpls that own their memory, or NumPy
arrays.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from gpuarray.config import state
from gpuarray.control.call import constrained
from gpuarray.core import dtypes, tree
from gpuarray.core import trace as traces
from gpuarray.core.avals import MASKED, ShapedArray, aval_of, typed_scalar
from gpuarray.core.mesh import NamedSharding
from gpuarray.core.sharding import Device, Place, Sharding, one_device
from gpuarray.core.value import Array
from gpuarray.runtime import device as devices
from gpuarray.runtime import lazy
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.memory import out_of_memory
from gpuarray.runtime.stream import wait_for_all


def own(
    x, aval: ShapedArray | None = None, place: Place | None = None, copy: bool = True
) -> ArrayImpl:
    """An ArrayImpl of any host value. Memory that the caller could still write to is copied."""
    if type(x) is ArrayImpl:
        return x
    if hasattr(x, "__jax_array__"):
        return own(x.__jax_array__())
    aval = aval_of(x) if aval is None else aval
    place = devices.default_place() if place is None else place
    if isinstance(x, np.ndarray):
        if copy and state.transfer_guard_host_to_device is not None:
            devices.guard("host_to_device", f"aval={aval}")
        value = x.astype(aval.dtype, copy=False)
        if value is x and copy and place.device.platform != "gpu":
            value = x.copy()
    elif isinstance(x, np.generic):
        value = x if x.dtype == aval.dtype else x.astype(aval.dtype)
    else:
        value = typed_scalar(x, aval.dtype)
    if place.device.platform == "gpu":
        value = sent(value, place.device)
    array = ArrayImpl(aval, place, [value])
    if not aval.shape and not traces.is_base():
        traces.state.trace.adopt(array)
    return array


def sent(buffer: Any, device: Device) -> Any:
    """A buffer in the memory of a device."""
    try:
        return devices.stored(buffer, device)
    except MemoryError as error:
        raise out_of_memory(error, f"a copy to {device}") from None


def to_place(x: ArrayImpl, place: Place) -> ArrayImpl:
    """The same value on another place. CPU devices share memory, and arrays are immutable: nothing
    is copied between them.
    """
    if x._place is place:
        return x
    if state.transfer_guard_device_to_device is not None and x._place.device is not place.device:
        devices.guard("device_to_device", f"aval={x.aval}, to {place.device}", explicit=True)
    return ArrayImpl(x.aval, place, [sent(x._buffer(), place.device)])


def borrowed(x: Any, place: Place) -> ArrayImpl:
    """An array of the memory behind a DLPack capsule of a GPU's; it stays its owner's."""
    gpu = devices.gpu_of(place.device)
    assert gpu is not None
    buffer = gpu.import_dlpack(x)
    return ArrayImpl(ShapedArray(buffer.shape, buffer.dtype), place, [buffer])


def device_put(x, device=None, *, src=None, donate=False, may_alias=None):
    """Move the leaves of a pytree to a device; without one, to the default device.

    src: the device that they are on now, checked
    donate: free the memory they took, where they move
    may_alias: False makes a copy of an array that is there already

    >>> import numpy as np, gpuarray as ga
    >>> ga.device_put(np.ones((2, 3))).dtype
    dtype('float32')
    """
    leaves, spec = tree.flatten_raw(x)
    if donate and may_alias:
        raise ValueError("may_alias and donate cannot be True at the same time.")
    one_for_all = device is None or isinstance(device, (Device, Sharding, str, Place))
    targets = [device] * len(leaves) if one_for_all else _targets(device, x)
    return tree.unflatten_raw(
        spec,
        [
            _apart(_put_leaf(_from(leaf, src), target, donate), leaf, may_alias)
            for leaf, target in zip(leaves, targets, strict=True)
        ],
    )


def _targets(devices: Any, x: Any) -> list:
    """The device for each leaf; None in a tree of devices says that any will do."""
    return tree.prefix_broadcast(devices, x, lambda d: d is None, "device_put device")


def _from(x: Any, src: Any) -> Any:
    """A leaf that was said to be on the device `src`."""
    if src is None:
        return x
    device = devices.place_for(src).device
    if isinstance(x, traces.Tracer):
        return constrained(x, device)
    if isinstance(x, ArrayImpl) and x._place.device is not device:
        raise ValueError(f"device_put got src={src!r}, and an array that is on {x._place.device}")
    return x


def _apart(moved: Any, x: Any, may_alias: bool | None) -> Any:
    """The array that a leaf became, in memory of its own if `may_alias` is False."""
    return deepcopy(moved) if may_alias is not None and not may_alias and x is moved else moved


def _put_leaf(x, target, donate: bool) -> Any:
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(MASKED)
    place = None if target is None else devices.place_for(target)
    if isinstance(x, traces.Tracer):
        return x if place is None else constrained(x, place.device)
    if state.transfer_guard_host_to_device is not None and not isinstance(x, Array):
        devices.guard("host_to_device", f"aval={aval_of(x)}", explicit=True)
    try:
        # Asked for by name, so the guards against silent copies do not apply.
        array = own(np.array(x), None, place, copy=False) if isinstance(x, np.ndarray) else own(x)
    except TypeError:
        raise TypeError(
            f"Argument {x!r} of type {type(x)} is not a valid JAX type: device_put takes arrays, "
            f"NumPy "
            "values, Python scalars and containers of them"
        ) from None
    if place is None:
        return array
    moved = to_place(array, place)
    if donate and moved is not array:
        array._bufs = None
    return moved


def placed(what: str, x: Any, sharding: Any, device: Any = None) -> Any:
    """A result where the option `out_sharding` of the function `what`, or its `device`, wants it;
    None: anywhere.
    """
    if sharding is None:
        return x if device is None else device_put(x, device)
    if device is not None:
        raise ValueError(
            f"{what} takes `device` or `out_sharding`, not both: got {device!r} and {sharding!r}"
        )
    one_device(sharding, f"`out_sharding` argument of {what}")
    if isinstance(sharding, NamedSharding):
        sharding.shard_shape(aval_of(x).shape)  # a spec of too many axes is an error
    return device_put(x, sharding)


def device_get(x):
    """The leaves of a pytree as NumPy arrays on the host.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.device_get({"a": gnp.arange(3)})
    {'a': array([0, 1, 2], dtype=int32)}
    """
    leaves, spec = tree.flatten_raw(x)
    for leaf in leaves:
        if isinstance(leaf, ArrayImpl):
            leaf.copy_to_host_async()
    return tree.unflatten_raw(spec, [_fetched(v) for v in leaves])


def _fetched(x: Any) -> Any:
    """Random keys and traced values stay what they are: there is no NumPy array of them."""
    if isinstance(x, ArrayImpl) and not isinstance(x.dtype, dtypes.KeyDtype):
        return x._fetched(explicit=True)
    return x


def block_until_ready(x):
    """Wait for every array in a pytree; returns the pytree."""
    leaves = tree.flatten_raw(x)[0]
    for leaf in leaves:
        if hasattr(leaf, "is_ready"):
            leaf.is_ready()  # set everything going before waiting for the first
    for leaf in leaves:
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x):
    """Set the copies of all arrays in a pytree going; returns the pytree."""
    for leaf in tree.flatten_raw(x)[0]:
        if isinstance(leaf, ArrayImpl):
            leaf.copy_to_host_async()
    return x


def effects_barrier() -> None:
    """Wait until everything dispatched so far has run, callbacks included."""
    lazy.flush_all()
    wait_for_all()
    devices.wait_for_gpus()
