"""The simulator for tests: graphs as functions whose kernels are run and checked on this CPU.

In: graphs, or functions and arrays. Out: what the kernels compute, in orders of threads drawn from
seeds. All kernels that wait when the first is launched are compiled in one go: build first, run
then.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.backends import hostcc, simulator
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.cuda.emit import KernelSource
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.compiler.text.prelude import complete
from gpuarray.core.graph import Graph, storage_dtype
from gpuarray.errors import DeviceError
from tests.support.nearness import largest, ulps

#: Orders of threads: two, to compare; with --slow one more, for faults that few orders show.
SEEDS = tuple(range(1, 1 + int(os.environ.get("SIMULATED_ORDERS", "2"))))


def need_compiler() -> None:
    """Skip the module that calls this where there is no C++ compiler."""
    try:
        hostcc.compiler()
    except DeviceError as error:
        pytest.skip(f"no C++ compiler on this machine: {error}", allow_module_level=True)


def built(graph: Graph):
    """A graph as a function whose kernels wait for the first launch."""
    plan = plan_graph(graph)
    return simulator.build(plan, [np.asarray(c) for c in plan.graph.consts])


def run(function, inputs, seed: int = 1) -> list[np.ndarray]:
    """One run of a built function."""
    with simulator.order_drawn_from(seed):
        return [np.asarray(x) for x in host.local.run(function, *inputs)]


def compare(cases: Iterable[tuple[Callable, tuple]], limit: float = 0) -> None:
    """Functions on the simulator against the NumPy driver: the same in every order of threads, and
    at most `limit` half units in the last place of the largest element apart from the reference.
    """
    listed = list(cases)
    lowered = [built(ga.jit(f).lower(*xs).jaxpr) for f, xs in listed]
    for (function, inputs), made in zip(listed, lowered, strict=True):
        expected = [np.asarray(x) for x in ga.tree.leaves(ga.jit(function)(*inputs))]
        first = run(made, inputs, SEEDS[0])
        for f, e in zip(first, expected, strict=True):
            shapes = [np.shape(x) for x in inputs]
            assert ulps(f, e, largest(e)) <= limit, f"{shapes}: got\n{f}\nexpected\n{e}"
        for seed in SEEDS[1:]:
            for f, again in zip(first, run(made, inputs, seed), strict=True):
                assert f.tobytes() == again.tobytes()


class Sparse:
    """Memory of which only the pages that are touched exist, however long it is; it may begin
    `offset` bytes behind where vectors may.
    """

    def __init__(self, nbytes: int, offset: int = 0):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
        self._memory = mmap.mmap(-1, nbytes + offset + 1, flags)
        self.nbytes = nbytes
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + offset

    def at(self, byte: int, dtype, count: int) -> np.ndarray:
        """`count` elements from a byte on, to read and write."""
        size = np.dtype(dtype).itemsize * count
        part = (ctypes.c_char * size).from_address(self.address + byte)
        return np.frombuffer(part, dtype)


def launch(
    kernel: KernelSource,
    buffers: list[Sparse],
    seed: int = 1,
    blocks: tuple[int, int] = (0, 0),
) -> Sparse:
    """Run blocks of a kernel on buffers for its inputs and outputs; its workspace, made here."""
    avals = [v.aval for v in (*kernel.inputs, *kernel.outputs)]
    kinds = [hostcc.INPUT] * len(kernel.inputs) + [hostcc.OUTPUT] * len(kernel.outputs)
    regions = [
        hostcc.Region(b.address, b.nbytes, kind, storage_dtype(a).itemsize, f"buffer{i}")
        for i, (a, b, kind) in enumerate(zip(avals, buffers, kinds, strict=True))
    ]
    work = Sparse(kernel.workspace)
    if kernel.workspace:
        regions.append(hostcc.Region(work.address, work.nbytes, hostcc.WORK, 4, "work"))
    library = hostcc.compile_library(complete(kernel.text), [kernel.name])
    s = kernel.schedule
    addresses = [r.address for r in regions]
    library.launch(kernel.name, addresses, s.grid, s.threads, regions, seed, blocks)
    return work
