"""`checkpoint` (also `remat`): less memory for derivatives, at the price of computing twice.

Floor 6. In: a function, and a policy that says which intermediate values to keep. Out: the same
function, whose backward pass recomputes the other values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from gpuarray import config, util
from gpuarray.control.checkpoint import PolicyAnswer, name_p, remat_p
from gpuarray.control.graph_edits import lifted
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.axes import axis_env
from gpuarray.core.graph import Graph, Literal
from gpuarray.core.linear import is_inexact
from gpuarray.core.memories import KINDS, space_of
from gpuarray.core.trace import Tracer
from gpuarray.core.tracebacks import boundary
from gpuarray.functions import argnums
from gpuarray.functions.argnums import indices
from gpuarray.lax import conv_general_dilated_p, dot_general_p
from gpuarray.pytree import tree
from gpuarray.runtime import cache
from gpuarray.transforms.graphs import jvp_graph
from gpuarray.transforms.partial import split_graph
from gpuarray.transforms.passing import emptied
from gpuarray.transforms.references import Ref, threaded, threading, values_of, write_back
from gpuarray.transforms.tracing import TracedFunction, stage, stage_aux
from gpuarray.util import wraps

#: Answers of a policy besides True and False.
Saveable = PolicyAnswer("Saveable", True)
Recompute = PolicyAnswer("Recompute", False)


class Offloadable(PolicyAnswer):
    """Keep the value in the memory `dst`, such as "pinned_host"; it is copied back when read."""

    def __init__(self, src: str, dst: str):
        if unknown := {src, dst}.difference(KINDS["cpu"]):
            raise ValueError(
                f"Offloadable got memory kinds {sorted(map(str, unknown))}, which no device has. "
                f"Give one of {', '.join(KINDS['cpu'])}."
            )
        super().__init__(f"Offloadable(src={src!r}, dst={dst!r})", True, space_of(dst))
        self.src, self.dst = src, dst


# ---- policies: policy(primitive, *avals, **params) -> whether to keep the result ----


def everything_saveable(*_, **__) -> bool:
    """Keep everything, as without checkpoint."""
    return True


def nothing_saveable(*_, **__) -> bool:
    """Compute everything again: the default."""
    return False


def dots_saveable(prim, *_, **__) -> bool:
    """Keep the results of matrix products and convolutions."""
    # Not by name: a primitive of the user's may have the same one.
    return prim in (dot_general_p, conv_general_dilated_p)


def dots_with_no_batch_dims_saveable(prim, *_, **params) -> bool:
    """Keep the results of matrix products without batch dimensions."""
    if prim is not dot_general_p:
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable:
    """As `dots_with_no_batch_dims_saveable`, and keep them in another memory."""

    def policy(prim, *avals, **params):
        keep = dots_with_no_batch_dims_saveable(prim, *avals, **params)
        return Offloadable(offload_src, offload_dst) if keep else Recompute

    return policy


def save_anything_except_these_names(*names_not_to_save: str) -> Callable:
    """Keep everything but the values of these names."""
    names = frozenset(names_not_to_save)

    def policy(prim, *_, **params):
        return params["name"] not in names if prim is name_p else True

    return policy


def save_any_names_but_these(*names_not_to_save: str) -> Callable:
    """Keep values with names other than these; values without a name are recomputed."""
    names = frozenset(names_not_to_save)

    def policy(prim, *_, **params):
        return params["name"] not in names if prim is name_p else False

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Callable:
    """Keep the values of these names only."""
    names = frozenset(names_which_can_be_saved)

    def policy(prim, *_, **params):
        return params["name"] in names if prim is name_p else False

    return policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Callable:
    """Keep the values of some names here, and of others in another memory."""
    here, there = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if here & there:
        raise ValueError(
            "The names should be exclusive and should not intersect in names_which_can_be_saved "
            f"and names_which_can_be_offloaded. Got names_which_can_be_saved={sorted(here)}, "
            f"names_which_can_be_offloaded={sorted(there)} and the "
            f"intersection={sorted(here & there)}"
        )

    def policy(prim, *_, **params):
        name = params["name"] if prim is name_p else None
        if name in there:
            return Offloadable(offload_src, offload_dst)
        return Saveable if name in here else Recompute

    return policy


def save_from_both_policies(policy_1: Callable, policy_2: Callable) -> Callable:
    """Keep values that either policy keeps."""

    def policy(prim, *avals, **params):
        return policy_1(prim, *avals, **params) or policy_2(prim, *avals, **params)

    return policy


# JAX's names; two of them also have an older one.
checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
    save_from_both_policies=save_from_both_policies,
)


def checkpoint_name(x: Any, name: str) -> Any:
    """Name the leaves of `x` for checkpoint policies.

    >>> import gpuarray.numpy as gnp
    >>> checkpoint_name(gnp.ones(2), "hidden")
    Array([1., 1.], dtype=float32)
    """
    return tree.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


# ---- the transformation ----


def _static_positions(fun: Callable, nums: Any, names: Any, count: int) -> frozenset[int]:
    positions = list(indices(nums, "static_argnums"))
    # Names that the signature does not have raise here, as ValueError.
    if names:
        known = list(inspect.signature(fun).parameters)
        positions += [known.index(n) for n in ((names,) if isinstance(names, str) else names)]
    for n in positions:
        if not -count <= n < count and not names:
            raise ValueError(
                f"the `static_argnums` argument to `checkpoint` is static_argnums={nums}, but "
                f"the function was called with {count} positional arguments"
            )
    # A static argument by name may not have been given by position.
    return frozenset(n % count for n in positions if -count <= n < count)


class _Staged(NamedTuple):
    """A traced function, its constants taken out, and the structure of its result."""

    graph: Graph
    consts: list
    out_spec: Any


def _once(programs: cache.Cache, key: tuple, make: Callable[[], _Staged]) -> _Staged:
    """`make()`, or its earlier result for the same key."""
    try:
        found = programs.find(key)
    except TypeError:  # a static argument without a hash
        return make()
    if found is None:
        found = make()
        # A graph that holds traced values is of their trace only.
        if not any(isinstance(c, Tracer) for c in found.consts):
            programs.put(key, found)
    return found


def checkpoint(
    fun: Callable | None = None,
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
) -> Any:
    """`fun`, whose derivative keeps its arguments only and computes the rest again when needed.

    Parameters
    ----------
    policy :
        Which intermediate values to keep nevertheless: one of `checkpoint_policies`, or a function
        of a primitive, the avals of its operands and its parameters.
    prevent_cse :
        Whether to keep the second computation apart from the first where both are in one program.
        False is for programs that are the body of a loop.
    static_argnums, static_argnames :
        Arguments that are Python values.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.checkpoint
    ... def f(x):
    ...     return gnp.sin(gnp.sin(x))
    >>> ga.grad(f)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if policy is not None and not callable(policy):
        raise TypeError(
            f"checkpoint: policy must be a function or None, got {policy!r}. Take one of "
            "gpuarray.checkpoint_policies, such as checkpoint_policies.everything_saveable."
        )
    if not isinstance(prevent_cse, bool):
        prevent_cse = util.elements(prevent_cse, "a bool or a sequence of bools")
    static_names = argnums.names_in(static_argnames, "static_argnames")
    known = cache.of_function(fun, "checkpoint")

    @boundary
    @wraps(fun)
    def checkpointed(*args, **kwargs):
        # Take static arguments out: the rest is flattened and traced.
        fixed = _static_positions(fun, static_argnums, static_names, len(args))
        if any(isinstance(x, Ref) for x in tree.flatten_raw((args, kwargs))[0]):
            return around_references(args, kwargs)
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        named = {k: v for k, v in kwargs.items() if k not in static_names}
        constants = {k: v for k, v in kwargs.items() if k in static_names}
        names = argnums.leaf_names(argnums.signature_of(fun), dynamic, named, fixed)
        info = TracedFunction(fun, "checkpoint / remat", names)

        # Run once without mutable references; `threading` calls again with those that were touched.
        def attempt(refs: list[Ref]) -> Any:
            # Values of references are arguments like the others, and their new values come before
            # the result.
            leaves, in_spec = tree.flatten((dynamic, named, values_of(refs)))

            def flat(*values):
                given, by_name, held = tree.unflatten(in_spec, values)
                rest = iter(given)
                whole = [a if i in fixed else next(rest) for i, a in enumerate(args)]
                result = threaded(fun, refs)(held, *whole, **by_name, **constants)
                out, out_spec = tree.flatten(result)
                # Raises for values that are not arrays.
                for x in out:
                    aval_of(x)
                return out, out_spec

            avals = tuple([aval_of(x) for x in leaves])

            def made() -> _Staged:
                graph, out_spec = stage_aux(flat, avals, info, threads=True)
                graph, consts = lifted(graph)
                return _Staged(graph, consts, out_spec)

            # Trace, then one equation that holds the whole function.
            static = argnums.Statics((i, args[i]) for i in sorted(fixed))
            by_name = argnums.Statics(sorted(constants.items()))
            # All that the trace depends on, so that calls alike trace once.
            key = (in_spec, avals, static, by_name, config.state.trace_key, axis_env())
            # A Graph with references is for these references only.
            staged = made() if refs else _once(known.programs, key, made)
            out = remat_p.bind(
                *staged.consts,
                *leaves,
                jaxpr=staged.graph,
                prevent_cse=prevent_cse,
                differentiated=False,
                policy=policy,
            )
            held, result = tree.unflatten(staged.out_spec, out)
            write_back(refs, held)
            return result

        return threading(attempt)

    def around_references(args: tuple, kwargs: dict) -> Any:
        # References are not operands of the primitive: the function closes over them.
        refill, (args, kwargs) = emptied((args, kwargs), "checkpoint")

        @wraps(fun)
        def whole(*args, **kwargs):
            args, kwargs = refill((args, kwargs))
            return fun(*args, **kwargs)

        options = {"static_argnums": static_argnums, "static_argnames": static_names}
        made = checkpoint(whole, prevent_cse=prevent_cse, policy=policy, **options)
        return made(*args, **kwargs)

    return checkpointed


