"""Loops and branches in routines: a turn of a loop costs what its steps cost.

Floor 3. In: steps that hold Graphs, whose `Flow` says how they are run. Out: the loop of the same
turns around the steps of their plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from gpuarray.compiler.lower.kernel import DeviceStep, Scatter
from gpuarray.compiler.lower.steps import step_inputs, step_outputs
from gpuarray.compiler.native.blocks import independent_elements
from gpuarray.compiler.native.emit import emit
from gpuarray.compiler.native.routine import StepsWriter, contiguous_view
from gpuarray.compiler.text import types as ct
from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Var, storage_dtype
from gpuarray.core.target import PROCESSOR, TARGET


class RoutineWriter(StepsWriter):
    """Writes a function of any steps that have native text."""

    def step(self, depth: int, step: DeviceStep, targets: dict[Var, str]) -> None:
        """Write a step: a loop or a choice around the steps inside it, or what has no Graph."""
        if isinstance(step, Eqn) and step.primitive.flow is not None:
            flow = step.primitive.flow(step)
            if isinstance(flow, Loop):
                return self.loop(depth, step, flow, targets)
            if isinstance(flow, Choice):
                return self.choose(depth, step, flow, targets)
        super().step(depth, step, targets)

    def enter(self, graph: Graph, given: Sequence[str]) -> Any:
        """The plan of a Graph whose operands are at `given`."""
        plan = self.planned(graph)
        made = plan.graph
        self.places.update(zip(made.invars, given))
        for v, c in zip(made.constvars, made.consts, strict=True):
            if v not in self.places:
                self.places[v] = self.constant(c, v.aval)
        return plan

    def loop(self, depth: int, eqn: Eqn, loop: Loop, targets: dict[Var, str]) -> None:
        """Write a loop: all of each turn before the next, unless its elements are independent."""
        given = [self.place(a) for a in eqn.invars]
        count = len(loop.carry)
        # What is the same in every turn is computed before the first.
        fixed = self.invariants(depth, loop, given)
        plans = [
            (self.planned(graph), fixed[graph], range(start, start + count))
            for graph, start in _graphs(loop)
        ]
        # Inside a loop over blocks the block goes through this loop as well: no blocks of blocks.
        length = None if self.length else independent_elements(loop, plans)
        if length is not None:
            # Whether it takes too long is known once it is written; then all that is taken back.
            state = self.lines[:], self.functions[:], self.kernels, self.work
            if self.loop_over_blocks(depth, eqn, loop, targets, given, fixed, length):
                return
            self.lines, self.functions, self.kernels, self.work = state
        first = [given[i] for i in loop.carry]
        avals = loop.body.in_avals[len(loop.consts) : len(loop.consts) + count]
        # Carries whose every turn is an update of the one before: one array serves all turns.
        # Where each element may end at a turn of its own, the value before is needed still.
        start, body = len(loop.consts), self.planned(loop.body).graph
        over = [
            updates_over(fixed[loop.body], body, body.invars[start + k], body.outvars[k])
            if loop.condition is None or not loop.condition.out_avals[0].ndim
            else None
            for k in range(count)
        ]
        # Carries: small ones are copied at the end of a turn, large ones take turns in two places.
        small = [a.size * storage_dtype(a).itemsize <= PROCESSOR.carried_bytes for a in avals]
        results = [self.made(depth, v, targets) for v in eqn.outvars]
        turn, spare, carry, following = self.new("t"), {}, [], {}
        for k, aval in enumerate(avals):
            kind = ct.memory_type(aval)
            # Three ways to go from turn to turn: in place, by a copy, or between two buffers.
            if updates := over[k]:
                name = results[k]
                self.over |= updates
                self.copy(depth, name, first[k], aval.size)
            elif small[k]:
                name = self.new("c")
                self.line(depth, f"GA_LOCAL {kind} {name}[{max(1, aval.size)}];")
                self.copy(depth, name, first[k], aval.size)
            else:
                # `carry` is read in a turn and `following` written; both point to the result or the
                # spare.
                name, spare[k], following[k] = (
                    self.new("c"),
                    self.buffer_for(depth, aval),
                    self.new("n"),
                )
                # The last turn writes into the result where their number is known.
                begin = spare[k] if loop.length is not None and loop.length % 2 == 0 else results[k]
                self.line(depth, f"const {kind}* {name} = {first[k]};")
                self.line(depth, f"{kind}* {following[k]} = {begin};")
            carry.append(name)
        # The loop.
        what = eqn.primitive.name
        if loop.length is None:
            self.line(depth, f"for (;;) {{  // {what}")
        elif loop.reverse:
            self.line(depth, f"for (ga_index {turn} = {loop.length}; {turn}-- > 0;) {{  // {what}")
        else:
            head = f"for (ga_index {turn} = 0; {turn} < {loop.length}; ++{turn}) {{  // {what}"
            self.line(depth, head)
        # The work of a turn is counted apart: the loop takes as many times that.
        self.loops += 1
        self.inside += 1
        before, self.work = self.work, 0.0
        # The line that counts work is written when the work of a turn is known: behind the body.
        place, mark = len(self.lines), self.room.mark()
        self.line(depth + 1, "")
        going = self.condition(depth + 1, loop, given, carry, fixed)
        # The body.
        next_carry = []
        for k, aval in enumerate(avals):
            if over[k] is not None:
                next_carry.append("")
                continue
            next_carry.append(self.buffer_for(depth + 1, aval) if small[k] else following[k])
        # A row of each operand that is gone along, and of each result that is stacked.
        rows = [
            f"({given[i]} + {turn} * {math.prod(eqn.invars[i].aval.shape[1:])})" for i in loop.xs
        ]
        stacks = [
            f"({at} + {turn} * {math.prod(v.aval.shape[1:])})"
            for at, v in zip(results[count:], eqn.outvars[count:], strict=True)
        ]
        plan = self.enter(loop.body, [*(given[i] for i in loop.consts), *carry, *rows])
        steps, outs = fixed[loop.body], plan.graph.outvars
        # A carry that the body hands on as it is needs no line at all.
        same = [
            over[k] is not None or outs[k] is plan.graph.invars[start + k] for k in range(count)
        ]
        wanted = [None if s else n for s, n in zip(same, next_carry, strict=True)]
        self.block(depth + 1, steps, outs, [*wanted, *stacks])
        for k, aval in enumerate(avals):
            if same[k]:
                continue
            # A loop of many (a condition with axes): those that are done keep the value that they
            # have.
            if going is not None:
                flags, many = going
                inner = aval.size // max(1, flags.size)
                args = f"{next_carry[k]}, {carry[k]}, {many[0]}, {inner}, {aval.size}"
                self.line(depth + 1, f"if ({many[1]} == 1) ga_keep({args});")
        for k, aval in enumerate(avals):
            if same[k]:
                continue
            if small[k]:
                self.copy(depth + 1, carry[k], next_carry[k], aval.size)
            else:
                # The next turn reads what this one wrote, and writes into the other of the two
                # buffers.
                n = following[k]
                self.line(depth + 1, f"{carry[k]} = {n};")
                self.line(depth + 1, f"{n} = {n} == {results[k]} ? {spare[k]} : {results[k]};")
        self.line(depth, "}")
        # Memory taken inside is free again behind the loop.
        self.room.reset(mark)
        self.inside -= 1
        work = self.work + TARGET.guessed_steps
        # Turns count their work. From time to time the loop lets other threads of Python run and
        # handles signals, so that Ctrl-C ends a loop that never would.
        self.lines[place] = "    " * (depth + 1) + f"if (call.turn({math.ceil(work)})) return 3;"
        turns = TARGET.guessed_steps if loop.length is None else loop.length
        self.work = before + work * turns
        # The last carries.
        for k, aval in enumerate(avals):
            if over[k] is not None:
                continue
            if small[k]:
                self.copy(depth, results[k], carry[k], aval.size)
            else:
                # A loop without a known number of turns may end on the spare buffer.
                self.line(depth, f"if ({carry[k]} != {results[k]})")
                self.copy(depth + 1, results[k], carry[k], aval.size)
                self.room.free(spare[k])

    def invariants(self, depth: int, loop: Loop, given: list[str]) -> dict[Graph, list]:
        """Write what is the same in every turn; return the other steps of body and condition."""
        fixed: dict[Graph, list[DeviceStep]] = {}
        for graph, numbers in ((loop.body, loop.consts), (loop.condition, loop.condition_consts)):
            if graph is not None:
                plan = self.enter(graph, [given[i] for i in numbers])
                fixed[graph] = self.invariant(depth, plan, len(numbers))
        return fixed

    def loop_over_blocks(
        self,
        depth: int,
        eqn: Eqn,
        loop: Loop,
        targets: dict[Var, str],
        given: list[str],
        fixed: dict[Graph, list],
        length: int,
    ) -> bool:
        """Write a loop of independent elements, all turns of a block before the next. A while loop
        comes back now and then to look for signals. False: the turns would take too long for that.
        """
        count, what = len(loop.carry), eqn.primitive.name
        avals = loop.body.in_avals[len(loop.consts) : len(loop.consts) + count]
        blocks = -(-length // PROCESSOR.block)
        first = [given[i] for i in loop.carry]
        results = [self.made(depth, v, targets) for v in eqn.outvars]
        counted = loop.length is not None
        # Where a block has got to: long carries in the results, short ones and flags in the room.
        kept: dict[int, str] = {}
        done, begun = self.new("done"), self.new("begun")
        if not counted:
            size = self.room.take(done, blocks)
            # A while loop may end in some blocks and go on in others: a flag each, and what they
            # have reached.
            self.line(depth, f"bool* const {done} = (bool*)(room + {size});")
            for k, aval in enumerate(avals):
                if aval.size != length:
                    kind, item = ct.memory_type(aval), storage_dtype(aval).itemsize
                    kept[k] = self.new("kept")
                    at = self.room.take(kept[k], blocks * aval.size * item)
                    self.line(depth, f"{kind}* const {kept[k]} = ({kind}*)(room + {at});")
            self.line(depth, f"for (bool {begun} = false;; {begun} = true) {{")
            depth += 1
        # The head is written last: it needs the work of a block, which the body decides.
        place = len(self.lines)
        self.line(depth, "")
        self.length, self.inside = length, self.inside + 1
        self.loops += 1
        before, self.work = self.work, 0.0
        inner = depth + 1
        if not counted:
            self.line(inner, f"const ga_index block = first / {PROCESSOR.block};")
            self.line(inner, f"if ({begun} && {done}[block]) return;")
            # `over`: all elements of the block are done, and not only its share of turns until
            # signals are looked for.
            self.line(inner, "long long left = 0;")
            self.line(inner, "bool over = false;")
        carry = []
        for k, aval in enumerate(avals):
            name, kind = self.buffer_for(inner, aval), ct.memory_type(aval)
            carry.append(name)
            start = first[k]
            if not counted:
                at = f"{kept[k]} + block * {aval.size}" if k in kept else results[k]
                # A block that is begun goes on from where it got to.
                start = f"{begun} ? (const {kind}*)({at}) : (const {kind}*){start}"
            self.copy(inner, name, start, aval.size)
        turn = self.new("t")
        if not counted:
            self.line(inner, f"for (;;) {{  // {what}")
        elif loop.reverse:
            self.line(inner, f"for (ga_index {turn} = {loop.length}; {turn}-- > 0;) {{  // {what}")
        else:
            head = f"for (ga_index {turn} = 0; {turn} < {loop.length}; ++{turn}) {{  // {what}"
            self.line(inner, head)
        look = len(self.lines)
        going = None
        if not counted:
            self.line(inner + 1, "")
            # True only while the condition is tested: it stays so if that ends the loop.
            self.line(inner + 1, "over = true;")
            going = self.condition(inner + 1, loop, given, carry, fixed)
            self.line(inner + 1, "over = false;")
        following = [self.buffer_for(inner + 1, aval) for aval in avals]
        rows = [
            f"({given[i]} + {turn} * {math.prod(eqn.invars[i].aval.shape[1:])})" for i in loop.xs
        ]
        # A row of the stacked results has as many elements as the loop.
        stacks = [f"({at} + {turn} * {length})" for at in results[count:]]
        plan = self.enter(loop.body, [*(given[i] for i in loop.consts), *carry, *rows])
        self.block(inner + 1, fixed[loop.body], plan.graph.outvars, [*following, *stacks])
        for k, aval in enumerate(avals):
            if going is not None:
                # Elements that do not go on keep their values.
                flags = going[1][0]
                args = f"{carry[k]} + first, {following[k]} + first, {flags} + first"
                self.line(inner + 1, f"ga_take({args}, last - first);")
            else:
                self.copy(inner + 1, carry[k], following[k], aval.size)
        self.line(inner, "}")
        for k, aval in enumerate(avals):
            if aval.size == length:
                self.copy(inner, results[k], carry[k], aval.size)
            else:
                if not counted:
                    self.copy(inner, f"({kept[k]} + block * {aval.size})", carry[k], aval.size)
                # The same for all blocks, so that the first one writes it.
                self.line(inner, "if (first == 0)")
                self.copy(inner + 1, results[k], carry[k], aval.size)
        if not counted:
            self.line(inner, f"{done}[block] = over;")
        self.line(depth, "});")
        self.length, self.inside = 0, self.inside - 1
        # How much of it there is decides how blocks are shared out.
        work = max(1.0, self.work)
        turns = TARGET.guessed_steps if loop.length is None else loop.length
        of_block = max(1, math.ceil(work * turns / blocks))
        if counted and of_block > PROCESSOR.patience:
            return False
        grain = max(1, 4 * PROCESSOR.task // of_block)
        # So many blocks that the loop looks for signals in time.
        some = max(grain, 4 * PROCESSOR.patience // of_block) if counted else blocks
        span = f"0, {blocks}"
        if some < blocks:
            span = f"begin, ga_least(begin + {some}, {blocks})"
            outer = f"for (ga_index begin = 0; begin < {blocks}; begin += {some}) {{"
            self.lines[place : place + 1] = ["    " * depth + outer, ""]
            self.line(depth, f"if (call.turn({4 * PROCESSOR.patience})) return 3;")
            self.line(depth, "}")
            place += 1
        of_what = f"{span}, {length}, {PROCESSOR.block}, {grain}"
        head = f"ga_blocks({of_what}, [&](ga_index first, ga_index last) {{"
        self.lines[place] = "    " * depth + head
        if not counted:
            each = math.ceil(work / blocks)
            # The line left empty above: leave the block after its share, and come back to it.
            self.lines[look] = (
                "    " * (inner + 1) + f"if ((left += {each}) > {PROCESSOR.patience}) break;"
            )
            # All blocks are done.
            self.line(depth, f"if (ga_how_many({done}, {blocks}) == 2) break;")
            self.line(depth, f"if (call.turn({PROCESSOR.patience})) return 3;")
            depth -= 1
            self.line(depth, "}")
            for name in (done, *kept.values()):
                self.room.free(name)
        # Work counts once for each turn; how many turns a while loop makes is a guess.
        self.work = before + work * turns
        return True

    def invariant(self, depth: int, plan: Any, consts: int) -> list[DeviceStep]:
        """Write the steps of a body that need nothing but its constants; return the others."""
        known = {*plan.graph.invars[:consts], *plan.graph.constvars}
        now: list[DeviceStep] = []
        left: list[DeviceStep] = []
        for step in plan.steps:
            # What has no operands is a constant, which costs less to make than to keep.
            if all(v in known for v in step_inputs(step)) and step_inputs(step):
                # What is made of such values alone is the same in every turn too.
                known.update(step_outputs(step))
                now.append(step)
            else:
                left.append(step)
        results = [v for s in now for v in step_outputs(s)]
        self.block(depth, now, results, [None] * len(results))
        return left

    def condition(
        self, depth: int, loop: Loop, given: list[str], carry: list[str], fixed: dict
    ) -> tuple[ShapedArray, tuple[str, str]] | None:
        """Leave the loop where its condition says so. A condition with axes is one for each element
        along them: return its aval, where it is, and for how many it is true (0, 1: some, 2).
        """
        if loop.condition is None:
            return None
        plan = self.enter(loop.condition, [*(given[i] for i in loop.condition_consts), *carry])
        (at,) = self.block(depth, fixed[loop.condition], plan.graph.outvars, [None])
        aval = loop.condition.out_avals[0]
        if not aval.ndim:
            self.line(depth, f"if (!*{at}) break;")
            return None
        many = self.new("m")
        flags = f"{at} + first, last - first" if self.length else f"{at}, {aval.size}"
        self.line(depth, f"const int {many} = ga_how_many({flags});")
        self.line(depth, f"if ({many} == 0) break;")
        return aval, (at, many)

    def choose(self, depth: int, eqn: Eqn, choice: Choice, targets: dict[Var, str]) -> None:
        """Write a choice between branches; all of them write their results into the same places."""
        which, *given = map(self.place, eqn.invars)
        results = [self.made(depth, v, targets) for v in eqn.outvars]
        last = len(choice.branches) - 1
        before, most = self.work, 0.0
        for number, branch in enumerate(choice.branches):
            # The index is clamped: below 0 is the first branch, beyond the end the last.
            test = (
                f"if (*{which} {'<=' if number == 0 else '=='} {number}) " if number < last else ""
            )
            comment = f"  // {eqn.primitive.name}" if number == 0 else ""
            self.line(depth, f"{'} else ' if number else ''}{test}{{{comment}")
            # Only one branch runs: they share memory, and the longest counts.
            mark, self.work = self.room.mark(), 0.0
            plan = self.enter(branch, given)
            self.block(depth + 1, plan.steps, plan.graph.outvars, results)
            self.room.reset(mark)
            most = max(most, self.work)
        self.line(depth, "}")
        self.work = before + most


def updates_over(
    steps: Sequence[DeviceStep], body: Graph, before: Var, after: Atom
) -> set[Var] | None:
    """The updates that make a carry from the one before, if each may be written into its operand:
    nothing else reads that afterwards.
    """
    made = {v: n for n, s in enumerate(steps) for v in step_outputs(s)}
    found: set[Var] = set()
    v = after
    while v is not before:
        if not isinstance(v, Var) or v not in made:
            return None
        number = made[v]
        step = steps[number]
        if not isinstance(step, Scatter):
            return None
        operand = step.aliases[v]
        # Views would be other names of it.
        readers = [n for n, s in enumerate(steps) if operand in step_inputs(s)]
        views = any(contiguous_view(steps[n]) is not None for n in readers)
        if views or max(readers) > number or operand in emit(step).inputs:
            return None
        if operand in body.outvars:
            return None
        found.add(v)
        v = operand
    return found or None


def _graphs(loop: Loop) -> Iterator[tuple[Graph, int]]:
    """Body and condition, each with the number of its first carry."""
    yield loop.body, len(loop.consts)
    if loop.condition is not None:
        yield loop.condition, len(loop.condition_consts)
