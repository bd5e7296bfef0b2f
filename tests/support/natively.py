"""Native code for tests: many graphs as functions, whose kernels are compiled together.

In: graphs. Out: functions on buffers. To compile kernels by the dozen takes a fraction of what one
by one would take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from gpuarray.backends import hostcc
from gpuarray.backends.native import library
from gpuarray.backends.native import program as native
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.graph import Graph
from gpuarray.errors import DeviceError


def need_compiler() -> None:
    """Skip the module that calls this where there is no C++ compiler."""
    try:
        hostcc.compiler()
    except DeviceError as error:
        pytest.skip(f"no C++ compiler on this machine: {error}", allow_module_level=True)


class Written(NamedTuple):
    """A program whose kernels are not compiled yet."""

    function: Callable[..., list]
    writer: native.NativeProgramWriter

    @property
    def kernels(self) -> list[NativeSource]:
        """The kernels of the program; what else it does NumPy does."""
        return list(self.writer.sources.values())

    def __call__(self, *inputs) -> list[np.ndarray]:
        return [np.asarray(x) for x in host.local.run(self.function, *inputs)]


def written(graph: Graph, donated: frozenset[int] = frozenset()) -> Written:
    """A graph as a program; one with donated inputs takes the set of those that are its own."""
    plan = plan_graph(graph)
    consts = [np.asarray(c) for c in plan.graph.consts]
    writer = native.NativeProgramWriter(plan.on_native, consts, donated, {})
    return Written(writer.function(), writer)


#: An array on the stack whose alignment is not said: g++ 12 moves some by wide vectors, and aligns
#: them less, which ends the process. Vectors have an alignment of their own.
UNALIGNED = re.compile(
    r"^ +(?! |GA_LOCAL |return |vector |char head)"
    r"\w[\w<>:, ]* \w+(?:\[[^\]]+\])+(?:, \w+\[[^\]]+\])*;",
    re.MULTILINE,
)

#: A narrower type in braces: g++ takes it, clang++ refuses it.
STRICT = tuple("-Werror=narrowing" if f == "-w" else f for f in library._FLAGS)


def compile_all(programs: Sequence[Written]) -> None:
    """Compile the kernels of programs together, none of which has an array that is not aligned."""
    for program in programs:
        for source in program.kernels:
            assert not UNALIGNED.findall(source.text), source.text
    patience, library.PATIENCE = library.PATIENCE, 600.0  # a test waits, however busy the machine
    flags, library._FLAGS = library._FLAGS, STRICT
    try:
        native.compile_kernels([p.writer for p in programs])
    finally:
        library.PATIENCE, library._FLAGS = patience, flags
