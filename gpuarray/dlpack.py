"""Arrays of other libraries, by DLPack.

Floor 6. In: an object with `__dlpack__`. Out: an Array. `Array.__dlpack__` gives arrays to others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.sharding import Sharding
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy import interchange

__all__ = ["from_dlpack", "is_supported_dtype"]

_SUPPORTED = frozenset(
    np.dtype(name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128", "bool", dtypes.bfloat16),
    )
)


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An array from any object that speaks DLPack: `gpuarray.numpy.from_dlpack`.

    Parameters
    ----------
    device :
        The device of the result, a Device or a Sharding of one.

    Examples
    --------

    >>> import numpy as np, gpuarray as ga
    >>> ga.dlpack.from_dlpack(np.arange(3, dtype="float32"))
    Array([0., 1., 2.], dtype=float32)
    """
    if isinstance(device, Sharding):
        if len(device.device_set) > 1:
            raise ValueError(
                "from_dlpack can only unpack a dlpack tensor onto a singular device, but a "
                f"Sharding with {len(device.device_set)} devices was provided."
            )
        (device,) = device.device_set
    return interchange.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged.

    >>> import gpuarray as ga
    >>> ga.dlpack.is_supported_dtype("bfloat16"), ga.dlpack.is_supported_dtype("float8_e4m3fn")
    (True, False)
    """
    if dtype is None:
        raise TypeError(f"Expected a string or dtype-like object; got {dtype=}")
    return (
        dtypes.dtype(dtype) in _SUPPORTED
        if isinstance(dtype, str)
        else np.dtype(dtype) in _SUPPORTED
    )


__getattr__ = _explain_names(__name__)
