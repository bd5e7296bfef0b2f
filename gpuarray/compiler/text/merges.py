"""The merge of an associative scan or a reduction as text: its Graph of scalars as C++ statements.

Floor 3. In: an equation whose elements a Graph merges. Out: lines that merge two partial results,
each of which is one value for every operand of the scan.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import expression
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var


class Merger:
    """Statements that merge two partial results of a scan.

    Attributes
    ----------
    types :
        The type that registers hold each part of a partial result in.
    """

    def __init__(self, eqn: Eqn):
        graph = eqn.params["jaxpr"]
        assert isinstance(graph, Graph)
        self.graph = graph
        self.types = [ct.value_type(v.aval) for v in eqn.outvars]

    def carried(self, wanted: set[int]) -> set[int]:
        """The parts of the result before that merging with single elements needs for these."""
        before = self.graph.invars[: len(self.types)]
        found = set(wanted)
        while True:
            read = self._needed(found)
            more = {k for k, v in enumerate(before) if v in read} - found
            if not more:
                return found
            found |= more

    def read(self, wanted: set[int]) -> set[int]:
        """The parts of an element that merging it needs for these."""
        needed = self._needed(wanted)
        return {k for k, v in enumerate(self.graph.invars[len(self.types) :]) if v in needed}

    def _needed(self, wanted: set[int]) -> set[Atom]:
        """All that is read for some parts of the merged result."""
        live: set[Atom] = {self.graph.outvars[k] for k in wanted}
        for eqn in reversed(self.graph.eqns):
            if not live.isdisjoint(eqn.outvars):
                live.update(eqn.invars)
        return live

    def statements(
        self, one: Sequence[str], two: Sequence[str], wanted: set[int]
    ) -> tuple[list[str], dict[int, str]]:
        """Lines that merge two partial results, and by number the parts that are wanted."""
        needed = self._needed(wanted)
        names: dict[Var, str] = dict(zip(self.graph.invars, [*one, *two], strict=True))

        def text(a: Atom) -> str:
            return ct.constant(a.val, a.aval) if isinstance(a, Literal) else names[a]

        lines: list[str] = []
        for eqn in self.graph.eqns:
            if needed.isdisjoint(eqn.outvars):
                continue
            made = expression(eqn, [text(a) for a in eqn.invars])
            for v, value in zip(eqn.outvars, made, strict=True):
                names[v] = f"m{len(lines)}"
                lines.append(f"const {ct.value_type(v.aval)} {names[v]} = {value};")
        return lines, {k: text(self.graph.outvars[k]) for k in sorted(wanted)}
