"""Scatters as groups: updates in place, and the equations of those that are sorted first.

Floor 3. In: an equation whose primitive changes a part of its first operand, for which
rewrite/updates.py has chosen the method. Out: its group, or the equations that sort its updates by
target.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.group import FusedGroup, Load, Member, Operand, group_of
from gpuarray.compiler.rewrite.updates import updates_of
from gpuarray.core.graph import Eqn, Literal


def sorted_eqns(eqn: Eqn, known: dict) -> list[Eqn]:
    """Many updates with possibly equal targets, as equations that sort them by target. `known` has
    the orders of earlier scatters, one of which may fit.
    """
    rule = eqn.primitive.update
    assert rule.in_order is not None
    return rule.in_order(eqn, known)


def update_group(eqn: Eqn) -> FusedGroup:
    """An update in place as a group: its axes are those of the updates."""
    shape = updates_of(eqn).aval.shape
    # The kernel addresses operands by computed indices, so loads run along none of its axes.
    operands: list[Operand] = [
        a if isinstance(a, Literal) else Load(a, (), (None,) * a.aval.ndim, a.aval.shape)
        for a in eqn.invars
    ]
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    return group_of(Member(eqn, operands, dims, dims), shape, eqn.outvars)
