"""Split axes, so that a reshape between elementwise work and reductions leaves no trace.

Floor 3. In: a simplified Graph. Out: an equivalent one, in which the values on both sides of such a
reshape have the axes of their common refinement: those of (n, h * d) that is reshaped to (n, h, d)
are n, h and d, wherever it is read. Both sides then fuse, as they run over the same axes.

Axes are preserved by pointwise operations, reductions, transposes and broadcasts. Other readers of
a value, and results of the program, see the original shape, by a reshape of the value in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from gpuarray.compiler.rewrite.simplify import is_elementwise
from gpuarray.core.fold import POSITION, Fold
from gpuarray.core.graph import Atom, Eqn, Graph, Var, is_view
from gpuarray.core.index import view_rule
from gpuarray.core.primitive import Kind
from gpuarray.core.target import TARGET
from gpuarray.primitives.movement import build


def split_axes(graph: Graph) -> Graph:
    """The graph with axes split where a reshape separated fusible equations; itself without any."""
    # Most graphs have no such reshape: they cost a walk or two.
    reshapes = [e for e in graph.eqns if e.primitive.kind is Kind.VIEW and _is_reshape(e)]
    roles = _Roles(graph) if reshapes else None
    walls = [e for e in reshapes if roles and roles.is_wall(e)]
    if roles is None or not walls:
        return graph
    axes = _Axes(roles, walls)
    # One that would split an axis in two different ways stays.
    if not sum([axes.pass_through(wall) for wall in walls]):
        return graph
    return _Writer(graph, roles, axes.parts()).run()


# ---- which reshapes ----


class _Role(Enum):
    """An equation's effect on axes."""

    EACH = auto()  # elementwise: operands and results have the same axes
    ALONG = auto()  # a scan or a sort: the same, one of which it runs along
    FOLDS = auto()  # a reduction: some go
    MOVES = auto()  # a transpose or broadcast: in another order, or new
    SPLITS = auto()  # a reshape that splits or joins some


_COMPUTES = (_Role.EACH, _Role.ALONG, _Role.FOLDS)


def _is_reshape(eqn: Eqn) -> bool:
    """Whether a view is all of its operand's memory in order, with axes split or joined."""
    before, after = eqn.invars[0].aval, eqn.outvars[0].aval
    if before.shape == after.shape or before.size != after.size or not is_view(eqn):
        return False
    rule = view_rule(eqn)
    return rule.keeps_order(eqn) and rule.order(eqn) is None


def _role(eqn: Eqn) -> _Role | None:
    kind = eqn.primitive.kind
    if kind is Kind.POINTWISE:
        role = _Role.EACH if is_elementwise(eqn) and not eqn.primitive.effect else None
    elif kind is Kind.REDUCTION:
        role = _Role.FOLDS
    elif kind in (Kind.SCAN, Kind.SORT):
        shape = eqn.outvars[0].aval.shape
        role = _Role.ALONG if all(a.aval.shape == shape for a in eqn.invars) else None
    elif not is_view(eqn):
        return None
    elif view_rule(eqn).order(eqn) is not None:
        role = _Role.MOVES
    else:
        role = _Role.SPLITS if _is_reshape(eqn) else None
    # Without elements there is nothing to gain, and lengths of 0 have no divisors.
    empty = 0 in eqn.invars[0].aval.shape or 0 in eqn.outvars[0].aval.shape if role else False
    return None if empty else role


def _axis_parameter(eqn: Eqn) -> str:
    """The name of the parameter for the axis of a scan or a sort."""
    order = eqn.primitive.order
    return "axis" if order is None else order.axis


