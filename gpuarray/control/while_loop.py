"""`while` as a primitive: a Graph applied to its own results while another Graph returns true.

Floor 4. In: constants of the condition, constants of the body, initial carries (in this order).
Out: the last carries. A condition that differs along mapped axes has those axes: the loop then
continues while any element's condition is true, and elements whose condition is false keep their
values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.control import typed
from gpuarray.control.call import jit_p
from gpuarray.control.graph_edits import (
    check_counts,
    check_operands,
    chosen,
    cut,
    fixed_point,
    graph_work,
    interpreted,
    jvp_filled,
    looping,
    merged,
    others,
    reordered,
    staged,
)
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.effects import refuse_io
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.layout import also_varying
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.primitive import Kind
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import instantiate
from gpuarray.transforms.batch import BatchAxis, matched
from gpuarray.transforms.dead import set_narrow_rule, shortened
from gpuarray.transforms.graphs import batch_graph, jvp_graph
from gpuarray.transforms.partial import PartialTrace, set_partial_rule, split_graph


def _while_aval(*avals, cond_jaxpr: Graph, body_jaxpr: Graph, cond_nconsts: int, body_nconsts: int):
    consts = cond_jaxpr.in_avals[:cond_nconsts]
    check_operands("while", avals, [*consts, *body_jaxpr.in_avals])
    # Body and condition take their constants, then the carries, which the body returns; so it can
    # run on its own results.
    check_counts("while", body_jaxpr, body_nconsts, len(body_jaxpr.outvars))
    check_counts("while", cond_jaxpr, cond_nconsts, len(body_jaxpr.outvars))
    check_operands("while", body_jaxpr.out_avals, body_jaxpr.in_avals[body_nconsts:])
    check_operands("while", body_jaxpr.out_avals, cond_jaxpr.in_avals[cond_nconsts:])
    if [a.dtype for a in cond_jaxpr.out_avals] != [np.bool_]:
        raise TypeError(f"the condition of while gives no bool but {cond_jaxpr.out_avals}")
    # Devices that stop at different steps have different results.
    stops = cond_jaxpr.out_avals[0].layout
    return [
        a if stops is None else a.update(layout=also_varying(a.layout, stops))
        for a in body_jaxpr.out_avals
    ]


def _assemble(avals, compile: Callable, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **_):
    start = cond_nconsts + body_nconsts
    # A mapped condition: the number of elements that continue decides whether a select is needed.
    if cond_jaxpr.out_avals[0].ndim:
        counted, kept = (
            compile(_how_many(cond_jaxpr)),
            compile(_where_going(body_jaxpr, cond_jaxpr)),
        )
        body, ours = compile(body_jaxpr), None
    else:
        condition = compile(cond_jaxpr)
        body, ours = looping(compile, body_jaxpr, body_nconsts, len(body_jaxpr.outvars))

    # Three ways to run: plainly, writing over carries that are ours, and with a condition for each
    # element.
    def run(*args):
        first, second, carry = args[:cond_nconsts], args[cond_nconsts:start], args[start:]
        while condition(*first, *carry)[0]:
            carry = body(*second, *carry)
        return list(carry)

    def run_owning(*args):
        first, second, carry = args[:cond_nconsts], args[cond_nconsts:start], args[start:]
        owned = frozenset()  # the initial values belong to the caller
        while condition(*first, *carry)[0]:
            carry = body(*second, *carry, owned)
            owned = ours
        return list(carry)

    def run_mapped(*args):
        first, second, carry = args[:cond_nconsts], args[cond_nconsts:start], args[start:]
        while True:
            many, going = counted(*first, *carry)
            many = int(many)
            if many == 0:
                return list(carry)
            # If all elements continue, the select would change nothing.
            carry = body(*second, *carry) if many == 2 else kept(going, *second, *carry)

    if cond_jaxpr.out_avals[0].ndim:
        return run_mapped
    return run if ours is None else run_owning


def _how_many(condition: Graph) -> Graph:
    """Return the condition with a count in front: no element continues (0), some (1) or all (2)."""
    # Kept with the Graph, which lives as long as its programs.
    if "how many" not in condition.derived:

        def fun(*values):
            (going,) = _called(condition, values)
            axes = tuple(range(aval_of(going).ndim))
            found = [do.reduce_or(going, axes=axes), do.reduce_and(going, axes=axes)]
            some, every = (
                do.convert_element_type(
                    x, new_dtype=np.dtype(np.int32), weak_type=False, sharding=None
                )
                for x in found
            )
            # some * (some + every): 0, 1 or 2. With no elements `every` is true and `some` is not.
            # if there are no elements, "all" means none
            return [do.mul(some, do.add(some, every)), going]

        made = staged(fun, condition.in_avals, "while", condition.debug_name)
        condition.derived["how many"] = made
    return condition.derived["how many"]


def _where_going(body: Graph, condition: Graph) -> Graph:
    """Return the body for elements that continue; others keep their values. The condition is
    first.
    """
    (going_aval,) = condition.out_avals
    if ("where going", going_aval) not in body.derived:

        def fun(going, *values):
            out = _called(body, values)
            return [
                do.select_n(_broadcast_condition(going, aval_of(new).shape), old, new)
                for new, old in zip(out, values[len(values) - len(out) :], strict=True)
            ]

        made = staged(fun, [going_aval, *body.in_avals], "while", body.debug_name)
        body.derived["where going", going_aval] = made
    return body.derived["where going", going_aval]


def _called(graph: Graph, values: Sequence[Any]) -> list[Any]:
    # Not traced again: the graph was already compiled, and in a simplified Graph a scalar may occur
    # where binding the primitive requires the full shape.
    return jit_p.bind(*values, name=graph.debug_name, jaxpr=graph)


def _broadcast_condition(going, shape: tuple[int, ...]):
    """Broadcast the condition to a carry, whose first axes are the condition's."""
    axes = tuple(range(aval_of(going).ndim))
    if len(axes) == len(shape):
        return going
    return do.broadcast_in_dim(going, shape=shape, broadcast_dimensions=axes, sharding=None)


