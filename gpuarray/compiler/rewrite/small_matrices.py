"""Split many small matrices that are factorised or solved into their entries.

Floor 3. In: a simplified Graph. Out: an equivalent one in which an entry of all matrices of a stack
is one value: so a factorisation is pointwise, and fuses with preceding and following operations on
its entries. No library is called for each matrix.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray.compiler.rewrite.simplify import simplify
from gpuarray.compiler.rewrite.small_axes import chained
from gpuarray.core import dtypes
from gpuarray.core.element import (
    Access,
    Applied,
    Below,
    Constant,
    Guarded,
    InRegister,
    Lookup,
    Merged,
    SerialFold,
    Test,
)
from gpuarray.core.element_rules import rule_of
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var, storage_dtype
from gpuarray.core.index import Axis, Index
from gpuarray.core.primitive import Kind
from gpuarray.core.rewrite import Apart
from gpuarray.core.target import TARGET
from gpuarray.primitives.adding import Adder
from gpuarray.primitives.movement import build


def take_apart_small_matrices(graph: Graph) -> Graph:
    """The graph with factors and solutions of small matrices entry by entry; the same one if there
    are none.
    """
    if not any(map(_is_small, graph.eqns)):
        return graph
    return simplify(_Entries(graph).run())


def _is_small(eqn: Eqn) -> bool:
    """Whether an operation is on so many matrices, and so small ones, that a thread does each."""
    if eqn.primitive.rewrite.entries is None or not eqn.outvars[0].aval.size:
        return False
    *stack, rows, columns = eqn.invars[0].aval.shape
    return 0 < max(rows, columns) <= TARGET.matrix_side and (
        math.prod(stack) >= TARGET.products_many
    )


class _NotApartError(Exception):
    """An equation needs its operands whole."""


class _Entries:
    """The equations that are made so far, and which values they have by entry."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.eqns: list[Eqn] = []
        self.apart: dict[Var, Apart] = {}  # values that are known by entry
        self.whole: set[Var] = set()  # those of them that have been assembled
        self.constants: dict[Var, np.ndarray] = {}  # the numbers of those that are always the same
        self.cut: dict[tuple[Var, tuple[int, ...]], np.ndarray] = {}  # entries of whole values
        self.do = Adder(self.append)

    def run(self) -> Graph:
        g = self.graph
        for eqn in g.eqns:
            self.do.site = eqn.site
            self.note_constant(eqn)
            made = self.taken_apart(eqn)
            if made is None:
                self.put_together(eqn.invars)
                self.eqns.append(eqn)
            else:
                self.apart.update(zip(eqn.outvars, made, strict=True))
        self.put_together(g.outvars)
        return Graph(g.invars, g.outvars, self.eqns, g.constvars, g.consts, g.debug_name)

    def note_constant(self, eqn: Eqn) -> None:
        """Compute a small value that depends on no argument, such as a mask of the diagonal."""
        prim, (out, *more) = eqn.primitive, eqn.outvars
        kinds = (Kind.GENERATOR, Kind.POINTWISE, Kind.VIEW)
        if prim.kind not in kinds or more or prim.effect or prim.weight > TARGET.exact_weight:
            return
        if out.aval.size > TARGET.matrix_side**3 or not dtypes.in_kernels(out.aval.dtype):
            return
        values = []
        for a in eqn.invars:
            if isinstance(a, Var) and a not in self.constants:
                return
            known = a.val if isinstance(a, Literal) else self.constants[a]
            values.append(np.asarray(known, storage_dtype(a.aval)))
        function = prim.numpy_function([a.aval for a in eqn.invars], eqn.params)
        self.constants[out] = np.asarray(function(*values), storage_dtype(out.aval))

    # ---- which results are split ----
    def taken_apart(self, eqn: Eqn) -> Sequence[Apart] | None:
        """The results of an equation by entry; None if it is unchanged."""
        if _is_small(eqn):
            rule = eqn.primitive.rewrite.entries
            assert rule is not None
            return rule(eqn, lambda i, axes: self.entries(eqn.invars[i], axes), self.do)
        # Operations on entries continue with entries: views, choices among them, arithmetic, sums.
        for a in eqn.invars:
            if isinstance(a, Var) and a in self.apart:
                return self.carried_on(eqn, a)
        return None

    def carried_on(self, eqn: Eqn, operand: Var) -> list[Apart] | None:
        """The results of an equation by entry, given one operand by entry; None if it needs its
        operands whole.
        """
        shape = operand.aval.shape
        whole = [d for d in range(len(shape)) if d not in self.apart[operand].axes]
        lead = tuple(shape[d] for d in whole)
        if whole != list(range(whole[0], whole[0] + len(whole))):
            return None
        made, cut = len(self.eqns), len(self.cut)
        # Views may have moved the axes that are whole.
        for begin in sorted(range(eqn.outvars[0].aval.ndim), key=lambda d: d != whole[0]):
            try:
                return [self.result(eqn, k, lead, begin) for k in range(len(eqn.outvars))]
            except _NotApartError:
                # Drop the equations added for it.
                del self.eqns[made:]
                self.cut = dict(itertools.islice(self.cut.items(), cut))
        return None

    def result(self, eqn: Eqn, number: int, lead: tuple[int, ...], begin: int) -> Apart:
        """A result by entry, whose axes from `begin` on are whole and have the lengths `lead`."""
        shape = eqn.outvars[number].aval.shape
        whole = range(begin, begin + len(lead))
        axes = tuple(d for d in range(len(shape)) if d not in whole)
        short = tuple(shape[d] for d in axes)
        few = 0 < math.prod(short) <= TARGET.matrix_side**3
        if shape[begin : whole.stop] != lead or not few:
            raise _NotApartError
        if eqn.primitive.kind is Kind.REDUCTION:
            return Apart(axes, self.folded(eqn))
        rule = rule_of(eqn)
        # An operand that is searched in memory has to stay whole.
        if rule is None or any(rule.reads_of(eqn, k) is None for k in range(len(eqn.invars))):
            raise _NotApartError
        ahead = [Index.axis(i, n) for i, n in enumerate(lead)]
        made = np.empty(short, object)
        for place in np.ndindex(short):
            at = [Index(constant=c) for c in place]
            at[begin:begin] = ahead
            access = rule.make(
                eqn, number, at, lambda i, at: InRegister((eqn.invars[i], tuple(at)))
            )
            element = _Element(self, ahead, {}).computed(access)
            made[place] = self.spread([element], lead)[0]
        return Apart(axes, made)

    def folded(self, eqn: Eqn) -> np.ndarray:
        """A sum, or the like, over short axes: ((a + b) + c) + d."""
        (operand,), gone = eqn.invars, eqn.params["axes"]
        merge = chained(eqn)
        if merge is None or not isinstance(operand, Var) or operand not in self.apart:
            raise _NotApartError
        axes, entries = self.apart[operand]
        if not set(gone) <= set(axes):
            raise _NotApartError
        for axis in sorted((axes.index(d) for d in gone), reverse=True):
            parts = np.moveaxis(entries, axis, 0)
            entries = np.empty(parts.shape[1:], object)
            for place in np.ndindex(entries.shape):
                column = [parts[(k, *place)] for k in range(len(parts))]
                entries[place] = functools.reduce(
                    lambda x, y: self.do.add(merge, [x, y], {}), column
                )
        return entries

    # ---- values ----
    def append(self, eqn: Eqn) -> Var:
        self.eqns.append(eqn)
        return eqn.outvars[0]

    def spread(self, values: list[Atom], shape: tuple[int, ...] = ()) -> list[Atom]:
        """Values in one shape, by default that of the largest: scalars are broadcast."""
        shape = max((shape, *(x.aval.shape for x in values)), key=len)
        return [
            x if x.aval.shape == shape else self.append(build.broadcast(x, shape, (), self.do.site))
            for x in values
        ]

    def entries(self, a: Atom, axes: tuple[int, ...]) -> np.ndarray:
        """A value by the positions along these axes."""
        assert isinstance(a, Var)
        if a in self.apart and self.apart[a].axes == axes:
            return self.apart[a].entries
        if a in self.constants and len(axes) == a.aval.ndim:
            aval = a.aval.update(shape=())
            found = np.empty(a.aval.shape, object)
            for place in np.ndindex(found.shape):
                found[place] = Literal(self.constants[a][place], aval)
            return found
        if (a, axes) not in self.cut:
            self.put_together([a])
            self.cut[a, axes] = found = np.empty([a.aval.shape[d] for d in axes], object)
            left = tuple(n for d, n in enumerate(a.aval.shape) if d not in axes)
            for place in np.ndindex(found.shape):
                part = a
                for d, k in zip(axes, place, strict=True):
                    if part.aval.shape[d] > 1:
                        part = self.append(build.piece(part, d, k, 1, self.do.site))
                found[place] = self.append(build.reshape(part, left, self.do.site))
        return self.cut[a, axes]

    def put_together(self, atoms: Sequence[Atom]) -> None:
        """Make values whole that are known by entry."""
        for v in atoms:
            if not isinstance(v, Var) or v not in self.apart or v in self.whole:
                continue
            self.whole.add(v)
            (axes, entries), site = self.apart[v], self.do.site
            parts, lead = list(entries.flat), entries.flat[0].aval.shape
            if len(parts) == 1:
                self.append(build.reshape(parts[0], v.aval.shape, site, v))
                continue
            # The short axes merged, at the place of the first; then restored.
            at, short = axes[0], tuple(v.aval.shape[d] for d in axes)
            stack = Var(v.aval.update(shape=(*lead[:at], len(parts), *lead[at:])))
            self.append(build.stack(parts, at, site, stack))
            shape = (*lead[:at], *short, *lead[at:])
            if shape == v.aval.shape:
                self.append(build.reshape(stack, shape, site, v))
                continue
            # Axes that are whole are between them.
            joined = self.append(build.reshape(stack, shape, site))
            wide = [d for d in range(v.aval.ndim) if d not in axes]
            order = np.argsort([*wide[:at], *axes, *wide[at:]]).tolist()
            self.append(build.transpose(joined, tuple(order), site, v))


