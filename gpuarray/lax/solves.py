"""Roots and linear systems, differentiated through the equation they solve.

Floor 6. In: functions that define a solution, and solvers. Out: solutions with derivatives of any
order, forward and reverse, however many steps the solver takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray import util
from gpuarray.control.custom_jvp import custom_jvp_call_p
from gpuarray.control.graph_edits import cut, transpose_filled
from gpuarray.control.linear_solve import System, linear_solve_p
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.tracebacks import boundary
from gpuarray.lax.bodies import Body, check_operands, stage_body
from gpuarray.lax.elementwise import neg
from gpuarray.primitives.linear import instantiate, zeros
from gpuarray.pytree import tree
from gpuarray.transforms.jvp import jvp_flat
from gpuarray.transforms.linearize import linearize_flat


def _function(graph: Graph, consts: list, spec: Any) -> Callable[[Any], Any]:
    """A Graph as a function from a pytree to another of the same structure."""

    def fun(x: Any) -> Any:
        return tree.unflatten(spec, evaluate(graph, *consts, *tree.flatten(x)[0]))

    return fun


def _check_structure(what: str, found: Any, other: str, expected: Any) -> None:
    if found != expected:
        raise TypeError(
            f"{what}() output pytree structure must match {other}, got {found} and {expected}."
        )


def _check_shapes(what: str, found: list, other: str, expected: list) -> None:
    found, expected = [a.shape for a in found], [a.shape for a in expected]
    if found != expected:
        raise ValueError(f"{what}() output shapes must match {other}, got {found} and {expected}")


@boundary
def custom_linear_solve(
    matvec: Callable,
    b: Any,
    solve: Callable[[Callable, Any], Any],
    transpose_solve: Callable[[Callable, Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x with `matvec(x) == b`, found by `solve(matvec, b)`; derivatives solve such systems too.

    x has the structure, shapes and dtypes of `b`. Reverse mode needs `transpose_solve(vecmat, b)`,
    or `symmetric=True`. has_aux: solvers return (x, anything), and so does this.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> def halve(a):
    ...     solve = lambda matvec, b: b / matvec(1.0)
    ...     return lax.custom_linear_solve(lambda x: a * x, 6.0, solve, symmetric=True)
    >>> halve(2.0), ga.grad(halve)(2.0)
    (Array(3., dtype=float32, weak_type=True), Array(-1.5, dtype=float32, weak_type=True))
    """
    if transpose_solve is not None and not callable(transpose_solve):
        raise util.wrong_type(transpose_solve, "a function (vecmat, b) or None")
    # A symmetric function is its own transpose.
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    right, spec = tree.flatten(b)
    right = check_operands(right)
    avals = [aval_of(x) for x in right]
    args_spec = tree.treedef_tuple([spec])
    # Both functions are traced here: matvec, and the solver, which gets it by closure.
    forward = stage_body(matvec, "custom_linear_solve", args_spec, avals)
    _check_structure("matvec", forward.out_spec, "b", spec)
    _check_shapes("matvec", forward.graph.out_avals, "b", avals)
    solver = stage_body(lambda b: solve(matvec, b), "custom_linear_solve", args_spec, avals, solve)
    _check_solver(solver, spec, avals, has_aux)
    consts = System(forward.graph.consts, [], solver.graph.consts, [])
    graphs = System(forward.opened, None, solver.opened, None)
    # Without it the primitive has forward derivatives only.
    if transpose_solve is not None:
        graph = forward.opened
        if not symmetric:
            count = len(forward.graph.consts)
            linear = (False,) * count + (True,) * len(right)
            # The transpose of matvec, linear in all of its inputs but its constants.
            graph = transpose_filled(graph, linear, (True,) * len(right))
        vecmat = matvec if symmetric else _function(graph, forward.graph.consts, spec)
        backward = stage_body(
            lambda b: transpose_solve(vecmat, b),
            "custom_linear_solve",
            args_spec,
            avals,
            transpose_solve,
        )
        _check_solver(backward, spec, avals, has_aux, "transpose_solve")
        # Two graphs of matvec's, since they have the same constants: forward and transposed.
        consts = System(consts.matvec, consts.matvec, consts.solve, backward.graph.consts)
        graphs = System(graphs.matvec, graph, graphs.solve, backward.opened)
    # Constants in four groups, by the function that they belong to, then the right-hand side.
    out = linear_solve_p.bind(
        *(c for group in consts for c in group),
        *right,
        const_lengths=System(*map(len, consts)),
        jaxprs=graphs,
    )
    return tree.unflatten(solver.out_spec, out)


