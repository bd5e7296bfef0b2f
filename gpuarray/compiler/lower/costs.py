"""Which equations can be inlined, and at what cost.

Floor 3. In: equations. Out: numbers, by which decisions.py decides what becomes a separate kernel.
They come from the element rules of primitives (core/element_rules.py).
"""

from __future__ import annotations

import math

from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.core.dtypes import in_kernels
from gpuarray.core.element_rules import rule_of
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.primitive import Kind
from gpuarray.core.target import PROCESSOR, TARGET


def can_inline(eqn: Eqn) -> bool:
    """Whether an element of an equation's results can be computed where it is read."""
    rule, update = rule_of(eqn), eqn.primitive.update
    if rule is None or not all(in_kernels(a.aval.dtype) for a in (*eqn.invars, *eqn.outvars)):
        return False
    # Every element of a scatter's result compares its index with those of all updates.
    return rule.when(eqn) and (update is None or update.count(eqn) <= TARGET.updates_looked_at)


def is_by_windows(eqn: Eqn) -> bool:
    """Whether native code has a faster way for sums over windows than element by element."""
    rule = eqn.primitive.rewrite.windows
    floats = {storage_dtype(a.aval).name for a in (*eqn.invars, *eqn.outvars)}
    if rule is None or len(floats) > 1 or not floats <= {"float32", "float64"}:
        return False
    w = rule(eqn)
    # Below this many products the call costs more than it saves.
    sums = eqn.outvars[0].aval.size * w.channels * math.prod(s.window for s in w.space)
    return len(w.space) <= 3 and sums >= PROCESSOR.windows


def can_emit(group: FusedGroup) -> bool:
    """Whether all dtypes of a group have types in CUDA."""
    dtypes = {a.aval.dtype for m in group.members for a in (*m.eqn.invars, *m.eqn.outvars)}
    return all(map(in_kernels, dtypes))


def cost_of(eqn: Eqn) -> float:
    """Cost of an element of the results, in multiply-adds, without its operands."""
    rule = rule_of(eqn)
    assert rule is not None
    return rule.cost_of(eqn)


def times_of(eqn: Eqn) -> int:
    """How many elements a reduction folds into one of its result; 1 for other equations."""
    rule = rule_of(eqn)
    return rule.times(eqn) if rule is not None and eqn.primitive.kind is Kind.REDUCTION else 1


def is_index_operand(eqn: Eqn, operand: int) -> bool:
    """Whether an operand holds indices of elements."""
    rule = rule_of(eqn)
    return rule is not None and rule.where(operand)


def reads_of(eqn: Eqn, operand: int) -> int | None:
    """How many elements of an operand are read for all results; None if it must be in memory, since
    the kernel searches or addresses it.
    """
    rule = rule_of(eqn)
    assert rule is not None
    return rule.reads_of(eqn, operand)
