"""The native backend: Plans as Python that calls compiled kernels, and NumPy for the rest.

Floor 4. In: a Plan. Out: a function on NumPy buffers, as in the NumPy backend. A kernel is one call
of a compiled function on its arrays; its results are allocated before, from the pool that NumPy's
results come from. Steps without a native kernel follow the NumPy rules, within the same function.
Where nothing can be compiled, the function is that of the NumPy backend.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gpuarray.backends.native import arrays, library
from gpuarray.backends.numpy import memory
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.steps import group_in, inlined_eqns
from gpuarray.compiler.native.emit import emit, unit
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.graph import Graph, Var, storage_dtype
from gpuarray.errors import DeviceError

#: Kernels of less work keep Python's lock: about what taking it back from another thread costs.
BRIEF = 1 << 14
#: Kernels of one unit: the compiler ends within a second or two, and a program has few units.
UNIT = 32


class NativeProgramWriter(host.ProgramWriter):
    """Writes plans whose kernels are compiled functions."""

    def __init__(self):
        super().__init__()
        self.compile_graph = compile_graph
        self.sources: dict[str, NativeSource] = {}  # by the name in the generated text

    def fused(self, step: Kernel | FusedGroup) -> None:
        try:
            if not isinstance(step, Kernel):
                raise TypeError(f"{step.name} has no kernel")
            source = emit(step)
        except TypeError:  # no text for its form, or for an operation or a dtype in it
            self.by_numpy(group_in(step))
            return
        self.kernel(source, step)

    def by_numpy(self, group: FusedGroup) -> None:
        """Write a group for NumPy; what was inlined in it becomes steps again, each once."""
        for eqn in inlined_eqns(group):
            if not all(v in self.names for v in eqn.outvars):
                self.call(eqn, [self.atom(a) for a in eqn.invars])
        super().fused(group)

    def kernel(self, source: NativeSource, step: Kernel) -> None:
        """Write the call of a compiled kernel."""
        for v in source.outputs:
            self.line(f"{self.name(v)} = {self.room(v)}")
        called = self.bind(source.name, None)  # known when the unit is compiled
        again = self.bind(f"again_{source.name}", None)
        self.sources[called] = source
        self.space[again] = lambda *buffers: _again(self.space[called], buffers)
        given = ", ".join(self.names[v] for v in (*source.inputs, *source.outputs))
        eqn = step.group.members[0].eqn
        self.line(f"{called}({given}) and {again}({given})", eqn, step.group)

    def room(self, v: Var) -> str:
        """Return the text that allocates a result."""
        shape, dtype = v.aval.shape, storage_dtype(v.aval)
        small = math.prod(shape) * dtype.itemsize < memory.POOLED_FROM
        empty = self.bind("empty", np.empty if small else memory.empty)
        return f"{empty}({shape}, {self.bind('dtype', dtype)})"


def compile_kernels(writers: Iterable[NativeProgramWriter]) -> None:
    """Compile the kernels of programs, and give them to the generated functions."""
    wanted = [(w, called, source) for w in writers for called, source in w.sources.items()]
    for first in range(0, len(wanted), UNIT):
        some = wanted[first : first + UNIT]
        text, names = unit([source for _, _, source in some])
        made = library.load(text)
        for (writer, called, source), name in zip(some, names, strict=True):
            operands = len(source.inputs) + len(source.outputs)
            writer.space[called] = made.function(name, operands, source.work < BRIEF)


def _again(function: Callable[..., int], buffers: tuple) -> None:
    """Call a kernel once more, with copies of what is no array in one piece."""
    result = function(*arrays.plain(buffers))
    if result == 1:
        raise DeviceError(f"a kernel refused its arguments: {[type(x) for x in buffers]}")
    if result:
        raise MemoryError("no memory for the partial results of a kernel")


def build(plan: Plan, consts: list, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
    """Return a function from buffers to a list of buffers, as `backends.numpy.program.build`."""
    writer = NativeProgramWriter()
    function: Any = host.build(plan.on_native, consts, donated, writer)
    if writer.sources:
        try:
            compile_kernels([writer])
        except library.FAULTS as error:
            _tell(error)
        else:
            function.kernels = list(writer.sources.values())
            return function
    # Without kernels the host's own plan is the better one.
    return host.build(plan, consts, donated)


_told = False


def _tell(error: Exception) -> None:
    """Warn, once in a process, that NumPy runs what could have been compiled."""
    global _told
    if not _told:
        _told = True
        warnings.warn(
            f"native code is not available, so NumPy runs everything: {error} Switch it off with "
            "GPUARRAY_NATIVE=off.",
            RuntimeWarning,
            stacklevel=2,
        )


def compile_graph(graph: Graph, donated: frozenset[int] = frozenset()) -> Callable[..., list]:
    """Compile a Graph inside another (a branch, a loop body) to a function on buffers."""
    key = ("native", donated)
    if key not in graph.derived:
        plan = plan_graph(graph)
        consts = [np.asarray(c) for c in plan.graph.consts]
        graph.derived[key] = build(plan, consts, donated)
    return graph.derived[key]
