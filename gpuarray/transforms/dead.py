"""Dead results: remove unread results from Graphs and equations, inside loops and branches too.

Floor 3. In: a Graph or an equation, and which of its results are read. Out: one that computes only
those, if its primitive has a rule for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

from gpuarray.core.graph import Eqn, Graph, Var, has_effect
from gpuarray.core.primitive import Primitive

#: rule(equation, which results are read) -> the equation of these results.
Rule = Callable[[Eqn, list[bool]], Eqn]
_rules: dict[Primitive, Rule] = {}


def set_narrow_rule(prim: Primitive, rule: Rule) -> None:
    """Define how an equation that holds Graphs does without some of its results."""
    _rules[prim] = rule


def narrowed(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    """Return an equation of the results that are used, or the equation itself."""
    # Without a rule an equation stays whole: all of its results are computed if one is read.
    rule = _rules.get(eqn.primitive)
    return eqn if rule is None else rule(eqn, list(used))


def shortened(graph: Graph, used: Sequence[bool]) -> tuple[Graph, list[bool]]:
    """Return the Graph of the results that are used, and which of its inputs it reads.

    It has all inputs still. Side effects stay.
    """
    key = ("shortened", tuple(used))
    if key not in graph.derived:
        outvars = list(compress(graph.outvars, used))
        live = {a for a in outvars if isinstance(a, Var)}
        kept: list[Eqn] = []
        # From the end, so that one walk finds everything that results depend on.
        for eqn in reversed(graph.eqns):
            read = [v in live for v in eqn.outvars]
            if any(read) or has_effect(eqn):
                # It may read fewer operands then, so that more equations before it are dead.
                kept.append(narrowed(eqn, read))
                live.update(a for a in kept[-1].invars if isinstance(a, Var))
        kept.reverse()
        pairs = [p for p in zip(graph.constvars, graph.consts, strict=True) if p[0] in live]
        short = Graph(
            graph.invars,
            outvars,
            kept,
            [v for v, _ in pairs],
            [c for _, c in pairs],
            graph.debug_name,
        )
        graph.derived[key] = short, [v in live for v in graph.invars]
    return graph.derived[key]


def without_dead(graph: Graph) -> Graph:
    """Return the Graph without equations, and constants, that no result depends on."""
    short, _ = shortened(graph, [True] * len(graph.outvars))
    # Return the same object if nothing was dead, so that values cached for it stay valid.
    return graph if len(short.eqns) == len(graph.eqns) else short


def narrow_call(eqn: Eqn, used: list[bool], per_operand: str) -> Eqn:
    """The rule of equations that apply a Graph, `jaxpr`, to all of their operands.

    Parameters
    ----------
    per_operand :
        Param that may have an entry for each operand.
    """
    short, read = shortened(eqn.params["jaxpr"], used)
    # Params with an entry for each operand lose the entries of removed operands.
    of_each = eqn.params.get(per_operand)
    if isinstance(of_each, tuple):
        of_each = tuple(compress(of_each, read))
    body = Graph(
        list(compress(short.invars, read)),
        short.outvars,
        short.eqns,
        short.constvars,
        short.consts,
        short.debug_name,
    )
    return eqn.replace(
        invars=list(compress(eqn.invars, read)),
        outvars=list(compress(eqn.outvars, used)),
        params=eqn.params | {"jaxpr": body, per_operand: of_each},
    )
