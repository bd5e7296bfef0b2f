"""Fuse equations into Groups: what becomes one kernel.

Floor 3. In: a simplified Graph. Out: steps in order, each a Group or a single equation that is a
step of its own.
"""

from __future__ import annotations

from gpuarray.compiler.generators import note_generators
from gpuarray.compiler.group import Group, Load, Member, Operand, Refusal, Step
from gpuarray.compiler.merge import merge, merge_reason
from gpuarray.core.graph import Eqn, Graph, Literal, Var, is_view
from gpuarray.core.primitive import Kind


def fuse(graph: Graph, enabled: bool = True) -> list[Step]:
    """The steps that compute the graph, in an order that respects what needs what."""
    fuser = _Fuser(graph, enabled)
    fuser.run()
    return fuser.steps()


def fuse_with_reasons(graph: Graph, enabled: bool = True) -> tuple[list[Step], list[Refusal]]:
    """The steps, and for each pair that exchanges a value but stayed apart, why."""
    fuser = _Fuser(graph, enabled)
    fuser.run()
    steps = fuser.steps()
    return steps, fuser.refusals(steps)


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
        self.refused: dict[tuple[int, int], str] = {}  # pairs of steps that did not merge, and why
        self.uses: dict[Var, int] = {}
        for eqn in graph.eqns:
            for a in eqn.invars:
                if isinstance(a, Var):
                    self.uses[a] = self.uses.get(a, 0) + 1

    # ---- the pass ----
    def run(self) -> None:
        for eqn in self.graph.eqns:
            kind = eqn.primitive.kind
            if is_view(eqn) or self._is_free_generator(eqn):
                continue  # absorbed by whoever reads it
            if kind in _COMPUTE and _stretches(eqn):
                step: Step = self._single(eqn)
            else:
                step = eqn
            number = self._add(step, eqn)
            if self.enabled and isinstance(step, Group):
                self._join_producers(number)
        if self.enabled:
            self._join_siblings()

    def _is_free_generator(self, eqn: Eqn) -> bool:
        """Index-only values without operands cost nothing to make again: every reader makes its
        own.
        """
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
        while eqn is not None and is_view(eqn) and isinstance(eqn.invars[0], Var):
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
            why_not = "a step between them needs the first and feeds the second"
        else:
            why_not = merge(one, two, siblings)
        if why_not:
            if not siblings:
                self.refused[(a, b)] = why_not
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
        """Whether some third step lies between the two (`needs` is transitive, so direct inputs
        suffice).
        """
        if self.needs[a] >> b & 1:
            return True
        for first, second in ((a, b), (b, a)):
            for v in self._inputs(self.steps_by_id[second]):
                made = self.step_of.get(v)
                if made is not None and made != first and self.needs[made] >> first & 1:
                    return True
        return False

    def refusals(self, steps: list[Step]) -> list[Refusal]:
        """Why steps that exchange a value did not become one."""
        number = {id(s): n for n, s in self.steps_by_id.items()}
        found = []
        for step in steps:
            if id(step) not in number:
                continue
            b = number[id(step)]
            makers = {self.step_of[v] for v in self._inputs(step) if v in self.step_of}
            for a in sorted(makers - {b}):
                maker = self.steps_by_id[a]
                apart = next((s for s in (maker, step) if isinstance(s, Eqn)), None)
                if apart is not None:
                    prim = apart.primitive
                    reason = f"{prim.name} is a step of its own ({prim.kind.value})"
                elif not self.enabled:
                    reason = "fusion is switched off"
                else:
                    # Numbers are those of the groups' first steps; a reason may be kept under an
                    # earlier pair.
                    reason = self.refused.get((a, b)) or merge_reason(maker, step)
                found.append(Refusal(maker, step, reason))
        return found

    # ---- the result ----
    def steps(self) -> list[Step]:
        """Steps in order, with the views and generators somebody outside a group needs as steps of
        their own.
        """
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
                if is_view(eqn) or self._is_free_generator(eqn):
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
        note_generators(order, self.graph, self._resolve)
        return order


def _stretches(eqn: Eqn) -> bool:
    """Whether operands have the result's rank, or none: a bitcast to another width does not."""
    if eqn.primitive.kind is not Kind.POINTWISE:
        return True
    rank = eqn.outvars[0].aval.ndim
    return all(a.aval.ndim in (0, rank) for a in eqn.invars) and _same_width(eqn)


def _same_width(eqn: Eqn) -> bool:
    shape = eqn.outvars[0].aval.shape
    return all(n in (1, m) for a in eqn.invars for n, m in zip(a.aval.shape, shape, strict=False))


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
