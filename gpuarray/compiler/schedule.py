"""Schedules: how many threads run a kernel, and how much each does.

Floor 3. In: the loop form of a group. Out: plain numbers, chosen from shapes and dtypes alone, so
the same graph always gets the same kernel. The rules and the measurements behind them are in
docs/kernels.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuarray.core.graph import Var, storage_dtype

#: Threads a block, unless a row is shorter.
THREADS = 256
#: The widest access one thread makes.
VECTOR_BYTES = 16
#: Blocks that fill a large GPU (two for each of 132 multiprocessors).
FULL_GRID = 264
#: A row up to this long keeps its values in registers between passes.
REGISTER_ROW = 16 * 1024
#: Unroll pointwise work only while so many waves of blocks remain.
WAVES = 8


@dataclass(frozen=True)
class Schedule:
    """Numbers of a launch: `threads` a block, `width` elements a vector access, `unroll` of them a
    thread.
    """

    kind: str  # map, rows, all, columns
    threads: int
    width: int = 1
    unroll: int = 1
    rows_a_block: int = 1  # rows: how many share a block (then a part of a warp takes a row)
    grid: int = 1


def elements(axes: list[int]) -> int:
    """How many elements a space has."""
    return math.prod(axes)


def vector_width(values: list[Var], length: int) -> int:
    """Elements a vector access moves: 16 bytes of the widest dtype, as long as the length divides."""
    sizes = [storage_dtype(v.aval).itemsize for v in values]
    width = VECTOR_BYTES // max(sizes, default=VECTOR_BYTES)
    while width > 1 and length % width:
        width //= 2
    return max(width, 1)


def schedule_map(total: int, width: int) -> Schedule:
    """Pointwise work: a vector a thread."""
    return Schedule("map", THREADS, width, grid=max(1, -(-total // (THREADS * width))))


def schedule_rows(rows: int, length: int) -> Schedule:
    """A block a row; short rows share a block, one warp each."""
    if length <= 256:
        per_block = THREADS // 32
        return Schedule("rows", THREADS, 1, 1, per_block, -(-rows // per_block))
    threads = (
        min(1024, max(THREADS, 1 << (length // 16).bit_length())) if length > 4096 else THREADS
    )
    return Schedule("rows", threads, 1, 1, 1, rows)


def schedule_all(total: int) -> Schedule:
    """A full reduction: at most two blocks a multiprocessor, the last one to finish merges."""
    blocks = min(FULL_GRID, -(-total // (THREADS * 16)))
    return Schedule("all", THREADS, 1, 1, 1, max(blocks, 1))


def schedule_columns(columns: int) -> Schedule:
    """Reductions down columns: a warp goes along 32 columns, eight warps share the rows."""
    return Schedule("columns", THREADS, grid=-(-columns // 32))
