"""The inputs, outputs and costs of a step.

Floor 3. In: a step of a plan. Out: its values, its equations, and how many bytes and operations
they take.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from gpuarray.compiler.fuse.group import FusedGroup, members_in_order
from gpuarray.compiler.fuse.order import in_order
from gpuarray.compiler.lower.kernel import Batch, DeviceStep, Kernel, Scatter
from gpuarray.core.element_rules import rule_of
from gpuarray.core.graph import Atom, Eqn, Var, storage_dtype
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind


def step_inputs(step: DeviceStep) -> list[Var]:
    """The values a step reads."""
    if isinstance(step, Eqn):
        return [a for a in step.invars if isinstance(a, Var)]
    return list(step.inputs)


def step_outputs(step: DeviceStep) -> list[Var]:
    """The values that a step writes."""
    return step.outvars if isinstance(step, Eqn) else list(step.outputs)


def step_eqns(step: DeviceStep) -> list[Eqn]:
    """The equations in a step."""
    if isinstance(step, Eqn):
        return [step]
    group = group_in(step)
    # An inlined view costs nothing.
    inlined = [e for e in inlined_eqns(group) if e.primitive.kind is not Kind.VIEW]
    if group.copy_of is not None:
        # A copy kernel computes its inlined equations; its member only moves the result.
        return inlined or [group.copy_of]
    return [*inlined, *(m.eqn for m in members_in_order(group))]


def named_operations(step: DeviceStep) -> str:
    """The names of the operations in a step, each once, with its number of occurrences."""
    counts = Counter(e.primitive.name for e in step_eqns(step))
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts.items())


def contiguous_view(step: DeviceStep) -> tuple[Var, Atom, int] | None:
    """A view in the memory of its operand: its result, its operand, and the offset in elements."""
    if not isinstance(step, Eqn) or len(step.outvars) != 1 or len(step.invars) != 1:
        return None
    (v,), (a,) = step.outvars, step.invars
    if storage_dtype(v.aval) != storage_dtype(a.aval):
        return None
    # Not a view, but its result has the bytes of its operand, such as a key made of its words.
    if step.primitive.same_bytes:
        return v, a, 0
    offset = contiguous_offset(step) if step.primitive.kind is Kind.VIEW else None
    return None if offset is None else (v, a, offset)


def group_in(step: Kernel | FusedGroup) -> FusedGroup:
    """The group that a kernel computes."""
    return step.group if isinstance(step, Kernel) else step


def inlined_values(step: DeviceStep) -> list[Var]:
    """The values that a step computes where it reads them, instead of reading them from memory."""
    if isinstance(step, Eqn):
        return []
    groups = step.parts if isinstance(step, Batch) else [group_in(step)]
    return [v for group in groups for v in group.inlined]


# ---- steps by their numbers, while a pass puts some of them together ----

_Some = TypeVar("_Some", bound=DeviceStep)


def makers(steps: Mapping[int, DeviceStep]) -> dict[Var, int]:
    """The number of the step that makes each value."""
    return {v: k for k, s in steps.items() for v in step_outputs(s)}


def sorted_steps(steps: Mapping[int, _Some]) -> list[_Some]:
    """Steps, each after those it needs, and otherwise by their numbers."""
    maker = makers(steps)
    needs = {k: {maker[v] for v in step_inputs(s) if v in maker} - {k} for k, s in steps.items()}
    return [steps[k] for k in in_order(sorted(steps), needs.__getitem__)]


def waits_for(
    reads: Iterable[Var], number: int, steps: Mapping[int, DeviceStep], maker: Mapping[Var, int]
) -> bool:
    """Whether one of these values depends on step `number`."""
    waiting = [maker[v] for v in reads if v in maker]
    seen: set[int] = set()
    while waiting:
        k = waiting.pop()
        if k == number:
            return True
        if k not in seen:
            seen.add(k)
            waiting += [maker[v] for v in step_inputs(steps[k]) if v in maker]
    return False


# ---- costs ----


def step_work(step: DeviceStep) -> float:
    """Multiply-adds, roughly."""
    total, most = 0.0, _most_inlined(step)
    for eqn in step_eqns(step):
        # Library routines know their work; for others the larger number of elements read or written
        # counts, and for an update in place that of the updates.
        if eqn.primitive.kind is Kind.VIEW:
            continue
        if eqn.primitive.work is not None:
            total += eqn.primitive.work([a.aval for a in eqn.invars], **eqn.params)
            continue
        read, made = _elements_read(eqn), [v.aval.size for v in eqn.outvars]
        if isinstance(step, Scatter) and eqn.primitive.update is not None:
            read, made = [eqn.invars[eqn.primitive.update.operand].aval.size], []
        # An inlined producer is computed for no more elements than are read of it.
        total += eqn.primitive.weight * min(max((*read, *made), default=0), most.get(eqn, math.inf))
    return total


def _most_inlined(step: DeviceStep) -> dict[Eqn, int]:
    """For each inlined equation, how many elements of its results the kernel needs at most."""
    if isinstance(step, Eqn):
        return {}
    group = group_in(step)
    eqns = inlined_eqns(group)
    # An element of the space takes several of an operand that is folded or searched through.
    times = (rule.times(e) for e in eqns if (rule := rule_of(e)) is not None)
    most = math.prod(group.axes) * max(times, default=1)
    return dict.fromkeys(eqns, most)


def step_bytes(step: DeviceStep) -> int:
    """Bytes a step reads and writes."""
    if isinstance(step, Eqn):
        return 0 if step.primitive.kind is Kind.VIEW else eqn_bytes(step)
    return sum(v.aval.nbytes for v in (*step.inputs, *step.outputs))


def eqn_bytes(eqn: Eqn) -> int:
    """Bytes that an equation reads and writes as a separate step."""
    return eqn_reads(eqn) + sum(v.aval.nbytes for v in eqn.outvars)


def eqn_reads(eqn: Eqn) -> int:
    """Bytes that an equation reads as a separate step: for a gather the elements it picks."""
    found: dict[Var, int] = {}
    for a, count in zip(eqn.invars, _elements_read(eqn), strict=True):
        if isinstance(a, Var):
            # An operand read twice comes from memory once.
            found[a] = max(found.get(a, 0), count * storage_dtype(a.aval).itemsize)
    return sum(found.values())


def _elements_read(eqn: Eqn) -> list[int]:
    """How many elements an equation reads of each operand."""
    rule, found = rule_of(eqn), []
    for i, a in enumerate(eqn.invars):
        count = None if rule is None else rule.reads_of(eqn, i)
        found.append(a.aval.size if count is None else min(count, a.aval.size))
    return found


def inlined_eqns(group: FusedGroup) -> list[Eqn]:
    """The producers that a group computes where it reads them, each after those it needs."""
    order: dict[int, Eqn] = {}
    # The equations of each load, dependences first; without recursion, as chains are long.
    for v in (x.source for x in (*group.loads(), *(x for x, _ in group.streamed()))):
        waiting = [v]
        while waiting:
            eqn = group.inlined.get(waiting[-1])
            needed = (
                []
                if eqn is None or id(eqn) in order
                else [
                    a
                    for a in eqn.invars
                    if isinstance(a, Var)
                    and a in group.inlined
                    and id(group.inlined[a]) not in order
                ]
            )
            if needed:
                # Reversed, since the last one put on the stack is computed first: operands from
                # left to right.
                waiting += needed[::-1]
                continue
            waiting.pop()
            if eqn is not None:
                order.setdefault(id(eqn), eqn)
    return list(order.values())
