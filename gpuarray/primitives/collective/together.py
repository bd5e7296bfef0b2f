"""Several exchanges of one kind as one: the operations of buckets (compiler/partition/buckets.py).

Floor 2. In: operands of all_gather, or of reduce_scatter, that go to the same devices. Out: a
collective with a result for each, equal to that of a separate exchange of that operand. An engine
sends them together, in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core.primitive import NOT_DIFFERENTIABLE, NOT_LINEAR, Kind, Primitive
from gpuarray.primitives.collective import ops


def _together(alone: Primitive) -> Primitive:
    """Define several exchanges as one; `each` has the params in which they may differ."""

    def avals(*given, each: tuple, **shared):
        return [
            alone.out_avals([a], {**shared, **own})[0] for a, own in zip(given, each, strict=True)
        ]

    def batch(axis, args, dims, *, each: tuple, **shared):
        found = [
            alone.batch(axis, [x], [d], **shared, **own)  # pyright: ignore[reportCallIssue]
            for x, d, own in zip(args, dims, each, strict=True)
        ]
        return [x for x, _ in found], [dim for _, dim in found]

    return Primitive(
        f"{alone.name}_together",
        Kind.COLLECTIVE,
        multiple_results=True,
        aval=avals,
        numpy=alone.numpy,
        # Made where a program is partitioned, behind all derivatives.
        jvp=NOT_DIFFERENTIABLE,
        transpose=NOT_LINEAR,
        batch=batch,
    )


all_gather_together_p = _together(ops.all_gather_p)
reduce_scatter_together_p = _together(ops.reduce_scatter_p)

#: Operations of one operand -> the one of several; and the params in which these may differ.
_SEVERAL = {
    ops.all_gather_p: (all_gather_together_p, ("all_gather_dimension", "tiled")),
    ops.all_gather_invariant_p: (all_gather_together_p, ("all_gather_dimension", "tiled")),
    ops.reduce_scatter_p: (reduce_scatter_together_p, ("scatter_dimension", "tiled")),
}
_ALONE = {
    all_gather_together_p: ops.all_gather_p,
    reduce_scatter_together_p: ops.reduce_scatter_p,
}


#: Operations -> the exchange that they are in a network's model (compiler/partition/network.py).
_EXCHANGES = {
    ops.psum_p: "all_reduce",
    ops.pmax_p: "all_reduce",
    ops.pmin_p: "all_reduce",
    ops.all_gather_p: "all_gather",
    ops.all_gather_invariant_p: "all_gather",
    ops.reduce_scatter_p: "reduce_scatter",
    ops.all_to_all_p: "all_to_all",
    ops.ppermute_p: "permute",
}


def exchange_of(prim: Primitive) -> str | None:
    """Return the name of an operation in a network's model; None for one that sends nothing.

    >>> exchange_of(ops.psum_p), exchange_of(all_gather_together_p)
    ('all_reduce', 'all_gather')
    """
    return _EXCHANGES.get(alone(prim))


def takes_several(prim: Primitive) -> bool:
    """Whether exchanges of this kind can be merged: it has several operands, or there is a variant
    that has.
    """
    return prim in _EXCHANGES and (prim.multiple_results or prim in _SEVERAL)


def alone(prim: Primitive) -> Primitive:
    """Return the exchange of one operand that corresponds to one of several; else the operation.

    >>> alone(all_gather_together_p)
    all_gather
    """
    return _ALONE.get(prim, prim)


def members(prim: Primitive, params: dict, count: int) -> list[dict]:
    """Return the params of the exchange of each of `count` operands."""
    if prim not in _ALONE:
        return [params] * count
    shared = {k: v for k, v in params.items() if k != "each"}
    return [{**shared, **own} for own in params["each"]]


def shared_params(prim: Primitive, params: dict) -> tuple[Primitive, dict] | None:
    """Return the merged form of an exchange, and the params that merged exchanges must share.

    None if it cannot be merged.
    """
    if prim not in _SEVERAL:
        return None
    several, own = _SEVERAL[prim]
    return several, {k: v for k, v in params.items() if k not in own}


def joined_params(prim: Primitive, given: Sequence[dict]) -> dict[str, Any]:
    """Return the params of several merged exchanges, given those of each."""
    _, own = _SEVERAL[prim]
    common = {k: v for k, v in given[0].items() if k not in own}
    return {**common, "each": tuple({k: params[k] for k in own} for params in given)}
