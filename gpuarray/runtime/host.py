"""Host memory to arrays: values of Python and NumPy become ArrayImpls.

Floor 5. In: NumPy values, Python scalars. Out: ArrayImpls whose memory is not written by others.

The rule: a NumPy array is copied, at the call, when it becomes an operand of anything that may keep
it or run later. It is used in place only while an operation runs immediately and its result has its
own memory (`lazy.EvalTrace.process`). Everything below this floor reaches `from_host` through
`core.trace.immutable`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.config import state
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of, typed_scalar, values_by_type
from gpuarray.core.sharding import Device, Place
from gpuarray.runtime import device as devices
from gpuarray.runtime import pieces
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.memory import out_of_memory
from gpuarray.transforms.tracing import check_alive


def from_host(
    x, aval: ShapedArray | None = None, place: Place | None = None, copy: bool = True
) -> ArrayImpl:
    """Return an ArrayImpl of any host value; memory that the caller could write to is copied."""
    if type(x) is ArrayImpl:
        return x
    if hasattr(x, "__jax_array__"):
        return from_host(x.__jax_array__())
    if type(x) in values_by_type and not isinstance(x, np.ndarray):  # a type that a library added
        x = values_by_type[type(x)](x)
    aval = aval_of(x) if aval is None else aval
    place = devices.default_place() if place is None else place
    if isinstance(x, np.ndarray):
        if copy and state.transfer_guard_host_to_device is not None:
            devices.guard("host_to_device", f"aval={aval}")
        if copy and place.device.platform != "gpu":  # the upload is a copy already
            with devices.copying(x.nbytes, "the caller", place.device):
                value = np.array(x, aval.dtype)
        else:
            value = np.asarray(x, aval.dtype)
    elif isinstance(x, np.generic):
        value = x if x.dtype == aval.dtype else x.astype(aval.dtype)
    elif isinstance(x, (int, float, complex)):
        value = typed_scalar(x, aval.dtype)
    else:
        if isinstance(x, traces.Tracer):
            check_alive(x)
        raise TypeError(
            f"{type(x).__name__} of {aval.str_short()} says the type of an array, and has no "
            "value. Give an array here; eval_shape, jit(f).lower and jit(f).trace take types."
        )
    # Only arrays over several devices, or in another memory, have a type that records it.
    typed = aval if place.is_host else place.typed(aval)
    array = ArrayImpl(typed, place, spread(value, place))
    # A scalar made while tracing: a Graph writes it as a literal.
    if not aval.shape and not traces.is_base():
        traces.state.trace.adopt(array)
    return array


def spread(value: Any, place: Place) -> list:
    """Return the buffers of a host value in a place: one, or a piece for each device."""
    if place.is_host:
        return [value]
    parts = [value] if place.is_single else pieces.cut(np.asarray(value), place)
    pairs = zip(parts, place.devices, strict=True)
    return [sent(part, device, place.kind) for part, device in pairs]


def sent(buffer: Any, device: Device, kind: str = "device") -> Any:
    """Return a buffer in a memory of a device, with an error that names the largest arrays."""
    try:
        return devices.stored(buffer, device, kind)
    except MemoryError as error:
        raise out_of_memory(error, f"a copy to {device}") from None
