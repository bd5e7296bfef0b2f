"""Batching rules of primitives, as tables and short ways to fill them.

Floor 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.primitive import Kind, Primitive
from gpuarray.functions.vmappable import register_vmappable as register_vmappable
from gpuarray.functions.vmappable import unregister_vmappable as unregister_vmappable
from gpuarray.interpreters.tables import RuleTable
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.axes import move_axis as moveaxis
from gpuarray.transforms.batch import BatchAxis, batch_of, batch_pointwise
from gpuarray.transforms.batch import BatchTracer as BatchTracer

__all__ = [
    "BatchTracer",
    "axis_primitive_batchers",
    "defbroadcasting",
    "defvectorized",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
    "unregister_vmappable",
]

#: The batch dimension of an operand that has none.
not_mapped = None


# Into the slot: a rule of one of three signatures as one of (axis, args, dims).
def _without_axis(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(tuple(args), tuple(dims), **params)


def _with_axis(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(axis, tuple(args), tuple(dims), **params)


def _with_size_and_name(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(
        axis.size, axis.name, None, tuple(args), tuple(dims), **params
    )


# Out of the slot: the rule of a primitive of the library, in each of the three signatures.
def _rule_of(entry) -> Callable[..., Any]:
    prim, _ = entry

    def rule(args, dims, **params):
        raise TypeError(
            f"the batching rule of '{prim.name}' needs the mapped axis: use "
            "fancy_primitive_batchers[primitive](axis, args, dims, **params)"
        )

    return rule


def _axis_rule_of(entry) -> Callable[..., Any]:
    prim, _ = entry
    return lambda axis, args, dims, **params: batch_of(prim, axis, list(args), list(dims), params)


def _size_rule_of(entry) -> Callable[..., Any]:
    prim, _ = entry
    return lambda size, name, _, args, dims, **params: batch_of(
        prim, BatchAxis(size, name), list(args), list(dims), params
    )


# Kinds that say enough about an operation to batch it: its slot stays empty.
_IMPLIED = frozenset({Kind.POINTWISE, Kind.REDUCTION})
#: rule(operands, dims, **params) -> (results, their dims); a dim of None: no extra axis.
primitive_batchers = RuleTable("batch", _without_axis, _rule_of, _IMPLIED)
#: The same with the mapped axis in front, which has a size and a name.
fancy_primitive_batchers = RuleTable("batch", _with_axis, _axis_rule_of, _IMPLIED)
#: The same with the axis as its size, its name and None (what was a kind of trace).
axis_primitive_batchers = RuleTable("batch", _with_size_and_name, _size_rule_of, _IMPLIED)


def defvectorized(prim: Primitive) -> None:
    """Say that an operation works on each element alone.

    >>> from gpuarray.extend.core import Primitive
    >>> from gpuarray.interpreters import batching
    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> half_p = Primitive("half")
    >>> _ = half_p.def_abstract_eval(lambda x: x), half_p.def_impl(lambda x: x / 2)
    >>> batching.defvectorized(half_p)
    >>> ga.vmap(half_p.bind)(gnp.ones(2))
    Array([0.5, 0.5], dtype=float32)
    """
    fancy_primitive_batchers[prim] = lambda axis, args, dims, **params: batch_pointwise(
        prim, axis, list(args), list(dims), params
    )


#: Operands of several ranks are brought to one: `batch_pointwise` does it for both.
defbroadcasting = defvectorized

__getattr__ = _explain_names(__name__)
