"""Plans as Python functions that launch kernels.

Floor 4. In: a Plan and a GPU. Out: a function on Buffers, generated once, as in the NumPy backend:
it computes addresses, allocates memory, launches kernels in order, and returns results while they
are still being computed.

Values between kernels share one allocation, which is divided when the function is written: a value
reuses the memory of others that are no longer read. Results have separate memory; donated inputs
give theirs if a kernel may overwrite what it reads.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.backends.cuda import device, graphs, library, timeline, turns
from gpuarray.backends.cuda.device import ALIGNMENT, UNDRAWN, Buffer, Gpu
from gpuarray.backends.cuda.graphs import Replay
from gpuarray.backends.cuda.kernels import Loaded, Table, announced, load
from gpuarray.backends.cuda.substitutes import (
    by_host,
    drawing,
    fall_back,
    parts_graph,
    uploaded,
    whole_on_host,
)
from gpuarray.backends.placement import Placement
from gpuarray.backends.writer import ProgramWriter
from gpuarray.compiler.cuda.emit import KernelSource, Options, emit
from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import group_in, step_eqns, step_outputs
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.config import state
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype, talks
from gpuarray.core.index import contiguous_offset
from gpuarray.core.primitive import Kind, NoKernel
from gpuarray.core.target import TARGET, has_tensor_cores
from gpuarray.util import Struct

#: The names of addresses in a generated function.
_ADDRESS = re.compile(r"\b[abct]\d+\.pointer\b|\bp\d+\b|\bbase\b")
#: How lines end that launch a kernel: all other steps cannot be replayed.
_LAUNCH = re.compile(r", \d+, stream\)$")
#: A line at which the program of one GPU stops until all have reached it.
_PAUSE = re.compile(r"(b\d+, |h\d+ )*(= )?yield ")


def build(
    plan: Plan,
    consts: Sequence,
    donated: frozenset[int] = frozenset(),
    *,
    gpu: Gpu,
    inside: InnerFunctions | None = None,
) -> Callable[..., list]:
    """Return a function from Buffers on a GPU to a list of Buffers.

    With donated inputs it takes one more argument: the set of those that may be overwritten. The
    function of a plan with collectives is a generator (backends/lockstep.py): the results sent to
    it have separate memory, filled in the order of the GPU's stream.
    """
    on_device = plan.on_device
    try:
        options = Options(tensor_cores=has_tensor_cores(gpu.arch))
        steps = enumerate(on_device.steps)
        kernels = {i: emit(s, options) for i, s in steps if not isinstance(s, Eqn)}
    except NoKernel as error:  # no rule, or a dtype without a type in CUDA
        fall_back(", ".join(e.primitive.name for e in plan.graph.eqns), error)
        return whole_on_host(plan, consts, donated, gpu)
    nested, inside = inside is not None, inside or InnerFunctions(gpu)
    return CudaProgramWriter(on_device, kernels, consts, donated, gpu, inside, nested).function()


class InnerFunctions:
    """Makes functions of the Graphs in a plan (branches, loop bodies, parts), each once.

    They live as long as the plan's function. GPUs that run one program share `plans`: they stop at
    the same equations. `load` makes functions of kernels; `graphs` allows CUDA graphs;
    `recordable`: libraries are called that can be while a graph is recorded.
    """

    def __init__(
        self,
        gpu: Gpu,
        plans: dict[Graph, Plan] | None = None,
        load: Callable[..., Loaded] = load,
        graphs: bool = True,
        recordable: bool = False,
    ):
        self.gpu, self.load, self.graphs, self.recordable = gpu, load, graphs, recordable
        self._plans = {} if plans is None else plans
        self._made: dict[tuple, Callable[..., list]] = {}

    def plan(self, graph: Graph, overlaps: bool = False) -> Plan:
        """Return the plan of a Graph, made once."""
        if graph not in self._plans:
            self._plans[graph] = plan_graph(graph)
        plan = self._plans[graph]
        # GPUs stop at the same halves of exchanges: the plan keeps the one that has them.
        return plan.on_device.overlapped if overlaps else plan

    @functools.cached_property
    def turns(self) -> InnerFunctions:
        """The same for bodies of loops: whether an iteration is recorded or not, it gives the same
        bits, so it calls the same libraries.
        """
        if self.recordable:
            return self
        return InnerFunctions(self.gpu, self._plans, self.load, self.graphs, recordable=True)

    def recorded(self, room: Gpu) -> InnerFunctions:
        """Return the same for programs that launch into a graph."""
        return InnerFunctions(room, self._plans, self.load, graphs=False, recordable=True)

    def __call__(
        self, graph: Graph, donated: frozenset[int] = frozenset(), overlaps: bool = False
    ) -> Callable[..., list]:
        key = (graph, donated, overlaps)
        if key not in self._made:
            plan = self.plan(graph, overlaps)
            self._made[key] = build(plan, plan.graph.consts, donated, gpu=self.gpu, inside=self)
        return self._made[key]


class _Value(Struct):
    """Location of a value as text: its address, the owner of the memory, its Buffer if any."""

    base: str
    offset: int
    owner: str
    buffer: str = ""

    @property
    def pointer(self) -> str:
        return f"{self.base} + {self.offset}" if self.offset else self.base


# ---- the generated function ----
class CudaProgramWriter(ProgramWriter):
    """Writes plans whose groups are kernels; `kernels` has their texts by the steps' numbers."""

    def __init__(
        self,
        plan: Plan,
        kernels: dict[int, KernelSource],
        consts: Sequence,
        donated: frozenset[int],
        gpu: Gpu,
        inside: InnerFunctions,
        nested: bool = False,
    ):
        super().__init__(plan, donated, inside)
        self.inside: InnerFunctions = inside
        self.gpu, self.kernels, self.nested = gpu, kernels, nested
        self.load, self.clock = inside.load, functools.partial(timeline.of, gpu)
        # Names that every plan uses.
        self.space |= {
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
        # The addresses of inputs and constants, and the routines of equations that are not views.
        graph = plan.graph
        self.values: dict[Var, _Value] = {}
        for i, v in enumerate(graph.invars):
            self.values[v] = _Value(f"a{i}.pointer", 0, f"a{i}.memory", f"a{i}")
        for v, c in zip(graph.constvars, consts, strict=True):
            self.values[v] = self.constant(np.asarray(c).astype(storage_dtype(v.aval), copy=False))
        calls = (s for s in self.steps if isinstance(s, Eqn) and not self.is_view(s))
        self.routines = {e: self.found(e) for e in calls if not talks(e)}
        self.placement = Placement(graph, kernels, self.lifetimes, donated)
        # Their texts must not declare that outputs do not alias inputs.
        for i in self.placement.overlapping:
            options = Options(overlap=True, tensor_cores=has_tensor_cores(gpu.arch))
            kernels[i] = emit(kernels[i].kernel, options)

    # ---- values ----
    def constant(self, value: np.ndarray) -> _Value:
        """Upload a value that stays on the GPU as long as the function."""
        # `space` holds the Buffer, so its address stays valid.
        buffer = self.gpu.upload(value)
        name = self.bind("const", buffer)
        return _Value(self.bind("address", buffer.pointer), 0, f"{name}.memory", name)

    def typed(self, v: Var) -> str:
        """Return shape and dtype of a value, as text."""
        shape = self.bind("shape", v.aval.shape)
        return f"{shape}, {self.bind('dtype', storage_dtype(v.aval))}"

    def value(self, a: Atom) -> _Value:
        if isinstance(a, Literal):
            return self.constant(np.asarray(a.val).astype(storage_dtype(a.aval)))
        return self.values[a]

    def operand(self, a: Atom) -> str:
        value = self.value(a)
        if value.buffer:
            return value.buffer
        assert isinstance(a, Var)
        text = f"Buffer({value.pointer}, {self.typed(a)}, {value.owner}, gpu, UNDRAWN)"
        # A Buffer must be aligned: a part that is not is copied.
        return f"copy({text})" if value.offset % ALIGNMENT else text

    def name(self, v: Var) -> str:
        name = f"b{len(self.values)}"
        self.values[v] = _Value(f"{name}.pointer", 0, f"{name}.memory", name)
        return name

    # ---- the function ----
    def function(self) -> Callable[..., list]:
        # Kernels without elements are never launched. The plan's kernels are compiled together.
        self.loaded = self.load(launched(self.kernels.values()), self.gpu)
        function: Any = super().function()
        self.space["code"] = self.loaded.code
        if self.loaded.source:
            function.source += f"\n\n{self.loaded.source}"
        function.cuda, function.cubin = self.loaded.source, self.loaded.binary
        return function

    def write(self) -> None:
        self.take_memory()
        # Only launches may become a CUDA graph.
        before = len(self.lines)
        self.write_steps()
        if graphs.wanted() and self.inside.graphs:
            self.as_graphs(before)
        self.line("t = launched()")
        self.line("recent(note)")
        # Results that routines filled count as filled by this call's ticket, which is drawn last.
        left = (self.values[a].buffer for a in self.graph.outvars if isinstance(a, Var))
        for name in dict.fromkeys(left):
            if name.startswith("b"):  # filled here, before its ticket was drawn
                self.line(f"if {name}.ticket > t: {name}.ticket = t")
        self.write_return()
        if (
            device.current_may_differ()
        ):  # launches and pools use the current device of the calling thread
            self.on_device()

    def on_device(self) -> None:
        """Make the GPU the current device, except while the program waits for those of other
        GPUs.
        """
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
        # Line numbers have changed, and so have the notes by line.
        self.sites = {place[number]: eqn for number, eqn in self.sites.items()}
        self.ran = {place[number]: step for number, step in self.ran.items()}

    def as_graphs(self, first: int) -> None:
        """Turn lines from `first` on into CUDA graphs, where enough launches follow each other.

        All else (copies, routines, allocations, exchanges) cannot be replayed.
        """
        numbers = range(first, len(self.lines))
        runs = itertools.groupby(numbers, lambda i: bool(_LAUNCH.search(self.lines[i])))
        found = [[*run] for are_launches, run in runs if are_launches]
        # A loop's body runs often, so even few launches are worth a graph there.
        if not self.nested and sum(map(len, found)) < TARGET.graph_kernels:
            return
        # The last one first: lines in front keep their numbers.
        for run in reversed(found):
            if len(run) >= TARGET.graph_run:
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
        function = util.function_of_text(text, "<plan>", self.space)
        replay = self.bind("replay", Replay(function, self.gpu))
        self.lines[first:end] = [f"{replay}({', '.join(addresses)})"]
        eqn = self.sites[first + 1]
        # Lines after removed ones move up.
        place = lambda n: n - (n > end) * (end - first - 1)
        self.sites = {place(n): x for n, x in self.sites.items() if not first < n <= end}
        self.ran = {place(n): x for n, x in self.ran.items() if not first < n <= end}
        self.sites[first + 1], self.ran[first + 1] = eqn, "CUDA graph"

    def take_memory(self) -> None:
        """Write the lines that allocate memory, and note where each value is in it."""
        made_by = {v: _first(self.steps[i]) for i, k in self.kernels.items() for v in k.outputs}
        pieces = self.placement.pieces
        # Values in the same memory share a name.
        names: dict[int, str] = {}
        # Memory freed last is reused first: then repeated calls get the same addresses, which
        # graphs need. A call's results are dropped one by one, after the memory that it shared.
        for v, memory in reversed(pieces.items()):
            if not memory.result:
                self.values[v] = _Value("base", memory.offset, "shared")
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
            self.values[v] = _Value(f"p{name}", 0, f"m{name}")
        shared = [v for v, m in pieces.items() if not m.result]
        if shared:  # even of no elements
            taken = f"allocate({self.placement.shared_bytes})"
            self.line(f"shared = {taken}", made_by[shared[0]])
            self.line("base = shared.ptr")

    # ---- steps ----
    def kernel(self, number: int, step: DeviceStep) -> None:
        """Write a kernel launch, after copies of operands that it updates in place."""
        kernel = self.kernels[number]
        function = self.loaded.functions.get(kernel.name)
        eqn, outputs = _first(step), step_outputs(step)
        for output, old in kernel.kernel.aliases.items():
            new, before = self.values[output], self.values[old]
            if (new.base, new.offset) == (before.base, before.offset):
                # The value is there already.
                continue
            move = f"move({new.pointer}, {before.pointer}, {old.aval.nbytes})"
            donor = self.placement.pieces[output].donor
            self.line(f"if {donor} not in owned: {move}" if donor is not None else move, eqn)
        # No elements: no launch.
        if function is None:
            return
        # Arguments in the order of the kernel's parameters: inputs, outputs, workspace.
        pointers = [self.address(v, kernel.alignment) for v in kernel.inputs]
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
        pointers += map(str, self.loaded.lengths[kernel.name])
        if state.debug:
            function = announced(function, kernel)
        schedule = kernel.schedule
        grid = self.bind("grid", (schedule.grid, 1, 1))
        block = self.bind("block", (schedule.threads, 1, 1))
        name, room = self.bind(kernel.name, function), self.loaded.rooms.get(kernel.name, 0)
        self.line(f"{name}({grid}, {block}, ({', '.join(pointers)},), {room}, stream)", eqn, step)

    def address(self, v: Var, alignment: int) -> str:
        """Return the address of an operand, of a copy where it is not aligned as needed."""
        value = self.value(v)
        if value.offset % alignment == 0:
            return value.pointer
        # From here on the aligned copy is the value, so that it is made once.
        name = f"c{len(self.lines)}"
        self.line(f"{name} = {self.operand(v)}")
        self.values[v] = _Value(f"{name}.pointer", 0, f"{name}.memory", name)
        return f"{name}.pointer"

    def is_view(self, eqn: Eqn) -> bool:
        if eqn.primitive.kind is Kind.VIEW:
            # Of elements that no kernel moves, parts that do not lie together are copied.
            return contiguous_offset(eqn) is not None
        return eqn.primitive.same_bytes

    def view(self, eqn: Eqn) -> None:
        """Note a view: a part of existing memory, or all of it with another shape."""
        start = contiguous_offset(eqn) if eqn.primitive.kind is Kind.VIEW else 0
        assert start is not None
        for v, source in zip(eqn.outvars, eqn.invars):
            value = self.value(source)
            offset = value.offset + start * storage_dtype(v.aval).itemsize
            self.values[v] = _Value(value.base, offset, value.owner)

    def routine(self, eqn: Eqn) -> Callable[..., Any]:
        run, _ = self.routines[eqn]
        return run

    def own(self, eqn: Eqn) -> Collection[int]:
        if eqn.primitive.kind is Kind.COLLECTIVE:  # the engine of the GPUs runs it
            return range(len(eqn.outvars))
        # A loop that holds one returns its body's results.
        return () if talks(eqn) else self.routines[eqn][1]

    def found(self, eqn: Eqn) -> tuple[Callable[..., Any], Collection[int]]:
        """Return the implementation of an equation, as a function of Buffers.

        The second result has the numbers of the results for which it allocates memory.
        """
        prim, avals = eqn.primitive, [a.aval for a in eqn.invars]
        every = range(len(eqn.outvars))
        if prim.assemble is not None:  # a branch or loop may pass operands through
            make = functools.partial(prim.assemble, avals, **eqn.params)
            if graphs.wanted() and self.inside.graphs:
                return turns.recorded(eqn, make, self.inside), frozenset()
            return make(self.inside), frozenset()
        # In this order: a library, parts that a GPU runs, the host.
        parts = library.parts(eqn)

        def instead() -> Callable[..., list]:
            assert parts is not None
            return self.inside(parts_graph(parts, eqn))

        found = library.routine(eqn, self.gpu, instead, self.inside.recordable)
        if found is not None:
            return found, every
        if prim.name in library.FRESH:
            return drawing(eqn, self.inside, self.gpu), every
        if parts is not None:
            with contextlib.suppress(NoKernel):  # not for these operands
                made = self.inside(parts_graph(parts, eqn))
                run = made if prim.multiple_results else lambda *buffers: made(*buffers)[0]
                return run, made.fresh
        # An operation on no elements is not worth a warning.
        nothing = any(a.size == 0 for a in avals)
        if not nothing and library.host_reason(eqn) is None:
            fall_back(prim.name, "there is neither a kernel nor a routine for it")
        return by_host(eqn, self.gpu), uploaded(eqn.outvars)

    def room(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        """Return memory for the stacked results of a loop."""
        with self.gpu.device:
            return self.gpu.empty(shape, dtype)

    def dead(self, number: int) -> list[str]:
        # Only routines' Buffers have separate names; the rest is dropped with its allocation.
        last = self.lifetimes.last
        return [
            value.buffer
            for v, value in self.values.items()
            if value.buffer.startswith("b") and last.get(v, -1) == number
        ]

    def result(self, a: Atom) -> str:
        value = self.value(a)
        if value.buffer:
            return value.buffer
        assert isinstance(a, Var)
        text = f"Buffer({value.pointer}, {self.typed(a)}, {value.owner}, gpu, t)"
        whole = self.lifetimes.is_whole(a)
        return text if whole else f"copy({text})"  # a part would keep all of its memory alive


def launched(kernels: Iterable[KernelSource]) -> list[KernelSource]:
    """Return the kernels that have something to do."""
    return [k for k in kernels if any(v.aval.size for v in k.outputs)]


def _first(step: DeviceStep) -> Eqn:
    """Return the equation that errors in a step are reported for."""
    made = step_eqns(step)
    return made[0] if made or isinstance(step, Eqn) else group_in(step).members[0].eqn


def _note(plan: Plan) -> str:
    """Describe a plan, for an error that may be anywhere in it."""
    seen = dict.fromkeys(f"{e.primitive.name} recorded at {e.site}" for e in plan.graph.eqns)
    return "; ".join(list(seen)[:8]) + ("; ..." if len(seen) > 8 else "")
