"""Factors of random keys and bits: a number depends on its key and its place, never on the pieces.

Floor 2. In: avals and parameters. Out: `Factors` (core/factors.py).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuarray.core.factors import Factors, elementwise
from gpuarray.primitives.define import do
from gpuarray.primitives.movement.factors import converted, positions
from gpuarray.primitives.random.parts import bits_at, original_bits_at

_COUNTERS = 2**31  # positions that an int32 counts


def bits_factors(avals, out_avals, params) -> Factors:
    """Axes of the keys; and those of each key's numbers, where number i depends only on its
    position.
    """
    (keys,), (out,), shape = avals, out_avals, params["shape"]
    lead, size = keys.ndim, math.prod(shape)
    # Other algorithms run through a state.
    if keys.dtype.impl.name != "threefry2x32" or size > _COUNTERS:
        return elementwise(avals, out_avals, params)
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]

    def resize(params, ins, outs):
        return params | {"shape": outs[0][lead:]}

    def piece(operands, params, starts):
        inner = params["shape"]
        if not any(d >= lead for d in starts):
            return [do.random_bits(*operands, **params)]
        # The places in the whole, row-major: the counters of a partitionable stream.
        along = [
            do.mul(converted(positions(inner, d, starts.get(lead + d)), np.uint32), np.uint32(n))
            for d, n in enumerate(strides)
        ]
        places, width = functools.reduce(do.add, along), params["bit_width"]
        if params.get("partitionable", False):
            return [bits_at(operands[0], places, width)]
        return [original_bits_at(operands[0], places, width, size)]

    ins, outs = [list(range(lead))], [list(range(out.ndim))]
    return Factors.named(avals, out_avals, ins, outs, resize=resize, piece=piece)
