"""`shard_alike`: give two values the same sharding.

Floor 6. In: two pytrees of arrays. Out: the same values.
"""

from __future__ import annotations

from typing import Any

from gpuarray.control.alike import shard_alike_p
from gpuarray.core.avals import aval_of
from gpuarray.core.trace import Tracer
from gpuarray.functions.jit import jit
from gpuarray.pytree import tree

__all__ = ["shard_alike"]


def shard_alike(x: Any, y: Any) -> Any:
    """The same two values with a common sharding: that of the sharded one.

    They are arrays, or containers of arrays of the same structure and shapes.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental.shard_alike import shard_alike
    >>> shard_alike(gnp.ones(2), gnp.zeros(2))[1]
    Array([0., 0.], dtype=float32)
    """
    x_leaves, x_spec = tree.flatten(x)
    y_leaves, y_spec = tree.flatten(y)
    if x_spec != y_spec:
        raise ValueError(f"Trees should match. Got x tree: {x_spec}, y tree: {y_spec}")
    for a, b in zip(x_leaves, y_leaves, strict=True):
        if aval_of(a).shape != aval_of(b).shape:
            raise ValueError(
                "The leaves shapes of `x` and `y` should match. Got `x` leaf shape: "
                f"{aval_of(a).shape}, `y` leaf shape: {aval_of(b).shape}"
            )
    pairs = [_alike(a, b) for a, b in zip(x_leaves, y_leaves, strict=True)]
    return (
        tree.unflatten(x_spec, [a for a, _ in pairs]),
        tree.unflatten(y_spec, [b for _, b in pairs]),
    )


_concrete = jit(lambda x, y: tuple(shard_alike_p.bind(x, y)))


def _alike(x: Any, y: Any) -> Any:
    traced = isinstance(x, Tracer) or isinstance(y, Tracer)
    return shard_alike_p.bind(x, y) if traced else _concrete(x, y)
