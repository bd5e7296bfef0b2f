"""What every form of a kernel has: its head, its workspace, partial results and who merges them.

Floor 3. In: a Kernel. Out: a `Template`, a Writer that can finish a kernel; the files beside it
have one subclass for each way in which threads share the work.
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass, field

import numpy as np

from gpuarray.compiler.cuda.writer import Writer
from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.passes import Pass
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.lower.steps import step_eqns
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import NoCudaRule, Reducer
from gpuarray.core.graph import Var


@dataclass(frozen=True, eq=False)
class KernelSource:
    """One kernel as text for a target, and how to launch it.

    kernel: what it is the text of

    inputs, outputs: the buffers that are its arguments, in this order; after them comes one of
    `workspace` bytes, where that is not 0. It must be zero before the first launch, and is again
    after each.

    threads_meet: whether the threads of a block wait for one another

    table, tiles: of a kernel that stands for many small ones. Where `table` is not empty, the
    arguments are two buffers instead: the addresses of these values (inputs and outputs, some of
    them several times) as 64-bit numbers in this order, and `tiles` as it is, which never changes.
    """

    kernel: Kernel
    text: str
    schedule: Schedule
    inputs: list[Var]
    outputs: list[Var]
    workspace: int = 0
    threads_meet: bool = False
    table: list[Var] = field(default_factory=list)
    tiles: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The name of the kernel in the text."""
        return self.kernel.name

    @property
    def alignment(self) -> int:
        """What the addresses of all buffers must be multiples of."""
        return TARGET.vector_bytes if self.schedule.width > 1 else 1


@dataclass(frozen=True)
class Options:
    """What a text is to be besides right.

    user_lines: comments say where the user wrote what a line does
    aligned: all buffers begin where vectors of 16 bytes may; if not, elements are read and written
    one by one
    overlap: an output may lie in the memory of an input, so nothing is declared `__restrict__`
    """

    user_lines: bool = False
    aligned: bool = True
    overlap: bool = False


#: What compiles to run, where buffers are as ours.
PLAIN = Options()


