"""Recorded eager operations: they wait, run together, and survive each other's failures.

Floor 5. In: operations on ready and pending arrays, recorded one at a time. Out: pending arrays. A
Recording is dispatched once, as one Graph whose outputs are the arrays still alive.

An array waits on its Node, and a Node refers to the nodes and arrays that it reads. So a value
never depends on its Recording being run as a whole: if that was refused, failed or was interrupted,
`Node.resolve` runs the array's own cone (all that it reads, directly and through others) and
nothing else. A failure therefore affects the values that depend on it, and no others.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gpuarray import config, sites, util
from gpuarray.backends.numpy import program as numpy_program
from gpuarray.core import ranges
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, typed_scalar
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.layout import resolving, space_in, unclear_is_whole
from gpuarray.core.mesh import Mesh, contexts
from gpuarray.core.primitive import Primitive
from gpuarray.core.sharding import Place
from gpuarray.errors import ShardingTypeError
from gpuarray.runtime import spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.cache import compiled
from gpuarray.runtime.execute import held, launch
from gpuarray.runtime.spread import LaidResults
from gpuarray.runtime.stream import Flight

#: This many recorded operations are dispatched without further request.
FLUSH_AT = 256
#: On a GPU many operations on little data wait for more of them: a launch takes as long as they do.
FLUSH_SMALL_AT, SMALL = 4096, 1 << 22


class Op:
    """A primitive applied to given avals and params: shared by all eager calls of that kind."""

    __slots__ = (
        "avals",
        "function",
        "in_avals",
        "laid",
        "largest",
        "multiple",
        "params",
        "prim",
        "spaced",
        "unclear",
    )

    def __init__(self, prim: Primitive, in_avals: tuple[ShapedArray, ...], params: dict):
        self.prim = prim
        self.params = params
        self.in_avals = in_avals
        with unclear_is_whole():
            self.avals = prim.out_avals(in_avals, params)
        # Where the layouts of results do not follow, the error to raise if the user wrote this.
        self.unclear: Exception | None = None
        if any(a.layout is not None for a in in_avals):
            self.unclear = why_unclear(prim, in_avals, params)
        self.multiple = prim.multiple_results
        self.function = numpy_program.function_of(prim, in_avals, params)
        # Whether a result is in another memory than new arrays are.
        self.spaced = any(space_in(a) for a in self.avals)
        self.largest = max([a.size for a in (*in_avals, *self.avals)], default=0)
        # The shardings of results, by the places of operands; None: it runs immediately.
        self.laid: util.Recent | None = None

    def laid_by(self, places: tuple[Place | None, ...]) -> LaidResults | None:
        """Return the shardings of results, by the places of operands; None if it runs
        immediately.
        """
        if self.laid is None:
            self.laid = util.Recent(64)
        key = (places, contexts.key)
        found = self.laid.find(key)
        if found is None:
            found = self.laid.put(key, (spread.laid_as(self.graph(), places),))
        return found[0]

    def graph(self) -> Graph:
        """Return the operation as a program."""
        invars, outvars = [Var(a) for a in self.in_avals], [Var(a) for a in self.avals]
        eqn = Eqn(self.prim, invars, outvars, self.params, sites.user_frame())
        return Graph(invars, outvars, [eqn], debug_name=self.prim.name)


def why_unclear(
    prim: Primitive, in_avals: tuple[ShapedArray, ...], params: dict
) -> Exception | None:
    """Return the error for results whose layouts do not follow from the operands'; or None."""
    # Asked as if the user had written the operation here, whatever derived program is around.
    depth, resolving.depth = resolving.depth, 0
    try:
        prim.out_avals(in_avals, params)
    except (ShardingTypeError, NotImplementedError, ValueError) as error:
        return error
    finally:
        resolving.depth = depth
    return None


