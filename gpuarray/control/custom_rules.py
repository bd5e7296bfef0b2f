"""Shared parts of the primitives of `custom_jvp` and `custom_vjp`: calls that hold a function and
its rules.

Floor 4. In: flat functions: the computation, and its derivative rules. Out: primitives from which
each transformation takes its part: evaluation the function, jvp and linearize the rule, batching
both.

`call_jaxpr` is a Python function until it is staged, so that its control flow may look at values,
and a Graph from then on. The rules stay Python functions; batched ones wrap others.
  jvp(primals, tangents) -> (outputs, tangents)
  fwd(primals, perturbed) -> (outputs, residuals)
  bwd(residuals, cotangents) -> cotangents, one a primal
Tangents and cotangents may be Zero on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from gpuarray import errors
from gpuarray.control.graph_edits import lifted, merged
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn, Graph, evaluate
from gpuarray.core.linear import Zero, is_undefined, is_zero
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.define import do
from gpuarray.transforms.batch import BatchAxis, BatchTrace, BatchTracer, matched
from gpuarray.transforms.dead import set_narrow_rule, shortened
from gpuarray.transforms.graphs import batch_graph
from gpuarray.transforms.jvp import JVPTrace
from gpuarray.transforms.partial import PartialTrace
from gpuarray.transforms.tracing import GraphTrace, GraphTracer, TracedFunction, stage
from gpuarray.transforms.transpose import transpose_flat
from gpuarray.util import name_of


class CustomCall(Primitive):
    """A call whose function is not staged yet; `bind` stages it where a Graph is being recorded.

    `batch_rules(params, axis, dims, first, place)` gives the parameters that hold rules, batched;
    their results have the extra axis as `place` says, in front or not at all. `narrow_rules(params,
    used)` gives rules for the results that are used.
    """

    def __init__(
        self,
        name: str,
        jvp: Callable,
        batch_rules: Callable,
        narrow_rules: Callable,
        rules: tuple[str, ...],
    ):
        super().__init__(
            name,
            Kind.CALL,
            multiple_results=True,
            aval=lambda *avals, call_jaxpr, **_: call_jaxpr.out_avals,
            jvp=jvp,
            transpose=_transpose,
            batch=lambda axis, args, dims, **params: self._batch(axis, args, dims, params),
            decompose=lambda *args, call_jaxpr, **_: run_call(call_jaxpr, args),
            inline=lambda eqn: eqn.params["call_jaxpr"],
            show=lambda params: _show(params, rules),
        )
        self.batch_rules, self.narrow_rules = batch_rules, narrow_rules
        set_narrow_rule(self, self._narrow)

    def bind(self, *args, **params):
        call = params["call_jaxpr"]
        trace = traces.state.trace
        if type(trace) is PartialTrace and any(_is_of(a, trace.unknown) for a in args):
            return run_call(call, args)  # part of a linear function: its rules have been applied
        # A Python function: stage it if a Graph is being recorded, otherwise run it.
        if not isinstance(call, Graph):
            if isinstance(trace, GraphTrace):
                args, params = _staged(args, params, self.name)
            elif isinstance(trace, BatchTrace):
                return self.batched(trace, args, params)
        return trace.process(self, args, params)

    def _narrow(self, eqn: Eqn, used: list[bool]) -> Eqn:
        """Remove unread results from the call. It keeps all operands: its rules read them."""
        if all(used):
            return eqn
        short, _ = shortened(eqn.params["call_jaxpr"], used)
        rules = self.narrow_rules(eqn.params, used, [v.aval for v in eqn.outvars])
        return eqn.replace(
            outvars=list(compress(eqn.outvars, used)),
            params=eqn.params | rules | {"call_jaxpr": short},
        )

    def batched(self, trace: BatchTrace, args: Sequence[Any], params: dict) -> list:
        """The call in the enclosing trace. Values that the function closes over may be
        batched too.
        """
        pairs = [trace.split(a) for a in args]
        axis = trace.axis
        assert trace.parent is not None
        with traces.current(trace.parent):
            out, dims = self._batch(
                axis, [v for v, _ in pairs], [d for _, d in pairs], params, trace
            )
        return [trace.box(x, d) for x, d in zip(out, dims, strict=True)]

    def _batch(
        self,
        axis: BatchAxis,
        values: list,
        dims: list,
        params: dict,
        first: BatchTrace | None = None,
    ) -> tuple[list, list]:
        """The call with an extra axis, which every result has in front.

        If no operand has the axis, and no result of the function, the rules' results have none:
        they run once for all elements, on a cotangent that is summed over them.
        """
        call, count = params["call_jaxpr"], params["num_consts"]
        unmapped = all(d is None for d in dims)
        place = ResultAxis()
        new: Any
        if isinstance(call, Graph):
            out_dims = (0,) * len(call.outvars)
            # Values sharded over devices outside are sharded the same way inside.
            layouts = tuple(aval_of(x).layout for x in values)
            if unmapped:
                natural = batch_graph(call, axis, tuple(dims), layouts=layouts)
                if all(d is None for d in natural.outputs):
                    place.at, out_dims = None, natural.outputs
            new = batch_graph(call, axis, tuple(dims), tuple(out_dims), layouts).graph
        else:
            # Values that the function closes over may be mapped, which is known only after it has
            # run.
            place.settled = not unmapped
            new = lambda *xs: place.put(axis, *batch_flat_rule(call, axis, first, xs, dims))
        # Rules take only the arguments, not the values that the function closes over.
        rules = self.batch_rules(params, axis, dims[count:], first, place)
        out: Any = self.bind(*values, **(params | rules | {"call_jaxpr": new}))
        return out, [place.at] * len(out)


class ResultAxis:
    """The position of the extra axis in the results of a batched call: in front, or absent
    (None).
    """

    def __init__(self):
        self.at: int | None = 0
        self.settled = True

    def put(self, axis: BatchAxis, values: list, dims: list) -> list:
        """The results with their axis there; the first that are seen settle it."""
        if not self.settled:
            self.at = None if all(d is None for d in dims) else 0
            self.settled = True
        return in_front(axis, values, dims, self.at)


def _is_of(x: Any, trace: traces.Trace) -> bool:
    return isinstance(x, GraphTracer) and x._trace is trace


def run_call(call: Any, args: Sequence[Any]) -> list:
    """The results of the function of a custom rule: a Graph once it was staged."""
    return evaluate(call, *args) if isinstance(call, Graph) else list(call(*args))


def _staged(args: tuple, params: dict, purpose: str) -> tuple[tuple, dict]:
    """The function as a Graph. Values of outer traces that it closes over become operands."""
    call = params["call_jaxpr"]
    # Staged once; from now on every transformation sees the same Graph.
    graph = stage(call, [aval_of(a) for a in args], TracedFunction(call, purpose))
    graph.debug_name = params["name"]
    graph, consts = lifted(graph)
    count = params["num_consts"] + len(consts)
    return (*consts, *args), params | {"call_jaxpr": graph, "num_consts": count}


# ---- batching ----


class _SameAxis(BatchTrace):
    """A second trace for the axis of a first: it takes the first one's tracers for its own."""

    def __init__(self, parent: traces.Trace, first: BatchTrace):
        super().__init__(parent, first.axis)
        # Nested rules for the same axis: the tracers of all of them are known.
        self.known = (*getattr(first, "known", ()), first)

    def split(self, x: Any) -> tuple[Any, int | None]:
        if type(x) is BatchTracer and x._trace in self.known:
            return x.value, x.dim
        return super().split(x)


