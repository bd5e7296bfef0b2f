"""Kernels as CUDA C++ text, meant to be read.

Floor 3. In: a Group. Out: an `Emitted`: the text of one `extern "C"` kernel, its launch numbers and
its arguments. Text depends on the graph alone: no names of the user's, no ids, no order of
building. What every kernel may call (`ga_*`) is in kernels/.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuarray.compiler import cuda_types as ct
from gpuarray.compiler.cuda_rules import NoCudaRule as NoCudaRule
from gpuarray.compiler.cuda_rules import Reducer
from gpuarray.compiler.generators import has_text, recipe
from gpuarray.compiler.group import Group, Load, Member
from gpuarray.compiler.kernel import Pass, split_passes
from gpuarray.compiler.plan import members_in_order
from gpuarray.compiler.schedule import (
    FULL_GRID,
    ROW_BYTES,
    VECTOR_BYTES,
    Schedule,
    schedule_all,
    schedule_columns,
    schedule_map,
    schedule_rows,
)
from gpuarray.compiler.writer import Writer
from gpuarray.core.graph import Eqn, Var, storage_dtype
from gpuarray.core.primitive import Combine, registry

#: From this length on, and below this number, rows are cut so that they fill the machine.
LONG, FEW = 1 << 13, FULL_GRID // 2
#: Partial results of blocks lie so many bytes apart, whatever their type.
SLOT = 16


@dataclass
class Emitted:
    """One kernel as text, and how to launch it.

    inputs, outputs: the buffers that are its arguments, in this order; after them comes one of
    `workspace` bytes, where that is not 0. It must be zero before the first launch, and is again
    after each.
    """

    name: str
    text: str
    schedule: Schedule
    inputs: list[Var]
    outputs: list[Var]
    workspace: int = 0
    kind: str = ""

    @property
    def alignment(self) -> int:
        """What the addresses of all buffers must be multiples of."""
        return VECTOR_BYTES if self.schedule.width > 1 else 1

    @property
    def needs_sync(self) -> bool:
        """Whether threads of a block wait for one another."""
        return "__syncthreads" in self.text or "_reduce<" in self.text


def emit(group: Group, user_lines: bool = False) -> Emitted:
    """The kernel of a group; with `user_lines`, comments say where the user wrote what it does."""
    writer = _Kernels(group, user_lines)
    if not group.reduced:
        return writer.map()
    passes = split_passes(group, _splits)
    if passes is None:
        raise NoCudaRule("a reduction without a Combine rule cannot be split over threads")
    rows = math.prod(group.axes[i] for i in group.parallel)
    length = math.prod(group.axes[i] for i in group.reduced)
    simple = len(passes) == 1 and not passes[0].stored
    if writer.reads_along_columns():
        return writer.columns(passes, rows, length)
    if rows < FEW and simple and length > LONG:
        return writer.all(passes[0], rows, length)
    return writer.rows(passes, rows, length)


def emit_value(eqn: Eqn, user_lines: bool = False, name: str = "value") -> Emitted:
    """The kernel of a generator on its own: its value in memory."""
    if not has_text(eqn):
        raise NoCudaRule(f"{eqn.primitive.name} has no CUDA text for these operands")
    v = eqn.outvars[0]
    dims = tuple(None if n == 1 else i for i, n in enumerate(v.aval.shape))
    result = Var(v.aval)
    load = Load(v, (), dims, v.aval.shape)
    copy = Eqn(registry["copy"], [v], [result], {}, eqn.site)
    group = Group(list(v.aval.shape), outputs=[result], name=name, generators={v: recipe(eqn)})
    group.add(Member(copy, [load], dims, dims))
    return emit(group, user_lines)


def _splits(member: Member) -> bool:
    """On a GPU partial results are never rounded, so whatever has a rule can be split."""
    return isinstance(member.eqn.primitive.cuda, Combine)


class _Kernels(Writer):
    """The forms that kernels have."""

    def map(self) -> Emitted:
        """Pointwise: a thread makes a vector of the space, or one element where none fits."""
        total = math.prod(self.group.axes)
        width = self.width()
        schedule = schedule_map(total, width)
        thread = f"blockIdx.x * {self.number(schedule.threads)} + threadIdx.x"
        if width > 1:
            thread = f"({thread}) * {self.number(width)}"
        self.put(1, f"const {self.index_type} i = {thread};")
        self.put(1, f"if (i >= {self.number(total)}) return;")
        self.position = "i"
        self.axes_from(1, "i", self.order)
        self.elements(1, list(members_in_order(self.group)), self.outputs, {}, width)
        note = f"{total} elements, {width} a thread" if width > 1 else f"{total} elements"
        return self.finish("map", schedule, note)

    # ---- reductions ----
    def rows(self, passes: list[Pass], rows: int, length: int) -> Emitted:
        """Passes over rows: a block a row, or several rows in a block where they are short."""
        parallel = [i for i in self.order if i not in self.group.reduced]
        reduced = [i for i in self.order if i in self.group.reduced]
        self.last = reduced[-1]
        schedule = schedule_rows(rows, length, self.width())
        lanes, many = schedule.lanes, schedule.rows_a_block
        guarded = rows % many != 0
        if many == 1:
            self.put(1, "const unsigned lane = threadIdx.x;")
            self.put(1, f"const {self.index_type} row = blockIdx.x;")
        else:
            self.put(1, f"const unsigned lane = threadIdx.x % {lanes}u;")
            first = f"blockIdx.x * {self.number(many)} + threadIdx.x / {lanes}u"
            if guarded:
                self.put(1, f"const bool inside = {first} < {self.number(rows)};")
                first = f"inside ? {first} : 0u"
            self.put(1, f"const {self.index_type} row = {first};")
        self.axes_from(1, "row", parallel)
        self.hold_rows(passes, schedule, length, reduced)
        shared: dict[str, str] = {}
        left = False
        for number, one in enumerate(passes):
            if one.stored and guarded:
                self.put(1, "if (!inside) return;")
                left = True
            if one.members:
                what = "write the row" if one.stored else f"pass {number + 1} over the row"
                states = self.states(one)
                self.row_loop(schedule, length, reduced, what)
                self.elements(2, one.members, one.stored, states, schedule.width)
                self.put(1, "}")
                for v, name in states.items():
                    self.across_lanes(v, name, lanes, shared)
            for m in one.after:
                self.member(m, 1, self.read_outside)
        self.write_rest(passes, "lane == 0" if left or not guarded else "lane == 0 && inside")
        self.declare_shared(shared, schedule.threads // 32)
        held = ", held in registers" if self.registers else ""
        note = f"{rows} rows of {length}, {lanes} threads a row{held}"
        return self.finish("rows", schedule, note)

    def row_loop(self, s: Schedule, length: int, reduced: list[int], comment: str) -> None:
        """Open the loop of a thread over its part of a row."""
        t, n = self.index_type, self.number
        scale = f" * {n(s.width)}" if s.width > 1 else ""
        if s.steps:
            self.put(1, "#pragma unroll")
            self.put(1, f"for (unsigned u = 0; u < {s.steps}u; ++u) {{", comment)
            at = f"(u * {n(s.lanes)} + lane)" if s.steps > 1 else "lane"
            self.put(2, f"const {t} j = {at if scale else at.strip('()')}{scale};")
            if s.steps * s.lanes * s.width != length:
                self.put(2, f"if (j >= {n(length)}) continue;")
        else:
            stride = n(s.lanes * s.width)
            head = f"for ({t} j = lane{scale}; j < {n(length)}; j += {stride}) {{"
            self.put(1, head, comment)
        self.axes_from(2, "j", reduced)

    def hold_rows(self, passes: list[Pass], s: Schedule, length: int, reduced: list[int]) -> None:
        """Read what several passes need of a row into registers, where it fits there."""
        if s.width == 1 or not s.steps:
            return
        found: dict[tuple, list] = {}
        for number, one in enumerate(passes):
            for load in (o for m in one.members for o in m.operands if isinstance(o, Load)):
                if self.is_vector(load):
                    found.setdefault((load.key, load.dims), [load, set()])[1].add(number)
        again = {k: load for k, (load, where) in found.items() if len(where) > 1}
        itemsize = sum(storage_dtype(x.source.aval).itemsize for x in again.values())
        if not again or itemsize * s.width * s.steps > ROW_BYTES:
            return
        for k, load in enumerate(again.values()):
            self.put(1, f"{self.vector_of(load.source, s.width)} row{k}[{s.steps}];")
        self.row_loop(s, length, reduced, "read the row")
        for k, (key, load) in enumerate(again.items()):
            self.put(2, f"row{k}[u] = {self.vector_read(load, s.width)};")
            self.registers[key] = f"row{k}[u]"
        self.put(1, "}")

    def states(self, one: Pass) -> dict[Var, str]:
        """Declare a partial result for each reduction of a pass."""
        found: dict[Var, str] = {}
        for v in one.partial:
            name = found[v] = f"r{self.count}"
            self.count += 1
            eqn = self.group.made[v].eqn
            reducer = Reducer(eqn)
            line = f"{reducer.state} {name} = {reducer.identity};"
            self.put(1, line, self.comment(eqn, ""))
        return found

    def across_lanes(self, v: Var, name: str, lanes: int, shared: dict[str, str]) -> None:
        """Merge the partial results of the threads that share a row."""
        reducer = Reducer(self.group.made[v].eqn)
        if lanes > 32:
            part = shared.setdefault(reducer.state, f"part{len(shared)}")
            call = f"ga_block_reduce<{lanes // 32}>({name}, {part}, {reducer.merger})"
            self.put(1, f"{name} = {call};")
        elif lanes > 1:
            self.put(1, f"{name} = ga_warp_reduce<{lanes}>({name}, {reducer.merger});")
        self.close(v, name)

    def close(self, v: Var, name: str) -> None:
        """The finished reduction as a value of its declared dtype."""
        self.names[v] = name
        result = Reducer(self.group.made[v].eqn).finish(name)
        if result != name:
            self.names[v] = f"v{self.count}"
            self.count += 1
            self.put(1, f"const {ct.value_type(v.aval)} {self.names[v]} = {result};")

    def write_rest(self, passes: list[Pass], who: str) -> None:
        """Outputs over the parallel space alone: one thread of each row writes them."""
        rest = [v for v in self.outputs if not any(v in p.stored for p in passes)]
        if rest:
            self.put(1, f"if ({who}) {{")
            for v in rest:
                self.write(2, v)
            self.put(1, "}")

    def declare_shared(self, shared: dict[str, str], length: int) -> None:
        """Put the shared memory in front of everything."""
        self.lines[:0] = [f"    __shared__ {t} {name}[{length}];" for t, name in shared.items()]

    def all(self, one: Pass, rows: int, length: int) -> Emitted:
        """Few long rows, or a single one, in one launch: several blocks share a row."""
        parallel = [i for i in self.order if i not in self.group.reduced]
        reduced = [i for i in self.order if i in self.group.reduced]
        self.last = reduced[-1]
        s = schedule_all(rows, length, self.width())
        n = self.number
        first = "blockIdx.x"
        if rows > 1:
            self.put(1, f"const {self.index_type} row = blockIdx.x / {n(s.splits)};")
            self.axes_from(1, "row", parallel)
            first = f"blockIdx.x % {n(s.splits)}"
        states = self.states(one)
        scale = f" * {n(s.width)}" if s.width > 1 else ""
        first = f"{first} * {n(s.threads)} + threadIdx.x"
        first = f"({first}){scale}" if scale else first
        stride = n(s.threads * s.splits * s.width)
        self.put(1, "#pragma unroll 4")
        head = f"for ({self.index_type} j = {first}; j < {n(length)}; j += {stride}) {{"
        self.put(1, head)
        self.axes_from(2, "j", reduced)
        self.elements(2, one.members, [], states, s.width)
        self.put(1, "}")
        shared: dict[str, str] = {}
        for v, name in states.items():
            self.across_block(v, name, s, shared)
        which = " + row" if rows > 1 else ""
        base = f"row * {n(s.splits)} + " if rows > 1 else ""
        slots = "threadIdx.x == 0", "blockIdx.x", f"{base}b"
        work = self.hand_over(states, s, slots, rows, which, ("threadIdx.x", s.threads))
        for v, name in states.items():
            self.across_block(v, name, s, shared)
            self.close(v, name)
        for m in one.after:
            self.member(m, 1, self.read_outside)
        self.write_rest([], "threadIdx.x == 0")
        self.declare_shared(shared, s.threads // 32)
        what = f"{rows} rows of {length}" if rows > 1 else f"{length} elements"
        note = f"{what}, {s.splits} partial results each, merged in order"
        return self.finish("all", s, note, work)

    def across_block(self, v: Var, name: str, s: Schedule, shared: dict[str, str]) -> None:
        """Merge the partial results of all threads of a block."""
        reducer = Reducer(self.group.made[v].eqn)
        part = shared.setdefault(reducer.state, f"part{len(shared)}")
        call = f"ga_block_reduce<{s.threads // 32}>({name}, {part}, {reducer.merger})"
        self.put(1, f"{name} = {call};")

    def hand_over(
        self,
        states: dict[Var, str],
        s: Schedule,
        slots: tuple[str, str, str],
        rows: int,
        which: str,
        steps: tuple[str, int],
    ) -> int:
        """Leave partial results in the workspace; only the last block of a row goes on, and merges
        them in the order of the blocks. Returns the bytes of the workspace.

        slots: who writes, into which slot, and the slot of block `b` of the same row
        rows, which: how many rows have a ticket each, and the offset of this one's
        steps: where a thread starts to merge, and how far its next block is
        """
        writes, own, other = slots
        room = rows * s.splits * SLOT if s.kind == "all" else rows * 32 * s.splits * SLOT
        tickets = len(states) * room
        self.put(1, f"if ({writes}) {{")
        for k, name in enumerate(states.values()):
            self.put(2, f"ga_put(work + {self.number(k * room)}, {own}, {name});")
        self.put(2, "__threadfence();")
        self.put(1, "}")
        self.put(1, "__shared__ bool last;")
        self.put(1, "__syncthreads();")
        counter, top = f"(unsigned*)(work + {self.number(tickets)}){which}", f"{s.splits - 1}u"
        self.put(1, "// The ticket wraps to 0, ready for the next launch.")
        self.put(1, f"if (threadIdx.x == 0) last = atomicInc({counter}, {top}) == {top};")
        self.put(1, "__syncthreads();")
        self.put(1, "if (!last) return;")
        self.put(1, "__threadfence();")
        first, step = steps
        for k, (v, name) in enumerate(states.items()):
            reducer = Reducer(self.group.made[v].eqn)
            self.put(1, f"{name} = {reducer.identity};")
            self.put(1, f"for (unsigned b = {first}; b < {s.splits}u; b += {step}u) {{")
            got = f"ga_get<{reducer.state}>(work + {self.number(k * room)}, {other})"
            self.put(2, f"{name} = {reducer.merge(name, got)};")
            self.put(1, "}")
        return tickets + -(-4 * rows // SLOT) * SLOT

    def columns(self, passes: list[Pass], rows: int, length: int) -> Emitted:
        """Reductions down columns: 32 columns a block, 8 threads down each, several blocks a column
        where there are few.
        """
        single = len(passes) == 1 and not passes[0].stored
        s = schedule_columns(rows, length, single)
        parallel = [i for i in self.order if i not in self.group.reduced]
        reduced = [i for i in self.order if i in self.group.reduced]
        across = s.grid // s.splits
        n, t = self.number, self.index_type
        self.put(1, "const unsigned lane = threadIdx.x % 32u, deep = threadIdx.x / 32u;")
        block = "blockIdx.x"
        if s.splits > 1:
            block = "block"
            self.put(1, f"const {t} block = blockIdx.x % {n(across)};")
            self.put(1, f"const {t} cut = blockIdx.x / {n(across)};")
        self.put(1, f"const bool inside = {block} * {n(32)} + lane < {n(rows)};")
        self.put(1, f"const {t} column = inside ? {block} * {n(32)} + lane : 0u;")
        self.axes_from(1, "column", parallel)
        shared: dict[str, str] = {}
        work = 0
        for number, one in enumerate(passes):
            if one.stored:
                self.put(1, "if (!inside) return;")
            if one.members:
                what = "write the columns" if one.stored else f"pass {number + 1} down the columns"
                states = self.states(one)
                self.put(1, "#pragma unroll 8")
                first, step = "deep", s.lanes
                if s.splits > 1:
                    first, step = f"cut * {n(s.lanes)} + deep", s.lanes * s.splits
                head = f"for ({t} j = {first}; j < {n(length)}; j += {n(step)}) {{"
                self.put(1, head, what)
                self.axes_from(2, "j", reduced)
                self.elements(2, one.members, one.stored, states, 1)
                self.put(1, "}")
                self.across_columns(states, s, shared)
                if s.splits > 1:
                    slots = (
                        "deep == 0",
                        f"cut * {n(across * 32)} + {block} * 32u + lane",
                        (f"b * {n(across * 32)} + {block} * 32u + lane"),
                    )
                    work = self.hand_over(
                        states, s, slots, across, f" + {block}", ("deep", s.lanes)
                    )
                    self.across_columns(states, s, shared)
                for v, name in states.items():
                    self.close(v, name)
            for m in one.after:
                self.member(m, 1, self.read_outside)
        self.write_rest(passes, "deep == 0 && inside")
        self.declare_shared(shared, s.threads)
        cuts = f", {s.splits} blocks a column" if s.splits > 1 else ""
        note = f"{rows} columns of {length}, {s.lanes} threads a column{cuts}"
        return self.finish("columns", s, note, work)

    def across_columns(self, states: dict[Var, str], s: Schedule, shared: dict[str, str]) -> None:
        """Merge the partial results of the threads that share a column."""
        for v, name in states.items():
            reducer = Reducer(self.group.made[v].eqn)
            part = shared.setdefault(reducer.state, f"part{len(shared)}")
            call = f"ga_column_reduce<{s.lanes}>({name}, {part}, {reducer.merger})"
            self.put(1, f"{name} = {call};")

    def reads_along_columns(self) -> bool:
        """Whether neighbours in memory are neighbours in P: then threads go along columns."""
        along_p = along_r = 0
        parallel = set(self.group.parallel)
        for load in self.group.loads():
            if load.source in self.group.generators:
                continue
            index = self.load_index(load)
            for axis in range(len(self.group.axes)):
                if index.coefficient(axis) == 1 and load.source.aval.size > 1:
                    if axis in parallel:
                        along_p += load.source.aval.size
                    else:
                        along_r += load.source.aval.size
        return along_p > along_r

    # ---- the whole ----
    def finish(self, kind: str, schedule: Schedule, note: str, workspace: int = 0) -> Emitted:
        """The lines so far as a kernel."""
        name = self.group.name or "kernel"
        formulas = ", ".join(m.eqn.primitive.name for m in members_in_order(self.group))
        ins = [f"{self.in_name[v]} {v.aval.str_short(True)}" for v in self.inputs]
        outs = [f"{self.out_name[v]} {v.aval.str_short(True)}" for v in self.outputs]
        moved = sum(v.aval.nbytes for v in (*self.inputs, *self.outputs))
        params = [
            f"const {ct.memory_type(v.aval)}* __restrict__ {self.in_name[v]}" for v in self.inputs
        ]
        params += [
            f"{ct.memory_type(v.aval)}* __restrict__ {self.out_name[v]}" for v in self.outputs
        ]
        if workspace:
            params.append("unsigned char* work")
        self.drop_unused()
        head = [
            f"// {name}: {formulas}",
            f"//   {', '.join(ins) or 'no inputs'} -> {', '.join(outs)}    {moved} bytes",
            f"//   {note}; {schedule.grid} x {schedule.threads} threads",
            f'extern "C" __global__ void __launch_bounds__({schedule.threads}) {name}(',
            "    " + ",\n    ".join(params) + ") {",
        ]
        text = "\n".join([*head, *self.lines, "}"]) + "\n"
        return Emitted(name, text, schedule, self.inputs, self.outputs, workspace, kind)
