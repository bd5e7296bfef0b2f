"""Scans (cumsum and the like) as groups: how one is split into kernels.

Floor 3. In: an equation. Out: one group; or two, where few long rows would leave the machine idle:
the totals of pieces of each row, then the pieces, each starting from the totals before it. Along
rows the two are one where a partial result and a flag are one word: blocks look back at what those
before them tell. cuda/scan.py writes them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from gpuarray.compiler.fuse.group import FusedGroup, Load, Member, group_of
from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import ELEMENT
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.cuda_rules import is_half
from gpuarray.util import Struct


class Cut(Struct):
    """How a scan along an axis of `length` is cut: `pieces` of `step` elements, the last shorter.

    Attributes
    ----------
    outer, inner :
        How many rows lie before the axis and behind it; along columns neighbours in memory are
        neighbours in `inner`.
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
    prim = eqn.primitive
    graph = merge_graph(eqn)
    if graph is not None:
        avals = [*graph.in_avals, *(v.aval for e in graph.eqns for v in e.outvars)]
        return all(dtypes.in_kernels(a.dtype) for a in avals) and all(
            e.primitive.has_text([a.aval for a in e.invars], e.params) for e in graph.eqns
        )
    if prim.kind is not Kind.SCAN or prim.fold is None or not prim.has_fold:
        return False
    # A state that is no element (an argmax, a pair) has no kernel yet.
    return prim.fold.state is ELEMENT and dtypes.in_kernels(eqn.outvars[0].aval.dtype)


def merge_graph(eqn: Eqn) -> Graph | None:
    """The Graph that merges the elements of a scan; None where a Fold does, or it is no scan."""
    if eqn.primitive.kind is not Kind.SCAN or eqn.primitive.fold is not None:
        return None
    graph = eqn.params.get("jaxpr")
    return graph if isinstance(graph, Graph) else None


def is_piecewise(eqn: Eqn) -> bool:
    """Whether an equation is one of the two that a scan is cut into."""
    return "fold" in eqn.params


def makes_totals(eqn: Eqn) -> bool:
    """Whether an equation is the first half of a cut scan: it makes the totals of pieces."""
    return is_piecewise(eqn) and len(eqn.invars) == 1


def reads_totals(eqn: Eqn) -> bool:
    """Whether an equation is the second half: it starts from the totals."""
    return is_piecewise(eqn) and len(eqn.invars) == 2


