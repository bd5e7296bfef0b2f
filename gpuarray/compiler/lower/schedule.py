"""Schedules: how many threads run a kernel, and how much each does.

Floor 3. In: the form of a kernel. Out: plain numbers, chosen from shapes and dtypes alone, so the
same graph always gets the same kernel. Kernels are bound by memory: enough bytes have to be in
flight at any time, and no row or column should leave most of the machine idle.
"""

from __future__ import annotations

import functools
import itertools
import math

from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Schedule(Struct):
    """Numbers of a launch: `threads` a block, `width` elements a vector access.

    Attributes
    ----------
    lanes :
        Threads that share a row.
    steps :
        Vectors that each of them handles (0: many).
    splits :
        Blocks that share a row or column; the last of them to finish merges their results.
    side :
        Length of a side of square tiles.
    strides :
        The row pitch of each tile.
    near :
        Whether a thread's rows in one are neighbours.
    """

    threads: int
    width: int = 1
    grid: int = 1
    lanes: int = 1
    steps: int = 0
    splits: int = 1
    side: int = 0
    strides: tuple[int, ...] = ()
    near: bool = False

    @property
    def rows_a_block(self) -> int:
        """How many rows share a block."""
        return self.threads // self.lanes


def busy(s: Schedule) -> float:
    """The share of multiprocessors that work: in the last wave of blocks some are idle."""
    turns = -(-s.grid // TARGET.multiprocessors)
    return s.grid / (turns * TARGET.multiprocessors)


def waited_for(s: Schedule, nbytes: float, ahead: float, shared_bytes: int = 0) -> float:
    """The time to read this many bytes on a busy machine, measured in bytes: more than they are if
    threads have too few in flight, `ahead` each.

    Parameters
    ----------
    shared_bytes :
        Shared memory of a block, which limits how many blocks a multiprocessor holds.
    """
    wanted = min(TARGET.bytes_under_way, nbytes / TARGET.multiprocessors)
    return nbytes * max(1.0, wanted / max(1.0, blocks_held(s, shared_bytes) * s.threads * ahead))


def blocks_held(s: Schedule, shared_bytes: int) -> int:
    """How many blocks a multiprocessor has at a time."""
    held = min(-(-s.grid // TARGET.multiprocessors), max(1, TARGET.threads_held // s.threads))
    return min(held, max(1, TARGET.shared_held // max(shared_bytes, 1)))


def vector_width(values: list[Var], length: int) -> int:
    """Elements of a vector access: 16 bytes of the widest dtype, or fewer if the length does not
    divide.
    """
    # The widest dtype decides: all arrays are accessed in vectors of equally many elements.
    sizes = [storage_dtype(v.aval).itemsize for v in values]
    width = TARGET.vector_bytes // max(sizes, default=TARGET.vector_bytes)
    # A vector must not cross the end of a row, since the next one begins unaligned.
    while width > 1 and length % width:
        width //= 2
    return max(width, 1)


def schedule_map(total: int, width: int, load_bytes: int = 0, members: int = 0) -> Schedule:
    """Pointwise work: one vector for each thread, or up to four while that keeps too few bytes in
    flight and leaves enough blocks for all multiprocessors.

    Parameters
    ----------
    load_bytes :
        Bytes that a thread reads for one vector.
    members :
        Operations on each element.
    """
    blocks = max(1, -(-total // (TARGET.block_threads * width)))
    # More vectors for each thread help only until enough bytes are in flight, and only if there are
    # enough blocks to keep all multiprocessors busy.
    steps = 1
    if load_bytes and members <= TARGET.unrolled_members:
        # As many vectors a thread as keep enough bytes under way on a full multiprocessor, at most
        # four.
        steps = min(4, -(-TARGET.bytes_under_way // (TARGET.threads_held * load_bytes)))
        steps = max(1, min(steps, blocks // TARGET.many_blocks))
    return Schedule(TARGET.block_threads, width, grid=-(-blocks // steps), steps=steps)


def schedule_tiles(lengths: list[int], itemsizes: list[int], width: int) -> Schedule:
    """Square tiles of the last two axes: 32 elements wide, 64 where some have under 4 bytes.

    Vectors are as wide as shared memory can take them without two threads waiting for one bank.
    """
    # 65 x 64: rows are padded by an element at least, against bank conflicts.
    side = 64 if min(itemsizes) < 4 and sum(itemsizes) * 65 * 64 <= TARGET.tile_bytes else 32
    # Narrower vectors until some stride has no bank conflicts.
    while True:
        for near in (False, True):
            strides = [_stride(n, side, width, near) for n in itemsizes]
            if all(strides):
                fits = [side * k * n for k, n in zip(strides, itemsizes, strict=True)]
                # How many of the tiles fit into shared memory.
                many = sum(sum(fits[: i + 1]) <= TARGET.shared_bytes for i in range(len(fits)))
                lanes = side // width
                grid = math.prod(lengths[:-2]) * math.prod(-(-n // side) for n in lengths[-2:])
                return Schedule(
                    TARGET.block_threads,
                    width,
                    max(1, grid),
                    lanes,
                    side * lanes // TARGET.block_threads,
                    side=side,
                    strides=tuple(strides[:many]),
                    near=near,
                )
        width //= 2


@functools.cache
def _stride(itemsize: int, side: int, width: int, near: bool) -> int:
    """The row pitch of a tile, such that no access has bank conflicts; 0 if there is none."""
    # Rows of a tile that each thread handles; 0 where the block has more threads than work.
    lanes = side // width
    steps = side * lanes // TARGET.block_threads
    if not steps:
        return 0
    # A stride of a multiple of 32 words has all rows in the same banks; a few elements more shift
    # them. Only strides up to 8 elements longer are tried: more would waste shared memory.
    found = (
        s for s in range(side, side + 9) if _no_conflict(itemsize, s, width, steps, lanes, near)
    )
    return next(found, 0)


def _no_conflict(
    itemsize: int, stride: int, width: int, steps: int, lanes: int, near: bool
) -> bool:
    """Whether the threads that shared memory serves at one time (128 bytes) are in 32 banks of 4
    bytes, or in the same words, when they go along a tile and when they go across it.
    """
    served = min(32, 128 // itemsize)
    for first in range(0, TARGET.block_threads, served):
        for u, e in itertools.product(range(steps), range(width)):
            along: set[int] = set()
            # Words that one group of threads touches: going along a row, and across the rows.
            across: set[int] = set()
            # Where the kernel puts the thread's element; cuda/tiles.py has the same arithmetic.
            for t in range(first, first + served):
                lane, deep = t % lanes * width + e, t // lanes
                down = deep * steps + u if near else u * (TARGET.block_threads // lanes) + deep
                for words, at in ((along, down * stride + lane), (across, lane * stride + down)):
                    words.update(range(at * itemsize // 4, ((at + 1) * itemsize - 1) // 4 + 1))
            if any(len({w % 32 for w in words}) < len(words) for words in (along, across)):
                return False
    return True


def schedule_rows(rows: int, length: int, width: int, vector_bytes: int = 0) -> Schedule:
    """Short rows: a warp or a part of it each, several in a block. Others: a block each.

    Parameters
    ----------
    vector_bytes :
        Bytes that a thread reads for one vector of a row.
    """
    vectors = max(1, -(-length // width))
    # Up to four vectors for each lane of one warp: reductions stay within it, without barriers.
    if vectors <= 32 * 4:
        lanes = _lanes(rows, vectors, vector_bytes)
        # At least one warp for each block, and no more threads than rows.
        threads = max(32, min(TARGET.block_threads, _power_of_two(rows * lanes)))
        grid = -(-rows // (threads // lanes))
        return Schedule(threads, width, max(1, grid), lanes, -(-vectors // lanes))
    # Four vectors for each thread; one if the rows alone do not fill the machine.
    share = 4 if rows >= TARGET.full_grid else 1
    lanes = max(64, min(1024, _power_of_two(vectors // share)))
    steps = -(-vectors // lanes)
    # Steps of 0: a row is too long for registers, and is read again by each pass.
    return Schedule(lanes, width, max(1, rows), lanes, steps if steps <= TARGET.row_vectors else 0)


def _lanes(rows: int, vectors: int, vector_bytes: int) -> int:
    """Threads of a short row: one for each vector, or of many rows fewer with several each where
    that leaves fewer of them idle, and registers for what they compute.
    """
    most = min(32, _power_of_two(vectors))
    fewer = [k for k in (most // 2, most // 4) if k > 1 and rows * k >= TARGET.full_threads]
    found = [k for k in fewer if -(-vectors // k) * vector_bytes <= TARGET.row_bytes // 2]
    return min((most, *found), key=lambda k: -(-vectors // k) * k)


def row_room(s: Schedule, length: int, each: int, beside: int) -> tuple[int, int] | None:
    """How many vectors of a long row each thread has in registers, and the bytes of the others in
    shared memory, which the launch sets aside; None if that is not enough for a row.

    each: bytes of all vectors at one position; beside: bytes of partial results
    """
    # One block may fill a multiprocessor, and then has to keep enough under way alone.
    if s.rows_a_block > 1 or 2 * s.threads < TARGET.threads_held:
        return None
    vectors = length // s.width
    fitting = (TARGET.shared_held - beside) // max(each, 1)
    steps = -(-max(0, vectors - fitting) // s.lanes)
    if steps * each > TARGET.row_bytes:
        return None
    return steps, (vectors - steps * s.lanes) * each


def row_column_slots(rows: int, length: int, folds: int, itemsize: int) -> int:
    """How many blocks go over rows whose columns are folded on the way; 0 where rows are too long
    for a block to hold the results of their columns, or too short to keep it busy.
    """
    lanes = row_column_lanes(length, folds, itemsize)
    if not TARGET.row_column_least <= lanes <= TARGET.row_column_threads:
        return 0
    return min(rows, TARGET.multiprocessors * max(2, TARGET.row_column_threads // lanes))


def row_column_lanes(length: int, folds: int, itemsize: int) -> int:
    """Threads of such a block. Each holds its own part of a row, and the results of its columns, in
    registers.
    """
    most = min(TARGET.column_states // folds, 2 * TARGET.vector_bytes // itemsize)
    return max(32, _power_of_two(-(-length // max(most, 1))))


def schedule_row_columns(
    length: int, width: int, folds: int, itemsize: int, slots: int
) -> Schedule:
    """Rows whose columns are also folded: a block for each slot, which has every `slots`-th row."""
    lanes = row_column_lanes(length, folds, itemsize)
    return Schedule(lanes, width, slots, lanes, max(1, -(-length // (lanes * width))))


def schedule_tables(total: int, blocks: int, each: int, turn: int) -> Schedule:
    """Updates folded in tables of `each` bytes, one for each warp: as many warps in each block as
    fit, and as have work.
    """
    warps = min(32, TARGET.shared_held // each, -(-total // (blocks * turn)))
    return Schedule(32 * max(1, warps), grid=blocks)


def _power_of_two(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, math.ceil(n) - 1).bit_length()


def schedule_all(rows: int, length: int, width: int) -> Schedule:
    """Few long rows: several blocks share each, at most two for each multiprocessor in all."""
    # At least 16 elements for each thread: merging must cost less than sharing saves.
    splits = min(max(1, TARGET.full_grid // rows), -(-length // (TARGET.block_threads * 16)))
    return Schedule(TARGET.block_threads, width, rows * splits, TARGET.block_threads, splits=splits)


def turns_ahead(
    turn_bytes: int, s: Schedule, least: int, operations: int = 1, shared_bytes: int = 0
) -> int:
    """How many iterations of a loop are unrolled: `least`, or up to four times as many if that
    keeps too few bytes in flight on a multiprocessor, and the text stays short.
    """
    held = blocks_held(s, shared_bytes) * s.threads
    turns = least
    while turns < 4 * least and turns * turn_bytes * held < TARGET.bytes_under_way:
        if 2 * turns * s.width * operations > TARGET.row_copies:
            break
        turns *= 2
    return turns


def schedule_short_columns(columns: int, length: int, width: int, row_bytes: int) -> Schedule:
    """A thread for each column, or for `width` neighbours if that leaves enough threads, and enough
    registers.

    Parameters
    ----------
    row_bytes :
        Bytes that a column reads at a time.
    """
    while width > 1 and (
        columns < width * TARGET.full_threads or length * width * row_bytes > TARGET.row_bytes
    ):
        width //= 2
    grid = -(-columns // (TARGET.block_threads * width))
    return Schedule(TARGET.block_threads, width, max(1, grid))


def schedule_columns(
    columns: int, length: int, can_split: bool, operations: int = 1, state: int = 0
) -> Schedule:
    """Down columns: a warp goes along 32 columns, or along all there are; a block shares the rows.
    If there are few columns, several blocks share them; if they cannot, more threads go down fewer
    columns.

    Parameters
    ----------
    state :
        Bytes of the partial results that each thread has in shared memory.
    """
    # Two columns at least; 32 read a whole line of memory of 4-byte elements.
    across = min(32, max(2, _power_of_two(columns)))
    # Many short columns have a thread each: to merge results would take longer than to fold.
    if length < 8 * TARGET.block_threads // across and columns >= TARGET.full_threads:
        across = TARGET.block_threads
        return Schedule(across, grid=-(-columns // across), lanes=1)
    fitting = (TARGET.shared_bytes - 16) // max(state, 1)  # besides a few flags
    # Partial results of all threads have to fit into shared memory.
    deep, splits = TARGET.block_threads // across, 1
    while deep > 1 and across * deep > fitting:
        deep //= 2
    # Blocks share columns: enough of them to fill the machine, each with at least 16 rows for each
    # thread.
    if can_split:
        splits = min(TARGET.column_grid // max(1, -(-columns // across)), length // (deep * 16))
        splits = max(1, splits)
    else:
        # No sharing: deeper blocks until there are enough threads, then narrower ones, as long as
        # their columns still fill a sector of memory.
        most = 1024 if operations <= TARGET.few_operations else 512
        while columns * deep < TARGET.full_threads and length >= deep * 8:
            if across * deep * 2 <= min(most, fitting):
                deep *= 2
            elif across > TARGET.narrowest:
                across, deep = across // 2, deep * 2
            else:
                break
    grid = max(1, -(-columns // across)) * splits
    return Schedule(across * deep, grid=grid, lanes=deep, splits=splits)
