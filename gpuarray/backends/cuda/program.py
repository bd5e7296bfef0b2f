"""Plans as Python functions that launch kernels.

Floor 4. In: a Plan and a GPU. Out: a function on Buffers, generated once, as in the NumPy backend:
addresses are computed, memory is allocated, kernels are launched in order, and results are handed
over while they are still being computed.

Values between kernels share one allocation, which is divided when the function is written: a value
reuses the place of others that are no longer read. Results have memory of their own; donated inputs
give theirs where a kernel may write over what it reads.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends import lockstep
from gpuarray.backends.cuda import library
from gpuarray.backends.cuda.device import ALIGNMENT, UNDRAWN, Buffer, Gpu, gpus
from gpuarray.backends.cuda.kernels import GRAPH_FROM, Replay, Table, announced, load
from gpuarray.backends.cuda.places import Memory, Value, packed
from gpuarray.backends.cuda.substitutes import (
    by_host,
    drawing,
    fall_back,
    parts_graph,
    uploaded,
    whole_on_host,
)
from gpuarray.backends.profiled import Steps
from gpuarray.compiler.cuda.emit import KernelSource, Options, emit
from gpuarray.compiler.explain.source import emitted
from gpuarray.compiler.lower.in_place import overwritable
from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.overlap import last_reads
from gpuarray.compiler.lower.steps import group_in, step_eqns, step_inputs, step_outputs
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.config import state
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype, talks
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind

#: The names of addresses in a generated function.
_ADDRESS = re.compile(r"\b[abct]\d+\.pointer\b|\bp\d+\b|\bbase\b")
#: A line at which the program of one GPU stops until all have come there.
_PAUSE = re.compile(r"(b\d+, |h\d+ )*(= )?yield ")


def build(
    plan: Plan,
    consts: Sequence,
    donated: frozenset[int] = frozenset(),
    *,
    gpu: Gpu,
    inside: Inside | None = None,
) -> Callable[..., list]:
    """Return a function from Buffers on a GPU to a list of Buffers.

    With donated inputs it takes one more argument: the set of those that may be overwritten. The
    function of a plan with collectives is a generator (backends/lockstep.py): what it is sent is in
    memory of its own, and filled in the order of the GPU's stream.
    """
    try:
        steps = _steps(plan)
    except TypeError as error:  # no rule, or a dtype without a type in CUDA
        fall_back(", ".join(e.primitive.name for e in plan.graph.eqns), error)
        return whole_on_host(plan, consts, donated, gpu)
    writer = _CudaProgramWriter(plan.on_device, steps, consts, donated, gpu, inside or Inside(gpu))
    return writer.function()


def _steps(plan: Plan) -> list[tuple[DeviceStep, KernelSource | None]]:
    """Return the steps that a GPU runs, in order, each with its kernel; others have None."""
    # `emitted` gives one kernel, or None, for each step that is no view.
    kernels = emitted(plan)
    return [
        (s, None) if isinstance(s, Eqn) and s.primitive.kind is Kind.VIEW else next(kernels)
        for s in plan.device_steps
    ]


class Inside:
    """Makes functions of the Graphs in a plan (branches, loop bodies, parts), each once.

    They live as long as the plan's function. GPUs that run one program share `plans`: they stop at
    the same equations.
    """

    def __init__(self, gpu: Gpu, plans: dict[Graph, Plan] | None = None):
        self.gpu = gpu
        self._plans = {} if plans is None else plans
        self._made: dict[tuple, Callable[..., list]] = {}

    def __call__(self, graph: Graph, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
        key = (graph, donated)
        if key not in self._made:
            plan = self._plans.get(graph)
            if plan is None:
                plan = self._plans[graph] = plan_graph(graph)
            self._made[key] = build(plan, plan.graph.consts, donated, gpu=self.gpu, inside=self)
        return self._made[key]


# ---- the generated function ----
class _CudaProgramWriter:
    """Writes the function of a plan line by line; `space` holds the values of its names."""

    def __init__(
        self,
        plan: Plan,
        steps: list[tuple[DeviceStep, KernelSource | None]],
        consts: Sequence,
        donated: frozenset[int],
        gpu: Gpu,
        inside: Inside,
    ):
        self.plan, self.steps, self.donated, self.gpu = plan, steps, donated, gpu
        self.inside = inside
        self.lines: list[str] = []
        self.sites: dict[int, Eqn] = {}  # line number -> equation, for error messages
        self.ran: dict[int, DeviceStep | str] = {}  # line number -> what it runs, for profiles
        self.holders: dict[str, Eqn] = {}  # name -> the equation with Graphs that it runs
        self.values: dict[Var, Value] = {}
        # Exchanges in progress (by id): the variable that holds one, and its equation.
        self.going: dict[int, tuple[str, Eqn]] = {}
        # Names that every plan uses.
        self.space: dict[str, Any] = {
            "Buffer": Buffer,
            "gpu": gpu,
            "allocate": gpu.allocate,
            "copy": gpu.copy,
            "move": gpu.write,
            "stream": gpu.stream,
            "launched": gpu.launched,
            "recent": gpu.recent.append,
            "note": functools.partial(_note, plan),
            "UNDRAWN": UNDRAWN,
        }
        # Where inputs and constants are, which steps are views, and what runs the rest.
        graph = plan.graph
        self.inputs = {v: i for i, v in enumerate(graph.invars)}
        for v, i in self.inputs.items():
            self.values[v] = Value(f"a{i}.pointer", 0, f"a{i}.memory", f"a{i}")
        for v, c in zip(graph.constvars, consts, strict=True):
            self.values[v] = self.constant(np.asarray(c).astype(storage_dtype(v.aval), copy=False))
        self.views = {
            v: e for e, _ in steps if isinstance(e, Eqn) and _is_view(e) for v in e.outvars
        }
        #: What runs the equations without a kernel, and which of their results have memory of
        #: their own; others may be operands that were passed through.
        self.routines = {
            s: self.routine(s) for s, _ in steps if isinstance(s, Eqn) and not _is_view(s)
        }
        self.memory: dict[Var, Memory] = {}
        self.last = self.last_reads()
        self.plan_memory()

    # ---- memory planning ----
    def root(self, v: Var) -> Var:
        """Return the value whose memory this one is part of."""
        while v in self.views and isinstance(source := self.views[v].invars[0], Var):
            v = source
        return v

    def last_reads(self) -> dict[Var, int]:
        """Return the last step that reads each value's memory; outputs are read after all steps."""
        last: dict[Var, int] = {}
        for a in self.plan.graph.outvars:
            if isinstance(a, Var):
                last[self.root(a)] = len(self.steps)
        # Backwards, so that what a result passes on is known before its operands are looked at.
        for i, (step, _) in reversed(list(enumerate(self.steps))):
            if _is_view(step):
                continue
            end = i
            # A routine may hand back an operand, whose memory then lives as long as its result.
            if isinstance(step, Eqn):
                _, fresh = self.routines[step]
                passed_on = (v for k, v in enumerate(step.outvars) if k not in fresh)
                end = max((last.get(v, i) for v in passed_on), default=i)
            for v in map(self.root, step_inputs(step)):
                last[v] = max(last.get(v, i), end)
        for v, i in last_reads(self.plan.halves, self.plan.steps).items():
            last[self.root(v)] = max(last[self.root(v)], i)
        return last

    def plan_memory(self) -> None:
        """Choose memory for everything that kernels write."""
        results = {self.root(a) for a in self.plan.graph.outvars if isinstance(a, Var)}
        for i, (_, kernel) in enumerate(self.steps):
            if kernel is None:
                continue
            for v in kernel.outputs:
                # Reuse the memory of an aliased operand, or of a donated input for a result.
                old = kernel.kernel.aliases.get(v)
                sources = [] if v not in results else map(self.root, kernel.inputs)
                sources = [x for x in sources if x in self.inputs]
                if old is not None:
                    sources = [self.root(old)]
                found = (self.taken_over(x, v, kernel, i) for x in sources)
                memory = next((m for m in found if m is not None), None)
                if memory is None:
                    memory = Memory(v.aval.nbytes, i, i)
                self.memory[v] = memory
                memory.last = max(memory.last, self.last.get(v, i))
                memory.result |= v in results
        # Results have allocations of their own; the others are packed into one.
        pieces = {id(m): m for m in self.memory.values() if not m.result}
        self.shared_bytes = packed(list(pieces.values()))

    def taken_over(self, source: Var, v: Var, kernel: KernelSource, i: int) -> Memory | None:
        """Return the memory of a value that dies at step i, if `v` may be written over it.

        The memory must be donated or the plan's own, and the kernel must be able to write in place.
        """
        # Whose memory it is: the plan's own, or that of an input, which only one value may take.
        number = self.inputs.get(source)
        if number is None:
            memory = self.memory.get(source)
        elif number in self.donated and all(m.donor != number for m in self.memory.values()):
            memory = Memory(v.aval.nbytes, i, i, result=True, donor=number)
        # An input may be donated to one value only.
        else:
            memory = None
        if memory is None or self.last.get(source) != i or source.aval.nbytes != v.aval.nbytes:
            return None
        readers = [x for x in kernel.inputs if self.root(x) is source]
        if readers:
            if not overwritable(kernel.kernel, v).issuperset(readers):
                return None
            # Now an input is an output too.
            self.steps[i] = self.steps[i][0], emit(kernel.kernel, Options(overlap=True))
        return memory

    # ---- writing ----
    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.space)}"
        self.space[name] = value
        return name

    def line(self, text: str, eqn: Eqn | None = None, step: DeviceStep | None = None) -> None:
        self.lines.append(text)
        if eqn is not None:
            self.sites[len(self.lines)] = eqn
        if step is not None:
            self.ran[len(self.lines)] = step

    def constant(self, value: np.ndarray) -> Value:
        """Upload a value that stays on the GPU as long as the function."""
        # `space` holds the Buffer, so its address stays valid.
        buffer = self.gpu.upload(value)
        name = self.bind("const", buffer)
        return Value(self.bind("address", buffer.pointer), 0, f"{name}.memory", name)

    def typed(self, v: Var) -> str:
        """Return shape and dtype of a value, as text."""
        shape = self.bind("shape", v.aval.shape)
        return f"{shape}, {self.bind('dtype', storage_dtype(v.aval))}"

    def value(self, a: Atom) -> Value:
        if isinstance(a, Literal):
            return self.constant(np.asarray(a.val).astype(storage_dtype(a.aval)))
        return self.values[a]

    def buffer(self, a: Atom) -> str:
        """Return a value as a Buffer, as text."""
        value = self.value(a)
        if value.buffer:
            return value.buffer
        assert isinstance(a, Var)
        text = f"Buffer({value.pointer}, {self.typed(a)}, {value.owner}, gpu, UNDRAWN)"
        # A Buffer must be aligned: a part that is not is copied.
        return f"copy({text})" if value.offset % ALIGNMENT else text

    def function(self) -> Callable[..., list]:
        """Write, compile and return the function."""
        graph, gpu = self.plan.graph, self.gpu
        # Load the kernels; those without elements are never launched.
        kernels = [k for _, k in self.steps if k is not None and any(_sizes(k.outputs))]
        # One compile and one module for the plan.
        functions, source, binary = load(kernels, gpu)
        arguments = [f"a{i}" for i in range(len(graph.invars))] + ["owned"] * bool(self.donated)
        self.take_memory()
        # One block of lines for each step; only launches may become a CUDA graph.
        before = len(self.lines)
        for i, (step, kernel) in enumerate(self.steps):
            self.arrive(i)
            if kernel is not None:
                self.launch(step, kernel, functions.get(kernel.name))
            elif isinstance(step, Eqn):
                (self.view if _is_view(step) else self.call)(step)
            self.drop(i)
        self.arrive(len(self.steps))
        if state.cuda_graphs:
            self.as_graphs(before)
        self.line("t = launched()")
        self.line("recent(note)")
        # Results that routines filled count as filled by this call's ticket, which is drawn last.
        left = (self.values[a].buffer for a in graph.outvars if isinstance(a, Var))
        for name in dict.fromkeys(left):
            if name.startswith("b"):  # filled here, before its ticket was drawn
                self.line(f"if {name}.ticket > t: {name}.ticket = t")
        self.line(f"return [{', '.join(self.result(a) for a in graph.outvars)}]")
        if len(gpus()) > 1:  # launches and pools use the current device of the calling thread
            self.on_device()
        text = "\n".join([f"def plan({', '.join(arguments)}):", *("    " + x for x in self.lines)])
        exec(compile(text, "<plan>", "exec"), self.space)  # noqa: S102 - text made here, of generated names only
        function = self.space.pop("plan")
        function.source = f"{text}\n\n{source}" if source else text
        function.cuda, function.cubin = source, binary
        function.sites = self.sites
        function.steps = Steps(graph.debug_name, text, self.ran, self.holders, self.inside)
        function.fresh = self.fresh()
        function.talks = any(map(talks, graph.eqns))  # then it is a generator
        return function

    def on_device(self) -> None:
        """Make the GPU the current device, but where the program waits for those of other GPUs."""
        self.space["device"] = self.gpu.device
        lines, place, inside = [], {}, False
        for number, line in enumerate(self.lines, 1):
            pauses = bool(_PAUSE.match(line))
            if not pauses and not inside:
                lines.append("with device:")
            inside = not pauses
            lines.append("    " * inside + line)
            place[number] = len(lines)
        self.lines = lines
        self.sites = {place[number]: eqn for number, eqn in self.sites.items()}
        self.ran = {place[number]: step for number, step in self.ran.items()}

    def as_graphs(self, first: int) -> None:
        """Turn lines from `first` on into CUDA graphs, where enough launches follow each other.

        All else (copies, routines, allocations, exchanges) cannot be replayed.
        """
        # Launches end in these arguments.
        numbers = range(first, len(self.lines))
        runs = itertools.groupby(numbers, lambda i: self.lines[i].endswith(", 0, stream)"))
        found = [[*run] for are_launches, run in runs if are_launches]
        # The last one first: lines in front keep their numbers.
        for run in reversed(found):
            if len(run) >= GRAPH_FROM:
                self.as_graph(run[0], run[-1] + 1)

    def as_graph(self, first: int, end: int) -> None:
        """Turn the launches from line `first` to `end` into a CUDA graph.

        They become a function of the addresses, which is recorded and replayed.
        """
        launches = self.lines[first:end]
        # The addresses are the function's arguments: a graph is for one set of them.
        addresses = list(dict.fromkeys(_ADDRESS.findall("\n".join(launches))))
        names = [a.replace(".", "_") for a in addresses]
        body = [_ADDRESS.sub(lambda m: m[0].replace(".", "_"), x) for x in launches]
        text = "\n    ".join([f"def launches(stream, {', '.join(names)}):", *body])
        exec(compile(text, "<plan>", "exec"), self.space)  # noqa: S102 - text made here, of generated names only
        replay = self.bind("replay", Replay(self.space.pop("launches"), self.gpu))
        self.lines[first:end] = [f"{replay}({', '.join(addresses)})"]
        eqn = self.sites[first + 1]
        place = lambda n: n - (n > end) * (end - first - 1)
        self.sites = {place(n): x for n, x in self.sites.items() if not first < n <= end}
        self.ran = {place(n): x for n, x in self.ran.items() if not first < n <= end}
        self.sites[first + 1], self.ran[first + 1] = eqn, "CUDA graph"

    def take_memory(self) -> None:
        """Write the lines that allocate memory, and note where each value is in it."""
        made_by = {v: _first(s) for s, k in self.steps if k is not None for v in step_outputs(s)}
        shared = [v for v, m in self.memory.items() if not m.result]
        if shared:  # even of no elements
            self.line(f"shared = allocate({self.shared_bytes})", made_by[shared[0]])
            self.line("base = shared.ptr")
        # Values of one memory share a name.
        names: dict[int, str] = {}
        for v, memory in self.memory.items():
            if not memory.result:
                self.values[v] = Value("base", memory.offset, "shared")
                continue
            name = names.get(id(memory))
            if name is None:
                name = names[id(memory)] = str(len(names))
                taken = f"allocate({memory.nbytes})"
                if memory.donor is not None:
                    given = f"a{memory.donor}"
                    # Whether a donated input may be overwritten is known at the call.
                    taken = f"{given}.memory if {memory.donor} in owned else {taken}"
                self.line(f"m{name} = {taken}", made_by[v])
                at = f"m{name}.ptr"
                if memory.donor is not None:
                    at = f"a{memory.donor}.pointer if {memory.donor} in owned else {at}"
                self.line(f"p{name} = {at}")
            self.values[v] = Value(f"p{name}", 0, f"m{name}")

    def launch(self, step: DeviceStep, kernel: KernelSource, function: Any) -> None:
        """Write a kernel launch, after copies of operands that it updates in place."""
        eqn, outputs = _first(step), step_outputs(step)
        for output, old in kernel.kernel.aliases.items():
            new, before = self.values[output], self.values[old]
            if (new.base, new.offset) == (before.base, before.offset):
                # The value is there already.
                continue
            move = f"move({new.pointer}, {before.pointer}, {old.aval.nbytes})"
            donor = self.memory[output].donor
            self.line(f"if {donor} not in owned: {move}" if donor is not None else move, eqn)
        # No elements: there is nothing to launch.
        if function is None:
            return
        # Arguments in the order of the kernel's parameters: inputs, outputs, workspace.
        pointers = [self.operand(v, kernel.alignment) for v in kernel.inputs]
        pointers += [self.values[v].pointer for v in outputs]
        # A kernel over many small operands reads their addresses from a table.
        if kernel.table:
            place = dict(zip((*kernel.inputs, *kernel.outputs), pointers, strict=True))
            name, table = f"t{len(self.lines)}", self.bind("table", Table(self.gpu))
            self.line(f"{name} = {table}({', '.join(place[v] for v in kernel.table)})", eqn)
            assert kernel.tiles is not None
            pointers = [f"{name}.pointer", self.constant(kernel.tiles).base]
        # Scratch memory that must be zero at the start; kernels leave it so.
        if kernel.workspace:
            work = self.gpu.zeroed(kernel.workspace)
            self.bind("work", work)
            pointers.append(self.bind("address", work.ptr))
        if state.debug:
            function = announced(function, kernel)
        schedule = kernel.schedule
        grid = self.bind("grid", (schedule.grid, 1, 1))
        block = self.bind("block", (schedule.threads, 1, 1))
        name = self.bind(kernel.name, function)
        self.line(f"{name}({grid}, {block}, ({', '.join(pointers)},), 0, stream)", eqn, step)

    def operand(self, v: Var, alignment: int) -> str:
        """Return the address of an operand, of a copy where it is not aligned as needed."""
        value = self.value(v)
        if value.offset % alignment == 0:
            return value.pointer
        # From here on the aligned copy is the value, so that it is made once.
        name = f"c{len(self.lines)}"
        self.line(f"{name} = {self.buffer(v)}")
        self.values[v] = Value(f"{name}.pointer", 0, f"{name}.memory", name)
        return f"{name}.pointer"

    def view(self, eqn: Eqn) -> None:
        """Note a view: a part of existing memory, or all of it with another shape."""
        source, (v,) = eqn.invars[0], eqn.outvars
        value = self.value(source)
        start = contiguous_offset(eqn) if eqn.primitive.kind is Kind.VIEW else 0
        assert start is not None
        offset = value.offset + start * storage_dtype(v.aval).itemsize
        self.values[v] = Value(value.base, offset, value.owner)

    def call(self, eqn: Eqn) -> None:
        """Write a call of a library routine, a loop, or a Python function."""
        run, _ = self.routines[eqn]
        if talks(eqn):
            return self.exchange(eqn, run)
        function = self.bind("".join(c if c.isalnum() else "_" for c in eqn.primitive.name), run)
        if eqn.primitive.assemble is not None:
            self.holders[function] = eqn
        operands = ", ".join(self.buffer(a) for a in eqn.invars)
        for v in eqn.outvars:
            name = f"b{len(self.values)}"
            self.values[v] = Value(f"{name}.pointer", 0, f"{name}.memory", name)
        names = ", ".join(self.values[v].buffer for v in eqn.outvars)
        comma = "," if eqn.primitive.multiple_results else ""
        self.line(
            f"{names}{comma} = {function}({operands})" if names else f"{function}({operands})",
            eqn,
            eqn,
        )

    def exchange(self, eqn: Eqn, run: Callable[..., Any] | None) -> None:
        """Write a collective: the program stops there until those of all GPUs have come to it.

        A loop or branch that holds one is a program of the same kind, which this one runs.
        """
        operands = ", ".join(self.buffer(a) for a in eqn.invars)
        halves = self.plan.halves.get(id(eqn))
        if halves is not None:
            going = f"h{len(self.space)}"
            self.line(f"{going} = yield {self.bind('asked', halves.start)}, [{operands}]", eqn, eqn)
            self.going[id(eqn)] = going, eqn
            return
        target = self.targets(eqn)
        called = self.bind("asked" if run is None else "run", eqn if run is None else run)
        asked = (
            f"yield {called}, [{operands}]" if run is None else f"yield from {called}({operands})"
        )
        self.line(target + asked, eqn, eqn)

    def targets(self, eqn: Eqn) -> str:
        """Return the left side of a line that gives the results of an exchange."""
        for v in eqn.outvars:
            name = f"b{len(self.values)}"
            self.values[v] = Value(f"{name}.pointer", 0, f"{name}.memory", name)
        names = "".join(f"{self.values[v].buffer}, " for v in eqn.outvars)
        return f"{names}= " if names else ""

    def arrive(self, i: int) -> None:
        """Write the waits for exchanges in progress that have to end before step i."""
        for number in [n for n in self.going if self.plan.halves[n].until <= i]:
            going, eqn = self.going.pop(number)
            asked = self.bind("asked", self.plan.halves[number].wait)
            self.line(f"{self.targets(eqn)}yield {asked}, {going}", eqn, eqn)
            self.line(f"{going} = None")

    def routine(self, eqn: Eqn) -> tuple[Callable[..., Any] | None, frozenset[int]]:
        """Return what runs an equation without a kernel, as a function of Buffers.

        The second result has the numbers of the results for which it allocates memory.
        """
        prim, avals = eqn.primitive, [a.aval for a in eqn.invars]
        every = frozenset(range(len(eqn.outvars)))
        if prim.kind is Kind.COLLECTIVE:  # the engine of the GPUs runs it (peers.py, nccl.py)
            return None, every
        if talks(eqn):
            return lockstep.steps(eqn, self.inside, self.room), frozenset()
        if prim.assemble is not None:  # a branch or loop may pass operands through
            return prim.assemble(avals, self.inside, **eqn.params), frozenset()
        # In this order: a library, parts that a GPU runs, the host.
        found = library.routine(eqn, self.gpu)
        if found is not None:
            return found, every
        if prim.name in library.FRESH:
            return drawing(eqn, self.inside, self.gpu), every
        parts = library.parts(eqn)
        if parts is not None:
            with contextlib.suppress(TypeError):  # not for these operands
                made = self.inside(parts_graph(parts, eqn))
                run = made if prim.multiple_results else lambda *buffers: made(*buffers)[0]
                return run, made.fresh
        # An operation on no elements is not worth a warning.
        nothing = any(a.size == 0 for a in avals)
        if not nothing and prim.name not in library.HOST:
            fall_back(prim.name, "there is neither a kernel nor a routine for it")
        return by_host(eqn, self.gpu), uploaded(eqn.outvars)

    def room(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        """Return memory for the stacked results of a loop."""
        with self.gpu.device:
            return self.gpu.empty(shape, dtype)

    def drop(self, i: int) -> None:
        """Release the Buffers that nothing reads after step i."""
        # Only routines' Buffers have names of their own; the rest is dropped with its allocation.
        dead = [
            value.buffer
            for v, value in self.values.items()
            if value.buffer.startswith("b") and self.last.get(v, -1) == i
        ]
        if dead:
            self.line(f"{' = '.join(dead)} = None")

    def result(self, a: Atom) -> str:
        """Return an output of the plan as a Buffer, as text."""
        value = self.value(a)
        if value.buffer:
            return value.buffer
        assert isinstance(a, Var)
        text = f"Buffer({value.pointer}, {self.typed(a)}, {value.owner}, gpu, t)"
        whole = self.root(a).aval.nbytes == a.aval.nbytes
        return text if whole else f"copy({text})"  # a part would keep all of its memory alive

    def fresh(self) -> frozenset[int]:
        """Return the numbers of outputs whose memory is the plan's own and no other output's."""
        roots = [self.root(a) if isinstance(a, Var) else None for a in self.plan.graph.outvars]
        own = set(self.memory)
        for eqn, (_, numbers) in self.routines.items():
            own |= {eqn.outvars[k] for k in numbers}
        return frozenset(i for i, v in enumerate(roots) if v in own and roots.count(v) == 1)


def _is_view(step: DeviceStep) -> bool:
    """Whether a step changes no memory; random keys are stored as the words they consist of."""
    if not isinstance(step, Eqn):
        return False
    return step.primitive.kind is Kind.VIEW or step.primitive.name in (
        "random_wrap",
        "random_unwrap",
    )


def _first(step: DeviceStep) -> Eqn:
    """Return the equation that errors in a step are reported for."""
    made = step_eqns(step)
    return made[0] if made or isinstance(step, Eqn) else group_in(step).members[0].eqn


def _sizes(values: Sequence[Var]) -> list[int]:
    return [v.aval.size for v in values]


def _note(plan: Plan) -> str:
    """Describe a plan, for an error that may be anywhere in it."""
    seen = dict.fromkeys(f"{e.primitive.name} recorded at {e.site}" for e in plan.graph.eqns)
    return "; ".join(list(seen)[:8]) + ("; ..." if len(seen) > 8 else "")
