"""Fuse equations into Groups: what becomes one kernel.

Floor 3. In: a simplified Graph. Out: steps in order, each a Group or a single equation that is a step of its own.

A Group has axes. Every value in it runs along some of them, and each of its dimensions is labelled with the axis it
runs along. Axes that reductions remove are the inner space R, the others the parallel space P. Two groups merge when
their labels can be brought together and the union still has that form; that one test covers elementwise chains, reductions with
what comes before and after, softmax, normalisations, transposed and broadcast operands, several outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuarray.core.graph import Eqn, Graph, Literal, Var, params_key
from gpuarray.core.primitive import Kind

#: More members than this make a kernel slow to compile and short of registers.
MEMBER_LIMIT = 256
#: Inputs and outputs together: kernel arguments.
ARGUMENT_LIMIT = 96
#: Cost (in multiply-adds) of a value that may be computed again for each step of a broadcast axis.
RECOMPUTE_LIMIT = 32.0
#: A value is combined with a reduction of its own row in one kernel while a row is at most this long,
#: or when there are rows enough to keep all processors busy.
ROW_LIMIT = 1 << 20
ROWS_ENOUGH = 32

Dims = tuple[int | None, ...]  # per dimension: the group axis it runs along, None where it has length 1


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
    """An operand made inside the group: `order` says which of its dimensions stands where (None: a new one)."""

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


def fuse(graph: Graph, enabled: bool = True) -> list[Step]:
    """The steps that compute the graph, in an order that respects what needs what."""
    fuser = _Fuser(graph, enabled)
    fuser.run()
    return fuser.steps()


_COMPUTE = (Kind.POINTWISE, Kind.REDUCTION)


class _Fuser:
    def __init__(self, graph: Graph, enabled: bool):
        self.graph = graph
        self.enabled = enabled
        self.made_by: dict[Var, Eqn] = {v: e for e in graph.eqns for v in e.outvars}
        self.step_of: dict[Var, int] = {}  # which step makes a value
        self.steps_by_id: dict[int, Step] = {}
        self.needs: dict[int, int] = {}  # step -> bit set of all steps before it
        self.next_id = 0
        self.uses: dict[Var, int] = {}
        for eqn in graph.eqns:
            for a in eqn.invars:
                if isinstance(a, Var):
                    self.uses[a] = self.uses.get(a, 0) + 1

    # ---- the pass ----
    def run(self) -> None:
        for eqn in self.graph.eqns:
            kind = eqn.primitive.kind
            if kind is Kind.VIEW or self._is_free_generator(eqn):
                continue  # absorbed by whoever reads it
            if kind in _COMPUTE:
                step: Step = self._single(eqn)
            else:
                step = eqn
            number = self._add(step, eqn)
            if self.enabled and isinstance(step, Group):
                self._join_producers(number)
        if self.enabled:
            self._join_siblings()

    def _is_free_generator(self, eqn: Eqn) -> bool:
        """Index-only values without operands cost nothing to make again: every reader makes its own."""
        return eqn.primitive.kind is Kind.GENERATOR and not eqn.invars

    def _add(self, step: Step, eqn: Eqn) -> int:
        number = self.next_id
        self.next_id += 1
        self.steps_by_id[number] = step
        for v in eqn.outvars:
            self.step_of[v] = number
        self.needs[number] = self._bits(self._inputs(step))
        return number

    def _inputs(self, step: Step) -> list[Var]:
        if isinstance(step, Group):
            return step.sources()
        return [self._resolve(a)[0] for a in step.invars if isinstance(a, Var)]

    def _bits(self, sources: list[Var]) -> int:
        bits = 0
        for v in sources:
            made = self.step_of.get(v)
            if made is not None:
                bits |= self.needs[made] | (1 << made)
        return bits

    def _resolve(self, var: Var) -> tuple[Var, tuple[Eqn, ...]]:
        """Follow views back to the value they look at."""
        chain: list[Eqn] = []
        eqn = self.made_by.get(var)
        while eqn is not None and eqn.primitive.kind is Kind.VIEW and isinstance(eqn.invars[0], Var):
            chain.append(eqn)
            var = eqn.invars[0]
            eqn = self.made_by.get(var)
        return var, tuple(reversed(chain))

    def _single(self, eqn: Eqn) -> Group:
        """A group of one equation, every operand a load."""
        if eqn.primitive.kind is Kind.REDUCTION:
            shape = eqn.invars[0].aval.shape
        else:
            shape = eqn.outvars[0].aval.shape
        axes: list[int] = []
        space: list[int | None] = []
        for n in shape:
            space.append(None if n == 1 else len(axes))
            if n != 1:
                axes.append(n)
        operands: list[Operand] = []
        for a in eqn.invars:
            if isinstance(a, Literal):
                operands.append(a)
                continue
            source, views = self._resolve(a)
            s = a.aval.shape
            dims = tuple(space[i] if s[i] != 1 else None for i in range(len(s)))
            operands.append(Load(source, views, dims, s))
        reduced: frozenset[int] = frozenset()
        dims = tuple(space)
        if eqn.primitive.kind is Kind.REDUCTION:
            gone = eqn.params["axes"]
            reduced = frozenset(i for d in gone if (i := space[d]) is not None)
            dims = tuple(space[d] for d in range(len(shape)) if d not in gone)
        group = Group(axes, reduced)
        group.add(Member(eqn, operands, tuple(space), dims))
        return group

    def _join_producers(self, number: int) -> None:
        """Merge a step with the groups that make its inputs, nearest first."""
        while True:
            group = self.steps_by_id[number]
            assert isinstance(group, Group)
            makers = {self.step_of[v] for v in group.sources() if v in self.step_of}
            for maker in sorted(makers, reverse=True):
                producer = self.steps_by_id[maker]
                if isinstance(producer, Group) and self._try_merge(maker, number):
                    number = maker
                    break
            else:
                return

    def _join_siblings(self) -> None:
        """Merge groups that read the same value over the same space."""
        readers: dict[Var, list[int]] = {}
        for number, step in sorted(self.steps_by_id.items()):
            if isinstance(step, Group):
                for v in step.sources():
                    if v.aval.size > 1:
                        readers.setdefault(v, []).append(number)
        for numbers in readers.values():
            first = None
            for number in numbers:
                if number not in self.steps_by_id:
                    continue
                if first is None or not self._try_merge(first, number, siblings=True):
                    first = number

    # ---- merging ----
    def _try_merge(self, a: int, b: int, siblings: bool = False) -> bool:
        """Merge step b into step a (its producer or sibling) if that is legal and worth it."""
        one, two = self.steps_by_id[a], self.steps_by_id[b]
        if not isinstance(one, Group) or not isinstance(two, Group) or a == b:
            return False
        if self._cycle(a, b):
            return False
        if not merge(one, two, siblings):
            return False
        del self.steps_by_id[b]
        for v in two.made:
            self.step_of[v] = a
        gone, kept = 1 << b, 1 << a
        self.needs[a] = (self.needs[a] | self.needs[b]) & ~gone & ~kept
        for number in self.steps_by_id:
            bits = self.needs[number]
            if number != a and bits & (gone | kept):
                self.needs[number] = (bits & ~gone) | kept | self.needs[a]
        return True

    def _cycle(self, a: int, b: int) -> bool:
        """Whether some third step lies between the two (`needs` is transitive, so direct inputs suffice)."""
        if self.needs[a] >> b & 1:
            return True
        for first, second in ((a, b), (b, a)):
            for v in self._inputs(self.steps_by_id[second]):
                made = self.step_of.get(v)
                if made is not None and made != first and self.needs[made] >> first & 1:
                    return True
        return False

    # ---- the result ----
    def steps(self) -> list[Step]:
        """Steps in order, with the views and generators somebody outside a group needs as steps of their own."""
        order: list[Step] = []
        done: set[int] = set()
        placed: set[Var] = set()
        wanted = {a for a in self.graph.outvars if isinstance(a, Var)}
        for step in self.steps_by_id.values():
            if isinstance(step, Group):
                wanted.update(step.sources())
            else:
                wanted.update(a for a in step.invars if isinstance(a, Var))
        # Values behind the views that become steps of their own.
        for v in list(wanted):
            wanted.add(self._resolve(v)[0])
        for step in self.steps_by_id.values():
            if isinstance(step, Group):
                step.outputs = [v for m in step.members for v in m.eqn.outvars if v in wanted]

        def place_value(v: Var) -> None:
            """Put the views (or generator) that make a value before whoever needs it."""
            source, views = self._resolve(v)
            eqn = self.made_by.get(source)
            if eqn is not None and source not in self.step_of and source not in placed:
                if eqn.primitive.kind is Kind.VIEW or self._is_free_generator(eqn):
                    placed.add(source)
                    order.append(eqn)
            for view in views:
                out = view.outvars[0]
                if out not in placed:
                    placed.add(out)
                    order.append(view)

        ready = sorted(self.steps_by_id)
        while ready:
            waiting = []
            for number in ready:
                needed = self.needs[number]
                if any(needed >> n & 1 and n not in done for n in self.steps_by_id if n != number):
                    waiting.append(number)
                    continue
                step = self.steps_by_id[number]
                if isinstance(step, Eqn):
                    for a in step.invars:
                        if isinstance(a, Var):
                            place_value(a)
                order.append(step)
                done.add(number)
            if len(waiting) == len(ready):
                raise AssertionError("the steps of a plan wait for one another")
            ready = waiting
        for a in self.graph.outvars:
            if isinstance(a, Var):
                place_value(a)
        _name_groups(order)
        return order


def _name_groups(steps: list[Step]) -> None:
    """Names by position and shape of the work: the same graph gives the same names."""
    for number, step in enumerate(s for s in steps if isinstance(s, Group)):
        if not step.reduced:
            kind = "map"
        elif not step.parallel:
            kind = "all"
        elif max(step.reduced) == len(step.axes) - 1:
            kind = "rows"
        else:
            kind = "columns"
        step.name = f"k{number}_{kind}"


# ---- bringing two groups together ----


def view_order(views: tuple[Eqn, ...], ndim: int) -> tuple[int | None, ...] | None:
    """Where each dimension of a viewed value comes from; None for new ones. None altogether if a view does more."""
    order: list[int | None] = list(range(ndim))
    for view in views:
        name, params = view.primitive.name, view.params
        before, after = view.invars[0].aval.shape, view.outvars[0].aval.shape
        if name == "transpose":
            order = [order[i] for i in params["permutation"]]
        elif name == "broadcast_in_dim":
            new: list[int | None] = [None] * len(after)
            for i, d in enumerate(params["broadcast_dimensions"]):
                new[d] = order[i] if before[i] == after[d] else None
            order = new
        else:
            # Reshapes that only add or drop axes of length 1 keep the others in their order.
            if [n for n in before if n != 1] != [n for n in after if n != 1]:
                return None
            if name not in ("reshape", "squeeze", "expand_dims"):
                return None
            if name == "reshape" and params.get("dimensions") is not None:
                return None
            full = [o for o, n in zip(order, before, strict=True) if n != 1]
            rest = iter(full)
            order = [next(rest) if n != 1 else None for n in after]
    return tuple(order)


def merge(one: Group, two: Group, siblings: bool = False) -> bool:
    """Bring a consumer (or sibling) into a group; False, and nothing changed, where the union has not the form of one."""
    if len(one.members) + len(two.members) > MEMBER_LIMIT:
        return False
    ties = _Ties(one, two)
    inner = ties.through_values()
    if inner is None:
        return False
    ties.through_shared_loads()
    axes = ties.remaining(siblings)
    grown = len(axes) > len(one.axes)
    if siblings and (grown or len(two.axes) != len(one.axes)):
        return False
    reduced = _common_reduction(one, two, ties.axis_of, len(axes), grown)
    if reduced is None:
        return False
    members = [_moved(m, ties.axis_of, inner) for m in two.members]
    if not _covered(members, one, two, ties.axis_of):
        return False
    if reduced and _returns_to_rows(members, one, reduced) and not _rows_fit(axes, reduced):
        return False
    new_sources = sum(v not in one.read and v not in one.made for v in two.read)
    if len(one.read) + new_sources + 1 > ARGUMENT_LIMIT:
        return False
    one.axes, one.reduced = axes, reduced
    for member in members:
        one.add(member)
    return True


class _Ties:
    """Which axis of `two` is which axis of `one`."""

    def __init__(self, one: Group, two: Group):
        self.one, self.two = one, two
        self.axis_of: dict[int, int] = {}
        self.taken: set[int] = set()

    def tie(self, theirs: int | None, ours: int | None) -> bool:
        if theirs is None or ours is None:
            return theirs is None or ours is None
        if theirs in self.axis_of:
            return self.axis_of[theirs] == ours
        if ours in self.taken or self.two.axes[theirs] != self.one.axes[ours]:
            return False
        self.axis_of[theirs] = ours
        self.taken.add(ours)
        return True

    def through_values(self) -> dict[int, Inner] | None:
        """Tie along the values that one makes and two reads; those loads become inner operands."""
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
                if (ours is not None and theirs is None) or not self.tie(theirs, ours):
                    return None
            inner[id(load)] = Inner(load.source, order)
        return inner

    def through_shared_loads(self) -> None:
        """A value that both read the same way ties their axes too, as far as it can."""
        for load in self.two.loads():
            mine = self.one.load_of.get(load.key)
            if mine is not None:
                for theirs, ours in zip(load.dims, mine.dims, strict=True):
                    if theirs is not None and theirs not in self.axis_of and ours is not None:
                        self.tie(theirs, ours)

    def remaining(self, siblings: bool) -> list[int]:
        """Give every other axis of two a place; the axes of the union."""
        axes = list(self.one.axes)
        for theirs, length in enumerate(self.two.axes):
            if theirs in self.axis_of:
                continue
            if self.one.reduced and not siblings:
                # A fresh broadcast axis next to a reduction is the reduced axis come back, if it is as long.
                if any(o not in self.taken and self.tie(theirs, o) for o in sorted(self.one.reduced)):
                    continue
            self.axis_of[theirs] = len(axes)
            axes.append(length)
        return axes


def _common_reduction(
    one: Group, two: Group, axis_of: dict[int, int], count: int, grown: bool
) -> frozenset[int] | None:
    """The reduced axes of the union; None where two reductions differ or one would be computed again."""
    theirs = frozenset(axis_of[i] for i in two.reduced)
    if one.reduced and (grown or (theirs and theirs != one.reduced)):
        return None
    if theirs and len(axis_of) < count:
        return None  # a reduction must run over all axes of its group
    if grown and not theirs and one.weight > RECOMPUTE_LIMIT:
        return None
    if grown and theirs and one.weight > RECOMPUTE_LIMIT:
        return None
    return one.reduced | theirs


def _moved(member: Member, axis_of: dict[int, int], inner: dict[int, Inner]) -> Member:
    """A member of two with its axes renamed and its loads of one's values made inner."""

    def renamed(dims: Dims) -> Dims:
        return tuple(None if d is None else axis_of[d] for d in dims)

    operands: list[Operand] = []
    for o in member.operands:
        if isinstance(o, Load):
            o = inner.get(id(o)) or Load(o.source, o.views, renamed(o.dims), o.shape)
        operands.append(o)
    return Member(member.eqn, operands, renamed(member.space), renamed(member.dims))


