"""The evaluating trace: small CPU work runs at once, everything else is recorded and fused.

Floor 5. In: primitives bound outside every transformation. Out: Arrays, ready or pending. What is
pending is flushed
when a value is asked for: one Graph, compiled once for its structure, whose outputs are the arrays
still alive.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import config, util
from gpuarray.compiler.simplify import inline_calls
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of, typed_scalar
from gpuarray.core.graph import Eqn, Graph, Literal, Var, params_key
from gpuarray.core.linear import check_defined
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.sharding import Place
from gpuarray.drivers import numpy as driver
from gpuarray.runtime import device as devices
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.cache import compiled, compiled_graph, watch
from gpuarray.runtime.execute import check_numbers, launch
from gpuarray.transforms.stage import check_alive

#: So many recorded operations are flushed without being asked for.
FLUSH_AT = 256
#: On a GPU many operations on little data wait for more: a launch takes as long as they do.
FLUSH_SMALL_AT, SMALL = 4096, 1 << 22


class Op:
    """A primitive applied to given avals and params: what every eager call of it shares."""

    __slots__ = ("avals", "function", "largest", "multiple", "params", "prim")

    def __init__(self, prim: Primitive, in_avals: tuple[ShapedArray, ...], params: dict):
        self.prim = prim
        self.params = params
        self.avals = prim.out_avals(in_avals, params)
        self.multiple = prim.multiple_results
        self.function = driver.function_of(prim, in_avals, params)
        self.largest = max([a.size for a in (*in_avals, *self.avals)], default=0)


class Node:
    """One recorded operation: pending arrays hold it as their `_work`."""

    __slots__ = ("error", "handles", "index", "inputs", "op", "recorder", "site")

    def __init__(self, recorder: Recorder, op: Op, inputs: list, index: int):
        self.recorder = recorder
        self.op = op
        self.inputs = inputs  # (node, which result), ("in", number) or ("scalar", number)
        self.index = index
        self.handles: list[weakref.ref] = []
        self.site = util.user_frame()
        self.error: BaseException | None = None

    def resolve(self) -> None:
        """Fill the arrays that wait on this node."""
        self.recorder.flush()
        if self.error is not None:
            raise self.error
        for handle in self.handles:
            array = handle()
            if array is not None and array._work is not None:
                array._work.resolve()

    def poll(self) -> bool:
        """Set the work going; say whether it is done."""
        self.recorder.flush()
        waiting = [a._work for h in self.handles if (a := h()) is not None and a._work is not None]
        return all(work is not self and work.poll() for work in waiting)


class Recorder:
    """The operations one thread has recorded for one place and not run yet."""

    def __init__(self, place: Place):
        self.place = place
        self.lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self.nodes: list[Node] = []
        self.elements = 0  # that the operations go over
        self.inputs: list[Any] = []  # ready arrays and scalars, in order of first use
        self.numbers: dict[int, int] = {}
        self.originals: list[ArrayImpl] = []

    def _input(self, x) -> tuple:
        if type(x) is ArrayImpl:
            work = x._work
            if isinstance(work, Node) and work.recorder is not self:
                work.resolve()  # another thread's or device's record
                work = None
            if isinstance(work, Node):
                which = next(i for i, h in enumerate(work.handles) if h() is x)
                return (work.index, which)
            number = self.numbers.get(id(x))
            if number is None:
                number = self.numbers[id(x)] = len(self.inputs)
                self.inputs.append(x if work is not None else _held(x))
                self.originals.append(x)  # alive, so that its id is not used again
            return (-1, number)
        self.inputs.append(x)
        return (-1, len(self.inputs) - 1)

    def record(self, op: Op, args: tuple) -> list[ArrayImpl]:
        """Append an operation; its results are pending arrays."""
        for a in args:
            if type(a) is int:
                _scalar(a, aval_of(a))  # raises here, not when the work is done
        with self.lock:
            node = Node(self, op, [self._input(a) for a in args], len(self.nodes))
            self.nodes.append(node)
            out = [ArrayImpl(a, self.place, None, node) for a in op.avals]
            node.handles = [weakref.ref(a) for a in out]
            self.elements += op.largest
            if len(self.nodes) >= FLUSH_AT and not self._waits():
                self.flush()
            return out

    def _waits(self) -> bool:
        """Whether little work may still grow."""
        little = self.elements < SMALL and len(self.nodes) < FLUSH_SMALL_AT
        return little and self.place.device.platform != "cpu"

    def flush(self) -> None:
        """Compile and dispatch what is recorded; outputs are the arrays somebody still holds."""
        with self.lock:
            nodes, inputs = self.nodes, self.inputs
            if not nodes:
                return
            self._clear()
            arrays: list[ArrayImpl] = []
            wanted: list[tuple[int, int]] = []
            for node in nodes:
                for which, handle in enumerate(node.handles):
                    array = handle()
                    if array is not None:
                        arrays.append(array)
                        wanted.append((node.index, which))
            if not arrays:
                return
            key = (
                tuple([(n.op, *n.inputs) for n in nodes]),
                tuple(wanted),
                tuple([aval_of(x) for x in inputs]),
                config.state.fusion,
            )
            try:
                executable = compiled(key, lambda: _graph_of(nodes, inputs, wanted), "eager")
                launch(executable, inputs, arrays, self.place)
            except BaseException as error:
                for node in nodes:
                    node.error = error
                raise


def _held(x: ArrayImpl) -> ArrayImpl:
    """The same value under a handle of our own: deleting `x` later does not touch it."""
    return ArrayImpl(x.aval, x._place, [x._buffer()])  # a deleted array raises here


def _graph_of(nodes: list[Node], inputs: list, wanted: list[tuple[int, int]]) -> Graph:
    invars = [Var(aval_of(x)) for x in inputs]
    results: list[list[Var]] = []
    eqns = []
    for node in nodes:
        ins = [invars[k] if n < 0 else results[n][k] for n, k in node.inputs]
        outs = [Var(a) for a in node.op.avals]
        results.append(outs)
        eqns.append(Eqn(node.op.prim, ins, outs, node.op.params, node.site))
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


_ops = util.Recent(1 << 14)
watch(_ops)


class EvalTrace(traces.Trace):
    """The outermost interpreter: it computes."""

    def process(self, prim: Primitive, args: tuple, params: dict):
        avals = []
        place = None
        pending = False
        for a in args:
            if type(a) is ArrayImpl:
                avals.append(a.aval)
                if a._place is not place:
                    place = a._place if place is None else common_place(place, a._place)
                if a._work is not None:
                    pending = True
            elif isinstance(a, traces.Tracer):
                check_alive(a)
                with traces.current(a._trace):
                    return a._trace.process(prim, args, params)
            else:
                check_defined(a, prim.name)
                avals.append(aval_of(a))
        if prim.kind is Kind.CALL:
            return self.call(prim, args, params)
        in_avals = tuple(avals)
        try:
            key = (prim, in_avals, *params.items())
            op = _ops.get(key)
        except TypeError:
            key = (prim, in_avals, params_key(params))
            op = _ops.get(key)
        if op is None:
            op = _ops.find(key)
        if op is None:
            op = Op(prim, in_avals, params)
            if not any(callable(x) and util.captures(x) for x in params.values()):
                _ops.put(key, op)
        if place is None:
            place = devices.default_place()
        state = config.state
        if state.no_execution:
            raise RuntimeError(f"{prim.name} would run on a device, but 'no_execution' is set")
        if place.device.platform != "cpu":
            return self.elsewhere(op, args, place)
        # What has an effect happens here and now.
        if (pending or op.largest >= state.lazy_threshold) and not prim.effect:
            if state.fusion and not (state.debug_nans or state.debug_infs):
                out = recorder_of(place).record(op, args)
                return out if op.multiple else out[0]
        try:
            values = [
                a._bufs[0] if type(a) is ArrayImpl else _scalar(a, aval)  # pyright: ignore
                for a, aval in zip(args, in_avals)
            ]
        except TypeError:  # a buffer list is None: still in flight, or deleted
            values = [
                a._buffer() if type(a) is ArrayImpl else _scalar(a, aval)
                for a, aval in zip(args, in_avals, strict=True)
            ]
        out = driver.local.run(op.function, *values)
        if state.debug_nans or state.debug_infs:
            check_numbers(prim.name, out if op.multiple else [out], util.user_frame())
        if op.multiple:
            return [ArrayImpl(a, place, [b]) for a, b in zip(op.avals, out, strict=True)]
        return ArrayImpl(op.avals[0], place, [out])

    def elsewhere(self, op: Op, args: tuple, place: Place):
        """On what is not this CPU nothing runs at once but what is to be seen step by step."""
        recorder = recorder_of(place)
        out = recorder.record(op, args)
        state = config.state
        checked = state.debug_nans or state.debug_infs
        if checked or not state.fusion or op.prim.effect:
            recorder.flush()
        if checked:
            check_numbers(op.prim.name, [x._buffer() for x in out], util.user_frame())
        return out if op.multiple else out[0]

    def call(self, prim: Primitive, args: tuple, params: dict):
        """Primitives that hold a Graph: a jitted call runs as one program, others by what they are
        made of.
        """
        if prim.name == "jit":
            return run_graph(params["jaxpr"], args)
        if prim.assemble is not None:
            invars = [Var(aval_of(a)) for a in args]
            outvars = [Var(a) for a in prim.out_avals([v.aval for v in invars], params)]
            eqn = Eqn(prim, invars, outvars, params, util.user_frame())
            return run_graph(Graph(invars, outvars, [eqn], debug_name=prim.name), args)
        if prim.decompose is None:
            raise TypeError(f"primitive {prim.name!r} has no rule for evaluation")
        return prim.decompose(*args, **params)


def _scalar(x, aval: ShapedArray):
    """A NumPy value of exactly the aval's dtype from a Python scalar or a NumPy value."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x if x.dtype == aval.dtype else x.astype(aval.dtype)
    return typed_scalar(x, aval.dtype)


