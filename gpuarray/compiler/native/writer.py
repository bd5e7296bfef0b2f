"""The base of native kernels: loops over axes, with each value computed where it first can be.

Floor 3. In: a Kernel. Out: `NativeWriter`, whose subclasses, one a form, return a `NativeSource`:
functions over a range of tasks, and the phases in which they are called. No line says how many
threads there are: a task is a fixed piece of the work, so results do not depend on them.
"""

from __future__ import annotations

import abc
import itertools
import math
import re
from collections.abc import Iterable

from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.steps import named_operations, step_work
from gpuarray.compiler.native.accesses import (
    always_looked_up,
    always_read,
    chosen_from,
    heavy_parts,
)
from gpuarray.compiler.native.schedule import end_of_piece, even
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import expression
from gpuarray.compiler.text.prelude import blocks
from gpuarray.compiler.text.statements import Fetched, Statements
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import (
    Access,
    Applied,
    Below,
    Element,
    Guarded,
    Lookup,
    Test,
)
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Axis, Index, axes_of
from gpuarray.core.target import PROCESSOR
from gpuarray.util import Struct


class Phase(Struct):
    """A call of a function for all of its tasks; the next phase begins when all are done.

    Attributes
    ----------
    grain :
        Tasks that a thread takes at a time.
    """

    function: str
    tasks: int
    grain: int
    arguments: tuple[str, ...]


class Streams(Struct):
    """The loop over blocks of results that are stored past the cache: the bounds of the loop in it,
    how many loops deeper that is, and the lines behind it.
    """

    bounds: tuple[str, str]
    depth: int
    after: tuple[str, ...]


class NativeSource(Struct, eq=False):
    """A kernel as C++ functions, and the phases that call them.

    Attributes
    ----------
    inputs, outputs :
        The arrays that are its arguments, in this order.
    room :
        Arrays between phases, by name: the type of their elements, and how many there are.
    work :
        Operations on elements, roughly.
    begins :
        What the output has to hold before the kernel runs.
    """

    kernel: Kernel
    functions: str
    phases: tuple[Phase, ...]
    inputs: list[Var]
    outputs: list[Var]
    room: dict[str, tuple[str, int]] = {}
    work: float = 0.0
    begins: Var | None = None

    @property
    def name(self) -> str:
        """The name of the kernel in the text."""
        return self.kernel.name

    @property
    def form(self) -> str:
        """The form of the kernel."""
        return self.kernel.form

    @property
    def text(self) -> str:
        """The functions, and the one that runs all phases on arrays of Python's."""
        arrays = [f"in{i}" for i in range(len(self.inputs))]
        arrays += [f"out{i}" for i in range(len(self.outputs))]
        lines = [
            f"GA_CALLED int call_{self.name}({', '.join(f'ga_array* {a}' for a in arrays)}) {{",
            f"    if (!ga_plain({', '.join(arrays)})) return 1;",
        ]
        # Room for what phases leave to one another; without memory the caller takes another way.
        lines += [f"    ga_room<{kind}> {name}({n});" for name, (kind, n) in self.room.items()]
        if self.room:
            lines.append(f"    if ({' || '.join(f'!{name}' for name in self.room)}) return 2;")
        for p in self.phases:
            given = ", ".join(p.arguments)
            lines.append(f"    ga_tasks({p.tasks}, {p.grain}, {p.function}, {given});")
        return "\n".join([self.functions.rstrip(), *lines, "    return 0;", "}"]) + "\n"


