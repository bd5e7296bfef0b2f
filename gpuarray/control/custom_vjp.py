"""`custom_vjp` as a primitive: a call with rules for cotangents.

Floor 4. In: a flat function, `fwd(primals, perturbed) -> (outputs, residuals)` and `bwd(residuals,
cotangents) -> cotangents`. Out: the primitive, and the one that represents its tangents, for which
only the transpose is defined. See `custom_rules` for the code shared with `custom_jvp`. A third one
represents a `fwd` that can be dropped if its residuals are recomputed (`optimize_remat`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from gpuarray.control.custom_rules import (
    CustomCall,
    ResultAxis,
    batch_flat_rule,
    batch_rule_aux,
    check_closed,
    check_own,
    cotangent_of,
    in_front,
    name_of,
    named_like,
    without_axis,
)
from gpuarray.control.graph_edits import cut, merged, opened_together, staged
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn, Graph, evaluate
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.primitive import BY_PARTS, NOT_LINEAR, Kind, Primitive
from gpuarray.transforms.batch import BatchAxis, BatchTrace
from gpuarray.transforms.dead import set_narrow_rule, shortened
from gpuarray.transforms.graphs import batch_graph
from gpuarray.transforms.partial import PartialTrace
from gpuarray.transforms.tracing import GraphTrace


def _jvp(primals: list, tangents: list, **params) -> tuple[list, list]:
    count = params["num_consts"]
    check_closed(custom_vjp_call_p, params, tangents[:count])
    # Which primals are differentiated: `fwd` may use it to save work.
    perturbed = [not is_zero(t) for t in tangents[count:]]
    if params["optimize_remat"] and isinstance(params["call_jaxpr"], Graph):
        out, residuals = _forward(primals, perturbed, params)
    else:
        out, residuals = params["fwd"](primals[count:], perturbed)
    check_own(custom_vjp_call_p, params, [*out, *residuals])
    avals = tuple(tangent_aval(aval_of(x)) for x in out)
    # Integer results have tangents of dtype float0, which stay symbolic.
    has = [a.dtype != dtypes.float0 for a in avals]
    # Represents the tangents until transposition calls `bwd`.
    found = custom_lin_p.bind(
        *residuals,
        *(t for t in tangents[count:] if not is_zero(t)),
        bwd=params["bwd"],
        name=params["name"],
        num_res=len(residuals),
        out_avals=avals,
        perturbed=tuple(perturbed),
        symbolic_zeros=params["symbolic_zeros"],
    )
    return out, merged(has, [t for t, h in zip(found, has, strict=True) if h], _zeros(avals, has))


def _zeros(avals: Sequence[Any], has: Sequence[bool]) -> list[Zero]:
    return [Zero(a) for a, h in zip(avals, has, strict=True) if not h]


def _batch_rules(
    params: dict, axis: BatchAxis, dims: list, first: BatchTrace | None, place: ResultAxis
) -> dict:
    fwd: Callable = params["fwd"]
    bwd: Callable = params["bwd"]
    residual_dims: list = []  # as the last run of `new_fwd` left them: every run gives the same

    # The rules of the call with one more axis: the user's rules, run on batched values.
    def new_fwd(primals, perturbed):
        def flat(*values):
            out, residuals = fwd(values, perturbed)
            return [*out, *residuals], len(out)

        values, found, count = batch_rule_aux(flat, axis, first, primals, dims)
        # Residuals keep their axis where it is: only `new_bwd` reads them.
        residual_dims[:] = found[count:]
        return place.put(axis, values[:count], found[:count]), values[count:]

    def new_bwd(residuals, cotangents):
        count, at = len(residuals), place.at
        cotangents = [without_axis(ct, at) for ct in cotangents]
        given = [*residuals, *cotangents]
        where = [*residual_dims, *(None if is_zero(ct) else at for ct in cotangents)]

        def flat(*xs):
            return bwd(xs[:count], xs[count:])

        values, found = batch_flat_rule(flat, axis, first, given, where)
        if at is None:  # one call for all elements: no sum needed
            return in_front(axis, values, found, None)
        return [cotangent_of(axis, *row) for row in zip(values, found, dims, strict=True)]

    return {"fwd": named_like(new_fwd, fwd), "bwd": named_like(new_bwd, bwd)}


def _narrow_rules(params: dict, used: list[bool], avals: list) -> dict:
    fwd: Callable = params["fwd"]
    bwd: Callable = params["bwd"]
    none = _zeros([tangent_aval(a) for a in avals], used)

    def narrow_fwd(primals, perturbed):
        out, residuals = fwd(primals, perturbed)
        return list(compress(out, used)), residuals

    # Results that are not used have zero cotangents.
    def narrow_bwd(residuals, cotangents):
        return bwd(residuals, merged(used, cotangents, none))

    return {"fwd": named_like(narrow_fwd, fwd), "bwd": named_like(narrow_bwd, bwd)}


# ---- `fwd` where the function alone may do: a Graph of each ----


def _forward(primals: list, perturbed: list[bool], params: dict) -> tuple[list, list]:
    """`fwd` as an equation, which becomes the function itself where no residual is read."""
    alone, count, fwd = params["call_jaxpr"], params["num_consts"], params["fwd"]

    def flat(*values):
        out, residuals = fwd(values[count:], perturbed)
        return [*out, *residuals]

    both = staged(flat, [aval_of(x) for x in primals], "custom_vjp fwd", alone.debug_name)
    (both, alone), consts = opened_together([both, alone])
    check_own(custom_vjp_call_p, params, consts)
    found = forward_p.bind(*consts, *primals, jaxpr=both, alone=alone)
    out, residuals = cut(found, len(alone.outvars))
    return out, residuals


def _forward_batch(axis: BatchAxis, args: list, dims: list, *, jaxpr: Graph, alone: Graph):
    jaxpr, alone = (
        batch_graph(g, axis, tuple(dims), (0,) * len(g.outvars)).graph for g in (jaxpr, alone)
    )
    out = forward_p.bind(*args, jaxpr=jaxpr, alone=alone)
    return out, [0] * len(out)


def _forward_narrow(eqn: Eqn, used: list[bool]) -> Eqn:
    alone = eqn.params["alone"]
    wanted, residuals = cut(used, len(alone.outvars))
    # Only results: in a loop, or in the first computation of `checkpoint`.
    if any(residuals):
        return eqn
    short, _ = shortened(alone, wanted)
    outvars = list(compress(eqn.outvars, used))
    return eqn.replace(outvars=outvars, params={"jaxpr": short, "alone": short})


forward_p = Primitive(
    "custom_vjp_fwd",
    Kind.CALL,
    multiple_results=True,
    aval=lambda *avals, jaxpr, **_: jaxpr.out_avals,
    decompose=lambda *args, jaxpr, **_: evaluate(jaxpr, *args),
    inline=lambda eqn: eqn.params["jaxpr"],
    jvp=BY_PARTS,
    transpose=NOT_LINEAR,
    batch=_forward_batch,
)
set_narrow_rule(forward_p, _forward_narrow)


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
    # `bwd` returns a cotangent for every primal; only those that were differentiated are used.
    chosen = [ct for ct, p in zip(given, perturbed, strict=True) if p]
    return [None] * num_res + [
        Zero(x.aval) if ct is None else ct for ct, x in zip(chosen, tangents, strict=True)
    ]


def _lin_batch(
    axis: BatchAxis, args: list, dims: list, *, bwd, num_res, out_avals, perturbed, **params
):
    """Residuals and tangents with an extra axis."""
    # Where each differentiated primal has the axis: its cotangent has to have it there.
    in_dims = iter(dims[num_res:])
    wanted = [next(in_dims) if p else None for p in perturbed]

    def new_bwd(residuals, cotangents):
        given = [*residuals, *(without_axis(ct, 0) for ct in cotangents)]
        where = [*dims[:num_res], *(None if is_zero(ct) else 0 for ct in cotangents)]
        flat = lambda *xs: bwd(xs[:num_res], xs[num_res:])
        values, found = batch_flat_rule(flat, axis, None, given, where)
        return [cotangent_of(axis, *row) for row in zip(values, found, wanted, strict=True)]

    # Results have the axis in front, wherever the residuals have it.
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


custom_vjp_call_p = CustomCall("custom_vjp_call", _jvp, _batch_rules, _narrow_rules, ("fwd", "bwd"))

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
    show=lambda params: {
        "bwd": name_of(params["bwd"]),
        "in_zeros": [not p for p in params["perturbed"]],
        "num_res": params["num_res"],
        "symbolic_zeros": params["symbolic_zeros"],
    },
)
