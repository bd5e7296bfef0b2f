"""Forward mode: `jvp` and `linearize`.

Floor 6. In: functions of pytrees. Out: directional derivatives of their results, to any order and
in any composition with `jit` and `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray.api.derivatives import (
    FlatFunction,
    LikePartial,
    aval_of_tangent,
    check_callable,
    check_tangent,
    check_varies_alike,
    real_array,
)
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.core.trace import immutable
from gpuarray.core.tracebacks import boundary
from gpuarray.functions.stages import struct_of
from gpuarray.pytree import tree
from gpuarray.pytree.registration import Partial
from gpuarray.transforms.dead import without_dead
from gpuarray.transforms.jvp import jvp_flat
from gpuarray.transforms.linearize import linearize_flat


@boundary
def jvp(
    fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The result of `fun(*primals)` and its directional derivative along `tangents`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jvp(gnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}."
        )
    flat = FlatFunction(fun, tuple(primals), has_aux=has_aux)
    tangent_leaves, spec = tree.flatten(tangents)
    given = tree.tree_structure(primals)
    # Structures first, then each leaf's shape and dtype.
    if spec != given:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals "
            f"have tree structure {given} whereas tangents have tree structure {spec}."
        )
    checked = [
        check_tangent(p, immutable(t)) for p, t in zip(flat.leaves, tangent_leaves, strict=True)
    ]
    # Primals and tangents go through the function side by side.
    out, out_tangents = jvp_flat(flat, flat.leaves, checked)
    given = {id(t) for t in checked}  # a tangent that is returned unchanged keeps its identity
    real = [t if id(t) in given and not is_zero(t) else real_array(t) for t in out_tangents]
    result = flat.result(out), flat.result(real)
    return (*result, flat.aux) if has_aux else result


@boundary
def linearize(fun: Callable, *primals, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of `fun(*primals)`, and the linear function that is its derivative there.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> y, f_jvp = ga.linearize(gnp.sin, 0.0)
    >>> f_jvp(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    flat = FlatFunction(fun, primals, has_aux=has_aux)
    # One run of the function records the tangents as a linear graph; `f_jvp` only evaluates it.
    lin = linearize_flat(flat, flat.leaves)
    # Remove equations that no result depends on.
    graph = without_dead(lin.graph)
    # The values it keeps are the leaves of a pytree, and the rest is alike for equal programs.
    consts = graph.consts
    about = _LinearMap(
        tuple(lin.in_linear),
        tuple(lin.out_linear),
        tuple(aval_of(p) for p in flat.leaves),
        tuple(aval_of(x) for x in lin.outputs),
        flat.in_spec,
        flat.out_spec,
    )
    # A pytree, so that it may be passed to jit and other transformations.
    f_jvp = Partial(LikePartial(_push, graph.with_consts([None] * len(consts)), about), consts)
    result = flat.result(lin.outputs), f_jvp
    return (*result, flat.aux) if has_aux else result


class _LinearMap(NamedTuple):
    """The types of inputs and outputs of a linearized function, with its linear Graph."""

    in_linear: tuple[bool, ...]
    out_linear: tuple[bool, ...]
    in_avals: tuple
    out_avals: tuple
    in_spec: Any
    out_spec: Any


@boundary
def _push(graph: Graph, about: _LinearMap, consts: Sequence[Any], *tangents: Any) -> Any:
    """Tangents of the arguments to tangents of the result; the graph lacks its constants."""
    leaves, spec = tree.flatten(tangents)
    if spec != about.in_spec:
        raise TypeError(
            f"the linearized function takes tangents of structure {about.in_spec}, got {spec}"
        )
    what = (
        "linearized function called on tangent values inconsistent with the original primal values"
    )
    for want, t in zip(about.in_avals, leaves, strict=True):
        check_tangent(struct_of(want), t, what, ValueError)
        place, given = "the primal value passed to linearize", aval_of_tangent(t)
        check_varies_alike(want, given, "tangent", place, what, ValueError)
    # Integer inputs and outputs are not part of the graph: their tangents are zeros of float0.
    given = [immutable(t) for t, linear in zip(leaves, about.in_linear, strict=True) if linear]
    found = iter(evaluate(graph.with_consts(consts), *given))
    out = [
        next(found) if linear else real_array(Zero(tangent_aval(a)))
        for linear, a in zip(about.out_linear, about.out_avals, strict=True)
    ]
    return tree.unflatten(about.out_spec, out)
