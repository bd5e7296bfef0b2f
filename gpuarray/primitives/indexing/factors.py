"""Factors of gather and scatter: index vectors, windows, and rows of a table in pieces.

Floor 2. In: avals and parameters. Out: `Factors` (core/factors.py). Where a table is in pieces, and
windows have one position along the axis that is cut, each piece looks up, or updates, the rows that
it has: a lookup is then the one term that is not 0, to the bit. Where updates are in pieces, only
the first piece starts from the operand; sums, products and extremes of the pieces are owed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import aval_of
from gpuarray.core.factors import Factors
from gpuarray.core.fold import Identity
from gpuarray.core.graph import storage_dtype
from gpuarray.primitives.define import do
from gpuarray.primitives.indexing.shapes import GatherScatterMode, default_fill, fill_element
from gpuarray.primitives.indexing.transforms import windows_of
from gpuarray.primitives.movement.factors import converted

_int32 = np.dtype(np.int32)
_MOST = 2**31  # positions that an int32 counts
#: The pending reduction of scatters with sharded updates, and the operand on all devices but the
#: first.
_OWED = {
    "scatter-add": ("sum", Identity.NEGATIVE_ZERO),
    "scatter-sub": ("sum", Identity.NEGATIVE_ZERO),
    "scatter-mul": ("prod", Identity.ONE),
    "scatter-min": ("min", None),
    "scatter-max": ("max", None),
}


# ---- names of axes ----


def _of_operand(shape, windows, mapped, removed, batching: Mapping[int, int]) -> list[Any]:
    """Return a name for each axis of the operand: batch, whole window, row of a table, or None."""
    names: list[Any] = []
    for d, n in enumerate(shape):
        if d in batching:
            names.append(f"batch{batching[d]}")
        elif windows[d] == n and d not in removed:
            # Taken in full, so no index moves such a window.
            names.append(f"window{d}")
        else:
            single = d in mapped and windows[d] == 1 and n <= _MOST
            names.append(f"row{d}" if single else None)
    return names


def gather_factors(avals, out_avals, params) -> Factors:
    """Batch axes, windows taken in full, and rows of a table, each of which is on one piece."""
    (operand, indices), (out,) = avals, out_avals
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    batching = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    mapped = numbers.start_index_map
    table = _of_operand(operand.shape, sizes, mapped, numbers.collapsed_slice_dims, batching)
    how = "or" if operand.dtype == np.bool_ else "sum"
    if dtypes.kind_of(operand.dtype) in "fc":
        how = "pick"  # a sum would lose the sign of -0
    if isinstance(operand.dtype, dtypes.ExtendedDType):  # keys cannot be added
        table = [None if str(n).startswith("row") else n for n in table]
    rows = {name: d for d, name in enumerate(table) if str(name).startswith("row")}
    at = [f"batch{j}" for j in range(indices.ndim - 1)]
    removed = {*numbers.collapsed_slice_dims, *batching}
    # The result's axes are those of windows and of batches, in the order given by `offset_dims`. A
    # row of a table has length 1 in a window: no factor corresponds to it.
    windows = iter(n if n not in rows else None for d, n in enumerate(table) if d not in removed)
    batch = iter(at)
    kept = [next(windows if d in numbers.offset_dims else batch) for d in range(out.ndim)]

    def resize(params, ins, outs):
        # Windows taken in full have the length of the piece.
        taken = (n if w == m else w for n, m, w in zip(ins[0], operand.shape, sizes, strict=True))
        return params | {"slice_sizes": tuple(taken)}

    def piece(operands, params, starts):
        cut = {rows[name]: start for name, start in starts.items() if name in rows}
        if not cut:
            return [do.gather(*operands, **params)]
        x, where = operands
        limits = [operand.shape[d] - sizes[d] for d in mapped]
        # Rows of other pieces are out of bounds here, so that a lookup gives the neutral element.
        where, inside = _local(where, mapped, limits, aval_of(x).shape, cut, True)
        mode, dtype = params["mode"], storage_dtype(operand)
        nothing = Identity.ZERO.of(dtype)
        found = do.gather(
            x,
            where,
            **params | {"mode": GatherScatterMode.FILL_OR_DROP, "fill_value": nothing},
        )
        if mode not in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT):
            return [found]
        # For indices out of bounds of the whole, the first piece gives the fill value.
        fill = default_fill(operand.dtype) if params["fill_value"] is None else params["fill_value"]
        fill = fill_element(operand, 0 if mode is GatherScatterMode.ONE_HOT else fill)
        shape = aval_of(found).shape
        dims = tuple(d for d in range(len(shape)) if d not in numbers.offset_dims)
        inside = _spread(inside, shape, dims)
        other = do.select_n(_first(cut.values()), nothing, fill)
        return [do.select_n(inside, _spread(other, shape), found)]

    return Factors.named(
        avals,
        out_avals,
        [table, [*at, None]],
        [kept],
        owed=dict.fromkeys(rows, how),
        resize=resize,
        piece=piece,
    )


def scatter_factors(name: str):
    """Return the rule of a scatter: as of gather; updates in pieces where they can be combined."""

    def rule(avals, out_avals, params) -> Factors:
        operand, indices, updates = avals
        numbers = params["dimension_numbers"]
        mapped, inserted = numbers.scatter_dims_to_operand_dims, numbers.inserted_window_dims
        batching = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
        windows = windows_of(operand.shape, updates.shape, numbers)
        table = _of_operand(operand.shape, windows, mapped, inserted, batching)
        rows = {name: d for d, name in enumerate(table) if str(name).startswith("row")}
        how, start_from = _OWED.get(name, ("", None))
        # Bools are no numbers to owe a sum of.
        if dtypes.kind_of(storage_dtype(operand)) == "b" and how == "sum":
            how = ""
        paired = {f"batch{j}" for j in batching.values()}
        at = [f"batch{j}" for j in range(indices.ndim - 1)]
        # Updates in pieces have no way to be combined: only batch axes may be cut.
        if not how:
            at = [n if n in paired else None for n in at]
        inner = iter(
            n if n not in rows else None
            for d, n in enumerate(table)
            if d not in inserted and d not in batching
        )
        outer = iter(at)
        new = [
            next(inner if d in numbers.update_window_dims else outer) for d in range(updates.ndim)
        ]
        # Axes along which updates of different pieces go to the same operand.
        loose = {n for n in at if n is not None and n not in paired}

        def piece(operands, params, starts):
            x, where, values = operands
            others = [start for n, start in starts.items() if n in loose]
            # Or the operand would count once for every piece. Extremes may start from it each time.
            if others and start_from is not None:
                neutral = start_from.of(storage_dtype(operand))
                shape = aval_of(x).shape
                x = do.select_n(_spread(_first(others), shape), _spread(neutral, shape), x)
            cut = {rows[n]: start for n, start in starts.items() if n in rows}
            if cut:
                limits = [operand.shape[d] - windows[d] for d in mapped]
                clip = params["mode"] is GatherScatterMode.CLIP
                where, _ = _local(where, mapped, limits, aval_of(x).shape, cut, clip)
                params = params | {
                    "mode": GatherScatterMode.FILL_OR_DROP,
                    # Targets on other pieces all become -1.
                    "unique_indices": False,
                    "indices_are_sorted": False,
                }
            bind = getattr(do, name)
            return [bind(x, where, values, **params)]

        ins = [table, [*at, None], new]
        owed = dict.fromkeys(loose, how)
        return Factors.named(avals, out_avals, ins, [table], owed=owed, piece=piece)

    return rule


# ---- evaluation of pieces ----


def _spread(x, shape: tuple[int, ...], dims: tuple[int, ...] = ()):
    return do.broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims, sharding=None)


def _first(starts):
    """Return whether a piece is the first along each factor that is cut."""
    first = None
    for start in starts:
        here = do.eq(converted(start, _int32), np.int32(0))
        first = here if first is None else do.and_(first, here)
    return first


def _local(indices, mapped, limits, shape, starts: Mapping[int, Any], clip: bool):
    """Return index vectors of a piece, -1 where the whole's are outside it, and which are in bounds
    of the whole.

    `limits` are the last starts of windows in the whole, `shape` the operand's on the piece, and
    `starts` the piece's first positions along the sharded axes. With `clip` positions out of bounds
    are clamped first.
    """
    aval = aval_of(indices)
    lead = aval.shape[:-1]
    most = dtypes.iinfo(aval.dtype).max
    parts, inside, here = [], None, None

    def both(a, b):
        return b if a is None else do.and_(a, b)

    for c, (d, limit) in enumerate(zip(mapped, limits, strict=True)):
        begin, end = (*(0,) * len(lead), c), (*lead, c + 1)
        own = do.slice(indices, start_indices=begin, limit_indices=end, strides=None)
        # In the index's own type, in which huge unsigned indices do not become negative.
        near = do.clamp(aval.dtype.type(0), own, aval.dtype.type(min(limit, most)))
        inside = both(inside, do.eq(near, own))
        at = converted(near, _int32)
        if d in starts:
            at = do.sub(at, converted(starts[d], _int32))
            inner = do.and_(do.ge(at, np.int32(0)), do.lt(at, np.int32(shape[d])))
            here = both(here, inner)
        parts.append(at)
    good = here if clip else both(here, inside)
    none = _spread(np.int32(-1), (*lead, 1))
    parts = [do.select_n(good, none, at) for at in parts]
    return do.concatenate(*parts, dimension=len(lead)), do.squeeze(inside, dimensions=(len(lead),))
