"""Native code of a plan: calls, C++ text, bodies of loops, and the steps that NumPy runs, with
reasons.

Floor 4. In: a Plan. Out: the data that `explain` and `cpp_source` show. Nothing is compiled. The
user's lines are added to the text here; the compiled text does not have them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gpuarray.backends.native.program import NativeProgramWriter, Source, planned
from gpuarray.compiler.explain.facts import Explanation, explain_plan
from gpuarray.compiler.explain.records import StepRecord
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel
from gpuarray.compiler.lower.steps import step_inputs, step_outputs
from gpuarray.compiler.lower.words import describe
from gpuarray.compiler.native.emit import emit, emit_alone, whole
from gpuarray.compiler.native.loops import RoutineWriter
from gpuarray.compiler.pipeline import Plan
from gpuarray.core.flow import Choice, Loop
from gpuarray.core.graph import Atom, Eqn, Graph, stored_constants
from gpuarray.core.primitive import Kind

#: How deep bodies of loops in bodies of loops are shown.
_DEEPEST = 4


def _written(plan: Plan, donated: frozenset[int]) -> NativeProgramWriter:
    native = plan.on_native
    writer = NativeProgramWriter(native, stored_constants(native.graph), donated, {})
    # Writing the function decides which steps become native calls.
    writer.function()
    return writer


def _shown(plan: Plan) -> list[DeviceStep]:
    """The steps that run; views are free."""
    return [s for s in plan.steps if not (isinstance(s, Eqn) and s.primitive.kind is Kind.VIEW)]


def explain_native(plan: Plan, name: str, donated: frozenset[int] = frozenset()) -> Explanation:
    """The explanation of a plan as native code runs it."""
    writer = _written(plan, donated)
    # Steps by identity: one call may run several of them.
    call_of = {id(s): (source, steps) for source, steps in writer.calls for s in steps}
    found = explain_plan(plan.on_native, name)
    steps, others = [], []
    native = plan.on_native
    read = {v for s in native.steps for v in step_inputs(s)} | set(native.graph.outvars)
    for step, record in zip(_shown(plan.on_native), found.steps, strict=True):
        if id(step) in call_of:
            source, together = call_of[id(step)]
            steps.append(_native(step, record, source, step is together[0], read))
        else:
            why = writer.by_host.get(id(step), "native code does not run it")
            others.append(record.ops[0] if record.kind == "library" else record.name)
            steps.append(record.replace(facts={**record.facts, "call": "NumPy", "why": why}))
    remark = f"native code: {_count(len(writer.calls))}"
    if others:
        remark += f"; NumPy runs {', '.join(dict.fromkeys(others))}"
    return found.replace(steps=tuple(steps), remarks=(*found.remarks, remark))


def _count(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls} calls"


def _native(
    step: DeviceStep, record: StepRecord, source: Source, first: bool, read: Collection[Atom]
) -> StepRecord:
    """The record of a step that native code runs."""
    # The number of GPU launches is meaningless here.
    facts: dict[str, Any] = {k: v for k, v in record.facts.items() if k != "launches"}
    kind = record.kind
    if isinstance(step, Eqn) and step.primitive.flow is not None:
        kind = "loop"
    return record.replace(
        kind=kind,
        facts={**facts, "call": source.name},
        source=_text(step, read),
        # A call counts once, at its first step.
        launches=int(first),
        body=_body(step, _DEEPEST),
    )


def _body(step: DeviceStep, deep: int) -> tuple[StepRecord, ...]:
    """The steps in each iteration of a loop, or in each branch."""
    found: list[StepRecord] = []
    for part, graph in _parts(step) if deep else ():
        plan = planned(graph)
        records = explain_plan(plan).steps
        for inner, record in zip(_shown(plan), records, strict=True):
            name = f"{part}: {record.name}" if part else record.name
            kind = "loop" if isinstance(inner, Eqn) and inner.primitive.flow else record.kind
            body = _body(inner, deep - 1)
            found.append(record.replace(name=name, kind=kind, body=body, facts={}))
    return tuple(found)


def _parts(step: DeviceStep) -> list[tuple[str, Graph]]:
    """The Graphs in a step, each with a label."""
    if not isinstance(step, Eqn) or step.primitive.flow is None:
        return []
    match step.primitive.flow(step):
        case Loop(condition=condition, body=body):
            return [("", body)] if condition is None else [("condition", condition), ("body", body)]
        case Choice(branches=branches):
            return [(f"branch {i}", graph) for i, graph in enumerate(branches)]
    return []


def _text(step: DeviceStep, read: Collection[Atom]) -> str:
    """The C++ of one step, with the user's lines; `read` are the values read elsewhere."""
    if isinstance(step, Kernel):
        return emit(step, True).functions
    name = step.primitive.name if isinstance(step, Eqn) else step.name
    # Names of kernels of users need not be names in C++.
    name = "".join(c if c.isalnum() else "_" for c in name)
    wanted = [v for v in step_outputs(step) if v in read]
    return RoutineWriter(name, planned, user_lines=True).routine([step], wanted).text


def cpp_source(plan: Plan, donated: frozenset[int] = frozenset()) -> str:
    """All native code of a plan in the order of its calls, after its common prelude.

    Steps that NumPy runs are comments. So are the user's lines, which text that is compiled to run
    does not have: that text is the key of the cache.
    """
    writer = _written(plan, donated)
    call_of = {id(steps[0]): (source, steps) for source, steps in writer.calls}
    # A routine is shown where its first step is; its other steps are in it.
    inside = {id(s) for _, steps in writer.calls for s in steps[1:]}
    parts = []
    for step in _shown(plan.on_native):
        if id(step) in call_of:
            source, steps = call_of[id(step)]
            (only, *more) = steps
            # A kernel alone has no routine around it.
            if isinstance(only, Kernel) and not more and source.name == only.name:
                parts.append(emit_alone(only, True).text)
            else:
                routine = RoutineWriter(source.name, planned, frozenset(writer.over), True)
                parts.append(routine.routine(steps, source.outputs).text)
        elif id(step) not in inside:
            why = writer.by_host.get(id(step), "native code does not run it")
            what = describe(step) if isinstance(step, Eqn) else step.name
            parts.append(f"// {what}: NumPy runs it ({why})\n")
    return whole("\n".join(parts))
