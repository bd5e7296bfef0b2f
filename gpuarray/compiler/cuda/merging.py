"""Representations of a scan's partial results: one number of a Fold, or a struct of several that a
Graph merges. The same for a reduction by a Graph.

Floor 3. In: the equation of a scan or a reduction. Out: a `Merging`, whose texts are used by the
template of scans, or a `MergedReducer` for those of rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gpuarray.compiler.lower.scans import merge_graph
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.compiler.text.merges import Merger
from gpuarray.compiler.text.reader import bracketed
from gpuarray.core.graph import Eqn


class Merging(Protocol):
    """Texts of partial results.

    Attributes
    ----------
    state :
        The type of one.
    none :
        The identity of the merge.
    is_cheap :
        Whether merging takes about as long as a sum.
    """

    state: str
    none: str
    is_cheap: bool

    @property
    def struct(self) -> tuple[str, int] | None:
        """The declaration of the type of partial results and its bytes; None if it is a plain
        number.
        """
        ...

    @property
    def merger(self) -> list[str]:
        """Lines that define `merge`, for the functions by which threads merge."""
        ...

    def lift(self, elements: Sequence[str]) -> str:
        """One element of each operand as a partial result."""
        ...

    def merge(self, one: str, two: str) -> str:
        """Two partial results as one."""
        ...

    def finish(self, state: str) -> list[str]:
        """The results, from a partial result that has a name or is used once."""
        ...


class Folded:
    """Partial results of a Fold: one number."""

    def __init__(self, eqn: Eqn):
        self.reducer = Reducer(eqn)
        self.state, self.none = self.reducer.state, self.reducer.neutral
        self.struct = None
        self.is_cheap = getattr(self.reducer.fold.merge, "weight", 2) <= 1

    @property
    def merger(self) -> list[str]:
        return [f"const auto merge = {self.reducer.merger};"]

    def lift(self, elements: Sequence[str]) -> str:
        (element,) = elements
        return self.reducer.lift(element, "0u")

    def merge(self, one: str, two: str) -> str:
        return self.reducer.merge(one, two)

    def finish(self, state: str) -> list[str]:
        return [self.reducer.finish(state)]


class GraphMerge:
    """Partial results that a Graph merges: a number for each operand, and whether there are any,
    since a Graph has no identity element.
    """

    is_cheap = False

    def __init__(self, eqn: Eqn, state: str = "state"):
        self.text = Merger(eqn)
        self.state, self.none = state, f"{state}{{}}"
        # Parts of one type are adjacent, wide types first, so that there is no padding between
        # them; aggregates are written in this order.
        by_type: dict[str, list[int]] = {}
        for k, kind in sorted(enumerate(self.text.types), key=lambda part: -ct.bytes_of(part[1])):
            by_type.setdefault(kind, []).append(k)
        self.order = [k for places in by_type.values() for k in places]
        parts = " ".join(
            f"{kind} {', '.join(f's{k}' for k in places)};" for kind, places in by_type.items()
        )
        nbytes = sum(map(ct.bytes_of, self.text.types)) + 1
        whole = min(8, ct.bytes_of(next(iter(by_type))))  # a struct is a multiple of its widest
        self.struct = f"struct {state} {{ {parts} bool some; }};", -(-nbytes // whole) * whole

    @property
    def merger(self) -> list[str]:
        first, *lines = self.function
        return [f"const auto merge = {first}", *lines[:-1], f"{lines[-1]};"]

    @property
    def function(self) -> list[str]:
        """The lines of a function that merges two partial results."""
        everything, state = set(self.order), self.state
        one, two = ([f"{p}.s{k}" for k in range(len(self.order))] for p in "pq")
        lines, made = self.text.statements(one, two, everything)
        return [
            f"[]({state} p, {state} q) -> {state} {{",
            "    if (!p.some || !q.some) return p.some ? p : q;",
            *(f"    {line}" for line in lines),
            f"    return {{{', '.join(made[k] for k in self.order)}, true}};",
            "}",
        ]

    def lift(self, elements: Sequence[str]) -> str:
        return f"{self.state}{{{', '.join(elements[k] for k in self.order)}, true}}"

    def merge(self, one: str, two: str) -> str:
        return f"merge({one}, {two})"

    def finish(self, state: str) -> list[str]:
        return [f"{bracketed(state)}.s{k}" for k in range(len(self.order))]


class MergedReducer:
    """A reduction by a Graph, for kernels along rows and columns, with the interface of `Reducer`.

    Parameters
    ----------
    state :
        The name of the type of partial results.
    named :
        The placeholder of a merging function in the text of a kernel.
    """

    plain = True
    function = None

    def __init__(self, eqn: Eqn, state: str, named: Callable[[str], str]):
        self.eqn, self.merging = eqn, GraphMerge(eqn, state)
        self.state, self.identity = state, self.merging.none
        assert self.merging.struct is not None
        self.struct, self.bytes = self.merging.struct
        self._named = named

    @property
    def merger(self) -> str:
        """The function that merges two partial results."""
        return "\n    ".join(self.merging.function)

    def merge(self, one: str, two: str) -> str:
        """Two partial results as one."""
        return f"{self._named(self.merger)}({one}, {two})"

    def lift_all(self, elements: Sequence[str], position: str) -> str:
        """One element of each operand as a partial result."""
        return self.merging.lift(elements)

    def results(self, state: str) -> list[str]:
        """All results, from the last partial result."""
        return self.merging.finish(state)


def merging_of(eqn: Eqn) -> Merging:
    """The texts of a scan's partial results."""
    return Folded(eqn) if merge_graph(eqn) is None else GraphMerge(eqn)
