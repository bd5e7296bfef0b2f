"""Run compiled programs: from a Graph to buffers, in order or in flight.

Floor 5. In: a Graph, arrays, a Place. Out: an Executable, whose `launch` fills result arrays,
asynchronously when it is worth a thread's while.
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
from gpuarray.backends.numpy import program as driver
from gpuarray.backends.numpy.memory import is_exclusive as of_host
from gpuarray.backends.profiled import profiled
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control.call import needed_device
from gpuarray.core import dtypes, ranges
from gpuarray.core.avals import ShapedArray, typed_scalar
from gpuarray.core.graph import Graph, is_pure_structure
from gpuarray.core.sharding import Device, Place
from gpuarray.errors import JaxRuntimeError
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.device import gpu_of, stored
from gpuarray.runtime.memory import out_of_memory
from gpuarray.runtime.stream import Flight, stream_of

#: Work below this many element-operations is done on the caller's thread.
ASYNC_FROM = 1 << 20


class Constants:
    """The values that a program reads beside its inputs, as buffers, made once for each device.

    They belong to the Graph they come from, not to the Executable, which others like it share.
    """

    __slots__ = ("_avals", "_made", "_values")

    def __init__(self, values: Sequence[Any] = (), avals: Sequence[ShapedArray] = ()):
        self._values, self._avals = values, avals
        self._made: dict[Any, list] = {}

    def on(self, device: Device) -> list:
        """The buffers for a device; do not change the list."""
        found = self._made.get(device)
        if found is None:
            pairs = zip(self._values, self._avals, strict=True)
            found = self._made[device] = [_buffer_of(x, a, device) for x, a in pairs]
        return found


NO_CONSTANTS = Constants()


def separated(graph: Graph) -> tuple[Graph, Constants]:
    """A Graph whose constants are its last inputs, and their values."""
    found = graph.derived.get("separated")
    if found is None:
        found = graph.derived["separated"] = _separated(graph)
    return found[0] or graph, found[1]


def _separated(graph: Graph) -> tuple[Graph | None, Constants]:
    if is_pure_structure(graph):
        return None, NO_CONSTANTS  # the Graph itself, which must not hold itself
    flat = inline_calls(graph)
    made = Graph(
        [*flat.invars, *flat.constvars], flat.outvars, flat.eqns, debug_name=flat.debug_name
    )
    return made, Constants(flat.consts, [v.aval for v in flat.constvars])


class Executable:
    """A compiled Graph: its Plan, and the Programs that run it, made for each device that asks.

    The Graph holds no constants: they are inputs (see `separated`).

    announce(program, seconds): told of every Program that was made
    """

    __slots__ = (
        "_lock", "_programs", "announce", "device", "donated", "graph", "heavy", "in_avals",
        "out_avals", "plan",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        donated: frozenset[int] = frozenset(),
        announce: Callable[[Program, float], None] | None = None,
    ):
        self.graph = graph
        self.device = needed_device(graph)  # the only one it may run on
        self.donated = donated
        self.announce = announce
        self.plan: Plan = plan_graph(graph, fusion=config.state.fusion)
        self.in_avals = graph.in_avals
        self.out_avals = graph.out_avals
        self.heavy = self.plan.work >= ASYNC_FROM
        self._programs: dict[Any, Program] = {}
        self._lock = util.lock()

    def on(self, device: Device) -> Program:
        """The program for a device, made when it is first asked for."""
        key = device if device.platform == "gpu" else device.platform
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    start = time.perf_counter()
                    with ranges.during(f"build {self.graph.debug_name}", "compile"):
                        found = Program(self.plan, self.donated, device)
                    if self.announce is not None:
                        self.announce(found, time.perf_counter() - start)
                    self._programs[key] = found
        return found


class Program:
    """An Executable's function on the buffers of a device."""

    __slots__ = ("gpu", "plan", "run")

    def __init__(self, plan: Plan, donated: frozenset[int], device: Device):
        self.plan = plan
        self.gpu = gpu_of(device)
        self.run: Any
        if self.gpu is not None:
            self.run = cuda_build(plan, (), donated, gpu=self.gpu)
        elif device.platform == "simulator":
            self.run = simulator.build(plan, [], donated)
        else:
            self.run = driver.build(plan, [], donated)

    def __call__(self, *buffers) -> list:
        run = self.run if ranges.session is None else profiled(self.run)
        try:
            if self.gpu is not None:
                return run(*buffers)
            return driver.local.run(run, *buffers)
        except Exception as error:
            if not driver.renewed(error):
                raise explained(self, error) from None
        return self(*buffers)


