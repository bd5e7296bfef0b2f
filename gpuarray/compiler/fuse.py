"""Fuse equations into Groups: what becomes one kernel.

Floor 3. In: a simplified Graph. Out: steps in order, each a Group or a single equation that is a step of its own.

A Group has axes. Every value in it runs along some of them, and each of its dimensions is labelled with the axis it
runs along. Axes that reductions remove are the inner space R, the others the parallel space P. Two groups merge when
their labels can be brought together and the union still has that form; that one test covers elementwise chains, reductions with
what comes before and after, softmax, normalisations, transposed and broadcast operands, several outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, params_key
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

    @property
    def key(self) -> tuple:
        return (self.source, tuple((e.primitive, params_key(e.params)) for e in self.views))


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
        return list(dict.fromkeys(load.source for load in self.loads()))

    def results(self) -> dict[Var, Member]:
        """The member that makes each value."""
        return {v: m for m in self.members for v in m.eqn.outvars}


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
        return Group(axes, reduced, [Member(eqn, operands, tuple(space), dims)])

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
        merged = merge(one, two, siblings)
        if merged is None:
            return False
        self.steps_by_id[a] = merged
        del self.steps_by_id[b]
        for v in two.results():
            self.step_of[v] = a
        gone, kept = 1 << b, 1 << a
        self.needs[a] = (self.needs[a] | self.needs[b]) & ~gone & ~kept
        for number in self.steps_by_id:
            bits = self.needs[number]
            if number != a and bits & (gone | kept):
                self.needs[number] = (bits & ~gone) | kept | self.needs[a]
        return True

    def _cycle(self, a: int, b: int) -> bool:
        """Whether some third step lies between the two."""
        between = self.needs[b] & ~(1 << a)
        while between:
            low = between & -between
            if self.needs[low.bit_length() - 1] >> a & 1:
                return True
            between ^= low
        between = self.needs[a] & ~(1 << b)
        if self.needs[a] >> b & 1:
            return True
        while between:
            low = between & -between
            if self.needs.get(low.bit_length() - 1, 0) >> b & 1:
                return True
            between ^= low
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


def merge(one: Group, two: Group, siblings: bool = False) -> Group | None:
    """The union of a producer and a consumer (or of siblings), or None where it has not the form of a group."""
    if len(one.members) + len(two.members) > MEMBER_LIMIT:
        return None
    made = one.results()
    axis_of: dict[int, int] = {}  # axis of `two` -> axis of `one`
    taken: set[int] = set()
    inner: dict[int, Inner] = {}  # loads of `two` that become operands made inside

    def tie(theirs: int | None, ours: int | None) -> bool:
        if theirs is None or ours is None:
            return theirs is None or ours is None
        if theirs in axis_of:
            return axis_of[theirs] == ours
        if ours in taken or two.axes[theirs] != one.axes[ours]:
            return False
        axis_of[theirs] = ours
        taken.add(ours)
        return True

    for load in two.loads():
        maker = made.get(load.source)
        if maker is None:
            continue
        order = view_order(load.views, load.source.aval.ndim)
        if order is None:
            return None
        for theirs, o in zip(load.dims, order, strict=True):
            ours = maker.dims[o] if o is not None else None
            if o is not None and ours is not None and theirs is None:
                return None
            if not tie(theirs, ours):
                return None
        inner[id(load)] = Inner(load.source, order)
    # A value both read ties their axes too, as far as it can.
    ours_by_key = {load.key: load for load in one.loads()}
    for load in two.loads():
        mine = ours_by_key.get(load.key)
        if mine is not None:
            for theirs, ours in zip(load.dims, mine.dims, strict=True):
                if theirs is not None and theirs not in axis_of and ours is not None:
                    tie(theirs, ours)
    axes = list(one.axes)
    for theirs in range(len(two.axes)):
        if theirs in axis_of:
            continue
        if one.reduced and not siblings:
            # A fresh broadcast axis next to a reduction is the reduced axis come back, if it is as long.
            for ours in sorted(one.reduced):
                if ours not in taken and tie(theirs, ours):
                    break
        if theirs not in axis_of:
            axis_of[theirs] = len(axes)
            axes.append(two.axes[theirs])
    grown = len(axes) > len(one.axes)
    if siblings and (grown or len(two.axes) != len(one.axes)):
        return None

    def renamed(dims: Dims) -> Dims:
        return tuple(None if d is None else axis_of[d] for d in dims)

    members = list(one.members)
    for member in two.members:
        operands: list[Operand] = []
        for operand in member.operands:
            if isinstance(operand, Load):
                operand = inner.get(id(operand)) or Load(
                    operand.source, operand.views, renamed(operand.dims), operand.shape
                )
            operands.append(operand)
        members.append(Member(member.eqn, operands, renamed(member.space), renamed(member.dims)))
    reduced_two = frozenset(axis_of[i] for i in two.reduced)
    if one.reduced and reduced_two and one.reduced != reduced_two:
        return None
    merged = Group(axes, one.reduced | reduced_two, members)
    return merged if _well_formed(merged, one, grown) else None


def _well_formed(group: Group, producer: Group, grown: bool) -> bool:
    everything = set(range(len(group.axes)))
    made = group.results()
    if group.reduced:
        if grown and producer.reduced:
            return False  # a reduction would be computed again along the new axis
        for member in group.members:
            if member.eqn.primitive.kind is Kind.REDUCTION:
                if {d for d in member.space if d is not None} != everything:
                    return False
    elif grown and sum(m.eqn.primitive.weight for m in producer.members) > RECOMPUTE_LIMIT:
        return False
    # What a member is made of must give it its full extent: a broadcast alone does not.
    for member in group.members:
        covered: set[int] = set()
        for operand in member.operands:
            if isinstance(operand, Load):
                covered.update(d for d in operand.dims if d is not None)
            elif isinstance(operand, Inner):
                dims = made[operand.var].dims
                covered.update(d for o in operand.order if o is not None and (d := dims[o]) is not None)
        if not {d for d in member.space if d is not None} <= covered:
            return False
    if group.reduced and _returns_to_rows(group, made):
        rows = 1
        for i in group.parallel:
            rows *= group.axes[i]
        length = 1
        for i in group.reduced:
            length *= group.axes[i]
        if length > ROW_LIMIT and rows < ROWS_ENOUGH:
            return False
    arguments = len(group.sources()) + len(made) if len(made) > ARGUMENT_LIMIT else 0
    return arguments <= ARGUMENT_LIMIT or len(group.sources()) + 1 <= ARGUMENT_LIMIT


def _returns_to_rows(group: Group, made: dict[Var, Member]) -> bool:
    """Whether a value over P x R needs a finished reduction: softmax does, a plain sum does not."""
    after: set[Var] = set()
    for member in group.members:
        depends = any(isinstance(o, Inner) and o.var in after for o in member.operands)
        if member.eqn.primitive.kind is Kind.REDUCTION:
            if depends and any(d in group.reduced for d in member.space if d is not None):
                return True
            after.update(member.eqn.outvars)
        elif depends:
            if any(d in group.reduced for d in member.dims if d is not None):
                return True
            after.update(member.eqn.outvars)
    return False


def atoms(eqn: Eqn) -> list[Atom]:
    """The operands of an equation."""
    return eqn.invars
