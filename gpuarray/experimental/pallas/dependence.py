"""Whether a kernel's results depend on the previous contents of its scratch.

Floor 6. In: the Graph of a kernel, the positions that are known, and the inputs to be tested. Out:
which results depend on them. If none does at the first program along the axes that run one after
another, programs along the other axes may run side by side, each with its own scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, bind, called
from gpuarray.core.primitive import Kind
from gpuarray.core.trace import base_trace


def depending(
    graph: Graph, known: Sequence[Any], marked: Sequence[bool]
) -> tuple[list[bool], list[Any]]:
    """Return which results depend on marked inputs, and the known scalars among the results.

    Parameters
    ----------
    known :
        The value of each input where it is a known scalar, else None.
    """
    values: dict[Var, Any] = {
        v: x for v, x in zip(graph.invars, known, strict=True) if x is not None
    }
    touched: set[Var] = {v for v, m in zip(graph.invars, marked, strict=True) if m}
    for eqn in graph.eqns:
        if all(isinstance(a, Literal) or a in values for a in eqn.invars) and _small(eqn):
            # Arithmetic on positions is done now, so that a condition on them is a known number.
            with base_trace():
                bind(eqn, values)
            continue
        for v, (mark, value) in zip(eqn.outvars, _through(eqn, values, touched), strict=True):
            if mark:
                touched.add(v)
            elif value is not None:
                values[v] = value
    marks = [isinstance(a, Var) and a in touched for a in graph.outvars]
    return marks, [_value(a, values) for a in graph.outvars]


def _small(eqn: Eqn) -> bool:
    """Whether an equation is scalar arithmetic, which can be computed immediately."""
    pure = eqn.primitive.kind is not Kind.CALL and not eqn.primitive.effect and bool(eqn.invars)
    return pure and all(a.aval.shape == () for a in (*eqn.invars, *eqn.outvars))


def _value(a: Atom, values: dict[Var, Any]) -> Any:
    return a.operand if isinstance(a, Literal) else values.get(a)


def _through(eqn: Eqn, values: dict[Var, Any], touched: set[Var]) -> list[tuple[bool, Any]]:
    """For each result: whether it depends on a marked input, and its value if known."""
    known = [_value(a, values) for a in eqn.invars]
    marked = [isinstance(a, Var) and a in touched for a in eqn.invars]
    body, given = called(eqn), (known, marked)
    branches = eqn.params.get("branches")
    if branches is not None and known and known[0] is not None:
        # Only the branch that is taken; its index is clamped, as the program does it.
        number = min(max(int(np.asarray(known[0])), 0), len(branches) - 1)
        body, given = branches[number], (known[1:], marked[1:])
    if body is not None:
        return list(zip(*depending(body, *given), strict=True))
    return [(any(marked), None)] * len(eqn.outvars)
