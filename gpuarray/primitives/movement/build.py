"""Functions that build equations of data movement, for compilers, which do not trace.

Floor 2. In: operands and parameters. Out: an Eqn. Its result is `out`, or a new variable of the
resulting shape and dtype; `site` is the line of the user's program that it belongs to.
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
    # By default a new variable with the dtype and weak type of the operand.
    return Var(a.aval.update(shape=tuple(shape))) if out is None else out


def broadcast(a: Atom, shape: Shape, dims: Shape, site: Any, out: Var | None = None) -> Eqn:
    """Broadcast `a`, whose axes are the axes `dims` of the result."""
    params = {"shape": shape, "broadcast_dimensions": dims, "sharding": None}
    return Eqn(broadcast_in_dim_p, [a], [_result(a, shape, out)], params, site)


def reshape(a: Atom, shape: Shape, site: Any, out: Var | None = None) -> Eqn:
    """Reshape `a`, in row-major order."""
    params = {"new_sizes": shape, "dimensions": None, "sharding": None}
    return Eqn(reshape_p, [a], [_result(a, shape, out)], params, site)


def transpose(a: Atom, order: Shape, site: Any, out: Var | None = None) -> Eqn:
    """Transpose `a`: axis i of the result is axis `order[i]`."""
    # The shape of the result in the order of its axes.
    out = _result(a, [a.aval.shape[d] for d in order], out)
    return Eqn(transpose_p, [a], [out], {"permutation": order}, site)


def piece(a: Atom, axis: int, first: int, length: int, site: Any, out: Var | None = None) -> Eqn:
    """Slice `length` elements of `a` along an axis, from `first` on."""
    shape = a.aval.shape
    # Along all other axes from 0 to the end.
    low = tuple(first if d == axis else 0 for d in range(len(shape)))
    high = tuple(first + length if d == axis else n for d, n in enumerate(shape))
    out = _result(a, [h - b for b, h in zip(low, high, strict=True)], out)
    params = {"start_indices": low, "limit_indices": high, "strides": None}
    return Eqn(slice_p, [a], [out], params, site)


def stack(parts: Sequence[Atom], axis: int, site: Any, out: Var) -> Eqn:
    """Stack arrays of the same shape along a new axis."""
    return Eqn(stack_p, parts, [out], {"axis": axis}, site)


def concatenate(parts: Sequence[Atom], axis: int, site: Any, out: Var) -> Eqn:
    """Concatenate arrays along an axis."""
    return Eqn(concatenate_p, parts, [out], {"dimension": axis}, site)


def copy(a: Atom, site: Any, out: Var) -> Eqn:
    """Copy `a` to another variable."""
    return Eqn(copy_p, [a], [out], {}, site)
