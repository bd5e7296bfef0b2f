"""Epilogues: elementwise work on the result of a scan or a sort joins its kernel.

Floor 3. In: the steps of a device, producers inlined. Out: the same, where a group that goes over
the elements of such a result in order becomes part of the kernel that makes it: `exp(cumsum(x))`
does not write the sums. The prologue of a scan or a sort is an inlined producer already.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.group import FusedGroup, Inner, Step
from gpuarray.compiler.fuse.merge import relabelled, view_order
from gpuarray.compiler.lower.costs import can_emit
from gpuarray.compiler.lower.scans import is_scan
from gpuarray.compiler.lower.steps import makers, sorted_steps, step_inputs, waits_for
from gpuarray.compiler.rewrite.sorted_places import kept_places
from gpuarray.compiler.rewrite.sorts import is_short_sort, takes_largest
from gpuarray.core.graph import Graph, Var
from gpuarray.core.target import TARGET


def fuse_epilogues(graph: Graph, steps: list[Step]) -> list[Step]:
    """The steps, with elementwise readers of scans and sorts in the kernels of these."""
    if not any(isinstance(s, FusedGroup) and _takes_epilogues(s) for s in steps):
        return steps
    whole: dict[int, Step] = dict(enumerate(steps))
    count = len(whole)
    maker = makers(whole)
    results = {a for a in graph.outvars if isinstance(a, Var)}
    for k, step in enumerate(steps):
        if not isinstance(step, FusedGroup) or not _takes_epilogues(step):
            continue
        # Readers in order: one that has joined may make the input of the next one.
        for other in sorted(whole):
            first, reader = whole[k], whole[other]
            if not isinstance(first, FusedGroup) or not isinstance(reader, FusedGroup):
                continue
            joined = _joined(first, reader) if other > k else None
            # A reader that needs this step through others as well would wait for itself.
            rest = (v for v in reader.inputs if v not in first.made)
            if joined is None or waits_for(rest, k, whole, maker):
                continue
            del whole[other]
            maker.update(dict.fromkeys(reader.outputs, k))
            whole[k] = joined
        # Values made for the epilogue alone are not written, nor are keys whose positions are
        # wanted.
        read = {v for n, s in whole.items() if n != k for v in step_inputs(s)} | results
        group = whole[k]
        assert isinstance(group, FusedGroup)
        outputs = tuple(v for v in group.outputs if v in read)
        if outputs and outputs != group.outputs:
            whole[k] = group.replace(outputs=outputs)
    if len(whole) == count:
        return list(whole.values())
    # Kernels with epilogues wait for the inputs of these.
    return sorted_steps(whole)


def _takes_epilogues(group: FusedGroup) -> bool:
    """Whether a group is a scan, or a sort that keeps all elements."""
    eqn = group.members[0].eqn
    whole = is_short_sort(eqn) and not takes_largest(eqn) and kept_places(eqn) is None
    return is_scan(eqn) or whole


def _joined(one: FusedGroup, reader: FusedGroup) -> FusedGroup | None:
    """A scan or a sort with a group that reads it as its epilogue; None if that is impossible."""
    # Only elementwise work: a reduction would need all elements of a row together.
    if not reader.is_fused or reader.reduced or reader.has_flow or reader.joined:
        return None
    if not can_emit(reader):
        return None
    mine = [x for x in reader.loads() if x.source in one.made]
    inside = [a for e in reader.inlined.values() for a in e.invars]
    # Inlined producers read memory, where the result of the scan is not yet.
    if not mine or any(a in one.made for a in inside):
        return None
    # Each axis of the reader is one of the scan, the same wherever it reads it.
    axis_of: dict[int, int] = {}
    inner: dict[int, Inner] = {}
    for load in mine:
        order = view_order(load.views, load.source.aval.ndim)
        if order is None:
            return None
        for theirs, o in zip(load.dims, order, strict=True):
            ours = None if o is None else one.made[load.source].dims[o]
            if theirs is None and ours is None:
                continue
            if theirs is None or ours is None or axis_of.setdefault(theirs, ours) != ours:
                return None
        inner[id(load)] = Inner(load.source, order)
    # Every axis of the one is an axis of the other, so each element is read where it is made.
    space = {d for d in one.members[0].dims if d is not None}
    if set(axis_of.values()) != space or len(axis_of) != len(space):
        return None
    # Along an axis that the scan lacks, each of its elements would be needed several times.
    if any(n != 1 and i not in axis_of for i, n in enumerate(reader.axes)):
        return None
    members = [relabelled(m, axis_of, inner) for m in reader.members]
    made = {v: m for m in members for v in m.eqn.outvars}
    # A thread writes the elements that it has: none may be shared by several of them.
    if any({d for d in made[v].dims if d is not None} != space for v in reader.outputs):
        return None
    read = [v for v in reader.inputs if v not in one.made]
    inputs = tuple(dict.fromkeys([*one.inputs, *read]))
    outputs = (*one.outputs, *reader.outputs)
    if len(inputs) + len(outputs) > TARGET.arguments:
        return None
    return one.replace(
        members=(*one.members, *members),
        inputs=inputs,
        outputs=outputs,
        inlined={**one.inlined, **reader.inlined},
    )
