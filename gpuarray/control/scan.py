"""`scan` as a primitive: a Graph run for each element of some arrays, with values carried along.

Floor 4. In: constants, initial carries, arrays to go through (in this order). Out: the last
carries, and the other results of the body, each stacked into an array. Every transformation of a
scan is a scan of a transformed body; which carries it concerns is found as a fixed point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.control import typed
from gpuarray.control.graph_edits import (
    check_counts,
    check_operands,
    chosen,
    cut,
    empty_graph,
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
from gpuarray.control.keeping import KeptInside, Separate, set_keep_rule
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Eqn, Graph, Var, evaluate, has_effect
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Kind
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.linear import add_any, instantiate, zeros
from gpuarray.transforms.batch import BatchAxis, matched
from gpuarray.transforms.dead import set_narrow_rule, shortened
from gpuarray.transforms.graphs import batch_graph, jvp_graph
from gpuarray.transforms.partial import PartialTrace, Split, set_partial_rule, split_graph
from gpuarray.transforms.references import Ref, strong_values, threaded, threading, write_back
from gpuarray.transforms.transpose import transpose_flat


def stacked(aval: ShapedArray, length: int) -> ShapedArray:
    """Return the aval of `length` such values stacked into one array."""
    layout = None if aval.layout is None else aval.layout.with_axis()
    return aval.update(shape=(length, *aval.shape), layout=layout)


def _scan_aval(*avals, jaxpr: Graph, length: int, num_consts: int, num_carry: int, **_):
    first_x = num_consts + num_carry
    x_avals = [stacked(a, length) for a in jaxpr.in_avals[first_x:]]
    check_operands("scan", avals, [*jaxpr.in_avals[:first_x], *x_avals])
    out = jaxpr.out_avals
    check_counts("scan", jaxpr, num_consts, num_carry, len(x_avals))
    check_operands("scan", out[:num_carry], jaxpr.in_avals[num_consts:first_x])
    return [*out[:num_carry], *(stacked(a, length) for a in out[num_carry:])]


def _assemble(
    avals,
    compile: Callable,
    *,
    jaxpr: Graph,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **_,
):
    # Allocate each stacked result by a separate Graph: in one Graph two equal ones would be merged.
    rooms = [compile(empty_graph(stacked(a, length))) for a in jaxpr.out_avals[num_carry:]]
    first_x = num_consts + num_carry
    order = range(length - 1, -1, -1) if reverse else range(length)
    # `ours`: carries that the body may overwrite after the first step (see `looping`).
    body, ours = looping(compile, jaxpr, num_consts, num_carry)

    def rows(xs):
        # Rows in the order of the steps; without arrays, as many empty rows.
        return zip(*(reversed(x) if reverse else x for x in xs), strict=True) if xs else no_rows()

    def no_rows():
        return itertools.repeat((), length)

    def run(*args):
        consts, carry, xs = args[:num_consts], args[num_consts:first_x], args[first_x:]
        ys = [room()[0] for room in rooms]
        # One step: the body makes the next carries, and a row of the stacked results.
        for i, row in zip(order, rows(xs), strict=True):
            out = body(*consts, *carry, *row)
            carry = out[:num_carry]
            for y, value in zip(ys, out[num_carry:]):
                y[i] = value
        return [*carry, *ys]

    # Without stacked results the loop is shorter: three variants keep the step cheap.
    def run_without_ys(*args):
        consts, carry, xs = args[:num_consts], args[num_consts:first_x], args[first_x:]
        for row in rows(xs):
            carry = body(*consts, *carry, *row)
        return list(carry)

    def run_owning(*args):
        consts, carry, xs = args[:num_consts], args[num_consts:first_x], args[first_x:]
        ys = [room()[0] for room in rooms]
        owned = frozenset()  # the initial values belong to the caller
        for i, row in zip(order, rows(xs), strict=True):
            out = body(*consts, *carry, *row, owned)
            carry = out[:num_carry]
            owned = ours
            for y, value in zip(ys, out[num_carry:]):
                y[i] = value
        return [*carry, *ys]

    if ours is not None:
        return run_owning
    return run if rooms else run_without_ys


# ---- derivatives ----


def _scan_jvp(primals: list, tangents: list, *, jaxpr: Graph, num_consts, num_carry, **params):
    nonzero = [not is_zero(t) for t in tangents]
    start, end = num_consts, num_consts + num_carry

    def tangents_of(carry: Sequence[bool]) -> tuple[bool, ...]:
        return jvp_graph(jaxpr, (*nonzero[:start], *carry, *nonzero[end:])).outputs

    carry = fixed_point(nonzero[start:end], lambda carry: tangents_of(carry)[:num_carry])
    nonzero[start:end] = carry
    found = tangents_of(carry)
    wanted = (*carry, *found[num_carry:])
    made = jvp_filled(jaxpr, tuple(nonzero), wanted)
    # Inputs and outputs in the order of a scan: each kind, followed by its tangents.
    flags = cut(nonzero, num_consts, num_carry)
    ins, in_tangents = cut(made.invars, len(nonzero))
    ins, in_tangents = (
        cut(ins, num_consts, num_carry),
        cut(in_tangents, sum(flags[0]), sum(flags[1])),
    )
    outs, out_tangents = cut(made.outvars, len(wanted))
    outs, out_tangents = cut(outs, num_carry), cut(out_tangents, sum(carry))
    body = reordered(made, _paired(ins, in_tangents), _paired(outs, out_tangents))
    values = cut(primals, num_consts, num_carry)
    given = cut([instantiate(t) for t in chosen(tangents, nonzero)], sum(flags[0]), sum(flags[1]))
    out = scan_p.bind(
        # Constants, carries and arrays, each followed by its tangents.
        *_paired(values, given),
        jaxpr=body,
        num_consts=num_consts + sum(flags[0]),
        num_carry=num_carry + sum(carry),
        **params,
    )
    # Results are carries, their tangents, stacked results, their tangents: sort them.
    ys = len(wanted) - num_carry
    carry_out, carry_tangents, ys_out, ys_tangents = cut(out, num_carry, sum(carry), ys)
    result = carry_out + ys_out
    none = [Zero(tangent_aval(aval_of(x))) for x in others(result, wanted)]
    return result, merged(wanted, carry_tangents + ys_tangents, none)


# Lists of two kinds, interleaved group by group.
def _paired(first: list[list], second: list[list]) -> list:
    return [x for a, b in zip(first, second, strict=True) for x in (*a, *b)]


# ---- batching ----


def _scan_batch(axis: BatchAxis, args: list, dims: list, *, jaxpr, num_consts, num_carry, **params):
    start, end = num_consts, num_consts + num_carry
    is_mapped = [d is not None for d in dims]

    # Inside the body the axis is in front.
    def places(carry: Sequence[bool]) -> tuple[int | None, ...]:
        return tuple(0 if m else None for m in (*is_mapped[:start], *carry, *is_mapped[end:]))

    def outputs(carry: Sequence[bool]) -> tuple[int | None, ...]:
        return batch_graph(jaxpr, axis, places(carry)).outputs

    mapped = fixed_point(
        is_mapped[start:end], lambda carry: [d is not None for d in outputs(carry)[:num_carry]]
    )
    inside, found = places(mapped), outputs(mapped)
    carry = inside[start:end]
    outside = (*carry, *(None if d is None else 0 for d in found[num_carry:]))
    made = batch_graph(jaxpr, axis, inside, outside).graph
    # Arrays keep the scanned axis first, so the batch axis comes second.
    values = [
        x
        if want is None
        else matched(x, d, 0, axis.size)
        if i < end
        else move_axis(x, d, 1)  # after the scanned axis
        for i, (x, d, want) in enumerate(zip(args, dims, inside, strict=True))
    ]
    out = scan_p.bind(*values, jaxpr=made, num_consts=num_consts, num_carry=num_carry, **params)
    return out, [*carry, *(None if d is None else 1 for d in outside[num_carry:])]


# ---- partial evaluation: known now, unknown later ----


class _Halves(NamedTuple):
    """The body of a scan in two halves.

    Residuals are the same at every step (invariant), or an array that is scanned anyway
    (forwarded), or are stacked by the first scan.
    """

    unknown: tuple[bool, ...]  # inputs of the body, carries as the fixed point has them
    out_unknown: tuple[bool, ...]
    invariant: Graph  # known constants -> values that are the same at every step
    known: Graph  # known inputs -> known outputs, then the values to stack
    stacked: int
    forwarded: tuple[int, ...]  # numbers of known xs
    rest: Graph  # invariants and unknown constants | carries | unknown xs, forwarded, stacked


# Made once for each pattern of unknown inputs.
def _halves(jaxpr: Graph, flags: Sequence[bool], num_consts: int, num_carry: int) -> _Halves:
    key = ("halves", tuple(flags), num_consts, num_carry)
    if key not in jaxpr.derived:
        jaxpr.derived[key] = _cut_body(jaxpr, list(flags), num_consts, num_carry)
    return jaxpr.derived[key]


def _cut_body(jaxpr: Graph, flags: list[bool], num_consts: int, num_carry: int) -> _Halves:
    start, end = num_consts, num_consts + num_carry
    # A carry that becomes unknown is forced to be unknown from the start.
    no_force = [False] * (len(jaxpr.outvars) - num_carry)

    def split_at(carry: list[bool]) -> Split:
        return split_graph(jaxpr, [*flags[:start], *carry, *flags[end:]], [*carry, *no_force])

    carry = fixed_point(flags[start:end], lambda carry: split_at(carry).out_unknown[:num_carry])
    split = split_at(carry)
    flags[start:end] = carry
    # Hoist equations of the known half that depend only on constants.
    known = split.known
    known_consts, known_carry = flags[:start].count(False), flags[start:end].count(False)
    consts, _, xs = cut(known.invars, known_consts, known_carry)
    varying = set(known.invars[known_consts:])
    fixed_eqns = []
    for eqn in known.eqns:
        # An effect happens at every step, so it stays in the scan.
        if has_effect(eqn) or any(isinstance(a, Var) and a in varying for a in eqn.invars):
            varying.update(eqn.outvars)
        else:
            fixed_eqns.append(eqn)
    # Sort the residuals by how they reach the second half.
    known_outs, residuals = cut(known.outvars, len(known.outvars) - split.residuals)
    inside, unknown_ins = cut(split.unknown.invars, split.residuals)
    pairs = list(zip(residuals, inside, strict=True))
    same = [(a, v) for a, v in pairs if a not in varying]
    forwarded = [(a, v) for a, v in pairs if a in xs]
    kept = [(a, v) for a, v in pairs if a in varying and a not in xs]
    # The three graphs: invariants, the first scan's body, the second scan's body.
    invariant = Graph(consts, [a for a, _ in same], fixed_eqns, known.constvars, known.consts)
    first = reordered(known, known.invars, [*known_outs, *(a for a, _ in kept)])
    u_consts, u_carry, u_xs = cut(unknown_ins, sum(flags[:start]), sum(flags[start:end]))
    order = [*(v for _, v in same), *u_consts, *u_carry, *u_xs]
    order += [v for _, v in forwarded] + [v for _, v in kept]
    rest = reordered(split.unknown, order, split.unknown.outvars)
    return _Halves(
        tuple(flags),
        tuple(split.out_unknown),
        invariant,
        first,
        len(kept),
        tuple(xs.index(a) for a, _ in forwarded),
        rest,
    )


def _run_known(
    halves: _Halves, args: Sequence[Any], num_consts: int, num_carry: int, params: dict
) -> tuple[list, list, list]:
    """Run the first half; return known results, invariants, and arrays for the second half."""
    unknown = cut(halves.unknown, num_consts, num_carry)
    consts, carry, xs = (
        others(values, flags)
        for values, flags in zip(cut(args, num_consts, num_carry), unknown, strict=True)
    )
    # Values that depend only on constants are invariant: computed once, before the loop.
    invariant = evaluate(halves.invariant, *consts)
    out: list = []
    if halves.known.outvars:
        out = scan_p.bind(
            *consts,
            *carry,
            *xs,
            jaxpr=halves.known,
            num_consts=len(consts),
            num_carry=len(carry),
            **params,
        )
    known, kept = cut(out, len(out) - halves.stacked)
    return known, invariant, [*(xs[i] for i in halves.forwarded), *kept]


def _scan_partial(trace: PartialTrace, args: tuple, flags: list[bool], params: dict) -> list:
    """Split into two scans: the first runs now and stacks the residuals of the second."""
    # Parameters of both scans: the length and the direction.
    shared = dict(params)
    jaxpr, num_consts, num_carry = (shared.pop(k) for k in ("jaxpr", "num_consts", "num_carry"))
    halves = _halves(jaxpr, flags, num_consts, num_carry)
    assert trace.parent is not None
    with traces.current(trace.parent):
        # The known half runs in the trace around this one, which may be evaluating or staging
        # itself.
        known, invariant, arrays = _run_known(halves, args, num_consts, num_carry, shared)
    consts, carry, xs = cut(chosen(args, halves.unknown), *_counts(halves, num_consts, num_carry))
    rest = trace.unknown.process(
        scan_p,
        (*invariant, *consts, *carry, *xs, *arrays),
        shared
        | {
            "jaxpr": halves.rest,
            "num_consts": len(invariant) + len(consts),
            "num_carry": len(carry),
        },
    )
    return merged(halves.out_unknown, rest, known)


def _counts(halves: _Halves, num_consts: int, num_carry: int) -> tuple[int, int]:
    consts, carry, _ = cut(halves.unknown, num_consts, num_carry)
    return sum(consts), sum(carry)


# ---- transposition ----


def _scan_transpose(cts: list, *args, jaxpr, num_consts, num_carry, reverse, **params) -> list:
    linear = [is_undefined(x) for x in args]
    halves = _halves(jaxpr, linear, num_consts, num_carry)
    # The nonlinear part runs first, forwards; after partial evaluation it is empty.
    _, invariant, arrays = _run_known(
        halves, args, num_consts, num_carry, params | {"reverse": reverse}
    )
    consts, carry, _ = cut(chosen(args, halves.unknown), *_counts(halves, num_consts, num_carry))
    cts = chosen(cts, halves.out_unknown)
    # Cotangents of the last carries start the backward loop; those of stacked results feed it.
    ct_carry, ct_ys = cts[: len(carry)], cts[len(carry) :]
    nonzero = tuple(not is_zero(ct) for ct in ct_ys)
    body, refs = _transposed_body(
        halves.rest, len(invariant), len(consts), len(carry), len(arrays), nonzero
    )
    # Pass only inputs that the body reads: an unused tangent leaves inputs unread.
    read = {a for e in body.eqns for a in e.invars} | set(body.outvars)
    count = len(refs) + len(consts) + len(carry)
    fixed, carried, xs = cut(body.invars, len(invariant), count)
    keep_fixed, keep_xs = [v in read for v in fixed], [v in read for v in xs]
    body = reordered(
        body, [*chosen(fixed, keep_fixed), *carried, *chosen(xs, keep_xs)], body.outvars
    )
    # Cotangents of constants are sums over the steps, so they are carried, from zero.
    out = scan_p.bind(
        *chosen(invariant, keep_fixed),
        *strong_values(refs),
        *(zeros(aval_of(x)) for x in consts),
        *(instantiate(ct) for ct in ct_carry),
        *chosen([*chosen(ct_ys, nonzero), *arrays], keep_xs),
        jaxpr=body,
        num_consts=sum(keep_fixed),
        num_carry=count,
        reverse=not reverse,
        **params,
    )
    new, out = cut(out, len(refs))
    write_back(refs, new)
    found = merged(halves.unknown, out, [None] * (len(args) - sum(halves.unknown)))
    # A carry may be unknown although its initial value is known.
    return [ct if is_linear else None for ct, is_linear in zip(found, linear, strict=True)]


def _transposed_body(
    rest: Graph, invariants: int, consts: int, carry: int, arrays: int, nonzero: tuple[bool, ...]
) -> tuple[Graph, list[Ref]]:
    """Return the body of the backward scan, and the references that rules in it read or write.

    Its inputs are invariants | values of the references, sums of cotangents of constants,
    cotangents of carries | cotangents of stacked results, and the arrays.
    """
    key = ("transposed body", invariants, consts, carry, arrays, nonzero)
    if key not in rest.derived:
        fixed, linear_avals = cut(rest.in_avals, invariants)
        linear_avals, array_avals = cut(linear_avals, len(linear_avals) - arrays)
        ct_avals = rest.out_avals[carry:]
        linear = [False] * invariants + [True] * len(linear_avals) + [False] * arrays

        def fun(*values):
            known, sums, ct_carry, ct_ys, more = cut(
                values, invariants, consts, carry, sum(nonzero)
            )
            # Missing cotangents of stacked results are zero.
            ct_ys = merged(nonzero, ct_ys, [Zero(a) for a in others(ct_avals, nonzero)])
            found = transpose_flat(rest, linear, [*known, *more], [*ct_carry, *ct_ys])
            d_consts, d_others = cut(found, consts)
            return [
                # Add each step's contribution to the cotangents of constants.
                *(add_any(s, d) for s, d in zip(sums, d_consts, strict=True)),
                *(instantiate(d) for d in d_others),
            ]

        avals = [*linear_avals[: consts + carry], *chosen(ct_avals, nonzero), *array_avals]

        def attempt(refs: list[Ref]) -> tuple[Graph, list[Ref]]:
            def pure(*values):
                known, held, more = cut(values, invariants, len(refs))
                new, out = threaded(fun, refs)(held, *known, *more)
                return [*new, *out]

            held = [ref.type.inner_aval.strip_weak_type() for ref in refs]
            whole = [*fixed, *held, *avals]
            return staged(pure, whole, "transpose", rest.debug_name, threads=True), refs

        rest.derived[key] = threading(attempt)
    return rest.derived[key]


# ---- dead results, and values that a checkpoint keeps ----


def _narrow(eqn: Eqn, used: list[bool]) -> Eqn:
    jaxpr, num_consts, num_carry = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    carry, ys = used[:num_carry], used[num_carry:]
    # A carry is needed if a needed result of a step reads it.
    carry = fixed_point(
        carry,
        lambda carry: cut(shortened(jaxpr, [*carry, *ys])[1], num_consts, num_carry)[1],
    )
    short, read = shortened(jaxpr, [*carry, *ys])
    consts, _, xs = cut(read, num_consts, num_carry)
    inputs = [*consts, *carry, *xs]
    changed = {
        "jaxpr": reordered(short, chosen(short.invars, inputs), short.outvars),
        "num_consts": sum(consts),
        "num_carry": sum(carry),
    }
    return eqn.replace(
        invars=chosen(eqn.invars, inputs),
        outvars=chosen(eqn.outvars, [*carry, *ys]),
        params=eqn.params | changed,
    )


def _keep(eqn: Eqn, separate: Separate) -> KeptInside | None:
    made = separate(eqn.params["jaxpr"])
    if not made.values:
        return None
    # Values of each step are stacked by the first scan, and scanned by the second.
    values = [Var(stacked(v.aval, eqn.params["length"])) for v in made.values]
    count = len(values)
    body = reordered(
        made.again, [*made.again.invars[count:], *made.again.invars[:count]], made.again.outvars
    )
    return KeptInside(
        eqn.replace(outvars=[*eqn.outvars, *values], params=eqn.params | {"jaxpr": made.now}),
        eqn.replace(invars=[*eqn.invars, *values], params=eqn.params | {"jaxpr": body}),
        values,
    )


def _work(avals, *, jaxpr: Graph, length: int, **_) -> float:
    return length * graph_work(jaxpr)


def _flow(eqn: Eqn) -> Loop:
    params = eqn.params
    start, count = params["num_consts"], params["num_carry"]
    return Loop(
        params["jaxpr"],
        consts=range(start),
        carry=range(start, start + count),
        xs=range(start + count, len(eqn.invars)),
        length=params["length"],
        reverse=params["reverse"],
    )


def _of_loop(eqn: Eqn, loop: Loop) -> Eqn:
    changed = {
        "jaxpr": loop.body,
        "num_consts": len(loop.consts),
        "num_carry": len(loop.carry),
    }
    return eqn.replace(params=eqn.params | changed)


scan_p = typed.TypedCall(
    "scan",
    Kind.CALL,
    retype=typed.scan,
    multiple_results=True,
    aval=_scan_aval,
    numpy_pick=lambda avals, **params: _assemble(avals, interpreted, **params),
    assemble=_assemble,
    flow=_flow,
    rewrite=Rewrite(loop=_of_loop),
    jvp=_scan_jvp,
    transpose=_scan_transpose,
    batch=_scan_batch,
    work=_work,
)
set_partial_rule(scan_p, _scan_partial)
set_narrow_rule(scan_p, _narrow)
set_keep_rule(scan_p, _keep)
