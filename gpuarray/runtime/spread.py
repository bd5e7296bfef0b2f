"""Programs over several devices: partitioned once for each layout of their inputs, then run.

Floor 5. In: an Executable's Graph, arrays sharded over meshes, and shardings of the results. Out:
arrays over those devices. A `Team` runs them: one program, all devices in turn
(backends/lockstep.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config
from gpuarray.compiler.partition.buckets import bucketed
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core import ranges
from gpuarray.core.abstract_mesh import AbstractMesh
from gpuarray.core.avals import ShapedArray, typed_scalar
from gpuarray.core.graph import Graph, Var, has_exchanges
from gpuarray.core.grid import Grid, Spec
from gpuarray.core.layout import cuts_of, sums_of
from gpuarray.core.memories import KIND_OF
from gpuarray.core.mesh import Mesh, NamedSharding, PartitionSpec, contexts
from gpuarray.core.mesh_context import entered_mesh, mesh_of_new_arrays
from gpuarray.core.sharding import Device, Place, Sharding, laid_out
from gpuarray.primitives.reshard import meshes_in, named_by, stated
from gpuarray.runtime import pieces, processes
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import default_place, stored
from gpuarray.runtime.execute import Executable, held
from gpuarray.runtime.fleet import fleet
from gpuarray.runtime.host import sent
from gpuarray.runtime.stream import Flight, stream_of
from gpuarray.transforms.partition.split import Partitioned, partition

#: Programs of fewer operations, of all devices together, run on the caller's thread: about a
#: millisecond of additions. To wake a worker takes 60 us on a quiet machine, and 5 ms on one whose
#: cores are all busy (`python -m bench.parallel --only psum_1MiB`).
SEVERAL_ASYNC_FROM = 1 << 22


class SpreadProgram:
    """A program partitioned into that of one device, with the shardings of its inputs and results.

    `fixed` gives the shardings of results of its equations that are known already.
    """

    def __init__(
        self,
        graph: Graph,
        grid: Grid,
        places: Sequence[Place | None],
        wanted: Sequence[Sharding | None],
        fixed: Mapping[Var, Spec] | None = None,
    ):
        # Shardings of inputs, and requested ones of results, in terms of the grid's axes.
        ins = _specs_of(graph, grid, places)
        given = [p.sharding if p is not None and p.committed else None for p in places]
        # Terms of sums are not shardings: they are passed separately from the specs.
        held = [frozenset() if p is None else _terms_of(grid, p.sharding) for p in places]
        said = stated(graph, grid.main)
        # Along Explicit axes the types of results record the sharding; a value that is returned
        # unchanged, or was last resharded over another mesh, stays over that mesh.
        if grid.main.are_all_axes_explicit:
            came = dict(zip(graph.invars, given, strict=True))
            last = [
                came.get(v) if isinstance(v, Var) and v in came else own
                for v, own in zip(graph.outvars, said, strict=True)
            ]
            wanted = [
                s or _over_another(grid, own) or _typed(_mesh_of(grid, v.aval), v.aval)
                for s, own, v in zip(wanted, last, graph.outvars, strict=True)
            ]
        outs = [
            None if s is None else _spec_of(grid, s, v.aval)
            for s, v in zip(wanted, graph.outvars, strict=True)
        ]
        self.grid = grid
        # Results that are terms of sums, which specs do not record either.
        kept = [None if s is None else _terms_of(grid, s) for s in wanted]
        self.parts: Partitioned = partition(graph, ins, outs, grid, held, kept, fixed)
        # A requested layout, or that of an input, is shown in the form in which it was given.
        words: dict[Spec, Sharding] = {}
        self.in_places: list[Place] = []
        for sharding, spec in zip(given, self.parts.ins, strict=True):
            same = sharding is not None and grid.of_sharding(sharding, len(spec)) == spec
            shown = sharding if same and sharding is not None else grid.sharding(spec)
            self.in_places.append(laid_out(shown))
            if same and not _concerns_sums(shown):
                words.setdefault(spec, shown)
        # In this order: as the caller requested, as the type says, in the program's own axes, in an
        # input's, or in the grid's.
        self.out_places = [
            laid_out(s)
            if s is not None
            else laid_out(
                _of_sums(grid, v.aval)
                or _as_said(grid, spec, own, v.aval.ndim)
                or _in_full(words.get(spec) or grid.sharding(spec), v.aval)
            ).holding(v.aval)
            for s, spec, own, v in zip(wanted, self.parts.outs, said, graph.outvars, strict=True)
        ]
        self.out_avals = [
            p.typed(v.aval) for p, v in zip(self.out_places, graph.outvars, strict=True)
        ]
        self.spans = any(not device.is_addressable for device in grid.devices)


def _specs_of(graph: Graph, grid: Grid, places: Sequence[Place | None]) -> list[Spec]:
    """Return how inputs in these places are cut."""
    ins: list[Spec] = []
    for place, v in zip(places, graph.invars, strict=True):
        if place is not None and place.committed and place.all_devices != grid.devices:
            raise _elsewhere(place, grid, len(ins), named_by(graph))
        spec = None if place is None else grid.of_sharding(place.sharding, v.aval.ndim)
        ins.append(((),) * v.aval.ndim if spec is None else spec)
    return ins


class Team(SpreadProgram):
    """The program of several devices, and its executor."""

    def __init__(
        self,
        graph: Graph,
        grid: Grid,
        places: Sequence[Place | None],
        wanted: Sequence[Sharding | None],
        donated: frozenset[int] = frozenset(),
        fixed: Mapping[Var, Spec] | None = None,
    ):
        super().__init__(graph, grid, places, wanted, fixed)
        # Combine adjacent small exchanges into one: each has a latency, however small it is.
        local = bucketed(self.parts.local, grid.sizes, processes.network(grid))
        self.plan: Plan = plan_graph(local, fusion=config.state.fusion)
        # GPUs are already asynchronous.
        on_gpus = grid.devices[0].platform == "gpu"
        self.heavy = not on_gpus and self.plan.work * len(grid.devices) >= SEVERAL_ASYNC_FROM
        self.fleet = fleet(self.plan, local, grid, donated)
        self.run = self.fleet.run


def _typed(mesh: Mesh, aval: ShapedArray) -> NamedSharding:
    """Return the sharding of a result over a mesh of Explicit axes, from its type."""
    cuts = cuts_of(aval.layout)
    unreduced, reduced = sums_of(aval.layout)
    parts = ((),) * aval.ndim if cuts is None else cuts
    spec = PartitionSpec(*parts, unreduced=unreduced, reduced=reduced)
    return NamedSharding(mesh, spec, memory_kind=KIND_OF[aval.memory_space])


def _over_another(grid: Grid, sharding: Sharding | None) -> NamedSharding | None:
    """Return a sharding over another mesh of the same devices; None for any other one."""
    if isinstance(sharding, NamedSharding) and sharding.mesh != grid.main:
        return sharding
    return None


def _in_full(sharding: Sharding, aval: ShapedArray) -> Sharding:
    """Return a sharding that names every axis of a value, if its type records any sharding."""
    cuts = cuts_of(aval.layout)
    if not cuts or not any(cuts) or not isinstance(sharding, NamedSharding):
        return sharding
    return sharding._of_rank(aval.ndim)


def _of_sums(grid: Grid, aval: ShapedArray) -> NamedSharding | None:
    """Return the sharding of a result that is a sum over mesh axes; None if it is not."""
    if aval.layout is None or not any(sums_of(aval.layout)):
        return None
    return _typed(_mesh_of(grid, aval), aval)


def _mesh_of(grid: Grid, aval: ShapedArray) -> Mesh:
    """Return the devices as the mesh of a type, whose axes may have other names."""
    # A type's mesh may name the same devices in another grid, such as 8 for 4 x 2.
    mesh = None if aval.layout is None else aval.layout.mesh
    if mesh is None or mesh.shape_tuple == grid.main.shape_tuple:
        return grid.main
    devices = grid.main.devices.reshape(mesh.axis_sizes)
    return Mesh(devices, mesh.axis_names, mesh.axis_types)


def _concerns_sums(sharding: Sharding) -> bool:
    spec = sharding.spec if isinstance(sharding, NamedSharding) else None
    return spec is not None and bool(spec.unreduced or spec.reduced)


def _terms_of(grid: Grid, sharding: Sharding) -> frozenset:
    """Return the axes of the grid along which devices hold terms of an array with this sharding."""
    if not isinstance(sharding, NamedSharding) or not sharding.spec.unreduced:
        return frozenset()
    return frozenset(grid.names(sharding.mesh, sharding.spec.unreduced))


def _as_said(grid: Grid, spec: Spec, own: Sharding | None, ndim: int) -> Sharding | None:
    """Return the sharding that the program declares for a result, if it is the one that was
    found.
    """
    return own if own is not None and grid.of_sharding(own, ndim) == spec else None


def _spec_of(grid: Grid, sharding: Sharding, aval: Any) -> Spec:
    sharding.shard_shape(aval.shape)  # raises where it does not divide the shape
    spec = grid.of_sharding(sharding, aval.ndim)
    if spec is None:
        raise ValueError(f"a result is to lie as {sharding!r}, which is on other devices")
    return spec


def meshes_of(
    meshes: Sequence[Any], places: Iterable[Place | None], wanted: Iterable[Sharding | None]
) -> list[Mesh]:
    """Return the meshes of a computation: those of its inputs first.

    `meshes` are those that its equations name.
    """
    shown = [p.sharding for p in places if p is not None and p.committed]
    found: dict[Mesh, None] = {}
    for sharding in (*shown, *wanted):
        mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
        if isinstance(mesh, Mesh) and mesh.is_spread:
            found[mesh] = None
    found.update(dict.fromkeys(m for m in meshes if isinstance(m, Mesh)))
    # None is given: use the mesh in context.
    if not found:
        here = mesh_of_new_arrays() or contexts.concrete or entered_mesh()
        if not here.empty:
            found[here] = None
    # A mesh without devices represents one of those; one of a single device the mesh of arguments.
    for mesh in meshes:
        if isinstance(mesh, AbstractMesh):
            alone = next((p for p in places if p is not None and p.committed), default_place())
            found[_with_devices(mesh, list(found), alone.device)] = None
    return list(found)


def _with_devices(mesh: AbstractMesh, known: list[Mesh], alone: Device) -> Mesh:
    """Return an abstract mesh with the devices of the other ones, or of the one in context."""
    around = () if contexts.concrete is None else (contexts.concrete,)
    # First a mesh of the same names and lengths, then one of as many devices.
    for other in (*known, *around):
        if other.shape_tuple == mesh.shape_tuple:
            return other
    for other in (*known, *around):
        if other.size == mesh.size:
            devices = other.devices.reshape(mesh.axis_sizes)
            return Mesh(devices, mesh.axis_names, mesh.axis_types)
    if mesh.size == 1:
        devices = np.array([alone], dtype=object).reshape(mesh.axis_sizes)
        return Mesh(devices, mesh.axis_names, mesh.axis_types)
    raise ValueError(
        f"a computation over {mesh} does not know its devices: no argument lies over a mesh of "
        "these axes, and none is in context. Put an argument there with device_put(x, "
        "NamedSharding(Mesh(devices, axis_names), spec)), or set a mesh with gpuarray.set_mesh."
    )


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
        The wanted sharding of each result; None leaves it to the program.
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
    places = (*_places_of(inputs), *places_of_constants(constants))
    team = team_of(executable, places, wanted)
    arrays = [ArrayImpl(a, p, None) for a, p in zip(team.out_avals, team.out_places, strict=True)]
    _filled(executable, team, inputs, values, arrays, donated, now)
    return arrays


def _places_of(values: Iterable[Any]) -> tuple[Place | None, ...]:
    return tuple(x._place if type(x) is ArrayImpl else None for x in values)


def places_of_constants(constants: Iterable[Any]) -> tuple[Place | None, ...]:
    """Return the places of a program's constants. A constant on one device, even if committed
    there, follows the program to its devices: it does not determine where the program runs.
    """
    return tuple(
        laid_out(p.sharding, False) if p is not None and p.is_single and p.committed else p
        for p in _places_of(constants)
    )


def _filled(
    executable: Executable,
    team: Team,
    inputs: list,
    values: list,
    arrays: list[ArrayImpl],
    donated: Iterable[int],
    now: bool,
) -> Flight | None:
    """Fill arrays with the results for values, of which the first are the inputs of a call.

    It is done on return, or when the returned Flight is.
    """
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

    def job() -> list[list]:
        buffers: list[Any] = [
            _buffers(x, i, team, executable) if type(x) is ArrayImpl else x
            for i, x in enumerate(sources)
        ]
        sources.clear()
        made = team.fleet(buffers, donated)  # pyright: ignore[reportArgumentType]
        # Some results may have to leave the memory of their GPUs.
        return [
            row if p.kind == "device" else [*map(partial(stored, kind=p.kind), row, p.devices)]
            for p, row in zip(team.out_places, made, strict=True)
        ]

    # Other processes meet this one in the order of the calls, and therefore on one thread.
    if team.heavy and not now and not team.spans:
        return stream_of(team.grid.devices[0]).submit(job, arrays)
    for array, buffers in zip(arrays, job(), strict=True):
        array._bufs = buffers
        # In this order: readers look at `_work` first.
        array._work = None
    return None


# ---- operations that are recorded ----
class LaidResults(NamedTuple):
    """The shardings of an operation's results over the devices of a mesh, and their types."""

    mesh: Mesh
    specs: tuple[Spec, ...]
    places: tuple[Place, ...]
    avals: tuple[ShapedArray, ...]


