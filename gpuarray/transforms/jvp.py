"""Forward-mode derivatives: every value is accompanied by its tangent.

Floor 3. In: a function of flat values. Out: its results and their tangents. Primals are computed in
the ambient trace, so Python control flow on concrete values works.

A primitive's jvp rule is one of

- LINEAR: the operation itself, applied to tangents;
- BY_PARTS: the jvp of the primitives into which `decompose` splits the operation;
- (f0, f1, ...): a function for each operand, f(t, out, *primals, **params) -> its share of the
  tangent, or None where there is none;
- f(primals, tangents, **params) -> (out, tangent of out): everything else. Tangents may be Zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.linear import Zero, is_inexact, is_zero, tangent_aval
from gpuarray.core.primitive import BY_PARTS, LINEAR, NOT_DIFFERENTIABLE, Primitive, Sentinel
from gpuarray.core.value import Array
from gpuarray.errors import MissingRuleError
from gpuarray.primitives.linear import add_any, broadcast_like, instantiate
from gpuarray.transforms.leaks import check_leaks

_PYTHON = (bool, int, float, complex)


class JVPTracer(traces.Tracer):
    """A primal value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any):
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = aval_of(primal)

    @property
    def bare(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.primal.bare if isinstance(self.primal, Array) else True

    def origin(self) -> str:
        return self.primal.origin() if isinstance(self.primal, traces.Tracer) else ""

    # Concrete integers and booleans stay usable by Python; a float would lose its derivative.
    def __bool__(self):
        return bool(self.primal)

    def __int__(self):
        return int(self.primal)

    def __index__(self):
        return self.primal.__index__()

    def item(self, *args):
        return np.asarray(self.primal).item(*args)

    def __repr__(self) -> str:
        # Only the type of a staged derivative is known.
        staging = getattr(self._trace.parent, "unknown", None)
        if staging is not None and getattr(self.tangent, "_trace", None) is staging:
            of = self.tangent.aval.str_short(short_dtypes=True)
            return f"GradTracer(primal={self.primal}, typeof(tangent)={of})"
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


def _as_wide(x: Any, aval: ShapedArray) -> Any:
    # A Python number is of the width that it had when the derivative began.
    if type(x) in _PYTHON and aval_of(x).dtype != aval.dtype:
        return traces.array_of(x, aval)
    return x


class JVPTrace(traces.Trace):
    """Evaluates primals and tangents side by side, in the trace it was opened in."""

    transform = "jvp"

    def __init__(self, parent: traces.Trace):
        self.parent = parent

    def split(self, x: Any) -> tuple[Any, Any]:
        """Return the primal and the tangent of a value; values of other traces are constants."""
        if type(x) is JVPTracer and x._trace is self:
            return _as_wide(x.primal, x.aval), _as_wide(x.tangent, x.aval)
        return x, Zero(tangent_aval(aval_of(x)))

    def primal_of(self, x: Any) -> Any:
        """Return a value, not necessarily an array, without the tangent of this trace."""
        return x.primal if type(x) is JVPTracer and x._trace is self else x

    def box(self, primal: Any, tangent: Any) -> Any:
        # A zero tangent needs no box, so nothing downstream is differentiated in vain.
        return primal if is_zero(tangent) else JVPTracer(self, primal, tangent)

    def process(self, prim: Primitive, args: tuple, params: dict) -> Any:
        pairs = [self.split(a) for a in traces.same_widths(args)]
        primals = [p for p, _ in pairs]
        tangents = [t for _, t in pairs]
        assert self.parent is not None
        # Rules bind in the outer trace, where primals and tangents are ordinary values.
        with traces.current(self.parent):
            if all(is_zero(t) for t in tangents):
                return prim.bind(*primals, **params)
            out, out_tangents = jvp_of(prim, primals, tangents, params)
        if prim.multiple_results:
            return [self.box(p, t) for p, t in zip(out, out_tangents, strict=True)]
        return self.box(out, out_tangents)


def jvp_of(prim: Primitive, primals: list, tangents: list, params: dict) -> tuple[Any, Any]:
    """Apply a primitive's jvp rule; return results and their tangents."""
    rule = prim.jvp
    if rule is LINEAR:
        # Zeros are materialised: the operation needs all of its operands.
        out = prim.bind(*primals, **params)
        return out, prim.bind(*[instantiate(t) for t in tangents], **params)
    # The result is constant for differentiation, whatever the tangents.
    if rule is NOT_DIFFERENTIABLE:
        out = prim.bind(*primals, **params)
        if prim.multiple_results:
            return out, [Zero(tangent_aval(aval_of(x))) for x in out]
        return out, Zero(tangent_aval(aval_of(out)))
    if rule is BY_PARTS:
        return _jvp_by_parts(prim, primals, tangents, params)
    if isinstance(rule, Sentinel):
        raise MissingRuleError(
            f"Differentiation rule for '{prim.name}' not implemented: {rule.why}. Guard the value "
            "with gpuarray.lax.stop_gradient if its derivative is not wanted."
        )
    if isinstance(rule, tuple):
        return _sum_of_shares(prim, rule, primals, tangents, params)
    return rule(primals, tangents, **params)


# The jvp of the decomposition, run under a separate trace.
def _jvp_by_parts(prim: Primitive, primals: list, tangents: list, params: dict) -> tuple[Any, Any]:
    assert prim.decompose is not None
    made_of = prim.decompose

    def fun(*xs):
        out = made_of(*xs, **params)
        return out if prim.multiple_results else [out]

    out, out_tangents = jvp_flat(fun, primals, tangents)
    return (out, out_tangents) if prim.multiple_results else (out[0], out_tangents[0])


# Rules by operand: broadcast each share to the result, and add.
def _sum_of_shares(
    prim: Primitive, rules: tuple, primals: list, tangents: list, params: dict
) -> tuple[Any, Any]:
    out = prim.bind(*primals, **params)
    total: Any = None
    for rule, tangent in zip(rules, tangents, strict=True):
        # No share: the operand is not differentiable, or its tangent is zero.
        if rule is None or is_zero(tangent):
            continue
        share = broadcast_like(rule(tangent, out, *primals, **params), aval_of(out))
        total = share if total is None else add_any(total, share)
    return out, Zero(tangent_aval(aval_of(out))) if total is None else total


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any], parent=None
) -> tuple[list, list]:
    """Run a flat function on primals and tangents; return results and their tangents.

    Tangents given or returned may be Zero.
    """
    return jvp_aux(lambda *boxed: (fun(*boxed), None), primals, tangents, parent)[:2]


def jvp_aux(
    fun: Callable[..., tuple[Sequence[Any], Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    parent=None,
) -> tuple[list, list, Any]:
    """`jvp` for a function that also returns auxiliary output after its flat results."""
    outer = traces.state.trace
    trace = JVPTrace(outer if parent is None else parent)
    # Integers and keys have no tangent to carry.
    boxed = [
        trace.box(traces.immutable(p), t) if is_inexact(aval_of(p)) else p
        for p, t in zip(primals, tangents, strict=True)
    ]
    try:
        with traces.current(trace):
            outputs, aux = fun(*boxed)
    finally:
        traces.state.trace = outer
        trace.alive = False
    pairs = [trace.split(traces.immutable(x)) for x in outputs]
    # Drop local names, so that the leak check does not find tracers through them.
    del boxed, outputs
    check_leaks(trace, "JVPTrace of jvp")
    return [p for p, _ in pairs], [t for _, t in pairs], aux
