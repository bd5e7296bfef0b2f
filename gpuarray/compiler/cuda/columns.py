"""Reductions down columns: neighbouring threads take neighbouring columns, so reads are coalesced.

Floor 3. In: a Columns kernel. Out: its KernelSource.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.online import OnlineTemplate
from gpuarray.compiler.cuda.template import KernelSource, Options
from gpuarray.compiler.lower.kernel import Columns
from gpuarray.compiler.lower.online import join_passes
from gpuarray.compiler.lower.passes import Pass, once_each
from gpuarray.compiler.lower.schedule import (
    Schedule,
    schedule_columns,
    schedule_short_columns,
    turns_ahead,
)
from gpuarray.core.graph import Var


class ColumnsTemplate(OnlineTemplate):
    """Blocks of at most 32 columns with at least 8 threads each; several blocks may share a column
    if there is a single pass.
    """

    def __init__(self, kernel: Columns, options: Options):
        super().__init__(kernel, options)
        self.passes, self.columns, self.length = list(kernel.passes), kernel.columns, kernel.length

    def source(self) -> KernelSource:
        """One loop down the columns for each pass, with its reductions merged in between."""
        # Launch parameters. Several blocks for each column require a single pass that stores
        # nothing: only the last block knows the result.
        rows, length = self.columns, self.length
        passes = join_passes(self.group, self.passes)
        single = len(passes) == 1 and not passes[0].stored
        s = schedule_columns(
            rows, length, single, len(self.group.members), self.state_bytes(passes)
        )
        if s.lanes == 1 and single and not passes[0].halves:
            return self.each_alone(passes[0])
        # Adjacent columns of a block.
        wide = s.rows_a_block
        guarded = rows % wide != 0  # a thread without a column leaves before it stores
        if not any(one.halves for one in passes):
            passes = once_each(self.group, passes, lambda _: False, early=not guarded)
        parallel, reduced = self.spaces()
        # Adjacent blocks; `splits` of them share each column.
        across = s.grid // s.splits
        n, t = self.number, self.index_type
        # The column: `lane` across, `deep` down. A thread beyond the last column works on column 0,
        # since barriers need all threads, and stores nothing.
        lanes = f"lane = threadIdx.x % {wide}u, deep = threadIdx.x / {wide}u"
        if s.lanes == 1:
            lanes = "lane = threadIdx.x, deep = 0u"
        self.line(1, f"const unsigned {lanes};")
        # A block has columns, and where there are few of them only a cut of their length.
        block, cut = "blockIdx.x", "blockIdx.x"
        if s.splits > 1 and across > 1:
            block, cut = "block", "cut"
            self.line(1, f"const {t} block = blockIdx.x % {n(across)};")
            self.line(1, f"const {t} cut = blockIdx.x / {n(across)};")
        place = f"{block} * {n(wide)} + lane" if across > 1 else "lane"
        self.line(1, f"const bool inside = {place} < {n(rows)};")
        self.line(1, f"const {t} column = inside ? {place} : 0u;")
        self.define_axes(1, "column", parallel)
        # The passes.
        work = 0
        for number, one in enumerate(passes):
            if one.stored and guarded:
                self.line(1, "if (!inside) return;")
            if one.members or one.stored:
                what = f"pass {number + 1} down the columns" if one.partial else "write the columns"
                # Reads down a column do not depend on one another: several are under way at a time.
                ahead = turns_ahead(self.bytes_a_turn(1), s, 8, len(one.members))
                first, step = "deep", s.lanes
                if s.splits > 1:
                    first, step = f"{cut} * {n(s.lanes)} + deep", s.lanes * s.splits
                # The first thread of each column writes; slots of one block are adjacent.
                slots = (
                    "deep == 0",
                    f"{cut} * {n(across * wide)} + {place}",
                    f"b * {n(across * wide)} + {place}",
                )
                which = f" + {block}" if across > 1 else ""
                between = slots, across, 32, which, ("deep", s.lanes)
                if self.in_turns(one):
                    ahead = self.turns_at_most(one, 1, ahead, length / step)
                turns = self.turns_to(first, (0, length), step, ahead, 1, reduced)
                # A joined pass (softmax, variance): each turn folds some elements, and then adds
                # the terms that depend on the folds so far.
                if one.halves:
                    states, references = self.online_pass(one, turns, what)
                    if s.splits > 1:
                        work = self.merge_online_blocks(one, states, references, s, *between)
                    else:
                        self.merge_online(one, states, references, s)
                    continue
                states = self.declare_partials(one)
                if self.in_turns(one):
                    self.pass_in_turns(one, turns, states, what)
                else:
                    self.touched.begin(ahead)
                    self.line(1, f"#pragma unroll {ahead}")
                    head = f"for ({t} j = {first}; j < {n(length)}; j += {n(step)}) {{"
                    self.line(1, head, what)
                    self.define_axes(2, "j", reduced)
                    self.elements(2, one.members, one.stored, states, 1)
                    self.line(1, "}")
                # Merge the threads of a column, then its blocks.
                self.reduce_over_columns(states, s)
                if s.splits > 1:
                    work = self.merge_blocks(states, s, *between)
                    self.reduce_over_columns(states, s)
                for v, name in states.items():
                    self.finish_reduction(v, name)
            # Members that depend only on finished reductions, computed by every thread.
            for m in one.after:
                self.member(m, 1, self.read_outside)
        # Outputs of one element for each column: the first thread of each writes them.
        self.write_reduced(passes, "deep == 0 && inside")
        cuts = f", {s.splits} blocks a column" if s.splits > 1 else ""
        threads = f"{s.lanes} threads" if s.lanes > 1 else "a thread"
        note = f"{rows} columns of {length}, {threads} a column{cuts}"
        return self.finish(s, note, work)

    def each_alone(self, one: Pass) -> KernelSource:
        """Short columns: each thread goes down a few neighbours alone."""
        parallel, reduced = self.spaces()
        self.last = parallel[-1] if parallel else None
        # Results that are not simply the accumulator are named once, for one column.
        plain = all(self.reducer(v).results("r") == ["r"] for v in one.partial)
        width = self.width() if plain else 1
        s = schedule_short_columns(self.columns, self.length, width, self.bytes_a_turn(1))
        n, t, wide = self.number, self.index_type, s.width > 1
        first = f"blockIdx.x * {n(s.threads)} + threadIdx.x"
        self.line(1, f"const {t} column = {f'({first}) * {n(s.width)}' if wide else first};")
        if self.columns % (s.threads * s.width):
            self.line(1, f"if (column >= {n(self.columns)}) return;")
        self.define_axes(1, "column", parallel)
        states: dict[Var, str] = {}
        for v in one.partial:
            reducer, name = self.reducer(v), f"r{self.count}"
            self.count += 1
            states[v] = f"{name}[e]" if wide else name
            start = "" if wide else f" = {reducer.identity}"
            note = self.comment(reducer.eqn, "")
            self.line(1, f"{reducer.state} {name}{f'[{s.width}]' if wide else ''}{start};", note)
            if wide:
                self.line(1, "#pragma unroll")
                loop = f"for (unsigned e = 0; e < {s.width}u; ++e)"
                self.line(1, f"{loop} {states[v]} = {reducer.identity};")
        # All reads are under way together.
        self.touched.begin(self.length)
        self.line(1, "#pragma unroll")
        self.line(1, f"for (unsigned j = 0; j < {self.length}u; ++j) {{", "down the columns")
        self.define_axes(2, "j", reduced)
        self.elements(2, one.members, [], states, s.width)
        self.line(1, "}")
        for v, name in states.items():
            self.finish_reduction(v, name)
        rest = [v for v in self.outputs if v not in one.stored]
        self.elements(1, one.after, rest, {}, s.width)
        neighbours = f", {s.width} a thread" if wide else ", a thread each"
        return self.finish(s, f"{self.columns} columns of {self.length}{neighbours}")

    def reduce_over_columns(self, states: dict[Var, str], s: Schedule) -> None:
        """Merge the partial results of the threads that share a column."""
        for v, name in states.items():
            self.merge_fold(v, name, s)

    def merge_threads(self, name: str, state: str, merger: str, s: Schedule) -> None:
        if s.lanes == 1:
            return
        self.threads_meet = True
        call = f"{name}, {self.shared_array(state, s.threads)}, {merger}"
        self.line(1, f"{name} = ga_column_reduce<{s.lanes}, {s.rows_a_block}>({call});")
