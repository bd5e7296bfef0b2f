"""Taylor mode: a function of truncated Taylor series, `jet`.

Floor 6. In: a function, and for each argument its value and its higher terms. Out: those of the
result. Operations need no special rule for this: y = f(x) gives y' = J(x) x', the operation's
forward-mode rule, and the rule itself is run on series. A series is a list that grows as its terms
are requested, so a rule may use the very result that it defines: term k of y needs terms of y' up
to k - 1, and these only terms of y before k. Terms of products are sums of products. Users may
still give an operation its own rule, by `def_deriv` and the functions next to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.control.call import jit_p
from gpuarray.control.checkpoint import remat_p
from gpuarray.control.cond import cond_p
from gpuarray.control.custom_rules import run_call as _run_call
from gpuarray.control.custom_vjp import custom_vjp_call_p
from gpuarray.control.graph_edits import cut
from gpuarray.control.scan import scan_p
from gpuarray.control.while_loop import while_p
from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.graph import Graph, evaluate, params_key
from gpuarray.core.linear import Zero, is_inexact, is_zero, tangent_aval
from gpuarray.core.primitive import LINEAR, NOT_DIFFERENTIABLE, Primitive
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.transforms.jvp import jvp_of

#: Operations that are linear in each of two operands.
_PRODUCTS = frozenset({lax.mul_p, lax.dot_general_p, lax.conv_general_dilated_p})
_CALLS: dict[Primitive, str] = {
    jit_p: "jaxpr",
    remat_p: "jaxpr",
    custom_vjp_call_p: "call_jaxpr",
}


class _Series:
    """Terms of a Taylor series, without factorials; None for a term that is zero."""

    __slots__ = ("make", "terms")

    def __init__(self, first: Any, make: Callable[[int], Any]):
        self.terms = [first]
        self.make = make

    def __getitem__(self, k: int) -> Any:
        # In order: a term may need earlier ones of the same series.
        while len(self.terms) <= k:
            self.terms.append(self.make(len(self.terms)))
        return self.terms[k]


def _none(_k: int) -> None:
    return None


class JetTracer(traces.Tracer):
    """A value with its higher terms."""

    __slots__ = ("series",)

    @property
    def primal(self) -> Any:
        """The value."""
        return self.series[0]

    @property
    def terms(self) -> list[Any]:
        """Its higher terms, without factorials."""
        trace: Any = self._trace
        return trace.lists(self)[1:]

    def __init__(self, trace: JetTrace, series: _Series):
        self._trace = trace
        self.series = series
        self.aval = aval_of(series[0])

    def origin(self) -> str:
        first = self.series[0]
        return first.origin() if isinstance(first, traces.Tracer) else ""

    def __repr__(self) -> str:
        return f"JetTracer({self.aval.str_short()})"


class JetTrace(traces.Trace):
    """Evaluates series in the trace it was opened in."""

    def __init__(self, parent: traces.Trace, order: int):
        self.parent: Any = parent
        self.order = order
        # Results by operation and operands: a rule that computes one again gets the same series.
        self.known: dict[tuple, tuple] = {}

    def series_of(self, x: Any) -> _Series:
        """The series of a value; one of another trace is constant."""
        if type(x) is JetTracer and x._trace is self:
            return x.series
        return _Series(x, _none)

    def is_own(self, x: Any) -> bool:
        return type(x) is JetTracer and x._trace is self

    def bind(self, prim: Primitive, args: Sequence, params: dict) -> Any:
        """Apply an operation to terms, in the trace around."""
        with traces.current(self.parent):
            return prim.bind(*args, **params)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        args = tuple(traces.same_widths(args))
        own = [self.is_own(x) for x in args]
        if not any(own):
            return self.bind(prim, args, params)
        # A call is equivalent to its Graph: the rules of operations are enough.
        if prim in jet_rules:
            return self.by_given_rule(jet_rules[prim], prim, args, params)
        if prim in _CALLS:
            return _run_call(params[_CALLS[prim]], args)
        if prim in _CONTROL:
            return _CONTROL[prim](self, params, list(args))
        # The result is constant where the operation has no slope.
        moving = any(o and is_inexact(aval_of(x)) for o, x in zip(own, args, strict=True))
        if prim.jvp is NOT_DIFFERENTIABLE or not moving:
            return self.bind(prim, [self.series_of(x)[0] for x in args], params)
        key = (prim, tuple(map(_name, args)), params_key(params))
        if key not in self.known:
            # Keep the operands alive, so that no other object gets the id of one.
            self.known[key] = (self.apply(prim, args, params), args)
        return self.known[key][0]

    def apply(self, prim: Primitive, args: tuple, params: dict) -> Any:
        series = [self.series_of(x) for x in args]
        # Products by the formula; linear operations term by term; everything else by its rule of
        # forward mode.
        if prim in _PRODUCTS:
            return JetTracer(self, self.product(prim, series, params))
        if prim is lax.div_p:
            return JetTracer(self, self.quotient(*series))
        first = self.bind(prim, [s[0] for s in series], params)
        if prim.jvp is LINEAR and not prim.multiple_results:
            return JetTracer(self, _Series(first, lambda k: self.image(prim, series, params, k)))
        return self.by_rule(prim, args, params, first)

    # ---- kinds of operations ----

    def filled(self, s: _Series, k: int) -> Any:
        """A term as an array."""
        if s[k] is not None:
            return s[k]
        with traces.current(self.parent):
            return gnp.zeros_like(s[0])

    def image(self, prim: Primitive, series: list[_Series], params: dict, k: int) -> Any:
        """Term k of a linear operation: of terms k."""
        if all(s[k] is None for s in series):
            return None
        return self.bind(prim, [self.filled(s, k) for s in series], params)

    def total(self, terms: list) -> Any:
        with traces.current(self.parent):
            found = None
            for term in terms:
                found = term if found is None else lax.add(found, term)
            return found

    def product(self, prim: Primitive, series: list[_Series], params: dict) -> _Series:
        x, y = series

        def term(k: int) -> Any:
            # Cauchy's product; terms that are zero are left out.
            pairs = [(x[j], y[k - j]) for j in range(k + 1)]
            return self.total(
                [
                    self.bind(prim, (a, b), params)
                    for a, b in pairs
                    if a is not None and b is not None
                ]
            )

        return _Series(term(0), term)

    def quotient(self, x: _Series, y: _Series) -> _Series:
        """q = x / y, from q y = x."""

        def term(k: int) -> Any:
            with traces.current(self.parent):
                # q_k = (x_k - sum of q_j y_(k-j) for j < k) / y_0.
                known = [
                    lax.mul(q[j], y[k - j])
                    for j in range(k)
                    if q[j] is not None and y[k - j] is not None
                ]
                top = x[k]
                if known:
                    top = lax.sub(self.filled(x, k), self.total(known))
                return None if top is None else lax.div(top, y[0])

        with traces.current(self.parent):
            q = _Series(lax.div(x[0], y[0]), term)
        return q

    def derivative(self, x: Any) -> Any:
        """x' as a value of this trace, for a rule of forward mode."""
        aval = aval_of(x)
        if not self.is_own(x) or not is_inexact(aval):
            return Zero(tangent_aval(aval))
        # The terms of x' start at term 1 of x.
        s = x.series

        def term(k: int) -> Any:
            # Term k of x' is (k + 1) times term k + 1 of x, as there are no factorials in terms.
            if s[k + 1] is None:
                return None
            with traces.current(self.parent):
                return lax.mul(s[k + 1], np.array(k + 1, aval.dtype)[()])

        return JetTracer(self, _Series(self.filled(_Series(s[0], lambda _: term(0)), 1), term))

    def by_rule(self, prim: Primitive, args: tuple, params: dict, first: Any) -> Any:
        """y, with y' from the forward-mode rule, which runs when a term is needed."""
        slopes: list = []

        def slope(i: int) -> _Series | None:
            # Once for all terms, and as late as possible: the rule may need results that are being
            # made.
            if not slopes:
                tangents = [self.derivative(x) for x in args]
                with traces.current(self):
                    _, found = jvp_of(prim, list(args), tangents, params)
                slopes.extend(found if prim.multiple_results else [found])
            return None if is_zero(slopes[i]) else self.series_of(slopes[i])

        def maker(i: int) -> Callable[[int], Any]:
            def term(k: int) -> Any:
                s = slope(i)
                # Integrated: term k of y is term k - 1 of y' over k.
                if s is None or s[k - 1] is None:
                    return None
                with traces.current(self.parent):
                    return lax.div(s[k - 1], np.array(k, aval_of(s[0]).dtype)[()])

            return term

        if not prim.multiple_results:
            return JetTracer(self, _Series(first, maker(0)))
        return [
            JetTracer(self, _Series(x, maker(i))) if is_inexact(aval_of(x)) else x
            for i, x in enumerate(first)
        ]

    def by_given_rule(self, rule: Rule, prim: Primitive, args: tuple, params: dict) -> Any:
        """Return the result of a user's rule, which takes and returns lists of terms."""
        series = [self.series_of(x) for x in args]

        @functools.cache
        def terms_up_to(k: int) -> tuple[Any, Any]:
            given = [[self.filled(s, j) for j in range(1, k + 1)] for s in series]
            with traces.current(self.parent):
                return rule([s[0] for s in series], given, **params)

        # Only the requested terms: others of an operand may need this very result.
        def made(first: Any, found: Callable[[Any], Any]) -> JetTracer:
            def term(k: int) -> Any:
                terms = found(terms_up_to(k)[1])
                zero = terms is zero_series or terms[k - 1] is zero_term
                return None if zero else terms[k - 1]

            return JetTracer(self, _Series(first, term))

        # The values come from the run that term 1 needs, too.
        first = terms_up_to(min(self.order, 1))[0]
        if not prim.multiple_results:
            return made(first, lambda found: found)
        return [made(x, lambda found, i=i: found[i]) for i, x in enumerate(first)]

    # ---- whole series, for bodies of loops ----

    def lists(self, x: Any) -> Any:
        """All terms of a value as a list of arrays; a value without derivative is returned
        unchanged.
        """
        if not is_inexact(aval_of(x)):
            return self.series_of(x)[0]
        s = self.series_of(x)
        return [self.filled(s, k) for k in range(self.order + 1)]

    def boxed(self, x: Any) -> Any:
        """The value of a list of terms."""
        if not isinstance(x, list):
            return x
        return JetTracer(self, _Series(x[0], lambda k: x[k]))