def _while_jvp(
    primals: list, tangents: list, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **params
):
    cond_consts, body_consts, init = cut(primals, cond_nconsts, body_nconsts)
    _, const_tangents, init_tangents = cut(tangents, cond_nconsts, body_nconsts)
    # The condition has no tangents: it decides only how long the loop runs.
    of_consts = [not is_zero(t) for t in const_tangents]
    carry = fixed_point(
        [not is_zero(t) for t in init_tangents],
        lambda carry: jvp_graph(body_jaxpr, (*of_consts, *carry)).outputs,
    )
    nonzero = (*of_consts, *carry)
    made = jvp_filled(body_jaxpr, nonzero, tuple(carry))
    consts, carries, d_consts, d_carries = cut(
        made.invars, body_nconsts, len(carry), sum(of_consts)
    )
    # In the order of a loop: all constants, then all carries.
    body = reordered(made, [*consts, *d_consts, *carries, *d_carries], made.outvars)
    # The condition is given the tangents, which it does not read.
    unused = [Var(v.aval) for v in d_carries]
    condition = reordered(cond_jaxpr, [*cond_jaxpr.invars, *unused], cond_jaxpr.outvars)
    out = while_p.bind(
        *cond_consts,
        *body_consts,
        *chosen(const_tangents, of_consts),
        *init,
        *(instantiate(t) for t in chosen(init_tangents, carry)),
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts + sum(of_consts),
        **params,
    )
    result, out_tangents = cut(out, len(carry))
    none = [Zero(tangent_aval(aval_of(x))) for x in others(result, carry)]
    return result, merged(carry, out_tangents, none)


def _while_batch(
    axis: BatchAxis,
    args: list,
    dims: list,
    *,
    cond_jaxpr: Graph,
    body_jaxpr: Graph,
    cond_nconsts: int,
    body_nconsts: int,
    **params,
):
    # Inside the graphs a mapped value has the axis in front.
    cond_dims, body_dims, init_dims = cut(
        (None if d is None else 0 for d in dims), cond_nconsts, body_nconsts
    )
    # A condition that another vmap has mapped keeps its axes in front: it broadcasts over a
    # carry's first axes.
    # mapped axes that the condition has; the new one follows them
    depth = cond_jaxpr.out_avals[0].ndim

    def places(carry: Sequence[bool]) -> tuple[int | None, ...]:
        return tuple(depth if is_mapped else None for is_mapped in carry)

    carry = fixed_point(
        [d is not None for d in init_dims],
        lambda carry: [
            d is not None
            for d in batch_graph(body_jaxpr, axis, (*body_dims, *places(carry))).outputs
        ],
    )
    at = places(carry)
    # Whether elements may stop at different steps.
    differs = batch_graph(cond_jaxpr, axis, (*cond_dims, *at)).outputs[0] is not None
    if differs:  # elements stop at different steps, so every carry has the axis, in front
        effects = cond_jaxpr.effects | body_jaxpr.effects
        refuse_io(effects, "while_loop with batched predicate")
        at = (0,) * len(carry)
    # Both graphs again, now that it is known which carries have the axis.
    body = batch_graph(body_jaxpr, axis, (*body_dims, *at), at).graph
    condition = batch_graph(cond_jaxpr, axis, (*cond_dims, *at), (0,) if differs else (None,)).graph
    wanted = (*cond_dims, *body_dims, *at)
    out = while_p.bind(
        *(matched(x, d, w, axis.size) for x, d, w in zip(args, dims, wanted, strict=True)),
        cond_jaxpr=condition,
        body_jaxpr=body,
        cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts,
        **params,
    )
    return out, list(at)


