"""Reductions along rows: partial results side by side, several passes over a row in cache.

Floor 3. In: a Rows kernel. Out: its NativeSource.
"""

from __future__ import annotations

import math

from gpuarray.compiler.lower.kernel import Columns, Rows
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.native.folds import FoldWriter, alone, declared, in_order
from gpuarray.compiler.native.nests import Bounds, Lanes
from gpuarray.compiler.native.schedule import end_of_piece, lanes_of, pieces_of
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var


class RowsWriter(FoldWriter):
    """A task is a row, or a piece of one."""

    def __init__(self, kernel: Rows | Columns, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        self.passes = self.passes_of(kernel.passes, kernel.length)
        self.rows = math.prod(self.axes[i] for i in self.parallel)
        # Lanes are along the fastest axis: neighbours in memory.
        self.lanes = lanes_of(self.lengths[-1])
        self.inner = self.reduced[-1]

    def source(self) -> NativeSource:
        """One function for all passes, or two for the pieces of few long rows."""
        single = len(self.passes) == 1 and not self.passes[0].stored
        # Only a single fold is cut: more passes would need the merged result in between.
        pieces, cut = pieces_of(self.rows, self.lengths) if single else (1, self.lengths[0])
        if pieces > 1:
            return self.in_pieces(self.passes[0], pieces, cut)
        with self.over(1, "row", "first", "last"):
            self.define_axes(2, "row", self.parallel)
            self.declare_kept(2, self.length, self.at(self.position_along(self.reduced)))
            # Values read once for a row, in any pass, are known in all later passes.
            scope: Fetched = {}
            stored: set[Var] = set()
            for number, one in enumerate(self.passes):
                what = f"pass {number + 1} over the row" if one.partial else "write the row"
                self.write_pass(2, one, scope, what)
                self.finish_sweep(2, one)
                for m in one.after:
                    # Members that need only finished folds: once for each row.
                    self.member(m, 2, scope)
                # Values that no pass stored, such as the folds themselves, are written once for
                # each row.
                stored |= set(one.stored)
            for v in self.outputs:
                if v not in stored:
                    self.write(2, v)
        self.end_function(self.kernel.name, self.parameters(), self.rows, self.grain(self.length))
        return self.finish(f"{self.rows} rows of {self.length}, {self.lanes} lanes")

    def is_hidden(self, axis: int, distance: int) -> bool:
        """If elements have a small stride, g++ would load everything in between, and so compute the
        last of each iteration's lanes one by one.
        """
        return self.lanes > 1 and axis == self.inner and distance < 20

    def write_pass(
        self,
        depth: int,
        one: Pass,
        scope: Fetched,
        comment: str = "",
        ends: tuple[str, str] | None = None,
    ) -> None:
        """One pass over a row, and the results of its folds. `ends` of the slowest axis."""
        if not (one.members or one.stored):
            return
        self.copies = 1
        # Partial results, one in each lane.
        states: dict[Var, str] = {}
        for v in one.partial:
            name, reducer = self.new_name(), self.reducer(v)
            if self.lanes > 1:
                what = reducer.eqn.primitive.name
                self.line(depth, declared(name, reducer, self.lanes), what)
                states[v] = f"{name}[lane]"
            else:
                # Of several axes, the fastest in memory is the last, wherever it is in the row.
                single = ends is None and len(self.reduced) == 1
                text = (in_order if single else alone)(name, reducer)
                self.line(depth, text, reducer.eqn.primitive.name)
                states[v] = name
        self.read_ahead(depth, set(self.parallel), one.members, scope)
        bounds = {self.reduced[0]: ends or ("0", self.number(self.lengths[0]))}
        self.loops(depth, self.reduced, bounds, one, states, dict(scope), comment)
        # The lanes as one.
        for v, state in states.items():
            name, reducer = state.partition("[")[0], self.reducer(v)
            if self.lanes > 1:
                merged = self.new_name()
                text = f"ga_merged({name}, {self.merger(reducer)})"
                self.line(depth, f"const {reducer.state} {merged} = {text};")
                name = merged
            self.names[v] = name

    def loops(
        self,
        depth: int,
        axes: list[int],
        bounds: dict[int, Bounds],
        one: Pass,
        states: dict[Var, str],
        scope: Fetched,
        comment: str,
    ) -> None:
        """The loops of a pass, the innermost by lanes if it folds anything."""
        axis, *inside = axes
        here = bounds.get(axis, ("0", ""))
        if inside:
            with self.apart() as turn:
                self.loops(depth + 1, inside, bounds, one, states, scope, comment)
            self.loop(depth, axis, here, turn)
            return
        if self.lanes > 1 and states:
            # Choices that are unrolled before they are vectorised become branches.
            lanes = Lanes(self.lanes, any(self.reducer(v).has_position for v in states))
            with self.apart() as turn:
                self.element(depth + 1, one.members, one.stored, states, scope)
            self.loop(depth, axis, here, turn, comment, lanes)
            return
        with self.past_cache(depth, axis, here, one.stored) as (depth, here):
            with self.apart() as turn:
                self.element(depth + 1, one.members, one.stored, states, scope)
            self.loop(depth, axis, here, turn, comment)

    def finish_sweep(self, depth: int, one: Pass) -> None:
        """The results of the folds of a pass."""
        for v in one.partial:
            self.names[v] = self.finish_fold(depth, v, self.names[v])

    def in_pieces(self, one: Pass, pieces: int, cut: int) -> NativeSource:
        """A function that folds a piece of a row, and one that merges the pieces of a row."""
        name, several = self.kernel.name, self.rows > 1
        parts = {v: self.declare_part(v, self.rows * pieces) for v in one.partial}
        # Fold a piece.
        with self.over(1, "task", "first", "last"):
            if several:
                self.line(2, f"const ga_index row = task / {pieces}, piece = task % {pieces};")
                self.define_axes(2, "row", self.parallel)
            begin = f"{'piece' if several else 'task'} * {cut}"
            end = end_of_piece("begin", cut, self.lengths[0])
            self.line(2, f"const ga_index begin = {begin}, end = {end};")
            self.write_pass(2, one, {}, ends=("begin", "end"))
            for v, part in parts.items():
                self.line(2, f"{part}[task] = {self.names[v]};")
        given = [*self.parameters(outputs=False), *self.rooms(constant=False)]
        self.end_function(f"{name}_pieces", given, self.rows * pieces, 1)
        # Merge the pieces of a row, in order.
        self.names = {}
        with self.over(1, "row", "first", "last"):
            self.define_axes(2, "row", self.parallel)
            at = f"row * {pieces}" if several else "0"
            for v, part in parts.items():
                reducer, r = self.reducer(v), self.new_name()
                self.line(2, f"{reducer.state} {r} = {part}[{at}];")
                place = f"row * {pieces} + p" if several else "p"
                step = reducer.merge(r, f"{part}[{place}]")
                self.for_each(2, "p", "1", str(pieces), f"{r} = {step};")
                self.names[v] = r
            self.finish_sweep(2, one)
            scope: Fetched = {}
            for m in one.after:
                self.member(m, 2, scope)
            for v in self.outputs:
                self.write(2, v)
        given = [*self.rooms(constant=True), *self.parameters()]
        self.end_function(f"{name}_merge", given, self.rows, self.rows)
        return self.finish(f"{self.rows} rows of {self.length} in {pieces} pieces, merged in order")
