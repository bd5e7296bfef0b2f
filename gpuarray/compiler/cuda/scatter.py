"""Kernels that update part of an array in place: a thread for each update.

Floor 3. In: a Scatter kernel. Out: its KernelSource; its output starts with the contents of the
operand. No two threads write to one element, or they do by atomics whose order has no effect
(unless the user allows it).
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.scatters import atomic
from gpuarray.compiler.lower.schedule import schedule_map
from gpuarray.compiler.lower.traffic import elements
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.folds import merged
from gpuarray.core.element import sources
from gpuarray.core.element_rules import UpdateRule
from gpuarray.core.graph import Literal, Var, storage_dtype
from gpuarray.core.index import Index, linear


class ScatterTemplate(Template):
    """Updates in place: a thread for each of them."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        group = kernel.group
        eqn = self.eqn = group.members[0].eqn
        self.order = list(range(len(group.axes)))
        self.set_order(self.order)
        # A thread for each update: positions run along the axes of the updates.
        at = [Index.axis(i, n) for i, n in enumerate(group.axes)]

        def get(i: int, places):
            a = eqn.invars[i]
            assert not isinstance(a, Literal)
            return self.reach.element(a, places)

        self.rule: UpdateRule = eqn.primitive.update
        number = self.rule.operand
        # Where the update goes, and the tests that it is in bounds, by the primitive's rule.
        self.places, self.tests_of = self.rule.target(eqn, at, get)
        a = eqn.invars[number]
        self.new = None if isinstance(a, Literal) else get(number, at)
        # What is read for places and values: the operand is there already.
        read: list[Var] = [] if self.new is None else sources(self.new)
        for index in (*(t.index for t in self.tests_of), *self.places):
            read += self.sources_of(index)
        self.inputs = list(dict.fromkeys(read))
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        if self.new is not None:
            # Values that are used several times get a name.
            self.count_uses(self.new)

    def sources_of(self, index: Index) -> list[Var]:
        """The arrays that an index is looked up in."""
        from_memory = [a.access for a in self.lookups(index)]
        return [v for access in from_memory for v in sources(access)]

    def source(self) -> KernelSource:
        """Find where the update of a thread goes, skip it if out of bounds, write it."""
        (out,) = self.outputs
        total = math.prod(self.axes)
        s = schedule_map(total, 1)
        thread = f"blockIdx.x * {self.number(s.threads)} + threadIdx.x"
        # One update a thread; there is no vector, since places are computed one by one.
        self.line(1, f"const {self.index_type} i = {thread};")
        self.line(1, f"if (i >= {self.number(total)}) return;")
        self.position = "i"
        self.define_axes(1, "i", self.order)
        scope: dict = {}
        # Tests that shapes alone decide are left out.
        tests = tuple(t for t in dict.fromkeys(self.tests_of) if t.always is None)
        if tests:
            self.line(1, f"if (!({self.tests(tests, 1, scope)})) return;")
        # After the test, so that a skipped update reads nothing more.
        place = linear(self.places, out.aval.shape)
        self.look_up(place, 1, scope)
        at = self.at(place, scope)
        new = self.constant() if self.new is None else self.value(self.new, 1, scope, True)
        # Places that are written, and read where an update is merged with what is there.
        self.count = min(elements([place]), total)
        if self.rule.merge(self.eqn) is not None:
            self.touched.note(out, place, self.count)
        self.store_update(out, at, new)
        note = f"{total} updates in place; the output begins as the operand"
        return self.finish(s, note)

    def written(self) -> dict[Var, int]:
        """The places of the updates alone."""
        (out,) = self.outputs
        return {out: self.count * storage_dtype(out.aval).itemsize}

    def constant(self) -> str:
        a = self.eqn.invars[self.rule.operand]
        assert isinstance(a, Literal)
        return ct.constant(a.val, a.aval)

    def store_update(self, out: Var, at: str, new: str) -> None:
        name, eqn = self.out_name[out], self.eqn
        by = self.rule.merge(eqn)
        # Unique places need no atomics, and a set (no merge) just stores.
        function = "" if by is None or self.rule.unique(eqn) else atomic(eqn)
        if function:
            self.line(1, f"{function.format(f'{name} + {at}', new)};")
            return
        kind = ct.value_type(out.aval)
        # A merge reads the element that is there: no other thread writes it, or an atomic was used.
        if by is not None:
            there = f"{name}[{at}]"
            there = f"ga_value({there})" if ct.is_half(out.aval) else there
            self.line(1, f"const {kind} old = {there};")
            self.line(1, f"const {kind} update = {new};")
            lines, (new,) = merged(by, ["old"], ["update"])
            for line in lines:
                self.line(1, line)
        # A plain copy moves 16-bit floats as they lie, without a round trip through float.
        if by is None and new.startswith("ga_value(in") and new.endswith("])"):
            new = new.removeprefix("ga_value(")[:-1]  # as it lies in memory
        elif ct.is_half(out.aval):
            new = f"ga_exact<{ct.memory_type(out.aval)}>({new})"
        self.line(1, f"{name}[{at}] = {new};")
