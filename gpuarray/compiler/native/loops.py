"""Loops and branches in routines: an iteration of a loop costs only its steps.

Floor 3. In: steps that hold Graphs, whose `Flow` describes how they run. Out: C++ loops around the
steps of their plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gpuarray.compiler.lower.kernel import DeviceStep, Scatter
from gpuarray.compiler.lower.steps import contiguous_view, step_inputs, step_outputs
from gpuarray.compiler.native.blocks import independent_elements
from gpuarray.compiler.native.carries import MemoryCarry, way_of
from gpuarray.compiler.native.emit import emit
from gpuarray.compiler.native.routine import StepsWriter
from gpuarray.compiler.text import types as ct
from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Var, storage_dtype
from gpuarray.core.target import PROCESSOR, TARGET
from gpuarray.util import Struct


class Going(NamedTuple):
    """The elements of a mapped loop that continue: the array of a flag for each, their number, and
    the name that tells for how many it is true (0: none, 1: some, 2: all).
    """

    flags: str
    count: int
    state: str


class BlockProgress(NamedTuple):
    """The progress of the blocks of a while loop: the array of a flag for each that is done, the
    name that tells whether they have begun, and by number the arrays of their short carries.
    """

    done: str
    begun: str
    kept: dict[int, str]


class Turns(Struct, eq=False):
    """A loop to be written.

    Attributes
    ----------
    given :
        Where the operands of the equation are.
    steps :
        Of the body and of the condition, the steps in each iteration: others are before the loop.
    """

    eqn: Eqn
    loop: Loop
    given: list[str]
    steps: dict[Graph, list[DeviceStep]]

    @property
    def carries(self) -> list[ShapedArray]:
        """The avals of the carries."""
        start = len(self.loop.consts)
        return list(self.loop.body.in_avals[start : start + len(self.loop.carry)])

    @property
    def first(self) -> list[str]:
        """Where the carries begin."""
        return [self.given[i] for i in self.loop.carry]

    @property
    def count(self) -> float:
        """The number of iterations; for a while loop a guess."""
        return TARGET.guessed_steps if self.loop.length is None else self.loop.length

    def head(self, turn: str) -> str:
        """The line that opens the loop, in which `turn` is the number of the iteration."""
        n, name = self.loop.length, self.eqn.primitive.name
        if n is None:
            return f"for (;;) {{  // {name}"
        if self.loop.reverse:
            return f"for (ga_index {turn} = {n}; {turn}-- > 0;) {{  // {name}"
        return f"for (ga_index {turn} = 0; {turn} < {n}; ++{turn}) {{  // {name}"

    def operands(self, carries: Sequence[str], turn: str) -> list[str]:
        """The operands of the body in an iteration: constants, carries, a row of each scanned
        array.
        """
        consts = [self.given[i] for i in self.loop.consts]
        rows = [_row(self.given[i], turn, self.eqn.invars[i].aval) for i in self.loop.xs]
        return [*consts, *carries, *rows]

    def stacks(self, results: Sequence[str], turn: str) -> list[str]:
        """The stacked results of the body in an iteration: a row of each."""
        count = len(self.loop.carry)
        stacked = zip(results[count:], self.eqn.outvars[count:], strict=True)
        return [_row(at, turn, v.aval) for at, v in stacked]


class RoutineWriter(StepsWriter):
    """Writes a function of any steps that have native text."""

    def step(self, step: DeviceStep, targets: dict[Var, str]) -> None:
        """Write a step: a loop or a choice around its inner steps, or a step without Graphs."""
        if isinstance(step, Eqn) and step.primitive.flow is not None:
            flow = step.primitive.flow(step)
            if isinstance(flow, Loop):
                return self.loop(step, flow, targets)
            if isinstance(flow, Choice):
                return self.choose(step, flow, targets)
        super().step(step, targets)

    def enter(self, graph: Graph, given: Sequence[str]) -> Any:
        """The plan of a Graph whose operands are at `given`."""
        plan = self.planned(graph)
        made = plan.graph
        self.places.update(zip(made.invars, given))
        for v, c in zip(made.constvars, made.consts, strict=True):
            if v not in self.places:
                self.places[v] = self.constant(c, v.aval)
        return plan

    # ---- loops ----
    def loop(self, eqn: Eqn, loop: Loop, targets: dict[Var, str]) -> None:
        """Write a loop: each iteration before the next, unless its elements are independent."""
        given = [self.place(a) for a in eqn.invars]
        # Loop invariants are computed before the first iteration.
        turns = Turns(eqn, loop, given, self.invariants(loop, given))
        plans = [
            (self.planned(graph), turns.steps[graph], range(start, start + len(loop.carry)))
            for graph, start in _graphs(loop)
        ]
        # Inside a loop over blocks the block goes through this loop as well: blocks are not nested.
        length = None if self.length else independent_elements(loop, plans)
        if length is not None:
            # Whether a block would take too long, or need memory that others have as well, is
            # known once it is written.
            before, room = (self.functions[:], self.kernels, self.work), self.room.mark()
            self.shared = False
            with self.apart() as text:
                in_time = self.loop_over_blocks(turns, targets, length)
            if in_time and not self.shared:
                self.put(text)
                return
            self.functions, self.kernels, self.work = before
            self.room.reset(room)
        self.loop_of_turns(turns, targets)

    def invariants(self, loop: Loop, given: list[str]) -> dict[Graph, list[DeviceStep]]:
        """Write the loop invariants; return the other steps of body and condition."""
        steps: dict[Graph, list[DeviceStep]] = {}
        for graph, numbers in ((loop.body, loop.consts), (loop.condition, loop.condition_consts)):
            if graph is not None:
                plan = self.enter(graph, [given[i] for i in numbers])
                steps[graph] = self.invariant(plan, len(numbers))
        return steps

    def invariant(self, plan: Any, consts: int) -> list[DeviceStep]:
        """Write the steps of a body that need only its constants; return the others."""
        known = {*plan.graph.invars[:consts], *plan.graph.constvars}
        now: list[DeviceStep] = []
        left: list[DeviceStep] = []
        for step in plan.steps:
            # A step without operands is a constant, which is cheaper to compute than to keep.
            if all(v in known for v in step_inputs(step)) and step_inputs(step):
                # Values that depend only on invariants are invariant too.
                known.update(step_outputs(step))
                now.append(step)
            else:
                left.append(step)
        results = [v for s in now for v in step_outputs(s)]
        self.write(now, results, [None] * len(results))
        return left

    def condition(self, turns: Turns, carries: list[str]) -> Going | None:
        """Leave the loop when its condition is false. A condition with axes is one for each element
        along them.
        """
        loop = turns.loop
        if loop.condition is None:
            return None
        consts = [turns.given[i] for i in loop.condition_consts]
        plan = self.enter(loop.condition, [*consts, *carries])
        (at,) = self.write(turns.steps[loop.condition], plan.graph.outvars, [None])
        aval = loop.condition.out_avals[0]
        if not aval.ndim:
            self.line(f"if (!*{at}) break;")
            return None
        # Under vmap each element has a condition: the loop ends when none continues, and elements
        # that are done keep their carries.
        many = self.new("m")
        flags = f"{at} + first, last - first" if self.length else f"{at}, {aval.size}"
        self.line(f"const int {many} = ga_how_many({flags});")
        self.line(f"if ({many} == 0) break;")
        return Going(at, aval.size, many)

    # ---- iteration by iteration ----
    def loop_of_turns(self, turns: Turns, targets: dict[Var, str]) -> None:
        """Write a loop that completes each iteration before the next."""
        eqn, loop = turns.eqn, turns.loop
        over = self.updated(turns)
        results = [self.made(v, targets) for v in eqn.outvars]
        turn = self.new("t")
        carries: list[MemoryCarry] = []
        for aval, updates, result in zip(turns.carries, over, results, strict=False):
            self.over |= updates or set()
            carries.append(way_of(aval, updates is not None)(self, aval, result))
            carries[-1].begin(turns.first[len(carries) - 1], loop)
        # The body is written before the head of the loop, which needs to know how much work it is.
        self.loops += 1
        self.inside += 1
        before, self.work, mark = self.work, 0.0, self.room.mark()
        with self.apart() as text:
            at = [c.at for c in carries]
            going = self.condition(turns, at)
            following = [c.following() for c in carries]
            plan = self.enter(loop.body, turns.operands(at, turn))
            # A carry that the body returns unchanged needs no line at all.
            here, outs = plan.graph.invars[len(loop.consts) :], plan.graph.outvars
            moved = [
                (c, new)
                for c, new, a, v in zip(carries, following, here, outs, strict=False)
                if v is not a and new is not None
            ]
            written = {new for _, new in moved}
            wanted = [new if new in written else None for new in following]
            self.write(turns.steps[loop.body], outs, [*wanted, *turns.stacks(results, turn)])
            if going is not None:
                # A loop of many: those that are done keep the value that they have.
                for c, new in moved:
                    args = f"{new}, {c.at}, {going.flags}, {c.aval.size // max(1, going.count)}"
                    self.line(f"if ({going.state} == 1) ga_keep({args}, {c.aval.size});")
            for c, new in moved:
                c.advance(new)
        # Memory taken inside is free again after the loop.
        self.room.reset(mark)
        self.inside -= 1
        work = self.work + TARGET.guessed_steps
        self.work = before + work * turns.count
        with self.block(turns.head(turn)):
            # Iterations count their work. From time to time the loop lets other Python threads run
            # and handles signals, so that Ctrl-C ends an endless loop.
            self.line(f"if (call.turn({math.ceil(work)})) return 3;")
            self.put(text)
        for c in carries:
            c.end()

    def updated(self, turns: Turns) -> list[set[Var] | None]:
        """For each carry, the updates that compute it from the previous one, if one array can be
        used by all iterations.
        """
        loop = turns.loop
        body, start = self.planned(loop.body).graph, len(loop.consts)
        # If each element may end at another iteration, the previous value is still needed.
        if loop.condition is not None and loop.condition.out_avals[0].ndim:
            return [None] * len(loop.carry)
        steps = turns.steps[loop.body]
        return [
            updates_over(steps, body, body.invars[start + k], body.outvars[k])
            for k in range(len(loop.carry))
        ]

    # ---- block by block ----
    def loop_over_blocks(self, turns: Turns, targets: dict[Var, str], length: int) -> bool:
        """Write a loop of independent elements, all iterations of a block before the next. A while
        loop returns now and then to check for signals. False: the iterations would take too long
        for that.
        """
        blocks = -(-length // PROCESSOR.block)
        results = [self.made(v, targets) for v in turns.eqn.outvars]
        progress = self.progress(turns, length) if turns.loop.length is None else None
        self.length, self.inside = length, self.inside + 1
        self.loops += 1
        before, self.work = self.work, 0.0
        with self.apart() as block:
            work = self.turns_of_block(turns, results, progress)
        self.length, self.inside = 0, self.inside - 1
        # Work counts once for each iteration; the share of a block in it decides how blocks are
        # distributed.
        self.work = before + work * turns.count
        of_block = max(1, math.ceil(work * turns.count / blocks))
        grain = max(1, 4 * PROCESSOR.task // of_block)
        if progress is None:
            # Process as many blocks at a time as still let the loop check for signals in time.
            some = max(grain, 4 * PROCESSOR.patience // of_block)
            self.over_blocks(length, some, grain, block)
            return of_block <= PROCESSOR.patience
        with self.block(f"for (bool {progress.begun} = false;; {progress.begun} = true) {{"):
            self.over_blocks(length, blocks, grain, block)
            # All blocks are done.
            self.line(f"if (ga_how_many({progress.done}, {blocks}) == 2) break;")
            self.line(f"if (call.turn({PROCESSOR.patience})) return 3;")
        for name in (progress.done, *progress.kept.values()):
            self.room.free(name)
        return True

    def progress(self, turns: Turns, length: int) -> BlockProgress:
        """The progress of the blocks of a while loop: some may end and others continue. Long
        carries are in the results, short ones and flags in the room.
        """
        blocks = -(-length // PROCESSOR.block)
        found = BlockProgress(self.new("done"), self.new("begun"), {})
        self.in_room("bool", found.done, blocks)
        for k, aval in enumerate(turns.carries):
            if aval.size != length:
                name = found.kept[k] = self.new("kept")
                nbytes = blocks * aval.size * storage_dtype(aval).itemsize
                self.in_room(ct.memory_type(aval), name, nbytes)
        return found

    def turns_of_block(
        self, turns: Turns, results: list[str], progress: BlockProgress | None
    ) -> float:
        """Write all work for a block; return the work of an iteration for all blocks."""
        if progress:
            self.line(f"const ga_index block = first / {PROCESSOR.block};")
            self.line(f"if ({progress.begun} && {progress.done}[block]) return;")
            # `over`: all elements of the block are done, and not only its share of iterations until
            # signals are checked.
            self.line("long long left = 0;")
            self.line("bool over = false;")
        carries: list[str] = []
        for k, (aval, start) in enumerate(zip(turns.carries, turns.first, strict=True)):
            carries.append(self.buffer_for(aval))
            if progress:
                kept, kind = progress.kept.get(k), ct.memory_type(aval)
                at = results[k] if kept is None else f"{kept} + block * {aval.size}"
                # A block that has begun continues from its saved state.
                start = f"{progress.begun} ? (const {kind}*)({at}) : (const {kind}*){start}"
            self.copy(carries[k], start, aval.size)
        turn = self.new("t")
        with self.apart() as text:
            self.turn_of_block(turns, carries, results, turn)
        work = max(1.0, self.work)
        with self.block(turns.head(turn)):
            if progress:
                # Leave the block after its share of iterations, and come back to it.
                each = math.ceil(work / -(-self.length // PROCESSOR.block))
                self.line(f"if ((left += {each}) > {PROCESSOR.patience}) break;")
            self.put(text)
        for k, aval in enumerate(turns.carries):
            if aval.size == self.length:
                self.copy(results[k], carries[k], aval.size)
                continue
            if progress:
                self.copy(f"({progress.kept[k]} + block * {aval.size})", carries[k], aval.size)
            # The same for all blocks, so that the first one writes it.
            with self.block("if (first == 0)", ""):
                self.copy(results[k], carries[k], aval.size)
        if progress:
            self.line(f"{progress.done}[block] = over;")
        return work

    def turn_of_block(
        self, turns: Turns, carries: list[str], results: list[str], turn: str
    ) -> None:
        """Write the iterations for the elements of a block."""
        loop, going = turns.loop, None
        if loop.condition is not None:
            # True only while the condition is tested: it stays so if that ends the loop.
            self.line("over = true;")
            going = self.condition(turns, carries)
            self.line("over = false;")
        following = [self.buffer_for(aval) for aval in turns.carries]
        plan = self.enter(loop.body, turns.operands(carries, turn))
        wanted = [*following, *turns.stacks(results, turn)]
        self.write(turns.steps[loop.body], plan.graph.outvars, wanted)
        for aval, at, new in zip(turns.carries, carries, following, strict=True):
            if going is None:
                self.copy(at, new, aval.size)
            else:
                # Elements that are done keep their values.
                args = f"{at} + first, {new} + first, {going.flags} + first"
                self.line(f"ga_take({args}, last - first);")

    def over_blocks(self, length: int, some: int, grain: int, block: list[str]) -> None:
        """Write the call that shares out blocks, `some` of them before signals are looked for."""
        blocks = -(-length // PROCESSOR.block)

        def share(span: str) -> None:
            what = f"{span}, {length}, {PROCESSOR.block}, {grain}"
            with self.block(f"ga_blocks({what}, [&](ga_index first, ga_index last) {{", "});"):
                self.put(block)

        if some >= blocks:
            share(f"0, {blocks}")
            return
        with self.block(f"for (ga_index begin = 0; begin < {blocks}; begin += {some}) {{"):
            share(f"begin, ga_least(begin + {some}, {blocks})")
            self.line(f"if (call.turn({4 * PROCESSOR.patience})) return 3;")

    # ---- choices ----
    def choose(self, eqn: Eqn, choice: Choice, targets: dict[Var, str]) -> None:
        """Write a choice between branches; all of them write their results into the same places."""
        which, *given = map(self.place, eqn.invars)
        results = [self.made(v, targets) for v in eqn.outvars]
        last = len(choice.branches) - 1
        before, most = self.work, 0.0
        for number, branch in enumerate(choice.branches):
            # The index is clamped: below 0 is the first branch, beyond the end the last.
            sign = "==" if number else "<="
            test = f"if (*{which} {sign} {number}) " if number < last else ""
            head = f"}} else {test}{{" if number else f"{test}{{  // {eqn.primitive.name}"
            # Only one branch runs: they share memory, and the longest counts.
            mark, self.work = self.room.mark(), 0.0
            with self.block(head, "}" if number == last else ""):
                plan = self.enter(branch, given)
                self.write(plan.steps, plan.graph.outvars, results)
            self.room.reset(mark)
            most = max(most, self.work)
        self.work = before + most


def updates_over(
    steps: Sequence[DeviceStep], body: Graph, before: Var, after: Atom
) -> set[Var] | None:
    """The updates that compute a carry from the previous one, if each may be written into its
    operand, which must not be read afterwards.
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


def _row(array: str, turn: str, aval: ShapedArray) -> str:
    """The row of an array that an iteration reads or writes."""
    return f"({array} + {turn} * {math.prod(aval.shape[1:])})"
