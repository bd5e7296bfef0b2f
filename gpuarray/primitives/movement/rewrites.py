"""Index maps written in other ways: the rules of views in rewrites of a Graph.

Floor 2. In: an equation. Out: what `core/rewrite.py` says of each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.graph import Atom, Eqn, Var
from gpuarray.core.rewrite import Rewrite

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


BROADCAST = Rewrite(component=_broadcast_component)
CONCATENATE = Rewrite(joins=lambda eqn: eqn.params["dimension"])
STACK = Rewrite(joins=lambda eqn: eqn.params["axis"])
SINKS = Rewrite(sinks=True)  # reshapes, slices, and axes backwards
SPLIT = Rewrite(piece=_split_piece)
UNSTACK = Rewrite(piece=lambda eqn, number: (eqn.params["axis"], number, 1))
