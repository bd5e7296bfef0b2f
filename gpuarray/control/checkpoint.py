"""`checkpoint` as a primitive: values of the forward pass are recomputed instead of kept.

Floor 4. In: a Graph, and a policy that says which of its values to keep. Out: the primitive. When
it is split into a known and an unknown part, only its inputs and the values kept by the policy pass
between them; the unknown part recomputes the rest when cotangents arrive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray import config
from gpuarray.compiler.rewrite.simplify import inline_calls
from gpuarray.control import typed
from gpuarray.control.call import jit_p
from gpuarray.control.callbacks import io_callback_p
from gpuarray.control.graph_edits import (
    chosen,
    cut,
    graph_work,
    lifted,
    merged,
    others,
    reordered,
    staged,
)
from gpuarray.control.keeping import separated
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn, Graph, Var, effectful, evaluate
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.memories import Space
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.transforms.batch import BatchAxis
from gpuarray.transforms.dead import narrow_call, set_narrow_rule, shortened
from gpuarray.transforms.graphs import batch_graph, jvp_graph, transpose_graph
from gpuarray.transforms.partial import PartialTrace, set_partial_rule, split_graph

_log = logging.getLogger("gpuarray")


def same_graph(eqn: Eqn) -> Graph:
    """The Graph of an operation that gives back its operand: `inline` of a mark."""
    # An empty Graph returns the value itself.
    v = Var(eqn.invars[0].aval)
    return Graph([v], [v], [])


#: A value with a name for policies. The name disappears when derivatives are taken.
name_p = Primitive(
    "name",
    Kind.CALL,
    aval=lambda x, *, name: x,
    jvp=lambda primals, tangents, *, name: (name_p.bind(*primals, name=name), *tangents),
    transpose=lambda ct, x, *, name: (ct,),
    batch=lambda axis, args, dims, *, name: (name_p.bind(*args, name=name), *dims),
    decompose=lambda x, *, name: x,
    inline=same_graph,
)


def _bind(args: Any, graph: Graph, params: dict, differentiated: bool | None = None) -> list:
    # Rules for derivatives may close over values that are being traced.
    graph, consts = lifted(graph)
    changed = params | {"jaxpr": graph}
    if differentiated is not None:
        changed["differentiated"] = differentiated
    return remat_p.bind(*consts, *args, **changed)


def _jvp(primals: list, tangents: list, *, jaxpr: Graph, **params) -> tuple[list, list]:
    nonzero = tuple(not is_zero(t) for t in tangents)
    derived = jvp_graph(jaxpr, nonzero)
    # Pass only tangents that are not zero; only those return.
    given = [*primals, *chosen(tangents, nonzero)]
    out, found = cut(_bind(given, derived.graph, params), len(jaxpr.outvars))
    none = [Zero(tangent_aval(aval_of(x))) for x in others(out, derived.outputs)]
    return out, merged(derived.outputs, found, none)


def _transpose(cts: list, *operands, jaxpr: Graph, **params) -> list:
    linear = tuple(is_undefined(x) for x in operands)
    nonzero = tuple(not is_zero(ct) for ct in cts)
    derived = transpose_graph(jaxpr, linear, nonzero)
    known = others(operands, linear)
    # Recomputation happens in the transposed Graph: it must not be inlined (see `_inline`).
    call = lambda graph, args: _bind(args, graph, params, differentiated=True)
    found = derived.call(call, *known, *chosen(cts, nonzero))
    zeros = [Zero(x.aval) for x in others(chosen(operands, linear), derived.outputs)]
    return merged(linear, merged(derived.outputs, found, zeros), [None] * len(known))


def _batch(axis: BatchAxis, args: list, dims: list, *, jaxpr: Graph, **params):
    layouts = tuple(aval_of(x).layout for x in args)
    derived = batch_graph(jaxpr, axis, tuple(dims), layouts=layouts)
    return _bind(args, derived.graph, params), list(derived.outputs)


# ---- partial evaluation: known now, recomputed later ----


class _Cut(NamedTuple):
    """A checkpointed Graph in two parts.

    `now` returns its outputs and then the saved values; `later` takes the known inputs that it
    reads (`reads`), the saved values, and the unknown inputs.
    """

    now: Graph
    later: Graph
    reads: list[bool]
    saved: int
    out_unknown: list[bool]
    note: str  # the residuals, for the log


def _partial(trace: PartialTrace, args: tuple, flags: list[bool], params: dict) -> list:
    made = _cut(params["jaxpr"], tuple(flags), params["policy"])
    level = logging.WARNING if config.state.log_checkpoint_residuals else logging.DEBUG
    _log.log(level, "%s", made.note)
    known_args = others(args, flags)
    assert trace.parent is not None
    with traces.current(trace.parent):
        # Evaluated rather than bound as a checkpoint: it is not recomputed again.
        known = evaluate(made.now, *known_args)
    # The saved values come after the known results.
    known, saved = cut(known, len(known) - made.saved)
    given = (*chosen(known_args, made.reads), *saved, *chosen(args, flags))
    rest = trace.unknown.process(
        remat_p, given, params | {"jaxpr": made.later, "differentiated": True}
    )
    return merged(made.out_unknown, rest, known)


def _cut(graph: Graph, unknown: tuple[bool, ...], policy: Any) -> _Cut:
    key = ("remat", unknown, policy)
    if key not in graph.derived:
        graph.derived[key] = _made(graph, unknown, policy)
    return graph.derived[key]


def _made(graph: Graph, unknown: tuple[bool, ...], policy: Any) -> _Cut:
    # First split by dependence alone, as without a checkpoint.
    split = split_graph(graph, unknown)
    if any(e.primitive is io_callback_p for eqn in split.known.eqns for e in effectful(eqn)):
        raise NotImplementedError(
            "Effects not supported in partial-eval of `checkpoint`/`remat`: io_callback would run "
            "a second time for the derivative. Call it outside of the checkpointed function."
        )
    # Policies look at operations, so calls are inlined; except calls with their own rules, which
    # the next derivative needs.
    flat = lambda g: inline_calls(g, only=(jit_p, remat_p))
    made = separated(split.known, lambda eqn: _keeps(policy, eqn), flat)
    count = len(split.known.outvars) - split.residuals
    # Recompute the residuals from known inputs and kept values: as many of either as that reads.
    wanted = [False] * count + [True] * split.residuals
    recompute, read = shortened(made.again, wanted)
    kept_read, reads = cut(read, len(made.values))
    saved = chosen(made.values, kept_read)
    inputs = [*chosen(recompute.invars[len(made.values) :], reads), *saved]
    recompute = reordered(recompute, inputs, recompute.outvars)
    # Now: the known results, and the kept values that are read later.
    results = [True] * count + [False] * split.residuals + kept_read
    now = shortened(made.now, results)[0]

    # The later part: recompute the residuals, then run the unknown half on them.
    def fun(*values):
        given, later = cut(values, len(inputs))
        return evaluate(split.unknown, *evaluate(recompute, *given), *later)

    avals = [v.aval for v in (*inputs, *chosen(graph.invars, unknown))]
    later = staged(fun, avals, "checkpoint", graph.debug_name)
    note = _note(inputs[: len(inputs) - len(saved)], now, len(saved))
    return _Cut(now, later, reads, len(saved), list(split.out_unknown), note)


def _note(inputs: list[Var], now: Graph, saved: int) -> str:
    """The residuals of a checkpointed function: inputs, and values with the operations that make
    them.
    """
    text = lambda v: v.aval.str_short(short_dtypes=True)
    made_by = {v: e for e in now.eqns for v in e.outvars}
    lines = []
    if inputs:
        lines += ["remat-decorated function saving inputs with shapes:"]
        lines += [f"  {text(v)}" for v in inputs]
    if saved:
        first = "and" if inputs else "remat-decorated function"
        lines += [f"{first} saving these intermediates:"]
        for v in now.outvars[-saved:]:
            made = made_by.get(v) if isinstance(v, Var) else None
            source = "an input" if made is None else f"{made.primitive.name} from {made.site}"
            lines += [f"  {text(v)} {source}"]
    return "\n".join(lines)


class PolicyAnswer:
    """A policy's answer with a name, usable as a bool; `space` is where the value is kept."""

    def __init__(self, name: str, keep: bool, space: Space = Space.Device):
        self.name, self.keep, self.space = name, keep, space

    def __bool__(self) -> bool:
        return self.keep

    def __repr__(self) -> str:
        return self.name