def _covered(
    moved: list[Member], one: Group, two: Group, axis_of: dict[int, int]
) -> bool:
    """Whether the operands still give every member its full extent: a broadcast made inside does not."""
    for member, old in zip(moved, two.members, strict=True):
        if all(isinstance(a, Load) == isinstance(b, Load) for a, b in zip(member.operands, old.operands, strict=True)):
            continue  # nothing became inner
        covered: set[int] = set()
        for o, was in zip(member.operands, old.operands, strict=True):
            if isinstance(o, Load):
                covered.update(d for d in o.dims if d is not None)
            elif isinstance(o, Inner):
                if isinstance(was, Inner):
                    dims = tuple(None if d is None else axis_of[d] for d in two.made[o.var].dims)
                else:
                    dims = one.made[o.var].dims
                covered.update(d for k in o.order if k is not None and (d := dims[k]) is not None)
        if not {d for d in member.space if d is not None} <= covered:
            return False
    return True


def _returns_to_rows(members: list[Member], one: Group, reduced: frozenset[int]) -> bool:
    """Whether a new value over P x R needs a finished reduction: softmax does, a plain sum does not."""
    finished = set(one.finished)
    for member in members:
        depends = any(isinstance(o, Inner) and o.var in finished for o in member.operands)
        is_reduction = member.eqn.primitive.kind is Kind.REDUCTION
        if depends and any(d in reduced for d in member.space):
            return True
        if depends or is_reduction:
            finished.update(member.eqn.outvars)
    return False


def _rows_fit(axes: list[int], reduced: frozenset[int]) -> bool:
    """Whether a row can wait for its own reduction: it is short, or there are rows enough."""
    length = math.prod(axes[i] for i in reduced)
    rows = math.prod(axes[i] for i in range(len(axes)) if i not in reduced)
    return length <= ROW_LIMIT or rows >= ROWS_ENOUGH