def _while_partial(trace: PartialTrace, args: tuple, flags: list[bool], params: dict) -> list:
    """Run known carries now; the whole loop, with all of them, runs later."""
    cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
    # 1. Which carries stay known whatever the number of steps.
    counts = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body, carry = cut(flags, *counts)
    # Carries that depend on unknown values at any step.
    carry = fixed_point(
        carry, lambda carry: split_graph(body_jaxpr, (*of_body, *carry), carry).out_unknown
    )
    split = split_graph(body_jaxpr, (*of_body, *carry), carry)
    # If the condition is unknown, or nothing is known, nothing can run now.
    if any(split_graph(cond_jaxpr, (*of_cond, *carry)).out_unknown) or all(carry):
        return list(trace.unknown.process(while_p, args, params))
    # 2. A loop of these alone runs now.
    cond_consts, body_consts, init = cut(args, *counts)
    # The condition depends on known carries only, so it does not need the others.
    condition = split_graph(cond_jaxpr, (*of_cond, *carry)).known
    # Only the known carries: nothing later reads the discarded part of the split.
    body = reordered(split.known, split.known.invars, split.known.outvars[: carry.count(False)])
    assert trace.parent is not None
    with traces.current(trace.parent):
        known = while_p.bind(
            *others(cond_consts, of_cond),
            *others(body_consts, of_body),
            *others(init, carry),
            cond_jaxpr=condition,
            body_jaxpr=body,
            cond_nconsts=of_cond.count(False),
            body_nconsts=of_body.count(False),
        )
    # The later loop computes known carries again; results of the first are used where possible.
    rest = trace.unknown.process(while_p, args, params)
    return merged(carry, chosen(rest, carry), known)


def _while_transpose(cts: list, *args: Any, **_):
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
        "dynamic start/stop values: how many steps must be kept is not known. Try using lax.scan, "
        "or using fori_loop with static start/stop, or give while_loop the most steps it may take: "
        "lax.while_loop(cond_fun, body_fun, init_val, max_steps=100)."
    )


def _narrow(eqn: Eqn, used: list[bool]) -> Eqn:
    condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    # Of constants and carries only those that are read stay.
    counts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    condition, read = shortened(condition, [True])
    of_cond, carry_read = read[: counts[0]], read[counts[0] :]
    # A carry is needed if the condition or a needed carry reads it.
    carry = fixed_point(
        [a or b for a, b in zip(used, carry_read, strict=True)],
        lambda carry: shortened(body, carry)[1][counts[1] :],
    )
    short, read = shortened(body, carry)
    of_body = read[: counts[1]]
    changed = {
        "cond_jaxpr": reordered(
            condition, chosen(condition.invars, [*of_cond, *carry]), condition.outvars
        ),
        "body_jaxpr": reordered(short, chosen(short.invars, [*of_body, *carry]), short.outvars),
        "cond_nconsts": sum(of_cond),
        "body_nconsts": sum(of_body),
    }
    return eqn.replace(
        invars=chosen(eqn.invars, [*of_cond, *of_body, *carry]),
        outvars=chosen(eqn.outvars, carry),
        params=eqn.params | changed,
    )


def _work(avals, *, cond_jaxpr: Graph, body_jaxpr: Graph, **_) -> float:
    return 16 * (graph_work(cond_jaxpr) + graph_work(body_jaxpr))  # steps are unknown: a guess


def _flow(eqn: Eqn) -> Loop:
    params = eqn.params
    first = params["cond_nconsts"]
    start = first + params["body_nconsts"]
    return Loop(
        params["body_jaxpr"],
        consts=range(first, start),
        carry=range(start, len(eqn.invars)),
        condition=params["cond_jaxpr"],
        condition_consts=range(first),
    )


def _of_loop(eqn: Eqn, loop: Loop) -> Eqn:
    changed = {
        "cond_jaxpr": loop.condition,
        "body_jaxpr": loop.body,
        "cond_nconsts": len(loop.condition_consts),
        "body_nconsts": len(loop.consts),
    }
    return eqn.replace(params=eqn.params | changed)


while_p = typed.TypedCall(
    "while",
    Kind.CALL,
    retype=typed.while_loop,
    multiple_results=True,
    aval=_while_aval,
    numpy_pick=lambda avals, **params: _assemble(avals, interpreted, **params),
    assemble=_assemble,
    flow=_flow,
    rewrite=Rewrite(loop=_of_loop),
    jvp=_while_jvp,
    transpose=_while_transpose,
    batch=_while_batch,
    work=_work,
)
set_partial_rule(while_p, _while_partial)
set_narrow_rule(while_p, _narrow)
