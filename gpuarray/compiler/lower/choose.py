"""Choose the loop form of a group: how threads share the work.

Floor 3. In: a FusedGroup. Out: a Kernel, or NoKernel with the reason. The choice depends only on
shapes, dtypes and memory order, so the same graph gets the same kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from gpuarray.compiler.fuse.group import FusedGroup, Load
from gpuarray.compiler.lower.accesses import Accesses
from gpuarray.compiler.lower.collapse import collapse
from gpuarray.compiler.lower.kernel import (
    Columns,
    DeviceStep,
    Kernel,
    Map,
    NoKernel,
    RegisterLoop,
    RowColumns,
    Rows,
    Scan,
    Scatter,
    Sort,
    Sweep,
    Tables,
    Tiles,
    Top,
    User,
)
from gpuarray.compiler.lower.online import join_passes
from gpuarray.compiler.lower.passes import axis_order, shares, split_passes
from gpuarray.compiler.lower.row_columns import is_column_fold
from gpuarray.compiler.lower.scans import is_scan
from gpuarray.compiler.lower.user import is_custom
from gpuarray.compiler.rewrite.sorts import is_long_top, is_short_sort
from gpuarray.compiler.rewrite.sweep import is_sweep
from gpuarray.compiler.rewrite.tables import is_table
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.index import Index, axes_of
from gpuarray.core.target import TARGET


def choose_forms(steps: Iterable[DeviceStep]) -> list[DeviceStep]:
    """The steps, with a kernel for each group that can have one."""
    return named([_kernel_or(s) if isinstance(s, FusedGroup) else s for s in steps])


def _kernel_or(group: FusedGroup) -> DeviceStep:
    try:
        return kernel_of(group)
    except NoKernel:  # `emit` raises it again, with the reason
        return group


def named(steps: Iterable[DeviceStep]) -> list[DeviceStep]:
    """The steps, each kernel named by its place among them and its form: the same graph gives the
    same names.
    """
    number, made = itertools.count(), []
    for step in steps:
        # Single equations have no name: they run as routines of libraries.
        if not isinstance(step, Eqn):
            step = step.replace(name=f"k{next(number)}_{form_of(step)}")
        made.append(step)
    return made


def form_of(step: Kernel | FusedGroup) -> str:
    """The form of a kernel, or the one that a group would have, for its name if it has no
    kernel.
    """
    if isinstance(step, Kernel):
        return step.form
    group = step
    if group.has_flow:
        return RegisterLoop.form
    if not group.reduced:
        return Map.form
    try:
        # The same test as in `_reduction`, but without the kernel's other conditions.
        return Columns.form if Accesses(group).run_along_columns() else Rows.form
    except NoKernel:  # a dtype that no kernel has
        return Rows.form


def kernel_of(group: FusedGroup, name: str = "kernel") -> Kernel:
    """The kernel of a group."""
    accesses = Accesses(group)
    # Loops go over the axes that their members name; all else over as few as possible.
    if group.has_flow:
        return RegisterLoop(accesses, name)
    if group.reduced and not group.is_fused:
        return _row_columns(collapse(accesses), name)
    if not group.is_fused:
        return _special(group)(accesses, name)
    # Fewer axes mean fewer divisions, and more loads that one vector access serves.
    accesses = collapse(accesses)
    return (_reduction if group.reduced else _pointwise)(accesses, name)


def _special(group: FusedGroup) -> type[Kernel]:
    """The form of a group whose first equation is not computed element by element."""
    member = group.members[0]
    if is_custom(member.eqn):
        return User
    if is_sweep(member.eqn):
        return Sweep
    if is_table(member.eqn):
        return Tables
    if is_scan(member.eqn):
        return Scan
    if is_short_sort(member.eqn):
        return Sort
    return Top if is_long_top(member.eqn) else Scatter


# ---- reductions ----


def _reduction(accesses: Accesses, name: str) -> Kernel:
    group, axes = accesses.group, accesses.axes
    # Threads share a row, so their results have to be merged.
    passes = split_passes(group, shares)
    if passes is None:
        raise NoKernel("a reduction without a Fold cannot be split over threads")
    rows = math.prod(axes[i] for i in group.parallel)
    length = math.prod(axes[i] for i in group.reduced)
    # Neighbouring threads should read neighbouring elements: that decides between the two forms.
    if accesses.run_along_columns():
        return Columns(accesses, name, tuple(passes), rows, length)
    # Blocks can share a row only if nothing waits for its result.
    joined = join_passes(group, passes)
    single = len(joined) == 1 and not joined[0].stored
    # Fewer rows than multiprocessors, and each of them long enough to be worth sharing.
    shared = single and rows < TARGET.full_grid // 2 and length > TARGET.long_row
    return Rows(accesses, name, tuple(passes), rows, length, shared)


def _row_columns(accesses: Accesses, name: str) -> Kernel:
    group, axes = accesses.group, accesses.axes
    passes = split_passes(group, shares)
    assert passes is not None  # row_columns.py has checked it
    rows = math.prod(axes[i] for i in group.parallel)
    length = math.prod(axes[i] for i in group.reduced)
    slots = next(m.eqn.params["slots"] for m in group.members if is_column_fold(m.eqn))
    return RowColumns(accesses, name, tuple(passes), rows, length, False, slots)


# ---- pointwise work ----


def loop_order(accesses: Accesses) -> list[int]:
    """The axes that threads go over, from the slowest to the fastest in memory."""
    # A collapsed axis of length 1 is part of another one: no loop runs along it.
    gone = [i for i in accesses.collapsed if accesses.axes[i] == 1]
    return [i for i in axis_order(accesses.group) if i not in gone]


def _pointwise(accesses: Accesses, name: str) -> Kernel:
    axes, order = accesses.axes, loop_order(accesses)
    # All values are contiguous along the same axis: threads go along it. Otherwise tiles transpose
    # some.
    crossing = _crossing_axes(accesses, order)
    if crossing is None:
        return Map(accesses, name, tuple(order))
    x, y = crossing
    if min(axes[x], axes[y]) < TARGET.short_run:
        # Where one of the two is short, its neighbours are near enough in both.
        short = min(crossing, key=lambda a: axes[a])
        return Map(accesses, name, (*(a for a in order if a != short), short))
    # The tile's axes come last: x is contiguous in most values, y in the others.
    return Tiles(accesses, name, (*(a for a in order if a not in (x, y)), y, x), y, x)


def values_of(accesses: Accesses) -> list[tuple[Load | Var, Index]]:
    """The values read directly from memory, and those written: each once, with its index."""
    read = [x for x in accesses.loads() if not accesses.is_inlined(x)]
    found: list[tuple[Load | Var, Index]] = [(x, accesses.load_index(x)) for x in read]
    return found + [(v, accesses.output_index(v)) for v in accesses.group.stored]


def _crossing_axes(accesses: Accesses, order: list[int]) -> tuple[int, int] | None:
    """The axis along which most bytes are contiguous, and the next one along which values that
    depend on both are; None if all values are contiguous along the same one.
    """
    nbytes: dict[int, int] = {}
    # Axes with stride 1, by the bytes contiguous along them; and the pairs that occur in one value.
    pairs: set[tuple[int, int]] = set()
    for value, index in values_of(accesses):
        depends = axes_of(index)
        # A value along one axis alone is contiguous for every thread: no reason for tiles.
        for axis in depends if len(depends) > 1 else ():
            if index.coefficient(axis) == 1:
                aval = value.source.aval if isinstance(value, Load) else value.aval
                nbytes[axis] = nbytes.get(axis, 0) + aval.nbytes
                pairs |= {(other, axis) for other in depends if other != axis}
    # Ties: the axis that is fastest in the loop order goes first.
    ranked = sorted(nbytes, key=lambda a: (-nbytes[a], -order.index(a)))
    return next(((ranked[0], y) for y in ranked[1:] if (ranked[0], y) in pairs), None)
