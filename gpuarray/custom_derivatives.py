"""Functions whose derivatives the user writes: `custom_jvp`, `custom_vjp` and what is made of them.

Floor 6. In: functions of pytrees and their rules. Out: callables that every transformation takes as
they are, and differentiates by the rules given.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import errors
from gpuarray.control.custom import (
    custom_jvp_call_p,
    custom_vjp_call_p,
    linear_call_p,
    named_like,
)
from gpuarray.control.surgery import opened
from gpuarray.core import dtypes, tree
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph, evaluate
from gpuarray.core.linear import Zero, is_inexact, is_zero, tangent_aval
from gpuarray.lax import stop_gradient
from gpuarray.numpy.creation import asarray
from gpuarray.ops.linear import add_any, cast_like, instantiate
from gpuarray.transforms.stage import TracedFunction, stage


class SymbolicZero:
    """A tangent or cotangent that is zero everywhere, as rules with `symbolic_zeros=True` see it.

    >>> import gpuarray.numpy as gnp
    >>> SymbolicZero.from_primal_value(gnp.ones(3)).shape
    (3,)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @staticmethod
    def from_primal_value(x: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(tangent_aval(aval_of(x)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self.aval.shape

    @property
    def dtype(self):
        """The element type."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    def __repr__(self) -> str:
        return "SymbolicZero"


class CustomVJPPrimal(NamedTuple):
    """An argument of a forward rule with `symbolic_zeros=True`: its value, and whether a cotangent
    of it will be asked for.
    """

    value: Any
    perturbed: bool


def zero_from_primal(x: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a pytree of values, as arrays or as SymbolicZeros.

    >>> import gpuarray.numpy as gnp
    >>> zero_from_primal(gnp.ones(2))
    Array([0., 0.], dtype=float32)
    """

    def zero(leaf):
        aval = tangent_aval(aval_of(leaf))
        if symbolic_zeros:
            return SymbolicZero(aval)
        made = instantiate(Zero(aval))
        return made if isinstance(made, np.ndarray) else leaf * 0

    return tree.tree_map(zero, x)


def custom_vjp_primal_tree_values(x: Any) -> Any:
    """The values of a pytree of CustomVJPPrimals."""
    return tree.tree_map(
        lambda p: p.value, x, is_leaf=lambda leaf: isinstance(leaf, CustomVJPPrimal)
    )


# ---- what both have in common ----


def _name(fun: Any) -> str:
    return getattr(fun, "__name__", None) or type(fun).__name__


class _Custom:
    """A function, the arguments that are not differentiated, and calls by position."""

    kind = ""

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        if not callable(fun):
            raise TypeError(f"Expected a callable value, got {fun}")
        functools.update_wrapper(self, fun)
        self.fun = fun
        try:
            self._signature = inspect.signature(fun)
        except (TypeError, ValueError):
            self._signature = None
        nums = (
            (operator.index(nondiff_argnums),)
            if isinstance(nondiff_argnums, (int, np.integer))
            else tuple(map(operator.index, nondiff_argnums))
        )
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames
        if names and self._signature is not None:
            known = list(self._signature.parameters)
            nums += tuple(known.index(n) for n in names)
        self.nondiff_argnums = nums

    def _positional(self, args: tuple, kwargs: dict) -> tuple:
        """All arguments by position, defaults included."""
        if self._signature is None:
            if kwargs:
                raise TypeError(f"{_name(self.fun)} has no signature: give arguments by position")
            return args
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"The input arguments to the {self.kind}-decorated function {_name(self.fun)}"
                f"{self._signature} could not be resolved to positional-only arguments. Binding "
                f"failed with the error: {error}"
            ) from None
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"keyword arguments of the {self.kind}-decorated function {_name(self.fun)} could "
                "not be resolved to positional-only arguments: "
                f"{', '.join(bound.kwargs)} can be given by name only"
            )
        return bound.args

    def _split(self, args: tuple) -> tuple[frozenset[int], tuple, tuple]:
        """Which positions are not differentiated, their values in that order, and the others."""
        nums = [n + len(args) if n < 0 else n for n in self.nondiff_argnums]
        for n in nums:
            if not 0 <= n < len(args):
                raise ValueError(
                    f"nondiff_argnums={self.nondiff_argnums} of {_name(self.fun)} names argument "
                    f"{n}, but it was called with {len(args)} arguments"
                )
        fixed = frozenset(nums)
        return (
            fixed,
            tuple(args[n] for n in sorted(fixed)),
            tuple(a for i, a in enumerate(args) if i not in fixed),
        )

    def _whole(self, fixed: frozenset[int], static: tuple, dynamic: Sequence) -> list:
        """All arguments in order again."""
        a, b = iter(static), iter(dynamic)
        return [next(a if i in fixed else b) for i in range(len(static) + len(dynamic))]


class _Results:
    """The structure of a function's result, as its calls and its rule find it."""

    def __init__(self):
        self.of_fun: Any = None
        self.of_rule: Any = None

    @property
    def spec(self) -> Any:
        return self.of_rule if self.of_fun is None else self.of_fun


def _flatten_outputs(out: Any) -> tuple[list, Any]:
    leaves, spec = tree.flatten(out)
    for x in leaves:
        aval_of(x)  # raises for what is no array
    return leaves, spec


def _symbolic(x: Any) -> Any:
    return SymbolicZero(x.aval) if is_zero(x) else _array(x)


def _array(x: Any) -> Any:
    """A (co)tangent as rules may expect it: with the attributes of an array."""
    x = instantiate(x)
    return asarray(x) if isinstance(x, (bool, int, float, complex)) else x


def _from_symbolic(x: Any) -> Any:
    """A rule's (co)tangent as transformations take it."""
    if isinstance(x, SymbolicZero):
        return Zero(x.aval)
    if isinstance(x, np.ndarray) and x.dtype == dtypes.float0:
        return Zero(ShapedArray(x.shape, dtypes.float0))
    return x


# ---- forward mode ----


class custom_jvp(_Custom):
    """A function with its own rule for tangents, which also gives reverse mode.

    nondiff_argnums, nondiff_argnames: arguments that are Python values (functions, sizes): the rule
    gets them first, `rule(*nondiff, primals, tangents)`

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.custom_jvp
    ... def f(x, y):
    ...     return gnp.sin(x) * y
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x, y), (x_dot, y_dot) = primals, tangents
    ...     return f(x, y), gnp.cos(x) * x_dot * y + gnp.sin(x) * y_dot
    >>> ga.grad(f)(0.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """

    kind = "custom_jvp"

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Give the rule: `jvp(primals, tangents) -> (output, tangent)`; returns it, as decorators do.

        symbolic_zeros: tangents that are nothing come as SymbolicZero instead of as arrays of zeros
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Give a rule an argument: `jvps[i](tangent_i, output, *primals)`; None means no derivative.

        >>> import gpuarray as ga
        >>> product = ga.custom_jvp(lambda x, y: x * y)
        >>> product.defjvps(lambda t, out, x, y: t * y, None)
        >>> ga.grad(product, (0, 1))(3.0, 4.0)[0]
        Array(4., dtype=float32, weak_type=True)
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals, tangents):
            out = self(*primals)
            shares = [
                rule(t, out, *primals) for rule, t in zip(jvps, tangents, strict=True) if rule
            ]
            total = tree.tree_map(lambda x: instantiate(Zero(tangent_aval(aval_of(x)))), out)
            if shares:
                total = functools.reduce(lambda a, b: tree.tree_map(add_any, a, b), shares)
            return out, total

        self.defjvp(jvp)

    def __call__(self, *args, **kwargs):
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {_name(self.fun)} using defjvp."
            )
        fixed, static, dynamic = self._split(self._positional(args, kwargs))
        static = tuple(
            stop_gradient(x) if isinstance(x, traces.Tracer) else x for x in static
        )  # not differentiated, even where it could be
        leaves, in_spec = tree.flatten(dynamic)
        for x in leaves:
            aval_of(x)
        results = _Results()

        def flat(*values):
            given = tree.unflatten(in_spec, values)
            out, results.of_fun = _flatten_outputs(self.fun(*self._whole(fixed, static, given)))
            return out

        rule = self._flat_rule(static, in_spec, results)
        out = custom_jvp_call_p.bind(
            *leaves,
            name=_name(self.fun),
            call_jaxpr=named_like(flat, self.fun),
            jvp=named_like(rule, self.jvp),
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(results.spec, out)

    def _flat_rule(self, static: tuple, in_spec: Any, results: _Results) -> Callable:
        jvp, symbolic = self.jvp, self.symbolic_zeros
        assert jvp is not None
        names = f"Custom JVP rule {_name(jvp)} for function {_name(self.fun)}"

        def rule(primals, tangents):
            given = [_symbolic(t) if symbolic else _array(t) for t in tangents]
            pair = jvp(*static, tree.unflatten(in_spec, primals), tree.unflatten(in_spec, given))
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise TypeError(
                    f"{names} must produce a pair (list or tuple of length two) representing primal "
                    f"and tangent outputs, but got {pair}."
                )
            out, spec = _flatten_outputs(pair[0])
            out_tangents, tangent_spec = tree.flatten(pair[1])
            if spec != tangent_spec:
                raise TypeError(
                    f"{names} must produce primal and tangent outputs with equal container (pytree) "
                    f"structures, but got {spec} and {tangent_spec} respectively."
                )
            if results.of_fun is not None and spec != results.of_fun:
                raise TypeError(
                    f"{names} must produce a pair (list or tuple of length two) where the first "
                    "element represents the primal output (equal in value to the output of the "
                    f"custom_jvp-decorated function {_name(self.fun)}, and in particular of the same "
                    "container/pytree structure), but instead the rule's first element had "
                    f"structure {spec}, while the function's output has structure {results.of_fun}."
                )
            results.of_rule = spec
            out_tangents = [_from_symbolic(t) for t in out_tangents]
            for x, t in zip(out, out_tangents, strict=True):
                _check_tangent_type(x, t)
            return out, out_tangents

        return rule


def _check_tangent_type(primal: Any, tangent: Any) -> None:
    want, given = tangent_aval(aval_of(primal)), aval_of(tangent)
    if (want.shape, want.dtype) != (given.shape, given.dtype):
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and "
            f"dtypes. Expected {want.str_short()} (tangent type of {aval_of(primal).str_short()}) "
            f"but got {given.str_short()}."
        )


