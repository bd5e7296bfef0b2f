"""Nests of loops: each value where it first can be computed, loops in pieces where tests decide.

Floor 3. In: a Kernel. Out: `NestWriter`. The body of a loop is written first, and the loop around
it when it is complete: its contents decide into how many pieces the loop is split, and which values
are read before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.native.accesses import always_looked_up, heavy_parts
from gpuarray.compiler.native.facts import EachLine, FlagRead, Front, LoopHead, SearchLine
from gpuarray.compiler.native.halves import STORED, HalfLine, in_block
from gpuarray.compiler.native.schedule import end_of_piece
from gpuarray.compiler.native.values import ValueWriter
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import bracketed, commented
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Index, axes_of
from gpuarray.core.target import PROCESSOR
from gpuarray.util import Struct

#: Where a loop begins and ends, as text; "" is the end of its axis.
Bounds = tuple[str, str]


class Lanes(Struct):
    """Iterations side by side: how many, and whether the compiler must not unroll them."""

    count: int
    short: bool = False

    @property
    def function(self) -> str:
        """The function of kernels/native that runs the iterations."""
        return f"{'ga_short_lanes' if self.short else 'ga_lanes'}<{self.count}>"


class NestWriter(ValueWriter):
    """The loops of one kernel."""

    #: The axis whose positions are computed together: it has no loop.
    together: int | None = None
    #: Whether bools are read before the innermost loop.
    flags_before = False

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        # Axes whose loops are not open yet, with this task's start along them.
        self.ahead: dict[int, str] = {}
        # Results that are stored past the cache: the element of the array that holds them before.
        self.streams: dict[Var, str] = {}

    def begin_facts(self) -> None:
        super().begin_facts()
        # How many copies of the innermost line of a nest exist after loops were split, and if some
        # were.
        self.copies, self.split = 1, False
        self.pieces: dict[tuple[int, str], int] = {}  # loops that were split, by depth and name

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Lines that are not part of the text until they are put there."""
        around, self.lines = self.lines, []
        yield self.lines
        self.lines = around

    # ---- loops ----
    def wide_axes(self, dims: Iterable[int | None]) -> set[int]:
        """The axes of the loops along which a value varies."""
        return {i for index in self.along(dims) for i in axes_of(index)}

    def open_loop(
        self, depth: int, name: str, begin: str, end: str, comment: str = "", unrolled: bool = False
    ) -> None:
        # CPU compilers decide unrolling themselves, except where a loop must remain one.
        self.for_each(depth, name, begin, end, "{", comment)

    def for_each(
        self, depth: int, name: str, begin: str, end: str, turn: str, comment: str = ""
    ) -> None:
        """The head of a loop, and its whole body if that is a single statement."""
        head = f"for ({self.index_type} {name} = {begin}; {name} < {end}; ++{name}) {turn}"
        self.line(depth, head, comment)
        # A short loop inside another one: see `kept_loops`.
        plain = begin.isidentifier() or begin.isdigit()
        if depth > 1 and plain and end.isdigit() and int(end) <= PROCESSOR.unrolled:
            self.lines[-1] = LoopHead(self.lines[-1], "#pragma GCC unroll 1", self.lines[-1])

    @contextmanager
    def over(
        self, depth: int, name: str, begin: str, end: str, comment: str = ""
    ) -> Iterator[None]:
        """A loop over positions."""
        self.open_loop(depth, name, begin, end, comment)
        yield
        self.line(depth, "}")

    def open_axis(
        self, depth: int, axis: int, begin: str = "0", end: str = "", comment: str = ""
    ) -> None:
        """Open the loop along an axis."""
        end = end or self.number(self.axes[axis])
        self.open_loop(depth, self.axis_name[axis], begin, end, comment)

    def close_axis(self, depth: int, axis: int) -> None:
        """Close what `open_axis` has opened."""
        self.line(depth, "}")

    @contextmanager
    def over_axis(self, depth: int, axis: int, begin: str = "0", end: str = "") -> Iterator[None]:
        """The loop along an axis, as one."""
        self.open_axis(depth, axis, begin, end)
        yield
        self.close_axis(depth, axis)

    def nest(
        self,
        depth: int,
        known: set[int],
        axes: list[int],
        members: list[Member],
        stores: list[Var],
        scope: Fetched,
        ends: dict[int, Bounds] | None = None,
    ) -> None:
        """Loops along `axes`, the last the innermost, around members and stores. Each is placed in
        the outermost loop where its position is known: `known` are the axes outside.
        """
        ends = ends or {}
        # A value without one of these axes is written at the beginning of that loop.
        self.ahead = {axis: ends.get(axis, ("", ""))[0] for axis in axes}
        self.level(depth, known, axes, list(members), list(stores), scope, ends)

    def level(
        self,
        depth: int,
        known: set[int],
        axes: list[int],
        members: list[Member],
        stores: list[Var],
        scope: Fetched,
        ends: dict[int, Bounds],
    ) -> None:
        """The members and stores that need no more loops, and the loop along the next axis around
        the others.
        """
        # Values read or computed here are reused by all iterations of the inner loops.
        now = [m for m in members if self.wide_axes(m.space) <= known]
        members = [m for m in members if m not in now]
        if axes:
            self.read_ahead(depth, known, members, scope)
        for m in now:
            self.member(m, depth, scope)
        # Stored as soon as no inner loop is left to compute it: those that are not computed yet
        # stay.
        ready = [v for v in stores if self.wide_axes(self.group.made[v].dims) <= known]
        for v in (v for v in ready if v in self.names):
            stores.remove(v)
            self.write(depth, v)
        if not axes:
            return
        axis, *inside = axes
        bounds = ends.get(axis, ("0", ""))
        inner = {*known, axis}
        scope = dict(scope)  # names end with the loop that they are defined in
        # An outer loop: the contents of its inner loops decide how it is written.
        if inside:
            with self.apart() as turn:
                del self.ahead[axis]
                self.level(depth + 1, inner, inside, members, stores, scope, ends)
            self.loop(depth, axis, bounds, turn)
            return
        # The innermost loop, the one that is vectorised: stores may bypass the cache, and lines
        # common to all iterations are put before it while it is written.
        with self.past_cache(depth, axis, bounds, stores) as (depth, bounds):
            front = Front(self.lines, depth) if axis == self.inner else None
            with self.apart() as turn:
                self.front = front
                del self.ahead[axis]
                self.fetch_ahead(depth + 1, axis, bounds[1], members)
                self.level(depth + 1, inner, [], members, stores, scope, ends)
                self.front = None
            self.loop(depth, axis, bounds, turn)

    def fetch_ahead(self, depth: int, axis: int, end: str, members: list[Member]) -> None:
        """At the beginning of an iteration of the innermost loop: prefetch data for later ones."""

    # ---- loops in pieces ----
    def loop(
        self,
        depth: int,
        axis: int,
        bounds: Bounds,
        turn: list[str],
        comment: str = "",
        lanes: Lanes | None = None,
    ) -> None:
        """The loop along an axis around the lines of an iteration, split where tests in it change
        their value: in each piece the compiler knows their value, and can vectorise it. A loop
        around it is split too: each piece of that has all pieces of this one.
        """
        i, bounds = self.axis_name[axis], (bounds[0], bounds[1] or self.number(self.axes[axis]))
        given = f"ga_index {i}, ga_index lane" if lanes else f"ga_index {i}"
        if pieces := self.cut_at_edges(axis, turn):
            # The body becomes a lambda, which is inlined in each piece. Another pass over the same
            # axis may be in the same scope.
            number = self.pieces.get((depth, i), 0)
            self.pieces[depth, i] = number + 1
            at = f"at_{i}_{number}" if number else f"at_{i}"
            self.line(depth, f"const auto {at} = [&]({given}) GA_STEP {{", comment)
            self.lines += turn
            self.line(depth, "};")
            self.in_pieces_of(depth, axis, bounds, pieces, at, lanes)
        elif lanes:
            step = f"{', '.join(bounds)}, [&]({given}) GA_STEP {{"
            self.in_lanes(depth, lanes, step, comment)
            self.lines += turn
            self.line(depth, "});")
        else:
            if self.flags_before and axis == self.inner:
                turn = self.read_flags(depth, axis, bounds, turn)
            with self.searched_before(depth, axis, bounds, turn) as (depth, bounds, turn):
                bounds = self.halves_before(depth, axis, bounds, turn)
                self.open_axis(depth, axis, *bounds, comment)
                self.lines += turn
                self.close_axis(depth, axis)

    def halves_before(self, depth: int, axis: int, bounds: Bounds, turn: list[str]) -> Bounds:
        """A loop over blocks of iterations that convert halves, and the bounds of the rest of the
        axis for a loop after it; empty if an iteration converts none.
        """
        i, (begin, end) = self.axis_name[axis], bounds
        block = in_block(i, turn) if axis == self.inner else None
        if block is None or self.axes[axis] < PROCESSOR.line:
            return bounds
        head = f"for (ga_index {i} = {begin}; {i} + GA_HALVES <= {end}; {i} += GA_HALVES) {{"
        self.line(depth, head)
        self.lines += block.lines(depth + 1)
        self.line(depth, "}")
        return f"{end} - ({end} - {bracketed(begin)}) % GA_HALVES", end

    def in_pieces_of(
        self,
        depth: int,
        axis: int,
        bounds: Bounds,
        pieces: list[tuple[int, int]],
        turn: str,
        lanes: Lanes | None,
    ) -> None:
        """The loops over the pieces of an axis; `turn` is the function of an iteration."""
        begin, end = bounds
        i, whole = self.axis_name[axis], bounds == ("0", self.number(self.axes[axis]))
        for first, last in pieces:
            # Tasks may have any part of the axis.
            start = str(first) if whole else f"ga_most({begin}, {first})" if first else begin
            is_last = last == self.axes[axis]
            stop = str(last) if whole else end if is_last else f"ga_least({end}, {last})"
            if lanes:
                self.in_lanes(depth, lanes, f"{start}, {stop}, {turn});")
            elif whole and last == first + 1:
                self.line(depth, f"{turn}({first});")
            else:
                self.for_each(depth, i, start, stop, f"{turn}({i});")

    def cut_at_edges(self, axis: int, turn: list[str]) -> list[tuple[int, int]]:
        """The pieces of a loop with such lines in its body; empty if it is not split."""
        length = self.axes[axis]
        cuts = sorted(edge for edge in self.facts.edges.get(axis, ()) if 0 < edge < length)
        pieces = list(itertools.pairwise([0, *cuts, length]))
        if not cuts or max(last - first for first, last in pieces) < PROCESSOR.split_from:
            return []
        # Text multiplies with every loop that is split around another.
        copies = self.copies * len(pieces)
        if len(turn) * copies > PROCESSOR.split_lines or axis == self.together:
            return []
        self.copies, self.split = copies, True
        # Each piece is on one side of every edge, so no further split is needed.
        del self.facts.edges[axis]
        return pieces

    def in_lanes(self, depth: int, lanes: Lanes, given: str, comment: str = "") -> None:
        """The call of the function that runs the iterations of a loop in lanes."""
        self.line(depth, f"{lanes.function}({given}", comment)
        if not lanes.short:
            kept = f"{'    ' * depth}{lanes.replace(short=True).function}({given}"
            self.lines[-1] = LoopHead(self.lines[-1], commented(kept, comment))

    # ---- searches ----
    @contextmanager
    def searched_before(
        self, depth: int, axis: int, bounds: Bounds, turn: list[str]
    ) -> Iterator[tuple[int, Bounds, list[str]]]:
        """A loop over blocks around an innermost loop that searches, each for its own element, or
        calls a function that has a form for many elements: the results of a block are computed
        before, side by side. In it: the depth of the innermost loop, its bounds, and the rest of
        the body.
        """
        searches = [k for k, line in enumerate(turn) if isinstance(line, SearchLine | EachLine)]
        # Everything before a search is done twice: only definitions of values may be there.
        head = f"{'    ' * (depth + 1)}const "
        if axis != self.inner or not searches or not _all_begin(turn[: searches[-1] + 1], head):
            yield depth, bounds, turn
            return
        i, block = self.axis_name[axis], PROCESSOR.block
        begin, end = bounds
        whole = self.axes[axis] if begin == "0" and end.isdigit() else -1
        self.line(depth, f"for (ga_index some = {begin}; some < {end}; some += {block}) {{")
        self.line(depth + 1, f"const ga_index until = {end_of_piece('some', block, whole, end)};")
        left: list[str] = []
        for line in turn:
            if not isinstance(line, SearchLine | EachLine):
                left.append(line and f"    {line}")
                continue
            if isinstance(line, EachLine):
                searches.pop()
                left.append(self.of_block(depth + 1, axis, line, left, len(searches)))
                continue
            # In memory of the block: the searched values, and the results.
            asked, found = f"asked{len(searches)}", f"found{len(searches)}"
            searches.pop()
            for name, kind in zip((asked, found), line.types):
                self.line(depth + 1, f"GA_LOCAL {kind} {name}[{block}];")
            self.open_axis(depth + 1, axis, "some", "until")
            self.lines += left
            self.line(depth + 2, f"{asked}[{i} - some] = {line.element};")
            self.close_axis(depth + 1, axis)
            self.line(depth + 1, f"{line.call}, {asked}, {found}, until - some);")
            name = f"const {line.types[1]} {line.variable}"
            left.append(f"{'    ' * (depth + 2)}{name} = {found}[{i} - some];")
        yield depth + 1, ("some", "until"), left
        self.line(depth, "}")

    def of_block(
        self, depth: int, axis: int, line: EachLine, before: list[str], number: int
    ) -> str:
        """Write the call of a function for a block of turns; return what is left of its line. The
        function asks for the operands of an element, so that it keeps them as it needs them.
        """
        i = self.axis_name[axis]
        text, function, operands, behind = line.call
        name, _, kinds = function.partition("<")
        many = f"{name}_for_many{kinds and f'<{kinds}'}"
        self.line(depth, f"const auto given{number} = [&](ga_index {i}) GA_STEP {{")
        self.lines += before
        self.line(depth + 1, f"return ga_operands({operands});")
        self.line(depth, "};")
        self.line(depth, f"GA_LOCAL {line.kind} found{number}[{PROCESSOR.block}];")
        self.line(depth, f"{many}(given{number}, some, until, found{number});")
        value = f"{text}found{number}[{i} - some]{behind}"
        return f"{'    ' * (depth + 1)}const {line.kind} {line.variable} = {value};"

    # ---- bools in memory ----
    def read_flags(self, depth: int, axis: int, bounds: Bounds, turn: list[str]) -> list[str]:
        """A body whose bools are read before a short loop, as numbers as wide as the others. A loop
        that reads bytes is vectorised for as many elements as a vector has bytes: in a short one,
        most elements would be in the remainder, and computed one by one.
        """
        length, i = self.axes[axis], self.axis_name[axis]
        if length * 4 > PROCESSOR.local_bytes or length % PROCESSOR.line == 0:
            return turn
        made: list[str] = []
        count = 0
        for line in turn:
            # Deeper lines are read under a condition.
            if not isinstance(line, FlagRead) or line.depth != depth + 1:
                made.append(line)
                continue
            flags = f"flags{count}"
            count += 1
            self.line(depth, f"GA_LOCAL int {flags}[{length}];")
            self.open_axis(depth, axis, *bounds)
            self.line(depth + 1, f"{flags}[{i}] = {line.read};")
            self.line(depth, "}")
            text = f"{'    ' * line.depth}const bool {line.variable} = {flags}[{i}] != 0;"
            made.append(commented(text, line.comment))
        return made

    # ---- results that are stored past the cache ----
    @contextmanager
    def past_cache(
        self, depth: int, axis: int, bounds: Bounds, stores: list[Var]
    ) -> Iterator[tuple[int, Bounds]]:
        """A loop over blocks around the innermost loop, if results of it are stored past the cache:
        each block is computed into the first cache and stored from there. In it: how deep the
        innermost loop is, and its bounds.
        """
        # A store that bypasses the cache does not read the line first, which saves a third of a
        # copy's traffic, but has to write whole lines: hence a block that is computed in L1.
        chosen = [v for v in stores if self.is_streamed(v, axis)]
        if not chosen:
            yield depth, bounds
            return
        self.facts.streams = True
        self.facts.arrays.update(chosen)
        # Blocks of as many elements of each result, the widest of which fills a block.
        widest = max(storage_dtype(v.aval).itemsize for v in chosen)
        block, i = PROCESSOR.stream_block // widest, self.axis_name[axis]
        begin, end = bounds[0], bounds[1] or self.number(self.axes[axis])
        self.line(depth, f"for (ga_index block = {begin}; block < {end}; block += {block}) {{")
        whole = int(end) if begin == "0" and end.isdigit() else -1
        self.line(depth + 1, f"const ga_index over = {end_of_piece('block', block, whole, end)};")
        after = []
        for v in chosen:
            near = f"near{len(after)}"
            self.line(depth + 1, f"GA_LOCAL {ct.memory_type(v.aval)} {near}[{block}];")
            self.streams[v] = f"{near}[{i} - block]"
            # Where the block begins in the result.
            names, self.axis_name = self.axis_name, self.axis_name | {axis: "block"}
            place = f"{self.out_name[v]} + {self.at(self.output_index(v))}"
            self.axis_name = names
            after.append(f"ga_stream({place}, {near}, over - block);")
        yield depth + 1, ("block", "over")
        for text in after:
            self.line(depth + 1, text, "past the cache")
        self.line(depth, "}")

    def is_streamed(self, v: Var, axis: int) -> bool:
        """Whether a result is too large for the cache and is contiguous along an axis, each element
        of it written once.
        """
        if v.aval.nbytes < PROCESSOR.streamed_bytes or self.first_thread_guard(v):
            return False
        enough = self.axes[axis] * storage_dtype(v.aval).itemsize >= PROCESSOR.stream_block // 2
        return enough and self.output_index(v).coefficient(axis) == 1

    def write(self, depth: int, v: Var) -> None:
        """Store one element of a result."""
        if v in self.streams:
            place = self.streams.pop(v)
            self.line(depth, f"{place} = {self.as_stored(v)};")
        else:
            place = f"{self.out_name[v]}[{self.at(self.output_index(v))}]"
            self.facts.arrays.add(v)
            self.facts.conditional |= bool(self.first_thread_guard(v))
            super().write(depth, v)
        along = self.inner is not None and self.output_index(v).coefficient(self.inner) == 1
        if along and self.as_stored(v).startswith(STORED) and not self.first_thread_guard(v):
            self.lines[-1] = HalfLine(self.lines[-1], STORED, self.names[v], place)

    def first_thread_guard(self, v: Var) -> str:
        """The condition under which an output that lacks some of the axes is written: at their
        beginning. Along an axis whose loop is yet to come, that is where the axis begins if tasks
        are pieces of it.
        """
        dims, reduced = self.group.made[v].dims, self.group.reduced
        wide = any(d in reduced for d in dims)
        places = [
            self.ahead.get(d, self.axis_name[d])
            for d in self.order
            if d not in dims and self.axes[d] > 1 and (wide or d not in reduced)
        ]
        tests = [f"{place} == 0" for place in places if place]
        return f"if ({' && '.join(tests)}) " if tests else ""

    def read_ahead(
        self, depth: int, known: set[int], members: list[Member], scope: Fetched
    ) -> None:
        """Read the operands of later members that do not vary along the loops inside, and of others
        the positions that are looked up in memory, and heavy parts, that do not: compilers would
        leave choices of them in a loop, which is not vectorised then.
        """
        for o in (o for m in members for o in m.operands if isinstance(o, Load)):
            if self.wide_axes(o.dims) <= known:
                self.operand(o, scope, depth)
            elif self.is_inlined(o):
                access = self.access_of(o)
                for atom in always_looked_up(access):
                    if atom.axes <= known:
                        self.look_up(Index(((atom, 1),)), depth, scope)
                for part in heavy_parts(access, known):
                    self.name_repeated(part, self.value(part, depth, scope), depth, scope)


def _all_begin(lines: list[str], head: str) -> bool:
    return all(line.startswith(head) for line in lines)
