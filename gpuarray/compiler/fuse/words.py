"""Steps in words: a line for each operation, in the order in which they run.

Floor 3. In: a Step. Out: text for people, as `explain` and comments in emitted source show it.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.flows import flow_lines
from gpuarray.compiler.fuse.group import Group, Load, Step, members_in_order
from gpuarray.compiler.fuse.steps import made_eqns, step_bytes
from gpuarray.core.graph import Eqn, Literal
from gpuarray.core.primitive import Kind


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
