"""The evaluating trace: small CPU work runs immediately, everything else is recorded and fused.

Floor 5. In: primitives bound outside every transformation. Out: Arrays, ready or pending. Pending
ones (recording.py) are computed when a value is needed: as one Graph, compiled once for its
structure, whose outputs are the arrays still alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import config, sites, util
from gpuarray.backends.numpy import program as numpy_program
from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control.call import same_device
from gpuarray.core import ranges
from gpuarray.core import trace as traces
from gpuarray.core.avals import WIDE_SCALARS, ShapedArray, aval_of, typed_scalar
from gpuarray.core.dtypes import float0
from gpuarray.core.graph import Eqn, Graph, Literal, Var, params_key
from gpuarray.core.layout import resolving
from gpuarray.core.linear import check_defined
from gpuarray.core.mesh import Mesh, contexts
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.sharding import Device, Place, Sharding, place_of
from gpuarray.primitives.reshard import stated
from gpuarray.runtime import device as devices
from gpuarray.runtime import spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.cache import compiled, compiled_graph, watch
from gpuarray.runtime.execute import check_numbers, launch
from gpuarray.runtime.host import from_host
from gpuarray.runtime.memory import out_of_memory
from gpuarray.runtime.recording import Op, flush_all, recorder_of, recorder_over
from gpuarray.transforms.tracing import check_alive

# Op by (primitive, operand avals, params).
_ops = util.Recent(1 << 14)
watch(_ops)


class EvalTrace(traces.Trace):
    """The outermost interpreter, which evaluates."""

    def process(self, prim: Primitive, args: tuple, params: dict):
        """Evaluate or record an operation: each line here is a part of the cost of `x + y`."""
        # 1. One pass over the operands: their avals, their common place, whether any is pending.
        avals = []
        place = None
        pending = foreign = wide = False
        for a in args:
            if type(a) is ArrayImpl:
                avals.append(a.aval)
                if a._place is not place:
                    place = a._place if place is None else _agreed(place, a._place, prim, args)
                if a._work is not None:
                    pending = True
            elif isinstance(a, traces.Tracer):
                return _by_trace_of(a, prim, args, params)
            else:
                check_defined(a, prim.name)
                avals.append(aval_of(a))
                # Memory that the user may write to: a result must not be a view of it.
                if isinstance(a, np.ndarray):
                    foreign = True
                    wide = wide or a.dtype.type in WIDE_SCALARS
                elif type(a) in WIDE_SCALARS:
                    wide = True
        # A NumPy value may have to become as wide as another operand; that changes the avals, so
        # start again.
        if wide and not config.state.enable_x64:
            same = traces.same_widths(args)
            if any(x is not y for x, y in zip(same, args, strict=True)):
                return self.process(prim, same, params)
        # Primitives that hold Graphs are separate programs.
        if prim.kind is Kind.CALL:
            return self.call(prim, args, params)
        # 2. Find the Op that all calls of this operation on such operands share.
        in_avals = tuple(avals)
        try:
            # Params that may be 1, 1.0 or True are compared by type as well; most do not need such
            # a key.
            if prim.by_value:
                key = (prim, in_avals, params_key(params))
            else:
                key = (prim, in_avals, *params.items())
            op = _ops.get(key)
        except TypeError:  # params that are not hashable
            key = (prim, in_avals, params_key(params))
            op = _ops.get(key)
        if op is None:
            # In the generation before, from which it is taken over.
            op = _ops.find(key)
        if op is None:
            op = Op(prim, in_avals, params)
            # A function among the params must not be kept alive with all that it captures.
            if not any(callable(x) and util.captures(x) for x in params.values()):
                _ops.put(key, op)
        # 3. Decide where it runs, and whether now.
        if place is None or contexts.concrete is not None:
            place = spread.place_of_work(place)
        state = config.state
        if state.no_execution:
            raise RuntimeError(f"{prim.name} would run on a device, but 'no_execution' is set")
        if op.spaced or not place.is_host:
            return self.elsewhere(op, args, place)
        # Operations with effects run immediately.
        if (pending or op.largest >= state.lazy_threshold) and not prim.effect:
            if state.fusion and not (state.debug_nans or state.debug_infs):
                out = recorder_of(place).record(op, args)
                return out if op.multiple else out[0]
        return self.run_now(op, args, place, foreign)

    def run_now(self, op: Op, args: tuple, place: Place, foreign: bool):
        """Run an operation on the CPU. `foreign`: an operand is memory that a user may write to."""
        # 1. Unwrap all buffers; only unusual ones cost a second pass.
        try:
            values = [
                a._bufs[0] if type(a) is ArrayImpl else _scalar(a, aval)  # pyright: ignore
                for a, aval in zip(args, op.in_avals)
            ]
        except TypeError:  # a buffer list is None: still in flight, or deleted
            values = [
                a._buffer() if type(a) is ArrayImpl else _scalar(a, aval)
                for a, aval in zip(args, op.in_avals, strict=True)
            ]
        # 2. Run.
        function = op.function
        if ranges.session is not None:
            at = {"recorded at": str(sites.user_frame())}
            function = ranges.noted(op.prim.name, "operation", function, at)
        try:
            out = numpy_program.local.run(function, *values)
        except RuntimeError as error:
            # This thread's scratch state had to be renewed: run again.
            if not numpy_program.renewed(error):
                raise
            out = numpy_program.local.run(function, *values)
        except MemoryError as error:
            raise out_of_memory(error, op.prim.name) from None
        # 3. Results become Arrays. A view of memory that the user may write to would change later.
        if foreign:
            out = [_apart(x, args) for x in out] if op.multiple else _apart(out, args)
        state = config.state
        if state.debug_nans or state.debug_infs:
            check_made(op.prim.name, out if op.multiple else [out], values)
        if op.multiple:
            return [ArrayImpl(a, place, [b]) for a, b in zip(op.avals, out, strict=True)]
        return ArrayImpl(op.avals[0], place, [out])

    def elsewhere(self, op: Op, args: tuple, place: Place):
        """Record an operation off the CPU; with an effect, or when debugging, run it
        immediately.
        """
        if op.unclear is not None and not resolving.depth:
            raise op.unclear.with_traceback(None)
        if place.is_spread:
            return self.spread(op, args)
        recorder = recorder_of(place.holding(op.avals[0]) if op.avals else place)
        state = config.state
        checked = state.debug_nans or state.debug_infs
        # Checks look at each result, which fused operations do not have.
        at_once = checked or not state.fusion or op.prim.effect
        out = recorder.run(op, args) if at_once else recorder.record(op, args)
        if checked:
            given = [x._buffer() if type(x) is ArrayImpl else x for x in args]
            check_made(op.prim.name, [x._buffer() for x in out], given)
        return out if op.multiple else out[0]

    def spread(self, op: Op, args: tuple):
        """Run an operation over several devices; its result is sharded like its operands."""
        state = config.state
        checked = state.debug_nans or state.debug_infs
        if state.fusion and not checked and not op.prim.effect and self.is_recorded(op, args):
            laid = op.laid_by(tuple([a._place if type(a) is ArrayImpl else None for a in args]))
            if laid is not None:
                out = recorder_over(laid).record(op, args, laid)
                return out if op.multiple else out[0]
        key = (op.prim, op.in_avals, params_key(op.params))
        executable = compiled(key, op.graph, "eager", over_devices=True)
        # Run earlier recorded work first: it may compute operands of this one.
        flush_all()
        given = list(map(traces.immutable, args))
        out = spread.run(executable, given, [None] * len(op.avals))
        if checked:
            parts = lambda arrays: [b for x in arrays for b in x._buffers()]
            check_made(op.prim.name, parts(out), parts(x for x in given if type(x) is ArrayImpl))
        return out if op.multiple else out[0]

    def is_recorded(self, op: Op, args: tuple) -> bool:
        """Whether an operation over several devices is recorded; small ones on CPUs are not."""
        if op.largest >= config.state.lazy_threshold:
            return True
        arrays = [a for a in args if type(a) is ArrayImpl]
        return any(a._work is not None for a in arrays) or any(
            a._place.device.platform == "gpu" for a in arrays
        )

    def array_of(self, x: Any, aval: ShapedArray | None = None) -> Any:
        return from_host(x, aval) if aval is not None or x.dtype != float0 else x

    def call(self, prim: Primitive, args: tuple, params: dict):
        """Evaluate a primitive that holds a Graph.

        A jitted call or a loop runs as one program, others as the operations they consist of.
        """
        args = tuple(map(traces.immutable, args))
        if prim.name == "jit":
            return run_graph(params["jaxpr"], args, params.get("device"))
        if prim.assemble is not None or prim.flow is not None:
            invars = [Var(aval_of(a)) for a in args]
            outvars = [Var(a) for a in prim.out_avals([v.aval for v in invars], params)]
            eqn = Eqn(prim, invars, outvars, params, sites.user_frame())
            graph, wanted = Graph(invars, outvars, [eqn], debug_name=prim.name), None
            if prim.name == "shard_map" and not resolving.depth:
                mesh = params["mesh"]
                if isinstance(mesh, Mesh) and params["manual_axes"].issuperset(mesh.axis_names):
                    wanted = stated(graph, mesh)  # in the very words of the user's out_specs
            out = run_graph(graph, args, wanted=wanted)
            return out if prim.multiple_results else out[0]
        if prim.decompose is None:
            raise TypeError(f"primitive {prim.name!r} has no rule for evaluation")
        return prim.decompose(*args, **params)


def _by_trace_of(tracer: traces.Tracer, prim: Primitive, args: tuple, params: dict):
    """Bind an operation in the trace of an operand that was made in another trace, and kept."""
    check_alive(tracer)
    outer = traces.state.trace
    try:
        traces.state.trace = tracer._trace
        return tracer._trace.process(prim, args, params)
    finally:
        traces.state.trace = outer


def check_made(name: str, results: list, operands: list) -> None:
    """Raise where an operation makes a nan or inf that the debug settings forbid.

    A library function that consists of several operations may use nan or inf internally, as an
    initial value or a guard; one of them is to blame only if its operands had none.
    """
    site = sites.user_frame()
    try:
        check_numbers(name, results, site)
    except FloatingPointError:
        if sites.is_users_expression() or not _has_bad(name, operands, site):
            raise


def _has_bad(name: str, values: list, site: Any) -> bool:
    try:
        check_numbers(name, values, site)
    except FloatingPointError:
        return True
    return False


def _apart(out: Any, args: tuple) -> Any:
    """Return a result in separate memory: a view of a NumPy operand is copied."""
    is_view = isinstance(out, np.ndarray) and (out.base is not None or any(out is a for a in args))
    return out.copy() if is_view else out


def _scalar(x, aval: ShapedArray):
    """Return a Python scalar or NumPy value as a NumPy value of the aval's dtype."""
    if isinstance(x, np.ndarray):
        return np.asarray(x, aval.dtype)  # a subclass might redefine operators
    if isinstance(x, np.generic):
        return x if x.dtype == aval.dtype else x.astype(aval.dtype)
    return typed_scalar(x, aval.dtype)


