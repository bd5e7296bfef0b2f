"""The base of all templates: signature, shared memory, partial results and their merging.

Floor 3. In: a Kernel. Out: `Template`, a Writer whose `source()` returns the finished
`KernelSource`. Each form of kernel has its subclass in a separate module.
"""

from __future__ import annotations

import abc
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.compiler.cuda.merging import MergedReducer
from gpuarray.compiler.cuda.writer import Writer
from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.kernel import Kernel, NoKernel, Rows
from gpuarray.compiler.lower.passes import Pass, is_by_graph
from gpuarray.compiler.lower.schedule import Schedule, blocks_held
from gpuarray.compiler.lower.steps import named_operations
from gpuarray.compiler.lower.traffic import Traffic
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.prelude import blocks
from gpuarray.compiler.text.reader import commented
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Index
from gpuarray.core.target import TARGET
from gpuarray.util import Struct


class KernelSource(Struct, eq=False):
    """One kernel as text for a target, and how to launch it.

    kernel: the kernel that the text implements

    inputs, outputs: the buffers that are its arguments, in this order. If `workspace` is not 0, one
    buffer of that many bytes follows. It must be zero before the first launch; each launch resets
    the tickets in it to zero, and does not need the rest of it to be.

    threads_meet: whether the threads of a block synchronise or exchange values

    table, tiles: of a Batch kernel only. If `table` is not empty, the kernel takes two arguments
    instead: a buffer with the addresses of these values (inputs and outputs, possibly repeated) as
    64-bit numbers in this order, and the constant array `tiles`.

    traffic: the bytes that a launch moves
    shared_bytes: shared memory of a block
    room: as much of it again, which the launch sets aside; less where a GPU does not have it
    neighbours: whether a thread reads or writes several elements in one access, where `schedule`
    has one element a thread
    rounded: what operands of products are rounded to, if to less than they are
    """

    kernel: Kernel
    text: str
    schedule: Schedule
    inputs: list[Var]
    outputs: list[Var]
    workspace: int = 0
    threads_meet: bool = False
    table: list[Var] = []
    tiles: np.ndarray | None = None
    traffic: Traffic = Traffic()
    shared_bytes: int = 0
    room: int = 0
    neighbours: bool = False
    rounded: str = ""

    @property
    def name(self) -> str:
        """The name of the function in the text."""
        return self.kernel.name

    @property
    def alignment(self) -> int:
        """Number of bytes that the address of every buffer must be a multiple of."""
        wide = self.schedule.width > 1 or self.neighbours
        return TARGET.vector_bytes if wide else 1


