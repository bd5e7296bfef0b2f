"""Rows and columns in one pass: reductions over both axes of values that a kernel reads once.

Floor 3. In: the fused steps of a device. Out: the same, where a group that reduces rows and one
that reduces columns of the same values are replaced by two others. The first goes over the rows,
each block over many of them, and also folds its own rows column by column; the second folds the
blocks' results. So the gradient of a layer norm reads its operands once, not twice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuarray.compiler.fuse.group import (
    FusedGroup,
    GroupBuilder,
    Inner,
    Load,
    Member,
    Step,
    members_in_order,
)
from gpuarray.compiler.fuse.merge import AxisMatch, merge, relabelled
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.costs import can_emit
from gpuarray.compiler.lower.passes import shares, split_passes
from gpuarray.compiler.lower.schedule import row_column_slots
from gpuarray.compiler.lower.steps import makers, sorted_steps, step_inputs, waits_for
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.cuda_rules import is_half


def fold_columns_with_rows(graph: Graph, steps: list[Step]) -> list[Step]:
    """The steps, with pairs of groups that reduce rows and columns of the same values in one pass
    and one small fold.
    """
    pairs = _pairs(steps)
    if not pairs:
        return steps
    whole: dict[int, Step] = dict(enumerate(steps))
    maker = makers(whole)
    results = {a for a in graph.outvars if isinstance(a, Var)}
    taken: set[int] = set()
    for k, other in pairs:
        one, two = whole[k], whole[other]
        # A group takes part in one pair; members of a pair are other groups than they were.
        if taken & {k, other} or not isinstance(one, FusedGroup) or not isinstance(two, FusedGroup):
            continue
        alone = _apart(one, two)
        # Values over the whole space go to the rows before the two are matched.
        made = _joined(*alone) if alone and _folds_rows(alone[0]) else None
        if made is None or _wait_for_one_another(k, other, whole, maker):
            continue
        taken |= {k, other}
        whole[k], whole[other] = made
        maker = makers(whole)
        # Values that only the columns read are not written.
        read = {v for n, s in whole.items() if n != k for v in step_inputs(s)} | results
        kept = tuple(v for v in made.rows.outputs if v in read)
        whole[k] = made.rows.replace(outputs=kept)
    if not taken:
        return steps
    return sorted_steps(whole)


def _pairs(steps: list[Step]) -> list[tuple[int, int]]:
    """Pairs of groups of which one keeps the axes that the other reduces, judged only by the
    lengths of axes, and that would save enough. Most programs have none: this must be quick.
    """
    groups = {
        k: s for k, s in enumerate(steps) if isinstance(s, FusedGroup) and s.reduced and s.is_fused
    }
    touching: dict[Var, list[int]] = {}
    for k, group in groups.items():
        for v in (*group.inputs, *group.outputs):
            # By array: only groups that share one can be a pair, and there are few of these.
            touching.setdefault(v, []).append(k)
    pairs: dict[tuple[int, int], None] = {}
    for other, two in groups.items():
        space = math.prod(two.axes)
        down = math.prod([two.axes[i] for i in two.reduced])
        for v in (*two.inputs, *two.outputs):
            # Groups that read or make an array over the whole space, and reduce the other axes.
            for k in touching[v] if v.aval.size == space else ():
                one = groups[k]
                length = math.prod([one.axes[i] for i in one.reduced])
                if k == other or length * down != space or math.prod(one.axes) != space:
                    continue
                if (k, other) not in pairs and _slots(one, two, down, length):
                    pairs[k, other] = None
    return sorted(pairs)


def _slots(one: FusedGroup, two: FusedGroup, rows: int, length: int) -> int:
    """The number of blocks that would go over the rows; 0 if their results for the columns are
    large compared with the bytes that are saved.
    """
    folds = [m for m in two.members if m.eqn.primitive.kind is Kind.REDUCTION]
    slots = row_column_slots(rows, length, len(folds), row_itemsize(one))
    wide = {x.source for x in two.loads() if math.prod(x.shape) == rows * length}
    # One pass reads these arrays once, two groups read them twice.
    saved = sum(storage_dtype(v.aval).itemsize for v in wide) * rows * length
    # 16-bit partial results are kept as floats of 4 bytes, and are written and read: hence 2.
    left = sum(max(4, storage_dtype(m.eqn.outvars[0].aval).itemsize) for m in folds)
    return slots if 2 * left * slots * length * TARGET.partials_worth <= saved else 0


class _Pair(NamedTuple):
    """A group over rows with folds of its columns, and the group that folds its results."""

    rows: FusedGroup
    columns: FusedGroup


def is_column_fold(eqn: Eqn) -> bool:
    """Whether an equation folds columns, each block its own rows."""
    return "slots" in eqn.params and eqn.primitive.kind is Kind.LIBRARY


# One primitive for each reduction, so that equal programs give equal equations.
@functools.lru_cache(64)
def _partials(reduction: Primitive) -> Primitive:
    """A reduction of every `slots`-th row as a primitive: a result for each of the first rows."""

    def aval(x: ShapedArray, *, axes: tuple[int, ...], slots: int) -> ShapedArray:
        kept = tuple(n for d, n in enumerate(x.shape) if d not in axes)
        # Of 16-bit floats they stay float until the end, as all partial results do.
        return ShapedArray((slots, *kept), np.dtype(np.float32) if is_half(x.dtype) else x.dtype)

    def numpy(x, *, axes: tuple[int, ...], slots: int):
        out = aval(ShapedArray(x.shape, x.dtype), axes=axes, slots=slots)
        # Block k has every slots-th row from row k on, as in the kernel (cuda/row_columns.py).
        rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *out.shape[1:])
        merge = reduction.plain_fold
        return np.stack([merge.reduce(rows[k::slots].astype(out.dtype)) for k in range(slots)])

    return Primitive(
        f"{reduction.name}_of_rows",
        Kind.LIBRARY,
        aval=aval,
        numpy=numpy,
        fold=reduction.fold,
        register=False,
    )


def _passes(group: FusedGroup):
    if not group.is_fused or group.has_flow or not can_emit(group):
        return None
    # Any fold may be cut here: on a device its partial results are merged by CUDA text.
    return split_passes(group, shares)


def _folds_rows(group: FusedGroup) -> bool:
    """Whether a group is a kernel over rows."""
    return _passes(group) is not None and not Accesses(group).run_along_columns()


def _folds_columns(group: FusedGroup) -> bool:
    """Whether a group only folds columns and processes the results."""
    passes = _passes(group)
    if passes is None or len(passes) > 1 or passes[0].stored:
        return False
    for member in group.members:
        if member.eqn.primitive.kind is not Kind.REDUCTION:
            continue
        operand, out = member.eqn.invars[0].aval, member.eqn.outvars[0].aval
        # Plain folds of numbers: their partial results are elements.
        plain = member.eqn.primitive.plain_fold is not None and operand.dtype == out.dtype
        if not plain or storage_dtype(operand).kind not in "fiuV":
            return False
    return Accesses(group).run_along_columns()


def _apart(one: FusedGroup, two: FusedGroup) -> tuple[FusedGroup, FusedGroup] | None:
    """Copies of both groups in which the columns only fold: values over the whole space that they
    compute for others move to the rows. None if such a value depends on a fold.
    """
    wide = (v for v in two.outputs if any(d in two.reduced for d in two.made[v].dims))
    moved = dict.fromkeys([*wide, *(v for v in one.inputs if v in two.made)])
    if not moved:
        return one, two
    needed, waiting = set(), list(moved)
    while waiting:
        member = two.made[waiting.pop()]
        # A fold of columns ends with the last row, when the pass over the rows is over.
        if member.eqn.primitive.kind is Kind.REDUCTION:
            return None
        needed.add(id(member))
        waiting += [o.var for o in member.operands if isinstance(o, Inner)]
    rows = GroupBuilder(two.axes)
    for member in members_in_order(two):
        if id(member) in needed:
            rows.add(member)
    if merge(rows, _builder(one)):
        return None
    columns = two.replace(outputs=tuple(v for v in two.outputs if v not in moved))
    return rows.built([*one.outputs, *moved]), columns


def _joined(one: FusedGroup, two: FusedGroup) -> _Pair | None:
    """A group over rows and one over columns of the same values as a pair; None if that is
    impossible.
    """
    if not _folds_columns(two):
        return None
    if len(one.members) + len(two.members) > TARGET.members:
        return None
    rows = _builder(one)
    match = AxisMatch(rows, two)
    # 1. Which axis of the one is which of the other: by values that one makes and the other
    # reads, then by arrays that both read.
    inner = match.through_values()
    if inner is None:
        return None
    match.through_shared_loads()
    # Each axis of one is an axis of the other; one reduces the axes that the other keeps.
    axis_of = match.axis_of
    space = {i for i, n in enumerate(one.axes) if n > 1}
    if set(axis_of.values()) != space or any(
        n > 1 and i not in axis_of for i, n in enumerate(two.axes)
    ):
        return None
    # The two must be complementary: the columns fold exactly the axes that the rows keep.
    down = {axis_of[i] for i in two.reduced if i in axis_of}
    if down != space - one.reduced:
        return None
    folds = [m for m in two.members if m.eqn.primitive.kind is Kind.REDUCTION]
    length = math.prod(one.axes[i] for i in one.reduced)
    slots = _slots(one, two, math.prod(one.axes) // max(length, 1), length)
    # The axes that the columns keep: results of blocks run along them.
    above = {d for d in range(len(two.axes)) if d not in two.reduced}
    # 2. The members of the columns in three kinds: values over the whole space join the rows, folds
    # become partial ones, and consumers of folds come after them.
    partial: dict[Var, Var] = {}
    after: list[Member] = []
    for member in two.members:
        if member in folds:
            moved = relabelled(member, axis_of, inner)
            (operand,), (out,) = member.eqn.invars, member.eqn.outvars
            params = {"axes": member.eqn.params["axes"], "slots": slots}
            prim = _partials(member.eqn.primitive)
            # A fold of every slots-th row in place of the whole one: a block folds the rows it has.
            (aval,) = prim.out_avals([operand.aval], params)
            partial[out] = Var(aval)
            eqn = Eqn(prim, [operand], [partial[out]], params, member.eqn.site)
            # The first dimension counts blocks: it is no axis of the pass, since a block writes
            # one row.
            rows.add(Member(eqn, moved.operands, moved.space, (None, *moved.dims)))
        elif any(d in two.reduced for d in member.dims):
            # Members of both are there already.
            if member.eqn.outvars[0] not in rows.made:
                rows.add(relabelled(member, axis_of, inner))
        else:
            after.append(member)
    if after and not _only_reads(after, folds, one):
        return None
    # 3. The two groups, if the first can have this many arguments.
    if len(rows.read) + len(one.outputs) + len(folds) > TARGET.arguments:
        return None
    made = rows.built([*one.outputs, *partial.values()])
    return _Pair(made, _over_blocks(two, sorted(above), folds, after, partial, slots))


def _only_reads(after: Sequence[Member], folds: Sequence[Member], one: FusedGroup) -> bool:
    """Whether members over columns need only the folds and values in memory, and nothing that only
    the pass over the rows has.
    """
    known = {v for m in (*folds, *after) for v in m.eqn.outvars}
    for o in (o for m in after for o in m.operands):
        if isinstance(o, Load):
            if o.source in one.made and o.source not in one.outputs:
                return False
        elif (v := getattr(o, "var", None)) is not None and v not in known:
            return False
    return True


def _over_blocks(
    two: FusedGroup,
    above: Sequence[int],
    folds: Sequence[Member],
    after: Sequence[Member],
    partial: dict[Var, Var],
    slots: int,
) -> FusedGroup:
    """The group that folds the blocks' results; its axis 0 goes over the blocks."""
    place = {axis: k for k, axis in enumerate(above, 1)}
    group = GroupBuilder([slots, *(two.axes[i] for i in above)], frozenset((0,)))
    for member in folds:
        (out,) = member.eqn.outvars
        dims = tuple([None if d is None else place[d] for d in member.dims])
        p = partial[out]
        # Axis 0 of the blocks' results goes over the blocks; the other axes are those of the
        # columns.
        load = Load(p, (), (0, *dims), p.aval.shape)
        eqn = Eqn(
            member.eqn.primitive, [p], [out], {**member.eqn.params, "axes": (0,)}, member.eqn.site
        )
        group.add(Member(eqn, [load], (0, *dims), dims))
    for member in after:
        group.add(relabelled(member, place, {}))
    return group.built(two.outputs)


def row_itemsize(group: FusedGroup | GroupBuilder) -> int:
    """Bytes of an element of the widest array that is read along rows."""
    wide = (x.source.aval for x in group.loads() if group.reduced & set(x.dims))
    return max((storage_dtype(aval).itemsize for aval in wide), default=4)


def _builder(group: FusedGroup) -> GroupBuilder:
    """A group to which members may be added."""
    made = GroupBuilder(group.axes, group.reduced)
    for member in group.members:
        made.add(member)
    return made


def _wait_for_one_another(
    k: int, other: int, steps: dict[int, Step], maker: dict[Var, int]
) -> bool:
    """Whether one of two steps depends on the other through further ones: they cannot share a
    pass.
    """

    def needs(reader: int, made: int) -> bool:
        # A direct dependence is fine, that is the point of joining; a path through a third step
        # would be a cycle.
        through = (v for v in step_inputs(steps[reader]) if maker.get(v) != made)
        return waits_for(through, made, steps, maker)

    return needs(other, k) or needs(k, other)
