"""Sums that depend on another fold in the same pass: the softmax's with the largest element, sums
of squares with the mean.

Floor 3. In: a joined Pass (lower/online.py). Out: `OnlineTemplate`, the part of the templates of
rows and columns that writes it. A thread takes a few elements at a time: it folds them, corrects
its sums for the new reference value, and adds the terms of these elements. Threads and blocks merge
the folds first, and then the sums, each corrected for the common reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuarray.compiler.cuda.template import Cell
from gpuarray.compiler.cuda.turns import TurnLoops, Turns
from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.passes import Follower, Pass, once_each
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import unrounded
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class Reference(Struct):
    """The reference of a thread's sums so far, and the number of elements in it.

    Attributes
    ----------
    name, many :
        Variables; `many` is empty where the number does not matter.
    """

    of: Follower
    name: str
    many: str
    type: str


class OnlineTemplate(TurnLoops):
    """Loops in which some sums follow other folds."""

    referred = 0  # references so far: a kernel may have several such passes

    def turns_at_most(self, one: Pass, width: int, ahead: int, many: float) -> int:
        """Vectors that a thread takes at a time: `ahead`, or fewer if registers are short; if
        possible a divisor of the number that it has in all, so that no turn needs tests.
        """
        if one.halves:
            first, second = once_each(self.group, list(one.halves), self.is_dear, False)
            loads, carried = self.reread_loads([first, second], width), first.carried
        else:
            loads, carried = self.loads_to_read(one.members, width), []
        held = (*(x.source for x in loads.values()), *carried)
        size = width * sum(storage_dtype(v.aval).itemsize for v in held)
        most = max(1, TARGET.row_bytes // max(1, size))
        ahead = min(ahead, most)
        return next((k for k in range(ahead, min(most, 2 * ahead) + 1) if not many % k), ahead)

    def is_dear(self, member: Member) -> bool:
        """Whether a value is kept from the first half of an iteration to the second."""
        made = any(isinstance(o, Load) and self.is_inlined(o) for o in member.operands)
        return made or member.eqn.primitive.weight > 1

    # ---- the loops ----
    def online_pass(
        self, one: Pass, turns: Sequence[Turns], comment: str
    ) -> tuple[dict[Var, str], list[Reference]]:
        """Write the loops of a joined pass; returns the names of partial results and references."""
        states = self.declare_partials(one)
        references = self._references(one)
        for each in turns:
            with self.counting(each):
                self._one_online(one, each, states, references, comment)
        return states, references

    def _one_online(
        self,
        one: Pass,
        turns: Turns,
        states: dict[Var, str],
        references: list[Reference],
        comment: str,
    ) -> None:
        # The halves without repeated work: expensive values are carried from the first to the
        # second.
        first, second = once_each(self.group, list(one.halves), self.is_dear, False)
        self.open_turns(turns, comment)
        # Values of these elements that both halves need stay in registers.
        slots = {v: k for k, v in enumerate(first.carried)}
        place = "[u]"
        self.declare_carried(slots, turns.width, turns.count, place, depth=2)
        loads = self.reread_loads([first, second], turns.width)
        if loads:
            self.read_turn(turns, loads)
        for r in references:
            # Sums refer to the mean of the elements before: how many these were is needed to
            # correct them.
            if r.many:
                self.line(2, f"const {r.type} {r.many}_before = {r.many};")
        # Fold these elements.
        self.open_turn(turns, "fold")
        folded = {v: states[v] for v in first.partial}
        self.elements(3, first.members, [], folded, turns.width)
        for r in references:
            if r.many:
                self.line(3, f"{r.many} = {r.many} + {turns.width};")
        self.line(2, "}")
        # The reference from now on.
        fetched: Fetched = {}
        for r in references:
            self._correct_for_new(r, one, states, fetched)
        # Add their terms.
        self.open_turn(turns, "add what follows")
        added = {v: states[v] for v in second.partial}
        self.elements(3, second.members, [], added, turns.width)
        self.line(2, "}")
        self.line(1, "}")
        # Registers of an iteration end with it.
        for load in loads.values():
            del self.registers[load.key, load.dims]
        for v in slots:
            del self.carried[v]
            self.names.pop(v, None)

    def _references(self, one: Pass) -> list[Reference]:
        """Declare the references of a pass, each once."""
        found: dict[Var, Follower] = {}
        for f in one.followers:
            # One reference may serve exponentials and squares; the latter count elements.
            if f.reference not in found or f.by is None:
                found[f.reference] = f
        made = []
        for k, f in enumerate(found.values(), self.referred):
            kind = ct.value_type(f.reference.aval)
            r = Reference(f, f"base{k}", f"many{k}" if f.by is None else "", kind)
            self.line(1, f"{kind} {r.name} = 0;", "what sums refer to so far")
            if r.many:
                self.line(1, f"{kind} {r.many} = 0;", "in so many elements")
            made.append(r)
        self.referred += len(made)
        return made

    def _of(self, one: Pass, r: Reference) -> list[Follower]:
        return [f for f in one.followers if f.reference is r.of.reference]

    def _now(self, r: Reference, states: dict[Var, str], depth: int, fetched: Fetched) -> str:
        """The reference that a fold gives so far, as text."""
        leader = states[r.of.leader]
        finished = self.reducer(r.of.leader).finish(leader)
        if r.many:
            return f"{finished} / {r.many}"
        outside = dict(self.names)
        # Computed as for a whole row, with the fold so far in place of the result.
        self.names[r.of.leader] = finished
        for m in r.of.chain:
            self.member(m, depth, fetched)
        v = self.names[r.of.reference]
        self.names = outside
        # No reference can be infinite: with any other one exponentials of -inf are 0.
        return f"{v} - {v} == 0 ? {v} : 0"

    def _correct_for_new(
        self, r: Reference, one: Pass, states: dict[Var, str], fetched: Fetched
    ) -> None:
        """Correct the sums of a thread for the reference that its last elements give."""
        now = f"{r.name}_now"
        self.line(2, f"const {r.type} {now} = {self._now(r, states, 2, fetched)};")
        for f in self._of(one, r):
            before = f"{r.many}_before" if r.many else ""
            name = states[f.total]
            self.line(2, f"{name} = {self._corrected(f, name, r.name, now, before)};")
        self.line(2, f"{r.name} = {now};")
        self.names[r.of.reference] = r.name

    def _corrected(self, f: Follower, total: str, was: str, now: str, many: str) -> str:
        """A sum that refers to `now`, from one that refers to `was`."""
        if f.by is None:
            # The second formula at the head of lower/online.py.
            return f"{total} + {many} * ({was} - {now}) * ({was} - {now})"
        # An empty sum is 0, whatever its reference.
        return f"{total} == 0 ? {total} : {total} * {unrounded(f.by, [f'{was} - {now}'])}"

    # ---- merging ----
    def merge_online(
        self, one: Pass, states: dict[Var, str], references: list[Reference], s: Schedule
    ) -> None:
        """Merge the results of the threads of a row, and finish all results of a joined pass."""
        first, second = one.halves
        # 1. The references of all sums, such as the maximum.
        for v in first.partial:
            self.merge_fold(v, states[v], s)
            self.finish_reduction(v, states[v])
        for m in first.after:
            self.member(m, 1, self.read_outside)
        # 2. Each sum as if its thread had known that from the start; then they can be merged.
        for r in references:
            now = self.names[r.of.reference]
            for f in self._of(one, r):
                name = states[f.total]
                self.line(1, f"{name} = {self._corrected(f, name, r.name, now, r.many)};")
                self.merge_fold(f.total, name, s)
        self._finish(one, states)
        for m in second.after:
            self.member(m, 1, self.read_outside)

    def merge_online_blocks(
        self,
        one: Pass,
        states: dict[Var, str],
        references: list[Reference],
        s: Schedule,
        slots: tuple[str, str, str],
        rows: int,
        many: int,
        which: str,
        steps: tuple[str, int],
    ) -> int:
        """The same if several blocks share a row: they leave their results, each with its
        reference; the last one merges all. Returns the workspace bytes.
        """
        first, second = one.halves
        # 1. Within the block.
        for v in first.partial:
            self.merge_fold(v, states[v], s)
        for r in references:
            # The count of this thread's own elements corrects its own sums; the block's is passed
            # on.
            own = r.many
            if r.many:
                own = f"{r.many}_own"
                self.line(1, f"const {r.type} {own} = {r.many};")
                merger = f"[]({r.type} p, {r.type} q) -> {r.type} {{ return p + q; }}"
                self.merge_threads(r.many, r.type, self.merger(merger), s)
            now = f"{r.name}_now"
            self.line(1, f"const {r.type} {now} = {self._now(r, states, 1, self.read_outside)};")
            for f in self._of(one, r):
                name = states[f.total]
                self.line(1, f"{name} = {self._corrected(f, name, r.name, now, own)};")
                self.merge_fold(f.total, name, s)
            self.line(1, f"{r.name} = {now};")
        # 2. From block to block.
        cells = {
            v: Cell(n, self.reducer(v).state, self.reducer(v).bytes) for v, n in states.items()
        }
        sizes = {r.name: storage_dtype(r.of.reference.aval).itemsize for r in references}
        sides = [
            Cell(x, r.type, max(4, sizes[r.name]))
            for r in references
            for x in (r.name, r.many)
            if x
        ]
        every = [*cells.values(), *sides]
        work = self.leave_partials(every, s, slots, rows, many, which)
        left = {c.name: self.left_by(c, k, slots[2]) for k, c in enumerate(every)}
        # 3. The folds of all blocks, and values that depend on them.
        for v in first.partial:
            name, reducer = states[v], self.reducer(v)
            self.line(1, f"{name} = {reducer.identity};")
            self.open_blocks(s, steps)
            self.line(2, f"{name} = {reducer.merge(name, left[name])};")
            self.line(1, "}")
            self.merge_fold(v, name, s)
            self.finish_reduction(v, name)
        for m in first.after:
            self.member(m, 1, self.read_outside)
        # 4. The sums.
        for r in references:
            now = self.names[r.of.reference]
            for f in self._of(one, r):
                name, reducer = states[f.total], self.reducer(f.total)
                self.line(1, f"{name} = {reducer.identity};")
                self.open_blocks(s, steps)
                self.line(2, f"const {reducer.state} theirs = {left[name]};")
                self.line(2, f"const {r.type} was = {left[r.name]};")
                if r.many:
                    self.line(2, f"const {r.type} many = {left[r.many]};")
                fixed = self._corrected(f, "theirs", "was", now, "many")
                self.line(2, f"{name} = {reducer.merge(name, f'({fixed})')};")
                self.line(1, "}")
                self.merge_fold(f.total, name, s)
        self._finish(one, states)
        for m in second.after:
            self.member(m, 1, self.read_outside)
        return work

    def _finish(self, one: Pass, states: dict[Var, str]) -> None:
        """Name the results of the sums."""
        for f in one.followers:
            name = states[f.total]
            if f.by is not None:
                now = self.names[f.reference]
                # Compared with an infinite reference some element was no number.
                self.line(1, f"{name} = {name} + ({now} - {now});")
            self.finish_reduction(f.total, name)

    def merge_fold(self, v: Var, name: str, s: Schedule) -> None:
        """Merge the partial results of the threads that share a row or column."""
        reducer = self.reducer(v)
        self.merge_threads(name, reducer.state, self.merger(reducer.merger), s)
