"""Kernels that users wrote, with the numbers of each call in front of their text.

Floor 3. In: a group of one equation. Out: its `Emitted`.
"""

from __future__ import annotations

import re
from typing import Any

from gpuarray.compiler.cuda.form import Emitted
from gpuarray.compiler.cuda.schedule import Schedule
from gpuarray.compiler.fuse.group import Group, Load
from gpuarray.compiler.lower.user import Source
from gpuarray.core.avals import ShapedArray


def custom_kernel(source: Source, group: Group) -> Emitted:
    """The kernel of one call: its sizes and parameters are constants."""
    (member,) = group.members
    eqn, name = member.eqn, group.name
    ins = [a.aval for a in eqn.invars]
    outs = [v.aval for v in eqn.outvars]
    numbers = dict(eqn.params) | _sizes("IN", ins) | _sizes("OUT", outs)
    used = {k: v for k, v in numbers.items() if re.search(rf"\b{k}\b", source.text)}
    grid = source.grid(ins, **eqn.params)
    args = ", ".join(a.str_short(True) for a in ins)
    results = ", ".join(a.str_short(True) for a in outs)
    lines = [
        f"// {name}: {source.name}, written by hand",
        f"//   {args or 'no inputs'} -> {results}; {grid} x {source.block} threads",
        f"#define {source.name} {name}",
        *(f"#define {k} {_constant(v)}" for k, v in used.items()),
        source.text.strip("\n"),
        *(f"#undef {k}" for k in (source.name, *used)),
    ]
    inputs = [o.source for o in member.operands if isinstance(o, Load)]
    schedule = Schedule("custom", source.block, grid=grid)
    return Emitted(
        name, "\n".join(lines) + "\n", schedule, inputs, list(eqn.outvars), kind="custom"
    )


def _sizes(prefix: str, avals: list[ShapedArray]) -> dict[str, int]:
    """IN0_SIZE, IN0_DIM0, IN0_DIM1, ... of arrays."""
    found: dict[str, int] = {}
    for i, aval in enumerate(avals):
        found[f"{prefix}{i}_SIZE"] = aval.size
        found.update({f"{prefix}{i}_DIM{k}": n for k, n in enumerate(aval.shape)})
    return found


def _constant(x: Any) -> str:
    """A parameter as text that means exactly this number."""
    if isinstance(x, bool):
        return "true" if x else "false"
    return f"({x!r})"