# ---- reverse mode ----


class custom_vjp(_Custom):
    """A function with its own rule for cotangents: reverse mode only.

    nondiff_argnums, nondiff_argnames: arguments that are Python values (functions, sizes): `fwd`
    gets them in their places, `bwd` first

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
        cotangents`, one an argument (None: zero).

        symbolic_zeros: `fwd` gets CustomVJPPrimals, which say whether they are differentiated, and
        cotangents that are nothing come to `bwd` as SymbolicZero
        optimize_remat: accepted; what `fwd` computes for nobody is dropped in any case
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {_name(self.fun)} using defvjp."
            )
        fixed, static, dynamic = self._split(self._positional(args, kwargs))
        for x in tree.flatten(static)[0]:
            if isinstance(x, traces.Tracer):
                raise errors.UnexpectedTracerError(
                    "Found a Tracer object passed as an argument to a custom_vjp function in a "
                    "position indicated by nondiff_argnums as non-differentiable. Tracers cannot be "
                    "passed as non-differentiable arguments to custom_vjp functions; nondiff_argnums "
                    "is for arguments that cannot be or contain tracers, such as functions. Make it "
                    "an ordinary argument, whose cotangent `bwd` gives as None."
                )
        leaves, in_spec = tree.flatten(dynamic)
        for x in leaves:
            aval_of(x)
        results = _Results()

        def flat(*values):
            given = tree.unflatten(in_spec, values)
            out, results.of_fun = _flatten_outputs(self.fun(*self._whole(fixed, static, given)))
            return out

        fwd, bwd = self._flat_rules(fixed, static, leaves, in_spec, results)
        out = custom_vjp_call_p.bind(
            *leaves,
            name=_name(self.fun),
            call_jaxpr=named_like(flat, self.fun),
            fwd=named_like(fwd, self.fwd),
            bwd=named_like(bwd, self.bwd),
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(results.spec, out)

    def _flat_rules(
        self, fixed: frozenset[int], static: tuple, leaves: list, in_spec: Any, results: _Results
    ) -> tuple[Callable, Callable]:
        fwd_rule, bwd_rule, symbolic = self.fwd, self.bwd, self.symbolic_zeros
        assert fwd_rule is not None and bwd_rule is not None
        names = f"Custom VJP fwd rule {_name(fwd_rule)} for function {_name(self.fun)}"
        residual_spec: Any = None

        def fwd(primals, perturbed):
            nonlocal residual_spec
            if symbolic:
                primals = [CustomVJPPrimal(x, p) for x, p in zip(primals, perturbed, strict=True)]
            given = tree.unflatten(in_spec, primals)
            pair = fwd_rule(*self._whole(fixed, static, given))
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise TypeError(
                    f"{names} must produce a pair (list or tuple of length two) where the first "
                    "element represents the primal output (equal to those of the "
                    f"custom_vjp-decorated function {_name(self.fun)}) and the second element "
                    "represents residuals (i.e. values stored from the forward pass for use on the "
                    f"backward pass), but instead of a pair the fwd rule {_name(fwd_rule)} produced "
                    f"{pair}."
                )
            out, spec = _flatten_outputs(pair[0])
            if results.of_fun is not None and spec != results.of_fun:
                raise TypeError(
                    f"{names} must produce a pair (list or tuple of length two) where the first "
                    "element represents the primal output (equal to the output of the "
                    f"custom_vjp-decorated function {_name(self.fun)}) and the second element "
                    "represents residuals, but instead the fwd rule output's first element had "
                    f"structure {spec}, while the function's output has structure {results.of_fun}."
                )
            results.of_rule = spec
            residuals, residual_spec = _flatten_outputs(pair[1])
            return out, residuals

        def bwd(residuals, cotangents):
            given = [_symbolic(ct) if symbolic else _array(ct) for ct in cotangents]
            found = bwd_rule(
                *static,
                tree.unflatten(residual_spec, residuals),
                tree.unflatten(results.spec, given),
            )
            return _cotangents(found, in_avals, in_spec)

        in_avals = [aval_of(x) for x in leaves]
        return fwd, bwd


def _cotangents(found: Any, in_avals: list[ShapedArray], in_spec: Any) -> list:
    """One cotangent a leaf of the arguments; None above any of them means zeros."""
    if isinstance(found, list) and len(found) == len(tree.treedef_children(in_spec)):
        found = tuple(found)
    given, spec = tree.flatten(found)
    if spec != in_spec:
        given = _spread(found, in_avals, in_spec, spec)
    out = []
    for i, (ct, aval) in enumerate(zip(given, in_avals, strict=True)):
        ct, want = _from_symbolic(ct), tangent_aval(aval)
        if ct is None or is_zero(ct) or not is_inexact(aval):
            out.append(Zero(want))
            continue
        if aval_of(ct).shape != want.shape:
            # An error within vmap names the shapes of one element.
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple of "
                f"the primal function, but at output[{i}] the bwd rule produced an output of type "
                f"{aval_of(ct).str_short()} corresponding to an input of type {aval.str_short()}, so "
                "the shapes do not match"
            )
        out.append(cast_like(ct, want))
    return out


def _spread(found: Any, in_avals: list, in_spec: Any, spec: Any) -> list:
    """Cotangents whose structure is a prefix of the arguments', with None at its short ends."""
    arguments = tree.unflatten(in_spec, in_avals)
    is_none = lambda x: x is None  # noqa: E731
    try:
        given = tree.prefix_broadcast(found, arguments, is_leaf=is_none)
    except ValueError:
        given = None
    single = sum(x is not None for x in tree.tree_leaves(found, is_none))
    if given is None or sum(x is not None for x in given) != single:
        raise TypeError(
            "Custom VJP bwd rule must produce an output with the same container (pytree) structure "
            "as the args tuple of the primal function, and in particular must produce a tuple of "
            f"length equal to the number of arguments to the primal function, but got bwd output "
            f"structure {spec} for primal input structure {in_spec}."
        )
    return given


