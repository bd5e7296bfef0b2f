"""Small vectors: an axis of 2 to 4 elements is taken apart into components where that saves memory.

Floor 3. In: a simplified Graph. Out: one that computes the same. There, a sum (or the like) over
such an axis adds components, which is pointwise; and a reduction over other axes of vectors that
were made from something all components share is one for each component. So the squared distances
of all pairs of points, and the forces between them, are never in memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.core.avals import ShapedArray
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype
from gpuarray.core.primitive import Kind, registry

#: Components of a small vector at most.
MOST = 4
#: Arrays of fewer elements are no burden.
LEAST = 1 << 12
#: How far back a value is taken apart; what lies behind is read component by component.
DEEP = 48

_PAIRWISE = {np.add: "add", np.multiply: "mul", np.maximum: "max", np.minimum: "min"}


def components(graph: Graph) -> Graph:
    """The graph with small vectors taken apart; the same one where there are none."""
    splitter = _Splitter(graph)
    return simplify(splitter.run()) if splitter.found() else graph


class _Splitter:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.index = GraphIndex(graph)
        self.eqns: list[Eqn] = []
        self.known: dict[tuple[Var, int, int], Atom] = {}
        self.site: Any = None

    def found(self) -> bool:
        """Whether there is anything to take apart."""
        return any(self.is_fold(e) or self.is_sum_of_vectors(e) for e in self.graph.eqns)

    def run(self) -> Graph:
        for eqn in self.graph.eqns:
            self.site = eqn.site
            if self.is_fold(eqn):
                self.fold(eqn)
            elif self.is_sum_of_vectors(eqn):
                self.sum_of_vectors(eqn)
            else:
                self.eqns.append(eqn)
        g = self.graph
        return Graph(g.invars, g.outvars, self.eqns, g.constvars, g.consts, g.debug_name)

    # ---- what is taken apart ----
    def is_computed(self, a: Atom) -> bool:
        eqn = self.index.maker(a)
        return eqn is not None and eqn.primitive.kind is Kind.POINTWISE and len(eqn.outvars) == 1

    def is_fold(self, eqn: Eqn) -> bool:
        """A reduction over the components of vectors that are made here."""
        prim = eqn.primitive
        if prim.kind is not Kind.REDUCTION or prim.plain_fold not in _PAIRWISE:
            return False
        operand, out = eqn.invars[0], eqn.outvars[0].aval
        axes, shape = eqn.params["axes"], operand.aval.shape
        if len(axes) != 1 or not 2 <= shape[axes[0]] <= MOST or operand.aval.size < LEAST:
            return False
        wide = storage_dtype(out).itemsize >= 4 and storage_dtype(out).kind in "iuf"
        return wide and out.dtype == operand.aval.dtype and self.is_computed(operand)

    def is_sum_of_vectors(self, eqn: Eqn) -> bool:
        """A reduction over other axes of vectors whose components share something computed."""
        if eqn.primitive.kind is not Kind.REDUCTION or len(eqn.outvars) != 1:
            return False
        operand = eqn.invars[0]
        shape, last = operand.aval.shape, operand.aval.ndim - 1
        if not shape or not 2 <= shape[last] <= MOST or last in eqn.params["axes"]:
            return False
        vectors = operand.aval.size >= LEAST and self.is_computed(operand)
        return vectors and self.shares(operand, shape)

    def shares(self, operand: Atom, shape: tuple[int, ...]) -> bool:
        """Whether some value behind this one is the same for all components, and computed."""
        waiting, seen = [operand], set()
        while waiting and len(seen) < DEEP:
            a = waiting.pop()
            if not isinstance(a, Var) or a in seen:
                continue
            seen.add(a)
            eqn = self.index.maker(a)
            if eqn is None:
                continue
            if eqn.primitive.name == "broadcast_in_dim":
                source = eqn.invars[0]
                kept = len(shape) - 1 in eqn.params["broadcast_dimensions"]
                spread = not kept or source.aval.shape[-1] == 1
                if spread and self.is_new(source, shape):
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
    def add(self, name: str, ins: list[Atom], aval: ShapedArray, params: dict) -> Var:
        out = Var(aval)
        self.eqns.append(Eqn(registry[name], ins, [out], params, self.site))
        return out

    def fold(self, eqn: Eqn) -> None:
        (operand,), (axis,) = eqn.invars, eqn.params["axes"]
        total, *rest = (self.part(operand, axis, k) for k in range(operand.aval.shape[axis]))
        name = _PAIRWISE[eqn.primitive.plain_fold]
        for part in rest[:-1]:
            total = self.add(name, [total, part], eqn.outvars[0].aval, {})
        self.eqns.append(Eqn(registry[name], [total, rest[-1]], eqn.outvars, {}, eqn.site))

    def sum_of_vectors(self, eqn: Eqn) -> None:
        operand, out = eqn.invars[0], eqn.outvars[0]
        last = operand.aval.ndim - 1
        sums: list[Atom] = []
        for k in range(operand.aval.shape[last]):
            one = Var(out.aval.update(shape=out.aval.shape[:-1]))
            part = self.part(operand, last, k)
            self.eqns.append(Eqn(eqn.primitive, [part], [one], eqn.params, eqn.site))
            sums.append(one)
        params = {"axis": len(out.aval.shape) - 1}
        self.eqns.append(Eqn(registry["stack"], sums, [out], params, eqn.site))

    def part(self, a: Atom, axis: int, k: int, depth: int = 0) -> Atom:
        """Component k along an axis, which is gone in it."""
        if isinstance(a, Literal) or not a.aval.shape:
            return a
        key = (a, axis, k)
        if key not in self.known:
            self.known[key] = self.made_part(a, axis, k, depth)
        return self.known[key]

    def made_part(self, a: Var, axis: int, k: int, depth: int) -> Atom:
        eqn = self.index.maker(a)
        shape = a.aval.shape[:axis] + a.aval.shape[axis + 1 :]
        aval = a.aval.update(shape=shape)
        if eqn is not None and depth < DEEP:
            if self.is_computed(a):
                ins = [self.part(x, axis, self.at(x, axis, k), depth + 1) for x in eqn.invars]
                return self.add(eqn.primitive.name, ins, aval, eqn.params)
            if eqn.primitive.name == "broadcast_in_dim":
                return self.broadcast(eqn, axis, k, aval, depth)
        if a.aval.shape[axis] > 1:
            low = tuple(k if d == axis else 0 for d in range(a.aval.ndim))
            high = tuple(k + 1 if d == axis else n for d, n in enumerate(a.aval.shape))
            params = {"start_indices": low, "limit_indices": high, "strides": None}
            cut = a.aval.update(shape=tuple(h - b for b, h in zip(low, high, strict=True)))
            a = self.add("slice", [a], cut, params)
        params = {"new_sizes": shape, "dimensions": None, "sharding": None}
        return self.add("reshape", [a], aval, params)

    def at(self, a: Atom, axis: int, k: int) -> int:
        return k if a.aval.shape and a.aval.shape[axis] > 1 else 0

    def broadcast(self, eqn: Eqn, axis: int, k: int, aval: ShapedArray, depth: int) -> Atom:
        source, dims = eqn.invars[0], eqn.params["broadcast_dimensions"]
        if axis in dims:
            d = dims.index(axis)
            source = self.part(source, d, self.at(source, d, k), depth + 1)
            dims = dims[:d] + dims[d + 1 :]
        dims = tuple(d - (d > axis) for d in dims)
        if source.aval.shape == aval.shape and dims == tuple(range(len(dims))):
            return source
        params = {**eqn.params, "shape": aval.shape, "broadcast_dimensions": dims}
        return self.add("broadcast_in_dim", [source], aval, params)
