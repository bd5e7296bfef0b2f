"""Gather and scatter as functions: reading and writing windows at places that arrays name.

Floor 6. In: arrays, integer index vectors and dimension numbers. Out: arrays. The numpy namespace
(`x[idx]`, `x.at[idx].set(y)`) is the comfortable way to these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.primitive import Primitive
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape, dtype_of
from gpuarray.lax.args import operand as bindable
from gpuarray.lax.creation import full
from gpuarray.primitives.indexing.ops import GatherDimensionNumbers as GatherDimensionNumbers
from gpuarray.primitives.indexing.ops import GatherScatterMode as GatherScatterMode
from gpuarray.primitives.indexing.ops import ScatterDimensionNumbers as ScatterDimensionNumbers
from gpuarray.primitives.indexing.ops import (
    default_fill,
    gather_p,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
    update_graph,
)
from gpuarray.primitives.memory import in_memory
from gpuarray.transforms.tracing import stage_scalars


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Read one window of shape `slice_sizes` for every index vector.

    Shapes: operand [n, m], start_indices [*batch, k], result [*batch, *window] with the window's
    axes at `offset_dims`; `dimension_numbers` names the axes.

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> lax.gather(gnp.array([[1, 2], [3, 4]]), gnp.array([[1], [1]]), rows, (1, 2))
    Array([[3, 4],
           [3, 4]], dtype=int32)
    """
    x = bindable("gather", operand)
    at = bindable("gather", start_indices, 1)
    # JAX's default for reads trusts the indices; for writes it drops those out of bounds.
    how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    # A fill value without effect leaves the parameters, so equal programs stay equal.
    if how is not GatherScatterMode.FILL_OR_DROP:
        # Only this mode reads outside the operand, so only it has a value to fill in.
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill(dtype_of(x))
    elif np.shape(fill_value):
        raise ValueError(f"fill_value must be a scalar, got {fill_value!r}")
    elif isinstance(fill_value, str | bytes):
        raise TypeError(f"fill_value must be a number, got {fill_value!r}")
    elif type(fill_value) is complex and dtypes.kind_of(dtype_of(x)) in ("i", "u", "f"):
        raise TypeError(
            f"fill_value {fill_value} is complex, the array is {dtype_of(x)}: take its .real"
        )
    return gather_p.bind(
        x,
        at,
        dimension_numbers=_plain(GatherDimensionNumbers, dimension_numbers),
        slice_sizes=canonicalize_shape(slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=how,
        fill_value=fill_value,
    )


def _plain(kind: type, numbers: Any) -> Any:
    """Dimension numbers with every field a tuple, so that they are hashable."""
    return kind(*(tuple(getattr(numbers, field)) for field in kind._fields))  # pyright: ignore[reportAttributeAccessIssue]


def _scatter(
    name: str,
    prim: Primitive,
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
    update: Any = None,
) -> Array:
    x = bindable(name, operand)
    return prim.bind(
        x,
        bindable(name, scatter_indices, 1),
        # As a separate step: its transpose brings cotangents back to the memory of the updates.
        in_memory(bindable(name, updates, 2), aval_of(x).memory_space),
        dimension_numbers=_plain(ScatterDimensionNumbers, dimension_numbers),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        # None: windows that are not entirely inside are dropped.
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=update_graph(prim, dtype_of(x)) if update is None else update,
        update_consts=(),
    )


# A part of the docstrings that all scatters share.
_SHAPES = """

    Shapes: operand [n, m], scatter_indices [*batch, k], updates [*batch, *window] with the window's
    axes at `update_window_dims`, result [n, m]. Windows that stick out are skipped (or, with
    mode="clip", moved inside).
"""


def _public(name: str, prim: Primitive, summary: str, example: str) -> Callable[..., Array]:
    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        return _scatter(
            name,
            prim,
            operand,
            scatter_indices,
            updates,
            dimension_numbers,
            indices_are_sorted,
            unique_indices,
            mode,
        )

    # Functions that differ in a primitive are made by one function, docstrings included.
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}{_SHAPES}
    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> at = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.{name}(gnp.array([4., 4., 4.]), gnp.array([[1], [1]]), gnp.array([2., 3.]), at)
    Array({example}, dtype=float32)
    """
    return function


scatter = _public(
    "scatter",
    scatter_p,
    "Replace one window for every index vector; of several at one place the last one stays.",
    "[4., 3., 4.]",
)
scatter_add = _public(
    "scatter_add",
    scatter_add_p,
    "Add one update to the window of every index vector; several at one place add up.",
    "[4., 9., 4.]",
)
scatter_sub = _public(
    "scatter_sub",
    scatter_sub_p,
    "Subtract one update from the window of every index vector; several at one place add up.",
    "[ 4., -1.,  4.]",
)
scatter_mul = _public(
    "scatter_mul",
    scatter_mul_p,
    "Multiply the window of every index vector by one update; several at one place multiply.",
    "[ 4., 24.,  4.]",
)
scatter_min = _public(
    "scatter_min",
    scatter_min_p,
    "Replace the window of every index vector by its minimum with one update.",
    "[4., 2., 4.]",
)
scatter_max = _public(
    "scatter_max",
    scatter_max_p,
    "Replace the window of every index vector by its maximum with one update.",
    "[4., 4., 4.]",
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Apply a scalar function to the window of every index vector, once for each time it occurs.

    Shapes: operand [n, m], scatter_indices [*batch, k], `update_shape` [*batch, *window] is the
    shape that updates would have, result [n, m].

    >>> from gpuarray import lax
    >>> import gpuarray.numpy as gnp
    >>> at = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> places = gnp.array([[1], [1]])
    >>> lax.scatter_apply(gnp.ones(3), places, lambda v: v * 3, at, update_shape=(2,))
    Array([1., 9., 1.], dtype=float32)
    """
    x = bindable("scatter_apply", operand)
    dtype = dtype_of(x)
    # The function sees one element at a time.
    aval = ShapedArray((), dtype)
    # As a scatter whose combining function ignores the update.
    body = stage_scalars("scatter_apply", lambda there, _: [func(there)], [aval, aval], func)
    (result,) = body.out_avals
    # Updates are scalars of the operand's dtype: anything else could not be stored in it.
    if result.shape or result.dtype != dtype:
        raise TypeError(
            f"scatter_apply needs a function from scalars of dtype {dtype.name} to scalars of the "
            f"same dtype; the given one returns {result.str_short()}."
        )
    return _scatter(
        "scatter_apply",
        scatter_p,
        x,
        scatter_indices,
        # The updates are never read; only their shape matters, as the number of windows.
        full(update_shape, 0, dtype),
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
        body,
    )
