"""How the partial results of a scan are written: as one number of a Fold, or as a struct of several
that a Graph merges.

Floor 3. In: the equation of a scan. Out: a `Merging`, whose texts the template of scans puts
together.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        The one that changes nothing when it is merged.
    """

    state: str
    none: str

    @property
    def struct(self) -> tuple[str, int] | None:
        """The declaration of the type of partial results and its bytes; None if it is a number."""
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


class Merged:
    """Partial results that a Graph merges: a number for each operand, and whether there are any,
    as a Graph has no number that changes nothing.
    """

    state, none = "state", "state{}"

    def __init__(self, eqn: Eqn):
        self.text = Merger(eqn)
        # Parts of one type stand together, wide types first, so that nothing is left free between
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
        self.struct = f"struct state {{ {parts} bool some; }};", -(-nbytes // whole) * whole

    @property
    def merger(self) -> list[str]:
        everything = set(self.order)
        one, two = ([f"{p}.s{k}" for k in range(len(self.order))] for p in "pq")
        lines, made = self.text.statements(one, two, everything)
        return [
            "const auto merge = [](state p, state q) -> state {",
            "    if (!p.some || !q.some) return p.some ? p : q;",
            *(f"    {line}" for line in lines),
            f"    return {{{', '.join(made[k] for k in self.order)}, true}};",
            "};",
        ]

    def lift(self, elements: Sequence[str]) -> str:
        return f"state{{{', '.join(elements[k] for k in self.order)}, true}}"

    def merge(self, one: str, two: str) -> str:
        return f"merge({one}, {two})"

    def finish(self, state: str) -> list[str]:
        return [f"{bracketed(state)}.s{k}" for k in range(len(self.order))]


def merging_of(eqn: Eqn) -> Merging:
    """The texts of a scan's partial results."""
    return Folded(eqn) if merge_graph(eqn) is None else Merged(eqn)
