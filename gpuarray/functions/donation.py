"""Arguments that a caller gives away: which leaves they are, and which of them are of use.

Floor 6. In: the options of `jit`, arguments and a Graph. Out: numbers of leaves; a warning.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gpuarray.core.graph import Graph


def donated_leaves(spec: Any, argnums: Iterable[int], argnames: Iterable[str]) -> frozenset[int]:
    """Which leaves are given away; `spec` is the structure of (args, kwargs)."""
    positional, named = spec.children()
    args, (_, names) = positional.children(), named.node_data()
    # The leaves of an argument follow those of the arguments before it.
    leaves = itertools.count()
    of_args = [list(itertools.islice(leaves, a.num_leaves)) for a in args]
    of_names = {
        name: list(itertools.islice(leaves, a.num_leaves))
        for name, a in zip(names, named.children(), strict=True)
    }
    given = [of_args[n] for n in argnums if -len(args) <= n < len(args)]
    given += [of_names[name] for name in argnames if name in of_names]
    return frozenset(itertools.chain(*given))


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
