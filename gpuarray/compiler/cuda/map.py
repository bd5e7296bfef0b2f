"""Pointwise kernels: each thread computes one or more vectors, or single elements.

Floor 3. In: a Map kernel. Out: its KernelSource.
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Load, members_in_order
from gpuarray.compiler.lower.kernel import Map, Tiles
from gpuarray.compiler.lower.schedule import Schedule, schedule_map
from gpuarray.core.graph import storage_dtype


class MapTemplate(Template):
    """Threads go over the space in the order of memory, so that accesses are coalesced."""

    def __init__(self, kernel: Map | Tiles, options: Options):
        super().__init__(kernel, options)
        # Vectors lie along the fastest axis, and neighbouring threads take neighbouring vectors.
        self.set_order(list(kernel.order))

    def source(self) -> KernelSource:
        """All members over the whole space, in one loop or two."""
        # Launch numbers.
        total = math.prod(self.axes)
        width = self.width()
        ahead = self.from_memory(width)
        sizes = [storage_dtype(x.source.aval).itemsize for x in ahead.values()]
        s = schedule_map(total, width, sum(sizes) * width, len(self.group.members))
        self.position = "i"
        # Several vectors a thread are all read before any is computed: a multiprocessor needs many
        # bytes under way to use its bandwidth, and few operations do not hide the wait.
        depth = 1
        self.touched.begin(s.steps)
        if s.steps > 1:
            depth = 2
            room = self.declare_held("ahead", ahead, width, s.steps, "[u]")
            self.open_vector_loop(s, total, "read")
            self.read_held(room, width)
            self.line(1, "}")
            self.open_vector_loop(s, total, "compute")
        else:
            # One vector a thread: threads beyond the end have nothing to do.
            self.define_position(1, s, total, "return")
        self.elements(depth, list(members_in_order(self.group)), self.outputs, {}, width)
        if s.steps > 1:
            self.line(1, "}")
        each = f", {s.steps} x {width} a thread" if s.steps > 1 else ""
        each = each or (f", {width} a thread" if width > 1 else "")
        return self.finish(s, f"{total} elements{each}")

    def from_memory(self, width: int) -> dict[tuple, Load]:
        """Loads that vary along all axes: those that take the bandwidth."""
        space = {i for i, n in enumerate(self.axes) if n > 1}
        return {
            (x.key, x.dims): x
            for x in self.group.loads()
            if space <= set(x.dims) and not self.is_inlined(x) and self.can_hold(x, width)
        }

    def define_position(self, depth: int, s: Schedule, total: int, leave: str) -> None:
        """Define the position of a thread, and leave if it is beyond the end."""
        n = self.number
        block = f"(blockIdx.x * {n(s.steps)} + u)" if s.steps > 1 else "blockIdx.x"
        thread = f"{block} * {n(s.threads)} + threadIdx.x"
        if s.width > 1:
            thread = f"({thread}) * {n(s.width)}"
        self.line(depth, f"const {self.index_type} i = {thread};")
        # Without a remainder every thread has an element: no test.
        if total % (s.threads * s.width * s.steps):
            self.line(depth, f"if (i >= {n(total)}) {leave};")
        self.define_axes(depth, "i", self.order)

    def open_vector_loop(self, s: Schedule, total: int, comment: str) -> None:
        """Open the loop over the vectors of a thread."""
        self.line(1, "#pragma unroll")
        self.line(1, f"for (unsigned u = 0; u < {s.steps}u; ++u) {{", comment)
        self.define_position(2, s, total, "continue")
