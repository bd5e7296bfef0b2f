"""Steps of a plan as one C++ function: kernels, small products, and loops and branches around them.

Floor 3. In: consecutive steps. Out: a `Routine`. Values between its steps are local arrays, or
pieces of one block of memory that the caller brings; a turn of a loop costs what its steps cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from gpuarray.compiler.lower.kernel import DeviceStep, Kernel, NoKernel, Scatter
from gpuarray.compiler.lower.steps import step_inputs, step_outputs
from gpuarray.compiler.native.blocks import independent_elements
from gpuarray.compiler.native.emit import emit
from gpuarray.compiler.native.products import product_call
from gpuarray.compiler.native.room import Room
from gpuarray.compiler.text import types as ct
from gpuarray.core.avals import ShapedArray
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind
from gpuarray.core.target import PROCESSOR, TARGET
from gpuarray.util import Struct


class Routine(Struct, eq=False):
    """A C++ function that runs several steps of a plan.

    inputs, outputs: the arrays that are its arguments, in this order
    constants: arrays that are arguments behind the inputs
    room: bytes for values between steps, the last argument if there are any
    kernels: how many there are in it; work: operations on elements, roughly
    loops: whether it has any, so that it lets other threads of Python's run by itself
    """

    form: ClassVar[str] = "routine"

    name: str
    text: str
    inputs: list[Var]
    outputs: list[Var]
    constants: list[Any]
    room: int
    kernels: int
    work: float
    loops: bool


class RoutineWriter:
    """Writes one function; `planned` gives the plan of a Graph that a step holds."""

    def __init__(self, name: str, planned: Callable[[Graph], Any]):
        self.name, self.planned = name, planned
        self.functions: list[str] = []  # those of the kernels
        self.head: list[str] = []  # literals in memory
        self.lines: list[str] = []
        self.places: dict[Var, str] = {}  # values, as pointers to their first elements
        self.inputs: list[Var] = []
        self.constants: list[Any] = []
        self.constant_types: list[str] = []
        self.room = Room()
        self.count = self.kernels = self.inside = self.loops = 0
        self.over: set[Var] = set()  # updates that are written into their operand
        self.length = 0  # elements of a loop that goes over blocks of them
        self.work = 0.0

    def routine(self, steps: Sequence[DeviceStep], outputs: list[Var]) -> Routine:
        """The function of some steps, which writes `outputs`."""
        self.block(1, steps, outputs, [f"out{i}" for i in range(len(outputs))])
        given = [
            *((f"const {ct.memory_type(v.aval)}*", f"in{i}") for i, v in enumerate(self.inputs)),
            *((f"const {kind}*", f"const{i}") for i, kind in enumerate(self.constant_types)),
            *((f"{ct.memory_type(v.aval)}*", f"out{i}") for i, v in enumerate(outputs)),
            *([("char*", "room")] if self.room.bytes else []),
        ]
        arrays = ", ".join(f"ga_array* {name}" for _, name in given)
        plain = ", ".join(name for _, name in given)
        data = ", ".join(f"({kind}){name}->data" for kind, name in given)
        text = [
            *self.functions,
            f"static int {self.name}_steps(",
            "    " + ",\n    ".join(["ga_call& call", *(f"{k} {name}" for k, name in given)]) + ") {",
            *self.head,
            *self.lines,
            "    return 0;",
            "}",
            f"GA_CALLED int call_{self.name}({arrays}) {{",
            f"    if (!ga_plain({plain})) return 1;",
            "    ga_call call;",
            f"    return {self.name}_steps(call, {data});",
            "}",
        ]
        return Routine(
            self.name,
            "\n".join(text) + "\n",
            self.inputs,
            outputs,
            self.constants,
            self.room.bytes,
            self.kernels,
            self.work,
            bool(self.loops),
        )

    # ---- lines and values ----
    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def place(self, a: Atom) -> str:
        """A value as a pointer; one that no step has made is an input."""
        if isinstance(a, Literal):
            name, kind = self.new("lit"), ct.memory_type(a.aval)
            value = ct.constant(a.val, a.aval)
            value = f"ga_exact<{kind}>({value})" if ct.is_half(a.aval) else value
            self.head.append(f"    const {kind} {name}[1] = {{{value}}};")
            return name
        if a not in self.places:
            self.places[a] = f"in{len(self.inputs)}"
            self.inputs.append(a)
        return self.places[a]

    def constant(self, value: Any, aval: ShapedArray) -> str:
        self.constants.append(value)
        self.constant_types.append(ct.memory_type(aval))
        return f"const{len(self.constants) - 1}"

    def buffer(self, depth: int, kind: str, elements: int, size: int) -> str:
        """Memory for a value in the scope of these lines: a local array, or a piece of the room."""
        name = self.new("b")
        if self.length and elements == self.length:
            # Positions are those in the whole: only the block's own are there.
            self.line(depth, f"{kind} of_{name}[{PROCESSOR.block}];")
            self.line(depth, f"{kind}* const {name} = of_{name} - first;")
        elif elements * size <= PROCESSOR.local_bytes:
            self.line(depth, f"{kind} {name}[{max(1, elements)}];")
        else:
            at = self.room.take(name, elements * size)
            self.line(depth, f"{kind}* const {name} = ({kind}*)(room + {at});")
        return name

    def buffer_for(self, depth: int, aval: ShapedArray) -> str:
        return self.buffer(
            depth, ct.memory_type(aval), aval.size, storage_dtype(aval).itemsize
        )

    def copy(self, depth: int, to: str, what: str, elements: int) -> None:
        if self.length and elements == self.length:
            self.line(depth, f"ga_copy_block({to}, {what}, first, last);")
        else:
            self.line(depth, f"ga_copy<{elements}>({to}, {what});")

    # ---- steps ----
    def block(
        self,
        depth: int,
        steps: Sequence[DeviceStep],
        results: Sequence[Atom],
        wanted: Sequence[str | None],
    ) -> list[str]:
        """Write steps; return where the results are: where they are wanted, or anywhere."""
        behind: dict[Var, Var] = {}  # a view: whose memory it is
        beginning: dict[Var, bool] = {}  # whether it is that memory from its beginning to its end

        def base(v: Var) -> tuple[Var, bool]:
            whole = True
            while v in behind:
                whole = whole and beginning[v]
                v = behind[v]
            return v, whole

        last: dict[Var, int] = {}
        made: set[Var] = set()
        for number, step in enumerate(steps):
            pair = _view(step)
            if pair is not None:
                v, a, offset = pair
                if isinstance(a, Var):
                    behind[v] = a
                    beginning[v] = offset == 0 and v.aval.size == a.aval.size
            else:
                made.update(step_outputs(step))
                last.update((base(v)[0], number) for v in (*step_outputs(step), *step_inputs(step)))
        # What is a result is written where it is wanted.
        targets: dict[Var, str] = {}
        for a, where in zip(results, wanted, strict=True):
            if isinstance(a, Var):
                v, whole = base(a)
                last[v] = len(steps)
                if where is not None and whole and v in made:
                    targets.setdefault(v, where)
        for number, step in enumerate(steps):
            pair = _view(step)
            if pair is not None:
                v, a, offset = pair
                at = self.place(a)
                self.places[v] = f"({at} + {offset})" if offset else at
                continue
            self.step(depth, step, targets)
            for v in (*step_outputs(step), *step_inputs(step)):
                v = base(v)[0]
                if v in made and last[v] == number and v not in targets:
                    self.room.free(self.places[v])
        # Other results are copied there.
        found: list[str] = []
        for a, where in zip(results, wanted, strict=True):
            at = self.place(a)
            if where is not None and at != where:
                self.copy(depth, where, at, a.aval.size)
                at = where
            found.append(at)
        return found

    def step(self, depth: int, step: DeviceStep, targets: dict[Var, str]) -> None:
        if isinstance(step, Kernel):
            self.kernel(depth, step, targets)
            return
        if not isinstance(step, Eqn):
            raise NoKernel(f"{step.name} has no kernel")
        flow = None if step.primitive.flow is None else step.primitive.flow(step)
        if isinstance(flow, Loop):
            self.loop(depth, step, flow, targets)
        elif isinstance(flow, Choice):
            self.choose(depth, step, flow, targets)
        elif step.primitive.rewrite.product is not None:
            # In a loop, calls of a library would be calls of Python's.
            p = product_call(step, PROCESSOR.looped_product if self.inside else PROCESSOR.product)
            (v,) = step.outvars
            left, right = map(self.place, step.invars)
            self.call(depth, p.function, p.tasks, p.grain, [left, right, self.made(depth, v, targets)])
            self.work += p.work
            self.kernels += 1
        else:
            raise NoKernel(f"{step.primitive.name} is a routine of a library")

    def made(self, depth: int, v: Var, targets: dict[Var, str]) -> str:
        """Memory for a value that a step is about to make."""
        self.places[v] = targets.get(v) or self.buffer_for(depth, v.aval)
        return self.places[v]

    def kernel(self, depth: int, kernel: Kernel, targets: dict[Var, str]) -> None:
        name = f"{self.name}_k{self.kernels}_{kernel.form}"
        source = emit(kernel.replace(name=name))
        self.kernels += 1
        if self.kernels > PROCESSOR.routine:
            raise NoKernel("it has too many kernels")
        at: dict[str, str] = {}
        for i, v in enumerate(source.inputs):
            at[f"in{i}"] = self.place(v)
        for i, v in enumerate(source.outputs):
            if v in self.over:
                at[f"out{i}"] = self.places[v] = self.place(kernel.aliases[v])
            else:
                at[f"out{i}"] = self.made(depth, v, targets)
            if source.begins is not None and self.place(source.begins) != at["out0"]:
                self.copy(depth, at["out0"], self.place(source.begins), v.aval.size)
        for part, (kind, elements) in source.room.items():
            at[part] = self.buffer(depth, kind, elements, 16)
        # A few operations in a loop: a call would take longer than they do.
        small = self.inside and source.work <= PROCESSOR.inlined
        functions = source.functions
        self.functions.append(functions.replace("GA_TASKS ", "GA_FEW ") if small else functions)
        for p in source.phases:
            self.call(depth, p.function, p.tasks, p.grain, [at[a] for a in p.arguments])
        for part in source.room:
            self.room.free(at[part])
        self.work += source.work

    def call(
        self, depth: int, function: str, tasks: int, grain: int, arguments: Sequence[str]
    ) -> None:
        """Call a function for its tasks."""
        given = ", ".join(arguments)
        if self.length and tasks == self.length:
            self.line(depth, f"{function}(first, last, {given});")
        elif tasks <= grain:
            self.line(depth, f"{function}(0, {tasks}, {given});")
        else:
            self.line(depth, f"ga_tasks({tasks}, {grain}, {function}, {given});")

    # ---- loops and branches ----
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
        given = [self.place(a) for a in eqn.invars]
        count = len(loop.carry)
        # What is the same in every turn is computed before the first.
        fixed = self.invariants(depth, loop, given)
        plans = [
            (self.planned(graph), fixed[graph], range(start, start + count))
            for graph, start in _graphs(loop)
        ]
        length = None if self.length else independent_elements(loop, plans)
        if length is not None:
            state = self.lines[:], self.functions[:], self.kernels, self.work
            if self.loop_over_blocks(depth, eqn, loop, targets, given, fixed, length):
                return
            self.lines, self.functions, self.kernels, self.work = state
        first = [given[i] for i in loop.carry]
        avals = loop.body.in_avals[len(loop.consts) : len(loop.consts) + count]
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
            if over[k] is not None:
                name = results[k]
                self.over |= over[k]
                self.copy(depth, name, first[k], aval.size)
            elif small[k]:
                name = self.new("c")
                self.line(depth, f"{kind} {name}[{max(1, aval.size)}];")
                self.copy(depth, name, first[k], aval.size)
            else:
                name, spare[k], following[k] = self.new("c"), self.buffer_for(depth, aval), self.new("n")
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
        self.loops += 1
        self.inside += 1
        before, self.work = self.work, 0.0
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
        rows = [
            f"({given[i]} + {turn} * {math.prod(eqn.invars[i].aval.shape[1:])})" for i in loop.xs
        ]
        stacks = [
            f"({at} + {turn} * {math.prod(v.aval.shape[1:])})"
            for at, v in zip(results[count:], eqn.outvars[count:], strict=True)
        ]
        plan = self.enter(loop.body, [*(given[i] for i in loop.consts), *carry, *rows])
        steps, outs = fixed[loop.body], plan.graph.outvars
        same = [
            over[k] is not None or outs[k] is plan.graph.invars[start + k] for k in range(count)
        ]
        wanted = [None if s else n for s, n in zip(same, next_carry, strict=True)]
        self.block(depth + 1, steps, outs, [*wanted, *stacks])
        for k, aval in enumerate(avals):
            if same[k]:
                continue
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
                n = following[k]
                self.line(depth + 1, f"{carry[k]} = {n};")
                self.line(depth + 1, f"{n} = {n} == {results[k]} ? {spare[k]} : {results[k]};")
        self.line(depth, "}")
        self.room.reset(mark)
        self.inside -= 1
        work = self.work + TARGET.guessed_steps
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
            self.line(depth, f"bool* const {done} = (bool*)(room + {size});")
            for k, aval in enumerate(avals):
                if aval.size != length:
                    kind, item = ct.memory_type(aval), storage_dtype(aval).itemsize
                    kept[k] = self.new("kept")
                    at = self.room.take(kept[k], blocks * aval.size * item)
                    self.line(depth, f"{kind}* const {kept[k]} = ({kind}*)(room + {at});")
            self.line(depth, f"for (bool {begun} = false;; {begun} = true) {{")
            depth += 1
        place = len(self.lines)
        self.line(depth, "")
        self.length, self.inside = length, self.inside + 1
        self.loops += 1
        before, self.work = self.work, 0.0
        inner = depth + 1
        if not counted:
            self.line(inner, f"const ga_index block = first / {PROCESSOR.block};")
            self.line(inner, f"if ({begun} && {done}[block]) return;")
            self.line(inner, "long long left = 0;")
            self.line(inner, "bool over = false;")
        carry = []
        for k, aval in enumerate(avals):
            name, kind = self.buffer_for(inner, aval), ct.memory_type(aval)
            carry.append(name)
            start = first[k]
            if not counted:
                at = f"{kept[k]} + block * {aval.size}" if k in kept else results[k]
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
            self.line(inner + 1, "over = true;")
            going = self.condition(inner + 1, loop, given, carry, fixed)
            self.line(inner + 1, "over = false;")
        following = [self.buffer_for(inner + 1, aval) for aval in avals]
        rows = [
            f"({given[i]} + {turn} * {math.prod(eqn.invars[i].aval.shape[1:])})" for i in loop.xs
        ]
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
                self.line(inner, "if (first == 0)")
                self.copy(inner + 1, results[k], carry[k], aval.size)
        if not counted:
            self.line(inner, f"{done}[block] = over;")
        self.line(depth, "});")
        self.length, self.inside = 0, self.inside - 1
        # How much of it there is decides how blocks are shared out.
        work = max(1.0, self.work)
        turns = TARGET.guessed_steps if loop.length is None else loop.length
        of_block = math.ceil(work * turns / blocks)
        if counted and work * turns > PROCESSOR.patience * TARGET.guessed_steps:
            return False
        grain = max(1, 4 * PROCESSOR.task // of_block)
        head = f"ga_blocks({length}, {PROCESSOR.block}, {grain}, [&](ga_index first, ga_index last) {{"
        self.lines[place] = "    " * depth + head
        if not counted:
            each = math.ceil(work / blocks)
            self.lines[look] = (
                "    " * (inner + 1) + f"if ((left += {each}) > {PROCESSOR.patience}) break;"
            )
            self.line(depth, f"if (ga_how_many({done}, {blocks}) == 2) break;")
            self.line(depth, f"if (call.turn({PROCESSOR.patience})) return 3;")
            depth -= 1
            self.line(depth, "}")
            for name in (done, *kept.values()):
                self.room.free(name)
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
        which, *given = map(self.place, eqn.invars)
        results = [self.made(depth, v, targets) for v in eqn.outvars]
        last = len(choice.branches) - 1
        before, most = self.work, 0.0
        for number, branch in enumerate(choice.branches):
            # The index is clamped: below 0 is the first branch, beyond the end the last.
            test = f"if (*{which} {'<=' if number == 0 else '=='} {number}) " if number < last else ""
            comment = f"  // {eqn.primitive.name}" if number == 0 else ""
            self.line(depth, f"{'} else ' if number else ''}{test}{{{comment}")
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
        number = made.get(v) if isinstance(v, Var) else None
        step = None if number is None else steps[number]
        if not isinstance(step, Scatter):
            return None
        operand = step.aliases[v]
        # Views would be other names of it.
        readers = [n for n, s in enumerate(steps) if operand in step_inputs(s)]
        views = any(_view(steps[n]) is not None for n in readers)
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


def _view(step: DeviceStep) -> tuple[Var, Atom, int] | None:
    """A view in the memory of its operand: its result, its operand, and the offset in elements."""
    if not isinstance(step, Eqn) or len(step.outvars) != 1 or len(step.invars) != 1:
        return None
    (v,), (a,) = step.outvars, step.invars
    if storage_dtype(v.aval) != storage_dtype(a.aval):
        return None
    if step.primitive.same_bytes:
        return v, a, 0
    offset = contiguous_offset(step) if step.primitive.kind is Kind.VIEW else None
    return None if offset is None else (v, a, offset)