def _name(x: Any) -> Any:
    """A key that identifies a value: numbers by value, arrays by identity."""
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return (type(x).__name__, np.asarray(x).dtype.str, np.asarray(x).tobytes())
    return id(x)


def _run(fun: Callable, values: Sequence, order: int) -> tuple[list, Any]:
    """The results of a function of flat values, as lists of terms; values are such lists, too.

    The second result is the auxiliary output of `fun`.
    """
    outer = traces.state.trace
    trace = JetTrace(outer, order)
    try:
        with traces.current(trace):
            out, aux = fun(*[trace.boxed(x) for x in values])
        return [trace.lists(traces.immutable(x)) for x in out], aux
    finally:
        traces.state.trace = outer
        trace.alive = False


def _of_graph(graph: Graph, order: int) -> Callable:
    return lambda *values: _run(lambda *xs: (evaluate(graph, *xs), None), values, order)[0]


def _cond(trace: JetTrace, params: dict, args: list) -> list:
    index, *operands = (trace.lists(x) for x in args)
    # Control flow carries whole lists of terms: its Graphs are run on separate series, with
    # separate tracers.
    branches = [_of_graph(graph, trace.order) for graph in params["branches"]]
    with traces.current(trace.parent):
        found = lax.switch(index, branches, *operands)
    return [trace.boxed(x) for x in found]


