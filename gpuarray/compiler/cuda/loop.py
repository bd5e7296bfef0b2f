"""Kernels with loops and branches: each thread runs them for one element, in its registers.

Floor 3. In: a Loop kernel: a member with a `Flow`, and pointwise members around it. Out: its
KernelSource.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.flows import (
    Choose,
    Compute,
    Flow,
    Picked,
    Register,
    Repeat,
    Seen,
    Statement,
    Turn,
    Value,
)
from gpuarray.compiler.fuse.group import Dims, Member, members_in_order
from gpuarray.compiler.lower.elements import inlined_element
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import expression
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Access, Applied, Constant, InRegister, sources
from gpuarray.core.element_rules import Places, rule_of
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index, behind, linear, through
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET


class LoopTemplate(Template):
    """One element for each thread; the state of loops stays in registers."""

    flow: Flow
    space: Dims  # the group's axis of each axis of the flow's space

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        group = kernel.group
        self.texts: dict[Register, str] = {}
        self.changing = 0  # names of values that change from step to step
        read: list[Var] = []
        for m in group.members:
            if m.flow is not None:
                self.flow, self.space = m.flow, m.space
                for x in m.flow.seen:
                    read += sources(self.access_to(x))
        # Inputs that only loops read come after the others.
        for v in read:
            if v not in self.in_name:
                self.in_name[v] = f"in{len(self.inputs)}"
                self.inputs.append(v)
                self.use_positions(self.wide or v.aval.size >= 2**31)

    def source(self) -> KernelSource:
        """All members over the whole space."""
        # The carries of loops live in registers, so a thread has one element and no vector.
        total = math.prod(self.axes)
        schedule = _schedule(total)
        thread = f"blockIdx.x * {self.number(schedule.threads)} + threadIdx.x"
        self.line(1, f"const {self.index_type} i = {thread};")
        self.line(1, f"if (i >= {self.number(total)}) return;")
        self.position = "i"
        self.define_axes(1, "i", self.order)
        # A loop or branch runs in registers, all iterations for one element; other members are as
        # in a map.
        for member in members_in_order(self.group):
            if member.flow is None:
                self.member(member, 1, self.read_outside)
            else:
                self.run(member, member.flow)
        for v in self.outputs:
            if v in self.group.made:
                self.write(1, v)
        return self.finish(schedule, f"{total} elements")

    def run(self, member: Member, flow: Flow) -> None:
        """Emit a loop or a branch; results that other members do not read are stored here."""
        self.flow, self.space = flow, member.space
        # Read an element's initial values before the loop.
        for register, operand in zip(flow.values.values(), member.operands, strict=True):
            self.texts[register] = self.operand(operand, self.read_outside, 1)
        results = self.statement(1, flow.statement, self.read_outside)
        for k, dims in flow.results.items():
            v = member.eqn.outvars[k]
            if k in results:
                self.names[v] = results[k]
                # Results along fewer axes than the space are stored here; the others like any
                # output.
                if v in self.outputs and v in self.group.aside:
                    self.store_result(1, k, dims, results[k])

    # ---- statements ----
    def block(self, depth: int, statements: Sequence[Statement], fetched: Fetched) -> None:
        for s in statements:
            if isinstance(s, Compute):
                self.compute(depth, s, fetched)
            else:
                self.statement(depth, s, fetched)

    def compute(self, depth: int, s: Compute, fetched: Fetched) -> None:
        """An equation: a line for each of its results."""
        operands = [self.held(depth, x, fetched) for x in s.operands]
        if s.eqn.primitive.kind is Kind.GENERATOR:
            # An iota and the like: its value depends on the element's position.
            operands += [_atom(self.at(place)) for place in self.places_of(s)]
        texts = expression(s.eqn, operands)
        for register, text in zip(s.results, texts, strict=True):
            name = self.texts[register] = f"v{self.count}"
            self.count += 1
            line = f"const {ct.value_type(register.aval)} {name} = {text};"
            self.line(depth, line, self.comment(s.eqn, text))

    def places_of(self, s: Compute) -> Places:
        """The positions that an element of a generator depends on."""
        rule = rule_of(s.eqn)
        assert rule is not None
        at = self.along(self.group_axes(s.results[0].dims))
        # The rule gives the access of one element; the text needs only its coordinates.
        access = rule.make(s.eqn, 0, at, lambda operand, _: InRegister(s.operands[operand]))
        assert isinstance(access, Applied)
        return access.places

    def statement(self, depth: int, s: Repeat | Choose, fetched: Fetched) -> dict[int, str]:
        """A loop or a branch; the names of its results by number."""
        if isinstance(s, Repeat):
            return self.repeat(depth, s, fetched)
        return self.choose(depth, s, fetched)

    def repeat(self, depth: int, s: Repeat, fetched: Fetched) -> dict[int, str]:
        name_of: dict[int, str] = {}
        # A variable for each carry, with its start; the body assigns the next values.
        for k, carry in s.carries.items():
            start = self.held(depth, carry.start, fetched)
            name_of[k] = self.texts[carry.inside] = self.variable(depth, carry.inside.aval, start)
        # Values read inside a step are read again in the next step.
        inside = dict(fetched)
        self.head(depth, s)
        if s.going is not None:
            self.block(depth + 1, s.test, inside)
            going = self.held(depth + 1, s.going, inside)
            self.line(depth + 1, f"if (!{going}) break;")
        self.block(depth + 1, s.body, inside)
        # Each step writes its element of a stacked result, if that result is read.
        for k, value in s.stacked.items():
            assert s.turn is not None
            if s.eqn.outvars[k] in self.out_name:
                text = self.held(depth + 1, value, inside)
                self.store_result(depth + 1, k, self.flow.results[k], text, s.turn)
        self.assign(depth + 1, s, name_of, inside)
        self.line(depth, "}")
        return name_of

    def head(self, depth: int, s: Repeat) -> None:
        """Open a loop."""
        name = s.eqn.primitive.name
        if s.turn is None:
            self.line(depth, "for (;;) {", name)
            return
        # The first loop's turn is `t`, others have a number.
        t = self.axis_name[s.turn.number] = "t" if s.turn.number == -1 else f"t{-s.turn.number}"
        kind, steps = self.index_type, self.number(s.turn.length)
        # Unrolled only if reads of several steps can be under way together.
        if (
            len(s.body) <= TARGET.loop_unroll_statements
            and s.turn.length >= TARGET.loop_unroll
            and _reads(s)
        ):
            self.touched.unrolled(TARGET.loop_unroll)
            self.line(depth, f"#pragma unroll {TARGET.loop_unroll}")
        if s.reverse:
            # Unsigned and counted down: the test comes before the decrement.
            self.line(depth, f"for ({kind} {t} = {steps}; {t}-- > 0;) {{", f"{name}, backwards")
        else:
            self.line(depth, f"for ({kind} {t} = 0; {t} < {steps}; ++{t}) {{", name)

    def assign(self, depth: int, s: Repeat, name_of: dict[int, str], fetched: Fetched) -> None:
        """Assign the carries' next values simultaneously."""
        # All next values are computed before any carry changes.
        new: dict[int, str] = {}
        for k, carry in s.carries.items():
            assert carry.next is not None
            new[k] = self.held(depth, carry.next, fetched)
        for k, text in new.items():
            if text in name_of.values() and text != name_of[k]:  # another carry, about to change
                kept = f"v{self.count}"
                self.count += 1
                kind = ct.value_type(s.carries[k].inside.aval)
                self.line(depth, f"const {kind} {kept} = {text};")
                new[k] = kept
        for k, text in new.items():
            if text != name_of[k]:
                self.line(depth, f"{name_of[k]} = {text};")

    def choose(self, depth: int, s: Choose, fetched: Fetched) -> dict[int, str]:
        which = self.held(depth, s.which, fetched)
        name_of: dict[int, str] = {}
        for k, register in s.results.items():
            name_of[k] = self.texts[register] = self.variable(depth, register.aval)
        last = len(s.branches) - 1
        for number, (statements, out) in enumerate(s.branches):
            # The index of a branch is clamped: below 0 is the first, beyond the end the last.
            test = (
                f"if ({which} {'<=' if number == 0 else '=='} {number}) " if number < last else ""
            )
            opening = f"{'} else ' if number else ''}{test}{{"
            self.line(depth, opening, s.eqn.primitive.name if number == 0 else "")
            inside = dict(fetched)
            # Names that one branch defines do not exist in the others.
            self.block(depth + 1, statements, inside)
            for name, value in zip(name_of.values(), out, strict=True):
                self.line(depth + 1, f"{name} = {self.held(depth + 1, value, inside)};")
        self.line(depth, "}")
        return name_of

    def variable(self, depth: int, aval: ShapedArray, start: str = "") -> str:
        name = f"c{self.changing}"
        self.changing += 1
        self.line(depth, f"{ct.value_type(aval)} {name}{f' = {start}' if start else ''};")
        return name

    # ---- values ----
    def held(self, depth: int, x: Value, fetched: Fetched) -> str:
        """A value as text; an element of memory is read where it is first needed."""
        if isinstance(x, Literal):
            return ct.constant(x.val, x.aval)
        if isinstance(x, Register):
            return self.texts[x.base]
        key = (x,)
        if key not in fetched:
            access = self.access_to(x, lambda v: self.held(depth, v, fetched))  # numbers first
            text = self.value(access, depth, fetched)
            name = fetched[key] = f"x{len(fetched)}"
            self.line(depth, f"const {ct.value_type(x.aval)} {name} = {text};")
        return fetched[key]

    def access_to(self, x: Seen, need: Callable[[Value], Any] = lambda v: None) -> Access:
        """How an element of memory is reached; `need` is called for each number in its index."""
        load = self.flow.memory[x.operand]

        def at(places: Sequence[Index], count: int) -> Access:
            """The element at `places` after the first `count` steps of the path."""
            # Views and loop steps only change the position: go back over them to the last lookup.
            while count and not isinstance(x.path[count - 1], Picked):
                count -= 1
                step = x.path[count]
                if isinstance(step, Turn):
                    places = [Index.axis(step.number, step.length), *places]
                else:
                    assert isinstance(step, Eqn)
                    places = through(step, list(places))
            # Nothing is computed on the path: the element is in memory, or its producer is inlined.
            if not count:
                seen = behind(load.views, list(places))
                return inlined_element(load.source, seen, self.group.inlined)
            step = x.path[count - 1]
            assert isinstance(step, Picked)
            values = step.values

            # Operand 0 is the array that is indexed; the others are numbers in registers.
            def get(operand: int, places: Places) -> Access:
                if not operand:
                    return at(places, count - 1)
                value = values[operand]
                need(value)
                if isinstance(value, Literal):
                    return Constant(value.val, value.aval)
                return InRegister(value.base if isinstance(value, Register) else value)

            rule = rule_of(step.eqn)
            assert rule is not None
            return rule.make(step.eqn, 0, places, get)

        return at(self.along(self.group_axes(x.dims)), len(x.path))

    def group_axes(self, dims: Dims) -> list[int | None]:
        """Axes of the flow's space as axes of the group."""
        return [None if d is None else self.space[d] for d in dims]

    def store_result(
        self, depth: int, number: int, dims: Dims, text: str, turn: Turn | None = None
    ) -> None:
        """Store an element of a result that runs along some of the axes, or along steps."""
        member_eqn = self.flow.statement.eqn
        v = member_eqn.outvars[number]
        axes = self.group_axes(dims)
        places, shape = self.along(axes), v.aval.shape
        if turn is not None:
            places.insert(0, Index.axis(turn.number, turn.length))
        if (part := self.group.joined.get(v)) is not None:
            places.insert(part.axis, Index(constant=part.at))
            shape = part.whole.aval.shape
        # Many threads hold one element: the one at position 0 of the missing axes stores it.
        others = [d for d in self.order if d not in axes and self.axes[d] > 1]
        tests = " && ".join(f"{self.axis_name[d]} == 0" for d in others)
        stored = f"ga_exact<{ct.memory_type(v.aval)}>({text})" if ct.is_half(v.aval) else text
        at = self.at(linear(places, shape))
        guard = f"if ({tests}) " if tests else ""
        self.line(depth, f"{guard}{self.out_name[v]}[{at}] = {stored};")


def _schedule(total: int) -> Schedule:
    """Launch parameters: blocks of a single warp until they fill the machine, then larger ones."""
    threads = 32
    while threads < TARGET.block_threads and threads * TARGET.full_grid < total:
        threads *= 2
    return Schedule(threads, grid=max(1, -(-total // threads)))


def _reads(s: Repeat) -> bool:
    """Whether a loop reads memory itself."""
    values = [x for c in s.body if isinstance(c, Compute) for x in c.operands]
    values += [c.next for c in s.carries.values()]
    return any(isinstance(x, Seen) for x in (*values, *s.stacked.values()))


def _atom(text: str) -> str:
    return text if " " not in text else f"({text})"
