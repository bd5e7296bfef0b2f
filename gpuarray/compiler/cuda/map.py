"""Pointwise kernels: each thread computes one or more vectors, or single elements.

Floor 3. In: a Map kernel. Out: its KernelSource.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from gpuarray.compiler.cuda.template import KernelSource, Options, Template
from gpuarray.compiler.fuse.group import Load, Member, members_in_order
from gpuarray.compiler.lower.kernel import Map, Tiles
from gpuarray.compiler.lower.schedule import Schedule, schedule_map
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import Scope
from gpuarray.core.element import Access, Applied, parts
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Index
from gpuarray.core.target import TARGET


class MapTemplate(Template):
    """Threads go over the space in the order of memory, so that accesses are coalesced."""

    def __init__(self, kernel: Map | Tiles, options: Options):
        super().__init__(kernel, options)
        # Vectors run along the fastest axis, and neighbouring threads take neighbouring vectors.
        self.set_order(list(kernel.order))
        self.half = 0  # elements of a half, where a thread takes a vector of each

    def source(self) -> KernelSource:
        """All members over the whole space, in one loop or two."""
        # Launch numbers.
        total = math.prod(self.axes)
        width = self.width()
        members = list(members_in_order(self.group))
        # Elements behind the last whole vector come first, one by one.
        if total % (2 * width) and (wide := self.width_before_end(width)) > width:
            width, end = wide, total % wide
            total -= end
            self.write_end(total, end, members)
        ahead = self.from_memory(width)
        sizes = [storage_dtype(x.source.aval).itemsize for x in ahead.values()]
        s = schedule_map(total, width, sum(sizes) * width, len(self.group.members))
        if self.is_halved(total, width):
            self.half = total // 2
            s = s.replace(steps=2, grid=-(-self.half // (s.threads * width)))
            self.place_thread(1, "j", s, self.half, "return")
        self.position = "i"
        # Several vectors a thread are all read before any is computed: a multiprocessor needs many
        # bytes under way to use its bandwidth, and few operations do not hide the wait.
        depth = 1
        self.touched.begin(s.steps)
        if s.steps > 1:
            depth = 2
            if ahead:
                room = self.declare_held("ahead", ahead, width, s.steps, "[u]")
                self.open_vector_loop(s, total, "read")
                self.read_held(room, width)
                self.line(1, "}")
            self.open_vector_loop(s, total, "compute")
        else:
            # One vector for each thread: threads beyond the end have nothing to do.
            self.define_position(1, s, total, "return")
            if width == 1 and self.aligned:
                self.read_neighbours(1)
        self.elements(depth, members, self.outputs, {}, width)
        if s.steps > 1:
            self.line(1, "}")
        each = f", {s.steps} x {width} a thread" if s.steps > 1 else ""
        each = each or (f", {width} a thread" if width > 1 else "")
        return self.finish(s, f"{math.prod(self.axes)} elements{each}")

    # ---- elements behind the last whole vector ----
    def width_before_end(self, width: int) -> int:
        """The width of vectors if the last elements are taken one by one; `width` if that is not
        much more, or if all arrays do not begin with a whole vector.
        """
        total, (wide, begin) = math.prod(self.axes), self.between_ends()
        along = self.last is not None and self.axes[self.last] == total and begin == Index()
        # With few elements, more threads are better than wider accesses.
        many = total >= wide * TARGET.full_threads
        return wide if along and many and 2 * width < wide else width

    def write_end(self, first: int, count: int, members: list[Member]) -> None:
        """Compute `count` elements from `first` on, a thread of the first block each."""
        self.touched.most = 0  # so few reads are not counted
        test = f"blockIdx.x == 0 && threadIdx.x < {count}u"
        self.line(1, f"if ({test}) {{", "behind the last vector")
        self.line(2, f"const {self.index_type} i = {self.number(first)} + threadIdx.x;")
        self.define_axes(2, "i", self.order)
        self.elements(2, members, self.outputs, {}, 1)
        self.line(1, "}")
        self.touched.most = None

    # ---- halves of the space whose elements come of the same work ----
    def is_halved(self, total: int, width: int) -> bool:
        """Whether each thread takes a vector of both halves, which share some work."""
        if self.wide or total % (2 * width):
            return False
        drawn = [x for x in self.accesses.loads() if self.is_inlined(x)]
        return any(self.shares(p, total) for x in drawn for p in parts(self.accesses.of(x)))

    def shares(self, access: Access, total: int) -> bool:
        """Whether an element shares work with the one of the other half."""
        if not isinstance(access, Applied) or access.count != total:
            return False
        return bool(access.halved) and access.places == (self.whole,)

    def applied(self, access: Applied, depth: int, scope: Scope) -> str:
        if self.half and self.shares(access, 2 * self.half):
            access = access.replace(template=access.halved)
        return super().applied(access, depth, scope)

    # ---- neighbours that one thread has: entries of a matrix, components of a vector ----
    def read_neighbours(self, depth: int) -> None:
        """Read adjacent elements in one access."""
        # Loads by array and by the common part of their positions.
        found: dict[tuple, dict[int, Load]] = {}
        for load in self.accesses.loads():
            index = self.load_index(load)
            if not self.is_inlined(load) and index.terms:
                key = load.source, frozenset(index.terms)
                found.setdefault(key, {})[index.constant] = load
        for (source, terms), loads in found.items():
            for first, width in runs(loads, self.widest(source, terms)):
                some = [loads[first + k] for k in range(width)]
                at = self.at(self.load_index(some[0]))
                name = f"x{len(self.read_before)}"
                text = f"ga_load<{width}>({self.in_name[source]} + {at})"
                self.line(depth, f"const {self.vector_of(source, width)} {name} = {text};")
                for k, load in enumerate(some):
                    self.touched.note(source, self.load_index(load), width=width)
                    element = f"{name}.v[{k}]"
                    half = ct.is_half(source.aval)
                    text = f"ga_value({element})" if half else element
                    self.read_before[load.key, load.dims] = text
                self.neighbours = True

    def write_outputs(self, depth: int, stores: list[Var], vectors: dict[Var, str]) -> None:
        """Write adjacent parts in one access."""
        parts: dict[Var, dict[int, Var]] = {}
        # Tiles are written differently.
        alone = self.aligned and not vectors and isinstance(self.kernel, Map)
        for v in stores if alone else ():
            if v in self.group.joined:
                whole = self.group.joined[v].whole
                parts.setdefault(whole, {})[self.output_index(v).constant] = v
        done: set[Var] = set()
        for whole, places in parts.items():
            terms = frozenset(self.output_index(next(iter(places.values()))).terms)
            for first, width in runs(places, self.widest(whole, terms)):
                some = [places[first + k] for k in range(width)]
                texts = ", ".join(self.as_stored(v) for v in some)
                place = f"{self.out_name[whole]} + {self.at(self.output_index(some[0]))}"
                guard = self.first_thread_guard(some[0])
                self.line(depth, f"{guard}ga_store({place}, ga_vector({texts}));")
                self.neighbours = True
                done.update(some)
        super().write_outputs(depth, [v for v in stores if v not in done], vectors)

    def widest(self, v: Var, terms: Iterable[tuple[Any, int]]) -> int:
        """Elements of an access of 16 bytes, or fewer where its places are multiples of less."""
        width = TARGET.vector_bytes // storage_dtype(v.aval).itemsize
        while width > 1 and any(k % width for _, k in terms):
            width //= 2
        return width

    def from_memory(self, width: int) -> dict[tuple, Load]:
        """Loads that vary along all axes: those that take the bandwidth."""
        space = {i for i, n in enumerate(self.axes) if n > 1}
        return {
            (x.key, x.dims): x
            for x in self.group.loads()
            if space <= set(x.dims) and not self.is_inlined(x) and self.can_hold(x, width)
        }

    def define_position(self, depth: int, s: Schedule, total: int, leave: str) -> None:
        """Define the position of a thread, and leave if it is beyond the end."""
        if self.half:
            self.line(depth, f"const {self.index_type} i = j + u * {self.number(self.half)};")
        else:
            self.place_thread(depth, "i", s, total, leave)
        self.define_axes(depth, "i", self.order)

    def place_thread(self, depth: int, name: str, s: Schedule, total: int, leave: str) -> None:
        """Name a thread's place among as many elements, and leave if it is beyond the end."""
        n, steps = self.number, 1 if self.half else s.steps
        block = f"(blockIdx.x * {n(steps)} + u)" if steps > 1 else "blockIdx.x"
        thread = f"{block} * {n(s.threads)} + threadIdx.x"
        if s.width > 1:
            thread = f"({thread}) * {n(s.width)}"
        self.line(depth, f"const {self.index_type} {name} = {thread};")
        # Without a remainder every thread has an element: no test.
        if total % (s.threads * s.width * steps):
            self.line(depth, f"if ({name} >= {n(total)}) {leave};")

    def open_vector_loop(self, s: Schedule, total: int, comment: str) -> None:
        """Open the loop over the vectors of a thread."""
        self.line(1, "#pragma unroll")
        self.line(1, f"for (unsigned u = 0; u < {s.steps}u; ++u) {{", comment)
        self.define_position(2, s, total, "continue")


def runs(places: Iterable[int], width: int) -> Iterator[tuple[int, int]]:
    """Neighbours among places, as (first, how many): a power of two of them, at its multiples.

    >>> list(runs([0, 1, 2, 3, 5, 6, 7], 4))
    [(0, 4), (6, 2)]
    """
    left = sorted(places)
    while width > 1:
        for first in [p for p in left if p % width == 0]:
            if all(p in left for p in range(first, first + width)):
                left = [p for p in left if not first <= p < first + width]
                yield first, width
        width //= 2