def _while(trace: JetTrace, params: dict, args: list) -> list:
    whole = [trace.lists(x) for x in args]
    first, second, carry = cut(whole, params["cond_nconsts"], params["body_nconsts"])
    # A condition looks at values only: a truth has no slope.
    plain = lambda xs: [x[0] if isinstance(x, list) else x for x in xs]
    body = _of_graph(params["body_jaxpr"], trace.order)
    with traces.current(trace.parent):
        found = lax.while_loop(
            lambda c: evaluate(params["cond_jaxpr"], *plain([*first, *c]))[0],
            lambda c: body(*second, *c),
            carry,
        )
    return [trace.boxed(x) for x in found]


def _scan(trace: JetTrace, params: dict, args: list) -> list:
    whole = [trace.lists(x) for x in args]
    consts, carry, xs = cut(whole, params["num_consts"], params["num_carry"])
    body = _of_graph(params["jaxpr"], trace.order)

    def step(c: list, x: list) -> tuple[list, list]:
        new, y = cut(body(*consts, *c, *x), len(carry))
        return new, y

    options = {name: params[name] for name in ("length", "reverse")}
    with traces.current(trace.parent):
        last, ys = lax.scan(step, carry, xs, **options)
    return [trace.boxed(x) for x in (*last, *ys)]


_CONTROL: dict[Primitive, Callable] = {cond_p: _cond, while_p: _while, scan_p: _scan}


