"""Values moved to another memory inside of programs.

Floor 2. In: a value and the Space to move it to. Out: the same value there, which its type records.
A GPU copies to pinned host memory, or back, and may reuse its own memory meanwhile. On a CPU all
memories are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core.avals import aval_of
from gpuarray.core.factors import elementwise
from gpuarray.core.layout import in_space
from gpuarray.core.memories import Space
from gpuarray.core.primitive import LINEAR
from gpuarray.primitives.define import library


def in_memory(x: Any, space: Space) -> Any:
    """Return a traced value that is in this memory."""
    return x if aval_of(x).memory_space is space else to_memory_p.bind(x, space=space)


to_memory_p = library(
    "device_put",
    aval=lambda x, *, space: x,
    layout=lambda found, *, space: in_space(found, space),
    numpy=lambda x, *, space: np.array(x),
    jvp=LINEAR,
    # Cotangents go back to the memory that the value was in.
    transpose=lambda ct, x, *, space: (in_memory(ct, x.aval.memory_space),),
    batch=lambda axis, args, dims, *, space: (in_memory(args[0], space), dims[0]),
    factors=elementwise,
    show=lambda params: {"devices": (params["space"],), "srcs": (None,)},
    weight=0,
)
