"""Derivatives of primitives, as tables and short ways to fill them.

Floor 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.core.linear import Undefined as UndefinedPrimal
from gpuarray.core.linear import Zero as Zero
from gpuarray.core.linear import is_zero
from gpuarray.core.primitive import LINEAR, Primitive
from gpuarray.interpreters.tables import RuleTable
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.linear import add_any as add_tangents
from gpuarray.primitives.linear import broadcast_like
from gpuarray.primitives.linear import instantiate as instantiate_zeros
from gpuarray.transforms.jvp import JVPTracer as JVPTracer
from gpuarray.transforms.jvp import jvp_of

__all__ = [
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "deflinear2",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
]


# Rules written for JAX get tuples; the slots of primitives here are called with lists.
def _of_tuples(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda primals, tangents, **params: rule(tuple(primals), tuple(tangents), **params)


def _jvp_function(entry) -> Callable[..., Any]:
    prim, _ = entry
    return lambda primals, tangents, **params: jvp_of(prim, list(primals), list(tangents), params)


#: rule(primals, tangents, **params) -> (results, their tangents); a tangent may be a Zero.
primitive_jvps = RuleTable("jvp", _of_tuples, _jvp_function)
#: rule(cotangent, *operands, **params) -> a cotangent an operand, None where it is not linear.
primitive_transposes = RuleTable("transpose", lambda rule: rule, lambda entry: entry[1])


def is_undefined_primal(x: Any) -> bool:
    """Whether an operand of a transpose rule is one that cotangents are wanted for.

    >>> from gpuarray.interpreters import ad
    >>> ad.is_undefined_primal(1.0)
    False
    """
    return isinstance(x, UndefinedPrimal)


def defjvp(prim: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Give a function an operand: rule(tangent, *operands, **params) is its share of the tangent.

    >>> from gpuarray.extend.core import Primitive
    >>> from gpuarray.interpreters import ad
    >>> cube_p = Primitive("cube")
    >>> _ = cube_p.def_abstract_eval(lambda x: x), cube_p.def_impl(lambda x: x**3)
    >>> ad.defjvp(cube_p, lambda t, x: t * 3 * x**2)
    >>> import gpuarray as ga
    >>> ga.grad(cube_p.bind)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """

    def rule(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        total: Any = None
        # The tangent is the sum of a share for each operand; shares that are zero are left out.
        for share, t in zip(rules, tangents, strict=True):
            if share is None or is_zero(t):
                continue
            # A rule may give a share of fewer axes, when its operand was broadcast.
            part = broadcast_like(share(t, *primals, **params), aval_of(out))
            total = part if total is None else add_tangents(total, part)
        return out, Zero(aval_of(out)) if total is None else total

    primitive_jvps[prim] = rule


def deflinear2(prim: Primitive, transpose: Callable[..., Any]) -> None:
    """Say that an operation is linear, and give its transpose: rule(ct, *operands, **params)."""
    prim.jvp = LINEAR
    primitive_transposes[prim] = transpose


def defbilinear(prim: Primitive, left: Callable[..., Any], right: Callable[..., Any]) -> None:
    """Say that an operation of two operands is linear in each.

    left: rule(ct, x, y, **params) -> the cotangent of x, of which only the aval is known; right
    likewise for y
    """

    # The transpose is taken in one operand at a time: the other one is known.
    def transpose(ct, x, y, **params):
        if is_undefined_primal(x):
            return left(ct, x, y, **params), None
        return None, right(ct, x, y, **params)

    defjvp(
        prim,
        lambda t, x, y, **params: prim.bind(t, y, **params),
        lambda t, x, y, **params: prim.bind(x, t, **params),
    )
    primitive_transposes[prim] = transpose


__getattr__ = _explain_names(__name__)
