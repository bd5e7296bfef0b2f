"""Pointwise kernels: a loop for each axis, the innermost along neighbours in memory.

Floor 3. In: a Map kernel. Out: its NativeSource.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import Load, Member, members_in_order
from gpuarray.compiler.lower.kernel import Map
from gpuarray.compiler.lower.steps import step_eqns
from gpuarray.compiler.native.nests import Bounds
from gpuarray.compiler.native.schedule import cut_axes, end_of_piece, takes_long
from gpuarray.compiler.native.writer import NativeSource, NativeWriter
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.element import Below, Element, Guarded, Lookup, parts, places_of
from gpuarray.core.graph import storage_dtype
from gpuarray.core.index import Axis, Index
from gpuarray.core.target import PROCESSOR


class MapWriter(NativeWriter):
    """Tasks are positions along the outer axes, or runs of the only one."""

    def __init__(self, kernel: Map, user_lines: bool = False, together: int | None = None):
        super().__init__(kernel, user_lines)
        self.map = kernel
        # The axis whose positions are computed together comes last.
        self.together = together
        self.tested: set[int] = set()  # axes that decide which of two branches computes a value
        # Where elements take long, conditions in memory must not keep their loop from vectors.
        self.flags_before = together is None and takes_long(self.group)
        # An axis of length 1 needs no loop.
        order = [i for i in kernel.order if i != together and self.axes[i] != 1]
        self.order = order if together is None else [*order, together]
        self.axis_name = {i: f"i{k}" for k, i in enumerate(self.order)}
        self.inner = self.order[-1] if self.order and together is None else None

    def source(self) -> NativeSource:
        """All members over the whole space, in one nest of loops."""
        # Written first: then it is known whether values are chosen along an axis.
        found = self.nested()
        if self.together is None and (axis := self.chosen_along()) is not None:
            return MapWriter(self.map, self.user_lines, axis).source()
        return found

    def chosen_along(self) -> int | None:
        """A short axis along which values are chosen by position, as by `stack`: computed for one
        position after another, all that they have in common would be computed again and again.
        """
        short = [i for i in self.order if 1 < self.axes[i] <= PROCESSOR.together]
        return next((i for i in short if i in self.tested), None)

    def guarded(self, access: Guarded, depth: int, scope: Fetched) -> str:
        branches = self.facts.branches
        text = super().guarded(access, depth, scope)
        # Statements, and not only expressions, are under the condition.
        if self.facts.branches > branches and len(access.tests) == 1:
            (test,) = access.tests
            match test:
                case Below(Index(((Axis(number=number), 1),), 0)):
                    self.tested.add(number)
        return text

    def nested(self) -> NativeSource:
        """The loops, each axis in one."""
        order = self.order if self.together is None else self.order[:-1]
        last = [] if self.together is None else [self.together]
        each = math.prod(self.axes[i] for i in last)
        lengths = [self.axes[i] for i in order]
        members = list(members_in_order(self.group))
        if len(order) < 2:
            # One axis: a task is an element, so that any run of them is a piece of work.
            tasks, size = math.prod(lengths), each
            if not order:
                self.line(1, "if (first == last) return;")
            ends = dict.fromkeys(order, ("first", "last"))
            self.nest(1, set(), [*order, *last], members, self.outputs, {}, ends)
        else:
            # Tasks: positions along the outer axes; the inner ones are loops in a task.
            outer, cut = cut_axes(lengths)
            prefix, inner = order[:outer], order[outer:]
            tasks, size = math.prod(lengths[:outer]), each * math.prod(lengths[outer:])
            ends: dict[int, Bounds] = {}
            # A task along a single axis is a position along it.
            along = prefix[0] if outer == 1 and not cut else None
            with self.apart() as task:
                if cut:
                    # The axis inside is cut: a task is a piece of it.
                    pieces = -(-lengths[outer] // cut)
                    tasks, size = tasks * pieces, each * cut * math.prod(lengths[outer + 1 :])
                    self.line(2, f"const ga_index begin = task % {pieces} * {cut};")
                    ends = {inner[0]: ("begin", end_of_piece("begin", cut, lengths[outer]))}
                    row = self.axis_name[prefix[0]] if outer == 1 else "row"
                    self.line(2, f"const ga_index {row} = task / {pieces};")
                    self.define_axes(2, row, prefix)
                elif along is None:
                    self.define_axes(2, "task", prefix)
                self.nest(2, set(prefix), [*inner, *last], members, self.outputs, {}, ends)
            if along is None:
                with self.over(1, "task", "first", "last"):
                    self.lines += task
            else:
                self.loop(1, along, ("first", "last"), task)
        self.end_function(self.kernel.name, self.parameters(), tasks, self.grain(size))
        note = " x ".join(str(self.axes[i]) for i in self.order)
        note = f"{note} elements" if note else "1 element"
        if last:
            note += f", {each} computed together"
        return self.finish(f"{note}, tasks of {size * self.grain(size)}" if tasks > 1 else note)

    def fetch_ahead(self, depth: int, axis: int, end: str, members: list[Member]) -> None:
        """Prefetch the elements of large arrays that later iterations look up: a CPU waits for few
        cache lines at a time that it did not predict. Such a loop is not vectorised, so it must be
        short.
        """
        few = len(step_eqns(self.group)) <= PROCESSOR.fetched_steps
        if axis == self.together or self.axes[axis] < 2 * PROCESSOR.ahead or not few:
            return
        loads = [o for m in members for o in m.operands if isinstance(o, Load)]
        wanted = [
            part
            for load in loads
            if self.is_inlined(load)
            for part in parts(self.accesses.of(load))
            if isinstance(part, Element) and self.is_far(part, axis)
        ]
        if not wanted or takes_long(self.group):
            return
        # Near the end use the last element instead of those after it.
        last = end or self.number(self.axes[axis])
        place = f"ga_least({self.axis_name[axis]} + {PROCESSOR.ahead}, {last} - 1)"
        self.line(depth, f"const ga_index ahead = {place};")
        # The same positions, but those of a later iteration.
        before = self.axis_name, self.position
        self.axis_name, self.position = self.axis_name | {axis: "ahead"}, ""
        scope: dict = {}
        for part in dict.fromkeys(wanted):
            self.look_up(part.index, depth, scope)
            self.line(
                depth, f"ga_fetch({self.in_name[part.source]} + {self.at(part.index, scope)});"
            )
        self.axis_name, self.position = before

    def is_far(self, part: Element, axis: int) -> bool:
        """Whether an element is anywhere in a large array, at places read along an axis."""
        moved = [(a, k) for a, k in part.index.terms if isinstance(a, Lookup) and axis in a.axes]
        size = storage_dtype(part.source.aval).itemsize
        if sum(abs(k) * a.most for a, k in moved) * size < PROCESSOR.far_bytes:
            return False
        # A place that is looked up at a place would be waited for.
        return not any(self.lookups(index) for a, _ in moved for index in places_of(a.access))

    def open_axis(
        self, depth: int, axis: int, begin: str = "0", end: str = "", comment: str = ""
    ) -> None:
        if axis != self.together:
            super().open_axis(depth, axis, begin, end, comment)
            return
        step = f"[&](ga_index {self.axis_name[axis]}) GA_STEP {{"
        # A lambda called with each position as a constant: values common to the positions are
        # computed once.
        self.line(depth, f"ga_each<{self.axes[axis]}>({step}", comment)

    def close_axis(self, depth: int, axis: int) -> None:
        self.line(depth, "});" if axis == self.together else "}")
