"""An index of a Graph: the equation of each value, its number of readers, the value behind a view.

Floor 3. In: a Graph. Out: a `GraphIndex`, which a pass queries instead of walking over the
equations again, and updates with the equations that it adds and removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuarray.core.graph import Atom, Eqn, Graph, Var, is_view


# The default of `base`; every view of one result is an index map of its first operand.
def _is_single_view(eqn: Eqn, v: Var) -> bool:
    return is_view(eqn)


class GraphIndex:
    """The origin of the values of a Graph, and their number of readers.

    Parameters
    ----------
    made_by :
        The equation that makes each value; arguments and constants have none.
    uses :
        The number of readers of each value: equations, and the results of the graph.
    """

    def __init__(self, graph: Graph):
        self.made_by: dict[Var, Eqn] = {}
        self.uses: dict[Var, int] = {}
        self.add(graph.eqns)
        self._count(graph.outvars, 1)

    def maker(self, a: Atom) -> Eqn | None:
        """The equation that makes a value; None for literals, arguments and constants."""
        return self.made_by.get(a) if isinstance(a, Var) else None

    def base(
        self, v: Var, through: Callable[[Eqn, Var], bool] = _is_single_view
    ) -> tuple[Var, tuple[Eqn, ...]]:
        """The value that `v` shows through a chain of views, and the chain, the last view last.

        Parameters
        ----------
        through :
            Whether to continue from one of an equation's results to its operand. By default through
            every view with one result.
        """
        chain: list[Eqn] = []
        # A literal ends the chain: it is not a value in memory that a view could show.
        eqn = self.made_by.get(v)
        while eqn is not None and through(eqn, v) and isinstance(a := eqn.invars[0], Var):
            chain.append(eqn)
            v = a
            eqn = self.made_by.get(v)
        return v, tuple(reversed(chain))

    def add(self, eqns: Iterable[Eqn]) -> None:
        """Note new equations. A value's maker may change, as when a pass rewrites its equation."""
        for eqn in eqns:
            for v in eqn.outvars:
                self.made_by[v] = eqn
            self._count(eqn.invars, 1)

    def remove(self, eqn: Eqn) -> None:
        """Remove an equation and its results."""
        for v in eqn.outvars:
            self.made_by.pop(v, None)
        self._count(eqn.invars, -1)

    def _count(self, atoms: Iterable[Atom], by: int) -> None:
        for a in atoms:
            if isinstance(a, Var):
                self.uses[a] = self.uses.get(a, 0) + by
