"""Split groups whose rows are too few to keep a GPU busy into a kernel for each pass.

Floor 3. In: fused steps. Out: the steps with such groups split. One kernel for softmax or a batch
normalisation gives each row to one block, because its threads wait for one another. With few long
rows most of the machine is idle, and it is faster to end the kernel after each reduction: then as
many blocks as fit share each pass, which recomputes the values it needs from the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from gpuarray.compiler.fuse.group import (
    FusedGroup,
    GroupBuilder,
    Inner,
    Load,
    Member,
    Refusal,
    Step,
)
from gpuarray.compiler.lower.costs import can_emit
from gpuarray.compiler.lower.online import join_passes
from gpuarray.compiler.lower.passes import Pass, axis_order, once_each, shares, split_passes
from gpuarray.compiler.lower.schedule import (
    busy,
    row_room,
    schedule_columns,
    schedule_rows,
    turns_ahead,
    vector_width,
    waited_for,
)
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.target import TARGET

WHY = "its rows are too few to fill a GPU: each pass over them is a kernel"


def split_into_passes(
    steps: list[Step], is_slow: Callable[[FusedGroup, int], bool] | None = None
) -> tuple[list[Step], list[Refusal]]:
    """The steps with such groups split, and the pieces between which values go through memory.

    Parameters
    ----------
    is_slow :
        Whether one kernel of a group takes longer than one for each of this many passes; by
        default, whether a GPU does, for which passes are joined (online.py).
    """
    join, is_slow = is_slow is None, is_slow or _is_slow
    made: list[Step] = []
    refusals: list[Refusal] = []
    for step in steps:
        # A step that is one kernel stays; pieces take the place of others.
        pieces = _pieces(step, is_slow, join) if isinstance(step, FusedGroup) else None
        made += [step] if pieces is None else pieces
        if pieces is not None:
            refusals += [Refusal(one, two, WHY) for one, two in _exchanges(pieces)]
    return made, refusals


def _pieces(
    group: FusedGroup, is_slow: Callable[[FusedGroup, int], bool], join: bool
) -> list[FusedGroup] | None:
    """A group for each pass; None if one kernel for all is as fast."""
    if not group.reduced or not can_emit(group):
        return None
    passes = split_passes(group, shares)
    # Values written without waiting for a reduction do not take a separate pass.
    if passes is None or len(once_each(group, passes, lambda _: False, early=True)) < 2:
        return None
    if join:
        passes = join_passes(group, passes)
    if len(passes) < 2 or not is_slow(group, len(passes)):
        return None
    # A pass writes the group's outputs, and values that any later pass reads.
    later = [_reads(one) for one in passes]
    pieces: list[FusedGroup] = []
    for number, one in enumerate(passes):
        needed = set(group.outputs).union(*later[number + 1 :])
        pieces.append(_piece(group, one, needed))
    return pieces


def _is_slow(group: FusedGroup, passes: int) -> bool:
    """Whether one kernel takes longer than one for each pass, by the figures that grade kernels
    (explain/grades.py).
    """
    space = {i for i, n in enumerate(group.axes) if n > 1}
    rows = math.prod(group.axes[i] for i in group.parallel)
    length = math.prod(group.axes[i] for i in group.reduced)
    # Arrays along a reduced axis; all others are small in comparison.
    wide = {x.source: x.dims for x in group.loads() if group.reduced & space & set(x.dims)}
    made = {v: group.made[v].dims for v in group.outputs if v in group.made}
    stored = {v: dims for v, dims in made.items() if group.reduced & space & set(dims)}
    read, written = (
        sum(
            storage_dtype(v.aval).itemsize * math.prod(group.axes[i] for i in dims if i is not None)
            for v, dims in of.items()
        )
        for of in (wide, stored)
    )
    # How many times one kernel would read its rows, and with how many bytes in flight.
    order = axis_order(group)
    itemsize = sum(storage_dtype(v.aval).itemsize for v in wide)
    if order and order[-1] in group.reduced:
        width = vector_width(list(wide), group.axes[order[-1]])
        s = schedule_rows(rows, length, width, width * itemsize)
        # A row of few vectors is held in registers, others in shared memory as far as it fits.
        held = s.steps or (s.rows_a_block == 1 and length * itemsize <= TARGET.row_shared_bytes)
        held = held or row_room(s, length, width * itemsize, 0) is not None
        rounds, ahead = (1 if held else passes), turns_ahead(width * itemsize, s, max(2, s.steps))
    else:
        width, s = 1, schedule_columns(rows, length, False, len(group.members))
        rounds, ahead = passes, turns_ahead(itemsize, s, 8)
    waited = waited_for(s, read, ahead * width * itemsize)
    one = (rounds * waited + written) / busy(s)
    # The passes have as many blocks as there is room for, but a block for each row of many, which
    # waits as one kernel does; each but the first costs a launch.
    many = order and order[-1] in group.reduced and rows >= TARGET.full_grid // 2
    fold = waited / busy(s) if many else read
    folds = passes - bool(stored)
    each = folds * fold + ((waited if many else read) + written if stored else 0)
    return one > TARGET.split_gain * each + (passes - 1) * TARGET.launch_bytes


def _reads(one: Pass) -> set[Var]:
    """Values of other members that a pass reads, and those it has to produce."""
    members = one.in_order()
    return {o.var for m in members for o in m.operands if isinstance(o, Inner)} | set(one.stored)


def _piece(group: FusedGroup, one: Pass, needed: set[Var]) -> FusedGroup:
    """One pass as a group; the results of earlier passes are read from memory."""
    # The members of the pass, and those over rows that depend on its reductions.
    members = one.in_order()
    here = {v for m in members for v in m.eqn.outvars}
    # A pass that only writes has no reduction: all its axes are parallel.
    reduced = group.reduced if one.partial else frozenset()
    piece = GroupBuilder(group.axes, reduced)
    for member in members:
        piece.add(with_loads(member, group, here))
    # Only finished values leave a pass: others would be computed over the whole space.
    folds = {m.eqn.outvars[0] for m in members} & set(one.partial)
    finished = {v for m in one.after for v in m.eqn.outvars}
    finished |= {v for m in members if m.eqn.outvars[0] in folds for v in m.eqn.outvars}
    left = [*(v for m in members for v in m.eqn.outvars if v in finished and v in needed)]
    outputs = dict.fromkeys([*left, *one.stored])
    return piece.built(outputs)


def with_loads(member: Member, group: FusedGroup, here: set[Var]) -> Member:
    """Copy of a member with loads for the operands that other passes compute."""
    # Labels tie a load to the space, not positions: the dims that the value was made with will do.
    operands = [
        Load(o.var, (), group.made[o.var].dims, o.var.aval.shape)
        if isinstance(o, Inner) and o.var not in here
        else o
        for o in member.operands
    ]
    return Member(member.eqn, operands, member.space, member.dims, member.flow)


def _exchanges(pieces: list[FusedGroup]) -> Iterable[tuple[FusedGroup, FusedGroup]]:
    """The pairs of pieces of which one reads results of the other."""
    for k, two in enumerate(pieces):
        for one in pieces[:k]:
            if any(v in two.inputs for v in one.outputs):
                yield one, two
