"""Native code for tests: many graphs as functions, whose kernels are compiled together.

In: graphs. Out: functions on buffers. A unit of a hundred kernels takes a few seconds to compile,
where a hundred units would take half a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from gpuarray.backends import hostcc
from gpuarray.backends.native import program as native
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.native.writer import NativeSource
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.graph import Graph
from gpuarray.errors import DeviceError

#: Kernels of one unit.
UNIT = 100


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


def written(graph: Graph) -> Written:
    """A graph as a program."""
    plan = plan_graph(graph)
    consts = [np.asarray(c) for c in plan.graph.consts]
    writer = native.NativeProgramWriter()
    return Written(host.build(plan.on_native, consts, writer=writer), writer)


def compile_all(programs: Sequence[Written]) -> None:
    """Compile the kernels of programs, so many at a time."""
    batch: list[Written] = []
    for program in programs:
        batch.append(program)
        if sum(len(p.kernels) for p in batch) >= UNIT:
            native.compile_kernels([p.writer for p in batch])
            batch = []
    native.compile_kernels([p.writer for p in batch])
