"""Pointwise kernels: a loop for each axis, the innermost along neighbours in memory.

Floor 3. In: a Map kernel. Out: its NativeSource.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import members_in_order
from gpuarray.compiler.lower.kernel import Map
from gpuarray.compiler.native.schedule import cut_axes
from gpuarray.compiler.native.writer import NativeSource, NativeWriter


class MapWriter(NativeWriter):
    """Tasks are positions along the outer axes, or runs of the only one."""

    def __init__(self, kernel: Map, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        self.order = list(kernel.order)
        self.axis_name = {i: f"i{k}" for k, i in enumerate(self.order)}

    def source(self) -> NativeSource:
        """All members over the whole space, in one nest of loops."""
        lengths = [self.axes[i] for i in self.order]
        outer, cut = cut_axes(lengths)
        prefix, inner = self.order[:outer], self.order[outer:]
        tasks, size = math.prod(lengths[:outer]), math.prod(lengths[outer:])
        members, known = list(members_in_order(self.group)), set(prefix)
        ends: dict[int, tuple[str, str]] = {}
        if len(self.order) < 2:
            # One axis: a task is an element, so that any run of them is a piece of work.
            tasks, size = math.prod(lengths), 1
            ends = dict.fromkeys(self.order, ("first", "last"))
            depth, inner, known = 1, list(self.order), set()
            if not self.order:
                self.line(1, "if (first == last) return;")
        else:
            depth = 2
            position = self.axis_name[prefix[0]] if outer == 1 and not cut else "task"
            self.line(1, f"for (ga_index {position} = first; {position} < last; ++{position}) {{")
            if cut:
                # The axis inside is cut: a task is a piece of it.
                pieces = -(-lengths[outer] // cut)
                tasks, size = tasks * pieces, cut * math.prod(lengths[outer + 1 :])
                self.line(2, f"const ga_index begin = task % {pieces} * {cut};")
                last = f"ga_least(begin + {cut}, {lengths[outer]})"
                ends = {inner[0]: ("begin", last if lengths[outer] % cut else f"begin + {cut}")}
                position = f"task / {pieces}"
                if outer == 1:
                    name = self.axis_name[prefix[0]]
                    self.line(2, f"const ga_index {name} = {position};")
                else:
                    self.line(2, f"const ga_index row = {position};")
                    self.define_axes(2, "row", prefix)
            else:
                self.define_axes(2, position, prefix)
        self.nest(depth, known, inner, members, self.outputs, {}, ends)
        if depth == 2:
            self.line(1, "}")
        self.end_function(self.kernel.name, self.parameters(), tasks, self.grain(size))
        note = " x ".join(map(str, lengths)) + " elements"
        return self.finish(f"{note}, tasks of {size * self.grain(size)}" if tasks > 1 else note)
