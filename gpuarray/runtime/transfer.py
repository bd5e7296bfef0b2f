"""Values in and out of the runtime: host memory to arrays, arrays to other devices, arrays back to
the host.

Floor 5. In: NumPy values, Python scalars, arrays. Out: ArrayImpls that own their memory, or NumPy
arrays.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from gpuarray.core import dtypes, tree
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray
from gpuarray.core.sharding import Device, Place, Sharding
from gpuarray.core.value import Array
from gpuarray.runtime import device as devices
from gpuarray.runtime import lazy
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.host import own, sent
from gpuarray.runtime.stream import wait_for_all


def to_place(x: ArrayImpl, place: Place) -> ArrayImpl:
    """The same value on another place. CPU devices share memory, and arrays are immutable: nothing
    is copied between them.
    """
    if x._place is place:
        return x
    return ArrayImpl(x.aval, place, [sent(x._buffer(), place.device)])


def borrowed(x: Any, place: Place) -> ArrayImpl:
    """An array of the memory behind a DLPack capsule of a GPU's; it stays its owner's."""
    gpu = devices.gpu_of(place.device)
    assert gpu is not None
    buffer = gpu.import_dlpack(x)
    return ArrayImpl(ShapedArray(buffer.shape, buffer.dtype), place, [buffer])


def device_put(x, device=None, *, src=None, donate=False, may_alias=None):
    """Move the leaves of a pytree to a device; without one, to the default device.

    >>> import numpy as np, gpuarray as ga
    >>> ga.device_put(np.ones((2, 3))).dtype
    dtype('float32')
    """
    leaves, spec = tree.flatten_raw(x)
    options = {"device": device, "donate": donate, "may_alias": may_alias}
    rows = zip(leaves, *(_for_each(*o, x, len(leaves)) for o in options.items()), strict=True)
    return tree.unflatten_raw(spec, [_put_leaf(*row) for row in rows])


def _for_each(name: str, given: Any, x: Any, count: int) -> list:
    """An option of device_put for each leaf; None in a tree of them says that any will do."""
    if given is None or isinstance(given, (bool, Device, Sharding, str, Place)):
        return [given] * count
    return tree.prefix_broadcast(given, x, lambda d: d is None, f"device_put {name}")


def _put_leaf(x, target, donate: bool, may_alias: bool | None) -> Any:
    if donate and may_alias:
        raise ValueError("may_alias and donate cannot be True at the same time.")
    if isinstance(x, traces.Tracer):
        return x
    place = None if target is None else devices.place_for(target)
    try:
        # Asked for by name, so the guards against silent copies do not apply.
        array = own(np.array(x), None, place, copy=False) if isinstance(x, np.ndarray) else own(x)
    except TypeError:
        raise TypeError(
            f"Argument {x!r} of type {type(x)} is not a valid JAX type: device_put takes arrays, "
            f"NumPy "
            "values, Python scalars and containers of them"
        ) from None
    if may_alias is False and array is x:
        array = deepcopy(array)
    if place is not None:
        array = to_place(array, place)
    if donate and array is not x and type(x) is ArrayImpl:
        x._bufs = None
    return array


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
    known = isinstance(x, Array) and not isinstance(x, traces.Tracer)
    return np.asarray(x) if known and not isinstance(x.dtype, dtypes.KeyDtype) else x


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