class Node:
    """One recorded operation; pending arrays have it as their `_work`.

    Attributes
    ----------
    inputs :
        Each a pair (Node, number of its result), an array of our own, or a scalar.
    handles :
        Weak references to the result arrays.
    laid :
        The shardings of its results; None on a single device.
    twins :
        (number of a result, weak reference) of further arrays with the same values.
    """

    __slots__ = ("handles", "inputs", "laid", "op", "recording", "site", "twins")

    def __init__(self, recording: Recording, op: Op, inputs: list, laid: LaidResults | None = None):
        self.recording = recording
        self.op = op
        self.inputs = inputs
        self.laid = laid
        self.handles: list[weakref.ref] = []
        self.twins: tuple[tuple[int, weakref.ref], ...] = ()
        self.site = sites.user_frame()

    def waiting(self) -> Iterator[tuple[int, ArrayImpl]]:
        """Yield the arrays that wait on this node, each with the number of its result."""
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
        """Fill the arrays that wait on this node, or raise the error that prevents it."""
        recording = self.recording
        # First run the whole recording; only values that this leaves pending run separately.
        error = recording.start()
        flight = recording.flight
        if error is None and flight is not None and flight.join():
            error, flight.error = flight.error, None  # asked again, it is tried again
        # The recording has filled them, or another thread has, or the node must run separately.
        if self.is_waited_for():
            self._resolve_alone(recording, error)

    def _resolve_alone(self, recording: Recording, error: BaseException | None) -> None:
        """Run the operations that this node needs, without the rest of its recording."""
        nodes, known = cone([self])
        if error is not None and recording.needed <= len(nodes):
            raise error  # it needs all of the recording, which has just failed
        if self in _running.nodes:
            raise RuntimeError(
                f"a Python function that {self.op.prim.name} needs (recorded at {self.site}) asks "
                "for the result of that operation itself: the value depends on itself. Return what "
                "the function computes instead of reading the array it helps to make."
            )
        _running.nodes.append(self)
        try:
            dispatch(nodes, recording.place, known, now=True)
        finally:
            _running.nodes.pop()

    def in_flight(self) -> bool:
        """Whether a worker has, or had, the work."""
        return self.recording.flight is not None

    def poll(self) -> bool:
        """Dispatch the work; return whether it has finished."""
        self.recording.start()
        flight = self.recording.flight
        return flight is None or flight.poll()

    def twin(self, array: ArrayImpl) -> ArrayImpl:
        """Return another array that waits for the same value as `array`."""
        # Registered with the node, and with the flight if there is one already.
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


class _Running(threading.local):
    """The nodes whose cones this thread is running: a request for one of them means that it depends
    on itself.
    """

    def __init__(self):
        self.nodes: list[Node] = []


_running = _Running()


class Recording:
    """Operations recorded for one place, or for the devices of a mesh, to run as one program.

    Attributes
    ----------
    place :
        That place; for a mesh one of its many.
    needed :
        How many of its operations the arrays that waited at its start need, at most.
    started :
        Whether it takes no more operations.
    """

    __slots__ = (
        "_lock", "elements", "flight", "handles", "needed", "nodes", "originals", "place",
        "started",
    )  # fmt: skip

    def __init__(self, place: Place):
        self.place = place
        self.nodes: list[Node] = []
        self.elements = 0  # total size of the operations
        self.handles: dict[int, ArrayImpl] = {}  # id of an array -> an array of our own like it
        self.originals: list[ArrayImpl] = []  # kept alive, so that their ids are not reused
        self.flight: Flight | None = None
        self.needed = 0
        self.started = False
        self._lock = util.lock()

    def input(self, x: Any, aval: ShapedArray) -> Any:
        """An operand as a node keeps it."""
        if type(x) is not ArrayImpl:
            if type(x) is int:
                typed_scalar(x, aval.dtype)  # too large: raises here, not when work is done
            return traces.immutable(x)
        work = x._work
        # The result of an operation of this same recording: a reference to its node.
        if type(work) is Node and work.recording is self:
            if work.op.multiple:
                return work, next(i for i, h in enumerate(work.handles) if h() is x)
            return work, 0
        found = self.handles.get(id(x))
        if found is None:
            if type(work) is Node:
                # It belongs to another recording. A recording reads only from recordings started
                # before it, so no two can wait for each other.
                work.recording.start()
            found = held(x)  # raises for a deleted array before anything is recorded
            self.originals.append(x)
            self.handles[id(x)] = found
        return found

    def start(self) -> Exception | None:
        """Dispatch the recording, once; return the error if that fails.

        The error is not stored: requesting a value that needs the failed part raises it again.
        """
        with self._lock:
            # Already started by this thread, when a callback or a signal handler needs a value.
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
                # Operands are released whatever happened.
                self.nodes, self.handles, self.originals = [], {}, []
        return None


class Recorder:
    """The operations that one thread has recorded for one place and not dispatched yet."""

    __slots__ = ("place", "recording")

    def __init__(self, place: Place):
        self.place = place
        self.recording = Recording(place)

    def record(self, op: Op, args: tuple, laid: LaidResults | None = None) -> list[ArrayImpl]:
        """Record an operation; return its results as pending arrays."""
        recording = self.recording
        if recording.started:
            recording = self.recording = Recording(self.place)
        node = Node(recording, op, [*map(recording.input, args, op.in_avals)], laid)
        # On the path of `x + y`, hence a special case for the usual operation.
        if laid is None and not op.spaced:
            place = self.place
            out = [ArrayImpl(a, place, None, node) for a in op.avals]
        else:
            # A sort may carry arrays in several memories along.
            at = laid.places if laid else [*map(self.place.holding, op.avals)]
            pairs = zip(laid.avals if laid else op.avals, at, strict=True)
            out = [ArrayImpl(a, place, None, node) for a, place in pairs]
        node.handles = [*map(weakref.ref, out)]
        # Last: an interrupt before this line leaves no trace. If another thread or a signal handler
        # starts the recording before this line, the node is not in it and is resolved alone.
        recording.nodes.append(node)
        recording.elements += op.largest
        if len(recording.nodes) >= FLUSH_AT and not self._waits(recording):
            recording.start()
        return out

    def _waits(self, recording: Recording) -> bool:
        """Whether to continue recording, since there is little work so far."""
        little = recording.elements < SMALL and len(recording.nodes) < FLUSH_SMALL_AT
        return little and self.place.device.platform != "cpu"

    def flush(self) -> None:
        """Dispatch the recording; errors are raised when values are needed."""
        if self.recording.nodes:
            self.recording.start()

    def run(self, op: Op, args: tuple) -> list[ArrayImpl]:
        """Run one operation now, after the recorded ones: it has an effect, or is checked."""
        self.flush()
        alone = Recorder(self.place)
        out = alone.record(op, args)
        dispatch(alone.recording.nodes, self.place)
        return out