def _agreed(a: Place, b: Place, prim: Primitive, args: tuple) -> Place:
    """Return the place of an operation; a ValueError names the operands that are at odds."""
    if not (a.committed and b.committed and a.all_devices != b.all_devices):
        return common_place(a, b)
    put = [(i, x) for i, x in enumerate(args) if type(x) is ArrayImpl and x._place.committed]
    first = put[0]
    other = next(pair for pair in put if pair[1]._place.all_devices != first[1]._place.all_devices)
    said = [
        f"argument args[{i}] of {prim.name} with shape {x.aval.str_short()} and device ids "
        f"{[d.id for d in x._place.all_devices]} on platform {x._place.device.platform.upper()}"
        for i, x in (first, other)
    ]
    raise ValueError(
        f"Received incompatible devices for jitted computation. Got {said[0]} and {said[1]}. Move "
        "one of them with gpuarray.device_put."
    )


def common_place(a: Place, b: Place) -> Place:
    """Return the place of an operation with operands in two places: a committed place wins."""
    if a.committed and b.committed and a.all_devices != b.all_devices:
        raise ValueError(
            "Received incompatible devices for jitted computation: one operand is on "
            f"{_shown(a)} and another on {_shown(b)}. Move one of them with gpuarray.device_put."
        )
    chosen, moved = (b, a) if b.committed and not a.committed else (a, b)
    if config.state.transfer_guard_device_to_device is not None and a.device is not b.device:
        devices.guard("device_to_device", f"from {moved.device} to {chosen.device}")
    return chosen


