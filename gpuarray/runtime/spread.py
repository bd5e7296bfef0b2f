"""Programs over several devices: partitioned once for each layout of their inputs, then run.

Floor 5. In: an Executable's Graph, arrays that lie over the devices of meshes, and where results
are to lie. Out: arrays over those devices. A `Team` is what runs: one program, all devices in turn
(backends/lockstep.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray import config
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core import ranges
from gpuarray.core.avals import typed_scalar
from gpuarray.core.graph import Graph
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec
from gpuarray.core.sharding import Place, Sharding, laid_out
from gpuarray.runtime import pieces
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import stored
from gpuarray.runtime.execute import ASYNC_FROM, Executable, held
from gpuarray.runtime.fleet import fleet
from gpuarray.runtime.host import sent
from gpuarray.runtime.stream import stream_of
from gpuarray.transforms.partition.split import Partitioned, partition


class Team:
    """The program of several devices: how inputs lie, what runs, and how results lie."""

    def __init__(
        self,
        graph: Graph,
        grid: Grid,
        ins: Sequence[Spec],
        wanted: Sequence[Sharding | None],
        donated: frozenset[int] = frozenset(),
    ):
        outs = [
            None if s is None else _spec_of(grid, s, v.aval)
            for s, v in zip(wanted, graph.outvars, strict=True)
        ]
        self.grid = grid
        self.parts: Partitioned = partition(graph, ins, outs, grid)
        self.plan: Plan = plan_graph(self.parts.local, fusion=config.state.fusion)
        self.in_places = [laid_out(grid.sharding(spec)) for spec in self.parts.ins]
        # A layout that was asked for is shown in the words it was given in.
        self.out_places = [
            laid_out(grid.sharding(spec) if s is None else s)
            for s, spec in zip(wanted, self.parts.outs, strict=True)
        ]
        self.out_avals = graph.out_avals
        # GPUs compute behind the caller's back as it is.
        on_gpus = grid.devices[0].platform == "gpu"
        self.heavy = not on_gpus and self.plan.work * len(grid.devices) >= ASYNC_FROM
        self.fleet = fleet(self.plan, grid, donated)
        self.run = self.fleet.run


def _spec_of(grid: Grid, sharding: Sharding, aval: Any) -> Spec:
    sharding.shard_shape(aval.shape)  # raises where it does not divide the shape
    spec = grid.of_sharding(sharding, aval.ndim)
    if spec is None:
        raise ValueError(f"a result is to lie as {sharding!r}, which is on other devices")
    return spec


def meshes_of(
    executable: Executable, places: Iterable[Place | None], wanted: Iterable[Sharding | None]
) -> list[Mesh]:
    """Return the meshes that a computation concerns: those of its inputs first."""
    shown = [p.sharding for p in places if p is not None and p.committed]
    found: dict[Mesh, None] = {}
    for sharding in (*shown, *wanted):
        if isinstance(sharding, NamedSharding) and sharding.mesh.size > 1:
            found[sharding.mesh] = None
    found.update(dict.fromkeys(executable.meshes))
    return list(found)


def run(
    executable: Executable,
    inputs: list,
    wanted: Sequence[Sharding | None],
    donated: Iterable[int] = (),
    constants: Sequence[Any] = (),
    now: bool = False,
) -> list[ArrayImpl]:
    """Return the results of a program over several devices.

    Parameters
    ----------
    inputs :
        Arrays and scalars; those on one device are given to all.
    wanted :
        How each result is to lie; None leaves it to the program.
    donated :
        Numbers of inputs that are deleted.
    constants :
        Values that the program reads behind its inputs.
    now :
        Whether to run on this thread, however much work it is.
    """
    if config.state.no_execution:
        raise RuntimeError("a program would run on a device, but 'no_execution' is set")
    values = [*inputs, *constants]
    places = tuple(x._place if type(x) is ArrayImpl else None for x in values)
    key = (places, tuple(wanted), config.state.fusion)
    team = executable.teams.get(key)
    if team is None:
        team = executable.teams[key] = _team(executable, places, wanted)
    for i in donated:
        inputs[i]._buffers()  # raises for a deleted one, before anything is done
    # Buffers that are ready are taken now: deleting their arrays later cannot touch this work.
    sources = [
        held(x)
        if type(x) is ArrayImpl and x._work is not None
        else _buffers(x, i, team, executable)
        for i, x in enumerate(values)
    ]
    for i in donated:
        inputs[i]._bufs = None
    arrays = [ArrayImpl(a, p, None) for a, p in zip(team.out_avals, team.out_places, strict=True)]

    def job() -> list[list]:
        buffers = [
            _buffers(x, i, team, executable) if type(x) is ArrayImpl else x
            for i, x in enumerate(sources)
        ]
        sources.clear()
        return team.fleet(buffers, donated)  # pyright: ignore[reportArgumentType]

    if team.heavy and not now:
        stream_of(team.grid.devices[0]).submit(job, arrays)
        return arrays
    for array, buffers in zip(arrays, job(), strict=True):
        array._bufs = buffers
    return arrays


def _team(
    executable: Executable, places: tuple[Place | None, ...], wanted: Sequence[Sharding | None]
) -> Team:
    """Partition and compile a program for inputs in these places."""
    grid = Grid(meshes_of(executable, places, wanted))
    ins: list[Spec] = []
    for place, v in zip(places, executable.graph.invars, strict=True):
        _check_devices(place, grid)
        spec = None if place is None else grid.of_sharding(place.sharding, v.aval.ndim)
        ins.append(((),) * v.aval.ndim if spec is None else spec)
    start = time.perf_counter()
    with ranges.during(f"build {executable.graph.debug_name}", "compile"):
        team = Team(executable.graph, grid, ins, wanted, executable.donated)
    if executable.announce is not None:
        executable.announce(team, time.perf_counter() - start)  # pyright: ignore
    return team


def _check_devices(place: Place | None, grid: Grid) -> None:
    """Refuse an input that was put on other devices than the program's."""
    if place is None or not place.committed or place.devices == grid.devices:
        return
    raise ValueError(
        "Received incompatible devices for jitted computation: an argument is on "
        f"{[d.id for d in place.devices]} of {place.device.platform}, and the computation runs on "
        f"{[d.id for d in grid.devices]}. Move it with gpuarray.device_put, as in "
        f"device_put(x, NamedSharding(mesh, PartitionSpec()))."
    )


def _buffers(x: Any, number: int, team: Team, executable: Executable) -> list:
    """Return the buffers of an input, as the team takes it."""
    place = team.in_places[number]
    if type(x) is not ArrayImpl:
        aval = executable.in_avals[number]
        if isinstance(x, (np.ndarray, np.generic)):
            value = x if x.dtype == aval.dtype else x.astype(aval.dtype)
        else:
            value = typed_scalar(x, aval.dtype)
        return _everywhere(value, place)
    buffers = x._buffers()
    if x._place.is_single:
        return _everywhere(buffers[0], place)
    if x._place.sharding == place.sharding:
        return buffers
    return pieces.moved(x.aval.shape, buffers, x._place, place)


def _everywhere(buffer: Any, place: Place) -> list:
    """Return a value for each device of a place; those that share memory share it."""
    if place.device.platform == "gpu":
        return [sent(buffer, device) for device in place.devices]
    return [stored(buffer, place.device)] * len(place.devices)


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding of a value that every device of a mesh has whole."""
    return NamedSharding(mesh, PartitionSpec())
