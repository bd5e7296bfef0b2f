"""Facts about a compiled function: its kernels, the bytes each moves, why they were not fused.

Floor 3. In: a Plan. Out: an Explanation, which is plain data; `tables.py` shows it as text, SVG and
HTML. Facts of a target (registers, roofline time) are in the dictionary `facts` of a step, and are
shown under their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.compiler.explain import tables
from gpuarray.compiler.explain.costs import Cost, on_host
from gpuarray.compiler.explain.records import Boundary as Boundary
from gpuarray.compiler.explain.records import Intermediate as Intermediate
from gpuarray.compiler.explain.records import OperationRecord as OperationRecord
from gpuarray.compiler.explain.records import Record, StepRecord
from gpuarray.compiler.explain.records import Value as Value
from gpuarray.compiler.fuse.group import Refusal
from gpuarray.compiler.lower.choose import form_of
from gpuarray.compiler.lower.kernel import Batch, DeviceStep
from gpuarray.compiler.lower.steps import (
    group_in,
    inlined_values,
    step_inputs,
    step_outputs,
    step_work,
)
from gpuarray.compiler.lower.words import describe
from gpuarray.compiler.lower.words import operations as step_operations
from gpuarray.compiler.pipeline import Plan
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import Kind


# The data is plain (records.py); these two classes add how it is shown.
class StepFacts(StepRecord):
    """One step that runs on the device; as text its operations and the lines that recorded them."""

    def __str__(self) -> str:
        return tables.kernel_text(self)


class Explanation(Record):
    """The steps of a function and their costs, as text, as a picture, as a page."""

    def __str__(self) -> str:
        return tables.table(self)

    def to_svg(self) -> str:
        """A picture: a box for each step, an arrow for each array between two of them."""
        return tables.svg(self)

    def to_html(self) -> str:
        """A self-contained page: picture, table, and each kernel with the user's lines."""
        return tables.html(self)


def explain_plan(
    plan: Plan,
    name: str = "",
    device_facts: dict[str, dict[str, Any]] | None = None,
    remarks: Callable[[Eqn], dict[str, Any]] = lambda eqn: {},
    exchange: Callable[[Eqn], dict[str, Any]] = lambda eqn: {},
    cost: Callable[[DeviceStep], Cost] = on_host,
) -> Explanation:
    """The explanation of a Plan.

    Parameters
    ----------
    device_facts :
        Facts of its kernels on a GPU, by name of the kernel.
    remarks :
        Facts of a step that is no kernel: why it runs on the host although the plan is for a GPU,
        and to what its operands are rounded.
    exchange :
        Facts of a step that sends values between devices.
    cost :
        The bytes that a step moves, and its launches.
    """
    # Steps that run; views are free. Arrays are numbered as they appear.
    on_device = device_facts or {}
    shown = [s for s in plan.steps if not _is_view(s)]
    numbers: dict[Var, int] = {}
    names = _step_names(shown)
    # Values that all readers compute inline are never in memory, so they are no inputs.
    stored = {v for s in plan.steps for v in step_outputs(s)}
    unstored = {v for e in plan.graph.eqns for v in e.outvars} - stored
    maker = {v: names[id(s)] for s in shown for v in step_outputs(s)}
    # The cost compared with running each operation separately.
    return Explanation(
        name or plan.graph.debug_name or "function",
        tuple(
            _with_facts(
                _step_facts(s, names[id(s)], numbers, unstored, remarks, exchange, cost(s)),
                on_device,
            )
            for s in shown
        ),
        _boundaries(plan.refusals, maker),
        plan.bytes_unfused,
        sum(e.primitive.kind is not Kind.VIEW for e in plan.graph.eqns),
        plan.temporary_bytes,
        intermediates=_intermediates(plan, maker, [(s, names[id(s)]) for s in shown]),
    )


def _boundaries(refusals: list[Refusal], maker: dict[Var, str]) -> tuple[Boundary, ...]:
    """The refusals between steps that still exist; others have since been inlined."""

    def name(step: DeviceStep) -> str:
        # A refused pair may name a step that was replaced later; its values identify the step that
        # makes them now.
        return next((maker[v] for v in step_outputs(step) if v in maker), "")

    found = [(name(r.producer), name(r.consumer), r.reason) for r in refusals]
    # Left out: steps that no longer exist, and two that have become one kernel.
    kept = dict.fromkeys(f for f in found if f[0] and f[1] and f[0] != f[1])
    return tuple(Boundary(*f) for f in kept)


