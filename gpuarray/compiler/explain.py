"""What becomes of a function, and why: its kernels, what each moves, and why they are not fewer.

Floor 3. In: a Plan. Out: an Explanation, which is plain data; `compiler/report.py` shows it as text, SVG and HTML.
Facts that only a target knows (registers, share of the roofline) are added to a step's `facts` by name, and shown
as they come.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuarray.compiler import fuse, report
from gpuarray.compiler.group import Group, Step
from gpuarray.compiler.plan import (
    Plan,
    describe,
    members_in_order,
    step_inputs,
    step_outputs,
    step_work,
)
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.primitive import Kind


@dataclass(frozen=True)
class Value:
    """An array that a step reads or writes; `number` is the same wherever it is the same array."""

    number: int
    text: str
    nbytes: int


@dataclass(frozen=True)
class Operation:
    """One operation of a step, as text, and the place in the user's program that asked for it."""

    name: str
    text: str
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def user_line(self) -> str:
        """`file.py:12`, or nothing where the place is not known."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else ""


@dataclass(frozen=True)
class Kernel:
    """One step that runs on the device: a fused kernel, or a routine of a library.

    kind: map (no reduction), rows, columns or all (what is reduced), library
    space: lengths of the axes that run in parallel; inner: of the axes that are reduced
    """

    name: str
    kind: str
    operations: tuple[Operation, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    flops: float
    space: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ops(self) -> tuple[str, ...]:
        """The names of the operations, in the order in which they run."""
        return tuple(o.name for o in self.operations)

    @property
    def user_lines(self) -> tuple[str, ...]:
        """The places in the user's program that this step does, each once: `file.py:12`."""
        return tuple(dict.fromkeys(o.user_line for o in self.operations if o.file))

    @property
    def bytes_read(self) -> int:
        """Bytes of the distinct arrays it reads."""
        return sum(v.nbytes for v in self.inputs)

    @property
    def bytes_written(self) -> int:
        """Bytes of the arrays it leaves behind."""
        return sum(v.nbytes for v in self.outputs)

    def __str__(self) -> str:
        return report.kernel_text(self)


@dataclass(frozen=True)
class Boundary:
    """Two steps of which the second reads what the first wrote, and why they are two."""

    first: str
    second: str
    reason: str

    def __str__(self) -> str:
        return f"{self.first} -> {self.second}: {self.reason}"


@dataclass(frozen=True)
class Explanation:
    """The steps of a function in the order in which they run, and what they cost."""

    name: str
    steps: tuple[Kernel, ...]
    why_not_fused: tuple[Boundary, ...]
    bytes_unfused: int
    launches_unfused: int
    temporary_bytes: int

    @property
    def kernels(self) -> list[Kernel]:
        """The fused kernels."""
        return [s for s in self.steps if s.kind != "library"]

    @property
    def library_calls(self) -> list[Kernel]:
        """The steps that are routines of a library, or that only move data."""
        return [s for s in self.steps if s.kind == "library"]

    @property
    def launches(self) -> int:
        """How many kernels and library routines one call starts."""
        return len(self.steps)

    @property
    def bytes_moved(self) -> int:
        """Bytes that all steps read and write."""
        return sum(s.bytes_read + s.bytes_written for s in self.steps)

    @property
    def flops(self) -> float:
        """Multiply-adds, roughly: an `exp` counts as several."""
        return sum(s.flops for s in self.steps)

    def __str__(self) -> str:
        return report.table(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.name}: {self.launches} launches>"

    def to_svg(self) -> str:
        """A picture: a box for each step with its operations, an arrow for each array between them."""
        return report.svg(self)

    def to_html(self) -> str:
        """A page that stands alone: the picture, the table, and each kernel beside the user's lines."""
        return report.html(self)


