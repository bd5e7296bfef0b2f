"""The Plan: what a compiled Graph runs, step by step.

Floor 3. In: a Graph. Out: the simplified Graph and its steps in order, with what they cost. Still
no text and no machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuarray.compiler.fuse import fuse_with_reasons
from gpuarray.compiler.group import Group, Inner, Load, Member, Refusal, Step
from gpuarray.compiler.simplify import simplify
from gpuarray.core.graph import Eqn, Graph, Literal, Var, last_uses
from gpuarray.core.primitive import Kind


@dataclass
class Plan:
    """A simplified graph and the steps that compute it."""

    graph: Graph
    steps: list[Step]
    refusals: list[Refusal]

    @property
    def groups(self) -> list[Group]:
        """The steps that are fused kernels."""
        return [s for s in self.steps if isinstance(s, Group)]

    @property
    def library_calls(self) -> list[Eqn]:
        """The steps that are routines of a library, or that move data."""
        return [s for s in self.steps if isinstance(s, Eqn) and s.primitive.kind is not Kind.VIEW]

    @property
    def device_steps(self) -> list[Step]:
        """The steps where groups make for themselves what they can: without the steps that would
        put only such values into memory.
        """
        made = {v for g in self.groups for v in g.generators}
        read = {a for a in self.graph.outvars if isinstance(a, Var)}
        for step in self.steps:
            own = step.generators if isinstance(step, Group) else ()
            read.update(v for v in step_inputs(step) if v not in own)
        return [s for s in self.steps if isinstance(s, Group) or not set(s.outvars) <= made - read]

    @property
    def work(self) -> float:
        """Multiply-adds, roughly."""
        return sum(step_work(s) for s in self.steps)

    @property
    def bytes_moved(self) -> int:
        """Bytes that the steps read and write: each reads its inputs once and writes its outputs
        once.
        """
        return sum(step_bytes(s) for s in self.steps)

    @property
    def bytes_unfused(self) -> int:
        """Bytes that the same equations would move as a step each."""
        return sum(_eqn_bytes(e) for e in self.graph.eqns if e.primitive.kind is not Kind.VIEW)

    @property
    def temporary_bytes(self) -> int:
        """The most bytes that values between steps take at one time."""
        results = {a for a in self.graph.outvars if isinstance(a, Var)}
        size = {
            v: v.aval.nbytes
            for s in self.steps
            for v in step_outputs(s)
            if v not in results and not (isinstance(s, Eqn) and s.primitive.kind is Kind.VIEW)
        }
        last = _last_steps(self)
        now = most = 0
        for i, step in enumerate(self.steps):
            now += sum(size.get(v, 0) for v in step_outputs(step))
            most = max(most, now)
            now -= sum(size.get(v, 0) for v in last.get(i, ()))
        return most

    def __str__(self) -> str:
        return "\n".join(describe(s) for s in self.steps)


def plan_graph(graph: Graph, fusion: bool = True) -> Plan:
    """Simplify and fuse."""
    flat = simplify(graph)
    steps, refusals = fuse_with_reasons(flat, fusion)
    return Plan(flat, steps, refusals)


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
    return [m.eqn for m in step.members] if isinstance(step, Group) else [step]


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
        return 0 if step.primitive.kind is Kind.VIEW else _eqn_bytes(step)
    return sum(v.aval.nbytes for v in (*step.sources(), *step.outputs))


def _eqn_bytes(eqn: Eqn) -> int:
    read = sum(v.aval.nbytes for v in {a for a in eqn.invars if isinstance(a, Var)})
    return read + sum(v.aval.nbytes for v in eqn.outvars)


def _last_steps(plan: Plan) -> dict[int, list[Var]]:
    """For each step, the values nobody reads after it."""
    steps = [
        Eqn(step_eqns(s)[0].primitive, step_inputs(s), step_outputs(s), {}) for s in plan.steps
    ]
    return last_uses(Graph([], plan.graph.outvars, steps))


def members_in_order(group: Group) -> Iterator[Member]:
    """The members, each after the ones it needs."""
    made = group.made
    done: set[int] = set()
    for member in group.members:
        stack = [member]
        while stack:
            top = stack[-1]
            needed = [
                made[o.var]
                for o in top.operands
                if isinstance(o, Inner) and id(made[o.var]) not in done
            ]
            if needed:
                stack.extend(needed)
                continue
            stack.pop()
            if id(top) not in done:
                done.add(id(top))
                yield top


def describe(step: Step) -> str:
    """A step in words: a line a kernel, a line for each operation in it."""
    if isinstance(step, Eqn):
        ins = ", ".join(a.aval.str_short(True) for a in step.invars)
        outs = ", ".join(v.aval.str_short(True) for v in step.outvars)
        word = "view" if step.primitive.kind is Kind.VIEW else "library"
        return f"{word} {step.primitive.name}({ins}) -> {outs}"
    names: dict[object, str] = {}
    for v in step.sources():
        names[v] = f"in{len(names)}"
    inputs = ", ".join(f"{names[v]}: {v.aval.str_short(True)}" for v in step.sources())
    outputs = ", ".join(v.aval.str_short(True) for v in step.outputs)
    lines = [f"{step.name}({inputs}) -> {outputs}    {step_bytes(step)} bytes"]
    for number, member in enumerate(members_in_order(step)):
        for v in member.eqn.outvars:
            names[v] = (
                f"v{number}"
                if len(member.eqn.outvars) == 1
                else f"v{number}.{member.eqn.outvars.index(v)}"
            )
        operands = []
        for o in member.operands:
            if isinstance(o, Literal):
                operands.append(f"{o.val}")
            elif isinstance(o, Load):
                operands.append(".".join([names[o.source], *(e.primitive.name for e in o.views)]))
            else:
                operands.append(names[o.var])
        result = ", ".join(names[v] for v in member.eqn.outvars)
        kept = "  => out" if any(v in step.outputs for v in member.eqn.outvars) else ""
        lines.append(f"    {result} = {member.eqn.primitive.name}({', '.join(operands)}){kept}")
    return "\n".join(lines)