def laid_as(graph: Graph, places: tuple[Place | None, ...]) -> LaidResults | None:
    """Return the shardings of an operation's results, by the places of its operands; None if it
    runs immediately.

    With several processes, recorded operations must not exchange values, because processes run them
    at different times.
    """
    meshes = meshes_of(meshes_in(graph), places, [])
    # The recorder is keyed by one mesh and knows no sums: anything else runs immediately.
    if len(meshes) > 1 or any(p is not None and _concerns_sums(p.sharding) for p in places):
        return None
    made = SpreadProgram(graph, Grid(meshes), places, [None] * len(graph.outvars))
    if any(map(_concerns_sums, (p.sharding for p in made.out_places))):
        return None
    if made.spans and has_exchanges(made.parts.local):
        return None
    return LaidResults(meshes[0], made.parts.outs, tuple(made.out_places), tuple(made.out_avals))


def launch(
    executable: Executable,
    inputs: list,
    arrays: list[ArrayImpl],
    mesh: Mesh,
    specs: tuple[tuple[Spec, ...], ...],
    now: bool = False,
) -> Flight | None:
    """Fill recorded arrays with the results of a program for inputs.

    Parameters
    ----------
    mesh :
        The mesh of all operations.
    specs :
        For each equation of the program, the shardings of its results when it was recorded.
    now :
        Whether to run on this thread, however much work it is.
    """
    if config.state.no_execution:
        raise RuntimeError("a program would run on a device, but 'no_execution' is set")
    places = _places_of(inputs)
    # Results were promised in these places when they were recorded; the program has to keep
    # that.
    wanted = tuple(x._place.sharding for x in arrays)
    key = (places, wanted, config.state.fusion, specs)
    team = executable.teams.get(key)
    if team is None:
        rows = zip(executable.graph.eqns, specs, strict=True)
        fixed = {v: s for eqn, row in rows for v, s in zip(eqn.outvars, row, strict=True)}
        team = _built(executable, Grid([mesh]), places, wanted, fixed)
        assert not (team.spans and has_exchanges(team.plan.graph)), "what is recorded sends nothing"
        executable.teams[key] = team
    return _filled(executable, team, inputs, list(inputs), arrays, (), now)


