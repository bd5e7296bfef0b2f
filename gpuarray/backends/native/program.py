"""The native backend: Plans as Python that calls compiled kernels, and NumPy for the rest.

Floor 4. In: a Plan. Out: a function on NumPy buffers, as in the NumPy backend. A kernel is one call
of a compiled function on its arrays; its results are allocated before, from the pool of NumPy's
results. Steps without a native kernel follow the NumPy rules, within the same function. If nothing
can be compiled, the function is that of the NumPy backend.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray.backends import hostcc
from gpuarray.backends.native import arrays, library
from gpuarray.backends.numpy import memory
from gpuarray.backends.numpy import program as host
from gpuarray.backends.profiled import Together
from gpuarray.backends.writer import compiled_once
from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.kernel import DeviceStep, Kernel, NoKernel, Scatter
from gpuarray.compiler.lower.steps import (
    group_in,
    inlined_eqns,
    step_eqns,
    step_inputs,
    step_outputs,
)
from gpuarray.compiler.native.emit import emit_alone, unit
from gpuarray.compiler.native.loops import RoutineWriter, updates_over
from gpuarray.compiler.native.routine import Routine
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.config import state
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype, stored_constants
from gpuarray.core.target import PROCESSOR
from gpuarray.errors import CompileError, DeviceError

#: Units of compilation.
Source = NativeSource | Routine


def planned(graph: Graph) -> Plan:
    """Return the plan of a Graph that a loop or a branch holds."""
    found = graph.derived.get("native plan")
    if found is None:
        found = graph.derived["native plan"] = plan_graph(graph).on_native
    return found


class NativeProgramWriter(host.NumpyProgramWriter):
    """Writes plans whose kernels are compiled functions."""

    def __init__(self, plan: Plan, consts: Sequence, donated: frozenset[int], space: dict):
        super().__init__(plan, consts, donated, self.compile_inside)
        space.update(self.space)
        self.space = space
        self.sources: dict[str, Source] = {}  # by the name in the generated text
        self.arrays: set[Var] = set()  # values that are arrays for certain
        self.arity: dict[str, int] = {}  # how many arrays each of them takes
        self.calls: list[tuple[Source, list[DeviceStep]]] = []  # and the steps that each runs
        self.by_host: dict[int, str] = {}  # steps (by id) that NumPy runs, and why
        self.kernels_inside = False  # whether loops that Python runs have any in their bodies
        self.over: set[Var] = set()  # updates that are written into their operand
        self.into: dict[Var, int] = {}  # results in the memory of a donated input: its number
        self.find_updates()

    def compile_inside(self, graph: Graph, *args: Any, **kwargs: Any) -> Callable[..., list]:
        """Compile a Graph that a step of this plan holds."""
        made = compile_graph(graph, *args, **kwargs)
        self.kernels_inside |= hasattr(made, "kernels")
        return made

    def find_updates(self) -> None:
        """Find the updates of donated inputs, one after another, that can do without a copy."""
        number = {v: i for i, v in enumerate(self.graph.invars) if i in self.donated}
        begun = {v: a for s in self.steps if isinstance(s, Scatter) for v, a in s.aliases.items()}
        for last in begun:
            first = last
            # Back along a chain of updates, each written over the one before, to its first.
            while begun.get(first) in begun:
                first = begun[first]
            operand = begun[first]
            # Whole chains only, and into an input that was given away.
            if operand not in number or last in begun.values():
                continue
            readers = [s for s in self.steps if operand in step_inputs(s)]
            updates = updates_over(self.steps, self.graph, operand, last)
            if updates and not any(self.is_alias(s) for s in readers):
                self.into[last] = number[operand]
                self.over |= updates - {first}

    def _overwrites(self) -> dict[int, int]:
        """As in the base class, plus kernels that only write a few elements into a donated input,
        one after another: as a kernel they would copy all of it.
        """
        found = super()._overwrites()
        number = {v: i for i, v in enumerate(self.graph.invars) if i in self.donated}
        self.updates: set[int] = set()  # the numbers of these steps
        for i, step in enumerate(self.steps if number else ()):
            if isinstance(step, Eqn | Scatter) or group_in(step).copy_of is None:
                continue
            eqns = step_eqns(step)
            chain = [e for e in eqns if e.primitive.inplace and e.primitive.update]
            if not chain or len(chain) < len(eqns):
                continue
            first = chain[0].invars[0]
            read = [a for e in chain for a in e.invars]
            # Each update applies to the previous result, and only the first one reads the input:
            # then its memory is overwritten, element by element.
            linked = all(b.invars[0] is a.outvars[0] for a, b in itertools.pairwise(chain))
            last = isinstance(first, Var) and self.lifetimes.last.get(first) == i
            if first in number and linked and last and read.count(first) == 1:
                found.update(dict.fromkeys(map(id, chain), -1))
                found[id(chain[0])] = number[first]
                self.updates.add(i)
        return found

    # ---- routines ----
    def write_steps(self) -> None:
        """Write the steps; consecutive ones that native code can run are one call."""
        number, count = 0, len(self.steps)
        while number < count:
            # The longest native stretch; if the whole is not worth a routine, its steps one by one.
            end = self.stretch(number)
            routine = self.routine_of(number, end)
            if routine is None:
                end = max(number + 1, end)
                for n in range(number, end):
                    self.write_step(n)
            else:
                self.call_routine(routine, number, end)
            number = end
        self.arrive(count)

    def stretch(self, number: int) -> int:
        """The end of the steps from this one on that can be one routine."""
        first, kernels = number, 0
        # The results that are read determine what a step has to compute, and so whether there is
        # text for it.
        read = {v for s in self.steps[number:] for v in step_inputs(s)} | set(self.graph.outvars)
        if self.plan.halves:  # exchanges in progress have their own order
            return number
        while number < len(self.steps) and kernels < PROCESSOR.stretch:
            step = self.steps[number]
            if number in self.updates:
                break
            is_view = isinstance(step, Eqn) and self.is_view(step)
            if not is_view:
                try:
                    kernels += (
                        RoutineWriter("probe", planned, frozenset(self.over))
                        .routine([step], [v for v in step_outputs(step) if v in read])
                        .kernels
                    )
                except NoKernel as error:  # no text for it
                    self.by_host[id(step)] = str(error)
                    break
            number += 1
        # Views at the end are for others.
        while number > first and self.is_alias(self.steps[number - 1]):
            number -= 1
        return number

    def is_alias(self, step: DeviceStep) -> bool:
        return isinstance(step, Eqn) and self.is_view(step)

    def routine_of(self, number: int, end: int) -> Routine | None:
        """The routine of a stretch; None if it would save nothing."""
        steps = self.steps[number:end]
        work = [s for s in steps if not self.is_alias(s)]
        held = any(isinstance(s, Eqn) and _replaces_calls(s) for s in work)
        # A product that is a whole program is left to the threads of BLAS; several share ours.
        whole = sum(not self.is_alias(s) for s in self.steps)
        held = held or any((_is_product(s) if whole > 1 else _is_batch(s)) for s in work)
        if not held and sum(isinstance(s, Kernel) for s in work) < 2:
            return None
        # Values that later steps or the caller read, directly or through views.
        later = {v for s in self.steps[end:] for v in step_inputs(s)}
        later |= {a for a in self.graph.outvars if isinstance(a, Var)}
        made: list[Var] = []
        for step in reversed(steps):
            if not isinstance(step, Eqn) or not self.is_view(step):
                made += [v for v in step_outputs(step) if v in later]
            # A view that is read later needs its operand then.
            elif any(v in later for v in step.outvars):
                later.update(step_inputs(step))
        try:
            return RoutineWriter(f"routine{number}", planned, frozenset(self.over)).routine(
                steps, made
            )
        except NoKernel:  # together they are too many
            return None

    def call_routine(self, routine: Routine, number: int, end: int) -> None:
        """Write the call of a routine, and the views of its results."""
        self.allocate(routine.outputs)
        given = [self.array(v) for v in routine.inputs]
        given += [
            self.bind("const", np.require(c, requirements=("C", "A"))) for c in routine.constants
        ]
        given += [self.names[v] for v in routine.outputs]
        if routine.room:
            empty, dtype = self.bind("room", memory.empty), self.bind("dtype", np.uint8)
            given.append(f"{empty}(({routine.room},), {dtype})")
        ran = [s for s in self.steps[number:end] if not self.is_alias(s)]
        self.call_source(routine, given, ran)
        # Only views that are read later, and those that these are views of.
        read = {v for s in self.steps[end:] for v in step_inputs(s)} | set(self.graph.outvars)
        views = [s for s in self.steps[number:end] if isinstance(s, Eqn) and self.is_view(s)]
        for view in reversed(views):
            if any(v in read for v in view.outvars):
                read.update(step_inputs(view))
        for view in views:
            if any(v in read for v in view.outvars):
                self.view(view)

    # ---- kernels ----
    def kernel(self, number: int, step: Kernel | FusedGroup) -> None:
        if number in self.updates:
            # Its result is where the updates are made.
            eqns = inlined_eqns(group_in(step))
            for eqn in eqns:
                self.call(eqn)
            (v,) = step.outputs
            self.names[v] = self.names[eqns[-1].outvars[0]]
            self.by_host[id(step)] = "a few elements of a donated array change where they are"
            return
        try:
            if not isinstance(step, Kernel):
                raise NoKernel(f"{step.name} has no kernel")
            source = emit_alone(step)
        except NoKernel as error:  # no text for its form, or for an operation or a dtype in it
            self.by_host[id(step)] = str(error)
            self.by_numpy(number, group_in(step))
            return
        self.compiled(source, step)

    def by_numpy(self, number: int, group: FusedGroup) -> None:
        """Write a group for NumPy; inlined equations become steps again, each once."""
        for eqn in inlined_eqns(group):
            if not all(v in self.names for v in eqn.outvars):
                self.call(eqn)
        super().kernel(number, group)

    def compiled(self, source: NativeSource, step: Kernel) -> None:
        """Write the call of a compiled kernel."""
        self.allocate(source.outputs)
        given = [*map(self.array, source.inputs), *(self.names[v] for v in source.outputs)]
        self.call_source(source, given, [step])

    def call_source(self, source: Source, operands: list[str], steps: list[DeviceStep]) -> None:
        """Write the call of a compiled function, which runs these steps."""
        called = self.bind(source.name, None)  # known when the unit is compiled
        again = self.bind(f"again_{source.name}", None)
        self.sources[called] = source
        self.space[again] = lambda *buffers: _again(self.space[called], buffers)
        given = ", ".join(operands)
        self.arity[called] = len(operands)
        self.calls.append((source, steps))
        step = steps[0]
        eqn = step if isinstance(step, Eqn) else group_in(step).members[0].eqn
        shown = step if len(steps) == 1 else Together(source.name, tuple(steps))
        # A kernel returns 0 on success. Otherwise it is called again with plain copies of its
        # arguments.
        self.line(f"{called}({given}) and {again}({given})", eqn, shown)

    def allocate(self, results: Iterable[Var]) -> None:
        """Write the lines that make arrays for results."""
        for v in results:
            made, number = self.empty(v), self.into.get(v)
            if number is not None and v.aval.ndim:
                # Known only at the call: whether this input was donated, and has the layout that a
                # kernel needs.
                given = f"{number} in owned and {self.bind('plain', arrays.is_plain)}(a{number})"
                made = f"a{number} if {given} else {made}"
            self.line(f"{self.name(v)} = {made}")
            self.arrays.add(v)

    def array(self, v: Var) -> str:
        """Return the text of a value as an array: without axes, NumPy may have made it a scalar."""
        name = self.names[v]
        if v.aval.ndim or v in self.arrays:
            return name
        return f"{self.bind('asarray', np.asarray)}({name})"

    def empty(self, v: Var) -> str:
        """Return the text that allocates a result."""
        shape, dtype = v.aval.shape, storage_dtype(v.aval)
        # NumPy keeps small pieces of memory itself, and faster.
        small = math.prod(shape) * dtype.itemsize < memory.POOLED_FROM
        empty = self.bind("empty", np.empty if small else memory.empty)
        return f"{empty}({shape}, {self.bind('dtype', dtype)})"


def _replaces_calls(eqn: Eqn) -> bool:
    """Whether an equation alone is worth a routine: each iteration of a loop, or each matrix, would
    be a call from Python, and NumPy sorts on one thread.
    """
    p = eqn.primitive
    # NumPy makes floats of halves one at a time, and has no library for integers.
    types = [storage_dtype(a.aval) for a in eqn.invars]
    slow = _is_product(eqn) and any(t.kind in "iu" or t.itemsize < 4 for t in types)
    rules = p.rewrite
    return bool(p.flow or rules.loops or rules.windows or rules.fourier or p.order or slow)


def _is_product(step: DeviceStep) -> bool:
    return isinstance(step, Eqn) and step.primitive.rewrite.product is not None


def _is_batch(step: DeviceStep) -> bool:
    """Whether a step is several products, each of which NumPy would compute on all threads of the
    library.
    """
    rules = step.primitive.rewrite.product if isinstance(step, Eqn) else None
    return rules is not None and math.prod(rules.extents(step).batch) > 1


def compile_kernels(writers: Iterable[NativeProgramWriter]) -> None:
    """Compile the kernels of programs, and give them to the generated functions."""
    wanted = [(w, called, source) for w in writers for called, source in w.sources.items()]
    for first in range(0, len(wanted), PROCESSOR.unit):
        some = wanted[first : first + PROCESSOR.unit]
        # Kernels alike in several programs are compiled once, under one name.
        text, names = unit([source for _, _, source in some])
        made = library.load(text)
        for (writer, called, source), name in zip(some, names, strict=True):
            # Routines with loops let go of the lock themselves.
            brief = source.loops if isinstance(source, Routine) else False
            brief = brief or source.work < PROCESSOR.brief
            writer.space[called] = made.function(name, writer.arity[called], brief)


def _again(function: Callable[..., int], buffers: tuple) -> None:
    """Call a kernel again, with contiguous copies of the arrays that are not contiguous, and where
    it has stack enough.
    """
    plain = arrays.plain(buffers)
    result = function(*plain)
    if result == 4:
        result = library.with_stack(lambda: function(*plain))
    if result == 1:
        raise DeviceError(f"a kernel refused its arguments: {[type(x) for x in buffers]}")
    if result:
        raise MemoryError("no memory for the partial results of a kernel")


def build(
    plan: Plan, consts: Sequence, donated: frozenset[int] = frozenset()
) -> Callable[..., list]:
    """Return a function from buffers to a list of buffers, as `backends.numpy.program.build`, with
    its kernels compiled.
    """
    if not _possible:
        return host.build(plan, consts, donated)
    try:
        function = _built(plan, consts, donated)
    except Exception as error:
        # A bug of ours is not an error of the user's call; tests want to see it.
        if state.strict and not isinstance(error, library.FAULTS):
            raise
        _tell(error)
        function = None
    # Without kernels the host's own plan is the better one.
    return host.build(plan, consts, donated) if function is None else function


def build_now(plan: Plan) -> Callable[..., list]:
    """Return the function, compiled; raise any error on the way (`library.FAULTS`)."""
    function = _built(plan, stored_constants(plan.graph), frozenset())
    if function is None:
        raise DeviceError("native code has no part of this program")
    return functools.partial(host.local.run, function)


def _built(plan: Plan, consts: Sequence, donated: frozenset[int], space: dict | None = None) -> Any:
    """Return the function with its kernels, in the given space of another one; None if it would
    have no kernel.
    """
    lowered = plan.on_native.overlapped if plan.overlaps else plan.on_native
    writer = NativeProgramWriter(lowered, consts, donated, {} if space is None else space)
    function: Any = writer.function()
    if not writer.sources and not writer.kernels_inside:
        return None
    compile_kernels([writer])
    _succeeded()
    function.kernels = list(writer.sources.values())
    return function


def compile_behind(
    plan: Plan, consts: Sequence, donated: frozenset[int], space: dict
) -> Callable[..., list] | None:
    """Return the compiled function of a program that NumPy runs meanwhile, in the same space; None
    if NumPy should continue.
    """
    if not _possible:
        return None
    try:
        return _built(plan, consts, donated, space)
    except Exception as error:  # whatever it is: the caller has had his answer from NumPy
        _tell(error, asked=False)
        return None


#: Whether there is a compiler, and a folder for its output, as far as known.
_possible = True
_told = False
_failures = 0


def _succeeded() -> None:
    global _failures
    _failures = 0


def _tell(error: Exception, asked: bool = True) -> None:
    """Warn, once in a process, that NumPy runs programs that could have been compiled.

    If native code was not explicitly requested, a missing compiler is not reported: `doctor` does
    that.
    """
    global _possible, _told, _failures
    if isinstance(error, library.TooManyError | hostcc.EndedError):  # until some are unloaded
        return
    # A refused text, or a compiler that takes too long, need not affect the next program; several
    # do.
    _failures += 1
    for_good = isinstance(error, OSError | DeviceError) and not isinstance(error, CompileError)
    if for_good or _failures >= PROCESSOR.failures:
        _possible = False
    if not _told and (asked or not isinstance(error, hostcc.NoCompilerError)):
        _told = True
        warnings.warn(
            "NumPy runs a program, because it could not be compiled: "
            f"{str(error).rstrip('.')}. Set GPUARRAY_NATIVE=off to have none compiled.",
            RuntimeWarning,
            stacklevel=2,
        )


def compile_graph(
    graph: Graph, donated: frozenset[int] = frozenset(), overlaps: bool = False
) -> Callable[..., list]:
    """Compile a Graph inside another (a branch, a loop body) to a function on buffers."""
    made = functools.partial(build, donated=donated)
    return compiled_once(graph, ("native", donated), made, overlaps)