# ---- made of these ----


class _Staged:
    """A Graph among residuals: a pytree whose leaves are the Graph's constants."""

    def __init__(self, consts: Sequence[Any], static: tuple):
        self.consts, self.static = list(consts), static


tree.register_pytree_node(
    _Staged, lambda x: (x.consts, x.static), lambda static, consts: _Staged(consts, static)
)


def custom_gradient(fun: Callable) -> Callable:
    """A function with its own rule for cotangents, which it returns beside its result.

    `fun(*args)` returns `(output, vjp)`, and `vjp(cotangent)` the cotangents of the arguments.

    >>> import gpuarray as ga
    >>> @ga.custom_gradient
    ... def f(x):
    ...     return x**2, lambda g: (g * x,)
    >>> f(3.0), ga.grad(f)(3.0)
    (9.0, Array(3., dtype=float32, weak_type=True))
    """

    @functools.wraps(fun)
    def primal(*args, **kwargs):
        return fun(*args, **kwargs)[0]

    wrapped = custom_vjp(primal)

    def fwd(*args, **kwargs):
        out, rule = fun(*args, **kwargs)
        leaves, out_spec = tree.flatten(out)
        in_spec: Any = None

        def flat(*cotangents):
            nonlocal in_spec
            found = rule(tree.unflatten(out_spec, cotangents))
            given, in_spec = tree.flatten(found)
            return given

        avals = [tangent_aval(aval_of(x)) for x in leaves]
        graph = stage(flat, avals, TracedFunction(rule, "custom_gradient"))
        return out, _Staged(graph.consts, (opened(graph), in_spec))

    def bwd(residuals, cotangent):
        graph, in_spec = residuals.static
        out = evaluate(graph, *residuals.consts, *tree.flatten(cotangent)[0])
        found = tree.unflatten(in_spec, out)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    wrapped.defvjp(fwd, bwd)
    return wrapped


