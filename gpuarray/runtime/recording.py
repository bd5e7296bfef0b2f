"""Eager operations that wait to be run together, and what becomes of them after a failure.

Floor 5. In: operations on ready and pending arrays, recorded one at a time. Out: pending arrays. A
Recording is dispatched once, as one Graph whose outputs are the arrays still alive.

An array waits on its Node, and a Node refers to the nodes and arrays it reads. So a value never
depends on its Recording being run as a whole: where that was refused, failed or was interrupted,
`Node.resolve` runs the array's own cone (what it reads, directly and through others) and nothing
else. A failure therefore reaches the values that need what failed, and no others.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gpuarray import config, sites, util
from gpuarray.backends.numpy import program as driver
from gpuarray.core import ranges
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, typed_scalar
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Primitive
from gpuarray.core.sharding import Place
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.cache import compiled
from gpuarray.runtime.execute import held, launch
from gpuarray.runtime.stream import Flight

#: So many recorded operations are dispatched without being asked for.
FLUSH_AT = 256
#: On a GPU many operations on little data wait for more: a launch takes as long as they do.
FLUSH_SMALL_AT, SMALL = 4096, 1 << 22


class Op:
    """A primitive applied to given avals and params: what every eager call of it shares."""

    __slots__ = ("avals", "function", "in_avals", "largest", "multiple", "params", "prim")

    def __init__(self, prim: Primitive, in_avals: tuple[ShapedArray, ...], params: dict):
        self.prim = prim
        self.params = params
        self.in_avals = in_avals
        self.avals = prim.out_avals(in_avals, params)
        self.multiple = prim.multiple_results
        self.function = driver.function_of(prim, in_avals, params)
        self.largest = max([a.size for a in (*in_avals, *self.avals)], default=0)


class Node:
    """One recorded operation: pending arrays hold it as their `_work`.

    inputs: a pair (Node, which of its results), a handle on an array, or a scalar each
    handles: weak references to the arrays of the results
    twins: (which result, weak reference) of further arrays with the same values
    """

    __slots__ = ("handles", "inputs", "op", "recording", "site", "twins")

    def __init__(self, recording: Recording, op: Op, inputs: list):
        self.recording = recording
        self.op = op
        self.inputs = inputs
        self.handles: list[weakref.ref] = []
        self.twins: tuple[tuple[int, weakref.ref], ...] = ()
        self.site = sites.user_frame()

    def waiting(self) -> Iterator[tuple[int, ArrayImpl]]:
        """The arrays that wait on this node, each with the number of its result."""
        for which, handle in enumerate(self.handles):
            array = handle()
            if array is not None and array._work is self:
                yield which, array
        for which, handle in self.twins:
            array = handle()
            if array is not None and array._work is self:
                yield which, array

    def is_waited_for(self) -> bool:
        """Whether any array waits on this node."""
        return next(self.waiting(), None) is not None

    def resolve(self) -> None:
        """Fill the arrays that wait on this node, or raise what keeps their value from them."""
        recording = self.recording
        error = recording.start()
        flight = recording.flight
        if error is None and flight is not None and flight.join():
            error, flight.error = flight.error, None  # asked again, it is tried again
        if self.is_waited_for():
            self._resolve_alone(recording, error)

    def _resolve_alone(self, recording: Recording, error: BaseException | None) -> None:
        """Run the operations that this node needs, without the rest of its recording."""
        nodes, known = cone([self])
        if error is not None and recording.needed <= len(nodes):
            raise error  # all of the recording is needed here, and it failed just now
        if self in _asked.nodes:
            raise RuntimeError(
                f"a Python function that {self.op.prim.name} needs (recorded at {self.site}) asks "
                "for the result of that operation itself: the value depends on itself. Return what "
                "the function computes instead of reading the array it helps to make."
            )
        _asked.nodes.append(self)
        try:
            dispatch(nodes, recording.place, known, now=True)
        finally:
            _asked.nodes.pop()

    def in_flight(self) -> bool:
        """Whether a worker has the work in hand, or had."""
        return self.recording.flight is not None

    def poll(self) -> bool:
        """Set the work going; say whether there is nothing to wait for."""
        self.recording.start()
        flight = self.recording.flight
        return flight is None or flight.poll()

    def twin(self, array: ArrayImpl) -> ArrayImpl:
        """Another array that waits for the same value as `array`."""
        made = ArrayImpl(array.aval, array._place, None, self)
        for which, handle in (*enumerate(self.handles), *self.twins):
            if handle() is array:
                self.twins += ((which, weakref.ref(made)),)
                break
        flight = self.recording.flight
        if flight is not None:
            flight.follow(array, made)
        elif array._work is None and array._bufs is not None:
            made._bufs, made._work = list(array._bufs), None
        return made


class _Asked(threading.local):
    """The nodes whose cones this thread is running: one asked for again depends on itself."""

    def __init__(self):
        self.nodes: list[Node] = []


_asked = _Asked()


class Recording:
    """Operations recorded one after another for one place, to run as one program.

    needed: how many of its operations the arrays that waited at its start need, at most
    started: whether it takes no more operations
    """

    __slots__ = (
        "_lock", "elements", "flight", "handles", "needed", "nodes", "originals", "place",
        "started",
    )  # fmt: skip

    def __init__(self, place: Place):
        self.place = place
        self.nodes: list[Node] = []
        self.elements = 0  # that the operations go over
        self.handles: dict[int, ArrayImpl] = {}  # id of an array -> a handle of our own on it
        self.originals: list[ArrayImpl] = []  # alive, so that their ids are not used again
        self.flight: Flight | None = None
        self.needed = 0
        self.started = False
        self._lock = util.lock()

    def input(self, x: Any, aval: ShapedArray) -> Any:
        """An operand as a node keeps it."""
        if type(x) is not ArrayImpl:
            if type(x) is int:
                typed_scalar(x, aval.dtype)  # too large: raises here, not when work is done
            return traces.owned(x)
        work = x._work
        if type(work) is Node and work.recording is self:
            if work.op.multiple:
                return work, next(i for i, h in enumerate(work.handles) if h() is x)
            return work, 0
        found = self.handles.get(id(x))
        if found is None:
            if type(work) is Node:
                # Another thread's. A recording reads of others only what has been started before,
                # so no two can wait for each other.
                work.recording.start()
            found = held(x)  # raises for a deleted array, before anything is written down
            self.originals.append(x)
            self.handles[id(x)] = found
        return found

    def start(self) -> Exception | None:
        """Dispatch what was recorded, once; gives back why that failed.

        The error is not kept: whoever asks for a value that needs what failed meets it again.
        """
        with self._lock:
            # True within this thread's own run: a callback or a signal handler asks for a value.
            if self.started:
                return None
            self.started = True
            nodes = self.nodes[:]
            self.needed = len(nodes)
            try:
                self.flight = dispatch(nodes, self.place)
            except Exception as error:
                self.needed = len(cone([n for n in nodes if n.is_waited_for()])[0])
                return error
            finally:
                self.nodes, self.handles, self.originals = [], {}, []
        return None


class Recorder:
    """What one thread has recorded for one place and not dispatched yet."""

    __slots__ = ("place", "recording")

    def __init__(self, place: Place):
        self.place = place
        self.recording = Recording(place)

    def record(self, op: Op, args: tuple) -> list[ArrayImpl]:
        """Append an operation; its results are pending arrays."""
        recording = self.recording
        if recording.started:
            recording = self.recording = Recording(self.place)
        node = Node(recording, op, [*map(recording.input, args, op.in_avals)])
        out = [ArrayImpl(a, self.place, None, node) for a in op.avals]
        node.handles = [weakref.ref(a) for a in out]
        # Last: an interrupt before this line leaves no trace. Where another thread or a signal
        # handler starts the recording before this line, the node is not in it and resolves alone.
        recording.nodes.append(node)
        recording.elements += op.largest
        if len(recording.nodes) >= FLUSH_AT and not self._waits(recording):
            recording.start()
        return out

    def _waits(self, recording: Recording) -> bool:
        """Whether little work may still grow."""
        little = recording.elements < SMALL and len(recording.nodes) < FLUSH_SMALL_AT
        return little and self.place.device.platform != "cpu"

    def flush(self) -> None:
        """Dispatch what is recorded; its errors are for those who ask for the values."""
        if self.recording.nodes:
            self.recording.start()

    def run(self, op: Op, args: tuple) -> list[ArrayImpl]:
        """Run one operation at once, after what is recorded: it has an effect, or is looked at."""
        self.flush()
        alone = Recorder(self.place)
        out = alone.record(op, args)
        dispatch(alone.recording.nodes, self.place)
        return out


def cone(roots: list[Node]) -> tuple[list[Node], dict[tuple[Node, int], ArrayImpl]]:
    """The nodes whose operations the roots need, in order, and the results that are there."""
    order: list[Node] = []
    known: dict[tuple[Node, int], ArrayImpl] = {}
    seen: set[Node] = set()
    stack = [(node, False) for node in roots]
    while stack:
        node, entered = stack.pop()
        if entered:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        for x in node.inputs:
            if type(x) is tuple:
                array = x[0].handles[x[1]]()
                buffers = None if array is None or array._work is not None else array._bufs
                if array is None or buffers is None:
                    stack.append((x[0], False))
                else:
                    known[x] = ArrayImpl(array.aval, array._place, list(buffers))
    return order, known


def dispatch(
    nodes: list[Node],
    place: Place,
    known: Mapping[tuple[Node, int], ArrayImpl] = MappingProxyType({}),
    now: bool = False,
) -> Flight | None:
    """Run nodes as one program that fills the arrays waiting on them.

    known: results of other nodes that these read; now: on this thread, however much it is
    """
    number = {node: i for i, node in enumerate(nodes)}
    inputs: list[Any] = []
    avals: list[ShapedArray] = []  # of the inputs, as they were when each was recorded
    numbers: dict[int, int] = {}  # id of an array -> which input it is
    arrays: list[ArrayImpl] = []
    rows: list[tuple] = []  # an operation and where its operands come from
    wanted: list[tuple[int, int]] = []
    for i, node in enumerate(nodes):
        row: list[Any] = [node.op]
        for x, aval in zip(node.inputs, node.op.in_avals, strict=True):
            if type(x) is tuple:
                source = number.get(x[0])
                if source is not None:
                    row.append((source, x[1]))
                    continue
                x = known[x]
            k = numbers.get(id(x)) if type(x) is ArrayImpl else None
            if k is None:
                k = numbers[id(x)] = len(inputs)
                inputs.append(x)
                avals.append(aval)
            row.append((-1, k))
        rows.append(tuple(row))
        for which, array in node.waiting():
            arrays.append(array)
            wanted.append((i, which))
    if not arrays and not any(node.op.prim.effect for node in nodes):
        return None
    key = (tuple(rows), tuple(wanted), tuple(avals), config.state.fusion)
    if ranges.session is not None and any(scopes := [node.site.scope for node in nodes]):
        key = (*key, tuple(scopes))  # elsewhere the same operations may have other ones
    executable = compiled(key, lambda: _graph_of(nodes, rows, avals, wanted), "eager")
    return launch(executable, inputs, arrays, place, now=now)


def _graph_of(nodes: list[Node], rows: list[tuple], avals: list, wanted: list) -> Graph:
    invars = [Var(a) for a in avals]
    results: list[list[Var]] = []
    eqns = []
    for node, (op, *sources) in zip(nodes, rows, strict=True):
        ins = [invars[k] if n < 0 else results[n][k] for n, k in sources]
        outs = [Var(a) for a in op.avals]
        results.append(outs)
        eqns.append(Eqn(op.prim, ins, outs, op.params, node.site))
    return Graph(invars, [results[n][k] for n, k in wanted], eqns, debug_name="eager")


class _Recorders(threading.local):
    def __init__(self):
        self.by_place: dict[Place, Recorder] = {}


_recorders = _Recorders()


def recorder_of(place: Place) -> Recorder:
    """This thread's recorder for a place."""
    found = _recorders.by_place.get(place)
    if found is None:
        found = _recorders.by_place[place] = Recorder(place)
    return found


def flush_all() -> None:
    """Dispatch everything this thread has recorded."""
    for recorder in list(_recorders.by_place.values()):
        recorder.flush()