def common_place(a: Place, b: Place) -> Place:
    """Where an operation runs whose operands are in two places: a chosen place wins over a default
    one.
    """
    if a.committed and b.committed and a.device is not b.device:
        raise ValueError(
            "Received incompatible devices for jitted computation: one operand is on "
            f"{a.device} and another on {b.device}. Move one of them with gpuarray.device_put."
        )
    return b if b.committed and not a.committed else a


def run_graph(graph: Graph, args: Sequence[Any]) -> list[ArrayImpl]:
    """Run a Graph as one compiled program."""
    place = None
    inputs: list[Any] = []
    for x, v in zip(args, graph.invars, strict=True):
        if type(x) is ArrayImpl:
            place = x._place if place is None else common_place(place, x._place)
            inputs.append(x)
        else:
            inputs.append(_scalar(x, v.aval))
    place = devices.default_place() if place is None else place
    executable, constants = compiled_graph(graph, graph.debug_name)
    arrays = [ArrayImpl(a, place, None) for a in executable.out_avals]
    flush_all()  # a worker must not wait for what only this thread can dispatch
    launch(executable, inputs, arrays, place, constants=constants)
    state = config.state
    if state.debug_nans or state.debug_infs:
        check_results(graph, graph.debug_name, util.user_frame(), inputs, arrays)
    return arrays


def check_results(graph: Graph, name: str, site: Any, inputs: list, arrays: list) -> None:
    """Under debug_nans: where a result is not a number, run again step by step to find the
    operation.
    """
    try:
        check_numbers(name, [a._buffer() for a in arrays], site)
    except FloatingPointError:
        if not any(isinstance(x, ArrayImpl) and x.is_deleted() for x in inputs):
            find_bad_number(graph, inputs)
        raise


def find_bad_number(graph: Graph, inputs: list) -> None:
    """Evaluate a Graph an equation at a time; raise at the first that makes a bad number."""
    flat = inline_calls(graph)
    env: dict[Var, Any] = dict(zip(flat.constvars, flat.consts, strict=True))
    env.update(zip(flat.invars, inputs, strict=True))
    for eqn in flat.eqns:
        values = [a.val if isinstance(a, Literal) else env[a] for a in eqn.invars]
        with config.debug_nans(False), config.debug_infs(False):
            out = eqn.primitive.bind(*values, **eqn.params)
        results = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, results, strict=True))
        check_numbers(eqn.primitive.name, [x._buffer() for x in results], eqn.site)


base = EvalTrace()
traces.set_base(base)
