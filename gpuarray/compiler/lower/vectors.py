"""Obstacles to vectorising loops of native code: much work under conditions, or next to them.

Floor 3. In: equations and steps. Out: predicates with which decisions.py puts values into memory
that a kernel could also compute where it reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.core.element import Guarded, InRegister, Lookup
from gpuarray.core.element_rules import rule_of
from gpuarray.core.graph import Eqn
from gpuarray.core.index import Index, axes_of
from gpuarray.core.primitive import Kind
from gpuarray.core.target import PROCESSOR


def keeps_from_vectors(eqn: Eqn, work: Mapping[Eqn, float], readers: Sequence[object]) -> bool:
    """Whether a value should be in memory so that the loops of its readers are vectorised.

    Parameters
    ----------
    work :
        The equations that an element of it takes, each with its cost.
    """
    # A condition in the loop of a heavy reader would keep that whole loop from vectors.
    if is_guarded(eqn) and any(map(is_heavy, readers)):
        return True
    # Mere data movement is not computed under conditions; its costs are those of choosing.
    costs = [c for e, c in work.items() if e.primitive.kind is Kind.POINTWISE]
    slow = sum(c for c in costs if c > PROCESSOR.worth_keeping)
    # There are no vectors under conditions, or for lookups one by one.
    moved = [r for r in readers if isinstance(r, Eqn)]
    scattered = any(r.primitive.kind is Kind.INDEXING or is_guarded(r) for r in moved)
    return slow >= PROCESSOR.heavy and scattered


def is_guarded(eqn: Eqn) -> bool:
    """Whether an equation moves elements, and decides for each neighbour along the last axis where
    it comes from (padding, joined arrays, indices that may be out of bounds, updates).
    """
    rule, shape = rule_of(eqn), eqn.outvars[0].aval.shape
    if rule is None or eqn.primitive.kind not in (Kind.MOVEMENT, Kind.INDEXING):
        return False
    if eqn.primitive.update is not None:
        return True
    at = [Index.axis(i, n) for i, n in enumerate(shape)]
    # Asked of the rule itself: an element anywhere in the result, and the tests that it
    # makes.
    made = rule.make(eqn, 0, at, lambda number, places: InRegister(number))
    tests = made.tests if isinstance(made, Guarded) else ()
    last = max((i for i, n in enumerate(shape) if n > 1), default=0)
    looked_up = any(isinstance(a, Lookup) for t in tests for a, _ in t.index.terms)
    return looked_up or any(t.always is None and last in axes_of(t.index) for t in tests)


def is_heavy(step: object) -> bool:
    """Whether a group has so much arithmetic that vectorising its loop is worth extra memory
    traffic.
    """
    if not isinstance(step, FusedGroup):
        return False
    weights = (m.eqn.primitive.weight for m in step.members)
    return sum(w for w in weights if w > PROCESSOR.worth_keeping) >= PROCESSOR.heavy
