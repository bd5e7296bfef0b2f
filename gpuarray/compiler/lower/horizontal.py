"""Fuse horizontally: many small groups that do the same to different arrays become one kernel.

Floor 3. In: the steps of a plan for a device. Out: the same steps, with independent groups of one
structure merged into a `Batch`: an optimizer's update of all parameters is one launch. What it
costs to compile such a kernel does not depend on how many groups there are.
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import FusedGroup, Inner, Load, Step, members_in_order
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.kernel import Batch, DeviceStep
from gpuarray.compiler.lower.steps import sorted_steps, step_inputs, step_outputs
from gpuarray.core.graph import Eqn, Literal, Var, params_key, storage_dtype
from gpuarray.core.index import view_rule
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET


def fuse_horizontally(steps: list[Step]) -> list[DeviceStep]:
    """The steps, with small groups of one structure as one step each."""
    # 1. Groups of one structure that are equally far from the end.
    alike: dict[tuple, list[int]] = {}
    rank = _ranks(steps)
    for number, step in enumerate(steps):
        if isinstance(step, FusedGroup) and (structure := structure_of(step)) is not None:
            # Steps as far from the end as one another are independent.
            alike.setdefault((rank[number], structure), []).append(number)
    chosen = [numbers for numbers in alike.values() if len(numbers) >= TARGET.fewest_alike]
    if not chosen:
        return [*steps]
    # 2. Each list of them becomes one step, in the place of the last.
    whole: dict[int, DeviceStep] = dict(enumerate(steps))
    for numbers in chosen:
        chosen_groups = [whole.pop(k) for k in numbers]
        whole[numbers[-1]] = _batch([g for g in chosen_groups if isinstance(g, FusedGroup)])
    # 3. Order again: readers of the first groups now wait for the last.
    return sorted_steps(whole)


def _batch(parts: list[FusedGroup]) -> Batch:
    members = tuple(m for p in parts for m in p.members)
    inputs = dict.fromkeys(v for p in parts for v in p.inputs)
    outputs = tuple(v for p in parts for v in p.outputs)
    # The batch as one group, for what asks for all members, inputs and outputs.
    axes = (sum(math.prod(p.axes) for p in parts),)
    whole = FusedGroup(axes, members=members, outputs=outputs, inputs=tuple(inputs))
    return Batch(Accesses(whole), "", tuple(parts))


def _ranks(steps: list[Step]) -> list[int]:
    """For each step, the length of the longest chain of steps that need it. Views do not count."""
    behind: dict[Var, int] = {}
    ranks = [0] * len(steps)
    # From the end: a step's readers come after it, so their ranks are known.
    for k in reversed(range(len(steps))):
        step = steps[k]
        rank = ranks[k] = max((behind.get(v, 0) for v in step_outputs(step)), default=0)
        is_view = isinstance(step, Eqn) and step.primitive.kind is Kind.VIEW
        for v in step_inputs(step):
            # A view is only a way to read its operand: it adds nothing to the rank.
            behind[v] = max(behind.get(v, 0), rank if is_view else rank + 1)
    return ranks


# ---- structure ----


def structure_of(group: FusedGroup) -> tuple | None:
    """What a group does to its elements, without its sizes; None for groups that are more than a
    pass over arrays which lie in memory alike, or that are large.
    """
    size = math.prod(group.axes)
    # Only pointwise work on memory as it lies has text that does not depend on sizes.
    if group.reduced or group.has_flow or group.inlined or not group.outputs:
        return None
    if not group.is_fused:  # a scan or a sort of its own
        return None
    if not 0 < size <= TARGET.small_group:
        return None
    # All outputs have all axes, in one order: elements then have one number, counted in memory.
    order = _axes(group.made[group.outputs[0]].dims)
    if len(order) != len(group.axes):
        return None
    if any(_axes(group.made[v].dims) != order for v in group.outputs):
        return None
    # Inputs and values are numbered in order of first use, so equal rows mean equal text.
    number: dict[Var, int] = {}
    values: dict[Var, int] = {}
    rows: list[tuple] = []
    for member in members_in_order(group):
        # Values go by number: groups of other arrays compare equal.
        row: list = [member.eqn.primitive, params_key(member.eqn.params)]
        for o in member.operands:
            if isinstance(o, Literal):
                row.append(o.key)
            elif isinstance(o, Inner):
                row.append(values[o.var])
            else:
                kind = _access_kind(o, order)
                if kind is None:
                    # Another view or order of memory: its positions are not the result's.
                    return None
                k = number.setdefault(o.source, len(number))
                row.append((kind, k, storage_dtype(o.source.aval)))
        for v in member.eqn.outvars:
            values[v] = len(values)
            row.append(v.aval.dtype)
        rows.append(tuple(row))
    return tuple(rows), tuple(values[v] for v in group.outputs)


def _axes(dims) -> tuple[int, ...]:
    return tuple(d for d in dims if d is not None)


def _access_kind(load: Load, order: tuple[int, ...]) -> str | None:
    """Whether a load is an element at the same place as the result's, or one number for all."""
    if load.source.aval.size == 1:
        return "one"
    if _axes(load.dims) != order or not all(view_rule(v).keeps_order(v) for v in load.views):
        return None
    return "each"


def arrays_of(group: FusedGroup) -> list[Var]:
    """What a part reads, each once, then what it writes, in an order that its structure decides."""
    # Order of first use, so parts of one structure have the same arrays at the same place.
    read: dict[Var, None] = {}
    for member in members_in_order(group):
        read.update((o.source, None) for o in member.operands if isinstance(o, Load))
    return [*read, *group.outputs]


def is_one(load: Load) -> bool:
    """Whether all elements of a part read the same number."""
    return load.source.aval.size == 1
