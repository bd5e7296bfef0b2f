"""Statements of kernels for a GPU: positions of 32 bits where they fit, and vectors of elements.

Floor 3. In: a Kernel. Out: `Writer`, which collects lines of CUDA C++; `Template` and its
subclasses arrange them into kernels. A thread reads neighbouring elements in one access where they
are aligned: through guards and inlined producers too.
"""

from __future__ import annotations

import math
import re

from gpuarray.compiler.cuda.vectors import Vectors
from gpuarray.compiler.fuse.group import Load, Member
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import vector_width
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.statements import Fetched
from gpuarray.core.graph import Var
from gpuarray.core.index import Index, axes_of
from gpuarray.core.target import TARGET


class Writer(Vectors):
    """Lines of one kernel: its members over its axes, a vector of elements at a time."""

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        group = kernel.group
        # Positions are unsigned and of 32 bits if all sizes fit: division by a constant is cheaper
        # than signed, 64-bit arithmetic costs several times as much, and a negative position wraps
        # to a large one, so that one comparison tests both ends of a range.
        sizes = [v.aval.size for v in (*self.inputs, *group.inlined, *self.results)]
        # Below 2**31, a negative position wraps to more than any size.
        self.use_positions(wide=max(*sizes, math.prod(group.axes), 0) >= 2**31)
        self.read_before: Fetched = {}  # read before the loop over elements

    def use_positions(self, wide: bool) -> None:
        """Positions of 64 bits, or of 32."""
        self.wide = wide
        self.index_type = "unsigned long long" if wide else "unsigned"
        self.suffix = "ull" if wide else "u"

    # ---- vectors ----
    def is_vector(self, load: Load) -> bool:
        """Whether neighbouring elements of a load may be read in one access."""
        return self.vector_starts(load) is not None

    def width(self) -> int:
        """Elements of a vector access: 16 bytes of the widest dtype, or fewer if that is unaligned.

        One access of 16 bytes for each thread needs fewer instructions for the same bytes than four
        of 4, and keeps more of them in flight.
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
        # What inlined producers read counts as well as what they make.
        read = [v for x, _ in loads for v, i in self.elements_of(x) if i.coefficient(self.last)]
        width = vector_width([*(x.source for x, _ in loads), *read, *outs], self.axes[self.last])
        # Halve until every vector begins at a multiple of its own length.
        indices = [i for _, found in loads for i in found] + [self.output_index(v) for v in outs]
        while width > 1 and not all(self.is_aligned(at, width) for at in indices):
            width //= 2
        return width

    def between_ends(self) -> tuple[int, Index]:
        """The width of vectors if the elements at the ends of the fastest axis are taken one by
        one, and where this axis begins within a vector, the same in all arrays along it. Where it
        is not, the width is 1.
        """
        along = [x for x in self.group.loads() if self.last in x.dims]
        loads = [x for x in along if not self.is_inlined(x)]
        made = [x for x in along if self.is_inlined(x)]
        outs = [v for v in self.outputs if self.last in axes_of(self.output_index(v))]
        read = [i for x in made for _, i in self.elements_of(x)]
        indices = [*map(self.load_index, loads), *map(self.output_index, outs)]
        width = vector_width([*(x.source for x in loads), *outs], 0)
        # Elements of a vector agree on guards whose bounds are multiples of the width.
        guards = [i for x in made for i in self.vector_starts(x) or ()]
        guards += [Index()] if guards else []
        begins = {self._begin_in_vector(i, width) for i in (*indices, *guards)}
        alike = len(begins) == 1 and all(map(self.is_unit_stride, indices))
        # The text has all operations twice more.
        long = len(self.group.members) * (width + 2) > TARGET.row_copies
        if not (loads and alike) or long or any(self.last in axes_of(i) for i in read):
            return 1, Index()
        return width, begins.pop()

    def _begin_in_vector(self, index: Index, width: int) -> Index:
        """Where the fastest axis begins, without multiples of the width."""
        terms = ((a, k % width) for a, k in index.terms if self.last not in a.axes)
        return Index(tuple((a, k) for a, k in terms if k), index.constant % width)

    def fetch(self, depth: int, members: list[Member], width: int) -> Fetched:
        """Read the operands of a vector of elements, before the loop over them.

        Returns the text of element `e` of each load that is a vector or constant along it.
        """
        fetched: Fetched = dict(self.read_before)
        spans: dict[str, str] = {}
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
                    if re.fullmatch(r"\w+", text):  # it has a name already
                        name = text
                    else:
                        self.line(depth, f"const {self.vector_of(source, width)} {name} = {text};")
                element = f"{name}.v[e]"
                fetched[key] = f"ga_value({element})" if ct.is_half(source.aval) else element
            # A few strided elements come with those between them, which other loads may need.
            elif (span := self.span(load, width)) is not None:
                start, step = span
                at = f"{self.in_name[source]} + {self.at(start)}"
                if at not in spans:
                    spans[at] = name
                    parts = [at, *(f"{at} + {self.number(k * width)}" for k in range(1, step))]
                    texts = ", ".join(f"ga_load_whole<{width}>({part})" for part in parts)
                    kind = self.vector_of(source, width)
                    self.line(depth, f"const {kind} {name}[{step}] = {{{texts}}};")
                self.touched.note(source, self.load_index(load), width=width)
                place = f"e * {step}u"
                if offset := self.load_index(load).constant % step:
                    place = f"({place} + {offset}u)"
                element = f"{spans[at]}[{place} / {width}u].v[{place} % {width}u]"
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
        self.touched.note(load.source, self.load_index(load), width=width)
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
            self.element(depth, members, stores, states, dict(self.read_before), {})
            return
        # Read whole vectors; a copy writes them back directly.
        fetched = self.fetch(depth, members, width)
        copied = self.copied_vector(members, fetched)
        if copied is not None:
            (v,) = stores
            at = self.at(self.output_index(v))
            self.line(depth, f"ga_store({self.out_name[v]} + {at}, {copied});")
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
        ends = f" && {self.vector_end(states)}" if self.vector_end(states) else ""
        self.line(depth, f"for (unsigned e = 0; e < {width}u{ends}; ++e) {{")
        with self.inside_vector():
            self.element(depth + 1, members, stores, states, fetched, vectors)
        self.line(depth, "}")
        # Write the vectors.
        for v, name in vectors.items():
            at = self.at(self.output_index(v))
            store = self.vector_store(f"{self.out_name[v]} + {at}", name)
            self.line(depth, f"{self.first_thread_guard(v)}{store}")

    def vector_store(self, place: str, vector: str) -> str:
        """The statement that writes a vector."""
        return f"ga_store({place}, {vector});"

    def vector_end(self, states: dict[Var, str]) -> str:
        """The condition under which element `e` of a vector is there; empty where all are."""
        return ""

    def copied_vector(self, members: list[Member], fetched: Fetched) -> str | None:
        """The vector that a kernel has read, if the kernel only stores it; None for other
        kernels.
        """
        if self.group.copy_of is None:
            return None
        (v,), (load,) = self.outputs, members[0].operands
        assert isinstance(load, Load)
        read = re.fullmatch(
            r"(?:ga_value\()?(\w+)\.v\[e\]\)?", fetched.get((load.key, load.dims), "")
        )
        return read[1] if read and self.is_unit_stride(self.output_index(v)) else None
