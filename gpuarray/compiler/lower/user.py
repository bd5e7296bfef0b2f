"""Kernels that users write: CUDA C++ text with a place in a Graph.

Floor 3. In: the text, the name of its kernel and its launch parameters. Out: a separate group for
each equation that calls it; cuda/user.py makes its text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.compiler.fuse.group import Load, Member, Step, group_of
from gpuarray.compiler.rewrite.sweep import is_sweep
from gpuarray.core.graph import Eqn, Literal, Var
from gpuarray.primitives.movement import build
from gpuarray.util import Struct


class UserSource(Struct):
    """A user's kernel: the `cuda` rule of a primitive that has one.

    grid(avals, **params) -> number of blocks
    """

    text: str
    name: str
    grid: Callable[..., int]
    block: int


def is_custom(eqn: Eqn) -> bool:
    """Whether an equation is a kernel that a user wrote."""
    return isinstance(eqn.primitive.cuda, UserSource)


def reads_memory(eqn: Eqn) -> bool:
    """Whether all operands of an equation must be in memory: its own text decides how they are
    read.
    """
    return is_custom(eqn) or is_sweep(eqn)


def custom_steps(eqn: Eqn) -> list[Step]:
    """The equation as a separate group; its scalar operands are put into memory first."""
    steps: list[Step] = []
    operands: list[Any] = []
    # A user's kernel takes pointers, and a literal has no memory.
    for a in eqn.invars:
        if isinstance(a, Literal):
            v = Var(a.aval)
            put = build.copy(a, eqn.site, v)
            steps.append(group_of(Member(put, [a], (), ()), (), [v]))
            a = v
        # The user's text decides how threads read: loads run along no axis.
        operands.append(Load(a, (), (None,) * a.aval.ndim, a.aval.shape))
    return [*steps, group_of(Member(eqn, operands, (), ()), (), eqn.outvars)]
