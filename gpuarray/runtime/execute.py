"""Run compiled programs, immediately or on a worker thread.

Floor 5. In: a Graph, arrays, a Place. Out: an Executable, whose `launch` fills result arrays; it is
asynchronous where the work is worth another thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray import config, util
from gpuarray.backends import simulator
from gpuarray.backends.cuda.device import is_exclusive as of_gpu
from gpuarray.backends.cuda.program import build as cuda_build
from gpuarray.backends.native.later import build_later
from gpuarray.backends.numpy import program as numpy_program
from gpuarray.backends.numpy.memory import is_exclusive as of_host
from gpuarray.backends.profiled import profiled
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control.call import needed_device
from gpuarray.control.lifting import lift_spread_constants
from gpuarray.core import dtypes, ranges
from gpuarray.core.avals import ShapedArray, typed_scalar
from gpuarray.core.graph import Graph, is_pure_structure, stored_constants
from gpuarray.core.sharding import Device, Place, place_of
from gpuarray.errors import JaxRuntimeError
from gpuarray.primitives.reshard import meshes_in
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import gpu_of, stored
from gpuarray.runtime.memory import out_of_memory
from gpuarray.runtime.stream import Flight, stream_of

#: Loaded by the first program that needs native code.
native_program = util.lazy_module("gpuarray.backends.native.program")

#: Work of fewer element-operations is done on the caller's thread.
ASYNC_FROM = 1 << 20
#: The same for native code: about a millisecond of exponentials. To wake a worker takes 30 us on a
#: quiet machine and 200 on a busy one.
NATIVE_ASYNC_FROM = 1 << 25
#: Native work that moves this many bytes takes as long, even with few operations.
NATIVE_ASYNC_BYTES = 1 << 25


class Constants:
    """Values that a program reads besides its inputs, as buffers made once for each device.

    They belong to the Graph that they come from, not to the Executable, which other graphs share.
    """

    __slots__ = ("_avals", "_beside", "_made", "over", "values")

    def __init__(self, values: Sequence[Any] = (), avals: Sequence[ShapedArray] = ()):
        self.values, self._avals = values, avals
        places = [x._place for x in values if type(x) is ArrayImpl]
        #: The place of the first constant that spans several devices; None if none does.
        self.over: Place | None = next((p for p in places if p.is_spread), None)
        self._made: dict[Any, list] = {}
        self._beside: dict[frozenset[Device], Constants] = {}

    def beside(self, devices: Sequence[Device]) -> Constants:
        """Return the constants of a program whose devices are settled without them.

        A constant does not determine the place then: if it is on other devices, a copy on one of
        these is read.
        """
        if self.over is None or not devices:
            return self
        there = frozenset(devices)
        found = self._beside.get(there)
        if found is None:
            stay = [_spread_over(x) in (frozenset(), there) for x in self.values]
            if all(stay):  # not kept: these constants would hold themselves
                return self
            pairs = zip(self.values, stay, strict=True)
            values = [x if stays else _copied(x, devices[0]) for x, stays in pairs]
            found = self._beside[there] = Constants(values, self._avals)
        return found

    def on(self, device: Device) -> list:
        """Return the buffers for a device; the list must not be changed."""
        found = self._made.get(device)
        if found is None:
            pairs = zip(self.values, self._avals, strict=True)
            found = self._made[device] = [_buffer_of(x, a, device) for x, a in pairs]
        return found


NO_CONSTANTS = Constants()


def _spread_over(x: Any) -> frozenset[Device]:
    """Return the devices that an array spans; none for values that a program takes from
    anywhere.
    """
    several = type(x) is ArrayImpl and x._place.is_spread
    return frozenset(x._place.all_devices) if several else frozenset()


def _copied(x: ArrayImpl, device: Device) -> ArrayImpl:
    """Return a copy on one device, which follows a program to its own."""
    place = place_of(device)
    return ArrayImpl(place.typed(x.aval), place, [stored(x._fetched(explicit=True), device)])


def separated(graph: Graph) -> tuple[Graph, Constants]:
    """Return a Graph whose constants are its last inputs, and their values."""
    found = graph.derived.get("separated")
    if found is None:
        found = graph.derived["separated"] = _separated(graph)
    # None means the graph itself: a graph that held itself would never be freed.
    return found[0] or graph, found[1]


def _separated(graph: Graph) -> tuple[Graph | None, Constants]:
    if is_pure_structure(graph):
        return None, NO_CONSTANTS
    flat = lift_spread_constants(inline_calls(graph, to_split=True))
    made = Graph(
        [*flat.invars, *flat.constvars], flat.outvars, flat.eqns, debug_name=flat.debug_name
    )
    return made, Constants(flat.consts, [v.aval for v in flat.constvars])


class Executable:
    """A compiled Graph: its Plan, and the Programs that run it, made on demand for each device.

    The Graph holds no constants: they are inputs (see `separated`). `announce(program, seconds)` is
    called for every DeviceProgram that is made, with a reason if there were others before. A Graph
    with `over_devices` is planned for one device only when needed.
    """

    __slots__ = (
        "_heavy", "_lock", "_plan", "_programs", "announce", "device", "donated", "graph",
        "in_avals", "meshes", "native", "out_avals", "teams",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        donated: frozenset[int] = frozenset(),
        announce: Callable[..., None] | None = None,
        over_devices: bool = False,
    ):
        self.graph = graph
        self.device = needed_device(graph)  # if set, the only one it may run on
        self.donated = donated
        self.announce = announce
        # A program over several devices is planned for each layout of its inputs (spread.py).
        self.meshes = meshes_in(graph)
        self.native = config.state.native
        later = self.meshes or over_devices
        self._plan = None if later else plan_graph(graph, fusion=config.state.fusion)
        self.in_avals = graph.in_avals
        self.out_avals = graph.out_avals
        self._heavy: bool | None = None
        self.teams: dict[Any, Any] = {}
        self._programs: dict[Any, DeviceProgram] = {}
        self._lock = util.lock()

    @property
    def heavy(self) -> bool:
        """Whether a worker should run it while the caller continues; a GPU is asynchronous
        anyway.
        """
        if self._heavy is None and self._plan is not None:
            self._heavy = self._takes_long(self._plan.work)
        # A program not planned for one device runs on several.
        return self._heavy is not False

    def _takes_long(self, work: float) -> bool:
        """Whether a worker should do `work` operations while the caller continues."""
        # A callback takes as long as with NumPy, and may wait for work behind its own.
        if self.native == "off" or not is_pure_structure(self.graph):
            return work >= ASYNC_FROM
        moved = sum(a.nbytes for a in (*self.in_avals, *self.out_avals))
        return work >= NATIVE_ASYNC_FROM or moved >= NATIVE_ASYNC_BYTES

    @property
    def plan(self) -> Plan:
        """The plan for one device."""
        if self._plan is None:
            if self.meshes:
                name = self.graph.debug_name
                raise RuntimeError(f"{name} runs on the devices of {self.meshes[0]}")
            self._plan = plan_graph(self.graph, fusion=config.state.fusion)
        return self._plan

    def on(self, device: Device) -> DeviceProgram:
        """Return the program for a device, made on first use."""
        # CPU devices share programs; each GPU has its own.
        key = device if device.platform == "gpu" else device.platform
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    start = time.perf_counter()
                    with ranges.during(f"build {self.graph.debug_name}", "compile"):
                        found = backend_compile_and_load(device.client, self, device)
                    if self.announce is not None:
                        self.announce(found, time.perf_counter() - start)
                    self._programs[key] = found
        return found


def backend_compile_and_load(backend: Any, executable: Executable, device: Device) -> DeviceProgram:
    """Make the program of a device. `backend` is the device's client: libraries that forbid
    compiling for a platform replace this function.
    """
    return DeviceProgram(executable.plan, executable.donated, device, executable.native)


class DeviceProgram:
    """An Executable's function on the buffers of one device."""

    __slots__ = ("gpu", "plan", "run")

    def __init__(self, plan: Plan, donated: frozenset[int], device: Device, native: str = "off"):
        self.plan = plan
        self.gpu = gpu_of(device)
        self.run: Any
        # The Graph has none, but values that its loops compute before their iterations may use
        # theirs.
        consts = stored_constants(plan.graph)
        if self.gpu is not None:
            self.run = cuda_build(plan, consts, donated, gpu=self.gpu)
        elif device.platform == "simulator":
            self.run = simulator.build(plan, consts, donated)
        elif native == "auto":
            self.run = build_later(plan, consts, donated)
        elif native == "wait":
            self.run = native_program.build(plan, consts, donated)
        else:
            self.run = numpy_program.build(plan, consts, donated)

    def __call__(self, *buffers) -> list:
        run = self.run if ranges.session is None else profiled(self.run)
        try:
            if self.gpu is not None:
                return run(*buffers)
            return numpy_program.local.run(run, *buffers)
        except Exception as error:
            if not numpy_program.renewed(error):
                raise explained(self, error) from None
        # The scratch state of this thread was renewed and nothing has run, so run it again.
        return self(*buffers)


