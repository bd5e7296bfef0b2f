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
    # The structure alone: the arguments themselves need not be there.
    positional, named = spec.children()
    args, (_, names) = positional.children(), named.node_data()
    # Leaves are numbered across arguments, in order.
    leaves = itertools.count()
    of_args = [list(itertools.islice(leaves, a.num_leaves)) for a in args]
    of_names = {
        name: list(itertools.islice(leaves, a.num_leaves))
        for name, a in zip(names, named.children(), strict=True)
    }
    given = [of_args[n] for n in argnums if -len(args) <= n < len(args)]
    given += [of_names[name] for name in argnames if name in of_names]
    return frozenset(itertools.chain(*given))


def given_away(graph: Graph, donated: frozenset[int], warn: bool = True) -> frozenset[int]:
    """Return which donated arguments give their memory to a result; warn of those that cannot.

    The others are not donated: deleting them would gain nothing.
    """
    if not donated:
        return donated
    # Each result reuses the memory of one argument with the same number of bytes.
    results = Counter(a.nbytes for a in graph.out_avals)
    read = {v for eqn in graph.eqns for v in eqn.invars} | set(graph.outvars)
    usable, unusable = [], []
    for i in sorted(donated):
        var = graph.invars[i]
        # An argument that the function does not read is not part of its program.
        if var not in read:
            continue
        if results[var.aval.nbytes]:
            results[var.aval.nbytes] -= 1
            usable.append(i)
        else:
            unusable.append(var.aval.str_short())
    if unusable and warn:
        warnings.warn(
            f"Some donated buffers were not usable: {', '.join(unusable)}: no result of the "
            "function has as many bytes, or another argument gave it its memory. They are not "
            "deleted; donate only what a result can take the place of.",
            UserWarning,
            stacklevel=2,
        )
    return frozenset(usable)
