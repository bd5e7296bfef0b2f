"""Shared code of all backends' generated functions: the steps of a plan as lines of Python.

Floor 4. In: a Plan, and a backend's subclass of `ProgramWriter`. Out: a function from buffers to a
list of buffers, written once, so that a call makes no lookups and no decisions.
"""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray import util
from gpuarray.backends import lockstep
from gpuarray.backends.profiled import Steps, Together
from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel
from gpuarray.compiler.lower.lifetimes import Lifetimes
from gpuarray.compiler.lower.overlap import last_reads
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.graph import Atom, Eqn, Graph, Var, stored_constants, talks
from gpuarray.core.primitive import Kind
from gpuarray.util import cached_property

#: Makes a function of a Graph inside another (a branch, a loop body), given the donated inputs.
CompileGraph = Callable[..., Callable[..., list]]
#: (plan, constants) -> a function of buffers.
Build = Callable[[Plan, Sequence], Callable[..., list]]
#: Donated inputs are numbers; a function that has any takes the set of those it may overwrite.
NOTHING: frozenset[int] = frozenset()


class ProgramWriter(abc.ABC):
    """Writes the function of a plan line by line.

    A subclass defines how values are named (`operand`, `name`, `result`), the implementation of an
    equation (`routine`) and how a group is run (`kernel`). It may run views otherwise than by a
    call (`view`), choose between functions at the call (`called`), and release values that are no
    longer read (`dead`).

    Attributes
    ----------
    lines : list of str
        The body of the function. Inputs are `a0`, `a1`, ...; `owned` are the donated inputs that
        this call may overwrite.
    space : dict of str to object
        The function's globals.
    sites : dict of int to Eqn
        Line number -> equation, for error messages.
    ran : dict of int to DeviceStep, Together or str
        Line number -> the step it runs, for profiles.
    holders : dict of str to Eqn
        Name -> the equation with Graphs that it runs.
    """

    def __init__(self, plan: Plan, donated: frozenset[int], inside: CompileGraph):
        self.plan, self.graph, self.steps = plan, plan.graph, plan.steps
        self.donated, self.inside = donated, inside
        self.lines: list[str] = []
        self.indent = ""
        self.space: dict[str, Any] = {}
        self.sites: dict[int, Eqn] = {}
        self.ran: dict[int, DeviceStep | Together | str] = {}
        self.holders: dict[str, Eqn] = {}
        # Exchanges in progress (by id): the variable that holds one, and its equation.
        self.going: dict[int, tuple[str, Eqn]] = {}

    # ---- defined by a backend ----
    @abc.abstractmethod
    def operand(self, a: Atom) -> str:
        """Return a value as a buffer, as text."""

    @abc.abstractmethod
    def name(self, v: Var) -> str:
        """Return the name of a buffer that a call is about to make."""

    @abc.abstractmethod
    def routine(self, eqn: Eqn) -> Callable[..., Any]:
        """Return the implementation of an equation, as a function of buffers."""

    @abc.abstractmethod
    def own(self, eqn: Eqn) -> Collection[int]:
        """Return the numbers of the results for which an equation allocates memory."""

    @abc.abstractmethod
    def kernel(self, number: int, step: Kernel | FusedGroup) -> None:
        """Write the step of this number, a group."""

    def is_view(self, eqn: Eqn) -> bool:
        """Whether the results of an equation are in the memory of its operands."""
        return eqn.primitive.kind is Kind.VIEW or eqn.primitive.same_bytes

    def view(self, eqn: Eqn) -> None:
        """Write a view."""
        self.call(eqn)

    def result(self, a: Atom) -> str:
        """Return an output of the plan as a buffer, as text."""
        return self.operand(a)

    def dead(self, number: int) -> Collection[str]:
        """Return the names to release, since they are not read after the step of this number."""
        return ()

    #: Returns an object that times the steps on a GPU, for profiles; None if the host does.
    clock: Callable[..., Any] | None = None
    #: Makes a buffer for the stacked results of a loop with exchanges.
    room: Callable[..., Any] = staticmethod(np.empty)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Whose memory the values are in, and until when it is read."""
        later = last_reads(self.plan.halves, self.steps)
        return Lifetimes(self.graph.outvars, self.steps, self.is_view, self.own, later)

    # ---- lines ----
    def bind(self, prefix: str, value: Any) -> str:
        """Return a new global name for a value."""
        name = f"{prefix}_{len(self.space)}"
        self.space[name] = value
        return name

    def line(
        self, text: str, eqn: Eqn | None = None, step: DeviceStep | Together | None = None
    ) -> None:
        """Write a line: errors in it are reported for `eqn`, profiles show it as `step`."""
        self.lines.append(self.indent + text)
        if eqn is not None:
            self.sites[len(self.lines)] = eqn
        if step is not None:
            self.ran[len(self.lines)] = step

    def operands(self, eqn: Eqn) -> str:
        """Return the operands of an equation as the arguments of a call."""
        return ", ".join([self.operand(a) for a in eqn.invars])

    def call(
        self,
        eqn: Eqn,
        operands: Iterable[str] | None = None,
        run: Callable[..., Any] | None = None,
    ) -> None:
        """Write the call of an equation's implementation, on its operands unless others are
        given.
        """
        given = self.operands(eqn) if operands is None else ", ".join(operands)
        called = self.called(eqn, self.routine(eqn) if run is None else run)
        names = ", ".join([self.name(v) for v in eqn.outvars])
        comma = "," if eqn.primitive.multiple_results else ""
        target = f"{names}{comma} = " if names else ""  # run for its effect only
        # Views take no time that a profile could show.
        step = None if self.is_view(eqn) else eqn
        self.line(f"{target}{called}({given})", eqn, step)

    def called(self, eqn: Eqn, run: Callable[..., Any]) -> str:
        """Return the function that runs an equation, as text."""
        name = self.bind(identifier(eqn), run)
        if eqn.primitive.assemble is not None:
            self.holders[name] = eqn
        return name

    def exchange(self, eqn: Eqn) -> None:
        """Write a collective: the program of a device stops there until all have come to it.

        A loop or branch that holds one is a program of the same kind, which this one runs.
        """
        given = self.operands(eqn)
        halves = self.plan.halves.get(id(eqn))
        # Begun here and awaited where its result is read: other steps run meanwhile.
        if halves is not None:
            going = f"h{len(self.space)}"
            asked = self.bind(identifier(eqn), halves.start)
            self.line(f"{going} = yield {asked}, [{given}]", eqn, eqn)
            self.going[id(eqn)] = going, eqn
            return
        target = self.targets(eqn)
        if eqn.primitive.kind is Kind.COLLECTIVE:
            asked = f"yield {self.bind(identifier(eqn), eqn)}, [{given}]"
        else:
            inside = self.inside
            if self.plan.overlaps:  # in their bodies too
                inside = functools.partial(inside, overlaps=True)
            run = lockstep.steps(eqn, inside, self.room)
            asked = f"yield from {self.bind(identifier(eqn), run)}({given})"
        self.line(target + asked, eqn, eqn)

    def targets(self, eqn: Eqn) -> str:
        """Return the left side of a line that gives the results of an exchange."""
        names = "".join([f"{self.name(v)}, " for v in eqn.outvars])
        return f"{names}= " if names else ""

    def arrive(self, number: int) -> None:
        """Write the waits for exchanges that have to end before the step of this number."""
        for key in [k for k in self.going if self.plan.halves[k].until <= number]:
            going, eqn = self.going.pop(key)
            asked = self.bind(identifier(eqn), self.plan.halves[key].wait)
            self.line(f"{self.targets(eqn)}yield {asked}, {going}", eqn, eqn)
            self.line(f"{going} = None")

    # ---- the function ----
    def write(self) -> None:
        """Write the body of the function."""
        self.write_steps()
        self.write_return()

    def write_steps(self) -> None:
        """Write one or more lines for each step."""
        for number in range(len(self.steps)):
            self.write_step(number)
        self.arrive(len(self.steps))

    def write_step(self, number: int) -> None:
        """Write the lines of one step."""
        step = self.steps[number]
        self.arrive(number)
        if not isinstance(step, Eqn):
            self.kernel(number, step)
        elif self.is_view(step):
            self.view(step)
        elif talks(step):
            self.exchange(step)
        else:
            self.call(step)
        if dead := self.dead(number):
            # The variable holds the buffer: without it the memory can serve the next step.
            self.line(f"{' = '.join(dead)} = None")

    def write_return(self) -> None:
        """Write the line that returns the results."""
        self.line(f"return [{', '.join([self.result(a) for a in self.graph.outvars])}]")

    def function(self) -> Callable[..., list]:
        """Write, compile and return the function.

        The function of a plan with collectives is a generator (backends/lockstep.py).
        """
        graph = self.graph
        self.write()
        arguments = [f"a{i}" for i in range(len(graph.invars))] + ["owned"] * bool(self.donated)
        head = f"def plan({', '.join(arguments)}):"
        text = "\n".join([head, *["    " + line for line in self.lines]])
        function: Any = util.function_of_text(text, "<plan>", self.space)
        function.source, function.sites = text, self.sites
        function.steps = Steps(
            graph.debug_name, text, self.ran, self.holders, self.inside, self.plan, self.clock
        )
        function.fresh = self.lifetimes.fresh_outputs()
        # By its text: an unrolled loop may have lost its collectives, if they are unread.
        function.talks = inspect.isgeneratorfunction(function)
        return function


def identifier(eqn: Eqn) -> str:
    """Return an equation's operation as the beginning of a name."""
    return "".join([c if c.isalnum() else "_" for c in eqn.primitive.name])


def compiled_once(
    graph: Graph, key: tuple, build: Build, overlaps: bool = False
) -> Callable[..., list]:
    """Return the result of `build(plan, consts)` for a Graph, cached with it under `key`.

    A loop body is compiled once, whatever calls it; and again if its exchanges `overlap`.
    """
    key = (*key, overlaps)
    found = graph.derived.get(key)
    if found is None:
        plan = plan_graph(graph)
        plan = plan.overlapped if overlaps else plan
        found = graph.derived[key] = build(plan, stored_constants(plan.graph))
    return found
