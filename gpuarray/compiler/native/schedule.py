"""Which steps become native code, and how their work is cut into tasks.

Floor 3. In: groups and lengths. Out: plain numbers, chosen from shapes alone: neither the current
machine nor the number of threads changes a text.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import FusedGroup, Load
from gpuarray.compiler.lower.kernel import Columns, Kernel, Map, Rows, Scan, Scatter, Tiles
from gpuarray.compiler.lower.passes import axis_order
from gpuarray.core.target import PROCESSOR

#: The forms that have native text; NumPy runs the others.
FORMS: tuple[type[Kernel], ...] = (Map, Tiles, Rows, Columns, Scan, Scatter)


def is_slow(group: FusedGroup, passes: int) -> bool:
    """Whether there are so few long rows that threads should share each pass over them."""
    rows = math.prod(group.axes[i] for i in group.parallel)
    length = math.prod(group.axes[i] for i in group.reduced)
    order = axis_order(group)
    if order and order[-1] not in group.reduced:
        # Down columns a task has many of them.
        rows = rows // group.axes[order[-1]] * -(-group.axes[order[-1]] // PROCESSOR.columns)
    return rows < PROCESSOR.many_tasks and rows * length >= 2 * PROCESSOR.piece


def is_short(kernel: Rows) -> bool:
    """Whether rows are short and many, and should be vectorised across rows: elements are so
    expensive that vectors along a row would be filled badly, or operands run along different axes
    of the rows (all pairs of points), so that finding the start of each takes as long as its
    elements.
    """
    group = kernel.group
    if not 1 < kernel.length < PROCESSOR.short_row or not group.parallel:
        return False
    many = group.axes[group.parallel[-1]] >= PROCESSOR.side_by_side
    long = kernel.length >= PROCESSOR.shortest_row and takes_long(group)
    return many and (long or _is_crossed(group))


def _is_crossed(group: FusedGroup) -> bool:
    """Whether operands vary along some of the parallel axes but not along all of them."""
    axes = {*group.parallel}
    loads = [o for m in group.members for o in m.operands if isinstance(o, Load)]
    return any(0 < len(axes.intersection(load.dims)) < len(axes) for load in loads)


def is_narrow(kernel: Columns) -> bool:
    """Whether there are fewer columns than fill a vector, and elements so expensive that vectors
    should go down each of them.
    """
    group = kernel.group
    order = [i for i in axis_order(group) if i not in group.reduced]
    down = [i for i in axis_order(group) if i in group.reduced]
    few = group.axes[order[-1]] < PROCESSOR.side_by_side
    return few and group.axes[down[-1]] >= PROCESSOR.short_row and takes_long(group)


def takes_long(group: FusedGroup) -> bool:
    """Whether there are operations in a group that take long (an exponential, not a product)."""
    eqns = [*(m.eqn for m in group.members), *group.inlined.values()]
    return any(e.primitive.weight > PROCESSOR.worth_keeping for e in eqns)


def lanes_of(length: int) -> int:
    """How many partial results a fold of `length` elements keeps side by side: merging them must
    cost less than they save.
    """
    if length >= PROCESSOR.lanes_from:
        return PROCESSOR.lanes
    return PROCESSOR.lanes // 2 if length >= 64 else 16 if length >= 32 else 1


def pieces_of(rows: int, lengths: list[int]) -> tuple[int, int]:
    """Into how many pieces the slowest of the folded axes is cut where rows are too few to share
    out, and the length of each.
    """
    inside = math.prod(lengths[1:])
    cut = max(1, PROCESSOR.piece // max(1, inside))
    pieces = -(-lengths[0] // cut)
    return (pieces, cut) if rows < PROCESSOR.many_tasks and pieces > 1 else (1, lengths[0])


def cut_axes(lengths: list[int]) -> tuple[int, int]:
    """How many of the axes, from the slowest on, tasks go over, and the length at which the next
    one is cut for tasks too (0: it is not).
    """
    # At least this many elements for each task: finding its position takes as long as a few of
    # them.
    outer = max(1, len(lengths) - 1)
    while outer > 1 and math.prod(lengths[outer:]) < PROCESSOR.task // 4:
        outer -= 1
    # Few tasks: more axes, until there are enough or one is left.
    while math.prod(lengths[:outer]) < PROCESSOR.many_tasks and outer < len(lengths) - 1:
        outer += 1
    inside = math.prod(lengths[outer + 1 :])
    cut = max(1, PROCESSOR.piece // max(1, inside))
    few = math.prod(lengths[:outer]) < PROCESSOR.many_tasks
    return outer, cut if few and outer < len(lengths) and lengths[outer] >= 2 * cut else 0


def tile_sides(down: int, across: int) -> tuple[int, int]:
    """Rows and columns of a tile: operands are read in runs of the rows, results written in runs of
    the columns, and all of a tile stays in the first cache.
    """
    return min(PROCESSOR.tile_rows, down), min(PROCESSOR.tile_columns, across)


def even(tasks: int, grain: int) -> int:
    """As many tasks at a time, or a little fewer where the last of a few shares would be short.

    >>> even(150, 109), even(22500, 1 << 14), even(1 << 20, 1 << 14)
    (75, 11264, 16384)
    """
    shares = -(-tasks // grain)
    if not 1 < shares < PROCESSOR.many_tasks:
        return grain
    # Shares of elements end where lines of a cache do.
    step = PROCESSOR.line if grain >= PROCESSOR.line * PROCESSOR.many_tasks else 1
    return min(grain, math.ceil(tasks / shares / step) * step)


def end_of_piece(begin: str, cut: int, length: int, end: str = "") -> str:
    """The end of a piece of a loop, whose pieces begin at multiples of `cut`; `end` is the text of
    a length that is not known.

    >>> end_of_piece("begin", 128, 4096), end_of_piece("begin", 128, 4000)
    ('begin + 128', 'ga_least(begin + 128, 4000)')
    """
    # If the last piece is as long as the others, the compiler knows the trip count of each.
    whole = length > 0 and length % cut == 0
    return f"{begin} + {cut}" if whole else f"ga_least({begin} + {cut}, {end or length})"
