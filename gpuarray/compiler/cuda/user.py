"""Kernels that users wrote, with the numbers of each call in front of their text.

Floor 3. In: a User kernel. Out: its text.
"""

from __future__ import annotations

import re
from typing import Any

from gpuarray.compiler.cuda.template import KernelSource
from gpuarray.compiler.fuse.group import Load
from gpuarray.compiler.lower.kernel import Kernel
from gpuarray.compiler.lower.schedule import Schedule
from gpuarray.compiler.lower.traffic import each_once
from gpuarray.compiler.lower.user import UserSource
from gpuarray.core.avals import ShapedArray


def user_source(kernel: Kernel) -> KernelSource:
    """The text of one call: its sizes and parameters are constants."""
    (member,) = kernel.group.members
    eqn, name = member.eqn, kernel.name
    source: UserSource = eqn.primitive.cuda
    ins = [a.aval for a in eqn.invars]
    outs = [v.aval for v in eqn.outvars]
    numbers = dict(eqn.params) | _sizes("IN", ins) | _sizes("OUT", outs)
    # Macros only for the numbers that the text names, so that other sizes share its compile.
    used = {k: v for k, v in numbers.items() if re.search(rf"\b{k}\b", source.text)}
    grid = source.grid(ins, **eqn.params)
    args = ", ".join(a.str_short(True) for a in ins)
    results = ", ".join(a.str_short(True) for a in outs)
    lines = [
        f"// {name}: {source.name}, written by hand",
        f"//   {args or 'no inputs'} -> {results}; {grid} x {source.block} threads",
        # The kernel gets its name in the plan, so two calls in one source do not collide.
        f"#define {source.name} {name}",
        *(f"#define {k} {_constant(v)}" for k, v in used.items()),
        source.text.strip("\n"),
        *(f"#undef {k}" for k in (source.name, *used)),
    ]
    inputs = [o.source for o in member.operands if isinstance(o, Load)]
    schedule = Schedule(source.block, grid=grid)
    # The author may have declared anything, and the threads may synchronise.
    text = "\n".join(lines) + "\n"
    # The reads of its text are not known: count each array once.
    moved = each_once(inputs, eqn.outvars)
    return KernelSource(
        kernel, text, schedule, inputs, list(eqn.outvars), threads_meet=True, traffic=moved
    )


def _sizes(prefix: str, avals: list[ShapedArray]) -> dict[str, int]:
    """The macros IN0_SIZE, IN0_DIM0, IN0_DIM1, ... of arrays, with their values."""
    found: dict[str, int] = {}
    for i, aval in enumerate(avals):
        found[f"{prefix}{i}_SIZE"] = aval.size
        found.update({f"{prefix}{i}_DIM{k}": n for k, n in enumerate(aval.shape)})
    return found


def _constant(x: Any) -> str:
    """A parameter as text that means exactly this number."""
    # bool is an int in Python, but True is no C++.
    if isinstance(x, bool):
        return "true" if x else "false"
    # Brackets keep a negative number whole where the text writes `-N`.
    return f"({x!r})"
