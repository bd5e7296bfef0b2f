"""Merge two groups where the result can still be one kernel.

Floor 3. In: a producer and its consumer, or two siblings that read the same value. Out: one group,
or the reason why not.

The axes of the two groups are matched along the values they exchange. That one test covers
elementwise chains, reductions with a prologue and epilogue, softmax, normalisations, transposed and
broadcast operands, and several outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpuarray.compiler.fuse.group import (
    Dims,
    FusedGroup,
    GroupBuilder,
    Inner,
    Load,
    Member,
    Operand,
)
from gpuarray.core.dtypes import in_kernels
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.index import view_rule
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET


def view_order(views: tuple[Eqn, ...], ndim: int) -> tuple[int | None, ...] | None:
    """For each dimension of a viewed value, the corresponding dimension of its source, or None if
    it is new. None for all if the views do more than permute, add and drop dimensions.
    """
    order: list[int | None] = list(range(ndim))
    # Compose the views, the last one outermost: each order refers to the value before it.
    for view in views:
        own = view_rule(view).order(view)
        if own is None:
            return None
        order = [None if i is None else order[i] for i in own]
    return tuple(order)


def merge(one: GroupBuilder, two: GroupBuilder, siblings: bool = False) -> str:
    """Merge a consumer (or sibling) `two` into `one`. Returns "" when that is done; otherwise the
    reason why not, with both unchanged.
    """
    # 1. Limits, and loops in registers, which have their own rules.
    single = not one.axes and not two.axes
    exchanged = sum(v in one.made for v in two.read)
    most = TARGET.chained if 2 * exchanged > len(two.read) else TARGET.members
    most = TARGET.single_numbers if single else most
    if len(one.members) + len(two.members) > most:
        return f"together they have more than {most} operations"
    if (one.has_flow or two.has_flow) and (why_not := _flow_refusal(one, two, siblings)):
        return why_not
    # 2. Which axis of `two` is which of `one`: exchanged values decide, shared inputs come second.
    match = AxisMatch(one, two)
    inner = match.through_values()
    if inner is None:
        return "between them elements are rearranged, or one value is read in two orders"
    match.through_shared_loads()
    if siblings and one.reduced and (one.axes, one.reduced) == (two.axes, two.reduced):
        match.by_position()
    # 3. The axes of the union: those of `one`, then those of `two` that matched none of them.
    axes = match.remaining(siblings)
    grown = len(axes) > len(one.axes)
    if siblings and (grown or len(two.axes) != len(one.axes)):
        return "they run over different spaces"
    # Either space may contain the other. If each had axes that the other lacks, every member would
    # run over the product of both.
    if grown and len(set(match.axis_of.values()) & set(range(len(one.axes)))) < len(one.axes):
        return "they run over different spaces"
    # 4. Whether the union still computes every value, each once or cheaply again.
    reduced, why_not = _common_reduction(one, two, match.axis_of, axes, grown)
    if why_not:
        return why_not
    if _has_no_rows(axes, reduced) and not (_is_empty(one) and _is_empty(two)):
        return "one of them has no elements, so nobody would compute the other's"
    members = [relabelled(m, match.axis_of, inner) for m in two.members]
    if not _keeps_extent(members, one, two, match.axis_of, inner):
        return "a value is only broadcast, with nothing of full extent beside it"
    rows = reduced and any(n > 1 for i, n in enumerate(axes) if i not in reduced)
    if rows and _writes_across(axes, [*one.members, *members]):
        return "one of them would be written across the rows of the other"
    if reduced and not _rows_fit(axes, reduced) and _waits(members, one, reduced):
        return "a row is too long to wait for its own reduction"
    # 5. All tests passed: from here on `one` changes.
    new_sources = sum(v not in one.read and v not in one.made for v in two.read)
    most = TARGET.single_numbers if single else TARGET.arguments
    if len(one.read) + new_sources + 1 > most:
        return f"together they have more than {most} inputs and outputs"
    one.axes, one.reduced = axes, reduced
    for member in members:
        one.add(member)
    return ""


def merge_reason(one: GroupBuilder, two: GroupBuilder) -> str:
    """Why two groups do not merge, found by trying it on a copy."""
    # `merge` changes its first group, so the members go into a new one; `two` is unchanged.
    trial = GroupBuilder(one.axes, one.reduced)
    for member in one.members:
        trial.add(member)
    return merge(trial, two) or "it would close a cycle"


class AxisMatch:
    """Which axis of `two` is which axis of `one`."""

    def __init__(self, one: GroupBuilder, two: GroupBuilder | FusedGroup):
        self.one, self.two = one, two
        self.axis_of: dict[int, int] = {}  # of `two` -> of `one`, or of the union
        self.matched: set[int] = set()  # axes of `one` that are taken

    def match(self, theirs: int | None, ours: int | None) -> bool:
        """Match two axes; False if one of them is matched with another, or lengths differ. A
        dimension of length 1 (None) fits any.
        """
        if theirs is None or ours is None:
            return True
        if theirs in self.axis_of:
            return self.axis_of[theirs] == ours
        if ours in self.matched or self.two.axes[theirs] != self.one.axes[ours]:
            return False
        self.axis_of[theirs] = ours
        self.matched.add(ours)
        return True

    def through_values(self) -> dict[int, Inner] | None:
        """Match along the values that one computes and two reads. Returns the inner operands that
        those loads become, by id; None if the axes do not match.
        """
        inner: dict[int, Inner] = {}
        for load in self.two.loads():
            maker = self.one.made.get(load.source)
            if maker is None:
                continue
            order = view_order(load.views, load.source.aval.ndim)
            if order is None:
                return None
            for theirs, o in zip(load.dims, order, strict=True):
                ours = maker.dims[o] if o is not None else None
                # A dimension that runs along an axis of `one` must run along one of `two` as well.
                if (ours is not None and theirs is None) or not self.match(theirs, ours):
                    return None
            # By id: one value may be loaded twice, in two orders.
            inner[id(load)] = Inner(load.source, order)
        return inner

    def through_shared_loads(self) -> None:
        """Match along inputs that both read the same way. That is a preference: matched axes are
        not changed.
        """
        for load in self.two.loads():
            mine = self.one.load_of.get(load.key)
            if mine is not None:
                for theirs, ours in zip(load.dims, mine.dims, strict=True):
                    if theirs is not None and theirs not in self.axis_of and ours is not None:
                        self.match(theirs, ours)

    def by_position(self) -> None:
        """Match equal spaces axis by axis, if nothing else has matched any."""
        if not self.axis_of:
            for axis in range(len(self.one.axes)):
                self.match(axis, axis)

    def remaining(self, siblings: bool) -> list[int]:
        """Give every unmatched axis of two a position after those of one. Returns the axes of the
        union.
        """
        axes = list(self.one.axes)
        for theirs, length in enumerate(self.two.axes):
            if theirs in self.axis_of:
                continue
            # Siblings compute independently: only a consumer can read a finished reduction again.
            if self.one.reduced and not siblings:
                # A consumer that broadcasts the result of a reduction again (x - max(x)) runs along
                # the axis that was reduced, if it is as long.
                if any(
                    o not in self.matched and self.match(theirs, o)
                    for o in sorted(self.one.reduced)
                ):
                    continue
            self.axis_of[theirs] = len(axes)
            axes.append(length)
        return axes


def _writes_across(axes: list[int], members: Sequence[Member]) -> bool:
    """Whether a result of full extent has its neighbours along another axis than what is reduced
    beside it, or than another such result.
    """
    long = {i for i, n in enumerate(axes) if n > 1}
    made = {v: m.dims for m in members for v in m.eqn.outvars}
    inner = {o.var for m in members for o in m.operands if isinstance(o, Inner)}

    def fastest(dims: Iterable[Dims]) -> set[int]:
        return {next(d for d in reversed(x) if d in long) for x in dims if long <= set(x)}

    written = fastest(m.dims for m in members if inner.isdisjoint(m.eqn.outvars))
    folds = (m for m in members if m.eqn.primitive.kind is Kind.REDUCTION)
    operands = [o for m in folds for o in m.operands]
    folded = fastest(o.dims for o in operands if isinstance(o, Load))
    folded |= fastest(made[o.var] for o in operands if isinstance(o, Inner))
    return bool(written) and len(written | folded) > 1


def _has_no_rows(axes: list[int], reduced: frozenset[int]) -> bool:
    # Axes of length 0 outside the reduction: no row exists, so no thread would run.
    return any(n == 0 for i, n in enumerate(axes) if i not in reduced)


def _is_empty(group: GroupBuilder) -> bool:
    return _has_no_rows(group.axes, group.reduced)


def _common_reduction(
    one: GroupBuilder, two: GroupBuilder, axis_of: dict[int, int], axes: list[int], grown: bool
) -> tuple[frozenset[int], str]:
    """The reduced axes of the union, and why they cannot be one kernel where the reductions differ
    or one would be repeated ("" where they can).
    """
    # The reduced axes of `two`, in the numbering of the union.
    theirs = frozenset(axis_of[i] for i in two.reduced)
    both = one.reduced | theirs
    if one.reduced and theirs and theirs != one.reduced:
        return both, "they reduce different axes"
    if one.reduced and grown:
        return both, "a reduction would be computed again along a broadcast axis"
    # The reduction of `two` would be repeated along the axes of `one` that it does not have.
    if theirs and len(axis_of) < len(axes):
        return both, "the reduction does not run over all axes of what it would join"
    # New parallel axes: the computations of `one` are repeated for each step along them. That pays
    # if they are cheap, or if all of them together take less than another launch.
    if (
        grown
        and one.weight > TARGET.recompute
        and one.weight * math.prod(axes) > TARGET.launch_work
    ):
        return both, "too much would be computed again along a broadcast axis"
    return both, ""


def relabelled(member: Member, axis_of: dict[int, int], inner: dict[int, Inner]) -> Member:
    """Copy of a member of two with the axes of the union; its loads of one's values are inner."""

    def renamed(dims: Dims) -> Dims:
        return tuple([None if d is None else axis_of[d] for d in dims])

    operands: list[Operand] = []
    for o in member.operands:
        if isinstance(o, Load):
            # A load of a value that `one` computes becomes an operand inside the group; others get
            # new labels.
            o = inner.get(id(o)) or o.along(renamed(o.dims))
        operands.append(o)
    space, dims = renamed(member.space), renamed(member.dims)
    return Member(member.eqn, operands, space, dims, member.flow)