def cone(roots: list[Node]) -> tuple[list[Node], dict[tuple[Node, int], ArrayImpl]]:
    """Return the nodes that the roots need, in order, and the results that exist already."""
    order: list[Node] = []
    known: dict[tuple[Node, int], ArrayImpl] = {}
    seen: set[Node] = set()
    # Depth first, without recursion: a node is appended after everything that it reads.
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
                # A ready result is an input; copy the reference now, in case it is deleted
                # meanwhile.
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

    `known` has results of other nodes that these read; `now` runs on this thread in any case.
    """
    # Describe the program by rows: that is its key in the compile cache, made without a Graph.
    number = {node: i for i, node in enumerate(nodes)}
    inputs: list[Any] = []
    avals: list[ShapedArray] = []  # of the inputs, as they were when each was recorded
    numbers: dict[int, int] = {}  # id of an array -> which input it is
    arrays: list[ArrayImpl] = []
    rows: list[tuple] = []  # an operation, and where each operand comes from
    wanted: list[tuple[int, int]] = []
    for i, node in enumerate(nodes):
        # The structure of the program, its cache key: operands are (node, result) or (-1, input).
        row: list[Any] = [node.op]
        for x, aval in zip(node.inputs, node.op.in_avals, strict=True):
            if type(x) is tuple:
                source = number.get(x[0])
                if source is not None:
                    row.append((source, x[1]))
                    continue
                x = known[x]
            # An array that several nodes read is one input of the program; a scalar is one each
            # time.
            k = numbers.get(id(x)) if type(x) is ArrayImpl else None
            if k is None:
                k = numbers[id(x)] = len(inputs)
                inputs.append(x)
                avals.append(aval)
            row.append((-1, k))
        rows.append(tuple(row))
        # Only arrays that are still referenced become outputs.
        for which, array in node.waiting():
            arrays.append(array)
            wanted.append((i, which))
    if not arrays and not any(node.op.prim.effect for node in nodes):
        return None
    # Compilation depends on these settings too.
    settings = config.state.fusion, config.state.native
    key = (tuple(rows), tuple(wanted), tuple(avals), settings)
    if ranges.session is not None and any(scopes := [node.site.scope for node in nodes]):
        key = (*key, tuple(scopes))  # the same operations may have other scopes elsewhere
    over = tuple([n.laid for n in nodes if n.laid is not None]) if place.is_spread else None
    executable = compiled(
        key, lambda: _graph_of(nodes, rows, avals, wanted), "eager", over_devices=over is not None
    )
    if over is not None:
        specs = tuple([laid.specs for laid in over])
        return spread.launch(executable, inputs, arrays, over[0].mesh, specs, now)
    return launch(executable, inputs, arrays, place, now=now)


def _graph_of(nodes: list[Node], rows: list[tuple], avals: list, wanted: list) -> Graph:
    invars = [Var(a) for a in avals]
    results: list[list[Var]] = []
    eqns = []
    for node, (op, *sources) in zip(nodes, rows, strict=True):
        # A source is (node, result); node -1 means an input.
        ins = [invars[k] if n < 0 else results[n][k] for n, k in sources]
        outs = [Var(a) for a in op.avals]
        results.append(outs)
        eqns.append(Eqn(op.prim, ins, outs, op.params, node.site))
    return Graph(invars, [results[n][k] for n, k in wanted], eqns, debug_name="eager")


class _Recorders(threading.local):
    def __init__(self):
        self.by_place: dict[Place | Mesh, Recorder] = {}


_recorders = _Recorders()


def recorder_of(place: Place) -> Recorder:
    """Return this thread's recorder for a place."""
    found = _recorders.by_place.get(place)
    if found is None:
        found = _recorders.by_place[place] = Recorder(place)
    return found


def recorder_over(laid: LaidResults) -> Recorder:
    """Return this thread's recorder for the devices of a mesh."""
    found = _recorders.by_place.get(laid.mesh)
    if found is None:
        found = _recorders.by_place[laid.mesh] = Recorder(laid.places[0])
    return found


def flush_all() -> None:
    """Dispatch everything that this thread has recorded."""
    for recorder in list(_recorders.by_place.values()):
        recorder.flush()