@boundary
def jet(
    fun: Callable, primals: Sequence, series: Sequence, factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """The Taylor series of `fun` of a path: (fun(*primals), higher terms).

    The result is fun's, and in the place of each of its arrays the list of its terms.

    Parameters
    ----------
    primals :
        The arguments, each an array.
    series :
        For each argument a list of terms, the same number for all.
    factorial_scaled :
        Whether term k is the k-th derivative along the path; False: that over k!, the coefficient
        of the series.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.jet import jet
    >>> value, (first, second) = jet(gnp.exp, (0.0,), ([1.0, 0.0],))
    >>> float(value), float(first), float(second)
    (1.0, 1.0, 1.0)
    """
    orders = {len(terms) for terms in series}
    if len(orders) != 1 or len(series) != len(primals):
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    (order,) = orders
    values = []
    for i, (x, terms) in enumerate(zip(primals, series, strict=True)):
        if not tree.treedef_is_leaf(tree.tree_structure(x)):
            raise ValueError(f"primal value at position {i} is not an array")
        for j, term in enumerate(terms):
            if not tree.treedef_is_leaf(tree.tree_structure(term)):
                raise ValueError(f"term {j} for argument {i} is not an array")
        values.append(_terms(gnp.asarray(x), terms, factorial_scaled))
    found, out_spec = _run(lambda *xs: tree.flatten(fun(*xs)), values, order)
    firsts, rest = [], []
    for x in found:
        # A value without derivative has no terms: they are zeros.
        x = x if isinstance(x, list) else [x, *[gnp.zeros_like(x)] * order]
        firsts.append(x[0])
        rest.append([_scaled(t, k + 1, factorial_scaled) for k, t in enumerate(x[1:])])
    return tree.unflatten(out_spec, firsts), tree.unflatten(out_spec, rest)


def fact(n: Any) -> Array:
    """n! as a float, for n that may be traced.

    >>> from gpuarray.experimental.jet import fact
    >>> fact(5).round(3)
    Array(120., dtype=float32, weak_type=True)
    """
    return lax.exp(lax.lgamma(n + 1.0))


def _terms(x: Array, terms: Sequence, factorial_scaled: bool) -> Any:
    """A value and its terms, of its dtype, without factorials; a bool has none."""
    if x.dtype == bool:
        return x
    if not is_inexact(x.aval):
        raise TypeError(f"jet differentiates floats and complex numbers, got {x.dtype}")
    found = [lax.convert_element_type(gnp.asarray(t), x.dtype) for t in terms]
    if factorial_scaled:
        found = [t / x.dtype.type(math.factorial(k + 1)) for k, t in enumerate(found)]
    return [x, *(gnp.broadcast_to(t, x.shape) for t in found)]


def _scaled(term: Array, k: int, factorial_scaled: bool) -> Array:
    if not factorial_scaled or not is_inexact(aval_of(term)):
        return term
    return term * np.array(math.factorial(k), term.dtype)[()]


# ---- rules of users ----


class ZeroTerm:
    """The type of `zero_term`, which a rule may give in the place of a term that is zero.

    >>> from gpuarray.experimental import jet
    >>> isinstance(jet.zero_term, jet.ZeroTerm)
    True
    """


class ZeroSeries:
    """The type of `zero_series`, which a rule may give in the place of terms that are all zero.

    >>> from gpuarray.experimental import jet
    >>> isinstance(jet.zero_series, jet.ZeroSeries)
    True
    """


zero_term = ZeroTerm()
zero_series = ZeroSeries()
tree.register_pytree_node(ZeroTerm, lambda _: ((), None), lambda *_: zero_term)
tree.register_pytree_node(ZeroSeries, lambda _: ((), None), lambda *_: zero_series)

#: rule(values, their terms, **params) -> (result, its terms), without factorials.
Rule = Callable[..., tuple[Any, Any]]
jet_rules: dict[Primitive, Rule] = {}


def defzero(prim: Primitive) -> None:
    """Declare that results of an operation do not change with its operands.

    >>> from gpuarray.experimental import jet
    >>> from gpuarray.extend.core import Primitive
    >>> count_p = Primitive("count")
    >>> _ = count_p.def_abstract_eval(lambda x: x), count_p.def_impl(lambda x: x.round())
    >>> jet.defzero(count_p)
    >>> jet.jet(count_p.bind, (2.25,), ((1.0,),))[1]
    [Array(0., dtype=float32)]
    """
    jet_rules[prim] = functools.partial(zero_prop, prim)


def zero_prop(prim: Primitive, primals_in: Sequence, series_in: Sequence, **params: Any) -> Any:
    """The rule that `defzero` gives.

    >>> from gpuarray import lax
    >>> from gpuarray.experimental import jet
    >>> value, terms = jet.zero_prop(lax.floor_p, (2.5,), ((1.0,),))
    >>> float(value), terms is jet.zero_series
    (2.0, True)
    """
    return prim.bind(*primals_in, **params), zero_series


def deflinear(prim: Primitive) -> None:
    """Declare that an operation is linear in all of its operands together.

    >>> from gpuarray.experimental import jet
    >>> from gpuarray.extend.core import Primitive
    >>> twice_p = Primitive("twice")
    >>> _ = twice_p.def_abstract_eval(lambda x: x), twice_p.def_impl(lambda x: 2 * x)
    >>> jet.deflinear(twice_p)
    >>> [float(t) for t in jet.jet(twice_p.bind, (1.0,), ((3.0, 4.0),))[1]]
    [6.0, 8.0]
    """
    jet_rules[prim] = functools.partial(linear_prop, prim)


def linear_prop(prim: Primitive, primals_in: Sequence, series_in: Sequence, **params: Any) -> Any:
    """The rule that `deflinear` gives.

    >>> from gpuarray import lax
    >>> from gpuarray.experimental import jet
    >>> value, terms = jet.linear_prop(lax.neg_p, (2.5,), ((1.0, 3.0),))
    >>> float(value), [float(t) for t in terms]
    (-2.5, [-1.0, -3.0])
    """
    terms = [prim.bind(*of_one, **params) for of_one in zip(*series_in, strict=True)]
    if prim.multiple_results:
        terms = [list(of_result) for of_result in zip(*terms, strict=True)]
    return prim.bind(*primals_in, **params), terms


def def_deriv(prim: Primitive, deriv: Callable[[Any], Any]) -> None:
    """Define the derivative of an operation of one operand, as a function.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import jet
    >>> from gpuarray.extend.core import Primitive
    >>> cube_p = Primitive("cube")
    >>> _ = cube_p.def_abstract_eval(lambda x: x), cube_p.def_impl(lambda x: x**3)
    >>> jet.def_deriv(cube_p, lambda x: 3 * x * x)
    >>> [float(t) for t in jet.jet(cube_p.bind, (2.0,), ((1.0, 0.0, 0.0),))[1]]
    [12.0, 12.0, 6.0]
    """
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def deriv_prop(
    prim: Primitive, deriv: Callable[[Any], Any], primals_in: Sequence, series_in: Sequence
) -> Any:
    """The rule that `def_deriv` gives.

    >>> from gpuarray import lax
    >>> from gpuarray.experimental import jet
    >>> value, terms = jet.deriv_prop(lax.square_p, lambda x: 2 * x, (3.0,), ((1.0, 0.0),))
    >>> float(value), [float(t) for t in terms]
    (9.0, [6.0, 1.0])
    """
    (x,), (terms,) = primals_in, series_in
    # y' = f'(x) x', integrated: term k of y is the sum of j x_j d_(k - j) over k.
    slope = jet(deriv, (x,), ([*terms[:-1]],), factorial_scaled=False)
    d = [slope[0], *slope[1]]
    found = [
        sum(j * d[k - j] * terms[j - 1] for j in range(1, k + 1)) / k
        for k in range(1, len(terms) + 1)
    ]
    return prim.bind(x), found


def def_comp(prim: Primitive, comp: Callable[..., Any], **kwargs: Any) -> None:
    """Define an operation as a function of its operands in terms of others.

    >>> from gpuarray.experimental import jet
    >>> from gpuarray.extend.core import Primitive
    >>> sum_p = Primitive("sum_of_squares")
    >>> _ = sum_p.def_abstract_eval(lambda x, y: x)
    >>> jet.def_comp(sum_p, lambda x, y: x * x + y * y)
    >>> [float(t) for t in jet.jet(sum_p.bind, (1.0, 2.0), ((1.0, 0.0), (1.0, 0.0)))[1]]
    [6.0, 4.0]
    """

    def rule(primals_in: Sequence, series_in: Sequence, **params: Any) -> Any:
        function = functools.partial(comp, **params)
        return jet(function, primals_in, series_in, **({"factorial_scaled": False} | kwargs))

    jet_rules[prim] = rule


__getattr__ = _explain_names(__name__)
