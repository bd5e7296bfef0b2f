"""Derivatives and batching of gather and scatter, which are each other's transposes.

Floor 2. In: the operands of a rule. Out: values made of other primitives, bound by name. Which rule
belongs to which primitive is said in `gpuarray.primitives.indexing.ops`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.dims import smaller
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.linear import Zero, is_undefined, is_zero, tangent_aval
from gpuarray.core.primitive import Primitive, registry
from gpuarray.primitives.axes import move_axis, with_axis
from gpuarray.primitives.define import do
from gpuarray.primitives.indexing.shapes import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from gpuarray.primitives.linear import add_any, broadcast_like, full_like, instantiate, zeros
from gpuarray.util import prod

#: The scalar operation by which each scatter merges.
MERGES = {
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}


@functools.cache
def update_graph(prim: Primitive, dtype) -> Graph | None:
    """Return the `update_jaxpr` of a scatter: how it merges one element, as a scalar Graph."""
    if prim.name not in MERGES:
        # A scatter that sets has no merge.
        return None
    merge = registry[MERGES[prim.name]]
    aval = ShapedArray((), dtype)
    there, update = Var(aval), Var(aval)
    (result,) = merge.out_avals([aval, aval], {})
    out = Var(result)
    # The graph `lambda there, update: merge(there, update)`, made once for each dtype.
    return Graph([there, update], [out], [Eqn(merge, [there, update], [out], {})])


def _up(axes) -> tuple[int, ...]:
    """Shift axis numbers by one, for a new axis in front."""
    return tuple(a + 1 for a in axes)


# ---- the correspondence of gather and scatter ----


def _scatter_numbers(numbers: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """Return the numbers of the scatter that writes where the gather reads."""
    # The two tuples have the same fields under different names, in the same order.
    return ScatterDimensionNumbers(*numbers)


def _gather_numbers(numbers: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """Return the numbers of the gather that reads where the scatter writes."""
    return GatherDimensionNumbers(*numbers)


def windows_of(shape, updates, numbers: ScatterDimensionNumbers) -> tuple[int, ...]:
    """Return the length of a window along every axis of an operand of shape `shape`."""
    lengths = iter(updates[d] for d in numbers.update_window_dims)
    # Removed axes have length 1 in a window (0 where the operand is empty).
    removed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    return tuple(smaller(1, n) if d in removed else next(lengths) for d, n in enumerate(shape))


def _read_back(x, indices, updates, *, dimension_numbers, mode, fill_value: Any = 0, **_):
    """Gather from `x` the elements that a scatter of `updates` would write to."""
    return do.gather(
        x,
        indices,
        dimension_numbers=_gather_numbers(dimension_numbers),
        slice_sizes=windows_of(aval_of(x).shape, aval_of(updates).shape, dimension_numbers),
        # The scatter's promises need not hold for a read.
        indices_are_sorted=False,
        unique_indices=False,
        mode=mode,
        fill_value=fill_value,
    )


def _add_up(x, indices, updates, **params):
    """Bind the scatter-add with the geometry of another scatter."""
    prim = registry["scatter-add"]
    params |= {"update_jaxpr": update_graph(prim, aval_of(x).dtype), "update_consts": ()}
    return prim.bind(x, indices, updates, **params)


# ---- gather ----


def gather_jvp(primals, tangents, **params):
    """The same gather of the tangent; elements that are filled in have no tangent."""
    _, indices = primals
    out = do.gather(*primals, **params)
    return out, do.gather(tangents[0], indices, **(params | {"fill_value": 0}))


def gather_transpose(
    ct,
    operand,
    indices,
    *,
    dimension_numbers,
    slice_sizes,
    indices_are_sorted,
    unique_indices,
    mode,
    fill_value,
):
    # The transpose of reading is adding at the same positions.
    back = _add_up(
        zeros(operand.aval),
        indices,
        ct,
        dimension_numbers=_scatter_numbers(dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        # ONE_HOT reads zeros out of bounds, so there is no cotangent.
        mode=GatherScatterMode.FILL_OR_DROP if mode is GatherScatterMode.ONE_HOT else mode,
    )
    return back, None


def gather_batch(axis, args, dims, *, dimension_numbers, slice_sizes, **params):
    (x, indices), (d, index_d) = args, dims
    n = dimension_numbers
    collapsed, start_map = n.collapsed_slice_dims, n.start_index_map
    of_operand, of_indices = n.operand_batching_dims, n.start_indices_batching_dims
    offset = _up(n.offset_dims)
    # Gather with a new axis in front of the operand, the indices, or both.
    if d is not None:
        x = move_axis(x, d, 0)
        collapsed, start_map, of_operand = _up(collapsed), _up(start_map), _up(of_operand)
    if index_d is None:
        # The windows have one more axis, all of it.
        offset, slice_sizes = (0, *offset), (axis.size, *slice_sizes)
    else:
        indices = move_axis(indices, index_d, 0)
        of_indices = _up(of_indices)
        # Both batched: the axes run in step, as batching dimensions.
        if d is not None:
            of_operand, of_indices = (0, *of_operand), (0, *of_indices)
            slice_sizes = (smaller(1, axis.size), *slice_sizes)
        else:
            # Windows of one operand, selected by many vectors: no longer sorted, or unique.
            params |= {"indices_are_sorted": False, "unique_indices": False}
    numbers = GatherDimensionNumbers(offset, collapsed, start_map, of_operand, of_indices)
    out = do.gather(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params)
    return out, 0


# ---- scatters ----


def scatter_batch(name: str):
    """Return the batch rule of the scatter with that name."""

    def batch(axis, args, dims, *, dimension_numbers, **params):
        (x, indices, updates), (d, index_d, update_d) = args, dims
        n = dimension_numbers
        # All operands are batched: the result is, whatever each of them was.
        x = with_axis(x, d, 0, axis.size)
        updates = with_axis(updates, update_d, 0, axis.size)
        windows, of_operand = _up(n.update_window_dims), _up(n.operand_batching_dims)
        of_indices = n.scatter_indices_batching_dims
        # Shared indices: the batch axis is one more axis of the windows.
        if index_d is None:
            windows = (0, *windows)
        else:
            indices = move_axis(indices, index_d, 0)
            of_operand, of_indices = (0, *of_operand), (0, *_up(of_indices))
        numbers = ScatterDimensionNumbers(
            windows,
            _up(n.inserted_window_dims),
            _up(n.scatter_dims_to_operand_dims),
            of_operand,
            of_indices,
        )
        # Looked up by name: the rule is made before the primitive.
        bind = registry[name].bind
        return bind(x, indices, updates, dimension_numbers=numbers, **params), 0

    return batch


def _linear_jvp(name: str):
    """Return the jvp of a scatter that is linear in operand and updates together."""

    def jvp(primals, tangents, **params):
        bind, indices = registry[name].bind, primals[1]
        # Zeros are materialised: t passes where no update replaces an element; an addition passes
        # both.
        t, u = instantiate(tangents[0]), instantiate(tangents[2])
        return bind(*primals, **params), bind(t, indices, u, **params)

    return jvp


def add_transpose(ct, operand, indices, updates, **params):
    # Updates are added, so each receives the cotangent of its element.
    back = _read_back(ct, indices, updates, **params) if is_undefined(updates) else None
    return ct if is_undefined(operand) else None, None, back


def sub_transpose(ct, operand, indices, updates, **params):
    own, _, back = add_transpose(ct, operand, indices, updates, **params)
    # The subtracted updates receive the negated cotangent.
    return own, None, None if back is None else do.neg(back)


add_jvp, sub_jvp = _linear_jvp("scatter-add"), _linear_jvp("scatter-sub")


# ---- scatter: the last one wins ----


def set_jvp(primals, tangents, **params):
    """Linear where no element is written twice; otherwise the kept update is found first."""
    x, indices, updates = primals
    t, _, u = tangents
    if params["update_jaxpr"] is not None:
        raise NotImplementedError(
            "scatter_apply JVP not implemented: the derivative of the applied function is not "
            "known here. Gather the elements, apply the function, and scatter the results."
        )
    if params["unique_indices"]:
        out = do.scatter(x, indices, updates, **params)
        return out, do.scatter(instantiate(t), indices, instantiate(u), **params)
    # Each index vector writes its number (from 1); 0 remains at unwritten elements.
    shape = aval_of(updates).shape
    windows = params["dimension_numbers"].update_window_dims
    batch = tuple(1 if d in windows else n for d, n in enumerate(shape))
    count = prod(batch)
    numbers = do.iota(dtype=np.dtype(np.uint32), shape=(count,), dimension=0, sharding=None)
    numbers = do.reshape(numbers, new_sizes=batch, dimensions=None, sharding=None)
    numbers = do.add(numbers, broadcast_like(np.uint32(1), ShapedArray(shape, np.uint32)))
    nobody = zeros(ShapedArray(aval_of(x).shape, np.uint32))
    winners = do.scatter(nobody, indices, numbers, **params)
    # A dropped update reads an arbitrary number that is not its own.
    seen = {**params, "mode": GatherScatterMode.PROMISE_IN_BOUNDS, "fill_value": None}
    mine = do.eq(numbers, _read_back(winners, indices, updates, **seen))
    kept = do.eq(winners, nobody)

    # Elements that stay, plus the updates that were kept: no element gets two.
    def masked(x, u):
        x = do.select_n(kept, full_like(x, 0), x)
        return _add_up(x, indices, do.select_n(mine, full_like(u, 0), u), **params)

    return masked(x, updates), masked(instantiate(t), instantiate(u))


def set_transpose(ct, operand, indices, updates, **params):
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter transpose is only implemented where unique_indices=True: which of several "
            "updates of one place counts is not known here."
        )
    own = back = None
    if is_undefined(operand):
        # Elements that were overwritten have no influence.
        own = do.scatter(ct, indices, zeros(aval_of(updates)), **params)
    if is_undefined(updates):
        back = _read_back(ct, indices, updates, **params)
    return own, None, back


# ---- scatter-mul ----


def mul_jvp(primals, tangents, **params):
    bind = registry["scatter-mul"].bind
    x, indices, updates = primals
    t, _, u = tangents
    out = bind(x, indices, updates, **params)
    total: Any = Zero(tangent_aval(aval_of(out)))
    # Linear in the operand: the tangent is multiplied by the same updates.
    if not is_zero(t):
        total = bind(t, indices, updates, **params)
    # Each update multiplies its element: x u, for unique indices.
    if not is_zero(u):
        _check_unique(params)
        total = add_any(total, do.mul(x, _add_up(zeros(aval_of(x)), indices, u, **params)))
    return out, total


def mul_transpose(ct, operand, indices, updates, **params):
    own = back = None
    # The transpose in the operand multiplies by the same updates.
    if is_undefined(operand):
        own = registry["scatter-mul"].bind(ct, indices, updates, **params)
    if is_undefined(updates):
        _check_unique(params)
        back = _read_back(do.mul(ct, operand), indices, updates, **params)
    return own, None, back


def _check_unique(params) -> None:
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul gradients are only implemented if `unique_indices=True`: promise it, or "
            "multiply before the scatter."
        )


# ---- scatter-max and scatter-min ----


def extreme_jvp(name: str):
    """Return the jvp of scatter-max or -min: the mean of the tangents of all equal candidates."""

    def jvp(primals, tangents, **params):
        x, indices, updates = primals
        t, u = instantiate(tangents[0]), instantiate(tangents[2])
        out = registry[name].bind(x, indices, updates, **params)
        seen = {**params, "mode": GatherScatterMode.PROMISE_IN_BOUNDS, "fill_value": None}
        won = _as(do.eq(updates, _read_back(out, indices, updates, **seen)), u)
        held = _as(do.or_(do.eq(x, out), do.ne(x, x)), t)  # a nan is held at unwritten elements
        winners = _add_up(held, indices, won, **params)
        shares = _add_up(do.mul(t, held), indices, do.mul(u, won), **params)
        # A written nan equals no update: no tangent, and no division by 0.
        return out, do.div(shares, do.max(winners, full_like(winners, 1)))

    return jvp


def _as(mask, like):
    dtype = aval_of(like).dtype
    return do.convert_element_type(mask, new_dtype=dtype, weak_type=False, sharding=None)
