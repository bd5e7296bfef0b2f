"""Tables of updates as groups, and those over the same targets as one.

Floor 3. In: the equations that rewrite/tables.py made. Out: groups whose axes are those of the
updates; cuda/tables.py writes the kernels. Sums of rows and how many there are read the numbers of
their segments once.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.group import FusedGroup, Load, Member, Operand, Step, group_of
from gpuarray.compiler.lower.steps import makers, sorted_steps, waits_for
from gpuarray.compiler.rewrite.tables import is_table, table_bytes
from gpuarray.compiler.rewrite.updates import updates_of
from gpuarray.core.graph import Eqn, Literal
from gpuarray.core.target import TARGET


def table_group(eqn: Eqn) -> FusedGroup:
    """A table as a group: its axes are those of the updates."""
    shape = updates_of(eqn.params["of"]).aval.shape
    # Operands are addressed by computed indices, so loads run along none of the axes.
    operands: list[Operand] = [
        a if isinstance(a, Literal) else Load(a, (), (None,) * a.aval.ndim, a.aval.shape)
        for a in eqn.invars
    ]
    return group_of(Member(eqn, operands, (), ()), shape, eqn.outvars)


def join_tables(steps: list[Step]) -> list[Step]:
    """The steps, with tables of updates at the same targets in one kernel."""
    tables: dict[tuple, list[int]] = {}
    for k, step in enumerate(steps):
        if isinstance(step, FusedGroup) and is_table(eqn := step.members[0].eqn):
            tables.setdefault((eqn.invars[0], eqn.params["tables"]), []).append(k)
    if all(len(alike) == 1 for alike in tables.values()):
        return steps
    whole: dict[int, Step] = dict(enumerate(steps))
    for first, *others in tables.values():
        for other in others:
            one, two = whole[first], whole[other]
            assert isinstance(one, FusedGroup) and isinstance(two, FusedGroup)
            maker = makers(whole)
            apart = waits_for(one.inputs, other, whole, maker)
            apart = apart or waits_for(two.inputs, first, whole, maker)
            joined = None if apart else _joined(one, two)
            if joined is not None:
                whole[first] = joined
                del whole[other]
    return sorted_steps(whole)


def _joined(one: FusedGroup, two: FusedGroup) -> FusedGroup | None:
    """Two groups as one; None if their updates are arranged differently, or their tables are
    large.
    """
    short, long = sorted((one.axes, two.axes), key=len)
    size = sum(
        table_bytes(m.eqn.params["of"].outvars[0].aval) for g in (one, two) for m in g.members
    )
    # Scalars with rows: those of the shorter one run along the first axes of the other.
    if long[: len(short)] != short or size > TARGET.table_bytes:
        return None
    return FusedGroup(
        long,
        members=(*one.members, *two.members),
        outputs=(*one.outputs, *two.outputs),
        inputs=tuple(dict.fromkeys([*one.inputs, *two.inputs])),
        inlined={**one.inlined, **two.inlined},
    )
