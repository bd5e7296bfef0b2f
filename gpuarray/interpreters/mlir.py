"""Lowering rules by JAX's names: a primitive defined by other primitives.

Floor 6. There is no MLIR here: a lowering is a function of arrays, whose operations the compiler
fuses with everything around.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.extended import ExtendedDType
from gpuarray.core.graph import Eqn, Graph
from gpuarray.core.primitive import Kind, Primitive, Sentinel
from gpuarray.lax.convert import convert
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.elementwise.extended import to_edtype_p
from gpuarray.transforms.tracing import TracedFunction, stage

__all__ = ["LoweringRule", "LoweringRuleContext", "lower_fun", "register_lowering"]


class LoweringRule(NamedTuple):
    """A function that computes a primitive by other operations."""

    function: Callable[..., Any]
    multiple_results: bool


class LoweringRuleContext:
    """What a lowering that builds MLIR takes, for annotations: nothing makes one here."""


# Replaces the rule for NumPy arrays of a primitive without one; using it raises this error.
_BUILDS_MLIR = Sentinel(
    "builds MLIR",
    "its lowering builds MLIR, and there is none here. Give it by def_impl(function_of_arrays), or "
    "register_lowering what lower_fun(function_of_arrays) makes",
)


def lower_fun(function: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """A function of arrays as the lowering of a primitive, see `register_lowering`.

    >>> from gpuarray.interpreters import mlir
    >>> mlir.lower_fun(lambda x: x**4, multiple_results=False).multiple_results
    False
    """
    return LoweringRule(function, multiple_results)


def register_lowering(prim: Primitive, rule: Any, platform: str | None = None) -> Any:
    """Set the lowering of a primitive, made by `lower_fun`. With a rule that builds MLIR instead,
    the primitive runs by its `def_impl`.

    >>> from gpuarray.extend.core import Primitive
    >>> from gpuarray.interpreters import mlir
    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> fourth_p = Primitive("fourth")
    >>> _ = fourth_p.def_abstract_eval(lambda x: x)
    >>> _ = mlir.register_lowering(fourth_p, mlir.lower_fun(lambda x: x**4, False))
    >>> ga.jit(fourth_p.bind)(gnp.float32(2))
    Array(16., dtype=float32)
    """
    if not isinstance(rule, LoweringRule):
        if not callable(rule):
            raise TypeError(
                f"the lowering of {prim.name!r} must be a function, got {rule!r}: give what "
                "lower_fun(function_of_arrays) makes."
            )
        # A `def_impl` given before or after wins over the sentinel.
        if isinstance(prim.numpy, Sentinel):
            prim.numpy = _BUILDS_MLIR
        return rule
    if platform is not None:
        raise NotImplementedError(
            f"a lowering holds for all platforms, got platform={platform!r} for {prim.name!r}: "
            "leave it out."
        )
    if rule.multiple_results != prim.multiple_results:
        raise ValueError(
            f"lower_fun(multiple_results={rule.multiple_results}) does not match primitive "
            f"{prim.name!r}, whose multiple_results is {prim.multiple_results}"
        )

    def flat(*xs, **params):
        out = rule.function(*xs, **params)
        # Only the shape rule knows which results are weakly typed.
        stated = prim.out_avals([aval_of(x) for x in xs], params)
        leaves = list(out) if prim.multiple_results else [out]
        return [_typed(x, aval) for x, aval in zip(leaves, stated, strict=True)]

    def inline(eqn: Eqn) -> Graph:
        function = functools.partial(flat, **eqn.params)
        info = TracedFunction(rule.function, "a lowering")
        return stage(function, [a.aval for a in eqn.invars], info)

    # A call: transformations and the compiler work on the operations inside.
    prim.kind = Kind.CALL
    prim.inline = inline
    prim.decompose = flat if prim.multiple_results else lambda *xs, **params: flat(*xs, **params)[0]
    return rule


def _typed(x: Any, stated: ShapedArray) -> Any:
    """Return a result of a lowering, as weakly typed as the primitive says."""
    aval = aval_of(x)
    # It may return the numbers that elements of an extended dtype consist of.
    if isinstance(stated.dtype, ExtendedDType):
        return to_edtype_p.bind(x, edtype=stated.dtype) if aval.dtype != stated.dtype else x
    if aval.dtype != stated.dtype or aval.weak_type == stated.weak_type:
        return x
    return convert(x, stated.dtype, stated.weak_type)


__getattr__ = _explain_names(__name__)
