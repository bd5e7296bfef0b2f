"""Values kept by a policy of `checkpoint`: a Graph that also returns them, and one that takes them.

Floor 4. In: a Graph, and the equations whose results are kept. Out: the first computation, whose
last results are the kept values, and the recomputation, whose first inputs they are. Loops and
branches keep values inside them, by the rules that they set here. Values kept in host memory are
moved there in the first, and back in the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuarray.core.graph import Eqn, Graph, Var, has_effect
from gpuarray.core.memories import Space
from gpuarray.core.primitive import Primitive
from gpuarray.primitives.memory import to_memory_p


class Kept(NamedTuple):
    """A Graph with values to keep.

    `now` returns its results and then the values; `again` takes the values and then its inputs.
    """

    now: Graph
    again: Graph
    values: list[Var]


class KeptInside(NamedTuple):
    """An equation that holds Graphs, with values to keep: now, again, and the values outside."""

    now: Eqn
    again: Eqn
    values: list[Var]


Separate = Callable[[Graph], Kept]
Rule = Callable[[Eqn, Separate], KeptInside | None]
_rules: dict[Primitive, Rule] = {}


def set_keep_rule(prim: Primitive, rule: Rule) -> None:
    """Define how an equation with inner Graphs keeps values inside them; None if it keeps none."""
    _rules[prim] = rule


def separated(
    graph: Graph, keeps: Callable[[Eqn], Space | None], flat: Callable[[Graph], Graph]
) -> Kept:
    """Separate a Graph, its calls made `flat` first, by the equations whose results are kept.

    `keeps` returns the memory; None for a result that is recomputed.
    """
    graph = flat(graph)
    now: list[Eqn] = []
    again: list[Eqn] = []
    values: list[Var] = []
    for eqn in graph.eqns:
        rule = _rules.get(eqn.primitive)
        if has_effect(eqn):
            # An effect (a print) happens again, which shows the recomputation.
            inside = None
        elif (space := keeps(eqn)) is not None:
            now.append(eqn)
            for v in eqn.outvars:
                kept = v
                if space is not v.aval.memory_space:
                    kept = Var(v.aval.update(memory_space=space))
                    now.append(_moved(v, kept, eqn))
                    again.append(_moved(kept, v, eqn))
                values.append(kept)
            continue
        else:
            inside = None if rule is None else rule(eqn, lambda g: separated(g, keeps, flat))
        # Computed in both halves, except for the kept values.
        now.append(eqn if inside is None else inside.now)
        again.append(eqn if inside is None else inside.again)
        values += [] if inside is None else inside.values
    constants = graph.constvars, graph.consts, graph.debug_name
    return Kept(
        Graph(graph.invars, [*graph.outvars, *values], now, *constants),
        Graph([*values, *graph.invars], graph.outvars, again, *constants),
        values,
    )


def _moved(source: Var, target: Var, eqn: Eqn) -> Eqn:
    """Return the equation that moves a result of another one to the memory of `target`."""
    return Eqn(to_memory_p, [source], [target], {"space": target.aval.memory_space}, eqn.site)
