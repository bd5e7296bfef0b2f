"""Loops whose state is stacked: its components become separate carries.

Floor 3. In: a Graph. Out: an equivalent one in which a loop over `stack([x, v])` carries x and v,
if that lets the whole loop run in registers. Elements of x and v depend on one another, so it would
otherwise run iteration by iteration, each a launch or two.

Equations of the body are processed in order: a value exists as a whole, or in parts along one axis,
and is assembled only if needed as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuarray.compiler.fuse.loops import flow_group, simplified
from gpuarray.compiler.rewrite.index import GraphIndex
from gpuarray.compiler.rewrite.simplify import is_elementwise, simplify
from gpuarray.compiler.rewrite.small_axes import chained
from gpuarray.core.element_rules import ElementRule, rule_of
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, is_view
from gpuarray.core.index import Index
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build

#: The axes along which carries are split, by carry number.
Axes = dict[int, int]


class _Taken(NamedTuple):
    """An element of an operand, as requested by element rules."""

    operand: int
    at: tuple[Index, ...]


def _take(operand: int, at: Sequence[Index]) -> Any:
    return _Taken(operand, tuple(at))


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
    if loop is None or not axes or _is_kernel(eqn, index):
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


def _is_short(n: int) -> bool:
    return 2 <= n <= TARGET.carried_components


# ---- which carries to split ----
def _axes(loop: Loop) -> Axes:
    """The carries whose next values are made by stacking, or of others that are, and along which
    axes.
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
    """

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.parts: dict[Var, Parts] = {}
        self.same: dict[Var, Atom] = {}

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
    def run(self, graph: Graph) -> None:
        """All equations of a Graph."""
        for eqn in graph.eqns:
            ways = (self.elementwise, self.moved, self.fold, self.inside)
            if not any(way(eqn) for way in ways):
                # Unchanged, on whole values.
                self.add(eqn.replace(invars=[*map(self.whole, eqn.invars)]))

    def elementwise(self, eqn: Eqn) -> bool:
        """Component by component."""
        axes = {self.axis_of(a) for a in eqn.invars} - {None}
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
        rule = rule_of(eqn)
        if rule is None or eqn.primitive.kind not in (Kind.VIEW, Kind.MOVEMENT):
            return False
        if any(map(rule.where, range(len(eqn.invars)))):
            return False
        found: dict[Var, Atom | Parts] = {}
        for number, v in enumerate(eqn.outvars):
            made = self.moved_result(eqn, rule, number)
            if made is None:
                return False
            found[v] = made
        for v, made in found.items():
            if isinstance(made, Parts):
                self.parts[v] = made
            else:
                self.same[v] = made
        return True

    def moved_result(self, eqn: Eqn, rule: ElementRule, number: int) -> Atom | Parts | None:
        """One of its results; None if it is to be computed as a whole."""
        shape = eqn.outvars[number].aval.shape
        of_parts = any(self.axis_of(a) is not None for a in eqn.invars)
        at = [Index.axis(d, n) for d, n in enumerate(shape)]
        if of_parts:
            whole = self.taken(eqn, rule.make(eqn, number, at, _take), shape, at)
            if whole is not None:
                return whole
        for axis, n in enumerate(shape):
            if not _is_short(n) and not (of_parts and n == 1):
                continue
            rest = [i for d, i in enumerate(at) if d != axis]
            places = [[*at[:axis], Index(constant=k), *at[axis + 1 :]] for k in range(n)]
            parts = [rule.make(eqn, number, place, _take) for place in places]
            # A view of a whole gains nothing, unless all of its parts are the same.
            if eqn.primitive.kind is Kind.VIEW and not of_parts and len(set(parts)) > 1:
                continue
            each = [self.taken(eqn, x, _without(shape, axis), rest) for x in parts]
            if None not in each:
                return Parts(axis, each)  # pyright: ignore[reportArgumentType]
        return None

    def taken(
        self, eqn: Eqn, element: Any, shape: tuple[int, ...], at: Sequence[Index]
    ) -> Atom | None:
        """The value of this shape whose element at `at` is this one of an operand; None if that
        takes more than a reshaped part of the operand.
        """
        if not isinstance(element, _Taken):
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
        total, *rest = self.parts[eqn.invars[0]].each  # pyright: ignore[reportArgumentType]
        for x in rest:
            total = self.add(Eqn(merge, [total, x], [Var(out.aval)], {}, eqn.site))
        self.same[out] = total
        return True

    def inside(self, eqn: Eqn) -> bool:
        """An inner loop that carries split values."""
        loop = _loop_of(eqn)
        axes = {} if loop is None else _axes(loop)
        if loop is None or not axes:
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
        graph.run(body)
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


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
