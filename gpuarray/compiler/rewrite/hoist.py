"""Hoist loop invariants.

Floor 3. In: a Graph. Out: an equivalent one in which the bodies and conditions of loops read
invariants as constants, if that is cheaper than recomputing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Var, has_effect, is_view, talks
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET

#: Kinds without a kernel of their own, of which a loop over independent elements consists.
_ELEMENTWISE = (Kind.POINTWISE, Kind.VIEW, Kind.GENERATOR)


def hoist(graph: Graph) -> Graph:
    """The graph with loop invariants hoisted; the same one if there is none."""
    eqns: list[Eqn] = []
    consts: dict[Var, object] = {}
    for eqn in graph.eqns:
        rules = eqn.primitive
        loop = rules.flow(eqn) if rules.flow is not None else None
        # A loop of one iteration repeats nothing; one of none computes nothing.
        if isinstance(loop, Loop) and rules.rewrite.loop is not None and loop.length not in (0, 1):
            before, eqn = _with_less(eqn, loop, consts)
            eqns += before
        eqns.append(eqn)
    if len(eqns) == len(graph.eqns):
        return graph
    return graph.replace(
        eqns=eqns,
        constvars=[*graph.constvars, *consts],
        consts=[*graph.consts, *consts.values()],
    )


class _Parts(NamedTuple):
    """The part of a Graph that stays in a loop: its constants are `operands`, computed by
    `before`.
    """

    before: list[Eqn]
    stays: Graph
    operands: list[Atom]


def _with_less(eqn: Eqn, loop: Loop, consts: dict[Var, object]) -> tuple[list[Eqn], Eqn]:
    """The hoisted equations, and the loop without them."""
    parts = _parts(loop.body, [eqn.invars[i] for i in loop.consts], consts)
    before, body, operands = parts
    condition, tested = loop.condition, [eqn.invars[i] for i in loop.condition_consts]
    if condition is not None:
        more, condition, tested = _parts(condition, tested, consts)
        before = [*before, *more]
    if not before:
        return [], eqn
    # The inputs in their order again: constants of the condition, those of the body, the rest.
    changed = loop.replace(
        body=body,
        consts=range(len(operands)),
        condition=condition,
        condition_consts=range(len(tested)),
    )
    rest = [eqn.invars[i] for i in (*loop.carry, *loop.xs)]
    made = eqn.primitive.rewrite.loop
    assert made is not None
    return before, made(eqn, changed).replace(invars=[*tested, *operands, *rest])


def _parts(graph: Graph, operands: Sequence[Atom], consts: dict[Var, object]) -> _Parts:
    """Split a Graph of a loop, whose first inputs are `operands` in every iteration."""
    # Inner loops first: values hoisted out of them may be invariant here, too.
    flat = hoist(simplify(graph))
    fixed = set(flat.invars[: len(operands)]) | set(flat.constvars)
    same: list[Eqn] = []
    stays: list[Eqn] = []
    for eqn in flat.eqns:
        # Effects happen once in each iteration, and all devices make exchanges in one order.
        moves = not (has_effect(eqn) or talks(eqn))
        if moves and all(a in fixed for a in eqn.invars if isinstance(a, Var)):
            same.append(eqn)
            fixed.update(eqn.outvars)
        else:
            stays.append(eqn)
    # A loop over independent elements keeps its values in registers.
    if not same or all(e.primitive.kind in _ELEMENTWISE for e in stays):
        return _Parts([], graph, list(operands))
    read = [*(a for e in stays for a in e.invars), *flat.outvars]
    needed = {a for a in read if isinstance(a, Var)}
    made_by = {v: eqn for eqn in same for v in eqn.outvars}
    given: list[Var] = []  # values that are made before
    again: list[Eqn] = []
    # Readers first: a recomputed value needs its operands in the loop, a hoisted one does not.
    for eqn in reversed(same):
        wanted = [v for v in eqn.outvars if v in needed]
        if wanted and all(_is_worth_it(v, made_by, needed) for v in wanted):
            given += wanted
        elif wanted:
            again.append(eqn)
            needed |= {a for a in eqn.invars if isinstance(a, Var)}
    if not given:
        return _Parts([], graph, list(operands))
    # Outside a constant of the loop is its operand; names are new, as a Graph may be in two loops.
    names: dict[Var, Atom] = dict(zip(flat.invars, operands, strict=False))
    behind = _behind(given, made_by)
    for v, c in zip(flat.constvars, flat.consts, strict=True):
        # Constants that leave the loop with their equations.
        if any(v in e.invars for e in behind):
            own = names[v] = Var(v.aval)
            consts[own] = c
    before = []
    for eqn in (e for e in same if e in behind):
        invars = [names.get(a, a) if isinstance(a, Var) else a for a in eqn.invars]
        outvars = [Var(v.aval) for v in eqn.outvars]
        names.update(zip(eqn.outvars, outvars, strict=True))
        before.append(eqn.replace(invars=invars, outvars=outvars))
    # Operands that only hoisted equations read are no longer operands of the loop.
    kept = [(v, a) for v, a in zip(flat.invars, operands, strict=False) if v in needed]
    inner = [*(v for v, _ in kept), *given, *flat.invars[len(operands) :]]
    left = {*stays, *again}
    body = flat.replace(invars=inner, eqns=[e for e in flat.eqns if e in left])
    return _Parts(before, body, [*(a for _, a in kept), *(names[v] for v in given)])


def _behind(values: Sequence[Var], made_by: dict[Var, Eqn]) -> dict[Eqn, None]:
    """The equations that make values, of those in `made_by`."""
    found: dict[Eqn, None] = {}
    waiting = list(values)
    while waiting:
        eqn = made_by.get(waiting.pop())
        if eqn is not None and eqn not in found:
            found[eqn] = None
            waiting += [a for a in eqn.invars if isinstance(a, Var)]
    return found


def _is_worth_it(v: Var, made_by: dict[Var, Eqn], needed: set) -> bool:
    """Whether reading a value in every iteration costs less than making it from constants."""
    # Views cost nothing where they are read, and would be copies in memory.
    if is_view(made_by[v]):
        return False
    eqns = _behind([v], made_by)
    sources = {a for e in eqns for a in e.invars if isinstance(a, Var) and a not in made_by}
    # It takes no more memory than its inputs.
    if v.aval.nbytes > max(sum(s.aval.nbytes for s in sources), TARGET.sector_bytes):
        return False
    # A reduction or a routine would be a separate step in every iteration.
    if any(e.primitive.kind not in (*_ELEMENTWISE, Kind.MOVEMENT) for e in eqns):
        return True
    work = sum(e.primitive.weight for e in eqns if e.primitive.kind is Kind.POINTWISE)
    more = 0 if needed.isdisjoint(sources) else v.aval.dtype.itemsize
    return work > max(TARGET.free, more * TARGET.instructions_a_byte)
