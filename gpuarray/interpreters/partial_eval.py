"""Partial evaluation: operations on known values are computed, the rest becomes a Graph.

Floor 6. In: a `WrappedFun` of flat values, some of which are known. Out: a Graph of the rest, and
for each result its value or its aval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.control.call import jit_p
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, Graph, Literal, Var, called, has_effect
from gpuarray.core.primitive import Primitive
from gpuarray.extend.linear_util import WrappedFun
from gpuarray.names import explain_names as _explain_names
from gpuarray.transforms.dead import narrowed
from gpuarray.transforms.partial import PartialTrace
from gpuarray.transforms.tracing import GraphTrace, TracedFunction, stage
from gpuarray.transforms.tracing import GraphTracer as DynamicJaxprTracer

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "Val",
    "dce_jaxpr",
    "dce_jaxpr_call_rule",
    "dce_jaxpr_closed_call_rule",
    "dce_jaxpr_consts",
    "dce_rules",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]

Val = Any
#: Unknown values are staged by the same tracer as those of `jit`.
JaxprTracer = DynamicJaxprTracer


class PartialVal(tuple):
    """A value that is either known, (None, value), or unknown, (aval, None).

    >>> from gpuarray.interpreters.partial_eval import PartialVal
    >>> PartialVal.known(2.0).get_known(), PartialVal.known(2.0).is_known()
    (2.0, True)
    """

    __slots__ = ()

    def __new__(cls, pair: tuple[ShapedArray | None, Any]):
        aval, value = pair
        if aval is not None and (value is not None or not isinstance(aval, ShapedArray)):
            raise TypeError(
                f"a PartialVal is (None, value) or (aval, None), got {pair!r}: use "
                "PartialVal.known(value) or PartialVal.unknown(aval)."
            )
        return super().__new__(cls, (aval, value))

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value that is known."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """An unknown value with this aval."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The known value, or None."""
        return self[1] if self.is_known() else None

    def get_aval(self) -> ShapedArray:
        """The aval, of a known value too."""
        return aval_of(self[1]) if self.is_known() else self[0]


def _flags(value: Any, count: int, name: str) -> Sequence[bool]:
    """A flag for each of several values, of an option that may be one for all."""
    if isinstance(value, bool):
        return [value] * count
    if not isinstance(value, Sequence) or len(value) != count:
        raise TypeError(f"{name} must be a bool, or a sequence of {count}, got {value!r}")
    return value


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Graph, list[PartialVal], list[Any]]:
    """Evaluate everything that known values determine: (Graph of the rest, results, the Graph's
    constants).

    The Graph takes the unknown values and gives the results that depend on them, and those that
    `instantiate` marks.

    >>> from gpuarray.extend import linear_util as lu
    >>> from gpuarray.extend.core import ShapedArray
    >>> from gpuarray.interpreters.partial_eval import PartialVal, trace_to_jaxpr_nounits
    >>> pvals = [PartialVal.known(3.0), PartialVal.unknown(ShapedArray((), "float32"))]
    >>> f = lu.wrap_init(lambda x, y: [x * x, x * y])
    >>> graph, (square, product), consts = trace_to_jaxpr_nounits(f, pvals)
    >>> square.get_known(), product.get_aval(), len(graph.eqns)
    (9.0, ShapedArray(float32[]), 1)
    """
    outer = traces.state.trace
    unknown = GraphTrace(TracedFunction(fun.f, "partial evaluation"))
    try:
        # Unknown values are inputs of the Graph, which records everything that depends on them.
        args = [p[1] if p.is_known() else unknown.new_input(p[0]) for p in pvals]
        with traces.current(PartialTrace(outer, unknown)):
            out = list(fun.call_wrapped(*args))
        forced = _flags(instantiate, len(out), "instantiate")
        # A result is unknown if the Graph makes it; others are values, unless they have to be in
        # it.
        staged = [
            force or (type(x) is DynamicJaxprTracer and x._trace is unknown)
            for x, force in zip(out, forced, strict=True)
        ]
        graph = unknown.finish([x for x, later in zip(out, staged, strict=True) if later])
    finally:
        # Whatever happens: tracers of an ended trace must raise, and others must find theirs.
        traces.state.trace = outer
        unknown.alive = False
    results = [
        PartialVal.unknown(aval_of(x)) if later else PartialVal.known(x)
        for x, later in zip(out, staged, strict=True)
    ]
    return graph, results, graph.consts


def trace_to_jaxpr_dynamic(
    fun: WrappedFun,
    in_avals: Sequence[ShapedArray],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Graph, list[ShapedArray], list[Any]]:
    """Trace a function of flat values: (Graph, the avals of its results, its constants).

    Parameters
    ----------
    keep_inputs :
        Which inputs the Graph is to have.
    lower :
        Accepted for compatibility; types that consist of arrays do not occur here.
    auto_dce :
        Whether to leave out equations whose results are not read.

    Examples
    --------

    >>> from gpuarray.extend import linear_util as lu
    >>> from gpuarray.extend.core import ShapedArray
    >>> from gpuarray.interpreters.partial_eval import trace_to_jaxpr_dynamic
    >>> f = lu.wrap_init(lambda x: [x * x])
    >>> trace_to_jaxpr_dynamic(f, [ShapedArray((3,), "float32")])[1]
    [ShapedArray(float32[3])]
    """
    graph = stage(fun.call_wrapped, in_avals, TracedFunction(fun.f, "jit"))
    if auto_dce:
        graph, _ = dce_jaxpr(graph, [True] * len(graph.outvars), True)
    if keep_inputs is not None:
        kept = _flags(keep_inputs, len(graph.invars), "keep_inputs")
        graph.invars = [v for v, keep in zip(graph.invars, kept, strict=True) if keep]
    return graph, graph.out_avals, graph.consts


