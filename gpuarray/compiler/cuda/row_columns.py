"""Reductions of rows and of columns in one pass: a block goes over rows, with fixed columns.

Floor 3. In: a RowColumns kernel. Out: its KernelSource. The threads of a block share a row, as in
rows.py, and each thread has the same columns in every row: their folds stay in its registers until
the last row. The blocks' results are folded by a kernel of the form Columns, in their order, so
every run gives the same bits.
"""

from __future__ import annotations

from gpuarray.compiler.cuda.rows import RowsTemplate
from gpuarray.compiler.cuda.template import KernelSource, Options
from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import RowColumns
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.lower.row_columns import is_column_fold, row_itemsize
from gpuarray.compiler.lower.schedule import Schedule, schedule_row_columns
from gpuarray.compiler.text.reader import PositionLine
from gpuarray.core.graph import Var
from gpuarray.core.target import TARGET


class RowColumnsTemplate(RowsTemplate):
    """A block for each of n slots, which goes over every n-th row."""

    def __init__(self, kernel: RowColumns, options: Options):
        super().__init__(kernel, options)
        self.slots = kernel.slots
        self.before: list[str] = []  # lines before the loop over rows
        self.folds = [m.eqn.outvars[0] for m in self.group.members if is_column_fold(m.eqn)]

    def width(self) -> int:
        """The vector width, without the small partial results that blocks write."""
        # For a moment, as if the folds of columns were no outputs.
        every, self.outputs = self.outputs, [v for v in self.outputs if v not in self.folds]
        width = super().width()
        self.outputs = every
        return width

    def reread_loads(self, passes: list[Pass], width: int) -> dict[tuple, Load]:
        """All that is read of a row: read together, as there are few blocks to wait for others."""
        loads = (o for one in passes for m in one.members for o in m.operands)
        wide = (x for x in loads if isinstance(x, Load) and self.can_hold(x, width))
        return {(x.key, x.dims): x for x in wide}

    def read_row(
        self, loads: dict[tuple, Load], s: Schedule, length: int, reduced: list[int], *names: str
    ) -> None:
        """Read a row, and ask for the next one: few blocks are there to do something else until it
        comes. What all rows have in common is read once.
        """
        n, own = self.number, self.spaces()[0]
        moving = {k: x for k, x in loads.items() if any(d in own for d in x.dims)}
        common = {k: x for k, x in loads.items() if k not in moving}
        if common:
            inside, self.lines = self.lines, self.before
            super().read_row(common, s, length, reduced, "same", "read what all rows share")
            self.before, self.lines = self.lines, inside
        super().read_row(moving, s, length, reduced)
        self.touched.unrolled(2 * s.steps)  # the next row is under way as well
        # The next row, by the same text at another place.
        outside, names_of_axes = self.lines, dict(self.axis_name)
        self.line(1, f"if (row + {n(self.slots)} < {n(self.rows)}) {{")
        self.name_position(2, "next", f"row + {n(self.slots)}")
        self.define_axes(2, "next", own)
        self.lines = []
        self.open_row_loop(s, length, reduced, "ask for the next row")
        for x in moving.values():
            self.line(2, f"ga_prefetch({self.in_name[x.source]} + {self.at(self.load_index(x))});")
        self.lines = [*outside, *map(_deeper, self.lines), "        }", "    }"]
        self.axis_name = names_of_axes

    def source(self) -> KernelSource:
        """The loop over rows around the passes over each; then the results of the columns."""
        t, n = self.index_type, self.number
        parallel, reduced = self.spaces()
        self.last = reduced[-1]
        itemsize = row_itemsize(self.group)
        s = schedule_row_columns(self.length, self.width(), len(self.folds), itemsize, self.slots)
        self.line(1, "const unsigned lane = threadIdx.x;")
        for k, v in enumerate(self.folds):
            self.declare_sums(k, v, s)
        # The lines of one row are collected separately, to be indented as the body of the loop over
        # rows.
        self.before, self.lines = self.lines, []
        self.define_axes(1, "row", parallel)
        passes, held = self.hold(self.passes, s, self.length, reduced, False)
        for number, one in enumerate(passes):
            if one.members or one.stored:
                what = f"pass {number + 1} over the row" if one.partial else "write the row"
                states = self.declare_partials(one)
                self.open_row_loop(s, self.length, reduced, what, one.members)
                # Folds of columns are stored by `write_sums`, after the last row.
                stored = [v for v in one.stored if v not in self.sums]
                self.elements(2, one.members, stored, {**states, **self.sums}, s.width)
                self.line(1, "}")
                self.reduce_over_lanes(states, s)
            for m in one.after:
                self.member(m, 1, self.read_outside)
        # One thread of the row writes its results.
        self.write_reduced(passes, "lane == 0")
        inside, self.lines = self.lines, self.before
        self.line(1, f"for ({t} row = blockIdx.x; row < {n(self.rows)}; row += {n(self.slots)}) {{")
        self.lines += [*map(_deeper, inside), "    }"]
        self.write_sums(s, reduced)
        what = f"{self.rows} rows of {self.length}, {self.slots} blocks over them"
        return self.finish(s, f"{what}, {s.lanes} threads a row{held}; columns in registers")

    def declare_sums(self, k: int, v: Var, s: Schedule) -> None:
        """Declare the folds of a thread's own columns, in vectors that are stored as a whole."""
        reducer, n = self.reducer(v), self.number
        # Results are wider than elements where these have 16 bits: one vector of elements is
        # several of results.
        chunk = self.chunk(v, s)
        many = s.steps * s.width // chunk
        self.line(
            1, f"ga_vec<{reducer.state}, {chunk}> sum{k}[{many}];", reducer.eqn.primitive.name
        )
        self.line(1, "#pragma unroll")
        self.line(1, f"for (unsigned u = 0; u < {many}u; ++u) {{")
        self.line(2, "#pragma unroll")
        self.line(
            2, f"for (unsigned e = 0; e < {chunk}u; ++e) sum{k}[u].v[e] = {reducer.identity};"
        )
        self.line(1, "}")
        # Which of them the loops over a row are at.
        parts = s.width // chunk
        place = ["u" if parts == 1 else f"u * {n(parts)}"] if s.steps > 1 else []
        place += [f"e / {n(chunk)}"] if parts > 1 else []
        element = "0" if s.width == 1 else "e" if parts == 1 else f"e % {n(chunk)}"
        self.sums[v] = f"sum{k}[{' + '.join(place) or '0'}].v[{element}]"

    def chunk(self, v: Var, s: Schedule) -> int:
        """Results that are stored in one access."""
        return min(s.width, TARGET.vector_bytes // self.reducer(v).bytes)

    def write_sums(self, s: Schedule, reduced: list[int]) -> None:
        """Write the folds of this block's rows."""
        n = self.number
        self.open_row_loop(s, self.length, reduced, "what this block leaves")
        for k, v in enumerate(self.folds):
            index, chunk = self.output_index(v), self.chunk(v, s)
            parts, start = s.width // chunk, f"blockIdx.x * {n(self.length)}"
            where = f"{self.out_name[v]} + {start} + {self.at(index)}"
            # Columns that are neighbours in memory are stored in vectors, others one by one.
            if self.is_unit_stride(index):
                for h in range(parts):
                    base = ["u" if parts == 1 else f"u * {n(parts)}"] if s.steps > 1 else []
                    base += [str(h)] if h or not base else []
                    more = f" + {n(h * chunk)}" if h else ""
                    self.line(2, f"ga_store({where}{more}, sum{k}[{' + '.join(base)}]);")
                continue
            self.line(2, "#pragma unroll")
            self.line(2, f"for (unsigned e = 0; e < {s.width}u; ++e) {{")
            with self.inside_vector():
                at = f"{start} + {self.at(index)}"
                self.line(3, f"{self.out_name[v]}[{at}] = {self.sums[v]};")
            self.line(2, "}")
        self.line(1, "}")


def _deeper(line: str) -> str:
    """A line one level deeper, its comment in the column of all comments."""
    if isinstance(line, PositionLine):
        return PositionLine(f"    {line}", line.variable)
    code, mark, comment = line.partition("  // ")
    if not mark or not code.strip():
        return f"    {line}"
    return f"    {code.rstrip()}".ljust(72) + f"  // {comment}"
