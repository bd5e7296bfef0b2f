"""The base of native kernels: functions over a range of tasks, and the phases that call them.

Floor 3. In: a Kernel. Out: `NativeWriter`, whose subclasses, one for each form, return a
`NativeSource`. Its bases write the values (values.py) and the loops around them (nests.py). The
text does not depend on the number of threads: a task is a fixed piece of the work, and so results
do not depend on it either.
"""

from __future__ import annotations

import abc
import math
import re

from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.steps import named_operations, step_work
from gpuarray.compiler.native.facts import LoopHead
from gpuarray.compiler.native.nests import NestWriter
from gpuarray.compiler.native.schedule import even
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.prelude import blocks, names_in
from gpuarray.core.graph import Var
from gpuarray.core.target import PROCESSOR
from gpuarray.util import Struct

#: The type and the name of a parameter.
Parameter = tuple[str, str]


class Phase(Struct):
    """A call of a function for all of its tasks; the next phase begins when all are done.

    Attributes
    ----------
    grain :
        Tasks that a thread takes at a time.
    """

    function: str
    tasks: int
    grain: int
    arguments: tuple[str, ...]


class Function(Struct):
    """A function over a range of tasks.

    Attributes
    ----------
    given :
        Its parameters, besides the range.
    kind :
        How it is declared: GA_TASKS stays a separate function, GA_FEW may be inlined into its
        caller, GA_NEAR_OR_ALL is a template of both.
    """

    name: str
    given: tuple[Parameter, ...]
    lines: tuple[str, ...]
    kind: str = "GA_TASKS"

    @property
    def text(self) -> str:
        """The function as C++."""
        given = [f"{kind} {name}" for kind, name in self.given]
        head = f"{self.kind} {self.name}(ga_index first, ga_index last, {', '.join(given)}) {{"
        if len(head) > 100:
            listed = ",\n    ".join(["ga_index first, ga_index last", *given])
            head = f"{self.kind} {self.name}(\n    {listed}) {{"
        return "\n".join([head, *self.lines, "}"])


class NativeSource(Struct, eq=False):
    """A kernel as C++ functions, and the phases that call them.

    Attributes
    ----------
    note :
        The comment above the functions.
    inputs, outputs :
        The arrays that are its arguments, in this order.
    room :
        Arrays between phases, by name: the type of their elements, and how many there are.
    work :
        Operations on elements, roughly.
    begins :
        The required initial contents of the output.
    """

    kernel: Kernel
    note: str
    body: tuple[Function, ...]
    phases: tuple[Phase, ...]
    inputs: list[Var]
    outputs: list[Var]
    room: dict[str, tuple[str, int]] = {}
    work: float = 0.0
    begins: Var | None = None

    @property
    def name(self) -> str:
        """The name of the kernel in the text."""
        return self.kernel.name

    @property
    def form(self) -> str:
        """The form of the kernel."""
        return self.kernel.form

    @property
    def functions(self) -> str:
        """The functions under their comment."""
        return "\n".join([self.note, *(f.text for f in self.body)]) + "\n"

    @property
    def text(self) -> str:
        """The functions, and the one that runs all phases on arrays of Python's."""
        arrays = [f"in{i}" for i in range(len(self.inputs))]
        arrays += [f"out{i}" for i in range(len(self.outputs))]
        lines = [
            f"GA_CALLED int call_{self.name}({', '.join(f'ga_array* {a}' for a in arrays)}) {{",
            f"    if (const int why = ga_refused({', '.join(arrays)})) return why;",
        ]
        # Memory passed between phases; if it cannot be allocated the caller takes another way.
        lines += [f"    ga_room<{kind}> {name}({n});" for name, (kind, n) in self.room.items()]
        if self.room:
            lines.append(f"    if ({' || '.join(f'!{name}' for name in self.room)}) return 2;")
        for p in self.phases:
            given = ", ".join(p.arguments)
            lines.append(f"    ga_tasks({p.tasks}, {p.grain}, {p.function}, {given});")
        return self.functions + "\n".join([*lines, "    return 0;", "}"]) + "\n"

    def within_caller(self) -> NativeSource:
        """The same, with functions that may become parts of their caller."""
        return self.replace(
            body=tuple(f.replace(kind="GA_FEW") if f.kind == "GA_TASKS" else f for f in self.body)
        )


