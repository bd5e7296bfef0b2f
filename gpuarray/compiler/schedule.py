"""Schedules: how many threads run a kernel, and how much each does.

Floor 3. In: the loop form of a group. Out: plain numbers, chosen from shapes and dtypes alone, so
the same graph always gets the same kernel. Kernels are bound by memory: what counts is that enough
bytes are under way at any time, and that no row or column leaves most of the machine idle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuarray.core.graph import Var, storage_dtype

#: Threads a block, unless a row is shorter or very long.
THREADS = 256
#: The widest access one thread makes.
VECTOR_BYTES = 16
#: Blocks that fill a large GPU (two for each of 132 multiprocessors).
FULL_GRID = 264
#: The same for blocks that wait for memory more than they compute.
COLUMN_GRID = 1056
#: Vectors of a row that a thread keeps in registers, and the bytes all of them may take.
ROW_VECTORS = 8
ROW_BYTES = 128


@dataclass(frozen=True)
class Schedule:
    """Numbers of a launch: `threads` a block, `width` elements a vector access.

    lanes: threads that share a row; steps: vectors of a row that each of them handles (0: many)
    splits: blocks that share a row or column; the last of them to finish merges what they found
    """

    kind: str  # map, rows, all, columns
    threads: int
    width: int = 1
    grid: int = 1
    lanes: int = 1
    steps: int = 0
    splits: int = 1

    @property
    def rows_a_block(self) -> int:
        """How many rows share a block."""
        return self.threads // self.lanes


def vector_width(values: list[Var], length: int) -> int:
    """Elements of a vector access: 16 bytes of the widest dtype, as far as the length divides."""
    sizes = [storage_dtype(v.aval).itemsize for v in values]
    width = VECTOR_BYTES // max(sizes, default=VECTOR_BYTES)
    while width > 1 and length % width:
        width //= 2
    return max(width, 1)


def schedule_map(total: int, width: int) -> Schedule:
    """Pointwise work: a vector a thread."""
    return Schedule("map", THREADS, width, grid=max(1, -(-total // (THREADS * width))))


def schedule_rows(rows: int, length: int, width: int) -> Schedule:
    """Short rows: a warp or a part of it each, several in a block. Others: a block each."""
    vectors = max(1, -(-length // width))
    if vectors <= 32 * 4:
        lanes = min(32, _power_of_two(vectors))
        threads = max(32, min(THREADS, _power_of_two(rows * lanes)))
        grid = -(-rows // (threads // lanes))
        return Schedule("rows", threads, width, max(1, grid), lanes, -(-vectors // lanes))
    # Four vectors a thread; one where the rows alone do not fill the machine.
    share = 4 if rows >= FULL_GRID else 1
    lanes = max(64, min(1024, _power_of_two(vectors // share)))
    steps = -(-vectors // lanes)
    return Schedule("rows", lanes, width, max(1, rows), lanes, steps if steps <= ROW_VECTORS else 0)


def _power_of_two(n: int) -> int:
    """The smallest that is not below n."""
    return 1 << max(0, math.ceil(n) - 1).bit_length()


def schedule_all(rows: int, length: int, width: int) -> Schedule:
    """Few long rows: several blocks share each, at most two for each multiprocessor in all."""
    splits = min(max(1, FULL_GRID // rows), -(-length // (THREADS * 16)))
    return Schedule("all", THREADS, width, rows * splits, THREADS, splits=splits)


def schedule_columns(columns: int, length: int, can_split: bool) -> Schedule:
    """Down columns: a warp goes along 32 columns, eight warps share the rows. Where columns are
    few, several blocks share them.
    """
    across, down = max(1, -(-columns // 32)), THREADS // 32
    splits = min(COLUMN_GRID // across, length // (down * 16)) if can_split else 1
    splits = max(1, splits)
    return Schedule("columns", THREADS, grid=across * splits, lanes=down, splits=splits)
