"""Kernels that update part of an array in place: a thread for each update.

Floor 3. In: a Scatter kernel. Out: its KernelSource; its output starts with the contents of the
operand. No two threads write to one element, or they do by atomics whose order has no effect
(unless the user allows it).
"""

from __future__ import annotations

import math

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import Schedule, schedule_map
from gpuarray.compiler.lower.traffic import elements
from gpuarray.compiler.rewrite.updates import atomic
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.folds import merged
from gpuarray.core.element import sources
from gpuarray.core.element_rules import UpdateRule
from gpuarray.core.graph import Literal, Var, storage_dtype
from gpuarray.core.index import Index, linear
from gpuarray.core.target import TARGET


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
        # The target of the update, and the tests that it is in bounds, by the primitive's rule.
        self.places, self.tests_of = self.rule.target(eqn, at, get)
        # Unique places need no atomics, and a set (no merge) just stores.
        ordered = self.rule.merge(eqn) is None or self.rule.unique(eqn)
        self.atomic = "" if ordered else atomic(eqn)
        a = eqn.invars[number]
        self.new = None if isinstance(a, Literal) else get(number, at)
        # Arrays read for positions and values; the operand is an argument already.
        read: list[Var] = [] if self.new is None else sources(self.new)
        for index in (*(t.index for t in self.tests_of), *self.places):
            read += self.sources_of(index)
        self.inputs = list(dict.fromkeys(read))
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        # Values that are used several times get a name.
        if self.new is not None:
            self.count_uses(self.new)
        for atom in {a.name: a for p in self.places for a in self.lookups(p)}.values():
            self.count_uses(atom.access)

    def sources_of(self, index: Index) -> list[Var]:
        """The arrays that an index is looked up in."""
        from_memory = [a.access for a in self.lookups(index)]
        return [v for access in from_memory for v in sources(access)]

    def source(self) -> KernelSource:
        """Compute the target of a thread's update, skip it if out of bounds, and write it."""
        total = math.prod(self.axes)
        if self.meets_often(total):
            return self.shared_sums(total)
        s = schedule_map(total, 1)
        thread = f"blockIdx.x * {self.number(s.threads)} + threadIdx.x"
        # One update for each thread; there is no vector, since targets are computed one by one.
        self.line(1, f"const {self.index_type} i = {thread};")
        self.line(1, f"if (i >= {self.number(total)}) return;")
        self.update(1, total, "return")
        return self.finish(s, f"{total} updates in place; the output begins as the operand")

    def update(self, depth: int, total: int, leave: str) -> None:
        """Write the update at position `i`."""
        (out,) = self.outputs
        self.position = "i"
        self.define_axes(depth, "i", self.order)
        scope: dict = {}
        # Tests that shapes alone decide are left out.
        tests = tuple(t for t in dict.fromkeys(self.tests_of) if t.always is None)
        if tests:
            self.line(depth, f"if ({self.fails(tests, depth, scope)}) {leave};")
        # After the test, so that a skipped update causes no further reads.
        place = linear(self.places, out.aval.shape)
        self.look_up(place, depth, scope)
        at = self.at(place, scope)
        new = self.constant() if self.new is None else self.value(self.new, depth, scope, True)
        # Elements that are written, and read if an update is merged with the old element.
        self.count = min(elements([place]), total)
        if self.rule.merge(self.eqn) is not None:
            self.touched.note(out, place, self.count)
        self.store_update(depth, out, at, new)

    # ---- few places ----
    def meets_often(self, total: int) -> bool:
        """Whether very many updates are added to few places."""
        (out,) = self.outputs
        often = total >= max(TARGET.full_threads, TARGET.meeting_updates * out.aval.size)
        few = out.aval.nbytes <= TARGET.shared_sums
        return often and few and self.rule.sums is not None and bool(self.atomic)

    def shared_sums(self, total: int) -> KernelSource:
        """Sum the updates of each block in shared memory, then those of all blocks."""
        (out,) = self.outputs
        n, size = self.number, out.aval.size
        threads, kind = TARGET.block_threads, ct.memory_type(out.aval)
        s = Schedule(threads, grid=min(TARGET.column_grid, -(-total // threads)))
        # A copy for each warp: lanes of different warps then rarely collide.
        copies = threads // 32 if out.aval.nbytes * threads // 32 <= TARGET.shared_sums else 1
        self.shared["sums"] = f"{kind} sums[{copies * size}]"
        self.threads_meet = True
        all_sums = f"for (unsigned b = threadIdx.x; b < {n(copies * size)}; b += {n(threads)})"
        self.line(1, f"{all_sums} sums[b] = 0;")
        self.line(1, "__syncthreads();")
        own = f"sums + threadIdx.x / 32u * {n(size)}" if copies > 1 else "sums"
        self.line(1, f"{kind}* own = {own};", "of this warp" if copies > 1 else "")
        self.touched.begin(TARGET.updates_ahead)
        self.line(1, f"#pragma unroll {TARGET.updates_ahead}")
        first, step = f"blockIdx.x * {n(threads)} + threadIdx.x", n(threads * s.grid)
        head = f"for ({self.index_type} i = {first}; i < {n(total)}; i += {step}) {{"
        self.line(1, head)
        # The update is written as always, to these sums instead of the output.
        (written, self.out_name[out]) = self.out_name[out], "own"
        self.update(2, total, "continue")
        self.out_name[out] = written
        self.line(1, "}")
        self.line(1, "__syncthreads();")
        # The blocks' sums are added in memory, in any order.
        self.line(1, f"for (unsigned b = threadIdx.x; b < {n(size)}; b += {n(threads)}) {{")
        self.line(2, f"{kind} sum = sums[b];")
        if copies > 1:
            add = f"sum += sums[w * {n(size)} + b];"
            self.line(2, f"for (unsigned w = 1; w < {copies}u; ++w) {add}")
        assert self.rule.sums is not None
        # An atomic update of memory is dear: places without a sum are left out.
        self.line(2, f"if (sum != 0) {self.rule.sums.format(f'{written} + b', 'sum')};")
        self.line(1, "}")
        where = "of each warp" if copies > 1 else "of each block"
        return self.finish(s, f"{total} updates of {size} places, sums {where} first")

    def written(self) -> dict[Var, int]:
        """The places of the updates alone."""
        (out,) = self.outputs
        return {out: self.count * storage_dtype(out.aval).itemsize}

    def constant(self) -> str:
        a = self.eqn.invars[self.rule.operand]
        assert isinstance(a, Literal)
        return ct.constant(a.val, a.aval)

    def store_update(self, depth: int, out: Var, at: str, new: str) -> None:
        name, eqn = self.out_name[out], self.eqn
        by = self.rule.merge(eqn)
        if self.atomic:
            there = name if at == "0" else f"{name} + {at}"
            self.line(depth, f"{self.atomic.format(there, new)};")
            return
        kind = ct.value_type(out.aval)
        # A merge reads the old element: no other thread writes it, or an atomic is used.
        if by is not None:
            there = f"{name}[{at}]"
            there = f"ga_value({there})" if ct.is_half(out.aval) else there
            self.line(depth, f"const {kind} old = {there};")
            self.line(depth, f"const {kind} update = {new};")
            lines, (new,) = merged(by, ["old"], ["update"])
            for line in lines:
                self.line(depth, line)
        # A plain copy moves 16-bit floats directly, without a round trip through float.
        if by is None and new.startswith("ga_value(in") and new.endswith("])"):
            new = new.removeprefix("ga_value(")[:-1]  # as stored in memory
        elif ct.is_half(out.aval):
            new = f"ga_exact<{ct.memory_type(out.aval)}>({new})"
        self.line(depth, f"{name}[{at}] = {new};")
