"""Equations that move elements, as functions: for compilers, which write Graphs without tracing.

Floor 2. In: operands, and how they move. Out: an Eqn; its result is `out`, or a new variable of the
shape and type that the operands give. The line of the user's that it stands for is `site`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core.graph import Atom, Eqn, Var
from gpuarray.primitives.elementwise.arithmetic import copy_p
from gpuarray.primitives.movement.ops import (
    broadcast_in_dim_p,
    concatenate_p,
    reshape_p,
    slice_p,
    stack_p,
    transpose_p,
)

Shape = tuple[int, ...]


def _result(a: Atom, shape: Sequence[int], out: Var | None) -> Var:
    return Var(a.aval.update(shape=tuple(shape))) if out is None else out


def broadcast(a: Atom, shape: Shape, dims: Shape, site: Any, out: Var | None = None) -> Eqn:
    """`a` along the axes `dims` of an array of a shape, the same along all others."""
    params = {"shape": shape, "broadcast_dimensions": dims, "sharding": None}
    return Eqn(broadcast_in_dim_p, [a], [_result(a, shape, out)], params, site)


def reshape(a: Atom, shape: Shape, site: Any, out: Var | None = None) -> Eqn:
    """The elements of `a` in their order, in another shape."""
    params = {"new_sizes": shape, "dimensions": None, "sharding": None}
    return Eqn(reshape_p, [a], [_result(a, shape, out)], params, site)


def transpose(a: Atom, order: Shape, site: Any, out: Var | None = None) -> Eqn:
    """`a` with its axes in another order."""
    out = _result(a, [a.aval.shape[d] for d in order], out)
    return Eqn(transpose_p, [a], [out], {"permutation": order}, site)


def piece(a: Atom, axis: int, first: int, length: int, site: Any, out: Var | None = None) -> Eqn:
    """`length` elements of `a` along an axis, from `first` on."""
    shape = a.aval.shape
    low = tuple(first if d == axis else 0 for d in range(len(shape)))
    high = tuple(first + length if d == axis else n for d, n in enumerate(shape))
    out = _result(a, [h - b for b, h in zip(low, high, strict=True)], out)
    params = {"start_indices": low, "limit_indices": high, "strides": None}
    return Eqn(slice_p, [a], [out], params, site)


def stack(parts: Sequence[Atom], axis: int, site: Any, out: Var) -> Eqn:
    """Arrays of one shape along a new axis."""
    return Eqn(stack_p, parts, [out], {"axis": axis}, site)


def concatenate(parts: Sequence[Atom], axis: int, site: Any, out: Var) -> Eqn:
    """Arrays one behind the other along an axis."""
    return Eqn(concatenate_p, parts, [out], {"dimension": axis}, site)


def copy(a: Atom, site: Any, out: Var) -> Eqn:
    """`a` under another name."""
    return Eqn(copy_p, [a], [out], {}, site)