def explained(program: DeviceProgram, error: Exception) -> Exception:
    """Return the error with a note of the operation that failed and the line that recorded it."""
    where = "a compiled program"
    trace = error.__traceback__
    functions = (program.run, getattr(program.run, "profiled", None))
    sites = {run.__code__: run.sites for run in functions if run is not None}
    while trace is not None:
        if trace.tb_frame.f_code in sites:
            # Lines of a generated function are counted from 1; each belongs to an equation.
            eqn = sites[trace.tb_frame.f_code].get(trace.tb_lineno - 1)
            if eqn is not None:
                where = f"{eqn.primitive.name} recorded at {eqn.site}"
        trace = trace.tb_next
    if program.gpu is not None:
        error = program.gpu.failed(error)
    if isinstance(error, MemoryError):
        return out_of_memory(error, where)
    error.add_note(f"raised while running {where}")
    return error


def launch(
    executable: Executable,
    inputs: list,
    arrays: list[ArrayImpl],
    place: Place,
    given_away: Iterable[int] = (),
    now: bool = False,
    constants: Constants = NO_CONSTANTS,
) -> Flight | None:
    """Fill `arrays` with the results for `inputs` (arrays or scalars).

    It is done on return, or when the returned Flight is.

    Parameters
    ----------
    given_away :
        Numbers of inputs that are donated: their memory belongs to the program from here on.
    now :
        Whether to run on this thread, however much work it is.
    constants :
        Values that the program reads behind its inputs.
    """
    if config.state.no_execution:
        raise RuntimeError("a program would run on a device, but 'no_execution' is set")
    # Make or find the program and the constants for this device.
    device = place.device
    program = executable.on(device)
    behind = constants.on(device)
    avals = executable.in_avals[: len(inputs)]
    if executable.donated:
        _check_given_once(inputs, given_away)
    for i in given_away:
        inputs[i]._buffers()  # waits
    # Buffers that are ready are taken now, so that deleting or donating their arrays later cannot
    # touch this work. On a GPU all are taken, because the stream orders the work. So are arrays
    # that no worker computes: this thread itself may be computing them, further up the stack.
    now = now or program.gpu is not None
    sources = [
        held(x) if _in_flight(x) and not now else _buffer_of(x, a, device)
        for x, a in zip(inputs, avals, strict=True)
    ]
    owned: list = []
    if executable.donated:
        # A donated array without views has two references to its buffer: its own, and `sources`.
        is_exclusive = of_gpu if program.gpu is not None else of_host
        owned.append({i for i in given_away if is_exclusive(sources[i], 2)})
        for i in given_away:
            # The array is deleted for the user from here on.
            inputs[i]._bufs = None
    if not now and (executable.heavy or any(type(x) is ArrayImpl for x in sources)):
        # On a worker: inputs that are still in flight are waited for there.
        def job() -> list:
            buffers = [
                _buffer_of(x, a, device) if type(x) is ArrayImpl else x
                for x, a in zip(sources, avals, strict=True)
            ]
            # Inputs are freed as soon as the program lets go of them.
            sources.clear()
            return [[b] for b in program(*buffers, *behind, *owned)]

        return stream_of(device).submit(job, arrays)
    for array, buffer in zip(arrays, program(*sources, *behind, *owned), strict=True):
        # A result may have to leave the memory of its GPU.
        kind = array._place.kind
        array._bufs = [buffer if kind == "device" else stored(buffer, device, kind)]
        # In this order: readers look at `_work` first.
        array._work = None
    return None