def batch_flat_rule(
    fun: Callable, axis: BatchAxis, first: BatchTrace | None, values: Sequence, dims: Sequence
) -> tuple[list, list]:
    """`fun`, a flat function, on values with an extra axis; it returns any number of results."""
    return batch_rule_aux(lambda *boxed: (fun(*boxed), None), axis, first, values, dims)[:2]


def batch_rule_aux(
    fun: Callable, axis: BatchAxis, first: BatchTrace | None, values: Sequence, dims: Sequence
) -> tuple[list, list, Any]:
    """`batch_rule` for a function that also returns auxiliary output after its flat results."""
    parent = traces.state.trace
    trace = BatchTrace(parent, axis) if first is None else _SameAxis(parent, first)
    # Zeros and missing values pass by: there is no array to batch.
    boxed = [x if is_zero(x) else trace.box(x, d) for x, d in zip(values, dims, strict=True)]
    with traces.current(trace), axis.known():
        out, aux = fun(*boxed)
    pairs = [(x, None) if is_zero(x) or x is None else trace.split(x) for x in out]
    return [v for v, _ in pairs], [d for _, d in pairs], aux


def in_front(axis: BatchAxis, values: Sequence, dims: Sequence, at: int | None = 0) -> list:
    """Move the extra axis of all results to the front; without it if `at` is None."""
    if at is None and any(d is not None for d in dims):
        raise ValueError(
            "a custom rule has results that differ along a mapped axis, and the function's are the "
            "same for all elements: let the rule return the same for all, too"
        )
    return [
        _with_axis(axis, x, at) if is_zero(x) else matched(x, d, at, axis.size)
        for x, d in zip(values, dims, strict=True)
    ]