def _shown(place: Place) -> str:
    """Return the devices of a place for a message."""
    return ", ".join(map(str, place.all_devices))


def run_graph(
    graph: Graph,
    args: Sequence[Any],
    device: Device | None = None,
    wanted: Sequence[Sharding | None] | None = None,
) -> list[ArrayImpl]:
    """Run a Graph as one compiled program, on `device` if it is given.

    `wanted` gives the shardings of results over several devices, where known.
    """
    place = None
    inputs: list[Any] = []
    for x, v in zip(args, graph.invars, strict=True):
        if type(x) is ArrayImpl:
            place = x._place if place is None else common_place(place, x._place)
            inputs.append(x)
        else:
            inputs.append(_scalar(traces.immutable(x), v.aval))
    executable, constants = compiled_graph(graph, graph.debug_name)
    device = same_device(device, executable.device)
    place = spread.place_of_work(place) if device is None else place or devices.default_place()
    if place.committed:
        constants = constants.beside(place.all_devices)
    if executable.meshes or constants.over is not None or place.is_spread:
        flush_all()
        wanted = wanted or [None] * len(graph.outvars)
        arrays = spread.run(executable, inputs, wanted, constants=constants.values)
    else:
        if device is not None:
            place = common_place(place, place_of(device, True))
        arrays = [ArrayImpl(a, place.holding(a), None) for a in executable.out_avals]
        flush_all()  # a worker must not wait for work that only this thread can dispatch
        launch(executable, inputs, arrays, place, constants=constants)
    state = config.state
    if state.debug_nans or state.debug_infs:
        check_results(graph, graph.debug_name, sites.user_frame(), inputs, arrays)
    return arrays


