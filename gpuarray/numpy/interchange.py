"""Arrays that come from other libraries without a copy.

Floor 6. In: anything with `__dlpack__`. Out: an Array.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from gpuarray.core.value import Array
from gpuarray.primitives.elementwise.arithmetic import copy_p
from gpuarray.runtime.device import place_for
from gpuarray.runtime.transfer import borrowed, device_put, from_host


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array from any object that supports DLPack, such as another library's.

    Memory of a GPU is shared: its owner must not change it any more. Memory of the host is copied,
    because arrays here are immutable; with `copy=False` it is shared, if the other side exports it
    as read-only, and must not change either.

    >>> import numpy as np, gpuarray.numpy as gnp
    >>> gnp.from_dlpack(np.arange(3, dtype="float32"))
    Array([0., 1., 2.], dtype=float32)
    """
    if isinstance(x, Array):
        array = copy_p.bind(x) if copy else x
    else:
        if not hasattr(x, "__dlpack__"):
            raise TypeError(
                "The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ "
                f"methods, got {type(x)}"
            )
        kind, number = x.__dlpack_device__()
        # DLPack's device types: 1 is the CPU, 2 CUDA, 3 host memory pinned for CUDA.
        if int(kind) == 2:
            array = borrowed(x, place_for(f"cuda:{number}"))
            if copy:
                array = deepcopy(array)
            return array if device is None else device_put(array, device)
        if int(kind) not in (1, 3):  # the CPU, or host memory pinned for a GPU
            raise TypeError(
                f"from_dlpack got memory of DLPack device type {int(kind)}, and reads that of the "
                "CPU (1, 3) and of NVIDIA's GPUs (2). Move it there first."
            )
        host = np.from_dlpack(x)
        if copy is False and host.flags.writeable:
            raise ValueError(
                "from_dlpack(copy=False) got memory that its owner may still change; arrays are "
                "immutable, so it has to be copied"
            )
        array = from_host(host, copy=copy is not False)
    return array if device is None else device_put(array, device)
