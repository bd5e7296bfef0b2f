"""Joins of many arrays, and views with several results, as equations that are simpler.

Floor 3. In: an equation. Out: equations that together do the same.
"""

from __future__ import annotations

from gpuarray.compiler.fuse.group import Step
from gpuarray.core.graph import Atom, Eqn, Var, is_view
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build


def most_joined(eqn: Eqn) -> int:
    """How many operands of a concatenation or stack one kernel reads: of single numbers as many as
    it has room for.
    """
    numbers = all(a.aval.size == 1 for a in eqn.invars)
    return TARGET.single_numbers if numbers else TARGET.side_by_side


def split_wide_join(eqn: Eqn, most: int) -> list[Eqn]:
    """A concatenation or stack of many arrays as several of `most` each."""
    joins, (out,) = eqn.primitive.rewrite.joins, eqn.outvars
    if joins is None:
        # Only concatenations and stacks say along which axis they join.
        return [eqn]
    axis, eqns = joins(eqn), []
    step = eqn
    # Join neighbours until few enough are left: with n at a time, log_n rounds.
    while len(step.invars) > most:
        pieces: list[Atom] = []
        for i in range(0, len(step.invars), most):
            some = step.invars[i : i + most]
            (aval,) = step.primitive.out_avals([a.aval for a in some], step.params)
            pieces.append(Var(aval))
            eqns.append(step.replace(invars=some, outvars=pieces[-1:]))
        step = build.concatenate(pieces, axis, eqn.site, out)
    return [*eqns, step]


def as_single_view(eqn: Eqn, v: Var) -> Eqn:
    """One of the results of a view, as a view with a single result (up to axes of length 1)."""
    if is_view(eqn):
        return eqn
    # A split: result `k` is a piece of the operand.
    assert eqn.primitive.rewrite.piece is not None
    axis, first, length = eqn.primitive.rewrite.piece(eqn, eqn.outvars.index(v))
    return build.piece(eqn.invars[0], axis, first, length, eqn.site)


def alias_steps(eqn: Eqn, v: Var) -> list[Step]:
    """A view without a copy, as one or two equations with one result each."""
    single = as_single_view(eqn, v)
    if single is eqn:
        return [eqn]
    # Pieces keep the axis they are cut along; a result may lack it.
    (cut,) = single.outvars
    if cut.aval.shape == v.aval.shape:
        return [single.replace(outvars=[v])]
    return [single, build.reshape(cut, v.aval.shape, eqn.site, v)]