def team_of(
    executable: Executable, places: tuple[Place | None, ...], wanted: Sequence[Sharding | None]
) -> Team:
    """Return the team for inputs in these places, made on first use."""
    key = (places, tuple(wanted), config.state.fusion, contexts.key)
    team = executable.teams.get(key)
    if team is None:
        team = executable.teams[key] = _team(executable, places, wanted)
    return team


def known_team(
    executable: Executable,
    places: tuple[Place, ...],
    wanted: Sequence[Sharding | None],
    constants: Sequence[Any],
) -> Team | None:
    """Return the team of an earlier call with inputs in these places; None if there was none."""
    behind = places_of_constants(constants)
    key = ((*places, *behind), tuple(wanted), config.state.fusion, contexts.key)
    return executable.teams.get(key)


def constant_rows(team: Team, executable: Executable, constants: Sequence[Any]) -> list[list]:
    """Return the buffers of constants, which are a team's last inputs, for each device."""
    first = len(executable.in_avals) - len(constants)
    return [_buffers(x, first + i, team, executable) for i, x in enumerate(constants)]


def _team(
    executable: Executable, places: tuple[Place | None, ...], wanted: Sequence[Sharding | None]
) -> Team:
    """Partition and compile a program for inputs in these places."""
    grid = Grid(meshes_of(executable.meshes, places, wanted))
    return _built(executable, grid, places, wanted, None)


