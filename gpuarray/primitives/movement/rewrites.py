"""Rewrite rules of views and of operations that join arrays.

Floor 2. In: an equation. Out: as in core/rewrite.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.graph import Atom, Eqn, Var
from gpuarray.core.rewrite import Rewrite

# ---- components ----


def _broadcast_component(eqn: Eqn, axis: int, part: Callable[[Atom, int], Atom]) -> Eqn | Atom:
    """Return a component of a broadcast: a broadcast of its operand, or of a component of that."""
    (source,), (out,) = eqn.invars, eqn.outvars
    dims = eqn.params["broadcast_dimensions"]
    # The axis comes from the operand: a component of that is broadcast.
    if axis in dims:
        d = dims.index(axis)
        source = part(source, d)
        dims = dims[:d] + dims[d + 1 :]
    # The axis is not in the result.
    dims = tuple(d - (d > axis) for d in dims)
    shape = out.aval.shape[:axis] + out.aval.shape[axis + 1 :]
    # No broadcast remains.
    if source.aval.shape == shape and dims == tuple(range(len(dims))):
        return source
    params = {**eqn.params, "shape": shape, "broadcast_dimensions": dims}
    return Eqn(eqn.primitive, [source], [Var(out.aval.update(shape=shape))], params, eqn.site)


# ---- pieces ----


def _split_piece(eqn: Eqn, number: int) -> tuple[int, int, int]:
    # The piece as axis, first element and length.
    sizes: Any = eqn.params["sizes"]
    return eqn.params["axis"], sum(sizes[:number]), sizes[number]


# ---- parts ----


def _cropped_pad(eqn: Eqn, first: tuple[int, ...], lengths: tuple[int, ...]) -> Eqn | None:
    """Return the padding when nothing of it is cropped; None if nothing of the operand remains."""
    (out,) = eqn.outvars
    config: list[tuple[int, int, int]] = []
    edges = zip(eqn.params["padding_config"], eqn.invars[0].aval.shape, first, strict=True)
    for (low, high, holes), n, begin in edges:
        axis = len(config)
        low, high = low - begin, high - (out.aval.shape[axis] - begin - lengths[axis])
        # Between the holes some edges would be counted otherwise.
        if (low, high) != eqn.params["padding_config"][axis][:2] and (holes or -min(low, high) > n):
            return None
        config.append((low, high, holes))
    params = {"padding_config": tuple(config)}
    new = Var(out.aval.update(shape=tuple(lengths)))
    return Eqn(eqn.primitive, eqn.invars, [new], params, eqn.site)


BROADCAST = Rewrite(component=_broadcast_component)
CONCATENATE = Rewrite(joins=lambda eqn: eqn.params["dimension"])
STACK = Rewrite(joins=lambda eqn: eqn.params["axis"])
PAD = Rewrite(cropped=_cropped_pad)
SINKS = Rewrite(sinks=True)  # of reshape, slice and rev
SPLIT = Rewrite(piece=_split_piece)
UNSTACK = Rewrite(piece=lambda eqn, number: (eqn.params["axis"], number, 1))
