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
from gpuarray.primitives.batching import BatchAxis, batch_of, batch_pointwise, batch_reduction
from gpuarray.transforms.batch import BatchTracer as BatchTracer
from gpuarray.transforms.batch import matched

__all__ = [
    "BatchTracer",
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
    "unregister_vmappable",
]

#: The batch dimension of an operand without one.
not_mapped = None


# Setter: convert a rule of one of three signatures to one of (axis, args, dims).
def _without_axis(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(tuple(args), tuple(dims), **params)


def _with_axis(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(axis, tuple(args), tuple(dims), **params)


def _with_size_and_name(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(
        axis.size, axis.name, None, tuple(args), tuple(dims), **params
    )


# Getter: the rule of a primitive of the library, in each of the three signatures.
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
#: The same with the axis as its size, its name and None (formerly the type of the trace).
axis_primitive_batchers = RuleTable("batch", _with_size_and_name, _size_rule_of, _IMPLIED)


def defvectorized(prim: Primitive) -> None:
    """Declare that an operation works elementwise.

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


def defreducer(prim: Primitive) -> None:
    """Define that an operation of one operand reduces the axes in its param `axes`.

    >>> from gpuarray.extend.core import Primitive, ShapedArray
    >>> from gpuarray.interpreters import batching
    >>> import numpy as np, gpuarray as ga, gpuarray.numpy as gnp
    >>> total_p = Primitive("total")
    >>> _ = total_p.def_impl(lambda x, axes: np.sum(x, axes))
    >>> _ = total_p.def_abstract_eval(lambda x, axes: ShapedArray(x.shape[1:], x.dtype))
    >>> batching.defreducer(total_p)
    >>> ga.vmap(lambda x: total_p.bind(x, axes=(0,)))(gnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    fancy_primitive_batchers[prim] = lambda axis, args, dims, **params: batch_reduction(
        prim, axis, list(args), list(dims), params
    )


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """`x` repeated along a new axis.

    Parameters
    ----------
    mesh_axis :
        Taken where a value is not cut along mesh axes.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.interpreters import batching
    >>> batching.broadcast(gnp.arange(2), 3, 0).shape
    (3, 2)
    """
    if mesh_axis is not None:
        raise ValueError(f"broadcast lays no axis along a mesh axis, got mesh_axis={mesh_axis!r}")
    return matched(x, None, axis, sz)


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """An operand with its batch dimension in front; one without is repeated.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.interpreters import batching
    >>> batching.bdim_at_front(gnp.ones((2, 3)), 1, 3).shape
    (3, 2)
    """
    return broadcast(x, size, 0, mesh_axis) if bdim is None else moveaxis(x, bdim, 0)


#: Operands of several ranks are brought to one: `batch_pointwise` does it for both.
defbroadcasting = defvectorized

__getattr__ = _explain_names(__name__)
