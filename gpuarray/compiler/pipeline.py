"""The passes of the compiler, in the order in which they run, and the Plan that they make.

Floor 3. In: a Graph. Out: the simplified Graph and its steps in order, with their costs. Still no
text and no machine.

`plan_graph` runs the passes common to all machines, and returns a `Plan`. The rest depends on the
user of the plan: NumPy reads its `steps` (`_fused`), drivers of emitted kernels `on_device`
(`_plan_for_device`, which lowers by `_lower_for_device`), native code `on_native`
(`_plan_for_native`). Each is computed once, on first use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpuarray import config
from gpuarray.compiler.check import check_graph, check_steps
from gpuarray.compiler.fuse.fuse import fuse
from gpuarray.compiler.fuse.group import FusedGroup, Refusal, Step
from gpuarray.compiler.fuse.split_carries import split_carries
from gpuarray.compiler.lower.choose import choose_forms, named
from gpuarray.compiler.lower.decisions import Decision
from gpuarray.compiler.lower.epilogues import fuse_epilogues
from gpuarray.compiler.lower.horizontal import fuse_horizontally
from gpuarray.compiler.lower.inline import inline_producers
from gpuarray.compiler.lower.joins import write_side_by_side
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel
from gpuarray.compiler.lower.overlap import Halves, overlapped
from gpuarray.compiler.lower.product_epilogues import fuse_product_epilogues
from gpuarray.compiler.lower.row_columns import fold_columns_with_rows
from gpuarray.compiler.lower.schedule import busy, schedule_all
from gpuarray.compiler.lower.split_broadcasts import split_broadcasts
from gpuarray.compiler.lower.split_passes import split_into_passes
from gpuarray.compiler.lower.steps import (
    eqn_bytes,
    step_bytes,
    step_inputs,
    step_outputs,
    step_work,
)
from gpuarray.compiler.lower.tables import join_tables
from gpuarray.compiler.lower.words import describe
from gpuarray.compiler.native import schedule as native
from gpuarray.compiler.native.products import lay_out_products
from gpuarray.compiler.rewrite.contributions import add_where_it_is
from gpuarray.compiler.rewrite.crops import crop
from gpuarray.compiler.rewrite.hoist import hoist
from gpuarray.compiler.rewrite.products import (
    exchange_products,
    expand_small_products,
    expand_vector_products,
)
from gpuarray.compiler.rewrite.reductions import share_reductions
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.compiler.rewrite.small_axes import take_apart_small_axes
from gpuarray.compiler.rewrite.small_matrices import take_apart_small_matrices
from gpuarray.compiler.rewrite.sorted_places import keep_places
from gpuarray.compiler.rewrite.split_axes import split_axes
from gpuarray.compiler.rewrite.split_views import split_views
from gpuarray.compiler.rewrite.sweep_products import sweep_products
from gpuarray.compiler.rewrite.tables import fold_in_tables
from gpuarray.compiler.rewrite.windows import fold_windows_by_axis
from gpuarray.compiler.rewrite.written_views import copy_views_in_lanes, copy_written_views
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.util import Struct, cached_property

#: Steps in order, and the pairs that could not become one.
Steps = tuple[list[DeviceStep], list[Refusal]]

# ---- the passes, top to bottom ----


def plan_graph(graph: Graph, fusion: bool = True) -> Plan:
    """The plan of a graph for drivers that run it primitive by primitive."""
    # First, since the passes below expect a graph without calls and dead equations.
    graph = _rewrite(simplify, graph)
    if fusion:
        graph = _rewrite(hoist, graph)
        graph = _rewrite(exchange_products, graph)
        # After views have sunk below equations that may be computed before them.
        graph = _rewrite(split_axes, graph)
    return Plan(graph, fusion=fusion)


def _fused(graph: Graph, fusion: bool) -> Steps:
    """The steps of a graph that is run primitive by primitive, and the pairs that did not fuse."""
    steps, refusals = fuse(graph, fusion)
    _check(fuse, graph, steps)
    return [*steps], refusals


def _plan_for_device(plan: Plan) -> Plan:
    """The plan of the same graph for machines that run emitted kernels.

    There, loops and branches whose elements are independent are kernels too, data movement is
    inlined or a kernel, small vectors are split into components, and small groups of one structure
    share a kernel.
    """
    graph, fusion = plan.graph, plan.fusion
    if fusion:
        graph = _rewrite(split_views, graph)
        graph = _rewrite(expand_vector_products, _rewrite(expand_small_products, graph))
    # Without fusion too: a library would be called for each matrix.
    graph = _rewrite(take_apart_small_matrices, graph)
    if fusion:
        graph = _rewrite(sweep_products, graph)
        graph = _rewrite(take_apart_small_axes, graph)
        if graph is not plan.graph:
            graph = _rewrite(split_axes, graph)
        graph = _rewrite(keep_places, _rewrite(share_reductions, graph))
        graph = _rewrite(split_carries, graph)
        graph = _rewrite(copy_written_views, _rewrite(fold_in_tables, graph))
    # Fuse again only where the device's graph differs, or has loops that it can run in registers.
    if graph is not plan.graph or any(e.primitive.flow for e in graph.eqns):
        steps, refusals = fuse(graph, fusion, flows=True)
        _check(fuse, graph, steps)
    else:
        steps, refusals = _unchosen(plan), plan.refusals
    found, decisions = _lower_for_device(graph, steps, refusals, fusion)
    # Reductions of many arrays in one launch, where they do not lose more by it.
    if fusion and _totals(graph) >= TARGET.fewest_alike:
        steps, refusals = fuse(graph, flows=True, apart=True)
        _check(fuse, graph, steps)
        other, others = _lower_for_device(graph, steps, refusals, fusion)
        if _cost(other) < _cost(found):
            found, decisions = other, others
    # Last: a form depends on all that the kernel reads, inlined producers included.
    fused, refusals = found
    made = choose_forms(fused)
    _check(choose_forms, graph, made, fused, lowered=True)
    return Plan(graph, (made, refusals), fusion, decisions)


def _lower_for_device(
    graph: Graph, steps: list[Step], refusals: list[Refusal], fusion: bool
) -> tuple[Steps, dict[Var, Decision]]:
    """Lower fused steps for a device, up to the choice of kernel forms; also return why values
    between them are stored or inlined.
    """
    if fusion:
        # Before inlining, so that each pass inlines the producers of its own inputs.
        fused, (steps, more) = steps, split_into_passes(steps)
        refusals = [*refusals, *more]
        _check(split_into_passes, graph, steps, fused)
        fused, steps = steps, fold_columns_with_rows(graph, steps)
        _check(fold_columns_with_rows, graph, steps, fused)
        # Before inlining, which would compute all results of a group for each one of a stack.
        fused, steps = steps, write_side_by_side(graph, steps)
        _check(write_side_by_side, graph, steps, fused)
    fused, (steps, decisions) = steps, inline_producers(graph, steps, fusion)
    _check(inline_producers, graph, steps, fused, lowered=True)
    if fusion:
        fused, steps = steps, join_tables(steps)
        _check(join_tables, graph, steps, fused, lowered=True)
        fused, steps = steps, fuse_epilogues(graph, steps)
        _check(fuse_epilogues, graph, steps, fused, lowered=True)
        fused, steps = steps, fuse_product_epilogues(graph, steps)
        _check(fuse_product_epilogues, graph, steps, fused, lowered=True)
        # After inlining: groups with inlined producers have other structures.
        together = fuse_horizontally(steps)
        # All that one kernel reads and writes is in memory at a time.
        if len(together) < len(steps):
            few = _temporary(graph, steps) + TARGET.launch_bytes
            if _temporary(graph, together) > few:
                together = fuse_horizontally(steps, TARGET.small_group)
        _check(fuse_horizontally, graph, together, steps, lowered=True)
        return (together, refusals), decisions
    return ([*steps], refusals), decisions


def _temporary(graph: Graph, steps: Sequence[DeviceStep]) -> int:
    """The most bytes that values between these steps take at one time."""
    return Plan(graph, ([*steps], [])).temporary_bytes


def _totals(graph: Graph) -> int:
    """How many arrays are reduced to a number each."""
    reductions = (e for e in graph.eqns if e.primitive.kind is Kind.REDUCTION)
    return sum(e.outvars[0].aval.size == 1 < e.invars[0].aval.size for e in reductions)


def _cost(found: Steps) -> float:
    """The cost of steps, measured in bytes that could be moved meanwhile."""
    launches = (s for s in found[0] if not isinstance(s, Eqn) or s.primitive.kind is not Kind.VIEW)
    return sum(step_bytes(s) / _busy(s) + TARGET.launch_bytes for s in launches)


def _busy(step: DeviceStep) -> float:
    """The share of multiprocessors that are busy. One kernel that reduces several arrays of one
    shape has only as many blocks as one of them needs.
    """
    if isinstance(step, FusedGroup) and 0 < len(step.reduced) == len(step.axes):
        return busy(schedule_all(1, math.prod(step.axes), 1))
    return 1.0


def _unchosen(plan: Plan) -> list[Step]:
    """The steps of a plan, none of which is a kernel yet: those get their own names."""
    steps = plan.fused[0] if plan.made is None else plan.steps
    return [s for s in steps if not isinstance(s, Kernel)]


def _plan_for_native(plan: Plan) -> Plan:
    """The plan of the same graph for native code: the steps of NumPy's plan as kernels, where there
    is native text for them, with small products as multiplications and sums. Loops and library
    routines are unchanged.
    """
    graph, fusion = plan.graph, plan.fusion
    if fusion:
        graph = _rewrite(expand_small_products, graph)
        graph = _rewrite(add_where_it_is, _rewrite(fold_windows_by_axis, graph))
        graph = _rewrite(crop, graph)
        graph = _rewrite(copy_views_in_lanes, _rewrite(lay_out_products, graph))
    if graph is not plan.graph:
        graph = _rewrite(split_axes, graph) if fusion else graph
        steps, refusals = fuse(graph, fusion)
        _check(fuse, graph, steps)
    else:
        steps, refusals = _unchosen(plan), plan.refusals
    if fusion:
        # Few long rows: each pass over them is a kernel, shared by all threads.
        fused, (steps, more) = steps, split_into_passes(steps, native.is_slow)
        refusals = [*refusals, *more]
        _check(split_into_passes, graph, steps, fused)
        fused, (steps, more) = steps, split_broadcasts(steps)
        refusals = [*refusals, *more]
        _check(split_broadcasts, graph, steps, fused)
    fused = steps
    steps, decisions = inline_producers(graph, steps, fusion, native.FORMS, True)
    _check(inline_producers, graph, steps, fused, lowered=True)
    fused, steps = steps, choose_forms(steps)
    _check(choose_forms, graph, steps, fused, lowered=True)
    return Plan(graph, (steps, refusals), fusion, decisions)


def _rewrite(stage: Callable[[Graph], Graph], graph: Graph) -> Graph:
    """Run a pass from Graph to Graph, and check its result."""
    # A pass that has nothing to do returns the graph it was given, which needs no check.
    made = stage(graph)
    if made is not graph and _is_checked():
        check_graph(stage.__name__, made)
    return made


def _check(
    stage: Callable, graph: Graph, *steps: Sequence[DeviceStep], lowered: bool = False
) -> None:
    """Check the steps that a pass made; the second list, if any, is its input."""
    if _is_checked():
        check_steps(stage.__name__, graph, *steps, lowered=lowered)


def _is_checked() -> bool:
    return config.state.check_plans or config.state.debug > 0


# ---- results ----


class Plan(Struct, frozen=False, eq=False):
    """A simplified graph and the steps that compute it.

    Attributes
    ----------
    made :
        The steps, and the pairs that did not fuse; None: they are computed on first use, since a
        device may have others.
    decisions :
        Why values between steps are stored or inlined, where a plan is for emitted kernels.
    halves :
        By the id of a step: an exchange that overlaps with others.
    overlaps :
        Whether exchanges are such, here and in the Graphs of loops inside.
    """

    graph: Graph
    made: Steps | None = None
    fusion: bool = True
    decisions: dict[Var, Decision] = {}
    halves: dict[int, Halves] = {}
    overlaps: bool = False

    @cached_property
    def fused(self) -> Steps:
        """The steps without names, and the pairs that did not fuse."""
        return _fused(self.graph, self.fusion)

    @cached_property
    def steps(self) -> list[DeviceStep]:
        """The steps in execution order."""
        return named(self.fused[0]) if self.made is None else self.made[0]

    @property
    def refusals(self) -> list[Refusal]:
        """The pairs of steps that could not become one, and why."""
        return (self.fused if self.made is None else self.made)[1]

    @cached_property
    def on_device(self) -> Plan:
        """The plan of the same graph for machines that run emitted kernels."""
        plan = _plan_for_device(self)
        # This plan is its own plan for a device.
        plan.on_device = plan
        return plan

    @cached_property
    def on_native(self) -> Plan:
        """The plan of the same graph for CPUs that run compiled kernels."""
        return _plan_for_native(self)

    @cached_property
    def overlapped(self) -> Plan:
        """The plan of the same steps for engines that exchange values while devices compute."""
        steps, halves = overlapped(self.steps, self.graph.outvars)
        plan = self.replace(made=(steps, self.refusals), halves=halves, overlaps=True)
        plan.overlapped = plan
        if self.__dict__.get("on_device") is self:
            plan.on_device = plan
        return plan

    @property
    def device_steps(self) -> list[DeviceStep]:
        """The steps of the plan for machines that run emitted kernels."""
        return self.on_device.steps

    @property
    def groups(self) -> list[Kernel | FusedGroup]:
        """The steps that are fused: on a device kernels."""
        return [s for s in self.steps if not isinstance(s, Eqn)]

    @property
    def library_calls(self) -> list[Eqn]:
        """The steps that are routines of a library, or that move data."""
        return [s for s in self.steps if isinstance(s, Eqn) and s.primitive.kind is not Kind.VIEW]

    @property
    def work(self) -> float:
        """Multiply-adds, roughly."""
        return sum(map(step_work, self.graph.eqns if self.made is None else self.steps))

    @property
    def bytes_moved(self) -> int:
        """Bytes that the steps read and write: each input and each output once."""
        return sum(step_bytes(s) for s in self.steps)

    @property
    def bytes_unfused(self) -> int:
        """Bytes that the same equations would move as a step each."""
        return sum(eqn_bytes(e) for e in self.graph.eqns if e.primitive.kind is not Kind.VIEW)

    @property
    def temporary_bytes(self) -> int:
        """The most bytes that values between steps take at one time."""
        # Results stay when the program ends, and a view takes no memory of its own.
        results = {a for a in self.graph.outvars if isinstance(a, Var)}
        size = {
            v: v.aval.nbytes
            for s in self.steps
            for v in step_outputs(s)
            if v not in results and not (isinstance(s, Eqn) and s.primitive.kind is Kind.VIEW)
        }
        last = _last_steps(self)
        # Walk the steps: results appear before operands that are read for the last time go.
        now = most = 0
        for i, step in enumerate(self.steps):
            now += sum(size.get(v, 0) for v in step_outputs(step))
            most = max(most, now)
            now -= sum(size.get(v, 0) for v in last.get(i, ()))
        return most

    def __str__(self) -> str:
        return "\n".join(describe(s) for s in self.steps)


def _last_steps(plan: Plan) -> dict[int, list[Var]]:
    """For each step, the values that are not read after it."""
    # A later step overwrites an earlier one, so the last one remains.
    last = {v: k for k, s in enumerate(plan.steps) for v in (*step_outputs(s), *step_inputs(s))}
    found: dict[int, list[Var]] = {}
    results = set(plan.graph.outvars)
    for v, k in last.items():
        if v not in results:
            found.setdefault(k, []).append(v)
    return found
