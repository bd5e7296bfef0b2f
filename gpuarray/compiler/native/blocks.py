"""Elements that depend on no others: block by block, so that each stays in the first caches.

Floor 3. In: the plans of a loop's body and condition; or consecutive steps. Out: the number of a
loop's elements, if each iteration computes element i of every long value from elements i alone, and
from short values that are the same for all: each block can then run all its iterations before the
next block. And the number of steps that compute element i of their results from elements i of one
another's: each block can go through all of them before the next. Blocks are distributed over
threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuarray.compiler.lower.choose import loop_order
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel, Map, Rows
from gpuarray.compiler.lower.steps import (
    contiguous_view,
    step_inputs,
    step_outputs,
    step_work,
)
from gpuarray.core.element import sources
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.index import Index
from gpuarray.core.target import PROCESSOR


class TaskCall(NamedTuple):
    """A call of a function for its tasks, of which a thread takes `grain` at a time."""

    function: str
    tasks: int
    grain: int
    arguments: Sequence[str]


def independent_elements(
    loop: Loop, plans: Iterable[tuple[Any, Sequence[DeviceStep], range]]
) -> int | None:
    """The number of independent elements of a loop; None if they depend on one another.

    Parameters
    ----------
    plans :
        Of the body and of the condition, the steps in each iteration, and which of the inputs are
        carries.
    """
    avals = loop.body.out_avals
    length = max((a.size for a in avals), default=0)
    rows = avals[len(loop.carry) :]
    # With only a block or two there is no gain, and rows of other lengths are not elements of the
    # loop.
    if length < 2 * PROCESSOR.block or any(a.size != length for a in rows):
        return None
    for plan, steps, carry in plans:
        # Values with an element for each of the loop: they spread from the carries through the
        # steps.
        long = {plan.graph.invars[i] for i in carry if plan.graph.invars[i].aval.size == length}
        if not all(_takes(step, long, length) for step in steps):
            return None
    return length


def _takes(step: DeviceStep, long: set[Var], length: int) -> bool:
    """Whether a step is elementwise on long values, or works on short ones; records its results."""
    outs = step_outputs(step)
    if isinstance(step, Eqn):
        # A view of all of a value is that value.
        if contiguous_view(step) and step.invars[0] in long and outs[0].aval.size == length:
            long.update(outs)
            return True
        few = all(v.aval.size < PROCESSOR.inlined for v in outs)
        return few and step.primitive.flow is None and long.isdisjoint(step.invars)
    if not isinstance(step, Kernel):
        return False
    read = long.intersection(step.inputs)
    if all(v.aval.size != length for v in outs):
        return not read and step_work(step) <= PROCESSOR.inlined
    if not isinstance(step, Map) or [step.accesses.axes[i] for i in step.order] != [length]:
        return False
    # Positions along the loop are positions in the results.
    if any(v.aval.size != length for v in outs):
        return False
    # Values of other elements would be those of another iteration.
    if not _reads_only_at(step, step.accesses.position_along(step.order), long):
        return False
    long.update(outs)
    return True


def _reads_only_at(kernel: Kernel, here: Index, values: set[Var]) -> bool:
    """Whether a kernel reads of some values the elements at its own position alone."""
    for load in kernel.accesses.loads():
        found = kernel.accesses.elements_of(load)
        if any(v in values and index != here for v, index in found):
            return False
        if kernel.accesses.is_inlined(load):
            # Through an address any element may be read.
            addressed = {*sources(kernel.accesses.of(load))} - {v for v, _ in found}
            if not values.isdisjoint(addressed):
                return False
    return True


def one_after_another(steps: Sequence[DeviceStep]) -> int:
    """How many steps, from the first on, compute element i of their results from elements i of
    results of the steps before them, and have more elements than the near caches hold.
    """
    made: set[Var] = set()
    length = 0
    for count, step in enumerate(steps):
        here = _own_position(step)
        if here is None:
            return count
        assert isinstance(step, Kernel)
        outs = step_outputs(step)
        if count == 0:
            length = outs[0].aval.size
            # Short values stay in the caches anyway.
            if length < 4 * PROCESSOR.chained:
                return 0
        elif made.isdisjoint(step.inputs) or not _reads_only_at(step, here, made):
            return count
        # Results in another order would be other elements for the next step.
        if any(v.aval.size != length or step.accesses.output_index(v) != here for v in outs):
            return count
        made.update(outs)
    return len(steps)


def _own_position(step: DeviceStep) -> Index | None:
    """The position that a task of a kernel computes, if it is along a single axis."""
    if not isinstance(step, Map | Rows) or step.aliases:
        return None
    axes = step.order if isinstance(step, Map) else step.group.parallel
    here = step.accesses.position_along(axes)
    return here if len(here.terms) == 1 else None


def batch_by_batch(steps: Sequence[DeviceStep]) -> tuple[int, list[int]]:
    """The number of batches of some steps (products, and row-wise work on their results), and the
    number of tasks of each of the steps, from the first on, for which element i of a batch of their
    results depends only on the same batch of one another's.
    """
    made: set[Var] = set()
    batches, tasks = 0, []
    for step in steps:
        count = _tasks_of_batches(step, batches, made)
        if not count or (made and made.isdisjoint(step_inputs(step))):
            break
        if not batches:
            # The first has to be a product.
            if not isinstance(step, Eqn) or count < PROCESSOR.chained_batches:
                break
            batches = count
        tasks.append(count)
        made.update(step_outputs(step))
    return batches, tasks


def _tasks_of_batches(step: DeviceStep, batches: int, made: set[Var]) -> int:
    """The number of tasks of a step, equally many for each batch; 0 if it has no batches, or reads
    other batches of the values.
    """
    if isinstance(step, Eqn):
        rules = step.primitive.rewrite.product
        if rules is None:
            return 0
        count = math.prod(rules.extents(step).batch)
        # Batch axes are the first ones of the result, and have to be those of an operand.
        for a, role in zip(step.invars, rules.roles(step), strict=True):
            if a in made and role.batch != tuple(range(len(role.batch))):
                return 0
        return count if count == (batches or count) else 0
    if not isinstance(step, Rows) or step.aliases or not batches:
        return 0
    # Tasks are rows, in the order of the result.
    order, reduced = loop_order(step.accesses), step.group.reduced
    parallel = [i for i in order if i not in reduced]
    whole = step.accesses.position_along((*parallel, *(i for i in order if i in reduced)))
    rows = step.accesses.position_along(parallel)
    count = math.prod(step.accesses.axes[i] for i in parallel)
    in_rows = all(
        step.accesses.output_index(v) in (whole, rows) and v.aval.size % count == 0
        for v in step_outputs(step)
    )
    if count % batches or not in_rows or not _reads_only_at(step, whole, made):
        return 0
    return count


def as_many_each(batches: int, tasks: Sequence[int], calls: Sequence[TaskCall]) -> bool:
    """Whether each batch has as many tasks of each call as `batch_by_batch` says. Products may have
    several for each, but no more than a thread takes at a time: others should be shared.
    """
    return len(calls) == len(tasks) and all(
        call.tasks == n or (n == batches and call.tasks % n == 0 and call.tasks <= n * call.grain)
        for call, n in zip(calls, tasks, strict=True)
    )