remat = checkpoint


def print_saved_residuals(f: Callable, *args, **kwargs) -> None:
    """Print the values that the derivative of `f` keeps from the forward pass, and their origin.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> print_saved_residuals(ga.checkpoint(gnp.sin), 1.0)
    f32[] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(aval.str_short(short_dtypes=True), origin)


def saved_residuals(f: Callable, *args, **kwargs) -> list[tuple[ShapedArray, str]]:
    """The values that the derivative of `f` keeps from the forward pass: types and origins.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> saved_residuals(ga.checkpoint(gnp.sin), 1.0)
    [(ShapedArray(float32[], weak_type=True), 'from the argument x')]
    """
    leaves, in_spec = tree.flatten((args, kwargs))
    paths = argnums.leaf_names(argnums.signature_of(f), args, kwargs)

    def flat(*values):
        given, named = tree.unflatten(in_spec, values)
        return tree.flatten(f(*given, **named))[0]

    # Nothing runs: the Graph of the derivative contains the answer, split as for a backward pass.
    graph = stage(flat, [aval_of(x) for x in leaves], TracedFunction(f, "print_saved_residuals"))
    nonzero = tuple(is_inexact(v.aval) for v in graph.invars)
    # Primals are known in the forward pass, tangents come later: values that cross are the kept
    # ones.
    unknown = [False] * len(nonzero) + [True] * sum(nonzero)
    split = split_graph(jvp_graph(graph, nonzero).graph, unknown)
    known = split.known
    made_by = {v: e for e in known.eqns for v in e.outvars}
    # In the order in which the values come about, arguments first.
    place = {v: i for i, v in enumerate([*known.invars, *made_by])}
    kept = known.outvars[len(known.outvars) - split.residuals :]
    found = [(v.aval, "from a constant") for v in split.unknown.constvars]
    for a in sorted(kept, key=lambda a: -1 if isinstance(a, Literal) else place[a]):
        # Literals are listed too, as in JAX.
        if isinstance(a, Literal):
            origin = "from a literal"
        elif a in made_by:
            eqn = made_by[a]
            named = eqn.params["name"] if eqn.primitive is name_p else None
            what = f"named '{named}'" if named else f"output of {eqn.primitive.name}"
            origin = f"{what} from {eqn.site}"
        else:
            origin = f"from the argument {paths[known.invars.index(a)]}"
        found.append((a.aval, origin))
    return found
