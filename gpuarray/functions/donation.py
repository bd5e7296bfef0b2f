"""Arguments that a caller gives away: which leaves they are, and which of them are of use.

Floor 6. In: the options of `jit`, arguments and a Graph. Out: numbers of leaves; a warning.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable

from gpuarray.core.graph import Graph
from gpuarray.pytree import tree


def donated_leaves(
    args: tuple, kwargs: dict, argnums: Iterable[int], argnames: Iterable[str]
) -> frozenset[int]:
    """Which leaves are given away (`args` and `kwargs` hold leaf numbers here)."""
    found: set[int] = set()
    for n in argnums:
        if -len(args) <= n < len(args):
            found.update(tree.flatten_raw(args[n])[0])
    for name in argnames:
        if name in kwargs:
            found.update(tree.flatten_raw(kwargs[name])[0])
    return frozenset(found)


def warn_unusable(graph: Graph, donated: frozenset[int]) -> None:
    """Warn of donated arguments that are read, and whose memory fits no result."""
    if not donated:
        return
    # Each result takes one buffer of its own kind; a second donated one of that kind finds no
    # use.
    results = Counter((a.shape, a.dtype) for a in graph.out_avals)
    read = {v for eqn in graph.eqns for v in eqn.invars} | set(graph.outvars)
    unusable = []
    for i in sorted(donated):
        var = graph.invars[i]
        kind = (var.aval.shape, var.aval.dtype)
        if results[kind]:
            results[kind] -= 1
        # What the function does not even read is no loss: its memory is freed.
        elif var in read:
            unusable.append(repr(var.aval))
    if unusable:
        warnings.warn(
            f"Some donated buffers were not usable: {', '.join(unusable)}: no result of the "
            "function has that shape and dtype. They are deleted all the same; donate only what "
            "a result can take the place of.",
            UserWarning,
            stacklevel=2,
        )
