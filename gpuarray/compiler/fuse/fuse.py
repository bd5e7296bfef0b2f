"""Fuse equations into groups: what becomes one kernel.

Floor 3. In: a simplified Graph. Out: steps in order, each a FusedGroup or a single equation that is
a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuarray.compiler.fuse.group import (
    GroupBuilder,
    Load,
    Member,
    Operand,
    Refusal,
    Step,
)
from gpuarray.compiler.fuse.loops import flow_group
from gpuarray.compiler.fuse.merge import merge, merge_reason
from gpuarray.compiler.fuse.order import in_order
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise
from gpuarray.core.graph import Eqn, Graph, Literal, Var, is_view
from gpuarray.core.primitive import Kind


def fuse(
    graph: Graph, enabled: bool = True, flows: bool = False
) -> tuple[list[Step], list[Refusal]]:
    """The steps that compute the graph, each behind those it needs; and for each pair that
    exchanges a value but stayed apart, why. With `flows`, loops and branches that run element by
    element are groups too.
    """
    fuser = _Fuser(graph, enabled, flows)
    fuser.run()
    steps, built = fuser.steps()
    return steps, fuser.refusals(built)


#: A step while others may still be merged into it.
_Growing = GroupBuilder | Eqn


class _Fuser:
    def __init__(self, graph: Graph, enabled: bool, flows: bool = False):
        self.graph = graph
        self.enabled = enabled
        self.flows = flows and enabled
        self.index = GraphIndex(graph)
        self.step_of: dict[Var, int] = {}  # which step makes a value
        self.steps_by_id: dict[int, _Growing] = {}
        # For each step, the last equation in it or in what it needs: at least that of each step it
        # needs, so that others need not be looked at. And which steps read it.
        self.late: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}
        self.refused: dict[tuple[int, int], str] = {}  # pairs of steps that did not merge, and why

    # ---- the pass ----
    def run(self) -> None:
        for place, eqn in enumerate(self.graph.eqns):
            kind = eqn.primitive.kind
            if is_view(eqn) or self._is_free_generator(eqn):
                continue  # absorbed by whoever reads it
            if kind is Kind.REDUCTION or is_elementwise(eqn):
                step: _Growing = self._single(eqn)
            else:
                step = (self._flow(eqn) if self.flows and eqn.primitive.flow else None) or eqn
            number = self._add(step, eqn, place)
            if self.enabled and isinstance(step, GroupBuilder):
                self._join_producers(number)
        if self.enabled:
            self._join_siblings()

    def _flow(self, eqn: Eqn) -> GroupBuilder | None:
        """A loop or a branch as a group, where each element goes its own way."""
        used = {v for v in eqn.outvars if v in self.index.uses}
        return flow_group(eqn, used, self.index)

    def _is_free_generator(self, eqn: Eqn) -> bool:
        """Index-only values without operands cost nothing to make again: every reader makes its
        own.
        """
        return eqn.primitive.kind is Kind.GENERATOR and not eqn.invars

    def _add(self, step: _Growing, eqn: Eqn, number: int) -> int:
        self.steps_by_id[number] = step
        self.readers[number] = set()
        for v in eqn.outvars:
            self.step_of[v] = number
        before = self._before(number)
        self.late[number] = max((self.late[n] for n in before), default=0)
        self.late[number] = max(self.late[number], number)
        for n in before:
            self.readers[n].add(number)
        return number

    def _became(self, a: int, b: int, before: set[int]) -> None:
        """Note that step b, which had needed `before`, is a part of step a now."""
        readers = self.readers
        for n in before:
            readers[n].discard(b)
            if n != a:
                readers[n].add(a)
        readers[a] |= readers.pop(b) - {a}
        self.late[a] = max(self.late[a], self.late.pop(b))
        waiting = [a]
        while waiting:
            top = waiting.pop()
            late = self.late[top]
            for n in readers[top]:
                if self.late[n] < late:
                    self.late[n] = late
                    waiting.append(n)

    def _inputs(self, step: _Growing) -> list[Var]:
        if isinstance(step, GroupBuilder):
            return step.sources()
        return [self.index.base(a)[0] for a in step.invars if isinstance(a, Var)]

    def _before(self, number: int) -> set[int]:
        """The steps that make what a step reads."""
        step_of = self.step_of
        return {step_of[v] for v in self._inputs(self.steps_by_id[number]) if v in step_of}

    def _single(self, eqn: Eqn) -> GroupBuilder:
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
            source, views = self.index.base(a)
            s = a.aval.shape
            dims = tuple(space[i] if s[i] != 1 else None for i in range(len(s)))
            operands.append(Load(source, views, dims, s))
        reduced: frozenset[int] = frozenset()
        dims = tuple(space)
        if eqn.primitive.kind is Kind.REDUCTION:
            gone = eqn.params["axes"]
            reduced = frozenset(i for d in gone if (i := space[d]) is not None)
            dims = tuple(space[d] for d in range(len(shape)) if d not in gone)
        group = GroupBuilder(axes, reduced)
        group.add(Member(eqn, operands, tuple(space), dims))
        return group

    def _join_producers(self, number: int) -> None:
        """Merge a step with the groups that make its inputs, nearest first."""
        while True:
            group = self.steps_by_id[number]
            assert isinstance(group, GroupBuilder)
            makers = {self.step_of[v] for v in group.sources() if v in self.step_of}
            for maker in sorted(makers, reverse=True):
                producer = self.steps_by_id[maker]
                if isinstance(producer, GroupBuilder) and self._try_merge(maker, number):
                    number = maker
                    break
            else:
                return

    def _join_siblings(self) -> None:
        """Merge groups that read the same value over one space, then reductions of one shape."""
        readers: dict[Var, list[int]] = {}
        for number, step in sorted(self.steps_by_id.items()):
            if isinstance(step, GroupBuilder):
                for v in step.sources():
                    if v.aval.size > 1:
                        readers.setdefault(v, []).append(number)
        self._join_all(readers.values())
        self._join_all(self._reductions_alike())

    def _reductions_alike(self) -> Iterable[list[int]]:
        """Reductions over one space of what one step has made, or of arguments. (If they waited for
        several steps, what those made would have to be kept for longer.)
        """
        found: dict[tuple, dict[int | None, list[int]]] = {}
        for number, step in sorted(self.steps_by_id.items()):
            if isinstance(step, GroupBuilder) and step.reduced:
                before = self._before(number)
                if len(before) <= 1:
                    alike = found.setdefault((tuple(step.axes), step.reduced), {})
                    alike.setdefault(next(iter(before), None), []).append(number)
        for alike in found.values():
            free = alike.pop(None, [])
            for numbers in alike.values():
                numbers += free
                free = []
            yield from (free, *alike.values())

    def _join_all(self, alike: Iterable[list[int]]) -> None:
        """Merge steps with the first of their list that takes them."""
        for numbers in alike:
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
        if not isinstance(one, GroupBuilder) or not isinstance(two, GroupBuilder) or a == b:
            return False
        before = self._before(b)
        if self._cycle(a, b):
            why_not = "a step between them needs the first and feeds the second"
        else:
            why_not = merge(one, two, siblings)
        if why_not:
            if not siblings:
                self.refused[(a, b)] = why_not
            return False
        del self.steps_by_id[b]
        for v in (*two.made, *two.aside):
            self.step_of[v] = a
        self._became(a, b, before)
        return True

    def _cycle(self, a: int, b: int) -> bool:
        """Whether some third step lies between the two, or the second before the first."""
        return self._is_behind(b, self._before(a)) or self._is_behind(a, self._before(b) - {a})

    def _is_behind(self, wanted: int, steps: set[int]) -> bool:
        """Whether any of these steps is a step, or needs it."""
        least = self.late[wanted]
        waiting, seen = list(steps), set(steps)
        while waiting:
            top = waiting.pop()
            if top == wanted:
                return True
            if self.late[top] < least:
                continue
            for number in self._before(top):
                if number not in seen:
                    seen.add(number)
                    waiting.append(number)
        return False

    def refusals(self, built: dict[int, Step]) -> list[Refusal]:
        """Why steps that exchange a value did not become one."""
        return [
            Refusal(built[a], step, self._reason(a, b))
            for b, step in built.items()
            for a in sorted(self._before(b) - {b})
        ]

    def _reason(self, a: int, b: int) -> str:
        """Why step b did not become a part of step a, whose results it reads."""
        one, two = self.steps_by_id[a], self.steps_by_id[b]
        for eqn in (one, two):
            if isinstance(eqn, Eqn):
                prim = eqn.primitive
                return f"{prim.name} is a step of its own ({prim.kind.word})"
        if not self.enabled:
            return "fusion is switched off"
        # Steps are numbered by their first equation: a reason may be kept under an earlier pair.
        assert isinstance(one, GroupBuilder) and isinstance(two, GroupBuilder)
        return self.refused.get((a, b)) or merge_reason(one, two)

    # ---- the result ----
    def steps(self) -> tuple[list[Step], dict[int, Step]]:
        """Steps in order, with the views and generators somebody outside a group needs as steps of
        their own; and by their numbers those that are not such.
        """
        order: list[Step] = []
        built: dict[int, Step] = {}
        placed: set[Var] = set()
        wanted = {a for a in self.graph.outvars if isinstance(a, Var)}
        for step in self.steps_by_id.values():
            if isinstance(step, GroupBuilder):
                wanted.update(step.sources())
            else:
                wanted.update(a for a in step.invars if isinstance(a, Var))
        # Values behind the views that become steps of their own.
        for v in list(wanted):
            wanted.add(self.index.base(v)[0])

        def place_value(v: Var) -> None:
            """Put the views (or generator) that make a value before whoever needs it."""
            source, views = self.index.base(v)
            eqn = self.index.made_by.get(source)
            if eqn is not None and source not in self.step_of and source not in placed:
                if is_view(eqn) or self._is_free_generator(eqn):
                    placed.add(source)
                    order.append(eqn)
            for view in views:
                out = view.outvars[0]
                if out not in placed:
                    placed.add(out)
                    order.append(view)

        for number in in_order(self.steps_by_id, self._before):
            step = self.steps_by_id[number]
            if isinstance(step, Eqn):
                for a in step.invars:
                    if isinstance(a, Var):
                        place_value(a)
                built[number] = step
            else:
                outputs = [v for m in step.members for v in m.eqn.outvars if v in wanted]
                built[number] = step.built(outputs)
            order.append(built[number])
        for a in self.graph.outvars:
            if isinstance(a, Var):
                place_value(a)
        return order, built