def explained(program: Program, error: Exception) -> Exception:
    """The error with a note of the operation that failed and the user's line that recorded it."""
    where = "a compiled program"
    trace = error.__traceback__
    functions = (program.run, getattr(program.run, "profiled", None))
    sites = {run.__code__: run.sites for run in functions if run is not None}
    while trace is not None:
        if trace.tb_frame.f_code in sites:
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
    """Fill `arrays` with the results for `inputs` (arrays or scalars): now, or in the flight that
    is given back.

    given_away: numbers of inputs that are deleted: their memory belongs to the program from here on
    now: on this thread, however much work it is
    constants: what the program reads behind its inputs
    """
    if config.state.no_execution:
        raise RuntimeError("a program would run on a device, but 'no_execution' is set")
    device = place.device
    program = executable.on(device)
    behind = constants.on(device)
    avals = executable.in_avals[: len(inputs)]
    if executable.donated:
        _check_given_once(inputs, given_away)
    for i in given_away:
        inputs[i]._buffer()  # waits
    # What is ready is taken now, so that deleting or donating it later cannot touch this work.
    # On a GPU all inputs are, for the stream says when they are filled. So is what no worker has in
    # hand: it may be this thread, further up, that is computing it.
    now = now or program.gpu is not None
    sources = [
        held(x) if _in_flight(x) and not now else _buffer_of(x, a, device)
        for x, a in zip(inputs, avals, strict=True)
    ]
    owned: list = []
    if executable.donated:
        # Two know the buffer of a donated array that has no views: the array and `sources`.
        is_exclusive = of_gpu if program.gpu is not None else of_host
        owned.append({i for i in given_away if is_exclusive(sources[i], 2)})
        for i in given_away:
            inputs[i]._bufs = None
    if not now and (executable.heavy or any(type(x) is ArrayImpl for x in sources)):

        def job() -> list:
            buffers = [
                _buffer_of(x, a, device) if type(x) is ArrayImpl else x
                for x, a in zip(sources, avals, strict=True)
            ]
            sources.clear()
            return program(*buffers, *behind, *owned)

        return stream_of(device).submit(job, arrays)
    for array, buffer in zip(arrays, program(*sources, *behind, *owned), strict=True):
        array._bufs = [buffer]
        array._work = None
    return None


def held(x: ArrayImpl) -> ArrayImpl:
    """The same value under a handle of our own: deleting `x` later does not touch it."""
    if x._work is not None:
        return x._work.twin(x)
    return ArrayImpl(x.aval, x._place, [x._buffer()])  # a deleted array raises here


def _check_given_once(inputs: list, given_away: Iterable[int]) -> None:
    """Refuse a donated array that is another argument as well."""
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


def _in_flight(x) -> bool:
    return type(x) is ArrayImpl and x._work is not None and x._work.in_flight()


def _buffer_of(x: Any, aval, device: Device):
    if type(x) is ArrayImpl:
        buffer = x._buffer()
        same = x._place.device.platform == device.platform != "gpu"
        return buffer if same else stored(buffer, device)
    if isinstance(x, (np.ndarray, np.generic)):
        value = x if x.dtype == aval.dtype else x.astype(aval.dtype)
    else:
        value = typed_scalar(x, aval.dtype)
    return value if device.platform != "gpu" else stored(value, device)


def check_numbers(what: str, buffers: list, site) -> None:
    """Raise if a result holds a NaN (or an infinity) while the debug settings forbid it."""
    state = config.state
    for buffer in buffers:
        value = np.asarray(buffer)
        if value.dtype.kind not in "fcV" or dtypes.issubdtype(value.dtype, np.integer):
            continue
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
