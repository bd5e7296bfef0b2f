"""The base of kernels with reductions: passes over folded values, pieces of them, and their
merging.

Floor 3. In: a Rows or a Columns kernel. Out: `FoldWriter`. If there are too few rows for all
threads, the folded axis is cut into pieces of a fixed length: one phase folds each, the next one
merges them in order, so that the number of threads does not change the result.
"""

from __future__ import annotations

import math
from typing import Any

from gpuarray.compiler.fuse.group import Inner, Member
from gpuarray.compiler.lower.kernel import Columns, NoKernel, Rows
from gpuarray.compiler.lower.passes import Pass, once_each
from gpuarray.compiler.native.writer import NativeWriter
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.compiler.text.prelude import blocks
from gpuarray.core.graph import Var, storage_dtype
from gpuarray.core.index import Axis
from gpuarray.core.target import PROCESSOR


class FoldWriter(NativeWriter):
    """Partial results, and values kept from pass to pass."""

    passes: list[Pass]

    def __init__(self, kernel: Rows | Columns, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        self.parallel, self.reduced = self.spaces()
        self.lengths = [self.axes[i] for i in self.reduced]
        self.length = math.prod(self.lengths)
        if self.length >= 1 << 32:
            raise NoKernel("rows whose positions have more than 32 bits")

    def is_hidden(self, axis: int, distance: int) -> bool:
        """Whether the stride of neighbours along an axis must be hidden from the compiler, because
        it would vectorise the loop badly.
        """
        return False

    def distance(self, atom: Any, n: int) -> str:
        if isinstance(atom, Axis) and self.is_hidden(atom.number, n):
            self.facts.distances.add(n)
            return f"apart{n}"
        return super().distance(atom, n)

    def passes_of(self, passes: tuple[Pass, ...], room: int) -> list[Pass]:
        """The passes without repeated work: values that take long are kept where `room` elements of
        them are not too many bytes.
        """
        # Exponentials and the like are kept from pass to pass; where a row of them is too long
        # for that, they are computed again.
        chosen = once_each(self.group, list(passes), _takes_long, True)
        kept = {v for one in chosen for v in one.carried}
        if room * sum(storage_dtype(v.aval).itemsize for v in kept) <= PROCESSOR.row_bytes:
            return chosen
        return once_each(self.group, list(passes), lambda _: False, True)

    def declare_kept(self, depth: int, elements: int, at: str) -> None:
        """Arrays for values kept from pass to pass, of this many elements, with that of an
        iteration at `at`.
        """
        for v in (v for one in self.passes for v in one.carried):
            name = f"kept{len(self.carried)}"
            self.line(depth, f"GA_LOCAL {ct.memory_type(v.aval)} {name}[{elements}];")
            self.carried[v] = f"{name}[{at}]"

    def later_reads(self, passes: list[Pass], number: int) -> set[Var]:
        """The reads by later passes of this pass's or earlier values, and the outputs over rows."""
        members = [m for one in passes[number + 1 :] for m in (*one.members, *one.after)]
        read = {o.var for m in members for o in m.operands if isinstance(o, Inner)}
        return read | set(self.outputs)

    def finish_fold(self, depth: int, v: Var, state: str) -> str:
        """The result of a fold as a name, from its last partial result."""
        result = self.reducer(v).finish(state)
        # For most folds the partial result is the result; not for a mean or a position.
        if result == state:
            return state
        name = f"v{self.count}"
        self.count += 1
        self.line(depth, f"const {ct.value_type(v.aval)} {name} = {result};")
        return name

    def new_name(self) -> str:
        """A name for a partial result."""
        self.count += 1
        return f"r{self.count - 1}"

    def declare_part(self, v: Var, states: int) -> str:
        """An array between two phases, for the partial results of pieces."""
        name = f"part{len(self.room)}"
        self.room[name] = (self.reducer(v).state, states)
        return name

    def merger(self, reducer: Reducer) -> str:
        """A C++ lambda that merges two lanes: as values, if there is a function for that, or as
        partial results.
        """
        # Lanes merge as vectors where the prelude has a function for it (`f_of_lanes`).
        name = reducer.function
        if name and f"{name}_of_lanes" in blocks(native=True):
            return f"[](auto p, auto q) {{ return {name}(p, q); }}"
        return reducer.merger

    def rooms(self, constant: bool) -> list[tuple[str, str]]:
        """Arrays between phases as parameters."""
        const = "const " if constant else ""
        return [(f"{const}{kind}*", name) for name, (kind, _) in self.room.items()]


def _takes_long(member: Member) -> bool:
    return member.eqn.primitive.weight > PROCESSOR.worth_keeping


def declared(name: str, reducer: Reducer, count: int, begin: str = "", state: str = "") -> str:
    """The declaration of partial results side by side, all set to the identity of the fold."""
    return f"ga_parts<{state or reducer.state}, {count}> {name}({begin or reducer.identity});"


def alone(name: str, reducer: Reducer) -> str:
    """The declaration of one partial result."""
    return f"{reducer.state} {name} = {reducer.identity};"


def in_order(name: str, reducer: Reducer) -> str:
    """The declaration of one partial result of a row, whose elements come in order from the first
    on: the prelude has a shorter comparison for a value with its position then (`f_begun`).
    """
    if not reducer.function or f"{reducer.function}_begun" not in blocks(native=True):
        return alone(name, reducer)
    return f"auto {name} = {reducer.function}_begun({reducer.identity});"
