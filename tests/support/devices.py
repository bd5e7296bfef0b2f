"""Programs of several devices, split and run in tests, and the exchanges in them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

import gpuarray as ga
from gpuarray.backends import lockstep
from gpuarray.backends.numpy.program import build
from gpuarray.backends.shared import SharedMemory
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.graph import Graph, subgraphs
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.primitive import Kind
from gpuarray.sharding import Mesh
from gpuarray.transforms.partition.split import Partitioned


def mesh_of(shape: tuple[int, ...] = (4, 2), names: str = "xyz") -> Mesh:
    count = int(np.prod(shape))
    return Mesh(np.array(ga.devices()[:count]).reshape(shape), tuple(names[: len(shape)]))


def grid_of(shape: tuple[int, ...] = (4, 2)) -> Grid:
    return Grid([mesh_of(shape)])


def piece_of(value: np.ndarray, spec: Spec, place: dict, sizes: dict) -> np.ndarray:
    """The part of a value on the device at this place of the grid: by definition of a layout."""
    for axis, names in enumerate(spec):
        for name in names:
            length = value.shape[axis] // sizes[name]
            start = place[name] * length
            value = np.take(value, range(start, start + length), axis)
    return value


def places_of(sizes: dict) -> list[dict]:
    ranges = itertools.product(*(range(n) for n in sizes.values()))
    return [dict(zip(sizes, at, strict=True)) for at in ranges]


def run_pieces(parts: Partitioned, grid: Grid, values: Sequence[np.ndarray]) -> list[list]:
    """Run the program of one device on all of them; return the results of each."""
    plan = plan_graph(parts.local)
    function = build(plan, [np.asarray(c) for c in plan.graph.consts])
    given = [
        [piece_of(v, s, place, grid.sizes) for v, s in zip(values, parts.ins, strict=True)]
        for place in places_of(grid.sizes)
    ]
    if not function.talks:  # pyright: ignore[reportFunctionMemberAccess]
        return [function(*row) for row in given]
    return lockstep.run([function(*row) for row in given], SharedMemory(grid.sizes))


def exchanges(graph: Graph) -> Counter:
    """How often each collective stands in a program; finding one's own place is none."""
    found: Counter = Counter()
    for eqn in graph.eqns:
        prim = eqn.primitive
        if prim.kind is Kind.COLLECTIVE and prim.name != "axis_index":
            found[prim.name] += 1
        for inner in subgraphs(eqn):
            found += exchanges(inner)
    return found
