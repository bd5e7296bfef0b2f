"""The Plan: what a compiled Graph runs, step by step.

Floor 3. In: a Graph. Out: the simplified Graph and its steps in order, with what they cost. Still
no text and no machine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gpuarray.compiler.fuse import fuse_with_reasons
from gpuarray.compiler.groups.cuts import cut
from gpuarray.compiler.groups.flows import flow_lines
from gpuarray.compiler.groups.group import Group, Load, Refusal, Step
from gpuarray.compiler.groups.group import members_in_order as members_in_order
from gpuarray.compiler.groups.multi import together
from gpuarray.compiler.groups.products import spread, turned
from gpuarray.compiler.groups.refine import refine
from gpuarray.compiler.groups.vectors import components
from gpuarray.compiler.simplify import simplify
from gpuarray.core.graph import Eqn, Graph, Literal, Var, last_uses
from gpuarray.core.primitive import Kind, registry


@dataclass
class Plan:
    """A simplified graph and the steps that compute it."""

    graph: Graph
    steps: list[Step]
    refusals: list[Refusal]
    fusion: bool = True

    @functools.cached_property
    def on_device(self) -> Plan:
        """The plan of the same graph for machines that run emitted kernels: there, loops and
        branches in which elements go their own way are kernels too, and so is what moves data,
        where it is not made by who reads it. Small vectors are components, and small groups that
        are alike are one kernel.
        """
        steps, refusals = self.steps, self.refusals
        graph = components(spread(self.graph)) if self.fusion else self.graph
        if graph is not self.graph or any(e.primitive.flow for e in graph.eqns):
            steps, refusals = fuse_with_reasons(graph, self.fusion, flows=True)
        if self.fusion:
            steps, more = cut(steps)
            refusals = [*refusals, *more]
        steps = refine(graph, steps, self.fusion)
        if self.fusion:
            steps = together(steps)
        plan = Plan(graph, steps, refusals, self.fusion)
        plan.on_device = plan
        return plan

    @property
    def device_steps(self) -> list[Step]:
        """The steps of the plan for machines that run emitted kernels."""
        return self.on_device.steps

    @property
    def groups(self) -> list[Group]:
        """The steps that are fused kernels."""
        return [s for s in self.steps if isinstance(s, Group)]

    @property
    def library_calls(self) -> list[Eqn]:
        """The steps that are routines of a library, or that move data."""
        return [s for s in self.steps if isinstance(s, Eqn) and s.primitive.kind is not Kind.VIEW]

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
    if fusion:
        flat = turned(flat)
    steps, refusals = fuse_with_reasons(flat, fusion)
    return Plan(flat, steps, refusals, fusion)


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
        return 0 if step.primitive.kind is Kind.VIEW else _eqn_bytes(step)
    return sum(v.aval.nbytes for v in (*step.sources(), *step.outputs))


def _eqn_bytes(eqn: Eqn) -> int:
    read = sum(v.aval.nbytes for v in {a for a in eqn.invars if isinstance(a, Var)})
    return read + sum(v.aval.nbytes for v in eqn.outvars)


def _last_steps(plan: Plan) -> dict[int, list[Var]]:
    """For each step, the values nobody reads after it."""
    steps = [Eqn(registry["copy"], step_inputs(s), step_outputs(s), {}) for s in plan.steps]
    return last_uses(Graph([], plan.graph.outvars, steps))


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
    head = f"{step.name}({inputs}) -> {outputs}"
    if step.parts:
        head = f"{step.name}: {len(step.parts)} groups, each to its own arrays:"
    lines = [f"{head}    {step_bytes(step)} bytes"]
    lines += [f"    {text}" for _, text in operations(step, names)]
    return "\n".join(lines)


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


def made_lines(step: Group, names: dict[object, str]) -> list[tuple[Eqn, str]]:
    """What a group makes instead of reading it, each as a line."""
    lines: list[tuple[Eqn, str]] = []
    for eqn in made_eqns(step):
        operands = [f"{a.val}" if isinstance(a, Literal) else names[a] for a in eqn.invars]
        if eqn.primitive.kind is Kind.VIEW:
            for v in eqn.outvars:
                names[v] = f"{operands[0]}.{eqn.primitive.name}"
            continue
        for v in eqn.outvars:
            names[v] = f"m{len(lines)}"
        lines.append((eqn, f"m{len(lines)} = {eqn.primitive.name}({', '.join(operands)})"))
    return lines


def operations(step: Group, names: dict[object, str]) -> list[tuple[Eqn, str]]:
    """The operations of a group in the order in which they run, each as a line; `names` are those
    of what it reads.
    """
    step = step.parts[0] if step.parts else step
    lines = made_lines(step, names)
    if step.moves is not None:
        if not lines:  # a view alone
            text = ", ".join(names[v] for v in step.sources())
            lines.append((step.moves, f"{step.moves.primitive.name}({text})"))
        eqn, text = lines[-1]
        return [*lines[:-1], (eqn, f"{text}  => out")]
    for number, member in enumerate(members_in_order(step)):
        for v in member.eqn.outvars:
            names[v] = (
                f"v{number}"
                if len(member.eqn.outvars) == 1
                else f"v{number}.{member.eqn.outvars.index(v)}"
            )
        operands = []
        flow = member.flow
        for o in (*member.operands, *(flow.memory.values() if flow else ())):
            if isinstance(o, Literal):
                operands.append(f"{o.val}")
            elif isinstance(o, Load):
                operands.append(".".join([names[o.source], *(e.primitive.name for e in o.views)]))
            else:
                operands.append(names[o.var])
        result = ", ".join(names[v] for v in member.eqn.outvars)
        kept = "  => out" if any(v in step.outputs for v in member.eqn.outvars) else ""
        text = f"{member.eqn.primitive.name}({', '.join(operands)})"
        inside: list[tuple[Eqn, str]] = []
        if flow is not None:
            (_, text), *inside = flow_lines(flow, operands)
        lines.append((member.eqn, f"{result} = {text}{kept}"))
        lines += inside
    return lines