class NativeWriter(NestWriter, abc.ABC):
    """Functions of one kernel; each form has its subclass."""

    #: Whether a task may be run twice.
    repeatable = True

    def __init__(self, kernel: Kernel, user_lines: bool = False):
        super().__init__(kernel, user_lines)
        self.done: list[Function] = []  # finished functions
        self.phases: list[Phase] = []
        self.room: dict[str, tuple[str, int]] = {}

    @abc.abstractmethod
    def source(self) -> NativeSource:
        """The text of the kernel."""

    # ---- functions ----
    def end_function(self, name: str, given: list[Parameter], tasks: int, grain: int) -> None:
        """End the function that the lines so far are the body of, and note the phase that calls
        it.
        """
        self.tidy()
        facts = self.facts
        # If loops are split at every test, no test is left in the pieces.
        decided = self.split and not facts.edges and not facts.other_tests
        if facts.backwards or (facts.conditional and not decided):
            self.lines = kept_loops(self.lines)
        # Distances that the compiler must not know.
        known = [f"    const ga_index apart{n} = ga_apart({n});" for n in sorted(facts.distances)]
        self.lines = [*known, *self.lines]
        # Other threads see stores that bypass the cache only after a fence.
        if facts.streams:
            self.line(1, "ga_streamed();")
        arguments, lines = tuple(a for _, a in given), tuple(self.lines)
        # They do not overlap (GA_ALONE), without which no loop would be vectorised.
        alone = tuple((f"{kind} GA_ALONE", a) for kind, a in given)
        near = self.for_near_numbers() if self.repeatable else None
        if near is not None:
            # Again for all numbers, if some were too large for the shorter way.
            of, plain = f"{name}_of", ", ".join(["first", "last", *arguments])
            self.done.append(Function(of, alone, near, "GA_NEAR_OR_ALL"))
            lines = (f"    if (!{of}<true>({plain})) {of}<false>({plain});",)
        self.done.append(Function(name, alone, lines))
        self.phases.append(Phase(name, tasks, even(tasks, grain), arguments))
        self.lines = []
        self.begin_facts()

    def for_near_numbers(self) -> tuple[str, ...] | None:
        """The lines of a function that records whether numbers were near, for which some functions
        of the prelude (`f_in` beside `f`) have a shorter form; None without such functions.
        """
        # Functions come with the text of operations: as the prelude is linked by the names in a
        # text, so are they.
        known = blocks(native=True)
        called = {n for line in self.lines for n in names_in(line) if f"{n}_in" in known}
        if not called:
            return None
        # `f(x)` becomes `f_in<NEAR>(far, x)`: with NEAR it takes the short way and notes in `far`
        # whether some number was too large for it.
        marked = re.compile(rf"\b({'|'.join(sorted(called))})\(")
        lines = [marked.sub(r"\1_in<NEAR>(far, ", x) for x in self.lines]
        # It returns whether all numbers were near: true where it ends before it has met any.
        lines = [x.replace("return;", "return true;") for x in lines]
        return ("    int far = 0;", *lines, "    return !far;")

    def parameters(self, outputs: bool = True) -> list[Parameter]:
        """The inputs that the lines read, and the outputs that they write."""
        read = [v for v in self.inputs if v in self.facts.arrays]
        found = [(f"const {ct.memory_type(v.aval)}*", self.in_name[v]) for v in read]
        if outputs:
            written = [v for v in self.outputs if v in self.facts.arrays]
            found += [(f"{ct.memory_type(v.aval)}*", self.out_name[v]) for v in written]
        return found

    def grain(self, elements: int) -> int:
        """How many tasks of `elements` elements a thread takes at a time."""
        return max(1, PROCESSOR.task // max(1, elements))

    def finish(self, note: str) -> NativeSource:
        """The finished functions under a comment: operations, arguments, bytes moved."""
        formulas = named_operations(self.group)
        ins = [f"{self.in_name[v]} {v.aval.str_short(True)}" for v in self.inputs]
        outs = [f"{self.out_name[v]} {v.aval.str_short(True)}" for v in self.outputs]
        moved = sum(v.aval.nbytes for v in (*self.inputs, *self.outputs))
        head = [
            f"// {self.kernel.name}: {formulas}",
            f"//   {', '.join(ins) or 'no inputs'} -> {', '.join(outs)}    {moved} bytes",
            f"//   {note}",
        ]
        return NativeSource(
            self.kernel,
            "\n".join(head),
            tuple(self.done),
            tuple(self.phases),
            self.inputs,
            self.outputs,
            self.room,
            # At least an operation for each element: a copy has no multiply-adds, and takes time.
            max(step_work(self.kernel), math.prod(self.group.axes)),
        )


def kept_loops(lines: list[str]) -> list[str]:
    """The lines of a function that reads under conditions or backwards: its short inner loops stay
    loops.

    If a loop is unrolled before the loop around it is vectorised, reads under conditions become
    zeros, since g++ 12 masks them wrongly; and an ordered sum of floats takes those of reversed
    rows from the wrong places.
    """
    kept: list[str] = []
    for line in lines:
        kept += line.kept if isinstance(line, LoopHead) else (line,)
    return kept
