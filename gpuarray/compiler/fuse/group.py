"""Groups: equations that become one kernel.

Floor 3. Plain data: a GroupBuilder while fuse.py and merge.py merge equations, a FusedGroup from
then on.

A group has axes. Every value in it runs along some of them, and each of its dimensions is labelled
with the axis it runs along. Axes that reductions remove are the inner space R, the others the
parallel space P: in `sum(x * y, axis=1)` axis 0 is P and axis 1 is R.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuarray.compiler.fuse.flows import Flow
from gpuarray.compiler.fuse.operands import Dims as Dims
from gpuarray.compiler.fuse.operands import Inner as Inner
from gpuarray.compiler.fuse.operands import Load as Load
from gpuarray.compiler.fuse.operands import Operand as Operand
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.primitive import Kind
from gpuarray.util import Struct, cached_property


class Member(Struct, frozen=False, eq=False):
    """One equation of a group."""

    eqn: Eqn
    operands: list[Operand]
    space: Dims  # the common space of its operands
    dims: Dims  # the dimensions of its results
    flow: Flow | None = None  # of a loop or a branch: its statements for each element

    @property
    def weight(self) -> float:
        """Cost of an element in multiply-adds."""
        return self.eqn.primitive.weight if self.flow is None else self.flow.weight

    @property
    def in_registers(self) -> list[Var]:
        """The results of which a thread holds its own element in a register at the end."""
        if self.flow is None:
            return self.eqn.outvars
        return [self.eqn.outvars[k] for k in self.flow.results if k in self.flow.whole]

    @property
    def written_aside(self) -> list[Var]:
        """The other results: a loop writes them step by step, or not every thread has one."""
        if self.flow is None:
            return []
        return [self.eqn.outvars[k] for k in self.flow.results if k not in self.flow.whole]


class _Members:
    """Properties of groups that follow from their members."""

    members: Sequence[Member]

    @property
    def has_flow(self) -> bool:
        """Whether a loop or a branch is among the members."""
        return any(m.flow is not None for m in self.members)

    def loads(self) -> Iterator[Load]:
        """All inputs, once for each place that reads them."""
        return (o for m in self.members for o in m.operands if isinstance(o, Load))


class Part(NamedTuple):
    """Where a value is written: at a position along an axis of an output that it lacks."""

    whole: Var
    axis: int
    at: int


class FusedGroup(_Members, Struct, eq=False):
    """Equations that become one kernel. Immutable: another one is made by `replace`.

    Attributes
    ----------
    axes :
        Lengths of the axes; those in `reduced` are removed by reductions.
    inputs :
        The values in memory that it reads, in order of first use.
    inlined :
        Producers whose results are computed where they are read, instead of being read from memory
        (`iota`, a padded array), by the value that each computes. A backend that replays primitives
        computes them as separate steps.
    joined :
        Values that are written as parts of an output, which has no equation here.
    copy_of :
        The equation, of a group that only writes its result (a transpose, a gather).
    name :
        Its position in the plan and its form, given when the plan is complete.
    """

    axes: tuple[int, ...]
    reduced: frozenset[int] = frozenset()
    members: tuple[Member, ...] = ()
    outputs: tuple[Var, ...] = ()
    inputs: tuple[Var, ...] = ()
    inlined: Mapping[Var, Eqn] = {}
    joined: Mapping[Var, Part] = {}
    copy_of: Eqn | None = None
    name: str = ""

    @cached_property
    def made(self) -> dict[Var, Member]:
        """The member that computes each value; for loops only results of which a thread holds its
        own element at the end.
        """
        return {v: m for m in self.members for v in m.in_registers}

    @cached_property
    def aside(self) -> dict[Var, Member]:
        """The loop that writes each of the other results."""
        return {v: m for m in self.members for v in m.written_aside}

    @property
    def stored(self) -> tuple[Var, ...]:
        """The values that threads write: the outputs, or the parts of them."""
        if not self.joined:
            return self.outputs
        parts = {v: [p for p, part in self.joined.items() if part.whole is v] for v in self.outputs}
        return tuple(p for v, own in parts.items() for p in own or [v])

    @property
    def parallel(self) -> tuple[int, ...]:
        """The axes of the parallel space, in order."""
        return tuple(i for i in range(len(self.axes)) if i not in self.reduced)

    @property
    def is_fused(self) -> bool:
        """Whether its members are of the kinds that fusion merges: pointwise work, reductions,
        loops in registers. Others (a scan, a sort, a scatter in place) have dedicated kernels.
        """
        fusible = (Kind.POINTWISE, Kind.REDUCTION)
        # A flow counts as fusible whatever its primitive's kind is.
        return all(m.flow is not None or m.eqn.primitive.kind in fusible for m in self.members)

    def streamed(self) -> Iterator[tuple[Load, int]]:
        """The inputs that loops read step by step, and how many times each element of the space
        does.
        """
        for member in self.members:
            if member.flow is not None:
                # A loop of 1000 steps reads 1000 elements for each element of the space.
                for k, load in member.flow.memory.items():
                    yield load, member.flow.reads_of(k)


class GroupBuilder(_Members):
    """A group while equations are still merged into it.

    Properties needed at every attempt to merge are kept up to date here: recomputing them each time
    would take quadratic time.
    """

    def __init__(self, axes: Iterable[int] = (), reduced: frozenset[int] = frozenset()):
        self.axes = list(axes)
        self.reduced = reduced
        self.members: list[Member] = []
        self.made: dict[Var, Member] = {}  # as in FusedGroup
        self.aside: dict[Var, Member] = {}
        self.read: dict[Var, int] = {}  # how many times each outside value is loaded
        self.load_of: dict[tuple, Load] = {}  # the first load of each key
        self.all_loads: list[Load] = []
        self.finished: set[Var] = set()  # values that need a reduction of this group
        self.streams: set[Var] = set()  # arrays that loops read in memory at each step
        self.weight = 0.0
        self._flows = False

    @property
    def has_flow(self) -> bool:
        """As in FusedGroup."""
        return self._flows

    def add(self, member: Member) -> None:
        """Append a member and record the values it reads and computes."""
        self.members.append(member)
        self.weight += member.weight
        # Values that depend on a reduction are recorded: a later member that needs them waits for
        # the whole row.
        depends = member.eqn.primitive.kind is Kind.REDUCTION
        for operand in member.operands:
            if isinstance(operand, Load):
                self.read[operand.source] = self.read.get(operand.source, 0) + 1
                self.load_of.setdefault(operand.key, operand)
                self.all_loads.append(operand)
            elif isinstance(operand, Inner) and operand.var in self.finished:
                depends = True
        self.made.update(dict.fromkeys(member.in_registers, member))
        if member.flow is not None:
            self._flows = True
            # Results that a loop writes at each step are in memory: no other member can have them
            # as operands.
            self.aside.update(dict.fromkeys(member.written_aside, member))
            # An array that a loop reads step by step is not a Load of a member, but it is an input.
            for load in member.flow.memory.values():
                self.read[load.source] = self.read.get(load.source, 0) + 1
                self.streams.add(load.source)
        elif depends:
            self.finished.update(member.eqn.outvars)

    def loads(self) -> Iterator[Load]:
        """As in FusedGroup."""
        return iter(self.all_loads)

    def sources(self) -> list[Var]:
        """The distinct values the group reads, in order of first use."""
        return list(self.read)

    def built(self, outputs: Iterable[Var]) -> FusedGroup:
        """The group in its current state."""
        return FusedGroup(
            # The order of `read` is that of the kernel's arguments.
            tuple(self.axes),
            self.reduced,
            tuple(self.members),
            tuple(outputs),
            tuple(self.read),
        )


def group_of(member: Member, axes: Iterable[int], outputs: Iterable[Var]) -> FusedGroup:
    """A group of one member."""
    builder = GroupBuilder(axes)
    builder.add(member)
    return builder.built(outputs)


def group_along(eqn: Eqn) -> FusedGroup:
    """A scan or a sort as a group: its axes are those of its operands."""
    shape = eqn.invars[0].aval.shape
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    operands: list[Operand] = [
        a if isinstance(a, Literal) else Load(a, (), dims, shape) for a in eqn.invars
    ]
    return group_of(Member(eqn, operands, dims, dims), shape, eqn.outvars)


Step = FusedGroup | Eqn


class Refusal(NamedTuple):
    """Two steps that exchange a value and were not merged, and why."""

    producer: Step
    consumer: Step
    reason: str


def members_in_order(group: FusedGroup) -> Iterator[Member]:
    """The members, each after those it needs: merging does not keep them in order."""
    made = group.made
    done: set[int] = set()
    for member in group.members:
        # Depth first, without recursion: chains may be as long as a group has members.
        stack = [member]
        # A member is emitted when all its dependencies have been.
        while stack:
            top = stack[-1]
            needed = [
                made[o.var]
                for o in top.operands
                if isinstance(o, Inner) and id(made[o.var]) not in done
            ]
            if needed:
                stack.extend(needed)
                continue
            stack.pop()
            # It may be on the stack twice, if two members need it.
            if id(top) not in done:
                done.add(id(top))
                yield top