def _built(
    executable: Executable,
    grid: Grid,
    places: tuple[Place | None, ...],
    wanted: Sequence[Sharding | None],
    fixed: Mapping[Var, Spec] | None,
) -> Team:
    start = time.perf_counter()
    with ranges.during(f"build {executable.graph.debug_name}", "compile"):
        team = Team(executable.graph, grid, places, wanted, executable.donated, fixed)
    # For the debug levels and the cache report: the program that was built, and the new layout.
    if executable.announce is not None:
        why = _changed(executable, places, wanted)
        executable.announce(team, time.perf_counter() - start, why)  # pyright: ignore
    return team


def _changed(
    executable: Executable, places: tuple[Place | None, ...], wanted: Sequence[Sharding | None]
) -> str | None:
    """Return which inputs and results are sharded differently from the previous call; None for the
    first.
    """
    if not executable.teams:
        return None
    # Against the latest team: dicts keep the order of insertion.
    before, asked, fusion, _ = next(reversed(executable.teams))
    count = len(executable.in_avals)
    changes = [
        f"the layout of input {i} changed: {_shown(old)} -> {_shown(new)}"
        for i, (old, new) in enumerate(zip(before, places, strict=True))
        if old is not new and i < count
    ]
    changes += [
        f"the layout asked for result {i} changed: {old} -> {new}"
        for i, (old, new) in enumerate(zip(asked, wanted, strict=True))
        if old != new
    ]
    if fusion != config.state.fusion:
        changes.append("the setting fusion changed")
    return "; ".join(changes) or "the mesh in context changed"


