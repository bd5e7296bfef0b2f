"""Fuse horizontally: many groups that do the same to different arrays become one kernel.

Floor 3. In: the steps of a plan for a device. Out: the same steps, with independent groups of one
structure merged into a `Batch`: an optimizer's update of all parameters is one launch, and so are
the norms of all gradients. The compile time of such a kernel does not depend on the number of
groups.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from gpuarray.compiler.fuse.group import (
    Dims,
    FusedGroup,
    Inner,
    Load,
    Member,
    Operand,
    Step,
    members_in_order,
)
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.kernel import Batch, DeviceStep
from gpuarray.compiler.lower.passes import (
    Pass,
    axis_order,
    once_each,
    one_pass,
    shares,
    split_passes,
)
from gpuarray.compiler.lower.steps import inlined_eqns, sorted_steps, step_inputs, step_outputs
from gpuarray.compiler.rewrite.simplify import is_elementwise
from gpuarray.core.graph import Atom, Eqn, Literal, Var, params_key, storage_dtype
from gpuarray.core.index import view_rule
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET


def fuse_horizontally(steps: list[Step], largest: int = 2**31 - 1) -> list[DeviceStep]:
    """Merge groups of one structure, of at most this many elements, into one step each."""
    # 1. Groups of one structure that are equally far from the end.
    alike: dict[tuple, dict[int, FusedGroup]] = {}
    rank = _ranks(steps)
    for number, step in enumerate(steps):
        plain = _with_producers(step) if isinstance(step, FusedGroup) else None
        if plain is None or math.prod(plain.axes) > largest:  # by default what 32 bits can index
            continue
        if (structure := structure_of(plain)) is not None:
            # Steps as far from the end as one another are independent.
            alike.setdefault((rank[number], structure), {})[number] = plain
    chosen = [groups for groups in alike.values() if len(groups) >= TARGET.fewest_alike]
    if not chosen:
        return [*steps]
    # 2. Each list of them becomes one step, in the place of the last.
    whole: dict[int, DeviceStep] = dict(enumerate(steps))
    for groups in chosen:
        for k in groups:
            del whole[k]
        whole[max(groups)] = _batch([*groups.values()])
    # 3. Order again: readers of the first groups now wait for the last.
    return sorted_steps(whole)


def _with_producers(group: FusedGroup) -> FusedGroup | None:
    """The group with its inlined producers as members; None if these do more than compute each
    element from those at the same position.
    """
    if not group.inlined:
        return group
    if group.copy_of is not None:
        return None
    # The axes of producers: those of their readers.
    producers = inlined_eqns(group)
    dims: dict[Var, Dims] = {}
    # Loads of producers' results have to agree on the axes, and read each element at its own
    # position.
    for load in group.loads():
        if load.source in group.inlined:
            if load.views or dims.setdefault(load.source, load.dims) != load.dims:
                return None
    # In reverse order, so that the axes of a value's readers are known before its own are needed.
    for eqn in reversed(producers):
        (v,) = eqn.outvars if is_elementwise(eqn) else (None,)
        if v is None or any(a.aval.shape not in ((), v.aval.shape) for a in eqn.invars):
            return None
        for a in eqn.invars:
            if isinstance(a, Var):
                own = dims[v] if a.aval.shape else ()
                if dims.setdefault(a, own) != own:
                    return None

    def operand(a: Atom) -> Operand:
        if isinstance(a, Literal):
            return a
        if a in group.inlined:
            return Inner(a, tuple(range(a.aval.ndim)))
        return Load(a, (), dims[a], a.aval.shape)

    # Producers first: members are in order, each after its inputs.
    members = [
        Member(e, [operand(a) for a in e.invars], dims[e.outvars[0]], dims[e.outvars[0]])
        for e in producers
    ]
    for m in group.members:
        inside = [operand(o.source) if _is_made(o, group) else o for o in m.operands]
        members.append(Member(m.eqn, inside, m.space, m.dims, m.flow))
    inputs = dict.fromkeys(o.source for m in members for o in m.operands if isinstance(o, Load))
    return group.replace(members=tuple(members), inputs=tuple(inputs), inlined={})


def _is_made(o: Operand, group: FusedGroup) -> TypeGuard[Load]:
    return isinstance(o, Load) and o.source in group.inlined


def _batch(parts: list[FusedGroup]) -> Batch:
    members = tuple(m for p in parts for m in p.members)
    inputs = dict.fromkeys(v for p in parts for v in p.inputs)
    outputs = tuple(v for p in parts for v in p.outputs)
    # The batch as one group, for users of all members, inputs and outputs.
    axes = (sum(math.prod(p.axes) for p in parts),)
    whole = FusedGroup(axes, members=members, outputs=outputs, inputs=tuple(inputs))
    (only,) = passes_of(parts[0])
    return Batch(Accesses(whole), "", tuple(parts), only)


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
    """A group's operations without its sizes; None for groups that are more than one pass over
    arrays with the same memory layout.
    """
    # Only work on arrays in memory has text that does not depend on sizes.
    if group.has_flow or group.inlined or group.joined or not group.outputs:
        return None
    if not group.is_fused:  # a scan or a sort
        return None
    if not math.prod(group.axes):
        return None
    # Reductions must be over all elements, and the results must not be broadcast over them again.
    if group.reduced and (len(group.reduced) < len(group.axes) or not _is_one_pass(group)):
        return None
    # All arrays have all axes, in one order: elements then have one number, counted in memory.
    # Results of reductions are scalars.
    order = tuple(axis_order(group))
    single = () if group.reduced else order
    if any(_axes(group.made[v].dims) not in (order, single) for v in group.outputs):
        return None
    # Inputs and values are numbered in order of first use, so equal rows mean equal text.
    number: dict[Var, int] = {}
    values: dict[Var, int] = {}
    rows: list[tuple] = []
    for member in members_in_order(group):
        # Values go by number: groups of other arrays compare equal.
        # Which axes are reduced is a matter of sizes: all are, or each has one element.
        params = {k: p for k, p in member.eqn.params.items() if not _reduces(member) or k != "axes"}
        row: list = [member.eqn.primitive, params_key(params)]
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


def passes_of(group: FusedGroup) -> list[Pass]:
    """The passes of a group over its arrays, each output written by the first that has it."""
    if not group.reduced:
        return one_pass(group)
    passes = split_passes(group, shares)
    return [] if passes is None else once_each(group, passes, lambda _: False, early=True)


def _is_one_pass(group: FusedGroup) -> bool:
    """Whether a group reduces its arrays by folds in one pass. Folds that need an element's
    position require row-major memory.
    """
    folds = [m.eqn.primitive.fold for m in group.members if _reduces(m)]
    order = axis_order(group)
    counted = order == sorted(order) or not any(f is not None and f.takes_positions for f in folds)
    return counted and len(passes_of(group)) == 1


def _reduces(member: Member) -> bool:
    return member.eqn.primitive.kind is Kind.REDUCTION


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
    """A part's inputs, each once, then its outputs, in an order determined by its structure."""
    # Order of first use, so parts of one structure have the same arrays at the same position.
    read: dict[Var, None] = {}
    for member in members_in_order(group):
        read.update((o.source, None) for o in member.operands if isinstance(o, Load))
    return [*read, *group.outputs]


def is_one(load: Load) -> bool:
    """Whether all elements of a part read the same number."""
    return load.source.aval.size == 1
