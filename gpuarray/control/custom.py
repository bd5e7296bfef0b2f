"""Functions with derivative rules of their own, as primitives that hold the function and its rules.

Floor 4. In: flat functions: what to compute, and how its derivative is made. Out: primitives that
every transformation takes its part of: evaluation the function, jvp and linearize the rule,
batching both.

`call_jaxpr` is a Python function as long as nobody stages it, so that its control flow may look at
values, and a Graph from then on. The rules stay Python functions; batched ones wrap others.
  jvp(primals, tangents) -> (outputs, tangents)
  fwd(primals, perturbed) -> (outputs, residuals)
  bwd(residuals, cotangents) -> cotangents, one a primal
Tangents and cotangents may be Zero on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import errors
from gpuarray.control.surgery import cut, merged, opened
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import instantiate
from gpuarray.transforms.batch import BatchAxis, BatchTrace, BatchTracer, matched, named_axis
from gpuarray.transforms.graphs import batch_graph
from gpuarray.transforms.jvp import JVPTrace
from gpuarray.transforms.partial import PartialTrace
from gpuarray.transforms.stage import GraphTrace, GraphTracer, TracedFunction, stage
from gpuarray.transforms.transpose import transpose_flat


class CustomCall(Primitive):
    """A call whose function is not staged yet; `bind` stages it where a Graph is being recorded."""

    def bind(self, *args, **params):
        call = params["call_jaxpr"]
        trace = traces.state.trace
        if type(trace) is PartialTrace and any(_is_of(a, trace.unknown) for a in args):
            return _run(call, args)  # part of a linear function: its rules have been applied
        if not isinstance(call, Graph):
            if isinstance(trace, GraphTrace):
                args, params = _staged(args, params, self.name)
            elif isinstance(trace, BatchTrace):
                return self.batched(trace, args, params)
        return trace.process(self, args, params)

    def batched(self, trace: BatchTrace, args: Sequence[Any], params: dict) -> list:
        """The call in the trace around. What the function closes over may be batched too."""
        pairs = [trace.split(a) for a in args]
        axis = trace.axis
        assert trace.parent is not None
        with traces.current(trace.parent):
            out, dims = _batch(
                self, axis, [v for v, _ in pairs], [d for _, d in pairs], params, trace
            )
        return [trace.box(x, d) for x, d in zip(out, dims, strict=True)]


def _is_of(x: Any, trace: traces.Trace) -> bool:
    return isinstance(x, GraphTracer) and x._trace is trace


def _run(call: Any, args: Sequence[Any]) -> list:
    return evaluate(call, *args) if isinstance(call, Graph) else list(call(*args))


def _staged(args: tuple, params: dict, purpose: str) -> tuple[tuple, dict]:
    """The function as a Graph. Values of outer traces that it closes over become operands."""
    call = params["call_jaxpr"]
    graph = stage(call, [aval_of(a) for a in args], TracedFunction(call, purpose))
    graph.debug_name = params["name"]
    count = params["num_consts"]
    if any(isinstance(c, traces.Tracer) for c in graph.consts):
        args = (*graph.consts, *args)
        count += len(graph.consts)
        graph = opened(graph)
    return args, params | {"call_jaxpr": graph, "num_consts": count}


# ---- batching ----


class _SameAxis(BatchTrace):
    """A second trace for the axis of a first: it takes the first one's tracers for its own."""

    def __init__(self, parent: traces.Trace, first: BatchTrace):
        super().__init__(parent, first.axis)
        self.known = (*getattr(first, "known", ()), first)

    def split(self, x: Any) -> tuple[Any, int | None]:
        if type(x) is BatchTracer and x._trace in self.known:
            return x.value, x.dim
        return super().split(x)


def _batch_flat(
    fun: Callable, axis: BatchAxis, first: BatchTrace | None, values: Sequence, dims: Sequence
) -> tuple[list, list]:
    """`fun`, a flat function, on values with an extra axis; it returns any number of results."""
    parent = traces.state.trace
    trace = BatchTrace(parent, axis) if first is None else _SameAxis(parent, first)
    boxed = [x if is_zero(x) else trace.box(x, d) for x, d in zip(values, dims, strict=True)]
    with traces.current(trace), named_axis(axis):
        out = fun(*boxed)
    pairs = [(x, None) if is_zero(x) or x is None else trace.split(x) for x in out]
    return [v for v, _ in pairs], [d for _, d in pairs]