def _flow_refusal(one: GroupBuilder, two: GroupBuilder, siblings: bool) -> str:
    """Why a loop in registers cannot be merged with another group; "" where it can."""
    # Each check names the reason that a user reads in `why_not_fused`.
    if one.reduced or two.reduced:
        return "a loop in registers would be run again for each pass of a reduction"
    if siblings:
        return "a loop in registers gains nothing from what only reads the same"
    if any(v in one.made or v in one.aside for v in two.streams):
        return "a loop reads its elements step by step"
    if any(v in one.aside for v in two.read):
        return "a loop writes it on its way"
    if not all(_has_cuda_types(g) for g in (one, two)):
        return "a dtype has no type in CUDA"
    return ""


def _has_cuda_types(group: GroupBuilder) -> bool:
    # A group with another dtype runs by NumPy's rules, and a loop merged into it would too.
    return all(in_kernels(v.aval.dtype) for v in (*group.read, *group.made))


def _keeps_extent(
    moved: list[Member],
    one: GroupBuilder,
    two: GroupBuilder,
    axis_of: dict[int, int],
    inner: dict[int, Inner],
) -> bool:
    """Whether the operands of every member still run along all of its axes. A value that is only
    broadcast inside the group does not: no load would say how far the member runs.
    """
    for member, old in zip(moved, two.members, strict=True):
        if inner.keys().isdisjoint(map(id, old.operands)):
            continue  # no operand became inner
        if member.flow is not None:
            continue  # each element is on its own
        # The axes without those of loads and inner operands. Operands that were inner in `two` are
        # labelled with its axes, new inner ones with those of `one`.
        left = set(member.space) - {None}
        for o, was in zip(member.operands, old.operands, strict=True):
            if isinstance(o, Load):
                left.difference_update(o.dims)
            elif isinstance(o, Inner):
                if isinstance(was, Inner):
                    dims = [None if d is None else axis_of[d] for d in two.made[o.var].dims]
                else:
                    dims = one.made[o.var].dims
                left.difference_update([dims[k] for k in o.order if k is not None])
            if not left:
                break
        # An axis along which no operand runs: nothing in the kernel would determine its length.
        if left:
            return False
    return True


