"""Split axes of 2 to 4 elements into components where that saves memory.

Floor 3. In: a simplified Graph. Out: an equivalent one, in which a sum (or another fold) over such
an axis adds components, which is pointwise, a vector of which only components are read is never
materialised, and a reduction over other axes of vectors whose components share a computed value is
one for each component. So the squared distances of all pairs of points, and the forces between
them, are never in memory, and neither are the overlaps of all pairs of boxes.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise, simplify
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, is_view, storage_dtype
from gpuarray.core.index import Index, through, view_rule
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build


def take_apart_small_axes(graph: Graph) -> Graph:
    """The graph with small vectors split into components; the same one if there are none."""
    splitter = _Splitter(graph)
    return simplify(splitter.run()) if splitter.found() else graph


def chained(eqn: Eqn) -> Primitive | None:
    """The operation that computes a reduction element after element, ((a + b) + c) + d; None if
    there is none, or it would round differently.
    """
    if eqn.primitive.kind is not Kind.REDUCTION or eqn.primitive.pairwise is None:
        return None
    # Sums of short floats are rounded once at the end, which a chain of additions would not do.
    of, stored = eqn.invars[0].aval, storage_dtype(eqn.outvars[0].aval)
    exact = stored.kind in "biu" or stored.itemsize >= 4
    return eqn.primitive.pairwise if exact and of.dtype == eqn.outvars[0].aval.dtype else None


def _cut(eqn: Eqn) -> tuple[int, int] | None:
    """The short axis along which a view shows one component, and which; None for other views."""
    if not is_view(eqn) or len(eqn.outvars) != 1 or not isinstance(eqn.invars[0], Var):
        return None
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    axes = [d for d, (n, m) in enumerate(zip(shape, out, strict=False)) if n != m]
    if len(shape) != len(out) or len(axes) != 1 or out[axes[0]] != 1:
        return None
    (axis,) = axes
    if not 2 <= shape[axis] <= TARGET.components:
        return None
    place = through(eqn, [Index.axis(d, n) for d, n in enumerate(out)])[axis]
    return None if place.terms else (axis, place.constant)


# The methods below `run` decide which values are split, then split them.
class _Splitter:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.index = GraphIndex(graph)
        self.eqns: list[Eqn] = []
        # Components by vector, axis and number: each is made once, though many sums may read it.
        self.known: dict[tuple[Var, int, int], Atom] = {}
        # The place of the user's program that new equations belong to.
        self.site: Any = None
        #: How often each value is cut into its components.
        self.cuts = Counter(e.invars[0] for e in graph.eqns if _cut(e) is not None)

    def found(self) -> bool:
        """Whether there is anything to take apart."""
        ways = (self.is_fold, self.is_sum_of_vectors, self.is_cut)
        return any(way(e) for e in self.graph.eqns for way in ways)

    def run(self) -> Graph:
        for eqn in self.graph.eqns:
            self.site = eqn.site
            if self.is_fold(eqn):
                self.fold(eqn)
            elif self.is_sum_of_vectors(eqn):
                self.sum_of_vectors(eqn)
            elif self.is_cut(eqn):
                self.cut(eqn)
            else:
                self.eqns.append(eqn)
        g = self.graph
        return Graph(g.invars, g.outvars, self.eqns, g.constvars, g.consts, g.debug_name)

    # ---- which values are split ----
    def is_computed(self, a: Atom) -> bool:
        # A value in memory gains nothing: its components would only be read one by one.
        eqn = self.index.maker(a)
        return eqn is not None and is_elementwise(eqn) and len(eqn.outvars) == 1

    def is_fold(self, eqn: Eqn) -> bool:
        """A reduction over the components of vectors that are made here."""
        if chained(eqn) is None or storage_dtype(eqn.outvars[0].aval).kind == "c":
            return False
        operand, axes = eqn.invars[0], eqn.params["axes"]
        shape = operand.aval.shape
        # A short axis, in an array that is large enough for its memory to matter.
        if (
            len(axes) != 1
            or not 2 <= shape[axes[0]] <= TARGET.components
            or operand.aval.size < TARGET.vectors_from
        ):
            return False
        return self.is_computed(operand)

    def is_cut(self, eqn: Eqn) -> bool:
        """A component of computed vectors that are never read as a whole."""
        if _cut(eqn) is None or eqn.invars[0].aval.size < TARGET.vectors_from:
            return False
        a = eqn.invars[0]
        assert isinstance(a, Var)
        return self.is_computed(a) and self.cuts[a] == self.index.uses[a]

    def is_sum_of_vectors(self, eqn: Eqn) -> bool:
        """A reduction over other axes of vectors whose components share something computed."""
        if eqn.primitive.kind is not Kind.REDUCTION or len(eqn.outvars) != 1:
            return False
        operand = eqn.invars[0]
        shape, last = operand.aval.shape, operand.aval.ndim - 1
        if not shape or not 2 <= shape[last] <= TARGET.components or last in eqn.params["axes"]:
            return False
        vectors = operand.aval.size >= TARGET.vectors_from and self.is_computed(operand)
        return vectors and self.shares(operand, shape)

    def shares(self, operand: Atom, shape: tuple[int, ...]) -> bool:
        """Whether the value depends on one that is the same for all components, and computed."""
        # The search is bounded, because the text of the kernels grows with its results.
        waiting, seen = [operand], set()
        while waiting and len(seen) < TARGET.component_depth:
            a = waiting.pop()
            if not isinstance(a, Var) or a in seen:
                continue
            seen.add(a)
            eqn = self.index.maker(a)
            if eqn is None:
                continue
            # A broadcast along the components of something computed over all other axes.
            if is_view(eqn) and eqn.primitive.rewrite.repeats:
                order = view_rule(eqn).order(eqn)
                if order and order[-1] is None and self.is_new(eqn.invars[0], shape):
                    return True
            elif self.is_computed(a):
                waiting += eqn.invars
        return False

    def is_new(self, a: Atom, shape: tuple[int, ...]) -> bool:
        """Whether a value was computed over all other axes."""
        eqn = self.index.maker(a)
        computed = eqn is not None and eqn.primitive.kind in (Kind.POINTWISE, Kind.REDUCTION)
        return computed and a.aval.size * shape[-1] >= math.prod(shape)

    # ---- how ----
    def add(self, eqn: Eqn) -> Var:
        self.eqns.append(eqn)
        return eqn.outvars[0]

    def fold(self, eqn: Eqn) -> None:
        (operand,), (axis,) = eqn.invars, eqn.params["axes"]
        total, *rest = (self.part(operand, axis, k) for k in range(operand.aval.shape[axis]))
        # ((a + b) + c) + d, the last addition into the variable that the reduction defined.
        merge, (out,) = chained(eqn), eqn.outvars
        assert merge is not None
        for part in rest[:-1]:
            total = self.add(Eqn(merge, [total, part], [Var(out.aval)], {}, eqn.site))
        self.add(Eqn(merge, [total, rest[-1]], [out], {}, eqn.site))

    def cut(self, eqn: Eqn) -> None:
        found = _cut(eqn)
        assert found is not None
        part, (out,) = self.part(eqn.invars[0], *found), eqn.outvars
        self.add(build.reshape(part, out.aval.shape, eqn.site, out))

    def sum_of_vectors(self, eqn: Eqn) -> None:
        operand, out = eqn.invars[0], eqn.outvars[0]
        last = operand.aval.ndim - 1
        sums: list[Atom] = []
        # One reduction for each component, then the sums side by side again.
        for k in range(operand.aval.shape[last]):
            one = Var(out.aval.update(shape=out.aval.shape[:-1]))
            part = self.part(operand, last, k)
            sums.append(self.add(Eqn(eqn.primitive, [part], [one], eqn.params, eqn.site)))
        self.add(build.stack(sums, out.aval.ndim - 1, eqn.site, out))

    def part(self, a: Atom, axis: int, k: int, depth: int = 0) -> Atom:
        """Component k along an axis, without that axis."""
        # A scalar is the same for all components.
        if isinstance(a, Literal) or not a.aval.shape:
            return a
        key = (a, axis, k)
        if key not in self.known:
            self.known[key] = self.made_part(a, axis, k, depth)
        return self.known[key]

    def made_part(self, a: Var, axis: int, k: int, depth: int) -> Atom:
        eqn = self.index.maker(a)
        shape = a.aval.shape[:axis] + a.aval.shape[axis + 1 :]

        def part(x: Atom, along: int) -> Atom:
            """The component of an operand; of one that is the same for all, that one."""
            one = not x.aval.shape or x.aval.shape[along] == 1
            # Of a broadcast operand component 0 is every component.
            return self.part(x, along, 0 if one else k, depth + 1)

        # Computed values: the same equation on components. Deeper ones are sliced from the vector.
        if eqn is not None and depth < TARGET.component_depth:
            if self.is_computed(a):
                ins, out = [part(x, axis) for x in eqn.invars], Var(a.aval.update(shape=shape))
                return self.add(Eqn(eqn.primitive, ins, [out], eqn.params, self.site))
            if eqn.primitive.rewrite.component is not None:
                made = eqn.primitive.rewrite.component(eqn, axis, part)
                return self.add(made) if isinstance(made, Eqn) else made
        # Not computed here: a slice of the vector in memory, without its axis.
        if a.aval.shape[axis] > 1:
            a = self.add(build.piece(a, axis, k, 1, self.site))
        return self.add(build.reshape(a, shape, self.site))