def _front(axis: BatchAxis, values: Sequence, dims: Sequence) -> list:
    """Results with their extra axis in front, all of them."""
    return [
        _with_axis(axis, x, 0) if is_zero(x) else matched(x, d, 0, axis.size)
        for x, d in zip(values, dims, strict=True)
    ]


def _with_axis(axis: BatchAxis, zero: Zero, dim: int | None) -> Zero:
    if dim is None:
        return zero
    shape = zero.aval.shape
    return Zero(zero.aval.update(shape=(*shape[:dim], axis.size, *shape[dim:])))


def _without_axis(x: Any, dim: int | None) -> Any:
    """A Zero as one element along the axis sees it."""
    if not is_zero(x) or dim is None:
        return x
    shape = x.aval.shape
    return Zero(x.aval.update(shape=shape[:dim] + shape[dim + 1 :]))


def _batch(
    prim: Primitive,
    axis: BatchAxis,
    values: list,
    dims: list,
    params: dict,
    first: BatchTrace | None = None,
) -> tuple[list, list]:
    call, count = params["call_jaxpr"], params["num_consts"]
    new: Any
    if isinstance(call, Graph):
        out_dims = (0,) * len(call.outvars)
        new = batch_graph(call, axis, tuple(dims), out_dims).graph
    else:
        new = lambda *xs: _front(axis, *_batch_flat(call, axis, first, xs, dims))

    rules = _batched_rules(params, axis, dims[count:], first)
    out = prim.bind(*values, **(params | rules | {"call_jaxpr": new}))
    return out, [0] * len(out)


def _batched_rules(params: dict, axis: BatchAxis, dims: list, first: BatchTrace | None) -> dict:
    if "jvp" in params:
        return {"jvp": _batched_jvp(params["jvp"], axis, dims, first)}
    fwd, bwd = _batched_vjp(params["fwd"], params["bwd"], axis, dims, first)
    return {"fwd": fwd, "bwd": bwd}


