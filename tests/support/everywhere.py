"""Functions by each of the three ways to run them: NumPy's rules, native code, CUDA kernels.

In: functions and arrays. Out: what each way computes. The kernels of all functions are compiled
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import gpuarray as ga
from gpuarray.core.graph import Graph
from tests.support import natively, simulated

WAYS = ("numpy", "native", "simulator")
Case = tuple[Callable, tuple]


def need_compiler() -> None:
    """Skip the module that calls this where there is no C++ compiler."""
    simulated.need_compiler()


def computed(cases: Sequence[Case], written: bool = True) -> list[dict[str, list[np.ndarray]]]:
    """The results of each function by each way; `written` says that none of it is left to NumPy."""
    graphs: list[Graph] = [ga.jit(f).lower(*xs).jaxpr for f, xs in cases]
    native = [natively.written(graph) for graph in graphs]
    kernels = [simulated.built(graph) for graph in graphs]
    for (f, _), program in zip(cases, native, strict=True):
        assert not (written and program.writer.by_host), (f, program.writer.by_host)
    natively.compile_all(native)
    found = []
    for (f, xs), program, kernel in zip(cases, native, kernels, strict=True):
        flat = ga.tree.leaves(xs)
        by_rules = [np.asarray(x) for x in ga.tree.leaves(ga.jit(f)(*xs))]
        found.append(dict(zip(WAYS, [by_rules, program(*flat), simulated.run(kernel, flat)])))
    return found