def closure_convert(fun: Callable, *example_args) -> tuple[Callable, list]:
    """`fun` as a function of its arguments and of the traced values it closes over, and these values.

    example_args: arguments of the shapes and dtypes that it will be called with

    >>> import gpuarray as ga
    >>> def g(w):
    ...     h, values = ga.closure_convert(lambda x: x * w, 1.0)
    ...     return h(2.0, *values)
    >>> ga.grad(g)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    leaves, in_spec = tree.flatten(example_args)
    out_spec: Any = None

    def flat(*values):
        nonlocal out_spec
        out, out_spec = tree.flatten(fun(*tree.unflatten(in_spec, values)))
        return out

    avals = [aval_of(x) for x in leaves]
    graph = stage(flat, avals, TracedFunction(fun, "closure_convert"))
    pairs = list(zip(graph.constvars, graph.consts, strict=True))
    moved = [
        isinstance(c, traces.Tracer) and is_inexact(v.aval) for v, c in pairs
    ]  # only these can have derivatives
    lead = [v for (v, _), m in zip(pairs, moved, strict=True) if m]
    kept = [p for p, m in zip(pairs, moved, strict=True) if not m]
    converted = Graph(
        [*graph.invars, *lead],
        graph.outvars,
        graph.eqns,
        [v for v, _ in kept],
        [c for _, c in kept],
        graph.debug_name,
    )
    hoisted = [c for (_, c), m in zip(pairs, moved, strict=True) if m]

    def converted_fun(*args_and_values):
        count = len(args_and_values) - len(hoisted)
        args, values = args_and_values[:count], args_and_values[count:]
        given, spec = tree.flatten(args)
        if spec != in_spec:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the same Pytree "
                f"structure as the example arguments passed when closure_convert was called: "
                f"expected {in_spec}, but got {spec}"
            )
        return tree.unflatten(out_spec, evaluate(converted, *given, *values))

    return converted_fun, hoisted


def linear_call(
    fun: Callable, fun_transpose: Callable, residual_args: Any, linear_args: Any
) -> Any:
    """`fun(residual_args, linear_args)`, linear in the second, with its transpose given.

    `fun_transpose(residual_args, cotangent)` returns the cotangent of `linear_args`.

    >>> import gpuarray as ga
    >>> half = lambda r, x: x / r
    >>> f = lambda x: linear_call(half, half, 2.0, x)
    >>> ga.linear_transpose(f, 1.0)(3.0)
    (Array(1.5, dtype=float32, weak_type=True),)
    """
    residuals, residual_spec = tree.flatten(residual_args)
    operands, operand_spec = tree.flatten(linear_args)
    out_spec: Any = None

    def flat(*values):
        nonlocal out_spec
        given = values[: len(residuals)], values[len(residuals) :]
        out, out_spec = tree.flatten(
            fun(tree.unflatten(residual_spec, given[0]), tree.unflatten(operand_spec, given[1]))
        )
        return out

    def flat_transpose(*values):
        given = values[: len(residuals)], values[len(residuals) :]
        out, spec = tree.flatten(
            fun_transpose(
                tree.unflatten(residual_spec, given[0]), tree.unflatten(out_spec, given[1])
            )
        )
        if spec != operand_spec:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs, got output "
                f"structure {spec} and input structure {operand_spec}."
            )
        return out

    lead = [aval_of(x) for x in residuals]
    callee = stage(flat, lead + [aval_of(x) for x in operands], TracedFunction(fun, "linear_call"))
    turned = stage(
        flat_transpose, lead + callee.out_avals, TracedFunction(fun_transpose, "linear_call")
    )
    for graph in (callee, turned):
        if any(isinstance(c, traces.Tracer) for c in graph.consts):
            raise errors.UnexpectedTracerError(
                "a function given to linear_call closes over a traced value: pass it in residual_args"
            )
    out = linear_call_p.bind(
        *residuals, *operands, callee=callee, transpose=turned, num_res=len(residuals)
    )
    return tree.unflatten(out_spec, out)
