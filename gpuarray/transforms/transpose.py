"""Transposition: a linear Graph run backwards.

Floor 3. In: a Graph that is linear in some of its inputs, and cotangents of its outputs. Out:
cotangents of those inputs.

A primitive's transpose rule is

    f(ct, *operands, **params) -> a cotangent for each operand

with None for operands it is not linear in. Operands it is linear in are given as Undefined. For
primitives with several results `ct` is a list, in which there may be Zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from gpuarray import sites
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn, Graph, Literal, Var, bind
from gpuarray.core.layout import joined, names_of, sums_of, unclear_is_whole
from gpuarray.core.linear import Undefined, Zero, is_zero
from gpuarray.core.primitive import Kind, Sentinel
from gpuarray.core.trace import Tracer
from gpuarray.errors import MissingRuleError
from gpuarray.primitives.collective.ops import psum_p
from gpuarray.primitives.collective.sums import each_own, vary_unreduced_cast_p
from gpuarray.primitives.linear import add_any
from gpuarray.primitives.reshard import as_typed, cotangent_aval


@sites.replays
def transpose_flat(
    graph: Graph,
    linear: Sequence[bool],
    known: Sequence[Any],
    cotangents: Sequence[Any],
    wanted: Sequence[bool] | None = None,
) -> list:
    """Return the cotangents of the linear inputs (Zero where none arrives).

    Parameters
    ----------
    linear :
        For each input, whether the graph is linear in it.
    known :
        Values of the other inputs, in order.
    wanted :
        For each linear input, whether its cotangent is wanted; others are Zero.
    """
    # Operations of the transposed graph point to the user's lines of the original ones.
    before = sites.replaying.site
    try:
        with unclear_is_whole():
            return _backwards(graph, linear, known, cotangents, wanted)
    finally:
        sites.replaying.site = before


def _backwards(
    graph: Graph,
    linear: Sequence[bool],
    known: Sequence[Any],
    cotangents: Sequence[Any],
    wanted: Sequence[bool] | None,
) -> list:
    """Run the known part of a graph forwards, then the linear part backwards."""
    # Values of the forward part: constants, known inputs, and values computed from them.
    env: dict[Var, Any] = dict(zip(graph.constvars, graph.consts, strict=True))
    others = [v for v, is_linear in zip(graph.invars, linear, strict=True) if not is_linear]
    env.update(zip(others, known, strict=True))
    inputs = [v for v, is_linear in zip(graph.invars, linear, strict=True) if is_linear]
    # Forward: run equations that do not depend on linear inputs, collect the rest.
    depends = set(inputs)
    # Of these, values on the way back to an input that is wanted.
    useful = depends if wanted is None else set(compress(inputs, wanted))
    # Equations that do not depend on a linear input run now; the rest is kept for the backward
    # pass, if a cotangent is needed through it.
    backward: list[Eqn] = []
    for eqn in graph.eqns:
        if any(isinstance(a, Var) and a in depends for a in eqn.invars):
            depends.update(eqn.outvars)
            if useful is not depends:
                if not any(isinstance(a, Var) and a in useful for a in eqn.invars):
                    continue
                useful.update(eqn.outvars)
            backward.append(eqn)
        else:
            sites.replaying.site = eqn.site
            bind(eqn, env)
    # The sum of cotangents so far of each value; a missing one is zero.
    arrived: dict[Var, Any] = {}
    # The same of values that all devices share, from uses that differ between devices: by the mesh
    # axes over which a sum is owed. It is made once, when all uses have contributed.
    owed: dict[Var, dict[tuple, Any]] = {}

    # Add a share to the cotangent of a value.
    def give(v: Var, ct: Any, names: tuple = ()) -> None:
        if ct is None or is_zero(ct):
            return
        if names:
            sums = owed.setdefault(v, {})
            sums[names] = add_any(sums[names], ct) if names in sums else ct
        else:
            arrived[v] = add_any(arrived[v], ct) if v in arrived else ct

    # The whole cotangent of a value: sums that are owed are made now.
    def taken(v: Var) -> Any:
        reduced = sums_of(v.aval.layout)[1]
        for names, ct in owed.pop(v, {}).items():
            # Where the value is reduced, its cotangent stays terms.
            if terms := tuple(n for n in names if n in reduced):
                ct = vary_unreduced_cast_p.bind(each_own(ct, terms), axes=terms)
            if rest := tuple(n for n in names if n not in reduced):
                (ct,) = psum_p.bind(ct, axes=rest, axis_index_groups=None)
            give(v, ct)
        ct = arrived.pop(v, None)
        # Along Explicit axes a cotangent has the sharding of its value.
        return ct if ct is None or is_zero(ct) else as_typed(ct, cotangent_aval(v.aval))

    for a, ct in zip(graph.outvars, cotangents, strict=True):
        if isinstance(a, Var) and a in useful:
            give(a, ct)
    # Backward: when an equation is reached, all users of its results have contributed.
    for eqn in reversed(backward):
        sites.replaying.site = None if eqn.site is None else eqn.site.transposed()
        cts = [taken(v) for v in eqn.outvars]
        # Nothing arrived: its operands get nothing from it.
        if all(ct is None for ct in cts):
            continue
        cts = [
            Zero(cotangent_aval(v.aval)) if ct is None else ct
            for v, ct in zip(eqn.outvars, cts, strict=True)
        ]
        operands = [
            a.operand if isinstance(a, Literal) else (Undefined(a.aval) if a in depends else env[a])
            for a in eqn.invars
        ]
        given = transpose_of(eqn, cts, operands)
        for a, ct in zip(eqn.invars, given, strict=True):
            if isinstance(a, Var) and a in useful:
                give(a, ct, _owed_names(eqn, a, ct))
    # The remaining values are the inputs, which no equation makes.
    found = {v: taken(v) for v in inputs}
    return [Zero(cotangent_aval(v.aval)) if found[v] is None else found[v] for v in inputs]


def _owed_names(eqn: Eqn, operand: Var, ct: Any) -> tuple:
    """Return the mesh axes along which a use of an operand differs, and the operand does not.

    The cotangent of a value that all devices share is the sum of theirs. A call shares nothing
    itself: its Graph has its own types, and the types of its results say how they vary.
    """
    if all(a.aval.layout is None for a in eqn.invars) and not isinstance(ct, Tracer):
        return ()
    if eqn.primitive.kind is Kind.CALL:
        used = aval_of(ct).vma if isinstance(ct, Tracer) else frozenset()
    else:
        used = names_of(joined(a.aval.layout for a in eqn.invars))
    return tuple(sorted(used - operand.aval.vma, key=str))


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