class Cell(Struct):
    """A partial result that blocks leave for one another: its name, its type and its bytes."""

    name: str
    type: str
    nbytes: int

    @property
    def slots(self) -> int:
        """Slots of the workspace that it takes."""
        return -(-self.nbytes // TARGET.slot_bytes)


class Options(Struct):
    """Options of the text.

    user_lines: whether comments name the user's lines
    aligned: whether all buffers are aligned to 16 bytes, so that vectors may be accessed; if not,
    elements are read and written one by one
    overlap: whether an output may share memory with an input; then no pointer is `__restrict__`
    tensor_cores: whether the GPU has those that sweeps use
    """

    user_lines: bool = False
    aligned: bool = True
    overlap: bool = False
    tensor_cores: bool = True


#: The options of kernels that are compiled to run on buffers of this package.
PLAIN = Options()


class Template(Writer, abc.ABC):
    """Text and launch of one kernel; each form has its subclass."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options.user_lines)
        self.aligned, self.rounded_to = options.aligned, ""
        # Without it the compiler must assume that each store may change the value of a later load.
        self.restrict = "" if options.overlap else "__restrict__ "
        self.threads_meet = self.neighbours = False
        self.structs: dict[str, tuple[str, int]] = {}  # types: name -> declaration and bytes
        self.shared: dict[str, str] = {}  # arrays in shared memory: name -> declaration
        self.room = 0  # bytes of shared memory that the launch sets aside
        self.partial = 0  # bytes of partial results that go from block to block
        self.mergers: dict[str, str] = {}  # how threads merge values: lambda -> its placeholder

    @abc.abstractmethod
    def source(self) -> KernelSource:
        """The text of the kernel."""

    def reducer(self, v: Var) -> Any:
        """The fold of a reduction: a `Reducer`, or a `MergedReducer` where a Graph merges."""
        by_graph = [m.eqn for m in self.group.members if is_by_graph(m)]
        eqn = self.group.made[v].eqn
        if eqn not in by_graph:
            return super().reducer(v)
        name = f"state{by_graph.index(eqn)}" if len(by_graph) > 1 else "state"
        reducer = MergedReducer(eqn, name, self.merger)
        self.structs[name] = reducer.struct, reducer.bytes
        return reducer

    def merged_next(self, reducer: Any, state: str, element: str) -> str:
        # Threads go up along rows; the prelude may have a shorter function for that (`f_next`).
        name = f"{reducer.function}_next"
        several = sum(self.axes[i] > 1 for i in self.group.reduced) > 1
        if name not in blocks() or several:
            return super().merged_next(reducer, state, element)
        return f"{name}({state}, {element})"

    def width(self) -> int:
        """Elements of a vector access; 1 if buffers may be unaligned."""
        # A vector access of an unaligned address is an error of the GPU.
        return super().width() if self.aligned else 1

    def between_ends(self) -> tuple[int, Index]:
        return super().between_ends() if self.aligned else (1, Index())

    # ---- values held in registers or shared memory across loops ----
    def declare_held(
        self,
        name: str,
        loads: dict[tuple, Load],
        width: int,
        count: int,
        place: str,
        shared: bool = False,
        depth: int = 1,
    ) -> list[tuple[str, Load]]:
        """Declare `count` vectors for each load, in registers or in shared memory.

        Returns the name of each load's vector at `place`, an index such as `[u]`.
        """
        made = []
        for k, load in enumerate(loads.values()):
            source = load.source
            # Held in its memory type: vectors of 16-bit values take half the registers of floats.
            kind = self.vector_of(source, width) if width > 1 else ct.memory_type(source.aval)
            text = f"{kind} {name}{k}" + (f"[{count}]" if count > 1 else "")
            # The array is declared by `finish`, on top of the kernel.
            if shared:
                self.shared[f"{name}{k}"] = text
            else:
                self.line(depth, f"{text};")
            made.append((f"{name}{k}{place if count > 1 else ''}", load))
        return made

    def declare_carried(
        self,
        slots: dict[Var, int],
        width: int,
        count: int,
        place: str,
        shared: bool = False,
        depth: int = 1,
    ) -> None:
        """Declare `count` vectors for each slot; a value with a slot is stored there when it is
        computed, and later loops read it back.
        """
        # Values whose lifetimes do not overlap share a slot, which is declared once.
        declared: set[int] = set()
        for v, k in slots.items():
            kind = self.vector_of(v, width) if width > 1 else ct.memory_type(v.aval)
            text = f"{kind} kept{k}" + (f"[{count}]" if count > 1 else "")
            if shared:
                self.shared[f"kept{k}"] = text
            elif k not in declared:
                self.line(depth, f"{text};")
            declared.add(k)
            element = ".v[e]" if width > 1 else ""
            self.carried[v] = f"kept{k}{place if count > 1 else ''}{element}"

    def read_held(self, room: list[tuple[str, Load]], width: int, depth: int = 2) -> None:
        """Read loads into their declared vectors; from here on elements come from there."""
        for name, load in room:
            text = self.vector_read(load, width, depth) if width > 1 else self.raw(load)
            self.line(depth, f"{name} = {text};")
            self.registers[load.key, load.dims] = name

    def raw(self, load: Load) -> str:
        """One element of an input in its memory type."""
        self.touched.note(load.source, self.load_index(load))
        return f"{self.in_name[load.source]}[{self.at(self.load_index(load))}]"

    def read(self, load: Load) -> str:
        held = self.registers.get((load.key, load.dims))
        if held is None:
            # Not held, or not yet: read it from memory.
            return super().read(load)
        return f"ga_value({held})" if ct.is_half(load.source.aval) else held

    def can_hold(self, load: Load, width: int) -> bool:
        """Whether a load can be held: read from memory, and varying along the vector axis."""
        # A vector load covers neighbours, so it already varies along the vector axis.
        if width > 1:
            return self.is_vector(load)
        return not self.is_inlined(load) and not self.is_constant_along(load)

    def declare_partials(self, one: Pass) -> dict[Var, str]:
        """Declare an accumulator for each reduction of a pass, set to the identity of its fold."""
        found: dict[Var, str] = {}
        for v in one.partial:
            name = found[v] = f"r{self.count}"
            self.count += 1
            reducer = self.reducer(v)
            line = f"{reducer.state} {name} = {reducer.identity};"
            self.line(1, line, self.comment(reducer.eqn, ""))
        return found

    def reread_loads(self, passes: list[Pass], width: int) -> dict[tuple, Load]:
        """The loads that more than one pass reads."""
        found: dict[tuple, tuple[Load, set[int]]] = {}
        for number, one in enumerate(passes):
            for load in (o for m in one.members for o in m.operands if isinstance(o, Load)):
                if self.can_hold(load, width):
                    found.setdefault((load.key, load.dims), (load, set()))[1].add(number)
        return {k: load for k, (load, where) in found.items() if len(where) > 1}

    def reduce_over_block(self, states: dict[Var, str], s: Schedule) -> None:
        """Merge the partial results of all threads of a block; every thread gets the results. Those
        that merge alike do so together: threads wait for one another once.
        """
        alike: dict[tuple[str, str], list[str]] = {}
        for v, name in states.items():
            reducer = self.reducer(v)
            alike.setdefault((reducer.state, reducer.merger), []).append(name)
        for (state, merger), names in alike.items():
            if len(names) == 1 or s.lanes < s.threads:
                for name in names:
                    self.merge_threads(name, state, self.merger(merger), s)
                continue
            self.threads_meet = True
            warps = s.threads // 32
            part = self.shared_array(state, warps * len(names))
            call = f"{part}, {self.merger(merger)}, {', '.join(names)}"
            self.line(1, f"ga_block_reduce_each<{warps}>({call});")

    def merger(self, text: str) -> str:
        """The placeholder of a lambda that merges values, until `finish` knows how often it is
        used.
        """
        return self.mergers.setdefault(text, f"@{len(self.mergers)}@")

    def name_mergers(self) -> list[str]:
        """Write lambdas where they are used once; return the declarations of the others."""
        text = "\n".join(self.lines)
        often = [merger for merger, mark in self.mergers.items() if text.count(mark) > 1]
        names = {m: f"merge{k}" if len(often) > 1 else "merge" for k, m in enumerate(often)}
        for merger, mark in self.mergers.items():
            self.lines = [_replaced(x, mark, names.get(merger, merger)) for x in self.lines]
        return [f"const auto {name} = {merger};" for merger, name in names.items()]

    def merge_threads(self, name: str, state: str, merger: str, s: Schedule) -> None:
        """The same for a value of a type."""
        self.threads_meet = True
        # Shuffles merge within a warp; one value of each warp goes through shared memory.
        warps, across = s.threads // 32, s.rows_a_block if s.lanes < s.threads else 1
        call = f"{name}, {self.shared_array(state, warps * across)}, {merger}"
        each = f"{warps}, {across}" if across > 1 else f"{warps}"
        self.line(1, f"{name} = ga_block_reduce<{each}>({call});")

    def finish_reduction(self, v: Var, name: str) -> None:
        """Name the result of a finished reduction, converted to its declared dtype."""
        reducer = self.reducer(v)
        for out, result in zip(reducer.eqn.outvars, reducer.results(name), strict=True):
            # Many folds need no finishing: their accumulator is the result.
            if result == name:
                self.names[out] = name
            else:
                self.name_result(1, out, result)

    def name_result(self, depth: int, v: Var, value: str) -> None:
        """Name an element of a result, for later computations."""
        name = self.names[v] = f"v{self.count}"
        self.count += 1
        self.line(depth, f"const {ct.value_type(v.aval)} {name} = {value};")

    def bytes_a_turn(self, width: int, members: Sequence[Member] = ()) -> int:
        """Bytes that a thread reads in one iteration of a loop along the reduced axes, of all that
        the kernel reads or for some members.
        """
        each = [o for m in members for o in m.operands if isinstance(o, Load)]
        loads = {
            (x.key, x.dims): x
            for x in (each if members else self.group.loads())
            if any(d in self.group.reduced for d in x.dims)
        }
        return width * sum(storage_dtype(x.source.aval).itemsize for x in loads.values())

    def write_reduced(self, passes: list[Pass], who: str) -> None:
        """Write outputs that have no reduced axis, by the one thread of each row for which the
        condition `who` holds.
        """
        # Outputs along the reduced axis were stored in a pass already.
        rest = [v for v in self.outputs if not any(v in p.stored for p in passes)]
        if rest:
            self.line(1, f"if ({who}) {{")
            for v in rest:
                self.write(2, v)
            self.line(1, "}")

    def set_order(self, order: list[int]) -> None:
        """Iterate over the axes in the given order, from the slowest to the fastest."""
        self.order = order
        self.axis_name = {i: f"i{k}" for k, i in enumerate(order)}
        self.whole = self.position_along(order)
        self.last = order[-1] if order else None

    def shared_array(self, state: str, length: int) -> str:
        """Name of the shared array for partial results of a type, at least so many.

        Reductions of one type reuse one array: each finishes reading before the next one writes.
        """
        for name, declaration in self.shared.items():
            if found := re.fullmatch(rf"{re.escape(state)} part\d+\[(\d+)\]", declaration):
                self.shared[name] = f"{state} {name}[{max(length, int(found[1]))}]"
                return name
        name = f"part{len(self.shared)}"
        self.shared[name] = f"{state} {name}[{length}]"
        return name

    def warp_bytes(self, passes: list[Pass]) -> int:
        """Bytes of shared memory that a warp needs for partial results."""
        # By type, as `shared_array` reuses the array of a type, for the pass with most of them.
        kinds: dict[str, int] = {}
        for one in passes:
            each = [self.reducer(v) for v in one.partial]
            for r in each:
                many = sum(other.state == r.state for other in each)
                kinds[r.state] = max(kinds.get(r.state, 0), many * r.bytes)
        return sum(kinds.values())

    def state_bytes(self, passes: list[Pass]) -> int:
        """Bytes of shared memory that a thread of a column needs for partial results."""
        # By type, as `shared_array` reuses the array of a type.
        kinds = {self.reducer(v).state: self.reducer(v).bytes for p in passes for v in p.partial}
        return sum(kinds.values())

    def partials_at(self, k: int) -> str:
        """Address at which the partial results of the reduction `k` begin in the workspace."""
        return f"work + cell{k}" if k else "work"

    def merge_blocks(
        self,
        states: dict[Var, str],
        s: Schedule,
        slots: tuple[str, str, str],
        rows: int,
        many: int,
        which: str,
        steps: tuple[str, int],
    ) -> int:
        """Merge the partial results of all blocks that share a row; returns the workspace bytes.

        Each block writes its results to the workspace and takes a ticket. The one that takes the
        last ticket merges them in the order of the blocks, not in that of their arrival, so that
        every run gives the same bits. The other blocks return.

        slots: condition under which a thread writes, its slot, and the slot of block `b`
        rows, many, which: number of tickets, results per ticket, and the offset of this ticket
        steps: block at which a thread begins to merge, and the distance to its next one
        """
        reducers = {name: self.reducer(v) for v, name in states.items()}
        cells = [Cell(name, r.state, r.bytes) for name, r in reducers.items()]
        work = self.leave_partials(cells, s, slots, rows, many, which)
        # Merge the results of all blocks: each thread takes every n-th block.
        for k, cell in enumerate(cells):
            reducer = reducers[cell.name]
            self.line(1, f"{cell.name} = {reducer.identity};")
            self.open_blocks(s, steps)
            got = self.left_by(cell, k, slots[2])
            self.line(2, f"{cell.name} = {reducer.merge(cell.name, got)};")
            self.line(1, "}")
        return work

    def leave_partials(
        self,
        cells: list[Cell],
        s: Schedule,
        slots: tuple[str, str, str],
        rows: int,
        many: int,
        which: str,
    ) -> int:
        """Write the results of each block, and end all blocks but the last one of a row.

        Returns the bytes of the workspace.
        """
        self.threads_meet = True
        # The layout of the workspace: for each reduction one slot for each block, then the tickets.
        # A slot is a multiple of a vector access, so that reading it takes few transactions.
        writes, own, _ = slots
        room = self.slots_of(s, rows, many) * TARGET.slot_bytes
        starts = list(itertools.accumulate((c.slots for c in cells), initial=0))
        tickets = starts.pop()
        # Each block writes its results as words, and the last one reads them.
        words = sum(-(-c.nbytes // 4) for c in cells)
        self.partial = 4 * (words * s.grid * s.rows_a_block + rows)
        # Write this block's results. __threadfence makes them visible to all other blocks before
        # the ticket is: a thread that sees the last ticket sees every result.
        named = [f"cell{k} = {self.behind(n, room)}" for k, n in enumerate(starts[1:], 1)]
        named.append(f"tickets = {self.behind(tickets, room)}")
        line = f"const {self.index_type} {', '.join(named)};"
        self.line(1, line, "in the workspace")
        self.line(1, f"if ({writes}) {{")
        for k, cell in enumerate(cells):
            put = "ga_put" if cell.slots == 1 else f"ga_put<{cell.slots * TARGET.slot_bytes}>"
            self.line(2, f"{put}({self.partials_at(k)}, {own}, {cell.name});")
        self.line(2, "__threadfence();")
        self.line(1, "}")
        self.line(1, "__shared__ bool last;")
        # Take a ticket, after all writes of this block: thread 0 takes it, and if it is the only
        # one that writes, program order is enough.
        if writes != "threadIdx.x == 0":
            self.line(1, "__syncthreads();")
        counter, top = f"(unsigned*)(work + tickets){which}", self.sharing(s, but=1)
        self.line(1, "// The ticket wraps to 0, ready for the next launch.")
        # atomicInc returns the old count and wraps at `top`: no launch has to clear the tickets.
        self.line(1, f"if (threadIdx.x == 0) last = atomicInc({counter}, {top}) == {top};")
        self.line(1, "__syncthreads();")
        # All threads return together, so no barrier below waits for one that has returned. The
        # second fence keeps reads of the results from being moved before the ticket.
        self.line(1, "if (!last) return;")
        self.line(1, "__threadfence();")
        # Tickets are 4 bytes each, rounded up to whole slots.
        return tickets * room + -(-4 * rows // TARGET.slot_bytes) * TARGET.slot_bytes

    def slots_of(self, s: Schedule, rows: int, many: int) -> int:
        """How many slots of the workspace all blocks need for a partial result of one slot."""
        return rows * many * s.splits

    def behind(self, slots: int, room: int) -> str:
        """The start of the part of the workspace behind partial results of so many slots, `room`
        bytes each of all blocks.
        """
        return self.number(slots * room)

    def sharing(self, s: Schedule, but: int = 0) -> str:
        """How many blocks share a row, without `but` of them."""
        return f"{s.splits - but}u"

    def open_blocks(self, s: Schedule, steps: tuple[str, int]) -> None:
        """Open the loop of a thread of the last block over the blocks' results."""
        first, step = steps
        if s.splits > 8 * step:  # several reads under way hide their latency
            self.line(1, "#pragma unroll 8")
        self.line(1, f"for (unsigned b = {first}; b < {self.sharing(s)}; b += {step}u) {{")

    def left_by(self, cell: Cell, k: int, slot: str) -> str:
        """A block's result in its slot of the reduction `k`."""
        far = "" if cell.slots == 1 else f", {cell.slots * TARGET.slot_bytes}"
        return f"ga_get<{cell.type}{far}>({self.partials_at(k)}, {slot})"

    def finish(self, schedule: Schedule, note: str, workspace: int = 0) -> KernelSource:
        """The finished kernel: the lines so far under their signature."""
        if schedule.grid > TARGET.most_blocks:
            raise NoKernel(
                f"{self.kernel.name} would be {schedule.grid} blocks, and a launch has at most "
                f"{TARGET.most_blocks}: work on a part of the array at a time"
            )
        # The comment at the top: operations, arguments, bytes moved, launch.
        name = self.kernel.name
        formulas = named_operations(self.group)
        ins = _listed(self.inputs, self.in_name)
        outs = _listed(self.results, self.out_name)
        moved = self.touched.traffic(self.written(), self.partial, schedule.width, self.last)
        # The parameters, in the order in which backends pass buffers.
        params = [
            f"const {ct.memory_type(v.aval)}* {self.restrict}{self.in_name[v]}" for v in self.inputs
        ]
        params += [
            f"{ct.memory_type(v.aval)}* {self.restrict}{self.out_name[v]}" for v in self.results
        ]
        if workspace:
            params.append("unsigned char* work")
        # Before the text is assembled, since only now is it known which positions are read.
        self.tidy()
        # Types, shared arrays and mergers are declared on top: which of them a template needs is
        # known only now.
        top = [f"    {text}" for text, _ in self.structs.values()]
        top += [f"    __shared__ {text};" for text in self.shared.values()]
        top += [f"    {text}" for text in self.name_mergers()]
        top += self.alignments()
        sizes = {name: nbytes for name, (_, nbytes) in self.structs.items()}
        shared = sum(ct.declared_bytes(t, sizes) for t in self.shared.values())
        # Where a multiprocessor has few blocks, the compiler need not save registers for more of
        # them, and reads further ahead. With more than one it must have enough all the same.
        many = schedule
        if type(self.kernel) is Rows and schedule.splits == 1:
            # How many rows there are is no part of their text: one compiles for all numbers.
            many = schedule.replace(grid=TARGET.most_blocks)
        bounds, held = f"{schedule.threads}", blocks_held(many, shared + self.room)
        few = held == 1 or 4 * held * schedule.threads <= TARGET.threads_held
        if self.group.reduced and few:
            bounds += f", {held}"
        head = [
            f"// {name}: {formulas}",
            f"//   {', '.join(ins) or 'no inputs'} -> {', '.join(outs)}    {moved.total} bytes",
            f"//   {note}; {schedule.grid} x {schedule.threads} threads",
            f'extern "C" __global__ void __launch_bounds__({bounds}) {name}(',
            "    " + ",\n    ".join(params) + ") {",
        ]
        text = "\n".join([*head, *top, *self.lines, "}"]) + "\n"
        return KernelSource(
            self.kernel,
            text,
            schedule,
            self.inputs,
            self.results,
            workspace,
            self.threads_meet,
            traffic=moved,
            shared_bytes=shared,
            room=self.room,
            neighbours=self.neighbours,
            rounded=self.rounded_to,
        )

    def alignments(self) -> list[str]:
        """Lines that tell the compiler how inputs are aligned of which threads read neighbours, so
        that it joins their accesses.
        """
        runs = self.touched.in_runs() if self.aligned else set()
        made = []
        for v in self.inputs:
            if v in runs:
                name, kind = self.in_name[v], ct.memory_type(v.aval)
                text = f"__builtin_assume_aligned({name}, {TARGET.vector_bytes})"
                made.append(f"    {name} = (const {kind}*){text};")
                self.neighbours = True
        return made

    def written(self) -> dict[Var, int]:
        """Bytes that are written of each output: all of it."""
        return {v: v.aval.nbytes for v in self.results}


def _listed(values: Sequence[Var], names: dict[Var, str]) -> list[str]:
    """The names and types of arguments; many of one type as the first and the last of them."""
    found: list[str] = []
    for kind, alike in itertools.groupby(values, lambda v: v.aval.str_short(True)):
        each = [names[v] for v in alike]
        listed = [f"{each[0]} to {each[-1]}"] if len(each) > TARGET.listed else each
        found += [f"{name} {kind}" for name in listed]
    return found


def _replaced(line: str, mark: str, text: str) -> str:
    """A line with a text in the place of a mark; its comment begins where it would have."""
    if mark not in line:
        return line
    code, _, comment = line.replace(mark, text).partition("  //")
    return commented(code.rstrip(), comment.strip() or None)
