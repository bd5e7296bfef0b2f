"""Executors of programs over several devices: CPU devices, simulators, or GPUs.

Floor 5. In: a Plan with collectives, and a grid of devices. Out: a function from the buffers of all
devices to the results of all devices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpuarray.backends import lockstep, simulator
from gpuarray.backends.cuda import nccl
from gpuarray.backends.cuda import program as cuda
from gpuarray.backends.cuda.device import is_exclusive
from gpuarray.backends.native import later, over_devices
from gpuarray.backends.numpy import program as numpy_program
from gpuarray.backends.numpy.memory import is_exclusive as is_exclusive_here
from gpuarray.backends.profiled import profiled
from gpuarray.backends.stacked import stacked
from gpuarray.compiler.pipeline import Plan
from gpuarray.config import state
from gpuarray.core import ranges
from gpuarray.core.graph import Graph, has_effect, has_exchanges, stored_constants
from gpuarray.core.grid import Grid
from gpuarray.runtime import processes
from gpuarray.runtime.device import gpu_of
from gpuarray.runtime.execute import explained
from gpuarray.runtime.memory import out_of_memory
from gpuarray.util import lazy_module

#: Loaded where a program must not run before it is compiled.
native: Any = lazy_module("gpuarray.backends.native.program")


def fleet(plan: Plan, local: Graph, grid: Grid, donated: frozenset[int]) -> HostFleet | GpuFleet:
    """Return the executor of a plan, made from `local`, on the devices of a grid."""
    consts = stored_constants(plan.graph)
    sizes = grid.sizes or {"one": 1}
    platform = grid.devices[0].platform
    if platform == "gpu":
        return GpuFleet(plan, consts, grid, sizes, donated)
    # MPI exchanges values during computation; devices that share memory do one thing at a time.
    if not all(device.is_addressable for device in grid.devices):
        plan = plan.overlapped
    # Computations inside collectives, such as the sum over devices, are compiled, too.
    if platform == "simulator":
        build, compile = simulator.build, simulator.compile_graph
    elif state.native == "off":
        build, compile = numpy_program.build, numpy_program.compile_graph
    elif state.native == "wait":
        build, compile = native.build, native.compile_graph
    else:
        build, compile = numpy_program.build, later.compile_graph
    found = HostFleet(plan, local, build(plan, consts, donated), grid, compile, donated)
    # A program that prints cannot be run twice for comparison; and processes would switch to
    # compiled code at different times, and differ in the last digits.
    alone = found.count == len(grid.devices) and not found.each
    if alone and platform == "cpu" and state.native == "auto":
        found.later = over_devices.CompiledLater(plan, consts, donated, found.run)
    return found


#: One object, so that devices that may overwrite nothing have identical operands.
_NOTHING: frozenset[int] = frozenset()


class HostFleet:
    """Devices in host memory that share one function; other processes run theirs."""

    gpu = None  # for the explanation of errors

    def __init__(
        self,
        plan: Plan,
        local: Graph,
        run: Callable[..., Any],
        grid: Grid,
        compile: Callable,
        donated: frozenset[int] = frozenset(),
    ):
        self.plan, self.run, self.grid = plan, run, grid
        self.donated = donated
        # Compiled code that takes over from NumPy, as long as it may still come.
        self.later: over_devices.CompiledLater | None = None
        self.count = sum(device.is_addressable for device in grid.devices)
        self.engine = processes.engine(grid, compile)
        # Whose effects are one for each device, though all compute the same.
        self.each = any(map(has_effect, plan.graph.eqns))
        # Whether all processes are known to run the same program; a single one need not check.
        talks: bool = run.talks  # pyright: ignore[reportFunctionMemberAccess]
        self.is_compared = self.count == len(grid.devices) or not talks
        # Small values, at the same place in all devices' loops: a stack of them does as well.
        here = self.count == len(grid.devices) and grid.devices[0].platform == "cpu"
        # From the original Graph: a simplified one is not valid for transformations.
        self.stacked = stacked(local, grid.sizes) if talks and here else None

    def __call__(self, inputs: list[list], given: Iterable[int] = ()) -> list[list]:
        """Run our devices: inputs and results are rows with a buffer for each of them.

        The memory of inputs `given` may be written over.
        """
        # Once, before the first exchange: processes that run different programs would wait for
        # each other for ever.
        if not self.is_compared:
            processes.compare(self.plan.graph, self.grid)
            self.is_compared = True
        rows: list[Any] = inputs
        if self.donated:
            # The inputs that each device may overwrite are one more operand of its function.
            rows = [*inputs, self._owned(inputs, self.donated.intersection(given))]
        try:
            return numpy_program.local.run(self._run, rows)
        except Exception as error:
            if not numpy_program.renewed(error):
                raise explained(self, error) from None  # pyright: ignore[reportArgumentType]
        return self(inputs, given)

    def _owned(self, inputs: list[list], given: Iterable[int]) -> list[frozenset[int]]:
        """Return the inputs whose memory belongs to one device alone, for each device."""
        # Only the row holds the buffer of an array that was deleted; replicas are in it twice.
        return [
            frozenset(i for i in given if is_exclusive_here(inputs[i][d], 1)) or _NOTHING
            for d in range(self.count)
        ]

    def _run(self, inputs: list[list]) -> list[list]:
        # A process without a device of this mesh does not take part.
        if not self.count:
            return [[] for _ in self.plan.graph.outvars]
        if self.stacked is not None and ranges.session is None:
            return self.stacked(inputs)
        operands = list(zip(*inputs, strict=True)) if inputs else [()] * self.count
        later = self.later
        if later is not None and ranges.session is None:
            if later.new is not None:
                return _columns(self._tried(later, operands))
            if later.waits:
                begun = time.perf_counter()
                found = self._by(self.run, operands)
                later.count(time.perf_counter() - begun, self.count)
                return _columns(found)
        return _columns(self._by(self.run, operands))

    def _tried(self, later: over_devices.CompiledLater, operands: list[tuple]) -> list[list]:
        """Run all devices by NumPy and also by compiled code, which is used from then on if it
        agrees.
        """
        new, self.later = later.new, None
        if self.donated:
            # Both read the inputs, so neither may overwrite them.
            operands = [(*row[:-1], _NOTHING) for row in operands]
        heard: list[over_devices.Heard] = [[] for _ in operands]
        wanted = self._by(self.run, operands, heard)
        if later.agrees(new, operands, wanted, heard):
            self.run = new
        return wanted

    def _by(
        self, run: Any, operands: list[tuple], heard: list[over_devices.Heard] | None = None
    ) -> list[list]:
        """Run a function on each device's operands; record received values at exchanges if
        requested.
        """
        talks: bool = run.talks
        calls: list[Callable[..., Any]] = [run] * self.count
        if ranges.session is not None:
            here = [d for d in self.grid.devices if d.is_addressable]
            calls = [_in_its_row(str(device), profiled(run), talks) for device in here]
        # Programs that exchange values run as generators, all devices in turn, from one exchange
        # to the next.
        if talks:
            programs = [call(*row) for call, row in zip(calls, operands, strict=True)]
            if heard is not None:
                programs = list(map(over_devices.noted, programs, heard))
            return lockstep.run(programs, self.engine, self.engine.among)
        # A callback runs once a device, even where all devices compute the same.
        if self.each:
            return [call(*row) for call, row in zip(calls, operands, strict=True)]
        # Devices with the very same operands have the same results: computed once.
        known: dict[tuple, list] = {}
        rows = []
        for call, row in zip(calls, operands, strict=True):
            key = tuple(map(id, row))
            found = known.get(key)
            if found is None:
                found = known[key] = call(*row)
            rows.append(found)
        return rows


class _OnGpu:
    """The function of one GPU."""

    def __init__(self, run: Callable[..., Any], gpu: Any):
        self.run, self.gpu = run, gpu

    def steps(self, operands: list) -> Iterator[Any]:
        """Run it as a generator, with errors that say which GPU, operation and line."""
        try:
            run = self.run
            if ranges.session is not None:
                run = profiled(run)
            if self.run.talks:  # pyright: ignore[reportFunctionMemberAccess]
                return (yield from run(*operands))
            return run(*operands)
        except Exception as error:
            raise explained(self, error) from None  # pyright: ignore[reportArgumentType]


class GpuFleet:
    """GPUs, each with its own function."""

    def __init__(self, plan: Plan, consts: list, grid: Grid, sizes: dict, donated: frozenset[int]):
        self.devices = [device for device in grid.devices if device.is_addressable]
        gpus = [gpu_of(device) for device in self.devices]
        self.gpus = [gpu for gpu in gpus if gpu is not None]
        self.plan, self.grid, self.donated = plan, grid, donated
        # Shared by all GPUs, so that each Graph inside the program is planned once.
        plans: dict = {}
        party = None if len(gpus) == len(grid.devices) else processes.party(grid)
        self.engine = nccl.engine(self.gpus, sizes, party)
        if self.engine.overlaps:
            plan = plan.on_device.overlapped
        self.parts = []
        for gpu in self.gpus:
            inside = cuda.InnerFunctions(gpu, plans)
            run = cuda.build(plan, consts, donated, gpu=gpu, inside=inside)
            self.parts.append(_OnGpu(run, gpu))
        self.run = self.parts[0].run if self.parts else None
        # Whether all processes are known to run the same program; a single one need not check.
        self.is_compared = party is None or not has_exchanges(plan.graph)

    def __call__(self, inputs: list[list], given: Iterable[int] = ()) -> list[list]:
        """Run our GPUs; the memory of inputs `given` may be written over."""
        if not self.is_compared:
            processes.compare(self.plan.graph, self.grid)
            self.is_compared = True
        if not self.parts:
            return [[] for _ in self.plan.graph.outvars]
        given = self.donated.intersection(given)
        programs = []
        for d, part in enumerate(self.parts):
            # Only the row holds the buffer of an array that was deleted.
            owned = [{i for i in given if is_exclusive(inputs[i][d], 1)}] if self.donated else []
            program = part.steps([row[d] for row in inputs] + owned)
            if ranges.session is not None:
                program = _shown(str(self.devices[d]), program)
            programs.append(program)
        try:
            return _columns(lockstep.run(programs, self._exchange, self.engine.among))
        except BaseException:
            # The current work is abandoned, and its memory is about to be reused.
            self.engine.settle()
            raise

    def _exchange(self, eqn: Any, operands: list[list]) -> list[list]:
        try:
            return self.engine(eqn, operands)
        except Exception as error:
            where = f"{eqn.primitive.name} recorded at {eqn.site}"
            if isinstance(error, MemoryError):
                raise out_of_memory(error, where) from None
            error.add_note(f"raised while running {where}")
            raise


def _in_its_row(name: str, run: Callable[..., Any], talks: bool) -> Callable[..., Any]:
    """Return a device's program that is shown in the device's row of a profile."""

    def call(*operands: Any) -> Any:
        with ranges.in_row(name):
            return run(*operands)

    return (lambda *operands: _shown(name, run(*operands))) if talks else call


def _shown(name: str, program: Iterator[Any]) -> Iterator[Any]:
    """Return a generator that is in the device's row whenever it runs."""
    answer: Any = None
    try:
        while True:
            with ranges.in_row(name):
                asked = program.send(answer)  # pyright: ignore[reportAttributeAccessIssue]
            answer = yield asked
    except StopIteration as end:
        return end.value
    finally:
        program.close()  # pyright: ignore[reportAttributeAccessIssue]


def _columns(rows: list[list]) -> list[list]:
    return [list(column) for column in zip(*rows, strict=True)] if rows[0] else []
