"""Groups: equations that become one kernel.

Floor 3. Plain data, made by fuse.py and merge.py, read by the plan and the drivers.

A Group has axes. Every value in it runs along some of them, and each of its dimensions is labelled
with the axis it runs along. Axes that reductions remove are the inner space R, the others the
parallel space P.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuarray.core.graph import Eqn, Literal, Var, params_key
from gpuarray.core.primitive import Kind

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


@dataclass(eq=False)
class Group:
    """Equations that become one kernel."""

    axes: list[int] = field(default_factory=list)  # lengths
    reduced: frozenset[int] = frozenset()
    members: list[Member] = field(default_factory=list)
    outputs: list[Var] = field(default_factory=list)
    name: str = ""
    # Values among those it reads that a kernel can make for itself, element by element (`iota`):
    # how, as members outside `members`. A driver that replays primitives reads them from memory.
    generators: dict[Var, Member] = field(default_factory=dict)
    # What merging asks all the time, kept up to date instead of gathered again:
    made: dict[Var, Member] = field(default_factory=dict)  # the member that makes each value
    read: dict[Var, int] = field(default_factory=dict)  # how often each outside value is loaded
    load_of: dict[tuple, Load] = field(default_factory=dict)  # the first load of each key
    finished: set[Var] = field(default_factory=set)  # values that need a reduction of this group
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

    def sources(self) -> list[Var]:
        """The distinct values the group reads, in order of first use."""
        return list(self.read)

    def add(self, member: Member) -> None:
        """Append a member and note what it reads and makes."""
        self.members.append(member)
        self.weight += member.eqn.primitive.weight
        depends = member.eqn.primitive.kind is Kind.REDUCTION
        for operand in member.operands:
            if isinstance(operand, Load):
                self.read[operand.source] = self.read.get(operand.source, 0) + 1
                self.load_of.setdefault(operand.key, operand)
            elif isinstance(operand, Inner) and operand.var in self.finished:
                depends = True
        for v in member.eqn.outvars:
            self.made[v] = member
            if depends:
                self.finished.add(v)


Step = Group | Eqn


class Refusal(NamedTuple):
    """Two steps that exchange a value and are not one kernel."""

    producer: Step
    consumer: Step
    reason: str
