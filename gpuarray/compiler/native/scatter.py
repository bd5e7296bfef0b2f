"""Updates of a part of an array: one after another, in their order.

Floor 3. In: a Scatter kernel. Out: its NativeSource. Its output begins as the operand; where that
is not needed any more, a routine writes into its memory.
"""

from __future__ import annotations

import math
from contextlib import ExitStack

from gpuarray.compiler.lower.kernel import Scatter
from gpuarray.compiler.lower.steps import step_eqns
from gpuarray.compiler.native.accesses import always_looked_up, searches
from gpuarray.compiler.native.facts import Front
from gpuarray.compiler.native.schedule import end_of_piece
from gpuarray.compiler.native.writer import Function, NativeSource, NativeWriter, Phase
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.folds import merged
from gpuarray.core.element import Lookup, atoms, sources
from gpuarray.core.element_rules import UpdateRule
from gpuarray.core.fold import Identity
from gpuarray.core.graph import Literal, Var, storage_dtype
from gpuarray.core.index import Index, axes_of, linear
from gpuarray.core.target import PROCESSOR


class ScatterWriter(NativeWriter):
    """Updates that may collide are one task, so that the last of them wins and sums have their
    order; or parts of them are merged separately, if that gives the same result.
    """

    repeatable = False  # it may add to existing values

    def __init__(self, kernel: Scatter, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        group = kernel.group
        eqn = self.eqn = group.members[0].eqn
        self.order = list(range(len(group.axes)))
        self.axis_name = {i: f"i{i}" for i in self.order}
        at = [Index.axis(i, n) for i, n in enumerate(group.axes)]

        # An operand's value at a position for the rules, with producers inlined.
        def get(i: int, places):
            a = eqn.invars[i]
            assert not isinstance(a, Literal)
            return self.reach.element(a, places)

        self.rule: UpdateRule = eqn.primitive.update
        number = self.rule.operand
        # The target of the update, the tests that it is in bounds, and its value.
        self.places, self.tests_of = self.rule.target(eqn, at, get)
        a = eqn.invars[number]
        self.new = None if isinstance(a, Literal) else get(number, at)
        # Only arrays that these texts read are arguments; the output is initialised with the
        # operand.
        read: list[Var] = [] if self.new is None else sources(self.new)
        for index in (*(t.index for t in self.tests_of), *self.places):
            read += [v for x in self.lookups(index) for v in sources(x.access)]
        self.inputs = list(dict.fromkeys(read))
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        if self.new is not None:
            self.count_uses(self.new)
        for atom in {a.name: a for p in self.places for a in self.lookups(p)}.values():
            self.count_uses(atom.access)
        self.begins = kernel.aliases[self.outputs[0]]

    def source(self) -> NativeSource:
        """A loop along each axis of the updates around the store of one."""
        (out,) = self.outputs
        name, total = self.kernel.name, math.prod(self.axes)
        note = f"{total} updates in their order; the output begins as the operand"
        columns, (parts, identity) = self.columns(), self.parts()
        # Parts read whole rows, one after another, which takes half as long as pieces of them.
        if identity is not None:
            return self.in_parts(out, parts, identity)
        # One task for all updates; like every function it does nothing for an empty range.
        if columns < 2 and self.takes_turns():
            self.line(1, "if (first == last) return;")
            self.in_blocks(1, out)
            self.end_function(name, self.parameters(), 1, 1)
        elif columns < 2:
            self.line(1, "if (first == last) return;")
            self.updates(1, out, {})
            self.end_function(name, self.parameters(), 1, 1)
        else:
            # Each task has its own columns, with their updates in order. Where all have as many,
            # compilers know how long the innermost loop is.
            last = self.axes[-1]
            cut = -(-last // columns)
            begin = f"task * {cut}"
            with self.over(1, "task", "first", "last"):
                self.updates(2, out, {self.order[-1]: (begin, end_of_piece(begin, cut, last))})
            self.end_function(name, self.parameters(), -(-last // cut), 1)
            note = f"{note}; tasks of {cut} columns"
        return self.finish(note).replace(begins=self.begins)

    def updates(
        self, depth: int, out: Var, ends: dict[int, tuple[str, str]], opened: tuple[int, ...] = ()
    ) -> None:
        """The loops over updates, except those that are open; `ends` are the bounds of those that
        are cut. Targets are tested and looked up in the outermost loop where they are known: a row
        of updates is then a loop of plain sums.
        """
        place = linear(self.places, out.aval.shape)
        tests = [t for t in dict.fromkeys(self.tests_of) if t.always is None]
        atoms_of = [a for a in atoms(place) if isinstance(a, Lookup)]
        # So are those that the new value is looked up at: tests of these are then no part of the
        # loop.
        atoms_of += always_looked_up(self.new) if self.new is not None else []
        looked = [(atom, Index(((atom, 1),))) for atom in dict.fromkeys(atoms_of)]
        known, order = set(opened), [axis for axis in self.order if axis not in opened]
        scope: dict = {}
        with ExitStack() as loops:
            for k, axis in enumerate([None, *order]):
                if axis is not None:
                    bounds = ends.get(axis, ("0", ""))
                    loops.enter_context(self.over_axis(depth + k - 1, axis, *bounds))
                    known.add(axis)
                    scope = dict(scope)  # names end with the loop that they are defined in
                now = tuple(t for t in tests if axes_of(t.index) <= known)
                tests = [t for t in tests if t not in now]
                if now:
                    # An update out of bounds is dropped, and with it everything inside this loop.
                    skip = "continue" if known else "return"
                    self.leave(depth + k, self.fails(now, depth + k, scope), skip)
                for index in [index for atom, index in looked if atom.axes <= known]:
                    self.look_up(index, depth + k, scope)
                looked = [(atom, index) for atom, index in looked if not atom.axes <= known]
            inner = depth + len(order)
            new = self.constant() if self.new is None else self.value(self.new, inner, scope, True)
            self.store(inner, out, self.at(place, scope), new)

    def takes_turns(self) -> bool:
        """Whether a block of places and of values is computed first, in vectors, and then put where
        it belongs, one by one.
        """
        many = len(self.order) == 1 and self.axes[0] >= 2 * PROCESSOR.block
        # Searches are made side by side then.
        found = any(searches(a.access) for p in self.places for a in self.lookups(p))
        return many and (found or len(step_eqns(self.group)) > PROCESSOR.placed_steps)

    def in_blocks(self, depth: int, out: Var) -> None:
        """The loop over single updates, in blocks."""
        (axis,) = self.order
        n, block = self.axes[axis], PROCESSOR.block
        kind = ct.value_type(out.aval)
        self.line(depth, f"for (ga_index block = 0; block < {n}; block += {block}) {{")
        self.line(depth + 1, f"const ga_index over = {end_of_piece('block', block, n)};")
        self.line(depth + 1, f"GA_LOCAL long long places[{block}];")
        if self.new is not None:
            self.line(depth + 1, f"GA_LOCAL {kind} values[{block}];")
        self.place_block(depth + 1, out, ("block", "over"), "block")
        # Two loops: the first computes places and values as vectors, the second, which may hit an
        # element twice, stores one after the other.
        with self.over(depth + 1, "k", "0", "over - block"):
            self.leave(depth + 2, "places[k] < 0")
            self.store(depth + 2, out, "places[k]", self.value_at("k"))
        self.line(depth, "}")

    def place_block(self, depth: int, out: Var, bounds: tuple[str, str], first: str) -> None:
        """The loop that computes places and values of a block of updates, from `first` on."""
        (axis,) = self.order
        i, inner = self.axis_name[axis], depth + 1
        tests = tuple(t for t in dict.fromkeys(self.tests_of) if t.always is None)
        place = linear(self.places, out.aval.shape)
        scope: dict = {}
        self.inner, self.front = axis, Front(self.lines, depth)
        with self.apart() as turn:
            # Without choices, which would be branches: an invalid target is below all others.
            fails = self.fails(tests, inner, scope, " | ")
            for atom in (a for a in atoms(place) if isinstance(a, Lookup)):
                self.look_up(Index(((atom, 1),)), inner, scope)
            at = self.at(place, scope)
            gone = f" | -(long long)({fails})" if fails else ""
            self.line(inner, f"places[{i} - {first}] = (long long)({at}){gone};")
            if self.new is not None:
                new = self.value(self.new, inner, scope, True)
                self.line(inner, f"values[{i} - {first}] = {new};")
        self.front = None
        self.loop(depth, axis, bounds, turn)
        self.inner = None

    def value_at(self, k: str) -> str:
        """The value of an update of a block."""
        return self.constant() if self.new is None else f"values[{k}]"

    def columns(self) -> int:
        """The number of pieces into which the last axis may be cut: updates collide only where it
        is equal.
        """
        if not self.order or math.prod(self.axes) < 2 * PROCESSOR.piece:
            return 1
        last = self.order[-1]
        along = [p for p in self.places if last in axes_of(p)]
        own = Index.axis(last, self.axes[last])
        # Updates of one column may collide, those of different ones cannot: the axis itself is one
        # coordinate of the target.
        if len(along) != 1 or along[0].terms != own.terms or self.axes[last] < 2:
            return 1
        width = self.axes[last] * storage_dtype(self.outputs[0].aval).itemsize
        # Rows of few bytes are cut once.
        least = min(2, width // PROCESSOR.least_updated_bytes)
        return min(PROCESSOR.many_tasks, max(least, width // PROCESSOR.updated_bytes))

    def parts(self) -> tuple[int, Identity | None]:
        """The number of separately merged parts of the updates, and the initial value of each."""
        aval, total = self.outputs[0].aval, math.prod(self.axes)
        # As many tasks for rows of updates as for single ones.
        parts = self.turns * PROCESSOR.update_tasks
        # Each part has all places of the result, so that updates have to be many more than these.
        while parts > self.turns and parts * aval.size * PROCESSOR.update_share > total:
            parts //= 2
        enough = self.order and self.axes[0] >= 2 * parts and total >= 2 * PROCESSOR.piece
        many = parts > self.turns
        identity = self.rule.apart(aval) if enough and many else None
        return parts, identity

    @property
    def turns(self) -> int:
        """Parts of a task: sums of a row do not wait for one another, those for one place do."""
        return 1 if len(self.order) > 1 else PROCESSOR.update_turns

    def in_parts(self, out: Var, parts: int, identity: Identity) -> NativeSource:
        """A function that merges a part of the updates, and one that merges the parts, in order. A
        task has several parts, whose updates alternate: those for one target, which are consecutive
        if targets are sorted, would wait for one another.
        """
        name, size, kind = self.kernel.name, out.aval.size, ct.memory_type(out.aval)
        # Part k has the updates from k * cut on; a task makes one update of each of its parts in
        # turn.
        cut, turns = -(-self.axes[0] // parts), self.turns
        self.room["part0"] = (kind, parts * size)
        begin = ct.constant(identity.of(out.aval.dtype), out.aval)
        begin = f"ga_exact<{kind}>({begin})" if ct.is_half(out.aval) else begin
        with self.over(1, "task", "first", "last"):
            self.line(2, f"{kind}* const all = part0 + task * {turns * size};")
            self.for_each(2, "i", "0", str(turns * size), f"all[i] = {begin};")
            if self.takes_turns():
                self.blocks_of_parts(2, out, cut, turns)
            else:
                self.turns_of_parts(2, out, cut, turns)
        given = [*self.parameters(outputs=False), (f"{kind}*", "part0")]
        self.end_function(f"{name}_pieces", given, parts // turns, 1)
        # Merge the parts into the initialised output.
        with self.over(1, "part", "0", str(parts)), self.over(2, "i", "first", "last"):
            self.store(3, out, "i", self.read_from(f"part0[part * {size} + i]", out.aval))
        given = [(f"const {kind}*", "part0"), (f"{kind}*", self.out_name[out])]
        self.end_function(f"{name}_merge", given, size, PROCESSOR.task)
        note = f"{math.prod(self.axes)} updates in {parts} parts, merged in order"
        return self.finish(note).replace(begins=self.begins)

    def turns_of_parts(self, depth: int, out: Var, cut: int, turns: int) -> None:
        """An update of each part of a task in turn."""
        i, size, kind = self.axis_name[0], out.aval.size, ct.memory_type(out.aval)
        with self.over(depth, "turn", "0", str(cut)):
            # Not `over`, which may keep a short loop: this one should be written out.
            self.line(depth + 1, f"for (ga_index k = 0; k < {turns}; ++k) {{")
            self.line(depth + 2, f"{kind}* const mine = all + k * {size};")
            self.name_position(depth + 2, i, f"(task * {turns} + k) * {cut} + turn")
            # The last part may be shorter.
            if cut * self.parts()[0] > self.axes[0]:
                self.leave(depth + 2, f"{i} >= {self.axes[0]}")
            # The loops are those of any scatter, but into the memory of the part.
            whole, self.out_name = self.out_name, self.out_name | {out: "mine"}
            self.updates(depth + 2, out, {}, opened=(0,))
            self.out_name = whole
            self.line(depth + 1, "}")

    def blocks_of_parts(self, depth: int, out: Var, cut: int, turns: int) -> None:
        """The same, of blocks of places and values of each part, which are computed first."""
        n, block, size = self.axes[0], PROCESSOR.block, out.aval.size
        kind = ct.memory_type(out.aval)
        inner = depth + 1
        self.line(depth, f"for (ga_index turn = 0; turn < {cut}; turn += {block}) {{")
        self.line(inner, f"const ga_index many = ga_least({block}, {cut} - turn);")
        self.line(inner, f"GA_LOCAL long long all_places[{turns * block}];")
        if self.new is not None:
            self.line(inner, f"GA_LOCAL {ct.value_type(out.aval)} all_values[{turns * block}];")
        with self.over(inner, "k", "0", str(turns)):
            self.line(inner + 1, f"long long* const places = all_places + k * {block};")
            if self.new is not None:
                values = f"{ct.value_type(out.aval)}* const values = all_values + k * {block};"
                self.line(inner + 1, values)
            begin = f"(task * {turns} + k) * {cut} + turn"
            # Nothing is left of the last part where it is shorter.
            begin, end = (f"ga_least({x}, {n})" for x in (begin, f"{begin} + many"))
            self.line(inner + 1, f"const ga_index begin = {begin}, over = {end};")
            self.place_block(inner + 1, out, ("begin", "over"), "begin")
            self.for_each(inner + 1, "j", "over - begin", "many", "places[j] = -1;")
        whole, self.out_name = self.out_name, self.out_name | {out: "mine"}
        with self.over(inner, "j", "0", "many"):
            self.line(inner + 1, f"for (ga_index k = 0; k < {turns}; ++k) {{")
            self.line(inner + 2, f"{kind}* const mine = all + k * {size};")
            self.line(inner + 2, f"const long long place = all_places[k * {block} + j];")
            self.leave(inner + 2, "place < 0")
            new = self.constant() if self.new is None else f"all_values[k * {block} + j]"
            self.store(inner + 2, out, "place", new)
            self.line(inner + 1, "}")
        self.out_name = whole
        self.line(depth, "}")

    def constant(self) -> str:
        a = self.eqn.invars[self.rule.operand]
        assert isinstance(a, Literal)
        return ct.constant(a.val, a.aval)

    def store(self, depth: int, out: Var, at: str, new: str) -> None:
        """Put one update where it belongs."""
        self.facts.arrays.add(out)
        place = f"{self.out_name[out]}[{at}]"
        by, kind = self.rule.merge(self.eqn), ct.value_type(out.aval)
        if by is not None:
            self.line(depth, f"const {kind} old = {self.read_from(place, out.aval)};")
            self.line(depth, f"const {kind} update = {new};")
            lines, (new,) = merged(by, ["old"], ["update"])
            for line in lines:
                self.line(depth, line)
        # Sums are computed as float, and rounded when they are stored.
        if ct.is_half(out.aval):
            new = f"ga_exact<{ct.memory_type(out.aval)}>({new})"
        self.line(depth, f"{place} = {new};")


def begun(source: NativeSource) -> NativeSource:
    """The kernel as a separate call, which first initialises its output by a copy."""
    # Other kernels write every element of their output.
    operand = source.begins
    if operand is None:
        return source
    inputs = source.inputs if operand in source.inputs else [*source.inputs, operand]
    (out,) = source.outputs
    # A separate phase: all of it is complete before the first update, whichever thread writes that.
    kind, name = ct.memory_type(out.aval), f"{source.name}_copy"
    given = ((f"const {kind}*", "from"), (f"{kind}*", "to"))
    lines = (
        "    if (to == from) return;  // it is the operand's memory",
        "    for (ga_index i = first; i < last; ++i) to[i] = from[i];",
    )
    copy = Phase(name, out.aval.size, PROCESSOR.task, (f"in{inputs.index(operand)}", "out0"))
    return source.replace(
        body=(*source.body, Function(name, given, lines)),
        phases=(copy, *source.phases),
        inputs=inputs,
        begins=None,
    )
