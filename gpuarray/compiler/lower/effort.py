"""The cost of an element of a value if it is computed where it is read.

Floor 3. In: equations, recorded producers first. Out: `Effort`, the numbers on which decisions.py
is based: their costs, the length of chains, and the length of their text.
"""

from __future__ import annotations

from gpuarray.compiler.lower.costs import can_inline, cost_of, times_of
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import Kind, Primitive

#: Represents a read from memory among the equations of an element.
_READ = Eqn(Primitive("read", register=False), [], [], {})


def variables(eqn: Eqn) -> list[Var]:
    """Return the operands that are variables, not literals."""
    return [a for a in eqn.invars if isinstance(a, Var)]


def is_any_view(eqn: Eqn, v: Var) -> bool:
    """Whether an equation is a view, for `GraphIndex.base`."""
    return eqn.primitive.kind is Kind.VIEW


def is_free(eqn: Eqn) -> bool:
    """Whether an equation is index arithmetic alone: a view, or values without operands."""
    if eqn.primitive.kind is Kind.VIEW:
        return can_inline(eqn)
    # A generator with operands (random bits from a key) costs more than index arithmetic.
    return eqn.primitive.kind is Kind.GENERATOR and not eqn.invars and can_inline(eqn)


class Effort:
    """The cost of elements of recorded values; other values are in memory.

    Attributes
    ----------
    work :
        The equations that an element takes, each with its cost.
    depth :
        How many of them follow one another.
    """

    def __init__(self, index: GraphIndex):
        self.index = index
        self.work: dict[Var, dict[Eqn, float]] = {}
        self.depth: dict[Var, int] = {}
        # How many operations each of its equations is in the text: each place at which a value is
        # made, another view of it or another choice, has all that makes it.
        self._written: dict[Var, dict[Eqn, int]] = {}

    def note(self, v: Var, eqn: Eqn) -> None:
        """Record the cost of an element of a result."""
        operands = [self.index.base(a, is_any_view)[0] for a in variables(eqn)]
        self.work[v] = self._work_of(eqn)
        self.depth[v] = 1 + max((self.depth.get(a, 0) for a in operands), default=0)
        behind = [self._texts_of(a) for a in variables(eqn)]
        # The tests of a choice are written too.
        if eqn.primitive.kind is Kind.MOVEMENT:
            self._written[v] = {eqn: 2 + 2 * sum(sum(texts.values()) for texts in behind)}
        else:
            self._written[v] = {e: n for texts in behind for e, n in texts.items()} | {eqn: 1}

    def _texts_of(self, v: Var) -> dict[Eqn, int]:
        base = self.index.base(v, is_any_view)[0]
        texts = self._written.get(base, {})
        return texts if base is v or not texts else {self.index.made_by[v]: sum(texts.values())}

    def forget(self, v: Var) -> None:
        """The value is in memory."""
        for noted in (self.work, self.depth, self._written):
            noted.pop(v, None)

    def length(self, v: Var) -> int:
        """How many operations the text of an element has."""
        return sum(self._written[v].values())

    def _work_of(self, eqn: Eqn) -> dict[Eqn, float]:
        # An equation that several operands share counts once.
        operands = [self._work_behind(a) for a in variables(eqn)]
        # A movement takes an element from one of its operands: the costliest counts.
        if eqn.primitive.kind is Kind.MOVEMENT:
            return {eqn: cost_of(eqn) + max((sum(w.values()) for w in operands), default=0.0)}
        found = {eqn: cost_of(eqn)}
        # Folded operands are computed for each folded element.
        for work in operands:
            found.update({e: cost * times_of(eqn) for e, cost in work.items()})
        return found

    def _work_behind(self, v: Var) -> dict[Eqn, float]:
        # A value in memory takes a read.
        v = self.index.base(v, is_any_view)[0]
        eqn = self.index.made_by.get(v)
        # Free: index arithmetic. No equation: an argument or a constant, in memory.
        if eqn is None or is_free(eqn):
            return {} if eqn is not None else {_READ: 1.0}
        return self.work.get(v, {_READ: 1.0})
