"""Folds over sliding windows: pooling, moving sums, and the shapes that come out.

Floor 6. In: arrays and window geometry. Out: arrays. Sums, maxima and minima are recognised and
become their own primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.core import dtypes
from gpuarray.lax.args import shape_of
from gpuarray.lax.convolution import padtype_to_pads
from gpuarray.lax.reductions import fold_body, fold_operands, monoid_of
from gpuarray.primitives.reduce.ops import (
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_sum_p,
)
from gpuarray.primitives.reduce.window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_p,
    reduce_window_sum_p,
)
from gpuarray.primitives.reduce.window_geometry import check_window, dilated, window_shape
from gpuarray.pytree import tree
from gpuarray.util import elements, index, indices, pair

# The reduction that a computation is recognised as, and the fold of windows by it.
_PRIMITIVES = {
    reduce_sum_p: reduce_window_sum_p,
    reduce_max_p: reduce_window_max_p,
    reduce_min_p: reduce_window_min_p,
}
# Of bools, whether some or all are true is the largest or the smallest.
_OF_BOOLS = {reduce_or_p: reduce_window_max_p, reduce_and_p: reduce_window_min_p}


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The number of windows along each axis.

    >>> from gpuarray import lax
    >>> lax.reduce_window_shape_tuple((3, 4), (2, 2), (1, 1), ((0, 1), (0, 0)))
    (3, 3)
    """
    ones = (1,) * len(operand_shape)
    geometry = (
        tuple(window_dimensions),
        tuple(window_strides),
        tuple(padding),
        _or_ones(base_dilation or None, len(ones)),
        _or_ones(window_dilation or None, len(ones)),
    )
    # Raise an error about an invalid geometry, for which the formula would still give a shape.
    check_window("reduce_window", tuple(operand_shape), *geometry)
    return window_shape(operand_shape, *geometry)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Fold every window of the operand with an associative function that starts from `init_value`.

    Shapes: operand [n, m], window_dimensions (a, b), result [(n - a) // stride + 1, ...] for
    padding "VALID". Padding holds `init_value`; dilations put holes into the operand or the window.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_window(gnp.array([1., 4., 2., 3.]), 0., lax.add, (2,), (2,))
    Array([5., 5.], dtype=float32)
    """
    xs, starts, treedef = fold_operands("reduce_window", operand, init_value)
    shape = shape_of(xs[0])
    if any(shape_of(s) for s in starts):
        raise TypeError(
            "reduce_window expected init_values to be scalars but init_values have shapes "
            f"{[shape_of(s) for s in starts]}."
        )
    window = tuple(map(index, window_dimensions))
    # Strides and dilations of 1 leave the plain window.
    strides = _or_ones(window_strides, len(window))
    base, inner = _or_ones(base_dilation, len(window)), _or_ones(window_dilation, len(window))
    pads: Any = padding
    # Check the geometry before it is used. As in JAX, "SAME" takes the dilation of windows into
    # account, and not that of the operand.
    if isinstance(padding, str):
        check_window("reduce_window", shape, window, strides, ((0, 0),) * len(window), base, inner)
        spans = [dilated(w, d) for w, d in zip(window, inner)]
        pads = padtype_to_pads(shape, spans, strides, padding)
    geometry = {
        "window_dimensions": window,
        "window_strides": strides,
        "padding": tuple(indices(pair(p, _PAIR)) for p in elements(pads, _PAIRS)),
        "base_dilation": base,
        "window_dilation": inner,
    }
    # Sums, maxima and minima have dedicated primitives with derivatives.
    if len(xs) == 1:
        known = monoid_of(computation, xs[0], starts[0])
        folds = _PRIMITIVES | (_OF_BOOLS if dtypes.kind_of(xs[0].dtype) == "b" else {})
        if known in folds:
            out = folds[known].bind(xs[0], **geometry)
            return tree.tree_unflatten(treedef, [out])
    # Any other function, as a Graph of scalars.
    body = fold_body("reduce_window", computation, xs, treedef)
    out = reduce_window_p.bind(*xs, *starts, jaxpr=body, consts=(), **geometry)
    return tree.tree_unflatten(treedef, out)


_PAIR, _PAIRS = "a pair (low, high)", "the name of a padding or a pair (low, high) for each axis"


def _or_ones(given: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    return (1,) * rank if given is None else indices(given)
