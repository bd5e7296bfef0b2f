"""Steps of a plan as one C++ function: kernels, small products; loops.py adds loops and branches.

Floor 3. In: consecutive steps. Out: a `Routine`. Values between its steps are local arrays, or
pieces of one block of memory supplied by the caller.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from gpuarray.compiler.lower.kernel import DeviceStep, Kernel, NoKernel, Scatter
from gpuarray.compiler.lower.lifetimes import Lifetimes
from gpuarray.compiler.lower.steps import contiguous_view, step_inputs, step_outputs
from gpuarray.compiler.native.blocks import (
    TaskCall,
    as_many_each,
    batch_by_batch,
    one_after_another,
)
from gpuarray.compiler.native.code import Code
from gpuarray.compiler.native.emit import emit
from gpuarray.compiler.native.integers import IntegerProduct, integer_product
from gpuarray.compiler.native.products import product_call
from gpuarray.compiler.native.room import Room
from gpuarray.compiler.native.sorts import ordering
from gpuarray.compiler.native.transforms import transform_calls
from gpuarray.compiler.native.windows import window_calls
from gpuarray.compiler.text import types as ct
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype
from gpuarray.core.target import PROCESSOR
from gpuarray.util import Struct


class Routine(Struct, eq=False):
    """A C++ function that runs several steps of a plan.

    Attributes
    ----------
    inputs, outputs :
        The arrays that are its arguments, in this order.
    constants :
        Arrays that are arguments after the inputs.
    room :
        Bytes for values between steps, the last argument if there are any.
    kernels :
        How many there are in it.
    work :
        Operations on elements, roughly.
    loops :
        Whether it has any, so that it releases Python's lock itself.
    """

    form: ClassVar[str] = "routine"

    name: str
    text: str
    inputs: list[Var]
    outputs: list[Var]
    constants: list[Any]
    room: int
    kernels: int
    work: float
    loops: bool


class Near(NamedTuple):
    """A value that only the steps of a chain read: blocks of it, or all of it, in memory."""

    name: str
    kind: str
    elements: int
    itemsize: int


class StepsWriter(Code):
    """Writes one function; `planned` gives the plan of a Graph that a step holds."""

    def __init__(
        self,
        name: str,
        planned: Callable[[Graph], Any],
        over: Iterable[Var] = (),
        user_lines: bool = False,
    ):
        super().__init__()
        self.name, self.planned, self.user_lines = name, planned, user_lines
        self.functions: list[str] = []  # names of the kernels
        self.literals: list[str] = []  # literals in memory
        self.places: dict[Var, str] = {}  # values, as pointers to their first elements
        self.inputs: list[Var] = []
        self.constants: list[Any] = []
        self.constant_types: list[str] = []
        self.room = Room()
        self.count = self.kernels = self.inside = self.loops = 0
        self.over = {*over}  # updates that are written into their operand
        # results of steps that neither another step nor the caller reads
        self.unread: set[Var] = set()
        self.length = 0  # elements of a loop that goes over blocks of them
        self.shared = False  # whether such blocks have shared memory
        self.chain: list[TaskCall] = []  # calls that alternate
        self.left = 0  # steps of a chain that are to come
        self.batches = 0  # batches that go through a chain; 0: blocks of elements do
        self.batch_tasks: list[int] = []  # the tasks of its steps then
        self.within: set[Var] = set()  # values that only its steps read
        self.near: list[Near] = []  # memory for these
        self.work = 0.0

    def routine(self, steps: Sequence[DeviceStep], outputs: list[Var]) -> Routine:
        """The function of some steps, which writes `outputs`."""
        self.write(steps, outputs, [f"out{i}" for i in range(len(outputs))])
        given = [
            *((f"const {ct.memory_type(v.aval)}*", f"in{i}") for i, v in enumerate(self.inputs)),
            *((f"const {kind}*", f"const{i}") for i, kind in enumerate(self.constant_types)),
            *((f"{ct.memory_type(v.aval)}*", f"out{i}") for i, v in enumerate(outputs)),
            *([("char*", "room")] if self.room.bytes else []),
        ]
        arrays = ", ".join(f"ga_array* {name}" for _, name in given)
        plain = ", ".join(name for _, name in given)
        data = ", ".join(f"({kind}){name}->data" for kind, name in given)
        # Two functions: the steps on plain pointers, and the one that Python calls with arrays.
        # Where an array is not as it should be, or the stack too small, this returns why before
        # anything has run.
        text = [
            *self.functions,
            f"static int {self.name}_steps(",
            "    "
            + ",\n    ".join(["ga_call& call", *(f"{k} {name}" for k, name in given)])
            + ") {",
            *self.literals,
            *self.lines,
            "    return 0;",
            "}",
            f"GA_CALLED int call_{self.name}({arrays}) {{",
            f"    if (const int why = ga_refused({plain})) return why;",
            "    ga_call call;",
            f"    return {self.name}_steps(call, {data});",
            "}",
        ]
        return Routine(
            self.name,
            "\n".join(text) + "\n",
            self.inputs,
            outputs,
            self.constants,
            self.room.bytes,
            self.kernels,
            self.work,
            bool(self.loops),
        )

    # ---- values ----
    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def place(self, a: Atom) -> str:
        """A value as a pointer; one that no step has made is an input."""
        if isinstance(a, Literal):
            # A literal is an array of one element, so that functions take only pointers.
            name, kind = self.new("lit"), ct.memory_type(a.aval)
            value = ct.constant(a.val, a.aval)
            value = f"ga_exact<{kind}>({value})" if ct.is_half(a.aval) else value
            self.literals.append(f"    const {kind} {name}[1] = {{{value}}};")
            return name
        if a not in self.places:
            self.places[a] = f"in{len(self.inputs)}"
            self.inputs.append(a)
        return self.places[a]

    def is_argument(self, place: str) -> bool:
        """Whether a place is the memory of one of the inputs."""
        return place in {f"in{i}" for i in range(len(self.inputs))}

    def constant(self, value: Any, aval: ShapedArray) -> str:
        """An array of a Graph inside a step, as an argument: the caller passes it."""
        self.constants.append(value)
        self.constant_types.append(ct.memory_type(aval))
        return f"const{len(self.constants) - 1}"

    def buffer(self, kind: str, elements: int, size: int) -> str:
        """Memory for a value in the scope of these lines: a local array, or a piece of the room."""
        name = self.new("b")
        if self.length and elements == self.length:
            self.line_of_block(kind, name, PROCESSOR.block)
        elif elements * size <= PROCESSOR.local_bytes:
            self.line(f"GA_LOCAL {kind} {name}[{max(1, elements)}];")
        else:
            self.in_room(kind, name, elements * size)
        return name

    def in_room(self, kind: str, name: str, nbytes: int) -> None:
        """A piece of the room, which `room.free` gives back."""
        self.shared |= self.length > 0
        at = self.room.take(name, nbytes)
        self.line(f"{kind}* const {name} = ({kind}*)(room + {at});")

    def line_of_block(self, kind: str, name: str, block: int) -> None:
        """Memory for the elements of a block: positions are those in the whole array, of which only
        the block's own exist.
        """
        self.line(f"GA_LOCAL {kind} of_{name}[{block}];")
        self.line(f"{kind}* const {name} = of_{name} - first;")

    def buffer_for(self, aval: ShapedArray) -> str:
        return self.buffer(ct.memory_type(aval), aval.size, storage_dtype(aval).itemsize)

    def copy(self, to: str, what: str, elements: int) -> None:
        """Write a copy of a value; inside a loop over blocks, of the block's part of it."""
        if self.length and elements == self.length:
            self.line(f"ga_copy_block({to}, {what}, first, last);")
        else:
            self.line(f"ga_copy<{elements}>({to}, {what});")

    # ---- steps ----
    def write(
        self,
        steps: Sequence[DeviceStep],
        results: Sequence[Atom],
        wanted: Sequence[str | None],
    ) -> list[str]:
        """Write steps; return where the results are: where they are wanted, or anywhere."""
        # A view of contiguous elements moves nothing: it is a pointer into its operand.
        lives = Lifetimes(results, steps, _is_pointer, lambda eqn: range(len(eqn.outvars)))
        # Sorts and matrix routines skip unread results if they can.
        read = {v for step in steps for v in step_inputs(step)}
        self.unread |= lives.owned - read - {a for a in results if isinstance(a, Var)}
        over = self.updates_of(steps, lives)
        targets = self.targets_of(results, wanted, lives, over)
        free: list[str] = []
        for number, step in enumerate(steps):
            pair = contiguous_view(step)
            if pair is not None:
                v, a, offset = pair
                at = self.place(a)
                self.places[v] = f"({at} + {offset})" if offset else at
                continue
            self.open_chain(steps, number, lives)
            # An update in place has the memory of its operand, unless both are wanted elsewhere.
            taken = {v: over[v] for v in step_outputs(step) if v in over and v not in targets}
            own = {**targets, **{v: self.places[a] for v, a in taken.items()}}
            self.step(step, own)
            # The memory of values that this step is the last to read is reused by later steps.
            for v in map(lives.root, (*step_outputs(step), *step_inputs(step))):
                gone = v in lives.owned and lives.last.get(v, number) == number
                if gone and v not in targets and v not in taken.values() and v in self.places:
                    free.append(self.places[v])
            # Not before the end of a chain: its steps alternate.
            if self.close_chain():
                for at in free:
                    self.room.free(at)
                free = []
        # Other results are copied there.
        found: list[str] = []
        for a, where in zip(results, wanted, strict=True):
            at = self.place(a)
            if where is not None and at != where:
                self.copy(where, at, a.aval.size)
                at = where
            found.append(at)
        return found

    def updates_of(self, steps: Sequence[DeviceStep], lives: Lifetimes) -> dict[Var, Var]:
        """Updates of values that nothing else reads later, which are written into their memory."""
        over: dict[Var, Var] = {}
        for number, step in enumerate(steps):
            if not isinstance(step, Scatter):
                continue
            ((v, operand),) = step.aliases.items()
            alone = operand in lives.owned and lives.last[operand] == number
            if alone and all(lives.root(x) is not operand for x in emit(step).inputs):
                over[v] = operand
        return over

    def targets_of(
        self,
        results: Sequence[Atom],
        wanted: Sequence[str | None],
        lives: Lifetimes,
        over: dict[Var, Var],
    ) -> dict[Var, str]:
        """The values that are computed directly in the memory of a result."""
        targets: dict[Var, str] = {}
        for a, where in zip(results, wanted, strict=True):
            if not isinstance(a, Var) or where is None or not lives.is_whole(a):
                continue
            v = lives.root(a)
            if v in lives.owned:
                targets.setdefault(v, where)
                # A chain of updates is made where its last one is wanted.
                while v in over:
                    v = over[v]
                    targets.setdefault(v, where)
        return targets

    def open_chain(self, steps: Sequence[DeviceStep], number: int, lives: Lifetimes) -> None:
        """Begin a run of steps whose elements each go through all of them: kernels block by block,
        products and their consumers batch by batch.
        """
        if self.left or self.length:
            return
        chain = steps[number : number + PROCESSOR.routine]
        count = one_after_another(chain)
        if count < 2:
            batches, tasks = batch_by_batch(chain)
            if len(tasks) > 1:
                self.batches, self.batch_tasks = batches, tasks
                self.left, self.chain, self.near = len(tasks), [], []
            return
        self.left, self.chain, self.near = count, [], []
        # Blocks of values that are not read later may share memory, which stays in a cache.
        free = PROCESSOR.chain_bytes // PROCESSOR.chained
        for v in (v for step in chain[:count] for v in step_outputs(step)):
            size = storage_dtype(v.aval).itemsize
            if lives.last.get(v, number) < number + count and size <= free:
                self.within.add(v)
                free -= size

    def close_chain(self) -> bool:
        """After a step: emit the calls of a finished chain. False: it continues."""
        self.left = max(0, self.left - 1)
        if self.left:
            return False
        calls, self.chain = self.chain, []
        # Steps of a chain have one task for each element; then blocks of tasks are blocks of
        # elements.
        numbers = {call.tasks for call in calls}
        batches, self.batches = self.batches, 0
        if batches and as_many_each(batches, self.batch_tasks, calls):
            self.call_batches(batches, calls)
        elif len(numbers) > 1 or batches:
            # A form in which a task is not one element, or not one row.
            for value in self.near:
                self.in_room(value.kind, value.name, value.elements * value.itemsize)
            for call in calls:
                self.call(*call)
        elif calls:
            (n,) = numbers
            block = PROCESSOR.chained
            what = f"0, {-(-n // block)}, {n}, {block}, {max(1, PROCESSOR.task // block)}"
            with self.block(f"ga_blocks({what}, [&](ga_index first, ga_index last) {{", "});"):
                for value in self.near:
                    self.line_of_block(value.kind, value.name, block)
                for call in calls:
                    self.line(f"{call.function}(first, last, {', '.join(call.arguments)});")
        return True

    def call_batches(self, n: int, calls: Sequence[TaskCall]) -> None:
        """Call functions for each of `n` batches: each finds its input in L2."""
        # The step with the most work determines how many batches a thread takes at a time.
        grain = max(1, min(call.grain * n // call.tasks for call in calls))
        head = f"ga_blocks(0, {n}, {n}, 1, {grain}, [&](ga_index first, ga_index last) {{"
        with self.block(head, "});"):
            for call in calls:
                each = f" * {call.tasks // n}" if call.tasks > n else ""
                given = ", ".join(call.arguments)
                self.line(f"{call.function}(first{each}, last{each}, {given});")

    def step(self, step: DeviceStep, targets: dict[Var, str]) -> None:
        """Write one step; if it has no native text, NoKernel gives the reason."""
        if isinstance(step, Kernel):
            self.kernel(step, targets)
            return
        if not isinstance(step, Eqn):
            raise NoKernel(f"{step.name} has no kernel")
        if step.primitive.rewrite.product is not None:
            self.product(step, targets)
        elif step.primitive.rewrite.windows is not None:
            self.windows(step, targets)
        elif step.primitive.rewrite.fourier is not None:
            self.transform(step, targets)
        elif step.primitive.order is not None:
            self.put_in_order(step, targets)
        else:
            self.hand_written(step, targets)

    def product(self, eqn: Eqn, targets: dict[Var, str]) -> None:
        """Call the function that computes a product, after its fused prologue, and before its fused
        epilogue.
        """
        packed = integer_product(eqn)
        if packed is not None:
            self.packed_product(eqn, packed, targets)
            return
        # In a loop, calls of a library would be calls of Python's.
        p = product_call(eqn, PROCESSOR.looped_product if self.inside else PROCESSOR.product)
        (v,) = eqn.outvars
        wide: list[str] = []

        def numbers(aval: ShapedArray) -> str:
            wide.append(self.buffer(p.number, aval.size, 8 if p.number == "double" else 4))
            return wide[-1]

        def convert(aval: ShapedArray, one: str, two: str, way: str) -> None:
            of = "" if ct.is_half(aval) else "integers_"
            name = f"ga_{of}{way}<{ct.memory_type(aval)}, {p.number}>"
            self.call(name, aval.size, PROCESSOR.task, [one, two])

        given: list[str] = []
        for a in eqn.invars:
            at = self.place(a)
            if ct.memory_type(a.aval) != p.number:
                at, narrow = numbers(a.aval), at
                convert(a.aval, narrow, at, "widened")
            given.append(at)
        at = self.made(v, targets)
        is_other = ct.memory_type(v.aval) != p.number
        out = numbers(v.aval) if is_other else at
        self.call(p.function, p.tasks, p.grain, [*given, out])
        if is_other:
            convert(v.aval, out, at, "narrowed")
        for name in wide:
            self.room.free(name)
        self.work += p.work
        self.kernels += 1

    def packed_product(self, eqn: Eqn, p: IntegerProduct, targets: dict[Var, str]) -> None:
        """Call the functions that copy the operands of a product of integers, and multiply."""
        given = [self.place(a) for a in eqn.invars]
        copies = [self.buffer("char", n, 1) for n in (p.left_bytes, p.right_bytes)]
        for call, at, copy in zip((p.left, p.right), given, copies, strict=True):
            self.call(*call, [at, copy])
        self.call(*p.product, [*copies, self.made(eqn.outvars[0], targets)])
        for name in copies:
            self.room.free(name)
        self.work += p.work
        self.kernels += 1

    def windows(self, eqn: Eqn, targets: dict[Var, str]) -> None:
        """Call the functions that compute sums over windows."""
        aval = eqn.outvars[0].aval
        kind = ct.memory_type(aval)
        left, right = map(self.place, eqn.invars)
        out = self.made(eqn.outvars[0], targets)
        # Parts follow one another, so that one piece of the room serves them all.
        parts = window_calls(eqn)
        elements = max(part.room for part in parts)
        room = self.buffer(kind, elements, storage_dtype(aval).itemsize)
        note = f"// {eqn.primitive.name}: {_shapes(eqn)}"
        for i, part in enumerate(parts):
            sizes = f"{self.name}_k{self.kernels}_sizes{i or ''}"
            self.functions.append(f"{note}\n{_struct(sizes, part.constants)}")
            at = {"left": left, "room": room}
            at["right"] = f"{right} + {part.right}" if part.right else right
            at["out"] = f"{out} + {part.out}" if part.out else out
            for c in part.calls:
                grain = max(1, int(PROCESSOR.product_task / max(1.0, c.work)))
                given = [at[a] for a in c.arguments]
                self.call(f"{c.function}<{sizes}, {kind}>", c.tasks, grain, given)
            self.work += part.work
        self.room.free(room)
        self.kernels += 1

    def transform(self, eqn: Eqn, targets: dict[Var, str]) -> None:
        """Call the functions that compute a Fourier transform."""
        p = transform_calls(eqn)
        at = {name: self.buffer(p.number, n, p.size) for name, n in p.rooms.items()}
        rooms = [*at.values()]
        for name, table in p.tables.items():
            at[name] = self.constant(table, ShapedArray(table.shape, table.dtype))
        at["in"] = f"(const {p.number}*){self.place(eqn.invars[0])}"
        at["out"] = f"({p.number}*){self.made(eqn.outvars[0], targets)}"
        # Tasks of a call differ in work by orders of magnitude: a thread takes as many as fill its
        # share.
        for c in p.calls:
            grain = max(1, int(PROCESSOR.product_task / max(1.0, c.work)))
            self.call(c.function, c.tasks, grain, [at[a] for a in c.arguments])
        for name in rooms:
            self.room.free(name)
        self.work += sum(c.work * c.tasks for c in p.calls)
        self.kernels += 1

    def hand_written(self, eqn: Eqn, targets: dict[Var, str]) -> None:
        """Call the function that there is for an operation on small matrices."""
        rule = eqn.primitive.rewrite.loops
        read = tuple(v not in self.unread for v in eqn.outvars)
        # Unread results need not be computed: eigenvalues without their vectors.
        found = None if rule is None else rule(eqn, read)
        if found is None or (found.work > PROCESSOR.matrix_work and not found.many):
            raise NoKernel(f"{eqn.primitive.name} is a routine of a library")
        kind = ct.memory_type(eqn.invars[0].aval)
        name = f"{found.function}<{', '.join([kind, *map(str, found.numbers)])}>"
        given = [self.place(a) for a in eqn.invars]
        given += [self.made(v, targets) for v in eqn.outvars]
        grain = max(1, math.ceil(PROCESSOR.product_task / max(1.0, found.work)))
        self.call(name, found.tasks, grain, given)
        self.work += found.work * found.tasks
        self.kernels += 1

    def put_in_order(self, eqn: Eqn, targets: dict[Var, str]) -> None:
        """A sort, or a selection of the largest."""
        name = f"{self.name}_k{self.kernels}_{eqn.primitive.name}"
        wanted = [k for k, v in enumerate(eqn.outvars) if v not in self.unread]
        found = ordering(eqn, name, wanted, not self.inside)
        at = {f"in{k}": self.place(a) for k, a in enumerate(eqn.invars)}
        # Results that no phase writes have no memory: of a sort with several operands, only some
        # are read.
        written = {a for p in found.phases for a in p.arguments}
        for k, v in enumerate(eqn.outvars):
            if f"out{k}" in written:
                at[f"out{k}"] = self.made(v, targets)
        for part, (kind, elements, size) in found.room.items():
            at[part] = self.buffer(kind, elements, size)
        self.functions.append(found.functions)
        for p in found.phases:
            self.call(p.function, p.tasks, p.grain, [at[a] for a in p.arguments])
        for part in found.room:
            self.room.free(at[part])
        self.kernels += 1
        self.work += found.work

    def made(self, v: Var, targets: dict[Var, str]) -> str:
        """Memory for a value that a step is about to make."""
        if v in self.within:
            # Whether its blocks are all there is of it is known at the end of the chain.
            self.places[v] = self.new("b")
            kind, size = ct.memory_type(v.aval), storage_dtype(v.aval).itemsize
            self.near.append(Near(self.places[v], kind, v.aval.size, size))
        else:
            self.places[v] = targets.get(v) or self.buffer_for(v.aval)
        return self.places[v]

    def kernel(self, kernel: Kernel, targets: dict[Var, str]) -> None:
        """Write a kernel's functions, and the calls of its phases."""
        name = f"{self.name}_k{self.kernels}_{kernel.form}"
        source = emit(kernel.replace(name=name), self.user_lines)
        self.kernels += 1
        # A compiler's time grows faster than the text that it is given.
        if self.kernels > PROCESSOR.routine:
            raise NoKernel("it has too many kernels")
        at: dict[str, str] = {}
        for i, v in enumerate(source.inputs):
            at[f"in{i}"] = self.place(v)
        for i, v in enumerate(source.outputs):
            # Not into an argument: the update before it may be in another routine.
            if v in self.over and not self.is_argument(self.place(kernel.aliases[v])):
                at[f"out{i}"] = self.places[v] = self.place(kernel.aliases[v])
            else:
                at[f"out{i}"] = self.made(v, targets)
            if source.begins is not None and self.place(source.begins) != at["out0"]:
                self.copy(at["out0"], self.place(source.begins), v.aval.size)
        if source.room:
            # Other steps get it before a batch has gone through all of them.
            self.batch_tasks = []
        for part, (kind, elements) in source.room.items():
            # 16 bytes are enough for any component of a partial result, such as a value or its
            # position.
            at[part] = self.buffer(kind, elements, 16)
        # A few operations in a loop: a call would take longer than they do.
        small = self.inside and source.work <= PROCESSOR.inlined
        self.functions.append((source.within_caller() if small else source).functions)
        for p in source.phases:
            self.call(p.function, p.tasks, p.grain, [at[a] for a in p.arguments])
        for part in source.room:
            self.room.free(at[part])
        self.work += source.work

    def call(self, function: str, tasks: int, grain: int, arguments: Sequence[str]) -> None:
        """Call a function for its tasks."""
        if self.left:
            self.chain.append(TaskCall(function, tasks, grain, arguments))
            return
        given = ", ".join(arguments)
        # One task for each element: those of the block. Few tasks are not worth waking threads for.
        if self.length and tasks == self.length:
            self.line(f"{function}(first, last, {given});")
        elif tasks <= grain:
            self.line(f"{function}(0, {tasks}, {given});")
        else:
            self.line(f"ga_tasks({tasks}, {grain}, {function}, {given});")


def _struct(name: str, constants: dict[str, int]) -> str:
    """A struct of constants."""
    listed = ", ".join(f"{name} = {n}" for name, n in constants.items())
    lines = textwrap.wrap(
        f"enum : long long {{ {listed} }};", 96, initial_indent=" " * 4, subsequent_indent=" " * 8
    )
    return "\n".join([f"struct {name} {{", *lines, "};", ""])


def _shapes(eqn: Eqn) -> str:
    """Operands and results of an equation, for readers."""
    ins, outs = (
        ", ".join(a.aval.str_short(True) for a in atoms) for atoms in (eqn.invars, eqn.outvars)
    )
    return f"{ins} -> {outs}"


def _is_pointer(eqn: Eqn) -> bool:
    return contiguous_view(eqn) is not None
