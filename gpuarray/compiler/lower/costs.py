"""Which values can be made where they are read, and what that costs.

Floor 3. In: equations. Out: numbers, by which inline.py decides what is a kernel of its own. They
come from the rules of primitives (core/element_rules.py).
"""

from __future__ import annotations

from gpuarray.compiler.target import TARGET
from gpuarray.core.dtypes import in_kernels
from gpuarray.core.element_rules import rule_of
from gpuarray.core.graph import Eqn


def can_reach(eqn: Eqn) -> bool:
    """Whether an element of an equation's results can be made where it is read."""
    rule, update = rule_of(eqn), eqn.primitive.update
    if rule is None or not all(in_kernels(a.aval.dtype) for a in (*eqn.invars, *eqn.outvars)):
        return False
    return rule.when(eqn) and (update is None or update.count(eqn) <= TARGET.updates_looked_at)


def cost_of(eqn: Eqn) -> float:
    """Cost of an element of the results, in multiply-adds, without its operands."""
    rule = rule_of(eqn)
    assert rule is not None
    return rule.cost_of(eqn)


def is_place(eqn: Eqn, operand: int) -> bool:
    """Whether an operand says where elements are."""
    rule = rule_of(eqn)
    return rule is not None and rule.where(operand)


def reads_of(eqn: Eqn, operand: int) -> int | None:
    """How many elements of an operand are read in all; None where it must be in memory."""
    rule = rule_of(eqn)
    assert rule is not None
    return rule.reads_of(eqn, operand)
