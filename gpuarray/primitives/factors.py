"""Factors of every primitive: by its own rule, or by its kind.

Floor 2. In: a primitive, avals and parameters. Out: its `Factors` (core/factors.py). Only modules
that evaluate Graphs on pieces import this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpuarray.core.avals import ShapedArray
from gpuarray.core.factors import (
    BY_GRAPH,
    BY_NAME,
    WHOLE,
    Factors,
    all_but,
    elementwise,
    nothing,
)
from gpuarray.core.primitive import Kind, Primitive, Sentinel

#: How the results of two pieces of a folded axis are combined, by the ufunc that merges them.
_COMBINED = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
}


def rule_of(prim: Primitive) -> Callable[..., Factors] | Sentinel:
    """Return the rule of a primitive: its own or that of its kind; a Sentinel gives the reason for
    none.
    """
    if prim.factors is not None:
        return prim.factors
    if prim.kind is Kind.POINTWISE:
        return elementwise
    if prim.kind is Kind.REDUCTION:
        return lambda avals, out_avals, params: _reduction(prim, avals, out_avals, params)
    if prim.kind is Kind.SCAN:
        return lambda avals, out_avals, params: all_but((params["axis"],), avals, out_avals)
    if prim.kind is Kind.SORT and prim.order is not None:
        axis = prim.order.axis
        return lambda avals, out_avals, params: all_but((params[axis],), avals, out_avals)
    return {Kind.CALL: BY_GRAPH, Kind.COLLECTIVE: BY_NAME}.get(prim.kind, WHOLE)


def runs_once(prim: Primitive) -> bool:
    """Whether an operation outside of manual regions is to run once, and not on every device."""
    return isinstance(prim.factors, Sentinel) and prim.factors.name == "ONCE"


def factors_of(
    prim: Primitive, avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], params: dict
) -> Factors:
    """Return the factors of an equation.

    Primitives that need every operand whole have no factors. Those that hold Graphs, and
    collectives, raise TypeError: the equations inside have factors, and collectives are on pieces
    already.
    """
    rule = rule_of(prim)
    if not isinstance(rule, Sentinel):
        return rule(avals, out_avals, params)
    if rule is BY_GRAPH or rule is BY_NAME:
        raise TypeError(f"{prim.name} has no factors: {rule.why}")
    return nothing(avals, out_avals, params)


def _reduction(prim: Primitive, avals, out_avals, params) -> Factors:
    """Kept axes, and the folded ones where partial results can be combined."""
    axes = params["axes"]
    (operand,) = avals
    # None: partial results are not sufficient, as for argmax.
    how = _COMBINED.get(prim.fold.result_ufunc) if prim.fold is not None else None
    names = [None if d in axes and how is None else d for d in range(operand.ndim)]
    kept = [d for d in range(operand.ndim) if d not in axes]
    owed = dict.fromkeys(axes, how) if how else None
    return Factors.named(avals, out_avals, [names], [kept], owed=owed)
