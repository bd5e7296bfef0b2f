"""Reductions down columns: neighbouring columns side by side, rows of them one after another.

Floor 3. In: a Columns kernel, or one of rows that are too short for vectors along them. Out: its
NativeSource.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gpuarray.compiler.lower.kernel import Columns, Rows
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.native.folds import FoldWriter, declared
from gpuarray.compiler.native.schedule import end_of_piece, pieces_of
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import bracketed
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var
from gpuarray.core.target import PROCESSOR


class ColumnsWriter(FoldWriter):
    """A task is a block of neighbouring columns, or a piece of one."""

    def __init__(self, kernel: Columns | Rows, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        *self.outer, self.across = self.parallel
        self.storing = False  # whether the place of a result is written
        self.columns = self.axes[self.across]
        # Adjacent rows stay in L1 from pass to pass.
        rows = PROCESSOR.row_block // max(1, self.length) // PROCESSOR.lanes * PROCESSOR.lanes
        most = PROCESSOR.columns if isinstance(kernel, Columns) else rows
        self.width = min(PROCESSOR.columns, most, self.columns)
        self.passes = self.passes_of(kernel.passes, self.length * self.width)
        self.blocks = -(-self.columns // self.width)
        self.tasks = self.blocks * math.prod(self.axes[i] for i in self.outer)

    def source(self) -> NativeSource:
        """One function for all passes, or two for the pieces of few long columns."""
        single = len(self.passes) == 1 and not self.passes[0].stored
        lengths = [self.lengths[0], *self.lengths[1:], self.width]
        # Only a single fold is cut: more passes would need the merged result in between.
        pieces, cut = pieces_of(self.tasks, lengths) if single else (1, self.lengths[0])
        if pieces > 1:
            return self.in_pieces(self.passes[0], pieces, cut)
        with self.over(1, "task", "first", "last"):
            self.define_block(2, "task")
            at = bracketed(self.at(self.position_along(self.reduced)))
            self.declare_kept(2, self.length * self.width, f"{at} * {self.width} + lane")
            # Passes one after another, over a block of columns that stays in the cache.
            stored: set[Var] = set()
            for number, one in enumerate(self.passes):
                what = f"pass {number + 1} down the columns" if one.partial else "write the columns"
                self.write_pass(2, one, what)
                self.finish_columns(2, one, self.later_reads(self.passes, number))
                stored |= set(one.stored)
            self.write_columns(2, [v for v in self.outputs if v not in stored])
        size = self.length * self.width
        self.end_function(self.kernel.name, self.parameters(), self.tasks, self.grain(size))
        return self.finish(f"{self.columns} columns of {self.length}, {self.width} side by side")

    def is_hidden(self, axis: int, distance: int) -> bool:
        """Compilers vectorise loads with strides of 2, 3 or 4, but not such stores. With larger
        strides they would load everything in between.
        """
        known = {8, 16, 32} if self.storing else {2, 3, 4}
        return axis == self.across and distance not in known

    def write(self, depth: int, v: Var) -> None:
        self.storing = True
        super().write(depth, v)
        self.storing = False

    # ---- blocks ----
    def define_block(self, depth: int, task: str) -> None:
        """Define where the columns of a task begin, and how many they are."""
        n, w = self.blocks, self.width
        # Tasks are blocks of columns within rows of the outer axes; the last block may be narrower.
        block = f"{task} % {n}" if self.outer else task
        if self.outer:
            self.line(
                depth,
                f"const ga_index row = {task} / {n};" if n > 1 else f"const ga_index row = {task};",
            )
            self.define_axes(depth, "row", self.outer)
        if n > 1:
            self.line(depth, f"const ga_index left = {block} * {w};")
            width = f"ga_least({w}, {self.columns} - left)" if self.columns % w else w
            self.line(depth, f"const ga_index width = {width};")
        else:
            self.line(depth, f"const ga_index left = 0, width = {w};")

    @contextmanager
    def lanes(self, depth: int, comment: str = "") -> Iterator[None]:
        """The loop over the columns of a block."""
        if PROCESSOR.side_by_side <= self.columns <= PROCESSOR.unrolled:
            # Choices (a maximum) that are unrolled first are not vectorised.
            self.line(depth, "#pragma GCC unroll 1")
        with self.over(depth, "lane", "0", "width", comment):
            self.name_position(depth + 1, self.axis_name[self.across], "left + lane")
            yield

    # ---- passes ----
    def write_pass(
        self, depth: int, one: Pass, comment: str = "", ends: tuple[str, str] | None = None
    ) -> None:
        """One pass down the columns of a block."""
        if not (one.members or one.stored):
            return
        states: dict[Var, str] = {}
        for v in one.partial:
            name, reducer = self.new_name(), self.reducer(v)
            self.line(depth, declared(name, reducer, self.width), reducer.eqn.primitive.name)
            states[v] = f"{name}[lane]"
        scope: Fetched = {}
        with ExitStack() as loops:
            for k, axis in enumerate(self.reduced):
                bounds = ends if ends and not k else ("0", "")
                loops.enter_context(self.over_axis(depth + k, axis, *bounds))
            inside = depth + len(self.reduced)
            # Values common to all columns are read once for each row.
            self.read_ahead(inside, {*self.outer, *self.reduced}, one.members, scope)
            with self.lanes(inside, comment):
                self.element(inside + 1, one.members, one.stored, states, dict(scope))
        self.names.update(states)

    def finish_columns(self, depth: int, one: Pass, wanted: set[Var]) -> None:
        """Compute the values that depend on the folds of a pass, and store those that are
        wanted.
        """
        # Results that differ from their partial results: in separate arrays.
        ended = [v for v in one.partial if self.reducer(v).finish("x") != "x"]
        made = [v for m in one.after for v in m.eqn.outvars]
        for v in [v for v in (*ended, *made) if v in wanted]:
            name = f"kept{len(self.carried)}"
            self.line(depth, f"GA_LOCAL {ct.memory_type(v.aval)} {name}[{self.width}];")
            self.carried[v] = f"{name}[lane]"
        if not (ended or made):
            return
        with self.lanes(depth):
            for v in ended:
                self.names[v] = self.finish_fold(depth + 1, v, self.names[v])
                if v in wanted:
                    self.line(depth + 1, f"{self.carried[v]} = {self.as_stored(v)};")
            # A value for each column: computed lane by lane, as in a pass.
            self.element(depth + 1, one.after, [], {}, {})
        for v in (*ended, *made):
            if v in self.carried:
                place = self.carried[v]
                self.names[v] = f"ga_value({place})" if ct.is_half(v.aval) else place

    def write_columns(self, depth: int, outputs: list[Var]) -> None:
        """Write the outputs that have no folded axis."""
        if outputs:
            with self.lanes(depth):
                for v in outputs:
                    self.write(depth + 1, v)

    def in_pieces(self, one: Pass, pieces: int, cut: int) -> NativeSource:
        """A function that folds a piece of a block, and one that merges the pieces of a block."""
        name, w = self.kernel.name, self.width
        parts = {v: self.declare_part(v, self.tasks * pieces * w) for v in one.partial}
        # Fold a piece.
        with self.over(1, "task", "first", "last"):
            self.line(2, f"const ga_index block = task / {pieces}, piece = task % {pieces};")
            self.define_block(2, "block")
            end = end_of_piece("begin", cut, self.lengths[0])
            self.line(2, f"const ga_index begin = piece * {cut}, end = {end};")
            self.write_pass(2, one, ends=("begin", "end"))
            with self.over(2, "lane", "0", "width"):
                for v, part in parts.items():
                    self.line(3, f"{part}[task * {w} + lane] = {self.names[v]};")
        given = [*self.parameters(outputs=False), *self.rooms(constant=False)]
        self.end_function(f"{name}_pieces", given, self.tasks * pieces, 1)
        # Merge the pieces of a block, in order.
        self.names = {}
        with self.over(1, "block", "first", "last"):
            self.define_block(2, "block")
            for v, part in parts.items():
                reducer, r = self.reducer(v), self.new_name()
                self.line(2, declared(r, reducer, w))
                with self.over(2, "p", f"block * {pieces}", f"(block + 1) * {pieces}"):
                    step = reducer.merge(f"{r}[lane]", f"{part}[p * {w} + lane]")
                    self.for_each(3, "lane", "0", "width", f"{r}[lane] = {step};")
                self.names[v] = f"{r}[lane]"
            self.finish_columns(2, one, set(self.outputs))
            self.write_columns(2, self.outputs)
        given = [*self.rooms(constant=True), *self.parameters()]
        self.end_function(f"{name}_merge", given, self.tasks, max(1, self.tasks))
        note = f"{self.columns} columns of {self.length} in {pieces} pieces, merged in order"
        return self.finish(note)
