"""Pointwise primitives that choose: `select_n` between cases, `clamp` between bounds.

Floor 2. In: operands of one shape and dtype, or scalars for the condition and the bounds. Out: two
primitives, whose results are elements of their operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Atom, Eqn, Literal
from gpuarray.core.primitive import NOT_LINEAR, Kind, Primitive
from gpuarray.core.rewrite import Rewrite
from gpuarray.primitives import cuda_rules
from gpuarray.primitives.elementwise import transforms as rules
from gpuarray.primitives.elementwise.arithmetic import max_p, min_p
from gpuarray.primitives.elementwise.bits import not_p
from gpuarray.primitives.numpy_rules import choose, fresh


def _select_n_aval(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if not cases:
        raise ValueError("select_n() must have at least one case")
    first = cases[0]
    if any(c.shape != first.shape for c in cases):
        raise TypeError(
            "select cases must have the same shapes, got "
            f"[{', '.join(str(c.shape) for c in cases)}]. gpuarray.numpy.where broadcasts."
        )
    if any(c.dtype != first.dtype for c in cases):
        raise TypeError(
            "lax.select requires arguments to have the same dtypes, got "
            f"{', '.join(c.dtype.name for c in cases)}. (Tip: gpuarray.numpy.where is a similar "
            "function that does automatic type promotion on inputs)."
        )
    if which.shape and which.shape != first.shape:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got `which` shape "
            f"{which.shape} but case shape {first.shape}."
        )
    kind = "k" if isinstance(which.dtype, dtypes.ExtendedDType) else dtypes.kind_of(which.dtype)
    if kind not in "biu":
        raise TypeError(
            f"select `which` must be boolean or integer type, got {which.dtype.name}. "
            "Compare with a number first (x != 0)."
        )
    if kind == "b" and len(cases) > 2:
        raise TypeError(
            f"select with boolean `which` cannot have > 2 cases, got {len(cases)}. "
            "Use an integer `which`."
        )
    return ShapedArray(first.shape, first.dtype, all(c.weak_type for c in cases))


def _choose(which, no, yes, out=None):
    return choose(which, yes, no, out)


def _choose_whole(which, no, yes):
    """One condition for all."""
    if yes.shape != no.shape or which.ndim > yes.ndim:
        return np.where(which, yes, no)
    # The result must not share memory with an operand.
    return (yes if which else no).copy()


_choose.writes_out = True  # pyright: ignore[reportFunctionMemberAccess]


def _select_pick(avals) -> Callable[..., Any]:
    which, *cases = avals
    if len(cases) == 1:
        # Only one case, but the result must not share its memory.
        return lambda which, case: fresh(case)
    if which.dtype == np.bool_:
        if which.ndim:
            return _choose
        return _choose_whole

    def select(which, *cases):
        out = cases[0]
        # an index out of range is clamped to the nearest case
        for number, case in enumerate(cases[1:], 1):
            out = choose(which >= which.dtype.type(number), case, out)
        return out

    return select


def _chosen(eqn: Eqn) -> Atom | None:
    """Return the case that a constant condition chooses, or both are; the condition itself where
    it chooses between True and False; None for other choices.
    """
    which = eqn.invars[0]
    if len(eqn.invars) == 3 and (same := _either(eqn)) is not None:
        return same
    if not isinstance(which, Literal) or len(eqn.invars) != 3:
        # Several cases are not simplified: the index would have to be clamped first.
        return None
    case = eqn.invars[2 if which.val else 1]
    return case if case.aval.shape == eqn.outvars[0].aval.shape else None


def _either(eqn: Eqn) -> Atom | None:
    """Return what a choice between two cases is, whatever the condition."""
    which, no, yes = eqn.invars
    aval = eqn.outvars[0].aval
    if no is yes and no.aval.shape == aval.shape:
        return no
    alike = which.aval.shape == aval.shape and which.aval.dtype == aval.dtype == np.bool_
    return which if alike and _truths(no, yes) == (False, True) else None


def _truths(no: Atom, yes: Atom) -> tuple[bool, bool] | None:
    """Return what two constant cases are, as truths; None if they are no constants."""
    if not isinstance(no, Literal) or not isinstance(yes, Literal):
        return None
    return bool(no.val), bool(yes.val)


def _turned(eqn: Eqn, maker: Callable[[Atom], Eqn | None]) -> Eqn | None:
    """Return the choice by a condition that is negated here as one by the condition itself, with
    the cases exchanged; and the choice of False where it holds as its negation.
    """
    if len(eqn.invars) != 3 or eqn.invars[0].aval.dtype != np.bool_:
        return None
    which, no, yes = eqn.invars
    aval = eqn.outvars[0].aval
    if aval.dtype == np.bool_ and _truths(no, yes) == (True, False):
        alike = which.aval.shape == aval.shape
        return eqn.replace(primitive=not_p, invars=[which], params={}) if alike else None
    before = maker(which)
    if before is None or before.primitive is not not_p:
        return None
    return eqn.replace(invars=[before.invars[0], yes, no])


select_n_p = Primitive(
    "select_n",
    Kind.POINTWISE,
    cuda=cuda_rules.select,
    jvp=rules.select_n_jvp,
    transpose=rules.select_n_transpose,
    batch=rules.batch_with_scalars("select_n", (0,)),
    aval=_select_n_aval,
    numpy_pick=_select_pick,
    rewrite=Rewrite(same_as=_chosen, seen_through=_turned, algebra="choice"),
)


def _clamp_aval(lower: ShapedArray, x: ShapedArray, upper: ShapedArray) -> ShapedArray:
    for name, bound in (("min", lower), ("max", upper)):
        if bound.shape and bound.shape != x.shape:
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), got "
                f"{name}.shape={bound.shape}, operand.shape={x.shape}. "
                "gpuarray.numpy.clip broadcasts."
            )
    if not lower.dtype == x.dtype == upper.dtype:
        raise TypeError(
            "lax.clamp requires arguments to have the same dtypes, got "
            f"{lower.dtype.name}, {x.dtype.name}, {upper.dtype.name}. (Tip: gpuarray.numpy.clip is "
            "a similar function that does automatic type promotion on inputs)."
        )
    return ShapedArray(x.shape, x.dtype, lower.weak_type and x.weak_type and upper.weak_type)


def _clamp_pick(avals):
    # Extremes as `min` and `max` have them, so nan propagates from any operand.
    smaller, larger = min_p.numpy_function(avals, {}), max_p.numpy_function(avals, {})
    return lambda lower, x, upper: smaller(larger(x, lower), upper)


clamp_p = Primitive(
    "clamp",
    Kind.POINTWISE,
    cuda=cuda_rules.clamp,
    jvp=rules.CLAMP_JVP,
    transpose=NOT_LINEAR,
    batch=rules.batch_with_scalars("clamp", (0, 2)),
    aval=_clamp_aval,
    numpy_pick=_clamp_pick,
    weight=2,
)
