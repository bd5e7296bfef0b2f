"""Statements that kernels of every target consist of: reads, operations, folds, stores.

Floor 3. In: a Kernel. Out: `Statements`, which collects lines of C++; the writers of a target
arrange them into loops. No line depends on ids or on the order of building.
"""

from __future__ import annotations

import itertools
import os
import re

from gpuarray.compiler.fuse.group import Inner, Load, Member, Operand
from gpuarray.compiler.lower.choose import loop_order
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer, expression
from gpuarray.compiler.text.reader import PositionLine, Reader, bracketed, commented
from gpuarray.core.element import sources
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index, linear
from gpuarray.core.primitive import Kind

Fetched = dict[tuple, str]  # names of the elements read in a scope, by the key of their load


#: A store of a value that has a name, and the line that names one.
_STORE = re.compile(r"(.*\] = )([vx]\d+);")
_WORD = re.compile(r"\w+")
_NAMED = re.compile(r" *const [\w ]+ ([vx]\d+) = (.*?);(?: *// (.*))?")


class Statements(Reader):
    """Lines of one kernel: its members over its axes."""

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel.accesses)
        self.kernel = kernel
        group = kernel.group
        self.user_lines = user_lines
        self.order = loop_order(self.accesses)
        # The arguments: inputs that are read from memory, then inputs of inlined producers.
        plain = [v for v in group.inputs if v not in group.inlined]
        # Inlined producers read other arrays than the ones that they make.
        inlined = [x for x in self.accesses.loads() if self.is_inlined(x)]
        inside = [v for x in inlined for v in sources(self.access_of(x))]
        self.inputs = list(dict.fromkeys(plain + inside))
        # An output is an argument, or a part of one.
        self.results, self.outputs = list(group.outputs), list(group.stored)
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        self.out_name = {v: f"out{i}" for i, v in enumerate(self.results)}
        self.out_name |= {v: self.out_name[p.whole] for v, p in group.joined.items()}
        self.lines: list[str] = []
        self.names: dict[Var, str] = {}
        self.count = 0
        self.axis_name = {i: f"i{k}" for k, i in enumerate(self.order)}
        self.whole = self.position_along(self.order)
        self.position = ""  # the name of the position in the whole space, if it has one
        # The axis of vectors, and the loads that are in registers, by key.
        self.last: int | None = self.order[-1] if self.order else None
        self.registers: Fetched = {}
        self.read_outside: Fetched = {}  # read outside all loops
        self.carried: dict[Var, str] = {}  # values that later loops read back, and from where

    # ---- lines ----
    def comment(self, eqn: Eqn, text: str) -> str:
        """The operation of a line, unless its text names it, and the user's line if wanted."""
        # A comment that repeats the function's name would be useless.
        words = [] if eqn.primitive.name in text else [eqn.primitive.name]
        if self.user_lines and eqn.site is not None:
            file, line, _ = eqn.site
            scope = f" in {eqn.site.scope}" if eqn.site.scope else ""
            words.append(f"{os.path.basename(file)}:{line}{scope}")
        return "  ".join(words)

    # ---- positions ----
    def define_axes(self, depth: int, position: str, axes: list[int]) -> None:
        """Define the positions along `axes` from their common row-major position."""
        # A single axis has the common position itself: no line, no division.
        if len(axes) == 1:
            self.axis_name[axes[0]] = position
            return
        # The slowest axis needs no remainder, the fastest no quotient. Lengths are constants, so a
        # division compiles to a multiplication. `drop_unused` removes those that are not needed.
        stride = 1
        lines = []
        for k, axis in enumerate(reversed(axes)):
            length = max(self.axes[axis], 1)  # an empty axis must not divide by 0
            text = position if stride == 1 else f"{position} / {self.number(stride)}"
            if k < len(axes) - 1:
                text = f"{f'({text})' if stride > 1 else text} % {self.number(length)}"
            lines.append((self.axis_name[axis], text))
            stride *= length
        for name, text in reversed(lines):
            self.name_position(depth, name, text)

    def spaces(self) -> tuple[list[int], list[int]]:
        """The parallel and the reduced axes, each from the slowest to the fastest in memory."""
        gone = self.group.reduced
        return [i for i in self.order if i not in gone], [i for i in self.order if i in gone]

    # ---- values ----
    def read(self, load: Load) -> str:
        """One element of an input in memory, as a value."""
        self.touched.note(load.source, self.load_index(load))
        name = f"{self.in_name[load.source]}[{self.at(self.load_index(load))}]"
        return self.read_from(name, load.source.aval)

    def element_of(self, load: Load, depth: int, scope: Fetched) -> str:
        """One element of a load: read from memory, or computed if its producer is inlined."""
        if self.is_inlined(load):
            return self.value(self.access_of(load), depth, scope, named=True)
        return self.read(load)

    def operand(self, o: Operand, fetched: Fetched, depth: int) -> str:
        if isinstance(o, Literal):
            return ct.constant(o.val, o.aval)
        if isinstance(o, Inner):
            return self.names[o.var]
        # One name for each load in a scope, however many members read it.
        key = (o.key, o.dims)
        found = fetched.get(key)
        if found is None:
            text = self.element_of(o, depth, fetched)
            if self.is_inlined(o) and re.fullmatch(r"\w+", text):  # it has a name already
                fetched[key] = text
                return text
            found = fetched[key] = f"x{len(fetched)}"
            self.define(depth, o.source.aval, found, text)
        return found

    def pointwise(self, eqn: Eqn, operands: list[str]) -> list[str]:
        """The results of a pointwise equation as text."""
        return expression(eqn, operands)

    def member(self, member: Member, depth: int, fetched: Fetched) -> None:
        """One member for one element: a statement for each of its results."""
        eqn = member.eqn
        operands = [self.operand(o, fetched, depth) for o in member.operands]
        if self.group.copy_of is not None:
            self.names[eqn.outvars[0]] = operands[0]  # a copy stores its operand
            return
        # A reduction over no axis, or over axes of length 1, folds its one element.
        if eqn.primitive.kind is Kind.REDUCTION:
            reducer = self.reducer(eqn.outvars[0])
            texts = reducer.results(reducer.lift_all(operands, "0u"))
        else:
            texts = self.pointwise(eqn, operands)
        for v, text in zip(eqn.outvars, texts, strict=True):
            if re.fullmatch(r"[vxt]\d+", text):  # a constant that has a name
                self.names[v] = text
                continue
            name = self.names[v] = f"v{self.count}"
            self.count += 1
            self.define(depth, v.aval, name, text, self.comment(eqn, text))

    def as_stored(self, v: Var) -> str:
        """A value converted to its memory type; that is exact, because it is rounded already."""
        name = self.names[v]
        return f"ga_exact<{ct.memory_type(v.aval)}>({name})" if ct.is_half(v.aval) else name

    def write(self, depth: int, v: Var) -> None:
        """Store one element of an output."""
        at = self.at(self.output_index(v))
        self.line(
            depth, f"{self.first_thread_guard(v)}{self.out_name[v]}[{at}] = {self.as_stored(v)};"
        )

    def first_thread_guard(self, v: Var) -> str:
        """The condition under which a thread writes an output that lacks some of the axes.

        Many threads compute the same element; the one at position 0 of the missing axes writes it,
        so that no two threads race. Empty if no axis is missing.
        """
        dims, reduced = self.group.made[v].dims, self.group.reduced
        # Outputs without reduced axes are written after the loop: one thread of each row gets
        # there.
        wide = any(d in reduced for d in dims)
        others = [
            d
            for d in self.order
            if d not in dims and self.axes[d] > 1 and (wide or d not in reduced)
        ]
        tests = [f"{self.axis_name[d]} == 0" for d in others]
        return f"if ({' && '.join(tests)}) " if tests else ""

    # ---- elements ----
    def write_outputs(self, depth: int, stores: list[Var], vectors: dict[Var, str]) -> None:
        """Store one element of each output, or put it into the vector that `vectors` names."""
        for v in stores:
            if v in vectors:
                self.line(depth, f"{vectors[v]}.v[e] = {self.as_stored(v)};")
            else:
                self.write(depth, v)

    def element(
        self,
        depth: int,
        members: list[Member],
        stores: list[Var],
        states: dict[Var, str],
        fetched: Fetched,
        vectors: dict[Var, str] | None = None,
    ) -> None:
        """Compute `members` for one element; outputs that `vectors` names go into their vector."""
        # Names of this element must not be seen by the next one, which has its own scope.
        outside = dict(self.names)
        # Operations, in order. Values that later loops read are stored where these look for them.
        for m in members:
            v = m.eqn.outvars[0]
            if v not in states:
                self.member(m, depth, fetched)
                for carried in (v for v in m.eqn.outvars if v in self.carried):
                    self.line(depth, f"{self.carried[carried]} = {self.as_stored(carried)};")
                continue
            # A reduction folds the element into its accumulator. argmax and argmin return its
            # position in the row.
            values = [self.operand(o, fetched, depth) for o in m.operands]
            reducer = self.reducer(v)
            place = bracketed(self.place_in_row(m))
            if not reducer.plain:
                values = [bracketed(x) for x in values]
            merged = self.merged_next(reducer, states[v], reducer.lift_all(values, place))
            self.line(depth, f"{states[v]} = {merged};", self.comment(m.eqn, m.eqn.primitive.name))
        self.write_outputs(depth, stores, vectors or {})
        # Names end with the scope of the element, except those of carried values.
        self.names = outside
        made = {v for m in members for v in m.eqn.outvars}
        for v, place in self.carried.items():
            if v in made:
                self.names[v] = f"ga_value({place})" if ct.is_half(v.aval) else place

    def merged_next(self, reducer: Reducer, state: str, element: str) -> str:
        """A partial result, merged with an element behind all of those in it."""
        return reducer.merge(state, element)

    def reducer(self, v: Var) -> Reducer:
        """The fold of a reduction."""
        return Reducer(self.group.made[v].eqn)

    def place_in_row(self, m: Member) -> str:
        """The position of an element in its row."""
        return self.at(self.position_in_row(m))

    def position_in_row(self, m: Member) -> Index:
        """Row-major position of an element among those that a reduction folds, in its operand."""
        # Positions are counted along the reduced axes alone.
        lengths = m.eqn.invars[0].aval.shape
        gone = [(d, n) for d, n in zip(m.space, lengths, strict=True) if d in self.group.reduced]
        return linear(self.along([d for d, _ in gone]), [n for _, n in gone])

    # ---- the whole ----
    def tidy(self) -> None:
        """Remove text that readers and compilers do not need."""
        self.drop_unused()
        self.store_directly()

    def store_directly(self) -> None:
        """Store a value without naming it first, if only its store reads it."""
        # In reverse, so that the numbers of earlier lines do not change; `read` has the names used
        # further down, and nothing further up reads a name, which is defined before.
        read: set[str] = set()
        for k in range(len(self.lines) - 1, 0, -1):
            line = self.lines[k]
            stored = _STORE.fullmatch(line) if "] = " in line else None
            found = _NAMED.fullmatch(self.lines[k - 1]) if stored else None
            if stored and found and found[1] == stored[2]:
                place, name = stored.groups()
                if name not in read and name not in _WORD.findall(place):
                    self.lines[k - 1 : k + 1] = [commented(f"{place}{found[2]};", found[3])]
                    continue  # the line is the next one to look at
            read.update(_WORD.findall(line))

    def drop_unused(self) -> None:
        """Remove definitions of positions that are not read in their scope. Repeated until none is
        left, since a position may be read only by another one.
        """
        before = 0
        while before != len(self.lines):
            before = len(self.lines)
            self.lines = [
                line
                for k, line in enumerate(self.lines)
                if not isinstance(line, PositionLine) or self._is_read(line, k)
            ]

    def _is_read(self, line: PositionLine, k: int) -> bool:
        """Whether the position that line `k` defines is read in its scope: the following lines that
        are at least as deep.
        """
        depth = line[: len(line) - len(line.lstrip())]
        deep_enough = lambda x: not x.strip() or x.startswith(depth)
        scope = itertools.takewhile(deep_enough, self.lines[k + 1 :])
        return any(re.search(rf"\b{line.variable}\b", x) for x in scope)
