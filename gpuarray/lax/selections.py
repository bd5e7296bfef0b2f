"""Windows that select an element each, and merge values into the places of those.

Floor 6. In: arrays, window geometry, and two Graphs of scalars. Out: an array, computed by slices
and pads: one of each for every place in a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core.graph import Graph, eval_jaxpr
from gpuarray.core.value import Array
from gpuarray.functions.vmap import vmap
from gpuarray.lax import creation, elementwise, shapes, slicing


def select_and_scatter(
    operand: Array,
    source: Array,
    init_value: Any,
    *,
    select_jaxpr: Graph,
    select_consts: Sequence[Any],
    scatter_jaxpr: Graph,
    scatter_consts: Sequence[Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Array:
    """Each window of `operand` selects an element; `source`, which has one for each window, is
    merged into `init_value` there.

    `select_jaxpr(best, x)` returns whether to keep the best element so far, `scatter_jaxpr(now, x)`
    merges the current value with an element of the source.
    """
    selects = _elementwise(select_jaxpr, select_consts)
    merges = _elementwise(scatter_jaxpr, scatter_consts)
    margins = [(low, high, 0) for low, high in padding]
    zero = creation.full((), 0, operand.dtype)
    padded = shapes.pad(operand, zero, margins)
    inside = shapes.pad(creation.full(operand.shape, True), False, margins)
    # Each place in a window is one strided slice of all windows: as many steps as a window has
    # elements.
    starts = list(np.ndindex(*window_dimensions))

    def seen(x: Array, start: Sequence[int]) -> Array:
        """The element at one place of each window."""
        ends = [
            i + (n - 1) * step + 1
            for i, n, step in zip(start, source.shape, window_strides, strict=True)
        ]
        return slicing.slice(x, start, ends, window_strides)

    # 1. The position that each window selects; padding is never selected.
    best, found = seen(padded, starts[0]), seen(inside, starts[0])
    chosen = creation.full(source.shape, 0)
    for number, start in enumerate(starts[1:], 1):
        x, there = seen(padded, start), seen(inside, start)
        # The first valid position is kept until `select_jaxpr` prefers another.
        better = there & ~(selects(best, x) & found)
        best = elementwise.select(better, x, best)
        chosen = elementwise.select(better, creation.full_like(chosen, number), chosen)
        found = found | there
    # 2. Merge one position of all windows at a time: these never collide.
    out = creation.full(padded.shape, init_value)
    for number, start in enumerate(starts):
        # The inverse of the strided slice: a pad with step - 1 gaps between the elements.
        spread = [
            (i, n - i - (k - 1) * step - 1, step - 1)
            for i, n, k, step in zip(start, padded.shape, source.shape, window_strides, strict=True)
        ]
        mine = shapes.pad(found & (chosen == number), False, spread)
        given = shapes.pad(source, zero, spread)
        out = elementwise.select(mine, merges(out, given), out)
    # A negative pad cuts the margins off again.
    return shapes.pad(out, zero, [(-low, -high, 0) for low, high in padding])


def _elementwise(graph: Graph, consts: Sequence[Any]) -> Callable[[Array, Array], Array]:
    """A Graph of two scalars as a function of arrays."""
    one = lambda a, b: eval_jaxpr(graph, consts, a, b)[0]

    def each(a: Array, b: Array) -> Array:
        # The Graph is of scalars: vmap makes of it the function of arrays.
        return vmap(one)(a.ravel(), b.ravel()).reshape(a.shape)

    return each
