"""Values made from indices alone, such as random numbers: computed where they are first read.

Floor 3. In: equations of a Graph in order. Out: the same, except that equations that depend on no
large value wait for a reader: sharded like the reader's other operands, each device makes its
piece. At their place in the program the sharding would not be known, and every device would make
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuarray.core.graph import Eqn, Graph, Literal, Var, has_effect
from gpuarray.core.grid import Spec
from gpuarray.core.primitive import Kind
from gpuarray.transforms.partition.pieces import Piece

#: The most elements of a value that is no reason to wait: keys, shifts, bounds.
_SMALL = 64


class Made:
    """The equations of a Graph that wait for a reader.

    Parameters
    ----------
    splitter, env, wanted :
        The splitter, the known pieces, and the shardings that readers of results prefer.
    evaluate :
        Evaluates an equation, given how its results are wanted.
    """

    def __init__(
        self,
        splitter: Any,
        env: Mapping[Var, Piece],
        wanted: Mapping[Var, Spec],
        evaluate: Callable[[Eqn, list[Spec | None]], None],
    ):
        self.splitter = splitter
        self.env = env
        self.wanted = wanted
        self.evaluate = evaluate
        self.waiting: dict[Var, Eqn] = {}

    def waits(self, eqn: Eqn) -> bool:
        """Whether an equation is put off, until `needed` finds a reader of its result."""
        if len(eqn.outvars) != 1 or eqn.outvars[0].aval.size <= _SMALL or has_effect(eqn):
            return False
        begins = _makes(eqn)
        goes_on = eqn.primitive.kind is Kind.POINTWISE or eqn.primitive.inline is not None
        behind = [a for a in eqn.invars if isinstance(a, Var) and a in self.waiting]
        if not (begins or (goes_on and behind)):
            return False
        if not all(a in behind or self.is_small(a) for a in eqn.invars):
            return False
        self.waiting[eqn.outvars[0]] = eqn
        return True

    def is_small(self, a: Any) -> bool:
        return isinstance(a, Literal) or (a.aval.size <= _SMALL and not any(self.env[a].spec))

    def needed(self, atoms: Sequence[Any], reader: Eqn | None = None) -> None:
        """Evaluate pending equations that a reader's operands need; None: the results."""
        for a in atoms if self.waiting else ():
            if isinstance(a, Var) and a in self.waiting:
                self.make(a, self.wanted.get(a) or self.beside(a, reader))

    def beside(self, v: Var, reader: Eqn | None) -> Spec | None:
        """Return how another operand of this shape is cut, where results are cut alike."""
        if reader is None:
            return None
        prim = reader.primitive
        if prim.kind is not Kind.POINTWISE and prim.inline is None:
            return None
        for a in reader.invars:
            piece = self.env.get(a) if isinstance(a, Var) and a.aval.shape == v.aval.shape else None
            if piece is not None and any(piece.spec) and not piece.frame:
                return piece.spec
        return None

    def make(self, last: Var, spec: Spec | None) -> None:
        """Evaluate the equations that make a value, cut so, in their order."""
        asked: dict[Var, Spec | None] = {last: spec}
        chain: list[Eqn] = []
        for v, eqn in reversed(self.waiting.items()):
            if v not in asked:
                continue
            chain.append(eqn)
            want = self.splitter.wanted_by(eqn, [asked[v]])
            for a, s in zip(eqn.invars, want, strict=True):
                if isinstance(a, Var) and a in self.waiting:
                    asked.setdefault(a, self.wanted.get(a) or s)
        for eqn in reversed(chain):
            (v,) = eqn.outvars
            del self.waiting[v]
            self.evaluate(eqn, [asked[v]])


def _makes(eqn: Eqn) -> bool:
    """Whether an equation makes a value of indices and a few numbers, at any depth of calls."""
    if eqn.primitive.kind is Kind.GENERATOR:
        return bool(eqn.invars)
    inner = None if eqn.primitive.inline is None else eqn.primitive.inline(eqn)
    return inner is not None and _graph_makes(inner)


def _graph_makes(graph: Graph) -> bool:
    found = graph.derived.get("makes")
    if found is None:
        found = graph.derived["makes"] = any(map(_makes, graph.eqns))
    return found
