"""Write results directly into a stack: for values of one kernel that are read only that way.

Floor 3. In: the steps of a device, producers not inlined yet. Out: the same, where a group whose
results are stacked, and not read otherwise, writes each into its place in the stack. So the
components of vectors, or the entries of matrices, are never in memory separately.
"""

from __future__ import annotations

from collections import Counter

from gpuarray.compiler.fuse.group import FusedGroup, Part, Step
from gpuarray.compiler.lower.choose import kernel_of
from gpuarray.compiler.lower.costs import can_emit
from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.target import TARGET


def write_side_by_side(graph: Graph, steps: list[Step]) -> list[Step]:
    """The steps, with stacks written by the groups that make their operands."""
    stacks = [s for s in steps if isinstance(s, Eqn) and s.primitive.rewrite.joins is not None]
    if not stacks:
        return steps
    index = GraphIndex(graph)
    maker = {v: k for k, s in enumerate(steps) if isinstance(s, FusedGroup) for v in s.outputs}
    made: list[Step | None] = [*steps]
    for stack in stacks:
        makers = {maker.get(a) if isinstance(a, Var) else None for a in stack.invars}
        # Each operand is a result of the same group.
        number = makers.pop()
        if makers or number is None:
            continue
        group = made[number]
        assert isinstance(group, FusedGroup)
        joined = _joined(group, stack, index)
        if joined is not None:
            made[number], made[steps.index(stack)] = joined, None
    return [s for s in made if s is not None]


def _joined(group: FusedGroup, stack: Eqn, index: GraphIndex) -> FusedGroup | None:
    """A group that writes its results into a stack of them; None if that is impossible, or if they
    are so cheap that the stack's kernel recomputes those that it needs.
    """
    joins, (whole,) = stack.primitive.rewrite.joins, stack.outvars
    parts = [a for a in stack.invars if isinstance(a, Var)]
    assert joins is not None
    if whole.aval.ndim == parts[0].aval.ndim or len(parts) > TARGET.side_by_side:
        return None
    work = sum(m.weight for m in group.members)
    alone = group.reduced or group.has_flow  # no element of it is computed elsewhere
    if not alone and work <= TARGET.repeated:
        return None
    if not group.is_fused or not can_emit(group):
        return None
    # They must have no other readers except the group itself.
    read = Counter(a for m in group.members for a in m.eqn.invars if isinstance(a, Var))
    if any(index.uses[v] != read[v] + 1 for v in parts):
        return None
    axis = joins(stack)
    left = [v for v in group.outputs if v not in parts]
    joined = group.replace(
        outputs=(*left, whole),
        joined={**group.joined, **{v: Part(whole, axis, k) for k, v in enumerate(parts)}},
    )
    try:
        kernel_of(joined)
    except NoKernel:
        return None
    return joined
