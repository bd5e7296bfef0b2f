"""Running folds as groups: how cumsum and its like are cut into kernels, and what they fold with.

Floor 3. In: an equation. Out: one group, or where few long rows are to fill a machine two: totals
of pieces of each row, then the pieces, each from the totals before it on.
cuda/scan.py writes them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuarray.compiler.fuse.group import Group, Load, Member
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import Reducer
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Eqn, Var, storage_dtype
from gpuarray.core.primitive import Combine, Kind, Primitive, registry
from gpuarray.primitives.cuda_rules import by_class

#: The reduction that folds as each scan does, and what it begins with: nothing that shows, so that
#: a sum of -0.0 alone stays -0.0.
_FOLDS = {"cumsum": "reduce_sum", "cumprod": "reduce_prod", "cummax": "reduce_max",
          "cummin": "reduce_min", "cumlogsumexp": "log_sum_exp"}  # fmt: skip
_LOG_SUM_EXP = Primitive(
    "log_sum_exp",
    Kind.REDUCTION,
    cuda=Combine("{LOW}", by_class("ga_logaddexp({0}, {1})", complex="ga_clogaddexp({0}, {1})")),
    register=False,
)

#: Threads a block, elements a thread handles at a time, and pieces of a row at most.
THREADS, ITEMS, PIECES = TARGET.scan_threads, TARGET.scan_items, TARGET.scan_pieces
#: Rows and columns shorter than this are not cut; nor are pieces.
SHORT_ROW, SHORT_COLUMN = TARGET.scan_row, TARGET.scan_column
#: Threads that keep a machine busy going down columns.
COLUMNS_ENOUGH = TARGET.full_threads


@dataclass(frozen=True)
class Cut:
    """How a scan along an axis of `length` is cut: `pieces` of `step` elements, the last shorter.

    outer, inner: how many rows lie before the axis and behind it; along columns neighbours in
    memory are neighbours in `inner`
    """

    outer: int
    length: int
    inner: int
    pieces: int
    step: int

    @property
    def in_rows(self) -> bool:
        """Whether the elements of a row are neighbours in memory."""
        return self.inner == 1


def is_scan(eqn: Eqn) -> bool:
    """Whether an equation is a scan that has a kernel."""
    known = eqn.primitive.name in _FOLDS or eqn.primitive in (_TOTALS, _FROM)
    return known and ct.has_type(eqn.outvars[0].aval)


def cut_of(aval: ShapedArray, axis: int) -> Cut:
    """How many pieces rows are cut into: one, unless they are few and long."""
    shape = aval.shape
    outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if inner == 1:
        tile = THREADS * ITEMS
        most = length // SHORT_ROW if outer < TARGET.multiprocessors else 1
        pieces = max(1, min(TARGET.full_grid // max(outer, 1), most, PIECES))
    else:
        tile = 1
        most = length // SHORT_COLUMN
        pieces = max(1, min(COLUMNS_ENOUGH // max(outer * inner, 1), most, PIECES))
    step = -(-length // pieces)
    step = -(-step // tile) * tile if pieces > 1 else step
    return Cut(outer, length, inner, max(1, -(-length // max(step, 1))), step)


def folding(eqn: Eqn) -> Reducer:
    """What a scan merges its elements with."""
    name = _FOLDS[eqn.params.get("fold", eqn.primitive.name)]
    prim = _LOG_SUM_EXP if name == "log_sum_exp" else registry[name]
    return Reducer(Eqn(prim, eqn.invars[:1], [Var(eqn.invars[0].aval)], {}))


def nothing(reducer: Reducer) -> str:
    """What leaves everything as it is, -0.0 included."""
    aval = reducer.element
    kind = storage_dtype(aval).kind
    if reducer.rule is registry["reduce_sum"].cuda and kind not in "biu":
        return ct.constant(-0.0 if kind != "c" else complex(-0.0, -0.0), aval)
    if reducer.eqn.primitive is _LOG_SUM_EXP and kind == "c":
        return ct.constant(complex(-np.inf, 0.0), aval)
    return reducer.identity


# ---- the two halves of a cut scan, as primitives that the host can run too ----


def _totals_aval(x: ShapedArray, *, fold: str, axis: int, reverse: bool) -> ShapedArray:
    cut = cut_of(x, axis)
    shape = cut.outer, cut.pieces, cut.inner
    wide = np.dtype(np.float32) if ct.is_half(x) else x.dtype
    return ShapedArray(shape, wide)


def _in_pieces(x, axis: int, reverse: bool, aval: ShapedArray):
    """An array as rows x length x columns, in the order of the scan."""
    cut = cut_of(aval, axis)
    x = np.asarray(x).reshape(cut.outer, cut.length, cut.inner)
    return cut, x[:, ::-1] if reverse else x


def _totals_pick(avals, *, fold: str, axis: int, reverse: bool) -> Callable[..., np.ndarray]:
    out = _totals_aval(*avals, fold=fold, axis=axis, reverse=reverse)
    scan = functools.partial(_scanned, fold)

    def totals(x):
        cut, rows = _in_pieces(x, axis, reverse, avals[0])
        ends = [
            scan(rows[:, k * cut.step : (k + 1) * cut.step].astype(out.dtype), out.dtype)[:, -1]
            for k in range(cut.pieces)
        ]
        return np.stack(ends, 1)

    return totals


def _scanned(fold: str, rows, dtype):
    aval = ShapedArray(rows.shape, dtype)
    return registry[fold].numpy_function([aval], {"axis": 1, "reverse": False})(rows)


def _from_pick(avals, *, fold: str, axis: int, reverse: bool) -> Callable[..., np.ndarray]:
    whole = registry[fold].numpy_function(avals[:1], {"axis": axis, "reverse": reverse})
    return lambda x, totals: whole(x)


_TOTALS = Primitive(
    "scan_totals", Kind.LIBRARY, aval=_totals_aval, numpy_pick=_totals_pick, register=False
)
_FROM = Primitive(
    "scan_from",
    Kind.LIBRARY,
    aval=lambda x, totals, **_: x,
    numpy_pick=_from_pick,
    weight=2.0,
    register=False,
)


def scan_eqns(eqn: Eqn) -> list[Eqn]:
    """A scan as one equation, or as the two it is cut into."""
    if "fold" in eqn.params or cut_of(eqn.invars[0].aval, eqn.params["axis"]).pieces == 1:
        return [eqn]
    params = {"fold": eqn.primitive.name, **eqn.params}
    x = eqn.invars[0]
    totals = Var(_totals_aval(x.aval, **params))
    return [
        Eqn(_TOTALS, [x], [totals], params, eqn.site),
        Eqn(_FROM, [x, totals], eqn.outvars, params, eqn.site),
    ]


def scan_group(eqn: Eqn, name: str) -> Group:
    """One of these equations as a group: its axes are those of what is scanned."""
    x, shape = eqn.invars[0], eqn.invars[0].aval.shape
    assert isinstance(x, Var)
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    operands = [Load(x, (), dims, shape)]
    group = Group(list(shape), outputs=list(eqn.outvars), name=name, by_itself=True)
    if len(eqn.invars) > 1:
        totals = eqn.invars[1]
        assert isinstance(totals, Var)
        operands.append(Load(totals, (), (None,) * 3, totals.aval.shape))
    group.add(Member(eqn, list(operands), dims, dims))
    return group