class NativeWriter(Statements, abc.ABC):
    """Functions of one kernel; each form has its subclass."""

    #: Positions have 64 bits: a CPU computes them for nothing, and with fewer the compiler could
    #: not know that neighbours stay neighbours. Unsigned, so that one comparison tests both ends.
    index_type = "ga_index"
    suffix = ""
    #: Whether a task may be run twice.
    repeatable = True
    #: The axis of the innermost loop, of forms whose loops are made of vectors.
    inner: int | None = None

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        self.done: list[str] = []  # finished functions
        self.phases: list[Phase] = []
        self.room: dict[str, tuple[str, int]] = {}
        # Axes whose loops are not open yet, with what tells where this task begins along them.
        self.ahead: dict[int, str] = {}
        # Results that are stored past the cache: the element of the array that holds them before.
        self.streams: dict[Var, str] = {}
        # Where along an axis tests begin or end to hold, while its loop is not split there; and
        # whether there are other tests.
        self.edges: dict[int, set[int]] = {}
        self.other_tests = False
        # How often the innermost line of a nest is there after loops were split, and if some were.
        self.copies, self.split = 1, False
        # Places of rows that are chosen by position, and their names: see `define_rows`.
        self.rows_chosen: dict[str, str] | None = None

    @abc.abstractmethod
    def source(self) -> NativeSource:
        """The text of the kernel."""

    def read_from(self, place: str, aval: ShapedArray) -> str:
        """The value of an element in memory. A loop with conditions that are bools in memory is not
        vectorised, one with bytes that are compared is.
        """
        if storage_dtype(aval).kind == "b":
            return f"ga_flag({place})"
        return super().read_from(place, aval)

    def place_type(self, atom: Lookup) -> str:
        """Positions that are looked up and are never negative have 32 bits where all arrays are so
        small that no product of them overflows: as many as floats go into a vector then.
        """
        few = all(v.aval.size < 1 << 28 for v in (*self.inputs, *self.outputs))
        return "int" if few and not atom.find else super().place_type(atom)

    def test(self, test: Test, scope: Fetched, fails: bool = False) -> str:
        """A test as text, or that it fails: below 0 positions wrap, those of 32 bits too."""
        self.note_edges(test)
        narrow = any(self.place_type(a) == "int" for a in self.lookups(test.index))
        if narrow and isinstance(test, Below):
            below = ">=" if fails else "<"
            return f"(ga_index)({self.at(test.index, scope)}) {below} {test.bound}"
        return super().test(test, scope, fails)

    def operands_of(
        self, access: Applied, texts: list[str], depth: int, scope: Fetched
    ) -> list[str]:
        """What a choice is between is read before: a loop of choices of values is vectorised, one
        of choices of reads is not.
        """
        if access.eqn is None or "? " not in expression(access.eqn, texts)[access.number]:
            return texts
        named = list(texts)
        for k, operand in enumerate(access.operands):
            if _READ.search(texts[k]):
                named[k] = self.name_repeated(operand, texts[k], depth, scope)
        return named

    def applied(self, access: Applied, depth: int, scope: Fetched) -> str:
        """The text of an operation; a choice that reads in it is a test too."""
        text = super().applied(access, depth, scope)
        self.other_tests |= bool(_CONDITIONAL.search(text))
        return text

    def guarded(self, access: Guarded, depth: int, scope: Fetched) -> str:
        """A choice; between places of one array, the same for a whole row, one read from the place
        that is chosen: a loop of such reads is vectorised, a loop of choices is not.
        """
        if self.inner is None:
            return self.chosen(access, depth, scope)
        leaves, tests = chosen_from(access)
        steps = {x.index.coefficient(self.inner) for x in leaves}
        indices = [*(x.index for x in leaves), *(t.index for t in tests)]
        if (
            len(steps) != 1
            or None in steps
            or len({x.source for x in leaves}) > 1
            or any(self.inner in axes_of(t.index) for t in tests)
            or any(self.lookups(index) for index in indices)
        ):
            return self.chosen(access, depth, scope)
        # The reader is not called for them, so what they read is noted here.
        for x in leaves:
            self.touched.note(x.source, x.index)
        # All leaves go along the innermost axis alike: only where the row begins is chosen.
        (step,) = steps
        along = Index(tuple((a, k) for a, k in leaves[0].index.terms if self.inner in a.axes))
        place = self.place_of(access, scope)
        if self.rows_chosen is not None:
            self.rows_chosen.setdefault(place, f"row{self.count}")
            self.count += 1
            place = self.rows_chosen[place]
        if step:
            place = f"{self.at(along, scope)} + {place}"
        return self.read_from(f"{self.in_name[leaves[0].source]}[{place}]", leaves[0].source.aval)

    def chosen(self, access: Guarded, depth: int, scope: Fetched) -> str:
        """A choice; what both sides read is read before it."""
        other = set(always_read(access.outside))
        for part in (x for x in always_read(access.inside) if x in other):
            self.name_repeated(part, self.value(part, depth, scope), depth, scope)
        return super().guarded(access, depth, scope)

    def place_of(self, access: Access, scope: Fetched) -> str:
        """The place of the row that is read, without the position along the innermost axis."""
        if isinstance(access, Guarded):
            tests = " && ".join(super(NativeWriter, self).test(t, scope) for t in access.tests)
            one, two = (self.place_of(x, scope) for x in (access.inside, access.outside))
            return f"({tests} ? {one} : {two})"
        assert isinstance(access, Element)
        index = access.index
        terms = tuple((a, k) for a, k in index.terms if self.inner not in a.axes)
        return self.at(Index(terms, index.constant), scope)

    # ---- loops ----
    def wide_axes(self, dims: Iterable[int | None]) -> set[int]:
        """The axes of the loops along which a value varies."""
        return {i for index in self.along(dims) for i in axes_of(index)}

    def open_axis(
        self, depth: int, axis: int, begin: str = "0", end: str = "", comment: str = ""
    ) -> None:
        """Open the loop along an axis."""
        i, end = self.axis_name[axis], end or self.number(self.axes[axis])
        self.line(depth, f"for (ga_index {i} = {begin}; {i} < {end}; ++{i}) {{", comment)

    def close_axis(self, depth: int, axis: int) -> None:
        """Close what `open_axis` has opened."""
        self.line(depth, "}")

    def nest(
        self,
        depth: int,
        known: set[int],
        axes: list[int],
        members: list[Member],
        stores: list[Var],
        scope: Fetched,
        ends: dict[int, tuple[str, str]] | None = None,
    ) -> None:
        """Loops along `axes`, the last the innermost, around members and stores. Each stands in the
        outermost loop that knows its position: `known` are the axes outside.
        """
        known, waiting, left = set(known), list(members), list(stores)
        # Where a value lacks one of these axes, it is written at the beginning of that loop.
        self.ahead = {axis: (ends or {}).get(axis, ("", ""))[0] for axis in axes}
        opened: list[tuple[int, int, tuple[str, str]]] = []  # axis, line, bounds of each loop
        # From the outside inwards: first what needs no loop at all, then what each loop brings.
        for k, axis in enumerate([None, *axes]):
            if axis is not None:
                bounds = (ends or {}).get(axis, ("0", ""))
                if k == len(axes):
                    streamed = self.open_streams(depth + k - 1, axis, left, *bounds)
                    bounds = streamed.bounds
                    depth += streamed.depth
                opened.append((axis, len(self.lines), bounds))
                self.open_axis(depth + k - 1, axis, *bounds)
                if k == len(axes) and axis == self.inner:
                    self.rows_chosen = {}
                known.add(axis)
                del self.ahead[axis]
                scope = dict(scope)  # names end with the loop that they are defined in
            level = depth + k
            if axis is not None and k == len(axes):
                self.fetch_ahead(level, axis, bounds[1], waiting)
            # What is read or computed here serves all turns of the loops inside.
            now = [m for m in waiting if self.wide_axes(m.space) <= known]
            waiting = [m for m in waiting if m not in now]
            if k < len(axes):
                self.read_ahead(level, known, waiting, scope)
            for m in now:
                self.member(m, level, scope)
            for v in [v for v in left if self.wide_axes(self.group.made[v].dims) <= known]:
                if v in self.names:
                    left.remove(v)
                    self.write(level, v)
        # Loops end from the inside outwards.
        for k in reversed(range(len(axes))):
            self.close_axis(depth + k, axes[k])
            axis, begun, bounds = opened[k]
            before = len(self.lines)
            if k == len(axes) - 1:
                self.define_rows(depth + k, begun)
            self.split_loop(depth + k, axis, begun + len(self.lines) - before, bounds)
            if k == len(axes) - 1:
                depth = self.close_streams(depth + k, streamed) - k

    def fetch_ahead(self, depth: int, axis: int, end: str, members: list[Member]) -> None:
        """At the beginning of a turn of the innermost loop: ask for what later turns need."""

    def define_rows(self, depth: int, opened: int) -> None:
        """Before the innermost loop, which begins at line `opened`: where the rows are that it
        reads. Within it g++ would make a choice of reads of the read from a place that is chosen.
        """
        lines = [
            f"{'    ' * depth}const ga_index {name} = {place.removeprefix('(').removesuffix(')')};"
            for place, name in (self.rows_chosen or {}).items()
        ]
        self.lines[opened:opened] = lines
        self.rows_chosen = None

    # ---- loops in pieces ----
    def note_edges(self, test: Test) -> None:
        """Note where a test begins or ends to hold, if it is about the position along one axis."""
        # Axes of loops in the element have negative numbers: a window's.
        terms = [(a, k) for a, k in test.index.terms if not isinstance(a, Axis) or a.number >= 0]
        within = [k * a.largest for a, k in test.index.terms if (a, k) not in terms]
        atom, step = terms[0] if len(terms) == 1 else (None, 0)
        if not isinstance(test, Below) or not isinstance(atom, Axis) or abs(step) != 1:
            self.other_tests = True
            return
        # Before the first and behind the last piece they fail for a part of the window.
        self.other_tests |= bool(within)
        least, most = (sum(x for x in within if x * sign > 0) for sign in (-1, 1))
        # 0 <= i + c < bound, or 0 <= c - i < bound, wherever in the window.
        c, bound = test.index.constant, test.bound
        ends = (
            (-c - least, bound - c - most) if step == 1 else (c + most - bound + 1, c + least + 1)
        )
        self.edges.setdefault(atom.number, set()).update(ends)

    def split_loop(
        self,
        depth: int,
        axis: int,
        opened: int,
        bounds: tuple[str, str],
        comment: str = "",
        lanes: str = "",
    ) -> None:
        """Split the loop that begins at line `opened` where tests inside begin or end to hold: in
        each piece the compiler knows what they say, and makes vectors of it. A loop around it is
        split too: each piece of that has all pieces of this one. `lanes` is the function that makes
        the turns, if it is no `for`.
        """
        # The loop as it was written: its head, its turns, and the closing line.
        head, *body, _ = self.lines[opened:]
        length, i = self.axes[axis], self.axis_name[axis]
        cuts = sorted(edge for edge in self.edges.get(axis, ()) if 0 < edge < length)
        pieces = list(itertools.pairwise([0, *cuts, length]))
        if not cuts or max(last - first for first, last in pieces) < PROCESSOR.split_from:
            return
        # Text multiplies with every loop that is split around another.
        copies = self.copies * len(pieces)
        if len(body) * copies > PROCESSOR.split_lines or not (lanes or " for (" in head):
            return
        self.copies, self.split = copies, True
        # Each piece is on one side of every edge, so nothing is left to be split there.
        del self.edges[axis]
        begin, end = bounds[0], bounds[1] or self.number(length)
        whole = begin == "0" and end == self.number(length)
        del self.lines[opened:]
        # The turns become a lambda, which is inlined in each piece.
        given = f"ga_index {i}, ga_index lane" if lanes else f"ga_index {i}"
        # Another pass over the same axis may be in the same scope.
        head = f"{'    ' * depth}const auto at_{i}"
        number = sum(line.startswith(head) for line in self.lines)
        at = f"at_{i}_{number}" if number else f"at_{i}"
        self.line(depth, f"const auto {at} = [&]({given}) GA_STEP {{", comment)
        self.lines += body
        self.line(depth, "};")
        for first, last in pieces:
            if whole and last == first + 1 and not lanes:
                self.line(depth, f"{at}({first});")
                continue
            # Tasks may have any part of the axis.
            start = str(first) if whole else f"ga_most({begin}, {first})" if first else begin
            stop = str(last) if whole else f"ga_least({end}, {last})" if last < length else end
            turns = f"for (ga_index {i} = {start}; {i} < {stop}; ++{i}) {at}({i});"
            self.line(depth, f"{lanes}({start}, {stop}, {at});" if lanes else turns)

    # ---- results that are stored past the cache ----
    def open_streams(
        self, depth: int, axis: int, stores: list[Var], begin: str, end: str
    ) -> Streams:
        """Open a loop over blocks around the innermost loop, if results of it are stored past the
        cache: each block is computed into the first cache and stored from there.
        """
        end = end or self.number(self.axes[axis])
        # A store past the cache does not read the line first, which saves a third of a
        # copy's traffic, but has to write whole lines: hence a block that is computed near by.
        chosen = [v for v in stores if self.is_streamed(v, axis)]
        if not chosen:
            return Streams((begin, end), 0, ())
        # Blocks of as many elements of each result, the widest of which fills a block.
        widest = max(storage_dtype(v.aval).itemsize for v in chosen)
        block, i = PROCESSOR.stream_block // widest, self.axis_name[axis]
        head = f"for (ga_index block = {begin}; block < {end}; block += {block}) {{"
        self.line(depth, head)
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
        return Streams(("block", "over"), 1, tuple(after))

    def close_streams(self, depth: int, opened: Streams) -> int:
        """Store what `open_streams` had kept, behind the innermost loop; the depth outside."""
        for text in opened.after:
            self.line(depth, text, "past the cache")
        if opened.after:
            self.line(depth - 1, "}")
        return depth - opened.depth

    def is_streamed(self, v: Var, axis: int) -> bool:
        """Whether a result is too large for the cache and lies along an axis, each element of it
        written once.
        """
        if v.aval.nbytes < PROCESSOR.streamed_bytes or self.first_thread_guard(v):
            return False
        enough = self.axes[axis] * storage_dtype(v.aval).itemsize >= PROCESSOR.stream_block // 2
        return enough and self.output_index(v).coefficient(axis) == 1

    def write(self, depth: int, v: Var) -> None:
        """Store one element of a result."""
        if v in self.streams:
            self.line(depth, f"{self.streams.pop(v)} = {self.as_stored(v)};")
        else:
            super().write(depth, v)

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

    # ---- functions ----
    def end_function(self, name: str, arguments: list[tuple[str, str]], tasks: int, grain: int):
        """End the function that the lines so far are the body of, and note the phase that calls
        it; `arguments` are (type, name).
        """
        self.tidy()
        # Where loops are split at every test, none of them is left in the pieces.
        decided = self.split and not self.edges and not self.other_tests
        if not decided or any(map(_BACKWARDS.search, self.lines)):
            self.lines = _kept_loops(self.lines)
        # Other threads see stores past the cache only behind a fence.
        if any("ga_stream(" in line for line in self.lines):
            self.line(1, "ga_streamed();")
        # Only what the body reads or writes.
        words = set(re.findall(r"\w+", "\n".join(self.lines)))
        arguments = [(kind, a) for kind, a in arguments if a in words]
        near = self.for_near_numbers() if self.repeatable else None
        kind, called = ("GA_TASKS", name) if near is None else ("GA_NEAR_OR_ALL", f"{name}_of")
        given = [f"{kind} GA_ALONE {a}" for kind, a in arguments]
        # Arguments do not overlap (GA_ALONE), without which no loop would be vectorised.
        head = f"{kind} {called}(ga_index first, ga_index last, {', '.join(given)}) {{"
        if len(head) > 100:
            head = f"{kind} {called}(\n    ga_index first, ga_index last,\n    "
            head += ",\n    ".join(given) + ") {"
        self.done += [head, *(near or self.lines), "}"]
        if near is not None:
            # Again for all numbers, if some were too large for the shorter way.
            plain = ", ".join(["first", "last", *(a for _, a in arguments)])
            self.done += [
                head.replace(kind, "GA_TASKS", 1).replace(called, name, 1),
                f"    if (!{called}<true>({plain})) {called}<false>({plain});",
                "}",
            ]
        self.lines, self.edges, self.other_tests = [], {}, False
        self.copies, self.split = 1, False
        self.phases.append(Phase(name, tasks, even(tasks, grain), tuple(a for _, a in arguments)))

    def for_near_numbers(self) -> list[str] | None:
        """The lines of a function that notes whether numbers were near, for which some functions of
        the prelude (`f_in` beside `f`) have a shorter way; None without such functions.
        """
        known = blocks(native=True)
        called = re.compile(r"\b(ga_\w+)\(")
        names = {n for n in called.findall("\n".join(self.lines)) if f"{n}_in" in known}
        if not names:
            return None
        # `f(x)` becomes `f_in<NEAR>(far, x)`: with NEAR it takes the short way and notes in `far`
        # whether some number was too large for it.
        marked = re.compile(rf"\b({'|'.join(sorted(names))})\(")
        lines = [marked.sub(r"\1_in<NEAR>(far, ", x) for x in self.lines]
        # It returns whether all numbers were near: true where it ends before it has met any.
        lines = [re.sub(r"\breturn;", "return true;", x) for x in lines]
        return ["    int far = 0;", *lines, "    return !far;"]

    def parameters(self, outputs: bool = True) -> list[tuple[str, str]]:
        """The types and names of the inputs, and of the outputs."""
        found = [(f"const {ct.memory_type(v.aval)}*", self.in_name[v]) for v in self.inputs]
        if outputs:
            found += [(f"{ct.memory_type(v.aval)}*", self.out_name[v]) for v in self.outputs]
        return found

    def grain(self, elements: int) -> int:
        """How many tasks of `elements` elements a thread takes at a time."""
        return max(1, PROCESSOR.task // max(1, elements))

    def finish(self, note: str) -> NativeSource:
        """The finished functions under a comment: operations, arguments, bytes moved."""
        formulas = named_operations(self.group)
        ins = [f"{self.in_name[v]} {v.aval.str_short(True)}" for v in self.inputs]
        outs = [f"{self.out_name[v]} {v.aval.str_short(True)}" for v in self.outputs]
        moved = sum(v.aval.nbytes for v in (*self.inputs, *self.outputs))
        head = [
            f"// {self.kernel.name}: {formulas}",
            f"//   {', '.join(ins) or 'no inputs'} -> {', '.join(outs)}    {moved} bytes",
            f"//   {note}",
        ]
        return NativeSource(
            self.kernel,
            "\n".join([*head, *self.done]) + "\n",
            tuple(self.phases),
            self.inputs,
            self.outputs,
            self.room,
            max(step_work(self.kernel), math.prod(self.group.axes)),
        )


#: A read; one from the end to the beginning; one that a condition may skip; a loop of a fixed
#: length inside another; partial results.
_BACKWARDS = re.compile(r"\bin\d+\[[^\]]*- i\d+")
_READ = re.compile(r"\bin\d+\[")
_CONDITIONAL = re.compile(r"\? .*\bin\d+\[|^ +if \((?!first == last)")
_LANES = re.compile(r"\bga_lanes<(\d+)>\(")
_SHORT = re.compile(r"        +for \(ga_index \w+ = \w+; \w+ < (\d+); ")


def _kept_loops(lines: list[str]) -> list[str]:
    """The lines of a function; where it reads under conditions or backwards, its short inner loops
    stay loops.

    Unrolled before the loop around them is vectorised, reads under conditions are zeros, since
    g++ 12 masks them wrongly; and a sum of floats in their order takes those of reversed rows from
    the wrong places.
    """
    if not any(_CONDITIONAL.search(line) or _BACKWARDS.search(line) for line in lines):
        return lines
    made: list[str] = []
    for line in lines:
        found = _SHORT.match(line)
        if found and int(found[1]) <= PROCESSOR.unrolled:
            made.append("#pragma GCC unroll 1")
        # So do the loops of lanes, which would be unrolled as well.
        made.append(_LANES.sub(r"ga_short_lanes<\1>(", line))
    return made