class _Roles:
    """The effect of each equation of a graph on axes, computed on demand."""

    def __init__(self, graph: Graph):
        self.maker: dict[Atom, Eqn] = {}
        self.readers: dict[Atom, list[Eqn]] = {}
        self.known: dict[int, _Role | None] = {}
        for eqn in graph.eqns:
            for v in eqn.outvars:
                self.maker[v] = eqn
            for a in eqn.invars:
                if isinstance(a, Var):
                    self.readers.setdefault(a, []).append(eqn)

    def of(self, eqn: Eqn) -> _Role | None:
        """An equation's effect on axes; None if it needs its operands and results whole."""
        known = self.known
        if id(eqn) not in known:
            known[id(eqn)] = _role(eqn)
        return known[id(eqn)]

    def around(self, v: Atom) -> Iterator[Eqn]:
        """The equations that make or read a value."""
        if v in self.maker:
            yield self.maker[v]
        yield from self.readers.get(v, ())

    def is_wall(self, reshape: Eqn) -> bool:
        """Whether a reshape separates two computing equations, looking through other views."""
        if self.of(reshape) is not _Role.SPLITS:
            return False
        # Up to the first non-view, and down to the first equation that computes.
        top: Eqn | None = reshape
        while top is not None and self.of(top) in (_Role.MOVES, _Role.SPLITS):
            top = self.maker.get(top.invars[0])
        if top is None or self.of(top) not in _COMPUTES:
            return False
        waiting = [reshape]
        while waiting:
            for eqn in self.readers.get(waiting.pop().outvars[0], ()):
                role = self.of(eqn)
                if role in _COMPUTES:
                    return True
                if role is not None:
                    waiting.append(eqn)
        return False


# ---- which axes are the same, and where they are split ----


class _Block(NamedTuple):
    """Axes of a reshape's operand and of its result with the same positions, major first."""

    before: tuple[int, ...]
    after: tuple[int, ...]


#: An axis of a value: the value, and which of its axes.
_Place = tuple[Atom, int]


