"""Arrays over the mesh in context, and their types, for tests of Explicit axes."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpuarray as ga
from gpuarray.sharding import PartitionSpec as P


def cut(*spec: Any, shape: tuple[int, ...] = (8, 16)) -> ga.Array:
    """Numbers from 0 on, laid over the mesh."""
    return ga.device_put(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), P(*spec))


def types(out: Any) -> list[str]:
    """The type of every leaf, as a printed graph shows it."""
    return [ga.typeof(x).str_short(True) for x in ga.tree.leaves(out)]
