"""Groups: equations that become one kernel.

Floor 3. Plain data, made by fuse.py and merge.py, read by the plan and the backends.

A Group has axes. Every value in it runs along some of them, and each of its dimensions is labelled
with the axis it runs along. Axes that reductions remove are the inner space R, the others the
parallel space P.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gpuarray.core.graph import Eqn, Literal, Var, params_key
from gpuarray.core.index import Index
from gpuarray.core.primitive import Kind

if TYPE_CHECKING:
    from gpuarray.compiler.fuse.flows import Flow

Dims = tuple[
    int | None, ...
]  # per dimension: the group axis it runs along, None where it has length 1


@dataclass(eq=False)
class Load:
    """An input of a group: a buffer seen through views, or an index-only value made on the spot."""

    source: Var
    views: tuple[Eqn, ...]
    dims: Dims
    shape: tuple[int, ...]

    def __post_init__(self):
        self.key = (self.source, tuple((e.primitive, params_key(e.params)) for e in self.views))


@dataclass(eq=False)
class Inner:
    """An operand made inside the group: `order` says which of its dimensions stands where (None: a
    new one).
    """

    var: Var
    order: tuple[int | None, ...]


Operand = Literal | Load | Inner


@dataclass(eq=False)
class Member:
    """One equation of a group."""

    eqn: Eqn
    operands: list[Operand]
    space: Dims  # what its operands run along together
    dims: Dims  # what its results run along
    flow: Flow | None = None  # of a loop or a branch: what runs for each element

    @property
    def weight(self) -> float:
        """Cost of an element in multiply-adds."""
        return self.eqn.primitive.weight if self.flow is None else self.flow.weight


@dataclass(eq=False)
class Group:
    """Equations that become one kernel."""

    axes: list[int] = field(default_factory=list)  # lengths
    reduced: frozenset[int] = frozenset()
    members: list[Member] = field(default_factory=list)
    outputs: list[Var] = field(default_factory=list)
    name: str = ""
    # Values that a kernel makes for itself, element by element, instead of reading them (`iota`, a
    # padded array): by which equations. A driver that replays primitives reads them from memory.
    generators: dict[Var, Eqn] = field(default_factory=dict)
    # Of a group that only writes what is otherwise made where it is read: which equation that is.
    moves: Eqn | None = None
    # Whether its kernel has a form of its own: a scan, an update in place.
    by_itself: bool = False
    # Outputs that begin as the contents of an input, which the kernel does not read.
    aliases: dict[Var, Var] = field(default_factory=dict)
    # Axes that are parts of another one (collapse.py): where along it their positions are.
    joined: dict[int, Index] = field(default_factory=dict)
    # Of one that stands for many: groups of one structure that run in one launch.
    parts: list[Group] = field(default_factory=list)
    # What merging asks all the time, kept up to date instead of gathered again:
    made: dict[Var, Member] = field(default_factory=dict)  # the member that makes each value
    read: dict[Var, int] = field(default_factory=dict)  # how often each outside value is loaded
    load_of: dict[tuple, Load] = field(default_factory=dict)  # the first load of each key
    finished: set[Var] = field(default_factory=set)  # values that need a reduction of this group
    # Of loops: what they read in memory on their way, and results that are not whole in registers.
    streams: set[Var] = field(default_factory=set)
    aside: dict[Var, Member] = field(default_factory=dict)
    weight: float = 0.0

    @property
    def parallel(self) -> tuple[int, ...]:
        """The axes of the parallel space, in order."""
        return tuple(i for i in range(len(self.axes)) if i not in self.reduced)

    def loads(self) -> Iterator[Load]:
        """All inputs, once for each place that reads them."""
        for member in self.members:
            for operand in member.operands:
                if isinstance(operand, Load):
                    yield operand

    def streamed(self) -> Iterator[tuple[Load, int]]:
        """What loops read in memory on their way, and how often each element of the space does."""
        for member in self.members:
            if member.flow is not None:
                for k, load in member.flow.memory.items():
                    yield load, member.flow.reads_of(k)

    def sources(self) -> list[Var]:
        """The distinct values the group reads, in order of first use."""
        return list(dict.fromkeys([*self.read, *self.aliases.values()]))

    def add(self, member: Member) -> None:
        """Append a member and note what it reads and makes."""
        self.members.append(member)
        self.weight += member.weight
        depends = member.eqn.primitive.kind is Kind.REDUCTION
        for operand in member.operands:
            if isinstance(operand, Load):
                self.read[operand.source] = self.read.get(operand.source, 0) + 1
                self.load_of.setdefault(operand.key, operand)
            elif isinstance(operand, Inner) and operand.var in self.finished:
                depends = True
        if member.flow is not None:
            self._add_flow(member, member.flow)
            return
        for v in member.eqn.outvars:
            self.made[v] = member
            if depends:
                self.finished.add(v)

    def _add_flow(self, member: Member, flow: Flow) -> None:
        for load in flow.memory.values():
            self.read[load.source] = self.read.get(load.source, 0) + 1
            self.streams.add(load.source)
        for k in flow.results:
            known = self.made if k in flow.whole else self.aside
            known[member.eqn.outvars[k]] = member

    @property
    def has_flow(self) -> bool:
        """Whether a loop or a branch is among the members."""
        return any(m.flow is not None for m in self.members)


Step = Group | Eqn


class Refusal(NamedTuple):
    """Two steps that exchange a value and are not one kernel."""

    producer: Step
    consumer: Step
    reason: str


def members_in_order(group: Group) -> Iterator[Member]:
    """The members, each after the ones it needs."""
    made = group.made
    done: set[int] = set()
    for member in group.members:
        stack = [member]
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
            if id(top) not in done:
                done.add(id(top))
                yield top
