"""How a group reads: for every load the tree of accesses that makes its element, and where.

Floor 3. In: a FusedGroup. Out: an `Accesses`, used by the choice of a form, the analysis of
overwritable inputs, and the templates alike. Positions are index arithmetic; no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuarray.compiler.fuse.group import FusedGroup, Load
from gpuarray.compiler.lower.elements import Inliner
from gpuarray.core.element import Access, Element, parts
from gpuarray.core.graph import Var
from gpuarray.core.index import Index, behind, linear


class Accesses:
    """A group's reads, element by element. Equal loads are the same access.

    Parameters
    ----------
    axes :
        The lengths that threads go over.
    collapsed :
        Axes of the group that are runs of one of those, which has their common length
        (collapse.py): where along it their positions are.
    """

    def __init__(
        self,
        group: FusedGroup,
        axes: Sequence[int] | None = None,
        collapsed: Mapping[int, Index] | None = None,
    ):
        self.group = group
        self.axes = group.axes if axes is None else tuple(axes)
        self.collapsed = collapsed or {}
        self.inliner = Inliner(group.inlined)
        self._known: dict[tuple, Access] = {}

    # ---- positions ----
    def along(self, dims: Iterable[int | None]) -> list[Index]:
        """The positions along dimensions of a value."""
        collapsed, axes = self.collapsed, self.axes
        return [
            # A dimension of length 1 is at 0; a collapsed one somewhere along the axis it is a part
            # of.
            Index() if d is None else collapsed[d] if d in collapsed else Index.axis(d, axes[d])
            for d in dims
        ]

    def position_along(self, axes: Iterable[int]) -> Index:
        """The position in the space of these axes, the last one the fastest."""
        lengths = [(i, self.axes[i]) for i in axes]
        return linear([Index.axis(i, n) for i, n in lengths], [n for _, n in lengths])

    def load_index(self, load: Load) -> Index:
        """Where a load reads in its source, seen through its views."""
        return linear(behind(load.views, self.along(load.dims)), load.source.aval.shape)

    def output_index(self, v: Var) -> Index:
        """The index of an output, or of a part of one."""
        places, part = self.along(self.group.made[v].dims), self.group.joined.get(v)
        if part is None:
            return linear(places, v.aval.shape)
        places.insert(part.axis, Index(constant=part.at))
        return linear(places, part.whole.aval.shape)

    # ---- reads ----
    def loads(self) -> list[Load]:
        """The loads, each once."""
        # Two members may share a load; one register serves both.
        return list({(x.key, x.dims): x for x in self.group.loads()}.values())

    def is_inlined(self, load: Load) -> bool:
        """Whether a load is computed on the spot rather than one element of memory."""
        return load.source in self.group.inlined

    def of(self, load: Load) -> Access:
        """The tree of accesses that makes an element of a load."""
        key = load.key, load.dims
        found = self._known.get(key)
        if found is None:
            places = behind(load.views, self.along(load.dims))
            found = self._known[key] = self.inliner.element(load.source, places)
        return found

    def elements_of(self, load: Load) -> list[tuple[Var, Index]]:
        """The reads from memory of an element of a load, as (array, index)."""
        # Read directly, or computed from elements of other values.
        if not self.is_inlined(load):
            return [(load.source, self.load_index(load))]
        found = parts(self.of(load))
        return [(p.source, p.index) for p in found if isinstance(p, Element)]

    def run_along_columns(self) -> bool:
        """Whether more of the bytes read are contiguous along the parallel axes than along the
        reduced ones: then neighbouring threads take neighbouring columns.
        """
        along_p = along_r = 0
        parallel = set(self.group.parallel)
        for v, index in (e for load in self.group.loads() for e in self.elements_of(load)):
            for axis in range(len(self.axes)):
                # Coefficient 1: neighbours along this axis are neighbours in memory.
                if index.coefficient(axis) == 1 and v.aval.size > 1:
                    if axis in parallel:
                        along_p += v.aval.size
                    else:
                        along_r += v.aval.size
        return along_p > along_r