def check_results(graph: Graph, name: str, site: Any, inputs: list, arrays: list) -> None:
    """Raise for bad numbers in results (debug_nans); run step by step to find the operation."""
    try:
        check_numbers(name, [b for a in arrays for b in a._buffers()], site)
    except FloatingPointError:
        # Donated inputs are deleted, so the program cannot run again.
        if not any(isinstance(x, ArrayImpl) and x.is_deleted() for x in inputs):
            find_bad_number(graph, inputs)
        raise


def find_bad_number(graph: Graph, inputs: list) -> None:
    """Evaluate a Graph one equation at a time; raise at the first that makes a bad number."""
    flat = inline_calls(graph)
    env: dict[Var, Any] = dict(zip(flat.constvars, flat.consts, strict=True))
    env.update(zip(flat.invars, inputs, strict=True))
    for eqn in flat.eqns:
        values = [a.operand if isinstance(a, Literal) else env[a] for a in eqn.invars]
        # The check below finds the equation; that of each operation would not.
        with config.debug_nans(False), config.debug_infs(False):
            out = eqn.primitive.bind(*values, **eqn.params)
        results = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, results, strict=True))
        check_numbers(eqn.primitive.name, [b for x in results for b in x._buffers()], eqn.site)


base = EvalTrace()
traces.set_base(base)
