"""`custom_linear_solve` as a primitive: a linear system, solved by any method.

Floor 4. In: Graphs for A x, for the transpose of A times x, and for solutions with both; a
right-hand side. Out: the solution, and further results of `solve`. Derivatives come from the
system, not from the steps of the solver: A dx = db - dA x, and the transpose of a solution is a
solution with the transpose of A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray.control.graph_edits import check_operands, cut, graph_work, interpreted, reordered
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Eqn, Graph, Var, evaluate
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.define import do
from gpuarray.primitives.linear import add_any, instantiate
from gpuarray.transforms.batch import BatchAxis, matched
from gpuarray.transforms.graphs import batch_graph
from gpuarray.transforms.jvp import jvp_flat


class System(NamedTuple):
    """A value for each of the four functions; transposition swaps them in pairs."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> System:
        return System(self.vecmat, self.matvec, self.transpose_solve, self.solve)


class _Shown:
    def __init__(self, system: System):
        self.system = system

    def __str__(self) -> str:
        parts = ", ".join(f"{k}={v}" for k, v in self.system._asdict().items())
        return f"_LinearSolveTuple({parts})"


def _show(params: dict) -> dict:
    return {k: _Shown(v) for k, v in params.items()}


def _aval(*avals, const_lengths: System, jaxprs: System):
    # Operands are the constants of the four functions, then the right-hand side.
    consts = cut(avals, *const_lengths)
    check_operands("custom_linear_solve", [*consts[2], *consts[4]], jaxprs.solve.in_avals)
    return jaxprs.solve.out_avals


def _assemble(avals, compile: Callable, *, const_lengths: System, jaxprs: System):
    # Only `solve` runs: it takes its own constants and the right-hand side.
    solve = compile(jaxprs.solve)
    start = const_lengths.matvec + const_lengths.vecmat
    stop = start + const_lengths.solve
    b = stop + const_lengths.transpose_solve
    return lambda *args: solve(*args[start:stop], *args[b:])


def _solving(eqn: Eqn) -> Graph:
    """Return `solve` as a Graph of all operands of an equation, most of which it ignores."""
    # Made once for each set of lengths, as other equations may hold the same Graph.
    lengths, solve = eqn.params["const_lengths"], eqn.params["jaxprs"].solve
    start = lengths.matvec + lengths.vecmat
    known = solve.derived.get("solving")
    if known is None or known[0] != lengths:
        # Ignored inputs are new variables; its own are placed at the positions of their operands.
        inputs = [Var(v.aval) for v in eqn.invars]
        inputs[start : start + lengths.solve] = solve.invars[: lengths.solve]
        inputs[start + lengths.solve + lengths.transpose_solve :] = solve.invars[lengths.solve :]
        solve.derived["solving"] = known = lengths, reordered(solve, inputs, solve.outvars)
    return known[1]


def _jvp(primals: list, tangents: list, *, const_lengths: System, jaxprs: System):
    consts, d_consts = cut(primals, *const_lengths), cut(tangents, *const_lengths)
    out = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    size = len(jaxprs.matvec.outvars)
    x, right = out[:size], d_consts[4]
    # dA x, by differentiating x -> A x with respect to its constants.
    if not all(is_zero(d) for d in d_consts[0]):
        _, shifts = jvp_flat(lambda *c: evaluate(jaxprs.matvec, *c, *x), consts[0], d_consts[0])
        right = [
            d if is_zero(s) else add_any(d, do.neg(s)) for d, s in zip(right, shifts, strict=True)
        ]
    none = [Zero(tangent_aval(aval_of(v))) for v in out]
    # Neither A nor b has a tangent.
    if all(is_zero(d) for d in right):
        return out, none
    # Only the solution has a derivative; further results of the solver have none.
    solve = reordered(jaxprs.solve, jaxprs.solve.invars, jaxprs.solve.outvars[:size])
    dx = linear_solve_p.bind(
        *(c for group in consts[:4] for c in group),
        *(instantiate(d) for d in right),
        const_lengths=const_lengths,
        jaxprs=jaxprs._replace(solve=solve),
    )
    return out, [*dx, *none[size:]]


def _transpose(cts: list, *operands, const_lengths: System, jaxprs: System) -> list:
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve: give transpose_solve=..., or symmetric=True if A is"
        )
    matvec, vecmat, solve, transpose_solve, b = cut(operands, *const_lengths)
    # The transposed system, with constants of the functions swapped accordingly.
    found = linear_solve_p.bind(
        *vecmat,
        *matvec,
        *transpose_solve,
        *solve,
        *(instantiate(ct) for ct in cts[: len(b)]),
        const_lengths=const_lengths.transposed(),
        jaxprs=jaxprs.transposed(),
    )
    # Constants get no cotangent: the solution is linear in the right-hand side alone.
    return [None] * sum(const_lengths) + found[: len(b)]


def _batch(axis: BatchAxis, args: list, dims: list, *, const_lengths: System, jaxprs: System):
    # Inside the graphs every mapped value has the axis in front.
    groups = cut((None if d is None else 0 for d in dims), *const_lengths)
    size = len(groups[4])

    def batched(graph: Graph | None, consts: list) -> Graph | None:
        if graph is None:
            return None
        # Vectors always have the axis; constants where they are batched.
        inside = (*consts, *(0,) * size)
        return batch_graph(graph, axis, inside, (0,) * len(graph.outvars)).graph

    made = System(*map(batched, jaxprs, groups[:4]))
    wanted = [d for group in groups[:4] for d in group] + [0] * size
    out = linear_solve_p.bind(
        *(matched(x, d, w, axis.size) for x, d, w in zip(args, dims, wanted, strict=True)),
        const_lengths=const_lengths,
        jaxprs=made,
    )
    return out, [0] * len(out)


linear_solve_p = Primitive(
    "custom_linear_solve",
    Kind.CALL,
    multiple_results=True,
    aval=_aval,
    numpy_pick=lambda avals, **params: _assemble(avals, interpreted, **params),
    assemble=_assemble,
    inline=_solving,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    show=_show,
    work=lambda avals, *, jaxprs, **_: graph_work(jaxprs.solve),
)
