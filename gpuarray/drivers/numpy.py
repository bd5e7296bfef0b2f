"""The NumPy driver: Plans as straight Python over NumPy.

Floor 4. In: a Plan. Out: a function on buffers. A buffer is an ndarray or a NumPy scalar.
"""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import numpy as np

from gpuarray.compiler.plan import Plan
from gpuarray.core.graph import Literal, storage_dtype


class _Local(threading.local):
    """Each thread runs NumPy in a context of its own, in which floating-point warnings are off.

    Entering a prepared context costs a tenth of `np.errstate`.
    """

    def __init__(self):
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


local = _Local()


def eager_function(prim, avals, params):
    """One primitive as a function on buffers."""
    return prim.numpy_function(avals, params)


def build(plan: Plan, consts: list, donated: frozenset[int] = frozenset()):
    """A Python function from buffers to a list of buffers, generated once for the plan."""
    graph = plan.graph
    names: dict[Any, str] = {}
    space: dict[str, Any] = {}
    for i, (v, c) in enumerate(zip(graph.constvars, consts, strict=True)):
        names[v] = f"const{i}"
        space[f"const{i}"] = c
    for i, v in enumerate(graph.invars):
        names[v] = f"a{i}"
    lines = [f"def plan({', '.join(names[v] for v in graph.invars)}):"]

    def atom(a) -> str:
        if isinstance(a, Literal):
            name = f"lit{len(space)}"
            space[name] = np.asarray(a.val).astype(storage_dtype(a.aval))[()]
            return name
        return names[a]

    for k, eqn in enumerate(plan.steps):
        space[f"f{k}"] = eqn.primitive.numpy_function([a.aval for a in eqn.invars], eqn.params)
        call = f"f{k}({', '.join(map(atom, eqn.invars))})"
        for v in eqn.outvars:
            names[v] = f"v{len(names)}"
        outs = ", ".join(names[v] for v in eqn.outvars)
        comma = "," if eqn.primitive.multiple_results else ""
        lines.append(f"    {outs}{comma} = {call}")
    lines.append(f"    return [{', '.join(map(atom, graph.outvars))}]")
    exec("\n".join(lines), space)
    return space["plan"]
