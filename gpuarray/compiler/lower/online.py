"""Two passes in one: sums that follow a fold of the same row while it is not yet finished.

Floor 3. In: the Passes of a group. Out: Passes, some of them joined. A softmax sums exponentials of
differences to the largest element, a variance squares of differences to the mean: a pass for the
one, and then a pass for the other. But such sums can be corrected when their reference changes:

    sum exp(x - b) = sum exp(x - a) exp(a - b)
    sum (x - b)^2  = sum (x - a)^2 + n (a - b)^2,  where a is the mean of these n elements

So both are found in one pass: of each few elements first the fold, which gives the reference so
far, then the correction, then the sum. Threads and blocks merge in the same way.
"""

from __future__ import annotations

import math

import numpy as np

from gpuarray.compiler.fuse.group import FusedGroup, Inner, Load, Member, Operand
from gpuarray.compiler.lower.passes import Follower, Pass
from gpuarray.core.graph import Literal, Var
from gpuarray.core.rewrite import algebra_of


def join_passes(group: FusedGroup, passes: list[Pass]) -> list[Pass]:
    """The passes, with each pair that can be one pass joined."""
    made: list[Pass] = []
    for one in passes:
        first = made[-1] if made else None
        # Three passes in one would need corrections of corrections.
        joined = _joined(group, first, one) if first is not None and not first.halves else None
        # The joined pass takes the place of the first; otherwise the pass is appended.
        made[-1 if joined else len(made) :] = [joined or one]
    return made


def _joined(group: FusedGroup, first: Pass, second: Pass) -> Pass | None:
    """Join two passes into one; None if a result of the second needs the first to be finished."""
    # Only passes that do nothing but fold: stored or carried values of each element have to be
    # final.
    if not second.partial or first.stored or second.stored or first.carried or second.carried:
        return None
    # Every fold of the second pass has to be one that can be corrected.
    followers = [_follower(group, first, v) for v in second.partial]
    if not all(followers):
        return None
    members = {id(m): m for m in (*first.members, *second.members)}
    return Pass(
        list(members.values()),
        [*first.partial, *second.partial],
        [],
        [*first.after, *second.after],
        halves=(first, second),
        followers=tuple(f for f in followers if f),
    )


def _follower(group: FusedGroup, first: Pass, total: Var) -> Follower | None:
    """How a sum of the second pass depends on a fold of the first; None if it has another form."""
    made = group.made
    fold = made[total].eqn.primitive.fold
    # A sum of floats, possibly converted.
    if fold is None or fold.plain_ufunc is not np.add or total.aval.dtype.kind == "c":
        return None
    # The summand: f(x - reference), with f an exponential or a square.
    last = _maker(group, made[total].operands[0], through="conversion")
    kind = "" if last is None else algebra_of(last.eqn)
    if last is None or kind not in ("exponential", "squared"):
        return None
    difference = _maker(group, last.operands[0])
    if difference is None or algebra_of(difference.eqn) != "difference":
        return None
    element, reference = difference.operands
    # The element is of the whole row, and may not depend on the fold itself.
    if not isinstance(reference, Inner) or not _along(group, difference):
        return None
    found = _chain(group, first, reference.var)
    if found is None or _depends(group, element, first):
        return None
    chain, leader = found
    # The reference: a maximum for exponentials, the mean of these elements for squares.
    how = made[leader].eqn.primitive.fold
    assert how is not None
    # Only real floats ('V' is the kind of bfloat16 in NumPy), which can be corrected.
    if leader.aval.dtype.kind not in "fV" or total.aval.dtype.kind not in "fV":
        return None
    if kind == "exponential":
        return (
            Follower(total, leader, reference.var, chain, last.eqn)
            if how.plain_ufunc is np.maximum
            else None
        )
    # Squares need the mean, unrounded, of the very elements that they are squares of.
    if how.plain_ufunc is not np.add or not _is_mean(group, chain, leader):
        return None
    if not _same(made[leader].operands[0], element) or leader.aval.dtype.itemsize < 4:
        return None
    return Follower(total, leader, reference.var, chain, None)


def _maker(group: FusedGroup, operand: object, through: str = "") -> Member | None:
    """The member that makes an operand; seen through those that are `through`."""
    while isinstance(operand, Inner) and operand.var in group.made:
        member = group.made[operand.var]
        if not through or algebra_of(member.eqn) != through:
            return member
        operand = member.operands[0]
    return None


def _same(one: Operand, two: Operand) -> bool:
    """Whether two operands are the same elements."""
    if isinstance(one, Load) and isinstance(two, Load):
        return (one.key, one.dims) == (two.key, two.dims)
    return isinstance(one, Inner) and isinstance(two, Inner) and one.var is two.var


def _along(group: FusedGroup, member: Member) -> bool:
    return any(d in group.reduced for d in member.dims)


def _chain(group: FusedGroup, first: Pass, reference: Var) -> tuple[tuple[Member, ...], Var] | None:
    """The members after the first pass that compute the reference, and the one fold that it depends
    on; None if it depends on anything else.
    """
    behind = {v: m for m in first.after for v in m.eqn.outvars}
    wanted, leaders, chain = [reference], [], set()
    while wanted:
        v = wanted.pop()
        if v in first.partial:
            leaders.append(v)
            continue
        if v not in behind:
            return None
        chain.add(id(behind[v]))
        for o in behind[v].operands:
            if isinstance(o, Inner):
                wanted.append(o.var)
            # A reference that varies along the row could not be corrected by one factor.
            elif isinstance(o, Load) and any(d in group.reduced for d in o.dims):
                return None
    # The correction is from one old value of one fold to its new one.
    if len(set(leaders)) != 1:
        return None
    return tuple(m for m in first.after if id(m) in chain), leaders[0]


def _depends(group: FusedGroup, operand: object, first: Pass) -> bool:
    """Whether an operand depends on the results of the first pass."""
    found = {*first.partial, *(v for m in first.after for v in m.eqn.outvars)}
    waiting, seen = [operand], set()
    while waiting:
        o = waiting.pop()
        if not isinstance(o, Inner) or o.var in seen:
            continue
        if o.var in found:
            return True
        seen.add(o.var)
        waiting += group.made[o.var].operands
    return False


def _is_mean(group: FusedGroup, chain: tuple[Member, ...], leader: Var) -> bool:
    """Whether a chain divides a sum by the number of its elements."""
    if len(chain) != 1 or algebra_of(chain[0].eqn) != "quotient":
        return False
    # The divisor has to be a literal: a computed divisor is not known to be the count.
    above, below = chain[0].operands
    many = math.prod(group.axes[i] for i in group.made[leader].space if i in group.reduced)
    return (
        isinstance(above, Inner)
        and above.var is leader
        and isinstance(below, Literal)
        and np.ndim(below.val) == 0
        and float(below.val) == many
    )
