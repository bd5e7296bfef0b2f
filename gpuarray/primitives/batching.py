"""Batch rules: how an operation handles one more axis, by its own rule or by its kind.

Floor 2. In: an operation, values, and the position of each one's batch axis. Out: its results, with
theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuarray.core.avals import aval_of
from gpuarray.core.axes import NamedAxis, named_axes
from gpuarray.core.primitive import Kind, Primitive, Sentinel
from gpuarray.errors import MissingRuleError
from gpuarray.primitives.axes import add_axis, move_axis, set_rank


class BatchAxis(NamedTuple):
    """The mapped axis: its length and its name (None for an anonymous one).

    A `shard_map` inside cuts it along the mesh axes `spread`.
    """

    size: int
    name: Any = None
    spread: tuple = ()

    def known(self) -> named_axes:
        """Return the context manager that lets collectives know this axis by its name."""
        named = {} if self.name is None else {self.name: NamedAxis(self.size)}
        return named_axes(named, self.spread)


def batch_of(
    prim: Primitive, axis: BatchAxis, values: list, dims: list, params: dict
) -> tuple[Any, Any]:
    """Apply a primitive's batch rule, or the one that follows from its kind."""
    rule = prim.batch
    # The primitive's own rule comes first; the kinds have general ones.
    if not isinstance(rule, Sentinel):
        return rule(axis, values, dims, **params)
    if prim.kind is Kind.POINTWISE:
        return batch_pointwise(prim, axis, values, dims, params)
    if prim.kind is Kind.REDUCTION:
        return batch_reduction(prim, axis, values, dims, params)
    raise MissingRuleError(f"Batching rule for '{prim.name}' not implemented: {rule.why}")


def batch_pointwise(
    prim: Primitive, axis: BatchAxis, values: list, dims: list, params: dict
) -> tuple[Any, Any]:
    """Bind the same operation with the batch axis in front.

    Operands without it get an axis of length 1; scalars broadcast anyway.
    """
    # The rank of one element, which operands with fewer axes (scalars) broadcast to.
    rank = max(aval_of(v).ndim - (d is not None) for v, d in zip(values, dims, strict=True))
    shapes = {(aval_of(v).shape, d) for v, d in zip(values, dims, strict=True) if aval_of(v).ndim}
    if len(shapes) == 1 and all(
        d is not None or not aval_of(v).ndim for v, d in zip(values, dims, strict=True)
    ):
        dim = next(iter(shapes))[1]  # all alike: the batch axis stays where it is
    else:
        dim = 0
        values = [
            set_rank(move_axis(v, d, 0), rank + 1, keep_first=True)
            if d is not None
            else (v if not aval_of(v).ndim else add_axis(v, 0))
            for v, d in zip(values, dims, strict=True)
        ]
    out = prim.bind(*values, **params)
    return out, [dim] * len(out) if prim.multiple_results else dim


def batch_reduction(
    prim: Primitive, axis: BatchAxis, values: list, dims: list, params: dict
) -> tuple[Any, Any]:
    """Bind the same operation with its axes counted around the batch axis."""
    (value,), (dim,) = values, dims
    # Axes behind the batch axis move up by one, and the result's batch axis moves down again.
    axes = tuple(a + (a >= dim) for a in params["axes"])
    out = prim.bind(value, **(params | {"axes": axes}))
    out_dim = dim - sum(a < dim for a in axes)
    return out, [out_dim] * len(out) if prim.multiple_results else out_dim
