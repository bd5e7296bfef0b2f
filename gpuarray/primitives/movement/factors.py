"""Factors of index maps and generators: which axes can be cut without moving elements.

Floor 2. In: avals and parameters. Out: `Factors` (core/factors.py). Along an axis that an index
map shifts, reverses or picks from, elements would change pieces: it is whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpuarray.core.factors import Factors, all_but, elementwise
from gpuarray.primitives.define import do

_int32 = np.dtype(np.int32)
_MOST = 2**31  # positions that an int32 counts


def result_shape(name: str) -> Callable[..., dict]:
    """Return the `resize` of operations whose parameter `name` is the shape of the result."""
    return lambda params, ins, outs: params | {name: outs[0]}


def broadcast_factors(avals, out_avals, params) -> Factors:
    """New and stretched axes are factors of the result alone."""
    (operand,), (out,) = avals, out_avals
    dims = params["broadcast_dimensions"]
    names = [d if n == out.shape[d] else None for n, d in zip(operand.shape, dims, strict=True)]
    resize = result_shape("shape")
    return Factors.named(avals, out_avals, [names], [list(range(out.ndim))], resize=resize)


def reshape_factors(avals, out_avals, params) -> Factors:
    """Split and merge axes: factors are the common parts of both sides, from the major side on."""
    (operand,), (out,) = avals, out_avals
    # Axes of one element have nothing to cut, and would separate the others.
    order = params.get("dimensions") or range(operand.ndim)
    sources = [(d, operand.shape[d]) for d in order if operand.shape[d] != 1]
    targets = [(d, n) for d, n in enumerate(out.shape) if n != 1]
    ins: list[tuple[int, ...]] = [()] * operand.ndim
    outs: list[tuple[int, ...]] = [()] * out.ndim
    sizes: dict[int, int] = {}
    i = j = 0
    left = right = 1  # the remaining parts of the axes at i and j
    while operand.size and (i < len(sources) or j < len(targets)):
        # Both sides begin an axis, or continue within one.
        left = sources[i][1] if left == 1 else left
        right = targets[j][1] if right == 1 else right
        # The common part of both sides from here on is a factor.
        common = math.gcd(left, right)
        if common > 1:
            sizes[len(sizes)] = common
            ins[sources[i][0]] += (len(sizes) - 1,)
            outs[targets[j][0]] += (len(sizes) - 1,)
        left, right = left // common, right // common
        if left > 1 and right > 1:
            # The rest has no common major part: continue where both sides end an axis.
            while left != right:
                if left < right:
                    i += 1
                    left *= sources[i][1]
                else:
                    j += 1
                    right *= targets[j][1]
            left = right = 1
        i, j = i + (left == 1), j + (right == 1)
    resize = result_shape("new_sizes")
    return Factors.named(avals, out_avals, [ins], [outs], sizes=sizes, resize=resize)


def squeeze_factors(avals, out_avals, params) -> Factors:
    gone = params["dimensions"]
    names = [None if d in gone else d for d in range(avals[0].ndim)]
    kept = [d for d in range(avals[0].ndim) if d not in gone]
    return Factors.named(avals, out_avals, [names], [kept])


def transpose_factors(avals, out_avals, params) -> Factors:
    ins = [list(range(avals[0].ndim))]
    return Factors.named(avals, out_avals, ins, [list(params["permutation"])])


def slice_factors(avals, out_avals, params) -> Factors:
    """Axes that are taken in full."""
    (operand,) = avals
    starts, limits = params["start_indices"], params["limit_indices"]
    steps = params["strides"] or (1,) * operand.ndim
    # Axes not taken in full, from the front, in steps of one.
    cut = [
        d
        for d, taken in enumerate(zip(starts, limits, steps, strict=True))
        if taken != (0, operand.shape[d], 1)
    ]

    def resize(params, ins, outs):
        ends = tuple(limits[d] if d in cut else n for d, n in enumerate(ins[0]))
        return params | {"limit_indices": ends}

    return all_but(cut, avals, out_avals, resize)


def rev_factors(avals, out_avals, params) -> Factors:
    return all_but(params["dimensions"], avals, out_avals)


def axis_factors(name: str) -> Callable[..., Factors]:
    """Return the rule of operations along one axis, which parameter `name` gives."""
    return lambda avals, out_avals, params: all_but((params[name],), avals, out_avals)


def stack_factors(avals, out_avals, params) -> Factors:
    names: list[int | None] = list(range(avals[0].ndim))
    out = names[: params["axis"]] + [None] + names[params["axis"] :]
    return Factors.named(avals, out_avals, [names] * len(avals), [out])


def unstack_factors(avals, out_avals, params) -> Factors:
    axis = params["axis"]
    names = [None if d == axis else d for d in range(avals[0].ndim)]
    return Factors.named(
        avals, out_avals, [names], [names[:axis] + names[axis + 1 :]] * len(out_avals)
    )


def pad_factors(avals, out_avals, params) -> Factors:
    """Axes without padding; the value is a scalar."""
    padded = [d for d, around in enumerate(params["padding_config"]) if any(around)]
    return all_but(padded, avals, out_avals)


def tile_factors(avals, out_avals, params) -> Factors:
    """An axis of n elements, r times, is one of r repetitions of n."""
    (operand,), reps = avals, params["reps"]
    outs = [(f"r{d}", f"n{d}") for d in range(operand.ndim)]
    sizes = {f"r{d}": r for d, r in enumerate(reps)}
    sizes |= {f"n{d}": n for d, n in enumerate(operand.shape)}

    def resize(params, ins, outs):
        kept = (r if n == 0 else m // n for m, n, r in zip(outs[0], ins[0], reps, strict=True))
        return params | {"reps": tuple(kept)}

    ins = [f"n{d}" for d in range(operand.ndim)]
    return Factors.named(avals, out_avals, [ins], [outs], sizes=sizes, resize=resize)


def dynamic_slice_factors(avals, out_avals, params) -> Factors:
    """Axes that are taken in full: the start of such a slice is always clamped to 0."""
    operand, sizes = avals[0], params["slice_sizes"]
    names = [d if sizes[d] == n else None for d, n in enumerate(operand.shape)]
    ins = [names, *([] for _ in avals[1:])]
    return Factors.named(avals, out_avals, ins, [names], resize=result_shape("slice_sizes"))


def dynamic_update_slice_factors(avals, out_avals, params) -> Factors:
    """Axes that are replaced in full."""
    operand, update = avals[:2]
    names = [d if update.shape[d] == n else None for d, n in enumerate(operand.shape)]
    ins = [names, names, *([] for _ in avals[2:])]
    return Factors.named(avals, out_avals, ins, [names])


# ---- generators ----


def converted(x, dtype):
    return do.convert_element_type(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


def positions(shape: tuple[int, ...], dimension: int, start) -> object:
    """Return where elements of a piece are in the whole, along one axis, as int32.

    `start` is the piece's first position; None: 0.
    """
    counted = do.iota(dtype=_int32, shape=shape, dimension=dimension, sharding=None)
    return counted if start is None else do.add(counted, converted(start, _int32))


def iota_factors(avals, out_avals, params) -> Factors:
    """All axes; along the counted one a piece counts from its start."""
    dimension = params["dimension"]

    def piece(operands, params, starts):
        if dimension not in starts:
            return [do.iota(**params)]
        # Counted as int32 and converted once, so that narrow types wrap and round as in the whole.
        counted = positions(params["shape"], dimension, starts[dimension])
        return [converted(counted, params["dtype"])]

    # Longer ones cannot be counted in int32: the axis stays whole.
    if params["shape"][dimension] > _MOST:
        return all_but((dimension,), avals, out_avals, result_shape("shape"))
    return elementwise(avals, out_avals, params, result_shape("shape"), piece)


def empty_factors(avals, out_avals, params) -> Factors:
    return elementwise(avals, out_avals, params, result_shape("shape"))