class _Element:
    """One element of a result as a value of all matrices.

    Parameters
    ----------
    ahead :
        Positions along the axes that are whole.
    loops :
        Positions in loops, which are written out.
    """

    def __init__(self, entries: _Entries, ahead: list[Index], loops: dict[Axis, int]):
        self.entries, self.ahead, self.loops = entries, ahead, loops
        self.do = entries.do

    def computed(self, access: Access) -> Atom:
        """The value of an access; those of operands are their numbers and places."""
        match access:
            case InRegister((a, at)):
                return self.operand(a, [self.bound(c) for c in at])
            case Constant():
                return Literal(access.value, access.aval.update(shape=()))
            case Guarded():
                return self.guarded(access.tests, access.inside, access.outside)
            case Applied(eqn=Eqn() as eqn, number=0) if eqn.primitive.kind is Kind.POINTWISE:
                operands = self.entries.spread([self.computed(x) for x in access.operands])
                return self.do.add(eqn.primitive, operands, eqn.params)
            case SerialFold(how=Merged(by=Eqn() as eqn), states=((_, first),), terms=(term,)):
                state = self.computed(first)
                for place in itertools.product(*(range(a.length) for a in access.loops)):
                    loops = self.loops | dict(zip(access.loops, place, strict=True))
                    turn = Applied((InRegister(state), term), access.aval, eqn=eqn)
                    inside = _Element(self.entries, self.ahead, loops)
                    state = inside.guarded(access.tests, turn, InRegister(state))
                return state
            case InRegister():
                return access.value
        raise _NotApartError

    def operand(self, a: Atom, at: Sequence[Index]) -> Atom:
        """An element of an operand, at a place that may have been looked up among a few."""
        if isinstance(a, Literal) or not a.aval.shape:
            return a
        ahead = self.ahead
        for begin in range(len(at) - len(ahead) + 1):
            if at[begin : begin + len(ahead)] == ahead:
                axes = tuple(d for d in range(len(at)) if not 0 <= d - begin < len(ahead))
                return self.chosen(self.entries.entries(a, axes), [at[d] for d in axes])
        # The same for all matrices.
        if a.aval.size > TARGET.matrix_side**3:
            raise _NotApartError
        return self.chosen(self.entries.entries(a, tuple(range(len(at)))), at)

    def chosen(self, entries: np.ndarray, at: Sequence[Index], place: tuple[int, ...] = ()) -> Atom:
        """The entry at a place, of which some positions may be known already."""
        if len(place) == len(at):
            return entries[place]
        index = at[len(place)]
        match index.terms:
            case ():
                return self.chosen(entries, at, (*place, index.constant))
            case ((Lookup() as looked, 1),) if entries.size <= TARGET.matrix_side**2:
                some = range(index.constant, index.constant + looked.most + 1)
                found = [self.chosen(entries, at, (*place, k)) for k in some]
                # Entries of a constant are numbers, wherever each matrix looks.
                *found, at_place = self.entries.spread([*found, self.computed(looked.access)])
                return self.do.among(found, at_place)
        raise _NotApartError

    def guarded(self, tests: Sequence[Test], inside: Access, outside: Access) -> Atom:
        """One of two elements."""
        known = [self.tested(t) for t in tests]
        if False in known:
            return self.computed(outside)
        unknown = [t for t in known if t is not True]
        if not unknown:
            return self.computed(inside)
        cases = [functools.reduce(self.do.and_, unknown), *map(self.computed, (inside, outside))]
        return self.do.where(*self.entries.spread(cases))

    def tested(self, test: Test) -> Atom | bool:
        """Whether a position is in bounds; True or False where that is known."""
        test = test.replace(index=self.bound(test.index))
        if test.always is not None:
            return test.always
        match test:
            case Below(Index(((Lookup() as looked, 1 | -1 as k),), c), bound):
                low, high = (-c, bound - 1 - c) if k == 1 else (c - bound + 1, c)
                # Out of bounds it is clamped, or one more than the largest.
                if looked.find:
                    low, high = max(low, 0), high
                    if high > looked.most:
                        raise _NotApartError
                else:
                    low = low if low > 0 else None
                    high = high if high < looked.most else None
                return self.do.between(self.computed(looked.access), low, high)
        raise _NotApartError

    def bound(self, index: Index) -> Index:
        """An index at an iteration of the loops."""
        turns: dict[Any, int] = {**self.loops}
        kept = tuple((a, k) for a, k in index.terms if a not in turns)
        # Lookups are computed at the current iteration; quotients and remainders are not.
        inside = {axis.number for axis in self.loops}
        if any(a.axes & inside for a, _ in kept if not isinstance(a, Lookup)):
            raise _NotApartError
        turn = sum(turns[a] * k for a, k in index.terms if a in turns)
        return Index(kept, index.constant + turn)