def held(x: ArrayImpl) -> ArrayImpl:
    """Return the same value as an array of our own, which deleting `x` does not touch."""
    if x._work is not None:
        return x._work.twin(x)
    return ArrayImpl(x.aval, x._place, list(x._buffers()))  # a deleted array raises here


def _check_given_once(inputs: list, given_away: Iterable[int]) -> None:
    """Refuse a donated array that is also another argument."""
    numbers = [id(x) for x in inputs]
    if len(set(numbers)) == len(numbers):
        return
    given = set(given_away)
    for i in sorted(given):
        others = [k for k, number in enumerate(numbers) if number == numbers[i] and k != i]
        if others:
            twice = bool(given.intersection(others))
            raise (ValueError if twice else JaxRuntimeError)(
                f"flat argument {i} is donated, and the same array is argument "
                f"{', '.join(map(str, others))}{' (donated, too)' if twice else ''}: its memory "
                "cannot be given away and be used. Pass a copy, x.copy(), or do not donate it."
            )


# Whether a worker has the array's work.
def _in_flight(x) -> bool:
    return type(x) is ArrayImpl and x._work is not None and x._work.in_flight()


# The buffer of an array or scalar in a device's memory.
def _buffer_of(x: Any, aval, device: Device):
    if type(x) is ArrayImpl and not x._place.is_single:
        return stored(x._fetched(explicit=True), device)
    if type(x) is ArrayImpl:
        buffer = x._buffer()
        # All devices of the host have one memory; each GPU has its own.
        same = x._place.device.platform == device.platform != "gpu"
        return buffer if same else stored(buffer, device, x._place.kind)
    if isinstance(x, (np.ndarray, np.generic)):
        value = x if x.dtype == aval.dtype else x.astype(aval.dtype)
    else:
        value = typed_scalar(x, aval.dtype)
    return value if device.platform != "gpu" else stored(value, device)


def check_numbers(what: str, buffers: list, site) -> None:
    """Raise FloatingPointError if a result has a nan (or inf) that the debug settings forbid."""
    state = config.state
    for buffer in buffers:
        value = np.asarray(buffer)
        if value.dtype.kind not in "fcV" or dtypes.issubdtype(value.dtype, np.integer):
            continue
        # Narrow floats have no isnan.
        wide = value if value.dtype.kind in "fc" else value.astype(np.float32)
        for wanted, test, word in (
            (state.debug_nans, np.isnan, "nan"),
            (state.debug_infs, np.isinf, "inf"),
        ):
            if wanted and (bad := test(wide)).any():
                first = tuple(int(i) for i in np.argwhere(bad)[0]) if wide.ndim else ()
                raise FloatingPointError(
                    f"invalid value ({word}) encountered in {what}, first at index {first}, "
                    f"made at {site}. Guard the input, for example with gpuarray.numpy.where on a "
                    "safe value, or switch the check off (debug_nans)."
                )
