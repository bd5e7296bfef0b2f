"""The order of elements in memory, by JAX's names.

Floor 6. In: a user's layout. Out: the arrays unchanged: each device stores its piece in row-major
order, and any other layout is an error.
"""

from __future__ import annotations

from typing import Any

from gpuarray.core.avals import aval_of
from gpuarray.core.formats import Format as Format
from gpuarray.core.formats import Layout as Layout
from gpuarray.core.trace import Tracer
from gpuarray.pytree import tree
from gpuarray.runtime.array import ArrayImpl

__all__ = ["Format", "Layout", "with_layout_constraint"]


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Constrain the memory layout of arrays to `layouts`.

    `layouts` is a `Layout`, or a pytree of them that is a prefix of `x`. Arrays are row-major
    already: any other layout raises ValueError.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.layout import Layout, with_layout_constraint
    >>> with_layout_constraint(gnp.ones((1, 2)), Layout((0, 1)))
    Array([[1., 1.]], dtype=float32)
    """
    leaves = tree.flatten(x)[0]
    ends = lambda item: item is None or isinstance(item, Layout)
    given = tree.tree_flatten(layouts, ends)[0]
    if not all(isinstance(layout, Layout) for layout in given):
        raise ValueError(
            "layouts passed to `with_layout_constraint` must be of type `Layout`. Got "
            f"{[type(layout) for layout in given]}"
        )
    found = tree.prefix_broadcast(layouts, x, ends, "with_layout_constraint layouts")
    for leaf, layout in zip(leaves, found, strict=True):
        if not isinstance(leaf, (ArrayImpl, Tracer)):
            raise ValueError(
                "with_layout_constraint in eager mode can only be applied to arrays. Got "
                f"{type(leaf)}"
            )
        layout.check_possible(aval_of(leaf).shape, "One of with_layout_constraint arguments")
    return x
