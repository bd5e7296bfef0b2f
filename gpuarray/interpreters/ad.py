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
from gpuarray.core.primitive import LINEAR, Primitive, registry
from gpuarray.errors import MissingRuleError
from gpuarray.interpreters.tables import RuleTable
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.linear import add_any as add_tangents
from gpuarray.primitives.linear import broadcast_like
from gpuarray.primitives.linear import instantiate as instantiate_zeros
from gpuarray.primitives.linear import zeros as zeros_like_aval
from gpuarray.transforms.jvp import JVPTrace as JVPTrace
from gpuarray.transforms.jvp import JVPTracer as JVPTracer
from gpuarray.transforms.jvp import jvp_of

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]


# Rules written for JAX get tuples; the slots of primitives here are called with lists.
def _of_tuples(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda primals, tangents, **params: rule(tuple(primals), tuple(tangents), **params)


def _jvp_function(entry) -> Callable[..., Any]:
    prim, _ = entry
    return lambda primals, tangents, **params: jvp_of(prim, list(primals), list(tangents), params)


#: rule(primals, tangents, **params) -> (results, their tangents); a tangent may be a Zero.
primitive_jvps = RuleTable("jvp", _of_tuples, _jvp_function)
#: rule(cotangent, *operands, **params) -> a cotangent for each operand, None where it is not
#: linear.
primitive_transposes = RuleTable("transpose", lambda rule: rule, lambda entry: entry[1])


def is_undefined_primal(x: Any) -> bool:
    """Whether an operand of a transpose rule is one that cotangents are wanted for.

    >>> from gpuarray.interpreters import ad
    >>> ad.is_undefined_primal(1.0)
    False
    """
    return isinstance(x, UndefinedPrimal)


def defjvp(prim: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Give one function for each operand: rule(tangent, *operands, **params) is its share of the
    tangent.

    >>> from gpuarray.extend.core import Primitive
    >>> from gpuarray.interpreters import ad
    >>> cube_p = Primitive("cube")
    >>> _ = cube_p.def_abstract_eval(lambda x: x), cube_p.def_impl(lambda x: x**3)
    >>> ad.defjvp(cube_p, lambda t, x: t * 3 * x**2)
    >>> import gpuarray as ga
    >>> ga.grad(cube_p.bind)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """

    _defjvp(prim, rules, lambda share, t, out, primals, params: share(t, *primals, **params))


def _defjvp(prim: Primitive, rules: tuple, apply: Callable[..., Any]) -> None:
    """A jvp rule from shares; `apply(share, tangent, out, primals, params)` gives each."""

    def rule(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        total: Any = None
        # The tangent is the sum of a share for each operand; shares that are zero are left out.
        for share, t in zip(rules, tangents, strict=True):
            if share is None or is_zero(t):
                continue
            # A rule may give a share of fewer axes, when its operand was broadcast.
            part = broadcast_like(apply(share, t, out, primals, params), aval_of(out))
            total = part if total is None else add_tangents(total, part)
        return out, Zero(aval_of(out)) if total is None else total

    primitive_jvps[prim] = rule


def deflinear2(prim: Primitive, transpose: Callable[..., Any]) -> None:
    """Declare that an operation is linear, and give its transpose: rule(ct, *operands,
    **params).
    """
    prim.jvp = LINEAR
    primitive_transposes[prim] = transpose


def deflinear(prim: Primitive, transpose: Callable[..., Any]) -> None:
    """The same with a rule of the cotangent alone: rule(ct, **params) -> one for each operand.

    >>> from gpuarray.extend.core import Primitive
    >>> from gpuarray.interpreters import ad
    >>> twice_p = Primitive("twice")
    >>> _ = twice_p.def_abstract_eval(lambda x: x), twice_p.def_impl(lambda x: 2 * x)
    >>> ad.deflinear(twice_p, lambda ct: [2 * ct])
    >>> import gpuarray as ga
    >>> ga.grad(twice_p.bind)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    deflinear2(prim, lambda ct, *operands, **params: transpose(ct, **params))


def defjvp2(prim: Primitive, *rules: Callable[..., Any] | None) -> None:
    """As `defjvp`, with rules that are given the result: rule(tangent, out, *operands, **params).

    >>> from gpuarray.extend.core import Primitive
    >>> from gpuarray.interpreters import ad
    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> exp_p = Primitive("my_exp")
    >>> _ = exp_p.def_abstract_eval(lambda x: x), exp_p.def_impl(gnp.exp)
    >>> ad.defjvp2(exp_p, lambda t, out, x: t * out)
    >>> ga.grad(exp_p.bind)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    _defjvp(prim, rules, lambda share, t, out, primals, params: share(t, out, *primals, **params))


def get_primitive_transpose(prim: Primitive) -> Callable[..., Any]:
    """The transpose rule of a primitive.

    >>> from gpuarray.extend.core import primitives
    >>> from gpuarray.interpreters import ad
    >>> callable(ad.get_primitive_transpose(primitives.reduce_sum_p))
    True
    """
    try:
        return primitive_transposes[prim]
    except KeyError:
        raise MissingRuleError(
            f"Transpose rule (for reverse-mode differentiation) for '{prim}' not implemented"
        ) from None


#: The sum of two cotangents, as a primitive and as a function.
add_jaxvals_p = registry["add_any"]


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two values, as the operation that adds cotangents in programs.

    >>> from gpuarray.interpreters import ad
    >>> ad.add_jaxvals(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return add_jaxvals_p.bind(x, y)


def defbilinear(prim: Primitive, left: Callable[..., Any], right: Callable[..., Any]) -> None:
    """Declare that an operation of two operands is linear in each.

    Parameters
    ----------
    left :
        rule(ct, x, y, **params) -> the cotangent of x, of which only the aval is known.
    right :
        The same for y.
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
