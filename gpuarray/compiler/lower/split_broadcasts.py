"""Split off values that a group would recompute for each position along a broadcast axis.

Floor 3. In: fused steps. Out: the steps with such values in separate groups. A GPU recomputes them
in less time than another launch takes; on a CPU another loop costs next to nothing.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import (
    FusedGroup,
    GroupBuilder,
    Inner,
    Member,
    Refusal,
    Step,
    members_in_order,
)
from gpuarray.compiler.fuse.merge import relabelled
from gpuarray.compiler.lower.costs import can_emit
from gpuarray.compiler.lower.passes import axis_order
from gpuarray.compiler.lower.split_passes import with_loads
from gpuarray.core.dtypes import kind_of
from gpuarray.core.graph import Var
from gpuarray.core.primitive import Kind
from gpuarray.core.target import PROCESSOR

WHY = "it would be computed again for each position along a broadcast axis"


def split_broadcasts(steps: list[Step]) -> tuple[list[Step], list[Refusal]]:
    """The steps with such groups split, and the pairs of groups between which values go through
    memory.
    """
    made: list[Step] = []
    refusals: list[Refusal] = []
    for step in steps:
        pieces = _pieces(step) if isinstance(step, FusedGroup) else [step]
        made += pieces
        rest = pieces[-1]
        refusals += [Refusal(one, rest, WHY) for one in pieces[:-1]]
    return made, refusals


def _pieces(group: FusedGroup) -> list[FusedGroup]:
    """The groups into which a group is split, the last of which is over all of its axes."""
    pieces: list[FusedGroup] = []
    while (members := _apart(group)) is not None:
        piece, group = _taken(group, members)
        pieces.append(piece)
    return [*pieces, group]


def _apart(group: FusedGroup) -> list[Member] | None:
    """Members over the same few axes that are better computed first, with their dependencies."""
    if group.has_flow or group.copy_of is not None or not can_emit(group):
        return None
    order = axis_order(group)
    places = {axis: k for k, axis in enumerate(order)}
    spaces: dict[frozenset[int], list[Member]] = {}
    needs: dict[int, set[int]] = {}  # of a member, by id: its dependencies, including itself
    for member in members_in_order(group):
        inner = [group.made[o.var] for o in member.operands if isinstance(o, Inner)]
        folded = member.eqn.primitive.kind is Kind.REDUCTION
        if folded or any(id(m) not in needs for m in inner):
            continue  # it waits for a reduction of this group
        needs[id(member)] = {id(member)}.union(*(needs[id(m)] for m in inner))
        axes = frozenset(d for d in member.dims if d is not None)
        spaces.setdefault(axes, []).append(member)
    for axes, members in sorted(spaces.items(), key=lambda item: len(item[0])):
        # How many times a loop around theirs would compute them.
        last = max((places[d] for d in axes), default=-1)
        again = math.prod(group.axes[d] for d in order[: last + 1] if d not in axes)
        heavy = [m for m in members if _is_heavy(m)]
        each = sum(m.weight for m in heavy) * (again - 1)
        total = each * math.prod(group.axes[d] for d in axes)
        if each < PROCESSOR.again_each or total < PROCESSOR.computed_again:
            continue
        # With the dependencies go their other uses, and values written over these axes.
        seeds = {id(m) for m in heavy}
        seeds |= {id(m) for m in members if not needs[id(m)].isdisjoint(seeds)}
        seeds |= {id(m) for m in members if any(v in group.outputs for v in m.eqn.outvars)}
        taken = set().union(*(needs[k] for k in seeds))
        return [m for m in members_in_order(group) if id(m) in taken]
    return None


def _is_heavy(member: Member) -> bool:
    """Whether an element takes long. A division of integers does as well, but mostly of positions
    by a constant, which is a product.
    """
    floats = kind_of(member.eqn.outvars[0].aval.dtype) in "fc"
    return floats and member.weight > PROCESSOR.worth_keeping


def _taken(group: FusedGroup, members: list[Member]) -> tuple[FusedGroup, FusedGroup]:
    """These members as a group over their axes, and the group of the others."""
    made = {v for m in members for v in m.eqn.outvars}
    taken = {id(m) for m in members}
    others = [m for m in members_in_order(group) if id(m) not in taken]
    read = {o.var for m in others for o in m.operands if isinstance(o, Inner)}
    axes = sorted({d for m in members for d in (*m.space, *m.dims) if d is not None})
    number = {axis: k for k, axis in enumerate(axes)}
    piece = GroupBuilder([group.axes[axis] for axis in axes])
    for member in members:
        piece.add(relabelled(member, number, {}))
    kept = [v for m in members for v in m.eqn.outvars if v in read or v in group.outputs]
    rest = GroupBuilder(group.axes, group.reduced)
    here: set[Var] = {v for m in others for v in m.eqn.outvars}
    for member in others:
        rest.add(with_loads(member, group, here))
    return piece.built(kept), rest.built([v for v in group.outputs if v not in made])
