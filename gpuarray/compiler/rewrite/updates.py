"""Updates: which are written in place, and which are folded at their targets.

Floor 3. In: an equation whose primitive changes a part of its first operand (`Primitive.update`).
Out: its method on a machine that runs kernels, the same in every run:

* with few updates, every element of the result looks at all of them (its element rule);
* where no two updates meet, or their order cannot show (sums and extremes of integers), each is
  written where it belongs, into memory that holds the operand (cuda/scatter.py);
* where very many meet in few places, each warp folds its part of them in a table of its own, and
  the tables are folded in their order (tables.py);
* others are sorted by target, and every element folds the updates of its own target, in their
order.
"""

from __future__ import annotations

from gpuarray.config import state
from gpuarray.core.dtypes import in_kernels
from gpuarray.core.element_rules import UpdateRule, rule_of
from gpuarray.core.graph import Atom, Eqn, Var, storage_dtype
from gpuarray.core.primitive import NoKernel
from gpuarray.core.target import PROCESSOR, TARGET


def is_update(eqn: Eqn) -> bool:
    """Whether an equation changes a part of its first operand, and has kernels."""
    rule = rule_of(eqn)
    if eqn.primitive.update is None or rule is None or not rule.when(eqn):
        return False
    return all(in_kernels(a.aval.dtype) for a in eqn.invars)


def atomic(eqn: Eqn) -> str:
    """The CUDA text that merges an update in memory, whatever their order, if it may be used."""
    # `state.scatter_atomics` allows sums of floats in any order: faster, but not the same every
    # run.
    rule, dtype = _rule(eqn), storage_dtype(eqn.outvars[0].aval)
    # Atomics work on words of 4 bytes or more.
    if rule.atomic is None or dtype.itemsize < 4:
        return ""
    if dtype.kind not in "iu" and not (dtype.kind == "f" and state.scatter_atomics):
        return ""  # the order shows in the last digits
    try:
        # A rule refuses a dtype by NoKernel, as `cuda` rules do.
        return rule.atomic([eqn.outvars[0].aval])
    except NoKernel:
        return ""


def in_place(eqn: Eqn, serial: bool = False) -> bool:
    """Whether an update is written into memory that holds the operand. Serial: one after another,
    so that their order is theirs.
    """
    if not is_update(eqn) or not isinstance(eqn.invars[0], Var):
        return False
    operand, updates = eqn.invars[0].aval, updates_of(eqn).aval
    count = _rule(eqn).count(eqn)
    # In place if the order of the updates cannot show, and either the copy of the operand counts or
    # there are too many updates for every element to look at.
    conflict_free = serial or count == 1 or _rule(eqn).unique(eqn) or bool(atomic(eqn))
    saves_copy = (
        operand.nbytes >= (PROCESSOR.in_place_bytes if serial else TARGET.in_place_bytes)
        and operand.size >= TARGET.in_place_times * updates.size
    )
    return conflict_free and updates.size > 0 and (saves_copy or count > TARGET.updates_looked_at)


def writes(eqn: Eqn) -> bool:
    """Whether there are any updates at all."""
    return updates_of(eqn).aval.size > 0 and eqn.outvars[0].aval.size > 0


def updates_of(eqn: Eqn) -> Atom:
    """The operand that holds the updates."""
    return eqn.invars[_rule(eqn).operand]


def _rule(eqn: Eqn) -> UpdateRule:
    return eqn.primitive.update