class _Axes:
    """Axes that are the same along the equations of a graph have one number; those at reshapes are
    looked for. An axis of length n that is cut at d, a divisor of n, is two: of n / d and of d
    positions.
    """

    def __init__(self, roles: _Roles, walls: Sequence[Eqn]):
        self.roles = roles
        # Runs of axes of both sides that have the same positions; runs of one are the same axis.
        self.runs = {id(e): _runs(e) for e in walls}
        self.numbers: dict[_Place, int] = {}
        self.lengths: list[int] = []
        self.places: list[list[_Place]] = []  # of each number
        self.whole: set[int] = set()  # those that must not be split
        self.cuts: dict[int, tuple[int, ...]] = {}  # where axes are split, ascending
        self.blocks: dict[int, list[_Block]] = {}  # by each axis in it

    def number(self, v: Atom, axis: int) -> int:
        """The number of an axis, and of all that are the same."""
        if (v, axis) in self.numbers:
            return self.numbers[v, axis]
        new = len(self.lengths)
        self.lengths.append(v.aval.shape[axis])
        self.numbers[v, axis] = new
        found = [(v, axis)]
        # An equation relates all axes together: look at it once for each axis of its space.
        seen: set[tuple[int, int]] = set()
        # The list grows during the loop: every axis that is found may lead to more.
        for value, d in found:
            for eqn in self.roles.around(value):
                for place in self._same(eqn, value, d, new, seen):
                    if place not in self.numbers:
                        self.numbers[place] = new
                        found.append(place)
        self.places.append(found)
        return new

    def _same(
        self, eqn: Eqn, v: Atom, axis: int, number: int, seen: set[tuple[int, int]]
    ) -> Iterable[_Place]:
        """The axes that correspond to one of a value along an equation."""
        role = self.roles.of(eqn)
        if role is _Role.ALONG and axis == eqn.params[_axis_parameter(eqn)]:
            self.whole.add(number)
        if role is _Role.EACH or role is _Role.ALONG:
            if (id(eqn), axis) in seen:
                return ()
            seen.add((id(eqn), axis))
            # A length of 1 is broadcast, and a scalar has no axis.
            n = v.aval.shape[axis]
            every = (*eqn.invars, *eqn.outvars)
            return [
                (a, axis)
                for a in every
                if isinstance(a, Var) and a.aval.shape and a.aval.shape[axis] == n
            ]
        if role is _Role.FOLDS:
            gone, (operand,) = eqn.params["axes"], eqn.invars
            kept = [d for d in range(operand.aval.ndim) if d not in gone]
            # A reduced axis ends here. Folds that know positions need it in one piece: a position
            # along two axes is another number.
            if v is operand and axis in gone:
                if _knows_positions(eqn.primitive.fold):
                    self.whole.add(number)
                return ()
            d = kept.index(axis) if v is operand else axis
            every = [(out, d) for out in eqn.outvars]
            return [*every, (operand, kept[d])] if isinstance(operand, Var) else every
        if role is _Role.MOVES:
            (operand,), (out,) = eqn.invars, eqn.outvars
            order = view_rule(eqn).order(eqn) or ()
            if v is operand:
                return [(out, d) for d, k in enumerate(order) if k == axis]
            k = order[axis]
            return () if k is None or not isinstance(operand, Var) else [(operand, k)]
        # Through a reshape that will be removed, only axes that neither side splits are preserved.
        if id(eqn) in self.runs:
            (operand,), (out,) = eqn.invars, eqn.outvars
            side, other = (0, out) if v is operand else (1, operand)
            return [
                (other, run[1 - side][0])
                for run in self.runs[id(eqn)]
                if run[side] == [axis] and len(run[1 - side]) == 1
            ]
        return ()

    def pass_through(self, wall: Eqn) -> bool:
        """Split axes until both sides of a reshape have the same; False, with nothing changed, if
        that splits one in two different ways, or one that must stay whole.
        """
        (operand,), (out,) = wall.invars, wall.outvars
        blocks = [
            _Block(
                tuple([self.number(operand, d) for d in before]),
                tuple([self.number(out, d) for d in after]),
            )
            for before, after in self.runs[id(wall)]
            if len(before) > 1 or len(after) > 1
        ]
        for block in blocks:
            for axis in {*block.before, *block.after}:
                self.blocks.setdefault(axis, []).append(block)
        # All or nothing: one reshape may contradict others that were accepted.
        cuts = self._closed(blocks)
        if cuts is not None:
            self.cuts = cuts
            return True
        for block in blocks:
            for axis in {*block.before, *block.after}:
                self.blocks[axis].remove(block)
        return False

    def _closed(self, blocks: Iterable[_Block]) -> dict[int, tuple[int, ...]] | None:
        """Where axes are split if both sides of these blocks, and of all accepted ones, are split
        alike; None if that is impossible.
        """
        # A worklist: a cut of one axis is a cut of every block that has it, until nothing changes.
        cuts, waiting = dict(self.cuts), list(blocks)
        while waiting:
            block = waiting.pop()
            # Where either side begins an axis, or splits one, counted in positions of the block.
            at: set[int] = set()
            for side in block:
                step = 1
                for axis in reversed(side):
                    at.update([step, *(step * d for d in cuts.get(axis, ()))])
                    step *= self.lengths[axis]
                at.add(step)
            places = sorted(at)
            # Places that do not divide each other, as of 24 = 4 x 6 = 6 x 4, have no axes in
            # common.
            if any(b % a for a, b in zip(places, places[1:], strict=False)):
                return None
            # Split each axis at the positions inside it, and look at the blocks that have it again.
            for side in block:
                step = 1
                for axis in reversed(side):
                    end = step * self.lengths[axis]
                    own = tuple(b // step for b in places if step < b < end)
                    if own != cuts.get(axis, ()):
                        # An axis that is cut anew passes that on to the other blocks it is in.
                        if axis in self.whole or len(own) >= TARGET.axis_parts:
                            return None
                        cuts[axis] = own
                        waiting += self.blocks[axis]
                    step = end
        return cuts

    def parts(self) -> dict[_Place, tuple[int, ...]]:
        """The lengths that each axis is split into, major first, where it is."""
        found: dict[_Place, tuple[int, ...]] = {}
        for axis, cuts in self.cuts.items():
            ends = (1, *cuts, self.lengths[axis])
            lengths = tuple(ends[k + 1] // ends[k] for k in reversed(range(len(ends) - 1)))
            found.update(dict.fromkeys(self.places[axis], lengths))
        return found


def _runs(wall: Eqn) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes on both sides of a reshape that have the same positions. Axes of
    length 1 have one everywhere, and are in none.
    """
    # From the major end: the shorter product takes another axis until both are equal.
    one, two = wall.invars[0].aval.shape, wall.outvars[0].aval.shape
    before, after = ([d for d, n in enumerate(shape) if n != 1] for shape in (one, two))
    found: list[tuple[list[int], list[int]]] = []
    while before:
        i = j = 1
        left, right = one[before[0]], two[after[0]]
        while left != right:
            if left < right:
                left *= one[before[i]]
                i += 1
            else:
                right *= two[after[j]]
                j += 1
        found.append((before[:i], after[:j]))
        before, after = before[i:], after[j:]
    return found


def _knows_positions(fold: Fold | None) -> bool:
    """Whether a reduction gives another result along two axes than along the one that they were
    split from, as it says where an element is.
    """

    def has_position(state: Any) -> bool:
        return any(map(has_position, state)) if isinstance(state, tuple) else state is POSITION

    return fold is None or has_position(fold.state) or "{1}" in str(fold.lift)


# ---- the graph with these axes ----


class _Writer:
    """Writes the equations again, along the axes that are left."""

    def __init__(self, graph: Graph, roles: _Roles, parts: Mapping[_Place, tuple[int, ...]]):
        self.graph, self.roles, self.known_parts = graph, roles, parts
        self.cut = {v for v, _ in parts}
        self.eqns: list[Eqn] = []
        # The replacement of each value: the same elements in the same order, along other axes.
        self.now: dict[Atom, Atom] = {}
        self.root: dict[Atom, Atom] = {}  # the operand of each reshape written here
        self.known: dict[tuple[Atom, tuple[int, ...]], Atom] = {}

    def run(self) -> Graph:
        write = {
            _Role.EACH: self.each,
            _Role.ALONG: self.goes_along,
            _Role.FOLDS: self.folds,
            _Role.MOVES: self.moves,
            _Role.SPLITS: self.splits,
            None: self.whole,
        }
        now, cut = self.now, self.cut
        for eqn in self.graph.eqns:
            # Most equations have nothing to do with any split axis: they are copied unchanged.
            ins, outs = eqn.invars, eqn.outvars
            if cut.isdisjoint(ins) and cut.isdisjoint(outs) and now.keys().isdisjoint(ins):
                self.eqns.append(eqn)
            else:
                write[self.roles.of(eqn)](eqn)
        g = self.graph
        outs = [self.along(a, a.aval.shape, None) for a in g.outvars]
        return Graph(g.invars, outs, self.eqns, g.constvars, g.consts, g.debug_name)

    # ---- values ----
    def split(self, a: Atom) -> tuple[int, ...]:
        """The shape of a value with its axes split."""
        return tuple(n for part in self.parts(a) for n in part)

    def parts(self, a: Atom) -> list[tuple[int, ...]]:
        """The lengths that each axis of a value is split into."""
        if a not in self.cut:
            return [(n,) for n in a.aval.shape]
        known = self.known_parts
        return [known.get((a, d), (n,)) for d, n in enumerate(a.aval.shape)]

    def along(self, a: Atom, shape: tuple[int, ...], site: Any) -> Atom:
        """A value with the elements of `a`, in the same order, in another shape."""
        a = self.now.get(a, a)
        if a.aval.shape == shape:
            return a
        # The operand of a reshape is reshaped, so that equal views of one value are found.
        base = self.root.get(a, a)
        if base.aval.shape == shape:
            return base
        known = self.known.get((base, shape))
        if known is None:
            self.eqns.append(build.reshape(base, shape, site))
            known = self.known[base, shape] = self.eqns[-1].outvars[0]
            self.root[known] = base
        return known

    def add(self, eqn: Eqn, ins: Sequence[Atom], outs: Sequence[Var], params: dict) -> None:
        """Write an equation with other operands and results, or unchanged."""
        for old, new in zip(eqn.outvars, outs, strict=True):
            if new is not old:
                self.now[old] = new
        same = all(a is b for a, b in zip(ins, eqn.invars, strict=True))
        if not same or any(a is not b for a, b in zip(outs, eqn.outvars, strict=True)):
            eqn = Eqn(eqn.primitive, ins, outs, params, eqn.site)
        self.eqns.append(eqn)

    def results(self, eqn: Eqn) -> list[Var]:
        """Variables for the results with their axes split; the existing ones if none is."""
        shapes = [self.split(v) for v in eqn.outvars]
        return [
            v if v.aval.shape == shape else Var(v.aval.update(shape=shape))
            for v, shape in zip(eqn.outvars, shapes, strict=True)
        ]

    # ---- equations ----
    def whole(self, eqn: Eqn) -> None:
        ins = [self.along(a, a.aval.shape, eqn.site) for a in eqn.invars]
        self.add(eqn, ins, eqn.outvars, eqn.params)

    def each(self, eqn: Eqn) -> None:
        out = self.parts(eqn.outvars[0])
        ins: list[Atom] = []
        for a in eqn.invars:
            # Where an operand has length 1 it has it along each part of the result's axis.
            shape = [
                part if n != 1 else (1,) * len(part)
                for n, part in zip(a.aval.shape, out, strict=False)
            ]
            ins.append(self.along(a, tuple(n for part in shape for n in part), eqn.site))
        self.add(eqn, ins, self.results(eqn), eqn.params)

    def goes_along(self, eqn: Eqn) -> None:
        name = _axis_parameter(eqn)
        # That axis is whole: it has one part.
        (axis,) = _numbered(self.parts(eqn.outvars[0]))[eqn.params[name]]
        ins = [self.along(a, self.split(a), eqn.site) for a in eqn.invars]
        self.add(eqn, ins, self.results(eqn), {**eqn.params, name: axis})

    def folds(self, eqn: Eqn) -> None:
        (operand,) = eqn.invars
        numbers = _numbered(self.parts(operand))
        axes = tuple(k for d in eqn.params["axes"] for k in numbers[d])
        operand = self.along(operand, self.split(operand), eqn.site)
        self.add(eqn, [operand], self.results(eqn), {**eqn.params, "axes": axes})

    def moves(self, eqn: Eqn) -> None:
        (operand,), (out,) = eqn.invars, eqn.outvars
        before, after = self.parts(operand), self.parts(out)
        if all(len(part) == 1 for part in (*before, *after)):
            self.add(eqn, [self.along(operand, operand.aval.shape, eqn.site)], [out], eqn.params)
            return
        # Axes of length 1 are dropped, the others transposed, and new ones added by a broadcast.
        full = [part if part != (1,) else () for part in before]
        numbers, places = _numbered(full), _numbered(after)
        order = view_rule(eqn).order(eqn) or ()
        kept = [(k, d) for d, k in enumerate(order) if k is not None and full[k]]
        moved = tuple(n for k, _ in kept for n in numbers[k])
        dims = tuple(n for _, d in kept for n in places[d])
        a = self.along(operand, tuple(n for part in full for n in part), eqn.site)
        if moved != tuple(range(len(moved))):
            self.eqns.append(build.transpose(a, moved, eqn.site))
            a = self.eqns[-1].outvars[0]
        shape = self.split(out)
        if a.aval.shape != shape:
            self.eqns.append(build.broadcast(a, shape, dims, eqn.site))
            a = self.eqns[-1].outvars[0]
        self.now[out] = a

    def splits(self, eqn: Eqn) -> None:
        # Written where it is read, if there it is a reshape at all.
        self.now[eqn.outvars[0]] = self.now.get(eqn.invars[0], eqn.invars[0])


def _numbered(parts: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each axis, the numbers of its parts among all parts."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return [list(range(a, b)) for a, b in zip(ends, ends[1:], strict=False)]
