"""Calls whose Graphs and rules determine the sharding of operands: loops, branches, and users'
rules.

Floor 3. In: such a call, and the wanted sharding of its results. Out: the wanted sharding of its
operands, and the result of a user's rule for an equation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray.core.factors import spec_of
from gpuarray.core.flow import ByDevice, ByRule, Choice, Loop
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.grid import Grid, Spec
from gpuarray.transforms.partition.cuts import chosen_cut

Wants = Sequence[Spec | None]
#: A Graph, and how its results are wanted, to how its values are.
Wanted = Callable[[Graph, Wants], dict[Var, Spec]]


def through(flow: Loop | Choice, eqn: Eqn, outs: Wants, wanted: Wanted) -> list[Spec | None]:
    """Return how a loop or a branch wants its operands, as readers of its results have them."""
    found: list[Spec | None] = [None] * len(eqn.invars)
    if isinstance(flow, Choice):
        # Which branch will run is not known: all have to want the same.
        each = [_of_inputs(branch, outs, wanted) for branch in flow.branches]
        found[1:] = [_common(some) for some in zip(*each, strict=True)]
        return found
    # A carry has the same sharding at every step; an element of ys has no leading axis.
    carried = list(outs[: len(flow.carry)])
    ys = [None if s is None else s[1:] for s in outs[len(flow.carry) :]]
    inner = _of_inputs(flow.body, [*carried, *ys], wanted)
    consts, rest = len(flow.consts), len(flow.consts) + len(flow.carry)
    for i, spec in zip(flow.consts, inner[:consts], strict=True):
        found[i] = spec
    for i, spec, at_the_end in zip(flow.carry, inner[consts:rest], carried, strict=True):
        # It has one sharding at all steps: if a step prefers another one than the readers of the
        # result, request none.
        found[i] = at_the_end if spec is None or spec == at_the_end else None
    for i, spec in zip(flow.xs, inner[rest:], strict=True):
        found[i] = None if spec is None else ((), *spec)
    return found


def _of_inputs(graph: Graph, outs: Wants, wanted: Wanted) -> list[Spec | None]:
    specs = wanted(graph, outs)
    return [specs.get(v) for v in graph.invars]


def _common(specs: Iterable[Spec | None]) -> Spec | None:
    different = set(specs)
    return different.pop() if len(different) == 1 else None


def beside(spec: Spec, have: Spec, shape: Sequence[int], others: set, sizes: Any) -> Spec:
    """Return the sharding `spec`, with the existing sharding along `others` where it divides the
    axis.

    >>> beside((("x",), ()), (("y",), ("z",)), (4, 6), {"y", "z"}, {"x": 2, "y": 2, "z": 4})
    (('x', 'y'), ())
    """
    found = []
    for names, had, n in zip(spec, have, shape, strict=True):
        for name in had:
            if name in others and n % math.prod(sizes[m] for m in (*names, name)) == 0:
                names = (*names, name)
        found.append(names)
    return tuple(found)


def only(spec: Spec, names: set) -> Spec:
    """Return the cuts of a value along some axes of a mesh."""
    return tuple([tuple([n for n in part if n in names]) for part in spec])


def by_rule(
    eqn: Eqn, rule: ByRule, ins: list[Spec], outs: list[Spec], wanted: Wants, grid: Grid
) -> ByDevice:
    """Return the program of each device by a user's rule, for operands sharded as `ins` says.

    `outs` is the sharding of results that the rule leaves open.
    """
    if rule.factors is not None:
        factors = rule.factors(grid.main)
        cut = chosen_cut(factors, eqn, ins, wanted, grid)
        ins = [spec_of(axes, cut) for axes in factors.ins]
        outs = [spec_of(axes, cut) for axes in factors.outs]
    # The user's rule uses shardings over one mesh, not axes of the grid.
    mesh, laid = grid.shardings([*ins, *outs])
    in_shardings: list[Any] = laid[: len(ins)]
    out_shardings: list[Any] = laid[len(ins) :]
    if rule.results is not None:
        out_shardings = rule.results(mesh, in_shardings)
    return rule.by_device(mesh, in_shardings, out_shardings)
