"""Values that must have the same sharding, and callbacks that receive the sharding of a value.

Floor 4. In: values of a program. Out: a primitive that returns two values, both with the finer
sharding of the two, and the callback of `debug.inspect_array_sharding`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.factors import elementwise
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import add_axis, move_axis
from gpuarray.transforms.batch import BatchAxis


def _inline(eqn: Eqn) -> Graph:
    """On one device, and on the pieces of several, the values are passed on."""
    invars = [Var(a.aval) for a in eqn.invars]
    return Graph(invars, invars, [], debug_name="shard_alike")


def _batch(axis: BatchAxis, args: list, dims: list):
    x, y = (
        add_axis(x, 0, axis.size) if d is None else move_axis(x, d, 0)
        for x, d in zip(args, dims, strict=True)
    )
    return shard_alike_p.bind(x, y), [0, 0]


#: Derivatives keep the sharding that they have.
shard_alike_p = Primitive(
    "shard_alike",
    Kind.LIBRARY,
    same_bytes=True,
    multiple_results=True,
    aval=lambda x, y: [x, y],
    numpy=lambda x, y: [x, y],
    jvp=lambda primals, tangents: (shard_alike_p.bind(*primals), tangents),
    transpose=lambda cts, *xs: list(cts),
    batch=_batch,
    inline=_inline,
    factors=elementwise,
    weight=0,
)


class Inspection:
    """A callback that receives a value's sharding once, and not its elements."""

    captures = True

    def __init__(self, callback: Callable[[Any], None], on_one: Any):
        self._callback = callback
        self._on_one: Any = on_one

    def laid(self, sharding: Any) -> None:
        """Report the sharding: called when a program for several devices is made."""
        self._callback(sharding)

    def __call__(self, avals: Any, buffers: Any, result_avals: Any) -> list:
        # A program for one device makes no layouts: it reports when it first runs.
        if self._on_one is not None:
            sharding, self._on_one = self._on_one, None
            self._callback(sharding)
        return []
