"""Running folds: along rows by the threads of a block together, down columns by one thread each.

Floor 3. In: a Scan kernel. Out: its KernelSource. Along a row each thread folds a few neighbours,
a block scan gives it the fold of all threads before it, and the block repeats that tile by tile.
The order in which elements are merged depends on shapes alone, so every run gives the same bits.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Load, members_in_order
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.scans import (
    Cut,
    cut_of,
    is_piecewise,
    looks_back,
    makes_totals,
    reads_totals,
)
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.compiler.text.reader import bracketed
from gpuarray.core.index import Index
from gpuarray.core.target import TARGET


class ScanTemplate(Template):
    """A running fold: along rows by blocks, down columns by single threads."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options)
        group = kernel.group
        # The scan, then what is done to each element of its result.
        self.scan, *self.epilogue = members_in_order(group)
        eqn = self.scan.eqn
        self.axis, self.reverse = eqn.params["axis"], eqn.params["reverse"]
        self.cut: Cut = cut_of(eqn.invars[0].aval, self.axis)
        self.reducer_of = Reducer(eqn)
        # In two kernels: the first only ends with totals, the second begins from them.
        self.ends, self.begins = makes_totals(eqn), reads_totals(eqn)
        self.pieces = self.cut.pieces if is_piecewise(eqn) else 1
        # Or in one, whose blocks tell one another what their tiles come to.
        tiles = looks_back(eqn)
        self.waits = tiles is not None
        if tiles is not None:
            self.cut, self.pieces = tiles, tiles.pieces
        assert isinstance(self.scan.operands[0], Load)
        self.x = self.scan.operands[0]
        rank = len(group.axes)
        # Axes before the scanned one and behind it.
        self.outer, self.inner = list(range(self.axis)), list(range(self.axis + 1, rank))

    def source(self) -> KernelSource:
        """The kernel along rows or down columns, as the axis lies in memory."""
        return self.rows() if self.cut.in_rows else self.columns()

    # ---- parts ----
    def merge(self, one: str, two: str) -> str:
        return self.reducer_of.merge(one, two)

    def set_position(self, position: str) -> None:
        """Set the position along the axis; a reverse scan begins at its end."""
        # Elements are taken in scan order, so a reverse scan only maps positions.
        last = self.number(self.cut.length - 1)
        self.axis_name[self.axis] = f"({last} - {position})" if self.reverse else position

    def scanned(self, depth: int) -> str:
        return self.reducer_of.lift(bracketed(self.element_of(self.x, depth, {})), "0u")

    def store(self, depth: int, value: str, guard: str = "") -> None:
        if self.epilogue:
            if guard:
                self.line(depth, f"{guard}{{")
            (v,) = self.scan.eqn.outvars
            self.name_result(depth + bool(guard), v, ct.rounded(value, v.aval))
            self.element(depth + bool(guard), self.epilogue, self.outputs, {}, {})
            if guard:
                self.line(depth, "}")
            return
        (v,) = self.outputs
        at, value = self.at(self.output_index(v)), self.as_stored_text(value)
        self.line(depth, f"{guard}{self.out_name[v]}[{at}] = {value};")

    def as_stored_text(self, value: str) -> str:
        """A result converted to its memory type."""
        aval = self.outputs[0].aval
        if not ct.is_half(aval):
            return value
        return f"ga_exact<{ct.memory_type(aval)}>({ct.rounded(value, aval)})"

    def total_index(self, piece: str, row: str) -> str:
        """Index of the total of a piece, in an array of rows x pieces x columns."""
        inner, n = self.cut.inner, self.number
        # Rows x pieces x columns, with the parts left out that have length 1.
        if self.cut.outer == 1:
            return piece if inner == 1 else f"{piece} * {n(inner)} + {row}"
        outer = row if inner == 1 else f"{row} / {n(inner)}"
        at = (
            f"({outer}) * {n(self.pieces)} + {piece}"
            if "/" in outer
            else (f"{outer} * {n(self.pieces)} + {piece}")
        )
        return at if inner == 1 else f"({at}) * {n(inner)} + {row} % {n(inner)}"

    def bounds(self) -> tuple[str, str]:
        """Define where a piece begins and ends; the last one may be shorter."""
        c, n = self.cut, self.number
        if self.pieces == 1:
            return n(0), n(c.length)
        self.line(1, f"const {self.index_type} begin = piece * {n(c.step)};")
        end = f"begin + {n(c.step)}"
        if c.length % c.step:
            end = f"piece == {n(self.pieces - 1)} ? {n(c.length)} : {end}"
        self.line(1, f"const {self.index_type} end = {end};")
        return "begin", "end"

    # ---- down columns ----
    def columns(self) -> KernelSource:
        """A thread for each column, or for each piece of one; neighbours are coalesced."""
        # Which column and piece.
        c, n, t = self.cut, self.number, self.index_type
        columns = c.outer * c.inner
        # A thread for each column and piece; neighbours take neighbouring columns.
        total = columns * self.pieces
        s = Schedule(TARGET.scan_threads, 1, max(1, -(-total // TARGET.scan_threads)))
        self.line(1, f"const {t} i = blockIdx.x * {n(TARGET.scan_threads)} + threadIdx.x;")
        self.line(1, f"if (i >= {n(total)}) return;")
        column = "i"
        if self.pieces > 1:
            self.line(1, f"const {t} column = i % {n(columns)};")
            self.line(1, f"const {t} piece = i / {n(columns)};")
            column = "column"
        self.define_axes(1, column, [*self.outer, *self.inner])
        begin, end = self.bounds()
        state = self.reducer_of.state
        self.line(1, f"{state} sum = {self.reducer_of.neutral};")
        self.note_totals()
        # Second kernel of a scan in pieces: begin with the totals of the pieces before this one.
        if self.begins:
            self.line(1, "#pragma unroll 8")
            self.line(1, f"for ({t} p = 0; p < piece; ++p) {{", "the pieces before this one")
            before = f"{self.in_name[self.inputs[1]]}[{self.total_index('p', column)}]"
            self.line(2, f"sum = {self.merge('sum', before)};")
            self.line(1, "}")
        # Fold down the column; unrolled, since reads do not depend on the sum and can overlap.
        self.touched.begin(8)
        self.line(1, "#pragma unroll 8")
        self.line(1, f"for ({t} j = {begin}; j < {end}; ++j) {{")
        self.set_position("j")
        element = self.scanned(2)
        self.line(2, f"sum = {self.merge('sum', element)};")
        # The first kernel of a scan in pieces keeps only the total.
        if not self.ends:
            self.store(2, self.reducer_of.finish("sum"))
        self.line(1, "}")
        if self.ends:
            out = self.out_name[self.outputs[0]]
            self.line(1, f"{out}[{self.total_index('piece', column)}] = sum;")
        return self.finish(s, self.note(f"{columns} columns of {c.length}"))

    def note_totals(self) -> None:
        """Note that each piece reads the totals of all before it."""
        if self.begins:
            totals, c = self.inputs[1], self.cut
            before = c.outer * (self.pieces - 1) * c.inner
            self.touched.note(totals, Index.axis(0, totals.aval.size), before)

    def note(self, what: str) -> str:
        way = " from the end" if self.reverse else ""
        cut = f", {self.pieces} pieces each" if self.pieces > 1 else ""
        return f"scan of {what}{way}{cut}"

    # ---- along rows ----
    def rows(self) -> KernelSource:
        """A block for each row, or each piece of one; several short rows share a block."""
        # Launch numbers: `lanes` threads a row, `items` neighbours a thread, `many` rows a block.
        c, n, t = self.cut, self.number, self.index_type
        items = TARGET.scan_items if c.length > 32 else 1
        items = TARGET.scan_tile_items if self.waits else items
        # As many threads as cover a row, a power of two, and at most a full block.
        lanes = 1
        while lanes * items < min(c.length, TARGET.scan_threads * items):
            lanes *= 2
        many = TARGET.scan_threads // lanes if lanes < 32 else 1
        blocks = -(-c.outer // many) if many > 1 else c.outer * self.pieces
        # Vectors need elements in the order of memory; totals are folded by strides of the block
        # instead.
        vectors = items > 1 and not (self.reverse or self.ends) and self.in_vectors()
        width = TARGET.scan_items if vectors else 1
        s = Schedule(max(32, lanes * many), width, max(1, blocks), lanes)
        # Which row and piece, and the merge that the block functions call.
        inside = self.which_row(lanes, many)
        begin, end = self.bounds()
        reducer = self.reducer_of
        state, none = reducer.state, reducer.neutral
        self.threads_meet = lanes > 1
        if lanes > 1:
            self.line(1, f"const auto merge = {reducer.merger};")
        if lanes > 32:
            self.shared["part"] = f"{state} part[{lanes // 32}]"
        note = self.note(f"{c.outer} rows of {c.length}") + f", {lanes} threads a row"
        if self.waits:
            what = self.note_tiles(f"{c.outer} rows of {c.length}")
            note = f"{what}, {items} elements a thread"
        # First kernel of a scan in pieces: only the total of the piece.
        if self.ends:
            self.store_piece_total(begin, end, lanes)
            return self.finish(s, note)
        # `before` is the fold of all tiles so far; in the second kernel it begins with the totals
        # of the pieces before this one, of which there are no more than lanes.
        several = (c.step if self.pieces > 1 else c.length) > lanes * items
        before = "before" if several else ""
        self.note_totals()
        if self.begins:
            before = "before"
            at = f"{self.in_name[self.inputs[1]]}[{self.total_index('lane', 'row')}]"
            self.line(1, f"{state} before = lane < piece ? {at} : {none};")
            self.line(1, f"before = ga_block_reduce<{lanes // 32}>(before, part, merge);")
        elif several:
            self.line(1, f"{state} before = {none};")
        depth, first = 1, "" if begin == n(0) else begin
        # Go over the row by tiles.
        if several:
            tile = n(lanes * items)
            self.line(1, f"for ({t} tile = {begin}; tile < {end}; tile += {tile}) {{")
            depth, first = 2, "tile"
        step = f"lane * {n(items)}" if items > 1 else "lane"
        self.line(depth, f"const {t} j = {f'{first} + {step}' if first else step};")
        # Fold each thread's elements, then scan over threads: `ahead` is the fold of all elements
        # before this thread's, `whole` that of the tile. Both need every thread of the row, so
        # threads beyond its end take part with the neutral element.
        self.touched.begin(items // width)
        self.fold_own_elements(depth, end, items, width)
        if lanes > 1:
            call = f"ga_warp_scan<{lanes}>(sum, {none}, whole, merge)"
            if lanes > 32:
                call = f"ga_block_scan<{lanes // 32}>(sum, part, {none}, whole, merge)"
            self.line(depth, f"{state} whole;")
            self.line(depth, f"{state} ahead = {call};", "of this thread's")
            if self.waits:
                self.look_back(state, none)
                before = "before"
            if before:
                self.line(depth, f"ahead = {self.merge(before, 'ahead')};")
        # Write the results, and add the tile to `before`.
        self.store_elements(depth, f"{inside}j < {end}", items, width, lanes > 1, end)
        if several:
            self.line(depth, f"before = {self.merge('before', 'whole')};")
            self.line(1, "}")
        return self.finish(s, note, self.leave_words() if self.waits else 0)

    # ---- tiles that look back ----
    @property
    def words(self) -> int:
        """Words that the tiles of a row tell: each, groups of 32, and groups of these."""
        groups = -(-self.pieces // 32)
        return self.pieces + groups + -(-groups // 32)

    def note_tiles(self, what: str) -> str:
        return f"scan of {what}{' from the end' if self.reverse else ''}, in tiles that look back"

    def draw_tile(self) -> None:
        """Number the tiles as their blocks begin."""
        last = f"{self.cut.outer * self.pieces - 1}u"
        self.threads_meet = True
        self.line(1, "__shared__ unsigned drawn;")
        self.line(1, f"if (threadIdx.x == 0) drawn = atomicInc((unsigned*)work, {last});")
        self.line(1, "__syncthreads();")

    def look_back(self, state: str, none: str) -> None:
        """Find what the tiles before this one come to."""
        at = "(unsigned long long*)work + 1"
        if self.cut.outer > 1:
            at += f" + row * {self.number(self.words)}"
        self.line(1, f"__shared__ {state} before;")
        tiles = f"{self.pieces}u, {'(unsigned)' if self.wide else ''}piece"
        self.line(1, "if (threadIdx.x < 32u) {")
        self.line(2, f"const {state} found = ga_look_back({at}, {tiles}, whole, {none}, merge);")
        self.line(2, "if (threadIdx.x == 0) before = found;")
        self.line(1, "}")
        self.line(1, "__syncthreads();")

    def leave_words(self) -> int:
        """The block that ends last leaves all words as they were; returns the workspace bytes."""
        words = self.cut.outer * self.words
        last = f"{self.cut.outer * self.pieces - 1}u"
        # Told by each tile, and by the last one of each group; then all are zero again.
        told = self.cut.outer * (self.pieces + self.pieces // 32 + self.pieces // 1024)
        self.partial = 8 * (told + words) + 8
        self.line(1, "__shared__ bool last;")
        self.line(1, "// Nobody looks back any more when the last block is here.")
        self.line(1, "if (threadIdx.x == 0) {")
        self.line(2, "__threadfence();")
        self.line(2, f"last = atomicInc((unsigned*)work + 1, {last}) == {last};")
        self.line(1, "}")
        self.line(1, "__syncthreads();")
        self.line(1, "if (!last) return;")
        self.line(1, "__threadfence();")
        self.line(
            1, f"for (unsigned k = threadIdx.x; k < {words}u; k += {TARGET.scan_threads}u) {{"
        )
        self.line(2, "ga_tell_word((unsigned long long*)work + 1 + k, 0ull);")
        self.line(1, "}")
        return 8 + 8 * words

    def in_vectors(self) -> bool:
        """Whether the elements of a thread are read and written in one access."""
        self.last = self.axis
        return self.width() >= TARGET.scan_items

    def which_row(self, lanes: int, many: int) -> str:
        """Define the row and piece of a thread; returns a test if it may have none."""
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
            if self.waits:
                self.draw_tile()
                block = "drawn"
            row = block if self.pieces == 1 else f"{block} / {n(self.pieces)}"
        if self.cut.outer != 1:
            self.line(1, f"const {t} row = {row};")
        if self.pieces > 1:
            piece = block if self.cut.outer == 1 else f"{block} % {n(self.pieces)}"
            self.line(1, f"const {t} piece = {piece};")
        self.define_axes(1, "row", self.outer)
        return inside

    def store_piece_total(self, begin: str, end: str, lanes: int) -> None:
        """Fold a piece and store its total."""
        n, state = self.number, self.reducer_of.state
        # Neighbouring threads take neighbouring elements; a total needs no order within the thread.
        self.line(1, f"{state} sum = {self.reducer_of.neutral};")
        head = f"for ({self.index_type} j = {begin} + lane; j < {end}; j += {n(lanes)}) {{"
        self.touched.begin(8)
        self.line(1, "#pragma unroll 8")
        self.line(1, head)
        self.set_position("j")
        element = self.scanned(2)
        self.line(2, f"sum = {self.merge('sum', element)};")
        self.line(1, "}")
        self.line(1, f"sum = ga_block_reduce<{lanes // 32}>(sum, part, merge);")
        out = self.out_name[self.outputs[0]]
        self.line(1, f"if (lane == 0) {out}[{self.total_index('piece', 'row')}] = sum;")

    def fold_own_elements(self, depth: int, end: str, items: int, width: int) -> None:
        """Running fold over the elements of a thread: `run[e]`, or `sum` if it has a single one."""
        state, none = self.reducer_of.state, self.reducer_of.neutral
        if items == 1:
            self.line(depth, f"{state} sum = {none};")
            self.set_position("j")
            # The element's lines belong inside the test: they read memory.
            outside, self.lines = self.lines, []
            element = self.scanned(depth + 1)
            lines, self.lines = self.lines, outside
            self.line(depth, f"if (j < {end}) {{")
            self.lines += lines
            self.line(depth + 1, f"sum = {self.merge('sum', element)};")
            self.line(depth, "}")
            return
        self.line(depth, f"{state} run[{items}], sum = {none};")
        deep = depth
        # A whole vector lies inside or outside of the row, since rows are multiples of it.
        if width > 1:
            place, at, depth = self.open_vectors(depth, items, width)
            self.line(depth, f"if ({place} < {end}) {{")
            deep = depth + 1
            self.set_position(bracketed(place))
            read = self.vector_read(self.x, width, deep, {})
            self.line(deep, f"const {self.vector_of(self.x.source, width)} x = {read};")
        self.line(deep, "#pragma unroll")
        self.line(deep, f"for (unsigned e = 0; e < {width if width > 1 else items}u; ++e) {{")
        if width > 1:
            half = ct.is_half(self.x.source.aval)
            element = self.reducer_of.lift("ga_value(x.v[e])" if half else "x.v[e]", "0u")
            self.line(deep + 1, f"run[{at}e] = sum = {self.merge('sum', element)};")
            self.line(deep, "}")
            self.line(depth, "}")
            if at:
                self.line(depth - 1, "}")
            return
        # Without vectors each element has its own test.
        self.set_position("(j + e)")
        self.line(deep + 1, f"if (j + e < {end}) {{")
        element = self.scanned(deep + 2)
        self.line(deep + 2, f"sum = {self.merge('sum', element)};")
        self.line(deep + 1, "}")
        self.line(deep + 1, "run[e] = sum;")
        self.line(deep, "}")

    def open_vectors(self, depth: int, items: int, width: int) -> tuple[str, str, int]:
        """Open the loop over a thread's vectors, if it has several; where one begins, where its
        elements are in `run`, and the depth inside.
        """
        if items == width:
            return "j", "", depth
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned q = 0; q < {items // width}u; ++q) {{")
        return f"j + q * {self.number(width)}", f"q * {width}u + ", depth + 1

    def store_elements(
        self, depth: int, guard: str, items: int, width: int, ahead: bool, end: str
    ) -> None:
        """Write the results of a thread: its running fold merged with what is ahead of it."""

        # `ahead` is what threads and tiles before this thread come to.
        def value(own: str) -> str:
            return self.reducer_of.finish(self.merge("ahead", own) if ahead else own)

        if items == 1:
            self.set_position("j")
            self.store(depth, value("sum"), f"if ({guard}) ")
            return
        at = ""
        if width > 1:
            place, at, depth = self.open_vectors(depth, items, width)
            guard = guard.replace("j <", f"{place} <")
            self.set_position(bracketed(place))
        if width > 1 and self.epilogue:
            self.line(depth, f"if ({guard}) {{")
            self.store_vectors(depth + 1, value(f"run[{at}e]"), width)
            self.line(depth, "}")
            if at:
                self.line(depth - 1, "}")
            return
        if width > 1:
            (v,) = self.outputs
            self.line(depth, f"if ({guard}) {{")
            self.line(depth + 1, f"{self.vector_of(v, width)} y;")
            self.line(depth + 1, "#pragma unroll")
            self.line(depth + 1, f"for (unsigned e = 0; e < {width}u; ++e) {{")
            self.line(depth + 2, f"y.v[e] = {self.as_stored_text(value(f'run[{at}e]'))};")
            self.line(depth + 1, "}")
            first = self.at(self.output_index(v))
            self.line(depth + 1, f"ga_store({self.out_name[v]} + {first}, y);")
            self.line(depth, "}")
            if at:
                self.line(depth - 1, "}")
            return
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {items}u; ++e) {{")
        self.set_position("(j + e)")
        # The guard was written for the first element; here it is for element e.
        self.store(depth + 1, value("run[e]"), f"if ({guard.replace('j <', 'j + e <')}) ")
        self.line(depth, "}")

    def store_vectors(self, depth: int, value: str, width: int) -> None:
        """Write what the epilogue makes of `width` neighbouring results; `value` is one of them."""
        (v,) = self.scan.eqn.outvars
        fetched = self.fetch(depth, self.epilogue, width)
        contiguous = [x for x in self.outputs if self.is_unit_stride(self.output_index(x))]
        vectors = {out: f"y{k}" for k, out in enumerate(contiguous)}
        for out, name in vectors.items():
            self.line(depth, f"{self.vector_of(out, width)} {name};")
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        with self.inside_vector():
            self.name_result(depth + 1, v, ct.rounded(value, v.aval))
            self.element(depth + 1, self.epilogue, self.outputs, {}, fetched, vectors)
        self.line(depth, "}")
        for out, name in vectors.items():
            at = self.at(self.output_index(out))
            self.line(depth, f"ga_store({self.out_name[out]} + {at}, {name});")