class Template(Writer, abc.ABC):
    """Lines of one kernel, and the launch they are for; each form has its subclass."""

    def __init__(self, kernel: Kernel, options: Options):
        super().__init__(kernel, options.user_lines)
        self.aligned = options.aligned
        self.restrict = "" if options.overlap else "__restrict__ "
        self.threads_meet = False
        self.shared: dict[str, str] = {}  # arrays in shared memory: name -> declaration

    @abc.abstractmethod
    def source(self) -> KernelSource:
        """The text of the kernel."""

    def width(self) -> int:
        """Elements of a vector access: 1 where buffers may begin anywhere."""
        return super().width() if self.aligned else 1

    # ---- what is read once and used in several loops ----
    def declare_held(
        self,
        name: str,
        loads: dict[tuple, Load],
        width: int,
        count: int,
        place: str,
        shared: bool = False,
    ) -> list[tuple[str, Load]]:
        """Declare room for `count` vectors of each load, in registers or in shared memory; the
        names of the vectors at a place.
        """
        made = []
        for k, load in enumerate(loads.values()):
            source = load.source
            kind = self.vector_of(source, width) if width > 1 else ct.memory_type(source.aval)
            text = f"{kind} {name}{k}" + (f"[{count}]" if count > 1 else "")
            if shared:
                self.shared[f"{name}{k}"] = text
            else:
                self.line(1, f"{text};")
            made.append((f"{name}{k}{place if count > 1 else ''}", load))
        return made

    def declare_carried(
        self, slots: dict[Var, int], width: int, count: int, place: str, shared: bool
    ) -> None:
        """Declare room for `count` vectors in each slot; a value that has one is kept there, where
        it is computed, for later loops.
        """
        declared: set[int] = set()
        for v, k in slots.items():
            kind = self.vector_of(v, width) if width > 1 else ct.memory_type(v.aval)
            text = f"{kind} kept{k}" + (f"[{count}]" if count > 1 else "")
            if shared:
                self.shared[f"kept{k}"] = text
            elif k not in declared:
                self.line(1, f"{text};")
            declared.add(k)
            element = ".v[e]" if width > 1 else ""
            self.carried[v] = f"kept{k}{place if count > 1 else ''}{element}"

    def read_held(self, room: list[tuple[str, Load]], width: int) -> None:
        """Read into what was declared; from here on elements come from there."""
        for name, load in room:
            text = self.vector_read(load, width, 2) if width > 1 else self.raw(load)
            self.line(2, f"{name} = {text};")
            self.registers[load.key, load.dims] = name

    def raw(self, load: Load) -> str:
        """One element of an input as it is in memory."""
        return f"{self.in_name[load.source]}[{self.at(self.load_index(load))}]"

    def read(self, load: Load) -> str:
        held = self.registers.get((load.key, load.dims))
        if held is None:
            return super().read(load)
        return f"ga_value({held})" if ct.is_half(load.source.aval) else held

    def can_hold(self, load: Load, width: int) -> bool:
        """Whether elements differ along the innermost axis, and come from memory as they are."""
        if width > 1:
            return self.is_vector(load)
        return not self.is_inlined(load) and not self.is_constant_along(load)

    def declare_partials(self, one: Pass) -> dict[Var, str]:
        """Declare a partial result for each reduction of a pass."""
        found: dict[Var, str] = {}
        for v in one.partial:
            name = found[v] = f"r{self.count}"
            self.count += 1
            reducer = self.reducer(v)
            line = f"{reducer.state} {name} = {reducer.identity};"
            self.line(1, line, self.comment(reducer.eqn, ""))
        return found

    def reduce_over_block(self, v: Var, name: str, s: Schedule) -> None:
        """Merge the partial results of all threads of a block."""
        self.threads_meet = True
        reducer, warps = self.reducer(v), s.threads // 32
        call = f"{name}, {self.shared_array(reducer.state, warps)}, {reducer.merger}"
        self.line(1, f"{name} = ga_block_reduce<{warps}>({call});")

    def finish_reduction(self, v: Var, name: str) -> None:
        """The finished reduction as a value of its declared dtype."""
        self.names[v] = name
        result = self.reducer(v).finish(name)
        if result != name:
            self.names[v] = f"v{self.count}"
            self.count += 1
            self.line(1, f"const {ct.value_type(v.aval)} {self.names[v]} = {result};")

    def write_reduced(self, passes: list[Pass], who: str) -> None:
        """Outputs over the parallel space alone: one thread of each row writes them."""
        rest = [v for v in self.outputs if not any(v in p.stored for p in passes)]
        if rest:
            self.line(1, f"if ({who}) {{")
            for v in rest:
                self.write(2, v)
            self.line(1, "}")

    def set_order(self, order: list[int]) -> None:
        """Go over the axes in another order, from the slowest to the fastest."""
        self.order = order
        self.axis_name = {i: f"i{k}" for k, i in enumerate(order)}
        self.whole = self.position_along(order)
        self.last = order[-1] if order else None

    def spaces(self) -> tuple[list[int], list[int]]:
        """The axes of the parallel space and of the reduced one, from the slowest to the fastest in
        memory.
        """
        gone = self.group.reduced
        return [i for i in self.order if i not in gone], [i for i in self.order if i in gone]

    def shared_array(self, state: str, length: int) -> str:
        """An array in shared memory for partial results of a type, the same for all of them."""
        for name, declaration in self.shared.items():
            if declaration == f"{state} {name}[{length}]":
                return name
        name = f"part{len(self.shared)}"
        self.shared[name] = f"{state} {name}[{length}]"
        return name

    def state_bytes(self, passes: list[Pass]) -> int:
        """Shared memory for a partial result of each type, for one thread or warp."""
        kinds = {self.reducer(v).state: self.reducer(v).bytes for p in passes for v in p.partial}
        return sum(kinds.values())

    def reducer(self, v: Var) -> Reducer:
        return Reducer(self.group.made[v].eqn)

    def partials_at(self, start: int) -> str:
        """Where the partial results of a reduction begin."""
        return f"work + {self.number(start)}" if start else "work"

    def merge_blocks(
        self,
        states: dict[Var, str],
        s: Schedule,
        slots: tuple[str, str, str],
        rows: int,
        many: int,
        which: str,
        steps: tuple[str, int],
    ) -> int:
        """Leave partial results in the workspace; only the last block of a row goes on, and merges
        them in the order of the blocks. Returns the bytes of the workspace.

        slots: who writes, into which slot, and the slot of block `b` of the same row
        rows, many, which: how many have a ticket each, of how many results, and the offset of
        this one's
        steps: where a thread starts to merge, and how far its next block is
        """
        self.threads_meet = True
        writes, own, other = slots
        room = rows * many * s.splits * TARGET.slot_bytes
        slot_of = {v: -(-self.reducer(v).bytes // TARGET.slot_bytes) for v in states}
        starts = list(itertools.accumulate((n * room for n in slot_of.values()), initial=0))
        tickets = starts.pop()
        self.line(1, f"if ({writes}) {{")
        for start, (v, name) in zip(starts, states.items(), strict=True):
            put = "ga_put" if slot_of[v] == 1 else f"ga_put<{slot_of[v] * TARGET.slot_bytes}>"
            self.line(2, f"{put}({self.partials_at(start)}, {own}, {name});")
        self.line(2, "__threadfence();")
        self.line(1, "}")
        self.line(1, "__shared__ bool last;")
        if writes != "threadIdx.x == 0":  # the one that takes the ticket knows what it wrote
            self.line(1, "__syncthreads();")
        counter, top = f"(unsigned*)(work + {self.number(tickets)}){which}", f"{s.splits - 1}u"
        self.line(1, "// The ticket wraps to 0, ready for the next launch.")
        self.line(1, f"if (threadIdx.x == 0) last = atomicInc({counter}, {top}) == {top};")
        self.line(1, "__syncthreads();")
        self.line(1, "if (!last) return;")
        self.line(1, "__threadfence();")
        first, step = steps
        for start, (v, name) in zip(starts, states.items(), strict=True):
            reducer = self.reducer(v)
            self.line(1, f"{name} = {reducer.identity};")
            if s.splits > 8 * step:  # ask for several before waiting for one
                self.line(1, "#pragma unroll 8")
            self.line(1, f"for (unsigned b = {first}; b < {s.splits}u; b += {step}u) {{")
            far = "" if slot_of[v] == 1 else f", {slot_of[v] * TARGET.slot_bytes}"
            got = f"ga_get<{reducer.state}{far}>({self.partials_at(start)}, {other})"
            self.line(2, f"{name} = {reducer.merge(name, got)};")
            self.line(1, "}")
        return tickets + -(-4 * rows // TARGET.slot_bytes) * TARGET.slot_bytes

    def finish(self, schedule: Schedule, note: str, workspace: int = 0) -> KernelSource:
        """The lines so far as a kernel."""
        if schedule.grid > TARGET.most_blocks:
            raise NoCudaRule(
                f"{self.kernel.name} would be {schedule.grid} blocks, and a launch has at most "
                f"{TARGET.most_blocks}: work on a part of the array at a time"
            )
        name = self.kernel.name
        formulas = ", ".join(e.primitive.name for e in step_eqns(self.group))
        ins = [f"{self.in_name[v]} {v.aval.str_short(True)}" for v in self.inputs]
        outs = [f"{self.out_name[v]} {v.aval.str_short(True)}" for v in self.outputs]
        moved = sum(v.aval.nbytes for v in (*self.inputs, *self.outputs))
        params = [
            f"const {ct.memory_type(v.aval)}* {self.restrict}{self.in_name[v]}" for v in self.inputs
        ]
        params += [
            f"{ct.memory_type(v.aval)}* {self.restrict}{self.out_name[v]}" for v in self.outputs
        ]
        if workspace:
            params.append("unsigned char* work")
        self.drop_unused()
        shared = [f"    __shared__ {text};" for text in self.shared.values()]
        head = [
            f"// {name}: {formulas}",
            f"//   {', '.join(ins) or 'no inputs'} -> {', '.join(outs)}    {moved} bytes",
            f"//   {note}; {schedule.grid} x {schedule.threads} threads",
            f'extern "C" __global__ void __launch_bounds__({schedule.threads}) {name}(',
            "    " + ",\n    ".join(params) + ") {",
        ]
        text = "\n".join([*head, *shared, *self.lines, "}"]) + "\n"
        return KernelSource(
            self.kernel,
            text,
            schedule,
            self.inputs,
            self.outputs,
            workspace,
            self.threads_meet,
        )
