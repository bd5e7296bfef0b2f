"""Reductions, running folds, sorting: functions that combine the elements along axes.

Floor 6. In: arrays and axes. Out: arrays. `reduce` takes any associative function; the usual ones
(add, mul, max, min, the bitwise ones) are recognised and become their own primitives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import config, util
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.core.layout import out_given
from gpuarray.core.primitive import Primitive
from gpuarray.core.value import Array
from gpuarray.functions.explicit import as_program, makes_terms
from gpuarray.lax import bits, elementwise
from gpuarray.lax.args import operand as bindable
from gpuarray.lax.args import shape_of
from gpuarray.primitives.order.sort import approx_top_k_p, sort_p, top_k_p
from gpuarray.primitives.reduce.cumulative import (
    cumlogsumexp_p,
    cummax_p,
    cummin_p,
    cumprod_p,
    cumsum_p,
)
from gpuarray.primitives.reduce.ops import (
    argmax_p,
    argmin_p,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from gpuarray.primitives.sums import check_sum
from gpuarray.pytree import tree
from gpuarray.runtime.transfer import placed
from gpuarray.transforms.tracing import stage_scalars
from gpuarray.util import index, name_of, number

# Types whose sums can lose precision or overflow quickly, as `allow_f16_reductions` has it.
_SHORT_FLOATS = (np.dtype(np.float16), dtypes.bfloat16)

# ---- reductions ----


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding=None) -> Array:
    """Sum over `axes`.

    Shapes: operand [n, m], result [m] for axes (0,). Short floats are added up in float32.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_sum(gnp.array([[1., 2.], [3., 4.]]), (0,))
    Array([4., 6.], dtype=float32)
    """
    if makes_terms(out_sharding):
        return as_program(reduce_sum, operand, axes, out_sharding=out_sharding)
    x = bindable("reduce_sum", operand)
    axes = tuple(map(index, axes))
    check_short_floats(x, axes)
    check_sum(aval_of(x), axes, out_sharding)
    with out_given(out_sharding):
        out = reduce_sum_p.bind(x, axes=axes, out_sharding=None)
    return placed("reduce_sum", out, out_sharding)


def check_short_floats(x: Any, axes: tuple[int, ...]) -> None:
    """Refuse a sum of float16 or bfloat16 where the setting `allow_f16_reductions` is off."""
    if config.state.allow_f16_reductions:
        return
    aval = aval_of(x)
    # A sum over an axis of length 1 changes nothing.
    summed = any(aval.shape[a] != 1 for a in axes if -aval.ndim <= a < aval.ndim)
    if summed and aval.dtype in _SHORT_FLOATS:
        raise ValueError(
            f"reduce_sum on operand {aval.str_short(True)} is not allowed when "
            "jax_allow_f16_reductions=False. Convert to float32 first."
        )


def reduce_prod(operand: Any, axes: Sequence[int]) -> Array:
    """Product over `axes`.

    Shapes: operand [n, m], result [m] for axes (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_prod(gnp.array([1., 2., 4.]), (0,))
    Array(8., dtype=float32)
    """
    return reduce_prod_p.bind(bindable("reduce_prod", operand), axes=tuple(map(index, axes)))


def reduce_max(operand: Any, axes: Sequence[int]) -> Array:
    """Maximum over `axes`; NaN if any element is NaN; over no elements, the dtype's lowest value.

    Shapes: operand [n, m], result [m] for axes (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_max(gnp.array([1, 5, 3]), (0,))
    Array(5, dtype=int32)
    """
    return reduce_max_p.bind(bindable("reduce_max", operand), axes=tuple(map(index, axes)))


def reduce_min(operand: Any, axes: Sequence[int]) -> Array:
    """Minimum over `axes`; NaN if any element is NaN; over no elements, the dtype's highest value.

    Shapes: operand [n, m], result [m] for axes (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_min(gnp.array([1, 5, 3]), (0,))
    Array(1, dtype=int32)
    """
    return reduce_min_p.bind(bindable("reduce_min", operand), axes=tuple(map(index, axes)))


# Floats have no bits to combine: the caller means `x != 0`.
def _logical(name: str, prim: Primitive, operand: Any, axes: Sequence[int]) -> Array:
    x = bindable(name, operand)
    kind = dtypes.kind_of(aval_of(x).dtype)
    if kind not in "biu":
        raise TypeError(
            f"logical reduction requires operand dtype bool or int, got {aval_of(x).dtype.name}. "
            f"Compare first, for example {name}(x != 0, axes)."
        )
    return prim.bind(x, axes=tuple(map(index, axes)))


def reduce_and(operand: Any, axes: Sequence[int]) -> Array:
    """Bitwise (of booleans: logical) and over `axes`.

    Shapes: operand [n, m], result [m] for axes (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_and(gnp.array([6, 3]), (0,))
    Array(2, dtype=int32)
    """
    return _logical("reduce_and", reduce_and_p, operand, axes)


def reduce_or(operand: Any, axes: Sequence[int]) -> Array:
    """Bitwise (of booleans: logical) or over `axes`.

    Shapes: operand [n, m], result [m] for axes (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_or(gnp.array([6, 3]), (0,))
    Array(7, dtype=int32)
    """
    return _logical("reduce_or", reduce_or_p, operand, axes)


def reduce_xor(operand: Any, axes: Sequence[int]) -> Array:
    """Bitwise (of booleans: logical) exclusive or over `axes`.

    Shapes: operand [n, m], result [m] for axes (0,).

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce_xor(gnp.array([6, 3]), (0,))
    Array(5, dtype=int32)
    """
    return _logical("reduce_xor", reduce_xor_p, operand, axes)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """The index of the first maximum along `axis`; NaN counts as larger than any number.

    Shapes: operand [n, m], result [m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.argmax(gnp.array([1., 5., 5.]), 0, "int32")
    Array(1, dtype=int32)
    """
    return _arg_extreme("argmax", argmax_p, operand, axis, index_dtype)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """The index of the first minimum along `axis`; NaN counts as smaller than any number.

    Shapes: operand [n, m], result [m] for axis 0.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.argmin(gnp.array([4., 1., 1.]), 0, "int32")
    Array(1, dtype=int32)
    """
    return _arg_extreme("argmin", argmin_p, operand, axis, index_dtype)


def _arg_extreme(name: str, prim: Primitive, operand: Any, axis: int, index_dtype: Any) -> Array:
    dtype = dtypes.requested_dtype(index_dtype, name)
    return prim.bind(bindable(name, operand), axes=(index(axis),), index_dtype=dtype)


# ---- any fold ----

#: Functions that folds recognise, with the reductions that fold by them.
_MONOIDS: dict[Any, Primitive] = {
    elementwise.add: reduce_sum_p,
    elementwise.mul: reduce_prod_p,
    elementwise.max: reduce_max_p,
    elementwise.min: reduce_min_p,
    bits.bitwise_and: reduce_and_p,
    bits.bitwise_or: reduce_or_p,
    bits.bitwise_xor: reduce_xor_p,
}


def monoid_of(computation: Callable, operand: Any, initial: Any) -> Primitive | None:
    """The reduction that folds like `computation`, if it is known and `initial` its identity."""
    try:
        # By identity: a lambda that adds is not recognised.
        found = _MONOIDS.get(computation)
    except TypeError:  # an unhashable callable
        return None
    dtype = aval_of(operand).dtype
    # An Array may be traced: its value is not known.
    if found is None or isinstance(initial, Array) or dtypes.kind_of(dtype) not in "biufc":
        return None
    # Bitwise functions refuse floats, with their own message.
    if found in (reduce_and_p, reduce_or_p, reduce_xor_p) and dtypes.kind_of(dtype) in "fc":
        return None
    assert found.fold is not None
    # Any other start changes the result.
    same = np.asarray(initial).ndim == 0 and initial == found.fold.of_nothing(dtype)
    return found if same else None


def fold_body(op: str, computation: Callable, operands: list, treedef: Any) -> Graph:
    """A user's combining function as a Graph of scalars: (accumulated..., next...) -> combined."""
    # Strongly typed: accumulators have the dtype of the operand.
    scalars = [ShapedArray((), aval_of(x).dtype) for x in operands]

    def flat(*values):
        so_far, new = values[: len(operands)], values[len(operands) :]
        out = computation(tree.tree_unflatten(treedef, so_far), tree.tree_unflatten(treedef, new))
        leaves, given = tree.tree_flatten(out)
        if given != treedef:
            raise ValueError(
                f"{op} output must have the same tree structure as the operands: {treedef} vs. "
                f"{given}"
            )
        return leaves

    return stage_scalars(op, flat, scalars + scalars, computation)


def fold_operands(op: str, operands: Any, init_values: Any) -> tuple[list, list, Any]:
    """The flat operands and initial values of a fold, and their common structure."""
    xs, treedef = tree.tree_flatten(operands)
    starts, given = tree.tree_flatten(init_values)
    if given != treedef:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {treedef} vs. {given}"
        )
    if not xs:
        raise ValueError(f"{op} needs at least one operand")
    # Positions in error messages count the operands, then the initial values.
    xs = [bindable(op, x, i) for i, x in enumerate(xs)]
    if len(xs) == 1:
        starts = [_limit(starts[0], aval_of(xs[0]).dtype)]
    return xs, [bindable(op, s, len(xs) + i) for i, s in enumerate(starts)], treedef


def _limit(start: Any, dtype: Any) -> Any:
    """An infinity as the last integer, where integers are folded."""
    if isinstance(start, float) and math.isinf(start) and dtypes.kind_of(dtype) in "iu":
        bounds = np.iinfo(dtype)
        return dtype.type(bounds.max if start > 0 else bounds.min)
    return start


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding=None,
) -> Any:
    """Fold arrays over `dimensions` with an associative function that starts from `init_values`.

    Shapes: each operand [n, m], each initial value [], each result [m] for dimensions (0,).
    `computation` takes the accumulators and the next elements, as scalars in the structure of
    `operands`. On a GPU threads share a row, so it has to be commutative too.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.reduce(gnp.array([3., 4.]), 0., lambda a, b: gnp.sqrt(a * a + b * b), (0,))
    Array(5., dtype=float32)
    """
    xs, starts, treedef = fold_operands("reduce", operands, init_values)
    # Known functions become their own primitives, which have derivatives and better kernels.
    axes = tuple(map(index, dimensions))
    if any(shape_of(s) for s in starts):
        shapes = [shape_of(s) for s in starts]
        raise ValueError(f"reduce found non-scalar initial value: {shapes}")
    if len(xs) == 1:
        known = monoid_of(computation, xs[0], starts[0])
        if known is not None:
            extra: dict[str, Any] = {}
            if known is reduce_sum_p:
                check_short_floats(xs[0], axes)
                # Only sums have a parameter for the layout of the result.
                extra = {"out_sharding": None}
            result = known.bind(xs[0], axes=axes, **extra)
            return tree.tree_unflatten(treedef, [placed("reduce", result, out_sharding)])
    out = reduce_p.bind(
        *xs,
        *starts,
        # The name is shown when the program is printed.
        computation=name_of(computation),
        jaxpr=fold_body("reduce", computation, xs, treedef),
        dimensions=axes,
    )
    out = [placed("reduce", x, out_sharding) for x in out]
    return tree.tree_unflatten(treedef, out)


# ---- running folds ----


def _running(
    name: str, prim: Primitive, summary: str, example: str, given: str = "[1., 3., 2.]"
) -> Callable[..., Array]:
    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
        return prim.bind(bindable(name, operand), axis=index(axis), reverse=bool(reverse))

    # Functions that differ in a primitive are made by one function, docstrings included.
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary} along `axis`, from its end if `reverse`.

    Shapes: operand and result are of one shape.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.{name}(gnp.array({given}))
    Array({example}, dtype=float32)
    """
    return function


cumsum = _running("cumsum", cumsum_p, "Running sum", "[1., 4., 6.]")
cumprod = _running("cumprod", cumprod_p, "Running product", "[1., 3., 6.]")
cummax = _running("cummax", cummax_p, "Running maximum", "[1., 3., 3.]")
cummin = _running("cummin", cummin_p, "Running minimum", "[1., 1., 1.]")
cumlogsumexp = _running(
    "cumlogsumexp",
    cumlogsumexp_p,
    "Running log of the sum of exponentials",
    "[  0., 100.]",
    "[0., 100.]",
)


# ---- sorting ----


def sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Sort along an axis: one array, or several by the first `num_keys` of them.

    Shapes: operands and results are of one shape. NaNs come last, equal elements keep their order.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.sort((gnp.array([2, 1]), gnp.array([5., 6.])))
    (Array([1, 2], dtype=int32), Array([6., 5.], dtype=float32))
    """
    # One array, or several that are permuted together.
    several = isinstance(operand, Sequence)
    xs = [bindable("sort", x, i) for i, x in enumerate(operand if several else (operand,))]
    if not xs:
        raise TypeError("Sort requires at least one operand")
    axis = util.canonical_axis(dimension, len(shape_of(xs[0])))
    out = sort_p.bind(*xs, dimension=axis, is_stable=bool(is_stable), num_keys=index(num_keys))
    return tuple(out) if several else out[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort `keys` along an axis and rearrange `values` in the same way.

    Shapes: keys, values and both results are of one shape.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.sort_key_val(gnp.array([3, 1, 2]), gnp.array([0, 1, 2]))
    (Array([1, 2, 3], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    k, v = sort((keys, values), dimension, is_stable)
    return k, v


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Array]:
    """The k largest elements along an axis, in descending order, and their indices.

    Shapes: operand [n, m], results [n, k] and [n, k] for axis 1. Equal elements keep their order.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.top_k(gnp.array([1., 5., 3.]), 2)
    [Array([5., 3.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    x = bindable("top_k", operand)
    at = util.canonical_axis(axis, len(shape_of(x)))
    most = dtypes.iinfo(np.int32).max
    if isinstance(n := shape_of(x)[at], int) and n > most:
        raise ValueError(
            "top_k returns int32 indices, which will overflow for array dimensions larger than the "
            f"maximum int32 ({most}). Got operand.shape={shape_of(x)}"
        )
    return list(top_k_p.bind(x, k=index(k), axis=at))


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k largest elements along an axis and their indices, with a recall of `recall_target`.

    Shapes: operand [n, m], results [n, k] and [n, k] for axis 1; without `aggregate_to_topk` they
    hold all candidates, more than k.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.approx_max_k(gnp.array([1., 5., 3.]), 2)
    [Array([5., 3.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    return _approx(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        True,
    )


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k smallest elements along an axis and their indices, with a recall of `recall_target`.

    Shapes: operand [n, m], results [n, k] and [n, k] for axis 1; without `aggregate_to_topk` they
    hold all candidates, more than k.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> lax.approx_min_k(gnp.array([1., 5., 3.]), 2)
    [Array([1., 3.], dtype=float32), Array([0, 2], dtype=int32)]
    """
    return _approx(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        False,
    )


def _approx(operand, k, dimension, recall, override, aggregate, largest) -> list[Array]:
    return list(
        approx_top_k_p.bind(
            bindable("approx_top_k", operand),
            k=index(k),
            reduction_dimension=index(dimension),
            recall_target=number(recall),
            is_max_k=largest,
            reduction_input_size_override=index(override),
            aggregate_to_topk=bool(aggregate),
        )
    )