#: rule(used results, eqn) -> (used operands, the equation with less in it, or None): how
#: `dce_jaxpr` shortens the Graphs that an equation holds.
DCERule = Callable[[list[bool], Eqn], tuple[list[bool], Eqn | None]]
dce_rules: dict[Primitive, DCERule] = {}


def dce_jaxpr(
    jaxpr: Graph, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Graph, list[bool]]:
    """The Graph of some of its results, and which of its inputs are left in it.

    `instantiate` marks inputs that are kept whether they are read or not. Constants are kept; loops
    and branches lose unread values.

    >>> import gpuarray as ga
    >>> from gpuarray.interpreters.partial_eval import dce_jaxpr
    >>> graph = ga.make_jaxpr(lambda x, y: (x * x, x + y))(1.0, 2.0)
    >>> short, used = dce_jaxpr(graph, [True, False])
    >>> used, len(short.eqns)
    ([True, False], 1)
    """
    forced = _flags(instantiate, len(jaxpr.invars), "instantiate")
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    read = {a for a in outvars if isinstance(a, Var)}
    kept: list[Eqn] = []
    # From the results backwards, so that one pass is enough.
    for eqn in reversed(jaxpr.eqns):
        used = [v in read for v in eqn.outvars]
        if not any(used) and not has_effect(eqn):
            continue
        # A rule may also remove the equation entirely.
        _, shorter = dce_rules.get(eqn.primitive, _whole)(used, eqn)
        if shorter is not None:
            kept.append(shorter)
            read.update(a for a in shorter.invars if not isinstance(a, Literal))
    used_inputs = [force or v in read for v, force in zip(jaxpr.invars, forced, strict=True)]
    short = Graph(
        [v for v, used in zip(jaxpr.invars, used_inputs, strict=True) if used],
        outvars,
        kept[::-1],
        jaxpr.constvars,
        jaxpr.consts,
        jaxpr.debug_name,
    )
    return short, used_inputs


def dce_jaxpr_consts(
    jaxpr: Graph, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Graph, list[bool], list[bool]]:
    """The same, and which of the Graph's constants are left in it: (Graph, constants, inputs).

    >>> import gpuarray as ga
    >>> from gpuarray.interpreters.partial_eval import dce_jaxpr_consts
    >>> graph = ga.make_jaxpr(lambda x, y: (x + 1, x * y))(1.0, 2.0).jaxpr
    >>> dce_jaxpr_consts(graph, [True, False])[1:]
    ([], [True, False])
    """
    short, used_inputs = dce_jaxpr(jaxpr, used_outputs, instantiate)
    read = {a for e in short.eqns for a in e.invars if isinstance(a, Var)}
    read.update(a for a in short.outvars if isinstance(a, Var))
    used_consts = [v in read for v in short.constvars]
    pairs = [p for p in zip(short.constvars, short.consts, strict=True) if p[0] in read]
    short = Graph(
        short.invars,
        short.outvars,
        short.eqns,
        [v for v, _ in pairs],
        [c for _, c in pairs],
        short.debug_name,
    )
    return short, used_consts, used_inputs


def _whole(used: list[bool], eqn: Eqn) -> tuple[list[bool], Eqn]:
    shorter = narrowed(eqn, used)
    read = {a for a in shorter.invars if not isinstance(a, Literal)}
    return [isinstance(a, Literal) or a in read for a in eqn.invars], shorter


def dce_jaxpr_closed_call_rule(used_outputs: list[bool], eqn: Eqn) -> tuple[list[bool], Eqn | None]:
    """The rule of equations that apply a Graph to their operands: the Graph becomes shorter."""
    body = called(eqn)
    if body is None:
        return _whole(used_outputs, eqn)
    if not any(used_outputs) and not has_effect(eqn):
        return [False] * len(eqn.invars), None
    short, used = dce_jaxpr(body, used_outputs)
    # Among a call's other params, one has an entry for each operand.
    donated = eqn.params.get("donated_invars")
    kept = donated and tuple(d for d, keep in zip(donated, used, strict=True) if keep)
    params = eqn.params | {"jaxpr": short}
    return used, eqn.replace(
        invars=[a for a, keep in zip(eqn.invars, used, strict=True) if keep],
        outvars=[v for v, keep in zip(eqn.outvars, used_outputs, strict=True) if keep],
        params=params | ({"donated_invars": kept} if donated else {}),
    )


dce_jaxpr_call_rule = dce_jaxpr_closed_call_rule
dce_rules[jit_p] = dce_jaxpr_closed_call_rule

__getattr__ = _explain_names(__name__)