def _keeps(policy: Callable | None, eqn: Eqn) -> Space | None:
    """Return the memory in which a policy keeps the results of an equation, or a value inside a
    call.

    None for results that it does not keep.
    """
    if policy is None:
        return None
    if decision := policy(eqn.primitive, *(a.aval for a in eqn.invars), **eqn.params):
        return decision.space if isinstance(decision, PolicyAnswer) else Space.Device
    # A call is judged by the equations inside it.
    inner = None if eqn.primitive.inline is None else eqn.primitive.inline(eqn)
    if inner is None:
        return None
    made_by = {v: e for e in inner.eqns for v in e.outvars}
    # Only equations that make results of the call matter.
    found = (_keeps(policy, made_by[v]) for v in inner.outvars if v in made_by)
    return next((space for space in found if space is not None), None)


# ---- the primitive ----


def _inline(eqn: Eqn) -> Graph | None:
    """Keep a recomputation as a separate step: merged with the first computation it would save
    nothing.
    """
    cse = eqn.params["prevent_cse"]
    apart = eqn.params["differentiated"] and (cse if isinstance(cse, bool) else any(cse))
    return None if apart else eqn.params["jaxpr"]


remat_p = typed.TypedCall(
    "remat2",
    Kind.CALL,
    retype=typed.once,
    multiple_results=True,
    aval=lambda *avals, jaxpr, **_: jaxpr.out_avals,
    assemble=lambda avals, compile, *, jaxpr, **_: compile(jaxpr),
    decompose=lambda *args, jaxpr, **_: evaluate(jaxpr, *args),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    inline=_inline,
    work=lambda avals, *, jaxpr, **_: graph_work(jaxpr),
)
set_partial_rule(remat_p, _partial)
set_narrow_rule(remat_p, lambda eqn, used: narrow_call(eqn, used, "prevent_cse"))
