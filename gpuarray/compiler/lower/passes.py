"""The passes of a group: which loops over P x R compute it, before any machine is chosen.

Floor 3. In: a FusedGroup. Out: its Passes. One suffices if a row (all of R) is processed as a
whole. If rows are split, over tiles on a CPU or over threads on a GPU, there is a pass for each
level of reductions, and one for values written over the whole space: softmax takes three, for the
largest element, the sum, and the quotients.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuarray.compiler.fuse.group import FusedGroup, Inner, Member, members_in_order
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind
from gpuarray.util import Struct


class Follower(Struct):
    """A sum whose elements are compared with a reference, which an earlier fold decides.

    Attributes
    ----------
    total :
        The sum.
    leader :
        The earlier fold.
    reference :
        The value of each row that elements are compared with.
    chain :
        The members that make it from the leader.
    by :
        The exponential of the differences; None where they are squared, and the reference is a
        mean.
    """

    total: Var
    leader: Var
    reference: Var
    chain: tuple[Member, ...]
    by: Eqn | None


class Pass(Struct):
    """One loop over the rows: the members it runs, and the values it keeps.

    If `halves` are two passes, it does the work of both (online.py): the reductions of the second
    are `followers`, and `members` and `after` are those of both.
    """

    members: list[Member]
    partial: list[Var]  # reductions whose per-tile results are kept and merged
    stored: list[Var]  # outputs written tile by tile
    after: list[Member]  # members that need only finished values, run once at the end
    carried: list[Var] = []  # this pass's values that later passes read
    halves: tuple[Pass, ...] = ()
    followers: tuple[Follower, ...] = ()

    def in_order(self) -> list[Member]:
        """All members of the pass, including those after its reductions, in dependence order."""
        if not self.halves:
            return [*self.members, *self.after]
        found = (m for half in self.halves for m in half.in_order())
        return list({id(m): m for m in found}.values())


def one_pass(group: FusedGroup) -> list[Pass]:
    """A single pass that runs every member, for when each row is seen whole."""
    return [Pass(list(members_in_order(group)), [], list(group.stored), [])]


def shares(member: Member) -> bool:
    """Whether threads can share a reduction, each with a partial result that is never rounded: by a
    Fold with text, or by a Graph of scalars.
    """
    return member.eqn.primitive.has_fold or is_by_graph(member)


def is_by_graph(member: Member) -> bool:
    """Whether a reduction merges by a Graph of scalars."""
    eqn = member.eqn
    return eqn.primitive.kind is Kind.REDUCTION and isinstance(eqn.params.get("jaxpr"), Graph)


def can_split(member: Member) -> bool:
    """Whether partial results of a reduction may be merged: not where rounding them to 16 bits
    would show.
    """
    fold, aval = member.eqn.primitive.fold, member.eqn.outvars[0].aval
    if fold is None or fold.result_ufunc is None:
        # Without a ufunc two partial results cannot be merged on the host.
        return False
    # Rounding does not show where merging selects an operand, in wide floats, and in integers.
    return fold.selects or storage_dtype(aval).itemsize >= 4 or aval.dtype.kind in "bui"


def split_passes(
    group: FusedGroup, may_split: Callable[[Member], bool] = can_split
) -> list[Pass] | None:
    """A pass for each level of reductions, then one for values written over the whole space."""
    # 1. The level of each value: how many reductions it depends on, one after the other.
    members = list(members_in_order(group))
    made = group.made
    level: dict[Var, int] = {}
    wide: dict[Var, bool] = {}  # whether a value runs along a reduced axis
    folds = {m.eqn.outvars[0] for m in members if _folds(m, group)}
    for member in members:
        # Operands from memory are there from the start: level 0.
        below = max((level[o.var] for o in member.operands if isinstance(o, Inner)), default=0)
        is_reduction = member.eqn.outvars[0] in folds
        if is_reduction and not may_split(member):
            return None
        for v in member.eqn.outvars:
            level[v] = below + is_reduction
            wide[v] = not group.reduced.isdisjoint(member.dims)
    # 2. A pass for each level: its reductions, their inputs, and their consumers over P.
    top = max(level.values(), default=0)
    passes: list[Pass] = []
    for depth in range(1, top + 1):
        here = [m for m in members if level[m.eqn.outvars[0]] == depth]
        reductions = [m for m in here if m.eqn.outvars[0] in folds]
        needed = _needed(reductions, made, wide, level)
        # The first result of a reduction represents its partial result.
        partial = [m.eqn.outvars[0] for m in reductions]
        narrow = [m for m in here if not wide[m.eqn.outvars[0]]]
        after = [m for m in narrow if m.eqn.outvars[0] not in folds]
        passes.append(Pass(needed, partial, [], after))
    # 3. Members that need no reduction go with the first pass; outputs over P x R need one more.
    passes[0].after[:0] = _row_members(members, level, wide, set(group.stored))
    stored = [v for v in group.stored if wide[v]]
    if stored:
        passes.append(Pass(_needed([made[v] for v in stored], made, wide, level), [], stored, []))
    return passes


def _folds(member: Member, group: FusedGroup) -> bool:
    """Whether a member folds elements of a row: over axes of length 1 it has one element, and
    counts as pointwise.
    """
    if member.eqn.primitive.kind is not Kind.REDUCTION:
        return False
    return any(d in group.reduced and d not in member.dims for d in member.space)


def _row_members(
    members: list[Member], level: dict[Var, int], wide: dict[Var, bool], outputs: set[Var]
) -> list[Member]:
    """Members over P alone that need no reduction, and that others over P (or the outside) read."""
    read = set(outputs)
    found: list[Member] = []
    # In reverse, so that the reads of later members are known before their producer is reached.
    for member in reversed(members):
        v = member.eqn.outvars[0]
        if wide[v] or (level[v] == 0 and not any(o in read for o in member.eqn.outvars)):
            continue
        read.update(o.var for o in member.operands if isinstance(o, Inner))
        if level[v] == 0:
            found.append(member)
    return found[::-1]


def _needed(
    targets: list[Member], made: dict[Var, Member], wide: dict[Var, bool], level: dict[Var, int]
) -> list[Member]:
    """The members a tile must run for these targets; finished values over P (those that depend on a
    reduction) are read, not recomputed.
    """
    order: list[Member] = []
    done: set[int] = set()
    # Depth first, each member after those it needs.
    for target in targets:
        stack = [target]
        while stack:
            top = stack[-1]
            waits = []
            for o in top.operands:
                if not isinstance(o, Inner):
                    continue
                if level[o.var] and not wide[o.var]:
                    continue  # finished by an earlier pass
                maker = made[o.var]
                if id(maker) not in done:
                    waits.append(maker)
            if waits:
                stack.extend(waits)
                continue
            stack.pop()
            if id(top) not in done:
                done.add(id(top))
                order.append(top)
    return order


def once_each(
    group: FusedGroup, passes: list[Pass], carry: Callable[[Member], bool], early: bool
) -> list[Pass]:
    """The same passes, without repeated work.

    Parameters
    ----------
    carry :
        Whether a value over the whole space is computed in the first pass that needs it alone, and
        carried to the later ones.
    early :
        An output is stored in the first pass that computes it.
    """
    first: dict[Var, Pass] = {}
    made: list[Pass] = []
    for one in passes:
        # The same reductions and their consumers; members and outputs are chosen anew.
        new = Pass([], one.partial, [], one.after)
        for v in one.stored:
            (first[v] if early and v in first else new).stored.append(v)
        # Backwards from the values that the pass has to produce: members that only fed a carried
        # value are dropped.
        wanted = {*new.partial, *new.stored}
        for member in reversed(one.members):
            outs = [v for v in member.eqn.outvars if v in wanted]
            known = bool(outs) and all(v in first for v in outs)
            if known and carry(member):
                for v in outs:
                    if v not in first[v].carried:
                        first[v].carried.append(v)
            elif outs:
                new.members.append(member)
                wanted.update(o.var for o in member.operands if isinstance(o, Inner))
        new.members.reverse()
        # Only values along a reduced axis are worth carrying: others are finished after their pass.
        for member in new.members:
            if not group.reduced.isdisjoint(member.dims):
                for v in member.eqn.outvars:
                    first.setdefault(v, new)
        # Empty: an earlier pass has done all of it.
        if new.members or new.after or new.stored:
            made.append(new)
    return made


def axis_order(group: FusedGroup) -> list[int]:
    """Axes from the slowest to the fastest in memory, by the widest value the group writes or
    reads.
    """
    # Outputs first: at equal width `max` takes the first, and writes should be contiguous.
    made = [group.made[v].dims for v in group.stored if v in group.made]
    candidates = made + [x.dims for x in group.loads()]
    widest = max(candidates, key=lambda dims: sum(d is not None for d in dims), default=())
    order = [d for d in widest if d is not None]
    # Axes that the widest value does not have come last.
    return order + [i for i in range(len(group.axes)) if i not in order]
