"""Scans (cumsum and the like) as groups: whether one has a kernel, and how it is cut into tiles.

Floor 3. In: an equation. Out: one group. If few long rows or columns would leave the machine idle,
each is cut into tiles, whose blocks publish their results to one another. cuda/scan.py writes them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from gpuarray.compiler.fuse.group import FusedGroup
from gpuarray.core import dtypes
from gpuarray.core.fold import ELEMENT
from gpuarray.core.graph import Eqn, Graph, Var, storage_dtype
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.primitives.cuda_rules import is_held
from gpuarray.util import Struct


class Cut(Struct):
    """How a scan along an axis of `length` is cut: `pieces` of `step` elements, the last shorter.

    Attributes
    ----------
    outer, inner :
        The numbers of rows before the axis and after it; along columns neighbours in memory are
        neighbours in `inner`.
    items :
        Neighbours along the axis that a thread takes at a time.
    across :
        Columns that a block processes side by side; 0 if a single thread processes each.
    """

    outer: int
    length: int
    inner: int
    pieces: int
    step: int
    items: int
    across: int = 0

    @property
    def in_rows(self) -> bool:
        """Whether the elements of a row are neighbours in memory."""
        return self.inner == 1

    @property
    def looks_back(self) -> bool:
        """Whether blocks wait for results of earlier ones."""
        return self.pieces > 1


def is_scan(eqn: Eqn) -> bool:
    """Whether an equation is a scan that has a kernel."""
    prim = eqn.primitive
    graph = merge_graph(eqn)
    if graph is not None:
        # Every thread holds some partial results in registers.
        if state_words(eqn) > TARGET.scan_state:
            return False
        avals = [*graph.in_avals, *(v.aval for e in graph.eqns for v in e.outvars)]
        return all(dtypes.in_kernels(a.dtype) for a in avals) and all(
            e.primitive.has_text([a.aval for a in e.invars], e.params) for e in graph.eqns
        )
    if prim.kind is not Kind.SCAN or prim.fold is None or not prim.has_fold:
        return False
    # A state that is no element (an argmax, a pair) has no kernel yet.
    return prim.fold.state is ELEMENT and dtypes.in_kernels(eqn.outvars[0].aval.dtype)


def merge_graph(eqn: Eqn) -> Graph | None:
    """The Graph that merges the elements of a scan; None if a Fold does, or it is not a scan."""
    if eqn.primitive.kind is not Kind.SCAN or eqn.primitive.fold is not None:
        return None
    graph = eqn.params.get("jaxpr")
    return graph if isinstance(graph, Graph) else None


def state_words(eqn: Eqn) -> int:
    """Words of 4 bytes that the numbers of a partial result take."""
    # Halves are held as floats.
    sizes = [4 if is_held(v.aval) else storage_dtype(v.aval).itemsize for v in eqn.outvars]
    return sum(-(-size // 4) for size in sizes)


def cut_of(eqn: Eqn) -> Cut:
    """How rows or columns are cut: not at all, unless they are few and long."""
    shape, axis = eqn.outvars[0].aval.shape, eqn.params["axis"]
    outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    # Threads hold their partial results in registers.
    held = max(TARGET.scan_items, TARGET.scan_tile_items // state_words(eqn))
    if inner == 1:
        items = TARGET.scan_items if length > 32 else 1
        whole = Cut(outer, length, inner, 1, length, items)
        # With a row for each multiprocessor the machine is full without cutting.
        step = TARGET.scan_threads * held
        if outer >= TARGET.multiprocessors or length < max(step + 1, 2 * TARGET.scan_row):
            return whole
        return whole.replace(pieces=-(-length // step), step=step, items=held)
    columns = outer * inner
    whole = Cut(outer, length, inner, 1, length, 1)
    # Few columns, of some length: the threads of a block go down pieces of each, side by side.
    if 2 * columns > TARGET.full_threads or length < 2 * TARGET.scan_column:
        return whole
    # The threads of a column wait for many words at each tile, so these are longer than of rows.
    held *= 2
    across = min(TARGET.scan_across, 1 << (columns - 1).bit_length())
    step = TARGET.scan_threads // across * held
    return whole.replace(
        pieces=-(-length // step), step=min(step, length), items=held, across=across
    )


def read_alone(group: FusedGroup, readers: Iterable[Container[Var]]) -> FusedGroup:
    """A group; of a scan of several arrays a copy that writes only the results that are read."""
    if merge_graph(group.members[0].eqn) is None:
        return group
    outputs = tuple(v for v in group.outputs if any(v in found for found in readers))
    return group.replace(outputs=outputs)
