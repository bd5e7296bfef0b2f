"""Loops inside the parts of an operation, as `scan` equations.

Floor 4. In: a function of one step, initial values. Out: `scan` equations in the current trace. A
step must not close over values: constants are passed explicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Graph
from gpuarray.primitives.define import do
from gpuarray.transforms.tracing import TracedFunction, stage


def graph_of(fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str) -> Graph:
    """Stage a function of flat values as a Graph."""
    # The name appears in profiles and messages.
    graph = stage(fun, avals, TracedFunction(fun, name))
    graph.debug_name = name
    return graph


def scan(
    step: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    carry: Sequence[Any],
    xs: Sequence[Any] = (),
    *,
    length: int,
    consts: Sequence[Any] = (),
    reverse: bool = False,
) -> tuple[list, list]:
    """Run step(*consts, *carry, *row of each of xs) -> (carry, ys) `length` times.

    Return the last carry, and the ys stacked.
    """

    def body(*values):
        after, ys = step(*values)
        return [*after, *ys]

    # A step sees one row of each of xs.
    rows = [a.update(shape=a.shape[1:]) for a in map(aval_of, xs)]
    avals = [*map(aval_of, consts), *map(aval_of, carry), *rows]
    # Weak types would change from the first step to the next.
    graph = graph_of(body, [a.strip_weak_type() for a in avals], "scan")
    out = do.scan(
        *consts, *carry, *xs, jaxpr=graph, length=length, reverse=reverse, unroll=1,
        num_consts=len(consts), num_carry=len(carry),
    )  # fmt: skip
    return out[: len(carry)], out[len(carry) :]
