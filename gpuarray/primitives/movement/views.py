"""Views as index maps: which element of the operand each element of the result is.

Floor 2. In: equations, and coordinates in their results. Out: coordinates in the operand
(core/index.py). Rules `_order` return for each axis of the result the operand axis, None for new
ones; or None as a whole, if axes are split or merged.
"""

from __future__ import annotations

from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index, ViewRule, linear, split


def _broadcast(eqn: Eqn, at: list[Index]) -> list[Index]:
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    dims = eqn.params["broadcast_dimensions"]
    # A stretched axis of the operand has one element, at position 0.
    return [at[d] if n == after[d] else Index() for n, d in zip(before, dims, strict=True)]


def _broadcast_order(eqn: Eqn) -> list[int | None]:
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    order: list[int | None] = [None] * len(after)
    for i, d in enumerate(eqn.params["broadcast_dimensions"]):
        # Where the operand's axis was stretched the result's axis is a new one.
        order[d] = i if before[i] == after[d] else None
    return order


def _transpose(eqn: Eqn, at: list[Index]) -> list[Index]:
    out = [Index()] * len(at)
    # Axis i of the result is axis permutation[i] of the operand: the inverse map, for coordinates.
    for i, source in enumerate(eqn.params["permutation"]):
        out[source] = at[i]
    return out


def _transpose_order(eqn: Eqn) -> list[int | None]:
    return list(eqn.params["permutation"])


def _slice(eqn: Eqn, at: list[Index]) -> list[Index]:
    strides = eqn.params["strides"] or (1,) * len(at)
    starts = eqn.params["start_indices"]
    # Element c of a slice is element start + c * stride.
    return [c * s + Index(constant=b) for c, s, b in zip(at, strides, starts, strict=True)]


def _rev(eqn: Eqn, at: list[Index]) -> list[Index]:
    backwards, shape = eqn.params["dimensions"], eqn.invars[0].aval.shape
    return [
        # Counted from the end: n - 1 - c.
        c * -1 + Index(constant=n - 1) if i in backwards else c
        for i, (c, n) in enumerate(zip(at, shape, strict=True))
    ]


def _reshape(eqn: Eqn, at: list[Index]) -> list[Index]:
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    order = eqn.params.get("dimensions")
    if order is None:
        # Through the position in row-major order, which a reshape keeps.
        return split(linear(at, after), before)
    # `dimensions`: the operand is transposed first.
    permuted = split(linear(at, after), [before[d] for d in order])
    return [permuted[order.index(d)] for d in range(len(before))]


def _reshape_order(eqn: Eqn) -> list[int | None] | None:
    return None if eqn.params.get("dimensions") is not None else _without_ones(eqn)


def _squeeze(eqn: Eqn, at: list[Index]) -> list[Index]:
    # Axes of length 1 do not change the position in row-major order.
    return split(linear(at, eqn.outvars[0].aval.shape), eqn.invars[0].aval.shape)


def _without_ones(eqn: Eqn) -> list[int | None] | None:
    """Return the order of a reshape that only adds or drops axes of length 1, else None."""
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    full = [i for i, n in enumerate(before) if n != 1]
    if [before[i] for i in full] != [n for n in after if n != 1]:
        return None
    # Axes of the result in order take the operand's, and None where they have length 1.
    rest = iter(full)
    return [next(rest) if n != 1 else None for n in after]


BROADCAST = ViewRule(_broadcast, _broadcast_order)
TRANSPOSE = ViewRule(_transpose, _transpose_order)
SLICE = ViewRule(_slice)
REV = ViewRule(_rev)
RESHAPE = ViewRule(_reshape, _reshape_order, lambda eqn: eqn.params.get("dimensions") is None)
SQUEEZE = ViewRule(_squeeze, _without_ones, lambda eqn: True)
SAME = ViewRule(lambda eqn, at: at)
