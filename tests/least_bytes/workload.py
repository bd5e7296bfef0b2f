"""What a workload is: a program, its arguments, and the least bytes that it must move.

In: nothing. Out: `Workload`, and the sizes that the chapters share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gpuarray as ga

BF, F16, F32, I8, INT = "bfloat16", "float16", "float32", "int8", "int32"


class Workload(NamedTuple):
    """A program, its arguments, and the least bytes; `why` it moves more than 1.05 of them.

    The least is written by hand: each operand that has to be read, once, and each result, once.
    What cannot wait in a GPU (statistics of all columns of a large array, before its elements are
    scaled) is read as often as it must be.
    """

    function: Callable[..., Any]
    arguments: tuple
    least: int
    why: str = ""


def bytes_of(*values: ga.ShapeDtypeStruct) -> int:
    """The bytes of some arrays together."""
    return sum(int(np.prod(v.shape)) * np.dtype(v.dtype).itemsize for v in values)
