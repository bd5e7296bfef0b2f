"""Scans: along rows by the threads of a block together, down columns by one thread each or, where
columns are few, by the threads of a block in pieces.

Floor 3. In: a Scan kernel. Out: its KernelSource. Each thread merges a few neighbours along the
axis, the block computes for it the merge of all threads before it, and if an axis has several tiles
blocks look back at the published results of earlier ones. The order of merging depends only on
shapes, so every run gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuarray.compiler.cuda.merging import merging_of
from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Load, members_in_order
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.scans import cut_of, state_words
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import bracketed
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var
from gpuarray.core.target import TARGET


class Row(NamedTuple):
    """A test whether a thread has a row at all, if it may have none, and the end of its
    elements.
    """

    inside: str
    end: str

    def has(self, place: str) -> str:
        """The test whether there is an element at a place."""
        return f"{self.inside}{place} < {self.end}"


class ScanTemplate(Template):
    """A scan of one array, or of several that a Graph merges."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        # The scan, then its epilogue.
        self.scan, *self.epilogue = members_in_order(kernel.group)
        eqn = self.scan.eqn
        self.axis, self.reverse = eqn.params["axis"], eqn.params["reverse"]
        self.cut = cut_of(eqn)
        self.apart = 0  # how far the vectors of a thread are apart
        self.merging = merging_of(eqn)
        self.loads = [x for x in self.scan.operands if isinstance(x, Load)]
        rank = len(kernel.group.axes)
        # Axes before and after the scanned one.
        self.outer, self.inner = list(range(self.axis)), list(range(self.axis + 1, rank))
        if self.merging.struct is not None:
            self.structs[self.merging.state] = self.merging.struct

    def source(self) -> KernelSource:
        """The kernel along rows or down columns, depending on the axis's place in memory."""
        if self.cut.in_rows:
            return self.rows()
        return self.tiles_of_columns() if self.cut.across else self.columns()

    # ---- parts ----
    def merge(self, one: str, two: str) -> str:
        return self.merging.merge(one, two)

    def define_merge(self, in_block: bool) -> None:
        """Define `merge`, where functions of the prelude call it or it is more than an operator."""
        if in_block or self.merging.struct is not None:
            for line in self.merging.merger:
                self.line(1, line)

    def set_position(self, position: str) -> None:
        """Set the position along the axis; a reverse scan begins at its end."""
        # Elements are taken in scan order, so a reverse scan only maps positions.
        last = self.number(self.cut.length - 1)
        self.axis_name[self.axis] = f"({last} - {position})" if self.reverse else position

    def element_here(self, depth: int, scope: Fetched) -> str:
        """The element at the position, as a partial result."""
        if len(self.loads) == 1:
            return self.merging.lift([bracketed(self.element_of(self.loads[0], depth, scope))])
        return self.merging.lift([self.operand(x, scope, depth) for x in self.loads])

    def store(self, depth: int, value: str, guard: str, scope: Fetched) -> None:
        """Store the value of a partial result, or of its epilogue."""
        results = self.scan.eqn.outvars
        if self.outputs == results and len(results) == 1:
            (v,), (text,) = results, self.merging.finish(value)
            at = self.at(self.output_index(v))
            self.line(depth, f"{guard}{self.out_name[v]}[{at}] = {self.in_memory(v, text)};")
            return
        if guard:
            self.line(depth, f"{guard}{{")
        inside = depth + bool(guard)
        self.name_results(inside, value)
        self.element(inside, self.epilogue, self.outputs, {}, scope)
        if guard:
            self.line(depth, "}")

    def name_results(self, depth: int, value: str) -> None:
        """Name the results that a partial result comes to."""
        results = self.scan.eqn.outvars
        if len(results) > 1 and not value.isidentifier():
            self.line(depth, f"const {self.merging.state} y = {value};")
            value = "y"
        for v, text in zip(results, self.merging.finish(value), strict=True):
            if self.is_used(v):
                self.name_result(depth, v, ct.rounded(text, v.aval))

    def is_used(self, v: Var) -> bool:
        """Whether a result is stored, or used by the epilogue."""
        inner = (o for m in self.epilogue for o in m.operands if not isinstance(o, Load))
        return v in self.outputs or any(getattr(o, "var", None) is v for o in inner)

    def in_memory(self, v: Var, value: str) -> str:
        """A result converted to its memory type."""
        if not ct.is_half(v.aval):
            return value
        return f"ga_exact<{ct.memory_type(v.aval)}>({ct.rounded(value, v.aval)})"

    def note(self, what: str) -> str:
        way = " from the end" if self.reverse else ""
        return f"scan of {what}{way}" + (", in tiles that look back" if self.cut.looks_back else "")

    # ---- down columns ----
    def columns(self) -> KernelSource:
        """A thread for each column; neighbours are coalesced."""
        c, n, t = self.cut, self.number, self.index_type
        total = c.outer * c.inner
        s = Schedule(TARGET.scan_threads, 1, max(1, -(-total // TARGET.scan_threads)))
        self.line(1, f"const {t} i = blockIdx.x * {n(TARGET.scan_threads)} + threadIdx.x;")
        self.line(1, f"if (i >= {n(total)}) return;")
        self.define_axes(1, "i", [*self.outer, *self.inner])
        self.define_merge(in_block=False)
        self.line(1, f"{self.merging.state} sum = {self.merging.none};")
        # Unrolled, since reads do not depend on the sum and can overlap.
        self.touched.begin(8)
        self.line(1, "#pragma unroll 8")
        self.line(1, f"for ({t} j = {n(0)}; j < {n(c.length)}; ++j) {{")
        self.set_position("j")
        scope: Fetched = {}
        element = self.element_here(2, scope)
        self.line(2, f"sum = {self.merge('sum', element)};")
        self.store(2, "sum", "", scope)
        self.line(1, "}")
        return self.finish(s, self.note(f"{total} columns of {c.length}"))

    def tiles_of_columns(self) -> KernelSource:
        """A block for a tile of neighbouring columns, whose threads go down pieces of each."""
        c, n, t = self.cut, self.number, self.index_type
        total, across = c.outer * c.inner, c.across
        deep, blocks = TARGET.scan_threads // across, -(-total // across)
        s = Schedule(TARGET.scan_threads, 1, blocks * c.pieces)
        self.threads_meet = True
        # Which column, and where in it.
        self.line(1, f"const unsigned lane = threadIdx.x % {across}u;", "the column of the tile")
        block = "blockIdx.x"
        if c.looks_back:
            self.draw_tile(s.grid)
            block = "drawn"
            # The tiles at the same place of all columns begin before later ones.
            self.line(1, f"const unsigned tile = drawn / {blocks}u;")
        at = "lane" if blocks == 1 else f"{block} % {n(blocks)} * {n(across)} + lane"
        self.line(1, f"const {t} i = {at};")
        inside = ""
        if total % across:
            inside = f" && i < {n(total)}"
        self.define_axes(1, "i", [*self.outer, *self.inner])
        first = f"tile * {n(c.step)} + " if c.looks_back else ""
        self.name_position(1, "j", f"{first}threadIdx.x / {across}u * {n(c.items)}")
        self.define_merge(in_block=True)
        # Each thread's own elements.
        state, none = self.merging.state, self.merging.none
        self.touched.begin(c.items)
        self.merge_own(1, f"j + e < {n(c.length)}{inside}", c.items)
        # The merge of all elements before them: in the tile, then in earlier tiles.
        self.shared["part"] = f"{state} part[{TARGET.scan_threads}]"
        self.line(1, f"{state} whole;")
        call = f"ga_column_scan<{deep}, {across}>(sum, part, {none}, whole, merge)"
        self.line(1, f"{state} ahead = {call};", "of this thread's")
        if c.looks_back:
            words = "(unsigned long long*)work + 2"
            column = "i" if not self.wide else "(unsigned)i"
            where = f"{self.words}u, launch, {total}u, {column}, {c.pieces}u, tile"
            call = (
                f"ga_look_back_down<{deep}, {across}>({words}, {where}, whole, part, {none}, merge)"
            )
            self.line(1, f"const {state} before = {call};")
            self.line(1, f"ahead = {self.merge('before', 'ahead')};")
        self.store_each(1, f"j + e < {n(c.length)}{inside}", c.items, True)
        work = self.end_launch(s.grid) if c.looks_back else 0
        note = self.note(f"{total} columns of {c.length}") + f", {c.items} elements a thread"
        return self.finish(s, note, work)

    # ---- along rows ----
    def rows(self) -> KernelSource:
        """A block for each row, or each tile of one; several short rows share a block."""
        # Launch numbers: `lanes` threads a row, `items` neighbours a thread, `many` rows a block.
        c, n, t = self.cut, self.number, self.index_type
        items = c.items
        # As many threads as cover a row, a power of two, and at most a full block.
        lanes = 1
        while lanes * items < min(c.length, TARGET.scan_threads * items):
            lanes *= 2
        many = TARGET.scan_threads // lanes if lanes < 32 else 1
        blocks = -(-c.outer // many) if many > 1 else c.outer * c.pieces
        # Vectors need elements in the order of memory.
        vectors = items > 1 and not self.reverse and self.in_vectors()
        width = TARGET.scan_items if vectors else 1
        s = Schedule(max(32, lanes * many), width, max(1, blocks), lanes)
        # Which row and tile, and the merge that the block functions call.
        inside = self.which_row(lanes, many, s.grid)
        begin, end = self.bounds()
        state, none = self.merging.state, self.merging.none
        self.threads_meet = lanes > 1
        self.define_merge(in_block=lanes > 1)
        if lanes > 32:
            self.shared["part"] = f"{state} part[{lanes // 32}]"
        note = self.note(f"{c.outer} rows of {c.length}")
        note += f", {items} elements a thread" if c.looks_back else f", {lanes} threads a row"
        # A block goes over its row by tiles; `before` is the merge of all tiles so far.
        several = (c.step if c.looks_back else c.length) > lanes * items
        before = "before" if several else ""
        if several:
            self.line(1, f"{state} before = {none};")
        depth, first = 1, "" if begin == n(0) else begin
        if several:
            tile = n(lanes * items)
            self.line(1, f"for ({t} tile = {begin}; tile < {end}; tile += {tile}) {{")
            depth, first = 2, "tile"
        step = f"lane * {n(items)}" if items > 1 else "lane"
        # Vectors of a warp are neighbours, not those of a thread, where that costs few merges.
        striped = items > width > 1 and lanes > 32 and not several and self.merging.is_cheap
        self.apart = 32 * width if striped else width
        if self.apart > width:
            step = f"lane / 32u * {n(32 * items)} + lane % 32u * {n(width)}"
        self.name_position(depth, "j", f"{first} + {step}" if first else step)
        # Merge each thread's elements, then scan over threads: `ahead` is the merge of all elements
        # before this thread's, `whole` that of the tile. Both need every thread of the row, so
        # threads beyond its end contribute the identity.
        self.touched.begin(items // width)
        self.merge_elements(depth, end, items, width)
        if lanes > 1:
            call = f"ga_warp_scan<{lanes}>(sum, {none}, whole, merge)"
            if lanes > 32:
                scan = "ga_scan_of_warps" if self.apart > width else "ga_block_scan"
                call = f"{scan}<{lanes // 32}>(sum, part, {none}, whole, merge)"
            self.line(depth, f"{state} whole;")
            self.line(depth, f"{state} ahead = {call};", "of this thread's")
            if c.looks_back:
                self.look_back(state, none)
                before = "before"
            if before:
                self.line(depth, f"ahead = {self.merge(before, 'ahead')};")
        # Write the results, and add the tile to `before`.
        self.store_elements(depth, Row(inside, end), items, width, lanes > 1)
        if several:
            self.line(depth, f"before = {self.merge('before', 'whole')};")
            self.line(1, "}")
        return self.finish(s, note, self.end_launch(s.grid) if c.looks_back else 0)

    def in_vectors(self) -> bool:
        """Whether the elements of a thread are read and written in one access."""
        self.last = self.axis
        return self.width() >= TARGET.scan_items

    def which_row(self, lanes: int, many: int, blocks: int) -> str:
        """Define the row and tile of a thread; return a test if it may have none."""
        # Short rows share a block, and its last rows may not exist.
        n, t, inside, block = self.number, self.index_type, "", "blockIdx.x"
        if many > 1:
            self.line(1, f"const unsigned lane = threadIdx.x % {lanes}u;")
            row = f"blockIdx.x * {n(many)} + threadIdx.x / {lanes}u"
            if self.cut.outer % many:
                self.line(1, f"const bool inside = {row} < {n(self.cut.outer)};")
                row, inside = f"inside ? {row} : 0u", "inside && "
        else:
            self.line(1, "const unsigned lane = threadIdx.x;")
            if self.cut.looks_back:
                self.draw_tile(blocks)
                block = "drawn"
            row = f"{block} / {n(self.cut.pieces)}" if self.cut.looks_back else block
        if self.cut.outer != 1:
            self.line(1, f"const {t} row = {row};")
        if self.cut.looks_back:
            piece = block if self.cut.outer == 1 else f"{block} % {n(self.cut.pieces)}"
            self.line(1, f"const {t} piece = {piece};")
        self.define_axes(1, "row", self.outer)
        return inside

    def bounds(self) -> tuple[str, str]:
        """Define where a tile begins and ends; the last one may be shorter."""
        c, n = self.cut, self.number
        if not c.looks_back:
            return n(0), n(c.length)
        self.line(1, f"const {self.index_type} begin = piece * {n(c.step)};")
        end = f"begin + {n(c.step)}"
        if c.length % c.step:
            end = f"piece == {n(c.pieces - 1)} ? {n(c.length)} : {end}"
        self.line(1, f"const {self.index_type} end = {end};")
        return "begin", "end"

    # ---- merging and storing by a thread ----
    def merge_elements(self, depth: int, end: str, items: int, width: int) -> None:
        """Merge the elements of a thread: `run[e]` up to each, or `sum` if it has a single one."""
        if width > 1:
            self.merge_vectors(depth, end, items, width)
        elif items > 1:
            self.merge_own(depth, f"j + e < {end}", items)
        else:
            self.line(depth, f"{self.merging.state} sum = {self.merging.none};")
            self.set_position("j")
            # The element's lines belong inside the test: they read memory.
            outside, self.lines = self.lines, []
            element = self.element_here(depth + 1, {})
            lines, self.lines = self.lines, outside
            self.line(depth, f"if (j < {end}) {{")
            self.lines += lines
            self.line(depth + 1, f"sum = {self.merge('sum', element)};")
            self.line(depth, "}")

    def merge_own(self, depth: int, guard: str, items: int) -> None:
        """Merge the elements of a thread one by one; each has its own test."""
        self.line(depth, f"{self.merging.state} run[{items}], sum = {self.merging.none};")
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {items}u; ++e) {{")
        self.set_position("(j + e)")
        self.line(depth + 1, f"if ({guard}) {{")
        element = self.element_here(depth + 2, {})
        self.line(depth + 2, f"sum = {self.merge('sum', element)};")
        self.line(depth + 1, "}")
        self.line(depth + 1, "run[e] = sum;")
        self.line(depth, "}")

    def merge_vectors(self, depth: int, end: str, items: int, width: int) -> None:
        """Merge the elements of a thread, which come as vectors."""
        state, none, sum_ = self.merging.state, self.merging.none, "sum"
        striped = self.apart > width
        far = f", far[{items // width}]" if striped else ""
        self.line(depth, f"{state} run[{items}]{far}, sum = {none};")
        # A whole vector is inside or outside the row, since rows are multiples of it.
        place, at, inside = self.open_vectors(depth, items, width)
        if striped:
            sum_ = "own"
            self.line(inside, f"{state} own = {none}, all;")
        self.line(inside, f"if ({place} < {end}) {{")
        self.set_position(bracketed(place))
        elements, scope = [], {}
        for k, load in enumerate(self.loads):
            name = f"x{k}" if len(self.loads) > 1 else "x"
            read = self.vector_read(load, width, inside + 1, scope)
            self.line(inside + 1, f"const {self.vector_of(load.source, width)} {name} = {read};")
            half = ct.is_half(load.source.aval)
            elements.append(f"ga_value({name}.v[e])" if half else f"{name}.v[e]")
        self.line(inside + 1, "#pragma unroll")
        self.line(inside + 1, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        merged = self.merge(sum_, self.merging.lift(elements))
        self.line(inside + 2, f"run[{at}e] = {sum_} = {merged};")
        self.line(inside + 1, "}")
        self.line(inside, "}")
        if striped:
            scan = f"ga_warp_scan<32>(own, {none}, all, merge)"
            self.line(inside, f"far[q] = {self.merge('sum', scan)};", "what the warp has before")
            self.line(inside, f"sum = {self.merge('sum', 'all')};")
        if at:
            self.line(depth, "}")

    def open_vectors(self, depth: int, items: int, width: int) -> tuple[str, str, int]:
        """Open the loop over a thread's vectors, if it has several; where one begins, where its
        elements are in `run`, and the depth inside.
        """
        if items == width:
            return "j", "", depth
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned q = 0; q < {items // width}u; ++q) {{")
        return f"j + q * {self.number(self.apart)}", f"q * {width}u + ", depth + 1

    def result_of(self, own: str, ahead: bool) -> str:
        """An element's partial result, merged with those of earlier threads and tiles."""
        return self.merge("ahead", own) if ahead else own

    def store_elements(self, depth: int, row: Row, items: int, width: int, ahead: bool) -> None:
        """Write the results of a thread: its running merge with everything ahead of it."""
        if width > 1:
            self.store_vectors(depth, row, items, width, ahead)
        elif items > 1:
            self.store_each(depth, row.has("j + e"), items, ahead)
        else:
            self.set_position("j")
            self.store(depth, self.result_of("sum", ahead), f"if ({row.has('j')}) ", {})

    def store_each(self, depth: int, guard: str, items: int, ahead: bool) -> None:
        """Write the results of a thread one by one."""
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {items}u; ++e) {{")
        self.set_position("(j + e)")
        self.store(depth + 1, self.result_of("run[e]", ahead), f"if ({guard}) ", {})
        self.line(depth, "}")

    def store_vectors(self, depth: int, row: Row, items: int, width: int, ahead: bool) -> None:
        """Write the results of a thread, or of its epilogue, as vectors."""
        place, at, inside = self.open_vectors(depth, items, width)
        self.set_position(bracketed(place))
        self.line(inside, f"if ({row.has(place)}) {{")
        own = f"run[{at}e]"
        if self.apart > width:
            own = bracketed(self.merge("far[q]", own))
        deep, value = inside + 1, self.result_of(own, ahead)
        results = self.scan.eqn.outvars
        fetched = self.fetch(deep, self.epilogue, width)
        contiguous = [x for x in self.outputs if self.is_unit_stride(self.output_index(x))]
        # Of several vectors each is numbered.
        alone = self.outputs == results and len(results) == 1
        vectors = {out: "y" if alone else f"y{k}" for k, out in enumerate(contiguous)}
        for out, name in vectors.items():
            self.line(deep, f"{self.vector_of(out, width)} {name};")
        self.line(deep, "#pragma unroll")
        self.line(deep, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        # A scan without epilogue stores its running results directly.
        if alone:
            (v,), (text,) = results, self.merging.finish(value)
            self.line(deep + 1, f"y.v[e] = {self.in_memory(v, text)};")
        else:
            with self.inside_vector():
                self.name_results(deep + 1, value)
                self.element(deep + 1, self.epilogue, self.outputs, {}, fetched, vectors)
        self.line(deep, "}")
        for out, name in vectors.items():
            self.line(
                deep, f"ga_store({self.out_name[out]} + {self.at(self.output_index(out))}, {name});"
            )
        self.line(inside, "}")
        if at:
            self.line(depth, "}")

    # ---- tiles that look back ----
    @property
    def words(self) -> int:
        """Words that tiles publish for one number: one for each tile, for groups of 32, and for
        groups of these.
        """
        groups = -(-self.cut.pieces // 32)
        each = self.cut.pieces + groups + -(-groups // 32)
        return self.cut.outer * self.cut.inner * each

    def draw_tile(self, blocks: int) -> None:
        """Number the tiles as their blocks begin, and the launches: words of an earlier launch have
        another number, so no launch has to clear them.
        """
        self.threads_meet = True
        self.line(1, "__shared__ unsigned drawn, launch;")
        self.line(1, "if (threadIdx.x == 0) {")
        self.line(2, f"drawn = atomicInc((unsigned*)work, {blocks - 1}u);")
        self.line(2, "launch = ((volatile unsigned*)work)[2] + 1u;")
        self.line(1, "}")
        self.line(1, "__syncthreads();")

    def look_back(self, state: str, none: str) -> None:
        """Compute the merge of the tiles of a row before this one."""
        at = "(unsigned long long*)work + 2"
        if self.cut.outer > 1:
            at += f" + row * {self.number(self.words // self.cut.outer)}"
        self.line(1, f"__shared__ {state} before;")
        tiles = (
            f"{self.words}u, launch, {self.cut.pieces}u, {'(unsigned)' if self.wide else ''}piece"
        )
        self.line(1, "if (threadIdx.x < 32u) {")
        self.line(2, f"const {state} found = ga_look_back({at}, {tiles}, whole, {none}, merge);")
        self.line(2, "if (threadIdx.x == 0) before = found;")
        self.line(1, "}")
        self.line(1, "__syncthreads();")

    def end_launch(self, blocks: int) -> int:
        """The block that ends last notes that this launch is over; returns the workspace bytes."""
        c = self.cut
        struct = self.merging.struct
        parts = state_words(self.scan.eqn) if struct is None else -(-struct[1] // 4)
        # Published by each tile, and by the last one of each group.
        told = c.outer * c.inner * (c.pieces + c.pieces // 32 + c.pieces // 1024) * parts
        self.partial = 8 * told + 12
        self.line(
            1, "// Nobody asks for the number of this launch any more when the last block is here."
        )
        self.line(1, "if (threadIdx.x == 0) {")
        self.line(2, "__threadfence();")
        last = f"atomicInc((unsigned*)work + 1, {blocks - 1}u) == {blocks - 1}u"
        self.line(2, f"if ({last}) {{")
        self.line(3, "__threadfence();")
        self.line(3, "((volatile unsigned*)work)[2] = launch;")
        self.line(2, "}")
        self.line(1, "}")
        return 16 + 8 * self.words * parts
