"""Transformed Graphs: the jvp, transpose and batched version of a Graph that a call holds.

Floor 3. In: a Graph and which inputs are concerned. Out: another Graph, made once and kept with the
first, so that a jitted function stays one unit under every transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.layout import Layout
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.primitives.linear import instantiate
from gpuarray.primitives.reshard import cotangent_aval
from gpuarray.transforms.batch import BatchAxis, batch_flat, matched
from gpuarray.transforms.jvp import jvp_flat
from gpuarray.transforms.references import Ref, strong_values, threaded, threading, write_back
from gpuarray.transforms.tracing import TracedFunction, stage_aux
from gpuarray.transforms.transpose import transpose_flat


class Derived(NamedTuple):
    """A transformed Graph, and a description of its outputs."""

    graph: Graph
    outputs: tuple


class Transposed(NamedTuple):
    """A transposed Graph, and a description of its outputs.

    Rules for cotangents may write to references: their values are the Graph's first inputs, and
    those that are written its first outputs.
    """

    graph: Graph
    outputs: tuple
    refs: tuple[Ref, ...]
    written: tuple[Ref, ...]

    def call(self, call: Callable[..., Sequence[Any]], *args: Any) -> Sequence[Any]:
        """Return `call(graph, args)`, without the references that it reads and writes."""
        out = call(self.graph, [*strong_values(self.refs), *args])
        count = len(self.written)
        write_back(self.written, out[:count])
        return out[count:]


def _staged(
    graph: Graph, fun: Callable, avals: Sequence[ShapedArray], purpose: str, threads: bool = False
) -> tuple[Graph, Any]:
    # The transformed Graph keeps the name of the function it comes from.
    made, beside = stage_aux(fun, avals, TracedFunction(fun, purpose), threads)
    made.debug_name = graph.debug_name
    return made, beside


def jvp_graph(graph: Graph, nonzero: tuple[bool, ...], all_out: bool = False) -> Derived:
    """Return the Graph (primals, nonzero tangents) -> (results, nonzero tangents of results).

    `nonzero` marks the inputs that have a tangent. `outputs` tells for each result whether its
    tangent is among the outputs; with `all_out` all of them are.
    """
    key = ("jvp", nonzero, all_out)
    if key not in graph.derived:
        count = len(graph.invars)

        def fun(*values):
            # Inputs without a tangent get a symbolic zero, so that nothing is computed for them.
            given = iter(values[count:])
            tangents = [
                next(given) if nz else Zero(tangent_aval(v.aval))
                for v, nz in zip(graph.invars, nonzero, strict=True)
            ]
            out, out_tangents = jvp_flat(lambda *xs: evaluate(graph, *xs), values[:count], tangents)
            # Loops need a tangent for all that they carry, zero or not.
            if all_out:
                out_tangents = [_real(t) for t in out_tangents]
            flags = tuple(not is_zero(t) for t in out_tangents)
            return [*out, *(t for t in out_tangents if not is_zero(t))], flags

        avals = [v.aval for v in graph.invars]
        avals += [tangent_aval(v.aval) for v, nz in zip(graph.invars, nonzero, strict=True) if nz]
        graph.derived[key] = Derived(*_staged(graph, fun, avals, "jvp"))
    return graph.derived[key]


# Make a symbolic zero an array, unless its dtype is float0.
def _real(t: Any) -> Any:
    from_zero = is_zero(t) and tangent_aval(t.aval).dtype == t.aval.dtype
    return instantiate(t) if from_zero else t


def transpose_graph(
    graph: Graph, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> Transposed:
    """Return the Graph (known inputs, nonzero cotangents) -> nonzero cotangents of linear inputs.

    `linear` marks the inputs it is linear in, `nonzero` the outputs that have a cotangent.
    `outputs` tells for each linear input whether its cotangent is among the outputs.
    """
    key = ("transpose", linear, nonzero)
    if key not in graph.derived:
        known = [v.aval for v, is_linear in zip(graph.invars, linear, strict=True) if not is_linear]

        def fun(*values):
            given = iter(values[len(known) :])
            cts = [
                next(given) if nz else Zero(cotangent_aval(v.aval))
                for v, nz in zip(graph.outvars, nonzero, strict=True)
            ]
            out = transpose_flat(graph, linear, values[: len(known)], cts)
            # Which results are zeros is found by tracing: they are no outputs of the Graph.
            flags = tuple(not is_zero(ct) for ct in out)
            return [ct for ct in out if not is_zero(ct)], flags

        cts = [cotangent_aval(v.aval) for v, nz in zip(graph.outvars, nonzero, strict=True) if nz]

        # Tried with no reference first, and again with each one that a rule turns out to access.
        def attempt(refs: list[Ref]) -> Transposed:
            def pure(*values):
                held, rest = values[: len(refs)], values[len(refs) :]
                new, (out, flags) = threaded(fun, refs)(held, *rest)
                changed = [a is not b for a, b in zip(new, held, strict=True)]
                written = tuple(ref for ref, c in zip(refs, changed, strict=True) if c)
                return [*(x for x, c in zip(new, changed, strict=True) if c), *out], (
                    flags,
                    written,
                )

            # A reference never holds a weakly typed value, and neither does its place among the
            # inputs.
            held = [ref.type.inner_aval.strip_weak_type() for ref in refs]
            made, beside = _staged(graph, pure, held + known + cts, "transpose", threads=True)
            flags, written = beside
            return Transposed(made, flags, tuple(refs), written)

        graph.derived[key] = threading(attempt)
    return graph.derived[key]


def batch_graph(
    graph: Graph,
    axis: BatchAxis,
    dims: tuple[int | None, ...],
    out_dims: tuple[int | None, ...] | None = None,
    layouts: tuple[Layout | None, ...] | None = None,
) -> Derived:
    """Return the Graph of a batch; `dims` gives the position of the batch axis in each input.

    `outputs` gives its position in the results. With `out_dims` they have it there (None: must not
    have it), which loops need for their carries. `layouts` are those of the batched inputs:
    equations that reshard keep the sharding of the batch axis.
    """
    key = ("batch", axis, dims, out_dims, layouts)
    if key not in graph.derived:

        def fun(*values):
            out, where = batch_flat(lambda *xs: evaluate(graph, *xs), axis, values, dims)
            # Unify the positions, as the caller requests.
            if out_dims is not None:
                out = [
                    matched(x, d, want, axis.size)
                    for x, d, want in zip(out, where, out_dims, strict=True)
                ]
                where = out_dims
            return out, tuple(where)

        # Avals with the batch axis put in.
        avals = [
            v.aval
            if d is None
            else v.aval.update(shape=(*v.aval.shape[:d], axis.size, *v.aval.shape[d:]))
            for v, d in zip(graph.invars, dims, strict=True)
        ]
        if layouts is not None:
            avals = [a.update(layout=s) for a, s in zip(avals, layouts, strict=True)]
        graph.derived[key] = Derived(*_staged(graph, fun, avals, "vmap"))
    return graph.derived[key]
