"""Kernels that find the few largest elements of long rows: each warp keeps a sorted list.

Floor 3. In: a Top kernel. Out: its KernelSource. A block reads a row once. Elements that are not
larger than the last of a warp's list are done with; the others wait in shared memory until there
are enough of them for all lanes. Of equal elements the first counts as larger, so the order of
threads does not show.
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.rewrite.sorts import axis_of, length_of
from gpuarray.compiler.text import types as ct
from gpuarray.core.dtypes import kind_of
from gpuarray.core.index import Index, linear
from gpuarray.core.target import TARGET


class TopTemplate(Template):
    """The largest elements of each row, in order, and their positions."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        (member,) = kernel.group.members
        self.axis, self.length = axis_of(member.eqn), length_of(member.eqn)
        assert isinstance(member.operands[0], Load)
        self.x = member.operands[0]
        self.set_order(list(range(len(kernel.group.axes))))
        self.last = None

    def source(self) -> KernelSource:
        """A block for each row."""
        self.threads_meet = True
        n, t = self.number, self.index_type
        threads, rows = TARGET.block_threads, math.prod(self.axes) // self.length
        # One block for each row, all threads of it share the row.
        s = Schedule(threads, 1, rows, threads)
        values, numbers = self.outputs
        count = values.aval.shape[self.axis]
        # A thread reads several elements before it tests which of them may be among the largest.
        ahead, warps = TARGET.largest_ahead, threads // 32
        room, turn = 32 * (ahead + 1), threads * ahead
        self.shared["waiting"] = f"unsigned long long waiting[{warps * room}]"
        if rows > 1:
            self.line(1, f"const {t} row = blockIdx.x;")
            self.define_axes(1, "row", [a for a in self.order if a != self.axis])
        self.line(1, f"ga_top<{count}> top = {{}};")
        self.touched.begin(ahead)
        head = f"for ({t} first = 0; first < {n(self.length)}; first += {n(turn)}) {{"
        self.line(1, head, "the row")
        self.line(2, f"unsigned long long x[{ahead}];")
        self.line(2, "#pragma unroll")
        self.line(2, f"for (unsigned u = 0; u < {ahead}u; ++u) {{")
        self.line(3, f"const {t} j = first + u * {threads}u + threadIdx.x;")
        self.axis_name[self.axis] = "j"
        # Nothing is smaller than 0, which is used beyond the end of the row.
        if self.length % turn:
            self.line(3, "x[u] = 0;")
            self.line(3, f"if (j >= {n(self.length)}) continue;")
        order = self.ordered(self.element_of(self.x, 3, {}))
        # One integer holds a value and its position, so that comparisons need no second look.
        self.line(3, f"x[u] = ga_ranked({order}, j);")
        self.line(2, "}")
        self.line(2, f"ga_top_take(top, x, waiting + threadIdx.x / 32u * {room}u);")
        self.line(1, "}")
        # The lists of all warps are merged into that of the first warp.
        self.line(1, f"ga_top_block<{warps}, {room}>(top, waiting);")
        # One thread writes one element: the value as stored in memory, and its position.
        parts, depth, place, found = -(-count // 32), 1, "threadIdx.x", "top.list[0]"
        if parts > 1:
            self.line(1, "if (threadIdx.x >= 32u) return;")
            self.line(1, "#pragma unroll")
            self.line(1, f"for (unsigned p = 0; p < {parts}u; ++p) {{")
            self.line(2, f"const {t} k = p * 32u + threadIdx.x;")
            depth, place, found = 2, "k", "top.list[p]"
        self.line(depth, f"if ({place} >= {count}u) return;")
        # `ga_ranked` keeps the inverse of the position, so that of equal elements the first is
        # larger.
        self.line(depth, f"const {t} from = ~(unsigned){found};")
        self.touched.begin()
        # The values are read again, but only those that were kept.
        self.touched.most = values.aval.size
        self.axis_name[self.axis] = "from"
        value = self.element_of(self.x, depth, {})
        if ct.is_half(values.aval):
            value = f"ga_exact<{ct.memory_type(values.aval)}>({value})"
        self.axis_name[self.axis] = place
        at = self.at(linear([Index.axis(i, m) for i, m in enumerate(self.axes)], values.aval.shape))
        self.line(depth, f"{self.out_name[values]}[{at}] = {value};")
        if numbers in self.out_name:
            kind = ct.value_type(numbers.aval)
            self.line(depth, f"{self.out_name[numbers]}[{at}] = ({kind})from;")
        if parts > 1:
            self.line(1, "}")
        return self.finish(s, f"the {count} largest of {rows} rows of {self.length}")

    def ordered(self, text: str) -> str:
        """An unsigned integer of 32 bits that orders as an element does."""
        aval = self.x.source.aval
        if kind_of(aval.dtype) == "f":
            # Flipping the sign bit turns the order of signed integers into that of unsigned ones.
            return f"(unsigned)ga_order({text}) ^ 0x80000000u"
        signed = kind_of(aval.dtype) == "i"
        return f"(unsigned){text} ^ 0x80000000u" if signed else f"(unsigned){text}"
