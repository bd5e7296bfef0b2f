"""Merge axes that are contiguous in memory wherever they are used: fewer divisions, longer runs.

Floor 3. In: Accesses. Out: the same over fewer axes. Height and width of images whose channels are
permuted are one axis to a kernel, and so are all axes of a plain operation. The members keep the
axes they name; `Accesses.collapsed` gives their positions along the new ones.
"""

from __future__ import annotations

import itertools

from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.core.element import places_of
from gpuarray.core.index import Index, split


def collapse(accesses: Accesses) -> Accesses:
    """The accesses of the same group over as few axes as they allow."""
    group = accesses.group
    lengths = dict(enumerate(group.axes))
    # An axis of length 1 is at position 0 everywhere, whatever it would be merged with.
    wide = [i for i, n in lengths.items() if n > 1]
    if len(wide) < 2:
        return accesses
    steps = _steps(accesses, wide)
    inside = {i: [i] for i in wide}  # the axes that each remaining one represents, slowest first
    # Merge two axes at a time, until no pair of them is one run in every array.
    while True:
        pairs = itertools.permutations(inside, 2)
        found = (p for p in pairs if _are_contiguous(group, lengths[p[1]], steps, *p))
        slow, fast = next(found, (None, None))
        if slow is None or fast is None:
            break
        # The pair continues under the fast one's name, whose steps are those of the merged axis.
        inside[fast] = inside.pop(slow) + inside[fast]
        lengths[fast] *= lengths[slow]
    if len(inside) == len(wide):
        return accesses
    # The last axis of each run gets its whole length; the others have length 1, and their positions
    # are quotients and remainders along it.
    positions: dict[int, Index] = {}
    axes = list(group.axes)
    for axis, parts in inside.items():
        if len(parts) > 1:
            whole = Index.axis(axis, lengths[axis])
            positions |= zip(parts, split(whole, [group.axes[i] for i in parts]), strict=True)
            for i in parts:
                axes[i] = 1
            axes[axis] = lengths[axis]
    return Accesses(group, axes, positions)


Steps = list[dict[int, int | None]]


def _steps(accesses: Accesses, wide: list[int]) -> Steps:
    """The stride of each axis at each place that the group reads or writes; None if it is not
    constant.
    """
    # Everything that the kernel reads or writes must allow the merge, or positions would go astray.
    indices = {index for x in accesses.loads() for index in places_of(accesses.of(x))}
    indices |= {accesses.output_index(v) for v in accesses.group.stored}
    return [{i: index.coefficient(i) for i in wide} for index in indices]


def _are_contiguous(group: FusedGroup, length: int, steps: Steps, slow: int, fast: int) -> bool:
    """Whether one step along `slow` is always a whole `length` of `fast`."""
    # A run of threads is either parallel or goes along a reduction, never both.
    if (slow in group.reduced) != (fast in group.reduced):
        return False
    return all((k := s[fast]) is not None and s[slow] == k * length for s in steps)
