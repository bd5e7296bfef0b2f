"""What a step reads, makes and costs.

Floor 3. In: a Step. Out: its values, its equations, and how many bytes and operations they take.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.group import Group, Step, members_in_order
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import Kind


def step_inputs(step: Step) -> list[Var]:
    """The values a step reads."""
    if isinstance(step, Group):
        return step.sources()
    return [a for a in step.invars if isinstance(a, Var)]


def step_outputs(step: Step) -> list[Var]:
    """The values a step leaves behind."""
    return step.outputs if isinstance(step, Group) else step.outvars


def step_eqns(step: Step) -> list[Eqn]:
    """The equations in a step."""
    if not isinstance(step, Group):
        return [step]
    made = [e for e in made_eqns(step) if e.primitive.kind is not Kind.VIEW]
    if step.moves is not None:
        return made or [step.moves]
    return [*made, *(m.eqn for m in members_in_order(step))]


def step_work(step: Step) -> float:
    """Multiply-adds, roughly."""
    total = 0.0
    for eqn in step_eqns(step):
        if eqn.primitive.kind is Kind.VIEW:
            continue
        if eqn.primitive.work is not None:
            total += eqn.primitive.work([a.aval for a in eqn.invars], **eqn.params)
            continue
        sizes = [a.aval.size for a in (*eqn.invars, *eqn.outvars)]
        total += eqn.primitive.weight * max(sizes, default=0)
    return total


def step_bytes(step: Step) -> int:
    """Bytes a step reads and writes."""
    if isinstance(step, Eqn):
        return 0 if step.primitive.kind is Kind.VIEW else eqn_bytes(step)
    return sum(v.aval.nbytes for v in (*step.sources(), *step.outputs))


def eqn_bytes(eqn: Eqn) -> int:
    """Bytes that an equation reads and writes as a step of its own."""
    read = sum(v.aval.nbytes for v in {a for a in eqn.invars if isinstance(a, Var)})
    return read + sum(v.aval.nbytes for v in eqn.outvars)


def made_eqns(step: Group) -> list[Eqn]:
    """The equations by which a group makes what it reads, each after those it needs."""
    order: dict[int, Eqn] = {}
    for v in (x.source for x in (*step.loads(), *(x for x, _ in step.streamed()))):
        waiting = [v]
        while waiting:
            eqn = step.generators.get(waiting[-1])
            needed = (
                []
                if eqn is None or id(eqn) in order
                else [
                    a
                    for a in eqn.invars
                    if isinstance(a, Var)
                    and a in step.generators
                    and id(step.generators[a]) not in order
                ]
            )
            if needed:
                waiting += needed[::-1]
                continue
            waiting.pop()
            if eqn is not None:
                order.setdefault(id(eqn), eqn)
    return list(order.values())