def looks_back(eqn: Eqn) -> Cut | None:
    """How a scan is cut into tiles whose blocks tell one another what they come to: all in one
    kernel. None for scans down columns, of partial results that do not fit into a word with a flag,
    and of rows that are short, or enough of them.
    """
    if is_piecewise(eqn):
        return None
    x = eqn.invars[0].aval
    cut = cut_of(x, eqn.params["axis"])
    if cut.pieces == 1 or not cut.in_rows or storage_dtype(x).itemsize > 4:
        return None
    step = TARGET.scan_threads * TARGET.scan_tile_items
    if cut.length <= step:
        return None
    return cut.replace(pieces=-(-cut.length // step), step=step)


def cut_of(aval: ShapedArray, axis: int) -> Cut:
    """How many pieces rows are cut into: one, unless they are few and long."""
    shape = aval.shape
    outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    # Along rows a block scans a tile at a time; down columns each thread has a column of its own.
    if inner == 1:
        tile = TARGET.scan_threads * TARGET.scan_items
        # With a row for each multiprocessor the machine is full without cutting.
        most = length // TARGET.scan_row if outer < TARGET.multiprocessors else 1
        pieces = max(1, min(TARGET.full_grid // max(outer, 1), most, TARGET.scan_pieces))
    else:
        tile = 1
        most = length // TARGET.scan_column
        pieces = max(1, min(TARGET.full_threads // max(outer * inner, 1), most, TARGET.scan_pieces))
    # Pieces are whole tiles; rounding up may leave fewer of them.
    step = -(-length // pieces)
    step = -(-step // tile) * tile if pieces > 1 else step
    return Cut(outer, length, inner, max(1, -(-length // max(step, 1))), step)


# ---- the two halves of a cut scan, as primitives that the host can run too ----


def _totals_aval(x: ShapedArray, *, fold: str, axis: int, reverse: bool) -> ShapedArray:
    cut = cut_of(x, axis)
    shape = cut.outer, cut.pieces, cut.inner
    # Totals of 16-bit floats stay float until the end, as partial results of reductions do.
    return ShapedArray(shape, np.dtype(np.float32) if is_half(x.dtype) else x.dtype)


@functools.lru_cache(64)
def _halves(scan: Primitive) -> tuple[Primitive, Primitive]:
    """The two halves of a cut scan as primitives: the total of each piece, and the elements of each
    piece, starting from the totals of those before it. In their params, `fold` is the name of the
    scan.
    """

    def pick_totals(avals, *, fold: str, axis: int, reverse: bool) -> Callable[..., np.ndarray]:
        (aval,) = avals
        cut, out = cut_of(aval, axis), _totals_aval(aval, fold=fold, axis=axis, reverse=reverse)

        # What the kernel computes, for backends that run primitives by NumPy's rules.
        def totals(x):
            rows = np.asarray(x).reshape(cut.outer, cut.length, cut.inner)
            rows = rows[:, ::-1] if reverse else rows
            pieces = [rows[:, k * cut.step : (k + 1) * cut.step] for k in range(cut.pieces)]
            return np.stack([_last(scan, piece.astype(out.dtype)) for piece in pieces], 1)

        return totals

    def pick_from(avals, *, fold: str, axis: int, reverse: bool) -> Callable[..., np.ndarray]:
        # NumPy scans whole rows, so it needs no totals.
        whole = scan.numpy_function(avals[:1], {"axis": axis, "reverse": reverse})
        return lambda x, totals: whole(x)

    return (
        # Not registered: no program contains them, only plans.
        Primitive(
            "scan_totals",
            Kind.SCAN,
            aval=_totals_aval,
            numpy_pick=pick_totals,
            fold=scan.fold,
            register=False,
        ),
        Primitive(
            "scan_from",
            Kind.SCAN,
            aval=lambda x, totals, **_: x,
            numpy_pick=pick_from,
            fold=scan.fold,
            weight=2.0,
            register=False,
        ),
    )


def _last(scan: Primitive, rows: np.ndarray) -> np.ndarray:
    """The last elements of a scan along the middle axis of (rows, length, columns)."""
    aval = ShapedArray(rows.shape, rows.dtype)
    return scan.numpy_function([aval], {"axis": 1, "reverse": False})(rows)[:, -1]


def scan_eqns(eqn: Eqn) -> list[Eqn]:
    """A scan as one equation, or as the two it is cut into."""
    # An equation that is a half already is not cut again, nor one whose blocks look back.
    if is_piecewise(eqn) or cut_of(eqn.invars[0].aval, eqn.params["axis"]).pieces == 1:
        return [eqn]
    if looks_back(eqn) is not None:
        return [eqn]
    params = {"fold": eqn.primitive.name, **eqn.params}
    x = eqn.invars[0]
    totals = Var(_totals_aval(x.aval, **params))
    first, second = _halves(eqn.primitive)
    return [
        Eqn(first, [x], [totals], params, eqn.site),
        Eqn(second, [x, totals], eqn.outvars, params, eqn.site),
    ]


def scan_group(eqn: Eqn) -> FusedGroup:
    """A scan, or one half of a cut scan, as a group: its axes are those of what is scanned."""
    x, shape = eqn.invars[0], eqn.invars[0].aval.shape
    assert isinstance(x, Var)
    dims = tuple(None if n == 1 else i for i, n in enumerate(shape))
    operands = [Load(x, (), dims, shape)]
    if merge_graph(eqn) is not None:
        operands = [Load(x, (), dims, shape) for x in eqn.invars if isinstance(x, Var)]
    elif len(eqn.invars) > 1:
        totals = eqn.invars[1]
        assert isinstance(totals, Var)
        # A block reads the totals before its piece by itself, so they run along no axis.
        operands.append(Load(totals, (), (None,) * 3, totals.aval.shape))
    return group_of(Member(eqn, list(operands), dims, dims), shape, eqn.outvars)