def _batched_jvp(jvp: Callable, axis: BatchAxis, dims: list, first: BatchTrace | None) -> Callable:
    def batched(primals, tangents):
        count = len(primals)

        def flat(*values):
            out, out_tangents = jvp(values[:count], values[count:])
            return [*out, *out_tangents]

        tangents = [_without_axis(t, d) for t, d in zip(tangents, dims, strict=True)]
        found = _batch_flat(flat, axis, first, [*primals, *tangents], [*dims, *dims])
        out = _front(axis, *found)
        return out[: len(out) // 2], out[len(out) // 2 :]

    return named_like(batched, jvp)


def _batched_vjp(
    fwd: Callable, bwd: Callable, axis: BatchAxis, dims: list, first: BatchTrace | None
) -> tuple[Callable, Callable]:
    residual_dims: list = []  # as the last run of `new_fwd` left them: every run gives the same

    def new_fwd(primals, perturbed):
        count = 0

        def flat(*values):
            nonlocal count
            out, residuals = fwd(values, perturbed)
            count = len(out)
            return [*out, *residuals]

        values, found = _batch_flat(flat, axis, first, primals, dims)
        residual_dims[:] = found[count:]
        return _front(axis, values[:count], found[:count]), values[count:]

    def new_bwd(residuals, cotangents):
        count = len(residuals)
        cotangents = [_without_axis(ct, 0) for ct in cotangents]
        given = [*residuals, *cotangents]
        where = [*residual_dims, *(None if is_zero(ct) else 0 for ct in cotangents)]

        def flat(*xs):
            return bwd(xs[:count], xs[count:])

        values, found = _batch_flat(flat, axis, first, given, where)
        return [_cotangent(axis, *row) for row in zip(values, found, dims, strict=True)]

    return named_like(new_fwd, fwd), named_like(new_bwd, bwd)


def _cotangent(axis: BatchAxis, ct: Any, dim: int | None, want: int | None) -> Any:
    """The cotangent of a primal whose extra axis is at `want`; without one, summed over it."""
    if is_zero(ct):
        return _with_axis(axis, ct, want)
    if want is not None:
        return matched(ct, dim, want, axis.size)
    summed = matched(ct, dim, 0, axis.size)
    return do.reduce_sum(summed, axes=(0,), out_sharding=None)


def named_like(new: Callable, old: Callable) -> Callable:
    """A function that prints as the one it stands for."""
    new.__name__ = getattr(old, "__name__", type(old).__name__)
    return new


# ---- derivatives ----


def _check_closed(prim: Primitive, params: dict, tangents: Sequence[Any]) -> None:
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


def _check_own(prim: Primitive, params: dict, outputs: Sequence[Any]) -> None:
    """Refuse results that carry a derivative past the rule: the function closed over a value."""
    for x in outputs:
        if isinstance(x, traces.Tracer) and isinstance(x._trace, JVPTrace):
            trace: Any = traces.state.trace
            while trace is not None and trace is not x._trace:
                trace = trace.parent
            if trace is None:
                raise errors.UnexpectedTracerError(_closed_over(prim, params))


def _custom_jvp(primals: list, tangents: list, **params) -> tuple[list, list]:
    count = params["num_consts"]
    _check_closed(custom_jvp_call_p, params, tangents[:count])
    out, out_tangents = params["jvp"](primals[count:], tangents[count:])
    _check_own(custom_jvp_call_p, params, [*out, *out_tangents])
    return out, out_tangents


def _custom_vjp(primals: list, tangents: list, **params) -> tuple[list, list]:
    count = params["num_consts"]
    _check_closed(custom_vjp_call_p, params, tangents[:count])
    perturbed = [not is_zero(t) for t in tangents[count:]]
    out, residuals = params["fwd"](primals[count:], perturbed)
    _check_own(custom_vjp_call_p, params, [*out, *residuals])
    avals = tuple(tangent_aval(aval_of(x)) for x in out)
    has = [a.dtype == aval_of(x).dtype for a, x in zip(avals, out, strict=True)]
    found = custom_lin_p.bind(
        *residuals,
        *(t for t in tangents[count:] if not is_zero(t)),
        bwd=params["bwd"],
        name=params["name"],
        num_res=len(residuals),
        out_avals=avals,
        perturbed=tuple(perturbed),
    )
    return out, merged(has, [t for t, h in zip(found, has, strict=True) if h], _zeros(avals, has))


def _zeros(avals: Sequence[Any], has: Sequence[bool]) -> list[Zero]:
    return [Zero(a) for a, h in zip(avals, has, strict=True) if not h]


def _transpose(cts: list, *operands, call_jaxpr: Graph, **_) -> list:
    linear = [is_undefined(x) for x in operands]
    known = [x for x in operands if not is_undefined(x)]
    return merged(linear, transpose_flat(call_jaxpr, linear, known, cts), [None] * len(known))


# ---- the tangents of a custom_vjp function: known by their transpose only ----


def _no_forward(*_, **params):
    raise TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function: "
        f"{params.get('name', 'it')} has only a rule for cotangents. Use reverse mode (grad, vjp), "
        "or give it a rule for tangents with custom_jvp."
    )


def _lin_transpose(
    cts: list, *operands, bwd: Callable, num_res: int, perturbed: tuple, **_
) -> list:
    residuals, tangents = cut(operands, num_res)
    given = bwd(residuals, cts)
    chosen = [ct for ct, p in zip(given, perturbed, strict=True) if p]
    return [None] * num_res + [
        Zero(x.aval) if ct is None else ct for ct, x in zip(chosen, tangents, strict=True)
    ]


def _lin_batch(
    axis: BatchAxis, args: list, dims: list, *, bwd, num_res, out_avals, perturbed, **params
):
    """Residuals and tangents with an extra axis."""
    in_dims = iter(dims[num_res:])
    wanted = [next(in_dims) if p else None for p in perturbed]

    def new_bwd(residuals, cotangents):
        given = [*residuals, *(_without_axis(ct, 0) for ct in cotangents)]
        where = [*dims[:num_res], *(None if is_zero(ct) else 0 for ct in cotangents)]
        flat = lambda *xs: bwd(xs[:num_res], xs[num_res:])
        values, found = _batch_flat(flat, axis, None, given, where)
        return [_cotangent(axis, *row) for row in zip(values, found, wanted, strict=True)]

    avals = tuple(a.update(shape=(axis.size, *a.shape)) for a in out_avals)
    out = custom_lin_p.bind(
        *args,
        bwd=named_like(new_bwd, bwd),
        num_res=num_res,
        out_avals=avals,
        perturbed=perturbed,
        **params,
    )
    return out, [0] * len(out)


class _Linear(Primitive):
    """Only ever staged: binding it with values means forward mode."""

    def bind(self, *args, **params):
        trace = traces.state.trace
        if not isinstance(trace, (PartialTrace, GraphTrace, BatchTrace)):
            _no_forward(**params)
        return trace.process(self, args, params)


