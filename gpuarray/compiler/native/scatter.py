"""Updates of a part of an array: one after another, in their order.

Floor 3. In: a Scatter kernel. Out: its NativeSource. Its output begins as the operand; where that
is not needed any more, a routine writes into its memory.
"""

from __future__ import annotations

import math

from gpuarray.compiler.lower.kernel import Scatter
from gpuarray.compiler.native.writer import NativeSource, NativeWriter, Phase
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.folds import merged
from gpuarray.core.element import sources
from gpuarray.core.element_rules import UpdateRule
from gpuarray.core.graph import Literal, Var
from gpuarray.core.index import Index, linear
from gpuarray.core.target import PROCESSOR


class ScatterWriter(NativeWriter):
    """All updates are one task: the last of those that meet counts, and sums have their order."""

    repeatable = False  # it may add to what is there

    def __init__(self, kernel: Scatter, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        group = kernel.group
        eqn = self.eqn = group.members[0].eqn
        self.order = list(range(len(group.axes)))
        self.axis_name = {i: f"i{i}" for i in self.order}
        at = [Index.axis(i, n) for i, n in enumerate(group.axes)]

        def get(i: int, places):
            a = eqn.invars[i]
            assert not isinstance(a, Literal)
            return self.reach.element(a, places)

        self.rule: UpdateRule = eqn.primitive.update
        number = self.rule.operand
        # Where the update goes, the tests that it is in bounds, and its value.
        self.places, self.tests_of = self.rule.target(eqn, at, get)
        a = eqn.invars[number]
        self.new = None if isinstance(a, Literal) else get(number, at)
        read: list[Var] = [] if self.new is None else sources(self.new)
        for index in (*(t.index for t in self.tests_of), *self.places):
            read += [v for x in self.lookups(index) for v in sources(x.access)]
        self.inputs = list(dict.fromkeys(read))
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        if self.new is not None:
            self.count_uses(self.new)
        self.begins = kernel.aliases[self.outputs[0]]

    def source(self) -> NativeSource:
        """A loop along each axis of the updates around the store of one."""
        (out,) = self.outputs
        self.line(1, "if (first == last) return;")
        for axis in self.order:
            self.open_axis(1 + axis, axis)
        depth = 1 + len(self.order)
        scope: dict = {}
        tests = tuple(t for t in dict.fromkeys(self.tests_of) if t.always is None)
        if tests:
            skip = "continue" if self.order else "return"
            self.line(depth, f"if (!({self.tests(tests, depth, scope)})) {skip};")
        place = linear(self.places, out.aval.shape)
        self.look_up(place, depth, scope)
        at = self.at(place, scope)
        new = self.constant() if self.new is None else self.value(self.new, depth, scope, True)
        self.store(depth, out, at, new)
        for axis in reversed(self.order):
            self.line(1 + axis, "}")
        total = math.prod(self.axes)
        self.end_function(self.kernel.name, self.parameters(), 1, 1)
        source = self.finish(f"{total} updates in their order; the output begins as the operand")
        return source.replace(begins=self.begins)

    def constant(self) -> str:
        a = self.eqn.invars[self.rule.operand]
        assert isinstance(a, Literal)
        return ct.constant(a.val, a.aval)

    def store(self, depth: int, out: Var, at: str, new: str) -> None:
        """Put one update where it belongs."""
        place = f"{self.out_name[out]}[{at}]"
        by, kind = self.rule.merge(self.eqn), ct.value_type(out.aval)
        if by is not None:
            self.line(depth, f"const {kind} old = {self.read_from(place, out.aval)};")
            self.line(depth, f"const {kind} update = {new};")
            lines, (new,) = merged(by, ["old"], ["update"])
            for line in lines:
                self.line(depth, line)
        if ct.is_half(out.aval):
            new = f"ga_exact<{ct.memory_type(out.aval)}>({new})"
        self.line(depth, f"{place} = {new};")


def begun(source: NativeSource) -> NativeSource:
    """The kernel as a call of its own, which first copies what its output begins as."""
    operand = source.begins
    if operand is None:
        return source
    inputs = source.inputs if operand in source.inputs else [*source.inputs, operand]
    (out,) = source.outputs
    kind, name = ct.memory_type(out.aval), f"{source.name}_copy"
    lines = [
        f"GA_TASKS {name}(ga_index first, ga_index last, const {kind}* from, {kind}* to) {{",
        "    if (to == from) return;  // it is the operand's memory",
        "    for (ga_index i = first; i < last; ++i) to[i] = from[i];",
        "}",
    ]
    given = (f"in{inputs.index(operand)}", "out0")
    copy = Phase(name, out.aval.size, PROCESSOR.task, given)
    return source.replace(
        functions="\n".join([source.functions.rstrip(), *lines]) + "\n",
        phases=(copy, *source.phases),
        inputs=inputs,
        begins=None,
    )
