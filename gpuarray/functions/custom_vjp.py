"""`custom_vjp` and `custom_gradient`: a function with its own rule for cotangents.

Floor 6. In: a function of pytrees, its forward and its backward rule. Out: a callable that reverse
mode differentiates by these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import errors
from gpuarray.control.custom_rules import named_like
from gpuarray.control.custom_vjp import custom_vjp_call_p
from gpuarray.control.graph_edits import opened
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import evaluate
from gpuarray.core.linear import Zero, is_inexact, is_zero, tangent_aval
from gpuarray.core.tracebacks import boundary
from gpuarray.functions import argnums
from gpuarray.functions.custom_rules import (
    CustomFunction,
    CustomVJPPrimal,
    Results,
    as_array,
    check_rule,
    flatten_outputs,
    from_symbolic,
    name_of,
    operands,
    to_symbolic,
)
from gpuarray.primitives.linear import cast_like
from gpuarray.pytree import tree
from gpuarray.transforms.passing import RefArguments, emptied, taken_out
from gpuarray.transforms.references import Ref
from gpuarray.transforms.tracing import TracedFunction, stage_aux
from gpuarray.util import wraps


class custom_vjp(CustomFunction):
    """A function with its own rule for cotangents: reverse mode only.

    Parameters
    ----------
    nondiff_argnums, nondiff_argnames :
        Arguments that are Python values (functions, sizes): `fwd` gets them in their places, `bwd`
        first.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.custom_vjp
    ... def f(x, y):
    ...     return gnp.sin(x) * y
    >>> def f_fwd(x, y):
    ...     return f(x, y), (gnp.cos(x), gnp.sin(x), y)
    >>> def f_bwd(residuals, g):
    ...     cos_x, sin_x, y = residuals
    ...     return cos_x * g * y, sin_x * g
    >>> f.defvjp(f_fwd, f_bwd)
    >>> ga.grad(f)(0.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def defvjp(
        self,
        fwd: Callable,
        bwd: Callable,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Give the rules: `fwd(*args) -> (output, residuals)` and `bwd(residuals, cotangent) ->
        cotangents`, one for each argument (None: zero).

        Parameters
        ----------
        symbolic_zeros :
            `fwd` gets CustomVJPPrimals, which record whether they are differentiated, and zero
            cotangents are passed to `bwd` as SymbolicZero.
        optimize_remat :
            If `checkpoint` recomputes the residuals later, the first pass calls the function
            instead of `fwd`. Even without it, unread results of `fwd` are removed; a user's kernel
            that also returns residuals cannot be split this way.
        """
        check_rule("defvjp", "fwd", fwd)
        check_rule("defvjp", "bwd", bwd)
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    @boundary
    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {name_of(self.fun)} using defvjp."
            )
        # Arguments by position, and which of them are Python values.
        fixed, static, dynamic = self._split(self._positional(args, kwargs))
        # `bwd` runs later, when current tracers are no longer valid.
        for x in tree.flatten(static)[0]:
            if isinstance(x, traces.Tracer):
                raise errors.UnexpectedTracerError(
                    "Found a Tracer object passed as an argument to a custom_vjp function in a "
                    "position indicated by nondiff_argnums as non-differentiable. Tracers cannot "
                    "be passed as non-differentiable arguments to custom_vjp functions; "
                    "nondiff_argnums is for arguments that cannot be or contain tracers, such as "
                    "functions. Make it an ordinary argument, whose cotangent `bwd` gives as None."
                )
        named = lambda: argnums.leaf_names(self._signature, dynamic, {}, fixed)
        refs, _ = taken_out(dynamic, f"custom_vjp {name_of(self.fun)}", named)
        # Concrete values outside any trace: the plain function, without the cost of a call
        # primitive.
        if traces.is_base() and not any(map(_is_traced, tree.flatten(dynamic)[0])):
            # Nothing to transform.
            dynamic = dynamic if refs else operands(dynamic)[0]
            out = self.fun(*self._whole(fixed, static, dynamic))
            if refs:
                flatten_outputs(out)
            return out
        # The contents of mutable references are operands, and their new contents are results.
        raw, in_spec = tree.flatten(dynamic)
        held = RefArguments(raw)
        dynamic, leaves, in_spec = operands(tree.unflatten(in_spec, held.emptied(raw)))
        results = Results()
        put = lambda given: self._whole(fixed, static, tree.unflatten(in_spec, given))

        def flat(*values):
            new, out = held.call(lambda given: results.note(self.fun(*put(given))), values)
            return [*new, *out]

        # Function and rules as functions of flat arrays, stored in the primitive. They run when a
        # transformation needs them.
        fwd, bwd = self._flat_rules(put, static, leaves, in_spec, results, held)
        out = custom_vjp_call_p.bind(
            *leaves,
            name=name_of(self.fun),
            call_jaxpr=named_like(flat, self.fun),
            fwd=named_like(fwd, self.fwd),
            bwd=named_like(bwd, self.bwd),
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
            optimize_remat=self.optimize_remat,
        )
        held.write_back(out[: len(refs)])
        return tree.unflatten(results.spec, out[len(refs) :])

    def _flat_rules(
        self,
        put: Callable,
        static: tuple,
        leaves: list,
        in_spec: Any,
        results: Results,
        held: RefArguments,
    ) -> tuple[Callable, Callable]:
        """The rules as functions of leaves; `put` gives all arguments in their places."""
        fwd_rule, bwd_rule, symbolic = self.fwd, self.bwd, self.symbolic_zeros
        assert fwd_rule is not None and bwd_rule is not None
        names = f"Custom VJP fwd rule {name_of(fwd_rule)} for function {name_of(self.fun)}"

        def fwd(primals, perturbed):
            # The rule sees which cotangents are needed, and may skip the rest.
            primals = list(primals)
            for i in range(len(primals)):
                if i in held.at:
                    primals[i] = as_array(primals[i])
                elif symbolic:
                    primals[i] = CustomVJPPrimal(primals[i], perturbed[i])
            given: list = []

            def run(values):
                given[:] = put(values)
                return fwd_rule(*given)

            new, pair = held.call(run, primals)
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise TypeError(
                    f"{names} must produce a pair (list or tuple of length two) where the first "
                    "element represents the primal output (equal to those of the "
                    f"custom_vjp-decorated function {name_of(self.fun)}) and the second element "
                    "represents residuals (i.e. values stored from the forward pass for use on the "
                    f"backward pass), but instead of a pair {name_of(fwd_rule)} produced {pair}."
                )
            out, spec = flatten_outputs(pair[0])
            must = (
                f"{names} must produce a pair (list or tuple of length two) where the first "
                "element represents the primal output (equal to the output of the "
                f"custom_vjp-decorated function {name_of(self.fun)}) and the second element "
                "represents residuals (i.e. values stored from the forward pass for use on the "
                "backward pass)"
            )
            results.check(out, spec, must, "fwd", name_of(self.fun))
            results.of_rule = spec
            # Residuals travel flat; `bwd` gets them back in this structure.
            arguments = tree.flatten(given)[0]
            for x in tree.flatten(pair[1])[0]:
                if isinstance(x, Ref) and not any(x is a for a in arguments):
                    raise ValueError(
                        f"the custom_vjp fwd function {name_of(fwd_rule)} returned a mutable array "
                        f"reference of type {x.type} that is none of its arguments: return its "
                        "value, ref[...]"
                    )
            # References among residuals are not values: `fill` restores them.
            fill, rest = emptied(pair[1])
            residuals, structure = flatten_outputs(rest)
            results.residuals = lambda values: fill(tree.unflatten(structure, values))
            return [*new, *out], residuals

        def bwd(residuals, cotangents):
            # New values of references come first among the results, and have no cotangents.
            cotangents = cotangents[len(held.refs) :]
            given = [to_symbolic(ct) if symbolic else as_array(ct) for ct in cotangents]
            found = bwd_rule(
                *static,
                results.residuals(residuals),
                tree.unflatten(results.spec, given),
            )
            return _cotangents(found, in_avals, in_spec)

        # Known now; the leaves themselves must not be kept by the rule.
        in_avals = [aval_of(x) for x in leaves]
        return fwd, bwd


def _is_traced(x: Any) -> bool:
    return isinstance(x.get() if isinstance(x, Ref) else x, traces.Tracer)


def _cotangents(found: Any, in_avals: list[ShapedArray], in_spec: Any) -> list:
    """One cotangent for each leaf of the arguments; None for a subtree means zeros."""
    # A list of cotangents is accepted for a tuple, if the length fits.
    if isinstance(found, list) and len(found) == len(tree.treedef_children(in_spec)):
        found = tuple(found)
    given, spec = tree.flatten(found)
    if spec != in_spec:
        # None may replace a whole argument.
        given = _spread(found, in_avals, in_spec, spec)
    out = []
    for i, (ct, aval) in enumerate(zip(given, in_avals, strict=True)):
        ct, want = from_symbolic(ct), tangent_aval(aval)
        # Whatever a rule returns for an integer argument, its cotangent is float0.
        if is_zero(ct) and ct.aval.shape != want.shape:
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at output[{i}] the bwd rule produced a symbolic zero "
                f"of type {ct.aval.str_short()} corresponding to an input of type "
                f"{aval.str_short()}. Consider just returning a None here"
            )
        if ct is None or is_zero(ct) or not is_inexact(aval):
            out.append(Zero(want))
            continue
        if aval_of(ct).shape != want.shape:
            # An error within vmap names the shapes of one element.
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at output[{i}] the bwd rule produced an output of "
                f"type {aval_of(ct).str_short()} corresponding to an input of type "
                f"{aval.str_short()}, so the shapes do not match"
            )
        # The dtype is converted (JAX passes on the rule's result); the shape is not. Cotangents of
        # an extended dtype are added by its own rules.
        out.append(
            ct if isinstance(aval_of(ct).dtype, dtypes.ExtendedDType) else cast_like(ct, want)
        )
    return out


def _spread(found: Any, in_avals: list, in_spec: Any, spec: Any) -> list:
    """Broadcast cotangents whose structure is a prefix of the arguments', with None for subtrees of
    zeros.
    """
    arguments = tree.unflatten(in_spec, in_avals)
    is_none = lambda x: x is None
    try:
        # None means zeros for its whole subtree; anything else must have the full structure.
        given = tree.prefix_broadcast(found, arguments, is_leaf=is_none)
    except ValueError:
        given = None
    single = sum(x is not None for x in tree.tree_leaves(found, is_none))
    whole = isinstance(found, (tuple, list))
    if not whole or given is None or sum(x is not None for x in given) != single:
        raise TypeError(
            "Custom VJP bwd rule must produce an output with the same container (pytree) structure "
            "as the args tuple of the primal function, and in particular must produce a tuple of "
            "length equal to the number of arguments to the primal function, but got bwd output "
            f"structure {spec} for primal input structure {in_spec}."
        )
    return given


# ---- results with their rules ----


class _Staged:
    """A Graph among residuals: a pytree whose leaves are the Graph's constants."""

    def __init__(self, consts: Sequence[Any], static: tuple):
        self.consts, self.static = list(consts), static


tree.register_pytree_node(
    _Staged, lambda x: (x.consts, x.static), lambda static, consts: _Staged(consts, static)
)


def custom_gradient(fun: Callable) -> Callable:
    """Decorator for a function that returns its own rule for cotangents with its result.

    `fun(*args)` returns `(output, vjp)`, and `vjp(cotangent)` the cotangents of the arguments.

    >>> import gpuarray as ga
    >>> @ga.custom_gradient
    ... def f(x):
    ...     return x**2, lambda g: (g * x,)
    >>> f(3.0), ga.grad(f)(3.0)
    (9.0, Array(3., dtype=float32, weak_type=True))
    """

    @wraps(fun)
    def primal(*args, **kwargs):
        return fun(*args, **kwargs)[0]

    wrapped = custom_vjp(primal)

    def fwd(*args, **kwargs):
        out, rule = fun(*args, **kwargs)
        leaves, out_spec = tree.flatten(out)
        flat = lambda *cotangents: tree.flatten(rule(tree.unflatten(out_spec, cotangents)))
        avals = [tangent_aval(aval_of(x)) for x in leaves]
        # The user's rule closes over values of the forward pass. Staged immediately, it becomes a
        # Graph whose constants are these values: residuals, which every transformation can see.
        graph, in_spec = stage_aux(flat, avals, TracedFunction(rule, "custom_gradient"))
        return out, _Staged(graph.consts, (opened(graph), in_spec))

    def bwd(residuals, cotangent):
        graph, in_spec = residuals.static
        out = evaluate(graph, *residuals.consts, *tree.flatten(cotangent)[0])
        found = tree.unflatten(in_spec, out)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    wrapped.defvjp(fwd, bwd)
    return wrapped
