"""Steps in words: a line for each operation, in the order in which they run.

Floor 3. In: a step of a plan. Out: text for people, as `explain` and comments in emitted source
show it.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.flows import flow_lines
from gpuarray.compiler.fuse.group import FusedGroup, Load, members_in_order
from gpuarray.compiler.lower.kernel import Batch, DeviceStep, Kernel
from gpuarray.compiler.lower.steps import group_in, inlined_eqns, step_bytes
from gpuarray.core.graph import Eqn, Literal
from gpuarray.core.primitive import Kind


def describe(step: DeviceStep) -> str:
    """A step in words: a line for the whole, and one for each operation of a kernel."""
    if isinstance(step, Eqn):
        ins = ", ".join(a.aval.str_short(True) for a in step.invars)
        outs = ", ".join(v.aval.str_short(True) for v in step.outvars)
        word = "view" if step.primitive.kind is Kind.VIEW else "library"
        return f"{word} {step.primitive.name}({ins}) -> {outs}"
    # Inputs are in0, in1, ..., the names that operations below refer to.
    names: dict[object, str] = {}
    for v in step.inputs:
        names[v] = f"in{len(names)}"
    inputs = ", ".join(f"{names[v]}: {v.aval.str_short(True)}" for v in step.inputs)
    outputs = ", ".join(v.aval.str_short(True) for v in step.outputs)
    head = f"{step.name}({inputs}) -> {outputs}"
    if isinstance(step, Batch):
        head = f"{step.name}: {len(step.parts)} groups, each to its own arrays:"
    lines = [f"{head}    {step_bytes(step)} bytes"]
    lines += [f"    {text}" for _, text in operations(step, names)]
    return "\n".join(lines)


def _inlined_lines(group: FusedGroup, names: dict[object, str]) -> list[tuple[Eqn, str]]:
    """The equations inlined in a group, each as a line."""
    lines: list[tuple[Eqn, str]] = []
    for eqn in inlined_eqns(group):
        operands = [f"{a.val}" if isinstance(a, Literal) else names[a] for a in eqn.invars]
        # A view is no operation: it shows in the name, as in `in0.transpose`.
        if eqn.primitive.kind is Kind.VIEW:
            for v in eqn.outvars:
                names[v] = f"{operands[0]}.{eqn.primitive.name}"
            continue
        for v in eqn.outvars:
            names[v] = f"m{len(lines)}"
        lines.append((eqn, f"m{len(lines)} = {eqn.primitive.name}({', '.join(operands)})"))
    return lines


def operations(step: Kernel | FusedGroup, names: dict[object, str]) -> list[tuple[Eqn, str]]:
    """The operations of a kernel in execution order, each as a line; `names` are those of its
    inputs.
    """
    # All parts of a batch are alike, so the first represents them.
    group = step.parts[0] if isinstance(step, Batch) else group_in(step)
    lines = _inlined_lines(group, names)
    # A copy kernel: the last inlined line is its output.
    if group.copy_of is not None:
        if not lines:  # a view alone
            text = ", ".join(names[v] for v in group.inputs)
            lines.append((group.copy_of, f"{group.copy_of.primitive.name}({text})"))
        eqn, text = lines[-1]
        return [*lines[:-1], (eqn, f"{text}  => out")]
    # Other kernels: a line for each member, v0, v1, ..., with a number for each of several results.
    for number, member in enumerate(members_in_order(group)):
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
        kept = "  => out" if any(v in group.stored for v in member.eqn.outvars) else ""
        text = f"{member.eqn.primitive.name}({', '.join(operands)})"
        # A loop or a branch: its own line, then its body.
        inside: list[tuple[Eqn, str]] = []
        if flow is not None:
            (_, text), *inside = flow_lines(flow, operands)
        lines.append((member.eqn, f"{result} = {text}{kept}"))
        lines += inside
    return lines
