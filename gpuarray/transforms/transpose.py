"""Transposition: a linear Graph run backwards.

Floor 3. In: a Graph, linear in some of its inputs, and cotangents of its outputs. Out: cotangents
of those inputs.

A primitive's transpose rule is
  LINEAR sentinel-free function  f(ct, *operands, **params) -> one cotangent an operand (None for
  those it is not linear in)
where operands it is linear in come as Undefined. `ct` is a list for primitives with several
results; it may hold Zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray import sites
from gpuarray.core.graph import Eqn, Graph, Literal, Var, bind
from gpuarray.core.linear import Undefined, Zero, is_zero
from gpuarray.core.primitive import Sentinel
from gpuarray.errors import MissingRuleError
from gpuarray.primitives.linear import add_any


@sites.replays
def transpose_flat(
    graph: Graph, linear: Sequence[bool], known: Sequence[Any], cotangents: Sequence[Any]
) -> list:
    """Cotangents of the linear inputs (Zero where nothing arrives).

    linear: which inputs the graph is linear in; known: the values of the others, in order
    """
    before = sites.replaying.site
    try:
        return _backwards(graph, linear, known, cotangents)
    finally:
        sites.replaying.site = before


def _backwards(
    graph: Graph, linear: Sequence[bool], known: Sequence[Any], cotangents: Sequence[Any]
) -> list:
    env: dict[Var, Any] = dict(zip(graph.constvars, graph.consts, strict=True))
    others = [v for v, is_linear in zip(graph.invars, linear, strict=True) if not is_linear]
    env.update(zip(others, known, strict=True))
    inputs = [v for v, is_linear in zip(graph.invars, linear, strict=True) if is_linear]
    depends = set(inputs)
    backward: list[Eqn] = []
    for eqn in graph.eqns:
        if any(isinstance(a, Var) and a in depends for a in eqn.invars):
            depends.update(eqn.outvars)
            backward.append(eqn)
        else:
            sites.replaying.site = eqn.site
            bind(eqn, env)
    arrived: dict[Var, Any] = {}

    def give(v: Var, ct: Any) -> None:
        if ct is None or is_zero(ct):
            return
        arrived[v] = add_any(arrived[v], ct) if v in arrived else ct

    for a, ct in zip(graph.outvars, cotangents, strict=True):
        if isinstance(a, Var) and a in depends:
            give(a, ct)
    for eqn in reversed(backward):
        sites.replaying.site = eqn.site
        cts = [arrived.pop(v, None) for v in eqn.outvars]
        if all(ct is None for ct in cts):
            continue
        cts = [Zero(v.aval) if ct is None else ct for v, ct in zip(eqn.outvars, cts, strict=True)]
        operands = [
            a.operand if isinstance(a, Literal) else (Undefined(a.aval) if a in depends else env[a])
            for a in eqn.invars
        ]
        given = transpose_of(eqn, cts, operands)
        for a, ct in zip(eqn.invars, given, strict=True):
            if isinstance(a, Var) and a in depends:
                give(a, ct)
    return [arrived.get(v, Zero(v.aval)) for v in inputs]


def transpose_of(eqn: Eqn, cts: list, operands: list) -> Sequence[Any]:
    """Apply a primitive's transpose rule."""
    prim = eqn.primitive
    if isinstance(prim.transpose, Sentinel):
        raise MissingRuleError(
            f"Transpose rule (for reverse-mode differentiation) for '{prim.name}' not implemented: "
            f"{prim.transpose.why}"
        )
    given = prim.transpose(cts if prim.multiple_results else cts[0], *operands, **eqn.params)
    return list(given)
