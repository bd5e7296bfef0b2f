"""Fuse equations into groups, each of which becomes one kernel.

Floor 3. In: a simplified Graph. Out: steps in order, each a FusedGroup or a single equation.

Greedy, in two stages: each equation is merged with its producers as soon as it is reached, nearest
first; after the last one, siblings (groups that read the same value) are merged. merge.py decides
whether two groups fit together; this module decides which pairs are tried, and that no merge closes
a cycle between steps.
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
from gpuarray.core.target import TARGET


def fuse(
    graph: Graph, enabled: bool = True, flows: bool = False, apart: bool = False
) -> tuple[list[Step], list[Refusal]]:
    """The steps that compute the graph, each after those it needs, and the refusals: for each pair
    of steps that exchange a value, why they were not merged.

    Parameters
    ----------
    flows :
        Loops and branches that run element by element are groups too.
    apart :
        Reductions of whole arrays are not merged with anything that would keep many of them from
        being one kernel.
    """
    fuser = _Fuser(graph, enabled, flows, apart)
    fuser.run()
    steps, built = fuser.steps()
    return steps, fuser.refusals(built)


#: Why steps are kept from a reduction of a whole array.
APART = "the reduction is one kernel with those of other arrays"

#: A step while others may still be merged into it.
_OpenStep = GroupBuilder | Eqn


class _Fuser:
    """The state of one fusion: steps so far, by the position of their first equation."""

    def __init__(self, graph: Graph, enabled: bool, flows: bool = False, apart: bool = False):
        self.graph = graph
        self.enabled = enabled
        self.flows = flows and enabled
        self.apart = apart
        self.index = GraphIndex(graph)
        self.step_of: dict[Var, int] = {}  # which step computes a value
        self.steps_by_id: dict[int, _OpenStep] = {}
        # For each step, the position of the last equation in it or in any step it depends on. It
        # never decreases along a path from producer to consumer, so the search for cycles can stop
        # at a step whose number is below that of the target.
        self.latest: dict[int, int] = {}
        # For each step those that compute its inputs, and those that read its results: needed at
        # every attempt to merge, so maintained incrementally.
        self.producers: dict[int, set[int]] = {}
        self.readers: dict[int, set[int]] = {}
        self.refused: dict[tuple[int, int], str] = {}  # pairs of steps that did not merge, and why

    # ---- the pass ----
    def run(self) -> None:
        for place, eqn in enumerate(self.graph.eqns):
            kind = eqn.primitive.kind
            # Views and generators are no steps: each reader takes them into its own loads.
            if is_view(eqn) or self._is_free_generator(eqn):
                continue
            # A fusible equation starts as a separate group; any other stays an equation.
            if kind is Kind.REDUCTION or is_elementwise(eqn):
                step: _OpenStep = self._group_of_one(eqn)
            else:
                step = (self._flow(eqn) if self.flows and eqn.primitive.flow else None) or eqn
            # Merge it with its producers, which are all there: equations come in order.
            number = self._add(step, eqn, place)
            if self.enabled and isinstance(step, GroupBuilder):
                self._merge_producers(number)
        if self.enabled:
            # Only now are all readers of a value known.
            self._merge_siblings()
        if self.apart:
            self._merge_tails()

    def _flow(self, eqn: Eqn) -> GroupBuilder | None:
        """A loop or a branch as a group, where each element has its own control flow."""
        # Unread results need no registers.
        used = {v for v in eqn.outvars if v in self.index.uses}
        return flow_group(eqn, used, self.index)

    def _is_free_generator(self, eqn: Eqn) -> bool:
        """Whether values depend only on their index: recomputing them costs nothing, so every
        reader does.
        """
        return eqn.primitive.kind is Kind.GENERATOR and not eqn.invars

    def _add(self, step: _OpenStep, eqn: Eqn, number: int) -> int:
        """Record a new step, the values it computes and the steps it reads."""
        self.steps_by_id[number] = step
        self.readers[number] = set()
        for v in eqn.outvars:
            self.step_of[v] = number
        # Arguments and constants come from no step.
        step_of = self.step_of
        before = {step_of[v] for v in self._inputs(step) if v in step_of}
        self.producers[number] = before
        self.latest[number] = max((self.latest[n] for n in before), default=0)
        self.latest[number] = max(self.latest[number], number)
        for n in before:
            self.readers[n].add(number)
        return number

    def _note_merge(self, a: int, b: int) -> None:
        """Note that step b is a part of step a now."""
        # Move the edges of b to a, in both directions.
        readers, producers = self.readers, self.producers
        before, after = producers.pop(b) - {a}, readers.pop(b) - {a}
        producers[a] = (producers[a] | before) - {b}
        # Neighbours of b, on both sides, are neighbours of a now.
        readers[a] = (readers[a] | after) - {b}
        for n in before:
            readers[n].discard(b)
            readers[n].add(a)
        for n in after:
            producers[n].discard(b)
            producers[n].add(a)
        # Readers of a now depend on the last equation of b as well: raise `latest` along all paths.
        self.latest[a] = max(self.latest[a], self.latest.pop(b))
        waiting = [a]
        while waiting:
            top = waiting.pop()
            late = self.latest[top]
            for n in readers[top]:
                if self.latest[n] < late:
                    self.latest[n] = late
                    waiting.append(n)

    def _inputs(self, step: _OpenStep) -> list[Var]:
        """The values a step reads, looked at through views."""
        if isinstance(step, GroupBuilder):
            return step.sources()
        # Reading through a view is free: only the underlying value in memory counts.
        return [self.index.base(a)[0] for a in step.invars if isinstance(a, Var)]

    def _group_of_one(self, eqn: Eqn) -> GroupBuilder:
        """A group of one equation, every operand a load."""
        # The space of a reduction is that of its operand, otherwise that of the result.
        if eqn.primitive.kind is Kind.REDUCTION:
            shape = eqn.invars[0].aval.shape
        else:
            shape = eqn.outvars[0].aval.shape
        # Dimensions of length 1 get no axis: they are the same along any other.
        axes: list[int] = []
        space: list[int | None] = []
        for n in shape:
            space.append(None if n == 1 else len(axes))
            if n != 1:
                axes.append(n)
        # Operands run along the axes of the space; where one has length 1 it is broadcast.
        operands: list[Operand] = []
        for a in eqn.invars:
            if isinstance(a, Literal):
                operands.append(a)
                continue
            source, views = self.index.base(a)
            s = a.aval.shape
            dims = tuple(space)
            if s != shape:
                dims = tuple(space[i] if s[i] != 1 else None for i in range(len(s)))
            operands.append(Load(source, views, dims, s))
        # A reduction removes its axes from the result.
        reduced: frozenset[int] = frozenset()
        dims = tuple(space)
        if eqn.primitive.kind is Kind.REDUCTION:
            gone = eqn.params["axes"]
            reduced = frozenset(i for d in gone if (i := space[d]) is not None)
            dims = tuple(space[d] for d in range(len(shape)) if d not in gone)
        group = GroupBuilder(axes, reduced)
        group.add(Member(eqn, operands, tuple(space), dims))
        return group

    def _merge_producers(self, number: int) -> None:
        """Merge a step with the groups that compute its inputs, nearest first."""
        # The nearest producer is least likely to have other steps between, which would make a
        # cycle. After each merge the inputs have changed, so start again.
        while True:
            for maker in sorted(self.producers[number], reverse=True):
                producer = self.steps_by_id[maker]
                if not isinstance(producer, GroupBuilder):
                    continue
                if self.apart and _is_total(producer):
                    continue  # until it is known which other inputs its readers wait for
                if self._try_merge(maker, number):
                    number = maker
                    break
            else:
                return  # no producer was merged: the step has taken all it can

    def _merge_tails(self) -> None:
        """Merge steps that only use the reduction of a whole array with it."""
        for number, step in sorted(self.steps_by_id.items()):
            before = self.producers.get(number, set())
            if isinstance(step, GroupBuilder) and not step.axes and len(before) == 1:
                (maker,) = before
                producer = self.steps_by_id[maker]
                if isinstance(producer, GroupBuilder) and _is_total(producer):
                    self._try_merge(maker, number)

    def _merge_siblings(self) -> None:
        """Merge groups that read the same value over one space, then reductions of one shape."""
        readers: dict[Var, list[int]] = {}
        for number, step in sorted(self.steps_by_id.items()):
            if isinstance(step, GroupBuilder):
                for v in step.sources():
                    # Reading a scalar twice costs nothing: it is no reason to merge.
                    if v.aval.size > 1:
                        readers.setdefault(v, []).append(number)
        self._merge_first_fit(readers.values())
        self._merge_first_fit(self._similar_reductions())

    def _similar_reductions(self) -> Iterable[list[int]]:
        """Lists of reductions over the same space that wait for one step at most. One that waited
        for several would keep their results in memory for longer.
        """
        found: dict[tuple, dict[int | None, list[int]]] = {}
        for number, step in sorted(self.steps_by_id.items()):
            if isinstance(step, GroupBuilder) and step.reduced:
                if self.apart and _is_total(step):
                    continue
                before = self.producers[number]
                if len(before) <= 1:
                    similar = found.setdefault((tuple(step.axes), step.reduced), {})
                    similar.setdefault(next(iter(before), None), []).append(number)
        # Reductions of arguments alone may join either list: they go with the first that there is.
        for similar in found.values():
            free = similar.pop(None, [])
            for numbers in similar.values():
                numbers += free
                free = []
            yield from (free, *similar.values())

    def _merge_first_fit(self, similar: Iterable[list[int]]) -> None:
        """Merge steps with the first of their list that takes them."""
        for numbers in similar:
            # One that is refused becomes the first for the rest of its list.
            first = None
            for number in numbers:
                if number not in self.steps_by_id:
                    continue  # merged meanwhile
                if first is None or not self._try_merge(first, number, siblings=True):
                    first = number

    # ---- merging ----
    def _try_merge(self, a: int, b: int, siblings: bool = False) -> bool:
        """Merge step b into step a (its producer or sibling) if that is legal and worth it; return
        whether it was merged.
        """
        one, two = self.steps_by_id[a], self.steps_by_id[b]
        if not isinstance(one, GroupBuilder) or not isinstance(two, GroupBuilder) or a == b:
            return False
        if self._closes_cycle(a, b):
            why_not = "a step between them needs the first and feeds the second"
        elif self.apart and self._stays_apart(a, b, siblings):
            why_not = APART
        else:
            why_not = merge(one, two, siblings)
        if why_not:
            # Siblings exchange no value, so `explain` does not report why they were not merged.
            if not siblings:
                self.refused[(a, b)] = why_not
            return False
        # a now computes b's values.
        del self.steps_by_id[b]
        for v in (*two.made, *two.aside):
            self.step_of[v] = a
        self._note_merge(a, b)
        return True

    def _stays_apart(self, a: int, b: int, siblings: bool) -> bool:
        """Whether step b goes over arrays that step a reduces, or computes scalars from many such
        reductions: then it is better merged horizontally with similar steps.
        """
        one, two = self.steps_by_id[a], self.steps_by_id[b]
        assert isinstance(one, GroupBuilder) and isinstance(two, GroupBuilder)
        if siblings:
            return _is_total(one) != _is_total(two)
        if one.axes or not two.axes:
            return False
        before = [self.steps_by_id[n] for n in self.producers[a]]
        totals = [x for x in before if isinstance(x, GroupBuilder) and _is_total(x)]
        return len(totals) >= TARGET.fewest_alike

    def _closes_cycle(self, a: int, b: int) -> bool:
        """Whether the merged step would depend on itself: a third step is between the two, or the
        second comes before the first.
        """
        producers = self.producers
        return self._is_needed_by(b, producers[a]) or self._is_needed_by(a, producers[b] - {a})

    def _is_needed_by(self, target: int, steps: set[int]) -> bool:
        """Whether any of `steps` is `target`, or needs it."""
        least = self.latest[target]
        waiting, seen = list(steps), set(steps)
        while waiting:
            top = waiting.pop()
            if top == target:
                return True
            if self.latest[top] < least:
                continue  # otherwise its number would be at least that of the target
            for number in self.producers[top]:
                if number not in seen:
                    seen.add(number)
                    waiting.append(number)
        return False

    def refusals(self, built: dict[int, Step]) -> list[Refusal]:
        """Why steps that exchange a value were not merged."""
        return [
            Refusal(built[a], step, self._reason(a, b))
            for b, step in built.items()
            for a in sorted(self.producers[b])
        ]

    def _reason(self, a: int, b: int) -> str:
        """Why step b was not merged into step a, whose results it reads."""
        one, two = self.steps_by_id[a], self.steps_by_id[b]
        # A single equation is no group: it never merges.
        for eqn in (one, two):
            if isinstance(eqn, Eqn):
                prim = eqn.primitive
                return f"{prim.name} is a step of its own ({prim.kind.word})"
        if not self.enabled:
            return "fusion is switched off"
        # A refusal is kept under the numbers that the steps had then; if they have changed since,
        # the reason is found again on a copy.
        assert isinstance(one, GroupBuilder) and isinstance(two, GroupBuilder)
        if self.apart and _is_total(one):
            return APART
        return self.refused.get((a, b)) or merge_reason(one, two)

    # ---- the result ----
    def steps(self) -> tuple[list[Step], dict[int, Step]]:
        """All steps in order, and by number those that are groups or single equations. The others
        are views and generators whose values are needed in memory.
        """
        order: list[Step] = []
        built: dict[int, Step] = {}
        materialized: set[Var] = set()
        # 1. The values needed in memory: results, and what any step reads.
        wanted = {a for a in self.graph.outvars if isinstance(a, Var)}
        for step in self.steps_by_id.values():
            if isinstance(step, GroupBuilder):
                wanted.update(step.sources())
            else:
                wanted.update(a for a in step.invars if isinstance(a, Var))
        # A view that becomes a separate step reads its source in memory.
        for v in list(wanted):
            wanted.add(self.index.base(v)[0])

        def materialize(v: Var) -> None:
            """Append the views (or generator) that compute a value, unless they are there."""
            source, views = self.index.base(v)
            eqn = self.index.made_by.get(source)
            if eqn is not None and source not in self.step_of and source not in materialized:
                if is_view(eqn) or self._is_free_generator(eqn):
                    materialized.add(source)
                    order.append(eqn)
            for view in views:
                out = view.outvars[0]
                if out not in materialized:
                    materialized.add(out)
                    order.append(view)

        # 2. Producers before consumers. Groups write only values needed outside them.
        for number in in_order(self.steps_by_id, self.producers.__getitem__):
            step = self.steps_by_id[number]
            if isinstance(step, Eqn):
                for a in step.invars:
                    if isinstance(a, Var):
                        materialize(a)
                built[number] = step
            else:
                outputs = [v for m in step.members for v in m.eqn.outvars if v in wanted]
                built[number] = step.built(outputs)
            order.append(built[number])
        # 3. Results that are views of a step's results.
        for a in self.graph.outvars:
            if isinstance(a, Var):
                materialize(a)
        return order, built


def _is_total(group: GroupBuilder) -> bool:
    """Whether a group reduces whole arrays."""
    return 0 < len(group.reduced) == len(group.axes)