def _intermediates(
    plan: Plan, maker: dict[Var, str], shown: Sequence[tuple[DeviceStep, str]]
) -> tuple[Intermediate, ...]:
    """The decisions about values between steps, without results of the program."""
    computed: dict[Var, list[str]] = {}
    for step, name in shown:
        for v in inlined_values(step):
            computed.setdefault(v, []).append(name)
    results = set(plan.graph.outvars)
    made_by = {v: e for e in plan.graph.eqns for v in e.outvars}
    found = []
    for v, (reason, cost, times) in plan.decisions.items():
        steps = computed.get(v, []) if reason.inline else [maker[v]] if v in maker else []
        # Unread values, and those of equations that a pass has replaced, do not exist.
        if v not in results and v in made_by and steps:
            eqn = made_by[v]
            found.append(
                Intermediate(
                    v.aval.str_short(True),
                    _operation(eqn, eqn.primitive.name),
                    stored=not reason.inline,
                    steps=tuple(dict.fromkeys(steps)),
                    reason=reason.sentence,
                    thresholds=reason.thresholds,
                    cost=cost,
                    times=times,
                )
            )
    return tuple(found)


def _is_view(step: DeviceStep) -> bool:
    return isinstance(step, Eqn) and step.primitive.kind is Kind.VIEW


def _step_names(steps: Sequence[DeviceStep]) -> dict[int, str]:
    """Names of steps by id; library steps are named after their place and operation."""
    names = {}
    for i, step in enumerate(steps):
        # Two calls of one routine need two names, so the name of a library step contains its
        # position.
        names[id(step)] = f"s{i}_{step.primitive.name}" if isinstance(step, Eqn) else step.name
    return names


def _step_facts(
    step: DeviceStep,
    name: str,
    numbers: dict[Var, int],
    unstored: set[Var],
    remarks: Callable[[Eqn], dict[str, Any]],
    exchange: Callable[[Eqn], dict[str, Any]],
    cost: Cost,
) -> StepFacts:
    def value(v: Var) -> Value:
        # The first step that shows an array numbers it; the same array keeps its number.
        return Value(numbers.setdefault(v, len(numbers)), v.aval.str_short(True), v.aval.nbytes)

    inputs = tuple(value(v) for v in dict.fromkeys(step_inputs(step)) if v not in unstored)
    outputs = tuple(value(v) for v in step_outputs(step))
    moved: dict[str, Any] = {
        "bytes_read": cost.read,
        "bytes_written": cost.written,
        "launches": cost.launches,
    }
    # A routine of a library: one operation.
    if isinstance(step, Eqn):
        operations = (_operation(step, describe(step)),)
        facts = {**remarks(step), **exchange(step), **cost.facts()}
        return StepFacts(
            name, "library", operations, inputs, outputs, step_work(step), facts=facts, **moved
        )
    names: dict[object, str] = {v: f"in{i}" for i, v in enumerate(step_inputs(step))}
    # A kernel: its operations as formulas of its inputs, and its axes.
    operations = tuple(_operation(e, t) for e, t in step_operations(step, names))
    group = group_in(step)
    return StepFacts(
        name,
        form_of(step),
        operations,
        inputs,
        outputs,
        step_work(step),
        tuple(group.axes[i] for i in group.parallel),
        tuple(group.axes[i] for i in sorted(group.reduced)),
        ({"groups": len(step.parts)} if isinstance(step, Batch) else {}) | cost.facts(),
        **moved,
    )


def _with_facts(kernel: StepFacts, on_device: dict[str, dict[str, Any]]) -> StepFacts:
    """A kernel with its facts on a GPU added."""
    if kernel.name not in on_device:
        return kernel
    facts = dict(on_device[kernel.name])
    # These two have their own fields; all other facts are shown under their names.
    source, seconds = facts.pop("source"), facts.pop("roofline_seconds")
    facts["roofline"] = f"{seconds * 1e6:.2f} us"
    return kernel.replace(facts=kernel.facts | facts, source=source, roofline_seconds=seconds)


def _operation(eqn: Eqn, text: str) -> OperationRecord:
    # Equations that the compiler made, and programs without recorded lines, have no place.
    if eqn.site is None:
        return OperationRecord(eqn.primitive.name, text)
    file, line, function = eqn.site
    return OperationRecord(eqn.primitive.name, text, file, line, function, eqn.site.scope)
