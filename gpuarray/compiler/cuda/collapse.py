"""Axes that lie together in memory wherever they are used become one: fewer divisions, longer runs.

Floor 3. In: a Group. Out: the same over fewer axes. Height and width of images whose channels move
are one axis to a kernel, and all axes of a plain operation. The members keep the axes they name;
`Group.joined` says where along the new ones those are.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from gpuarray.compiler.cuda.reader import Reader
from gpuarray.compiler.fuse.group import Group
from gpuarray.core.element import places_of
from gpuarray.core.index import Index, linear, split


def joined(group: Group) -> Group:
    """The group over as few axes as its accesses allow."""
    lengths = dict(enumerate(group.axes))
    wide = [i for i, n in lengths.items() if n > 1]
    if len(wide) < 2:
        return group
    steps = _steps(group, wide)
    inside = {i: [i] for i in wide}  # the axes that each one left stands for, slowest first
    while True:
        pairs = itertools.permutations(inside, 2)
        found = (p for p in pairs if _together(group, lengths[p[1]], steps, *p))
        slow, fast = next(found, (None, None))
        if slow is None or fast is None:
            break
        inside[fast] = inside.pop(slow) + inside[fast]
        lengths[fast] *= lengths[slow]
    if len(inside) == len(wide):
        return group
    places: dict[int, Index] = {}
    axes = list(group.axes)
    for axis, parts in inside.items():
        if len(parts) > 1:
            whole = Index.axis(axis, lengths[axis])
            places |= zip(parts, split(whole, [group.axes[i] for i in parts]), strict=True)
            for i in parts:
                axes[i] = 1
            axes[axis] = lengths[axis]
    return replace(group, axes=axes, joined=places)


Steps = list[dict[int, int | None]]


def _steps(group: Group, wide: list[int]) -> Steps:
    """How far a step along each axis moves at each place that the group reads or writes; None where
    that is not the same everywhere.
    """
    reader = Reader(group)
    loads = {(x.key, x.dims): x for x in group.loads()}.values()
    indices = {index for x in loads for index in places_of(reader.access_of(x))}
    indices |= {linear(reader.along(group.made[v].dims), v.aval.shape) for v in group.outputs}
    return [{i: index.coefficient(i) for i in wide} for index in indices]


def _together(group: Group, length: int, steps: Steps, slow: int, fast: int) -> bool:
    """Whether one step along `slow` is always a whole `length` of `fast`."""
    if (slow in group.reduced) != (fast in group.reduced):
        return False
    return all((k := s[fast]) is not None and s[slow] == k * length for s in steps)
