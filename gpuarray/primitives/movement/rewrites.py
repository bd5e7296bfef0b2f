"""Index maps written in other ways: the rules of views in rewrites of a Graph.

Floor 2. In: an equation. Out: what `core/rewrite.py` says of each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.graph import Atom, Eqn, Var
from gpuarray.core.rewrite import Rewrite

# ---- which axis is which ----


def _broadcast_axes(eqn: Eqn) -> tuple[int | None, ...]:
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    order: list[int | None] = [None] * len(after)
    for i, d in enumerate(eqn.params["broadcast_dimensions"]):
        order[d] = i if before[i] == after[d] else None
    return tuple(order)


def _kept_axes(eqn: Eqn) -> tuple[int | None, ...] | None:
    """Of a change of shape: axes of length 1 come and go, the others keep their order."""
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if eqn.params.get("dimensions") is not None and "new_sizes" in eqn.params:
        return None  # it reorders them first
    if [n for n in before if n != 1] != [n for n in after if n != 1]:
        return None
    rest = iter([i for i, n in enumerate(before) if n != 1])
    return tuple(next(rest) if n != 1 else None for n in after)


# ---- components ----


def _broadcast_component(eqn: Eqn, axis: int, part: Callable[[Atom, int], Atom]) -> Eqn | Atom:
    """A component of a broadcast is a broadcast of its operand, or of a component of it."""
    (source,), (out,) = eqn.invars, eqn.outvars
    dims = eqn.params["broadcast_dimensions"]
    if axis in dims:
        d = dims.index(axis)
        source = part(source, d)
        dims = dims[:d] + dims[d + 1 :]
    dims = tuple(d - (d > axis) for d in dims)
    shape = out.aval.shape[:axis] + out.aval.shape[axis + 1 :]
    if source.aval.shape == shape and dims == tuple(range(len(dims))):
        return source
    params = {**eqn.params, "shape": shape, "broadcast_dimensions": dims}
    return Eqn(eqn.primitive, [source], [Var(out.aval.update(shape=shape))], params, eqn.site)


# ---- pieces ----


def _split_piece(eqn: Eqn, number: int) -> tuple[int, int, int]:
    sizes: Any = eqn.params["sizes"]
    return eqn.params["axis"], sum(sizes[:number]), sizes[number]


BROADCAST = Rewrite(axes=_broadcast_axes, component=_broadcast_component)
RESHAPE = Rewrite(axes=_kept_axes, sinks=True)
SQUEEZE = Rewrite(axes=_kept_axes)
TRANSPOSE = Rewrite(axes=lambda eqn: tuple(eqn.params["permutation"]))
CONCATENATE = Rewrite(joins=lambda eqn: eqn.params["dimension"])
STACK = Rewrite(joins=lambda eqn: eqn.params["axis"])
REARRANGE = Rewrite(sinks=True)  # slices, and axes backwards
SPLIT = Rewrite(piece=_split_piece)
UNSTACK = Rewrite(piece=lambda eqn, number: (eqn.params["axis"], number, 1))