def _waits(members: list[Member], one: GroupBuilder, reduced: frozenset[int]) -> bool:
    """Whether a value over P x R that costs more than reading it waits for a reduction over R: then
    another pass over the row would recompute it. In softmax the exponentials do, in a variance only
    values read from memory.
    """
    pass_of: dict[Var, int] = {}  # how many reductions, one after another, a value needs
    cost: dict[Var, float] = {}  # multiply-adds of an element of a value over P x R
    # `pass_of`: the pass over the row in which a value is known, one more after each fold.
    for member in (*one.members, *members):
        read = [o.var for o in member.operands if isinstance(o, Inner) and o.var in pass_of]
        now = max((pass_of[v] for v in read), default=0)
        if any(pass_of[v] < now and cost[v] > TARGET.free for v in read):
            return True
        is_reduction = member.eqn.primitive.kind is Kind.REDUCTION
        wide = not reduced.isdisjoint(member.dims)
        total = member.eqn.primitive.weight + sum(cost[v] for v in read)
        for v in member.eqn.outvars:
            pass_of[v], cost[v] = now + is_reduction, total if wide else 0.0
    return False


def _rows_fit(axes: list[int], reduced: frozenset[int]) -> bool:
    """Whether a row can wait for its own reduction: it is short, or there are rows enough."""
    length = math.prod(axes[i] for i in reduced)
    # If there are enough rows, all processors have work although each row is read twice.
    rows = math.prod(axes[i] for i in range(len(axes)) if i not in reduced)
    return length <= TARGET.waiting_row or rows >= TARGET.waiting_rows