# ---- printing ----


def _named(x: Any) -> str:
    return getattr(x, "__name__", None) or type(x).__name__


def _show(*rules: str) -> Callable[[dict], dict]:
    def show(params: dict) -> dict:
        shown = {k: params[k] for k in ("name", "call_jaxpr", "symbolic_zeros")}
        return shown | {k: _named(params[k]) for k in rules}

    return show


def _call_avals(*avals, call_jaxpr, **_):
    return call_jaxpr.out_avals


def _decompose(*args, call_jaxpr, **_):
    return _run(call_jaxpr, args)


def _inline(eqn) -> Graph:
    return eqn.params["call_jaxpr"]


custom_jvp_call_p = CustomCall(
    "custom_jvp_call",
    Kind.CALL,
    multiple_results=True,
    aval=_call_avals,
    jvp=_custom_jvp,
    transpose=_transpose,
    batch=lambda axis, args, dims, **params: _batch(custom_jvp_call_p, axis, args, dims, params),
    decompose=_decompose,
    inline=_inline,
    show=_show("jvp"),
)

custom_vjp_call_p = CustomCall(
    "custom_vjp_call",
    Kind.CALL,
    multiple_results=True,
    aval=_call_avals,
    jvp=_custom_vjp,
    transpose=_transpose,
    batch=lambda axis, args, dims, **params: _batch(custom_vjp_call_p, axis, args, dims, params),
    decompose=_decompose,
    inline=_inline,
    show=_show("fwd", "bwd"),
)

custom_lin_p = _Linear(
    "custom_lin",
    Kind.CALL,
    multiple_results=True,
    aval=lambda *avals, out_avals, **_: list(out_avals),
    assemble=lambda avals, compile, **params: _no_forward(**params),
    decompose=_no_forward,
    jvp=lambda primals, tangents, **params: _no_forward(**params),
    transpose=_lin_transpose,
    batch=_lin_batch,
    show=lambda params: {"name": params["name"], "bwd": _named(params["bwd"])},
)


# ---- linear functions that come with their transpose ----


def _linear_call_jvp(primals: list, tangents: list, **params) -> tuple[list, list]:
    """Linear in all but the residuals."""
    count = params["num_res"]
    if not all(is_zero(t) for t in tangents[:count]):
        raise NotImplementedError(
            "linear_call is not differentiable with respect to its residual arguments: stop the "
            "gradient there, or pass them as linear arguments"
        )
    out = linear_call_p.bind(*primals, **params)
    rest = [instantiate(t) for t in tangents[count:]]
    return out, linear_call_p.bind(*primals[:count], *rest, **params)


def _linear_call_transpose(cts: list, *operands, callee, transpose, num_res, **params) -> list:
    residuals, linear = cut(operands, num_res)
    given = linear_call_p.bind(
        *residuals,
        *map(instantiate, cts),
        callee=transpose,
        transpose=callee,
        num_res=num_res,
        **params,
    )
    pairs = zip(given, linear, strict=True)
    return [None] * num_res + [ct if is_undefined(x) else None for ct, x in pairs]


def _linear_call_batch(
    axis: BatchAxis, args: list, dims: list, *, callee, transpose, num_res, **params
):
    where = tuple(dims)
    new = batch_graph(callee, axis, where, (0,) * len(callee.outvars)).graph
    # Cotangents come with the axis in front, as results have it; those of operands follow them.
    back = where[:num_res] + (0,) * len(callee.outvars)
    wanted = where[num_res:]
    if any(d is None for d in wanted):
        args = [*args[:num_res], *_front(axis, args[num_res:], wanted)]
        wanted = (0,) * len(wanted)
        new = batch_graph(callee, axis, where[:num_res] + wanted, (0,) * len(callee.outvars)).graph
    turned = batch_graph(transpose, axis, back, wanted).graph
    out = linear_call_p.bind(*args, callee=new, transpose=turned, num_res=num_res, **params)
    return out, [0] * len(out)


linear_call_p = Primitive(
    "linear_call",
    Kind.CALL,
    multiple_results=True,
    aval=lambda *avals, callee, **_: callee.out_avals,
    jvp=_linear_call_jvp,
    transpose=_linear_call_transpose,
    batch=_linear_call_batch,
    decompose=lambda *args, callee, **_: evaluate(callee, *args),
    inline=lambda eqn: eqn.params["callee"],
)
