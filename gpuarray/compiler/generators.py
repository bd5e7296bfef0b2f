"""Values that a kernel makes for itself, element by element, instead of reading them.

Floor 3. In: the steps of a plan. Out: the same steps, groups told which of the values they read
depend on the index alone (`iota`), or on it and a few scalars (random bits from one key).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpuarray.compiler.group import Group, Load, Member, Step
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Kind, Sentinel

Resolve = Callable[[Var], tuple[Var, tuple[Eqn, ...]]]


def note_generators(steps: list[Step], graph: Graph, resolve: Resolve) -> None:
    """Give every group the recipes of the values it can make.

    What has operands is made in a group only if nobody else reads it, and only once an element:
    twenty rounds of a cipher cost more than a read.
    """
    made_by = {v: e for e in graph.eqns if e.primitive.kind is Kind.GENERATOR for v in e.outvars}
    if not made_by:
        return
    readers: dict[Var, int] = {resolve(v)[0]: 2 for v in graph.outvars if isinstance(v, Var)}
    for step in steps:
        if isinstance(step, Eqn) and step.primitive.kind is Kind.VIEW:
            continue
        read = list(step.read) if isinstance(step, Group) else step.invars
        for v in {resolve(a)[0] for a in read if isinstance(a, Var)}:
            readers[v] = readers.get(v, 0) + 1
    for step in steps:
        if not isinstance(step, Group):
            continue
        for v in step.read:
            eqn = made_by.get(v)
            if eqn is None or not has_text(eqn):
                continue
            if not eqn.invars or (readers[v] == 1 and _read_once(step, v)):
                step.generators[v] = recipe(eqn, resolve)


def _read_once(group: Group, v: Var) -> bool:
    loads = [x for x in group.loads() if x.source is v]
    size = math.prod(group.axes)
    return len({x.key for x in loads}) == 1 and size == v.aval.size


def has_text(eqn: Eqn) -> bool:
    """Whether CUDA text can make an element of this value: operands must be scalars."""
    if isinstance(eqn.primitive.cuda, Sentinel) or any(a.aval.ndim for a in eqn.invars):
        return False
    try:
        eqn.primitive.cuda([a.aval for a in eqn.invars], **eqn.params)
    except TypeError:
        return False
    return True


def recipe(eqn: Eqn, resolve: Resolve = lambda v: (v, ())) -> Member:
    """A generator as a member whose operands are read where an element is made."""
    operands = []
    for a in eqn.invars:
        if isinstance(a, Var):
            source, views = resolve(a)
            operands.append(Load(source, views, (), ()))
    return Member(eqn, operands, (), ())
