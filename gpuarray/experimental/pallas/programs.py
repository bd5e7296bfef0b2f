"""The position of a program in its grid, while its kernel is traced: `program_id`, `num_programs`.

Floor 6. In: the traced positions of the kernel that is being traced. Out: one of them.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpuarray import lax


class _Grids(threading.local):
    """The grids of the kernels being traced, innermost last."""

    def __init__(self):
        self.stack: tuple[tuple[Sequence[Any], Sequence[Any]], ...] = ()


_grids = _Grids()


@contextlib.contextmanager
def at(ids: Sequence[Any], sizes: Sequence[Any]) -> Iterator[None]:
    """Let programs be at a position of a grid, inside the block."""
    # A stack: a kernel may call another pallas_call, whose programs have their own positions.
    before = _grids.stack
    try:
        _grids.stack = (*before, (ids, sizes))
        yield
    finally:
        _grids.stack = before


def program_id(axis: int) -> Any:
    """Position of the running program along an axis of the grid: an int32 scalar.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> def kernel(out_ref):
    ...     out_ref[pl.program_id(0)] = pl.program_id(0) * 10
    >>> pl.pallas_call(kernel, ga.ShapeDtypeStruct((3,), "int32"), grid=(3,))()
    Array([ 0, 10, 20], dtype=int32)
    """
    return _here("program_id", axis)[0]


def num_programs(axis: int) -> Any:
    """Number of programs along an axis of the grid: an int, where it is known while tracing.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> def kernel(out_ref):
    ...     out_ref[pl.program_id(0)] = pl.num_programs(0)
    >>> pl.pallas_call(kernel, ga.ShapeDtypeStruct((3,), "int32"), grid=(3,))()
    Array([3, 3, 3], dtype=int32)
    """
    return _here("num_programs", axis)[1]


def _here(name: str, axis: Any) -> tuple[Any, Any]:
    if not _grids.stack:
        raise ValueError(f"pl.{name} can only be asked inside of the kernel of a pallas_call.")
    ids, sizes = _grids.stack[-1]
    axis = operator.index(axis)
    if not -len(ids) <= axis < len(ids):
        raise ValueError(f"Axis {axis} is out of bounds for grid {tuple(sizes)}.")
    return ids[axis], sizes[axis]


def positions(number: Any, grid: Sequence[Any]) -> list[Any]:
    """The position in the grid of the program with this number."""
    ids: list[Any] = []
    rest = lax.convert_element_type(number, np.int32) if grid else number
    # The last axis counts fastest.
    for n in reversed(grid):
        n = np.int32(n) if isinstance(n, int) else lax.convert_element_type(n, np.int32)
        ids.append(lax.rem(rest, n))
        rest = lax.div(rest, n)
    return ids[::-1]
