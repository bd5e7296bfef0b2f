"""Vectors of elements: the common parts of neighbouring elements of a load.

Floor 3. In: trees of accesses (core/element.py). Out: `Vectors`, the part of a CUDA Writer that
reads several elements in one access: whether that is possible, and the expression for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator

from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.text import folds
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.reader import Scope
from gpuarray.compiler.text.statements import Statements
from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Below,
    Constant,
    Element,
    Guarded,
    SerialFold,
    Test,
    parts,
    places_of,
)
from gpuarray.core.index import Axis, Index, axes_of
from gpuarray.core.target import TARGET


class Vectors(Statements):
    """The part of a Writer that reads vectors."""

    def is_unit_stride(self, index: Index) -> bool:
        """Whether neighbours along the vector axis are neighbours in memory."""
        return self.last is not None and index.coefficient(self.last) == 1

    def vector_starts(self, load: Load) -> list[Index] | None:
        """Indices that must be multiples of the vector length for a load to be a vector.

        These are the addresses at which its vectors begin, and the bounds of its guards. None if
        neighbouring elements cannot be read in one access.
        """
        # From memory: contiguous or nothing.
        if not self.is_inlined(load):
            index = self.load_index(load)
            return [index] if self.is_unit_stride(index) else None
        # Inlined: collect from all sides of its guards.
        starts: list[Index] = []
        ends: list[Index] = []
        searched = False  # a loop whose bounds are searched for once for a whole vector
        sides = [self.access_of(load)]
        while sides:
            side = sides.pop()
            if isinstance(side, Guarded):
                found = [self.guard_bounds(t) for t in side.tests]
                if None in found:
                    return None
                ends += [i for known in found for i in known or ()]
                sides += [side.inside, side.outside]
                continue
            for part in parts(side):
                # Its reads would move out of the guard, and may be out of bounds.
                if isinstance(part, Guarded):
                    return None
                if isinstance(part, SerialFold) and (found := self.fold_starts(part)) is not None:
                    starts += found
                    continue
                if isinstance(part, SerialFold) and not self.is_rare(part):
                    return None  # each element separately would read past its neighbours
                searched |= isinstance(part, SerialFold)
                if isinstance(part, Element | Address):
                    step = None if self.last is None else part.index.coefficient(self.last)
                    if step not in (0, 1, None):
                        return None  # strided: one element for each thread is coalesced
                    if isinstance(part, Element) and not _in_loop(part):
                        # Only neighbours (step 1) are read as a vector, so only these have to be
                        # aligned.
                        starts += [part.index] * (step or 0)
        if searched and math.prod(self.axes) < TARGET.searchers:
            return None  # searches have long latency: more threads hide more of it
        # Vectors of at least 2 must be possible, or there is nothing to gain.
        if not (starts or searched) or not all(self.is_aligned(i, 2) for i in (*starts, *ends)):
            return None
        return starts + ends

    def fold_starts(self, fold: SerialFold) -> list[Index] | None:
        """Indices at which the vectors of a loop begin that folds vectors: one in which neighbours
        read neighbours, and agree on its tests. None for another one.
        """
        tested = any(self.last in axes_of(test.index) for test in fold.tests)
        if fold.spans or fold.places or tested or len(folds.states_of(fold)) > 1:
            return None
        firsts = [first for _, first in folds.states_of(fold) if not isinstance(first, str)]
        inside = [part for term in (*firsts, *fold.terms) for part in parts(term)]
        plain = all(isinstance(part, Element | Constant | Applied) for part in inside)
        reads = [part.index for part in inside if isinstance(part, Element)]
        steps = [None if self.last is None else index.coefficient(self.last) for index in reads]
        if not plain or 1 not in steps or not set(steps) <= {0, 1}:
            return None
        return [index for index, step in zip(reads, steps, strict=True) if step]

    def span(self, load: Load, width: int) -> tuple[Index, int] | None:
        """Where the vectors begin that hold a few strided elements and those between them, and how
        many vectors these are. None if elements are neighbours or far apart, or if some vector is
        not aligned or not in memory.
        """
        if self.is_inlined(load) or self.last is None:
            return None
        index = self.load_index(load)
        step = index.coefficient(self.last)
        if step is None or not 2 <= step <= TARGET.longest_step:
            return None
        start = index.shifted(-(index.constant % step))
        ends = start.largest + step <= load.source.aval.size
        return (start, step) if ends and self.is_aligned(start, width) else None

    def guard_bounds(self, test: Test) -> list[Index] | None:
        """Indices that must be multiples of the vector length for all elements of a vector to agree
        on a test; None if they may differ anyway.
        """
        # A test without the vector axis is the same for all elements of a vector.
        if self.last not in axes_of(test.index):
            return []
        # All elements of a vector agree where it begins at a multiple of the width, and the bound
        # is one.
        if isinstance(test, Below) and self.is_unit_stride(test.index):
            return [test.index, Index(constant=test.bound)]
        return None

    def is_aligned(self, index: Index, width: int) -> bool:
        """Whether an index is a multiple of the width wherever a vector begins."""
        # The vector axis itself is one there, by construction: all else has to be.
        others = [k for a, k in index.terms if not (isinstance(a, Axis) and a.number == self.last)]
        return index.constant % width == 0 and all(k % width == 0 for k in others)

    def vector(self, access: Access, kind: str, width: int, depth: int, scope: Scope) -> str:
        """The expression for a vector of elements; `kind` is its type."""
        # Contiguous in memory: one access.
        if isinstance(access, Element) and self.is_unit_stride(access.index):
            self.look_up(access.index, depth, scope)
            self.touched.note(access.source, access.index, width=width)
            at = self.at(access.index, scope)
            return f"ga_load<{width}>({self.in_name[access.source]} + {at})"
        # A guard on which the whole vector agrees: a choice between vectors.
        if isinstance(access, Guarded):
            tests = self.tests(access.tests, depth, scope)
            sides = []
            for side in (access.inside, access.outside):
                # The statements of each side go inside its branch, so they are collected
                # separately.
                outside, self.lines = self.lines, []
                text = self.vector(side, kind, width, depth + 1, dict(scope))
                sides.append((self.lines, text))
                self.lines = outside
            return self.select(tests, sides, kind, depth)
        # The same for all elements: one value in all lanes. The element type is between < and the
        # last comma of `ga_vec<T, N>`.
        element = kind[kind.index("<") + 1 : kind.rindex(",")]
        half = element in ct.HALF_TYPES
        if self.is_uniform(access):
            text = self.value(access, depth, scope)
            return f"ga_same<{kind}>({f'ga_exact<{element}>({text})' if half else text})"
        if isinstance(access, SerialFold) and self.fold_starts(access) is not None:
            return self.vector_fold(access, kind, width, depth, scope)
        # Anything else: read vectors and bounds of loops once, then compute each element.
        own = dict(scope)
        for part in parts(access):
            if isinstance(part, Element) and part not in own and self.is_unit_stride(part.index):
                if not _in_loop(part):
                    self.hoist_vector(part, width, depth, own)
            elif isinstance(part, SerialFold):
                for bound in (a for span in part.spans for a in span):
                    self.hoist(bound, depth, own)
        name = f"g{self.reads}"
        self.reads += 1
        self.line(depth, f"{kind} {name};")
        self.line(depth, "#pragma unroll")
        self.line(depth, f"for (unsigned e = 0; e < {width}u; ++e) {{")
        with self.inside_vector():
            text = self.value(access, depth + 1, own)
            text = f"ga_exact<{element}>({text})" if half else text
            self.line(depth + 1, f"{name}.v[e] = {text};")
        self.line(depth, "}")
        return name

    def vector_fold(
        self, access: SerialFold, kind: str, width: int, depth: int, scope: Scope
    ) -> str:
        """A loop in which one thread folds several vectors; the name of the resulting one."""
        name, result = f"f{self.reads}", f"g{self.reads}"
        self.reads += 1
        ((state, start),) = folds.states_of(access)
        each = f"for (unsigned e = 0; e < {width}u; ++e)"
        self.line(depth, f"{state} {name}[{width}];")
        # Where the fold starts, which may be different elements.
        if isinstance(start, str):
            self.line(depth, "#pragma unroll")
            self.line(depth, f"{each} {name}[e] = {start};")
        else:
            first = dict(scope)
            self.hoist_vectors([start], width, depth, first)
            self.line(depth, "#pragma unroll")
            self.line(depth, f"{each} {{")
            with self.inside_vector():
                self.line(depth + 1, f"{name}[e] = {self.value(start, depth + 1, first)};")
            self.line(depth, "}")
        inner, own = self.open_fold(access, depth, scope)
        self.hoist_vectors(access.terms, width, inner, own)
        self.line(inner, "#pragma unroll")
        self.line(inner, f"{each} {{")
        with self.inside_vector():
            self.fold_step(access, [f"{name}[e]"], inner + 1, own, False)
        for level in range(inner, depth - 1, -1):
            self.line(level, "}")
        self.line(depth, f"{kind} {result};")
        self.line(depth, "#pragma unroll")
        element = kind[kind.index("<") + 1 : kind.rindex(",")]
        text = folds.result_of(access, [f"{name}[e]"])
        text = f"ga_exact<{element}>({text})" if element in ct.HALF_TYPES else text
        self.line(depth, f"{each} {result}.v[e] = {text};")
        return result

    def is_uniform(self, access: Access) -> bool:
        """Whether an element or a constant is the same for a whole vector."""
        if isinstance(access, Element):
            return self.last is not None and access.index.coefficient(self.last) == 0
        return isinstance(access, Constant)

    def is_rare(self, fold: SerialFold) -> bool:
        """Whether a loop between searched bounds has at most one iteration for each row, on
        average: updates of few rows of a table. A vector then searches once for all its elements.
        """
        turns = math.prod(loop.length for loop in fold.loops)
        ends = [index for span in fold.spans for end in span for index in places_of(end)]
        rows = {axis for index in ends for axis in axes_of(index) if axis >= 0}
        return bool(fold.spans) and turns <= math.prod(self.axes[axis] for axis in rows)

    def hoist(self, bound: Access, depth: int, scope: Scope) -> None:
        """Compute a bound of a loop before the loop over a vector, if all elements share it."""
        if bound in scope or isinstance(bound, Constant):
            return
        # A bound that varies along the vector has to be computed for each element.
        if not any(self.last in axes_of(index) for index in places_of(bound)):
            text = self.value(bound, depth, scope, named=True)
            name = scope[bound] = f"t{self.reads}"
            self.reads += 1
            self.line(depth, f"const {self.index_type} {name} = {text};")

    def hoist_vector(self, access: Element, width: int, depth: int, scope: Scope) -> None:
        """Read the vector that an element belongs to; in this scope the element is its `.v[e]`."""
        name = f"q{self.reads}"
        self.reads += 1
        memory = ct.memory_type(access.source.aval)
        text = self.vector(access, "", width, depth, scope)
        self.line(depth, f"const ga_vec<{memory}, {width}> {name} = {text};")
        half = ct.is_half(access.source.aval)
        scope[access] = f"ga_value({name}.v[e])" if half else f"{name}.v[e]"

    def hoist_vectors(self, terms: Iterable[Access], width: int, depth: int, scope: Scope) -> None:
        """The same for all elements of terms that are neighbours along the vector."""
        for part in (p for term in terms for p in parts(term)):
            if isinstance(part, Element) and part not in scope and self.is_unit_stride(part.index):
                self.hoist_vector(part, width, depth, scope)

    @contextlib.contextmanager
    def inside_vector(self) -> Iterator[None]:
        """Within the `with` block, positions are those of element `e` of a vector."""
        # Positions of all lines in the block have `+ e`; afterwards they are as before.
        assert self.last is not None
        base, position = self.axis_name[self.last], self.position
        self.axis_name[self.last] = f"({base} + e)"
        self.position = f"({position} + e)" if position else ""
        yield
        self.axis_name[self.last], self.position = base, position


def _in_loop(access: Element) -> bool:
    """Whether an element depends on the iteration of a loop, whose axes have negative numbers."""
    return any(axis < 0 for axis in axes_of(access.index))
