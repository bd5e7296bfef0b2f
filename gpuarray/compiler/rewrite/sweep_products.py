"""Rewrite products that are only read by folds: attention, and its derivative.

Floor 3. In: a simplified Graph for a device. Out: one in which `softmax(Q K^T) V` and similar
patterns are sweeps (sweep.py), whose large intermediate values are never in memory; or the graph
itself.

A *space* is the rows and columns of a product with few features. Connected pointwise equations in
it, and its products, form a part. A part is rewritten if all its consumers are folds along rows or
columns, and products that sum over them: each of these recomputes what it needs, in a separate
kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.compiler.rewrite.sweep import (
    Computed,
    Factor,
    Online,
    Read,
    SweepSpace,
    is_sweep,
    swept,
)
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, has_effect, is_view, storage_dtype
from gpuarray.core.index import Index, behind, linear, view_rule
from gpuarray.core.primitive import Kind, Sentinel
from gpuarray.core.rewrite import algebra_of
from gpuarray.core.target import TARGET
from gpuarray.primitives.contract.precision import allows_tf32, names_algorithm

#: Dtypes of products whose sums are in float32.
_NARROW = ("bfloat16", "float16")
_FLOATS = ("float32", *_NARROW)


def sweep_products(graph: Graph) -> Graph:
    """The graph with sweeps instead of products whose elements need not be in memory, or itself."""
    # 1. Products of few features, by their space; most programs have none.
    spaces: dict[tuple, list[Eqn]] = {}
    for eqn in graph.eqns:
        if (key := _space_of(eqn)) is not None:
            spaces.setdefault(key, []).append(eqn)
    if not spaces:
        return graph
    # 2. The replacement of each connected part of each space.
    index, made = GraphIndex(graph), {}
    for (shape, batch, rows), products in spaces.items():
        for part in _Space(graph, index, shape, batch, rows, products).parts():
            made |= part
    if not made:
        return graph
    # 3. The graph with sweeps, in dependence order and without unread equations. None: the result
    # of this equation is computed by another one.
    replaced = [made.get(id(e), e) for e in graph.eqns]
    eqns = _in_order(graph, [e for e in replaced if e is not None])
    read = {a for e in eqns for a in e.invars if isinstance(a, Var)} | {*graph.outvars}
    eqns = _turned([_without_unread(e, read) if is_sweep(e) else e for e in eqns], graph)
    kept = Graph(graph.invars, graph.outvars, eqns, graph.constvars, graph.consts, graph.debug_name)
    return simplify(kept)


def _without_unread(eqn: Eqn, read: set) -> Eqn:
    """A sweep without the folds after its product, if they are not read."""
    if len(eqn.outvars) == 1 or read.intersection(eqn.outvars[1:]):
        return eqn
    sweep: SweepSpace = eqn.params["sweep"]
    params = {"sweep": sweep.replace(avals=sweep.avals[:1])}
    return eqn.replace(outvars=eqn.outvars[:1], params=params)


def _turned(eqns: list[Eqn], graph: Graph) -> list[Eqn]:
    """The equations, with products written as the transpose that alone reads them wants them."""
    readers: dict[Any, list[Eqn | None]] = {a: [None] for a in graph.outvars}
    for eqn in eqns:
        for a in eqn.invars:
            readers.setdefault(a, []).append(eqn)
    gone: dict[int, Eqn] = {}
    for eqn in eqns:
        reader = (
            readers.get(eqn.outvars[0], []) if is_sweep(eqn) and eqn.params["sweep"].out else []
        )
        # Only a transpose that is the only reader of the product: it is then free, as the kernel
        # writes in any order.
        if len(reader) != 1 or reader[0] is None or not is_view(reader[0]):
            continue
        order = view_rule(reader[0]).order(reader[0])
        if order is None or sorted(order, key=str) != list(range(len(order))):
            continue
        sweep, turned = eqn.params["sweep"], reader[0].outvars[0]
        made = sweep.replace(
            out=tuple(sweep.out[k] for k in order), avals=(turned.aval, *sweep.avals[1:])
        )
        outvars = [turned, *eqn.outvars[1:]]
        gone[id(eqn)] = eqn.replace(outvars=outvars, params={"sweep": made})
        gone[id(reader[0])] = gone[id(eqn)]
    # The sweep takes its place: its results are read later.
    found = [gone.get(id(e), e) for e in eqns]
    return list({id(e): e for e in found}.values())


def _in_order(graph: Graph, eqns: list[Eqn]) -> list[Eqn]:
    """The equations that results need, in dependence order, otherwise in their own order."""
    maker = {v: e for e in eqns for v in e.outvars}
    done: set[int] = set()
    order: list[Eqn] = []
    roots = [maker[v] for v in graph.outvars if isinstance(v, Var) and v in maker]
    for root in [e for e in eqns if has_effect(e)] + roots:
        stack = [root]
        # Without recursion: graphs may be deep.
        while stack:
            top = stack[-1]
            needed = [maker[a] for a in top.invars if isinstance(a, Var) and a in maker]
            needed = [e for e in needed if id(e) not in done]
            if id(top) in done or not needed:
                stack.pop()
                if id(top) not in done:
                    done.add(id(top))
                    order.append(top)
            else:
                stack += reversed(needed)
    return order


def _space_of(eqn: Eqn) -> tuple[tuple[int, ...], int, int] | None:
    """Return the space of a product of few features: its shape, batch axes, and row axes."""
    rules = eqn.primitive.rewrite.product
    if rules is None or names_algorithm(eqn.params.get("precision")):
        return None
    if not all(isinstance(a, Var) and a.aval.dtype.name in _FLOATS for a in eqn.invars):
        return None
    batch, rows, columns, steps = rules.extents(eqn)
    # A block holds all features of its rows: there may be few.
    few = len(steps) == 1 and 0 < steps[0] <= TARGET.swept_features
    if not few or not rows or not columns or eqn.outvars[0].aval.dtype.name not in _FLOATS:
        return None
    return eqn.outvars[0].aval.shape, len(batch), len(rows)


class _Space:
    """The products of one space, and the equations on their elements."""

    def __init__(
        self,
        graph: Graph,
        index: GraphIndex,
        shape: tuple[int, ...],
        batch: int,
        rows: int,
        products: Sequence[Eqn],
    ):
        self.graph, self.index = graph, index
        self.shape, self.batch, self.rows = shape, batch, rows
        self.made: dict[Var, Eqn] = {e.outvars[0]: e for e in products}
        self.products = dict(self.made)
        # A union-find forest: a value -> one that it is connected with; the root identifies the
        # part.
        self.up: dict[Var, Var] = {v: v for v in self.made}
        self.out: dict[Var, list[Eqn]] = {}  # part -> the equations through which it leaves
        self.open: set[Var] = set()  # parts that something else reads

    def top(self, v: Var) -> Var:
        while self.up[v] is not v:
            v = self.up[v]
        return v

    # ---- connected parts ----
    def parts(self) -> Iterable[dict[int, Any]]:
        """Yield the replacements of the equations of each part that becomes sweeps."""
        # Union-find: members that read one another belong to one part, and outside readers are its
        # consumers.
        leaving: list[tuple[Eqn, Var]] = []
        for eqn in self.graph.eqns:
            read = [a for a in eqn.invars if isinstance(a, Var) and a in self.made]
            if not read:
                continue
            if self.is_member(eqn):
                (v,) = eqn.outvars
                self.made[v] = eqn
                self.up[v] = self.top(read[0])
                for a in read[1:]:
                    self.up[self.top(a)] = self.top(v)
            else:
                leaving += [(eqn, a) for a in read]
        for eqn, a in leaving:
            self.out.setdefault(self.top(a), []).append(eqn)
            # A value with any other reader has to be in memory, so its part is not a sweep.
            if self.fold_axes(eqn) is None and self.product_side(eqn) is None:
                self.open.add(self.top(a))
        self.open |= {self.top(a) for a in self.graph.outvars if a in self.made}
        for part, eqns in self.out.items():
            if part not in self.open:
                found = self.sweeps(list(dict.fromkeys(eqns)))
                if found:
                    yield found

    def is_member(self, eqn: Eqn) -> bool:
        """Whether an equation is pointwise in the space."""
        if eqn.primitive.kind is not Kind.POINTWISE or len(eqn.outvars) != 1 or has_effect(eqn):
            return False
        if eqn.outvars[0].aval.shape != self.shape or isinstance(eqn.primitive.cuda, Sentinel):
            return False
        # Only dtypes of kernels: not keys, or integers and floats of less than a byte.
        if not all(_has_type(a.aval.dtype) for a in (*eqn.invars, *eqn.outvars)):
            return False
        return all(
            # An axis of length 1 is repeated, and so is a scalar.
            not s or len(s) == len(self.shape) and all(map(_repeats, s, self.shape))
            for s in (a.aval.shape for a in eqn.invars)
        )

    def fold_axes(self, eqn: Eqn) -> bool | None:
        """Return whether a fold goes along all columns; False along all rows; None for others."""
        if eqn.primitive.kind is not Kind.REDUCTION or not eqn.primitive.has_fold:
            return None
        if len(eqn.invars) != 1 or len(eqn.outvars) != 1:
            return None
        axes, end = tuple(eqn.params.get("axes", ())), self.batch + self.rows
        if axes == tuple(range(end, len(self.shape))):
            return True
        return False if axes == tuple(range(self.batch, end)) else None

    def product_side(self, eqn: Eqn) -> tuple[int, bool] | None:
        """For a product that sums over all rows or columns: which operand is of the space, and
        whether columns are summed.
        """
        rules = eqn.primitive.rewrite.product
        if rules is None or names_algorithm(eqn.params.get("precision")):
            return None
        sides = [k for k, a in enumerate(eqn.invars) if isinstance(a, Var) and a in self.made]
        # One operand has the space's elements; the other one is read from memory.
        if len(sides) != 1 or not all(isinstance(a, Var) for a in eqn.invars):
            return None
        (side,) = sides
        here, there = rules.roles(eqn)[side], rules.roles(eqn)[1 - side]
        dtypes = [a.aval.dtype.name for a in (*eqn.invars, *eqn.outvars)]
        if any(d not in _FLOATS for d in dtypes) or len(there.own) != 1:
            return None
        features = eqn.invars[1 - side].aval.shape[there.own[0]]
        end, ndim = self.batch + self.rows, len(self.shape)
        if here.batch != tuple(range(self.batch)) or not 0 < features <= TARGET.swept_features:
            return None
        if here.steps == tuple(range(end, ndim)):
            return side, True
        return (side, False) if here.steps == tuple(range(self.batch, end)) else None

    # ---- replacements ----
    def sweeps(self, eqns: Sequence[Eqn]) -> dict[int, Any]:
        """Return sweeps in place of the equations through which a part leaves."""
        summed = [e for e in eqns if e.primitive.rewrite.product is not None]
        if not summed:  # a fold alone is worth a library's product
            return {}
        found: dict[int, Any] = {}
        given: set[Var] = set()  # folds that come with a product
        for eqn in eqns:
            # The softmax's product first: it includes its two folds, which then are not separate
            # sweeps.
            made = self.online(eqn)
            if made is None or given.intersection(made[2]):
                # Its folds are available already: a second product with the same weights is a
                # separate sweep.
                made = self.plain(eqn)
            if made is None:
                return {}
            sweep, sources, outs = made
            if len(outs) > 1:
                given.update(outs)
            # Folds come before the products that use them: those become separate sweeps.
            also = {v for v in outs if v not in eqn.outvars}
            found |= {id(e): None for e in eqns if also.intersection(e.outvars)}
            found[id(eqn)] = swept(sweep, sources, outs, eqn.site)
        kept = [e for e in found.values() if e is not None]
        worth = all(self.is_worth(e.params["sweep"]) for e in kept)
        return found if worth and self.saves(kept, summed) else {}

    def saves(self, sweeps: Sequence[Eqn], summed: Sequence[Eqn]) -> bool:
        """Whether sweeps move less than the products alone would."""
        moved = sum(_bytes(e.invars) + _bytes(e.outvars) for e in sweeps)
        made = {f.value for e in sweeps for f in e.params["sweep"].factors}
        # Without sweeps an element is written by one product, and read by another.
        alone = 2 * _bytes(made) + sum(_bytes(e.invars) + _bytes(e.outvars) for e in summed)
        return moved < alone

    def is_worth(self, sweep: SweepSpace) -> bool:
        """Whether it saves bytes, and keeps the machine busy."""
        size, widest = math.prod(self.shape), max(sweep.features, *(f.steps for f in sweep.factors))
        owned, swept = (math.prod(self.shape[i] for i in r) for r in (sweep.owned, sweep.swept))
        batch = size // max(owned * swept, 1)
        # Elements are written and read; the operands are read once more for each fold.
        if 4 * size < TARGET.swept_bytes or min(owned, swept) < 2 * widest:
            return False
        if sweep.shared_bytes(*TARGET.sweep_tiles[-1]) > TARGET.shared_bytes:
            return False
        # A derivative makes its scores again for every result. Where they are products of short
        # floats, a library is faster, as long as they fit into memory.
        short = any(e.invars[0].aval.dtype.name in _NARROW for e in self.products.values())
        again = sweep.online is None and widest > TARGET.swept_short
        if short and again and 4 * size < TARGET.swept_scores:
            return False
        return batch * -(-owned // 64) >= TARGET.multiprocessors // 2

    def plain(self, eqn: Eqn) -> tuple[SweepSpace, list[Var], list[Var]] | None:
        """Return the sweep of a fold or a product, its operands and its results."""
        side = self.product_side(eqn)
        if side is None:
            columns = self.fold_axes(eqn)
            assert columns is not None
            value = _var(eqn.invars[0])
        else:
            value, columns = _var(eqn.invars[side[0]]), side[1]
        # The dependences of an element, back to factors and to leaves in memory.
        needed = _Needed(self, value)
        other, features, out = None, 0, ()
        if side is not None:
            other, features, out = needed.product(eqn, side[0])
        if not needed.is_readable:
            return None
        sweep = SweepSpace(
            self.shape, self.batch, self.rows, columns, tuple(needed.factors), tuple(needed.leaves),
            tuple(needed.members), value, eqn if side is None else None, other, features, out, None,
            tuple(v.aval for v in eqn.outvars), needed.exact,
        )  # fmt: skip
        return sweep, needed.sources, list(eqn.outvars)

    def online(self, eqn: Eqn) -> tuple[SweepSpace, list[Var], list[Var]] | None:
        """Return one sweep for a product with weights that their own row scales: softmax(x) v.

        Its results are the product, the largest score and the sum of the weights.
        """
        side = self.product_side(eqn)
        if side is None or not side[1]:
            return None
        # From the product back to the scores: a quotient by the sum of its own row, of an
        # exponential of a difference to the row's maximum.
        quotient = self.maker(eqn.invars[side[0]], "quotient", through="conversion")
        exponential = quotient and self.maker(quotient.invars[0], "exponential")
        difference = exponential and self.maker(exponential.invars[0], "difference")
        if quotient is None or exponential is None or difference is None:
            return None
        if exponential.outvars[0].aval.dtype.name != "float32":  # rescaling would round each time
            return None
        total = self.fold_below(quotient.invars[1], np.add)
        # The sum has to be that of the same weights, or dividing by it would not be a softmax.
        if total is None or total.invars[0] is not quotient.invars[0]:
            return None
        largest, scores = self.fold_below(difference.invars[1], np.maximum), difference.invars[0]
        if largest is None or largest.invars[0] is not scores:
            return None
        scores = _var(scores)
        needed = _Needed(self, scores)
        other, features, out = needed.product(eqn, side[0])
        if not needed.is_readable:
            return None
        outs = [*eqn.outvars, *largest.outvars, *total.outvars]
        sweep = SweepSpace(
            self.shape, self.batch, self.rows, True, tuple(needed.factors), tuple(needed.leaves),
            tuple(needed.members), scores, None, other, features, out,
            Online(largest, total, exponential), tuple(v.aval for v in outs), needed.exact,
        )  # fmt: skip
        return sweep, needed.sources, outs

    def maker(self, a: Atom, algebra: str, through: str = "") -> Eqn | None:
        """Return the equation of the space that makes an element, if it has the property `algebra`;
        looking through those with the property `through`.
        """
        eqn = self.made.get(a) if isinstance(a, Var) else None
        while eqn is not None and through and algebra_of(eqn) == through:
            a = eqn.invars[0]
            eqn = self.made.get(a) if isinstance(a, Var) else None
        return eqn if eqn is not None and algebra_of(eqn) == algebra else None

    def fold_below(self, a: Any, ufunc: Any) -> Eqn | None:
        """Return the fold along columns that a broadcast value repeats: of this ufunc, directly or
        as the maximum of it and -inf.
        """
        if not isinstance(a, Var) or a in self.made:
            return None
        v, _ = self.index.base(a)
        eqn = self.index.maker(v)
        if eqn is not None and algebra_of(eqn) == "larger":
            # The larger one of a fold and -inf is the fold.
            low, v = eqn.invars
            if not isinstance(low, Literal) or low.val != -np.inf or not isinstance(v, Var):
                return None
            eqn = self.index.maker(v)
        if eqn is None or self.fold_axes(eqn) is not True:
            return None
        fold = eqn.primitive.fold
        return eqn if fold is not None and fold.plain_ufunc is ufunc else None


def _has_type(dtype: Any) -> bool:
    # The name last: NumPy builds it anew each time.
    return getattr(dtype, "kind", "") in ("b", "i", "u", "f") or dtype.name in _FLOATS


def _bytes(values: Iterable[Atom]) -> int:
    return sum(a.aval.nbytes for a in values)


def _var(a: Atom) -> Var:
    assert isinstance(a, Var)
    return a


def _repeats(length: int, whole: int) -> bool:
    return length in (1, whole)


class _Needed:
    """The dependences of an element of a space."""

    def __init__(self, space: _Space, value: Var):
        self.space = space
        self.sources: list[Var] = []
        self.factors: list[Factor] = []
        self.members: list[Eqn] = []
        self.leaves: list[tuple[Var, Read | Literal | Computed]] = []
        self.is_readable, self.exact = True, False
        self._gather(value)

    def _gather(self, value: Var) -> None:
        space = self.space
        # Back to the products: they are recomputed from their operands, and anything else is
        # read.
        wanted, waiting = set(), [value]
        while waiting:
            v = waiting.pop()
            if v in wanted:
                continue
            wanted.add(v)
            if v in space.made and v not in space.products:
                waiting += [a for a in space.made[v].invars if isinstance(a, Var)]
        # In the order of the graph, so that the same program has the same text.
        for v, eqn in space.made.items():
            if v in wanted and v in space.products:
                self._factor(eqn)
            elif v in wanted:
                self.members.append(eqn)
        read = [a for e in self.members for a in e.invars if isinstance(a, Var)]
        for v in dict.fromkeys(read):
            if v not in space.made:
                self._leaf(v)

    def _leaf(self, v: Var) -> None:
        maker = self.space.index.maker(v)
        # A repeated constant is no array.
        if maker is not None and is_view(maker) and isinstance(maker.invars[0], Literal):
            if maker.invars[0].aval.shape == ():
                self.leaves.append((v, maker.invars[0]))
                return
        coordinates = [Index.axis(i, n) for i, n in enumerate(v.aval.shape)]
        made = self._computed(v, coordinates)
        self.leaves.append((v, made or self.read(v, coordinates)))

    def _computed(self, v: Var, coordinates: list[Index], depth: int = 0) -> Computed | None:
        """Return how a value is computed from the place of an element alone, if it is: in few
        operations, since each element takes them.
        """
        base, views = self.space.index.base(v)
        eqn, at = self.space.index.maker(base), behind(views, coordinates)
        if eqn is None or depth > TARGET.swept_depth or len(eqn.outvars) > 1:
            return None
        if eqn.primitive.kind is Kind.GENERATOR and not eqn.invars:
            element = eqn.primitive.element.make(eqn, 0, at, None)
            return Computed(eqn, (), element.places)
        if eqn.primitive.kind is not Kind.POINTWISE or eqn.primitive.weight > 1:
            return None
        operands: list[Computed | Literal] = []
        for a in eqn.invars:
            # An axis of length 1 is repeated, and so is a scalar.
            there = [i if n > 1 else Index() for i, n in zip(at, a.aval.shape, strict=False)]
            # A scalar that is a view of a literal, such as the width of a band.
            made = a if isinstance(a, Literal) else self._computed(a, there, depth + 1)
            if made is None:
                return None
            operands.append(made)
        return Computed(eqn, tuple(operands), ())

    def _factor(self, eqn: Eqn) -> None:
        batch, rows, space = self.space.batch, self.space.rows, self.space.shape
        self.exact |= not allows_tf32(eqn.params.get("precision"))
        rules = eqn.primitive.rewrite.product
        assert rules is not None
        left, right = rules.roles(eqn)
        reads = []
        # Rows are read by the left operand, columns by the right one; the summed axis comes after
        # those of the space.
        for a, roles, first in ((eqn.invars[0], left, batch), (eqn.invars[1], right, batch + rows)):
            places = dict(zip(roles.batch, range(batch), strict=True))
            places |= dict(zip(roles.own, itertools.count(first)))
            places[roles.steps[0]] = len(space)
            reads.append(self.read(_var(a), self.axes(_var(a), places)))
        steps = eqn.invars[0].aval.shape[left.steps[0]]
        self.factors.append(Factor(eqn.outvars[0], reads[0], reads[1], steps))

    def product(self, eqn: Eqn, side: int) -> tuple[Read, int, tuple[int, ...]]:
        """Return where the other operand is read, its features, and the axes of the result."""
        space = self.space
        self.exact |= not allows_tf32(eqn.params.get("precision"))
        rules = eqn.primitive.rewrite.product
        assert rules is not None
        here, there = (rules.roles(eqn)[k] for k in (side, 1 - side))
        a = _var(eqn.invars[1 - side])
        places = dict(zip(there.batch, here.batch, strict=True))
        places |= dict(zip(there.steps, here.steps, strict=True))
        places[there.own[0]] = len(space.shape)
        other = self.read(a, self.axes(a, places))
        # Batch axes, then those of the left operand, then those of the right one.
        own, feature = list(here.own), [len(space.shape)]
        order = [*here.batch, *(own + feature if side == 0 else feature + own)]
        return other, a.aval.shape[there.own[0]], tuple(order)

    def axes(self, a: Var, places: dict[int, int]) -> list[Index]:
        """Return the positions along the dimensions of an operand, given the axis of each."""
        return [Index.axis(places[d], n) for d, n in enumerate(a.aval.shape)]

    def read(self, v: Var, coordinates: list[Index]) -> Read:
        """Return where an element is read, seen through the views of an array."""
        base, views = self.space.index.base(v)
        # A sweep's indices are 32-bit numbers, and the space's own elements are never in memory.
        if base in self.space.made or base.aval.size >= 2**31:
            self.is_readable = False
        if base not in self.sources:
            self.sources.append(base)
        if storage_dtype(base.aval) != base.aval.dtype:
            self.is_readable = False
        index = linear(behind(views, coordinates), base.aval.shape)
        return Read(self.sources.index(base), index)