def _with_axis(axis: BatchAxis, zero: Zero, dim: int | None) -> Zero:
    if dim is None:
        return zero
    shape = zero.aval.shape
    return Zero(zero.aval.update(shape=(*shape[:dim], axis.size, *shape[dim:])))


def without_axis(x: Any, dim: int | None) -> Any:
    """A Zero as one element along the axis sees it."""
    if not is_zero(x) or dim is None:
        return x
    shape = x.aval.shape
    return Zero(x.aval.update(shape=shape[:dim] + shape[dim + 1 :]))


def cotangent_of(axis: BatchAxis, ct: Any, dim: int | None, want: int | None) -> Any:
    """The cotangent of a primal whose extra axis is at `want`; without one, summed over it."""
    if is_zero(ct):
        return _with_axis(axis, ct, want)
    if want is not None:
        return matched(ct, dim, want, axis.size)
    # Every element used the same primal, so it collects the cotangents of all.
    summed = matched(ct, dim, 0, axis.size)
    return do.reduce_sum(summed, axes=(0,), out_sharding=None)


def named_like(new: Callable, old: Callable) -> Callable:
    """Give a function the name of the one that it replaces."""
    new.__name__ = name_of(old)
    return new


# ---- derivatives ----


def check_closed(prim: Primitive, params: dict, tangents: Sequence[Any]) -> None:
    if not all(is_zero(t) for t in tangents):
        raise errors.UnexpectedTracerError(_closed_over(prim, params))


def _closed_over(prim: Primitive, params: dict) -> str:
    kind = prim.name.removesuffix("_call")
    return (
        f"Detected differentiation of the {kind} function {params['name']} with respect to a "
        "closed-over value. That is not supported, because its rule only says how to differentiate "
        "with respect to explicit input parameters. Pass the closed-over value as an argument, and "
        f"adapt the {kind} rule."
    )


def check_own(prim: Primitive, params: dict, outputs: Sequence[Any]) -> None:
    """Refuse results that carry a derivative past the rule: the function closed over a value."""
    # A tracer whose trace is not around any more was not given to the rule: it was closed over.
    for x in outputs:
        if isinstance(x, traces.Tracer) and isinstance(x._trace, JVPTrace):
            trace: Any = traces.state.trace
            while trace is not None and trace is not x._trace:
                trace = trace.parent
            if trace is None:
                raise errors.UnexpectedTracerError(_closed_over(prim, params))


def _transpose(cts: list, *operands, call_jaxpr: Graph, **_) -> list:
    # Reached where the function is linear in some operands: it is transposed like any other.
    linear = [is_undefined(x) for x in operands]
    known = [x for x in operands if not is_undefined(x)]
    return merged(linear, transpose_flat(call_jaxpr, linear, known, cts), [None] * len(known))


# ---- printing ----


def _show(params: dict, rules: tuple[str, ...]) -> dict:
    shown = {k: params[k] for k in ("name", "call_jaxpr", "symbolic_zeros")}
    return shown | {k: name_of(params[k]) for k in rules}
