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
    """Which leaves of `(args, kwargs)` are given away, by their numbers."""
    named = set(argnames)
    given = {n % len(args) for n in argnums if -len(args) <= n < len(args)}
    # Keywords come after the positions, in the order of their names.
    parts = [(i in given, x) for i, x in enumerate(args)]
    parts += [(name in named, kwargs[name]) for name in sorted(kwargs)]
    found: set[int] = set()
    start = 0
    for is_given, part in parts:
        stop = start + len(tree.flatten_raw(part)[0])
        if is_given:
            found.update(range(start, stop))
        start = stop
    return frozenset(found)


def warn_unusable(graph: Graph, donated: frozenset[int]) -> None:
    """Warn of donated arguments that are read, and whose memory fits no result."""
    if not donated:
        return
    results = Counter((a.shape, a.dtype) for a in graph.out_avals)
    read = {v for eqn in graph.eqns for v in eqn.invars} | set(graph.outvars)
    unusable = []
    for i in sorted(donated):
        var = graph.invars[i]
        kind = (var.aval.shape, var.aval.dtype)
        if results[kind]:
            results[kind] -= 1
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