def explain_plan(plan: Plan, name: str = "", fusion: bool = True) -> Explanation:
    """The explanation of a Plan; `fusion` says whether it was made with fusion on."""
    shown = [s for s in plan.steps if not _is_view(s)]
    numbers: dict[Var, int] = {}
    names = _step_names(shown)
    # Index-only values that every reader makes for itself are never in memory.
    stored = {v for s in plan.steps for v in step_outputs(s)}
    unstored = {v for e in plan.graph.eqns for v in e.outvars} - stored
    steps = tuple(_kernel(s, names[id(s)], numbers, unstored) for s in shown)
    equations = [e for e in plan.graph.eqns if e.primitive.kind is not Kind.VIEW]
    return Explanation(
        name or plan.graph.debug_name or "function",
        steps,
        tuple(_boundaries(plan, shown, names, fusion)),
        plan.bytes_unfused,
        len(equations),
        plan.temporary_bytes,
    )


def _is_view(step: Step) -> bool:
    return isinstance(step, Eqn) and step.primitive.kind is Kind.VIEW


def _step_names(steps: list[Step]) -> dict[int, str]:
    """Groups have names; library steps get one from what they do and their place."""
    names = {}
    for i, step in enumerate(steps):
        names[id(step)] = step.name if isinstance(step, Group) else f"s{i}_{step.primitive.name}"
    return names


def _kernel(step: Step, name: str, numbers: dict[Var, int], unstored: set[Var]) -> Kernel:
    def value(v: Var) -> Value:
        return Value(numbers.setdefault(v, len(numbers)), v.aval.str_short(True), v.aval.nbytes)

    inputs = tuple(value(v) for v in dict.fromkeys(step_inputs(step)) if v not in unstored)
    outputs = tuple(value(v) for v in step_outputs(step))
    if isinstance(step, Eqn):
        operations = (_operation(step, describe(step)),)
        return Kernel(name, "library", operations, inputs, outputs, step_work(step))
    eqns = [m.eqn for m in members_in_order(step)]
    texts = [text.strip() for text in describe(step).splitlines()[1:]]
    operations = tuple(_operation(e, t) for e, t in zip(eqns, texts, strict=True))
    return Kernel(
        name,
        step.name.partition("_")[2],
        operations,
        inputs,
        outputs,
        step_work(step),
        tuple(step.axes[i] for i in step.parallel),
        tuple(step.axes[i] for i in sorted(step.reduced)),
    )


def _operation(eqn: Eqn, text: str) -> Operation:
    if eqn.site is None:
        return Operation(eqn.primitive.name, text)
    file, line, function = eqn.site
    return Operation(eqn.primitive.name, text, file, line, function)


# ---- why two steps are not one ----


def _boundaries(
    plan: Plan, steps: list[Step], names: dict[int, str], fusion: bool
) -> Iterator[Boundary]:
    """Every pair of steps of which the second reads what the first wrote, in order."""
    made_by = {v: e for e in plan.graph.eqns for v in e.outvars}
    writer = {v: s for s in steps for v in step_outputs(s)}
    reads: dict[int, list[Step]] = {}
    for step in steps:
        found: dict[int, Step] = {}
        for v in step_inputs(step):
            source = _behind_views(v, made_by)
            if source in writer:
                found.setdefault(id(writer[source]), writer[source])
        reads[id(step)] = list(found.values())
    for step in steps:
        for before in reads[id(step)]:
            reason = _reason(before, step, reads, names) if fusion else "fusion is switched off"
            yield Boundary(names[id(before)], names[id(step)], reason)


def _behind_views(v: Var, made_by: dict[Var, Eqn]) -> Var:
    """The value that a chain of views looks at."""
    eqn = made_by.get(v)
    while eqn is not None and eqn.primitive.kind is Kind.VIEW and isinstance(eqn.invars[0], Var):
        v = eqn.invars[0]
        eqn = made_by.get(v)
    return v


_STANDS_ALONE = {
    Kind.LIBRARY: "is a library routine",
    Kind.MOVEMENT: "moves data, as a step of its own",
    Kind.INDEXING: "reads or writes by index, as a step of its own",
    Kind.GENERATOR: "generates data, as a step of its own",
    Kind.CALL: "holds a program of its own",
    Kind.COLLECTIVE: "talks to other devices",
}