def _check_solver(
    body: Body, spec: Any, avals: list, has_aux: bool, what: str = "solve", other: str = "b"
) -> None:
    found = body.out_spec
    if has_aux:
        # Only x is compared with b; aux may have any structure.
        pair = tree.treedef_children(found)
        if len(pair) != 2:
            raise TypeError(f"{what}() must return a pair (x, aux) with has_aux=True, got {found}")
        found = pair[0]
    _check_structure(what, found, other, spec)
    _check_shapes(what, body.graph.out_avals[: len(avals)], other, avals)


@boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable, Any], Any],
    tangent_solve: Callable[[Callable, Any], Any],
    has_aux: bool = False,
) -> Any:
    """The x with `f(x) == 0`, found by `solve(f, guess)`; differentiable in what f closes over.

    x and f(x) have the structure, shapes and dtypes of the guess. `tangent_solve(g, y)` solves g(x)
    == y for a linear g; for scalars it is `lambda g, y: y / g(1.0)`. has_aux: solve returns (x,
    anything).

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray import lax
    >>> def root(y):
    ...     newton = lambda f, x: lax.fori_loop(0, 20, lambda _, x: x - f(x) / (2 * x), x)
    ...     return lax.custom_root(lambda x: x * x - y, 1.0, newton, lambda g, y: y / g(1.0))
    >>> root(4.0), ga.grad(root)(4.0)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    guess, spec = tree.flatten(initial_guess)
    guess = check_operands(guess)
    avals = [aval_of(x) for x in guess]
    one = tree.treedef_tuple([spec])
    function = stage_body(f, "custom_root", one, avals)
    _check_structure("f", function.out_spec, "initial_guess", spec)
    graph, f_consts = function.opened, function.graph.consts
    known = len(f_consts)
    const_avals = [aval_of(c) for c in f_consts]
    # Any pytree with as many leaves would do: constants are passed as a list.
    of_consts = tree.structure([0] * known)

    # All functions take the values that f closes over as arguments: derivatives are with respect to
    # those.
    solver = stage_body(
        lambda consts, x: solve(_function(graph, consts, spec), x),
        "custom_root",
        tree.treedef_tuple([of_consts, spec]),
        [*const_avals, *avals],
        solve,
    )
    _check_solver(solver, spec, avals, has_aux, other="initial_guess")

    def solve_linear(consts, x, y):
        # f linearized at the solution: only inputs that move take part, outputs may be constant.
        lin = linearize_flat(lambda *xs: evaluate(graph, *consts, *xs), tree.flatten(x)[0])

        def linear(v):
            given = [t for t, has in zip(tree.flatten(v)[0], lin.in_linear, strict=True) if has]
            found = iter(evaluate(lin.graph, *given))
            return tree.unflatten(
                spec,
                [
                    next(found) if has else zeros(aval)
                    for has, aval in zip(lin.out_linear, avals, strict=True)
                ],
            )

        return tangent_solve(linear, y)

    tangents = stage_body(
        solve_linear,
        "custom_root",
        tree.treedef_tuple([of_consts, spec, spec]),
        [*const_avals, *avals, *avals],
        tangent_solve,
    )
    _check_structure("tangent_solve", tangents.out_spec, "x", spec)
    sizes = known, len(solver.graph.consts), len(tangents.graph.consts)

    # The primitive's function: the solver alone.
    def run(*values):
        # Constants of f, of the solver and of the tangent solver, then the guess.
        consts, s_consts, _, x = cut(values, *sizes)
        return evaluate(solver.opened, *s_consts, *consts, *x)

    # The implicit function theorem: f_x dx = -f_c dc, with c all that f closes over.
    def rule(primals, primal_tangents):
        consts, _, t_consts, _ = cut(primals, *sizes)
        out = bind(primals)
        # The rest of the results is aux.
        x = out[: len(guess)]
        none = [Zero(tangent_aval(aval_of(v))) for v in out]
        _, shifts = jvp_flat(lambda *c: evaluate(graph, *c, *x), consts, primal_tangents[:known])
        # No tangent reaches f: the root does not move.
        if all(is_zero(s) for s in shifts):
            return out, none
        right = [instantiate(s) for s in shifts]
        dx = evaluate(tangents.opened, *t_consts, *consts, *x, *right)
        # aux gets no tangent.
        return out, [*map(neg, dx), *none[len(guess) :]]

    def bind(values):
        return custom_jvp_call_p.bind(
            *values,
            name="_custom_root",
            call_jaxpr=run,
            jvp=rule,
            num_consts=0,
            symbolic_zeros=False,
        )

    rule.__name__ = "_root_jvp"
    out = bind([*f_consts, *solver.graph.consts, *tangents.graph.consts, *guess])
    return tree.unflatten(solver.out_spec, out)
