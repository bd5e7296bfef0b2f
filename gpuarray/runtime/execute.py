"""Run compiled programs: from a Graph to buffers, in order or in flight.

Floor 5. In: a Graph, arrays, a Place. Out: an Executable, whose `launch` fills result arrays,
asynchronously when it is worth a thread's while.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from gpuarray import config
from gpuarray.compiler.plan import Plan, plan_graph
from gpuarray.core import dtypes
from gpuarray.core.avals import typed_scalar
from gpuarray.core.graph import Graph
from gpuarray.core.sharding import Place
from gpuarray.drivers import numpy as driver
from gpuarray.drivers import simulator
from gpuarray.drivers.memory import is_exclusive
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.memory import out_of_memory
from gpuarray.runtime.stream import stream_of

#: Work below this many element-operations is done on the caller's thread.
ASYNC_FROM = 1 << 20


#: Per platform, what makes a plan a function on buffers.
BUILDERS = {"cpu": driver.build, "simulator": simulator.build}


class Executable:
    """A compiled Graph: its Plan, and the function that runs it on buffers.

    It is made for the CPU; `on` gives its counterpart for another platform, with the same plan.
    """

    __slots__ = (
        "consts", "donated", "graph", "heavy", "in_avals", "out_avals", "others", "plan", "run",
    )  # fmt: skip

    def __init__(self, graph: Graph, donated: frozenset[int] = frozenset()):
        self.others: dict[str, Executable] = {}
        self.graph = graph
        self.donated = donated
        self.plan: Plan = plan_graph(graph, fusion=config.state.fusion)
        flat = self.plan.graph
        self.consts = [
            _buffer_of(c, v.aval) for v, c in zip(flat.constvars, flat.consts, strict=True)
        ]
        self.in_avals = graph.in_avals
        self.out_avals = graph.out_avals
        self.run = driver.build(self.plan, self.consts, donated)
        self.heavy = self.plan.work >= ASYNC_FROM

    def on(self, platform: str) -> Executable:
        """The same program for a platform, made when it is first asked for."""
        if platform == "cpu":
            return self
        found = self.others.get(platform)
        if found is None:
            found = copy.copy(self)
            found.run = BUILDERS[platform](self.plan, self.consts, self.donated)
            self.others[platform] = found
        return found

    def __call__(self, *buffers) -> list:
        try:
            return driver.local.run(self.run, *buffers)
        except Exception as error:
            raise explained(self, error) from None


def explained(executable: Executable, error: Exception) -> Exception:
    """The error with a note of the operation that failed and the user's line that recorded it."""
    where = "a compiled program"
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is executable.run.__code__:
            eqn = executable.run.sites.get(trace.tb_lineno - 1)
            if eqn is not None:
                where = f"{eqn.primitive.name} recorded at {eqn.site}"
        trace = trace.tb_next
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
) -> None:
    """Fill `arrays` with the results for `inputs` (arrays or scalars), now or in flight.

    The inputs numbered in `given_away` are deleted: their memory belongs to the program from here
    on.
    """
    if config.state.no_execution:
        raise RuntimeError("a program would run on a device, but 'no_execution' is set")
    executable = executable.on(place.device.platform)
    avals = executable.in_avals
    for i in given_away:
        inputs[i]._buffer()  # waits
    # What is ready is taken now, so that deleting or donating it later cannot touch this work.
    sources = [x if _waits(x) else _buffer_of(x, a) for x, a in zip(inputs, avals, strict=True)]
    owned: list = []
    if executable.donated:
        # Two know the buffer of a donated array that has no views: the array and `sources`.
        owned.append({i for i in given_away if is_exclusive(sources[i], 2)})
        for i in given_away:
            inputs[i]._bufs = None
    if executable.heavy or any(map(_waits, inputs)):

        def job() -> list:
            buffers = [
                _buffer_of(x, a) if type(x) is ArrayImpl else x
                for x, a in zip(sources, avals, strict=True)
            ]
            sources.clear()
            return executable(*buffers, *owned)

        stream_of(place.device).submit(job, arrays)
        return
    for array, buffer in zip(arrays, executable(*sources, *owned), strict=True):
        array._bufs = [buffer]
        array._work = None


def _waits(x) -> bool:
    return type(x) is ArrayImpl and x._work is not None


def _buffer_of(x: Any, aval):
    if type(x) is ArrayImpl:
        return x._buffer()
    if isinstance(x, (np.ndarray, np.generic)):
        return x if x.dtype == aval.dtype else x.astype(aval.dtype)
    return typed_scalar(x, aval.dtype)


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
