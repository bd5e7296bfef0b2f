"""Functions with a custom batching rule, as a primitive that holds the function and its rule.

Floor 4. In: a Graph and a flat rule, `rule(size, batched, values) -> (values, batched)`, in which
batched values have their batch axis in front. Out: the primitive. Its forward derivative has a rule
which is the derivative of the rule; reverse mode differentiates the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.control.graph_edits import chosen, cut, merged, others
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import add_axis, move_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import instantiate
from gpuarray.transforms.batch import BatchAxis, batch_flat
from gpuarray.transforms.graphs import jvp_graph
from gpuarray.transforms.jvp import jvp_aux, jvp_flat
from gpuarray.transforms.partial import PartialTrace, set_partial_rule
from gpuarray.transforms.transpose import transpose_flat


class FlatRule:
    """A rule on flat values that prints as the user's rule."""

    def __init__(self, shown: Any, function: Callable[..., tuple[list, list]]):
        self.shown, self.function = shown, function

    def __call__(self, size: int, batched: Sequence[bool], values: Sequence) -> tuple[list, list]:
        return self.function(size, batched, values)

    def __str__(self) -> str:
        return str(self.shown)


def _jvp(primals: list, tangents: list, *, call: Graph, rule: FlatRule, **params):
    nonzero = tuple(not is_zero(t) for t in tangents)
    made = jvp_graph(call, nonzero)
    new = FlatRule(rule.shown, _rule_of_jvp(rule, call, nonzero, made.outputs))
    given = [*primals, *chosen(tangents, nonzero)]
    found = custom_vmap_call_p.bind(*given, call=made.graph, rule=new, **params)
    out, out_tangents = cut(found, len(call.outvars))
    none = [Zero(tangent_aval(aval_of(x))) for x in others(out, made.outputs)]
    return out, merged(made.outputs, out_tangents, none)


# The batching rule of the jvp: the jvp of the user's rule.
def _rule_of_jvp(rule: FlatRule, call: Graph, nonzero: tuple, wanted: tuple) -> Callable:
    count, ranks = len(call.invars), [v.aval.ndim for v in call.outvars]

    def batched_jvp(size, batched, values):
        primals, given = cut(values, count)
        is_batched, given_batched = cut(batched, count)
        tangents = merged(nonzero, given, [None] * (count - len(given)))
        tangent_batched = merged(nonzero, given_batched, [False] * (count - len(given)))
        # Operands of which only the primal, or only the tangent, is batched.
        alone = [n and p != t for n, p, t in zip(nonzero, is_batched, tangent_batched, strict=True)]
        both = [p and not a for p, a in zip(is_batched, alone, strict=True)]
        if any(alone) and not any(both):
            return _each(rule, size, primals, tangents, is_batched, tangent_batched, wanted, ranks)
        # A primal and its tangent have the same type: if one is batched, so is the other.
        joint = [a or b for a, b in zip(is_batched, tangent_batched, strict=True)]
        primals = [
            add_axis(x, 0, size) if j and not b else x
            for x, j, b in zip(primals, joint, is_batched, strict=True)
        ]
        full = []
        for x, t, j, b in zip(primals, tangents, joint, tangent_batched, strict=True):
            if t is None:
                full.append(Zero(tangent_aval(aval_of(x))))
            else:
                full.append(add_axis(t, 0, size) if j and not b else t)
        out, out_tangents, out_batched = jvp_aux(lambda *xs: rule(size, joint, xs), primals, full)
        # Tangents are batched as their primals are.
        real = [instantiate(t) for t in chosen(out_tangents, wanted)]
        return [*out, *real], [*out_batched, *chosen(out_batched, wanted)]

    return batched_jvp


def _first(x: Any) -> Any:
    """The first element along the first axis."""
    (row, *_) = do.unstack(x, axis=0)
    return row


def _each(
    rule: FlatRule,
    size: int,
    primals: list,
    tangents: list,
    batched: Sequence[bool],
    tangent_batched: Sequence[bool],
    wanted: Sequence[bool],
    ranks: Sequence[int],
) -> tuple[list, list]:
    """The jvp of a rule where no primal is batched together with its tangent.

    The rule receives values of one element without a batch axis, since the mapped function of
    primals and tangents is the derivative of the function that the rule belongs to.
    """

    def element(*values):
        def fun(*xs):
            out, _ = rule(size, [False] * len(xs), xs)
            # All elements are equal: the rule got no batched value.
            return [
                _first(x) if aval_of(x).ndim > n else x for x, n in zip(out, ranks, strict=True)
            ]

        given = iter(values[len(primals) :])
        zero = lambda p: Zero(tangent_aval(aval_of(p)))
        full = [
            zero(p) if t is None else next(given) for p, t in zip(primals, tangents, strict=True)
        ]
        out, out_tangents = jvp_flat(fun, values[: len(primals)], full)
        return [*out, *(instantiate(t) for t in chosen(out_tangents, wanted))]

    present = [t is not None for t in tangents]
    dims = [0 if b else None for b in (*batched, *chosen(tangent_batched, present))]
    out, out_dims = batch_flat(
        element, BatchAxis(size), [*primals, *chosen(tangents, present)], dims
    )
    moved = [x if d is None else move_axis(x, d, 0) for x, d in zip(out, out_dims, strict=True)]
    return moved, [d is not None for d in out_dims]


def _batch(axis: BatchAxis, args: list, dims: list, *, call: Graph, rule: FlatRule, **_):
    # The rule is promised the batch axis in front.
    values = [x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims, strict=True)]
    out, batched = rule(axis.size, [d is not None for d in dims], values)
    # A rule is the user's: its answer is checked.
    for x, b, v in zip(out, batched, call.outvars, strict=True):
        want = (axis.size, *v.aval.shape) if b else v.aval.shape
        if aval_of(x).shape != want:
            raise ValueError(
                f"the custom vmap rule {rule} returned an array of shape {aval_of(x).shape} for an "
                f"output that it says is {'' if b else 'not '}batched: expected {want}"
            )
    return out, [0 if b else None for b in batched]


# Split for reverse mode: the function's own operations, without the rule.
def _partial(trace: PartialTrace, args: tuple, flags: list[bool], params: dict) -> list:
    with traces.current(trace):
        return evaluate(params["call"], *args)


def _transpose(cts: list, *operands, call: Graph, **_) -> list:
    linear = [is_undefined(x) for x in operands]
    known = others(operands, linear)
    return merged(linear, transpose_flat(call, linear, known, cts), [None] * len(known))


custom_vmap_call_p = Primitive(
    "custom_vmap_call",
    Kind.CALL,
    multiple_results=True,
    aval=lambda *avals, call, **_: call.out_avals,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    decompose=lambda *args, call, **_: evaluate(call, *args),
    inline=lambda eqn: eqn.params["call"],
)
set_partial_rule(custom_vmap_call_p, _partial)