def _shown(place: Place | None) -> str:
    """Return a short description of an input's place."""
    if place is None:
        return "a value of the host"
    sharding = place.sharding
    if not isinstance(sharding, NamedSharding):
        return str(place.device)
    axes = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
    return f"{sharding.spec} over {axes}"


class OnOtherDevices(ValueError):
    """Raised for an input that was put on other devices than the program's."""

    #: Which input it is.
    number: int
    #: Where the program runs, for messages.
    program: str


def _elsewhere(place: Place, grid: Grid, number: int, name: str | None) -> OnOtherDevices:
    what = "the computation" if name is None else f"{name} inside jit"
    program = (
        f"{what} with device ids {[d.id for d in grid.devices]} on platform "
        f"{grid.devices[0].platform.upper()}. Move it with gpuarray.device_put, as in "
        "device_put(x, NamedSharding(mesh, PartitionSpec()))."
    )
    error = OnOtherDevices(
        "Received incompatible devices for jitted computation. Got an argument with device ids "
        f"{[d.id for d in place.all_devices]} on platform {place.device.platform.upper()} and "
        f"{program}"
    )
    error.number, error.program = number, program
    return error


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
    # The usual case: it has this sharding already, and nothing moves.
    if x._place.sharding == place.sharding:
        return buffers
    return pieces.moved(x.aval.shape, buffers, x._place, place)


def _everywhere(buffer: Any, place: Place) -> list:
    """Return a value for each device of a place; those that share memory share it."""
    if place.device.platform == "gpu":
        return [sent(buffer, device, place.kind) for device in place.devices]
    return [stored(buffer, place.device)] * len(place.devices)


def place_of_new() -> Place | None:
    """Return the place of new arrays, replicated over the mesh in context; None if there is none.

    `default_device` takes precedence.
    """
    if contexts.concrete is None or config.state.default_device is not None:
        return None
    mesh = mesh_of_new_arrays()
    return None if mesh is None else laid_out(replicated(mesh))


def place_of_work(place: Place | None) -> Place:
    """Return the place of an operation whose operands agree on a place; None: there are no arrays.

    An uncommitted place gives way to the mesh in context.
    """
    if place is not None and (place.committed or contexts.concrete is None):
        return place
    return place_of_new() or place or default_place()


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding of a value that every device of a mesh has whole."""
    return NamedSharding(mesh, PartitionSpec())
