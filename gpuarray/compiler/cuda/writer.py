"""Statements that all emitted kernels consist of: positions, reads, operations, stores.

Floor 3. In: a Kernel. Out: `Writer`, which collects lines of CUDA C++; `Template` and its
subclasses arrange them into kernels. No line depends on ids or on the order of building.
"""

from __future__ import annotations

import itertools
import math
import os
import re

from gpuarray.compiler.cuda.reader import Reader, bracketed
from gpuarray.compiler.fuse.group import Inner, Load, Member, Operand
from gpuarray.compiler.lower.choose import loop_order
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import vector_width
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer, expression
from gpuarray.core.element import sources
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.core.index import Index, linear
from gpuarray.core.primitive import Kind

Fetched = dict[tuple, str]  # names of the elements read in a scope, by the key of their load


class Writer(Reader):
    """Lines of one kernel: its members over its axes."""

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel.accesses)
        self.kernel = kernel
        group = kernel.group
        self.user_lines = user_lines
        self.order = loop_order(self.accesses)
        # The arguments: inputs that are read from memory, then what inlined producers read.
        plain = [v for v in group.inputs if v not in group.inlined]
        # Inlined producers read other arrays than the ones that they make.
        inlined = [x for x in self.accesses.loads() if self.is_inlined(x)]
        inside = [v for x in inlined for v in sources(self.access_of(x))]
        self.inputs = list(dict.fromkeys(plain + inside))
        self.outputs = list(group.outputs)
        self.in_name = {v: f"in{i}" for i, v in enumerate(self.inputs)}
        self.out_name = {v: f"out{i}" for i, v in enumerate(self.outputs)}
        self.lines: list[str] = []
        self.names: dict[Var, str] = {}
        self.count = 0
        self.axis_name = {i: f"i{k}" for k, i in enumerate(self.order)}
        # Positions are unsigned and of 32 bits if all sizes fit: division by a constant is cheaper
        # than signed, 64-bit arithmetic costs several times as much, and a negative position wraps
        # to a large one, so that one comparison tests both ends of a range.
        sizes = [v.aval.size for v in (*self.inputs, *group.inlined, *self.outputs)]
        # Below 2**31, a negative position wraps to more than any size.
        self.wide = max(*sizes, math.prod(group.axes), 0) >= 2**31
        self.index_type = "unsigned long long" if self.wide else "unsigned"
        self.suffix = "ull" if self.wide else "u"
        self.whole = self.position_along(self.order)
        self.position = ""  # the name of the position in the whole space, if it has one
        # The axis along which vectors lie, and the loads that are in registers, by key.
        self.last: int | None = self.order[-1] if self.order else None
        self.registers: Fetched = {}
        self.read_outside: Fetched = {}  # read outside all loops
        self.carried: dict[Var, str] = {}  # values that later loops read back, and from where

    # ---- lines ----
    def comment(self, eqn: Eqn, text: str) -> str:
        """The operation of a line, unless its text names it, and the user's line if wanted."""
        # A comment that repeats the function's name would say nothing.
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
        # division compiles to a multiplication. `drop_unused` removes those that nothing needs.
        stride = 1
        lines = []
        for k, axis in enumerate(reversed(axes)):
            length = max(self.axes[axis], 1)  # an empty axis must not divide by 0
            text = position if stride == 1 else f"{position} / {self.number(stride)}"
            if k < len(axes) - 1:
                text = f"{f'({text})' if stride > 1 else text} % {self.number(length)}"
            lines.append(f"const {self.index_type} {self.axis_name[axis]} = {text};")
            stride *= length
        for line in reversed(lines):
            self.line(depth, line)

    # ---- values ----
    def read(self, load: Load) -> str:
        """One element of an input in memory, as a value."""
        name = f"{self.in_name[load.source]}[{self.at(self.load_index(load))}]"
        return f"ga_value({name})" if ct.is_half(load.source.aval) else name

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
            kind = ct.value_type(o.source.aval)
            self.line(depth, f"const {kind} {found} = {text};")
        return found

    def member(self, member: Member, depth: int, fetched: Fetched) -> None:
        """One member for one element: a statement for each of its results."""
        eqn = member.eqn
        operands = [self.operand(o, fetched, depth) for o in member.operands]
        if self.group.copy_of is not None:
            self.names[eqn.outvars[0]] = operands[0]  # a copy stores what it reads
            return
        # A reduction over no axis, or over axes of length 1, folds its one element.
        if eqn.primitive.kind is Kind.REDUCTION:
            reducer = Reducer(eqn)
            texts = [reducer.finish(reducer.lift(operands[0], "0u"))]
        else:
            texts = expression(eqn, operands)
        for v, text in zip(eqn.outvars, texts, strict=True):
            name = self.names[v] = f"v{self.count}"
            self.count += 1
            line = f"const {ct.value_type(v.aval)} {name} = {text};"
            self.line(depth, line, self.comment(eqn, text))

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
        # Outputs without reduced axes are written after the loop: one thread a row gets there.
        wide = any(d in reduced for d in dims)
        others = [
            d
            for d in self.order
            if d not in dims and self.axes[d] > 1 and (wide or d not in reduced)
        ]
        tests = [f"{self.axis_name[d]} == 0" for d in others]
        return f"if ({' && '.join(tests)}) " if tests else ""

    # ---- vectors ----
    def is_vector(self, load: Load) -> bool:
        """Whether neighbouring elements of a load may be read in one access."""
        return self.vector_starts(load) is not None

    def width(self) -> int:
        """Elements of a vector access: 16 bytes of the widest dtype, or fewer if that is unaligned.

        One access of 16 bytes a thread needs fewer instructions for the same bytes than four of 4,
        and keeps more of them under way.
        """
        # Vectors need a fastest axis, and something that is contiguous along it.
        places = [(x, self.vector_starts(x)) for x in self.group.loads()]
        loads = [(x, found) for x, found in places if found is not None]
        # Outputs are stored as vectors where their elements are neighbours.
        outs = [v for v in self.outputs if self.is_unit_stride(self.output_index(v))]
        if self.last is None or not (loads or outs):
            return 1
        # Inlined producers whose reads are not vectors would have each thread read neighbours one
        # by one, with a stride across the warp. If those are the majority, a thread takes one
        # element: neighbouring threads then read neighbouring addresses, which is coalesced.
        inlined = [x for x, found in places if found is None and self.is_inlined(x)]
        scalar = sum(any(i.coefficient(self.last) for _, i in self.elements_of(x)) for x in inlined)
        if 2 * scalar > len(loads):
            return 1
        # A vector of the widest dtype is 16 bytes; all others have as many elements.
        width = vector_width([*(x.source for x, _ in loads), *outs], self.axes[self.last])
        # Halve until every vector begins at a multiple of its own length.
        indices = [i for _, found in loads for i in found] + [self.output_index(v) for v in outs]
        while width > 1 and not all(self.is_aligned(at, width) for at in indices):
            width //= 2
        return width

    def fetch(self, depth: int, members: list[Member], width: int) -> Fetched:
        """Read what a vector of elements needs, before the loop over them.

        Returns the text of element `e` of each load that is a vector or constant along it.
        """
        fetched: Fetched = {}
        for load in (o for m in members for o in m.operands if isinstance(o, Load)):
            key, source = (load.key, load.dims), load.source
            if key in fetched:
                continue
            name = f"x{len(fetched)}"
            # Contiguous loads come as vectors, unless an earlier loop has them in registers.
            if self.is_vector(load):
                name = self.registers.get(key, name)
                if key not in self.registers:
                    text = self.vector_read(load, width, depth, fetched)
                    self.line(depth, f"const {self.vector_of(source, width)} {name} = {text};")
                element = f"{name}.v[e]"
                fetched[key] = f"ga_value({element})" if ct.is_half(source.aval) else element
            # Those without the vector axis are read once. All others are read per element.
            elif self.is_constant_along(load):
                text = self.element_of(load, depth, fetched)
                self.line(depth, f"const {ct.value_type(source.aval)} {name} = {text};")
                fetched[key] = name
        return fetched

    def is_constant_along(self, load: Load) -> bool:
        """Whether a load has the same value for all elements of a vector."""
        return self.last not in load.dims

    def vector_of(self, v: Var, width: int) -> str:
        return f"ga_vec<{ct.memory_type(v.aval)}, {width}>"

    def vector_read(
        self, load: Load, width: int, depth: int = 2, scope: Fetched | None = None
    ) -> str:
        """A vector of neighbouring elements of a load as text, after the lines it needs."""
        # An inlined producer may give a vector as well, after lines of its own.
        if self.is_inlined(load):
            kind = self.vector_of(load.source, width)
            return self.vector(
                self.access_of(load), kind, width, depth, {} if scope is None else scope
            )
        return f"ga_load<{width}>({self.in_name[load.source]} + {self.at(self.load_index(load))})"

    def elements(
        self,
        depth: int,
        members: list[Member],
        stores: list[Var],
        states: dict[Var, str],
        width: int,
    ) -> None:
        """Compute `members` for `width` neighbouring elements, store `stores`, and fold into
        `states`.
        """
        if width == 1:
            self.element(depth, members, stores, states, {}, {})
            return
        # Read whole vectors; a copy writes them back at once.
        fetched = self.fetch(depth, members, width)
        if self.is_vector_copy(members, fetched):
            (v,) = stores
            at = self.at(self.output_index(v))
            self.line(depth, f"ga_store({self.out_name[v]} + {at}, x0);")
            return
        # Declare a vector for each contiguous output; others are stored element by element.
        vectors: dict[Var, str] = {}
        for v in stores:
            if self.is_unit_stride(self.output_index(v)):
                vectors[v] = f"y{len(vectors)}"
                self.line(depth, f"{self.vector_of(v, width)} {vectors[v]};")
        # Compute element by element: unrolled, so that vectors stay in registers (an index that is
        # not constant would put them into local memory).
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        with self.inside_vector():
            self.element(depth + 1, members, stores, states, fetched, vectors)
        self.line(depth, "}")
        # Write the vectors.
        for v, name in vectors.items():
            at = self.at(self.output_index(v))
            self.line(
                depth, f"{self.first_thread_guard(v)}ga_store({self.out_name[v]} + {at}, {name});"
            )

    def is_vector_copy(self, members: list[Member], fetched: Fetched) -> bool:
        """Whether a kernel only copies: it stores the vector that it has read."""
        if self.group.copy_of is None:
            return False
        (v,), (load,) = self.outputs, members[0].operands
        assert isinstance(load, Load)
        read = fetched.get((load.key, load.dims), "").startswith(("x0.v[e]", "ga_value(x0.v[e]"))
        return read and self.is_unit_stride(self.output_index(v))

    def element(
        self,
        depth: int,
        members: list[Member],
        stores: list[Var],
        states: dict[Var, str],
        fetched: Fetched,
        vectors: dict[Var, str],
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
            # A reduction folds the element into its accumulator. Its position in the row is what
            # argmax and argmin return.
            value = self.operand(m.operands[0], fetched, depth)
            reducer = Reducer(m.eqn)
            place = bracketed(self.at(self.position_in_row(m)))
            if not reducer.fold.plain:
                value = bracketed(value)
            merged = reducer.merge(states[v], reducer.lift(value, place))
            self.line(depth, f"{states[v]} = {merged};", self.comment(m.eqn, m.eqn.primitive.name))
        # Outputs.
        for v in stores:
            if v in vectors:
                self.line(depth, f"{vectors[v]}.v[e] = {self.as_stored(v)};")
            else:
                self.write(depth, v)
        # Names end with the scope of the element, but for those of carried values.
        self.names = outside
        made = {v for m in members for v in m.eqn.outvars}
        for v, place in self.carried.items():
            if v in made:
                self.names[v] = f"ga_value({place})" if ct.is_half(v.aval) else place

    def position_in_row(self, m: Member) -> Index:
        """Row-major position of an element among those that a reduction folds, in its operand."""
        # Positions are counted along the reduced axes alone.
        lengths = m.eqn.invars[0].aval.shape
        gone = [(d, n) for d, n in zip(m.space, lengths, strict=True) if d in self.group.reduced]
        return linear(self.along([d for d, _ in gone]), [n for _, n in gone])

    # ---- the whole ----
    def drop_unused(self) -> None:
        """Remove definitions of positions that nothing in their scope reads. Repeated until none is
        left, since a position may be read by another one only.
        """
        # Definitions of positions; all other lines are emitted because something reads them.
        defined = re.compile(r"( *)const unsigned(?: long long)? (i\d+|j) = ")
        before = 0
        while before != len(self.lines):
            before, used = len(self.lines), []
            for k, line in enumerate(self.lines):
                found = defined.match(line)
                if found:
                    # The scope: lines at least as deep as the definition.
                    inside = re.compile(rf"{found[1]}|\s*$")
                    scope = itertools.takewhile(inside.match, self.lines[k + 1 :])
                    if not any(re.search(rf"\b{found[2]}\b", x) for x in scope):
                        continue
                used.append(line)
            self.lines = used
