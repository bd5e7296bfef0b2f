"""Reductions along contiguous rows: part of a warp, a block, or several blocks share each row.

Floor 3. In: a Rows kernel. Out: its KernelSource.
"""

from __future__ import annotations

import numpy as np

from gpuarray.compiler.cuda.stretches import RowLoops
from gpuarray.compiler.cuda.template import KernelSource, Options
from gpuarray.compiler.cuda.turns import Turns
from gpuarray.compiler.fuse.group import Inner, Load, Member
from gpuarray.compiler.lower.kernel import Rows
from gpuarray.compiler.lower.online import join_passes
from gpuarray.compiler.lower.passes import Pass, once_each
from gpuarray.compiler.lower.schedule import (
    Schedule,
    schedule_all,
    schedule_rows,
    turns_ahead,
)
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.target import TARGET


class RowsTemplate(RowLoops):
    """A block for each row, or for several short rows."""

    def __init__(self, kernel: Rows, options: Options):
        super().__init__(kernel, options)
        self.rows, self.length = kernel.rows, kernel.length

    def source(self) -> KernelSource:
        """One loop over the row for each pass, with its reductions merged in between."""
        # Launch parameters. Vectors run along the fastest reduced axis, so that reads are
        # coalesced.
        passes, rows, length = self.passes, self.rows, self.length
        parallel, reduced = self.spaces()
        # The vector axis decides `width`, and with it the schedule.
        self.last = reduced[-1]
        width = self.width()
        schedule = schedule_rows(rows, length, width, self.bytes_a_turn(width))
        # Rows that registers do not hold may have whole vectors between their ends.
        wide = width if schedule.steps else self.width_between_ends(length, reduced)
        if wide > width:
            schedule = schedule_rows(rows, length, wide, self.bytes_a_turn(wide)).replace(steps=0)
        lanes, many = schedule.lanes, schedule.rows_a_block
        # Rows whose elements are side by side in memory may share a block.
        across = self.rows_across(schedule, parallel, rows)
        if across > 1:
            schedule = schedule.replace(threads=lanes * across, grid=rows // across)
            many = across
        # The row, and the thread within it. In the last block some threads may have no row: they
        # take row 0, since shuffles and barriers need all threads of a warp or block, and store
        # nothing.
        guarded = rows % many != 0
        # A block for each row, or several rows in a block that share its threads.
        if many == 1:
            self.line(1, "const unsigned lane = threadIdx.x;")
            self.line(1, f"const {self.index_type} row = blockIdx.x;")
        elif across > 1:
            self.line(1, f"const unsigned lane = threadIdx.x / {across}u;")
            first = f"blockIdx.x * {self.number(across)} + threadIdx.x % {across}u"
            self.line(1, f"const {self.index_type} row = {first};")
        else:
            self.line(1, f"const unsigned lane = threadIdx.x % {lanes}u;")
            first = f"blockIdx.x * {self.number(many)} + threadIdx.x / {lanes}u"
            if guarded:
                self.line(1, f"const bool inside = {first} < {self.number(rows)};")
                first = f"inside ? {first} : 0u"
            self.line(1, f"const {self.index_type} row = {first};")
        self.define_axes(1, "row", parallel)
        if wide > width:
            self.find_ends(length)
        # Read values needed by several passes into registers or shared memory.
        passes, held = self.hold(passes, schedule, length, reduced, guarded)
        # The passes. Only before the last one, the only one that stores then, may threads leave.
        left = False
        for number, one in enumerate(passes):
            if one.stored and guarded:
                self.line(1, "if (!inside) return;")
                left = True
            if one.halves:
                turns = self.turns_of(one, schedule, length, reduced)
                what = f"pass {number + 1} over the row"
                self.merge_online(one, *self.online_pass(one, turns, what), schedule)
                continue
            if one.members or one.stored:
                what = f"pass {number + 1} over the row" if one.partial else "write the row"
                states = self.declare_partials(one)
                for part in self.stretches:
                    self.enter(part)
                    if self.is_long(schedule) and self.reads_in_turns(one, schedule.width):
                        turns = self.turns_of(one, schedule, length, reduced, self.part.first)
                        self.pass_in_turns(one, turns, states, what)
                        self.has_filled(one.members, schedule.width)
                        continue
                    self.open_stretch(schedule, length, reduced, what, one.members)
                    self.elements(2, one.members, one.stored, states, schedule.width)
                    self.line(1, "}")
                # Every thread of the row gets the result: the next pass needs it.
                self.reduce_over_lanes(states, schedule)
            # Members that need only finished reductions: every thread computes them.
            for m in one.after:
                self.member(m, 1, self.read_outside)
        # Outputs of one element for each row.
        self.write_reduced(passes, "lane == 0" if left or not guarded else "lane == 0 && inside")
        note = f"{rows} rows of {length}, {lanes} threads a row{held}"
        return self.finish(schedule, note)

    def rows_across(self, s: Schedule, parallel: list[int], rows: int) -> int:
        """How many rows a block has whose elements fill a sector of memory together."""
        along = {i for i in self.group.reduced if self.axes[i] > 1}
        loads = {(x.key, x.dims): x for x in self.group.loads()}
        wide = [x for x in loads.values() if along <= set(x.dims)]
        nbytes = sum(storage_dtype(x.source.aval).itemsize for x in wide)
        # Of rows that registers hold: shared memory has room for one in each block.
        held = 0 < 2 * s.steps * s.width * nbytes <= TARGET.row_bytes
        if not parallel or self.last is None or not held or s.rows_a_block > 1:
            return 1
        inner, run, across = parallel[-1], self.axes[self.last], 1
        for load in (x for x in wide if not self.is_inlined(x)):
            index = self.load_index(load)
            if self.is_unit_stride(index) and index.coefficient(inner) == run:
                size = run * storage_dtype(load.source.aval).itemsize
                across = max(across, TARGET.sector_bytes // size)
        fits = s.threads * across <= TARGET.threads_held // 2
        return across if fits and rows % across == 0 == self.axes[inner] % across else 1

    def hold(
        self, passes: list[Pass], s: Schedule, length: int, reduced: list[int], guarded: bool
    ) -> tuple[list[Pass], str]:
        """Hold values of a row that several passes need, in registers, or else in shared memory.

        Returns the passes without the work that is now done once, and a note for the text. Without
        room, passes read the row again.
        """
        # An early pass may store only if all threads have a row: no thread can leave before a
        # merge.
        group, early = self.group, not guarded
        # Shared memory besides the row: a partial result for each warp.
        parts = self.warp_bytes(passes) * s.threads // 32
        room_left = min(TARGET.row_shared_bytes, TARGET.shared_bytes - parts)
        # First choice: compute shared values once and carry them. Second: hold only what is read.
        lean = once_each(group, passes, self.is_worth_carrying, early)
        plain = once_each(group, passes, lambda _: False, early)
        for chosen in (lean, plain) if any(one.carried for one in lean) else (plain,):
            loads, slots = self.reread_loads(chosen, s.width), _slots(chosen)
            # Bytes of one element in all slots and held loads.
            room = {n: storage_dtype(v.aval).itemsize for v, n in slots.items()}
            size = sum(room.values())
            size += sum(storage_dtype(x.source.aval).itemsize for x in loads.values())
            if not size:
                return chosen, ""
            # Registers if the most that is held at one time fits; else shared memory, where each
            # thread uses its own locations, so that no barrier is needed.
            elements = s.width * s.steps
            # An operand takes a whole register, and half of them are for the rest.
            words = _most_at_once(chosen, loads, 4) * elements // 4
            fits = _most_at_once(chosen, loads) * elements <= TARGET.row_bytes
            if s.steps and fits and 2 * words * s.threads <= TARGET.registers:
                where, place, count = "registers", "[u]", s.steps
            # The row in its own order, indexed by position: only with one row for each block.
            elif size * length <= room_left and s.rows_a_block == 1 and self.ends is None:
                where, count = "shared memory", length // s.width
                place = f"[j / {self.number(s.width)}]" if s.width > 1 else "[j]"
            else:
                continue
            shared = where == "shared memory"
            self.declare_carried(slots, s.width, count, place, shared)
            if loads and shared:
                names = self.declare_held("row", loads, s.width, count, place, shared)
                self.open_row_loop(s, length, reduced, "read the row")
                self.read_held(names, s.width)
                self.line(1, "}")
            elif loads:
                self.read_row(loads, s, length, reduced)
            # `row` names a vector of each load; passes read elements of it from here on.
            return chosen, f", held in {where}"
        # Rows that do not fit are read again: as few times as possible, and once if a launch can
        # set aside shared memory for them.
        joined = [] if s.steps else join_passes(group, self.passes)
        if len(joined) != 1 and (stretches := self.hold_apart(plain, s, length, reduced)):
            self.stretches = stretches
            beside = " and registers" if len(stretches) > 1 else ""
            return plain, f", held in shared memory of the launch{beside}"
        return joined if any(one.halves for one in joined) else plain, ""

    def read_row(
        self,
        loads: dict[tuple, Load],
        s: Schedule,
        length: int,
        reduced: list[int],
        name: str = "row",
        comment: str = "read the row",
    ) -> None:
        """Read what is held of a row into registers."""
        names = self.declare_held(name, loads, s.width, s.steps, "[u]")
        self.open_row_loop(s, length, reduced, comment)
        self.read_held(names, s.width)
        self.line(1, "}")

    def is_worth_carrying(self, member: Member) -> bool:
        """Whether to carry a value instead of recomputing it from the held part of the row.

        Not if it is one cheap operation on a single held load that is no larger.
        """
        # Operands along the row, from memory or from other members.
        loads = [o for o in member.operands if isinstance(o, Load) and self.last in o.dims]
        wide = [o for o in member.operands if isinstance(o, Inner) and self.is_wide(o)]
        if wide or len(loads) != 1 or member.eqn.primitive.weight > 1 or self.is_inlined(loads[0]):
            return True
        held = storage_dtype(loads[0].source.aval).itemsize
        return held > storage_dtype(member.eqn.outvars[0].aval).itemsize

    def is_wide(self, o: Inner) -> bool:
        return any(d in self.group.reduced for d in self.group.made[o.var].dims)

    def reduce_over_lanes(self, states: dict[Var, str], s: Schedule) -> None:
        """Merge the partial results of the threads that share a row."""
        # More than a warp merges in shared memory; a warp or a part of it by shuffles alone.
        if s.lanes > 32:
            self.reduce_over_block(states, s)
        for v, name in states.items():
            if 1 < s.lanes <= 32:
                self.threads_meet = True
                merger = self.merger(self.reducer(v).merger)
                self.line(1, f"{name} = ga_warp_reduce<{s.lanes}>({name}, {merger});")
            self.finish_reduction(v, name)


def _last_reads(passes: list[Pass]) -> dict[Var | tuple, int]:
    """The last pass that reads a value or a load."""
    last: dict[Var | tuple, int] = {}
    for number, one in enumerate(passes):
        last.update((v, number) for v in one.stored)
        for o in (o for m in one.members for o in m.operands):
            if isinstance(o, Load):
                last[o.key, o.dims] = number
            elif isinstance(o, Inner):
                last[o.var] = number
    return last


def _most_at_once(passes: list[Pass], loads: dict[tuple, Load], least: int = 1) -> int:
    """The most bytes per element that are held at one time from pass to pass; each value counts for
    `least` bytes or more.
    """
    # A load is held from the start to its last read, a carried value from its pass on.
    last = _last_reads(passes)
    spans = [(0, last[key], load.source) for key, load in loads.items()]
    spans += [(number, last[v], v) for number, one in enumerate(passes) for v in one.carried]
    return max(
        sum(
            max(least, storage_dtype(v.aval).itemsize)
            for first, end, v in spans
            if first <= number < end
        )
        for number in range(len(passes))
    )


def _slots(passes: list[Pass]) -> dict[Var, int]:
    """Slot number of each carried value; a slot is reused after the last pass that reads it."""
    last = _last_reads(passes)
    slots: list[tuple[np.dtype, int]] = []  # dtype of each, and the last pass that reads it
    found: dict[Var, int] = {}
    for number, one in enumerate(passes):
        for v in one.carried:
            # A slot of the same dtype whose last reader has run; otherwise a new one.
            dtype = storage_dtype(v.aval)
            free = (k for k, (kind, end) in enumerate(slots) if kind == dtype and end < number)
            slot = next(free, len(slots))
            slots[slot : slot + 1] = [(dtype, last[v])]
            found[v] = slot
    return found


class SharedRowsTemplate(RowsTemplate):
    """Few long rows, or a single one, in one launch: several blocks share each."""

    def source(self) -> KernelSource:
        """Fold a part of a row in each block; the last block of the row merges all parts."""
        (one,), rows, length = join_passes(self.group, self.passes), self.rows, self.length
        self.passes = [one]  # no block holds a row for another pass
        parallel, reduced = self.spaces()
        self.last = reduced[-1]
        width = self.width_between_ends(length, reduced)
        s = schedule_all(rows, length, width)
        n = self.number
        # Which row, and where this block begins in it: neighbouring blocks share a row.
        first = "blockIdx.x"
        if rows > 1:
            self.line(1, f"const {self.index_type} row = blockIdx.x / {n(s.splits)};")
            self.define_axes(1, "row", parallel)
            first = f"blockIdx.x % {n(s.splits)}"
        if width > self.width():
            self.line(1, f"const unsigned lane = {first} * {n(s.threads)} + threadIdx.x;")
            self.find_ends(length)
        # Fold by strides of all blocks of the row.
        scale = f" * {n(s.width)}" if s.width > 1 else ""
        first = f"{first} * {n(s.threads)} + threadIdx.x"
        first = f"({first}){scale}" if scale else first
        stride = n(s.threads * s.splits * s.width)
        # Several reads of each thread are under way at a time.
        ahead = turns_ahead(self.bytes_a_turn(s.width), s, 4, len(one.members))
        # The place of the partial results of a row's blocks: which thread writes one, to which
        # slot, and the b-th slot of the row.
        which = " + row" if rows > 1 else ""
        base = f"row * {n(s.splits)} + " if rows > 1 else ""
        slots = "threadIdx.x == 0", "blockIdx.x", f"{base}b"
        between = slots, rows, 1, which, ("threadIdx.x", s.threads)
        if one.halves:
            turns = self.turns_of_part(one, s, first, ahead, reduced)
            states, references = self.online_pass(one, turns, "a part of the row")
            return self.written_by_last(
                s, self.merge_online_blocks(one, states, references, s, *between)
            )
        states = self.declare_partials(one)
        if self.ends is not None:
            turns = self.turns_of_part(one, s, first, ahead, reduced)
            self.pass_in_turns(one, turns, states, "a part of the row")
        else:
            self.touched.begin(ahead)
            self.line(1, f"#pragma unroll {ahead}")
            head = f"for ({self.index_type} j = {first}; j < {n(length)}; j += {stride}) {{"
            self.line(1, head)
            self.define_axes(2, "j", reduced)
            self.elements(2, one.members, [], states, s.width)
            self.line(1, "}")
        # Merge within the block, then all blocks of the row.
        self.reduce_over_block(states, s)
        work = self.merge_blocks(states, s, *between)
        self.reduce_over_block(states, s)
        for v, name in states.items():
            self.finish_reduction(v, name)
        # The last block finishes the row.
        for m in one.after:
            self.member(m, 1, self.read_outside)
        return self.written_by_last(s, work)

    def turns_of_part(
        self, one: Pass, s: Schedule, first: str, ahead: int, reduced: list[int]
    ) -> list[Turns]:
        """The turns of the blocks of a row, each `ahead` vectors or as many as registers hold."""
        step = s.threads * s.splits * s.width
        ahead = self.turns_at_most(one, s.width, ahead, self.length / step)
        if self.ends is not None:
            return self.turns_between_ends(self.length, step // s.width, ahead, s.width, reduced)
        return self.turns_to(first, (0, self.length), step, ahead, s.width, reduced)

    def written_by_last(self, s: Schedule, work: int) -> KernelSource:
        """Write the results of rows, and finish the kernel."""
        rows, length = self.rows, self.length
        self.write_reduced([], "threadIdx.x == 0")
        what = f"{rows} rows of {length}" if rows > 1 else f"{length} elements"
        note = f"{what}, {s.splits} partial results each, merged in order"
        return self.finish(s, note, work)
