"""Batching: values may have one more axis, which each primitive's batch rule handles.

Floor 3. In: a function of flat values, and the position of each value's batch axis. Out: its
results, with theirs. It nests for any number of axes; collectives inside can reduce over a named
one.

A primitive's batch rule is

    f(axis, args, dims, **params) -> (out, out_dim)

with lists of both for several results. `axis` is a BatchAxis; a dim is None where an operand has no
batch axis. Pointwise operations and reductions need no rule: it follows from their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, graphs_in
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import add_axis, move_axis
from gpuarray.primitives.batching import BatchAxis as BatchAxis
from gpuarray.primitives.batching import batch_of as batch_of
from gpuarray.transforms.leaks import check_leaks


class BatchTracer(traces.Tracer):
    """A value with a batch axis at `dim`; its aval is that of one element."""

    __slots__ = ("dim", "value")

    def __init__(self, trace: BatchTrace, value: Any, dim: int):
        self._trace = trace
        self.value = value
        self.dim = dim
        full = aval_of(value)
        shape = full.shape[:dim] + full.shape[dim + 1 :]
        # The function sees one element: its shape lacks the batch axis.
        self.aval = ShapedArray(
            shape, full.dtype, full.weak_type, full.layout and full.layout.without_axis(dim)
        )

    def origin(self) -> str:
        # The innermost origin is the one the user can see: vmap itself does not lose values.
        if isinstance(self.value, traces.Tracer):
            return self.value.origin()
        return (
            f"This BatchTracer with object id {id(self)} stands for each element along axis "
            f"{self.dim} of {aval_of(self.value).str_short()}, over which vmap maps the function."
        )

    def __repr__(self) -> str:
        full = aval_of(self.value).str_short()
        return f"VmapTracer(aval={self.aval.str_short()}, batched={full})"


class BatchTrace(traces.Trace):
    """Applies batch rules in the trace it was opened in."""

    transform = "vmap"

    def __init__(self, parent: traces.Trace, axis: BatchAxis):
        self.parent = parent
        self.axis = axis

    def split(self, x: Any) -> tuple[Any, int | None]:
        """Return a value and the position of its batch axis; constants have none."""
        # A tracer of another batching trace is a constant to this one.
        if type(x) is BatchTracer and x._trace is self:
            return x.value, x.dim
        return x, None

    def box(self, value: Any, dim: int | None) -> Any:
        # Results without a batch axis leave the trace: they need no further batching.
        return value if dim is None else BatchTracer(self, value, dim)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        pairs = [self.split(a) for a in traces.same_widths(args)]
        values = [v for v, _ in pairs]
        dims = [d for _, d in pairs]
        assert self.parent is not None
        # Rules bind in the outer trace, which may be another batching one.
        with traces.current(self.parent):
            # A collective along this axis acts on unbatched values too.
            if all(d is None for d in dims) and not names_axis(prim, params, self.axis.name):
                return prim.bind(*values, **params)
            out, out_dims = batch_of(prim, self.axis, values, dims, params)
        if prim.multiple_results:
            return [self.box(v, d) for v, d in zip(out, out_dims, strict=True)]
        return self.box(out, out_dims)


def names_axis(prim: Primitive, params: dict, name: Any) -> bool:
    """Whether an operation, or one in a Graph it holds, is a collective along this axis."""
    if name is None:
        return False
    if prim.kind is Kind.COLLECTIVE:
        axes = params.get("axes", params.get("axis_name", ()))
        return name in (axes if isinstance(axes, (tuple, list)) else (axes,))
    return prim.kind is Kind.CALL and any(_graph_names(g, name) for g in graphs_in(params))


def _graph_names(graph: Graph, name: Any) -> bool:
    # Computed once for each Graph and name.
    key = ("names axis", name)
    if key not in graph.derived:
        graph.derived[key] = any(names_axis(e.primitive, e.params, name) for e in graph.eqns)
    return graph.derived[key]


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    axis: BatchAxis,
    values: Sequence[Any],
    dims: Sequence[int | None],
) -> tuple[list, list[int | None]]:
    """Run a flat function on values with a batch axis; return results and where theirs is."""
    return batch_aux(lambda *boxed: (fun(*boxed), None), axis, values, dims)[:2]


def batch_aux(
    fun: Callable[..., tuple[Sequence[Any], Any]],
    axis: BatchAxis,
    values: Sequence[Any],
    dims: Sequence[int | None],
) -> tuple[list, list[int | None], Any]:
    """`batch` for a function that also returns auxiliary output after its flat results."""
    outer = traces.state.trace
    trace = BatchTrace(outer, axis)
    boxed = [
        v if d is None else trace.box(traces.immutable(v), d)
        for v, d in zip(values, dims, strict=True)
    ]
    try:
        with traces.current(trace), axis.known():
            outputs, aux = fun(*boxed)
    finally:
        # An interrupt can come before the context manager has left.
        traces.state.trace = outer
        trace.alive = False
    # Outputs that another trace made, or constants, have no batch axis.
    pairs = [trace.split(traces.immutable(x)) for x in outputs]
    del boxed, outputs
    check_leaks(trace, "BatchTrace of vmap")
    return [v for v, _ in pairs], [d for _, d in pairs], aux


def matched(value: Any, dim: int | None, want: int | None, size: int) -> Any:
    """Move the batch axis of a value to `want`, or repeat a value along it if it has none."""
    if want is None:
        return value
    if dim is None:
        return add_axis(value, want, size)
    return move_axis(value, dim, want)