def _reason(
    first: Step, second: Step, reads: dict[int, list[Step]], names: dict[int, str]
) -> str:
    """Why two steps were not merged: the best that can be told from the two as they are."""
    for step in (first, second):
        if isinstance(step, Eqn):
            return f"{step.primitive.name} {_STANDS_ALONE.get(step.primitive.kind, 'stands alone')}"
    assert isinstance(first, Group) and isinstance(second, Group)
    between = _between(first, second, reads)
    if between is not None:
        return f"{names[id(between)]} needs the first and is needed by the second"
    return _too_large(first, second) or _different_form(first, second)


def _between(first: Step, second: Step, reads: dict[int, list[Step]]) -> Step | None:
    """A third step on some way from the first to the second."""
    stack = [s for s in reads[id(second)] if s is not first]
    seen: set[int] = set()
    while stack:
        step = stack.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        if first in reads[id(step)]:
            return step
        stack.extend(reads[id(step)])
    return None


def _too_large(first: Group, second: Group) -> str:
    """The limit that the union would break, or nothing."""
    count = len(first.members) + len(second.members)
    if count > fuse.MEMBER_LIMIT:
        return f"{count} operations are over the limit of {fuse.MEMBER_LIMIT} in a kernel"
    sources = set(first.sources()) | set(second.sources()) - set(first.made)
    if len(sources) + 1 > fuse.ARGUMENT_LIMIT:
        return f"{len(sources)} inputs are over the limit of {fuse.ARGUMENT_LIMIT} in a kernel"
    return ""


def _different_form(first: Group, second: Group) -> str:
    """Why the union of the two would not be a parallel space with one inner space."""
    made = first.made
    handed_on = [load for load in second.loads() if load.source in made]
    for load in handed_on:
        if fuse.view_order(load.views, load.source.aval.ndim) is None:
            views = ", ".join(dict.fromkeys(e.primitive.name for e in load.views))
            return f"the second reads {_short(load.source)} through {views}, which mixes its elements"
    wider = [load for load in handed_on if _count(load.shape) > load.source.aval.size]
    first_axes, second_axes = _lengths(first, first.reduced), _lengths(second, second.reduced)
    if first.reduced and second.reduced:
        if first.name.partition("_")[2] != second.name.partition("_")[2]:
            return f"both reduce, over different axes: first {first_axes}, then {second_axes}"
        row = _count(first.axes[i] for i in first.reduced)
        rows = _count(first.axes[i] for i in first.parallel)
        if first_axes == second_axes and row > fuse.ROW_LIMIT and rows < fuse.ROWS_ENOUGH:
            return f"{rows} rows of {row} elements are too few and too long to be held while reduced"
        return "the second reduces what the first has already reduced, over a further axis"
    if first.reduced:
        row = _count(first.axes[i] for i in first.reduced)
        rows = _count(first.axes[i] for i in first.parallel)
        if row > fuse.ROW_LIMIT and rows < fuse.ROWS_ENOUGH:
            return f"{rows} rows of {row} elements are too few and too long to be held while reduced"
        if wider:
            return (
                f"the second spreads {_short(wider[0].source)} over a further axis: the reduction "
                "would run again for each of its steps"
            )
    work = sum(m.eqn.primitive.weight for m in first.members)
    if wider and work > fuse.RECOMPUTE_LIMIT:
        return (
            f"the second spreads {_short(wider[0].source)} over a further axis: about {work:g} "
            "multiply-adds would run again for each of its steps"
        )
    return (
        f"their elements run over different axes: {_lengths(first, range(len(first.axes)))} "
        f"and {_lengths(second, range(len(second.axes)))}"
    )


def _short(v: Var) -> str:
    return v.aval.str_short(True)


def _count(lengths) -> int:
    total = 1
    for n in lengths:
        total *= n
    return total


def _lengths(group: Group, axes) -> str:
    return "x".join(str(group.axes[i]) for i in sorted(axes)) or "a scalar"
