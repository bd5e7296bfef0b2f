"""`custom_jvp`: a function with its own rule for tangents.

Floor 6. In: a function of pytrees and its rule. Out: a callable that every transformation accepts,
and differentiates by the rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.control.custom_jvp import custom_jvp_call_p
from gpuarray.control.custom_rules import named_like
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.linear import Zero, tangent_aval
from gpuarray.core.tracebacks import boundary
from gpuarray.functions.custom_rules import (
    CustomFunction,
    Results,
    SymbolicZero,
    as_array,
    check_rule,
    flatten_outputs,
    from_symbolic,
    name_of,
    operands,
    to_symbolic,
)
from gpuarray.primitives.elementwise.arithmetic import stop_gradient_p
from gpuarray.primitives.linear import add_any, instantiate
from gpuarray.pytree import tree


class custom_jvp(CustomFunction):
    """A function with its own rule for tangents, which also gives reverse mode.

    Parameters
    ----------
    nondiff_argnums, nondiff_argnames :
        Arguments that are Python values (functions, sizes): the rule gets them first,
        `rule(*nondiff, primals, tangents)`.

    Examples
    --------

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
        self.by_argument = False

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Give the rule, `jvp(primals, tangents) -> (output, tangent)`; returns it.

        Parameters
        ----------
        symbolic_zeros :
            Zero tangents are passed as SymbolicZero instead of as arrays of zeros.
        """
        check_rule("defjvp", "jvp", jvp)
        self.jvp, self.by_argument = jvp, False
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Give one rule for each argument, `jvps[i](tangent_i, output, *primals)`; None: no
        derivative.

        >>> import gpuarray as ga
        >>> product = ga.custom_jvp(lambda x, y: x * y)
        >>> product.defjvps(lambda t, out, x, y: t * y, None)
        >>> ga.grad(product, (0, 1))(3.0, 4.0)[0]
        Array(4., dtype=float32, weak_type=True)
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        for rule in jvps:
            if rule is not None:
                check_rule("defjvps", "each rule (or None)", rule)

        def jvp(primals, tangents):
            # Through the function itself, so that its derivative in turn is by these rules.
            out = self(*primals)
            shares = [
                rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=True)
                # Skip constant arguments: 0 times an infinite slope would be nan.
                if rule and not isinstance(t, SymbolicZero) and t.dtype != dtypes.float0
            ]
            # Zeros where no argument has a rule and a derivative.
            total = tree.tree_map(lambda x: instantiate(Zero(tangent_aval(aval_of(x)))), out)
            if shares:
                total = functools.reduce(lambda a, b: tree.tree_map(add_any, a, b), shares)
            return out, total

        self.defjvp(jvp)
        self.by_argument = True

    @boundary
    def __call__(self, *args, **kwargs):
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {name_of(self.fun)} using defjvp."
            )
        fixed, static, dynamic = self._split(self._positional(args, kwargs))
        static = tuple(
            stop_gradient_p.bind(x) if isinstance(x, traces.Tracer) else x for x in static
        )  # not differentiated, even where it could be
        dynamic, leaves, in_spec = operands(dynamic)
        # Concrete values outside any trace: the plain function, without the cost of a call
        # primitive.
        if traces.is_base() and not any(isinstance(x, traces.Tracer) for x in leaves):
            return self.fun(*self._whole(fixed, static, dynamic))  # nothing to transform
        results = Results()

        # The function of leaves. It is staged only where a graph is recorded, so its Python control
        # flow sees values where there are some.
        def flat(*values):
            given = tree.unflatten(in_spec, values)
            return results.note(self.fun(*self._whole(fixed, static, given)))

        rule = self._flat_rule(static, in_spec, results)
        out = custom_jvp_call_p.bind(
            *leaves,
            name=name_of(self.fun),
            call_jaxpr=named_like(flat, self.fun),
            jvp=named_like(rule, self.jvp),
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(results.spec, out)

    def _flat_rule(self, static: tuple, in_spec: Any, results: Results) -> Callable:
        jvp, symbolic = self.jvp, self.symbolic_zeros or self.by_argument
        assert jvp is not None
        names = f"Custom JVP rule {name_of(jvp)} for function {name_of(self.fun)}"

        def rule(primals, tangents):
            # Symbolic zeros only if the rule requested them.
            given = [to_symbolic(t) if symbolic else as_array(t) for t in tangents]
            pair = jvp(*static, tree.unflatten(in_spec, primals), tree.unflatten(in_spec, given))
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise TypeError(
                    f"{names} must produce a pair (list or tuple of length two) representing "
                    f"primal and tangent outputs, but got {pair}."
                )
            # The rule's primal output has to be the function's, its tangents of the same structure.
            out, spec = flatten_outputs(pair[0])
            out_tangents, tangent_spec = tree.flatten(pair[1])
            if spec != tangent_spec:
                raise TypeError(
                    f"{names} must produce primal and tangent outputs with equal container "
                    f"(pytree) structures, but got {spec} and {tangent_spec} respectively."
                )
            must = (
                f"{names} must produce a pair (list or tuple of length two) where the first "
                "element represents the primal output (equal in value to the output of the "
                f"custom_jvp-decorated function {name_of(self.fun)}, and in particular {{}})"
            )
            results.check(out, spec, must, "JVP", name_of(self.fun))
            # Under jvp the function itself does not run: the result is built by the rule's
            # structure.
            results.of_rule = spec
            out_tangents = [from_symbolic(t) for t in out_tangents]
            for x, t in zip(out, out_tangents, strict=True):
                _check_tangent_type(x, t)
            return out, out_tangents

        return rule


def _check_tangent_type(primal: Any, tangent: Any) -> None:
    # The tangent of an integer is float0.
    want, given = tangent_aval(aval_of(primal)), aval_of(tangent)
    if (want.shape, want.dtype) != (given.shape, given.dtype):
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and "
            f"dtypes. Expected {want.str_short()} (tangent type of {aval_of(primal).str_short()}) "
            f"but got {given.str_short()}."
        )
