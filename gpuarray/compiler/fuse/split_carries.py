"""Loops over a stacked state, or over vectors: components become separate values.

Floor 3. In: a Graph. Out: an equivalent one, in which a loop over `stack([x, v])` carries x and v,
if that lets the whole loop run in registers. Elements of x and v depend on one another, so it would
otherwise run iteration by iteration, each a launch or two. So do the components of a vector of
which an iteration takes the length, or a product with a small matrix.

Equations of the body are processed in order: a value exists as a whole, or in parts along one axis,
and is assembled only if needed as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuarray.compiler.fuse.loops import flow_group, simplified
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise, simplify
from gpuarray.compiler.rewrite.small_axes import chained
from gpuarray.core.avals import ShapedArray
from gpuarray.core.element import Applied
from gpuarray.core.element_rules import Taken, rule_of, taking
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, is_view, storage_dtype
from gpuarray.core.index import Index
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build

#: The axes along which carries are split, by carry number.
Axes = dict[int, int]
#: Values that are in parts, and along which axis.
Components = dict[Atom, int]


class _Side(NamedTuple):
    """An operand of a small product: the axis that is summed, and the axes that only it has."""

    operand: Atom
    batch: tuple[int, ...]
    own: tuple[int, ...]
    steps: int


class Parts(NamedTuple):
    """A value as its components along an axis, each without that axis."""

    axis: int
    each: list[Atom]


def split_carries(graph: Graph) -> Graph:
    """The graph with stacked carries split; the same one if that helps no loop."""
    if not any(_loop_of(e) for e in graph.eqns):
        return graph
    index = GraphIndex(graph)
    eqns: list[Eqn] = []
    changed = False
    for eqn in graph.eqns:
        made = _split(eqn, index)
        changed |= made is not None
        eqns += made or [eqn]
    return simplify(graph.replace(eqns=eqns)) if changed else graph


def _split(eqn: Eqn, index: GraphIndex) -> list[Eqn] | None:
    """A loop with carries split, and the equations around it; None if nothing is gained."""
    loop = _loop_of(eqn)
    axes = {} if loop is None else _axes(loop)
    if loop is None or not (axes or _needs_components(loop)) or _is_kernel(eqn, index):
        return None
    apart = _Apart()
    made = apart.loop(eqn, loop, axes)
    index.add(apart.eqns)
    if not _is_kernel(made, index):
        for other in apart.eqns:
            index.remove(other)
        return None
    for v in eqn.outvars:
        apart.whole(v)
    return apart.eqns


def _loop_of(eqn: Eqn) -> Loop | None:
    """The loop of an equation, if the equation can be rebuilt from it."""
    rules = eqn.primitive
    loop = rules.flow(eqn) if rules.flow is not None and rules.rewrite.loop is not None else None
    return loop if isinstance(loop, Loop) else None


def _is_kernel(eqn: Eqn, index: GraphIndex) -> bool:
    return flow_group(eqn, eqn.outvars, index) is not None


def _by_components(graph: Graph, known: Mapping[Atom, int] = MappingProxyType({})) -> Components:
    """The values whose elements depend on one another along a short axis, since they are folded or
    cut along it, and that axis: for example the squares that are summed in a length. `known`: those
    that are already to be split.
    """
    found = dict(known)
    for eqn in reversed(graph.eqns):
        if not eqn.outvars or not eqn.invars:
            continue
        out = eqn.outvars[0]
        if is_elementwise(eqn):
            if out in found:
                alike = (x for x in eqn.invars if x.aval.shape == out.aval.shape)
                found.update((x, found[out]) for x in alike if x not in found)
        else:
            found.update((a, d) for a, d in _short_axes(eqn).items() if a not in found)
    return found


def _needs_components(loop: Loop) -> bool:
    return bool(_by_components(simplified(loop.body)))


def _short_axes(eqn: Eqn) -> Components:
    """The short axis along which an equation folds or cuts an operand."""
    if eqn.primitive.rewrite.product is not None:
        sides = _sides(eqn)
        return {s.operand: s.steps for s in sides or () if isinstance(s.operand, Var)}
    axis = _short_axis(eqn)
    return {} if axis is None else {eqn.invars[0]: axis}


def _sides(eqn: Eqn) -> tuple[_Side, _Side] | None:
    """Both operands of a product that is computed term by term; None for others."""
    rules, out = eqn.primitive.rewrite.product, eqn.outvars[0].aval
    alike = {a.aval.dtype for a in eqn.invars} == {out.dtype}
    if rules is None or not alike or storage_dtype(out).itemsize < 4:
        return None
    left, right = (
        _Side(a, role.batch, role.own, *role.steps) if len(role.steps) == 1 else None
        for a, role in zip(eqn.invars, rules.roles(eqn), strict=True)
    )
    if left is None or right is None or not _is_short(left.operand.aval.shape[left.steps]):
        return None
    # The remaining axes of each operand are in the order of the result's axes.
    if any((*s.batch, *s.own) != tuple(sorted((*s.batch, *s.own))) for s in (left, right)):
        return None
    return left, right


def _short_axis(eqn: Eqn) -> int | None:
    shape, out = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if chained(eqn) is not None:
        axes = list(eqn.params["axes"])
    elif eqn.primitive.rewrite.piece is not None:
        axes = [eqn.primitive.rewrite.piece(eqn, 0)[0]]
    elif is_view(eqn) and len(shape) == len(out):
        axes = [d for d, n in enumerate(out) if n < shape[d]]
    elif eqn.primitive.update is not None:
        axes = [d for d, n in enumerate(shape) if _is_short(n)]
    else:
        return None
    return axes[0] if len(axes) == 1 and _is_short(shape[axes[0]]) else None


def _is_short(n: int) -> bool:
    return 2 <= n <= TARGET.carried_components


# ---- which carries to split ----
def _axes(loop: Loop) -> Axes:
    """The carries whose next values are made by stacking, or from others that are, or whose
    elements depend on one another, and along which axes.
    """
    body, first = simplified(loop.body), len(loop.consts)
    made = {v: e for e in body.eqns for v in e.outvars}
    number = {v: k for k, v in enumerate(body.invars[first : first + len(loop.carry)])}
    found: Axes = {}
    # One carry may follow from another: repeat until there are no more.
    while True:
        before = len(found)
        for v, k in number.items():
            if k not in found and any(map(_is_short, v.aval.shape)):
                axis = _joined_axis(
                    body.outvars[k], made, {v: found.get(n) for v, n in number.items()}
                )
                if axis is not None:
                    found[k] = axis
        ends = {body.outvars[k]: axis for k, axis in found.items()}
        needed = _by_components(body, ends)
        found.update((k, needed[v]) for v, k in number.items() if k not in found and v in needed)
        if len(found) == before:
            break
    # Others of the same shape run along the same axes.
    shapes = {v.aval.shape: found[k] for v, k in number.items() if k in found}
    return {k: shapes[v.aval.shape] for v, k in number.items() if v.aval.shape in shapes}


def _joined_axis(a: Atom, made: dict[Var, Eqn], known: dict[Var, int | None]) -> int | None:
    """The short axis along which a value is concatenated, looking through shape-preserving
    operations.
    """
    waiting, seen = [a], set()
    while waiting:
        v = waiting.pop()
        if isinstance(v, Literal) or v in seen:
            continue
        seen.add(v)
        if known.get(v) is not None:
            return known[v]
        eqn = made.get(v)
        if eqn is None:
            continue
        inner = _loop_of(eqn)
        if inner is not None:
            # In an inner loop: where its own carry is assembled.
            k = eqn.outvars.index(v)
            axis = _axes(inner).get(k)
            if axis is not None:
                return axis
        elif is_elementwise(eqn) or is_view(eqn):
            waiting += [x for x in eqn.invars if x.aval.shape == v.aval.shape]
        elif (axis := _grown(eqn, v.aval.shape)) is not None:
            return axis
    return None


def _grown(eqn: Eqn, shape: tuple[int, ...]) -> int | None:
    """The short axis along which an operand is a part of the result."""
    if eqn.primitive.rewrite.joins is not None:
        axes = [eqn.primitive.rewrite.joins(eqn)]
    elif eqn.primitive.kind is not Kind.MOVEMENT:
        return None
    else:
        own = eqn.invars[0].aval.shape
        axes = [d for d, n in enumerate(shape) if len(own) == len(shape) and own[d] < n]
    return next((d for d in axes if _is_short(shape[d])), None)


# ---- how ----
class _Apart:
    """The equations of a Graph some of whose values are in parts.

    Attributes
    ----------
    parts :
        Those values. Others are unchanged, except for
    same :
        those that another value replaces.
    components :
        Values that are computed in parts, whatever their operands, and their axes.
    numbers :
        Values that are filled with one number.
    """

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.parts: dict[Var, Parts] = {}
        self.same: dict[Var, Atom] = {}
        self.components: Components = {}
        self.numbers: dict[Atom, Literal] = {}

    def add(self, eqn: Eqn) -> Var:
        self.eqns.append(eqn)
        return eqn.outvars[0]

    # ---- values ----
    def whole(self, a: Atom) -> Atom:
        """A value as a whole; assembled on first use."""
        if isinstance(a, Literal):
            return a
        if a in self.parts and a not in self.same:
            axis, each = self.parts[a]
            self.same[a] = self.add(build.stack(each, axis, None, a))
        return self.same.get(a, a)

    def part(self, a: Atom, axis: int, k: int) -> Atom:
        """Component k of an operand along an axis; of one that is the same for all, that one."""
        if isinstance(a, Literal) or not a.aval.ndim:
            return self.whole(a)
        found = self.parts.get(a)
        if found is not None and found.axis == axis:
            return found.each[k if len(found.each) > 1 else 0]
        n = a.aval.shape[axis]
        a = self.whole(a)
        if n > 1:
            a = self.add(build.piece(a, axis, k, 1, None))
        return self.shaped(a, _without(a.aval.shape, axis))

    def shaped(self, a: Atom, shape: Sequence[int]) -> Atom:
        return a if a.aval.shape == tuple(shape) else self.add(build.reshape(a, tuple(shape), None))

    def axis_of(self, a: Atom) -> int | None:
        return self.parts[a].axis if isinstance(a, Var) and a in self.parts else None

    # ---- equations ----
    def run(self, graph: Graph, ends: Mapping[Atom, int] = MappingProxyType({})) -> None:
        """All equations of a Graph; `ends` are to be in parts."""
        self.components = _by_components(graph, ends)
        for eqn in graph.eqns:
            if eqn.primitive.rewrite.repeats and isinstance(eqn.invars[0], Literal):
                self.numbers[eqn.outvars[0]] = eqn.invars[0]
            ways = (self.elementwise, self.moved, self.fold, self.product, self.inside)
            if not any(way(eqn) for way in ways):
                # Unchanged, on whole values.
                self.add(eqn.replace(invars=[*map(self.whole, eqn.invars)]))

    def elementwise(self, eqn: Eqn) -> bool:
        """Component by component."""
        axes = {self.axis_of(a) for a in eqn.invars} - {None}
        axes = axes or {self.components.get(eqn.outvars[0])} - {None}
        if len(axes) != 1 or not is_elementwise(eqn):
            return False
        (axis,) = axes
        assert axis is not None
        made: list[Eqn] = []
        for k in range(eqn.outvars[0].aval.shape[axis]):
            ins = [self.part(a, axis, k) for a in eqn.invars]
            outs = [Var(v.aval.update(shape=_without(v.aval.shape, axis))) for v in eqn.outvars]
            made.append(eqn.replace(invars=ins, outvars=outs))
            self.add(made[-1])
        for i, v in enumerate(eqn.outvars):
            self.parts[v] = Parts(axis, [e.outvars[i] for e in made])
        return True

    def moved(self, eqn: Eqn) -> bool:
        """Data movement: stacks, slices, padding. A result is an operand's part, or has parts that
        are.
        """
        rule, prim = rule_of(eqn), eqn.primitive
        moves = prim.kind in (Kind.VIEW, Kind.MOVEMENT) or prim.update is not None
        if rule is None or not moves or not rule.when(eqn):
            return False
        numbers: dict[int, Literal] = {}
        for i, a in enumerate(eqn.invars):
            if rule.where(i):
                known = self.number(a)
                if known is None:
                    return False
                numbers[i] = known
        get = taking(numbers)

        def make(eqn: Eqn, number: int, at: Sequence[Index]) -> Any:
            return rule.make(eqn, number, at, get)

        found: dict[Var, Atom | Parts] = {}
        for number, v in enumerate(eqn.outvars):
            made = self.moved_result(eqn, make, number)
            if made is None:
                return False
            found[v] = made
        for v, made in found.items():
            if isinstance(made, Parts):
                self.parts[v] = made
            else:
                self.same[v] = made
        return True

    def number(self, a: Atom) -> Literal | None:
        """The number that is at every place of an operand, if it is known."""
        return a if isinstance(a, Literal) else self.numbers.get(a)

    def moved_result(self, eqn: Eqn, make: Callable[..., Any], number: int) -> Atom | Parts | None:
        """One of its results; None where that is to be made as a whole."""
        shape = eqn.outvars[number].aval.shape
        of_parts = any(self.axis_of(a) is not None for a in eqn.invars)
        at = [Index.axis(d, n) for d, n in enumerate(shape)]
        if of_parts:
            whole = self.taken(eqn, make(eqn, number, at), shape, at)
            if whole is not None:
                return whole
        for axis, n in enumerate(shape):
            if not _is_short(n) and not (of_parts and n == 1):
                continue
            rest = [i for d, i in enumerate(at) if d != axis]
            places = [[*at[:axis], Index(constant=k), *at[axis + 1 :]] for k in range(n)]
            parts = [make(eqn, number, place) for place in places]
            # A view of a whole has nothing to gain, unless all of its parts are the same.
            if eqn.primitive.kind is Kind.VIEW and not of_parts and len(set(parts)) > 1:
                continue
            each = [self.taken(eqn, x, _without(shape, axis), rest) for x in parts]
            if None not in each:
                return Parts(axis, each)  # pyright: ignore[reportArgumentType]
        return None

    def taken(
        self, eqn: Eqn, element: Any, shape: tuple[int, ...], at: Sequence[Index]
    ) -> Atom | None:
        """The value of this shape whose element at `at` is this one of an operand, or an operation
        on such elements; None if that takes more than reshaped parts of operands.
        """
        if isinstance(element, Applied) and element.eqn is not None:
            ins = [self.taken(eqn, x, shape, at) for x in element.operands]
            if any(a is None for a in ins):
                return None
            out = Var(eqn.outvars[0].aval.update(shape=shape))
            return self.add(element.eqn.replace(invars=ins, outvars=[out], site=eqn.site))
        if not isinstance(element, Taken):
            return None
        a = eqn.invars[element.operand]
        lengths, split = a.aval.shape, self.axis_of(a)
        fixed = [d for d, i in enumerate(element.at) if not i.terms and lengths[d] > 1]
        if len(fixed) > 1 or (split is not None and fixed != [split] and lengths[split] > 1):
            return None
        if fixed:
            (axis,) = fixed
            a = self.part(a, axis, element.at[axis].constant)
        elif split is not None:
            a = self.part(a, split, 0)
        else:
            a = self.whole(a)
        varying = [i for i in element.at if i.terms]
        dims = [d for d, i in enumerate(at) if i in varying]
        if [at[d] for d in dims] != varying:
            return None
        if not dims and not shape and not a.aval.ndim:
            return a
        seen = tuple(shape[d] for d in dims)
        if math.prod(seen) == math.prod(shape):
            return self.shaped(a, shape)
        return self.add(build.broadcast(self.shaped(a, seen), shape, tuple(dims), eqn.site))

    def fold(self, eqn: Eqn) -> bool:
        """A sum (or the like) over the components, one after another."""
        merge = chained(eqn)
        axis = self.axis_of(eqn.invars[0]) if merge is not None else None
        if merge is None or axis is None or tuple(eqn.params["axes"]) != (axis,):
            return False
        (out,) = eqn.outvars
        each = self.parts[eqn.invars[0]].each  # pyright: ignore[reportArgumentType]
        self.same[out] = self.chain(merge, each, out.aval, eqn.site)
        return True

    def product(self, eqn: Eqn) -> bool:
        """A product with a small matrix: each component of the result is a sum of products."""
        sides = _sides(eqn)
        out = eqn.outvars[0]
        if sides is None:
            return False
        left, right = sides
        # The short axis of the result is one that only one operand has.
        first = len(left.batch)
        ends = first, first + len(left.own), out.aval.ndim
        axis = next(
            (d for d in range(ends[2] - 1, first - 1, -1) if _is_short(out.aval.shape[d])), None
        )
        if axis is None:
            return False
        multiply, total = _operations(eqn)
        steps, shape = left.operand.aval.shape[left.steps], _without(out.aval.shape, axis)
        each: list[Atom] = []
        for j in range(out.aval.shape[axis]):
            terms: list[Atom] = []
            for k in range(steps):
                ins = [self.term(s, axis, j, k, ends, s is left) for s in sides]
                product = Var(out.aval.update(shape=shape))
                terms.append(self.add(Eqn(multiply, ins, [product], {}, eqn.site)))
            each.append(self.chain(total, terms, out.aval.update(shape=shape), eqn.site))
        self.parts[out] = Parts(axis, each)
        return True

    def term(
        self, side: _Side, axis: int, j: int, k: int, ends: tuple[int, int, int], is_left: bool
    ) -> Atom:
        """The share of one operand in component j of a product: its part k along the summed axis,
        over the axes of the result.
        """
        batch, own, end = ends
        a = self.part(side.operand, side.steps, k)
        mine = range(batch, own) if is_left else range(own, end)
        if axis in mine:
            # Its own axis, counted without the removed one.
            d = side.own[axis - mine.start]
            a = self.part(a, d - (d > side.steps), j)
        lengths = iter(a.aval.shape)
        axes = (d for d in range(end) if d != axis)
        return self.shaped(a, [next(lengths) if d < batch or d in mine else 1 for d in axes])

    def chain(self, merge: Primitive, terms: Sequence[Atom], aval: ShapedArray, site: Any) -> Atom:
        """Terms merged one after another."""
        total, *rest = terms
        for x in rest:
            total = self.add(Eqn(merge, [total, x], [Var(aval)], {}, site))
        return total

    def inside(self, eqn: Eqn) -> bool:
        """An inner loop that carries split values."""
        loop = _loop_of(eqn)
        axes = {} if loop is None else _axes(loop)
        if loop is None or not (axes or _needs_components(loop)):
            return False
        self.loop(eqn, loop, axes)
        return True

    def loop(self, eqn: Eqn, loop: Loop, axes: Axes) -> Eqn:
        """A loop, some of whose carries are split."""
        # 1. Operands.
        starts: list[Atom] = []
        for k, i in enumerate(loop.carry):
            a = eqn.invars[i]
            count = range(a.aval.shape[axes[k]]) if k in axes else ()
            starts += [self.part(a, axes[k], n) for n in count] or [self.whole(a)]
        before, after = eqn.invars[: loop.carry.start], eqn.invars[loop.carry.stop :]
        ins = [*map(self.whole, before), *starts, *map(self.whole, after)]
        # 2. The body, and the results of an iteration.
        first, count = len(loop.consts), len(loop.carry)
        body, graph = simplified(loop.body), _Apart()
        inner = graph.begin(body.invars, first, axes)
        graph.run(body, {body.outvars[k]: axis for k, axis in axes.items()})
        outs: list[Atom] = []
        results: list[tuple[Var, Parts | None]] = []
        for k, a in enumerate(body.outvars):
            axis = axes.get(k) if k < count else graph.axis_of(a)
            out = eqn.outvars[k]
            if axis is None:
                outs.append(graph.whole(a))
                results.append((out, None))
                continue
            n = a.aval.shape[axis]
            outs += [graph.part(a, axis, i) for i in range(n)]
            # Stacked elements have a leading axis of iterations.
            axis += k >= count
            aval = out.aval.update(shape=_without(out.aval.shape, axis))
            self.parts[out] = Parts(axis, [Var(aval) for _ in range(n)])
            results.append((out, self.parts[out]))
        body = body.replace(invars=inner, outvars=outs, eqns=graph.eqns)
        # 3. The condition.
        condition = loop.condition
        if condition is not None:
            test, flat = _Apart(), simplified(condition)
            inner = test.begin(flat.invars, len(loop.condition_consts), axes)
            test.run(flat)
            outs = [*map(test.whole, flat.outvars)]
            condition = flat.replace(invars=inner, outvars=outs, eqns=test.eqns)
        # 4. The loop.
        carry = range(loop.carry.start, loop.carry.start + len(starts))
        xs = range(carry.stop, carry.stop + len(loop.xs))
        changed = loop.replace(body=body, carry=carry, xs=xs, condition=condition)
        made = eqn.primitive.rewrite.loop
        assert made is not None
        outvars = [v for out, found in results for v in (found.each if found else [out])]
        whole = made(eqn, changed).replace(invars=ins, outvars=outvars)
        self.add(whole)
        return whole

    def begin(self, invars: Sequence[Var], first: int, axes: Axes) -> list[Var]:
        """The inputs of a Graph of a loop, whose carries begin at the input `first`."""
        found: list[Var] = []
        for number, v in enumerate(invars):
            axis = axes.get(number - first)
            if axis is None:
                found.append(v)
                continue
            aval = v.aval.update(shape=_without(v.aval.shape, axis))
            each = [Var(aval) for _ in range(v.aval.shape[axis])]
            self.parts[v] = Parts(axis, [*each])
            found += each
        return found


def _operations(eqn: Eqn) -> tuple[Primitive, Primitive]:
    """The multiplication and the addition of a product."""
    rules = eqn.primitive.rewrite.product
    assert rules is not None
    *_, product, total = rules.expanded(eqn)
    merge = chained(total)
    assert merge is not None
    return product.primitive, merge


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
